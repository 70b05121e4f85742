// SPDX-License-Identifier: MIT
/*
 * model_ops.c - operations on pages. Each draws its arguments from the bytes
 * of the operation and from what exists, mostly right ones, so that most calls
 * do something, and some wrong ones.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "model_ops.h"

u32 model_rand(struct model *m, u32 n)
{
	m->rng = m->rng * 6364136223846793005ULL + 1442695040888963407ULL;
	return n ? (m->rng >> 33) % n : 0;
}

void model_note(struct model *m, const char *fmt, ...)
{
	va_list ap;

	if (!m->trace)
		return;
	if (!m->noted)
		fprintf(m->trace, "%llu ", (unsigned long long)m->now);
	m->noted = true;
	va_start(ap, fmt);
	vfprintf(m->trace, fmt, ap);
	va_end(ap);
}

/* Mostly one that lives. */
u32 model_client(struct model *m)
{
	const bool any = m->op->client >= 240;

	for (u32 k = 0; k < ORC_CLIENTS - 1; k++) {
		u32 c = 1 + (m->op->client + k) % (ORC_CLIENTS - 1);

		if (m->o.client[c].used && (any || !m->o.client[c].dead))
			return c;
	}
	return 0;
}

u32 model_tenant(struct model *m, u32 which)
{
	for (u32 k = 0; k < ORC_TENANTS - 1; k++) {
		u32 t = 1 + (which + k) % (ORC_TENANTS - 1);

		if (m->o.tenant[t].used)
			return t;
	}
	return 0;
}

u32 model_pool(struct model *m)
{
	return m->o.pool[1].used && m->op->pool % 4 == 3;
}

void model_feed(struct model *m, u32 pool)
{
	orc_call(&m->o, pool, m->now);
	model_compare(m);
	kvl_nodes_add(m->l, kvl_nodes_alloc(1));
}

u32 model_handles(struct model *m, u32 client, u32 pool, u64 *out, u32 max,
		  u32 state, bool wrong)
{
	const struct orc_pool *p = &m->o.pool[pool];
	u32 nr = 0, i, k;

	for (i = 1; i <= p->nr; i++) {
		const struct orc_page *g = &p->page[i];
		bool held = g->state == KVCACHE_PAGE_PRIVATE ?
			    g->owner == client :
			    g->state == KVCACHE_PAGE_SHARED && g->refs[client];

		if (!held || (state && g->state != state))
			continue;
		/* A place for it, each with the same chance. */
		k = model_rand(m, ++nr);
		out[nr - 1] = out[k];
		out[k] = (u64)g->gen << 32 | i;
	}
	nr = min_t(u32, nr, max);
	if (!wrong || !nr)
		return nr;
	k = model_rand(m, nr);
	switch (model_rand(m, 4)) {
	case 0:
		out[k] += 1ULL << 32;
		break;
	case 1:
		i = model_rand(m, p->nr + 2);
		out[k] = (u64)(i <= p->nr ? p->page[i].gen : 1) << 32 | i;
		break;
	case 2:
		out[k] = out[0];
		break;
	default:
		out[k] -= 1ULL << 32;
	}
	return nr;
}

static void show_handles(struct model *m, const u64 *h, u32 nr)
{
	for (u32 k = 0; k < nr; k++)
		model_note(m, " %llx.%u", (unsigned long long)h[k] >> 32,
			   kvl_index(h[k]));
}

/* ---- alloc ----------------------------------------------------------- */

static void op_alloc(struct model *m)
{
	const struct model_op *op = m->op;
	u32 c = model_client(m), i, pool = model_pool(m), got;
	u32 nr = op->a % 16 ? 1 + op->a % 5 : 1 + model_rand(m, 70);
	bool wait = op->b & 1;

	for (i = 0; i < ORC_REQUESTS && m->o.req[i].busy; i++)
		;
	if (!c || i == ORC_REQUESTS)
		return;
	if (op->c == 255)
		nr = model_rand(m, 2) * 257;
	memset(&m->o.req[i], 0, sizeof(m->o.req[i]));
	m->req[i].pool = op->d == 255 ? 2 : pool;
	m->req[i].nr = nr;
	m->req[i].pages = m->pages[i];
	m->o.req[i].pool = m->req[i].pool;
	m->o.req[i].nr = nr;
	m->o.req[i].busy = true;
	got = kvl_alloc(m->l, m->client[c], &m->req[i], wait, m->now);
	orc_alloc(&m->o, c, i, wait, m->now);
	model_note(m, "alloc: client %u, pool %u, request %u: %u pages%s = %d",
		   c, pool, i, nr, wait ? ", wait" : "", (int)got);
	SAME(m, "kvl_alloc()", (int)got, m->o.req[i].status);
	SAME(m, "missing", m->req[i].missing, m->o.req[i].missing);
	for (u32 k = 0; !m->failed && !got && k < nr; k++)
		SAME(m, "page handed out", m->pages[i][k], m->o.req[i].pages[k]);
	if (!got)
		show_handles(m, m->pages[i], nr);
	if (m->o.req[i].queue == ORC_NONE)
		m->o.req[i].busy = false;
}

