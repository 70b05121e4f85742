#!/bin/sh
# SPDX-License-Identifier: MIT
# timeout: 840
#
# The packages in a fresh Debian: the programs run, a program is built against the
# library, dkms builds the module for both kernels, and when all is purged only
# what this file names is left. The modules are left in $KVCACHE_BUILD/dkms-6.1
# and dkms-6.12, for test_device.sh.
[ -n "${fresh:-}" ] || exec "$(dirname "$0")/chroot.sh" "$0"
. "$(dirname "$0")/kit.sh"
cd "$root" || exit 1
needs_packages "packages in a fresh Debian"
began=$(date +%s)

apt()
{
	in_fresh apt-get -q -y -o Dpkg::Use-Pty=0 "$@"
}

# ---- what is there before ---------------------------------------------------

# headers NAME: of the kernel that the machine of test_device.sh boots; from the
# archive, or where that has moved on, as kernels.sh has them.
headers()
{
	at=$(tools/setup/kernels.sh "$1") && release=$(cat "$at/release") ||
		return
	echo "$1 $release" >>"$tmp/kernels"
	apt install "linux-headers-$release" && return
	echo "# headers of $release are not in the archive"
	mkdir -p "$fresh/$at" "$fresh/lib/modules/$release" &&
		mount --bind "$at" "$fresh/$at" &&
		mount -o remount,ro,bind "$fresh/$at" &&
		ln -s "$at/build" "$fresh/lib/modules/$release/build"
}
: >"$tmp/kernels"
mkdir "$fresh/debs" && for p in $packages; do
	cp "$(deb "$p")" "$fresh/debs/" || exit
done
ours=$(cd "$fresh" && for p in $packages; do echo "./debs/${p}_"*; done)

# needed PACKAGE...: others that installing these would install.
needed()
{
	# shellcheck disable=SC2046,SC2086 # a list of words
	apt -s install $(for p; do echo $ours | tr ' ' '\n' | grep "/${p}_"; done) |
		sed -n 's/^Inst \([^ ]*\) .*/\1/p' >"$tmp/sim" || return
	for p in $packages; do
		sed -i "/^$p\$/d" "$tmp/sim"
	done
	sort "$tmp/sim"
}
without_dkms()
{
	needed libkvcache0 libkvcache-dev kvcache-tools >"$tmp/needed"
	cat "$tmp/needed"
	[ -s "$tmp/needed" ] &&
		! grep -x -E 'dkms|linux-.*|gcc(-.*)?|make' "$tmp/needed" |
			grep -v -x 'linux-libc-dev\|gcc-12-base'
}
check "library and programs want neither dkms nor a compiler" without_dkms
needs_installed()
{
	# shellcheck disable=SC2046 # a list of words
	# shellcheck disable=SC2086 # a list of words
	apt install $(needed $packages) gcc libc6-dev pkg-config
}
check "what the packages need can be had" needs_installed
[ "$tap_bad" -eq 0 ] || tap_end
for k in 6.1 6.12; do
	check "headers of $k" headers $k
done
# A kernel that is too old, as far as dkms looks before it builds.
old=5.10.0-99-amd64
mkdir -p "$fresh/lib/modules/$old/build/include"

# Paths, users, and what is in /etc. apt and dpkg keep books of their own.
state()
{
	(
		cd "$fresh" && find . -xdev \( -path ./proc -o -path ./debs \
			-o -path ./var/lib/dpkg -o -path ./var/cache \
			-o -path ./var/log -o -path ./var/lib/apt -o -path ./tmp \
			-o -path ./run/lock \) -prune -o \
			-printf '%p %y %m %u %l\n' | sort
		# A line of its own for each line.
		grep -H '' etc/passwd etc/group etc/shadow etc/gshadow
		find etc var/lib -type f ! -name '*-' ! -path 'var/lib/dpkg/*' \
			! -path 'var/lib/apt/*' ! -path 'etc/passwd' \
			! -path 'etc/group' ! -path 'etc/shadow' \
			! -path 'etc/gshadow' -exec sha256sum {} + | sort -k2
	) >"$1"
}
state "$tmp/before"

# ---- installed --------------------------------------------------------------

# shellcheck disable=SC2086 # a list of words
check "all packages install" apt install $ours
cp "$tmp/out" "$tmp/installed"
[ "$tap_bad" -eq 0 ] || tap_end
# Nothing but ours came.
check "they were given all they need" sh -c \
	"grep -q ' 4 newly installed, 0 to remove' '$tmp/installed'"

