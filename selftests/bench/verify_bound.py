#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How far off logits are, and whether the rule of --verify holds.

    verify_bound.py calibrate   the constants of the rule, from some texts
    verify_bound.py validate    the rule on texts that had no part in them

Both run kvcache-run --verify, which compares every generated token's logits
with a pass without a cache, once with each type of K and V, and take the
largest difference at each position. Documentation/kernels.rst has the rule.
"""
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

import common

ROUNDOFF = {"f32": 2**-24, "f16": 2**-11, "bf16": 2**-8}
CHANCE = 0.01
REFS = "selftests/data/refs/smollm2.jsonl"
DOCS = ("architecture", "conformance", "contributing", "performance",
        "products", "testing")


def beginning(path, size=3000):
    with open(os.path.join(common.TOP, path), encoding="utf-8") as f:
        return f.read(size)


def calibration():
    """(name, request): the short references, our pages, one of them whole."""
    with open(os.path.join(common.TOP, REFS), encoding="utf-8") as f:
        for ref in map(json.loads, f):
            if not ref["name"].startswith("long"):
                yield ref["name"], {"tokens": ref["prompt_ids"]}
    for name in DOCS:
        text = beginning(f"Documentation/{name}.rst")
        yield name, {"prompt": "Go on with this page:\n\n" + text}
    yield "a whole page", {"prompt": beginning(
        "Documentation/architecture.rst", 10000)}


def validation():
    """The same of other texts, among them one of 2,000 tokens."""
    yield "long prompt", {"prompt": beginning(common.TEXT, -1)}
    yield "bees", {"prompt": "Tell me about bees."}
    yield "steam", {"prompt": "Explain in detail how a steam engine works."}
    yield "German", {"prompt": "Erzähle mir eine Geschichte über zwei Katzen, "
                     "die am Meer leben, und über ihren Freund, den Fischer."}
    yield "numbers", {"prompt": "1 1 2 3 5 8 13 21 34 55 89 144 233 377 610"}
    yield "C", {"prompt": beginning("lib/seq.c")}
    yield "Python", {"prompt": beginning("selftests/bench/common.py")}
    yield "README", {"prompt": beginning("README.md", 6000)}


def verify(args, texts, kind):
    """The verdict of each text, by name."""
    requests = "".join(json.dumps({"id": name, **request}) + "\n"
                       for name, request in texts)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        done = subprocess.run(
            [os.path.join(args.build, "kvcache-run"), "-m", args.model,
             "--json", "--verify", "--ignore-end", "--kv", kind, "-n",
             str(args.predict), "--parallel", "4", "--requests", "-"],
            input=requests, stdout=out, text=True, timeout=1800, check=False)
        out.seek(0)
        # 1 says that a check failed: that is a result here.
        if done.returncode not in (0, 1):
            sys.exit(f"kvcache-run: status {done.returncode}")
        return {c["id"]: c["verify"]
                for c in json.load(out)["conversations"]}


def tail(ratios):
    """How many positions are r times as far off as is typical."""
    print("f16 and bf16: positions off by more than r typical errors, and what "
          "r^-3 / 2 says")
    for r in (2, 3, 4, 5, 6, 8, 12, 16):
        beyond = sum(x > r for x in ratios)
        print(f"{r:5}{beyond:10}{len(ratios) * r**-3 / 2:10.1f}")


def calibrate(results):
    """What the constants are taken from, and a normal law beside them."""
    print(f"{'type':5}{'positions':>10}{'median':>10}{'/ u':>9}{'worst':>10}"
          f"{'/ median':>9}{'spread':>8}{'worst is':>9}")
    stored = []
    for kind, verdicts in results.items():
        logs = sorted(math.log(d) for v in verdicts.values()
                      for d in v["max_diffs"])
        middle = statistics.median(logs)
        spread = statistics.pstdev(logs)
        worst = logs[-1] - middle
        print(f"{kind:5}{len(logs):10}{math.exp(middle):10.3g}"
              f"{math.exp(middle) / ROUNDOFF[kind]:9.3g}"
              f"{math.exp(logs[-1]):10.3g}{math.exp(worst):9.2f}"
              f"{spread:8.3f}{worst / spread:9.2f}")
        if kind != "f32":
            stored += [x - middle for x in logs]
    if not stored:
        return True
    normal = -statistics.NormalDist().inv_cdf(1 / len(stored))
    print(f"worst of {len(stored)}, if their logarithms were normal: "
          f"{normal:.2f} spreads")
    tail([math.exp(x) for x in stored])
    return True


def validate(results):
    """A row a text and type."""
    print(f"{'type':5} {'text':14}{'positions':>10}{'worst':>10}{'bound':>10}"
          f"{'ratio':>7}{'8 steps':>10}{'bound':>10}{'ratio':>7}"
          f"{'tokens equal':>14}")
    ok = True
    ratios = []
    for kind, verdicts in results.items():
        for name, v in verdicts.items():
            equal = f"{v['equal']}/{v['positions']}"
            print(f"{kind:5} {name:14}{v['positions']:10}"
                  f"{v['max_diff']:10.3g}{v['bound']:10.3g}"
                  f"{v['max_diff'] / v['bound']:7.2f}"
                  f"{v['step_max_diff']:10.3g}{v['step_bound']:10.3g}"
                  f"{v['step_max_diff'] / v['step_bound']:7.2f}{equal:>14}"
                  f"{'' if v['ok'] else '  FAILED'}")
            ok = ok and v["ok"]
            typical = v["bound"] / (v["positions"] / (2 * CHANCE))**(1 / 3)
            if kind != "f32":
                ratios += [d / typical for d in v["max_diffs"]]
    tail(ratios)
    return ok


def main():
    parser = common.parser(__doc__)
    parser.add_argument("what", choices=("calibrate", "validate"))
    parser.add_argument("--types", default=",".join(ROUNDOFF))
    parser.add_argument("-n", "--predict", type=int,
                        help="tokens a text; default 100, or 200 to validate")
    args = parser.parse_args()
    common.find_model(args)
    texts, table, predict = {
        "calibrate": (calibration, calibrate, 100),
        "validate": (validation, validate, 200),
    }[args.what]
    args.predict = args.predict or predict
    texts = list(texts())

    results = {}
    for kind in args.types.split(","):
        common.progress(kind)
        results[kind] = verify(args, texts, kind)
    common.progress("")
    if args.json:
        print(json.dumps(results))
        ok = all(v["ok"] for r in results.values() for v in r.values())
    else:
        ok = table(results)
    return 1 if args.check and not ok else 0


if __name__ == "__main__":
    sys.exit(main())
