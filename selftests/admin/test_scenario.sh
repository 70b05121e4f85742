#!/bin/sh
# SPDX-License-Identifier: MIT
# timeout: 240
#
# Two kvcache-run of two tenants under load, and whoever administers them:
# kvcachectl, kvcachetop, kvcachefs, metrics and, on the module, sysfs say the
# same in one moment, a change by any of them is seen in all, and the load ends with the text
# that it has alone.
. "$(dirname "$0")/../scenarios/kit.sh"
# Others are below the script's folder in a machine of its own, too.
. "$(dirname "$0")/views.sh"
export LC_ALL=C
unset COLUMNS NO_COLOR
mnt=$tmp/mnt
pool_name=scenario
views="ctl"

why=
[ -x "$build/kvcachefs" ] || why="no $build/kvcachefs: needs libfuse3-dev"
[ -c /dev/fuse ] || why="no /dev/fuse"
[ "$(id -u)" -eq 0 ] || why="needs root, to mount"
[ -x "$build/kvcache-run" ] || why="no $build/kvcache-run"
if [ -n "$why" ]; then
	skip "administration under load" "$why"
	tap_end
fi

tm()
{
	tmux -S "$tmp/tmux" -f /dev/null "$@"
}
# What is mounted is not to be removed: a folder there is a tenant.
end()
{
	touch "$tmp/enough"
	tm kill-server 2>/dev/null
	[ ! -e "$tmp/waits" ] || kill "$(cat "$tmp/waits")" 2>/dev/null
	for p in one two; do
		kill -s CONT "$(pid_of $p)" 2>/dev/null
	done
	umount "$mnt" 2>/dev/null || umount -l "$mnt" 2>/dev/null
	leave
	grep -q " $mnt " /proc/mounts || rm -rf "$tmp"
}
if [ -n "$real" ]; then
	place 20M 1M
	options="--parallel 4" length=40
else
	place 1280K 64K
	options="--parallel 4 --kv f32" length=90
fi
# In a machine that is emulated everything takes long.
[ -e /etc/plan ] && slow=1 length=30 || slow=
# Eight conversations of it want more pages than there are.
words='keys and values live in pages, and every page has one owner at a time.'
[ -z "$real" ] || words="$words $words $words"
trap end EXIT
trap 'exit 141' PIPE
mkdir "$mnt"
# The pool, in bytes.
size=$((${pool_page%[KM]} * 20 * 1024))
[ -z "$real" ] || size=$((size * 1024))

"$build/kvcachefs" -f -d "$where" "$mnt" >"$tmp/fs.log" 2>&1 &
fs=$!
check "kvcachefs is mounted" until_true test -d "$mnt/tenants"
[ -x "$top" ] && views="$views top"
views="$views fs metrics"
[ -x "$build/kvcache-exporter" ] && views="$views exporter"
[ ! -d "$sysfs" ] || [ -n "$broker_pid" ] || views="$views sysfs"
echo "# views: $views"

# ---- the load ---------------------------------------------------------------

# request ID: a conversation. Of what was said, ids of the tokens.
request()
{
	printf '{"id":"%s","prompt":"%s %s","max_tokens":%d}\n' "$1" "$1" \
		"$words" "$length"
}
pairs()
{
	sed -n 's/.*"id":"\([abcd]\)".*"ids":\(\[[^]]*\]\).*/\1 \2/p' "$1"
}
alone()
{
	for id in a b c d; do
		request $id
	done >"$tmp/requests"
	# shellcheck disable=SC2086 # a list of options
	solo $options --ignore-end --requests "$tmp/requests" -q \
		--jsonl="$tmp/solo" || return
	pairs "$tmp/solo" | sort >"$tmp/right"
	cat "$tmp/right"
	[ "$(wc -l <"$tmp/right")" -eq 4 ]
}
# Both always have something to do, until it is enough: who has answered almost
# all gets another round.
feed()
{
	echo 0 | tee "$tmp/one.sent" >"$tmp/two.sent"
	while [ ! -e "$tmp/enough" ]; do
		for p in one two; do
			sent=$(cat "$tmp/$p.sent")
			[ $((sent - $(wc -l <"$tmp/$p.out"))) -lt 9 ] || continue
			echo $((sent + 4)) >"$tmp/$p.sent"
			case $p in
			one)	cat "$tmp/requests" >&8 ;;
			two)	cat "$tmp/requests" >&9 ;;
			esac
		done
		sleep 0.1
	done
}
has_more()
{
	[ "$(wc -l <"$tmp/one.out")" -gt "$1" ] &&
		[ "$(wc -l <"$tmp/two.out")" -gt "$2" ]
}
# It is at work: in both are more answers than there were.
goes_on()
{
	until_true has_more "$(wc -l <"$tmp/one.out")" \
		"$(wc -l <"$tmp/two.out")" || {
		cat "$tmp/one.log" "$tmp/two.log"
		return 1
	}
}
check "the text of each conversation alone" alone
check "tenants are made" sh -c "mkdir '$mnt/tenants/red' &&
	'$build/kvcachectl' -d '$where' tenant create blue --max 90% --min 10%"
