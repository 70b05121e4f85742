// SPDX-License-Identifier: MIT
/*
 * test_ledger_slice.c - what is done in slices, and what others may do between
 * two of them.
 */
#include <errno.h>

#include "ledger_kit.h"

/* A ledger that changes at most @slice pages a call. */
static struct kvl_client *sliced_user(SELF, u32 nr, u32 slice, u32 flags)
{
	struct kvl_config cfg = {
		.max_tenants = 24, .max_clients = 24, .nr_events = 8,
		.seed = 7, .slice = slice,
	};

	kvl_destroy(self->l);
	self->l = kvl_create(&cfg);
	ASSERT_TRUE(self->l != NULL);
	kvl_nodes_add(self->l, kvl_nodes_alloc(400));
	add_pool(self, "host", nr, 2 * nr, flags);
	return add_user(self, "a", 0, 0, NO_LIMIT);
}

static u32 events_of(SELF, struct kvl_client *c, u32 type)
{
	struct kvcache_event ev[8];
	u32 nr = 0;

	while (kvl_events(self->l, c, ev, 1))
		nr += ev[0].type == type;
	return nr;
}

TEST_F(ledger, a_lower_max_is_in_force_before_all_pages_are_back)
{
	struct kvl_client *c = sliced_user(self, 16, 3, KVL_POOL_DIRECT);
	struct kvl_client *b = add_user(self, "b", 0, 0, NO_LIMIT);
	struct kvl_request r = { .nr = 1 };
	struct kvl_check check;
	u64 h[16], g[16];

	kvl_events(self->l, c, NULL, 0);
	cache(self, c, 10, 100, h);
	DO(0, get(self, c, 2, h));
	DO(0, set_limits(self, 1, 0, 0, 4, NEVER));
	ASSERT_EQ(4, info_of(self, 1).max);
	ASSERT_EQ(9, info_of(self, 1).cur);
	/* It does not get what is on its way back, nor does it go unserved. */
	ASSERT_EQ(0, kvl_alloc_check(self->l, c, 0, 1, &check));
	ASSERT_EQ(-EDQUOT, check.status);
	ASSERT_EQ(0, check.available);
	ASSERT_EQ(1, missing(self, c, 1, -EDQUOT));
	r.pages = g;
	DO(KVL_WAITING, kvl_alloc(self->l, c, &r, true, self->now));
	DO(0, get(self, b, 2, &h[8]));
	ASSERT_EQ(9, info_of(self, 1).cur);
	DO(3, kvl_tenant_fit(self->l, 1, 0, 3, self->now));
	ASSERT_EQ(KVL_WAITING, r.status);
	ASSERT_EQ(6, info_of(self, 1).cur);
	DO(2, kvl_tenant_fit(self->l, 1, 0, 3, self->now));
	ASSERT_EQ(0, r.status);
	ASSERT_TRUE(kvl_next_done(self->l) == &r);
	/* Two, one granted, and one cached page less for it. */
	ASSERT_EQ(4, info_of(self, 1).cur);
	DO(0, kvl_tenant_fit(self->l, 1, 0, 3, self->now));
	DO(-ENOENT, kvl_tenant_fit(self->l, 3, 0, 3, self->now));
	DO(-ENOENT, kvl_tenant_fit(self->l, 1, 1, 3, self->now));
	/* Nobody was asked for pages: the cached ones did. */
	ASSERT_EQ(0, events_of(self, c, KVCACHE_EV_SHRINK));
}

TEST_F(ledger, a_request_under_way_waits_until_the_max_is_met)
{
	struct kvl_client *c = sliced_user(self, 16, 2, KVL_POOL_DIRECT);
	struct kvl_client *b = add_user(self, "b", 0, 0, NO_LIMIT);
	struct kvl_request r = { .nr = 3 };
	u64 h[16], g[16];

	cache(self, c, 8, 100, h);
	DO(0, get(self, c, 2, h));
	DO(0, get(self, b, 6, h));
	/* Pages are promised to b, so it waits in the pool's queue. */
	DO(0, set_limits(self, 2, 12, 0, NO_LIMIT, NEVER));
	r.pages = g;
	DO(KVL_WAITING, kvl_alloc(self->l, c, &r, true, self->now));
	DO(0, set_limits(self, 1, 0, 0, 5, NEVER));
	ASSERT_EQ(8, info_of(self, 1).cur);
	/* They are not any more, but others are being taken back. */
	DO(0, set_limits(self, 2, 0, 0, NO_LIMIT, NEVER));
	ASSERT_EQ(KVL_WAITING, r.status);
	ASSERT_EQ(8, info_of(self, 1).cur);
	DO(2, kvl_tenant_fit(self->l, 1, 0, 2, self->now));
	ASSERT_EQ(KVL_WAITING, r.status);
	DO(1, kvl_tenant_fit(self->l, 1, 0, 2, self->now));
	ASSERT_EQ(0, r.status);
	ASSERT_TRUE(kvl_next_done(self->l) == &r);
	ASSERT_EQ(5, info_of(self, 1).cur);
}

