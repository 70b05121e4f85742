/* SPDX-License-Identifier: MIT */
/*
 * ledger_kit.h - one ledger with a few tenants, checked after every step.
 *
 * Pages are named by their index in expectations, so that orders can be
 * written down. Keys are made of a number; a page published with key k and n
 * keys has keys k, k + 1, ... of fills 1, 2, ...
 */
#ifndef LEDGER_KIT_H
#define LEDGER_KIT_H

#include "harness.h"
#include "ledger.h"

#define NEVER KVCACHE_TIME_NEVER
#define NO_LIMIT KVCACHE_LIMIT_MAX

FIXTURE(ledger) {
	struct kvl *l;
	u64 now;
	char why[160];
};

#define VERIFY()							\
	do {								\
		self->why[0] = 0;					\
		kvl_verify(self->l, self->why, sizeof(self->why));	\
		ASSERT_STREQ("", self->why);				\
	} while (0)

/* Runs a call, checks the ledger, and compares the result. */
#define DO(want, call)							\
	do {								\
		long long do_rc = (call);				\
									\
		VERIFY();						\
		ASSERT_EQ((long long)(want), do_rc);			\
	} while (0)

FIXTURE_SETUP(ledger)
{
	struct kvl_config cfg = {
		.max_tenants = 24, .max_clients = 24, .tenant_clients = 12,
		.nr_events = 8, .seed = 7,
	};

	self->l = kvl_create(&cfg);
	ASSERT_TRUE(self->l != NULL);
	kvl_nodes_add(self->l, kvl_nodes_alloc(400));
	self->now = 1000;
}

FIXTURE_TEARDOWN(ledger)
{
	VERIFY();
	kvl_destroy(self->l);
}

#define SELF struct ht_fix_ledger *self

/* Pool number 0, 1, ... of pages of so many, or (flags 0) one with work. */
static inline u32 add_pool(SELF, const char *name, u32 nr, u32 capacity,
			   u32 flags)
{
	struct kvl_pool_config cfg = {
		.name = name, .flags = flags, .page_size = 4096,
		.nr_pages = nr, .capacity = capacity,
	};
	struct kvl_pool *p;
	int id;

	ASSERT_EQ(0, kvl_pool_alloc(self->l, &cfg, &p));
	id = kvl_pool_add(self->l, p);
	ASSERT_GE(id, 0);
	VERIFY();
	return id;
}

static inline u32 direct_pool(SELF, u32 nr)
{
	return add_pool(self, "host", nr, 0, KVL_POOL_DIRECT);
}

static inline int set_limits(SELF, u32 tenant, u64 min, u64 low, u64 max,
			     u64 deadline)
{
	struct kvcache_tenant_set set = {
		.tenant = tenant, .set = KVCACHE_SET_LIMITS, .min = min,
		.low = low, .max = max, .deadline_ns = deadline,
	};

	return kvl_tenant_set(self->l, &set, self->now);
}

static inline u32 add_tenant(SELF, const char *name)
{
	struct kvl_tenant *t = kvl_tenant_alloc(self->l);
	struct kvcache_tenant_set set = { .size = 0 };

	strncpy(set.name, name, sizeof(set.name) - 1);
	ASSERT_EQ(0, kvl_tenant_create(self->l, t, &set, self->now));
	VERIFY();
	return set.out_tenant;
}

static inline struct kvl_client *add_client(SELF, u32 tenant)
{
	struct kvl_client *c = kvl_client_alloc(self->l);

	ASSERT_EQ(0, kvl_client_attach(self->l, c, tenant));
	VERIFY();
	return c;
}

/* A tenant with limits and its client. */
static inline struct kvl_client *add_user(SELF, const char *name, u64 min,
					  u64 low, u64 max)
{
	u32 t = add_tenant(self, name);

	ASSERT_EQ(0, set_limits(self, t, min, low, max, NEVER));
	return add_client(self, t);
}

