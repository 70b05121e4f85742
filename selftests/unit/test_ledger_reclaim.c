// SPDX-License-Identifier: MIT
/*
 * test_ledger_reclaim.c - in which order pages are taken back, and from whom.
 */
#include "ledger_kit.h"

TEST_F(ledger, least_recently_used_first)
{
	struct kvl_client *c;
	u64 h[3], g[8];
	u32 k;

	c = lone_user(self, 3);
	for (k = 0; k < 3; k++)
		cache(self, c, 1, 10 * k, &h[k]);
	/* A, B, C, then A again: B goes first. */
	DO(1, find(self, c, 0, 1, 0, g));
	DO(0, put(self, c, g, 1));
	ASSERT_STREQ("2 3 1", drain_order(self, c, g));
	ASSERT_EQ(3, pool_of(self).reclaims);
	ASSERT_EQ(3, info_of(self, 1).ev_reclaim);
	ASSERT_EQ(0, info_of(self, 1).nr_cached);
}

TEST_F(ledger, the_deepest_page_of_a_chain_first)
{
	struct kvl_client *c;
	u64 h[6], g[8];

	c = lone_user(self, 6);
	cache(self, c, 3, 1, h);
	cache(self, c, 3, 11, &h[3]);
	/* The older chain from its leaf, then the newer one. */
	ASSERT_STREQ("3 2 1 6 5 4", drain_order(self, c, g));
}

TEST_F(ledger, a_chain_in_two_calls_leaf_part_first)
{
	struct kvl_client *c;
	u64 h[4], g[8];
	u32 k;

	c = lone_user(self, 4);
	DO(0, get(self, c, 4, h));
	for (k = 0; k < 4; k++)
		DO(KVCACHE_PUBLISHED, publish(self, c, &h[k], k));
	DO(0, put(self, c, &h[2], 2));
	DO(0, put(self, c, h, 2));
	ASSERT_STREQ("4 3 2 1", drain_order(self, c, g));
}

TEST_F(ledger, a_shared_trunk_outlives_its_branches)
{
	struct kvl_client *a, *b;
	u64 x[3], y[3], g[8];
	u32 k;

	a = lone_user(self, 4);
	b = add_client(self, 1);
	DO(0, get(self, a, 3, x));
	for (k = 0; k < 3; k++)
		DO(KVCACHE_PUBLISHED, publish(self, a, &x[k], k));
	DO(2, find(self, b, 0, 2, 0, y));
	DO(0, get(self, b, 1, &y[2]));
	DO(KVCACHE_PUBLISHED, publish(self, b, &y[2], 9));
	DO(0, put(self, a, x, 3));
	DO(0, put(self, b, y, 3));
	/* a's leaf, b's leaf, then the trunk from its end. */
	ASSERT_STREQ("3 4 2 1", drain_order(self, a, g));
}

TEST_F(ledger, windowed_chains_root_first)
{
	struct kvl_client *c;
	u64 h[6], g[8];
	u32 k;

	c = lone_user(self, 6);
	DO(0, get(self, c, 6, h));
	for (k = 0; k < 6; k++)
		DO(KVCACHE_PUBLISHED,
		   publish_as(self, c, 0, &h[k], k, 35, NEVER,
			      k < 3 ? KVCACHE_PUBLISH_WINDOW : 0));
	DO(0, put(self, c, h, 6));
	/* Of one call, windowed pages come after the others. */
	ASSERT_STREQ("6 5 4 1 2 3", drain_order(self, c, g));
}

TEST_F(ledger, lower_priorities_first)
{
	struct kvl_client *c;
	u64 h[5], g[8];

	c = lone_user(self, 5);
	cache_as(self, c, 1, 1, 90, NEVER, 0, &h[0]);
	cache_as(self, c, 1, 2, 35, NEVER, 0, &h[1]);
	cache_as(self, c, 1, 3, 20, NEVER, 0, &h[2]);
	cache_as(self, c, 1, 4, 0, NEVER, 0, &h[3]);
	cache_as(self, c, 1, 5, 100, NEVER, 0, &h[4]);
	ASSERT_STREQ("4 3 2 1 5", drain_order(self, c, g));
}

