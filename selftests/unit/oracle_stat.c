// SPDX-License-Identifier: MIT
/*
 * oracle_stat.c - what KVCACHE_POOL_GET says of requests, counted once more.
 */
#include <errno.h>

#include "oracle_priv.h"

void orc_refused(struct oracle *o, u32 pool, int status)
{
	static const int errnos[] = { EDQUOT, ENOSPC, E2BIG, ESHUTDOWN };

	for (u32 k = 0; k < 4; k++)
		if (status == -errnos[k])
			o->pool[pool].stat.out_refusals[k]++;
}

void orc_waited(struct oracle *o, const struct orc_request *r, int status)
{
	struct kvcache_pool_get *s = &o->pool[r->pool].stat;
	u64 ns = o->now - r->since, refusals = 0;
	u32 k;

	for (k = 0; k < 4; k++)
		refusals += s->out_refusals[k];
	orc_refused(o, r->pool, status);
	for (k = 0; k < 4; k++)
		refusals -= s->out_refusals[k];
	s->out_waits[!status ? KVCACHE_WAIT_GRANTED :
		     status == -ETIMEDOUT ? KVCACHE_WAIT_TIMED_OUT :
		     refusals ? KVCACHE_WAIT_REFUSED : KVCACHE_WAIT_ENDED]++;
	s->out_wait_ns += ns;
	for (k = 14; k && ns < 1000ULL << 2 * (k - 1); k--)
		;
	s->out_wait_times[k]++;
}
