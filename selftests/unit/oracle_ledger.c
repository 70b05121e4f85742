// SPDX-License-Identifier: MIT
/*
 * oracle_ledger.c - charge, order of reclaim, waiting and time, by linear
 * scans over everything. Nothing here knows how the ledger does it.
 */
#include <errno.h>
#include <string.h>

#include "oracle_priv.h"

/* ---- counting -------------------------------------------------------- */

bool orc_is_takeable(const struct orc_page *g)
{
	if (g->state == KVCACHE_PAGE_CACHED)
		return !g->pins;
	return g->state == KVCACHE_PAGE_PRIVATE && g->is_volatile;
}

/* RETIRING, and FREE as soon as the work on it is done. */
static bool leaving(const struct orc_page *g)
{
	return g->state == KVCACHE_PAGE_RETIRING && !g->stuck;
}

u64 orc_cur(const struct oracle *o, u32 pool, u32 tenant)
{
	const struct orc_pool *p = &o->pool[pool];
	u64 n = 0;

	for (u32 i = 1; i <= p->nr; i++)
		n += p->page[i].state != KVCACHE_PAGE_FREE &&
		     p->page[i].tenant == tenant;
	return n;
}

static u32 nr_free(const struct oracle *o, u32 pool)
{
	const struct orc_pool *p = &o->pool[pool];
	u32 n = 0;

	for (u32 i = 1; i <= p->nr; i++)
		n += p->page[i].state == KVCACHE_PAGE_FREE;
	return n;
}

s64 orc_takeable(const struct oracle *o, u32 pool, u32 tenant)
{
	const struct orc_pool *p = &o->pool[pool];
	s64 n = 0;

	for (u32 i = 1; i <= p->nr; i++)
		n += orc_is_takeable(&p->page[i]) && p->page[i].tenant == tenant;
	return n;
}

/* Pages of waiting requests: of those with pages on their way, or without. */
static s64 asked(const struct oracle *o, u32 pool, u32 tenant,
		 enum orc_queue queue)
{
	s64 n = 0;

	for (u32 i = 0; i < ORC_REQUESTS; i++) {
		const struct orc_request *r = &o->req[i];

		if (r->busy && r->queue == queue && r->pool == pool &&
		    (!tenant || r->tenant == tenant))
			n += r->nr;
	}
	return n;
}

/* FREE now or as soon as the work is done, and nobody's yet. */
s64 orc_unclaimed(const struct oracle *o, u32 pool)
{
	const struct orc_pool *p = &o->pool[pool];
	s64 n = 0;

	for (u32 i = 1; i <= p->nr; i++)
		n += p->page[i].state == KVCACHE_PAGE_FREE ||
		     leaving(&p->page[i]);
	return n - asked(o, pool, 0, ORC_BACKED);
}

/* A page on its way counts as where it goes to. */
s64 orc_live(const struct oracle *o, u32 pool, u32 tenant)
{
	const struct orc_pool *p = &o->pool[pool];
	s64 n = orc_cur(o, pool, tenant);

	for (u32 i = 1; i <= p->nr; i++)
		n -= leaving(&p->page[i]) && p->page[i].tenant == tenant;
	return n + asked(o, pool, tenant, ORC_BACKED);
}

s64 orc_used(const struct oracle *o, u32 pool, u32 tenant)
{
	return orc_live(o, pool, tenant) - orc_takeable(o, pool, tenant) +
	       asked(o, pool, tenant, ORC_POOL);
}

u64 orc_sum_min(const struct oracle *o, u32 pool, u32 but)
{
	u64 n = 0;

	for (u32 t = 1; t < ORC_TENANTS; t++)
		if (o->tenant[t].used && t != but)
			n += o->pool[pool].lim[t].min;
	return n;
}

s64 orc_available(const struct oracle *o, u32 pool, u32 tenant)
{
	s64 n = orc_unclaimed(o, pool) + orc_takeable(o, pool, tenant);

	for (u32 t = 1; t < ORC_TENANTS; t++) {
		s64 above = orc_live(o, pool, t) - o->pool[pool].lim[t].min;

		if (!o->tenant[t].used || t == tenant)
			continue;
		if (above > 0)
			n += min_t(s64, orc_takeable(o, pool, t), above);
		else
			n += above;
	}
	return max_t(s64, n, 0);
}

static u64 limit_of(const struct oracle *o, u32 pool, u32 tenant)
{
	const struct orc_pool *p = &o->pool[pool];

	return min_t(u64, p->lim[tenant].max,
		     p->nr - orc_sum_min(o, pool, tenant));
}

