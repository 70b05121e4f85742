// SPDX-License-Identifier: MIT
/*
 * test_ledger_wait.c - charging, the queues, and who is served first.
 */
#include "ledger_kit.h"

/* A request with its room for handles. */
struct wait {
	struct kvl_request r;
	u64 pages[KVCACHE_MAX_PAGES];
};

static int wait_for(SELF, struct kvl_client *c, u32 nr, struct wait *w)
{
	memset(w, 0, sizeof(*w));
	w->r.nr = nr;
	w->r.pages = w->pages;
	return kvl_alloc(self->l, c, &w->r, true, self->now);
}

/* The next request to be woken must be this one, with this status. */
#define ASSERT_DONE(w, want)						\
	do {								\
		struct kvl_request *done_r = kvl_next_done(self->l);	\
									\
		ASSERT_TRUE(done_r == &(w)->r);				\
		ASSERT_EQ(want, (w)->r.status);				\
	} while (0)
#define ASSERT_NONE_DONE() ASSERT_TRUE(kvl_next_done(self->l) == NULL)

TEST_F(ledger, the_charge_at_every_bound)
{
	struct kvl_client *a, *b;
	u64 h[8], g[8];

	direct_pool(self, 8);
	a = add_user(self, "a", 0, 0, 5);
	b = add_user(self, "b", 2, 0, NO_LIMIT);
	/* Could never be: more than the max, or than others' min leaves. */
	ASSERT_EQ(1, missing(self, a, 6, -E2BIG));
	DO(0, set_limits(self, 1, 0, 0, 7, NEVER));
	ASSERT_EQ(1, missing(self, a, 7, -E2BIG));
	ASSERT_EQ(1, missing(self, b, 9, -E2BIG));
	DO(0, set_limits(self, 1, 0, 0, 5, NEVER));
	/* Exactly the max, and one more. */
	DO(0, get(self, a, 5, h));
	ASSERT_EQ(1, missing(self, a, 1, -EDQUOT));
	ASSERT_EQ(1, info_of(self, 1).ev_max);
	DO(0, put(self, a, h, 1));
	ASSERT_EQ(2, missing(self, a, 3, -EDQUOT));
	/* b gets what is there. */
	ASSERT_EQ(1, missing(self, b, 5, -ENOSPC));
	DO(0, get(self, b, 4, g));
	ASSERT_EQ(0, pool_of(self).nr_free);
}

TEST_F(ledger, a_promise_is_kept_for_its_tenant)
{
	struct kvl_client *a, *b;
	u64 h[8], g[8];

	direct_pool(self, 6);
	a = add_user(self, "a", 0, 0, NO_LIMIT);
	b = add_user(self, "b", 3, 0, NO_LIMIT);
	DO(0, get(self, b, 1, g));
	/* Two of the five are b's. */
	DO(0, get(self, a, 3, h));
	ASSERT_EQ(1, missing(self, a, 1, -ENOSPC));
	DO(0, get(self, b, 2, &g[1]));
	/* At its min: what it frees is a promise again. */
	DO(0, put(self, b, g, 1));
	ASSERT_EQ(1, missing(self, a, 1, -ENOSPC));
	/* b's min is lowered. */
	DO(0, set_limits(self, 2, 2, 0, NO_LIMIT, NEVER));
	DO(0, get(self, a, 1, &h[3]));
}

/* Others' cached pages count as far as their min does not. */
TEST_F(ledger, the_prediction_counts_what_can_be_taken)
{
	struct kvl_check check;
	struct kvl_client *a, *b;
	u64 h[8], g[8];

	direct_pool(self, 8);
	a = add_user(self, "a", 0, 0, 7);
	b = add_user(self, "b", 2, 0, NO_LIMIT);
	cache(self, b, 4, 1, g);
	cache(self, a, 2, 11, h);
	DO(0, kvl_alloc_check(self->l, a, 0, 0, &check));
	ASSERT_EQ(0, check.status);
	/* Two free, two own, and two of b's four. */
	ASSERT_EQ(6, check.available);
	ASSERT_EQ(6, check.limit);
	ASSERT_EQ(2, check.held);
	DO(0, kvl_alloc_check(self->l, a, 0, 6, &check));
	ASSERT_EQ(0, check.status);
	ASSERT_EQ(0, check.missing);
	DO(0, get(self, a, 6, h));
	ASSERT_EQ(2, info_of(self, 2).cur);
	ASSERT_EQ(0, info_of(self, 1).nr_cached);
	/* Below its own min, a tenant can still take its own. */
	DO(0, kvl_alloc_check(self->l, b, 0, 3, &check));
	ASSERT_EQ(-ENOSPC, check.status);
	ASSERT_EQ(2, check.available);
	ASSERT_EQ(1, check.missing);
	DO(0, get(self, b, 2, g));
}

