// SPDX-License-Identifier: MIT
/*
 * publish.c - KVCACHE_PUBLISH: from files that one client can write to files
 * that nobody can.
 *
 * Whoever has a file open for writing, or mapped, keeps it so. What is published
 * is therefore a copy, made before the ledger decides and sealed before anybody
 * else can have it. It is made by read(2) and write(2): what the owner truncates
 * meanwhile reads as nothing, and is zeros in the copy.
 *
 * Copies are made one publication at a time, in slices; clients take turns.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/kernel.h>
#include <linux/list.h>

#include "server.h"

#define CHUNK	(256U << 10)

/**
 * struct publication - copies for one KVCACHE_PUBLISH
 * @nr: pages
 * @k: the page that is being copied
 * @at: how far it is
 * @page_size: bytes of each
 * @from: the pages' files
 * @to: their copies
 */
struct publication {
	u32 nr;
	u32 k;
	u64 at;
	u64 page_size;
	struct mem *from[KVCACHE_MAX_PUBLISH];
	struct mem *to[KVCACHE_MAX_PUBLISH];
};

static void publication_free(struct publication *x)
{
	u32 k;

	if (!x)
		return;
	for (k = 0; k < KVCACHE_MAX_PUBLISH; k++) {
		mem_discard(x->to[k]);
		mem_put(x->from[k]);
	}
	free(x);
}

/* The file of a page that the client may publish, or NULL. */
static struct mem *source(const struct request *r, u32 k)
{
	const struct kvcache_publish *a = &r->f->arg.publish;
	const struct open *o = &r->c->open;
	u64 handle = a->pages[k].handle;

	if (!o->cmd.client ||
	    kvl_page_access(o->cmd.ledger, o->cmd.client, a->pool,
			    kvl_index(handle), true))
		return NULL;
	return page_mem(o->b, a->pool, handle);
}

/* Are these the pages that were copied? If not, the ledger refuses. */
static bool as_copied(const struct request *r)
{
	const struct publication *x = r->pub;
	u32 k;

	for (k = 0; k < x->nr; k++)
		if (!x->from[k] || source(r, k) != x->from[k])
			return false;
	return x->nr && x->nr == r->f->arg.publish.nr;
}

/* ---- deciding ------------------------------------------------------------ */

/* Pages that were published have their copies from now on. */
static void exchange(struct request *r)
{
	struct kvcache_publish *a = &r->f->arg.publish;
	struct publication *x = r->pub;
	u32 k;

	for (k = 0; k < a->nr; k++) {
		if (a->pages[k].out_result != KVCACHE_PUBLISHED)
			continue;
		page_replace(r->c->open.b, a->pool, a->pages[k].handle,
			     x->to[k]);
		x->to[k] = NULL;
	}
}

static void decide(struct request *r)
{
	bool right = as_copied(r);
	int rc = request_run(r);

	if (!rc) {
		/* It has refused pages that are not the caller's to publish. */
		assert(right);
		exchange(r);
	}
	publication_free(r->pub);
	r->pub = NULL;
	request_end(r, rc);
}

/* ---- copying ------------------------------------------------------------- */

/* As much as there is. */
static u32 read_chunk(const struct mem *m, char *buf, u32 len, u64 at)
{
	u32 got = 0;
	ssize_t n;

	while (m->fd >= 0 && got < len) {
		n = pread(m->fd, buf + got, len - got, at + got);
		if (n <= 0)
			break;
		got += n;
	}
	return got;
}

static int copy_chunk(struct publication *x)
{
	static char buf[CHUNK];
	u32 len = min_t(u64, CHUNK, x->page_size - x->at), done, got;
	struct mem *to = x->to[x->k];
	ssize_t n;

	if (!to)
		to = x->to[x->k] = mem_blank(x->page_size);
	if (!to)
		return -ENOMEM;
	got = read_chunk(x->from[x->k], buf, len, x->at);
	for (done = 0; done < got; done += n) {
		n = pwrite(to->fd, buf + done, got - done, x->at + done);
		if (n <= 0)
			return -ENOMEM;
	}
	x->at += len;
	if (x->at < x->page_size)
		return 0;
	if (mem_seal(to))
		return -ENOMEM;
	x->k++;
	x->at = 0;
	return 0;
}

static void fail(struct request *r, int rc)
{
	publication_free(r->pub);
	r->pub = NULL;
	request_end(r, rc);
}

/* One is over, or goes on in the next slice: 0 or -EAGAIN. */
static int work_on(struct request *r, u64 until)
{
	struct publication *x = r->pub;
	int err = r->c->dead ? -EOWNERDEAD : 0;

	while (!err && x->k < x->nr) {
		err = copy_chunk(x);
		if (!err && x->k < x->nr && clock_ns() >= until)
			return -EAGAIN;
	}
	list_del_init(&r->link);
	if (err)
		fail(r, err);
	else
		decide(r);
	return 0;
}

bool publish_step(struct broker *b)
{
	u64 until = b->now + SLICE_NS;
	struct client *c;

	while (listed(&b->jobs)) {
		c = list_first_entry(&b->jobs, struct client, job);
		if (work_on(list_first_entry(&c->publishing, struct request,
					     link), until))
			return true;
		list_del_init(&c->job);
		if (listed(&c->publishing))
			list_add_tail(&c->job, &b->jobs);
		if (clock_ns() >= until)
			break;
	}
	return listed(&b->jobs);
}

/* From kvl_cmd_begin() on. */
void publish_begin(struct request *r)
{
	const struct kvcache_publish *a = &r->f->arg.publish;
	struct client *c = r->c;
	struct broker *b = c->open.b;
	struct publication *x = calloc(1, sizeof(*x));
	u32 k;

	if (!x) {
		request_end(r, -ENOMEM);
		return;
	}
	r->pub = x;
	x->nr = min_t(u32, a->nr, KVCACHE_MAX_PUBLISH);
	for (k = 0; k < x->nr; k++) {
		x->from[k] = source(r, k);
		if (x->from[k])
			mem_get(x->from[k]);
	}
	if (!as_copied(r)) {
		decide(r);
		return;
	}
	x->page_size = b->pool[a->pool]->page_size;
	list_add_tail(&r->link, &c->publishing);
	if (!listed(&c->job))
		list_add_tail(&c->job, &b->jobs);
}
