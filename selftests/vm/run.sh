#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Load the module in real kernels, in virtual machines without a disk, and run
# test programs there.
#
#	run.sh [OPTION...] KERNEL[,KERNEL...] SUITE...
#
# KERNEL is a name of kernels.txt, or a folder with vmlinuz (or linux, a kernel
# that is a program), release and modules/. SUITE is a folder of selftests/, all tests of which are run, or the
# path of one program. They run as root, each for itself, in a folder that stands
# for both the tree and the build folder and has of these what -f brings. The
# module is loaded once for all of them, and has to unload afterwards.
#
#	-k FILE		the module; a % stands for the kernel's name
#			($KVCACHE_BUILD/kmod-%/kvcache.ko)
#	-K		no module
#	-p PARAMETERS	for the module, as insmod takes them
#	-d NAME		a module of the kernel that is loaded first, e.g. brd; or
#			the path of another, as with -k
#	-e NAME=VALUE	environment of the tests
#	-f FILE		a file, a folder or a program that tests need; it gets its
#			place below the tree or the build folder
#	-m MIB		memory (1024)
#	-n WORD		what is added to the machines' names, for another run with
#			the same kernel
#	-t SECONDS	limit for one machine (280)
#	-T SECONDS	limit for one test program (120)
#	-o FOLDER	logs ($KVCACHE_BUILD/log-vm)
#	-l		only print the paths of programs that say what the tests
#			said, for run-tests.sh to run among others
#
# $VM_APPEND is added to the kernel's command line, $VM_QEMU to QEMU's.
# The last line is "N passed, N failed, N skipped", as of run-tests.sh.
set -u
here=$(cd "$(dirname "$0")" && pwd)
tree=$(cd "$here/../.." && pwd)
build=$(realpath -m "${KVCACHE_BUILD:-$tree/build}")
ko=$build/kmod-%/kvcache.ko
log=$build/log-vm
params='' drivers='' env='' files='' list='' suffix='' memory=1024 limit=280 test_limit=120

die()
{
	echo "run.sh: $*" >&2
	exit 2
}

while getopts k:Kp:d:e:f:m:n:t:T:o:l option; do
	case $option in
	k)	ko=$OPTARG ;;
	K)	ko= ;;
	p)	params=$OPTARG ;;
	d)	drivers="$drivers $OPTARG" ;;
	e)	env="$env
export ${OPTARG%%=*}='${OPTARG#*=}'" ;;
	f)	files="$files
$OPTARG" ;;
	m)	memory=$OPTARG ;;
	n)	suffix=-$OPTARG ;;
	t)	limit=$OPTARG ;;
	T)	test_limit=$OPTARG ;;
	o)	log=$OPTARG ;;
	l)	list=1 ;;
	*)	exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || die "usage: run.sh [OPTION...] KERNEL[,KERNEL...] SUITE..."
kernels=$(echo "$1" | tr , ' ')
shift

for program in qemu-system-x86_64 busybox cpio flock; do
	command -v "$program" >/dev/null && continue
	why="no $program: see tools/setup/packages.txt"
	echo "# SKIP $why" >&2
	if [ -n "$list" ]; then
		mkdir -p "$log/selftests/vm" || exit 2
		skipped=$log/selftests/vm/skipped$suffix
		printf '#!/bin/sh\nprintf "# SKIP %%s\\n" "%s"\n' "$why" >"$skipped"
		printf 'echo "ok 1 machines # SKIP"\necho 1..1\nexit 4\n' >>"$skipped"
		chmod +x "$skipped" && echo "$skipped"
	else
		echo "0 passed, 0 failed, 1 skipped"
	fi
	exit 0
done

mkdir -p "$log" || exit 2
log=$(cd "$log" && pwd)
tmp=$(mktemp -d)
pid=
reap()
{
	[ -z "$pid" ] || kill -s KILL -- "-$pid" 2>/dev/null
	pid=
}
trap 'reap; rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP

