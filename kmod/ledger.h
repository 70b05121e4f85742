/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * ledger.h - who owns which page: the rules of kvcache, as pure state.
 *
 * The kernel module, the broker and the in-process backend all link this one
 * copy. The ledger knows page numbers, never memory: it never sleeps, looks at
 * no clock and takes no lock.
 */
#ifndef KVL_LEDGER_H
#define KVL_LEDGER_H

#include <linux/types.h>
#include <linux/list.h>
#include <linux/kvcache.h>

/* For what a caller makes us allocate: he is told of a failure, nobody else. */
#define KVL_GFP		(GFP_KERNEL_ACCOUNT | __GFP_NOWARN)

/**
 * DOC: calling the ledger
 *
 * Locking. The caller has one lock for one struct kvl and holds it around
 * every function here, except those marked "no lock", which are the only ones
 * that allocate or free memory (they may sleep) and touch no shared state.
 * An object is therefore made in two steps: kvl_tenant_alloc() without the
 * lock, kvl_tenant_create() with it; and it is freed without it again.
 *
 * Memory. References of several clients on one page, volatile pages and keys
 * need small nodes. kvl_publish(), kvl_lookup() and kvl_advise() take them from
 * the ledger's spare ones and return -EAGAIN, nothing changed, if these are too
 * few. The caller then unlocks, gets more with kvl_nodes_alloc(), locks, hands
 * them over with kvl_nodes_add() and calls again. No other call needs any.
 *
 * Time is an argument in nanoseconds of one clock. It must not go backwards;
 * a value below an earlier one counts as the earlier one.
 *
 * Return values are 0, a count, or a negative errno with the meaning that
 * linux/kvcache.h gives it. A call that fails has changed nothing (counters of
 * refusals aside). Values inside the ABI structs are checked here; their
 * size, flags and reserved members are the caller's business.
 *
 * Cost. alloc, free, publish, lookup (per key), touch and reclaim are O(1)
 * amortised per page, whatever the number of pages, tenants and clients. One
 * exception: while r tenants hold cached pages that were spared because of
 * their min or low, taking a page is O(log r).
 */

/**
 * DOC: the rules
 *
 * In a pool, for tenant T: cur is what it is charged; "takeable" are its pages
 * that may be taken back: CACHED and not pinned, or PRIVATE and volatile.
 *
 * Charge. A request of T for n pages can never be met (-E2BIG) if
 * n > min(T.max, nr_pages - sum over others of min). It is over the tenant's
 * limit (-EDQUOT) if T.cur - T.takeable + n > T.max. It lacks pages (-ENOSPC)
 * if available(T) < n, where
 *
 *	available(T) = free
 *		+ T.takeable
 *		+ sum over others i of min(takeable_i, max(0, cur_i - min_i))
 *		- sum over others i of max(0, min_i - cur_i)
 *
 * The first of these tests that fails names the error. Behind waiting requests
 * (see there) a request that would fit is refused, or waits, all the same, and
 * all its pages are missing.
 *
 * Taking back. A request that passes these tests takes, if T.cur + n > T.max,
 * T's own pages, whatever T's min and low, until T.cur + n = T.max. Then, until
 * n pages are free:
 *
 *	expired pages of any tenant, whatever its min and low
 *	pass 1: pages of tenants (T too) with cur > max(low, min)
 *	pass 2: pages of tenants (T too) with cur > min
 *	pass 3: T's own
 *
 * cur is looked at anew for every page and does not count the request. Within a
 * pass, and among T's own, the order is: expired; then ascending priority;
 * then ascending stamp.
 *
 * Stamps. A page gets a new stamp when it becomes takeable, when it is touched,
 * and when its priority or expiry changes while it is takeable. Pages of one
 * call are stamped last page first, so that the last one of a chain given root
 * to leaf is reclaimed first; after these its windowed pages
 * (KVCACHE_PUBLISH_WINDOW) first page first, so that the root is reclaimed
 * first. A chain too long for one KVCACHE_FREE is to be freed leaf part first.
 * A dead client's pages are put latest acquired first.
 *
 * Expiry. A CACHED page whose tenant has a ttl expires when it has been cached
 * for that long. Expired pages are found no more and kvl_tick() gives them up,
 * whatever min and low. A priority with a ttl (counted from publish or advise)
 * falls back to KVCACHE_PRIO_DEFAULT; pages that fall back or expire at the
 * same call keep the order of their old stamps, and count as stamped then. The
 * priority of a PRIVATE page orders it while it is volatile, and has no ttl.
 *
 * Waiting. A request over its tenant's limit waits in the tenant's own queue;
 * one that lacks pages waits in the pool's. Both are FIFO: nothing passes an
 * earlier request, except that a request with T.cur + n <= T.min has a queue
 * that goes before the pool's. What leaves a tenant's queue and lacks pages
 * joins the end of the pool's. Pages on request count as charged for the
 * limit. A request that is first in its queue and can never be met any more
 * fails with -E2BIG. A tenant may come to be over its max with all that it has
 * on request: its max was lowered, takeable pages came into use, or turned out
 * to be stuck. Then, at latest when one of its requests comes up, its last ones
 * go back to the front of its own queue until the rest is within the max: those
 * in the pool's queue while T.cur - T.takeable + on request > T.max, and those
 * whose pages are on their way while that is so without the others.
 *
 * A min raised above what is free is a debt: by available(), pages that
 * become free go to it before any other tenant's request.
 *
 * Domains. A tenant with a grant may publish into, or find pages of, another
 * tenant. Its own pages are found before those of granting tenants, which are
 * searched in the order of their grants. Of several pages with one key the one
 * published last is found.
 *
 * Two phases. When a page of a pool without KVL_POOL_DIRECT leaves its owner it
 * is RETIRING, still charged, and queued as work: the owner of the memory
 * unmaps and zeroes it and calls kvl_work_done(), which makes it FREE. In all
 * rules above such a page on its way counts as FREE already, and pages that it
 * was promised to as charged; what is reported follows when it is FREE. In a
 * pool with KVL_POOL_DIRECT it is FREE at once, and what it held is cleared
 * when it is handed out.
 *
 * Free pages are handed out last freed first; of one call, first page first. A
 * new pool hands out pages by ascending index.
 */

