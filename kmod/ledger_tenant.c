// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * ledger_tenant.c - tenants: attributes, limits, grants, flush and removal.
 */
#include "ledger_internal.h"

struct kvl_tenant *kvl_tenant_alloc(const struct kvl *l)
{
	struct kvl_tenant *t = kvzalloc(sizeof(*t), KVL_GFP);

	if (!t)
		return NULL;
	t->ev = kvcalloc(l->nr_events, sizeof(t->ev[0]), KVL_GFP);
	if (!t->ev) {
		kvfree(t);
		return NULL;
	}
	t->mode = 0400;
	t->ttl_ns = KVCACHE_TIME_NEVER;
	return t;
}

void kvl_tenant_free(struct kvl_tenant *t)
{
	if (!t)
		return;
	kvfree(t->ev);
	kvfree(t);
}

/* ---- attributes --------------------------------------------------------- */

/* The values of a change, apart from what they depend on. */
static int kvl_set_test(const struct kvl *l, const struct kvl_tenant *t,
			const struct kvcache_tenant_set *arg)
{
	const u32 all = KVCACHE_SET_LIMITS | KVCACHE_SET_OWNER |
			KVCACHE_SET_TTL | KVCACHE_SET_CGROUP |
			KVCACHE_SET_TRUST;
	const struct kvl_pool *p;
	u64 old;

	if (arg->set & ~all)
		return -EINVAL;
	if ((arg->set & KVCACHE_SET_OWNER) && (arg->mode & ~0444U))
		return -EINVAL;
	if ((arg->set & KVCACHE_SET_TTL) && !arg->ttl_ns)
		return -EINVAL;
	if ((arg->set & KVCACHE_SET_TRUST) && arg->trust > 1)
		return -EINVAL;
	if (!(arg->set & KVCACHE_SET_LIMITS))
		return 0;
	p = kvl_pool_get(l, arg->pool);
	if (!p)
		return -ENOENT;
	if (arg->min > arg->max || arg->low > arg->max)
		return -EINVAL;
	old = t->id ? p->acct[t->id].min : 0;
	/* What was promised before pages were lost may stay so. */
	if (arg->min <= old)
		return 0;
	if (arg->min > p->nr_pages ||
	    p->sum_min - old + arg->min > p->nr_pages - p->lost)
		return -ENOSPC;
	return 0;
}

/* ---- a max that is lowered ---------------------------------------------- */

void kvl_set_due(struct kvl *l, struct kvl_account *a, bool fitting,
		 u64 revoke_at)
{
	l->nr_due -= kvl_is_due(a);
	a->fitting = fitting;
	a->revoke_at = revoke_at;
	l->nr_due += kvl_is_due(a);
}

/* What is held is above the max, whatever is taken: tell those who hold it. */
static void kvl_ask_back(struct kvl *l, struct kvl_pool *p,
			 struct kvl_account *a)
{
	struct kvcache_event ev = {
		.type = KVCACHE_EV_SHRINK,
		.pool = p->id,
		.tenant = a->tenant,
		.value = a->max,
	};

	if (a->told || a->cur - a->leaving - a->takeable <= a->max)
		return;
	a->told = true;
	kvl_post(l, a->tenant, &ev);
}

/*
 * Takes pages of an account that is over its max. Only when no more can be
 * taken it is known what remains: between two slices cached pages may have come
 * into use.
 */
u32 kvl_fit(struct kvl *l, struct kvl_pool *p, struct kvl_account *a,
	    u32 budget)
{
	u32 done = 0;

	while (done < budget && kvl_live(a) > a->max && kvl_take_own(l, p, a))
		done++;
	if (!a->fitting)
		return done;
	kvl_ask_back(l, p, a);
	if (kvl_live(a) > a->max && a->takeable)
		return done;
	kvl_set_due(l, a, false, kvl_above_max(a) ? a->revoke_at :
			  KVCACHE_TIME_NEVER);
	/* Its requests had no room so far. */
	if (!list_empty(&a->queue))
		list_move_tail(&a->ready, &p->ready);
	return done;
}

static void kvl_set_limits(struct kvl *l, struct kvl_pool *p,
			   struct kvl_account *a,
			   const struct kvcache_tenant_set *arg)
{
	u64 revoke_at = arg->deadline_ns;

	/* Only its min or low is another: what was said of the max counts. */
	if (arg->max == a->max && revoke_at == KVCACHE_TIME_NEVER)
		revoke_at = a->revoke_at;
	p->sum_min += arg->min - a->min;
	kvl_account_open(p, a);
	a->min = arg->min;
	a->low = arg->low;
	a->max = arg->max;
	kvl_account_close(p, a);
	kvl_limits_changed(l, p);
	a->told = false;
	kvl_set_due(l, a, true, revoke_at);
	kvl_keep_limit(l, p, a);
	kvl_pump(l, p);
}

