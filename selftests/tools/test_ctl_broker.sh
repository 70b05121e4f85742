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

# ---- as a user -----------------------------------------------------------

# user WORDS REMEDY ARGUMENT...: what nobody is told, on one line.
user()
{
	words=$1 remedy=$2
	shift 2
	setpriv --reuid 65534 --regid 65534 --clear-groups "$ctl" "$@" \
		>"$tmp/said" 2>"$tmp/err"
	got=$?
	cat "$tmp/said" "$tmp/err"
	[ "$got" -eq 1 ] && grep -q -F -e "$words" "$tmp/err" &&
		grep -q -F -e "$remedy" "$tmp/err" &&
		[ "$(wc -l <"$tmp/err")" -eq 1 ] && [ ! -s "$tmp/said" ]
}
may_not_administer()
{
	user "only root and the broker's own user" "run as" tenant create x &&
		user "only root and the broker's" "run as" pool show main &&
		user "only root and the broker's" "run as" \
			tenant set a --max 1M &&
		user "only root and the broker's" "run as" tenant rm a &&
		user "only root and the broker's" "run as" tenant flush a &&
		user "only root and the broker's" "run as" \
			tenant grant a b --rights lookup &&
		user "only root and the broker's" "run as" \
			pool create x --size 4M &&
		user "only root and the broker's" "run as" \
			pool set main --size 4M &&
		user "only root and the broker's" "run as" pool drain main &&
		user "only root and the broker's" "run as" pool rm main
}
of_no_tenant()
{
	user "user 65534 is of no tenant" "--tenant" ps &&
		user "user 65534 is of no tenant" "--tenant" tenant ls &&
		user "user 65534 is of no tenant" "--tenant" page ls &&
		user "tenant x: there is none of this name" \
			"tenant create x" ps -t x &&
		user "tenant a: user 65534 is no member" "its group" ps -t a &&
		user "tenant a: user 65534 is no member" "its group" \
			events -t a
}
no_permission()
{
	chmod 600 "$KVCACHE" &&
		user "$KVCACHE: Permission denied" "" info &&
		chmod 666 "$KVCACHE"
}
if [ "$(id -u)" -eq 0 ] && needs setpriv && cp "$ctl" "$tmp/kvcachectl"; then
	# Where nobody can read it.
	chmod 755 "$tmp" && chmod 666 "$KVCACHE"
	as_root=$ctl ctl=$tmp/kvcachectl
	check "a pool and two tenants" pools
	check "tenants of others" tenants
	check "a user may not administer" unchanged may_not_administer
	check "a user of no tenant" of_no_tenant
	check "no permission on the socket" no_permission
	check "nothing is left of it" nothing_is_left
	ctl=$as_root
else
	skip "as a user" "needs root, and setpriv"
fi

# ---- lists of several replies ----------------------------------------------

