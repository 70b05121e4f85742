// SPDX-License-Identifier: MIT
/*
 * store_ledger.c - a ledger of this process, called directly with a time that
 * is the replay's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../kmod/ledger.h"

#include "store.h"
#include "store_block.h"

struct user {
	struct kvl_client *client;
	uint32_t id;
	struct kvl_request request;
};

struct ledger {
	struct store s;
	struct kvl *l;
	struct user *user;
	struct kvcache_lookup look;
	struct kvcache_publish pub;
	uint32_t fill;
	uint32_t commons;	/* tenant to publish into; 0: the own one */
};

static struct ledger *to_ledger(struct store *s)
{
	return (struct ledger *)s;
}

/* -EAGAIN is a wish for memory: whether it was met. */
static bool more(struct ledger *d, int err)
{
	struct kvl_nodes *nodes;

	if (err != -EAGAIN)
		return false;
	nodes = kvl_nodes_alloc(1024);
	if (!nodes)
		replay_die("out of memory");
	kvl_nodes_add(d->l, nodes);
	return true;
}

static int ledger_lookup(struct store *s, uint32_t tenant,
			 const uint32_t *block, uint32_t n, uint64_t *pages)
{
	struct ledger *d = to_ledger(s);
	struct kvcache_lookup *a = &d->look;
	int err;

	blocks_to_lookup(a, block, n);
	do {
		err = kvl_lookup(d->l, d->user[tenant].client, a, s->now);
	} while (more(d, err));
	return err ? err : blocks_found(a, pages);
}

static int ledger_alloc(struct store *s, uint32_t tenant, uint32_t n,
			uint64_t *pages)
{
	struct ledger *d = to_ledger(s);
	struct user *u = &d->user[tenant];
	int rc;

	u->request.pool = 0;
	u->request.nr = n;
	u->request.pages = (u64 *)pages;
	rc = kvl_alloc(d->l, u->client, &u->request, true, s->now);
	return rc == KVL_WAITING ? STORE_WAITING : rc;
}

static void ledger_cancel(struct store *s, uint32_t tenant)
{
	struct ledger *d = to_ledger(s);

	kvl_cancel(d->l, &d->user[tenant].request, -EINTR, s->now);
}

static int ledger_granted(struct store *s)
{
	struct ledger *d = to_ledger(s);
	struct kvl_request *r = kvl_next_done(d->l);
	uint32_t k;

	if (!r)
		return -1;
	/* Limits do not change in a run, so nothing else can have happened. */
	if (r->status)
		replay_die("a waiting request failed: %s",
			   strerror(-r->status));
	for (k = 0; &d->user[k].request != r; k++)
		;
	return k;
}

static int ledger_publish(struct store *s, uint32_t tenant,
			  const uint32_t *block, const uint32_t *parent,
			  uint32_t n, uint64_t *pages)
{
	struct ledger *d = to_ledger(s);
	struct kvcache_publish *a = &d->pub;
	int err;

	blocks_to_publish(a, block, parent, n, pages, d->fill);
	a->domain = d->commons;
	do {
		err = kvl_publish(d->l, d->user[tenant].client, a, NULL,
				  s->now);
	} while (more(d, err));
	if (err)
		return err;
	blocks_published(a, pages);
	return 0;
}

static int ledger_free(struct store *s, uint32_t tenant, const uint64_t *pages,
		       uint32_t n)
{
	struct ledger *d = to_ledger(s);

	return kvl_free(d->l, d->user[tenant].client, 0, (const u64 *)pages, n,
			s->now);
}

static int ledger_flush(struct store *s, uint32_t tenant)
{
	struct ledger *d = to_ledger(s);

	return kvl_tenant_flush(d->l, d->user[tenant].id, 0, ~0U, s->now);
}

static int ledger_limit(struct store *s, uint32_t tenant, uint64_t *out)
{
	struct ledger *d = to_ledger(s);
	struct kvl_check check;
	int err = kvl_alloc_check(d->l, d->user[tenant].client, 0, 1, &check);

	*out = check.limit;
	return err;
}

