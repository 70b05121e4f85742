#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What each type of keys and values does to a model's answers: kvcache-run --kld
# on a text that every Debian has, against figures of an implementation that
# shares no code with this one. One short window; KVCACHE_KLD_WINDOWS=4 for those
# that the figures are of (Documentation/quantisation.rst), in minutes.
. "$(dirname "$0")/../tap.sh"
run=$build/kvcache-run
text=/usr/share/common-licenses/GPL-3
other=/usr/share/common-licenses/Apache-2.0
tiny=$root/selftests/data/refs/tiny-mha-f16.gguf
windows=${KVCACHE_KLD_WINDOWS:-}
export KVCACHE=local:bytes=1G,page=2M

json()
{
	if [ -n "$windows" ]; then
		set -- "--kld=$windows" "$@"
	else
		set -- --kld=1 --ctx 256 "$@"
	fi
	"$run" -m "$KVCACHE_MODEL" -f "$text" "$@" --kv f16 --kv bf16 \
		--kv int8 --kv e4m3 --kv int4 --kv int4h --kv int8,int4 \
		--kv int8,int4h --kv-scales "$tmp/scales" --kv e4m3t \
		--json >"$tmp/kld.json"
}
calibrate()
{
	"$run" -m "$KVCACHE_MODEL" -f "$other" --ctx 256 \
		--calibrate "$tmp/scales"
}
figures()
{
	python3 "$root/selftests/levers/kld.py" "$tmp/kld.json"
}

# The text through f16 pages is the same whatever else is compared with it.
alone()
{
	for kv in "--kv f16" "--kv int8 --kv f16"; do
		# shellcheck disable=SC2086 # a list
		"$run" -m "$tiny" -p "$(head -c 3000 "$text")" --kld=2 \
			--ctx 200 $kv --json || return
	done >"$tmp/two"
	grep -o '"k_type":"f16".*"perplexity":[0-9.]*' "$tmp/two" >"$tmp/f16"
	cat "$tmp/two"
	[ "$(wc -l <"$tmp/f16")" -eq 2 ] &&
		[ "$(sort -u "$tmp/f16" | wc -l)" -eq 1 ]
}
# f32 against itself: nothing, to the last bit.
itself()
{
	"$run" -m "$tiny" -f "$text" --kld=2 --ctx 64 --kv f32 --json \
		>"$tmp/same" || return
	cat "$tmp/same"
	grep -q '"types":\[{.*"kld_mean":0.0,.*"kld_max":0.0,"same_top":1.0' \
		"$tmp/same"
}
check "a type against itself" itself
check "side by side is as alone" alone

if ! needs python3; then
	skip "types" "no python3"
elif [ ! -r "${KVCACHE_MODEL:-}" ]; then
	skip "types" "no model: give KVCACHE_MODEL=SmolLM2-135M-Instruct.Q4_1.gguf, or a network to fetch it"
else
	check "scales are measured on another text" calibrate
	check "all types are compared" json
	check "they do as little as independent figures say" figures
fi
tap_end
