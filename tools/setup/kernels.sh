#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Print the folder of an unpacked kernel of kernels.txt, after fetching it if
# need be.
#
#	kernels.sh 6.1|6.12	vmlinuz, release (its uname -r), build/ (the
#				headers, ready for make -C), modules/
#	kernels.sh source	parts of the kernel's source: the kselftest
#				harness, checkpatch, coccinelle's scripts
#	kernels.sh tree		all of it
#	kernels.sh -n NAME	lines for kernels.txt with the newest packages
#
# They are kept in $XDG_CACHE_HOME/kvcache/kernels, by default below ~/.cache.
# apt fetches them and checks the archive's signature, with lists, cache and
# configuration of its own in that folder: the sources and the packages of the
# machine stay as they are. $KVCACHE_MIRROR replaces http://deb.debian.org.
set -eu
pins=$(cd "$(dirname "$0")" && pwd)/kernels.txt
mirror=${KVCACHE_MIRROR:-http://deb.debian.org}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
parts='tools/testing/selftests/kselftest.h
tools/testing/selftests/kselftest_harness.h
scripts/checkpatch.pl
scripts/spelling.txt
scripts/const_structs.checkpatch
scripts/coccinelle'

die()
{
	echo "kernels.sh: $*" >&2
	exit 1
}

newest=
if [ "${1:-}" = -n ]; then
	newest=1
	shift
fi
[ $# -eq 1 ] || die "usage: kernels.sh [-n] 6.1|6.12|source|tree"
name=$1
pinned=$(awk -v name="$name" '$1 == name { print $2 "=" $3, $4 }' "$pins")
[ -n "$pinned" ] || die "$pins has no $name"

cache=${XDG_CACHE_HOME:-${HOME:?set HOME or XDG_CACHE_HOME}/.cache}/kvcache/kernels
dir=$cache/$name
mkdir -p "$cache" || die "cannot create $cache: set XDG_CACHE_HOME"
exec 9>"$cache/.lock"
flock -w 600 9 || die "$cache is locked by somebody else"

# The pins that it came from, so that new pins fetch again.
if [ -z "$newest" ] && printf '%s\n' "$pinned" | cmp -s - "$dir/.pins"; then
	printf '%s\n' "$dir"
	exit 0
fi

command -v apt-get >/dev/null || die "no apt here, to fetch kernels with"
[ -r "$keyring" ] || die "no $keyring: needs debian-archive-keyring"

tmp=$(mktemp -d "$cache/fetch.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# Read after the machine's configuration: its proxies are ours too, its
# sources, preferences and hooks are not.
mkdir -p "$tmp/lists/partial" "$tmp/cache/archives/partial" "$tmp/debs" \
	"$tmp/none"
: >"$tmp/status"
echo "deb [signed-by=$keyring] $mirror/debian-security bookworm-security main" \
	>"$tmp/sources.list"
cat >"$tmp/apt.conf" <<EOT
Dir::State "$tmp";
Dir::State::status "$tmp/status";
Dir::Cache "$tmp/cache";
Dir::Etc::sourcelist "$tmp/sources.list";
Dir::Etc::sourceparts "$tmp/none";
Dir::Etc::preferences "$tmp/none/preferences";
Dir::Etc::preferencesparts "$tmp/none";
APT::Architecture "amd64";
#clear APT::Architectures;
APT::Architectures { "amd64"; };
#clear APT::Update;
APT::Update::Error-Mode "any";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
EOT

apt()
{
	tool=$1
	shift
	"apt-$tool" -q -q -c "$tmp/apt.conf" "$@"
}

# The newest version that the archive has of a package.
version_of()
{
	apt cache show --no-all-versions "$1" 2>/dev/null |
		sed -n 's/^Version: //p'
}

# Packages of the newest kernel of a series, as PACKAGE=VERSION.
newest_kernel()
{
	image=$(apt cache pkgnames "linux-image-$1." |
		grep -x "linux-image-$1\.[0-9.]*[-+][^-]*-cloud-amd64" |
		sort -V | tail -n 1)
	[ -n "$image" ] || return
	version=$(version_of "$image")
	abi=${image#linux-image-}
	kbuild=$(apt cache show "linux-headers-$abi=$version" |
		sed -n 's/^Depends: .*\(linux-kbuild-[^ ,]*\).*/\1/p')
	for p in "$image" "linux-headers-$abi" \
			"linux-headers-${abi%-cloud-amd64}-common" "$kbuild"; do
		echo "$p=$version"
	done
}

newest_of()
{
	case $1 in
	source | tree)	echo "linux-source-6.1=$(version_of linux-source-6.1)" ;;
	*)		newest_kernel "$1" ;;
	esac
}

# sum_of PACKAGE=VERSION: the SHA-256 in the signed list, nothing if not there.
sum_of()
{
	apt cache show "$1" 2>/dev/null | sed -n 's/^SHA256: //p'
}

[ -n "$newest" ] || echo "kernels.sh: fetching $name to $dir" >&2
apt get update >&2 9>&- ||
	die "apt cannot read $mirror/debian-security: is there a network?"

if [ -n "$newest" ]; then
	for p in $(newest_of "$name"); do
		printf '%s\t%s\t%s\t%s\n' "$name" "${p%%=*}" "${p#*=}" \
			"$(sum_of "$p")"
	done
	exit
fi

want=
for p in $(printf '%s\n' "$pinned" | cut -d' ' -f1); do
	if [ -z "$(sum_of "$p")" ]; then
		want=$(newest_of "$name") || :
		[ -n "$want" ] ||
			die "$mirror/debian-security has no $name any more"
		echo "kernels.sh: the archive has no $p any more:" \
			"taking the newest:" $want >&2
		break
	fi
	want="$want $p"
done

# shellcheck disable=SC2086 # a list of words
(cd "$tmp/debs" && apt get download $want >&2 9>&-) ||
	die "apt cannot fetch" $want
for p in $want; do
	sum=$(printf '%s\n' "$pinned" | awk -v p="$p" '$1 == p { print $2 }')
	deb=$(echo "$tmp/debs/${p%%=*}_"*.deb)
	[ -z "$sum" ] || echo "$sum  $deb" | sha256sum --check --status ||
		die "$p has not the SHA-256 of $pins"
done

# A kernel's debs are one tree. Its headers name each other by their installed
# paths.
unpack_kernel()
{
	for deb in "$tmp"/debs/*.deb; do
		dpkg-deb -x "$deb" "$tmp/new" || return
	done
	for release in "$tmp"/new/lib/modules/*; do
		release=${release##*/}
	done
	headers=usr/src/linux-headers-$release
	modules=lib/modules/$release
	echo "$release" >"$tmp/new/release"
	sed -i "s,/usr/src/,$dir/usr/src/,g" "$tmp/new/$headers/Makefile" &&
		rm -rf "$tmp/new/usr/share" "$tmp/new/$modules/build" \
			"$tmp/new/$modules/source" &&
		ln -s "boot/vmlinuz-$release" "$tmp/new/vmlinuz" &&
		ln -s "$modules" "$tmp/new/modules" &&
		ln -s "$headers" "$tmp/new/build" &&
		[ -s "$tmp/new/vmlinuz" ] && [ -s "$tmp/new/build/Module.symvers" ]
}

# unpack_source [PART...]: of the source; all of it without any.
unpack_source()
{
	# shellcheck disable=SC2046 # a list of words
	dpkg-deb --fsys-tarfile "$tmp"/debs/*.deb |
		tar -xO --wildcards './usr/src/linux-source-*.tar.xz' |
		tar -xJ -C "$tmp/new" --strip-components=1 --wildcards \
			$([ $# -eq 0 ] || printf 'linux-source-*/%s\n' "$@")
	for part in $parts; do
		[ -e "$tmp/new/$part" ] || return
	done
}

mkdir "$tmp/new"
# shellcheck disable=SC2086 # a list of words
case $name in
source)	unpack_source $parts ;;
tree)	unpack_source ;;
*)	unpack_kernel ;;
esac || die "the packages have not the files that they had"
printf '%s\n' "$pinned" >"$tmp/new/.pins"
rm -rf "$dir"
mv "$tmp/new" "$dir"
printf '%s\n' "$dir"
