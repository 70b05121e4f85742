/* SPDX-License-Identifier: MIT */
/* Bits of a word with the kernel's names. */
#ifndef SHIM_LINUX_BITOPS_H
#define SHIM_LINUX_BITOPS_H

#include <linux/types.h>

#define BIT(n)		(1UL << (n))
#define BIT_ULL(n)	(1ULL << (n))

/* Number of the lowest set bit; @w is not 0. */
static inline unsigned int __ffs64(u64 w)
{
	return __builtin_ctzll(w);
}

/* Number of the highest set bit plus 1, or 0. */
static inline int fls64(u64 w)
{
	return w ? 64 - __builtin_clzll(w) : 0;
}

#endif /* SHIM_LINUX_BITOPS_H */
