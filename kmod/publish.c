// SPDX-License-Identifier: GPL-2.0-only
/*
 * publish.c - KVCACHE_PUBLISH: from pages that one client writes to pages that
 * nobody can.
 *
 * The pages' folios stay locked while their mappings are removed, pins are
 * looked for and the ledger decides, so that nobody maps a page for writing in
 * between. A page that something else may still write to is not published; its
 * copy is, if the caller says so.
 */
#include <linux/bitmap.h>
#include <linux/nospec.h>
#include <linux/sort.h>

#include "internal.h"

/**
 * struct pages - the caller's own pages in a KVCACHE_PUBLISH
 * @p: the pool
 * @nr: their number
 * @i: which, ascending
 */
struct pages {
	struct kvcache_pool *p;
	u32 nr;
	u32 i[KVCACHE_MAX_PUBLISH];
};

/* Entries of the command that are in use; it is the ledger that complains. */
static u32 entries(const struct kvcache_publish *a)
{
	return min_t(u32, a->nr, KVCACHE_MAX_PUBLISH);
}

static int by_number(const void *a, const void *b)
{
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return x < y ? -1 : x > y;
}

/* Those which it may write: others are not touched, and refused later. */
static void find_pages(struct kvcache_client *c,
		       const struct kvcache_publish *a, struct pages *set)
{
	u32 i, k, nr = 0;

	kvcache_assert_locked();
	set->nr = 0;
	set->p = a->pool < KVCACHE_MAX_POOLS ?
		 kvcache.pools[array_index_nospec(a->pool,
						  KVCACHE_MAX_POOLS)] : NULL;
	if (!set->p || !c->cmd.client)
		return;
	for (k = 0; k < entries(a); k++) {
		i = kvl_index(a->pages[k].handle);
		if (!kvl_page_access(kvcache.ledger, c->cmd.client, a->pool, i,
				     true))
			set->i[nr++] = array_index_nospec(i,
							  set->p->nr_pages + 1);
	}
	sort(set->i, nr, sizeof(set->i[0]), by_number, NULL);
	for (k = 0; k < nr; k++)
		if (!k || set->i[k] != set->i[k - 1])
			set->i[set->nr++] = set->i[k];
}

static void lock_and_unmap(struct kvcache_client *c, const struct pages *set)
{
	u32 k;

	for (k = 0; k < set->nr; k++) {
		kvcache_page_lock(set->p, set->i[k]);
		kvcache_zap(c, set->p, set->i[k], 1, true);
	}
}

static void unlock(const struct pages *set)
{
	u32 k;

	for (k = 0; k < set->nr; k++)
		kvcache_page_unlock(set->p, set->i[k]);
}

static bool in_set(const struct pages *set, u32 i)
{
	u32 k;

	for (k = 0; k < set->nr; k++)
		if (set->i[k] == i)
			return true;
	return false;
}

/* The ledger knows of exports, the page's count of all else. */
static bool is_pinned(const struct pages *set, u32 i)
{
	struct kvcache_page_info info;
	int err;

	kvcache_lock();
	err = kvl_page_info(kvcache.ledger, set->p->id, 0, i, kvcache_now(),
			    &info);
	kvcache_unlock();
	if (!err && kvl_index(info.handle) == i &&
	    (info.flags & KVCACHE_PAGE_PINNED))
		return true;
	return kvcache_page_pinned(set->p, i);
}

/* Entries whose page somebody holds outside the page tables. */
static void find_pinned(const struct kvcache_publish *a,
			const struct pages *set, unsigned long *pinned)
{
	u32 i, k;

	bitmap_zero(pinned, KVCACHE_MAX_PUBLISH);
	for (k = 0; k < entries(a); k++) {
		i = kvl_index(a->pages[k].handle);
		if (in_set(set, i) && is_pinned(set, i))
			__set_bit(k, pinned);
	}
}

/* Entries that want a copy and have no page for it yet. */
static bool lacks_copies(const struct kvcache_publish *a,
			 const unsigned long *pinned, const u64 *copies)
{
	u32 k;

	for_each_set_bit(k, pinned, KVCACHE_MAX_PUBLISH)
		if ((a->pages[k].flags & KVCACHE_PUBLISH_COPY) && !copies[k])
			return true;
	return false;
}

/*
 * Pages for the copies. No folio may be locked: what has to be cleaned first
 * may be a page of this command that another thread has freed.
 */
static int get_copies(struct kvcache_client *c, const struct kvcache_publish *a,
		      const unsigned long *pinned, u64 *copies)
{
	u32 k;
	int rc;

	for_each_set_bit(k, pinned, KVCACHE_MAX_PUBLISH) {
		if (!(a->pages[k].flags & KVCACHE_PUBLISH_COPY) || copies[k])
			continue;
		rc = kvcache_get_pages(c, a->pool, 1, &copies[k]);
		if (rc)
			return rc;
	}
	return 0;
}