struct kvl;
struct kvl_pool;
struct kvl_tenant;
struct kvl_client;
struct kvl_nodes;

#define KVL_MAX_GRANTS	16	/* tenants that let one tenant in */
#define KVL_MAX_PAGES	(1U << 28)	/* of one pool */
#define KVL_SLICE	4096	/* pages that one hold of the lock is for */

/* A page handle's parts. */
static inline u32 kvl_index(u64 handle)
{
	return (u32)handle;
}

static inline u32 kvl_generation(u64 handle)
{
	return handle >> 32;
}

/* ---- the ledger --------------------------------------------------------- */

/**
 * struct kvl_config - sizes of a ledger
 * @max_tenants: highest tenant number, 1 to 65535
 * @max_clients: highest client number
 * @nr_events: events kept for each tenant, a power of two
 * @seed: random bits for the hash tables, kept secret
 * @tenant_clients: clients of one tenant at most; 0: no bound but @max_clients
 * @slice: pages that one call changes at most, where it says so; 0: KVL_SLICE
 */
struct kvl_config {
	u32 max_tenants;
	u32 max_clients;
	u32 nr_events;
	u64 seed;
	u32 tenant_clients;
	u32 slice;
};

/* No lock. NULL without memory or with a bad @cfg. */
struct kvl *kvl_create(const struct kvl_config *cfg);
/* No lock. Frees everything, pools, tenants and clients included. */
void kvl_destroy(struct kvl *l);

/* The sequence number: grows with every change. */
u64 kvl_seq(const struct kvl *l);

/* No lock. At least @nr nodes, or NULL. */
struct kvl_nodes *kvl_nodes_alloc(u32 nr);
/* No lock. Nodes that were not handed over. */
void kvl_nodes_free(struct kvl_nodes *nodes);
/*
 * Hands nodes over; the ledger keeps them until kvl_destroy(), or until a pool
 * is removed and no other one has any in use.
 */
void kvl_nodes_add(struct kvl *l, struct kvl_nodes *nodes);

/**
 * kvl_tick() - what time alone brings about
 * @l: the ledger
 * @now: time
 * @budget: pages to give up or revoke at most
 *
 * Gives up expired pages, goes on with what kvl_tenant_fit() does, and revokes
 * pages of tenants above a max whose deadline has passed (PRIVATE and SHARED,
 * highest index first). Return: their number; @budget means that there may be
 * more.
 */
