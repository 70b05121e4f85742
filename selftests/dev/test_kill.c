// SPDX-License-Identifier: MIT
/*
 * test_kill.c - clients that are killed wherever they are: all that they had is
 * given back, and what others still hold as soon as these let go.
 */
#include <limits.h>

#include "dev_mem.h"

#define ROUNDS	8

/* Each says once that it is where it is to be killed, and stays there. */

static void while_allocating(int sock, void *arg)
{
	struct world *w = arg;
	int fd = dev_client("red");
	uint64_t pages[8];

	say(sock, 'r');
	for (;;)
		if (dev_alloc(fd, w->pool, 8, pages) ||
		    dev_free(fd, w->pool, pages, 8))
			return;
}

static void while_publishing(int sock, void *arg)
{
	struct world *w = arg;
	int fd = dev_client("red");
	char *rw = dev_window(fd, w->pool, true);
	uint32_t key;
	uint64_t page;

	say(sock, 'r');
	for (key = 1; ; key++) {
		if (dev_alloc(fd, w->pool, 1, &page))
			return;
		memset(AT(rw, page), key, PAGE);
		if (dev_publish_as(fd, w->pool, &page, key & 7,
				   key & 1 ? KVCACHE_PUBLISH_COPY : 0, 0,
				   NULL) ||
		    dev_free(fd, w->pool, &page, 1))
			return;
	}
}

static void while_mapped(int sock, void *arg)
{
	struct world *w = arg;
	int fd = dev_client("red"), k;
	char *rw = dev_window(fd, w->pool, true);
	uint64_t pages[PAGES];

	if (dev_alloc(fd, w->pool, PAGES, pages))
		return;
	say(sock, 'r');
	for (k = 0; ; k++)
		memset(AT(rw, pages[k % PAGES]), k, PAGE);
}

static void while_faulting(int sock, void *arg)
{
	struct world *w = arg;
	int fd = dev_client("red"), k;
	char *rw = dev_window(fd, w->pool, true);
	uint64_t pages[PAGES];

	if (dev_alloc(fd, w->pool, PAGES, pages))
		return;
	say(sock, 'r');
	for (k = 0; ; k++) {
		*AT(rw, pages[k % PAGES]) = 1;
		if (k % PAGES == PAGES - 1)
			madvise(rw, (PAGES + 1) * PAGE, MADV_DONTNEED);
	}
}

static void while_opening(int sock, void *arg)
{
	int fd[16], k;

	say(sock, 'r');
	for (;;) {
		for (k = 0; k < 16; k++)
			fd[k] = dev_client("red");
		for (k = 0; k < 16; k++)
			if (fd[k] < 0 || close(fd[k]))
				return;
	}
}

static void while_exporting(int sock, void *arg)
{
	struct world *w = arg;
	int fd = dev_client("red");
	struct kvcache_export e = {
		.size = sizeof(e), .flags = KVCACHE_FD_CLOEXEC,
		.pool = w->pool, .nr = 4,
	};

	if (dev_alloc(fd, w->pool, 4, (uint64_t *)e.pages))
		return;
	say(sock, 'r');
	for (;;)
		if (dev_call(fd, KVCACHE_NR_EXPORT, &e) || close(e.out_fd))
			return;
}

/* Until all is taken by somebody else, which it never gets. */
static void while_waiting(int sock, void *arg)
{
	struct world *w = arg;
	int fd = dev_client("red");
	uint64_t pages[PAGES];

	if (dev_alloc(fd, w->pool, 2, pages))
		return;
	say(sock, 'r');
	dev_alloc_until(fd, w->pool, PAGES, NEVER, pages);
}

FIXTURE(killed) {
	struct world w;
};

FIXTURE_VARIANT(killed) {
	void (*fn)(int sock, void *arg);
};

