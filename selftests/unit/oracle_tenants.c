// SPDX-License-Identifier: MIT
/*
 * oracle_tenants.c - pools, tenants, clients, events and reports. Linear, see
 * oracle_ledger.h.
 */
#include <errno.h>
#include <string.h>

#include "oracle_priv.h"

void orc_init(struct oracle *o, const struct kvl_config *cfg)
{
	memset(o, 0, sizeof(*o));
	o->cfg = *cfg;
}

u32 orc_slice(const struct oracle *o)
{
	return o->cfg.slice ? o->cfg.slice : 4096;
}

/* ---- events ---------------------------------------------------------- */

void orc_post(struct oracle *o, u32 tenant, const struct kvcache_event *ev)
{
	struct orc_tenant *t = &o->tenant[tenant];

	for (u32 c = 1; c < ORC_CLIENTS; c++)
		if (o->client[c].used && !o->client[c].dead &&
		    o->client[c].listening && o->client[c].tenant == tenant) {
			t->ev[t->nr_events++ % ORC_EVENTS] = *ev;
			return;
		}
}

u32 orc_events(struct oracle *o, u32 client, struct kvcache_event *ev, u32 nr)
{
	struct orc_client *c = &o->client[client];
	struct orc_tenant *t = &o->tenant[c->tenant];
	u64 lost = 0;
	u32 k;

	if (c->dead)
		return 0;
	if (!c->listening) {
		c->listening = true;
		c->cursor = t->nr_events;
	}
	if (nr && t->nr_events - c->cursor > o->cfg.nr_events) {
		lost = t->nr_events - c->cursor - o->cfg.nr_events;
		c->cursor += lost;
	}
	for (k = 0; k < nr && c->cursor < t->nr_events; k++) {
		ev[k] = t->ev[c->cursor++ % ORC_EVENTS];
		ev[k].dropped = k ? 0 : lost;
	}
	return k;
}

/* ---- pools ----------------------------------------------------------- */

static void add_pages(struct oracle *o, struct orc_pool *p, u32 nr)
{
	while (p->nr < nr)
		p->page[++p->nr].freed = --o->added;
}

void orc_pool_add(struct oracle *o, u32 pool, const struct kvl_pool_config *cfg)
{
	struct orc_pool *p = &o->pool[pool];

	memset(p, 0, sizeof(*p));
	p->used = true;
	p->direct = cfg->flags & KVL_POOL_DIRECT;
	strcpy(p->name, cfg->name);
	p->kind = cfg->kind;
	p->page_size = cfg->page_size;
	p->capacity = cfg->capacity ? cfg->capacity : cfg->nr_pages;
	p->now = o->now;
	for (u32 i = 1; i < ORC_PAGES; i++)
		p->page[i].gen = o->last_gen[pool] + 1;
	add_pages(o, p, cfg->nr_pages);
	for (u32 t = 1; t < ORC_TENANTS; t++) {
		p->lim[t].max = KVCACHE_LIMIT_MAX;
		p->lim[t].deadline = KVCACHE_TIME_NEVER;
	}
}

int orc_pool_remove(struct oracle *o, u32 pool)
{
	struct orc_pool *p = &o->pool[pool];

	for (u32 i = 1; i <= p->nr; i++)
		if (p->page[i].state != KVCACHE_PAGE_FREE)
			return -EBUSY;
	for (u32 i = 0; i < ORC_REQUESTS; i++)
		if (o->req[i].queue != ORC_NONE && o->req[i].pool == pool)
			return -EBUSY;
	for (u32 c = 1; c < ORC_CLIENTS; c++)
		for (u32 k = o->client[c].nr_taken; k--; )
			if (o->client[c].taken[k].pool == pool)
				o->client[c].taken[k] = o->client[c].taken
						[--o->client[c].nr_taken];
	for (u32 i = 1; i < ORC_PAGES; i++)
		o->last_gen[pool] = max_t(u32, o->last_gen[pool],
					  p->page[i].gen);
	p->used = false;
	return 0;
}