static void op_cancel(struct model *m)
{
	const int err = m->op->b & 1 ? -EINTR : -ETIMEDOUT;
	u32 i, k;

	for (k = 0; k < ORC_REQUESTS; k++) {
		i = (m->op->a + k) % ORC_REQUESTS;
		if (m->o.req[i].busy)
			break;
	}
	if (k == ORC_REQUESTS)
		return;
	model_note(m, "cancel: request %u", i);
	SAME(m, "kvl_cancel()", kvl_cancel(m->l, &m->req[i], err, m->now),
	     orc_cancel(&m->o, i, err, m->now));
	for (k = 0; k < m->o.nr_done && m->o.done[k] != i; k++)
		;
	if (k < m->o.nr_done)
		memmove(&m->o.done[k], &m->o.done[k + 1],
			(--m->o.nr_done - k) * sizeof(m->o.done[0]));
	m->o.req[i].busy = false;
}

static void op_check(struct model *m)
{
	u32 c = model_client(m), pool = model_pool(m), nr = m->op->a % 70;
	struct kvl_check a, b;
	int err;

	if (!c)
		return;
	err = kvl_alloc_check(m->l, m->client[c], pool, nr, &a);
	model_note(m, "check: client %u, pool %u, %u pages", c, pool, nr);
	SAME(m, "kvl_alloc_check()", err,
	     orc_check(&m->o, c, pool, nr, &b));
	if (err)
		return;
	SAME(m, "status", a.status, b.status);
	SAME(m, "missing", a.missing, b.missing);
	SAME(m, "available", a.available, b.available);
	SAME(m, "limit", a.limit, b.limit);
	SAME(m, "held", a.held, b.held);
}

/* ---- free, advise, pin ----------------------------------------------- */

static void op_free(struct model *m)
{
	u32 c = model_client(m), pool = model_pool(m), nr;
	u32 max = m->op->a % 8 ? 1 + m->op->a % 4 : ORC_PAGES;
	u64 h[2 * ORC_PAGES];

	if (!c)
		return;
	nr = model_handles(m, c, pool, h, max, 0, m->op->b % 16 == 0);
	/* Some pages twice: where there are two references, that is right. */
	if (nr && m->op->c % 8 == 0) {
		h[nr] = h[model_rand(m, nr)];
		nr++;
	}
	model_note(m, "free: client %u, pool %u:", c, pool);
	show_handles(m, h, nr);
	SAME(m, "kvl_free()", kvl_free(m->l, m->client[c], pool, h, nr, m->now),
	     orc_free(&m->o, c, pool, h, nr, m->now));
}

static void op_advise(struct model *m)
{
	static const u8 advices[] = {
		KVCACHE_ADVISE_VOLATILE, KVCACHE_ADVISE_NONVOLATILE,
		KVCACHE_ADVISE_TOUCH, KVCACHE_ADVISE_PRIORITY,
		KVCACHE_ADVISE_VOLATILE, KVCACHE_ADVISE_NONVOLATILE,
		KVCACHE_ADVISE_VOLATILE | KVCACHE_ADVISE_PRIORITY,
		KVCACHE_ADVISE_VOLATILE | KVCACHE_ADVISE_TOUCH,
		KVCACHE_ADVISE_PRIORITY | KVCACHE_ADVISE_TOUCH,
		KVCACHE_ADVISE_NONVOLATILE | KVCACHE_ADVISE_PRIORITY, 12, 0, 16,
	};
	u32 c = model_client(m), pool = model_pool(m), nr, k;
	struct kvcache_advise a = { .size = sizeof(a), .pool = pool }, b;
	const struct orc_client *oc = &m->o.client[c];
	int err;

	if (!c)
		return;
	a.advice = advices[m->op->a % sizeof(advices)];
	nr = model_handles(m, c, pool, a.pages, 1 + m->op->b % 8,
			   a.advice & KVCACHE_ADVISE_VOLATILE &&
			   m->op->d % 16 ? KVCACHE_PAGE_PRIVATE : 0,
			   m->op->c % 32 == 0);
	for (k = 0; (a.advice & KVCACHE_ADVISE_NONVOLATILE) &&
	     k < oc->nr_taken && nr < ORC_PAGES; k++)
		if (oc->taken[k].pool == pool && model_rand(m, 2))
			a.pages[nr++] = oc->taken[k].handle;
	a.nr = nr;
	if (a.advice & KVCACHE_ADVISE_PRIORITY) {
		a.priority = m->op->d == 255 ? 101 : model_rand(m, 101);
		a.ttl_ns = KVCACHE_TIME_NEVER;
		if (m->op->c % 4 == 1)
			a.ttl_ns = model_rand(m, 300);
	}
	b = a;
	model_note(m, "advise: client %u, pool %u, %x, priority %u, ttl %lld:",
		   c, pool, a.advice, a.priority, (long long)a.ttl_ns);
	show_handles(m, a.pages, nr);
	while ((err = kvl_advise(m->l, m->client[c], &a, m->now)) == -EAGAIN &&
	       !m->failed)
		model_feed(m, pool);
	SAME(m, "kvl_advise()", err, orc_advise(&m->o, c, &b, m->now));
	if (!m->failed && memcmp(&a, &b, sizeof(a)))
		model_fail(m, "the results of kvl_advise() differ");
}

