# SPDX-License-Identifier: MIT
#
# Tests of kvcache-exporter's sockets, and of what comes through them.
import os
import re
import signal
import socket
import subprocess

import openmetrics
from metrics_kit import (BUILD, OPENMETRICS, TMP, Exporter, Process, Skip,
                         http, need, raw, same, scrape)


def parsed(body, older=False):
    return openmetrics.parse(body, older)


# ---- HTTP -------------------------------------------------------------------

def negotiates(where):
    om, text = "application/openmetrics-text; version=1.0.0; charset=utf-8", \
        "text/plain; version=0.0.4; charset=utf-8"
    prometheus = ("application/openmetrics-text;version=1.0.0,"
                  "application/openmetrics-text;version=0.0.1;q=0.75,"
                  "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
    for accept, want in {
            prometheus: om, OPENMETRICS: om, "*/*": text, "": text,
            "application/openmetrics-text": om,
            "APPLICATION/OpenMetrics-Text ; VERSION=1.0.0 ; Q=0.5": om,
            "application/openmetrics-text;version=0.0.1": text,
            "application/openmetrics-text;q=0, text/plain": text,
            "text/plain, application/openmetrics-text;q=0.9": text,
            "text/plain;q=0.1,application/openmetrics-text;q=0.2": om,
            "image/png": text, ",;=,;;q": text, "text/plain;" * 200: text
    }.items():
        status, fields, body = http(where, Accept=accept)
        same((status, fields["content-type"]), (200, want), accept)
        parsed(body, want == text)
    status, fields, body = http(where)
    same(fields["content-type"], text, "no Accept")


def same_in_both(where):
    """The older text has the same samples, and no others."""
    same(openmetrics.values(parsed(scrape(where, "text/plain"), True)),
         openmetrics.values(parsed(scrape(where))), "texts")


def answers(where):
    for path, method, status, words in (
            ("/", "GET", 200, "/metrics"), ("/healthz", "GET", 200, "ok"),
            ("/-/healthy", "GET", 200, "ok"), ("/nope", "GET", 404, "/metrics"),
            ("/metrics/", "GET", 404, "no such page"),
            ("/metrics?x=1", "GET", 200, "kvcache_ledger_sequence"),
            ("/..%2f..%2fetc/passwd", "GET", 404, "no such page"),
            ("/metrics", "POST", 405, "use GET"),
            ("/metrics", "DELETE", 405, "use GET"),
            ("/nope", "PUT", 405, "use GET")):
        got = http(where, path, method)
        same(got[0], status, path, method)
        need(words in got[2].decode(), path, got[2][:100])
        same(got[1]["connection"], "close", path)
        if status == 405:
            same(got[1]["allow"], "get, head", path)
    status, fields, body = http(where, method="HEAD", Accept=OPENMETRICS)
    same((status, body), (200, b""), "HEAD")
    # The time between two looks changes nothing: nobody works.
    same(int(fields["content-length"]), len(scrape(where)), "HEAD")
    raw(where, b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: "
        b"99999999\r\n\r\n" + b"x" * 100000)


def hostile(where, exporter):
    for request in (b"\r\n\r\n", b"\0" * 100, b"GET\r\n\r\n", b"\xff" * 3000,
                    b"GET /metrics HTTP/9.9\r\n\r\n", b"GET " + b"/" * 20000,
                    b"GET /metrics HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 60000 +
                    b"\r\n\r\n",
                    b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 5000 +
                    b"\r\n"):
        got = raw(where, request, len(request) < 10000)
        need(b" 200 " not in got[:20], request[:50], got[:100])
        if len(request) > 10000 and got:
            need(re.match(rb"HTTP/1.[01] 4", got), request[:50], got[:100])
    need(exporter.p.poll() is None, "it ended")
    parsed(scrape(where))


def meant(where):
    """A page of another site that has a name for 127.0.0.1."""
    port = where if isinstance(where, int) else where[1]
    for host in ("localhost", "LocalHost", f"localhost:{port}", "127.0.0.1",
                 f"127.0.0.1:{port}", "127.1.2.3", "[::1]", f"[::1]:{port}"):
        same(http(where, "/healthz", host=host)[0], 200, host)
    for host in ("evil.example", f"evil.example:{port}", "", "localhost.evil",
                 "127.0.0.1.evil", "localhost:1:2", "[::1", "[::1]x", "[::2]",
                 "10.0.0.1", "127.1", ":80", "localhost:x", "a" * 300):
        for path in ("/metrics", "/healthz", "/", "/nope"):
            status, fields, body = http(where, path, host=host)
            same(status, 403, host, path)
            need(b"ask for localhost" in body, host, body)
    # Who speaks 1.0 need not say whom he means, and no browser does.
    need(b" 200 " in raw(where, b"GET /healthz HTTP/1.0\r\n\r\n")[:20], "1.0")


# ---- where it listens -------------------------------------------------------

def refused(words, *args, status=1, env=None):
    p = subprocess.run([f"{BUILD}/kvcache-exporter", *args], text=True,
                       capture_output=True, timeout=10,
                       env={**os.environ, **(env or {})})
    same((p.returncode, p.stdout), (status, ""), args, p.stderr)
    need(words in p.stderr and len(p.stderr.splitlines()) <= 2, args, p.stderr)


def command_line(broker):
    d = ("-d", broker.path)
    for where in ("0.0.0.0:9961", "[::]:9961", "192.0.2.1:80", "[2001:db8::1]:9"):
        refused("--allow-remote", *d, "--listen", where)
    for where in ("", "x", "0", "65536", "-1", "localhost:80", "127.0.0.1",
                  "127.0.0.1:", ":80", "[::1:80", "::1:80", "127.1:80", "1e3"):
        refused("give a PORT", *d, "--listen", where)
    refused("give a path", *d, "--listen", "unix:")
    refused("longer than", *d, "--listen", "unix:" + "a" * 200)
    refused("is no socket", *d, "--listen", "unix:" + broker.log)
    refused("listens there: stop it", *d, "--listen", "unix:" + broker.path)
    for args, words in {
            ("--mode", "0777"): "0660", ("--mode", ""): "0660",
            ("--group", "no such"): "no such group",
            ("--group", ""): "no such group",
            ("--max-tenants", "0"): "whole number",
            ("--max-tenants", "x"): "whole number",
            ("--format", "xml"): "openmetrics", ("x",): "--help",
            ("--once", "--listen", "1"): "nowhere",
            ("-o", "x"): "--once", ("--format", "text"): "--once",
            ("-d", ""): "give the path", ("-t", ""): "name of a tenant",
            ("--nothing",): "unrecognized"}.items():
        refused(words, *args, status=2)
    refused("seen by it alone", "-d", "local")
    refused("seen by it alone", env={"KVCACHE": "local:bytes=1M"})
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        refused("end what listens", *d, "--listen",
                f"127.0.0.1:{s.getsockname()[1]}")


def unix_socket(broker):
    path = os.path.join(TMP, "made", "exporter")
    x = Exporter(broker.path, "--listen=unix:" + path, "--mode", "0600",
                 log="unix.log")
    same(os.stat(path).st_mode & 0o777, 0o600, "mode")
    compared = parsed(scrape(path))
    need("kvcache_pool_waits" in compared, sorted(compared))
    same(http(path, host="any.example")[0], 200, "its mode says who may")
    refused("another exporter", "-d", broker.path, "--listen", "unix:" + path)
    same(x.end(), 0, x.said())
    need(not os.path.exists(path), "it is still there")
    x = Exporter(broker.path, "--listen=unix:" + path, log="unix.log")
    same(os.stat(path).st_mode & 0o777, 0o660, "mode")
    x.end(signal.SIGKILL)
    mine = os.getgroups()[-1] if os.geteuid() else 12345
    x = Exporter(broker.path, "--listen=unix:" + path, "--group", str(mine),
                 log="unix2.log")
    same(os.stat(path).st_gid, mine, "group")
    parsed(scrape(path))
    same(x.end(), 0, x.said())


def both_of_loopback(broker):
    with socket.socket(socket.AF_INET6) as s:
        try:
            s.bind(("::1", 0))
        except OSError as e:
            raise Skip(f"[::1]: {e}")
        port = s.getsockname()[1]
    x = Exporter(broker.path, f"--listen={port}", log="both.log")
    same(scrape(port), scrape(("::1", port)), "addresses")
    meant(("::1", port))
    same(x.end(), 0, x.said())


def passed(broker, sock, *args, log="passed.log"):
    """As systemd starts it: the socket is descriptor 3."""
    def child():
        os.dup2(sock.fileno(), 3)
        os.set_inheritable(3, True)
        os.environ["LISTEN_PID"] = str(os.getpid())

    shell = 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@"'
    return Process(["sh", "-c", shell, f"{BUILD}/kvcache-exporter", "-d",
                    broker.path, *args], log, close_fds=False,
                   preexec_fn=child)


def socket_activation(broker):
    path = os.path.join(TMP, "passed")
    for family, at in ((socket.AF_INET, ("127.0.0.1", 0)),
                       (socket.AF_UNIX, path)):
        with socket.socket(family) as s:
            s.bind(at)
            s.listen()
            where = path if family == socket.AF_UNIX else s.getsockname()[1]
            x = passed(broker, s)
            parsed(scrape(where))
            same(x.end(), 0, x.said())
    need(os.path.exists(path), "it is not its own to remove")
    with socket.socket() as s:
        s.bind(("0.0.0.0", 0))
        s.listen()
        x = passed(broker, s, log="any.log")
        same(x.p.wait(20), 1, x.said())
        need("--allow-remote" in x.said(), x.said())
        x.end()
        x = passed(broker, s, "--listen", "1", log="any2.log")
        same(x.p.wait(20), 1, x.said())
        need("leave it out" in x.said(), x.said())
        x.end()
        x = passed(broker, s, "--allow-remote", log="any3.log")
        parsed(scrape(s.getsockname()[1]))
        same(http(s.getsockname()[1], host="any.example")[0], 200, "remote")
        same(x.end(), 0, x.said())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        x = passed(broker, s, log="datagram.log")
        same(x.p.wait(20), 1, x.said())
        need("ListenStream=" in x.said(), x.said())
        x.end()
