#!/bin/sh
# SPDX-License-Identifier: MIT
#
# kvcachectl: pictures of a pool, the commands that users of kvcached know, and
# completion; on a broker.
. "$(dirname "$0")/../broker/broker.sh"
if [ ! -x "$build/kvcachectl" ] || [ ! -x "$build/kvcache-broker" ]; then
	skip "kvcachectl: map, list, completion" \
		"no $build/kvcachectl or kvcache-broker"
	tap_end
fi
export KVCACHE="$socket"
. "$root/selftests/tools/ctl_kit.sh"

broker_start --pool main=8M,page=64K --tenant a --tenant b,max=25% \
	--tenant idle

# ---- map ------------------------------------------------------------------

cached()
{
	for t in a b; do
		"$run" -m "$refs/tiny-mha-f16.gguf" --tenant $t -q -n 2 \
			-p "$2" >/dev/null || return
	done
	"$run" -m "$refs/tiny-mha-f16.gguf" --tenant a -q -n 80 \
		-p "$1" >/dev/null
}
# cells LETTER: how many of these the picture of the last JSON has.
cells()
{
	value cells | tr -cd "$1" | wc -c
}
# Each page is in the picture, as the lists have it.
map_by_state()
{
	has pool ls = '"pages":128' || return
	free=$(value free_pages) cached=$(value cached_pages)
	[ "$cached" -gt 2 ] || return
	has map --by state = '"by":"state"' \
		"\"name\":\"cached\",\"pages\":$cached" \
		"\"name\":\"free\",\"pages\":$free" || return
	[ "$(cells c)" -eq "$cached" ] && [ "$(cells .)" -eq "$free" ] &&
		[ "$(value seq)" = "$(value seq_last)" ]
}
map_by_tenant()
{
	for t in a b; do
		has page ls -t $t = "\"tenant\":\"$t\"" || return
		grep -o '"page":' "$tmp/json" | wc -l >"$tmp/$t"
	done
	has map = "\"name\":\"a\",\"pages\":$(cat "$tmp/a")" \
		"\"name\":\"b\",\"pages\":$(cat "$tmp/b")" &&
		[ "$(cells A)" -eq "$(cat "$tmp/a")" ] &&
		[ "$(cells B)" -eq "$(cat "$tmp/b")" ] &&
		! grep -q idle "$tmp/json"
}
# Two rows of 64 cells and the numbers of their first pages; then the legend.
map_text()
{
	"$ctl" map --width 80 >"$tmp/map" || return
	cat "$tmp/map"
	grep -q '^        1 [AB]*\.*$' "$tmp/map" &&
		grep -q '^       65 [.]\{64\}$' "$tmp/map" &&
		grep -q "^  A a: $(cat "$tmp/a") pages" "$tmp/map" || return
	"$ctl" map --width 20 >"$tmp/map" || return
	cat "$tmp/map"
	[ "$(grep -c '^ *[0-9]* [AB.]\{8\}$' "$tmp/map")" -eq 16 ] &&
		! grep -q "$(printf '\033')" "$tmp/map"
}
# More pages than cells: one is what most of its pages are.
map_groups()
{
	"$ctl" pool create large --size 512M --page 64K >/dev/null &&
		"$ctl" map --pool large --width 80 >"$tmp/map" || return
	head -n 3 "$tmp/map"
	grep -q 'a cell is 4 pages' "$tmp/map" &&
		[ "$(grep -c '^ *[0-9]* [.]\{64\}$' "$tmp/map")" -eq 32 ] &&
		"$ctl" pool rm large
}
# The areas of a picture are those of the legend.
svg()
{
	"$ctl" map --svg "$tmp/map.svg" >"$tmp/said" && [ ! -s "$tmp/said" ] &&
		"$ctl" map --svg - | cmp - "$tmp/map.svg" &&
		python3 - "$tmp/map.svg" "$(cat "$tmp/a")" "$(cat "$tmp/b")" <<'EOF'
import sys
import xml.etree.ElementTree as et

ns = "{http://www.w3.org/2000/svg}"
cells = {}
for r in et.parse(sys.argv[1]).getroot().iter(ns + "rect"):
    title = r.find(ns + "title")
    if title is not None:
        name = title.text.split(":")[0]
        cells[name] = cells.get(name, 0) + int(r.get("width")) // 8
print(cells)
a, b = int(sys.argv[2]), int(sys.argv[3])
assert cells == {"a": a, "b": b, "free": 128 - a - b}
EOF
}
map_refusals()
{
	refuses 2 '--by "colour"' "tenant or state" map --by colour &&
		refuses 2 '--width "0"' "20 to 1000" map --width 0 &&
		refuses 2 '--width "x"' "20 to 1000" map --width x &&
		refuses 1 '--svg "/dev/full"' "can be written" \
			map --svg /dev/full &&
		refuses 1 "--svg \"$tmp/no/where\"" "can be written" \
			map --svg "$tmp/no/where" &&
		refuses 1 'pool "x"' "name one of main" map --pool x
}

if [ -x "$run" ]; then
	check "what is in the pool" cached "one prompt" "another one"
	check "map by state" map_by_state
	check "map by tenant" map_by_tenant
	check "map as text" map_text
	if needs python3; then
		check "map as SVG" svg
	else
		skip "map as SVG" "no python3"
	fi
else
	skip "map" "no $run"
fi
check "a map of groups of pages" map_groups
check "maps that are refused" map_refusals

