#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The requests of a trace through a broker, or the device, as two tenants: what
# is found, evicted and waited for is what the same ledger does where it is
# called directly in virtual time.
. "$(dirname "$0")/kit.sh"
data=$root/selftests/data/traces
place 64M 64K
if ! [ -x "$build/kvcache-replay" ]; then
	skip "the same as the ledger" "no $build/kvcache-replay"
	tap_end
fi
ctl tenant create red >/dev/null
ctl tenant create blue >/dev/null
head -n 1500 "$root/selftests/data/traces/mooncake_synthetic.jsonl" \
	>"$tmp/some.jsonl"

# outcome NAME OPTION...: without the time that it took.
outcome()
{
	into=$1
	shift
	"$build/kvcache-replay" --json "$@" "$tmp/some.jsonl" >"$tmp/json" &&
		sed 's/"seconds": [0-9.]*//' "$tmp/json" >"$tmp/$into"
}
found()
{
	grep '"name": "shared"' "$tmp/there" || return
	for count in hits evicted waits; do
		! grep -q "\"name\": \"shared\".*\"$count\": 0," "$tmp/there" ||
			return
	done
}
check "a trace by commands" outcome there --device "$where" --names red,blue
check "something is found, evicted and waited for" found
check "and directly" outcome here --pages 1024 --tenants 2 --min 0
check "the same to the last page" cmp "$tmp/there" "$tmp/here"

# Any process gets a request, and all of them publish into one commons: exact
# LRU to 98 %, and never below partitions, at five sizes. selftests/tools/ has
# the other rules by which requests find their tenant.
compare()
{
	"$build/kvcache-replay" --compare --check --by request --commons \
		--pages 2000,5000,10000,20000,50000 "$data/mooncake_$1.jsonl"
}
loads()
{
	"$build/kvcache-replay" --compare --check --pages 100,200,500 \
		"$data/azure_2023_code.csv" "$data/azure_2023_conv.csv"
}
if [ -n "$broker_pid" ]; then
	for trace in conversation synthetic; do
		check "$trace: 98 % of LRU, and never below partitions" \
			compare $trace
	done
	check "load without prefixes" loads
fi
place_end
