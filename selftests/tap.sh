# SPDX-License-Identifier: MIT
# shellcheck shell=sh
#
# tap.sh - what harness.h is for C programs, for tests that are shell scripts.
#
#	. "$(dirname "$0")/../tap.sh"
#	check "it works" some command	# passes if the command succeeds
#	skip "that too" "no valgrind"
#	tap_end				# the plan, and the exit status
#
# $root is the source tree, $build what was built, $tmp a folder that is
# removed at the end. needs() looks for a program.

root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck disable=SC2034 # for the tests
build=${KVCACHE_BUILD:-$root/build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP
tap_n=0 tap_bad=0 tap_skipped=0
echo "TAP version 13"

# check NAME COMMAND...: the command's output is shown where it fails.
check()
{
	tap_name=$1
	shift
	tap_n=$((tap_n + 1))
	if ("$@") >"$tmp/out" 2>&1 </dev/null; then
		echo "ok $tap_n $tap_name"
	else
		tap_bad=$((tap_bad + 1))
		sed 's/^/# /' "$tmp/out"
		echo "not ok $tap_n $tap_name"
	fi
}

# skip NAME REASON...
skip()
{
	tap_name=$1
	shift
	tap_n=$((tap_n + 1))
	tap_skipped=$((tap_skipped + 1))
	echo "# SKIP $*"
	echo "ok $tap_n $tap_name # SKIP $*"
}

needs()
{
	command -v "$1" >/dev/null
}

tap_end()
{
	echo "1..$tap_n"
	[ "$tap_bad" -eq 0 ] || exit 1
	[ "$tap_skipped" -lt "$tap_n" ] || exit 4
	exit 0
}
