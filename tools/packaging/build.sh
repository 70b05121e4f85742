#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Build the Debian packages, and the source package, from the files that git
# knows, as they are now.
#
#	build.sh [-o FOLDER] [-w FOLDER]
#	build.sh -s
#
#	-o FOLDER	where they go, made anew (build/deb)
#	-w FOLDER	where they are built ($TMPDIR); the packages do not depend
#			on it
#	-s		print what tells these files from others, and build
#			nothing; what was built from has it in FOLDER/.files
#
# The same files give the same packages, byte by byte: the only time in them is
# that of debian/changelog. The tree is left as it is; no network and no root are
# needed. The last line is the folder.
set -eu
tree=$(cd "$(dirname "$0")/../.." && pwd)
out=$tree/build/deb work=${TMPDIR:-/tmp}

die()
{
	echo "build.sh: $*" >&2
	exit 1
}

# Names, contents and modes of the files of list $2, in folder $1.
sum()
{
	tar -c -C "$1" --format=gnu --owner=0 --group=0 --numeric-owner \
		--mtime=@0 --mode=u=rwX,go=rX --no-recursion --null -T "$2" \
		>"$work/tar" && sha256sum <"$work/tar" | cut -d' ' -f1
	rm "$work/tar"
}

only_sum=
while getopts o:sw: option; do
	case $option in
	o)	out=$OPTARG ;;
	s)	only_sum=1 ;;
	w)	work=$OPTARG ;;
	*)	exit 2 ;;
	esac
done
command -v git >/dev/null || die "no git: apt-get install git"
mkdir -p "$work"
work=$(mktemp -d "$(cd "$work" && pwd)/kvcache-deb.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

# What git does not know is not in the packages; what was removed from the
# working tree is not, either.
git -C "$tree" -c safe.directory='*' ls-files -z >"$work/files" ||
	die "cannot export the tree: is it a git repository?"
tr '\0' '\n' <"$work/files" | while IFS= read -r f; do
	[ ! -e "$tree/$f" ] || printf '%s\0' "$f"
done >"$work/there"
if [ -n "$only_sum" ]; then
	sum "$tree" "$work/there"
	exit
fi

for program in dpkg-buildpackage dh; do
	command -v $program >/dev/null ||
		die "no $program: apt-get install dpkg-dev debhelper"
done
changelog=$tree/tools/packaging/debian/changelog
version=$(dpkg-parsechangelog -l "$changelog" -S Version)
epoch=$(dpkg-parsechangelog -l "$changelog" -S Timestamp)

mkdir -p "$out"
out=$(cd "$out" && pwd)
umask 022
source=$work/kvcache-$version
mkdir "$source"
tar -c -C "$tree" --null -T "$work/there" >"$work/tar"
tar -x -C "$source" -f "$work/tar"
sum "$source" "$work/there" >"$work/sum"
cp -r "$source/tools/packaging/debian" "$source/debian"
chmod -R u=rwX,go=rX "$source"
find "$source" -exec touch -h -d "@$epoch" {} +

# Not of the make that called this: no jobserver, no variables of its command
# line. Flags of who builds would be others for somebody else.
(
	cd "$source"
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES -u CC -u O \
		-u CFLAGS -u CPPFLAGS -u LDFLAGS -u SOURCE_DATE_EPOCH \
		DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-parallel=$(nproc)}" \
		dpkg-buildpackage -us -uc
) >&2 </dev/null || die "dpkg-buildpackage failed"

rm -f "$out/.files" "$out"/*.deb "$out"/*.dsc "$out"/*.tar.* "$out"/*.buildinfo \
	"$out"/*.changes
mv "$work"/*.deb "$work"/*.dsc "$work"/*.tar.* "$work"/*.buildinfo \
	"$work"/*.changes "$out/"
mv "$work/sum" "$out/.files"
echo "$out"