static void kvl_set_apply(struct kvl *l, struct kvl_tenant *t,
			  struct kvcache_tenant_set *arg, u64 now)
{
	struct kvl_pool *p;

	t->revision = arg->revision ? arg->revision : t->revision + 1;
	t->last = *arg;
	t->last.revision = t->revision;
	if (arg->set & KVCACHE_SET_OWNER) {
		t->uid = arg->uid;
		t->gid = arg->gid;
		t->mode = arg->mode;
	}
	if (arg->set & KVCACHE_SET_TTL)
		t->ttl_ns = arg->ttl_ns;
	if (arg->set & KVCACHE_SET_CGROUP)
		t->cgroup = arg->cgroup;
	if (arg->set & KVCACHE_SET_TRUST)
		t->trust = arg->trust;
	if (arg->set & KVCACHE_SET_LIMITS) {
		p = l->pool[arg->pool];
		kvl_advance(l, p, now);
		kvl_set_limits(l, p, &p->acct[t->id], arg);
	}
	arg->out_tenant = t->id;
	arg->out_revision = t->revision;
	l->seq++;
}

/* Is this the last change once more. */
static bool kvl_set_same(const struct kvl_tenant *t,
			 const struct kvcache_tenant_set *arg)
{
	const struct kvcache_tenant_set *last = &t->last;

	if (last->set != arg->set)
		return false;
	if ((arg->set & KVCACHE_SET_OWNER) &&
	    (arg->uid != last->uid || arg->gid != last->gid ||
	     arg->mode != last->mode))
		return false;
	if ((arg->set & KVCACHE_SET_LIMITS) &&
	    (arg->pool != last->pool || arg->min != last->min ||
	     arg->low != last->low || arg->max != last->max ||
	     arg->deadline_ns != last->deadline_ns))
		return false;
	return (!(arg->set & KVCACHE_SET_TTL) || arg->ttl_ns == last->ttl_ns) &&
	       (!(arg->set & KVCACHE_SET_CGROUP) ||
		arg->cgroup == last->cgroup) &&
	       (!(arg->set & KVCACHE_SET_TRUST) || arg->trust == last->trust);
}

int kvl_tenant_create(struct kvl *l, struct kvl_tenant *t,
		      struct kvcache_tenant_set *arg, u64 now)
{
	u32 k, id;
	int err;

	if (arg->tenant || !kvl_name_ok(arg->name))
		return -EINVAL;
	if (kvl_tenant_by_name(l, arg->name) >= 0)
		return -EEXIST;
	err = kvl_set_test(l, t, arg);
	if (err)
		return err;
	for (k = 0; k < l->max_tenants; k++) {
		id = (l->last_tenant + k) % l->max_tenants + 1;
		if (!l->tenant[id])
			break;
	}
	if (k == l->max_tenants)
		return -ENOSPC;
	l->last_tenant = id;
	t->id = id;
	memcpy(t->name, arg->name, sizeof(t->name));
	l->tenant[id] = t;
	list_add_tail(&t->link, &l->tenants);
	for (k = 0; k < KVCACHE_MAX_POOLS; k++)
		if (l->pool[k])
			kvl_account_init(l->pool[k], id);
	kvl_set_apply(l, t, arg, now);
	return 0;
}

int kvl_tenant_set(struct kvl *l, struct kvcache_tenant_set *arg, u64 now)
{
	struct kvl_tenant *t = kvl_tenant_get(l, arg->tenant);
	int err;

	if (!t)
		return -ENOENT;
	if (arg->name[0])
		return -EINVAL;
	err = kvl_set_test(l, t, arg);
	if (err == -EINVAL || err == -ENOENT)
		return err;
	if (arg->revision && arg->revision < t->revision)
		return -ESTALE;
	if (arg->revision == t->revision) {
		if (!kvl_set_same(t, arg))
			return -EEXIST;
		arg->out_tenant = t->id;
		arg->out_revision = t->revision;
		return 0;
	}
	if (err)
		return err;
	kvl_set_apply(l, t, arg, now);
	return 0;
}

int kvl_tenant_fit(struct kvl *l, u32 tenant, u32 pool, u32 budget, u64 now)
{
	struct kvl_pool *p = kvl_pool_get(l, pool);
	u32 done;

	if (!p || !kvl_tenant_get(l, tenant))
		return -ENOENT;
	kvl_advance(l, p, now);
	done = kvl_fit(l, p, &p->acct[tenant], budget);
	kvl_pump(l, p);
	return done;
}

/* ---- finding ------------------------------------------------------------ */

