/* SPDX-License-Identifier: MIT */
/*
 * look.h - pools, tenants and clients at one moment, through the ABI.
 *
 * A reply is of one moment. What needs several is asked again until all of them
 * have the ledger's same sequence number; where a busy ledger does not let that
 * be, each reply still is of one moment, and look_is_one() says so.
 */
#ifndef LOOK_H
#define LOOK_H

#include <stdbool.h>

#include <kvcache/uapi.h>

#include "records.h"

/* What is to be read beside the pools. */
#define LOOK_TENANTS	(1U << 0)
#define LOOK_CLIENTS	(1U << 1)
#define LOOK_COUNTERS	(1U << 2)	/* where the backend has and shows them */
/* To whom no tenant is shown (-ENOENT), there are none, and pools all the same. */
#define LOOK_ANYBODY	(1U << 3)

/**
 * struct look - what was seen
 * @seq: the ledger's sequence number of the first reply
 * @last: the first other one of a later reply, or @seq
 * @query: the pools
 * @tenant: [pool] LOOK_TENANTS: struct kvcache_tenant_info, by number
 * @client: [pool] LOOK_CLIENTS: struct kvcache_client_info, by number
 * @counters: [pool] LOOK_COUNTERS
 * @has_counters: they are there: the backend knows them (KVCACHE_POOL_GET), and
 *                whoever asks may administer
 */
struct look {
	uint64_t seq;
	uint64_t last;
	struct kvcache_query query;
	struct records tenant[KVCACHE_MAX_POOLS];
	struct records client[KVCACHE_MAX_POOLS];
	struct kvcache_pool_get counters[KVCACHE_MAX_POOLS];
	bool has_counters;
};

/**
 * look_read() - look
 * @call: asks
 * @arg: for @call
 * @what: LOOK_*
 * @tries: looks at most, until one is of one moment
 * @out: written, for look_free(); nothing to be freed after a failure
 *
 * Return: 0; what @call returned; -EPROTO a reply that cannot be; -ENOMEM.
 */
int look_read(records_call *call, void *arg, unsigned int what,
	      unsigned int tries, struct look *out);
void look_free(struct look *l);

static inline bool look_is_one(const struct look *l)
{
	return l->seq == l->last;
}

#endif /* LOOK_H */
