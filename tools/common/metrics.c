// SPDX-License-Identifier: MIT
/*
 * metrics.c - a look at the ledger as metrics.
 *
 * A family's samples are one behind the other, as both texts have it, so each
 * family is a walk over all tenants: their labels are made once before.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "metrics.h"
#include "metrics_table.h"
#include "utf8.h"
#include "util.h"

/**
 * struct share - a tenant in a pool
 * @t: its record
 * @label: ``tenant="NAME"``, at this place of writer.labels
 * @len: bytes of it
 */
struct share {
	const struct kvcache_tenant_info *t;
	size_t label;
	size_t len;
};

/**
 * struct writer - a text in the making
 * @out: the text
 * @l: the look
 * @o: how
 * @own: what the look says of itself
 * @labels: labels of tenants
 * @share: [pool] tenants, @nshare of them
 * @nshare: [pool]
 * @rest: [pool] the sum of all that have no series of their own
 * @pool: [pool] ``pool="NAME"``
 */
struct writer {
	struct buffer *out;
	const struct look *l;
	const struct metrics_opts *o;
	struct metrics_of_look own;
	struct buffer labels;
	struct share *share[KVCACHE_MAX_POOLS];
	size_t nshare[KVCACHE_MAX_POOLS];
	struct kvcache_tenant_info rest[KVCACHE_MAX_POOLS];
	struct buffer pool[KVCACHE_MAX_POOLS];
};

/* ---- values ----------------------------------------------------------- */

static uint64_t value_at(const struct metric *m, const void *base,
			 unsigned int k)
{
	const char *p = (const char *)base + m->at + k * m->size;
	uint32_t half;
	uint64_t v;

	if (m->size == sizeof(half)) {
		memcpy(&half, p, sizeof(half));
		return half;
	}
	memcpy(&v, p, sizeof(v));
	return v;
}

/* Exact: a reader makes of it the nearest number that it has. */
static void put_seconds(struct buffer *b, uint64_t ns)
{
	char frac[10];
	size_t len = 9;

	buffer_u64(b, ns / 1000000000);
	if (!(ns % 1000000000))
		return;
	snprintf(frac, sizeof(frac), "%09u", (unsigned int)(ns % 1000000000));
	while (frac[len - 1] == '0')
		len--;
	buffer_add(b, ".", 1);
	buffer_add(b, frac, len);
}

static void put_value(struct buffer *b, const struct metric *m, uint64_t v,
		      uint64_t page_size)
{
	switch (m->as) {
	case METRIC_COUNT:
		buffer_u64(b, v);
		break;
	case METRIC_BYTES:
	case METRIC_LIMIT:
		if (page_size && v > UINT64_MAX / page_size)
			buffer_text(b, "+Inf");
		else
			buffer_u64(b, v * page_size);
		break;
	case METRIC_SECONDS:
		if (v == KVCACHE_TIME_NEVER)
			buffer_text(b, "+Inf");
		else
			put_seconds(b, v);
		break;
	}
}

/* ---- labels ----------------------------------------------------------- */

/* A backend may call a tenant anything; the texts are UTF-8. */
static void put_label(struct buffer *b, const char *label, const char *name)
{
	size_t len = strnlen(name, KVCACHE_NAME_LEN);
	int n;

	buffer_text(b, label);
	buffer_add(b, "=\"", 2);
	for (; len; name += n, len -= n) {
		n = 1;
		if (*name == '\\' || *name == '"') {
			buffer_add(b, "\\", 1);
			buffer_add(b, name, 1);
		} else if (*name == '\n') {
			buffer_add(b, "\\n", 2);
		} else if (shown_char(name, len) > 0) {
			n = shown_char(name, len);
			buffer_add(b, name, n);
		} else {
			buffer_text(b, "\xef\xbf\xbd");
		}
	}
	buffer_add(b, "\"", 1);
}

static void add_share(struct writer *w, uint32_t pool,
		      const struct kvcache_tenant_info *t, const char *name)
{
	struct share *s = &w->share[pool][w->nshare[pool]++];

	s->t = t;
	s->label = w->labels.len;
	put_label(&w->labels, "tenant", name);
	s->len = w->labels.len - s->label;
}

