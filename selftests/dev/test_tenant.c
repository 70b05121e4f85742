// SPDX-License-Identifier: MIT
/*
 * test_tenant.c - tenants: what they are charged, what limits them, what they
 * let each other do, and what is taken from them.
 */
#include <pthread.h>

#include "child.h"

#define MAX	KVCACHE_LIMIT_MAX
#define RED	0
#define BLUE	1

static int limit(struct world *w, int k, uint64_t min, uint64_t low,
		 uint64_t max)
{
	return dev_limits(w->admin, w->tenant[k], w->pool, min, low, max,
			  NEVER);
}

static struct kvcache_tenant_info info(struct world *w, int k)
{
	struct kvcache_tenant_info t;

	memset(&t, 0xcc, sizeof(t));
	dev_tenant_info(w->admin, w->pool, w->tenant[k], &t);
	return t;
}

/* What ALLOC says, and what it lacks. */
static int alloc(struct world *w, int k, uint32_t nr, uint64_t *missing)
{
	struct kvcache_alloc a;
	int rc;

	POISON(a);
	a.pool = w->pool;
	a.nr = nr;
	a.deadline_ns = 0;
	rc = dev_call(w->fd[k], KVCACHE_NR_ALLOC, &a);
	*missing = a.out_missing;
	return rc;
}

static int grant_to(struct world *w, uint32_t from, uint32_t to,
		    uint32_t rights, uint64_t max_held)
{
	struct kvcache_tenant_grant g = {
		.size = sizeof(g), .tenant = from, .to = to, .rights = rights,
		.max_held = max_held,
	};

	return dev_call(w->admin, KVCACHE_NR_TENANT_GRANT, &g);
}

static int grant(struct world *w, int from, int to, uint32_t rights,
		 uint64_t max_held)
{
	return grant_to(w, w->tenant[from], w->tenant[to], rights, max_held);
}

/* A new page of the client under the key, with a reference. */
static int publish(struct world *w, int k, uint32_t key, uint64_t *page)
{
	int err = dev_alloc(w->fd[k], w->pool, 1, page);

	return err ? err : dev_publish(w->fd[k], w->pool, page, key);
}

/* The same, but nobody holds it. */
static int cache(struct world *w, int k, uint32_t key)
{
	uint64_t page;
	int err = publish(w, k, key, &page);

	return err ? err : dev_free(w->fd[k], w->pool, &page, 1);
}

/* ---- limits -------------------------------------------------------------- */

TEST_F(dev, pages_are_charged_and_the_peak_stays)
{
	struct world *w = &self->w;
	uint64_t pages[5];

	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, 5, pages));
	EXPECT_EQ(5, info(w, RED).cur);
	EXPECT_EQ(0, info(w, BLUE).cur);
	ASSERT_EQ(0, dev_publish(w->fd[RED], w->pool, &pages[4], 1));
	EXPECT_EQ(5, info(w, RED).cur);
	ASSERT_EQ(0, dev_free(w->fd[RED], w->pool, pages, 5));
	ASSERT_TRUE(SOON(info(w, RED).cur == 1));
	EXPECT_EQ(1, info(w, RED).nr_cached);
	EXPECT_EQ(5, info(w, RED).peak);
}

TEST_F(dev, a_max_is_met_and_not_passed)
{
	struct world *w = &self->w;
	uint64_t missing, pages[4];

	ASSERT_EQ(0, limit(w, RED, 0, 0, 4));
	EXPECT_EQ(-E2BIG, alloc(w, RED, 6, &missing));
	EXPECT_EQ(2, missing);
	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, 3, pages));
	EXPECT_EQ(-EDQUOT, alloc(w, RED, 3, &missing));
	EXPECT_EQ(2, missing);
	EXPECT_EQ(1, info(w, RED).ev_max);
	EXPECT_EQ(3, info(w, RED).cur);
	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, 1, &pages[3]));
	EXPECT_EQ(-EDQUOT, alloc(w, RED, 1, &missing));
	EXPECT_EQ(1, missing);
	EXPECT_EQ(4, info(w, RED).peak);
	ASSERT_EQ(0, limit(w, BLUE, 0, 0, 0));
	EXPECT_EQ(-E2BIG, alloc(w, BLUE, 1, &missing));
	/* Of the pool there is more. */
	ASSERT_EQ(0, limit(w, BLUE, 0, 0, MAX));
	EXPECT_EQ(-ENOSPC, alloc(w, BLUE, PAGES - 3, &missing));
	EXPECT_EQ(1, missing);
}

