#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
#
# sequences.py - what test_sequences.sh says of kvcache-run's JSON.
#
#	sequences.py CHECK FILE...
"""Each check prints what it saw, and fails if that is not as it should be."""

import json
import sys


def load(path):
    with open(path, encoding="utf-8") as f:
        run = json.load(f)
    assert run["totals"]["counters_ok"], "positions were not computed once"
    return run


def groups(run):
    """Layers with windows have pages of their own."""
    return len(run["model"]["groups"])


def ids(run):
    return [c["ids"] for c in run["conversations"]]


def samples(together, *alone):
    """N samples are N runs with seeds of their own, in the pages of few."""
    run = load(together)
    t = run["totals"]
    mine = ids(run)
    others = [ids(load(path)) for path in alone]
    # One run with --no-share, or one for each seed.
    others = [one for other in others for one in other]
    equal = sum(a == b for a, b in zip(mine, others))
    print(f"{equal} of {len(mine)} equal; {t['pages_shared']} pages for "
          f"{t['pages_unshared']}, {t['pages_copied']} copied")
    assert len(mine) == len(others) and equal == len(mine)
    assert len({tuple(m) for m in mine}) > 1, "all samples are the same"
    # The prompt once, and of the others a tail each, and what they grew by.
    prompt = run["conversations"][0]["prompt_tokens"]
    page = run["model"]["page_tokens"]
    new = max(len(m) for m in mine)
    bound = prompt // page + groups(run) * len(mine) * (new // page + 2)
    assert t["pages_shared"] <= bound
    assert t["pages_shared"] < t["pages_unshared"]
    assert t["pages_copied"] <= groups(run) * (len(mine) - 1)
    assert t["forwarded"] < prompt + len(mine) * new


def beams(shared, alone):
    """A search is the same whether its beams share pages or not."""
    one, two = load(shared), load(alone)
    a = one["conversations"][0]["beams"]
    b = two["conversations"][0]["beams"]
    worst = max(abs(x["score"] - y["score"]) for x, y in zip(a, b))
    t = one["totals"]
    print(f"{len(a)} beams, scores differ by {worst:.2g}; "
          f"{t['pages_shared']} pages for {t['pages_unshared']}")
    assert len(a) == len(b) > 1 and worst < 1e-3
    assert a[0]["ids"] == one["conversations"][0]["ids"]
    scores = [x["score"] for x in a]
    assert scores == sorted(scores, reverse=True)
    for x in a:
        assert abs(x["logprob"] / len(x["ids"]) - x["score"]) < 1e-5
    # Near the end of a list two texts may be about as good as each other.
    for x, y in zip(a, b):
        if x["ids"] != y["ids"]:
            assert abs(x["score"] - y["score"]) < 1e-3
            break
    assert t["pages_shared"] < t["pages_unshared"] / 2
    # What writes to a tail that others have copies it, and nothing else does.
    assert t["pages_copied"] <= groups(one) * t["steps"] * (len(a) - 1)
    assert t["forwarded"] < two["totals"]["forwarded"]


def likelier(search, greedy, scored_search, scored_greedy):
    """What a search finds is at least as likely as what is taken greedily."""
    def score(path, n):
        with open(path, encoding="utf-8") as f:
            lp = json.load(f)["conversations"][0]["score"]["logprobs"]
        return sum(lp[-n:]) / n

    found = load(search)["conversations"][0]
    taken = load(greedy)["conversations"][0]
    best = score(scored_search, len(found["ids"]))
    plain = score(scored_greedy, len(taken["ids"]))
    print(f"{best:.4f} by a search, it says {found['beams'][0]['score']:.4f}; "
          f"{plain:.4f} greedily")
    assert abs(best - found["beams"][0]["score"]) < 1e-3
    assert best >= plain - 1e-3


def prompt_and_text(run):
    c = load(run)["conversations"][0]
    print(",".join(str(i) for i in c["prompt_ids"] + c["ids"]))


def guesses(plain, guessed):
    """Guesses change neither the text nor what is held, only the steps."""
    a, b = load(plain), load(guessed)
    x, y = a["conversations"][0], b["conversations"][0]
    print(f"{y['right_tokens']} of {y['guessed_tokens']} right, "
          f"{a['totals']['steps']} steps became {b['totals']['steps']}")
    assert x["ids"] == y["ids"]
    assert x["pages"] == y["pages"]
    assert a["totals"]["committed"] == b["totals"]["committed"]
    assert 0 < y["right_tokens"] < y["guessed_tokens"]
    assert a["totals"]["steps"] - b["totals"]["steps"] == y["right_tokens"]


def static(grows, fixed):
    """All pages at once, none later, and the same text."""
    a, b = load(grows), load(fixed)
    page = b["model"]["page_tokens"]
    c = b["conversations"][0]
    most = c["prompt_tokens"] + c["generated_tokens"] - 1
    print(f"{c['pages']} pages, {b['totals']['pages_handed_out']} handed out")
    assert ids(a) == ids(b)
    assert c["pages"] == b["totals"]["pages_handed_out"]
    assert groups(b) > 1 or c["pages"] == -(-most // page)
    assert b["totals"]["pages_cached"] == 0


def chat(path, most, ctx, keep):
    """A chat that is longer than its context goes on, and says what it lost."""
    run = load(path)
    last = run["conversations"][-1]
    had = last["prompt_tokens"] + last["generated_tokens"]
    kept = had - last["forgotten_tokens"]
    print(f"{had} tokens, {last['context_shifts']} shifts, {kept} kept")
    assert had >= int(most) and last["context_shifts"] >= 8
    assert (int(ctx) - int(keep)) // 2 - 64 < kept <= int(ctx) + 1
    pages = -(-int(ctx) // run["model"]["page_tokens"])
    assert groups(run) > 1 or all(c["pages"] <= pages
                                  for c in run["conversations"])


def kept(path, keep):
    """What is left in the context, as ids."""
    last = load(path)["conversations"][-1]
    all_ids = last["prompt_ids"] + last["ids"]
    rest = all_ids[int(keep) + last["forgotten_tokens"]:]
    print(",".join(str(i) for i in all_ids[:int(keep)] + rest))


def found(path, most):
    """A lookup finds at most so many tokens of it."""
    c = load(path)["conversations"][0]
    print(f"{c['reused_tokens']} of {c['prompt_tokens']} found")
    assert c["reused_tokens"] <= int(most)


CHECKS = {f.__name__: f for f in (samples, beams, likelier, prompt_and_text,
                                  guesses, static, chat, kept, found)}

if __name__ == "__main__":
    CHECKS[sys.argv[1]](*sys.argv[2:])
