// SPDX-License-Identifier: MIT
/*
 * test_ledger_tenant.c - tenants: attributes, revisions, limits that change,
 * flush and removal.
 */
#include "ledger_kit.h"

static struct kvcache_tenant_set set_of(u32 tenant, u32 what, u64 revision)
{
	struct kvcache_tenant_set set = {
		.tenant = tenant, .set = what, .revision = revision,
	};

	return set;
}

static int create(SELF, struct kvcache_tenant_set *set, const char *name)
{
	struct kvl_tenant *t = kvl_tenant_alloc(self->l);
	int rc;

	memset(set->name, 0, sizeof(set->name));
	memcpy(set->name, name, strnlen(name, sizeof(set->name)));
	rc = kvl_tenant_create(self->l, t, set, self->now);
	if (rc)
		kvl_tenant_free(t);
	return rc;
}

TEST_F(ledger, a_tenant_and_its_defaults)
{
	struct kvcache_tenant_set set = set_of(0, 0, 0);
	struct kvcache_tenant_info info;

	direct_pool(self, 8);
	DO(0, create(self, &set, "alice"));
	ASSERT_EQ(1, set.out_tenant);
	ASSERT_EQ(1, set.out_revision);
	info = info_of(self, 1);
	ASSERT_STREQ("alice", info.name);
	ASSERT_EQ(0, info.min);
	ASSERT_EQ(0, info.low);
	ASSERT_EQ(NO_LIMIT, info.max);
	ASSERT_EQ(NEVER, info.ttl_ns);
	ASSERT_EQ(0400, info.mode);
	ASSERT_EQ(0, info.uid);
	ASSERT_EQ(0, info.cgroup);
	ASSERT_EQ(0, info.trust);
	set = set_of(0, KVCACHE_SET_LIMITS | KVCACHE_SET_OWNER |
		     KVCACHE_SET_TTL | KVCACHE_SET_CGROUP | KVCACHE_SET_TRUST,
		     17);
	set.min = 1;
	set.low = 2;
	set.max = 3;
	set.uid = 4;
	set.gid = 5;
	set.mode = 0440;
	set.ttl_ns = 6;
	set.cgroup = 7;
	set.trust = 1;
	DO(0, create(self, &set, "B.o-b_9"));
	ASSERT_EQ(2, set.out_tenant);
	ASSERT_EQ(17, set.out_revision);
	info = info_of(self, 2);
	ASSERT_EQ(1, info.min);
	ASSERT_EQ(2, info.low);
	ASSERT_EQ(3, info.max);
	ASSERT_EQ(4, info.uid);
	ASSERT_EQ(5, info.gid);
	ASSERT_EQ(0440, info.mode);
	ASSERT_EQ(6, info.ttl_ns);
	ASSERT_EQ(7, info.cgroup);
	ASSERT_EQ(1, info.trust);
	ASSERT_EQ(17, info.revision);
	ASSERT_EQ(2, kvl_tenant_by_name(self->l, "B.o-b_9"));
	ASSERT_EQ(-ENOENT, kvl_tenant_by_name(self->l, "b.o-b_9"));
	ASSERT_EQ(2, kvl_tenant_by_uid(self->l, 4));
	ASSERT_EQ(1, kvl_tenant_by_uid(self->l, 0));
	ASSERT_EQ(-ENOENT, kvl_tenant_by_uid(self->l, 9));
	ASSERT_EQ(2, kvl_tenant_by_cgroup(self->l, 7));
	ASSERT_EQ(-ENOENT, kvl_tenant_by_cgroup(self->l, 0));
	DO(-ENOENT, kvl_tenant_info(self->l, 0, 3, &info));
	DO(-ENOENT, kvl_tenant_info(self->l, 1, 1, &info));
}

