// SPDX-License-Identifier: MIT
/*
 * test_cmd_counters.c - KVCACHE_POOL_GET, after each thing that it counts, and
 * KVCACHE_GRANT_GET.
 */
#include <errno.h>
#include <time.h>

#include "cmd_kit.h"

static struct kvcache_pool_get was, is;

static uint64_t sum(const __u64 *n, uint32_t nr)
{
	uint64_t all = 0;

	while (nr--)
		all += n[nr];
	return all;
}

/* Reads all, and checks what holds at each moment. */
static void read_counters(SELF)
{
	const struct kvcache_pool_info *i = &is.out_info;

	was = is;
	POISON(is);
	is.pool = 0;
	is.__reserved = 0;
	ASSERT_EQ(0, call(self, KVCACHE_NR_POOL_GET, &is));
	ASSERT_EQ(0, is.pool);
	ASSERT_GE(is.out_seq, was.out_seq);
	ASSERT_EQ(i->reclaims, sum(is.out_reclaims, KVCACHE_RECLAIM_CAUSES));
	ASSERT_LE(is.out_volatile, i->reclaims);
	ASSERT_EQ(i->allocs - is.out_frees, i->nr_pages - i->nr_free);
	ASSERT_LE(is.out_unzeroed + is.out_lost, i->nr_retiring);
	ASSERT_EQ(sum(is.out_waits, KVCACHE_WAIT_ENDS),
		  sum(is.out_wait_times, KVCACHE_WAIT_BUCKETS));
}

#define GREW(n, member)	ASSERT_EQ((n), is.member - was.member)

static int try_alloc(SELF, uint32_t nr, uint64_t deadline_ns)
{
	static struct kvcache_alloc a;

	POISON(a);
	a.pool = 0;
	a.nr = nr;
	a.deadline_ns = deadline_ns;
	return call(self, KVCACHE_NR_ALLOC, &a);
}

static void free_pages(SELF, const uint64_t *pages, uint32_t nr)
{
	static struct kvcache_free f;

	POISON(f);
	f.pool = 0;
	f.nr = nr;
	memcpy(f.pages, pages, nr * sizeof(*pages));
	ASSERT_EQ(0, call(self, KVCACHE_NR_FREE, &f));
}

static void publish(SELF, uint64_t *page, uint32_t key)
{
	static struct kvcache_publish p;

	fill_publish(&p, *page, key);
	ASSERT_EQ(0, call(self, KVCACHE_NR_PUBLISH, &p));
	*page = p.pages[0].out_handle;
}

static void set_limits(SELF, uint64_t low, uint64_t max)
{
	struct kvcache_tenant_set set = {
		.size = sizeof(set), .tenant = self->tenant,
		.set = KVCACHE_SET_LIMITS, .low = low, .max = max,
		.deadline_ns = NEVER,
	};

	ASSERT_EQ(0, call(self, KVCACHE_NR_TENANT_SET, &set));
}

static uint64_t in_ms(uint64_t ms)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec + ms * 1000000;
}

TEST_F(cmd, a_pool_that_is_new)
{
	static const struct kvcache_pool_get none;

	read_counters(self);
	ASSERT_EQ(16, is.out_info.nr_free);
	ASSERT_EQ(0, memcmp(&is.out_unzeroed, &none.out_unzeroed,
			    sizeof(is) - offsetof(struct kvcache_pool_get,
						  out_unzeroed)));
}

TEST_F(cmd, which_pool)
{
	POISON(is);
	is.__reserved = 0;
	is.pool = 1;
	REFUSED(ENOENT, KVCACHE_NR_POOL_GET, is);
	is.pool = KVCACHE_MAX_POOLS;
	REFUSED(ENOENT, KVCACHE_NR_POOL_GET, is);
	is.pool = ~0U;
	REFUSED(ENOENT, KVCACHE_NR_POOL_GET, is);
}

TEST_F(cmd, pages_are_counted)
{
	uint64_t h[3];

	ASSERT_EQ(0, attach(self));
	read_counters(self);
	alloc(self, 3, h);
	publish(self, &h[0], 1);
	publish(self, &h[1], 2);
	read_counters(self);
	GREW(3, out_info.allocs);
	GREW(2, out_publishes);
	GREW(0, out_dedups);
	/* The third is the first: its own page goes. */
	publish(self, &h[2], 1);
	ASSERT_EQ(h[0], h[2]);
	read_counters(self);
	GREW(0, out_publishes);
	GREW(1, out_dedups);
	free_pages(self, h, 3);
	read_counters(self);
	GREW(0, out_info.reclaims);
	ASSERT_EQ(2, is.out_info.nr_cached);
}

