/* SPDX-License-Identifier: MIT */
/* Where libkvcache's headers find the ABI: beside them when installed. */
#ifndef KVCACHE_UAPI_H
#define KVCACHE_UAPI_H

#include <linux/kvcache.h>

#endif /* KVCACHE_UAPI_H */
