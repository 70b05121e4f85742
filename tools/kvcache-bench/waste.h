/* SPDX-License-Identifier: MIT */
/*
 * waste.h - the two halves of kvcache-bench waste: what pages of a size hold
 * without use, and how fast attention reads them.
 */
#ifndef WASTE_H
#define WASTE_H

#include <stddef.h>
#include <stdint.h>

#include <kvcache/kvcache.h>

#include "bench.h"

/**
 * struct waste_cache - a model's cache in a pool of its own
 * @kvc: the pool
 * @cache: the cache
 */
struct waste_cache {
	struct kvc *kvc;
	struct kvc_cache *cache;
};

/* The model whose cache is looked at: SmolLM2-135M, f16. */
#define WASTE_LAYERS	30
#define WASTE_Q_HEADS	9
#define WASTE_KV_HEADS	3
#define WASTE_DIM	64

const struct kvc_model *waste_model(void);
/* A pool of that many pages, whose memory is populated when it is used. */
void waste_open(struct waste_cache *w, uint64_t page_size, uint64_t pages);
void waste_close(struct waste_cache *w);

/* Tokens of the sequences that are read. */
#define WASTE_CONTEXT 4096

/**
 * struct waste_speed - attention of one decode step, all layers
 * @rate: bytes of keys and values in use, per second, in GB/s
 * @ratio: to the same on pages of the reference size, in turn with it
 */
struct waste_speed {
	struct bench_stat rate;
	struct bench_stat ratio;
};

/**
 * waste_decode() - how fast pages of a size are read
 * @page_size: bytes in a page
 * @ref_size: bytes in a page to compare with
 * @bytes: keys and values that a step reads, of sequences of WASTE_CONTEXT
 * @out: the figures
 */
void waste_decode(uint64_t page_size, uint64_t ref_size, size_t bytes,
		  struct waste_speed *out);

#endif /* WASTE_H */
