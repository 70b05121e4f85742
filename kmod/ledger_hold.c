// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * ledger_hold.c - who holds a page: references, advice, pins, death.
 *
 * The first client that holds a page is recorded in the page, which is all
 * there is for nearly every page; each further one has a node, found by hash.
 */
#include "ledger_internal.h"

/* The page that a handle names. */
int kvl_resolve(const struct kvl_pool *p, u64 handle, u32 *out)
{
	u32 i = kvl_index(handle);

	if (!i || i > p->nr_pages)
		return -ESTALE;
	i = array_index_nospec(i, p->nr_pages + 1);
	if (p->page[i].gen != kvl_generation(handle) ||
	    p->page[i].state == KVCACHE_PAGE_FREE ||
	    p->page[i].state == KVCACHE_PAGE_RETIRING)
		return -ESTALE;
	*out = i;
	return 0;
}

u32 kvl_hold_chain(const struct kvl *l, const struct kvl_pool *p, u32 client,
		   u32 i)
{
	u64 h = ((u64)client << 32 | i) * (l->seed[0] | 1);

	h = (h ^ h >> 32) * (l->seed[1] | 1);
	return h >> (64 - p->hold_bits);
}

struct kvl_node *kvl_hold_find(const struct kvl *l, const struct kvl_pool *p,
			       u32 client, u32 i, u32 gen)
{
	u32 chain = kvl_hold_chain(l, p, client, i);
	struct kvl_node *n;

	hlist_for_each_entry(n, &p->holds[chain], hash)
		if (n->held == i && n->client == client && n->gen == gen)
			return n;
	return NULL;
}

/* References that a client holds on a page. */
u32 kvl_hold_count(const struct kvl *l, const struct kvl_pool *p,
		   const struct kvl_client *c, u32 i)
{
	const struct kvl_page *pg = &p->page[i];
	const struct kvl_node *n;

	if (pg->client == c->id)
		return pg->count;
	if (hlist_empty(&pg->sharers))
		return 0;
	n = kvl_hold_find(l, p, c->id, i, 0);
	return n ? n->count : 0;
}

struct kvl_grant *kvl_grant_find(const struct kvl *l, u32 from, u32 to)
{
	struct kvl_grant *g = l->tenant[to]->got;
	u32 k;

	for (k = 0; k < KVL_MAX_GRANTS; k++)
		if (g[k].from == from)
			return &g[k];
	return NULL;
}

/* A tenant's grants stay in their order. */
void kvl_grant_drop(struct kvl *l, u32 to, struct kvl_grant *g)
{
	struct kvl_grant *last = &l->tenant[to]->got[KVL_MAX_GRANTS - 1];

	memmove(g, g + 1, (last - g) * sizeof(*g));
	memset(last, 0, sizeof(*last));
}

/* A client of tenant @to began (1) or ceased (-1) to hold a page of @from. */
static void kvl_grant_count(struct kvl *l, u32 from, u32 to, int n)
{
	struct kvl_grant *g;

	if (from == to)
		return;
	g = kvl_grant_find(l, from, to);
	g->held += n;
	if (!g->held && !g->rights)
		kvl_grant_drop(l, to, g);
}

/* One more reference on a published page; a node is there if it takes one. */
void kvl_hold_get(struct kvl *l, struct kvl_pool *p, struct kvl_client *c,
		  u32 i)
{
	struct kvl_client_pool *cp = &c->pool[p->id];
	struct kvl_page *pg = &p->page[i];
	struct kvl_node *n = NULL;

	if (pg->state == KVCACHE_PAGE_CACHED) {
		if (pg->flags & KVL_PF_LISTED)
			kvl_unlist_page(p, i);
		kvl_set_state(l, p, i, KVCACHE_PAGE_SHARED);
		kvl_owner(p, i)->cached--;
	}
	pg->used = l->now;
	pg->refs++;
	cp->nr_shared++;
	if (pg->client == c->id) {
		pg->count++;
		return;
	}
	if (!hlist_empty(&pg->sharers))
		n = kvl_hold_find(l, p, c->id, i, 0);
	if (n) {
		n->count++;
		return;
	}
	kvl_grant_count(l, pg->tenant, c->tenant, 1);
	if (!pg->client) {
		pg->client = c->id;
		pg->count = 1;
		kvl_own_add_tail(p->page, &cp->pages, i);
		return;
	}
	n = kvl_node_get(l);
	n->held = i;
	n->client = c->id;
	n->count = 1;
	n->gen = 0;
	hlist_add_head(&n->hash, &p->holds[kvl_hold_chain(l, p, c->id, i)]);
	hlist_add_head(&n->sharers, &pg->sharers);
	list_add_tail(&n->peers, &cp->holds);
}

