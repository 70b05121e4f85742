// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * ledger_index.c - pages by key: publish and lookup.
 *
 * Keys are opaque and chosen by clients, so the chains are found with a secret
 * universal hash (NH over the key and its domain): nobody can aim at a chain.
 * What a tenant flushed is dead at once, because the account's epoch moved on.
 */
#include "ledger_internal.h"

u32 kvl_key_chain(const struct kvl *l, const struct kvl_pool *p, u32 domain,
		  const u8 *key)
{
	u64 h = domain * (l->seed[4] | 1);
	u32 w[KVCACHE_KEY_LEN / 4], k;

	memcpy(w, key, sizeof(w));
	for (k = 0; k < 4; k++)
		h += (u64)(u32)(w[2 * k] + (u32)l->seed[k]) *
		     (u32)(w[2 * k + 1] + (u32)(l->seed[k] >> 32));
	h = (h ^ h >> 32) * (l->seed[5] | 1);
	return h >> (64 - p->key_bits);
}

/* Are the keys of a published page alive. */
bool kvl_findable(const struct kvl_pool *p, u32 i)
{
	const struct kvl_page *pg = &p->page[i];

	return pg->epoch == kvl_owner(p, i)->epoch &&
	       (pg->state != KVCACHE_PAGE_CACHED ||
		pg->expires > p->clock.now);
}

struct kvl_node *kvl_find(const struct kvl *l, const struct kvl_pool *p,
			  u32 domain, const u8 *key)
{
	u32 chain = kvl_key_chain(l, p, domain, key);
	struct kvl_node *n;

	hlist_for_each_entry(n, &p->keys[chain], hash)
		if (!memcmp(n->key, key, KVCACHE_KEY_LEN) &&
		    p->page[n->page].tenant == domain &&
		    kvl_findable(p, n->page))
			return n;
	return NULL;
}

static void kvl_index_page(struct kvl *l, struct kvl_pool *p, u32 i,
			   const struct kvcache_publish_page *e)
{
	struct kvl_page *pg = &p->page[i];
	struct kvl_node *n;
	u32 k, chain;

	for (k = 0; k < e->nr_keys; k++) {
		n = kvl_node_get(l);
		n->page = i;
		n->fill = e->keys[k].fill;
		memcpy(n->key, e->keys[k].key, sizeof(n->key));
		n->next = pg->keys;
		pg->keys = n;
		chain = kvl_key_chain(l, p, pg->tenant, n->key);
		hlist_add_head(&n->hash, &p->keys[chain]);
	}
	pg->nr_keys = e->nr_keys;
	pg->fill = e->keys[e->nr_keys - 1].fill;
}

/* A page leaves the index. */
void kvl_unindex(struct kvl *l, struct kvl_pool *p, u32 i)
{
	struct kvl_page *pg = &p->page[i];
	struct kvcache_event ev = {
		.type = KVCACHE_EV_EVICTED,
		.pool = p->id,
		.tenant = pg->tenant,
	};
	struct kvl_node *n;

	if (pg->epoch == kvl_owner(p, i)->epoch) {
		memcpy(ev.key, pg->keys->key, sizeof(ev.key));
		kvl_post(l, pg->tenant, &ev);
	}
	while ((n = pg->keys)) {
		pg->keys = n->next;
		hlist_del(&n->hash);
		kvl_node_put(l, n);
	}
	pg->nr_keys = 0;
	pg->fill = 0;
}

/* ---- publish ------------------------------------------------------------ */

/**
 * struct kvl_plan - what a publish is going to do
 * @domain: whose pages they become
 * @i: pages to publish, by entry
 * @hit: existing pages to use instead, by entry, or 0
 * @repeats: entries that will be duplicates of earlier ones; a bit each
 * @nodes: nodes it takes at most
 * @idle: existing pages that are takeable
 * @fresh: existing pages that the client does not hold
 * @moved: pages that are published
 */
