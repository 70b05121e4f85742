#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Two kvcache-run that want more pages than there are: who runs gives way and
# waits, both end, and every conversation has the text that it has alone.
. "$(dirname "$0")/kit.sh"

little_place

# four COMMAND OUT [OPTION]...: four conversations that take all pages
four()
{
	command=$1 out=$2
	shift 2
	# shellcheck disable=SC2086 # a list of options
	$command $options -n 90 --jsonl="$out" -q --parallel 4 -p "a $words" \
		-p "b $words" -p "c $words" -p "d $words" "$@" >"$out.log" 2>&1 ||
		{
			cat "$out.log"
			return 1
		}
}
alone()
{
	KVCACHE=local:bytes=$((64 << 20)),page=$pool_page "$build/kvcache-run" \
		-m "$model" --weights "$weights" --threads 1 "$@"
}
check "alone" four alone "$tmp/alone"

both()
{
	four run "$tmp/one" --tenant red &
	one=$!
	four run "$tmp/two" --tenant red &
	two=$!
	wait $one
	one=$?
	wait $two && [ $one -eq 0 ]
}
check "two at once both end" both
# In the order in which they ended.
same()
{
	tokens "$tmp/alone" | sort >"$tmp/was"
	tokens "$1" | sort >"$tmp/is"
	cat "$tmp/was" "$tmp/is"
	[ "$(wc -l <"$tmp/was")" -eq 4 ] && cmp "$tmp/was" "$tmp/is"
}
check "the one has the text of one alone" same "$tmp/one"
check "the other one, too" same "$tmp/two"

# A small model is done before it can be stopped.
needs_model "who waits does so no longer than it was told to" || place_end

# Another process holds more than half of the pages, and does nothing.
# shellcheck disable=SC2086 # a list of options
begin one --tenant red $options
line=$(printf '{"prompt":"x %s","max_tokens":560}' "$words")
echo "$line" >&8
half()
{
	[ "$(pages shared)" -ge 11 ]
}
check "a process holds half of the pages" until_true half
kill -s STOP "$(pid_of one)"
does_not_wait()
{
	# shellcheck disable=SC2086 # a list of options
	run --tenant red $options --wait 0.2 -n 400 -p "y $words" \
		>"$tmp/said" 2>&1
	cat "$tmp/said"
	# It may have begun before, and is ended then.
	grep -q ": others held the pages for 0.2 s" "$tmp/said"
}
check "who waits does so no longer than it was told to" does_not_wait
kill -s CONT "$(pid_of one)"
kill -s INT "$(pid_of one)"
stop one
check "who is interrupted says so" test "$stopped" -eq 130
place_end
