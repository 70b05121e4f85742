# SPDX-License-Identifier: MIT
#
# The tests of test_metrics.sh.
import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time

import openmetrics
from metrics_crowd import (one_look, polled, silent, slow, stopped,
                           takes_nothing)
from metrics_http import (answers, both_of_loopback, command_line, hostile,
                          meant, negotiates, parsed, refused, same_in_both,
                          socket_activation, unix_socket)
from metrics_kit import (BUILD, ROOT, TMP, Broker, Client, Exporter, Skip, Tap,
                         end_all, figure, http, need, same, scrape, until,
                         works)

PAGE = 64 << 10
POOLS = ["main", "other"]
tap = Tap()


def get(values, name, **labels):
    return values[name, tuple(sorted(labels.items()))]


def once(broker, *args):
    p = subprocess.run([f"{BUILD}/kvcache-exporter", "-d", broker.path,
                        "--once", *args], capture_output=True, timeout=60)
    need(p.returncode == 0, p.stderr)
    return p.stdout


def expect(values, name, number, **labels):
    got = get(values, name, **labels)
    need(got == number, name, labels, "is", got, "instead of", number)


# ---- numbers ----------------------------------------------------------------

def limit(pages, page):
    return float("inf") if pages is None else pages * page


def compare_pools(values, broker):
    """What kvcachectl says of pools; the series that were looked at."""
    pools = broker.json("pool", "ls")
    expect(values, "kvcache_ledger_sequence", pools["seq"])
    for p in pools["pools"]:
        page, at = p["page_bytes"], {"pool": p["name"]}
        for name, want in {
                "page_size_bytes": page, "size_bytes": p["pages"] * page,
                "capacity_bytes": p["capacity_pages"] * page,
                "waiters": p["waiters"], "draining": p["draining"],
                "allocated_pages_total": p["allocs"],
                "reclaimed_pages_total": p["reclaims"],
                "lookups_total": p["lookups"],
                "hits_total": p["hits"]}.items():
            expect(values, "kvcache_pool_" + name, want, **at)
        for state in ("free", "private", "shared", "cached", "retiring"):
            expect(values, "kvcache_pool_state_bytes",
                   p[state + "_pages"] * page, state=state, **at)
    return len(pools["pools"]) * 14 + 1


def compare_tenants(values, broker):
    n, names = 0, set()
    for p in broker.json("tenant", "ls")["pools"]:
        for t in p["tenants"]:
            page, one = t["page_bytes"], {"tenant": t["name"]}
            at = {"pool": t["pool"], **one}
            for name in ("current", "cached", "peak", "min", "low", "max"):
                expect(values, f"kvcache_tenant_{name}_bytes",
                       limit(t[name + "_pages"], page), **at)
            for name, key in {
                    "waiters": "waiters", "limit_hits_total": "limit_hits",
                    "reclaimed_pages_total": "reclaimed_pages",
                    "revoked_pages_total": "revoked_pages",
                    "lookups_total": "lookups", "hits_total": "hits"}.items():
                expect(values, "kvcache_tenant_" + name, t[key], **at)
            for name in ("clients", "grants"):
                expect(values, "kvcache_tenant_" + name, t[name], **one)
            expect(values, "kvcache_tenant_ttl_seconds",
                   limit(t["ttl_ns"], 1e-9), **one)
            names.add(t["name"])
            n += 12
    return n + 3 * len(names)


def compare_counters(values, admin):
    n = 0
    for i, pool in enumerate(POOLS):
        c, at = admin.counters(i), {"pool": pool}
        expect(values, "kvcache_ledger_sequence", c["seq"])
        expect(values, "kvcache_pool_unzeroed_bytes", c["unzeroed"] * PAGE,
               **at)
        for name, key in {
                "lost": "lost", "freed": "frees", "published": "publishes",
                "deduplicated": "dedups", "expired": "expired",
                "revoked": "revokes",
                "volatile_reclaimed": "volatile"}.items():
            expect(values, f"kvcache_pool_{name}_pages_total", c[key], **at)
        for name, key, causes in (
                ("reclaims_by_cause", "reclaims",
                 "own expired above_low above_min last"),
                ("refusals", "refusals",
                 "over_max no_room never_possible draining"),
                ("waits", "waits", "granted timed_out refused ended")):
            for cause, want in zip(causes.split(), c[key], strict=True):
                expect(values, f"kvcache_pool_{name}_total", want,
                       cause=cause, **at)
                n += 1
        total = 0
        for k, times in enumerate(c["times"]):
            total += times
            le = "+Inf" if k == 14 else "%.9g" % (4 ** k / 1e6)
            expect(values, "kvcache_pool_wait_seconds_bucket", total, le=le,
                   **at)
        expect(values, "kvcache_pool_wait_seconds_count", sum(c["waits"]),
               **at)
        expect(values, "kvcache_pool_wait_seconds_sum", c["wait_ns"] / 1e9,
               **at)
        n += 8 + 17
    return n