struct kvl_plan {
	u32 domain;
	u32 i[KVCACHE_MAX_PUBLISH];
	u32 hit[KVCACHE_MAX_PUBLISH];
	u32 repeats;
	u32 nodes;
	u32 idle;
	u32 fresh;
	u32 moved;
};

static bool kvl_keys_ok(const struct kvcache_publish_page *e)
{
	u32 k, j;

	if (!e->nr_keys || e->nr_keys > KVCACHE_MAX_PAGE_KEYS ||
	    !e->keys[0].fill || e->priority > KVCACHE_PRIO_MAX)
		return false;
	for (k = 1; k < e->nr_keys; k++) {
		if (e->keys[k].fill <= e->keys[k - 1].fill)
			return false;
		for (j = 0; j < k; j++)
			if (!memcmp(e->keys[j].key, e->keys[k].key,
				    KVCACHE_KEY_LEN))
				return false;
	}
	return true;
}

static const struct kvcache_key *kvl_top(const struct kvcache_publish_page *e)
{
	return &e->keys[e->nr_keys - 1];
}

/* The existing page that makes this one superfluous, or 0. */
static u32 kvl_duplicate(const struct kvl *l, const struct kvl_pool *p,
			 u32 domain, const struct kvcache_publish_page *e)
{
	const struct kvcache_key *top = kvl_top(e);
	struct kvl_node *n;

	if (e->flags & KVCACHE_PUBLISH_NODEDUP)
		return 0;
	n = kvl_find(l, p, domain, top->key);
	return n && n->fill == top->fill && p->page[n->page].refs < KVL_MAX_REFS ?
	       n->page : 0;
}

/* Does an earlier entry of the same call bring the top key of entry @k. */
static bool kvl_repeats(const struct kvcache_publish *arg, u32 k,
			const struct kvl_plan *plan)
{
	const struct kvcache_key *top = kvl_top(&arg->pages[k]);
	const struct kvcache_publish_page *e;
	u32 j, x;

	if (arg->pages[k].flags & KVCACHE_PUBLISH_NODEDUP)
		return false;
	for (j = 0; j < k; j++) {
		if (plan->hit[j] || (plan->repeats & 1U << j))
			continue;
		e = &arg->pages[j];
		for (x = 0; x < e->nr_keys; x++)
			if (e->keys[x].fill == top->fill &&
			    !memcmp(e->keys[x].key, top->key, KVCACHE_KEY_LEN))
				return true;
	}
	return false;
}

/* A PRIVATE page of the client that the call names once. */
static int kvl_claim_private(const struct kvl *l, struct kvl_pool *p,
			     const struct kvl_client *c, u64 handle, u32 *out)
{
	struct kvl_page *pg;
	u32 i;
	int err = kvl_resolve(p, handle, &i);

	if (err)
		return err;
	pg = &p->page[i];
	if (!kvl_hold_count(l, p, c, i))
		return -EPERM;
	if (pg->state != KVCACHE_PAGE_PRIVATE || pg->mark)
		return -EINVAL;
	if (pg->flags & KVL_PF_VOLATILE)
		return -EBUSY;
	pg->mark = 1;
	*out = i;
	return 0;
}

/* A pinned page stays writable: its copy is published instead. */
static int kvl_plan_copy(const struct kvl *l, struct kvl_pool *p,
			 const struct kvl_client *c,
			 const struct kvcache_publish_page *e, u64 copy,
			 u32 *out)
{
	int err;

	if (!copy || !(e->flags & KVCACHE_PUBLISH_COPY))
		return -EBUSY;
	err = kvl_claim_private(l, p, c, copy, out);
	if (err)
		return err;
	return p->page[*out].pins ? -EBUSY : 0;
}

static int kvl_plan_page(const struct kvl *l, struct kvl_pool *p,
			 const struct kvl_client *c,
			 const struct kvcache_publish *arg, u64 copy, u32 k,
			 struct kvl_plan *plan)
{
	const struct kvcache_publish_page *e = &arg->pages[k];
	u32 hit, j;
	int err;

