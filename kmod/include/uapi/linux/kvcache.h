/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR MIT */
/*
 * kvcache: key/value cache pages of language models as a system resource.
 *
 * This header is the whole contract between programs and whatever keeps the
 * pages: the kernel module, the broker, or the in-process backend.
 */
#ifndef _UAPI_LINUX_KVCACHE_H
#define _UAPI_LINUX_KVCACHE_H

#include <linux/types.h>
#include <linux/ioctl.h>

/**
 * DOC: rules of this ABI
 *
 * - The first member of every command struct is @size, the size that the
 *   caller knows. A shorter struct is extended with zeros; a longer one is
 *   accepted if everything past what this implementation knows is zero.
 *   Structs grow only at their tail, so the command numbers carry no size
 *   (iommufd does the same, and for the same reason).
 * - There are no pointers, and no implicit padding. Arrays are inline and
 *   bounded. Every member is naturally aligned, so 32-bit and 64-bit programs,
 *   sockets and garbage-collected languages use the same bytes.
 * - Members named ``out_`` are written by the implementation, and read as
 *   zero on entry: a caller need not clear them. Everything else is input and
 *   is returned as it was given.
 * - Members named ``__reserved`` and undefined flag bits must be zero.
 * - A command that fails has changed nothing, unless its description says so.
 *   Commands over several pages are all-or-nothing.
 * - New commands and new members at a tail leave KVCACHE_ABI_VERSION as it is:
 *   who does not know the command says ENOTTY.
 *
 * Errors, for every command:
 *
 * ==========  ===============================================================
 * ENOTTY      no such command
 * E2BIG       non-zero bytes past the struct that this implementation knows;
 *             or a request that could never be met (KVCACHE_ALLOC)
 * EINVAL      understood, but wrong: a bad size, count, range or combination
 * EOPNOTSUPP  an undefined flag bit, or a non-zero reserved member
 * EFAULT      the struct is not readable or not writable
 * ENOTCONN    not attached yet, or the broker went away
 * EOWNERDEAD  the process that attached this open has ended
 * EPERM       not the owner, or not permitted
 * ENOENT      no such pool, tenant or key
 * ESTALE      a handle or revision of an older generation
 * EINTR       interrupted by a signal before any effect
 * ==========  ===============================================================
 *
 * A page handle is ``generation << 32 | index``. A page changes its generation
 * when it leaves its owner, so an old handle is ESTALE and never somebody
 * else's page. 0 is no generation, so 0 is no handle. Generations of a pool's
 * pages begin above those of the last pool that had the same number.
 */

#define KVCACHE_ABI_VERSION	1

#define KVCACHE_IOC_TYPE	0xBD

/* Bounds of this ABI. */
#define KVCACHE_NAME_LEN	64	/* with the terminating NUL */
#define KVCACHE_KEY_LEN		32
#define KVCACHE_MAX_POOLS	16
#define KVCACHE_MAX_PAGES	256	/* handles in one command */
#define KVCACHE_MAX_PUBLISH	16	/* pages in one KVCACHE_PUBLISH */
#define KVCACHE_MAX_PAGE_KEYS	16	/* keys of one page */
#define KVCACHE_MAX_KEYS	256	/* keys in one KVCACHE_LOOKUP */
#define KVCACHE_PAGE_SIZE_MIN	(64ULL << 10)
#define KVCACHE_PAGE_SIZE_MAX	(64ULL << 20)

#define KVCACHE_LIMIT_MAX	(~0ULL)	/* "max": no limit */
#define KVCACHE_TIME_NEVER	(~0ULL)	/* no deadline */

#define KVCACHE_PRIO_MIN	0
#define KVCACHE_PRIO_DEFAULT	35
#define KVCACHE_PRIO_MAX	100

/* Command numbers. A number never changes its meaning. */
#define KVCACHE_NR_QUERY		0x00
#define KVCACHE_NR_ATTACH		0x01
#define KVCACHE_NR_ALLOC		0x10
#define KVCACHE_NR_FREE			0x11
#define KVCACHE_NR_PUBLISH		0x12
#define KVCACHE_NR_LOOKUP		0x13
#define KVCACHE_NR_ADVISE		0x14
#define KVCACHE_NR_EXPORT		0x15
#define KVCACHE_NR_PROVIDE		0x16
#define KVCACHE_NR_TAKE			0x17
#define KVCACHE_NR_RETIRE		0x18
#define KVCACHE_NR_TENANT_CREATE	0x20
#define KVCACHE_NR_TENANT_SET		0x21
#define KVCACHE_NR_TENANT_REMOVE	0x22
#define KVCACHE_NR_TENANT_FLUSH		0x23
#define KVCACHE_NR_TENANT_GRANT		0x24
#define KVCACHE_NR_TENANT_GET		0x28
#define KVCACHE_NR_CLIENT_GET		0x29
#define KVCACHE_NR_PAGE_GET		0x2a
#define KVCACHE_NR_GRANT_GET		0x2b
#define KVCACHE_NR_POOL_SET		0x30
#define KVCACHE_NR_POOL_GET		0x31

