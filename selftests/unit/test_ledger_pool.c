// SPDX-License-Identifier: MIT
/*
 * test_ledger_pool.c - pools: making, resizing, draining, removing; events; and
 * that kvl_verify() notices what is wrong.
 */
#include "ledger_kit.h"
#include "ledger_internal.h"

static int try_pool(SELF, struct kvl_pool_config cfg)
{
	struct kvl_pool *p;
	int rc = kvl_pool_alloc(self->l, &cfg, &p);

	if (rc)
		return rc;
	rc = kvl_pool_add(self->l, p);
	if (rc < 0)
		kvl_pool_free(p);
	return rc;
}

TEST_F(ledger, a_ledger_refuses_bad_sizes)
{
	struct kvl_config cfg = {
		.max_tenants = 1, .max_clients = 1, .nr_events = 1,
	};

	cfg.max_tenants = 0;
	ASSERT_TRUE(kvl_create(&cfg) == NULL);
	cfg.max_tenants = 65536;
	ASSERT_TRUE(kvl_create(&cfg) == NULL);
	cfg.max_tenants = 1;
	cfg.max_clients = 0;
	ASSERT_TRUE(kvl_create(&cfg) == NULL);
	cfg.max_clients = 1;
	cfg.nr_events = 3;
	ASSERT_TRUE(kvl_create(&cfg) == NULL);
	cfg.nr_events = 0;
	ASSERT_TRUE(kvl_create(&cfg) == NULL);
	kvl_destroy(NULL);
}

TEST_F(ledger, pools_are_made_and_refused)
{
	struct kvl_pool_config cfg = { .name = "p", .nr_pages = 4 };
	struct kvcache_pool_info info;
	char name[8];
	u32 k;

	cfg.name = ".p";
	DO(-EINVAL, try_pool(self, cfg));
	cfg.name = "p";
	cfg.nr_pages = 0;
	DO(-EINVAL, try_pool(self, cfg));
	cfg.nr_pages = 4;
	cfg.capacity = 3;
	DO(-EINVAL, try_pool(self, cfg));
	cfg.capacity = 0;
	cfg.kind = 2;
	DO(-EINVAL, try_pool(self, cfg));
	cfg.kind = 0;
	cfg.flags = 2;
	DO(-EINVAL, try_pool(self, cfg));
	cfg.flags = KVL_POOL_DIRECT;
	cfg.page_size = 65536;
	DO(0, try_pool(self, cfg));
	DO(-EEXIST, try_pool(self, cfg));
	for (k = 1; k < KVCACHE_MAX_POOLS; k++) {
		snprintf(name, sizeof(name), "p%u", k);
		cfg.name = name;
		DO(k, try_pool(self, cfg));
	}
	cfg.name = "more";
	DO(-ENOSPC, try_pool(self, cfg));
	DO(0, kvl_pool_info(self->l, 0, &info));
	ASSERT_STREQ("p", info.name);
	ASSERT_EQ(65536, info.page_size);
	ASSERT_EQ(4, info.nr_pages);
	ASSERT_EQ(4, info.nr_free);
	DO(-ENOENT, kvl_pool_info(self->l, 16, &info));
}

/* Limits, pages and keys of two pools have nothing to do with each other. */
TEST_F(ledger, pools_are_apart)
{
	struct kvl_request r = { .pool = 1, .nr = 3 };
	struct kvcache_tenant_info info;
	struct kvl_client *c;
	u64 h[4], g[4];

	direct_pool(self, 4);
	c = add_user(self, "a", 0, 0, 2);
	add_pool(self, "second", 4, 0, KVL_POOL_DIRECT);
	r.pages = g;
	DO(0, kvl_alloc(self->l, c, &r, false, self->now));
	DO(0, get(self, c, 2, h));
	ASSERT_EQ(h[0], g[0]);
	DO(KVCACHE_PUBLISHED, publish(self, c, h, 1));
	DO(0, kvl_free(self->l, c, 1, g, 1, self->now));
	ASSERT_EQ(KVCACHE_PAGE_SHARED, state_of(self, h[0]));
	DO(0, kvl_tenant_info(self->l, 1, 1, &info));
	ASSERT_EQ(2, info.cur);
	ASSERT_EQ(NO_LIMIT, info.max);
	die(self, c);
	DO(0, kvl_tenant_info(self->l, 1, 1, &info));
	ASSERT_EQ(0, info.cur);
}

