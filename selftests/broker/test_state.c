// SPDX-License-Identifier: MIT
/*
 * test_state.c - a ledger that was written down and read again is the same, as
 * far as it outlives its clients.
 */
#include <stdlib.h>

#include "harness.h"

#include "../unit/ledger_kit.h"

#include "../../tools/kvcache-broker/state.c"

/* ---- a broker without memory --------------------------------------------- */

struct adopted {
	uint32_t nr, refuse;		/* pages; the number of one to refuse */
	uint32_t shared, settled;
	uint64_t was[64], now[64];
};

static int make_pool(SELF, struct kvcache_pool_set *set)
{
	struct kvl_pool_config cfg = {
		.name = set->name, .flags = KVL_POOL_DIRECT,
		.page_size = set->page_size, .nr_pages = set->nr_pages,
	};
	struct kvl_pool *p;
	int id;

	if (set->op != KVCACHE_POOL_CREATE || set->nr_pages > 1000 ||
	    !memchr(set->name, 0, sizeof(set->name)))
		return -EINVAL;
	id = kvl_pool_alloc(self->l, &cfg, &p);
	if (id)
		return id;
	id = kvl_pool_add(self->l, p);
	if (id < 0) {
		kvl_pool_free(p);
		return id;
	}
	set->out_pool = id;
	return 0;
}

static int make_tenant(SELF, struct kvcache_tenant_set *set)
{
	struct kvl_tenant *t = kvl_tenant_alloc(self->l);
	int err = memchr(set->name, 0, sizeof(set->name)) ?
		  kvl_tenant_create(self->l, t, set, self->now) : -EINVAL;

	if (err)
		kvl_tenant_free(t);
	return err;
}

static struct ht_fix_ledger *the_self;
static struct adopted the;

static int admin(void *arg, unsigned int nr, void *cmd)
{
	struct ht_fix_ledger *self = the_self;

	switch (nr) {
	case KVCACHE_NR_POOL_SET:
		return make_pool(self, cmd);
	case KVCACHE_NR_TENANT_CREATE:
		return make_tenant(self, cmd);
	case KVCACHE_NR_TENANT_SET:
		return kvl_tenant_set(self->l, cmd, self->now);
	case KVCACHE_NR_TENANT_GRANT:
		return kvl_tenant_grant(self->l, cmd);
	}
	return -ENOTTY;
}

static int adopt(void *arg, uint32_t pool, uint64_t handle,
		 const struct state_saved *saved)
{
	if (++the.nr == the.refuse)
		return -EIO;
	the.was[the.nr] = saved->handle;
	the.now[the.nr] = handle;
	the.shared += saved->shared;
	return 0;
}

static void settle(void *arg, uint32_t pool)
{
	the.settled++;
}

static const struct state_ops ops = {
	.admin = admin, .adopt = adopt, .settle = settle,
};

static int count(void *arg, struct state_saved *page)
{
	return ++*(int *)arg < 0 ? -EINTR : 0;
}

/* ---- there and back ------------------------------------------------------ */

static char *saved;
static size_t saved_len;

static int save(SELF)
{
	FILE *f = open_memstream(&saved, &saved_len);
	int nr = 0, err;

	err = state_save(self->l, f, self->now, count, &nr);
	fclose(f);
	return err ? err : nr;
}

/* Another ledger, from @len bytes. */
static int load(SELF, size_t len, uint32_t *pages, uint32_t *lost)
{
	struct kvl_config cfg = {
		.max_tenants = 24, .max_clients = 24, .nr_events = 8, .seed = 9,
	};
	FILE *f = fmemopen(saved, len, "r");
	uint32_t refuse = the.refuse;
	int err;

	kvl_destroy(self->l);
	self->l = kvl_create(&cfg);
	ASSERT_TRUE(self->l && f);
	the_self = self;
	the = (struct adopted){ .refuse = refuse };
	err = state_load(self->l, f, self->now, &ops, NULL, pages, lost);
	fclose(f);
	VERIFY();
	return err;
}

static void reload(SELF, uint32_t pages, uint32_t lost)
{
	uint32_t p, n;

	ASSERT_EQ(pages + lost, save(self));
	ASSERT_EQ(0, load(self, saved_len, &p, &n));
	ASSERT_EQ(pages, p);
	ASSERT_EQ(lost, n);
	free(saved);
	saved = NULL;
}

static struct kvl_client *client_of(SELF, const char *name)
{
	int t = kvl_tenant_by_name(self->l, name);

	ASSERT_GT(t, 0);
	return add_client(self, t);
}