int orc_resize(struct oracle *o, u32 pool, u64 nr, u64 *out, u64 now)
{
	struct orc_pool *p = &o->pool[pool];
	const struct orc_page *g;
	s64 end;
	u32 i;

	if (pool >= ORC_POOLS || !p->used)
		return -ENOENT;
	*out = p->nr;
	if (nr > p->capacity)
		return -E2BIG;
	if (!nr || nr < orc_sum_min(o, pool, 0))
		return -EINVAL;
	orc_call(o, pool, now);
	add_pages(o, p, min_t(u64, nr, (u64)p->nr + orc_slice(o)));
	end = max_t(s64, nr, (s64)p->nr - orc_slice(o));
	for (i = p->nr; i > end; i--) {
		g = &p->page[i];
		if (orc_is_takeable(g))
			orc_take(o, pool, i);
		else if (g->state != KVCACHE_PAGE_FREE &&
			 (g->state != KVCACHE_PAGE_RETIRING || g->stuck))
			break;
	}
	while (p->nr > end && p->page[p->nr].state == KVCACHE_PAGE_FREE)
		p->nr--;
	*out = p->nr;
	orc_unback(o, pool);
	orc_serve(o, pool);
	g = &p->page[p->nr];
	if (p->nr <= end || p->nr == nr)
		return p->nr != nr ? KVL_MORE : 0;
	return g->state == KVCACHE_PAGE_RETIRING && !g->stuck ? KVL_WORK :
								-EBUSY;
}

int orc_drain(struct oracle *o, u32 pool, u64 now)
{
	if (pool >= ORC_POOLS || !o->pool[pool].used)
		return -ENOENT;
	orc_call(o, pool, now);
	o->pool[pool].draining = true;
	for (u32 i = 0; i < ORC_REQUESTS; i++)
		if (o->req[i].queue != ORC_NONE && o->req[i].pool == pool)
			orc_finish(o, &o->req[i], -ESHUTDOWN);
	return 0;
}

int orc_resume(struct oracle *o, u32 pool)
{
	if (pool >= ORC_POOLS || !o->pool[pool].used)
		return -ENOENT;
	o->pool[pool].draining = false;
	return 0;
}

/* The tenant created first after @after; 0 at the end. */
static u32 next_tenant(const struct oracle *o, u32 after)
{
	u64 when = after ? o->tenant[after].created : 0;
	u32 best = 0;

	for (u32 t = 1; t < ORC_TENANTS; t++)
		if (o->tenant[t].used && o->tenant[t].created > when &&
		    (!best || o->tenant[t].created < o->tenant[best].created))
			best = t;
	return best;
}

/* Gives up takeable pages of a tenant, or of these only the CACHED ones. */
static u32 trim(struct oracle *o, u32 pool, u32 tenant, bool cached, u32 budget)
{
	u32 done, i;

	for (done = 0; done < budget; done++) {
		i = orc_oldest(o, pool, tenant, cached);
		if (!i)
			break;
		orc_take(o, pool, i);
	}
	return done;
}

int orc_trim(struct oracle *o, u32 pool, u32 budget, u64 now)
{
	u32 done = 0;

	if (pool >= ORC_POOLS || !o->pool[pool].used)
		return -ENOENT;
	orc_call(o, pool, now);
	for (u32 t = 0; (t = next_tenant(o, t)); )
		done += trim(o, pool, t, false, budget - done);
	orc_serve(o, pool);
	return done;
}

u64 orc_staying(const struct oracle *o, u32 pool, u32 tenant)
{
	const struct orc_pool *p = &o->pool[pool];
	u64 n = 0;

	for (u32 i = 1; i <= p->nr; i++)
		n += p->page[i].tenant == tenant &&
		     p->page[i].state != KVCACHE_PAGE_FREE &&
		     (p->page[i].state != KVCACHE_PAGE_RETIRING ||
		      p->page[i].stuck);
	return n;
}

static void revoke(struct oracle *o, u32 pool, u32 index)
{
	struct orc_page *g = &o->pool[pool].page[index];
	struct kvcache_event ev = {
		.type = KVCACHE_EV_REVOKED, .pool = pool, .tenant = g->tenant,
		.value = orc_handle(o, pool, index),
	};

	o->pool[pool].lim[g->tenant].revokes++;
	o->pool[pool].stat.out_revokes++;
	orc_post(o, g->tenant, &ev);
	for (u32 c = 1; c < ORC_CLIENTS; c++)
		if (orc_refs(g, c) && o->client[c].tenant != g->tenant)
			orc_post(o, o->client[c].tenant, &ev);
	orc_leave(o, pool, index);
}