	if (!kvl_keys_ok(e))
		return -EINVAL;
	err = kvl_claim_private(l, p, c, e->handle, &plan->i[k]);
	if (err)
		return err;
	hit = kvl_duplicate(l, p, plan->domain, e);
	plan->hit[k] = hit;
	plan->nodes += hit ? 1 : e->nr_keys;
	if (!hit) {
		if (p->page[plan->i[k]].pins)
			err = kvl_plan_copy(l, p, c, e, copy, &plan->i[k]);
		if (plan->domain != c->tenant && kvl_repeats(arg, k, plan))
			plan->repeats |= 1U << k;
		else
			plan->moved++;
		return err;
	}
	for (j = 0; j < k; j++)
		if (plan->hit[j] == hit)
			return 0;
	plan->idle += !!(p->page[hit].flags & KVL_PF_LISTED);
	plan->fresh += !kvl_hold_count(l, p, c, hit);
	return 0;
}

/* What the promises would lack if these accounts held so many pages. */
static s64 kvl_debt(const struct kvl_pool *p, const struct kvl_account *a,
		    const struct kvl_account *b, u32 moved)
{
	u64 from = kvl_live(a) - moved, to = kvl_live(b) + moved;

	return (s64)(p->promised - kvl_gap(a) - kvl_gap(b) +
		     kvl_gap_at(a, from) + kvl_gap_at(b, to)) -
	       (s64)(p->spare - kvl_spare(a) - kvl_spare(b) +
		     kvl_spare_at(a, from) + kvl_spare_at(b, to)) +
	       (s64)p->claims -
	       (s64)(p->nr[KVCACHE_PAGE_FREE] + p->leaving);
}

/* May these pages go to another tenant. */
static int kvl_plan_charge(const struct kvl *l, const struct kvl_pool *p,
			   const struct kvl_client *c,
			   const struct kvl_plan *plan)
{
	const struct kvl_account *from = &p->acct[c->tenant];
	const struct kvl_account *to = &p->acct[plan->domain];
	const struct kvl_grant *g;
	s64 debt;

	if (from == to)
		return 0;
	g = kvl_grant_find(l, plan->domain, c->tenant);
	if (g->held + plan->moved + plan->fresh > g->max_held)
		return -EDQUOT;
	if (to->fitting ||
	    kvl_used(to) + plan->idle + plan->moved > to->max)
		return -EDQUOT;
	debt = kvl_debt(p, from, to, plan->moved);
	if (debt > 0 && debt > kvl_debt(p, from, to, 0))
		return -ENOSPC;
	return 0;
}

/* The domain's account: the caller's, or one that lets it publish. */
static int kvl_publish_domain(const struct kvl *l, const struct kvl_client *c,
			      u32 domain, u32 *out)
{
	const struct kvl_grant *g;

	*out = domain ? domain : c->tenant;
	if (*out == c->tenant)
		return 0;
	if (!kvl_tenant_get(l, *out))
		return -ENOENT;
	g = kvl_grant_find(l, *out, c->tenant);
	return g && (g->rights & KVCACHE_GRANT_PUBLISH) ? 0 : -EPERM;
}

static void kvl_publish_one(struct kvl *l, struct kvl_pool *p,
			    struct kvl_client *c, u32 domain, u32 i,
			    const struct kvcache_publish_page *e)
{
	struct kvl_client_pool *cp = &c->pool[p->id];
	struct kvl_account *to = &p->acct[domain];
	struct kvl_page *pg = &p->page[i];
	struct kvcache_event ev = {
		.type = KVCACHE_EV_PUBLISHED,
		.pool = p->id,
		.tenant = domain,
		.priority = e->priority,
		.value = kvl_handle(p, i),
	};

	if (pg->tenant != domain) {
		while (kvl_live(to) + 1 > to->max)
			if (WARN_ON_ONCE(!kvl_take_own(l, p, to)))
				break;
		kvl_charge(p, kvl_owner(p, i), -1);
		kvl_charge(p, to, 1);
		pg->tenant = domain;
		kvl_grant_find(l, domain, c->tenant)->held++;
	}
	kvl_set_state(l, p, i, KVCACHE_PAGE_SHARED);
	cp->nr_private--;
	cp->nr_shared++;
	pg->used = l->now;
	pg->prio = e->priority;
	pg->prio_until = kvl_add_sat(l->now, e->ttl_ns);
	pg->epoch = to->epoch;
	if (e->flags & KVCACHE_PUBLISH_WINDOW)
		pg->flags |= KVL_PF_WINDOW;
	kvl_index_page(l, p, i, e);
	memcpy(ev.key, kvl_top(e)->key, sizeof(ev.key));
	memcpy(ev.parent, e->parent, sizeof(ev.parent));
	kvl_post(l, domain, &ev);
}

