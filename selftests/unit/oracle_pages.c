// SPDX-License-Identifier: MIT
/*
 * oracle_pages.c - who holds a page: free, advise, pins. Linear, see
 * oracle_ledger.h.
 */
#include <errno.h>
#include <string.h>

#include "oracle_priv.h"

u64 orc_handle(const struct oracle *o, u32 pool, u32 index)
{
	return (u64)o->pool[pool].page[index].gen << 32 | index;
}

int orc_resolve(const struct oracle *o, u32 pool, u64 handle)
{
	const struct orc_pool *p = &o->pool[pool];
	u32 i = kvl_index(handle);

	if (!i || i > p->nr || p->page[i].gen != kvl_generation(handle) ||
	    p->page[i].state == KVCACHE_PAGE_FREE ||
	    p->page[i].state == KVCACHE_PAGE_RETIRING)
		return -ESTALE;
	return i;
}

u32 orc_refs(const struct orc_page *g, u32 client)
{
	if (g->state == KVCACHE_PAGE_PRIVATE)
		return g->owner == client;
	return g->state == KVCACHE_PAGE_SHARED ? g->refs[client] : 0;
}

u64 orc_held(const struct oracle *o, u32 from, u32 to)
{
	u64 n = 0;

	for (u32 k = 0; k < ORC_POOLS; k++)
		for (u32 i = 1; i <= o->pool[k].nr; i++)
			for (u32 c = 1; c < ORC_CLIENTS; c++) {
				const struct orc_page *g = &o->pool[k].page[i];

				n += g->state == KVCACHE_PAGE_SHARED &&
				     g->tenant == from && g->refs[c] &&
				     o->client[c].tenant == to;
			}
	return n;
}

bool orc_findable(const struct oracle *o, u32 pool, const struct orc_page *g)
{
	if (g->flushed)
		return false;
	return g->state == KVCACHE_PAGE_SHARED ||
	       (g->state == KVCACHE_PAGE_CACHED &&
		g->expiry > o->pool[pool].now);
}

/* ---- ways out of a state --------------------------------------------- */

void orc_release(struct oracle *o, u32 pool, u32 index)
{
	struct orc_page *g = &o->pool[pool].page[index];
	u32 gen = g->gen;

	memset(g, 0, sizeof(*g));
	g->gen = gen;
	g->freed = ++o->count;
	o->pool[pool].stat.out_frees++;
}

static void retire(struct oracle *o, u32 pool, u32 index)
{
	struct orc_page *g = &o->pool[pool].page[index];

	if (o->pool[pool].direct && !g->pins) {
		orc_release(o, pool, index);
		return;
	}
	g->stuck = g->pins != 0;
	g->queued = !g->stuck;
	g->retired = ++o->count;
}

void orc_leave(struct oracle *o, u32 pool, u32 index)
{
	struct orc_page *g = &o->pool[pool].page[index];
	struct orc_page left = {
		.state = KVCACHE_PAGE_RETIRING, .gen = g->gen + 1,
		.tenant = g->tenant, .pins = g->pins,
		.prio = g->prio, .used = g->used,
	};

	if (g->nr_keys && !g->flushed) {
		struct kvcache_event ev = {
			.type = KVCACHE_EV_EVICTED, .pool = pool,
			.tenant = g->tenant,
		};

		memcpy(ev.key, g->keys[g->nr_keys - 1].key, sizeof(ev.key));
		orc_post(o, g->tenant, &ev);
	}
	*g = left;
	retire(o, pool, index);
}

void orc_take(struct oracle *o, u32 pool, u32 index)
{
	struct orc_page *g = &o->pool[pool].page[index];

	if (g->state == KVCACHE_PAGE_PRIVATE) {
		struct orc_client *c = &o->client[g->owner];

		c->taken[c->nr_taken].pool = pool;
		c->taken[c->nr_taken].when = ++o->count;
		c->taken[c->nr_taken++].handle = orc_handle(o, pool, index);
	}
	orc_leave(o, pool, index);
}