#define KVCACHE_IO(nr)		_IO(KVCACHE_IOC_TYPE, nr)
#define KVCACHE_QUERY		KVCACHE_IO(KVCACHE_NR_QUERY)
#define KVCACHE_ATTACH		KVCACHE_IO(KVCACHE_NR_ATTACH)
#define KVCACHE_ALLOC		KVCACHE_IO(KVCACHE_NR_ALLOC)
#define KVCACHE_FREE		KVCACHE_IO(KVCACHE_NR_FREE)
#define KVCACHE_PUBLISH		KVCACHE_IO(KVCACHE_NR_PUBLISH)
#define KVCACHE_LOOKUP		KVCACHE_IO(KVCACHE_NR_LOOKUP)
#define KVCACHE_ADVISE		KVCACHE_IO(KVCACHE_NR_ADVISE)
#define KVCACHE_EXPORT		KVCACHE_IO(KVCACHE_NR_EXPORT)
#define KVCACHE_PROVIDE		KVCACHE_IO(KVCACHE_NR_PROVIDE)
#define KVCACHE_TAKE		KVCACHE_IO(KVCACHE_NR_TAKE)
#define KVCACHE_RETIRE		KVCACHE_IO(KVCACHE_NR_RETIRE)
#define KVCACHE_TENANT_CREATE	KVCACHE_IO(KVCACHE_NR_TENANT_CREATE)
#define KVCACHE_TENANT_SET	KVCACHE_IO(KVCACHE_NR_TENANT_SET)
#define KVCACHE_TENANT_REMOVE	KVCACHE_IO(KVCACHE_NR_TENANT_REMOVE)
#define KVCACHE_TENANT_FLUSH	KVCACHE_IO(KVCACHE_NR_TENANT_FLUSH)
#define KVCACHE_TENANT_GRANT	KVCACHE_IO(KVCACHE_NR_TENANT_GRANT)
#define KVCACHE_TENANT_GET	KVCACHE_IO(KVCACHE_NR_TENANT_GET)
#define KVCACHE_CLIENT_GET	KVCACHE_IO(KVCACHE_NR_CLIENT_GET)
#define KVCACHE_PAGE_GET	KVCACHE_IO(KVCACHE_NR_PAGE_GET)
#define KVCACHE_GRANT_GET	KVCACHE_IO(KVCACHE_NR_GRANT_GET)
#define KVCACHE_POOL_SET	KVCACHE_IO(KVCACHE_NR_POOL_SET)
#define KVCACHE_POOL_GET	KVCACHE_IO(KVCACHE_NR_POOL_GET)

/* Kinds of pool. */
#define KVCACHE_POOL_HOST	0	/* host memory, mappable */
#define KVCACHE_POOL_DEVICE	1	/* device memory, handles held as files */

/* Page states. */
#define KVCACHE_PAGE_FREE	0
#define KVCACHE_PAGE_PRIVATE	1	/* one client's, writable */
#define KVCACHE_PAGE_SHARED	2	/* immutable, at least one client */
#define KVCACHE_PAGE_CACHED	3	/* immutable, no client, reclaimable */
#define KVCACHE_PAGE_RETIRING	4	/* nobody's, charged unless lost */
#define KVCACHE_PAGE_NULL	5	/* page 0: reads as zeros */

/* Features (kvcache_query.out_features). */
#define KVCACHE_FEAT_MMAP	(1ULL << 0)	/* pages are mapped from the device */
#define KVCACHE_FEAT_FDS	(1ULL << 1)	/* pages arrive as descriptors */
#define KVCACHE_FEAT_LOCAL	(1ULL << 2)	/* pages belong to this process */
#define KVCACHE_FEAT_ENFORCED	(1ULL << 3)	/* the page tables enforce ownership */
#define KVCACHE_FEAT_EXPORT	(1ULL << 4)	/* KVCACHE_EXPORT works */
#define KVCACHE_FEAT_DEVICE	(1ULL << 5)	/* device pools can exist */
#define KVCACHE_FEAT_EVENTS	(1ULL << 6)	/* events can be read */

/**
 * struct kvcache_pool_info - one pool, in a KVCACHE_QUERY reply
 * @id: number of the pool, the @pool of every page command
 * @kind: KVCACHE_POOL_HOST or KVCACHE_POOL_DEVICE
 * @page_size: bytes in a page, a power of two
 * @nr_pages: pages that can be owned; the null page is not among them
 * @nr_free: pages nobody owns
 * @nr_private: pages in state KVCACHE_PAGE_PRIVATE
 * @nr_shared: pages in state KVCACHE_PAGE_SHARED
 * @nr_cached: pages in state KVCACHE_PAGE_CACHED
 * @nr_retiring: pages in state KVCACHE_PAGE_RETIRING
 * @waiters: requests that wait for pages
 * @rw_offset: mmap offset of the writable window
 * @ro_offset: mmap offset of the read-only window
 * @allocs: pages handed out since the pool was made
 * @reclaims: cached pages taken back for somebody who needed room
 * @lookups: keys looked up
 * @hits: keys found
 * @draining: 1 while the pool hands out nothing and empties itself
 * @capacity: pages that it can grow to, KVCACHE_POOL_RESIZE
 * @name: name of the pool
 *
 * @nr_pages = @nr_free + @nr_private + @nr_shared + @nr_cached + @nr_retiring,
 * always.
 */
struct kvcache_pool_info {
	__u32 id;
	__u32 kind;
	__aligned_u64 page_size;
	__aligned_u64 nr_pages;
	__aligned_u64 nr_free;
	__aligned_u64 nr_private;
	__aligned_u64 nr_shared;
	__aligned_u64 nr_cached;
	__aligned_u64 nr_retiring;
	__aligned_u64 waiters;
	__aligned_u64 rw_offset;
	__aligned_u64 ro_offset;
	__aligned_u64 allocs;
	__aligned_u64 reclaims;
	__aligned_u64 lookups;
	__aligned_u64 hits;
	__u32 draining;
	__u32 capacity;
	char name[KVCACHE_NAME_LEN];
};

/**
 * struct kvcache_query - version, features and pools (KVCACHE_QUERY)
 * @size: sizeof(struct kvcache_query)
 * @flags: zero
 * @out_abi_version: KVCACHE_ABI_VERSION
 * @out_nr_pools: entries of @out_pools that are in use
 * @out_features: KVCACHE_FEAT_* of this backend
 * @out_seq: the ledger's sequence number at which this reply is true
 * @out_client: number of this client, 0 before KVCACHE_ATTACH
 * @out_tenant: tenant of this client, 0 before KVCACHE_ATTACH
 * @out_pools: the pools, as one consistent snapshot
 *
 * Anyone who can open the device may ask.
 */
struct kvcache_query {
	__u32 size;
	__u32 flags;
	__u32 out_abi_version;
	__u32 out_nr_pools;
	__aligned_u64 out_features;
	__aligned_u64 out_seq;
	__u32 out_client;
	__u32 out_tenant;
	struct kvcache_pool_info out_pools[KVCACHE_MAX_POOLS];
};

/* How KVCACHE_ATTACH finds the tenant. */
#define KVCACHE_ATTACH_AUTO	0	/* by cgroup, then by uid */
#define KVCACHE_ATTACH_ID	1
#define KVCACHE_ATTACH_NAME	2