TEST_F(ledger, a_later_small_request_waits_behind_a_large_one)
{
	struct kvl_client *a, *b;
	struct wait big, small;
	u64 h[8];

	two_users(self, 6, &a, &b);
	DO(0, get(self, a, 5, h));
	DO(KVL_WAITING, wait_for(self, b, 3, &big));
	ASSERT_EQ(1, pool_of(self).waiters);
	ASSERT_EQ(1, info_of(self, 2).waiters);
	/* A page is free, but not for those who came later. */
	ASSERT_EQ(1, missing(self, a, 1, -ENOSPC));
	DO(KVL_WAITING, wait_for(self, a, 1, &small));
	DO(0, put(self, a, h, 1));
	ASSERT_NONE_DONE();
	DO(0, put(self, a, &h[1], 1));
	ASSERT_DONE(&big, 0);
	ASSERT_NONE_DONE();
	ASSERT_STREQ("2 1 6", order(big.pages, 3));
	DO(0, put(self, a, &h[2], 1));
	ASSERT_DONE(&small, 0);
	ASSERT_EQ(3, kvl_index(small.pages[0]));
	ASSERT_EQ(0, pool_of(self).waiters);
}

TEST_F(ledger, several_are_served_at_once_in_order)
{
	struct kvl_client *a, *b;
	struct wait w[4];
	u64 h[8];
	u32 k;

	two_users(self, 8, &a, &b);
	DO(0, get(self, a, 8, h));
	for (k = 0; k < 4; k++)
		DO(KVL_WAITING, wait_for(self, b, 2, &w[k]));
	DO(0, put(self, a, h, 5));
	ASSERT_DONE(&w[0], 0);
	ASSERT_DONE(&w[1], 0);
	ASSERT_NONE_DONE();
	/* The third has one of two; the fourth gives up; the third does. */
	DO(-ETIMEDOUT, kvl_cancel(self->l, &w[3].r, -ETIMEDOUT, self->now));
	DO(-EINTR, kvl_cancel(self->l, &w[2].r, -EINTR, self->now));
	ASSERT_NONE_DONE();
	DO(0, get(self, a, 1, h));
}

/* Giving up at the head lets the next one through. */
TEST_F(ledger, a_cancelled_head_lets_others_through)
{
	struct kvl_client *a, *b;
	struct wait big, small;
	u64 h[8];

	two_users(self, 4, &a, &b);
	DO(0, get(self, a, 3, h));
	DO(KVL_WAITING, wait_for(self, b, 4, &big));
	DO(KVL_WAITING, wait_for(self, b, 1, &small));
	DO(-ETIMEDOUT, kvl_cancel(self->l, &big.r, -ETIMEDOUT, self->now));
	ASSERT_DONE(&small, 0);
	/* Cancelling what was granted before says so. */
	DO(0, kvl_cancel(self->l, &small.r, -ETIMEDOUT, self->now));
}

TEST_F(ledger, cancelling_after_a_grant_keeps_the_pages)
{
	struct kvl_client *a;
	struct wait w;
	u64 h[4];

	a = lone_user(self, 2);
	DO(0, get(self, a, 2, h));
	DO(KVL_WAITING, wait_for(self, a, 1, &w));
	DO(0, put(self, a, h, 1));
	/* Granted, not yet woken: it times out at this moment. */
	DO(0, kvl_cancel(self->l, &w.r, -ETIMEDOUT, self->now));
	ASSERT_NONE_DONE();
	DO(0, put(self, a, w.pages, 1));
}

