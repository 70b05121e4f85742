#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Print the folder of a kernel that watches over the module, after building it
# if need be.
#
#	debug-kernel.sh debug	KASAN, lockdep, kmemleak, injected faults
#	debug-kernel.sh kcsan	data races
#	debug-kernel.sh um	a kernel that is a program: User Mode Linux
#
# The folder is as kernels.sh has them: vmlinuz (linux, of um), release,
# modules/, build/. It
# is built from the source that kernels.sh fetches, with the packages of
# packages.txt, in about 19 minutes of one CPU, and kept beside the others, by
# the version of the source and a hash of what decides how it comes out.
# $JOBS compilers at a time, by default one for each CPU.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
setup=$here/../../tools/setup
jobs=${JOBS:-$(nproc)}
arch=x86_64 image=arch/x86/boot/bzImage

die()
{
	echo "debug-kernel.sh: $*" >&2
	exit 1
}

case ${1:-} in
debug)	configs=$here/debug.config flags= ;;
kcsan)	configs="$here/debug.config $here/kcsan.config" flags=KCSAN_SANITIZE=n ;;
um)	configs=$here/um.config flags='' arch=um image=linux ;;
*)	die "usage: debug-kernel.sh debug|kcsan|um" ;;
esac

for program in gcc flex bison bc; do
	command -v $program >/dev/null ||
		die "no $program: see tools/setup/packages.txt"
done
tree=$("$setup/kernels.sh" tree)
cache=${tree%/*}
version=$(sed 's/.*=//; s/ .*//; q' "$tree/.pins")
# shellcheck disable=SC2086 # a list of words
key=$({
	echo "$flags"
	gcc --version
	cat $configs "$tree/.pins" | grep -v '^#.*[^t]$'
} | sha256sum | cut -c1-12)
dir=$cache/$1-$version-$key
exec 9>"$dir.lock"
flock 9
if [ -e "$dir/.done" ]; then
	printf '%s\n' "$dir"
	exit
fi

rm -rf "$dir"
mkdir -p "$dir/build" "$dir/modules"
log=$dir/build.log
echo "debug-kernel.sh: building $dir, log in $log" >&2

# Not of the make that may have called: no jobserver, no variables of its
# command line.
kbuild()
{
	# shellcheck disable=SC2086 # a list of words
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES \
		make -C "$tree" O="$dir/build" ARCH=$arch $flags -j"$jobs" "$@" \
		>>"$log" 2>&1 </dev/null 9>&- || {
		tail -n 20 "$log" >&2
		die "make $* failed"
	}
}

# What has no prompt, something has to select.
if [ $arch = um ]; then
	{
		cat "$tree/Kconfig"
		printf 'config KVCACHE_UM\n\tdef_bool y\n\tselect MMU_NOTIFIER\n'
	} >"$dir/Kconfig"
	export KBUILD_KCONFIG="$dir/Kconfig"
fi
kbuild tinyconfig
# shellcheck disable=SC2086 # a list of words
cat $configs >>"$dir/build/.config"
kbuild olddefconfig

# What a later line takes back is not wanted.
# shellcheck disable=SC2086 # a list of words
lost=$(awk '{ sub(/^# /, ""); sub(/ is not set$/, "=n") }
	/^CONFIG_/ { want[$0 ~ /=/ ? substr($0, 1, index($0, "=") - 1) : $0] = $0 }
	END { for (k in want) if (want[k] !~ /=n$/) print want[k] }' $configs |
	grep -v -x -F -f "$dir/build/.config" || :)
[ -z "$lost" ] || die "this kernel cannot have: $(echo "$lost" | tr "\n" " ")"

kbuild ${image##*/} modules
cp "$dir/build/include/config/kernel.release" "$dir/release"
case $arch in
um)	ln "$dir/build/linux" "$dir/linux" ;;
*)	ln -s build/$image "$dir/vmlinuz" ;;
esac
cp "$dir"/build/modules.builtin* "$dir/modules/"
# Modules need headers, tools and symbols, no objects.
find "$dir/build" -path "$dir/build/scripts" -prune -o \
	-path "$dir/build/tools" -prune -o \
	'(' -name '*.o' -o -name '*.a' -o -name '.*.cmd' ')' -type f \
	-exec rm -f {} +
touch "$dir/.done"
printf '%s\n' "$dir"