TEST_F(ledger, a_pool_grows_to_its_capacity)
{
	struct kvl_client *c;
	u64 h[8], nr = 0;

	add_pool(self, "host", 4, 6, KVL_POOL_DIRECT);
	c = add_user(self, "a", 0, 0, NO_LIMIT);
	DO(0, get(self, c, 3, h));
	DO(-E2BIG, kvl_pool_resize(self->l, 0, 7, &nr, self->now));
	ASSERT_EQ(4, nr);
	DO(0, kvl_pool_resize(self->l, 0, 6, &nr, self->now));
	ASSERT_EQ(6, nr);
	DO(0, get(self, c, 3, &h[3]));
	ASSERT_STREQ("1 2 3 4 5 6", order(h, 6));
	DO(-ENOENT, kvl_pool_resize(self->l, 1, 6, &nr, self->now));
	DO(-EINVAL, kvl_pool_resize(self->l, 0, 0, &nr, self->now));
}

TEST_F(ledger, growing_serves_who_waits)
{
	struct kvl_request r = { .nr = 2 };
	struct kvl_client *c;
	u64 h[8], g[8], nr;

	add_pool(self, "host", 2, 4, KVL_POOL_DIRECT);
	c = add_user(self, "a", 0, 0, NO_LIMIT);
	r.pages = g;
	DO(0, get(self, c, 1, h));
	DO(KVL_WAITING, kvl_alloc(self->l, c, &r, true, self->now));
	DO(0, kvl_pool_resize(self->l, 0, 3, &nr, self->now));
	ASSERT_TRUE(kvl_next_done(self->l) == &r);
	ASSERT_STREQ("2 3", order(g, 2));
}

TEST_F(ledger, a_pool_shrinks_as_far_as_it_can)
{
	struct kvl_client *c;
	u64 h[8], g[8], nr;

	direct_pool(self, 8);
	c = add_user(self, "a", 3, 3, NO_LIMIT);
	DO(0, get(self, c, 3, h));		/* 1 2 3 */
	cache(self, c, 2, 1, g);		/* 4 5 */
	DO(-EINVAL, kvl_pool_resize(self->l, 0, 2, &nr, self->now));
	/* 8 7 6 are free, 5 is cached, 4 stays. */
	DO(0, kvl_pool_resize(self->l, 0, 4, &nr, self->now));
	ASSERT_EQ(4, nr);
	ASSERT_EQ(1, pool_of(self).nr_cached);
	ASSERT_EQ(0, pool_of(self).nr_free);
	DO(0, set_limits(self, 1, 0, 0, NO_LIMIT, NEVER));
	DO(0, put(self, c, h, 2));
	DO(-EBUSY, kvl_pool_resize(self->l, 0, 1, &nr, self->now));
	ASSERT_EQ(3, nr);
	ASSERT_EQ(0, pool_of(self).nr_cached);
	DO(0, put(self, c, &h[2], 1));
	DO(0, kvl_pool_resize(self->l, 0, 1, &nr, self->now));
	/* Pages that come back have not forgotten their generations. */
	DO(0, kvl_pool_resize(self->l, 0, 8, &nr, self->now));
	DO(-ESTALE, put(self, c, &h[2], 1));
	DO(0, get(self, c, 8, g));
	ASSERT_STREQ("1 2 3 4 5 6 7 8", order(g, 8));
	ASSERT_EQ(2, kvl_generation(g[4]));
	ASSERT_EQ(1, kvl_generation(g[7]));
}

TEST_F(ledger, shrinking_with_work)
{
	struct kvl_client *c;
	u64 h[8], nr;

	add_pool(self, "host", 4, 0, 0);
	c = add_user(self, "a", 0, 0, NO_LIMIT);
	cache(self, c, 4, 1, h);
	DO(KVL_WORK, kvl_pool_resize(self->l, 0, 2, &nr, self->now));
	ASSERT_EQ(4, nr);
	ASSERT_EQ(2, do_work(self, true));
	DO(0, kvl_pool_resize(self->l, 0, 2, &nr, self->now));
	ASSERT_EQ(2, pool_of(self).nr_cached);
	/* A page that is stuck is in use. */
	DO(KVL_WORK, kvl_pool_resize(self->l, 0, 1, &nr, self->now));
	ASSERT_EQ(1, do_work(self, false));
	DO(-EBUSY, kvl_pool_resize(self->l, 0, 1, &nr, self->now));
	ASSERT_EQ(2, nr);
}

