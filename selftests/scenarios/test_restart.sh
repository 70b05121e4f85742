#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A process that has answered is killed with signal 9; the one that comes after
# it finds what it had computed.
. "$(dirname "$0")/kit.sh"

# The small models have contexts of 2,048 tokens.
if [ -n "$real" ]; then
	# Of the fastest products, as in use: the text may change at a near-tie.
	weights=auto
	place 512M 2M
	size=32500	# 7,900 tokens
else
	place 8M 64K
	size=1900
fi
check "a tenant is made" ctl tenant create red

# No text that is there is so long: parts of it, each with a number.
prompt()
{
	part=$(text 1500) i=0
	while [ $((i * 1500)) -lt "$size" ]; do
		i=$((i + 1))
		printf 'Part %d: %s ' "$i" "$part"
	done | head -c "$size"
}
request=$(printf '{"id":"a","prompt":"%s","max_tokens":8}' "$(prompt)")

begin one --tenant red --threads 2
cold()
{
	ask one "$request" || return
	cp "$tmp/one.answer" "$tmp/cold"
	[ "$(value reused_tokens "$tmp/cold")" -eq 0 ]
}
check "a prompt is computed" cold
murder one
check "the process is killed" test "$stopped" -eq 137
gone()
{
	[ "$(pages private)" -eq 0 ] && [ "$(pages shared)" -eq 0 ]
}
check "it holds no page" until_true gone
cached()
{
	echo "$(pages cached) pages"
	[ "$(pages cached)" -ge 10 ]
}
check "what it had published is cached" cached

begin two --tenant red --threads 2
warm()
{
	ask two "$request" || return
	cp "$tmp/two.answer" "$tmp/warm"
	reused=$(value reused_tokens "$tmp/warm")
	all=$(value prompt_tokens "$tmp/warm")
	echo "$reused of $all tokens reused"
	[ "$reused" -ge $((all * 95 / 100)) ]
}
check "the next one finds it" warm
t1=$(value first_token_ms "$tmp/cold") t2=$(value first_token_ms "$tmp/warm")
echo "# figure restart: $(value prompt_tokens "$tmp/warm") tokens, of which" \
	"$(value reused_tokens "$tmp/warm") were found; first token after" \
	"$t2 ms, cold $t1 ms"
sooner()
{
	echo "$t2 ms of $t1 ms"
	[ $((t2 * 20)) -le "$t1" ]
}
needs_model "its first token takes a twentieth of the time" &&
	check "its first token takes a twentieth of the time" sooner
same()
{
	tokens "$tmp/cold" >"$tmp/was"
	tokens "$tmp/warm" >"$tmp/is"
	cat "$tmp/was" "$tmp/is"
	[ -s "$tmp/was" ] && cmp "$tmp/was" "$tmp/is"
}
[ "$weights" = auto ] || check "the text is the same" same
stop two
check "it ends" test "$stopped" -eq 0
flushed()
{
	ctl tenant flush red && [ "$(pages cached)" -eq 0 ]
}
check "tenant flush gives it all up" flushed

# A conversation of two pages at least, which are cached when it ends.
short()
{
	run --tenant red -q -n 2 -p "$(text 200)"
}
left()
{
	short && [ "$(pages cached)" -ge 1 ]
}
check "another conversation leaves its pages" left
check "those are given up" flushed
check "the tenant's cache is to live for a second" \
	ctl tenant set red --ttl 1s
none()
{
	[ "$(pages cached)" -eq 0 ]
}
expired()
{
	short && until_true none && [ "$(pages shared)" -eq 0 ]
}
check "and nothing is left of the same conversation then" expired
place_end
