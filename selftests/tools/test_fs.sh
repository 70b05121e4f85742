#!/bin/sh
# SPDX-License-Identifier: MIT
# timeout: 120
#
# kvcachefs, mounted on a backend of the test's own: everything it shows is what
# kvcachectl shows, and everything it refuses has changed nothing. It runs on a
# broker, and with $KVCACHE_TEST_DEVICE on the module.
. "$(dirname "$0")/../scenarios/kit.sh"
fs=$build/kvcachefs
mnt=$tmp/mnt
export LC_ALL=C

why=
[ -x "$fs" ] || why="no $fs: needs libfuse3-dev"
[ -c /dev/fuse ] || why="no /dev/fuse"
[ "$(id -u)" -eq 0 ] || why="needs root"
if [ -n "$why" ]; then
	skip "kvcachefs" "$why"
	tap_end
fi

unmount()
{
	umount "$1" 2>/dev/null || fusermount3 -u "$1" 2>/dev/null ||
		umount -l "$1"
}
mounts()
{
	grep -F " $tmp/" /proc/mounts | cut -d' ' -f2
}
# What is mounted is not to be removed: a folder there is a tenant.
end()
{
	[ -z "$chat" ] || kill "$chat" 2>/dev/null
	for m in $(mounts); do
		unmount "$m"
	done
	leave
	[ -n "$(mounts)" ] || rm -rf "$tmp"
}
chat=
place 16M 64K
serves=${broker_pid:-${broker:-}}
trap end EXIT
trap 'exit 141' PIPE
mkdir "$mnt"
# Others must get there, and to what they run.
chmod 755 "$tmp"
cp "$fs" "$build/kvcachectl" "$tmp/"

# A user of no name, or in a machine that is thrown away one that has.
if [ -e /etc/plan ]; then
	echo 'somebody:x:65534:65534::/:/bin/sh' >>/etc/passwd
	chmod 666 /dev/kvcache
else
	[ -n "${KVCACHE_TEST_DEVICE:-}" ] || chmod 666 "$where"
fi
user()
{
	if [ -e /etc/plan ]; then
		su somebody -c "$*"
	else
		setpriv --reuid 65534 --regid 65534 --clear-groups sh -c "$*"
	fi
}

state()
{
	ctl pool ls --json && ctl tenant ls --json
}
# unchanged COMMAND...: the ledger counts changes, and there were none.
unchanged()
{
	state >"$tmp/before" && "$@" && state >"$tmp/after" &&
		diff "$tmp/before" "$tmp/after"
}
# fails WORDS COMMAND...
fails()
{
	words=$1
	shift
	if "$@" >"$tmp/said" 2>&1; then
		echo "succeeds: $*"
		return 1
	fi
	grep -q -F -e "$words" "$tmp/said" ||
		{ echo "no \"$words\": $*"; cat "$tmp/said"; return 1; }
}
# is FILE TEXT
is()
{
	got=$(cat "$mnt/$1") || return
	[ "$got" = "$2" ] || { echo "$1: \"$got\" instead of \"$2\""; return 1; }
}
# member NAME TENANT: of what kvcachectl says of a tenant in the first pool.
member()
{
	ctl tenant ls --json | tr '{' '\n' | grep "\"name\":\"$2\"" |
		head -n 1 | sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p"
}
set_to()
{
	printf '%s' "$2" >"$mnt/$1"
}

# ---- what is there ---------------------------------------------------------

