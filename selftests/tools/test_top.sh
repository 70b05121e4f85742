#!/bin/sh
# SPDX-License-Identifier: MIT
#
# kvcachetop on a broker: frames for logs, and screens of a terminal, with the
# numbers that kvcachectl has. What needs no terminal is in test_top.c.
. "$(dirname "$0")/../broker/broker.sh"
top=$build/kvcachetop
if [ ! -x "$top" ] || [ ! -x "$build/kvcachectl" ] ||
		[ ! -x "$build/kvcache-broker" ]; then
	skip "kvcachetop" "no $top, kvcachectl or kvcache-broker"
	tap_end
fi
export KVCACHE="$socket"
unset COLUMNS NO_COLOR
. "$root/selftests/tools/ctl_kit.sh"

# says STATUS WORDS REMEDY ARGUMENT...: one line of complaint, with both.
says()
{
	status=$1 words=$2 remedy=$3
	shift 3
	"$top" "$@" >"$tmp/said" 2>"$tmp/err" </dev/null
	got=$?
	cat "$tmp/said" "$tmp/err"
	[ "$got" -eq "$status" ] && [ ! -s "$tmp/said" ] &&
		[ "$(wc -l <"$tmp/err")" -eq 1 ] &&
		grep -q "^kvcachetop: " "$tmp/err" &&
		grep -q -F -e "$words" "$tmp/err" &&
		grep -q -F -e "$remedy" "$tmp/err"
}
command_line()
{
	for v in '' 0 -1 x 1.5 18446744073709551616; do
		says 2 "--frames \"$v\"" "whole number" -b -n "$v" || return
	done
	for v in '' 0 -1 x 3601 nan; do
		says 2 "--delay \"$v\"" "from 0.1 to 3600" -d "$v" || return
	done
	says 2 '--sort "colour"' "used, wait" -s colour &&
		says 2 '--width "77"' "78 to 500" --width 77 &&
		says 2 "--bogus: no option" "--help" --bogus &&
		says 2 "-n: give a value" "value" -b -n &&
		says 2 "x is too much" "options only" x &&
		says 2 "--frames" "give --batch, too" -n 1 &&
		says 2 '--tenant ""' "name of a tenant" -t '' &&
		says 1 "$tmp/none" "modprobe kvcache" -b --device "$tmp/none" &&
		says 1 '"local"' "name a device" -b --device local &&
		says 1 "no terminal" "--batch"
}

broker_start --pool main=8M,page=64K --pool other=4M,page=64K \
	--tenant a,min=1M,low=2M,max=3M --tenant b --tenant c,low=512K,max=25% ||
	{ check "a broker" false; tap_end; }
check "a command line that is wrong" command_line

# Who waits as a client, and pages that are cached.
load()
{
	for t in a b; do
		"$run" -m "$refs/tiny-mha-f16.gguf" --tenant $t -q -n 80 \
			-p "a prompt of $t" >/dev/null || return
	done
}
waits_for_events()
{
	"$ctl" events -t c --timeout 300s >/dev/null 2>&1 &
	echo $! >"$tmp/waits"
	within 20 sh -c "'$ctl' ps | grep -q kvcachectl"
}
[ ! -x "$run" ] || check "something to show" load
waits_for_events

lists()
{
	"$ctl" pool ls --json >"$tmp/pools" &&
		"$ctl" tenant ls --json >"$tmp/tenants" &&
		"$ctl" ps --json >"$tmp/ps"
}
# agrees ROWS COLUMNS SCREEN: whole, and what kvcachectl says.
agrees()
{
	lists && python3 "$root/selftests/tools/top_screen.py" "$1" "$2" \
		"$tmp/pools" "$tmp/tenants" "$tmp/ps" <"$3" && return
	cat "$3"
	return 1
}

# ---- frames -----------------------------------------------------------------

