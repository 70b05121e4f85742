// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * cmd.c - the table of commands, and those on pages.
 *
 * Form is checked here (sizes, flags, reserved members), values are checked by
 * the ledger. A command writes outputs only once it cannot fail any more.
 */
#include <linux/nospec.h>
#include <linux/slab.h>
#include <linux/stddef.h>
#include <linux/uaccess.h>

#include "cmd_internal.h"

#define SIZE_LIMIT	(16U << 10)

/* Who may call. */
#define ANY		0
#define ATTACHED	1
#define READER		2	/* attached, or privileged */
#define ADMIN		3

/**
 * struct kvl_cmd_row - one command
 * @fn: does it; NULL: -EOPNOTSUPP, if the memory's owner does not do it itself
 * @prepare: no lock: form beyond flags, and memory; or NULL
 * @size: bytes of its struct
 * @min: bytes of the first version of it
 * @flags: flags that there are
 * @zero: where a reserved member is, or 0
 * @who: ANY, ATTACHED, READER or ADMIN
 */
struct kvl_cmd_row {
	kvl_cmd_fn *fn;
	int (*prepare)(struct kvl_cmd *x, struct kvl_cmd_frame *f);
	u32 size;
	u32 min;
	u32 flags;
	u32 zero;
	u32 who;
};

/* ---- attaching ---------------------------------------------------------- */

static int attach_prepare(struct kvl_cmd *x, struct kvl_cmd_frame *f)
{
	f->client = kvl_client_alloc(x->ledger);
	return f->client ? 0 : -ENOMEM;
}

static int find_tenant(struct kvl_cmd *x, const struct kvl_cmd_frame *f)
{
	const struct kvcache_attach *a = &f->arg.attach;

	if (a->by != KVCACHE_ATTACH_ID && a->tenant)
		return -EINVAL;
	if (a->by != KVCACHE_ATTACH_NAME && a->name[0])
		return -EINVAL;
	switch (a->by) {
	case KVCACHE_ATTACH_AUTO:
		return x->ops->tenant(x, f);
	case KVCACHE_ATTACH_ID:
		return a->tenant <= 65535 ? (int)a->tenant : -ENOENT;
	case KVCACHE_ATTACH_NAME:
		if (!kvl_cmd_terminated(a->name))
			return -EINVAL;
		return kvl_tenant_by_name(x->ledger, a->name);
	}
	return -EINVAL;
}

static int cmd_attach(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	struct kvcache_attach *a = &f->arg.attach;
	int tenant, err;

	if (x->client)
		return -EALREADY;
	tenant = find_tenant(x, f);
	if (tenant < 0)
		return tenant;
	err = kvl_tenant_may_attach(x->ledger, tenant, f->uid, f->gid,
				    f->groups, f->nr_groups);
	if (!err)
		err = kvl_client_attach(x->ledger, f->client, tenant);
	if (err)
		return err;
	x->client = f->client;
	f->client = NULL;
	a->out_tenant = tenant;
	a->out_client = kvl_client_id(x->client);
	f->reply = true;
	return 0;
}

/* ---- pages -------------------------------------------------------------- */

/* The ledger asks for nodes with -EAGAIN: none of these needs more. */
static int with_nodes(struct kvl_cmd_frame *f, int rc)
{
	if (rc == -EAGAIN)
		f->want = KVCACHE_MAX_PUBLISH * KVCACHE_MAX_PAGE_KEYS;
	f->reply = !rc;
	return rc;
}

static int cmd_alloc_check(struct kvl_cmd *x, struct kvl_cmd_frame *f)
{
	struct kvcache_alloc *a = &f->arg.alloc;
	struct kvl_check check;
	int err = kvl_alloc_check(x->ledger, x->client, a->pool, a->nr, &check);

	if (err)
		return err;
	a->out_missing = check.missing;
	a->out_available = check.available;
	a->out_limit = check.limit;
	f->reply = true;
	return check.status;
}

static int cmd_alloc(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	struct kvcache_alloc *a = &f->arg.alloc;
	int rc;

	if (a->flags & KVCACHE_ALLOC_CHECK)
		return cmd_alloc_check(x, f);
	f->request->pool = a->pool;
	f->request->nr = a->nr;
	f->request->pages = a->out_pages;
	rc = kvl_alloc(x->ledger, x->client, f->request,
		       a->deadline_ns > now, now);
	/* Also after it has waited: kvl_cmd_end() sees what became of it. */
	f->reply = rc == 0 || rc == KVL_WAITING || f->request->missing;
	return rc;
}

static int cmd_free(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	const struct kvcache_free *a = &f->arg.free;

	return kvl_free(x->ledger, x->client, a->pool, a->pages, a->nr, now);
}

