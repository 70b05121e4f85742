// SPDX-License-Identifier: MIT
/*
 * text.c - what is in a file: one value, or a line for each pool, in the form
 * that the module's files in sysfs have (Documentation/ABI/sysfs-class-kvcache).
 *
 * A reply of the backend is of one moment. What needs several is read again
 * until all are of the same one; while a busy ledger does not let that be, each
 * line still is of one.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fs.h"
#include "look.h"
#include "metrics.h"
#include "page_state.h"
#include "records.h"
#include "util.h"

#define TRIES 16

/* A file in the making. */
struct text {
	struct fs *fs;
	const struct fs_node *node;
	const char *name;
	FILE *f;
};

static void put_bytes(struct text *t, const struct kvcache_pool_info *p,
		      uint64_t pages)
{
	if (pages > UINT64_MAX / p->page_size)
		fprintf(t->f, "%s max\n", p->name);
	else
		fprintf(t->f, "%s %" PRIu64 "\n", p->name,
			(uint64_t)(pages * p->page_size));
}

static bool one_moment(const uint64_t *seq, uint32_t nr)
{
	uint32_t i;

	for (i = 1; i < nr; i++)
		if (seq[i] != seq[0])
			return false;
	return true;
}

/* ---- pools ------------------------------------------------------------ */

static int pool_text(struct text *t)
{
	const struct kvcache_pool_info *p = fs_pool(t->fs, t->node->id);
	const struct {
		const char *name;
		uint64_t value;
	} files[] = {
		{ "page_size", p->page_size },
		{ "size", p->nr_pages * p->page_size },
		{ "free", p->nr_free * p->page_size },
		{ "private", p->nr_private * p->page_size },
		{ "shared", p->nr_shared * p->page_size },
		{ "cached", p->nr_cached * p->page_size },
		{ "retiring", p->nr_retiring * p->page_size },
		{ "waiters", p->waiters },
		{ "draining", p->draining },
	};
	size_t i;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (!strcmp(files[i].name, t->name))
			fprintf(t->f, "%" PRIu64 "\n", files[i].value);
	return 0;
}

/* ---- tenants ---------------------------------------------------------- */

/* As parse_time() reads it, to the nanosecond. */
static void put_time(FILE *f, uint64_t ns)
{
	if (ns == KVCACHE_TIME_NEVER)
		fputs("never\n", f);
	else if (ns % 1000000000 == 0)
		fprintf(f, "%" PRIu64 "s\n", ns / 1000000000);
	else if (ns % 1000000 == 0)
		fprintf(f, "%" PRIu64 "ms\n", ns / 1000000);
	else
		fprintf(f, "%" PRIu64 ".%06" PRIu64 "ms\n", ns / 1000000,
			ns % 1000000);
}

static void tenant_line(struct text *t, const struct kvcache_pool_info *p,
			const struct kvcache_tenant_info *v)
{
	const struct {
		const char *name;
		uint64_t pages;
	} files[] = {
		{ "current", v->cur }, { "peak", v->peak }, { "min", v->min },
		{ "low", v->low }, { "max", v->max },
	};
	size_t i;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (!strcmp(files[i].name, t->name))
			put_bytes(t, p, files[i].pages);
	if (!strcmp(t->name, "events"))
		fprintf(t->f, "%s max=%" PRIu64 " reclaim=%" PRIu64
			" revoke=%" PRIu64 "\n", p->name, (uint64_t)v->ev_max,
			(uint64_t)v->ev_reclaim, (uint64_t)v->ev_revoke);
}

/* What is the same in each pool. */
static bool tenant_once(struct text *t, const struct kvcache_tenant_info *v)
{
	if (!strcmp(t->name, "ttl"))
		put_time(t->f, v->ttl_ns);
	else if (!strcmp(t->name, "owner"))
		fprintf(t->f, "%u:%u %04o\n", v->uid, v->gid, v->mode);
	else
		return false;
	return true;
}

static int tenant_text(struct text *t)
{
	struct kvcache_tenant_info v[KVCACHE_MAX_POOLS];
	const struct kvcache_query *q = &t->fs->query;
	uint64_t seq[KVCACHE_MAX_POOLS];
	uint32_t i, nr = q->out_nr_pools;
	int err, tries = 0;

	do {
		for (i = 0; i < nr; i++) {
			err = node_tenant_info(t->fs, t->node,
					       q->out_pools[i].id, &v[i],
					       &seq[i]);
			if (err)
				return err;
		}
	} while (!one_moment(seq, nr) && ++tries < TRIES);
	if (nr && tenant_once(t, &v[0]))
		return 0;
	for (i = 0; i < nr; i++)
		tenant_line(t, &q->out_pools[i], &v[i]);
	return 0;
}