/* Work is waited for when there is nothing else to do. */
TEST_F(ledger, a_slice_is_not_held_up_by_work)
{
	struct kvl_client *c = sliced_user(self, 12, 5, 0);
	struct kvl_tenant *t;
	u64 h[12], nr;

	cache(self, c, 12, 100, h);
	die(self, c);
	DO(KVL_WORK, kvl_pool_resize(self->l, 0, 10, &nr, self->now));
	ASSERT_EQ(2, do_work(self, true));
	DO(0, kvl_pool_resize(self->l, 0, 10, &nr, self->now));
	DO(KVL_MORE, kvl_tenant_remove(self->l, 1, &t, NULL, self->now));
	DO(KVL_WORK, kvl_tenant_remove(self->l, 1, &t, NULL, self->now));
	ASSERT_EQ(10, do_work(self, true));
	DO(0, kvl_tenant_remove(self->l, 1, &t, NULL, self->now));
	kvl_tenant_free(t);
	DO(KVL_MORE, kvl_pool_resize(self->l, 0, 1, &nr, self->now));
	ASSERT_EQ(5, nr);
}

/* What is found meanwhile is in use, so the max is enforced as on such pages. */
TEST_F(ledger, lookups_between_slices_do_not_escape_a_lower_max)
{
	struct kvl_client *c = sliced_user(self, 16, 3, KVL_POOL_DIRECT);
	u64 h[16];

	kvl_events(self->l, c, NULL, 0);
	cache(self, c, 12, 100, h);
	DO(0, set_limits(self, 1, 0, 0, 2, self->now + 1000));
	ASSERT_EQ(9, info_of(self, 1).cur);
	ASSERT_EQ(0, events_of(self, c, KVCACHE_EV_SHRINK));
	DO(5, find(self, c, 100, 5, 0, NULL));
	DO(3, kvl_tenant_fit(self->l, 1, 0, 3, self->now));
	ASSERT_EQ(1, events_of(self, c, KVCACHE_EV_SHRINK));
	DO(1, kvl_tenant_fit(self->l, 1, 0, 3, self->now));
	ASSERT_EQ(5, info_of(self, 1).cur);
	ASSERT_EQ(self->now + 1000, kvl_next_tick(self->l));
	DO(0, kvl_tick(self->l, self->now + 999, 100));
	self->now += 1000;
	DO(3, kvl_tick(self->l, self->now, 100));
	ASSERT_EQ(2, info_of(self, 1).cur);
	ASSERT_EQ(3, info_of(self, 1).ev_revoke);
	ASSERT_EQ(0, events_of(self, c, KVCACHE_EV_SHRINK));
	ASSERT_EQ(NEVER, kvl_next_tick(self->l));
}

/* One who began to lower a max need not be there to end it. */
TEST_F(ledger, time_ends_what_a_lower_max_began)
{
	struct kvl_client *c = sliced_user(self, 16, 3, KVL_POOL_DIRECT);
	struct kvl_request r = { .nr = 2 };
	u64 h[16], g[16];

	cache(self, c, 12, 100, h);
	DO(0, set_limits(self, 1, 0, 0, 4, NEVER));
	r.pages = g;
	DO(KVL_WAITING, kvl_alloc(self->l, c, &r, true, self->now));
	ASSERT_TRUE(kvl_next_tick(self->l) <= self->now);
	DO(2, kvl_tick(self->l, self->now, 2));
	ASSERT_EQ(7, info_of(self, 1).cur);
	ASSERT_EQ(KVL_WAITING, r.status);
	ASSERT_TRUE(kvl_next_tick(self->l) <= self->now);
	DO(3, kvl_tick(self->l, self->now, 100));
	ASSERT_EQ(0, r.status);
	ASSERT_TRUE(kvl_next_done(self->l) == &r);
	ASSERT_EQ(4, info_of(self, 1).cur);
	ASSERT_EQ(NEVER, kvl_next_tick(self->l));
}

/* The deadline passes while pages are taken back: it counts all the same. */
TEST_F(ledger, a_deadline_may_pass_between_slices)
{
	struct kvl_client *c = sliced_user(self, 16, 2, KVL_POOL_DIRECT);
	u64 h[16];

	cache(self, c, 8, 100, h);
	DO(0, set_limits(self, 1, 0, 0, 1, self->now + 10));
	DO(4, find(self, c, 100, 4, 0, NULL));
	self->now += 10;
	DO(5, kvl_tick(self->l, self->now, 100));
	ASSERT_EQ(1, info_of(self, 1).cur);
	ASSERT_EQ(3, info_of(self, 1).ev_revoke);
	ASSERT_EQ(NEVER, kvl_next_tick(self->l));
}

