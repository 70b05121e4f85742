// SPDX-License-Identifier: MIT
/*
 * prefix.c - what is cached of a prompt.
 *
 * Whole pages are found by the keys at their ends, 256 a call. Where they end,
 * one more page may begin with what comes next: a published one, found by its
 * block keys or by this context's index of tokens, or one that a sequence of
 * this context is still writing. Any length up to that is a hit, since rows
 * can be copied one by one; so what all groups can serve is the least of
 * theirs.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* One group's search. */
struct search {
	struct kvc_cache *c;
	const struct kvc_lgroup *g;
	uint32_t group;
	const uint8_t *root;
	const uint32_t *tokens;
	uint32_t max;
	bool peek;
	struct kvc_match *m;
};

static int lookup(const struct search *s, struct kvcache_lookup *lk)
{
	int rc;

	lk->pool = s->c->o.pool;
	lk->flags = s->peek ? KVCACHE_LOOKUP_PEEK : 0;
	rc = kvc_call(s->c->ctx, KVCACHE_NR_LOOKUP, lk);
	if (rc != -EDQUOT)
		return rc;
	/* What a grant does not let us hold is as good as not there. */
	lk->out_nr_pages = 0;
	return 0;
}

static void drop(const struct search *s, uint64_t handle)
{
	if (handle && !s->peek)
		kvc_handles_free(s->c, &handle, 1);
}

static const uint8_t *parent_of(const struct search *s, uint32_t page)
{
	return page ? s->m->ends[page - 1] : s->root;
}

static void compute_ends(const struct search *s, uint32_t n)
{
	struct kvcache_key keys[KVCACHE_MAX_PAGE_KEYS];
	size_t P = s->g->page_tokens;
	uint32_t i, k;

	for (i = s->m->nkeys; i < n; i++) {
		k = kvc_key_page(s->g, parent_of(s, i), s->tokens + i * P, P,
				 keys);
		memcpy(s->m->ends[i], keys[k - 1].key, KVCACHE_KEY_LEN);
		s->m->nkeys = i + 1;
	}
}

/* A full page that could not be published serves its own context. */
static struct kvc_page *private_page(const struct search *s, uint32_t page)
{
	uint32_t P = s->g->page_tokens, match;
	struct kvc_page *p;

	p = kvc_index_find(s->c, parent_of(s, page),
			   s->tokens + (size_t)page * P, P, &match);
	return p && match == P && !p->shared ? p : NULL;
}

static int match_whole(const struct search *s)
{
	uint32_t npages = s->max / s->g->page_tokens, i;
	struct kvcache_lookup lk = { .keys_per_page = 1 };
	struct kvc_match *m = s->m;
	struct kvc_page *p;
	int rc;

	while (m->n < npages) {
		lk.nr_keys = KVC_MIN(npages - m->n, (uint32_t)KVCACHE_MAX_KEYS);
		compute_ends(s, m->n + lk.nr_keys);
		memcpy(lk.keys, m->ends[m->n], lk.nr_keys * KVCACHE_KEY_LEN);
		rc = lookup(s, &lk);
		if (rc)
			return rc;
		for (i = 0; i < lk.out_nr_pages; i++)
			m->hits[m->n++] = (struct kvc_hit) {
				.handle = lk.out_found[i].handle,
			};
		if (lk.out_nr_pages == lk.nr_keys)
			continue;
		p = private_page(s, m->n);
		if (!p)
			break;
		m->hits[m->n++] = (struct kvc_hit) {
			.page = p,
			.handle = p->handle,
		};
	}
	return 0;
}

/* The committed rows of a page that some sequence is still filling. */
static struct kvc_page *live_tail(const struct search *s,
				  const uint8_t *parent,
				  const uint32_t *tokens, uint32_t n,
				  uint32_t *match)
{
	uint32_t P = s->g->page_tokens, at, rest, k;
	struct kvc_page *best = NULL, *p;
	const struct kvc_chain *ch;
	const struct kvc_seq *q;

	*match = 0;
	for (q = s->c->live; q; q = q->next) {
		at = q->len / P;
		rest = q->len % P;
		if (!rest || q->no_reuse)
			continue;
		ch = &q->chain[s->group];
		p = ch->pages[at];
		if (p->shared || memcmp(kvc_chain_parent(ch, at), parent,
					KVCACHE_KEY_LEN))
			continue;
		k = kvc_common(tokens, q->tokens + (size_t)at * P,
			       KVC_MIN(n, rest));
		if (k > *match) {
			*match = k;
			best = p;
		}
	}
	return best;
}

/*
 * The best page that this context knows of. A published one must still be
 * found by the backend, which gives the reference on it.
 */
static int match_known(const struct search *s, const uint8_t *parent,
		       const uint32_t *tokens, uint32_t n, struct kvc_hit *hit,
		       uint32_t *match)
{
	struct kvcache_lookup lk = { .nr_keys = 1, .keys_per_page = 1 };
	struct kvc_page *tail, *p;
	uint32_t fill;
	int rc;

	tail = live_tail(s, parent, tokens, n, match);
	for (;;) {
		p = kvc_index_find(s->c, parent, tokens, n, &fill);
		if (!p || fill <= *match) {
			p = tail;
			break;
		}
		if (!p->shared) {
			*match = fill;
			break;
		}
		memcpy(lk.keys, p->key, KVCACHE_KEY_LEN);
		rc = lookup(s, &lk);
		if (rc)
			return rc;
		if (lk.out_nr_pages) {
			*match = fill;
			*hit = (struct kvc_hit) {
				.handle = lk.out_found[0].handle,
			};
			memcpy(s->m->ends[s->m->n], p->key, KVCACHE_KEY_LEN);
			return 0;
		}
		kvc_page_forget(s->c, p);
	}
	if (p)
		*hit = (struct kvc_hit) { .page = p, .handle = p->handle };
	return 0;
}