/**
 * struct kvcache_attach - bind this open to a tenant (KVCACHE_ATTACH)
 * @size: sizeof(struct kvcache_attach)
 * @flags: zero
 * @by: KVCACHE_ATTACH_AUTO, _ID or _NAME
 * @tenant: the tenant's number (KVCACHE_ATTACH_ID), else zero
 * @name: the tenant's name (KVCACHE_ATTACH_NAME), NUL-terminated, else empty
 * @out_tenant: number of the tenant
 * @out_client: number of the new client
 *
 * The client belongs to the calling process and ends with it, whoever else
 * holds the descriptor.
 *
 * Errors: EALREADY attached before; ENOENT no such tenant; EPERM not a member
 * of it (the tenant's uid, gid and mode decide); EDQUOT the tenant has as many
 * clients as one may have (4,096 on the device), so that none can keep others
 * out; ENOSPC too many clients of all tenants.
 */
struct kvcache_attach {
	__u32 size;
	__u32 flags;
	__u32 by;
	__u32 tenant;
	char name[KVCACHE_NAME_LEN];
	__u32 out_tenant;
	__u32 out_client;
};

/* kvcache_alloc.flags */
#define KVCACHE_ALLOC_CHECK	(1U << 0)	/* would it succeed now? take nothing */

/**
 * struct kvcache_alloc - get pages to write (KVCACHE_ALLOC)
 * @size: sizeof(struct kvcache_alloc)
 * @flags: KVCACHE_ALLOC_CHECK or zero
 * @pool: the pool
 * @nr: pages wanted, 1 to KVCACHE_MAX_PAGES; any number, 0 too, with
 *      KVCACHE_ALLOC_CHECK
 * @deadline_ns: CLOCK_MONOTONIC time until which to wait; 0 not at all,
 *               KVCACHE_TIME_NEVER for as long as it takes
 * @out_missing: on EDQUOT, ENOSPC and E2BIG: pages short of the request
 * @out_pages: handles of the pages, all zeros inside
 * @out_available: with KVCACHE_ALLOC_CHECK: pages that could be had now, in one
 *                 request or several
 * @out_limit: with KVCACHE_ALLOC_CHECK: pages that the tenant could ever have
 *             in this pool
 *
 * On failure @out_missing is the one member that is written, beside those of
 * KVCACHE_ALLOC_CHECK. The check is the allocator's own: with it, the errno is
 * what the request would get if @deadline_ns were 0.
 *
 * Errors: EDQUOT over the tenant's max; ENOSPC not enough pages in the pool;
 * E2BIG more than the tenant's max or the pool could ever give; ETIMEDOUT;
 * EINTR; ENOENT no such pool; ESHUTDOWN the pool is being drained.
 */
struct kvcache_alloc {
	__u32 size;
	__u32 flags;
	__u32 pool;
	__u32 nr;
	__aligned_u64 deadline_ns;
	__aligned_u64 out_missing;
	__aligned_u64 out_pages[KVCACHE_MAX_PAGES];
	__aligned_u64 out_available;
	__aligned_u64 out_limit;
};

/**
 * struct kvcache_free - drop references (KVCACHE_FREE)
 * @size: sizeof(struct kvcache_free)
 * @flags: zero
 * @pool: the pool
 * @nr: number of handles, 1 to KVCACHE_MAX_PAGES
 * @pages: the handles; one that occurs twice needs two references
 *
 * A PRIVATE page goes back to the pool; a SHARED page loses one of the
 * caller's references, and becomes CACHED with the last one. The pages are
 * ordered so that the last one given is the first to be reclaimed: give a
 * chain from its root to its leaf. Free a chain that is too long for one call
 * leaf part first. Windowed pages (KVCACHE_PUBLISH_WINDOW) are reclaimed first
 * page first.
 *
 * Errors: ESTALE; EPERM one of the pages is not held by the caller.
 */
struct kvcache_free {
	__u32 size;
	__u32 flags;
	__u32 pool;
	__u32 nr;
	__aligned_u64 pages[KVCACHE_MAX_PAGES];
};

/**
 * struct kvcache_key - what a page is found by
 * @key: opaque bytes
 * @fill: token slots of the page that this key vouches for, at least 1
 * @__reserved: zero
 */
struct kvcache_key {
	__u8 key[KVCACHE_KEY_LEN];
	__u32 fill;
	__u32 __reserved;
};

/* kvcache_publish_page.flags */
#define KVCACHE_PUBLISH_NODEDUP	(1U << 0)	/* keep this page whatever exists */
#define KVCACHE_PUBLISH_COPY	(1U << 1)	/* if pinned or exported, publish a copy */
#define KVCACHE_PUBLISH_WINDOW	(1U << 2)	/* part of a windowed chain: reclaimed root first */

/* kvcache_publish_page.out_result */
#define KVCACHE_PUBLISHED	1	/* the caller's page was published */
#define KVCACHE_DEDUPLICATED	2	/* an existing page is returned, the caller's was freed */
#define KVCACHE_COPIED		3	/* a copy was published, the caller's was freed */

/**
 * struct kvcache_publish_page - one page of a KVCACHE_PUBLISH
 * @handle: a PRIVATE page of the caller
 * @flags: KVCACHE_PUBLISH_*
 * @nr_keys: keys in use, 1 to KVCACHE_MAX_PAGE_KEYS
 * @priority: KVCACHE_PRIO_MIN to KVCACHE_PRIO_MAX
 * @__reserved: zero
 * @ttl_ns: time after which @priority falls back to KVCACHE_PRIO_DEFAULT,
 *          or KVCACHE_TIME_NEVER
 * @parent: key of the page before this one, zeros for the first; only events
 *          carry it
 * @keys: in strictly ascending order of their fill; no key twice
 * @out_handle: the page to use from now on; the caller holds one reference
 * @out_result: KVCACHE_PUBLISHED, KVCACHE_DEDUPLICATED or KVCACHE_COPIED
 * @__reserved2: zero
 */
struct kvcache_publish_page {
	__aligned_u64 handle;
	__u32 flags;
	__u32 nr_keys;
	__u32 priority;
	__u32 __reserved;
	__aligned_u64 ttl_ns;
	__u8 parent[KVCACHE_KEY_LEN];
	struct kvcache_key keys[KVCACHE_MAX_PAGE_KEYS];
	__aligned_u64 out_handle;
	__u32 out_result;
	__u32 __reserved2;
};

