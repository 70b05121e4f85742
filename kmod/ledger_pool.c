// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * ledger_pool.c - pools: made, resized, drained, removed, and looked at.
 */
#include "ledger_internal.h"

void kvl_account_init(struct kvl_pool *p, u32 tenant)
{
	struct kvl_account *a = &p->acct[tenant];
	u32 epoch = a->epoch;

	memset(a, 0, sizeof(*a));
	a->tenant = tenant;
	a->epoch = epoch + 1;
	a->max = KVCACHE_LIMIT_MAX;
	a->guard = KVL_SAFE;
	a->revoke_at = KVCACHE_TIME_NEVER;
	INIT_LIST_HEAD(&a->queue);
	INIT_LIST_HEAD(&a->ready);
}

static u32 kvl_bits(u64 n)
{
	return max_t(u32, 4, fls64(n - 1));
}

static void kvl_pool_extend(struct kvl_pool *p, u32 nr_pages)
{
	u32 i;

	for (i = p->nr_pages + 1; i <= nr_pages; i++)
		kvl_order_add_tail(p->page, &p->free, i);
	p->nr[KVCACHE_PAGE_FREE] += nr_pages - p->nr_pages;
	p->nr_pages = nr_pages;
}

int kvl_pool_alloc(const struct kvl *l, const struct kvl_pool_config *cfg,
		   struct kvl_pool **out)
{
	u32 capacity = cfg->capacity ? cfg->capacity : cfg->nr_pages;
	struct kvl_pool *p;
	u32 i;

	if (!kvl_name_ok(cfg->name) || !cfg->nr_pages ||
	    capacity < cfg->nr_pages || capacity > KVL_MAX_PAGES ||
	    cfg->kind > KVCACHE_POOL_DEVICE || (cfg->flags & ~KVL_POOL_DIRECT))
		return -EINVAL;
	p = kvzalloc(sizeof(*p), KVL_GFP);
	if (!p)
		return -ENOMEM;
	/* A page has up to 16 keys: chains of two when all have them. */
	p->key_bits = kvl_bits(8ULL * capacity);
	p->hold_bits = kvl_bits(capacity);
	p->page = kvcalloc(capacity + 1UL, sizeof(p->page[0]),
			   KVL_GFP);
	p->keys = kvcalloc(1UL << p->key_bits, sizeof(p->keys[0]),
			   KVL_GFP);
	p->holds = kvcalloc(1UL << p->hold_bits, sizeof(p->holds[0]),
			    KVL_GFP);
	p->acct = kvcalloc(l->max_tenants + 1UL, sizeof(p->acct[0]),
			   KVL_GFP);
	for (i = 0; i < KVL_NR_HEAPS; i++)
		p->heap[i].e = kvcalloc(l->max_tenants + 1UL,
					sizeof(p->heap[i].e[0]),
					KVL_GFP);
	if (!p->page || !p->keys || !p->holds || !p->acct || !p->heap[0].e ||
	    !p->heap[1].e) {
		kvl_pool_free(p);
		return -ENOMEM;
	}
	strcpy(p->name, cfg->name);
	p->kind = cfg->kind;
	p->flags = cfg->flags;
	p->page_size = cfg->page_size;
	p->capacity = capacity;
	INIT_LIST_HEAD(&p->queue);
	INIT_LIST_HEAD(&p->backed);
	INIT_LIST_HEAD(&p->ready);
	p->page[0].state = KVCACHE_PAGE_NULL;
	kvl_pool_extend(p, cfg->nr_pages);
	*out = p;
	return 0;
}

void kvl_pool_free(struct kvl_pool *p)
{
	if (!p)
		return;
	kvl_nodes_free(p->nodes);
	kvfree(p->heap[0].e);
	kvfree(p->heap[1].e);
	kvfree(p->acct);
	kvfree(p->holds);
	kvfree(p->keys);
	kvfree(p->page);
	kvfree(p);
}

