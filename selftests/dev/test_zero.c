// SPDX-License-Identifier: MIT
/*
 * test_zero.c - what one tenant wrote is never read by another, whichever way
 * the page left the one and came to the other.
 */
#include "dev_mem.h"

#define SOON	(dev_now() + 5000000000ULL)
#define ROUNDS	40

/* Never zero, and other in each round. */
static char fill_of(int round)
{
	return 1 + (round * 37 & 0x7e);
}

/* How red gives up its pages; 0 or the line that failed. */
typedef int (*leave_fn)(struct world *w, uint64_t *pages, uint32_t nr);

static int by_free(struct world *w, uint64_t *pages, uint32_t nr)
{
	return dev_free(w->fd[0], w->pool, pages, nr) ? __LINE__ : 0;
}

/* They are reclaimed when blue wants them. */
static int by_cache(struct world *w, uint64_t *pages, uint32_t nr)
{
	static uint32_t key;
	uint32_t k;

	for (k = 0; k < nr; k++)
		if (dev_publish(w->fd[0], w->pool, &pages[k], ++key))
			return __LINE__;
	return by_free(w, pages, nr);
}

static int by_volatile(struct world *w, uint64_t *pages, uint32_t nr)
{
	uint32_t k;

	for (k = 0; k < nr; k++)
		if (dev_advise(w->fd[0], w->pool, pages[k],
			       KVCACHE_ADVISE_VOLATILE, NULL))
			return __LINE__;
	return 0;
}

static int by_close(struct world *w, uint64_t *pages, uint32_t nr)
{
	dev_unmap_all();
	close(w->fd[0]);
	w->fd[0] = dev_client("red");
	return w->fd[0] < 0 ? __LINE__ : 0;
}

static int by_revoke(struct world *w, uint64_t *pages, uint32_t nr)
{
	if (dev_limits(w->admin, w->tenant[0], w->pool, 0, 0, 0, dev_now()) ||
	    !dev_settles(w->admin, w->pool, PAGES))
		return __LINE__;
	return dev_limits(w->admin, w->tenant[0], w->pool, 0, 0,
			  KVCACHE_LIMIT_MAX, NEVER) ? __LINE__ : 0;
}

FIXTURE(zero) {
	struct world w;
};

FIXTURE_VARIANT(zero) {
	leave_fn leave;
	bool read_only;		/* blue looks through the other window */
};

FIXTURE_VARIANT_ADD(zero, after_free) { .leave = by_free };
FIXTURE_VARIANT_ADD(zero, after_free_read_only) {
	.leave = by_free, .read_only = true,
};
FIXTURE_VARIANT_ADD(zero, after_reclaim) { .leave = by_cache };
FIXTURE_VARIANT_ADD(zero, after_volatile) { .leave = by_volatile };
FIXTURE_VARIANT_ADD(zero, after_close) { .leave = by_close };
FIXTURE_VARIANT_ADD(zero, after_revoke) { .leave = by_revoke };

FIXTURE_SETUP(zero)
{
	ASSERT_EQ(0, world_make(&self->w, PAGE, PAGES));
}

FIXTURE_TEARDOWN(zero)
{
	EXPECT_EQ(0, world_end(&self->w));
}

TEST_F(zero, no_byte_of_red_reaches_blue)
{
	struct world *w = &self->w;
	uint64_t red[PAGES], blue[PAGES];
	size_t len = (PAGES + 1) * PAGE;
	struct kvcache_pool_info p;
	char *rw, *at;
	int round, k, nr;

	ASSERT_EQ(0, dev_pool_info(w->admin, w->pool, &p));
	at = mmap(NULL, len, PROT_READ, MAP_SHARED, w->fd[1],
		  variant->read_only ? p.ro_offset : p.rw_offset);
	ASSERT_NE(MAP_FAILED, at);
	for (round = 0; round < ROUNDS; round++) {
		nr = 1 + round * 5 % PAGES;
		ASSERT_EQ(0, dev_alloc_until(w->fd[0], w->pool, nr, SOON, red));
		rw = dev_window(w->fd[0], w->pool, true);
		ASSERT_NE(MAP_FAILED, rw);
		for (k = 0; k < nr; k++)
			memset(AT(rw, red[k]), fill_of(round), PAGE);
		ASSERT_EQ(0, variant->leave(w, red, nr));
		dev_unmap_all();
		ASSERT_EQ(0, dev_alloc_until(w->fd[1], w->pool, PAGES, SOON,
					     blue));
		EXPECT_TRUE(dev_is_zero(at + PAGE, PAGES * PAGE))
			TH_LOG("round %d", round);
		ASSERT_EQ(0, dev_free(w->fd[1], w->pool, blue, PAGES));
	}
	munmap(at, len);
}

/* Who is killed does not come to wiping anything. */
static void fill_all(int sock, void *arg)
{
	struct world *w = arg;
	int fd = dev_client("red");
	char *rw = dev_window(fd, w->pool, true);
	uint64_t pages[PAGES];

	if (dev_alloc_until(fd, w->pool, PAGES, SOON, pages))
		return;
	memset(AT(rw, 1), 0x5a, PAGES * PAGE);
	say(sock, 'f');
	for (;;)
		memset(AT(rw, 1), 0x5a, PAGES * PAGE);
}

TEST_F(dev, no_byte_of_the_killed_reaches_others)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[1], w->pool, true);
	uint64_t pages[PAGES];
	struct child c;
	int k;

	ASSERT_NE(MAP_FAILED, rw);
	for (k = 0; k < 10; k++) {
		ASSERT_EQ(0, child_start(&c, fill_all, w));
		ASSERT_EQ('f', hear(c.sock));
		kill(c.pid, SIGKILL);
		ASSERT_EQ(0, dev_alloc_until(w->fd[1], w->pool, PAGES, SOON,
					     pages));
		EXPECT_TRUE(dev_is_zero(AT(rw, 1), PAGES * PAGE));
		EXPECT_EQ(-SIGKILL, child_join(&c));
		ASSERT_EQ(0, dev_free(w->fd[1], w->pool, pages, PAGES));
	}
}

/* Not of the same tenant's other clients either, nor of the client itself. */
TEST_F(dev, a_new_page_is_zeros_for_who_had_it_last)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[0], w->pool, true);
	uint64_t pages[PAGES];
	int k;

	ASSERT_NE(MAP_FAILED, rw);
	for (k = 0; k < ROUNDS; k++) {
		ASSERT_EQ(0, dev_alloc_until(w->fd[0], w->pool, PAGES, SOON,
					     pages));
		EXPECT_TRUE(dev_is_zero(AT(rw, 1), PAGES * PAGE));
		memset(AT(rw, 1), fill_of(k), PAGES * PAGE);
		ASSERT_EQ(0, dev_free(w->fd[0], w->pool, pages, PAGES));
	}
}

TEST_HARNESS_MAIN
