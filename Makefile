# SPDX-License-Identifier: MIT
#
# kvcache. The kernel module is in selftests/vm/vm.mk.
#
#   make             library, tools and tests
#   make run         four conversations of a real model, all set-up included
#   make check       every test, all set-up included
#   make check-scenarios   several processes and tenants, on every backend
#   make check-admin     what shows them and changes them, on every backend
#   make check-levers    what makes keys and values go further
#   make check-san   the tests again, under address and undefined sanitizers
#   make check-tsan  the tests of threads, under the thread sanitizer
#   make check-bench the goals of kvcache-bench
#   make deb         Debian packages, into $(O)/deb
#   make check-packages   tests of the packages, in a Debian of their own
#   make bench       every measurement of the documentation, into $(O)/bench/
#   make modules     the kernel module, for the kernel of KDIR
#   make check-vm    tests of the module, in virtual machines
#   make check-vm-stress   the same under load
#   make check-kernel-debug   the same in a kernel that watches over the module
#   make fuzz        each fuzzer for FUZZ_TIME seconds (60)
#   make man         manual pages, into $(O)/man
#   make setup       packages that are missing, for all of the above
#   make install     DESTDIR, prefix; make uninstall takes it back, also
#                    what this build has no program for
#   make clean
#
# V=1 shows the commands; O=DIR builds in another folder than build/;
# SAN=address,undefined builds with sanitizers, into a folder of its own;
# WERROR=1 makes warnings errors.

VERSION := 0.1.0
SOVERSION := 0

prefix ?= /usr/local
libdir ?= $(prefix)/lib
bindir ?= $(prefix)/bin
includedir ?= $(prefix)/include
mandir ?= $(prefix)/share/man
completionsdir ?= $(prefix)/share/bash-completion/completions

CC ?= gcc
AR ?= ar
CLANG ?= clang
INSTALL ?= install
O ?= build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
comma := ,
FUZZ_TIME ?= 60

