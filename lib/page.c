// SPDX-License-Identifier: MIT
/*
 * page.c - the pages that this context holds, and those it remembers.
 *
 * Sequences that share a page share its object; the context keeps one of the
 * backend's references for all of them. A published page that nobody here
 * holds any more stays remembered (index.c) until its number turns up with
 * another handle, or a lookup says that it is gone.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct kvc_page *kvc_page_find(const struct kvc_cache *c, uint64_t handle)
{
	uint32_t i = kvc_page_number(handle);
	struct kvc_page *p = i < c->nslots ? c->slots[i] : NULL;

	return p && p->handle == handle ? p : NULL;
}

void kvc_page_drop(struct kvc_cache *c, struct kvc_page *p)
{
	uint32_t i = kvc_page_number(p->handle);

	kvc_index_del(c, p);
	c->nlost -= p->lost;
	if (i < c->nslots && c->slots[i] == p)
		c->slots[i] = NULL;
	free(p);
}

void kvc_page_forget(struct kvc_cache *c, struct kvc_page *p)
{
	if (p->refs)
		kvc_index_del(c, p);
	else
		kvc_page_drop(c, p);
}

void kvc_page_lose(struct kvc_cache *c, struct kvc_page *p)
{
	if (!p->refs) {
		kvc_page_drop(c, p);
		return;
	}
	kvc_index_del(c, p);
	c->nlost += !p->lost;
	p->lost = true;
}

int kvc_page_bind(struct kvc_cache *c, struct kvc_page *p)
{
	uint32_t i = kvc_page_number(p->handle), had = c->nslots;
	struct kvc_page **slots;

	if (i >= had) {
		slots = kvc_regrow(c->slots, &c->nslots, i + 1, sizeof(*slots));
		if (!slots)
			return -ENOMEM;
		memset(slots + had, 0, (c->nslots - had) * sizeof(*slots));
		c->slots = slots;
	}
	if (c->slots[i] && c->slots[i] != p)
		kvc_page_lose(c, c->slots[i]);
	c->slots[i] = p;
	return 0;
}

/* One call, page by page if it is refused: some may have been revoked. */
static void free_call(struct kvc_cache *c, struct kvcache_free *f)
{
	struct kvcache_free one = { .pool = f->pool, .nr = 1 };

	if (!f->nr || !kvc_call(c->ctx, KVCACHE_NR_FREE, f))
		return;
	for (uint32_t i = 0; i < f->nr; i++) {
		one.pages[0] = f->pages[i];
		kvc_call(c->ctx, KVCACHE_NR_FREE, &one);
	}
}

void kvc_handles_free(struct kvc_cache *c, const uint64_t *handles, uint32_t n)
{
	struct kvcache_free f = { .pool = c->o.pool };

	f.nr = n;
	memcpy(f.pages, handles, n * sizeof(*handles));
	free_call(c, &f);
}

void kvc_pages_put(struct kvc_cache *c, struct kvc_page *const *pages,
		   uint32_t n)
{
	struct kvcache_free f = { .pool = c->o.pool };
	struct kvc_page *p;
	uint32_t at, end, i;

	/* Leaf part first: what is put later is reclaimed later. */
	for (end = n; end; end = at) {
		at = end - KVC_MIN(end, (uint32_t)KVCACHE_MAX_PAGES);
		f.nr = 0;
		for (i = at; i < end; i++) {
			p = pages[i];
			if (!p || --p->refs)
				continue;
			if (!p->lost)
				f.pages[f.nr++] = p->handle;
			if (!p->shared || !p->indexed)
				kvc_page_drop(c, p);
		}
		free_call(c, &f);
	}
}

struct kvc_page *kvc_page_adopt(struct kvc_cache *c, uint64_t handle,
				bool *spare)
{
	struct kvc_page *p = kvc_page_find(c, handle);

	*spare = p && p->refs;
	if (p) {
		p->refs++;
		return p;
	}
	*spare = true;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->handle = handle;
	p->refs = 1;
	p->shared = true;
	if (kvc_page_bind(c, p)) {
		free(p);
		return NULL;
	}
	*spare = false;
	return p;
}

void kvc_page_copy(struct kvc_cache *c, uint32_t group, uint64_t dst,
		   uint64_t src, uint32_t n)
{
	char *to = c->rw + kvc_page_number(dst) * c->l.page_size;
	const void *from = kvc_page_ro(c, src);
	struct kva_view v;

	for (uint32_t i = 0; i < c->l.nlayers; i++) {
		if (c->l.layer_group[i] != group)
			continue;
		kvc_layout_view(&c->l, i, NULL, &v);
		kva_rows_copy(&v, to, from, n);
	}
}
