// SPDX-License-Identifier: MIT
/*
 * prefix.c - what is cached of a prompt.
 *
 * Whole pages are found by the keys at their ends, 256 a call. Where they end,
 * one more page may begin with what comes next: a published one, found by its
 * block keys or by this context's index of tokens, or one that a sequence of
 * this context is still writing. Any length up to that is a hit, since rows
 * can be copied one by one; so what all groups without a window can serve is
 * the least of theirs.
 *
 * A group with a window serves a length if its sinks and the pages in the
 * window before that length are there, whatever is between them. So it is asked
 * last, from the longest length down, and what is less than it found asks
 * it anew. A match holds a reference on each of its pages from the moment that
 * the page is found.
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
	const uint8_t *common_root;	/* NULL: there is no commons */
	const uint32_t *tokens;
	uint32_t max;
	struct kvc_match *m;
};

int kvc_lookup(struct kvc_cache *c, struct kvcache_lookup *lk,
	       struct kvc_page **pages)
{
	uint64_t spares[KVCACHE_MAX_PAGES];
	uint32_t i, nspares = 0;
	bool spare;
	int rc;

	lk->pool = c->o.pool;
	rc = kvc_call(c->ctx, KVCACHE_NR_LOOKUP, lk);
	if (rc)
		return rc;
	for (i = 0; i < lk->out_nr_pages; i++) {
		pages[i] = kvc_page_adopt(c, lk->out_found[i].handle, &spare);
		if (spare)
			spares[nspares++] = lk->out_found[i].handle;
		if (!pages[i])
			break;
	}
	if (i < lk->out_nr_pages) {
		kvc_pages_put(c, pages, i);
		while (++i < lk->out_nr_pages)
			spares[nspares++] = lk->out_found[i].handle;
		rc = -ENOMEM;
	}
	if (nspares)
		kvc_handles_free(c, spares, nspares);
	return rc;
}

static const uint8_t *parent_of(const struct search *s, uint32_t page)
{
	return page ? s->m->ends[page - 1] : s->root;
}

/* Keys at the ends of the first @n pages, of one chain or the other. */
static void compute_ends(const struct search *s, uint32_t n, bool common)
{
	uint32_t *have = common ? &s->m->ncommon : &s->m->nkeys;

	kvc_key_ends(s->g, common ? s->common_root : s->root, s->tokens,
		     common ? s->m->common : s->m->ends, *have, n);
	*have = KVC_MAX(*have, n);
}

/* A full page that is not published serves its own context. */
static struct kvc_page *private_page(const struct search *s, uint32_t page)
{
	uint32_t P = s->g->page_tokens, match;
	struct kvc_page *p;

	p = kvc_index_find(s->c, parent_of(s, page),
			   s->tokens + (size_t)page * P, P, &match);
	return p && match == P && !p->shared ? p : NULL;
}

/* Published pages from where the match ends, in one of the domains. */
static int match_run(const struct search *s, uint32_t npages, bool common)
{
	struct kvcache_lookup lk = { .keys_per_page = 1 };
	struct kvc_match *m = s->m;
	int rc;

	do {
		lk.nr_keys = KVC_MIN(npages - m->n, (uint32_t)KVCACHE_MAX_KEYS);
		compute_ends(s, m->n + lk.nr_keys, common);
		memcpy(lk.keys, (common ? m->common : m->ends)[m->n],
		       lk.nr_keys * KVCACHE_KEY_LEN);
		rc = kvc_lookup(s->c, &lk, m->pages + m->n);
		if (rc)
			return rc;
		memcpy(m->by[m->n], lk.keys,
		       lk.out_nr_pages * KVCACHE_KEY_LEN);
		m->n += lk.out_nr_pages;
	} while (lk.out_nr_pages == lk.nr_keys && m->n < npages);
	return 0;
}