frames()
{
	for width in 80 120 200; do
		"$top" -b -n 1 --pages --width $width >"$tmp/frame" &&
			agrees 1000 $width "$tmp/frame" || return
	done
	COLUMNS=100 "$top" -b -n 1 --pages >"$tmp/frame" &&
		agrees 1000 100 "$tmp/frame"
}
several_frames()
{
	"$top" --batch --frames 3 --delay 0.1 >"$tmp/frames" || return
	cat "$tmp/frames"
	[ "$(grep -c '^kvcachetop  broker ' "$tmp/frames")" -eq 3 ] &&
		[ "$(grep -c '^$' "$tmp/frames")" -ge 3 ] &&
		[ "$(grep -c 'lookups -/s' "$tmp/frames")" -eq 1 ] &&
		[ "$(grep -c 'lookups 0/s' "$tmp/frames")" -eq 2 ]
}
until_interrupted()
{
	: >"$tmp/frames"
	"$top" -b -d 0.1 >"$tmp/frames" &
	frames=$!
	within 20 sh -c "[ \$(grep -c '^kvcachetop' '$tmp/frames') -ge 2 ]"
	kill $frames
	wait $frames
}
sorted()
{
	"$top" -b -n 1 -s -tenant -f main | sed -n '/^TENANT/,/^CLIENT/p' |
		sed -n 's/^\([abc]\) .*/\1/p' | tr -d '\n' >"$tmp/order"
	cat "$tmp/order"
	[ "$(cat "$tmp/order")" = cba ] || return
	"$top" -b -n 1 -s max -f main | sed -n '/^TENANT/,/^CLIENT/p' |
		sed -n 's/^\([abc]\) .*/\1/p' | tr -d '\n' >"$tmp/order"
	cat "$tmp/order"
	[ "$(cat "$tmp/order")" = bac ] || return
	! "$top" -b -n 1 -f other | grep -q '^[abc]  *main'
}
# A broker that ends and one that takes its place.
comes_back()
{
	"$broker2" --socket "$tmp/two" --pool small=1M,page=64K \
		>/dev/null 2>&1 &
	second=$!
	within 20 [ -S "$tmp/two" ]
	: >"$tmp/gone"
	: >"$tmp/frames"
	"$top" -b -d 0.1 --device "$tmp/two" >"$tmp/frames" 2>"$tmp/gone" &
	frames=$!
	within 20 grep -q '^small' "$tmp/frames" && kill -s KILL $second &&
		within 20 grep -q '^kvcachetop: ' "$tmp/gone" || return
	"$broker2" --socket "$tmp/two" --pool large=2M,page=64K \
		>/dev/null 2>&1 &
	second=$!
	within 20 grep -q '^large' "$tmp/frames"
	ret=$?
	cat "$tmp/gone"
	kill $frames $second
	wait $frames && return $ret
}
# Frames that were printed are counted, not looks that failed.
counts_frames()
{
	"$broker2" --socket "$tmp/two" --pool small=1M,page=64K \
		>/dev/null 2>&1 &
	second=$!
	within 20 [ -S "$tmp/two" ]
	: >"$tmp/gone"
	: >"$tmp/frames"
	"$top" -b -n 3 -d 0.1 --device "$tmp/two" >"$tmp/frames" \
		2>"$tmp/gone" &
	frames=$!
	within 20 grep -q '^small' "$tmp/frames" && kill -s KILL $second &&
		within 20 eval '[ "$(grep -c "^kvcachetop: " "$tmp/gone")" -gt 3 ]' ||
		return
	"$broker2" --socket "$tmp/two" --pool small=1M,page=64K \
		>/dev/null 2>&1 &
	second=$!
	wait $frames && [ "$(grep -c '^small' "$tmp/frames")" -eq 3 ]
	ret=$?
	kill $second
	return $ret
}
broker2=$build/kvcache-broker
if needs python3; then
	check "frames say what kvcachectl says" frames
else
	skip "frames say what kvcachectl says" "no python3"
fi
check "several frames" several_frames
check "frames until interrupted" until_interrupted
check "sorted and filtered" sorted
check "a broker that comes back" comes_back
check "as many frames as were asked for" counts_frames