static void op_pin(struct model *m)
{
	u32 c = model_client(m), pool = model_pool(m);
	u64 h[ORC_PAGES];

	if (!c || !model_handles(m, c, pool, h, 1, 0, m->op->a % 16 == 0))
		return;
	model_note(m, "pin: client %u, pool %u:", c, pool);
	show_handles(m, h, 1);
	SAME(m, "kvl_pin()", kvl_pin(m->l, m->client[c], pool, h[0]),
	     orc_pin(&m->o, c, pool, h[0]));
}

static void op_unpin(struct model *m)
{
	u32 pool = model_pool(m), k, i;
	const struct orc_pool *p = &m->o.pool[pool];

	for (k = 0; k < p->nr; k++) {
		i = 1 + (m->op->a + k) % p->nr;
		if (!p->page[i].pins)
			continue;
		model_note(m, "unpin: page %u.%u", pool, i);
		kvl_unpin(m->l, pool, i, m->now);
		orc_unpin(&m->o, pool, i, m->now);
		return;
	}
}

static void op_access(struct model *m)
{
	u32 c = model_client(m), pool = model_pool(m), i;
	const bool write = m->op->b & 1;

	if (!c)
		return;
	for (i = 0; i <= m->o.pool[pool].nr + 1; i++)
		SAME(m, "kvl_page_access()",
		     kvl_page_access(m->l, m->client[c], pool, i, write),
		     orc_access(&m->o, c, pool, i, write));
}

/* ---- work and time --------------------------------------------------- */

static void op_work(struct model *m)
{
	u32 pool = model_pool(m), a = kvl_work_next(m->l, pool);
	u32 b = orc_work_next(&m->o, pool);

	model_note(m, "work: page %u.%u", pool, a);
	SAME(m, "kvl_work_next()", a, b);
	if (b)
		m->o.pool[pool].page[b].queued = false;
	if (!b || m->op->b % 2 || m->failed)
		return;
	model_note(m, " is done");
	SAME(m, "kvl_work_done()",
	     kvl_work_done(m->l, pool, a, true, m->now),
	     orc_work_done(&m->o, pool, b, true, m->now));
}

/* Some other page that is out for work, or stuck. */
static void op_done(struct model *m)
{
	u32 pool = model_pool(m), k, i;
	const struct orc_pool *p = &m->o.pool[pool];
	const bool clean = m->op->b % 8;

	for (k = 0; k < p->nr; k++) {
		i = 1 + (m->op->a + k) % p->nr;
		if (p->page[i].state != KVCACHE_PAGE_RETIRING &&
		    m->op->c % 32)
			continue;
		model_note(m, "done: page %u.%u%s", pool, i,
			   clean ? "" : ", not clean");
		SAME(m, "kvl_work_done()",
		     kvl_work_done(m->l, pool, i, clean, m->now),
		     orc_work_done(&m->o, pool, i, clean, m->now));
		return;
	}
}

static void op_tick(struct model *m)
{
	u32 budget = m->op->a % 4 ? ~0U : m->op->b % 4;

	m->now += m->op->c;
	model_note(m, "tick: at %llu, budget %u", (unsigned long long)m->now,
		   budget);
	SAME(m, "kvl_tick()", kvl_tick(m->l, m->now, budget),
	     orc_tick(&m->o, m->now, budget));
}

static void op_lazy(struct model *m)
{
	m->lazy = !m->lazy;
}

/* How often each comes, in its number of entries. */
static void (*const ops[])(struct model *m) = {
	op_alloc, op_alloc, op_alloc, op_alloc, op_alloc, op_alloc, op_alloc,
	op_alloc, op_free, op_free, op_free, op_free, op_free, model_publish,
	model_publish, model_publish, model_publish, model_publish,
	model_lookup, model_lookup, model_lookup, model_lookup, op_advise,
	op_advise, op_advise, op_work, op_work, op_work, op_work, op_done,
	op_done, op_done, op_tick, op_tick, op_cancel, op_cancel, op_check,
	op_check, op_pin, op_unpin, op_unpin, op_access, model_create,
	model_create, model_set, model_set, model_fit, model_grant,
	model_flush, model_remove, model_attach, model_attach, model_attach, model_kill,
	model_reap, model_reap, model_resize, model_drain, model_trim,
	model_members, model_second_pool, model_events, model_events, op_lazy,
};

void model_do(struct model *m, const struct model_op *op)
{
	m->op = op;
	m->rng = op->seed * 0x9e3779b97f4a7c15ULL;
	m->now += op->seed >> 30;
	ops[op->code % ARRAY_SIZE(ops)](m);
	if (m->noted)
		model_note(m, "\n");
	m->noted = false;
}
