// SPDX-License-Identifier: MIT
/*
 * kvcachectl - who holds which pages, and who may.
 *
 * Everything it shows and changes goes through the commands of the ABI, to the
 * module or to a broker: one that administers has no pages of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "util.h"

#define LIMITS	(OPT(POOL) | OPT(MIN) | OPT(LOW) | OPT(MAX))
#define MANY	4096	/* arguments, where any number will do */
#define ATTRS	(OPT(OWNER) | OPT(MODE) | OPT(TTL) | OPT(CGROUP) | OPT(TRUST))

const struct ctl_command ctl_commands[] = {
	{ "info", NULL, "", "the backend and its pools",
	  0, 0, 0, cmd_info },
	{ "pool", "ls", "", "list pools",
	  0, 0, 0, cmd_pool_ls },
	{ "pool", "show", "NAME", "all counters of a pool",
	  0, 1, 1, cmd_pool_show },
	{ "pool", "create", "NAME", "make a pool",
	  OPT(SIZE) | OPT(PAGE), 1, 1, cmd_pool_create },
	{ "pool", "set", "NAME", "grow or shrink a pool",
	  OPT(SIZE), 1, 1, cmd_pool_set },
	{ "pool", "drain", "NAME", "let a pool hand out nothing and empty itself",
	  OPT(RESUME), 1, 1, cmd_pool_drain },
	{ "pool", "rm", "NAME", "remove a pool that is empty",
	  0, 1, 1, cmd_pool_rm },
	{ "tenant", "ls", "", "list tenants, their limits and what they have",
	  OPT(POOL), 0, 0, cmd_tenant_ls },
	{ "tenant", "create", "NAME", "make a tenant",
	  LIMITS | ATTRS, 1, 1, cmd_tenant_create },
	{ "tenant", "set", "NAME", "change a tenant while everybody runs",
	  LIMITS | ATTRS | OPT(DEADLINE), 1, 1, cmd_tenant_set },
	{ "tenant", "rm", "NAME", "remove a tenant that nobody uses",
	  0, 1, 1, cmd_tenant_rm },
	{ "tenant", "grant", "NAME TO", "let another tenant in",
	  OPT(RIGHTS) | OPT(HOLD), 2, 2, cmd_tenant_grant },
	{ "tenant", "grants", "[NAME]", "list what tenants granted, or got",
	  0, 0, 1, cmd_tenant_grants },
	{ "tenant", "flush", "NAME", "give up what a tenant has cached",
	  OPT(POOL), 1, 1, cmd_tenant_flush },
	{ "ps", NULL, "", "list clients and what they hold",
	  OPT(POOL) | OPT(TENANT), 0, 0, cmd_ps },
	{ "page", "ls", "", "list pages in use",
	  OPT(POOL) | OPT(TENANT) | OPT(STATE), 0, 0, cmd_page_ls },
	{ "page", "show", "PAGE", "one page, by its number or handle",
	  OPT(POOL) | OPT(TENANT), 1, 1, cmd_page_show },
	{ "events", NULL, "", "wait for what happens to a tenant",
	  OPT(TENANT) | OPT(FOLLOW) | OPT(TIMEOUT), 0, 0, cmd_events },
	{ "footprint", NULL, "MODEL.gguf", "what conversations with a model cost",
	  OPT(CONTEXT) | OPT(CONVERSATIONS) | OPT(KV) | OPT(PAGE) |
	  OPT(POOL_SIZE),
	  1, 1, cmd_footprint },
	{ "doctor", NULL, "", "why it does not work here, and what helps",
	  0, 0, 0, cmd_doctor },
	{ "map", NULL, "", "a picture of a pool, a cell a page or several",
	  OPT(POOL) | OPT(BY) | OPT(SVG) | OPT(WIDTH), 0, 0, cmd_map },
	{ "completion", NULL, "bash", "print what makes a shell complete commands",
	  0, 1, 1, cmd_completion },
	/* What users of kvcached type; a segment of theirs is a tenant. */
	{ "list", NULL, "[NAME]...", "tenants, their limits and what they use",
	  OPT(POOL), 0, MANY, cmd_list },
	{ "limit", NULL, "NAME LIMIT", "as tenant set NAME --max LIMIT",
	  OPT(POOL), 2, 2, cmd_limit },
	{ "limit-percent", NULL, "NAME PERCENT",
	  "the same, as a share of the pool", OPT(POOL), 2, 2,
	  cmd_limit_percent },
	{ "watch", NULL, "[NAME]...", "list, again and again",
	  OPT(POOL) | OPT(INTERVAL), 0, MANY, cmd_watch },
	{ "delete", NULL, "NAME", "as tenant rm NAME", 0, 1, 1, cmd_delete },
	{ .group = NULL }
};

/* A full disk shows at the last write. */
static int written(void)
{
	if (!ferror(stdout) && !fflush(stdout))
		return 0;
	return complain("standard output: %s: make room, or write elsewhere",
			strerror(errno));
}

int main(int argc, char **argv)
{
	static struct ctl c;
	int ret = args_parse(&c, argc, argv);

	if (!ret)
		ret = c.command->run(&c);
	else if (ret == 1)
		ret = 0;
	kvc_close(c.kvc);
	if (ret != CTL_USAGE && written())
		ret = -1;
	return ret < 0 ? CTL_FAILED : ret;
}
