// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * ledger_alloc.c - charging, waiting, handing out, and the way back to FREE.
 *
 * A request that passes the tests is backed: pages are taken for it, and once
 * they are FREE it is granted. In a pool without work both happen at once.
 */
#include "ledger_internal.h"

void kvl_set_state(struct kvl *l, struct kvl_pool *p, u32 i, u8 state)
{
	p->nr[p->page[i].state]--;
	p->nr[state]++;
	p->page[i].state = state;
	l->seq++;
}

/* ---- back to FREE ------------------------------------------------------- */

static void kvl_release(struct kvl *l, struct kvl_pool *p, u32 i)
{
	struct kvl_account *a = kvl_owner(p, i);

	p->page[i].tenant = 0;
	p->page[i].flags = 0;
	kvl_set_state(l, p, i, KVCACHE_PAGE_FREE);
	kvl_order_add(p->page, &p->free, i);
	p->frees++;
	kvl_charge(p, a, -1);
}

static void kvl_work_add(struct kvl_pool *p, u32 i)
{
	p->page[i].flags = KVL_PF_QUEUED;
	kvl_order_add_tail(p->page, &p->work, i);
	kvl_leaving(p, kvl_owner(p, i), 1);
}

/* A page that is in no list and no hash left its owner. */
void kvl_retire(struct kvl *l, struct kvl_pool *p, u32 i)
{
	struct kvl_page *pg = &p->page[i];

	if (!++pg->gen)
		pg->gen = 1;
	p->last_gen = max_t(u32, p->last_gen, pg->gen);
	pg->client = 0;
	pg->count = 0;
	pg->refs = 0;
	if (!pg->pins && (p->flags & KVL_POOL_DIRECT)) {
		kvl_release(l, p, i);
		return;
	}
	kvl_set_state(l, p, i, KVCACHE_PAGE_RETIRING);
	if (pg->pins)
		pg->flags = KVL_PF_STUCK;
	else
		kvl_work_add(p, i);
}

/* A stuck page lost its last pin. */
void kvl_retire_again(struct kvl *l, struct kvl_pool *p, u32 i)
{
	if (p->flags & KVL_POOL_DIRECT)
		kvl_release(l, p, i);
	else
		kvl_work_add(p, i);
}

u32 kvl_work_next(struct kvl *l, u32 pool)
{
	struct kvl_pool *p = kvl_pool_get(l, pool);
	u32 i = p ? p->work.first : 0;

	if (!i)
		return 0;
	kvl_order_del(p->page, &p->work, i);
	p->page[i].flags &= ~KVL_PF_QUEUED;
	return i;
}

/* ---- the tests ---------------------------------------------------------- */

/* What counts against an account's max and cannot be taken. */
u64 kvl_used(const struct kvl_account *a)
{
	return a->cur - a->leaving - a->takeable + a->claims + a->asked;
}

/* What a request may add before it meets the max. */
static u64 kvl_room(const struct kvl_account *a)
{
	return a->fitting ? 0 : a->max - min_t(u64, a->max, kvl_used(a));
}

static u64 kvl_available(const struct kvl_pool *p, const struct kvl_account *a)
{
	u64 have = p->nr[KVCACHE_PAGE_FREE] + p->leaving + a->takeable +
		   p->spare - kvl_spare(a);
	u64 owed = p->claims + p->promised - kvl_gap(a);

	return have > owed ? have - owed : 0;
}

static u64 kvl_limit(const struct kvl_pool *p, const struct kvl_account *a)
{
	u64 others = min_t(u64, p->sum_min - a->min + p->lost, p->nr_pages);

	return min_t(u64, a->max, p->nr_pages - others);
}

static bool kvl_within_min(const struct kvl_account *a, u64 nr)
{
	return kvl_live(a) + nr <= a->min;
}

/* The first waiting request that is within its tenant's min. */
static struct kvl_request *kvl_promised(const struct kvl_pool *p)
{
	struct kvl_request *r;

	if (!p->promises)
		return NULL;
	list_for_each_entry(r, &p->queue, link)
		if (kvl_within_min(&p->acct[r->client->tenant], r->nr))
			return r;
	return NULL;
}

/* Must a request that comes now wait behind others. */
static bool kvl_behind(const struct kvl_pool *p, const struct kvl_account *a,
		       u64 nr)
{
	if (list_empty(&p->queue))
		return false;
	return !kvl_within_min(a, nr) || kvl_promised(p);
}

