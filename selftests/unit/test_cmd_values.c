// SPDX-License-Identifier: MIT
/*
 * test_cmd_values.c - what each command does with its values, one error at a
 * time.
 */
#include <errno.h>

#include "cmd_kit.h"

TEST_F(cmd, query)
{
	struct kvcache_query q;
	uint32_t k;

	POISON(q);
	ASSERT_EQ(0, call(self, KVCACHE_NR_QUERY, &q));
	ASSERT_EQ(KVCACHE_ABI_VERSION, q.out_abi_version);
	ASSERT_EQ(KVCACHE_FEAT_EVENTS |
		  (!self->admin ? KVCACHE_FEAT_LOCAL :
		   device_is_broker() ? KVCACHE_FEAT_FDS :
		   KVCACHE_FEAT_MMAP | KVCACHE_FEAT_ENFORCED |
		   KVCACHE_FEAT_EXPORT), q.out_features);
	ASSERT_EQ(1, q.out_nr_pools);
	ASSERT_EQ(0, q.out_client);
	ASSERT_EQ(0, q.out_tenant);
	ASSERT_STREQ("local", q.out_pools[0].name);
	ASSERT_EQ(16, q.out_pools[0].nr_pages);
	ASSERT_EQ(page_size(), q.out_pools[0].page_size);
	for (k = 1; k < KVCACHE_MAX_POOLS; k++)
		ASSERT_EQ(0, q.out_pools[k].page_size);
	ASSERT_EQ(0, attach(self));
	ASSERT_EQ(0, call(self, KVCACHE_NR_QUERY, &q));
	ASSERT_LE(1, q.out_client);
	ASSERT_TRUE(self->admin || q.out_client == 1);
	ASSERT_EQ(self->tenant, q.out_tenant);
}

TEST_F(cmd, attach)
{
	struct kvcache_attach good, a;

	POISON(good);
	good.by = KVCACHE_ATTACH_NAME;
	good.tenant = 0;
	memset(good.name, 0, sizeof(good.name));
	strcpy(good.name, "default");
	a = good;
	a.by = 3;
	memset(a.name, 0, sizeof(a.name));
	REFUSED(EINVAL, KVCACHE_NR_ATTACH, a);
	a = good;
	a.by = KVCACHE_ATTACH_AUTO;
	REFUSED(EINVAL, KVCACHE_NR_ATTACH, a);
	a = good;
	a.tenant = 1;
	REFUSED(EINVAL, KVCACHE_NR_ATTACH, a);
	a = good;
	memset(a.name, 'x', sizeof(a.name));
	REFUSED(EINVAL, KVCACHE_NR_ATTACH, a);
	a = good;
	a.name[0] = 'D';
	REFUSED(ENOENT, KVCACHE_NR_ATTACH, a);
	a = good;
	a.by = KVCACHE_ATTACH_ID;
	memset(a.name, 0, sizeof(a.name));
	a.tenant = self->tenant + 1;
	REFUSED(ENOENT, KVCACHE_NR_ATTACH, a);
	a.tenant = 65537;
	REFUSED(ENOENT, KVCACHE_NR_ATTACH, a);
	a = good;
	ASSERT_EQ(0, call(self, KVCACHE_NR_ATTACH, &a));
	ASSERT_EQ(self->tenant, a.out_tenant);
	ASSERT_EQ(client_id(self), a.out_client);
	a = good;
	REFUSED(EALREADY, KVCACHE_NR_ATTACH, a);
}

TEST_F(cmd, attach_to_others)
{
	struct kvcache_tenant_set set = {
		.size = sizeof(set), .set = KVCACHE_SET_OWNER,
		.uid = getuid() + 1, .gid = getgid() + 1, .mode = 0440,
		.name = "other",
	};
	struct kvcache_attach a;

	ASSERT_EQ(0, call(self, KVCACHE_NR_TENANT_CREATE, &set));
	POISON(a);
	a.by = KVCACHE_ATTACH_ID;
	a.tenant = set.out_tenant;
	memset(a.name, 0, sizeof(a.name));
	REFUSED(EPERM, KVCACHE_NR_ATTACH, a);
}