static u32 revoke_above(struct oracle *o, u32 pool, u32 tenant, u32 budget)
{
	struct orc_pool *p = &o->pool[pool];
	struct orc_limits *lim = &p->lim[tenant];
	u32 done = 0, i;

	while (done < budget && orc_staying(o, pool, tenant) > lim->max &&
	       orc_reclaim_own(o, pool, tenant))
		done++;
	for (i = p->nr; i && done < budget; i--) {
		const struct orc_page *g = &p->page[i];

		if (orc_staying(o, pool, tenant) <= lim->max)
			break;
		if (g->tenant != tenant || (g->state != KVCACHE_PAGE_PRIVATE &&
					    g->state != KVCACHE_PAGE_SHARED))
			continue;
		revoke(o, pool, i);
		done++;
	}
	if (orc_staying(o, pool, tenant) <= lim->max || !i)
		lim->deadline = KVCACHE_TIME_NEVER;
	return done;
}

static u32 tick_tenant(struct oracle *o, u32 pool, u32 tenant, u32 budget)
{
	struct orc_limits *lim = &o->pool[pool].lim[tenant];
	u32 done = lim->fitting ? orc_fit(o, pool, tenant, budget) : 0;

	if (lim->deadline <= o->now)
		done += revoke_above(o, pool, tenant, budget - done);
	return done;
}

u32 orc_tick(struct oracle *o, u64 now, u32 budget)
{
	u32 done = 0, i;

	for (u32 k = 0; k < ORC_POOLS; k++) {
		if (!o->pool[k].used)
			continue;
		orc_call(o, k, now);
		while (done < budget && (i = orc_expired(o, k))) {
			orc_take(o, k, i);
			o->pool[k].stat.out_expired++;
			done++;
		}
		for (u32 t = 0; done < budget && (t = next_tenant(o, t)); )
			done += tick_tenant(o, k, t, budget - done);
		orc_serve(o, k);
	}
	return done;
}

u64 orc_next_tick(const struct oracle *o)
{
	u64 next = KVCACHE_TIME_NEVER;

	for (u32 k = 0; k < ORC_POOLS; k++) {
		const struct orc_pool *p = &o->pool[k];

		for (u32 i = 1; i <= p->nr; i++)
			if (p->page[i].state == KVCACHE_PAGE_CACHED &&
			    !p->page[i].pins)
				next = min_t(u64, next, p->page[i].expiry);
		for (u32 t = 1; t < ORC_TENANTS; t++)
			if (p->used && o->tenant[t].used)
				next = min_t(u64, next, p->lim[t].fitting ? 0 :
					     p->lim[t].deadline);
	}
	return next;
}

/* ---- tenants --------------------------------------------------------- */

static int set_test(const struct oracle *o, u32 tenant,
		    const struct kvcache_tenant_set *arg)
{
	if (arg->set > 31)
		return -EINVAL;
	if ((arg->set & KVCACHE_SET_OWNER) && (arg->mode & ~0444))
		return -EINVAL;
	if ((arg->set & KVCACHE_SET_TTL) && !arg->ttl_ns)
		return -EINVAL;
	if ((arg->set & KVCACHE_SET_TRUST) && arg->trust > 1)
		return -EINVAL;
	if (!(arg->set & KVCACHE_SET_LIMITS))
		return 0;
	if (arg->pool >= ORC_POOLS || !o->pool[arg->pool].used)
		return -ENOENT;
	if (arg->min > arg->max || arg->low > arg->max)
		return -EINVAL;
	if (arg->min > o->pool[arg->pool].nr ||
	    arg->min + orc_sum_min(o, arg->pool, tenant) >
	    o->pool[arg->pool].nr)
		return -ENOSPC;
	return 0;
}

int orc_tenant_fit(struct oracle *o, u32 tenant, u32 pool, u32 budget, u64 now)
{
	u32 done;

	if (tenant >= ORC_TENANTS || !o->tenant[tenant].used ||
	    pool >= ORC_POOLS || !o->pool[pool].used)
		return -ENOENT;
	orc_call(o, pool, now);
	done = orc_fit(o, pool, tenant, budget);
	orc_serve(o, pool);
	return done;
}

