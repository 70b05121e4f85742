#!/bin/sh
# SPDX-License-Identifier: MIT
#
# kvcachectl doctor: a system that is well, made of files below a folder, and
# then each thing that can be wrong with it. Whatever else is in order must stay
# silent.
. "$(dirname "$0")/../broker/broker.sh"
ctl=$build/kvcachectl
if [ ! -x "$ctl" ] || [ ! -x "$build/kvcache-broker" ]; then
	skip "kvcachectl doctor" "no $ctl or kvcache-broker"
	tap_end
fi
r=$tmp/r
release=6.1.0-57-amd64
export KVCACHE_DOCTOR_ROOT="$r"
unset KVCACHE XDG_RUNTIME_DIR
mods=$r/lib/modules
mkdir -p "$r/dev" "$r/run/kvcache" "$r/usr/bin" "$r/usr/lib/x86_64-linux-gnu" \
	"$r/proc/sys/kernel" "$r/proc/self" "$r/proc/driver/nvidia" \
	"$r/sys/module/kvcache" "$r/sys/module/module/parameters" \
	"$r/sys/kernel/security" "$r/sys/kernel/mm/transparent_hugepage" \
	"$r/sys/bus/pci/devices/0000:01:00.0" \
	"$r/sys/bus/pci/devices/0000:02:00.0" "$mods/$release/updates"

# module FILE RELEASE [SIGNATURE]: what a file of the module has of interest.
module()
{
	printf '\177ELF\0license=GPL\0srcversion=AB12\0vermagic=%s SMP mod_unload\0%s' \
		"$2" "${3:-}" >"$1"
}
# One that is well: a broker stands in for the device, too.
well()
{
	echo "$release" >"$r/proc/sys/kernel/osrelease"
	printf 'fuse 1 0 - Live 0x0\nkvcache 1 0 - Live 0x0\n' >"$r/proc/modules"
	"$ctl" --version | sed 's/.* //' >"$r/sys/module/kvcache/version"
	echo AB12 >"$r/sys/module/kvcache/srcversion"
	rm -rf "${mods:?}"
	mkdir -p "$mods/$release/updates"
	module "$mods/$release/updates/kvcache.ko" $release
	echo '[none] integrity confidentiality' >"$r/sys/kernel/security/lockdown"
	echo N >"$r/sys/module/module/parameters/sig_enforce"
	rm -f "$r/dev/kvcache" "$r/dev/fuse"
	ln -s "$socket" "$r/dev/kvcache"
	: >"$r/dev/fuse"
	chmod 666 "$r/dev/fuse"
	: >"$r/usr/bin/fusermount3"
	chmod 4755 "$r/usr/bin/fusermount3"
	echo 'Max locked memory         unlimited            unlimited            bytes' \
		>"$r/proc/self/limits"
	# CAP_SYS_ADMIN: root can mount.
	echo 'CapEff:	0000000000200000' >"$r/proc/self/status"
	echo 'always [madvise] never' \
		>"$r/sys/kernel/mm/transparent_hugepage/enabled"
	echo 'always within_size [advise] never deny force' \
		>"$r/sys/kernel/mm/transparent_hugepage/shmem_enabled"
	printf 'processor\t: 0\nflags\t\t: fpu sse2 fma avx f16c avx2 bmi2\n' \
		>"$r/proc/cpuinfo"
	echo 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.154.05  Thu' \
		>"$r/proc/driver/nvidia/version"
	: >"$r/usr/lib/x86_64-linux-gnu/libcuda.so.1"
	for gpu in 1 2; do
		echo 0x10de >"$r/sys/bus/pci/devices/0000:0$gpu:00.0/vendor"
	done
	echo 0x030200 >"$r/sys/bus/pci/devices/0000:01:00.0/class"
	echo 0x040300 >"$r/sys/bus/pci/devices/0000:02:00.0/class"
}

