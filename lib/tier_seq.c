// SPDX-License-Identifier: MIT
/*
 * tier_seq.c - sequences over tiers: what is copied down, and what is brought
 * in.
 *
 * Bringing in is an append without computing: the pages are reserved as for any
 * step, filled from records, and published as every full page is. So nothing
 * else of the library knows where rows came from. A long prompt is brought in by
 * rounds, each as large as half of the tiers' memory.
 */
#include <stdlib.h>

#include "tier.h"

/* ---- copying down ----------------------------------------------------- */

int kvc_cache_tier(struct kvc_cache *c, struct kvc_tier *t, uint32_t policy)
{
	struct kvc_tiers *ts = c->tiers;
	uint32_t i;

	if (policy > KVC_TIER_SELECTIVE)
		return kvc_fail(c->ctx, -EINVAL, "policy %u: %u to %u can be",
				policy, KVC_TIER_BACK, KVC_TIER_SELECTIVE);
	if (t->ctx && t->ctx != c->ctx)
		return kvc_fail(c->ctx, -EBUSY,
				"the tier is another context's: open one for this");
	for (i = 0; i < c->l.ngroups; i++)
		if (c->l.group[i].g.window)
			return kvc_fail(c->ctx, -EOPNOTSUPP,
					"group %u has a window: tiers keep whole prefixes only",
					i);
	for (i = 0; ts && i < ts->n; i++)
		if (ts->t[i] == t)
			return kvc_fail(c->ctx, -EINVAL,
					"the cache has this tier already");
	if (ts && ts->n == KVC_MAX_TIERS)
		return kvc_fail(c->ctx, -ENOSPC, "the cache has %u tiers: %u can be",
				ts->n, KVC_MAX_TIERS);
	if (!ts)
		ts = calloc(1, sizeof(*ts));
	if (!ts)
		return kvc_nomem(c->ctx);
	t->ctx = c->ctx;
	ts->t[ts->n] = t;
	ts->policy[ts->n++] = policy;
	c->tiers = ts;
	return 0;
}

static uint64_t image_bytes(const struct kvc_lgroup *g)
{
	return g->nlayers * g->layer_bytes;
}

/* The record of page @i, its keys and all but its image. */
static void describe(const struct kvc_seq *s, uint32_t group, uint32_t i,
		     struct kvc_record *rec)
{
	const struct kvc_lgroup *g = &s->c->l.group[group];
	const struct kvc_chain *ch = &s->chain[group];
	uint32_t first = i * g->page_tokens;

	memset(rec, 0, sizeof(*rec));
	rec->bytes = image_bytes(g);
	memcpy(rec->parent, kvc_chain_parent(ch, i), KVCACHE_KEY_LEN);
	rec->nr_keys = kvc_key_page(g, rec->parent, s->tokens + first,
				    KVC_MIN(g->page_tokens, s->len - first),
				    rec->keys);
}

static bool put_page(const struct kvc_seq *s, uint32_t group, uint32_t i,
		     struct kvc_tier *t, uint64_t deadline_ns)
{
	size_t len = kvc_record_len(image_bytes(&s->c->l.group[group]));
	struct kvc_req *r = kvc_req_new(t, KVC_TIER_PUT, len, deadline_ns);

	if (!r)
		return false;
	describe(s, group, i, &r->rec);
	memcpy(r->key, kvc_record_key(&r->rec), KVCACHE_KEY_LEN);
	memcpy(r->buf + KVC_RECORD_HEAD,
	       kvc_page_ro(s->c, s->chain[group].pages[i]->handle),
	       r->rec.bytes);
	kvc_req_submit(t, r);
	return true;
}

void kvc_tiers_published(struct kvc_seq *s, uint32_t group, uint32_t i,
			 bool again)
{
	const struct kvc_tiers *ts = s->c->tiers;
	uint32_t P = s->c->l.group[group].page_tokens;

	if (!ts || ts->loading || (i + 1) * (uint64_t)P > s->len)
		return;
	for (uint32_t k = 0; k < ts->n; k++)
		if (ts->policy[k] == KVC_TIER_THROUGH ||
		    (again && ts->policy[k] == KVC_TIER_SELECTIVE))
			put_page(s, group, i, ts->t[k], 0);
}

/* While this is the same, what was copied to the tiers is still there. */
static uint64_t losses(const struct kvc_tiers *ts)
{
	uint64_t n = 1;

	for (uint32_t k = 0; k < ts->n; k++)
		n += kvc_tier_losses(ts->t[k]);
	return n;
}

