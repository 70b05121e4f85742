// SPDX-License-Identifier: MIT
/*
 * view.c - which rows a sample has, filtered and sorted, and what changed since
 * the one before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util.h"
#include "view.h"

const struct column tenant_columns[T_NR] = {
	[T_TENANT] = { "TENANT", 10, true, 0 },
	[T_POOL] = { "POOL", 8, true, 0 },
	[T_USED] = { "USED", 6, false, 0 },
	[T_CACHED] = { "CACHED", 6, false, 3 },
	[T_MIN] = { "MIN", 6, false, 0 },
	[T_LOW] = { "LOW", 6, false, 0 },
	[T_MAX] = { "MAX", 6, false, 0 },
	[T_CLIENTS] = { "CLNT", 4, false, 4 },
	[T_WAIT] = { "WAIT", 4, false, 0 },
	[T_MAXED] = { "MAXED/S", 7, false, 5 },
	[T_LOOKUPS] = { "LOOK/S", 6, false, 2 },
	[T_HITS] = { "HIT%", 5, false, 1 },
};

const struct column client_columns[C_NR] = {
	[C_CLIENT] = { "CLIENT", 6, false, 0 },
	[C_PID] = { "PID", 8, false, 0 },
	[C_COMMAND] = { "COMMAND", 15, true, 0 },
	[C_TENANT] = { "TENANT", 12, true, 0 },
	[C_POOL] = { "POOL", 8, true, 0 },
	[C_PRIVATE] = { "PRIVATE", 7, false, 0 },
	[C_SHARED] = { "SHARED", 7, false, 0 },
	[C_WAIT] = { "WAITS", 7, false, 0 },
};

void view_init(struct view *v)
{
	*v = (struct view){
		.sort = { T_USED, C_PRIVATE },
		.interval = 1,
	};
}

bool view_sort(struct view *v, const char *column)
{
	bool reverse = *column == '-', found = false;
	int i;

	column += reverse;
	for (i = 0; i < T_NR; i++) {
		if (strcasecmp(column, tenant_columns[i].name))
			continue;
		v->sort[TENANTS] = i;
		v->reverse[TENANTS] = reverse;
		found = true;
	}
	for (i = 0; i < C_NR; i++) {
		if (strcasecmp(column, client_columns[i].name))
			continue;
		v->sort[CLIENTS] = i;
		v->reverse[CLIENTS] = reverse;
		found = true;
	}
	return found;
}

/* ---- since the sample before ------------------------------------------------ */

double frame_rate(const struct frame *f, uint64_t was, uint64_t is)
{
	double dt = f->before ? f->now->at - f->before->at : 0;

	/* A broker that began anew counts from 0. */
	return dt > 0 && is >= was ? (is - was) / dt : -1;
}

const struct kvcache_pool_info *frame_pool_before(const struct frame *f,
						  uint32_t id)
{
	return f->before ? sample_pool(f->before, id) : NULL;
}

double frame_waits(const struct frame *f, uint32_t pool)
{
	const struct kvcache_pool_info *is = sample_pool(f->now, pool);
	const struct kvcache_pool_info *was = frame_pool_before(f, pool);

	if (!is || !was || !f->now->has_waits || !f->before->has_waits)
		return -1;
	return frame_rate(f, f->before->waits[was - f->before->pool],
			  f->now->waits[is - f->now->pool]);
}

/* Tenants are listed pool by pool, by ascending number. */
static const struct kvcache_tenant_info *
tenant_before(const struct frame *f, const struct kvcache_tenant_info *t,
	      size_t *hint)
{
	const struct sample *b = f->before;
	size_t i, n = b ? b->ntenants : 0;

	for (i = 0; i < n; i++) {
		const struct kvcache_tenant_info *v =
			&b->tenant[(*hint + i) % n];

		if (v->id != t->id || v->pool != t->pool)
			continue;
		*hint = (*hint + i + 1) % n;
		return v;
	}
	return NULL;
}

static void rates(const struct frame *f, struct row *r, size_t *hint)
{
	const struct kvcache_tenant_info *t = r->tenant;
	const struct kvcache_tenant_info *b = tenant_before(f, t, hint);

	r->lookups = r->maxed = r->hits = -1;
	if (b) {
		r->lookups = frame_rate(f, b->lookups, t->lookups);
		r->maxed = frame_rate(f, b->ev_max, t->ev_max);
		if (r->lookups > 0)
			r->hits = (double)(t->hits - b->hits) /
				  (t->lookups - b->lookups);
	}
	/* Nothing happened meanwhile: the share of all of them so far. */
	if (r->hits < 0 && t->lookups)
		r->hits = (double)t->hits / t->lookups;
}

/* ---- order -------------------------------------------------------------------- */

static double number_of(const struct row *r, int section, int column)
{
	const struct kvcache_tenant_info *t = r->tenant;
	const struct kvcache_client_info *c = r->client;
	double page = r->pool->page_size;

	if (section == TENANTS) {
		switch (column) {
		case T_USED: return t->cur * page;
		case T_CACHED: return t->nr_cached * page;
		case T_MIN: return t->min * page;
		case T_LOW: return t->low * page;
		case T_MAX: return t->max * page;
		case T_CLIENTS: return t->clients;
		case T_WAIT: return t->waiters;
		case T_MAXED: return r->maxed;
		case T_LOOKUPS: return r->lookups;
		case T_HITS: return r->hits;
		}
		return 0;
	}
	switch (column) {
	/* The oldest first, as every list has them. */
	case C_CLIENT: return -(double)c->id;
	case C_PID: return -(double)c->pid;
	case C_PRIVATE: return c->nr_private * page;
	case C_SHARED: return c->nr_shared * page;
	case C_WAIT: return c->waiting * page;
	}
	return 0;
}

