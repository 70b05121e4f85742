#!/bin/sh
# SPDX-License-Identifier: MIT
# timeout: 120
#
# kvcachefs of users other than root: a member's own mount, a broker of the user's
# own, what root's mount tells them; and the command line.
. "$(dirname "$0")/../scenarios/kit.sh"
mnt=$tmp/mnt
uid=65534
export LC_ALL=C

why=
[ -x "$build/kvcachefs" ] || why="no $build/kvcachefs: needs libfuse3-dev"
[ -c /dev/fuse ] || why="no /dev/fuse"
[ "$(id -u)" -eq 0 ] || why="needs root"
needs setpriv && needs unshare || why="no setpriv or unshare"
needs fusermount3 || why="no fusermount3"
[ -z "$why" ] && [ ! -u "$(command -v fusermount3)" ] &&
	why="fusermount3 has no setuid bit"
[ -z "$why" ] && ! unshare -m true 2>/dev/null && why="no mount namespaces"
if [ -n "$why" ]; then
	skip "kvcachefs of other users" "$why"
	tap_end
fi

end()
{
	umount "$mnt" 2>/dev/null
	leave
	grep -q -F " $tmp/" /proc/mounts || rm -rf "$tmp"
}
place 16M 64K
trap end EXIT
trap 'exit 141' PIPE
mkdir "$mnt" "$tmp/own" "$tmp/own.d"
chown $uid "$tmp/own" "$tmp/own.d"
chmod 755 "$tmp"
chmod 666 "$where"
# They run what they can reach.
cp "$build/kvcachefs" "$build/kvcachectl" "$build/kvcache-broker" "$tmp/"

user()
{
	setpriv --reuid $uid --regid $uid --clear-groups "$@"
}
# alone SCRIPT: as the user, in $tmp; each of its commands is to succeed, but for
# those behind "not". /dev/fuse may be root's alone, as in a container: another
# node then, in a mount namespace that ends with the script.
alone()
{
	{
		echo 'not() { if "$@"; then echo "succeeds: $*"; exit 1; fi; }'
		cat
	} >"$tmp/script.sh"
	# shellcheck disable=SC2016 # for the shell in there
	unshare -m sh -c 'mknod -m 666 "$1/fuse" c 10 229 &&
		mount --bind "$1/fuse" /dev/fuse && cd "$1" &&
		exec setpriv --reuid "$2" --regid "$2" --clear-groups \
			timeout 30 sh -ex script.sh' sh "$tmp" $uid
	ret=$?
	rm -f "$tmp/fuse"
	return $ret
}
seq_now()
{
	ctl pool ls --json | sed -n 's/.*"seq": *\([0-9]*\).*/\1/p' | head -n 1
}

# ---- a member's own mount ---------------------------------------------------

# Nobody finds itself there, let alone without end.
own_clients()
{
	alone <<-EOT
	./kvcachefs -d $where own
	[ "\$(ls own/tenants)" = mine ]
	[ -z "\$(ls own/clients)" ]
	fusermount3 -u own
	EOT
}
# A hundred looks are not a hundred changes that others see.
own_looks()
{
	before=$(seq_now)
	alone <<-EOT || return
	./kvcachefs -d $where own
	f=own/tenants/mine/max
	for i in 1 2 3 4 5; do
		cat \$f \$f \$f \$f \$f \$f \$f \$f \$f \$f \
			\$f \$f \$f \$f \$f \$f \$f \$f \$f \$f
	done | wc -l | grep -x 100
	fusermount3 -u own
	EOT
	after=$(seq_now)
	echo "from $before to $after"
	[ "$before" -gt 0 ] && [ $((after - before)) -lt 100 ]
}
# Who has looked holds up nobody.
own_tenant_goes()
{
	ctl tenant create gone --owner $uid || return
	alone <<-EOT &
	./kvcachefs -t gone -d $where own
	[ "\$(ls own/tenants)" = gone ]
	: >own.d/looked
	until [ -z "\$(ls own/tenants)" ]; do
		sleep 0.5
	done
	fusermount3 -u own
	EOT
	other=$!
	until_true [ -e "$tmp/own.d/looked" ]
	until_true ctl tenant rm gone
	gone=$?
	wait $other && [ $gone -eq 0 ]
}
own_access()
{
	alone <<-EOT
	./kvcachefs -d $where own
	[ -r own/pools/scenario/size ]
	[ -r own/tenants/mine/max ]
	[ -x own/tenants ]
	not [ -w own/pools/scenario/size ]
	not [ -x own/pools/scenario/size ]
	not [ -w own/tenants/mine/max ]
	not [ -w own/tenants ]
	not [ -w own ]
	not [ -w own/metrics ]
	not sh -c 'echo 1M >own/tenants/mine/max'
	fusermount3 -u own
	EOT
}
ctl tenant create mine --owner $uid --max 2M
check "a member's list of clients ends" own_clients
check "a member's looks are not felt by others" own_looks
check "a tenant that was looked at can be removed" own_tenant_goes
check "a member is told what it may" own_access

# ---- a user's own broker ------------------------------------------------------

