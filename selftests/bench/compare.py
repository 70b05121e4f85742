# SPDX-License-Identifier: MIT
"""kvcache-run and llama.cpp on one model file, alternating in one run.

Each measurement is a process of its own: N prompt tokens, then --decode
tokens, greedy, on the same threads. llama.cpp is measured with flash attention
on and off, and the better of the two counts. Figures are medians over the
rounds; ratios are ours to theirs.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

CHILD = "--llama-child"


def llama_child(model, ids, decode, threads, flash):
    from llama_cpp import Llama
    llm = Llama(model, n_ctx=8192, n_batch=512, n_threads=threads,
                n_threads_batch=threads, flash_attn=flash, verbose=False)
    start = time.perf_counter()
    llm.eval(ids)
    prompt = time.perf_counter() - start
    token = llm.sample(temp=0.0)
    start = time.perf_counter()
    for _ in range(decode):
        llm.eval([token])
        token = llm.sample(temp=0.0)
    decoded = time.perf_counter() - start
    print(json.dumps({"prompt": len(ids) / prompt, "decode": decode / decoded}))


def run_llama(args, ids, flash):
    out = subprocess.run(
        [args.python, os.path.abspath(__file__), CHILD, args.model,
         str(args.decode), str(args.threads), str(int(flash))],
        input=json.dumps(ids), capture_output=True, text=True, check=True,
        timeout=900)
    return json.loads(out.stdout.splitlines()[-1])


def run_ours(args, ids):
    out = subprocess.run(
        [args.kvcache_run, "-m", args.model, "--json", "--ignore-end",
         "--threads", str(args.threads), "-n", str(args.decode + 1),
         "--tokens", ",".join(map(str, ids))],
        capture_output=True, text=True, check=True, timeout=900)
    conversation = json.loads(out.stdout)["conversations"][0]
    return {"prompt": conversation["prefill_tokens_per_s"],
            "decode": conversation["decode_tokens_per_s"]}


def main():
    if len(sys.argv) > 1 and sys.argv[1] == CHILD:
        llama_child(sys.argv[2], json.load(sys.stdin), int(sys.argv[3]),
                    int(sys.argv[4]), sys.argv[5] == "1")
        return 0

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("kvcache_run")
    parser.add_argument("ids", help="a file with the ids of a long text")
    parser.add_argument("--python", default=sys.executable,
                        help="an interpreter that has llama_cpp")
    parser.add_argument("--lengths", default="1,1500,6000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--decode", type=int, default=32)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true",
                        help="exit 1 unless at 1,500 tokens the prompt is "
                        "2 times and decode 1 times as fast")
    args = parser.parse_args()
    with open(args.ids, encoding="ascii") as f:
        text = [int(word) for word in f.read().replace(",", " ").split()]

    rows = []
    for length in map(int, args.lengths.split(",")):
        ids = [text[i % len(text)] for i in range(length)]
        ours, theirs = [], []
        for done in range(args.rounds):
            if sys.stderr.isatty():
                print(f"\r{length} tokens, round {done + 1} of {args.rounds} ",
                      end="", file=sys.stderr, flush=True)
            both = [run_llama(args, ids, flash) for flash in (True, False)]
            theirs.append({key: max(run[key] for run in both)
                           for key in ("prompt", "decode")})
            ours.append(run_ours(args, ids))
        row = {"tokens": length}
        for key in ("prompt", "decode"):
            mine = [run[key] for run in ours]
            other = [run[key] for run in theirs]
            ratios = [a / b for a, b in zip(mine, other)]
            row[key] = {"kvcache": statistics.median(mine),
                        "llama_cpp": statistics.median(other),
                        "ratio": statistics.median(ratios),
                        "ratio_min": min(ratios), "ratio_max": max(ratios)}
        rows.append(row)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)

    if args.json:
        print(json.dumps(rows, indent=1))
    else:
        print("tokens/s at     prompt  llama.cpp  ratio [min..max]     "
              "decode  llama.cpp  ratio [min..max]")
        for row in rows:
            line = f"{row['tokens'] if row['tokens'] > 1 else 0:>6} tokens"
            for key in ("prompt", "decode"):
                r = row[key]
                if key == "prompt" and row["tokens"] == 1:
                    line += f" {'-':>9} {'-':>10} {'-':>20}"
                    continue
                line += (f" {r['kvcache']:9.1f} {r['llama_cpp']:10.1f}  "
                         f"{r['ratio']:5.2f} [{r['ratio_min']:5.2f}"
                         f"..{r['ratio_max']:5.2f}]")
            print(line)
    if args.check:
        for row in rows:
            if row["tokens"] == 1500 and (row["prompt"]["ratio"] < 2 or
                                          row["decode"]["ratio"] < 1):
                print("goal missed: at 1,500 tokens prompt >= 2 and "
                      "decode >= 1 times llama.cpp", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
