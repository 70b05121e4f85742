/* SPDX-License-Identifier: MIT */
/*
 * store.h - where the pages of a replay are: a ledger of this process, driven
 * directly, so that time can be virtual; or whatever kvc_open() opens.
 *
 * Functions return 0 or a count, or -errno. A tenant has one waiting
 * allocation at most.
 */
#ifndef STORE_H
#define STORE_H

#include <stddef.h>
#include <stdint.h>

#include <linux/kvcache.h>

#include "replay.h"

#define STORE_WAITING	1

/**
 * struct store_config - a pool and its tenants
 * @pages: pages of the pool
 * @tenants: number of tenants
 * @min: pages promised to each
 * @low: pages of each that are taken back only if nothing else is left
 * @max: pages that each can have
 * @commons: all publish into one more tenant, number @tenants, and find there
 * @page_tokens: what a full page holds, for its key
 * @where: for kvc_open(), or NULL
 * @names: [@tenants] their names there, or NULL for the default tenant
 */
struct store_config {
	uint64_t pages;
	uint32_t tenants;
	uint64_t min;
	uint64_t low;
	uint64_t max;
	bool commons;
	uint32_t page_tokens;
	const char *where;
	char *const *names;
};

struct store;

struct store_ops {
	int (*lookup)(struct store *s, uint32_t tenant, const uint32_t *block,
		      uint32_t n, uint64_t *pages);
	int (*alloc)(struct store *s, uint32_t tenant, uint32_t n,
		     uint64_t *pages);
	void (*cancel)(struct store *s, uint32_t tenant);
	int (*granted)(struct store *s);
	int (*publish)(struct store *s, uint32_t tenant, const uint32_t *block,
		       const uint32_t *parent, uint32_t n, uint64_t *pages);
	int (*free)(struct store *s, uint32_t tenant, const uint64_t *pages,
		    uint32_t n);
	int (*flush)(struct store *s, uint32_t tenant);
	int (*limit)(struct store *s, uint32_t tenant, uint64_t *out);
	int (*pool)(struct store *s, struct kvcache_pool_info *out);
	int (*tenant)(struct store *s, uint32_t tenant,
		      struct kvcache_tenant_info *out);
	int (*verify)(struct store *s, char *why, size_t len);
	void (*close)(struct store *s);
};

/**
 * struct store - the head of each kind
 * @ops: what it does. lookup: at most KVCACHE_MAX_KEYS blocks, pages found of
 *       the longest prefix; alloc: at most KVCACHE_MAX_PAGES, 0 or
 *       STORE_WAITING; granted: a tenant whose waiting allocation was met, or
 *       -1; publish: at most KVCACHE_MAX_PUBLISH pages, whose handles may
 *       change; verify: -EOPNOTSUPP where it cannot be asked
 * @now: the time, for the ledger
 */
struct store {
	const struct store_ops *ops;
	uint64_t now;
};

/* NULL if there is no memory. */
struct store *store_ledger_open(const struct store_config *c);
/* Exits with a message. @c->pages is set to the pages that there are. */
struct store *store_call_open(struct store_config *c);

#endif /* STORE_H */