/* Pages from where the match ends on, as far as there are any before @npages. */
static int match_whole(const struct search *s, uint32_t npages)
{
	struct kvc_match *m = s->m;
	uint32_t was;
	struct kvc_page *p;
	int rc;

	while (m->n < npages) {
		was = m->n;
		rc = match_run(s, npages, false);
		/* Both are asked, whatever the first one says. */
		if (!rc && s->common_root && m->n < npages)
			rc = match_run(s, npages, true);
		if (rc)
			return rc;
		if (m->n == npages || (s->common_root && m->n > was))
			continue;
		compute_ends(s, m->n + 1, false);
		p = private_page(s, m->n);
		if (!p)
			break;
		p->refs++;
		memcpy(m->by[m->n], m->ends[m->n], KVCACHE_KEY_LEN);
		m->pages[m->n++] = p;
	}
	/* What follows is a page of the own chain, whoever has these. */
	compute_ends(s, m->n, false);
	return 0;
}

/* The end of the last page before @end that one of the domains has. */
static int last_in(const struct search *s, uint32_t end, bool common,
		   uint32_t *out)
{
	struct kvcache_lookup lk = {
		.flags = KVCACHE_LOOKUP_PEEK,
		.pool = s->c->o.pool,
		.keys_per_page = 1,
		.tail = 1,
	};
	uint32_t first;
	int rc;

	compute_ends(s, end, common);
	for (; end > *out; end = first) {
		first = end - KVC_MIN(end, (uint32_t)KVCACHE_MAX_KEYS);
		lk.nr_keys = end - first;
		memcpy(lk.keys, (common ? s->m->common : s->m->ends)[first],
		       lk.nr_keys * KVCACHE_KEY_LEN);
		rc = kvc_call(s->c->ctx, KVCACHE_NR_LOOKUP, &lk);
		if (rc)
			return rc;
		if (!lk.out_nr_keys)
			continue;
		*out = KVC_MAX(*out, first + lk.out_nr_keys);
		break;
	}
	return 0;
}

/* The end of the last page before @end that there is anywhere; or *@out. */
static int last_page(const struct search *s, uint32_t end, uint32_t *out)
{
	int rc;

	rc = last_in(s, end, false, out);
	if (!rc && s->common_root)
		rc = last_in(s, end, true, out);
	for (; !rc && end > *out; end--)
		if (private_page(s, end - 1))
			*out = end;
	return rc;
}

static void forget_pages(const struct search *s, uint32_t from)
{
	struct kvc_match *m = s->m;

	kvc_pages_put(s->c, m->pages + from, m->n - from);
	memset(m->pages + from, 0, (m->n - from) * sizeof(*m->pages));
	m->n = from;
}