u32 kvl_tick(struct kvl *l, u64 now, u32 budget);

/*
 * Whether pages were revoked since it was asked last: what maps them is to be
 * unmapped.
 */
bool kvl_revoked(struct kvl *l);

/* When kvl_tick() has something to do at the earliest; may be too early. */
u64 kvl_next_tick(const struct kvl *l);

/**
 * kvl_verify() - check every invariant
 * @l: the ledger
 * @why: what is wrong, or NULL
 * @len: bytes in @why
 *
 * O(everything). Return: 0 or -EUCLEAN.
 */
int kvl_verify(const struct kvl *l, char *why, size_t len);

/* What is done in slices says so, until it returns something else. */
#define KVL_MORE	1	/* it did a slice: call again */
#define KVL_WORK	2	/* pages are on their way: finish the work first */

/* ---- pools -------------------------------------------------------------- */

#define KVL_POOL_DIRECT	(1U << 0)	/* no work: cleared when handed out */

/**
 * struct kvl_pool_config - a new pool
 * @name: 1 to 63 of ``[A-Za-z0-9._-]``, not beginning with a dot
 * @kind: KVCACHE_POOL_HOST or _DEVICE
 * @flags: KVL_POOL_*
 * @page_size: bytes; only reported
 * @nr_pages: pages it has
 * @capacity: pages it can ever have (memory for their records is taken now);
 *            0 for @nr_pages
 */
struct kvl_pool_config {
	const char *name;
	u32 kind;
	u32 flags;
	u64 page_size;
	u32 nr_pages;
	u32 capacity;
};

/* No lock. -EINVAL, -ENOMEM. */
int kvl_pool_alloc(const struct kvl *l, const struct kvl_pool_config *cfg,
		   struct kvl_pool **out);
/* No lock. A pool that was never added, or was removed. */
void kvl_pool_free(struct kvl_pool *p);
/* The pool's number; -EEXIST the name, -ENOSPC too many. */
int kvl_pool_add(struct kvl *l, struct kvl_pool *p);
/* Takes it out, to be freed. -EBUSY pages not FREE; -ENOENT. */
int kvl_pool_remove(struct kvl *l, u32 pool, struct kvl_pool **out);

/**
 * kvl_pool_resize() - grow or shrink
 * @l: the ledger
 * @pool: the pool
 * @nr_pages: wanted
 * @out: pages it has now
 * @now: time
 *
 * Shrinking takes FREE pages off the end and gives up takeable ones there,
 * down to the last page in use. Return: 0; KVL_MORE; KVL_WORK; -EBUSY shrunk as
 * far as it could; -E2BIG above its capacity; -EINVAL less pages, without those
 * lost, than the sum of all min, or 0; -ENOENT.
 */
int kvl_pool_resize(struct kvl *l, u32 pool, u64 nr_pages, u64 *out, u64 now);

/*
 * Pages it has, 0 if there is none. No lock, where pools are made, resized and
 * removed one at a time, and this is one of those times.
 */
u64 kvl_pool_pages(const struct kvl *l, u32 pool);

/* Hand out nothing, cache nothing, find nothing; waiters get -ESHUTDOWN. */
int kvl_pool_drain(struct kvl *l, u32 pool, u64 now);
int kvl_pool_resume(struct kvl *l, u32 pool);
/* Give up to @budget takeable pages up, whosever; how many were. */
int kvl_pool_trim(struct kvl *l, u32 pool, u32 budget, u64 now);

/* All but the offsets, which are the caller's. -ENOENT. */
int kvl_pool_info(const struct kvl *l, u32 pool, struct kvcache_pool_info *out);
/* The same of what KVCACHE_POOL_GET tells: writes the out_ members. -ENOENT. */
int kvl_pool_stat(const struct kvl *l, u32 pool, struct kvcache_pool_get *out);

/* ---- tenants ------------------------------------------------------------ */

/* No lock. NULL without memory. */
struct kvl_tenant *kvl_tenant_alloc(const struct kvl *l);
/* No lock. One that was never created, or was removed. */
void kvl_tenant_free(struct kvl_tenant *t);

