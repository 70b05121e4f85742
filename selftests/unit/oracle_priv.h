/* SPDX-License-Identifier: MIT */
/*
 * oracle_priv.h - what the files of the oracle share.
 */
#ifndef ORACLE_PRIV_H
#define ORACLE_PRIV_H

#include <linux/kernel.h>

#include "oracle_ledger.h"

/* ---- oracle_ledger.c ------------------------------------------------- */

/* Pages charged, those on their way counted where they go to. */
s64 orc_live(const struct oracle *o, u32 pool, u32 tenant);
/* Of them, and of those asked for, what cannot be taken back. */
s64 orc_used(const struct oracle *o, u32 pool, u32 tenant);
s64 orc_available(const struct oracle *o, u32 pool, u32 tenant);
s64 orc_takeable(const struct oracle *o, u32 pool, u32 tenant);
/* FREE now or as soon as the work is done, and nobody's yet. */
s64 orc_unclaimed(const struct oracle *o, u32 pool);
u64 orc_could_have(struct oracle *o, u32 pool, u32 tenant);
u64 orc_sum_min(const struct oracle *o, u32 pool, u32 but);
/* A new stamp for a page that is takeable. */
void orc_stamp(struct oracle *o, u32 pool, struct orc_page *g);
/* The page of a tenant's that is taken first; @cached: of its CACHED ones. */
u32 orc_oldest(const struct oracle *o, u32 pool, u32 tenant, bool cached);
/* The expired one that is given up first. */
u32 orc_expired(const struct oracle *o, u32 pool);
bool orc_reclaim_own(struct oracle *o, u32 pool, u32 tenant);
/* Who waits is served, as far as possible. */
void orc_serve(struct oracle *o, u32 pool);
/* Pages that were on their way are not: the last requests wait again. */
void orc_unback(struct oracle *o, u32 pool);
/* The last requests of a tenant that is over its max wait for that again. */
void orc_keep_limit(struct oracle *o, u32 pool, u32 tenant);
/* Takes pages of a tenant that is over its max; how many. */
u32 orc_fit(struct oracle *o, u32 pool, u32 tenant, u32 budget);
void orc_finish(struct oracle *o, struct orc_request *r, int status);

/* ---- oracle_stat.c --------------------------------------------------- */

/* A request fails at once with @status. */
void orc_refused(struct oracle *o, u32 pool, int status);
/* One that waited ends with @status. */
void orc_waited(struct oracle *o, const struct orc_request *r, int status);

/* ---- oracle_pages.c -------------------------------------------------- */

u64 orc_handle(const struct oracle *o, u32 pool, u32 index);
/* The page of a handle, or -ESTALE. */
int orc_resolve(const struct oracle *o, u32 pool, u64 handle);
/* References of a client on a page; a PRIVATE page is one of its owner. */
u32 orc_refs(const struct orc_page *g, u32 client);
/* What clients of tenant @to hold of pages of tenant @from. */
u64 orc_held(const struct oracle *o, u32 from, u32 to);
/* The page becomes FREE. */
void orc_release(struct oracle *o, u32 pool, u32 index);
/* The page leaves those who have it, and the index. */
void orc_leave(struct oracle *o, u32 pool, u32 index);
/* A takeable page is taken. */
void orc_take(struct oracle *o, u32 pool, u32 index);
/* References of a client end. */
void orc_put(struct oracle *o, u32 pool, u32 index, u32 client, u32 nr);
bool orc_findable(const struct oracle *o, u32 pool, const struct orc_page *g);

/* ---- oracle_tenants.c ------------------------------------------------ */

/* Pages charged that are not on their way out. */
u64 orc_staying(const struct oracle *o, u32 pool, u32 tenant);
u32 orc_slice(const struct oracle *o);
void orc_post(struct oracle *o, u32 tenant, const struct kvcache_event *ev);

#endif /* ORACLE_PRIV_H */
