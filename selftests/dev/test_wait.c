// SPDX-License-Identifier: MIT
/*
 * test_wait.c - requests that wait for pages: in which order they are served,
 * and for how long they wait.
 */
#include "waiter.h"

/* ---- the order ----------------------------------------------------------- */

TEST_F(wait, first_come_first_served)
{
	static const int tenant[3] = { 0, 1, 0 };
	struct waiter *r = self->waiter;
	struct world *w = &self->w;
	int k;

	for (k = 0; k < 3; k++)
		ASSERT_TRUE(start(w, &r[k], tenant[k], 1, NEVER));
	EXPECT_EQ(3, waiting(w));
	for (k = 0; k < 3; k++) {
		EXPECT_EQ(0, r[k].done);
		ASSERT_EQ(0, give(w, &self->held[k], 1));
		EXPECT_TRUE(gets_its_pages(&r[k]));
		EXPECT_EQ(2 - k, waiting(w));
	}
}

TEST_F(wait, a_small_request_does_not_pass_a_large_one)
{
	struct waiter *r = self->waiter;
	struct world *w = &self->w;
	uint64_t page;

	ASSERT_TRUE(start(w, &r[0], 0, 4, NEVER));
	ASSERT_TRUE(start(w, &r[1], 0, 1, NEVER));
	ASSERT_EQ(0, give(w, self->held, 3));
	EXPECT_TRUE(settled(w, 3));
	EXPECT_EQ(0, r[0].done + r[1].done);
	/* Nor does one that would not wait. */
	EXPECT_EQ(-ENOSPC, dev_alloc(w->fd[1], w->pool, 1, &page));
	ASSERT_EQ(0, give(w, self->held + 3, 1));
	EXPECT_TRUE(gets_its_pages(&r[0]));
	EXPECT_TRUE(settled(w, 0));
	EXPECT_EQ(0, r[1].done);
	ASSERT_EQ(0, give(w, self->held + 4, 1));
	EXPECT_TRUE(gets_its_pages(&r[1]));
}

TEST_F(wait, pages_for_all_wake_all_in_order)
{
	static const uint32_t nr[3] = { 2, 3, 1 };
	struct waiter *r = self->waiter;
	struct world *w = &self->w;
	struct kvcache_event ev[4];
	int fd = w->fd[0], k;

	ASSERT_EQ(0, fcntl(fd, F_SETFL, O_NONBLOCK));
	ASSERT_EQ(-1, read(fd, ev, sizeof(ev)));
	for (k = 0; k < 3; k++)
		ASSERT_TRUE(start(w, &r[k], 0, nr[k], NEVER));
	ASSERT_EQ(0, give(w, self->held, 6));
	for (k = 0; k < 3; k++)
		EXPECT_TRUE(gets_its_pages(&r[k]));
	ASSERT_EQ(3 * sizeof(ev[0]), read(fd, ev, sizeof(ev)));
	for (k = 0; k < 3; k++) {
		EXPECT_EQ(KVCACHE_EV_GRANTED, ev[k].type);
		EXPECT_EQ(nr[k], ev[k].value);
	}
}

TEST_F(wait, a_limit_of_its_own_is_in_nobody_elses_way)
{
	struct waiter *r = self->waiter;
	struct world *w = &self->w;
	struct kvcache_tenant_info t;
	uint64_t red[2], blue = 0;

	ASSERT_EQ(0, give(w, self->held, 4));
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0, 2,
				NEVER));
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 2, red));
	ASSERT_TRUE(start(w, &r[0], 0, 1, NEVER));
	ASSERT_EQ(0, dev_tenant_info(w->admin, w->pool, w->tenant[0], &t));
	EXPECT_EQ(1, t.waiters);
	/* Red waits for its own; blue gets what there is. */
	EXPECT_EQ(0, dev_alloc(w->fd[1], w->pool, 1, &blue));
	EXPECT_EQ(0, dev_alloc(w->fd[1], w->pool, 1, &blue));
	ASSERT_TRUE(start(w, &r[1], 1, 1, NEVER));
	EXPECT_EQ(2, waiting(w));
	/* Within its limit, red comes after those who wait for the pool. */
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, &red[0], 1));
	EXPECT_TRUE(gets_its_pages(&r[1]));
	EXPECT_TRUE(settled(w, 0));
	EXPECT_EQ(0, r[0].done);
	ASSERT_EQ(0, give(w, &blue, 1));
	EXPECT_TRUE(gets_its_pages(&r[0]));
}

