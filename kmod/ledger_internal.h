/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * ledger_internal.h - the records behind ledger.h.
 *
 * Pages are linked by their numbers, 0 (the null page) ending a list: half the
 * size of pointers. A page that can be taken is in two lists of its priority,
 * its tenant's and its pool's, both in ascending order of stamps, because a
 * page gets a new stamp whenever it is added, at the end.
 */
#ifndef KVL_LEDGER_INTERNAL_H
#define KVL_LEDGER_INTERNAL_H

#include <linux/bitops.h>
#include <linux/errno.h>
#include <linux/bug.h>
#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/types.h>

#include "ledger.h"

/* Lists of takeable pages: expired ones, then one for each priority. */
#define KVL_EXPIRED	0
#define KVL_NR_SLOTS	(1 + KVCACHE_PRIO_MAX + 1)
#define KVL_MAP_WORDS	2

/* Of one page; a call adds at most KVCACHE_MAX_KEYS. */
#define KVL_MAX_REFS	(1U << 31)

/* kvl_page.flags */
#define KVL_PF_LISTED	0x01	/* takeable: in its tenant's list */
#define KVL_PF_PARKED	0x02	/* ... not in the pool's: ledger_reclaim.c */
#define KVL_PF_TIMED	0x04	/* in a bucket of the pool's clock */
#define KVL_PF_VOLATILE	0x08
#define KVL_PF_WINDOW	0x10	/* of a windowed chain */
#define KVL_PF_STUCK	0x20	/* RETIRING, and nobody knows how long */
#define KVL_PF_QUEUED	0x40	/* RETIRING, in the list of work */
#define KVL_PF_LOST	0x80	/* RETIRING for good, and charged to nobody */

/* kvl_request.queue */
#define KVL_Q_NONE	0
#define KVL_Q_LIMIT	1	/* kvl_account.queue */
#define KVL_Q_POOL	2	/* kvl_pool.queue */
#define KVL_Q_BACKED	3	/* kvl_pool.backed */
#define KVL_Q_DONE	4	/* kvl.done */

struct kvl_link {
	u32 next;
	u32 prev;
};

struct kvl_list {
	u32 first;
	u32 last;
};

/**
 * struct kvl_node - a key of a page, or a further client's hold on it
 * @hash: in kvl_pool.keys or kvl_pool.holds; next spare node
 * @next: next key of the page, of a lower fill
 * @page: the page
 * @fill: slots that the key vouches for
 * @key: the key
 * @peers: in kvl_client_pool.holds
 * @sharers: in kvl_page.sharers; unused in a record of a taken page
 * @held: the page
 * @client: the client
 * @count: its references; 0 in a record of a page taken while volatile
 * @gen: generation of the page that was taken
 */
struct kvl_node {
	struct hlist_node hash;
	union {
		struct {
			struct kvl_node *next;
			u32 page;
			u32 fill;
			u8 key[KVCACHE_KEY_LEN];
		};
		struct {
			struct list_head peers;
			struct hlist_node sharers;
			u32 held;
			u32 client;
			u32 count;
			u32 gen;
		};
	};
};

/* No lock. Nodes come in chunks, which go with the ledger. */
struct kvl_nodes {
	struct kvl_nodes *next;
	u32 nr;
	struct kvl_node node[] __aligned(64);
};

/**
 * struct kvl_page - one page
 * @gen: generation; 0: never handed out
 * @state: KVCACHE_PAGE_*
 * @flags: KVL_PF_*
 * @slot: list that it is in, if KVL_PF_LISTED
 * @prio: its priority
 * @tenant: who is charged, 0 if FREE
 * @client: the owner if PRIVATE; one of the clients that hold it if SHARED, the
 *          others have a node in @sharers; 0 none
 * @count: references of @client
 * @refs: references of all
 * @own: in kvl_client_pool.pages; in a bucket of the pool's clock if CACHED
 * @order: in kvl_pool.order; in kvl_pool.free or .work
 * @lru: in kvl_account.lru
 * @used: time of its last use
 * @pins: uses that the ledger does not see
 * @mark: times that the call being checked names it
 * @bucket: of the clock
 * @nr_keys: keys in @keys
 * @stamp: order among takeable pages
 * @expires: when it expires, if CACHED
 * @prio_until: when @prio falls back
 * @sharers: nodes of further clients
 * @keys: its keys, highest fill first
 * @spare: PRIVATE and volatile: the node that will tell of its taking
 * @fill: its highest fill
 * @epoch: kvl_account.epoch when it was published; keys of older ones are dead
 */
