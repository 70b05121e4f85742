// SPDX-License-Identifier: MIT
/*
 * test_export.c - pages as a dma-buf: the same memory, as writable as the pages
 * were, and theirs until the last descriptor and mapping of it is gone.
 * What other drivers do with it is in test_import.c.
 */
#include <linux/dma-buf.h>
#include <sys/resource.h>

#include "dev_mem.h"

#define RW	(PROT_READ | PROT_WRITE)

/* The dma-buf, or -errno. */
static int export(int fd, uint32_t pool, const uint64_t *pages, uint32_t nr,
		  uint32_t flags)
{
	struct kvcache_export e;
	int err;

	POISON(e);
	e.flags = flags;
	e.pool = pool;
	e.nr = nr;
	e.__reserved = 0;
	memcpy(e.pages, pages, (nr < KVCACHE_MAX_PAGES ? nr :
				KVCACHE_MAX_PAGES) * sizeof(*pages));
	err = dev_call(fd, KVCACHE_NR_EXPORT, &e);
	if (err && (uint32_t)e.out_fd != 0xcccccccc && e.out_fd)
		return -1000;
	return err ? err : e.out_fd;
}

static int count_fds(void)
{
	int fd, nr = 0;

	for (fd = 0; fd < 256; fd++)
		nr += fcntl(fd, F_GETFD) >= 0;
	return nr;
}

/* Three PRIVATE pages of red, and its windows. */
FIXTURE(export) {
	struct world w;
	int fd;
	char *rw, *ro;
	uint64_t pages[3];
	int fds;
};

FIXTURE_SETUP(export)
{
	int k;

	ASSERT_EQ(0, world_make(&self->w, PAGE, PAGES));
	self->fd = self->w.fd[0];
	self->rw = dev_window(self->fd, self->w.pool, true);
	self->ro = dev_window(self->fd, self->w.pool, false);
	ASSERT_NE(MAP_FAILED, self->rw);
	ASSERT_NE(MAP_FAILED, self->ro);
	ASSERT_EQ(0, dev_alloc(self->fd, self->w.pool, 3, self->pages));
	for (k = 0; k < 3; k++)
		memset(AT(self->rw, self->pages[k]), k + 1, PAGE);
	self->fds = count_fds();
}

FIXTURE_TEARDOWN(export)
{
	EXPECT_EQ(self->fds, count_fds());
	EXPECT_EQ(0, world_end(&self->w));
}

static void *map_buf(int buf, uint32_t nr, int prot)
{
	return mmap(NULL, nr * PAGE, prot, MAP_SHARED, buf, 0);
}

TEST_F(export, shows_the_pages_in_the_given_order)
{
	uint64_t order[] = { self->pages[2], self->pages[0], self->pages[1] };
	int buf = export(self->fd, self->w.pool, order, 3, KVCACHE_FD_CLOEXEC);
	static const char want[] = { 3, 1, 2 };
	char *at;
	int k;

	ASSERT_LE(0, buf);
	EXPECT_EQ(3 * PAGE, lseek(buf, 0, SEEK_END));
	at = map_buf(buf, 3, RW);
	ASSERT_NE(MAP_FAILED, at);
	for (k = 0; k < 3; k++)
		EXPECT_TRUE(all_are(at + k * PAGE, want[k], PAGE));
	memset(at + PAGE, 0x5a, PAGE);
	EXPECT_TRUE(all_are(AT(self->rw, self->pages[0]), 0x5a, PAGE));
	EXPECT_TRUE(all_are(AT(self->ro, self->pages[0]), 0x5a, PAGE));
	*AT(self->rw, self->pages[2]) = 0x77;
	EXPECT_EQ(0x77, at[0]);
	EXPECT_EQ(MAP_FAILED, map_buf(buf, 4, RW));
	munmap(at, 3 * PAGE);
	close(buf);
	/* And nothing is left of it. */
	EXPECT_EQ(0, dev_publish(self->fd, self->w.pool, &self->pages[0], 1));
}

TEST_F(export, is_closed_on_exec_if_asked_for)
{
	int k, buf;

	for (k = 0; k < 2; k++) {
		buf = export(self->fd, self->w.pool, self->pages, 1,
			     k ? KVCACHE_FD_CLOEXEC : 0);
		ASSERT_LE(0, buf);
		EXPECT_EQ(k ? FD_CLOEXEC : 0, fcntl(buf, F_GETFD));
		EXPECT_EQ(O_RDWR, fcntl(buf, F_GETFL) & O_ACCMODE);
		close(buf);
	}
}

