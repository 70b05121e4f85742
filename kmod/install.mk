# SPDX-License-Identifier: GPL-2.0-only
#
# The kernel module in its place. Included by selftests/vm/vm.mk, which builds
# it.
#
#   make modules_install  the module for the kernel of KDIR, below DESTDIR, or
#                         below INSTALL_MOD_PATH if that is another; and what
#                         dkms_install does
#   make dkms_install     the udev rule, what loads it at boot, and the source
#                         for dkms, below DESTDIR: no kernel's headers are needed
#   make modules_uninstall, dkms_uninstall
#                         take that back: the module of the kernel of KDIR, and
#                         what dkms_install installed
#   make modules_sign     the built module, with KEY= and CERT= (PEM or DER)

udevrulesdir ?= /usr/lib/udev/rules.d
modulesloaddir ?= /usr/lib/modules-load.d
dkmsdir ?= /usr/src/kvcache-$(VERSION)
INSTALL_MOD_PATH ?= $(DESTDIR)
dkms-files = $(filter-out %.mk %.rules %/dkms.conf,\
	$(wildcard kmod/*.[ch] kmod/Kbuild kmod/include/uapi/linux/*.h))

# Not by the kernel's own rule: with headers' packages that says that it has no
# key and no System.map, and leaves out depmod. A stage for a package needs none.
modules_install: modules dkms_install
	$(Q)release=$$(modinfo -F vermagic $(KMOD)/kvcache.ko) && \
		release=$${release%% *} && \
		to=$(abspath $(INSTALL_MOD_PATH))/lib/modules/$$release && \
		$(INSTALL) -D -m 644 $(KMOD)/kvcache.ko \
			$$to/updates/kvcache.ko && \
		{ [ ! -e $$to/modules.order ] || \
			depmod -b /$(abspath $(INSTALL_MOD_PATH)) $$release; }; \
		status=$$?; \
		for other in $$to/updates/dkms/kvcache.ko* \
				$$to/extra/kvcache.ko*; do \
			[ ! -e $$other ] || printf '%s\n' \
				"warning: $$other is there, too: remove one" >&2; \
		done; exit $$status

dkms_install:
	$(Q)$(INSTALL) -D -m 644 kmod/60-kvcache.rules \
		$(DESTDIR)$(udevrulesdir)/60-kvcache.rules
	$(Q)$(INSTALL) -D -m 644 tools/systemd/kvcache.modules-load \
		$(DESTDIR)$(modulesloaddir)/kvcache.conf
	$(Q)for f in $(dkms-files:kmod/%=%); do \
		$(INSTALL) -D -m 644 kmod/$$f $(DESTDIR)$(dkmsdir)/$$f || exit; \
	done
	$(Q)sed 's/^PACKAGE_VERSION=.*/PACKAGE_VERSION="$(VERSION)"/' \
		kmod/dkms.conf >$(DESTDIR)$(dkmsdir)/dkms.conf

# That of dkms's own, of a package or of another kernel stays.
kdir-release = $(or $(shell sed -n 's/^.define UTS_RELEASE "\(.*\)"/\1/p' \
	$(KDIR)/include/generated/utsrelease.h 2>/dev/null),$(patsubst \
	/lib/modules/%/build,%,$(filter /lib/modules/%/build,$(KDIR))))
modules_uninstall:
	$(Q)[ -n '$(kdir-release)' ] || { \
		echo "which kernel's module? $(KDIR) does not say: KDIR=FOLDER," \
			"or rm lib/modules/RELEASE/updates/kvcache.ko" >&2; \
		exit 1; }
	$(Q)$(MAKE) dkms_uninstall
	$(Q)to=$(abspath $(INSTALL_MOD_PATH))/lib/modules/$(kdir-release) && \
		rm -f $$to/updates/kvcache.ko && \
		{ [ ! -e $$to/modules.order ] || \
			depmod -b /$(abspath $(INSTALL_MOD_PATH)) \
				$(kdir-release); } && \
		{ rmdir $$to/updates 2>/dev/null || :; }

# dkms would have a module without its source.
dkms_uninstall:
	$(Q)[ ! -e $(DESTDIR)/var/lib/dkms/kvcache/$(VERSION) ] || { \
		echo "dkms has kvcache $(VERSION): first" \
			"dkms remove kvcache/$(VERSION) --all" >&2; exit 1; }
	$(Q)rm -f $(DESTDIR)$(udevrulesdir)/60-kvcache.rules \
		$(DESTDIR)$(modulesloaddir)/kvcache.conf \
		$(addprefix $(DESTDIR)$(dkmsdir)/,dkms.conf \
			$(dkms-files:kmod/%=%))
	$(Q)[ ! -d $(DESTDIR)$(dkmsdir) ] || \
		find $(DESTDIR)$(dkmsdir) -depth -type d -empty -delete

modules_sign: modules
	$(Q)[ -r '$(KEY)' ] && [ -r '$(CERT)' ] || { \
		echo "usage: make modules_sign KEY=FILE CERT=FILE" >&2; exit 1; }
	$(Q)$(KDIR)/scripts/sign-file sha256 '$(KEY)' '$(CERT)' \
		$(KMOD)/kvcache.ko

.PHONY: modules_install dkms_install modules_uninstall dkms_uninstall \
	modules_sign