own_broker()
{
	alone <<-EOT
	umask 077
	./kvcache-broker --socket $tmp/own.d/s --pool mine=4M,page=64K &
	broker=\$!
	trap 'kill \$broker' EXIT
	until ./kvcachectl info -d $tmp/own.d/s >/dev/null 2>&1; do sleep 0.1; done
	./kvcachefs -d $tmp/own.d/s own
	trap 'fusermount3 -u own; kill \$broker' EXIT
	[ -w own/tenants ]
	mkdir own/tenants/a own/tenants/b
	[ "\$(cat own/tenants/a/owner)" = "$uid:$uid 0400" ]
	[ -w own/tenants/a/max ]
	not [ -w own/tenants/a/current ]
	echo 1M >own/tenants/a/max
	[ "\$(cat own/tenants/a/max)" = "mine 1048576" ]
	./kvcachectl tenant ls -d $tmp/own.d/s --json | grep '"max_pages": *16\>'
	chown $uid:$uid own/tenants/a
	chmod 440 own/tenants/a
	[ "\$(cat own/tenants/a/owner)" = "$uid:$uid 0440" ]
	not sh -c 'echo 10X >own/tenants/a/max'
	not mkdir own/tenants/a
	not mkdir own/pools/x
	# Another's, by number alone: who administers sees it, and changes it.
	./kvcachectl tenant create c -d $tmp/own.d/s --owner 12
	[ "\$(cat own/tenants/c/max)" = "mine max" ]
	[ -w own/tenants/c/max ]
	echo 2M >own/tenants/c/max
	rmdir own/tenants/a own/tenants/b own/tenants/c
	[ -z "\$(ls own/tenants)" ]
	[ "\$(tail -n 1 own/metrics)" = "# EOF" ]
	EOT
}
check "a user's own broker, by a mount of the user's own" own_broker

# ---- what root's mount tells others ---------------------------------------------

# The name of a tenant that they may not see is told nowhere.
others_grants()
{
	ctl tenant create hidden --owner 1001 &&
		ctl tenant create seen --owner $uid &&
		ctl tenant grant mine hidden --rights publish &&
		ctl tenant grant mine seen --rights lookup || return
	"$tmp/kvcachefs" -d "$where" "$mnt" &&
		user cat "$mnt/tenants/mine/grants" >"$tmp/user" &&
		cat "$mnt/tenants/mine/grants" >"$tmp/root" || return
	cat "$tmp/user" "$tmp/root"
	grep -q '^hidden publish' "$tmp/root" &&
		grep -q '^seen lookup' "$tmp/root" &&
		! grep -q hidden "$tmp/user" &&
		grep -q '^#[0-9]* publish' "$tmp/user" &&
		grep -q '^seen lookup' "$tmp/user"
}
# Of a file that is long it is not told beforehand how long.
long_files()
{
	i=0
	while [ $i -lt 100 ]; do
		i=$((i + 1))
		echo "$mnt/tenants/many-$i"
	done | xargs mkdir || return
	umount "$mnt" && "$tmp/kvcachefs" -d "$where" "$mnt" &&
		[ "$(tail -n 1 "$mnt/metrics")" = "# EOF" ] || return
	umount "$mnt" && "$tmp/kvcachefs" -d "$where" "$mnt" &&
		cp "$mnt/metrics" "$tmp/copy" || return
	umount "$mnt" && "$tmp/kvcachefs" -d "$where" "$mnt" &&
		cat "$mnt/metrics" >"$tmp/cat" || return
	[ "$(wc -c <"$tmp/copy")" -gt 8192 ] && cmp "$tmp/copy" "$tmp/cat" &&
		[ "$(tail -c 6 "$mnt/metrics")" = "# EOF" ] &&
		[ "$(head -c 100 "$mnt/metrics")" = "$(head -c 100 "$tmp/cat")" ]
}
check "names that others may not see" others_grants
check "long files" long_files
umount "$mnt"

# As at boot, where the broker is started by who asks.
waits_for_broker()
{
	kill -s STOP "$broker_pid"
	"$tmp/kvcachefs" -d "$where" "$mnt" 2>"$tmp/said" &
	mounting=$!
	sleep 8
	kill -0 $mounting
	waits=$?
	kill -s CONT "$broker_pid"
	wait $mounting && [ $waits -eq 0 ] && [ -r "$mnt/pools/scenario/size" ]
	ret=$?
	cat "$tmp/said"
	return $ret
}
check "a broker that begins late is waited for" waits_for_broker
umount "$mnt"

# ---- the command line -------------------------------------------------------------

# usage WORDS ARGUMENT...: one line with these words, and 2.
usage()
{
	words=$1
	shift
	"$tmp/kvcachefs" -d "$where" "$@" "$mnt" >"$tmp/said" 2>&1
	ret=$?
	cat "$tmp/said"
	[ $ret -eq 2 ] && [ "$(wc -l <"$tmp/said")" -eq 1 ] &&
		grep -q -F -e "$words" "$tmp/said" &&
		! grep -q -F " $mnt " /proc/mounts
}
command_line()
{
	usage "bogus" -o bogus && usage "bogus" -o ro,bogus &&
		usage "give a name" -t '' && usage "give a name" -t 'bad name' &&
		usage "give a name" -o tenant= &&
		usage "give a name" -o tenant=.a &&
		usage "give a name" -t "$(printf '%64s' '' | tr ' ' a)" &&
		usage "no option" --nothing
}
check "a command line that is wrong" command_line
tap_end
