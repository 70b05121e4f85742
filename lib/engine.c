// SPDX-License-Identifier: MIT
/*
 * engine.c - what a program that runs a model needs beside its cache: the
 * table of rotations, and the cache's threads for work of its own.
 */
#include <kvcache/threads.h>

#include "internal.h"

_Static_assert(KVC_ROPE_NONE == (int)KVA_ROPE_NONE &&
	       KVC_ROPE_PAIR == (int)KVA_ROPE_PAIR &&
	       KVC_ROPE_HALF == (int)KVA_ROPE_HALF,
	       "rotations are passed to the kernels as they are");

void kvc_rope_table(float *table, uint32_t first, uint32_t npos,
		    uint32_t rot_dim, double base, double scale,
		    const float *factors)
{
	kva_rope_table(table, first, npos, rot_dim, base, scale, factors);
}

struct kva_threads *kvc_cache_threads(struct kvc_cache *c)
{
	return c->threads;
}

uint32_t kvc_cache_nthreads(const struct kvc_cache *c)
{
	return kva_threads_count(c->threads);
}

void kvc_cache_run(struct kvc_cache *c, size_t nitems,
		   void (*fn)(void *arg, size_t item, unsigned int thread),
		   void *arg)
{
	kva_threads_run(c->threads, nitems, fn, arg);
}
