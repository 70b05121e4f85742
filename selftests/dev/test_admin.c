// SPDX-License-Identifier: MIT
/*
 * test_admin.c - values of the commands on tenants and pools, and of those that
 * list, which are out of range: the errno of the header, and nothing changed.
 */
#include "form.h"

#define BAD(err, member, value) \
	REFUSED_WITH(w, err, w->admin, nr, good, member, value)

#define BAD_POOLS()							\
	do {								\
		BAD(ENOENT, pool, w->pool + 1);				\
		BAD(ENOENT, pool, KVCACHE_MAX_POOLS - 1);		\
		BAD(ENOENT, pool, KVCACHE_MAX_POOLS);			\
		BAD(ENOENT, pool, 1U << 31);				\
		BAD(ENOENT, pool, ~0U - 1);				\
	} while (0)

#define BAD_TENANTS(member)						\
	do {								\
		BAD(ENOENT, member, 0);					\
		BAD(ENOENT, member, w->tenant[1] + 1);			\
		BAD(ENOENT, member, 4096);				\
		BAD(ENOENT, member, 65535);				\
		BAD(ENOENT, member, w->tenant[0] + 65536);		\
		BAD(ENOENT, member, ~0U);				\
	} while (0)

/* Names that are none; @name has room. */
static const char *const no_names[] = {
	"", ".", ".a", "a/b", "a b", "a\n", "a\177", "\303\244", "a:b", "a\\b",
};

/* ---- tenants ----------------------------------------------------------- */

static void limits_are_checked(struct __test_metadata *_metadata,
			       struct world *w, unsigned int nr,
			       struct kvcache_tenant_set set)
{
	static struct kvcache_tenant_set good;

	good = set;
	good.set = KVCACHE_SET_LIMITS;
	good.pool = w->pool;
	good.min = 2;
	good.low = 3;
	good.max = 4;
	good.deadline_ns = NEVER;
	BAD_POOLS();
	BAD(ENOENT, pool, ~0U);
	BAD(EINVAL, min, 5);
	BAD(EINVAL, low, 5);
	BAD(EINVAL, min, ~0ULL);
	BAD(EINVAL, low, ~0ULL);
	BAD(EINVAL, max, 2);
	BAD(EINVAL, max, 0);
	good.max = KVCACHE_LIMIT_MAX;
	BAD(ENOSPC, min, PAGES + 1);
	BAD(ENOSPC, min, ~0ULL);
	BAD(ENOSPC, min, 1ULL << 32);
	/* Together with what blue was promised. */
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[1], w->pool, 10, 0,
				KVCACHE_LIMIT_MAX, NEVER));
	BAD(ENOSPC, min, PAGES - 9);
	BAD(ENOSPC, min, ~0ULL - 9);
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[1], w->pool, 0, 0,
				KVCACHE_LIMIT_MAX, NEVER));
}

static void owner_is_checked(struct __test_metadata *_metadata,
			     struct world *w, unsigned int nr,
			     struct kvcache_tenant_set set)
{
	static struct kvcache_tenant_set good;
	uint32_t bit;

	good = set;
	good.set = KVCACHE_SET_OWNER;
	for (bit = 0; bit < 32; bit++)
		if (!(1U << bit & 0444))
			BAD(EINVAL, mode, 0444 | 1U << bit);
	for (bit = 5; bit < 32; bit++)
		BAD(EINVAL, set, 1U << bit);
	good.set = KVCACHE_SET_TRUST;
	BAD(EINVAL, trust, 2);
	BAD(EINVAL, trust, ~0U);
}

