# SPDX-License-Identifier: MIT
#
# kvcache: everything that is not the kernel module.
#
#   make            library, tools and tests
#   make run        four conversations of a real model, all set-up included
#   make check      every test, all set-up included
#   make install    DESTDIR, prefix
#   make clean
#
# V=1 shows the commands; SAN=address,undefined builds with sanitizers, into a
# folder of its own; WERROR=1 makes warnings errors.

VERSION := 0.1.0
SOVERSION := 0

prefix ?= /usr/local
libdir ?= $(prefix)/lib
bindir ?= $(prefix)/bin
includedir ?= $(prefix)/include

CC ?= gcc
AR ?= ar
CLANG ?= clang
O ?= build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
comma := ,

# ---- flags ----------------------------------------------------------------

OPT ?= -O2
CSTD := -std=gnu11
WARN := -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -Wshadow \
	-Wundef -Wvla -Wno-unused-parameter -Wno-sign-compare \
	$(if $(WERROR),-Werror)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=undefined \
	-fno-omit-frame-pointer)
INC := -Ilib/include -Ikmod/include/uapi -Ikernels/include
CFLAGS_ALL = $(CSTD) $(OPT) -g -fPIC -pthread -ffp-contract=off \
	-D_GNU_SOURCE -DKVC_VERSION='"$(VERSION)"' \
	$(WARN) $(SANFLAGS) $(INC) $(CFLAGS)
LDFLAGS_ALL = -pthread $(SANFLAGS) $(LDFLAGS)
LDLIBS_LIB := -lnettle -lm
LDLIBS_TOOLS := -ldnnl -lpcre2-8 -ljansson $(LDLIBS_LIB)

# The ledger is kernel code: shims stand in for the kernel's headers.
flags-kmod/% := -Ilib/shim
flags-lib/% := -Ilib/shim -Ikmod -Ilib -fvisibility=hidden
flags-kernels/% := -fvisibility=hidden
flags-tools/% := -Itools/common
flags-selftests/% := -Iselftests -Itools/common -Ilib -Ilib/shim -Ikmod

isa-avx2 := -mavx2 -mfma -mf16c
isa-avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c
dir-of = $(firstword $(subst /, ,$1))
src-flags = $(flags-$(call dir-of,$1)/%) \
	$(if $(filter %_avx2.c,$1),$(isa-avx2)) \
	$(if $(filter %_avx512.c,$1),$(isa-avx512)) \
	$(if $(filter kernels/cpu/%,$1),-O3)

# ---- output ---------------------------------------------------------------

ifeq ($(V),1)
Q :=
quiet = @:
else
Q := @
quiet = @printf '  %-7s %s\n' '$1' '$2'
endif

# ---- what is built --------------------------------------------------------

lib-src := kmod/ledger.c $(wildcard lib/*.c) $(wildcard kernels/*.c) \
	$(wildcard kernels/cpu/*.c)
common-src := $(wildcard tools/common/*.c)
tool-names := $(notdir $(patsubst %/,%,$(dir $(wildcard tools/*/main.c))))
test-src := $(wildcard selftests/*/test_*.c)
fuzz-src := $(wildcard selftests/fuzz/fuzz_*.c)

objs = $(patsubst %.c,$(O)/%.o,$1)
tool-src = $(wildcard tools/$1/*.c)

lib-a := $(O)/libkvcache.a
lib-so := $(O)/libkvcache.so.$(SOVERSION)
common-a := $(O)/libtools.a
tools := $(addprefix $(O)/,$(tool-names))
tests := $(patsubst selftests/%.c,$(O)/selftests/%,$(test-src))
fuzzers := $(patsubst selftests/fuzz/%.c,$(O)/fuzz/%,$(fuzz-src))

all: lib tools tests
lib: $(lib-a) $(if $(SAN),,$(lib-so))
tools: $(tools)
tests: $(tests) tools

$(O)/%.o: %.c
	$(call quiet,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS_ALL) $(call src-flags,$<) -MMD -MP -c -o $@ $<

$(lib-a): $(call objs,$(lib-src))
	$(call quiet,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(lib-so): $(call objs,$(lib-src)) lib/libkvcache.map
	$(call quiet,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) -Wl,-z,defs \
		-Wl,--version-script=lib/libkvcache.map $(LDFLAGS_ALL) \
		-o $@ $(filter %.o,$^) $(LDLIBS_LIB)
	$(Q)ln -sf $(@F) $(O)/libkvcache.so

$(common-a): $(call objs,$(common-src))
	$(call quiet,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

define tool-rule
$(O)/$1: $$(call objs,$$(call tool-src,$1)) $(common-a) $(lib-a)
	$$(call quiet,LD,$$@)
	$$(Q)$$(CC) $$(LDFLAGS_ALL) -o $$@ $$(filter %.o,$$^) \
		$(common-a) $(lib-a) $$(LDLIBS_TOOLS)
endef
$(foreach t,$(tool-names),$(eval $(call tool-rule,$t)))

$(O)/selftests/%: $(O)/selftests/%.o $(common-a) $(lib-a)
	$(call quiet,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $< $(common-a) $(lib-a) $(LDLIBS_TOOLS)

-include $(shell [ -d $(O) ] && find $(O) -name '*.d')

.PHONY: all lib tools tests clean
.SECONDARY:

clean:
	$(Q)rm -rf build