static void set_limits(struct oracle *o, u32 tenant,
		       const struct kvcache_tenant_set *arg)
{
	struct orc_limits *lim = &o->pool[arg->pool].lim[tenant];

	lim->min = arg->min;
	lim->low = arg->low;
	if (lim->max != arg->max || arg->deadline_ns != KVCACHE_TIME_NEVER)
		lim->deadline = arg->deadline_ns;
	lim->max = arg->max;
	lim->fitting = true;
	lim->told = false;
	orc_keep_limit(o, arg->pool, tenant);
	orc_serve(o, arg->pool);
}

static void set_apply(struct oracle *o, u32 tenant,
		      struct kvcache_tenant_set *arg, u64 now)
{
	struct kvcache_tenant_set *set = &o->tenant[tenant].set;

	set->revision = arg->revision ? arg->revision : set->revision + 1;
	o->tenant[tenant].last = *arg;
	if (arg->set & KVCACHE_SET_OWNER) {
		set->uid = arg->uid;
		set->gid = arg->gid;
		set->mode = arg->mode;
	}
	if (arg->set & KVCACHE_SET_TTL)
		set->ttl_ns = arg->ttl_ns;
	if (arg->set & KVCACHE_SET_CGROUP)
		set->cgroup = arg->cgroup;
	if (arg->set & KVCACHE_SET_TRUST)
		set->trust = arg->trust;
	if (arg->set & KVCACHE_SET_LIMITS) {
		orc_call(o, arg->pool, now);
		set_limits(o, tenant, arg);
	}
	arg->out_tenant = tenant;
	arg->out_revision = set->revision;
}

int orc_tenant_create(struct oracle *o, u32 number,
		      struct kvcache_tenant_set *arg, u64 now)
{
	struct orc_tenant *t;
	u32 used = 0;
	int err;

	if (arg->tenant || !arg->name[0] || arg->name[0] == '.')
		return -EINVAL;
	for (u32 k = 1; k < ORC_TENANTS; k++) {
		used += o->tenant[k].used;
		if (o->tenant[k].used &&
		    !strcmp(o->tenant[k].set.name, arg->name))
			return -EEXIST;
	}
	err = set_test(o, 0, arg);
	if (err)
		return err;
	if (used == o->cfg.max_tenants)
		return -ENOSPC;
	if (!number || number > o->cfg.max_tenants || o->tenant[number].used)
		return -EUCLEAN;
	t = &o->tenant[number];
	memset(t, 0, offsetof(struct orc_tenant, ev));
	memset(t->from, 0, sizeof(t->from));
	t->used = true;
	t->created = ++o->count;
	t->set.mode = 0400;
	t->set.ttl_ns = KVCACHE_TIME_NEVER;
	strcpy(t->set.name, arg->name);
	for (u32 k = 0; k < ORC_POOLS; k++) {
		memset(&o->pool[k].lim[number], 0, sizeof(o->pool[k].lim[0]));
		o->pool[k].lim[number].max = KVCACHE_LIMIT_MAX;
		o->pool[k].lim[number].deadline = KVCACHE_TIME_NEVER;
	}
	set_apply(o, number, arg, now);
	return 0;
}

/* Is it the last change once more: only what it sets counts. */
static bool same_change(const struct kvcache_tenant_set *a,
			const struct kvcache_tenant_set *b)
{
	u32 s = a->set;

	return s == b->set &&
	       (!(s & KVCACHE_SET_OWNER) ||
		(a->uid == b->uid && a->gid == b->gid && a->mode == b->mode)) &&
	       (!(s & KVCACHE_SET_LIMITS) ||
		(a->pool == b->pool && a->min == b->min && a->low == b->low &&
		 a->max == b->max && a->deadline_ns == b->deadline_ns)) &&
	       (!(s & KVCACHE_SET_TTL) || a->ttl_ns == b->ttl_ns) &&
	       (!(s & KVCACHE_SET_CGROUP) || a->cgroup == b->cgroup) &&
	       (!(s & KVCACHE_SET_TRUST) || a->trust == b->trust);
}