struct kvl_page {
	u32 gen;
	u8 state;
	u8 flags;
	u8 slot;
	u8 prio;
	u32 tenant;
	u32 client;
	u32 count;
	u32 refs;
	struct kvl_link own;
	struct kvl_link order;
	struct kvl_link lru;
	u64 used;
	u32 pins;
	u16 mark;
	u8 bucket;
	u8 nr_keys;

	u64 stamp;
	u64 expires;
	u64 prio_until;
	struct hlist_head sharers;
	union {
		struct kvl_node *keys;
		struct kvl_node *spare;
	};
	u32 fill;
	u32 epoch;
} __aligned(64);

/* How well a tenant's takeable pages are protected from others. */
#define KVL_LOW		0	/* min < cur <= low: pass 2 takes them */
#define KVL_OPEN	1	/* above min and low: pass 1 takes them */
#define KVL_NR_HEAPS	2
#define KVL_SAFE	2	/* cur <= min: nobody else does */

/**
 * struct kvl_account - one tenant in one pool
 * @min: promised pages
 * @low: protected pages
 * @max: limit
 * @cur: pages charged
 * @takeable: of them, pages that may be taken
 * @leaving: of them, RETIRING pages whose work is not done yet
 * @claims: pages of requests in kvl_pool.backed
 * @asked: pages of requests in kvl_pool.queue
 * @cached: CACHED pages
 * @guard: KVL_LOW, _OPEN or _SAFE
 * @fitting: it is brought below its max, slice by slice: nothing for it yet
 * @told: its clients were told of that max
 * @parked: takeable pages that are not in the pool's lists
 * @heap_pos: place in the heap of its @guard, or 0
 * @epoch: see kvl_page.epoch
 * @tenant: the tenant's number
 * @waiters: requests in @queue and in the pool's lists
 * @map: which of @lru are not empty
 * @lru: takeable pages
 * @queue: requests over the limit
 * @ready: in kvl_pool.ready, if a request in @queue may fit now
 * @revoke_at: when pages above @max are revoked, or KVCACHE_TIME_NEVER
 * @peak: highest @cur so far
 * @ev_max: see struct kvcache_tenant_info, as the next ones
 */
struct kvl_account {
	u64 min;
	u64 low;
	u64 max;
	u64 cur;
	u64 takeable;
	u64 leaving;
	u64 claims;
	u64 asked;

	u64 cached;
	u64 peak;
	u32 guard;
	bool fitting;
	bool told;
	u32 parked;
	u32 heap_pos;
	u32 epoch;
	u32 tenant;
	u32 waiters;
	u64 map[KVL_MAP_WORDS];
	u64 lookups;
	u64 hits;

	struct list_head queue;
	struct list_head ready;
	u64 revoke_at;
	u64 ev_max;
	u64 ev_reclaim;
	u64 ev_revoke;
	struct kvl_list lru[KVL_NR_SLOTS];

	struct {
		u64 cur;
		u64 takeable;
		u64 leaving;
		u64 cached;
		u64 parked;
	} seen;		/* kvl_verify()'s */
};

struct kvl_heap_entry {
	u64 key;
	u32 tenant;
};

/**
 * struct kvl_heap - accounts with parked pages, by their first page
 * @e: entries, from 1 on
 * @nr: their number
 */
struct kvl_heap {
	struct kvl_heap_entry *e;
	u32 nr;
};

/**
 * struct kvl_clock - CACHED pages that something happens to later
 * @now: the time that the buckets refer to
 * @map: which buckets are not empty
 * @bucket: pages by the highest bit in which their time differs from @now, so
 *          that a page moves at most 64 times, whatever the distance
 */
struct kvl_clock {
	u64 now;
	u64 map;
	struct kvl_list bucket[64];
};

/**
 * struct kvl_pool - one pool
 * @page: the pages, @capacity + 1; 0 is the null page
 * @keys: hash table of keys, 1 << @key_bits chains
 * @holds: hash table of further holds, 1 << @hold_bits chains
 * @nr: pages by state
 * @spare: sum over accounts of kvl_spare()
 * @promised: sum over accounts of kvl_gap()
 * @claims: sum over accounts of claims
 * @leaving: sum over accounts of leaving
 * @sum_min: sum over accounts of min
 * @lost: pages whose memory is broken
 * @stamp: the last stamp given
 * @first_gen: generation of a page that is handed out for the first time
 * @last_gen: highest generation so far
 * @free: FREE pages; the first one is handed out next
 * @work: RETIRING pages to be cleaned
 * @map: which of @order are not empty
 * @order: takeable pages, parked ones excepted
 * @heap: accounts with parked pages, by guard
 * @clock: what happens later
 * @queue: requests that wait for pages, in order
 * @backed: requests whose pages are free or on their way, in order
 * @ready: accounts with a request that may be within the limit now
 * @waiters: requests in @queue, @backed and the accounts' queues
 * @promises: of those in @queue, requests of tenants with a min
 * @wanted: pages wanted by the last KVCACHE_EV_RECLAIM
 * @frees: see struct kvcache_pool_get, as the next ones
 * @nodes: of a pool that was removed: nodes that went with it
 * @acct: accounts by tenant number
 */
