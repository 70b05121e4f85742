# SPDX-License-Identifier: MIT
#
# Tests of kvcache-exporter when many ask, or nobody answers it.
import os
import re
import selectors
import signal
import socket
import threading
import time

import openmetrics
from metrics_kit import (OPENMETRICS, Exporter, connect, figure, http, need,
                         same, scrape, until, works)

ASK = (f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {OPENMETRICS}"
       "\r\n\r\n").encode()


def body_of(s):
    """What comes until the end."""
    got = b""
    while True:
        part = s.recv(1 << 16)
        if not part:
            return got.partition(b"\r\n\r\n")[2]
        got += part


def fds(exporter):
    return len(os.listdir(f"/proc/{exporter.p.pid}/fd"))


# ---- silent -----------------------------------------------------------------

def slow(where, exporter):
    """A byte at a time: whoever has not asked within a second is cut off."""
    begin = time.monotonic()
    links = [connect(where) for _ in range(40)]
    for i, s in enumerate(links):
        s.sendall(b"GET /metrics HTTP/1.1\r\n" if i % 2 else b"G")
    ended = set()
    while len(ended) < 40 and time.monotonic() - begin < 60:
        for s in set(links) - ended:
            s.settimeout(0)
            try:
                s.send(b"a")
                if s.recv(100) == b"":
                    ended.add(s)
            except BlockingIOError:
                pass
            except OSError:
                ended.add(s)
        time.sleep(0.1)
    took = time.monotonic() - begin
    need(len(ended) == 40, len(ended), "ended")
    need(0.5 < took < 6, "cut off after", took)
    for s in links:
        s.close()
    openmetrics.parse(scrape(where))
    need(until(lambda: fds(exporter) < 20), fds(exporter), "descriptors")


class Silent(threading.Thread):
    """So many connections that say nothing, and begin anew once they are cut."""

    def __init__(self, port, nr):
        super().__init__()
        self.port, self.nr = port, nr
        self.stop, self.begun, self.cut = threading.Event(), 0, 0

    def one_more(self, sel):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(("127.0.0.1", self.port))
        sel.register(s, selectors.EVENT_READ)
        self.begun += 1

    def run(self):
        with selectors.DefaultSelector() as sel:
            for _ in range(self.nr):
                self.one_more(sel)
            while not self.stop.is_set():
                for key, _ in sel.select(0.1):
                    sel.unregister(key.fileobj)
                    key.fileobj.close()
                    self.cut += 1
                    self.one_more(sel)
            for key in list(sel.get_map().values()):
                key.fileobj.close()


def silent(where, exporter):
    """They keep nobody out: there is room, and more than that make room."""
    for nr in (400, 700):
        t = Silent(where, nr)
        t.start()
        try:
            need(until(lambda: t.begun >= nr), t.begun)
            times = []
            for _ in range(10):
                begin = time.monotonic()
                same(http(where, "/healthz")[0], 200)
                openmetrics.parse(scrape(where))
                times.append(time.monotonic() - begin)
                time.sleep(0.2)
            need(fds(exporter) < 700, fds(exporter), "descriptors")
        finally:
            t.stop.set()
            t.join()
        need(t.cut >= nr, t.cut, "of", nr, "were cut off")
        figure(f"metrics: {nr} silent connections: the slowest of 10 answers "
               f"took {max(times) * 1e3:.0f} ms")
        need(max(times) < 5, times)
    need(until(lambda: fds(exporter) < 20), fds(exporter), "descriptors")


# ---- many who ask -----------------------------------------------------------

def one_look(where, broker):
    """Who asks before a look begins is answered by it, as all others are."""
    stop, failed = threading.Event(), []
    t = threading.Thread(target=works, args=(broker, stop, failed))
    t.start()
    try:
        # The first one's look is under way: all others are of the next one.
        broker.p.send_signal(signal.SIGSTOP)
        links = [connect(where) for _ in range(32)]
        for s in links:
            s.sendall(ASK)
        time.sleep(0.5)
        broker.p.send_signal(signal.SIGCONT)
        seen = [body_of(s) for s in links]
    finally:
        broker.p.send_signal(signal.SIGCONT)
        stop.set()
        t.join()
    for s in links:
        s.close()
    need(not failed, failed)
    seqs = {re.search(rb"\nkvcache_ledger_sequence (\d+)", x)[1] for x in seen}
    need(len(seqs) <= 2, len(seqs), "looks for 32 who asked at once")
    same(len(set(seen)), len(seqs), "texts")
    openmetrics.parse(seen[-1])


def takes_nothing(broker):
    """Text that nobody takes is held once, and not without bounds."""
    # A sanitizer keeps what was freed, if it is not told otherwise.
    options = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"
    x = Exporter(broker.path, log="nothing.log", env={"ASAN_OPTIONS": options})
    size = len(scrape(x.port))
    links = []
    for _ in range(64):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", x.port))
        s.sendall(ASK)
        links.append(s)
        # One at a time, as far as that goes, so that each wants its own.
        time.sleep(0.1)
    openmetrics.parse(scrape(x.port))
    peak = re.search(r"VmHWM:\s*(\d+) kB",
                     open(f"/proc/{x.p.pid}/status").read())
    peak = int(peak[1]) >> 10
    figure(f"metrics: 64 connections that take nothing of {size} bytes: "
           f"at most {peak} MiB")
    need(64 * size >> 20 > 256, "too little to matter:", size)
    need(peak < 200, peak, "MiB")
    for s in links:
        s.close()
    same(x.end(), 0, x.said())


def cpu_of(p):
    f = open(f"/proc/{p.pid}/stat").read().rpartition(") ")[2].split()
    return (int(f[11]) + int(f[12])) / os.sysconf("SC_CLK_TCK")


def polled(broker):
    """However many ask all the time: the broker has others to serve."""
    x = Exporter(broker.path, log="polled.log")
    scrape(x.port)
    stop, n = threading.Event(), [0, 0, 0]

    def loop(i):
        while not stop.is_set():
            scrape(x.port)
            n[i] += 1

    threads = [threading.Thread(target=loop, args=(i,)) for i in range(3)]
    begin, cpu = time.monotonic(), cpu_of(broker.p)
    for t in threads:
        t.start()
    time.sleep(3)
    share = (cpu_of(broker.p) - cpu) / (time.monotonic() - begin)
    stop.set()
    for t in threads:
        t.join()
    figure(f"metrics: 3 clients poll: {sum(n)} answers in 3 s, the broker "
           f"works {share * 100:.1f} % of the time")
    need(min(n) > 1, n)
    need(share < 0.1, share)
    same(x.end(), 0, x.said())


# ---- nobody answers ---------------------------------------------------------

def stopped(broker):
    """A broker that does not go on hangs nobody but itself."""
    x, y = (Exporter(broker.path, log=f"stopped{i}.log") for i in range(2))
    openmetrics.parse(scrape(x.port))
    broker.p.send_signal(signal.SIGSTOP)
    try:
        # One that is connected, and one that is not.
        for e in (x, y):
            for _ in range(2):
                begin = time.monotonic()
                status, fields, body = http(e.port)
                took = time.monotonic() - begin
                same(status, 503, body)
                need(b"stopped" in body, body)
                need(took < 20, took)
                same(http(e.port, "/healthz")[0], 200)
        begin = time.monotonic()
        same(y.end(), 0, y.said())
        need(time.monotonic() - begin < 5, "it ended late")
    finally:
        broker.p.send_signal(signal.SIGCONT)
    need(until(lambda: http(x.port)[0] == 200), "it is not seen again")
    openmetrics.parse(scrape(x.port))
    same(x.end(), 0, x.said())
