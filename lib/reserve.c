// SPDX-License-Identifier: MIT
/*
 * reserve.c - room for the next tokens of one sequence, or of a whole step.
 *
 * First everything is counted, then it is asked whether the pages could be
 * had, then memory is got, and only then pages change hands: a step has all of
 * its pages or none.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

int kvc_chain_grow(struct kvc_chain *ch, uint32_t want)
{
	uint32_t cap = KVC_MAX(want, KVC_MAX(ch->cap * 2, 8u));
	void *p;

	if (want <= ch->cap)
		return 0;
	p = reallocarray(ch->pages, cap, sizeof(*ch->pages));
	if (!p)
		return -ENOMEM;
	ch->pages = p;
	p = reallocarray(ch->numbers, cap, sizeof(*ch->numbers));
	if (!p)
		return -ENOMEM;
	ch->numbers = p;
	p = reallocarray(ch->ends, cap, sizeof(*ch->ends));
	if (!p)
		return -ENOMEM;
	ch->ends = p;
	ch->cap = cap;
	return 0;
}

int kvc_tokens_grow(struct kvc_seq *s, uint32_t want)
{
	uint32_t *p = kvc_regrow(s->tokens, &s->tokens_cap, want, sizeof(*p));

	if (!p)
		return -ENOMEM;
	s->tokens = p;
	return 0;
}

static uint64_t missing(const struct kvc_seq *s, uint32_t group, uint64_t n)
{
	uint64_t want;

	/* A planned step has pages for all of its tokens, whatever a window. */
	if (!s->batch && !s->fixed)
		n = kvc_window_step(s->c, group, n);
	want = kvc_pages_for(&s->c->l.group[group], s->len + n);

	return want - KVC_MIN(want, s->chain[group].n);
}

/* The partly filled page, which the next token goes to; or NULL. */
static struct kvc_page *tail_of(const struct kvc_seq *s, uint32_t group)
{
	uint32_t P = s->c->l.group[group].page_tokens;

	return s->len % P ? s->chain[group].pages[s->len / P] : NULL;
}

static bool must_copy(const struct kvc_page *tail)
{
	return tail->shared || tail->refs - tail->leaving > 1;
}

uint64_t kvc_seq_need(const struct kvc_seq *s, uint64_t n)
{
	const struct kvc_page *tail;
	uint64_t need = 0;

	for (uint32_t i = 0; n && i < s->c->l.ngroups; i++) {
		tail = tail_of(s, i);
		need += missing(s, i, n) + (tail && must_copy(tail));
	}
	return need;
}

/* Pages that all items take; @leaving is set where a tail is to be copied. */
static uint64_t count(const struct kvc_item *items, uint32_t n)
{
	struct kvc_page *tail;
	uint64_t need = 0;

	for (uint32_t k = 0; k < n; k++) {
		const struct kvc_seq *s = items[k].seq;

		need += kvc_seq_need(s, items[k].n);
		for (uint32_t i = 0; i < s->c->l.ngroups; i++) {
			tail = tail_of(s, i);
			if (tail && must_copy(tail))
				tail->leaving++;
		}
	}
	for (uint32_t k = 0; k < n; k++) {
		for (uint32_t i = 0; i < items[k].seq->c->l.ngroups; i++) {
			tail = tail_of(items[k].seq, i);
			if (tail)
				tail->leaving = 0;
		}
	}
	return need;
}

static int grow(const struct kvc_item *items, uint32_t n)
{
	for (uint32_t k = 0; k < n; k++) {
		struct kvc_seq *s = items[k].seq;
		int rc = kvc_tokens_grow(s, s->len + items[k].n);

		for (uint32_t i = 0; !rc && i < s->c->l.ngroups; i++)
			rc = kvc_chain_grow(&s->chain[i], s->chain[i].n +
					    missing(s, i, items[k].n));
		if (rc)
			return rc;
	}
	return 0;
}

/* Make the tail this sequence's own; returns how many pages of @fresh it took. */
static uint32_t own_tail(struct kvc_seq *s, uint32_t group,
			 struct kvc_page **fresh)
{
	uint32_t P = s->c->l.group[group].page_tokens, at = s->len / P;
	struct kvc_page *tail = tail_of(s, group);

	if (!tail)
		return 0;
	if (!must_copy(tail)) {
		/* What it was known to hold past the length is overwritten. */
		kvc_index_del(s->c, tail);
		return 0;
	}
	kvc_page_copy(s->c, group, fresh[0]->handle, tail->handle, s->len % P);
	s->c->st.pages_copied++;
	kvc_chain_set(&s->chain[group], at, fresh[0]);
	kvc_pages_put(s->c, &tail, 1);
	return 1;
}

int kvc_reserve(struct kvc_cache *c, const struct kvc_item *items, uint32_t n,
		uint64_t deadline_ns)
{
	uint32_t k, i, add, used = 0;
	struct kvc_page **fresh;
	uint64_t need;
	int rc;

	rc = kvc_items_check(c, items, n);
	for (k = 0; !rc && k < n; k++)
		rc = kvc_seq_in_range(items[k].seq, items[k].n);
	if (rc)
		return rc;
	need = count(items, n);
	if (need > UINT32_MAX)
		return kvc_fail(c->ctx, -E2BIG, "%llu pages wanted at once",
				(unsigned long long)need);
	/* Before memory: what is refused is refused whatever its size. */
	rc = need ? kvc_pages_check(c, need, deadline_ns) : 0;
	if (rc)
		return rc;
	rc = grow(items, n);
	if (rc)
		return kvc_nomem(c->ctx);
	fresh = kvc_regrow(c->fresh, &c->fresh_cap, need, sizeof(*fresh));
	if (!fresh)
		return kvc_nomem(c->ctx);
	c->fresh = fresh;
	if (need) {
		rc = kvc_pages_alloc(c, need, deadline_ns, fresh);
		if (rc)
			return rc;
		/* They may be pages that were revoked just now. */
		rc = kvc_items_check(c, items, n);
		if (rc) {
			kvc_pages_put(c, fresh, need);
			return rc;
		}
	}
	for (k = 0; k < n; k++) {
		struct kvc_seq *s = items[k].seq;

		for (i = 0; i < c->l.ngroups; i++) {
			struct kvc_chain *ch = &s->chain[i];

			used += own_tail(s, i, fresh + used);
			add = missing(s, i, items[k].n);
			while (add--)
				kvc_chain_set(ch, ch->n++, fresh[used++]);
		}
	}
	return 0;
}

int kvc_seq_reserve(struct kvc_seq *s, uint32_t n, uint64_t deadline_ns)
{
	const struct kvc_item item = { .seq = s, .n = n };

	if (s->batch)
		return kvc_fail(s->c->ctx, -EBUSY,
				"the sequence is in a planned batch: commit or abort that first");
	if (s->idle)
		return kvc_seq_awake(s);
	if (n > UINT32_MAX - s->len)
		return kvc_fail(s->c->ctx, -E2BIG,
				"a sequence of more than 2^32 - 1 tokens");
	return n ? kvc_reserve(s->c, &item, 1, deadline_ns) : 0;
}