static void kvl_node_drop(struct kvl *l, struct kvl_node *n)
{
	hlist_del(&n->hash);
	list_del_init(&n->peers);
	if (n->count)
		hlist_del(&n->sharers);
	kvl_node_put(l, n);
}

/* All references of a client on a page. */
static void kvl_hold_end(struct kvl *l, struct kvl_pool *p,
			 struct kvl_client *c, u32 i)
{
	struct kvl_client_pool *cp = &c->pool[p->id];
	struct kvl_page *pg = &p->page[i];

	if (pg->client == c->id) {
		kvl_own_del(p->page, &cp->pages, i);
		pg->client = 0;
		pg->count = 0;
	} else {
		kvl_node_drop(l, kvl_hold_find(l, p, c->id, i, 0));
	}
	kvl_grant_count(l, pg->tenant, c->tenant, -1);
}

/* The last reference is gone. */
static void kvl_settle(struct kvl *l, struct kvl_pool *p, u32 i)
{
	struct kvl_account *a = kvl_owner(p, i);
	struct kvl_page *pg = &p->page[i];

	if (p->draining || pg->epoch != a->epoch || kvl_above_max(a)) {
		kvl_unindex(l, p, i);
		kvl_retire(l, p, i);
		return;
	}
	kvl_set_state(l, p, i, KVCACHE_PAGE_CACHED);
	a->cached++;
	pg->used = l->now;
	pg->expires = kvl_add_sat(l->now, l->tenant[pg->tenant]->ttl_ns);
	if (!pg->pins)
		kvl_list_page(p, i);
}

/* @nr references of a client on a SHARED page. */
void kvl_hold_put(struct kvl *l, struct kvl_pool *p, struct kvl_client *c,
		  u32 i, u32 nr)
{
	struct kvl_page *pg = &p->page[i];
	struct kvl_node *n;

	c->pool[p->id].nr_shared -= nr;
	pg->refs -= nr;
	if (kvl_hold_count(l, p, c, i) == nr) {
		kvl_hold_end(l, p, c, i);
	} else if (pg->client == c->id) {
		pg->count -= nr;
	} else {
		n = kvl_hold_find(l, p, c->id, i, 0);
		n->count -= nr;
	}
	l->seq++;
	if (!pg->refs)
		kvl_settle(l, p, i);
}

void kvl_private_put(struct kvl *l, struct kvl_pool *p, struct kvl_client *c,
		     u32 i)
{
	struct kvl_client_pool *cp = &c->pool[p->id];
	struct kvl_page *pg = &p->page[i];

	kvl_own_del(p->page, &cp->pages, i);
	cp->nr_private--;
	if (pg->flags & KVL_PF_VOLATILE) {
		kvl_unlist_page(p, i);
		kvl_node_put(l, pg->spare);
		pg->spare = NULL;
	}
	kvl_retire(l, p, i);
}

/* A volatile page is being taken: its owner will ask for it. */
void kvl_taken(struct kvl *l, struct kvl_pool *p, u32 i)
{
	struct kvl_page *pg = &p->page[i];
	struct kvl_client *c = l->client[pg->client];
	struct kvl_client_pool *cp = &c->pool[p->id];
	struct kvl_node *n = pg->spare;

	pg->spare = NULL;
	kvl_own_del(p->page, &cp->pages, i);
	cp->nr_private--;
	n->held = i;
	n->client = c->id;
	n->count = 0;
	n->gen = pg->gen;
	hlist_add_head(&n->hash, &p->holds[kvl_hold_chain(l, p, c->id, i)]);
	list_add_tail(&n->peers, &cp->holds);
}