/**
 * kvl_tenant_create() - add a tenant
 * @l: the ledger
 * @t: from kvl_tenant_alloc(); the ledger's on success
 * @arg: as KVCACHE_TENANT_CREATE; out_tenant and out_revision are written
 * @now: time
 *
 * Return: 0; -EINVAL the name or a value; -EEXIST the name; -ENOSPC too many,
 * or min; -ENOENT the pool.
 */
int kvl_tenant_create(struct kvl *l, struct kvl_tenant *t,
		      struct kvcache_tenant_set *arg, u64 now);

/**
 * kvl_tenant_set() - change a tenant
 * @l: the ledger
 * @arg: as KVCACHE_TENANT_SET; out_tenant and out_revision are written
 * @now: time
 *
 * A max below cur takes back a slice of the tenant's takeable pages at once,
 * and kvl_tenant_fit() or kvl_tick() the others. As soon as it is known that
 * cur will still be above (at once, or because pages came into use meanwhile),
 * the tenant gets a KVCACHE_EV_SHRINK; pages that lose their last reference
 * become FREE instead of CACHED, and kvl_tick() revokes after the deadline. One
 * of KVCACHE_TIME_NEVER leaves that of a max that stays the same. A new ttl
 * counts for pages cached from then on. The same change with the same revision
 * again is 0.
 * Return: as above; -ESTALE, -EEXIST by revision.
 */
int kvl_tenant_set(struct kvl *l, struct kvcache_tenant_set *arg, u64 now);

/*
 * Takes back up to @budget takeable pages of a tenant that is above its max. To
 * be called after kvl_tenant_set() until it returns less than @budget: how many
 * were. Meanwhile the tenant gets no page. Who does not end it leaves the rest
 * to kvl_tick().
 */
int kvl_tenant_fit(struct kvl *l, u32 tenant, u32 pool, u32 budget, u64 now);

/**
 * kvl_tenant_flush() - give up cached pages, forget all keys
 * @l: the ledger
 * @tenant: the tenant
 * @pool: the pool, or ~0 for all
 * @budget: pages to give up at most
 * @now: time
 *
 * Return: CACHED pages given up; @budget means that there may be more, for
 * kvl_tenant_trim(); -ENOENT.
 */
int kvl_tenant_flush(struct kvl *l, u32 tenant, u32 pool, u32 budget, u64 now);
/* Give up to @budget CACHED pages up; how many were. Keys of others stay. */
int kvl_tenant_trim(struct kvl *l, u32 tenant, u32 pool, u32 budget, u64 now);

/**
 * kvl_tenant_remove() - take a tenant out
 * @l: the ledger
 * @tenant: the tenant
 * @out: it, to be freed, on 0
 * @pages: cached pages that this call gave up, or NULL
 * @now: time
 *
 * Return: 0; KVL_MORE; KVL_WORK; -EBUSY clients, or pages in use (RETIRING ones
 * that are stuck too); -ENOENT.
 */
int kvl_tenant_remove(struct kvl *l, u32 tenant, struct kvl_tenant **out,
		      u64 *pages, u64 now);

/*
 * As KVCACHE_TENANT_GRANT. A grant that is taken back counts until no page is
 * held through it.
 */
int kvl_tenant_grant(struct kvl *l, const struct kvcache_tenant_grant *arg);
/*
 * The first grant from @start on (to << 16 | from), of those that @tenant gave
 * or got (0: of all). -ENOENT none.
 */
int kvl_grant_info(const struct kvl *l, u32 tenant, u32 start,
		   struct kvcache_grant_info *out);

/* Number of a tenant, or -ENOENT; with a uid or cgroup, the lowest. */
int kvl_tenant_by_name(const struct kvl *l, const char *name);
int kvl_tenant_by_uid(const struct kvl *l, u32 uid);
int kvl_tenant_by_cgroup(const struct kvl *l, u64 cgroup);
/* May it attach: 0, -EPERM, -ENOENT. @groups has @nr further groups. */
int kvl_tenant_may_attach(const struct kvl *l, u32 tenant, u32 uid, u32 gid,
			  const u32 *groups, u32 nr);
/* The first tenant numbered @start or above; -ENOENT none, or no such pool. */
int kvl_tenant_info(const struct kvl *l, u32 pool, u32 start,
		    struct kvcache_tenant_info *out);