TEST_F(dev, at_its_max_a_tenant_gives_up_what_it_cached)
{
	struct world *w = &self->w;
	uint64_t page;

	ASSERT_EQ(0, limit(w, RED, 0, 0, 2));
	ASSERT_EQ(0, cache(w, RED, 1));
	ASSERT_EQ(0, cache(w, RED, 2));
	ASSERT_EQ(0, cache(w, BLUE, 1));
	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, 1, &page));
	EXPECT_EQ(-ENOENT, dev_lookup(w->fd[RED], w->pool, 1, &page));
	EXPECT_EQ(0, dev_lookup(w->fd[RED], w->pool, 2, &page));
	EXPECT_EQ(0, dev_lookup(w->fd[BLUE], w->pool, 1, &page));
	EXPECT_EQ(1, info(w, RED).ev_reclaim);
	EXPECT_EQ(0, info(w, BLUE).ev_reclaim);
}

TEST_F(dev, what_is_promised_is_nobody_elses)
{
	struct world *w = &self->w;
	uint64_t missing, pages[PAGES];

	ASSERT_EQ(0, limit(w, BLUE, 4, 0, MAX));
	EXPECT_EQ(-E2BIG, alloc(w, RED, PAGES - 3, &missing));
	EXPECT_EQ(1, missing);
	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, PAGES - 4, pages));
	EXPECT_EQ(-ENOSPC, alloc(w, RED, 1, &missing));
	ASSERT_EQ(0, dev_alloc(w->fd[BLUE], w->pool, 4, pages));
	/* The sum of all is the pool at most. */
	EXPECT_EQ(-ENOSPC, limit(w, RED, PAGES - 3, 0, MAX));
	EXPECT_EQ(0, info(w, RED).min);
	EXPECT_EQ(0, limit(w, RED, PAGES - 4, 0, MAX));
}

TEST_F(dev, reclaim_spares_low_and_never_touches_min)
{
	struct world *w = &self->w;
	uint64_t pages[PAGES], page;
	uint32_t key;

	for (key = 0; key < 4; key++)
		ASSERT_EQ(0, cache(w, RED, key));
	for (key = 0; key < 4; key++)
		ASSERT_EQ(0, cache(w, BLUE, key));
	ASSERT_EQ(0, limit(w, RED, 2, 4, MAX));
	/* Red's are older, and low. */
	ASSERT_EQ(0, dev_alloc(w->fd[BLUE], w->pool, PAGES - 8 + 4, pages));
	EXPECT_EQ(0, info(w, RED).ev_reclaim);
	EXPECT_EQ(4, info(w, BLUE).ev_reclaim);
	/* Nothing else is left. */
	ASSERT_EQ(0, dev_alloc(w->fd[BLUE], w->pool, 2, pages));
	EXPECT_EQ(2, info(w, RED).ev_reclaim);
	EXPECT_EQ(-ENOSPC, dev_alloc(w->fd[BLUE], w->pool, 1, &page));
	EXPECT_EQ(2, info(w, RED).nr_cached);
	EXPECT_EQ(0, dev_lookup(w->fd[RED], w->pool, 3, &page));
}

TEST_F(dev, a_lowered_max_takes_cached_pages_at_once)
{
	struct world *w = &self->w;
	uint32_t key;

	for (key = 0; key < 4; key++)
		ASSERT_EQ(0, cache(w, RED, key));
	ASSERT_EQ(0, limit(w, RED, 0, 0, 1));
	ASSERT_TRUE(SOON(info(w, RED).cur == 1));
	EXPECT_EQ(1, info(w, RED).nr_cached);
	EXPECT_EQ(1, info(w, RED).max);
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES - 1));
}

