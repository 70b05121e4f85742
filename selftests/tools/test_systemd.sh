#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Units, users and folders as systemd's own programs read them; that they name
# what is there: sockets that the library tries, options that programs have, the
# group of the udev rule. And the programs, started through their sockets.
. "$(dirname "$0")/../broker/broker.sh"
cd "$root" || exit 1
ctl=$build/kvcachectl
unset KVCACHE
for program in systemd-analyze systemd-socket-activate make; do
	needs $program && continue
	skip "units" "no $program"
	tap_end
done
if [ ! -x "$ctl" ] || [ ! -x "$build/kvcache-broker" ]; then
	skip "units" "no $ctl or kvcache-broker"
	tap_end
fi
at=$tmp/at
units=$at/usr/lib/systemd/system
users=$at/usr/lib/systemd/user
export XDG_RUNTIME_DIR="$tmp/run"
mkdir -m 700 "$XDG_RUNTIME_DIR"

# The programs where they were built, so that they are there.
put_units()
{
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES \
		make --no-print-directory O="$build" install-systemd \
		prefix=/usr bindir="$build" DESTDIR="$at"
}
check "installed" put_units
filled_in()
{
	! grep -r -n '@[a-z]*@' "$at"
}
check "all paths are filled in" filled_in

# ---- as systemd reads them ------------------------------------------------

# It says what it does not know on standard error, and succeeds.
silent()
{
	"$@" >"$tmp/said" 2>&1
	got=$?
	cat "$tmp/said"
	[ $got -eq 0 ] && [ ! -s "$tmp/said" ]
}
for unit in "$units"/*; do
	check "verify: ${unit##*/}" silent systemd-analyze verify --man=no \
		"$unit"
done
for unit in "$users"/*; do
	check "verify: user/${unit##*/}" silent systemd-analyze verify --user \
		--man=no "$unit"
done

# All of them together, enabled, in the order of a boot: a unit alone may wait
# for what waits for it. Programs of others need not be there.
boot=$tmp/boot
enabled()
{
	mkdir -p "$boot/usr/lib/systemd" "$boot/etc" &&
		cp -a /usr/lib/systemd/system "$boot/usr/lib/systemd/" &&
		cp "$units"/* "$boot/usr/lib/systemd/system/" || return
	for unit in "$units"/*.socket "$units"/*.mount; do
		systemctl --root="$boot" enable "${unit##*/}" || return
	done
}
no_cycle()
{
	systemd-analyze verify --man=no --root="$boot" multi-user.target \
		>"$tmp/said" 2>&1
	cat "$tmp/said"
	! grep -i -e 'cycle' -e 'kvcache' "$tmp/said"
}
# As mounts are by themselves: before local-fs.target, which sockets wait for.
cycle_noticed()
{
	sed -i '/^DefaultDependencies=/d; /^After=local-fs/d' \
		"$boot/usr/lib/systemd/system/run-kvcache-fs.mount"
	! no_cycle && grep -q 'cycle' "$tmp/said"
}
if needs systemctl && [ -e /usr/lib/systemd/system/multi-user.target ]; then
	check "enabled" enabled
	check "verify: all that is enabled, at boot" no_cycle
	check "verify: one that waits for itself is noticed" cycle_noticed
else
	skip "verify: all that is enabled, at boot" "no units of systemd here"
fi

# "OK" is below 5.0. Whatever is left open is named in the unit.
secure()
{
	unit=$1
	shift
	SYSTEMD_COLORS=0 COLUMNS=200 systemd-analyze security --no-pager "$@" \
		--offline=true --threshold=49 "$unit" >"$tmp/said" 2>&1
	got=$?
	tail -n 1 "$tmp/said"
	[ $got -eq 0 ] && grep -q 'Overall exposure' "$tmp/said" || return
	sed -n 's/^✗ \([A-Za-z]*\)=.*/\1/p' "$tmp/said" | sort -u |
		while read -r name; do
			grep -q "$name=" "$unit" ||
				{ echo "not explained: $name="; exit 1; }
		done
}
for unit in "$units"/*.service; do
	check "security: ${unit##*/}" secure "$unit"
done
for unit in "$users"/*.service; do
	check "security: user/${unit##*/}" secure "$unit" --user
done
open_unit()
{
	printf '[Service]\nExecStart=%s\n' "$build/kvcache-broker" \
		>"$tmp/open.service"
	! secure "$tmp/open.service"
}
check "security: a unit without all that is not" open_unit

