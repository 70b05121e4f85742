// SPDX-License-Identifier: MIT
/*
 * name.c - names of tenants and pools.
 */
#include <string.h>

#include <kvcache/uapi.h>

#include "name.h"

bool name_chars_ok(const char *name)
{
	return *name && *name != '.' &&
	       !name[strspn(name, "abcdefghijklmnopqrstuvwxyz"
			    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")];
}

bool name_ok(const char *name)
{
	return name_chars_ok(name) && strlen(name) < KVCACHE_NAME_LEN;
}

uint32_t name_hash(const char *name)
{
	uint32_t h = 2166136261u;

	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 16777619;
	return h ^ h >> 16;
}
