/* SPDX-License-Identifier: MIT */
/*
 * sample.h - what there is at one moment, read from a device or a broker.
 */
#ifndef TOP_SAMPLE_H
#define TOP_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvcache/kvcache.h>

#include "source.h"

/**
 * struct sample - one moment
 * @at: when it was read, in seconds of a monotonic clock
 * @backend: "device" or "broker"
 * @seq: the ledger's sequence number of the first reply
 * @last: of the last; the same if all of it is of one moment
 * @npools: pools
 * @pool: the pools
 * @tenant: [@ntenants] tenants, once for each pool
 * @client: [@nclients] clients, once for each pool in which they have something
 * @cpool: [@nclients] in which pool
 * @has_waits: @waits is known: the backend counts them, and shows them to us
 * @waits: [pool] requests that had to wait and do not any more
 */
struct sample {
	double at;
	char backend[16];
	uint64_t seq;
	uint64_t last;
	unsigned int npools;
	struct kvcache_pool_info pool[KVCACHE_MAX_POOLS];
	struct kvcache_tenant_info *tenant;
	size_t ntenants;
	struct kvcache_client_info *client;
	uint32_t *cpool;
	size_t nclients;
	bool has_waits;
	uint64_t waits[KVCACHE_MAX_POOLS];
};

/*
 * Opens what is not open, so that a broker that comes back is found again. 0, or
 * -errno, and @why has a sentence; then @s is what it was.
 */
int sample_read(struct source *src, struct sample *s);
void sample_free(struct sample *s);

/* A pool, or NULL. */
const struct kvcache_pool_info *sample_pool(const struct sample *s,
					    uint32_t id);

/**
 * struct new_limit - a limit to be set
 * @tenant: its number
 * @name: and its name, of both the one that was asked about
 * @pool: of which pool
 * @which: 'm' min, 'l' low, 'M' max
 * @pages: the limit
 */
struct new_limit {
	uint32_t tenant;
	char name[KVCACHE_NAME_LEN];
	uint32_t pool;
	char which;
	uint64_t pages;
};

/* 0, or -errno, and @why has a sentence. */
int source_set(struct source *src, const struct new_limit *l);

#endif /* TOP_SAMPLE_H */
