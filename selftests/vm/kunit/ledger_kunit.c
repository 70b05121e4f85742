// SPDX-License-Identifier: MIT
/*
 * ledger_kunit.c - the ledger where it lives: its moves, one by one and at
 * random, with the kernel's compiler flags and checkers. What each of them
 * means is tested outside of it, in selftests/unit/.
 */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/prandom.h>

#include "ledger.h"

#define NR_PAGES	24
#define NR_STEPS	600

static uint seed;
module_param(seed, uint, 0444);
MODULE_PARM_DESC(seed, "of the random steps; 0 for one by chance");

/*
 * Client @c[k] is of tenant k + 1 and holds the first @nr[k] of @page[k]. A call
 * changes few pages at a time, so that others come between.
 */
struct world {
	struct kvl *l;
	struct rnd_state rnd;
	struct kvl_client *c[3];
	u32 nr[3];
	u64 page[3][NR_PAGES];
	struct kvcache_tenant_set set;
	struct kvcache_publish pub;
	struct kvcache_lookup look;
	struct kvcache_event ev;
	char why[128];
};

/* Runs a call, checks the ledger, and compares the result. */
#define DO(want, call)							\
	do {								\
		long long rc_ = (call);					\
									\
		kvl_verify(w->l, w->why, sizeof(w->why));		\
		KUNIT_ASSERT_STREQ(test, "", w->why);			\
		KUNIT_ASSERT_EQ(test, (long long)(want), rc_);		\
	} while (0)

/* What the memory's owner does; for how many pages. */
static int clean(struct world *w)
{
	u32 i, nr = 0;

	for (; (i = kvl_work_next(w->l, 0)); nr++)
		if (kvl_work_done(w->l, 0, i, true, 1))
			return -EUCLEAN;
	return nr;
}

static int get(struct world *w, u32 c, u32 nr)
{
	struct kvl_request r = { .nr = nr, .pages = &w->page[c][w->nr[c]] };

	/* It waits for pages that are on their way, and for no others. */
	if (kvl_alloc(w->l, w->c[c], &r, false, 1) == KVL_WAITING &&
	    (clean(w) < 1 || kvl_next_done(w->l) != &r))
		return -EUCLEAN;
	w->nr[c] += r.status ? 0 : nr;
	return r.status;
}

/* The last ones that it got. */
static int put(struct world *w, u32 c, u32 nr)
{
	w->nr[c] -= nr;
	return kvl_free(w->l, w->c[c], 0, &w->page[c][w->nr[c]], nr, 1);
}

/* Its page number @i. */
static int publish(struct world *w, u32 c, u32 i, u8 key)
{
	struct kvcache_publish_page *p = &w->pub.pages[0];
	int rc;

	w->pub = (struct kvcache_publish){ .nr = 1 };
	*p = (struct kvcache_publish_page){
		.handle = w->page[c][i], .nr_keys = 1,
		.priority = KVCACHE_PRIO_DEFAULT,
		.ttl_ns = KVCACHE_TIME_NEVER,
		.keys[0] = { .key = { key }, .fill = 1 },
	};
	rc = kvl_publish(w->l, w->c[c], &w->pub, NULL, 1);
	w->page[c][i] = rc ? w->page[c][i] : p->out_handle;
	return rc ? rc : p->out_result;
}

static int find(struct world *w, u32 c, u8 key)
{
	int rc;

	w->look = (struct kvcache_lookup){
		.nr_keys = 1, .keys_per_page = 1, .keys[0] = { key },
	};
	rc = kvl_lookup(w->l, w->c[c], &w->look, 1);
	if (rc || !w->look.out_nr_pages)
		return rc;
	w->page[c][w->nr[c]++] = w->look.out_found[0].handle;
	return 1;
}

static int set_max(struct world *w, u32 c, u64 max)
{
	w->set = (struct kvcache_tenant_set){
		.tenant = c + 1, .set = KVCACHE_SET_LIMITS, .max = max,
		.deadline_ns = KVCACHE_TIME_NEVER,
	};
	return kvl_tenant_set(w->l, &w->set, 1);
}

/* How often it was told of a lower max, since it was asked last. */
static int told(struct world *w, u32 c)
{
	int nr = 0;

	while (kvl_events(w->l, w->c[c], &w->ev, 1))
		nr += w->ev.type == KVCACHE_EV_SHRINK;
	return nr;
}

/* How many are PRIVATE, SHARED, CACHED and RETIRING: two digits each. */
static int states(struct world *w)
{
	struct kvcache_pool_info i;

	return kvl_pool_info(w->l, 0, &i) ?:
	       ((i.nr_private * 100 + i.nr_shared) * 100 + i.nr_cached) * 100 +
	       i.nr_retiring;
}

