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

within_an_hour()
{
	awk '$1 == "stage" { sum += $3 } END { print sum; exit !(sum > 0 && sum < 60) }' \
		"$root/.ci/run"
}
check "the limits of all stages are below an hour" within_an_hour

tap_end