TEST_F(ledger, advice_changes_the_priority)
{
	struct kvcache_page_info info;
	struct kvl_client *c;
	u64 h[3], g[8];

	c = lone_user(self, 3);
	cache(self, c, 2, 1, h);
	DO(1, find(self, c, 1, 1, 0, g));
	DO(0, advise(self, c, g, 1, KVCACHE_ADVISE_PRIORITY, 10, NEVER, NULL));
	DO(0, kvl_page_info(self->l, 0, 0, kvl_index(g[0]), 0, &info));
	ASSERT_EQ(10, info.priority);
	DO(0, put(self, c, g, 1));
	cache_as(self, c, 1, 5, 11, NEVER, 0, &h[2]);
	ASSERT_STREQ("1 3 2", drain_order(self, c, g));
}

/* 80 for a while, then the default: gone before what has 50. */
TEST_F(ledger, a_priority_falls_back)
{
	struct kvcache_page_info info;
	struct kvl_client *c;
	u64 h[4], g[8];

	c = lone_user(self, 4);
	cache_as(self, c, 1, 1, 80, 100, 0, &h[0]);
	cache_as(self, c, 1, 2, 50, NEVER, 0, &h[1]);
	cache_as(self, c, 1, 3, 35, NEVER, 0, &h[2]);
	cache_as(self, c, 1, 4, 10, 100, 0, &h[3]);
	self->now += 99;
	ASSERT_EQ(0, kvl_tick(self->l, self->now, 9));
	DO(0, kvl_page_info(self->l, 0, 0, 1, self->now, &info));
	ASSERT_EQ(80, info.priority);
	/* At its time, not after it; 10 rises to 35. */
	self->now++;
	ASSERT_LE(kvl_next_tick(self->l), self->now);
	ASSERT_EQ(0, kvl_tick(self->l, self->now, 9));
	ASSERT_EQ(NEVER, kvl_next_tick(self->l));
	DO(0, kvl_page_info(self->l, 0, 0, 1, self->now, &info));
	ASSERT_EQ(35, info.priority);
	/* Both count as stamped when they fell back, in their old order. */
	ASSERT_STREQ("3 1 4 2", drain_order(self, c, g));
}

TEST_F(ledger, a_priority_that_ran_out_in_use)
{
	struct kvl_client *c;
	u64 h[3], g[8];

	c = lone_user(self, 2);
	DO(0, get(self, c, 1, h));
	DO(KVCACHE_PUBLISHED, publish_as(self, c, 0, h, 1, 80, 100, 0));
	self->now += 200;
	DO(0, put(self, c, h, 1));
	cache_as(self, c, 1, 2, 36, NEVER, 0, &h[1]);
	ASSERT_STREQ("1 2", drain_order(self, c, g));
}

/* Many pages whose time comes at once keep the order of their stamps. */
TEST_F(ledger, falling_back_keeps_the_order)
{
	struct kvl_client *c;
	u64 h[40], g[64];
	char want[256] = "";
	u32 k, n = 0;

	c = lone_user(self, 40);
	DO(0, get(self, c, 40, h));
	for (k = 0; k < 40; k++)
		DO(KVCACHE_PUBLISHED, publish_as(self, c, 0, &h[k], k, 60,
						 1000 + k * 37 % 40, 0));
	DO(0, put(self, c, h, 40));
	for (k = 40; k; k--)
		n += sprintf(want + n, "%s%u", n ? " " : "", k);
	self->now += 2000;
	ASSERT_STREQ(want, drain_order(self, c, g));
}

static int set_ttl(SELF, u32 tenant, u64 ttl)
{
	struct kvcache_tenant_set set = {
		.tenant = tenant, .set = KVCACHE_SET_TTL, .ttl_ns = ttl,
	};

	return kvl_tenant_set(self->l, &set, self->now);
}

