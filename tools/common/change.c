// SPDX-License-Identifier: MIT
/*
 * change.c - change a tenant.
 */
#include <errno.h>
#include <time.h>

#include "change.h"

#define TRIES 16	/* others may change it meanwhile, but not for ever */

static uint64_t deadline(uint64_t ns)
{
	struct timespec ts;

	if (ns == UINT64_MAX)
		return KVCACHE_TIME_NEVER;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec + ns;
}

/* In pages, if it is given. */
static bool resolve(const struct limit *l, const struct kvcache_pool_info *p,
		    uint64_t *pages)
{
	return !l->kind || limit_pages(l, p->page_size, p->nr_pages, pages);
}

const struct limit *change_fill(const struct change *ch,
				const struct kvcache_tenant_info *t,
				const struct kvcache_pool_info *p,
				struct kvcache_tenant_set *s)
{
	uint64_t min = t->min, low = t->low, max = t->max;

	*s = (struct kvcache_tenant_set){
		.set = ch->set,
		.tenant = t->id,
		.deadline_ns = deadline(ch->deadline_ns),
		.ttl_ns = ch->ttl_ns,
		.cgroup = ch->cgroup,
		.trust = ch->trust,
		.uid = ch->has_uid ? ch->uid : t->uid,
		.gid = ch->has_gid ? ch->gid : t->gid,
		.mode = ch->has_mode ? ch->mode : t->mode,
	};
	if (!(ch->set & KVCACHE_SET_LIMITS))
		return NULL;
	if (!resolve(&ch->min, p, &min))
		return &ch->min;
	if (!resolve(&ch->low, p, &low))
		return &ch->low;
	if (!resolve(&ch->max, p, &max))
		return &ch->max;
	s->pool = p->id;
	s->min = min;
	s->low = low;
	s->max = max;
	return NULL;
}

int change_make(records_call *call, void *who, const struct change *ch,
		const struct kvcache_pool_info *p,
		int (*find)(void *arg, struct kvcache_tenant_info *t),
		void *arg, struct kvcache_tenant_set *s)
{
	struct kvcache_tenant_info t;
	int err, i;

	for (i = 0; i < TRIES; i++) {
		err = find(arg, &t);
		if (err)
			return err;
		if (change_fill(ch, &t, p, s))
			return -ERANGE;
		s->revision = t.revision + 1;
		err = call(who, KVCACHE_NR_TENANT_SET, s);
		if (err != -ESTALE && err != -EEXIST)
			return err;
	}
	return -ESTALE;
}
