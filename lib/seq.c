// SPDX-License-Identifier: MIT
/*
 * seq.c - one conversation: an ordered list of pages for each group of layers,
 * and the tokens whose rows they hold.
 *
 * Pages of a chain: full ones, perhaps a partly filled tail, then reserved
 * ones that are nobody else's. Only the tail and the reserved ones are ever
 * written; a tail that is published, or that a fork holds too, is copied
 * before (kvc_reserve()).
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct kvc_seq *kvc_seq_new(struct kvc_cache *c)
{
	struct kvc_seq *s;

	s = calloc(1, sizeof(*s) + c->l.ngroups * sizeof(s->chain[0]));
	if (!s)
		return NULL;
	s->c = c;
	s->own_from = UINT32_MAX;
	s->next = c->live;
	if (c->live)
		c->live->prev = s;
	c->live = s;
	return s;
}

void kvc_seq_delete(struct kvc_seq *s)
{
	if (s->prev)
		s->prev->next = s->next;
	else
		s->c->live = s->next;
	if (s->next)
		s->next->prev = s->prev;
	for (uint32_t i = 0; i < s->c->l.ngroups; i++) {
		free(s->chain[i].pages);
		free(s->chain[i].numbers);
		free(s->chain[i].ends);
	}
	free(s->tokens);
	free(s);
}

int kvc_seq_create(struct kvc_cache *c, const struct kvc_seq_opts *opts,
		   struct kvc_seq **out)
{
	struct kvc_seq_opts o;
	struct kvc_seq *s;
	uint32_t i;

	if (kvc_opts_copy(&o, sizeof(o), opts))
		return kvc_fail(c->ctx, -EINVAL,
				"struct kvc_seq_opts: bad sz, or members that this library does not know");
	if (o.priority > KVCACHE_PRIO_MAX + 1)
		return kvc_fail(c->ctx, -EINVAL,
				"priority %u: %u to %u can be", o.priority - 1,
				KVCACHE_PRIO_MIN, KVCACHE_PRIO_MAX);
	if (o.extra_len && !o.extra)
		return kvc_fail(c->ctx, -EINVAL, "extra_len without extra");
	s = kvc_seq_new(c);
	if (!s)
		return kvc_nomem(c->ctx);
	s->priority = o.priority ? o.priority - 1 : KVCACHE_PRIO_DEFAULT;
	s->ttl_ns = o.ttl_ns ? o.ttl_ns : KVCACHE_TIME_NEVER;
	s->no_reuse = o.no_reuse || c->o.no_reuse;
	s->common = c->o.commons ? o.common : 0;
	kvc_key_extra(s->extra, o.extra, o.extra_len);
	for (i = 0; i < c->l.ngroups; i++)
		kvc_roots(c, i, o.extra, o.extra_len, s->chain[i].root,
			  s->chain[i].common_root);
	if (o.fixed) {
		int rc = kvc_seq_fix(s, o.fixed);

		if (rc) {
			kvc_seq_delete(s);
			return rc;
		}
	}
	*out = s;
	return 0;
}

void kvc_seq_free(struct kvc_seq *s, uint32_t flags)
{
	struct kvc_msg msg;
	struct kvc *ctx;

	if (!s)
		return;
	ctx = s->c->ctx;
	kvc_msg_save(ctx, &msg);
	if (s->batch)
		kvc_batch_abort(s->batch);
	/* What survived of it can be published. */
	if (s->idle && ((flags & KVC_SEQ_DISCARD) || kvc_idle_wake(s) < 0))
		kvc_idle_drop(s);
	kvc_lost_poll(ctx);
	if (kvc_seq_stale(s))
		flags |= KVC_SEQ_DISCARD;
	for (uint32_t i = 0; i < s->c->l.ngroups; i++) {
		if (!(flags & KVC_SEQ_DISCARD))
			kvc_publish(s, i, true);
		kvc_pages_put(s->c, s->chain[i].pages, s->chain[i].n);
	}
	kvc_seq_delete(s);
	kvc_msg_restore(ctx, &msg);
}

/* Pages for the rows to be copied, one a group that copies, else NULL. */
static int get_copies(struct kvc_cache *c, const struct kvc_match *m,
		      struct kvc_page **copy)
{
	struct kvc_page *fresh[KVC_MAX_GROUPS];
	uint32_t i, n = 0;
	int rc;