TEST_F(wait, what_a_min_promises_is_served_first)
{
	struct waiter *r = self->waiter;
	struct world *w = &self->w;
	uint64_t page;

	ASSERT_TRUE(start(w, &r[0], 1, 1, NEVER));
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 1, 0,
				KVCACHE_LIMIT_MAX, NEVER));
	ASSERT_TRUE(start(w, &r[1], 0, 1, NEVER));
	ASSERT_EQ(0, give(w, self->held, 1));
	EXPECT_TRUE(gets_its_pages(&r[1]));
	EXPECT_EQ(0, r[0].done);
	EXPECT_EQ(256 + SIGKILL, end_waiter(&r[1]));
	/* Red's page is its own again: blue's request cannot have it. */
	EXPECT_TRUE(settled(w, 1));
	EXPECT_EQ(0, r[0].done);
	EXPECT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	ASSERT_EQ(0, give(w, self->held + 1, 1));
	EXPECT_TRUE(gets_its_pages(&r[0]));
}

TEST_F(wait, pages_that_are_being_zeroed_count_as_free)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[1], w->pool, true);
	uint64_t pages[PAGES];
	int k, round;

	ASSERT_NE(MAP_FAILED, rw);
	memcpy(pages, self->held, sizeof(pages));
	for (round = 0; round < 4; round++) {
		for (k = 0; k < PAGES; k++)
			memset(rw + (uint32_t)pages[k] * PAGE, 1, 4096);
		ASSERT_EQ(0, give(w, pages, PAGES));
		ASSERT_EQ(0, dev_alloc(w->fd[1], w->pool, PAGES, pages));
		for (k = 0; k < PAGES; k++)
			EXPECT_EQ(0, rw[(uint32_t)pages[k] * PAGE]);
	}
}

/* ---- time ---------------------------------------------------------------- */

TEST_F(wait, a_deadline_is_absolute_and_never_early)
{
	static const uint64_t after[3] = { 1 * MS, 23 * MS, 150 * MS };
	struct waiter *r = self->waiter;
	struct world *w = &self->w;
	struct kvcache_pool_info p;
	int k;

	for (k = 0; k < 3; k++) {
		uint64_t deadline = dev_now() + 2000 * MS + after[k];

		ASSERT_TRUE(start(w, &r[0], 0, 3, deadline));
		ASSERT_TRUE(SOON(r[0].done));
		EXPECT_EQ(-ETIMEDOUT, r[0].rc);
		EXPECT_LE(deadline, r[0].at);
		EXPECT_GT(deadline + 10000 * MS, r[0].at);
		EXPECT_TRUE(is_poison(r[0].a.out_pages,
				      sizeof(r[0].a.out_pages)));
		end_waiter(&r[0]);
	}
	ASSERT_EQ(0, dev_pool_info(w->admin, w->pool, &p));
	EXPECT_EQ(0, p.waiters);
	EXPECT_EQ(PAGES, p.nr_private);
	ASSERT_EQ(0, give(w, self->held, 3));
	EXPECT_TRUE(settled(w, 3));
}

TEST_F(wait, a_deadline_that_has_passed_does_not_wait)
{
	uint64_t deadline[3] = { 0, 1, dev_now() };
	struct world *w = &self->w;
	struct kvcache_alloc a;
	int k;

	for (k = 0; k < 3; k++) {
		POISON(a);
		a.pool = w->pool;
		a.nr = 3;
		a.deadline_ns = deadline[k];
		EXPECT_EQ(-ENOSPC, dev_call(w->fd[0], KVCACHE_NR_ALLOC, &a));
		EXPECT_EQ(3, a.out_missing);
		EXPECT_TRUE(is_poison(a.out_pages, sizeof(a.out_pages)));
		EXPECT_EQ(0, waiting(w));
	}
}

TEST_F(wait, without_a_deadline_it_waits_on)
{
	struct waiter *r = self->waiter;
	struct world *w = &self->w;

	ASSERT_TRUE(start(w, &r[0], 0, 1, NEVER));
	ASSERT_TRUE(start(w, &r[1], 0, 1, NEVER - 1));
	usleep(300000);
	EXPECT_EQ(0, r[0].done + r[1].done);
	EXPECT_EQ(2, waiting(w));
	ASSERT_EQ(0, give(w, self->held, 2));
	EXPECT_TRUE(gets_its_pages(&r[0]));
	EXPECT_TRUE(gets_its_pages(&r[1]));
}

TEST_HARNESS_MAIN