int kvl_tenant_by_name(const struct kvl *l, const char *name)
{
	const struct kvl_tenant *t;

	list_for_each_entry(t, &l->tenants, link)
		if (!strcmp(t->name, name))
			return t->id;
	return -ENOENT;
}

int kvl_tenant_by_uid(const struct kvl *l, u32 uid)
{
	u32 id;

	for (id = 1; id <= l->max_tenants; id++)
		if (l->tenant[id] && l->tenant[id]->uid == uid)
			return id;
	return -ENOENT;
}

int kvl_tenant_by_cgroup(const struct kvl *l, u64 cgroup)
{
	u32 id;

	for (id = 1; cgroup && id <= l->max_tenants; id++)
		if (l->tenant[id] && l->tenant[id]->cgroup == cgroup)
			return id;
	return -ENOENT;
}

int kvl_tenant_may_attach(const struct kvl *l, u32 tenant, u32 uid, u32 gid,
			  const u32 *groups, u32 nr)
{
	const struct kvl_tenant *t = kvl_tenant_get(l, tenant);
	bool member;
	u32 k;

	if (!t)
		return -ENOENT;
	member = gid == t->gid;
	for (k = 0; k < nr; k++)
		member |= groups[k] == t->gid;
	if (((t->mode & 0400) && uid == t->uid) ||
	    ((t->mode & 0040) && member) || (t->mode & 0004))
		return 0;
	return -EPERM;
}

int kvl_tenant_info(const struct kvl *l, u32 pool, u32 start,
		    struct kvcache_tenant_info *out)
{
	const struct kvl_pool *p = kvl_pool_get(l, pool);
	const struct kvl_account *a;
	const struct kvl_tenant *t = NULL;
	u32 id;

	if (!p)
		return -ENOENT;
	for (id = max_t(u32, start, 1); id <= l->max_tenants; id++) {
		t = l->tenant[id];
		if (t)
			break;
	}
	if (!t)
		return -ENOENT;
	a = &p->acct[id];
	*out = (struct kvcache_tenant_info){
		.id = id,
		.pool = pool,
		.uid = t->uid,
		.gid = t->gid,
		.mode = t->mode,
		.clients = t->clients,
		.revision = t->revision,
		.cgroup = t->cgroup,
		.ttl_ns = t->ttl_ns,
		.min = a->min,
		.low = a->low,
		.max = a->max,
		.cur = a->cur,
		.peak = a->peak,
		.nr_cached = a->cached,
		.waiters = a->waiters,
		.ev_max = a->ev_max,
		.ev_reclaim = a->ev_reclaim,
		.ev_revoke = a->ev_revoke,
		.lookups = a->lookups,
		.hits = a->hits,
		.trust = t->trust,
		.grants = t->grants,
	};
	memcpy(out->name, t->name, sizeof(out->name));
	return 0;
}

/* ---- grants ------------------------------------------------------------- */

int kvl_tenant_grant(struct kvl *l, const struct kvcache_tenant_grant *arg)
{
	struct kvl_tenant *from = kvl_tenant_get(l, arg->tenant);
	struct kvl_tenant *to = kvl_tenant_get(l, arg->to);
	struct kvl_grant *g;

	if (!from || !to)
		return -ENOENT;
	if (from == to ||
	    (arg->rights & ~(KVCACHE_GRANT_LOOKUP | KVCACHE_GRANT_PUBLISH)))
		return -EINVAL;
	g = kvl_grant_find(l, from->id, to->id);
	if (!g && !arg->rights)
		return 0;
	if (!g) {
		g = kvl_grant_find(l, 0, to->id);
		if (!g)
			return -ENOSPC;
		g->from = from->id;
		g->rights = 0;
		g->held = 0;
	}
	from->grants += !!arg->rights - !!g->rights;
	g->rights = arg->rights;
	g->max_held = arg->max_held;
	if (!g->rights && !g->held)
		kvl_grant_drop(l, to->id, g);
	l->seq++;
	return 0;
}

/* The grant to @t from the lowest tenant numbered @from or above. */
static const struct kvl_grant *kvl_grant_next(const struct kvl_tenant *t,
					      u32 from, u32 only)
{
	const struct kvl_grant *g, *first = NULL;
	u32 k;

	for (k = 0; k < KVL_MAX_GRANTS && t->got[k].from; k++) {
		g = &t->got[k];
		if (g->from >= from &&
		    (!only || only == t->id || only == g->from) &&
		    (!first || g->from < first->from))
			first = g;
	}
	return first;
}

int kvl_grant_info(const struct kvl *l, u32 tenant, u32 start,
		   struct kvcache_grant_info *out)
{
	const struct kvl_grant *g;
	u32 from = start & 0xffff, id = start >> 16;

