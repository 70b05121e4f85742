# SPDX-License-Identifier: MIT
#
# What tests of metrics share: TAP, a broker, an exporter, HTTP, and clients that
# hold pages, through the library. $KVCACHE_BUILD is what was built, $TMP_DIR a
# folder of the test's own.
import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import time

BUILD = os.environ["KVCACHE_BUILD"]
TMP = os.environ["TMP_DIR"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))

# Commands, and members of their structs that are looked at: linux/kvcache.h.
NR_ALLOC, NR_FREE = 0x10, 0x11
NR_PUBLISH, NR_TENANT_CREATE, NR_POOL_GET = 0x12, 0x20, 0x31
POOL_INFO = struct.Struct("<2I14Q2I64s")
POOL_GET = struct.Struct(f"<4IQ{POOL_INFO.size}s8Q5Q4Q4QQ15Q")
ALLOC = struct.Struct("<4IQQ256QQQ")
FREE = struct.Struct("<4I256Q")
PAGE = struct.Struct("<Q4IQ32s640sQII")
TENANT_SET = struct.Struct("<4IQ4I6QIIQ64s")
PUBLISH_HEAD = struct.Struct("<6I")


class Fail(Exception):
    pass


class Skip(Exception):
    """It cannot be tested here."""


def need(what, *why):
    if not what:
        raise Fail(" ".join(str(w) for w in why))


def same(a, b, *why):
    need(a == b, *why, repr(a), "instead of", repr(b))


def until(what, seconds=20):
    """What it returns once that is true; or the last."""
    end = time.monotonic() + seconds
    while True:
        got = what()
        if got or time.monotonic() > end:
            return got
        time.sleep(0.02)


# ---- TAP --------------------------------------------------------------------

class Tap:
    def __init__(self):
        self.n = self.bad = self.skipped = 0

    def check(self, name, test, *args):
        self.n += 1
        try:
            test(*args)
            print(f"ok {self.n} {name}", flush=True)
        except Skip as e:
            self.skipped += 1
            print(f"# SKIP {e}\nok {self.n} {name} # SKIP {e}", flush=True)
        except Exception as e:
            self.bad += 1
            at = e.__traceback__
            while at.tb_next and at.tb_next.tb_frame.f_code.co_name not in (
                    "need", "same"):
                at = at.tb_next
            print(f"# line {at.tb_lineno}: {type(e).__name__}: "
                  + str(e)[:2000].replace("\n", "\n# "))
            print(f"not ok {self.n} {name}", flush=True)

    def skip(self, name, why):
        self.n += 1
        self.skipped += 1
        print(f"# SKIP {why}\nok {self.n} {name} # SKIP {why}", flush=True)

    def end(self):
        print(f"1..{self.n}")
        return 1 if self.bad else 4 if self.skipped == self.n else 0


def figure(text):
    print(f"# figure {text}", flush=True)


# ---- processes --------------------------------------------------------------

class Process:
    """One that ends by its number, whatever happens."""
    all = []

    def __init__(self, args, log, env=None, **more):
        self.log = os.path.join(TMP, log)
        self.file = open(self.log, "wb")
        self.p = subprocess.Popen(args, stdin=subprocess.DEVNULL,
                                  stdout=self.file, stderr=self.file,
                                  env={**os.environ, **(env or {})}, **more)
        Process.all.append(self)

    def end(self, sig=signal.SIGTERM):
        if self.p.poll() is None:
            self.p.send_signal(sig)
            self.p.wait(20)
        self.file.close()
        if self in Process.all:
            Process.all.remove(self)
        return self.p.returncode

    def said(self):
        return open(self.log).read()


def end_all():
    for p in list(Process.all):
        p.end(signal.SIGKILL)


class Broker(Process):
    def __init__(self, *args, name="broker", **more):
        self.path = os.path.join(TMP, name)
        super().__init__([f"{BUILD}/kvcache-broker", "--socket", self.path,
                          *args], name + ".log", **more)
        # A path may be there that another one left.
        need(until(lambda: "started" in self.said()
                   or self.p.poll() is not None) and self.p.poll() is None,
             self.said())

    def ctl(self, *args):
        p = subprocess.run([f"{BUILD}/kvcachectl", "-d", self.path, *args],
                           capture_output=True, text=True, timeout=60)
        need(p.returncode == 0, args, p.stderr)
        return p.stdout

    def json(self, *args):
        return json.loads(self.ctl(*args, "--json"))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Exporter(Process):
    """At a free port of loopback, or where the arguments say."""

    def __init__(self, device, *args, log="exporter.log", **more):
        self.port = free_port()
        if not any(a.startswith("--listen") for a in args):
            args = (*args, "--listen", f"127.0.0.1:{self.port}")
        super().__init__([f"{BUILD}/kvcache-exporter", "-d", device, *args],
                         log, **more)
        need(until(lambda: "started" in self.said()
                   or self.p.poll() is not None) and self.p.poll() is None,
             self.said())


# ---- HTTP -------------------------------------------------------------------

def connect(where):
    """A port, ("::1", port) or a path."""
    if isinstance(where, str):
        s = socket.socket(socket.AF_UNIX)
    elif isinstance(where, tuple):
        s = socket.socket(socket.AF_INET6)
    else:
        s, where = socket.socket(), ("127.0.0.1", where)
    s.settimeout(30)
    s.connect(where)
    return s


