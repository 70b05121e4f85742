// SPDX-License-Identifier: MIT
/*
 * model_ops_tenant.c - operations on tenants, clients, pools and events.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model_ops.h"

/* ---- tenants --------------------------------------------------------- */

static void fill_set(struct model *m, struct kvcache_tenant_set *a)
{
	const struct model_op *op = m->op;
	u32 pages;

	a->size = sizeof(*a);
	a->set = op->a % 4 ? KVCACHE_SET_LIMITS : op->b % 32;
	if (op->d == 255)
		a->set = 32;
	a->pool = model_pool(m);
	pages = m->o.pool[a->pool].nr;
	a->min = model_rand(m, 3) ? 0 : model_rand(m, 1 + pages / 2);
	a->low = model_rand(m, 3) ? a->min : model_rand(m, 1 + pages);
	a->max = model_rand(m, 3) ? a->low + a->min + model_rand(m, 1 + pages) :
				    KVCACHE_LIMIT_MAX;
	if (op->d % 32 == 1)
		a->max = a->min ? a->min - 1 : 0;
	if (op->d % 32 == 2)
		a->min = pages + 1;
	a->deadline_ns = model_rand(m, 2) ? KVCACHE_TIME_NEVER :
					    m->now + model_rand(m, 200);
	a->uid = model_rand(m, 3);
	a->gid = model_rand(m, 3);
	a->mode = 0400 | (model_rand(m, 2) ? 0040 : 0) |
		  (model_rand(m, 8) ? 0 : 0004);
	a->cgroup = model_rand(m, 3);
	a->trust = op->d % 32 == 3 ? 2 : model_rand(m, 2);
	a->ttl_ns = KVCACHE_TIME_NEVER;
	if (op->d % 4 == 0)
		a->ttl_ns = op->d % 32 == 4 ? 0 : 1 + model_rand(m, 300);
}

static void note_set(struct model *m, const char *what, u32 tenant,
		     const struct kvcache_tenant_set *a, int err)
{
	model_note(m, "%s: tenant %u, set %x, pool %u, min %lld, low %lld, max %lld, deadline %lld, ttl %lld, revision %llu = %d",
		   what, tenant, a->set, a->pool, (long long)a->min,
		   (long long)a->low, (long long)a->max,
		   (long long)a->deadline_ns, (long long)a->ttl_ns,
		   (unsigned long long)a->revision, err);
}

void model_create(struct model *m)
{
	struct kvcache_tenant_set a = { 0 }, b;
	struct kvl_tenant *t = kvl_tenant_alloc(m->l);
	int err;

	fill_set(m, &a);
	if (m->op->c % 16)
		snprintf(a.name, sizeof(a.name), "t%llu",
			 (unsigned long long)m->names++ % 100);
	else
		strcpy(a.name, m->op->c & 16 ? ".hidden" : "t0");
	b = a;
	err = kvl_tenant_create(m->l, t, &a, m->now);
	if (err)
		kvl_tenant_free(t);
	note_set(m, "create", a.out_tenant, &a, err);
	SAME(m, "kvl_tenant_create()", err,
	     orc_tenant_create(&m->o, a.out_tenant, &b, m->now));
	if (!m->failed && memcmp(&a, &b, sizeof(a)))
		model_fail(m, "the results of kvl_tenant_create() differ");
}

void model_set(struct model *m)
{
	struct kvcache_tenant_set a = { 0 }, b;
	u32 t = model_tenant(m, m->op->tenant);
	int err;

	if (!t)
		return;
	fill_set(m, &a);
	if (m->op->c % 8 == 1)
		a = m->o.tenant[t].last;
	a.tenant = t;
	a.name[0] = 0;
	a.out_tenant = 0;
	a.out_revision = 0;
	if (m->op->c % 4 == 1)
		a.revision = m->o.tenant[t].set.revision + model_rand(m, 3) - 1;
	b = a;
	err = kvl_tenant_set(m->l, &a, m->now);
	note_set(m, "set", t, &a, err);
	SAME(m, "kvl_tenant_set()", err, orc_tenant_set(&m->o, &b, m->now));
	if (!m->failed && memcmp(&a, &b, sizeof(a)))
		model_fail(m, "the results of kvl_tenant_set() differ");
}

void model_fit(struct model *m)
{
	u32 t = model_tenant(m, m->op->tenant), pool = model_pool(m);
	u32 budget = m->op->a % 4;

	model_note(m, "fit: tenant %u, pool %u, budget %u", t, pool, budget);
	SAME(m, "kvl_tenant_fit()",
	     kvl_tenant_fit(m->l, t, pool, budget, m->now),
	     orc_tenant_fit(&m->o, t, pool, budget, m->now));
}

