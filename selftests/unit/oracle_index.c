// SPDX-License-Identifier: MIT
/*
 * oracle_index.c - publish and lookup. Linear, see oracle_ledger.h.
 */
#include <errno.h>
#include <string.h>

#include "oracle_priv.h"

/* The key's number in a page, or -1. */
static int key_of(const struct orc_page *g, const u8 *key)
{
	for (u32 k = 0; k < g->nr_keys; k++)
		if (!memcmp(g->keys[k].key, key, KVCACHE_KEY_LEN))
			return k;
	return -1;
}

/* The page of @domain that was published last under this key, or 0. */
static u32 find(const struct oracle *o, u32 pool, u32 domain, const u8 *key,
		u32 *fill)
{
	const struct orc_pool *p = &o->pool[pool];
	u32 best = 0;

	for (u32 i = 1; i <= p->nr; i++) {
		const struct orc_page *g = &p->page[i];

		if (g->tenant != domain || !orc_findable(o, pool, g) ||
		    key_of(g, key) < 0)
			continue;
		if (!best || g->published > p->page[best].published)
			best = i;
	}
	if (best)
		*fill = p->page[best].keys[key_of(&p->page[best], key)].fill;
	return best;
}

/* One more reference of a client. */
static void get(struct oracle *o, u32 pool, u32 index, u32 client)
{
	struct orc_page *g = &o->pool[pool].page[index];

	g->state = KVCACHE_PAGE_SHARED;
	g->expired = false;
	g->used = o->now;
	if (!g->refs[client]++) {
		g->acquired[client] = ++o->count;
		if (!g->keeper)
			g->keeper = client;
	}
}

/* ---- publish --------------------------------------------------------- */

struct plan {
	u32 domain;
	u32 page[KVCACHE_MAX_PUBLISH];	/* to be published */
	u32 hit[KVCACHE_MAX_PUBLISH];	/* existing page used instead, or 0 */
	int same[KVCACHE_MAX_PUBLISH];	/* entry whose page is used, or -1 */
};

static bool keys_ok(const struct kvcache_publish_page *e)
{
	if (!e->nr_keys || e->nr_keys > KVCACHE_MAX_PAGE_KEYS ||
	    e->priority > KVCACHE_PRIO_MAX || !e->keys[0].fill)
		return false;
	for (u32 k = 1; k < e->nr_keys; k++) {
		if (e->keys[k].fill <= e->keys[k - 1].fill)
			return false;
		for (u32 j = 0; j < k; j++)
			if (!memcmp(e->keys[j].key, e->keys[k].key,
				    KVCACHE_KEY_LEN))
				return false;
	}
	return true;
}

/* A PRIVATE page of the client that may become immutable: its index. */
static int own_private(const struct oracle *o, u32 client, u32 pool, u64 handle)
{
	const struct orc_page *g;
	int i = orc_resolve(o, pool, handle);

	if (i < 0)
		return i;
	g = &o->pool[pool].page[i];
	if (!orc_refs(g, client))
		return -EPERM;
	if (g->state != KVCACHE_PAGE_PRIVATE)
		return -EINVAL;
	return g->is_volatile ? -EBUSY : i;
}

/* Is the page named by an earlier part of the call. */
static bool named(const struct kvcache_publish *arg, const struct plan *plan,
		  u32 k, u32 index)
{
	for (u32 j = 0; j < k; j++)
		if (kvl_index(arg->pages[j].handle) == index ||
		    plan->page[j] == index)
			return true;
	return false;
}

/* The entry of the call that brings the key of entry @k, or -1. */
static int earlier(const struct kvcache_publish *arg, const struct plan *plan,
		   u32 k, const struct kvcache_key *top)
{
	for (u32 j = k; j--; ) {
		const struct kvcache_publish_page *e = &arg->pages[j];

		if (plan->hit[j] || plan->same[j] >= 0)
			continue;
		for (u32 x = 0; x < e->nr_keys; x++)
			if (!memcmp(e->keys[x].key, top->key, KVCACHE_KEY_LEN))
				return e->keys[x].fill == top->fill ? (int)j : -1;
	}
	return -1;
}

static int plan_page(const struct oracle *o, u32 client,
		     const struct kvcache_publish *arg, u64 copy, u32 k,
		     struct plan *plan)
{
	const struct kvcache_publish_page *e = &arg->pages[k];
	const struct orc_pool *p = &o->pool[arg->pool];
	const struct kvcache_key *top;
	u32 fill = 0;
	int i;