static s64 room_of(const struct oracle *o, u32 pool, u32 tenant)
{
	u64 max = o->pool[pool].lim[tenant].max;
	u64 used = orc_used(o, pool, tenant);

	if (o->pool[pool].lim[tenant].fitting)
		return 0;
	return max > used ? min_t(u64, max - used, INT64_MAX) : 0;
}

/* ---- time ------------------------------------------------------------ */

void orc_stamp(struct oracle *o, u32 pool, struct orc_page *g)
{
	g->stamp = ++o->count;
	if (g->state != KVCACHE_PAGE_CACHED)
		return;
	if (g->prio_end <= o->pool[pool].now) {
		g->prio = KVCACHE_PRIO_DEFAULT;
		g->prio_end = KVCACHE_TIME_NEVER;
	}
	g->expired = g->expiry <= o->pool[pool].now;
}

/* What is due happens in the order of the old stamps. */
void orc_call(struct oracle *o, u32 pool, u64 now)
{
	struct orc_pool *p = &o->pool[pool];
	bool due[ORC_PAGES] = { false };
	u32 i, first;

	o->now = max_t(u64, o->now, now);
	p->now = o->now;
	for (i = 1; i <= p->nr; i++) {
		struct orc_page *g = &p->page[i];

		due[i] = g->state == KVCACHE_PAGE_CACHED && !g->pins &&
			 !g->expired &&
			 min_t(u64, g->expiry, g->prio_end) <= p->now;
	}
	do {
		for (first = 0, i = 1; i <= p->nr; i++)
			if (due[i] && (!first ||
				       p->page[i].stamp < p->page[first].stamp))
				first = i;
		due[first] = false;
		if (first)
			orc_stamp(o, pool, &p->page[first]);
	} while (first);
}

/* ---- taking ---------------------------------------------------------- */

static bool before(const struct orc_page *a, const struct orc_page *b)
{
	if (a->expired != b->expired)
		return a->expired;
	if (!a->expired && a->prio != b->prio)
		return a->prio < b->prio;
	return a->stamp < b->stamp;
}

/* Which takeable pages are looked at. */
enum pass { ALL, CACHED, EXPIRED, OPEN, ABOVE_MIN };

static bool in_pass(const struct oracle *o, u32 pool, u32 tenant,
		    enum pass pass)
{
	const struct orc_limits *lim = &o->pool[pool].lim[tenant];
	u64 live = orc_live(o, pool, tenant);

	return live > lim->min && (pass == ABOVE_MIN || live > lim->low);
}

/* The first page to take, of one tenant or (0) of all. */
static u32 first_of(const struct oracle *o, u32 pool, u32 tenant,
		    enum pass pass)
{
	const struct orc_pool *p = &o->pool[pool];
	u32 best = 0;

	for (u32 i = 1; i <= p->nr; i++) {
		const struct orc_page *g = &p->page[i];

		if (!orc_is_takeable(g) || (tenant && g->tenant != tenant))
			continue;
		if (pass == CACHED && g->state != KVCACHE_PAGE_CACHED)
			continue;
		if (pass == EXPIRED && !g->expired)
			continue;
		if (pass >= OPEN && !in_pass(o, pool, g->tenant, pass))
			continue;
		if (!best || before(g, &p->page[best]))
			best = i;
	}
	return best;
}

u32 orc_oldest(const struct oracle *o, u32 pool, u32 tenant, bool cached)
{
	return first_of(o, pool, tenant, cached ? CACHED : ALL);
}

u32 orc_expired(const struct oracle *o, u32 pool)
{
	return first_of(o, pool, 0, EXPIRED);
}

static void reclaim(struct oracle *o, u32 pool, u32 index, u32 cause)
{
	struct orc_pool *p = &o->pool[pool];

	p->reclaims++;
	p->stat.out_reclaims[cause]++;
	p->stat.out_volatile += p->page[index].is_volatile;
	p->lim[p->page[index].tenant].reclaims++;
	orc_take(o, pool, index);
}

bool orc_reclaim_own(struct oracle *o, u32 pool, u32 tenant)
{
	u32 i = first_of(o, pool, tenant, ALL);

	if (i)
		reclaim(o, pool, i, KVCACHE_RECLAIM_OWN);
	return i != 0;
}