def compare(where, broker, admin):
    """Every number of a scrape, with nothing left that is not compared."""
    values = openmetrics.values(parsed(scrape(where)))
    n = compare_pools(values, broker) + compare_tenants(values, broker) + \
        compare_counters(values, admin)
    expect(values, "kvcache_inconsistent_looks_total", 0)
    same(len(values), n + 1, "series that were compared")
    ps = broker.json("ps")["pools"][0]["clients"]
    for t in {k[1][0][1] for k in values if k[0] == "kvcache_tenant_clients"}:
        expect(values, "kvcache_tenant_clients",
               sum(c["tenant"] == t for c in ps), tenant=t)
    return values


def waits(client, nr, deadline):
    t = threading.Thread(target=client.alloc, args=(nr, 0, deadline))
    t.start()
    return t


def world(broker):
    """Pages in every state, requests that wait, fail and end, two tenants."""
    a, b = Client(broker.path, "a"), Client(broker.path, "b.b-0_9")
    pages = a.alloc(40)
    held = a.publish(pages[:20])
    a.free(held[:10])
    b.alloc(3, 1)
    got = b.alloc(100), b.alloc(45), a.alloc(40)
    same(got, (-errno.E2BIG, -errno.ENOSPC, -errno.EDQUOT), "refusals")
    return a, b


# ---- one look after the other -----------------------------------------------

def consistent(values):
    """What is true of each moment, whoever works."""
    for pool in POOLS:
        at, size = {"pool": pool}, get(values, "kvcache_pool_size_bytes",
                                       pool=pool)
        by = {s: get(values, "kvcache_pool_state_bytes", state=s, **at)
              for s in ("free", "private", "shared", "cached", "retiring")}
        same(sum(by.values()), size, pool)
        held = get(values, "kvcache_pool_allocated_pages_total", **at) - \
            get(values, "kvcache_pool_freed_pages_total", **at)
        same(held * PAGE, size - by["free"], pool, "pages that are not free")
        for name, key in (("current", size - by["free"] - by["retiring"]),
                          ("cached", by["cached"])):
            have = sum(v for (n, labels), v in values.items()
                       if n == f"kvcache_tenant_{name}_bytes"
                       and dict(labels)["pool"] == pool)
            need(have >= key if name == "current" else have == key, pool,
                 name, have, key)
        same(sum(v for (n, labels), v in values.items()
                 if n == "kvcache_pool_reclaims_by_cause_total"
                 and dict(labels)["pool"] == pool),
             get(values, "kvcache_pool_reclaimed_pages_total", **at), pool)


def under_load(where, broker):
    stop, failed, last = threading.Event(), [], {}
    t = threading.Thread(target=works, args=(broker, stop, failed))
    t.start()
    torn = 0
    try:
        for _ in range(40):
            families = parsed(scrape(where))
            values = openmetrics.values(families)
            if get(values, "kvcache_inconsistent_looks_total") == torn:
                consistent(values)
            torn = get(values, "kvcache_inconsistent_looks_total")
            for key, v in values.items():
                if key[0].endswith(("_total", "_bucket", "_count", "_sum")):
                    need(v >= last.get(key, 0), key, last.get(key), "to", v)
            last = values
    finally:
        stop.set()
        t.join()
    need(not failed, failed)
    need(get(last, "kvcache_pool_reclaimed_pages_total", pool="main") > 0,
         "no work was done")
    need(torn < 40, "no look was of one moment")


# ---- the documentation ------------------------------------------------------