TEST_F(ledger, creation_refuses)
{
	static const char *const bad[] = {
		"", ".", ".x", "a b", "a/b", "a\n", "\xc3\xa4",
		"01234567890123456789012345678901"
		"01234567890123456789012345678901",
	};
	struct kvcache_tenant_set set;
	char name[8];
	u32 k;

	direct_pool(self, 8);
	for (k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		set = set_of(0, 0, 0);
		DO(-EINVAL, create(self, &set, bad[k]));
	}
	set = set_of(1, 0, 0);
	DO(-EINVAL, create(self, &set, "a"));
	set = set_of(0, 64, 0);
	DO(-EINVAL, create(self, &set, "a"));
	set = set_of(0, KVCACHE_SET_LIMITS, 0);
	set.min = 2;
	set.max = 1;
	DO(-EINVAL, create(self, &set, "a"));
	set.min = 0;
	set.low = 2;
	DO(-EINVAL, create(self, &set, "a"));
	set.low = 0;
	set.pool = 1;
	DO(-ENOENT, create(self, &set, "a"));
	set.pool = 0;
	set.min = 9;
	set.max = 9;
	DO(-ENOSPC, create(self, &set, "a"));
	set = set_of(0, KVCACHE_SET_OWNER, 0);
	set.mode = 0600;
	DO(-EINVAL, create(self, &set, "a"));
	set = set_of(0, KVCACHE_SET_TRUST, 0);
	set.trust = 2;
	DO(-EINVAL, create(self, &set, "a"));
	set = set_of(0, KVCACHE_SET_TTL, 0);
	DO(-EINVAL, create(self, &set, "a"));
	/* 63 characters are a name. */
	set = set_of(0, 0, 0);
	DO(0, create(self, &set, bad[7] + 1));
	DO(-EEXIST, create(self, &set, bad[7] + 1));
	for (k = 2; k <= 24; k++) {
		snprintf(name, sizeof(name), "t%u", k);
		DO(0, create(self, &set, name));
	}
	DO(-ENOSPC, create(self, &set, "one-more"));
}

TEST_F(ledger, promises_do_not_exceed_the_pool)
{
	direct_pool(self, 8);
	add_tenant(self, "a");
	add_tenant(self, "b");
	DO(0, set_limits(self, 1, 5, 0, NO_LIMIT, NEVER));
	DO(-ENOSPC, set_limits(self, 2, 4, 0, NO_LIMIT, NEVER));
	DO(-ENOSPC, set_limits(self, 2, ~0ULL, 0, NO_LIMIT, NEVER));
	ASSERT_EQ(0, info_of(self, 2).min);
	DO(0, set_limits(self, 2, 3, 0, NO_LIMIT, NEVER));
	DO(0, set_limits(self, 1, 4, 0, NO_LIMIT, NEVER));
	DO(0, set_limits(self, 2, 4, 0, NO_LIMIT, NEVER));
	DO(-ENOSPC, set_limits(self, 1, 5, 0, NO_LIMIT, NEVER));
	ASSERT_EQ(4, info_of(self, 1).min);
}

TEST_F(ledger, revisions_order_changes)
{
	struct kvcache_tenant_set set;

	direct_pool(self, 8);
	add_tenant(self, "a");
	set = set_of(1, KVCACHE_SET_TTL, 10);
	set.ttl_ns = 5;
	DO(0, kvl_tenant_set(self->l, &set, self->now));
	ASSERT_EQ(10, set.out_revision);
	/* An older one that was held up on its way. */
	set.revision = 9;
	set.ttl_ns = 99;
	DO(-ESTALE, kvl_tenant_set(self->l, &set, self->now));
	ASSERT_EQ(5, info_of(self, 1).ttl_ns);
	/* The same once more, and the same number with another content. */
	set.revision = 10;
	set.ttl_ns = 5;
	set.out_revision = 0;
	DO(0, kvl_tenant_set(self->l, &set, self->now));
	ASSERT_EQ(10, set.out_revision);
	ASSERT_EQ(1, set.out_tenant);
	set.ttl_ns = 6;
	DO(-EEXIST, kvl_tenant_set(self->l, &set, self->now));
	set.ttl_ns = 5;
	set.set |= KVCACHE_SET_OWNER;
	DO(-EEXIST, kvl_tenant_set(self->l, &set, self->now));
	ASSERT_EQ(5, info_of(self, 1).ttl_ns);
	/* 0 is the next one. */
	set = set_of(1, KVCACHE_SET_OWNER, 0);
	set.uid = 3;
	DO(0, kvl_tenant_set(self->l, &set, self->now));
	ASSERT_EQ(11, set.out_revision);
	ASSERT_EQ(3, info_of(self, 1).uid);
	ASSERT_EQ(5, info_of(self, 1).ttl_ns);
	/* Limits are compared as well. */
	set = set_of(1, KVCACHE_SET_LIMITS, 20);
	set.max = 4;
	DO(0, kvl_tenant_set(self->l, &set, self->now));
	DO(0, kvl_tenant_set(self->l, &set, self->now));
	set.low = 1;
	DO(-EEXIST, kvl_tenant_set(self->l, &set, self->now));
	ASSERT_EQ(0, info_of(self, 1).low);
	set.tenant = 2;
	DO(-ENOENT, kvl_tenant_set(self->l, &set, self->now));
	set.tenant = 0;
	DO(-ENOENT, kvl_tenant_set(self->l, &set, self->now));
	set.tenant = 1;
	set.name[0] = 'x';
	DO(-EINVAL, kvl_tenant_set(self->l, &set, self->now));
}

