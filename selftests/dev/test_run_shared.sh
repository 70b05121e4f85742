#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Two kvcache-run in one pool that has no room for both: what is idle in one goes
# to the other without its help, who runs gives way and waits, and each
# conversation has the text that it has alone. On the device if there is one,
# else on a broker of its own.
. "$(dirname "$0")/../tap.sh"
run=$build/kvcache-run
setup=$build/selftests/dev/setup
model=$root/selftests/data/refs/tiny-mha-f16.gguf
sysfs=/sys/class/kvcache/kvcache
export KVATTN_ISA=scalar
words="keys and values live in pages, and every page has one owner at a time."

broker=
[ -c /dev/kvcache ] || broker=$build/kvcache-broker
for need in "$run" "${broker:-$setup}" "$model"; do
	[ -r "$need" ] && continue
	skip "kvcache-run beside another" "no $need"
	tap_end
done

set -- -m "$model" --kv f32 --weights f32 --ignore-end --threads 1
options=$*

# A pool of 20 pages and a tenant.
begin()
{
	if [ -z "$broker" ]; then
		"$setup" run $((64 << 10)) 20 run
		return
	fi
	"$broker" --socket "$tmp/socket" --pool run=1280K,page=64K \
		--tenant "run,uid=$(id -u)" 2>"$tmp/broker" &
	echo $! >"$tmp/pid"
	for _ in $(seq 100); do
		[ ! -S "$tmp/socket" ] || return 0
		sleep 0.1
	done
	cat "$tmp/broker"
	return 1
}
end()
{
	if [ -z "$broker" ]; then
		"$setup" -r run run
		return
	fi
	kill "$(cat "$tmp/pid")"
	cat "$tmp/broker"
}
# Pages of the pool: cached, private or shared.
pages()
{
	if [ -z "$broker" ]; then
		cat "$sysfs/pools/run/$1"
	else
		"$build/kvcachectl" -d "$tmp/socket" pool ls --json |
			sed "s/.*\"$1_pages\": *\([0-9]*\).*/\1/"
	fi
}
# The ids that were generated, a line a turn.
ids()
{
	grep -o '"ids":\[[^]]*\]' "$1"
}
# sum KEY FILE: of all lines
sum()
{
	total=0
	for n in $(grep -o "\"$1\":[0-9]*" "$2" | cut -d: -f2); do
		total=$((total + n))
	done
	echo $total
}
first_turns()
{
	for i in 1 2 3 4 5 6 7 8; do
		echo "{\"id\": \"$i\", \"keep\": true, \"prompt\": \"$i $words\"}"
	done
}
second_turns()
{
	for i in 1 2 3 4 5 6 7 8; do
		echo "{\"continue\": \"$i\", \"prompt\": \"and then?\"}"
	done
}
# lines N FILE: wait until it has so many
lines()
{
	for _ in $(seq 600); do
		[ "$(wc -l <"$2")" -ge "$1" ] && return
		sleep 0.1
	done
	echo "$2: $(wc -l <"$2") lines of $1"
	return 1
}

# talk OUT: a kvcache-run that answers what is written to descriptor 9
talk()
{
	rm -f "$tmp/fifo"
	mkfifo "$tmp/fifo" || return
	: >"$1"
	# shellcheck disable=SC2086 # a list of options
	"$run" $options -n 24 --requests - --jsonl="$1" -q <"$tmp/fifo" \
		2>"$1.err" &
	talker=$!
	exec 9>"$tmp/fifo"
}
busy()
{
	# shellcheck disable=SC2086 # a list of options
	"$run" $options -n 100 --jsonl="$1" -q --parallel 4 -p "a $words" \
		-p "b $words" -p "c $words" -p "d $words" 2>"$1.err"
}

alone()
{
	export KVCACHE=local:page=64K
	talk "$tmp/idle.alone"
	first_turns >&9
	lines 8 "$tmp/idle.alone" || return
	second_turns >&9
	exec 9>&-
	wait $talker && busy "$tmp/busy.alone"
}

# In 20 pages of 32 tokens: 8 x 3 are idle, the other one takes 4 x 6.
idle_ones_make_room()
{
	talk "$tmp/idle"
	first_turns >&9
	lines 8 "$tmp/idle" || return
	echo "$(pages cached) cached, $(pages private) private," \
		"$(pages shared) shared"
	[ "$(pages cached)" -gt 0 ] && [ "$(pages private)" -gt 0 ] &&
		[ "$(pages shared)" -eq 0 ] || return
	kill -STOP $talker
	busy "$tmp/busy"
	ret=$?
	kill -CONT $talker
	second_turns >&9
	exec 9>&-
	wait $talker && [ $ret -eq 0 ] && ids "$tmp/busy" >"$tmp/a" &&
		ids "$tmp/busy.alone" >"$tmp/b" && cmp "$tmp/a" "$tmp/b"
}
it_recomputes_when_it_wakes()
{
	ids "$tmp/idle" >"$tmp/a" && ids "$tmp/idle.alone" >"$tmp/b" &&
		[ "$(wc -l <"$tmp/a")" -eq 16 ] && cmp "$tmp/a" "$tmp/b" ||
		return
	echo "$(sum reused_tokens "$tmp/idle") reused," \
		"$(sum reused_tokens "$tmp/idle.alone") alone"
	[ "$(sum reused_tokens "$tmp/idle")" -lt \
		"$(sum reused_tokens "$tmp/idle.alone")" ]
}

# Each wants all pages and more: neither waits for the other for ever.
both_run()
{
	busy "$tmp/one" &
	one=$!
	busy "$tmp/two" &
	two=$!
	wait $one && wait $two || {
		cat "$tmp/one.err" "$tmp/two.err"
		return 1
	}
	# In the order in which they ended.
	ids "$tmp/busy.alone" | sort >"$tmp/b"
	for r in one two; do
		ids "$tmp/$r" | sort >"$tmp/a"
		cmp "$tmp/a" "$tmp/b" || return
	done
}
# One holds more than half of the pages, and is stopped.
it_does_not_wait()
{
	talk "$tmp/idle"
	echo "{\"prompt\": \"x $words\", \"max_tokens\": 560}" >&9
	for _ in $(seq 600); do
		[ "$(pages shared)" -lt 11 ] || break
		sleep 0.1
	done
	kill -STOP $talker
	# shellcheck disable=SC2086 # a list of options
	"$run" $options --wait 0.2 -n 400 -p "y $words" >"$tmp/said" 2>&1
	kill -CONT $talker
	kill -INT $talker
	exec 9>&-
	wait $talker
	stopped=$?
	cat "$tmp/said"
	# It may have begun before, and is ended then.
	[ $stopped -eq 130 ] &&
		grep -q ": others held the pages for 0.2 s" "$tmp/said"
}

check "both alone, in-process" alone
check "a pool and a tenant" begin
[ -z "$broker" ] || export KVCACHE="$tmp/socket"
check "idle conversations make room for another process" idle_ones_make_room
check "they go on with the text that they have alone" it_recomputes_when_it_wakes
check "two that want more than there is both end" both_run
# An emulated processor takes long for this.
if [ -n "$broker" ]; then
	check "it does not wait longer than it is told to" it_does_not_wait
fi
check "nothing is left" end
tap_end
