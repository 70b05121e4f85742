// SPDX-License-Identifier: MIT
/*
 * test_ledger_grant.c - domains: what a tenant finds, and publishes, of
 * another's.
 */
#include "ledger_kit.h"

static struct kvcache_publish pub;

static int grant(SELF, u32 from, u32 to, u32 rights, u64 max_held)
{
	struct kvcache_tenant_grant g = {
		.tenant = from, .to = to, .rights = rights,
		.max_held = max_held,
	};

	return kvl_tenant_grant(self->l, &g);
}

TEST_F(ledger, nothing_is_found_without_a_grant)
{
	struct kvl_client *a, *b;
	u64 h[2], g[2];

	two_users(self, 8, &a, &b);
	cache(self, a, 1, 1, h);
	DO(0, find(self, b, 1, 1, 0, g));
	/* An equal page of b's is no duplicate of a's. */
	DO(0, get(self, b, 1, g));
	DO(KVCACHE_PUBLISHED, publish(self, b, g, 1));
	ASSERT_NE(h[0], g[0]);
	DO(-EPERM, publish_as(self, b, 1, g, 1, 35, NEVER, 0));
	DO(0, grant(self, 1, 2, KVCACHE_GRANT_LOOKUP, 4));
	DO(-EPERM, publish_as(self, b, 1, g, 1, 35, NEVER, 0));
	/* Its own is found first. */
	DO(1, find(self, b, 1, 1, 0, &g[1]));
	ASSERT_EQ(g[0], g[1]);
}

TEST_F(ledger, a_grant_bounds_what_is_held)
{
	struct kvcache_lookup window = {
		.nr_keys = 3, .keys_per_page = 1, .tail = 3,
	};
	struct kvl_client *a, *b, *b2;
	u64 h[4], g[4], again[2];

	two_users(self, 8, &a, &b);
	b2 = add_client(self, 2);
	cache(self, a, 3, 1, h);
	DO(0, grant(self, 1, 2, KVCACHE_GRANT_LOOKUP, 2));
	/* The prefix ends at the bound, for who looks only, too. */
	ASSERT_EQ(2, peek(self, b, 1, 3));
	/* A window of three cannot be had in part. */
	for (u32 k = 0; k < 3; k++)
		make_key(window.keys[k], 1 + k);
	DO(0, kvl_lookup(self->l, b, &window, self->now));
	ASSERT_EQ(0, window.out_nr_pages);
	ASSERT_EQ(0, window.out_nr_keys);
	ASSERT_EQ(3, pool_of(self).nr_cached);
	DO(2, find(self, b, 1, 3, 0, g));
	ASSERT_EQ(h[0], g[0]);
	ASSERT_EQ(h[1], g[1]);
	/* Held already: no more of them. */
	DO(2, find(self, b, 1, 2, 0, again));
	/* The bound is the tenant's, not the client's. */
	DO(0, find(self, b2, 1, 1, 0, again));
	DO(0, put(self, b, g, 1));
	DO(0, find(self, b2, 1, 1, 0, again));
	DO(0, put(self, b, g, 1));
	DO(1, find(self, b2, 1, 1, 0, again));
	ASSERT_EQ(h[0], again[0]);
	/* Charged to whom it was. */
	ASSERT_EQ(3, info_of(self, 1).cur);
	ASSERT_EQ(0, info_of(self, 2).cur);
	/* Taken back: nothing more is found, what is held stays. */
	DO(0, grant(self, 1, 2, 0, 0));
	ASSERT_EQ(0, peek(self, b, 1, 1));
	DO(0, kvl_page_access(self->l, b2, 0, kvl_index(h[0]), false));
	ASSERT_EQ(0, info_of(self, 1).grants);
	DO(0, put(self, b2, again, 1));
	DO(0, put(self, b, &g[1], 1));
	DO(0, put(self, b, &g[1], 1));
	ASSERT_EQ(3, pool_of(self).nr_cached);
}

TEST_F(ledger, granting_tenants_are_searched_in_order)
{
	struct kvl_client *a, *b, *c;
	u64 h[2], g[2], f[2];

	two_users(self, 8, &a, &b);
	c = add_user(self, "c", 0, 0, NO_LIMIT);
	cache(self, a, 1, 1, h);
	cache(self, b, 1, 1, g);
	DO(0, grant(self, 2, 3, KVCACHE_GRANT_LOOKUP, 9));
	DO(0, grant(self, 1, 3, KVCACHE_GRANT_LOOKUP, 9));
	DO(1, find(self, c, 1, 1, 0, f));
	ASSERT_EQ(g[0], f[0]);
}

