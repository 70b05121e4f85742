// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * cmd_admin.c - commands that make, change and remove tenants and pools.
 *
 * What may touch many pages stops after KVL_SLICE of them and says
 * -EAGAIN, so that nobody waits long for the lock.
 */
#include "cmd_internal.h"

/* ---- tenants ------------------------------------------------------------ */

int kvl_cmd_tenant_create(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	int err = kvl_tenant_create(x->ledger, f->tenant, &f->arg.tenant_set,
				    now);

	if (!err)
		f->tenant = NULL;
	f->reply = !err;
	return err;
}

int kvl_cmd_tenant_set(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	struct kvcache_tenant_set *a = &f->arg.tenant_set;
	int err = f->again ? 0 : kvl_tenant_set(x->ledger, a, now);

	if (!err && (a->set & KVCACHE_SET_LIMITS) &&
	    kvl_tenant_fit(x->ledger, a->tenant, a->pool, KVL_SLICE,
			   now) == KVL_SLICE)
		return -EAGAIN;
	f->reply = !err;
	return err;
}

int kvl_cmd_tenant_remove(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	struct kvcache_tenant_ref *a = &f->arg.tenant_ref;
	u64 pages = 0;
	int rc;

	if (a->pool)
		return -EINVAL;
	if (!f->again)
		a->out_pages = 0;
	rc = kvl_tenant_remove(x->ledger, a->tenant, &f->tenant, &pages, now);
	if (rc >= 0)
		a->out_pages += pages;
	f->work = rc == KVL_WORK;
	if (rc > 0)
		return -EAGAIN;
	/* Somebody attached after it began: what is gone is gone. */
	f->reply = !rc || (f->again && rc == -EBUSY);
	return rc;
}

/* What the first call left, of one pool or all. */
static u32 flush_more(struct kvl_cmd *x, const struct kvcache_tenant_ref *a,
		      u64 now)
{
	u32 k, done = 0;
	int rc;

	for (k = 0; k < KVCACHE_MAX_POOLS; k++) {
		if (a->pool != U32_MAX && a->pool != k)
			continue;
		rc = kvl_tenant_trim(x->ledger, a->tenant, k,
				     KVL_SLICE - done, now);
		/* Gone meanwhile, and what it had with it. */
		if (rc > 0)
			done += rc;
	}
	return done;
}

int kvl_cmd_tenant_flush(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	struct kvcache_tenant_ref *a = &f->arg.tenant_ref;
	int rc;

	rc = f->again ? (int)flush_more(x, a, now) :
	     kvl_tenant_flush(x->ledger, a->tenant, a->pool, KVL_SLICE, now);
	if (rc < 0)
		return rc;
	a->out_pages = rc + (f->again ? a->out_pages : 0);
	if (rc == KVL_SLICE)
		return -EAGAIN;
	f->reply = true;
	return 0;
}

int kvl_cmd_tenant_grant(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	return kvl_tenant_grant(x->ledger, &f->arg.tenant_grant);
}

/* ---- pools -------------------------------------------------------------- */

static int prepare_new(struct kvl_cmd *x, struct kvl_cmd_frame *f)
{
	struct kvcache_pool_set *a = &f->arg.pool_set;
	struct kvl_pool_config cfg = {
		.name = a->name,
		.kind = a->kind,
		.flags = x->pool_flags,
		.page_size = a->page_size,
		.nr_pages = a->nr_pages,
		.capacity = min_t(u64, a->nr_pages * x->headroom,
				  KVL_MAX_PAGES),
	};
	int err;

	if (a->pool || !a->nr_pages || a->nr_pages > KVL_MAX_PAGES ||
	    a->page_size < x->min_page_size ||
	    a->page_size > KVCACHE_PAGE_SIZE_MAX ||
	    (a->page_size & (a->page_size - 1)) ||
	    !kvl_cmd_terminated(a->name))
		return -EINVAL;
	if (a->kind == KVCACHE_POOL_DEVICE)
		return -EOPNOTSUPP;
	err = kvl_pool_alloc(x->ledger, &cfg, &f->pool);
	if (err)
		return err;
	return x->ops->memory_alloc(x, a->page_size, a->nr_pages, cfg.capacity,
				    &f->memory);
}

