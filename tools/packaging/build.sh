#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Build the Debian packages, and the source package, from the files that git
# knows, as they are now.
#
#	build.sh [-o FOLDER] [-w FOLDER]
#
#	-o FOLDER	where they go, made anew (build/deb)
#	-w FOLDER	where they are built ($TMPDIR); the packages do not depend
#			on it
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

while getopts o:w: option; do
	case $option in
	o)	out=$OPTARG ;;
	w)	work=$OPTARG ;;
	*)	exit 2 ;;
	esac
done
for program in dpkg-buildpackage dh git; do
	command -v $program >/dev/null ||
		die "no $program: apt-get install dpkg-dev debhelper git"
done
changelog=$tree/tools/packaging/debian/changelog
version=$(dpkg-parsechangelog -l "$changelog" -S Version)
epoch=$(dpkg-parsechangelog -l "$changelog" -S Timestamp)

mkdir -p "$out" "$work"
out=$(cd "$out" && pwd)
work=$(mktemp -d "$(cd "$work" && pwd)/kvcache-deb.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

# What git does not know is not in the packages; what was removed from the
# working tree is not, either.
umask 022
source=$work/kvcache-$version
mkdir "$source"
(
	cd "$tree"
	git -c safe.directory='*' ls-files -z >"$work/files"
	while IFS= read -r f; do
		[ -e "$f" ] && printf '%s\0' "$f"
	done <<-EOF >"$work/there"
	$(tr '\0' '\n' <"$work/files")
	EOF
	tar -c --null -T "$work/there" | tar -x -C "$source"
) || die "cannot export the tree: is it a git repository?"
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

rm -f "$out"/*.deb "$out"/*.dsc "$out"/*.tar.* "$out"/*.buildinfo \
	"$out"/*.changes
mv "$work"/*.deb "$work"/*.dsc "$work"/*.tar.* "$work"/*.buildinfo \
	"$work"/*.changes "$out/"
echo "$out"
