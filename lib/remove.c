// SPDX-License-Identifier: MIT
/*
 * remove.c - tokens in the middle go, and what follows moves up.
 *
 * If whole pages' worth of tokens go, pages change their places in the chain, and
 * one at most has rows of two; else rows move from slot to slot. Either way K
 * rows are rotated on where they lie then, so that no page is written that
 * somebody else holds or finds: those are copied. First it is found out which,
 * then they are got, and then nothing fails any more.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/**
 * struct cut - what goes
 * @s: of which sequence
 * @first: first token
 * @n: number of tokens
 * @len: tokens that are left
 */
struct cut {
	struct kvc_seq *s;
	uint32_t first;
	uint32_t n;
	uint32_t len;
};

/**
 * struct part - the same of one group
 * @pages: [@end] its chain then; those that are copied are still the old ones
 * @begin: first page that changes
 * @end: page after the last one that holds tokens
 * @by: pages that its pages move by
 * @rows: rows move instead
 * @fresh: pages that are copied
 */
struct part {
	struct kvc_page **pages;
	uint32_t begin;
	uint32_t end;
	uint32_t by;
	bool rows;
	uint32_t fresh;
};

static bool own(const struct kvc_page *p)
{
	return !p->shared && p->refs == 1;
}

static int gone(const struct cut *c, uint32_t group)
{
	return kvc_fail(c->s->c->ctx, -ENODATA,
			"%u tokens to remove at %u: what the window sees then was given back: remove fewer, and a multiple of %u",
			c->n, c->first, c->s->c->l.group[group].page_tokens);
}

static int plan_group(const struct cut *c, uint32_t group, struct part *p)
{
	const struct kvc_lgroup *g = &c->s->c->l.group[group];
	const struct kvc_chain *ch = &c->s->chain[group];
	uint32_t P = g->page_tokens, i, old;

	p->begin = c->first / P;
	p->end = kvc_pages_for(g, c->len);
	p->rows = c->s->fixed || c->n % P;
	p->by = p->rows ? 0 : c->n / P;
	p->pages = calloc(p->end, sizeof(*p->pages));
	if (!p->pages)
		return kvc_nomem(c->s->c->ctx);
	for (i = 0; i < p->end; i++) {
		old = i < p->begin ? i : i + p->by;
		p->pages[i] = ch->pages[old];
		if (i >= p->begin && p->pages[i])
			p->fresh += !own(p->pages[i]);
	}
	old = kvc_pages_for(g, c->s->len);
	for (i = p->begin; p->rows && i < old; i++)
		if (!ch->pages[i])
			return gone(c, group);
	/* The page that has rows of two needs both. */
	if (c->first % P && p->pages[p->begin] && !ch->pages[p->begin])
		return gone(c, group);
	if (!kvc_chain_serves(g, p->pages, p->end, c->len) ||
	    c->first < ch->gap_end || kvc_chain_lacks(g, ch, c->len))
		return gone(c, group);
	return 0;
}

static void move_rows(const struct cut *c, uint32_t group,
		      const struct part *p, char *buf)
{
	const struct kvc_lgroup *g = &c->s->c->l.group[group];
	uint32_t P = g->page_tokens, to, from, k, layer = 0;
	const struct kvc_chain *ch = &c->s->chain[group];
	const struct kvc_cache *cache = c->s->c;
	struct kva_view v;

	while (cache->l.layer_group[layer] != group)
		layer++;
	for (to = c->first; to < c->len; to += k) {
		from = to + c->n;
		k = KVC_MIN(P - to % P, P - from % P);
		k = KVC_MIN(k, c->len - to);
		for (int is_v = 0; is_v <= 1; is_v++) {
			size_t row = is_v ?
				kva_row_size(g->g.v_type, g->g.v_dim) :
				kva_row_size(g->g.k_type, g->g.k_dim);
			struct kva_rows r = {
				.kv = &v,
				.layers = g->nlayers,
				.layer_stride = g->layer_bytes,
				.page = ch->numbers[from / P],
				.is_v = is_v,
				.slot = from % P,
				.n = k,
				.data = buf,
				.data_layer = g->g.kv_heads * k * row,
				.data_head = k * row,
				.data_row = row,
			};

			kvc_layout_view(&cache->l, layer, cache->ro, &v);
			cache->ops->rows(&r, cache->threads);
			kvc_layout_view(&cache->l, layer, cache->rw, &v);
			r.page = kvc_page_number(p->pages[to / P]->handle);
			r.slot = to % P;
			r.write = 1;
			cache->ops->rows(&r, cache->threads);
		}
	}
}

