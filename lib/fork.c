// SPDX-License-Identifier: MIT
/*
 * fork.c - sequences that go on from the same tokens, and those that go on from
 * each other's.
 *
 * What forked sequences have in common are references on the same pages. Each is
 * copied by whoever writes to it while others hold it too, which can only be a
 * partly filled tail (kvc_reserve()).
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

int kvc_seq_fork(struct kvc_seq *s, struct kvc_seq **out)
{
	struct kvc_cache *c = s->c;
	uint32_t i, k, n, full;
	struct kvc_msg msg;
	struct kvc_seq *q;
	int rc;

	kvc_msg_save(c->ctx, &msg);
	rc = kvc_seq_ready(s);
	if (rc)
		return rc;
	if (s->fixed)
		return kvc_seq_fork_fixed(s, out);
	q = kvc_seq_new(c);
	if (!q)
		return kvc_nomem(c->ctx);
	q->priority = s->priority;
	q->ttl_ns = s->ttl_ns;
	q->no_reuse = s->no_reuse;
	q->common = s->common;
	q->own_from = s->own_from;
	memcpy(q->extra, s->extra, sizeof(q->extra));
	rc = kvc_tokens_grow(q, s->len);
	for (i = 0; !rc && i < c->l.ngroups; i++)
		rc = kvc_chain_grow(&q->chain[i],
				    kvc_pages_for(&c->l.group[i], s->len));
	if (rc) {
		kvc_seq_delete(q);
		return kvc_nomem(c->ctx);
	}
	if (s->len)
		memcpy(q->tokens, s->tokens, s->len * sizeof(*s->tokens));
	q->len = s->len;
	for (i = 0; i < c->l.ngroups; i++) {
		struct kvc_chain *from = &s->chain[i], *to = &q->chain[i];

		kvc_publish(s, i, false);
		n = kvc_pages_for(&c->l.group[i], s->len);
		full = kvc_seq_full(s, i);
		for (k = 0; k < n; k++) {
			if (from->pages[k])
				from->pages[k]->refs++;
			kvc_chain_set(to, k, from->pages[k]);
		}
		to->n = n;
		to->first = from->first;
		to->gap = from->gap;
		to->gap_end = from->gap_end;
		to->published = from->published;
		if (full)
			memcpy(to->ends, from->ends, full * sizeof(*to->ends));
		memcpy(to->root, from->root, KVCACHE_KEY_LEN);
		memcpy(to->common_root, from->common_root, KVCACHE_KEY_LEN);
	}
	/* Pages that could not be published stay private. */
	kvc_msg_restore(c->ctx, &msg);
	*out = q;
	return 0;
}


static int check_order(struct kvc_seq *const *seqs, const uint32_t *from,
		       uint32_t n)
{
	struct kvc *ctx = seqs[0]->c->ctx;
	int rc = 0;

	for (uint32_t i = 0; !rc && i < n; i++) {
		struct kvc_seq *s = seqs[i];

		for (uint32_t k = 0; k < i; k++)
			if (seqs[k] == s)
				return kvc_fail(ctx, -EINVAL,
						"sequence %u is there twice",
						i);
		if (s->c != seqs[0]->c)
			return kvc_fail(ctx, -EINVAL,
					"sequence %u is of another cache", i);
		if (from[i] >= n)
			return kvc_fail(ctx, -EINVAL,
					"sequence %u from %u of %u", i, from[i],
					n);
		if (s->fixed && from[i] != i)
			return kvc_fail(ctx, -EINVAL,
					"sequence %u is static: its pages stay",
					i);
		if (s->batch)
			return kvc_fail(ctx, -EBUSY,
					"sequence %u is in a planned batch: commit or abort that first",
					i);
		rc = kvc_seq_awake(s);
		if (!rc)
			rc = kvc_seq_check(s);
	}
	return rc;
}

/* What they are called, and their places in the list, stay. */
static void exchange(struct kvc_seq *a, struct kvc_seq *b)
{
	struct kvc_seq t = *a;
	struct kvc_seq *a_prev = a->prev, *a_next = a->next;
	struct kvc_seq *b_prev = b->prev, *b_next = b->next;

	*a = *b;
	*b = t;
	a->prev = a_prev;
	a->next = a_next;
	b->prev = b_prev;
	b->next = b_next;
	for (uint32_t i = 0; i < a->c->l.ngroups; i++) {
		struct kvc_chain ch = a->chain[i];

		a->chain[i] = b->chain[i];
		b->chain[i] = ch;
	}
}

int kvc_seq_reorder(struct kvc_seq *const *seqs, const uint32_t *from,
		    uint32_t n)
{
	struct kvc_seq **next;
	struct kvc *ctx;
	uint32_t i;
	int rc;

	if (!n)
		return 0;
	ctx = seqs[0]->c->ctx;
	rc = check_order(seqs, from, n);
	if (rc)
		return rc;
	next = calloc(n, sizeof(*next));
	if (!next)
		return kvc_nomem(ctx);
	for (i = 0; !rc && i < n; i++)
		if (from[i] != i)
			rc = kvc_seq_fork(seqs[from[i]], &next[i]);
	/* All of them are there: nothing fails any more. */
	for (i = 0; !rc && i < n; i++)
		if (next[i])
			exchange(seqs[i], next[i]);
	for (i = 0; i < n; i++)
		kvc_seq_free(next[i], KVC_SEQ_DISCARD);
	free(next);
	return rc;
}
