/* SPDX-License-Identifier: MIT */
/*
 * compare.h - the same trace in pools that are divided in several ways, and
 * under other policies.
 */
#ifndef COMPARE_H
#define COMPARE_H

#include "oracle.h"
#include "sim.h"

enum way {
	WAY_SHARED,	/* one pool, with quotas */
	WAY_PARTS,	/* an equal, fixed part for each tenant */
	WAY_PROCESSES,	/* the same, whose caches die when processes restart */
	NR_WAYS
};

extern const char *const way_name[NR_WAYS];

/**
 * struct options - what was asked for
 * @pages: sizes of the pool
 * @nr_pages: their number
 * @min: percent of an equal share that each tenant is promised
 * @low: percent of an equal share that is taken back from each only if nothing
 *       else is left
 * @max: percent of the pool that each can have
 * @commons: tenants of the shared pool share a commons, and are promised nothing
 * @speed: how requests are served
 * @compare: all ways and policies, not the shared pool alone
 * @where: for kvc_open(), or NULL
 * @names: tenants there, or NULL
 */
struct options {
	uint64_t pages[16];
	uint32_t nr_pages;
	double min;
	double low;
	double max;
	bool commons;
	struct sim_config speed;
	bool compare;
	const char *where;
	char **names;
};

/**
 * struct comparison - at one size
 * @pages: pages of the pool
 * @way: outcomes; of the first only, where nothing is compared
 * @lru, @belady: on the steps of the shared pool, its rules for all
 * @ideal_lru, @ideal_belady: without any rules
 */
struct comparison {
	uint64_t pages;
	struct outcome way[NR_WAYS];
	struct oracle_found lru;
	struct oracle_found belady;
	struct oracle_found ideal_lru;
	struct oracle_found ideal_belady;
};

void compare_run(const struct trace *t, const struct options *opt,
		 uint64_t pages, struct comparison *out);
/* Says what is not as it is claimed to be; how many things. */
int compare_check(const struct trace *t, const struct options *opt,
		  const struct comparison *c, uint32_t nr);

void report_text(const struct trace *t, const struct options *opt,
		 const struct comparison *c, uint32_t nr);
void report_json(const struct trace *t, const struct options *opt,
		 const struct comparison *c, uint32_t nr);
/* Whether gnuplot is there; where it is not, it says so. */
bool plot_possible(const char *folder);
void plot_all(const char *folder, const struct trace *t,
	      const struct options *opt, const struct comparison *c,
	      uint32_t nr);

#endif /* COMPARE_H */