TEST_F(dev, tenant_create_refuses)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_TENANT_CREATE;
	static struct kvcache_tenant_set good;
	size_t k;

	memset(&good, 0, sizeof(good));
	good.size = sizeof(good);
	strcpy(good.name, "third");
	FILL(good.out_tenant, 0xcc);
	FILL(good.out_revision, 0xcc);
	BAD(EINVAL, tenant, 1);
	BAD(EINVAL, tenant, ~0U);
	limits_are_checked(_metadata, w, nr, good);
	owner_is_checked(_metadata, w, nr, good);
	for (k = 0; k < sizeof(no_names) / sizeof(no_names[0]); k++) {
		memset(good.name, 0, sizeof(good.name));
		strcpy(good.name, no_names[k]);
		REFUSED(w, EINVAL, w->admin, nr, good);
	}
	memset(good.name, 'x', sizeof(good.name));
	REFUSED(w, EINVAL, w->admin, nr, good);
	memset(good.name, 0, sizeof(good.name));
	strcpy(good.name, "red");
	REFUSED(w, EEXIST, w->admin, nr, good);
}

TEST_F(dev, tenant_set_refuses)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_TENANT_SET;
	static struct kvcache_tenant_set good;

	memset(&good, 0, sizeof(good));
	good.size = sizeof(good);
	good.tenant = w->tenant[0];
	FILL(good.out_tenant, 0xcc);
	FILL(good.out_revision, 0xcc);
	BAD_TENANTS(tenant);
	BAD(EINVAL, name[0], 'r');
	BAD(EINVAL, name[0], '.');
	limits_are_checked(_metadata, w, nr, good);
	owner_is_checked(_metadata, w, nr, good);
}

/* Changes that overtake each other on their way. */
TEST_F(dev, older_revisions_are_refused)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_TENANT_SET;
	static struct kvcache_tenant_set good;
	struct kvcache_tenant_info info;
	struct kvcache_tenant_set s;

	memset(&good, 0, sizeof(good));
	good.size = sizeof(good);
	good.tenant = w->tenant[0];
	good.set = KVCACHE_SET_TTL;
	good.ttl_ns = 1ULL << 50;
	good.revision = 100;
	s = good;
	ASSERT_EQ(0, dev_call(w->admin, nr, &s));
	EXPECT_EQ(100, s.out_revision);
	BAD(ESTALE, revision, 99);
	BAD(ESTALE, revision, 1);
	BAD(EEXIST, ttl_ns, 1ULL << 51);
	/* The same again is no other change. */
	s = good;
	EXPECT_EQ(0, dev_call(w->admin, nr, &s));
	EXPECT_EQ(100, s.out_revision);
	s.revision = 0;
	EXPECT_EQ(0, dev_call(w->admin, nr, &s));
	EXPECT_EQ(101, s.out_revision);
	good.revision = ~0ULL;
	EXPECT_EQ(0, dev_call(w->admin, nr, &good));
	ASSERT_EQ(0, dev_tenant_info(w->admin, w->pool, w->tenant[0], &info));
	EXPECT_EQ(~0ULL, info.revision);
	EXPECT_EQ(1ULL << 50, info.ttl_ns);
}

TEST_F(dev, tenant_remove_and_flush_refuse)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_TENANT_REMOVE;
	struct kvcache_tenant_ref good = { .size = sizeof(good) };
	uint64_t page;

	FILL(good.out_pages, 0xcc);
	good.tenant = w->tenant[0];
	BAD_TENANTS(tenant);
	BAD(EINVAL, pool, w->pool + 1);
	BAD(EINVAL, pool, ~0U);
	/* It has a client, then a page that another's client holds. */
	REFUSED(w, EBUSY, w->admin, nr, good);
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	REFUSED(w, EBUSY, w->admin, nr, good);
	nr = KVCACHE_NR_TENANT_FLUSH;
	BAD_TENANTS(tenant);
	BAD_POOLS();
	good.pool = ~0U;
	EXPECT_EQ(0, dev_call(w->admin, nr, &good));
	EXPECT_EQ(0, good.out_pages);
}