static void make_room(struct oracle *o, u32 pool, u32 tenant, u32 nr)
{
	static const enum pass passes[] = { EXPIRED, OPEN, ABOVE_MIN, ALL };
	u32 i, k;

	while (orc_live(o, pool, tenant) + nr > o->pool[pool].lim[tenant].max &&
	       orc_reclaim_own(o, pool, tenant))
		;
	while (orc_unclaimed(o, pool) < nr) {
		for (k = 0, i = 0; !i && k < 4; k++)
			i = first_of(o, pool, passes[k] == ALL ? tenant : 0,
				     passes[k]);
		if (!i)
			return;
		reclaim(o, pool, i, KVCACHE_RECLAIM_EXPIRED + k - 1);
	}
}

/* ---- waiting --------------------------------------------------------- */

/* The first request in a queue; @within: within its tenant's min. */
static struct orc_request *head(struct oracle *o, u32 pool, u32 tenant,
				enum orc_queue queue, bool within)
{
	struct orc_request *best = NULL;

	for (u32 i = 0; i < ORC_REQUESTS; i++) {
		struct orc_request *r = &o->req[i];

		if (!r->busy || r->queue != queue || r->pool != pool ||
		    (tenant && r->tenant != tenant))
			continue;
		if (within && orc_live(o, pool, r->tenant) + r->nr >
			      o->pool[pool].lim[r->tenant].min)
			continue;
		if (!best || r->order < best->order)
			best = r;
	}
	return best;
}

/* The request that came last into a queue. */
static struct orc_request *tail(struct oracle *o, u32 pool, u32 tenant,
				enum orc_queue queue)
{
	struct orc_request *last = NULL;

	for (u32 i = 0; i < ORC_REQUESTS; i++) {
		struct orc_request *r = &o->req[i];

		if (r->busy && r->queue == queue && r->pool == pool &&
		    (!tenant || r->tenant == tenant) &&
		    (!last || r->order > last->order))
			last = r;
	}
	return last;
}

static void queue_up(struct oracle *o, struct orc_request *r,
		     enum orc_queue queue)
{
	r->queue = queue;
	r->order = ++o->count;
}

void orc_finish(struct oracle *o, struct orc_request *r, int status)
{
	orc_waited(o, r, status);
	r->queue = ORC_NONE;
	r->status = status;
	o->done[o->nr_done++] = r - o->req;
}

static void hand_out(struct oracle *o, struct orc_request *r)
{
	struct orc_pool *p = &o->pool[r->pool];
	u64 cur;

	for (u32 k = 0; k < r->nr; k++) {
		struct orc_page *g = NULL;

		for (u32 i = 1; i <= p->nr; i++)
			if (p->page[i].state == KVCACHE_PAGE_FREE &&
			    (!g || p->page[i].freed > g->freed))
				g = &p->page[i];
		g->state = KVCACHE_PAGE_PRIVATE;
		g->tenant = r->tenant;
		g->owner = r->client;
		g->prio = KVCACHE_PRIO_DEFAULT;
		g->prio_end = KVCACHE_TIME_NEVER;
		g->acquired[r->client] = ++o->count;
		g->used = o->now;
		r->pages[k] = orc_handle(o, r->pool, g - p->page);
	}
	p->allocs += r->nr;
	p->wanted = 0;
	cur = orc_cur(o, r->pool, r->tenant);
	p->lim[r->tenant].peak = max_t(u64, p->lim[r->tenant].peak, cur);
}

/* FREE pages, and room for them beside all that is still charged. */
static bool is_there(const struct oracle *o, const struct orc_request *r)
{
	return nr_free(o, r->pool) >= r->nr &&
	       orc_cur(o, r->pool, r->tenant) + r->nr <=
	       o->pool[r->pool].lim[r->tenant].max;
}

/* Those whose pages are FREE by now get them. */
static void grant(struct oracle *o, u32 pool)
{
	struct orc_request *r;

	while ((r = head(o, pool, 0, ORC_BACKED, false)) && is_there(o, r)) {
		orc_finish(o, r, 0);
		hand_out(o, r);
		if (r->nowait)
			continue;
		orc_post(o, r->tenant, &(struct kvcache_event){
			.type = KVCACHE_EV_GRANTED, .pool = pool,
			.tenant = r->tenant, .value = r->nr });
	}
}