TEST_F(ledger, publishing_into_a_commons_moves_the_charge)
{
	struct kvl_client *a, *b;
	u64 h[4], g[4];

	direct_pool(self, 8);
	a = add_user(self, "commons", 0, 0, 2);
	b = add_user(self, "b", 0, 0, 3);
	DO(0, grant(self, 1, 2, KVCACHE_GRANT_PUBLISH | KVCACHE_GRANT_LOOKUP,
		    4));
	DO(0, get(self, b, 3, h));
	DO(KVCACHE_PUBLISHED, publish_as(self, b, 1, &h[0], 1, 35, NEVER, 0));
	DO(KVCACHE_PUBLISHED, publish_as(self, b, 1, &h[1], 2, 35, NEVER, 0));
	ASSERT_EQ(2, info_of(self, 1).cur);
	ASSERT_EQ(1, info_of(self, 2).cur);
	/* The commons is full of pages in use. */
	DO(-EDQUOT, publish_as(self, b, 1, &h[2], 3, 35, NEVER, 0));
	ASSERT_EQ(KVCACHE_PAGE_PRIVATE, state_of(self, h[2]));
	/* One of its cached pages makes room. */
	DO(0, put(self, b, &h[0], 1));
	DO(KVCACHE_PUBLISHED, publish_as(self, b, 1, &h[2], 3, 35, NEVER, 0));
	ASSERT_EQ(KVCACHE_PAGE_FREE, state_of(self, h[0]));
	ASSERT_EQ(2, info_of(self, 1).cur);
	ASSERT_EQ(1, info_of(self, 1).ev_reclaim);
	/* A duplicate in the commons: not the page that would make room. */
	DO(0, put(self, b, &h[1], 1));
	DO(0, get(self, b, 2, g));
	memset(&pub, 0, sizeof(pub));
	pub.nr = 2;
	pub.domain = 1;
	fill_entry(&pub.pages[0], g[0], 2, 1, 35, NEVER, 0);
	fill_entry(&pub.pages[1], g[1], 4, 1, 35, NEVER, 0);
	DO(-EDQUOT, kvl_publish(self->l, b, &pub, NULL, self->now));
	pub.nr = 1;
	DO(0, kvl_publish(self->l, b, &pub, NULL, self->now));
	ASSERT_EQ(KVCACHE_DEDUPLICATED, pub.pages[0].out_result);
	ASSERT_EQ(h[1], pub.pages[0].out_handle);
	die(self, a);
}

TEST_F(ledger, the_bound_counts_what_was_published)
{
	struct kvl_client *b;
	u64 h[4];

	direct_pool(self, 8);
	add_user(self, "commons", 0, 0, NO_LIMIT);
	b = add_user(self, "b", 0, 0, NO_LIMIT);
	DO(0, grant(self, 1, 2, KVCACHE_GRANT_PUBLISH, 1));
	DO(0, get(self, b, 2, h));
	DO(KVCACHE_PUBLISHED, publish_as(self, b, 1, &h[0], 1, 35, NEVER, 0));
	DO(-EDQUOT, publish_as(self, b, 1, &h[1], 2, 35, NEVER, 0));
	DO(0, put(self, b, &h[0], 1));
	DO(KVCACHE_PUBLISHED, publish_as(self, b, 1, &h[1], 2, 35, NEVER, 0));
	/* PUBLISH alone does not let it look. */
	ASSERT_EQ(0, peek(self, b, 1, 2));
}

/* Moving a page away from a tenant below its min would take a free page. */
TEST_F(ledger, publishing_does_not_eat_into_a_promise)
{
	struct kvl_client *b, *o;
	u64 h[4], g[4];

	direct_pool(self, 4);
	add_user(self, "commons", 0, 0, NO_LIMIT);
	b = add_user(self, "b", 2, 0, NO_LIMIT);
	o = add_user(self, "other", 0, 0, NO_LIMIT);
	DO(0, grant(self, 1, 2, KVCACHE_GRANT_PUBLISH, 4));
	DO(0, get(self, b, 2, h));
	DO(0, get(self, o, 2, g));
	DO(-ENOSPC, publish_as(self, b, 1, &h[0], 1, 35, NEVER, 0));
	DO(0, put(self, o, g, 1));
	DO(KVCACHE_PUBLISHED, publish_as(self, b, 1, &h[0], 1, 35, NEVER, 0));
}

TEST_F(ledger, grants_refuse)
{
	u32 k, t[20];
	char name[8];

	direct_pool(self, 8);
	for (k = 1; k <= 18; k++) {
		snprintf(name, sizeof(name), "t%u", k);
		t[k] = add_tenant(self, name);
	}
	DO(-EINVAL, grant(self, t[1], t[1], 1, 1));
	DO(-ENOENT, grant(self, t[1], 23, 1, 1));
	DO(-ENOENT, grant(self, 23, t[1], 1, 1));
	DO(-ENOENT, grant(self, 99999, t[1], 1, 1));
	DO(-EINVAL, grant(self, t[1], t[2], 4, 1));
	/* Taking back what was not given is no error. */
	DO(0, grant(self, t[1], t[2], 0, 0));
	for (k = 2; k <= 17; k++)
		DO(0, grant(self, t[k], t[1], 1, 1));
	DO(-ENOSPC, grant(self, t[18], t[1], 1, 1));
	ASSERT_EQ(1, info_of(self, t[2]).grants);
	DO(0, grant(self, t[2], t[1], 0, 0));
	DO(0, grant(self, t[18], t[1], 1, 1));
	ASSERT_EQ(0, info_of(self, t[2]).grants);
}

TEST_HARNESS_MAIN