TEST_F(ledger, expired_pages_first)
{
	struct kvl_client *a, *b;
	u64 h[2], g[8];

	direct_pool(self, 3);
	a = add_user(self, "a", 0, 0, NO_LIMIT);
	b = add_user(self, "b", 1, 1, NO_LIMIT);
	DO(0, set_ttl(self, 2, 100));
	cache_as(self, a, 1, 1, 0, NEVER, 0, &h[0]);
	cache_as(self, b, 1, 2, 100, NEVER, 0, &h[1]);
	cache_as(self, a, 1, 3, 0, NEVER, 0, &h[0]);
	self->now += 100;
	/* Found no more, although it is there; b is at its min all the same. */
	ASSERT_EQ(0, peek(self, b, 2, 1));
	ASSERT_EQ(3, pool_of(self).nr_cached);
	ASSERT_STREQ("2 1", drain_order(self, a, g));
	/* What is left is promised to b, which has given its page up. */
	ASSERT_EQ(1, missing(self, a, 1, -ENOSPC));
}

TEST_F(ledger, time_to_live_is_counted_from_the_last_use)
{
	struct kvl_client *c;
	u64 h[2], g[2];

	c = lone_user(self, 4);
	DO(0, set_ttl(self, 1, 100));
	cache(self, c, 2, 1, h);
	self->now += 60;
	DO(1, find(self, c, 1, 1, 0, g));
	self->now += 500;
	/* In use: does not expire. The other one did. */
	ASSERT_EQ(1, peek(self, c, 1, 1));
	ASSERT_EQ(0, peek(self, c, 2, 1));
	ASSERT_EQ(0, kvl_tick(self->l, self->now, 0));
	ASSERT_EQ(1, kvl_tick(self->l, self->now, 10));
	VERIFY();
	DO(0, put(self, c, g, 1));
	ASSERT_LE(kvl_next_tick(self->l), self->now + 100);
	self->now += 99;
	ASSERT_EQ(1, peek(self, c, 1, 1));
	ASSERT_EQ(0, kvl_tick(self->l, self->now, 10));
	self->now += 1;
	ASSERT_EQ(0, peek(self, c, 1, 1));
	ASSERT_EQ(1, kvl_tick(self->l, self->now, 10));
	VERIFY();
	ASSERT_EQ(4, pool_of(self).nr_free);
	ASSERT_EQ(0, pool_of(self).reclaims);
	/* A new ttl is for pages cached from then on. */
	cache(self, c, 1, 1, h);
	DO(0, set_ttl(self, 1, NEVER));
	cache(self, c, 1, 2, &h[1]);
	self->now += 1000;
	ASSERT_EQ(1, kvl_tick(self->l, self->now, 10));
	VERIFY();
	ASSERT_EQ(1, peek(self, c, 2, 1));
	DO(-EINVAL, set_ttl(self, 1, 0));
}

TEST_F(ledger, a_tick_keeps_to_its_budget)
{
	struct kvl_client *c;
	u64 h[8];

	direct_pool(self, 8);
	c = add_user(self, "a", 4, 4, NO_LIMIT);
	DO(0, set_ttl(self, 1, 10));
	cache(self, c, 8, 1, h);
	self->now += 10;
	/* Below min too: its tenant does not want them any more. */
	ASSERT_EQ(3, kvl_tick(self->l, self->now, 3));
	VERIFY();
	ASSERT_LE(kvl_next_tick(self->l), self->now);
	ASSERT_EQ(5, kvl_tick(self->l, self->now, 100));
	VERIFY();
	ASSERT_EQ(8, pool_of(self).nr_free);
}

/* ---- protection --------------------------------------------------------- */

