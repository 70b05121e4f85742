#!/bin/sh
# SPDX-License-Identifier: MIT
#
# kvcache-run on a broker: the tokens are those that it says in-process, what it
# computed outlives it, and what cannot be opened is said in words.
. "$(dirname "$0")/broker.sh"
run=$build/kvcache-run
refs=$root/selftests/data/refs
small="tiny-mha-f16 tiny-gqa-q8_0-untied tiny-mqa-bf16-d80 tiny-gqa7-q4_0-d128
tiny-q5_1-llama3-rope tiny-f32-linear-rope"
export KVATTN_ISA=scalar

# tokens_of WHERE NAME: what a model generates there, a line a conversation, of
# which two begin alike.
words="Keys and values live in pages, and every page has one owner."
tokens_of()
{
	KVCACHE=$1 "$run" -m "$refs/$2.gguf" --kv f32 --weights f32 \
		--ignore-end --json -n 16 -p "$words $words Who?" \
		-p "$words $words Which?" --tokens 1,5,9,40,7,7,200,3 \
		>"$tmp/json" || return
	grep -o '"ids":\[[^]]*\]' "$tmp/json"
}
same_tokens()
{
	tokens_of local:page=64K "$1" >"$tmp/expected" &&
		tokens_of "$socket" "$1" >"$tmp/said" || return
	cat "$tmp/said" "$tmp/expected"
	[ "$(wc -l <"$tmp/said")" -eq 3 ] && cmp "$tmp/said" "$tmp/expected"
}
outlives_its_process()
{
	tokens_of "$socket" "$1" >"$tmp/said" &&
		cmp "$tmp/said" "$tmp/expected" || return
	reused=$(sed 's/.*"totals"//; s/.*"reused_tokens":\([0-9]*\).*/\1/' \
		"$tmp/json")
	echo "$reused tokens reused"
	[ "$reused" -gt 0 ]
}

# reused TYPES: tokens that a process finds of a prompt, with keys and values of
# these types; what it says is in $tmp/ids.
reused()
{
	KVCACHE=$socket "$run" -m "$refs/tiny-gqa-q8_0-untied.gguf" --kv "$1" \
		--weights f32 --ignore-end --json -n 8 -p "$words $words Who?" \
		>"$tmp/json" || return
	grep -o '"ids":\[[^]]*\]' "$tmp/json" >"$tmp/ids"
	sed 's/.*"totals"//; s/.*"reused_tokens":\([0-9]*\).*/\1/' "$tmp/json"
}
# Pages with scales in them are found by others, and by those of their types
# only.
packed_pages()
{
	for types in int8 int8,int4h e4m3 int4 int4h; do
		[ "$(reused $types)" -eq 0 ] || return
		cp "$tmp/ids" "$tmp/first"
		[ "$(reused $types)" -gt 100 ] || return
		cmp "$tmp/ids" "$tmp/first" || return
	done
}

# refused OPTIONS WORDS...: kvcache-run cannot open the broker, and says why in
# one line.
refused()
{
	opts=$1
	shift
	# shellcheck disable=SC2086 # a list
	KVCACHE=$socket "$run" -m "$refs/tiny-mha-f16.gguf" -n 1 -p x $opts \
		>/dev/null 2>"$tmp/err"
	status=$?
	cat "$tmp/err"
	[ "$status" -eq 1 ] && [ "$(wc -l <"$tmp/err")" -eq 1 ] || return
	for w in "$@"; do
		grep -q -F -e "$w" "$tmp/err" || return
	done
}

if broker_start --pool run=16M,page=64K --tenant run,mode=0444; then
	for m in $small; do
		check "$m: the tokens are those of this process" same_tokens "$m"
		check "$m: what it computed outlives it" \
			outlives_its_process "$m"
	done
	check "packed pages are found by processes of the same types" \
		packed_pages
	check "no tenant of that name" refused "--tenant none" \
		'there is no tenant "none"'
	check "nothing is left in the broker" broker_is_clean
	broker_stop >"$tmp/said"
	check "the broker ends" [ ! -s "$tmp/said" ]
	check "nobody is there any more" refused "" \
		"$socket: No such file" "start kvcache-broker"
	# Killed, it leaves its socket behind.
	broker_start --pool run=16M,page=64K --tenant run,mode=0444 &&
		kill -s KILL "$broker_pid"
	broker_stop >"$tmp/said"
	check "it was killed" refused "" \
		"$socket: nobody listens" "start kvcache-broker"
else
	check "a broker starts" false
fi
tap_end
