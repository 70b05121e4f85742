/* SPDX-License-Identifier: MIT */
/*
 * layout.c - the ABI in literal numbers.
 *
 * Compiled, never run, for every kind of program: what is written here must
 * hold for all of them, and for ever. test_layout.sh checks that nothing is
 * missing. A new member is added at the end of its struct and of its list.
 */
#include <stddef.h>
#include <linux/kvcache.h>

#ifdef __cplusplus
#define _Static_assert static_assert
#endif

#define STRUCT(s, bytes)						\
	_Static_assert(sizeof(struct s) == (bytes), "size of " #s)
#define MEMBER(s, m, offset, bytes)					\
	_Static_assert(offsetof(struct s, m) == (offset) &&		\
		       sizeof(((struct s *)0)->m) == (bytes),		\
		       #s "." #m)
#define CONSTANT(name, value)						\
	_Static_assert(name == (value), #name)
#define COMMAND(name, nr)						\
	_Static_assert(KVCACHE_NR_##name == (nr) &&			\
		       KVCACHE_##name == (0xbd00 | (nr)), #name)

STRUCT(kvcache_pool_info, 192);
MEMBER(kvcache_pool_info, id, 0, 4);
MEMBER(kvcache_pool_info, kind, 4, 4);
MEMBER(kvcache_pool_info, page_size, 8, 8);
MEMBER(kvcache_pool_info, nr_pages, 16, 8);
MEMBER(kvcache_pool_info, nr_free, 24, 8);
MEMBER(kvcache_pool_info, nr_private, 32, 8);
MEMBER(kvcache_pool_info, nr_shared, 40, 8);
MEMBER(kvcache_pool_info, nr_cached, 48, 8);
MEMBER(kvcache_pool_info, nr_retiring, 56, 8);
MEMBER(kvcache_pool_info, waiters, 64, 8);
MEMBER(kvcache_pool_info, rw_offset, 72, 8);
MEMBER(kvcache_pool_info, ro_offset, 80, 8);
MEMBER(kvcache_pool_info, allocs, 88, 8);
MEMBER(kvcache_pool_info, reclaims, 96, 8);
MEMBER(kvcache_pool_info, lookups, 104, 8);
MEMBER(kvcache_pool_info, hits, 112, 8);
MEMBER(kvcache_pool_info, draining, 120, 4);
MEMBER(kvcache_pool_info, capacity, 124, 4);
MEMBER(kvcache_pool_info, name, 128, 64);

STRUCT(kvcache_query, 3112);
MEMBER(kvcache_query, size, 0, 4);
MEMBER(kvcache_query, flags, 4, 4);
MEMBER(kvcache_query, out_abi_version, 8, 4);
MEMBER(kvcache_query, out_nr_pools, 12, 4);
MEMBER(kvcache_query, out_features, 16, 8);
MEMBER(kvcache_query, out_seq, 24, 8);
MEMBER(kvcache_query, out_client, 32, 4);
MEMBER(kvcache_query, out_tenant, 36, 4);
MEMBER(kvcache_query, out_pools, 40, 3072);

STRUCT(kvcache_attach, 88);
MEMBER(kvcache_attach, size, 0, 4);
MEMBER(kvcache_attach, flags, 4, 4);
MEMBER(kvcache_attach, by, 8, 4);
MEMBER(kvcache_attach, tenant, 12, 4);
MEMBER(kvcache_attach, name, 16, 64);
MEMBER(kvcache_attach, out_tenant, 80, 4);
MEMBER(kvcache_attach, out_client, 84, 4);

STRUCT(kvcache_alloc, 2096);
MEMBER(kvcache_alloc, size, 0, 4);
MEMBER(kvcache_alloc, flags, 4, 4);
MEMBER(kvcache_alloc, pool, 8, 4);
MEMBER(kvcache_alloc, nr, 12, 4);
MEMBER(kvcache_alloc, deadline_ns, 16, 8);
MEMBER(kvcache_alloc, out_missing, 24, 8);
MEMBER(kvcache_alloc, out_pages, 32, 2048);
MEMBER(kvcache_alloc, out_available, 2080, 8);
MEMBER(kvcache_alloc, out_limit, 2088, 8);

STRUCT(kvcache_free, 2064);
MEMBER(kvcache_free, size, 0, 4);
MEMBER(kvcache_free, flags, 4, 4);
MEMBER(kvcache_free, pool, 8, 4);
MEMBER(kvcache_free, nr, 12, 4);
MEMBER(kvcache_free, pages, 16, 2048);

STRUCT(kvcache_key, 40);
MEMBER(kvcache_key, key, 0, 32);
MEMBER(kvcache_key, fill, 32, 4);
MEMBER(kvcache_key, __reserved, 36, 4);

STRUCT(kvcache_publish_page, 720);
MEMBER(kvcache_publish_page, handle, 0, 8);
MEMBER(kvcache_publish_page, flags, 8, 4);
MEMBER(kvcache_publish_page, nr_keys, 12, 4);
MEMBER(kvcache_publish_page, priority, 16, 4);
MEMBER(kvcache_publish_page, __reserved, 20, 4);
MEMBER(kvcache_publish_page, ttl_ns, 24, 8);
MEMBER(kvcache_publish_page, parent, 32, 32);
MEMBER(kvcache_publish_page, keys, 64, 640);
MEMBER(kvcache_publish_page, out_handle, 704, 8);
MEMBER(kvcache_publish_page, out_result, 712, 4);
MEMBER(kvcache_publish_page, __reserved2, 716, 4);

STRUCT(kvcache_publish, 11544);
MEMBER(kvcache_publish, size, 0, 4);
MEMBER(kvcache_publish, flags, 4, 4);
MEMBER(kvcache_publish, pool, 8, 4);
MEMBER(kvcache_publish, nr, 12, 4);
MEMBER(kvcache_publish, domain, 16, 4);
MEMBER(kvcache_publish, __reserved, 20, 4);
MEMBER(kvcache_publish, pages, 24, 11520);

STRUCT(kvcache_found, 16);
MEMBER(kvcache_found, handle, 0, 8);
MEMBER(kvcache_found, fill, 8, 4);
MEMBER(kvcache_found, domain, 12, 4);

STRUCT(kvcache_lookup, 12336);
MEMBER(kvcache_lookup, size, 0, 4);
MEMBER(kvcache_lookup, flags, 4, 4);
MEMBER(kvcache_lookup, pool, 8, 4);
MEMBER(kvcache_lookup, nr_keys, 12, 4);
MEMBER(kvcache_lookup, keys_per_page, 16, 4);
MEMBER(kvcache_lookup, tail, 20, 4);
MEMBER(kvcache_lookup, out_nr_pages, 24, 4);
MEMBER(kvcache_lookup, out_nr_keys, 28, 4);
MEMBER(kvcache_lookup, keys, 32, 8192);
MEMBER(kvcache_lookup, out_found, 8224, 4096);
MEMBER(kvcache_lookup, out_idle, 12320, 8);
MEMBER(kvcache_lookup, out_available, 12328, 8);

STRUCT(kvcache_advise, 2344);
MEMBER(kvcache_advise, size, 0, 4);
MEMBER(kvcache_advise, flags, 4, 4);
MEMBER(kvcache_advise, pool, 8, 4);
MEMBER(kvcache_advise, nr, 12, 4);
MEMBER(kvcache_advise, advice, 16, 4);
MEMBER(kvcache_advise, priority, 20, 4);
MEMBER(kvcache_advise, ttl_ns, 24, 8);
MEMBER(kvcache_advise, out_taken, 32, 8);
MEMBER(kvcache_advise, pages, 40, 2048);
MEMBER(kvcache_advise, out_state, 2088, 256);

STRUCT(kvcache_export, 2072);
MEMBER(kvcache_export, size, 0, 4);
MEMBER(kvcache_export, flags, 4, 4);
MEMBER(kvcache_export, pool, 8, 4);
MEMBER(kvcache_export, nr, 12, 4);
MEMBER(kvcache_export, out_fd, 16, 4);
MEMBER(kvcache_export, __reserved, 20, 4);
MEMBER(kvcache_export, pages, 24, 2048);

STRUCT(kvcache_provide, 24);
MEMBER(kvcache_provide, size, 0, 4);
MEMBER(kvcache_provide, flags, 4, 4);
MEMBER(kvcache_provide, pool, 8, 4);
MEMBER(kvcache_provide, fd, 12, 4);
MEMBER(kvcache_provide, handle, 16, 8);

STRUCT(kvcache_take, 24);
MEMBER(kvcache_take, size, 0, 4);
MEMBER(kvcache_take, flags, 4, 4);
MEMBER(kvcache_take, pool, 8, 4);
MEMBER(kvcache_take, out_fd, 12, 4);
MEMBER(kvcache_take, handle, 16, 8);

STRUCT(kvcache_retire, 2064);
MEMBER(kvcache_retire, size, 0, 4);
MEMBER(kvcache_retire, flags, 4, 4);
MEMBER(kvcache_retire, pool, 8, 4);
MEMBER(kvcache_retire, nr, 12, 4);
MEMBER(kvcache_retire, pages, 16, 2048);

STRUCT(kvcache_tenant_set, 168);
MEMBER(kvcache_tenant_set, size, 0, 4);
MEMBER(kvcache_tenant_set, flags, 4, 4);
MEMBER(kvcache_tenant_set, tenant, 8, 4);
MEMBER(kvcache_tenant_set, set, 12, 4);
MEMBER(kvcache_tenant_set, revision, 16, 8);
MEMBER(kvcache_tenant_set, pool, 24, 4);
MEMBER(kvcache_tenant_set, uid, 28, 4);
MEMBER(kvcache_tenant_set, gid, 32, 4);
MEMBER(kvcache_tenant_set, mode, 36, 4);
MEMBER(kvcache_tenant_set, min, 40, 8);
MEMBER(kvcache_tenant_set, low, 48, 8);
MEMBER(kvcache_tenant_set, max, 56, 8);
MEMBER(kvcache_tenant_set, deadline_ns, 64, 8);
MEMBER(kvcache_tenant_set, ttl_ns, 72, 8);
MEMBER(kvcache_tenant_set, cgroup, 80, 8);
MEMBER(kvcache_tenant_set, trust, 88, 4);
MEMBER(kvcache_tenant_set, out_tenant, 92, 4);
MEMBER(kvcache_tenant_set, out_revision, 96, 8);
MEMBER(kvcache_tenant_set, name, 104, 64);

STRUCT(kvcache_tenant_ref, 24);
MEMBER(kvcache_tenant_ref, size, 0, 4);
MEMBER(kvcache_tenant_ref, flags, 4, 4);
MEMBER(kvcache_tenant_ref, tenant, 8, 4);
MEMBER(kvcache_tenant_ref, pool, 12, 4);
MEMBER(kvcache_tenant_ref, out_pages, 16, 8);

STRUCT(kvcache_tenant_grant, 32);
MEMBER(kvcache_tenant_grant, size, 0, 4);
MEMBER(kvcache_tenant_grant, flags, 4, 4);
MEMBER(kvcache_tenant_grant, tenant, 8, 4);
MEMBER(kvcache_tenant_grant, to, 12, 4);
MEMBER(kvcache_tenant_grant, rights, 16, 4);
MEMBER(kvcache_tenant_grant, __reserved, 20, 4);
MEMBER(kvcache_tenant_grant, max_held, 24, 8);

STRUCT(kvcache_tenant_info, 216);
MEMBER(kvcache_tenant_info, id, 0, 4);
MEMBER(kvcache_tenant_info, pool, 4, 4);
MEMBER(kvcache_tenant_info, uid, 8, 4);
MEMBER(kvcache_tenant_info, gid, 12, 4);
MEMBER(kvcache_tenant_info, mode, 16, 4);
MEMBER(kvcache_tenant_info, clients, 20, 4);
MEMBER(kvcache_tenant_info, revision, 24, 8);
MEMBER(kvcache_tenant_info, cgroup, 32, 8);
MEMBER(kvcache_tenant_info, ttl_ns, 40, 8);
MEMBER(kvcache_tenant_info, min, 48, 8);
MEMBER(kvcache_tenant_info, low, 56, 8);
MEMBER(kvcache_tenant_info, max, 64, 8);
MEMBER(kvcache_tenant_info, cur, 72, 8);
MEMBER(kvcache_tenant_info, peak, 80, 8);
MEMBER(kvcache_tenant_info, nr_cached, 88, 8);
MEMBER(kvcache_tenant_info, waiters, 96, 8);
MEMBER(kvcache_tenant_info, ev_max, 104, 8);
MEMBER(kvcache_tenant_info, ev_reclaim, 112, 8);
MEMBER(kvcache_tenant_info, ev_revoke, 120, 8);
MEMBER(kvcache_tenant_info, lookups, 128, 8);
MEMBER(kvcache_tenant_info, hits, 136, 8);
MEMBER(kvcache_tenant_info, trust, 144, 4);
MEMBER(kvcache_tenant_info, grants, 148, 4);
MEMBER(kvcache_tenant_info, name, 152, 64);

STRUCT(kvcache_tenant_get, 13856);
MEMBER(kvcache_tenant_get, size, 0, 4);
MEMBER(kvcache_tenant_get, flags, 4, 4);
MEMBER(kvcache_tenant_get, pool, 8, 4);
MEMBER(kvcache_tenant_get, start, 12, 4);
MEMBER(kvcache_tenant_get, out_seq, 16, 8);
MEMBER(kvcache_tenant_get, out_nr, 24, 4);
MEMBER(kvcache_tenant_get, out_next, 28, 4);
MEMBER(kvcache_tenant_get, out_info, 32, 13824);

STRUCT(kvcache_client_info, 48);
MEMBER(kvcache_client_info, id, 0, 4);
MEMBER(kvcache_client_info, tenant, 4, 4);
MEMBER(kvcache_client_info, pid, 8, 4);
MEMBER(kvcache_client_info, waiting, 12, 4);
MEMBER(kvcache_client_info, nr_private, 16, 8);
MEMBER(kvcache_client_info, nr_shared, 24, 8);
MEMBER(kvcache_client_info, comm, 32, 16);

STRUCT(kvcache_client_get, 6176);
MEMBER(kvcache_client_get, size, 0, 4);
MEMBER(kvcache_client_get, flags, 4, 4);
MEMBER(kvcache_client_get, pool, 8, 4);
MEMBER(kvcache_client_get, start, 12, 4);
MEMBER(kvcache_client_get, out_seq, 16, 8);
MEMBER(kvcache_client_get, out_nr, 24, 4);
MEMBER(kvcache_client_get, out_next, 28, 4);
MEMBER(kvcache_client_get, out_info, 32, 6144);

STRUCT(kvcache_page_info, 40);
MEMBER(kvcache_page_info, handle, 0, 8);
MEMBER(kvcache_page_info, tenant, 8, 4);
MEMBER(kvcache_page_info, client, 12, 4);
MEMBER(kvcache_page_info, state, 16, 2);
MEMBER(kvcache_page_info, flags, 18, 2);
MEMBER(kvcache_page_info, refs, 20, 4);
MEMBER(kvcache_page_info, fill, 24, 4);
MEMBER(kvcache_page_info, priority, 28, 2);
MEMBER(kvcache_page_info, nr_keys, 30, 2);
MEMBER(kvcache_page_info, idle_ns, 32, 8);

STRUCT(kvcache_page_get, 10272);
MEMBER(kvcache_page_get, size, 0, 4);
MEMBER(kvcache_page_get, flags, 4, 4);
MEMBER(kvcache_page_get, pool, 8, 4);
MEMBER(kvcache_page_get, start, 12, 4);
MEMBER(kvcache_page_get, out_seq, 16, 8);
MEMBER(kvcache_page_get, out_nr, 24, 4);
MEMBER(kvcache_page_get, out_next, 28, 4);
MEMBER(kvcache_page_get, out_info, 32, 10240);

STRUCT(kvcache_grant_info, 32);
MEMBER(kvcache_grant_info, from, 0, 4);
MEMBER(kvcache_grant_info, to, 4, 4);
MEMBER(kvcache_grant_info, rights, 8, 4);
MEMBER(kvcache_grant_info, __reserved, 12, 4);
MEMBER(kvcache_grant_info, max_held, 16, 8);
MEMBER(kvcache_grant_info, held, 24, 8);

STRUCT(kvcache_grant_get, 4128);
MEMBER(kvcache_grant_get, size, 0, 4);
MEMBER(kvcache_grant_get, flags, 4, 4);
MEMBER(kvcache_grant_get, __reserved, 8, 4);
MEMBER(kvcache_grant_get, start, 12, 4);
MEMBER(kvcache_grant_get, out_seq, 16, 8);
MEMBER(kvcache_grant_get, out_nr, 24, 4);
MEMBER(kvcache_grant_get, out_next, 28, 4);
MEMBER(kvcache_grant_get, out_info, 32, 4096);

STRUCT(kvcache_pool_set, 112);
MEMBER(kvcache_pool_set, size, 0, 4);
MEMBER(kvcache_pool_set, flags, 4, 4);
MEMBER(kvcache_pool_set, op, 8, 4);
MEMBER(kvcache_pool_set, pool, 12, 4);
MEMBER(kvcache_pool_set, kind, 16, 4);
MEMBER(kvcache_pool_set, out_pool, 20, 4);
MEMBER(kvcache_pool_set, page_size, 24, 8);
MEMBER(kvcache_pool_set, nr_pages, 32, 8);
MEMBER(kvcache_pool_set, out_nr_pages, 40, 8);
MEMBER(kvcache_pool_set, name, 48, 64);

STRUCT(kvcache_pool_get, 512);
MEMBER(kvcache_pool_get, size, 0, 4);
MEMBER(kvcache_pool_get, flags, 4, 4);
MEMBER(kvcache_pool_get, pool, 8, 4);
MEMBER(kvcache_pool_get, __reserved, 12, 4);
MEMBER(kvcache_pool_get, out_seq, 16, 8);
MEMBER(kvcache_pool_get, out_info, 24, 192);
MEMBER(kvcache_pool_get, out_unzeroed, 216, 8);
MEMBER(kvcache_pool_get, out_lost, 224, 8);
MEMBER(kvcache_pool_get, out_frees, 232, 8);
MEMBER(kvcache_pool_get, out_publishes, 240, 8);
MEMBER(kvcache_pool_get, out_dedups, 248, 8);
MEMBER(kvcache_pool_get, out_expired, 256, 8);
MEMBER(kvcache_pool_get, out_revokes, 264, 8);
MEMBER(kvcache_pool_get, out_volatile, 272, 8);
MEMBER(kvcache_pool_get, out_reclaims, 280, 40);
MEMBER(kvcache_pool_get, out_refusals, 320, 32);
MEMBER(kvcache_pool_get, out_waits, 352, 32);
MEMBER(kvcache_pool_get, out_wait_ns, 384, 8);
MEMBER(kvcache_pool_get, out_wait_times, 392, 120);

STRUCT(kvcache_event, 96);
MEMBER(kvcache_event, type, 0, 2);
MEMBER(kvcache_event, pool, 2, 2);
MEMBER(kvcache_event, tenant, 4, 4);
MEMBER(kvcache_event, dropped, 8, 4);
MEMBER(kvcache_event, priority, 12, 4);
MEMBER(kvcache_event, seq, 16, 8);
MEMBER(kvcache_event, value, 24, 8);
MEMBER(kvcache_event, key, 32, 32);
MEMBER(kvcache_event, parent, 64, 32);

/* Commands: their numbers, and nothing else in the ioctl number. */
COMMAND(QUERY, 0x00);
COMMAND(ATTACH, 0x01);
COMMAND(ALLOC, 0x10);
COMMAND(FREE, 0x11);
COMMAND(PUBLISH, 0x12);
COMMAND(LOOKUP, 0x13);
COMMAND(ADVISE, 0x14);
COMMAND(EXPORT, 0x15);
COMMAND(PROVIDE, 0x16);
COMMAND(TAKE, 0x17);
COMMAND(RETIRE, 0x18);
COMMAND(TENANT_CREATE, 0x20);
COMMAND(TENANT_SET, 0x21);
COMMAND(TENANT_REMOVE, 0x22);
COMMAND(TENANT_FLUSH, 0x23);
COMMAND(TENANT_GRANT, 0x24);
COMMAND(TENANT_GET, 0x28);
COMMAND(CLIENT_GET, 0x29);
COMMAND(PAGE_GET, 0x2a);
COMMAND(GRANT_GET, 0x2b);
COMMAND(POOL_SET, 0x30);
COMMAND(POOL_GET, 0x31);

/* All other numbers of the header. */
CONSTANT(KVCACHE_ABI_VERSION, 0x1);
CONSTANT(KVCACHE_NAME_LEN, 0x40);
CONSTANT(KVCACHE_KEY_LEN, 0x20);
CONSTANT(KVCACHE_MAX_POOLS, 0x10);
CONSTANT(KVCACHE_MAX_PAGES, 0x100);
CONSTANT(KVCACHE_MAX_PUBLISH, 0x10);
CONSTANT(KVCACHE_MAX_PAGE_KEYS, 0x10);
CONSTANT(KVCACHE_MAX_KEYS, 0x100);
CONSTANT(KVCACHE_PAGE_SIZE_MIN, 0x10000);
CONSTANT(KVCACHE_PAGE_SIZE_MAX, 0x4000000);
CONSTANT(KVCACHE_LIMIT_MAX, 0xffffffffffffffff);
CONSTANT(KVCACHE_TIME_NEVER, 0xffffffffffffffff);
CONSTANT(KVCACHE_PRIO_MIN, 0x0);
CONSTANT(KVCACHE_PRIO_DEFAULT, 0x23);
CONSTANT(KVCACHE_PRIO_MAX, 0x64);
CONSTANT(KVCACHE_POOL_HOST, 0x0);
CONSTANT(KVCACHE_POOL_DEVICE, 0x1);
CONSTANT(KVCACHE_PAGE_FREE, 0x0);
CONSTANT(KVCACHE_PAGE_PRIVATE, 0x1);
CONSTANT(KVCACHE_PAGE_SHARED, 0x2);
CONSTANT(KVCACHE_PAGE_CACHED, 0x3);
CONSTANT(KVCACHE_PAGE_RETIRING, 0x4);
CONSTANT(KVCACHE_PAGE_NULL, 0x5);
CONSTANT(KVCACHE_FEAT_MMAP, 0x1);
CONSTANT(KVCACHE_FEAT_FDS, 0x2);
CONSTANT(KVCACHE_FEAT_LOCAL, 0x4);
CONSTANT(KVCACHE_FEAT_ENFORCED, 0x8);
CONSTANT(KVCACHE_FEAT_EXPORT, 0x10);
CONSTANT(KVCACHE_FEAT_DEVICE, 0x20);
CONSTANT(KVCACHE_FEAT_EVENTS, 0x40);
CONSTANT(KVCACHE_ATTACH_AUTO, 0x0);
CONSTANT(KVCACHE_ATTACH_ID, 0x1);
CONSTANT(KVCACHE_ATTACH_NAME, 0x2);
CONSTANT(KVCACHE_ALLOC_CHECK, 1);
CONSTANT(KVCACHE_PUBLISH_NODEDUP, 0x1);
CONSTANT(KVCACHE_PUBLISH_COPY, 0x2);
CONSTANT(KVCACHE_PUBLISH_WINDOW, 0x4);
CONSTANT(KVCACHE_PUBLISHED, 0x1);
CONSTANT(KVCACHE_DEDUPLICATED, 0x2);
CONSTANT(KVCACHE_COPIED, 0x3);
CONSTANT(KVCACHE_LOOKUP_PEEK, 0x1);
CONSTANT(KVCACHE_ADVISE_PRIORITY, 0x1);
CONSTANT(KVCACHE_ADVISE_TOUCH, 0x2);
CONSTANT(KVCACHE_ADVISE_VOLATILE, 0x4);
CONSTANT(KVCACHE_ADVISE_NONVOLATILE, 0x8);
CONSTANT(KVCACHE_ADVISE_KEPT, 0x0);
CONSTANT(KVCACHE_ADVISE_TAKEN, 0x1);
CONSTANT(KVCACHE_FD_CLOEXEC, 0x1);
CONSTANT(KVCACHE_SET_LIMITS, 0x1);
CONSTANT(KVCACHE_SET_OWNER, 0x2);
CONSTANT(KVCACHE_SET_TTL, 0x4);
CONSTANT(KVCACHE_SET_CGROUP, 0x8);
CONSTANT(KVCACHE_SET_TRUST, 0x10);
CONSTANT(KVCACHE_GRANT_LOOKUP, 0x1);
CONSTANT(KVCACHE_GRANT_PUBLISH, 0x2);
CONSTANT(KVCACHE_GET_TENANTS, 0x40);
CONSTANT(KVCACHE_GET_CLIENTS, 0x80);
CONSTANT(KVCACHE_GET_PAGES, 0x100);
CONSTANT(KVCACHE_GET_GRANTS, 0x80);
CONSTANT(KVCACHE_PAGE_VOLATILE, 0x1);
CONSTANT(KVCACHE_PAGE_EXPORTED, 0x2);
CONSTANT(KVCACHE_PAGE_PINNED, 0x4);
CONSTANT(KVCACHE_POOL_CREATE, 0x1);
CONSTANT(KVCACHE_POOL_RESIZE, 0x2);
CONSTANT(KVCACHE_POOL_DRAIN, 0x3);
CONSTANT(KVCACHE_POOL_RESUME, 0x4);
CONSTANT(KVCACHE_POOL_REMOVE, 0x5);
CONSTANT(KVCACHE_RECLAIM_OWN, 0x0);
CONSTANT(KVCACHE_RECLAIM_EXPIRED, 0x1);
CONSTANT(KVCACHE_RECLAIM_LOW, 0x2);
CONSTANT(KVCACHE_RECLAIM_MIN, 0x3);
CONSTANT(KVCACHE_RECLAIM_LAST, 0x4);
CONSTANT(KVCACHE_RECLAIM_CAUSES, 0x5);
CONSTANT(KVCACHE_REFUSED_EDQUOT, 0x0);
CONSTANT(KVCACHE_REFUSED_ENOSPC, 0x1);
CONSTANT(KVCACHE_REFUSED_E2BIG, 0x2);
CONSTANT(KVCACHE_REFUSED_ESHUTDOWN, 0x3);
CONSTANT(KVCACHE_REFUSED_ERRNOS, 0x4);
CONSTANT(KVCACHE_WAIT_GRANTED, 0x0);
CONSTANT(KVCACHE_WAIT_TIMED_OUT, 0x1);
CONSTANT(KVCACHE_WAIT_REFUSED, 0x2);
CONSTANT(KVCACHE_WAIT_ENDED, 0x3);
CONSTANT(KVCACHE_WAIT_ENDS, 0x4);
CONSTANT(KVCACHE_WAIT_BUCKETS, 0xf);
CONSTANT(KVCACHE_EV_RECLAIM, 0x1);
CONSTANT(KVCACHE_EV_SHRINK, 0x2);
CONSTANT(KVCACHE_EV_GRANTED, 0x3);
CONSTANT(KVCACHE_EV_EVICTED, 0x4);
CONSTANT(KVCACHE_EV_PUBLISHED, 0x5);
CONSTANT(KVCACHE_EV_UPDATED, 0x6);
CONSTANT(KVCACHE_EV_CLEARED, 0x7);
CONSTANT(KVCACHE_EV_LIMIT_HIT, 0x8);
CONSTANT(KVCACHE_EV_REVOKED, 0x9);
CONSTANT(KVCACHE_EV_TENANT_GONE, 0xa);
