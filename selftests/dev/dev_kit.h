/* SPDX-License-Identifier: MIT */
/*
 * dev_kit.h - the module as a program sees it: a pool, two tenants, opens of
 * the device, and for each command what it must say.
 *
 * Written on the kernel's own harness. Tests run as root in a machine of their
 * own; a test of an unprivileged caller forks and drops what it has.
 */
#ifndef DEV_KIT_H
#define DEV_KIT_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/kvcache.h>

#include "kselftest_harness.h"

/* A machine that is emulated, watched and busy is ten times slower. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	90

#define DEVICE		"/dev/kvcache"
#define SYSFS		"/sys/class/kvcache/kvcache"
#define NEVER		KVCACHE_TIME_NEVER
#define MIB		(1UL << 20)

/* ---- commands ------------------------------------------------------------ */

/* 0 or -errno. */
static inline int dev_call(int fd, unsigned int nr, void *arg)
{
	return ioctl(fd, KVCACHE_IO(nr), arg) < 0 ? -errno : 0;
}

/* A struct with its size and no flags, all else poison. */
#define POISON(x)							\
	do {								\
		memset(&(x), 0xcc, sizeof(x));				\
		(x).size = sizeof(x);					\
		(x).flags = 0;						\
	} while (0)

static inline uint64_t dev_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static inline int dev_open(void)
{
	return open(DEVICE, O_RDWR | O_CLOEXEC);
}

static inline int dev_attach(int fd, const char *name)
{
	struct kvcache_attach a = { .size = sizeof(a) };

	a.by = name ? KVCACHE_ATTACH_NAME : KVCACHE_ATTACH_AUTO;
	if (name)
		strncpy(a.name, name, sizeof(a.name) - 1);
	return dev_call(fd, KVCACHE_NR_ATTACH, &a);
}

/* An open that is attached, or -errno. */
static inline int dev_client(const char *name)
{
	int fd = dev_open(), err;

	if (fd < 0)
		return -errno;
	err = dev_attach(fd, name);
	if (!err)
		return fd;
	close(fd);
	return err;
}

static inline int dev_alloc_until(int fd, uint32_t pool, uint32_t nr,
				  uint64_t deadline_ns, uint64_t *pages)
{
	struct kvcache_alloc a;
	int err;

	POISON(a);
	a.pool = pool;
	a.nr = nr;
	a.deadline_ns = deadline_ns;
	err = dev_call(fd, KVCACHE_NR_ALLOC, &a);
	if (!err)
		memcpy(pages, a.out_pages, nr * sizeof(*pages));
	return err;
}

static inline int dev_alloc(int fd, uint32_t pool, uint32_t nr, uint64_t *pages)
{
	return dev_alloc_until(fd, pool, nr, 0, pages);
}

static inline int dev_free(int fd, uint32_t pool, const uint64_t *pages,
			   uint32_t nr)
{
	struct kvcache_free f = { .size = sizeof(f), .pool = pool, .nr = nr };

	memcpy(f.pages, pages, nr * sizeof(*pages));
	return dev_call(fd, KVCACHE_NR_FREE, &f);
}

/* Under a key that is this number; the page to use from now on to @page. */
static inline int dev_publish_as(int fd, uint32_t pool, uint64_t *page,
				 uint32_t key, uint32_t flags, uint32_t domain,
				 uint32_t *result)
{
	struct kvcache_publish p = {
		.size = sizeof(p), .pool = pool, .nr = 1, .domain = domain,
	};
	struct kvcache_publish_page *e = &p.pages[0];
	int err;

	e->handle = *page;
	e->flags = flags;
	e->nr_keys = 1;
	e->priority = KVCACHE_PRIO_DEFAULT;
	e->ttl_ns = NEVER;
	e->keys[0].fill = 1;
	memcpy(e->keys[0].key, &key, sizeof(key));
	err = dev_call(fd, KVCACHE_NR_PUBLISH, &p);
	if (!err)
		*page = e->out_handle;
	if (!err && result)
		*result = e->out_result;
	return err;
}