/**
 * struct kvcache_publish - make written pages immutable and findable
 *                          (KVCACHE_PUBLISH)
 * @size: sizeof(struct kvcache_publish)
 * @flags: zero
 * @pool: the pool
 * @nr: pages in use, 1 to KVCACHE_MAX_PUBLISH
 * @domain: tenant to publish into, 0 for the caller's own
 * @__reserved: zero
 * @pages: the pages, from the root of their chain to its leaf
 *
 * The pages are charged to @domain from then on. If @domain already has a
 * page under the highest-fill key of one of the pages, with the same fill, that
 * page is returned with a reference and the caller's is freed (deduplication).
 * Publish only what was written to the end.
 *
 * Errors: ESTALE; EPERM a page is not held by the caller, or no PUBLISH grant
 * of @domain; EINVAL a page is not PRIVATE, or given twice; EBUSY a page is
 * pinned, exported or volatile; EDQUOT over the max of @domain, or the bound
 * of the grant; ENOSPC it would take pages that a tenant's min promises;
 * E2BIG there is no copy that the caller's max or the pool could ever give;
 * ENOENT no such domain; ENOMEM.
 */
struct kvcache_publish {
	__u32 size;
	__u32 flags;
	__u32 pool;
	__u32 nr;
	__u32 domain;
	__u32 __reserved;
	struct kvcache_publish_page pages[KVCACHE_MAX_PUBLISH];
};

/**
 * struct kvcache_found - one page of a KVCACHE_LOOKUP reply
 * @handle: the page; the caller holds one more reference on it
 * @fill: slots that the matching key vouches for
 * @domain: tenant that the page is charged to
 */
struct kvcache_found {
	__aligned_u64 handle;
	__u32 fill;
	__u32 domain;
};

/* kvcache_lookup.flags */
#define KVCACHE_LOOKUP_PEEK	(1U << 0)	/* take no reference, change nothing */

/**
 * struct kvcache_lookup - find published pages (KVCACHE_LOOKUP)
 * @size: sizeof(struct kvcache_lookup)
 * @flags: KVCACHE_LOOKUP_PEEK or zero
 * @pool: the pool
 * @nr_keys: keys in use, 1 to KVCACHE_MAX_KEYS
 * @keys_per_page: how many consecutive keys belong to one page, 1 to
 *                 KVCACHE_MAX_PAGE_KEYS; the last page may have fewer
 * @tail: 0: the longest whole prefix; n: the longest prefix whose last n
 *        pages exist (all of them, if it has fewer)
 * @out_nr_pages: entries of @out_found that are in use
 * @out_nr_keys: keys matched: the prefix found ends with this key
 * @keys: the keys, in the order of the prefix
 * @out_found: the pages, in the order of the prefix; with @tail only the last
 *             of them, whose first is page number
 *             ceil(@out_nr_keys / @keys_per_page) - @out_nr_pages
 * @out_idle: with KVCACHE_LOOKUP_PEEK: of the pages found, those that are
 *            CACHED, which taking them would keep from reclaim
 * @out_available: with KVCACHE_LOOKUP_PEEK: pages that the caller could
 *                 allocate after having taken the pages found
 *
 * A page counts as whole if its last key exists. Where it does not, the
 * deepest of its keys that exists ends the prefix. Pages of the caller's
 * tenant are found, and of tenants that granted it LOOKUP, its own first. That
 * nothing was found is not an error.
 *
 * The prefix ends before the first page that the bound of a LOOKUP grant does
 * not let the caller hold; with @tail, nothing is found then. Of the general
 * errors, ENOENT (no such pool) is the one that is likely; ENOMEM, also where a
 * page has 2^31 references.
 */
struct kvcache_lookup {
	__u32 size;
	__u32 flags;
	__u32 pool;
	__u32 nr_keys;
	__u32 keys_per_page;
	__u32 tail;
	__u32 out_nr_pages;
	__u32 out_nr_keys;
	__u8 keys[KVCACHE_MAX_KEYS][KVCACHE_KEY_LEN];
	struct kvcache_found out_found[KVCACHE_MAX_KEYS];
	__aligned_u64 out_idle;
	__aligned_u64 out_available;
};

/* kvcache_advise.advice: bits of what to do */
#define KVCACHE_ADVISE_PRIORITY		(1U << 0)	/* set priority and ttl_ns */
#define KVCACHE_ADVISE_TOUCH		(1U << 1)	/* stamp as just used, in the given order */
#define KVCACHE_ADVISE_VOLATILE		(1U << 2)	/* PRIVATE pages may be taken at any time */
#define KVCACHE_ADVISE_NONVOLATILE	(1U << 3)	/* no longer: see out_state */

/* kvcache_advise.out_state */
#define KVCACHE_ADVISE_KEPT	0
#define KVCACHE_ADVISE_TAKEN	1	/* the page is gone and its handle stale */

/**
 * struct kvcache_advise - say how pages will be used (KVCACHE_ADVISE)
 * @size: sizeof(struct kvcache_advise)
 * @flags: zero
 * @pool: the pool
 * @nr: number of handles, 1 to KVCACHE_MAX_PAGES
 * @advice: KVCACHE_ADVISE_*; VOLATILE and NONVOLATILE exclude each other
 * @priority: with KVCACHE_ADVISE_PRIORITY, else zero
 * @ttl_ns: with KVCACHE_ADVISE_PRIORITY: as in struct kvcache_publish_page,
 *          else zero
 * @out_taken: pages that had been taken
 * @pages: the handles
 * @out_state: one KVCACHE_ADVISE_KEPT or _TAKEN a page
 *
 * Touch a volatile page only after it was made non-volatile and was kept.
 *
 * Errors: ESTALE (but not for a page that was taken while volatile, with
 * KVCACHE_ADVISE_NONVOLATILE: that one is reported in @out_state); EPERM not
 * a holder; EBUSY a page to be made volatile is exported (one that is pinned
 * otherwise stays RETIRING when it is taken, until it is let go); EINVAL
 * VOLATILE on a page that is not PRIVATE, or a @ttl_ns for one that is;
 * ENOMEM.
 */
