#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Pools and tenants of /dev/kvcache.

usage: admin.py pool NAME PAGE_BYTES PAGES
       admin.py tenant NAME UID [MAX_PAGES]
"""
import fcntl
import struct
import sys

TENANT_CREATE, POOL_SET = 0x20, 0x30
LIMITS, OWNER = 1, 2
NO_LIMIT = NEVER = 2**64 - 1


def call(nr, size, head):
    """One command: its struct begins with its size, the rest is zeros."""
    arg = bytearray(size)
    arg[:4 + len(head)] = struct.pack("<I", size) + head
    with open("/dev/kvcache", "r+b", buffering=0) as dev:
        fcntl.ioctl(dev, 0xBD << 8 | nr, arg)
    return arg


def pool(name, page_bytes, pages):
    # flags, create (1), pool, kind, out_pool
    arg = call(POOL_SET, 112, struct.pack(
        "<5I3Q64s", 0, 1, 0, 0, 0, int(page_bytes), int(pages), 0,
        name.encode()))
    print(f"pool {struct.unpack_from('<I', arg, 20)[0]}")


def tenant(name, uid, maximum=NO_LIMIT):
    # flags, tenant, set, revision, pool 0, uid, gid, mode, min, low, max,
    # deadline, ttl, cgroup, trust, outputs, name
    arg = call(TENANT_CREATE, 168, struct.pack(
        "<3IQ4I6Q2IQ64s", 0, 0, LIMITS | OWNER, 0, 0, int(uid), 0, 0o400,
        0, 0, int(maximum), NEVER, NEVER, 0, 0, 0, 0, name.encode()))
    print(f"tenant {struct.unpack_from('<I', arg, 92)[0]}")


try:
    {"pool": pool, "tenant": tenant}[sys.argv[1]](*sys.argv[2:])
except (IndexError, KeyError, TypeError):
    sys.exit(__doc__.strip())
except OSError as error:
    sys.exit(f"admin.py: {error.strerror}")
