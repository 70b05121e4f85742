// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * ledger_reclaim.c - which page is taken next.
 *
 * A pool's lists hold all takeable pages of a priority, least recently stamped
 * first, so the next page is at the front of the first list. A page found
 * there whose tenant is protected at this moment is parked: it leaves the
 * pool's list for good and stays in its tenant's. So each page is passed over
 * once, however often its tenant crosses its low. Accounts with parked pages
 * are in a heap for each degree of protection, by their own first page, and a
 * pass compares the pool's front with the heap's. Without min and low nothing
 * is ever parked.
 */
#include "ledger_internal.h"

/* ---- accounts with parked pages ----------------------------------------- */

static u32 kvl_oldest(const struct kvl_pool *p, const struct kvl_account *a)
{
	u32 slot = kvl_map_first(a->map);

	return slot < KVL_NR_SLOTS ? a->lru[slot].first : 0;
}

static u64 kvl_page_key(const struct kvl_pool *p, u32 i)
{
	return (u64)p->page[i].slot << 56 | p->page[i].stamp;
}

u64 kvl_heap_key(const struct kvl_pool *p, const struct kvl_account *a)
{
	return kvl_page_key(p, kvl_oldest(p, a));
}

static void kvl_heap_put(struct kvl_pool *p, struct kvl_heap *h, u32 pos,
			 struct kvl_heap_entry e)
{
	h->e[pos] = e;
	p->acct[e.tenant].heap_pos = pos;
}

static void kvl_heap_settle(struct kvl_pool *p, struct kvl_heap *h, u32 pos,
			    struct kvl_heap_entry e)
{
	u32 child;

	for (; pos > 1 && h->e[pos / 2].key > e.key; pos /= 2)
		kvl_heap_put(p, h, pos, h->e[pos / 2]);
	for (; (child = 2 * pos) <= h->nr; pos = child) {
		if (child < h->nr && h->e[child + 1].key < h->e[child].key)
			child++;
		if (h->e[child].key >= e.key)
			break;
		kvl_heap_put(p, h, pos, h->e[child]);
	}
	kvl_heap_put(p, h, pos, e);
}

static void kvl_heap_add(struct kvl_pool *p, struct kvl_account *a)
{
	struct kvl_heap *h = &p->heap[a->guard];
	struct kvl_heap_entry e = { kvl_heap_key(p, a), a->tenant };

	h->nr++;
	kvl_heap_settle(p, h, h->nr, e);
}

static void kvl_heap_del(struct kvl_pool *p, struct kvl_account *a)
{
	struct kvl_heap *h = &p->heap[a->guard];
	u32 pos = a->heap_pos;

	a->heap_pos = 0;
	h->nr--;
	if (pos <= h->nr)
		kvl_heap_settle(p, h, pos, h->e[h->nr + 1]);
}

/* The first page of an account may be another one now. */
static void kvl_heap_rekey(struct kvl_pool *p, struct kvl_account *a)
{
	struct kvl_heap_entry e = { kvl_heap_key(p, a), a->tenant };

	kvl_heap_settle(p, &p->heap[a->guard], a->heap_pos, e);
}

/* The charge or the protection of an account changed. */
void kvl_guard(struct kvl_pool *p, struct kvl_account *a)
{
	u64 live = kvl_live(a);
	u32 guard = live <= a->min ? KVL_SAFE :
		    live <= a->low ? KVL_LOW : KVL_OPEN;

	if (guard == a->guard)
		return;
	if (a->heap_pos)
		kvl_heap_del(p, a);
	a->guard = guard;
	if (a->parked && guard != KVL_SAFE)
		kvl_heap_add(p, a);
}

/* ---- what happens later ------------------------------------------------- */

static u64 kvl_when(const struct kvl_page *pg)
{
	return min_t(u64, pg->expires, pg->prio_until);
}

static void kvl_timer_add(struct kvl_pool *p, u32 i)
{
	struct kvl_page *pg = &p->page[i];
	struct kvl_clock *clock = &p->clock;

	pg->bucket = fls64(kvl_when(pg) ^ clock->now) - 1;
	pg->flags |= KVL_PF_TIMED;
	clock->map |= 1ULL << pg->bucket;
	kvl_own_add_tail(p->page, &clock->bucket[pg->bucket], i);
}

static void kvl_timer_del(struct kvl_pool *p, u32 i)
{
	struct kvl_page *pg = &p->page[i];
	struct kvl_list *b = &p->clock.bucket[pg->bucket];

	pg->flags &= ~KVL_PF_TIMED;
	kvl_own_del(p->page, b, i);
	if (!b->first)
		p->clock.map &= ~(1ULL << pg->bucket);
}

