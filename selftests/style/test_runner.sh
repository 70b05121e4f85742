#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The test harnesses themselves: what must count as a failure does.
. "$(dirname "$0")/../tap.sh"
run=$root/selftests/run-tests.sh

# program NAME: a shell test of that name, from standard input.
program()
{
	{
		echo '#!/bin/sh'
		cat
	} >"$tmp/$1.sh"
	chmod +x "$tmp/$1.sh"
}

# says STATUS COUNTS PROGRAM...: how the runner ends.
says()
{
	status=$1 counts=$2
	shift 2
	"$run" -o "$tmp/log" "$@" >"$tmp/said" 2>&1
	got=$?
	cat "$tmp/said"
	[ "$got" -eq "$status" ] &&
		[ "$(tail -n 1 "$tmp/said")" = "$counts" ]
}

program good <<'EOT'
echo "1..2"
echo "ok 1 a"
echo "ok 2 b # SKIP no such thing"
EOT
program failing <<'EOT'
echo "1..2"
echo "ok 1 a"
echo "not ok 2 b"
exit 1
EOT
program crashing <<'EOT'
echo "1..1"
echo "ok 1 a"
kill -SEGV $$
EOT
program short <<'EOT'
echo "1..3"
echo "ok 1 a"
EOT
program silent <<'EOT'
exit 0
EOT
program skipping <<'EOT'
echo "1..1"
echo "ok 1 a # SKIP"
exit 4
EOT
program hanging <<'EOT'
# timeout: 1
echo "1..1"
sleep 60
EOT
program leaving <<'EOT'
sleep 97 &
echo $! >"$(dirname "$0")/left"
echo "1..1"
echo "ok 1 a"
EOT
program figures <<'EOT'
echo "1..1"
echo "# figure tokens/s 12"
echo "# other"
echo "ok 1 a"
EOT

check "passed and skipped" says 0 "1 passed, 0 failed, 1 skipped" "$tmp/good.sh"
check "a failing test" says 1 "1 passed, 1 failed, 0 skipped" "$tmp/failing.sh"
check "a crash after the last test" \
	says 1 "1 passed, 1 failed, 0 skipped" "$tmp/crashing.sh"
check "short of its plan" says 1 "1 passed, 1 failed, 0 skipped" "$tmp/short.sh"
check "no plan" says 1 "0 passed, 1 failed, 0 skipped" "$tmp/silent.sh"
check "all skipped" says 0 "0 passed, 0 failed, 1 skipped" "$tmp/skipping.sh"
check "a hang" says 1 "0 passed, 1 failed, 0 skipped" "$tmp/hanging.sh"
check "a program that is not there" \
	says 1 "0 passed, 1 failed, 0 skipped" "$tmp/none.sh"
check "counts are summed" says 1 "3 passed, 2 failed, 2 skipped" \
	"$tmp/good.sh" "$tmp/failing.sh" "$tmp/silent.sh" "$tmp/good.sh"

program reasons <<'EOT'
echo "1..3"
echo "# SKIP no such thing"
echo "ok 1 a # SKIP"
echo "# SKIP no such thing"
echo "ok 2 b # SKIP"
echo "# SKIP another"
echo "ok 3 c # SKIP"
exit 4
EOT

reasons_counted()
{
	says 0 "0 passed, 0 failed, 6 skipped" "$tmp/reasons.sh" \
		"$tmp/reasons.sh" || return
	tail -n 3 "$tmp/said" | head -n 2 >"$tmp/why"
	printf '# skipped %s\n' '2: another' '4: no such thing' |
		diff - "$tmp/why"
}
check "reasons are counted at the end" reasons_counted

figures_shown()
{
	says 0 "1 passed, 0 failed, 0 skipped" "$tmp/figures.sh" &&
		grep -q '^# figure tokens/s 12$' "$tmp/said" &&
		! grep -q '^# other' "$tmp/said"
}
check "figures are shown" figures_shown

nothing_left()
{
	says 0 "1 passed, 0 failed, 0 skipped" "$tmp/leaving.sh" || return
	pid=$(cat "$tmp/left")
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		# A zombie that nobody has waited for is gone all the same.
		[ -d "/proc/$pid" ] || return 0
		grep -q '^State:.Z' "/proc/$pid/status" && return
		sleep 0.1
	done
	return 1
}
check "no process stays behind" nothing_left

# harness.h, by a program with a test of each kind.
cat >"$tmp/kinds.c" <<'EOT'
#include "harness.h"

TEST(passes) { ASSERT_EQ(2, 1 + 1); EXPECT_STREQ("a", "a"); }
TEST(fails) { EXPECT_EQ(1, 2); }
TEST(shows_floats) { EXPECT_LT(0.5, 0.25f); }
TEST(crashes) { raise(SIGSEGV); }
TEST_TIMEOUT(hangs, 1) { pause(); }
TEST(skips) { SKIP(return, "no such thing"); }
TEST(fails_then_skips) { EXPECT_TRUE(0); SKIP(return, "too late"); }
FIXTURE(fix) { int n; };
FIXTURE_SETUP(fix) { self->n = 7; }
FIXTURE_TEARDOWN(fix) { printf("# teardown %d\n", self->n); }
TEST_F(fix, fixture) { ASSERT_EQ(7, self->n); self->n = 8; }
TEST_HARNESS_MAIN
EOT

cat >"$tmp/expected" <<'EOT'
1..8
ok 1 passes
not ok 2 fails
not ok 3 shows_floats
not ok 4 crashes
not ok 5 hangs
ok 6 skips # SKIP
not ok 7 fails_then_skips
ok 8 fix.fixture
EOT

kinds()
{
	gcc -D_GNU_SOURCE -Wall -Wextra -Werror -I"$root/selftests" \
		-o "$tmp/kinds" "$tmp/kinds.c" || return
	"$tmp/kinds" >"$tmp/tap"
	[ $? -eq 1 ] || return
	cat "$tmp/tap"
	grep -E '^(ok|not ok|1\.\.)' "$tmp/tap" | diff "$tmp/expected" - &&
		grep -q '^# .*expected 0.5 (0.5) < 0.25f (0.25)$' "$tmp/tap" &&
		grep -q '^# SKIP no such thing$' "$tmp/tap" &&
		grep -q '^# timed out after 1 s$' "$tmp/tap" &&
		grep -q '^# teardown 8$' "$tmp/tap"
}
check "harness.h: each kind of test" kinds

selected()
{
	[ "$("$tmp/kinds" -l | wc -l)" -eq 8 ] &&
		"$tmp/kinds" -t pass | grep -x 'ok 1 passes' &&
		! "$tmp/kinds" -t no_such_test
}
check "harness.h: one test by name" selected
check "harness.h: counted by the runner" \
	says 1 "2 passed, 5 failed, 1 skipped" "$tmp/kinds"

# tap.sh
program shell_kinds <<EOT
. "$root/selftests/tap.sh"
check good true
check bad sh -c 'echo why; exit 3'
skip other "no such thing"
tap_end
EOT
check "tap.sh: counted by the runner" \
	says 1 "1 passed, 1 failed, 1 skipped" "$tmp/shell_kinds.sh"
tap_shows()
{
	"$tmp/shell_kinds.sh" | grep -x '# why'
}
check "tap.sh: shows why" tap_shows

tap_end