struct kvl_pool {
	struct kvl_page *page;
	struct hlist_head *keys;
	struct hlist_head *holds;
	u32 key_bits;
	u32 hold_bits;
	u32 id;
	u32 kind;
	u32 flags;
	u32 nr_pages;
	u32 capacity;
	bool draining;

	u64 nr[KVCACHE_PAGE_NULL];
	u64 spare;
	u64 promised;
	u64 claims;
	u64 leaving;
	u64 sum_min;
	u64 lost;
	u64 stamp;
	u32 first_gen;
	u32 last_gen;

	struct kvl_list free;
	struct kvl_list work;
	u64 map[KVL_MAP_WORDS];
	struct kvl_list order[KVL_NR_SLOTS];
	struct kvl_heap heap[KVL_NR_HEAPS];
	struct kvl_clock clock;

	struct list_head queue;
	struct list_head backed;
	struct list_head ready;
	u32 waiters;
	u32 promises;
	u64 wanted;

	u64 page_size;
	u64 allocs;
	u64 frees;
	u64 lookups;
	u64 hits;
	u64 publishes;
	u64 dedups;
	u64 expired;
	u64 revokes;
	u64 taken_volatile;
	u64 reclaims[KVCACHE_RECLAIM_CAUSES];
	u64 refusals[KVCACHE_REFUSED_ERRNOS];
	u64 waits[KVCACHE_WAIT_ENDS];
	u64 wait_ns;
	u64 wait_times[KVCACHE_WAIT_BUCKETS];
	struct kvl_nodes *nodes;
	struct kvl_account *acct;
	char name[KVCACHE_NAME_LEN];
};

/**
 * struct kvl_grant - what one tenant may do with another one's pages
 * @from: the tenant that grants; 0 unused
 * @rights: KVCACHE_GRANT_*; 0 taken back, but pages are held yet
 * @max_held: bound of @held
 * @held: holds that clients have on pages of @from
 */
struct kvl_grant {
	u32 from;
	u32 rights;
	u64 max_held;
	u64 held;
};

/**
 * struct kvl_tenant - one tenant
 * @link: in kvl.tenants
 * @set: its attributes, and the last change, to recognise when it is repeated
 * @got: grants that it got, in their order
 * @grants: grants that it gave
 * @clients: clients attached to it
 * @listeners: of them, those that read events
 * @ev: ring of events, kvl.nr_events of them
 * @ev_next: number of the next event
 */
struct kvl_tenant {
	struct list_head link;
	u32 id;
	u32 uid;
	u32 gid;
	u32 mode;
	u32 trust;
	u32 clients;
	u32 listeners;
	u32 grants;
	u64 cgroup;
	u64 ttl_ns;
	u64 revision;
	struct kvcache_tenant_set last;
	struct kvl_grant got[KVL_MAX_GRANTS];
	struct kvcache_event *ev;
	u64 ev_next;
	char name[KVCACHE_NAME_LEN];
};

/**
 * struct kvl_client_pool - one client in one pool
 * @pages: pages whose kvl_page.client it is, in the order of their acquisition
 * @holds: nodes of its holds on other pages, and of pages taken from it
 * @nr_private: PRIVATE pages
 * @nr_shared: references on SHARED pages
 */
struct kvl_client_pool {
	struct kvl_list pages;
	struct list_head holds;
	u64 nr_private;
	u64 nr_shared;
};

struct kvl_client {
	u32 id;
	u32 tenant;
	bool dead;
	bool listens;
	u64 ev_next;
	void *owner;
	struct list_head requests;
	struct kvl_client_pool pool[KVCACHE_MAX_POOLS];
};

struct kvl {
	struct kvl_pool *pool[KVCACHE_MAX_POOLS];
	struct kvl_tenant **tenant;
	struct kvl_client **client;
	struct list_head tenants;
	struct list_head done;		/* requests to be woken */
	struct kvl_node *spare;
	u32 nr_spare;
	u32 nr_nodes;
	u32 max_tenants;
	u32 max_clients;
	u32 tenant_clients;
	u32 slice;
	u32 nr_events;
	u32 nr_due;			/* accounts that kvl_tick() looks at */
	bool revoked;			/* a page was, see kvl_revoked() */
	u64 posted;			/* events */
	u32 last_client;		/* so that numbers are reused late */
	u32 last_tenant;
	u64 now;
	u64 seq;
	u64 seed[6];
	u32 last_gen[KVCACHE_MAX_POOLS];	/* of pools that are gone */
	struct kvl_nodes *chunks;
};

