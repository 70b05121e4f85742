#!/bin/sh
# SPDX-License-Identifier: MIT
#
# make modules_install and make modules_sign: the module where modprobe, the
# udev rule where udev and the source where dkms look for them; a signature
# that is the key's; and make modules_uninstall, which leaves nothing.
. "$(dirname "$0")/../tap.sh"
cd "$root" || exit 1
at=$tmp/at

for program in modinfo depmod openssl; do
	needs $program && continue
	skip "the module in its place" "no $program"
	tap_end
done
kernel=$(tools/setup/kernels.sh 6.1 2>"$tmp/said") || {
	skip "the module in its place" "no kernel: $(tail -n 1 "$tmp/said")"
	tap_end
}
release=$(cat "$kernel/release")
modules=$at/lib/modules/$release
version=$(sed -n 's/^VERSION := //p' Makefile)
source=$at/usr/src/kvcache-$version

# Not of the tests' make: no jobserver, no variables of its command line. What
# check-vm built is taken, with its flags; what is signed is put back.
kmod=$build/kmod-6.1
kmod_make()
{
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES \
		make --no-print-directory O="$build" WERROR=1 \
		KDIR="$kernel/build" KMOD="$kmod" "$@"
}

check "the module builds" kmod_make modules
one_line()
{
	kmod_make KDIR=/nowhere modules-or-not >"$tmp/skip" || return
	cat "$tmp/skip"
	[ "$(wc -l <"$tmp/skip")" -eq 1 ] && grep -q 'SKIP.*/nowhere' "$tmp/skip"
}
check "without a kernel's headers one line says so" one_line
cp -p "$kmod/kvcache.ko" "$tmp/built.ko" || tap_end
trap 'cp -p "$tmp/built.ko" "$kmod/kvcache.ko"; rm -rf "$tmp"' EXIT

# field FILE NAME VALUE
field()
{
	said=$(modinfo -F "$2" "$1")
	echo "$2: $said"
	[ "$said" = "$3" ]
}
# starts FILE NAME VALUE: the first word of the field.
starts()
{
	said=$(modinfo -F "$2" "$1")
	echo "$2: $said"
	[ "${said%% *}" = "$3" ]
}
files_of()
{
	(cd "$1" && find . ! -type d | sort)
}

# ---- signed ---------------------------------------------------------------

cat >"$tmp/x509" <<'EOT'
[req]
distinguished_name = dn
prompt = no
x509_extensions = ext
[dn]
CN = kvcache test key
[ext]
subjectKeyIdentifier = hash
EOT
openssl req -new -x509 -newkey rsa:2048 -nodes -days 2 -config "$tmp/x509" \
	-keyout "$tmp/key.pem" -out "$tmp/cert.pem" 2>/dev/null

signature_of_key()
{
	# What follows the module is a PKCS#7 message, 12 bytes that say how
	# long it is, and a line.
	ko=$kmod/kvcache.ko
	end=$(wc -c <"$ko")
	[ "$(tail -c 28 "$ko")" = "~Module signature appended~" ] || return
	length=$(tail -c 32 "$ko" | head -c 4 | od -A n -t u4 --endian=big)
	length=$((length))
	body=$((end - 28 - 12 - length))
	head -c "$body" "$ko" >"$tmp/body"
	tail -c +$((body + 1)) "$ko" | head -c "$length" >"$tmp/signature"
	cmp "$tmp/body" "$tmp/built.ko" &&
		openssl smime -verify -inform DER -in "$tmp/signature" \
			-binary -content "$tmp/body" -certfile "$tmp/cert.pem" \
			-nointern -noverify >"$tmp/verified"
}

check "unsigned" field "$kmod/kvcache.ko" signer ""
without_key()
{
	! kmod_make modules_sign KEY="$tmp/none" CERT="$tmp/cert.pem" &&
		cmp "$kmod/kvcache.ko" "$tmp/built.ko"
}
check "no key, no signature" without_key
check "sign" kmod_make modules_sign KEY="$tmp/key.pem" CERT="$tmp/cert.pem"
check "signed by the key" field "$kmod/kvcache.ko" signer "kvcache test key"
check "the signature is the module's" signature_of_key

# ---- installed ------------------------------------------------------------

check "install" kmod_make modules_install DESTDIR="$at"
check "what was signed is installed" cmp "$kmod/kvcache.ko" \
	"$modules/updates/kvcache.ko"
check "for the kernel" starts "$modules/updates/kvcache.ko" vermagic "$release"
check "version" field "$modules/updates/kvcache.ko" version "$version"
check "the udev rule" cmp kmod/60-kvcache.rules \
	"$at/usr/lib/udev/rules.d/60-kvcache.rules"

