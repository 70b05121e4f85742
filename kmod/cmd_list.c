// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * cmd_list.c - commands that tell what there is, as of one moment.
 */
#include "cmd_internal.h"

int kvl_cmd_query(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	struct kvcache_query *q = &f->arg.query;
	struct kvcache_pool_info *info;
	u32 size = q->size, pool;

	memset(q, 0, sizeof(*q));
	q->size = size;
	q->out_abi_version = KVCACHE_ABI_VERSION;
	q->out_features = x->features;
	q->out_seq = kvl_seq(x->ledger);
	if (x->client) {
		q->out_client = kvl_client_id(x->client);
		q->out_tenant = kvl_client_tenant(x->client);
	}
	for (pool = 0; pool < KVCACHE_MAX_POOLS; pool++) {
		info = &q->out_pools[q->out_nr_pools];
		if (kvl_pool_info(x->ledger, pool, info))
			continue;
		if (x->ops->pool_info)
			x->ops->pool_info(x, info);
		q->out_nr_pools++;
	}
	f->reply = true;
	return 0;
}

/* The tenant that the caller may see; 0 for all. */
static u32 visible(const struct kvl_cmd *x, const struct kvl_cmd_frame *f)
{
	return f->admin ? 0 : kvl_client_tenant(x->client);
}

int kvl_cmd_tenant_get(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	struct kvcache_tenant_get *a = &f->arg.tenant_get;
	u32 only = visible(x, f), id = a->start;
	struct kvcache_tenant_info info;
	struct kvcache_pool_info pool;

	if (kvl_pool_info(x->ledger, a->pool, &pool))
		return -ENOENT;
	memset(a->out_info, 0, sizeof(a->out_info));
	a->out_seq = kvl_seq(x->ledger);
	a->out_nr = 0;
	a->out_next = 0;
	if (only && id < only)
		id = only;
	while (!kvl_tenant_info(x->ledger, a->pool, id, &info)) {
		if (only && info.id != only)
			break;
		if (a->out_nr == KVCACHE_GET_TENANTS) {
			a->out_next = info.id;
			break;
		}
		a->out_info[a->out_nr++] = info;
		id = info.id + 1;
	}
	f->reply = true;
	return 0;
}

int kvl_cmd_client_get(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	struct kvcache_client_get *a = &f->arg.client_get;
	u32 only = visible(x, f), id = a->start;
	struct kvcache_client_info info;
	struct kvcache_pool_info pool;

	if (kvl_pool_info(x->ledger, a->pool, &pool))
		return -ENOENT;
	memset(a->out_info, 0, sizeof(a->out_info));
	a->out_seq = kvl_seq(x->ledger);
	a->out_nr = 0;
	a->out_next = 0;
	while (!kvl_client_info(x->ledger, a->pool, only, id, &info)) {
		if (a->out_nr == KVCACHE_GET_CLIENTS) {
			a->out_next = info.id;
			break;
		}
		x->ops->who(x, &info);
		a->out_info[a->out_nr++] = info;
		id = info.id + 1;
	}
	f->reply = true;
	return 0;
}

int kvl_cmd_page_get(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	struct kvcache_page_get *a = &f->arg.page_get;
	u32 only = visible(x, f), i = a->start, last;
	struct kvcache_page_info info;
	struct kvcache_pool_info pool;

	if (kvl_pool_info(x->ledger, a->pool, &pool))
		return -ENOENT;
	/* Pages that are passed over cost no less than those that are told. */
	last = min_t(u64, pool.nr_pages, (u64)i + KVL_SLICE - 1);
	memset(a->out_info, 0, sizeof(a->out_info));
	a->out_seq = kvl_seq(x->ledger);
	a->out_nr = 0;
	a->out_next = 0;
	while (!kvl_page_search(x->ledger, a->pool, only, i, last, now,
				&info)) {
		if (a->out_nr == KVCACHE_GET_PAGES) {
			a->out_next = kvl_index(info.handle);
			break;
		}
		i = kvl_index(info.handle) + 1;
		if (x->ops->page_info)
			x->ops->page_info(x, &info);
		a->out_info[a->out_nr++] = info;
	}
	if (!a->out_next && last < pool.nr_pages)
		a->out_next = last + 1;
	f->reply = true;
	return 0;
}

int kvl_cmd_grant_get(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	struct kvcache_grant_get *a = &f->arg.grant_get;
	u32 only = visible(x, f), start = a->start;
	struct kvcache_grant_info info;

	memset(a->out_info, 0, sizeof(a->out_info));
	a->out_seq = kvl_seq(x->ledger);
	a->out_nr = 0;
	a->out_next = 0;
	while (!kvl_grant_info(x->ledger, only, start, &info)) {
		start = info.to << 16 | info.from;
		if (a->out_nr == KVCACHE_GET_GRANTS) {
			a->out_next = start;
			break;
		}
		a->out_info[a->out_nr++] = info;
		start++;
	}
	f->reply = true;
	return 0;
}

int kvl_cmd_pool_get(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	struct kvcache_pool_get *a = &f->arg.pool_get;
	int err = kvl_pool_stat(x->ledger, a->pool, a);

	if (err)
		return err;
	if (x->ops->pool_info)
		x->ops->pool_info(x, &a->out_info);
	f->reply = true;
	return 0;
}