TEST_F(ledger, pass_one_spares_low_and_pass_two_min)
{
	struct kvl_client *a, *b, *c;
	u64 h[4], g[16];

	direct_pool(self, 9);
	a = add_user(self, "a", 0, 2, NO_LIMIT);
	b = add_user(self, "b", 1, 0, NO_LIMIT);
	c = add_user(self, "c", 0, 0, NO_LIMIT);
	cache(self, a, 3, 1, h);	/* 1 2 3, the oldest */
	cache(self, b, 3, 11, h);	/* 4 5 6 */
	cache(self, c, 3, 21, h);	/* 7 8 9 */
	/*
	 * a gives 3, then is at its low; b gives 6 and 5 and is at its min; c's
	 * pages are taken, also for itself; only then those below low. c owns
	 * what it gets: its own pages are above its low.
	 */
	ASSERT_STREQ("3 6 5 9 8 7 2 1", drain_order(self, c, g));
	ASSERT_EQ(1, missing(self, c, 1, -ENOSPC));
	/* b's last page is b's to have. */
	DO(0, get(self, b, 1, g));
	ASSERT_EQ(4, kvl_index(g[0]));
	ASSERT_EQ(3, info_of(self, 1).ev_reclaim);
	ASSERT_EQ(3, info_of(self, 2).ev_reclaim);
}

/* A tenant that crosses its low again and again, compared page by page. */
TEST_F(ledger, pages_passed_over_come_in_their_order_again)
{
	struct kvl_client *a, *b, *c;
	u64 h[6], p[2], g[16];
	u32 k;

	direct_pool(self, 8);
	a = add_user(self, "a", 0, 3, NO_LIMIT);
	b = add_user(self, "b", 0, 3, NO_LIMIT);
	c = add_user(self, "c", 0, 0, NO_LIMIT);
	for (k = 0; k < 3; k++) {
		cache(self, a, 1, k, &h[2 * k]);	/* 1 3 5 */
		cache(self, b, 1, k, &h[2 * k + 1]);	/* 2 4 6 */
	}
	cache(self, c, 1, 50, g);			/* 7 */
	/* a and b are at their low: passed over, c's own goes beside 8. */
	DO(0, get(self, c, 2, g));
	ASSERT_STREQ("7 8", order(g, 2));
	/* b is above its low now: its oldest goes, for b itself. */
	DO(0, put(self, c, g, 1));
	DO(0, get(self, b, 1, p));
	ASSERT_EQ(7, kvl_index(p[0]));
	DO(0, get(self, c, 1, g));
	ASSERT_EQ(2, kvl_index(g[0]));
	/* And a: above by a page that c gives back. */
	DO(0, put(self, c, g, 1));
	DO(0, get(self, a, 1, g));
	ASSERT_EQ(2, kvl_index(g[0]));
	DO(0, get(self, c, 1, g));
	ASSERT_EQ(1, kvl_index(g[0]));
	/* Nobody above: pass two, by age over both tenants. */
	ASSERT_STREQ("3 4 5 6", drain_order(self, c, g));
}

TEST_F(ledger, priorities_hold_among_pages_passed_over)
{
	struct kvl_client *a, *c;
	u64 h[3], g[16];

	direct_pool(self, 4);
	a = add_user(self, "a", 0, 3, NO_LIMIT);
	c = add_user(self, "c", 0, 0, NO_LIMIT);
	cache_as(self, a, 1, 1, 50, NEVER, 0, &h[0]);
	cache_as(self, a, 1, 2, 40, NEVER, 0, &h[1]);
	cache_as(self, a, 1, 3, 60, NEVER, 0, &h[2]);
	cache_as(self, c, 1, 4, 99, NEVER, 0, g);
	/* All of a's are passed over for c's own. */
	DO(0, get(self, c, 1, g));
	ASSERT_EQ(4, kvl_index(g[0]));
	/* Used again with a lower priority than all. */
	DO(1, find(self, a, 3, 1, 0, h));
	DO(0, advise(self, a, h, 1, KVCACHE_ADVISE_PRIORITY, 5, NEVER, NULL));
	DO(0, put(self, a, h, 1));
	ASSERT_STREQ("3 2 1", drain_order(self, c, g));
}

