#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What the in-process backend has to do, a broker does the same: the same
# programs, each on a broker of its own.
. "$(dirname "$0")/broker.sh"

# Those that run on the device too: device-tests of selftests/vm/vm.mk.
suites=$(sed -n '/^device-tests :=/,/[^\\]$/p' "$root/selftests/vm/vm.mk" |
	tr -d '\\\n' | sed 's/.*test_%\.c,\([^)]*\)).*/\1/')
programs=$(for t in "$root"/selftests/conformance/test_*.c; do
		echo "conformance/$(basename "$t" .c)"
	done
	for t in $suites; do
		echo "unit/test_$t"
	done)

# again PROGRAM: its lines, as tests of this one.
again()
{
	while read -r line; do
		case $line in
		'# SKIP'*)
			reason=${line#\# SKIP }
			;;
		'ok '*'# SKIP'*)
			line=${line#ok * }
			skip "$1: ${line%% #*}" "${reason:-it does not say why}"
			reason=
			;;
		'ok '*)
			check "$1: ${line#ok * }" true
			;;
		'not ok '*)
			check "$1: ${line#not ok * }" false
			;;
		'#'*)
			echo "$line"
			;;
		esac
	done <"$tmp/tap"
}

complete()
{
	cat "$tmp/err"
	[ "$1" -eq 0 ] || [ "$1" -eq 1 ] || [ "$1" -eq 4 ] || return
	[ "$(grep -c -E '^(not )?ok ' "$tmp/tap")" -eq \
		"$(sed -n 's/^1\.\.//p' "$tmp/tap")" ]
}

check "the suites are known" [ "$(echo "$suites" | wc -w)" -ge 9 ]
for p in $programs; do
	if ! broker_start >"$tmp/said"; then
		sed "s/^/# /" "$tmp/said"
		check "$p: a broker" false
		break
	fi
	KVCACHE_TEST_DEVICE=$socket timeout 120 "$build/selftests/$p" \
		>"$tmp/tap" 2>"$tmp/err" </dev/null
	status=$?
	again "$p"
	check "$p: it ran to its end" complete "$status"
	check "$p: nothing is left in the broker" broker_is_clean
	# Not in a shell of its own, which could not wait for it.
	broker_stop >"$tmp/err"
	check "$p: the broker ends" [ ! -s "$tmp/err" ]
done
tap_end