/* The sinks' pages, and the window's before as many whole pages as can be. */
static int match_window(const struct search *s)
{
	uint32_t end = s->max / s->g->page_tokens, sinks, before, last;
	struct kvc_match *m = s->m;
	int rc;

	sinks = KVC_MIN(kvc_sink_pages(s->g), end);
	rc = match_whole(s, sinks);
	if (rc || m->n < sinks)
		return rc;
	before = kvc_pages_for(s->g, s->g->span - 1);
	while (end > sinks) {
		m->first = KVC_MAX(sinks, end - KVC_MIN(end, before));
		m->n = m->first;
		rc = match_whole(s, end);
		if (rc || m->n == end)
			return rc;
		/* None that needs the page that is missing. */
		end = m->n;
		forget_pages(s, m->first);
		last = sinks;
		rc = last_page(s, end, &last);
		if (rc)
			return rc;
		end = last;
	}
	m->first = 0;
	m->n = sinks;
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
		if (!rest || q->no_reuse || q->idle)
			continue;
		ch = &q->chain[s->group];
		p = ch->pages[at];
		if (p->shared || p->lost ||
		    memcmp(kvc_chain_parent(ch, at), parent, KVCACHE_KEY_LEN))
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
 * The best page that this context knows of, with a reference, or NULL. A
 * published one must still be found by the backend.
 */
static int match_known(const struct search *s, const uint8_t *parent,
		       const uint32_t *tokens, uint32_t n,
		       struct kvc_page **out, uint32_t *match)
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
		rc = kvc_lookup(s->c, &lk, out);
		if (rc)
			return rc;
		if (lk.out_nr_pages) {
			*match = fill;
			memcpy(s->m->by[s->m->n], p->key, KVCACHE_KEY_LEN);
			return 0;
		}
		kvc_page_forget(s->c, p);
	}
	if (p)
		p->refs++;
	*out = p;
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
	struct kvc_page *known = NULL, **hit = m->pages + m->n;
	int rc;

	n = KVC_MIN(s->g->page_tokens, s->max - first);
	rc = match_known(s, parent, s->tokens + first, n, &known, &match);
	if (rc)
		return rc;
	nkeys = kvc_key_page(s->g, parent, s->tokens + first, n, keys);
	memcpy(m->ends[m->n], keys[nkeys - 1].key, KVCACHE_KEY_LEN);
	for (i = 0; i < nkeys; i++)
		if (keys[i].fill > match)
			memcpy(lk.keys[lk.nr_keys++], keys[i].key,
			       KVCACHE_KEY_LEN);
	if (lk.nr_keys) {
		lk.keys_per_page = lk.nr_keys;
		rc = kvc_lookup(s->c, &lk, hit);
	}
	if (!rc && lk.nr_keys && lk.out_nr_pages) {
		i = nkeys - lk.nr_keys + lk.out_nr_keys - 1;
		memcpy(m->by[m->n], keys[i].key, KVCACHE_KEY_LEN);
		match = keys[i].fill;
	} else if (!rc) {
		*hit = known;
		known = NULL;
	}
	if (known)
		kvc_pages_put(s->c, &known, 1);
	if (rc)
		return rc;
	m->n += !!match;
	m->len = first + match;
	return 0;
}

static void match_free(struct kvc_cache *c, struct kvc_match *m)
{
	kvc_pages_put(c, m->pages, m->n);
	free(m->pages);
	free(m->ends);
	free(m->by);
	free(m->common);
	memset(m, 0, sizeof(*m));
}

static int match_group(const struct search *s)
{
	uint32_t room = s->max / s->g->page_tokens + 1;
	int rc;

	s->m->pages = calloc(room, sizeof(*s->m->pages));
	s->m->ends = calloc(room, sizeof(*s->m->ends));
	s->m->by = calloc(room, sizeof(*s->m->by));
	if (s->common_root)
		s->m->common = calloc(room, sizeof(*s->m->common));
	if (!s->m->pages || !s->m->ends || !s->m->by ||
	    (s->common_root && !s->m->common))
		return -ENOMEM;
	rc = s->g->span ? match_window(s) :
			      match_whole(s, s->max / s->g->page_tokens);
	if (rc)
		return rc;
	s->m->len = s->m->n * s->g->page_tokens;
	return s->m->len < s->max ? match_part(s) : 0;
}

/* One group, up to *@len tokens, which is what it serves then. */
static int match_upto(struct kvc_cache *c, const struct kvc_seq *seq,
		      uint32_t group, const uint32_t *tokens, uint32_t *len,
		      struct kvc_match *m)
{
	const struct search s = {
		.c = c,
		.g = &c->l.group[group],
		.group = group,
		.root = seq ? seq->chain[group].root : c->root[group],
		.common_root = !c->o.commons ? NULL :
			       seq ? seq->chain[group].common_root :
			       c->common_root[group],
		.tokens = tokens,
		.max = *len,
		.m = m,
	};
	int rc;

	/* Of whole pages and rows any shorter prefix is one too. */
	if (m->pages && (m->len == *len || !s.g->span))
		return 0;
	match_free(c, m);
	rc = match_group(&s);
	*len = m->len;
	return rc;
}