TEST_F(ledger, own_pages_first_at_the_limit)
{
	struct kvl_client *a, *b;
	u64 h[4], g[8];

	direct_pool(self, 8);
	a = add_user(self, "a", 3, 3, 4);
	b = add_user(self, "b", 0, 0, NO_LIMIT);
	cache(self, b, 2, 1, g);
	cache(self, a, 3, 1, h);
	/* Whatever its min and low, and although others' pages are older. */
	DO(0, get(self, a, 3, g));
	ASSERT_STREQ("4 5 6", order(g, 3));
	ASSERT_EQ(2, info_of(self, 2).nr_cached);
	ASSERT_EQ(1, info_of(self, 1).nr_cached);
	ASSERT_EQ(4, info_of(self, 1).cur);
	ASSERT_EQ(4, info_of(self, 1).peak);
}

TEST_F(ledger, own_pages_last_of_all)
{
	struct kvl_client *a, *b;
	u64 h[4], g[8];

	direct_pool(self, 4);
	a = add_user(self, "a", 4, 4, NO_LIMIT);
	b = add_user(self, "b", 0, 0, NO_LIMIT);
	cache(self, a, 4, 1, h);
	ASSERT_EQ(1, missing(self, b, 1, -E2BIG));
	/* Nobody else may; a itself can. */
	ASSERT_STREQ("4 3 2 1", drain_order(self, a, g));
}

/* ---- volatile pages ----------------------------------------------------- */

TEST_F(ledger, volatile_pages_are_taken_and_told)
{
	struct kvl_client *a, *b;
	u64 h[4], g[8], stale;
	u8 state[4];

	two_users(self, 4, &a, &b);
	DO(0, get(self, a, 4, h));
	DO(0, advise(self, a, h, 3, KVCACHE_ADVISE_VOLATILE, 0, 0, state));
	ASSERT_EQ(KVCACHE_ADVISE_KEPT, state[0]);
	ASSERT_EQ(KVCACHE_PAGE_PRIVATE, state_of(self, h[0]));
	/* The last one given first. */
	DO(0, get(self, b, 2, g));
	ASSERT_STREQ("2 3", order(g, 2));
	ASSERT_EQ(2, info_of(self, 1).cur);
	DO(-ESTALE, put(self, a, &h[2], 1));
	DO(-ESTALE, advise(self, a, &h[2], 1, KVCACHE_ADVISE_TOUCH, 0, 0,
			   NULL));
	/* Not b's to ask, and no other generation. */
	DO(-ESTALE, advise(self, b, &h[2], 1, KVCACHE_ADVISE_NONVOLATILE, 0, 0,
			   NULL));
	stale = h[2] + (5ULL << 32);
	DO(-ESTALE, advise(self, a, &stale, 1, KVCACHE_ADVISE_NONVOLATILE, 0,
			   0, NULL));
	DO(2, advise(self, a, h, 4, KVCACHE_ADVISE_NONVOLATILE, 0, 0, state));
	ASSERT_EQ(KVCACHE_ADVISE_KEPT, state[0]);
	ASSERT_EQ(KVCACHE_ADVISE_TAKEN, state[1]);
	ASSERT_EQ(KVCACHE_ADVISE_TAKEN, state[2]);
	ASSERT_EQ(KVCACHE_ADVISE_KEPT, state[3]);
	/* Told once. */
	DO(-ESTALE, advise(self, a, &h[2], 1, KVCACHE_ADVISE_NONVOLATILE, 0, 0,
			   NULL));
	/* The one that was kept is a page like any other. */
	ASSERT_EQ(1, missing(self, b, 1, -ENOSPC));
	DO(KVCACHE_PUBLISHED, publish(self, a, &h[0], 1));
}

