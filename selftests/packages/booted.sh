#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What has to be true on a machine that booted with the units enabled. Run by
# test_boot.sh, as root, there.
# shellcheck disable=SC2154 # of tap.sh
. "$(dirname "$0")/../tap.sh"
broker=/run/kvcache/broker
fs=/run/kvcache/fs

# as USER COMMAND...
as()
{
	user=$1
	shift
	setpriv --reuid "$user" --regid "$user" --init-groups "$@"
}
soon()
{
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		"$@" && return
		sleep 0.5
	done
	return 1
}
# is FILE OWNER GROUP MODE
is()
{
	stat -c '%U %G %a' "$1"
	[ "$(stat -c '%U %G %a' "$1")" = "$2 $3 $4" ]
}
unit()
{
	systemctl is-active "$@" || { systemctl status "$@"; return 1; }
}

nothing_failed()
{
	systemctl --failed --no-legend --plain >"$tmp/failed"
	cat "$tmp/failed"
	while read -r name _; do
		systemctl status "$name"
	done <"$tmp/failed"
	! grep -q . "$tmp/failed"
}
check "no unit failed" nothing_failed
in_order()
{
	! journalctl -b --no-pager | grep -i 'ordering cycle'
}
check "nothing waits for itself" in_order
check "the folder is root's" is /run/kvcache root root 755
check "the socket is the group's" is $broker root kvcache 660

# ---- the broker -----------------------------------------------------------

check "a user of the group publishes a page" as alice publish 7
check "and finds it" as alice publish -f 7
not_there()
{
	! as alice publish -f 8
}
check "but no other" not_there
refused()
{
	! as mallory publish 9 2>"$tmp/err" && cat "$tmp/err" &&
		grep -q "$broker.*its group may connect" "$tmp/err" &&
		as mallory kvcachectl doctor >"$tmp/doctor"
	cat "$tmp/doctor"
	grep -q '^wrong  broker .*group kvcache.*usermod -aG kvcache mallory' \
		"$tmp/doctor"
}
check "who is not in the group does not" refused
check "the broker runs" unit kvcache-broker.service

main_pid()
{
	systemctl show -p MainPID --value "$1"
}
# confined UNIT: its user's, without capabilities, behind a filter of calls.
confined()
{
	grep -E '^(Uid|CapBnd|CapEff|NoNewPrivs|Seccomp):' \
		"/proc/$(main_pid "$1")/status" >"$tmp/status"
	cat "$tmp/status"
	uid=$(id -u kvcache)
	[ "$uid" -gt 0 ] && grep -q "^Uid:.$uid.$uid.$uid.$uid\$" "$tmp/status" &&
		grep -q '^CapBnd:.0*$' "$tmp/status" &&
		grep -q '^CapEff:.0*$' "$tmp/status" &&
		grep -q '^NoNewPrivs:.1$' "$tmp/status" &&
		grep -q '^Seccomp:.2$' "$tmp/status"
}
check "the broker is confined" confined kvcache-broker.service

# The bytes that are charged to the broker: what was published.
charged()
{
	size=$(sed -n 's/^shmem //p' \
		/sys/fs/cgroup/system.slice/kvcache-broker.service/memory.stat)
	echo "$size"
	[ "$size" -ge 65536 ]
}
check "published pages are charged to the broker" charged

restarted()
{
	was=$(main_pid kvcache-broker.service)
	systemctl restart kvcache-broker.service || return
	[ "$(main_pid kvcache-broker.service)" != "$was" ] &&
		as alice publish -f 7 && kvcachectl pool ls --json >"$tmp/json"
	cat "$tmp/json"
	journalctl -u kvcache-broker.service --no-pager | tail -n 8
	grep -q '"cached_pages":1,' "$tmp/json" &&
		journalctl -u kvcache-broker.service --no-pager |
			grep -q '1 pages of the last broker are cached, 0 are lost'
}
check "a restart keeps what is published" restarted
killed()
{
	was=$(main_pid kvcache-broker.service)
	[ "$was" -gt 1 ] && kill -s KILL "$was" &&
		soon unit kvcache-broker.service &&
		[ "$(main_pid kvcache-broker.service)" != "$was" ] &&
		as alice publish 8 && as alice publish -f 8
}
check "one that is killed is started again" killed

