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
 * struct publication - one KVCACHE_PUBLISH under way
 * @c: who publishes
 * @a: the command
 * @p: the pool, or NULL
 * @nr: pages of the caller's in it
 * @i: which, ascending
 * @held: entries whose page has a pin of ours, so that it stays the caller's
 *        or nobody's, whoever frees it
 * @exported: of these, pages that had others before
 * @busy: of these, pages that something else than the page tables may write to
 * @copies: per entry, a page of the caller's with a pin of ours for what is in
 *          a busy one; or 0
 * @decided: pins of ours are left on busy pages only
 */
struct publication {
	struct kvcache_client *c;
	const struct kvcache_publish *a;
	struct kvcache_pool *p;
	u32 nr;
	u32 i[KVCACHE_MAX_PUBLISH];
	DECLARE_BITMAP(held, KVCACHE_MAX_PUBLISH);
	DECLARE_BITMAP(exported, KVCACHE_MAX_PUBLISH);
	DECLARE_BITMAP(busy, KVCACHE_MAX_PUBLISH);
	u64 copies[KVCACHE_MAX_PUBLISH];
	bool decided;
};

/* Entries of the command that are in use; it is the ledger that complains. */
static u32 entries(const struct publication *x)
{
	return min_t(u32, x->a->nr, KVCACHE_MAX_PUBLISH);
}

static u32 source(const struct publication *x, u32 k)
{
	return kvl_index(x->a->pages[k].handle);
}

static int pin(const struct publication *x, u64 handle)
{
	return kvl_pin(kvcache.ledger, x->c->cmd.client, x->a->pool, handle);
}

static void unpin(const struct publication *x, u64 handle)
{
	kvl_unpin(kvcache.ledger, x->a->pool, kvl_index(handle), kvcache_now());
}

static bool may_write(const struct publication *x, u32 k)
{
	return x->c->cmd.client &&
	       !kvl_page_access(kvcache.ledger, x->c->cmd.client, x->a->pool,
				source(x, k), true);
}

/* An owned page, so the search ends with it. */
static bool is_exported(const struct publication *x, u32 k)
{
	struct kvcache_page_info info;

	return !kvl_page_info(kvcache.ledger, x->a->pool, 0, source(x, k),
			      kvcache_now(), &info) &&
	       (info.flags & KVCACHE_PAGE_PINNED);
}

static int by_number(const void *a, const void *b)
{
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return x < y ? -1 : x > y;
}

/* Those which it may write: others are not touched, and refused later. */
static void hold_pages(struct publication *x)
{
	u32 k, nr = 0;

	kvcache_assert_locked();
	if (x->a->pool >= KVCACHE_MAX_POOLS || kvcache_client_check(x->c))
		return;
	x->p = kvcache.pools[array_index_nospec(x->a->pool,
						KVCACHE_MAX_POOLS)];
	for (k = 0; x->p && k < entries(x); k++)
		if (may_write(x, k) && is_exported(x, k))
			__set_bit(k, x->exported);
	for (k = 0; x->p && k < entries(x); k++) {
		if (!may_write(x, k) || pin(x, x->a->pages[k].handle))
			continue;
		__set_bit(k, x->held);
		x->i[nr++] = array_index_nospec(source(x, k),
						x->p->nr_pages + 1);
	}
	sort(x->i, nr, sizeof(x->i[0]), by_number, NULL);
	for (k = 0; k < nr; k++)
		if (!k || x->i[k] != x->i[k - 1])
			x->i[x->nr++] = x->i[k];
}

static void lock_and_unmap(const struct publication *x)
{
	u32 k;

	for (k = 0; k < x->nr; k++) {
		kvcache_page_lock(x->p, x->i[k]);
		kvcache_zap(x->c, x->p, x->i[k], 1, true);
	}
}

static void unlock(const struct publication *x)
{
	u32 k;

	for (k = 0; k < x->nr; k++)
		kvcache_page_unlock(x->p, x->i[k]);
}

/* The ledger knows of exports, the page's count of all else. */
static void find_busy(struct publication *x)
{
	u32 k;

	for_each_set_bit(k, x->held, KVCACHE_MAX_PUBLISH)
		__assign_bit(k, x->busy, test_bit(k, x->exported) ||
			     kvcache_page_pinned(x->p, source(x, k)));
}

static bool wants_copy(const struct publication *x, u32 k)
{
	return x->a->pages[k].flags & KVCACHE_PUBLISH_COPY;
}

static bool lacks_copies(const struct publication *x)
{
	u32 k;

	for_each_set_bit(k, x->busy, KVCACHE_MAX_PUBLISH)
		if (wants_copy(x, k) && !x->copies[k])
			return true;
	return false;
}

/*
 * Pages for the copies. No folio may be locked: what has to be cleaned first
 * may be a page of this command that another thread has freed.
 */