int kvl_cmd_pool_prepare(struct kvl_cmd *x, struct kvl_cmd_frame *f)
{
	struct kvcache_pool_set *a = &f->arg.pool_set;

	if (a->op == KVCACHE_POOL_CREATE)
		return prepare_new(x, f);
	if (a->kind || a->page_size || a->name[0] ||
	    (a->nr_pages && a->op != KVCACHE_POOL_RESIZE))
		return -EINVAL;
	if (a->op != KVCACHE_POOL_RESIZE)
		return 0;
	/* Should it end before the ledger knows of more, these are all. */
	f->nr_pages = kvl_pool_pages(x->ledger, a->pool);
	return x->ops->memory_grow(x, a->pool, a->nr_pages);
}

static int pool_create(struct kvl_cmd *x, struct kvl_cmd_frame *f)
{
	struct kvcache_pool_set *a = &f->arg.pool_set;
	int id = kvl_pool_add(x->ledger, f->pool);

	if (id < 0)
		return id;
	f->pool = NULL;
	f->memory = x->ops->memory_set(x, id, f->memory);
	a->out_pool = id;
	a->out_nr_pages = a->nr_pages;
	f->reply = true;
	return 0;
}

static int pool_resize(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	struct kvcache_pool_set *a = &f->arg.pool_set;
	struct kvcache_pool_info info;
	u64 nr;
	int rc;

	rc = kvl_pool_resize(x->ledger, a->pool, a->nr_pages, &nr, now);
	if (kvl_pool_info(x->ledger, a->pool, &info))
		return -ENOENT;
	f->nr_pages = info.nr_pages;
	f->work = rc == KVL_WORK;
	if (rc > 0)
		return -EAGAIN;
	/* A min was raised after it began: that is as far as it could. */
	if (f->again && rc == -EINVAL)
		rc = -EBUSY;
	/* A pool that could not shrink all the way says how far it came. */
	f->reply = !rc || rc == -EBUSY;
	return rc;
}

static int pool_drain(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	u32 pool = f->arg.pool_set.pool;
	int err = f->again ? 0 : kvl_pool_drain(x->ledger, pool, now);

	if (err)
		return err;
	if (kvl_pool_trim(x->ledger, pool, KVL_SLICE, now) == KVL_SLICE)
		return -EAGAIN;
	f->reply = true;
	return 0;
}

static int pool_remove(struct kvl_cmd *x, struct kvl_cmd_frame *f)
{
	u32 pool = f->arg.pool_set.pool;
	int err = kvl_pool_remove(x->ledger, pool, &f->pool);

	if (err)
		return err;
	f->memory = x->ops->memory_set(x, pool, NULL);
	f->reply = true;
	return 0;
}

int kvl_cmd_pool_set(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	struct kvcache_pool_set *a = &f->arg.pool_set;
	struct kvcache_pool_info info;
	int rc;

	switch (a->op) {
	case KVCACHE_POOL_CREATE:
		return pool_create(x, f);
	case KVCACHE_POOL_RESIZE:
		rc = pool_resize(x, f, now);
		break;
	case KVCACHE_POOL_DRAIN:
		rc = pool_drain(x, f, now);
		break;
	case KVCACHE_POOL_RESUME:
		rc = kvl_pool_resume(x->ledger, a->pool);
		f->reply = !rc;
		break;
	case KVCACHE_POOL_REMOVE:
		rc = pool_remove(x, f);
		break;
	default:
		return -EINVAL;
	}
	if (f->reply) {
		a->out_pool = a->pool;
		a->out_nr_pages = kvl_pool_info(x->ledger, a->pool, &info) ?
				  0 : info.nr_pages;
	}
	return rc;
}