# ---- as kvcached's users know it ---------------------------------------------

listed()
{
	has list = '"ipc":"a","pool":"main","limit_bytes":8388608' \
		'"ipc":"b","pool":"main","limit_bytes":2097152' \
		'"ipc":"idle"' && has list idle b = '"ipc":"b"' '"ipc":"idle"' &&
		! grep -q '"ipc":"a"' "$tmp/json" || return
	used=$("$ctl" tenant ls --json | sed 's/.*"name":"a"[^}]*"current_pages":\([0-9]*\).*/\1/')
	has list a = "\"used_bytes\":$((used * 65536))" &&
		"$ctl" list | grep -q '^b  *main  *2 MiB '
}
limited()
{
	has limit a 1M = '"name":"a"' '"max_pages":16' &&
		has limit a max = '"max_pages":null' &&
		has limit-percent a 25 = '"max_pages":32' &&
		has limit-percent a 12.5% = '"max_pages":16' &&
		has limit a 50% --pool main = '"max_pages":64'
}
alias_refusals()
{
	refuses 1 'tenant "x"' "kvcachectl list" list x &&
		refuses 1 'tenant "x"' "tenant ls" limit x 1M &&
		refuses 2 'LIMIT "10X"' "64M" limit a 10X &&
		refuses 2 'PERCENT "101"' "0 to 100" limit-percent a 101 &&
		refuses 2 'PERCENT ""' "0 to 100" limit-percent a '' &&
		refuses 2 'PERCENT "1M"' "0 to 100" limit-percent a 1M &&
		refuses 2 "limit: something is missing" "NAME LIMIT" limit a &&
		refuses 1 'tenant "x"' "tenant ls" delete x &&
		refuses 2 '--interval "0"' "seconds" watch -n 0 &&
		refuses 1 'tenant "x"' "kvcachectl list" watch x
}
watched()
{
	"$ctl" watch -n 0.1 b >"$tmp/watch" &
	watches=$!
	within 20 sh -c "[ \$(grep -c '^TENANT' '$tmp/watch') -ge 3 ]"
	kill $watches
	wait $watches || return
	head -n 5 "$tmp/watch"
	[ "$(grep -c '^b  *main  *2 MiB' "$tmp/watch")" -ge 3 ] &&
		! grep -q '^a ' "$tmp/watch"
}
deleted()
{
	"$ctl" delete idle | grep -q 'tenant idle: removed' &&
		refuses 1 'tenant "idle"' "kvcachectl list" list idle
}
check "list" listed
check "limit and limit-percent" limited
check "aliases that are refused" unchanged alias_refusals
check "watch" watched
check "delete" deleted

no_such_tenant()
{
	refuses 1 'tenant "nosuch"' "tenant ls" ps -t nosuch &&
		refuses 1 'tenant "nosuch"' "tenant ls" page ls -t nosuch &&
		refuses 2 "-x: no option of ps" "--help" ps -xj
}
check "lists of a tenant that is not there" no_such_tenant

# ---- completion -----------------------------------------------------------

# completes WORD... = WORD...: those, and no others, for the last of the former;
# "==" is a word "=" of the line.
completes()
{
	PATH=$build:$PATH bash --norc -c '
		. "$1"
		shift
		COMP_WORDS=(kvcachectl)
		while [ "$1" != = ]; do
			COMP_WORDS+=("${1/#==/=}")
			shift
		done
		shift
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		_kvcachectl
		echo "${COMP_WORDS[*]}: ${COMPREPLY[*]}"
		[ "${COMPREPLY[*]}" = "$*" ]
	' bash "$tmp/completion" "$@"
}
completion()
{
	"$ctl" completion bash >"$tmp/completion" &&
		bash -n "$tmp/completion" &&
		completes ten = tenant && completes limit- = limit-percent &&
		completes tenant '' = ls create set rm grant grants flush &&
		completes tenant set --m = --min --max --mode &&
		completes tenant set a --trust '' = yes no &&
		completes page ls --state ret = retiring &&
		completes tenant rm '' = a b &&
		completes ps --tenant '' = a b &&
		completes ps -p '' = main &&
		completes --device "$KVCACHE" pool dr = drain &&
		completes limit-percent b = b && completes limit '' = a b &&
		completes tenant create '' = &&
		completes limit a '' = && completes tenant set a '' = &&
		completes tenant grant a '' = a b &&
		completes tenant grant a b '' = &&
		completes list a '' = a b &&
		completes ps --pool == = main &&
		completes ps --pool == ma = main &&
		completes ps --pool == main -t '' = a b &&
		completes tenant --device "$KVCACHE" rm '' = a b &&
		completes footprint --pool '' = || return
	# Names are those of the backend that the line names.
	named=$KVCACHE
	KVCACHE=$tmp/none completes --device "$named" tenant rm '' = a b &&
		KVCACHE=$tmp/none completes ps -d "$named" -t '' = a b
}
completion_has_all()
{
	"$ctl" --help | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p' | uniq \
		>"$tmp/have"
	[ "$(wc -l <"$tmp/have")" -gt 12 ] || return
	# shellcheck disable=SC2046 # words
	completes '' = $(cat "$tmp/have")
}
if needs bash; then
	check "completion" completion
	"$ctl" completion bash >"$tmp/completion"
	check "completion has all commands" completion_has_all
else
	skip "completion" "no bash"
fi
check "a shell that there is no completion for" refuses 2 \
	'completion "fish"' "give bash" completion fish
broker_stop
tap_end