int kvl_pool_add(struct kvl *l, struct kvl_pool *p)
{
	struct kvl_tenant *t;
	u32 k, id = KVCACHE_MAX_POOLS;

	for (k = KVCACHE_MAX_POOLS; k--; ) {
		if (!l->pool[k])
			id = k;
		else if (!strcmp(l->pool[k]->name, p->name))
			return -EEXIST;
	}
	if (id == KVCACHE_MAX_POOLS)
		return -ENOSPC;
	p->id = id;
	p->clock.now = l->now;
	/* Handles of the last pool of this number are stale in this one. */
	p->first_gen = max_t(u32, 1, l->last_gen[id] + 1);
	p->last_gen = p->first_gen;
	l->pool[id] = p;
	list_for_each_entry(t, &l->tenants, link)
		kvl_account_init(p, t->id);
	l->seq++;
	return id;
}

/* Nodes go with a pool when no other one has any in use. */
static void kvl_shed_nodes(struct kvl *l, struct kvl_pool *gone)
{
	if (l->nr_spare != l->nr_nodes)
		return;
	gone->nodes = l->chunks;
	l->chunks = NULL;
	l->spare = NULL;
	l->nr_spare = 0;
	l->nr_nodes = 0;
}

int kvl_pool_remove(struct kvl *l, u32 pool, struct kvl_pool **out)
{
	struct kvl_pool *p = kvl_pool_get(l, pool);
	struct kvl_client_pool *cp;
	struct kvl_tenant *t;
	struct kvl_node *n, *tmp;
	u32 k;

	if (!p)
		return -ENOENT;
	if (p->nr[KVCACHE_PAGE_FREE] + p->lost != p->nr_pages || p->waiters)
		return -EBUSY;
	for (k = 1; k <= l->max_clients; k++) {
		if (!l->client[k])
			continue;
		/* What tells of pages that were taken. */
		cp = &l->client[k]->pool[pool];
		list_for_each_entry_safe(n, tmp, &cp->holds, peers)
			kvl_node_put(l, n);
		INIT_LIST_HEAD(&cp->holds);
	}
	list_for_each_entry(t, &l->tenants, link)
		l->nr_due -= kvl_is_due(&p->acct[t->id]);
	kvl_shed_nodes(l, p);
	l->last_gen[pool] = p->last_gen;
	l->pool[pool] = NULL;
	l->seq++;
	*out = p;
	return 0;
}

/*
 * Gives up takeable pages at the end, and drops what is FREE there; whether all
 * of a slice could be dropped.
 */
static bool kvl_pool_shrink(struct kvl *l, struct kvl_pool *p, u32 nr_pages)
{
	struct kvl_page *pg;
	u32 i;

	nr_pages = max_t(u32, nr_pages,
			 p->nr_pages - min_t(u32, p->nr_pages, l->slice));
	for (i = p->nr_pages; i > nr_pages; i--) {
		pg = &p->page[i];
		if (pg->flags & KVL_PF_LISTED)
			kvl_take(l, p, i);
		else if (pg->state != KVCACHE_PAGE_FREE &&
			 (pg->state != KVCACHE_PAGE_RETIRING ||
			  (pg->flags & KVL_PF_STUCK)))
			break;
	}
	for (i = p->nr_pages; i > nr_pages; i--) {
		if (p->page[i].state != KVCACHE_PAGE_FREE)
			break;
		kvl_order_del(p->page, &p->free, i);
		p->nr[KVCACHE_PAGE_FREE]--;
	}
	p->nr_pages = i;
	kvl_unback(p);
	return i == nr_pages;
}

int kvl_pool_resize(struct kvl *l, u32 pool, u64 nr_pages, u64 *out, u64 now)
{
	struct kvl_pool *p = kvl_pool_get(l, pool);
	struct kvl_page *last;
	bool all = true;

	if (!p)
		return -ENOENT;
	*out = p->nr_pages;
	if (nr_pages > p->capacity)
		return -E2BIG;
	if (!nr_pages || nr_pages < min_t(u64, p->nr_pages,
					  p->sum_min + p->lost))
		return -EINVAL;
	kvl_advance(l, p, now);
	if (nr_pages >= p->nr_pages)
		kvl_pool_extend(p, min_t(u64, nr_pages,
					 (u64)p->nr_pages + l->slice));
	else
		all = kvl_pool_shrink(l, p, nr_pages);
	*out = p->nr_pages;
	l->seq++;
	kvl_limits_changed(l, p);
	kvl_pump(l, p);
	if (all)
		return p->nr_pages != nr_pages ? KVL_MORE : 0;
	last = &p->page[p->nr_pages];
	return last->state == KVCACHE_PAGE_RETIRING &&
	       !(last->flags & KVL_PF_STUCK) ? KVL_WORK : -EBUSY;
}

