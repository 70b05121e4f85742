/* SPDX-License-Identifier: MIT */
#ifndef SHIM_LINUX_LOG2_H
#define SHIM_LINUX_LOG2_H

#include <linux/bitops.h>

static inline bool is_power_of_2(unsigned long n)
{
	return n && !(n & (n - 1));
}

#endif /* SHIM_LINUX_LOG2_H */