/* ---- revocation ---------------------------------------------------------- */

TEST_F(dev, what_is_above_the_max_is_revoked_at_the_deadline)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[RED], w->pool, true);
	char *ro = dev_window(w->fd[RED], w->pool, false);
	uint64_t pages[4], page, at = dev_now() + 300000000;
	int k;

	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, 4, pages));
	for (k = 0; k < 4; k++)
		rw[(uint32_t)pages[k] * PAGE] = 'r';
	ASSERT_EQ(0, dev_publish(w->fd[RED], w->pool, &pages[2], 9));
	EXPECT_EQ('r', ro[(uint32_t)pages[2] * PAGE]);
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[RED], w->pool, 0, 0, 2,
				at));
	EXPECT_EQ(4, info(w, RED).cur);
	EXPECT_EQ('r', rw[(uint32_t)pages[3] * PAGE]);
	ASSERT_TRUE(SOON(info(w, RED).ev_revoke == 2));
	EXPECT_LE(at, dev_now());
	/* The highest numbers go. */
	EXPECT_EQ('r', rw[(uint32_t)pages[0] * PAGE]);
	EXPECT_EQ('r', rw[(uint32_t)pages[1] * PAGE]);
	EXPECT_TRUE(SOON(info(w, RED).cur == 2));
	EXPECT_EQ(SIGBUS, dev_touch(ro + (uint32_t)pages[2] * PAGE, false));
	EXPECT_EQ(SIGBUS, dev_touch(rw + (uint32_t)pages[3] * PAGE, true));
	EXPECT_EQ(-ESTALE, dev_free(w->fd[RED], w->pool, &pages[2], 1));
	EXPECT_EQ(-ESTALE, dev_free(w->fd[RED], w->pool, &pages[3], 1));
	EXPECT_EQ(-ENOENT, dev_lookup(w->fd[RED], w->pool, 9, &page));
	EXPECT_EQ(0, dev_free(w->fd[RED], w->pool, pages, 2));
}

TEST_F(dev, without_a_deadline_nothing_is_revoked)
{
	struct world *w = &self->w;
	uint64_t pages[4];

	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, 4, pages));
	ASSERT_EQ(0, limit(w, RED, 0, 0, 2));
	/* A deadline that is called off in time, */
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[RED], w->pool, 0, 0, 1,
				dev_now() + 300000000));
	ASSERT_EQ(0, limit(w, RED, 0, 0, 2));
	usleep(500000);
	EXPECT_EQ(0, info(w, RED).ev_revoke);
	EXPECT_EQ(4, info(w, RED).cur);
	/* and one in the past. */
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[RED], w->pool, 0, 0, 2,
				0));
	EXPECT_TRUE(SOON(info(w, RED).ev_revoke == 2));
}

TEST_F(dev, cached_pages_end_after_their_time_to_live)
{
	struct kvcache_tenant_set s = {
		.size = sizeof(s), .tenant = self->w.tenant[RED],
		.set = KVCACHE_SET_TTL, .ttl_ns = 400000000,
	};
	struct world *w = &self->w;
	uint64_t held, page, began;

	ASSERT_EQ(0, publish(w, RED, 1, &held));
	ASSERT_EQ(0, cache(w, BLUE, 2));
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_SET, &s));
	began = dev_now();
	ASSERT_EQ(0, cache(w, RED, 2));
	EXPECT_EQ(0, dev_lookup(w->fd[RED], w->pool, 2, &page));
	ASSERT_EQ(0, dev_free(w->fd[RED], w->pool, &page, 1));
	ASSERT_TRUE(SOON(info(w, RED).nr_cached == 0));
	EXPECT_LE(began + 400000000, dev_now());
	EXPECT_EQ(-ENOENT, dev_lookup(w->fd[RED], w->pool, 2, &page));
	/* One that is held lives, and so do those of others. */
	EXPECT_EQ(0, dev_lookup(w->fd[RED], w->pool, 1, &page));
	EXPECT_EQ(0, dev_lookup(w->fd[BLUE], w->pool, 2, &page));
}