TEST_F(ledger, over_its_max_a_tenant_waits_for_itself)
{
	struct kvl_client *a, *b;
	struct wait w[3], other;
	u64 h[8];

	direct_pool(self, 8);
	a = add_user(self, "a", 0, 0, 3);
	b = add_user(self, "b", 0, 0, NO_LIMIT);
	DO(0, get(self, a, 3, h));
	DO(KVL_WAITING, wait_for(self, a, 2, &w[0]));
	DO(KVL_WAITING, wait_for(self, a, 1, &w[1]));
	/* It is in nobody else's way. */
	DO(0, wait_for(self, b, 4, &other));
	/* One is not enough for the first, and the second does not pass it. */
	DO(0, put(self, a, h, 1));
	ASSERT_NONE_DONE();
	ASSERT_EQ(1, missing(self, a, 1, -EDQUOT));
	DO(0, put(self, a, &h[1], 1));
	ASSERT_DONE(&w[0], 0);
	ASSERT_NONE_DONE();
	/* A raised max is as good. */
	DO(0, set_limits(self, 1, 0, 0, 4, NEVER));
	ASSERT_DONE(&w[1], 0);
	ASSERT_EQ(4, info_of(self, 1).cur);
	ASSERT_EQ(3, info_of(self, 1).ev_max);
}

/* From its own queue a request goes to the end of the pool's. */
TEST_F(ledger, from_the_own_queue_to_the_pools)
{
	struct kvl_client *a, *b;
	struct wait own, pool;
	u64 h[8], g[8];

	direct_pool(self, 6);
	a = add_user(self, "a", 0, 0, 3);
	b = add_user(self, "b", 0, 0, NO_LIMIT);
	DO(0, get(self, a, 3, h));
	DO(KVL_WAITING, wait_for(self, a, 2, &own));
	DO(0, get(self, b, 3, g));
	DO(KVL_WAITING, wait_for(self, b, 2, &pool));
	/* a frees two: within its max now, but b was in the pool's first. */
	DO(0, put(self, a, h, 2));
	ASSERT_DONE(&pool, 0);
	ASSERT_NONE_DONE();
	DO(0, put(self, b, g, 2));
	ASSERT_DONE(&own, 0);
}

/* Pages on request count for the limit. */
TEST_F(ledger, what_is_on_request_counts)
{
	struct kvl_client *a, *b;
	struct wait w, v;
	u64 h[8];

	direct_pool(self, 4);
	a = add_user(self, "a", 0, 0, 3);
	b = add_user(self, "b", 0, 0, NO_LIMIT);
	DO(0, get(self, b, 4, h));
	DO(KVL_WAITING, wait_for(self, a, 2, &w));
	ASSERT_EQ(1, missing(self, a, 2, -EDQUOT));
	DO(KVL_WAITING, wait_for(self, a, 2, &v));
	DO(0, put(self, b, h, 4));
	ASSERT_DONE(&w, 0);
	ASSERT_NONE_DONE();
	DO(0, put(self, a, w.pages, 1));
	ASSERT_DONE(&v, 0);
}

TEST_F(ledger, within_its_min_a_request_goes_first)
{
	struct kvl_client *a, *b, *c;
	struct wait early, mine, more;
	u64 h[8];

	two_users(self, 6, &a, &b);
	c = add_user(self, "c", 0, 0, NO_LIMIT);
	DO(0, get(self, a, 6, h));
	DO(KVL_WAITING, wait_for(self, b, 1, &early));
	DO(0, set_limits(self, 3, 2, 0, NO_LIMIT, NEVER));
	DO(KVL_WAITING, wait_for(self, c, 2, &mine));
	DO(KVL_WAITING, wait_for(self, c, 1, &more));
	/* The debt to c is paid from the first pages that become free. */
	DO(0, put(self, a, h, 1));
	ASSERT_NONE_DONE();
	DO(0, put(self, a, &h[1], 1));
	ASSERT_DONE(&mine, 0);
	ASSERT_NONE_DONE();
	/* c is at its min: its third page waits like anybody's. */
	DO(0, put(self, a, &h[2], 1));
	ASSERT_DONE(&early, 0);
	DO(0, put(self, a, &h[3], 1));
	ASSERT_DONE(&more, 0);
}

