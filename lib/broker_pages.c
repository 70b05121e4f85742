// SPDX-License-Identifier: MIT
/*
 * broker_pages.c - pages of a broker come as descriptors, one memory file each,
 * and are mapped into a window that is reserved for all the pages of a pool:
 * pages come and go, addresses stay.
 *
 * Each is a mapping, and the kernel bounds how many a process has
 * (vm.max_map_count). What was published cannot be undone, so its page must be
 * mapped: a few mappings without use are kept, to be given up then.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker_pages.h"

#define HUGE_PAGE	(2UL << 20)
/* A page in the middle of a reservation makes two mappings more. */
#define BALLAST		(2 * KVCACHE_MAX_PUBLISH)

static struct kvc_bslot *slot_of(const struct kvc_bpages *b, uint32_t pool,
				 uint64_t handle)
{
	uint32_t i = handle;

	if (pool >= KVCACHE_MAX_POOLS || !i || i >= b->w[pool].nr)
		return NULL;
	return &b->w[pool].slot[i];
}

static void drop_ballast(struct kvc_bpages *b)
{
	if (b->ballast)
		munmap(b->ballast, BALLAST * sysconf(_SC_PAGESIZE));
	b->ballast = NULL;
}

/* As many mappings as pages: neighbours differ. Where it fails, later. */
static void take_ballast(struct kvc_bpages *b)
{
	size_t os_page = sysconf(_SC_PAGESIZE);

	if (b->ballast)
		return;
	b->ballast = mmap(NULL, BALLAST * os_page, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (b->ballast == MAP_FAILED)
		b->ballast = NULL;
	for (size_t i = 0; b->ballast && i < BALLAST; i += 2)
		if (mprotect(b->ballast + i * os_page, os_page, PROT_READ))
			drop_ballast(b);
}

/* ---- windows ------------------------------------------------------------ */

void kvc_bpages_unreserve(struct kvc_bpages *b, uint32_t pool)
{
	struct kvc_bwindow *w = &b->w[pool];

	if (w->base)
		munmap(w->base, w->bytes);
	free(w->slot);
	*w = (struct kvc_bwindow){ 0 };
}

/* Begins where huge pages can, so that the kernel may map them. */
static char *reserve(size_t bytes)
{
	size_t lead;
	char *at;

	at = mmap(NULL, bytes + HUGE_PAGE, PROT_NONE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	lead = -(uintptr_t)at & (HUGE_PAGE - 1);
	if (lead)
		munmap(at, lead);
	munmap(at + lead + bytes, HUGE_PAGE - lead);
	return at + lead;
}

int kvc_bpages_reserve(struct kvc_bpages *b, const struct kvcache_pool_info *p)
{
	struct kvc_bwindow w = {
		.page_size = p->page_size,
		.nr = p->capacity + 1,
	}, *old;

	if (p->id >= KVCACHE_MAX_POOLS || p->capacity == UINT32_MAX)
		return -ENOMEM;
	old = &b->w[p->id];
	if (old->base && old->page_size == w.page_size && old->nr == w.nr)
		return 0;
	if (__builtin_mul_overflow(w.nr, w.page_size, &w.bytes) ||
	    w.bytes > SIZE_MAX / 2)
		return -ENOMEM;
	w.slot = calloc(w.nr, sizeof(*w.slot));
	if (!w.slot)
		return -ENOMEM;
	w.base = reserve(w.bytes);
	/* The null page: memory that nobody has written reads as zeros. */
	if (!w.base || mprotect(w.base, w.page_size, PROT_READ)) {
		if (w.base)
			munmap(w.base, w.bytes);
		free(w.slot);
		return -ENOMEM;
	}
	kvc_bpages_unreserve(b, p->id);
	*old = w;
	take_ballast(b);
	return 0;
}

void kvc_bpages_close(struct kvc_bpages *b, bool ours)
{
	/* A child has no pages there; it may have put something else there. */
	for (uint32_t pool = 0; pool < KVCACHE_MAX_POOLS; pool++) {
		if (!ours)
			b->w[pool].base = NULL;
		kvc_bpages_unreserve(b, pool);
	}
	drop_ballast(b);
}

/* ---- pages -------------------------------------------------------------- */

static bool reserve_again(char *at, size_t bytes)
{
	return mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
		    MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

/*
 * Nothing can be read there any more. There may be one mapping too many already
 * for what makes them fewer.
 */
static void unmap(struct kvc_bpages *b, uint32_t pool, struct kvc_bslot *s)
{
	struct kvc_bwindow *w = &b->w[pool];
	char *at = w->base + (s - w->slot) * w->page_size;

	if (!reserve_again(at, w->page_size)) {
		drop_ballast(b);
		reserve_again(at, w->page_size);
	}
	s->mapped = false;
	take_ballast(b);
}

static int map_at(char *at, size_t bytes, int prot, int fd)
{
	if (mmap(at, bytes, prot, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		return -errno;
	/* Where memfds can have huge pages if asked (shmem_enabled=advise). */
	madvise(at, bytes, MADV_HUGEPAGE);
	/* A child is no client. */
	return madvise(at, bytes, MADV_DONTFORK) ? -errno : 0;
}

int kvc_bpages_map(struct kvc_bpages *b, const struct kvcb_page *p, int fd,
		   bool must)
{
	struct kvc_bslot *s = slot_of(b, p->pool, p->handle);
	int prot = PROT_READ, err;
	struct kvc_bwindow *w;
	struct stat st;
	char *at;

	if (!s)
		return -ESTALE;
	w = &b->w[p->pool];
	/* Nothing is left of a page that was taken meanwhile. */
	if (fstat(fd, &st))
		return -errno;
	if (st.st_size && st.st_size != w->page_size)
		return -ESTALE;
	if (p->flags & KVCB_PAGE_WRITE)
		prot |= PROT_WRITE;
	if (s->handle != p->handle)
		*s = (struct kvc_bslot){ .handle = p->handle };
	at = w->base + (s - w->slot) * w->page_size;
	err = map_at(at, w->page_size, prot, fd);
	if (err == -ENOMEM && must && b->ballast) {
		drop_ballast(b);
		err = map_at(at, w->page_size, prot, fd);
	}
	s->mapped = !err;
	/* It may have left a hole, where others' mappings could come to lie. */
	if (err)
		unmap(b, p->pool, s);
	return err;
}

void kvc_bpages_missed(struct kvc_bpages *b, uint32_t pool, uint64_t handle)
{
	struct kvc_bslot *s = slot_of(b, pool, handle);

	if (s && s->handle == handle && s->mapped)
		unmap(b, pool, s);
}

bool kvc_bpages_mapped(const struct kvc_bpages *b, uint32_t pool,
		       uint64_t handle)
{
	const struct kvc_bslot *s = slot_of(b, pool, handle);

	return s && s->handle == handle && s->mapped;
}

void kvc_bpages_get(struct kvc_bpages *b, uint32_t pool, uint64_t handle)
{
	struct kvc_bslot *s = slot_of(b, pool, handle);

	if (!s)
		return;
	if (s->handle != handle) {
		if (s->mapped)
			unmap(b, pool, s);
		*s = (struct kvc_bslot){ .handle = handle };
	}
	s->refs++;
}

void kvc_bpages_drop(struct kvc_bpages *b, uint32_t pool, uint64_t handle)
{
	struct kvc_bslot *s = slot_of(b, pool, handle);

	/* Its number may be another page's by now. */
	if (!s || s->handle != handle)
		return;
	if (s->mapped)
		unmap(b, pool, s);
	*s = (struct kvc_bslot){ 0 };
}

void kvc_bpages_put(struct kvc_bpages *b, uint32_t pool, uint64_t handle)
{
	struct kvc_bslot *s = slot_of(b, pool, handle);

	if (s && s->handle == handle && (!s->refs || !--s->refs))
		kvc_bpages_drop(b, pool, handle);
}