#include "ledger_list.h"

/* ---- small things ------------------------------------------------------- */

static inline u64 kvl_handle(const struct kvl_pool *p, u32 i)
{
	return (u64)p->page[i].gen << 32 | i;
}

static inline struct kvl_account *kvl_owner(const struct kvl_pool *p, u32 i)
{
	return &p->acct[p->page[i].tenant];
}

static inline bool kvl_above_max(const struct kvl_account *a)
{
	return a->cur - a->leaving > a->max;
}

/* kvl_tick() has, or will have, something to do for it. */
static inline bool kvl_is_due(const struct kvl_account *a)
{
	return a->fitting || a->revoke_at != KVCACHE_TIME_NEVER;
}

/* Pages as the protection counts them. */
static inline u64 kvl_live(const struct kvl_account *a)
{
	return a->cur - a->leaving + a->claims;
}

/* What is promised to it and not there yet, if @live pages are. */
static inline u64 kvl_gap_at(const struct kvl_account *a, u64 live)
{
	return a->min > live ? a->min - live : 0;
}

static inline u64 kvl_gap(const struct kvl_account *a)
{
	return kvl_gap_at(a, kvl_live(a));
}

/* What others can take from it, if @live pages are there. */
static inline u64 kvl_spare_at(const struct kvl_account *a, u64 live)
{
	return live > a->min ? min_t(u64, a->takeable, live - a->min) : 0;
}

static inline u64 kvl_spare(const struct kvl_account *a)
{
	return kvl_spare_at(a, kvl_live(a));
}

static inline u64 kvl_add_sat(u64 a, u64 b)
{
	return a + b < a ? KVCACHE_TIME_NEVER : a + b;
}

static inline struct kvl_pool *kvl_pool_get(const struct kvl *l, u32 pool)
{
	if (pool >= KVCACHE_MAX_POOLS)
		return NULL;
	return l->pool[array_index_nospec(pool, KVCACHE_MAX_POOLS)];
}

static inline struct kvl_tenant *kvl_tenant_get(const struct kvl *l, u32 id)
{
	if (id > l->max_tenants)
		return NULL;
	return l->tenant[array_index_nospec(id, l->max_tenants + 1)];
}

static inline struct kvl_node *kvl_node_get(struct kvl *l)
{
	struct kvl_node *n = l->spare;

	l->spare = (struct kvl_node *)n->hash.next;
	l->nr_spare--;
	return n;
}

static inline void kvl_node_put(struct kvl *l, struct kvl_node *n)
{
	n->hash.next = (struct hlist_node *)l->spare;
	l->spare = n;
	l->nr_spare++;
}

/* ---- ledger.c ----------------------------------------------------------- */

bool kvl_name_ok(const char *name);
void kvl_post(struct kvl *l, u32 tenant, const struct kvcache_event *ev);

/* ---- ledger_alloc.c ----------------------------------------------------- */

void kvl_set_state(struct kvl *l, struct kvl_pool *p, u32 i, u8 state);
void kvl_retire(struct kvl *l, struct kvl_pool *p, u32 i);
void kvl_retire_again(struct kvl *l, struct kvl_pool *p, u32 i);
u64 kvl_used(const struct kvl_account *a);
u64 kvl_could_have(const struct kvl_pool *p, const struct kvl_account *a);
void kvl_pump(struct kvl *l, struct kvl_pool *p);
void kvl_unback(struct kvl_pool *p);
void kvl_keep_limit(struct kvl *l, struct kvl_pool *p, struct kvl_account *a);
void kvl_fail_all(struct kvl *l, struct kvl_pool *p, int status);
void kvl_limits_changed(struct kvl *l, struct kvl_pool *p);

/* ---- ledger_hold.c ------------------------------------------------------ */

int kvl_resolve(const struct kvl_pool *p, u64 handle, u32 *out);
struct kvl_node *kvl_hold_find(const struct kvl *l, const struct kvl_pool *p,
			       u32 client, u32 i, u32 gen);
u32 kvl_hold_count(const struct kvl *l, const struct kvl_pool *p,
		   const struct kvl_client *c, u32 i);
