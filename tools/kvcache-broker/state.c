// SPDX-License-Identifier: MIT
/*
 * state.c - a ledger as a list of commands, and back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../kmod/ledger_internal.h"
#include "state.h"

#define STATE_MAGIC	"kvcache-state 1\n"
#define STATE_MAX	16384		/* bytes of one struct */

/* What follows is a struct state_saved; all others are KVCACHE_NR_*. */
#define STATE_PAGE	0x100
/* Bytes that the first version had of it; what is not there is zeros. */
#define STATE_PAGE_MIN	(offsetof(struct state_saved, page) + 720)
_Static_assert(STATE_PAGE_MIN <= sizeof(struct state_saved), "it only grows");

/* ---- saving ------------------------------------------------------------- */

static int write_record(FILE *f, uint32_t kind, const void *record)
{
	uint32_t size;

	memcpy(&size, record, sizeof(size));
	if (fwrite(&kind, sizeof(kind), 1, f) != 1 ||
	    fwrite(record, size, 1, f) != 1)
		return -EIO;
	return 0;
}

static int save_pool(const struct kvl_pool *p, FILE *f)
{
	struct kvcache_pool_set set = {
		.size = sizeof(set), .op = KVCACHE_POOL_CREATE,
		.pool = p->id, .page_size = p->page_size,
		.nr_pages = p->nr_pages,
	};

	memcpy(set.name, p->name, sizeof(set.name));
	return write_record(f, KVCACHE_NR_POOL_SET, &set);
}

static bool has_limits(const struct kvl_account *a)
{
	return a->min || a->low || a->max != KVCACHE_LIMIT_MAX;
}

static int save_limits(const struct kvl *l, const struct kvl_tenant *t, FILE *f,
		       uint64_t *revision)
{
	uint32_t pool;
	int err = 0;

	for (pool = 0; !err && pool < KVCACHE_MAX_POOLS; pool++) {
		const struct kvl_account *a;
		struct kvcache_tenant_set set = {
			.size = sizeof(set), .tenant = t->id, .pool = pool,
			.set = KVCACHE_SET_LIMITS,
			.deadline_ns = KVCACHE_TIME_NEVER,
		};

		if (!l->pool[pool])
			continue;
		a = &l->pool[pool]->acct[t->id];
		if (!has_limits(a))
			continue;
		set.revision = ++*revision;
		set.min = a->min;
		set.low = a->low;
		set.max = a->max;
		err = write_record(f, KVCACHE_NR_TENANT_SET, &set);
	}
	return err;
}

/* Each change of a tenant counts: it ends with the revision that it has. */
static uint64_t first_revision(const struct kvl *l, const struct kvl_tenant *t)
{
	uint64_t revision = t->revision;

	for (uint32_t pool = 0; pool < KVCACHE_MAX_POOLS; pool++)
		if (l->pool[pool] && has_limits(&l->pool[pool]->acct[t->id]) &&
		    revision > 1)
			revision--;
	return revision;
}

static int save_tenant(const struct kvl *l, const struct kvl_tenant *t, FILE *f)
{
	struct kvcache_tenant_set set = {
		.size = sizeof(set), .tenant = t->id,
		.set = KVCACHE_SET_OWNER | KVCACHE_SET_TTL |
		       KVCACHE_SET_CGROUP | KVCACHE_SET_TRUST,
		.revision = first_revision(l, t),
		.uid = t->uid, .gid = t->gid, .mode = t->mode,
		.ttl_ns = t->ttl_ns, .cgroup = t->cgroup, .trust = t->trust,
	};

	memcpy(set.name, t->name, sizeof(set.name));
	return write_record(f, KVCACHE_NR_TENANT_CREATE, &set);
}

static int save_grants(const struct kvl_tenant *t, FILE *f)
{
	int err = 0;

	for (uint32_t k = 0; !err && k < KVL_MAX_GRANTS; k++) {
		const struct kvl_grant *g = &t->got[k];
		struct kvcache_tenant_grant grant = {
			.size = sizeof(grant), .tenant = g->from, .to = t->id,
			.rights = g->rights, .max_held = g->max_held,
		};

		if (g->from && g->rights)
			err = write_record(f, KVCACHE_NR_TENANT_GRANT, &grant);
	}
	return err;
}

