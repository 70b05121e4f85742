#!/bin/sh
# SPDX-License-Identifier: MIT
#
# kvcache-replay: what it finds on the whole traces at five sizes, in every way
# to divide a pool; that the ABI's commands find the same as the ledger called
# directly; and what it says of input that is wrong.
. "$(dirname "$0")/../tap.sh"
data=$root/selftests/data/traces
chat=$data/mooncake_conversation.jsonl
documents=$data/mooncake_synthetic.jsonl
code=$data/azure_2023_code.csv
conv=$data/azure_2023_conv.csv
sizes=2000,5000,10000,20000,50000

replay()
{
	timeout 300 "$build/kvcache-replay" "$@"
}

# json NAME OPTION...: into $tmp/NAME.json.
json()
{
	into=$1
	shift
	replay --json "$@" >"$tmp/$into.json"
}

# holds NAME PYTHON: an expression about $tmp/NAME.json, which is r.
holds()
{
	python3 - "$tmp/$1.json" "$2" <<'EOT'
import json
import sys

with open(sys.argv[1]) as f:
    r = json.load(f)
sizes = r["sizes"]
shared = [s["ways"][0] for s in sizes]
parts = [s["ways"][1] for s in sizes if len(s["ways"]) > 1]
for s in sizes:
    print(s["pages"], [w["hits"] for w in s["ways"]],
          s.get("lru"), s.get("belady"))
sys.exit(not eval(f"({sys.argv[2]})"))
EOT
}

# Python counts what there is to find on its own.
facts()
{
	python3 - "$@" <<'EOT'
import json
import sys

name, result = sys.argv[1:]
seen, blocks, hits = set(), 0, 0
for line in open(name):
    ids = json.loads(line)["hash_ids"]
    blocks += len(ids)
    lead = True
    for i in ids:
        lead = lead and i in seen
        hits += lead
    seen.update(ids)
r = json.load(open(result))
print(blocks, len(seen), hits)
assert (blocks, len(seen), hits) == \
    (r["blocks"], r["different"], r["seen_before"])
EOT
}

# compare NAME TRACE OPTION...: and what has to be so of any trace.
compare()
{
	name=$1
	trace=$2
	shift 2
	check "$name: what --check wants" json "$name" --compare --check \
		--pages $sizes "$@" "$trace"
	check "$name: at least 98 % of LRU at every size" holds "$name" \
		"len(sizes) == 5 and all(o['hits'] >= .98 * s['lru']['hits'] > 0
		 for o, s in zip(shared, sizes))"
	check "$name: the optimum is no worse than LRU" holds "$name" \
		"all(s['belady']['hits'] >= s['lru']['hits'] and
		 s['ideal_belady']['hits'] >= s['ideal_lru']['hits'] and
		 s['ideal_belady']['hits'] <= r['seen_before'] for s in sizes)"
	check "$name: what is looked for is found or missed" holds "$name" \
		"all(w['hits'] + w['misses'] == w['asked'] == r['looked_up'] and
		 sum(t['hits'] for t in w['tenants']) == w['hits'] and
		 w['requests'] == r['requests'] and w['refused'] == 0
		 for s in sizes for w in s['ways'])"
	check "$name: an oracle has no more pages than the pool" holds "$name" \
		"all(s[o]['beyond'] == 0 for s in sizes
		 for o in ('lru', 'belady', 'ideal_lru', 'ideal_belady'))"
	check "$name: above partitions where they evict more" holds "$name" \
		"all(o['hits'] > p['hits'] for o, p in zip(shared, parts)
		 if p['evicted'] > o['evicted'])"
	check "$name: restarts cost what was cached" holds "$name" \
		"shared[-1]['hits'] > 1.1 * sizes[-1]['ways'][2]['hits']"
	check "$name: each run in less than 10 seconds" holds "$name" \
		"all(w['seconds'] < 10 for s in sizes for w in s['ways'])"
}