TEST_F(ledger, a_drained_pool_hands_out_nothing)
{
	struct kvl_request r = { .nr = 4 };
	struct kvl_check check;
	struct kvl_client *c;
	u64 h[8], g[8], f[2];

	direct_pool(self, 4);
	c = add_user(self, "a", 2, 2, NO_LIMIT);
	DO(0, get(self, c, 1, h));
	DO(KVCACHE_PUBLISHED, publish(self, c, h, 1));
	cache(self, c, 2, 11, g);
	r.pages = g;
	DO(KVL_WAITING, kvl_alloc(self->l, c, &r, true, self->now));
	DO(0, kvl_pool_drain(self->l, 0, self->now));
	ASSERT_TRUE(kvl_next_done(self->l) == &r);
	ASSERT_EQ(-ESHUTDOWN, r.status);
	ASSERT_EQ(2, kvl_pool_trim(self->l, 0, 100, self->now));
	VERIFY();
	DO(-ESHUTDOWN, get(self, c, 1, g));
	DO(0, kvl_alloc_check(self->l, c, 0, 1, &check));
	ASSERT_EQ(-ESHUTDOWN, check.status);
	ASSERT_EQ(0, check.available);
	ASSERT_EQ(0, peek(self, c, 1, 1));
	DO(0, find(self, c, 1, 1, 0, f));
	/* The last reference frees instead of caching. */
	DO(0, put(self, c, h, 1));
	ASSERT_EQ(4, pool_of(self).nr_free);
	ASSERT_EQ(1, pool_of(self).draining);
	DO(0, kvl_pool_resume(self->l, 0));
	DO(0, get(self, c, 4, g));
	DO(-ENOENT, kvl_pool_drain(self->l, 1, self->now));
	DO(-ENOENT, kvl_pool_resume(self->l, 1));
	DO(-ENOENT, kvl_pool_trim(self->l, 1, 1, self->now));
}

TEST_F(ledger, a_pool_is_removed_when_it_is_empty)
{
	struct kvl_request r = { .nr = 5 };
	struct kvl_pool *p;
	struct kvl_client *c;
	u64 h[8];
	int id;

	c = lone_user(self, 4);
	DO(0, get(self, c, 4, h));
	DO(-EBUSY, kvl_pool_remove(self->l, 0, &p));
	/* One of them is taken while volatile: its record goes as well. */
	DO(0, advise(self, c, h, 1, KVCACHE_ADVISE_VOLATILE, 0, 0, NULL));
	DO(1, kvl_pool_trim(self->l, 0, 9, self->now));
	DO(0, put(self, c, &h[1], 3));
	DO(0, set_limits(self, 1, 0, 0, 5, NEVER));
	DO(0, kvl_pool_remove(self->l, 0, &p));
	kvl_pool_free(p);
	DO(-ENOENT, kvl_pool_remove(self->l, 0, &p));
	r.pages = h;
	DO(-ENOENT, kvl_alloc(self->l, c, &r, true, self->now));
	id = direct_pool(self, 2);
	ASSERT_EQ(0, id);
	ASSERT_EQ(NO_LIMIT, info_of(self, 1).max);
	DO(0, get(self, c, 2, h));
	die(self, c);
}