static void kvl_publish_all(struct kvl *l, struct kvl_pool *p,
			    struct kvl_client *c, struct kvcache_publish *arg,
			    struct kvl_plan *plan)
{
	struct kvcache_publish_page *e;
	u32 k, hit, orig;

	/* First of all, so that making room cannot take them. */
	for (k = 0; k < arg->nr; k++)
		if (plan->hit[k])
			kvl_hold_get(l, p, c, plan->hit[k]);
	for (k = 0; k < arg->nr; k++) {
		e = &arg->pages[k];
		orig = kvl_index(e->handle);
		hit = plan->hit[k];
		if (!hit) {
			hit = kvl_duplicate(l, p, plan->domain, e);
			if (hit)
				kvl_hold_get(l, p, c, hit);
		}
		if (hit) {
			e->out_result = KVCACHE_DEDUPLICATED;
			p->dedups++;
		} else {
			hit = plan->i[k];
			kvl_publish_one(l, p, c, plan->domain, hit, e);
			e->out_result = hit == orig ? KVCACHE_PUBLISHED :
					KVCACHE_COPIED;
			p->publishes++;
		}
		e->out_handle = kvl_handle(p, hit);
		if (hit != orig)
			kvl_private_put(l, p, c, orig);
	}
}

int kvl_publish(struct kvl *l, struct kvl_client *c,
		struct kvcache_publish *arg, const u64 *copies, u64 now)
{
	struct kvl_pool *p = kvl_pool_get(l, arg->pool);
	struct kvl_plan plan = { 0 };
	u32 k, i;
	int err;

	if (c->dead)
		return -EOWNERDEAD;
	if (!p)
		return -ENOENT;
	if (!arg->nr || arg->nr > KVCACHE_MAX_PUBLISH)
		return -EINVAL;
	err = kvl_publish_domain(l, c, arg->domain, &plan.domain);
	if (err)
		return err;
	kvl_advance(l, p, now);
	for (k = 0; k < arg->nr && !err; k++)
		err = kvl_plan_page(l, p, c, arg, copies ? copies[k] : 0, k,
				    &plan);
	while (k--) {
		if (!kvl_resolve(p, arg->pages[k].handle, &i))
			p->page[i].mark = 0;
		p->page[plan.i[k]].mark = 0;
	}
	if (!err)
		err = kvl_plan_charge(l, p, c, &plan);
	if (!err && plan.nodes > l->nr_spare)
		err = -EAGAIN;
	if (err)
		return err;
	kvl_publish_all(l, p, c, arg, &plan);
	kvl_pump(l, p);
	return 0;
}

/* ---- lookup ------------------------------------------------------------- */

static struct kvl_node *kvl_find_any(const struct kvl *l,
				     const struct kvl_pool *p,
				     const struct kvl_client *c, const u8 *key)
{
	const struct kvl_grant *g = l->tenant[c->tenant]->got;
	struct kvl_node *n = kvl_find(l, p, c->tenant, key);
	u32 k;

	for (k = 0; !n && k < KVL_MAX_GRANTS; k++)
		if (g[k].rights & KVCACHE_GRANT_LOOKUP)
			n = kvl_find(l, p, g[k].from, key);
	return n;
}

/*
 * The deepest key of page number @j of the prefix that exists; *@nr is the
 * length of the prefix that ends with it.
 */