TEST_F(ledger, who_may_attach)
{
	const u32 groups[] = { 30, 31 };
	struct kvcache_tenant_set set;
	struct kvl_client *c;

	direct_pool(self, 8);
	add_tenant(self, "a");
	set = set_of(1, KVCACHE_SET_OWNER, 0);
	set.uid = 10;
	set.gid = 30;
	set.mode = 0400;
	DO(0, kvl_tenant_set(self->l, &set, self->now));
	ASSERT_EQ(0, kvl_tenant_may_attach(self->l, 1, 10, 0, NULL, 0));
	ASSERT_EQ(-EPERM, kvl_tenant_may_attach(self->l, 1, 11, 30, groups, 2));
	set.mode = 0040;
	DO(0, kvl_tenant_set(self->l, &set, self->now));
	ASSERT_EQ(-EPERM, kvl_tenant_may_attach(self->l, 1, 10, 0, NULL, 0));
	ASSERT_EQ(0, kvl_tenant_may_attach(self->l, 1, 11, 30, NULL, 0));
	ASSERT_EQ(0, kvl_tenant_may_attach(self->l, 1, 11, 9, groups, 2));
	ASSERT_EQ(-EPERM, kvl_tenant_may_attach(self->l, 1, 11, 9, &groups[1],
						1));
	set.mode = 0004;
	DO(0, kvl_tenant_set(self->l, &set, self->now));
	ASSERT_EQ(0, kvl_tenant_may_attach(self->l, 1, 99, 99, NULL, 0));
	set.mode = 0;
	DO(0, kvl_tenant_set(self->l, &set, self->now));
	ASSERT_EQ(-EPERM, kvl_tenant_may_attach(self->l, 1, 10, 30, NULL, 0));
	ASSERT_EQ(-ENOENT, kvl_tenant_may_attach(self->l, 2, 10, 30, NULL, 0));
	c = kvl_client_alloc(self->l);
	DO(-ENOENT, kvl_client_attach(self->l, c, 2));
	DO(-ENOENT, kvl_client_attach(self->l, c, 0));
	DO(0, kvl_client_attach(self->l, c, 1));
	ASSERT_EQ(1, kvl_client_tenant(c));
	ASSERT_EQ(1, info_of(self, 1).clients);
}

/* A tenant that took its share keeps nobody else out. */
TEST_F(ledger, clients_run_out)
{
	struct kvl_client *c, *last = NULL;
	u32 k;

	direct_pool(self, 8);
	add_tenant(self, "a");
	add_tenant(self, "b");
	add_tenant(self, "c");
	c = kvl_client_alloc(self->l);
	for (k = 0; k < 12; k++)
		last = add_client(self, 1);
	DO(-EDQUOT, kvl_client_attach(self->l, c, 1));
	ASSERT_EQ(12, info_of(self, 1).clients);
	for (k = 0; k < 12; k++)
		add_client(self, 2);
	DO(-EDQUOT, kvl_client_attach(self->l, c, 2));
	DO(-ENOSPC, kvl_client_attach(self->l, c, 3));
	die(self, last);
	DO(0, kvl_client_attach(self->l, c, 1));
	DO(-EBUSY, kvl_client_detach(self->l, c));
}

