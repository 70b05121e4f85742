/* SPDX-License-Identifier: MIT */
/*
 * model_priv.h - what the files of the model share.
 */
#ifndef MODEL_PRIV_H
#define MODEL_PRIV_H

#include <linux/kernel.h>

#include "model_ledger.h"
#include "oracle_ledger.h"

struct model {
	struct oracle o;
	struct kvl *l;
	struct kvl_client *client[ORC_CLIENTS];
	struct kvl_request req[ORC_REQUESTS];
	u64 pages[ORC_REQUESTS][KVCACHE_MAX_PAGES];
	const struct model_config *cfg;
	const struct model_op *op;
	u64 rng;		/* from the operation's seed */
	u64 now;
	u64 names;
	bool lazy;		/* leave finished requests for a later call */
	FILE *trace;
	bool noted;		/* something of this operation */
	char *why;
	size_t len;
	bool failed;
};

void model_fail(struct model *m, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* One value of the ledger and of the oracle. */
#define SAME(m, what, ledger, oracle)					\
	do {								\
		long long same_a = (long long)(ledger);			\
		long long same_b = (long long)(oracle);			\
									\
		if (same_a != same_b)					\
			model_fail(m, "%s: %lld, should be %lld",	\
				   what, same_a, same_b);		\
	} while (0)

/* A pool like the model's others, in the ledger and in the oracle. */
bool model_add_pool(struct model *m, const char *name, u32 pages, u32 capacity,
		    bool direct);
/* Everything that the ledger reports, and its own invariants. */
void model_compare(struct model *m);
/* Requests that stopped waiting, in their order. */
void model_compare_done(struct model *m);

#endif /* MODEL_PRIV_H */
