// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * ledger_verify.c - every invariant, checked from scratch.
 *
 * Sums that the ledger keeps are added up again from the pages and compared;
 * lists are walked; hash tables are searched for what must be there.
 */
#include "ledger_internal.h"

struct kvl_check_ctx {
	const struct kvl *l;
	const struct kvl_pool *p;
	char *why;
	size_t len;
};

#define KVL_BAD(x, ...) ({						\
	if ((x)->why)							\
		snprintf((x)->why, (x)->len, __VA_ARGS__);		\
	-EUCLEAN;							\
})

/* ---- one page ----------------------------------------------------------- */

static int kvl_check_keys(const struct kvl_check_ctx *x, u32 i)
{
	const struct kvl_pool *p = x->p;
	const struct kvl_page *pg = &p->page[i];
	const struct kvl_node *n, *m;
	u64 fill = 1ULL << 32;	/* above all that there can be */
	u32 nr = 0, chain;

	for (n = pg->keys; n; n = n->next, nr++) {
		if (n->page != i || n->fill >= fill)
			return KVL_BAD(x, "page %u: key %u is wrong", i, nr);
		fill = n->fill;
		chain = kvl_key_chain(x->l, p, pg->tenant, n->key);
		hlist_for_each_entry(m, &p->keys[chain], hash)
			if (m == n)
				break;
		if (m != n)
			return KVL_BAD(x, "page %u: key %u is in no chain", i,
				       nr);
	}
	if (nr != pg->nr_keys || !nr || pg->keys->fill != pg->fill)
		return KVL_BAD(x, "page %u: %u keys, fill %u", i, nr, pg->fill);
	return 0;
}

/* The references of a PRIVATE, SHARED or CACHED page. */
static int kvl_check_refs(const struct kvl_check_ctx *x, u32 i)
{
	const struct kvl_pool *p = x->p;
	const struct kvl_page *pg = &p->page[i];
	const struct kvl_client *c;
	const struct kvl_node *n;
	u32 refs = pg->count;

	if (!pg->client != !pg->count)
		return KVL_BAD(x, "page %u: client %u has %u references", i,
			       pg->client, pg->count);
	if (pg->client && (pg->client > x->l->max_clients ||
			   !x->l->client[pg->client]))
		return KVL_BAD(x, "page %u: no client %u", i, pg->client);
	hlist_for_each_entry(n, &pg->sharers, sharers) {
		c = x->l->client[n->client];
		if (n->held != i || !n->count || n->gen || !c ||
		    n->client == pg->client ||
		    kvl_hold_find(x->l, p, n->client, i, 0) != n)
			return KVL_BAD(x, "page %u: hold of client %u", i,
				       n->client);
		refs += n->count;
	}
	if (refs != pg->refs)
		return KVL_BAD(x, "page %u: %u references, not %u", i, refs,
			       pg->refs);
	if ((pg->state == KVCACHE_PAGE_PRIVATE && refs != 1) ||
	    (pg->state == KVCACHE_PAGE_SHARED && !refs) ||
	    (pg->state == KVCACHE_PAGE_CACHED && refs))
		return KVL_BAD(x, "page %u: state %u with %u references", i,
			       pg->state, refs);
	return 0;
}

static bool kvl_flags_ok(const struct kvl_pool *p, const struct kvl_page *pg)
{
	u8 f = pg->flags;
	bool listed = f & KVL_PF_LISTED;

	switch (pg->state) {
	case KVCACHE_PAGE_FREE:
		return !f && !pg->tenant && !pg->pins;
	case KVCACHE_PAGE_RETIRING:
		if (f & KVL_PF_LOST)
			return f == (KVL_PF_LOST | KVL_PF_STUCK) && !pg->pins &&
			       !pg->tenant;
		return !(f & ~(KVL_PF_STUCK | KVL_PF_QUEUED)) &&
		       (!pg->pins || f == KVL_PF_STUCK);
	case KVCACHE_PAGE_PRIVATE:
		return !(f & ~(KVL_PF_LISTED | KVL_PF_PARKED |
			       KVL_PF_VOLATILE)) &&
		       listed == !!(f & KVL_PF_VOLATILE) &&
		       (!listed || (pg->spare && !pg->pins)) &&
		       (listed || !pg->keys);
	case KVCACHE_PAGE_SHARED:
		return !(f & ~KVL_PF_WINDOW);
	case KVCACHE_PAGE_CACHED:
		return !(f & ~(KVL_PF_WINDOW | KVL_PF_LISTED | KVL_PF_PARKED |
			       KVL_PF_TIMED)) &&
		       listed == !pg->pins && pg->epoch <=
		       p->acct[pg->tenant].epoch;
	}
	return false;
}