/* ---- grants -------------------------------------------------------------- */

TEST_F(dev, a_granted_domain_is_charged_and_bounded)
{
	struct world *w = &self->w;
	uint64_t pages[4], found;
	int k;

	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, 4, pages));
	EXPECT_EQ(-EPERM, dev_publish_as(w->fd[RED], w->pool, &pages[0], 0, 0,
					 w->tenant[BLUE], NULL));
	ASSERT_EQ(0, grant(w, BLUE, RED, KVCACHE_GRANT_LOOKUP, 2));
	EXPECT_EQ(-EPERM, dev_publish_as(w->fd[RED], w->pool, &pages[0], 0, 0,
					 w->tenant[BLUE], NULL));
	ASSERT_EQ(0, grant(w, BLUE, RED, KVCACHE_GRANT_PUBLISH, 2));
	EXPECT_EQ(1, info(w, BLUE).grants);
	for (k = 0; k < 2; k++)
		ASSERT_EQ(0, dev_publish_as(w->fd[RED], w->pool, &pages[k], k,
					    0, w->tenant[BLUE], NULL));
	EXPECT_EQ(2, info(w, RED).cur);
	EXPECT_EQ(2, info(w, BLUE).cur);
	/* The bound of the grant, then the domain's own max. */
	EXPECT_EQ(-EDQUOT, dev_publish_as(w->fd[RED], w->pool, &pages[2], 2, 0,
					  w->tenant[BLUE], NULL));
	ASSERT_EQ(0, grant(w, BLUE, RED, KVCACHE_GRANT_PUBLISH, 3));
	ASSERT_EQ(0, limit(w, BLUE, 0, 0, 2));
	EXPECT_EQ(-EDQUOT, dev_publish_as(w->fd[RED], w->pool, &pages[2], 2, 0,
					  w->tenant[BLUE], NULL));
	EXPECT_EQ(2, info(w, RED).cur);
	/* Who may publish there need not find it there. */
	EXPECT_EQ(-ENOENT, dev_lookup(w->fd[RED], w->pool, 0, &found));
	ASSERT_EQ(0, dev_lookup(w->fd[BLUE], w->pool, 0, &found));
	EXPECT_EQ(pages[0], found);
	EXPECT_EQ(0, dev_free(w->fd[RED], w->pool, pages, 4));
	EXPECT_EQ(2, info(w, BLUE).cur);
}

TEST_F(dev, a_grant_lets_look_up_until_it_is_taken_back)
{
	struct world *w = &self->w;
	char *ro = dev_window(w->fd[BLUE], w->pool, false);
	uint64_t page, found, second;

	ASSERT_EQ(0, publish(w, RED, 1, &page));
	ASSERT_EQ(0, publish(w, RED, 2, &second));
	EXPECT_EQ(-ENOENT, dev_lookup(w->fd[BLUE], w->pool, 1, &found));
	ASSERT_EQ(0, grant(w, RED, BLUE, KVCACHE_GRANT_PUBLISH, 9));
	EXPECT_EQ(-ENOENT, dev_lookup(w->fd[BLUE], w->pool, 1, &found));
	ASSERT_EQ(0, grant(w, RED, BLUE, KVCACHE_GRANT_LOOKUP, 1));
	ASSERT_EQ(0, dev_lookup(w->fd[BLUE], w->pool, 1, &found));
	EXPECT_EQ(page, found);
	/* One page at a time is the bound, whatever the references. */
	EXPECT_EQ(-ENOENT, dev_lookup(w->fd[BLUE], w->pool, 2, &second));
	EXPECT_EQ(0, dev_lookup(w->fd[BLUE], w->pool, 1, &found));
	EXPECT_EQ(0, info(w, BLUE).cur);
	EXPECT_EQ(0, dev_touch(ro + (uint32_t)page * PAGE, false));
	/* What it holds it keeps. */
	ASSERT_EQ(0, grant(w, RED, BLUE, 0, 0));
	EXPECT_EQ(0, info(w, RED).grants);
	EXPECT_EQ(-ENOENT, dev_lookup(w->fd[BLUE], w->pool, 1, &found));
	EXPECT_EQ(0, dev_touch(ro + (uint32_t)page * PAGE, false));
	EXPECT_EQ(0, dev_free(w->fd[BLUE], w->pool, &page, 1));
	EXPECT_EQ(0, dev_free(w->fd[BLUE], w->pool, &page, 1));
	EXPECT_EQ(SIGBUS, dev_touch(ro + (uint32_t)page * PAGE, false));
	EXPECT_EQ(-EPERM, dev_free(w->fd[BLUE], w->pool, &page, 1));
}