	for (; id <= l->max_tenants; id++, from = 0) {
		g = kvl_tenant_get(l, id) ?
		    kvl_grant_next(l->tenant[id], from, tenant) : NULL;
		if (!g)
			continue;
		*out = (struct kvcache_grant_info){
			.from = g->from,
			.to = id,
			.rights = g->rights,
			.max_held = g->max_held,
			.held = g->held,
		};
		return 0;
	}
	return -ENOENT;
}

/* ---- flush and removal -------------------------------------------------- */

static void kvl_forget_keys(struct kvl *l, struct kvl_pool *p,
			    struct kvl_account *a)
{
	struct kvcache_event ev = {
		.type = KVCACHE_EV_CLEARED,
		.pool = p->id,
		.tenant = a->tenant,
	};

	a->epoch++;
	kvl_post(l, a->tenant, &ev);
}

int kvl_tenant_flush(struct kvl *l, u32 tenant, u32 pool, u32 budget, u64 now)
{
	struct kvl_account *a;
	struct kvl_pool *p;
	u32 k, done = 0;

	if (!kvl_tenant_get(l, tenant) ||
	    (pool != U32_MAX && !kvl_pool_get(l, pool)))
		return -ENOENT;
	for (k = 0; k < KVCACHE_MAX_POOLS; k++) {
		p = l->pool[k];
		if (!p || (pool != U32_MAX && pool != k))
			continue;
		kvl_advance(l, p, now);
		a = &p->acct[tenant];
		kvl_forget_keys(l, p, a);
		done += kvl_trim(l, p, a, true, budget - done);
		kvl_pump(l, p);
	}
	return done;
}

int kvl_tenant_trim(struct kvl *l, u32 tenant, u32 pool, u32 budget, u64 now)
{
	struct kvl_pool *p = kvl_pool_get(l, pool);
	u32 done;

	if (!p || !kvl_tenant_get(l, tenant))
		return -ENOENT;
	kvl_advance(l, p, now);
	done = kvl_trim(l, p, &p->acct[tenant], true, budget);
	kvl_pump(l, p);
	return done;
}

/* Nothing of it is used by anybody. */
static bool kvl_tenant_idle(const struct kvl *l, const struct kvl_tenant *t)
{
	const struct kvl_account *a;
	u32 k;

	if (t->clients)
		return false;
	for (k = 0; k < KVCACHE_MAX_POOLS; k++) {
		if (!l->pool[k])
			continue;
		a = &l->pool[k]->acct[t->id];
		if (a->cur != a->takeable + a->leaving)
			return false;
	}
	return true;
}

/* Grants that it gave and got end with a tenant that holds nothing. */
static void kvl_drop_grants(struct kvl *l, struct kvl_tenant *gone)
{
	struct kvcache_event ev = {
		.type = KVCACHE_EV_TENANT_GONE,
		.tenant = gone->id,
	};
	struct kvl_grant *g;
	struct kvl_tenant *t;
	u32 k;

	for (k = 0; k < KVL_MAX_GRANTS; k++)
		if (gone->got[k].from && gone->got[k].rights)
			l->tenant[gone->got[k].from]->grants--;
	list_for_each_entry(t, &l->tenants, link) {
		g = kvl_grant_find(l, gone->id, t->id);
		if (!g)
			continue;
		kvl_grant_drop(l, t->id, g);
		kvl_post(l, t->id, &ev);
	}
}

int kvl_tenant_remove(struct kvl *l, u32 tenant, struct kvl_tenant **out,
		      u64 *pages, u64 now)
{
	struct kvl_tenant *t = kvl_tenant_get(l, tenant);
	struct kvl_account *a;
	struct kvl_pool *p;
	u64 left = 0, more = 0;
	u32 k, done = 0;

	if (!t)
		return -ENOENT;
	if (!kvl_tenant_idle(l, t))
		return -EBUSY;
	for (k = 0; k < KVCACHE_MAX_POOLS; k++) {
		p = l->pool[k];
		if (!p)
			continue;
		kvl_advance(l, p, now);
		a = &p->acct[tenant];
		done += kvl_trim(l, p, a, true, l->slice - done);
		more += a->takeable;
		left += a->cur;
	}
	if (pages)
		*pages = done;
	if (left)
		return more ? KVL_MORE : KVL_WORK;
	kvl_drop_grants(l, t);
	l->tenant[tenant] = NULL;
	list_del_init(&t->link);
	for (k = 0; k < KVCACHE_MAX_POOLS; k++) {
		p = l->pool[k];
		if (!p)
			continue;
		a = &p->acct[tenant];
		l->nr_due -= kvl_is_due(a);
		p->sum_min -= a->min;
		kvl_account_open(p, a);
		a->min = 0;
		kvl_account_close(p, a);
		kvl_pump(l, p);
	}
	l->seq++;
	*out = t;
	return 0;
}