static int publish_prepare(struct kvl_cmd *x, struct kvl_cmd_frame *f)
{
	const struct kvcache_publish *a = &f->arg.publish;
	const u32 flags = KVCACHE_PUBLISH_NODEDUP | KVCACHE_PUBLISH_COPY |
			  KVCACHE_PUBLISH_WINDOW;
	const struct kvcache_publish_page *e;
	u32 k, j;

	for (k = 0; k < a->nr && k < KVCACHE_MAX_PUBLISH; k++) {
		e = &a->pages[k];
		if ((e->flags & ~flags) || e->__reserved || e->__reserved2)
			return -EOPNOTSUPP;
		for (j = 0; j < e->nr_keys && j < KVCACHE_MAX_PAGE_KEYS; j++)
			if (e->keys[j].__reserved)
				return -EOPNOTSUPP;
	}
	return 0;
}

static int cmd_publish(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	return with_nodes(f, kvl_publish(x->ledger, x->client, &f->arg.publish,
					 f->copies, now));
}

static int cmd_lookup(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	struct kvcache_lookup *a = &f->arg.lookup;

	memset(a->out_found, 0, sizeof(a->out_found));
	return with_nodes(f, kvl_lookup(x->ledger, x->client, a, now));
}

static int cmd_advise(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	struct kvcache_advise *a = &f->arg.advise;

	memset(a->out_state, 0, sizeof(a->out_state));
	return with_nodes(f, kvl_advise(x->ledger, x->client, a, now));
}

static int tenant_prepare(struct kvl_cmd *x, struct kvl_cmd_frame *f)
{
	f->tenant = kvl_tenant_alloc(x->ledger);
	return f->tenant ? 0 : -ENOMEM;
}

/* ---- the table ---------------------------------------------------------- */

#define ROW(name, type, last, ...)					\
	[KVCACHE_NR_##name] = {						\
		.size = sizeof(struct type),				\
		.min = offsetofend(struct type, last),			\
		__VA_ARGS__						\
	}

static const struct kvl_cmd_row rows[] = {
	ROW(QUERY, kvcache_query, out_pools, .fn = kvl_cmd_query, .who = ANY),
	ROW(ATTACH, kvcache_attach, out_client, .fn = cmd_attach, .who = ANY,
	    .prepare = attach_prepare),
	ROW(ALLOC, kvcache_alloc, out_pages, .fn = cmd_alloc, .who = ATTACHED,
	    .flags = KVCACHE_ALLOC_CHECK),
	ROW(FREE, kvcache_free, pages, .fn = cmd_free, .who = ATTACHED),
	ROW(PUBLISH, kvcache_publish, pages, .fn = cmd_publish,
	    .prepare = publish_prepare, .who = ATTACHED,
	    .zero = offsetof(struct kvcache_publish, __reserved)),
	ROW(LOOKUP, kvcache_lookup, out_found, .fn = cmd_lookup,
	    .who = ATTACHED, .flags = KVCACHE_LOOKUP_PEEK),
	ROW(ADVISE, kvcache_advise, out_state, .fn = cmd_advise,
	    .who = ATTACHED),
	ROW(EXPORT, kvcache_export, pages, .who = ATTACHED,
	    .flags = KVCACHE_FD_CLOEXEC,
	    .zero = offsetof(struct kvcache_export, __reserved)),
	ROW(PROVIDE, kvcache_provide, handle, .who = ATTACHED),
	ROW(TAKE, kvcache_take, handle, .who = ATTACHED,
	    .flags = KVCACHE_FD_CLOEXEC),
	ROW(RETIRE, kvcache_retire, pages, .who = ATTACHED),
	ROW(TENANT_CREATE, kvcache_tenant_set, name,
	    .fn = kvl_cmd_tenant_create, .prepare = tenant_prepare,
	    .who = ADMIN),
	ROW(TENANT_SET, kvcache_tenant_set, name, .fn = kvl_cmd_tenant_set,
	    .who = ADMIN),
	ROW(TENANT_REMOVE, kvcache_tenant_ref, out_pages,
	    .fn = kvl_cmd_tenant_remove, .who = ADMIN),
	ROW(TENANT_FLUSH, kvcache_tenant_ref, out_pages,
	    .fn = kvl_cmd_tenant_flush, .who = ADMIN),
	ROW(TENANT_GRANT, kvcache_tenant_grant, max_held,
	    .fn = kvl_cmd_tenant_grant, .who = ADMIN,
	    .zero = offsetof(struct kvcache_tenant_grant, __reserved)),
	ROW(TENANT_GET, kvcache_tenant_get, out_info, .fn = kvl_cmd_tenant_get,
	    .who = READER),
	ROW(CLIENT_GET, kvcache_client_get, out_info, .fn = kvl_cmd_client_get,
	    .who = READER),
	ROW(PAGE_GET, kvcache_page_get, out_info, .fn = kvl_cmd_page_get,
	    .who = READER),
	ROW(GRANT_GET, kvcache_grant_get, out_info, .fn = kvl_cmd_grant_get,
	    .who = READER,
	    .zero = offsetof(struct kvcache_grant_get, __reserved)),
	ROW(POOL_SET, kvcache_pool_set, name, .fn = kvl_cmd_pool_set,
	    .prepare = kvl_cmd_pool_prepare, .who = ADMIN),
	ROW(POOL_GET, kvcache_pool_get, out_wait_times, .fn = kvl_cmd_pool_get,
	    .who = ADMIN,
	    .zero = offsetof(struct kvcache_pool_get, __reserved)),
};

