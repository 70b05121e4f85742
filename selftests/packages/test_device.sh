#!/bin/sh
# SPDX-License-Identifier: MIT
# timeout: 840
#
# The module that dkms made of its package (test_chroot.sh leaves it behind), in
# virtual machines with the kernels that it is for, under the programs of
# kvcache-tools; and their kvcachefs, mounted on it.
. "$(dirname "$0")/kit.sh"
cd "$root" || exit 1
needs_packages "the module of the package"
ko=$build/dkms-%/kvcache.ko
for k in 6.1 6.12; do
	[ -r "$build/dkms-$k/kvcache.ko" ] ||
		skip_without "no module for $k: test_chroot.sh makes it" \
			"the module of the package"
done
for p in qemu-system-x86_64 busybox cpio setpriv; do
	needs $p || skip_without "no $p" "the module of the package"
done

# What the machines need of the tests; they are the same for every module.
dev=$build/selftests/dev
werror=
grep -q -s -e ' -Werror ' "$build/.flags" && werror=WERROR=1
env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES \
	make --no-print-directory O="$build" $werror "$dev/setup" \
	"$dev/test_basic" "$dev/test_map" "$dev/test_tenant" >"$tmp/made" 2>&1 ||
	skip_without "no tests: $(tail -n 1 "$tmp/made")" \
		"the module of the package"

# A build folder that has the programs of the package.
export KVCACHE_BUILD="$build/packaged"
rm -rf "$KVCACHE_BUILD"
mkdir -p "$KVCACHE_BUILD/selftests/dev" &&
	dpkg-deb --fsys-tarfile "$(deb kvcache-tools)" |
		tar -x -C "$KVCACHE_BUILD" --strip-components=3 ./usr/bin &&
	cp "$dev/setup" "$dev/test_basic" "$dev/test_map" "$dev/test_tenant" \
		"$KVCACHE_BUILD/selftests/dev/" || exit
dev=$KVCACHE_BUILD/selftests/dev

in_machines()
{
	selftests/vm/run.sh -k "$ko" -o "$build/log-packaged" -f "$dev/setup" \
		-f "$KVCACHE_BUILD/kvcachectl" -f "$KVCACHE_BUILD/kvcache-bench" \
		-f "$KVCACHE_BUILD/kvcache-run" -f selftests/data/refs \
		-f selftests/tools/ctl_kit.sh -e KVCACHE_MODEL= "$@" \
		>"$tmp/said" 2>&1
	status=$?
	cat "$tmp/said"
	[ $status -eq 0 ] && tail -n 1 "$tmp/said" | grep '^[1-9].* 0 failed'
}
for k in 6.1 6.12; do
	check "the module of the package on $k" in_machines -n module $k \
		"$dev/test_basic" "$dev/test_map" "$dev/test_tenant" \
		"$root/selftests/dev/test_ctl.sh"
	grep '^# figure' "$tmp/said"
done
# As selftests/vm/machines.sh does with what the tree has built.
check "kvcachefs of the package, mounted" in_machines -n fs -T 250 \
	-f "$KVCACHE_BUILD/kvcachefs" -f "$KVCACHE_BUILD/kvcache-exporter" \
	-f "$(command -v setpriv)" -f selftests/scenarios/kit.sh \
	-f selftests/broker/broker.sh \
	-e KVCACHE_TEST_DEVICE=/dev/kvcache 6.12 \
	"$root/selftests/tools/test_fs.sh"
grep '^# figure' "$tmp/said"

tap_end