static inline int dev_publish(int fd, uint32_t pool, uint64_t *page,
			      uint32_t key)
{
	return dev_publish_as(fd, pool, page, key, 0, 0, NULL);
}

/* The page under the key, with a reference; -ENOENT. */
static inline int dev_lookup(int fd, uint32_t pool, uint32_t key,
			     uint64_t *page)
{
	struct kvcache_lookup l;
	int err;

	POISON(l);
	l.pool = pool;
	l.nr_keys = 1;
	l.keys_per_page = 1;
	l.tail = 0;
	memset(l.keys, 0, sizeof(l.keys));
	memcpy(l.keys[0], &key, sizeof(key));
	err = dev_call(fd, KVCACHE_NR_LOOKUP, &l);
	if (!err && !l.out_nr_pages)
		err = -ENOENT;
	if (!err)
		*page = l.out_found[0].handle;
	return err;
}

static inline int dev_advise(int fd, uint32_t pool, uint64_t page,
			     uint32_t advice, uint8_t *state)
{
	struct kvcache_advise a = {
		.size = sizeof(a), .pool = pool, .nr = 1, .advice = advice,
		.pages[0] = page,
	};
	int err = dev_call(fd, KVCACHE_NR_ADVISE, &a);

	if (state)
		*state = a.out_state[0];
	return err;
}

/* ---- administration ------------------------------------------------------ */

static inline int dev_pool(int fd, const char *name, uint64_t page_size,
			   uint64_t nr_pages)
{
	struct kvcache_pool_set s = {
		.size = sizeof(s), .op = KVCACHE_POOL_CREATE,
		.page_size = page_size, .nr_pages = nr_pages,
	};
	int err;

	strncpy(s.name, name, sizeof(s.name) - 1);
	err = dev_call(fd, KVCACHE_NR_POOL_SET, &s);
	return err ? err : (int)s.out_pool;
}

static inline int dev_pool_op(int fd, uint32_t pool, uint32_t op,
			      uint64_t nr_pages, uint64_t *out)
{
	struct kvcache_pool_set s = {
		.size = sizeof(s), .op = op, .pool = pool,
		.nr_pages = nr_pages,
	};
	int err = dev_call(fd, KVCACHE_NR_POOL_SET, &s);

	if (out)
		*out = s.out_nr_pages;
	return err;
}

/* Number of a new tenant that anybody may attach to. */
static inline int dev_tenant(int fd, const char *name, uint32_t pool,
			     uint64_t min, uint64_t max)
{
	struct kvcache_tenant_set s = {
		.size = sizeof(s),
		.set = KVCACHE_SET_LIMITS | KVCACHE_SET_OWNER,
		.pool = pool, .mode = 0444, .min = min, .max = max,
		.deadline_ns = NEVER, .ttl_ns = NEVER,
	};
	int err;

	strncpy(s.name, name, sizeof(s.name) - 1);
	err = dev_call(fd, KVCACHE_NR_TENANT_CREATE, &s);
	return err ? err : (int)s.out_tenant;
}

static inline int dev_limits(int fd, uint32_t tenant, uint32_t pool,
			     uint64_t min, uint64_t low, uint64_t max,
			     uint64_t deadline_ns)
{
	struct kvcache_tenant_set s = {
		.size = sizeof(s), .set = KVCACHE_SET_LIMITS, .tenant = tenant,
		.pool = pool, .min = min, .low = low, .max = max,
		.deadline_ns = deadline_ns,
	};

	return dev_call(fd, KVCACHE_NR_TENANT_SET, &s);
}

static inline int dev_pool_info(int fd, uint32_t pool,
				struct kvcache_pool_info *out)
{
	struct kvcache_query q;
	uint32_t k;
	int err;

	POISON(q);
	err = dev_call(fd, KVCACHE_NR_QUERY, &q);
	for (k = 0; !err && k < q.out_nr_pools; k++)
		if (q.out_pools[k].id == pool) {
			*out = q.out_pools[k];
			return 0;
		}
	return err ? err : -ENOENT;
}