static struct kvl_node *kvl_deepest(const struct kvl *l,
				    const struct kvl_pool *p,
				    const struct kvl_client *c,
				    const struct kvcache_lookup *arg, u32 j,
				    bool whole, u32 *nr)
{
	u32 first = j * arg->keys_per_page;
	u32 k = min_t(u32, first + arg->keys_per_page, arg->nr_keys);
	struct kvl_node *n;

	do {
		n = kvl_find_any(l, p, c, arg->keys[--k]);
		*nr = k + 1;
	} while (!n && !whole && k > first);
	return n;
}

static void kvl_found(const struct kvl_pool *p, const struct kvl_node *n,
		      struct kvcache_found *out)
{
	out->handle = kvl_handle(p, n->page);
	out->fill = n->fill;
	out->domain = p->page[n->page].tenant;
}

static void kvl_lookup_prefix(const struct kvl *l, const struct kvl_pool *p,
			      const struct kvl_client *c,
			      struct kvcache_lookup *arg, u32 pages)
{
	u32 j, nr = 0, end = 0;
	struct kvl_node *n;

	for (j = 0; j < pages && end == j * arg->keys_per_page; j++) {
		n = kvl_deepest(l, p, c, arg, j, false, &nr);
		if (!n)
			break;
		kvl_found(p, n, &arg->out_found[j]);
		end = nr;
	}
	arg->out_nr_pages = j;
	arg->out_nr_keys = end;
}

/* From the end: each page is a candidate's last one, or continues one. */
static void kvl_lookup_tail(const struct kvl *l, const struct kvl_pool *p,
			    const struct kvl_client *c,
			    struct kvcache_lookup *arg, u32 pages)
{
	u32 have = 0, end = 0, nr, j;
	struct kvl_node *n;

	for (j = pages; j-- && have < arg->tail; ) {
		n = have ? kvl_deepest(l, p, c, arg, j, true, &nr) : NULL;
		if (!n) {
			have = 0;
			n = kvl_deepest(l, p, c, arg, j, false, &nr);
			if (!n)
				continue;
			end = nr;
		}
		have++;
		kvl_found(p, n, &arg->out_found[pages - have]);
	}
	memmove(arg->out_found, &arg->out_found[pages - have],
		have * sizeof(arg->out_found[0]));
	memset(&arg->out_found[have], 0,
	       (pages - have) * sizeof(arg->out_found[0]));
	arg->out_nr_pages = have;
	arg->out_nr_keys = have ? end : 0;
}

/* How many of the pages found, from the first on, the grants let it hold. */
static u32 kvl_lookup_bound(struct kvl *l, struct kvl_pool *p,
			    struct kvl_client *c,
			    const struct kvcache_lookup *arg)
{
	u64 more[KVL_MAX_GRANTS] = { 0 };
	struct kvl_grant *got = l->tenant[c->tenant]->got, *g;
	struct kvl_page *pg;
	u32 k, i, nr;

	for (k = 0; k < arg->out_nr_pages; k++) {
		i = kvl_index(arg->out_found[k].handle);
		pg = &p->page[i];
		if (pg->tenant == c->tenant || pg->mark ||
		    kvl_hold_count(l, p, c, i))
			continue;
		pg->mark = 1;
		g = kvl_grant_find(l, pg->tenant, c->tenant);
		if (g->held + ++more[g - got] > g->max_held)
			break;
	}
	nr = k;
	for (k = 0; k < arg->out_nr_pages; k++)
		p->page[kvl_index(arg->out_found[k].handle)].mark = 0;
	return nr;
}

/* What it may not hold is not found; a window that lacks a page is none. */
static void kvl_lookup_cut(struct kvl *l, struct kvl_pool *p,
			   struct kvl_client *c, struct kvcache_lookup *arg)
{
	u32 k, nr = arg->out_nr_pages;

	for (k = 0; k < nr; k++)
		if (arg->out_found[k].domain != c->tenant)
			break;
	if (k < nr)
		k = kvl_lookup_bound(l, p, c, arg);
	if (k == nr)
		return;
	if (arg->tail)
		k = 0;
	memset(&arg->out_found[k], 0, (nr - k) * sizeof(arg->out_found[0]));
	arg->out_nr_pages = k;
	arg->out_nr_keys = k * arg->keys_per_page;
}

