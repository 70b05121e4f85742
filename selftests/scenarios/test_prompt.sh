#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Two processes of one tenant have the same system prompt of 1,500 tokens: the
# second computes what is its own, and the pages are there once. The texts are
# those of processes that are alone.
. "$(dirname "$0")/kit.sh"

system=$(text 1500)
words()
{
	printf '{"id":"%s","system":"%s","prompt":"%s","max_tokens":12,"keep":true}' \
		"$1" "$system" "$2"
}
q1='Who owns a page?' q2='What is a pool?'

if [ -n "$real" ]; then
	place 128M 1M
else
	place 8M 64K
fi
check "a tenant is made" ctl tenant create red

begin one --tenant red
first()
{
	ask one "$(words a "$q1")" || return
	cp "$tmp/one.answer" "$tmp/first"
	[ "$(value reused_tokens "$tmp/first")" -eq 0 ]
}
check "the first process computes all of it" first
held=$(($(pages private) + $(pages shared) + $(pages cached)))

begin two --tenant red
second()
{
	ask two "$(words b "$q2")" || return
	cp "$tmp/two.answer" "$tmp/second"
	[ "$(value reused_tokens "$tmp/second")" -ge 1300 ] &&
		[ "$(value prefilled_tokens "$tmp/second")" -le 200 ]
}
check "the second finds the system prompt" second

# Each has a page or two of its own at the end.
once()
{
	now=$(($(pages private) + $(pages shared) + $(pages cached)))
	echo "$held pages of one process, $now of both"
	[ "$held" -ge 10 ] && [ "$now" -le $((held + 4)) ] &&
		[ $(($(pages shared) + $(pages cached))) -ge 10 ]
}
check "its pages are there once" once

t1=$(value first_token_ms "$tmp/first") t2=$(value first_token_ms "$tmp/second")
echo "# figure shared prompt: first token after $t1 ms, $(value prefilled_tokens \
	"$tmp/first") tokens computed; in the second process $t2 ms," \
	"$(value prefilled_tokens "$tmp/second") tokens; $held pages, of both" \
	"$(($(pages private) + $(pages shared) + $(pages cached)))"
sooner()
{
	[ "$t2" -lt $((t1 / 2)) ]
}
needs_model "and answers in less than half the time" &&
	check "and answers in less than half the time" sooner

alone()
{
	words c "$2" >"$tmp/alone.in"
	solo --requests "$tmp/alone.in" --jsonl="$tmp/alone" -q || return
	tokens "$1" >"$tmp/got"
	tokens "$tmp/alone" >"$tmp/want"
	cat "$tmp/got" "$tmp/want"
	[ -s "$tmp/want" ] && cmp "$tmp/got" "$tmp/want"
}
check "the first's text is that of one alone" alone "$tmp/first" "$q1"
check "the second's text is that of one alone" alone "$tmp/second" "$q2"
stop one
check "the first ends" test "$stopped" -eq 0
stop two
check "the second ends" test "$stopped" -eq 0
place_end