/* ---- what a tenant granted -------------------------------------------- */

static int ask_grants(void *arg, unsigned int nr, void *cmd)
{
	return fs_call(arg, nr, cmd);
}

/* Who may see the grant may not be one to see the tenant that got it. */
static void put_tenant(struct text *t, uint32_t id)
{
	const struct kvcache_query *q = &t->fs->query;
	struct kvcache_tenant_info v;

	if (q->out_nr_pools &&
	    !fs_tenant(t->fs, q->out_pools[0].id, id, &v, NULL) &&
	    who_may_look(t->fs, &v))
		fprintf(t->f, "%s", v.name);
	else
		fprintf(t->f, "#%u", id);
}

static void grant_line(struct text *t, const struct kvcache_grant_info *g)
{
	put_tenant(t, g->to);
	fprintf(t->f, " %s ", rights_name(g->rights));
	if (g->max_held == KVCACHE_LIMIT_MAX)
		fputs("max", t->f);
	else
		fprintf(t->f, "%" PRIu64, (uint64_t)g->max_held);
	fprintf(t->f, " %" PRIu64 "\n", (uint64_t)g->held);
}

static int grants_text(struct text *t)
{
	const struct kvcache_grant_info *g;
	struct records l;
	int err, tries = 0;
	size_t i;

	do {
		err = records_read(ask_grants, t->fs, KVCACHE_NR_GRANT_GET, 0,
				   &l);
		if (!err && (l.seq == l.last || ++tries == TRIES))
			break;
		free(l.v);
		if (err)
			return err == -EPROTO ? -EIO : err;
	} while (true);
	for (g = l.v, i = 0; i < l.n; i++)
		if (g[i].from == t->node->id)
			grant_line(t, &g[i]);
	free(l.v);
	return 0;
}

/* ---- a tenant's pages ------------------------------------------------- */

static void page_line(struct text *t, const struct kvcache_pool_info *p,
		      const struct kvcache_page_info *v)
{
	fprintf(t->f, "%s %u handle=0x%" PRIx64 " state=%s client=%u refs=%u fill=%u keys=%u priority=%u idle_ns=%" PRIu64 "%s%s%s\n",
		p->name, (uint32_t)v->handle, (uint64_t)v->handle,
		state_name(v->state), v->client,
		v->refs, v->fill, v->nr_keys, v->priority,
		(uint64_t)v->idle_ns,
		v->flags & KVCACHE_PAGE_VOLATILE ? " volatile" : "",
		v->flags & KVCACHE_PAGE_EXPORTED ? " exported" : "",
		v->flags & KVCACHE_PAGE_PINNED ? " pinned" : "");
}

/* Replies until the end, each with its moment where that is another one. */
static int pages_of(struct text *t, const struct kvcache_pool_info *p,
		    uint64_t *seq, bool *any)
{
	struct kvcache_page_get r = { .pool = p->id };
	uint32_t i;
	int err;

	do {
		err = fs_call(t->fs, KVCACHE_NR_PAGE_GET, &r);
		if (err)
			return err;
		if (!*any || r.out_seq != *seq)
			fprintf(t->f, "# seq %" PRIu64 "\n",
				(uint64_t)r.out_seq);
		*seq = r.out_seq;
		*any = true;
		for (i = 0; i < r.out_nr; i++)
			if (r.out_info[i].tenant == t->node->id)
				page_line(t, p, &r.out_info[i]);
		/* One that does not go on would never end. */
		if (r.out_next && r.out_next <= r.start)
			return -EIO;
		r.start = r.out_next;
	} while (r.start);
	return 0;
}

static int pages_text(struct text *t)
{
	const struct kvcache_query *q = &t->fs->query;
	bool any = false;
	uint64_t seq = 0;
	uint32_t i;
	int err;

	err = node_stat(t->fs, t->node, NULL);
	for (i = 0; !err && i < q->out_nr_pools; i++)
		err = pages_of(t, &q->out_pools[i], &seq, &any);
	return err;
}

/* ---- clients ---------------------------------------------------------- */

