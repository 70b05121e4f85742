#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A machine that boots with systemd, the packages installed and their units
# enabled: booted.sh says what has to be true there. Debian's user space, made by
# debootstrap once, in memory; no disk, no network. $KVCACHE_BOOT_LOG is where the
# console goes.
. "$(dirname "$0")/kit.sh"
cd "$root" || exit 1

skip_all()
{
	skip "a machine that boots with the units" "$@"
	tap_end
}
for program in debootstrap qemu-system-x86_64 busybox cpio gcc; do
	needs $program || skip_all "no $program"
done
[ "$(id -u)" -eq 0 ] || skip_all "debootstrap needs root"
kernel=$(tools/setup/kernels.sh 6.12 2>"$tmp/said") ||
	skip_all "no kernel: $(tail -n 1 "$tmp/said")"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/kvcache
with=systemd,systemd-sysv,libpam-systemd,udev,dbus,fuse3,kmod,curl,libnettle8
with=$with,libjansson4,libfuse3-3,libncurses6,libmicrohttpd12,libdnnl2,libpcre2-8-0
with=$with,libhiredis0.14,liburing2
base=$cache/boot-$(echo "$with" | cksum | cut -d' ' -f1).tar

# Without what nobody reads there. Another one may be at it, too.
debian()
{
	debootstrap --variant=minbase --include="$with" bookworm \
		"$tmp/debian" "${KVCACHE_MIRROR:-http://deb.debian.org}/debian" \
		>"$tmp/debootstrap" 2>&1 ||
		{ tail -n 5 "$tmp/debootstrap"; return 1; }
	rm -rf "$tmp"/debian/usr/share/doc "$tmp"/debian/usr/share/man \
		"$tmp"/debian/usr/share/locale "$tmp"/debian/usr/share/zoneinfo \
		"$tmp"/debian/var/cache/apt "$tmp"/debian/var/lib/apt \
		"$tmp"/debian/usr/lib/udev/hwdb*
	mkdir -p "$cache" &&
		tar -C "$tmp/debian" -cf "$base.$$" . &&
		mv "$base.$$" "$base" && rm -rf "$tmp/debian"
}
needs_packages "a machine that boots with the units"
if [ ! -r "$base" ]; then
	debian >"$tmp/said" 2>&1 ||
		skip_all "no debootstrap: $(tail -n 1 "$tmp/said")"
fi

# ---- the system -----------------------------------------------------------

fs=$tmp/fs
mkdir -p "$fs/root" "$fs/bin" "$tmp/new"
new=$tmp/new
tar -C "$new" -xf "$base" || exit 1

# The module's is for dkms to build: its udev rule is what is wanted here.
install_all()
{
	mkdir "$new/debs" "$tmp/dkms" &&
		cp "$(deb libkvcache0)" "$(deb kvcache-tools)" "$new/debs/" &&
		chroot "$new" sh -c 'dpkg -i /debs/*.deb' </dev/null &&
		rm -r "$new/debs" && dpkg -x "$(deb kvcache-dkms)" "$tmp/dkms" &&
		cp "$tmp"/dkms/lib/udev/rules.d/* "$new/lib/udev/rules.d/" &&
		chroot "$new" systemctl enable kvcache-broker.socket \
			run-kvcache-fs.mount kvcache-exporter.socket &&
		chroot "$new" systemctl --global enable kvcache-broker.socket
}
# A program of somebody else, by the package for that.
build_program()
{
	dpkg -x "$(deb libkvcache-dev)" "$tmp/dev" &&
		gcc -O1 -I"$tmp/dev/usr/include" -o "$new/usr/bin/publish" \
			selftests/packages/publish.c \
			"$tmp"/dev/usr/lib/*/libkvcache.a -lnettle -lm -pthread
}
check "a program is built with the packages" build_program
check "installed and enabled" install_all
[ $tap_bad -eq 0 ] || tap_end

# Two users, one of whom is in the group; what the admin configures.
mkdir -p "$new/etc/sysusers.d" "$new/etc/default"
cat >"$new/etc/sysusers.d/users.conf" <<'EOT'
g alice 1000
g mallory 1001
u alice 1000:1000 "in the group" / /bin/sh
u mallory 1001:1001 "in none" / /bin/sh
m alice kvcache
EOT
check "users" chroot "$new" systemd-sysusers
cat >"$new/etc/default/kvcache-broker" <<'EOT'
KVCACHE_BROKER_OPTIONS="--pool main=16M,page=64K --tenant alice,uid=alice,max=8M"
EOT