static u32 kvl_merge(struct kvl_page *page, u32 a, u32 b)
{
	u32 first = 0, *tail = &first;

	while (a && b) {
		u32 *next = page[a].stamp < page[b].stamp ? &a : &b;

		*tail = *next;
		tail = &page[*next].own.next;
		*next = *tail;
	}
	*tail = a ? a : b;
	return first;
}

/* Pages chained by own.next, in ascending order of stamps. */
static u32 kvl_sort(struct kvl_page *page, u32 first)
{
	u32 bin[32], used = 0, run, b;

	while (first) {
		run = first;
		first = page[run].own.next;
		page[run].own.next = 0;
		for (b = 0; b < used && bin[b]; b++) {
			run = kvl_merge(page, bin[b], run);
			bin[b] = 0;
		}
		bin[b] = run;
		used += b == used;
	}
	for (run = 0, b = 0; b < used; b++)
		run = kvl_merge(page, bin[b], run);
	return run;
}

/* Takes pages whose time has come out of these buckets, as a chain. */
static u32 kvl_due(struct kvl_pool *p, u64 buckets)
{
	struct kvl_clock *clock = &p->clock;
	u32 due = 0, b, i, next;

	for (; buckets; buckets &= buckets - 1) {
		b = __ffs64(buckets);
		i = clock->bucket[b].first;
		clock->bucket[b] = (struct kvl_list){ 0, 0 };
		clock->map &= ~(1ULL << b);
		for (; i; i = next) {
			next = p->page[i].own.next;
			p->page[i].flags &= ~KVL_PF_TIMED;
			if (kvl_when(&p->page[i]) > clock->now) {
				kvl_timer_add(p, i);
				continue;
			}
			p->page[i].own.next = due;
			due = i;
		}
	}
	return due;
}

/* Time goes on: pages expire, priorities fall back. */
void kvl_advance(struct kvl *l, struct kvl_pool *p, u64 now)
{
	struct kvl_clock *clock = &p->clock;
	u64 passed;
	u32 i, next;
	int top;

	l->now = max_t(u64, l->now, now);
	if (l->now == clock->now)
		return;
	/* Below the highest bit that changes all is over; there, some. */
	top = fls64(l->now ^ clock->now) - 1;
	clock->now = l->now;
	passed = clock->map & (~0ULL >> (63 - top));
	if (!passed)
		return;
	for (i = kvl_sort(p->page, kvl_due(p, passed)); i; i = next) {
		next = p->page[i].own.next;
		kvl_unlist_page(p, i);
		kvl_list_page(p, i);
	}
}

/* No page's time comes before this. */
u64 kvl_clock_next(const struct kvl_pool *p)
{
	u32 b;

	if (p->order[KVL_EXPIRED].first)
		return p->clock.now;
	if (!p->clock.map)
		return KVCACHE_TIME_NEVER;
	b = __ffs64(p->clock.map);
	return (p->clock.now >> b | 1) << b;
}

/* ---- the lists ---------------------------------------------------------- */

/* The page is takeable from now on. */
void kvl_list_page(struct kvl_pool *p, u32 i)
{
	struct kvl_account *a = kvl_owner(p, i);
	struct kvl_page *pg = &p->page[i];

	pg->slot = 1 + pg->prio;
	pg->stamp = ++p->stamp;
	pg->flags |= KVL_PF_LISTED;
	if (pg->state == KVCACHE_PAGE_CACHED) {
		if (pg->prio_until <= p->clock.now) {
			pg->prio = KVCACHE_PRIO_DEFAULT;
			pg->prio_until = KVCACHE_TIME_NEVER;
			pg->slot = 1 + pg->prio;
		}
		if (pg->expires <= p->clock.now)
			pg->slot = KVL_EXPIRED;
		else if (kvl_when(pg) != KVCACHE_TIME_NEVER)
			kvl_timer_add(p, i);
	}
	kvl_order_add_tail(p->page, &p->order[pg->slot], i);
	kvl_map_set(p->map, pg->slot);
	kvl_lru_add_tail(p->page, &a->lru[pg->slot], i);
	kvl_map_set(a->map, pg->slot);
	if (a->heap_pos)
		kvl_heap_rekey(p, a);
	kvl_takeable(p, a, 1);
}

static void kvl_order_drop(struct kvl_pool *p, u32 i)
{
	struct kvl_list *list = &p->order[p->page[i].slot];

	kvl_order_del(p->page, list, i);
	if (!list->first)
		kvl_map_clear(p->map, p->page[i].slot);
}

