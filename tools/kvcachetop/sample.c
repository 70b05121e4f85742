// SPDX-License-Identifier: MIT
/*
 * sample.c - read one moment, and set limits.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sample.h"
#include "util.h"

#define TRIES 4		/* for a sample of one moment */
#define SET_TRIES 16	/* others may change it meanwhile */

__attribute__((format(printf, 3, 4)))
static int because(struct source *src, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(src->why, sizeof(src->why), fmt, ap);
	va_end(ap);
	return err;
}

void source_close(struct source *src)
{
	kvc_close(src->kvc);
	src->kvc = NULL;
}

static int open_it(struct source *src)
{
	const char *named = src->where ? src->where : getenv("KVCACHE");
	const struct kvc_open_opts open = {
		.sz = sizeof(open),
		.flags = KVC_OPEN_UNATTACHED,
		.msg = src->why,
		.msg_len = sizeof(src->why),
	};
	int err;

	if (src->kvc)
		return 0;
	if (named && !strncmp(named, "local", 5))
		return because(src, -EINVAL,
			       "\"%s\": the pages of one process are seen by it alone: name a device or a broker's socket",
			       named);
	src->why[0] = 0;
	err = kvc_open(src->where, &open, &src->kvc);
	if (err && !src->why[0])
		return because(src, err, "%s", strerror(-err));
	return err;
}

static int attach(struct source *src)
{
	struct kvcache_attach a = { .by = KVCACHE_ATTACH_AUTO };
	int err;

	if (src->as) {
		a.by = KVCACHE_ATTACH_NAME;
		snprintf(a.name, sizeof(a.name), "%s", src->as);
	}
	err = kvc_call(src->kvc, KVCACHE_NR_ATTACH, &a);
	if (err == -ENOENT && src->as)
		return because(src, err,
			       "tenant %s: there is none of this name: name another",
			       src->as);
	if (err == -ENOENT)
		return because(src, err,
			       "user %u is of no tenant: name one with --tenant, or run as root",
			       geteuid());
	if (err == -EPERM)
		return because(src, err,
			       "tenant %s: user %u is no member: name another, or run as root",
			       src->as ? src->as : "of this user", geteuid());
	return err ? because(src, err, "attach: %s", strerror(-err)) : 0;
}

/* Who is not privileged sees what its tenant does. */
static int ask(struct source *src, unsigned int nr, void *arg)
{
	struct kvcache_query q = { .flags = 0 };
	int err = kvc_call(src->kvc, nr, arg);

	if (err == -ENOTCONN && nr != KVCACHE_NR_QUERY &&
	    !kvc_call(src->kvc, KVCACHE_NR_QUERY, &q) && !q.out_tenant) {
		err = attach(src);
		if (err)
			return err;
		err = kvc_call(src->kvc, nr, arg);
	}
	if (err == -ENOTCONN || err == -EOWNERDEAD)
		return because(src, err, "the %s is gone",
			       kvc_backend(src->kvc));
	return err ? because(src, err, "%s", kvc_errmsg(src->kvc)) : 0;
}

static int read_tenants(struct source *src, struct sample *s, uint32_t pool)
{
	static struct kvcache_tenant_get g;
	uint32_t start = 0;
	int err;

	do {
		g = (struct kvcache_tenant_get){ .pool = pool, .start = start };
		err = ask(src, KVCACHE_NR_TENANT_GET, &g);
		if (err)
			return err;
		s->tenant = xrealloc(s->tenant, s->ntenants + g.out_nr,
				     sizeof(*s->tenant));
		memcpy(s->tenant + s->ntenants, g.out_info,
		       g.out_nr * sizeof(*s->tenant));
		s->ntenants += g.out_nr;
		s->last = g.out_seq;
		if (g.out_next && g.out_next <= start)
			break;
		start = g.out_next;
	} while (start);
	return 0;
}

/* A client's row in each further pool tells more only if it has something. */
static int read_clients(struct source *src, struct sample *s, uint32_t pool,
			bool first)
{
	static struct kvcache_client_get g;
	const struct kvcache_client_info *v = g.out_info;
	uint32_t start = 0, i;
	size_t n;
	int err;

	do {
		g = (struct kvcache_client_get){ .pool = pool, .start = start };
		err = ask(src, KVCACHE_NR_CLIENT_GET, &g);
		if (err)
			return err;
		n = s->nclients + g.out_nr;
		s->client = xrealloc(s->client, n, sizeof(*s->client));
		s->cpool = xrealloc(s->cpool, n, sizeof(*s->cpool));
		for (i = 0; i < g.out_nr; i++) {
			if (!first && !v[i].nr_private && !v[i].nr_shared &&
			    !v[i].waiting)
				continue;
			s->client[s->nclients] = v[i];
			s->cpool[s->nclients++] = pool;
		}
		s->last = g.out_seq;
		if (g.out_next && g.out_next <= start)
			break;
		start = g.out_next;
	} while (start);
	return 0;
}

static int read_once(struct source *src, struct sample *s)
{
	static struct kvcache_query q;
	unsigned int i;
	int err;

	q = (struct kvcache_query){ .flags = 0 };
	err = ask(src, KVCACHE_NR_QUERY, &q);
	if (err)
		return err;
	s->npools = q.out_nr_pools;
	memcpy(s->pool, q.out_pools, sizeof(s->pool));
	s->seq = s->last = q.out_seq;
	for (i = 0; i < s->npools; i++) {
		err = read_tenants(src, s, s->pool[i].id);
		if (!err)
			err = read_clients(src, s, s->pool[i].id, !i);
		if (err)
			return err;
	}
	snprintf(s->backend, sizeof(s->backend), "%s", kvc_backend(src->kvc));
	s->at = now();
	return 0;
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
	struct sample fresh = { 0 };
	int err, i;

	err = open_it(src);
	for (i = 0; !err && i < TRIES; i++) {
		sample_free(&fresh);
		err = read_once(src, &fresh);
		if (fresh.seq == fresh.last)
			break;
	}
	if (err) {
		sample_free(&fresh);
		/* One that is gone does not come back by itself. */
		source_close(src);
		return err;
	}
	sample_free(s);
	*s = fresh;
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
	err = ask(src, KVCACHE_NR_TENANT_GET, &g);
	if (err)
		return err;
	if (!g.out_nr || g.out_info[0].id != ch->tenant)
		return because(src, -ENOENT, "this tenant is gone");
	*out = g.out_info[0];
	return 0;
}

static int refused(struct source *src, int err)
{
	switch (err) {
	case -EPERM:
		return because(src, err,
			       strcmp(kvc_backend(src->kvc), "device") ?
			       "only root and the broker's own user may do this" :
			       "only who has CAP_SYS_ADMIN may do this");
	case -EINVAL:
		return because(src, err,
			       "neither min nor low can be above max: lower these, or raise max");
	case -ENOSPC:
		return because(src, err,
			       "the pool would promise more than it has: lower a min, or grow the pool");
	case -ESTALE:
		return because(src, err,
			       "others change it all the time: try again");
	}
	return because(src, err, "%s", strerror(-err));
}

int source_set(struct source *src, const struct change *ch)
{
	struct kvcache_tenant_info t = { 0 };
	struct kvcache_tenant_set s;
	int err = open_it(src), i;

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
