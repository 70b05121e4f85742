// SPDX-License-Identifier: MIT
/* page_state.c - states of pages and rights of grants in words. */
#include <kvcache/uapi.h>

#include "page_state.h"

static const char *const states[] = {
	[KVCACHE_PAGE_FREE] = "free",
	[KVCACHE_PAGE_PRIVATE] = "private",
	[KVCACHE_PAGE_SHARED] = "shared",
	[KVCACHE_PAGE_CACHED] = "cached",
	[KVCACHE_PAGE_RETIRING] = "retiring",
	[KVCACHE_PAGE_NULL] = "null",
};

_Static_assert(sizeof(states) / sizeof(states[0]) == NR_STATES, "names");

const char *state_name(unsigned int state)
{
	return state < NR_STATES ? states[state] : "unknown";
}

const char *rights_name(unsigned int rights)
{
	static const char *const names[] = {
		"none", "lookup", "publish", "lookup,publish",
	};

	return names[rights & (KVCACHE_GRANT_LOOKUP | KVCACHE_GRANT_PUBLISH)];
}
