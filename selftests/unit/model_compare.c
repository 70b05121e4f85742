// SPDX-License-Identifier: MIT
/*
 * model_compare.c - is everything that the ledger reports what the oracle says?
 */
#include <errno.h>
#include <string.h>

#include "model_priv.h"
#include "oracle_priv.h"

static void compare_page(struct model *m, u32 pool, u32 index,
			 const struct kvcache_page_info *in)
{
	const struct orc_pool *p = &m->o.pool[pool];
	const struct orc_page *g = &p->page[index];
	bool published = g->state == KVCACHE_PAGE_SHARED ||
			 g->state == KVCACHE_PAGE_CACHED;
	bool dead = g->flushed || (g->state == KVCACHE_PAGE_CACHED &&
				   g->expiry <= p->now);
	u32 refs = g->state == KVCACHE_PAGE_PRIVATE, flags = 0;
	char what[64];

	for (u32 c = 1; g->state == KVCACHE_PAGE_SHARED && c < ORC_CLIENTS; c++)
		refs += g->refs[c];
	if (g->is_volatile)
		flags |= KVCACHE_PAGE_VOLATILE;
	if (g->pins)
		flags |= KVCACHE_PAGE_PINNED;
	snprintf(what, sizeof(what), "page %u.%u: ", pool, index);
#define PAGE(member, value)						\
	do {								\
		strcpy(strchr(what, ':'), ": " #member);		\
		SAME(m, what, in->member, value);			\
	} while (0)
	PAGE(state, g->state);
	PAGE(handle, (u64)g->gen << 32 | index);
	PAGE(tenant, g->tenant);
	PAGE(client, g->state == KVCACHE_PAGE_PRIVATE ? g->owner : 0);
	PAGE(flags, flags);
	PAGE(refs, refs);
	PAGE(idle_ns, m->o.now - g->used);
	if (g->state == KVCACHE_PAGE_RETIRING)
		return;
	PAGE(priority, published && g->prio_end <= p->now ?
		       KVCACHE_PRIO_DEFAULT : g->prio);
	PAGE(fill, g->fill);
	PAGE(nr_keys, dead ? 0 : g->nr_keys);
#undef PAGE
}

static void compare_pages(struct model *m, u32 pool)
{
	const struct orc_pool *p = &m->o.pool[pool];
	struct kvcache_page_info in;
	u32 i;

	for (i = 1; i <= p->nr && !m->failed; i++) {
		if (p->page[i].state == KVCACHE_PAGE_FREE)
			continue;
		if (kvl_page_info(m->l, pool, 0, i, m->o.now, &in)) {
			model_fail(m, "page %u.%u is not reported", pool, i);
			return;
		}
		if (kvl_index(in.handle) != i) {
			model_fail(m, "page %u.%u is FREE, should be in state %u",
				   pool, i, p->page[i].state);
			return;
		}
		compare_page(m, pool, i, &in);
	}
}

static void compare_pool(struct model *m, u32 pool)
{
	const struct orc_pool *p = &m->o.pool[pool];
	u64 nr[KVCACHE_PAGE_NULL] = { 0 }, waiters = 0;
	struct kvcache_pool_info in;

	for (u32 i = 1; i <= p->nr; i++)
		nr[p->page[i].state]++;
	for (u32 i = 0; i < ORC_REQUESTS; i++)
		waiters += m->o.req[i].queue != ORC_NONE &&
			   m->o.req[i].pool == pool;
	SAME(m, "kvl_pool_info()", kvl_pool_info(m->l, pool, &in), 0);
#define POOL(member, value) SAME(m, "pool: " #member, in.member, value)
	POOL(nr_pages, p->nr);
	POOL(nr_free, nr[KVCACHE_PAGE_FREE]);
	POOL(nr_private, nr[KVCACHE_PAGE_PRIVATE]);
	POOL(nr_shared, nr[KVCACHE_PAGE_SHARED]);
	POOL(nr_cached, nr[KVCACHE_PAGE_CACHED]);
	POOL(nr_retiring, nr[KVCACHE_PAGE_RETIRING]);
	POOL(waiters, waiters);
	POOL(allocs, p->allocs);
	POOL(reclaims, p->reclaims);
	POOL(lookups, p->lookups);
	POOL(hits, p->hits);
	POOL(draining, p->draining);
#undef POOL
}

static void same_counters(struct model *m, const char *name, const u64 *is,
			  const u64 *should, u32 nr)
{
	char what[64];

	for (u32 k = 0; k < nr; k++) {
		snprintf(what, sizeof(what), "pool: %s[%u]", name, k);
		SAME(m, what, is[k], should[k]);
	}
}

static void compare_stat(struct model *m, u32 pool)
{
	const struct orc_pool *p = &m->o.pool[pool];
	const struct kvcache_pool_get *should = &p->stat;
	struct kvcache_pool_info info;
	struct kvcache_pool_get in;
	u64 unzeroed = 0;

	for (u32 i = 1; i <= p->nr; i++)
		unzeroed += p->page[i].state == KVCACHE_PAGE_RETIRING &&
			    !p->page[i].stuck;
	memset(&in, 0xcc, sizeof(in));
	SAME(m, "kvl_pool_stat()", kvl_pool_stat(m->l, pool, &in), 0);
	kvl_pool_info(m->l, pool, &info);
	SAME(m, "pool: out_info", memcmp(&in.out_info, &info, sizeof(info)), 0);
	SAME(m, "pool: out_seq", in.out_seq, kvl_seq(m->l));
	SAME(m, "pool: out_unzeroed", in.out_unzeroed, unzeroed);
	SAME(m, "pool: out_lost", in.out_lost, 0);
#define COUNTERS(member)						\
	same_counters(m, #member, (const u64 *)&in.member,		\
		      (const u64 *)&should->member,			\
		      sizeof(in.member) / sizeof(u64))
	COUNTERS(out_frees);
	COUNTERS(out_publishes);
	COUNTERS(out_dedups);
	COUNTERS(out_expired);
	COUNTERS(out_revokes);
	COUNTERS(out_volatile);
	COUNTERS(out_reclaims);
	COUNTERS(out_refusals);
	COUNTERS(out_waits);
	COUNTERS(out_wait_ns);
	COUNTERS(out_wait_times);
#undef COUNTERS
}

/* All grants in order, and those of one tenant. */
static void compare_grants(struct model *m, u32 only)
{
	struct kvcache_grant_info in;
	u32 start = 0;

	for (u32 to = 1; to < ORC_TENANTS; to++)
		for (u32 from = 1; from < ORC_TENANTS; from++) {
			const struct orc_grant *g = &m->o.tenant[to].from[from];
			u64 held;

			/* There was none, or it is of others. */
			if (!g->order || (only && to != only && from != only))
				continue;
			held = orc_held(&m->o, from, to);
			if (!g->rights && !held)
				continue;
			SAME(m, "kvl_grant_info()",
			     kvl_grant_info(m->l, only, start, &in), 0);
			if (m->failed)
				return;
			SAME(m, "grant: from", in.from, from);
			SAME(m, "grant: to", in.to, to);
			SAME(m, "grant: rights", in.rights, g->rights);
			SAME(m, "grant: max_held", in.max_held, g->max_held);
			SAME(m, "grant: held", in.held, held);
			start = (to << 16 | from) + 1;
		}
	SAME(m, "kvl_grant_info() at the end",
	     kvl_grant_info(m->l, only, start, &in), -ENOENT);
}

static void compare_tenant(struct model *m, u32 pool, u32 tenant)
{
	const struct orc_pool *p = &m->o.pool[pool];
	const struct orc_limits *lim = &p->lim[tenant];
	const struct orc_tenant *t = &m->o.tenant[tenant];
	u64 cached = 0, waiters = 0, clients = 0, grants = 0;
	struct kvcache_tenant_info in;
	char what[64];

	for (u32 i = 1; i <= p->nr; i++)
		cached += p->page[i].state == KVCACHE_PAGE_CACHED &&
			  p->page[i].tenant == tenant;
	for (u32 i = 0; i < ORC_REQUESTS; i++)
		waiters += m->o.req[i].queue != ORC_NONE &&
			   m->o.req[i].pool == pool &&
			   m->o.req[i].tenant == tenant;
	for (u32 c = 1; c < ORC_CLIENTS; c++)
		clients += m->o.client[c].used &&
			   m->o.client[c].tenant == tenant;
	for (u32 k = 1; k < ORC_TENANTS; k++)
		grants += m->o.tenant[k].used &&
			  m->o.tenant[k].from[tenant].rights;
	snprintf(what, sizeof(what), "tenant %u, pool %u:", tenant, pool);
	SAME(m, what, kvl_tenant_info(m->l, pool, tenant, &in), 0);
	if (m->failed)
		return;
#define TENANT(member, value)						\
	do {								\
		strcpy(strchr(what, ':'), ": " #member);		\
		SAME(m, what, in.member, value);			\
	} while (0)
	TENANT(id, tenant);
	TENANT(uid, t->set.uid);
	TENANT(gid, t->set.gid);
	TENANT(mode, t->set.mode);
	TENANT(clients, clients);
	TENANT(revision, t->set.revision);
	TENANT(cgroup, t->set.cgroup);
	TENANT(ttl_ns, t->set.ttl_ns);
	TENANT(min, lim->min);
	TENANT(low, lim->low);
	TENANT(max, lim->max);
	TENANT(cur, orc_cur(&m->o, pool, tenant));
	TENANT(peak, lim->peak);
	TENANT(nr_cached, cached);
	TENANT(waiters, waiters);
	TENANT(ev_max, lim->hits_max);
	TENANT(ev_reclaim, lim->reclaims);
	TENANT(ev_revoke, lim->revokes);
	TENANT(lookups, lim->lookups);
	TENANT(hits, lim->hits);
	TENANT(trust, t->set.trust);
	TENANT(grants, grants);
#undef TENANT
	if (strcmp(in.name, t->set.name))
		model_fail(m, "tenant %u: name", tenant);
	SAME(m, "kvl_tenant_by_name()", kvl_tenant_by_name(m->l, t->set.name),
	     tenant);
}

static void compare_client(struct model *m, u32 pool, u32 client)
{
	const struct orc_pool *p = &m->o.pool[pool];
	u64 private = 0, shared = 0, waiting = 0;
	struct kvcache_client_info in;
	char what[64];

	for (u32 i = 1; i <= p->nr; i++) {
		private += p->page[i].state == KVCACHE_PAGE_PRIVATE &&
			   p->page[i].owner == client;
		if (p->page[i].state == KVCACHE_PAGE_SHARED)
			shared += p->page[i].refs[client];
	}
	for (u32 i = 0; i < ORC_REQUESTS; i++)
		if (m->o.req[i].queue != ORC_NONE && m->o.req[i].pool == pool &&
		    m->o.req[i].client == client)
			waiting += m->o.req[i].nr;
	snprintf(what, sizeof(what), "client %u, pool %u:", client, pool);
	SAME(m, what, kvl_client_info(m->l, pool, 0, client, &in), 0);
	if (m->failed)
		return;
#define CLIENT(member, value)						\
	do {								\
		strcpy(strchr(what, ':'), ": " #member);		\
		SAME(m, what, in.member, value);			\
	} while (0)
	CLIENT(id, client);
	CLIENT(tenant, m->o.client[client].tenant);
	CLIENT(nr_private, private);
	CLIENT(nr_shared, shared);
	CLIENT(waiting, waiting);
#undef CLIENT
	SAME(m, "kvl_events_pending()",
	     kvl_events_pending(m->l, m->client[client]),
	     m->o.client[client].listening && !m->o.client[client].dead &&
	     m->o.client[client].cursor <
	     m->o.tenant[m->o.client[client].tenant].nr_events);
}

void model_compare(struct model *m)
{
	char why[200] = "";
	u64 next;

	if (!m->failed && kvl_verify(m->l, why, sizeof(why)))
		model_fail(m, "kvl_verify(): %s", why);
	for (u32 k = 0; k < ORC_POOLS && !m->failed; k++) {
		if (!m->o.pool[k].used)
			continue;
		compare_pages(m, k);
		for (u32 t = 1; t < ORC_TENANTS && !m->failed; t++)
			if (m->o.tenant[t].used)
				compare_tenant(m, k, t);
		for (u32 c = 1; c < ORC_CLIENTS && !m->failed; c++)
			if (m->o.client[c].used)
				compare_client(m, k, c);
		if (!m->failed)
			compare_pool(m, k);
		if (!m->failed)
			compare_stat(m, k);
	}
	/* All grants, or those of a tenant, in turn. */
	if (!m->failed)
		compare_grants(m, m->o.count % ORC_TENANTS);
	next = max_t(u64, orc_next_tick(&m->o), m->o.now);
	if (!m->failed && kvl_next_tick(m->l) > next)
		model_fail(m, "kvl_next_tick() is %llu, later than %llu",
			   (unsigned long long)kvl_next_tick(m->l),
			   (unsigned long long)next);
}

static void compare_request(struct model *m, u32 i)
{
	const struct orc_request *r = &m->o.req[i];
	u32 k;

	SAME(m, "status of a request", m->req[i].status, r->status);
	for (k = 0; !m->failed && !r->status && k < r->nr; k++)
		if (m->pages[i][k] != r->pages[k])
			model_fail(m, "page %u of request %u: %llx, should be %llx",
				   k, i, (unsigned long long)m->pages[i][k],
				   (unsigned long long)r->pages[k]);
}

/* The order of those that failed is nobody's business. */
void model_compare_done(struct model *m)
{
	bool failed[ORC_REQUESTS] = { false };
	struct kvl_request *r;
	u32 k = 0, i;

	for (i = 0; i < m->o.nr_done; i++)
		if (m->o.req[m->o.done[i]].status)
			failed[m->o.done[i]] = true;
	while (!m->failed && (r = kvl_next_done(m->l))) {
		i = r - m->req;
		if (r->status && failed[i]) {
			failed[i] = false;
		} else {
			while (k < m->o.nr_done && m->o.req[m->o.done[k]].status)
				k++;
			if (k == m->o.nr_done || m->o.done[k++] != i) {
				model_fail(m, "request %u is finished with %d, out of turn",
					   i, r->status);
				return;
			}
		}
		compare_request(m, i);
		m->o.req[i].busy = false;
	}
	for (i = 0; i < ORC_REQUESTS && !m->failed; i++)
		if (failed[i])
			model_fail(m, "request %u should have failed with %d",
				   i, m->o.req[i].status);
	for (; k < m->o.nr_done && !m->failed; k++)
		if (!m->o.req[m->o.done[k]].status)
			model_fail(m, "request %u should have been granted",
				   m->o.done[k]);
	m->o.nr_done = 0;
}