static int kvl_test(const struct kvl_pool *p, const struct kvl_account *a,
		    u64 nr, u64 *missing)
{
	u64 limit = kvl_limit(p, a), room;

	if (p->draining) {
		*missing = nr;
		return -ESHUTDOWN;
	}
	if (nr > limit) {
		*missing = nr - limit;
		return -E2BIG;
	}
	room = kvl_room(a);
	if (nr > room || !list_empty(&a->queue)) {
		*missing = nr > room ? nr - room : nr;
		return -EDQUOT;
	}
	room = kvl_available(p, a);
	if (nr > room || kvl_behind(p, a, nr)) {
		*missing = nr > room ? nr - room : nr;
		return -ENOSPC;
	}
	*missing = 0;
	return 0;
}

/* The largest request that passes the tests. */
u64 kvl_could_have(const struct kvl_pool *p, const struct kvl_account *a)
{
	u64 room = kvl_room(a);

	if (p->draining || !list_empty(&a->queue))
		return 0;
	room = min_t(u64, room, kvl_available(p, a));
	if (list_empty(&p->queue))
		return room;
	return kvl_promised(p) ? 0 : min_t(u64, room, kvl_gap(a));
}

int kvl_alloc_check(const struct kvl *l, const struct kvl_client *c, u32 pool,
		    u64 nr, struct kvl_check *out)
{
	const struct kvl_pool *p = kvl_pool_get(l, pool);
	const struct kvl_account *a;

	if (c->dead)
		return -EOWNERDEAD;
	if (!p)
		return -ENOENT;
	a = &p->acct[c->tenant];
	out->missing = 0;
	out->status = nr ? kvl_test(p, a, nr, &out->missing) : 0;
	out->limit = kvl_limit(p, a);
	out->held = a->cur;
	out->available = kvl_could_have(p, a);
	return 0;
}

/* ---- requests ----------------------------------------------------------- */

static void kvl_enqueue(struct kvl_pool *p, struct kvl_request *r, u8 queue)
{
	struct kvl_account *a = &p->acct[r->client->tenant];

	r->queue = queue;
	if (queue == KVL_Q_LIMIT) {
		list_add_tail(&r->link, &a->queue);
	} else if (queue == KVL_Q_POOL) {
		list_add_tail(&r->link, &p->queue);
		a->asked += r->nr;
		p->promises += a->min != 0;
	} else {
		list_add_tail(&r->link, &p->backed);
		kvl_claim(p, a, r->nr);
	}
}

static void kvl_dequeue(struct kvl_pool *p, struct kvl_request *r)
{
	struct kvl_account *a = &p->acct[r->client->tenant];

	list_del_init(&r->link);
	if (r->queue == KVL_Q_POOL) {
		a->asked -= r->nr;
		p->promises -= a->min != 0;
	} else if (r->queue == KVL_Q_BACKED) {
		kvl_claim(p, a, -(s64)r->nr);
	}
	r->queue = KVL_Q_NONE;
	/* It may have been in the way of others. */
	if (list_empty(&a->queue))
		list_del_init(&a->ready);
	else
		list_move_tail(&a->ready, &p->ready);
}

/* A waiting request ends, and its caller is to be woken. */
static void kvl_finish(struct kvl *l, struct kvl_pool *p, struct kvl_request *r,
		       int status)
{
	kvl_dequeue(p, r);
	list_del_init(&r->peers);
	p->waiters--;
	p->acct[r->client->tenant].waiters--;
	kvl_count_wait(p, l->now - r->since, status);
	r->status = status;
	r->queue = KVL_Q_DONE;
	list_add_tail(&r->link, &l->done);
}

static void kvl_hand_out(struct kvl *l, struct kvl_pool *p,
			 struct kvl_request *r)
{
	struct kvl_client *c = r->client;
	struct kvl_client_pool *cp = &c->pool[p->id];
	struct kvl_page *pg;
	u32 k, i;

	for (k = 0; k < r->nr; k++) {
		i = p->free.first;
		pg = &p->page[i];
		kvl_order_del(p->page, &p->free, i);
		kvl_own_add_tail(p->page, &cp->pages, i);
		kvl_set_state(l, p, i, KVCACHE_PAGE_PRIVATE);
		if (!pg->gen)
			pg->gen = p->first_gen;
		pg->prio = KVCACHE_PRIO_DEFAULT;
		pg->tenant = c->tenant;
		pg->client = c->id;
		pg->count = 1;
		pg->refs = 1;
		pg->used = l->now;
		r->pages[k] = kvl_handle(p, i);
	}
	cp->nr_private += r->nr;
	p->allocs += r->nr;
	p->wanted = 0;
	kvl_charge(p, &p->acct[c->tenant], r->nr);
}