MAKEFLAGS += --no-print-directory
# make run and make check use all CPUs although nobody said -j.
jobs = $(if $(findstring --jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

# ---- flags ----------------------------------------------------------------

# Less to optimise keeps builds under sanitizers short.
OPT ?= $(if $(SAN),-O1,-O2)
CSTD := -std=gnu11
WARN := -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -Wshadow \
	-Wundef -Wvla -Wno-unused-parameter -Wno-sign-compare \
	$(if $(WERROR),-Werror)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=undefined \
	-fno-omit-frame-pointer)
INC := -Ilib/include -Ikmod/include/uapi -Ikernels/include
CFLAGS_ALL = $(CSTD) $(OPT) -g -fPIC -pthread -ffp-contract=off \
	-D_GNU_SOURCE -DKVC_VERSION=\"$(VERSION)\" \
	$(WARN) $(SANFLAGS) $(INC) $(CPPFLAGS) $(CFLAGS)
LDFLAGS_ALL = -pthread $(SANFLAGS) $(LDFLAGS)
LDLIBS_LIB := -lnettle -lm
# The library does without these: files are read by threads then, and there is
# no tier on a Redis server.
headers-uring := liburing.h:liburing-dev
headers-hiredis := hiredis/hiredis.h:libhiredis-dev
has = $(filter ok,$(shell tools/setup/headers.sh '$(CC)' $1 2>&1 && echo ok))
have-uring := $(call has,$(headers-uring))
have-hiredis := $(call has,$(headers-hiredis))
LDLIBS_TIERS := $(if $(have-uring),-luring) $(if $(have-hiredis),-lhiredis)
LDLIBS_TOOLS := -ldnnl -lgomp -lpcre2-8 -ljansson $(LDLIBS_TIERS) $(LDLIBS_LIB)

# What serves a machine needs none of what models do.
ldlibs-kvcache-broker := $(LDLIBS_LIB)
ldlibs-kvcache-exporter := -lmicrohttpd $(LDLIBS_LIB)
ldlibs-kvcachectl := -ljansson $(LDLIBS_LIB)
ldlibs-kvcachefs := -lfuse3 $(LDLIBS_LIB)
ldlibs-kvcachetop := -lncurses $(LDLIBS_LIB)

# What the compiler must find, and the package that has it.
headers-lib := nettle/sha2.h:nettle-dev
headers-tools := $(headers-lib) oneapi/dnnl/dnnl.h:libdnnl-dev \
	pcre2.h:libpcre2-dev jansson.h:libjansson-dev
# Without these the one tool is left out.
headers-kvcache-exporter := microhttpd.h:libmicrohttpd-dev
headers-kvcachefs := fuse3/fuse_opt.h:libfuse3-dev
headers-kvcachetop := ncurses.h:libncurses-dev

# The ledger is kernel code: shims stand in for the kernel's headers.
flags-kmod/% := -Ilib/shim
flags-lib/% := -Ilib/shim -Ikmod -Ilib -fvisibility=hidden \
	$(if $(have-uring),-DKVC_HAVE_URING) \
	$(if $(have-hiredis),-DKVC_HAVE_HIREDIS)
flags-kernels/% := -fvisibility=hidden
flags-tools/% := -Itools/common
flags-tools/kvcache-broker := -Ilib/shim -Ikmod
shims-for := tools/kvcache-bench/ledger_world.c \
	tools/kvcache-replay/store_ledger.c
flags-selftests/% := -Iselftests -Itools/common -Ilib -Ilib/shim -Ikmod

# This test decides which allocation fails.
wrap := malloc calloc realloc reallocarray aligned_alloc mmap
ldflags-unit/test_alloc_failure := $(addprefix -Wl$(comma)--wrap=,$(wrap))

isa-avx2 := -mavx2 -mfma -mf16c
isa-avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c
dir-of = $(firstword $(subst /, ,$1))
src-flags = $(flags-$(call dir-of,$1)/%) $(flags-$(patsubst %/,%,$(dir $1))) \
	$(if $(filter %_avx2.c,$1),$(isa-avx2)) \
	$(if $(filter %_avx512.c,$1),$(isa-avx512)) \
	$(if $(filter kernels/cpu/%,$1),$(if $(SAN),,-O3)) \
	$(if $(filter $(shims-for),$1),-Ilib/shim)

# ---- output ---------------------------------------------------------------

ifeq ($(V),1)
Q :=
quiet = @:
else
Q := @
quiet = @printf '  %-7s %s\n' '$1' '$2'
endif

# ---- what is built --------------------------------------------------------

lib-src := $(wildcard kmod/ledger*.c kmod/cmd*.c lib/*.c kernels/*.c) \
	$(wildcard kernels/cpu/*.c)
common-src := $(wildcard tools/common/*.c)
all-tools := $(notdir $(patsubst %/,%,$(dir $(wildcard tools/*/main.c))))
no-tools := $(foreach t,$(all-tools),$(if $(headers-$t),$(if $(filter ok,\
	$(shell tools/setup/headers.sh '$(CC)' $(headers-$t) 2>&1 && echo ok)),,$t)))