/* On a refusal one member is written. */
static void alloc_refused(SELF, int err, uint32_t nr, uint64_t missing)
{
	struct kvcache_alloc a, was;

	POISON(a);
	a.pool = 0;
	a.nr = nr;
	a.deadline_ns = 0;
	was = a;
	was.out_missing = missing;
	remember(self);
	ASSERT_EQ(-err, call(self, KVCACHE_NR_ALLOC, &a));
	ASSERT_EQ(missing, a.out_missing);
	ASSERT_EQ(0, memcmp(&a, &was, sizeof(a)));
	unchanged(self);
}

TEST_F(cmd, alloc)
{
	struct kvcache_tenant_set set = {
		.size = sizeof(set), .tenant = self->tenant,
		.set = KVCACHE_SET_LIMITS,
		.max = 6,
	};
	struct kvcache_alloc good, a;
	uint32_t k;

	ASSERT_EQ(0, attach(self));
	POISON(good);
	good.pool = 0;
	good.nr = 5;
	good.deadline_ns = 0;
	a = good;
	a.nr = 0;
	REFUSED(EINVAL, KVCACHE_NR_ALLOC, a);
	a.nr = KVCACHE_MAX_PAGES + 1;
	REFUSED(EINVAL, KVCACHE_NR_ALLOC, a);
	a.nr = ~0U;
	REFUSED(EINVAL, KVCACHE_NR_ALLOC, a);
	a = good;
	a.pool = 1;
	REFUSED(ENOENT, KVCACHE_NR_ALLOC, a);
	a.pool = ~0U;
	REFUSED(ENOENT, KVCACHE_NR_ALLOC, a);
	alloc_refused(self, E2BIG, 17, 1);
	a = good;
	ASSERT_EQ(0, call(self, KVCACHE_NR_ALLOC, &a));
	ASSERT_EQ(0, a.out_missing);
	for (k = 0; k < KVCACHE_MAX_PAGES; k++)
		ASSERT_EQ(k < 5 ? k + 1 : 0, (uint32_t)a.out_pages[k]);
	ASSERT_EQ(0, a.out_available);
	ASSERT_EQ(0, a.out_limit);
	alloc_refused(self, ENOSPC, 12, 1);
	ASSERT_EQ(0, call(self, KVCACHE_NR_TENANT_SET, &set));
	alloc_refused(self, EDQUOT, 3, 2);
	alloc_refused(self, E2BIG, 8, 2);
}

TEST_F(cmd, alloc_check)
{
	struct kvcache_alloc a;
	uint64_t h[16];

	ASSERT_EQ(0, attach(self));
	alloc(self, 10, h);
	remember(self);
	POISON(a);
	a.flags = KVCACHE_ALLOC_CHECK;
	a.pool = 0;
	a.deadline_ns = NEVER;
	a.nr = 6;
	ASSERT_EQ(0, call(self, KVCACHE_NR_ALLOC, &a));
	ASSERT_EQ(0, a.out_missing);
	ASSERT_EQ(6, a.out_available);
	ASSERT_EQ(16, a.out_limit);
	a.nr = 7;
	ASSERT_EQ(-ENOSPC, call(self, KVCACHE_NR_ALLOC, &a));
	ASSERT_EQ(1, a.out_missing);
	ASSERT_EQ(6, a.out_available);
	/* Any number can be asked about. */
	a.nr = 1000;
	ASSERT_EQ(-E2BIG, call(self, KVCACHE_NR_ALLOC, &a));
	ASSERT_EQ(984, a.out_missing);
	a.nr = 0;
	ASSERT_EQ(0, call(self, KVCACHE_NR_ALLOC, &a));
	ASSERT_EQ(6, a.out_available);
	ASSERT_EQ(0xccccccccccccccccULL, a.out_pages[0]);
	unchanged(self);
	a.pool = 3;
	REFUSED(ENOENT, KVCACHE_NR_ALLOC, a);
}

