// SPDX-License-Identifier: MIT
/*
 * grants.c - who lets whom in.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ctl.h"
#include "json_out.h"
#include "page_state.h"
#include "table.h"

static json_t *json_grant(const struct kvcache_grant_info *g,
			  const struct names *n)
{
	char from[KVCACHE_NAME_LEN], to[KVCACHE_NAME_LEN];

	return json_pack("{s:s, s:s, s:b, s:b, s:o, s:I}",
			 "tenant", names_of(n, g->from, from),
			 "to", names_of(n, g->to, to),
			 "lookup", !!(g->rights & KVCACHE_GRANT_LOOKUP),
			 "publish", !!(g->rights & KVCACHE_GRANT_PUBLISH),
			 "max_held_pages", json_limit(g->max_held),
			 "held_pages", (json_int_t)g->held);
}

static void grant_row(struct table *t, const struct kvcache_grant_info *g,
		      const struct names *n)
{
	char buf[KVCACHE_NAME_LEN];

	table_cell(t, "%s", names_of(n, g->from, buf));
	table_cell(t, "%s", names_of(n, g->to, buf));
	table_cell(t, "%s", rights_name(g->rights));
	if (g->max_held == KVCACHE_LIMIT_MAX)
		table_cell(t, "max");
	else
		table_cell(t, "%llu", (unsigned long long)g->max_held);
	table_cell(t, "%llu", (unsigned long long)g->held);
}

/* @only: of this tenant, given or got; 0 for all. */
static int print_grants(const struct ctl *c, const struct records *l,
			const struct names *n, uint32_t only)
{
	const struct kvcache_grant_info *g = l->v;
	json_t *list = json_array(), *o;
	struct table t = { 0 };
	int ret = 0;
	size_t i;

	table_columns(&t, "TENANT", "TO", "RIGHTS", ">MAX", ">HELD", NULL);
	for (i = 0; i < l->n; i++) {
		if (only && g[i].from != only && g[i].to != only)
			continue;
		if (c->value[OPT_JSON])
			json_array_append_new(list, json_grant(&g[i], n));
		else
			grant_row(&t, &g[i], n);
	}
	if (c->value[OPT_JSON]) {
		o = json_list(l);
		json_object_set(o, "grants", list);
		ret = json_print(o, stdout);
	} else {
		table_print(&t, stdout);
	}
	json_decref(list);
	table_free(&t);
	return ret;
}

int cmd_tenant_grants(struct ctl *c)
{
	struct kvcache_tenant_info only = { .id = 0 };
	struct records l = { 0 };
	struct names n = { 0 };
	uint32_t pool;
	int ret;

	if (c->nargs && args_name("tenant", c->arg[0]))
		return CTL_USAGE;
	if (ctl_some_pools(c, &(const struct kvcache_pool_info *){ NULL }))
		return -1;
	pool = c->query.out_pools[0].id;
	ret = c->nargs ? find_tenant(c, c->arg[0], pool, &only) : 0;
	if (!ret)
		ret = list_grants(c, &l);
	if (!ret)
		ret = names_read(c, pool, &n);
	if (!ret)
		ret = print_grants(c, &l, &n, only.id);
	free(l.v);
	free(n.list.v);
	return ret;
}