# diagnosis STATUS [CAUSE]...: these and no others, in this order.
diagnosis()
{
	want=$1
	shift
	$as "$ctl" doctor --json >"$tmp/json"
	got=$?
	cat "$tmp/json"
	grep -o '"cause":"[^"]*"' "$tmp/json" | sed 's/.*:"//; s/"//' |
		grep -v -x ok >"$tmp/causes"
	[ "$got" -eq "$want" ] && printf '%s\n' "$@" | grep . |
		diff - "$tmp/causes"
}
# tells STATUS CAUSE LEVEL WORDS REMEDY: that one, on one line for people.
tells()
{
	diagnosis "$1" "$2" || return
	$as "$ctl" doctor >"$tmp/said"
	got=$?
	cat "$tmp/said"
	[ "$got" -eq "$1" ] &&
		[ "$(grep -c -E '^(note|wrong) ' "$tmp/said")" -eq 1 ] &&
		grep "^$3 " "$tmp/said" | grep -F -e "$4" | grep -q -F -e "$5"
}
# with NAME COMMAND TELLS...: so it is after the command.
with()
{
	name=$1 break=$2
	shift 2
	well
	eval "$break"
	check "$name" tells "$@"
	well
}
is_well()
{
	diagnosis 0 && $as "$ctl" doctor | grep -q -x 'Nothing is wrong.' &&
		! grep -q '"status":"note"' "$tmp/json"
}

socket=$r/run/kvcache/broker
as=
broker_start --pool main=8M,page=64K
well
check "all is well" is_well

# ---- the module -----------------------------------------------------------

unloaded="echo 'fuse 1 0 - Live 0x0' >'$r/proc/modules'; rm '$r/dev/kvcache'"
with "module absent" "$unloaded; rm -r '$mods/$release/updates'" \
	0 module-absent note "is not installed" "install kvcache-dkms"
with "a module of another name" \
	"$unloaded; rm -r '$mods/$release/updates'; : >'$mods/$release/kvcache.kop'" \
	0 module-absent note "is not installed" "install kvcache-dkms"
with "not loaded" "$unloaded" \
	0 module-not-loaded note "not loaded" "modprobe kvcache"
with "in another kernel's folder" \
	"$unloaded; mv '$mods/$release' '$mods/6.12.9-amd64'" \
	0 module-other-kernel note "the kernel is $release" "dkms autoinstall"
with "built for another kernel" \
	"$unloaded; module '$mods/$release/updates/kvcache.ko' 6.12.9-amd64" \
	0 module-other-kernel note "is built for 6.12.9-amd64" "linux-headers"
locked="echo 'none [integrity] confidentiality' >'$r/sys/kernel/security/lockdown'"
with "unsigned under lockdown" "$unloaded; $locked" \
	0 module-unsigned note "locked down" "mokutil --import"
with "unsigned where signatures are enforced" \
	"$unloaded; echo Y >'$r/sys/module/module/parameters/sig_enforce'" \
	0 module-unsigned note "sig_enforce" "make modules_sign"
signed='~Module signature appended~
'
with "signed under lockdown" \
	"$unloaded; $locked; module '$mods/$release/updates/kvcache.ko' $release '$signed'" \
	0 module-not-loaded note "not loaded" "dmesg"
for form in xz zstd gzip; do
	if ! needs $form; then
		skip "a module in $form" "no $form"
		continue
	fi
	with "a module in $form, unsigned under lockdown" \
		"$unloaded; $locked; $form -q --rm '$mods/$release/updates/kvcache.ko' 2>/dev/null || $form -q '$mods/$release/updates/kvcache.ko'" \
		0 module-unsigned note "kvcache.ko." "make modules_sign"
done
with "a kernel without modules" \
	"rm '$r/proc/modules' '$r/dev/kvcache'" \
	0 module-none note "takes no modules" "use kvcache-broker"
with "another release of the module" \
	"echo 0.0.1 >'$r/sys/module/kvcache/version'" \
	1 module-version wrong "0.0.1 is loaded" "modprobe -r kvcache"
