// SPDX-License-Identifier: MIT
/*
 * list.c - lists of tenants, clients, pages and grants, and names of tenants.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "json_out.h"
#include "table.h"
#include "util.h"

#define REFUSED 1	/* no errno: it was complained about */

static int ask(void *arg, unsigned int nr, void *cmd)
{
	const char *what = nr == KVCACHE_NR_TENANT_GET ? "tenants" :
			   nr == KVCACHE_NR_CLIENT_GET ? "clients" :
			   nr == KVCACHE_NR_GRANT_GET ? "grants" : "pages";

	return ctl_read(arg, nr, cmd, what) ? REFUSED : 0;
}

static int list(struct ctl *c, unsigned int nr, uint32_t pool,
		struct records *out)
{
	int err = records_read(ask, c, nr, pool, out);

	if (err == -EPROTO)
		return complain("the list goes backwards: use a backend of the same release");
	if (err == -ENOMEM)
		out_of_memory();
	return err ? -1 : 0;
}

int list_tenants(struct ctl *c, uint32_t pool, struct records *out)
{
	return list(c, KVCACHE_NR_TENANT_GET, pool, out);
}

int list_clients(struct ctl *c, uint32_t pool, struct records *out)
{
	return list(c, KVCACHE_NR_CLIENT_GET, pool, out);
}

int list_pages(struct ctl *c, uint32_t pool, struct records *out)
{
	return list(c, KVCACHE_NR_PAGE_GET, pool, out);
}

int list_grants(struct ctl *c, struct records *out)
{
	return list(c, KVCACHE_NR_GRANT_GET, 0, out);
}

static int no_such_tenant(const char *name)
{
	return complain("tenant \"%s\": there is none of this name: kvcachectl tenant ls shows all",
			name);
}

int find_tenant(struct ctl *c, const char *name, uint32_t pool,
		struct kvcache_tenant_info *out)
{
	const struct kvcache_tenant_info *t;
	struct records l;
	size_t i;
	int ret;

	ret = list_tenants(c, pool, &l);
	t = l.v;
	for (i = 0; !ret && i < l.n; i++)
		if (!strcmp(t[i].name, name))
			break;
	if (!ret && i < l.n)
		*out = t[i];
	else if (!ret)
		ret = no_such_tenant(name);
	free(l.v);
	return ret;
}

int names_read(struct ctl *c, uint32_t pool, struct names *out)
{
	return list_tenants(c, pool, &out->list);
}

/* They are listed by ascending number. */
static int compare(const void *key, const void *elem)
{
	const struct kvcache_tenant_info *t = elem;
	uint32_t id = *(const uint32_t *)key;

	return id < t->id ? -1 : id > t->id;
}

const char *names_of(const struct names *n, uint32_t tenant, char *buf)
{
	const struct kvcache_tenant_info *t;

	if (!tenant)
		return strcpy(buf, "");
	t = bsearch(&tenant, n->list.v, n->list.n, sizeof(*t), compare);
	if (t)
		snprintf(buf, KVCACHE_NAME_LEN, "%s", t->name);
	else
		snprintf(buf, KVCACHE_NAME_LEN, "#%u", tenant);
	return buf;
}

int names_only(const struct ctl *c, const struct names *n)
{
	const struct kvcache_tenant_info *t = n->list.v;
	const char *only = c->value[OPT_TENANT];

	for (size_t i = 0; only && i < n->list.n; i++)
		if (!strcmp(t[i].name, only))
			return 0;
	return only ? no_such_tenant(only) : 0;
}

json_t *json_list(const struct records *l)
{
	return json_pack("{s:I, s:I}", "seq", (json_int_t)l->seq,
			 "seq_last", (json_int_t)l->last);
}

int ctl_pools_end(int ret, struct table *t, json_t *json)
{
	if (!ret && json)
		ret = json_print(json_pack("{s:O}", "pools", json), stdout);
	else if (!ret)
		table_print(t, stdout);
	table_free(t);
	json_decref(json);
	return ret;
}
