#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What is done with sequences beside growing them, in kvcache-run: samples and
# beams that share pages, guesses, static pages, and a chat that is longer than
# its context. On small models; KVCACHE_LEVERS_MODEL names another one, and
# KVCACHE_LEVERS_CHAT how many tokens the chat has (from 20000 on in a context of
# 8192, or of 2048, which is what the small models have).
. "$(dirname "$0")/../broker/broker.sh"
run=$build/kvcache-run
refs=$root/selftests/data/refs
says="python3 $(dirname "$0")/sequences.py"
small=$refs/tiny-mha-f16.gguf
models="$small $refs/tiny-qwen3-f16.gguf $refs/tiny-gemma3-w32-f16.gguf"
models=${KVCACHE_LEVERS_MODEL:-$models}
: "${KVCACHE_LEVERS_CHAT:=2000}"

# Exact products: those of a prompt in other pieces, or of fewer rows, agree.
gen()
{
	gen_to=$1
	shift
	KVCACHE=${where:-local:page=16K} "$run" --weights f32 --json "$@" \
		>"$tmp/$gen_to" 2>"$tmp/err" && return
	cat "$tmp/err"
	return 1
}

# The text of a prompt of 1,500 tokens: $tmp/part.
prompt()
{
	n=1500
	bytes=1500
	for try in 1 2 3 4 5 6; do
		head -c "$bytes" "$refs/prompt-long.txt" >"$tmp/part"
		gen text.json -m "$1" --raw -f "$tmp/part" -n 1 || return
		got=$(grep -o '"prompt_tokens":[0-9]*' "$tmp/text.json" |
			head -1 | cut -d: -f2)
		[ "$got" -gt $((n - 8)) ] && [ "$got" -le "$n" ] && return
		bytes=$((bytes * n / got))
	done
	echo "$got tokens after $try tries"
	[ "$got" -gt 1000 ]
}

samples_are_runs()
{
	prompt "$1" || return
	set -- -m "$1" --raw -f "$tmp/part" -n 24 --temp 0.9 --ignore-end
	gen all.json "$@" --samples 8 || return
	files=
	for i in 0 1 2 3 4 5 6 7; do
		gen "s$i.json" "$@" --seed "$i" || return
		files="$files $tmp/s$i.json"
	done
	# shellcheck disable=SC2086 # lists
	$says samples "$tmp/all.json" $files
}
samples_alone()
{
	prompt "$1" || return
	set -- -m "$1" --raw -f "$tmp/part" -n 24 --temp 0.9 --samples 8
	gen all.json "$@" && gen alone.json "$@" --no-share &&
		$says samples "$tmp/all.json" "$tmp/alone.json"
}

beams_share()
{
	prompt "$1" || return
	set -- -m "$1" --raw -f "$tmp/part" -n 24 --beams 4 --kv f32
	gen shared.json "$@" && gen alone.json "$@" --no-share &&
		$says beams "$tmp/shared.json" "$tmp/alone.json"
}
beams_are_likelier()
{
	head -c 200 "$refs/prompt-long.txt" >"$tmp/part"
	set -- -m "$1" --raw -f "$tmp/part" -n 24 --ignore-end --kv f32
	gen search.json "$@" --beams 4 && gen greedy.json "$@" || return
	for f in search greedy; do
		gen "$f-score.json" -m "$2" --raw --score --tokens \
			"$($says prompt_and_text "$tmp/$f.json")" || return
	done
	$says likelier "$tmp/search.json" "$tmp/greedy.json" \
		"$tmp/search-score.json" "$tmp/greedy-score.json"
}

guesses_change_nothing()
{
	head -c 900 "$refs/prompt-long.txt" >"$tmp/part"
	set -- -m "$1" --raw -f "$tmp/part" -n 100 --ignore-end --kv f32
	gen plain.json "$@" && gen guessed.json "$@" --speculate &&
		$says guesses "$tmp/plain.json" "$tmp/guessed.json"
}

static_is_one_allocation()
{
	head -c 900 "$refs/prompt-long.txt" >"$tmp/part"
	set -- -m "$1" --raw -f "$tmp/part" -n 40 --ignore-end
	gen grows.json "$@" && gen static.json "$@" --static &&
		$says static "$tmp/grows.json" "$tmp/static.json"
}

