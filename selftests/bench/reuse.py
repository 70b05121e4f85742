#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Conversations that share a prefix of 1,500 tokens, with and without reuse.

Each has 20 prompt tokens of its own after it and generates 64. kvcache-run
serves all of them at once; with --no-reuse it computes and holds the prefix
once for each. Throughput is generated tokens by the whole time, prefill
included; the time to the first token is the median over the conversations;
held is the most that was held at once. Runs with and without take turns;
figures are medians over the rounds.
"""
import json
import sys

import common

PREFIX = 1500
OWN = 20
TOKENS = 64
GOAL = 1.5


def serve(args, ids, n, *words):
    lines = [json.dumps({"id": str(i), "tokens": ids[:PREFIX] +
                         ids[PREFIX + i * OWN:PREFIX + (i + 1) * OWN]})
             for i in range(n)]
    out = common.run(args, "--requests", "-", "-n", str(TOKENS),
                     "--parallel", str(n), "--pool", "4G", *words,
                     stdin="\n".join(lines) + "\n")
    page_bytes = out["model"]["page_bytes"]
    return {"tokens_per_s": out["totals"]["tokens_per_s"],
            "first_ms": common.median(c["first_token_ms"]
                                      for c in out["conversations"]),
            "bytes": out["totals"]["pages_peak"] * page_bytes,
            "reused": out["totals"]["reused_tokens"],
            "page_bytes": page_bytes,
            "page_tokens": out["model"]["page_tokens"]}


def compare(args, ids, n):
    with_, without = [], []
    for i in range(args.rounds):
        common.progress(f"{n} conversations, round {i + 1} of {args.rounds}")
        without.append(serve(args, ids, n, "--no-reuse"))
        with_.append(serve(args, ids, n))
    row = {"conversations": n}
    for name, runs in (("with", with_), ("without", without)):
        row[name] = {key: common.median(run[key] for run in runs)
                     for key in runs[0]}
    for key, up in (("tokens_per_s", True), ("first_ms", False),
                    ("bytes", False)):
        ratios = [a[key] / b[key] if up else b[key] / a[key]
                  for a, b in zip(with_, without)]
        row[key + "_ratio"] = common.median(ratios)
    return row


def wrong(row):
    """What does not hold of a row; or None."""
    n, w, wo = row["conversations"], row["with"], row["without"]
    slots = w["page_tokens"]
    whole = -(-(PREFIX + OWN + TOKENS - 1) // slots)
    shared = PREFIX // slots
    pages = {"with": shared + n * (whole - shared), "without": n * whole}
    for name, want in pages.items():
        if row[name]["bytes"] != want * w["page_bytes"]:
            return (f"{row[name]['bytes'] / w['page_bytes']:.0f} pages held "
                    f"{name} reuse, {want} expected")
    if w["reused"] != (n - 1) * PREFIX or wo["reused"]:
        return f"{w['reused']} tokens reused, {(n - 1) * PREFIX} expected"
    if n >= 4 and row["tokens_per_s_ratio"] < GOAL:
        return f"throughput {row['tokens_per_s_ratio']:.2f} times, {GOAL} wanted"
    return None


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--conversations", default="1,2,4,8,16")
    args = parser.parse_args()
    common.find_model(args)
    ids = common.run(args, "--raw", "-f", common.TEXT, "-n", "1")
    ids = ids["conversations"][0]["prompt_ids"]

    rows = []
    for n in map(int, args.conversations.split(",")):
        if len(ids) < PREFIX + n * OWN:
            parser.error(f"the text is too short for {n} conversations")
        rows.append(compare(args, ids, n))
    common.progress("")

    if args.json:
        print(json.dumps(rows, indent=1))
    else:
        print("                 tokens/s                  first token, ms"
              "              held, MiB\n"
              "conversations  without   with   ratio   without     with"
              "   ratio   without   with   ratio")
        for row in rows:
            a, b = row["without"], row["with"]
            print(f"{row['conversations']:>13} {a['tokens_per_s']:8.1f} "
                  f"{b['tokens_per_s']:6.1f} {row['tokens_per_s_ratio']:7.2f} "
                  f"{a['first_ms']:9.0f} {b['first_ms']:8.0f} "
                  f"{row['first_ms_ratio']:7.2f} {a['bytes'] / 2**20:9.0f} "
                  f"{b['bytes'] / 2**20:6.0f} {row['bytes_ratio']:7.2f}")
    if args.check:
        for row in rows:
            what = wrong(row)
            if what:
                print(f"{row['conversations']} conversations: {what}",
                      file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
