// SPDX-License-Identifier: MIT
/*
 * sim.c - requests run in virtual time against a store.
 *
 * A tenant takes its requests in the order of their arrival: the one in front
 * looks up its prefix, then gets the other pages all at once, or waits for them
 * in the ledger's queue with its prefix held. Then it computes its prompt,
 * publishes its full blocks, generates, and gives everything back. How long
 * that takes depends on its own lengths only.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum event_what { EV_PUBLISH, EV_END, EV_RESTART };

struct event {
	uint64_t t;
	uint64_t nr;		/* of one time: in the order they were made */
	enum event_what what;
	uint32_t arg;
};

/* What a request has; a part of it while it waits. */
struct job {
	uint64_t *pages;
	uint32_t hits;
	uint32_t have;
	uint32_t asked;		/* pages of the allocation that waits */
	uint32_t epoch;		/* of its tenant's process */
};

/* Requests of one tenant that have not started: from @head on. */
struct line {
	uint32_t *v;
	size_t head;
	size_t tail;
	bool waiting;		/* the first one is, for pages */
	uint32_t epoch;
};

struct sim {
	const struct trace *t;
	const struct sim_config *c;
	struct store *s;
	struct outcome *out;
	struct job *job;
	struct line line[REPLAY_MAX_TENANTS];
	struct event *heap;
	size_t events;
	size_t heap_cap;
	size_t step_cap;
	uint64_t event_nr;
	uint64_t now;
	uint64_t end;		/* of the last arrival: samples are up to it */
	uint32_t running;
};

/* ---- events ------------------------------------------------------------- */

static bool before(const struct event *a, const struct event *b)
{
	return a->t != b->t ? a->t < b->t : a->nr < b->nr;
}

static void event_add(struct sim *x, uint64_t t, enum event_what what,
		      uint32_t arg)
{
	struct event e = { t, x->event_nr++, what, arg };
	size_t k = x->events++, up;

	if (x->events > x->heap_cap) {
		x->heap_cap = x->heap_cap ? 2 * x->heap_cap : 1024;
		x->heap = reallocarray(x->heap, x->heap_cap, sizeof(e));
		if (!x->heap)
			replay_die("out of memory");
	}
	for (; k && before(&e, &x->heap[up = (k - 1) / 2]); k = up)
		x->heap[k] = x->heap[up];
	x->heap[k] = e;
}

static struct event event_take(struct sim *x)
{
	struct event first = x->heap[0], e = x->heap[--x->events];
	size_t k = 0, down;

	while ((down = 2 * k + 1) < x->events) {
		if (down + 1 < x->events &&
		    before(&x->heap[down + 1], &x->heap[down]))
			down++;
		if (!before(&x->heap[down], &e))
			break;
		x->heap[k] = x->heap[down];
		k = down;
	}
	x->heap[k] = e;
	return first;
}

static void step(struct sim *x, uint32_t r, enum step_what what)
{
	struct outcome *o = x->out;

	if (o->steps == x->step_cap) {
		x->step_cap = x->step_cap ? 2 * x->step_cap : 4096;
		o->step = reallocarray(o->step, x->step_cap, sizeof(*o->step));
		if (!o->step)
			replay_die("out of memory");
	}
	o->step[o->steps++] = (struct step) { r, what };
}

static void must(int rc, const char *what)
{
	if (rc < 0)
		replay_die("%s: %s", what, strerror(-rc));
}

/* ---- pages of one request ----------------------------------------------- */

/* The leaf part first: what is given last is oldest. */
static void put(struct sim *x, uint32_t tenant, const uint64_t *pages,
		uint32_t n)
{
	uint32_t from;

	while (n) {
		from = n > KVCACHE_MAX_PAGES ? n - KVCACHE_MAX_PAGES : 0;
		must(x->s->ops->free(x->s, tenant, pages + from, n - from),
		     "pages given back");
		n = from;
	}
}

