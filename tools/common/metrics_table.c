// SPDX-License-Identifier: MIT
/*
 * metrics_table.c - which metrics there are.
 */
#include <stddef.h>

#include <kvcache/uapi.h>

#include "metrics_table.h"

#define AT(type, member) \
	.at = offsetof(struct type, member), \
	.size = sizeof(((struct type *)0)->member)
#define ARRAY_AT(type, member) \
	.at = offsetof(struct type, member), \
	.size = sizeof(((struct type *)0)->member[0])
#define LABEL(name, list) \
	.label = name, .values = list, .nr = sizeof(list) / sizeof((list)[0])

static const char *const states[] = {
	"free", "private", "shared", "cached", "retiring"
};
_Static_assert(offsetof(struct kvcache_pool_info, nr_retiring) ==
	       offsetof(struct kvcache_pool_info, nr_free) + 4 * sizeof(__u64),
	       "states are one behind the other");

static const char *const reclaims[] = {
	[KVCACHE_RECLAIM_OWN] = "own",
	[KVCACHE_RECLAIM_EXPIRED] = "expired",
	[KVCACHE_RECLAIM_LOW] = "above_low",
	[KVCACHE_RECLAIM_MIN] = "above_min",
	[KVCACHE_RECLAIM_LAST] = "last",
};
_Static_assert(sizeof(reclaims) / sizeof(reclaims[0]) == KVCACHE_RECLAIM_CAUSES,
	       "each has a name");

static const char *const refusals[] = {
	[KVCACHE_REFUSED_EDQUOT] = "over_max",
	[KVCACHE_REFUSED_ENOSPC] = "no_room",
	[KVCACHE_REFUSED_E2BIG] = "never_possible",
	[KVCACHE_REFUSED_ESHUTDOWN] = "draining",
};
_Static_assert(sizeof(refusals) / sizeof(refusals[0]) == KVCACHE_REFUSED_ERRNOS,
	       "each has a name");

static const char *const waits[] = {
	[KVCACHE_WAIT_GRANTED] = "granted",
	[KVCACHE_WAIT_TIMED_OUT] = "timed_out",
	[KVCACHE_WAIT_REFUSED] = "refused",
	[KVCACHE_WAIT_ENDED] = "ended",
};
_Static_assert(sizeof(waits) / sizeof(waits[0]) == KVCACHE_WAIT_ENDS,
	       "each has a name");