# ---- the tests ------------------------------------------------------------

# The programs, each with its place below /selftests.
list_tests()
{
	for suite; do
		case $suite in
		*/*)	printf '%s %s\n' "$suite" "${suite##*selftests/}" ;;
		*)	for f in "$build/selftests/$suite"/test_* \
					"$tree/selftests/$suite"/test_*.sh; do
				[ -f "$f" ] && [ -x "$f" ] &&
					printf '%s %s\n' "$f" "$suite/${f##*/}"
			done ;;
		esac
	done
}
list_tests "$@" | sed 's, /.*/, ,' | sort -u -k2 >"$tmp/tests"
[ -s "$tmp/tests" ] || die "no tests: $*"
while read -r from _; do
	[ -x "$from" ] || die "$from is no program"
done <"$tmp/tests" || exit

# ---- the initramfs --------------------------------------------------------

# put FILE PLACE: with the shared libraries that it needs.
put()
{
	mkdir -p "$fs/kvcache/$(dirname "$2")" &&
		cp -rL "$1" "$fs/kvcache/$2" || return
	ldd "$1" 2>/dev/null | awk '$2 == "=>" { print $3 } $1 ~ "^/" { print $1 }' |
		grep '^/' | while read -r lib; do
			[ -e "$fs$lib" ] && continue
			mkdir -p "$fs${lib%/*}" && cp -L "$lib" "$fs$lib" || exit
		done
}

# place_of FILE: where it is below the tree or the build folder.
place_of()
{
	path=$(realpath "$1") || die "no $1"
	case $path in
	"$build"/*)	echo "${path#"$build"/}" ;;
	"$tree"/*)	echo "${path#"$tree"/}" ;;
	*)		echo "${path##*/}" ;;
	esac
}

# put_driver NAME: a module of the kernel, after those that it needs. Their
# names go to a list, in the order in which they have to be loaded.
put_driver()
{
	grep -q -x "$1" "$fs/mod/list" && return
	case $1 in
	*/*)	driver=$(basename "$1" .ko)
		cp "$(echo "$1" | sed "s,%,${kernel##*/},")" \
			"$fs/mod/$driver.ko" || exit 2
		put_needed "$driver"
		echo "$driver" >>"$fs/mod/list"
		return ;;
	esac
	glob=$(echo "$1" | sed 's/[-_]/[-_]/g')
	grep -q "/$glob\.ko" "$kernel/modules/modules.builtin" && return
	file=$(find "$kernel/modules/" -name "$glob.ko*" | head -n 1)
	case $file in
	*.ko)	cp "$file" "$fs/mod/$1.ko" ;;
	*.xz)	xz -dc "$file" >"$fs/mod/$1.ko" ;;
	*)	die "$kernel has no module $1" ;;
	esac || exit 2
	put_needed "$1"
	echo "$1" >>"$fs/mod/list"
}

put_needed()
{
	for need in $(tr '\0' '\n' <"$fs/mod/$1.ko" |
			sed -n 's/^depends=//p' | tr , ' '); do
		(put_driver "$need") || exit 2
	done
}

