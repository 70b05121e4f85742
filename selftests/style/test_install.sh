#!/bin/sh
# SPDX-License-Identifier: MIT
#
# make install: a program finds headers and library by pkg-config alone, and
# make uninstall leaves nothing. make itself: what must rebuild does.
. "$(dirname "$0")/../tap.sh"
cd "$root" || exit 1
at=$tmp/at
export PKG_CONFIG_PATH="$at/lib/pkgconfig"

# Not of the tests' make: no jobserver, no variables of its command line.
quiet_make()
{
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES \
		make --no-print-directory O="$build" "$@"
}
if [ ! -e "$build/.flags" ]; then
	skip "install" "nothing is built in $build"
	tap_end
fi
# The same flags as the build has, or everything would be built again.
werror=
grep -q -e ' -Werror ' "$build/.flags" && werror=WERROR=1

files_of()
{
	(cd "$1" && find . ! -type d | sort)
}
staged()
{
	quiet_make $werror install prefix=/opt/kv DESTDIR="$tmp/stage" || return
	[ "$(files_of "$at")" = "$(files_of "$tmp/stage/opt/kv")" ] &&
		[ "$(ls "$tmp/stage")" = opt ]
}
check "install" quiet_make $werror install prefix="$at"
check "install below DESTDIR" staged

# Pages that are there by another name, too.
pages()
{
	MANPATH=$at/share/man man -P cat kvc_seq_fork | grep -q 'kvc_sequences(3)' &&
		MANPATH=$at/share/man man -P cat kvcachectl | grep -q 'kvcachectl(1)'
}
no_scdoc()
{
	quiet_make O="$tmp/o" SCDOC=no-such-scdoc man >"$tmp/said" || return
	cat "$tmp/said"
	grep -q '^  SKIP .*needs scdoc: run make setup' "$tmp/said" &&
		[ ! -e "$tmp/o/man" ]
}
if [ ! -e "$build/man/.made" ]; then
	skip "manual pages are installed" "needs scdoc"
elif ! needs man; then
	skip "manual pages are installed" "no man"
else
	check "manual pages are installed" pages
fi
check "without scdoc there are no pages, and that is said" no_scdoc

cat >"$tmp/user.c" <<'EOT'
#include <stdio.h>
#include <kvcache/kvcache.h>

int main(void)
{
	struct kvc_open_opts opts = {
		.sz = sizeof(opts), .local_bytes = 16 << 20
	};
	struct kvcache_query q = { 0 };
	float turn[2];
	struct kvc *ctx;
	int ret;

	ret = kvc_open("local", &opts, &ctx);
	if (ret < 0)
		return 1;
	ret = kvc_call(ctx, KVCACHE_NR_QUERY, &q);
	kvc_rope_table(turn, 0, 1, 2, 10000, 1, NULL);
	printf("%s %g %g %u\n", kvc_backend(ctx), turn[0], turn[1],
	       q.out_abi_version);
	kvc_close(ctx);
	return ret < 0;
}
EOT

# use STATIC: compile user.c against the installed copy, and run it.
use()
{
	flags=$(pkg-config $1 --cflags --libs libkvcache) || return
	case $flags in
	*"$root"*) echo "not the copy: $flags"; return 1 ;;
	esac
	# shellcheck disable=SC2086 # a list of options
	(cd "$tmp" && gcc -std=c99 -Wall -Wextra -pedantic -Werror -o user \
		user.c $2 $flags) || return
	LD_LIBRARY_PATH="$at/lib" "$tmp/user" >"$tmp/said" || return
	cat "$tmp/said"
	[ "$(cat "$tmp/said")" = "local 1 0 1" ]
}
shared()
{
	use "" "" && readelf -d "$tmp/user" | grep -q 'NEEDED.*libkvcache.so.0'
}
static()
{
	use --static "-Wl,-Bstatic -L$at/lib -lkvcache -Wl,-Bdynamic" &&
		rm -f "$at"/lib/libkvcache.so*
	! readelf -d "$tmp/user" | grep -q 'NEEDED.*libkvcache'
}
version()
{
	want=$(sed -n 's/^VERSION := //p' Makefile)
	[ "$(pkg-config --modversion libkvcache)" = "$want" ] &&
		[ -f "$at/lib/libkvcache.so.$want" ]
}
exports_only_ours()
{
	nm -D --defined-only "$at/lib/libkvcache.so" |
		awk '$2 != "A" && $3 !~ /^kvc_/ { print; bad = 1 } END { exit bad }'
}
# Every function that the public headers declare is there to be called.
all_exported()
{
	grep -h -v '^ \*' lib/include/kvcache/kvcache.h \
		lib/include/kvcache/seq.h lib/include/kvcache/batch.h \
		lib/include/kvcache/save.h \
		lib/include/kvcache/tier.h |
		grep -o '\<kvc_[a-z0-9_]*(' | tr -d '(' |
		sort -u >"$tmp/declared"
	nm -D --defined-only "$at/lib/libkvcache.so" |
		awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u >"$tmp/exported"
	[ -s "$tmp/declared" ] && ! comm -23 "$tmp/declared" "$tmp/exported" |
		grep .
}
# The archive is linked into programs of others: no name but ours is visible.
archive_names()
{
	nm -g --defined-only "$at/lib/libkvcache.a" 2>/dev/null |
		awk 'NF == 3 && $3 !~ /^kv[cal]_/ { print; bad = 1 }
		     END { exit bad }'
}
as_cxx()
{
	printf '#include <kvcache/kvcache.h>\n' >"$tmp/u.cc"
	# shellcheck disable=SC2046 # a list of options
	(cd "$tmp" && g++ -std=c++11 -fsyntax-only u.cc \
		$(pkg-config --cflags libkvcache))
}

