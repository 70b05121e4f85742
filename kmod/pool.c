// SPDX-License-Identifier: GPL-2.0-only
/*
 * pool.c - memory of the pools: taken when a pool is made or grows, and zeroed
 * before a page that was used can reach anybody.
 *
 * The pool has one reference on each folio, every mapping one more, and so has
 * whoever pins it. A page can be given to somebody else only when the pool's
 * are the only ones.
 */
#include <linux/bitmap.h>
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/nodemask.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/srcu.h>

#include "internal.h"
#include "trace.h"

#define MAX_ORDER_OF_FOLIO	(21 - PAGE_SHIFT)	/* 2 MiB */
#define PIN_TRIES		5
#define RETRY_MS		100

/* ---- taking and giving back --------------------------------------------- */

/* Memory that the machine found to be bad is given to nobody, nor back. */
static bool folio_broken(struct folio *folio)
{
	size_t n;

	for (n = 0; n < folio_nr_pages(folio); n++)
		if (PageHWPoison(folio_page(folio, n)))
			return true;
	return false;
}

static void free_page_memory(struct kvcache_pool *p, u32 i)
{
	struct folio **folio = kvcache_page(p, i);
	u32 k;

	for (k = 0; k < p->per_page; k++) {
		if (folio[k] && !folio_broken(folio[k]))
			folio_put(folio[k]);
		folio[k] = NULL;
	}
}

/* Pages go over the memory nodes in turn, each as a whole. */
static int alloc_page_memory(struct kvcache_pool *p, u32 i, int nid)
{
	const gfp_t gfp = GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN |
			  __GFP_RETRY_MAYFAIL;
	struct folio **folio = kvcache_page(p, i);
	u32 k;

	for (k = 0; k < p->per_page; k++) {
		folio[k] = __folio_alloc_node(gfp, p->order, nid);
		if (!folio[k]) {
			free_page_memory(p, i);
			return -ENOMEM;
		}
		cond_resched();
	}
	return 0;
}

/* Pages @from to @to, all or none. */
static int alloc_range(struct kvcache_pool *p, u32 from, u32 to)
{
	int nid = first_memory_node, err = 0;
	u32 i;

	for (i = from; !err && i <= to; i++) {
		err = fatal_signal_pending(current) ? -EINTR :
		      alloc_page_memory(p, i, nid);
		nid = next_node_in(nid, node_states[N_MEMORY]);
	}
	if (err)
		while (i-- > from)
			free_page_memory(p, i);
	return err;
}

/*
 * Who found it before is done with it, and its null page is not mapped any
 * more, where another pool will have its pages.
 */
static void forget_pool(const struct kvcache_pool *p)
{
	synchronize_srcu(&kvcache_srcu);
	kvcache_page_lock(p, 0);
	kvcache_zap_everywhere(p, 0);
	kvcache_page_unlock(p, 0);
}

/* One that no number leads to any more. */
void kvcache_pool_free(struct kvcache_pool *p)
{
	u32 i;

	if (!p)
		return;
	if (p->known)
		forget_pool(p);
	for (i = 0; p->folio && i <= p->nr_pages; i++) {
		free_page_memory(p, i);
		cond_resched();
	}
	kvfree(p->folio);
	kvfree(p->next);
	bitmap_free(p->dirty);
	kfree(p);
}

int kvcache_pool_alloc(u64 page_size, u32 nr_pages, u32 capacity,
		       struct kvcache_pool **out)
{
	struct kvcache_pool *p;
	int err = -ENOMEM;

	if (page_size < PAGE_SIZE ||
	    capacity >= KVCACHE_WINDOW_SIZE / page_size)
		return -EINVAL;
	if (nr_pages > totalram_pages() / (page_size >> PAGE_SHIFT))
		return -ENOMEM;
	p = kzalloc(sizeof(*p), KVL_GFP);
	if (!p)
		return -ENOMEM;
	p->page_shift = ilog2(page_size);
	p->order = min_t(u32, p->page_shift - PAGE_SHIFT, MAX_ORDER_OF_FOLIO);
	p->per_page = page_size >> (PAGE_SHIFT + p->order);
	p->capacity = capacity;
	p->folio = kvcalloc((size_t)capacity + 1,
			    sizeof(*p->folio) * p->per_page,
			    KVL_GFP);
	p->next = kvcalloc((size_t)capacity + 1, sizeof(*p->next),
			   KVL_GFP);
	p->dirty = bitmap_zalloc(capacity + 1, KVL_GFP);
	if (p->folio && p->next && p->dirty)
		err = alloc_range(p, 0, nr_pages);
	if (err) {
		kvcache_pool_free(p);
		return err;
	}
	p->nr_pages = nr_pages;
	*out = p;
	return 0;
}