int orc_tenant_set(struct oracle *o, struct kvcache_tenant_set *arg, u64 now)
{
	struct orc_tenant *t;
	int err;

	if (arg->tenant >= ORC_TENANTS || !o->tenant[arg->tenant].used)
		return -ENOENT;
	t = &o->tenant[arg->tenant];
	if (arg->name[0])
		return -EINVAL;
	err = set_test(o, arg->tenant, arg);
	if (err && err != -ENOSPC)
		return err;
	if (arg->revision && arg->revision < t->set.revision)
		return -ESTALE;
	if (arg->revision == t->set.revision) {
		if (!same_change(arg, &t->last))
			return -EEXIST;
		arg->out_tenant = arg->tenant;
		arg->out_revision = t->set.revision;
		return 0;
	}
	if (err)
		return err;
	set_apply(o, arg->tenant, arg, now);
	return 0;
}

int orc_tenant_grant(struct oracle *o, const struct kvcache_tenant_grant *arg)
{
	struct orc_grant *g;

	if (arg->tenant >= ORC_TENANTS || !o->tenant[arg->tenant].used ||
	    arg->to >= ORC_TENANTS || !o->tenant[arg->to].used)
		return -ENOENT;
	if (arg->tenant == arg->to || arg->rights > 3)
		return -EINVAL;
	g = &o->tenant[arg->to].from[arg->tenant];
	/* One that was taken back keeps its place as long as pages are held. */
	if (!g->rights && arg->rights && !orc_held(o, arg->tenant, arg->to))
		g->order = ++o->count;
	g->rights = arg->rights;
	g->max_held = arg->max_held;
	return 0;
}

int orc_tenant_flush(struct oracle *o, u32 tenant, u32 pool, u32 budget,
		     u64 now)
{
	u32 done = 0;

	if (tenant >= ORC_TENANTS || !o->tenant[tenant].used ||
	    (pool != ~0U && (pool >= ORC_POOLS || !o->pool[pool].used)))
		return -ENOENT;
	for (u32 k = 0; k < ORC_POOLS; k++) {
		struct orc_pool *p = &o->pool[k];

		if (!p->used || (pool != ~0U && pool != k))
			continue;
		orc_call(o, k, now);
		for (u32 i = 1; i <= p->nr; i++)
			if (p->page[i].tenant == tenant && p->page[i].nr_keys)
				p->page[i].flushed = true;
		orc_post(o, tenant, &(struct kvcache_event){
			.type = KVCACHE_EV_CLEARED, .pool = k,
			.tenant = tenant });
		done += trim(o, k, tenant, true, budget - done);
		orc_serve(o, k);
	}
	return done;
}

int orc_tenant_trim(struct oracle *o, u32 tenant, u32 pool, u32 budget, u64 now)
{
	u32 done;

	if (tenant >= ORC_TENANTS || !o->tenant[tenant].used ||
	    pool >= ORC_POOLS || !o->pool[pool].used)
		return -ENOENT;
	orc_call(o, pool, now);
	done = trim(o, pool, tenant, true, budget);
	orc_serve(o, pool);
	return done;
}

int orc_tenant_remove(struct oracle *o, u32 tenant, u64 *pages, u64 now)
{
	u64 left = 0, more = 0;

	if (tenant >= ORC_TENANTS || !o->tenant[tenant].used)
		return -ENOENT;
	for (u32 c = 1; c < ORC_CLIENTS; c++)
		if (o->client[c].used && o->client[c].tenant == tenant)
			return -EBUSY;
	for (u32 k = 0; k < ORC_POOLS; k++)
		if (o->pool[k].used &&
		    orc_staying(o, k, tenant) != orc_takeable(o, k, tenant))
			return -EBUSY;
	*pages = 0;
	for (u32 k = 0; k < ORC_POOLS; k++) {
		if (!o->pool[k].used)
			continue;
		orc_call(o, k, now);
		*pages += trim(o, k, tenant, true, orc_slice(o) - *pages);
		more += orc_takeable(o, k, tenant);
		left += orc_cur(o, k, tenant);
	}
	if (left)
		return more ? KVL_MORE : KVL_WORK;
	o->tenant[tenant].used = false;
	for (u32 t = 1; t < ORC_TENANTS; t++) {
		struct orc_grant *g = &o->tenant[t].from[tenant];

		if (o->tenant[t].used && g->rights)
			orc_post(o, t, &(struct kvcache_event){
				.type = KVCACHE_EV_TENANT_GONE,
				.tenant = tenant });
		memset(g, 0, sizeof(*g));
	}
	memset(o->tenant[tenant].from, 0, sizeof(o->tenant[tenant].from));
	for (u32 k = 0; k < ORC_POOLS; k++)
		if (o->pool[k].used)
			orc_serve(o, k);
	return 0;
}

