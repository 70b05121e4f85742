// SPDX-License-Identifier: MIT
/*
 * predict.c - how many pages a request takes, and how many could be had.
 *
 * Takes the same steps as kvc_seq_prefix() and kvc_reserve(), with the same
 * functions: what is found is held while the allocator itself says whether the
 * rest could be had, and then given back.
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

static int too_many(struct kvc_cache *c, uint64_t pages)
{
	return kvc_fail(c->ctx, -E2BIG, "%llu pages wanted",
			(unsigned long long)pages);
}

/* Pages of a match that nobody else uses, its references given back. */
static int count_idle(struct kvc_cache *c, const struct kvc_match *m,
		      const uint32_t *held, uint64_t *idle)
{
	struct kvcache_lookup lk = {
		.flags = KVCACHE_LOOKUP_PEEK,
		.pool = c->o.pool,
		.keys_per_page = 1,
	};
	uint32_t g, i, n;
	int rc;

	for (g = 0; g < c->l.ngroups; g++) {
		for (i = 0; i < held[g]; i += n) {
			n = 1;
			if (!m[g].pages[i])	/* outside the window */
				continue;
			while (n < KVCACHE_MAX_KEYS && i + n < held[g] &&
			       m[g].pages[i + n])
				n++;
			lk.nr_keys = n;
			memcpy(lk.keys, m[g].by[i], n * KVCACHE_KEY_LEN);
			rc = kvc_call(c->ctx, KVCACHE_NR_LOOKUP, &lk);
			if (rc)
				return rc;
			*idle += lk.out_idle;
		}
	}
	return 0;
}

/* Pages for a prompt of which @have tokens are cached, and for what follows. */
static uint64_t pages_for_prompt(const struct kvc_cache *c, uint32_t group,
				 uint32_t have, uint32_t ntokens,
				 uint64_t total)
{
	const struct kvc_lgroup *g = &c->l.group[group];

	/* What follows goes where the window has left room, token by token. */
	if (g->span && c->o.step)
		total = KVC_MIN(total, (uint64_t)ntokens + 1);
	return kvc_pages_for(g, have +
			     kvc_window_step(c, group, total - have));
}

/*
 * A new conversation: find what kvc_seq_prefix() would, ask for room beside
 * it, and give it back.
 */
static int predict_match(struct kvc_cache *c, struct kvc_match *m,
			 uint32_t ntokens, uint64_t total, struct kvc_room *r)
{
	uint64_t pages = 0, whole = 0, most = 0;
	uint32_t g, i, held[KVC_MAX_GROUPS];
	struct kvc_supply s;
	int rc;

	rc = kvc_match_fit(c, m, ntokens, false);
	if (rc)
		return rc;
	r->reused_tokens = m[0].len;
	for (g = 0; g < c->l.ngroups; g++) {
		const struct kvc_lgroup *l = &c->l.group[g];

		held[g] = m[g].n - kvc_match_copies(c, g, &m[g]);
		i = m[g].len / l->page_tokens;
		whole += i;
		pages += pages_for_prompt(c, g, m[g].len, ntokens, total);
		most += kvc_window_peak(c, g, total,
			kvc_window_step(c, g, ntokens - m[g].len));
		/* A page held in part is given back once its rows are copied. */
		kvc_pages_put(c, m[g].pages + i, m[g].n - i);
		m[g].n = i;
	}
	r->new_pages = pages - whole;
	if (r->new_pages > UINT32_MAX)
		return too_many(c, r->new_pages);
	rc = kvc_supply(c, r->new_pages, &s);
	if (rc)
		return rc;
	r->fits = !s.status;
	r->most_pages = most;
	r->possible = most <= s.limit;
	for (g = 0; g < c->l.ngroups; g++) {
		kvc_pages_put(c, m[g].pages, m[g].n);
		m[g].n = 0;
	}
	return count_idle(c, m, held, &r->idle_pages);
}

static int predict(struct kvc_cache *c, const struct kvc_seq *seq,
		   const uint32_t *tokens, uint32_t ntokens, uint32_t extra,
		   struct kvc_room *out)
{
	struct kvc_match m[KVC_MAX_GROUPS] = { 0 };
	uint64_t total = (uint64_t)ntokens + extra;
	struct kvc_room r = { 0 };
	struct kvc_supply s;
	uint32_t max = 0, held = 0;
	int rc;

	kvc_lost_poll(c->ctx);
	rc = seq ? kvc_seq_awake(seq) : 0;
	if (!rc && seq)
		rc = kvc_seq_in_range(seq, total);
	if (rc)
		return rc;
	if (seq && kvc_seq_pages(seq)) {
		rc = kvc_seq_check(seq);
		if (rc)
			return rc;
		r.new_pages = kvc_seq_need(seq, total);
		held = kvc_seq_pages(seq);
	}
	if (r.new_pages > UINT32_MAX)
		return too_many(c, r.new_pages);
	rc = kvc_supply(c, r.new_pages, &s);
	if (rc)
		return rc;
	r.held_pages = s.held;
	r.limit_pages = s.limit;
	r.available_pages = s.available;
	if (held) {
		r.fits = !s.status;
		r.most_pages = held + r.new_pages;
		r.possible = r.most_pages <= s.limit;
		*out = r;
		return 0;
	}
	if (tokens && ntokens && !(seq ? seq->no_reuse : c->o.no_reuse))
		max = ntokens - 1;
	rc = kvc_match(c, seq, tokens, max, m);
	if (!rc)
		rc = predict_match(c, m, ntokens, total, &r);
	kvc_match_put(c, m);
	if (!rc)
		*out = r;
	return rc == -ENOMEM ? kvc_nomem(c->ctx) : rc;
}

int kvc_predict(struct kvc_cache *c, const struct kvc_seq *seq,
		const uint32_t *tokens, uint32_t ntokens, uint32_t extra,
		struct kvc_room *out)
{
	struct kvc_msg msg;
	int rc;

	kvc_msg_save(c->ctx, &msg);
	rc = predict(c, seq, tokens, ntokens, extra, out);
	/* That there is no room is the answer. */
	if (!rc)
		kvc_msg_restore(c->ctx, &msg);
	return rc;
}
