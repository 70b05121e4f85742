#!/bin/sh
# SPDX-License-Identifier: MIT
#
# An idle kvcache-run with eight conversations next to a busy one, in a pool
# without room for both: what is idle goes to the busy one although its process
# is stopped meanwhile, and is computed again when its conversations go on. Each
# has the text that it has alone.
. "$(dirname "$0")/kit.sh"

little_place -n 24

first_turns()
{
	for i in 1 2 3 4 5 6 7 8; do
		echo "{\"id\":\"$i\",\"keep\":true,\"prompt\":\"$i $words\"}"
	done
}
second_turns()
{
	for i in 1 2 3 4 5 6 7 8; do
		echo "{\"continue\":\"$i\",\"prompt\":\"and then?\"}"
	done
}
# busy COMMAND OUT: four conversations at once, by run or solo
busy()
{
	# shellcheck disable=SC2086 # a list of options
	$1 $options -n 90 --jsonl="$2" -q --parallel 4 -p "a $words" \
		-p "b $words" -p "c $words" -p "d $words" >"$2.log" 2>&1 || {
		cat "$2.log"
		return 1
	}
}
# ask_all ID TURNS: all lines of a function at once
ask_all()
{
	IFS='
'
	# shellcheck disable=SC2046 # a line each
	set -- "$1" $($2)
	unset IFS
	ask "$@"
}

# ---- alone, in a process of its own ----------------------------------------

shared=$where
where=local:bytes=$((64 << 20)),page=$pool_page
# shellcheck disable=SC2086 # a list of options
begin one $options
talk()
{
	ask_all one first_turns && cp "$tmp/one.answer" "$tmp/$1.first" &&
		ask_all one second_turns && cp "$tmp/one.answer" "$tmp/$1.second"
}
check "eight conversations alone" talk alone
stop one
where=$shared
alone_too()
{
	KVCACHE=local:bytes=$((64 << 20)),page=$pool_page
	export KVCACHE
	busy in_process "$tmp/busy.alone"
}
in_process()
{
	"$build/kvcache-run" -m "$model" --weights "$weights" --threads 1 "$@"
}
check "four others alone" alone_too

# ---- in one pool -----------------------------------------------------------

# shellcheck disable=SC2086 # a list of options
begin one --tenant red $options
idle()
{
	ask_all one first_turns && cp "$tmp/one.answer" "$tmp/one.first" ||
		return
	echo "$(pages cached) cached, $(pages private) private," \
		"$(pages shared) shared"
	[ "$(pages shared)" -eq 0 ] && [ "$(pages cached)" -gt 0 ] &&
		[ "$(pages private)" -gt 0 ]
}
check "eight conversations become idle" idle
was=$(pages private)
kill -s STOP "$(pid_of one)"
tenant_busy()
{
	busy run_red "$tmp/busy"
}
run_red()
{
	run --tenant red "$@"
}
check "another process has their pages, and ends" tenant_busy
# Those that nobody had published are PRIVATE, and volatile.
fewer()
{
	echo "$was private pages before, $(pages private) now"
	[ "$(pages private)" -lt "$was" ]
}
check "volatile pages of a stopped process are among them" fewer
kill -s CONT "$(pid_of one)"
goes_on()
{
	ask_all one second_turns && cp "$tmp/one.answer" "$tmp/one.second"
}
check "the conversations go on" goes_on
stop one
check "they end" test "$stopped" -eq 0

# In any order: those of one process end as they like.
same()
{
	tokens "$1" | sort >"$tmp/was"
	tokens "$2" | sort >"$tmp/is"
	cat "$tmp/was" "$tmp/is"
	[ "$(wc -l <"$tmp/was")" -eq "$3" ] && cmp "$tmp/was" "$tmp/is"
}
check "the first turns are as alone" same "$tmp/alone.first" "$tmp/one.first" 8
check "the second turns are as alone" same "$tmp/alone.second" \
	"$tmp/one.second" 8
check "the other's text is as alone" same "$tmp/busy.alone" "$tmp/busy" 4

sum()
{
	total=0
	for n in $(grep -o "\"$1\":[0-9]*" "$2" | cut -d: -f2); do
		total=$((total + n))
	done
	echo $total
}
again()
{
	echo "$(sum prefilled_tokens "$tmp/one.second") tokens computed," \
		"$(sum prefilled_tokens "$tmp/alone.second") alone"
	[ "$(sum prefilled_tokens "$tmp/one.second")" -gt \
		"$(sum prefilled_tokens "$tmp/alone.second")" ]
}
check "what was taken was computed again" again
echo "# figure idle: second turns computed $(sum prefilled_tokens \
	"$tmp/one.second") tokens, $(sum prefilled_tokens "$tmp/alone.second") alone"
place_end
