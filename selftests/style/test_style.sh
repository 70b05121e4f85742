#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Static checks of every file of the project: licences, sizes, spaces, words,
# spelling, shell scripts. An exception stands here, with its reason.
. "$(dirname "$0")/../tap.sh"
cd "$root" || exit 1

if ! needs git || ! git -c safe.directory='*' ls-files -co --exclude-standard \
		>"$tmp/all" 2>/dev/null; then
	skip "style" "no git, or no repository"
	tap_end
fi
# Removed in the working tree, still in the index.
while read -r f; do
	[ -f "$f" ] && printf '%s\n' "$f"
done <"$tmp/all" >"$tmp/files"

# Reference data and seeds are what they are; licence texts are not ours.
grep -v -e '^selftests/data/' -e '^selftests/fuzz/corpus-' -e '^LICENSES/' \
	"$tmp/files" >"$tmp/ours"
grep -E '\.(c|h|cu|S)$' "$tmp/ours" >"$tmp/c"

# none FILES PATTERN [EXCEPTION]: no line of the files matches.
none()
{
	! tr '\n' '\0' <"$1" | xargs -0 grep -n -I -E -e "$2" /dev/null |
		grep -v -E -e "${3:-^\$}"
}

# These have no comments: debian/copyright speaks for them.
mute='^tools/packaging/debian/(changelog|copyright|source/format)$'

# licence OF PATTERN: the files whose name matches PATTERN say OF.
licence()
{
	grep -v -E "$mute" "$tmp/ours" | grep -E "$2" >"$tmp/these" || return 0
	while read -r f; do
		head -n 2 "$f" | grep -q -F "SPDX-License-Identifier: $1" ||
			{ echo "$f: not $1"; echo >>"$tmp/unlicensed"; }
	done <"$tmp/these"
	[ ! -e "$tmp/unlicensed" ]
}

check "licence: the ABI" \
	licence "(GPL-2.0-only WITH Linux-syscall-note) OR MIT" '^kmod/include/uapi/'
check "licence: the ledger and its commands" \
	licence "GPL-2.0-only OR MIT" '^kmod/(ledger|cmd)(_[a-z]+)?\.[ch]$'
rm -f "$tmp/unlicensed"
check "licence: the module" licence "GPL-2.0-only" '^kmod/[^/]*$'
rm -f "$tmp/unlicensed"
check "licence: all others" licence "MIT" \
	'^(\.ci|Documentation|kernels|lib|selftests|tools)/|^[^/]*$'
rm -f "$tmp/unlicensed"
check "licence: every file has one" licence "" .

short_enough()
{
	# The ABI is one header so that there is one contract.
	grep -v -x -e 'kmod/include/uapi/linux/kvcache.h' "$tmp/ours" |
		tr '\n' '\0' | xargs -0 wc -l |
		awk '$2 != "total" && $1 > 700 { print; bad = 1 }
		     END { exit bad }'
}
check "no file is longer than 700 lines" short_enough

check "no space at the end of a line" none "$tmp/ours" '[[:space:]]$'
check "no carriage return" none "$tmp/ours" "$(printf '\r')"

newlines()
{
	while read -r f; do
		[ -s "$f" ] || continue
		[ "$(tail -c 1 "$f" | wc -l)" -eq 1 ] ||
			{ echo "$f: no newline at its end"; bad=1; }
		[ -n "$(tail -n 1 "$f")" ] ||
			{ echo "$f: empty line at its end"; bad=1; }
	done <"$tmp/ours"
	[ -z "${bad:-}" ]
}
check "files end with one newline" newlines

check "C is indented with tabs" none "$tmp/c" '^        '
check "no // comment" none "$tmp/c" '^[[:space:]]*//' '// SPDX-License-Identifier: '
check "no typedef of a struct" none "$tmp/c" '^typedef (struct|union|enum)'

wide()
{
	tr '\n' '\0' <"$tmp/c" | xargs -0 sh -c '
		for f; do expand "$f" | sed -n "s,^\(.\{101\}.*\),$f: \1,p"; done
	' sh | grep -v -E '"|https?://' >"$tmp/wide"
	cat "$tmp/wide"
	[ ! -s "$tmp/wide" ]
}
# 80 is the rule, 100 where a break would be worse; checkpatch has this limit.
check "C fits into 100 columns, strings aside" wide

# This file names the words that it forbids.
self='^selftests/style/test_style\.sh:'
check "no note to self" none "$tmp/ours" '\<(TODO|FIXME|XXX|HACK)\>' "$self"
# mktemp(3) templates have to be somewhere.
check "no path of one machine" none "$tmp/ours" '/(work|home|root|tmp)/' \
	"$self|/tmp/[a-z-]*\.?XXXXXX"
check "no word about who wrote it, or why then" none "$tmp/ours" \
	'\<([Aa]gents?|[Ii]ssue #?[0-9]+|[Ss]ession [0-9a-f]{6,})\>|\.\./shared' \
	"$self"

if needs codespell; then
	check "spelling" sh -c "tr '\n' '\0' <'$tmp/ours' | xargs -0 codespell -q 3 -L iput"
else
	skip "spelling" "no codespell"
fi

if needs shellcheck; then
	check "shell scripts" sh -c "grep -e '\.sh$' -e '^\.ci/run$' '$tmp/ours' |
		xargs shellcheck -S warning -x -P SCRIPTDIR"
else
	skip "shell scripts" "no shellcheck"
fi

tap_end
