# SPDX-License-Identifier: MIT
# shellcheck shell=sh
#
# kit.sh - the packages of this tree, for the tests of them.
#
#	. "$(dirname "$0")/kit.sh"
#	needs_packages "what it tests"	# builds them into $debs, or ends the test
#
# test_build.sh makes $debs anew; the others take what is there if it was built
# from the files that are there now.

. "$(dirname "$0")/../tap.sh"

debs=$build/deb
# shellcheck disable=SC2034 # for the tests
version=$(sed -n 's/^VERSION := //p' "$root/Makefile")
# shellcheck disable=SC2034 # for the tests
packages='libkvcache0 libkvcache-dev kvcache-tools kvcache-dkms'

# What building them lacks, in words; nothing if nothing.
lacks()
{
	for program in dpkg-buildpackage dpkg-checkbuilddeps git; do
		needs $program || { echo "no $program"; return; }
	done
	git -C "$root" -c safe.directory='*' rev-parse >/dev/null 2>&1 ||
		{ echo "no repository of git"; return; }
	dpkg-checkbuilddeps "$root/tools/packaging/debian/control" 2>&1 |
		sed 's/.*error: //'
}

# skip_without REASON WHAT...: with a reason, the test is over.
skip_without()
{
	[ -n "$1" ] || return 0
	why=$1
	shift
	skip "$*" "$why"
	tap_end
}

needs_packages()
{
	! now=$("$root/tools/packaging/build.sh" -s) ||
		[ "$now" != "$(cat "$debs/.files" 2>/dev/null)" ] || return 0
	skip_without "$(lacks)" "$@"
	"$root/tools/packaging/build.sh" -o "$debs" >"$tmp/build.log" 2>&1 || {
		sed 's/^/# /' "$tmp/build.log"
		check "packages" false
		tap_end
	}
}

# deb NAME: its file.
deb()
{
	echo "$debs/$1_${version}"_*.deb
}

# in_fresh COMMAND...: in the Debian that chroot.sh made, in its folder $fresh. A
# command of the background whose number matters begins with "$into" "$fresh".
into='env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C'
into="$into DEBIAN_FRONTEND=noninteractive chroot"
in_fresh()
{
	# shellcheck disable=SC2154 # of chroot.sh
	$into "$fresh" "$@"
}