	plan->same[k] = -1;
	if (!keys_ok(e))
		return -EINVAL;
	i = own_private(o, client, arg->pool, e->handle);
	if (i < 0 && i != -EBUSY)
		return i;
	if (named(arg, plan, k, kvl_index(e->handle)))
		return -EINVAL;
	if (i < 0)
		return i;
	plan->page[k] = i;
	top = &e->keys[e->nr_keys - 1];
	if (!(e->flags & KVCACHE_PUBLISH_NODEDUP)) {
		plan->hit[k] = find(o, arg->pool, plan->domain, top->key, &fill);
		if (fill != top->fill)
			plan->hit[k] = 0;
		if (!plan->hit[k])
			plan->same[k] = earlier(arg, plan, k, top);
	}
	if (plan->hit[k] || !p->page[i].pins)
		return 0;
	if (!copy || !(e->flags & KVCACHE_PUBLISH_COPY))
		return -EBUSY;
	i = own_private(o, client, arg->pool, copy);
	if (i < 0 && i != -EBUSY)
		return i;
	if (kvl_index(copy) == plan->page[k] ||
	    named(arg, plan, k, kvl_index(copy)))
		return -EINVAL;
	if (i < 0 || p->page[i].pins)
		return -EBUSY;
	plan->page[k] = i;
	return 0;
}

/* What the promises lack. */
static s64 debt(struct oracle *o, u32 pool)
{
	s64 n = -orc_unclaimed(o, pool);

	for (u32 t = 1; t < ORC_TENANTS; t++) {
		s64 above = orc_live(o, pool, t) - o->pool[pool].lim[t].min;

		if (!o->tenant[t].used)
			continue;
		n -= above > 0 ? min_t(s64, above, orc_takeable(o, pool, t)) :
				 above;
	}
	return n;
}

static int plan_charge(struct oracle *o, u32 client,
		       const struct kvcache_publish *arg, struct plan *plan)
{
	u32 own = o->client[client].tenant, to = plan->domain, k, j;
	struct orc_pool *p = &o->pool[arg->pool];
	u64 moved = 0, idle = 0, fresh = 0;
	s64 then, now;

	if (own == to)
		return 0;
	for (k = 0; k < arg->nr; k++) {
		moved += !plan->hit[k] && plan->same[k] < 0;
		for (j = 0; j < k && plan->hit[j] != plan->hit[k]; j++)
			;
		if (!plan->hit[k] || j < k)
			continue;
		idle += orc_is_takeable(&p->page[plan->hit[k]]);
		fresh += !orc_refs(&p->page[plan->hit[k]], client);
	}
	if (orc_held(o, to, own) + moved + fresh >
	    o->tenant[own].from[to].max_held)
		return -EDQUOT;
	if (p->lim[to].fitting ||
	    orc_used(o, arg->pool, to) + idle + moved > p->lim[to].max)
		return -EDQUOT;
	then = debt(o, arg->pool);
	for (k = 0; k < arg->nr; k++)
		if (!plan->hit[k] && plan->same[k] < 0)
			p->page[plan->page[k]].tenant = to;
	now = debt(o, arg->pool);
	for (k = 0; k < arg->nr; k++)
		p->page[plan->page[k]].tenant = own;
	return now > 0 && now > then ? -ENOSPC : 0;
}

static int publish_domain(const struct oracle *o, u32 client, u32 domain,
			  u32 *out)
{
	u32 own = o->client[client].tenant;

	*out = domain ? domain : own;
	if (*out == own)
		return 0;
	if (domain >= ORC_TENANTS || !o->tenant[domain].used)
		return -ENOENT;
	return o->tenant[own].from[domain].rights & KVCACHE_GRANT_PUBLISH ?
	       0 : -EPERM;
}