u32 orc_fit(struct oracle *o, u32 pool, u32 tenant, u32 budget)
{
	struct orc_limits *lim = &o->pool[pool].lim[tenant];
	u32 done = 0;

	while (done < budget && orc_live(o, pool, tenant) > lim->max &&
	       orc_reclaim_own(o, pool, tenant))
		done++;
	if (!lim->fitting)
		return done;
	if (!lim->told && orc_staying(o, pool, tenant) -
			  orc_takeable(o, pool, tenant) > lim->max) {
		orc_post(o, tenant, &(struct kvcache_event){
			.type = KVCACHE_EV_SHRINK, .pool = pool,
			.tenant = tenant, .value = lim->max });
		lim->told = true;
	}
	if (orc_live(o, pool, tenant) > lim->max &&
	    orc_takeable(o, pool, tenant))
		return done;
	lim->fitting = false;
	if (orc_staying(o, pool, tenant) <= lim->max)
		lim->deadline = KVCACHE_TIME_NEVER;
	return done;
}

/* The last requests of a tenant that is over its max wait for that again. */
void orc_keep_limit(struct oracle *o, u32 pool, u32 tenant)
{
	const struct orc_limits *lim = &o->pool[pool].lim[tenant];
	struct orc_request *r;

	for (;;) {
		r = NULL;
		if (orc_used(o, pool, tenant) > lim->max)
			r = tail(o, pool, tenant, ORC_POOL);
		if (!r && orc_live(o, pool, tenant) -
			  orc_takeable(o, pool, tenant) > lim->max)
			r = tail(o, pool, tenant, ORC_BACKED);
		if (!r)
			break;
		r->queue = ORC_OWN;
		r->order = --o->front;
		if (r->nowait)
			orc_finish(o, r, -EDQUOT);
	}
	orc_fit(o, pool, tenant, orc_slice(o));
}

/* One step of one request; false if all have to wait. */
static bool serve_one(struct oracle *o, u32 pool)
{
	struct orc_request *r;

	for (u32 t = 1; t < ORC_TENANTS; t++) {
		r = head(o, pool, t, ORC_OWN, false);
		if (!r)
			continue;
		if (r->nr > limit_of(o, pool, t))
			orc_finish(o, r, -E2BIG);
		else if (r->nr <= room_of(o, pool, t))
			queue_up(o, r, ORC_POOL);
		else
			continue;
		return true;
	}
	r = head(o, pool, 0, ORC_POOL, true);
	if (!r)
		r = head(o, pool, 0, ORC_POOL, false);
	if (!r)
		return false;
	if (r->nr > limit_of(o, pool, r->tenant)) {
		orc_finish(o, r, -E2BIG);
		return true;
	}
	if (orc_used(o, pool, r->tenant) > o->pool[pool].lim[r->tenant].max) {
		orc_keep_limit(o, pool, r->tenant);
		return true;
	}
	if (o->pool[pool].lim[r->tenant].fitting)
		return false;
	if (orc_available(o, pool, r->tenant) < r->nr) {
		if (!r->nowait)
			r = head(o, pool, 0, ORC_POOL, false);
		if (r->nowait)
			orc_finish(o, r, -ENOSPC);
		return r->nowait;
	}
	r->queue = ORC_NONE;
	make_room(o, pool, r->tenant, r->nr);
	queue_up(o, r, ORC_BACKED);
	return true;
}

void orc_serve(struct oracle *o, u32 pool)
{
	do
		grant(o, pool);
	while (serve_one(o, pool));
}

/* Pages that were on their way are not: the last requests wait again. */
void orc_unback(struct oracle *o, u32 pool)
{
	struct orc_request *last;

	while (orc_unclaimed(o, pool) < 0) {
		last = tail(o, pool, 0, ORC_BACKED);
		last->queue = ORC_POOL;
		last->order = --o->front;
	}
}

/* ---- requests -------------------------------------------------------- */

static int test(struct oracle *o, u32 pool, u32 tenant, u64 nr, u64 *missing)
{
	const struct orc_limits *lim = &o->pool[pool].lim[tenant];
	u64 limit = limit_of(o, pool, tenant), have;
	bool within;

	*missing = nr;
	if (o->pool[pool].draining)
		return -ESHUTDOWN;
	if (nr > limit) {
		*missing = nr - limit;
		return -E2BIG;
	}
	have = room_of(o, pool, tenant);
	if (nr > have) {
		*missing = nr - have;
		return -EDQUOT;
	}
	if (head(o, pool, tenant, ORC_OWN, false))
		return -EDQUOT;
	have = orc_available(o, pool, tenant);
	if (nr > have) {
		*missing = nr - have;
		return -ENOSPC;
	}
	within = orc_live(o, pool, tenant) + nr <= lim->min;
	if (head(o, pool, 0, ORC_POOL, within))
		return -ENOSPC;
	*missing = 0;
	return 0;
}