TEST_F(cmd, free)
{
	struct kvcache_free good, f;
	uint64_t h[3];

	ASSERT_EQ(0, attach(self));
	alloc(self, 3, h);
	POISON(good);
	good.pool = 0;
	good.nr = 3;
	memcpy(good.pages, h, sizeof(h));
	f = good;
	f.nr = 0;
	REFUSED(EINVAL, KVCACHE_NR_FREE, f);
	f.nr = 257;
	REFUSED(EINVAL, KVCACHE_NR_FREE, f);
	f = good;
	f.pool = 1;
	REFUSED(ENOENT, KVCACHE_NR_FREE, f);
	f = good;
	f.pages[2] = 0;
	REFUSED(ESTALE, KVCACHE_NR_FREE, f);
	f.pages[2] = h[2] + (1ULL << 32);
	REFUSED(ESTALE, KVCACHE_NR_FREE, f);
	f.pages[2] = 1ULL << 32 | 17;
	REFUSED(ESTALE, KVCACHE_NR_FREE, f);
	f.pages[2] = h[0];
	REFUSED(EPERM, KVCACHE_NR_FREE, f);
	f = good;
	ASSERT_EQ(0, call(self, KVCACHE_NR_FREE, &f));
	f = good;
	REFUSED(ESTALE, KVCACHE_NR_FREE, f);
}

TEST_F(cmd, publish)
{
	static struct kvcache_publish good, p;
	uint64_t h[3];

	ASSERT_EQ(0, attach(self));
	alloc(self, 3, h);
	fill_publish(&good, h[0], 1);
#define BAD(err, member, value) \
	REFUSED_WITH(err, KVCACHE_NR_PUBLISH, good, member, value)
	BAD(ENOENT, pool, 1);
	BAD(EINVAL, nr, 0);
	BAD(EINVAL, nr, 17);
	BAD(ENOENT, domain, self->tenant + 1);
	BAD(ENOENT, domain, ~0U);
	BAD(ESTALE, pages[0].handle, 0);
	BAD(ESTALE, pages[0].handle, h[0] + (1ULL << 32));
	BAD(EOPNOTSUPP, pages[0].flags, 8);
	BAD(EOPNOTSUPP, pages[0].__reserved, 1);
	BAD(EOPNOTSUPP, pages[0].__reserved2, 1);
	BAD(EOPNOTSUPP, pages[0].keys[0].__reserved, 1);
	BAD(EINVAL, pages[0].nr_keys, 0);
	BAD(EINVAL, pages[0].nr_keys, 17);
	BAD(EINVAL, pages[0].priority, 101);
	BAD(EINVAL, pages[0].keys[0].fill, 0);
#undef BAD
	/* What is not in use is not looked at. */
	p = good;
	memset(&p.pages[1], 0xcc, sizeof(p.pages[1]));
	ASSERT_EQ(0, call(self, KVCACHE_NR_PUBLISH, &p));
	ASSERT_EQ(h[0], p.pages[0].out_handle);
	ASSERT_EQ(KVCACHE_PUBLISHED, p.pages[0].out_result);
	p = good;
	REFUSED(EINVAL, KVCACHE_NR_PUBLISH, p);
}

TEST_F(cmd, lookup)
{
	static struct kvcache_publish p;
	static struct kvcache_lookup good, lk;
	uint64_t h[2];
	uint32_t key = 1, k;

	ASSERT_EQ(0, attach(self));
	alloc(self, 1, h);
	fill_publish(&p, h[0], key);
	ASSERT_EQ(0, call(self, KVCACHE_NR_PUBLISH, &p));
	POISON(good);
	good.pool = 0;
	good.nr_keys = 2;
	good.keys_per_page = 1;
	good.tail = 0;
	memset(good.keys, 0, sizeof(good.keys));
	memcpy(good.keys[0], &key, sizeof(key));
	lk = good;
	lk.pool = 1;
	REFUSED(ENOENT, KVCACHE_NR_LOOKUP, lk);
	lk = good;
	lk.nr_keys = 0;
	REFUSED(EINVAL, KVCACHE_NR_LOOKUP, lk);
	lk.nr_keys = 257;
	REFUSED(EINVAL, KVCACHE_NR_LOOKUP, lk);
	lk = good;
	lk.keys_per_page = 0;
	REFUSED(EINVAL, KVCACHE_NR_LOOKUP, lk);
	lk.keys_per_page = 17;
	REFUSED(EINVAL, KVCACHE_NR_LOOKUP, lk);
	lk = good;
	ASSERT_EQ(0, call(self, KVCACHE_NR_LOOKUP, &lk));
	ASSERT_EQ(1, lk.out_nr_pages);
	ASSERT_EQ(1, lk.out_nr_keys);
	ASSERT_EQ(h[0], lk.out_found[0].handle);
	ASSERT_EQ(1, lk.out_found[0].fill);
	ASSERT_EQ(self->tenant, lk.out_found[0].domain);
	for (k = 1; k < KVCACHE_MAX_KEYS; k++)
		ASSERT_EQ(0, lk.out_found[k].handle);
	ASSERT_EQ(0, lk.out_idle);
	ASSERT_EQ(0, lk.out_available);
}