/*
 * Locks the pages, unmaps them and finds out who else holds them, until there
 * is a page for each copy. Returns with the pages locked, or an error and not.
 */
static int prepare(struct kvcache_client *c, const struct kvcache_publish *a,
		   const struct pages *set, unsigned long *pinned, u64 *copies)
{
	int rc;

	for (;;) {
		lock_and_unmap(c, set);
		find_pinned(a, set, pinned);
		if (!lacks_copies(a, pinned, copies))
			return 0;
		unlock(set);
		rc = get_copies(c, a, pinned, copies);
		if (rc)
			return rc;
	}
}

static void fill_copies(const struct kvcache_publish *a,
			const struct pages *set, const unsigned long *pinned,
			const u64 *copies)
{
	u32 k;

	for_each_set_bit(k, pinned, KVCACHE_MAX_PUBLISH) {
		if (!copies[k])
			continue;
		kvcache_lock();
		set_bit(kvl_index(copies[k]), set->p->dirty);
		kvcache_unlock();
		kvcache_page_copy(set->p, kvl_index(copies[k]),
				  kvl_index(a->pages[k].handle));
	}
}

/* Copies that were not published go back. */
static void drop_copies(struct kvcache_client *c,
			const struct kvcache_publish *a, const u64 *copies,
			bool published)
{
	u32 k;

	for (k = 0; k < KVCACHE_MAX_PUBLISH; k++) {
		if (!copies[k] ||
		    (published && a->pages[k].out_result == KVCACHE_COPIED))
			continue;
		kvcache_lock();
		kvl_free(kvcache.ledger, c->cmd.client, a->pool, &copies[k], 1,
			 kvcache_now());
		kvcache_unlock();
	}
}

/*
 * What became the client's since find_pages() may be mapped by now: its copies,
 * if it guesses which they are, and pages whose handles it guessed. Under the
 * lock that a fault takes, what is not mapped stays so.
 */
static int came_late(struct kvcache_client *c, const struct kvcache_publish *a,
		     const struct pages *set, const u64 *copies)
{
	u32 i, k;

	kvcache_assert_locked();
	if (!set->p || !c->cmd.client)
		return 0;
	for (k = 0; k < entries(a); k++) {
		i = kvl_index(a->pages[k].handle);
		if (!in_set(set, i) &&
		    !kvl_page_access(kvcache.ledger, c->cmd.client, a->pool, i,
				     true))
			return -ESTALE;
		if (copies[k] &&
		    kvcache_page_used(set->p, kvl_index(copies[k])))
			return -EBUSY;
	}
	return 0;
}

/* The ledger is told of the pins that only the page's count shows. */
static int decide(struct kvcache_client *c, struct kvl_cmd_frame *f,
		  const struct pages *set, const unsigned long *pinned)
{
	const struct kvcache_publish *a = &f->arg.publish;
	DECLARE_BITMAP(told, KVCACHE_MAX_PUBLISH);
	u32 k;
	int rc;

	do {
		bitmap_zero(told, KVCACHE_MAX_PUBLISH);
		kvcache_lock();
		for_each_set_bit(k, pinned, KVCACHE_MAX_PUBLISH)
			if (!kvl_pin(kvcache.ledger, c->cmd.client, a->pool,
				     a->pages[k].handle))
				__set_bit(k, told);
		rc = came_late(c, a, set, f->copies);
		if (!rc)
			rc = kvl_cmd_run(&c->cmd, f, kvcache_now());
		for_each_set_bit(k, told, KVCACHE_MAX_PUBLISH)
			kvl_unpin(kvcache.ledger, a->pool,
				  kvl_index(a->pages[k].handle),
				  kvcache_now());
		kvcache_unlock();
	} while (rc == -EAGAIN && !kvl_cmd_more(f));
	return rc == -EAGAIN ? -ENOMEM : rc;
}

int kvcache_publish(struct kvcache_client *c, struct kvl_cmd_frame *f)
{
	struct kvcache_publish *a = &f->arg.publish;
	u64 copies[KVCACHE_MAX_PUBLISH] = { };
	DECLARE_BITMAP(pinned, KVCACHE_MAX_PUBLISH);
	struct pages set;
	int idx, rc;

	idx = srcu_read_lock(&kvcache_srcu);
	kvcache_lock();
	find_pages(c, a, &set);
	kvcache_unlock();
	rc = prepare(c, a, &set, pinned, copies);
	if (!rc) {
		fill_copies(a, &set, pinned, copies);
		f->copies = copies;
		rc = decide(c, f, &set, pinned);
		f->copies = NULL;
		unlock(&set);
	}
	drop_copies(c, a, copies, !rc);
	srcu_read_unlock(&kvcache_srcu, idx);
	return rc;
}