static int kvl_check_page(const struct kvl_check_ctx *x, u32 i, u64 *nr)
{
	struct kvl_pool *p = (struct kvl_pool *)x->p;
	const struct kvl_page *pg = &p->page[i];
	struct kvl_account *a = &p->acct[pg->tenant];
	int err;

	if ((!pg->gen && pg->state != KVCACHE_PAGE_FREE) || pg->mark ||
	    pg->state > KVCACHE_PAGE_RETIRING || !kvl_flags_ok(p, pg))
		return KVL_BAD(x, "page %u: state %u flags %#x mark %u pins %u",
			       i, pg->state, pg->flags, pg->mark, pg->pins);
	nr[pg->state]++;
	if (pg->state == KVCACHE_PAGE_FREE || (pg->flags & KVL_PF_LOST))
		return 0;
	if (!kvl_tenant_get(x->l, pg->tenant) || !pg->tenant)
		return KVL_BAD(x, "page %u: no tenant %u", i, pg->tenant);
	a->seen.cur++;
	a->seen.takeable += !!(pg->flags & KVL_PF_LISTED);
	a->seen.parked += !!(pg->flags & KVL_PF_PARKED);
	a->seen.cached += pg->state == KVCACHE_PAGE_CACHED;
	if (pg->state == KVCACHE_PAGE_RETIRING) {
		a->seen.leaving += !(pg->flags & KVL_PF_STUCK);
		return 0;
	}
	if ((pg->flags & KVL_PF_LISTED) && pg->slot >= KVL_NR_SLOTS)
		return KVL_BAD(x, "page %u: slot %u", i, pg->slot);
	err = kvl_check_refs(x, i);
	if (!err && pg->state != KVCACHE_PAGE_PRIVATE)
		err = kvl_check_keys(x, i);
	return err;
}

/* ---- lists -------------------------------------------------------------- */

/* Walks a list of takeable pages; its length, or an error. */
#define KVL_CHECK_LIST(x, list, member, slot_nr, want, what) ({		\
	u64 check_last = 0, check_nr = 0;				\
	u32 check_i, check_prev = 0;					\
	int check_err = 0;						\
									\
	for (check_i = (list)->first; check_i;				\
	     check_i = (x)->p->page[check_i].member.next) {		\
		const struct kvl_page *check_pg;			\
									\
		check_pg = &(x)->p->page[check_i];			\
									\
		if (check_pg->member.prev != check_prev ||		\
		    check_pg->slot != (slot_nr) ||			\
		    check_pg->stamp <= check_last ||			\
		    check_pg->stamp > (x)->p->stamp || !(want)) {	\
			check_err = KVL_BAD(x, "page %u in %s %u",	\
					    check_i, what, slot_nr);	\
			break;						\
		}							\
		check_last = check_pg->stamp;				\
		check_prev = check_i;					\
		check_nr++;						\
	}								\
	if (!check_err && (list)->last != check_prev)			\
		check_err = KVL_BAD(x, "end of %s %u", what, slot_nr);	\
	check_err ? check_err : (s64)check_nr;				\
})

static bool kvl_map_test(const u64 *map, u32 bit)
{
	return map[bit / 64] >> (bit % 64) & 1;
}

static int kvl_check_order(const struct kvl_check_ctx *x, u64 takeable,
			   u64 parked)
{
	const struct kvl_pool *p = x->p;
	u64 nr = 0;
	u32 slot;
	s64 n;

	for (slot = 0; slot < KVL_NR_SLOTS; slot++) {
		n = KVL_CHECK_LIST(x, &p->order[slot], order, slot,
				   (check_pg->flags & (KVL_PF_LISTED |
				    KVL_PF_PARKED)) == KVL_PF_LISTED,
				   "the pool's list");
		if (n < 0)
			return n;
		if (!n == kvl_map_test(p->map, slot))
			return KVL_BAD(x, "bit %u of the pool", slot);
		nr += n;
	}
	if (nr + parked != takeable)
		return KVL_BAD(x, "%llu pages to take, not %llu",
			       nr + parked, takeable);
	return 0;
}