static void client_line(struct text *t, const struct kvcache_pool_info *p,
			const struct kvcache_client_info *v)
{
	if (!strcmp(t->name, "waiting"))
		put_bytes(t, p, v->waiting);
	else if (!strcmp(t->name, "pages"))
		fprintf(t->f, "%s private=%" PRIu64 " shared=%" PRIu64 "\n",
			p->name, (uint64_t)v->nr_private,
			(uint64_t)v->nr_shared);
}

static int client_once(struct text *t, const struct kvcache_client_info *v)
{
	struct kvcache_tenant_info tenant;
	int err;

	if (!strcmp(t->name, "pid")) {
		fprintf(t->f, "%u\n", v->pid);
	} else if (!strcmp(t->name, "comm")) {
		put_shown(v->comm, t->f);
		fputc('\n', t->f);
	} else {
		err = fs_tenant(t->fs, t->fs->query.out_pools[0].id, v->tenant,
				&tenant, NULL);
		if (err)
			return err;
		fprintf(t->f, "%s\n", tenant.name);
	}
	return 0;
}

static int client_text(struct text *t)
{
	struct kvcache_client_info v[KVCACHE_MAX_POOLS];
	const struct kvcache_query *q = &t->fs->query;
	uint64_t seq[KVCACHE_MAX_POOLS];
	uint32_t i, nr = q->out_nr_pools;
	int err, tries = 0;

	do {
		for (i = 0; i < nr; i++) {
			err = node_client_info(t->fs, t->node,
					       q->out_pools[i].id, &v[i],
					       &seq[i]);
			if (err)
				return err;
		}
	} while (!one_moment(seq, nr) && ++tries < TRIES);
	if (strcmp(t->name, "pages") && strcmp(t->name, "waiting"))
		return nr ? client_once(t, &v[0]) : -ENOENT;
	for (i = 0; i < nr; i++)
		client_line(t, &q->out_pools[i], &v[i]);
	return 0;
}

/* ---- metrics ---------------------------------------------------------- */

/* A user who is a member of nothing sees no tenants, at this moment. */
static int ask(void *arg, unsigned int nr, void *cmd)
{
	struct fs *fs = arg;
	int err = fs_call(fs, nr, cmd);

	if (!err && nr == KVCACHE_NR_QUERY)
		fs->query = *(struct kvcache_query *)cmd;
	if (err != -ENOENT || !fs->blind || nr != KVCACHE_NR_TENANT_GET)
		return err;
	((struct kvcache_tenant_get *)cmd)->out_seq = fs->query.out_seq;
	return 0;
}

static int metrics_text(struct fs *fs, char **text, size_t *len)
{
	struct metrics_opts o = { .format = METRICS_OPENMETRICS };
	struct buffer b = { 0 };
	static struct look l;
	int err = look_read(ask, fs, METRICS_LOOK, METRICS_TRIES, &l);

	if (err)
		return err == -EPROTO ? -EIO : err;
	if (!look_is_one(&l))
		fs->inconsistent++;
	o.inconsistent = fs->inconsistent;
	err = metrics_write(&l, &o, &b);
	look_free(&l);
	if (err) {
		free(b.s);
		return err;
	}
	*text = b.s;
	*len = fs->metrics_len = b.len;
	return 0;
}

/* ---- all -------------------------------------------------------------- */

static int fill(struct text *t)
{
	int err = node_stat(t->fs, t->node, NULL);

	if (err)
		return err;
	switch (t->node->kind) {
	case FS_POOL:
		return pool_text(t);
	case FS_TENANT:
		return !strcmp(t->name, "pages") ? pages_text(t) :
		       !strcmp(t->name, "grants") ? grants_text(t) :
						    tenant_text(t);
	case FS_CLIENT:
		return client_text(t);
	default:
		return -EISDIR;
	}
}

int text_make(struct fs *fs, const struct fs_node *n, char **text, size_t *len)
{
	struct text t = { .fs = fs, .node = n };
	int err;

	*text = NULL;
	if (!n->file)
		return -EISDIR;
	if (n->kind == FS_ROOT)
		return metrics_text(fs, text, len);
	t.name = node_file(n->kind, n->file - 1);
	t.f = open_memstream(text, len);
	if (!t.f)
		return -ENOMEM;
	err = fill(&t);
	if (fclose(t.f) && !err)
		err = -ENOMEM;
	if (err) {
		free(*text);
		*text = NULL;
	}
	return err;
}
