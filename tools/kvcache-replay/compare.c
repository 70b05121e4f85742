// SPDX-License-Identifier: MIT
/*
 * compare.c - runs a trace in each way at one size, and holds the outcomes
 * against each other.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compare.h"

#define NEAR_LRU	0.98	/* of its hits */
#define FAST		10.0	/* seconds for one trace */

const char *const way_name[NR_WAYS] = { "shared", "partitions", "processes" };

static void run_way(const struct trace *t, const struct options *opt,
		    uint64_t pages, enum way way, struct outcome *out)
{
	const uint64_t part = pages / t->tenants;
	/* With a commons, the pages that a tenant is to keep are not its own. */
	const bool commons = way == WAY_SHARED && opt->commons;
	const uint64_t promised = commons ? 0 : part;
	struct store_config c = {
		.pages = pages, .tenants = t->tenants,
		.min = way ? part : (uint64_t)(promised * opt->min / 100),
		.low = way ? part : (uint64_t)(promised * opt->low / 100),
		.max = way ? part : opt->max < 100 ?
		       (uint64_t)(pages * opt->max / 100) : KVCACHE_LIMIT_MAX,
		.commons = commons, .page_tokens = t->page_tokens,
		.where = opt->where, .names = opt->names,
	};
	struct sim_config speed = opt->speed;
	struct store *s;

	speed.commons = commons;
	if (way != WAY_PROCESSES)
		speed.restart = 0;
	s = opt->where ? store_call_open(&c) : store_ledger_open(&c);
	if (!s)
		replay_die("no pool of %" PRIu64 " pages for %u tenants: %s",
			   pages, t->tenants, strerror(errno));
	sim_run(t, &speed, s, out);
	s->ops->close(s);
}

void compare_run(const struct trace *t, const struct options *opt,
		 uint64_t pages, struct comparison *out)
{
	struct outcome *o = &out->way[WAY_SHARED];

	run_way(t, opt, pages, WAY_SHARED, o);
	out->pages = o->pages;
	if (opt->compare) {
		run_way(t, opt, pages, WAY_PARTS, &out->way[WAY_PARTS]);
		run_way(t, opt, pages, WAY_PROCESSES, &out->way[WAY_PROCESSES]);
		oracle_run(t, o->step, o->steps, pages, ORACLE_LRU,
			   !opt->commons, &out->lru);
		oracle_run(t, o->step, o->steps, pages, ORACLE_BELADY,
			   !opt->commons, &out->belady);
		oracle_ideal(t, pages, ORACLE_LRU, &out->ideal_lru);
		oracle_ideal(t, pages, ORACLE_BELADY, &out->ideal_belady);
	}
	outcome_free(o);
	outcome_free(&out->way[WAY_PARTS]);
	outcome_free(&out->way[WAY_PROCESSES]);
}

static int fault(uint64_t pages, bool is, const char *what)
{
	if (is)
		fprintf(stderr, "kvcache-replay: %" PRIu64 " pages: %s\n",
			pages, what);
	return is;
}

static int check_way(const struct trace *t, const struct comparison *c,
		     const struct outcome *o)
{
	uint64_t p = c->pages;

	return fault(p, o->all.asked != t->ask || o->all.requests != t->n ||
		     o->all.hits + o->all.misses != o->all.asked,
		     "requests or blocks got lost") +
	       fault(p, o->seconds >= FAST, "a run took 10 seconds");
}

int compare_check(const struct trace *t, const struct options *opt,
		  const struct comparison *c, uint32_t nr)
{
	uint32_t k, w;
	int bad = 0;

	for (k = 0; k < nr; k++, c++) {
		const struct outcome *o = &c->way[WAY_SHARED];
		const struct outcome *part = &c->way[WAY_PARTS];

		for (w = 0; w < (opt->compare ? NR_WAYS : 1); w++)
			bad += check_way(t, c, &c->way[w]);
		if (!opt->compare)
			continue;
		bad += fault(c->pages, o->all.hits < NEAR_LRU * c->lru.hits,
			     "the shared pool finds less than 98 % of what LRU does");
		bad += fault(c->pages, o->all.hits < part->all.hits &&
			     c->lru.hits >= part->all.hits,
			     "the shared pool finds less than partitions do, and LRU does not");
		bad += fault(c->pages, t->ask &&
			     part->all.evicted > o->all.evicted &&
			     o->all.hits <= part->all.hits,
			     "partitions evict more, and find as much");
		bad += fault(c->pages, c->belady.hits < c->lru.hits ||
			     c->ideal_belady.hits < c->ideal_lru.hits,
			     "the optimum is worse than LRU");
		bad += fault(c->pages, c->ideal_belady.hits > t->seen,
			     "more was found than ever was there");
	}
	return bad;
}