/* As far as values can be added up; no limit and a limit is no limit. */
static void add_up(struct kvcache_tenant_info *sum,
		   const struct kvcache_tenant_info *t)
{
	const struct metric *m;
	uint64_t a, b;
	uint32_t half;

	for (m = metrics_table; m->name; m++) {
		if (m->of != METRIC_OF_SHARE && m->of != METRIC_OF_TENANT)
			continue;
		a = value_at(m, sum, 0);
		b = value_at(m, t, 0);
		a = b > UINT64_MAX - a ? UINT64_MAX : a + b;
		half = a;
		memcpy((char *)sum + m->at,
		       m->size == sizeof(half) ? (void *)&half : (void *)&a,
		       m->size);
	}
}

static int prepare_pool(struct writer *w, uint32_t i)
{
	const struct kvcache_tenant_info *t = w->l->tenant[i].v;
	size_t n = w->l->tenant[i].n, own = n, k;

	if (w->o->max_tenants && w->o->max_tenants < n)
		own = w->o->max_tenants;
	w->share[i] = calloc(own + 1, sizeof(*w->share[i]));
	if (!w->share[i])
		return -ENOMEM;
	put_label(&w->pool[i], "pool", w->l->query.out_pools[i].name);
	for (k = 0; k < own; k++)
		add_share(w, i, &t[k], t[k].name);
	for (; k < n; k++)
		add_up(&w->rest[i], &t[k]);
	if (own < n)
		add_share(w, i, &w->rest[i], METRICS_REST);
	return w->labels.failed || w->pool[i].failed ? -ENOMEM : 0;
}

/* ---- families --------------------------------------------------------- */

static const char *suffix(const struct metric *m)
{
	return m->type == METRIC_COUNTER ? "_total" : "";
}

/* The older text takes a counter's suffix for a part of its name. */
static void head(struct writer *w, const struct metric *m)
{
	static const char *const types[] = { "gauge", "counter", "histogram" };
	bool older = w->o->format == METRICS_PROMETHEUS;
	struct buffer *b = w->out;

	buffer_text(b, "# HELP ");
	buffer_text(b, m->name);
	buffer_text(b, older ? suffix(m) : "");
	buffer_text(b, " ");
	buffer_text(b, m->help);
	buffer_text(b, "\n# TYPE ");
	buffer_text(b, m->name);
	buffer_text(b, older ? suffix(m) : "");
	buffer_text(b, " ");
	buffer_text(b, types[m->type]);
	if (m->unit && !older) {
		buffer_text(b, "\n# UNIT ");
		buffer_text(b, m->name);
		buffer_text(b, " ");
		buffer_text(b, m->unit);
	}
	buffer_text(b, "\n");
}

/* Labels of up to two, each with the length 0 if there is none. */
struct labels {
	const char *s[2];
	size_t len[2];
};

static void put_labels(struct buffer *b, const struct labels *lb,
		       const char *label, const char *value)
{
	bool any = false;
	int i;

	for (i = 0; i < 2; i++) {
		if (!lb->len[i])
			continue;
		buffer_add(b, any ? "," : "{", 1);
		buffer_add(b, lb->s[i], lb->len[i]);
		any = true;
	}
	if (label) {
		buffer_add(b, any ? "," : "{", 1);
		put_label(b, label, value);
		any = true;
	}
	buffer_add(b, any ? "} " : " ", any ? 2 : 1);
}

static void samples(struct writer *w, const struct metric *m, const void *base,
		    const struct labels *lb, uint64_t page_size)
{
	unsigned int nr = m->label ? m->nr : 1, k;
	struct buffer *b = w->out;

	for (k = 0; k < nr; k++) {
		buffer_text(b, m->name);
		buffer_text(b, suffix(m));
		put_labels(b, lb, m->label, m->label ? m->values[k] : NULL);
		put_value(b, m, value_at(m, base, k), page_size);
		buffer_add(b, "\n", 1);
	}
}