TEST_F(ledger, pools_tenants_and_limits_are_there_again)
{
	struct kvcache_tenant_set set = {
		.set = KVCACHE_SET_OWNER | KVCACHE_SET_TTL | KVCACHE_SET_CGROUP,
		.uid = 7, .gid = 8, .mode = 0440, .ttl_ns = 12345, .cgroup = 99,
		.revision = 41, .name = "b",
	};
	struct kvcache_tenant_info info;
	u32 a;

	direct_pool(self, 10);
	add_pool(self, "second", 20, 0, KVL_POOL_DIRECT);
	a = add_tenant(self, "a");
	ASSERT_EQ(0, set_limits(self, a, 1, 2, 3, NEVER));
	ASSERT_EQ(0, make_tenant(self, &set));
	ASSERT_EQ(0, set_limits(self, set.out_tenant, 4, 5, 6, NEVER));
	reload(self, 0, 0);
	ASSERT_EQ(10, pool_of(self).nr_pages);
	ASSERT_STREQ("host", pool_of(self).name);
	info = info_of(self, kvl_tenant_by_name(self->l, "a"));
	ASSERT_EQ(1, info.min);
	ASSERT_EQ(2, info.low);
	ASSERT_EQ(3, info.max);
	info = info_of(self, kvl_tenant_by_name(self->l, "b"));
	ASSERT_EQ(6, info.max);
	ASSERT_EQ(7, info.uid);
	ASSERT_EQ(8, info.gid);
	ASSERT_EQ(0440, info.mode);
	ASSERT_EQ(12345, info.ttl_ns);
	ASSERT_EQ(99, info.cgroup);
	ASSERT_EQ(42, info.revision);
}

TEST_F(ledger, cached_pages_are_found_and_go_in_the_same_order)
{
	struct kvl_client *c = lone_user(self, 8);
	u64 pages[8], got[8];
	u32 k;

	cache(self, c, 3, 100, pages);
	cache_as(self, c, 2, 200, 90, NEVER, 0, pages + 3);
	cache_as(self, c, 2, 300, 10, NEVER, 0, pages + 5);
	/* The first is used again, and is the last of its priority now. */
	ASSERT_EQ(1, find(self, c, 100, 1, 0, got));
	ASSERT_EQ(0, put(self, c, got, 1));
	reload(self, 7, 0);
	c = client_of(self, "a");
	ASSERT_EQ(7, pool_of(self).nr_cached);
	ASSERT_EQ(3, peek(self, c, 100, 3));
	ASSERT_EQ(2, peek(self, c, 200, 2));
	ASSERT_EQ(2, peek(self, c, 300, 2));
	ASSERT_EQ(0, get(self, c, 1, got));	/* the one that was free */
	for (k = 0; k < 2; k++)
		ASSERT_EQ(0, get(self, c, 1, got + 1 + k));
	ASSERT_EQ(0, peek(self, c, 300, 1));
	ASSERT_EQ(0, peek(self, c, 301, 1));
	for (k = 0; k < 2; k++)
		ASSERT_EQ(0, get(self, c, 1, got + 3 + k));
	ASSERT_EQ(1, peek(self, c, 100, 1));
	ASSERT_EQ(0, peek(self, c, 101, 1));
	ASSERT_EQ(0, peek(self, c, 102, 1));
	ASSERT_EQ(2, peek(self, c, 200, 2));
}

TEST_F(ledger, pages_that_were_held_are_the_latest_and_said_to_be)
{
	struct kvl_client *c = lone_user(self, 4);
	u64 pages[4], got[4];

	cache(self, c, 2, 10, pages);
	ASSERT_EQ(1, find(self, c, 10, 1, 0, got));
	ASSERT_EQ(0, get(self, c, 1, got + 1));	/* PRIVATE: is lost */
	reload(self, 2, 0);
	ASSERT_EQ(1, the.shared);
	c = client_of(self, "a");
	ASSERT_EQ(2, pool_of(self).nr_cached);
	ASSERT_EQ(0, get(self, c, 3, got));
	ASSERT_EQ(1, peek(self, c, 10, 1));
	ASSERT_EQ(0, peek(self, c, 11, 1));
}

TEST_F(ledger, all_keys_of_a_page_come_along)
{
	static struct kvcache_publish p;
	struct kvl_client *c = lone_user(self, 2);
	u64 page;

	ASSERT_EQ(0, get(self, c, 1, &page));
	p.nr = 1;
	fill_entry(&p.pages[0], page, 50, KVCACHE_MAX_PAGE_KEYS, 35, NEVER, 0);
	ASSERT_EQ(0, kvl_publish(self->l, c, &p, NULL, self->now));
	reload(self, 1, 0);
	c = client_of(self, "a");
	for (u32 k = 0; k < KVCACHE_MAX_PAGE_KEYS; k++)
		ASSERT_EQ(1, peek(self, c, 50 + k, 1));
}

TEST_F(ledger, grants_are_there_again)
{
	struct kvl_client *a, *b;
	struct kvcache_tenant_grant g = { .rights = KVCACHE_GRANT_LOOKUP,
					  .max_held = 1 };
	u64 pages[2];

	two_users(self, 8, &a, &b);
	g.tenant = kvl_client_tenant(a);
	g.to = kvl_client_tenant(b);
	ASSERT_EQ(0, kvl_tenant_grant(self->l, &g));
	cache(self, a, 2, 70, pages);
	reload(self, 2, 0);
	b = client_of(self, "b");
	/* Not more than the bound. */
	ASSERT_EQ(1, find(self, b, 70, 2, 0, pages));
	ASSERT_EQ(0, peek(self, b, 71, 1));
}

