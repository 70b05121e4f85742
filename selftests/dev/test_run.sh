#!/bin/sh
# SPDX-License-Identifier: MIT
#
# kvcache-run, the same program that keeps its pages in-process elsewhere, on
# the device: the same tokens, and sysfs shows the pages meanwhile.
#
#	test_run.sh host	prints what it says in-process; the file "tokens"
#				beside this script has it where there is a device
#
# It is about $KVCACHE_MODEL where that is set, else about the small models.
. "$(dirname "$0")/../tap.sh"
refs=$root/selftests/data/refs
run=$build/kvcache-run
setup=$build/selftests/dev/setup
tokens=$build/selftests/dev/tokens
sysfs=/sys/class/kvcache/kvcache
small="tiny-mha-f16 tiny-gqa-q8_0-untied tiny-mqa-bf16-d80 tiny-gqa7-q4_0-d128
tiny-q5_1-llama3-rope tiny-f32-linear-rope"
export KVATTN_ISA=scalar

# tokens_of NAME: what a model generates, a line a conversation. The small ones
# have three, of which two begin alike.
words="Keys and values live in pages, and every page has one owner."
tokens_of()
{
	case $1 in
	tiny-*)	set -- "$1" -m "$refs/$1.gguf" -n 16 \
			-p "$words $words Who?" -p "$words $words Which?" \
			--tokens 1,5,9,40,7,7,200,3 ;;
	*)	set -- "$1" -m "$KVCACHE_MODEL" -n 8 --raw \
			-p "The capital of France is" ;;
	esac
	name=$1
	shift
	"$run" --kv f32 --weights f32 --ignore-end --json "$@" \
		>"$tmp/$name.json" || return
	grep -o '"ids":\[[^]]*\]' "$tmp/$name.json" | sed "s/^/$name /"
}

if [ "${1:-}" = host ]; then
	# The size of a page decides in which order sums are made.
	for m in $small; do
		KVCACHE=local:page=64K tokens_of "$m" || exit
	done
	[ -z "${KVCACHE_MODEL:-}" ] || KVCACHE=local:page=1M tokens_of real
	exit
fi

# ---- on the device --------------------------------------------------------

for need in "$run" "$setup" "$tokens" "${KVCACHE_MODEL-$run}"; do
	[ -r "$need" ] && continue
	skip "the tokens are those of the host" "no ${need:-\$KVCACHE_MODEL}"
	tap_end
done

as_expected()
{
	grep "^$1 " "$tokens" >"$tmp/expected"
	cat "$tmp/said" "$tmp/expected"
	[ -s "$tmp/said" ] && cmp "$tmp/said" "$tmp/expected"
}
same_tokens()
{
	tokens_of "$1" >"$tmp/said" && as_expected "$1"
}

# Bytes of the pool, and bytes charged to the tenant.
pool()
{
	cat "$sysfs/pools/run/$1"
}
charged()
{
	sed 's/^run //' "$sysfs/tenants/run/current"
}

# look PID: once the process has pages, at all there is to see.
look()
{
	while [ -d "/proc/$1" ]; do
		if [ "$(pool private)" -gt 0 ]; then
			grep . "$sysfs"/pools/run/* "$sysfs"/tenants/run/* \
				>"$tmp/sysfs"
			[ "$(charged)" -gt 0 ]
			return
		fi
		sleep 0.1
	done
	echo "it ended and was not seen"
	return 1
}
# One line of it.
shown()
{
	grep -v ':0$' "$tmp/sysfs" | sed "s,^$sysfs/,,; s,^/proc/[0-9]*/,," |
		tr '\n\t' ', ' | sed "s/^/# figure while $1 runs: /; s/, *\$//"
	echo
}

# What a process that is gone had computed is found by the next one.
outlives_its_process()
{
	[ "$(pool private)" -eq 0 ] && [ "$(pool shared)" -eq 0 ] &&
		[ "$(pool cached)" -gt 0 ] &&
		[ "$(pool cached)" -eq "$(charged)" ] &&
		same_tokens "$1" || return
	reused=$(sed 's/.*"totals"//; s/.*"reused_tokens":\([0-9]*\).*/\1/' \
		"$tmp/$1.json")
	echo "$reused tokens reused"
	[ "$reused" -gt 0 ]
}

# A conversation that waits for its next line.
chat_shows_pages()
{
	mkfifo "$tmp/line" || return
	"$run" -m "$refs/$1.gguf" --kv f32 --weights f32 --chat -n 8 \
		<"$tmp/line" &
	chat=$!
	exec 9>"$tmp/line"
	echo "Who owns a page?" >&9
	look $chat || return
	# They are this process's, as the ledger sees it.
	grep kvcache- "/proc/$chat/fdinfo/"* >>"$tmp/sysfs" || return
	echo "And after that?" >&9
	exec 9>&-
	wait $chat
}
run_shows_pages()
{
	tokens_of "$1" >"$tmp/said" &
	job=$!
	look $job && wait $job && as_expected "$1"
}

says_what_is_missing()
{
	"$run" -m "$refs/tiny-mha-f16.gguf" -n 4 -p x
	[ $? -eq 1 ]
}

if [ -n "${KVCACHE_MODEL:-}" ]; then
	check "a pool and a tenant" "$setup" run $((1 << 20)) 64 run
	check "a real model's tokens are those of the host, its pages in sysfs" \
		run_shows_pages real
	shown "${KVCACHE_MODEL##*/}"
else
	check "without a pool it says so" says_what_is_missing
	check "a pool and a tenant" "$setup" run $((64 << 10)) 256 run
	for m in $small; do
		check "$m: the tokens are those of the host" same_tokens "$m"
		check "$m: what it computed outlives it" outlives_its_process "$m"
	done
	check "sysfs and fdinfo show the pages of a chat" \
		chat_shows_pages tiny-mha-f16
	shown "a chat"
fi
check "nothing is left" "$setup" -r run run
tap_end