/* A client that kept its handles cannot hit pages of a pool that came later. */
TEST_F(ledger, handles_do_not_outlive_their_pool)
{
	struct kvl_client *c = lone_user(self, 2);
	struct kvl_pool *p;
	u64 old[2], new[2];
	u32 k;

	for (k = 0; k < 3; k++) {
		DO(0, get(self, c, 2, old));
		DO(0, put(self, c, old, 2));
	}
	DO(0, kvl_pool_remove(self->l, 0, &p));
	kvl_pool_free(p);
	ASSERT_EQ(0, direct_pool(self, 3));
	DO(0, get(self, c, 2, new));
	for (k = 0; k < 2; k++) {
		ASSERT_EQ(kvl_index(old[k]), kvl_index(new[k]));
		ASSERT_GT(kvl_generation(new[k]), kvl_generation(old[k]) + 1);
	}
	for (k = 0; k < kvl_generation(new[0]); k++)
		DO(-ESTALE, put(self, c, &(u64){ (u64)k << 32 | 1 }, 1));
	DO(0, put(self, c, new, 2));
	/* One without any page handed out counts as well. */
	DO(0, kvl_pool_remove(self->l, 0, &p));
	kvl_pool_free(p);
	ASSERT_EQ(0, direct_pool(self, 3));
	DO(0, get(self, c, 2, old));
	ASSERT_GT(kvl_generation(old[0]), kvl_generation(new[0]));
	die(self, c);
}

static void remove_pool(SELF, u32 pool)
{
	struct kvl_pool *p;

	DO(0, kvl_pool_remove(self->l, pool, &p));
	kvl_pool_free(p);
}

TEST_F(ledger, nodes_go_when_no_pool_has_any_in_use)
{
	struct kvl_client *c = lone_user(self, 4);
	u64 h[2];

	add_pool(self, "b", 4, 0, KVL_POOL_DIRECT);
	DO(0, get(self, c, 2, h));
	DO(0, advise(self, c, h, 1, KVCACHE_ADVISE_VOLATILE, 0, 0, NULL));
	remove_pool(self, 1);
	/* One is in use, so they are all there. */
	DO(0, advise(self, c, &h[1], 1, KVCACHE_ADVISE_VOLATILE, 0, 0, NULL));
	DO(0, put(self, c, h, 2));
	add_pool(self, "b", 4, 0, KVL_POOL_DIRECT);
	remove_pool(self, 1);
	DO(0, get(self, c, 1, h));
	DO(-EAGAIN, advise(self, c, h, 1, KVCACHE_ADVISE_VOLATILE, 0, 0, NULL));
	kvl_nodes_add(self->l, kvl_nodes_alloc(1));
	DO(0, advise(self, c, h, 1, KVCACHE_ADVISE_VOLATILE, 0, 0, NULL));
	die(self, c);
}

/* ---- events ------------------------------------------------------------- */

#define ASSERT_EVENT(e, what, about, val)				\
	do {								\
		ASSERT_EQ(what, (e)->type);				\
		ASSERT_EQ(about, (e)->tenant);				\
		ASSERT_EQ(val, (e)->value);				\
	} while (0)

static u32 key_in(const u8 *key)
{
	u32 k;

	memcpy(&k, key, sizeof(k));
	return k;
}

TEST_F(ledger, events_of_a_pages_life)
{
	static struct kvcache_publish pub;
	struct kvcache_event ev[8];
	struct kvl_client *a, *b;
	u64 h[4], g[4];

	two_users(self, 2, &a, &b);
	/* Nothing is kept for those who never asked. */
	DO(0, get(self, a, 1, h));
	DO(KVCACHE_PUBLISHED, publish(self, a, h, 1));
	ASSERT_FALSE(kvl_events_pending(self->l, a));
	ASSERT_EQ(0, kvl_events(self->l, a, ev, 8));
	ASSERT_EQ(0, kvl_events(self->l, b, ev, 8));
	DO(0, get(self, a, 1, &h[1]));
	memset(&pub, 0, sizeof(pub));
	pub.nr = 1;
	fill_entry(&pub.pages[0], h[1], 7, 3, 60, NEVER, 0);
	make_key(pub.pages[0].parent, 1);
	DO(0, kvl_publish(self->l, a, &pub, NULL, self->now));
	ASSERT_TRUE(kvl_events_pending(self->l, a));
	ASSERT_FALSE(kvl_events_pending(self->l, b));
	DO(0, advise(self, a, &h[1], 1, KVCACHE_ADVISE_PRIORITY, 20, 500,
		     NULL));
	DO(0, put(self, a, h, 2));
	DO(0, get(self, b, 1, g));
	ASSERT_EQ(2, kvl_events(self->l, a, ev, 2));
	ASSERT_EVENT(&ev[0], KVCACHE_EV_PUBLISHED, 1, h[1]);
	/* The deepest of its keys. */
	ASSERT_EQ(9, key_in(ev[0].key));
	ASSERT_EQ(1, key_in(ev[0].parent));
	ASSERT_EQ(60, ev[0].priority);
	ASSERT_EVENT(&ev[1], KVCACHE_EV_UPDATED, 1, 500);
	ASSERT_EQ(20, ev[1].priority);
	ASSERT_EQ(9, key_in(ev[1].key));
	ASSERT_LT(ev[0].seq, ev[1].seq);
	ASSERT_EQ(1, kvl_events(self->l, a, &ev[2], 2));
	ASSERT_EVENT(&ev[2], KVCACHE_EV_EVICTED, 1, 0);
	ASSERT_EQ(9, key_in(ev[2].key));
	ASSERT_LT(ev[1].seq, ev[2].seq);
	ASSERT_EQ(0, kvl_events(self->l, b, ev, 8));
	ASSERT_EQ(1, kvl_tenant_flush(self->l, 1, 0, 9, self->now));
	/* One event for all keys, none for each. */
	ASSERT_EQ(1, kvl_events(self->l, a, ev, 8));
	ASSERT_EVENT(&ev[0], KVCACHE_EV_CLEARED, 1, 0);
}

