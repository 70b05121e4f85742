# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2154
#
# ctl_kit.sh - kvcachectl on a backend that several processes share: the module
# or a broker. A test sources it after tap.sh, with $KVCACHE set, and calls
# ctl_tests, as who may administer. Every refusal is checked for its exit status,
# its words, and that nothing changed.
ctl=$build/kvcachectl
run=$build/kvcache-run
refs=$root/selftests/data/refs

# Pools and tenants, with the sequence number of the ledger.
state()
{
	"$ctl" pool ls --json && "$ctl" tenant ls --json
}

# refuses STATUS WORDS REMEDY ARGUMENT...: one line, with both.
refuses()
{
	status=$1 words=$2 remedy=$3
	shift 3
	"$ctl" "$@" >"$tmp/said" 2>"$tmp/err" </dev/null
	got=$?
	cat "$tmp/said" "$tmp/err"
	[ "$got" -eq "$status" ] && [ ! -s "$tmp/said" ] &&
		[ "$(wc -l <"$tmp/err")" -eq 1 ] &&
		grep -q -F -e "kvcachectl: " "$tmp/err" &&
		grep -q -F -e "$words" "$tmp/err" &&
		grep -q -F -e "$remedy" "$tmp/err"
}

# unchanged COMMAND...: whatever was refused meanwhile, nothing is different, and
# nothing was in between: the ledger counts changes.
unchanged()
{
	state >"$tmp/before" && "$@" && state >"$tmp/after" &&
		diff "$tmp/before" "$tmp/after"
}

# has COMMAND... = TEXT...: it succeeds, and its JSON has each of the texts.
has()
{
	args=
	while [ "$1" != = ]; do
		args="$args $1"
		shift
	done
	shift
	# shellcheck disable=SC2086 # a list of words
	"$ctl" $args --json >"$tmp/json" || return
	cat "$tmp/json"
	for text; do
		grep -q -F -e "$text" "$tmp/json" ||
			{ echo "no $text"; return 1; }
	done
}

# value NAME: of the first member of that name in the last JSON.
value()
{
	grep -o "\"$1\":[^,}]*" "$tmp/json" | head -n 1 | sed 's/^[^:]*://'
}

# ---- values --------------------------------------------------------------

long=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
newline='a
b'

# bad OPTION REMEDY VALUE...: tenant a gets none of the values. Where each call
# takes long, $few says how many are tried: what is wrong with a value is seen
# before it is sent anywhere.
bad()
{
	option=$1 remedy=$2 tried=0
	shift 2
	for v; do
		tried=$((tried + 1))
		[ $tried -le "${few:-99}" ] || return 0
		refuses 2 "$option \"$v\"" "$remedy" \
			tenant set a "$option=$v" || return
	done
}
bad_values()
{
	bad --max 64M '' -1 18446744073709551616 10X 9223372036854775808 1e3 \
		0x10 ' 1M' '1M ' 1.5 M 101% -5% % &&
		bad --ttl 30s '' 0s 5 -1s 1y forever 18446744073709551616s &&
		bad --mode 0400 '' 1000 0401 0777 04000 rw -0400 &&
		bad --owner USER:GROUP '' nobody-of-this-name : 4294967295 -1 \
			0:no-such-group &&
		bad --cgroup /sys/fs/cgroup '' nowhere /proc "$tmp" &&
		bad --trust "yes or no" maybe '' 1 &&
		refuses 2 "--max \"a" "64M" tenant set a --max "$newline" &&
		refuses 2 "--max \"" "64M" tenant set a --max \
			"$(printf '\377\001\033[2J')" &&
		! grep -q "$(printf '\033')" "$tmp/err" &&
		refuses 2 "--max \"1" "64M" tenant set a --max \
			"$(printf '%05000d' 0 | tr 0 1)" || return
	for v in '' -1 18446744073709551616 10X 0 max 50%; do
		refuses 2 "--size \"$v\"" "64M" pool set main "--size=$v" &&
			refuses 2 "--size \"$v\"" "64M" \
				pool create x "--size=$v" || return
		[ -z "${few:-}" ] || [ "$v" != 10X ] || break
	done
}

bad_names()
{
	for v in '' .a a/b 'a b' "$long" "$(printf 'a\377')" ../a; do
		[ -z "${few:-}" ] || [ "$v" != a/b ] || break
		refuses 2 "tenant \"" "1 to 63 letters" tenant create "$v" &&
			refuses 2 "pool \"" "1 to 63 letters" \
				pool create "$v" --size 1M || return
	done
}

less_than_a_page()
{
	refuses 2 "63K: less than a page of main, which is 64K" \
		"64K and more" tenant set a --max 63K &&
		refuses 2 "--min \"max\"" "25%" tenant set a --min max
}