/* The ledger does not know the new pages yet. */
int kvcache_pool_grow(struct kvcache_pool *p, u64 nr_pages)
{
	int err;

	lockdep_assert_held(&kvcache.admin);
	if (nr_pages <= p->nr_pages)
		return 0;
	if (nr_pages > p->capacity)
		return -E2BIG;
	err = alloc_range(p, p->nr_pages + 1, nr_pages);
	if (err)
		return err;
	kvcache_lock();
	p->nr_pages = nr_pages;
	kvcache_unlock();
	return 0;
}

/* The ledger does not know the last pages any more. */
void kvcache_pool_shrink(struct kvcache_pool *p, u64 nr_pages)
{
	u32 i, was;

	lockdep_assert_held(&kvcache.admin);
	if (nr_pages >= p->nr_pages)
		return;
	kvcache_lock();
	was = p->nr_pages;
	p->nr_pages = nr_pages;
	kvcache_unlock();
	synchronize_srcu(&kvcache_srcu);
	for (i = was; i > p->nr_pages; i--) {
		free_page_memory(p, i);
		cond_resched();
	}
}

/* ---- what is in use ------------------------------------------------------ */

bool kvcache_page_used(const struct kvcache_pool *p, u32 i)
{
	struct folio **folio = kvcache_page(p, i);
	u32 k;

	for (k = 0; k < p->per_page; k++)
		if (folio_ref_count(folio[k]) > 1)
			return true;
	return false;
}

bool kvcache_page_pinned(const struct kvcache_pool *p, u32 i)
{
	int tries;

	for (tries = 0; kvcache_page_used(p, i); tries++) {
		if (tries == PIN_TRIES)
			return true;
		usleep_range(20, 50);
	}
	return false;
}

void kvcache_page_lock(const struct kvcache_pool *p, u32 i)
{
	struct folio **folio = kvcache_page(p, i);
	u32 k;

	for (k = 0; k < p->per_page; k++)
		folio_lock(folio[k]);
}

void kvcache_page_unlock(const struct kvcache_pool *p, u32 i)
{
	struct folio **folio = kvcache_page(p, i);
	u32 k;

	for (k = 0; k < p->per_page; k++)
		folio_unlock(folio[k]);
}

/* ---- cleaning ------------------------------------------------------------ */

static void fifo_push(struct kvcache_pool *p, struct kvcache_fifo *q, u32 i)
{
	kvcache_assert_locked();
	p->next[i] = 0;
	if (q->last)
		p->next[q->last] = i;
	else
		q->first = i;
	q->last = i;
}

static u32 fifo_pop(struct kvcache_pool *p, struct kvcache_fifo *q)
{
	u32 i = q->first;

	kvcache_assert_locked();
	if (i)
		q->first = p->next[i];
	if (!q->first)
		q->last = 0;
	return i;
}

void kvcache_pool_sort(struct kvcache_pool *p, u64 now)
{
	u32 i;

	kvcache_assert_locked();
	while ((i = kvl_work_next(kvcache.ledger, p->id))) {
		if (!test_bit(i, p->dirty) && !kvcache_page_used(p, i))
			kvl_work_done(kvcache.ledger, p->id, i, true, now);
		else
			fifo_push(p, &p->work, i);
	}
	if (p->work.first && !kvcache.stopping)
		queue_work(kvcache.wq, &kvcache.clean);
}

static void zero_page_memory(const struct kvcache_pool *p, u32 i)
{
	struct folio **folio = kvcache_page(p, i);
	size_t n;
	u32 k;

	for (k = 0; k < p->per_page; k++)
		for (n = 0; n < folio_nr_pages(folio[k]); n++) {
			clear_highpage(folio_page(folio[k], n));
			cond_resched();
		}
}