void model_grant(struct model *m)
{
	const struct kvcache_tenant_grant a = {
		.size = sizeof(a),
		.tenant = model_tenant(m, m->op->tenant),
		.to = model_tenant(m, m->op->client),
		.rights = m->op->a % 32 ? m->op->a % 4 : 4,
		.max_held = m->op->b % 2 ? KVCACHE_LIMIT_MAX : m->op->b % 6,
	};

	model_note(m, "grant: tenant %u to %u, rights %u, at most %lld pages",
		   a.tenant, a.to, a.rights, (long long)a.max_held);
	SAME(m, "kvl_tenant_grant()", kvl_tenant_grant(m->l, &a),
	     orc_tenant_grant(&m->o, &a));
}

void model_flush(struct model *m)
{
	u32 t = model_tenant(m, m->op->tenant), pool = model_pool(m);
	u32 budget = m->op->a % 2 ? ~0U : m->op->b % 4;

	if (m->op->c % 2) {
		model_note(m, "trim: tenant %u, pool %u, budget %u", t, pool,
			   budget);
		SAME(m, "kvl_tenant_trim()",
		     kvl_tenant_trim(m->l, t, pool, budget, m->now),
		     orc_tenant_trim(&m->o, t, pool, budget, m->now));
		return;
	}
	if (m->op->c % 4)
		pool = ~0U;
	model_note(m, "flush: tenant %u, pool %d, budget %u", t, (int)pool,
		   budget);
	SAME(m, "kvl_tenant_flush()",
	     kvl_tenant_flush(m->l, t, pool, budget, m->now),
	     orc_tenant_flush(&m->o, t, pool, budget, m->now));
}

void model_remove(struct model *m)
{
	u32 t = model_tenant(m, m->op->tenant);
	struct kvl_tenant *gone = NULL;
	u64 a = 0, b = 0;
	int err;

	if (!t)
		return;
	err = kvl_tenant_remove(m->l, t, &gone, &a, m->now);
	model_note(m, "remove: tenant %u = %d", t, err);
	kvl_tenant_free(gone);
	SAME(m, "kvl_tenant_remove()", err,
	     orc_tenant_remove(&m->o, t, &b, m->now));
	SAME(m, "pages of kvl_tenant_remove()", a, b);
}

/* ---- clients --------------------------------------------------------- */

void model_attach(struct model *m)
{
	u32 t = model_tenant(m, m->op->tenant), id;
	struct kvl_client *c = kvl_client_alloc(m->l);
	int err;

	err = kvl_client_attach(m->l, c, t);
	id = err ? 0 : kvl_client_id(c);
	model_note(m, "attach: tenant %u = %d, client %u", t, err, id);
	SAME(m, "kvl_client_attach()", err, orc_client_attach(&m->o, id, t));
	if (err)
		kvl_client_free(c);
	else
		m->client[id] = c;
}

void model_kill(struct model *m)
{
	u32 c = model_client(m);

	if (!c || m->o.client[c].dead)
		return;
	model_note(m, "kill: client %u", c);
	kvl_client_kill(m->l, m->client[c]);
	orc_client_kill(&m->o, c);
}

void model_reap(struct model *m)
{
	u32 budget = m->op->a % 2 ? ~0U : m->op->b % 4, c = 0, k;

	for (k = 0; k < ORC_CLIENTS - 1; k++) {
		c = 1 + (m->op->client + k) % (ORC_CLIENTS - 1);
		if (m->o.client[c].used && m->o.client[c].dead)
			break;
	}
	if (k == ORC_CLIENTS - 1)
		return;
	model_note(m, "reap: client %u, budget %u", c, budget);
	SAME(m, "kvl_client_reap()",
	     kvl_client_reap(m->l, m->client[c], budget, m->now),
	     orc_client_reap(&m->o, c, budget, m->now));
	for (k = 0; k < ORC_REQUESTS; k++)
		if (m->o.req[k].busy && m->o.req[k].client == c)
			return;
	if (m->failed)
		return;
	k = kvl_client_detach(m->l, m->client[c]);
	SAME(m, "kvl_client_detach()", (int)k, orc_client_detach(&m->o, c));
	if (k)
		return;
	kvl_client_free(m->client[c]);
	m->client[c] = NULL;
}

void model_events(struct model *m)
{
	u32 c = model_client(m), nr = m->op->a % 2 ? 64 : m->op->b % 4, a, b, k;
	struct kvcache_event ea[64], eb[64];

	if (!c)
		return;
	a = kvl_events(m->l, m->client[c], ea, nr);
	b = orc_events(&m->o, c, eb, nr);
	model_note(m, "events: client %u: %u", c, a);
	SAME(m, "kvl_events()", a, b);
	for (k = 0; k < b && !m->failed; k++) {
		if (ea[k].seq > kvl_seq(m->l) ||
		    (k && ea[k].seq <= ea[k - 1].seq))
			model_fail(m, "event %u: sequence number", k);
		SAME(m, "event: type", ea[k].type, eb[k].type);
		SAME(m, "event: value", ea[k].value, eb[k].value);
		SAME(m, "event: dropped", ea[k].dropped, eb[k].dropped);
		ea[k].seq = 0;
		if (!m->failed && memcmp(&ea[k], &eb[k], sizeof(ea[k])))
			model_fail(m, "event %u of type %u", k, eb[k].type);
	}
	if (m->failed || !b || m->op->c % 4)
		return;
	model_note(m, "events: client %u: returned", c);
	kvl_events_return(m->client[c], ea, a);
	m->o.client[c].cursor -= b + eb[0].dropped;
}