static int save_tenants(const struct kvl *l, FILE *f)
{
	const struct kvl_tenant *t;
	int err = 0;

	list_for_each_entry(t, &l->tenants, link)
		err = err ? err : save_tenant(l, t, f);
	list_for_each_entry(t, &l->tenants, link)
		err = err ? err : save_grants(t, f);
	return err;
}

static int save_all_limits(const struct kvl *l, FILE *f)
{
	const struct kvl_tenant *t;
	uint64_t revision;
	int err = 0;

	list_for_each_entry(t, &l->tenants, link) {
		revision = first_revision(l, t);
		err = err ? err : save_limits(l, t, f, &revision);
	}
	return err;
}

/* @pg is published; of its priority and life what is left. */
static void describe(const struct kvl_pool *p, uint32_t i, uint64_t now,
		     struct state_saved *s)
{
	const struct kvl_page *pg = &p->page[i];
	const struct kvl_node *n = pg->keys;
	struct kvcache_publish_page *e = &s->page;

	memset(s, 0, sizeof(*s));
	s->size = sizeof(*s);
	s->pool = p->id;
	s->handle = kvl_handle(p, i);
	s->tenant = pg->tenant;
	s->shared = pg->state == KVCACHE_PAGE_SHARED;
	e->flags = KVCACHE_PUBLISH_NODEDUP;
	if (pg->flags & KVL_PF_WINDOW)
		e->flags |= KVCACHE_PUBLISH_WINDOW;
	e->priority = pg->prio;
	e->ttl_ns = pg->prio_until == KVCACHE_TIME_NEVER ? KVCACHE_TIME_NEVER :
		    pg->prio_until > now ? pg->prio_until - now : 1;
	e->nr_keys = pg->nr_keys;
	/* A page's list of keys begins with that of the highest fill. */
	for (uint32_t k = pg->nr_keys; n && k--; n = n->next) {
		memcpy(e->keys[k].key, n->key, sizeof(n->key));
		e->keys[k].fill = n->fill;
	}
}

struct used {
	uint64_t stamp;
	uint32_t page;
};

static int by_stamp(const void *a, const void *b)
{
	const struct used *x = a, *y = b;

	return x->stamp < y->stamp ? -1 : x->stamp > y->stamp;
}

static int save_pages(const struct kvl_pool *p, FILE *f, uint64_t now,
		      int (*fn)(void *arg, struct state_saved *page),
		      void *arg)
{
	struct used *u = calloc(p->nr_pages, sizeof(*u));
	struct state_saved s;
	uint32_t i, nr = 0;
	int err = 0;

	if (!u)
		return -ENOMEM;
	for (i = 1; i <= p->nr_pages; i++) {
		const struct kvl_page *pg = &p->page[i];

		if ((pg->state != KVCACHE_PAGE_CACHED &&
		     pg->state != KVCACHE_PAGE_SHARED) || !kvl_findable(p, i))
			continue;
		/* One that is held is used more lately than all that are not. */
		u[nr].stamp = pg->state == KVCACHE_PAGE_SHARED ?
			      p->stamp + 1 : pg->stamp;
		u[nr++].page = i;
	}
	qsort(u, nr, sizeof(*u), by_stamp);
	for (i = 0; !err && i < nr; i++) {
		describe(p, u[i].page, now, &s);
		err = fn(arg, &s);
		if (!err)
			err = write_record(f, STATE_PAGE, &s);
	}
	free(u);
	return err;
}

int state_save(const struct kvl *l, FILE *f, uint64_t now,
	       int (*fn)(void *arg, struct state_saved *page), void *arg)
{
	uint32_t pool;
	int err = 0;

	if (fputs(STATE_MAGIC, f) < 0)
		return -EIO;
	for (pool = 0; !err && pool < KVCACHE_MAX_POOLS; pool++)
		if (l->pool[pool])
			err = save_pool(l->pool[pool], f);
	if (!err)
		err = save_tenants(l, f);
	/* Limits come after the pages: they were kept when those came. */
	for (pool = 0; !err && pool < KVCACHE_MAX_POOLS; pool++)
		if (l->pool[pool])
			err = save_pages(l->pool[pool], f, now, fn, arg);
	if (!err)
		err = save_all_limits(l, f);
	return !err && fflush(f) ? -EIO : err;
}

