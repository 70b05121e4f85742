// SPDX-License-Identifier: MIT
/*
 * predict.c - how many pages a request takes, and how many could be had.
 *
 * Follows the same steps as kvc_seq_prefix() and kvc_reserve(), with the same
 * functions, but looks without taking. What could be had, the allocator
 * itself says.
 */
#include <string.h>

#include "internal.h"

int kvc_supply(struct kvc_cache *c, uint32_t n, struct kvc_supply *s)
{
	struct kvcache_alloc a = {
		.flags = KVCACHE_ALLOC_CHECK,
		.pool = c->o.pool,
		.nr = n,
	};
	struct kvcache_tenant_get t = {
		.pool = c->o.pool,
		.start = c->ctx->tenant,
	};
	int rc;

	s->status = kvc_call(c->ctx, KVCACHE_NR_ALLOC, &a);
	if (s->status && s->status != -EDQUOT && s->status != -ENOSPC &&
	    s->status != -E2BIG)
		return s->status;
	s->missing = a.out_missing;
	s->available = a.out_available;
	s->limit = a.out_limit;
	rc = kvc_call(c->ctx, KVCACHE_NR_TENANT_GET, &t);
	if (rc)
		return rc;
	s->held = t.out_nr ? t.out_info[0].cur : 0;
	return 0;
}

/*
 * What taking the published pages of a match does to the supply. With
 * @sources, those that are copied from count too: they are held until then.
 */
static int weigh(struct kvc_cache *c, const struct kvc_match *m, bool sources,
		 uint64_t available, uint64_t *idle, uint64_t *left)
{
	struct kvcache_lookup lk = {
		.flags = KVCACHE_LOOKUP_PEEK,
		.pool = c->o.pool,
		.keys_per_page = 1,
	};
	uint32_t g, i, n;
	int rc;

	*idle = 0;
	*left = available;
	for (g = 0; g < c->l.ngroups; g++) {
		n = m[g].n - (!sources && kvc_match_copies(c, g, &m[g]));
		for (i = 0, lk.nr_keys = 0; i < n; i++) {
			if (!m[g].hits[i].page)
				memcpy(lk.keys[lk.nr_keys++], m[g].ends[i],
				       KVCACHE_KEY_LEN);
			if (!lk.nr_keys || (lk.nr_keys < KVCACHE_MAX_KEYS &&
					    i + 1 < n))
				continue;
			rc = kvc_call(c->ctx, KVCACHE_NR_LOOKUP, &lk);
			if (rc)
				return rc;
			*idle += lk.out_idle;
			*left -= KVC_MIN(*left, available - lk.out_available);
			lk.nr_keys = 0;
		}
	}
	return 0;
}

/* A new conversation: what kvc_seq_prefix() would find. */
static int predict_match(struct kvc_cache *c, struct kvc_match *m,
			 uint64_t total, struct kvc_room *r)
{
	uint64_t copies = 0, whole = 0, left;
	uint32_t g, P;
	int rc;

	for (g = 0; g < c->l.ngroups; g++)
		copies += kvc_match_copies(c, g, &m[g]);
	rc = weigh(c, m, true, r->available_pages, &r->idle_pages, &left);
	if (rc)
		return rc;
	if (copies > left)
		kvc_match_trim(c, m, kvc_match_whole(&c->l, m[0].len), true);
	rc = weigh(c, m, false, r->available_pages, &r->idle_pages, &left);
	if (rc)
		return rc;
	for (g = 0; g < c->l.ngroups; g++) {
		P = c->l.group[g].page_tokens;
		whole += m[g].len / P;
		r->new_pages += kvc_pages_for(&c->l.group[g], total) -
				m[g].len / P;
	}
	r->reused_tokens = m[0].len;
	r->fits = r->new_pages <= left;
	r->possible = whole + r->new_pages <= r->limit_pages;
	return 0;
}

int kvc_predict(struct kvc_cache *c, const struct kvc_seq *seq,
		const uint32_t *tokens, uint32_t ntokens, uint32_t extra,
		struct kvc_room *out)
{
	uint8_t root[KVC_MAX_GROUPS][KVCACHE_KEY_LEN];
	struct kvc_match m[KVC_MAX_GROUPS] = { 0 };
	uint64_t total = (uint64_t)ntokens + extra;
	struct kvc_room r = { 0 };
	struct kvc_supply s;
	uint32_t g, max = 0, held = 0;
	int rc;

	if (seq && kvc_seq_pages(seq)) {
		r.new_pages = kvc_seq_need(seq, total);
		held = kvc_seq_pages(seq);
	}
	if (r.new_pages > UINT32_MAX)
		return kvc_fail(c->ctx, -E2BIG, "%llu pages wanted",
				(unsigned long long)r.new_pages);
	rc = kvc_supply(c, r.new_pages, &s);
	if (rc)
		return rc;
	r.held_pages = s.held;
	r.limit_pages = s.limit;
	r.available_pages = s.available;
	if (held) {
		r.fits = !s.status;
		r.possible = held + r.new_pages <= s.limit;
		*out = r;
		return 0;
	}
	if (tokens && ntokens && !(seq ? seq->no_reuse : c->o.no_reuse))
		max = ntokens - 1;
	for (g = 0; g < c->l.ngroups; g++)
		memcpy(root[g], seq ? seq->chain[g].root : c->root[g],
		       KVCACHE_KEY_LEN);
	rc = kvc_match(c, root, tokens, max, true, m);
	if (!rc)
		rc = predict_match(c, m, total, &r);
	kvc_match_put(c, m, true);
	if (!rc)
		*out = r;
	return rc;
}