TEST_F(dev, tenant_with_a_page_in_use_is_not_removed)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_TENANT_REMOVE;
	struct kvcache_tenant_ref good = { .size = sizeof(good) };
	struct kvcache_tenant_grant g = { .size = sizeof(g) };
	int third = dev_tenant(w->admin, "third", w->pool, 0, 4);
	uint64_t page;

	ASSERT_LT(0, third);
	g.tenant = third;
	g.to = w->tenant[0];
	g.rights = KVCACHE_GRANT_PUBLISH | KVCACHE_GRANT_LOOKUP;
	g.max_held = 2;
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_GRANT, &g));
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	ASSERT_EQ(0, dev_publish_as(w->fd[0], w->pool, &page, 5, 0, third,
				    NULL));
	good.tenant = third;
	FILL(good.out_pages, 0xcc);
	REFUSED(w, EBUSY, w->admin, nr, good);
	/* What is only cached goes with it. */
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, &page, 1));
	EXPECT_EQ(0, dev_call(w->admin, nr, &good));
	EXPECT_EQ(1, good.out_pages);
	FILL(good.out_pages, 0xcc);
	REFUSED(w, ENOENT, w->admin, nr, good);
}

TEST_F(dev, tenant_grant_refuses)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_TENANT_GRANT;
	struct kvcache_tenant_grant good = { .size = sizeof(good) };
	uint32_t bit;

	good.tenant = w->tenant[0];
	good.to = w->tenant[1];
	good.rights = KVCACHE_GRANT_LOOKUP;
	good.max_held = 1;
	BAD_TENANTS(tenant);
	BAD_TENANTS(to);
	BAD(EINVAL, to, w->tenant[0]);
	for (bit = 2; bit < 32; bit++)
		BAD(EINVAL, rights, 1U << bit);
}

/* ---- lists ------------------------------------------------------------- */

TEST_F(dev, lists_of_no_pool_are_refused_and_starts_past_the_end_empty)
{
	struct world *w = &self->w;
	static const unsigned int lists[] = {
		KVCACHE_NR_TENANT_GET, KVCACHE_NR_CLIENT_GET,
		KVCACHE_NR_PAGE_GET,
	};
	static const uint32_t past[] = { 4097, 65536, 1U << 31, ~0U };
	/* They begin in the same way. */
	static union any good;
	struct kvcache_page_get *a = &good.page_get;
	unsigned int nr, k, j;
	uint64_t page;

	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	for (k = 0; k < 3; k++) {
		nr = lists[k];
		memset(&good, 0xcc, sizeof(good));
		good.size = row_of(nr)->size;
		a->flags = 0;
		a->start = 0;
		BAD(ENOENT, page_get.pool, w->pool + 1);
		BAD(ENOENT, page_get.pool, KVCACHE_MAX_POOLS);
		BAD(ENOENT, page_get.pool, ~0U);
		a->pool = w->pool;
		for (j = 0; j < 4; j++) {
			a->start = past[j];
			a->out_nr = 99;
			a->out_next = 99;
			UNCHANGED(w, EXPECT_EQ(0, dev_call(w->admin, nr, a)));
			EXPECT_EQ(0, a->out_nr)
				TH_LOG("list %#x from %u", nr, past[j]);
			EXPECT_EQ(0, a->out_next);
		}
	}
}

/* ---- pools ------------------------------------------------------------- */

TEST_F(dev, pool_create_refuses)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_POOL_SET;
	static struct kvcache_pool_set good;
	uint32_t bit;
	size_t k;

	memset(&good, 0, sizeof(good));
	good.size = sizeof(good);
	good.op = KVCACHE_POOL_CREATE;
	good.page_size = PAGE;
	good.nr_pages = 4;
	strcpy(good.name, "another");
	FILL(good.out_pool, 0xcc);
	FILL(good.out_nr_pages, 0xcc);
	BAD(EINVAL, op, 0);
	BAD(EINVAL, op, KVCACHE_POOL_REMOVE + 1);
	BAD(EINVAL, op, ~0U);
	BAD(EINVAL, pool, 1);
	BAD(EINVAL, pool, ~0U);
	BAD(EOPNOTSUPP, kind, KVCACHE_POOL_DEVICE);
	BAD(EINVAL, kind, 2);
	BAD(EINVAL, kind, ~0U);
	for (bit = 0; bit < 64; bit++)
		if (1ULL << bit < KVCACHE_PAGE_SIZE_MIN ||
		    1ULL << bit > KVCACHE_PAGE_SIZE_MAX)
			BAD(EINVAL, page_size, 1ULL << bit);
	BAD(EINVAL, page_size, 0);
	BAD(EINVAL, page_size, PAGE + 1);
	BAD(EINVAL, page_size, 3 * PAGE);
	BAD(EINVAL, page_size, ~0ULL);
	BAD(EINVAL, nr_pages, 0);
	BAD(EINVAL, nr_pages, ~0ULL);
	BAD(EINVAL, nr_pages, 1ULL << 32);
	BAD(EINVAL, nr_pages, 1ULL << 32 | 4);
	BAD(EINVAL, nr_pages, 1ULL << 62);
	for (k = 0; k < sizeof(no_names) / sizeof(no_names[0]); k++) {
		memset(good.name, 0, sizeof(good.name));
		strcpy(good.name, no_names[k]);
		REFUSED(w, EINVAL, w->admin, nr, good);
	}
	memset(good.name, 'x', sizeof(good.name));
	REFUSED(w, EINVAL, w->admin, nr, good);
	memset(good.name, 0, sizeof(good.name));
	strcpy(good.name, "test");
	REFUSED(w, EEXIST, w->admin, nr, good);
}

