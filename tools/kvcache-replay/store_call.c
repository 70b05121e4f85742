// SPDX-License-Identifier: MIT
/*
 * store_call.c - a device, a broker or the in-process backend, by the commands
 * of the ABI. Its time is real and the replay's is not, so no call waits: what
 * cannot be had is asked for again, in order, when pages went back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <kvcache/kvcache.h>

#include "store.h"
#include "store_block.h"

struct user {
	struct kvc *kvc;
	uint32_t id;
	uint64_t evicted;	/* before the replay */
	uint64_t *pages;	/* of the allocation that waits */
	uint32_t nr;		/* pages of it, 0: none */
	bool met;		/* it does not wait any more */
	uint64_t turn;
};

struct calls {
	struct store s;
	uint32_t tenants;
	uint32_t fill;
	uint64_t reclaims;	/* before the replay */
	uint64_t turn;
	struct user *user;
	struct kvcache_lookup look;
	struct kvcache_alloc alloc;
	struct kvcache_free free;
	struct kvcache_publish pub;
	struct kvcache_query query;
	struct kvcache_tenant_get get;
};

static struct calls *to_calls(struct store *s)
{
	return (struct calls *)s;
}

static int calls_lookup(struct store *s, uint32_t tenant, const uint32_t *block,
			uint32_t n, uint64_t *pages)
{
	struct calls *d = to_calls(s);
	struct kvcache_lookup *a = &d->look;
	int err;

	blocks_to_lookup(a, block, n);
	err = kvc_call(d->user[tenant].kvc, KVCACHE_NR_LOOKUP, a);
	return err ? err : blocks_found(a, pages);
}

static int try_alloc(struct calls *d, uint32_t tenant, uint32_t n,
		     uint64_t *pages)
{
	int err;

	d->alloc.flags = 0;
	d->alloc.nr = n;
	err = kvc_call(d->user[tenant].kvc, KVCACHE_NR_ALLOC, &d->alloc);
	if (!err)
		memcpy(pages, d->alloc.out_pages, n * sizeof(*pages));
	return err;
}

/*
 * Pages may have come back: those that wait try again in their order, before
 * anybody else can look anything up.
 */
static void try_again(struct calls *d)
{
	uint64_t done = 0;
	struct user *u;
	uint32_t k;
	int err = 0;

	while (err != -ENOSPC) {
		u = NULL;
		for (k = 0; k < d->tenants; k++)
			if (d->user[k].nr && d->user[k].turn > done &&
			    (!u || d->user[k].turn < u->turn))
				u = &d->user[k];
		if (!u)
			break;
		done = u->turn;
		err = try_alloc(d, u - d->user, u->nr, u->pages);
		if (!err) {
			u->nr = 0;
			u->met = true;
		} else if (err != -EDQUOT && err != -ENOSPC) {
			replay_die("%s", kvc_errmsg(u->kvc));
		}
	}
}

static int calls_alloc(struct store *s, uint32_t tenant, uint32_t n,
		       uint64_t *pages)
{
	struct calls *d = to_calls(s);
	struct user *u = &d->user[tenant];
	bool behind = false;
	uint32_t k;
	int err = -ENOSPC;

	/* Nothing passes an earlier request. */
	for (k = 0; k < d->tenants; k++)
		behind |= d->user[k].nr != 0;
	if (!behind)
		err = try_alloc(d, tenant, n, pages);
	if (err != -EDQUOT && err != -ENOSPC)
		return err;
	u->pages = pages;
	u->nr = n;
	u->turn = ++d->turn;
	return STORE_WAITING;
}

static void calls_cancel(struct store *s, uint32_t tenant)
{
	struct calls *d = to_calls(s);

	d->user[tenant].nr = 0;
	try_again(d);
}

static int calls_granted(struct store *s)
{
	struct calls *d = to_calls(s);
	struct user *u = NULL;
	uint32_t k;

	for (k = 0; k < d->tenants; k++)
		if (d->user[k].met && (!u || d->user[k].turn < u->turn))
			u = &d->user[k];
	if (!u)
		return -1;
	u->met = false;
	return u - d->user;
}

static int calls_publish(struct store *s, uint32_t tenant,
			 const uint32_t *block, const uint32_t *parent,
			 uint32_t n, uint64_t *pages)
{
	struct calls *d = to_calls(s);
	struct kvcache_publish *a = &d->pub;
	int err;

	blocks_to_publish(a, block, parent, n, pages, d->fill);
	err = kvc_call(d->user[tenant].kvc, KVCACHE_NR_PUBLISH, a);
	if (err)
		return err;
	blocks_published(a, pages);
	try_again(d);
	return 0;
}

