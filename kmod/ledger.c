// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * ledger.c - the ledger itself, what time brings about, clients, events.
 */
#include "ledger_internal.h"

/* Pseudo-random bits from a seed (splitmix64's finalizer over a counter). */
static u64 kvl_mix(u64 *state)
{
	u64 z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

struct kvl *kvl_create(const struct kvl_config *cfg)
{
	u64 state = cfg->seed;
	struct kvl *l;
	u32 k;

	if (!cfg->max_tenants || cfg->max_tenants > 65535 ||
	    !cfg->max_clients || cfg->max_clients == U32_MAX ||
	    !is_power_of_2(cfg->nr_events))
		return NULL;
	l = kvzalloc(sizeof(*l), KVL_GFP);
	if (!l)
		return NULL;
	l->max_tenants = cfg->max_tenants;
	l->max_clients = cfg->max_clients;
	l->tenant_clients = cfg->tenant_clients ? cfg->tenant_clients :
			    U32_MAX;
	l->slice = cfg->slice ? cfg->slice : KVL_SLICE;
	l->nr_events = cfg->nr_events;
	INIT_LIST_HEAD(&l->tenants);
	INIT_LIST_HEAD(&l->done);
	for (k = 0; k < ARRAY_SIZE(l->seed); k++)
		l->seed[k] = kvl_mix(&state);
	l->tenant = kvcalloc(cfg->max_tenants + 1, sizeof(l->tenant[0]),
			     KVL_GFP);
	l->client = kvcalloc(cfg->max_clients + 1UL, sizeof(l->client[0]),
			     KVL_GFP);
	if (l->tenant && l->client)
		return l;
	kvl_destroy(l);
	return NULL;
}

void kvl_destroy(struct kvl *l)
{
	u32 k;

	if (!l)
		return;
	for (k = 0; k < KVCACHE_MAX_POOLS; k++)
		kvl_pool_free(l->pool[k]);
	for (k = 1; l->tenant && k <= l->max_tenants; k++)
		kvl_tenant_free(l->tenant[k]);
	for (k = 1; l->client && k <= l->max_clients; k++)
		kvl_client_free(l->client[k]);
	kvl_nodes_free(l->chunks);
	kvfree(l->tenant);
	kvfree(l->client);
	kvfree(l);
}

u64 kvl_seq(const struct kvl *l)
{
	return l->seq;
}

struct kvl_nodes *kvl_nodes_alloc(u32 nr)
{
	/* Whole memory pages, at least one. */
	const size_t page = 4096, room = page - sizeof(struct kvl_nodes);
	u32 each = room / sizeof(struct kvl_node);
	size_t pages = nr / each + 1;
	struct kvl_nodes *chunk = kvzalloc(pages * page, KVL_GFP);

	if (chunk)
		chunk->nr = (pages * page - sizeof(*chunk)) /
			    sizeof(chunk->node[0]);
	return chunk;
}

void kvl_nodes_free(struct kvl_nodes *nodes)
{
	struct kvl_nodes *next;

	for (; nodes; nodes = next) {
		next = nodes->next;
		kvfree(nodes);
	}
}

void kvl_nodes_add(struct kvl *l, struct kvl_nodes *nodes)
{
	u32 k;

	nodes->next = l->chunks;
	l->chunks = nodes;
	l->nr_nodes += nodes->nr;
	for (k = nodes->nr; k--; )
		kvl_node_put(l, &nodes->node[k]);
}

bool kvl_name_ok(const char *name)
{
	u32 k;

	if (name[0] == '.')
		return false;
	for (k = 0; k < KVCACHE_NAME_LEN && name[k]; k++)
		if (!(name[k] >= 'a' && name[k] <= 'z') &&
		    !(name[k] >= 'A' && name[k] <= 'Z') &&
		    !(name[k] >= '0' && name[k] <= '9') &&
		    name[k] != '.' && name[k] != '_' && name[k] != '-')
			return false;
	return k && k < KVCACHE_NAME_LEN;
}

/* ---- time --------------------------------------------------------------- */

/* Revokes pages above the max of an account whose deadline has passed. */
static u32 kvl_revoke_above(struct kvl *l, struct kvl_pool *p,
			    struct kvl_account *a, u32 budget)
{
	u32 i, done = 0;

	for (; done < budget && kvl_above_max(a); done++)
		if (!kvl_take_own(l, p, a))
			break;
	for (i = p->nr_pages; i && done < budget && kvl_above_max(a); i--) {
		if (p->page[i].tenant != a->tenant ||
		    (p->page[i].state != KVCACHE_PAGE_PRIVATE &&
		     p->page[i].state != KVCACHE_PAGE_SHARED))
			continue;
		kvl_revoke(l, p, i);
		done++;
	}
	if (!kvl_above_max(a) || !i)
		kvl_set_due(l, a, a->fitting, KVCACHE_TIME_NEVER);
	return done;
}

/* What a lowered max has yet to bring about. */
static u32 kvl_tick_account(struct kvl *l, struct kvl_pool *p,
			    struct kvl_account *a, u32 budget)
{
	u32 done = a->fitting ? kvl_fit(l, p, a, budget) : 0;

	if (a->revoke_at <= l->now)
		done += kvl_revoke_above(l, p, a, budget - done);
	return done;
}

static u32 kvl_tick_pool(struct kvl *l, struct kvl_pool *p, u64 now, u32 budget)
{
	struct kvl_tenant *t;
	u32 left = budget;

	kvl_advance(l, p, now);
	for (; left && p->order[KVL_EXPIRED].first; left--) {
		p->expired++;
		kvl_take(l, p, p->order[KVL_EXPIRED].first);
	}
	if (left && l->nr_due)
		list_for_each_entry(t, &l->tenants, link) {
			left -= kvl_tick_account(l, p, &p->acct[t->id], left);
			if (!left)
				break;
		}
	kvl_pump(l, p);
	return budget - left;
}

u32 kvl_tick(struct kvl *l, u64 now, u32 budget)
{
	u32 k, done = 0;

	for (k = 0; k < KVCACHE_MAX_POOLS; k++)
		if (l->pool[k])
			done += kvl_tick_pool(l, l->pool[k], now,
					      budget - done);
	return done;
}

bool kvl_revoked(struct kvl *l)
{
	bool revoked = l->revoked;

	l->revoked = false;
	return revoked;
}

u64 kvl_next_tick(const struct kvl *l)
{
	u64 next = KVCACHE_TIME_NEVER;
	const struct kvl_account *a;
	struct kvl_tenant *t;
	u32 k;

	for (k = 0; k < KVCACHE_MAX_POOLS; k++) {
		if (!l->pool[k])
			continue;
		next = min_t(u64, next, kvl_clock_next(l->pool[k]));
		if (!l->nr_due)
			continue;
		list_for_each_entry(t, &l->tenants, link) {
			a = &l->pool[k]->acct[t->id];
			next = min_t(u64, next, a->fitting ? 0 : a->revoke_at);
		}
	}
	return next;
}

/* ---- clients ------------------------------------------------------------ */

struct kvl_client *kvl_client_alloc(const struct kvl *l)
{
	struct kvl_client *c = kvzalloc(sizeof(*c), KVL_GFP);
	u32 k;

	if (!c)
		return NULL;
	INIT_LIST_HEAD(&c->requests);
	for (k = 0; k < KVCACHE_MAX_POOLS; k++)
		INIT_LIST_HEAD(&c->pool[k].holds);
	return c;
}

void kvl_client_free(struct kvl_client *c)
{
	kvfree(c);
}

int kvl_client_attach(struct kvl *l, struct kvl_client *c, u32 tenant)
{
	struct kvl_tenant *t = kvl_tenant_get(l, tenant);
	u32 k, id;

	if (!t)
		return -ENOENT;
	if (t->clients >= l->tenant_clients)
		return -EDQUOT;
	for (k = 0; k < l->max_clients; k++) {
		id = (l->last_client + k) % l->max_clients + 1;
		if (!l->client[id])
			break;
	}
	if (k == l->max_clients)
		return -ENOSPC;
	l->last_client = id;
	l->client[id] = c;
	c->id = id;
	c->tenant = tenant;
	t->clients++;
	l->seq++;
	return 0;
}

u32 kvl_client_id(const struct kvl_client *c)
{
	return c->id;
}

void kvl_client_set_owner(struct kvl_client *c, void *owner)
{
	c->owner = owner;
}

void *kvl_client_owner(const struct kvl *l, u32 id)
{
	const struct kvl_client *c = id <= l->max_clients ? l->client[id] :
				     NULL;

	return c ? c->owner : NULL;
}

u32 kvl_client_tenant(const struct kvl_client *c)
{
	return c->tenant;
}

int kvl_client_detach(struct kvl *l, struct kvl_client *c)
{
	u32 k;

	if (!c->dead)
		return -EBUSY;
	for (k = 0; k < KVCACHE_MAX_POOLS; k++)
		if (c->pool[k].pages.first || !list_empty(&c->pool[k].holds))
			return -EBUSY;
	l->client[c->id] = NULL;
	l->tenant[c->tenant]->clients--;
	l->seq++;
	return 0;
}

int kvl_client_info(const struct kvl *l, u32 pool, u32 tenant, u32 start,
		    struct kvcache_client_info *out)
{
	const struct kvl_client *c;
	const struct kvl_request *r;
	u32 id;

	if (!kvl_pool_get(l, pool))
		return -ENOENT;
	for (id = max_t(u32, start, 1); id <= l->max_clients; id++) {
		c = l->client[id];
		if (!c || (tenant && c->tenant != tenant))
			continue;
		memset(out, 0, sizeof(*out));
		out->id = id;
		out->tenant = c->tenant;
		out->nr_private = c->pool[pool].nr_private;
		out->nr_shared = c->pool[pool].nr_shared;
		list_for_each_entry(r, &c->requests, peers)
			if (r->pool == pool)
				out->waiting += r->nr;
		return 0;
	}
	return -ENOENT;
}

/* ---- events ------------------------------------------------------------- */

void kvl_post(struct kvl *l, u32 tenant, const struct kvcache_event *ev)
{
	struct kvl_tenant *t = l->tenant[tenant];
	struct kvcache_event *slot;

	l->seq++;
	if (!t->listeners)
		return;
	slot = &t->ev[t->ev_next++ & (l->nr_events - 1)];
	*slot = *ev;
	slot->seq = l->seq;
	l->posted++;
}

u64 kvl_posted(const struct kvl *l)
{
	return l->posted;
}

u32 kvl_events(struct kvl *l, struct kvl_client *c, struct kvcache_event *ev,
	       u32 nr)
{
	struct kvl_tenant *t;
	u64 lost = 0;
	u32 k;

	if (c->dead)
		return 0;
	t = l->tenant[c->tenant];
	if (!c->listens) {
		c->listens = true;
		c->ev_next = t->ev_next;
		t->listeners++;
	}
	if (nr && t->ev_next - c->ev_next > l->nr_events) {
		lost = t->ev_next - l->nr_events - c->ev_next;
		c->ev_next += lost;
	}
	for (k = 0; k < nr && c->ev_next != t->ev_next; k++) {
		ev[k] = t->ev[c->ev_next++ & (l->nr_events - 1)];
		ev[k].dropped = k ? 0 : min_t(u64, lost, U32_MAX);
	}
	return k;
}

void kvl_events_return(struct kvl_client *c, const struct kvcache_event *ev,
		       u32 nr)
{
	c->ev_next -= nr + ev[0].dropped;
}

bool kvl_events_pending(const struct kvl *l, const struct kvl_client *c)
{
	return c->listens && l->tenant[c->tenant]->ev_next != c->ev_next;
}