struct kvcache_advise {
	__u32 size;
	__u32 flags;
	__u32 pool;
	__u32 nr;
	__u32 advice;
	__u32 priority;
	__aligned_u64 ttl_ns;
	__aligned_u64 out_taken;
	__aligned_u64 pages[KVCACHE_MAX_PAGES];
	__u8 out_state[KVCACHE_MAX_PAGES];
};

/* kvcache_export.flags, kvcache_take.flags */
#define KVCACHE_FD_CLOEXEC	(1U << 0)

/**
 * struct kvcache_export - host pages as one dma-buf (KVCACHE_EXPORT)
 * @size: sizeof(struct kvcache_export)
 * @flags: KVCACHE_FD_CLOEXEC or zero
 * @pool: the pool
 * @nr: number of handles, 1 to KVCACHE_MAX_PAGES
 * @out_fd: the dma-buf, the pages in the given order
 * @__reserved: zero
 * @pages: the handles
 *
 * The pages stay charged until the dma-buf is released. The dma-buf of SHARED
 * pages is read-only.
 *
 * Errors: ESTALE; EPERM not a holder, or a page of another tenant, held through
 * a grant: nothing would bound how long; EINVAL PRIVATE and SHARED pages mixed;
 * EOPNOTSUPP no host pool, or no dma-buf on this backend; EMFILE.
 */
struct kvcache_export {
	__u32 size;
	__u32 flags;
	__u32 pool;
	__u32 nr;
	__s32 out_fd;
	__u32 __reserved;
	__aligned_u64 pages[KVCACHE_MAX_PAGES];
};

/**
 * struct kvcache_provide - put device memory under a page (KVCACHE_PROVIDE)
 * @size: sizeof(struct kvcache_provide)
 * @flags: zero
 * @pool: a device pool
 * @fd: descriptor of the memory: a driver's handle or a dma-buf
 * @handle: a PRIVATE page of the caller that has no memory yet
 *
 * Errors: ESTALE; EPERM not the owner, or a tenant not trusted for opaque
 * handles; EBUSY it has memory; EBADF; EINVAL a dma-buf of another size, one
 * of our own files, or a host pool.
 */
struct kvcache_provide {
	__u32 size;
	__u32 flags;
	__u32 pool;
	__s32 fd;
	__aligned_u64 handle;
};

/**
 * struct kvcache_take - get a descriptor of a device page (KVCACHE_TAKE)
 * @size: sizeof(struct kvcache_take)
 * @flags: KVCACHE_FD_CLOEXEC or zero
 * @pool: a device pool
 * @out_fd: a new descriptor
 * @handle: a page that the caller holds
 *
 * Errors: ESTALE; EPERM not a holder; ENODATA nothing was provided; EMFILE.
 */
struct kvcache_take {
	__u32 size;
	__u32 flags;
	__u32 pool;
	__s32 out_fd;
	__aligned_u64 handle;
};

/**
 * struct kvcache_retire - device pages are no longer in use here
 *                         (KVCACHE_RETIRE)
 * @size: sizeof(struct kvcache_retire)
 * @flags: zero
 * @pool: a device pool
 * @nr: number of handles, 1 to KVCACHE_MAX_PAGES
 * @pages: handles of pages that the caller provided or took, freed since
 *
 * To be called when the caller's last fence passed and its mapping and import
 * are gone. A device page is free again when all its users have retired it.
 *
 * Errors: ESTALE; EPERM never provided or taken by the caller.
 */
struct kvcache_retire {
	__u32 size;
	__u32 flags;
	__u32 pool;
	__u32 nr;
	__aligned_u64 pages[KVCACHE_MAX_PAGES];
};

/* kvcache_tenant_set.set: which members KVCACHE_TENANT_SET takes */
#define KVCACHE_SET_LIMITS	(1U << 0)	/* pool, min, low, max */
#define KVCACHE_SET_OWNER	(1U << 1)	/* uid, gid, mode */
#define KVCACHE_SET_TTL		(1U << 2)
#define KVCACHE_SET_CGROUP	(1U << 3)
#define KVCACHE_SET_TRUST	(1U << 4)	/* opaque handles in KVCACHE_PROVIDE */

/**
 * struct kvcache_tenant_set - make or change a tenant (KVCACHE_TENANT_CREATE,
 *                             KVCACHE_TENANT_SET)
 * @size: sizeof(struct kvcache_tenant_set)
 * @flags: zero
 * @tenant: number of the tenant to change; zero for KVCACHE_TENANT_CREATE
 * @set: KVCACHE_SET_*; what is not set stays, or has its default
 * @revision: number of this change, above that of the last one; 0 for the
 *            next (no protection against reordering)
 * @pool: pool of the limits
 * @uid: owner
 * @gid: group
 * @mode: who may attach: 0400 the owner, 0040 the group, 0004 all
 * @min: pages promised, that nobody else can take; default 0
 * @low: pages that are reclaimed only if nothing else is left; default 0
 * @max: pages it can own at most, or KVCACHE_LIMIT_MAX (default)
 * @deadline_ns: CLOCK_MONOTONIC time at which pages above a lowered max are
 *               revoked; KVCACHE_TIME_NEVER: never, or, if @max is not
 *               changed, when it was said before
 * @ttl_ns: cached pages that nobody used for so long are found no more and
 *          given up; KVCACHE_TIME_NEVER (default): never; counts for pages
 *          that become cached from now on
 * @cgroup: id of a cgroup v2 whose processes attach to this tenant, 0 none
 * @trust: 1 if opaque handles are taken from it
 * @out_tenant: number of the tenant
 * @out_revision: revision that is now in force
 * @name: name of a new tenant: 1 to 63 of ``[A-Za-z0-9._-]``, not beginning
 *        with a dot; empty for KVCACHE_TENANT_SET
 *
 * Errors: EEXIST the name is taken, or @revision is in force with other
 * values; ESTALE a newer revision is in force; ENOSPC the sum of all min
 * would exceed the pool, or too many tenants; EINVAL min > max or low > max.
 */
struct kvcache_tenant_set {
	__u32 size;
	__u32 flags;
	__u32 tenant;
	__u32 set;
	__aligned_u64 revision;
	__u32 pool;
	__u32 uid;
	__u32 gid;
	__u32 mode;
	__aligned_u64 min;
	__aligned_u64 low;
	__aligned_u64 max;
	__aligned_u64 deadline_ns;
	__aligned_u64 ttl_ns;
	__aligned_u64 cgroup;
	__u32 trust;
	__u32 out_tenant;
	__aligned_u64 out_revision;
	char name[KVCACHE_NAME_LEN];
};