void kvc_tiers_found(struct kvc_seq *s)
{
	const struct kvc_tiers *ts = s->c->tiers;
	uint64_t mark;

	if (!ts)
		return;
	mark = losses(ts);
	for (uint32_t k = 0; k < ts->n; k++) {
		if (ts->policy[k] != KVC_TIER_SELECTIVE)
			continue;
		for (uint32_t g = 0; g < s->c->l.ngroups; g++) {
			uint32_t P = s->c->l.group[g].page_tokens;

			for (uint32_t i = 0; i < s->len / P; i++) {
				struct kvc_page *p = s->chain[g].pages[i];

				if (p->tiered == mark ||
				    !put_page(s, g, i, ts->t[k], 0))
					continue;
				if (ts->n == 1)
					p->tiered = mark;
			}
		}
	}
}

uint32_t kvc_tiers_idle(struct kvc_seq *s)
{
	const struct kvc_tiers *ts = s->c->tiers;
	uint64_t mark, until[KVC_MAX_TIERS];
	uint32_t g, i, k, n, full, len = KVC_MIN(s->len, s->own_from);
	struct kvc_page *p;
	uint32_t copied = 0;
	bool all;

	if (!ts || s->no_reuse)
		return 0;
	mark = losses(ts);
	for (k = 0; k < ts->n; k++)
		until[k] = kvc_now_ns() + ts->t[k]->timeout_ns;
	for (g = 0; g < s->c->l.ngroups; g++) {
		/* What follows tokens that are gone is found by nobody. */
		full = len / s->c->l.group[g].page_tokens;
		n = len < s->len ? full : kvc_pages_for(&s->c->l.group[g], len);
		for (i = 0; i < n; i++) {
			p = s->chain[g].pages[i];
			if (i < full && p->tiered == mark)
				continue;
			all = true;
			for (k = 0; k < ts->n; k++)
				all &= put_page(s, g, i, ts->t[k], until[k]);
			if (all && i < full)
				p->tiered = mark;
			copied += all;
		}
	}
	return copied;
}

int kvc_seq_offload(struct kvc_seq *s)
{
	struct kvc_msg msg;
	uint32_t n;
	int rc;

	kvc_msg_save(s->c->ctx, &msg);
	rc = kvc_seq_ready(s);
	if (rc)
		return rc;
	n = kvc_tiers_idle(s);
	kvc_msg_restore(s->c->ctx, &msg);
	return KVC_MIN(n, (uint32_t)INT32_MAX);
}

/* ---- bringing in ------------------------------------------------------ */

/**
 * struct want - one page that is to come
 * @key: the key that it is stored under
 * @r: its record, once there is one
 * @tier: which tier's
 */
struct want {
	uint8_t key[KVCACHE_KEY_LEN];
	struct kvc_req *r;
	uint32_t tier;
};

/**
 * struct bring - what a sequence brings in, a round of it
 * @c: the cache
 * @tokens: the tokens
 * @n: their number: pages up to there are wanted
 * @from: the first token of the round, where a page of each group begins
 * @to: tokens that it would reach
 * @ends: keys at the ends of all full pages of each group
 * @root: of each group
 * @want: [@nwant] pages of each group from @from on
 * @nwant: their number
 * @deadline_ns: no request begins after it
 */
struct bring {
	struct kvc_cache *c;
	const uint32_t *tokens;
	uint32_t n;
	uint32_t from;
	uint32_t to;
	uint8_t (*ends[KVC_MAX_GROUPS])[KVCACHE_KEY_LEN];
	const uint8_t *root[KVC_MAX_GROUPS];
	struct want *want[KVC_MAX_GROUPS];
	uint32_t nwant[KVC_MAX_GROUPS];
	uint64_t deadline_ns;
};

static void bring_free(struct bring *b)
{
	for (uint32_t g = 0; g < b->c->l.ngroups; g++) {
		free(b->ends[g]);
		free(b->want[g]);
	}
}

/* Keys of all pages, from the beginning. -ENOMEM. */
static int bring_init(struct bring *b, const struct kvc_seq *s)
{
	const struct kvc_layout *l = &b->c->l;

	for (uint32_t g = 0; g < l->ngroups; g++) {
		uint32_t pages = kvc_pages_for(&l->group[g], b->n);

		b->root[g] = s ? s->chain[g].root : b->c->root[g];
		b->ends[g] = calloc(pages + 1, KVCACHE_KEY_LEN);
		b->want[g] = calloc(pages + 1, sizeof(**b->want));
		if (!b->ends[g] || !b->want[g])
			return -ENOMEM;
		kvc_key_ends(&l->group[g], b->root[g], b->tokens, b->ends[g],
			     0, b->n / l->group[g].page_tokens);
	}
	return 0;
}

