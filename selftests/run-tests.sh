#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Run test programs and count what their TAP says.
#
#	run-tests.sh [-o LOGDIR] PROGRAM...
#
# The last line is "N passed, N failed, N skipped"; the exit status is 1 if
# anything failed. A program that dies, prints no plan, or stops short of its
# plan counts as a failure. A line "# timeout: SECONDS" in a shell test sets
# its limit.
set -u
log=build/log
if [ "${1:-}" = -o ]; then
	log=$2
	shift 2
fi
mkdir -p "$log"
passed=0 failed=0 skipped=0

for prog in "$@"; do
	name=$(printf '%s' "$prog" | sed 's,.*selftests/,,; s,/,.,g')
	out=$log/$name.tap
	limit=$(sed -n 's/^# timeout: *\([0-9]*\)$/\1/p' "$prog" 2>/dev/null | head -n 1)
	printf '# %s\n' "$name"
	timeout -k 10 "${limit:-900}" "$prog" >"$out" 2>"$out.err"
	status=$?
	grep -E '^(ok|not ok|# SKIP|# figure)' "$out"
	plan=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$out" | head -n 1)
	ok=$(grep -c '^ok ' "$out")
	skip=$(grep -c '^ok .*# SKIP' "$out")
	bad=$(grep -c '^not ok ' "$out")
	if [ -z "$plan" ] || [ $((ok + bad)) -ne "$plan" ] ||
	   { [ "$status" -ne 0 ] && [ "$status" -ne 4 ] && [ "$bad" -eq 0 ]; }; then
		echo "not ok - $name ended with status $status after $((ok + bad)) of ${plan:-?} tests"
		bad=$((bad + 1))
	fi
	if [ "$bad" -ne 0 ]; then
		sed 's/^/    /' "$out" | tail -n 40
		sed 's/^/    /' "$out.err" | tail -n 40
	fi
	passed=$((passed + ok - skip))
	skipped=$((skipped + skip))
	failed=$((failed + bad))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
