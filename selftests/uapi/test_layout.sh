#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The ABI header against layout.c: sizes, offsets and numbers, on 64 and 32
# bits, and that layout.c leaves nothing out.
. "$(dirname "$0")/../tap.sh"
here=$root/selftests/uapi
uapi=$root/kmod/include/uapi
header=$uapi/linux/kvcache.h
layout=$here/layout.c

compiles()
{
	"$@" -Wall -Wextra -Werror -fsyntax-only -I"$uapi" "$layout"
}

# compiler NAME COMMAND...: layout.c, by that compiler if it works.
compiler()
{
	name=$1
	shift
	if ! echo '#include <linux/types.h>' |
	     "$@" -fsyntax-only - 2>/dev/null; then
		skip "$name" "no working $*: needs gcc-multilib, g++ or clang"
		return
	fi
	check "$name" compiles "$@"
}

compiler "layout: gcc, 64 bits" gcc -m64 -std=c11 -x c
compiler "layout: gcc, 32 bits" gcc -m32 -std=c11 -x c
compiler "layout: g++, 64 bits" g++ -m64 -std=c++11 -x c++
compiler "layout: g++, 32 bits" g++ -m32 -std=c++11 -x c++
compiler "layout: clang, 64 bits" clang -m64 -std=c11 -x c
compiler "layout: clang, 32 bits" clang -m32 -std=c11 -x c

# A header that is wrong in one place does not compile.
notices()
{
	mkdir -p "$tmp/wrong/linux"
	sed "$1" "$header" >"$tmp/wrong/linux/kvcache.h"
	! cmp -s "$header" "$tmp/wrong/linux/kvcache.h" &&
		! gcc -std=c11 -fsyntax-only -I"$tmp/wrong" "$layout" \
			2>/dev/null
}

check "a member too many is noticed" \
	notices 's/^struct kvcache_found {/&\n\t__aligned_u64 extra;/'
check "a member of another width is noticed" \
	notices 's/__u32 keys_per_page;/__u16 keys_per_page;/'
check "two members that changed places are noticed" \
	notices '/^struct kvcache_lookup {/,/^}/s/__u32 tail;/__u32 swap;/
		 /^struct kvcache_lookup {/,/^}/s/__u32 keys_per_page;/__u32 tail;/
		 /^struct kvcache_lookup {/,/^}/s/__u32 swap;/__u32 keys_per_page;/'
check "a renumbered command is noticed" \
	notices 's/^\(#define KVCACHE_NR_FREE\t*\)0x11/\10x19/'

# The names in the header and in layout.c, as sorted lists.
structs()
{
	sed -n 's/^struct \([a-z0-9_]*\) {$/\1/p' "$header" | sort
}
commands()
{
	sed -n 's/^#define KVCACHE_NR_\([A-Z0-9_]*\).*/\1/p' "$header" | sort
}
constants()
{
	commands | sed 's/^/KVCACHE_/' >"$tmp/commands"
	sed -n 's/^#define \(KVCACHE_[A-Z0-9_]*\)[ \t].*/\1/p' "$header" |
		grep -v -e '^KVCACHE_NR_' -e '^KVCACHE_IOC_TYPE$' |
		grep -v -x -F -f "$tmp/commands" | sort
}
listed()
{
	sed -n "s/^$1(\([A-Za-z0-9_]*\)[,)].*/\1/p" "$layout" | sort
}
same()
{
	"$1" >"$tmp/a"
	listed "$2" >"$tmp/b"
	[ -s "$tmp/a" ] && diff "$tmp/a" "$tmp/b"
}

# No padding and no gaps: the members of a struct add up to its size.
sums()
{
	tr '(,);' '    ' <"$layout" | awk '
		/^STRUCT /	{ size[$2] = $3 }
		/^MEMBER /	{ if ($4 != sum[$2]) {
					print $2 "." $3 " is not at " sum[$2]
					bad = 1
				  }
				  sum[$2] += $5 }
		END		{ for (s in size)
					if (size[s] != sum[s]) {
						print s ": " sum[s] " of " size[s]
						bad = 1
					}
				  exit bad }'
}

small()
{
	tr '(,);' '    ' <"$layout" |
		awk '/^STRUCT / && $3 >= 16384 { print; bad = 1 }
		     END { exit bad }'
}

unique()
{
	[ -z "$(tr '(,);' '    ' <"$layout" | awk '/^COMMAND / { print $3 }' |
		sort | uniq -d)" ]
}

check "every struct is listed" same structs STRUCT
check "every member is listed" sums
check "every command is listed" same commands COMMAND
check "every constant is listed" same constants CONSTANT
check "no number is used by two commands" unique
check "every struct is smaller than 16 KiB" small

# pahole sees what the compiler did.
no_holes()
{
	{
		echo '#include <linux/kvcache.h>'
		structs | sed 's/.*/struct & v_&;/'
	} >"$tmp/all.c"
	gcc "$1" -g -c -I"$uapi" -o "$tmp/all.o" "$tmp/all.c" || return
	pahole "$tmp/all.o" >"$tmp/pahole" || return
	[ "$(grep -c '^struct kvcache_.* {' "$tmp/pahole")" \
	  -eq "$(structs | wc -l)" ] || return
	! grep -n -E 'hole|padding' "$tmp/pahole"
}

for m in 64 32; do
	if ! needs pahole; then
		skip "no holes, $m bits" "no pahole: needs dwarves"
	elif ! echo | gcc -m$m -x c -c -o /dev/null - 2>/dev/null; then
		skip "no holes, $m bits" "no gcc -m$m: needs gcc-multilib"
	else
		check "no holes, $m bits" no_holes -m$m
	fi
done

tap_end
