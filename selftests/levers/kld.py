#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# kld.py - are the figures of kvcache-run --kld what they should be?
#
#	kld.py FILE
#
# Those of 4 windows of 1,024 tokens are compared with figures of an independent
# implementation: float32 arithmetic in Transformers, keys (after RoPE) and values
# rounded to the type as they enter the cache; e4m3t with a scale of 1. Those of
# fewer tokens with what this one gave once: they are there to notice a change.
"""Judge what kvcache-run --kld said."""

import json
import sys

# Mean and 99th percentile of the divergence, perplexity.
INDEPENDENT = {
    "f16,f16": (0.00000, 0.0000, 21.484),
    "bf16,bf16": (0.00006, 0.0007, 21.489),
    "int8,int8": (0.00122, 0.0125, 21.528),
    "e4m3,e4m3": (0.00992, 0.106, 21.687),
    "e4m3t,e4m3t": (0.01490, 0.157, 21.719),
    "int4,int4": (0.08277, 0.805, 23.194),
    "int4h,int4h": (0.06180, 0.590, 22.625),
    "int8,int4": (0.00761, 0.065, 21.724),
    "int8,int4h": (0.00633, 0.046, 21.685),
}
# Means of one window of 256 tokens.
SHORT = {
    "f16,f16": 0.00000,
    "bf16,bf16": 0.00008,
    "int8,int8": 0.00262,
    "e4m3,e4m3": 0.02187,
    "e4m3t,e4m3t": 0.02076,
    "int4,int4": 0.18594,
    "int4h,int4h": 0.12251,
    "int8,int4": 0.01574,
    "int8,int4h": 0.01304,
}


def allowed(figure, least):
    """Half as much again, or what is too little to tell."""
    return max(1.5 * figure, figure + least)


def main():
    """Compare all types of a file."""
    with open(sys.argv[1], encoding="utf-8") as f:
        run = json.load(f)
    whole = run["windows"] == 4 and run["window_tokens"] == 1024
    seen = {}
    bad = 0
    for t in run["types"]:
        name = t["k_type"] + "," + t["v_type"]
        seen[name] = t
        if whole:
            mean, p99, perplexity = INDEPENDENT[name]
            ok = (t["kld_mean"] <= allowed(mean, 1e-5)
                  and t["kld_p99"] <= allowed(p99, 1e-4)
                  and abs(t["perplexity"] / perplexity - 1) < 0.02)
        else:
            ok = t["kld_mean"] <= allowed(SHORT[name], 1e-5)
        print("%-12s mean %.5f p99 %.4f same top %.4f perplexity %.4f %s" % (
            name, t["kld_mean"], t["kld_p99"], t["same_top"],
            t["perplexity"], "" if ok else "TOO MUCH"))
        bad += not ok
    missing = set(INDEPENDENT) - set(seen)
    if missing:
        print("missing:", ", ".join(sorted(missing)))
    if whole and abs(run["f32"]["perplexity"] / 21.4851 - 1) > 1e-4:
        print("perplexity of f32: %.4f" % run["f32"]["perplexity"])
        bad += 1
    # The coarser, the worse; a rotation helps 4 bits.
    order = ["f16,f16", "bf16,bf16", "int8,int8", "int8,int4", "e4m3,e4m3",
             "int4h,int4h", "int4,int4"]
    means = [seen[name]["kld_mean"] for name in order if name in seen]
    if means != sorted(means):
        print("not in order:", means)
        bad += 1
    return 1 if bad or missing else 0


sys.exit(main())
