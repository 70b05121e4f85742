// SPDX-License-Identifier: MIT
/*
 * page.c - memory of pages: one memory file each, which no other page ever has.
 *
 * Whoever gets a file can keep it, so a page is taken away by truncating it: to
 * nothing, and it can neither grow nor be sealed against that. The page's next
 * owner gets another file, and what was in the old one is nowhere to be read.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/kernel.h>
#include <linux/list.h>

#include "server.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL	8U
#endif

#define STOCK_BATCH	16

/* ---- files --------------------------------------------------------------- */

static int memory_file(void)
{
	const unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create("kvcache", flags | MFD_NOEXEC_SEAL);

	/* Linux before 6.3. */
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("kvcache", flags);
	return fd < 0 ? -errno : fd;
}

static int close_failed(int fd)
{
	int err = -errno;

	close(fd);
	return err;
}

static int blank_file(u64 page_size)
{
	int fd = memory_file();

	if (fd >= 0 && ftruncate(fd, page_size))
		return close_failed(fd);
	return fd;
}

/* One to be written by its owner. */
static int page_file(u64 page_size)
{
	int fd = blank_file(page_size);

	if (fd >= 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL))
		return close_failed(fd);
	return fd;
}

int page_gone(void)
{
	int fd = memory_file();

	if (fd >= 0 && (fchmod(fd, 0) ||
			fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK |
			      F_SEAL_SEAL)))
		return close_failed(fd);
	return fd;
}

/* ---- which page has which ------------------------------------------------ */

struct mem *mem_get(struct mem *m)
{
	m->refs++;
	return m;
}

void mem_put(struct mem *m)
{
	if (m && !--m->refs)
		free(m);
}

static struct mem *mem_new(int fd)
{
	struct mem *m = calloc(1, sizeof(*m));

	if (m) {
		m->fd = fd;
		m->refs = 1;
	}
	return m;
}

struct mem *mem_blank(u64 page_size)
{
	int fd = blank_file(page_size);
	struct mem *m = fd < 0 ? NULL : mem_new(fd);

	if (!m && fd >= 0)
		close(fd);
	return m;
}

/*
 * Not F_SEAL_SHRINK: it has to be taken away some day. Nobody else has it yet,
 * but reclaim may look at its pages, which the kernel waits for, not for long.
 */
int mem_seal(struct mem *m)
{
	int tries = 4;

	m->published = true;
	if (fchmod(m->fd, 0400))
		return -errno;
	while (fcntl(m->fd, F_ADD_SEALS,
		     F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SEAL))
		if (errno != EBUSY || !--tries)
			return -errno;
	return 0;
}

static void mem_close(struct mem *m)
{
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}

void mem_discard(struct mem *m)
{
	if (!m)
		return;
	/* Who reads it has no other broker to ask; the memory goes with them. */
	if (m->fd >= 0 && !m->kept && ftruncate(m->fd, 0))
		abort();	/* somebody could seal it: never */
	mem_close(m);
	mem_put(m);
}

static struct pool *pool_get(struct broker *b, u32 pool)
{
	return pool < KVCACHE_MAX_POOLS ? b->pool[pool] : NULL;
}

struct mem *page_mem(struct broker *b, u32 pool, u64 handle)
{
	struct pool *p = pool_get(b, pool);
	u32 i = kvl_index(handle);
	struct mem *m;

	m = p && i <= p->nr_pages ? p->mem[i] : NULL;
	return m && m->handle == handle ? m : NULL;
}

static void give(struct pool *p, u64 handle, struct mem *m)
{
	m->handle = handle;
	p->mem[kvl_index(handle)] = m;
	p->nr_mem++;
}

static void take(struct pool *p, u32 i)
{
	if (!p->mem[i])
		return;
	mem_discard(p->mem[i]);
	p->mem[i] = NULL;
	p->nr_mem--;
}

void page_replace(struct broker *b, u32 pool, u64 handle, struct mem *m)
{
	struct pool *p = pool_get(b, pool);

	take(p, kvl_index(handle));
	give(p, handle, m);
}

int page_adopt(struct broker *b, u32 pool, u64 handle, int fd, bool kept)
{
	struct mem *m = mem_new(fd);

	if (!m) {
		close(fd);
		return -ENOMEM;
	}
	m->published = true;
	m->kept = kept;
	give(pool_get(b, pool), handle, m);
	return 0;
}

int pages_give(struct broker *b, u32 pool, const u64 *handles, u32 nr)
{
	struct pool *p = pool_get(b, pool);
	struct mem *m;
	u32 k;
	int fd;

	for (k = 0; k < nr; k++) {
		fd = p->nr_stock ? p->stock[--p->nr_stock] :
		     page_file(p->page_size);
		m = fd < 0 ? NULL : mem_new(fd);
		if (!m)
			break;
		give(p, handles[k], m);
	}
	if (k == nr)
		return 0;
	if (fd >= 0)
		close(fd);
	while (k--)
		take(p, kvl_index(handles[k]));
	return -ENOMEM;
}

void pages_let_go(struct broker *b)
{
	struct pool *p;
	u32 pool, i;

	for (pool = 0; pool < KVCACHE_MAX_POOLS; pool++) {
		p = b->pool[pool];
		for (i = 1; p && i <= p->nr_pages; i++)
			if (p->mem[i])
				mem_close(p->mem[i]);
	}
}

/* ---- what the commands ask for ------------------------------------------- */

static struct broker *broker_of(struct kvl_cmd *x)
{
	return container_of(x, struct open, cmd)->b;
}

