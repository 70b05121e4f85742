// SPDX-License-Identifier: MIT
/*
 * index.c - which page begins with given tokens after a given prefix.
 *
 * The backend finds pages by key, so at block boundaries. This index finds the
 * longest common beginning to the token: an array sorted by (parent, tokens),
 * where the best page is beside the place that the tokens would have. An entry
 * comes or goes by moving the array's tail, 8 bytes a page behind it: next to
 * nothing of what filling a page costs, but as much again for each page that
 * is found for the first time, which costs little else.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

uint32_t kvc_common(const uint32_t *a, const uint32_t *b, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && a[i] == b[i])
		i++;
	return i;
}

/* Where (parent, tokens) stands relative to a page: below 0 is before it. */
static int compare(const uint8_t *parent, const uint32_t *tokens, uint32_t n,
		   const struct kvc_page *p)
{
	int d = memcmp(parent, p->parent, KVCACHE_KEY_LEN);
	uint32_t i, m = KVC_MIN(n, p->fill);

	if (d)
		return d;
	i = kvc_common(tokens, p->tokens, m);
	if (i < m)
		return tokens[i] < p->tokens[i] ? -1 : 1;
	return n < p->fill ? -1 : n > p->fill;
}

/* The first entry that is not before (parent, tokens). */
static uint32_t lower_bound(const struct kvc_cache *c, const uint8_t *parent,
			    const uint32_t *tokens, uint32_t n)
{
	uint32_t lo = 0, hi = c->nindex;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (compare(parent, tokens, n, c->index[mid]) > 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

void kvc_index_add(struct kvc_cache *c, struct kvc_page *p,
		   const uint8_t parent[KVCACHE_KEY_LEN],
		   const struct kvcache_key *key, const uint32_t *tokens)
{
	struct kvc_page **index;
	uint32_t at;

	if (p->indexed)
		return;
	index = kvc_regrow(c->index, &c->index_cap, c->nindex + 1,
			   sizeof(*index));
	if (!index)
		return;
	c->index = index;
	p->tokens = malloc(key->fill * sizeof(*tokens));
	if (!p->tokens)
		return;
	memcpy(p->tokens, tokens, key->fill * sizeof(*tokens));
	memcpy(p->parent, parent, KVCACHE_KEY_LEN);
	memcpy(p->key, key->key, KVCACHE_KEY_LEN);
	p->fill = key->fill;
	p->indexed = true;
	at = lower_bound(c, parent, tokens, p->fill);
	memmove(index + at + 1, index + at,
		(c->nindex - at) * sizeof(*index));
	index[at] = p;
	c->nindex++;
}

void kvc_index_del(struct kvc_cache *c, struct kvc_page *p)
{
	uint32_t at;

	if (!p->indexed)
		return;
	/* Equal pages (published without deduplication) lie side by side. */
	at = lower_bound(c, p->parent, p->tokens, p->fill);
	while (c->index[at] != p)
		at++;
	c->nindex--;
	memmove(c->index + at, c->index + at + 1,
		(c->nindex - at) * sizeof(*c->index));
	free(p->tokens);
	p->tokens = NULL;
	p->indexed = false;
}

struct kvc_page *kvc_index_find(const struct kvc_cache *c,
				const uint8_t parent[KVCACHE_KEY_LEN],
				const uint32_t *tokens, uint32_t n,
				uint32_t *match)
{
	uint32_t at = lower_bound(c, parent, tokens, n), i, m;
	struct kvc_page *best = NULL;

	*match = 0;
	for (i = at ? at - 1 : 0; i <= at && i < c->nindex; i++) {
		struct kvc_page *p = c->index[i];

		if (memcmp(parent, p->parent, KVCACHE_KEY_LEN))
			continue;
		m = kvc_common(tokens, p->tokens, KVC_MIN(n, p->fill));
		if (m > *match) {
			*match = m;
			best = p;
		}
	}
	return best;
}