	for (i = 0; i < c->l.ngroups; i++)
		n += kvc_match_copies(c, i, &m[i]);
	memset(copy, 0, KVC_MAX_GROUPS * sizeof(*copy));
	if (!n)
		return 0;
	rc = kvc_pages_alloc(c, n, 0, fresh);
	if (rc)
		return rc;
	for (i = 0, n = 0; i < c->l.ngroups; i++)
		if (kvc_match_copies(c, i, &m[i]))
			copy[i] = fresh[n++];
	return 0;
}

/* Take over a group's pages, with their references; or -ENOMEM and none. */
static int take_pages(struct kvc_seq *s, uint32_t group, struct kvc_match *m,
		      struct kvc_page *copy)
{
	uint32_t P = s->c->l.group[group].page_tokens;
	uint32_t i, n = m->n - !!copy;
	struct kvc_chain *ch = &s->chain[group];
	int rc;

	rc = kvc_chain_grow(ch, m->n);
	if (rc)
		return rc;
	for (i = 0; i < n; i++) {
		s->c->st.pages_found += m->pages[i] && m->pages[i]->shared;
		kvc_chain_set(ch, ch->n++, m->pages[i]);
	}
	if (copy) {
		kvc_page_copy(s->c, group, copy->handle, m->pages[n]->handle,
			      m->len % P);
		kvc_chain_set(ch, ch->n++, copy);
		kvc_pages_put(s->c, &m->pages[n], 1);
	}
	m->n = 0;
	ch->first = m->first;
	if (m->len)
		memcpy(ch->ends, m->ends, (m->len / P) * sizeof(*ch->ends));
	return 0;
}

/* What the index can learn of pages that others have published. */
static void remember_found(struct kvc_seq *s, uint32_t group,
			   const struct kvc_match *m)
{
	uint32_t P = s->c->l.group[group].page_tokens, i;
	struct kvc_chain *ch = &s->chain[group];
	struct kvcache_key key = { .fill = P };

	for (i = 0; i < s->len / P; i++) {
		if (!ch->pages[i] || ch->pages[i]->indexed ||
		    !ch->pages[i]->shared)
			continue;
		memcpy(key.key, m->by[i], KVCACHE_KEY_LEN);
		kvc_index_add(s->c, ch->pages[i], kvc_chain_parent(ch, i),
			      &key, s->tokens + (size_t)i * P);
	}
}

/* Pages that the backend took while they were being taken over. */
static bool lost_any(struct kvc_cache *c, const struct kvc_match *m)
{
	kvc_lost_poll(c->ctx);
	for (uint32_t g = 0; c->nlost && g < c->l.ngroups; g++)
		for (uint32_t i = 0; i < m[g].n; i++)
			if (m[g].pages[i] && m[g].pages[i]->lost)
				return true;
	return false;
}

static int take_match(struct kvc_seq *s, struct kvc_match *m,
		      const uint32_t *tokens)
{
	struct kvc_page *copy[KVC_MAX_GROUPS];
	struct kvc_cache *c = s->c;
	uint32_t i, most = 0;
	int rc;

	rc = get_copies(c, m, copy);
	if (rc && rc != -ENOMEM) {
		/* Others were faster: whole pages then. */
		kvc_match_trim(c, m, kvc_match_shorter(c, m));
		rc = get_copies(c, m, copy);
	}
	if (!rc && lost_any(c, m))
		rc = -ESTALE;
	if (!rc)
		rc = kvc_tokens_grow(s, m[0].len);
	for (i = 0; !rc && i < c->l.ngroups; i++) {
		rc = take_pages(s, i, &m[i], copy[i]);
		if (rc)
			break;
		if (copy[i])
			most = KVC_MAX(most, m[i].len %
				       c->l.group[i].page_tokens);
		copy[i] = NULL;
	}
	if (rc)
		goto fail;
	memcpy(s->tokens, tokens, m[0].len * sizeof(*tokens));
	s->len = m[0].len;
	for (i = 0; i < c->l.ngroups; i++)
		remember_found(s, i, &m[i]);
	kvc_seq_slide(s);
	kvc_tiers_found(s);
	c->st.reused_tokens += s->len;
	c->st.copied_tokens += most;
	return 0;

fail:
	for (i = 0; i < c->l.ngroups; i++) {
		if (copy[i])
			kvc_pages_put(c, &copy[i], 1);
		kvc_pages_put(c, s->chain[i].pages, s->chain[i].n);
		s->chain[i].n = 0;
		s->chain[i].first = 0;
	}
	return rc;
}