TEST_F(export, of_immutable_pages_is_read_only)
{
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_READ };
	uint64_t page = self->pages[0];
	char path[64], *at;
	int buf;

	ASSERT_EQ(0, dev_publish(self->fd, self->w.pool, &page, 1));
	buf = export(self->fd, self->w.pool, &page, 1, KVCACHE_FD_CLOEXEC);
	ASSERT_LE(0, buf);
	EXPECT_EQ(O_RDONLY, fcntl(buf, F_GETFL) & O_ACCMODE);
	EXPECT_EQ(MAP_FAILED, map_buf(buf, 1, RW));
	EXPECT_EQ(EACCES, errno);
	at = map_buf(buf, 1, PROT_READ);
	ASSERT_NE(MAP_FAILED, at);
	EXPECT_EQ(0, ioctl(buf, DMA_BUF_IOCTL_SYNC, &sync));
	EXPECT_TRUE(all_are(at, 1, PAGE));
	EXPECT_EQ(-1, mprotect(at, PAGE, RW));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-1, mprotect(at, PAGE, PROT_READ | PROT_EXEC));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(SIGSEGV, dev_touch(at, true));
	/* Nor by another way to the same file. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", buf);
	EXPECT_EQ(-1, open(path, O_RDWR));
	EXPECT_EQ(-1, pwrite(buf, path, 1, 0));
	munmap(at, PAGE);
	close(buf);
}

TEST_F(export, is_not_mapped_privately)
{
	int buf = export(self->fd, self->w.pool, self->pages, 1,
			 KVCACHE_FD_CLOEXEC);

	ASSERT_LE(0, buf);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, PAGE, RW, MAP_PRIVATE, buf, 0));
	EXPECT_EQ(EINVAL, errno);
	close(buf);
}

TEST_F(export, refuses_what_it_cannot_export_and_keeps_nothing)
{
	uint64_t p[KVCACHE_MAX_PAGES] = { self->pages[0], self->pages[1] };
	uint64_t stale = p[0] + (1ULL << 32);
	struct world *w = &self->w;
	uint8_t state;

	EXPECT_EQ(-EINVAL, export(self->fd, w->pool, p, 0, 0));
	EXPECT_EQ(-EINVAL, export(self->fd, w->pool, p, 257, 0));
	EXPECT_EQ(-EINVAL, export(self->fd, w->pool, p, ~0U, 0));
	EXPECT_EQ(-EOPNOTSUPP, export(self->fd, w->pool, p, 1, 2));
	EXPECT_EQ(-ENOENT, export(self->fd, w->pool + 1, p, 1, 0));
	EXPECT_EQ(-ENOENT, export(self->fd, ~0U, p, 1, 0));
	EXPECT_EQ(-ESTALE, export(self->fd, w->pool, &stale, 1, 0));
	EXPECT_EQ(-EPERM, export(w->fd[1], w->pool, p, 1, 0));
	EXPECT_EQ(-ENOTCONN, export(w->admin, w->pool, p, 1, 0));
	p[1] = 1ULL << 32;
	EXPECT_EQ(-ESTALE, export(self->fd, w->pool, p, 2, 0));
	p[1] = self->pages[1];
	ASSERT_EQ(0, dev_publish(self->fd, w->pool, &p[1], 1));
	EXPECT_EQ(-EINVAL, export(self->fd, w->pool, p, 2, 0));
	ASSERT_EQ(0, dev_advise(self->fd, w->pool, self->pages[2],
				KVCACHE_ADVISE_VOLATILE, NULL));
	p[1] = self->pages[2];
	EXPECT_EQ(-EBUSY, export(self->fd, w->pool, p, 2, 0));
	ASSERT_EQ(0, dev_advise(self->fd, w->pool, self->pages[2],
				KVCACHE_ADVISE_NONVOLATILE, &state));
	/* None of them is pinned. */
	EXPECT_EQ(0, page_info(w->admin, w->pool, p[0]).flags);
	EXPECT_EQ(0, dev_publish(self->fd, w->pool, &p[0], 2));
	EXPECT_EQ(0, dev_publish(self->fd, w->pool, &p[1], 3));
}

TEST_F(export, needs_a_free_descriptor)
{
	struct rlimit was, now;
	int rc;

	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &was));
	now = was;
	now.rlim_cur = 3;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &now));
	rc = export(self->fd, self->w.pool, self->pages, 3, 0);
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &was));
	EXPECT_EQ(-EMFILE, rc);
	EXPECT_EQ(0, dev_publish(self->fd, self->w.pool, &self->pages[0], 1));
}