static const struct kvl_cmd_row *find_row(unsigned int nr)
{
	if (nr >= ARRAY_SIZE(rows))
		return NULL;
	nr = array_index_nospec(nr, ARRAY_SIZE(rows));
	return rows[nr].size ? &rows[nr] : NULL;
}

size_t kvl_cmd_frame_size(unsigned int nr)
{
	const struct kvl_cmd_row *row = find_row(nr);

	return row ? offsetof(struct kvl_cmd_frame, arg) + row->size : 0;
}

static u32 word_at(const struct kvl_cmd_frame *f, u32 offset)
{
	u32 w;

	memcpy(&w, (const char *)&f->arg + offset, sizeof(w));
	return w;
}

int kvl_cmd_begin(struct kvl_cmd *x, struct kvl_cmd_frame *f, unsigned int nr,
		  const void __user *arg)
{
	const struct kvl_cmd_row *row = find_row(nr);
	int err;

	if (!row)
		return -ENOTTY;
	f->row = row;
	if (copy_from_user(&f->usize, arg, sizeof(f->usize)))
		return -EFAULT;
	if (f->usize < row->min)
		return -EINVAL;
	if (f->usize > SIZE_LIMIT)
		return -E2BIG;
	err = copy_struct_from_user(&f->arg, row->size, arg, f->usize);
	if (err)
		return err;
	/* It may have changed meanwhile. */
	f->arg.size = f->usize;
	if ((word_at(f, offsetof(struct kvcache_free, flags)) & ~row->flags) ||
	    (row->zero && word_at(f, row->zero)))
		return -EOPNOTSUPP;
	if (row->who == ADMIN && !f->admin)
		return -EPERM;
	return row->prepare ? row->prepare(x, f) : 0;
}

int kvl_cmd_run(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now)
{
	const struct kvl_cmd_row *row = f->row;
	int rc;

	if (f->nodes)
		kvl_nodes_add(x->ledger, f->nodes);
	f->nodes = NULL;
	if (!x->client && (row->who == ATTACHED ||
			   (row->who == READER && !f->admin)))
		return -ENOTCONN;
	rc = row->fn ? row->fn(x, f, now) : -EOPNOTSUPP;
	f->again = rc == -EAGAIN;
	return rc;
}

int kvl_cmd_more(struct kvl_cmd_frame *f)
{
	if (!f->want)
		return 0;
	f->nodes = kvl_nodes_alloc(f->want);
	f->want = 0;
	return f->nodes ? 0 : -ENOMEM;
}

/* What KVCACHE_ALLOC says, now that it is known what became of it. */
static void finish_alloc(struct kvl_cmd_frame *f, int rc)
{
	struct kvcache_alloc *a = &f->arg.alloc;

	if (a->flags & KVCACHE_ALLOC_CHECK)
		return;
	a->out_missing = rc ? f->request->missing : 0;
	if (rc)
		return;
	memset(&a->out_pages[a->nr], 0,
	       sizeof(a->out_pages) - a->nr * sizeof(a->out_pages[0]));
	a->out_available = 0;
	a->out_limit = 0;
}

/* Memory of pages that the pool did not get, or does not have any more. */
static void fit_memory(struct kvl_cmd *x, struct kvl_cmd_frame *f)
{
	if (f->nr_pages)
		x->ops->memory_shrink(x, f->arg.pool_set.pool, f->nr_pages);
	if (f->memory)
		x->ops->memory_free(x, f->memory);
}

int kvl_cmd_end(struct kvl_cmd *x, struct kvl_cmd_frame *f, void __user *arg,
		int rc)
{
	fit_memory(x, f);
	kvl_nodes_free(f->nodes);
	kvl_client_free(f->client);
	kvl_tenant_free(f->tenant);
	kvl_pool_free(f->pool);
	if (!f->reply)
		return rc;
	if (f->row->fn == cmd_alloc)
		finish_alloc(f, rc);
	if (copy_to_user(arg, &f->arg, min_t(u32, f->usize, f->row->size)))
		return -EFAULT;
	return rc;
}
