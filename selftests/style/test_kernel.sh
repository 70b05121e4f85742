#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Kernel code is checked with the kernel's own tools: checkpatch, sparse and
# coccinelle scripts. They come with the kernels that the module is tested in.
. "$(dirname "$0")/../tap.sh"

source=$("$root/tools/setup/kernels.sh" source 2>/dev/null)
if [ -z "$source" ]; then
	skip "kernel code" "no kernel sources: tools/setup/kernels.sh source"
	tap_end
fi
exceptions=$root/selftests/style/kernel-exceptions.txt

checkpatch()
{
	cd "$root" && perl "$source/scripts/checkpatch.pl" --no-tree --strict \
		--terse --no-summary --show-types --ignore "$(sed \
			-n 's/^\([A-Z_][A-Z_]*\)	.*/\1/p' "$exceptions" |
			paste -s -d ,)" -f kmod/*.[ch]
}
check "checkpatch --strict" checkpatch

# What is excepted for one file is so for that file only.
only_in()
{
	! grep -l -E "$1" "$root"/kmod/*.[ch] | grep -v "/$2\$"
}
check "versions of kernels are compared in compat.h only" \
	only_in 'LINUX_VERSION_CODE|KERNEL_VERSION' compat.h
check "no BUG(), no raw pointers printed" \
	only_in 'BUG\(|BUG_ON\(|%px' nowhere

# clean VERSION: no line of sparse.
clean()
{
	dir=$("$root/tools/setup/kernels.sh" "$1") || return
	make -s -C "$root" O="$tmp/sparse" KMOD="$tmp/sparse/$1" \
		KDIR="$dir/build" WERROR=1 C=2 CHECK=sparse \
		modules >"$tmp/sparse.log" 2>&1 || {
		cat "$tmp/sparse.log"
		return 1
	}
	! grep -E 'warning|error' "$tmp/sparse.log"
}
if needs sparse; then
	check "sparse, 6.1" clean 6.1
	check "sparse, 6.12" clean 6.12
else
	skip "sparse" "no sparse"
fi

# Those which find faults, not those which like another spelling.
scripts='free/kfree free/kfreeaddr iterators/itnull iterators/list_entry_update
	iterators/use_after_iter locks/call_kern locks/double_lock locks/flags
	locks/mini_lock misc/badty misc/cond_no_effect misc/cstptr
	misc/doubleinit misc/excluded_middle misc/ifcol misc/noderef
	misc/orplus null/deref_null null/eno null/kmerr tests/doublebitand
	tests/doubletest tests/odd_ptr_err tests/unsigned_lesser_than_zero'
cocci()
{
	bad=0
	for s in $scripts; do
		timeout 60 spatch --very-quiet -D report --no-show-diff \
			--cocci-file "$source/scripts/coccinelle/$s.cocci" \
			--include-headers --dir "$root/kmod" \
			>"$tmp/cocci" 2>/dev/null || bad=1
		if [ -s "$tmp/cocci" ]; then
			echo "$s:"
			cat "$tmp/cocci"
			bad=1
		fi
	done
	return $bad
}
if needs spatch; then
	check "coccinelle" cocci
else
	skip "coccinelle" "no spatch"
fi
tap_end