static int set_up(struct kunit *test)
{
	u32 s = seed ? seed : get_random_u32();
	struct kvl_config cfg = {
		.max_tenants = 8, .max_clients = 8, .nr_events = 64, .seed = 7,
	};
	static const struct kvl_pool_config pool_cfg = {
		.name = "host", .page_size = 65536, .nr_pages = NR_PAGES,
	};
	struct world *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);
	struct kvl_pool *pool;
	struct kvl_tenant *t;
	u32 k;

	KUNIT_ASSERT_NOT_NULL(test, w);
	test->priv = w;
	prandom_seed_state(&w->rnd, s);
	cfg.slice = 1 + prandom_u32_state(&w->rnd) % 4;
	kunit_info(test, "seed %u, slices of %u\n", s, cfg.slice);
	w->l = kvl_create(&cfg);
	KUNIT_ASSERT_NOT_NULL(test, w->l);
	kvl_nodes_add(w->l, kvl_nodes_alloc(400));
	DO(0, kvl_pool_alloc(w->l, &pool_cfg, &pool));
	DO(0, kvl_pool_add(w->l, pool));
	for (k = 0; k < 3; k++) {
		t = kvl_tenant_alloc(w->l);
		w->c[k] = kvl_client_alloc(w->l);
		KUNIT_ASSERT_TRUE(test, t && w->c[k]);
		w->set = (struct kvcache_tenant_set){
			.set = KVCACHE_SET_LIMITS, .min = k ? 0 : 4,
			.max = k ? NR_PAGES / 2 : NR_PAGES, .name[0] = 'a' + k,
			.deadline_ns = KVCACHE_TIME_NEVER,
		};
		DO(0, kvl_tenant_create(w->l, t, &w->set, 1));
		DO(0, kvl_client_attach(w->l, w->c[k], w->set.out_tenant));
	}
	return 0;
}

static void tear_down(struct kunit *test)
{
	struct world *w = test->priv;

	if (w && w->l)
		kvl_destroy(w->l);
}

static void pages_move(struct kunit *test)
{
	struct world *w = test->priv;
	u64 old;

	DO(0, get(w, 1, 3));
	DO(3000000, states(w));
	old = w->page[1][2];
	DO(-EPERM, kvl_free(w->l, w->c[0], 0, &old, 1, 1));
	DO(0, put(w, 1, 1));
	DO(2000001, states(w));
	DO(-ESTALE, kvl_free(w->l, w->c[1], 0, &old, 1, 1));
	DO(KVCACHE_PUBLISHED, publish(w, 1, 0, 1));
	DO(KVCACHE_DEDUPLICATED, publish(w, 1, 1, 1));
	DO(10002, states(w));
	DO(0, put(w, 1, 2));
	DO(102, states(w));
	DO(0, find(w, 0, 1));
	DO(1, find(w, 1, 1));
	DO(10002, states(w));
	DO(2, clean(w));
	DO(0, put(w, 1, 1));
	DO(1, kvl_tenant_flush(w->l, 2, 0, NR_PAGES, 1));
	/* Who has died gives all back. */
	DO(0, get(w, 1, 12));
	DO(-EDQUOT, get(w, 1, 1));
	kvl_client_kill(w->l, w->c[1]);
	DO(12, kvl_client_reap(w->l, w->c[1], NR_PAGES, 1));
	DO(12, clean(w));
	DO(0, states(w));
}

/* Pages that are found while a max is met are not below it. */
static void a_max_in_slices(struct kunit *test)
{
	struct world *w = test->priv;
	u32 k;

	DO(0, get(w, 1, 12));
	for (k = 0; k < 12; k++)
		DO(KVCACHE_PUBLISHED, publish(w, 1, k, k));
	DO(0, put(w, 1, 12));
	DO(0, told(w, 1));
	DO(0, set_max(w, 1, 2));
	DO(0, told(w, 1));
	DO(-EDQUOT, get(w, 1, 1));
	for (k = 0; k < 5; k++)
		DO(1, find(w, 1, k));
	while (kvl_next_tick(w->l) <= 1)
		DO(1, kvl_tick(w->l, 1, 2) < 3);
	DO(1, told(w, 1));
	DO(1, clean(w) > 0);
	DO(50000, states(w));
	DO(0, put(w, 1, 5));
	DO(3, clean(w));
	DO(200, states(w));
}

static void random_steps(struct kunit *test)
{
	struct world *w = test->priv;
	u32 k, c, i, op, refused = 0;
	int rc;

	for (k = 0; k < NR_STEPS; k++) {
		c = prandom_u32_state(&w->rnd) % 3;
		i = prandom_u32_state(&w->rnd) % NR_PAGES;
		op = prandom_u32_state(&w->rnd) % 8;
		if (op == 0 && w->nr[c] + i % 6 < NR_PAGES)
			rc = get(w, c, i % 6 + 1);
		else if (op == 1 && w->nr[c])
			rc = put(w, c, i % w->nr[c] + 1);
		else if (op == 2 && w->nr[c])
			rc = publish(w, c, i % w->nr[c], k % 16);
		else if (op == 3 && w->nr[c] < NR_PAGES)
			rc = find(w, c, i % 16);
		else if (op == 4)
			rc = set_max(w, c, i);
		else if (op == 5)
			rc = kvl_tenant_fit(w->l, c + 1, 0, 1 + i % 3, 1);
		else if (op == 6)
			rc = kvl_tick(w->l, 1, 1 + i % 3);
		else
			rc = clean(w);
		DO(1, rc != -EUCLEAN);
		refused += rc < 0;
	}
	kunit_info(test, "%u steps, %u refused\n", k, refused);
	for (c = 0; c < 3; c++)
		DO(0, w->nr[c] ? put(w, c, w->nr[c]) : 0);
	clean(w);
	/* Only cached pages are left. */
	DO(0, states(w) / 10000 + states(w) % 100);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(pages_move),
	KUNIT_CASE(a_max_in_slices),
	KUNIT_CASE(random_steps),
	{}
};

static struct kunit_suite suite = {
	.name = "kvcache_ledger",
	.init = set_up,
	.exit = tear_down,
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_DESCRIPTION("Tests of the ledger of kvcache");
MODULE_LICENSE("Dual MIT/GPL");