TEST_F(ledger, events_of_limits)
{
	struct kvl_request r = { .nr = 2 };
	struct kvl_tenant *t;
	struct kvcache_event ev[8];
	struct kvcache_tenant_grant g = { .tenant = 2, .to = 1, .rights = 1 };
	struct kvl_client *a, *b;
	u64 h[8], p[8];

	direct_pool(self, 4);
	a = add_user(self, "a", 0, 1, 3);
	b = add_user(self, "b", 0, 4, NO_LIMIT);
	kvl_events(self->l, a, NULL, 0);
	kvl_events(self->l, b, NULL, 0);
	DO(0, get(self, a, 3, h));
	DO(-EDQUOT, get(self, a, 1, p));
	ASSERT_EQ(1, kvl_events(self->l, a, ev, 8));
	ASSERT_EVENT(&ev[0], KVCACHE_EV_LIMIT_HIT, 1, 1);
	/* Only a is above its low, and is asked once. */
	r.pages = p;
	DO(-ENOSPC, get(self, b, 2, p));
	DO(KVL_WAITING, kvl_alloc(self->l, b, &r, true, self->now));
	ASSERT_EQ(1, kvl_events(self->l, a, ev, 8));
	ASSERT_EVENT(&ev[0], KVCACHE_EV_RECLAIM, 1, 1);
	ASSERT_EQ(0, kvl_events(self->l, b, ev, 8));
	DO(0, put(self, a, h, 1));
	ASSERT_EQ(1, kvl_events(self->l, b, ev, 8));
	ASSERT_EVENT(&ev[0], KVCACHE_EV_GRANTED, 2, 2);
	/* Served in between: wanted anew, so told anew. */
	DO(-ENOSPC, get(self, b, 1, p));
	ASSERT_EQ(1, kvl_events(self->l, a, ev, 8));
	ASSERT_EVENT(&ev[0], KVCACHE_EV_RECLAIM, 1, 1);
	DO(0, set_limits(self, 1, 0, 0, 1, self->now + 5));
	ASSERT_EQ(1, kvl_events(self->l, a, ev, 8));
	ASSERT_EVENT(&ev[0], KVCACHE_EV_SHRINK, 1, 1);
	self->now += 5;
	ASSERT_EQ(1, kvl_tick(self->l, self->now, 9));
	ASSERT_EQ(1, kvl_events(self->l, a, ev, 8));
	ASSERT_EVENT(&ev[0], KVCACHE_EV_REVOKED, 1, h[2]);
	DO(0, kvl_tenant_grant(self->l, &g));
	die(self, b);
	DO(0, kvl_tenant_remove(self->l, 2, &t, NULL, self->now));
	kvl_tenant_free(t);
	ASSERT_EQ(1, kvl_events(self->l, a, ev, 8));
	ASSERT_EVENT(&ev[0], KVCACHE_EV_TENANT_GONE, 2, 0);
}

