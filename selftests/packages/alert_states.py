# SPDX-License-Identifier: MIT
#
# States that alerts are about, made on a real ledger: each has a pool of its own,
# in which tenant "b" is who suffers, if anybody, and "a" who holds pages. What is
# scraped then goes to promtool as time series. Pages to be zeroed and pages lost
# cannot be made to stay so by a client: these have made-up series alone.
import os
import threading
import time

import openmetrics
from metrics_kit import (TMP, Broker, Client, Exporter, need, same, scrape,
                         until)

# {pool: pages, and the alerts that are to fire}
STATES = {
    # b waits for its own max, where there is room, and where there is less.
    "at-max": (400, set()),
    "at-max-tight": (160, set()),
    "late-at-max": (64, set()),
    # b waits, is late, is refused: a has the pool.
    "starves": (64, {"KvcacheTenantStarving"}),
    "late": (64, {"KvcacheWaitsTimeOut"}),
    "refused": (64, {"KvcachePoolRefuses"}),
    # b was promised what a had already.
    "below-min": (64, {"KvcacheTenantBelowMin", "KvcacheTenantStarving",
                       "KvcachePoolFull"}),
    "full": (64, {"KvcachePoolFull"}),
    "cached": (64, set()),
    # Free, and promised to a, who wants nothing of it.
    "promised": (64, {"KvcachePoolFull"}),
    "thrash": (64, {"KvcacheReclaimThrash"}),
}
POOLS = list(STATES)
# Nothing more happens there: what waits goes on to wait.
STILL = {"at-max", "at-max-tight", "starves", "below-min"}
PER_TENANT = {"KvcacheTenantStarving", "KvcacheTenantBelowMin"}
MINUTES = 30


def wait_for(client, nr, pool, deadline=60):
    """Begins to wait, in a thread."""
    t = threading.Thread(target=client.alloc, args=(
        nr, POOLS.index(pool), time.monotonic_ns() + int(deadline * 1e9)))
    t.start()
    return t


def held(client, nr, pool):
    got = []
    while len(got) < nr:
        some = client.alloc(min(64, nr - len(got)), POOLS.index(pool))
        need(isinstance(some, list), pool, some)
        got += some
    return got


class World:
    """A broker with all states."""

    def __init__(self):
        pools = [a for p, (n, _) in STATES.items()
                 for a in ("--pool", f"{p}={n * 64}K,page=64K")]
        self.broker = Broker(*pools, "--tenant", "a", "--tenant", "b",
                             name="states")
        self.a, self.b = (Client(self.broker.path, t) for t in "ab")
        self.threads = []

    def limit(self, tenant, pool, what, pages):
        self.broker.ctl("tenant", "set", tenant, "-p", pool, f"--{what}",
                        f"{pages * 64}K")

    def prepare(self):
        for pool, of_a, max_of_b, of_b in (
                ("at-max", 0, 128, 126), ("at-max-tight", 25, 128, 126),
                ("late-at-max", 0, 16, 14), ("starves", 60, 0, 0),
                ("late", 60, 0, 0), ("refused", 60, 0, 0),
                ("below-min", 60, 0, 0), ("full", 63, 0, 0)):
            if max_of_b:
                self.limit("b", pool, "max", max_of_b)
            held(self.a, of_a, pool)
            held(self.b, of_b, pool)
        self.limit("b", "below-min", "min", 32)
        self.limit("a", "promised", "min", 62)
        i = POOLS.index("cached")
        self.a.free(self.a.publish(held(self.a, 64, "cached"), i), i)

    def suffer(self):
        """What happens in each minute."""
        for pool in ("late", "late-at-max"):
            for _ in range(3):
                got = self.b.alloc(8, POOLS.index(pool),
                                   time.monotonic_ns() + 20_000_000)
                need(got != 0 and not isinstance(got, list), pool, got)
        for _ in range(3):
            got = self.b.alloc(8, POOLS.index("refused"))
            same(got, -28, "refused")
        i = POOLS.index("thrash")
        for _ in range(16):
            self.a.free(self.a.publish(held(self.a, 16, "thrash"), i), i)

    def begin_to_wait(self):
        waiting = {"at-max": 4, "at-max-tight": 4, "starves": 8,
                   "below-min": 8}
        self.threads = [wait_for(self.b, n, p) for p, n in waiting.items()]
        need(until(lambda: all(
            p["waiters"] == (p["name"] in waiting)
            for p in self.broker.json("pool", "ls")["pools"])), "waiters")

    def end(self):
        # Whoever waits is told.
        self.broker.end()
        for t in self.threads:
            t.join()
        for c in (self.a, self.b):
            c.close()