/* The key of page @i: of a full one, or of the one in which all tokens end. */
static void page_key(const struct bring *b, uint32_t g, uint32_t i,
		     uint8_t out[KVCACHE_KEY_LEN])
{
	struct kvcache_key keys[KVCACHE_MAX_PAGE_KEYS];
	const struct kvc_lgroup *l = &b->c->l.group[g];
	uint32_t P = l->page_tokens, k;

	if (i < b->n / P) {
		memcpy(out, b->ends[g][i], KVCACHE_KEY_LEN);
		return;
	}
	k = kvc_key_page(l, i ? b->ends[g][i - 1] : b->root[g],
			 b->tokens + (size_t)i * P, b->n % P, keys);
	memcpy(out, keys[k - 1].key, KVCACHE_KEY_LEN);
}

static size_t page_record(const struct bring *b, uint32_t g)
{
	return kvc_record_len(image_bytes(&b->c->l.group[g]));
}

/* Bytes of records from @b->from to @to tokens. */
static uint64_t round_bytes(const struct bring *b, uint32_t to)
{
	const struct kvc_layout *l = &b->c->l;
	uint64_t bytes = 0;

	for (uint32_t g = 0; g < l->ngroups; g++)
		bytes += page_record(b, g) *
			 (kvc_pages_for(&l->group[g], to) -
			  b->from / l->group[g].page_tokens);
	return bytes;
}

/* How far this round goes. */
static void limit_round(struct bring *b)
{
	const struct kvc_tiers *ts = b->c->tiers;
	uint64_t budget = UINT64_MAX;

	for (uint32_t k = 0; k < ts->n; k++)
		budget = KVC_MIN(budget, ts->t[k]->memory / 2);
	b->to = b->n;
	while (b->to > b->from && round_bytes(b, b->to) > budget)
		b->to = kvc_match_whole(&b->c->l, b->to - 1);
}

/* What of a tier is on its way already, or is asked for now. */
static void ask_tier(struct bring *b, uint32_t k)
{
	struct kvc_tier *t = b->c->tiers->t[k];
	uint64_t until = kvc_now_ns() + t->timeout_ns;

	for (uint32_t g = 0; g < b->c->l.ngroups; g++) {
		for (uint32_t i = 0; i < b->nwant[g]; i++) {
			struct want *w = &b->want[g][i];

			if (w->r)
				continue;
			w->tier = k;
			w->r = kvc_req_find(t, w->key, page_record(b, g));
			if (w->r)
				continue;
			w->r = kvc_req_new(t, KVC_TIER_GET, page_record(b, g),
					   until);
			if (!w->r)
				continue;
			memcpy(w->r->key, w->key, KVCACHE_KEY_LEN);
			kvc_req_submit(t, w->r);
		}
	}
	for (uint32_t g = 0; g < b->c->l.ngroups; g++) {
		for (uint32_t i = 0; i < b->nwant[g]; i++) {
			struct want *w = &b->want[g][i];

			if (!w->r || w->tier != k)
				continue;
			if (kvc_req_wait(t, w->r, until)) {
				w->r = NULL;
			} else if (w->r->rc) {
				kvc_req_free(t, w->r);
				w->r = NULL;
			}
		}
	}
}

static void drop_round(struct bring *b)
{
	for (uint32_t g = 0; g < b->c->l.ngroups; g++) {
		for (uint32_t i = 0; i < b->nwant[g]; i++)
			if (b->want[g][i].r)
				kvc_req_free(b->c->tiers->t[b->want[g][i].tier],
					     b->want[g][i].r);
		b->nwant[g] = 0;
	}
}

/*
 * Read a round; how far it goes with what has come is in @b->to. Is it all?
 */
static bool ask_round(struct bring *b)
{
	const struct kvc_layout *l = &b->c->l;
	uint32_t g, i, first, to;

	limit_round(b);
	for (g = 0; g < l->ngroups; g++) {
		first = b->from / l->group[g].page_tokens;
		b->nwant[g] = kvc_pages_for(&l->group[g], b->to) - first;
		for (i = 0; i < b->nwant[g]; i++) {
			b->want[g][i] = (struct want){ .r = NULL };
			page_key(b, g, first + i, b->want[g][i].key);
		}
	}
	if (b->to > b->from)
		for (i = 0; i < b->c->tiers->n; i++)
			ask_tier(b, i);
	to = b->to;
	for (g = 0; g < l->ngroups; g++) {
		for (i = 0; i < b->nwant[g] && b->want[g][i].r; i++)
			;
		if (i < b->nwant[g])
			to = KVC_MIN(to, b->from + i * l->group[g].page_tokens);
	}
	i = b->to;
	b->to = to == b->n ? to : kvc_match_whole(l, to);
	return b->to == i;
}

