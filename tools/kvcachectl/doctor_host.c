// SPDX-License-Identifier: MIT
/*
 * doctor_host.c - what the machine has: memory that may be locked, huge pages,
 * a CPU and perhaps a GPU that kernels are written for.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"
#include "util.h"

#define CAP_IPC_LOCK	14
#define MEMLOCK_MIN	(64ULL << 20)
/* CUDA 12 runs from this release of the driver on. */
#define DRIVER_MIN	525
#define NVIDIA		0x10de
#define CLASS_DISPLAY	0x03

/* The value of a line that begins so; NULL if there is none. */
static const char *line_of(const char *text, const char *begin)
{
	const char *at = text;

	while (at && strncmp(at, begin, strlen(begin))) {
		at = strchr(at, '\n');
		if (at)
			at++;
	}
	return at ? at + strlen(begin) : NULL;
}

/* ---- locked memory -------------------------------------------------------- */

bool has_capability(const struct doctor *d, unsigned int cap)
{
	char *status = text_of(d, "/proc/self/status");
	const char *caps = status ? line_of(status, "CapEff:") : NULL;
	bool may = caps && strtoull(caps, NULL, 16) >> cap & 1;

	free(status);
	return may;
}

void check_memlock(struct doctor *d)
{
	char *limits = text_of(d, "/proc/self/limits");
	const char *line = limits ? line_of(limits, "Max locked memory") : NULL;
	uint64_t want = d->pool_bytes ? d->pool_bytes : MEMLOCK_MIN, bytes;
	char have[32], need[32];

	bytes = line ? strtoull(line, NULL, 10) : 0;
	if (!line)
		found(d, LEVEL_NOTE, "memlock", "memlock-unknown",
		      "mount /proc", "the limit cannot be read");
	else if (has_capability(d, CAP_IPC_LOCK))
		found(d, LEVEL_OK, "memlock", "ok", NULL,
		      "no limit binds this process (CAP_IPC_LOCK)");
	else if (!strncmp(line + strspn(line, " "), "unlimited", 9) ||
		 bytes >= want)
		found(d, LEVEL_OK, "memlock", "ok", NULL, "%s may be locked",
		      bytes ? human_size(bytes, have) : "everything");
	else
		found(d, LEVEL_NOTE, "memlock", "memlock-low",
		      "raise it: LimitMEMLOCK=infinity in the unit, memlock in /etc/security/limits.conf, or ulimit -l",
		      "%s may be locked, and %s is %s: pages cannot all be pinned for a GPU or io_uring",
		      human_size(bytes, have),
		      d->pool_bytes ? "the largest pool" : "what is of use",
		      human_size(want, need));
	free(limits);
}

/* ---- huge pages ------------------------------------------------------------ */

