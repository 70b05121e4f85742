// SPDX-License-Identifier: MIT
/*
 * test_wake.c - requests that wait for pages: what ends a wait, and that no
 * wake-up and no page is lost.
 */
#include "waiter.h"

/* ---- signals ------------------------------------------------------------- */

TEST_F(wait, a_signal_ends_it_and_nothing_has_changed)
{
	struct waiter *r = self->waiter;
	struct world *w = &self->w;
	struct kvcache_tenant_info t;
	int k;

	for (k = 0; k < 2; k++) {
		r[0].restart = k;
		ASSERT_TRUE(start(w, &r[0], 0, 1, NEVER));
		kill(r[0].pid, SIGUSR1);
		ASSERT_TRUE(SOON(r[0].done));
		EXPECT_EQ(-EINTR, r[0].rc);
		EXPECT_TRUE(is_poison(r[0].a.out_pages,
				      sizeof(r[0].a.out_pages)));
		EXPECT_EQ(0, waiting(w));
		end_waiter(&r[0]);
	}
	ASSERT_EQ(0, dev_tenant_info(w->admin, w->pool, w->tenant[0], &t));
	EXPECT_EQ(0, t.waiters);
	EXPECT_EQ(0, t.cur);
	EXPECT_EQ(0, t.peak);
	ASSERT_EQ(0, give(w, self->held, 1));
	EXPECT_TRUE(settled(w, 1));
}

TEST_F(wait, who_is_killed_is_in_nobodys_way)
{
	struct waiter *r = self->waiter;
	struct world *w = &self->w;

	ASSERT_TRUE(start(w, &r[0], 0, 4, NEVER));
	ASSERT_TRUE(start(w, &r[1], 0, 1, NEVER));
	ASSERT_EQ(0, give(w, self->held, 1));
	EXPECT_TRUE(settled(w, 1));
	EXPECT_EQ(256 + SIGKILL, end_waiter(&r[0]));
	EXPECT_TRUE(gets_its_pages(&r[1]));
	EXPECT_EQ(0, waiting(w));
}

/* What a process that allocates again and again says of each round. */
struct round {
	uint32_t pool;
	int says;
};

/* The other side has looked. */
static void hear(int sock)
{
	char c;

	while (read(sock, &c, 1) != 1)
		MUST(errno == EINTR);
}

static int allocate_rounds(void *arg)
{
	const struct round *x = arg;
	struct sigaction sa = { .sa_handler = on_signal };
	int fd = dev_client("red"), rc;
	uint64_t page;

	MUST(fd >= 0);
	sigaction(SIGUSR1, &sa, NULL);
	for (;;) {
		rc = dev_alloc_until(fd, x->pool, 1, NEVER, &page);
		MUST(write(x->says, &rc, sizeof(rc)) == sizeof(rc));
		hear(x->says);
		if (rc)
			continue;
		MUST(!dev_free(fd, x->pool, &page, 1));
		MUST(write(x->says, &rc, sizeof(rc)) == sizeof(rc));
		hear(x->says);
	}
}

static void spin(uint64_t us)
{
	uint64_t until = dev_now() + us * 1000;

	while (dev_now() < until)
		;
}

TEST_F(wait, a_grant_is_not_lost_to_a_signal)
{
	struct world *w = &self->w;
	struct kvcache_pool_info p;
	int k, rc, both[2], granted = 0;
	struct round x = { .pool = w->pool };
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, both));
	x.says = both[1];
	pid = child_start(allocate_rounds, &x);
	for (k = 0; k < 100; k++) {
		ASSERT_TRUE(SOON(waiting(w) == 1));
		/* Either first, by up to what a wake-up takes. */
		if (k & 1) {
			kill(pid, SIGUSR1);
			spin(k / 2 * 4);
		}
		ASSERT_EQ(0, give(w, self->held, 1));
		if (!(k & 1)) {
			spin(k / 2 * 4);
			kill(pid, SIGUSR1);
		}
		ASSERT_EQ(sizeof(rc), read(both[0], &rc, sizeof(rc)));
		ASSERT_TRUE(rc == 0 || rc == -EINTR);
		/* It has the page, or nobody does. */
		EXPECT_TRUE(settled(w, rc ? 1 : 0));
		ASSERT_EQ(0, dev_pool_info(w->admin, w->pool, &p));
		EXPECT_EQ(rc ? PAGES - 1 : PAGES, p.nr_private);
		EXPECT_EQ(0, p.waiters);
		if (!rc) {
			granted++;
			ASSERT_EQ(1, write(both[0], "x", 1));
			ASSERT_EQ(sizeof(rc), read(both[0], &rc, sizeof(rc)));
		}
		ASSERT_EQ(0, dev_alloc(w->fd[1], w->pool, 1, self->held));
		ASSERT_EQ(1, write(both[0], "x", 1));
	}
	TH_LOG("%d of %d granted", granted, k);
	kill(pid, SIGKILL);
	child_end(pid);
}

/* ---- what else ends it --------------------------------------------------- */