/**
 * struct kvcache_tenant_ref - name a tenant (KVCACHE_TENANT_REMOVE,
 *                             KVCACHE_TENANT_FLUSH)
 * @size: sizeof(struct kvcache_tenant_ref)
 * @flags: zero
 * @tenant: number of the tenant
 * @pool: KVCACHE_TENANT_FLUSH: the pool, or ~0 for all; else zero
 * @out_pages: cached pages that were given up
 *
 * REMOVE gives up the tenant's cached pages. FLUSH gives up its cached pages
 * and forgets the keys of its shared ones.
 *
 * Errors: ENOENT; EBUSY (REMOVE) it has clients or pages in use. If one attached
 * after it began, cached pages are gone all the same: @out_pages of them.
 */
struct kvcache_tenant_ref {
	__u32 size;
	__u32 flags;
	__u32 tenant;
	__u32 pool;
	__aligned_u64 out_pages;
};

/* kvcache_tenant_grant.rights */
#define KVCACHE_GRANT_LOOKUP	(1U << 0)
#define KVCACHE_GRANT_PUBLISH	(1U << 1)

/**
 * struct kvcache_tenant_grant - let another tenant in (KVCACHE_TENANT_GRANT)
 * @size: sizeof(struct kvcache_tenant_grant)
 * @flags: zero
 * @tenant: the tenant that grants
 * @to: the tenant that may
 * @rights: KVCACHE_GRANT_* from now on; 0 takes the grant back
 * @__reserved: zero
 * @max_held: pages that @to may hold through the grant at one time
 *
 * Keys are opaque here: grant PUBLISH only to those whom every reader trusts
 * to publish what a key says.
 *
 * Errors: ENOENT; EINVAL a grant to itself; ENOSPC too many grants.
 */
struct kvcache_tenant_grant {
	__u32 size;
	__u32 flags;
	__u32 tenant;
	__u32 to;
	__u32 rights;
	__u32 __reserved;
	__aligned_u64 max_held;
};

/**
 * struct kvcache_tenant_info - one tenant and pool of KVCACHE_TENANT_GET
 * @id: number of the tenant
 * @pool: the pool that the page counts are of
 * @uid: owner
 * @gid: group
 * @mode: who may attach
 * @clients: clients attached to it
 * @revision: revision of its attributes
 * @cgroup: its cgroup's id, or 0
 * @ttl_ns: time to live of its cached pages
 * @min: promised pages
 * @low: protected pages
 * @max: limit
 * @cur: pages charged ("current", which is a macro in the kernel)
 * @peak: highest @cur so far
 * @nr_cached: of @cur, those in state KVCACHE_PAGE_CACHED
 * @waiters: its waiting requests
 * @ev_max: requests that failed or waited at its max
 * @ev_reclaim: its cached pages that were reclaimed
 * @ev_revoke: its pages that were revoked
 * @lookups: keys looked up by its clients
 * @hits: keys found
 * @trust: 1 if opaque handles are taken from it
 * @grants: grants it gave
 * @name: its name
 */
struct kvcache_tenant_info {
	__u32 id;
	__u32 pool;
	__u32 uid;
	__u32 gid;
	__u32 mode;
	__u32 clients;
	__aligned_u64 revision;
	__aligned_u64 cgroup;
	__aligned_u64 ttl_ns;
	__aligned_u64 min;
	__aligned_u64 low;
	__aligned_u64 max;
	__aligned_u64 cur;
	__aligned_u64 peak;
	__aligned_u64 nr_cached;
	__aligned_u64 waiters;
	__aligned_u64 ev_max;
	__aligned_u64 ev_reclaim;
	__aligned_u64 ev_revoke;
	__aligned_u64 lookups;
	__aligned_u64 hits;
	__u32 trust;
	__u32 grants;
	char name[KVCACHE_NAME_LEN];
};

#define KVCACHE_GET_TENANTS	64
#define KVCACHE_GET_CLIENTS	128
#define KVCACHE_GET_PAGES	256
#define KVCACHE_GET_GRANTS	128

/**
 * struct kvcache_tenant_get - list tenants (KVCACHE_TENANT_GET)
 * @size: sizeof(struct kvcache_tenant_get)
 * @flags: zero
 * @pool: the pool
 * @start: lowest number wanted
 * @out_seq: the ledger's sequence number of this reply
 * @out_nr: entries in use
 * @out_next: @start for the next call, 0 at the end
 * @out_info: the tenants, by ascending number
 *
 * Unprivileged callers see their own tenant only.
 */
struct kvcache_tenant_get {
	__u32 size;
	__u32 flags;
	__u32 pool;
	__u32 start;
	__aligned_u64 out_seq;
	__u32 out_nr;
	__u32 out_next;
	struct kvcache_tenant_info out_info[KVCACHE_GET_TENANTS];
};

/**
 * struct kvcache_client_info - one client of KVCACHE_CLIENT_GET
 * @id: number of the client
 * @tenant: its tenant
 * @pid: its process, as the reader's namespace shows it; 0 if it does not
 * @waiting: pages it waits for
 * @nr_private: its PRIVATE pages
 * @nr_shared: references it holds on SHARED pages
 * @comm: name of its process, NUL-terminated
 */
struct kvcache_client_info {
	__u32 id;
	__u32 tenant;
	__u32 pid;
	__u32 waiting;
	__aligned_u64 nr_private;
	__aligned_u64 nr_shared;
	char comm[16];
};

/**
 * struct kvcache_client_get - list clients (KVCACHE_CLIENT_GET)
 * @size: sizeof(struct kvcache_client_get)
 * @flags: zero
 * @pool: the pool that the page counts are of
 * @start: lowest number wanted
 * @out_seq: the ledger's sequence number of this reply
 * @out_nr: entries in use
 * @out_next: @start for the next call, 0 at the end
 * @out_info: the clients, by ascending number
 *
 * Unprivileged callers see the clients of their own tenant only.
 */
