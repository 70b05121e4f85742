#!/bin/sh
# SPDX-License-Identifier: MIT
#
# kvcachectl on the module, as root and as a user without rights.
. "$(dirname "$0")/../tap.sh"
if [ ! -x "$build/kvcachectl" ] || [ ! -c /dev/kvcache ]; then
	skip "kvcachectl on the module" "no $build/kvcachectl, or no device"
	tap_end
fi
export KVCACHE=/dev/kvcache KVATTN_ISA=scalar
# shellcheck disable=SC2034 # for ctl_kit.sh
few=2
. "$root/selftests/tools/ctl_kit.sh"
ctl_tests

# ---- as a user -----------------------------------------------------------

# Of a machine that is thrown away: users can be made.
if [ ! -e /etc/plan ]; then
	skip "as a user" "no machine of the tests' own"
	tap_end
fi
echo 'somebody:x:1234:1234::/:/bin/sh' >>/etc/passwd
chmod 755 "$tmp"

# user STATUS WORDS REMEDY ARGUMENT...: what a user is told, on one line.
user()
{
	status=$1 words=$2 remedy=$3
	shift 3
	su somebody -c "exec $ctl $*" >"$tmp/said" 2>"$tmp/err"
	got=$?
	cat "$tmp/said" "$tmp/err"
	[ "$got" -eq "$status" ] && grep -q -F -e "$words" "$tmp/err" &&
		grep -q -F -e "$remedy" "$tmp/err" &&
		[ "$(wc -l <"$tmp/err")" -eq 1 ]
}
no_permission()
{
	chmod 600 /dev/kvcache
	user 1 "/dev/kvcache: Permission denied" "its group" info
	told=$?
	chmod 666 /dev/kvcache
	return $told
}
may_not_administer()
{
	for command in 'tenant create x' 'tenant set a --max 1M' 'tenant rm a' \
			'tenant flush a' 'tenant grant a b --rights lookup' \
			'pool create x --size 2M' 'pool set main --size 1M' \
			'pool drain main' 'pool rm main'; do
		user 1 "CAP_SYS_ADMIN" "run as root" \
			"$command" || return
	done
}
of_no_tenant()
{
	for command in ps 'page ls' 'page show 1' 'tenant ls' events; do
		user 1 "user 1234 is of no tenant" "--tenant" "$command" ||
			return
	done
	user 1 "tenant x: there is none of this name" "tenant create x" \
		ps -t x && user 1 "tenant a: user 1234 is no member" "its group" \
		ps -t a && user 1 "tenant a: user 1234 is no member" \
		"its group" events -t a
}
sees_its_own()
{
	"$ctl" tenant create c --owner somebody || return
	su somebody -c "$ctl tenant ls --json" >"$tmp/json" &&
		cat "$tmp/json" && grep -q '"name":"c"' "$tmp/json" &&
		! grep -q '"name":"a"' "$tmp/json" &&
		su somebody -c "$ctl ps" >"$tmp/said" && cat "$tmp/said" &&
		[ "$(wc -l <"$tmp/said")" -eq 2 ] && "$ctl" tenant rm c
}

check "a pool and two tenants" pools
check "tenants of others" tenants
check "no permission on the device" no_permission
check "a user may not administer" unchanged may_not_administer
check "a user of no tenant" of_no_tenant
check "a user sees its own tenant" sees_its_own
check "nothing is left of it" nothing_is_left
tap_end