# ---- the view, metrics ----------------------------------------------------

check "the view is mounted" unit run-kvcache-fs.mount
shown()
{
	findmnt -n -o FSTYPE,OPTIONS $fs
	head $fs/pools/main/size $fs/pools/main/cached $fs/tenants/alice/max
	findmnt -n -o FSTYPE $fs | grep -q -x fuse.kvcachefs &&
		[ "$(cat $fs/pools/main/size)" = 16777216 ] &&
		[ "$(cat $fs/pools/main/cached)" = 65536 ] &&
		[ "$(cat $fs/tenants/alice/max)" = "main 8388608" ]
}
check "and shows what there is" shown
limited()
{
	echo 4M >$fs/tenants/alice/max &&
		kvcachectl tenant ls --json >"$tmp/json"
	cat "$tmp/json"
	grep -q '"max_pages":64,' "$tmp/json" && as alice cat $fs/tenants/alice/max &&
		! as mallory cat $fs/tenants/alice/max &&
		! as alice sh -c "echo 8M >$fs/tenants/alice/max"
}
check "and takes limits of root alone" limited
remounted()
{
	systemctl stop run-kvcache-fs.mount && [ ! -e $fs/pools ] &&
		mount -t fuse.kvcachefs -o _netdev,nofail kvcachefs $fs && [ -e $fs/pools/main ] &&
		umount $fs && systemctl start run-kvcache-fs.mount &&
		[ -e $fs/pools/main ]
}
check "by mount(8), too" remounted

if systemctl cat kvcache-exporter.socket >/dev/null 2>&1; then
	scraped()
	{
		curl -s -S http://127.0.0.1:9961/metrics >"$tmp/metrics" ||
			{ systemctl status kvcache-exporter; return 1; }
		grep -c '^kvcache_' "$tmp/metrics" &&
			grep '^kvcache_.*tenant="alice"' "$tmp/metrics"
	}
	check "metrics of all tenants" scraped
	check "the exporter is confined" confined kvcache-exporter.service
else
	skip "metrics" "no kvcache-exporter"
fi

# ---- not running ----------------------------------------------------------

stopped()
{
	systemctl stop run-kvcache-fs.mount kvcache-broker.socket \
		kvcache-broker.service && [ ! -e $broker ] || return
	kvcachectl doctor >"$tmp/doctor"
	cat "$tmp/doctor"
	grep -q 'systemctl start kvcache-broker.socket' "$tmp/doctor" &&
		systemctl disable kvcache-broker.socket || return
	kvcachectl doctor >"$tmp/doctor"
	cat "$tmp/doctor"
	grep -q 'systemctl enable --now kvcache-broker.socket' "$tmp/doctor"
}
check "doctor says how to start it" stopped
started()
{
	systemctl enable --now kvcache-broker.socket && as alice publish 7 &&
		kvcachectl doctor >"$tmp/doctor"
	cat "$tmp/doctor"
	grep -q '^ok     broker' "$tmp/doctor"
}
check "and that starts it" started

# ---- a user's own ---------------------------------------------------------

users()
{
	systemctl start user@1001.service || return
	export XDG_RUNTIME_DIR=/run/user/1001
	as mallory publish 5 && as mallory publish -f 5 &&
		is $XDG_RUNTIME_DIR/kvcache/broker mallory mallory 600 &&
		as mallory systemctl --user restart kvcache-broker.service &&
		as mallory publish -f 5 && return
	as mallory systemctl --user status kvcache-broker.socket \
		kvcache-broker.service
	return 1
}
check "a user's own broker" users

# ---- the module -----------------------------------------------------------

if [ -r /kvcache/kvcache.ko ]; then
	loaded()
	{
		insmod /kvcache/kvcache.ko && udevadm settle &&
			soon is /dev/kvcache root kvcache 660
	}
	check "udev gives the device to the group" loaded
else
	skip "udev gives the device to the group" "no kmod-6.12/kvcache.ko"
fi

no_call_refused()
{
	! journalctl --no-pager | grep -E 'SIGSYS|type=1326'
}
check "nothing was stopped by a filter" no_call_refused
check "no unit failed meanwhile" nothing_failed
tap_end