pages()
{
	sed -n 's/^Documentation=man:\(.*\)(\([0-9]\))$/\1.\2/p' \
		"$units"/* "$users"/* | sort -u >"$tmp/pages"
	cat "$tmp/pages"
	[ -s "$tmp/pages" ] || return
	while read -r page; do
		ls "Documentation/man/$page"* || exit
	done <"$tmp/pages"
}
check "manual pages are there" pages

# ---- users, folders -------------------------------------------------------

# field FILE LINE: what comes behind it.
field()
{
	sed -n "s,^$2,,p" "$1"
}
sysusers()
{
	mkdir -p "$tmp/users/etc" &&
		systemd-sysusers --root="$tmp/users" \
			"$at/usr/lib/sysusers.d/kvcache.conf" || return
	cat "$tmp/users/etc/group" "$tmp/users/etc/passwd"
	grep -q '^kvcache:' "$tmp/users/etc/group" &&
		grep -q '^kvcache:.*:/usr/sbin/nologin$' \
			"$tmp/users/etc/passwd" || return
	# Users of the units are among them.
	for unit in "$units"/*.service; do
		grep -q "^$(field "$unit" User=):" "$tmp/users/etc/passwd" ||
			return
	done
}
if needs systemd-sysusers; then
	check "sysusers" sysusers
else
	skip "sysusers" "no systemd-sysusers"
fi
tmpfiles()
{
	systemd-tmpfiles --root="$tmp/files" --create \
		"$at/usr/lib/tmpfiles.d/kvcache.conf" || return
	stat -c '%U %G %a' "$tmp/files/run/kvcache"
	[ "$(stat -c '%U %G %a' "$tmp/files/run/kvcache")" = "root root 755" ]
}
if needs systemd-tmpfiles && [ "$(id -u)" -eq 0 ]; then
	check "tmpfiles" tmpfiles
else
	skip "tmpfiles" "needs root, and systemd-tmpfiles"
fi
# The device and the broker are for the same group.
one_group()
{
	rule=kmod/60-kvcache.rules
	grep -q 'GROUP="kvcache", MODE="0660"' $rule &&
		grep -q '^g kvcache -$' "$at/usr/lib/sysusers.d/kvcache.conf" &&
		[ "$(field "$units/kvcache-broker.socket" SocketGroup=)" = kvcache ] &&
		[ "$(field "$units/kvcache-broker.socket" SocketMode=)" = 0660 ]
}
check "one group" one_group

# ---- what they name -------------------------------------------------------

# The library says what it tries, in its order.
tried()
{
	system=$(field "$units/kvcache-broker.socket" ListenSequentialPacket=)
	user=$(field "$users/kvcache-broker.socket" ListenSequentialPacket=%t)
	gcc -Ilib/include -Ikmod/include/uapi -o "$tmp/publish" \
		selftests/packages/publish.c "$build/libkvcache.a" -lnettle -lm \
		-pthread || return
	! "$tmp/publish" 2>"$tmp/said"
	cat "$tmp/said"
	[ -n "$system" ] && [ -n "$user" ] &&
		grep -q -w -F -e "$system" "$tmp/said" &&
		grep -q -w -F -e "$XDG_RUNTIME_DIR$user" "$tmp/said"
}
if [ -e /dev/kvcache ] || [ -e /run/kvcache/broker ]; then
	skip "the library tries the sockets" "there is a device or a broker"
elif [ ! -e "$build/libkvcache.so" ]; then
	skip "the library tries the sockets" "no $build/libkvcache.so"
else
	check "the library tries the sockets" tried
fi
options()
{
	cat "$units"/*.service "$users"/*.service | field - ExecStart= \
		>"$tmp/commands"
	cat "$tmp/commands"
	[ -s "$tmp/commands" ] || return
	while read -r program rest; do
		"$program" --help >"$tmp/help" || exit
		for word in $rest; do
			case $word in
			--*)	grep -q -w -e "$word" "$tmp/help" || exit ;;
			esac
		done
	done <"$tmp/commands"
}
check "programs have the options" options
# Prometheus takes addresses alone, and is told where the socket listens.
target()
{
	to=$(sed -n 's/.*targets: \["\(.*\)"\].*/\1/p' \
		Documentation/admin-guide/systemd.rst)
	echo "systemd.rst: $to"
	[ -n "$to" ] && field "$units/kvcache-exporter.socket" ListenStream= |
		grep -x -F -e "$to"
}
if [ -e "$units/kvcache-exporter.socket" ]; then
	check "Prometheus is told where the exporter listens" target
else
	skip "Prometheus is told where the exporter listens" "not built"
fi
# What a store is to keep, and pages themselves, are open files.
enough_files()
{
	for unit in "$units/kvcache-broker.service" \
			"$users/kvcache-broker.service"; do
		files=$(field "$unit" LimitNOFILE=)
		kept=$(field "$unit" FileDescriptorStoreMax=)
		[ "$files" -gt $((2 * kept)) ] || return
	done
}
check "files for all pages" enough_files

# ---- started through their sockets ----------------------------------------

activated=
trap '[ -z "$activated" ] || kill $activated; broker_stop; rm -rf "$tmp"' EXIT
systemd-socket-activate --seqpacket -l "$tmp/socket" "$build/kvcache-broker" \
	--pool main=8M,page=64K --tenant a 2>"$tmp/activated.log" &
activated=$!
asked()
{
	within 10 [ -S "$tmp/socket" ] &&
		"$ctl" -d "$tmp/socket" pool ls --json >"$tmp/json"
	cat "$tmp/json" "$tmp/activated.log"
	grep -q '"name":"main"' "$tmp/json" &&
		grep -q 'sockets that were passed' "$tmp/activated.log"
}
check "the broker, by its socket" asked
exporter()
{
	systemd-socket-activate -l "$tmp/metrics" "$build/kvcache-exporter" \
		-d "$tmp/socket" 2>"$tmp/exporter.log" &
	pid=$!
	within 10 [ -S "$tmp/metrics" ] &&
		curl -s -S --unix-socket "$tmp/metrics" \
			http://localhost/metrics >"$tmp/said"
	kill $pid
	head -n 5 "$tmp/said"
	cat "$tmp/exporter.log"
	grep -q '^kvcache_.*tenant="a"' "$tmp/said"
}
if [ ! -x "$build/kvcache-exporter" ]; then
	skip "the exporter, by its socket" "no kvcache-exporter"
elif ! needs curl; then
	skip "the exporter, by its socket" "no curl"
else
	check "the exporter, by its socket" exporter
fi
tap_end
