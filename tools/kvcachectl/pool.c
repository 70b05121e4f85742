// SPDX-License-Identifier: MIT
/*
 * pool.c - make, resize, drain and remove pools.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "json_out.h"
#include "util.h"

/* What became of it. */
static int say(const struct ctl *c, const char *name,
	       const struct kvcache_pool_set *s, uint64_t page_size)
{
	char size[32], page[32];

	if (c->value[OPT_JSON])
		return json_print(json_pack("{s:s, s:i, s:I}", "pool", name,
					    "id", s->out_pool, "pages",
					    (json_int_t)s->out_nr_pages),
				  stdout);
	if (s->op == KVCACHE_POOL_REMOVE)
		printf("pool %s: removed\n", name);
	else
		printf("pool %s: %s, %llu pages of %s%s\n", name,
		       human_size(s->out_nr_pages * page_size, size),
		       (unsigned long long)s->out_nr_pages,
		       human_size(page_size, page),
		       s->op == KVCACHE_POOL_DRAIN ? ", draining" : "");
	return 0;
}

/* The size of a pool in pages; 0 or CTL_USAGE after a complaint. */
static int pages_of(const struct ctl *c, uint64_t page_size, uint64_t *pages)
{
	uint64_t bytes = 0;
	char buf[32];

	if (args_need(c, OPT_SIZE) || args_size(c, OPT_SIZE, &bytes))
		return CTL_USAGE;
	*pages = bytes / page_size;
	if (*pages)
		return 0;
	complain("--size \"%s\": less than one page of %s: give more",
		 c->value[OPT_SIZE], option_size(page_size, buf));
	return CTL_USAGE;
}

int cmd_pool_create(struct ctl *c)
{
	static const struct ctl_remedy remedies[] = {
		{ -EEXIST, "there is one of this name: take another, or pool set to resize it" },
		{ -ENOSPC, "there are as many pools as can be: remove one" },
		{ -ENOMEM, "the system has not so much memory: make it smaller" },
		{ -EINVAL, "more pages than a pool can have: make it smaller, or its pages larger" },
		{ 0, NULL }
	};
	struct kvcache_pool_set s = { .op = KVCACHE_POOL_CREATE };
	uint64_t page = 2 << 20, pages;
	const char *name = c->arg[0];
	int err;

	if (args_name("pool", name) || args_page(c, &page) ||
	    pages_of(c, page, &pages))
		return CTL_USAGE;
	if (ctl_admin(c))
		return -1;
	strcpy(s.name, name);
	s.page_size = page;
	s.nr_pages = pages;
	err = kvc_call(c->kvc, KVCACHE_NR_POOL_SET, &s);
	if (err)
		return ctl_refused(c, err, remedies, "pool %s", name);
	return say(c, name, &s, s.page_size);
}

/* What is done with a pool that there is. */
static int change(struct ctl *c, struct kvcache_pool_set *s,
		  const struct ctl_remedy *remedies)
{
	const struct kvcache_pool_info *p;
	int err;

	if (args_name("pool", c->arg[0]))
		return CTL_USAGE;
	p = ctl_admin(c) ? NULL : ctl_pool_named(c, c->arg[0]);
	if (!p)
		return -1;
	s->pool = p->id;
	err = kvc_call(c->kvc, KVCACHE_NR_POOL_SET, s);
	if (err)
		return ctl_refused(c, err, remedies, "pool %s", p->name);
	return say(c, p->name, s, p->page_size);
}

int cmd_pool_set(struct ctl *c)
{
	static const struct ctl_remedy remedies[] = {
		{ -EINVAL, "less than what tenants were promised: lower their min first (kvcachectl tenant ls)" },
		{ -E2BIG, "more than it was made for: pool ls --json has its capacity: make another pool" },
		{ -ENOMEM, "the system has not so much memory: make it smaller" },
		{ 0, NULL }
	};
	struct kvcache_pool_set s = { .op = KVCACHE_POOL_RESIZE };
	const struct kvcache_pool_info *p;
	uint64_t bytes, pages;
	char buf[32];
	int err;

	if (args_name("pool", c->arg[0]) || args_need(c, OPT_SIZE) ||
	    args_size(c, OPT_SIZE, &bytes))
		return CTL_USAGE;
	p = ctl_admin(c) ? NULL : ctl_pool_named(c, c->arg[0]);
	if (!p)
		return -1;
	if (pages_of(c, p->page_size, &pages))
		return CTL_USAGE;
	s.nr_pages = pages;
	s.pool = p->id;
	err = kvc_call(c->kvc, KVCACHE_NR_POOL_SET, &s);
	if (err == -EBUSY)
		return complain("pool %s: shrunk to %s, where pages are in use: try again when they are free (kvcachectl ps)",
				p->name, human_size(s.out_nr_pages *
						    p->page_size, buf));
	if (err)
		return ctl_refused(c, err, remedies, "pool %s", p->name);
	return say(c, p->name, &s, p->page_size);
}

int cmd_pool_drain(struct ctl *c)
{
	struct kvcache_pool_set s = {
		.op = c->value[OPT_RESUME] ? KVCACHE_POOL_RESUME :
					     KVCACHE_POOL_DRAIN,
	};

	return change(c, &s, NULL);
}

int cmd_pool_rm(struct ctl *c)
{
	static const struct ctl_remedy remedies[] = {
		{ -EBUSY, "pages of it are in use or cached: kvcachectl pool drain gives up what is cached, ps says who holds the rest" },
		{ 0, NULL }
	};
	struct kvcache_pool_set s = { .op = KVCACHE_POOL_REMOVE };

	return change(c, &s, remedies);
}
