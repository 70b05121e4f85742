#!/bin/sh
# SPDX-License-Identifier: MIT
# timeout: 1500
#
# What kvcache-bench measures, against its goals. Takes minutes, and wants a
# machine that is not busy: a part of make check-bench, not of make check.
. "$(dirname "$0")/../tap.sh"
cd "$root" || exit 1
bench=$build/kvcache-bench

# goal NAME ARGUMENT...: kvcache-bench --check. All of its table is figures.
goal()
{
	name=$1
	shift
	"$bench" "$@" --check >"$tmp/table" 2>&1 </dev/null
	status=$?
	sed "s/^/# figure $1: /" "$tmp/table"
	check "$name" [ "$status" -eq 0 ]
}

goal "attention: against memory and arithmetic" attn
goal "pages: slots held but unused" waste --no-decode
if needs valgrind; then
	goal "ledger: flat, and near random access" ledger
else
	skip "ledger: flat, and near random access" "no valgrind"
fi
if [ -r "${KVCACHE_MODEL:-}" ]; then
	goal "step: one token, whatever the position" step -m "$KVCACHE_MODEL"
else
	skip "step: one token, whatever the position" "no \$KVCACHE_MODEL"
fi

tap_end