/*
 * Make the sequence end where pages begin. A page that it has in part is
 * written over, unless others have it too: it goes back, and with it what is
 * reserved; where something is, false.
 */
static bool rewind_to(struct kvc_seq *s, uint32_t from)
{
	const struct kvc_layout *l = &s->c->l;
	bool shared = false, reserved = false;

	if (s->len == from)
		return true;
	for (uint32_t g = 0; g < l->ngroups; g++) {
		const struct kvc_chain *ch = &s->chain[g];
		uint32_t n = kvc_pages_for(&l->group[g], s->len);

		reserved |= ch->n > n;
		for (uint32_t i = from / l->group[g].page_tokens; i < n; i++)
			shared |= ch->pages[i]->shared ||
				  ch->pages[i]->refs > 1;
	}
	if (shared && reserved)
		return false;
	if (shared)
		return !kvc_seq_truncate(s, from);
	for (uint32_t g = 0; g < l->ngroups; g++) {
		struct kvc_chain *ch = &s->chain[g];
		uint32_t first = from / l->group[g].page_tokens;

		for (uint32_t i = first; i < ch->n; i++)
			kvc_index_del(s->c, ch->pages[i]);
		ch->published = KVC_MIN(ch->published, first);
	}
	s->len = from;
	return true;
}

/* The images of a round into pages of the sequence. */
static void fill_pages(struct kvc_seq *s, const struct bring *b, uint32_t to)
{
	const struct kvc_layout *l = &s->c->l;

	for (uint32_t g = 0; g < l->ngroups; g++) {
		uint32_t first = b->from / l->group[g].page_tokens;
		uint32_t n = kvc_pages_for(&l->group[g], to) - first;

		for (uint32_t i = 0; i < n; i++) {
			const struct want *w = &b->want[g][i];

			memcpy(s->c->rw + s->chain[g].numbers[first + i] *
			       l->page_size, w->r->buf + KVC_RECORD_HEAD,
			       image_bytes(&l->group[g]));
			kvc_tier_count_used(s->c->tiers->t[w->tier], 1);
		}
	}
}

/* What came from a lower tier is copied to those above it that want all. */
static void promote(struct kvc_seq *s, const struct bring *b)
{
	const struct kvc_tiers *ts = s->c->tiers;
	uint64_t mark = losses(ts);

	for (uint32_t g = 0; g < s->c->l.ngroups; g++) {
		uint32_t P = s->c->l.group[g].page_tokens;
		uint32_t first = b->from / P;

		for (uint32_t i = 0; first + i < s->len / P; i++) {
			for (uint32_t k = 0; k < b->want[g][i].tier; k++)
				if (ts->policy[k] != KVC_TIER_BACK)
					put_page(s, g, first + i, ts->t[k], 0);
			if (ts->n == 1)
				s->chain[g].pages[first + i]->tiered = mark;
		}
	}
}

/* Append a round. False: there is no room for it. */
static bool take_round(struct kvc_seq *s, struct bring *b)
{
	struct kvc_item item = { .seq = s, .tokens = b->tokens };
	struct kvc_cache *c = s->c;
	uint32_t was = s->len;

	if (!rewind_to(s, b->from))
		return false;
	item.n = b->to - b->from;
	/* What was there before is no worse off without. */
	if (kvc_reserve(c, &item, 1, 0) || kvc_seq_stale(s)) {
		if (was > s->len && kvc_pages_for(&c->l.group[0], was) <=
				    s->chain[0].n)
			s->len = was;
		return false;
	}
	fill_pages(s, b, b->to);
	memmove(s->tokens + b->from, b->tokens + b->from,
		item.n * sizeof(*s->tokens));
	s->len = b->to;
	c->st.reused_tokens += s->len - KVC_MIN(was, s->len);
	c->tiers->loading = true;
	for (uint32_t g = 0; g < c->l.ngroups; g++) {
		kvc_seq_keys(s, g, b->from / c->l.group[g].page_tokens);
		kvc_publish(s, g, false);
	}
	c->tiers->loading = false;
	promote(s, b);
	return true;
}

