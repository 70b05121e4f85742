/* SPDX-License-Identifier: MIT */
/*
 * oracle.h - what other policies would have found in the same sequence of
 * requests. Independent of the ledger: one array of blocks and one heap.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include "replay.h"

enum oracle_policy {
	ORACLE_LRU,	/* the block whose last use ended first goes first */
	ORACLE_BELADY,	/* the block whose next use is farthest away does */
};

/**
 * struct oracle_found - what a policy finds
 * @hits: blocks
 * @evicted: blocks that it gave up for others
 * @beyond: pages that it once had more than there are, as blocks in use leave
 *          no choice
 */
struct oracle_found {
	uint64_t hits;
	uint64_t evicted;
	uint64_t beyond;
};

/**
 * oracle_run() - the same sequence under another policy
 * @t: the trace
 * @step: what happened
 * @n: number of steps
 * @pages: pages there are
 * @policy: the policy
 * @apart: tenants do not find each other's blocks
 * @out: what it finds
 *
 * Blocks in use stay, as do pages of theirs that are no blocks, and blocks can
 * be found once they are published. Of blocks that a policy holds equal the
 * one that is deepest in its prompt goes first: so there is never a hole, and
 * a block that is there can be found. Nobody can find more than Belady, where
 * all full blocks are looked up: the last token's block, where it is full, is
 * computed anew, and for that time may be there twice.
 */
void oracle_run(const struct trace *t, const struct step *step, size_t n,
		uint64_t pages, enum oracle_policy policy, bool apart,
		struct oracle_found *out);

/*
 * The same, if requests took no time and no pages but their full blocks, all of
 * one tenant: nothing but the policy bounds it.
 */
void oracle_ideal(const struct trace *t, uint64_t pages,
		  enum oracle_policy policy, struct oracle_found *out);

#endif /* ORACLE_H */
