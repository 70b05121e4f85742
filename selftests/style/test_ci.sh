#!/bin/sh
# SPDX-License-Identifier: MIT
#
# .ci/run: what its last line and its exit status say of its stages. Stages are
# played by a make that answers from a file.
. "$(dirname "$0")/../tap.sh"
if ! needs bash; then
	skip "stages" "no bash"
	tap_end
fi
mkdir -p "$tmp/tree/.ci" "$tmp/bin"
cp "$root/.ci/run" "$tmp/tree/.ci/run"
cat >"$tmp/bin/make" <<EOT
#!/bin/sh
. "$tmp/plan"
EOT
chmod +x "$tmp/bin/make"

# says STATUS LAST-LINE, with the stages' behaviour on standard input.
says()
{
	(cd / && PATH=$tmp/bin:$PATH CI=true bash "$tmp/tree/.ci/run") \
		>"$tmp/said" 2>&1
	got=$?
	cat "$tmp/said"
	[ "$got" -eq "$1" ] && [ "$(tail -n 1 "$tmp/said")" = "$2" ] &&
		[ "$(grep -c -E '^[0-9]+ passed' "$tmp/said")" -eq 1 ]
}

stages=$(grep -c '^stage ' "$root/.ci/run")
echo 'echo "3 passed, 0 failed, 1 skipped"' >"$tmp/plan"
check "all stages pass" \
	says 0 "$((3 * stages)) passed, 0 failed, $stages skipped"

cat >"$tmp/plan" <<'EOT'
echo "3 passed, 1 failed, 0 skipped"
exit 2
EOT
check "tests fail" says 1 "$((3 * stages)) passed, $stages failed, 0 skipped"

cat >"$tmp/plan" <<'EOT'
[ "$1" = check ] && echo "3 passed, 0 failed, 0 skipped" && exit 0
echo "no rule to make this"
exit 2
EOT
check "a stage that says nothing has failed" \
	says 1 "3 passed, $((stages - 1)) failed, 0 skipped"

cat >"$tmp/plan" <<'EOT'
echo "3 passed, 0 failed, 0 skipped"
exit 2
EOT
check "a stage that fails after its tests has failed" \
	says 1 "$((3 * stages)) passed, $stages failed, 0 skipped"

# A stage that is counted and does not end, and nothing left for the others.
cat >"$tmp/plan" <<'EOT'
echo "3 passed, 0 failed, 0 skipped"
exec sleep 60
EOT
cut_short()
{
	CI_SECONDS=2
	export CI_SECONDS
	says 1 "3 passed, $stages failed, 0 skipped" &&
		grep -q -x "not ok - check was cut short after 2 s" "$tmp/said" &&
		[ "$(grep -c '^not ok - .* was not run' "$tmp/said")" -eq \
			$((stages - 1)) ]
}
check "a stage that is cut short has failed, and what comes after" cut_short

# A stage that is stopped has no counts: what it runs must stop before, with a
# minute to spare for the build.
bench_ends_before_its_stage()
{
	stage=$(awk '$1 == "stage" && $2 == "check-bench" { print $3 * 60 }' \
		"$root/.ci/run")
	limits=$(sed -n '1,10s/^# timeout: *\([0-9]*\)$/\1/p' \
		"$root"/selftests/bench/test_*.sh | paste -s -d + -)
	budget=$(sed -n 's/.*KVCACHE_BENCH_SECONDS:-\([0-9]*\)}.*/\1/p' \
		"$root/selftests/bench/test_goals.sh")
	echo "stage $stage s, tests $limits s, goals $budget s"
	[ "$((limits + 60))" -le "$stage" ] && [ "$budget" -lt "$((limits))" ]
}
check "check-bench ends before it is stopped" bench_ends_before_its_stage

# What measures never ends, or misses its goals at once.
busy()
{
	mkdir -p "$tmp/bin/selftests/admin"
	for program in kvcache-bench selftests/admin/test_many; do
		printf '#!/bin/sh\n%s\n' "$1" >"$tmp/bin/$program"
		chmod +x "$tmp/bin/$program"
	done
	KVCACHE_BUILD=$tmp/bin KVCACHE_MODEL='' KVCACHE_LLAMA='' \
		KVCACHE_BENCH_SECONDS=3 timeout 30 "$root/selftests/run-tests.sh" -o "$tmp/log" \
		"$root/selftests/bench/test_goals.sh" >"$tmp/said" 2>&1
	cat "$tmp/said"
	# Four goals are for any machine; one of them needs valgrind.
	tail -n 1 "$tmp/said" |
		grep -q -x -E '0 passed, [34] failed, [45] skipped'
}
check "goals on a machine that is too busy are counted" busy 'sleep 60'
check "goals that are missed are counted" busy 'echo slow; exit 1'
tried_again()
{
	[ "$(grep -c '^# figure pages: attempt [123] missed its goal' "$tmp/said")" -eq 3 ]
}
check "a goal is missed when three in a row miss it" tried_again

tap_end