def table():
    """{name: (type, labels)} of metrics.rst."""
    text = open(f"{ROOT}/Documentation/admin-guide/metrics.rst").read()
    rows = re.findall(r"^``(kvcache_\w+)``(?: \\\*)? +(gauge|counter|histogram)"
                      r"  +((?:\w+(?:, )?)+|\\)  ", text, re.M)
    return {n: (t, set() if lb == "\\" else set(lb.split(", ")))
            for n, t, lb in rows}, text


def documented(where):
    families = parsed(scrape(where))
    rows, text = table()
    same(sorted(rows), sorted(families), "metrics.rst")
    for name, f in families.items():
        labels = {k for _, ls in f.samples for k, _ in ls} - {"le"}
        same(rows[name], (f.type, labels), name)
    used = {k for f in families.values() for _, ls in f.samples for k, _ in ls}
    same(used, {"pool", "tenant", "state", "cause", "le"}, "labels")
    m = re.search(r"(\d+) \+ (\d+) P \+ (\d+) T \+ (\d+) P T", text)
    n = [int(x) for x in m.groups()]
    pools, tenants = len(POOLS), 2
    same(sum(len(f.samples) for f in families.values()),
         n[0] + n[1] * pools + n[2] * tenants + n[3] * pools * tenants,
         "series")


def used_by_rules(where):
    """Rules and dashboard know no metric that is not there."""
    names = {n for n, _ in openmetrics.values(parsed(scrape(where)))}
    at = f"{ROOT}/tools/kvcache-exporter"
    d = json.load(open(f"{at}/grafana-dashboard.json"))
    exprs = [t["expr"] for p in d["panels"] for t in p["targets"]]
    exprs += [v["query"]["query"] for v in d["templating"]["list"]
              if isinstance(v["query"], dict)]
    need(len(exprs) > 15, exprs)
    rules = open(f"{at}/alerts.yml").read()
    need("expr:" in rules, rules)
    exprs += re.findall(r"expr: *((?:>-\n)?(?:.*\n)(?: {10}.*\n)*)", rules)
    found = set()
    for e in exprs:
        mine = set(re.findall(r"\bkvcache_\w+", e))
        need(mine or "up{" in e, "no metric:", e)
        need(mine <= names, mine - names, "in", e)
        found |= mine
    need(len(found) > 15, found)
    alerts = set(re.findall(r"alert: (\w+)", rules))
    told = set(re.findall(r"^``(Kvcache\w+)``", table()[1], re.M))
    same(alerts, told, "alerts in metrics.rst")


# ---- once -------------------------------------------------------------------

def one_print(broker):
    same(once(broker, "--format", "openmetrics"),
         once(broker, "--format", "openmetrics"), "nobody works")
    parsed(once(broker), True)
    out = os.path.join(TMP, "out")
    os.mkdir(out)
    for _ in range(2):
        once(broker, "-o", f"{out}/k.prom")
        same(os.listdir(out), ["k.prom"], "files")
        same(os.stat(f"{out}/k.prom").st_mode & 0o777, 0o644, "mode")
        same(open(f"{out}/k.prom", "rb").read(), once(broker), "file")
    refused("No such file", "-d", broker.path, "--once", "-o",
            f"{out}/none/k.prom")
    refused("modprobe", "-d", f"{TMP}/none", "--once", "-o", f"{out}/k.prom")
    same(open(f"{out}/k.prom", "rb").read(), once(broker), "it is the last one")
    same(os.listdir(out), ["k.prom"], "files")