/* Takes what a request that passed the tests needs. */
static void kvl_make_room(struct kvl *l, struct kvl_pool *p,
			  struct kvl_account *a, u32 nr)
{
	while (kvl_live(a) + nr > a->max)
		if (WARN_ON_ONCE(!kvl_take_own(l, p, a)))
			return;
	while (p->nr[KVCACHE_PAGE_FREE] + p->leaving < p->claims + nr)
		if (WARN_ON_ONCE(!kvl_take_any(l, p, a)))
			return;
}

/*
 * Pages that are on their way out do not count against the max, but they are
 * charged until they are gone: what comes for them comes after.
 */
static bool kvl_is_there(const struct kvl_pool *p, const struct kvl_request *r)
{
	const struct kvl_account *a = &p->acct[r->client->tenant];

	return p->nr[KVCACHE_PAGE_FREE] >= r->nr && a->cur + r->nr <= a->max;
}

static void kvl_grant_backed(struct kvl *l, struct kvl_pool *p)
{
	struct kvl_request *r;
	struct kvcache_event ev;

	while (!list_empty(&p->backed)) {
		r = list_first_entry(&p->backed, struct kvl_request, link);
		if (!kvl_is_there(p, r))
			return;
		kvl_finish(l, p, r, 0);
		kvl_hand_out(l, p, r);
		/* Who would not wait is not told that it did. */
		if (r->nowait)
			continue;
		ev = (struct kvcache_event){
			.type = KVCACHE_EV_GRANTED,
			.pool = p->id,
			.tenant = r->client->tenant,
			.value = r->nr,
		};
		kvl_post(l, ev.tenant, &ev);
	}
}

/* Back to the tenant's own queue, before those that came later. */
static void kvl_wait_for_limit(struct kvl *l, struct kvl_pool *p,
			       struct kvl_account *a, struct kvl_request *r)
{
	kvl_dequeue(p, r);
	r->queue = KVL_Q_LIMIT;
	list_add(&r->link, &a->queue);
	list_move_tail(&a->ready, &p->ready);
	if (r->nowait)
		kvl_finish(l, p, r, -EDQUOT);
}

/*
 * An account may be over its max: the max was lowered, pages it counted on were
 * taken into use, or turned out to be stuck. Its latest requests wait again.
 */
void kvl_keep_limit(struct kvl *l, struct kvl_pool *p, struct kvl_account *a)
{
	struct kvl_request *r, *prev;

	list_for_each_entry_safe_reverse(r, prev, &p->queue, link)
		if (kvl_used(a) > a->max && r->client->tenant == a->tenant)
			kvl_wait_for_limit(l, p, a, r);
	list_for_each_entry_safe_reverse(r, prev, &p->backed, link)
		if (kvl_live(a) - a->takeable > a->max &&
		    r->client->tenant == a->tenant)
			kvl_wait_for_limit(l, p, a, r);
	kvl_fit(l, p, a, l->slice);
}

/* Requests of an account that are within its limit now go on. */
static void kvl_pump_account(struct kvl *l, struct kvl_pool *p,
			     struct kvl_account *a)
{
	struct kvl_request *r;

	while (!list_empty(&a->queue)) {
		r = list_first_entry(&a->queue, struct kvl_request, link);
		if (r->nr > kvl_limit(p, a)) {
			kvl_finish(l, p, r, -E2BIG);
			continue;
		}
		if (r->nr > kvl_room(a))
			return;
		kvl_dequeue(p, r);
		kvl_enqueue(p, r, KVL_Q_POOL);
	}
}

/* A request that lost its pages and was not to wait. */
static bool kvl_give_up(struct kvl *l, struct kvl_pool *p,
			struct kvl_request *r)
{
	if (!r->nowait)
		return false;
	r->missing = r->nr;
	kvl_finish(l, p, r, -ENOSPC);
	return true;
}

/* The request that comes next; false if all have to wait. */
static bool kvl_pump_pool(struct kvl *l, struct kvl_pool *p)
{
	struct kvl_request *first, *r;
	struct kvl_account *a;

	if (list_empty(&p->queue))
		return false;
	first = list_first_entry(&p->queue, struct kvl_request, link);
	r = kvl_promised(p);
	if (!r)
		r = first;
	a = &p->acct[r->client->tenant];
	if (r->nr > kvl_limit(p, a)) {
		kvl_finish(l, p, r, -E2BIG);
		return true;
	}
	if (kvl_used(a) > a->max) {
		kvl_keep_limit(l, p, a);
		return true;
	}
	/* What is being taken back is about to change the rest. */
	if (a->fitting)
		return false;
	if (kvl_available(p, a) < r->nr)
		return kvl_give_up(l, p, r) ||
		       (r != first && kvl_give_up(l, p, first));
	kvl_dequeue(p, r);
	kvl_make_room(l, p, a, r->nr);
	kvl_enqueue(p, r, KVL_Q_BACKED);
	return true;
}

