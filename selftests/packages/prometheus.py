# SPDX-License-Identifier: MIT
#
# The tests of test_prometheus.sh. Its argument is where prometheus is.
import json
import os
import re
import subprocess
import sys
import urllib.parse

import alert_states
import openmetrics
from metrics_kit import (ROOT, TMP, Broker, Client, Exporter, Process,
                         Tap, end_all, free_port, http, need, raw, same, scrape,
                         until)

BIN = sys.argv[1]
ALERTS = f"{ROOT}/tools/kvcache-exporter/alerts.yml"
tap = Tap()


def promtool(*args, feed=b""):
    p = subprocess.run([f"{BIN}/promtool", *args], input=feed,
                       capture_output=True, timeout=60)
    out = (p.stdout + p.stderr).decode()
    same(p.returncode, 0, args, out)
    return out


class Prometheus(Process):
    def __init__(self, target):
        self.port = free_port()
        config = os.path.join(TMP, "prometheus.yml")
        with open(config, "w") as f:
            f.write(f"""global:
  scrape_interval: 1s
  evaluation_interval: 1s
rule_files: ["{ALERTS}"]
scrape_configs:
  - job_name: kvcache
    static_configs:
      - targets: ["127.0.0.1:{target}"]
""")
        promtool("check", "config", config)
        super().__init__([f"{BIN}/prometheus", f"--config.file={config}",
                          f"--storage.tsdb.path={TMP}/data",
                          f"--web.listen-address=127.0.0.1:{self.port}",
                          "--log.level=warn"], "prometheus.log")
        need(until(self.ready, 60), self.said())

    def ready(self):
        need(self.p.poll() is None, self.said())
        try:
            return http(self.port, "/-/ready", Connection="close")[0] == 200
        except OSError:
            return False

    def api(self, path, **query):
        query = urllib.parse.urlencode(query)
        # 1.0, so that the answer comes in one piece.
        got = raw_json(self.port, f"/api/v1/{path}?{query}")
        same(got["status"], "success", path, query, got)
        return got["data"]

    def query(self, expr):
        return self.api("query", query=expr)["result"]

    def stored(self):
        """{(name, labels): number} of the last scrape."""
        got = {}
        for r in self.query('{__name__=~"kvcache_.+"}'):
            m = dict(r["metric"])
            same((m.pop("job"), m.pop("instance")[:10]),
                 ("kvcache", "127.0.0.1:"), r)
            name = m.pop("__name__")
            if "le" in m:
                m["le"] = float(m["le"])
            got[name, tuple(sorted(m.items()))] = float(r["value"][1])
        return got