if needs pkg-config; then
	check "version" version
	check "a program with the shared library" shared
	check "the library exports kvc_ only" exports_only_ours
	check "the library exports what its headers declare" all_exported
	check "the archive has no names of others" archive_names
	check "a C++ program" as_cxx
	check "a program with the archive" static
else
	skip "the installed library" "no pkg-config"
fi

# By somebody who has neither scdoc nor what two of the programs need, and has
# built nothing: what goes is not what he would install.
check "uninstall" quiet_make O="$tmp/none" SCDOC=no-such-scdoc \
	no-tools='kvcachefs kvcache-exporter' uninstall prefix="$at"
check "nothing is left" [ "$(files_of "$at")" = "" ]
check "and nothing was built for that" [ ! -e "$tmp/none/man" ]
of_others()
{
	mkdir -p "$at/share/man/man1" "$at/bin" &&
		touch "$at/share/man/man1/other.1" "$at/bin/other" &&
		quiet_make uninstall prefix="$at" || return
	files_of "$at"
	[ "$(files_of "$at" | tr '\n' ' ')" = \
		"./bin/other ./share/man/man1/other.1 " ]
}
check "what is of others stays" of_others

# What dkms_install installs, with other files beside it.
no_dkms()
{
	stage=$tmp/dkms
	dir=$stage/usr/src/kvcache-$(sed -n 's/^VERSION := //p' Makefile)
	quiet_make dkms_install DESTDIR="$stage" &&
		files_of "$stage" >"$tmp/said" && cat "$tmp/said" &&
		grep -q 60-kvcache.rules "$tmp/said" &&
		[ -e "$dir/dkms.conf" ] && touch "$dir/../other" || return
	mkdir -p "$stage/var/lib/dkms/kvcache/${dir##*-}"
	! quiet_make dkms_uninstall DESTDIR="$stage" 2>"$tmp/said" &&
		[ -e "$dir/dkms.conf" ] &&
		grep "first dkms remove kvcache/${dir##*-} --all" "$tmp/said" &&
		rm -r "${stage:?}/var" || return
	quiet_make dkms_uninstall DESTDIR="$stage" || return
	files_of "$stage"
	[ "$(files_of "$stage")" = ./usr/src/other ] && [ ! -e "$dir" ]
}
check "dkms_uninstall" no_dkms

# One test will do, for those who have not built all.
nothing_to_do()
{
	what="lib tools man $build/selftests/unit/test_sys_local"
	# shellcheck disable=SC2086 # a list of targets
	quiet_make $werror $what >"$tmp/all" &&
		quiet_make $werror $what >"$tmp/all" || return
	# What is skipped is said each time.
	grep -v -e '^  SKIP ' -e '^make: ' "$tmp/all" >"$tmp/said"
	cat "$tmp/said"
	[ ! -s "$tmp/said" ]
}
check "make twice does nothing twice" nothing_to_do

# rebuilt ARGUMENT...: was the object compiled just now?
rebuilt()
{
	quiet_make O="$tmp/o" "$@" "$tmp/o/kernels/config.o" >"$tmp/said" || return
	grep -q 'CC .*kernels/config.c' "$tmp/said"
}
flags_rebuild()
{
	rebuilt && ! rebuilt && rebuilt CFLAGS=-DX && ! rebuilt CFLAGS=-DX &&
		rebuilt CFLAGS=-DX -W kernels/include/kvattn.h
}
check "other flags and changed headers rebuild" flags_rebuild

names_package()
{
	tools/setup/headers.sh gcc no/such/header.h:libnone-dev stddef.h:libc 2>&1 |
		grep -x 'needs libnone-dev: run make setup, or apt-get install libnone-dev' &&
		! tools/setup/headers.sh gcc no/such/header.h:libnone-dev &&
		! tools/setup/headers.sh no-such-cc &&
		tools/setup/headers.sh gcc stddef.h:libc
}
check "a missing header is named by its package" names_package

tap_end
