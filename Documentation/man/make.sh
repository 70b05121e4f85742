#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Manual pages, below a folder that "man -M" takes: those of NAME.N.scd here,
# and those of the library from the comments of its headers.
#
#	make.sh FOLDER VERSION
#	make.sh -n		print their names, manN/NAME.N, and make none
#
# SCDOC is the program that makes them.
set -eu
only_names=
if [ "$1" = -n ]; then
	only_names=1
	out=$(mktemp -d)
	trap 'rm -rf "$out"' EXIT
else
	out=$1
	version=$2
fi
here=$(dirname "$0")
include=$here/../../lib/include/kvcache
rm -rf "$out"
mkdir -p "$out/scd"

# Without the day of the build, so that equal input gives equal pages.
page()
{
	mkdir -p "$out/man${1##*.}"
	sed "s/@version@/$version/" "$out/scd/$1" |
		"${SCDOC:-scdoc}" >"$out/$1" ||
		{ echo "$1: not made" >&2; exit 1; }
	sed '/^\.TH /s/"[0-9]*-[0-9]*-[0-9]*"/""/' "$out/$1" \
		>"$out/man${1##*.}/$1"
	rm "$out/$1"
}

library='*libkvcache*(3), *kvcache*(7)'
awk -f "$here/kernel-doc.awk" -v dir="$out/scd" -v section=3 -v prefix=kvc_ \
	-v header=kvcache/kvcache.h -v about_all='libkvcache: ' \
	-v see="$library" \
	"$include/kvcache.h" "$include/seq.h" "$include/batch.h" \
	"$include/save.h" \
	"$include/tier.h" >"$out/aliases"
awk -f "$here/kernel-doc.awk" -v dir="$out/scd" -v section=4 \
	-v group=kvcache_ioctl -v title='commands of /dev/kvcache' \
	-v header=linux/kvcache.h -v see='*kvcache*(4), *kvcache*(7)' \
	"$here/../../kmod/include/uapi/linux/kvcache.h" >>"$out/aliases"
if [ -n "$only_names" ]; then
	{
		cut -d' ' -f2 "$out/aliases"
		for f in "$out"/scd/*.[1-8] "$here"/*.scd; do
			basename "$f" .scd
		done
		while read -r alias name; do
			echo "$alias.${name##*.}"
		done <"$out/aliases"
	} | sed 's,.*\.\([1-8]\)$,man\1/&,' | sort -u
	exit
fi
# @DOC TITLE@ in a page is the comment of this title.
for f in "$here"/*.scd; do
	name=$(basename "$f" .scd)
	awk -v dir="$out/scd" '
		/^@DOC / {
			gsub(/^@DOC |@$/, "")
			gsub(/ /, "-")
			file = dir "/" $0 ".doc"
			while ((got = (getline line <file)) > 0)
				print line
			if (got < 0) {
				print file ": no such comment" >"/dev/stderr"
				exit 1
			}
			next
		}
		{ print }' "$f" >"$out/scd/$name"
done
for f in "$out"/scd/*.[1-8]; do
	page "$(basename "$f")"
done
while read -r alias name; do
	printf '.so man%s/%s\n' "${name##*.}" "$name" \
		>"$out/man${name##*.}/$alias.${name##*.}"
done <"$out/aliases"
rm -r "$out/scd" "$out/aliases"