int kvc_match(struct kvc_cache *c, const struct kvc_seq *seq,
	      const uint32_t *tokens, uint32_t max, struct kvc_match *m)
{
	uint32_t len = max, i, was;
	int rc;

	for (i = 0; i < c->l.ngroups; i++) {
		if (c->l.group[i].span)
			continue;
		rc = match_upto(c, seq, i, tokens, &len, &m[i]);
		if (rc)
			return rc;
	}
	do {
		was = len;
		for (i = 0; i < c->l.ngroups; i++) {
			if (!c->l.group[i].span)
				continue;
			rc = match_upto(c, seq, i, tokens, &len, &m[i]);
			if (rc)
				return rc;
		}
	} while (len < was);
	kvc_match_trim(c, m, len);
	return 0;
}

void kvc_match_trim(struct kvc_cache *c, struct kvc_match *m, uint32_t len)
{
	uint32_t i, keep;

	for (i = 0; i < c->l.ngroups; i++) {
		keep = kvc_pages_for(&c->l.group[i], len);
		kvc_pages_put(c, m[i].pages + keep, m[i].n - keep);
		m[i].n = keep;
		m[i].len = len;
		m[i].first = KVC_MIN(m[i].first, keep);
	}
}

void kvc_match_put(struct kvc_cache *c, struct kvc_match *m)
{
	for (uint32_t i = 0; i < c->l.ngroups; i++)
		match_free(c, &m[i]);
}

bool kvc_match_copies(const struct kvc_cache *c, uint32_t group,
		      const struct kvc_match *m)
{
	uint32_t rest = m->len % c->l.group[group].page_tokens;
	const struct kvc_page *p;

	if (!rest)
		return false;
	/* A published page with just these rows is held until it is written. */
	p = m->pages[m->n - 1];
	return m->copy || !p->shared || !p->indexed || p->fill != rest;
}

/* Could @n pages be had beside those held? 1, 0 or -errno. */
static int has_room(struct kvc_cache *c, uint64_t n)
{
	int rc = kvc_pages_check(c, KVC_MIN(n, (uint64_t)UINT32_MAX), 0);

	if (rc == -EDQUOT || rc == -ENOSPC || rc == -E2BIG)
		return 0;
	return rc ? rc : 1;
}

int kvc_match_fit(struct kvc_cache *c, struct kvc_match *m, uint32_t n,
		  bool reserved)
{
	uint32_t i, parts = 0, copies = 0;
	uint64_t fresh = 0;
	int rc = 1;

	for (i = 0; i < c->l.ngroups; i++) {
		const struct kvc_lgroup *g = &c->l.group[i];

		parts += m[i].len % g->page_tokens != 0;
		copies += kvc_match_copies(c, i, &m[i]);
		fresh += kvc_pages_for(g, m[i].len +
				kvc_window_step(c, i, n - m[i].len)) -
			 m[i].len / g->page_tokens;
	}
	/* A shared page is still held when it is copied for the next token. */
	if (copies < parts) {
		rc = reserved ? 0 : has_room(c, fresh);
		if (rc)
			return KVC_MIN(rc, 0);
		for (i = 0; i < c->l.ngroups; i++)
			m[i].copy = true;
	}
	if (parts)
		rc = has_room(c, parts);
	if (!rc)
		kvc_match_trim(c, m, kvc_match_shorter(c, m));
	return KVC_MIN(rc, 0);
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

uint32_t kvc_match_shorter(const struct kvc_cache *c,
			   const struct kvc_match *m)
{
	uint32_t len = m[0].len, i = 0;

	while (i < c->l.ngroups) {
		len = kvc_match_whole(&c->l, len);
		for (i = 0; i < c->l.ngroups; i++)
			if (!kvc_chain_serves(&c->l.group[i], m[i].pages,
					      m[i].n, len))
				break;
		if (i < c->l.ngroups)
			len--;
	}
	return len;
}
