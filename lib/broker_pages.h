/* SPDX-License-Identifier: MIT */
/*
 * broker_pages.h - where pages of a broker are mapped, and how many references
 * are held on each. Nothing here locks: sys_broker.c does.
 */
#ifndef KVC_BROKER_PAGES_H
#define KVC_BROKER_PAGES_H

#include <stdbool.h>
#include <kvcache/broker.h>

#include "sys.h"

/**
 * struct kvc_bslot - one page
 * @handle: whose mapping or references these are, 0 nobody's
 * @refs: references held
 * @mapped: it can be read
 */
struct kvc_bslot {
	uint64_t handle;
	uint32_t refs;
	bool mapped;
};

/**
 * struct kvc_bwindow - addresses of one pool, reserved for all its pages
 * @base: page 0, which reads as zeros; NULL: not reserved
 * @bytes: of all pages
 * @page_size: of one
 * @nr: pages, page 0 included
 * @slot: [@nr]
 */
struct kvc_bwindow {
	char *base;
	size_t bytes;
	uint64_t page_size;
	uint32_t nr;
	struct kvc_bslot *slot;
};

/**
 * struct kvc_bpages - all pools
 * @w: their windows
 * @ballast: mappings to be given up for pages that must be mapped, or NULL
 */
struct kvc_bpages {
	struct kvc_bwindow w[KVCACHE_MAX_POOLS];
	char *ballast;
};

/* Reserve, unless that was done for a pool of this shape. -ENOMEM. */
int kvc_bpages_reserve(struct kvc_bpages *b, const struct kvcache_pool_info *p);
/* The pool is gone, and so are its pages. */
void kvc_bpages_unreserve(struct kvc_bpages *b, uint32_t pool);

/*
 * A page that came: @fd stays the caller's. @must: nothing could be undone any
 * more. -ENOMEM, -ESTALE another pool's page.
 */
int kvc_bpages_map(struct kvc_bpages *b, const struct kvcb_page *p, int fd,
		   bool must);
/* It did not come: what is mapped there is what it was before. */
void kvc_bpages_missed(struct kvc_bpages *b, uint32_t pool, uint64_t handle);
bool kvc_bpages_mapped(const struct kvc_bpages *b, uint32_t pool,
		       uint64_t handle);

/* One reference more; one less, and with the last one the mapping goes. */
void kvc_bpages_get(struct kvc_bpages *b, uint32_t pool, uint64_t handle);
void kvc_bpages_put(struct kvc_bpages *b, uint32_t pool, uint64_t handle);
/* It was taken or given up, however many references there were. */
void kvc_bpages_drop(struct kvc_bpages *b, uint32_t pool, uint64_t handle);

/* @ours: the process that mapped them, not a child of it. */
void kvc_bpages_close(struct kvc_bpages *b, bool ours);

#endif /* KVC_BROKER_PAGES_H */
