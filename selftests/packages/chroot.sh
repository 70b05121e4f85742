#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Run a command beside a fresh Debian, in namespaces of its own: its mounts and
# its processes end with it.
#
#	chroot.sh COMMAND...
#
# COMMAND is a test, or part of one. $fresh is the folder of the Debian, which is
# removed at the end; it has /proc, and apt's lists of what the machine's own apt
# takes from Debian. Where that cannot be had, a test that was skipped says why.
#
# The Debian is made by debootstrap once a month, and kept in
# $XDG_CACHE_HOME/kvcache/debootstrap, by default below ~/.cache.
set -u

not_here()
{
	echo "TAP version 13"
	echo "# SKIP $*"
	echo "ok 1 a fresh Debian # SKIP $*"
	echo 1..1
	exit 4
}

[ "$(id -u)" -eq 0 ] || not_here "needs root"
for program in debootstrap unshare chroot apt-get tar; do
	command -v $program >/dev/null || not_here "no $program"
done
unshare --mount --pid --fork true 2>/dev/null ||
	not_here "may not make namespaces"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r $keyring ] || not_here "no $keyring"
suite=bookworm
cache=${XDG_CACHE_HOME:-${HOME:?set HOME or XDG_CACHE_HOME}/.cache}
cache=$cache/kvcache/debootstrap
base=$cache/$suite-$(dpkg --print-architecture).tar

# Where this machine's apt gets Debian from, as it says itself.
# shellcheck disable=SC2016 # apt's names
sources=$(apt-get indextargets --format \
	'$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)' \
	'Created-By: Packages' 2>/dev/null |
	sed -n "s/^Debian \([^ ]* ${suite}[^ ]* .*\)/deb \1/p" | sort -u)
mirror=$(printf '%s\n' "$sources" |
	awk -v s=$suite '$3 == s { print $2; exit }')
[ -n "$mirror" ] ||
	not_here "apt knows no archive of Debian $suite: apt-get update"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
fresh=$dir/root
mkdir "$fresh"

# What apt was told of networks and clocks goes for the fresh one, too.
apt-config dump | grep -E '^Acquire::(http|https|Check|Retries)' >"$dir/conf"
proxy=$(apt-config shell p Acquire::http::Proxy | sed "s/^p='\(.*\)'$/\1/")
[ -z "$proxy" ] || export http_proxy="$proxy"

mkdir -p "$cache" || exit
exec 9>"$base.lock"
flock -w 600 9 || not_here "$base.lock is held by somebody else"
if [ -z "$(find "$base" -mtime -30 2>/dev/null)" ]; then
	unshare --mount debootstrap --variant=minbase --keyring=$keyring \
		"$suite" "$fresh" "$mirror" >"$dir/log" 2>&1 9>&- ||
		not_here "debootstrap: $(tail -n 1 "$dir/log")"
	tar -c -C "$fresh" --one-file-system . >"$base.new" &&
		mv "$base.new" "$base" || exit
else
	tar -x -C "$fresh" -f "$base" --numeric-owner || exit
fi
exec 9>&-

printf '%s\n' "$sources" >"$fresh/etc/apt/sources.list"
cat - "$dir/conf" >"$fresh/etc/apt/apt.conf.d/90test" <<-EOT
	APT::Install-Recommends "false";
	APT::Sandbox::User "root";
	Acquire::Languages "none";
EOT
# dpkg need not wait for the disk.
echo force-unsafe-io >"$fresh/etc/dpkg/dpkg.cfg.d/test"
cp -L /etc/resolv.conf /etc/hosts "$fresh/etc/"
# No service starts in a folder.
printf '#!/bin/sh\nexit 101\n' >"$fresh/usr/sbin/policy-rc.d"
chmod 755 "$fresh/usr/sbin/policy-rc.d"

chroot "$fresh" apt-get -qq update >"$dir/log" 2>&1 ||
	not_here "apt-get update: $(tail -n 1 "$dir/log")"

export fresh
# Its first process is not the command: it would have to reap.
unshare --mount --pid --fork --kill-child sh -c '
	mount -t proc proc "$fresh/proc" || exit
	"$@"
	exit' sh "$@"