TEST_F(ledger, client_info)
{
	struct kvcache_client_info info;
	struct kvl_client *a, *b;
	struct kvl_request r = { .nr = 8 };
	u64 h[8], g[8], pages[8];

	two_users(self, 8, &a, &b);
	DO(0, get(self, a, 3, h));
	DO(KVCACHE_PUBLISHED, publish(self, a, h, 1));
	DO(1, find(self, a, 1, 1, 0, g));
	r.pages = pages;
	DO(KVL_WAITING, kvl_alloc(self->l, b, &r, true, self->now));
	DO(0, kvl_client_info(self->l, 0, 0, 0, &info));
	ASSERT_EQ(kvl_client_id(a), info.id);
	ASSERT_EQ(1, info.tenant);
	ASSERT_EQ(2, info.nr_private);
	ASSERT_EQ(2, info.nr_shared);
	ASSERT_EQ(0, info.waiting);
	DO(0, kvl_client_info(self->l, 0, 2, 0, &info));
	ASSERT_EQ(kvl_client_id(b), info.id);
	ASSERT_EQ(8, info.waiting);
	DO(-ENOENT, kvl_client_info(self->l, 0, 1, 2, &info));
	DO(-ENOENT, kvl_client_info(self->l, 1, 0, 0, &info));
	DO(-EINTR, kvl_cancel(self->l, &r, -EINTR, self->now));
}

/* ---- a max that is lowered ---------------------------------------------- */

TEST_F(ledger, a_lowered_max_takes_cached_pages_at_once)
{
	struct kvl_client *c;
	u64 h[4], g[4];

	direct_pool(self, 8);
	c = add_user(self, "a", 3, 3, NO_LIMIT);
	cache(self, c, 4, 1, h);
	DO(0, get(self, c, 2, g));
	DO(0, set_limits(self, 1, 3, 3, 4, NEVER));
	ASSERT_EQ(4, info_of(self, 1).cur);
	ASSERT_EQ(2, info_of(self, 1).nr_cached);
	/* min and low do not keep them. */
	DO(0, set_limits(self, 1, 0, 0, 1, NEVER));
	ASSERT_EQ(2, info_of(self, 1).cur);
	ASSERT_EQ(4, info_of(self, 1).ev_reclaim);
}

TEST_F(ledger, above_its_max_a_tenant_caches_nothing)
{
	struct kvl_client *c;
	u64 h[4];

	c = lone_user(self, 8);
	DO(0, get(self, c, 3, h));
	DO(KVCACHE_PUBLISHED, publish(self, c, &h[0], 1));
	DO(KVCACHE_PUBLISHED, publish(self, c, &h[1], 2));
	DO(0, set_limits(self, 1, 0, 0, 2, NEVER));
	ASSERT_EQ(3, info_of(self, 1).cur);
	DO(0, put(self, c, &h[0], 1));
	ASSERT_EQ(KVCACHE_PAGE_FREE, state_of(self, h[0]));
	DO(0, put(self, c, &h[1], 1));
	ASSERT_EQ(KVCACHE_PAGE_CACHED, state_of(self, h[1]));
}

TEST_F(ledger, a_hard_deadline_revokes)
{
	struct kvl_client *a, *b;
	u64 h[6], g[2];

	a = lone_user(self, 8);
	b = add_client(self, 1);
	DO(0, get(self, a, 6, h));
	DO(KVCACHE_PUBLISHED, publish(self, a, &h[5], 1));
	DO(1, find(self, b, 1, 1, 0, g));
	DO(0, set_limits(self, 1, 0, 0, 3, self->now + 100));
	ASSERT_EQ(self->now + 100, kvl_next_tick(self->l));
	ASSERT_EQ(0, kvl_tick(self->l, self->now + 99, 10));
	ASSERT_EQ(6, info_of(self, 1).cur);
	self->now += 100;
	/* The SHARED one has the highest index; both lose it. */
	ASSERT_EQ(1, kvl_tick(self->l, self->now, 1));
	VERIFY();
	ASSERT_EQ(KVCACHE_PAGE_FREE, state_of(self, h[5]));
	DO(-ESTALE, put(self, b, g, 1));
	DO(-ESTALE, put(self, a, &h[5], 1));
	ASSERT_EQ(2, kvl_tick(self->l, self->now, 10));
	VERIFY();
	ASSERT_EQ(3, info_of(self, 1).cur);
	ASSERT_EQ(3, info_of(self, 1).ev_revoke);
	DO(-ESTALE, put(self, a, &h[3], 1));
	DO(0, kvl_page_access(self->l, a, 0, 3, true));
	ASSERT_EQ(NEVER, kvl_next_tick(self->l));
	DO(0, put(self, a, h, 3));
}