# shellcheck disable=SC2086 # a list of options
begin one --tenant red --ignore-end $options
# shellcheck disable=SC2086 # a list of options
begin two --tenant blue --ignore-end $options
feed &
feeder=$!
check "both are at work" goes_on

# ---- while everything moves --------------------------------------------------

# One reply of each view: the parts of the pool are the whole of it, and where
# all is of one moment, what the tenants have is what is not free.
sum_up()
{
	awk -v size="$size" -v whole="$2" '
	$1 == "pool" && $3 ~ /^(free|private|shared|cached|retiring)$/ {
		pool += $4
		if ($3 == "free")
			free = $4
	}
	$1 == "pool" && $3 == "size" { said = $4 }
	$1 == "tenant" && $4 == "current" { used += $5 }
	END {
		if (pool != size || said != size || whole && used != size - free) {
			printf "parts %.0f of %.0f, tenants %.0f, free %.0f\n",
				pool, said, used, free
			exit 1
		}
	}' "$1"
}
seq_now()
{
	ctl pool ls --json | sed -n 's/^{"seq":\([0-9]*\),.*/\1/p'
}
# Of kvcachectl each list is a process of its own, of kvcachefs each file an
# open: what is between two looks at the number is of one moment if that stands.
moving_ctl()
{
	before=$(seq_now) && view_ctl >"$tmp/look" && after=$(seq_now) &&
		[ -n "$before" ] || return
	whole=$([ "$before" = "$after" ] && echo 1)
	sum_up "$tmp/look" "$whole"
}
moving_top()
{
	view_top >"$tmp/look" || return
	whole=$(grep -q '^kvcachetop .* seq [0-9]*  ' "$tmp/frame" && echo 1)
	sum_up "$tmp/look" "$whole" || { cat "$tmp/frame"; return 1; }
}
# One process that opens all, and the ledger's number before and after; sysfs does
# not have that, and asking for it takes another process.
moving_fs()
{
	(
		cd "$mnt" && stamp=tenants/red/pages &&
			grep -H '' $stamp pools/*/* tenants/*/current $stamp
	) >"$tmp/all" || return
	lines_of_files
	whole=$(sed -n 's/^tenants.*:# seq //p' "$tmp/all" | uniq | wc -l)
	[ "$whole" -eq 1 ] || whole=
	[ -z "$whole" ] || sum_up "$tmp/look" 1
}
moving_sysfs()
{
	before=$(seq_now) && (
		cd "$sysfs" && grep -H '' pools/*/* tenants/*/current
	) >"$tmp/all" && after=$(seq_now) || return
	lines_of_files
	whole=$([ "$before" = "$after" ] && echo 1)
	[ -z "$whole" ] || sum_up "$tmp/look" 1
}
# Whoever had no moment counts that.
last_count=0
count_is_new()
{
	n_now=$(sed -n 's/^kvcache_inconsistent_looks_total //p' "$tmp/metrics")
	whole=$([ "$n_now" = "$1" ] && echo 1)
	last_count=$n_now
}
moving_metrics()
{
	view_metrics >"$tmp/look" && count_is_new "$last_count" &&
		sum_up "$tmp/look" "$whole"
}
moving_exporter()
{
	view_exporter >"$tmp/look" && count_is_new 0 &&
		sum_up "$tmp/look" "$whole"
}
lines_of_files()
{
	awk -F '[/: ]' '
	$1 == "pools" { print "pool", $2, $3, $4 }
	$1 == "tenants" && $3 == "current" { print "tenant", $2, $4, $3, $5 }
	' "$tmp/all" >"$tmp/look"
}
# moving VIEW: many looks, some of which are of one moment.
moving()
{
	n=0 wholes=0 first=$(seq_now)
	while [ $n -lt "$looks" ]; do
		n=$((n + 1))
		"moving_$1" || { cat "$tmp/look"; return 1; }
		[ -z "$whole" ] || wholes=$((wholes + 1))
	done
	echo "$n $wholes $(($(seq_now) - first))" >"$tmp/looks-$1"
	# What stood still shows nothing.
	[ "$(seq_now)" -gt "$first" ]
}
looks=30
[ -z "$slow" ] || looks=2
view_ctl >"$tmp/ctl"
for v in $views; do
	check "$v while everything moves" moving "$v"
	read -r n wholes moved <"$tmp/looks-$v" && echo "# figure $v: $n looks" \
		"under load, $wholes of one moment; $moved changes meanwhile"