u64 kvl_pool_pages(const struct kvl *l, u32 pool)
{
	const struct kvl_pool *p = kvl_pool_get(l, pool);

	return p ? p->nr_pages : 0;
}

int kvl_pool_drain(struct kvl *l, u32 pool, u64 now)
{
	struct kvl_pool *p = kvl_pool_get(l, pool);

	if (!p)
		return -ENOENT;
	kvl_advance(l, p, now);
	p->draining = true;
	kvl_fail_all(l, p, -ESHUTDOWN);
	l->seq++;
	return 0;
}

int kvl_pool_resume(struct kvl *l, u32 pool)
{
	struct kvl_pool *p = kvl_pool_get(l, pool);

	if (!p)
		return -ENOENT;
	p->draining = false;
	l->seq++;
	return 0;
}

int kvl_pool_trim(struct kvl *l, u32 pool, u32 budget, u64 now)
{
	struct kvl_pool *p = kvl_pool_get(l, pool);
	struct kvl_tenant *t;
	u32 done = 0;

	if (!p)
		return -ENOENT;
	kvl_advance(l, p, now);
	list_for_each_entry(t, &l->tenants, link)
		done += kvl_trim(l, p, &p->acct[t->id], false, budget - done);
	kvl_pump(l, p);
	return done;
}

int kvl_pool_info(const struct kvl *l, u32 pool, struct kvcache_pool_info *out)
{
	const struct kvl_pool *p = kvl_pool_get(l, pool);

	if (!p)
		return -ENOENT;
	memset(out, 0, sizeof(*out));
	out->id = p->id;
	out->kind = p->kind;
	out->page_size = p->page_size;
	out->nr_pages = p->nr_pages;
	out->nr_free = p->nr[KVCACHE_PAGE_FREE];
	out->nr_private = p->nr[KVCACHE_PAGE_PRIVATE];
	out->nr_shared = p->nr[KVCACHE_PAGE_SHARED];
	out->nr_cached = p->nr[KVCACHE_PAGE_CACHED];
	out->nr_retiring = p->nr[KVCACHE_PAGE_RETIRING];
	out->waiters = p->waiters;
	out->allocs = p->allocs;
	out->reclaims = kvl_sum(p->reclaims, KVCACHE_RECLAIM_CAUSES);
	out->lookups = p->lookups;
	out->hits = p->hits;
	out->draining = p->draining;
	out->capacity = p->capacity;
	memcpy(out->name, p->name, sizeof(out->name));
	return 0;
}

int kvl_page_search(const struct kvl *l, u32 pool, u32 tenant, u32 start,
		    u32 last, u64 now, struct kvcache_page_info *out)
{
	const struct kvl_pool *p = kvl_pool_get(l, pool);
	const struct kvl_page *pg;
	u32 i;

	if (!p)
		return -ENOENT;
	last = min_t(u32, last, p->nr_pages);
	for (i = max_t(u32, start, 1); i <= last; i++) {
		pg = &p->page[i];
		if (pg->state == KVCACHE_PAGE_FREE ||
		    (tenant && pg->tenant != tenant))
			continue;
		memset(out, 0, sizeof(*out));
		out->handle = kvl_handle(p, i);
		out->tenant = pg->tenant;
		out->state = pg->state;
		if (pg->state == KVCACHE_PAGE_PRIVATE)
			out->client = pg->client;
		if (pg->flags & KVL_PF_VOLATILE)
			out->flags |= KVCACHE_PAGE_VOLATILE;
		if (pg->pins)
			out->flags |= KVCACHE_PAGE_PINNED;
		out->refs = pg->refs;
		out->fill = pg->fill;
		out->priority = pg->prio_until <= p->clock.now ?
				KVCACHE_PRIO_DEFAULT : pg->prio;
		if (pg->nr_keys && kvl_findable(p, i))
			out->nr_keys = pg->nr_keys;
		out->idle_ns = now > pg->used ? now - pg->used : 0;
		return 0;
	}
	return -ENOENT;
}

int kvl_page_info(const struct kvl *l, u32 pool, u32 tenant, u32 start, u64 now,
		  struct kvcache_page_info *out)
{
	return kvl_page_search(l, pool, tenant, start, U32_MAX, now, out);
}