static int get_copies(struct publication *x)
{
	u64 page;
	u32 k;
	int rc;

	for_each_set_bit(k, x->busy, KVCACHE_MAX_PUBLISH) {
		if (!wants_copy(x, k) || x->copies[k])
			continue;
		rc = kvcache_get_pages(x->c, x->a->pool, 1, &page);
		if (rc)
			return rc;
		kvcache_lock();
		rc = pin(x, page);
		kvcache_unlock();
		/* Another thread has guessed its handle, and freed it. */
		if (rc)
			return rc;
		x->copies[k] = page;
	}
	return 0;
}

/*
 * Locks the pages, unmaps them and finds out who else holds them, until there
 * is a page for each copy. Returns with the pages locked, or an error and not.
 */
static int prepare(struct publication *x)
{
	int rc;

	for (;;) {
		lock_and_unmap(x);
		find_busy(x);
		if (!lacks_copies(x))
			return 0;
		unlock(x);
		rc = get_copies(x);
		if (rc)
			return rc;
	}
}

static void fill_copies(const struct publication *x)
{
	u32 k;

	for_each_set_bit(k, x->busy, KVCACHE_MAX_PUBLISH) {
		if (!x->copies[k])
			continue;
		kvcache_lock();
		set_bit(kvl_index(x->copies[k]), x->p->dirty);
		kvcache_unlock();
		kvcache_page_copy(x->p, kvl_index(x->copies[k]), source(x, k));
	}
}

/*
 * The open may be another process's since hold_pages(), which held nothing
 * then. What became the client's since may be mapped by now, and so may its
 * copies, if it guesses which they are. Under the lock that a fault takes, what
 * is not mapped stays so.
 */
static int came_late(const struct publication *x)
{
	int err = kvcache_client_check(x->c);
	u32 k;

	kvcache_assert_locked();
	for (k = 0; !err && k < entries(x); k++) {
		if (!test_bit(k, x->held) && may_write(x, k))
			return -ESTALE;
		if (x->copies[k] &&
		    kvcache_page_used(x->p, kvl_index(x->copies[k])))
			return -EBUSY;
	}
	return err;
}

/*
 * Pins that are ours alone must not be in the ledger's way. Those of busy pages
 * stay: they stand for what only the pages' count shows.
 */
static void drop_pins(const struct publication *x)
{
	u32 k;

	kvcache_assert_locked();
	for (k = 0; k < entries(x); k++) {
		if (test_bit(k, x->held) && !test_bit(k, x->busy))
			unpin(x, x->a->pages[k].handle);
		if (x->copies[k])
			unpin(x, x->copies[k]);
	}
}

/* Nothing has changed since they were dropped, so they are to be had. */
static void take_pins(const struct publication *x)
{
	u32 k;

	kvcache_assert_locked();
	for (k = 0; k < entries(x); k++) {
		if (test_bit(k, x->held) && !test_bit(k, x->busy))
			WARN_ON_ONCE(pin(x, x->a->pages[k].handle));
		if (x->copies[k])
			WARN_ON_ONCE(pin(x, x->copies[k]));
	}
}

/* The ledger decides. */
static int decide(struct publication *x, struct kvl_cmd_frame *f)
{
	int rc;

	for (;;) {
		kvcache_lock();
		drop_pins(x);
		rc = came_late(x);
		if (!rc)
			rc = kvcache_run_locked(x->c, f);
		if (rc == -EAGAIN)
			take_pins(x);
		else
			x->decided = true;
		kvcache_unlock();
		if (rc != -EAGAIN)
			return rc;
		rc = kvl_cmd_more(f);
		if (rc)
			return rc;
	}
}

/* Pins that are left, and copies that were not published, go back. */
static void let_go(struct publication *x, bool published)
{
	u32 k;

	kvcache_lock();
	if (!x->decided)
		drop_pins(x);
	for_each_set_bit(k, x->busy, KVCACHE_MAX_PUBLISH)
		unpin(x, x->a->pages[k].handle);
	for (k = 0; k < KVCACHE_MAX_PUBLISH; k++)
		if (x->copies[k] && !(published && x->a->pages[k].out_result ==
				      KVCACHE_COPIED))
			kvl_free(kvcache.ledger, x->c->cmd.client, x->a->pool,
				 &x->copies[k], 1, kvcache_now());
	kvcache_unlock();
}

int kvcache_publish(struct kvcache_client *c, struct kvl_cmd_frame *f)
{
	struct publication x = { .c = c, .a = &f->arg.publish };
	int idx, rc;

	idx = srcu_read_lock(&kvcache_srcu);
	kvcache_lock();
	hold_pages(&x);
	kvcache_unlock();
	rc = prepare(&x);
	if (!rc) {
		fill_copies(&x);
		f->copies = x.copies;
		rc = decide(&x, f);
		f->copies = NULL;
		unlock(&x);
	}
	let_go(&x, !rc);
	srcu_read_unlock(&kvcache_srcu, idx);
	return rc;
}