const struct metric metrics_table[] = {
	{
		.name = "kvcache_ledger_sequence",
		.help = "Changes of the ledger so far: the moment that all values are of.",
		.of = METRIC_OF_LOOK, AT(metrics_of_look, seq),
	}, {
		.name = "kvcache_inconsistent_looks",
		.help = "Looks by this process whose values are of several moments, as the ledger was too busy.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_LOOK, AT(metrics_of_look, inconsistent),
	},

	/* ---- pools ---------------------------------------------------- */
	{
		.name = "kvcache_pool_page_size_bytes", .unit = "bytes",
		.help = "Size of a page.",
		.of = METRIC_OF_POOL, AT(kvcache_pool_info, page_size),
	}, {
		.name = "kvcache_pool_size_bytes", .unit = "bytes",
		.help = "Pages of the pool, in whatever state.",
		.of = METRIC_OF_POOL, .as = METRIC_BYTES,
		AT(kvcache_pool_info, nr_pages),
	}, {
		.name = "kvcache_pool_capacity_bytes", .unit = "bytes",
		.help = "What the pool can grow to.",
		.of = METRIC_OF_POOL, .as = METRIC_BYTES,
		AT(kvcache_pool_info, capacity),
	}, {
		.name = "kvcache_pool_state_bytes", .unit = "bytes",
		.help = "Pages of the pool by their state; their sum is its size.",
		.of = METRIC_OF_POOL, .as = METRIC_BYTES,
		.at = offsetof(struct kvcache_pool_info, nr_free),
		.size = sizeof(__u64), LABEL("state", states),
	}, {
		.name = "kvcache_pool_waiters",
		.help = "Requests that wait for pages now.",
		.of = METRIC_OF_POOL, AT(kvcache_pool_info, waiters),
	}, {
		.name = "kvcache_pool_draining",
		.help = "1 while the pool hands out nothing and empties itself.",
		.of = METRIC_OF_POOL, AT(kvcache_pool_info, draining),
	}, {
		.name = "kvcache_pool_allocated_pages",
		.help = "Pages handed out.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_POOL, AT(kvcache_pool_info, allocs),
	}, {
		.name = "kvcache_pool_reclaimed_pages",
		.help = "Cached pages taken back for somebody who needed room.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_POOL, AT(kvcache_pool_info, reclaims),
	}, {
		.name = "kvcache_pool_lookups",
		.help = "Keys looked up.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_POOL, AT(kvcache_pool_info, lookups),
	}, {
		.name = "kvcache_pool_hits",
		.help = "Keys found.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_POOL, AT(kvcache_pool_info, hits),
	},

	/* ---- pools, for whoever may administer ------------------------- */
	{
		.name = "kvcache_pool_unzeroed_bytes", .unit = "bytes",
		.help = "Pages that left their owner and are to be zeroed before they are handed out.",
		.of = METRIC_OF_COUNTERS, .as = METRIC_BYTES,
		AT(kvcache_pool_get, out_unzeroed),
	}, {
		.name = "kvcache_pool_lost_pages",
		.help = "Pages lost to errors of memory.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_COUNTERS,
		AT(kvcache_pool_get, out_lost),
	}, {
		.name = "kvcache_pool_freed_pages",
		.help = "Pages that became free again.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_COUNTERS,
		AT(kvcache_pool_get, out_frees),
	}, {
		.name = "kvcache_pool_published_pages",
		.help = "Pages published, or copies of them.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_COUNTERS,
		AT(kvcache_pool_get, out_publishes),
	}, {
		.name = "kvcache_pool_deduplicated_pages",
		.help = "Pages that were to be published and were there already.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_COUNTERS,
		AT(kvcache_pool_get, out_dedups),
	}, {
		.name = "kvcache_pool_expired_pages",
		.help = "Cached pages given up because their time was over.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_COUNTERS,
		AT(kvcache_pool_get, out_expired),
	}, {
		.name = "kvcache_pool_revoked_pages",
		.help = "Pages taken from those who hold them.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_COUNTERS,
		AT(kvcache_pool_get, out_revokes),
	}, {
		.name = "kvcache_pool_volatile_reclaimed_pages",
		.help = "Of all pages taken back, those that were private and volatile.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_COUNTERS,
		AT(kvcache_pool_get, out_volatile),
	}, {
		.name = "kvcache_pool_reclaims_by_cause",
		.help = "Pages taken back, by the rule that chose them.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_COUNTERS,
		ARRAY_AT(kvcache_pool_get, out_reclaims),
		LABEL("cause", reclaims),
	}, {
		.name = "kvcache_pool_refusals",
		.help = "Requests for pages that failed, at once or after they waited.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_COUNTERS,
		ARRAY_AT(kvcache_pool_get, out_refusals),
		LABEL("cause", refusals),
	}, {
		.name = "kvcache_pool_waits",
		.help = "Requests that waited, by how that ended.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_COUNTERS,
		ARRAY_AT(kvcache_pool_get, out_waits),
		LABEL("cause", waits),
	}, {
		.name = "kvcache_pool_wait_seconds", .unit = "seconds",
		.help = "Time that requests waited.",
		.type = METRIC_HISTOGRAM,
		.of = METRIC_OF_COUNTERS, .as = METRIC_SECONDS,
		ARRAY_AT(kvcache_pool_get, out_wait_times),
		.nr = KVCACHE_WAIT_BUCKETS,
	},

	/* ---- tenants -------------------------------------------------- */
	{
		.name = "kvcache_tenant_clients",
		.help = "Clients that are attached to the tenant.",
		.of = METRIC_OF_TENANT, AT(kvcache_tenant_info, clients),
	}, {
		.name = "kvcache_tenant_grants",
		.help = "Grants that the tenant gave.",
		.of = METRIC_OF_TENANT, AT(kvcache_tenant_info, grants),
	}, {
		.name = "kvcache_tenant_ttl_seconds", .unit = "seconds",
		.help = "Time after which unused cached pages of the tenant are given up.",
		.of = METRIC_OF_TENANT, .as = METRIC_SECONDS,
		AT(kvcache_tenant_info, ttl_ns),
	},

	/* ---- what a tenant has of a pool ------------------------------- */
	{
		.name = "kvcache_tenant_current_bytes", .unit = "bytes",
		.help = "Pages that are charged to the tenant.",
		.of = METRIC_OF_SHARE, .as = METRIC_BYTES,
		AT(kvcache_tenant_info, cur),
	}, {
		.name = "kvcache_tenant_cached_bytes", .unit = "bytes",
		.help = "Of these, pages that nobody uses and that can be reclaimed.",
		.of = METRIC_OF_SHARE, .as = METRIC_BYTES,
		AT(kvcache_tenant_info, nr_cached),
	}, {
		.name = "kvcache_tenant_peak_bytes", .unit = "bytes",
		.help = "Most that was charged to the tenant.",
		.of = METRIC_OF_SHARE, .as = METRIC_BYTES,
		AT(kvcache_tenant_info, peak),
	}, {
		.name = "kvcache_tenant_min_bytes", .unit = "bytes",
		.help = "What is promised to the tenant.",
		.of = METRIC_OF_SHARE, .as = METRIC_BYTES,
		AT(kvcache_tenant_info, min),
	}, {
		.name = "kvcache_tenant_low_bytes", .unit = "bytes",
		.help = "What is reclaimed from the tenant only if nothing else is left.",
		.of = METRIC_OF_SHARE, .as = METRIC_BYTES,
		AT(kvcache_tenant_info, low),
	}, {
		.name = "kvcache_tenant_max_bytes", .unit = "bytes",
		.help = "What the tenant can have at most.",
		.of = METRIC_OF_SHARE, .as = METRIC_LIMIT,
		AT(kvcache_tenant_info, max),
	}, {
		.name = "kvcache_tenant_waiters",
		.help = "Requests of the tenant that wait for pages now.",
		.of = METRIC_OF_SHARE, AT(kvcache_tenant_info, waiters),
	}, {
		.name = "kvcache_tenant_limit_hits",
		.help = "Requests that failed or waited at the tenant's max.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_SHARE, AT(kvcache_tenant_info, ev_max),
	}, {
		.name = "kvcache_tenant_reclaimed_pages",
		.help = "Cached pages of the tenant that were reclaimed.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_SHARE, AT(kvcache_tenant_info, ev_reclaim),
	}, {
		.name = "kvcache_tenant_revoked_pages",
		.help = "Pages that were taken away from the tenant.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_SHARE, AT(kvcache_tenant_info, ev_revoke),
	}, {
		.name = "kvcache_tenant_lookups",
		.help = "Keys looked up by clients of the tenant.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_SHARE, AT(kvcache_tenant_info, lookups),
	}, {
		.name = "kvcache_tenant_hits",
		.help = "Keys found by clients of the tenant.",
		.type = METRIC_COUNTER,
		.of = METRIC_OF_SHARE, AT(kvcache_tenant_info, hits),
	},
	{ .name = NULL }
};