/* ---- clients ------------------------------------------------------------ */

/* No lock. NULL without memory. */
struct kvl_client *kvl_client_alloc(const struct kvl *l);
/* No lock. One that never attached, or was detached. */
void kvl_client_free(struct kvl_client *c);
/* -ENOENT no such tenant, -EDQUOT too many of it, -ENOSPC of all. */
int kvl_client_attach(struct kvl *l, struct kvl_client *c, u32 tenant);
u32 kvl_client_id(const struct kvl_client *c);
/* Whatever the caller wants to find again by the client's number. */
void kvl_client_set_owner(struct kvl_client *c, void *owner);
void *kvl_client_owner(const struct kvl *l, u32 id);
u32 kvl_client_tenant(const struct kvl_client *c);

/* Death: its requests fail, and its calls, with -EOWNERDEAD. */
void kvl_client_kill(struct kvl *l, struct kvl_client *c);
/*
 * Puts up to @budget pages of a dead client. Their number: less than @budget
 * means that these were all.
 */
u32 kvl_client_reap(struct kvl *l, struct kvl_client *c, u32 budget, u64 now);
/* Takes out a dead client that holds nothing. -EBUSY. */
int kvl_client_detach(struct kvl *l, struct kvl_client *c);

/*
 * The first client numbered @start or above, of @tenant (0: any); pid and comm
 * are the caller's. -ENOENT none, or no such pool.
 */
int kvl_client_info(const struct kvl *l, u32 pool, u32 tenant, u32 start,
		    struct kvcache_client_info *out);

/* ---- pages -------------------------------------------------------------- */

/* kvl_request.status while it waits. */
#define KVL_WAITING	1

/**
 * struct kvl_request - one KVCACHE_ALLOC
 * @link: in a queue, or in the list of finished ones
 * @peers: among the requests of its client
 * @client: who asked
 * @pages: room for @nr handles, written when it is granted
 * @pool: the pool
 * @nr: pages
 * @missing: on -EDQUOT, -ENOSPC and -E2BIG: pages short
 * @status: KVL_WAITING; 0 granted; or -errno
 * @since: the ledger's
 * @queue: the ledger's
 * @backed: the ledger's
 * @nowait: the ledger's
 *
 * The caller's memory; it stays where it is as long as @status is KVL_WAITING
 * and until kvl_next_done() has returned it.
 */
struct kvl_request {
	struct list_head link;
	struct list_head peers;
	struct kvl_client *client;
	u64 *pages;
	u32 pool;
	u32 nr;
	u64 missing;
	u64 since;
	int status;
	u8 queue;
	u8 backed;
	u8 nowait;
};

/**
 * kvl_alloc() - get pages
 * @l: the ledger
 * @c: the client
 * @r: the request: @pool, @nr and @pages are set by the caller
 * @wait: join a queue if it cannot be met at once
 * @now: time
 *
 * Return, also in @r->status: 0 granted; KVL_WAITING in a queue. Without @wait
 * that happens only in a pool that has work: its pages are on their way, finish
 * the work and see; it fails with -ENOSPC if pages got stuck and no others can
 * be had. Else -EDQUOT, -ENOSPC, -E2BIG, -EINVAL, -ENOENT,
 * -ESHUTDOWN, -EOWNERDEAD.
 */
int kvl_alloc(struct kvl *l, struct kvl_client *c, struct kvl_request *r,
	      bool wait, u64 now);
/* Stop waiting. 0: was granted before; @err (-ETIMEDOUT, -EINTR) otherwise. */
int kvl_cancel(struct kvl *l, struct kvl_request *r, int err, u64 now);
/* A request that stopped waiting in some other call, so wake it; or NULL. */
struct kvl_request *kvl_next_done(struct kvl *l);

/**
 * struct kvl_check - what a request would meet
 * @status: 0, or the errno that kvl_alloc() would return without @wait
 * @missing: pages short, 0 with @status 0
 * @available: pages that could be had now in one or more requests
 * @limit: pages that the tenant could ever have here
 * @held: pages charged to the tenant
 */
struct kvl_check {
	int status;
	u64 missing;
	u64 available;
	u64 limit;
	u64 held;
};

