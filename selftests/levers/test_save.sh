#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A conversation is saved by one process and goes on in another, through a
# broker: bit for bit at the same page size, and with other page sizes as far as
# arithmetic allows; what cannot be loaded is refused in words, and what was
# there stays as it was.
. "$(dirname "$0")/../broker/broker.sh"
run=$build/kvcache-run
refs=$root/selftests/data/refs
small="tiny-mha-f16 tiny-gqa-q8_0-untied tiny-gqa7-q4_0-d128"
export KVATTN_ISA=scalar
words="Keys and values live in pages, and every page has one owner."

# say WHERE MODEL OPTION...: the ids that it generates, on a line each.
say()
{
	where=$1 model=$2
	shift 2
	KVCACHE=$where "$run" -m "$model" --ignore-end --json "$@" \
		>"$tmp/json" || return
	sed -n 's/.*"conversations"://; s/"ids":\[\([0-9,]*\)\]/\n\1\n/gp' \
		"$tmp/json" | grep '^[0-9,]*$' | tr ',' '\n'
}

# near MODEL: $tmp/parts is $tmp/whole, or differs from it first where the two
# tokens are as likely as each other, within what arithmetic does.
near()
{
	cmp -s "$tmp/whole" "$tmp/parts" && return
	n=$(paste "$tmp/whole" "$tmp/parts" | awk '$1 != $2 { exit } { n++ }
		END { print n + 0 }')
	for f in whole parts; do
		ids=$({ cat "$tmp/prompt"; head -n "$n" "$tmp/whole"
			sed -n "$((n + 1))p" "$tmp/$f"; } | paste -s -d,)
		KVCACHE=local "$run" -m "$1" --weights f32 --score --json \
			--tokens "$ids" >"$tmp/score" || return
		grep -o '"logprobs":\[[^]]*\]' "$tmp/score" |
			sed 's/.*[[,]//; s/\]//' >>"$tmp/likely"
	done
	echo "token $n: $(paste -s "$tmp/likely")"
	awk '{ v[NR] = $1 } END { d = v[1] - v[2]
		exit !(NR == 2 && d < 0.01 && d > -0.01) }' "$tmp/likely"
}

# loaded N: so many tokens came from the file, and no prompt was computed.
loaded()
{
	sed 's/.*"loaded":{/{/' "$tmp/json" | grep -q "\"tokens\":$1," ||
		{ echo "not $1 tokens loaded"; cat "$tmp/json"; return 1; }
}

# Pages that were found would have been computed in other steps: each computes all
# of its own.
alone=--no-reuse

# goes_on MODEL FROM TO: saved after 20 of 50 tokens by a process with its pages
# in FROM, and loaded by another with its pages in TO.
goes_on()
{
	model=$1 from=$2 to=$3
	shift 3
	say "$from" "$model" $alone -n 50 -p "$words" "$@" >"$tmp/whole" &&
		say "$from" "$model" $alone -n 20 -p "$words" "$@" \
			--save "$tmp/saved" >"$tmp/begin" &&
		say "$to" "$model" -n 30 --load "$tmp/saved" >"$tmp/rest" ||
		return
	cat "$tmp/begin" "$tmp/rest" >"$tmp/parts"
	[ "$(wc -l <"$tmp/whole")" -eq 50 ] && cmp "$tmp/whole" "$tmp/parts"
}

# turns MODEL WHERE OTHER: two turns of a chat, the second in another process.
turns()
{
	say "$2" "$1" $alone -n 12 --chat -p "$words" -p "Who?" \
		>"$tmp/whole" &&
		say "$2" "$1" $alone -n 12 --chat -p "$words" --save "$tmp/saved" \
			>"$tmp/begin" &&
		say "$3" "$1" -n 12 --load "$tmp/saved" -p "Who?" >"$tmp/rest" ||
		return
	cat "$tmp/begin" "$tmp/rest" >"$tmp/parts"
	[ "$(wc -l <"$tmp/whole")" -eq 24 ] && cmp "$tmp/whole" "$tmp/parts"
}

# refused WORDS OPTION...: one line that has these words, and nothing printed.
refused()
{
	want=$1
	shift
	KVCACHE=$socket "$run" -n 2 "$@" >"$tmp/stdout" 2>"$tmp/err"
	status=$?
	cat "$tmp/err" "$tmp/stdout"
	[ "$status" -ne 0 ] && [ "$(wc -l <"$tmp/err")" -eq 1 ] &&
		[ ! -s "$tmp/stdout" ] && grep -q -F -e "$want" "$tmp/err"
}

