#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Manual pages: their syntax, and that they have all there is: every option,
# exported function, command, event, parameter and variable of the environment.
. "$(dirname "$0")/../tap.sh"
cd "$root" || exit 1
LC_ALL=C; export LC_ALL
src=Documentation/man
uapi=kmod/include/uapi/linux/kvcache.h
pages=$build/man

# What is said of a page that is set: nothing.
clean()
{
	(cd "$pages" && groff -man -t -ww -z "$1" 2>&1) >"$tmp/said"
	if needs man; then
		(cd "$pages" && MANWIDTH=80 man --warnings -l "$1" \
			2>>"$tmp/said" >/dev/null)
	fi
	cat "$tmp/said"
	[ ! -s "$tmp/said" ]
}
if [ ! -e "$pages/.made" ]; then
	skip "pages are made" "no manual pages: needs scdoc"
elif ! needs groff; then
	skip "syntax" "no groff"
else
	check "a wrong page is noticed" sh -c "
		printf '.TH A 1\n.SH\n.XX\n' >'$tmp/wrong.1'
		[ -n \"\$(groff -man -ww -z '$tmp/wrong.1' 2>&1)\" ]"
	for f in "$pages"/man*/*; do
		[ "$(head -c 4 "$f")" = ".so " ] ||
			check "syntax: $(basename "$f")" clean "${f#"$pages/"}"
	done
fi

# The long and short options of --help and of the manual page, as lists.
options_of_man()
{
	sed -n '/^# OPTIONS/,/^# ENV/p' "$1" | grep -E "^	?\*-" |
		grep -o -E -e '--?[a-zA-Z][a-z0-9-]*' | sort -u
}
options_of_help()
{
	{
		"$1" --help
		# Those of commands, if it has any.
		"$1" --help | sed -n 's/^  \([a-z][a-z0-9-]*\)  *.*/\1/p' |
			while read -r command; do
				"$1" "$command" --help
			done
	} >"$tmp/help-text"
	# Where an option is explained, not where it is referred to.
	grep -E '^ +-' "$tmp/help-text" | sed 's/   *[^ -].*//' |
		grep -o -E -e '(^|[ ,])--?[a-zA-Z][a-z0-9-]*' | tr -d ' ,' |
		sort -u
}
same_options()
{
	options_of_man "$src/$1".[18].scd >"$tmp/man"
	options_of_help "$build/$1" >"$tmp/help"
	[ -s "$tmp/help" ] && diff "$tmp/help" "$tmp/man"
}
for main in tools/*/main.c; do
	tool=$(basename "$(dirname "$main")")
	check "$tool has a manual page" ls "$src/$tool".[18].scd
	if [ -x "$build/$tool" ]; then
		check "$tool: manual page and --help agree" same_options "$tool"
	else
		skip "$tool: manual page and --help agree" "$tool is not built"
	fi
done

# in_page PAGE: each line of $tmp/want is bold there, and there are some.
in_page()
{
	[ -s "$tmp/want" ] || return
	sed 's/\\//g' "$src/$1" >"$tmp/page"
	while read -r word; do
		grep -q -F -e "*$word*" "$tmp/page" ||
			{ echo "$1: no *$word*"; gone=1; }
	done <"$tmp/want"
	[ -z "${gone:-}" ]
}

find kernels lib tools -name '*.[ch]' -exec cat {} + |
	sed -n 's/.*getenv("\([A-Z_]*\)").*/\1/p' | sort -u >"$tmp/want"