void orc_put(struct oracle *o, u32 pool, u32 index, u32 client, u32 nr)
{
	struct orc_pool *p = &o->pool[pool];
	struct orc_page *g = &p->page[index];

	if (g->state == KVCACHE_PAGE_PRIVATE) {
		orc_leave(o, pool, index);
		return;
	}
	g->refs[client] -= nr;
	if (!g->refs[client] && g->keeper == client)
		g->keeper = 0;
	for (u32 c = 1; c < ORC_CLIENTS; c++)
		if (g->refs[c])
			return;
	if (p->draining || g->flushed ||
	    orc_staying(o, pool, g->tenant) > p->lim[g->tenant].max) {
		orc_leave(o, pool, index);
		return;
	}
	g->state = KVCACHE_PAGE_CACHED;
	g->used = o->now;
	g->expiry = o->now + o->tenant[g->tenant].set.ttl_ns;
	if (g->expiry < o->now)
		g->expiry = KVCACHE_TIME_NEVER;
	g->expired = false;
	if (!g->pins)
		orc_stamp(o, pool, g);
}

void orc_unpin(struct oracle *o, u32 pool, u32 index, u64 now)
{
	struct orc_page *g = &o->pool[pool].page[index];

	orc_call(o, pool, now);
	if (--g->pins)
		return;
	if (g->state == KVCACHE_PAGE_CACHED)
		orc_stamp(o, pool, g);
	else if (g->state == KVCACHE_PAGE_RETIRING)
		retire(o, pool, index);
	orc_serve(o, pool);
}

int orc_pin(struct oracle *o, u32 client, u32 pool, u64 handle)
{
	int i;

	if (o->client[client].dead)
		return -EOWNERDEAD;
	if (pool >= ORC_POOLS || !o->pool[pool].used)
		return -ENOENT;
	i = orc_resolve(o, pool, handle);
	if (i < 0)
		return i;
	if (!orc_refs(&o->pool[pool].page[i], client))
		return -EPERM;
	if (o->pool[pool].page[i].is_volatile)
		return -EBUSY;
	o->pool[pool].page[i].pins++;
	return 0;
}

int orc_access(const struct oracle *o, u32 client, u32 pool, u32 index,
	       bool write)
{
	const struct orc_page *g;

	if (o->client[client].dead)
		return -EOWNERDEAD;
	if (pool >= ORC_POOLS || !o->pool[pool].used || !index ||
	    index > o->pool[pool].nr)
		return -EPERM;
	g = &o->pool[pool].page[index];
	if (!orc_refs(g, client))
		return -EPERM;
	if (write && (g->state != KVCACHE_PAGE_PRIVATE || g->is_volatile))
		return -EPERM;
	return 0;
}

/* ---- free ------------------------------------------------------------ */

int orc_free(struct oracle *o, u32 client, u32 pool, const u64 *pages, u32 nr,
	     u64 now)
{
	struct orc_pool *p;
	u32 k, j, same;
	int i;

	if (o->client[client].dead)
		return -EOWNERDEAD;
	if (pool >= ORC_POOLS || !o->pool[pool].used)
		return -ENOENT;
	if (!nr || nr > KVCACHE_MAX_PAGES)
		return -EINVAL;
	orc_call(o, pool, now);
	p = &o->pool[pool];
	for (k = 0; k < nr; k++) {
		i = orc_resolve(o, pool, pages[k]);
		if (i < 0)
			return i;
		for (same = 0, j = 0; j <= k; j++)
			same += pages[j] == pages[k];
		if (same > orc_refs(&p->page[i], client))
			return -EPERM;
	}
	/* Last first; the windowed ones after these, first first. */
	for (k = nr; k--; ) {
		i = kvl_index(pages[k]);
		if (!p->page[i].windowed)
			orc_put(o, pool, i, client, 1);
	}
	for (k = 0; k < nr; k++) {
		i = orc_resolve(o, pool, pages[k]);
		if (i > 0 && p->page[i].windowed)
			orc_put(o, pool, i, client, 1);
	}
	orc_serve(o, pool);
	return 0;
}

/* ---- advise ---------------------------------------------------------- */

static int taken_record(const struct oracle *o, u32 client, u32 pool,
			u64 handle)
{
	const struct orc_client *c = &o->client[client];

	for (u32 k = 0; k < c->nr_taken; k++)
		if (c->taken[k].pool == pool && c->taken[k].handle == handle)
			return k;
	return -1;
}