/* Pages that could be had, by trying every number. */
u64 orc_could_have(struct oracle *o, u32 pool, u32 tenant)
{
	u64 n = 0, missing;

	while (!test(o, pool, tenant, n + 1, &missing))
		n++;
	return n;
}

int orc_check(struct oracle *o, u32 client, u32 pool, u64 nr,
	      struct kvl_check *out)
{
	u32 tenant = o->client[client].tenant;

	if (o->client[client].dead)
		return -EOWNERDEAD;
	if (pool >= ORC_POOLS || !o->pool[pool].used)
		return -ENOENT;
	memset(out, 0, sizeof(*out));
	if (nr)
		out->status = test(o, pool, tenant, nr, &out->missing);
	out->available = orc_could_have(o, pool, tenant);
	out->limit = limit_of(o, pool, tenant);
	out->held = orc_cur(o, pool, tenant);
	return 0;
}

/* Those above their low are told once how many pages are missing. */
static void want(struct oracle *o, u32 pool, u64 missing)
{
	struct orc_pool *p = &o->pool[pool];

	if (missing <= p->wanted)
		return;
	p->wanted = missing;
	for (u32 t = 1; t < ORC_TENANTS; t++)
		if (o->tenant[t].used && in_pass(o, pool, t, OPEN))
			orc_post(o, t, &(struct kvcache_event){
				.type = KVCACHE_EV_RECLAIM, .pool = pool,
				.tenant = t, .value = missing });
}

int orc_alloc(struct oracle *o, u32 client, u32 req, bool wait, u64 now)
{
	struct orc_request *r = &o->req[req];
	u32 tenant = o->client[client].tenant;

	r->client = client;
	r->tenant = tenant;
	r->queue = ORC_NONE;
	r->nowait = !wait;
	r->missing = 0;
	if (o->client[client].dead)
		return r->status = -EOWNERDEAD;
	if (r->pool >= ORC_POOLS || !o->pool[r->pool].used)
		return r->status = -ENOENT;
	if (!r->nr || r->nr > KVCACHE_MAX_PAGES)
		return r->status = -EINVAL;
	orc_call(o, r->pool, now);
	r->status = test(o, r->pool, tenant, r->nr, &r->missing);
	if (r->status == -EDQUOT) {
		o->pool[r->pool].lim[tenant].hits_max++;
		orc_post(o, tenant, &(struct kvcache_event){
			.type = KVCACHE_EV_LIMIT_HIT, .pool = r->pool,
			.tenant = tenant, .value = r->nr });
	}
	if (r->status == -ENOSPC)
		want(o, r->pool, r->missing);
	if (!r->status) {
		make_room(o, r->pool, tenant, r->nr);
		if (!head(o, r->pool, 0, ORC_BACKED, false) &&
		    is_there(o, r)) {
			hand_out(o, r);
			return 0;
		}
		queue_up(o, r, ORC_BACKED);
	} else if (wait && r->status == -EDQUOT) {
		queue_up(o, r, ORC_OWN);
	} else if (wait && r->status == -ENOSPC) {
		queue_up(o, r, ORC_POOL);
	} else {
		orc_refused(o, r->pool, r->status);
		return r->status;
	}
	r->status = KVL_WAITING;
	r->since = o->now;
	orc_serve(o, r->pool);
	return r->status;
}

int orc_cancel(struct oracle *o, u32 req, int err, u64 now)
{
	struct orc_request *r = &o->req[req];

	if (r->queue == ORC_NONE)
		return r->status;
	orc_call(o, r->pool, now);
	orc_waited(o, r, err);
	r->queue = ORC_NONE;
	r->status = err;
	orc_serve(o, r->pool);
	return err;
}

int orc_work_done(struct oracle *o, u32 pool, u32 index, bool clean, u64 now)
{
	struct orc_page *g = &o->pool[pool].page[index];

	if (g->state != KVCACHE_PAGE_RETIRING || g->queued)
		return -EINVAL;
	if (clean && g->pins)
		return -EBUSY;
	orc_call(o, pool, now);
	if (clean) {
		orc_release(o, pool, index);
	} else {
		g->stuck = true;
		orc_keep_limit(o, pool, g->tenant);
		orc_unback(o, pool);
	}
	orc_serve(o, pool);
	return 0;
}

/* The page that has waited longest for the work on it. */
u32 orc_work_next(const struct oracle *o, u32 pool)
{
	const struct orc_pool *p = &o->pool[pool];
	u32 best = 0;

	for (u32 i = 1; i <= p->nr; i++)
		if (p->page[i].queued &&
		    (!best || p->page[i].retired < p->page[best].retired))
			best = i;
	return best;
}