check "variables of the environment are in kvcache(7)" in_page kvcache.7.scd
sed -n 's/^#define \(KVCACHE_[A-Z_]*\)\t*KVCACHE_IO(KVCACHE_NR.*/\1/p' $uapi >"$tmp/want"
check "commands are in kvcache(4)" in_page kvcache.4.scd
sed -n 's/^#define \(KVCACHE_EV_[A-Z_]*\).*/\1/p' $uapi >"$tmp/want"
check "events are in kvcache(4)" in_page kvcache.4.scd
parameters()
{
	sed -n 's/^module_param[a-z_]*(\([a-z_]*\),.*/\1/p' kmod/*.c >"$tmp/want"
	if [ -s "$tmp/want" ]; then
		in_page kvcache.4.scd
	else
		grep -q '^There are none' "$src/kvcache.4.scd"
	fi
}
check "parameters of the module are in kvcache(4)" parameters
sed -n 's,^What:.*/\([a-z_][a-z_]*\)$,\1,p' Documentation/ABI/sysfs-class-kvcache |
	sort -u >"$tmp/want"
check "files of sysfs are in kvcache(4)" in_page kvcache.4.scd

# What the units of systemd read: files and variables of an admin.
read_by_units()
{
	sed -n 's/^EnvironmentFile=-*//p' tools/systemd/*.service \
		tools/systemd/user/*.service |
		sed 's,@sysconfdir@,/etc,; s,%E,~/.config,' >"$tmp/want"
	sed -n 's/^ExecStart=[^$]*//p' tools/systemd/*.service \
		tools/systemd/user/*.service | grep -o '[A-Z_]*' >>"$tmp/want"
	[ "$(wc -l <"$tmp/want")" -ge 6 ] || return
	sed 's/\\//g' "$src"/*.8.scd >"$tmp/page"
	while read -r word; do
		grep -q -x -F -e "*$word*" -e "_${word}_" "$tmp/page" ||
			{ echo "no page has $word"; gone=1; }
		grep -q -F -e "$word" Documentation/admin-guide/systemd.rst ||
			{ echo "systemd.rst: no $word"; gone=1; }
	done <"$tmp/want"
	[ -z "${gone:-}" ]
}
check "what units read is in a page, and in systemd.rst" read_by_units
# A variable that two programs read is of both.
variables_of()
{
	for tool in kvcache-broker kvcache-exporter; do
		sed -n '/^# ENVIRONMENT/,/^# [^E]/p' "$src/$tool.8.scd" |
			grep '^\*' | grep -o '[A-Z_]*' | grep -E '^(LISTEN|NOTIFY)' |
			while read -r name; do
				awk -v n="*$name*" '
					/^\*/ { on = index($0, n) }
					on && /^\t/ { print }' \
					"$src/kvcache.7.scd" | grep -q -F "*$tool*(8)" ||
				{ echo "kvcache(7): $name of $tool"; exit 1; }
			done || return
	done
}
check "kvcache(7) says whose variables of systemd are" variables_of

# Members of a request, of a turn of one, and of a trace.
sed -n '/const keys\[\] = {/,/};/p' tools/kvcache-run/requests.c |
	grep -o '"[a-z_]*"' | tr -d '"' | sort -u >"$tmp/want"
check "members of requests are in kvcache-requests(5)" \
	in_page kvcache-requests.5.scd
sed -n 's/.*\(number(r, o,\|json_object_get(o,\) "\([a-z_]*\)".*/\2/p' \
	tools/kvcache-replay/trace.c >"$tmp/want"
check "members of traces are in kvcache-trace(5)" in_page kvcache-trace.5.scd

# A page NAME.3 for each, which has its name, its prototype and a description,
# and what it returns if it returns something.
exported()
{
	sed -n 's/^\t\(kvc_[a-z0-9_]*\);$/\1/p' lib/libkvcache.map >"$tmp/want"
	[ -s "$tmp/want" ] || return
	while read -r name; do
		page=$pages/man3/$name.3
		if [ ! -e "$page" ]; then
			echo "no page $name.3"
			gone=1
			continue
		fi
		page=$pages/$(sed -n '1s/^\.so //p' "$page")
		sed 's/\\&//g' "$page" >"$tmp/page"
		if ! grep -q "^\.SS $name()" "$tmp/page" ||
			! grep -q "[ *]$name(.*[,;]$" "$tmp/page"; then
			echo "$page: no $name()"
			gone=1
		fi
		grep -q "^void $name(" "$tmp/page" ||
			sed -n '/^\.SH RETURN VALUE/,/^\.SH SEE/p' "$tmp/page" |
				grep -q -x -F "\\fB$name\\fR()" ||
			{ echo "$page: $name() returns what?"; gone=1; }
	done <"$tmp/want"
	[ -z "${gone:-}" ]
}
# Our pages that others name; those of others may not be installed.
references()
{
	grep -o -h -E '\*kv[a-z0-9_\\-]*\*\([1-8]\)' "$src"/*.scd |
		sed 's/[*\\]//g' | sort -u | tr '()' '. ' >"$tmp/want"
	grep -h -o -E '\\fBkv[a-z0-9_\\-]*\\fR\([1-8]\)' "$pages"/man*/* |
		sed 's/\\f[BR]//g; s/\\//g' | sort -u | tr '()' '. ' >>"$tmp/want"
	[ -s "$tmp/want" ] || return
	while read -r name; do
		[ -e "$pages/man${name##*.}/$name" ] ||
			{ echo "no page $name"; gone=1; }
	done <"$tmp/want"
	[ -z "${gone:-}" ]
}
# In ROFF a name that is not there would be taken for a line of text.
aliases()
{
	for f in "$pages"/man*/*; do
		to=$(sed -n '1s/^\.so //p' "$f")
		[ -z "$to" ] || [ -e "$pages/$to" ] ||
			{ echo "$f: no $to"; gone=1; }
	done
	[ -z "${gone:-}" ]
}
# Not what somebody has to fill in, but did not.
filled_in()
{
	! grep -r -n -E '@[a-zA-Z_]+@' "$pages"
}
if [ -e "$pages/.made" ]; then
	check "nothing is left to be filled in" filled_in
	check "exported functions have a page" exported
	check "pages that are named exist" references
	check "pages that stand for others exist" aliases
else
	skip "exported functions have a page" "no manual pages: needs scdoc"
fi
tap_end