TEST_F(ledger, another_min_or_low_leaves_the_deadline)
{
	struct kvl_client *c = lone_user(self, 16);
	u64 h[10];

	DO(0, get(self, c, 10, h));
	DO(0, set_limits(self, 1, 0, 0, 4, self->now + 100));
	DO(0, set_limits(self, 1, 0, 1, 4, NEVER));
	DO(0, set_limits(self, 1, 2, 1, 4, NEVER));
	ASSERT_EQ(self->now + 100, kvl_next_tick(self->l));
	/* It may be moved, and ends with its max. */
	DO(0, set_limits(self, 1, 2, 1, 4, self->now + 200));
	ASSERT_EQ(self->now + 200, kvl_next_tick(self->l));
	DO(0, set_limits(self, 1, 2, 1, 3, NEVER));
	ASSERT_EQ(NEVER, kvl_next_tick(self->l));
	DO(0, set_limits(self, 1, 2, 1, 4, self->now + 100));
	DO(0, set_limits(self, 1, 0, 0, 4, NEVER));
	self->now += 100;
	DO(6, kvl_tick(self->l, self->now, 100));
	ASSERT_EQ(4, info_of(self, 1).cur);
}

TEST_F(ledger, obeying_in_time_is_enough)
{
	struct kvl_client *c;
	u64 h[4];

	c = lone_user(self, 8);
	DO(0, get(self, c, 4, h));
	DO(0, set_limits(self, 1, 0, 0, 3, self->now + 100));
	DO(0, put(self, c, h, 1));
	self->now += 100;
	ASSERT_EQ(0, kvl_tick(self->l, self->now, 10));
	ASSERT_EQ(0, info_of(self, 1).ev_revoke);
	ASSERT_EQ(NEVER, kvl_next_tick(self->l));
	/* And a max that is raised again calls it off. */
	DO(0, set_limits(self, 1, 0, 0, 1, self->now + 100));
	DO(0, set_limits(self, 1, 0, 0, 9, self->now + 100));
	ASSERT_EQ(0, kvl_tick(self->l, self->now + 200, 10));
	ASSERT_EQ(3, info_of(self, 1).cur);
}

/* ---- flush and removal -------------------------------------------------- */

TEST_F(ledger, flush_forgets_and_frees)
{
	struct kvl_client *a, *b;
	u64 h[4], s[1], v[1], o[1];

	direct_pool(self, 8);
	a = add_user(self, "a", 3, 3, NO_LIMIT);
	b = add_user(self, "b", 0, 0, NO_LIMIT);
	cache(self, a, 4, 1, h);
	cache(self, b, 1, 1, o);
	DO(0, get(self, a, 1, s));
	DO(KVCACHE_PUBLISHED, publish(self, a, s, 9));
	DO(0, get(self, a, 1, v));
	DO(0, advise(self, a, v, 1, KVCACHE_ADVISE_VOLATILE, 0, 0, NULL));
	ASSERT_EQ(2, kvl_tenant_flush(self->l, 1, 0, 2, self->now));
	VERIFY();
	/* All keys are gone at once, the pages as the budget allows. */
	ASSERT_EQ(0, peek(self, a, 1, 1));
	ASSERT_EQ(0, peek(self, a, 9, 1));
	ASSERT_EQ(2, pool_of(self).nr_cached - 1);
	ASSERT_EQ(2, kvl_tenant_trim(self->l, 1, 0, 10, self->now));
	VERIFY();
	/* What is in use stays so; it is not cached again. */
	DO(0, kvl_page_access(self->l, a, 0, kvl_index(s[0]), false));
	DO(0, put(self, a, s, 1));
	ASSERT_EQ(KVCACHE_PAGE_FREE, state_of(self, s[0]));
	ASSERT_EQ(KVCACHE_PAGE_PRIVATE, state_of(self, v[0]));
	/* The other tenant's are still there. */
	ASSERT_EQ(1, peek(self, b, 1, 1));
	/* And a key can be published again. */
	cache(self, a, 1, 1, h);
	ASSERT_EQ(1, peek(self, a, 1, 1));
	ASSERT_EQ(1, kvl_tenant_flush(self->l, 1, ~0U, 100, self->now));
	DO(-ENOENT, kvl_tenant_flush(self->l, 9, 0, 100, self->now));
	DO(-ENOENT, kvl_tenant_flush(self->l, 1, 5, 100, self->now));
	DO(-ENOENT, kvl_tenant_trim(self->l, 9, 0, 100, self->now));
	DO(-ENOENT, kvl_tenant_trim(self->l, 1, 5, 100, self->now));
}

