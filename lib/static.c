// SPDX-License-Identifier: MIT
/*
 * static.c - sequences whose pages are all there from the beginning, and stay.
 *
 * Their pages are nobody else's at any time: not published, not shared with
 * forks. So each can be written again where it is, whatever is truncated.
 */
#include <string.h>

#include "internal.h"

int kvc_seq_in_range(const struct kvc_seq *s, uint64_t n)
{
	if (!s->fixed || n <= s->fixed - s->len)
		return 0;
	return kvc_fail(s->c->ctx, -ERANGE,
			"%llu more tokens: the sequence is static, has %u, and room for %u: begin one with more",
			(unsigned long long)n, s->len, s->fixed);
}

int kvc_seq_fix(struct kvc_seq *s, uint32_t n)
{
	s->fixed = n;
	s->no_reuse = true;
	return kvc_seq_reserve(s, n, 0);
}

int kvc_seq_fork_fixed(struct kvc_seq *s, struct kvc_seq **out)
{
	struct kvc_cache *c = s->c;
	struct kvc_seq *q = kvc_seq_new(c);
	uint32_t i, k, n, P;
	int rc;

	if (!q)
		return kvc_nomem(c->ctx);
	q->priority = s->priority;
	q->ttl_ns = s->ttl_ns;
	q->own_from = s->own_from;
	memcpy(q->extra, s->extra, sizeof(q->extra));
	rc = kvc_seq_fix(q, s->fixed);
	if (rc) {
		kvc_seq_delete(q);
		return rc;
	}
	for (i = 0; i < c->l.ngroups; i++) {
		struct kvc_chain *from = &s->chain[i], *to = &q->chain[i];

		P = c->l.group[i].page_tokens;
		n = kvc_pages_for(&c->l.group[i], s->len);
		for (k = 0; k < n; k++)
			kvc_page_copy(c, i, to->pages[k]->handle,
				      from->pages[k]->handle,
				      KVC_MIN(P, s->len - k * P));
		to->gap = from->gap;
		to->gap_end = from->gap_end;
		c->st.pages_copied += n;
		memcpy(to->root, from->root, KVCACHE_KEY_LEN);
		memcpy(to->common_root, from->common_root, KVCACHE_KEY_LEN);
	}
	if (s->len)
		memcpy(q->tokens, s->tokens, s->len * sizeof(*s->tokens));
	q->len = s->len;
	*out = q;
	return 0;
}