/* The page is not takeable any more. */
void kvl_unlist_page(struct kvl_pool *p, u32 i)
{
	struct kvl_account *a = kvl_owner(p, i);
	struct kvl_page *pg = &p->page[i];
	struct kvl_list *lru = &a->lru[pg->slot];

	if (pg->flags & KVL_PF_TIMED)
		kvl_timer_del(p, i);
	kvl_lru_del(p->page, lru, i);
	if (!lru->first)
		kvl_map_clear(a->map, pg->slot);
	if (!(pg->flags & KVL_PF_PARKED))
		kvl_order_drop(p, i);
	else if (!--a->parked && a->heap_pos)
		kvl_heap_del(p, a);
	pg->flags &= ~(KVL_PF_LISTED | KVL_PF_PARKED);
	if (a->heap_pos)
		kvl_heap_rekey(p, a);
	kvl_takeable(p, a, -1);
}

/* Passed over because its tenant is protected now. */
static void kvl_park(struct kvl_pool *p, u32 i)
{
	struct kvl_account *a = kvl_owner(p, i);

	kvl_order_drop(p, i);
	p->page[i].flags |= KVL_PF_PARKED;
	if (!a->parked++ && a->guard != KVL_SAFE)
		kvl_heap_add(p, a);
}

/* ---- taking ------------------------------------------------------------- */

/* A takeable page leaves its tenant. */
void kvl_take(struct kvl *l, struct kvl_pool *p, u32 i)
{
	kvl_unlist_page(p, i);
	if (p->page[i].state == KVCACHE_PAGE_PRIVATE) {
		kvl_taken(l, p, i);
	} else {
		kvl_unindex(l, p, i);
		kvl_owner(p, i)->cached--;
	}
	kvl_retire(l, p, i);
}

/* Gives up takeable pages of an account, or only CACHED ones. */
u32 kvl_trim(struct kvl *l, struct kvl_pool *p, struct kvl_account *a,
	     bool cached, u32 budget)
{
	u32 slot, i, next, done = 0;

	for (slot = 0; slot < KVL_NR_SLOTS && a->takeable; slot++) {
		for (i = a->lru[slot].first; i && done < budget; i = next) {
			next = p->page[i].lru.next;
			if (cached && p->page[i].state != KVCACHE_PAGE_CACHED)
				continue;
			kvl_take(l, p, i);
			done++;
		}
	}
	return done;
}

static bool kvl_reclaim(struct kvl *l, struct kvl_pool *p, u32 i, u32 cause)
{
	if (!i)
		return false;
	p->reclaims[cause]++;
	p->taken_volatile += p->page[i].state == KVCACHE_PAGE_PRIVATE;
	kvl_owner(p, i)->ev_reclaim++;
	kvl_take(l, p, i);
	return true;
}

/* The page that pass one takes next. */
static u32 kvl_pick_open(struct kvl_pool *p)
{
	const struct kvl_heap *h = &p->heap[KVL_OPEN];
	u32 slot, i = 0;

	while ((slot = kvl_map_first(p->map)) < KVL_NR_SLOTS) {
		i = p->order[slot].first;
		if (kvl_owner(p, i)->guard == KVL_OPEN)
			break;
		kvl_park(p, i);
		i = 0;
	}
	if (h->nr && (!i || h->e[1].key < kvl_page_key(p, i)))
		i = kvl_oldest(p, &p->acct[h->e[1].tenant]);
	return i;
}

/* The next page of an account's own, whatever its min and low. */
bool kvl_take_own(struct kvl *l, struct kvl_pool *p, struct kvl_account *a)
{
	return kvl_reclaim(l, p, kvl_oldest(p, a), KVCACHE_RECLAIM_OWN);
}

/* The next page of all, for a request of @self. */
bool kvl_take_any(struct kvl *l, struct kvl_pool *p, struct kvl_account *self)
{
	const struct kvl_heap *low = &p->heap[KVL_LOW];
	u32 i = p->order[KVL_EXPIRED].first;

	if (i)
		return kvl_reclaim(l, p, i, KVCACHE_RECLAIM_EXPIRED);
	i = kvl_pick_open(p);
	if (i)
		return kvl_reclaim(l, p, i, KVCACHE_RECLAIM_LOW);
	/* Whatever is not open has been parked by now. */
	if (low->nr)
		return kvl_reclaim(l, p,
				   kvl_oldest(p, &p->acct[low->e[1].tenant]),
				   KVCACHE_RECLAIM_MIN);
	return kvl_reclaim(l, p, kvl_oldest(p, self), KVCACHE_RECLAIM_LAST);
}