TEST_F(cmd, refusals_are_counted)
{
	uint64_t h[16];

	ASSERT_EQ(0, attach(self));
	set_limits(self, 0, 8);
	alloc(self, 5, h);
	read_counters(self);
	ASSERT_EQ(-EDQUOT, try_alloc(self, 4, 0));
	ASSERT_EQ(-E2BIG, try_alloc(self, 9, 0));
	ASSERT_EQ(-E2BIG, try_alloc(self, 256, NEVER));
	/* These are mistakes. */
	ASSERT_EQ(-EINVAL, try_alloc(self, 0, 0));
	ASSERT_EQ(-EINVAL, try_alloc(self, 257, 0));
	read_counters(self);
	GREW(1, out_refusals[KVCACHE_REFUSED_EDQUOT]);
	GREW(2, out_refusals[KVCACHE_REFUSED_E2BIG]);
	ASSERT_EQ(sum(was.out_refusals, 4) + 3, sum(is.out_refusals, 4));
}

/* What waits for a time that is over by then. */
TEST_F(cmd, waits_are_counted_and_timed)
{
	uint64_t h[16];
	uint32_t k;

	ASSERT_EQ(0, attach(self));
	set_limits(self, 0, 8);
	alloc(self, 8, h);
	read_counters(self);
	ASSERT_EQ(-ETIMEDOUT, try_alloc(self, 1, in_ms(20)));
	read_counters(self);
	GREW(1, out_waits[KVCACHE_WAIT_TIMED_OUT]);
	ASSERT_EQ(sum(was.out_waits, KVCACHE_WAIT_ENDS) + 1,
		  sum(is.out_waits, KVCACHE_WAIT_ENDS));
	/* Not less than it was given, rounded to what clocks are read for. */
	ASSERT_GE(is.out_wait_ns - was.out_wait_ns, 15000000);
	/* Less than 1024 or 4096 us it cannot have been. */
	for (k = 0; k < 7; k++)
		GREW(0, out_wait_times[k]);
	/* It is no refusal. */
	ASSERT_EQ(0, memcmp(was.out_refusals, is.out_refusals,
			    sizeof(is.out_refusals)));
}

TEST_F(cmd, what_was_taken_and_why)
{
	uint64_t h[16], g[16];
	uint32_t k;

	ASSERT_EQ(0, attach(self));
	alloc(self, 16, h);
	for (k = 0; k < 16; k++)
		publish(self, &h[k], k);
	free_pages(self, h, 16);
	read_counters(self);
	ASSERT_EQ(16, is.out_info.nr_cached);
	/* It is above its low: pass 1. */
	alloc(self, 2, g);
	read_counters(self);
	GREW(2, out_reclaims[KVCACHE_RECLAIM_LOW]);
	GREW(2, out_info.reclaims);
	/* Now it is not: pass 2. */
	set_limits(self, 16, NEVER);
	alloc(self, 1, g + 2);
	read_counters(self);
	GREW(1, out_reclaims[KVCACHE_RECLAIM_MIN]);
	GREW(1, out_info.reclaims);
	/* Ten less: its own. */
	set_limits(self, 0, 6);
	read_counters(self);
	GREW(10, out_reclaims[KVCACHE_RECLAIM_OWN]);
	GREW(10, out_info.reclaims);
	GREW(0, out_volatile);
}

TEST_F(cmd, volatile_pages_that_were_taken)
{
	static struct kvcache_advise a;
	uint64_t h[16], g[2];

	ASSERT_EQ(0, attach(self));
	alloc(self, 16, h);
	POISON(a);
	a.pool = 0;
	a.nr = 4;
	a.advice = KVCACHE_ADVISE_VOLATILE;
	a.priority = 0;
	a.ttl_ns = 0;
	memcpy(a.pages, h, sizeof(h));
	ASSERT_EQ(0, call(self, KVCACHE_NR_ADVISE, &a));
	read_counters(self);
	alloc(self, 2, g);
	read_counters(self);
	GREW(2, out_volatile);
	GREW(2, out_info.reclaims);
	GREW(0, out_expired);
	GREW(0, out_revokes);
}

