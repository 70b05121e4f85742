#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Compare kvcache-run with llama.cpp; arguments go to compare.py.
#
# llama.cpp comes as the pinned llama-cpp-python, built from source for this
# CPU (about 10 minutes, once) in $XDG_CACHE_HOME/kvcache/llama. It serves this
# comparison and nothing else. It is built without AMX: its AMX products crash
# on the Q4_1 file (llama-cpp-python 0.3.36, gcc 12).
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
O=${O:-build}
version=0.3.36
cache=${XDG_CACHE_HOME:-${HOME:?set HOME}/.cache}/kvcache
python=${LLAMA_PYTHON:-$cache/llama-$version/bin/python}

cd "$top"
model=$(tools/setup/model.sh)
if ! "$python" -c 'import llama_cpp' 2>/dev/null; then
	echo "building llama-cpp-python $version, once" >&2
	noamx='-mno-amx-tile -mno-amx-int8 -mno-amx-bf16'
	python3 -m venv "$cache/llama-$version"
	CFLAGS=$noamx CXXFLAGS=$noamx "$python" -m pip install -q --no-binary llama-cpp-python \
		"llama-cpp-python==$version" >&2
fi

ids=$(mktemp)
trap 'rm -f "$ids"' EXIT
"$O/kvcache-run" -m "$model" --raw -f selftests/data/refs/prompt-long.txt \
	-n 1 --json | python3 -c '
import json, sys
print(*json.load(sys.stdin)["conversations"][0]["prompt_ids"])' >"$ids"

python3 selftests/bench/compare.py "$model" "$O/kvcache-run" "$ids" \
	--python "$python" "$@"
