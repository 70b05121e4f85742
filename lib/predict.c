// SPDX-License-Identifier: MIT
/*
 * predict.c - how many pages a request takes, and how many could be had.
 *
 * Follows the same steps as kvc_seq_prefix() and kvc_reserve(), with the same
 * functions, but looks without taking.
 */
#include <string.h>

#include "internal.h"

/*
 * What the ledger's rule gives: free pages less what others were promised,
 * the own cached pages, and those of others above their min. Of tenants that
 * may not be seen, cached pages count as available.
 */
int kvc_supply(struct kvc_cache *c, struct kvc_supply *s)
{
	struct kvcache_tenant_get t = { .pool = c->o.pool };
	uint64_t debt = 0, promised = 0, cached, max = KVCACHE_LIMIT_MAX;
	uint64_t own_cached = 0, kept = 0;
	struct kvcache_pool_info pool;
	int rc;

	memset(s, 0, sizeof(*s));
	rc = kvc_pool_info(c->ctx, c->o.pool, &pool, &s->tenant);
	if (rc)
		return rc;
	cached = pool.nr_cached;
	do {
		rc = kvc_call(c->ctx, KVCACHE_NR_TENANT_GET, &t);
		if (rc)
			return rc;
		for (uint32_t i = 0; i < t.out_nr; i++) {
			const struct kvcache_tenant_info *ti = &t.out_info[i];
			uint64_t spare = ti->cur - KVC_MIN(ti->cur, ti->min);

			if (ti->id == s->tenant) {
				s->held = ti->cur;
				max = ti->max;
				own_cached = ti->nr_cached;
				continue;
			}
			promised += ti->min;
			debt += ti->min - KVC_MIN(ti->cur, ti->min);
			kept += ti->nr_cached - KVC_MIN(ti->nr_cached, spare);
		}
		t.start = t.out_next;
	} while (t.start);

	s->pool = pool.nr_free + cached - kept;
	s->pool -= KVC_MIN(s->pool, debt);
	s->own = max;
	if (max != KVCACHE_LIMIT_MAX)
		s->own -= KVC_MIN(max, s->held - own_cached);
	s->limit = KVC_MIN(max, pool.nr_pages - promised);
	if (pool.draining)
		s->pool = 0;
	return 0;
}

/* Cached pages among those of a match: taking them is taking supply. */
struct idle {
	uint64_t all;
	uint64_t own;
};

/* PAGE_GET tells 256 pages; those of one chain are often near each other. */
static int is_cached(struct kvc_cache *c, struct kvcache_page_get *pg,
		     uint64_t handle, bool *cached)
{
	uint32_t number = kvc_page_number(handle), i;
	int rc;

	if (!pg->out_nr || number < pg->start ||
	    number > kvc_page_number(pg->out_info[pg->out_nr - 1].handle)) {
		pg->pool = c->o.pool;
		pg->start = number;
		rc = kvc_call(c->ctx, KVCACHE_NR_PAGE_GET, pg);
		if (rc)
			return rc;
	}
	*cached = false;
	for (i = 0; i < pg->out_nr; i++)
		if (pg->out_info[i].handle == handle)
			*cached = pg->out_info[i].state == KVCACHE_PAGE_CACHED;
	return 0;
}

static int count_idle(struct kvc_cache *c, const struct kvc_match *m,
		      uint32_t tenant, bool sources, struct idle *idle)
{
	struct kvcache_page_get pg = { .out_nr = 0 };
	const struct kvc_page *p;
	uint32_t g, i, n;
	bool cached;
	int rc;

	memset(idle, 0, sizeof(*idle));
	for (g = 0; g < c->l.ngroups; g++) {
		n = m[g].n;
		if (!sources && kvc_match_copies(c, g, &m[g]))
			n--;
		for (i = 0; i < n; i++) {
			p = kvc_page_find(c, m[g].hits[i].handle);
			if (p && p->refs)
				continue;
			rc = is_cached(c, &pg, m[g].hits[i].handle, &cached);
			if (rc)
				return rc;
			idle->all += cached;
			idle->own += cached && m[g].hits[i].domain == tenant;
		}
	}
	return 0;
}

static bool fits(const struct kvc_supply *s, const struct idle *idle,
		 uint64_t n)
{
	return n + idle->all <= s->pool &&
	       (s->own == KVCACHE_LIMIT_MAX || n + idle->own <= s->own);
}

/* A new conversation: what kvc_seq_prefix() would find. */
static int predict_match(struct kvc_cache *c, struct kvc_match *m,
			 const struct kvc_supply *s, uint64_t total,
			 struct kvc_room *r)
{
	uint64_t copies = 0, whole = 0;
	struct idle idle;
	uint32_t g, P;
	int rc;

	rc = count_idle(c, m, s->tenant, true, &idle);
	if (rc)
		return rc;
	for (g = 0; g < c->l.ngroups; g++)
		copies += kvc_match_copies(c, g, &m[g]);
	if (copies && !fits(s, &idle, copies))
		kvc_match_trim(c, m, kvc_match_whole(&c->l, m[0].len), true);
	rc = count_idle(c, m, s->tenant, false, &idle);
	if (rc)
		return rc;
	for (g = 0; g < c->l.ngroups; g++) {
		P = c->l.group[g].page_tokens;
		whole += m[g].len / P;
		r->new_pages += total / P + !!(total % P) - m[g].len / P;
	}
	r->reused_tokens = m[0].len;
	r->idle_pages = idle.all;
	r->fits = fits(s, &idle, r->new_pages);
	r->possible = whole + r->new_pages <= s->limit;
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
	uint32_t g, max = 0;
	bool fresh;
	int rc;

	rc = kvc_supply(c, &s);
	if (rc)
		return rc;
	r.held_pages = s.held;
	r.limit_pages = s.limit;
	r.available_pages = KVC_MIN(s.pool, s.own);
	fresh = !seq || !kvc_seq_pages(seq);
	if (!fresh) {
		r.new_pages = kvc_seq_need(seq, total);
		r.fits = fits(&s, &(struct idle) { 0 }, r.new_pages);
		r.possible = kvc_seq_pages(seq) + r.new_pages <= s.limit;
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
		rc = predict_match(c, m, &s, total, &r);
	kvc_match_put(c, m, true);
	if (!rc)
		*out = r;
	return rc;
}