/* ---- grants -------------------------------------------------------------- */

static void grant(SELF, uint32_t from, uint32_t to, uint32_t rights,
		  uint64_t max)
{
	struct kvcache_tenant_grant g = {
		.size = sizeof(g), .tenant = from, .to = to, .rights = rights,
		.max_held = max,
	};

	ASSERT_EQ(0, call(self, KVCACHE_NR_TENANT_GRANT, &g));
}

/* The reply from @start on. */
static struct kvcache_grant_get *grants(SELF, uint32_t start)
{
	static struct kvcache_grant_get g;

	POISON(g);
	g.__reserved = 0;
	g.start = start;
	ASSERT_EQ(0, call(self, KVCACHE_NR_GRANT_GET, &g));
	ASSERT_EQ(start, g.start);
	return &g;
}

static uint32_t add_tenant(SELF, const char *name)
{
	struct kvcache_tenant_set set = { .size = sizeof(set) };

	snprintf(set.name, sizeof(set.name), "%s", name);
	ASSERT_EQ(0, call(self, KVCACHE_NR_TENANT_CREATE, &set));
	return set.out_tenant;
}

TEST_F(cmd, grants_are_listed)
{
	const struct kvcache_grant_get *g;
	const uint32_t a = self->tenant, b = a + 1, c = a + 2;

	g = grants(self, 0);
	ASSERT_EQ(0, g->out_nr);
	ASSERT_EQ(0, g->out_next);
	ASSERT_EQ(b, add_tenant(self, "b"));
	ASSERT_EQ(c, add_tenant(self, "c"));
	grant(self, b, a, 1, 7);
	grant(self, a, c, 3, NEVER);
	grant(self, a, b, 2, 0);
	g = grants(self, 0);
	ASSERT_EQ(3, g->out_nr);
	ASSERT_EQ(0, g->out_next);
	ASSERT_EQ(b, g->out_info[0].from);
	ASSERT_EQ(a, g->out_info[0].to);
	ASSERT_EQ(1, g->out_info[0].rights);
	ASSERT_EQ(0, g->out_info[0].__reserved);
	ASSERT_EQ(7, g->out_info[0].max_held);
	ASSERT_EQ(0, g->out_info[0].held);
	ASSERT_EQ(b, g->out_info[1].to);
	ASSERT_EQ(c, g->out_info[2].to);
	ASSERT_EQ(NEVER, g->out_info[2].max_held);
	/* What is behind the last one is zeros. */
	ASSERT_EQ(0, g->out_info[3].to);
	ASSERT_EQ(0, g->out_info[KVCACHE_GET_GRANTS - 1].rights);
	g = grants(self, b << 16 | a);
	ASSERT_EQ(2, g->out_nr);
	g = grants(self, (b << 16 | a) + 1);
	ASSERT_EQ(1, g->out_nr);
	ASSERT_EQ(c, g->out_info[0].to);
	ASSERT_EQ(0, grants(self, (c << 16 | a) + 1)->out_nr);
	ASSERT_EQ(0, grants(self, ~0U)->out_nr);
	grant(self, a, c, 0, 0);
	ASSERT_EQ(2, grants(self, 0)->out_nr);
}

TEST_F(cmd, more_grants_than_a_reply_has)
{
	const struct kvcache_grant_get *g;
	uint32_t k, j, n = 0, last = 0, start = 0;
	const uint32_t a = self->tenant;
	char name[16];

	/* Twelve that let each other in: 132. */
	for (k = 1; k < 12; k++) {
		snprintf(name, sizeof(name), "g%u", k);
		ASSERT_EQ(a + k, add_tenant(self, name));
	}
	for (k = 0; k < 12; k++)
		for (j = 0; j < 12; j++)
			if (j != k)
				grant(self, a + k, a + j, 1, k);
	do {
		g = grants(self, start);
		ASSERT_EQ(start ? 4 : KVCACHE_GET_GRANTS, g->out_nr);
		for (k = 0; k < g->out_nr; k++, n++) {
			const struct kvcache_grant_info *i = &g->out_info[k];

			ASSERT_LT(last, i->to << 16 | i->from);
			last = i->to << 16 | i->from;
			ASSERT_EQ(i->from - a, i->max_held);
		}
		start = g->out_next;
	} while (start);
	ASSERT_EQ(132, n);
}

TEST_HARNESS_MAIN