void pool_free(struct broker *b, struct pool *p)
{
	u32 i;

	if (!p)
		return;
	for (i = 0; p->mem && i <= p->capacity; i++)
		take(p, i);
	while (p->nr_stock)
		close(p->stock[--p->nr_stock]);
	b->nr_pages -= p->nr_pages;
	free(p->mem);
	free(p);
}

static int memory_alloc(struct kvl_cmd *x, u64 page_size, u32 nr_pages,
			u32 capacity, void **memory)
{
	struct broker *b = broker_of(x);
	struct pool *p;

	if (b->nr_pages + nr_pages > b->max_pages)
		return -ENOMEM;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->mem = calloc(capacity + 1ULL, sizeof(struct mem *));
	if (!p->mem) {
		free(p);
		return -ENOMEM;
	}
	p->page_size = page_size;
	p->nr_pages = nr_pages;
	p->capacity = capacity;
	b->nr_pages += nr_pages;
	*memory = p;
	return 0;
}

static void memory_free(struct kvl_cmd *x, void *memory)
{
	pool_free(broker_of(x), memory);
}

static int memory_grow(struct kvl_cmd *x, u32 pool, u64 nr_pages)
{
	struct broker *b = broker_of(x);
	struct pool *p = pool_get(b, pool);

	if (!p)
		return -ENOENT;
	if (nr_pages <= p->nr_pages)
		return 0;
	if (nr_pages > p->capacity)
		return -E2BIG;
	if (b->nr_pages - p->nr_pages + nr_pages > b->max_pages)
		return -ENOMEM;
	b->nr_pages += nr_pages - p->nr_pages;
	p->nr_pages = nr_pages;
	return 0;
}

static void memory_shrink(struct kvl_cmd *x, u32 pool, u64 nr_pages)
{
	struct broker *b = broker_of(x);
	struct pool *p = pool_get(b, pool);

	if (!p || nr_pages >= p->nr_pages)
		return;
	b->nr_pages -= p->nr_pages - nr_pages;
	p->nr_pages = nr_pages;
	while (p->nr_stock && p->nr_stock + p->nr_mem > p->nr_pages)
		close(p->stock[--p->nr_stock]);
}

static void *memory_set(struct kvl_cmd *x, u32 pool, void *memory)
{
	struct broker *b = broker_of(x);
	void *old = b->pool[pool];

	b->pool[pool] = memory;
	return old;
}

static void who(struct kvl_cmd *x, struct kvcache_client_info *info)
{
	const struct client *c = kvl_client_owner(x->ledger, info->id);

	if (!c)
		return;
	info->pid = c->owner;
	memcpy(info->comm, c->comm, sizeof(info->comm));
}

static int auto_tenant(struct kvl_cmd *x, const struct kvl_cmd_frame *f)
{
	struct client *c = container_of(x, struct client, open.cmd);
	int tenant = peer_cgroup_tenant(c);

	return tenant < 0 ? kvl_tenant_by_uid(x->ledger, f->uid) : tenant;
}

const struct kvl_cmd_ops broker_cmd_ops = {
	.memory_alloc = memory_alloc,
	.memory_free = memory_free,
	.memory_grow = memory_grow,
	.memory_shrink = memory_shrink,
	.memory_set = memory_set,
	.who = who,
	.tenant = auto_tenant,
};

/* ---- pages that come and go ---------------------------------------------- */

/* Truncating takes time, a huge page's as long as a thousand commands. */
bool pages_work(struct broker *b)
{
	u64 until = b->now + SLICE_NS;
	u32 pool, i;

	for (pool = 0; pool < KVCACHE_MAX_POOLS; pool++) {
		while (b->pool[pool] && (i = kvl_work_next(b->ledger, pool))) {
			take(b->pool[pool], i);
			kvl_work_done(b->ledger, pool, i, true, b->now);
			wait_decided(b);
			if (clock_ns() >= until)
				return true;
		}
	}
	return false;
}

bool pages_stock(struct broker *b)
{
	struct kvcache_pool_info info;
	u32 pool, k, want;
	bool more = false;
	struct pool *p;
	int fd;

	for (pool = 0; pool < KVCACHE_MAX_POOLS; pool++) {
		p = b->pool[pool];
		if (!p || kvl_pool_info(b->ledger, pool, &info))
			continue;
		want = min_t(u64, info.nr_free, MAX_STOCK);
		for (k = 0; p->nr_stock < want && k < STOCK_BATCH; k++) {
			fd = page_file(p->page_size);
			if (fd < 0)
				return false;
			p->stock[p->nr_stock++] = fd;
		}
		more |= p->nr_stock < want;
	}
	return more;
}

/* A page that left its owner may have its file for a while. */
static bool is_right(struct broker *b, const struct kvcache_page_info *info,
		     u32 pool)
{
	return info->state == KVCACHE_PAGE_RETIRING ||
	       page_mem(b, pool, info->handle);
}

int pages_verify(struct broker *b, char *why, size_t len)
{
	struct kvcache_page_info info;
	u32 pool, next, nr;
	struct pool *p;

	for (pool = 0; pool < KVCACHE_MAX_POOLS; pool++) {
		p = b->pool[pool];
		for (next = 1, nr = 0; p; next = kvl_index(info.handle) + 1) {
			if (kvl_page_info(b->ledger, pool, 0, next, b->now,
					  &info))
				break;
			nr += p->mem[kvl_index(info.handle)] != NULL;
			if (is_right(b, &info, pool))
				continue;
			snprintf(why, len, "page %#llx of pool %u has no file",
				 (unsigned long long)info.handle, pool);
			return -EUCLEAN;
		}
		if (p && nr != p->nr_mem) {
			snprintf(why, len, "pool %u: %u files for %u pages",
				 pool, p->nr_mem, nr);
			return -EUCLEAN;
		}
	}
	return 0;
}