static int kvl_lookup_test(const struct kvl *l, const struct kvl_pool *p,
			   const struct kvl_client *c,
			   const struct kvcache_lookup *arg)
{
	const struct kvl_page *pg;
	u32 k, nodes = 0;

	for (k = 0; k < arg->out_nr_pages; k++) {
		pg = &p->page[kvl_index(arg->out_found[k].handle)];
		nodes += pg->client && pg->client != c->id;
		if (pg->refs >= KVL_MAX_REFS)
			return -ENOMEM;
	}
	return nodes > l->nr_spare ? -EAGAIN : 0;
}

/* What taking the pages found would leave to allocate. */
static void kvl_lookup_peek(struct kvl_pool *p, struct kvl_account *self,
			    struct kvcache_lookup *arg)
{
	struct kvl_page *pg;
	u32 k, i;

	for (k = 0; k < arg->out_nr_pages; k++) {
		i = kvl_index(arg->out_found[k].handle);
		pg = &p->page[i];
		if (pg->state != KVCACHE_PAGE_CACHED || pg->mark)
			continue;
		pg->mark = 1;
		arg->out_idle++;
		if (pg->flags & KVL_PF_LISTED)
			kvl_takeable(p, kvl_owner(p, i), -1);
	}
	arg->out_available = kvl_could_have(p, self);
	for (k = 0; k < arg->out_nr_pages; k++) {
		i = kvl_index(arg->out_found[k].handle);
		pg = &p->page[i];
		if (pg->mark && (pg->flags & KVL_PF_LISTED))
			kvl_takeable(p, kvl_owner(p, i), 1);
		pg->mark = 0;
	}
}

int kvl_lookup(struct kvl *l, struct kvl_client *c, struct kvcache_lookup *arg,
	       u64 now)
{
	struct kvl_pool *p = kvl_pool_get(l, arg->pool);
	u32 pages, first, k;
	int err;

	if (c->dead)
		return -EOWNERDEAD;
	if (!p)
		return -ENOENT;
	if (!arg->nr_keys || arg->nr_keys > KVCACHE_MAX_KEYS ||
	    !arg->keys_per_page || arg->keys_per_page > KVCACHE_MAX_PAGE_KEYS)
		return -EINVAL;
	arg->out_nr_pages = 0;
	arg->out_nr_keys = 0;
	arg->out_idle = 0;
	arg->out_available = 0;
	kvl_advance(l, p, now);
	pages = (arg->nr_keys + arg->keys_per_page - 1) / arg->keys_per_page;
	if (!p->draining && arg->tail)
		kvl_lookup_tail(l, p, c, arg, pages);
	else if (!p->draining)
		kvl_lookup_prefix(l, p, c, arg, pages);
	kvl_lookup_cut(l, p, c, arg);
	if (arg->flags & KVCACHE_LOOKUP_PEEK) {
		kvl_lookup_peek(p, &p->acct[c->tenant], arg);
		return 0;
	}
	err = kvl_lookup_test(l, p, c, arg);
	if (err) {
		memset(arg->out_found, 0,
		       arg->out_nr_pages * sizeof(arg->out_found[0]));
		arg->out_nr_pages = 0;
		arg->out_nr_keys = 0;
		return err;
	}
	for (k = 0; k < arg->out_nr_pages; k++)
		kvl_hold_get(l, p, c, kvl_index(arg->out_found[k].handle));
	/* The first key that the pages returned cover. */
	first = (arg->out_nr_keys + arg->keys_per_page - 1) /
		arg->keys_per_page - arg->out_nr_pages;
	first *= arg->keys_per_page;
	p->lookups += arg->nr_keys;
	p->hits += arg->out_nr_keys - first;
	p->acct[c->tenant].lookups += arg->nr_keys;
	p->acct[c->tenant].hits += arg->out_nr_keys - first;
	return 0;
}
