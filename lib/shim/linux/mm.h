/* SPDX-License-Identifier: MIT */
/* Where the kernel declares kvcalloc() and its like. */
#ifndef SHIM_LINUX_MM_H
#define SHIM_LINUX_MM_H

#include <linux/slab.h>

#endif /* SHIM_LINUX_MM_H */
