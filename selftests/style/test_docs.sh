#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Documentation: its syntax, that what it names exists, that manual pages have
# the options that programs have, and that the programs in README.md run.
. "$(dirname "$0")/../tap.sh"
cd "$root" || exit 1
rst=$(find Documentation -name '*.rst')
man=$(find Documentation -name '*.[18]')

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

man_syntax()
{
	groff -man -ww -z "$1" 2>"$tmp/said"
	cat "$tmp/said"
	[ ! -s "$tmp/said" ]
}

# The long and short options of --help and of the manual page, as lists.
options_of_man()
{
	sed -n '/^\.SH OPTIONS/,/^\.SH ENV/s/\\-/-/gp' "$1" |
		grep -E '^\.(B|BR) -' | grep -o -E -e '--?[a-zA-Z][a-z0-9-]*' |
		sort -u
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
	options_of_man "Documentation/man/$1".[18] >"$tmp/man"
	options_of_help "$build/$1" >"$tmp/help"
	[ -s "$tmp/help" ] && diff "$tmp/help" "$tmp/man"
}
for f in $man; do
	if needs groff; then
		check "syntax: $f" man_syntax "$f"
	else
		skip "syntax: $f" "no groff"
	fi
done
for main in tools/*/main.c; do
	tool=$(basename "$(dirname "$main")")
	[ "$tool" = '*' ] && continue
	check "$tool has a manual page" ls "Documentation/man/$tool".[18]
	if [ -x "$build/$tool" ]; then
		check "$tool: manual page and --help agree" same_options "$tool"
	else
		skip "$tool: manual page and --help agree" "$tool is not built"
	fi
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