static void look(struct sim *x, uint32_t i)
{
	const struct request *q = &x->t->v[i];
	struct job *j = &x->job[i];
	uint32_t n;
	int rc = 0;

	j->pages = replay_alloc(q->pages, sizeof(*j->pages));
	j->hits = 0;
	while (j->hits < q->ask) {
		n = q->ask - j->hits;
		if (n > KVCACHE_MAX_KEYS)
			n = KVCACHE_MAX_KEYS;
		rc = x->s->ops->lookup(x->s, q->tenant,
				       q->block + j->hits, n, j->pages + j->hits);
		/* No room to hold what was found: then it is not found. */
		if (rc == -EDQUOT || rc == -ENOSPC)
			break;
		must(rc, "a lookup");
		j->hits += rc;
		if (rc < (int)n)
			break;
	}
	j->have = j->hits;
	x->out->found += j->hits;
	step(x, i, STEP_LOOK);
}

static void start(struct sim *x, uint32_t i)
{
	const struct request *q = &x->t->v[i];
	struct tally *tally = &x->out->tenant[q->tenant];
	struct job *j = &x->job[i];
	uint64_t waited = x->now - q->arrival, computed;

	computed = q->input - (uint64_t)j->hits * x->t->page_tokens;
	j->epoch = x->line[q->tenant].epoch;
	step(x, i, STEP_START);
	x->running++;
	tally->hits += j->hits;
	tally->misses += q->ask - j->hits;
	if (waited) {
		tally->waits++;
		tally->waited += waited;
		if (waited > tally->longest)
			tally->longest = waited;
	}
	event_add(x, x->now + computed / x->c->prefill * SECOND, EV_PUBLISH, i);
}

static void refuse(struct sim *x, uint32_t i)
{
	struct request *q = &x->t->v[i];
	struct job *j = &x->job[i];

	if (j->pages) {
		put(x, q->tenant, j->pages, j->have);
		step(x, i, STEP_DROP);
	}
	free(j->pages);
	j->pages = NULL;
	x->out->tenant[q->tenant].refused++;
	x->out->tenant[q->tenant].misses += q->ask;
}

/* Starts requests of a tenant until one has to wait. */
static void admit(struct sim *x, uint32_t tenant)
{
	struct line *l = &x->line[tenant];
	uint64_t limit;

	while (!l->waiting && l->head < l->tail) {
		uint32_t i = l->v[l->head], n;
		const struct request *q = &x->t->v[i];
		struct job *j = &x->job[i];
		int rc = 0;

		must(x->s->ops->limit(x->s, tenant, &limit), "a check");
		if (q->pages > limit)
			rc = -E2BIG;
		else if (!j->pages)
			look(x, i);
		while (!rc && j->have < q->pages) {
			n = q->pages - j->have;
			if (n > KVCACHE_MAX_PAGES)
				n = KVCACHE_MAX_PAGES;
			rc = x->s->ops->alloc(x->s, tenant, n,
					      j->pages + j->have);
			if (!rc)
				j->have += n;
			j->asked = n;
		}
		if (rc == STORE_WAITING) {
			l->waiting = true;
			return;
		}
		if (rc != -E2BIG)
			must(rc, "an allocation");
		l->head++;
		if (rc)
			refuse(x, i);
		else
			start(x, i);
	}
}

/* Whether any waiting allocation was met. */
static bool settle(struct sim *x)
{
	bool any = false;
	int k;

	while ((k = x->s->ops->granted(x->s)) >= 0) {
		struct line *l = &x->line[k];
		struct job *j = &x->job[l->v[l->head]];

		any = true;
		j->have += j->asked;
		l->waiting = false;
		admit(x, k);
	}
	return any;
}

/* Of the requests that wait for pages, the last or first to have arrived. */
static int waiting(const struct sim *x, bool last)
{
	uint32_t i, best = 0, k;
	int found = -1;

	for (k = 0; k < x->t->tenants; k++) {
		const struct line *l = &x->line[k];

		if (l->head == l->tail || l->waiting != last)
			continue;
		i = l->v[l->head];
		if (found < 0 || (last ? i > best : i < best)) {
			found = k;
			best = i;
		}
	}
	return found;
}

/*
 * Nothing runs, and everybody waits, because each holds a prefix. The youngest
 * let go of theirs until somebody can go on; they look it up again.
 */