struct kvcache_client_get {
	__u32 size;
	__u32 flags;
	__u32 pool;
	__u32 start;
	__aligned_u64 out_seq;
	__u32 out_nr;
	__u32 out_next;
	struct kvcache_client_info out_info[KVCACHE_GET_CLIENTS];
};

/* kvcache_page_info.flags */
#define KVCACHE_PAGE_VOLATILE	(1U << 0)
#define KVCACHE_PAGE_EXPORTED	(1U << 1)
#define KVCACHE_PAGE_PINNED	(1U << 2)

/**
 * struct kvcache_page_info - one page of KVCACHE_PAGE_GET
 * @handle: the page
 * @tenant: tenant it is charged to, 0 none
 * @client: client that owns it (PRIVATE), else 0
 * @state: KVCACHE_PAGE_*
 * @flags: KVCACHE_PAGE_VOLATILE, _EXPORTED, _PINNED
 * @refs: references held on it
 * @fill: highest fill it is published with
 * @priority: its priority
 * @nr_keys: keys it is indexed under
 * @idle_ns: time since it was last used
 */
struct kvcache_page_info {
	__aligned_u64 handle;
	__u32 tenant;
	__u32 client;
	__u16 state;
	__u16 flags;
	__u32 refs;
	__u32 fill;
	__u16 priority;
	__u16 nr_keys;
	__aligned_u64 idle_ns;
};

/**
 * struct kvcache_page_get - list pages (KVCACHE_PAGE_GET)
 * @size: sizeof(struct kvcache_page_get)
 * @flags: zero
 * @pool: the pool
 * @start: lowest page index wanted
 * @out_seq: the ledger's sequence number of this reply
 * @out_nr: entries in use
 * @out_next: @start for the next call, 0 at the end
 * @out_info: the pages in use, by ascending index
 *
 * Unprivileged callers see the pages of their own tenant only. One call looks
 * at 4,096 pages at most, so a reply may have fewer entries than there is room
 * for, or none, and others follow all the same: go on until @out_next is 0.
 */
struct kvcache_page_get {
	__u32 size;
	__u32 flags;
	__u32 pool;
	__u32 start;
	__aligned_u64 out_seq;
	__u32 out_nr;
	__u32 out_next;
	struct kvcache_page_info out_info[KVCACHE_GET_PAGES];
};

/**
 * struct kvcache_grant_info - one grant of KVCACHE_GRANT_GET
 * @from: tenant that grants
 * @to: tenant that may
 * @rights: KVCACHE_GRANT_*; 0: taken back, but pages are held through it yet
 * @__reserved: zero
 * @max_held: pages that @to may hold through the grant at one time
 * @held: holds that clients of @to have on pages of @from; a page that two of
 *        them hold counts twice
 */
struct kvcache_grant_info {
	__u32 from;
	__u32 to;
	__u32 rights;
	__u32 __reserved;
	__aligned_u64 max_held;
	__aligned_u64 held;
};

/**
 * struct kvcache_grant_get - list grants (KVCACHE_GRANT_GET)
 * @size: sizeof(struct kvcache_grant_get)
 * @flags: zero
 * @__reserved: zero
 * @start: lowest grant wanted, as ``to << 16 | from``; 0 for the first
 * @out_seq: the ledger's sequence number of this reply
 * @out_nr: entries in use
 * @out_next: @start for the next call, 0 at the end
 * @out_info: the grants, by ascending @to, then @from
 *
 * Unprivileged callers see the grants that their own tenant gave or got. They
 * are of no pool: pages held are those in all of them.
 */
struct kvcache_grant_get {
	__u32 size;
	__u32 flags;
	__u32 __reserved;
	__u32 start;
	__aligned_u64 out_seq;
	__u32 out_nr;
	__u32 out_next;
	struct kvcache_grant_info out_info[KVCACHE_GET_GRANTS];
};

/* kvcache_pool_set.op */
#define KVCACHE_POOL_CREATE	1	/* a new pool of nr_pages */
#define KVCACHE_POOL_RESIZE	2	/* to nr_pages */
#define KVCACHE_POOL_DRAIN	3	/* hand out nothing, give up cached pages */
#define KVCACHE_POOL_RESUME	4	/* end of a drain */
#define KVCACHE_POOL_REMOVE	5

/**
 * struct kvcache_pool_set - make, resize or drain a pool (KVCACHE_POOL_SET)
 * @size: sizeof(struct kvcache_pool_set)
 * @flags: zero
 * @op: KVCACHE_POOL_CREATE, _RESIZE, _DRAIN, _RESUME or _REMOVE
 * @pool: the pool; zero for KVCACHE_POOL_CREATE
 * @kind: KVCACHE_POOL_HOST or _DEVICE (KVCACHE_POOL_CREATE), else zero
 * @out_pool: the pool
 * @page_size: a power of two, KVCACHE_PAGE_SIZE_MIN to _MAX
 *             (KVCACHE_POOL_CREATE), else zero
 * @nr_pages: KVCACHE_POOL_CREATE and _RESIZE, else zero
 * @out_nr_pages: pages the pool has now
 * @name: name of a new pool, formed as a tenant's
 *
 * Errors: EEXIST the name is taken; ENOMEM; ENOSPC too many pools; EBUSY
 * pages in use (REMOVE; RESIZE: where the pages to go are in use, the pool has
 * shrunk as far as it could, and @out_nr_pages says how far; so where a min was
 * raised after it began); EINVAL fewer pages, without those lost to errors of
 * memory, than the sum of all min; E2BIG more than the pool was made for.
 */
struct kvcache_pool_set {
	__u32 size;
	__u32 flags;
	__u32 op;
	__u32 pool;
	__u32 kind;
	__u32 out_pool;
	__aligned_u64 page_size;
	__aligned_u64 nr_pages;
	__aligned_u64 out_nr_pages;
	char name[KVCACHE_NAME_LEN];
};

/* kvcache_pool_get.out_reclaims: whose pages were taken, by what rule. */
#define KVCACHE_RECLAIM_OWN	0	/* a tenant's own, so that it keeps its max */
#define KVCACHE_RECLAIM_EXPIRED	1	/* expired ones, whosever */
#define KVCACHE_RECLAIM_LOW	2	/* pass 1: of tenants above their low */
#define KVCACHE_RECLAIM_MIN	3	/* pass 2: of tenants above their min */
#define KVCACHE_RECLAIM_LAST	4	/* pass 3: its own, whatever its min */
#define KVCACHE_RECLAIM_CAUSES	5