/* ---- loading ------------------------------------------------------------ */

/**
 * struct load - a state that is being read
 * @pool: numbers of pools now, by those that they had; ~0 none
 * @tenant: the same of tenants, by @max_tenants + 1; 0 none
 * @client: who publishes for a tenant, by its number now
 */
struct load {
	struct kvl *l;
	FILE *f;
	uint64_t now;
	const struct state_ops *ops;
	void *arg;
	uint32_t pool[KVCACHE_MAX_POOLS];
	uint32_t *tenant;
	struct kvl_client **client;
	uint32_t pages, lost;
	union {
		uint32_t size;
		struct kvcache_pool_set pool_set;
		struct kvcache_tenant_set tenant_set;
		struct kvcache_tenant_grant tenant_grant;
		struct state_saved page;
		char bytes[STATE_MAX];
	} u;
};

/* The next struct: its kind, 0 at the end, -EBADMSG. */
static int read_record(struct load *x)
{
	uint32_t kind;

	memset(&x->u, 0, sizeof(x->u));
	if (fread(&kind, sizeof(kind), 1, x->f) != 1)
		return feof(x->f) ? 0 : -EBADMSG;
	if (fread(&x->u.size, sizeof(x->u.size), 1, x->f) != 1 ||
	    x->u.size < sizeof(x->u.size) || x->u.size > STATE_MAX ||
	    fread(x->u.bytes + sizeof(x->u.size),
		  x->u.size - sizeof(x->u.size), 1, x->f) != 1)
		return -EBADMSG;
	return kind && kind <= STATE_PAGE ? (int)kind : -EBADMSG;
}

static uint32_t tenant_now(const struct load *x, uint32_t was)
{
	return was <= x->l->max_tenants ? x->tenant[was] : 0;
}

static uint32_t pool_now(const struct load *x, uint32_t was)
{
	return was < KVCACHE_MAX_POOLS ? x->pool[was] : ~0U;
}

static int load_pool(struct load *x)
{
	struct kvcache_pool_set *set = &x->u.pool_set;
	uint32_t was = set->pool;
	int err;

	if (was >= KVCACHE_MAX_POOLS)
		return -EBADMSG;
	set->pool = 0;
	err = x->ops->admin(x->arg, KVCACHE_NR_POOL_SET, set);
	if (!err)
		x->pool[was] = set->out_pool;
	return err == -ENOMEM ? err : 0;
}

static int load_tenant(struct load *x)
{
	struct kvcache_tenant_set *set = &x->u.tenant_set;
	uint32_t was = set->tenant;
	int err;

	if (!was || was > x->l->max_tenants)
		return -EBADMSG;
	set->tenant = 0;
	err = x->ops->admin(x->arg, KVCACHE_NR_TENANT_CREATE, set);
	if (!err)
		x->tenant[was] = set->out_tenant;
	return err == -ENOMEM ? err : 0;
}

/* What is of a pool or a tenant that could not be made goes with it. */
static int load_limits(struct load *x)
{
	struct kvcache_tenant_set *set = &x->u.tenant_set;

	set->tenant = tenant_now(x, set->tenant);
	set->pool = pool_now(x, set->pool);
	if (set->tenant && set->pool != ~0U)
		x->ops->admin(x->arg, KVCACHE_NR_TENANT_SET, set);
	return 0;
}

static int load_grant(struct load *x)
{
	struct kvcache_tenant_grant *g = &x->u.tenant_grant;

	g->tenant = tenant_now(x, g->tenant);
	g->to = tenant_now(x, g->to);
	if (g->tenant && g->to)
		x->ops->admin(x->arg, KVCACHE_NR_TENANT_GRANT, g);
	return 0;
}

static struct kvl_client *publisher(struct load *x, uint32_t tenant)
{
	struct kvl_client *c = x->client[tenant];

	if (c)
		return c;
	c = kvl_client_alloc(x->l);
	if (c && kvl_client_attach(x->l, c, tenant)) {
		kvl_client_free(c);
		c = NULL;
	}
	x->client[tenant] = c;
	return c;
}

static int publish_page(struct load *x, struct kvl_client *c,
			struct kvcache_publish *cmd)
{
	struct kvl_nodes *nodes;
	int rc;