# once MEMBER NUMBER: the last JSON has so many different ones, each once, and
# all replies are of one moment.
once()
{
	grep -o "\"$1\":[0-9]*" "$tmp/json" | sort >"$tmp/members"
	wc -l <"$tmp/members"
	[ "$(wc -l <"$tmp/members")" -eq "$2" ] &&
		[ "$(sort -u "$tmp/members" | wc -l)" -eq "$2" ] &&
		[ "$(value seq)" = "$(value seq_last)" ]
}
# Five conversations of 63 pages: a reply has 256.
many_pages()
{
	"$ctl" pool create many --size 25M --page 64K &&
		"$ctl" tenant create many || return
	# Its pool is the first one.
	awk 'BEGIN {
		for (i = 0; i < 5; i++) {
			printf "{\"n\": 1, \"tokens\": [%d", i + 1
			for (k = 1; k < 2000; k++)
				printf ",%d", (k * 7 + i) % 270 + 1
			print "]}"
		}
	}' >"$tmp/requests"
	"$run" -m "$refs/tiny-mha-f16.gguf" --kv f32 --tenant many -q \
		--requests "$tmp/requests" || return
	has page ls --pool many --state cached = '"tenant":"many"' && once page 315 &&
		[ "$("$ctl" page ls | wc -l)" -eq 316 ] &&
		has tenant ls = '"cached_pages":315'
}
# Of all that views print, events have keys, and nothing else has.
only_events()
{
	"$ctl" events -t many --follow --json >"$tmp/events" 2>"$tmp/err" &
	listens=$!
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		has ps = '"comm":"kvcachectl"' && break
		sleep 0.2
	done
	# Attached is not yet listening.
	for i in 1 2 3 4 5 6 7 8 9 10; do
		seq -s, $i $((i + 40)) |
			sed 's/.*/{"n": 1, "tokens": [&]}/' >"$tmp/requests"
		"$run" -m "$refs/tiny-mha-f16.gguf" --kv f32 --tenant many -q \
			--requests "$tmp/requests" || break
		[ ! -s "$tmp/events" ] || break
	done
	for view in info 'pool ls' 'pool show many' 'tenant ls' ps 'page ls' \
			'page show 1 -p many' 'map -p many'; do
		# shellcheck disable=SC2086 # words
		"$ctl" $view && "$ctl" $view --json || return
	done >"$tmp/views"
	[ ! -x "$build/kvcachetop" ] ||
		"$build/kvcachetop" --batch -n 1 >>"$tmp/views" || return
	[ ! -x "$build/kvcache-exporter" ] ||
		"$build/kvcache-exporter" --once >>"$tmp/views" || return
	kill $listens
	wait $listens
	sed -n 's/.*"key":"\([0-9a-f]\{16\}\)[0-9a-f]\{48\}".*/\1/p' \
		"$tmp/events" >"$tmp/keys"
	cat "$tmp/err" "$tmp/events" "$tmp/keys"
	[ -s "$tmp/keys" ] && [ -s "$tmp/views" ] &&
		! grep -F -f "$tmp/keys" "$tmp/views"
}
# A reply has 128.
many_clients()
{
	i=0
	: >"$tmp/waiting"
	while [ $i -lt 130 ]; do
		i=$((i + 1))
		"$ctl" events -t many --timeout 60s >/dev/null 2>&1 &
		echo $! >>"$tmp/waiting"
	done
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		has ps = '"comm":"kvcachectl"' && once pid 130 && break
		sleep 0.5
	done
	once pid 130 && once id 130
	ret=$?
	while read -r pid; do
		kill "$pid"
	done <"$tmp/waiting"
	wait
	return $ret
}
# Two who change limits of one tenant: neither undoes what the other did. Each
# looks whether its last change is still there.
keeps_changing()
{
	i=0
	while [ $i -lt 60 ]; do
		i=$((i + 1))
		"$ctl" tenant set both --pool both "--$1" $((i * 64))K || return
		"$ctl" tenant ls --pool both --json >"$tmp/$1" || return
		grep -q "\"name\":\"both\".*\"$1_pages\":${i}[,}]" "$tmp/$1" ||
			{ echo "--$1 $i is undone"; return 1; }
	done
}
two_at_once()
{
	"$ctl" pool create both --size 8M --page 64K &&
		"$ctl" pool create other --size 8M --page 64K &&
		"$ctl" tenant create both || return
	keeps_changing low >"$tmp/other" 2>&1 &
	other=$!
	keeps_changing min
	ret=$?
	wait $other && [ $ret -eq 0 ] || { cat "$tmp/other"; return 1; }
	has tenant ls --pool both = '"min_pages":60,"low_pages":60' \
		'"revision":121'
}
if [ -x "$run" ]; then
	check "more pages than a reply has" many_pages
	check "keys are in events alone" only_events
	check "more clients than a reply has" many_clients
fi
check "two changes at once" two_at_once
check "of several pools one is named" refuses 1 "name one of" "--pool" \
	tenant set both --max 1M

# Its socket stays, and nobody listens; it takes a moment to die.
gone()
{
	kill -s KILL "$serves"
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		"$ctl" info 2>"$tmp/err"
		got=$?
		cat "$tmp/err"
		[ $got -eq 1 ] && grep -q "$KVCACHE: nobody listens" "$tmp/err" &&
			grep -q "start kvcache-broker" "$tmp/err" && return
		sleep 0.2
	done
	return 1
}
check "a broker that is gone" gone
tap_end
