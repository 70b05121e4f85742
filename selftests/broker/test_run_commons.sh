#!/bin/sh
# SPDX-License-Identifier: MIT
#
# kvcache-run of two tenants with one system message: without a grant nothing is
# shared; with one its pages are charged to the commons and found by both, and
# what users say is not.
. "$(dirname "$0")/broker.sh"
run=$build/kvcache-run
ctl=$build/kvcachectl
model=$root/selftests/data/refs/tiny-mha-f16.gguf
export KVATTN_ISA=scalar

for need in "$run" "$ctl" "$build/kvcache-broker" "$model"; do
	[ -r "$need" ] && continue
	skip "the commons of two tenants" "no $need"
	tap_end
done

# text SEED: 480 tokens, 15 pages
text()
{
	for _ in $(seq 60); do
		printf '%s is one.' "$1"
	done | cut -c1-480
}
# say OUT TENANT SYSTEM PROMPT [OPTION]...
say()
{
	out=$1 tenant=$2 system=$3 prompt=$4
	shift 4
	"$run" -m "$model" --kv f32 --weights f32 --ignore-end --threads 1 \
		-n 40 --json="$out" -q --tenant "$tenant" \
		--system "$(text "$system")" -p "$prompt" "$@"
}
# field NAME OUT
field()
{
	grep -o "\"$1\":[0-9]*" "$2" | head -n 1 | cut -d: -f2
}
same()
{
	grep -o '"ids":\[[^]]*\]' "$1" >"$tmp/x"
	grep -o '"ids":\[[^]]*\]' "$2" >"$tmp/y"
	[ -s "$tmp/x" ] && cmp "$tmp/x" "$tmp/y"
}
# charged TENANT
charged()
{
	"$ctl" -d "$socket" tenant ls --json | tr '{' '\n' |
		grep "\"name\":\"$1\"" | grep -o '"current_pages":[0-9]*' |
		cut -d: -f2
}
grant()
{
	"$ctl" -d "$socket" tenant grant commons "$@"
}

alone()
{
	KVCACHE=local:page=64K say "$tmp/alone" t A "and so?"
}
set_up()
{
	me=uid=$(id -u)
	broker_start --pool main=8M,page=64K --tenant "a,$me" \
		--tenant "b,$me" --tenant "commons,$me" || return
}
not_without_a_grant()
{
	say "$tmp/a" a A "and so?" --commons commons &&
		say "$tmp/b" b A "and so?" --commons commons || return
	[ "$(field pages_common "$tmp/a")" -eq 0 ] &&
		[ "$(field reused_tokens "$tmp/b")" -eq 0 ] &&
		[ "$(charged commons)" -eq 0 ] && same "$tmp/a" "$tmp/alone" &&
		same "$tmp/b" "$tmp/alone"
}
shared_with_a_grant()
{
	"$ctl" -d "$socket" tenant flush a || return
	"$ctl" -d "$socket" tenant flush b || return
	grant a --rights lookup,publish && grant b --rights lookup || return
	say "$tmp/a" a A "and so?" --commons commons &&
		say "$tmp/b" b A "and so?" --commons commons || return
	echo "common $(field pages_common "$tmp/a") $(charged commons)"
	echo "reused $(field reused_tokens "$tmp/b")"
	[ "$(field pages_common "$tmp/a")" -ge 15 ] &&
		[ "$(charged commons)" -ge 15 ] &&
		[ "$(charged b)" -lt 5 ] && [ "$(charged a)" -lt 5 ] &&
		[ "$(field reused_tokens "$tmp/b")" -ge 480 ] &&
		same "$tmp/a" "$tmp/alone" && same "$tmp/b" "$tmp/alone"
}
# What a user says is found by nobody else.
the_rest_is_not()
{
	[ "$(field reused_tokens "$tmp/b")" -lt 512 ]
}
another_salt_finds_nothing()
{
	head -c 32 /dev/urandom >"$tmp/salt"
	chmod 600 "$tmp/salt"
	say "$tmp/c" b A "and so?" --commons commons \
		--commons-salt "$tmp/salt" --salt "$tmp/salt" || return
	[ "$(field reused_tokens "$tmp/c")" -eq 0 ] &&
		same "$tmp/c" "$tmp/alone"
}
another_epoch_finds_nothing()
{
	say "$tmp/c" b A "and so?" --commons commons --epoch 2 || return
	[ "$(field reused_tokens "$tmp/c")" -eq 0 ]
}
# A full commons, and the pages go where all the others go.
goes_on_when_it_is_full()
{
	"$ctl" -d "$socket" tenant set commons --max 1M || return
	say "$tmp/c" a B "and so?" --commons commons || return
	echo "$(charged commons) $(field pages_common "$tmp/c")"
	[ "$(charged commons)" -le 16 ]
}
refuses()
{
	! say "$tmp/c" a A x --commons nobody 2>"$tmp/err" &&
		grep "nobody: no tenant of that name" "$tmp/err" &&
		! say "$tmp/c" a A x --commons 77 2>"$tmp/err" &&
		grep "commons: there is no tenant 77" "$tmp/err" &&
		chmod 644 "$tmp/salt" &&
		! say "$tmp/c" a A x --salt "$tmp/salt" 2>"$tmp/err" &&
		grep "all can read it" "$tmp/err" && echo short >"$tmp/salt" &&
		chmod 600 "$tmp/salt" &&
		! say "$tmp/c" a A x --salt "$tmp/salt" 2>"$tmp/err" &&
		grep "can be guessed" "$tmp/err"
}

check "alone, in-process" alone
set_up || exit 1
export KVCACHE="$socket"
check "without a grant nothing is shared" not_without_a_grant
check "with a grant the system message is, charged to the commons" \
	shared_with_a_grant
check "and nothing that comes after it" the_rest_is_not
check "with another salt nothing is found" another_salt_finds_nothing
check "with another epoch nothing is found" another_epoch_finds_nothing
check "full commons are no obstacle" goes_on_when_it_is_full
check "what cannot be is refused" refuses
tap_end