TEST_F(dev, other_changes_of_pools_refuse)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_POOL_SET;
	static struct kvcache_pool_set good;
	uint64_t pages[PAGES];
	uint32_t op;

	memset(&good, 0, sizeof(good));
	good.size = sizeof(good);
	good.pool = w->pool;
	FILL(good.out_pool, 0xcc);
	FILL(good.out_nr_pages, 0xcc);
	for (op = KVCACHE_POOL_RESIZE; op <= KVCACHE_POOL_REMOVE; op++) {
		good.op = op;
		good.nr_pages = op == KVCACHE_POOL_RESIZE ? PAGES : 0;
		BAD_POOLS();
		BAD(ENOENT, pool, ~0U);
		BAD(EINVAL, kind, 1);
		BAD(EINVAL, page_size, PAGE);
		BAD(EINVAL, name[0], 't');
		if (op != KVCACHE_POOL_RESIZE)
			BAD(EINVAL, nr_pages, 1);
	}
	good.op = KVCACHE_POOL_RESIZE;
	BAD(EINVAL, nr_pages, 0);
	BAD(E2BIG, nr_pages, 4 * PAGES + 1);
	BAD(E2BIG, nr_pages, 1ULL << 32);
	BAD(E2BIG, nr_pages, 1ULL << 32 | PAGES);
	BAD(E2BIG, nr_pages, ~0ULL);
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 7, 0,
				KVCACHE_LIMIT_MAX, NEVER));
	BAD(EINVAL, nr_pages, 6);
	good.op = KVCACHE_POOL_REMOVE;
	good.nr_pages = 0;
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, PAGES, pages));
	REFUSED(w, EBUSY, w->admin, nr, good);
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, pages, PAGES - 1));
	ASSERT_TRUE(dev_settles(w->admin, w->pool, PAGES - 1));
	REFUSED(w, EBUSY, w->admin, nr, good);
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0,
				KVCACHE_LIMIT_MAX, NEVER));
}

TEST_F(dev, more_pools_than_there_can_be_are_refused)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_POOL_SET;
	static struct kvcache_pool_set good;
	int pools[KVCACHE_MAX_POOLS], n = 0, k;
	char name[8];

	memset(&good, 0, sizeof(good));
	good.size = sizeof(good);
	good.op = KVCACHE_POOL_CREATE;
	good.page_size = PAGE;
	good.nr_pages = 1;
	strcpy(good.name, "last");
	for (k = 1; k < KVCACHE_MAX_POOLS; k++) {
		snprintf(name, sizeof(name), "p%d", k);
		pools[n] = dev_pool(w->admin, name, PAGE, 1);
		ASSERT_LT(0, pools[n]);
		n++;
	}
	REFUSED(w, ENOSPC, w->admin, nr, good);
	while (n--)
		EXPECT_EQ(0, dev_pool_op(w->admin, pools[n],
					 KVCACHE_POOL_REMOVE, 0, NULL));
}

TEST_HARNESS_MAIN