TEST_F(ledger, revoked_pages_are_told_to_all_who_held_them)
{
	struct kvcache_tenant_grant g = { .tenant = 1, .to = 2, .rights = 1,
					  .max_held = 9 };
	struct kvcache_event ev[8];
	struct kvl_client *a, *b;
	u64 h[2], f[2];

	two_users(self, 4, &a, &b);
	DO(0, kvl_tenant_grant(self->l, &g));
	DO(0, get(self, a, 1, h));
	DO(KVCACHE_PUBLISHED, publish(self, a, h, 1));
	DO(1, find(self, b, 1, 1, 0, f));
	kvl_events(self->l, b, NULL, 0);
	DO(0, set_limits(self, 1, 0, 0, 0, self->now));
	ASSERT_EQ(1, kvl_tick(self->l, self->now, 9));
	VERIFY();
	ASSERT_EQ(1, kvl_events(self->l, b, ev, 8));
	ASSERT_EVENT(&ev[0], KVCACHE_EV_REVOKED, 1, h[0]);
	DO(-ESTALE, put(self, b, f, 1));
}

TEST_F(ledger, a_page_whose_memory_broke_leaves_its_pool)
{
	struct kvl_client *a, *b;
	struct kvcache_event ev[8];
	struct kvl_tenant *t;
	u64 h[8], g[1], nr;
	u32 k;

	add_pool(self, "host", 8, 0, 0);
	a = add_user(self, "a", 0, 0, NO_LIMIT);
	b = add_client(self, 1);
	kvl_events(self->l, a, NULL, 0);
	DO(0, get(self, a, 4, h));
	DO(KVCACHE_PUBLISHED, publish(self, a, &h[1], 7));
	DO(1, find(self, b, 7, 1, 0, g));
	cache(self, a, 1, 9, &h[4]);
	kvl_events(self->l, a, ev, 8);
	DO(-EINVAL, kvl_page_lost(self->l, 0, 0, self->now));
	DO(-EINVAL, kvl_page_lost(self->l, 0, 9, self->now));
	DO(-EINVAL, kvl_page_lost(self->l, 1, 1, self->now));
	/* One that is PRIVATE, one that is SHARED, one that is CACHED. */
	DO(0, kvl_page_lost(self->l, 0, kvl_index(h[0]), self->now));
	DO(0, kvl_page_lost(self->l, 0, kvl_index(h[1]), self->now));
	DO(0, kvl_page_lost(self->l, 0, kvl_index(h[4]), self->now));
	ASSERT_TRUE(kvl_revoked(self->l));
	DO(-ESTALE, put(self, a, h, 1));
	DO(-ESTALE, put(self, b, g, 1));
	ASSERT_EQ(4, kvl_events(self->l, a, ev, 8));
	ASSERT_EQ(KVCACHE_EV_REVOKED, ev[0].type);
	ASSERT_EQ(h[0], ev[0].value);
	ASSERT_EQ(KVCACHE_EV_REVOKED, ev[1].type);
	ASSERT_EQ(h[1], ev[1].value);
	ASSERT_EQ(KVCACHE_EV_EVICTED, ev[2].type);
	ASSERT_EQ(KVCACHE_EV_EVICTED, ev[3].type);
	/* Charged until it is known that they cannot be cleaned. */
	ASSERT_EQ(5, info_of(self, 1).cur);
	ASSERT_EQ(3, do_work(self, false));
	ASSERT_EQ(5, info_of(self, 1).cur);
	for (k = 0; k < 5; k++)
		if (k < 2 || k > 3)
			DO(0, kvl_page_lost(self->l, 0, kvl_index(h[k]),
					    self->now));
	DO(0, kvl_page_lost(self->l, 0, kvl_index(h[0]), self->now));
	ASSERT_EQ(2, info_of(self, 1).cur);
	ASSERT_EQ(3, pool_of(self).nr_retiring);
	/* They are nobody's, and not for anybody. */
	ASSERT_EQ(1, missing(self, a, 6, -E2BIG));
	ASSERT_EQ(2, missing(self, a, 5, -ENOSPC));
	DO(-ENOSPC, set_limits(self, 1, 6, 0, NO_LIMIT, NEVER));
	DO(0, set_limits(self, 1, 5, 0, NO_LIMIT, NEVER));
	DO(-EINVAL, kvl_pool_resize(self->l, 0, 7, &nr, self->now));
	DO(0, set_limits(self, 1, 0, 0, NO_LIMIT, NEVER));
	DO(0, put(self, a, &h[2], 2));
	ASSERT_EQ(2, do_work(self, true));
	die(self, a);
	die(self, b);
	DO(0, kvl_tenant_remove(self->l, 1, &t, NULL, self->now));
	kvl_tenant_free(t);
	ASSERT_EQ(5, pool_of(self).nr_free);
	remove_pool(self, 0);
}

