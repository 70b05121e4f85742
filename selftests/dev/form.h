/* SPDX-License-Identifier: MIT */
/*
 * form.h - every command once, in a form in which it succeeds, so that one
 * thing at a time can be made wrong.
 */
#ifndef FORM_H
#define FORM_H

#include "refuse.h"

#define SIZE_LIMIT	(16U << 10)

/* Who may call. */
enum who { ANYBODY, ATTACHED, READER, ADMIN };

/**
 * struct row - one command
 * @nr: its number
 * @name: of the command
 * @size: bytes of its struct
 * @min: bytes of the first version of it
 * @flags: those that there are
 * @reserved: where a reserved member is, or 0
 * @who: may call
 * @none: the module has no such thing: -EOPNOTSUPP
 */
struct row {
	unsigned int nr;
	const char *name;
	uint32_t size;
	uint32_t min;
	uint32_t flags;
	uint32_t reserved;
	enum who who;
	bool none;
};

#define ROW(n, type, ...)						\
	{								\
		.nr = KVCACHE_NR_##n, .name = #n,			\
		.size = sizeof(struct type), .min = sizeof(struct type), \
		__VA_ARGS__						\
	}

static const struct row rows[] = {
	ROW(QUERY, kvcache_query, .who = ANYBODY),
	ROW(ATTACH, kvcache_attach, .who = ANYBODY),
	/* Two members were added before anybody could know it. */
	{ .nr = KVCACHE_NR_ALLOC, .name = "ALLOC",
	  .size = sizeof(struct kvcache_alloc), .min = 2080, .flags = 1,
	  .who = ATTACHED },
	ROW(FREE, kvcache_free, .who = ATTACHED),
	ROW(PUBLISH, kvcache_publish, .who = ATTACHED,
	    .reserved = offsetof(struct kvcache_publish, __reserved)),
	{ .nr = KVCACHE_NR_LOOKUP, .name = "LOOKUP",
	  .size = sizeof(struct kvcache_lookup), .min = 12320, .flags = 1,
	  .who = ATTACHED },
	ROW(ADVISE, kvcache_advise, .who = ATTACHED),
	ROW(EXPORT, kvcache_export, .who = ATTACHED, .flags = 1,
	    .reserved = offsetof(struct kvcache_export, __reserved)),
	ROW(PROVIDE, kvcache_provide, .who = ATTACHED, .none = true),
	ROW(TAKE, kvcache_take, .who = ATTACHED, .flags = 1, .none = true),
	ROW(RETIRE, kvcache_retire, .who = ATTACHED, .none = true),
	ROW(TENANT_CREATE, kvcache_tenant_set, .who = ADMIN),
	ROW(TENANT_SET, kvcache_tenant_set, .who = ADMIN),
	ROW(TENANT_REMOVE, kvcache_tenant_ref, .who = ADMIN),
	ROW(TENANT_FLUSH, kvcache_tenant_ref, .who = ADMIN),
	ROW(TENANT_GRANT, kvcache_tenant_grant, .who = ADMIN,
	    .reserved = offsetof(struct kvcache_tenant_grant, __reserved)),
	ROW(TENANT_GET, kvcache_tenant_get, .who = READER),
	ROW(CLIENT_GET, kvcache_client_get, .who = READER),
	ROW(PAGE_GET, kvcache_page_get, .who = READER),
	ROW(GRANT_GET, kvcache_grant_get, .who = READER,
	    .reserved = offsetof(struct kvcache_grant_get, __reserved)),
	ROW(POOL_SET, kvcache_pool_set, .who = ADMIN),
	ROW(POOL_GET, kvcache_pool_get, .who = ADMIN,
	    .reserved = offsetof(struct kvcache_pool_get, __reserved)),
};
#define NR_ROWS		(sizeof(rows) / sizeof(rows[0]))

static inline const struct row *row_of(unsigned int nr)
{
	const struct row *r = rows;

	while (r->nr != nr)
		r++;
	return r;
}

/* Room for the largest struct and what may come after it. */
union any {
	uint32_t size;
	unsigned char b[SIZE_LIMIT + 4096];
	struct kvcache_query query;
	struct kvcache_attach attach;
	struct kvcache_alloc alloc;
	struct kvcache_free free;
	struct kvcache_publish publish;
	struct kvcache_lookup lookup;
	struct kvcache_advise advise;
	struct kvcache_export export;
	struct kvcache_tenant_set tenant_set;
	struct kvcache_tenant_ref tenant_ref;
	struct kvcache_tenant_grant tenant_grant;
	struct kvcache_tenant_get tenant_get;
	struct kvcache_client_get client_get;
	struct kvcache_page_get page_get;
	struct kvcache_grant_get grant_get;
	struct kvcache_pool_set pool_set;
	struct kvcache_pool_get pool_get;
};

/**
 * struct one - a command about to be given
 * @row: which
 * @fd: to whom
 * @page: that is held for it, or 0
 * @tenant: that is there for it, or 0
 * @a: its struct
 */
struct one {
	const struct row *row;
	int fd;
	uint64_t page;
	uint32_t tenant;
	union any a;
};

static inline void one_publish(struct kvcache_publish *a, uint64_t page)
{
	struct kvcache_publish_page *e = &a->pages[0];

	a->nr = 1;
	e->handle = page;
	e->nr_keys = 1;
	e->priority = KVCACHE_PRIO_DEFAULT;
	e->ttl_ns = NEVER;
	e->keys[0].key[0] = 0x77;
	e->keys[0].fill = 1;
}