# ---- pools and tenants ---------------------------------------------------

pools()
{
	has pool create main --size 8M --page 64K = '"pages":128' &&
		has pool ls = '"name":"main"' '"page_bytes":65536' \
			'"free_pages":128' '"draining":false' '"seq":' &&
		has info = '"abi_version":1' '"backend":"' '"name":"main"' &&
		"$ctl" info >"$tmp/said" && cat "$tmp/said" &&
		grep -q '^features  [a-z]' "$tmp/said" &&
		grep -q '^main  *64 KiB  *8 MiB' "$tmp/said"
}
pool_refusals()
{
	refuses 1 "pool main" "there is one of this name" \
		pool create main --size 1M --page 64K &&
		refuses 1 'pool "mian"' "name one of main" \
			pool set mian --size 1M &&
		refuses 1 "pool main" "more than it was made for" \
			pool set main --size 1T &&
		refuses 2 "--page \"3M\"" "power of two" \
			pool create x --size 64M --page 3M &&
		refuses 2 "pool create: give --size" "SIZE" pool create x
}
tenants()
{
	has tenant create a --max 25% --min 1M = '"min_pages":16' \
		'"max_pages":32' '"low_pages":0' '"mode":"0400"' &&
		has tenant create b --mode 0440 --ttl 10m = \
			'"max_pages":null' '"mode":"0440"' \
			'"ttl_ns":600000000000' &&
		has tenant ls = '"name":"a"' '"name":"b"'
}
tenant_refusals()
{
	refuses 1 "tenant a" "there is one of this name" tenant create a &&
		refuses 1 'tenant "c"' "tenant ls" tenant set c --max 1M &&
		refuses 1 'tenant "c"' "tenant ls" tenant rm c &&
		refuses 1 "min 1 MiB, low 0 B, max 512 KiB" "raise --max" \
			tenant set a --max 512K &&
		refuses 1 "low 8 MiB" "raise --max" tenant set a --low 100% &&
		refuses 1 "tenant b: min 8 MiB" "lower a min" \
			tenant set b --min 8M &&
		refuses 1 'pool "x"' "name one of main" \
			tenant set a --max 1M --pool x &&
		refuses 1 "pool main" "lower their min" \
			pool set main --size 512K &&
		refuses 2 "tenant set: nothing to change" "--max" tenant set a &&
		refuses 2 "tenant set: something is missing" "NAME" tenant set
}
# Of what is not given nothing changes.
only_what_is_given()
{
	has tenant set a --max 2M = '"max_pages":32' '"min_pages":16' || return
	revision=$(value revision)
	has tenant set a --low 1.5M = '"low_pages":24' '"min_pages":16' \
		'"max_pages":32' '"mode":"0400"' \
		"\"revision\":$((revision + 1))" &&
		has tenant set a --mode 0444 = '"low_pages":24' \
			'"mode":"0444"' '"min_pages":16' &&
		has tenant set a --max max = '"max_pages":null' \
			'"low_pages":24' &&
		has tenant set a --ttl never --max 50% = '"ttl_ns":null' \
			'"max_pages":64' &&
		has tenant set a --owner 12:34 = '"uid":12' '"gid":34' \
			'"mode":"0444"' &&
		has tenant set a --owner :35 = '"uid":12' '"gid":35' &&
		has tenant set a --owner "$(id -u)" = "\"uid\":$(id -u)" \
			'"gid":35'
}
grants()
{
	has tenant grant a b --rights lookup,publish --hold 8 = \
		'"lookup":true' '"publish":true' '"max_held_pages":8' &&
		has tenant ls = '"grants":1' && unchanged grant_refusals &&
		lists_grants &&
		has tenant grant a b --rights none = '"lookup":false' &&
		has tenant grants = '"grants":[]' || return
	! has tenant ls = '"grants":1'
}
# The one of a to b: among all, as given, and as got.
lists_grants()
{
	for of in "" a b; do
		# shellcheck disable=SC2086 # or none
		has tenant grants $of = '"tenant":"a"' '"to":"b"' \
			'"lookup":true' '"publish":true' \
			'"max_held_pages":8' '"held_pages":0' || return
		[ "$(grep -o '"to":' "$tmp/json" | wc -l)" -eq 1 ] || return
		# shellcheck disable=SC2086
		"$ctl" tenant grants $of >"$tmp/said" &&
			grep -q '^a  *b  *lookup,publish  *8  *0$' "$tmp/said" ||
			return
	done
	refuses 1 'tenant "c"' "tenant ls" tenant grants c
}
# What KVCACHE_POOL_GET says of itself.
counters()
{
	has pool show main = '"counters":{' '"unzeroed":0' '"lost":0' &&
		"$ctl" pool show main >"$tmp/said" || return
	# The JSON's names and numbers, and the table's.
	sed 's/.*"counters":{\([^}]*\)}.*/\1/; s/[",]/\n/g; s/://g' "$tmp/json" |
		sed '/^$/d' | paste - - | tr '\t' ' ' | sort >"$tmp/a"
	sed 1d "$tmp/said" | tr -s ' ' | sort >"$tmp/b"
	diff "$tmp/a" "$tmp/b" && awk -v all="$(value reclaims)" \
		-v pages="$(value pages)" -v free="$(value free_pages)" '
		{ n[$1] = $2 }
		/^waits_/ { ended += $2 }
		/^wait_(below|longer)/ { timed += $2; buckets++ }
		/^reclaims_/ && !/volatile/ { reclaims += $2 }
		END { exit !(n["allocs"] - n["frees"] == pages - free &&
			     ended == timed && buckets == 15 &&
			     reclaims == all && NR == 40) }' "$tmp/b" &&
		refuses 1 'pool "x"' "name one of main" pool show x
}
grant_refusals()
{
	refuses 1 "tenant a, grant to a" "name two" \
		tenant grant a a --rights lookup &&
		refuses 1 'tenant "c"' "tenant ls" \
			tenant grant a c --rights lookup &&
		refuses 2 "--rights \"all\"" "lookup,publish" \
			tenant grant a b --rights all &&
		refuses 2 "--hold \"-1\"" "whole number" \
			tenant grant a b --rights lookup --hold=-1 &&
		refuses 2 "give --rights" "LIST" tenant grant a b
}
# More tenants than one reply has; each once, in one moment.
many_tenants()
{
	i=0
	while [ $i -lt 66 ]; do
		"$ctl" tenant create "many-$i" >/dev/null || return
		i=$((i + 1))
	done
	has tenant ls = '"name":"many-0"' '"name":"many-65"' || return
	[ "$(grep -o '"name":"[^"]*"' "$tmp/json" | sort -u | wc -l)" -eq 68 ] &&
		[ "$(value seq)" = "$(value seq_last)" ] || return
	while [ $i -gt 0 ]; do
		i=$((i - 1))
		"$ctl" tenant rm "many-$i" >/dev/null || return
	done
	[ "$("$ctl" tenant ls | wc -l)" -eq 3 ]
}

# ---- a client ------------------------------------------------------------

# A chat that waits for its next line, with pages of tenant a.
chat_begins()
{
	mkfifo "$tmp/line" || return
	"$run" -m "$refs/tiny-mha-f16.gguf" --tenant a --chat -n 8 \
		<"$tmp/line" >"$tmp/chat" 2>&1 &
	chat=$!
	echo "$chat" >"$tmp/pid"
	# Held open by one that ends with the test.
	sleep 600 >"$tmp/line" &
	echo $! >"$tmp/holder"
	echo "Who owns a page?" >"$tmp/line"
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		has ps = "\"pid\":$chat" '"comm":"kvcache-run"' \
			'"tenant":"a"' && [ "$(value private_pages)" -gt 0 ] &&
			return
		sleep 0.5
	done
	cat "$tmp/chat"
	return 1
}
shows_pages()
{
	has ps = '"tenant":"a"' || return
	held=$(value private_pages)
	client=$(value id)
	has page ls --state private = "\"client\":$client" '"tenant":"a"' ||
		return
	[ "$(grep -o '"page":' "$tmp/json" | wc -l)" -eq "$held" ] || return
	page=$(value page)
	handle=$(value handle | tr -d '"')
	has page show "$page" = "\"handle\":\"$handle\"" &&
		has page show "$handle" = "\"page\":$page" &&
		has tenant ls = "\"current_pages\":$held" &&
		[ "$("$ctl" page ls | wc -l)" -eq $((held + 1)) ] &&
		[ "$("$ctl" ps -t b | wc -l)" -eq 1 ]
}
page_refusals()
{
	refuses 1 "page 128: it is free" "page ls" page show 128 &&
		refuses 1 "page 129: pool main has 128 pages" "up to that" \
			page show 129 &&
		refuses 1 "went to somebody else" "its handle is" \
			page show "$(printf '0xffff%08x' "$page")" || return
	for v in '' 0 -1 x 4294967296 0x 0x1 0xz 0x1000000010000000000; do
		[ -z "${few:-}" ] || [ "$v" != x ] || break
		refuses 2 "page \"$v\"" "0x10000000c" page show -- "$v" || return
	done
	refuses 2 "--state \"used\"" "private" page ls --state used
}
# The chat may still be at work, and the ledger count what it does.
all_but_the_count()
{
	state | sed 's/"seq[_a-z]*":[0-9]*,//g'
}
in_use()
{
	all_but_the_count >"$tmp/before"
	refuses 1 "tenant a" "kvcachectl ps" tenant rm a &&
		refuses 1 "pool main" "pool drain" pool rm main || return
	all_but_the_count >"$tmp/after"
	diff "$tmp/before" "$tmp/after" && grep -q '"name":"a"' "$tmp/after"
}
# What another client publishes.
event()
{
	"$ctl" events -t a --json --timeout 60s >"$tmp/events" 2>&1 &
	waits=$!
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		has ps = '"comm":"kvcachectl"' && break
		sleep 0.5
	done
	# Its queue begins with its first call after that, some moment.
	i=0
	while kill -0 $waits 2>/dev/null && [ $i -lt 20 ]; do
		i=$((i + 1))
		"$run" -m "$refs/tiny-mha-f16.gguf" --tenant a -q -n 2 \
			-p "another $i" || return
	done
	wait $waits || { cat "$tmp/events"; return 1; }
	cat "$tmp/events"
	grep -q '"type":"published"' "$tmp/events" &&
		grep -q '"key":"[0-9a-f]\{64\}"' "$tmp/events"
}
# It waits as a client of the tenant, so the ledger's number goes on.
no_event()
{
	"$ctl" events -t a --timeout 50ms >"$tmp/said" 2>"$tmp/err"
	got=$?
	cat "$tmp/said" "$tmp/err"
	[ $got -eq 1 ] && [ ! -s "$tmp/said" ] &&
		grep -q "none in --timeout 50ms: wait longer" "$tmp/err"
}
# Until it is interrupted, which is no failure.
events_until_interrupted()
{
	"$ctl" events -t a --follow --json >"$tmp/events" 2>&1 &
	waits=$!
	i=0
	while [ $i -lt 20 ]; do
		i=$((i + 1))
		"$run" -m "$refs/tiny-mha-f16.gguf" --tenant a -q -n 2 \
			-p "interrupted $i" || return
		[ "$(grep -c published "$tmp/events")" -ge 2 ] && break
	done
	kill -s TERM $waits
	wait $waits || return
	cat "$tmp/events"
	[ "$(grep -c published "$tmp/events")" -ge 2 ]
}
cached_and_flushed()
{
	kill "$(cat "$tmp/holder")"
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		has ps = '"pool":"main"' &&
			! grep -q kvcache-run "$tmp/json" && break
		sleep 0.5
	done
	has pool ls = '"private_pages":0' || return
	cached=$(value cached_pages)
	[ "$cached" -gt 0 ] && has tenant ls = "\"cached_pages\":$cached" &&
		has tenant flush a = "\"pages\":$cached" &&
		has tenant flush a --pool main = '"pages":0' &&
		has pool ls = '"cached_pages":0' '"free_pages":128'
}
resized_and_drained()
{
	has pool set main --size 4M = '"pages":64' &&
		has pool set main --size 8M = '"pages":128' &&
		has pool drain main = '"pages":128' &&
		has pool ls = '"draining":true' &&
		has pool drain main --resume = '"pages":128' &&
		has pool ls = '"draining":false'
}
nothing_is_left()
{
	"$ctl" tenant rm a && "$ctl" tenant rm b && "$ctl" pool rm main &&
		has pool ls = '"pools":[]' &&
		refuses 1 "there is no pool" "pool create" tenant ls
}

ctl_tests()
{
	check "a pool" pools
	check "pools that are refused" unchanged pool_refusals
	check "tenants" tenants
	check "tenants that are refused" unchanged tenant_refusals
	check "values that are refused" unchanged bad_values
	check "names that are refused" unchanged bad_names
	check "limits of less than a page" unchanged less_than_a_page
	check "a change changes what is given" only_what_is_given
	check "grants" grants
	check "counters" counters
	[ -n "${few:-}" ] ||
		check "more tenants than a reply has" many_tenants
	if [ -x "$run" ]; then
		check "a client and its pages" chat_begins
		check "pages, by number and handle" shows_pages
		page=$("$ctl" page ls --json | grep -o '"page":[0-9]*' |
			sed 's/.*://; q')
		check "pages that are refused" page_refusals
		check "what is in use stays" in_use
		check "an event" event
		check "no event in time" no_event
		[ -n "${few:-}" ] || check "events until interrupted" \
			events_until_interrupted
		check "what was cached is given up" cached_and_flushed
		check "counters after that" counters
	else
		skip "a client and its pages" "no $run"
	fi
	check "a pool grows, shrinks and drains" resized_and_drained
	check "nothing is left" nothing_is_left
}