/* kvcache_pool_get.out_refusals: requests for pages that failed with these. */
#define KVCACHE_REFUSED_EDQUOT		0
#define KVCACHE_REFUSED_ENOSPC		1
#define KVCACHE_REFUSED_E2BIG		2
#define KVCACHE_REFUSED_ESHUTDOWN	3
#define KVCACHE_REFUSED_ERRNOS		4

/* kvcache_pool_get.out_waits: how requests that waited ended. */
#define KVCACHE_WAIT_GRANTED	0	/* with pages */
#define KVCACHE_WAIT_TIMED_OUT	1	/* ETIMEDOUT */
#define KVCACHE_WAIT_REFUSED	2	/* with one of KVCACHE_REFUSED_* */
#define KVCACHE_WAIT_ENDED	3	/* interrupted, or the client ended */
#define KVCACHE_WAIT_ENDS	4

/* kvcache_pool_get.out_wait_times */
#define KVCACHE_WAIT_BUCKETS	15

/**
 * struct kvcache_pool_get - all counters of a pool (KVCACHE_POOL_GET)
 * @size: sizeof(struct kvcache_pool_get)
 * @flags: zero
 * @pool: the pool
 * @__reserved: zero
 * @out_seq: the ledger's sequence number at which all of this reply is true
 * @out_info: what KVCACHE_QUERY says of the pool
 * @out_unzeroed: pages that left their owner and are to be zeroed before they
 *                are handed out, now; none of an in-process pool, which zeroes
 *                pages when it hands them out
 * @out_lost: pages lost to errors of memory
 * @out_frees: pages that became FREE again
 * @out_publishes: pages published, or copies of them
 * @out_dedups: pages of KVCACHE_PUBLISH that existed already
 * @out_expired: CACHED pages given up because their time was over
 * @out_revokes: pages taken from those who hold them
 * @out_volatile: of all @out_reclaims, pages that were PRIVATE and volatile
 * @out_reclaims: pages taken back, by KVCACHE_RECLAIM_*
 * @out_refusals: requests for pages that failed, by KVCACHE_REFUSED_*, at once
 *                or after they waited
 * @out_waits: requests that waited, by KVCACHE_WAIT_*
 * @out_wait_ns: nanoseconds that all of these waited
 * @out_wait_times: the same requests by the time that they waited: number i
 *                  has those of less than 1 us x 4^i that are in none before
 *                  it, the last one all others
 *
 * All but @out_info and @out_unzeroed only grow, from 0 when the pool is made.
 * A broker that is started again makes its pools anew, and counts the pages
 * that it takes over from the last one as handed out and published.
 *
 * At each moment: @reclaims of @out_info is the sum of @out_reclaims; pages
 * that expired are in it if a request took them, else in @out_expired. Its
 * @allocs less @out_frees are the pages that are not FREE. Its @nr_retiring are
 * @out_unzeroed, @out_lost and those that are in use by somebody whom the pool
 * does not see. The sum of @out_wait_times is that of @out_waits.
 *
 * A request is a KVCACHE_ALLOC, or the copy of a page that KVCACHE_PUBLISH
 * makes. It waits, too, where its pages have to be zeroed only. When a client
 * ends, its requests have waited until the last command before that.
 *
 * Privileged: how long others wait, what they deduplicate and whose pages are
 * taken tells more of them than KVCACHE_QUERY does.
 */
struct kvcache_pool_get {
	__u32 size;
	__u32 flags;
	__u32 pool;
	__u32 __reserved;
	__aligned_u64 out_seq;
	struct kvcache_pool_info out_info;
	__aligned_u64 out_unzeroed;
	__aligned_u64 out_lost;
	__aligned_u64 out_frees;
	__aligned_u64 out_publishes;
	__aligned_u64 out_dedups;
	__aligned_u64 out_expired;
	__aligned_u64 out_revokes;
	__aligned_u64 out_volatile;
	__aligned_u64 out_reclaims[KVCACHE_RECLAIM_CAUSES];
	__aligned_u64 out_refusals[KVCACHE_REFUSED_ERRNOS];
	__aligned_u64 out_waits[KVCACHE_WAIT_ENDS];
	__aligned_u64 out_wait_ns;
	__aligned_u64 out_wait_times[KVCACHE_WAIT_BUCKETS];
};

/* Types of event. */
#define KVCACHE_EV_RECLAIM	1	/* pages are wanted: @value of them */
#define KVCACHE_EV_SHRINK	2	/* the max is now @value pages: free what is above */
#define KVCACHE_EV_GRANTED	3	/* a waiting request got its @value pages */
#define KVCACHE_EV_EVICTED	4	/* a page left the index: @key */
#define KVCACHE_EV_PUBLISHED	5	/* a page entered it: @key, after @parent */
#define KVCACHE_EV_UPDATED	6	/* @key has @priority now, for @value ns */
#define KVCACHE_EV_CLEARED	7	/* all of a tenant's keys are gone */
#define KVCACHE_EV_LIMIT_HIT	8	/* a request for @value pages met the max */
#define KVCACHE_EV_REVOKED	9	/* page @value (a handle) was taken away */
#define KVCACHE_EV_TENANT_GONE	10

/**
 * struct kvcache_event - what read() returns, one record or more; the queue of
 * an open begins with its first read() or poll(); what could not be copied
 * (EFAULT) is returned by the next one
 * @type: KVCACHE_EV_*
 * @pool: the pool
 * @tenant: tenant that it is about
 * @dropped: events lost just before this one, because the queue was full
 * @priority: KVCACHE_EV_UPDATED and _PUBLISHED: priority of the page
 * @seq: the ledger's sequence number
 * @value: see the types
 * @key: deepest key of the page, or zeros
 * @parent: key of the page before it, or zeros
 */
struct kvcache_event {
	__u16 type;
	__u16 pool;
	__u32 tenant;
	__u32 dropped;
	__u32 priority;
	__aligned_u64 seq;
	__aligned_u64 value;
	__u8 key[KVCACHE_KEY_LEN];
	__u8 parent[KVCACHE_KEY_LEN];
};

#endif /* _UAPI_LINUX_KVCACHE_H */