static const char *text_of(const struct row *r, int section, int column)
{
	if (section == CLIENTS && column == C_COMMAND)
		return r->client->comm;
	if (column == (section == TENANTS ? (int)T_POOL : (int)C_POOL))
		return r->pool->name;
	return r->name;
}

/* Of what is being compared; qsort() has no room for it. */
static struct {
	int section;
	int column;
	bool reverse;
} order;

static int compare(const void *a, const void *b)
{
	const struct column *col = order.section == TENANTS ?
				   &tenant_columns[order.column] :
				   &client_columns[order.column];
	const struct row *x = a, *y = b;
	double p, q;
	int ret;

	if (col->text) {
		ret = strcmp(text_of(x, order.section, order.column),
			     text_of(y, order.section, order.column));
	} else {
		p = number_of(x, order.section, order.column);
		q = number_of(y, order.section, order.column);
		ret = p > q ? -1 : p < q;
	}
	if (order.reverse)
		ret = -ret;
	/* So that equal ones do not dance. */
	return ret ? ret : x->key < y->key ? -1 : x->key > y->key;
}

/* ---- rows ---------------------------------------------------------------------- */

static bool wanted(const struct view *v, const struct row *r)
{
	char number[16];

	if (!*v->filter || strstr(r->name, v->filter) ||
	    strstr(r->pool->name, v->filter))
		return true;
	if (!r->client)
		return false;
	snprintf(number, sizeof(number), "%u", r->client->pid);
	return strstr(r->client->comm, v->filter) ||
	       !strcmp(number, v->filter);
}

static uint64_t key_of(uint32_t id, uint32_t pool)
{
	return (uint64_t)id << 32 | pool;
}

static void tenant_rows(struct frame *f, const struct view *v)
{
	struct row *r = xcalloc(f->now->ntenants, sizeof(*r));
	size_t hint = 0;

	f->row[TENANTS] = r;
	for (size_t i = 0; i < f->now->ntenants; i++) {
		const struct kvcache_tenant_info *t = &f->now->tenant[i];

		*r = (struct row){
			.key = key_of(t->id, t->pool),
			.pool = sample_pool(f->now, t->pool),
			.tenant = t,
		};
		snprintf(r->name, sizeof(r->name), "%s", t->name);
		if (!r->pool || !wanted(v, r))
			continue;
		rates(f, r, &hint);
		f->n[TENANTS]++;
		r++;
	}
}

static int by_number(const void *key, const void *elem)
{
	const struct kvcache_tenant_info *t = elem;
	uint32_t id = *(const uint32_t *)key;

	return id < t->id ? -1 : id > t->id;
}

static void client_rows(struct frame *f, const struct view *v)
{
	const struct sample *s = f->now;
	struct row *r = xcalloc(s->nclients, sizeof(*r));
	const struct kvcache_tenant_info *t;
	size_t first = 0;

	/* Those of the first pool are all there are, in order. */
	while (first < s->ntenants && s->tenant[first].pool == s->tenant[0].pool)
		first++;
	f->row[CLIENTS] = r;
	for (size_t i = 0; i < s->nclients; i++) {
		*r = (struct row){
			.key = key_of(s->client[i].id, s->cpool[i]),
			.pool = sample_pool(s, s->cpool[i]),
			.client = &s->client[i],
		};
		t = bsearch(&s->client[i].tenant, s->tenant, first, sizeof(*t),
			    by_number);
		if (t)
			snprintf(r->name, sizeof(r->name), "%s", t->name);
		else if (s->client[i].tenant)
			snprintf(r->name, sizeof(r->name), "#%u",
				 s->client[i].tenant);
		if (!r->pool || !wanted(v, r))
			continue;
		f->n[CLIENTS]++;
		r++;
	}
}

/* The row that was selected, or the one that is where it was. */
static void find_selected(const struct frame *f, struct view *v, int section)
{
	size_t i;

	for (i = 0; i < f->n[section]; i++)
		if (f->row[section][i].key == v->key[section])
			break;
	if (i == f->n[section])
		i = v->index[section];
	if (i >= f->n[section])
		i = f->n[section] ? f->n[section] - 1 : 0;
	v->index[section] = i;
	v->key[section] = i < f->n[section] ? f->row[section][i].key : 0;
}

void frame_build(struct frame *f, struct view *v, const struct sample *now,
		 const struct sample *before)
{
	*f = (struct frame){ .now = now, .before = before };
	tenant_rows(f, v);
	client_rows(f, v);
	for (int s = 0; s < SECTIONS; s++) {
		order.section = s;
		order.column = v->sort[s];
		order.reverse = v->reverse[s];
		qsort(f->row[s], f->n[s], sizeof(*f->row[s]), compare);
		find_selected(f, v, s);
	}
}

void frame_free(struct frame *f)
{
	for (int s = 0; s < SECTIONS; s++)
		free(f->row[s]);
}
