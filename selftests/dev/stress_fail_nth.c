// SPDX-License-Identifier: MIT
/*
 * Every allocation and every copy of every command fails once. Such a command
 * says -ENOMEM or -EFAULT and has changed nothing; the next try may get further.
 *
 * Needs a kernel with CONFIG_FAULT_INJECTION (make check-kernel-debug).
 */
#include "fail_nth.h"

#define SYSFS_RED	SYSFS "/tenants/red"

FIXTURE(fail_nth) {
	int unused;
};

FIXTURE_SETUP(fail_nth)
{
	nth_fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
}

FIXTURE_TEARDOWN(fail_nth)
{
}

#define SWEEP_TEST(name)						\
	TEST_F_TIMEOUT(fail_nth, name, 900)				\
	{								\
		if (nth_fd < 0)						\
			SKIP(return, "no fail-nth in this kernel");	\
		ASSERT_TRUE(faults_set_up());				\
		EXPECT_EQ(0, sweep(name##_steps,			\
				   sizeof(name##_steps) /		\
				   sizeof(name##_steps[0])));		\
	}

/* ---- pools and tenants --------------------------------------------------- */

static int tenant_set(struct nth *c, uint32_t set)
{
	struct kvcache_tenant_set s = {
		.size = sizeof(s), .set = set, .tenant = c->w.tenant[0],
		.pool = c->w.pool, .mode = 0444, .max = KVCACHE_LIMIT_MAX,
		.min = 2, .deadline_ns = NEVER, .ttl_ns = 1000000000,
	};

	return dev_call(c->w.admin, KVCACHE_NR_TENANT_SET, &s);
}

static int do_pool_create(struct nth *c)
{
	int rc = dev_pool(c->w.admin, EXTRA, PAGE, 4);

	c->pool = rc < 0 ? 0 : rc;
	return rc < 0 ? rc : 0;
}

static int do_grow(struct nth *c)
{
	return dev_pool_op(c->w.admin, c->pool, KVCACHE_POOL_RESIZE, 8, NULL);
}

static int do_shrink(struct nth *c)
{
	return dev_pool_op(c->w.admin, c->pool, KVCACHE_POOL_RESIZE, 2, NULL);
}

static int do_drain(struct nth *c)
{
	return dev_pool_op(c->w.admin, c->pool, KVCACHE_POOL_DRAIN, 0, NULL);
}

static int do_resume(struct nth *c)
{
	return dev_pool_op(c->w.admin, c->pool, KVCACHE_POOL_RESUME, 0, NULL);
}

static int do_pool_remove(struct nth *c)
{
	return dev_pool_op(c->w.admin, c->pool, KVCACHE_POOL_REMOVE, 0, NULL);
}

static int do_tenant_create(struct nth *c)
{
	int rc = dev_tenant(c->w.admin, EXTRA, c->w.pool, 1, 4);

	c->tenant = rc < 0 ? 0 : rc;
	return rc < 0 ? rc : 0;
}

static int do_limits(struct nth *c)
{
	return tenant_set(c, KVCACHE_SET_LIMITS | KVCACHE_SET_TTL);
}

static int do_owner(struct nth *c)
{
	return tenant_set(c, KVCACHE_SET_OWNER);
}

static int do_grant(struct nth *c)
{
	struct kvcache_tenant_grant g = {
		.size = sizeof(g), .tenant = c->w.tenant[0],
		.to = c->w.tenant[1], .max_held = 4,
		.rights = KVCACHE_GRANT_LOOKUP | KVCACHE_GRANT_PUBLISH,
	};

	return dev_call(c->w.admin, KVCACHE_NR_TENANT_GRANT, &g);
}

static int do_tenant_remove(struct nth *c)
{
	struct kvcache_tenant_ref r = { .size = sizeof(r) };

	r.tenant = c->tenant;
	return dev_call(c->w.admin, KVCACHE_NR_TENANT_REMOVE, &r);
}

static int do_open(struct nth *c)
{
	c->fd = dev_open();
	return c->fd < 0 ? -errno : 0;
}

static int do_attach(struct nth *c)
{
	return dev_attach(c->fd, "red");
}

static int do_close(struct nth *c)
{
	return close(c->fd) ? -errno : 0;
}

static const struct step pools_and_tenants_steps[] = {
	{ "pool create", do_pool_create },
	{ "pool grow", do_grow },
	{ "pool shrink", do_shrink },
	{ "drain", do_drain },
	{ "resume", do_resume },
	{ "tenant create", do_tenant_create },
	{ "limits", do_limits },
	{ "owner", do_owner },
	{ "grant", do_grant },
	{ "open", do_open },
	{ "attach", do_attach },
	{ "close", do_close },
	{ "tenant remove", do_tenant_remove },
	{ "pool remove", do_pool_remove },
};

SWEEP_TEST(pools_and_tenants)

/* ---- pages --------------------------------------------------------------- */

static int do_alloc(struct nth *c)
{
	return dev_alloc(c->w.fd[0], c->w.pool, 6, c->page);
}

static int do_check(struct nth *c)
{
	struct kvcache_alloc a = {
		.size = sizeof(a), .flags = KVCACHE_ALLOC_CHECK,
		.pool = c->w.pool, .nr = 2,
	};

	return dev_call(c->w.fd[0], KVCACHE_NR_ALLOC, &a);
}

static int do_map(struct nth *c)
{
	c->rw = dev_window(c->w.fd[0], c->w.pool, true);
	if (c->rw == MAP_FAILED)
		return -errno;
	c->ro = dev_window(c->w.fd[0], c->w.pool, false);
	return c->ro == MAP_FAILED ? -errno : 0;
}

static char *at(struct nth *c, char *window, int k)
{
	return window + (c->page[k] & 0xffffffff) * PAGE;
}

/* For a page table the kernel tries again, for nothing else there is a need. */
static int do_touch(struct nth *c)
{
	return dev_touch(at(c, c->rw, 0), true) ||
	       dev_touch(at(c, c->ro, 1), false) ? -EIO : 0;
}

static int do_publish(struct nth *c)
{
	return dev_publish(c->w.fd[0], c->w.pool, &c->page[0], 1);
}

static int do_publish_same(struct nth *c)
{
	return dev_publish(c->w.fd[0], c->w.pool, &c->page[1], 1);
}

static int do_lookup(struct nth *c)
{
	uint64_t page;

	return dev_lookup(c->w.fd[0], c->w.pool, 1, &page);
}

/* Of another tenant, by its grant. */
static int do_lookup_granted(struct nth *c)
{
	uint64_t page;

	return dev_lookup(c->w.fd[1], c->w.pool, 1, &page);
}

static int do_export(struct nth *c)
{
	struct kvcache_export x = {
		.size = sizeof(x), .flags = KVCACHE_FD_CLOEXEC,
		.pool = c->w.pool, .nr = 1, .pages = { c->page[2] },
	};
	int err = dev_call(c->w.fd[0], KVCACHE_NR_EXPORT, &x);

	if (!err)
		c->buf = x.out_fd;
	return err;
}

/* It is unmapped with the windows: with a fault, munmap() may not. */
static int do_map_export(struct nth *c)
{
	char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, c->buf,
		       0);

	if (p == MAP_FAILED)
		return -errno;
	dev_windows[dev_nwindows].at = p;
	dev_windows[dev_nwindows++].bytes = PAGE;
	return dev_touch(p, true) ? -EIO : 0;
}

static int do_publish_copy(struct nth *c)
{
	uint32_t result;
	int err = dev_publish_as(c->w.fd[0], c->w.pool, &c->page[2], 2,
				 KVCACHE_PUBLISH_COPY, 0, &result);

	return err ? err : result == KVCACHE_COPIED ? 0 : -EIO;
}

static int do_close_export(struct nth *c)
{
	return close(c->buf) ? -errno : 0;
}

static int do_priority(struct nth *c)
{
	struct kvcache_advise a = {
		.size = sizeof(a), .pool = c->w.pool, .nr = 1,
		.advice = KVCACHE_ADVISE_PRIORITY | KVCACHE_ADVISE_TOUCH,
		.priority = 50, .ttl_ns = 1000000000, .pages = { c->page[0] },
	};

	return dev_call(c->w.fd[0], KVCACHE_NR_ADVISE, &a);
}

static int do_volatile(struct nth *c)
{
	return dev_advise(c->w.fd[0], c->w.pool, c->page[3],
			  KVCACHE_ADVISE_VOLATILE, NULL);
}

static int do_nonvolatile(struct nth *c)
{
	return dev_advise(c->w.fd[0], c->w.pool, c->page[3],
			  KVCACHE_ADVISE_NONVOLATILE, NULL);
}

static int do_wait(struct nth *c)
{
	uint64_t pages[PAGES];
	int err = dev_alloc_until(c->w.fd[1], c->w.pool, PAGES,
				  dev_now() + 50000000, pages);

	return err == -ETIMEDOUT ? 0 : err ? err : -EIO;
}

static int do_free(struct nth *c)
{
	return dev_free(c->w.fd[0], c->w.pool, &c->page[3], 3);
}

static int do_flush(struct nth *c)
{
	struct kvcache_tenant_ref r = {
		.size = sizeof(r), .pool = ~0U, .tenant = c->w.tenant[0],
	};

	return dev_call(c->w.admin, KVCACHE_NR_TENANT_FLUSH, &r);
}

static const struct step pages_steps[] = {
	{ "grant", do_grant },
	{ "alloc", do_alloc },
	{ "check", do_check },
	{ "mmap", do_map },
	{ "touch", do_touch },
	{ "publish", do_publish },
	{ "publish the same", do_publish_same },
	{ "lookup", do_lookup },
	{ "lookup of another's", do_lookup_granted },
	{ "export", do_export },
	{ "mmap of a dma-buf", do_map_export },
	{ "publish a copy", do_publish_copy },
	{ "close the dma-buf", do_close_export },
	{ "priority", do_priority },
	{ "volatile", do_volatile },
	{ "non-volatile", do_nonvolatile },
	{ "wait", do_wait },
	{ "free", do_free },
	{ "flush", do_flush },
};

SWEEP_TEST(pages)

/* ---- reading ------------------------------------------------------------- */

static int read_file(const char *path)
{
	char text[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (read(fd, text, sizeof(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

static int do_query(struct nth *c)
{
	struct kvcache_query q = { .size = sizeof(q) };

	return dev_call(c->w.fd[0], KVCACHE_NR_QUERY, &q);
}

static int do_lists(struct nth *c)
{
	static struct kvcache_tenant_get t;
	static struct kvcache_client_get k;
	static struct kvcache_page_get p;
	int err;

	t.size = sizeof(t);
	t.pool = k.pool = p.pool = c->w.pool;
	err = dev_call(c->w.fd[0], KVCACHE_NR_TENANT_GET, &t);
	k.size = sizeof(k);
	if (!err)
		err = dev_call(c->w.fd[0], KVCACHE_NR_CLIENT_GET, &k);
	p.size = sizeof(p);
	return err ? err : dev_call(c->w.fd[0], KVCACHE_NR_PAGE_GET, &p);
}

static int do_poll(struct nth *c)
{
	struct pollfd p = { .fd = c->w.fd[0], .events = POLLIN };

	return poll(&p, 1, 0) < 0 ? -errno : p.revents & POLLERR ? -EIO : 0;
}

/* One there is: of the page that is published. */
static int do_event(struct nth *c)
{
	struct kvcache_event ev[4];
	ssize_t rc = read(c->w.fd[0], ev, sizeof(ev));

	return rc < 0 ? -errno : rc ? 0 : -EIO;
}

static int do_fdinfo(struct nth *c)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", c->w.fd[0]);
	return read_file(path);
}

static int do_sysfs(struct nth *c)
{
	int err = read_file(SYSFS_RED "/current");

	return err ? err : read_file(SYSFS_RED "/events");
}

static int do_store(struct nth *c)
{
	int fd = open(SYSFS_RED "/max", O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, "test 1M\n", 8) != 8)
		err = -errno;
	close(fd);
	return err;
}

static int do_verify(struct nth *c)
{
	return read_file("/sys/kernel/debug/kvcache/verify");
}

static const struct step reading_steps[] = {
	{ "poll", do_poll },
	{ "alloc", do_alloc },
	{ "publish", do_publish },
	{ "read", do_event },
	{ "query", do_query },
	{ "lists", do_lists },
	{ "fdinfo", do_fdinfo },
	{ "sysfs", do_sysfs },
	{ "store", do_store },
	{ "verify", do_verify },
};

SWEEP_TEST(reading)

TEST_HARNESS_MAIN
