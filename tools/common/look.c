// SPDX-License-Identifier: MIT
/*
 * look.c - pools, tenants and clients at one moment.
 */
#include <errno.h>
#include <stdlib.h>

#include "look.h"

static void stamp(struct look *l, uint64_t seq)
{
	if (look_is_one(l))
		l->last = seq;
}

/* That nothing is shown is of a moment, too. */
static int look_nothing(records_call *call, void *arg, struct look *l,
			struct records *out)
{
	struct kvcache_query q = { .flags = 0 };
	int err = call(arg, KVCACHE_NR_QUERY, &q);

	free(out->v);
	*out = (struct records){ 0 };
	if (!err)
		stamp(l, q.out_seq);
	return err;
}

static int look_list(records_call *call, void *arg, unsigned int nr,
		     unsigned int what, struct look *l, uint32_t pool,
		     struct records *out)
{
	int err = records_read(call, arg, nr, pool, out);

	/* A pool that is gone is so, as well: the next look is without it. */
	if (err == -ENOENT && what & LOOK_ANYBODY)
		return look_nothing(call, arg, l, out);
	if (err)
		return err;
	stamp(l, out->seq);
	stamp(l, out->last);
	return 0;
}

static int look_counters(records_call *call, void *arg, struct look *l,
			 uint32_t i)
{
	struct kvcache_pool_get *g = &l->counters[i];
	int err;

	*g = (struct kvcache_pool_get){ .pool = l->query.out_pools[i].id };
	err = call(arg, KVCACHE_NR_POOL_GET, g);
	if (err == -ENOTTY || err == -EPERM)
		l->has_counters = false;
	else if (err)
		return err;
	else
		stamp(l, g->out_seq);
	return 0;
}

static int look_once(records_call *call, void *arg, unsigned int what,
		     struct look *l)
{
	uint32_t i, pool;
	int err;

	*l = (struct look){ 0 };
	err = call(arg, KVCACHE_NR_QUERY, &l->query);
	if (err)
		return err;
	if (l->query.out_nr_pools > KVCACHE_MAX_POOLS)
		return -EPROTO;
	l->seq = l->last = l->query.out_seq;
	l->has_counters = what & LOOK_COUNTERS;
	for (i = 0; !err && i < l->query.out_nr_pools; i++) {
		pool = l->query.out_pools[i].id;
		if (what & LOOK_TENANTS)
			err = look_list(call, arg, KVCACHE_NR_TENANT_GET,
					what, l, pool, &l->tenant[i]);
		if (!err && what & LOOK_CLIENTS)
			err = look_list(call, arg, KVCACHE_NR_CLIENT_GET,
					what, l, pool, &l->client[i]);
		if (!err && l->has_counters)
			err = look_counters(call, arg, l, i);
	}
	return err;
}

void look_free(struct look *l)
{
	uint32_t i;

	for (i = 0; i < KVCACHE_MAX_POOLS; i++) {
		free(l->tenant[i].v);
		free(l->client[i].v);
	}
	*l = (struct look){ 0 };
}

int look_read(records_call *call, void *arg, unsigned int what,
	      unsigned int tries, struct look *out)
{
	int err;

	for (;;) {
		err = look_once(call, arg, what, out);
		if (err || look_is_one(out) || !--tries)
			break;
		look_free(out);
	}
	if (err)
		look_free(out);
	return err;
}