/* Something changed: serve whoever can be served now. */
void kvl_pump(struct kvl *l, struct kvl_pool *p)
{
	struct kvl_account *a;

	if (!p->waiters)
		return;
	do {
		kvl_grant_backed(l, p);
		while (!list_empty(&p->ready)) {
			a = list_first_entry(&p->ready, struct kvl_account,
					     ready);
			list_del_init(&a->ready);
			kvl_pump_account(l, p, a);
		}
	} while (kvl_pump_pool(l, p));
}

/* Fewer pages are on their way than were claimed: the last claims wait. */
void kvl_unback(struct kvl_pool *p)
{
	struct kvl_request *r;

	while (p->nr[KVCACHE_PAGE_FREE] + p->leaving < p->claims) {
		r = list_last_entry(&p->backed, struct kvl_request, link);
		kvl_dequeue(p, r);
		kvl_enqueue(p, r, KVL_Q_POOL);
		list_del_init(&r->link);
		list_add(&r->link, &p->queue);
	}
}

int kvl_work_done(struct kvl *l, u32 pool, u32 index, bool clean, u64 now)
{
	struct kvl_pool *p = kvl_pool_get(l, pool);
	struct kvl_page *pg;

	if (!p || !index || index > p->nr_pages)
		return -EINVAL;
	pg = &p->page[index];
	if (pg->state != KVCACHE_PAGE_RETIRING || (pg->flags & KVL_PF_QUEUED))
		return -EINVAL;
	if (clean && pg->pins)
		return -EBUSY;
	kvl_advance(l, p, now);
	if (!(pg->flags & KVL_PF_STUCK))
		kvl_leaving(p, kvl_owner(p, index), -1);
	if (clean) {
		kvl_release(l, p, index);
	} else {
		pg->flags = KVL_PF_STUCK;
		kvl_keep_limit(l, p, kvl_owner(p, index));
		kvl_unback(p);
	}
	kvl_pump(l, p);
	return 0;
}

/* A page that nobody has any more, and that was found stuck, goes for good. */
static void kvl_lose(struct kvl *l, struct kvl_pool *p, u32 i)
{
	struct kvl_page *pg = &p->page[i];

	if (pg->flags != KVL_PF_STUCK || pg->pins)
		return;
	kvl_charge(p, kvl_owner(p, i), -1);
	pg->flags |= KVL_PF_LOST;
	pg->tenant = 0;
	p->lost++;
	l->seq++;
	kvl_limits_changed(l, p);
}

int kvl_page_lost(struct kvl *l, u32 pool, u32 index, u64 now)
{
	struct kvl_pool *p = kvl_pool_get(l, pool);
	struct kvl_page *pg;

	if (!p || !index || index > p->nr_pages)
		return -EINVAL;
	index = array_index_nospec(index, p->nr_pages + 1);
	kvl_advance(l, p, now);
	pg = &p->page[index];
	switch (pg->state) {
	case KVCACHE_PAGE_PRIVATE:
	case KVCACHE_PAGE_SHARED:
		kvl_revoke(l, p, index);
		break;
	case KVCACHE_PAGE_CACHED:
		if (pg->flags & KVL_PF_LISTED)
			kvl_take(l, p, index);
		break;
	case KVCACHE_PAGE_RETIRING:
		kvl_lose(l, p, index);
		break;
	}
	kvl_pump(l, p);
	return 0;
}

static void kvl_fail_list(struct kvl *l, struct kvl_pool *p,
			  struct list_head *list, int status)
{
	while (!list_empty(list))
		kvl_finish(l, p, list_first_entry(list, struct kvl_request,
						  link), status);
}

void kvl_fail_all(struct kvl *l, struct kvl_pool *p, int status)
{
	struct kvl_tenant *t;

	kvl_fail_list(l, p, &p->backed, status);
	kvl_fail_list(l, p, &p->queue, status);
	list_for_each_entry(t, &l->tenants, link)
		kvl_fail_list(l, p, &p->acct[t->id].queue, status);
}

void kvl_client_kill(struct kvl *l, struct kvl_client *c)
{
	struct kvl_request *r;
	u32 k;

	c->dead = true;
	if (c->listens)
		l->tenant[c->tenant]->listeners--;
	c->listens = false;
	while (!list_empty(&c->requests)) {
		r = list_first_entry(&c->requests, struct kvl_request, peers);
		kvl_finish(l, l->pool[r->pool], r, -EOWNERDEAD);
	}
	for (k = 0; k < KVCACHE_MAX_POOLS; k++)
		if (l->pool[k])
			kvl_pump(l, l->pool[k]);
	l->seq++;
}

