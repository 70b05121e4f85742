#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Run test programs and count what their TAP says.
#
#	run-tests.sh [-o LOGDIR] PROGRAM...
#
# The last line is "N passed, N failed, N skipped"; before it, why tests were
# skipped, a line a reason. The exit status is 1 if anything failed. A program
# that dies, prints no plan, or stops short of its plan counts as a failure. A
# line "# timeout: SECONDS" at the top of a shell test sets its limit. What a
# program leaves running in its process group is killed.
set -u
log=build/log
if [ "${1:-}" = -o ]; then
	log=$2
	shift 2
fi
mkdir -p "$log" || exit 1
passed=0 failed=0 skipped=0 pid=
: >"$log/skipped" || exit 1

reap()
{
	[ -z "$pid" ] || kill -s KILL -- "-$pid" 2>/dev/null
	pid=
}
trap reap EXIT
trap 'exit 130' INT TERM HUP

# How many lines of a file match.
count()
{
	grep -c "$1" "$2"
}

for prog in "$@"; do
	name=$(printf '%s' "$prog" | sed 's,.*selftests/,,; s,/,.,g')
	out=$log/$name.tap
	limit=
	case $prog in
	*.sh)	limit=$(sed -n '1,10s/^# timeout: *\([0-9]*\)$/\1/p' "$prog") ;;
	esac
	printf '# %s\n' "$name"

	# timeout(1) leads a process group of its own.
	timeout -k 10 "${limit:-900}" "$prog" >"$out" 2>"$out.err" </dev/null &
	pid=$!
	wait "$pid"
	status=$?
	reap

	grep -E '^(ok|not ok|# SKIP|# figure)' "$out"
	plan=$(sed -n 's/^1\.\.\([0-9][0-9]*\).*/\1/p' "$out" | head -n 1)
	ok=$(count '^ok ' "$out")
	skip=$(count '^ok .*# SKIP' "$out")
	bad=$(count '^not ok ' "$out")
	ran=$((ok + bad))
	if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
		echo "not ok - $name was stopped after ${limit:-900} s, $ran of ${plan:-?} tests"
		bad=$((bad + 1))
	elif [ -z "$plan" ] || [ "$ran" -ne "$plan" ] ||
	     { [ "$status" -ne 0 ] && [ "$status" -ne 4 ] && [ "$bad" -eq 0 ]; }; then
		echo "not ok - $name ended with status $status after $ran of ${plan:-?} tests"
		bad=$((bad + 1))
	fi
	if [ "$bad" -ne 0 ]; then
		tail -n 40 "$out" | sed 's/^/    /'
		tail -n 40 "$out.err" | sed 's/^/    /'
	fi
	grep '^# SKIP' "$out" >>"$log/skipped"
	passed=$((passed + ok - skip))
	skipped=$((skipped + skip))
	failed=$((failed + bad))
done
# Where they ran, the reasons are lost among everything else.
sort "$log/skipped" | uniq -c | sed 's/^ *\([0-9]*\) # SKIP/# skipped \1:/'
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
