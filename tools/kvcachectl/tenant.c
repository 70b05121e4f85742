// SPDX-License-Identifier: MIT
/*
 * tenant.c - list tenants, remove them, give up what they cached, and let one
 * in with another. What changes their attributes is in tenant_set.c.
 */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "json_out.h"
#include "table.h"
#include "tenant.h"
#include "util.h"

json_t *json_tenant(const struct kvcache_tenant_info *t,
		    const struct kvcache_pool_info *p)
{
	json_t *o;

	o = json_pack("{s:s, s:i, s:s, s:I, s:I, s:o, s:o, s:o, s:I, s:I, s:I}",
		      "name", t->name, "id", t->id, "pool", p->name,
		      "page_bytes", (json_int_t)p->page_size,
		      "current_pages", (json_int_t)t->cur,
		      "min_pages", json_limit(t->min),
		      "low_pages", json_limit(t->low),
		      "max_pages", json_limit(t->max),
		      "peak_pages", (json_int_t)t->peak,
		      "cached_pages", (json_int_t)t->nr_cached,
		      "waiters", (json_int_t)t->waiters);
	json_object_update_new(o, json_pack(
		"{s:i, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:o, s:o, s:I, s:b, s:i, s:I}",
		"clients", t->clients,
		"limit_hits", (json_int_t)t->ev_max,
		"reclaimed_pages", (json_int_t)t->ev_reclaim,
		"revoked_pages", (json_int_t)t->ev_revoke,
		"lookups", (json_int_t)t->lookups,
		"hits", (json_int_t)t->hits,
		"uid", t->uid, "gid", t->gid,
		"mode", json_sprintf("%04o", t->mode),
		"ttl_ns", json_limit(t->ttl_ns),
		"cgroup", (json_int_t)t->cgroup,
		"trusted", t->trust,
		"grants", t->grants,
		"revision", (json_int_t)t->revision));
	return o;
}

static const char *user_name(uint32_t uid, char *buf)
{
	const struct passwd *pw = getpwuid(uid);

	if (pw)
		snprintf(buf, 32, "%s", pw->pw_name);
	else
		snprintf(buf, 32, "%u", uid);
	return buf;
}

void tenant_columns(struct table *t)
{
	table_columns(t, "TENANT", "POOL", ">CURRENT", ">CACHED", ">MIN",
		      ">LOW", ">MAX", ">CLIENTS", ">WAITERS", ">HITS", "OWNER",
		      "MODE", ">TTL", NULL);
}

void tenant_row(struct table *t, const struct kvcache_tenant_info *v,
		const struct kvcache_pool_info *p)
{
	char buf[32];

	table_cell(t, "%s", v->name);
	table_cell(t, "%s", p->name);
	table_cell(t, "%s", human_size(v->cur * p->page_size, buf));
	table_cell(t, "%s", human_size(v->nr_cached * p->page_size, buf));
	table_cell(t, "%s", human_limit(v->min, p->page_size, buf));
	table_cell(t, "%s", human_limit(v->low, p->page_size, buf));
	table_cell(t, "%s", human_limit(v->max, p->page_size, buf));
	table_cell(t, "%u", v->clients);
	table_cell(t, "%s", human_count(v->waiters, buf));
	if (v->lookups)
		table_cell(t, "%.1f %%", 100.0 * v->hits / v->lookups);
	else
		table_cell(t, "%s", "");
	table_cell(t, "%s", user_name(v->uid, buf));
	table_cell(t, "%04o", v->mode);
	table_cell(t, "%s", human_time(v->ttl_ns, buf));
}

/* The tenants of one pool, to either of the two. */
static int add_pool(struct ctl *c, const struct kvcache_pool_info *p,
		    struct table *t, json_t *json)
{
	const struct kvcache_tenant_info *v;
	struct records l;
	json_t *list;
	int ret;

	ret = list_tenants(c, p->id, &l);
	v = l.v;
	if (!ret && json) {
		json_t *o = json_list(&l);

		list = json_array();
		for (size_t i = 0; i < l.n; i++)
			json_array_append_new(list, json_tenant(&v[i], p));
		json_object_set_new(o, "pool", json_string(p->name));
		json_object_set_new(o, "tenants", list);
		json_array_append_new(json, o);
	}
	for (size_t i = 0; !ret && !json && i < l.n; i++)
		tenant_row(t, &v[i], p);
	free(l.v);
	return ret;
}

int cmd_tenant_ls(struct ctl *c)
{
	json_t *json = c->value[OPT_JSON] ? json_array() : NULL;
	const struct kvcache_pool_info *only;
	struct table t = { 0 };
	int ret = ctl_some_pools(c, &only);

	tenant_columns(&t);
	for (uint32_t i = 0; !ret && i < c->query.out_nr_pools; i++)
		if (!only || only == &c->query.out_pools[i])
			ret = add_pool(c, &c->query.out_pools[i], &t, json);
	return ctl_pools_end(ret, &t, json);
}

/* Its number, for who administers: from a list of any pool. */
static int number_of(struct ctl *c, const char *name, uint32_t *out)
{
	struct kvcache_tenant_info t;

	if (ctl_admin(c) || ctl_pools(c))
		return -1;
	if (!c->query.out_nr_pools)
		return ctl_pool(c) ? 0 : -1;	/* says that there is none */
	if (find_tenant(c, name, c->query.out_pools[0].id, &t))
		return -1;
	*out = t.id;
	return 0;
}