tool-names := $(filter-out $(no-tools),$(all-tools))
test-src := $(filter-out selftests/dev/%,$(wildcard selftests/*/test_*.c))
fuzz-src := $(wildcard selftests/fuzz/fuzz_*.c)

# What the tests of a folder share: its other sources. layout.c has no code.
helper-src = $(filter-out %/layout.c %/setup.c $1/stress_%.c $1/test_%.c \
	$1/fuzz_%.c,$(wildcard $1/*.c))

objs = $(patsubst %.c,$(O)/%.o,$1)
tool-src = $(wildcard tools/$1/*.c)

lib-a := $(O)/libkvcache.a
lib-so := $(O)/libkvcache.so.$(SOVERSION)
common-a := $(O)/libtools.a
tools := $(addprefix $(O)/,$(tool-names))
tests := $(patsubst selftests/%.c,$(O)/selftests/%,$(test-src))
fuzzers := $(patsubst selftests/fuzz/%.c,$(O)/fuzzers/%,$(fuzz-src))

all: lib tools man tests modules-or-not
lib: $(lib-a) $(if $(SAN),,$(lib-so))
tools: $(tools) $(no-tools:%=without-%)
tests: $(tests) tools
fuzzers: $(fuzzers)

without-%:
	@why=$$(tools/setup/headers.sh '$(CC)' $(headers-$*) 2>&1) || \
		printf '  %-7s %s\n' SKIP "$*: $$why"

# A file that changes when its text does, for what depends on the text.
$(O)/.flags: text = $(CC) $(CFLAGS_ALL) $(LDFLAGS_ALL)
$(O)/.lib-src: text = $(lib-src)
$(O)/.common-src: text = $(common-src)
$(O)/.flags $(O)/.lib-src $(O)/.common-src: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(strip $(text))' | cmp -s - $@ || \
		printf '%s\n' '$(strip $(text))' >$@

$(O)/.have-%: tools/setup/headers.sh $(O)/.flags
	@tools/setup/headers.sh '$(CC)' $(headers-$*) && touch $@

$(O)/%.o: %.c $(O)/.flags | $(O)/.have-lib
	$(call quiet,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) $(call src-flags,$<) -MMD -MP -c -o $@ $<

$(O)/tools/%.o $(O)/selftests/%.o: | $(O)/.have-tools

$(lib-a): $(call objs,$(lib-src)) $(O)/.lib-src
	$(call quiet,AR,$@)
	$(Q)rm -f $@ && $(AR) rcsD $@ $(filter %.o,$^)

$(lib-so): $(call objs,$(lib-src)) $(O)/.lib-src lib/libkvcache.map
	$(call quiet,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -Wl,-z,defs \
		-Wl,--version-script=lib/libkvcache.map $(LDFLAGS_ALL) \
		-o $@ $(filter %.o,$^) $(LDLIBS_TIERS) $(LDLIBS_LIB)
	$(Q)ln -sf $(@F) $(O)/libkvcache.so

$(common-a): $(call objs,$(common-src)) $(O)/.common-src
	$(call quiet,AR,$@)
	$(Q)rm -f $@ && $(AR) rcsD $@ $(filter %.o,$^)

define tool-rule
$(O)/$1: $$(call objs,$$(call tool-src,$1)) $(common-a) $(lib-a)
	$$(call quiet,LD,$$@)
	$$(Q)$$(CC) $$(LDFLAGS_ALL) -o $$@ $$(filter %.o,$$^) \
		$(common-a) $(lib-a) $$(or $$(ldlibs-$1),$$(LDLIBS_TOOLS))
endef
$(foreach t,$(tool-names),$(eval $(call tool-rule,$t)))

# An archive, so that each test gets only what it uses.
helpers = $(if $(call helper-src,$1),$(O)/$1/helpers.a)
folder = $(patsubst %/,%,$(dir $1))
.SECONDEXPANSION:
$(O)/selftests/%/helpers.a: $$(call objs,$$(call helper-src,selftests/$$*))
	$(call quiet,AR,$@)
	$(Q)rm -f $@ && $(AR) rcsD $@ $^

$(O)/selftests/%: $(O)/selftests/%.o \
		$$(call helpers,$$(call folder,selftests/$$*)) \
		$(common-a) $(lib-a)
	$(call quiet,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) $(ldflags-$*) -o $@ $^ $(LDLIBS_TOOLS)

# What unit tests share is there for fuzzers too.
$(O)/fuzzers/%: $(O)/selftests/fuzz/%.o $(call helpers,selftests/fuzz) \
		$(call helpers,selftests/unit) $(common-a) $(lib-a)
	$(call quiet,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -fsanitize=fuzzer -o $@ $^ $(LDLIBS_TOOLS)

-include $(patsubst %.c,$(O)/%.d,$(lib-src) $(common-src) \
	$(wildcard selftests/*/*.c) \
	$(foreach t,$(tool-names),$(call tool-src,$t)))

# ---- set-up, tests --------------------------------------------------------

# The kinds of test, cheapest first. Those of the library and the tools make
# sense under sanitizers too.
suites := style uapi unit kernels conformance tools broker levers scenarios \
	admin vm
san-suites := unit kernels conformance tools broker
tests-in = $(filter $(addprefix $(O)/selftests/,$(addsuffix /%,$1)),$(tests)) \
	$(foreach s,$1,$(wildcard selftests/$s/test_*.sh))

setup:
	$(Q)tools/setup/packages.sh check

run:
	$(Q)tools/setup/packages.sh run
	$(Q)$(MAKE) $(jobs) tools
	$(Q)model=$$(tools/setup/model.sh) && \
		KVCACHE_MODEL=$$model tools/setup/demo.sh $(O)

