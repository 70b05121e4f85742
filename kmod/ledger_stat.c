// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * ledger_stat.c - what is counted of a pool beside its pages.
 */
#include "ledger_internal.h"

u64 kvl_sum(const u64 *n, u32 nr)
{
	u64 sum = 0;

	while (nr--)
		sum += n[nr];
	return sum;
}

/* A request for pages fails. */
void kvl_count_refusal(struct kvl_pool *p, int status)
{
	switch (status) {
	case -EDQUOT:
		p->refusals[KVCACHE_REFUSED_EDQUOT]++;
		break;
	case -ENOSPC:
		p->refusals[KVCACHE_REFUSED_ENOSPC]++;
		break;
	case -E2BIG:
		p->refusals[KVCACHE_REFUSED_E2BIG]++;
		break;
	case -ESHUTDOWN:
		p->refusals[KVCACHE_REFUSED_ESHUTDOWN]++;
		break;
	}
}

static u32 kvl_wait_end(int status)
{
	switch (status) {
	case 0:
		return KVCACHE_WAIT_GRANTED;
	case -ETIMEDOUT:
		return KVCACHE_WAIT_TIMED_OUT;
	case -EDQUOT:
	case -ENOSPC:
	case -E2BIG:
	case -ESHUTDOWN:
		return KVCACHE_WAIT_REFUSED;
	}
	return KVCACHE_WAIT_ENDED;
}

/* One that waited does so no longer. */
void kvl_count_wait(struct kvl_pool *p, u64 ns, int status)
{
	u64 bound = 1000;
	u32 k = 0;

	for (; k < KVCACHE_WAIT_BUCKETS - 1 && ns >= bound; k++)
		bound *= 4;
	p->wait_times[k]++;
	p->wait_ns += ns;
	p->waits[kvl_wait_end(status)]++;
	kvl_count_refusal(p, status);
}

int kvl_pool_stat(const struct kvl *l, u32 pool, struct kvcache_pool_get *out)
{
	const struct kvl_pool *p = kvl_pool_get(l, pool);

	if (!p)
		return -ENOENT;
	out->out_seq = l->seq;
	kvl_pool_info(l, pool, &out->out_info);
	out->out_unzeroed = p->leaving;
	out->out_lost = p->lost;
	out->out_frees = p->frees;
	out->out_publishes = p->publishes;
	out->out_dedups = p->dedups;
	out->out_expired = p->expired;
	out->out_revokes = p->revokes;
	out->out_volatile = p->taken_volatile;
	memcpy(out->out_reclaims, p->reclaims, sizeof(p->reclaims));
	memcpy(out->out_refusals, p->refusals, sizeof(p->refusals));
	memcpy(out->out_waits, p->waits, sizeof(p->waits));
	out->out_wait_ns = p->wait_ns;
	memcpy(out->out_wait_times, p->wait_times, sizeof(p->wait_times));
	return 0;
}
