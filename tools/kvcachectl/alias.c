// SPDX-License-Identifier: MIT
/*
 * alias.c - the commands that users of kvcached type, in the form they know. A
 * segment of theirs is a tenant here.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"
#include "json_out.h"
#include "table.h"
#include "util.h"

/* ---- list ------------------------------------------------------------- */

static bool wanted(const struct ctl *c, const char *name)
{
	for (int i = 0; i < c->nargs; i++)
		if (!strcmp(c->arg[i], name))
			return true;
	return !c->nargs;
}

/* What it can have at most: "max" is all of the pool. */
static uint64_t limit_of(const struct kvcache_tenant_info *v,
			 const struct kvcache_pool_info *p)
{
	return v->max < p->nr_pages ? v->max : p->nr_pages;
}

static json_t *json_row(const struct kvcache_tenant_info *v,
			const struct kvcache_pool_info *p)
{
	return json_pack("{s:s, s:s, s:I, s:I}", "ipc", v->name,
			 "pool", p->name, "limit_bytes",
			 (json_int_t)(limit_of(v, p) * p->page_size),
			 "used_bytes", (json_int_t)(v->cur * p->page_size));
}

static void row(struct table *t, const struct kvcache_tenant_info *v,
		const struct kvcache_pool_info *p)
{
	uint64_t limit = limit_of(v, p);
	char buf[32];

	table_cell(t, "%s", v->name);
	table_cell(t, "%s", p->name);
	table_cell(t, "%s", human_size(limit * p->page_size, buf));
	table_cell(t, "%s", human_size(v->cur * p->page_size, buf));
	if (limit)
		table_cell(t, "%.1f %%", 100.0 * v->cur / limit);
	else
		table_cell(t, "%s", "");
}

/* The tenants of a pool to either of the two; @seen[i]: argument i was there. */
static int add_pool(struct ctl *c, const struct kvcache_pool_info *p,
		    struct table *t, json_t *json, bool *seen)
{
	const struct kvcache_tenant_info *v;
	struct records l;
	int ret = list_tenants(c, p->id, &l);

	v = l.v;
	for (size_t i = 0; !ret && i < l.n; i++) {
		for (int k = 0; k < c->nargs; k++)
			seen[k] |= !strcmp(c->arg[k], v[i].name);
		if (!wanted(c, v[i].name))
			continue;
		if (json)
			json_array_append_new(json, json_row(&v[i], p));
		else
			row(t, &v[i], p);
	}
	free(l.v);
	return ret;
}

static int all_seen(const struct ctl *c, const bool *seen)
{
	for (int k = 0; k < c->nargs; k++)
		if (!seen[k])
			return complain("tenant \"%s\": there is none of this name: kvcachectl list shows all",
					c->arg[k]);
	return 0;
}

int cmd_list(struct ctl *c)
{
	json_t *json = c->value[OPT_JSON] ? json_array() : NULL;
	bool *seen = xcalloc(c->nargs, sizeof(*seen));
	const struct kvcache_pool_info *only;
	struct table t = { 0 };
	int ret = ctl_some_pools(c, &only);

	table_columns(&t, "TENANT", "POOL", ">LIMIT", ">USED", ">%", NULL);
	for (uint32_t i = 0; !ret && i < c->query.out_nr_pools; i++)
		if (!only || only == &c->query.out_pools[i])
			ret = add_pool(c, &c->query.out_pools[i], &t, json,
				       seen);
	if (!ret)
		ret = all_seen(c, seen);
	if (!ret && json)
		ret = json_print(json_incref(json), stdout);
	else if (!ret)
		table_print(&t, stdout);
	table_free(&t);
	json_decref(json);
	free(seen);
	return ret;
}

/* ---- watch ------------------------------------------------------------ */

static volatile sig_atomic_t stopped;

static void stop(int sig)
{
	stopped = 1;
}

int cmd_watch(struct ctl *c)
{
	/* No restart: the signal ends the pause, too. */
	struct sigaction act = { .sa_handler = stop };
	struct timespec pause;
	double seconds = 1;
	int ret;

	if (c->value[OPT_INTERVAL] &&
	    !parse_double(c->value[OPT_INTERVAL], 0.1, 86400, &seconds)) {
		complain("--interval \"%s\": give seconds from 0.1 to 86400",
			 c->value[OPT_INTERVAL]);
		return CTL_USAGE;
	}
	pause.tv_sec = seconds;
	pause.tv_nsec = (seconds - pause.tv_sec) * 1e9;
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	for (;;) {
		/* A terminal has one list, a log all of them. */
		if (isatty(STDOUT_FILENO))
			fputs("\033[H\033[2J", stdout);
		ret = cmd_list(c);
		if (ret || stopped)
			return ret;
		if (!c->value[OPT_JSON])
			putchar('\n');
		if (fflush(stdout))
			return 0;	/* main() says why */
		nanosleep(&pause, NULL);
		if (stopped)
			return 0;
	}
}

/* ---- changes ---------------------------------------------------------- */

/* Complaints are about what was typed, not about the option that it becomes. */
static int no_limit(const struct ctl *c, const char *what, const char *give)
{
	complain("%s \"%s\": give %s", what, c->arg[1], give);
	return CTL_USAGE;
}

int cmd_limit(struct ctl *c)
{
	struct limit l;

	if (!parse_limit(c->arg[1], &l))
		return no_limit(c, "LIMIT", "a size such as 64M or 1.5G, max, or a share of the pool from 0% to 100%");
	c->value[OPT_MAX] = c->arg[1];
	return cmd_tenant_set(c);
}

int cmd_limit_percent(struct ctl *c)
{
	size_t n = strlen(c->arg[1]);
	struct limit l;
	char *share;
	int ret;

	share = xasprintf("%s%s", c->arg[1],
			  n && c->arg[1][n - 1] == '%' ? "" : "%");
	c->value[OPT_MAX] = share;
	ret = parse_limit(share, &l) ? cmd_tenant_set(c) :
	      no_limit(c, "PERCENT", "a share of the pool from 0 to 100");
	c->value[OPT_MAX] = NULL;
	free(share);
	return ret;
}

int cmd_delete(struct ctl *c)
{
	return cmd_tenant_rm(c);
}
