/* SPDX-License-Identifier: MIT */
/*
 * Zeroed memory with the kernel's names. Like large allocations there it
 * begins on a cache line; it is left to calloc() to know what is zero already.
 */
#ifndef SHIM_LINUX_SLAB_H
#define SHIM_LINUX_SLAB_H

#include <stdlib.h>
#include <linux/types.h>

#define GFP_KERNEL_ACCOUNT	0
#define __GFP_NOWARN		0

static inline void *kvcalloc(size_t n, size_t size, int gfp)
{
	const size_t line = 64;
	char *base, *p;

	if (size && n > (SIZE_MAX - 2 * line) / size)
		return NULL;
	base = calloc(1, n * size + 2 * line);
	if (!base)
		return NULL;
	/* Where it began is kept just before it. */
	p = base + 2 * line - (uintptr_t)base % line;
	((void **)p)[-1] = base;
	return p;
}

static inline void *kvzalloc(size_t size, int gfp)
{
	return kvcalloc(1, size, gfp);
}

static inline void kvfree(const void *p)
{
	if (p)
		free(((void **)p)[-1]);
}

#endif /* SHIM_LINUX_SLAB_H */