/* Slices that end just where the max is met, and one that finds nothing. */
TEST_F(ledger, who_waits_for_a_lower_max_is_served_after_the_last_slice)
{
	struct kvl_client *c = sliced_user(self, 16, 3, KVL_POOL_DIRECT);
	struct kvl_request r = { .nr = 1 };
	u64 h[16], g[16];

	cache(self, c, 10, 100, h);
	DO(0, set_limits(self, 1, 0, 0, 4, NEVER));
	r.pages = g;
	DO(KVL_WAITING, kvl_alloc(self->l, c, &r, true, self->now));
	DO(3, kvl_tenant_fit(self->l, 1, 0, 3, self->now));
	DO(0, kvl_tenant_fit(self->l, 1, 0, 3, self->now));
	ASSERT_EQ(0, r.status);
	ASSERT_TRUE(kvl_next_done(self->l) == &r);
	ASSERT_EQ(4, info_of(self, 1).cur);
	/* All that is above goes elsewhere before the next one. */
	cache(self, c, 3, 300, h);
	DO(0, set_limits(self, 1, 0, 0, 16, NEVER));
	cache(self, c, 8, 400, h);
	DO(0, set_limits(self, 1, 0, 0, 4, NEVER));
	r.nr = 2;
	DO(KVL_WAITING, kvl_alloc(self->l, c, &r, true, self->now));
	DO(7, kvl_pool_trim(self->l, 0, 7, self->now));
	ASSERT_EQ(KVL_WAITING, r.status);
	DO(0, kvl_tenant_fit(self->l, 1, 0, 3, self->now));
	ASSERT_EQ(0, r.status);
	ASSERT_TRUE(kvl_next_done(self->l) == &r);
	/* Or comes into use. */
	c = add_user(self, "b", 0, 0, NO_LIMIT);
	cache(self, c, 8, 200, h);
	r.nr = 1;
	DO(0, set_limits(self, 2, 0, 0, 2, NEVER));
	DO(5, find(self, c, 200, 5, 0, h));
	DO(KVL_WAITING, kvl_alloc(self->l, c, &r, true, self->now));
	DO(0, kvl_tenant_fit(self->l, 2, 0, 3, self->now));
	ASSERT_EQ(KVL_WAITING, r.status);
	DO(0, put(self, c, h, 5));
	ASSERT_EQ(0, r.status);
	ASSERT_TRUE(kvl_next_done(self->l) == &r);
}

TEST_F(ledger, what_goes_takes_its_unfinished_slices_with_it)
{
	struct kvl_client *c = sliced_user(self, 12, 2, KVL_POOL_DIRECT);
	struct kvl_tenant *t;
	struct kvl_pool *p;
	u64 h[12];

	cache(self, c, 6, 100, h);
	DO(0, set_limits(self, 1, 0, 0, 1, self->now + 5));
	die(self, c);
	DO(KVL_MORE, kvl_tenant_remove(self->l, 1, &t, NULL, self->now));
	DO(0, kvl_tenant_remove(self->l, 1, &t, NULL, self->now));
	kvl_tenant_free(t);
	ASSERT_EQ(NEVER, kvl_next_tick(self->l));
	c = add_user(self, "b", 0, 0, NO_LIMIT);
	cache(self, c, 6, 100, h);
	DO(0, set_limits(self, 2, 0, 0, 1, self->now + 5));
	DO(0, kvl_pool_drain(self->l, 0, self->now));
	DO(4, kvl_pool_trim(self->l, 0, 9, self->now));
	DO(0, kvl_pool_remove(self->l, 0, &p));
	kvl_pool_free(p);
	add_pool(self, "host", 8, 8, KVL_POOL_DIRECT);
	ASSERT_EQ(NEVER, kvl_next_tick(self->l));
}

TEST_F(ledger, removal_and_resizing_go_by_slices)
{
	struct kvl_client *c = sliced_user(self, 12, 5, KVL_POOL_DIRECT);
	struct kvl_tenant *t;
	u64 h[12], nr, pages;

	cache(self, c, 12, 100, h);
	die(self, c);
	DO(KVL_MORE, kvl_pool_resize(self->l, 0, 4, &nr, self->now));
	ASSERT_EQ(7, nr);
	ASSERT_EQ(7, info_of(self, 1).cur);
	DO(0, kvl_pool_resize(self->l, 0, 4, &nr, self->now));
	ASSERT_EQ(4, nr);
	DO(KVL_MORE, kvl_pool_resize(self->l, 0, 24, &nr, self->now));
	ASSERT_EQ(9, nr);
	DO(KVL_MORE, kvl_pool_resize(self->l, 0, 15, &nr, self->now));
	DO(0, kvl_pool_resize(self->l, 0, 15, &nr, self->now));
	ASSERT_EQ(15, nr);
	c = add_client(self, 1);
	cache(self, c, 8, 200, h);
	die(self, c);
	ASSERT_EQ(12, info_of(self, 1).cur);
	DO(KVL_MORE, kvl_tenant_remove(self->l, 1, &t, &pages, self->now));
	ASSERT_EQ(5, pages);
	ASSERT_EQ(7, info_of(self, 1).cur);
	DO(KVL_MORE, kvl_tenant_remove(self->l, 1, &t, &pages, self->now));
	DO(0, kvl_tenant_remove(self->l, 1, &t, &pages, self->now));
	ASSERT_EQ(2, pages);
	kvl_tenant_free(t);
	ASSERT_EQ(15, pool_of(self).nr_free);
}

TEST_HARNESS_MAIN