static int kvl_check_lru(const struct kvl_check_ctx *x,
			 const struct kvl_account *a)
{
	u64 nr = 0;
	u32 slot;
	s64 n;

	for (slot = 0; slot < KVL_NR_SLOTS; slot++) {
		n = KVL_CHECK_LIST(x, &a->lru[slot], lru, slot,
				   (check_pg->flags & KVL_PF_LISTED) &&
				   check_pg->tenant == a->tenant,
				   "a tenant's list");
		if (n < 0)
			return n;
		if (!n == kvl_map_test(a->map, slot))
			return KVL_BAD(x, "bit %u of tenant %u", slot,
				       a->tenant);
		nr += n;
	}
	if (nr != a->takeable)
		return KVL_BAD(x, "tenant %u: %llu pages to take", a->tenant,
			       nr);
	return 0;
}

static int kvl_check_heaps(const struct kvl_check_ctx *x)
{
	const struct kvl_pool *p = x->p;
	const struct kvl_account *a;
	const struct kvl_heap *h;
	u32 k, pos;

	for (k = 0; k < KVL_NR_HEAPS; k++) {
		h = &p->heap[k];
		for (pos = 1; pos <= h->nr; pos++) {
			a = &p->acct[h->e[pos].tenant];
			if (a->heap_pos != pos || a->guard != k || !a->parked ||
			    h->e[pos].key != kvl_heap_key(p, a) ||
			    h->e[pos / 2 ? pos / 2 : 1].key > h->e[pos].key)
				return KVL_BAD(x, "heap %u at %u, tenant %u", k,
					       pos, h->e[pos].tenant);
		}
	}
	return 0;
}

static int kvl_check_clock(const struct kvl_check_ctx *x)
{
	const struct kvl_pool *p = x->p;
	const struct kvl_clock *clock = &p->clock;
	const struct kvl_page *pg;
	u64 when, timed = 0, seen = 0;
	bool never;
	u32 b, i;

	for (b = 0; b < 64; b++) {
		if (!clock->bucket[b].first != !(clock->map >> b & 1))
			return KVL_BAD(x, "bit %u of the clock", b);
		for (i = clock->bucket[b].first; i; i = pg->own.next) {
			pg = &p->page[i];
			when = min_t(u64, pg->expires, pg->prio_until);
			if (!(pg->flags & KVL_PF_TIMED) || pg->bucket != b ||
			    when <= clock->now ||
			    fls64(when ^ clock->now) - 1 != b)
				return KVL_BAD(x, "page %u in bucket %u", i, b);
			seen++;
		}
	}
	for (i = 1; i <= p->nr_pages; i++) {
		pg = &p->page[i];
		timed += !!(pg->flags & KVL_PF_TIMED);
		when = min_t(u64, pg->expires, pg->prio_until);
		never = when == KVCACHE_TIME_NEVER;
		if (pg->state == KVCACHE_PAGE_CACHED &&
		    (pg->flags & KVL_PF_LISTED) && pg->slot != KVL_EXPIRED &&
		    !!(pg->flags & KVL_PF_TIMED) == never)
			return KVL_BAD(x, "page %u is in no bucket", i);
	}
	return timed == seen ? 0 : KVL_BAD(x, "the clock's pages");
}

static int kvl_check_free(const struct kvl_check_ctx *x)
{
	const struct kvl_pool *p = x->p;
	u64 nr = 0;
	u32 i, prev = 0;

	for (i = p->free.first; i; prev = i, i = p->page[i].order.next, nr++)
		if (p->page[i].state != KVCACHE_PAGE_FREE ||
		    i > p->nr_pages || p->page[i].order.prev != prev)
			return KVL_BAD(x, "page %u in the free list", i);
	if (nr != p->nr[KVCACHE_PAGE_FREE] || p->free.last != prev)
		return KVL_BAD(x, "%llu pages in the free list", nr);
	for (i = p->work.first; i; i = p->page[i].order.next)
		if (p->page[i].state != KVCACHE_PAGE_RETIRING ||
		    !(p->page[i].flags & KVL_PF_QUEUED))
			return KVL_BAD(x, "page %u in the list of work", i);
	return 0;
}

/* ---- accounts and waiting ----------------------------------------------- */