place=$new/kvcache/selftests
mkdir -p "$place/packages"
cp selftests/tap.sh "$place/"
cp selftests/packages/booted.sh "$place/packages/"
[ ! -r "$build/kmod-6.12/kvcache.ko" ] ||
	cp "$build/kmod-6.12/kvcache.ko" "$new/kvcache/"
cat >"$new/etc/systemd/system/booted.service" <<'EOT'
[Unit]
After=systemd-user-sessions.service run-kvcache-fs.mount kvcache-exporter.socket
SuccessAction=poweroff-force
FailureAction=poweroff-force

[Service]
Type=oneshot
ExecStart=/bin/sh /kvcache/selftests/packages/booted.sh
StandardOutput=file:/dev/ttyS1
StandardError=inherit
TimeoutStartSec=200

[Install]
WantedBy=multi-user.target
EOT
systemctl --root="$new" enable booted.service 2>/dev/null
systemctl --root="$new" set-default multi-user.target 2>/dev/null
systemctl --root="$new" mask getty.target apt-daily.timer \
	apt-daily-upgrade.timer fstrim.timer e2scrub_all.timer \
	systemd-random-seed.service 2>/dev/null
echo kvcache >"$new/etc/hostname"

# The initramfs unpacks it into memory, and leaves. What computes is not needed.
rm -f "$new"/usr/lib/*/libdnnl* "$new"/usr/bin/kvcache-bench \
	"$new"/usr/bin/kvcache-run "$new"/usr/bin/kvcache-replay
tar -C "$new" -cf "$fs/root.tar" . && rm -rf "$new"
cp "$(command -v busybox)" "$fs/bin/busybox"
cat >"$fs/init" <<'EOT'
#!/bin/busybox sh
/bin/busybox mount -t tmpfs -o size=800m,mode=755 tmpfs /root
/bin/busybox tar -C /root -xf /root.tar
/bin/busybox rm /root.tar
exec /bin/busybox switch_root /root /lib/systemd/systemd
EOT
chmod +x "$fs/init"
(cd "$fs" && find . | cpio -o -H newc -R 0:0 --quiet) >"$tmp/initrd"
rm -rf "$fs"

# ---- the machine ----------------------------------------------------------

# Emulated time is the host's, if the kernel is told how it is counted.
tsc=$(gcc -O1 -o "$tmp/tsc" selftests/vm/tsc_khz.c 2>/dev/null && "$tmp/tsc")
exec 8>"$kernel/../.vm-lock"
flock 8
append="console=ttyS0 tsc=reliable no_timer_check panic=-1 loglevel=4"
append="$append watchdog_thresh=30 ${tsc:+tsc_early_khz=$tsc} systemd.journald.forward_to_console=1"
machine=
trap '[ -z "$machine" ] || kill "$machine"; rm -rf "$tmp"' EXIT
timeout -k 5 270 qemu-system-x86_64 -nodefaults -no-user-config -accel tcg \
	-cpu max -smp 2 -m 1536 -display none -no-reboot \
	-serial "file:${KVCACHE_BOOT_LOG:-$tmp/console}" -serial "file:$tmp/serial" \
	-kernel "$kernel/vmlinuz" -initrd "$tmp/initrd" -append "$append" \
	>"$tmp/qemu" 2>&1 </dev/null 8>&- &
machine=$!
wait $machine
machine=
exec 8>&-

# What was said there is said here.
again()
{
	tr -d '\r' <"$tmp/serial" >"$tmp/said"
	grep -q '^1\.\.[0-9]' "$tmp/said" && return
	cat "$tmp/qemu" "$tmp/said"
	tail -n 60 "${KVCACHE_BOOT_LOG:-$tmp/console}"
	return 1
}
check "boots, and comes to the end" again
while read -r line; do
	case $line in
	"ok "*"# SKIP"*)
		name=${line#ok * }
		skip "booted: ${name%% # SKIP*}" "${line##*# SKIP }" ;;
	"ok "*)	check "booted: ${line#ok * }" true ;;
	"not ok "*)
		check "booted: ${line#not ok * }" false ;;
	"1.."*|"TAP version"*)
		;;
	*)	echo "$line" ;;
	esac
done <"$tmp/said"
tap_end