def take(port):
    return openmetrics.values(openmetrics.parse(scrape(port)))


def series_of(before, now):
    """What a minute brought goes on to come, but where nothing does."""
    lines = []
    for (name, labels), v in now.items():
        pool = dict(labels).get("pool")
        if name.endswith("_bucket") or not pool:
            continue
        first = before.get((name, labels), 0)
        counts = name.endswith(("_total", "_count", "_sum"))
        step = v - first if counts and pool not in STILL else 0
        text = ",".join(f'{k}="{x}"' for k, x in labels)
        values = "Inf " * MINUTES if v == float("inf") else \
            f"{first if counts else v} {v}+{step}x{MINUTES}"
        lines.append(f"      - series: '{name}{{{text}}}'\n"
                     f"        values: '{values}'\n")
    return "".join(lines)


def expected(alerts, rest):
    """YAML of what is to fire after all these minutes."""
    out = ""
    for name in alerts:
        out += f"      - alertname: {name}\n        eval_time: {MINUTES}m\n" \
               "        exp_alerts:"
        pools = [p for p, (_, a) in STATES.items() if name in a]
        # In the sum of others nobody is known to suffer.
        if rest and name in PER_TENANT | {"KvcacheWaitsTimeOut"}:
            pools = []
        out += "" if pools else " []"
        for p in pools:
            who = ", tenant: b" if name in PER_TENANT else ""
            more = {"KvcachePoolRefuses": ", cause: no_room"}.get(name, "")
            kind = "critical" if name == "KvcacheTenantBelowMin" else "warning"
            out += f"\n          - exp_labels: {{severity: {kind}, " \
                   f"pool: {p}{who}{more}}}\n" \
                   f"            exp_annotations: @{name}@{p}@"
        out += "\n"
    return out


def annotated(text, notes):
    """promtool compares sentences, as well."""
    for name, (summary, description) in notes.items():
        for p in POOLS:
            s = summary.replace("{{ $labels.pool }}", p) \
                .replace("{{ $labels.tenant }}", "b")
            text = text.replace(f"@{name}@{p}@", "\n"
                                f'              summary: "{s}"\n'
                                f'              description: "{description}"')
    return text


def write_test(alerts_yml, notes, before, now, rest):
    path = os.path.join(TMP, f"states{int(rest)}.yml")
    head = f"rule_files: ['{alerts_yml}']\nevaluation_interval: 1m\ntests:\n" \
           "  - interval: 1m\n    input_series:\n"
    body = series_of(before, now) + "    alert_rule_test:\n" + \
        expected([n for n in notes if n != "KvcacheExporterDown"], rest)
    with open(path, "w") as f:
        f.write(head + annotated(body, notes))
    return path


def all_states(alerts_yml, notes, promtool):
    w = World()
    w.prepare()
    x = Exporter(w.broker.path, log="states-exporter.log")
    few = Exporter(w.broker.path, "--max-tenants", "1", log="states-few.log")
    before = take(x.port), take(few.port)
    w.suffer()
    w.begin_to_wait()
    now = take(x.port), take(few.port)
    need(any('(rest)' in str(k) for k in now[1]), "no (rest)")
    w.end()
    for e in (x, few):
        same(e.end(), 0, e.said())
    for rest in (False, True):
        promtool("test", "rules", write_test(alerts_yml, notes, before[rest],
                                             now[rest], rest))