/* ---- clients --------------------------------------------------------- */

int orc_client_attach(struct oracle *o, u32 number, u32 tenant)
{
	u32 used = 0, of_tenant = 0;

	if (tenant >= ORC_TENANTS || !o->tenant[tenant].used)
		return -ENOENT;
	for (u32 c = 1; c < ORC_CLIENTS; c++) {
		used += o->client[c].used;
		of_tenant += o->client[c].used && o->client[c].tenant == tenant;
	}
	if (o->cfg.tenant_clients && of_tenant >= o->cfg.tenant_clients)
		return -EDQUOT;
	if (used == o->cfg.max_clients)
		return -ENOSPC;
	if (!number || number > o->cfg.max_clients || o->client[number].used)
		return -EUCLEAN;
	memset(&o->client[number], 0, sizeof(o->client[0]));
	o->client[number].used = true;
	o->client[number].tenant = tenant;
	return 0;
}

void orc_client_kill(struct oracle *o, u32 client)
{
	o->client[client].dead = true;
	for (u32 i = 0; i < ORC_REQUESTS; i++)
		if (o->req[i].queue != ORC_NONE && o->req[i].client == client)
			orc_finish(o, &o->req[i], -EOWNERDEAD);
	for (u32 k = 0; k < ORC_POOLS; k++)
		if (o->pool[k].used)
			orc_serve(o, k);
}

/* The page that the client got last of those it was the first to hold, or not. */
static u32 latest(const struct oracle *o, u32 pool, u32 client, bool first)
{
	const struct orc_pool *p = &o->pool[pool];
	u32 best = 0;

	for (u32 i = 1; i <= p->nr; i++) {
		const struct orc_page *g = &p->page[i];
		bool keeps = g->state == KVCACHE_PAGE_PRIVATE ||
			     g->keeper == client;

		if (orc_refs(g, client) && keeps == first &&
		    (!best ||
		     g->acquired[client] > p->page[best].acquired[client]))
			best = i;
	}
	return best;
}

/* What tells of the page that was taken last, or -1. */
static int latest_taken(const struct orc_client *c, u32 pool)
{
	int best = -1;

	for (u32 k = 0; k < c->nr_taken; k++)
		if (c->taken[k].pool == pool &&
		    (best < 0 || c->taken[k].when > c->taken[best].when))
			best = k;
	return best;
}

u32 orc_client_reap(struct oracle *o, u32 client, u32 budget, u64 now)
{
	struct orc_client *c = &o->client[client];
	u32 done = 0, i;
	int t;

	if (!c->dead)
		return 0;
	for (u32 k = 0; k < ORC_POOLS; k++) {
		struct orc_pool *p = &o->pool[k];

		if (!p->used)
			continue;
		orc_call(o, k, now);
		for (; done < budget && (i = latest(o, k, client, true)); done++)
			orc_put(o, k, i, client, orc_refs(&p->page[i], client));
		for (; done < budget; done++) {
			i = latest(o, k, client, false);
			t = latest_taken(c, k);
			if (t >= 0 && (!i || c->taken[t].when >
					     p->page[i].acquired[client]))
				c->taken[t] = c->taken[--c->nr_taken];
			else if (i)
				orc_put(o, k, i, client,
					orc_refs(&p->page[i], client));
			else
				break;
		}
		orc_serve(o, k);
	}
	return done;
}

int orc_client_detach(struct oracle *o, u32 client)
{
	struct orc_client *c = &o->client[client];

	if (!c->dead || c->nr_taken)
		return -EBUSY;
	for (u32 k = 0; k < ORC_POOLS; k++)
		for (u32 i = 1; i <= o->pool[k].nr; i++)
			if (orc_refs(&o->pool[k].page[i], client))
				return -EBUSY;
	c->used = false;
	return 0;
}