void kvcache_page_copy(const struct kvcache_pool *p, u32 to, u32 from)
{
	struct folio **dst = kvcache_page(p, to), **src = kvcache_page(p, from);
	size_t n;
	u32 k;

	for (k = 0; k < p->per_page; k++)
		for (n = 0; n < folio_nr_pages(src[k]); n++) {
			copy_highpage(folio_page(dst[k], n),
				      folio_page(src[k], n));
			cond_resched();
		}
}

static bool is_broken(const struct kvcache_pool *p, u32 i)
{
	u32 k;

	for (k = 0; k < p->per_page; k++)
		if (folio_broken(kvcache_page(p, i)[k]))
			return true;
	return false;
}

/*
 * Nobody may map the page any more, since it is RETIRING: a fault that was
 * faster holds the folio's lock until its mapping is there to be removed.
 */
static bool clean_page_memory(const struct kvcache_pool *p, u32 i, bool stuck)
{
	might_sleep();
	if (stuck && kvcache_page_used(p, i))
		return false;
	if (kvcache_page_used(p, i)) {
		kvcache_page_lock(p, i);
		kvcache_zap_everywhere(p, i);
		kvcache_page_unlock(p, i);
		if (kvcache_page_pinned(p, i))
			return false;
	}
	if (is_broken(p, i))
		return false;
	zero_page_memory(p, i);
	return true;
}

/* A page that is being cleaned keeps its pool from going away. */
static void clean_page(struct kvcache_pool *p, u32 i, bool stuck)
{
	bool ok = clean_page_memory(p, i, stuck);
	bool broken = !ok && is_broken(p, i);

	trace_kvcache_clean(p->id, i, ok);
	kvcache_lock();
	if (ok)
		clear_bit(i, p->dirty);
	else if (!broken)
		fifo_push(p, &p->stuck, i);
	if (ok || !stuck)
		kvl_work_done(kvcache.ledger, p->id, i, ok, kvcache_now());
	if (broken)
		kvl_page_lost(kvcache.ledger, p->id, i, kvcache_now());
	else if (!ok && !kvcache.stopping)
		/* If it is to run already, that is when. */
		queue_delayed_work(kvcache.wq, &kvcache.retry,
				   msecs_to_jiffies(RETRY_MS));
	kvcache_unlock();
}

static bool clean_next(u32 id, bool stuck)
{
	struct kvcache_pool *p;
	u32 i = 0;

	kvcache_lock();
	p = kvcache.pools[id];
	if (p)
		i = fifo_pop(p, stuck ? &p->stuck : &p->work);
	kvcache_unlock();
	if (i)
		clean_page(p, i, stuck);
	return i;
}

bool kvcache_clean_one(u32 pool)
{
	return clean_next(pool, false);
}

/* Pools take turns, so that who waits in one waits for no other's pages. */
bool kvcache_clean_any(void)
{
	struct kvcache_pool *p = NULL;
	u32 k, i = 0;

	kvcache_lock();
	for (k = 0; !i && k < KVCACHE_MAX_POOLS; k++) {
		kvcache.turn = (kvcache.turn + 1) % KVCACHE_MAX_POOLS;
		p = kvcache.pools[kvcache.turn];
		if (p)
			i = fifo_pop(p, &p->work);
	}
	kvcache_unlock();
	if (i)
		clean_page(p, i, false);
	return i;
}

void kvcache_clean_work(struct work_struct *w)
{
	while (kvcache_clean_any())
		cond_resched();
}

static u32 count_stuck(u32 id)
{
	struct kvcache_pool *p;
	u32 i, nr = 0;

	kvcache_lock();
	p = kvcache.pools[id];
	for (i = p ? p->stuck.first : 0; i; i = p->next[i])
		nr++;
	kvcache_unlock();
	return nr;
}

/* Nobody says when a pin ends, so each stuck page is looked at now and then. */
void kvcache_retry_work(struct work_struct *w)
{
	u32 id, nr;

	for (id = 0; id < KVCACHE_MAX_POOLS; id++)
		for (nr = count_stuck(id); nr; nr--)
			if (!clean_next(id, true))
				break;
}