/* Zero, or why the command's page, tenant or open cannot be had. */
static inline int one_needs(struct world *w, struct one *o)
{
	int rc = 0;

	switch (o->row->nr) {
	case KVCACHE_NR_ATTACH:
		o->fd = dev_open();
		return o->fd < 0 ? -errno : 0;
	case KVCACHE_NR_FREE:
	case KVCACHE_NR_PUBLISH:
	case KVCACHE_NR_ADVISE:
	case KVCACHE_NR_EXPORT:
		return dev_alloc(w->fd[0], w->pool, 1, &o->page);
	case KVCACHE_NR_TENANT_REMOVE:
		rc = dev_tenant(w->admin, "one", w->pool, 0, 1);
		o->tenant = rc > 0 ? rc : 0;
	}
	return rc < 0 ? rc : 0;
}

/* Ready to be given: a struct that is zero but for what it needs. */
static inline int one_make(struct world *w, const struct row *row,
			   struct one *o)
{
	union any *a = &o->a;
	int rc;

	memset(o, 0, sizeof(*o));
	o->row = row;
	o->fd = row->who == ATTACHED ? w->fd[0] : w->admin;
	rc = one_needs(w, o);
	a->size = row->size;
	/* All page commands and lists of a pool have it in the same place. */
	if ((row->who == ATTACHED || row->who == READER) &&
	    row->nr != KVCACHE_NR_GRANT_GET)
		a->free.pool = w->pool;
	switch (row->nr) {
	case KVCACHE_NR_ATTACH:
		a->attach.by = KVCACHE_ATTACH_NAME;
		strcpy(a->attach.name, "red");
		break;
	case KVCACHE_NR_ALLOC:
		a->alloc.nr = 1;
		break;
	case KVCACHE_NR_FREE:
		a->free.nr = 1;
		a->free.pages[0] = o->page;
		break;
	case KVCACHE_NR_PUBLISH:
		one_publish(&a->publish, o->page);
		break;
	case KVCACHE_NR_LOOKUP:
		a->lookup.nr_keys = 1;
		a->lookup.keys_per_page = 1;
		break;
	case KVCACHE_NR_ADVISE:
		a->advise.nr = 1;
		a->advise.advice = KVCACHE_ADVISE_TOUCH;
		a->advise.pages[0] = o->page;
		break;
	case KVCACHE_NR_EXPORT:
		a->export.nr = 1;
		a->export.pages[0] = o->page;
		break;
	case KVCACHE_NR_TENANT_CREATE:
		strcpy(a->tenant_set.name, "one");
		break;
	case KVCACHE_NR_TENANT_SET:
		a->tenant_set.tenant = w->tenant[0];
		a->tenant_set.set = KVCACHE_SET_TTL;
		a->tenant_set.ttl_ns = 1ULL << 60;
		break;
	case KVCACHE_NR_TENANT_REMOVE:
		a->tenant_ref.tenant = o->tenant;
		break;
	case KVCACHE_NR_TENANT_FLUSH:
		a->tenant_ref.tenant = w->tenant[0];
		a->tenant_ref.pool = w->pool;
		break;
	case KVCACHE_NR_TENANT_GRANT:
		a->tenant_grant.tenant = w->tenant[0];
		a->tenant_grant.to = w->tenant[1];
		a->tenant_grant.rights = KVCACHE_GRANT_LOOKUP;
		break;
	case KVCACHE_NR_POOL_SET:
		a->pool_set.op = KVCACHE_POOL_CREATE;
		a->pool_set.page_size = PAGE;
		a->pool_set.nr_pages = 1;
		strcpy(a->pool_set.name, "one");
		break;
	case KVCACHE_NR_POOL_GET:
		a->pool_get.pool = w->pool;
		break;
	}
	return rc;
}

/* Takes back what was needed, and with @done what the command did. */
static inline int one_undo(struct world *w, struct one *o, bool done)
{
	struct kvcache_tenant_grant g = o->a.tenant_grant;
	struct kvcache_tenant_ref ref = { .size = sizeof(ref) };
	uint32_t nr = o->row->nr;
	int err = 0;

	ref.tenant = o->tenant;
	if (nr == KVCACHE_NR_ATTACH)
		close(o->fd);
	if (done && nr == KVCACHE_NR_ALLOC)
		o->page = o->a.alloc.out_pages[0];
	if (done && nr == KVCACHE_NR_EXPORT)
		close(o->a.export.out_fd);
	if (done && nr == KVCACHE_NR_FREE)
		o->page = 0;
	if (o->page)
		err = dev_free(w->fd[0], w->pool, &o->page, 1);
	if (!err && done && nr == KVCACHE_NR_PUBLISH) {
		ref.tenant = w->tenant[0];
		ref.pool = w->pool;
		err = dev_call(w->admin, KVCACHE_NR_TENANT_FLUSH, &ref);
	}
	if (done && nr == KVCACHE_NR_TENANT_CREATE)
		ref.tenant = o->a.tenant_set.out_tenant;
	if (!err && done == (nr == KVCACHE_NR_TENANT_CREATE) && ref.tenant &&
	    nr != KVCACHE_NR_PUBLISH)
		err = dev_call(w->admin, KVCACHE_NR_TENANT_REMOVE, &ref);
	if (!err && done && nr == KVCACHE_NR_TENANT_GRANT) {
		g.size = sizeof(g);
		g.rights = 0;
		err = dev_call(w->admin, nr, &g);
	}
	if (!err && done && nr == KVCACHE_NR_POOL_SET)
		err = dev_pool_op(w->admin, o->a.pool_set.out_pool,
				  KVCACHE_POOL_REMOVE, 0, NULL);
	/* A dma-buf is released a moment after its last close. */
	return err ? err : dev_settles(w->admin, w->pool, PAGES) ? 0 : -EBUSY;
}

static inline int one_expect(const struct one *o)
{
	return o->row->none ? -EOPNOTSUPP : 0;
}

#endif /* FORM_H */