/* ---- the end ------------------------------------------------------------- */

TEST_F(dev, a_flush_gives_up_cached_pages_and_forgets_keys)
{
	struct world *w = &self->w;
	struct kvcache_tenant_ref ref = {
		.size = sizeof(ref), .tenant = w->tenant[RED], .pool = ~0U,
		.out_pages = 99,
	};
	char *ro = dev_window(w->fd[RED], w->pool, false);
	uint64_t held, page;

	ASSERT_EQ(0, publish(w, RED, 1, &held));
	ASSERT_EQ(0, cache(w, RED, 2));
	ASSERT_EQ(0, cache(w, RED, 3));
	ASSERT_EQ(0, cache(w, BLUE, 2));
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_FLUSH, &ref));
	EXPECT_EQ(2, ref.out_pages);
	EXPECT_EQ(-ENOENT, dev_lookup(w->fd[RED], w->pool, 1, &page));
	EXPECT_EQ(-ENOENT, dev_lookup(w->fd[RED], w->pool, 2, &page));
	EXPECT_EQ(0, dev_lookup(w->fd[BLUE], w->pool, 2, &page));
	EXPECT_EQ(0, dev_touch(ro + (uint32_t)held * PAGE, false));
	/* Found no more, it is not worth keeping. */
	ASSERT_EQ(0, dev_free(w->fd[RED], w->pool, &held, 1));
	EXPECT_TRUE(SOON(info(w, RED).cur == 0));
	EXPECT_EQ(0, info(w, RED).nr_cached);
}

/* More than one hold of the ledger's lock gives up. */
#define MANY	4200

/* A pool of so many pages, all cached under keys from 0 on; or -1. */
static int cached_pool(struct world *w, uint32_t many)
{
	int pool = dev_pool(w->admin, "many", PAGE, many);
	uint64_t pages[KVCACHE_MAX_PAGES];
	uint32_t done, nr, k;

	for (done = 0; pool >= 0 && done < many; done += nr) {
		nr = many - done < KVCACHE_MAX_PAGES ? many - done :
						       KVCACHE_MAX_PAGES;
		if (dev_alloc(w->fd[RED], pool, nr, pages))
			return -1;
		for (k = 0; k < nr; k++)
			if (dev_publish(w->fd[RED], pool, &pages[k], done + k))
				return -1;
		if (dev_free(w->fd[RED], pool, pages, nr))
			return -1;
	}
	return pool;
}

TEST_F(dev, a_flush_gives_up_all_however_many)
{
	struct world *w = &self->w;
	struct kvcache_tenant_ref ref = {
		.size = sizeof(ref), .tenant = w->tenant[RED], .pool = ~0U,
	};
	int pool = cached_pool(w, MANY);
	struct kvcache_tenant_info t;

	ASSERT_LE(0, pool);
	ASSERT_EQ(0, cache(w, RED, 1));
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_FLUSH, &ref));
	EXPECT_EQ(MANY + 1, ref.out_pages);
	ASSERT_EQ(0, dev_tenant_info(w->admin, pool, w->tenant[RED], &t));
	EXPECT_EQ(0, t.nr_cached);
	ASSERT_TRUE(dev_settles(w->admin, pool, MANY));
	EXPECT_EQ(0, dev_pool_op(w->admin, pool, KVCACHE_POOL_REMOVE, 0,
				 NULL));
}