mounted()
{
	"$fs" -d "$where" "$mnt" && grep -q " $mnt fuse.kvcachefs " /proc/mounts
}
files()
{
	ctl tenant create red --max 8M --low 1M --ttl 1500ms || return
	(cd "$mnt" && find . | LC_ALL=C sort) >"$tmp/found"
	{
		echo .
		echo ./clients
		echo ./metrics
		for f in '' cached draining free page_size private retiring \
				shared size waiters; do
			echo "./pools/scenario${f:+/}$f"
		done
		echo ./pools
		for f in '' current events grants low max min owner pages peak \
				ttl; do
			echo "./tenants/red${f:+/}$f"
		done
		echo ./tenants
	} | LC_ALL=C sort >"$tmp/expected"
	diff "$tmp/expected" "$tmp/found"
}
values()
{
	is pools/scenario/page_size 65536 &&
		is pools/scenario/size 16777216 &&
		is pools/scenario/free 16777216 &&
		is pools/scenario/waiters 0 && is pools/scenario/draining 0 &&
		is tenants/red/current "scenario 0" &&
		is tenants/red/max "scenario 8388608" &&
		is tenants/red/low "scenario 1048576" &&
		is tenants/red/min "scenario 0" &&
		is tenants/red/ttl 1500ms && is tenants/red/owner "0:0 0400" &&
		is tenants/red/grants '' && is tenants/red/events \
			"scenario max=0 reclaim=0 revoke=0"
}
# What is read is what can be written.
limits()
{
	set_to tenants/red/max 64M && [ "$(member max_pages red)" = 1024 ] &&
		is tenants/red/max "scenario 67108864" &&
		set_to tenants/red/low "$(cat "$mnt/tenants/red/low")" &&
		[ "$(member low_pages red)" = 16 ] &&
		echo "scenario 25%" >"$mnt/tenants/red/low" &&
		[ "$(member low_pages red)" = 64 ] &&
		printf '\n 1.5M \n\n' >"$mnt/tenants/red/min" &&
		[ "$(member min_pages red)" = 24 ] &&
		set_to tenants/red/max max && is tenants/red/max "scenario max" &&
		[ "$(member max_pages red)" = null ] &&
		set_to tenants/red/ttl 2m && [ "$(member ttl_ns red)" = 120000000000 ] &&
		set_to tenants/red/ttl never && [ "$(member ttl_ns red)" = null ] &&
		set_to tenants/red/low 0 && ctl tenant set red --max 3M &&
		is tenants/red/max "scenario 3145728"
}
tenants()
{
	mkdir "$mnt/tenants/blue" && [ "$(member mode blue)" = '"0400"' ] &&
		[ "$(member uid blue)" = 0 ] && is tenants/blue/max "scenario max" &&
		fails "File exists" mkdir "$mnt/tenants/blue" &&
		rmdir "$mnt/tenants/blue" && [ -z "$(member uid blue)" ] &&
		fails "No such file" rmdir "$mnt/tenants/blue" &&
		ctl tenant create blue && is tenants/blue/owner "0:0 0400" &&
		ctl tenant rm blue && fails "No such file" ls "$mnt/tenants/blue"
}
# One moment: its lines are those of kvcachectl.
grants()
{
	ctl tenant create blue && ctl tenant create green &&
		ctl tenant grant red green --rights lookup --hold 5 &&
		ctl tenant grant red blue --rights lookup,publish &&
		ctl tenant grant blue red --rights publish &&
		is tenants/red/grants "blue lookup,publish max 0
green lookup 5 0" && is tenants/blue/grants "red publish max 0" &&
		is tenants/green/grants '' &&
		ctl tenant grant red blue --rights none &&
		is tenants/red/grants "green lookup 5 0" &&
		ctl tenant rm green && is tenants/red/grants '' &&
		ctl tenant rm blue
}
owners()
{
	chown 12:34 "$mnt/tenants/red" && is tenants/red/owner "12:34 0400" &&
		chmod 755 "$mnt/tenants/red" && is tenants/red/owner "12:34 0444" &&
		[ "$(stat -c '%u %g %a' "$mnt/tenants/red")" = "12 34 555" ] &&
		[ "$(member uid red)" = 12 ] && [ "$(member mode red)" = '"0444"' ] &&
		chown 0:0 "$mnt/tenants/red" && chmod 400 "$mnt/tenants/red" &&
		fails "not permitted" chmod 777 "$mnt/tenants/red/max"
}
# The exporter says the same; it is the text of one moment, and its reader's.
metrics()
{
	"$build/kvcache-exporter" -d "$where" --once --format openmetrics \
		>"$tmp/expected" && diff "$tmp/expected" "$mnt/metrics" &&
		[ "$(stat -c '%F %a' "$mnt/metrics")" = "regular file 400" ] &&
		[ "$(stat -c %s "$mnt/metrics")" -ge \
			"$(wc -c <"$tmp/expected")" ]
}
# What is open stays what it was; the next who opens it sees what is.
metrics_stay()
{
	{
		ctl tenant create other || return
		cat <&6 >"$tmp/found"
	} 6<"$mnt/metrics"
	diff "$tmp/expected" "$tmp/found" &&
		grep -q 'tenant="other"' "$mnt/metrics" && ctl tenant rm other &&
		! grep -q 'tenant="other"' "$mnt/metrics"
}
metrics_are_there()
{
	[ "$(tail -n 1 "$mnt/metrics")" = "# EOF" ] && grep -x -F \
		'kvcache_pool_size_bytes{pool="scenario"} 16777216' \
		"$mnt/metrics" && grep -x -F \
		'kvcache_tenant_max_bytes{tenant="red",pool="scenario"} 8388608' \
		"$mnt/metrics" && grep -q '^kvcache_pool_waits_total{' \
		"$mnt/metrics"
}
check "it is mounted" mounted
check "files" files
check "values" values
check "metrics" metrics_are_there
if [ -x "$build/kvcache-exporter" ]; then
	check "metrics, as of the exporter" metrics
	check "metrics of one moment" metrics_stay