TEST_F(cmd, advise)
{
	static struct kvcache_advise good, a;
	uint64_t h[2];
	uint32_t k;

	ASSERT_EQ(0, attach(self));
	alloc(self, 1, h);
	POISON(good);
	good.pool = 0;
	good.nr = 1;
	good.advice = KVCACHE_ADVISE_TOUCH;
	good.priority = 0;
	good.ttl_ns = 0;
	good.pages[0] = h[0];
#define BAD(err, member, value) \
	REFUSED_WITH(err, KVCACHE_NR_ADVISE, good, member, value)
	BAD(ENOENT, pool, 1);
	BAD(EINVAL, nr, 0);
	BAD(EINVAL, nr, 257);
	BAD(EINVAL, advice, 0);
	BAD(EINVAL, advice, 16);
	BAD(EINVAL, advice, 12);
	BAD(EINVAL, priority, 1);
	BAD(EINVAL, ttl_ns, 1);
	BAD(ESTALE, pages[0], 7);
#undef BAD
	a = good;
	ASSERT_EQ(0, call(self, KVCACHE_NR_ADVISE, &a));
	ASSERT_EQ(0, a.out_taken);
	for (k = 0; k < KVCACHE_MAX_PAGES; k++)
		ASSERT_EQ(0, a.out_state[k]);
}