# initramfs NAME: of the kernel of that name, in $kernel.
initramfs()
{
	fs=$tmp/fs
	rm -rf "$fs"
	mkdir -p "$fs/bin" "$fs/etc" "$fs/mod" "$fs/kvcache/selftests"
	cp "$here/init" "$fs/init" && chmod +x "$fs/init"
	cp "$(command -v busybox)" "$fs/bin/busybox"
	ldd "$fs/bin/busybox" >/dev/null 2>&1 &&
		die "needs a static busybox: busybox-static"
	cp "$tree/selftests/tap.sh" "$fs/kvcache/selftests/"
	echo 'root:x:0:0::/:/bin/sh' >"$fs/etc/passwd"
	echo 'root:x:0:' >"$fs/etc/group"

	: >"$fs/mod/list"
	module=
	if [ -n "$ko" ]; then
		file=$(echo "$ko" | sed "s,%,$1,")
		[ -r "$file" ] || die "no $file: make check-vm builds it"
		module=${file##*/}
		module=${module%.ko}
		cp "$file" "$fs/mod/$module.ko" || exit 2
		put_needed "$module"
	fi
	for driver in $drivers; do
		put_driver "$driver"
	done

	while read -r from place; do
		put "$from" "selftests/$place" || exit 2
	done <"$tmp/tests"
	printf '%s\n' "$files" | sed '/^$/d' >"$tmp/files"
	while read -r file; do
		place=$(place_of "$file") && put "$file" "$place" || exit 2
	done <"$tmp/files"

	{
		echo "module='$module' params='$params' limit='$test_limit'"
		echo "tests='$(cut -d' ' -f2 "$tmp/tests" | tr '\n' ' ')'"
		printf '%s\n' "$env"
	} >"$fs/etc/plan"
	(cd "$fs" && find . | cpio -o -H newc -R 0:0 --quiet) >"$tmp/initrd"
}

# ---- one kernel -----------------------------------------------------------

tsc=$(cc -O1 -o "$tmp/tsc" "$here/tsc_khz.c" 2>/dev/null && "$tmp/tsc")

# run_kernel NAME: boot it and leave in $log/NAME what it said.
run_kernel()
{
	case $1 in
	*/*)	kernel=$1 ;;
	*)	kernel=$("$tree/tools/setup/kernels.sh" "$1") || exit 2 ;;
	esac
	initramfs "${1##*/}"
	name=${1##*/}$suffix
	out=$log/$name
	rm -rf "$out" && mkdir -p "$out" || exit 2

	# Two machines on few CPUs would take each other's time. The kernel's
	# own messages have a serial line of their own.
	exec 8>"$kernel/../.vm-lock"
	[ -e "$kernel/linux" ] || flock 8
	append="loglevel=5 oops=panic panic=-1 ${VM_APPEND:-}"
	said=$out/qemu
	if [ -e "$kernel/linux" ]; then
		said=$out/console
		set -- "$kernel/linux" "mem=${memory}M" "initrd=$tmp/initrd" \
			con=null ssl=null ssl1=null,fd:3 "$append"
	else
		# No watchdog of clocks: emulated time is not even. On a busy
		# machine an emulated CPU may stand still for half a minute.
		append="console=ttyS0 tsc=reliable no_timer_check $append"
		append="$append watchdog_thresh=30 ${tsc:+tsc_early_khz=$tsc}"
		append="$append rcupdate.rcu_cpu_stall_timeout=60"
		set -- qemu-system-x86_64 -nodefaults -no-user-config \
			-accel tcg -cpu max -smp 2 -m "$memory" -display none \
			-no-reboot -serial "file:$out/console" \
			-serial file:/dev/fd/3 -kernel "$kernel/vmlinuz" \
			-initrd "$tmp/initrd" -append "$append"
	fi
	began=$(date +%s)
	# shellcheck disable=SC2086 # lists of words
	timeout -k 5 "$limit" "$@" ${VM_QEMU:-} \
		>"$said" 2>&1 </dev/null 3>"$out/serial" 8>&- &
	pid=$!
	wait "$pid"
	echo $? >"$out/status"
	reap
	exec 8>&-
	echo "# figure vm $name: $(cat "$kernel/release"):" \
		"$(($(date +%s) - began)) s, $(($(wc -c <"$tmp/initrd") >> 20)) MiB" >&2
	# shellcheck disable=SC2046 # a list of words
	"$here/split.sh" "$out" $(cut -d' ' -f2 "$tmp/tests")
}

replays=
for k in $kernels; do
	run_kernel "$k"
	replays="$replays $(echo "$out"/selftests/vm/*/*)"
done
if [ -n "$list" ]; then
	echo "$replays"
	exit
fi
# shellcheck disable=SC2086 # a list of words
"$here/../run-tests.sh" -o "$log" $replays
