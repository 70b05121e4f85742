// SPDX-License-Identifier: MIT
/*
 * model_ledger.c - the play: a ledger and an oracle from one configuration,
 * operations in turn, a comparison after each. What an operation does is in
 * model_ops.c.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "model_ops.h"

void model_fail(struct model *m, const char *fmt, ...)
{
	va_list ap;

	if (m->failed)
		return;
	m->failed = true;
	va_start(ap, fmt);
	vsnprintf(m->why, m->len, fmt, ap);
	va_end(ap);
}

bool model_add_pool(struct model *m, const char *name, u32 pages, u32 capacity,
		    bool direct)
{
	const struct kvl_pool_config cfg = {
		.name = name,
		.kind = KVCACHE_POOL_HOST,
		.flags = direct ? KVL_POOL_DIRECT : 0,
		.page_size = KVCACHE_PAGE_SIZE_MIN,
		.nr_pages = pages,
		.capacity = capacity,
	};
	struct kvl_pool *p;
	int id;

	if (kvl_pool_alloc(m->l, &cfg, &p))
		return false;
	id = kvl_pool_add(m->l, p);
	orc_pool_add(&m->o, id, &cfg);
	return true;
}

static bool set_up(struct model *m, const struct model_config *cfg)
{
	const struct kvl_config k = {
		.max_tenants = 1 + cfg->tenants % (ORC_TENANTS - 1),
		.max_clients = 1 + cfg->clients % (ORC_CLIENTS - 1),
		.tenant_clients = cfg->clients / (ORC_CLIENTS - 1) % ORC_CLIENTS,
		.nr_events = 1U << cfg->events % 8,
		.seed = cfg->spread,
		.slice = cfg->slice % 2 ? 1 + cfg->slice / 2 % 4 : 0,
	};
	u32 pages = 1 + cfg->pages % (ORC_PAGES - 1);
	u32 pages2 = cfg->pages2 % 8;

	m->cfg = cfg;
	orc_init(&m->o, &k);
	m->l = kvl_create(&k);
	return m->l &&
	       model_add_pool(m, "a", pages, ORC_PAGES - 1, cfg->direct & 1) &&
	       (!pages2 ||
		model_add_pool(m, "b", pages2, 8, cfg->direct & 2));
}

size_t model_play(const struct model_config *cfg, const struct model_op *op,
		  size_t nr, FILE *trace, char *why, size_t len)
{
	struct model *m = calloc(1, sizeof(*m));
	size_t k = 0;

	why[0] = 0;
	if (!m)
		return 0;
	m->trace = trace;
	m->why = why;
	m->len = len;
	if (!set_up(m, cfg))
		model_fail(m, "no memory");
	for (; k < nr && !m->failed; k++) {
		model_do(m, &op[k]);
		if (!m->failed && !m->lazy)
			model_compare_done(m);
		if (!m->failed)
			model_compare(m);
		if (m->failed)
			break;
	}
	kvl_destroy(m->l);
	free(m);
	return k;
}