TEST_F(cmd, tenants)
{
	struct kvcache_tenant_set set, good = {
		.size = sizeof(good), .set = KVCACHE_SET_LIMITS, .max = 4,
		.name = "t", .out_tenant = 0xcccccccc,
	};
	struct kvcache_tenant_ref ref;
	struct kvcache_tenant_grant g, fine = {
		.size = sizeof(fine), .tenant = self->tenant,
		.to = self->tenant + 1, .rights = 1,
	};

#define BAD(err, nr, member, value) \
	REFUSED_WITH(err, nr, good, member, value)
	BAD(EINVAL, KVCACHE_NR_TENANT_CREATE, tenant, 1);
	BAD(EINVAL, KVCACHE_NR_TENANT_CREATE, set, 32);
	BAD(EINVAL, KVCACHE_NR_TENANT_CREATE, name[0], 0);
	BAD(EINVAL, KVCACHE_NR_TENANT_CREATE, min, 5);
	BAD(EINVAL, KVCACHE_NR_TENANT_CREATE, low, 5);
	BAD(ENOENT, KVCACHE_NR_TENANT_CREATE, pool, 1);
	set = good;
	strcpy(set.name, "default");
	REFUSED(EEXIST, KVCACHE_NR_TENANT_CREATE, set);
	BAD(ENOENT, KVCACHE_NR_TENANT_SET, tenant, self->tenant + 1);
	BAD(EINVAL, KVCACHE_NR_TENANT_SET, tenant, self->tenant);
	good.name[0] = 0;
	good.tenant = self->tenant;
	BAD(EINVAL, KVCACHE_NR_TENANT_SET, min, 5);
	set = good;
	set.max = 99;
	set.min = 17;
	REFUSED(ENOSPC, KVCACHE_NR_TENANT_SET, set);
#undef BAD
	set = good;
	set.revision = 5;
	ASSERT_EQ(0, call(self, KVCACHE_NR_TENANT_SET, &set));
	ASSERT_EQ(self->tenant, set.out_tenant);
	ASSERT_EQ(5, set.out_revision);
	set = good;
	set.revision = 4;
	REFUSED(ESTALE, KVCACHE_NR_TENANT_SET, set);
	set.revision = 5;
	set.max = 3;
	REFUSED(EEXIST, KVCACHE_NR_TENANT_SET, set);
	/* Grants and removal. */
	g = fine;
	REFUSED(ENOENT, KVCACHE_NR_TENANT_GRANT, g);
	g.to = self->tenant;
	REFUSED(EINVAL, KVCACHE_NR_TENANT_GRANT, g);
	set = good;
	set.tenant = 0;
	strcpy(set.name, "t");
	ASSERT_EQ(0, call(self, KVCACHE_NR_TENANT_CREATE, &set));
	ASSERT_EQ(self->tenant + 1, set.out_tenant);
	g = fine;
	g.rights = 4;
	REFUSED(EINVAL, KVCACHE_NR_TENANT_GRANT, g);
	ASSERT_EQ(0, call(self, KVCACHE_NR_TENANT_GRANT, &fine));
	POISON(ref);
	ref.tenant = self->tenant + 2;
	ref.pool = 0;
	REFUSED(ENOENT, KVCACHE_NR_TENANT_REMOVE, ref);
	REFUSED(ENOENT, KVCACHE_NR_TENANT_FLUSH, ref);
	ref.tenant = self->tenant + 1;
	ref.pool = 1;
	REFUSED(EINVAL, KVCACHE_NR_TENANT_REMOVE, ref);
	REFUSED(ENOENT, KVCACHE_NR_TENANT_FLUSH, ref);
	ASSERT_EQ(0, attach(self));
	ref.tenant = self->tenant;
	ref.pool = 0;
	REFUSED(EBUSY, KVCACHE_NR_TENANT_REMOVE, ref);
	ASSERT_EQ(0, call(self, KVCACHE_NR_TENANT_FLUSH, &ref));
	ASSERT_EQ(0, ref.out_pages);
	ref.tenant = self->tenant + 1;
	ref.out_pages = 99;
	ASSERT_EQ(0, call(self, KVCACHE_NR_TENANT_REMOVE, &ref));
	ASSERT_EQ(0, ref.out_pages);
}

TEST_F(cmd, flush_counts)
{
	static struct kvcache_publish p;
	struct kvcache_tenant_ref ref;
	struct kvcache_free f;
	uint64_t h[2];

	ASSERT_EQ(0, attach(self));
	alloc(self, 1, h);
	fill_publish(&p, h[0], 1);
	ASSERT_EQ(0, call(self, KVCACHE_NR_PUBLISH, &p));
	POISON(f);
	f.pool = 0;
	f.nr = 1;
	f.pages[0] = h[0];
	ASSERT_EQ(0, call(self, KVCACHE_NR_FREE, &f));
	POISON(ref);
	ref.tenant = self->tenant;
	ref.pool = ~0U;
	ASSERT_EQ(0, call(self, KVCACHE_NR_TENANT_FLUSH, &ref));
	ASSERT_EQ(1, ref.out_pages);
}