static const struct ctl_remedy gone[] = {
	{ -ENOENT, "it is gone: kvcachectl tenant ls shows all" },
	{ -EBUSY, "it has clients or pages in use: end them first (kvcachectl ps)" },
	{ 0, NULL }
};

/* Cached pages that were given up. */
static int say_given_up(const struct ctl *c, const char *what,
			const struct kvcache_tenant_ref *ref)
{
	if (c->value[OPT_JSON])
		return json_print(json_pack("{s:s, s:i, s:I}", "tenant",
					    c->arg[0], "id", ref->tenant,
					    "pages", (json_int_t)ref->out_pages),
				  stdout);
	printf("tenant %s: %s, %llu cached pages given up\n", c->arg[0], what,
	       (unsigned long long)ref->out_pages);
	return 0;
}

int cmd_tenant_rm(struct ctl *c)
{
	struct kvcache_tenant_ref ref = { .pool = 0 };
	int err;

	if (args_name("tenant", c->arg[0]))
		return CTL_USAGE;
	if (number_of(c, c->arg[0], &ref.tenant))
		return -1;
	err = kvc_call(c->kvc, KVCACHE_NR_TENANT_REMOVE, &ref);
	if (err)
		return ctl_refused(c, err, gone, "tenant %s", c->arg[0]);
	return say_given_up(c, "removed", &ref);
}

int cmd_tenant_flush(struct ctl *c)
{
	struct kvcache_tenant_ref ref = { .pool = UINT32_MAX };
	const struct kvcache_pool_info *p;
	int err;

	if (args_name("tenant", c->arg[0]))
		return CTL_USAGE;
	if (number_of(c, c->arg[0], &ref.tenant))
		return -1;
	if (c->value[OPT_POOL]) {
		p = ctl_pool(c);
		if (!p)
			return -1;
		ref.pool = p->id;
	}
	err = kvc_call(c->kvc, KVCACHE_NR_TENANT_FLUSH, &ref);
	if (err)
		return ctl_refused(c, err, gone, "tenant %s", c->arg[0]);
	return say_given_up(c, "flushed", &ref);
}

/* ---- grants ----------------------------------------------------------- */

static int rights_of(const struct ctl *c, uint32_t *rights)
{
	static const struct {
		const char *name;
		uint32_t rights;
	} lists[] = {
		{ "lookup", KVCACHE_GRANT_LOOKUP },
		{ "publish", KVCACHE_GRANT_PUBLISH },
		{ "lookup,publish",
		  KVCACHE_GRANT_LOOKUP | KVCACHE_GRANT_PUBLISH },
		{ "publish,lookup",
		  KVCACHE_GRANT_LOOKUP | KVCACHE_GRANT_PUBLISH },
		{ "none", 0 },
	};
	size_t i;

	if (args_need(c, OPT_RIGHTS))
		return CTL_USAGE;
	for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (strcmp(c->value[OPT_RIGHTS], lists[i].name))
			continue;
		*rights = lists[i].rights;
		return 0;
	}
	complain("--rights \"%s\": give lookup, publish, lookup,publish or none",
		 c->value[OPT_RIGHTS]);
	return CTL_USAGE;
}

static int hold_of(const struct ctl *c, uint64_t *pages)
{
	const char *s = c->value[OPT_HOLD];

	*pages = KVCACHE_LIMIT_MAX;
	if (!s || !strcmp(s, "max") || parse_u64(s, 0, UINT64_MAX - 1, pages))
		return 0;
	complain("--hold \"%s\": give a whole number of pages, or max", s);
	return CTL_USAGE;
}

int cmd_tenant_grant(struct ctl *c)
{
	static const struct ctl_remedy remedies[] = {
		{ -ENOENT, "one of them is gone: kvcachectl tenant ls shows all" },
		{ -EINVAL, "a tenant needs no grant of its own: name two" },
		{ -ENOSPC, "it has as many grants as can be: take one back with --rights none" },
		{ 0, NULL }
	};
	struct kvcache_tenant_grant g = { .flags = 0 };
	uint64_t hold;
	int err;

	if (args_name("tenant", c->arg[0]) || args_name("tenant", c->arg[1]) ||
	    rights_of(c, &g.rights) || hold_of(c, &hold))
		return CTL_USAGE;
	g.max_held = hold;
	if (number_of(c, c->arg[0], &g.tenant) ||
	    number_of(c, c->arg[1], &g.to))
		return -1;
	err = kvc_call(c->kvc, KVCACHE_NR_TENANT_GRANT, &g);
	if (err)
		return ctl_refused(c, err, remedies, "tenant %s, grant to %s",
				   c->arg[0], c->arg[1]);
	if (c->value[OPT_JSON])
		return json_print(json_pack("{s:s, s:s, s:b, s:b, s:o}",
					    "tenant", c->arg[0], "to",
					    c->arg[1], "lookup",
					    !!(g.rights & KVCACHE_GRANT_LOOKUP),
					    "publish",
					    !!(g.rights & KVCACHE_GRANT_PUBLISH),
					    "max_held_pages",
					    json_limit(hold)), stdout);
	printf("tenant %s: %s %s\n", c->arg[0],
	       g.rights ? c->value[OPT_RIGHTS] : "no grant", c->arg[1]);
	return 0;
}