static int advise_test(const struct oracle *o, u32 client,
		       const struct kvcache_advise *arg, u64 handle)
{
	int i = orc_resolve(o, arg->pool, handle);
	const struct orc_page *g;

	if (i < 0)
		return (arg->advice & KVCACHE_ADVISE_NONVOLATILE) &&
		       taken_record(o, client, arg->pool, handle) >= 0 ? 0 : i;
	g = &o->pool[arg->pool].page[i];
	if (!orc_refs(g, client))
		return -EPERM;
	if ((arg->advice & KVCACHE_ADVISE_PRIORITY) &&
	    g->state == KVCACHE_PAGE_PRIVATE &&
	    arg->ttl_ns != KVCACHE_TIME_NEVER)
		return -EINVAL;
	if (!(arg->advice & KVCACHE_ADVISE_VOLATILE))
		return 0;
	if (g->state != KVCACHE_PAGE_PRIVATE)
		return -EINVAL;
	return g->pins ? -EBUSY : 0;
}

static bool advice_ok(const struct kvcache_advise *arg)
{
	u32 a = arg->advice;

	if (!arg->nr || arg->nr > KVCACHE_MAX_PAGES || !a || a > 15)
		return false;
	if ((a & KVCACHE_ADVISE_VOLATILE) && (a & KVCACHE_ADVISE_NONVOLATILE))
		return false;
	if (a & KVCACHE_ADVISE_PRIORITY)
		return arg->priority <= KVCACHE_PRIO_MAX;
	return !arg->priority && !arg->ttl_ns;
}

static void prioritise(struct oracle *o, u32 pool, struct orc_page *g,
		       u32 prio, u64 ttl)
{
	struct kvcache_event ev = {
		.type = KVCACHE_EV_UPDATED, .pool = pool, .tenant = g->tenant,
		.priority = prio, .value = ttl,
	};

	g->prio = prio;
	g->prio_end = o->now + ttl < o->now ? KVCACHE_TIME_NEVER : o->now + ttl;
	if (!orc_findable(o, pool, g))
		return;
	memcpy(ev.key, g->keys[g->nr_keys - 1].key, sizeof(ev.key));
	orc_post(o, g->tenant, &ev);
}

static u8 advise_one(struct oracle *o, u32 client,
		     const struct kvcache_advise *arg, u64 handle)
{
	struct orc_client *c = &o->client[client];
	int i = orc_resolve(o, arg->pool, handle), k;
	struct orc_page *g;
	bool was;

	if (i < 0) {
		k = taken_record(o, client, arg->pool, handle);
		if (k >= 0)
			c->taken[k] = c->taken[--c->nr_taken];
		return KVCACHE_ADVISE_TAKEN;
	}
	g = &o->pool[arg->pool].page[i];
	was = g->is_volatile;
	if (arg->advice & KVCACHE_ADVISE_PRIORITY)
		prioritise(o, arg->pool, g, arg->priority, arg->ttl_ns);
	if (arg->advice & KVCACHE_ADVISE_TOUCH)
		g->used = o->now;
	if (arg->advice & KVCACHE_ADVISE_VOLATILE)
		g->is_volatile = true;
	if (arg->advice & KVCACHE_ADVISE_NONVOLATILE)
		g->is_volatile = false;
	if (orc_is_takeable(g) &&
	    (!was || (arg->advice & (KVCACHE_ADVISE_PRIORITY |
				     KVCACHE_ADVISE_TOUCH))))
		orc_stamp(o, arg->pool, g);
	return KVCACHE_ADVISE_KEPT;
}

int orc_advise(struct oracle *o, u32 client, struct kvcache_advise *arg,
	       u64 now)
{
	int err;
	u32 k;

	if (o->client[client].dead)
		return -EOWNERDEAD;
	if (arg->pool >= ORC_POOLS || !o->pool[arg->pool].used)
		return -ENOENT;
	if (!advice_ok(arg))
		return -EINVAL;
	orc_call(o, arg->pool, now);
	for (k = 0; k < arg->nr; k++) {
		err = advise_test(o, client, arg, arg->pages[k]);
		if (err)
			return err;
	}
	arg->out_taken = 0;
	for (k = arg->nr; k--; ) {
		arg->out_state[k] = advise_one(o, client, arg, arg->pages[k]);
		arg->out_taken += arg->out_state[k] == KVCACHE_ADVISE_TAKEN;
	}
	orc_serve(o, arg->pool);
	return 0;
}