TEST_F(ledger, volatile_and_cached_pages_in_one_order)
{
	struct kvl_client *a;
	u64 h[5], g[8];

	a = lone_user(self, 5);
	cache(self, a, 1, 1, &h[0]);				/* 1 */
	DO(0, get(self, a, 2, &h[1]));				/* 2 3 */
	DO(0, advise(self, a, &h[1], 1, KVCACHE_ADVISE_VOLATILE, 0, 0, NULL));
	DO(0, advise(self, a, &h[2], 1, KVCACHE_ADVISE_VOLATILE |
		     KVCACHE_ADVISE_PRIORITY, 10, NEVER, NULL));
	cache(self, a, 1, 2, &h[3]);				/* 4 */
	/* Touched: the latest of its priority. */
	DO(0, advise(self, a, &h[1], 1, KVCACHE_ADVISE_TOUCH, 0, 0, NULL));
	ASSERT_STREQ("5 3 1 4 2", drain_order(self, a, g));
	DO(2, advise(self, a, &h[1], 2, KVCACHE_ADVISE_NONVOLATILE, 0, 0,
		     NULL));
}

TEST_F(ledger, advice_refuses)
{
	const u32 both = KVCACHE_ADVISE_VOLATILE | KVCACHE_ADVISE_NONVOLATILE;
	struct kvl_client *c;
	u64 h[4], bad[2];

	c = lone_user(self, 4);
	DO(0, get(self, c, 2, h));
	DO(KVCACHE_PUBLISHED, publish(self, c, &h[1], 1));
	DO(-EINVAL, advise(self, c, h, 1, 0, 0, 0, NULL));
	DO(-EINVAL, advise(self, c, h, 1, 16, 0, 0, NULL));
	DO(-EINVAL, advise(self, c, h, 1, both, 0, 0, NULL));
	DO(-EINVAL, advise(self, c, h, 1, KVCACHE_ADVISE_TOUCH, 1, 0, NULL));
	DO(-EINVAL, advise(self, c, h, 1, KVCACHE_ADVISE_TOUCH, 0, 1, NULL));
	DO(-EINVAL, advise(self, c, &h[1], 1, KVCACHE_ADVISE_PRIORITY, 101,
			   NEVER, NULL));
	DO(-EINVAL, advise(self, c, h, 1, KVCACHE_ADVISE_PRIORITY, 1, 5, NULL));
	DO(-EINVAL, advise(self, c, &h[1], 1, KVCACHE_ADVISE_VOLATILE, 0, 0,
			   NULL));
	/* All or nothing: the first one stays as it was. */
	DO(-EINVAL, advise(self, c, h, 2, KVCACHE_ADVISE_VOLATILE, 0, 0,
			   NULL));
	bad[0] = h[0];
	bad[1] = h[0] + (1ULL << 32);
	DO(-ESTALE, advise(self, c, bad, 2, KVCACHE_ADVISE_VOLATILE, 0, 0,
			   NULL));
	ASSERT_EQ(2, missing(self, c, 4, -ENOSPC));
	/* Twice in one call is once. */
	bad[1] = h[0];
	DO(0, advise(self, c, bad, 2, KVCACHE_ADVISE_VOLATILE, 0, 0, NULL));
	ASSERT_EQ(1, missing(self, c, 4, -ENOSPC));
	DO(0, get(self, c, 3, h));
}

TEST_F(ledger, freeing_a_volatile_page)
{
	struct kvl_client *c;
	u64 h[2];

	c = lone_user(self, 2);
	DO(0, get(self, c, 2, h));
	DO(0, advise(self, c, h, 2, KVCACHE_ADVISE_VOLATILE, 0, 0, NULL));
	DO(0, put(self, c, h, 2));
	ASSERT_EQ(2, pool_of(self).nr_free);
	DO(-ESTALE, advise(self, c, h, 1, KVCACHE_ADVISE_NONVOLATILE, 0, 0,
			   NULL));
}

TEST_HARNESS_MAIN