TEST_F(ledger, a_slow_reader_is_told_what_it_lost)
{
	struct kvcache_event ev[16];
	struct kvl_client *a, *late;
	u64 h[12];
	u32 k;

	a = lone_user(self, 12);
	late = add_client(self, 1);
	kvl_events(self->l, a, NULL, 0);
	DO(0, get(self, a, 12, h));
	for (k = 0; k < 11; k++)
		DO(KVCACHE_PUBLISHED, publish(self, a, &h[k], k));
	/* Eight are kept: the first three are gone. */
	kvl_events(self->l, late, NULL, 0);
	ASSERT_EQ(2, kvl_events(self->l, a, ev, 2));
	ASSERT_EQ(3, ev[0].dropped);
	ASSERT_EQ(3, key_in(ev[0].key));
	ASSERT_EQ(0, ev[1].dropped);
	ASSERT_EQ(4, key_in(ev[1].key));
	ASSERT_EQ(6, kvl_events(self->l, a, ev, 16));
	ASSERT_EQ(0, ev[0].dropped);
	ASSERT_EQ(10, key_in(ev[5].key));
	ASSERT_FALSE(kvl_events_pending(self->l, a));
	ASSERT_EQ(0, kvl_events(self->l, late, ev, 16));
	DO(KVCACHE_PUBLISHED, publish(self, a, &h[11], 11));
	ASSERT_EQ(1, kvl_events(self->l, late, ev, 16));
	ASSERT_EQ(1, kvl_events(self->l, a, ev, 16));
}

TEST_F(ledger, events_that_did_not_arrive_come_again)
{
	struct kvl_client *c = lone_user(self, 4);
	struct kvcache_event ev[16];
	u32 k;

	ASSERT_EQ(0, kvl_events(self->l, c, NULL, 0));
	for (k = 0; k < 3; k++)
		missing(self, c, 5 + k, -E2BIG);
	ASSERT_EQ(0, kvl_events(self->l, c, ev, 16));
	for (k = 0; k < 10; k++) {
		DO(0, set_limits(self, 1, 0, 0, 1 + k % 3, NEVER));
		DO(0, kvl_tenant_flush(self->l, 1, 0, 9, self->now));
	}
	/* Of ten, eight are kept. */
	ASSERT_EQ(3, kvl_events(self->l, c, ev, 3));
	ASSERT_EQ(2, ev[0].dropped);
	kvl_events_return(c, ev, 3);
	ASSERT_TRUE(kvl_events_pending(self->l, c));
	ASSERT_EQ(8, kvl_events(self->l, c, &ev[4], 12));
	ASSERT_EQ(0, memcmp(ev, &ev[4], 3 * sizeof(ev[0])));
	kvl_events_return(c, &ev[4], 8);
	DO(0, kvl_tenant_flush(self->l, 1, 0, 9, self->now));
	ASSERT_EQ(8, kvl_events(self->l, c, &ev[4], 12));
	ASSERT_EQ(3, ev[4].dropped);
	ASSERT_EQ(0, kvl_events(self->l, c, ev, 16));
}

TEST_F(ledger, sequence_numbers_grow_with_changes_only)
{
	struct kvl_client *c;
	u64 h[2], seq;

	direct_pool(self, 4);
	c = add_user(self, "a", 0, 0, 2);
	seq = kvl_seq(self->l);
	DO(-EINVAL, get(self, c, 0, h));
	ASSERT_EQ(seq, kvl_seq(self->l));
	DO(0, get(self, c, 1, h));
	ASSERT_LT(seq, kvl_seq(self->l));
	seq = kvl_seq(self->l);
	ASSERT_EQ(0, peek(self, c, 1, 1));
	DO(-ESTALE, put(self, c, (u64[]){ 5 }, 1));
	ASSERT_EQ(seq, kvl_seq(self->l));
	DO(0, set_limits(self, 1, 0, 0, 3, NEVER));
	ASSERT_LT(seq, kvl_seq(self->l));
}