# A build of its own, so that it does not undo the one without -Werror.
check:
	$(Q)tools/setup/packages.sh check
	$(Q)$(MAKE) O=$(O)/check WERROR=1 $(jobs) all vm-programs
	$(Q)$(MAKE) O=$(O)/check WERROR=1 SUITES='$(suites)' \
		MACHINES='check scenarios admin' run-suites

# Several processes, several tenants: on a broker here, on the module there.
check-scenarios:
	$(Q)tools/setup/packages.sh check
	$(Q)$(MAKE) O=$(O)/check WERROR=1 $(jobs) tools vm-programs
	$(Q)$(MAKE) O=$(O)/check WERROR=1 SUITES=scenarios MACHINES=scenarios \
		run-suites

# All who look at one ledger, and change it, at once.
check-admin:
	$(Q)tools/setup/packages.sh check
	$(Q)$(MAKE) O=$(O)/check WERROR=1 $(jobs) tools vm-programs
	$(Q)$(MAKE) O=$(O)/check WERROR=1 SUITES=admin MACHINES=admin run-suites

# What makes keys and values go further, each as a whole.
check-levers:
	$(Q)tools/setup/packages.sh check
	$(Q)$(MAKE) O=$(O)/check WERROR=1 $(jobs) tools
	$(Q)$(MAKE) O=$(O)/check WERROR=1 SUITES=levers run-suites

check-san:
	$(Q)$(MAKE) SAN=address,undefined O=$(O)/san $(jobs) tests
	$(Q)$(MAKE) SAN=address,undefined O=$(O)/san \
		SUITES='$(san-suites)' run-suites

check-tsan:
	$(Q)$(MAKE) SAN=thread O=$(O)/tsan $(jobs) run-thread-tests

check-bench:
	$(Q)$(MAKE) O=$(O)/check WERROR=1 $(jobs) tools
	$(Q)$(MAKE) O=$(O)/check WERROR=1 SUITES=bench run-suites

# What the tests of packages are made of, they build themselves, as packages.
check-packages:
	$(Q)tools/setup/packages.sh packages
	$(Q)$(MAKE) O=$(O)/check WERROR=1 $(jobs) lib tools
	$(Q)$(MAKE) O=$(O)/check WERROR=1 SUITES=packages run-machines

deb:
	$(Q)tools/packaging/build.sh -o $(O)/deb

bench: tools
	$(Q)O=$(O) selftests/bench/all.sh

# A test that needs the model and has none says so. KVCACHE_GEMMA=1 asks for
# one more, with windows.
with-model = KVCACHE_MODEL=$$(tools/setup/model.sh) || KVCACHE_MODEL=; \
	export KVCACHE_MODEL; \
	if [ "$(KVCACHE_GEMMA)" = 1 ]; then \
		KVCACHE_GEMMA_MODEL=$$(tools/setup/model.sh gemma) || \
			KVCACHE_GEMMA_MODEL=; \
		export KVCACHE_GEMMA_MODEL; \
	fi;

# Machines first: what ran in them is told among all the rest.
define run-tests
	$(Q)$(with-model) export KVCACHE_BUILD='$(abspath $(O))'; \
	machines= && for m in $(MACHINES); do \
		machines="$$machines $$(selftests/vm/machines.sh $$m)" || exit; \
	done && \
		selftests/run-tests.sh -o $(O)/log \
			$(call tests-in,$(SUITES)) $$machines
endef

run-suites: tests
	$(run-tests)

run-machines:
	$(run-tests)

run-thread-tests: $(filter %_threads,$(tests))
	$(Q)selftests/run-tests.sh -o $(O)/log $^

fuzz:
	$(Q)$(MAKE) SAN=fuzzer-no-link,address,undefined CC=$(CLANG) \
		O=$(O)/fuzz $(jobs) fuzzers
	$(Q)selftests/run-fuzz.sh -o $(O)/fuzz/log -t $(FUZZ_TIME) \
		$(patsubst $(O)/%,$(O)/fuzz/%,$(fuzzers))

include selftests/vm/vm.mk
include Documentation/man/man.mk

# ---- installed ------------------------------------------------------------