static void publish_one(struct oracle *o, u32 client, u32 pool, u32 domain,
			u32 index, const struct kvcache_publish_page *e)
{
	struct orc_pool *p = &o->pool[pool];
	struct orc_page *g = &p->page[index];
	struct kvcache_event ev = {
		.type = KVCACHE_EV_PUBLISHED, .pool = pool, .tenant = domain,
		.priority = e->priority, .value = orc_handle(o, pool, index),
	};
	u64 cur;

	if (g->tenant != domain) {
		while (orc_live(o, pool, domain) + 1 > p->lim[domain].max &&
		       orc_reclaim_own(o, pool, domain))
			;
		g->tenant = domain;
		cur = orc_cur(o, pool, domain);
		p->lim[domain].peak = max_t(u64, p->lim[domain].peak, cur);
	}
	g->state = KVCACHE_PAGE_SHARED;
	g->keeper = client;
	g->refs[client] = 1;
	g->owner = 0;
	g->used = o->now;
	g->windowed = e->flags & KVCACHE_PUBLISH_WINDOW;
	g->prio = e->priority;
	g->prio_end = o->now + e->ttl_ns;
	if (g->prio_end < o->now)
		g->prio_end = KVCACHE_TIME_NEVER;
	g->nr_keys = e->nr_keys;
	memcpy(g->keys, e->keys, sizeof(g->keys));
	g->fill = e->keys[e->nr_keys - 1].fill;
	g->published = ++o->count;
	memcpy(ev.key, e->keys[e->nr_keys - 1].key, sizeof(ev.key));
	memcpy(ev.parent, e->parent, sizeof(ev.parent));
	orc_post(o, domain, &ev);
}

int orc_publish(struct oracle *o, u32 client, struct kvcache_publish *arg,
		const u64 *copies, u64 now)
{
	struct plan plan = { 0 };
	u32 k, orig, use;
	int err;

	if (o->client[client].dead)
		return -EOWNERDEAD;
	if (arg->pool >= ORC_POOLS || !o->pool[arg->pool].used)
		return -ENOENT;
	if (!arg->nr || arg->nr > KVCACHE_MAX_PUBLISH)
		return -EINVAL;
	err = publish_domain(o, client, arg->domain, &plan.domain);
	if (err)
		return err;
	orc_call(o, arg->pool, now);
	for (k = 0; k < arg->nr; k++) {
		err = plan_page(o, client, arg, copies ? copies[k] : 0, k,
				&plan);
		if (err)
			return err;
	}
	err = plan_charge(o, client, arg, &plan);
	if (err)
		return err;

	for (k = 0; k < arg->nr; k++)
		if (plan.hit[k])
			get(o, arg->pool, plan.hit[k], client);
	for (k = 0; k < arg->nr; k++) {
		struct kvcache_publish_page *e = &arg->pages[k];

		orig = kvl_index(e->handle);
		use = plan.hit[k];
		if (plan.same[k] >= 0) {
			use = plan.page[plan.same[k]];
			get(o, arg->pool, use, client);
		}
		e->out_result = KVCACHE_DEDUPLICATED;
		if (!use) {
			use = plan.page[k];
			publish_one(o, client, arg->pool, plan.domain, use, e);
			e->out_result = use == orig ? KVCACHE_PUBLISHED :
						      KVCACHE_COPIED;
		}
		e->out_handle = orc_handle(o, arg->pool, use);
		if (e->out_result == KVCACHE_DEDUPLICATED)
			o->pool[arg->pool].stat.out_dedups++;
		else
			o->pool[arg->pool].stat.out_publishes++;
		if (use != orig)
			orc_leave(o, arg->pool, orig);
	}
	orc_serve(o, arg->pool);
	return 0;
}

/* ---- lookup ---------------------------------------------------------- */

/* Who may be searched, in order; 0 at the end. */
static u32 domain_of(const struct oracle *o, u32 tenant, u32 nth)
{
	const struct orc_grant *from = o->tenant[tenant].from;
	u64 after = 0;
	u32 best = tenant;

	while (nth--) {
		best = 0;
		for (u32 t = 1; t < ORC_TENANTS; t++)
			if ((from[t].rights & KVCACHE_GRANT_LOOKUP) &&
			    from[t].order > after &&
			    (!best || from[t].order < from[best].order))
				best = t;
		if (!best)
			return 0;
		after = from[best].order;
	}
	return best;
}

static u32 find_any(const struct oracle *o, u32 pool, u32 tenant, const u8 *key,
		    u32 *fill)
{
	u32 nth, domain, i;

	for (nth = 0; (domain = domain_of(o, tenant, nth)); nth++) {
		i = find(o, pool, domain, key, fill);
		if (i)
			return i;
	}
	return 0;
}

/*
 * Try the prefix that ends with key number @end: its last @tail pages (0: all)
 * must exist. Fills @arg.
 */
static bool try_prefix(const struct oracle *o, u32 tenant,
		       struct kvcache_lookup *arg, u32 end)
{
	u32 kpp = arg->keys_per_page, pages = (end + kpp - 1) / kpp, nr, j;