def few_tenants():
    """The others are summed up in one, which has no counters."""
    broker = Broker("--pool", "main=4M,page=64K", "--pool", "more=1M,page=64K",
                    "--tenant", "a,min=1M", "--tenant", "b,max=1M,ttl=1s",
                    "--tenant", "c,min=64K,max=2M", "--tenant", "d,low=128K",
                    name="few")
    clients = [Client(broker.path, t) for t in "abcd"]
    for i, c in enumerate(clients):
        c.free(c.publish(c.alloc(i + 3))[:i])
    all_of = openmetrics.values(parsed(once(broker), True))
    few = openmetrics.values(parsed(once(broker, "--max-tenants", "1"), True))
    tenant = {k for k in few if "tenant" in dict(k[1])}
    same({dict(k[1])["tenant"] for k in tenant}, {"a", "(rest)"}, "tenants")
    for name, labels in tenant:
        d = dict(labels)
        if d["tenant"] == "a":
            want = get(all_of, name, **d)
        else:
            need(not name.endswith("_total"), name, "can go back")
            want = sum(get(all_of, name, **{**d, "tenant": t}) for t in "bcd")
        same(few[name, labels], want, name, labels)
    same(get(few, "kvcache_tenant_current_bytes", tenant="(rest)",
             pool="main"), (4 + 5 + 6) * PAGE)
    same({n for n, labels in few if dict(labels).get("tenant") == "(rest)"},
         {n for n, labels in tenant if not n.endswith("_total")
          and n != "kvcache_tenant_ttl_seconds"}, "what the rest has")
    same(once(broker, "--max-tenants", "4"), once(broker), "as many")
    for c in clients:
        c.close()
    broker.end()


def as_nobody(broker, *args):
    """What user 65534 sees, who has no capability."""
    if os.geteuid():
        raise Skip("only root can become another user")
    if not os.path.exists("/usr/bin/setpriv"):
        raise Skip("no setpriv")
    return subprocess.run(
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
         f"{TMP}/x", "-d", broker.path, "--once", "--format", "openmetrics",
         *args], capture_output=True, timeout=60)


def a_stranger(broker):
    """Who is of no tenant sees pools, and no tenant."""
    p = as_nobody(broker)
    need(p.returncode == 0, p.stderr)
    families = parsed(p.stdout)
    values = openmetrics.values(families)
    same([k for k in values if "tenant" in dict(k[1])], [], "tenants")
    need("kvcache_pool_waits" not in families, sorted(families))
    want = openmetrics.values(parsed(once(broker), True))
    for key in values:
        same(values[key], want[key], key)
    for pool in POOLS:
        need(get(values, "kvcache_pool_size_bytes", pool=pool) > 0, pool)
    p = as_nobody(broker, "--tenant", "none")
    same((p.returncode, p.stdout), (1, b""), p.stderr)
    need(b"there is none of this name" in p.stderr, p.stderr)


def a_member(broker):
    """Who may not administer sees one tenant, and no more of pools."""
    broker.ctl("tenant", "set", "b.b-0_9", "--owner", "65534")
    p = as_nobody(broker)
    need(p.returncode == 0, p.stderr)
    families = parsed(p.stdout)
    need("kvcache_pool_waits" not in families and
         "kvcache_pool_hits" in families, sorted(families))
    same({k[1][0][1] for k in openmetrics.values(families)
          if k[0] == "kvcache_tenant_clients"}, {"b.b-0_9"}, "tenants")


# ---- the backend is gone ----------------------------------------------------

def gone_and_back(where, broker, exporter):
    broker.end()
    for _ in range(2):
        status, fields, body = http(where)
        same(status, 503, body)
        need(b"start kvcache-broker" in body, body)
    same(http(where, "/healthz")[0], 200, "alive")
    new = Broker("--pool", "new=1M,page=64K")
    values = openmetrics.values(parsed(scrape(where)))
    expect(values, "kvcache_pool_size_bytes", 1 << 20, pool="new")
    # Nobody looked in between: who does is not told of it.
    new.end(signal.SIGKILL)
    new = Broker("--pool", "newer=1M,page=64K")
    expect(openmetrics.values(parsed(scrape(where))),
           "kvcache_pool_size_bytes", 1 << 20, pool="newer")
    same(len(exporter.said().splitlines()), 3, exporter.said())
    new.ctl("pool", "rm", "newer")
    values = openmetrics.values(parsed(scrape(where)))
    need(not [k for k in values if k[1]], "no pools, and", values)
    new.end()


# ---- many -------------------------------------------------------------------