else
	skip "metrics, as of the exporter" "no $build/kvcache-exporter"
fi
check "limits that are written" limits
check "tenants that are made and removed" tenants
check "what is granted" grants
check "owners and modes" owners

# ---- what is refused -------------------------------------------------------

# put FILE FORMAT: in one write, unless it is long.
put()
{
	# shellcheck disable=SC2059 # the format has the bytes
	printf -- "$2" | dd of="$mnt/tenants/$1" bs=64k
}
bad_limits()
{
	for v in '\n' ' ' -1 18446744073709551616 9223372036854775808 10X 0x10 \
			1e3 1.5 63K 101%% -5%% '64M\n64M' \
			'scenario' 'scenario ' 'scenario scenario 1M' '\0' '64M\0' '\377\376' \
			'\1\2\3\4\033[2J' "$(printf '%4000s' '')"; do
		# A machine that is emulated takes long for each.
		for f in max $([ -e /etc/plan ] || echo min low); do
			fails "Invalid argument" put red/$f "$v" || return
		done
	done
	fails "Invalid argument" put red/min max &&
		fails "Invalid argument" put red/min 4M &&
		fails "Invalid argument" put red/max 1M &&
		fails "No such file" put red/max 'other 64M' &&
		fails "No such file" put red/max '64M 5' || return
	for v in 0s 5 -1s 1y forever 18446744073709551616s 'scenario 5s' '\n'; do
		fails "Invalid argument" put red/ttl "$v" || return
	done
}
# A megabyte of one line, over and over.
flood()
{
	for line in '' 64M 'scenario 64M' "$(printf '\377')"; do
		yes "$line" | head -c 1000000 | dd of="$mnt/tenants/red/max" \
			bs=1000000 iflag=fullblock >"$tmp/said" 2>&1
		cat "$tmp/said"
		grep -q "Argument list too long" "$tmp/said" || return
	done
}
# No bytes are no value.
nothing_written()
{
	: >"$mnt/tenants/red/max" && printf '' >"$mnt/tenants/red/max"
}
bad_names()
{
	long=$(printf '%64s' '' | tr ' ' a)
	for v in .a 'a b' "$(printf 'a\nb')" "$(printf 'a\377')" 'a*' ; do
		fails "Invalid argument" mkdir "$mnt/tenants/$v" || return
	done
	fails "File name too long" mkdir "$mnt/tenants/$long" &&
		fails "File name too long" rmdir "$mnt/tenants/$long" &&
		fails "not permitted" mkdir "$mnt/pools/x" &&
		fails "not permitted" mkdir "$mnt/tenants/red/x" &&
		fails "not permitted" mkdir "$mnt/x" &&
		fails "not permitted" rmdir "$mnt/pools/scenario" &&
		fails "not permitted" rmdir "$mnt/tenants"
}
not_that_kind()
{
	fails "Permission denied" put red/current 64M &&
		fails "Permission denied" dd of="$mnt/metrics" if=/dev/null &&
		fails "not permitted" chmod 444 "$mnt/metrics" &&
		fails "not permitted" rm -f "$mnt/metrics" &&
		fails "Permission denied" sh -c ": >$mnt/tenants/red/new" &&
		fails "not permitted" rm -f "$mnt/tenants/red/max" &&
		fails "not permitted" mv "$mnt/tenants/red" "$mnt/tenants/b" &&
		fails "not permitted" ln -s a "$mnt/tenants/b" &&
		fails "No such file" cat "$mnt/clients/1" &&
		fails "No such file" cat "$mnt/clients/01" &&
		fails "No such file" cat "$mnt/tenants/red/foo"
}
check "limits that are not understood" unchanged bad_limits
check "floods" unchanged flood
check "no bytes" unchanged nothing_written
check "names that cannot be" unchanged bad_names
check "what no file is there for" unchanged not_that_kind

