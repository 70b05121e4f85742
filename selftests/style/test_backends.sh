#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What README.md says that each backend guarantees is what backends.txt says, what
# security.rst says that it protects what security.txt says, and every test that
# they name is there.
. "$(dirname "$0")/../tap.sh"
cd "$root" || exit 1
list=selftests/style/backends.txt
security=selftests/style/security.txt

table()
{
	echo '| | in-process | module | broker |'
	echo '|---|---|---|---|'
	sed '/^#/d' $list | awk -F '\t' \
		'{ printf "| %s | %s | %s | %s |\n", $1, $2, $3, $4 }'
}
same_table()
{
	table >"$tmp/want"
	sed -n '/^| | in-process/,/^$/{/^|/p}' README.md >"$tmp/got"
	diff -u "$tmp/want" "$tmp/got"
}
security_table()
{
	sed '/^#/d' $security | awk -F '\t' '
		{ printf "   * - %s\n     - %s\n     - %s\n     - %s\n", $1, $2, $3, $4 }'
}
same_security()
{
	security_table >"$tmp/want"
	sed -n '/^   \* - from whom/,/^$/{/^ /p}' \
		Documentation/admin-guide/security.rst | sed 1,4d >"$tmp/got"
	diff -u "$tmp/want" "$tmp/got"
}
# whole LIST
whole()
{
	sed '/^#/d' "$1" | awk -F '\t' 'NF != 7 { print; bad = 1 }
		END { exit bad || NR < 10 }'
}

# there FILE:NAME: a test of that name.
there()
{
	file=${1%%:*} name=${1#*:}
	case $file in
	*.c)	grep -q -E "^TEST(_F)?\((\w+, )?$name\)" "$file" ;;
	*.sh)	grep -q -F "$name\"" "$file" ;;
	*)	false ;;
	esac
}
all_there()
{
	sed '/^#/d' $list $security | cut -f 5-7 | tr '\t' '\n' |
		grep -v -x -e - | sort -u >"$tmp/tests"
	while read -r t; do
		there "$t" || { echo "no $t"; bad=1; }
	done <"$tmp/tests"
	[ -s "$tmp/tests" ] && [ -z "${bad:-}" ]
}

check "each line is whole" whole $list
check "each line of security.txt is whole" whole $security
check "README.md has the same table" same_table
check "security.rst has the same table" same_security
check "every test is there" all_there
tap_end