with "another build of the module" \
	"echo CD34 >'$r/sys/module/kvcache/srcversion'" \
	0 module-stale note "another build is loaded" "modprobe -r kvcache"
with "two copies of the module" \
	"mkdir '$mods/$release/extra'; cp '$mods/$release/updates/kvcache.ko' '$mods/$release/extra/'" \
	1 module-copies wrong "/lib/modules/$release/extra/kvcache.ko" depmod
with "copies for other kernels are none" \
	"mkdir -p '$mods/6.12.9/extra'; cp '$mods/$release/updates/kvcache.ko' '$mods/6.12.9/extra/'; rm '$r/usr/lib/x86_64-linux-gnu/libcuda.so.1'" \
	1 gpu-no-libcuda wrong "no libcuda.so.1" "install libcuda1"

# ---- the node ---------------------------------------------------------------

with "node absent" "rm '$r/dev/kvcache'" \
	1 node-absent wrong "there is no /dev/kvcache" "udevadm trigger"
node_left()
{
	diagnosis 1 module-not-loaded node-left && "$ctl" doctor |
		grep '^wrong  node .*hides every broker.*remove the node'
}
well
echo 'fuse 1 0 - Live 0x0' >"$r/proc/modules"
check "a node without the module" node_left
with "a node that is another device" \
	"rm '$r/dev/kvcache'; ln -s /dev/null '$r/dev/kvcache'" \
	1 node-other wrong "/dev/kvcache: not a device of kvcache" \
	"name the device that the module made"

# An answer of another version of the ABI, from whoever is asked.
other_abi()
{
	cat >"$tmp/abi.py" <<'EOF'
import os, socket, struct, sys

s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1])
s.listen(8)
print("ready", flush=True)
while True:
    c, _ = s.accept()
    m = c.recv(20000)
    if not m:
        continue
    size, flags, abi = struct.unpack_from("III", m, 16)
    c.send(m[:24] + struct.pack("I", 99) + m[28:])
    c.recv(1)
EOF
	python3 "$tmp/abi.py" "$1" >"$tmp/ready" &
	abi=$!
	within 10 grep -q ready "$tmp/ready"
}
if needs python3; then
	other_abi "$tmp/abi"
	with "another version of the ABI: the module" \
		"ln -sf '$tmp/abi' '$r/dev/kvcache'" \
		1 node-abi wrong "another version of the ABI" "of one release"
	mv "$socket" "$socket.aside"
	ln "$tmp/abi" "$socket"
	with "another version of the ABI: the broker" \
		"ln -sf '$socket.aside' '$r/dev/kvcache'" \
		1 broker-abi wrong "another version of the ABI" "of one release"
	mv "$socket.aside" "$socket"
	kill $abi
	wait $abi 2>/dev/null
else
	skip "another version of the ABI" "no python3"
fi

# ---- FUSE, limits, huge pages, CPU, GPU ------------------------------------------

with "FUSE absent" "rm '$r/dev/fuse'" \
	0 fuse-absent note "there is no FUSE" "modprobe fuse"
if [ "$(id -u)" -eq 0 ]; then
	with "FUSE not permitted to root" \
		"echo 'CapEff:	0000000000000000' >'$r/proc/self/status'" \
		0 fuse-capability note "no CAP_SYS_ADMIN" "--cap-add SYS_ADMIN"
else
	skip "FUSE not permitted to root" "needs root"
fi
with "locked memory" \
	"echo 'Max locked memory         65536                65536                bytes' >'$r/proc/self/limits'" \
	0 memlock-low note "64 KiB may be locked, and the largest pool is 8 MiB" \
	"LimitMEMLOCK=infinity"
with "huge pages off" \
	"echo 'always madvise [never]' >'$r/sys/kernel/mm/transparent_hugepage/enabled'" \
	0 thp-off note "huge pages are off" "echo madvise"
with "huge pages off for a broker's pages" \
	"echo 'always within_size advise [never] deny force' >'$r/sys/kernel/mm/transparent_hugepage/shmem_enabled'" \
	0 thp-shmem-off note "off for memfds" "echo advise"