static int kvl_check_account(const struct kvl_check_ctx *x,
			     const struct kvl_account *a)
{
	const struct kvl_pool *p = x->p;
	u64 live = kvl_live(a), claims = 0, asked = 0;
	u32 guard = live <= a->min ? KVL_SAFE :
		    live <= a->low ? KVL_LOW : KVL_OPEN;
	const struct kvl_request *r;
	u32 waiters = 0;

	if (a->cur != a->seen.cur || a->takeable != a->seen.takeable ||
	    a->leaving != a->seen.leaving || a->cached != a->seen.cached ||
	    a->parked != a->seen.parked || a->peak < a->cur)
		return KVL_BAD(x, "tenant %u: %llu, %llu cached, not %llu, %llu",
			       a->tenant, a->seen.cur, a->seen.cached, a->cur,
			       a->cached);
	if (a->guard != guard ||
	    !a->heap_pos != (!a->parked || guard == KVL_SAFE))
		return KVL_BAD(x, "tenant %u: guard %u, parked %u", a->tenant,
			       a->guard, a->parked);
	list_for_each_entry(r, &p->backed, link)
		if (r->client->tenant == a->tenant) {
			claims += r->nr;
			waiters++;
		}
	list_for_each_entry(r, &p->queue, link)
		if (r->client->tenant == a->tenant) {
			asked += r->nr;
			waiters++;
		}
	list_for_each_entry(r, &a->queue, link) {
		if (r->client->tenant != a->tenant || r->queue != KVL_Q_LIMIT)
			return KVL_BAD(x, "tenant %u: its queue", a->tenant);
		waiters++;
	}
	if (a->claims != claims || a->asked != asked || a->waiters != waiters)
		return KVL_BAD(x, "tenant %u: %u waiters, not %u", a->tenant,
			       a->waiters, waiters);
	if (p->draining && waiters)
		return KVL_BAD(x, "tenant %u waits for a pool that drains",
			       a->tenant);
	/* Who could go on has gone on. */
	if (!list_empty(&a->queue) && !a->fitting) {
		r = list_first_entry(&a->queue, struct kvl_request, link);
		if (kvl_used(a) + r->nr <= a->max)
			return KVL_BAD(x, "tenant %u waits for nothing",
				       a->tenant);
	}
	return kvl_check_lru(x, a);
}

/* A client's own lists against its counts. */
static int kvl_check_client(const struct kvl_check_ctx *x,
			    const struct kvl_client *c)
{
	const struct kvl_pool *p = x->p;
	const struct kvl_client_pool *cp = &c->pool[p->id];
	const struct kvl_node *n;
	u64 private = 0, shared = 0;
	u32 i, prev = 0;

	for (i = cp->pages.first; i; prev = i, i = p->page[i].own.next) {
		if (p->page[i].client != c->id || p->page[i].own.prev != prev)
			return KVL_BAD(x, "client %u: page %u", c->id, i);
		if (p->page[i].state == KVCACHE_PAGE_PRIVATE)
			private++;
		else
			shared += p->page[i].count;
	}
	list_for_each_entry(n, &cp->holds, peers) {
		if (n->client != c->id || !n->count != !!n->gen)
			return KVL_BAD(x, "client %u: a hold", c->id);
		shared += n->count;
	}
	if (cp->pages.last != prev || private != cp->nr_private ||
	    shared != cp->nr_shared)
		return KVL_BAD(x, "client %u: %llu private, %llu shared", c->id,
			       private, shared);
	return 0;
}

