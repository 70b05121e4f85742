/* SPDX-License-Identifier: MIT */
/* name.h - names of tenants and pools. */
#ifndef NAME_H
#define NAME_H

#include <stdbool.h>
#include <stdint.h>

/* What name_ok() asks for, in words; %d is KVCACHE_NAME_LEN - 1. */
#define NAME_RULE \
	"a name of 1 to %d letters, digits, \".\", \"-\" and \"_\", the first no \".\""

/* Could it be one, but for its length? */
bool name_chars_ok(const char *name);
/* Could it be one? */
bool name_ok(const char *name);

/* The same on each machine and in each run: FNV-1a, folded to be cut short. */
uint32_t name_hash(const char *name);

#endif /* NAME_H */