/* Pages whose rows change become this sequence's own. */
static struct kvc_page **make_own(const struct cut *c, uint32_t group,
				  struct part *p, struct kvc_page **fresh)
{
	uint32_t P = c->s->c->l.group[group].page_tokens, i, k;
	const struct kvc_chain *ch = &c->s->chain[group];
	struct kvc_cache *cache = c->s->c;

	for (i = p->begin; i < p->end; i++) {
		struct kvc_page *old = p->pages[i];

		if (!old)
			continue;
		if (own(old)) {
			/* It is not any more what it was known to hold. */
			kvc_index_del(cache, old);
			continue;
		}
		p->pages[i] = *fresh++;
		k = p->rows ? 0 : KVC_MIN(P, c->len - i * P);
		if (k)
			kvc_page_copy(cache, group, p->pages[i]->handle,
				      old->handle, k);
		cache->st.pages_copied++;
	}
	k = c->first % P;
	if (k && p->pages[p->begin] &&
	    p->pages[p->begin] != ch->pages[p->begin])
		kvc_page_copy(cache, group, p->pages[p->begin]->handle,
			      ch->pages[p->begin]->handle, k);
	return fresh;
}

/* Is it in the new chain, at or behind where it was found? */
static bool stays(const struct part *p, const struct kvc_page *page, uint32_t i)
{
	uint32_t at = i < p->begin ? i : i - KVC_MIN(i, p->by);

	return at < p->end && p->pages[at] == page;
}

static void set_chain(const struct cut *c, uint32_t group, struct part *p)
{
	uint32_t old, i, n = p->end, first = c->s->chain[group].first;
	struct kvc_chain *ch = &c->s->chain[group];

	old = kvc_pages_for(&c->s->c->l.group[group], c->s->len);
	for (i = p->begin; i < old; i++)
		if (ch->pages[i] && (!stays(p, ch->pages[i], i) ||
				     i < p->begin + p->by))
			if (!c->s->fixed)
				kvc_pages_put(c->s->c, &ch->pages[i], 1);
	if (!c->s->fixed) {
		for (i = 0; i < p->end; i++)
			kvc_chain_set(ch, i, p->pages[i]);
		/* Reserved ones. */
		for (i = old; i < ch->n; i++)
			kvc_chain_set(ch, n++, ch->pages[i]);
		ch->n = n;
	}
	if (first >= p->begin + p->by)
		ch->first = first - p->by;
	else
		ch->first = KVC_MIN(first, p->begin);
	ch->published = KVC_MIN(ch->published, p->begin);
}

/* K rows of tokens [@from, @to), whose pages are there. */
static void rotate(const struct cut *c, uint32_t group,
		   const struct kvc_rotation *rot, uint32_t from, uint32_t to)
{
	const struct kvc_lgroup *g = &c->s->c->l.group[group];
	const struct kvc_chain *ch = &c->s->chain[group];
	const struct kvc_cache *cache = c->s->c;
	uint32_t n = kvc_pages_for(g, c->len);
	uint32_t indptr[] = { 0, n };
	uint32_t last = c->len - (n - 1) * g->page_tokens;
	double turn[KVA_DIM_MAX];
	struct kva_view v;
	const struct kva_shift sh = {
		.kv = &v,
		.from = &from,
		.to = &to,
		.rope = rot->kind,
		.rot_dim = rot->rot_dim,
		.turn = turn,
	};

	if (from >= to)
		return;
	kva_rope_turn(turn, -(int64_t)c->n, rot->rot_dim, rot->base,
		      rot->scale, rot->factors);
	for (uint32_t i = 0; i < cache->l.nlayers; i++) {
		if (cache->l.layer_group[i] != group)
			continue;
		kvc_layout_view(&cache->l, i, cache->rw, &v);
		v.nseq = 1;
		v.indptr = indptr;
		v.indices = ch->numbers;
		v.last_page_len = &last;
		cache->ops->shift(&sh, cache->threads);
	}
}