static int kvl_check_pool(const struct kvl_check_ctx *x)
{
	struct kvl_pool *p = (struct kvl_pool *)x->p;
	u64 nr[KVCACHE_PAGE_NULL] = { 0 };
	u64 spare = 0, promised = 0, claims = 0, leaving = 0, sum_min = 0;
	u64 takeable = 0, parked = 0, cur = 0;
	const struct kvl_tenant *t;
	struct kvl_account *a;
	u32 i, id, waiters = 0, heaped = 0;
	int err;

	list_for_each_entry(t, &x->l->tenants, link)
		memset(&p->acct[t->id].seen, 0, sizeof(p->acct[0].seen));
	if (p->page[0].state != KVCACHE_PAGE_NULL)
		return KVL_BAD(x, "the null page is in state %u",
			       p->page[0].state);
	for (i = 1; i <= p->nr_pages; i++) {
		err = kvl_check_page(x, i, nr);
		if (err)
			return err;
	}
	if (memcmp(nr, p->nr, sizeof(nr)))
		return KVL_BAD(x, "pool %u: pages by state", p->id);
	list_for_each_entry(t, &x->l->tenants, link) {
		a = &p->acct[t->id];
		err = kvl_check_account(x, a);
		if (err)
			return err;
		spare += kvl_spare(a);
		promised += kvl_gap(a);
		claims += a->claims;
		leaving += a->leaving;
		sum_min += a->min;
		takeable += a->takeable;
		parked += a->parked;
		cur += a->cur;
		waiters += a->waiters;
		heaped += !!a->heap_pos;
	}
	if (spare != p->spare || promised != p->promised ||
	    claims != p->claims || leaving != p->leaving ||
	    sum_min != p->sum_min || sum_min > p->nr_pages ||
	    waiters != p->waiters || heaped != p->heap[0].nr + p->heap[1].nr)
		return KVL_BAD(x, "pool %u: sums over tenants", p->id);
	if (cur + nr[KVCACHE_PAGE_FREE] + p->lost != p->nr_pages)
		return KVL_BAD(x, "pool %u: charges", p->id);
	if (claims > nr[KVCACHE_PAGE_FREE] + leaving)
		return KVL_BAD(x, "pool %u: claims without pages", p->id);
	if (p->allocs - p->frees != p->nr_pages - nr[KVCACHE_PAGE_FREE] ||
	    kvl_sum(p->waits, KVCACHE_WAIT_ENDS) !=
	    kvl_sum(p->wait_times, KVCACHE_WAIT_BUCKETS))
		return KVL_BAD(x, "pool %u: counters", p->id);
	for (id = 1; id <= x->l->max_clients; id++) {
		err = x->l->client[id] ? kvl_check_client(x, x->l->client[id]) :
		      0;
		if (err)
			return err;
	}
	err = kvl_check_order(x, takeable, parked);
	if (!err)
		err = kvl_check_heaps(x);
	if (!err)
		err = kvl_check_clock(x);
	return err ? err : kvl_check_free(x);
}

/* What a tenant's clients hold of each tenant that lets it in. */
static int kvl_check_grants(const struct kvl_check_ctx *x,
			    const struct kvl_tenant *t)
{
	const struct kvl_client_pool *cp;
	const struct kvl_client *c;
	const struct kvl_pool *p;
	const struct kvl_node *n;
	u32 id, k, pool, i;
	u64 held;

	for (k = 0; k < KVL_MAX_GRANTS; k++) {
		if (!t->got[k].from)
			continue;
		for (held = 0, id = 1; id <= x->l->max_clients; id++) {
			c = x->l->client[id];
			if (!c || c->tenant != t->id)
				continue;
			for (pool = 0; pool < KVCACHE_MAX_POOLS; pool++) {
				p = x->l->pool[pool];
				if (!p)
					continue;
				cp = &c->pool[pool];
				for (i = cp->pages.first; i;
				     i = p->page[i].own.next)
					held += p->page[i].tenant ==
						t->got[k].from;
				list_for_each_entry(n, &cp->holds, peers)
					held += n->count &&
						p->page[n->held].tenant ==
						t->got[k].from;
			}
		}
		if (held != t->got[k].held ||
		    (!t->got[k].rights && !t->got[k].held))
			return KVL_BAD(x, "tenant %u holds %llu of tenant %u",
				       t->id, held, t->got[k].from);
	}
	return 0;
}

int kvl_verify(const struct kvl *l, char *why, size_t len)
{
	struct kvl_check_ctx x = { .l = l, .why = why, .len = len };
	const struct kvl_tenant *t;
	u32 k, clients = 0, id;
	int err;

	for (k = 0; k < KVCACHE_MAX_POOLS; k++) {
		x.p = l->pool[k];
		err = x.p ? kvl_check_pool(&x) : 0;
		if (err)
			return err;
	}
	for (id = 1; id <= l->max_clients; id++)
		clients += !!l->client[id];
	list_for_each_entry(t, &l->tenants, link) {
		err = kvl_check_grants(&x, t);
		if (err)
			return err;
		clients -= t->clients;
	}
	if (clients)
		return KVL_BAD(&x, "clients of tenants");
	return 0;
}