static inline int dev_tenant_info(int fd, uint32_t pool, uint32_t tenant,
				  struct kvcache_tenant_info *out)
{
	struct kvcache_tenant_get g;
	int err;

	POISON(g);
	g.pool = pool;
	g.start = tenant;
	err = dev_call(fd, KVCACHE_NR_TENANT_GET, &g);
	if (!err && (!g.out_nr || g.out_info[0].id != tenant))
		err = -ENOENT;
	if (!err)
		*out = g.out_info[0];
	return err;
}

/* Waits until the pool has @free pages: a worker zeroes them. */
static inline bool dev_settles(int fd, uint32_t pool, uint64_t free)
{
	struct kvcache_pool_info p = { 0 };
	int k;

	for (k = 0; k < 2000; k++) {
		if (!dev_pool_info(fd, pool, &p) && p.nr_free == free &&
		    !p.nr_retiring)
			return true;
		usleep(5000);
	}
	printf("# free %llu, private %llu, shared %llu, cached %llu, retiring %llu\n",
	       (unsigned long long)p.nr_free, (unsigned long long)p.nr_private,
	       (unsigned long long)p.nr_shared, (unsigned long long)p.nr_cached,
	       (unsigned long long)p.nr_retiring);
	return false;
}

/* "ok" if the ledger's own check finds nothing. */
static inline const char *dev_verify(void)
{
	static char text[256];
	FILE *f = fopen("/sys/kernel/debug/kvcache/verify", "r");

	if (!f)
		return "no debugfs";
	if (!fgets(text, sizeof(text), f))
		text[0] = 0;
	fclose(f);
	text[strcspn(text, "\n")] = 0;
	return text;
}

/* ---- mappings ------------------------------------------------------------ */

/* Mappings of a test: one that is left keeps its open, and its pages, alive. */
static struct {
	void *at;
	size_t bytes;
} dev_windows[64];
static unsigned int dev_nwindows;

/* A pool's window from page 0 to its last page, or MAP_FAILED. */
static inline char *dev_window(int fd, uint32_t pool, bool writable)
{
	struct kvcache_pool_info p;
	size_t bytes;
	void *at;

	if (dev_pool_info(fd, pool, &p))
		return MAP_FAILED;
	bytes = (p.nr_pages + 1) * p.page_size;
	at = mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ,
		  MAP_SHARED, fd, writable ? p.rw_offset : p.ro_offset);
	if (at != MAP_FAILED && dev_nwindows < 64) {
		dev_windows[dev_nwindows].at = at;
		dev_windows[dev_nwindows++].bytes = bytes;
	}
	return at;
}

static inline void dev_unmap_all(void)
{
	while (dev_nwindows) {
		dev_nwindows--;
		munmap(dev_windows[dev_nwindows].at,
		       dev_windows[dev_nwindows].bytes);
	}
}

#define DEV_READ_ONLY	(32UL << 10)

