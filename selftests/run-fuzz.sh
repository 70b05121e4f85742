#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Run libFuzzer programs, each for some seconds, on its own seeds.
#
#	run-fuzz.sh [-o LOGDIR] [-t SECONDS] PROGRAM...
#
# The seeds of fuzz_NAME are selftests/fuzz/corpus-NAME/. What the fuzzer finds
# stays in LOGDIR, the tree is not written to. The last line counts programs,
# as run-tests.sh counts tests.
set -u
log=build/fuzz/log
secs=60
while getopts o:t: opt; do
	case $opt in
	o)	log=$OPTARG ;;
	t)	secs=$OPTARG ;;
	*)	exit 2 ;;
	esac
done
shift $((OPTIND - 1))
seeds=$(dirname "$0")/fuzz
passed=0 failed=0 pid=
trap '[ -z "$pid" ] || kill "$pid"' EXIT
trap 'exit 130' INT TERM HUP

for prog in "$@"; do
	name=$(basename "$prog")
	corpus=$log/$name.corpus
	mkdir -p "$corpus" || exit 1
	seed=$seeds/corpus-${name#fuzz_}
	[ -d "$seed" ] || seed=
	# The last word on time is timeout's, if an input never returns.
	timeout -k 10 $((secs + 60)) "$prog" -max_total_time="$secs" \
		-timeout=20 -rss_limit_mb=3072 -print_final_stats=1 \
		-artifact_prefix="$log/$name." \
		"$corpus" ${seed:+"$seed"} \
		>"$log/$name.log" 2>&1 </dev/null &
	pid=$!
	wait "$pid"
	status=$?
	pid=
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log/$name.log")
	if [ "$status" -eq 0 ] && [ "${runs:-0}" -gt 0 ]; then
		echo "ok - $name: $runs inputs in $secs s"
		passed=$((passed + 1))
	else
		echo "not ok - $name ended with status $status, see $log/$name.log"
		tail -n 40 "$log/$name.log" | sed 's/^/    /'
		failed=$((failed + 1))
	fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
