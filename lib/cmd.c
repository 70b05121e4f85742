// SPDX-License-Identifier: MIT
/*
 * cmd.c - the table of commands, and what each does to a ledger.
 *
 * Form is checked here (sizes, flags, reserved members), values are checked by
 * the ledger. A handler writes outputs only once it cannot fail any more.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "cmd.h"

#define SIZE_LIMIT	(16U << 10)
#define END_OF(type, member) \
	(offsetof(type, member) + sizeof(((type *)0)->member))

/* Who may call. */
#define ANY		0
#define ATTACHED	1
#define READER		2	/* attached, or privileged */
#define ADMIN		3

/**
 * struct kvc_cmd_row - one command
 * @fn: does it; NULL: -EOPNOTSUPP
 * @size: bytes of its struct
 * @min: bytes of the first version of it
 * @flags: flags that there are
 * @zero: where a reserved member is, or 0
 * @who: ANY, ATTACHED, READER or ADMIN
 */
struct kvc_cmd_row {
	int (*fn)(struct kvc_cmd *x, struct kvc_cmd_frame *f, u64 now);
	u32 size;
	u32 min;
	u32 flags;
	u32 zero;
	u32 who;
};

/*
 * The ledger asks for memory with -EAGAIN. @call is repeated when there is
 * more; the lock of a process may be held meanwhile.
 */
#define WITH_NODES(x, call) ({						\
	struct kvl_nodes *more_nodes;					\
	int more_rc;							\
									\
	while ((more_rc = (call)) == -EAGAIN) {				\
		more_nodes = kvl_nodes_alloc(KVCACHE_MAX_PUBLISH *	\
					     KVCACHE_MAX_PAGE_KEYS);	\
		if (!more_nodes) {					\
			more_rc = -ENOMEM;				\
			break;						\
		}							\
		kvl_nodes_add((x)->ledger, more_nodes);			\
	}								\
	more_rc;							\
})

static int cmd_query(struct kvc_cmd *x, struct kvc_cmd_frame *f, u64 now)
{
	struct kvcache_query *q = &f->arg.query;
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
	for (pool = 0; pool < KVCACHE_MAX_POOLS; pool++)
		if (!kvl_pool_info(x->ledger, pool,
				   &q->out_pools[q->out_nr_pools]))
			q->out_nr_pools++;
	f->reply = true;
	return 0;
}

static int find_tenant(const struct kvc_cmd *x, const struct kvcache_attach *a)
{
	if (a->by != KVCACHE_ATTACH_ID && a->tenant)
		return -EINVAL;
	if (a->by != KVCACHE_ATTACH_NAME && a->name[0])
		return -EINVAL;
	switch (a->by) {
	case KVCACHE_ATTACH_AUTO:
		return kvl_tenant_by_uid(x->ledger, x->uid);
	case KVCACHE_ATTACH_ID:
		return a->tenant <= 65535 ? (int)a->tenant : -ENOENT;
	case KVCACHE_ATTACH_NAME:
		if (!memchr(a->name, 0, sizeof(a->name)))
			return -EINVAL;
		return kvl_tenant_by_name(x->ledger, a->name);
	}
	return -EINVAL;
}

static int cmd_attach(struct kvc_cmd *x, struct kvc_cmd_frame *f, u64 now)
{
	struct kvcache_attach *a = &f->arg.attach;
	struct kvl_client *c;
	int tenant, err;

	if (x->client)
		return -EALREADY;
	tenant = find_tenant(x, a);
	if (tenant < 0)
		return tenant;
	err = kvl_tenant_may_attach(x->ledger, tenant, x->uid, x->gid, NULL, 0);
	if (err)
		return err;
	c = kvl_client_alloc(x->ledger);
	if (!c)
		return -ENOMEM;
	err = kvl_client_attach(x->ledger, c, tenant);
	if (err) {
		kvl_client_free(c);
		return err;
	}
	x->client = c;
	a->out_tenant = tenant;
	a->out_client = kvl_client_id(c);
	f->reply = true;
	return 0;
}

static int cmd_alloc_check(struct kvc_cmd *x, struct kvc_cmd_frame *f)
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

static int cmd_alloc(struct kvc_cmd *x, struct kvc_cmd_frame *f, u64 now)
{
	struct kvcache_alloc *a = &f->arg.alloc;
	int rc;

	if (a->flags & KVCACHE_ALLOC_CHECK)
		return cmd_alloc_check(x, f);
	f->request.pool = a->pool;
	f->request.nr = a->nr;
	f->request.pages = a->out_pages;
	rc = kvl_alloc(x->ledger, x->client, &f->request,
		       a->deadline_ns > now, now);
	/* Also after it has waited: kvc_cmd_end() sees what became of it. */
	f->reply = rc == 0 || rc == KVL_WAITING || f->request.missing;
	return rc;
}

