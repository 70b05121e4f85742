# SPDX-License-Identifier: MIT
#
# The kernel module, and the virtual machines that it is tested in. Included by
# the Makefile; everything is built in $(O).
#
#   make modules     the module for the running kernel, or for that of KDIR
#   make check-vm    in virtual machines with Debian's kernels
#   make check-vm-stress   under load, for minutes; KILLS=, SEED=,
#                    FUZZ_SECONDS=, or FULL=1 for far more of it
#   make check-kernel-debug   in a kernel that watches over the module; FULL=1
#                    adds one that looks for data races, and 10 minutes of
#                    fuzzing in each
#   make check-uml   in a kernel that is a program: seconds, for who develops

KDIR ?= /lib/modules/$(shell uname -r)/build
KMOD ?= $(O)/kmod-$(notdir $(KDIR:%/build=%))
KSRC ?= kmod
vm-kernels := 6.1 6.12

# The kernel's build writes beside the sources: these are links to them. What
# belongs to this make is not for that one.
modules:
	$(Q)[ -e $(KDIR)/Makefile ] || { \
		echo "needs a kernel's headers: $(KDIR) has none: KDIR=FOLDER," \
			"or apt-get install linux-headers-$$(uname -r)" >&2; \
		exit 1; }
	$(Q)mkdir -p $(KMOD) && find $(KMOD) -type l -delete && \
		for d in $(abspath $(KSRC)); do \
			cp -rsf $$d/. $(KMOD)/ || exit; \
		done
	$(Q)$(MAKE) -C $(KDIR) M=$(abspath $(KMOD)) O= \
		$(if $(V),,-s) $(if $(WERROR),W=1 KCFLAGS=-Werror) modules

# Everything else builds without a kernel's headers.
modules-or-not:
	$(Q)if [ -e $(KDIR)/Makefile ]; then $(MAKE) modules; else \
		printf '  %-7s %s\n' SKIP "kmod: no headers in $(KDIR)"; fi

# They are written for the kernel's own harness, and are no use without the
# module: they are not among the tests that everything else builds.
dev-tests := $(patsubst selftests/%.c,$(O)/selftests/%,\
	$(wildcard $(addprefix selftests/dev/,test_*.c stress_*.c setup.c)))
flags-selftests/dev = -Wno-missing-prototypes -isystem \
	$(shell tools/setup/kernels.sh source)/tools/testing/selftests
dev-tests: $(dev-tests)

$(vm-kernels:%=module-%): module-%:
	$(Q)dir=$$(tools/setup/kernels.sh $*) && \
		$(MAKE) KDIR=$$dir/build KMOD=$(O)/kmod-$* modules && \
		$(MAKE) KDIR=$$dir/build KMOD=$(O)/importer-$* $(importer)

# A driver that imports what the module exports.
importer = KSRC=selftests/vm/importer modules

# What kvcache-run says in-process, to be compared with in the machines.
$(O)/selftests/dev/tokens: selftests/dev/test_run.sh $(O)/kvcache-run FORCE
	$(call quiet,RUN,$@)
	$(Q)$(with-model) KVCACHE_BUILD='$(abspath $(O))' $< host >$@

# Where one of the languages is missing, their tests say so.
$(O)/languages.tar: selftests/dev/languages.sh \
		$(wildcard Documentation/userspace-api/examples/*)
	$(call quiet,TAR,$@)
	$(Q)$< $@ || rm -f $@

# Suites of the in-process backend that run on the device as well.
device-tests := $(patsubst selftests/%.c,$(O)/selftests/%,\
	$(wildcard selftests/conformance/test_*.c) \
	$(patsubst %,selftests/unit/test_%.c,cmd cmd_values cmd_counters seq \
		prefix batch revoke predict dedup limits save restore \
		seq_remove seq_shift seq_static seq_reorder))

scenario-tests := $(patsubst selftests/%.c,$(O)/selftests/%,\
	$(wildcard selftests/scenarios/test_*.c))

# All that machines need.
vm-programs: dev-tests $(device-tests) $(scenario-tests) $(O)/kvcache-run \
	$(filter %/kvcachefs,$(tools)) \
	$(O)/kvcache-bench $(O)/kvcache-replay $(O)/kvcachectl \
	$(filter $(O)/kvcachetop,$(tools)) $(O)/selftests/dev/tokens $(O)/languages.tar \
	$(vm-kernels:%=module-%)

check-vm:
	$(Q)tools/setup/packages.sh check
	$(Q)$(MAKE) O=$(O)/check WERROR=1 $(jobs) vm-programs
	$(Q)$(MAKE) O=$(O)/check WERROR=1 MACHINES=check run-machines

check-vm-stress:
	$(Q)tools/setup/packages.sh check
	$(Q)$(MAKE) O=$(O)/check WERROR=1 $(jobs) vm-programs
	$(Q)$(MAKE) O=$(O)/check WERROR=1 MACHINES=stress run-machines

# The ledger once more, with a suite of KUnit.
kunit = KSRC='kmod selftests/vm/kunit' modules

# Built once, in about 19 minutes of one CPU.
debug-kernels := debug kcsan um
$(debug-kernels:%=module-%): module-%:
	$(Q)dir=$$(selftests/vm/debug-kernel.sh $*) && \
		mkdir -p $(O)/linux && ln -sfn $$dir $(O)/linux/$* && \
		of="KDIR=$$dir/build $(if $(filter um,$*),ARCH=um)" && \
		$(MAKE) $$of KMOD=$(O)/kmod-$* modules && \
		$(MAKE) $$of KMOD=$(O)/importer-$* $(importer) && \
		$(MAKE) $$of KMOD=$(O)/kunit-$* $(kunit)

check-kernel-debug:
	$(Q)tools/setup/packages.sh check
	$(Q)$(MAKE) O=$(O)/check WERROR=1 $(jobs) vm-programs module-debug \
		$(if $(FULL),module-kcsan)
	$(Q)$(MAKE) O=$(O)/check WERROR=1 MACHINES=debug run-machines

check-uml:
	$(Q)tools/setup/packages.sh check
	$(Q)$(MAKE) O=$(O)/check WERROR=1 $(jobs) dev-tests module-um
	$(Q)$(MAKE) O=$(O)/check WERROR=1 MACHINES=uml run-machines

.PHONY: modules modules-or-not dev-tests vm-programs check-vm check-vm-stress \
	check-kernel-debug check-uml $(vm-kernels:%=module-%) \
	$(debug-kernels:%=module-%)

include kmod/install.mk