with "a kernel without huge pages" \
	"rm '$r/sys/kernel/mm/transparent_hugepage/enabled'" \
	0 thp-absent note "has no transparent huge pages" \
	"CONFIG_TRANSPARENT_HUGEPAGE"
with "a CPU without AVX2" \
	"sed -i 's/ avx2//' '$r/proc/cpuinfo'" \
	0 cpu-no-avx2 note "has no avx2" "-cpu host"
with "a CPU without FMA and F16C" \
	"sed -i 's/ fma / /; s/ f16c / xf16c /' '$r/proc/cpuinfo'" \
	0 cpu-no-avx2 note "has no fma, f16c" "-cpu host"
with "no GPU" \
	"rm '$r/proc/driver/nvidia/version'; echo 0x8086 >'$r/sys/bus/pci/devices/0000:01:00.0/vendor'" \
	0 gpu-none note "no NVIDIA GPU" "on the CPU"
with "a GPU without a driver" "rm '$r/proc/driver/nvidia/version'" \
	1 gpu-no-driver wrong "1 NVIDIA GPU, and no driver" "modprobe nvidia"
with "a driver that is too old" \
	"sed -i 's/535.154.05/470.82.01/' '$r/proc/driver/nvidia/version'" \
	1 gpu-driver-old wrong "the driver is 470" "a newer one"
open='NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  515.65.01  Release'
with "an open driver that is too old" \
	"echo '$open' >'$r/proc/driver/nvidia/version'" \
	1 gpu-driver-old wrong "the driver is 515" "a newer one"

# ---- as a user --------------------------------------------------------------

if [ "$(id -u)" -eq 0 ] && needs setpriv; then
	cp "$ctl" "$tmp/kvcachectl"
	chmod 755 "$tmp"
	chmod 666 "$socket"
	ctl=$tmp/kvcachectl
	as="setpriv --reuid 65534 --regid 65534 --clear-groups"
	well
	check "a user: all is well" is_well
	node="rm '$r/dev/kvcache'; : >'$r/dev/kvcache'"
	with "no permission on the node" "$node; chmod 600 '$r/dev/kvcache'" \
		1 node-permission wrong "user 65534 may not open it" \
		"60-kvcache.rules"
	with "not in the node's group" \
		"$node; chmod 660 '$r/dev/kvcache'; chgrp 4321 '$r/dev/kvcache'" \
		1 node-group wrong "is for group 4321" "usermod -aG 4321"
	with "nobody is to join root's group" \
		"$node; chmod 660 '$r/dev/kvcache'" \
		1 node-permission wrong "mode 0660" "the group kvcache"
	with "FUSE not permitted" "chmod 600 '$r/dev/fuse'" \
		0 fuse-permission note "Permission denied" "chmod 0666"
	with "no fusermount3" "rm '$r/usr/bin/fusermount3'" \
		0 fuse-helper note "no fusermount3" "fuse3"
	with "fusermount3 without its bit" "chmod 755 '$r/usr/bin/fusermount3'" \
		0 fuse-helper-mode note "not setuid" "chmod u+s"
	# The node is something else meanwhile: its own answer is not asked for.
	nonode="echo 'fuse 1 0 - Live 0x0' >'$r/proc/modules'; rm '$r/dev/kvcache'"
	broker_is()
	{
		diagnosis 1 module-not-loaded "$1" && $as "$ctl" doctor |
			grep "^wrong  broker" | grep -F -e "$2" |
			grep -q -F -e "$3"
	}
	well
	eval "$nonode"
	chmod 660 "$socket"
	chgrp 4321 "$socket"
	check "not in the broker's group" broker_is broker-group \
		"group 4321" "usermod -aG 4321"
	chmod 600 "$socket"
	check "no permission on the broker's socket" broker_is \
		broker-permission "user 65534 may not open it" "kvcache-broker --user"
	chmod 666 "$socket"
	as=
	chown 65533 "$socket"
	well
	check "a socket of the wrong owner" tells 1 broker-owner wrong \
		"is of user 65533, and should be of 0" "ss -xlp"
	chown 0 "$socket"
	chmod 777 "$r/run/kvcache"
	check "a socket in a folder that is open to all" tells 1 broker-owner \
		wrong "somebody else may be listening" "closed to others"
	chmod 755 "$r/run/kvcache"
	# Of one stranger, both of them.
	chown 65533 "$socket" "$r/run/kvcache"
	check "a socket in the folder of a stranger" tells 1 broker-owner \
		wrong "is of user 65533, and should be of 0" "ss -xlp"
	chown 0 "$socket" "$r/run/kvcache"
	ctl=$build/kvcachectl
