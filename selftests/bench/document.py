#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A text of about 7,700 tokens, then 400 streamed tokens: what each costs.

kvcache-run streams the tokens, --rounds times, and says for each what it took
and how many positions went through the layers. The first table has p50 and p99
of 17 tokens around some places, over all rounds; the tokens of one run are
seconds apart, in which a shared machine changes more than the cost does. So
the 10th and the 400th token are then compared by 200 steps at the position of
each, in turn: the claim is that their medians are within 5 % of each other.
"""
import csv
import json
import os
import sys
import tempfile

import common

BYTES = 28900
TOKENS = 400
PLACES = (10, 100, 200, 300, 392)
AROUND = 8
NEAR = 1.05


def stream(args, folder):
    """(prompt tokens, rows of the timing file) of one run."""
    text = os.path.join(folder, "text")
    timing = os.path.join(folder, "timing")
    with open(common.TEXT, encoding="utf-8") as f:
        part = f.read()
    with open(text, "w", encoding="utf-8") as f:
        f.write((part * (BYTES // len(part) + 1))[:BYTES])
    out = common.run(args, "--raw", "-f", text, "-n", str(TOKENS),
                     "--timing", timing)
    with open(timing, encoding="ascii") as f:
        rows = [{key: float(value) for key, value in row.items()}
                for row in csv.DictReader(f)]
    return out["conversations"][0]["prompt_tokens"], rows


def wrong_row(prompt, rows):
    """A token that was not one position, in its turn; or None."""
    if len(rows) != TOKENS:
        return f"{len(rows)} tokens"
    for i, row in enumerate(rows):
        if row["token"] != i + 1 or row["position"] != prompt - 1 + i:
            return f"token {i + 1}"
        if i and row["forwarded"] != 1:
            return f"token {i + 1}: {row['forwarded']:.0f} positions"
    return None


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--plot", metavar="FILE.svg",
                        help="milliseconds by token, median of the rounds")
    args = parser.parse_args()
    common.find_model(args)

    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(args.rounds):
            common.progress(f"round {i + 1} of {args.rounds}")
            prompt, rows = stream(args, folder)
            wrong = wrong_row(prompt, rows)
            if wrong:
                sys.exit(f"not one position a token: {wrong}")
            rounds.append([row["ms"] for row in rows])
    first, last = (prompt - 2 + token for token in (10, TOKENS))
    common.progress(f"steps at {first} and {last} in turn")
    pair = common.program(args, "kvcache-bench", "step", "-m", args.model,
                          "--pair", f"{first},{last}", "--json")
    common.progress("")

    places = []
    for token in PLACES:
        near = [ms for one in rounds
                for ms in one[token - AROUND - 1:token + AROUND]]
        places.append({"token": token, "p50_ms": common.median(near),
                       "p99_ms": common.quantile(near, 0.99)})
    if args.json:
        print(json.dumps({"prompt_tokens": prompt, "rounds": args.rounds,
                          "places": places, "pair": pair}, indent=1))
    else:
        print(f"{prompt} tokens, then {TOKENS} streamed, {args.rounds} "
              "rounds; each of them one position through the layers\n"
              "output tokens     p50 ms    p99 ms")
        for p in places:
            print(f"{p['token'] - AROUND:>6} ..{p['token'] + AROUND:4d} "
                  f"{p['p50_ms']:11.2f} {p['p99_ms']:9.2f}")
        print(f"{pair['pairs']} steps at each position, in turn\n"
              "output token      p50 ms    p99 ms")
        for i, token in enumerate((10, TOKENS)):
            print(f"{token:>12} {pair['p50_ms'][i]:11.2f} "
                  f"{pair['p99_ms'][i]:9.2f}")
        print(f"       ratio {pair['p50_ratio']:11.3f} "
              f"{pair['p99_ratio']:9.3f}")
    if args.plot:
        data = "\n".join(f"{i + 1} {common.median(ms)}" for i, ms
                         in enumerate(zip(*rounds)) if i)
        common.plot(args.plot, f"$d << E\n{data}\nE\n"
                    "set xlabel 'output token'\nset ylabel 'milliseconds'\n"
                    "set yrange [0:*]\n"
                    f"plot $d with points pt 7 ps 0.3 title 'after {prompt} "
                    f"tokens, median of {args.rounds} rounds'")
    if args.check and not 1 / NEAR <= pair["p50_ratio"] <= NEAR:
        print(f"goal missed: token {TOKENS} costs {pair['p50_ratio']:.3f} "
              "times token 10", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