def raw(where, request, last=False):
    """All that comes back; nothing if it was cut off. @last: no more comes."""
    got = b""
    with connect(where) as s:
        try:
            s.sendall(request)
            if last:
                s.shutdown(socket.SHUT_WR)
            while True:
                part = s.recv(1 << 16)
                if not part:
                    return got
                got += part
        except (ConnectionResetError, BrokenPipeError):
            return got


def http(where, path="/metrics", method="GET", host="localhost", **headers):
    """(status, headers, body)"""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    lines += [f"{k.replace('_', '-')}: {v}" for k, v in headers.items()]
    got = raw(where, ("\r\n".join(lines) + "\r\n\r\n").encode())
    head, _, body = got.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    fields = dict(r.lower().split(": ", 1) for r in rest)
    need(first.startswith("HTTP/1.1 "), got[:200])
    if method != "HEAD":
        same(len(body), int(fields["content-length"]), "body")
    return int(first.split()[1]), fields, body


OPENMETRICS = "application/openmetrics-text;version=1.0.0"


def scrape(where, accept=OPENMETRICS):
    status, fields, body = http(where, Accept=accept)
    same(status, 200, body[:200])
    return body


# ---- clients ----------------------------------------------------------------

class Opts(ctypes.Structure):
    _fields_ = [("sz", ctypes.c_size_t), ("flags", ctypes.c_uint32),
                ("tenant", ctypes.c_char_p), ("bytes", ctypes.c_uint64),
                ("page", ctypes.c_uint64), ("max", ctypes.c_uint64),
                ("msg", ctypes.c_char_p), ("msg_len", ctypes.c_size_t)]


def have_library():
    return os.path.exists(f"{BUILD}/libkvcache.so")


class Client:
    """A client of a tenant, or with none one that administers."""

    def __init__(self, where, tenant=None):
        self.lib = ctypes.CDLL(f"{BUILD}/libkvcache.so")
        self.ctx = ctypes.c_void_p()
        o = Opts(sz=ctypes.sizeof(Opts), flags=0 if tenant else 2,
                 tenant=tenant.encode() if tenant else None)
        err = self.lib.kvc_open(where.encode(), ctypes.byref(o),
                                ctypes.byref(self.ctx))
        need(not err, "kvc_open", tenant, err)

    def close(self):
        self.lib.kvc_close(self.ctx)
        self.ctx = None

    def call(self, nr, data):
        """(0 or -errno, the struct)"""
        buf = ctypes.create_string_buffer(bytes(data), len(data))
        return self.lib.kvc_call(self.ctx, nr, buf), buf.raw

    def alloc(self, nr, pool=0, deadline=0):
        """Handles; or -errno."""
        err, got = self.call(NR_ALLOC, ALLOC.pack(
            0, 0, pool, nr, deadline, 0, *[0] * 256, 0, 0))
        return err or list(ALLOC.unpack(got)[6:6 + nr])

    def free(self, pages, pool=0):
        for at in range(0, len(pages), 256):
            some = pages[at:at + 256]
            err, _ = self.call(NR_FREE, FREE.pack(
                0, 0, pool, len(some), *some, *[0] * (256 - len(some))))
            need(not err, "free", err)

    def publish(self, pages, pool=0):
        """Under keys that nobody has yet, or as their numbers say."""
        got = []
        for at in range(0, len(pages), 16):
            some = pages[at:at + 16]
            body = b"".join(PAGE.pack(
                p, 0, 1, 35, 0, (1 << 64) - 1, bytes(32),
                key_of(pool, p) + struct.pack("<II", 1, 0), 0, 0, 0)
                for p in some)
            err, out = self.call(NR_PUBLISH, PUBLISH_HEAD.pack(
                0, 0, pool, len(some), 0, 0) +
                body.ljust(16 * PAGE.size, b"\0"))
            need(not err, "publish", err)
            got += [PAGE.unpack_from(out, PUBLISH_HEAD.size + i * PAGE.size)[8]
                    for i in range(len(some))]
        return got

    def create(self, name):
        """A tenant of everybody's."""
        never = (1 << 64) - 1
        return self.call(NR_TENANT_CREATE, TENANT_SET.pack(
            0, 0, 0, 2, 0, 0, 0, 0, 0o444, 0, 0, never, never, never, 0, 0, 0,
            0, name.encode()))

    def counters(self, pool=0):
        err, got = self.call(NR_POOL_GET, POOL_GET.pack(
            0, 0, pool, 0, 0, b"", *[0] * 37))
        need(not err, "KVCACHE_POOL_GET", err)
        v = POOL_GET.unpack(got)
        names = ("unzeroed", "lost", "frees", "publishes", "dedups",
                 "expired", "revokes", "volatile")
        c = dict(zip(names, v[6:14]))
        c.update(reclaims=v[14:19], refusals=v[19:23], waits=v[23:27],
                 wait_ns=v[27], times=v[28:43], seq=v[4])
        return c


def works(broker, stop, failed):
    """Pages come and go until @stop."""
    try:
        c = Client(broker.path, "a")
        while not stop.is_set():
            pages = c.alloc(8)
            if isinstance(pages, list):
                c.free(c.publish(pages))
        c.close()
    except Exception as e:
        failed.append(e)


def key_of(pool, page):
    return struct.pack("<QQQQ", pool + 1, page, 1, 1)