/* What most tests begin with: one pool of @nr pages, and one user, or two. */
static inline struct kvl_client *lone_user(SELF, u32 nr)
{
	direct_pool(self, nr);
	return add_user(self, "a", 0, 0, NO_LIMIT);
}

static inline void two_users(SELF, u32 nr, struct kvl_client **a,
			     struct kvl_client **b)
{
	*a = lone_user(self, nr);
	*b = add_user(self, "b", 0, 0, NO_LIMIT);
}

static inline int get(SELF, struct kvl_client *c, u32 nr, u64 *pages)
{
	struct kvl_request r = { .nr = nr, .pages = pages };

	return kvl_alloc(self->l, c, &r, false, self->now);
}

/* As get(), for a request that is refused; returns how many are missing. */
static inline u64 missing(SELF, struct kvl_client *c, u32 nr, int err)
{
	u64 pages[KVCACHE_MAX_PAGES];
	struct kvl_request r = { .nr = nr, .pages = pages };
	struct kvl_check check;

	ASSERT_EQ(0, kvl_alloc_check(self->l, c, 0, nr, &check));
	ASSERT_EQ(err, check.status);
	ASSERT_LT(check.available, nr);
	ASSERT_EQ(err, kvl_alloc(self->l, c, &r, false, self->now));
	ASSERT_EQ(check.missing, r.missing);
	VERIFY();
	return r.missing;
}

static inline int put(SELF, struct kvl_client *c, const u64 *pages, u32 nr)
{
	return kvl_free(self->l, c, 0, pages, nr, self->now);
}

static inline void make_key(u8 *key, u32 k)
{
	memset(key, 0x5a, KVCACHE_KEY_LEN);
	memcpy(key, &k, sizeof(k));
}

static inline void fill_entry(struct kvcache_publish_page *e, u64 handle,
			      u32 key, u32 nr_keys, u32 priority, u64 ttl,
			      u32 flags)
{
	u32 k;

	memset(e, 0, sizeof(*e));
	e->handle = handle;
	e->flags = flags;
	e->nr_keys = nr_keys;
	e->priority = priority;
	e->ttl_ns = ttl;
	for (k = 0; k < nr_keys; k++) {
		make_key(e->keys[k].key, key + k);
		e->keys[k].fill = k + 1;
	}
}

/* One page, one key, everything told. *@page is replaced by what came out. */
static inline int publish_as(SELF, struct kvl_client *c, u32 domain, u64 *page,
			     u32 key, u32 priority, u64 ttl, u32 flags)
{
	static struct kvcache_publish p;
	int rc;

	memset(&p, 0, sizeof(p));
	p.nr = 1;
	p.domain = domain;
	fill_entry(&p.pages[0], *page, key, 1, priority, ttl, flags);
	rc = kvl_publish(self->l, c, &p, NULL, self->now);
	if (rc)
		return rc;
	*page = p.pages[0].out_handle;
	return p.pages[0].out_result;
}

static inline int publish(SELF, struct kvl_client *c, u64 *page, u32 key)
{
	return publish_as(self, c, 0, page, key, KVCACHE_PRIO_DEFAULT, NEVER,
			  0);
}

/* @nr pages with keys @key, @key + 1, ..., all references dropped. */
static inline void cache_as(SELF, struct kvl_client *c, u32 nr, u32 key,
			    u32 priority, u64 ttl, u32 flags, u64 *pages)
{
	u32 k;

	DO(0, get(self, c, nr, pages));
	for (k = 0; k < nr; k++)
		DO(KVCACHE_PUBLISHED, publish_as(self, c, 0, &pages[k], key + k,
						 priority, ttl, flags));
	DO(0, put(self, c, pages, nr));
}

static inline void cache(SELF, struct kvl_client *c, u32 nr, u32 key,
			 u64 *pages)
{
	cache_as(self, c, nr, key, KVCACHE_PRIO_DEFAULT, NEVER, 0, pages);
}

