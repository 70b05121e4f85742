/* SPDX-License-Identifier: MIT */
/* store_block.h - a trace's blocks in the commands of the ABI, for any store. */
#ifndef STORE_BLOCK_H
#define STORE_BLOCK_H

#include <stdint.h>
#include <string.h>

#include <linux/kvcache.h>

static inline void block_key(uint8_t *key, uint32_t block)
{
	memset(key, 0, KVCACHE_KEY_LEN);
	memcpy(key, &block, sizeof(block));
	key[KVCACHE_KEY_LEN - 1] = 1;
}

/* A page has one block, and so one key. */
static inline void blocks_to_lookup(struct kvcache_lookup *a,
				    const uint32_t *block, uint32_t n)
{
	a->nr_keys = n;
	a->keys_per_page = 1;
	for (uint32_t k = 0; k < n; k++)
		block_key(a->keys[k], block[k]);
}

/* Number of pages found, whose handles go to @pages. */
static inline int blocks_found(const struct kvcache_lookup *a, uint64_t *pages)
{
	for (uint32_t k = 0; k < a->out_nr_pages; k++)
		pages[k] = a->out_found[k].handle;
	return a->out_nr_pages;
}

/* @parent: the block before the first, or NULL; @fill: tokens of a full page */
static inline void blocks_to_publish(struct kvcache_publish *a,
				     const uint32_t *block,
				     const uint32_t *parent, uint32_t n,
				     const uint64_t *pages, uint32_t fill)
{
	a->nr = n;
	for (uint32_t k = 0; k < n; k++) {
		struct kvcache_publish_page *p = &a->pages[k];

		p->handle = pages[k];
		p->nr_keys = 1;
		p->priority = KVCACHE_PRIO_DEFAULT;
		p->ttl_ns = KVCACHE_TIME_NEVER;
		memset(p->parent, 0, sizeof(p->parent));
		if (parent)
			block_key(p->parent, *parent);
		parent = &block[k];
		block_key(p->keys[0].key, block[k]);
		p->keys[0].fill = fill;
	}
}

/* The pages to be used from now on. */
static inline void blocks_published(const struct kvcache_publish *a,
				    uint64_t *pages)
{
	for (uint32_t k = 0; k < a->nr; k++)
		pages[k] = a->pages[k].out_handle;
}

#endif /* STORE_BLOCK_H */