FIXTURE_VARIANT_ADD(killed, while_allocating) { .fn = while_allocating };
FIXTURE_VARIANT_ADD(killed, while_publishing) { .fn = while_publishing };
FIXTURE_VARIANT_ADD(killed, while_mapped) { .fn = while_mapped };
FIXTURE_VARIANT_ADD(killed, while_faulting) { .fn = while_faulting };
FIXTURE_VARIANT_ADD(killed, while_opening) { .fn = while_opening };
FIXTURE_VARIANT_ADD(killed, while_exporting) { .fn = while_exporting };

FIXTURE_SETUP(killed)
{
	ASSERT_EQ(0, world_make(&self->w, PAGE, PAGES));
}

FIXTURE_TEARDOWN(killed)
{
	EXPECT_EQ(0, world_end(&self->w));
}

/* Its cached pages stay: they are the tenant's. */
static int give_up_cached(const struct world *w)
{
	struct kvcache_tenant_ref ref = {
		.size = sizeof(ref), .tenant = w->tenant[0], .pool = ~0U,
	};

	return dev_call(w->admin, KVCACHE_NR_TENANT_FLUSH, &ref);
}

TEST_F(killed, it_leaves_nothing)
{
	struct child c;
	int k;

	for (k = 0; k < ROUNDS; k++) {
		ASSERT_EQ(0, child_start(&c, variant->fn, &self->w));
		ASSERT_EQ('r', hear(c.sock));
		usleep(500 * k * k);
		ASSERT_EQ(-SIGKILL, child_kill(&c));
		ASSERT_EQ(0, give_up_cached(&self->w));
		ASSERT_TRUE(dev_settles(self->w.admin, self->w.pool, PAGES));
		EXPECT_EQ(0, charge(&self->w, 0));
	}
	EXPECT_STREQ("ok", dev_verify());
}

/* ---- killed, and something remains --------------------------------------- */

TEST_F(dev, who_is_killed_waiting_wakes_those_behind_it)
{
	struct world *w = &self->w;
	struct kvcache_pool_info p = { 0 };
	struct child c;
	uint64_t pages[PAGES];
	int k;

	ASSERT_EQ(0, child_start(&c, while_waiting, w));
	ASSERT_EQ('r', hear(c.sock));
	for (k = 0; k < 1000 && p.waiters != 1; k++) {
		ASSERT_EQ(0, dev_pool_info(w->admin, w->pool, &p));
		usleep(5000);
	}
	ASSERT_EQ(1, p.waiters);
	EXPECT_EQ(-SIGKILL, child_kill(&c));
	ASSERT_EQ(0, dev_pool_info(w->admin, w->pool, &p));
	EXPECT_EQ(0, p.waiters);
	EXPECT_EQ(0, dev_alloc_until(w->fd[1], w->pool, PAGES,
				     dev_now() + 5000000000ULL, pages));
}

TEST_F(dev, pages_are_back_before_the_dead_is_buried)
{
	struct world *w = &self->w;
	struct child c;

	ASSERT_EQ(0, child_start(&c, while_mapped, w));
	ASSERT_EQ('r', hear(c.sock));
	EXPECT_EQ(PAGES, charge(w, 0));
	kill(c.pid, SIGKILL);
	/* A zombie from now on. */
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES));
	EXPECT_EQ(-SIGKILL, child_join(&c));
}

static void publish_one(int sock, void *arg)
{
	struct world *w = arg;
	int fd = dev_client("red");
	char *rw = dev_window(fd, w->pool, true);
	uint64_t pages[2];

	if (dev_alloc(fd, w->pool, 2, pages))
		return;
	memset(AT(rw, pages[0]), 0x5a, PAGE);
	memset(AT(rw, pages[1]), 0x6b, PAGE);
	say(sock, -dev_publish(fd, w->pool, &pages[0], 1));
	pause();
}