static int cmd_free(struct kvc_cmd *x, struct kvc_cmd_frame *f, u64 now)
{
	const struct kvcache_free *a = &f->arg.free;

	return kvl_free(x->ledger, x->client, a->pool, a->pages, a->nr, now);
}

static int publish_form(const struct kvcache_publish *a)
{
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

static int cmd_publish(struct kvc_cmd *x, struct kvc_cmd_frame *f, u64 now)
{
	struct kvcache_publish *a = &f->arg.publish;
	int err = publish_form(a);

	if (err)
		return err;
	err = WITH_NODES(x, kvl_publish(x->ledger, x->client, a, NULL, now));
	f->reply = !err;
	return err;
}

static int cmd_lookup(struct kvc_cmd *x, struct kvc_cmd_frame *f, u64 now)
{
	struct kvcache_lookup *a = &f->arg.lookup;
	int err;

	memset(a->out_found, 0, sizeof(a->out_found));
	err = WITH_NODES(x, kvl_lookup(x->ledger, x->client, a, now));
	f->reply = !err;
	return err;
}

static int cmd_advise(struct kvc_cmd *x, struct kvc_cmd_frame *f, u64 now)
{
	struct kvcache_advise *a = &f->arg.advise;
	int err;

	memset(a->out_state, 0, sizeof(a->out_state));
	err = WITH_NODES(x, kvl_advise(x->ledger, x->client, a, now));
	f->reply = !err;
	return err;
}

/* ---- tenants ------------------------------------------------------------ */

static int cmd_tenant_create(struct kvc_cmd *x, struct kvc_cmd_frame *f,
			     u64 now)
{
	struct kvcache_tenant_set *a = &f->arg.tenant_set;
	struct kvl_tenant *t = kvl_tenant_alloc(x->ledger);
	int err;

	if (!t)
		return -ENOMEM;
	err = kvl_tenant_create(x->ledger, t, a, now);
	if (err)
		kvl_tenant_free(t);
	f->reply = !err;
	return err;
}

static int cmd_tenant_set(struct kvc_cmd *x, struct kvc_cmd_frame *f, u64 now)
{
	int err = kvl_tenant_set(x->ledger, &f->arg.tenant_set, now);

	f->reply = !err;
	return err;
}

static int cmd_tenant_remove(struct kvc_cmd *x, struct kvc_cmd_frame *f,
			     u64 now)
{
	struct kvcache_tenant_ref *a = &f->arg.tenant_ref;
	struct kvl_tenant *t;
	int rc;

	if (a->pool)
		return -EINVAL;
	a->out_pages = 0;
	rc = kvl_tenant_remove(x->ledger, a->tenant, &t, &a->out_pages, now);
	if (rc < 0)
		return rc;
	kvl_tenant_free(t);
	f->reply = true;
	return 0;
}

static int cmd_tenant_flush(struct kvc_cmd *x, struct kvc_cmd_frame *f, u64 now)
{
	struct kvcache_tenant_ref *a = &f->arg.tenant_ref;
	int rc = kvl_tenant_flush(x->ledger, a->tenant, a->pool, ~0U >> 1, now);

	if (rc < 0)
		return rc;
	a->out_pages = rc;
	f->reply = true;
	return 0;
}

static int cmd_tenant_grant(struct kvc_cmd *x, struct kvc_cmd_frame *f, u64 now)
{
	return kvl_tenant_grant(x->ledger, &f->arg.tenant_grant);
}

/* The tenant that the caller may see; 0 for all. */
static u32 visible(const struct kvc_cmd *x)
{
	return x->admin ? 0 : kvl_client_tenant(x->client);
}

static int cmd_tenant_get(struct kvc_cmd *x, struct kvc_cmd_frame *f, u64 now)
{
	struct kvcache_tenant_get *a = &f->arg.tenant_get;
	struct kvcache_pool_info pool;
	struct kvcache_tenant_info info;
	u32 only = visible(x), id = a->start;

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

static int cmd_client_get(struct kvc_cmd *x, struct kvc_cmd_frame *f, u64 now)
{
	struct kvcache_client_get *a = &f->arg.client_get;
	struct kvcache_pool_info pool;
	struct kvcache_client_info info;
	u32 id = a->start;

	if (kvl_pool_info(x->ledger, a->pool, &pool))
		return -ENOENT;
	memset(a->out_info, 0, sizeof(a->out_info));
	a->out_seq = kvl_seq(x->ledger);
	a->out_nr = 0;
	a->out_next = 0;
	while (!kvl_client_info(x->ledger, a->pool, visible(x), id, &info)) {
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

static int cmd_page_get(struct kvc_cmd *x, struct kvc_cmd_frame *f, u64 now)
{
	struct kvcache_page_get *a = &f->arg.page_get;
	struct kvcache_pool_info pool;
	struct kvcache_page_info info;
	u32 i = a->start;

	if (kvl_pool_info(x->ledger, a->pool, &pool))
		return -ENOENT;
	memset(a->out_info, 0, sizeof(a->out_info));
	a->out_seq = kvl_seq(x->ledger);
	a->out_nr = 0;
	a->out_next = 0;
	while (!kvl_page_info(x->ledger, a->pool, visible(x), i, now, &info)) {
		if (a->out_nr == KVCACHE_GET_PAGES) {
			a->out_next = kvl_index(info.handle);
			break;
		}
		a->out_info[a->out_nr++] = info;
		i = kvl_index(info.handle) + 1;
	}
	f->reply = true;
	return 0;
}

/* ---- pools -------------------------------------------------------------- */

static int pool_create(struct kvc_cmd *x, struct kvcache_pool_set *a)
{
	struct kvl_pool_config cfg = {
		.name = a->name,
		.kind = a->kind,
		.flags = x->pool_flags,
		.page_size = a->page_size,
		.nr_pages = a->nr_pages,
	};
	struct kvl_pool *p;
	int id, err;

	if (a->pool || a->nr_pages > ~0U || a->page_size < x->min_page_size ||
	    a->page_size > KVCACHE_PAGE_SIZE_MAX ||
	    (a->page_size & (a->page_size - 1)) ||
	    !memchr(a->name, 0, sizeof(a->name)))
		return -EINVAL;
	if (a->kind == KVCACHE_POOL_DEVICE)
		return -EOPNOTSUPP;
	err = kvl_pool_alloc(x->ledger, &cfg, &p);
	if (err)
		return err;
	id = kvl_pool_add(x->ledger, p);
	if (id < 0) {
		kvl_pool_free(p);
		return id;
	}
	err = x->ops->pool_add(x, id, a->page_size, a->nr_pages);
	if (err) {
		kvl_pool_remove(x->ledger, id, &p);
		kvl_pool_free(p);
		return err;
	}
	a->out_pool = id;
	a->out_nr_pages = a->nr_pages;
	return 0;
}

static int pool_change(struct kvc_cmd *x, struct kvcache_pool_set *a, u64 now)
{
	struct kvcache_pool_info info;
	struct kvl_pool *p;
	u64 nr;
	int rc;

	if (a->kind || a->page_size || a->name[0] ||
	    (a->nr_pages && a->op != KVCACHE_POOL_RESIZE))
		return -EINVAL;
	switch (a->op) {
	case KVCACHE_POOL_RESIZE:
		rc = kvl_pool_resize(x->ledger, a->pool, a->nr_pages, &nr, now);
		if (rc == 0 || rc == -EBUSY)
			x->ops->pool_gone(x, a->pool, nr);
		break;
	case KVCACHE_POOL_DRAIN:
		rc = kvl_pool_drain(x->ledger, a->pool, now);
		if (!rc)
			kvl_pool_trim(x->ledger, a->pool, ~0U >> 1, now);
		break;
	case KVCACHE_POOL_RESUME:
		rc = kvl_pool_resume(x->ledger, a->pool);
		break;
	case KVCACHE_POOL_REMOVE:
		rc = kvl_pool_remove(x->ledger, a->pool, &p);
		if (rc)
			break;
		kvl_pool_free(p);
		x->ops->pool_gone(x, a->pool, 0);
		break;
	default:
		return -EINVAL;
	}
	if (rc && rc != -EBUSY)
		return rc;
	a->out_pool = a->pool;
	a->out_nr_pages = kvl_pool_info(x->ledger, a->pool, &info) ? 0 :
			  info.nr_pages;
	return rc;
}

static int cmd_pool_set(struct kvc_cmd *x, struct kvc_cmd_frame *f, u64 now)
{
	struct kvcache_pool_set *a = &f->arg.pool_set;
	int rc = a->op == KVCACHE_POOL_CREATE ? pool_create(x, a) :
		 pool_change(x, a, now);

	/* A pool that could not shrink all the way says how far it came. */
	f->reply = !rc || (rc == -EBUSY && a->op == KVCACHE_POOL_RESIZE);
	return rc;
}

/* ---- the table ---------------------------------------------------------- */

#define ROW(name, type, last, ...)					\
	[KVCACHE_NR_##name] = {						\
		.size = sizeof(struct type),				\
		.min = END_OF(struct type, last),			\
		__VA_ARGS__						\
	}

static const struct kvc_cmd_row rows[] = {
	ROW(QUERY, kvcache_query, out_pools, .fn = cmd_query, .who = ANY),
	ROW(ATTACH, kvcache_attach, out_client, .fn = cmd_attach, .who = ANY),
	ROW(ALLOC, kvcache_alloc, out_pages, .fn = cmd_alloc, .who = ATTACHED,
	    .flags = KVCACHE_ALLOC_CHECK),
	ROW(FREE, kvcache_free, pages, .fn = cmd_free, .who = ATTACHED),
	ROW(PUBLISH, kvcache_publish, pages, .fn = cmd_publish,
	    .who = ATTACHED,
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
	ROW(TENANT_CREATE, kvcache_tenant_set, name, .fn = cmd_tenant_create,
	    .who = ADMIN),
	ROW(TENANT_SET, kvcache_tenant_set, name, .fn = cmd_tenant_set,
	    .who = ADMIN),
	ROW(TENANT_REMOVE, kvcache_tenant_ref, out_pages,
	    .fn = cmd_tenant_remove, .who = ADMIN),
	ROW(TENANT_FLUSH, kvcache_tenant_ref, out_pages,
	    .fn = cmd_tenant_flush, .who = ADMIN),
	ROW(TENANT_GRANT, kvcache_tenant_grant, max_held,
	    .fn = cmd_tenant_grant, .who = ADMIN,
	    .zero = offsetof(struct kvcache_tenant_grant, __reserved)),
	ROW(TENANT_GET, kvcache_tenant_get, out_info, .fn = cmd_tenant_get,
	    .who = READER),
	ROW(CLIENT_GET, kvcache_client_get, out_info, .fn = cmd_client_get,
	    .who = READER),
	ROW(PAGE_GET, kvcache_page_get, out_info, .fn = cmd_page_get,
	    .who = READER),
	ROW(POOL_SET, kvcache_pool_set, name, .fn = cmd_pool_set,
	    .who = ADMIN),
};

static u32 word_at(const struct kvc_cmd_frame *f, u32 offset)
{
	u32 w;

	memcpy(&w, (const char *)&f->arg + offset, sizeof(w));
	return w;
}

int kvc_cmd_begin(const struct kvc_cmd *x, struct kvc_cmd_frame *f,
		  unsigned int nr, const void *arg)
{
	const struct kvc_cmd_row *row;
	const char *bytes = arg;
	u32 size, k;

	if (nr >= sizeof(rows) / sizeof(rows[0]) || !rows[nr].size)
		return -ENOTTY;
	row = &rows[nr];
	memcpy(&size, arg, sizeof(size));
	if (size < row->min)
		return -EINVAL;
	if (size > SIZE_LIMIT)
		return -E2BIG;
	for (k = row->size; k < size; k++)
		if (bytes[k])
			return -E2BIG;
	f->row = row;
	f->reply = false;
	if (size > row->size)
		size = row->size;
	memcpy(&f->arg, arg, size);
	memset((char *)&f->arg + size, 0, row->size - size);
	if ((word_at(f, offsetof(struct kvcache_free, flags)) & ~row->flags) ||
	    (row->zero && word_at(f, row->zero)))
		return -EOPNOTSUPP;
	return 0;
}

int kvc_cmd_run(struct kvc_cmd *x, struct kvc_cmd_frame *f, u64 now)
{
	const struct kvc_cmd_row *row = f->row;

	if (row->who == ADMIN && !x->admin)
		return -EPERM;
	if (!x->client && (row->who == ATTACHED ||
			   (row->who == READER && !x->admin)))
		return -ENOTCONN;
	return row->fn ? row->fn(x, f, now) : -EOPNOTSUPP;
}

/* What KVCACHE_ALLOC says, now that it is known what became of it. */
static void finish_alloc(struct kvc_cmd_frame *f, int rc)
{
	struct kvcache_alloc *a = &f->arg.alloc;

	if (a->flags & KVCACHE_ALLOC_CHECK)
		return;
	a->out_missing = rc ? f->request.missing : 0;
	if (rc)
		return;
	memset(&a->out_pages[a->nr], 0,
	       sizeof(a->out_pages) - a->nr * sizeof(a->out_pages[0]));
	a->out_available = 0;
	a->out_limit = 0;
}

int kvc_cmd_end(struct kvc_cmd_frame *f, void *arg, int rc)
{
	u32 size = f->arg.size;

	if (!f->reply)
		return rc;
	if (f->row->fn == cmd_alloc)
		finish_alloc(f, rc);
	if (size > f->row->size)
		size = f->row->size;
	memcpy(arg, &f->arg, size);
	return rc;
}
