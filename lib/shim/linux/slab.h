/* SPDX-License-Identifier: MIT */
/* Zeroed memory with the kernel's names. */
#ifndef SHIM_LINUX_SLAB_H
#define SHIM_LINUX_SLAB_H

#include <stdlib.h>
#include <linux/types.h>

#define GFP_KERNEL		0
#define GFP_KERNEL_ACCOUNT	0

static inline void *kvcalloc(size_t n, size_t size, int gfp)
{
	return calloc(n, size);
}

static inline void *kvzalloc(size_t size, int gfp)
{
	return calloc(1, size);
}

static inline void kvfree(const void *p)
{
	free((void *)p);
}

#endif /* SHIM_LINUX_SLAB_H */