done

# ---- one frozen moment ---------------------------------------------------------

# While both hold pages: a small model is done with a round at once.
freeze()
{
	until_true frozen_at_work
}
frozen_at_work()
{
	stand_still && view_ctl >"$tmp/ctl" && at_work one && at_work two &&
		return
	thaw
	return 1
}
at_work()
{
	id=$(sed -n "s/^client \([0-9]*\) pid $(pid_of "$1")$/\1/p" "$tmp/ctl")
	grep -q "^client $id private [1-9]" "$tmp/ctl"
}
stand_still()
{
	kill -s STOP "$(pid_of one)" "$(pid_of two)" || return
	still=0 was=
	until [ "$still" -ge 3 ]; do
		is=$(seq_now)
		[ "$is" = "$was" ] && still=$((still + 1)) || still=0
		was=$is
		sleep 0.1
	done
}
thaw()
{
	kill -s CONT "$(pid_of one)" "$(pid_of two)"
}
all_agree()
{
	before=$(seq_now) && view_ctl >"$tmp/ctl" || return
	for v in $views; do
		agrees "$v" || return
	done
	after=$(seq_now)
	[ "$before" = "$after" ] || echo "it has moved: $before, $after"
	[ "$before" = "$after" ] && sum_up "$tmp/ctl" 1 || return
	at_work one && at_work two
}
# A screen of kvcachetop: whole, and with the numbers of kvcachectl.
screen_agrees()
{
	tm capture-pane -p >"$tmp/screen" &&
		python3 "$root/selftests/tools/top_screen.py" "$2" "$1" \
			"$tmp/pools" "$tmp/tenants" "$tmp/ps" <"$tmp/screen" \
			>"$tmp/why" 2>&1
}
gone()
{
	! tm ls >/dev/null 2>&1
}
screen()
{
	within 10 gone || return
	ctl pool ls --json >"$tmp/pools" &&
		ctl tenant ls --json >"$tmp/tenants" &&
		ctl ps --json >"$tmp/ps" || return
	# One that is about to end takes nobody in.
	within 10 tm new-session -d -s top -x "$1" -y "$2" \
		"exec env TERM=$3 '$top' --pages -d 0.2 --device '$where'" ||
		return
	# Each look takes far more than the pause after it.
	within 2 screen_agrees "$1" "$2"
	ret=$?
	[ $ret -eq 0 ] || cat "$tmp/why" "$tmp/screen"
	tm kill-server
	return $ret
}
screens()
{
	for size in "80 24" "200 50"; do
		for term in screen vt100; do
			# shellcheck disable=SC2086 # two words
			screen $size $term || { echo "$size, $term"; return 1; }
		done
	done
}