else
	skip "as a user" "needs root, and setpriv"
fi

# ---- brokers ------------------------------------------------------------------

# The module is not loaded either, and nothing is left that works.
broker_said_so()
{
	diagnosis 1 module-not-loaded "$1" && "$ctl" doctor |
		grep '^wrong  broker' | grep -F -e "$2" | grep -q -F -e "$3"
}
well
eval "$unloaded"
kill -s KILL "$broker_pid"
wait "$broker_pid" 2>/dev/null
broker_pid=
check "a stale socket" broker_said_so broker-stale "nobody listens" \
	"systemctl restart kvcache-broker.socket"
rm "$socket"
check "no broker" broker_said_so broker-absent "no /run/kvcache/broker" \
	"kvcache-broker --user"
# With systemd in charge, and the units installed.
mkdir -p "$r/run/systemd/system" "$r/usr/lib/systemd/system" \
	"$r/etc/systemd/system/sockets.target.wants"
check "no broker, and no unit of it" broker_said_so broker-absent \
	"no /run/kvcache/broker" "kvcache-broker --user"
unit=usr/lib/systemd/system/kvcache-broker.socket
: >"$r/$unit"
check "its unit is not enabled" broker_said_so broker-not-enabled \
	"is not enabled" "systemctl enable --now kvcache-broker.socket"
ln -s "/$unit" "$r/etc/systemd/system/sockets.target.wants/"
check "its unit is enabled, and stopped" broker_said_so broker-stopped \
	"although its unit is enabled" "systemctl start kvcache-broker.socket"
rmdir "$r/run/systemd/system"
check "units without systemd are of no use" broker_said_so broker-absent \
	"no /run/kvcache/broker" "kvcache-broker --user"
rm -r "$r/etc/systemd" "$r/usr/lib/systemd"
: >"$socket"
check "no socket" broker_said_so broker-no-socket "is no socket" "remove it"
rm "$socket"
# The user's own comes first.
export XDG_RUNTIME_DIR=/run/user
mkdir -p "$r/run/user/kvcache"
socket=$r/run/user/kvcache/broker
broker_start --pool main=8M,page=64K
with "a user's broker" "$unloaded" \
	0 module-not-loaded note "not loaded" "modprobe"
well
broker_stop
named_none()
{
	env -u KVCACHE_DOCTOR_ROOT "$ctl" doctor -d "$tmp/none" >"$tmp/said"
	got=$?
	cat "$tmp/said"
	[ $got -eq 1 ] && grep -q "^wrong  broker .*no $tmp/none" "$tmp/said"
}
check "what was named and is not there" named_none
# What is named is what is looked at, from wherever.
named_from_here()
{
	cd "$tmp" || return
	env -u KVCACHE_DOCTOR_ROOT "$ctl" doctor -d ./none >"$tmp/said"
	got=$?
	cat "$tmp/said"
	[ $got -eq 1 ] && grep -q "^wrong  broker .*no ./none" "$tmp/said" ||
		return
	"$ctl" doctor -d none >"$tmp/said" 2>&1
	got=$?
	cat "$tmp/said"
	[ $got -eq 2 ] && grep -q '"none": give the path' "$tmp/said"
}
check "what was named by a path from here" named_from_here
tap_end