/* A request that is within its min when it comes does not queue at all. */
TEST_F(ledger, a_promise_passes_the_queue)
{
	struct kvl_client *a, *b, *c;
	struct kvl_check check;
	struct wait big;
	u64 h[8], g[8];

	two_users(self, 6, &a, &b);
	c = add_user(self, "c", 2, 0, NO_LIMIT);
	DO(0, get(self, a, 4, h));
	DO(KVL_WAITING, wait_for(self, b, 2, &big));
	ASSERT_EQ(1, missing(self, c, 3, -ENOSPC));
	DO(0, kvl_alloc_check(self->l, c, 0, 1, &check));
	ASSERT_EQ(2, check.available);
	DO(0, get(self, c, 2, g));
	ASSERT_NONE_DONE();
}

TEST_F(ledger, a_min_above_what_is_free_is_a_debt)
{
	struct kvl_client *a, *b;
	u64 h[8], g[8];

	two_users(self, 4, &a, &b);
	DO(0, get(self, a, 4, h));
	DO(0, set_limits(self, 2, 3, 0, NO_LIMIT, NEVER));
	DO(0, put(self, a, h, 3));
	/* All three are b's. */
	ASSERT_EQ(1, missing(self, a, 1, -ENOSPC));
	DO(0, get(self, b, 3, g));
	DO(0, put(self, a, &h[3], 1));
	DO(0, get(self, a, 1, h));
}

/* A cached page becomes takeable: who waits for pages gets it. */
TEST_F(ledger, a_put_serves_the_queue_through_reclaim)
{
	struct kvl_client *a, *b;
	struct wait w;
	u64 h[8];

	two_users(self, 2, &a, &b);
	DO(0, get(self, a, 2, h));
	DO(KVCACHE_PUBLISHED, publish(self, a, h, 1));
	DO(KVL_WAITING, wait_for(self, b, 1, &w));
	DO(0, put(self, a, h, 1));
	ASSERT_DONE(&w, 0);
	ASSERT_EQ(1, pool_of(self).reclaims);
	/* So does a page that is made volatile. */
	DO(KVL_WAITING, wait_for(self, b, 1, &w));
	DO(0, advise(self, a, &h[1], 1, KVCACHE_ADVISE_VOLATILE, 0, 0, NULL));
	ASSERT_DONE(&w, 0);
	DO(1, advise(self, a, &h[1], 1, KVCACHE_ADVISE_NONVOLATILE, 0, 0,
		     NULL));
}

TEST_F(ledger, death_ends_waiting_and_frees_the_way)
{
	struct kvl_client *a, *b, *c;
	struct wait big, small, own;
	u64 h[8];

	direct_pool(self, 4);
	a = add_user(self, "a", 0, 0, NO_LIMIT);
	b = add_user(self, "b", 0, 0, 3);
	c = add_user(self, "c", 0, 0, NO_LIMIT);
	DO(0, get(self, a, 3, h));
	DO(KVL_WAITING, wait_for(self, b, 3, &big));
	DO(KVL_WAITING, wait_for(self, b, 1, &own));
	DO(KVL_WAITING, wait_for(self, c, 1, &small));
	kvl_client_kill(self->l, b);
	VERIFY();
	ASSERT_DONE(&big, -EOWNERDEAD);
	ASSERT_DONE(&own, -EOWNERDEAD);
	ASSERT_DONE(&small, 0);
	ASSERT_NONE_DONE();
	DO(0, kvl_client_detach(self->l, b));
	kvl_client_free(b);
}

TEST_F(ledger, a_dead_clients_pages_serve_the_queue)
{
	struct kvl_client *a, *b;
	struct wait w;
	u64 h[8];

	two_users(self, 4, &a, &b);
	DO(0, get(self, a, 4, h));
	DO(KVL_WAITING, wait_for(self, b, 3, &w));
	kvl_client_kill(self->l, a);
	DO(2, kvl_client_reap(self->l, a, 2, self->now));
	ASSERT_NONE_DONE();
	DO(2, kvl_client_reap(self->l, a, 3, self->now));
	ASSERT_DONE(&w, 0);
	/* The latest acquired first, so the first one lies on top. */
	ASSERT_STREQ("1 2 3", order(w.pages, 3));
}