if ! needs python3; then
	skip "outcomes" "no python3"
else
	compare conversation "$chat"
	compare synthetic "$documents"
	check "conversation: its blocks" facts "$chat" "$tmp/conversation.json"
	check "synthetic: its blocks" facts "$documents" "$tmp/synthetic.json"
	# Any of four processes gets a request: so only a shared pool has what
	# the others computed.
	for kind in conversation synthetic; do
		compare $kind-commons "$data/mooncake_$kind.jsonl" \
			--by request --commons
		check "$kind-commons: never below the partitions" \
			holds $kind-commons \
			"all(o['hits'] > p['hits']
			 for o, p in zip(shared, parts))"
	done

	# Without promises to anybody the ledger is LRU, to the last block.
	check "no promises" json none --compare --min 0 --pages $sizes \
		"$documents"
	check "no promises: exactly LRU" holds none \
		"all(o['hits'] == s['lru']['hits'] and
		 o['evicted'] == s['lru']['evicted']
		 for o, s in zip(shared, sizes))"

	check "load: code and chat side by side" json azure --compare \
		--check --pages 100,200,500 "$code" "$conv"
	check "load: nothing is found, all is served" holds azure \
		"all(w['hits'] == 0 == w['refused'] and w['requests'] == 28185
		 for s in sizes for w in s['ways'])"
	check "load: less room, longer waits" holds azure \
		"shared[0]['waited_ns'] > shared[1]['waited_ns'] > 0 ==
		 shared[2]['waited_ns']"
	check "load: a shared pool waits less than partitions" holds azure \
		"all(o['waited_ns'] < p['waited_ns']
		 for o, p in zip(shared, parts))"
	check "load: a small pool is full" holds azure \
		"max(x['in_use'] for x in shared[0]['occupancy']) == 100"

	# What can never be is refused, and misses all that it wanted.
	check "refusals" json refused --pages 200 --check "$documents"
	check "refusals: counted" holds refused \
		"shared[0]['refused'] > 0 and
		 shared[0]['hits'] + shared[0]['misses'] == r['looked_up']"

	# The same by commands of the ABI; one tenant, nothing promised.
	# both NAME PAGES TRACE: in each way, to the last page, but for the time.
	both()
	{
		json "$1.calls" --device "local:bytes=$(($2 * 65536)),page=64K" \
			"$3" &&
			json "$1.direct" --tenants 1 --min 0 --pages "$2" "$3" ||
			return
		for f in "$1.calls" "$1.direct"; do
			sed 's/"seconds": [0-9.]*//' "$tmp/$f.json" >"$tmp/$f"
		done
		cmp "$tmp/$1.calls" "$tmp/$1.direct"
	}
	check "by commands: the same outcome" both some 5000 "$documents"
	head -n 1500 "$chat" >"$tmp/some.jsonl"
	check "by commands: the same waits" both few 400 "$tmp/some.jsonl"
	check "by commands: requests waited" holds few.calls \
		"shared[0]['waits'] > 100"
fi

# ---- wrong input ----------------------------------------------------------

# says STATUS TEXT OPTION...: one line with the text.
says()
{
	want=$1
	text=$2
	shift 2
	replay "$@" >"$tmp/stdout" 2>"$tmp/err"
	status=$?
	cat "$tmp/err"
	[ "$status" -eq "$want" ] && grep -q -F -e "$text" "$tmp/err" &&
		[ "$(wc -l <"$tmp/err")" -eq 1 ] && [ ! -s "$tmp/stdout" ]
}

# line NAME TEXT MESSAGE: a trace whose second line is TEXT.
line()
{
	{
		echo '{"timestamp": 0, "input_length": 513, "output_length": 2, "hash_ids": [1, 2]}'
		printf '%s\n' "$2"
	} >"$tmp/bad.jsonl"
	check "bad: $1" says 1 "$tmp/bad.jsonl:2: $3" "$tmp/bad.jsonl"
}
line "half a line" '{"timestamp": 1, "input_len' "no JSON: "
line "an empty line" '' "no JSON: "
line "no object" '[1, 2]' "not a JSON object"
line "a negative time" \
	'{"timestamp": -1, "input_length": 1, "output_length": 2, "hash_ids": [1]}' \
	'"timestamp" is -1, not 0 to'
