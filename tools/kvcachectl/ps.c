// SPDX-License-Identifier: MIT
/*
 * ps.c - clients: which processes hold how much, and which wait.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "json_out.h"
#include "table.h"
#include "util.h"

/* The clients of one pool; a client's row in each further pool tells more. */
struct ps {
	struct ctl *c;
	const struct kvcache_pool_info *pool;
	struct names names;
	struct records list;
	bool first;
};

static bool wanted(const struct ps *ps, const struct kvcache_client_info *v,
		   const char *tenant)
{
	const char *only = ps->c->value[OPT_TENANT];

	if (only && strcmp(only, tenant))
		return false;
	return ps->first || v->nr_private || v->nr_shared || v->waiting;
}

static json_t *json_client(const struct ps *ps,
			   const struct kvcache_client_info *v,
			   const char *tenant)
{
	return json_pack("{s:i, s:i, s:o, s:s, s:s, s:I, s:I, s:I, s:I}",
			 "id", v->id, "pid", v->pid,
			 "comm", json_outside(v->comm), "tenant", tenant,
			 "pool", ps->pool->name,
			 "page_bytes", (json_int_t)ps->pool->page_size,
			 "private_pages", (json_int_t)v->nr_private,
			 "shared_pages", (json_int_t)v->nr_shared,
			 "waiting_pages", (json_int_t)v->waiting);
}

static void row(const struct ps *ps, struct table *t,
		const struct kvcache_client_info *v, const char *tenant)
{
	uint64_t page = ps->pool->page_size;
	char buf[32];

	table_cell(t, "%u", v->id);
	if (v->pid)
		table_cell(t, "%u", v->pid);
	else
		table_cell(t, "%s", "");
	table_cell(t, "%s", v->comm);
	table_cell(t, "%s", tenant);
	table_cell(t, "%s", ps->pool->name);
	table_cell(t, "%s", human_size(v->nr_private * page, buf));
	table_cell(t, "%s", human_size(v->nr_shared * page, buf));
	table_cell(t, "%s", v->waiting ? human_size(v->waiting * page, buf) :
					 "");
}

static int show(struct ps *ps, struct table *t, json_t *json)
{
	const struct kvcache_client_info *v;
	json_t *list = json ? json_array() : NULL, *o;
	char tenant[KVCACHE_NAME_LEN];
	size_t i;

	if (names_read(ps->c, ps->pool->id, &ps->names) ||
	    names_only(ps->c, &ps->names) ||
	    list_clients(ps->c, ps->pool->id, &ps->list)) {
		json_decref(list);
		return -1;
	}
	v = ps->list.v;
	for (i = 0; i < ps->list.n; i++) {
		names_of(&ps->names, v[i].tenant, tenant);
		if (!wanted(ps, &v[i], tenant))
			continue;
		if (json)
			json_array_append_new(list,
					      json_client(ps, &v[i], tenant));
		else
			row(ps, t, &v[i], tenant);
	}
	if (json) {
		o = json_list(&ps->list);
		json_object_set_new(o, "pool", json_string(ps->pool->name));
		json_object_set_new(o, "clients", list);
		json_array_append_new(json, o);
	}
	return 0;
}

int cmd_ps(struct ctl *c)
{
	json_t *json = c->value[OPT_JSON] ? json_array() : NULL;
	const struct kvcache_pool_info *only;
	struct table t = { 0 };
	int ret = ctl_some_pools(c, &only);

	table_columns(&t, ">CLIENT", ">PID", "COMMAND", "TENANT", "POOL",
		      ">PRIVATE", ">SHARED", ">WAITS FOR", NULL);
	for (uint32_t i = 0; !ret && i < c->query.out_nr_pools; i++) {
		struct ps ps = {
			.c = c,
			.pool = &c->query.out_pools[i],
			.first = only || !i,
		};

		if (only && only != ps.pool)
			continue;
		ret = show(&ps, &t, json);
		free(ps.names.list.v);
		free(ps.list.v);
	}
	return ctl_pools_end(ret, &t, json);
}