static int ledger_pool(struct store *s, struct kvcache_pool_info *out)
{
	return kvl_pool_info(to_ledger(s)->l, 0, out);
}

static int ledger_tenant(struct store *s, uint32_t tenant,
			 struct kvcache_tenant_info *out)
{
	struct ledger *d = to_ledger(s);

	return kvl_tenant_info(d->l, 0, d->user[tenant].id, out);
}

static int ledger_verify(struct store *s, char *why, size_t len)
{
	return kvl_verify(to_ledger(s)->l, why, len);
}

static void ledger_close(struct store *s)
{
	struct ledger *d = to_ledger(s);

	if (d->l)
		kvl_destroy(d->l);
	free(d->user);
	free(d);
}

static const struct store_ops ledger_ops = {
	.lookup = ledger_lookup,
	.alloc = ledger_alloc,
	.cancel = ledger_cancel,
	.granted = ledger_granted,
	.publish = ledger_publish,
	.free = ledger_free,
	.flush = ledger_flush,
	.limit = ledger_limit,
	.pool = ledger_pool,
	.tenant = ledger_tenant,
	.verify = ledger_verify,
	.close = ledger_close,
};

static int add_tenant(struct ledger *d, uint32_t k,
		      struct kvcache_tenant_set *set)
{
	struct kvl_tenant *t = kvl_tenant_alloc(d->l);
	int err;

	if (!t)
		return -ENOMEM;
	set->set = KVCACHE_SET_LIMITS;
	snprintf(set->name, sizeof(set->name), "t%u", k);
	err = kvl_tenant_create(d->l, t, set, 0);
	if (err)
		kvl_tenant_free(t);
	d->user[k].id = set->out_tenant;
	return err;
}

/* A tenant with limits and its client. */
static int add_user(struct ledger *d, uint32_t k, const struct store_config *c)
{
	struct kvcache_tenant_set set = {
		.min = c->min, .low = c->low, .max = c->max,
	};
	struct kvcache_tenant_grant grant = {
		.tenant = d->commons, .max_held = c->pages,
		.rights = KVCACHE_GRANT_LOOKUP | KVCACHE_GRANT_PUBLISH,
	};
	struct user *u = &d->user[k];
	int err = add_tenant(d, k, &set);

	grant.to = u->id;
	if (!err && d->commons)
		err = kvl_tenant_grant(d->l, &grant);
	if (err)
		return err;
	u->client = kvl_client_alloc(d->l);
	return u->client ? kvl_client_attach(d->l, u->client, u->id) : -ENOMEM;
}

static int add_commons(struct ledger *d, const struct store_config *c)
{
	struct kvcache_tenant_set set = { .max = KVCACHE_LIMIT_MAX };
	int err = add_tenant(d, c->tenants, &set);

	d->commons = set.out_tenant;
	return err;
}

struct store *store_ledger_open(const struct store_config *c)
{
	const struct kvl_config cfg = {
		.max_tenants = c->tenants + 1, .max_clients = c->tenants,
		.nr_events = 16, .seed = 1,
	};
	const struct kvl_pool_config pool = {
		.name = "replay", .flags = KVL_POOL_DIRECT,
		.page_size = KVCACHE_PAGE_SIZE_MIN, .nr_pages = c->pages,
	};
	struct ledger *d = replay_alloc(1, sizeof(*d));
	struct kvl_pool *p = NULL;
	uint32_t k;
	int err = -ENOMEM;

	d->s.ops = &ledger_ops;
	d->user = replay_alloc(c->tenants + 1, sizeof(*d->user));
	d->fill = c->page_tokens;
	d->l = kvl_create(&cfg);
	if (d->l)
		err = kvl_pool_alloc(d->l, &pool, &p);
	if (!err)
		err = kvl_pool_add(d->l, p);
	if (err >= 0 && c->commons)
		err = add_commons(d, c);
	for (k = 0; k < c->tenants && err >= 0; k++)
		err = add_user(d, k, c);
	if (err >= 0)
		return &d->s;
	ledger_close(&d->s);
	errno = -err;
	return NULL;
}
