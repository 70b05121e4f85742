/* SPDX-License-Identifier: MIT */
/*
 * ledger.h - what kvcache-bench ledger measures: a full ledger, and operations
 * on a part of its pages.
 */
#ifndef BENCH_LEDGER_H
#define BENCH_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include <linux/types.h>

struct kvl;
struct kvl_client;

/* In the order in which a round does them. */
enum ledger_op {
	LEDGER_TAKE,		/* alloc that takes a cached page back */
	LEDGER_FREE,
	LEDGER_ALLOC,
	LEDGER_TOUCH,
	LEDGER_PUBLISH,
	LEDGER_PUT,		/* free of the last reference */
	LEDGER_PREFIX,		/* lookup of a whole prefix, a key */
	LEDGER_TAIL,		/* lookup of a tail, a key */
	LEDGER_NR_OPS
};

extern const char *const ledger_op_name[LEDGER_NR_OPS];

/* Pages that one tenant publishes as one chain. */
#define LEDGER_CHAIN	16
#define LEDGER_TAIL_KEYS 4

/**
 * struct ledger_world - a ledger whose pages are all cached
 * @l: the ledger
 * @pages: pages of its pool
 * @tenants: tenants, each with a client
 * @bytes: memory that it takes, clients and tenants included
 * @client: the clients
 * @handle: pages of the sample
 * @order: a random order of the sample
 * @chains: a random order of its chains
 * @sample: pages of the sample, a multiple of LEDGER_CHAIN
 * @serial: makes keys different
 * @enter: is called before each call of the ledger, with its argument; or NULL
 * @leave: is called after it; or NULL
 */
struct ledger_world {
	struct kvl *l;
	uint32_t pages;
	uint32_t tenants;
	size_t bytes;
	struct kvl_client **client;
	__u64 *handle;
	uint32_t *order;
	uint32_t *chains;
	uint32_t sample;
	uint64_t serial;
	void (*enter)(const void *arg, size_t size);
	void (*leave)(void);
};

/* Exits without memory. */
void ledger_world_make(struct ledger_world *w, uint32_t pages,
		       uint32_t tenants, uint32_t sample);
void ledger_world_free(struct ledger_world *w);

/*
 * A round: every operation on the sample, @begin and @end around each. Returns
 * 0, or -errno of the call that failed.
 */
int ledger_round(struct ledger_world *w, void (*begin)(void *, enum ledger_op),
		 void (*end)(void *, enum ledger_op), void *arg);
/* How often a round does an operation. */
uint32_t ledger_op_count(const struct ledger_world *w, enum ledger_op op);

/*
 * Instructions of an operation, and the cache lines of the ledger's memory that
 * it touches, however often: both by operation, both of a call by the pages or
 * keys that the call is for. 0, -ENOENT without valgrind, or -errno.
 */
int ledger_count(uint32_t pages, uint32_t nr_tenants, double *instructions,
		 double *lines);
/* What it runs under callgrind; an exit status. */
int ledger_count_here(uint32_t pages, uint32_t nr_tenants);

#endif /* BENCH_LEDGER_H */