static int calls_free(struct store *s, uint32_t tenant, const uint64_t *pages,
		      uint32_t n)
{
	struct calls *d = to_calls(s);
	int err;

	d->free.nr = n;
	memcpy(d->free.pages, pages, n * sizeof(*pages));
	err = kvc_call(d->user[tenant].kvc, KVCACHE_NR_FREE, &d->free);
	if (!err)
		try_again(d);
	return err;
}

static int calls_flush(struct store *s, uint32_t tenant)
{
	struct kvcache_tenant_ref ref = {
		.tenant = to_calls(s)->user[tenant].id,
	};

	return kvc_call(to_calls(s)->user[tenant].kvc, KVCACHE_NR_TENANT_FLUSH,
			&ref);
}

static int calls_limit(struct store *s, uint32_t tenant, uint64_t *out)
{
	struct calls *d = to_calls(s);
	int err;

	d->alloc.flags = KVCACHE_ALLOC_CHECK;
	d->alloc.nr = 1;
	err = kvc_call(d->user[tenant].kvc, KVCACHE_NR_ALLOC, &d->alloc);
	*out = d->alloc.out_limit;
	return err == -EDQUOT || err == -ENOSPC || err == -E2BIG ? 0 : err;
}

static int calls_pool(struct store *s, struct kvcache_pool_info *out)
{
	struct calls *d = to_calls(s);
	int err = kvc_call(d->user[0].kvc, KVCACHE_NR_QUERY, &d->query);

	if (!err && !d->query.out_nr_pools)
		err = -ENOENT;
	*out = d->query.out_pools[0];
	out->reclaims -= d->reclaims;
	return err;
}

static int calls_tenant(struct store *s, uint32_t tenant,
			struct kvcache_tenant_info *out)
{
	struct calls *d = to_calls(s);
	struct user *u = &d->user[tenant];
	int err;

	d->get.start = u->id;
	err = kvc_call(u->kvc, KVCACHE_NR_TENANT_GET, &d->get);
	if (!err && !d->get.out_nr)
		err = -ENOENT;
	*out = d->get.out_info[0];
	out->ev_reclaim -= u->evicted;
	return err;
}

static int calls_verify(struct store *s, char *why, size_t len)
{
	return -EOPNOTSUPP;
}

static void calls_close(struct store *s)
{
	struct calls *d = to_calls(s);
	uint32_t k;

	for (k = 0; k < d->tenants; k++)
		kvc_close(d->user[k].kvc);
	free(d->user);
	free(d);
}

static const struct store_ops calls_ops = {
	.lookup = calls_lookup,
	.alloc = calls_alloc,
	.cancel = calls_cancel,
	.granted = calls_granted,
	.publish = calls_publish,
	.free = calls_free,
	.flush = calls_flush,
	.limit = calls_limit,
	.pool = calls_pool,
	.tenant = calls_tenant,
	.verify = calls_verify,
	.close = calls_close,
};

static void open_user(struct calls *d, uint32_t k, const struct store_config *c)
{
	char why[256] = "";
	const struct kvc_open_opts opts = {
		.sz = sizeof(opts), .tenant = c->names ? c->names[k] : NULL,
		.msg = why, .msg_len = sizeof(why),
	};
	struct kvcache_tenant_info info;
	struct user *u = &d->user[k];
	int err = kvc_open(c->where, &opts, &u->kvc);

	if (err)
		replay_die("%s", *why ? why : strerror(-err));
	err = kvc_call(u->kvc, KVCACHE_NR_QUERY, &d->query);
	u->id = d->query.out_tenant;
	if (!err)
		err = calls_tenant(&d->s, k, &info);
	if (err)
		replay_die("%s: %s", c->where, strerror(-err));
	u->evicted = info.ev_reclaim;
}

struct store *store_call_open(struct store_config *c)
{
	struct calls *d = replay_alloc(1, sizeof(*d));
	uint32_t k;

	d->s.ops = &calls_ops;
	d->tenants = c->tenants;
	d->fill = c->page_tokens;
	d->user = replay_alloc(c->tenants, sizeof(*d->user));
	for (k = 0; k < c->tenants; k++)
		open_user(d, k, c);
	if (!d->query.out_nr_pools)
		replay_die("%s: it has no pool: make one", c->where);
	c->pages = d->query.out_pools[0].nr_pages;
	d->reclaims = d->query.out_pools[0].reclaims;
	return &d->s;
}