/* The test that kvl_alloc() makes, and nothing else. -ENOENT no such pool. */
int kvl_alloc_check(const struct kvl *l, const struct kvl_client *c, u32 pool,
		    u64 nr, struct kvl_check *out);

/* As KVCACHE_FREE. */
int kvl_free(struct kvl *l, struct kvl_client *c, u32 pool, const u64 *pages,
	     u32 nr, u64 now);

/**
 * kvl_publish() - as KVCACHE_PUBLISH
 * @l: the ledger
 * @c: the client
 * @arg: the command; out_handle and out_result of its pages are written
 * @copies: NULL, or @arg->nr handles: where not 0, a PRIVATE page of the client
 *          that holds the same and is published (KVCACHE_COPIED) if the page
 *          is pinned and has KVCACHE_PUBLISH_COPY; if not used it stays
 * @now: time
 */
int kvl_publish(struct kvl *l, struct kvl_client *c,
		struct kvcache_publish *arg, const u64 *copies, u64 now);

/* As KVCACHE_LOOKUP. */
int kvl_lookup(struct kvl *l, struct kvl_client *c, struct kvcache_lookup *arg,
	       u64 now);

/* As KVCACHE_ADVISE. */
int kvl_advise(struct kvl *l, struct kvl_client *c, struct kvcache_advise *arg,
	       u64 now);

/* May @c read, or write, page number @index: 0, or -EPERM. */
int kvl_page_access(const struct kvl *l, const struct kvl_client *c, u32 pool,
		    u32 index, bool write);

/**
 * kvl_pin() - memory of a page is in use outside the ledger's sight
 * @l: the ledger
 * @c: a client that holds it
 * @pool: the pool
 * @handle: the page
 *
 * An export, a device page's user. Pins are counted. A pinned page cannot be
 * published or made volatile, is not taken, and when it leaves its owner stays
 * RETIRING until it is unpinned. Return: 0, -ESTALE, -EPERM, -EBUSY volatile, or
 * pinned 2^31 times.
 */
int kvl_pin(struct kvl *l, const struct kvl_client *c, u32 pool, u64 handle);
void kvl_unpin(struct kvl *l, u32 pool, u32 index, u64 now);

/*
 * The first page in use numbered @start or above, of @tenant (0: any).
 * -ENOENT none, or no such pool.
 */
int kvl_page_info(const struct kvl *l, u32 pool, u32 tenant, u32 start, u64 now,
		  struct kvcache_page_info *out);
/* The same, looking at none numbered above @last. */
int kvl_page_search(const struct kvl *l, u32 pool, u32 tenant, u32 start,
		    u32 last, u64 now, struct kvcache_page_info *out);

/* ---- work of the memory's owner ----------------------------------------- */

/* The next page to unmap and zero; 0 if there is none: page 0 never is. */
u32 kvl_work_next(struct kvl *l, u32 pool);
/*
 * @clean: it is unmapped, unpinned and zeroed, now FREE. Otherwise it is stuck
 * in RETIRING until it is called again with @clean. -EINVAL not RETIRING.
 */
int kvl_work_done(struct kvl *l, u32 pool, u32 index, bool clean, u64 now);

/*
 * The memory of a page is broken. It is taken from those who hold it, who are
 * told (KVCACHE_EV_REVOKED), and becomes work. Once it was found stuck, call
 * again: it leaves the pool, RETIRING for good, not charged and not missed when
 * the pool is removed.
 */
int kvl_page_lost(struct kvl *l, u32 pool, u32 index, u64 now);

/* ---- events ------------------------------------------------------------- */

/*
 * Up to @nr events of the client's tenant since the last call; the first call
 * (with @nr 0, too) opens its queue. Return: their number.
 */
u32 kvl_events(struct kvl *l, struct kvl_client *c, struct kvcache_event *ev,
	       u32 nr);
/* These did not reach it: the next kvl_events() returns them again. */
void kvl_events_return(struct kvl_client *c, const struct kvcache_event *ev,
		       u32 nr);
/* Grows with every event that some client has yet to read. */
u64 kvl_posted(const struct kvl *l);
/* Whether kvl_events() would return any. */
bool kvl_events_pending(const struct kvl *l, const struct kvl_client *c);

#endif /* KVL_LEDGER_H */