# Where each header goes below includedir: programs include the same names
# from an installed copy as from this tree.
public-headers := lib/include/kvcache/kvcache.h:kvcache/kvcache.h \
	lib/include/kvcache/seq.h:kvcache/seq.h \
	lib/include/kvcache/batch.h:kvcache/batch.h \
	lib/include/kvcache/save.h:kvcache/save.h \
	lib/include/kvcache/tier.h:kvcache/tier.h \
	lib/include/kvcache/broker.h:kvcache/broker.h \
	lib/include/kvcache/uapi.h:kvcache/uapi.h \
	kmod/include/uapi/linux/kvcache.h:linux/kvcache.h
# What Prometheus and Grafana read.
sharedir ?= $(prefix)/share/kvcache
all-shared := $(addprefix tools/kvcache-exporter/,\
	alerts.yml grafana-dashboard.json)
shared := $(if $(filter kvcache-exporter,$(tool-names)),$(all-shared))
# libkvcache.pc can be moved where its folders are below the prefix.
below-prefix = $(patsubst $(prefix)/%,$${prefix}/%,$1)
fill-in = sed -e 's,@prefix@,$(prefix),' -e 's,@version@,$(VERSION),' \
	-e 's/@tiers@/$(if $(have-uring),$(comma) liburing)$(if \
	$(have-hiredis),$(comma) hiredis)/' \
	-e 's,@libdir@,$(call below-prefix,$(libdir)),' \
	-e 's,@includedir@,$(call below-prefix,$(includedir)),'

include tools/systemd/install.mk

install: lib tools man install-systemd
	$(Q)$(INSTALL) -d $(DESTDIR)$(libdir)/pkgconfig $(DESTDIR)$(bindir) \
		$(DESTDIR)$(completionsdir)
	$(Q)$(INSTALL) -m 644 $(lib-a) $(DESTDIR)$(libdir)/libkvcache.a
	$(Q)$(INSTALL) -m 755 $(lib-so) \
		$(DESTDIR)$(libdir)/libkvcache.so.$(VERSION)
	$(Q)ln -sf libkvcache.so.$(VERSION) $(DESTDIR)$(libdir)/$(notdir $(lib-so))
	$(Q)ln -sf $(notdir $(lib-so)) $(DESTDIR)$(libdir)/libkvcache.so
	$(Q)$(fill-in) lib/libkvcache.pc.in \
		>$(DESTDIR)$(libdir)/pkgconfig/libkvcache.pc
	$(Q)for h in $(public-headers); do \
		$(INSTALL) -D -m 644 $${h%%:*} \
			$(DESTDIR)$(includedir)/$${h##*:} || exit; \
	done
	$(Q)$(if $(tools),$(INSTALL) -m 755 $(tools) $(DESTDIR)$(bindir))
	$(Q)$(O)/kvcachectl completion bash \
		>$(DESTDIR)$(completionsdir)/kvcachectl
	$(install-man)
	$(Q)for f in $(shared); do \
		$(INSTALL) -D -m 644 $$f $(DESTDIR)$(sharedir)/$${f##*/} || exit; \
	done

# Of everything that there can be: what is built now need not be what was.
uninstall: uninstall-systemd
	$(uninstall-man)
	$(Q)rm -f $(addprefix $(DESTDIR)$(libdir)/,libkvcache.a libkvcache.so \
		$(notdir $(lib-so)) libkvcache.so.$(VERSION) \
		pkgconfig/libkvcache.pc) \
		$(addprefix $(DESTDIR)$(bindir)/,$(all-tools)) \
		$(DESTDIR)$(completionsdir)/kvcachectl \
		$(addprefix $(DESTDIR)$(sharedir)/,$(notdir $(all-shared))) \
		$(foreach h,$(public-headers),\
			$(DESTDIR)$(includedir)/$(lastword $(subst :, ,$h)))
	$(Q)rmdir $(DESTDIR)$(includedir)/kvcache 2>/dev/null || :
	$(Q)rmdir $(DESTDIR)$(sharedir) 2>/dev/null || :

clean:
	$(Q)rm -rf $(O)

.PHONY: all lib tools tests fuzzers setup run check check-san check-tsan \
	check-scenarios check-admin check-levers check-bench check-packages deb bench \
	run-suites run-machines \
	run-thread-tests fuzz \
	install uninstall clean FORCE
.SECONDARY:
.DELETE_ON_ERROR:
