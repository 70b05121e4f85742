// SPDX-License-Identifier: MIT
/*
 * test_ledger_page.c - pages: every move from state to state and every refusal.
 */
#include "ledger_kit.h"
#include "ledger_internal.h"

TEST_F(ledger, fresh_pages_ascend)
{
	struct kvl_client *c;
	u64 h[8];

	c = lone_user(self, 8);
	DO(0, get(self, c, 5, h));
	ASSERT_STREQ("1 2 3 4 5", order(h, 5));
	ASSERT_EQ(1, kvl_generation(h[0]));
	ASSERT_EQ(KVCACHE_PAGE_PRIVATE, state_of(self, h[4]));
	ASSERT_EQ(3, pool_of(self).nr_free);
	ASSERT_EQ(5, info_of(self, 1).cur);
	ASSERT_EQ(5, info_of(self, 1).peak);
}

TEST_F(ledger, freed_pages_come_first_and_in_order)
{
	struct kvl_client *c;
	u64 h[8];

	c = lone_user(self, 8);
	DO(0, get(self, c, 6, h));
	DO(0, put(self, c, &h[1], 3));
	DO(0, put(self, c, &h[5], 1));
	DO(0, get(self, c, 6, h));
	ASSERT_STREQ("6 2 3 4 7 8", order(h, 6));
	ASSERT_EQ(2, kvl_generation(h[0]));
	ASSERT_EQ(1, kvl_generation(h[4]));
}

TEST_F(ledger, counts_out_of_range_are_einval)
{
	struct kvl_client *c;
	u64 h[300] = { 0 };

	c = lone_user(self, 8);
	DO(-EINVAL, get(self, c, 0, h));
	DO(-EINVAL, get(self, c, 257, h));
	DO(-EINVAL, put(self, c, h, 0));
	DO(-EINVAL, put(self, c, h, 257));
	DO(-EINVAL, advise(self, c, h, 0, KVCACHE_ADVISE_TOUCH, 0, 0, NULL));
	ASSERT_EQ(8, pool_of(self).nr_free);
}

TEST_F(ledger, no_such_pool)
{
	struct kvcache_advise adv = { .pool = 3, .nr = 1, .advice = 2 };
	static struct kvcache_publish p = { .pool = 3, .nr = 1 };
	static struct kvcache_lookup lk = { .pool = 3, .nr_keys = 1 };
	struct kvl_request r = { .pool = 3, .nr = 1 };
	struct kvl_check check;
	struct kvl_client *c;
	u64 h = 0;

	c = lone_user(self, 8);
	DO(-ENOENT, kvl_alloc(self->l, c, &r, true, 0));
	DO(-ENOENT, kvl_alloc_check(self->l, c, 3, 1, &check));
	DO(-ENOENT, kvl_free(self->l, c, 3, &h, 1, 0));
	DO(-ENOENT, kvl_publish(self->l, c, &p, NULL, 0));
	DO(-ENOENT, kvl_lookup(self->l, c, &lk, 0));
	DO(-ENOENT, kvl_advise(self->l, c, &adv, 0));
	DO(-ENOENT, kvl_pin(self->l, c, 3, h));
	DO(-EPERM, kvl_page_access(self->l, c, 3, 1, false));
	ASSERT_EQ(0, kvl_work_next(self->l, 3));
}

TEST_F(ledger, handles_of_another_generation_are_stale)
{
	struct kvl_client *c;
	u64 h[4], old;

	c = lone_user(self, 4);
	DO(0, get(self, c, 2, h));
	old = h[0];
	DO(0, put(self, c, h, 1));
	DO(-ESTALE, put(self, c, &old, 1));
	DO(0, get(self, c, 1, h));
	ASSERT_EQ(kvl_index(old), kvl_index(h[0]));
	DO(-ESTALE, put(self, c, &old, 1));
	DO(-ESTALE, publish(self, c, &old, 1));
	DO(-ESTALE, advise(self, c, &old, 1, KVCACHE_ADVISE_TOUCH, 0, 0, NULL));
	DO(-ESTALE, kvl_pin(self->l, c, 0, old));
	/* Not even the generation that a FREE page will have. */
	old = h[1];
	DO(0, put(self, c, &h[1], 1));
	old += 1ULL << 32;
	DO(-ESTALE, put(self, c, &old, 1));
	/* No page at all, the null page, and past the end. */
	old = 0;
	DO(-ESTALE, put(self, c, &old, 1));
	old = 1ULL << 32;
	DO(-ESTALE, put(self, c, &old, 1));
	old = 1ULL << 32 | 5;
	DO(-ESTALE, put(self, c, &old, 1));
}

TEST_F(ledger, generations_wrap_past_zero)
{
	struct kvl_client *c;
	u64 h, old;

	c = lone_user(self, 1);
	self->l->pool[0]->page[1].gen = ~0U;
	DO(0, get(self, c, 1, &h));
	ASSERT_EQ(~0U, kvl_generation(h));
	old = h;
	DO(0, put(self, c, &h, 1));
	DO(0, get(self, c, 1, &h));
	ASSERT_EQ(1, kvl_generation(h));
	DO(-ESTALE, put(self, c, &old, 1));
}

TEST_F(ledger, pages_of_others_are_eperm)
{
	struct kvl_client *a, *b;
	u64 h[2];

	two_users(self, 4, &a, &b);
	DO(0, get(self, a, 2, h));
	DO(-EPERM, put(self, b, h, 1));
	DO(-EPERM, publish(self, b, h, 1));
	DO(-EPERM, advise(self, b, h, 1, KVCACHE_ADVISE_TOUCH, 0, 0, NULL));
	DO(-EPERM, kvl_pin(self->l, b, 0, h[0]));
	DO(KVCACHE_PUBLISHED, publish(self, a, h, 1));
	DO(-EPERM, put(self, b, h, 1));
	DO(0, put(self, a, h, 1));
	/* CACHED: the handle is right, but nobody holds it. */
	DO(-EPERM, put(self, a, h, 1));
	DO(-EPERM, publish(self, a, h, 1));
	ASSERT_EQ(KVCACHE_PAGE_CACHED, state_of(self, h[0]));
}

TEST_F(ledger, free_is_all_or_nothing)
{
	struct kvl_client *c;
	u64 h[4], bad[3];

	c = lone_user(self, 4);
	DO(0, get(self, c, 3, h));
	bad[0] = h[0];
	bad[1] = h[1];
	bad[2] = h[2] + (1ULL << 32);
	DO(-ESTALE, put(self, c, bad, 3));
	/* Twice in one call with one reference. */
	bad[2] = h[0];
	DO(-EPERM, put(self, c, bad, 3));
	ASSERT_EQ(3, pool_of(self).nr_private);
	DO(0, put(self, c, h, 3));
	ASSERT_EQ(4, pool_of(self).nr_free);
}

TEST_F(ledger, references_are_counted_by_client)
{
	struct kvl_client *a, *b;
	struct kvcache_page_info info;
	u64 h[4], g[4], twice[3];

	a = lone_user(self, 4);
	b = add_client(self, 1);
	DO(0, get(self, a, 1, h));
	DO(KVCACHE_PUBLISHED, publish(self, a, h, 1));
	DO(1, find(self, a, 1, 1, 0, g));
	DO(1, find(self, b, 1, 1, 0, g));
	DO(1, find(self, b, 1, 1, 0, g));
	ASSERT_EQ(h[0], g[0]);
	DO(0, kvl_page_info(self->l, 0, 0, 1, self->now, &info));
	ASSERT_EQ(4, info.refs);
	ASSERT_EQ(0, info.client);
	twice[0] = twice[1] = twice[2] = h[0];
	DO(-EPERM, put(self, b, twice, 3));
	DO(0, put(self, b, twice, 2));
	DO(-EPERM, put(self, b, twice, 1));
	/* b had a node, a is in the page; now the other way round. */
	DO(1, find(self, b, 1, 1, 0, g));
	DO(0, put(self, a, twice, 2));
	ASSERT_EQ(KVCACHE_PAGE_SHARED, state_of(self, h[0]));
	DO(1, find(self, a, 1, 1, 0, g));
	DO(1, find(self, b, 1, 1, 0, g));
	DO(0, put(self, b, twice, 2));
	DO(0, put(self, a, twice, 1));
	ASSERT_EQ(KVCACHE_PAGE_CACHED, state_of(self, h[0]));
	DO(1, find(self, b, 1, 1, 0, g));
	ASSERT_EQ(h[0], g[0]);
	ASSERT_EQ(KVCACHE_PAGE_SHARED, state_of(self, h[0]));
}

TEST_F(ledger, access_follows_the_state)
{
	struct kvl_client *a, *b;
	u64 h[2], g[2];

	a = lone_user(self, 4);
	b = add_client(self, 1);
	DO(-EPERM, kvl_page_access(self->l, a, 0, 0, false));
	DO(-EPERM, kvl_page_access(self->l, a, 0, 1, false));
	DO(-EPERM, kvl_page_access(self->l, a, 0, 5, false));
	DO(0, get(self, a, 2, h));
	DO(0, kvl_page_access(self->l, a, 0, 1, true));
	DO(0, kvl_page_access(self->l, a, 0, 1, false));
	DO(-EPERM, kvl_page_access(self->l, b, 0, 1, false));
	DO(KVCACHE_PUBLISHED, publish(self, a, h, 1));
	DO(-EPERM, kvl_page_access(self->l, a, 0, 1, true));
	DO(0, kvl_page_access(self->l, a, 0, 1, false));
	DO(1, find(self, b, 1, 1, 0, g));
	DO(0, kvl_page_access(self->l, b, 0, 1, false));
	DO(0, put(self, b, g, 1));
	DO(-EPERM, kvl_page_access(self->l, b, 0, 1, false));
	DO(0, advise(self, a, &h[1], 1, KVCACHE_ADVISE_VOLATILE, 0, 0, NULL));
	DO(0, kvl_page_access(self->l, a, 0, 2, false));
	DO(-EPERM, kvl_page_access(self->l, a, 0, 2, true));
	kvl_client_kill(self->l, a);
	DO(-EOWNERDEAD, kvl_page_access(self->l, a, 0, 1, false));
}

TEST_F(ledger, page_info_lists_pages_in_use)
{
	struct kvcache_page_info info;
	struct kvl_client *a, *b;
	u64 h[4], g;

	two_users(self, 8, &a, &b);
	DO(0, get(self, a, 3, h));
	DO(0, get(self, b, 1, &g));
	DO(0, put(self, a, h, 1));
	self->now += 50;
	DO(KVCACHE_PUBLISHED, publish_as(self, a, 0, &h[1], 9, 70, NEVER, 0));
	self->now += 7;
	DO(0, kvl_page_info(self->l, 0, 0, 0, self->now, &info));
	ASSERT_EQ(h[1], info.handle);
	ASSERT_EQ(1, info.tenant);
	ASSERT_EQ(KVCACHE_PAGE_SHARED, info.state);
	ASSERT_EQ(70, info.priority);
	ASSERT_EQ(1, info.nr_keys);
	ASSERT_EQ(1, info.fill);
	ASSERT_EQ(7, info.idle_ns);
	DO(0, kvl_page_info(self->l, 0, 0, 3, self->now, &info));
	ASSERT_EQ(h[2], info.handle);
	ASSERT_EQ(kvl_client_id(a), info.client);
	ASSERT_EQ(57, info.idle_ns);
	DO(0, kvl_page_info(self->l, 0, 2, 0, self->now, &info));
	ASSERT_EQ(g, info.handle);
	DO(-ENOENT, kvl_page_info(self->l, 0, 1, 4, self->now, &info));
	DO(-ENOENT, kvl_page_info(self->l, 0, 0, 5, self->now, &info));
	DO(-ENOENT, kvl_page_info(self->l, 1, 0, 0, self->now, &info));
}

/* A pinned page is not published, taken or reused before it is unpinned. */
TEST_F(ledger, pinned_pages_stay)
{
	struct kvl_client *c;
	u64 h[4], g[4];

	c = lone_user(self, 4);
	DO(0, get(self, c, 2, h));
	DO(0, kvl_pin(self->l, c, 0, h[0]));
	DO(0, kvl_pin(self->l, c, 0, h[0]));
	DO(-EBUSY, publish(self, c, h, 1));
	DO(-EBUSY, advise(self, c, h, 1, KVCACHE_ADVISE_VOLATILE, 0, 0, NULL));
	DO(0, put(self, c, h, 1));
	ASSERT_EQ(KVCACHE_PAGE_RETIRING, state_of(self, h[0]));
	ASSERT_EQ(2, info_of(self, 1).cur);
	ASSERT_EQ(2, missing(self, c, 4, -ENOSPC));
	kvl_unpin(self->l, 0, 1, self->now);
	ASSERT_EQ(KVCACHE_PAGE_RETIRING, state_of(self, h[0]));
	kvl_unpin(self->l, 0, 1, self->now);
	VERIFY();
	ASSERT_EQ(3, pool_of(self).nr_free);
	/* CACHED and pinned: found, but not taken. */
	DO(KVCACHE_PUBLISHED, publish(self, c, &h[1], 1));
	DO(0, kvl_pin(self->l, c, 0, h[1]));
	DO(0, put(self, c, &h[1], 1));
	ASSERT_EQ(1, missing(self, c, 4, -ENOSPC));
	DO(1, find(self, c, 1, 1, 0, g));
	DO(0, put(self, c, g, 1));
	kvl_unpin(self->l, 0, 2, self->now);
	VERIFY();
	DO(0, get(self, c, 4, g));
	/* Volatile pages cannot be pinned. */
	DO(0, advise(self, c, g, 1, KVCACHE_ADVISE_VOLATILE, 0, 0, NULL));
	DO(-EBUSY, kvl_pin(self->l, c, 0, g[0]));
}

TEST_F(ledger, pools_with_work_free_in_two_phases)
{
	struct kvl_client *c;
	u64 h[4];

	add_pool(self, "host", 4, 0, 0);
	c = add_user(self, "a", 0, 0, NO_LIMIT);
	DO(0, get(self, c, 4, h));
	DO(-EINVAL, kvl_work_done(self->l, 0, 1, true, self->now));
	DO(0, put(self, c, h, 2));
	ASSERT_EQ(2, pool_of(self).nr_retiring);
	ASSERT_EQ(4, info_of(self, 1).cur);
	/* Not before it was handed to the owner of the memory. */
	DO(-EINVAL, kvl_work_done(self->l, 0, 1, true, self->now));
	ASSERT_EQ(2, kvl_work_next(self->l, 0));
	ASSERT_EQ(1, kvl_work_next(self->l, 0));
	ASSERT_EQ(0, kvl_work_next(self->l, 0));
	DO(0, kvl_work_done(self->l, 0, 1, true, self->now));
	ASSERT_EQ(1, pool_of(self).nr_free);
	ASSERT_EQ(3, info_of(self, 1).cur);
	DO(-EINVAL, kvl_work_done(self->l, 0, 1, true, self->now));
	/* Somebody still has it: stuck, charged, until it is clean. */
	DO(0, kvl_work_done(self->l, 0, 2, false, self->now));
	ASSERT_EQ(1, pool_of(self).nr_retiring);
	ASSERT_EQ(1, missing(self, c, 2, -ENOSPC));
	DO(0, kvl_work_done(self->l, 0, 2, false, self->now));
	DO(0, kvl_work_done(self->l, 0, 2, true, self->now));
	DO(0, get(self, c, 2, h));
	DO(-EINVAL, kvl_work_done(self->l, 0, 0, true, self->now));
	DO(-EINVAL, kvl_work_done(self->l, 0, 5, true, self->now));
}

TEST_F(ledger, a_pin_in_a_pool_with_work)
{
	struct kvl_client *c;
	u64 h[2];

	add_pool(self, "host", 2, 0, 0);
	c = add_user(self, "a", 0, 0, NO_LIMIT);
	DO(0, get(self, c, 1, h));
	DO(0, kvl_pin(self->l, c, 0, h[0]));
	DO(0, put(self, c, h, 1));
	ASSERT_EQ(0, kvl_work_next(self->l, 0));
	DO(-EBUSY, kvl_work_done(self->l, 0, 1, true, self->now));
	kvl_unpin(self->l, 0, 1, self->now);
	ASSERT_EQ(1, do_work(self, true));
	ASSERT_EQ(2, pool_of(self).nr_free);
}

/* Every call of a dead client says so. */
TEST_F(ledger, the_dead_do_nothing)
{
	struct kvcache_advise adv = { .nr = 1, .advice = 2 };
	static struct kvcache_publish p = { .nr = 1 };
	static struct kvcache_lookup lk = { .nr_keys = 1 };
	struct kvl_check check;
	struct kvl_client *c;
	u64 h[2];

	c = lone_user(self, 4);
	DO(0, get(self, c, 1, h));
	DO(-EBUSY, kvl_client_detach(self->l, c));
	ASSERT_EQ(0, kvl_client_reap(self->l, c, 10, self->now));
	kvl_client_kill(self->l, c);
	VERIFY();
	DO(-EOWNERDEAD, get(self, c, 1, h));
	DO(-EOWNERDEAD, kvl_alloc_check(self->l, c, 0, 1, &check));
	DO(-EOWNERDEAD, put(self, c, h, 1));
	DO(-EOWNERDEAD, kvl_publish(self->l, c, &p, NULL, 0));
	DO(-EOWNERDEAD, kvl_lookup(self->l, c, &lk, 0));
	DO(-EOWNERDEAD, kvl_advise(self->l, c, &adv, 0));
	DO(-EOWNERDEAD, kvl_pin(self->l, c, 0, h[0]));
	ASSERT_EQ(0, kvl_events(self->l, c, NULL, 0));
	DO(-EBUSY, kvl_client_detach(self->l, c));
	DO(1, kvl_client_reap(self->l, c, 10, self->now));
	DO(0, kvl_client_detach(self->l, c));
	kvl_client_free(c);
	ASSERT_EQ(4, pool_of(self).nr_free);
	ASSERT_EQ(0, info_of(self, 1).clients);
}

TEST_F(ledger, death_in_every_state)
{
	struct kvl_client *a, *b;
	u64 h[8], g[2];

	a = lone_user(self, 8);
	b = add_client(self, 1);
	DO(0, get(self, a, 7, h));
	DO(KVCACHE_PUBLISHED, publish(self, a, &h[0], 1));	/* SHARED */
	DO(KVCACHE_PUBLISHED, publish(self, a, &h[1], 2));	/* by both */
	DO(1, find(self, b, 2, 1, 0, g));
	DO(1, find(self, a, 2, 1, 0, g));
	DO(KVCACHE_PUBLISHED, publish(self, a, &h[2], 3));	/* CACHED */
	DO(0, put(self, a, &h[2], 1));
	DO(0, advise(self, a, &h[3], 2, KVCACHE_ADVISE_VOLATILE, 0, 0, NULL));
	DO(0, kvl_pin(self->l, a, 0, h[5]));			/* pinned */
	/* The cached one and one of the volatile ones are taken. */
	DO(0, set_limits(self, 1, 0, 0, 5, NEVER));
	ASSERT_EQ(KVCACHE_PAGE_FREE, state_of(self, h[2]));
	ASSERT_EQ(KVCACHE_PAGE_FREE, state_of(self, h[4]));
	ASSERT_EQ(5, pool_of(self).nr_private + pool_of(self).nr_shared);
	DO(0, set_limits(self, 1, 0, 0, NO_LIMIT, NEVER));
	die(self, a);
	ASSERT_EQ(KVCACHE_PAGE_CACHED, state_of(self, h[0]));
	ASSERT_EQ(KVCACHE_PAGE_SHARED, state_of(self, h[1]));
	ASSERT_EQ(KVCACHE_PAGE_RETIRING, state_of(self, h[5]));
	ASSERT_EQ(0, pool_of(self).nr_private);
	ASSERT_EQ(1, peek(self, b, 1, 1));
	kvl_unpin(self->l, 0, kvl_index(h[5]), self->now);
	die(self, b);
	ASSERT_EQ(2, pool_of(self).nr_cached);
	ASSERT_EQ(6, pool_of(self).nr_free);
}

/* What a client had not published is found by nobody. */
TEST_F(ledger, death_before_publish_leaves_nothing)
{
	struct kvl_client *a, *b;
	u64 h[2];

	a = lone_user(self, 2);
	b = add_client(self, 1);
	DO(0, get(self, a, 2, h));
	die(self, a);
	ASSERT_EQ(0, peek(self, b, 1, 1));
	ASSERT_EQ(2, pool_of(self).nr_free);
	/* Numbers of clients are reused late. */
	a = add_client(self, 1);
	ASSERT_EQ(3, kvl_client_id(a));
}

static u32 refs_of(SELF, u64 page)
{
	return self->l->pool[0]->page[kvl_index(page)].refs;
}

/* As if the client held so many references of the page, and nobody else one. */
static void set_refs(SELF, struct kvl_client *c, u64 page, u32 refs)
{
	struct kvl_page *pg = &self->l->pool[0]->page[kvl_index(page)];

	c->pool[0].nr_shared += refs;
	c->pool[0].nr_shared -= pg->count;
	pg->count = refs;
	pg->refs = refs;
	VERIFY();
}

TEST_F(ledger, references_are_bounded)
{
	struct kvl_client *a, *b;
	u64 h[2], g;

	a = lone_user(self, 4);
	b = add_client(self, 1);
	DO(0, get(self, a, 2, h));
	DO(KVCACHE_PUBLISHED, publish(self, a, &h[0], 1));
	set_refs(self, a, h[0], KVL_MAX_REFS - 1);
	DO(1, find(self, a, 1, 1, 0, &g));
	ASSERT_EQ(h[0], g);
	DO(-ENOMEM, find(self, a, 1, 1, 0, &g));
	DO(-ENOMEM, find(self, b, 1, 1, 0, &g));
	ASSERT_EQ(KVL_MAX_REFS, refs_of(self, h[0]));
	/* It is there, for who takes no reference. */
	DO(1, peek(self, b, 1, 1));
	/* Nor does a page of that key become one more of them. */
	g = h[1];
	DO(KVCACHE_PUBLISHED, publish(self, a, &g, 1));
	ASSERT_EQ(h[1], g);
	ASSERT_EQ(KVL_MAX_REFS, refs_of(self, h[0]));
	DO(0, put(self, a, h, 1));
	ASSERT_EQ(KVL_MAX_REFS - 1, refs_of(self, h[0]));
	set_refs(self, a, h[0], 1);
	DO(0, put(self, a, h, 2));
	ASSERT_EQ(4, pool_of(self).nr_free + pool_of(self).nr_cached);
}

TEST_F(ledger, pins_are_bounded)
{
	struct kvl_client *c = lone_user(self, 1);
	struct kvl_page *pg;
	u64 h;

	DO(0, get(self, c, 1, &h));
	pg = &self->l->pool[0]->page[kvl_index(h)];
	pg->pins = KVL_MAX_REFS - 1;
	DO(0, kvl_pin(self->l, c, 0, h));
	DO(-EBUSY, kvl_pin(self->l, c, 0, h));
	ASSERT_EQ(KVL_MAX_REFS, pg->pins);
	pg->pins = 0;
	DO(0, put(self, c, &h, 1));
	ASSERT_EQ(1, pool_of(self).nr_free);
}

TEST_HARNESS_MAIN
