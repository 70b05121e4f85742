# SPDX-License-Identifier: MIT
#
# Manual pages, into $(O)/man. Like a tool whose headers are not there, they are
# left out where there is no scdoc.

SCDOC ?= scdoc
man := $(if $(shell command -v $(SCDOC)),$(O)/man/.made,without-man)
man-from := $(wildcard Documentation/man/*.scd lib/include/kvcache/*.h) \
	Documentation/man/make.sh Documentation/man/kernel-doc.awk \
	kmod/include/uapi/linux/kvcache.h

man: $(man)

$(O)/man/.made: $(man-from)
	$(call quiet,MAN,$(@D))
	$(Q)SCDOC='$(SCDOC)' Documentation/man/make.sh $(@D) $(VERSION)
	$(Q)touch $@

without-man:
	@printf '  %-7s %s\n' SKIP \
		'manual pages: needs scdoc: run make setup, or apt-get install scdoc'

# What make.sh made is all that is there.
define install-man
$(Q)if [ -e $(O)/man/.made ]; then cd $(O)/man && for m in man*/*; do \
	$(INSTALL) -D -m 644 $$m $(DESTDIR)$(mandir)/$$m || exit; done; fi
endef
# Without scdoc, too: the names come from the sources.
define uninstall-man
$(Q)names=$$(Documentation/man/make.sh -n) && for m in $$names; do \
	rm -f $(DESTDIR)$(mandir)/$$m || exit; done
endef

.PHONY: man without-man