TEST_F(dev, what_the_dead_published_is_found_and_the_rest_is_not)
{
	struct world *w = &self->w;
	char *ro = dev_window(w->fd[0], w->pool, false);
	struct child c;
	uint64_t page;

	ASSERT_EQ(0, child_start(&c, publish_one, w));
	ASSERT_EQ(0, hear(c.sock));
	EXPECT_EQ(-SIGKILL, child_kill(&c));
	ASSERT_TRUE(dev_settles(w->admin, w->pool, PAGES - 1));
	ASSERT_EQ(0, dev_lookup(w->fd[0], w->pool, 1, &page));
	EXPECT_TRUE(all_are(AT(ro, page), 0x5a, PAGE));
}

/* Hands on what keeps a page: a pipe that has it in it, or a dma-buf. */
static void hand_on_pipe(int sock, void *arg)
{
	struct world *w = arg;
	int fd = dev_client("red"), ends[2];
	char *rw = dev_window(fd, w->pool, true);
	struct iovec v = { .iov_len = 4096 };
	uint64_t page;

	if (dev_alloc(fd, w->pool, 1, &page) || pipe(ends))
		return;
	v.iov_base = AT(rw, page);
	memset(v.iov_base, 0x5a, PAGE);
	if (vmsplice(ends[1], &v, 1, 0) == 4096)
		send_fd(sock, ends[0]);
	pause();
}

static void hand_on_dma_buf(int sock, void *arg)
{
	struct world *w = arg;
	int fd = dev_client("red");
	char *rw = dev_window(fd, w->pool, true);
	struct kvcache_export e = {
		.size = sizeof(e), .pool = w->pool, .nr = 1,
	};

	if (dev_alloc(fd, w->pool, 1, (uint64_t *)e.pages))
		return;
	memset(AT(rw, e.pages[0]), 0x5a, PAGE);
	if (!dev_call(fd, KVCACHE_NR_EXPORT, &e))
		send_fd(sock, e.out_fd);
	pause();
}

FIXTURE(handed_on) {
	struct world w;
};

FIXTURE_VARIANT(handed_on) {
	void (*fn)(int sock, void *arg);
};

FIXTURE_VARIANT_ADD(handed_on, in_a_pipe) { .fn = hand_on_pipe };
FIXTURE_VARIANT_ADD(handed_on, as_a_dma_buf) { .fn = hand_on_dma_buf };

FIXTURE_SETUP(handed_on)
{
	ASSERT_EQ(0, world_make(&self->w, PAGE, PAGES));
}

FIXTURE_TEARDOWN(handed_on)
{
	EXPECT_EQ(0, world_end(&self->w));
}

TEST_F(handed_on, it_stays_charged_until_it_is_let_go)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[1], w->pool, true);
	struct kvcache_pool_info p;
	uint64_t pages[PAGES];
	struct child c;
	int fd, k;

	ASSERT_EQ(0, child_start(&c, variant->fn, w));
	fd = recv_fd(c.sock);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-SIGKILL, child_kill(&c));
	usleep(300000);
	ASSERT_EQ(0, dev_pool_info(w->admin, w->pool, &p));
	EXPECT_EQ(PAGES - 1, p.nr_free);
	EXPECT_EQ(1, p.nr_retiring);
	EXPECT_EQ(1, charge(w, 0));
	EXPECT_EQ(-ENOSPC, dev_alloc(w->fd[1], w->pool, PAGES, pages));
	ASSERT_EQ(0, dev_alloc(w->fd[1], w->pool, PAGES - 1, pages));
	for (k = 0; k < PAGES - 1; k++)
		EXPECT_TRUE(dev_is_zero(AT(rw, pages[k]), PAGE));
	close(fd);
	ASSERT_EQ(0, dev_alloc_until(w->fd[1], w->pool, 1,
				     dev_now() + 5000000000ULL,
				     &pages[PAGES - 1]));
	EXPECT_TRUE(dev_is_zero(AT(rw, pages[PAGES - 1]), PAGE));
	EXPECT_EQ(0, charge(w, 0));
}

TEST_HARNESS_MAIN
