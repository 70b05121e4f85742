# SPDX-License-Identifier: MIT
#
# Is a screen of kvcachetop whole, and does it say what kvcachectl says?
#
#   top_screen.py ROWS COLUMNS POOLS.json TENANTS.json PS.json <SCREEN
#
# The screen counts pages (--pages). Every pool must be on it; of tenants and
# clients, those whose rows are, and all of them if their table has no "1-9/20".
import json
import re
import sys

rows, cols = int(sys.argv[1]), int(sys.argv[2])
pools = json.load(open(sys.argv[3]))["pools"]
tenants = {(t["name"], t["pool"]): t
           for p in json.load(open(sys.argv[4]))["pools"]
           for t in p["tenants"]}
clients = {(c["id"], c["pool"]): c
           for p in json.load(open(sys.argv[5]))["pools"]
           for c in p["clients"]}
lines = sys.stdin.read().rstrip("\n").split("\n")


def need(what, *more):
    if not what:
        sys.exit(" ".join(str(m) for m in more))


need(len(lines) <= rows, len(lines), "lines")
for n in lines:
    need(len(n) <= cols and n.isascii() and n.isprintable() or not n,
         "a broken line:", n)
need(lines[0].startswith("kvcachetop  "), "no title:", lines[0])
need(re.match(r"tenants \d+  clients \d+  waiting \d+  ", lines[1]),
     "no totals:", lines[1])

# Pools: a bar, and on the next line numbers, where there is room.
letters = {"private": "p", "shared": "s", "cached": "c", "retiring": "r",
           "free": "."}
at = 3
need(lines[2].startswith("POOL"), "no pools:", lines[2])
for p in pools:
    m = re.match(r"(\S+) +\[([pscr.]+)\] +(\d+) +\S+ +\S+$", lines[at])
    need(m, "no bar:", lines[at])
    need(m[1] == p["name"][:12] and int(m[3]) == p["pages"], lines[at], p)
    for state, letter in letters.items():
        need((letter in m[2]) == (p[state + "_pages"] > 0), lines[at], p)
    share = m[2].count(".") / len(m[2])
    need(abs(share - p["free_pages"] / p["pages"]) < 5 / len(m[2]),
         "bar", lines[at], p)
    at += 1
    if lines[at].startswith("  private"):
        want = "  " + "  ".join("%s %d" % (s, p[s + "_pages"]) for s in letters)
        need(lines[at].startswith(want + "  wait %d" % p["waiters"]),
             lines[at], p)
        at += 1


def table(at, first):
    """Rows as dicts by their headings, the end, and whether some are hidden."""
    need(lines[at].startswith(first), "no", first, "but", lines[at])
    head = lines[at].split()
    hidden = re.search(r"\d+-\d+/\d+$", lines[at])
    head = [h for h in head if re.fullmatch(r"[A-Z%/]+", h)]
    found = []
    at += 1
    while at < len(lines) and lines[at] and \
            not lines[at].startswith(("CLIENT", "q quit")):
        found.append((dict(zip(head, lines[at].split())), lines[at]))
        at += 1
    return found, at, hidden


def limit(v):
    return "max" if v is None else str(v)


found, at, hidden = table(at, "TENANT")
for row, line in found:
    t = tenants[row["TENANT"], row.get("POOL", pools[0]["name"])]
    need(row["USED"] == str(t["current_pages"]), line, t)
    for k in ("min", "low", "max"):
        need(row[k.upper()] == limit(t[k + "_pages"]), k, line, t)
    need(row["WAIT"] == str(t["waiters"]), line, t)
    if "CACHED" in row:
        need(row["CACHED"] == str(t["cached_pages"]), line, t)
    bar = line.split()[-1]
    need(re.fullmatch(r"[|c.mlM]+", bar), "no bar:", line)
    size = next(p["pages"] for p in pools if p["name"] == t["pool"])
    marked = t["max_pages"] is not None and 0 < t["max_pages"] <= size
    need(("M" in bar) == marked, "bar", line, t)
need(hidden or len(found) == len(tenants), len(found), "tenants of",
     len(tenants))
need(len({(r["TENANT"], r.get("POOL")) for r, _ in found}) == len(found),
     "a tenant twice")

found, at, hidden = table(at, "CLIENT")
for row, line in found:
    c = clients[int(row["CLIENT"]), row.get("POOL", pools[0]["name"])]
    for k, v in (("PID", c["pid"]), ("COMMAND", c["comm"]),
                 ("TENANT", c["tenant"]), ("PRIVATE", c["private_pages"]),
                 ("SHARED", c["shared_pages"]),
                 ("WAITS", c["waiting_pages"] or "-")):
        need(row[k] == str(v), k, line, c)
need(hidden or len(found) == len(clients), len(found), "clients of",
     len(clients))