/* The page in which the match ends, if it does not end with a page. */
static int match_part(const struct search *s)
{
	struct kvcache_key keys[KVCACHE_MAX_PAGE_KEYS];
	struct kvcache_lookup lk = { .nr_keys = 0 };
	struct kvc_match *m = s->m;
	uint32_t first = m->n * s->g->page_tokens, n, nkeys, match, i;
	const uint8_t *parent = parent_of(s, m->n);
	struct kvc_hit hit = { .page = NULL };
	int rc;

	n = KVC_MIN(s->g->page_tokens, s->max - first);
	rc = match_known(s, parent, s->tokens + first, n, &hit, &match);
	if (rc)
		return rc;
	nkeys = kvc_key_page(s->g, parent, s->tokens + first, n, keys);
	for (i = 0; i < nkeys; i++)
		if (keys[i].fill > match)
			memcpy(lk.keys[lk.nr_keys++], keys[i].key,
			       KVCACHE_KEY_LEN);
	if (lk.nr_keys) {
		lk.keys_per_page = lk.nr_keys;
		rc = lookup(s, &lk);
		if (rc) {
			drop(s, hit.page ? 0 : hit.handle);
			return rc;
		}
	}
	if (lk.nr_keys && lk.out_nr_pages) {
		drop(s, hit.page ? 0 : hit.handle);
		hit = (struct kvc_hit) { .handle = lk.out_found[0].handle };
		i = nkeys - lk.nr_keys + lk.out_nr_keys - 1;
		memcpy(m->ends[m->n], keys[i].key, KVCACHE_KEY_LEN);
		match = keys[i].fill;
	}
	if (match)
		m->hits[m->n++] = hit;
	m->len = first + match;
	return 0;
}

static int match_group(const struct search *s)
{
	uint32_t room = s->max / s->g->page_tokens + 1;
	int rc;

	s->m->hits = calloc(room, sizeof(*s->m->hits));
	s->m->ends = calloc(room, sizeof(*s->m->ends));
	if (!s->m->hits || !s->m->ends)
		return -ENOMEM;
	rc = match_whole(s);
	if (rc)
		return rc;
	s->m->len = s->m->n * s->g->page_tokens;
	return s->m->len < s->max ? match_part(s) : 0;
}

int kvc_match(struct kvc_cache *c, uint8_t (*root)[KVCACHE_KEY_LEN],
	      const uint32_t *tokens, uint32_t max, bool peek,
	      struct kvc_match *m)
{
	uint32_t len = max, i;
	int rc;

	for (i = 0; i < c->l.ngroups; i++) {
		const struct search s = {
			.c = c,
			.g = &c->l.group[i],
			.group = i,
			.root = root[i],
			.tokens = tokens,
			.max = len,
			.peek = peek,
			.m = &m[i],
		};

		rc = match_group(&s);
		if (rc)
			return rc;
		len = m[i].len;
	}
	kvc_match_trim(c, m, len, peek);
	return 0;
}

/* Give back the references on a group's pages from @first on, leaf part first. */
static void put_hits(struct kvc_cache *c, struct kvc_match *m, uint32_t first)
{
	uint64_t handles[KVCACHE_MAX_PAGES];
	uint32_t at, end, i, n;

	for (end = m->n; end > first; end = at) {
		at = end - KVC_MIN(end - first, (uint32_t)KVCACHE_MAX_PAGES);
		for (i = at, n = 0; i < end; i++)
			if (!m->hits[i].page)
				handles[n++] = m->hits[i].handle;
		kvc_handles_free(c, handles, n);
	}
}

void kvc_match_trim(struct kvc_cache *c, struct kvc_match *m, uint32_t len,
		    bool peek)
{
	uint32_t i, P, keep;

	for (i = 0; i < c->l.ngroups; i++) {
		P = c->l.group[i].page_tokens;
		keep = len / P + !!(len % P);
		if (!peek)
			put_hits(c, &m[i], keep);
		m[i].n = keep;
		m[i].len = len;
	}
}

void kvc_match_put(struct kvc_cache *c, struct kvc_match *m, bool peek)
{
	for (uint32_t i = 0; i < c->l.ngroups; i++) {
		if (!peek && m[i].hits)
			put_hits(c, &m[i], m[i].taken);
		free(m[i].hits);
		free(m[i].ends);
	}
}

bool kvc_match_copies(const struct kvc_cache *c, uint32_t group,
		      const struct kvc_match *m)
{
	uint32_t rest = m->len % c->l.group[group].page_tokens;
	const struct kvc_page *p;

	if (!rest)
		return false;
	/* A published page with just these rows is held until it is written. */
	p = kvc_page_find(c, m->hits[m->n - 1].handle);
	return !p || !p->shared || !p->indexed || p->fill != rest;
}

uint32_t kvc_match_whole(const struct kvc_layout *l, uint32_t len)
{
	uint32_t i = 0;

	while (i < l->ngroups) {
		uint32_t rest = len % l->group[i].page_tokens;

		len -= rest;
		i = rest ? 0 : i + 1;
	}
	return len;
}