/* The bounds of the ABI: 1 us x 4^i. As both texts want them: "1.6e-05". */
static void histogram(struct writer *w, const struct metric *m,
		      const struct kvcache_pool_get *g,
		      const struct labels *lb)
{
	uint64_t count = 0, bound = 1;
	struct buffer *b = w->out;
	unsigned int k;
	char le[32];

	for (k = 0; k < m->nr; k++, bound *= 4) {
		count += value_at(m, g, k);
		if (k + 1 < m->nr)
			snprintf(le, sizeof(le), "%.9g", bound / 1e6);
		else
			strcpy(le, "+Inf");
		buffer_text(b, m->name);
		buffer_text(b, "_bucket");
		put_labels(b, lb, "le", le);
		buffer_u64(b, count);
		buffer_add(b, "\n", 1);
	}
	buffer_text(b, m->name);
	buffer_text(b, "_count");
	put_labels(b, lb, NULL, NULL);
	buffer_u64(b, count);
	buffer_add(b, "\n", 1);
	buffer_text(b, m->name);
	buffer_text(b, "_sum");
	put_labels(b, lb, NULL, NULL);
	put_seconds(b, g->out_wait_ns);
	buffer_add(b, "\n", 1);
}

static void of_shares(struct writer *w, const struct metric *m, uint32_t i)
{
	const struct kvcache_pool_info *p = &w->l->query.out_pools[i];
	const struct share *s = w->share[i];
	struct labels lb = { .s = { NULL } };
	size_t k;

	for (k = 0; k < w->nshare[i]; k++, s++) {
		/*
		 * No sum of times is a time to live; a counter must not go
		 * back, as its sum does when one of them is removed.
		 */
		if (s->t == &w->rest[i] && (m->as == METRIC_SECONDS ||
					    m->type == METRIC_COUNTER))
			continue;
		lb.s[0] = w->labels.s + s->label;
		lb.len[0] = s->len;
		if (m->of == METRIC_OF_SHARE) {
			lb.s[1] = w->pool[i].s;
			lb.len[1] = w->pool[i].len;
		}
		samples(w, m, s->t, &lb, p->page_size);
	}
}

static void family(struct writer *w, const struct metric *m)
{
	const struct kvcache_query *q = &w->l->query;
	struct labels lb = { .s = { NULL } };
	uint32_t i;

	if (m->of == METRIC_OF_COUNTERS && !w->l->has_counters)
		return;
	head(w, m);
	if (m->of == METRIC_OF_LOOK)
		samples(w, m, &w->own, &lb, 0);
	for (i = 0; i < q->out_nr_pools; i++) {
		lb.s[0] = w->pool[i].s;
		lb.len[0] = w->pool[i].len;
		if (m->of == METRIC_OF_POOL)
			samples(w, m, &q->out_pools[i], &lb,
				q->out_pools[i].page_size);
		else if (m->type == METRIC_HISTOGRAM)
			histogram(w, m, &w->l->counters[i], &lb);
		else if (m->of == METRIC_OF_COUNTERS)
			samples(w, m, &w->l->counters[i], &lb,
				q->out_pools[i].page_size);
		else if (m->of == METRIC_OF_SHARE ||
			 (m->of == METRIC_OF_TENANT && !i))
			of_shares(w, m, i);
	}
}

int metrics_write(const struct look *l, const struct metrics_opts *o,
		  struct buffer *out)
{
	struct writer w = {
		.out = out, .l = l, .o = o,
		.own = { .seq = l->seq, .inconsistent = o->inconsistent },
	};
	const struct metric *m;
	uint32_t i;
	int err = 0;

	for (i = 0; !err && i < l->query.out_nr_pools; i++)
		err = prepare_pool(&w, i);
	for (m = metrics_table; !err && m->name; m++)
		family(&w, m);
	if (o->format == METRICS_OPENMETRICS)
		buffer_text(out, "# EOF\n");
	for (i = 0; i < KVCACHE_MAX_POOLS; i++) {
		free(w.share[i]);
		free(w.pool[i].s);
	}
	free(w.labels.s);
	return err || out->failed ? -ENOMEM : 0;
}