/* So many bytes that can be read only, @bytes of @from and zeros; or NULL. */
static inline void *dev_read_only(const void *from, size_t bytes)
{
	void *at = mmap(NULL, DEV_READ_ONLY, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	memcpy(at, from, bytes);
	mprotect(at, DEV_READ_ONLY, PROT_READ);
	return at;
}

static sigjmp_buf dev_fault_jmp;

static inline void dev_on_fault(int sig)
{
	siglongjmp(dev_fault_jmp, sig);
}

/* The signal that reading (or writing) one byte raises, 0 none. */
static inline int dev_touch(volatile char *at, bool write)
{
	struct sigaction sa = { .sa_handler = dev_on_fault }, bus, segv;
	int sig;

	sigaction(SIGBUS, &sa, &bus);
	sigaction(SIGSEGV, &sa, &segv);
	sig = sigsetjmp(dev_fault_jmp, 1);
	if (!sig) {
		if (write)
			*at = 1;
		else
			(void)*at;
	}
	sigaction(SIGBUS, &bus, NULL);
	sigaction(SIGSEGV, &segv, NULL);
	return sig;
}

static inline bool dev_is_zero(const char *at, size_t bytes)
{
	return !at[0] && !memcmp(at, at + 1, bytes - 1);
}

/* ---- a pool and two tenants ---------------------------------------------- */

#define PAGES	16
#define PAGE	(64UL << 10)

/**
 * struct world - what most tests start from
 * @admin: an open that is not attached
 * @pool: a pool of PAGES pages of PAGE bytes
 * @tenant: two tenants, "red" and "blue", without limits
 * @fd: a client of each
 */
struct world {
	int admin;
	uint32_t pool;
	uint32_t tenant[2];
	int fd[2];
};

/* What a test left that failed is not the fault of the next. */
static inline void dev_sweep(int fd)
{
	struct kvcache_tenant_ref ref = { .size = sizeof(ref) };
	uint32_t pool;

	for (ref.tenant = 1; ref.tenant < 100; ref.tenant++)
		dev_call(fd, KVCACHE_NR_TENANT_REMOVE, &ref);
	for (pool = 0; pool < KVCACHE_MAX_POOLS; pool++)
		if (dev_pool_op(fd, pool, KVCACHE_POOL_REMOVE, 0, NULL) ==
		    -EBUSY)
			dev_pool_op(fd, pool, KVCACHE_POOL_DRAIN, 0, NULL);
}

/* 0, or the line that failed. */
static inline int world_make(struct world *w, uint64_t page_size,
			     uint64_t nr_pages)
{
	static const char *const names[2] = { "red", "blue" };
	int k, rc;

	w->admin = dev_open();
	if (w->admin < 0)
		return __LINE__;
	dev_sweep(w->admin);
	rc = dev_pool(w->admin, "test", page_size, nr_pages);
	if (rc < 0)
		return __LINE__;
	w->pool = rc;
	for (k = 0; k < 2; k++) {
		rc = dev_tenant(w->admin, names[k], w->pool, 0,
				KVCACHE_LIMIT_MAX);
		if (rc < 0)
			return __LINE__;
		w->tenant[k] = rc;
		w->fd[k] = dev_client(names[k]);
		if (w->fd[k] < 0)
			return __LINE__;
	}
	return 0;
}

/*
 * Everything goes, and nothing may be left: no page in use, and a ledger
 * without a fault. 0, or the line that failed.
 */
static inline int world_end(struct world *w)
{
	struct kvcache_tenant_ref ref = { .size = sizeof(ref) };
	struct kvcache_pool_info p;
	int k, rc, tries = 0;

	dev_unmap_all();
	for (k = 0; k < 2; k++)
		if (w->fd[k] >= 0)
			close(w->fd[k]);
	for (k = 0; k < 2; k++) {
		ref.tenant = w->tenant[k];
		/* It has its pages until they are zeroed. */
		do
			rc = dev_call(w->admin, KVCACHE_NR_TENANT_REMOVE, &ref);
		while (rc == -EBUSY && ++tries < 1000 && !usleep(5000));
		if (rc)
			return __LINE__;
	}
	if (dev_pool_info(w->admin, w->pool, &p) ||
	    !dev_settles(w->admin, w->pool, p.nr_pages))
		return __LINE__;
	if (dev_pool_op(w->admin, w->pool, KVCACHE_POOL_REMOVE, 0, NULL))
		return __LINE__;
	if (strcmp(dev_verify(), "ok")) {
		printf("# verify: %s\n", dev_verify());
		return __LINE__;
	}
	close(w->admin);
	return 0;
}

FIXTURE(dev) {
	struct world w;
};

FIXTURE_SETUP(dev)
{
	ASSERT_EQ(0, world_make(&self->w, PAGE, PAGES));
}

FIXTURE_TEARDOWN(dev)
{
	EXPECT_EQ(0, world_end(&self->w));
}

#endif /* DEV_KIT_H */