static void kvl_post_revoked(struct kvl *l, struct kvl_pool *p, u32 i,
			     u32 tenant)
{
	struct kvcache_event ev = {
		.type = KVCACHE_EV_REVOKED,
		.pool = p->id,
		.tenant = p->page[i].tenant,
		.value = kvl_handle(p, i),
	};

	kvl_post(l, tenant, &ev);
}

/* A PRIVATE or SHARED page is taken from all who hold it. */
void kvl_revoke(struct kvl *l, struct kvl_pool *p, u32 i)
{
	struct kvl_page *pg = &p->page[i];
	struct kvl_client *c;
	struct kvl_node *n;

	l->revoked = true;
	p->revokes++;
	kvl_owner(p, i)->ev_revoke++;
	kvl_post_revoked(l, p, i, pg->tenant);
	if (pg->state == KVCACHE_PAGE_PRIVATE) {
		kvl_private_put(l, p, l->client[pg->client], i);
		return;
	}
	while (pg->refs) {
		n = hlist_empty(&pg->sharers) ? NULL :
		    hlist_entry(pg->sharers.first, struct kvl_node, sharers);
		c = l->client[n ? n->client : pg->client];
		if (c->tenant != pg->tenant)
			kvl_post_revoked(l, p, i, c->tenant);
		c->pool[p->id].nr_shared -= n ? n->count : pg->count;
		pg->refs -= n ? n->count : pg->count;
		kvl_hold_end(l, p, c, i);
	}
	kvl_unindex(l, p, i);
	kvl_retire(l, p, i);
}

/* ---- what clients call -------------------------------------------------- */

int kvl_free(struct kvl *l, struct kvl_client *c, u32 pool, const u64 *pages,
	     u32 nr, u64 now)
{
	struct kvl_pool *p = kvl_pool_get(l, pool);
	bool windows = false;
	int err = 0;
	u32 k, i;

	if (c->dead)
		return -EOWNERDEAD;
	if (!p)
		return -ENOENT;
	if (!nr || nr > KVCACHE_MAX_PAGES)
		return -EINVAL;
	kvl_advance(l, p, now);
	for (k = 0; k < nr; k++) {
		err = kvl_resolve(p, pages[k], &i);
		if (err)
			break;
		if (p->page[i].mark == kvl_hold_count(l, p, c, i)) {
			err = -EPERM;
			break;
		}
		p->page[i].mark++;
		windows |= p->page[i].flags & KVL_PF_WINDOW;
	}
	while (k--)
		p->page[kvl_index(pages[k])].mark = 0;
	if (err)
		return err;

	for (k = nr; k--; ) {
		i = kvl_index(pages[k]);
		if (p->page[i].state == KVCACHE_PAGE_PRIVATE)
			kvl_private_put(l, p, c, i);
		else if (!(p->page[i].flags & KVL_PF_WINDOW))
			kvl_hold_put(l, p, c, i, 1);
	}
	for (k = 0; windows && k < nr; k++) {
		i = kvl_index(pages[k]);
		if (p->page[i].flags & KVL_PF_WINDOW)
			kvl_hold_put(l, p, c, i, 1);
	}
	kvl_pump(l, p);
	return 0;
}