# ---- who may ---------------------------------------------------------------

others()
{
	fails "Permission denied" user "echo 64M >$mnt/tenants/red/max" &&
		fails "Permission denied" user "mkdir $mnt/tenants/x" &&
		fails "Permission denied" user "rmdir $mnt/tenants/red" &&
		fails "Permission denied" user "cat $mnt/tenants/red/max" &&
		fails "Permission denied" user "ls $mnt/tenants/red" &&
		fails "Permission denied" user "cat $mnt/metrics" &&
		fails "not permitted" user "chmod 444 $mnt/tenants/red" &&
		user "cat $mnt/pools/scenario/free" || return
	got=$(user "ls $mnt/tenants") && [ -z "$got" ]
}
members()
{
	chown 65534:0 "$mnt/tenants/red" || return
	got=$(user "ls $mnt/tenants; cat $mnt/tenants/red/max") &&
		[ "$got" = "red
scenario 3145728" ] &&
		fails "Permission denied" user "echo 64M >$mnt/tenants/red/max" &&
		is tenants/red/max "scenario 3145728" &&
		echo 4M >"$mnt/tenants/red/max" &&
		is tenants/red/max "scenario 4194304" &&
		chown 0:65534 "$mnt/tenants/red" && chmod 440 "$mnt/tenants/red" &&
		user "cat $mnt/tenants/red/owner" && chown 0:0 "$mnt/tenants/red" &&
		chmod 400 "$mnt/tenants/red"
}
# Root of a container is told what the device would tell it.
without_rights()
{
	for f in max ttl; do
		fails "not permitted" "$setpriv" --bounding-set -sys_admin \
			--inh-caps -sys_admin sh -c "printf 1M | dd of=$mnt/tenants/red/$f" ||
			return
	done
	fails "not permitted" "$setpriv" --bounding-set -sys_admin \
		--inh-caps -sys_admin rmdir "$mnt/tenants/red"
}
if [ -e /etc/plan ] || needs setpriv; then
	check "others" unchanged others
	check "a member may look" members
else
	skip "others" "no setpriv"
fi
setpriv=$build/setpriv
[ -x "$setpriv" ] || setpriv=$(command -v setpriv)
if [ -n "$serves" ]; then
	skip "root without CAP_SYS_ADMIN" "a broker does not ask for it"
elif ! "$setpriv" --bounding-set -sys_admin true 2>/dev/null; then
	skip "root without CAP_SYS_ADMIN" "no setpriv of util-linux"
else
	check "root without CAP_SYS_ADMIN" unchanged without_rights
fi

# ---- a client --------------------------------------------------------------

chat_begins()
{
	mkfifo "$tmp/line" || return
	KVCACHE=$where "$build/kvcache-run" -m "$model" --threads 1 \
		--tenant red --chat -n 8 <"$tmp/line" >"$tmp/chat" 2>&1 &
	echo $! >"$tmp/pid"
	sleep 100 >"$tmp/line" &
	echo $! >"$tmp/holder"
	echo "Who owns a page?" >"$tmp/line"
	until_true sh -c "grep -q -s private=[1-9] $mnt/clients/*/pages" ||
		{ cat "$tmp/chat"; return 1; }
}
# pool STATE: what kvcachectl says, in bytes.
pool()
{
	is "pools/scenario/$1" $(($(pages "$1") * 65536))
}
# The client may still be at work: then it was no moment, and the next one may be.
one_moment()
{
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		state >"$tmp/before"
		all_is_the_same
		same=$?
		state >"$tmp/after"
		cmp "$tmp/before" "$tmp/after" && return $same
		sleep 0.5
	done
	return 1
}
all_is_the_same()
{
	for s in free private shared cached retiring; do
		pool $s || return
	done
	current=$(member current_pages red)
	[ "$current" -gt 0 ] &&
		is tenants/red/current "scenario $((current * 65536))" &&
		is tenants/red/peak \
			"scenario $(($(member peak_pages red) * 65536))" &&
		ctl ps --json >"$tmp/json" || return
	id=$(value id "$tmp/json")
	[ "$(ls "$mnt/clients")" = "$id" ] && is "clients/$id/pid" "$chat" &&
		is "clients/$id/comm" kvcache-run &&
		is "clients/$id/tenant" red &&
		is "clients/$id/waiting" "scenario 0" &&
		is "clients/$id/pages" "scenario private=$(value private_pages \
			"$tmp/json") shared=$(value shared_pages "$tmp/json")" ||
		return
	# Each page once, with the same words; only the time goes on.
	ctl page ls --json | tr '{' '\n' | sed -n 's/^"page":\([0-9]*\),.*"handle":"\([^"]*\)","state":"\([^"]*\)".*"refs":\([0-9]*\),"fill":\([0-9]*\),"keys":\([0-9]*\),.*/\1 handle=\2 state=\3 refs=\4 fill=\5 keys=\6/p' >"$tmp/expected"
	sed -n 's/^scenario \(.*\) client=[0-9]*\( .*\) priority=.*/\1\2/p' \
		"$mnt/tenants/red/pages" >"$tmp/found"
	diff "$tmp/expected" "$tmp/found" &&
		[ "$(wc -l <"$tmp/found")" -eq "$current" ] &&
		[ "$(grep -c '^# seq' "$mnt/tenants/red/pages")" -eq 1 ]
}
busy()
{
	fails "Device or resource busy" rmdir "$mnt/tenants/red" &&
		[ -n "$(member uid red)" ]
}
if [ -x "$build/kvcache-run" ]; then
	check "a client" chat_begins
	chat=$(cat "$tmp/pid")
	check "the same as kvcachectl, in one moment" one_moment
	check "a tenant that is in use" unchanged busy
	kill "$chat" "$(cat "$tmp/holder")" 2>/dev/null
	check "it is gone" until_true rmdir "$mnt/tenants/red"
	chat=
else
	skip "a client" "no $build/kvcache-run"
fi

# ---- several pools, many tenants -------------------------------------------

two_pools()
{
	ctl pool create other --size 4M --page 128K && mkdir "$mnt/tenants/two" &&
		is tenants/two/max "scenario max
other max" &&
		fails "Invalid argument" put two/max 1M &&
		fails "No such file" put two/max 'x 1M' || return
	echo other 1M >"$mnt/tenants/two/max" && is tenants/two/max \
		"scenario max
other 1048576" && rmdir "$mnt/tenants/two" && ctl pool rm other &&
		fails "No such file" ls "$mnt/pools/other"
}
# Each of them once, in several replies.
many()
{
	i=0 nr=500
	[ ! -e /etc/plan ] || nr=70
	long=$(printf '%50s' '' | tr ' ' a)
	while [ $i -lt $nr ]; do
		i=$((i + 1))
		echo "$mnt/tenants/many-$long-$i"
	done >"$tmp/names"
	xargs mkdir <"$tmp/names" || return
	find "$mnt/tenants" -maxdepth 1 -name 'many-*' | sort >"$tmp/found"
	sort "$tmp/names" | diff - "$tmp/found" &&
		xargs rmdir <"$tmp/names" &&
		[ -z "$(find "$mnt/tenants" -name 'many*')" ]
}
check "two pools" two_pools
check "many tenants" many

# ---- mounting --------------------------------------------------------------

not_empty()
{
	mkdir "$tmp/full" && : >"$tmp/full/file" &&
		fails "is not empty" "$fs" -d "$where" "$tmp/full" &&
		grep -q -F -e "-o nonempty" "$tmp/said" &&
		[ "$(mounts)" = "$mnt" ] &&
		"$fs" -d "$where" -o nonempty,ro "$tmp/full" &&
		[ -d "$tmp/full/pools" ] && unmount "$tmp/full" &&
		[ -e "$tmp/full/file" ]
}
not_mounted()
{
	mkdir "$tmp/empty"
	fails "give a folder" "$fs" -d "$where" "$tmp/nowhere" &&
		fails "$tmp/none: No such file" "$fs" -d "$tmp/none" "$tmp/empty" &&
		fails "seen by it alone" "$fs" -d local "$tmp/empty" &&
		fails "no option" "$fs" --nothing "$tmp/empty" &&
		fails "no folder" "$fs" && fails "--help" "$fs" -d "$where" \
			-o no_such_option "$tmp/empty" && [ "$(mounts)" = "$mnt" ]
}
killed()
{
	for p in /proc/[0-9]*; do
		[ "$(readlink "$p/exe")" = "$(realpath "$fs")" ] &&
			tr '\0' '\n' <"$p/cmdline" | grep -q -x -e "$mnt" &&
			kill -s KILL "${p#/proc/}"
	done
	until_true fails "not connected" ls "$mnt/pools" &&
		fails "fusermount3 -u" "$fs" -d "$where" "$mnt" || return
	if needs fusermount3; then
		fusermount3 -u "$mnt"
	else
		umount "$mnt"
	fi && [ -z "$(mounts)" ] && mounted && is pools/scenario/size 16777216
}
check "a folder that is not empty" unchanged not_empty
check "what cannot be mounted" unchanged not_mounted
check "killed" unchanged killed

without_it()
{
	fails "not connected" cat "$mnt/pools/scenario/size" && ls "$mnt" &&
		fails "not connected" cat "$mnt/metrics" &&
		read -r got <&7 && [ "$got" = 16777216 ]
}
again()
{
	until_true is pools/new/size 1048576 && mkdir "$mnt/tenants/green" &&
		fails "No such file" cat "$mnt/pools/scenario/size" &&
		grep -q 'pool="new"' "$mnt/metrics" &&
		[ -n "$(member uid green)" ] && rmdir "$mnt/tenants/green"
}
dies()
{
	kill -s KILL "$serves"
	wait "$serves" 2>/dev/null
}
# What kit.sh ends is set, too.
# shellcheck disable=SC2034
starts()
{
	"$build/kvcache-broker" --socket "$where" --pool new=1M,page=64K \
		>>"$tmp/broker.log" 2>&1 &
	serves=$!
	broker=$serves broker_pid=$serves
	until_true ctl info >/dev/null 2>&1
}
if [ -n "$serves" ]; then
	exec 7<"$mnt/pools/scenario/size"
	dies
	check "without a broker" without_it
	exec 7<&-
	starts
	check "a broker that is started anew" again
	# Nobody looked in between: the first who does is not told of it.
	dies
	starts
	check "another one, unnoticed" is pools/new/size 1048576
	chmod 666 "$where"
else
	skip "a broker that is started anew" "the module is not started anew here"
fi

# ---- as a user, by mount(8) ------------------------------------------------

# /dev/fuse may be root's alone, as in a container: another node then, in a
# mount namespace that ends with the command.
as_user()
{
	mkdir "$tmp/own" && chown 65534 "$tmp/own" || return
	cat >"$tmp/user.sh" <<-EOT
	cd $tmp
	./kvcachefs -d $where $tmp/own || exit
	grep " $tmp/own fuse.kvcachefs " /proc/mounts
	cat own/pools/*/size && ls own/tenants && cat own/tenants/mine/max || exit
	[ "\$(ls own/tenants)" = mine ] || exit
	echo 1M >own/tenants/mine/max && exit 1
	mkdir own/tenants/x && exit 1
	rmdir own/tenants/mine && exit 1
	./kvcachefs -d $where -o allow_other,nonempty $tmp/own && exit 1
	fusermount3 -u $tmp/own && ! grep " $tmp/own " /proc/mounts
	EOT
	ctl tenant create mine --owner 65534 --max 2M || return
	unchanged_by_user || return
	[ -z "$(ls "$tmp/own")" ] && ctl tenant rm mine
}
unchanged_by_user()
{
	member max_pages mine >"$tmp/before"
	unshare -m sh -c "mknod -m 666 $tmp/fuse c 10 229 &&
		mount --bind $tmp/fuse /dev/fuse &&
		setpriv --reuid 65534 --regid 65534 --clear-groups \
			sh $tmp/user.sh" || return
	member max_pages mine | diff "$tmp/before" -
}
by_mount()
{
	unmount "$mnt" && PATH=$tmp:$PATH \
		mount.fuse3 "$where" "$mnt" -t kvcachefs -o rw,dev,suid &&
		grep " $mnt fuse.kvcachefs " /proc/mounts &&
		[ -d "$mnt/tenants" ] && umount "$mnt"
}
# mount(8) looks for the program of the type where programs are installed.
by_fstab()
{
	mkdir "$tmp/bin" && cp "$fs" "$tmp/bin/kvcachefs" &&
		echo "$where $mnt fuse.kvcachefs rw,nofail 0 0" >"$tmp/fstab" &&
		unshare -m sh -c "mount --bind $tmp/bin /usr/local/bin &&
			mount --fstab $tmp/fstab $mnt &&
			grep ' $mnt fuse.kvcachefs ' /proc/mounts &&
			[ -d $mnt/tenants ] && umount $mnt" && [ -z "$(ls "$mnt")" ]
}
why=
needs setpriv && needs unshare || why="no setpriv or unshare"
needs fusermount3 || why="no fusermount3"
[ -z "$why" ] && [ ! -u "$(command -v fusermount3)" ] &&
	why="fusermount3 has no setuid bit"
[ -z "$why" ] && ! unshare -m true 2>/dev/null && why="no mount namespaces"
if [ -n "$why" ]; then
	skip "a user's own mount" "$why"
else
	check "a user's own mount" as_user
fi
if needs mount.fuse3; then
	check "by mount" by_mount
else
	skip "by mount" "no mount.fuse3"
fi
if needs mount.fuse3 && needs unshare && unshare -m true 2>/dev/null; then
	check "by a line of fstab" by_fstab
else
	skip "by a line of fstab" "no mount.fuse3, or no mount namespaces"
fi
nothing_left()
{
	for m in $(mounts); do
		unmount "$m" || return
	done
	[ -z "$(mounts)" ]
}
check "nothing is left mounted" nothing_left
tap_end
