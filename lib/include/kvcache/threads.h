/* SPDX-License-Identifier: MIT */
/*
 * threads.h - a cache's threads as kernels/ knows them, for programs of this
 * tree, which are linked with the archive. Others have kvc_cache_run().
 */
#ifndef KVCACHE_THREADS_H
#define KVCACHE_THREADS_H

struct kva_threads;
struct kvc_cache;

struct kva_threads *kvc_cache_threads(struct kvc_cache *c);

#endif /* KVCACHE_THREADS_H */
