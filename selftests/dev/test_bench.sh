#!/bin/sh
# SPDX-License-Identifier: MIT
#
# kvcache-bench ioctl: its goal, which emulation does not spoil since both sides
# are emulated, and its other ways to answer. A goal is missed when three runs
# in a row miss it.
. "$(dirname "$0")/../tap.sh"
bench=$build/kvcache-bench
if [ ! -x "$bench" ]; then
	skip "a page in a batch costs few ioctls" "no $bench"
	tap_end
fi

meets_its_goal()
{
	for _ in 1 2 3; do
		"$bench" ioctl --check >"$tmp/table" && return
		cat "$tmp/table"
	done
	return 1
}
says_json()
{
	"$bench" ioctl --json >"$tmp/json" && cat "$tmp/json" &&
		[ "$(tr ',' '\n' <"$tmp/json" | grep -c '"ratio":')" -eq 8 ]
}
leaves_nothing()
{
	ls /sys/class/kvcache/kvcache/pools /sys/class/kvcache/kvcache/tenants
	[ -z "$(ls -A /sys/class/kvcache/kvcache/pools)" ] &&
		[ -z "$(ls -A /sys/class/kvcache/kvcache/tenants)" ]
}
skips_without_a_device()
{
	"$bench" ioctl --device "$tmp/none" 2>&1 | grep -q "^skipped: no"
}

# A kernel that watches each access tells nothing of what it would cost without.
if [ -e /sys/kernel/debug/failslab ] || [ -e /sys/kernel/debug/kcsan ]; then
	skip "a page in a batch costs few ioctls" "a debug kernel"
else
	check "a page in a batch costs few ioctls" meets_its_goal
	sed 's/^/# figure ioctl: /' "$tmp/table"
fi
check "it says the same as JSON" says_json
check "its pools and its tenant are gone" leaves_nothing
check "without a device it has nothing to measure" skips_without_a_device
tap_end
