# SPDX-License-Identifier: MIT
#
# Units and what belongs to them, where systemd looks. Included by the Makefile.
#
# The paths of programs are filled in. A unit whose program is not built is left
# out. modules-load.d goes with the module (kmod/install.mk): where that is not
# installed it would fail at each boot.

unitdir ?= $(prefix)/lib/systemd/system
userunitdir ?= $(prefix)/lib/systemd/user
sysusersdir ?= $(prefix)/lib/sysusers.d
tmpfilesdir ?= $(prefix)/lib/tmpfiles.d
sysconfdir ?= $(if $(filter /usr /usr/local,$(prefix)),/etc,$(prefix)/etc)

unit-dir := tools/systemd
# FILE:PLACE
systemd-files = $(foreach f,$(wildcard $(addprefix $(unit-dir)/,\
	$(addprefix *.,mount service socket timer))),$f:$(unitdir)/$(notdir $f)) \
	$(foreach f,$(wildcard $(unit-dir)/user/*),$f:$(userunitdir)/$(notdir $f)) \
	$(unit-dir)/kvcache.sysusers:$(sysusersdir)/kvcache.conf \
	$(unit-dir)/kvcache.tmpfiles:$(tmpfilesdir)/kvcache.conf
systemd-left-out = $(foreach t,$(filter-out $(tool-names),kvcache-broker \
	kvcache-exporter),$(unit-dir)/$t.% $(unit-dir)/user/$t.%) \
	$(if $(filter kvcachefs,$(tool-names)),,$(unit-dir)/run-kvcache-fs.%)

install-systemd:
	$(Q)for f in $(filter-out $(systemd-left-out),$(systemd-files)); do \
		$(INSTALL) -d "$(DESTDIR)$$(dirname "$${f#*:}")" && \
		sed -e 's,@bindir@,$(bindir),' \
			-e 's,@sysconfdir@,$(sysconfdir),' "$${f%%:*}" \
			>"$(DESTDIR)$${f#*:}" || exit; \
	done

uninstall-systemd:
	$(Q)rm -f $(foreach f,$(systemd-files),\
		$(DESTDIR)$(lastword $(subst :, ,$f)))

.PHONY: install-systemd uninstall-systemd