TEST_F(wait, what_can_never_be_met_fails_at_once)
{
	static const struct {
		uint64_t min, max;
		uint32_t nr, missing;
	} is[3] = {
		{ 0, KVCACHE_LIMIT_MAX, PAGES + 1, 1 },
		{ 0, 3, 5, 2 },
		/* The other's min is out of reach. */
		{ 4, KVCACHE_LIMIT_MAX, PAGES, 4 },
	};
	struct world *w = &self->w;
	struct kvcache_alloc a;
	int k;

	for (k = 0; k < 3; k++) {
		ASSERT_EQ(0, dev_limits(w->admin, w->tenant[1], w->pool,
					is[k].min, 0, KVCACHE_LIMIT_MAX,
					NEVER));
		ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0,
					is[k].max, NEVER));
		POISON(a);
		a.pool = w->pool;
		a.nr = is[k].nr;
		a.deadline_ns = NEVER;
		EXPECT_EQ(-E2BIG, dev_call(w->fd[0], KVCACHE_NR_ALLOC, &a));
		EXPECT_EQ(is[k].missing, a.out_missing);
		EXPECT_EQ(0, waiting(w));
	}
}

TEST_F(wait, what_can_never_be_met_any_more_fails)
{
	struct waiter *r = self->waiter;
	struct world *w = &self->w;

	ASSERT_TRUE(start(w, &r[0], 0, 4, NEVER));
	ASSERT_TRUE(start(w, &r[1], 0, 3, NEVER));
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0, 3,
				NEVER));
	ASSERT_TRUE(SOON(r[0].done));
	EXPECT_EQ(-E2BIG, r[0].rc);
	EXPECT_EQ(1, waiting(w));
	ASSERT_EQ(0, give(w, self->held, 3));
	EXPECT_TRUE(gets_its_pages(&r[1]));
}

TEST_F(wait, a_raised_limit_wakes)
{
	struct waiter *r = self->waiter;
	struct world *w = &self->w;
	uint64_t page;

	ASSERT_EQ(0, give(w, self->held, 4));
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0, 2,
				NEVER));
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	ASSERT_TRUE(start(w, &r[0], 0, 2, NEVER));
	EXPECT_EQ(0, r[0].done);
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0, 3,
				NEVER));
	EXPECT_TRUE(gets_its_pages(&r[0]));
}

TEST_F(wait, a_promise_taken_back_wakes)
{
	struct waiter *r = self->waiter;
	struct world *w = &self->w;
	uint64_t page;

	ASSERT_EQ(0, give(w, self->held, 4));
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[1], w->pool, PAGES - 2, 0,
				KVCACHE_LIMIT_MAX, NEVER));
	ASSERT_TRUE(start(w, &r[0], 0, 2, NEVER));
	EXPECT_TRUE(settled(w, 3));
	EXPECT_EQ(0, r[0].done);
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[1], w->pool, PAGES - 3, 0,
				KVCACHE_LIMIT_MAX, NEVER));
	EXPECT_TRUE(gets_its_pages(&r[0]));
}

TEST_F(wait, a_pool_that_grows_wakes)
{
	struct waiter *r = self->waiter;
	struct world *w = &self->w;

	ASSERT_TRUE(start(w, &r[0], 0, 3, NEVER));
	ASSERT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESIZE,
				 PAGES + 2, NULL));
	EXPECT_TRUE(settled(w, 2));
	EXPECT_EQ(0, r[0].done);
	ASSERT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESIZE,
				 PAGES + 3, NULL));
	EXPECT_TRUE(gets_its_pages(&r[0]));
}

TEST_F(wait, a_drain_ends_all_waits)
{
	struct waiter *r = self->waiter;
	struct world *w = &self->w;
	uint64_t page;

	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0, 4,
				NEVER));
	ASSERT_TRUE(start(w, &r[0], 0, 3, NEVER));
	ASSERT_TRUE(start(w, &r[1], 0, 2, NEVER));
	ASSERT_TRUE(start(w, &r[2], 1, 1, dev_now() + 60000 * MS));
	ASSERT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_DRAIN, 0,
				 NULL));
	ASSERT_TRUE(SOON(r[0].done && r[1].done && r[2].done));
	EXPECT_EQ(-ESHUTDOWN, r[0].rc);
	EXPECT_EQ(-ESHUTDOWN, r[1].rc);
	EXPECT_EQ(-ESHUTDOWN, r[2].rc);
	EXPECT_EQ(0, waiting(w));
	ASSERT_EQ(0, give(w, self->held, 1));
	EXPECT_EQ(-ESHUTDOWN, dev_alloc_until(w->fd[0], w->pool, 1, NEVER,
					      &page));
	ASSERT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESUME, 0,
				 NULL));
	EXPECT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
}

/* ---- no wake-up is lost -------------------------------------------------- */

#define ROUNDS	200

static int take_and_give(void *arg)
{
	uint32_t pool = *(uint32_t *)arg;
	int fd = dev_client("red"), k;
	uint64_t page;

	MUST(fd >= 0);
	for (k = 0; k < ROUNDS; k++) {
		MUST(!dev_alloc_until(fd, pool, 1, NEVER, &page));
		MUST(!dev_free(fd, pool, &page, 1));
	}
	return 0;
}

TEST_F(wait, two_processes_pass_one_page_to_and_fro)
{
	struct world *w = &self->w;
	pid_t pid[2];
	int k;

	for (k = 0; k < 2; k++)
		pid[k] = child_start(take_and_give, &w->pool);
	ASSERT_TRUE(SOON(waiting(w) == 2));
	ASSERT_EQ(0, give(w, self->held, 1));
	for (k = 0; k < 2; k++)
		EXPECT_EQ(0, child_end(pid[k]));
	EXPECT_TRUE(settled(w, 1));
}

TEST_HARNESS_MAIN