def pages_can_be(wanted):
    """A page is an open file of the broker, which leaves a quarter of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if wanted * 4 // 3 + 100 > hard:
        try:
            hard = wanted * 4 // 3 + 100
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        except (ValueError, OSError):
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return min(wanted, hard * 3 // 4 // 1000 * 1000)


def many():
    """One scrape of so many is soon there."""
    tenants, pages = 1000, pages_can_be(100000)
    broker = Broker("--pool", f"main={pages * 64}K,page=64K", name="many")
    admin = Client(broker.path)
    for i in range(tenants):
        err, _ = admin.create(f"tenant-{i:04}")
        need(not err, "create", err)
    used = pages // 10
    holders = [Client(broker.path, f"tenant-{i * 37 % tenants:04}")
               for i in range(10)]
    for c in holders:
        got = []
        while len(got) < used // 10:
            got += c.alloc(min(200, used // 10 - len(got)))
        c.free(c.publish(got[:len(got) // 2]))
    x = Exporter(broker.path, log="many-exporter.log")
    times = []
    for _ in range(7):
        # As nobody polls it: looks have pauses between them.
        time.sleep(0.3)
        begin = time.monotonic()
        body = scrape(x.port)
        times.append(time.monotonic() - begin)
    values = openmetrics.values(parsed(body))
    same(sum(n == "kvcache_tenant_clients" for n, _ in values), tenants)
    consistent_sum = sum(v for (n, _), v in values.items()
                         if n == "kvcache_tenant_current_bytes")
    same(consistent_sum, used * PAGE, "charged")
    median = sorted(times[2:])[2]
    figure(f"metrics: {tenants} tenants, {pages} pages: one scrape "
           f"{median * 1e3:.1f} ms (median of 5), {len(body)} bytes, "
           f"{len(values)} series")
    for c in holders:
        c.close()
    admin.close()
    same(x.end(), 0, x.said())
    broker.end()
    need(median < 0.1, "one scrape takes", median)


# ---- all --------------------------------------------------------------------

def all_tests():
    broker = Broker("--pool", "main=4M,page=64K", "--pool", "other=2M,page=64K",
                    "--tenant", "a,min=1M,low=2M,max=3M",
                    "--tenant", "b.b-0_9,ttl=1500ms,max=max")
    os.chmod(TMP, 0o755)
    os.chmod(broker.path, 0o666)
    subprocess.run(["cp", f"{BUILD}/kvcache-exporter", f"{TMP}/x"], check=True)
    x = Exporter(broker.path)
    at, admin = x.port, Client(broker.path)

    tap.check("an empty ledger", compare, at, broker, admin)
    a, b = world(broker)
    tap.check("pages in all states", compare, at, broker, admin)
    late = waits(b, 40, time.monotonic_ns() + 300_000_000)
    need(until(lambda: broker.json("pool", "ls")["pools"][0]["waiters"]),
         "nobody waits")
    tap.check("a request that waits", compare, at, broker, admin)
    late.join()
    tap.check("a request that waited", compare, at, broker, admin)
    tap.check("the same in both texts", same_in_both, at)
    tap.check("the table of the documentation", documented, at)
    tap.check("rules and dashboard", used_by_rules, at)
    tap.check("a print", one_print, broker)
    tap.check("few tenants have series", few_tenants)
    a.close()
    b.close()
    tap.check("under load", under_load, at, broker)
    tap.check("which text is wanted", negotiates, at)
    tap.check("answers", answers, at)
    tap.check("requests that are none", hostile, at, x)
    tap.check("whom a request means", meant, at)
    tap.check("clients that are slow", slow, at, x)
    tap.check("400 that are silent", silent, at, x)
    tap.check("one look for all who ask", one_look, at, broker)
    tap.check("clients that poll", polled, broker)
    tap.check("what is refused", command_line, broker)
    tap.check("a Unix socket", unix_socket, broker)
    tap.check("both addresses of loopback", both_of_loopback, broker)
    tap.check("sockets that were passed", socket_activation, broker)
    tap.check("one who is of no tenant", a_stranger, broker)
    tap.check("a member of a tenant", a_member, broker)
    tap.check("a broker that was stopped", stopped, broker)
    admin.close()
    tap.check("a broker that is gone, and back", gone_and_back, at, broker, x)
    tap.check("it ends", lambda: same(x.end(), 0, x.said()))
    tap.check("a thousand tenants", many)
    crowd = Broker("--pool", "main=4M,page=64K", "--pool", "more=1M,page=64K",
                   name="crowd")
    admin = Client(crowd.path)
    for i in range(4090):
        admin.create(f"tenant-{i:04}")
    tap.check("clients that take nothing", takes_nothing, crowd)
    admin.close()
    crowd.end()


try:
    all_tests()
finally:
    end_all()
sys.exit(tap.end())