/* ---- limits that change while requests wait ----------------------------- */

TEST_F(ledger, a_lowered_max_sends_requests_back)
{
	struct kvl_client *a, *b;
	struct wait w[3];
	u64 h[8];

	direct_pool(self, 6);
	a = add_user(self, "a", 0, 0, 6);
	b = add_user(self, "b", 0, 0, NO_LIMIT);
	DO(0, get(self, b, 6, h));
	DO(KVL_WAITING, wait_for(self, a, 2, &w[0]));
	DO(KVL_WAITING, wait_for(self, a, 2, &w[1]));
	DO(KVL_WAITING, wait_for(self, a, 2, &w[2]));
	DO(0, set_limits(self, 1, 0, 0, 3, NEVER));
	/* Only the first one may have its pages. */
	DO(0, put(self, b, h, 6));
	ASSERT_DONE(&w[0], 0);
	ASSERT_NONE_DONE();
	DO(0, set_limits(self, 1, 0, 0, 6, NEVER));
	ASSERT_DONE(&w[1], 0);
	ASSERT_DONE(&w[2], 0);
}

TEST_F(ledger, a_request_that_became_impossible_fails)
{
	struct kvl_client *a, *b;
	struct wait w, v;
	u64 h[8];

	direct_pool(self, 6);
	a = add_user(self, "a", 0, 0, 6);
	b = add_user(self, "b", 0, 0, NO_LIMIT);
	DO(0, get(self, b, 6, h));
	DO(KVL_WAITING, wait_for(self, a, 4, &w));
	DO(0, set_limits(self, 1, 0, 0, 3, NEVER));
	ASSERT_DONE(&w, -E2BIG);
	/* By another tenant's min, too. */
	DO(KVL_WAITING, wait_for(self, a, 3, &v));
	DO(0, set_limits(self, 2, 4, 0, NO_LIMIT, NEVER));
	ASSERT_DONE(&v, -E2BIG);
}

/* What counted as takeable came into use while the request waited. */
TEST_F(ledger, a_limit_is_looked_at_again_when_the_turn_comes)
{
	struct kvl_client *a, *b;
	struct wait w, mine;
	u64 h[8], g[8], f[2];

	direct_pool(self, 4);
	a = add_user(self, "a", 0, 0, 2);
	b = add_user(self, "b", 0, 0, NO_LIMIT);
	cache(self, a, 2, 1, h);
	DO(0, get(self, b, 2, g));
	/* b waits for more than there is, so a's request does, too. */
	DO(KVL_WAITING, wait_for(self, b, 3, &w));
	DO(KVL_WAITING, wait_for(self, a, 2, &mine));
	DO(2, find(self, a, 1, 2, 0, f));
	DO(-ETIMEDOUT, kvl_cancel(self->l, &w.r, -ETIMEDOUT, self->now));
	DO(0, put(self, b, g, 2));
	ASSERT_NONE_DONE();
	ASSERT_EQ(2, info_of(self, 1).cur);
	DO(0, put(self, a, f, 2));
	ASSERT_DONE(&mine, 0);
	ASSERT_EQ(2, info_of(self, 1).cur);
}

/* ---- pools with work ---------------------------------------------------- */