	nr = arg->tail ? min_t(u32, arg->tail, pages) : pages;
	for (j = 0; j < nr; j++) {
		u32 last = min_t(u32, (pages - nr + j + 1) * kpp, end), fill;
		u32 i = find_any(o, arg->pool, tenant, arg->keys[last - 1],
				 &fill);

		if (!i)
			return false;
		arg->out_found[j].handle = orc_handle(o, arg->pool, i);
		arg->out_found[j].fill = fill;
		arg->out_found[j].domain = o->pool[arg->pool].page[i].tenant;
	}
	memset(&arg->out_found[nr], 0,
	       (KVCACHE_MAX_KEYS - nr) * sizeof(arg->out_found[0]));
	arg->out_nr_pages = nr;
	arg->out_nr_keys = end;
	return true;
}

static void find_prefix(const struct oracle *o, u32 tenant,
			struct kvcache_lookup *arg)
{
	u32 end;

	for (end = arg->nr_keys; end; end--)
		if (try_prefix(o, tenant, arg, end))
			return;
}

/* Whether the bounds of the grants allow to hold the first @nr pages found. */
static bool may_hold(const struct oracle *o, u32 client,
		     const struct kvcache_lookup *arg, u32 nr)
{
	u32 own = o->client[client].tenant, k, j;

	for (u32 t = 1; t < ORC_TENANTS; t++) {
		u64 more = 0;

		if (t == own)
			continue;
		for (k = 0; k < nr; k++) {
			u64 handle = arg->out_found[k].handle;

			for (j = 0; arg->out_found[j].handle != handle; j++)
				;
			more += arg->out_found[k].domain == t && j == k &&
				!orc_refs(&o->pool[arg->pool].page
					  [kvl_index(handle)], client);
		}
		if (more && orc_held(o, t, own) + more >
			    o->tenant[own].from[t].max_held)
			return false;
	}
	return true;
}

/* What would be left if the pages found were taken: try it. */
static void peek(struct oracle *o, u32 tenant, struct kvcache_lookup *arg)
{
	struct orc_pool *p = &o->pool[arg->pool];
	bool was[ORC_PAGES] = { false };

	for (u32 k = 0; k < arg->out_nr_pages; k++) {
		u32 i = kvl_index(arg->out_found[k].handle);

		if (p->page[i].state == KVCACHE_PAGE_CACHED) {
			p->page[i].state = KVCACHE_PAGE_SHARED;
			was[i] = true;
			arg->out_idle++;
		}
	}
	arg->out_available = orc_could_have(o, arg->pool, tenant);
	for (u32 i = 0; i < ORC_PAGES; i++)
		if (was[i])
			p->page[i].state = KVCACHE_PAGE_CACHED;
}

int orc_lookup(struct oracle *o, u32 client, struct kvcache_lookup *arg,
	       u64 now)
{
	u32 tenant = o->client[client].tenant, first, k, nr;
	struct orc_pool *p;

	if (o->client[client].dead)
		return -EOWNERDEAD;
	if (arg->pool >= ORC_POOLS || !o->pool[arg->pool].used)
		return -ENOENT;
	if (!arg->nr_keys || arg->nr_keys > KVCACHE_MAX_KEYS ||
	    !arg->keys_per_page || arg->keys_per_page > KVCACHE_MAX_PAGE_KEYS)
		return -EINVAL;
	p = &o->pool[arg->pool];
	orc_call(o, arg->pool, now);
	if (!p->draining)
		find_prefix(o, tenant, arg);
	nr = arg->out_nr_pages;
	while (!may_hold(o, client, arg, nr))
		nr--;
	if (nr < arg->out_nr_pages) {
		nr = arg->tail ? 0 : nr;
		arg->out_nr_pages = nr;
		arg->out_nr_keys = nr * arg->keys_per_page;
	}
	memset(&arg->out_found[arg->out_nr_pages], 0,
	       (KVCACHE_MAX_KEYS - arg->out_nr_pages) *
	       sizeof(arg->out_found[0]));
	if (arg->flags & KVCACHE_LOOKUP_PEEK) {
		peek(o, tenant, arg);
		return 0;
	}
	for (k = 0; k < arg->out_nr_pages; k++)
		get(o, arg->pool, kvl_index(arg->out_found[k].handle), client);
	first = (arg->out_nr_keys + arg->keys_per_page - 1) /
		arg->keys_per_page - arg->out_nr_pages;
	p->lookups += arg->nr_keys;
	p->lim[tenant].lookups += arg->nr_keys;
	p->hits += arg->out_nr_keys - first * arg->keys_per_page;
	p->lim[tenant].hits += arg->out_nr_keys - first * arg->keys_per_page;
	return 0;
}