/* More than two slices, so that one ends where others are left. */
#define SLICES	8400

struct looker {
	struct world *w;
	int pool;
	bool stop;
};

/* Holds what it finds from then on when the max is another. */
static void *look_up_meanwhile(void *arg)
{
	struct looker *l = arg;
	struct kvcache_tenant_info t;
	uint64_t page;
	uint32_t k;

	do
		dev_tenant_info(l->w->admin, l->pool, l->w->tenant[RED], &t);
	while (t.max == MAX && !__atomic_load_n(&l->stop, __ATOMIC_RELAXED));
	for (k = 0; k < SLICES; k++) {
		if (__atomic_load_n(&l->stop, __ATOMIC_RELAXED))
			break;
		/* Those that are taken last. */
		dev_lookup(l->w->fd[RED], l->pool, SLICES - 1 - k, &page);
	}
	return NULL;
}

TEST_F(dev, a_lowered_max_is_met_whoever_looks_up_meanwhile)
{
	struct world *w = &self->w;
	struct looker l = { .w = w, .pool = cached_pool(w, SLICES) };
	struct kvcache_tenant_ref ref = {
		.size = sizeof(ref), .tenant = w->tenant[RED], .pool = l.pool,
	};
	struct kvcache_tenant_info t = { 0 };
	pthread_t thread;

	ASSERT_LE(0, l.pool);
	ASSERT_EQ(0, pthread_create(&thread, NULL, look_up_meanwhile, &l));
	EXPECT_EQ(0, dev_limits(w->admin, w->tenant[RED], l.pool, 0, 0, 5,
				dev_now() + 300000000));
	__atomic_store_n(&l.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_TRUE(SOON(!dev_tenant_info(w->admin, l.pool, w->tenant[RED],
					  &t) && t.cur <= 5));
	printf("# %llu pages were revoked\n", (unsigned long long)t.ev_revoke);
	close(w->fd[RED]);
	w->fd[RED] = -1;
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_FLUSH, &ref));
	ASSERT_TRUE(dev_settles(w->admin, l.pool, SLICES));
	EXPECT_EQ(0, dev_pool_op(w->admin, l.pool, KVCACHE_POOL_REMOVE, 0,
				 NULL));
}

TEST_F(dev, a_tenant_in_use_is_not_removed)
{
	struct world *w = &self->w;
	struct kvcache_tenant_ref ref = { .size = sizeof(ref) };
	uint64_t page, found;
	int green, fd;

	green = dev_tenant(w->admin, "green", w->pool, 0, MAX);
	ASSERT_LT(0, green);
	ref.tenant = green;
	fd = dev_client("green");
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EBUSY, dev_call(w->admin, KVCACHE_NR_TENANT_REMOVE, &ref));
	ASSERT_EQ(0, grant_to(w, green, w->tenant[RED], KVCACHE_GRANT_LOOKUP,
			      1));
	ASSERT_EQ(0, dev_alloc(fd, w->pool, 1, &page));
	ASSERT_EQ(0, dev_publish(fd, w->pool, &page, 1));
	ASSERT_EQ(0, dev_lookup(w->fd[RED], w->pool, 1, &found));
	close(fd);
	/* No client, but a page that somebody else holds. */
	EXPECT_EQ(-EBUSY, dev_call(w->admin, KVCACHE_NR_TENANT_REMOVE, &ref));
	ASSERT_EQ(0, dev_free(w->fd[RED], w->pool, &page, 1));
	ref.out_pages = 99;
	EXPECT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_REMOVE, &ref));
	EXPECT_EQ(1, ref.out_pages);
	EXPECT_EQ(-ENOENT, dev_call(w->admin, KVCACHE_NR_TENANT_REMOVE, &ref));
	EXPECT_EQ(-ENOENT, dev_client("green"));
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES));
}

TEST_HARNESS_MAIN