void kvl_hold_get(struct kvl *l, struct kvl_pool *p, struct kvl_client *c,
		  u32 i);
void kvl_hold_put(struct kvl *l, struct kvl_pool *p, struct kvl_client *c,
		  u32 i, u32 nr);
void kvl_private_put(struct kvl *l, struct kvl_pool *p, struct kvl_client *c,
		     u32 i);
void kvl_taken(struct kvl *l, struct kvl_pool *p, u32 i);
void kvl_revoke(struct kvl *l, struct kvl_pool *p, u32 i);
struct kvl_grant *kvl_grant_find(const struct kvl *l, u32 from, u32 to);
void kvl_grant_drop(struct kvl *l, u32 to, struct kvl_grant *g);
u32 kvl_hold_chain(const struct kvl *l, const struct kvl_pool *p, u32 client,
		   u32 i);

/* ---- ledger_index.c ----------------------------------------------------- */

u32 kvl_key_chain(const struct kvl *l, const struct kvl_pool *p, u32 domain,
		  const u8 *key);
bool kvl_findable(const struct kvl_pool *p, u32 i);
struct kvl_node *kvl_find(const struct kvl *l, const struct kvl_pool *p,
			  u32 domain, const u8 *key);
void kvl_unindex(struct kvl *l, struct kvl_pool *p, u32 i);

/* ---- ledger_pool.c ------------------------------------------------------ */

void kvl_account_init(struct kvl_pool *p, u32 tenant);

/* ---- ledger_reclaim.c --------------------------------------------------- */

void kvl_guard(struct kvl_pool *p, struct kvl_account *a);
u64 kvl_heap_key(const struct kvl_pool *p, const struct kvl_account *a);
void kvl_list_page(struct kvl_pool *p, u32 i);
void kvl_unlist_page(struct kvl_pool *p, u32 i);
void kvl_take(struct kvl *l, struct kvl_pool *p, u32 i);
u32 kvl_trim(struct kvl *l, struct kvl_pool *p, struct kvl_account *a,
	     bool cached, u32 budget);
bool kvl_take_own(struct kvl *l, struct kvl_pool *p, struct kvl_account *a);
bool kvl_take_any(struct kvl *l, struct kvl_pool *p, struct kvl_account *self);
void kvl_advance(struct kvl *l, struct kvl_pool *p, u64 now);
u64 kvl_clock_next(const struct kvl_pool *p);

/* ---- ledger_stat.c ------------------------------------------------------ */

u64 kvl_sum(const u64 *n, u32 nr);
void kvl_count_refusal(struct kvl_pool *p, int status);
void kvl_count_wait(struct kvl_pool *p, u64 ns, int status);

/* ---- ledger_tenant.c ---------------------------------------------------- */

void kvl_set_due(struct kvl *l, struct kvl_account *a, bool fitting,
		 u64 revoke_at);
u32 kvl_fit(struct kvl *l, struct kvl_pool *p, struct kvl_account *a,
	    u32 budget);

/* ---- changes of an account ---------------------------------------------- */

/*
 * The pool keeps sums over its accounts. Between these two, what they are made
 * of (min, low, max, cur, takeable, leaving, claims) may change.
 */
static inline void kvl_account_open(struct kvl_pool *p, struct kvl_account *a)
{
	p->promised -= kvl_gap(a);
	p->spare -= kvl_spare(a);
}

static inline void kvl_account_close(struct kvl_pool *p, struct kvl_account *a)
{
	p->promised += kvl_gap(a);
	p->spare += kvl_spare(a);
	if (a->cur > a->peak)
		a->peak = a->cur;
	kvl_guard(p, a);
	if (a->waiters && !list_empty(&a->queue))
		list_move_tail(&a->ready, &p->ready);
}

static inline void kvl_charge(struct kvl_pool *p, struct kvl_account *a, s64 n)
{
	kvl_account_open(p, a);
	a->cur += n;
	kvl_account_close(p, a);
}

static inline void kvl_takeable(struct kvl_pool *p, struct kvl_account *a,
				s64 n)
{
	kvl_account_open(p, a);
	a->takeable += n;
	kvl_account_close(p, a);
}

static inline void kvl_leaving(struct kvl_pool *p, struct kvl_account *a, s64 n)
{
	kvl_account_open(p, a);
	a->leaving += n;
	p->leaving += n;
	kvl_account_close(p, a);
}

static inline void kvl_claim(struct kvl_pool *p, struct kvl_account *a, s64 n)
{
	kvl_account_open(p, a);
	a->claims += n;
	p->claims += n;
	kvl_account_close(p, a);
}

#endif /* KVL_LEDGER_INTERNAL_H */