/* What kvl_advise() would do with one page: 0, or -errno. */
static int kvl_advise_test(struct kvl *l, struct kvl_pool *p,
			   struct kvl_client *c,
			   const struct kvcache_advise *arg, u64 handle,
			   u32 *nodes)
{
	struct kvl_page *pg;
	u32 i;

	if (kvl_resolve(p, handle, &i))
		return (arg->advice & KVCACHE_ADVISE_NONVOLATILE) &&
		       kvl_generation(handle) &&
		       kvl_hold_find(l, p, c->id, kvl_index(handle),
				     kvl_generation(handle)) ? 0 : -ESTALE;
	pg = &p->page[i];
	if (!kvl_hold_count(l, p, c, i))
		return -EPERM;
	if ((arg->advice & KVCACHE_ADVISE_PRIORITY) &&
	    pg->state == KVCACHE_PAGE_PRIVATE &&
	    arg->ttl_ns != KVCACHE_TIME_NEVER)
		return -EINVAL;
	if (!(arg->advice & KVCACHE_ADVISE_VOLATILE))
		return 0;
	if (pg->state != KVCACHE_PAGE_PRIVATE)
		return -EINVAL;
	if (pg->pins)
		return -EBUSY;
	if (!(pg->flags & KVL_PF_VOLATILE) && !pg->mark) {
		pg->mark = 1;
		++*nodes;
	}
	return 0;
}

static void kvl_set_priority(struct kvl *l, struct kvl_pool *p, u32 i,
			     const struct kvcache_advise *arg)
{
	struct kvl_page *pg = &p->page[i];
	struct kvcache_event ev = {
		.type = KVCACHE_EV_UPDATED,
		.pool = p->id,
		.tenant = pg->tenant,
		.priority = arg->priority,
		.value = arg->ttl_ns,
	};

	pg->prio = arg->priority;
	pg->prio_until = kvl_add_sat(l->now, arg->ttl_ns);
	if (pg->state != KVCACHE_PAGE_SHARED || !kvl_findable(p, i))
		return;
	memcpy(ev.key, pg->keys->key, sizeof(ev.key));
	kvl_post(l, pg->tenant, &ev);
}

static u8 kvl_advise_page(struct kvl *l, struct kvl_pool *p,
			  struct kvl_client *c,
			  const struct kvcache_advise *arg, u64 handle)
{
	struct kvl_page *pg;
	struct kvl_node *n;
	bool again = false;
	u32 i;

	if (kvl_resolve(p, handle, &i)) {
		n = kvl_hold_find(l, p, c->id, kvl_index(handle),
				  kvl_generation(handle));
		if (n)
			kvl_node_drop(l, n);
		return KVCACHE_ADVISE_TAKEN;
	}
	pg = &p->page[i];
	if (arg->advice & KVCACHE_ADVISE_PRIORITY) {
		kvl_set_priority(l, p, i, arg);
		again = true;
	}
	if (arg->advice & KVCACHE_ADVISE_TOUCH) {
		pg->used = l->now;
		again = true;
	}
	if (!(pg->flags & KVL_PF_VOLATILE)) {
		if (arg->advice & KVCACHE_ADVISE_VOLATILE) {
			pg->flags |= KVL_PF_VOLATILE;
			pg->spare = kvl_node_get(l);
			kvl_list_page(p, i);
		}
	} else if (arg->advice & KVCACHE_ADVISE_NONVOLATILE) {
		kvl_unlist_page(p, i);
		kvl_node_put(l, pg->spare);
		pg->spare = NULL;
		pg->flags &= ~KVL_PF_VOLATILE;
	} else if (again) {
		kvl_unlist_page(p, i);
		kvl_list_page(p, i);
	}
	l->seq++;
	return KVCACHE_ADVISE_KEPT;
}

static bool kvl_advice_ok(const struct kvcache_advise *arg)
{
	const u32 both = KVCACHE_ADVISE_VOLATILE | KVCACHE_ADVISE_NONVOLATILE;
	const u32 all = both | KVCACHE_ADVISE_PRIORITY | KVCACHE_ADVISE_TOUCH;

	if (!arg->nr || arg->nr > KVCACHE_MAX_PAGES || !arg->advice ||
	    (arg->advice & ~all) || (arg->advice & both) == both)
		return false;
	if (arg->advice & KVCACHE_ADVISE_PRIORITY)
		return arg->priority <= KVCACHE_PRIO_MAX;
	return !arg->priority && !arg->ttl_ns;
}