line "a time that is text" \
	'{"timestamp": "1", "input_length": 1, "output_length": 2, "hash_ids": [1]}' \
	'no whole number "timestamp"'
line "no prompt" \
	'{"timestamp": 1, "input_length": 0, "output_length": 2, "hash_ids": []}' \
	'"input_length" is 0, not 1 to'
line "a length without end" \
	'{"timestamp": 1, "input_length": 99999999999, "output_length": 2, "hash_ids": []}' \
	'"input_length" is 99999999999, not 1 to'
line "a block too few" \
	'{"timestamp": 1, "input_length": 513, "output_length": 2, "hash_ids": [1]}' \
	"1 blocks for 513 tokens, not 2"
line "a negative block" \
	'{"timestamp": 1, "input_length": 513, "output_length": 2, "hash_ids": [1, -2]}' \
	'block 1 of "hash_ids" is not a number'

# row NAME TEXT MESSAGE: a CSV whose second line is TEXT.
row()
{
	printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n%s\n' "$2" >"$tmp/bad.csv"
	check "bad: $1" says 1 "$tmp/bad.csv:2: $3" "$tmp/bad.csv"
}
row "no time" "yesterday,1,2" "begins with no time"
row "a time before all" "1969-12-31 23:59:59.5,1,2" "begins with no time"
row "a number missing" "2023-11-16 18:15:46.68,1" "not a time and two numbers"
row "a negative length" "2023-11-16 18:15:46.68,-1,2" "not a time and two"
row "more than two" "2023-11-16 18:15:46.68,1,2,3" "not a time and two"
row "no tokens" "2023-11-16 18:15:46.68,0,2" "tokens are 1 to"

check "bad: no file" says 1 "$tmp/none: No such file or directory" "$tmp/none"
: >"$tmp/empty"
check "bad: an empty file" says 1 "$tmp/empty: no requests" "$tmp/empty"
check "bad: a folder" says 1 "$tmp: Is a directory" "$tmp"
check "bad: something else" says 1 "test_replay.sh:1: neither a JSON object" "$0"
check "bad: pages of another size" says 1 "blocks have 512 tokens" \
	--page-tokens 256 "$chat"
check "bad: no pages" says 2 "--pages 0" --pages 0 "$chat"
check "bad: more tenants than pages" says 1 "--pages 2: fewer than the 4 tenants" \
	--pages 2 --compare "$chat"
check "bad: no device" says 1 "$tmp/dev" --device "$tmp/dev" "$chat"
check "bad: a size for a device" says 2 "--device" --device local \
	--pages 100 "$chat"

# ---- plots ----------------------------------------------------------------

if ! needs gnuplot; then
	skip "plots" "no gnuplot"
	tap_end
fi
check "plots" replay --pages 2000,5000 --compare --plot "$tmp/it's" "$documents"
plotted()
{
	for f in hits occupancy-2000 occupancy-5000 shares-2000 shares-5000; do
		grep -q "</svg>" "$tmp/it's/$f.svg" || return
	done
}
check "plots: are SVG" plotted
without_gnuplot()
{
	mkdir "$tmp/bin"
	ln -s "$(command -v sh)" "$tmp/bin/sh"
	PATH=$tmp/bin "$build/kvcache-replay" --plot "$tmp/none" "$documents" \
		2>"$tmp/err" >/dev/null && cat "$tmp/err" &&
		grep -q "gnuplot is not installed" "$tmp/err" &&
		[ ! -e "$tmp/none" ]
}
check "plots: none without gnuplot, and why" without_gnuplot
tap_end
