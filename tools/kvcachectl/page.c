// SPDX-License-Identifier: MIT
/*
 * page.c - pages in use, or one of them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "json_out.h"
#include "page_state.h"
#include "table.h"
#include "util.h"

static const struct {
	unsigned int bit;
	const char *name;
} flags[] = {
	{ KVCACHE_PAGE_VOLATILE, "volatile" },
	{ KVCACHE_PAGE_EXPORTED, "exported" },
	{ KVCACHE_PAGE_PINNED, "pinned" },
};
#define FLAGS (sizeof(flags) / sizeof(flags[0]))

static const char *flag_names(unsigned int set, char *buf)
{
	size_t i, n = 0;

	buf[0] = 0;
	for (i = 0; i < FLAGS; i++)
		if (set & flags[i].bit)
			n += sprintf(buf + n, "%s%s", n ? "," : "",
				     flags[i].name);
	return buf;
}

/* State of --state in *@out, NR_STATES for any; 0, or CTL_USAGE. */
static int parse_state(const struct ctl *c, unsigned int *out)
{
	const char *s = c->value[OPT_STATE];

	*out = NR_STATES;
	if (!s)
		return 0;
	for (*out = KVCACHE_PAGE_PRIVATE; *out < KVCACHE_PAGE_NULL; ++*out)
		if (!strcmp(s, state_name(*out)))
			return 0;
	complain("--state \"%s\": give private, shared, cached or retiring", s);
	return CTL_USAGE;
}

static json_t *json_page(const struct kvcache_page_info *v, const char *tenant)
{
	char buf[64];

	return json_pack("{s:I, s:I, s:o, s:s, s:s, s:i, s:s, s:i, s:i, s:i, s:i, s:I}",
			 "page", (json_int_t)(uint32_t)v->handle,
			 "generation", (json_int_t)(v->handle >> 32),
			 "handle", json_hex(v->handle),
			 "state", state_name(v->state),
			 "tenant", tenant, "client", v->client,
			 "flags", flag_names(v->flags, buf),
			 "refs", v->refs, "fill", v->fill, "keys", v->nr_keys,
			 "priority", v->priority,
			 "idle_ns", (json_int_t)v->idle_ns);
}

/* ---- ls --------------------------------------------------------------- */

static void row(struct table *t, const struct kvcache_pool_info *p,
		const struct kvcache_page_info *v, const char *tenant)
{
	char buf[64];

	table_cell(t, "%u", (uint32_t)v->handle);
	table_cell(t, "%s", p->name);
	table_cell(t, "%s", state_name(v->state));
	table_cell(t, "%s", tenant);
	if (v->client)
		table_cell(t, "%u", v->client);
	else
		table_cell(t, "%s", "");
	table_cell(t, "%u", v->refs);
	table_cell(t, "%u", v->fill);
	table_cell(t, "%u", v->nr_keys);
	table_cell(t, "%u", v->priority);
	table_cell(t, "%s", human_time(v->idle_ns, buf));
	table_cell(t, "%s", flag_names(v->flags, buf));
}

static int show(struct ctl *c, const struct kvcache_pool_info *p,
		unsigned int state, struct table *t, json_t *json)
{
	json_t *list = json ? json_array() : NULL, *o;
	const char *only = c->value[OPT_TENANT];
	const struct kvcache_page_info *v;
	char tenant[KVCACHE_NAME_LEN];
	struct records l = { 0 };
	struct names names;
	int ret;

	ret = names_read(c, p->id, &names);
	if (!ret)
		ret = names_only(c, &names);
	if (!ret)
		ret = list_pages(c, p->id, &l);
	v = l.v;
	for (size_t i = 0; !ret && i < l.n; i++) {
		names_of(&names, v[i].tenant, tenant);
		if ((only && strcmp(only, tenant)) ||
		    (state != NR_STATES && state != v[i].state))
			continue;
		if (json)
			json_array_append_new(list, json_page(&v[i], tenant));
		else
			row(t, p, &v[i], tenant);
	}
	if (!ret && json) {
		o = json_list(&l);
		json_object_set_new(o, "pool", json_string(p->name));
		json_object_set_new(o, "page_bytes",
				    json_integer(p->page_size));
		json_object_set(o, "pages", list);
		json_array_append_new(json, o);
	}
	json_decref(list);
	free(names.list.v);
	free(l.v);
	return ret;
}