# ---- a terminal ---------------------------------------------------------------

tm()
{
	tmux -S "$tmp/tmux" -f /dev/null "$@"
}
# starts COLUMNS ROWS COMMAND: on such a terminal, once the last one is gone.
starts()
{
	tm kill-server 2>/dev/null
	within 10 ended
	within 10 tm new-session -d -s top -x "$1" -y "$2" "$3"
}
# opens COLUMNS ROWS [ARGUMENT]...: kvcachetop.
opens()
{
	x=$1 y=$2
	shift 2
	starts "$x" "$y" "exec '$top' --pages -d 0.2 $*" &&
		within 10 sees '^kvcachetop  broker'
}
screen()
{
	tm capture-pane -p >"$tmp/screen"
}
sees()
{
	screen && grep -q -e "$1" "$tmp/screen"
}
shows()
{
	within 10 sees "$1" && return
	cat "$tmp/screen"
	return 1
}
# A screen is drawn while it is looked at: soon one is whole.
whole()
{
	screen && agrees "$2" "$1" "$tmp/screen" >"$tmp/why" 2>&1
}
is_whole()
{
	# Each look takes far more than the pause after it.
	within 2 whole "$1" "$2" && return
	cat "$tmp/why" "$tmp/screen"
	return 1
}
ended()
{
	! tm ls >/dev/null 2>&1
}
quits()
{
	tm send-keys q && within 10 ended
}
of_size()
{
	opens "$1" "$2" && is_whole "$1" "$2" &&
		shows 'q quit  h help' && quits
}
resizes()
{
	opens 80 24 && is_whole 80 24 &&
		tm resize-window -x 132 -y 30 && shows 'MAXED/S' &&
		is_whole 132 30 && tm resize-window -x 30 -y 8 &&
		shows 'needs 78x10' && tm resize-window -x 80 -y 24 &&
		is_whole 80 24 && quits
}
# Selected by the filter, changed by keys, after a question.
changes()
{
	opens 80 24 -f c && tm send-keys M && shows '^max of c' || return
	tm send-keys -l 1M
	tm send-keys Enter
	shows '^set max of c from 32 to 16? y or n' || return
	tm send-keys n
	shows 'nothing was changed' && has tenant ls = '"name":"c"' &&
		[ "$(max_of_c)" = 32 ] || return
	tm send-keys M
	tm send-keys -l 1M
	tm send-keys Enter y
	shows '^c: set' && [ "$(max_of_c)" = 16 ] &&
		shows '^c  *main .* 16 ' || return
	# What was not asked for is as it was.
	has tenant ls --pool main = \
		'"min_pages":0,"low_pages":8,"max_pages":16' || return
	tm send-keys M
	tm send-keys -l 10X
	tm send-keys Enter
	shows '"10X": give a size' && [ "$(max_of_c)" = 16 ] && quits
}
# Who has the number now is not who was asked about.
others_number()
{
	"$broker2" --socket "$tmp/two" --pool main=1M,page=64K \
		--tenant alpha,max=512K --tenant beta,max=512K >/dev/null 2>&1 &
	second=$!
	within 20 [ -S "$tmp/two" ] &&
		opens 80 24 --device "$tmp/two" -f alpha && tm send-keys M &&
		tm send-keys -l 64K && tm send-keys Enter &&
		shows '^set max of alpha from 8 to 1? y or n' || return
	kill -s KILL $second
	wait $second
	"$broker2" --socket "$tmp/two" --pool main=1M,page=64K \
		--tenant beta,max=512K --tenant alpha,max=512K \
		--tenant gamma >/dev/null 2>&1 &
	second=$!
	shows '^tenants 3' && tm send-keys y &&
		shows '^alpha: this tenant is gone' && quits
	ret=$?
	KVCACHE=$tmp/two "$ctl" tenant ls --json >"$tmp/limits"
	kill $second
	cat "$tmp/limits"
	[ $ret -eq 0 ] && ! tr '}' '\n' <"$tmp/limits" |
		grep '"name":"beta"' | grep '"max_pages":1,'
}
max_of_c()
{
	"$ctl" tenant ls --pool main --json |
		sed 's/.*"name":"c"[^}]*"max_pages":\([0-9]*\).*/\1/'
}
keys()
{
	opens 80 24 && tm send-keys h && shows 'Up Down  ' &&
		tm send-keys h && shows '^TENANT' && tm send-keys / &&
		shows '^filter: _' && tm send-keys -l other &&
		tm send-keys Enter && shows 'only "other"' && ! sees '^a  *main' &&
		tm send-keys / BSpace BSpace BSpace BSpace BSpace Enter &&
		shows '^a  *main' && tm send-keys u && shows '8M ' &&
		tm send-keys + && shows 'every 0.4 s' && quits
}
# Letters tell everything: the same screen with colours and without.
background()
{
	tm capture-pane -p -e | grep -q "$(printf '\033')\[[0-9;]*4[0-7][;m]"
}
colours()
{
	opens 80 24 --no-color && ! background && is_whole 80 24 && quits &&
		opens 80 24 && background && is_whole 80 24 && quits || return
	starts 80 24 \
		"exec env TERM=vt100 '$top' --pages -d 0.2" &&
		within 10 sees '^kvcachetop  broker' && ! background &&
		is_whole 80 24 && quits
}
unknown_terminal()
{
	starts 80 24 \
		"TERM=no-such '$top' 2>'$tmp/err'; echo \$? >'$tmp/status'" &&
		within 20 [ -s "$tmp/status" ] && cat "$tmp/err" &&
		[ "$(cat "$tmp/status")" = 1 ] &&
		grep -q 'TERM "no-such".*--batch' "$tmp/err"
}
if ! needs tmux || ! needs python3; then
	skip "kvcachetop on a terminal" "no tmux, or no python3"