def raw_json(port, path):
    got = raw(port, f"GET {path} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
    return json.loads(got.partition(b"\r\n\r\n")[2])


def told(port):
    """What the exporter says, in the same form."""
    got = {}
    for (name, labels), v in openmetrics.values(
            openmetrics.parse(scrape(port))).items():
        labels = tuple((k, float(x) if k == "le" else x) for k, x in labels)
        got[name, labels] = v
    return got


def stores_the_same(prometheus, exporter):
    """Nobody works, so both say the same sooner or later."""
    want = told(exporter.port)
    key = "kvcache_ledger_sequence", ()
    need(until(lambda: prometheus.stored().get(key) == want[key], 30),
         "no samples", prometheus.said())
    have = prometheus.stored()
    same(sorted(have, key=str), sorted(want, key=str), "series")
    for k, v in want.items():
        same(have[k], v, k)
    need(len(want) > 100, len(want))


def knows_types(prometheus, exporter):
    families = openmetrics.parse(scrape(exporter.port))
    meta = prometheus.api("metadata")
    for f in families.values():
        # It keeps counters by the names of their samples, or of their family.
        m = meta.get(f.name) or meta.get(f.name + "_total")
        need(m, f.name, "has no metadata")
        same((m[0]["type"], m[0]["help"], m[0]["unit"]),
             (f.type, f.help, f.unit or ""), f.name)


def rules_are_well(prometheus):
    rules = [r for g in prometheus.api("rules")["groups"] for r in g["rules"]]
    names = re.findall(r"(?:alert|record): ([\w:]+)", open(ALERTS).read())
    same([r["name"] for r in rules], names, "rules")
    need(until(lambda: all(
        r["health"] == "ok" for g in prometheus.api("rules")["groups"]
        for r in g["rules"])), prometheus.api("rules"))
    same([r["lastError"] for r in rules if r.get("lastError")], [], "errors")


def dashboard_shows(prometheus):
    """Each of its queries finds something."""
    d = json.load(open(f"{ROOT}/tools/kvcache-exporter/"
                       "grafana-dashboard.json"))
    for p in d["panels"]:
        for t in p["targets"]:
            expr = t["expr"].replace("$__rate_interval", "30s")
            for name in ("instance", "pool", "tenant"):
                expr = expr.replace(f"${name}", ".*")
            need("$" not in expr, expr)
            need(until(lambda: prometheus.query(expr)), p["title"], expr)
            labels = set(re.findall(r"{{(\w+)}}", t["legendFormat"]))
            for r in prometheus.query(expr):
                need(labels <= set(r["metric"]), p["title"], r["metric"])


def rules_by_their_tests():
    text = open(f"{ROOT}/selftests/packages/alerts_test.yml").read()
    path = os.path.join(TMP, "alerts_test.yml")
    with open(path, "w") as f:
        f.write(text.replace("@ALERTS@", ALERTS))
    need("SUCCESS" in promtool("test", "rules", path), "no success")
    tested = set(re.findall(r"alertname: (\w+)", text))
    same(tested, set(re.findall(r"alert: (\w+)", open(ALERTS).read())),
         "alerts that have a test")


def rules_on_a_ledger():
    """Each state that a client can make: what fires, and what does not."""
    notes = re.findall(r'alert: (\w+)\n(?:.*\n)*?.* summary: "(.*)"\n'
                       r'.* description: "(.*)"\n', open(ALERTS).read())
    alert_states.all_states(ALERTS, {n: (s, d) for n, s, d in notes}, promtool)


def metrics_are_clean(exporter):
    older = scrape(exporter.port, "text/plain")
    same(promtool("check", "metrics", feed=older), "", "check metrics")
    # It can find fault.
    p = subprocess.run([f"{BIN}/promtool", "check", "metrics"],
                       input=older.replace(b"_total", b"_sum"),
                       capture_output=True)
    need(p.returncode, "a wrong text is clean")


def rules_are_clean():
    out = promtool("check", "rules", ALERTS)
    need(re.search(r"SUCCESS: \d+ rules found", out), out)
    need("WARN" not in out.upper() and "FAIL" not in out, out)


def down_and_up(prometheus, broker):
    up = 'up{job="kvcache"}'
    need(prometheus.query(up)[0]["value"][1] == "1", "it is up")
    broker.end()
    need(until(lambda: prometheus.query(up)[0]["value"][1] == "0"),
         "it is still up")
    need(until(lambda: [a for a in prometheus.api("alerts")["alerts"]
                        if a["labels"]["alertname"] == "KvcacheExporterDown"
                        and a["state"] == "pending"]), "no alert")
    again = Broker("--pool", "again=1M,page=64K")
    need(until(lambda: prometheus.query(
        'kvcache_pool_size_bytes{pool="again"} == 1048576')), "no new pool")
    need(until(lambda: not prometheus.api("alerts")["alerts"]),
         prometheus.api("alerts"))
    again.end()


def work(broker):
    a, b = Client(broker.path, "a"), Client(broker.path, "b")
    for _ in range(30):
        pages = a.alloc(8)
        a.free(a.publish(pages))
    b.alloc(3, 1)
    b.alloc(60)
    return a, b


def all_tests():
    broker = Broker("--pool", "main=2M,page=64K", "--pool",
                    "other=2M,page=64K", "--tenant", "a,low=512K,max=1M",
                    "--tenant", "b,ttl=10s")
    exporter = Exporter(broker.path)
    tap.check("promtool check metrics", metrics_are_clean, exporter)
    tap.check("promtool check rules", rules_are_clean)
    tap.check("promtool test rules", rules_by_their_tests)
    tap.check("rules on a ledger", rules_on_a_ledger)
    prometheus = Prometheus(exporter.port)
    tap.check("samples arrive", stores_the_same, prometheus, exporter)
    clients = work(broker)
    tap.check("they are what was told", stores_the_same, prometheus, exporter)
    tap.check("types, units and help", knows_types, prometheus, exporter)
    tap.check("rules are evaluated", rules_are_well, prometheus)
    tap.check("the dashboard has something to show", dashboard_shows,
              prometheus)
    for c in clients:
        c.close()
    tap.check("a broker that is gone, and back", down_and_up, prometheus,
              broker)
    tap.check("nothing to complain about",
              lambda: same([x for x in prometheus.said().splitlines()
                            if "level=error" in x], [], "log"))
    tap.check("it ends", lambda: same(exporter.end(), 0, exporter.said()))
    prometheus.end()


try:
    all_tests()
finally:
    end_all()
sys.exit(tap.end())
