#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Documentation: its syntax, that what it names exists, and that the programs in
# README.md run. Manual pages are in test_man.sh.
. "$(dirname "$0")/../tap.sh"
cd "$root" || exit 1
rst=$(find Documentation -name '*.rst')

rst_syntax()
{
	"$python" - "$@" <<'EOT'
import sys
import docutils.core
import docutils.utils

for name in sys.argv[1:]:
    with open(name) as f:
        text = f.read()
    try:
        docutils.core.publish_doctree(text, source_path=name,
            settings_overrides={"report_level": 1, "halt_level": 2})
    except docutils.utils.SystemMessage:
        sys.exit(1)
EOT
}
# The first python3 in the path need not be Debian's.
python=
for p in python3 /usr/bin/python3; do
	[ -z "$python" ] && $p -c 'import docutils' 2>/dev/null && python=$p
done
if [ -n "$python" ]; then
	for f in $rst; do
		check "syntax: $f" rst_syntax "$f"
	done
else
	skip "syntax" "no docutils: needs python3-docutils"
fi

# What stands between double backquotes (rst) or backquotes (Markdown) and
# looks like a file of this tree is one. $1 is a file.
paths()
{
	tr '\140' '\n' <"$1" |
		grep -E '^(\.ci|Documentation|LICENSES|kernels|kmod|lib|selftests|tools)/[^ *<]+$' |
		grep -v NAME | sort -u >"$tmp/paths"
	while read -r path; do
		[ -e "$path" ] || { echo "$1: no $path"; gone=1; }
	done <"$tmp/paths"
	[ -z "${gone:-}" ]
}
for f in README.md $rst; do
	check "files that exist: $f" paths "$f"
done

# And every test that is named, with or without its folder and its ending.
tests()
{
	grep -o -E '[A-Za-z0-9_/.]*\<test_[A-Za-z0-9_.*]*' "$1" |
		grep -v NAME | sed 's,.*/,,; s,\.$,,' | sort -u >"$tmp/names"
	while read -r name; do
		find selftests -name "$name" -o -name "$name.c" -o \
			-name "$name.sh" | grep -q . ||
			{ echo "$1: no $name"; gone=1; }
	done <"$tmp/names"
	[ -z "${gone:-}" ]
}
for f in README.md $rst Documentation/man/*.scd; do
	check "tests that exist: $f" tests "$f"
done
a_wrong_one()
{
	printf 'selftests/unit/test_gone.c, by %s.\n' test_docs >"$tmp/wrong"
	! tests "$tmp/wrong" >"$tmp/said" && cat "$tmp/said" &&
		[ "$(cat "$tmp/said")" = "$tmp/wrong: no test_gone.c" ]
}
check "a test that is gone is noticed" a_wrong_one

# One recipe for /etc/fstab, so that no two say different things.
fstab()
{
	grep -r -n -E 'fuse\.kvcachefs .* 0 +0$' README.md Documentation
	[ "$(grep -r -h -c -E 'fuse\.kvcachefs .* 0 +0$' README.md \
		Documentation | grep -v -x 0)" = 1 ]
}
check "one line for /etc/fstab" fstab

# Functions, too: every name() with one of our prefixes is in the source.
functions()
{
	grep -o -h '\<\(kv[acl]\|model\|tokenizer\|gguf\)_[a-z0-9_]*()' "$1" |
		tr -d '()' | sort -u >"$tmp/names"
	while read -r name; do
		grep -r -q -w --include='*.[ch]' -e "$name" kmod lib kernels tools ||
			{ echo "$1: no $name()"; gone=1; }
	done <"$tmp/names"
	[ -z "${gone:-}" ]
}
for f in README.md $rst; do
	check "functions that exist: $f" functions "$f"
done

# The C programs of README.md, as they stand there.
programs=$(awk -v dir="$tmp" -f selftests/style/readme-programs.awk README.md)
check "README.md has a program" [ "$programs" -gt 0 ]
runs()
{
	gcc -std=gnu11 -Wall -Wextra -Werror -Ilib/include -Ikmod/include/uapi \
		-Ikernels/include -o "$tmp/$1" "$tmp/$1.c" \
		"$build/libkvcache.a" -lnettle -lm -pthread &&
		"$tmp/$1" >"$tmp/said" || return
	cat "$tmp/said"
	# What README.md says that it prints.
	[ -s "$tmp/said" ] || return
	while read -r line; do
		grep -q -x -F -e "    $line" README.md || return
	done <"$tmp/said"
}
i=0
while [ "$i" -lt "$programs" ]; do
	i=$((i + 1))
	if [ ! -e "$build/libkvcache.a" ]; then
		skip "README.md: program $i" "the library is not built"
	else
		check "README.md: program $i" runs "$i"
	fi
done

tap_end