else
	for size in "80 24" "200 50" "78 10"; do
		# shellcheck disable=SC2086 # two words
		check "a terminal of $size" of_size $size
	done
	check "a terminal that is resized" resizes
	check "a limit that is changed by keys" changes
	check "a limit of one whose number another has" others_number
	check "keys" keys
	check "with colours and without" colours
	check "a terminal that is not known" unknown_terminal
	tm kill-server 2>/dev/null
fi

# ---- as a user ------------------------------------------------------------------

may_not()
{
	$as "$tmp/kvcachetop" -b -n 1 >"$tmp/said" 2>"$tmp/err"
	got=$?
	cat "$tmp/said" "$tmp/err"
	[ $got -eq 1 ] && grep -q "user 65534 is of no tenant" "$tmp/err" ||
		return
	"$ctl" tenant create nobodys --owner 65534 >/dev/null &&
		$as "$tmp/kvcachetop" -b -n 1 -t nobodys >"$tmp/said" &&
		cat "$tmp/said" && grep -q '^nobodys ' "$tmp/said" &&
		! grep -q '^[abc] ' "$tmp/said" || return
	$as "$tmp/kvcachetop" -b -n 1 -t a 2>&1 | grep "user 65534 is no member"
}
if [ "$(id -u)" -eq 0 ] && needs setpriv && cp "$top" "$tmp/kvcachetop"; then
	chmod 755 "$tmp" && chmod 666 "$socket"
	as="setpriv --reuid 65534 --regid 65534 --clear-groups"
	check "a user sees its own tenant" may_not
else
	skip "a user sees its own tenant" "needs root, and setpriv"
fi

# ---- many ---------------------------------------------------------------------

many()
{
	set -- --pool many=64M,page=64K
	i=0
	while [ $i -lt 1000 ]; do
		i=$((i + 1))
		set -- "$@" --tenant "tenant-$i,max=$((i * 64))K"
	done
	broker_start "$@" || return
	"$top" -b -n 1 --pages >"$tmp/frame" && lists || return
	[ "$(grep -c '^tenant-' "$tmp/frame")" -eq 1000 ]
}
kill "$(cat "$tmp/waits")"
broker_stop
check "a thousand tenants" many
tap_end
