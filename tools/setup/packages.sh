#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Install the Debian packages of packages.txt that are missing.
#
#	packages.sh run|check|packages
#
# "run" takes those that building and "make run" need, "check" those that "make
# check" wants besides, "packages" all of them.
# Nothing is touched where nothing is missing. Fails only where a package that
# the build needs is missing and cannot be installed.
set -u
dir=$(dirname "$0")

case ${1:-} in
run)	kinds='build run' ;;
check)	kinds='build run check' ;;
packages) kinds='build run check packages' ;;
*)	echo "usage: $0 run|check|packages" >&2; exit 2 ;;
esac

installed()
{
	dpkg-query -W -f '${Status}' "$1" 2>/dev/null |
		grep -q 'ok installed$'
}

# The packages of the given kinds that are missing.
missing()
{
	sed 's/#.*//' "$dir/packages.txt" | while read -r pkg kind _; do
		case " $* " in
		*" $kind "*)	installed "$pkg" || printf ' %s' "$pkg" ;;
		esac
	done
}

if ! command -v dpkg-query >/dev/null; then
	echo "packages.sh: no dpkg here: install what $dir/packages.txt lists" >&2
	exit 0
fi
# shellcheck disable=SC2086 # a list of words
want=$(missing $kinds)
[ -n "$want" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
	as_root='sudo -n'
	if ! sudo -n true 2>/dev/null; then
		echo "packages.sh: missing:$want" >&2
		echo "packages.sh: run as root: apt-get install$want" >&2
		[ -z "$(missing build)" ]
		exit
	fi
fi

echo "packages.sh: installing$want" >&2
export DEBIAN_FRONTEND=noninteractive
apt="$as_root apt-get -qq -o DPkg::Lock::Timeout=300"
# shellcheck disable=SC2086 # lists of words
{
	$apt update && $apt install -y --no-install-recommends $want
} </dev/null >&2 || echo "packages.sh: apt-get failed" >&2

want=$(missing build)
if [ -n "$want" ]; then
	echo "packages.sh: the build needs:$want" >&2
	exit 1
fi