# The file altered in its middle, and cut off behind it.
damaged()
{
	cp "$tmp/saved" "$tmp/damaged" &&
		printf 'x' | dd of="$tmp/damaged" bs=1 seek=20000 \
			conv=notrunc 2>"$tmp/dd" &&
		refused "it was altered" -m "$1" --load "$tmp/damaged" || return
	dd if="$tmp/saved" of="$tmp/damaged" bs=20000 count=1 2>"$tmp/dd" &&
		refused "it was cut off" -m "$1" --load "$tmp/damaged"
}

# A save that is refused or fails leaves the file alone, and nothing beside it.
old_file_stays()
{
	cp "$tmp/saved" "$tmp/before" || return
	(
		ulimit -f 16
		KVCACHE=$socket "$run" -m "$1" -q -n 2 --load "$tmp/saved" \
			--save "$tmp/saved" >"$tmp/stdout" 2>"$tmp/err"
	) && { echo "it was saved"; return 1; }
	cat "$tmp/err"
	grep -q "nothing is saved: .*File too large.*make room" "$tmp/err" &&
		cmp "$tmp/saved" "$tmp/before" &&
		[ "$(find "$tmp" -name 'saved*' | wc -l)" -eq 1 ]
}

# other_page MODEL: saved in pages of one size, loaded in others, and in small
# ones of which a window takes many.
other_page()
{
	model=$1
	say "$socket" "$model" $alone -n 50 -p "$words" >"$tmp/whole" &&
		say "$socket" "$model" $alone -n 20 -p "$words" \
			--save "$tmp/saved" >"$tmp/begin" || return
	grep -o '"prompt_ids":\[[^]]*\]' "$tmp/json" | sed 's/.*\[//; s/\]//' |
		tr ',' '\n' >"$tmp/prompt"
	for where in local:page=8K local:page=1M; do
		say "$where" "$model" -n 30 --load "$tmp/saved" \
			>"$tmp/rest" || return
		cat "$tmp/begin" "$tmp/rest" >"$tmp/parts"
		near "$model" || return
	done
}

# A step that goes on has a sampler that goes on.
by_chance()
{
	goes_on "$1" "$socket" "$socket" --temp 0.9 --top-p 0.95 --seed 7 ||
		return
	# Another seed is another text.
	say "$socket" "$1" -n 30 --load "$tmp/saved" --seed 8 >"$tmp/other" &&
		! cmp -s "$tmp/rest" "$tmp/other"
}

real()
{
	goes_on "$KVCACHE_MODEL" "$socket" "$socket" && loaded 63
}

mha=$refs/tiny-mha-f16.gguf gqa=$refs/tiny-gqa-q8_0-untied.gguf
if broker_start --pool run=64M,page=64K --tenant run,mode=0444; then
	for m in $small; do
		f=$refs/$m.gguf
		check "$m: goes on in another process, bit for bit" \
			goes_on "$f" "$socket" "$socket"
		check "$m: another turn in another process" \
			turns "$f" "$socket" "$socket"
		check "$m: from here to a broker, and back" \
			goes_on "$f" local:page=64K "$socket"
		check "$m: with other page sizes" other_page "$f"
	done
	check "what it took is from the file" loaded 79
	check "tokens by chance go on by the same chance" by_chance "$mha"
	check "a model whose layers have windows" \
		goes_on "$refs/tiny-gemma3-w32-f16.gguf" "$socket" "$socket"
	goes_on "$mha" "$socket" "$socket" >/dev/null
	check "another model" refused \
		"give the model that it was saved with, tiny-mha-f16.gguf" \
		-m "$gqa" --load "$tmp/saved"
	check "other weights" refused "give --weights auto" \
		-m "$mha" --weights f32 --load "$tmp/saved"
	check "another type" refused "give --kv-k f16 --kv-v f16" \
		-m "$mha" --kv bf16 --load "$tmp/saved"
	check "another epoch" refused "give --epoch 0" \
		-m "$mha" --epoch 4 --load "$tmp/saved"
	check "no such file at all" refused "no saved sequence" \
		-m "$mha" --load "$0"
	check "altered, and cut off" damaged "$mha"
	check "what is not for one conversation" refused \
		"is for one conversation" -m "$mha" --save "$tmp/x" -p a -p b
	check "a full disk" old_file_stays "$mha"
	check "nobody else can read it" \
		[ "$(stat -c %a "$tmp/saved")" = 600 ]
	if [ -n "${KVCACHE_MODEL:-}" ]; then
		unset KVATTN_ISA
		check "a real model goes on in another process" real
	else
		skip "a real model goes on in another process" \
			"no model: set KVCACHE_MODEL"
	fi
	check "nothing is left in the broker" broker_is_clean
	broker_stop >"$tmp/said"
	check "the broker ends" [ ! -s "$tmp/said" ]
else
	check "a broker starts" false
fi
tap_end