TEST_F(ledger, what_is_left_of_a_priority_is_kept)
{
	struct kvl_client *c = lone_user(self, 3);
	u64 pages[3], got[3];

	cache_as(self, c, 1, 10, 90, 1000, 0, pages);
	cache_as(self, c, 1, 20, 36, NEVER, 0, pages + 1);
	self->now += 400;
	reload(self, 2, 0);
	c = client_of(self, "a");
	self->now += 599;
	kvl_tick(self->l, self->now, 100);
	ASSERT_EQ(0, get(self, c, 2, got));
	ASSERT_EQ(1, peek(self, c, 10, 1));
	ASSERT_EQ(0, peek(self, c, 20, 1));
	ASSERT_EQ(0, put(self, c, got, 2));
	cache_as(self, c, 1, 20, 36, NEVER, 0, pages + 1);
	self->now += 2;
	kvl_tick(self->l, self->now, 100);
	ASSERT_EQ(0, get(self, c, 2, got));
	ASSERT_EQ(0, peek(self, c, 10, 1));
	ASSERT_EQ(1, peek(self, c, 20, 1));
}

TEST_F(ledger, expired_and_flushed_pages_are_not_written)
{
	struct kvcache_tenant_set set = {
		.set = KVCACHE_SET_TTL, .ttl_ns = 100,
	};
	struct kvl_client *c = lone_user(self, 4), *b;
	u64 pages[4];

	set.tenant = kvl_client_tenant(c);
	ASSERT_EQ(0, kvl_tenant_set(self->l, &set, self->now));
	b = add_user(self, "b", 0, 0, NO_LIMIT);
	cache(self, c, 1, 10, pages);
	cache(self, b, 1, 10, pages);
	ASSERT_EQ(1, find(self, b, 10, 1, 0, pages));
	ASSERT_EQ(0, kvl_tenant_flush(self->l, kvl_client_tenant(b), 0, 100,
				      self->now));
	self->now += 101;
	kvl_tick(self->l, self->now, 0);
	reload(self, 0, 0);
}

TEST_F(ledger, a_page_without_memory_is_given_up)
{
	struct kvl_client *c = lone_user(self, 4);
	u64 pages[4];

	cache(self, c, 3, 10, pages);
	the.refuse = 2;
	reload(self, 2, 1);
	the.refuse = 0;
	ASSERT_EQ(1, the.settled);
	ASSERT_EQ(2, pool_of(self).nr_cached);
	ASSERT_EQ(0, pool_of(self).nr_private);
}

/* A file that is cut, or has a wrong byte, is refused or read to its end. */
TEST_F(ledger, a_damaged_file_harms_nothing)
{
	struct kvl_client *c = lone_user(self, 4);
	uint32_t got, lost;
	u64 pages[4];
	size_t k;

	cache(self, c, 1, 10, pages);
	ASSERT_EQ(1, save(self));
	for (k = 1; k < saved_len; k += 7) {
		int err = load(self, k, &got, &lost);

		ASSERT_TRUE(err == 0 || err == -EBADMSG);
		ASSERT_EQ(0, got);
	}
	for (k = 0; k < saved_len; k++) {
		saved[k] ^= 0x55;
		load(self, saved_len, &got, &lost);
		saved[k] ^= 0x55;
	}
	ASSERT_EQ(0, load(self, saved_len, &got, &lost));
	ASSERT_EQ(1, got);
	free(saved);
}

/* What a newer broker added at the end of a page's record is not for us. */
TEST_F(ledger, records_of_another_size_are_read)
{
	struct kvl_client *c = lone_user(self, 4);
	uint32_t got, lost, size;
	u64 pages[4];
	size_t at;

	cache(self, c, 1, 10, pages);
	ASSERT_EQ(1, save(self));
	/* The last but none: this tenant has no limits to be written. */
	at = saved_len - sizeof(struct state_saved);
	memcpy(&size, saved + at, sizeof(size));
	ASSERT_EQ(sizeof(struct state_saved), size);
	saved = realloc(saved, saved_len + 16);
	size += 16;
	memcpy(saved + at, &size, sizeof(size));
	memset(saved + saved_len, 0xaa, 16);
	saved_len += 16;
	ASSERT_EQ(0, load(self, saved_len, &got, &lost));
	ASSERT_EQ(1, got);
	ASSERT_EQ(1, peek(self, client_of(self, "a"), 10, 1));
	/* One that is shorter than any was is damaged. */
	size = STATE_PAGE_MIN - 8;
	memcpy(saved + at, &size, sizeof(size));
	ASSERT_EQ(-EBADMSG, load(self, at + size, &got, &lost));
	free(saved);
}

TEST_F(ledger, whoever_stores_pages_can_stop_it)
{
	struct kvl_client *c = lone_user(self, 4);
	FILE *f = open_memstream(&saved, &saved_len);
	int nr = -10;
	u64 pages[4];

	cache(self, c, 1, 10, pages);
	ASSERT_EQ(-EINTR, state_save(self->l, f, self->now, count, &nr));
	fclose(f);
	free(saved);
}

TEST_HARNESS_MAIN