/* A min or the size of the pool changed, so the limits of all did. */
void kvl_limits_changed(struct kvl *l, struct kvl_pool *p)
{
	struct kvl_tenant *t;
	struct kvl_request *r;

	p->promises = 0;
	list_for_each_entry(r, &p->queue, link)
		p->promises += p->acct[r->client->tenant].min != 0;
	list_for_each_entry(t, &l->tenants, link)
		if (!list_empty(&p->acct[t->id].queue))
			list_move_tail(&p->acct[t->id].ready, &p->ready);
}

/* ---- what clients call -------------------------------------------------- */

/* The limit was met. */
static void kvl_limit_hit(struct kvl *l, struct kvl_pool *p,
			  struct kvl_account *a, u64 nr)
{
	struct kvcache_event ev = {
		.type = KVCACHE_EV_LIMIT_HIT,
		.pool = p->id,
		.tenant = a->tenant,
		.value = nr,
	};

	a->ev_max++;
	kvl_post(l, a->tenant, &ev);
}

/* Pages are missing: tell those who are above their low, if not told before. */
static void kvl_want(struct kvl *l, struct kvl_pool *p, u64 missing)
{
	struct kvcache_event ev = {
		.type = KVCACHE_EV_RECLAIM,
		.pool = p->id,
		.value = missing,
	};
	struct kvl_tenant *t;

	if (missing <= p->wanted)
		return;
	p->wanted = missing;
	list_for_each_entry(t, &l->tenants, link) {
		if (p->acct[t->id].guard != KVL_OPEN)
			continue;
		ev.tenant = t->id;
		kvl_post(l, t->id, &ev);
	}
}

int kvl_alloc(struct kvl *l, struct kvl_client *c, struct kvl_request *r,
	      bool wait, u64 now)
{
	struct kvl_pool *p = kvl_pool_get(l, r->pool);
	struct kvl_account *a;

	INIT_LIST_HEAD(&r->link);
	INIT_LIST_HEAD(&r->peers);
	r->client = c;
	r->queue = KVL_Q_NONE;
	r->nowait = !wait;
	r->missing = 0;
	if (c->dead)
		return r->status = -EOWNERDEAD;
	if (!p)
		return r->status = -ENOENT;
	if (!r->nr || r->nr > KVCACHE_MAX_PAGES)
		return r->status = -EINVAL;
	kvl_advance(l, p, now);
	a = &p->acct[c->tenant];
	r->status = kvl_test(p, a, r->nr, &r->missing);
	if (r->status == -EDQUOT)
		kvl_limit_hit(l, p, a, r->nr);
	if (r->status == -ENOSPC)
		kvl_want(l, p, r->missing);
	if (!r->status) {
		kvl_make_room(l, p, a, r->nr);
		if (list_empty(&p->backed) && kvl_is_there(p, r)) {
			kvl_hand_out(l, p, r);
			return 0;
		}
		kvl_enqueue(p, r, KVL_Q_BACKED);
	} else if (wait && r->status == -EDQUOT) {
		kvl_enqueue(p, r, KVL_Q_LIMIT);
	} else if (wait && r->status == -ENOSPC) {
		kvl_enqueue(p, r, KVL_Q_POOL);
	} else {
		kvl_count_refusal(p, r->status);
		return r->status;
	}
	r->status = KVL_WAITING;
	r->since = l->now;
	p->waiters++;
	a->waiters++;
	list_add_tail(&r->peers, &c->requests);
	l->seq++;
	kvl_pump(l, p);
	return r->status;
}

int kvl_cancel(struct kvl *l, struct kvl_request *r, int err, u64 now)
{
	struct kvl_pool *p = kvl_pool_get(l, r->pool);

	if (r->status == KVL_WAITING) {
		kvl_advance(l, p, now);
		kvl_finish(l, p, r, err);
		kvl_pump(l, p);
	}
	if (r->queue == KVL_Q_DONE)
		list_del_init(&r->link);
	r->queue = KVL_Q_NONE;
	return r->status;
}

struct kvl_request *kvl_next_done(struct kvl *l)
{
	struct kvl_request *r;

	if (list_empty(&l->done))
		return NULL;
	r = list_first_entry(&l->done, struct kvl_request, link);
	list_del_init(&r->link);
	r->queue = KVL_Q_NONE;
	return r;
}