	while ((rc = kvl_publish(x->l, c, cmd, NULL, x->now)) == -EAGAIN) {
		nodes = kvl_nodes_alloc(KVCACHE_MAX_PUBLISH *
					KVCACHE_MAX_PAGE_KEYS);
		if (!nodes)
			return -ENOMEM;
		kvl_nodes_add(x->l, nodes);
	}
	return rc;
}

/*
 * The page is somebody's for as long as this takes, published and given up:
 * CACHED, and more lately used than those before it. Without memory of it, or
 * if it is damaged, it is given up before it was published.
 */
static int load_page(struct load *x)
{
	struct state_saved *s = &x->u.page;
	uint32_t pool = pool_now(x, s->pool), tenant = tenant_now(x, s->tenant);
	struct kvcache_publish *cmd;
	struct kvl_client *c;
	u64 handle;
	struct kvl_request r = { .pool = pool, .nr = 1, .pages = &handle };
	int rc;

	if (s->size < STATE_PAGE_MIN)
		return -EBADMSG;
	x->lost++;
	c = pool != ~0U && tenant ? publisher(x, tenant) : NULL;
	if (!c)
		return 0;
	rc = kvl_alloc(x->l, c, &r, false, x->now);
	if (rc == KVL_WAITING)
		rc = kvl_cancel(x->l, &r, -ENOSPC, x->now);
	if (rc)
		return 0;
	cmd = calloc(1, sizeof(*cmd));
	rc = cmd ? x->ops->adopt(x->arg, pool, handle, s) : -ENOMEM;
	if (!rc) {
		cmd->size = sizeof(*cmd);
		cmd->pool = pool;
		cmd->nr = 1;
		cmd->pages[0] = s->page;
		cmd->pages[0].handle = handle;
		rc = publish_page(x, c, cmd);
	}
	kvl_free(x->l, c, pool, &handle, 1, x->now);
	free(cmd);
	if (rc) {
		x->ops->settle(x->arg, pool);
	} else {
		x->lost--;
		x->pages++;
	}
	return rc == -ENOMEM ? rc : 0;
}

static int load_all(struct load *x)
{
	char magic[sizeof(STATE_MAGIC) - 1];
	int kind, err = 0;

	if (fread(magic, sizeof(magic), 1, x->f) != 1 ||
	    memcmp(magic, STATE_MAGIC, sizeof(magic)))
		return -EBADMSG;
	while (!err && (kind = read_record(x)) > 0) {
		switch (kind) {
		case KVCACHE_NR_POOL_SET:
			err = load_pool(x);
			break;
		case KVCACHE_NR_TENANT_CREATE:
			err = load_tenant(x);
			break;
		case KVCACHE_NR_TENANT_SET:
			err = load_limits(x);
			break;
		case KVCACHE_NR_TENANT_GRANT:
			err = load_grant(x);
			break;
		case STATE_PAGE:
			err = load_page(x);
			break;
		default:
			err = -EBADMSG;
		}
	}
	return err ? err : kind;
}

static void drop_publishers(struct load *x)
{
	for (uint32_t k = 0; k <= x->l->max_tenants; k++) {
		struct kvl_client *c = x->client[k];

		if (!c)
			continue;
		kvl_client_kill(x->l, c);
		while (kvl_client_reap(x->l, c, 4096, x->now))
			;
		kvl_client_detach(x->l, c);
		kvl_client_free(c);
	}
}

int state_load(struct kvl *l, FILE *f, uint64_t now,
	       const struct state_ops *ops, void *arg, uint32_t *pages,
	       uint32_t *lost)
{
	struct load *x = calloc(1, sizeof(*x));
	int err = -ENOMEM;

	*pages = 0;
	*lost = 0;
	if (!x)
		return -ENOMEM;
	*x = (struct load){
		.l = l, .f = f, .now = now, .ops = ops, .arg = arg,
		.tenant = calloc(l->max_tenants + 1, sizeof(*x->tenant)),
		.client = calloc(l->max_tenants + 1, sizeof(*x->client)),
	};
	memset(x->pool, 0xff, sizeof(x->pool));
	if (x->tenant && x->client) {
		err = load_all(x);
		drop_publishers(x);
	}
	*pages = x->pages;
	*lost = x->lost;
	free(x->tenant);
	free(x->client);
	free(x);
	return err;
}
