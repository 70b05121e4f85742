#!/bin/sh
# SPDX-License-Identifier: MIT
# timeout: 600
#
# The packages: built twice from the same files, in other folders, with other
# settings and without a network, they are the same bytes; lintian has nothing to
# say; each file that is installed is in one of them.
. "$(dirname "$0")/kit.sh"
cd "$root" || exit 1
skip_without "$(lacks)" "packages"
ours=tools/packaging

# In a network of its own that has nobody in it, where that can be had.
alone=
unshare -n true 2>/dev/null && alone='unshare -n'
first()
{
	TZ=UTC LC_ALL=C $ours/build.sh -o "$debs"
}
second()
{
	umask 027
	mkdir -p "$tmp/another/folder" && cd / &&
		TZ=Pacific/Auckland LC_ALL=C.UTF-8 HOME="$tmp" USER=somebody \
		CFLAGS=-O0 DEB_BUILD_OPTIONS=parallel=1 \
		$alone "$root/$ours/build.sh" -w "$tmp/another/folder" \
		-o "$tmp/second"
}
clean()
{
	[ "$(git -c safe.directory='*' status --porcelain)" = "$before" ] &&
		[ "$(cd "$tmp/another/folder" && find . ! -name .)" = "" ]
}
before=$(git -c safe.directory='*' status --porcelain)
check "the packages build" first
[ "$tap_bad" -eq 0 ] || tap_end
check "once more, elsewhere${alone:+ and without a network}" second
check "the tree is as it was, and the folder empty" clean

sums()
{
	(cd "$1" && sha256sum ./*.deb ./*.dsc ./*.tar.*)
}
# What differs first, where something does.
differs()
{
	for d in "$debs"/*.deb; do
		o=$tmp/second/${d##*/}
		cmp -s "$d" "$o" && continue
		rm -rf "$tmp/x" "$tmp/y"
		dpkg-deb -R "$d" "$tmp/x" && dpkg-deb -R "$o" "$tmp/y"
		echo "${d##*/} differs:"
		(cd "$tmp" && diff -rq x y)
		f=$(cd "$tmp" && diff -rq x y | sed -n '1s/^Files x\/\(.*\) and .*/\1/p')
		[ -z "$f" ] || cmp -l "$tmp/x/$f" "$tmp/y/$f" | head -n 3
		# The same files, so something of the archive.
		[ -n "$f" ] || {
			dpkg-deb -c "$d" >"$tmp/c"
			dpkg-deb -c "$o" | diff "$tmp/c" - | head -n 4
		}
	done
}
same()
{
	sums "$debs" >"$tmp/a" && sums "$tmp/second" >"$tmp/b" || return
	cat "$tmp/a"
	cmp "$tmp/a" "$tmp/b" && return
	diff "$tmp/a" "$tmp/b"
	differs
	return 1
}
check "the same bytes, packages and source" same

# ---- what is in them --------------------------------------------------------

all_there()
{
	for p in $packages; do
		[ -e "$(deb "$p")" ] || { echo "no $p"; return 1; }
	done
}
check "all packages" all_there

if needs lintian; then
	check "lintian: no error, no warning" lintian --allow-root \
		--no-tag-display-limit --fail-on error,warning \
		"$debs"/*.changes
else
	skip "lintian" "no lintian"
fi

# files_of PACKAGE: manual pages as make install has them.
files_of()
{
	dpkg-deb --fsys-tarfile "$(deb "$1")" | tar -t |
		grep -v '/$' | sed 's,^\./,,; /^usr\/share\/man\//s,\.gz$,,' |
		grep -v '^usr/share/doc/'
}
contents()
{
	for p in $packages; do
		files_of "$p"
	done | sort >"$tmp/packed"
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES \
		make --no-print-directory -s DESTDIR="$tmp/stage" prefix=/usr \
		libdir="/usr/lib/$(dpkg-architecture -q DEB_HOST_MULTIARCH)" \
		udevrulesdir=/lib/udev/rules.d \
		unitdir=/lib/systemd/system sysconfdir=/etc O="$build" $werror \
		install dkms_install || return
	(cd "$tmp/stage" && find . ! -type d | sed 's,^\./,,' |
		sort) >"$tmp/installed"
	if uniq -d "$tmp/packed" | grep .; then
		echo "in more than one package"
		return 1
	fi
	# The group is made by whatever package needs it.
	grep -v '^usr/lib/sysusers\.d/kvcache-' "$tmp/packed" |
		diff - "$tmp/installed"
}
werror=
grep -q -s -e ' -Werror ' "$build/.flags" && werror=WERROR=1
check "each file that make install has is in one package" contents

no_sources()
{
	for f in "$root"/kmod/*.[ch] "$root"/kmod/Kbuild; do
		f=usr/src/kvcache-$version/${f##*/}
		grep -x "$f" "$tmp/packed" || { echo "no $f"; return 1; }
	done
	grep -x "usr/src/kvcache-$version/include/uapi/linux/kvcache.h" \
		"$tmp/packed"
}
check "the module's source is whole" no_sources

# depends_on PACKAGE WORD
depends_on()
{
	dpkg-deb -f "$(deb "$1")" Depends Pre-Depends Recommends | grep "$2"
}
independent()
{
	! depends_on libkvcache0 dkms && ! depends_on kvcache-tools dkms &&
		! depends_on libkvcache-dev dkms &&
		depends_on libkvcache-dev "libkvcache0 (= $version)"
}
check "nothing needs the module's package" independent

hardened()
{
	mkdir -p "$tmp/tools" && dpkg-deb -x "$(deb kvcache-tools)" "$tmp/tools" &&
		dpkg-deb -x "$(deb libkvcache0)" "$tmp/tools" || return
	for f in "$tmp"/tools/usr/bin/* "$tmp"/tools/usr/lib/*/*.so.*.*; do
		file=${f##*/}
		readelf -d "$f" | grep -q 'FLAGS_1.*NOW' || echo "$file: not NOW"
		readelf -l "$f" | grep -q GNU_RELRO || echo "$file: no RELRO"
		readelf -h "$f" | grep -q 'Type:.*DYN' || echo "$file: no PIE"
		readelf -s --dyn-syms -W "$f" >"$tmp/symbols"
		grep -q '__stack_chk_fail' "$tmp/symbols" ||
			echo "$file: no stack protector"
		grep -q '_chk@' "$tmp/symbols" || echo "$file: not fortified"
	done >"$tmp/soft"
	cat "$tmp/soft"
	[ ! -s "$tmp/soft" ]
}
check "hardened" hardened

tap_end