TEST_F(ledger, pages_on_their_way)
{
	struct kvl_client *a, *b;
	struct kvl_request r = { .nr = 3 };
	u64 h[8], g[8];

	add_pool(self, "host", 4, 0, 0);
	a = add_user(self, "a", 0, 0, NO_LIMIT);
	b = add_user(self, "b", 0, 0, NO_LIMIT);
	cache(self, a, 3, 1, h);
	r.pages = g;
	/* Not asked to wait: its pages need only be cleaned. */
	DO(KVL_WAITING, kvl_alloc(self->l, b, &r, false, self->now));
	ASSERT_EQ(2, pool_of(self).nr_retiring);
	ASSERT_EQ(3, info_of(self, 1).cur);
	/* They are spoken for. */
	ASSERT_EQ(1, missing(self, a, 2, -ENOSPC));
	ASSERT_EQ(3, kvl_work_next(self->l, 0));
	DO(0, kvl_work_done(self->l, 0, 3, true, self->now));
	ASSERT_NONE_DONE();
	ASSERT_EQ(2, kvl_work_next(self->l, 0));
	DO(0, kvl_work_done(self->l, 0, 2, true, self->now));
	ASSERT_TRUE(kvl_next_done(self->l) == &r);
	ASSERT_EQ(0, r.status);
	ASSERT_STREQ("2 3 4", order(g, 3));
	ASSERT_EQ(1, info_of(self, 1).cur);
}

TEST_F(ledger, a_page_that_is_stuck_is_replaced)
{
	struct kvl_client *a, *b;
	struct kvl_request r = { .nr = 2 };
	u64 h[8], g[8];

	add_pool(self, "host", 3, 0, 0);
	a = add_user(self, "a", 0, 0, NO_LIMIT);
	b = add_user(self, "b", 0, 0, NO_LIMIT);
	cache(self, a, 3, 1, h);
	r.pages = g;
	DO(KVL_WAITING, kvl_alloc(self->l, b, &r, false, self->now));
	ASSERT_EQ(3, kvl_work_next(self->l, 0));
	DO(0, kvl_work_done(self->l, 0, 3, false, self->now));
	ASSERT_EQ(3, pool_of(self).nr_retiring);
	ASSERT_EQ(2, do_work(self, true));
	ASSERT_EQ(0, r.status);
	ASSERT_STREQ("1 2", order(g, 2));
	ASSERT_TRUE(kvl_next_done(self->l) == &r);
}

TEST_F(ledger, without_a_replacement_it_fails)
{
	struct kvl_client *a, *b;
	struct kvl_request r = { .nr = 3 };
	struct wait w;
	u64 h[8], g[8];

	add_pool(self, "host", 3, 0, 0);
	a = add_user(self, "a", 0, 0, NO_LIMIT);
	b = add_user(self, "b", 0, 0, NO_LIMIT);
	cache(self, a, 3, 1, h);
	r.pages = g;
	DO(KVL_WAITING, kvl_alloc(self->l, b, &r, false, self->now));
	ASSERT_EQ(3, kvl_work_next(self->l, 0));
	DO(0, kvl_work_done(self->l, 0, 3, false, self->now));
	ASSERT_TRUE(kvl_next_done(self->l) == &r);
	ASSERT_EQ(-ENOSPC, r.status);
	/* One that may wait does. */
	DO(KVL_WAITING, wait_for(self, b, 3, &w));
	ASSERT_EQ(2, do_work(self, true));
	ASSERT_NONE_DONE();
	DO(0, kvl_work_done(self->l, 0, 3, true, self->now));
	ASSERT_DONE(&w, 0);
}

TEST_F(ledger, own_pages_on_their_way_keep_the_limit)
{
	struct kvl_client *a;
	struct kvl_request r = { .nr = 2 };
	struct kvl_check check;
	u64 h[8], g[8];

	add_pool(self, "host", 6, 0, 0);
	a = add_user(self, "a", 0, 0, 3);
	cache(self, a, 3, 1, h);
	r.pages = g;
	/* Free pages are there, but two own ones have to be gone before. */
	DO(KVL_WAITING, kvl_alloc(self->l, a, &r, false, self->now));
	ASSERT_EQ(2, pool_of(self).nr_retiring);
	ASSERT_EQ(3, info_of(self, 1).cur);
	DO(0, kvl_alloc_check(self->l, a, 0, 2, &check));
	ASSERT_EQ(-EDQUOT, check.status);
	ASSERT_EQ(1, check.available);
	ASSERT_EQ(2, do_work(self, true));
	ASSERT_EQ(0, r.status);
	ASSERT_EQ(3, info_of(self, 1).cur);
	ASSERT_EQ(3, info_of(self, 1).peak);
}

TEST_HARNESS_MAIN