/* ---- pools ----------------------------------------------------------- */

void model_resize(struct model *m)
{
	u32 pool = model_pool(m);
	u64 nr = m->op->a % (m->o.pool[pool].capacity + 2), a = 0, b = 0;
	int err;

	err = kvl_pool_resize(m->l, pool, nr, &a, m->now);
	model_note(m, "resize: pool %u to %llu = %d, %llu", pool,
		   (unsigned long long)nr, err, (unsigned long long)a);
	SAME(m, "kvl_pool_resize()", err,
	     orc_resize(&m->o, pool, nr, &b, m->now));
	SAME(m, "pages after kvl_pool_resize()", a, b);
}

/* A pool that drains does not do so for long. */
void model_drain(struct model *m)
{
	u32 pool = model_pool(m);

	if (m->o.pool[pool].draining) {
		model_note(m, "resume: pool %u", pool);
		SAME(m, "kvl_pool_resume()", kvl_pool_resume(m->l, pool),
		     orc_resume(&m->o, pool));
	} else if (m->op->a % 4 == 0) {
		model_note(m, "drain: pool %u", pool);
		SAME(m, "kvl_pool_drain()", kvl_pool_drain(m->l, pool, m->now),
		     orc_drain(&m->o, pool, m->now));
	}
}

void model_trim(struct model *m)
{
	u32 pool = model_pool(m), budget = m->op->a % 8;

	model_note(m, "trim: pool %u, budget %u", pool, budget);
	SAME(m, "kvl_pool_trim()",
	     kvl_pool_trim(m->l, pool, budget, m->now),
	     orc_trim(&m->o, pool, budget, m->now));
}

/* Takes the second pool out if it can be, or puts one there. */
void model_second_pool(struct model *m)
{
	struct kvl_pool *p = NULL;

	if (!m->o.pool[1].used) {
		model_note(m, "add: pool 1");
		if (!model_add_pool(m, "b", 1 + m->op->a % 8, 8, m->op->b & 1))
			model_fail(m, "no memory");
		return;
	}
	model_note(m, "take out: pool 1");
	SAME(m, "kvl_pool_remove()", kvl_pool_remove(m->l, 1, &p),
	     orc_pool_remove(&m->o, 1));
	kvl_pool_free(p);
}

/* Who belongs to a tenant, and what is listed of it. */
void model_members(struct model *m)
{
	const u32 uid = m->op->a % 4, gid = m->op->b % 4, more = m->op->c % 4;
	u32 t = model_tenant(m, m->op->tenant), pool = model_pool(m), k, by;
	const struct orc_pool *p = &m->o.pool[pool];
	const struct kvcache_tenant_set *set = &m->o.tenant[t].set;
	struct kvcache_client_info c;
	struct kvcache_page_info g;
	bool in;

	for (by = 1; by < ORC_TENANTS; by++)
		if (m->o.tenant[by].used && m->o.tenant[by].set.uid == uid)
			break;
	SAME(m, "kvl_tenant_by_uid()", kvl_tenant_by_uid(m->l, uid),
	     by < ORC_TENANTS ? (int)by : -ENOENT);
	for (by = 1; by < ORC_TENANTS; by++)
		if (m->o.tenant[by].used && more &&
		    m->o.tenant[by].set.cgroup == more)
			break;
	SAME(m, "kvl_tenant_by_cgroup()", kvl_tenant_by_cgroup(m->l, more),
	     by < ORC_TENANTS ? (int)by : -ENOENT);
	if (!t)
		return;
	in = ((set->mode & 0400) && uid == set->uid) ||
	     ((set->mode & 0040) && (gid == set->gid || more == set->gid)) ||
	     (set->mode & 0004);
	SAME(m, "kvl_tenant_may_attach()",
	     kvl_tenant_may_attach(m->l, t, uid, gid, &more, 1),
	     in ? 0 : -EPERM);
	for (k = 1; k <= p->nr; k++)
		if (p->page[k].state != KVCACHE_PAGE_FREE &&
		    p->page[k].tenant == t)
			break;
	SAME(m, "kvl_page_info() of a tenant",
	     kvl_page_info(m->l, pool, t, 0, m->now, &g),
	     k <= p->nr ? 0 : -ENOENT);
	if (!m->failed && k <= p->nr)
		SAME(m, "first page of a tenant", kvl_index(g.handle), k);
	for (k = 1; k < ORC_CLIENTS; k++)
		if (m->o.client[k].used && m->o.client[k].tenant == t)
			break;
	SAME(m, "kvl_client_info() of a tenant",
	     kvl_client_info(m->l, pool, t, 0, &c),
	     k < ORC_CLIENTS ? 0 : -ENOENT);
	if (!m->failed && k < ORC_CLIENTS)
		SAME(m, "first client of a tenant", c.id, k);
}