# Tenant red is at its max, and one more process of it gets a page, but not the
# second one that it needs: the frozen one has the others.
has_waiter()
{
	view_ctl >"$tmp/ctl" && grep -q '^pool .* waiters 1$' "$tmp/ctl"
}
waits()
{
	ctl tenant flush red && view_ctl >"$tmp/ctl" || return
	has=$(sed -n 's/^tenant red .* current //p' "$tmp/ctl")
	page=$(sed -n 's/^pool .* page_size //p' "$tmp/ctl")
	echo $((has + page)) >"$mnt/tenants/red/max" || return
	# The process is the program itself.
	# shellcheck disable=SC2086 # a list of options
	(
		KVCACHE=$where exec "$build/kvcache-run" -m "$model" \
			--threads 1 --tenant red $options --parallel 1 \
			--ignore-end -n 60 -q -p e \
			>"$tmp/waits.log" 2>&1
	) &
	echo $! >"$tmp/waits"
	until_true has_waiter || { cat "$tmp/waits.log" "$tmp/ctl"; return 1; }
}
waiter_agrees()
{
	all_agree && has_waiter && grep '^tenant red .* waiters 1$' "$tmp/ctl" &&
		grep '^client .* waiting [1-9]' "$tmp/ctl"
}
waits_no_longer()
{
	echo max >"$mnt/tenants/red/max" && thaw && until_true waiter_ends
}
waiter_ends()
{
	! kill -0 "$(cat "$tmp/waits")" 2>/dev/null
}

freezes=3
[ -z "$slow" ] || freezes=1
round=0
while [ $round -lt $freezes ]; do
	round=$((round + 1))
	check "it stands still" freeze
	check "all views agree, moment $round" all_agree
	if [ $round -gt 1 ]; then
		:
	elif needs tmux && needs python3 && [ -x "$top" ]; then
		check "kvcachetop on terminals, too" screens
	else
		skip "kvcachetop on terminals, too" \
			"no tmux, python3 or kvcachetop"
	fi
	[ $round -lt $freezes ] || break
	thaw
	check "the load goes on" goes_on
done
check "one more process waits" waits
check "all views agree on that" waiter_agrees
check "it waits no longer" waits_no_longer

# ---- changes, by each of them ----------------------------------------------------

limit_by_file()
{
	echo 64M >"$mnt/tenants/red/max" &&
		shows "tenant red scenario max 67108864" &&
		echo "scenario max" >"$mnt/tenants/red/max" &&
		shows "tenant red scenario max max"
}
limit_by_ctl()
{
	ctl tenant set red --low 10% &&
		shows "tenant red scenario low $((size / 10))" &&
		ctl tenant set red --low 0
}
limit_by_sysfs()
{
	echo 128K >"$sysfs/tenants/red/min" &&
		shows "tenant red scenario min 131072" &&
		echo 0 >"$sysfs/tenants/red/min" &&
		shows "tenant red scenario min 0"
}
made()
{
	mkdir "$mnt/tenants/green" &&
		shows "tenant green scenario max max" &&
		rmdir "$mnt/tenants/green" && lacks "tenant green"
}
check "echo 64M >max" limit_by_file
check "kvcachectl tenant set --low" limit_by_ctl
case $views in
*sysfs*)	check "echo >min in sysfs" limit_by_sysfs ;;
esac
check "mkdir and rmdir" made
check "and the load goes on" goes_on

# ---- the end -------------------------------------------------------------------

touch "$tmp/enough"
wait $feeder
for p in one two; do
	stop $p
	check "$p ends" test "$stopped" -eq 0
done
right()
{
	for p in one two; do
		pairs "$tmp/$p.out" | sort -u >"$tmp/got"
		diff "$tmp/right" "$tmp/got" &&
			[ "$(pairs "$tmp/$p.out" | wc -l)" -ge 8 ] || return
	done
}
check "with the text that each has alone" right
echo "# figure load: $(wc -l <"$tmp/one.out") and $(wc -l <"$tmp/two.out")" \
	"conversations"
umount "$mnt"
wait $fs
check "kvcachefs is unmounted, and ends" test $? -eq 0
place_end