/* Nobody waits for a search through a large pool. */
TEST_F(cmd, a_list_of_pages_goes_on_until_it_says_so)
{
	static struct kvcache_pool_set set;
	static struct kvcache_alloc a;
	static struct kvcache_free f;
	static struct kvcache_page_get p;
	const uint32_t nr = 4096 + 256;
	uint32_t k;

	if (self->admin)
		SKIP(return, "the pool would be too large");
	ASSERT_EQ(0, attach(self));
	set.size = sizeof(set);
	set.op = KVCACHE_POOL_CREATE;
	set.page_size = page_size();
	set.nr_pages = nr;
	strcpy(set.name, "large");
	ASSERT_EQ(0, call(self, KVCACHE_NR_POOL_SET, &set));
	a.size = sizeof(a);
	a.pool = set.out_pool;
	a.nr = 256;
	f.size = sizeof(f);
	f.pool = set.out_pool;
	f.nr = 256;
	for (k = 0; k < nr; k += 256) {
		ASSERT_EQ(0, call(self, KVCACHE_NR_ALLOC, &a));
		if (!k)
			memcpy(f.pages, a.out_pages, sizeof(f.pages));
	}
	/* All but the last 256, which the last call got. */
	for (k = 0; k < nr - 256; k += 256) {
		ASSERT_EQ(0, call(self, KVCACHE_NR_FREE, &f));
		for (uint32_t j = 0; j < 256; j++)
			f.pages[j] += 256;
	}
	POISON(p);
	p.pool = set.out_pool;
	p.start = 0;
	ASSERT_EQ(0, call(self, KVCACHE_NR_PAGE_GET, &p));
	ASSERT_EQ(0, p.out_nr);
	ASSERT_EQ(4096, p.out_next);
	p.start = p.out_next;
	ASSERT_EQ(0, call(self, KVCACHE_NR_PAGE_GET, &p));
	ASSERT_EQ(256, p.out_nr);
	ASSERT_EQ(0, p.out_next);
	ASSERT_EQ(4097, (uint32_t)p.out_info[0].handle);
	p.start = 2;
	ASSERT_EQ(0, call(self, KVCACHE_NR_PAGE_GET, &p));
	ASSERT_EQ(1, p.out_nr);
	ASSERT_EQ(4098, p.out_next);
	p.start = ~0U;
	ASSERT_EQ(0, call(self, KVCACHE_NR_PAGE_GET, &p));
	ASSERT_EQ(0, p.out_nr);
	ASSERT_EQ(0, p.out_next);
}

TEST_F(cmd, listings)
{
	static struct kvcache_tenant_get t;
	static struct kvcache_client_get c;
	static struct kvcache_page_get p;
	struct kvcache_tenant_set set = { .size = sizeof(set) };
	uint64_t h[4];
	uint32_t k;

	ASSERT_EQ(0, attach(self));
	alloc(self, 3, h);
	for (k = 0; k < 70; k++) {
		snprintf(set.name, sizeof(set.name), "t%u", k);
		ASSERT_EQ(0, call(self, KVCACHE_NR_TENANT_CREATE, &set));
	}
	POISON(t);
	t.pool = 0;
	t.start = 0;
	ASSERT_EQ(0, call(self, KVCACHE_NR_TENANT_GET, &t));
	ASSERT_EQ(64, t.out_nr);
	ASSERT_EQ(self->tenant + 64, t.out_next);
	ASSERT_STREQ("default", t.out_info[0].name);
	ASSERT_EQ(3, t.out_info[0].cur);
	t.start = t.out_next;
	ASSERT_EQ(0, call(self, KVCACHE_NR_TENANT_GET, &t));
	ASSERT_EQ(7, t.out_nr);
	ASSERT_EQ(0, t.out_next);
	ASSERT_EQ(self->tenant + 64, t.out_info[0].id);
	ASSERT_STREQ("t69", t.out_info[6].name);
	ASSERT_EQ(0, t.out_info[7].id);
	t.pool = 1;
	REFUSED(ENOENT, KVCACHE_NR_TENANT_GET, t);
	POISON(c);
	c.pool = 0;
	c.start = 0;
	ASSERT_EQ(0, call(self, KVCACHE_NR_CLIENT_GET, &c));
	ASSERT_EQ(1, c.out_nr);
	ASSERT_EQ(0, c.out_next);
	ASSERT_EQ(client_id(self), c.out_info[0].id);
	ASSERT_EQ(3, c.out_info[0].nr_private);
	ASSERT_EQ(getpid(), c.out_info[0].pid);
	ASSERT_STREQ("test_cmd_values", c.out_info[0].comm);
	c.start = client_id(self) + 1;
	ASSERT_EQ(0, call(self, KVCACHE_NR_CLIENT_GET, &c));
	ASSERT_EQ(0, c.out_nr);
	c.pool = 1;
	REFUSED(ENOENT, KVCACHE_NR_CLIENT_GET, c);
	POISON(p);
	p.pool = 0;
	p.start = 2;
	ASSERT_EQ(0, call(self, KVCACHE_NR_PAGE_GET, &p));
	ASSERT_EQ(2, p.out_nr);
	ASSERT_EQ(0, p.out_next);
	ASSERT_EQ(h[1], p.out_info[0].handle);
	ASSERT_EQ(client_id(self), p.out_info[0].client);
	ASSERT_EQ(0, p.out_info[2].handle);
	p.pool = 1;
	REFUSED(ENOENT, KVCACHE_NR_PAGE_GET, p);
}

