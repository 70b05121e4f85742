#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What becomes of a virtual machine's output: split.sh and run-tests.sh on
# output as machines have it that do well, and as those that do not.
. "$(dirname "$0")/../tap.sh"
here=$root/selftests/vm
vm=$tmp/9.9

# A machine that does well, with one test of two results.
fresh()
{
	rm -rf "$vm" && mkdir "$vm" || exit
	echo 0 >"$vm/status"
	cat >"$vm/console" <<-'EOT'
	[    0.000000] tsc: Unable to calibrate against PIT
	[    4.000000] kvcache: loading out-of-tree module taints kernel.
	EOT
	cat >"$vm/serial" <<-'EOT'
	@@ up 4.00 9.9.0
	@@ load 0
	@@ begin dev/test_x
	TAP version 13
	1..2
	ok 1 one
	ok 2 two # SKIP

	@@ end 0
	@@ unload 0
	@@ begin dmesg
	[    0.000000] Kernel command line: oops=panic panic=-1
	[    0.000000] Spectre V1 : Mitigation: usercopy/swapgs barriers
	[    0.000000] tsc: Unable to calibrate against PIT
	[    1.000000] kmemleak: Kernel memory leak detector initialized
	[    0.000000] 	RCU CPU stall warnings timeout set to 60 (rcu_cpu_stall_timeout).
	[    1.000000] kcsan: non-strict mode configured - use CONFIG_KCSAN_STRICT=y to see all data races
	[    4.500000] kmemleak: Cannot allocate a scan area, scanning the full object
	[    4.600000] Huh VM_FAULT_OOM leaked out to the #PF handler. Retrying PF
	[    4.000000] kvcache: loading out-of-tree module taints kernel.
	@@ end 0
	@@ down
	EOT
	sed -i 's/$/\r/' "$vm/serial" "$vm/console"
}

# counts PASSED FAILED SKIPPED [LINE]: of that machine, with LINE among what
# is said about it.
counts()
{
	"$here/split.sh" "$vm" dev/test_x &&
		"$root/selftests/run-tests.sh" -o "$tmp/log" \
			"$vm"/selftests/vm/9.9/* >"$tmp/said"
	cat "$tmp/said"
	[ "$(tail -n 1 "$tmp/said")" = "$1 passed, $2 failed, $3 skipped" ] &&
		grep -q -F -e "${4:-}" "$tmp/said"
}

fresh
check "all is well" counts 6 0 1

splats='BUG: KASAN: use-after-free in kvl_free+0x10/0x20 [kvcache]
WARNING: CPU: 0 PID: 1 at kmod/pool.c:1 kvcache_x+0x1/0x2 [kvcache]
WARNING: possible circular locking dependency detected
WARNING: suspicious RCU usage
BUG: sleeping function called from invalid context at mm/slab.h:1
BUG: KCSAN: data-race in kvl_a / kvl_b
INFO: task test_x:99 blocked for more than 30 seconds.
watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [test_x:99]
rcu: INFO: rcu_preempt self-detected stall on CPU
refcount_t: underflow; use-after-free.
kvcache: 3 pages leaked
kmemleak: 1 new suspected memory leaks (see /sys/kernel/debug/kmemleak)
PANIC: double fault, error_code: 0x0
Kernel panic - not syncing: Fatal exception
general protection fault, probably for non-canonical address 0x1
list_del corruption. prev->next should be 1, but was 2
BUG: Bad page state in process test_x pfn:00001
UBSAN: shift-out-of-bounds in kmod/ledger.c:1:1
usercopy: Kernel memory exposure attempt detected from SLUB object'
i=0
while [ "$i" -lt "$(echo "$splats" | wc -l)" ]; do
	i=$((i + 1))
	line="[    5.000000] $(echo "$splats" | sed -n "${i}p")"
	for where in console serial; do
		fresh
		if [ $where = console ]; then
			echo "$line" >>"$vm/console"
		else
			echo "$line" | sed -i '/^@@ begin dmesg/r /dev/stdin' "$vm/serial"
		fi
		check "$where: ${line#*] }" counts 5 1 1 "$line"
	done
done

# without PATTERN: and without what comes after, if there is a second one.
without()
{
	fresh
	sed -i "/$1/${2:+,/$2/}d" "$vm/serial"
}

fresh
sed -i 's/^@@ load 0/@@ load 1/' "$vm/serial"
check "the module does not load" counts 5 1 1
fresh
sed -i "s/^@@ unload 0/rmmod: can't unload\n@@ unload 1/" "$vm/serial"
check "the module does not unload" counts 5 1 1 "rmmod: can't unload"
without '@@ down'
check "no end" counts 5 1 1 "status 0"
fresh
echo 124 >"$vm/status"
check "too late" counts 5 1 1 "status 124"
without '@@ end' '@@ down'
check "it went down during a test" counts 4 3 1 "the machine went down"
without '@@ begin dev' '@@ end'
check "it never came to a test" counts 5 1 0 "or never came here"
without '1\.\.2'
check "a test without a plan" counts 6 1 1
without 'ok 2'
check "a test that stops short" counts 6 1 0
fresh
sed -i '0,/@@ end 0/s//@@ end 137/' "$vm/serial"
check "a test that takes too long" counts 6 1 1 "it took too long"
fresh
sed -i 's/^ok 1/not ok 1/; 0,/@@ end 0/s//@@ end 1/' "$vm/serial"
check "a test that fails" counts 5 1 1
fresh
: >"$vm/serial"
: >"$vm/console"
check "it said nothing" counts 1 3 0

fresh
sed -i '/@@ \(un\)*load/d' "$vm/serial"
check "a machine without the module" counts 4 0 1
fresh
cat >>"$vm/serial" <<'EOT'
@@ begin kmemleak
unreferenced object 0xffff888003a0b000 (size 1024):
@@ end 0
EOT
check "kmemleak" counts 5 1 1 "unreferenced object"

# rcu FUNCTION: lockdep on UML.
rcu()
{
	fresh
	cat >>"$vm/console" <<-EOT
	[    0.460000] WARNING: suspicious RCU usage
	[    0.460000] lib/maple_tree.c:860 suspicious rcu_dereference_check() usage!
	[    0.460000] Call Trace:
	[    0.460000]  [<60036782>] ? $1+0xc2/0x120
	[    0.460000]  [<60032d0d>] ? fork_handler+0x5d/0x13d
	[    0.470000] ${2:-}
	EOT
}
rcu force_flush_all
check "what UML is known for" counts 6 0 1
rcu force_flush_all "list_del corruption."
check "and something else" counts 5 1 1 "list_del corruption."
rcu kvcache_fault
check "and the same elsewhere" counts 5 1 1 "suspicious RCU"

# Every program there is, but QEMU.
no_qemu()
{
	mkdir "$tmp/bin" || return
	for dir in $(echo "$PATH" | tr : ' '); do
		ln -s "$dir"/* "$tmp/bin/" 2>/dev/null
	done
	rm -f "$tmp"/bin/qemu-system-*
	list=$(PATH=$tmp/bin "$here/run.sh" -l -o "$tmp/vm" 9.9 dev) &&
		[ -n "$list" ] || return
	"$root/selftests/run-tests.sh" -o "$tmp/log" "$list" |
		tee "$tmp/said"
	[ "$(tail -n 1 "$tmp/said")" = "0 passed, 0 failed, 1 skipped" ]
}
check "without QEMU there is one SKIP among all others" no_qemu

tap_end
