// SPDX-License-Identifier: MIT
/*
 * sample.c - read one moment, and set limits.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "change.h"
#include "look.h"
#include "sample.h"
#include "util.h"

#define TRIES 4		/* for a sample of one moment */

/* A client's row in each further pool tells more only if it has something. */
static void take_clients(struct sample *s, uint32_t pool,
			 const struct records *from, bool first)
{
	const struct kvcache_client_info *v = from->v;
	size_t n = s->nclients + from->n, i;

	s->client = xrealloc(s->client, n, sizeof(*s->client));
	s->cpool = xrealloc(s->cpool, n, sizeof(*s->cpool));
	for (i = 0; i < from->n; i++) {
		if (!first && !v[i].nr_private && !v[i].nr_shared &&
		    !v[i].waiting)
			continue;
		s->client[s->nclients] = v[i];
		s->cpool[s->nclients++] = pool;
	}
}

static void take_tenants(struct sample *s, const struct records *from)
{
	s->tenant = xrealloc(s->tenant, s->ntenants + from->n,
			     sizeof(*s->tenant));
	if (from->n)
		memcpy(s->tenant + s->ntenants, from->v,
		       from->n * sizeof(*s->tenant));
	s->ntenants += from->n;
}

static void take(struct sample *s, const struct look *l)
{
	unsigned int i, k;

	s->npools = l->query.out_nr_pools;
	s->has_waits = l->has_counters;
	memcpy(s->pool, l->query.out_pools, sizeof(s->pool));
	s->seq = l->seq;
	s->last = l->last;
	for (i = 0; i < s->npools; i++) {
		take_tenants(s, &l->tenant[i]);
		take_clients(s, s->pool[i].id, &l->client[i], !i);
		for (k = 0; k < KVCACHE_WAIT_ENDS; k++)
			s->waits[i] += l->counters[i].out_waits[k];
	}
}

void sample_free(struct sample *s)
{
	free(s->tenant);
	free(s->client);
	free(s->cpool);
	*s = (struct sample){ 0 };
}

int sample_read(struct source *src, struct sample *s)
{
	static struct look l;
	int err = source_open(src);

	if (!err)
		err = look_read(source_ask, src, LOOK_TENANTS | LOOK_CLIENTS |
				LOOK_COUNTERS, TRIES, &l);
	if (err) {
		/* One that is gone does not come back by itself. */
		source_close(src);
		return err;
	}
	sample_free(s);
	take(s, &l);
	snprintf(s->backend, sizeof(s->backend), "%s", kvc_backend(src->kvc));
	s->at = now();
	look_free(&l);
	return 0;
}

const struct kvcache_pool_info *sample_pool(const struct sample *s,
					    uint32_t id)
{
	for (unsigned int i = 0; i < s->npools; i++)
		if (s->pool[i].id == id)
			return &s->pool[i];
	return NULL;
}

/* ---- limits --------------------------------------------------------------- */

struct target {
	struct source *src;
	const struct new_limit *want;
};

/* The tenant as it is now, if it is the one that was asked about. */
static int look_up(void *arg, struct kvcache_tenant_info *out)
{
	static struct kvcache_tenant_get g;
	const struct target *t = arg;
	int err;

	g = (struct kvcache_tenant_get){ .pool = t->want->pool,
					 .start = t->want->tenant };
	err = source_ask(t->src, KVCACHE_NR_TENANT_GET, &g);
	if (err)
		return err;
	if (!g.out_nr || g.out_info[0].id != t->want->tenant ||
	    strcmp(g.out_info[0].name, t->want->name))
		return source_because(t->src, -ENOENT, "this tenant is gone");
	*out = g.out_info[0];
	return 0;
}

static int refused(struct source *src, int err)
{
	switch (err) {
	case -EPERM:
		return source_because(src, err,
			       strcmp(kvc_backend(src->kvc), "device") ?
			       "only root and the broker's own user may do this" :
			       "only who has CAP_SYS_ADMIN may do this");
	case -EINVAL:
		return source_because(src, err,
			       "neither min nor low can be above max: lower these, or raise max");
	case -ENOSPC:
		return source_because(src, err,
			       "the pool would promise more than it has: lower a min, or grow the pool");
	case -ESTALE:
		return source_because(src, err,
			       "others change it all the time: try again");
	}
	return source_because(src, err, "%s", strerror(-err));
}

/* What it says to a refusal is ours to say: refused(). */
static int ask(void *arg, unsigned int nr, void *cmd)
{
	return kvc_call(arg, nr, cmd);
}

int source_set(struct source *src, const struct new_limit *l)
{
	/* What is counted in pages needs no pool: a page is a byte of it. */
	const struct kvcache_pool_info p = { .id = l->pool, .page_size = 1 };
	const struct limit limit = {
		.kind = l->pages == UINT64_MAX ? LIMIT_MAX : LIMIT_BYTES,
		.bytes = l->pages,
	};
	struct change ch = { .set = KVCACHE_SET_LIMITS,
			     .deadline_ns = UINT64_MAX };
	struct target t = { src, l };
	struct kvcache_tenant_set s;
	int err = source_open(src);

	if (err)
		return err;
	*(l->which == 'm' ? &ch.min : l->which == 'l' ? &ch.low : &ch.max) =
		limit;
	src->why[0] = 0;
	err = change_make(ask, src->kvc, &ch, &p, look_up, &t, &s);
	return err && !src->why[0] ? refused(src, err) : err;
}
