#!/bin/sh
# SPDX-License-Identifier: MIT
#
# kvcachectl on a broker, by the user that runs it, and by one who may not.
. "$(dirname "$0")/../tap.sh"
broker=$build/kvcache-broker
if [ ! -x "$build/kvcachectl" ] || [ ! -x "$broker" ]; then
	skip "kvcachectl on a broker" "no $build/kvcachectl or $broker"
	tap_end
fi
export KVCACHE="$tmp/socket"
. "$root/selftests/tools/ctl_kit.sh"

"$broker" --socket "$KVCACHE" >"$tmp/broker" 2>&1 &
serves=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	[ -S "$KVCACHE" ] && break
	sleep 0.1
done
ctl_tests

# Its socket stays, and nobody listens.
gone()
{
	kill -s KILL $serves
	wait $serves
	"$ctl" info 2>"$tmp/err"
	got=$?
	cat "$tmp/err" "$tmp/broker"
	[ $got -eq 1 ] && grep -q "$KVCACHE: " "$tmp/err" &&
		grep -q "kvcache-broker" "$tmp/err"
}
check "a broker that is gone" gone
tap_end
