#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What the library exports is what its headers declare and its map lists.
. "$(dirname "$0")/../tap.sh"
cd "$root" || exit 1
LC_ALL=C; export LC_ALL
include=lib/include/kvcache

# The headers' declarations, one name a line: comments, preprocessor lines and
# bodies removed, a name before a parenthesis.
sed 's,/\*.*\*/,,; /\/\*/,/\*\//d; /^#/d; /\\$/d; /extern "C"/d' \
		$include/kvcache.h $include/seq.h $include/batch.h \
		$include/save.h \
		$include/tier.h |
	awk '/{/ { depth++ } !depth { print } /}/ && depth { depth-- }' |
	sed -n 's/.*\<\(kvc_[a-z0-9_]*\)(.*/\1/p' | sort -u >"$tmp/declared"
sed -n 's/^\t\(kvc_[a-z0-9_]*\);$/\1/p' lib/libkvcache.map | sort >"$tmp/listed"

check "the headers declare functions" test -s "$tmp/declared"
check "the map lists what the headers declare" \
	diff -u "$tmp/declared" "$tmp/listed"
if [ ! -e "$build/libkvcache.so.0" ]; then
	skip "the library exports what the map lists" "no shared library built"
elif ! needs nm; then
	skip "the library exports what the map lists" "no nm"
else
	nm -D --defined-only "$build/libkvcache.so.0" |
		awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' |
		sort >"$tmp/exported"
	check "the library exports what the map lists" \
		diff -u "$tmp/listed" "$tmp/exported"
fi
tap_end