static void rotate_group(const struct cut *c, uint32_t group,
			 const struct kvc_rotation *rot)
{
	const struct kvc_lgroup *g = &c->s->c->l.group[group];
	uint32_t P = g->page_tokens, sinks = kvc_sink_pages(g);
	const struct kvc_chain *ch = &c->s->chain[group];

	if (rot->kind == KVC_ROPE_NONE)
		return;
	if (ch->first <= sinks) {
		rotate(c, group, rot, c->first, c->len);
		return;
	}
	/* Between them is what nobody holds. */
	rotate(c, group, rot, c->first, KVC_MIN(sinks * P, c->len));
	rotate(c, group, rot, KVC_MAX(c->first, ch->first * P), c->len);
}

static int check_rotation(const struct kvc_cache *c,
			  const struct kvc_rotation *rot)
{
	for (uint32_t i = 0; rot && i < c->l.ngroups; i++) {
		if (rot[i].kind == KVC_ROPE_NONE)
			continue;
		if (rot[i].kind > KVC_ROPE_HALF || !rot[i].rot_dim ||
		    rot[i].rot_dim % 2 ||
		    rot[i].rot_dim > c->l.group[i].g.k_dim)
			return kvc_fail(c->ctx, -EINVAL,
					"group %u: a rotation of kind %u over %u of %u elements",
					i, rot[i].kind, rot[i].rot_dim,
					c->l.group[i].g.k_dim);
	}
	return 0;
}

static int check(const struct cut *c, const struct kvc_rotation *rot)
{
	struct kvc_seq *s = c->s;
	int rc;

	rc = kvc_seq_ready(s);
	if (rc)
		return rc;
	if (c->first > s->len || c->n > s->len - c->first)
		return kvc_fail(s->c->ctx, -EINVAL,
				"tokens %u to %llu to remove: there are %u",
				c->first, (unsigned long long)c->first + c->n,
				s->len);
	return check_rotation(s->c, rot);
}

static void apply(const struct cut *c, struct part *part,
		  struct kvc_page **fresh, const struct kvc_rotation *rot,
		  char *buf)
{
	struct kvc_seq *s = c->s;

	for (uint32_t i = 0; i < s->c->l.ngroups; i++) {
		fresh = make_own(c, i, &part[i], fresh);
		if (part[i].rows)
			move_rows(c, i, &part[i], buf);
		set_chain(c, i, &part[i]);
		if (rot)
			rotate_group(c, i, &rot[i]);
	}
	memmove(s->tokens + c->first, s->tokens + c->first + c->n,
		(c->len - c->first) * sizeof(*s->tokens));
	s->len = c->len;
	s->own_from = KVC_MIN(s->own_from, c->first);
	kvc_seq_slide(s);
}

int kvc_seq_remove(struct kvc_seq *s, uint32_t first, uint32_t n,
		   const struct kvc_rotation *rot)
{
	struct part part[KVC_MAX_GROUPS] = { 0 };
	const struct cut c = {
		.s = s, .first = first, .n = n, .len = s->len - n,
	};
	struct kvc_page **fresh = NULL;
	uint32_t i, want = 0;
	char *buf = NULL;
	int rc;

	rc = check(&c, rot);
	if (rc || !n)
		return rc;
	if (first + n == s->len)
		return kvc_seq_truncate(s, first);
	for (i = 0; !rc && i < s->c->l.ngroups; i++) {
		rc = plan_group(&c, i, &part[i]);
		want += part[i].fresh;
	}
	if (!rc) {
		fresh = calloc(want + 1, sizeof(*fresh));
		/* Rows of a page are no more than the page. */
		buf = malloc(s->c->l.page_size);
		if (!fresh || !buf)
			rc = kvc_nomem(s->c->ctx);
	}
	if (!rc && want)
		rc = kvc_pages_alloc(s->c, want, 0, fresh);
	if (!rc) {
		/* They may be pages that were revoked just now. */
		rc = kvc_seq_check(s);
		if (rc)
			kvc_pages_put(s->c, fresh, want);
	}
	if (!rc)
		apply(&c, part, fresh, rot, buf);
	for (i = 0; i < s->c->l.ngroups; i++)
		free(part[i].pages);
	free(fresh);
	free(buf);
	return rc;
}
