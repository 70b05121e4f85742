#!/bin/sh
# SPDX-License-Identifier: MIT
#
# In a virtual machine: load the suite of KUnit. What it says in the kernel's
# log is TAP, but for the indentation.
for ko in "${KVCACHE_BUILD:?}"/kunit-*/kvcache_kunit.ko; do
	insmod "$ko" || exit
	rmmod kvcache_kunit || exit
done
said=$(dmesg | sed 's/^\[[^]]*\] //' | awk '
	/# Subtest: kvcache_ledger$/ { text = ""; inside = 1 }
	/^(not )?ok / { inside = 0 }
	inside { sub(/^    /, ""); text = text $0 "\n" }
	END { printf "%s", text }')
echo "$said"
! echo "$said" | grep -q '^not ok'
