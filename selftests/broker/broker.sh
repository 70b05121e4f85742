# SPDX-License-Identifier: MIT
# shellcheck shell=sh
#
# broker.sh - a broker of a test's own, for shell tests.
#
#	. "$(dirname "$0")/broker.sh"
#	broker_start [OPTION]...	# sets $socket
#	broker_stop			# fails if it did not end as it should
#
# What it says is in $tmp/broker.log.

. "$(dirname "$0")/../tap.sh"

broker_pid=
socket=$tmp/broker
trap 'broker_stop; rm -rf "$tmp"' EXIT

# within SECONDS COMMAND...: it comes true.
within()
{
	within_n=$(($1 * 50))
	shift
	until "$@"; do
		within_n=$((within_n - 1))
		[ "$within_n" -gt 0 ] || return
		sleep 0.02
	done
}

broker_start()
{
	"$build/kvcache-broker" --socket "$socket" "$@" \
		>"$tmp/broker.log" 2>&1 &
	broker_pid=$!
	within 10 [ -S "$socket" ] && return
	cat "$tmp/broker.log"
	return 1
}

broker_stop()
{
	[ -n "$broker_pid" ] || return 0
	kill "$broker_pid" 2>/dev/null
	wait "$broker_pid"
	broker_status=$?
	broker_pid=
	[ "$broker_status" -eq 0 ] && return
	echo "the broker ended with status $broker_status"
	cat "$tmp/broker.log"
	return 1
}

broker_said()
{
	grep -q "$1" "$tmp/broker.log"
}

# Nobody holds anything any more, and the ledger agrees.
broker_is_clean()
{
	kill -s USR1 "$broker_pid" && within 10 broker_said 'ledger:' || return
	cat "$tmp/broker.log"
	broker_said 'ledger: ok, .* 0 connections'
}
