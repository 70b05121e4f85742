/* SPDX-License-Identifier: MIT */
/* min, max, snprintf and other small things with the kernel's names. */
#ifndef SHIM_LINUX_KERNEL_H
#define SHIM_LINUX_KERNEL_H

#include <stdio.h>
#include <linux/types.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define U32_MAX UINT32_MAX

#define min_t(t, a, b) ({ t min_a = (a), min_b = (b);			\
			  min_a < min_b ? min_a : min_b; })
#define max_t(t, a, b) ({ t max_a = (a), max_b = (b);			\
			  max_a > max_b ? max_a : max_b; })

#endif /* SHIM_LINUX_KERNEL_H */