TEST_F(ledger, removal)
{
	struct kvl_tenant *t = NULL;
	struct kvl_client *a, *b;
	struct kvcache_tenant_grant g = { .tenant = 1, .to = 2, .rights = 3,
					  .max_held = 9 };
	u64 h[4], f[1], pages = 0;

	direct_pool(self, 8);
	a = add_user(self, "a", 2, 2, NO_LIMIT);
	b = add_user(self, "b", 0, 0, NO_LIMIT);
	DO(0, kvl_tenant_grant(self->l, &g));
	cache(self, a, 3, 1, h);
	DO(1, find(self, b, 1, 1, 0, f));
	DO(-EBUSY, kvl_tenant_remove(self->l, 1, &t, &pages, self->now));
	die(self, a);
	/* A page of it is in use by b. */
	DO(-EBUSY, kvl_tenant_remove(self->l, 1, &t, &pages, self->now));
	ASSERT_EQ(3, info_of(self, 1).cur);
	DO(0, put(self, b, f, 1));
	DO(0, kvl_tenant_remove(self->l, 1, &t, &pages, self->now));
	ASSERT_EQ(3, pages);
	kvl_tenant_free(t);
	ASSERT_EQ(8, pool_of(self).nr_free);
	DO(-ENOENT, kvl_tenant_remove(self->l, 1, &t, &pages, self->now));
	/* Its min is nobody's any more, its name free, its number not yet. */
	ASSERT_EQ(1, missing(self, b, 9, -E2BIG));
	ASSERT_EQ(3, add_tenant(self, "a"));
	ASSERT_EQ(0, peek(self, b, 1, 1));
}

TEST_F(ledger, removal_in_two_phases)
{
	struct kvl_tenant *t = NULL;
	struct kvl_client *a;
	u64 h[4], pages = 0;

	add_pool(self, "host", 4, 0, 0);
	a = add_user(self, "a", 0, 0, NO_LIMIT);
	cache(self, a, 2, 1, h);
	die(self, a);
	DO(KVL_WORK, kvl_tenant_remove(self->l, 1, &t, &pages, self->now));
	ASSERT_EQ(2, pages);
	ASSERT_EQ(2, do_work(self, true));
	DO(0, kvl_tenant_remove(self->l, 1, &t, &pages, self->now));
	ASSERT_EQ(0, pages);
	kvl_tenant_free(t);
	ASSERT_EQ(4, pool_of(self).nr_free);
}

/* The number of a tenant that is gone comes back with nothing of the old. */
TEST_F(ledger, a_number_used_again)
{
	struct kvl_tenant *t = NULL;
	struct kvl_client *c;
	u64 h[2];
	char name[8];
	u32 k;

	direct_pool(self, 8);
	c = add_user(self, "a", 1, 1, 5);
	cache(self, c, 2, 1, h);
	die(self, c);
	DO(0, kvl_tenant_remove(self->l, 1, &t, NULL, self->now));
	kvl_tenant_free(t);
	for (k = 2; k <= 24; k++) {
		snprintf(name, sizeof(name), "t%u", k);
		ASSERT_EQ(k, add_tenant(self, name));
	}
	ASSERT_EQ(1, add_tenant(self, "again"));
	ASSERT_EQ(0, info_of(self, 1).cur);
	ASSERT_EQ(0, info_of(self, 1).peak);
	ASSERT_EQ(NO_LIMIT, info_of(self, 1).max);
	c = add_client(self, 1);
	ASSERT_EQ(0, peek(self, c, 1, 1));
	cache(self, c, 2, 1, h);
	ASSERT_EQ(1, peek(self, c, 1, 1));
}

TEST_HARNESS_MAIN