TEST_F(export, of_what_is_freed_stays_charged_until_it_is_closed)
{
	struct world *w = &self->w;
	struct kvcache_pool_info p;
	uint64_t all[PAGES];
	char *at;
	int buf = export(self->fd, w->pool, self->pages, 2, KVCACHE_FD_CLOEXEC);

	ASSERT_LE(0, buf);
	at = map_buf(buf, 2, RW);
	ASSERT_NE(MAP_FAILED, at);
	EXPECT_TRUE(page_info(w->admin, w->pool, self->pages[0]).flags &
		    KVCACHE_PAGE_PINNED);
	ASSERT_EQ(0, dev_free(self->fd, w->pool, self->pages, 3));
	ASSERT_TRUE(becomes(w, self->pages[2], KVCACHE_PAGE_FREE));
	EXPECT_EQ(2, charge(w, 0));
	EXPECT_EQ(SIGBUS, dev_touch(AT(self->rw, self->pages[0]), true));
	EXPECT_TRUE(all_are(at, 1, PAGE));
	EXPECT_EQ(-ENOSPC, dev_alloc(w->fd[1], w->pool, PAGES - 1, all));
	/* The mapping is as good as the descriptor. */
	close(buf);
	usleep(200000);
	EXPECT_EQ(0, dev_pool_info(w->admin, w->pool, &p));
	EXPECT_EQ(2, p.nr_retiring);
	memset(at, 0x66, 2 * PAGE);
	munmap(at, PAGE);
	EXPECT_EQ(2, charge(w, 0));
	munmap(at + PAGE, PAGE);
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES));
	EXPECT_EQ(0, charge(w, 0));
	ASSERT_EQ(0, dev_alloc(self->fd, w->pool, PAGES, all));
	EXPECT_TRUE(dev_is_zero(AT(self->rw, 1), PAGES * PAGE));
}

TEST_F(export, is_not_made_immutable_but_copied)
{
	struct world *w = &self->w;
	uint64_t page = self->pages[0], found;
	uint32_t result = 0xcc;
	char *at;
	int buf = export(self->fd, w->pool, &page, 1, KVCACHE_FD_CLOEXEC);

	ASSERT_LE(0, buf);
	at = map_buf(buf, 1, RW);
	ASSERT_NE(MAP_FAILED, at);
	EXPECT_EQ(-EBUSY, dev_publish(self->fd, w->pool, &page, 1));
	EXPECT_EQ(KVCACHE_PAGE_PRIVATE, page_state(w, page));
	EXPECT_EQ(-ENOENT, dev_lookup(self->fd, w->pool, 1, &found));
	EXPECT_EQ(-EBUSY, dev_advise(self->fd, w->pool, page,
				     KVCACHE_ADVISE_VOLATILE, NULL));
	ASSERT_EQ(0, dev_publish_as(self->fd, w->pool, &page, 1,
				    KVCACHE_PUBLISH_COPY, 0, &result));
	EXPECT_EQ(KVCACHE_COPIED, result);
	memset(at, 0x66, PAGE);
	EXPECT_TRUE(all_are(AT(self->ro, page), 1, PAGE));
	EXPECT_EQ(KVCACHE_PAGE_RETIRING, page_state(w, self->pages[0]));
	munmap(at, PAGE);
	close(buf);
	EXPECT_TRUE(becomes(w, self->pages[0], KVCACHE_PAGE_FREE));
}

TEST_F(export, of_a_cached_page_keeps_it_from_being_taken)
{
	struct world *w = &self->w;
	uint64_t page = self->pages[0], all[PAGES];
	int buf;

	ASSERT_EQ(0, dev_publish(self->fd, w->pool, &page, 1));
	buf = export(self->fd, w->pool, &page, 1, KVCACHE_FD_CLOEXEC);
	ASSERT_LE(0, buf);
	ASSERT_EQ(0, dev_free(self->fd, w->pool, &page, 1));
	EXPECT_EQ(KVCACHE_PAGE_CACHED, page_state(w, page));
	EXPECT_EQ(-ENOSPC, dev_alloc(w->fd[1], w->pool, PAGES - 2, all));
	ASSERT_EQ(0, dev_lookup(self->fd, w->pool, 1, &page));
	EXPECT_TRUE(all_are(AT(self->ro, page), 1, PAGE));
	ASSERT_EQ(0, dev_free(self->fd, w->pool, &page, 1));
	close(buf);
	EXPECT_EQ(0, dev_alloc(w->fd[1], w->pool, PAGES - 2, all));
}

