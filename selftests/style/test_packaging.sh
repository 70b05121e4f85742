#!/bin/sh
# SPDX-License-Identifier: MIT
#
# tools/packaging/debian/ says what the tree says: one version, the library's
# symbols, what the build needs, licences. Nothing is built.
. "$(dirname "$0")/../tap.sh"
cd "$root" || exit 1
debian=tools/packaging/debian
version=$(sed -n 's/^VERSION := //p' Makefile)

# says NAME FILE EXPRESSION: sed finds the version in the file.
says()
{
	said=$(sed -n "$3" "$2")
	echo "$1: $said, and the Makefile has $version"
	[ "$said" = "$version" ]
}
check "version: changelog" says changelog $debian/changelog \
	'1s/^kvcache (\([^)]*\)) .*/\1/p'
check "version: the module" says MODULE_VERSION kmod/main.c \
	's/^MODULE_VERSION("\(.*\)");/\1/p'
check "version: dkms.conf" says PACKAGE_VERSION kmod/dkms.conf \
	's/^PACKAGE_VERSION="\(.*\)"/\1/p'

# A symbol came with the version that its node has.
symbols()
{
	so=$(sed -n 's/^SOVERSION := //p' Makefile)
	{
		echo "libkvcache.so.$so libkvcache$so #MINVER#"
		echo "* Build-Depends-Package: libkvcache-dev"
		awk '$2 == "{" {
			node = $1
			first = $1
			sub(/.*_/, "", first)
			print " " node "@" node " " first ".0"
		}
		/^\tkvc_.*;$/ {
			sub(/;/, "", $1)
			print " " $1 "@" node " " first ".0"
		}' lib/libkvcache.map
	} | LC_ALL=C sort >"$tmp/map"
	grep -v '^#' "$debian/libkvcache$so.symbols" | LC_ALL=C sort |
		diff - "$tmp/map" || {
		echo "> is missing in $debian/libkvcache$so.symbols"
		return 1
	}
}
check "symbols: those of libkvcache.map" symbols

# What the Makefile looks for before it builds, and for lack of which it leaves
# a program out.
build_depends()
{
	sed -n '/^Build-Depends:/,/^$/p' $debian/control |
		grep -o '[a-z0-9.+-]*' >"$tmp/depends"
	sed -n '/^headers-/,/[^\\]$/p' Makefile | grep -o ':[a-z][a-z0-9.+-]*' |
		tr -d : | sort -u >"$tmp/wanted"
	[ -s "$tmp/wanted" ] && ! grep -v -x -F -f "$tmp/depends" "$tmp/wanted"
}
check "Build-Depends: what the Makefile looks for" build_depends

# A line of overrides follows a comment.
reasons()
{
	find $debian -name '*lintian-overrides' -exec awk '
	     FNR == 1 { was = 0 }
	     /^#/ { was = !/SPDX/ && /[a-z]/; next }
	     /^$/ { was = 0; next }
	     !was { print FILENAME ": " $0 ": no reason"; bad = 1 }
	     END { exit bad }' {} +
}
check "overrides of lintian have reasons" reasons

# Of each file, the last stanza that matches says what the file says.
licences()
{
	git -c safe.directory='*' ls-files >"$tmp/files" &&
	python3 - $debian/copyright "$tmp/files" <<'EOF'
import fnmatch, re, sys

stanzas = []
for text in open(sys.argv[1]).read().split("\n\n"):
    fields = dict(re.findall(r"^([A-Z][A-Za-z-]*): *((?:.*\n?)(?: .*\n?)*)",
                             text, re.M))
    if "Files" in fields:
        stanzas.append((fields["Files"].split(),
                        fields["License"].split("\n")[0].strip()))
bad = seen = 0
for name in open(sys.argv[2]).read().splitlines():
    if name.startswith("selftests/data/"):
        continue
    try:
        head = "".join(open(name, errors="replace").readlines()[:2])
    except (FileNotFoundError, IsADirectoryError):
        continue
    said = re.search(r'SPDX-License-Identifier: (.*?)(?: \*/| -->|",)?$', head, re.M)
    if not said:
        continue
    said = said.group(1).replace("WITH Linux-syscall-note",
                                 "with Linux-syscall-note exception")
    said = sorted(w.strip("() ") for w in said.split(" OR "))
    for globs, licence in stanzas:
        if any(fnmatch.fnmatchcase(name, g) for g in globs):
            have = sorted(licence.split(" or "))
    seen += 1
    if said != have:
        print(f"{name}: {said}, and debian/copyright: {have}")
        bad += 1
sys.exit(bad > 0 or seen < 100)
EOF
}
if needs python3 && needs git; then
	check "copyright: what the files say" licences
else
	skip "copyright" "no python3 or no git"
fi

# ---- packages of other files are not taken ----------------------------------

# A tree with the scripts, and a program that packs a file as if it were all.
fake=$tmp/fake
fake_tree()
{
	mkdir -p "$fake/bin" "$fake/tree/selftests/packages" &&
		cp --parents tools/packaging/build.sh $debian/changelog \
			$debian/control Makefile selftests/tap.sh \
			selftests/packages/kit.sh "$fake/tree/" || return
	cat >"$fake/bin/dpkg-buildpackage" <<-'EOT'
		#!/bin/sh
		for f in x.deb x.dsc x.tar.xz x.buildinfo x.changes; do
			cp file ../$f
		done
	EOT
	cat >"$fake/tree/selftests/packages/test.sh" <<-'EOT'
		. "$(dirname "$0")/kit.sh"
		lacks() { :; }
		needs_packages "them"
		cat "$debs/x.deb"
	EOT
	ln -s /bin/true "$fake/bin/dh"
	chmod +x "$fake/bin/dpkg-buildpackage"
	echo one >"$fake/tree/file"
	(cd "$fake/tree" && git init -q && git add .)
}
# packed WHAT: what a test that needs packages gets.
packed()
{
	got=$(cd "$fake/tree" && PATH=$fake/bin:$PATH KVCACHE_BUILD=$fake/build \
		sh selftests/packages/test.sh | grep -v TAP)
	echo "$got, not $1"
	[ "$got" = "$1" ]
}
anew()
{
	packed one && echo gone >"$fake/build/deb/x.deb" && packed gone &&
		echo two >"$fake/tree/file" && packed two &&
		echo unknown >"$fake/tree/other" &&
		echo gone >"$fake/build/deb/x.deb" && packed gone &&
		chmod +x "$fake/tree/file" && packed two &&
		echo gone >"$fake/build/deb/x.deb" &&
		rm "$fake/tree/tools/packaging/debian/control" && packed two
}
if needs git && needs dpkg-parsechangelog; then
	check "a tree of two scripts" fake_tree
	check "packages of other files are made anew" anew
else
	skip "packages of other files" "no git or no dpkg-parsechangelog"
fi

tap_end