int cmd_page_ls(struct ctl *c)
{
	const struct kvcache_pool_info *only;
	struct table t = { 0 };
	unsigned int state;
	json_t *json;
	int ret;

	if (parse_state(c, &state))
		return CTL_USAGE;
	ret = ctl_some_pools(c, &only);
	json = c->value[OPT_JSON] ? json_array() : NULL;
	table_columns(&t, ">PAGE", "POOL", "STATE", "TENANT", ">CLIENT",
		      ">REFS", ">FILL", ">KEYS", ">PRIORITY", ">IDLE", "FLAGS",
		      NULL);
	for (uint32_t i = 0; !ret && i < c->query.out_nr_pools; i++)
		if (!only || only == &c->query.out_pools[i])
			ret = show(c, &c->query.out_pools[i], state, &t, json);
	return ctl_pools_end(ret, &t, json);
}

/* ---- show ------------------------------------------------------------- */

/* "12" is a number, "0x10000000c" a handle: whose generation is looked at. */
static int parse_page(const char *s, uint64_t *handle, bool *whole)
{
	size_t digits;

	*whole = !strncmp(s, "0x", 2);
	digits = strspn(s + 2 * *whole, "0123456789abcdefABCDEF");
	if (!*whole && parse_u64(s, 1, UINT32_MAX, handle))
		return 0;
	if (*whole && digits && digits <= 16 && !s[2 + digits]) {
		*handle = strtoull(s + 2, NULL, 16);
		/* Generations begin with 1, and page 0 is nobody's. */
		if (*handle >> 32 && (uint32_t)*handle)
			return 0;
	}
	complain("page \"%s\": give its number, such as 12, or its handle, such as 0x10000000c",
		 s);
	return CTL_USAGE;
}

/* A page that is free is in no list. */
static int not_listed(const struct ctl *c, const struct kvcache_pool_info *p,
		      uint64_t number)
{
	if (number > p->nr_pages)
		return complain("page %s: pool %s has %llu pages: give a number up to that",
				c->arg[0], p->name,
				(unsigned long long)p->nr_pages);
	return complain("page %s: it is free, or not this user's to see: kvcachectl page ls shows those in use",
			c->arg[0]);
}

int cmd_page_show(struct ctl *c)
{
	struct kvcache_page_get g = { .flags = 0 };
	const struct kvcache_page_info *v = g.out_info;
	const struct kvcache_pool_info *p;
	struct names names = { { 0 } };
	char tenant[KVCACHE_NAME_LEN], buf[64];
	uint64_t handle;
	bool whole;
	json_t *o;
	int ret;

	if (parse_page(c->arg[0], &handle, &whole))
		return CTL_USAGE;
	p = ctl_pool(c);
	if (!p)
		return -1;
	g.pool = p->id;
	g.start = (uint32_t)handle;
	if (ctl_read(c, KVCACHE_NR_PAGE_GET, &g, "pages"))
		return -1;
	if (!g.out_nr || (uint32_t)v->handle != (uint32_t)handle)
		return not_listed(c, p, (uint32_t)handle);
	if (whole && v->handle != handle)
		return complain("page %s: it went to somebody else since: its handle is 0x%" PRIx64 " now",
				c->arg[0], (uint64_t)v->handle);
	ret = names_read(c, p->id, &names);
	names_of(&names, v->tenant, tenant);
	free(names.list.v);
	if (ret)
		return -1;
	o = json_page(v, tenant);
	json_object_set_new(o, "pool", json_string(p->name));
	json_object_set_new(o, "seq", json_integer(g.out_seq));
	if (c->value[OPT_JSON])
		return json_print(o, stdout);
	json_decref(o);
	printf("page      %u of pool %s, %s\n", (uint32_t)v->handle, p->name,
	       human_size(p->page_size, buf));
	printf("handle    0x%" PRIx64 "\n", (uint64_t)v->handle);
	flag_names(v->flags, buf);
	printf("state     %s%s%s\n", state_name(v->state), *buf ? ", " : "",
	       buf);
	printf("tenant    %s\n", *tenant ? tenant : "-");
	if (v->client)
		printf("client    %u\n", v->client);
	printf("refs      %u\n", v->refs);
	if (v->nr_keys)
		printf("fill      %u tokens, %u keys, priority %u\n", v->fill,
		       v->nr_keys, v->priority);
	printf("idle      %s\n", human_time(v->idle_ns, buf));
	return 0;
}