TEST_F(export, is_revoked_like_any_other_and_gone_once_closed)
{
	struct world *w = &self->w;
	int buf = export(self->fd, w->pool, self->pages, 3, KVCACHE_FD_CLOEXEC);
	int k;

	ASSERT_LE(0, buf);
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0, 0,
				dev_now()));
	for (k = 0; k < 3; k++)
		ASSERT_TRUE(becomes(w, self->pages[k], KVCACHE_PAGE_RETIRING));
	for (k = 0; k < 100 && !dev_touch(AT(self->rw, self->pages[0]), true);
	     k++)
		usleep(2000);
	EXPECT_EQ(SIGBUS, dev_touch(AT(self->rw, self->pages[0]), true));
	EXPECT_EQ(3, charge(w, 0));
	close(buf);
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES));
}

TEST_F(export, twice_is_kept_by_both)
{
	struct world *w = &self->w;
	uint64_t p[2] = { self->pages[0], self->pages[0] };
	int one = export(self->fd, w->pool, p, 1, KVCACHE_FD_CLOEXEC);
	int two = export(self->fd, w->pool, p, 2, KVCACHE_FD_CLOEXEC);
	volatile char *at;

	ASSERT_LE(0, one);
	ASSERT_LE(0, two);
	at = map_buf(two, 2, RW);
	ASSERT_NE(MAP_FAILED, at);
	at[0] = 0x44;
	EXPECT_EQ(0x44, at[PAGE]);
	munmap((void *)at, 2 * PAGE);
	ASSERT_EQ(0, dev_free(self->fd, w->pool, p, 1));
	close(two);
	EXPECT_EQ(KVCACHE_PAGE_RETIRING, page_state(w, p[0]));
	close(one);
	EXPECT_TRUE(becomes(w, p[0], KVCACHE_PAGE_FREE));
}

static void read_it(int sock, void *arg)
{
	int buf = recv_fd(sock);
	char *at = map_buf(buf, 1, RW);

	say(sock, at == MAP_FAILED ? 0xee : *at);
	if (at != MAP_FAILED)
		at[1] = 0x33;
	say(sock, 'w');
}

TEST_F(export, can_be_passed_to_who_may_not_use_the_device)
{
	int buf = export(self->fd, self->w.pool, self->pages, 1,
			 KVCACHE_FD_CLOEXEC);
	struct child c;

	ASSERT_LE(0, buf);
	ASSERT_EQ(0, child_start(&c, read_it, NULL));
	ASSERT_EQ(0, send_fd(c.sock, buf));
	close(buf);
	EXPECT_EQ(1, hear(c.sock));
	EXPECT_EQ('w', hear(c.sock));
	EXPECT_EQ(0, child_join(&c));
	EXPECT_EQ(0x33, AT(self->rw, self->pages[0])[1]);
}

TEST_F(export, as_many_as_a_command_names)
{
	struct world *w = &self->w;
	const uint32_t nr = KVCACHE_MAX_PAGES;
	static uint64_t pages[KVCACHE_MAX_PAGES];
	int pool = dev_pool(w->admin, "large", PAGE, nr), buf;
	char *rw, *at;
	uint32_t k;

	ASSERT_LE(0, pool);
	ASSERT_EQ(0, dev_alloc(self->fd, pool, nr, pages));
	rw = dev_window(self->fd, pool, true);
	ASSERT_NE(MAP_FAILED, rw);
	for (k = 0; k < nr; k++)
		*(uint32_t *)AT(rw, pages[k]) = k;
	buf = export(self->fd, pool, pages, nr, KVCACHE_FD_CLOEXEC);
	ASSERT_LE(0, buf);
	at = map_buf(buf, nr, PROT_READ);
	ASSERT_NE(MAP_FAILED, at);
	for (k = 0; k < nr; k++)
		EXPECT_EQ(k, *(uint32_t *)(at + k * PAGE));
	munmap(at, nr * PAGE);
	close(buf);
	ASSERT_EQ(0, dev_free(self->fd, pool, pages, nr));
	dev_unmap_all();
	ASSERT_TRUE(dev_settles(w->admin, pool, nr));
	EXPECT_EQ(0, dev_pool_op(w->admin, pool, KVCACHE_POOL_REMOVE, 0, NULL));
}

TEST_HARNESS_MAIN