static void untie(struct sim *x)
{
	int k;

	do {
		struct line *l;
		struct job *j;
		uint32_t i;

		k = waiting(x, true);
		if (k < 0)
			break;
		l = &x->line[k];
		i = l->v[l->head];
		j = &x->job[i];
		x->s->ops->cancel(x->s, k);
		l->waiting = false;
		put(x, k, j->pages, j->have);
		free(j->pages);
		j->pages = NULL;
		step(x, i, STEP_DROP);
		x->out->preempted++;
	} while (!settle(x));
	while ((k = waiting(x, false)) >= 0) {
		admit(x, k);
		settle(x);
	}
}

/* ---- time --------------------------------------------------------------- */

/* Tenants that pages are charged to. */
static uint32_t accounts(const struct sim *x)
{
	return x->t->tenants + x->c->commons;
}

static void sample(struct sim *x)
{
	struct sample *p = &x->out->sample[x->out->samples];
	struct kvcache_tenant_info ti;
	struct kvcache_pool_info pi;
	uint32_t k;

	must(x->s->ops->pool(x->s, &pi), "the pool's counters");
	p->in_use = pi.nr_private + pi.nr_shared;
	p->cached = pi.nr_cached;
	p->free = pi.nr_pages - p->in_use - p->cached;
	p->running = x->running;
	if (p->in_use > x->out->all.peak)
		x->out->all.peak = p->in_use;
	for (k = 0; k < accounts(x); k++) {
		must(x->s->ops->tenant(x->s, k, &ti), "a tenant's counters");
		p->cur[k] = ti.cur;
	}
	for (k = 0; k < x->t->tenants; k++)
		p->waiting += x->line[k].tail - x->line[k].head;
	x->out->samples++;
}

static uint64_t sample_time(const struct sim *x)
{
	return x->end / REPLAY_SAMPLES * (x->out->samples + 1);
}

static void set_time(struct sim *x, uint64_t t)
{
	while (x->out->samples < REPLAY_SAMPLES && sample_time(x) <= t) {
		x->out->sample[x->out->samples].t = sample_time(x);
		sample(x);
	}
	x->now = t;
	/* The ledger's time begins with something. */
	x->s->now = t + 1;
}

static void publish(struct sim *x, uint32_t i)
{
	const struct request *q = &x->t->v[i];
	struct job *j = &x->job[i];
	uint32_t k, n;
	int rc;

	step(x, i, STEP_PUBLISH);
	event_add(x, x->now + q->output / x->c->decode * SECOND, EV_END, i);
	/* Computed by a process that is no more. */
	if (j->epoch != x->line[q->tenant].epoch)
		return;
	for (k = j->hits; k < q->full; k += n) {
		n = q->full - k;
		if (n > KVCACHE_MAX_PUBLISH)
			n = KVCACHE_MAX_PUBLISH;
		rc = x->s->ops->publish(x->s, q->tenant, q->block + k,
					k ? &q->block[k - 1] : NULL, n,
					j->pages + k);
		if (rc == -EDQUOT || rc == -ENOSPC)
			x->out->unpublished += n;
		else
			must(rc, "a publication");
	}
}

static void end(struct sim *x, uint32_t i)
{
	struct job *j = &x->job[i];

	step(x, i, STEP_END);
	put(x, x->t->v[i].tenant, j->pages, j->have);
	free(j->pages);
	j->pages = NULL;
	x->running--;
}

/* What its requests hold goes with them; they are let run to their end. */
static void restart(struct sim *x, uint32_t tenant)
{
	must(x->s->ops->flush(x->s, tenant), "a flush");
	x->line[tenant].epoch++;
	event_add(x, x->now + x->c->restart * SECOND, EV_RESTART, tenant);
}

static void happen(struct sim *x, const struct event *e)
{
	set_time(x, e->t);
	if (e->what == EV_PUBLISH)
		publish(x, e->arg);
	else if (e->what == EV_END)
		end(x, e->arg);
	else
		restart(x, e->arg);
	settle(x);
}

static void arrive(struct sim *x, uint32_t i)
{
	const struct request *q = &x->t->v[i];
	struct line *l = &x->line[q->tenant];
	struct tally *tally = &x->out->tenant[q->tenant];

	set_time(x, q->arrival);
	tally->requests++;
	tally->asked += q->ask;
	tally->input += q->input;
	l->v[l->tail++] = i;
	admit(x, q->tenant);
	settle(x);
}

