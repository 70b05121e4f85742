// SPDX-License-Identifier: MIT
/*
 * info.c - the backend, and its pools.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "json_out.h"
#include "pool_stat.h"
#include "table.h"
#include "util.h"

static const struct {
	uint64_t bit;
	const char *name;
	const char *help;
} features[] = {
	{ KVCACHE_FEAT_MMAP, "mmap", "pages are mapped from the device" },
	{ KVCACHE_FEAT_FDS, "fds", "pages arrive as descriptors" },
	{ KVCACHE_FEAT_LOCAL, "local", "pages belong to one process" },
	{ KVCACHE_FEAT_ENFORCED, "enforced", "page tables enforce ownership" },
	{ KVCACHE_FEAT_EXPORT, "export", "pages can be exported as a dma-buf" },
	{ KVCACHE_FEAT_DEVICE, "device", "there can be pools of device memory" },
	{ KVCACHE_FEAT_EVENTS, "events", "events can be read" },
};
#define FEATURES (sizeof(features) / sizeof(features[0]))

static json_t *json_pool(const struct kvcache_pool_info *p)
{
	return json_pack("{s:s, s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}",
			 "name", p->name, "id", p->id,
			 "kind", p->kind == KVCACHE_POOL_HOST ? "host" : "device",
			 "page_bytes", (json_int_t)p->page_size,
			 "pages", (json_int_t)p->nr_pages,
			 "capacity_pages", (json_int_t)p->capacity,
			 "free_pages", (json_int_t)p->nr_free,
			 "private_pages", (json_int_t)p->nr_private,
			 "shared_pages", (json_int_t)p->nr_shared,
			 "cached_pages", (json_int_t)p->nr_cached,
			 "retiring_pages", (json_int_t)p->nr_retiring,
			 "waiters", (json_int_t)p->waiters,
			 "allocs", (json_int_t)p->allocs,
			 "reclaims", (json_int_t)p->reclaims,
			 "lookups", (json_int_t)p->lookups,
			 "hits", (json_int_t)p->hits,
			 "draining", p->draining);
}

static json_t *json_pools(const struct kvcache_query *q)
{
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < q->out_nr_pools; i++)
		json_array_append_new(list, json_pool(&q->out_pools[i]));
	return list;
}

static void pool_row(struct table *t, const struct kvcache_pool_info *p)
{
	const uint64_t pages[] = {
		p->nr_pages, p->nr_free, p->nr_private, p->nr_shared,
		p->nr_cached, p->nr_retiring,
	};
	char buf[32];
	size_t i;

	table_cell(t, "%s", p->name);
	table_cell(t, "%s", human_size(p->page_size, buf));
	for (i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
		table_cell(t, "%s", human_size(pages[i] * p->page_size, buf));
	table_cell(t, "%s", human_count(p->waiters, buf));
	if (p->lookups)
		table_cell(t, "%.1f %%", 100.0 * p->hits / p->lookups);
	else
		table_cell(t, "%s", "");
	table_cell(t, "%s", human_count(p->reclaims, buf));
	table_cell(t, "%s", p->draining ? "draining" : "");
}

static void print_pools(const struct kvcache_query *q)
{
	struct table t = { 0 };
	uint32_t i;

	table_columns(&t, "POOL", ">PAGE", ">SIZE", ">FREE", ">PRIVATE",
		      ">SHARED", ">CACHED", ">RETIRING", ">WAITERS", ">HITS",
		      ">RECLAIMS", "STATE", NULL);
	for (i = 0; i < q->out_nr_pools; i++)
		pool_row(&t, &q->out_pools[i]);
	table_print(&t, stdout);
	table_free(&t);
}

int cmd_pool_ls(struct ctl *c)
{
	if (ctl_pools(c))
		return -1;
	if (c->value[OPT_JSON])
		return json_print(json_pack("{s:I, s:o}", "seq",
					    (json_int_t)c->query.out_seq,
					    "pools", json_pools(&c->query)),
				  stdout);
	print_pools(&c->query);
	return 0;
}

/* ---- one pool's counters ------------------------------------------------ */

static json_t *json_counters(const struct kvcache_pool_get *s)
{
	json_t *o = json_object();
	const char *name;
	uint64_t value;
	size_t i;

	for (i = 0; (name = pool_stat(s, i, &value)); i++)
		json_object_set_new(o, name, json_integer(value));
	return o;
}

static void print_counters(const struct kvcache_pool_get *s)
{
	struct table t = { 0 };
	const char *name;
	uint64_t value;
	size_t i;

	table_columns(&t, "COUNTER", ">VALUE", NULL);
	for (i = 0; (name = pool_stat(s, i, &value)); i++) {
		table_cell(&t, "%s", name);
		table_cell(&t, "%" PRIu64, value);
	}
	table_print(&t, stdout);
	table_free(&t);
}

int cmd_pool_show(struct ctl *c)
{
	static const struct ctl_remedy remedies[] = {
		{ -ENOTTY, "it is of an older release, which counts less: kvcachectl pool ls" },
		{ 0, NULL }
	};
	const struct kvcache_pool_info *p;
	struct kvcache_pool_get s = { .flags = 0 };
	int err;

	if (args_name("pool", c->arg[0]))
		return CTL_USAGE;
	p = ctl_admin(c) ? NULL : ctl_pool_named(c, c->arg[0]);
	if (!p)
		return -1;
	s.pool = p->id;
	err = kvc_call(c->kvc, KVCACHE_NR_POOL_GET, &s);
	if (err)
		return ctl_refused(c, err, remedies, "pool %s", p->name);
	if (c->value[OPT_JSON])
		return json_print(json_pack("{s:I, s:o, s:o}", "seq",
					    (json_int_t)s.out_seq, "pool",
					    json_pool(&s.out_info), "counters",
					    json_counters(&s)), stdout);
	print_counters(&s);
	return 0;
}

/* ---- the backend --------------------------------------------------------- */

static int info_json(const struct ctl *c)
{
	const struct kvcache_query *q = &c->query;
	json_t *names = json_array();
	size_t i;

	for (i = 0; i < FEATURES; i++)
		if (q->out_features & features[i].bit)
			json_array_append_new(names,
					      json_string(features[i].name));
	return json_print(json_pack("{s:I, s:s, s:s, s:i, s:o, s:o}",
				    "seq", (json_int_t)q->out_seq,
				    "version", KVC_VERSION,
				    "backend", kvc_backend(c->kvc),
				    "abi_version", q->out_abi_version,
				    "features", names,
				    "pools", json_pools(q)), stdout);
}

int cmd_info(struct ctl *c)
{
	const struct kvcache_query *q = &c->query;
	const char *label = "features";
	size_t i;

	if (ctl_pools(c))
		return -1;
	if (c->value[OPT_JSON])
		return info_json(c);
	printf("backend   %s\nABI       %u (this program: %u)\n",
	       kvc_backend(c->kvc), q->out_abi_version, KVCACHE_ABI_VERSION);
	for (i = 0; i < FEATURES; i++) {
		if (!(q->out_features & features[i].bit))
			continue;
		printf("%-9s %-8s  %s\n", label, features[i].name,
		       features[i].help);
		label = "";
	}
	printf("\n");
	if (q->out_nr_pools)
		print_pools(q);
	else
		printf("There is no pool: kvcachectl pool create NAME --size SIZE makes one.\n");
	return 0;
}
