/* SPDX-License-Identifier: MIT */
/*
 * oracle_ledger.h - the ledger's rules once more, as slow and plain as can be:
 * fixed arrays, linear scans, nothing remembered that can be counted. Written
 * from the rules in kmod/ledger.h, to be compared with it after every step.
 *
 * The functions have the names, arguments and results of kvl_*().
 */
#ifndef ORACLE_LEDGER_H
#define ORACLE_LEDGER_H

#include "ledger.h"

#define ORC_POOLS	2
#define ORC_PAGES	65	/* indices, the null page among them */
#define ORC_TENANTS	7	/* numbers, 0 among them */
#define ORC_CLIENTS	9
#define ORC_REQUESTS	32
#define ORC_EVENTS	128	/* remembered: the ledger remembers no more */
#define ORC_TAKEN	256

struct orc_page {
	u32 state;
	u32 gen;
	u32 tenant;
	u32 owner;		/* PRIVATE: the client */
	u32 keeper;		/* SHARED: the client that held it first */
	u32 refs[ORC_CLIENTS];	/* SHARED */
	u64 acquired[ORC_CLIENTS];	/* when: for the order of death */
	u32 pins;
	bool is_volatile;
	bool windowed;
	bool expired;		/* seen to be, and stamped then */
	bool stuck;		/* RETIRING, and cannot be cleaned yet */
	bool queued;		/* RETIRING, and work not given out yet */
	bool flushed;		/* its keys are forgotten */
	u32 nr_keys;
	u32 fill;
	u32 prio;
	struct kvcache_key keys[KVCACHE_MAX_PAGE_KEYS];
	u64 prio_end;
	u64 expiry;
	u64 stamp;
	u64 published;
	u64 used;
	s64 freed;		/* order on the free list: the highest first */
	u64 retired;		/* order of work */
};

struct orc_limits {
	u64 min, low, max, deadline;
	u64 peak, reclaims, revokes, hits_max, lookups, hits;
	bool fitting, told;
};

struct orc_pool {
	bool used, direct, draining;
	char name[KVCACHE_NAME_LEN];
	u32 kind;
	u64 page_size;
	u32 nr, capacity;
	u64 now;
	u64 wanted;		/* pages that were last said to be missing */
	u64 allocs, reclaims, lookups, hits;
	struct kvcache_pool_get stat;	/* what only grows */
	struct orc_page page[ORC_PAGES];
	struct orc_limits lim[ORC_TENANTS];
};

struct orc_grant {
	u32 rights;
	u64 max_held;
	u64 order;		/* 0: none */
};

struct orc_tenant {
	bool used;
	u64 created;
	struct kvcache_tenant_set set;	/* all of its attributes */
	struct kvcache_tenant_set last;	/* the last change */
	u64 nr_events;
	struct kvcache_event ev[ORC_EVENTS];
	struct orc_grant from[ORC_TENANTS];	/* who let it in */
};

struct orc_client {
	bool used, dead, listening;
	u32 tenant;
	u64 cursor;
	u32 nr_taken;
	struct { u32 pool; u64 handle, when; } taken[ORC_TAKEN];
};

enum orc_queue { ORC_NONE, ORC_OWN, ORC_POOL, ORC_BACKED };

struct orc_request {
	bool busy;
	enum orc_queue queue;
	s64 order;		/* in its queue */
	u32 client, tenant, pool, nr;
	bool nowait;
	u64 since;		/* when it began to wait */
	int status;
	u64 missing;
	u64 pages[KVCACHE_MAX_PAGES];
};

struct oracle {
	struct kvl_config cfg;
	u64 now;
	u64 count;		/* grows: stamps and orders */
	s64 added;		/* shrinks: order of new pages */
	s64 front;		/* shrinks: order of who goes to the front */
	struct orc_pool pool[ORC_POOLS];
	u32 last_gen[ORC_POOLS];	/* of pools taken out */
	struct orc_tenant tenant[ORC_TENANTS];
	struct orc_client client[ORC_CLIENTS];
	struct orc_request req[ORC_REQUESTS];
	u32 done[ORC_REQUESTS * 4];
	u32 nr_done;
};

/* Figures that the rules use. */
u64 orc_cur(const struct oracle *o, u32 pool, u32 tenant);
bool orc_is_takeable(const struct orc_page *g);

void orc_init(struct oracle *o, const struct kvl_config *cfg);
void orc_pool_add(struct oracle *o, u32 pool, const struct kvl_pool_config *cfg);

int orc_pool_remove(struct oracle *o, u32 pool);

/* Time goes on: what every call begins with. */
void orc_call(struct oracle *o, u32 pool, u64 now);
u32 orc_tick(struct oracle *o, u64 now, u32 budget);
u64 orc_next_tick(const struct oracle *o);

int orc_alloc(struct oracle *o, u32 client, u32 req, bool wait, u64 now);
int orc_cancel(struct oracle *o, u32 req, int err, u64 now);
int orc_check(struct oracle *o, u32 client, u32 pool, u64 nr,
	      struct kvl_check *out);
int orc_free(struct oracle *o, u32 client, u32 pool, const u64 *pages, u32 nr,
	     u64 now);
int orc_publish(struct oracle *o, u32 client, struct kvcache_publish *arg,
		const u64 *copies, u64 now);
int orc_lookup(struct oracle *o, u32 client, struct kvcache_lookup *arg,
	       u64 now);
int orc_advise(struct oracle *o, u32 client, struct kvcache_advise *arg,
	       u64 now);
int orc_access(const struct oracle *o, u32 client, u32 pool, u32 index,
	       bool write);
int orc_pin(struct oracle *o, u32 client, u32 pool, u64 handle);
void orc_unpin(struct oracle *o, u32 pool, u32 index, u64 now);
u32 orc_work_next(const struct oracle *o, u32 pool);
int orc_work_done(struct oracle *o, u32 pool, u32 index, bool clean, u64 now);

int orc_resize(struct oracle *o, u32 pool, u64 nr, u64 *out, u64 now);
int orc_drain(struct oracle *o, u32 pool, u64 now);
int orc_resume(struct oracle *o, u32 pool);
int orc_trim(struct oracle *o, u32 pool, u32 budget, u64 now);

/* @number: the one that the ledger chose, 0 if it refused. */
int orc_tenant_create(struct oracle *o, u32 number,
		      struct kvcache_tenant_set *arg, u64 now);
int orc_tenant_set(struct oracle *o, struct kvcache_tenant_set *arg, u64 now);
int orc_tenant_flush(struct oracle *o, u32 tenant, u32 pool, u32 budget,
		     u64 now);
int orc_tenant_trim(struct oracle *o, u32 tenant, u32 pool, u32 budget,
		    u64 now);
int orc_tenant_fit(struct oracle *o, u32 tenant, u32 pool, u32 budget, u64 now);
int orc_tenant_remove(struct oracle *o, u32 tenant, u64 *pages, u64 now);
int orc_tenant_grant(struct oracle *o, const struct kvcache_tenant_grant *arg);

int orc_client_attach(struct oracle *o, u32 number, u32 tenant);
void orc_client_kill(struct oracle *o, u32 client);
u32 orc_client_reap(struct oracle *o, u32 client, u32 budget, u64 now);
int orc_client_detach(struct oracle *o, u32 client);

u32 orc_events(struct oracle *o, u32 client, struct kvcache_event *ev, u32 nr);

#endif /* ORACLE_LEDGER_H */
