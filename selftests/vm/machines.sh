#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The virtual machines of a target of make, one after the other.
#
#	machines.sh check|scenarios|admin|stress|debug|uml
#
# What ran there is printed as programs that say it again, for run-tests.sh.
# $KVCACHE_BUILD is where things are built, $KVCACHE_MODEL the model, if any.
set -u
here=$(cd "$(dirname "$0")" && pwd)
tree=$(cd "$here/../.." && pwd)
build=${KVCACHE_BUILD:-$tree/build}
tests=$build/selftests/dev
importer=$build/importer-%/kvcache_importer.ko
unit=$build/selftests/unit/test_
conf=$build/selftests/conformance/test_
# 10,000 clients are killed with FULL=1, instead of 2,000.
limit=${FULL:+2400}
limit=${limit:-420}
fuzz=${FULL:+600}

run()
{
	[ ! -r "$build/languages.tar" ] || set -- -f "$build/languages.tar" "$@"
	"$here/run.sh" -l -f "$tests/setup" -f "$build/kvcache-bench" "$@" ||
		exit
}

# with_refs ARGUMENT...: and with what kvcache-run needs for the small models,
# kvcachectl, and kvcachetop if that could be built.
with_refs()
{
	[ ! -x "$build/kvcachetop" ] || set -- -f "$build/kvcachetop" "$@"
	run -f "$build/kvcache-run" -f "$build/kvcachectl" -f "$tests/tokens" \
		-f "$tree/selftests/tools/ctl_kit.sh" \
		-f "$tree/selftests/data/refs" "$@"
}

# A machine for the model alone: it takes memory, and one kernel is enough for
# it. A model that is not the small one of tools/setup/model.sh does not fit.
with_model()
{
	model=${KVCACHE_MODEL:-}
	if [ -n "$model" ] && [ "$(stat -L -c %s "$model")" -lt 150000000 ]; then
		set -- -f "$model" -e "KVCACHE_MODEL=/kvcache/${model##*/}" "$@"
	else
		set -- -e KVCACHE_MODEL= "$@"
	fi
	with_refs -n model -m 2048 -T 270 "$@"
}

# Processes and tenants that share a pool: the same as on a broker.
scenarios()
{
	with_refs -n scenarios -f "$build/kvcache-replay" \
		-f "$tree/selftests/data/traces/mooncake_synthetic.jsonl" \
		-f "$tree/selftests/scenarios/kit.sh" \
		-f "$tree/selftests/broker/broker.sh" -e KVCACHE_MODEL= \
		-e KVCACHE_TEST_DEVICE=/dev/kvcache -t 420 -T 250 6.12 scenarios
}

# What is mounted, on the module, and all who look at once.
admin()
{
	if [ ! -x "$build/kvcachefs" ]; then
		echo "# SKIP tools/test_fs.sh: no kvcachefs: needs libfuse3-dev" >&2
		return
	fi
	with_refs -n admin -f "$build/kvcachefs" -f "$(command -v setpriv)" \
		-f "$tree/selftests/scenarios/kit.sh" \
		-f "$tree/selftests/broker/broker.sh" -e KVCACHE_MODEL= \
		-f "$tree/selftests/admin/views.sh" \
		-e KVCACHE_TEST_DEVICE=/dev/kvcache -T 250 6.12 \
		"$tree/selftests/tools/test_fs.sh" \
		"$tree/selftests/admin/test_scenario.sh"
}

case $1 in
scenarios)
	scenarios
	;;
admin)
	admin
	;;
check)
	with_refs -d nbd -d "$importer" 6.1,6.12 dev
	# Devices have copies of the pages, as in a guest with encrypted memory.
	(
		export VM_APPEND="${VM_APPEND:-} swiotlb=force"
		run -n bounce -d "$importer" -e BOUNCES=1 6.1,6.12 \
			"$tests/test_import"
	) || exit
	# What the in-process backend has to do, the device does the same.
	run -n same -T 250 -e KVCACHE_TEST_DEVICE=/dev/kvcache 6.1,6.12 \
		"$conf"vllm "$conf"sglang "$conf"tensorrt_llm \
		"$conf"transformers "$conf"kvcached "$conf"kvcached_shared \
		"$unit"cmd "$unit"cmd_values "$unit"seq "$unit"prefix \
		"$unit"batch "$unit"revoke "$unit"predict "$unit"dedup \
		"$unit"limits
	with_model 6.12 "$tree/selftests/dev/test_run.sh"
	;;
stress)
	run -n stress -t "$limit" -T "$limit" -e "KILLS=${KILLS:-${FULL:+10000}}" \
		-e "SEED=${SEED:-}" -e "FUZZ_SECONDS=${FUZZ_SECONDS:-}" \
		6.1,6.12 "$tests/stress_fuzz" "$tests/stress_kill" \
		"$tests/stress_race" "$tests/stress_threads"
	;;
debug)
	# Everything, in kernels that watch: $build/linux/ has them.
	for kernel in debug ${FULL:+kcsan}; do
		with_refs -n dev -d nbd -d "$importer" -t 2400 -T 600 -e KVCACHE_MODEL= \
			"$build/linux/$kernel" dev
		run -n stress -t 3600 -T 1200 -e "KILLS=${KILLS:-300}" \
			-e "SEED=${SEED:-}" \
			-e "FUZZ_SECONDS=${FUZZ_SECONDS:-${fuzz:-60}}" \
			-f "$build/kunit-$kernel/kvcache_kunit.ko" \
			"$build/linux/$kernel" "$tests/stress_attach" \
			"$tests/stress_fail_nth" "$tests/stress_fuzz" \
			"$tests/stress_kill" "$tests/stress_race" \
			"$tests/stress_threads" \
			"$tree/selftests/vm/kunit/ledger.sh"
	done
	;;
uml)
	# The quick loop.
	set -- "$tree/selftests/vm/kunit/ledger.sh"
	for t in "$tests"/test_*; do
		case ${t##*/} in
		*.[do])	continue ;;
		*_late)	why="memory is zeroed too fast there" ;;
		*_bounds | *_race)	why="needs two CPUs" ;;
		*_vma)	why="has no huge pages" ;;
		*_languages)	why="needs programs of other languages" ;;
		*)	set -- "$@" "$t"
			continue ;;
		esac
		echo "# SKIP dev/${t##*/} on UML: $why" >&2
	done
	"$here/run.sh" -l -n dev -t 240 -T 60 -f "$tests/setup" \
		-f "$build/kunit-um/kvcache_kunit.ko" "$build/linux/um" "$@"
	;;
*)
	echo "machines.sh: check, scenarios, admin, stress, debug or uml" >&2
	exit 2
	;;
esac