/* Reserved pages stand aside while what is cached is put before them. */
static void set_aside(struct kvc_seq *s, struct kvc_chain *aside)
{
	for (uint32_t i = 0; i < s->c->l.ngroups; i++) {
		aside[i] = s->chain[i];
		s->chain[i].pages = NULL;
		s->chain[i].numbers = NULL;
		s->chain[i].ends = NULL;
		s->chain[i].n = 0;
		s->chain[i].cap = 0;
	}
}

/* They come back; those that the @n tokens do not need are given up. */
static int take_back(struct kvc_seq *s, struct kvc_chain *aside, uint32_t n)
{
	uint32_t i, k, want, had;
	int rc = 0;

	for (i = 0; !rc && i < s->c->l.ngroups; i++)
		rc = kvc_chain_grow(&s->chain[i],
				    s->chain[i].n + aside[i].n);
	for (i = 0; i < s->c->l.ngroups; i++) {
		struct kvc_chain *ch = &s->chain[i];
		struct kvc_chain old = *ch;

		if (rc) {
			kvc_pages_put(s->c, ch->pages, ch->n);
			aside[i].published = ch->published;
			*ch = aside[i];
			aside[i] = old;
		} else {
			had = kvc_pages_for(&s->c->l.group[i], s->len);
			want = kvc_pages_for(&s->c->l.group[i], s->len +
				kvc_window_step(s->c, i, n - s->len));
			want = KVC_MIN(want - had, aside[i].n);
			for (k = 0; k < want; k++)
				kvc_chain_set(ch, ch->n++, aside[i].pages[k]);
			kvc_pages_put(s->c, aside[i].pages + want,
				      aside[i].n - want);
		}
		free(aside[i].pages);
		free(aside[i].numbers);
		free(aside[i].ends);
	}
	if (rc)
		s->len = 0;
	return rc;
}

int kvc_seq_prefix(struct kvc_seq *s, const uint32_t *tokens, uint32_t n)
{
	struct kvc_chain aside[KVC_MAX_GROUPS];
	struct kvc_match m[KVC_MAX_GROUPS] = { 0 };
	struct kvc_cache *c = s->c;
	uint32_t reserved;
	struct kvc_msg msg;
	int rc, err;

	kvc_msg_save(c->ctx, &msg);
	if (s->batch || s->idle || s->len)
		return kvc_fail(c->ctx, -EINVAL,
				"the sequence has tokens or is in a batch: a prefix is for a new one");
	if (n && !tokens)
		return kvc_fail(c->ctx, -EINVAL, "no tokens");
	c->st.queried_tokens += n;
	if (n < 2 || s->no_reuse)
		return 0;
	reserved = kvc_seq_pages(s);
	if (reserved)
		set_aside(s, aside);
	do {
		kvc_lost_poll(c->ctx);
		memset(m, 0, sizeof(m));
		rc = kvc_match(c, s, tokens, n - 1, m);
		if (!rc)
			rc = kvc_match_fit(c, m, n, reserved);
		if (!rc && m[0].len)
			rc = take_match(s, m, tokens);
		kvc_match_put(c, m);
	} while (rc == -ESTALE);	/* each time some page was revoked */
	err = reserved ? take_back(s, aside, n) : 0;
	rc = rc ? rc : err;
	if (rc)
		return rc == -ENOMEM ? kvc_nomem(c->ctx) : rc;
	kvc_tiers_load(s, tokens, n - 1);
	/* No room for a copy is not a failure. */
	kvc_msg_restore(c->ctx, &msg);
	return s->len;
}

