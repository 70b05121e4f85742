#!/bin/sh
# SPDX-License-Identifier: MIT
# timeout: 780
#
# What kvcache-bench and the scripts here measure, against its goals. Takes
# minutes, and wants a machine that is not busy: a part of make check-bench, not
# of make check. Neighbours on a shared host can spoil one measurement, so a goal
# is missed when three in a row miss it, or fewer if there is no time for more:
# it all ends within KVCACHE_BENCH_SECONDS, below the limit above, so that a
# machine that is too busy gets its counts, too.
. "$(dirname "$0")/../tap.sh"
cd "$root" || exit 1
bench=$build/kvcache-bench
deadline=$(($(date +%s) + ${KVCACHE_BENCH_SECONDS:-720}))

# goal NAME COMMAND...: with --check. What it prints are figures.
goal()
{
	name=$1
	shift
	took=1
	for attempt in 1 2 3; do
		begin=$(date +%s)
		if [ $((begin + took)) -gt "$deadline" ]; then
			echo "# figure ${name%%:*}: no time for attempt $attempt"
			status=124
			break
		fi
		# In this process group, which run-tests.sh clears up.
		timeout --foreground -k 5 $((deadline - begin + 1)) \
			"$@" --check >"$tmp/table" 2>&1 </dev/null
		status=$?
		took=$(($(date +%s) - begin + 1))
		sed "s/^/# figure ${name%%:*}: /" "$tmp/table"
		[ "$status" -ne 0 ] || break
		echo "# figure ${name%%:*}: attempt $attempt missed its goal"
	done
	check "$name" [ "$status" -eq 0 ]
}

# of_model NAME COMMAND...: a goal that needs a model.
of_model()
{
	if [ -r "${KVCACHE_MODEL:-}" ]; then
		goal "$@"
	else
		skip "$1" "no \$KVCACHE_MODEL"
	fi
}

# Packed types are figures here: see --packed in kvcache-bench(1).
goal "attention: against memory and arithmetic" "$bench" attn
goal "pages: slots held but unused" "$bench" waste --no-decode
if needs valgrind; then
	goal "ledger: flat, and near random access" "$bench" ledger
else
	skip "ledger: flat, and near random access" "no valgrind"
fi
# It is a test of its own: what is added behind it is nothing to it.
goal "admin: a thousand tenants are looked at in no time, and unnoticed" \
	env KVCACHE_GOALS=1 sh -c '"$0"' "$build/selftests/admin/test_many"
of_model "step: one token, whatever the position" \
	"$bench" step -m "${KVCACHE_MODEL:-}" --at 10,100,400,1000,2000
of_model "document: the 400th token costs what the 10th does" \
	selftests/bench/document.py --build "$build" --rounds 1
of_model "reuse: a shared prefix is computed and held once" \
	selftests/bench/reuse.py --build "$build" --rounds 1 \
	--conversations 1,4

if [ -n "${KVCACHE_LLAMA:-}" ]; then
	O=$build of_model "llama.cpp: slower on the same file in the same run" \
		selftests/bench/compare-llama.sh --lengths 1500
else
	skip "llama.cpp: slower on the same file in the same run" \
		"KVCACHE_LLAMA=1 builds llama-cpp-python for it, in 10 minutes"
fi

tap_end