# A turn each; of a long chat long ones, which take less time than answers.
lines()
{
	i=0 long='' each=60
	if [ "$1" -ge 20000 ] && [ -n "$KVCACHE_LEVERS_MODEL" ]; then
		long=$(head -c 1200 "$refs/prompt-long.txt" | tr '\n' ' ')
		each=280
	fi
	while [ "$i" -lt $(($1 / each)) ]; do
		echo "Line $i says little. $long"
		i=$((i + 1))
	done
}
chat()
{
	ctx=256
	if [ "$KVCACHE_LEVERS_CHAT" -ge 20000 ]; then
		ctx=8192
		[ -n "$KVCACHE_LEVERS_MODEL" ] || ctx=2048
	fi
	lines "$KVCACHE_LEVERS_CHAT" >"$tmp/lines"
	KVCACHE=$2 "$run" -m "$1" --raw --chat --ctx "$ctx" --keep 10 -n 44 \
		--ignore-end --json="$tmp/chat.json" -q \
		<"$tmp/lines" >"$tmp/said" 2>&1
	status=$?
	[ "$status" -eq 0 ] || { cat "$tmp/said"; return 1; }
}
chat_goes_on()
{
	chat "$1" local:page=16K &&
		grep 'forgot .* knows nothing of' "$tmp/said" &&
		$says chat "$tmp/chat.json" "$KVCACHE_LEVERS_CHAT" "$ctx" 10
}
# In a pool for one context there is no page for copies.
chat_without_room()
{
	KVCACHE_LEVERS_CHAT=2000
	set -- -m "$1" --raw --chat --ctx 256 --keep 10 -n 44 --ignore-end -q
	lines 2000 | KVCACHE=local:page=16K "$run" "$@" --max-pages 16 \
		--json="$tmp/chat.json" >"$tmp/said" 2>&1 ||
		{ cat "$tmp/said"; return 1; }
	grep -q 'gave way' "$tmp/said" &&
		$says chat "$tmp/chat.json" 2000 256 10
}
# What others look for is not there: a chat's end, with what it kept.
shifted_is_not_found()
{
	chat "$small" "$socket" || return
	where=$socket gen again.json -m "$small" --raw -n 1 --tokens \
		"$($says kept "$tmp/chat.json" 10)" &&
		$says found "$tmp/again.json" 10
}

refused()
{
	"$run" -m "$small" -p x "$@" >"$tmp/said" 2>&1
	status=$?
	cat "$tmp/said"
	[ "$status" -eq 2 ] && [ "$(wc -l <"$tmp/said")" -eq 1 ]
}

for m in $models; do
	name=$(basename "$m" .gguf)
	check "$name: samples are runs with a seed each" samples_are_runs "$m"
	check "$name: samples with and without shared pages" samples_alone "$m"
	check "$name: beams with and without shared pages" beams_share "$m"
	check "$name: a search finds what is likelier" beams_are_likelier "$m" "$m"
	check "$name: guesses change nothing" guesses_change_nothing "$m"
	check "$name: static pages are one allocation" static_is_one_allocation "$m"
	check "$name: a chat longer than its context" chat_goes_on "$m"
done
check "a chat in a pool for one context" chat_without_room "$small"
if broker_start --pool seqs=64M,page=64K --tenant seqs,mode=0444; then
	check "what was shifted is not found" shifted_is_not_found
	where=$socket check "broker: samples are runs" samples_are_runs "$small"
	where=$socket check "broker: beams" beams_share "$small"
	where=$socket check "broker: guesses" guesses_change_nothing "$small"
	check "nothing is left" broker_is_clean
else
	check "the broker starts" false
fi
check "beams and samples at once are refused" refused --beams 4 --samples 2
check "a search with a temperature is refused" refused --beams 4 --temp 1
check "samples without a cache are refused" refused --samples 2 --no-cache
check "a chat without an end is refused" refused --keep 4 -n 0
check "what is not shared is said" refused --no-share
tap_end