/* Whole pages of one key each found from @key on; their handles. */
static inline int find(SELF, struct kvl_client *c, u32 key, u32 nr, u32 flags,
		       u64 *pages)
{
	static struct kvcache_lookup lk;
	u32 k;
	int rc;

	memset(&lk, 0, sizeof(lk));
	lk.flags = flags;
	lk.nr_keys = nr;
	lk.keys_per_page = 1;
	for (k = 0; k < nr; k++)
		make_key(lk.keys[k], key + k);
	rc = kvl_lookup(self->l, c, &lk, self->now);
	if (rc)
		return rc;
	for (k = 0; pages && k < lk.out_nr_pages; k++)
		pages[k] = lk.out_found[k].handle;
	return lk.out_nr_pages;
}

/* How many pages from @key on would be found. */
static inline int peek(SELF, struct kvl_client *c, u32 key, u32 nr)
{
	return find(self, c, key, nr, KVCACHE_LOOKUP_PEEK, NULL);
}

static inline int advise(SELF, struct kvl_client *c, const u64 *pages, u32 nr,
			 u32 advice, u32 priority, u64 ttl, u8 *state)
{
	static struct kvcache_advise a;
	int rc;

	memset(&a, 0, sizeof(a));
	a.nr = nr;
	a.advice = advice;
	a.priority = priority;
	a.ttl_ns = ttl;
	memcpy(a.pages, pages, nr * sizeof(*pages));
	rc = kvl_advise(self->l, c, &a, self->now);
	if (!rc && state)
		memcpy(state, a.out_state, nr);
	return rc ? rc : (int)a.out_taken;
}

static inline struct kvcache_tenant_info info_of(SELF, u32 tenant)
{
	struct kvcache_tenant_info info;

	ASSERT_EQ(0, kvl_tenant_info(self->l, 0, tenant, &info));
	ASSERT_EQ(tenant, info.id);
	return info;
}

static inline struct kvcache_pool_info pool_of(SELF)
{
	struct kvcache_pool_info info;

	ASSERT_EQ(0, kvl_pool_info(self->l, 0, &info));
	ASSERT_EQ(info.nr_pages, info.nr_free + info.nr_private +
		  info.nr_shared + info.nr_cached + info.nr_retiring);
	return info;
}

static inline u32 state_of(SELF, u64 page)
{
	struct kvcache_page_info info;

	if (kvl_page_info(self->l, 0, 0, kvl_index(page), self->now, &info) ||
	    kvl_index(info.handle) != kvl_index(page))
		return KVCACHE_PAGE_FREE;
	return info.state;
}

/* The indices of handles, in their order, as text. */
static inline const char *order(const u64 *pages, u32 nr)
{
	static char text[1024];
	u32 k, n = 0;

	text[0] = 0;
	for (k = 0; k < nr; k++)
		n += snprintf(text + n, sizeof(text) - n, "%s%u", k ? " " : "",
			      kvl_index(pages[k]));
	return text;
}

/*
 * Takes pages one after another until none is to be had, and says in which
 * order they came.
 */
static inline const char *drain_order(SELF, struct kvl_client *c, u64 *pages)
{
	u32 nr = 0;

	while (!get(self, c, 1, &pages[nr])) {
		VERIFY();
		nr++;
	}
	return order(pages, nr);
}

/* Does all the work there is. */
static inline u32 do_work(SELF, bool clean)
{
	u32 i, nr = 0;

	while ((i = kvl_work_next(self->l, 0))) {
		DO(0, kvl_work_done(self->l, 0, i, clean, self->now));
		nr++;
	}
	return nr;
}

static inline void die(SELF, struct kvl_client *c)
{
	kvl_client_kill(self->l, c);
	VERIFY();
	while (kvl_client_reap(self->l, c, 2, self->now) == 2)
		VERIFY();
	DO(0, kvl_client_detach(self->l, c));
	kvl_client_free(c);
}

#endif /* LEDGER_KIT_H */