/* ---- kvl_verify() ------------------------------------------------------- */

/* Breaks one thing, and says whether it was noticed, and put back. */
#define NOTICES(lvalue, wrong)						\
	do {								\
		__typeof__(lvalue) notices_was = (lvalue);		\
									\
		(lvalue) = (wrong);					\
		ASSERT_EQ(-EUCLEAN, kvl_verify(self->l, self->why,	\
					       sizeof(self->why)));	\
		ASSERT_NE(0, self->why[0]);				\
		ASSERT_EQ(-EUCLEAN, kvl_verify(self->l, NULL, 0));	\
		(lvalue) = notices_was;					\
		VERIFY();						\
	} while (0)

TEST_F(ledger, verify_notices)
{
	struct kvl_client *c;
	struct kvl_pool *p;
	struct kvl_account *a;
	struct kvl_page *cached, *shared, *private;
	u64 h[8];

	direct_pool(self, 8);
	c = add_user(self, "a", 1, 1, NO_LIMIT);
	cache_as(self, c, 2, 1, 20, 500, 0, h);
	DO(0, get(self, c, 2, &h[2]));
	DO(KVCACHE_PUBLISHED, publish(self, c, &h[2], 9));
	p = self->l->pool[0];
	a = &p->acct[1];
	cached = &p->page[kvl_index(h[0])];
	shared = &p->page[kvl_index(h[2])];
	private = &p->page[kvl_index(h[3])];

	NOTICES(p->page[0].state, KVCACHE_PAGE_FREE);
	NOTICES(p->page[8].state, KVCACHE_PAGE_PRIVATE);
	NOTICES(private->gen, 0);
	NOTICES(private->tenant, 2);
	NOTICES(private->client, 2);
	NOTICES(private->count, 2);
	NOTICES(private->mark, 1);
	NOTICES(private->flags, KVL_PF_VOLATILE);
	NOTICES(shared->refs, 2);
	NOTICES(shared->state, KVCACHE_PAGE_CACHED);
	NOTICES(shared->fill, 2);
	NOTICES(shared->nr_keys, 2);
	NOTICES(shared->keys->key[9], 0);
	NOTICES(shared->keys->page, 1);
	NOTICES(cached->flags, 0);
	NOTICES(cached->slot, 36);
	NOTICES(cached->stamp, ~0ULL);
	NOTICES(cached->bucket, 3);
	NOTICES(cached->prio_until, NEVER);
	NOTICES(cached->epoch, 100);
	NOTICES(a->cur, 3);
	NOTICES(a->takeable, 1);
	NOTICES(a->cached, 1);
	NOTICES(a->leaving, 1);
	NOTICES(a->claims, 1);
	NOTICES(a->asked, 1);
	NOTICES(a->parked, 1);
	NOTICES(a->guard, KVL_SAFE);
	NOTICES(a->peak, 0);
	NOTICES(a->waiters, 1);
	NOTICES(a->map[0], 0);
	NOTICES(a->min, 2);
	NOTICES(p->spare, 0);
	NOTICES(p->promised, 1);
	NOTICES(p->claims, 1);
	NOTICES(p->leaving, 1);
	NOTICES(p->sum_min, 0);
	NOTICES(p->waiters, 1);
	NOTICES(p->map[0], 0);
	NOTICES(p->nr[KVCACHE_PAGE_FREE], 5);
	NOTICES(p->free.first, p->page[p->free.first].order.next);
	NOTICES(p->clock.map, 0);
	NOTICES(p->heap[0].nr, 1);
	NOTICES(c->pool[0].nr_private, 2);
	NOTICES(c->pool[0].nr_shared, 2);
	NOTICES(c->pool[0].pages.first, kvl_index(h[3]));
	NOTICES(self->l->tenant[1]->clients, 2);
	NOTICES(self->l->tenant[1]->got[0].from, 1);
}

TEST_HARNESS_MAIN
