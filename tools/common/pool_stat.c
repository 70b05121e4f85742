// SPDX-License-Identifier: MIT
/*
 * pool_stat.c - names of a pool's counters.
 */
#include <string.h>

#include "pool_stat.h"

#define ROW(n, member)	{ #n, offsetof(struct kvcache_pool_get, member) }

static const struct {
	const char *name;
	size_t at;
} rows[] = {
	ROW(unzeroed, out_unzeroed),
	ROW(lost, out_lost),
	ROW(allocs, out_info.allocs),
	ROW(frees, out_frees),
	ROW(lookups, out_info.lookups),
	ROW(hits, out_info.hits),
	ROW(publishes, out_publishes),
	ROW(dedups, out_dedups),
	ROW(expired, out_expired),
	ROW(revokes, out_revokes),
	ROW(reclaims_volatile, out_volatile),
	ROW(reclaims_own, out_reclaims[KVCACHE_RECLAIM_OWN]),
	ROW(reclaims_expired, out_reclaims[KVCACHE_RECLAIM_EXPIRED]),
	ROW(reclaims_low, out_reclaims[KVCACHE_RECLAIM_LOW]),
	ROW(reclaims_min, out_reclaims[KVCACHE_RECLAIM_MIN]),
	ROW(reclaims_last, out_reclaims[KVCACHE_RECLAIM_LAST]),
	ROW(refused_edquot, out_refusals[KVCACHE_REFUSED_EDQUOT]),
	ROW(refused_enospc, out_refusals[KVCACHE_REFUSED_ENOSPC]),
	ROW(refused_e2big, out_refusals[KVCACHE_REFUSED_E2BIG]),
	ROW(refused_eshutdown, out_refusals[KVCACHE_REFUSED_ESHUTDOWN]),
	ROW(waits_granted, out_waits[KVCACHE_WAIT_GRANTED]),
	ROW(waits_timed_out, out_waits[KVCACHE_WAIT_TIMED_OUT]),
	ROW(waits_refused, out_waits[KVCACHE_WAIT_REFUSED]),
	ROW(waits_ended, out_waits[KVCACHE_WAIT_ENDED]),
	ROW(wait_ns, out_wait_ns),
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static const char *const times[KVCACHE_WAIT_BUCKETS] = {
	"wait_below_1us", "wait_below_4us", "wait_below_16us",
	"wait_below_64us", "wait_below_256us", "wait_below_1024us",
	"wait_below_4096us", "wait_below_16384us", "wait_below_65536us",
	"wait_below_262144us", "wait_below_1048576us", "wait_below_4194304us",
	"wait_below_16777216us", "wait_below_67108864us", "wait_longer",
};

const char *pool_stat(const struct kvcache_pool_get *s, size_t i,
		      uint64_t *value)
{
	if (i < ROWS) {
		memcpy(value, (const char *)s + rows[i].at, sizeof(*value));
		return rows[i].name;
	}
	i -= ROWS;
	if (i >= KVCACHE_WAIT_BUCKETS)
		return NULL;
	*value = s->out_wait_times[i];
	return times[i];
}