void kvc_tiers_load(struct kvc_seq *s, const uint32_t *tokens, uint32_t n)
{
	struct bring b = { .c = s->c, .tokens = tokens, .n = n };
	const struct kvc_tiers *ts = s->c->tiers;
	struct kvc_msg msg;
	bool more = true;

	b.n = KVC_MIN(n, s->own_from);
	if (!ts || s->no_reuse || b.n <= s->len)
		return;
	kvc_msg_save(s->c->ctx, &msg);
	for (uint32_t k = 0; k < ts->n; k++)
		b.deadline_ns = KVC_MAX(b.deadline_ns, ts->t[k]->timeout_ns);
	b.deadline_ns += kvc_now_ns();
	if (bring_init(&b, s))
		more = false;
	while (more && s->len < b.n && kvc_now_ns() < b.deadline_ns) {
		b.from = kvc_match_whole(&s->c->l, s->len);
		more = ask_round(&b);
		if (b.to <= s->len || !take_round(s, &b))
			more = false;
		drop_round(&b);
	}
	bring_free(&b);
	kvc_msg_restore(s->c->ctx, &msg);
}

/* ---- reading ahead ---------------------------------------------------- */

/* Leading full pages that the pool has. */
static int in_pool(struct kvc_cache *c, uint8_t (*ends)[KVCACHE_KEY_LEN],
		   uint32_t n, uint32_t *out)
{
	struct kvcache_lookup lk = {
		.flags = KVCACHE_LOOKUP_PEEK,
		.pool = c->o.pool,
		.keys_per_page = 1,
	};
	uint32_t at = 0;
	int rc;

	do {
		lk.nr_keys = KVC_MIN(n - at, (uint32_t)KVCACHE_MAX_KEYS);
		memcpy(lk.keys, ends + at, lk.nr_keys * KVCACHE_KEY_LEN);
		rc = lk.nr_keys ? kvc_call(c->ctx, KVCACHE_NR_LOOKUP, &lk) : 0;
		if (rc)
			return rc;
		at += lk.nr_keys ? lk.out_nr_keys : 0;
	} while (lk.nr_keys && lk.out_nr_keys == lk.nr_keys && at < n);
	*out = at;
	return 0;
}

/* Is page @i on its way from some tier, or asked for now? */
static bool read_ahead(struct bring *b, uint32_t g, uint32_t i)
{
	const struct kvc_tiers *ts = b->c->tiers;
	uint8_t key[KVCACHE_KEY_LEN];
	struct kvc_req *r;
	int begun;

	page_key(b, g, i, key);
	for (uint32_t k = 0; k < ts->n; k++) {
		begun = kvc_req_begun(ts->t[k], key);
		if (begun > 0)
			return true;
		if (begun == -ENOENT)
			continue;
		r = kvc_req_new(ts->t[k], KVC_TIER_GET, page_record(b, g), 0);
		if (!r)
			continue;
		memcpy(r->key, key, KVCACHE_KEY_LEN);
		r->left = true;
		kvc_req_submit(ts->t[k], r);
		return true;
	}
	return false;
}

int kvc_prefetch(struct kvc_cache *c, const struct kvc_seq *s,
		 const uint32_t *tokens, uint32_t n)
{
	struct bring b = { .c = c, .tokens = tokens, .n = n };
	uint32_t g, i, pages, begun = 0;
	struct kvc_msg msg;
	int rc = 0;

	if (s && !s->idle)
		return kvc_fail(c->ctx, -EINVAL,
				"the sequence is not idle: it has its pages");
	if (s) {
		b.tokens = s->tokens;
		b.n = KVC_MIN(s->len, s->own_from);
	} else {
		b.n = n ? n - 1 : 0;
	}
	if (!c->tiers || !b.n || (s ? s->no_reuse : c->o.no_reuse))
		return 0;
	kvc_msg_save(c->ctx, &msg);
	if (bring_init(&b, s))
		rc = kvc_nomem(c->ctx);
	for (g = 0; !rc && g < c->l.ngroups; g++) {
		rc = in_pool(c, b.ends[g], b.n / c->l.group[g].page_tokens, &i);
		if (rc)
			break;
		pages = kvc_pages_for(&c->l.group[g], b.n);
		while (i < pages && read_ahead(&b, g, i)) {
			i++;
			begun++;
		}
	}
	bring_free(&b);
	if (rc)
		return rc;
	kvc_msg_restore(c->ctx, &msg);
	return begun;
}