/* A broker's pages are memfds, for which another switch counts. */
static bool never_for_memfds(const struct doctor *d)
{
	char *shmem = text_of(d, "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
	bool never = shmem && (strstr(shmem, "[never]") ||
			       strstr(shmem, "[deny]"));

	free(shmem);
	return never;
}

void check_huge_pages(struct doctor *d)
{
	char *on = text_of(d, "/sys/kernel/mm/transparent_hugepage/enabled");

	if (!on)
		found(d, LEVEL_NOTE, "hugepages", "thp-absent",
		      "take a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
		      "this kernel has no transparent huge pages: attention misses the TLB more often");
	else if (strstr(on, "[never]"))
		found(d, LEVEL_NOTE, "hugepages", "thp-off",
		      "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled, and transparent_hugepage=madvise on the kernel's command line",
		      "transparent huge pages are off: attention misses the TLB more often");
	else if (d->serves && never_for_memfds(d))
		found(d, LEVEL_NOTE, "hugepages", "thp-shmem-off",
		      "echo advise >/sys/kernel/mm/transparent_hugepage/shmem_enabled, in a file of tmpfiles.d for good",
		      "transparent huge pages are off for memfds, which a broker's pages are: attention misses the TLB more often");
	else
		found(d, LEVEL_OK, "hugepages", "ok", NULL,
		      "transparent huge pages are on");
	free(on);
}

/* ---- CPU ------------------------------------------------------------------- */

/* " avx2 " among the flags: no part of another one. */
static bool has_flag(const char *flags, size_t len, const char *name)
{
	const char *at = flags, *end = flags + len;
	size_t n = strlen(name);

	while ((at = memmem(at, end - at, name, n))) {
		if (at > flags && at[-1] == ' ' &&
		    (at + n == end || at[n] == ' '))
			return true;
		at += n;
	}
	return false;
}

void check_cpu(struct doctor *d)
{
	static const char *const need[] = { "avx2", "fma", "f16c" };
	char *info = text_of(d, "/proc/cpuinfo"), missing[32] = "";
	const char *flags = info ? line_of(info, "flags\t") : NULL;
	size_t len = flags ? strcspn(flags, "\n") : 0, n = 0;

	for (size_t i = 0; i < sizeof(need) / sizeof(need[0]); i++)
		if (!has_flag(flags ? flags : "", len, need[i]))
			n += sprintf(missing + n, "%s%s", n ? ", " : "",
				     need[i]);
	if (n)
		found(d, LEVEL_NOTE, "cpu", "cpu-no-avx2",
		      "use a CPU of 2013 or later; in a virtual machine pass the host's through (-cpu host)",
		      "has no %s: attention runs in scalar code", missing);
	else
		found(d, LEVEL_OK, "cpu", "ok", NULL, "has %s",
		      has_flag(flags, len, "avx512bw") ? "AVX-512" : "AVX2");
	free(info);
}

/* ---- GPU ------------------------------------------------------------------- */

static uint32_t number_in(const struct doctor *d, const char *dev,
			  const char *file)
{
	char *s = text_of(d, "/sys/bus/pci/devices/%s/%s", dev, file);
	uint32_t v = s ? strtoul(s, NULL, 16) : 0;

	free(s);
	return v;
}

static unsigned int count_gpus(const struct doctor *d)
{
	char *path = below(d, "/sys/bus/pci/devices");
	DIR *dir = opendir(path);
	const struct dirent *e;
	unsigned int n = 0;

	free(path);
	while (dir && (e = readdir(dir)))
		if (e->d_name[0] != '.' &&
		    number_in(d, e->d_name, "vendor") == NVIDIA &&
		    number_in(d, e->d_name, "class") >> 16 == CLASS_DISPLAY)
			n++;
	if (dir)
		closedir(dir);
	return n;
}

static bool has_libcuda(const struct doctor *d)
{
	static const char *const at[] = {
		"/usr/lib/x86_64-linux-gnu/libcuda.so.1",
		"/usr/lib/aarch64-linux-gnu/libcuda.so.1",
		"/usr/lib64/libcuda.so.1", "/usr/lib/libcuda.so.1",
		"/usr/lib/wsl/lib/libcuda.so.1",
	};
	bool have = false;
	char *path;
	void *lib;

	for (size_t i = 0; !have && i < sizeof(at) / sizeof(at[0]); i++) {
		path = below(d, "%s", at[i]);
		have = !access(path, F_OK);
		free(path);
	}
	if (have || *d->root)
		return have;
	/* Wherever else the linker looks. */
	lib = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (lib)
		dlclose(lib);
	return lib;
}

/* "... Kernel Module  535.154.05  ...", for open modules "... for x86_64  ..." */
static unsigned int driver_release(const char *version)
{
	const char *at = version;

	while ((at = strpbrk(at, "0123456789"))) {
		size_t n = strspn(at, "0123456789");

		if (n == 3 && at[n] == '.' && at > version && at[-1] == ' ')
			return strtoul(at, NULL, 10);
		at += n;
	}
	return 0;
}

void check_gpu(struct doctor *d)
{
	char *version = text_of(d, "/proc/driver/nvidia/version");
	unsigned int n = count_gpus(d);
	unsigned int release = version ? driver_release(version) : 0;

	if (!n && !version)
		found(d, LEVEL_NOTE, "gpu", "gpu-none",
		      "nothing is needed if attention is to run on the CPU",
		      "no NVIDIA GPU");
	else if (!version)
		found(d, LEVEL_WRONG, "gpu", "gpu-no-driver",
		      "install NVIDIA's driver, then modprobe nvidia",
		      "%u NVIDIA GPU%s, and no driver is loaded", n,
		      n > 1 ? "s" : "");
	else if (release && release < DRIVER_MIN)
		found(d, LEVEL_WRONG, "gpu", "gpu-driver-old",
		      "install a newer one, then load it",
		      "the driver is %u, and CUDA 12 needs %u", release,
		      DRIVER_MIN);
	else if (!has_libcuda(d))
		found(d, LEVEL_WRONG, "gpu", "gpu-no-libcuda",
		      "install libcuda1 of the driver's release; in a container mount it (nvidia-container-toolkit)",
		      "the driver is loaded, and there is no libcuda.so.1");
	else
		found(d, LEVEL_OK, "gpu", "ok", NULL,
		      "driver %u, libcuda is there", release);
	free(version);
}