int kvc_seq_truncate(struct kvc_seq *s, uint32_t len)
{
	uint32_t i, keep;

	if (s->batch)
		return kvc_fail(s->c->ctx, -EBUSY,
				"the sequence is in a planned batch: commit or abort that first");
	if (s->idle)
		return kvc_seq_awake(s);
	if (len > s->len)
		return kvc_fail(s->c->ctx, -EINVAL,
				"truncate to %u tokens: there are %u", len,
				s->len);
	for (i = 0; i < s->c->l.ngroups; i++)
		if (!kvc_chain_serves(&s->c->l.group[i], s->chain[i].pages,
				      s->chain[i].n, len) ||
		    kvc_chain_lacks(&s->c->l.group[i], &s->chain[i], len))
			return kvc_fail(s->c->ctx, -ENODATA,
					"truncate to %u tokens: the window before them was given back: truncate to 0, and begin with kvc_seq_prefix()",
					len);
	for (i = 0; !s->fixed && i < s->c->l.ngroups; i++) {
		const struct kvc_lgroup *g = &s->c->l.group[i];
		struct kvc_chain *ch = &s->chain[i];

		keep = kvc_pages_for(g, len);
		kvc_pages_put(s->c, ch->pages + keep, ch->n - keep);
		ch->n = keep;
		ch->first = KVC_MIN(ch->first, keep);
		ch->published = KVC_MIN(ch->published, len / g->page_tokens);
	}
	kvc_seq_cut(s, len);
	return 0;
}

uint32_t kvc_seq_len(const struct kvc_seq *s)
{
	return s->len;
}

uint32_t kvc_seq_pages(const struct kvc_seq *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->c->l.ngroups; i++) {
		const struct kvc_chain *ch = &s->chain[i];

		n += kvc_chain_held(&s->c->l.group[i], ch);
		for (uint32_t k = 0; s->idle && k < ch->idle_n; k++)
			n += ch->pages[k] != NULL;
	}
	return n;
}

uint32_t kvc_seq_handles(const struct kvc_seq *s, uint32_t group,
			 uint64_t *out, uint32_t n)
{
	const struct kvc_chain *ch = &s->chain[group];

	if (group >= s->c->l.ngroups)
		return 0;
	for (uint32_t i = 0; i < n && i < ch->n; i++)
		out[i] = ch->pages[i] ? ch->pages[i]->handle : 0;
	return ch->n;
}

const uint32_t *kvc_seq_tokens(const struct kvc_seq *s)
{
	return s->tokens;
}

int kvc_seq_read(const struct kvc_seq *s, uint32_t layer, int is_v,
		 uint32_t head, uint32_t first, uint32_t n, void *out)
{
	const struct kvc_layout *l = &s->c->l;
	const struct kvc_lgroup *g;
	const struct kvc_chain *ch;
	struct kva_view v;
	uint32_t slot, k;
	char *to = out;
	size_t row;
	int rc;

	rc = kvc_seq_awake(s);
	if (!rc)
		rc = kvc_seq_check(s);
	if (rc)
		return rc;
	if (layer >= l->nlayers)
		return kvc_fail(s->c->ctx, -EINVAL, "layer %u of %u", layer,
				l->nlayers);
	if (is_v != 0 && is_v != 1)
		return kvc_fail(s->c->ctx, -EINVAL,
				"is_v %d: 0 for K, 1 for V", is_v);
	g = &l->group[l->layer_group[layer]];
	ch = &s->chain[l->layer_group[layer]];
	if (head >= g->g.kv_heads || first > s->len || n > s->len - first)
		return kvc_fail(s->c->ctx, -EINVAL,
				"head %u of %u, tokens %u to %llu of %u", head,
				g->g.kv_heads, first,
				(unsigned long long)first + n, s->len);
	for (k = first / g->page_tokens; n && k <= (first + n - 1) /
	     g->page_tokens; k++)
		if (!ch->pages[k] || (first < ch->gap_end &&
				      first + n > ch->gap))
			return kvc_fail(s->c->ctx, -ENODATA,
					"layer %u, tokens %u to %u: outside the window, and given back",
					layer, first, first + n);
	row = is_v ? kva_row_size(g->g.v_type, g->g.v_dim) :
		     kva_row_size(g->g.k_type, g->g.k_dim);
	kvc_layout_view(l, layer, s->c->ro, &v);
	for (; n; n -= k, first += k, to += k * row) {
		slot = first % g->page_tokens;
		k = KVC_MIN(n, g->page_tokens - slot);
		kva_rows_read(&v, kvc_page_ro(s->c, ch->pages[first /
			      g->page_tokens]->handle), is_v, head, slot, k,
			      to);
	}
	return 0;
}
