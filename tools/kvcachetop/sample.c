// SPDX-License-Identifier: MIT
/*
 * sample.c - read one moment, and set limits.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "look.h"
#include "sample.h"
#include "util.h"

#define TRIES 4		/* for a sample of one moment */
#define SET_TRIES 16	/* others may change it meanwhile */

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
	unsigned int i;

	s->npools = l->query.out_nr_pools;
	memcpy(s->pool, l->query.out_pools, sizeof(s->pool));
	s->seq = l->seq;
	s->last = l->last;
	for (i = 0; i < s->npools; i++) {
		take_tenants(s, &l->tenant[i]);
		take_clients(s, s->pool[i].id, &l->client[i], !i);
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
		err = look_read(source_ask, src, LOOK_TENANTS | LOOK_CLIENTS,
				TRIES, &l);
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

/* The tenant as it is now. */
static int look_up(struct source *src, const struct change *ch,
		   struct kvcache_tenant_info *out)
{
	static struct kvcache_tenant_get g;
	int err;

	g = (struct kvcache_tenant_get){ .pool = ch->pool,
					 .start = ch->tenant };
	err = source_ask(src, KVCACHE_NR_TENANT_GET, &g);
	if (err)
		return err;
	if (!g.out_nr || g.out_info[0].id != ch->tenant)
		return source_because(src, -ENOENT, "this tenant is gone");
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

int source_set(struct source *src, const struct change *ch)
{
	struct kvcache_tenant_info t = { 0 };
	struct kvcache_tenant_set s;
	int err = source_open(src), i;

	for (i = 0; !err && i < SET_TRIES; i++) {
		err = look_up(src, ch, &t);
		if (err)
			return err;
		s = (struct kvcache_tenant_set){
			.set = KVCACHE_SET_LIMITS,
			.tenant = ch->tenant,
			.pool = ch->pool,
			.revision = t.revision + 1,
			.min = ch->which == 'm' ? ch->pages : t.min,
			.low = ch->which == 'l' ? ch->pages : t.low,
			.max = ch->which == 'M' ? ch->pages : t.max,
			.deadline_ns = KVCACHE_TIME_NEVER,
		};
		err = kvc_call(src->kvc, KVCACHE_NR_TENANT_SET, &s);
		if (err != -ESTALE && err != -EEXIST)
			return err ? refused(src, err) : 0;
		err = 0;
	}
	return err ? err : refused(src, -ESTALE);
}