static bool anybody_waits(const struct sim *x)
{
	uint32_t k;

	for (k = 0; k < x->t->tenants; k++)
		if (x->line[k].head < x->line[k].tail)
			return true;
	return false;
}

static void serve(struct sim *x)
{
	struct event e;
	size_t i = 0;
	uint32_t k;

	for (k = 0; k < x->t->tenants && x->c->restart > 0; k++)
		event_add(x, x->c->restart * SECOND * (k + 1) / x->t->tenants,
			  EV_RESTART, k);
	while (i < x->t->n || x->running || anybody_waits(x)) {
		if (!x->running && anybody_waits(x))
			untie(x);
		if (i == x->t->n && !x->running && anybody_waits(x))
			replay_die("nothing runs and no request gets its pages: others hold them, so replay in a pool of its own");
		/* At one time, first what gives pages back. */
		if (x->events && (i == x->t->n ||
				  x->heap[0].t <= x->t->v[i].arrival)) {
			e = event_take(x);
			happen(x, &e);
		} else if (i < x->t->n) {
			arrive(x, i++);
		}
	}
}

/* ---- a run -------------------------------------------------------------- */

static void total(struct sim *x)
{
	struct tally *all = &x->out->all, *t;
	struct kvcache_tenant_info ti;
	struct kvcache_pool_info pi;
	uint32_t k, s;

	must(x->s->ops->pool(x->s, &pi), "the pool's counters");
	all->evicted = pi.reclaims;
	for (k = 0; k < accounts(x); k++) {
		t = &x->out->tenant[k];
		must(x->s->ops->tenant(x->s, k, &ti), "a tenant's counters");
		t->evicted = ti.ev_reclaim;
		t->peak = ti.peak;
		for (s = 0; s < x->out->samples; s++)
			t->share += (double)x->out->sample[s].cur[k] /
				    x->out->samples;
		all->requests += t->requests;
		all->refused += t->refused;
		all->asked += t->asked;
		all->hits += t->hits;
		all->misses += t->misses;
		all->input += t->input;
		all->waits += t->waits;
		all->waited += t->waited;
		all->share += t->share;
		if (t->longest > all->longest)
			all->longest = t->longest;
	}
}

/* Nothing is left in use, and every invariant of the ledger holds. */
static void check_end(struct sim *x)
{
	struct kvcache_pool_info pi;
	char why[160] = "";
	int err = x->s->ops->verify(x->s, why, sizeof(why));

	must(x->s->ops->pool(x->s, &pi), "the pool's counters");
	x->out->pages = pi.nr_pages;
	/* Where it cannot be asked, others may have pages of the pool, too. */
	if (err == -EOPNOTSUPP)
		return;
	if (err)
		replay_die("the ledger is damaged: %s", why);
	if (pi.nr_private || pi.nr_shared)
		replay_die("%llu pages are in use at the end",
			   (unsigned long long)(pi.nr_private + pi.nr_shared));
	if (pi.hits != x->out->found)
		replay_die("the ledger counts %llu hits, not %llu",
			   (unsigned long long)pi.hits,
			   (unsigned long long)x->out->found);
}

void sim_run(const struct trace *t, const struct sim_config *c, struct store *s,
	     struct outcome *out)
{
	double begin = replay_seconds();
	struct sim x = { .t = t, .c = c, .s = s, .out = out };
	uint32_t k;

	memset(out, 0, sizeof(*out));
	x.job = replay_alloc(t->n, sizeof(*x.job));
	x.end = t->v[t->n - 1].arrival;
	for (k = 0; k < t->tenants; k++)
		x.line[k].v = replay_alloc(t->n, sizeof(*x.line[k].v));
	serve(&x);
	total(&x);
	check_end(&x);
	for (k = 0; k < t->tenants; k++)
		free(x.line[k].v);
	free(x.heap);
	free(x.job);
	out->seconds = replay_seconds() - begin;
}

void outcome_free(struct outcome *o)
{
	free(o->step);
	o->step = NULL;
}
