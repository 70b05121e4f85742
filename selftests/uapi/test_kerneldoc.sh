#!/bin/sh
# SPDX-License-Identifier: MIT
#
# kernel-doc comments: every member of every struct of the ABI has its line,
# every line has its member, and the kernel's own script has no complaint.
. "$(dirname "$0")/../tap.sh"
cd "$root" || exit 1
header=kmod/include/uapi/linux/kvcache.h
awk_script=selftests/uapi/kdoc-members.awk

check "every member is described" awk -f "$awk_script" "$header"

notices()
{
	sed "$1" "$header" >"$tmp/wrong.h"
	! cmp -s "$header" "$tmp/wrong.h" &&
		! awk -f "$awk_script" "$tmp/wrong.h"
}
check "a missing line is noticed" notices '/^ \* @out_missing:/d'
check "a line too many is noticed" \
	notices 's/^ \* @out_missing:.*/&\n * @out_more: nothing/'
check "a struct without comment is noticed" \
	notices 's/^ \* struct kvcache_take - .*/ * nothing/'

# What a file shares with its siblings only may describe itself in part.
kdoc=
for k in /usr/lib/linux-kbuild-*/scripts/kernel-doc; do
	[ -x "$k" ] && kdoc=$k
done
for h in "$header" $(git ls-files 'lib/*.h' 'kernels/*.h' 'kmod/*.h' \
		'tools/common/*.h' 2>/dev/null | grep -v -E -e "^lib/shim/|^$header" \
		-e '(internal|_priv|_kernels)\.h$'); do
	if [ -n "$kdoc" ]; then
		check "kernel-doc: $h" "$kdoc" -none -Werror "$h"
	else
		skip "kernel-doc: $h" "no kernel-doc: needs linux-kbuild-6.1"
	fi
done

tap_end
