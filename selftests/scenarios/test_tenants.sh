#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Two tenants have the same system prompt. Without a grant nothing is shared;
# with a commons that both may use it is there once, and neither pays for it.
. "$(dirname "$0")/kit.sh"

if [ -n "$real" ]; then
	place 128M 1M
else
	place 8M 64K
fi
for t in red blue commons; do
	check "tenant $t is made" ctl tenant create $t
done
text 1500 >"$tmp/system"

# said NAME TENANT QUESTION OPTION...: one process, which ends.
said()
{
	name=$1 tenant=$2 question=$3
	shift 3
	run --tenant "$tenant" --system-file "$tmp/system" -p "$question" -n 8 \
		--json="$tmp/$name" "$@" >"$tmp/$name.log" 2>&1 || {
		cat "$tmp/$name.log"
		return 1
	}
}
# Pages that a tenant is charged for.
charged()
{
	ctl tenant ls --json | tr '{' '\n' | grep "\"name\":\"$1\"" |
		grep -o '"current_pages":[0-9]*' | cut -d: -f2
}
reused()
{
	value reused_tokens "$tmp/$1"
}
fresh()
{
	for t in red blue commons; do
		ctl tenant flush $t && [ "$(charged $t)" -eq 0 ] || return
	done
}

without()
{
	said red red 'Who owns a page?' && said blue blue 'What is a pool?' ||
		return
	echo "$(charged red) pages of red, $(charged blue) of blue"
	[ "$(reused blue)" -eq 0 ] && [ "$(charged red)" -ge 10 ] &&
		[ "$(charged blue)" -ge 10 ] && [ "$(charged commons)" -eq 0 ]
}
check "without a grant each computes and pays for all of it" without
echo "# figure two tenants, no grant: $(charged red) pages of red," \
	"$(charged blue) of blue"
check "all of it is given up" fresh

# What nobody let them do is not done: the text is right all the same.
refused()
{
	said alone red 'Who owns a page?' --commons "$(ctl tenant ls --json |
		tr '{' '\n' | grep '"name":"commons"' |
		grep -o '"id":[0-9]*' | cut -d: -f2)" || :
	[ "$(charged commons)" -eq 0 ]
}
check "nothing gets into the commons without a grant" refused
check "and that is given up" fresh

check "red may publish into the commons" \
	ctl tenant grant commons red --rights lookup,publish
check "blue may look there" ctl tenant grant commons blue --rights lookup
shared()
{
	said one red 'Who owns a page?' --commons commons || return
	common=$(charged commons)
	said two blue 'What is a pool?' --commons commons || return
	echo "$(reused two) tokens reused; pages: $common, $(charged commons)" \
		"of the commons, $(charged red) of red, $(charged blue) of blue"
	[ "$(reused one)" -eq 0 ] && [ "$(reused two)" -ge 1200 ] &&
		[ "$common" -ge 10 ] && [ "$(charged commons)" -eq "$common" ] &&
		[ "$(charged red)" -le 4 ] && [ "$(charged blue)" -le 4 ]
}
check "with grants it is computed once, and the commons pays" shared
echo "# figure two tenants, a commons: $(charged commons) pages of the commons," \
	"$(charged red) of red, $(charged blue) of blue;" \
	"first token $(value first_token_ms "$tmp/one") ms and" \
	"$(value first_token_ms "$tmp/two") ms"

same()
{
	for pair in "red one" "blue two"; do
		tokens "$tmp/${pair% *}" >"$tmp/was"
		tokens "$tmp/${pair#* }" >"$tmp/is"
		cat "$tmp/was" "$tmp/is"
		[ -s "$tmp/was" ] && cmp "$tmp/was" "$tmp/is" || return
	done
}
check "the texts are the same, shared or not" same
place_end
