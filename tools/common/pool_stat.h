/* SPDX-License-Identifier: MIT */
/*
 * pool_stat.h - names of a pool's counters: those of the module's file
 * /sys/class/kvcache/kvcache/pools/NAME/stat.
 */
#ifndef POOL_STAT_H
#define POOL_STAT_H

#include <stddef.h>
#include <stdint.h>

#include <kvcache/uapi.h>

/* A number for each of 0, 1, ... until NULL is returned; else its name. */
const char *pool_stat(const struct kvcache_pool_get *s, size_t i,
		      uint64_t *value);

#endif /* POOL_STAT_H */