int kvl_advise(struct kvl *l, struct kvl_client *c, struct kvcache_advise *arg,
	       u64 now)
{
	struct kvl_pool *p = kvl_pool_get(l, arg->pool);
	u32 k, i, nodes = 0;
	int err = 0;

	if (c->dead)
		return -EOWNERDEAD;
	if (!p)
		return -ENOENT;
	if (!kvl_advice_ok(arg))
		return -EINVAL;
	kvl_advance(l, p, now);
	for (k = 0; k < arg->nr && !err; k++)
		err = kvl_advise_test(l, p, c, arg, arg->pages[k], &nodes);
	while (k--)
		if (!kvl_resolve(p, arg->pages[k], &i))
			p->page[i].mark = 0;
	if (!err && nodes > l->nr_spare)
		err = -EAGAIN;
	if (err)
		return err;

	arg->out_taken = 0;
	for (k = arg->nr; k--; ) {
		arg->out_state[k] = kvl_advise_page(l, p, c, arg,
						    arg->pages[k]);
		arg->out_taken += arg->out_state[k] == KVCACHE_ADVISE_TAKEN;
	}
	kvl_pump(l, p);
	return 0;
}

int kvl_page_access(const struct kvl *l, const struct kvl_client *c, u32 pool,
		    u32 index, bool write)
{
	const struct kvl_pool *p = kvl_pool_get(l, pool);
	const struct kvl_page *pg;

	if (c->dead)
		return -EOWNERDEAD;
	if (!p || !index || index > p->nr_pages)
		return -EPERM;
	index = array_index_nospec(index, p->nr_pages + 1);
	pg = &p->page[index];
	if (write && (pg->state != KVCACHE_PAGE_PRIVATE ||
		      (pg->flags & KVL_PF_VOLATILE)))
		return -EPERM;
	return kvl_hold_count(l, p, c, index) ? 0 : -EPERM;
}

int kvl_pin(struct kvl *l, const struct kvl_client *c, u32 pool, u64 handle)
{
	struct kvl_pool *p = kvl_pool_get(l, pool);
	u32 i;

	if (c->dead)
		return -EOWNERDEAD;
	if (!p)
		return -ENOENT;
	if (kvl_resolve(p, handle, &i))
		return -ESTALE;
	if (!kvl_hold_count(l, p, c, i))
		return -EPERM;
	if ((p->page[i].flags & KVL_PF_VOLATILE) ||
	    p->page[i].pins >= KVL_MAX_REFS)
		return -EBUSY;
	p->page[i].pins++;
	l->seq++;
	return 0;
}

void kvl_unpin(struct kvl *l, u32 pool, u32 index, u64 now)
{
	struct kvl_pool *p = kvl_pool_get(l, pool);
	struct kvl_page *pg = &p->page[index];

	kvl_advance(l, p, now);
	l->seq++;
	if (--pg->pins)
		return;
	if (pg->state == KVCACHE_PAGE_CACHED)
		kvl_list_page(p, index);
	else if (pg->state == KVCACHE_PAGE_RETIRING)
		kvl_retire_again(l, p, index);
	kvl_pump(l, p);
}

/* ---- death -------------------------------------------------------------- */

u32 kvl_client_reap(struct kvl *l, struct kvl_client *c, u32 budget, u64 now)
{
	struct kvl_client_pool *cp;
	struct kvl_pool *p;
	struct kvl_node *n;
	u32 left = budget, k, i;

	if (!c->dead)
		return 0;
	for (k = 0; k < KVCACHE_MAX_POOLS; k++) {
		p = l->pool[k];
		cp = &c->pool[k];
		if (!p)
			continue;
		kvl_advance(l, p, now);
		for (; left && cp->pages.last; left--) {
			i = cp->pages.last;
			if (p->page[i].state == KVCACHE_PAGE_PRIVATE)
				kvl_private_put(l, p, c, i);
			else
				kvl_hold_put(l, p, c, i, p->page[i].count);
		}
		for (; left && !list_empty(&cp->holds); left--) {
			n = list_last_entry(&cp->holds, struct kvl_node, peers);
			if (n->count)
				kvl_hold_put(l, p, c, n->held, n->count);
			else
				kvl_node_drop(l, n);
		}
		kvl_pump(l, p);
	}
	return budget - left;
}