TEST_F(cmd, pools)
{
	struct kvcache_pool_set set, good = {
		.size = sizeof(good), .op = KVCACHE_POOL_CREATE,
		.page_size = 65536, .nr_pages = 4, .name = "p",
		.out_pool = 0xcccccccc,
	};
	uint64_t h[16];

#define BAD(err, member, value) \
	REFUSED_WITH(err, KVCACHE_NR_POOL_SET, good, member, value)
	BAD(EINVAL, op, 0);
	BAD(EINVAL, op, 6);
	BAD(EINVAL, pool, 1);
	BAD(EOPNOTSUPP, kind, KVCACHE_POOL_DEVICE);
	BAD(EINVAL, kind, 2);
	BAD(EINVAL, page_size, 0);
	BAD(EINVAL, page_size, 32);
	BAD(EINVAL, page_size, 65537);
	BAD(EINVAL, page_size, 128ULL << 20);
	BAD(EINVAL, nr_pages, 0);
	BAD(EINVAL, nr_pages, 1ULL << 32 | 4);
	BAD(EINVAL, name[0], 0);
	set = good;
	memset(set.name, 'p', sizeof(set.name));
	REFUSED(EINVAL, KVCACHE_NR_POOL_SET, set);
	set = good;
	strcpy(set.name, "local");
	REFUSED(EEXIST, KVCACHE_NR_POOL_SET, set);
	set = good;
	ASSERT_EQ(0, call(self, KVCACHE_NR_POOL_SET, &set));
	ASSERT_EQ(1, set.out_pool);
	ASSERT_EQ(4, set.out_nr_pages);
	/* The device maps nothing before KVCACHE_ATTACH. */
	ASSERT_EQ(!self->admin || device_is_broker(),
		  self->s->ops->window(self->s, 1, 1) != NULL);
	good = (struct kvcache_pool_set){
		.size = sizeof(good), .op = KVCACHE_POOL_RESIZE,
		.nr_pages = 8, .out_pool = 0xcccccccc,
	};
	BAD(ENOENT, pool, 2);
	BAD(EINVAL, kind, 1);
	BAD(EINVAL, page_size, 4096);
	BAD(EINVAL, name[0], 'x');
	BAD(EINVAL, nr_pages, 0);
	/* One on the device may grow to four times its size. */
	BAD(E2BIG, nr_pages, self->admin ? 65 : 17);
	BAD(EINVAL, op, KVCACHE_POOL_DRAIN);
	ASSERT_EQ(0, attach(self));
	alloc(self, 3, h);
	set = good;
	ASSERT_EQ(0, call(self, KVCACHE_NR_POOL_SET, &set));
	ASSERT_EQ(8, set.out_nr_pages);
	set.nr_pages = 1;
	set.out_nr_pages = 99;
	ASSERT_EQ(-EBUSY, call(self, KVCACHE_NR_POOL_SET, &set));
	ASSERT_EQ(3, set.out_nr_pages);
	good.nr_pages = 0;
	good.op = KVCACHE_POOL_REMOVE;
	set = good;
	REFUSED(EBUSY, KVCACHE_NR_POOL_SET, set);
	BAD(ENOENT, pool, 5);
	set = good;
	set.pool = 1;
	ASSERT_EQ(0, call(self, KVCACHE_NR_POOL_SET, &set));
	ASSERT_TRUE(self->s->ops->window(self->s, 1, 1) == NULL);
	set = good;
	set.op = KVCACHE_POOL_DRAIN;
	ASSERT_EQ(0, call(self, KVCACHE_NR_POOL_SET, &set));
	alloc_refused(self, ESHUTDOWN, 1, 1);
	set.op = KVCACHE_POOL_RESUME;
	ASSERT_EQ(0, call(self, KVCACHE_NR_POOL_SET, &set));
#undef BAD
}

TEST_HARNESS_MAIN