check "loaded at boot" cmp tools/systemd/kvcache.modules-load \
	"$at/usr/lib/modules-load.d/kvcache.conf"

elsewhere()
{
	kmod_make modules_install DESTDIR="$tmp/a" INSTALL_MOD_PATH="$tmp/b" &&
		[ "$(ls "$tmp/a" "$tmp/b" | tr '\n' ' ')" = \
			"$tmp/a: usr  $tmp/b: lib " ]
}
check "the module below INSTALL_MOD_PATH" elsewhere
other_copy()
{
	there=$tmp/c/lib/modules/$release/updates/dkms/kvcache.ko
	mkdir -p "${there%/*}" && touch "$there" &&
		kmod_make modules_install DESTDIR="$tmp/c" >"$tmp/said" 2>&1
	cat "$tmp/said"
	grep -q -x "warning: $there is there, too: remove one" "$tmp/said"
}
check "another copy is told of" other_copy
# A tree of a whole kernel is told of the module.
known()
{
	cp "$kernel"/modules/modules.order "$kernel"/modules/modules.builtin* \
		"$modules/" &&
		kmod_make modules_install DESTDIR="$at" &&
		modprobe -d "$at" -S "$release" -n -v kvcache >"$tmp/said"
	cat "$tmp/said"
	grep -q "/updates/kvcache.ko" "$tmp/said"
}
check "modprobe finds it" known

# ---- dkms -----------------------------------------------------------------

# value NAME: of dkms.conf, as dkms reads it.
value()
{
	# shellcheck disable=SC2016 # for the shell below
	env kernel_source_dir="$kernel/build" dkms_tree="$tmp/dkms" \
		bash -c '. "$1" && echo "${!2}"' - "$source/dkms.conf" "$1"
}
conf()
{
	echo "$1: $(value "$1")"
	[ "$(value "$1")" = "$2" ]
}
check "dkms: name" conf PACKAGE_NAME kvcache
check "dkms: version" conf PACKAGE_VERSION "$version"
check "dkms: the tree's own version" grep -q -x \
	"PACKAGE_VERSION=\"$version\"" kmod/dkms.conf
check "dkms: only what the module is built from" [ \
	"$(cd kmod && find . -type f | grep -v '\.mk$\|\.rules$' | sort)" = \
	"$(files_of "$source")" ]

# As dkms does: a copy of the source, in a place of its own, by MAKE[0].
dkms_builds()
{
	to=$tmp/dkms/kvcache/$version/build
	mkdir -p "$to" && cp -r "$source/." "$to/" || return
	(cd "$to" && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL \
		-u MAKEOVERRIDES sh -c "$(value 'MAKE[0]')") || return
	starts "$to/$(value 'BUILT_MODULE_NAME[0]').ko" vermagic "$release"
}
check "dkms: builds from there" dkms_builds

# ---- uninstalled ----------------------------------------------------------

not_known()
{
	kmod_make modules_uninstall DESTDIR="$at" &&
		! modprobe -d "$at" -S "$release" -n -v kvcache
}
check "modules_uninstall: modprobe finds it no more" not_known
# What is depmod's and the kernel's is left.
none_left()
{
	files_of "$at" | grep -v '/modules\.[a-z.]*$' >"$tmp/left"
	cat "$tmp/left"
	[ ! -s "$tmp/left" ] && [ ! -e "$source" ]
}
check "modules_uninstall: nothing is left" none_left
check "modules_uninstall: below INSTALL_MOD_PATH" sh -c '"$@" && [ -z \
	"$(find "$0/a" "$0/b" ! -type d)" ]' "$tmp" env -u MAKEFLAGS -u MFLAGS \
	make --no-print-directory O="$build" KDIR="$kernel/build" \
	modules_uninstall DESTDIR="$tmp/a" INSTALL_MOD_PATH="$tmp/b"
others_copy()
{
	kmod_make modules_uninstall DESTDIR="$tmp/c" || return
	files_of "$tmp/c"
	[ "$(files_of "$tmp/c")" = \
		"./lib/modules/$release/updates/dkms/kvcache.ko" ]
}
check "modules_uninstall: the copy of dkms stays" others_copy
no_kernel()
{
	! kmod_make KDIR=/nowhere modules_uninstall DESTDIR="$tmp/d" \
		2>"$tmp/said"
	cat "$tmp/said"
	grep -q 'which kernel.s module? /nowhere' "$tmp/said"
}
check "modules_uninstall: of no kernel" no_kernel

tap_end
