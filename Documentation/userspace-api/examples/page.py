#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A page on /dev/kvcache: owned, written, published, found and read.

usage: page.py TENANT TEXT
"""
import fcntl
import mmap
import os
import struct
import sys

QUERY, ATTACH, ALLOC, FREE, PUBLISH, LOOKUP = 0, 1, 0x10, 0x11, 0x12, 0x13
NEVER = 2**64 - 1


def call(fd, nr, size, head):
    """One command: its struct begins with its size, the rest is zeros."""
    arg = bytearray(size)
    arg[:4 + len(head)] = struct.pack("<I", size) + head
    fcntl.ioctl(fd, 0xBD << 8 | nr, arg)
    return arg


tenant, text = sys.argv[1].encode(), sys.argv[2].encode()
fd = os.open("/dev/kvcache", os.O_RDWR)

# by name (2); flags, by, tenant, name
call(fd, ATTACH, 88, struct.pack("<III64s", 0, 2, 0, tenant))

# The first pool: page size, and where its two windows begin.
query = call(fd, QUERY, 3112, b"")
pool, _, page_size, nr_pages = struct.unpack_from("<IIQQ", query, 40)
rw_offset, ro_offset = struct.unpack_from("<QQ", query, 40 + 72)

# flags, pool, one page, no waiting
page, = struct.unpack_from(
    "<Q", call(fd, ALLOC, 2096, struct.pack("<IIIQ", 0, pool, 1, 0)), 32)
index = page & 0xFFFFFFFF

# Pages of 4 KiB to map: the one page, at its place in the window.
with mmap.mmap(fd, page_size, offset=rw_offset + index * page_size) as rw:
    rw[:len(text)] = text

# Under one key, which vouches for 16 tokens.
key = b"python".ljust(32, b"\0")
entry = struct.pack("<QIIIIQ32s32sII", page, 0, 1, 35, 0, NEVER, b"", key, 16, 0)
done = call(fd, PUBLISH, 11544, struct.pack("<IIIII", 0, pool, 1, 0, 0) + entry)
page, result = struct.unpack_from("<QI", done, 24 + 704)

# flags, pool, one key, one key a page, no tail
found = call(fd, LOOKUP, 12336,
             struct.pack("<IIIII8x32s", 0, pool, 1, 1, 0, key))
same, fill, domain = struct.unpack_from("<QII", found, 32 + 8192)
index = same & 0xFFFFFFFF
with mmap.mmap(fd, page_size, prot=mmap.PROT_READ,
               offset=ro_offset + index * page_size) as ro:
    print(f"page {index}: {ro[:len(text)].decode()!r}, {fill} tokens")

# Two references: what was published, and what was found.
call(fd, FREE, 2064, struct.pack("<IIIQQ", 0, pool, 2, page, same))