programs()
{
	for f in "$fresh"/usr/bin/kvcache*; do
		t=${f##*/}
		said=$(in_fresh "$t" --version) || { echo "$t fails"; return 1; }
		echo "$said"
		[ "$said" = "$t $version" ] || return
	done
}
check "every program runs, and is of this version" programs
check "the group is there" in_fresh getent group kvcache

# alice is in the group and has a tenant. What she finds is the system's broker.
broker()
{
	in_fresh useradd -G kvcache alice || return
	in_fresh mkdir -p /run/kvcache
	# shellcheck disable=SC2154 # of kit.sh
	$into "$fresh" kvcache-broker --pool main=64M,page=64K \
		--tenant "alice,uid=$(in_fresh id -u alice)" >"$tmp/broker" 2>&1 &
	pid=$!
	n=0
	until [ -S "$fresh/run/kvcache/broker" ] || [ $n -ge 100 ]; do
		n=$((n + 1))
		sleep 0.1
	done
	as alice kvcachectl info && as alice kvcachectl pool ls --json >"$tmp/ls" &&
		grep '"name": *"main"' "$tmp/ls" &&
		as alice kvcachectl tenant ls | grep alice
	status=$?
	kill $pid 2>/dev/null
	wait $pid
	stopped=$?
	cat "$tmp/broker"
	# By hand, as it was started.
	in_fresh userdel alice &&
		rm "$fresh/run/kvcache/broker.lock" && rmdir "$fresh/run/kvcache"
	[ $status -eq 0 ] && [ $stopped -eq 0 ]
}
as()
{
	user=$1
	shift
	in_fresh su "$user" -s /bin/sh -c "$*"
}
check "a broker serves a user of the group" broker

# The first program of README.md, and what that says it prints.
example()
{
	awk -v dir="$fresh/debs" -f selftests/style/readme-programs.awk \
		README.md >"$tmp/n" || return
	sed -n '/^It prints$/,/^An installed/s/^    //p' README.md >"$tmp/prints"
	flags=$(in_fresh pkg-config $1 --cflags --libs libkvcache) || return
	echo "$flags"
	# shellcheck disable=SC2086 # a list of words
	in_fresh gcc -Wall -Werror -o /debs/example /debs/1.c $2 $flags &&
		in_fresh /debs/example >"$tmp/said" || return
	[ -s "$tmp/prints" ] && diff "$tmp/prints" "$tmp/said"
}
check "README's program is built by pkg-config, and runs" example "" ""
check "and with the static library" example --static \
	"-Wl,-Bstatic -lkvcache -Wl,-Bdynamic"
needs_no_library()
{
	in_fresh ldd /debs/example >"$tmp/ldd" && ! grep kvcache "$tmp/ldd"
}
check "which needs no other then" needs_no_library
uapi_header()
{
	echo '#include <linux/kvcache.h>
	int main(void) { return KVCACHE_NR_QUERY < 0; }' >"$fresh/debs/u.c"
	in_fresh gcc -Wall -Werror -o /debs/u /debs/u.c
}
check "the ABI's header is there" uapi_header

# ---- dkms ---------------------------------------------------------------------

# built NAME: installed, of this version, for that kernel; kept for later.
built()
{
	release=$(awk -v k="$1" '$1 == k { print $2 }' "$tmp/kernels")
	in_fresh dkms status -m kvcache -v "$version" -k "$release" >"$tmp/status"
	cat "$tmp/status"
	grep -q ': installed' "$tmp/status" || {
		tail -n 30 "$fresh/var/lib/dkms/kvcache/$version/build/make.log"
		return 1
	}
	# Compressed where the kernel's own are.
	mkdir -p "$build/dkms-$1" || return
	ko=$build/dkms-$1/kvcache.ko
	at=$fresh/lib/modules/$release/updates/dkms/kvcache.ko
	if [ -e "$at.xz" ]; then
		xz -dc "$at.xz" >"$ko"
	else
		cp "$at" "$ko"
	fi || return
	modinfo "$ko"
	[ "$(modinfo -F version "$ko")" = "$version" ] &&
		[ "$(modinfo -F vermagic "$ko" | cut -d' ' -f1)" = "$release" ]
}
rm -rf "$build/dkms-6.1" "$build/dkms-6.12"
check "dkms has built for 6.1" built 6.1
check "dkms has built for 6.12" built 6.12
# Were it an error, the package would be left half installed.
check "and has skipped a kernel that is too old" grep -q '^Skipped' \
	"$tmp/installed"
too_old()
{
	in_fresh dkms build -m kvcache -v "$version" -k $old
	status=$?
	[ $status -eq 77 ]
}
check "of which it says so" too_old

# ---- purged -------------------------------------------------------------------

# What is left, and why:
# - the group and the user: files of theirs may be, and their numbers must not
#   be given to others. Debian's packages never remove what sysusers made;
# - the files beside passwd and group, which have the last but one state;
# - the list of modules that depmod makes for each kernel it sees.
leftover='^[<>] (etc/(passwd|group|shadow|gshadow):kvcache:'
leftover="$leftover"'|\./etc/(passwd|group|shadow|gshadow|subuid|subgid)-? '
leftover="$leftover"'|\./usr/lib/modules/[^/ ]+/modules\.[^/ ]+ )'
nothing_left()
{
	state "$tmp/after"
	diff "$tmp/before" "$tmp/after" | grep '^[<>]' |
		grep -v -E "$leftover" >"$tmp/left"
	cat "$tmp/left"
	[ ! -s "$tmp/left" ]
}
# shellcheck disable=SC2086 # a list of words
check "purge" apt purge $packages
check "nothing is left but what has a reason" nothing_left

# Nothing was ever built here: the module's package goes all the same.
never_built()
{
	mkdir -p "$fresh/etc/dkms" && touch "$fresh/etc/dkms/no-autoinstall" &&
		apt install "$(echo "$ours" | tr ' ' '\n' | grep kvcache-dkms)" &&
		[ ! -e "$fresh/var/lib/dkms/kvcache/$version/source" ] &&
		apt purge kvcache-dkms && rm "$fresh/etc/dkms/no-autoinstall" &&
		nothing_left
}
check "the module's package goes where nothing was built" never_built

echo "# figure chroot: $(($(date +%s) - began)) s"
tap_end
