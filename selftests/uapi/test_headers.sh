#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Every public header compiles alone, twice over, as every kind of C and C++
# that a program may be written in.
. "$(dirname "$0")/../tap.sh"
inc="-I$root/kmod/include/uapi -I$root/lib/include -I$root/kernels/include"
warn='-Wall -Wextra -Wundef -pedantic -Werror'

alone()
{
	header=$1
	shift
	printf '#include <%s>\n#include <%s>\nint unused;\n' \
		"$header" "$header" >"$tmp/alone.c"
	# shellcheck disable=SC2086 # lists of options
	"$@" -fsyntax-only $warn $inc "$tmp/alone.c"
}

# compiler HEADER COMPILER LANGUAGE STANDARD...: also with the option in $extra.
compiler()
{
	header=$1 cc=$2 lang=$3
	shift 3
	for std in "$@"; do
		if needs "$cc"; then
			check "<$header>: $cc -std=$std" alone "$header" \
				"$cc" -x "$lang" "-std=$std" $extra
		else
			skip "<$header>: $cc -std=$std" "no $cc"
		fi
	done
}

# The ABI has no padding anywhere; the others need C99 for <stdint.h>.
extra=-Wpadded
compiler linux/kvcache.h gcc c gnu89 c99 c11 c17 c2x
compiler linux/kvcache.h clang c gnu89 c99 c11 c17 c2x
compiler linux/kvcache.h g++ c++ c++98 c++11 c++14 c++17 c++20
compiler linux/kvcache.h clang++ c++ c++98 c++11 c++20

extra=-Wc++-compat
for h in kvcache/kvcache.h kvcache/seq.h kvcache/batch.h kvcache/save.h \
	kvcache/tier.h kvattn.h; do
	compiler $h gcc c c99 c11 c2x
	compiler $h clang c c99 c2x
done
extra=
for h in kvcache/kvcache.h kvcache/seq.h kvcache/batch.h kvcache/save.h \
	kvcache/tier.h kvattn.h; do
	compiler $h g++ c++ c++11 c++20
	compiler $h clang++ c++ c++11 c++20
done

tap_end
