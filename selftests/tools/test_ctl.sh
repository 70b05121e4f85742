#!/bin/sh
# SPDX-License-Identifier: MIT
#
# kvcachectl without a backend: what it says of its command line, and which of
# all the reasons why there is none it names.
. "$(dirname "$0")/../tap.sh"
ctl=$build/kvcachectl
if [ ! -x "$ctl" ]; then
	skip "kvcachectl" "no $ctl"
	tap_end
fi
export XDG_RUNTIME_DIR="$tmp/run"
unset KVCACHE

# says STATUS WORDS REMEDY ARGUMENT...: one line of complaint, with both.
says()
{
	status=$1 words=$2 remedy=$3
	shift 3
	"$ctl" "$@" >"$tmp/said" 2>"$tmp/err" </dev/null
	got=$?
	cat "$tmp/said" "$tmp/err"
	[ "$got" -eq "$status" ] && [ ! -s "$tmp/said" ] &&
		[ "$(wc -l <"$tmp/err")" -eq 1 ] &&
		grep -q "^kvcachectl: " "$tmp/err" &&
		grep -q -F -e "$words" "$tmp/err" &&
		grep -q -F -e "$remedy" "$tmp/err"
}

command_line()
{
	says 2 "no command: give one of info, pool, tenant" "footprint" &&
		says 2 "bogus is no command" "info, pool" bogus &&
		says 2 "tenant what?" "ls, create, set, rm, grant, grants, flush" tenant &&
		says 2 "tenant bogus" "ls, create" tenant bogus &&
		says 2 "--bogus: no option of tenant ls" "--help" \
			tenant ls --bogus &&
		says 2 "--max: no option of tenant ls" "--help" \
			tenant ls --max 1 &&
		says 2 "-x: no option of" "--help" -x info &&
		says 2 "--max: give a value behind it" "value" \
			tenant set a --max &&
		says 2 "tenant ls: x is too much" "options only" tenant ls x &&
		says 2 "tenant grant: something is missing" "NAME TO" \
			tenant grant a &&
		says 2 "page show: 2 is too much" "PAGE" page show 1 2 &&
		says 2 "page show: something is missing" "PAGE" page show -- &&
		says 2 "page \"--json\"" "0x10000000c" page show -- --json &&
		says 2 "--max \"--\"" "64M" tenant set a --max -- &&
		says 2 "page show: 3 is too much" "PAGE" page show 1 -- 3
}
# Each command says what it takes, and each group what it has.
help()
{
	"$ctl" --help >"$tmp/help" && "$ctl" --version >"$tmp/version" &&
		grep -q '^kvcachectl [0-9]' "$tmp/version" || return
	sed -n 's/^  \([a-z][a-z]* [a-z]*\)  *.*/\1/p' "$tmp/help" |
		sort -u >"$tmp/commands"
	[ "$(wc -l <"$tmp/commands")" -gt 8 ] || return
	while read -r group name; do
		# shellcheck disable=SC2086 # none is no word
		"$ctl" "$group" $name --help >"$tmp/said" </dev/null || return
		head -n 1 "$tmp/said"
		grep -q "^Usage: kvcachectl $group" "$tmp/said" || return
		"$ctl" "$group" --help </dev/null |
			grep -q "^Usage: kvcachectl $group" || return
	done <"$tmp/commands"
}
check "a command line that is wrong" command_line
check "--help of each command" help

# ---- no backend ------------------------------------------------------------

# What is wrong with the values is said before anything is opened.
values_first()
{
	says 2 "--max \"10X\"" "64M" -d "$tmp/none" tenant set a --max 10X
}
# An empty file, a socket that nobody listens on, folders that are closed.
what_is_there()
{
	: >"$tmp/file"
	says 1 "$tmp/none: No such file" "modprobe kvcache" \
		-d "$tmp/none" info &&
		says 1 "$tmp/file: neither a device nor a socket" "name /dev/kvcache" \
			info -d "$tmp/file" &&
		says 1 "/dev/null: not a device of kvcache" "name /dev/kvcache" \
			info -d /dev/null &&
		says 2 '--device ""' "path of a device" info -d '' &&
		says 2 '--pool ".x"' "give a name" ps -p .x &&
		says 2 '--tenant "a b"' "give a name" ps -t 'a b' &&
		says 1 '--device "local"' "name a device" info -d local &&
		says 1 '"nonsense"' "a device" info -d nonsense || return
	KVCACHE=local says 1 'KVCACHE "local"' "seen by it alone" info &&
		KVCACHE=local:bytes=1M says 1 'KVCACHE "local:bytes=1M"' \
			"name a device" tenant ls
}
nothing_there()
{
	for command in info 'pool ls' 'tenant ls' 'tenant rm a' ps 'page ls' \
			events; do
		# shellcheck disable=SC2086 # words
		says 1 "the module is not loaded and no broker runs" \
			"modprobe kvcache" $command || return
	done
}
check "values are looked at first" values_first
check "what is there is no backend" what_is_there
if [ -e /dev/kvcache ] || [ -e /run/kvcache/broker ]; then
	skip "there is no backend" "/dev/kvcache or a broker is there"
else
	check "there is no backend" nothing_there
fi
tap_end
