// SPDX-License-Identifier: MIT
/*
 * idle.c - a conversation that nobody reads for a while.
 *
 * Its published pages are given back: they stay cached, and are found again by
 * their keys. Its own are made volatile. Either kind is there for whoever wants
 * pages, without asking. While it is idle a chain's @n is 0 and @idle_n is what
 * it was, so that no other code sees these pages; those given back are NULL.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Pages @at[0, @n): what is refused for all may be had for some. */
static void set_volatile(struct kvc_cache *c, struct kvc_page *const *at,
			 uint32_t n)
{
	struct kvcache_advise a = {
		.pool = c->o.pool,
		.advice = KVCACHE_ADVISE_VOLATILE,
		.nr = n,
	};
	uint32_t i;

	if (!n)
		return;
	for (i = 0; i < n; i++)
		a.pages[i] = at[i]->handle;
	if (!kvc_call(c->ctx, KVCACHE_NR_ADVISE, &a)) {
		for (i = 0; i < n; i++)
			at[i]->yielded = true;
		return;
	}
	for (i = 0; n > 1 && i < n; i++)
		set_volatile(c, at + i, 1);
}

/* Who else has a page goes on with it, so it stays as it is. */
static void yield_private(struct kvc_cache *c, struct kvc_chain *ch)
{
	struct kvc_page *at[KVCACHE_MAX_PAGES], *p;
	uint32_t n = 0;

	for (uint32_t i = 0; i < ch->n; i++) {
		p = ch->pages[i];
		if (!p || p->shared || p->refs > 1)
			continue;
		/* Nobody else may find it: it may be gone by then. */
		kvc_index_del(c, p);
		at[n++] = p;
		if (n < KVCACHE_MAX_PAGES)
			continue;
		set_volatile(c, at, n);
		n = 0;
	}
	set_volatile(c, at, n);
}

/* Published pages, last first: what is put later is reclaimed later. */
static void yield_shared(struct kvc_cache *c, struct kvc_chain *ch)
{
	uint32_t end = ch->n, at;

	while (end) {
		at = end;
		while (at && ch->pages[at - 1] && ch->pages[at - 1]->shared)
			at--;
		kvc_pages_put(c, ch->pages + at, end - at);
		for (; end > at; end--)
			ch->pages[end - 1] = NULL;
		end -= !!end;
	}
}

int kvc_seq_idle(struct kvc_seq *s)
{
	struct kvc_cache *c = s->c;
	struct kvc_msg msg;
	uint32_t i, keep;
	int rc;

	kvc_msg_save(c->ctx, &msg);
	if (s->batch)
		return kvc_fail(c->ctx, -EBUSY,
				"the sequence is in a planned batch: commit or abort that first");
	if (s->idle || s->fixed)
		return 0;
	rc = kvc_seq_check(s);
	if (rc)
		return rc;
	kvc_tiers_idle(s);
	for (i = 0; i < c->l.ngroups; i++) {
		struct kvc_chain *ch = &s->chain[i];

		keep = kvc_pages_for(&c->l.group[i], s->len);
		kvc_pages_put(c, ch->pages + keep, ch->n - keep);
		ch->n = keep;
		kvc_publish(s, i, false);
		yield_private(c, ch);
		yield_shared(c, ch);
		ch->idle_n = ch->n;
		ch->n = 0;
	}
	s->idle = true;
	/* A page that cannot be given up stays. */
	kvc_msg_restore(c->ctx, &msg);
	return 0;
}

/* Pages @at[0, @n) are not to be taken any more: those that were are lost. */
static int keep_pages(struct kvc_cache *c, struct kvc_page *const *at,
		      uint32_t n)
{
	struct kvcache_advise a = {
		.pool = c->o.pool,
		.advice = KVCACHE_ADVISE_NONVOLATILE,
		.nr = n,
	};
	uint32_t i;
	int rc;

	if (!n)
		return 0;
	for (i = 0; i < n; i++)
		a.pages[i] = at[i]->handle;
	rc = kvc_call(c->ctx, KVCACHE_NR_ADVISE, &a);
	if (rc == -ESTALE && n == 1) {
		/* Revoked, and not taken. */
		a.out_state[0] = KVCACHE_ADVISE_TAKEN;
		rc = 0;
	} else if (rc == -ESTALE) {
		for (i = 0, rc = 0; !rc && i < n; i++)
			rc = keep_pages(c, at + i, 1);
		return rc;
	}
	for (i = 0; !rc && i < n; i++) {
		at[i]->yielded = false;
		if (a.out_state[i] == KVCACHE_ADVISE_TAKEN)
			kvc_page_lose(c, at[i]);
	}
	return rc;
}

static int keep_private(struct kvc_cache *c, struct kvc_chain *ch)
{
	struct kvc_page *at[KVCACHE_MAX_PAGES];
	uint32_t i, n = 0;
	int rc = 0;

	for (i = 0; !rc && i < ch->idle_n; i++) {
		if (ch->pages[i] && ch->pages[i]->yielded)
			at[n++] = ch->pages[i];
		if (n < KVCACHE_MAX_PAGES)
			continue;
		rc = keep_pages(c, at, n);
		n = 0;
	}
	return rc ? rc : keep_pages(c, at, n);
}

/*
 * Keys of pages [@at, @at + @n) of a chain, of which the last may be partly
 * filled; in the commons, which have full ones only, as many as there are.
 */
static void keys_of(const struct kvc_seq *s, uint32_t group, uint32_t at,
		    uint32_t n, uint8_t (*common)[KVCACHE_KEY_LEN],
		    struct kvcache_lookup *lk)
{
	uint32_t P = s->c->l.group[group].page_tokens, full = s->len / P, k;
	struct kvcache_key keys[KVCACHE_MAX_PAGE_KEYS];
	const struct kvc_chain *ch = &s->chain[group];

	if (common)
		n = KVC_MIN(n, full - KVC_MIN(full, at));
	for (uint32_t i = 0; i < n; i++) {
		if (at + i < full) {
			memcpy(lk->keys[i],
			       common ? common[at + i] : ch->ends[at + i],
			       KVCACHE_KEY_LEN);
			continue;
		}
		k = kvc_key_page(&s->c->l.group[group],
				 kvc_chain_parent(ch, full),
				 s->tokens + (size_t)full * P, s->len % P,
				 keys);
		memcpy(lk->keys[i], keys[k - 1].key, KVCACHE_KEY_LEN);
	}
	lk->nr_keys = n;
}

/* Pages from @i on to @end, as far as there are any, in one of the domains. */
static int find_run(struct kvc_seq *s, uint32_t group, uint32_t *i,
		    uint32_t end, uint8_t (*common)[KVCACHE_KEY_LEN])
{
	struct kvcache_lookup lk = { .keys_per_page = 1 };
	struct kvc_chain *ch = &s->chain[group];
	uint32_t n = 0, k;
	int rc;

	while (n < KVCACHE_MAX_KEYS && *i + n < end &&
	       !ch->pages[*i + n])
		n++;
	keys_of(s, group, *i, n, common, &lk);
	if (!lk.nr_keys)
		return 0;
	rc = kvc_lookup(s->c, &lk, ch->pages + *i);
	if (rc)
		return rc;
	for (k = 0; k < lk.out_nr_pages; k++, ++*i)
		kvc_chain_set(ch, *i, ch->pages[*i]);
	return 0;
}

/* Pages that were given back, from *@keep on to @end; *@keep: how far. */
static int find_pages(struct kvc_seq *s, uint32_t group, uint32_t end,
		      uint8_t (*common)[KVCACHE_KEY_LEN], uint32_t *keep)
{
	struct kvc_chain *ch = &s->chain[group];
	uint32_t i = *keep, was;
	int rc = 0;

	do {
		was = i;
		while (i < end && ch->pages[i] && !ch->pages[i]->lost)
			i++;
		if (i < end && !ch->pages[i])
			rc = find_run(s, group, &i, end, NULL);
		if (!rc && common && i < end && !ch->pages[i])
			rc = find_run(s, group, &i, end, common);
	} while (!rc && i > was);
	*keep = i;
	return rc;
}

/*
 * The sinks' pages, and then the window's; *@keep: how far they are there. What
 * is between is not wanted.
 */
static int find_shared(struct kvc_seq *s, uint32_t group, uint32_t *keep)
{
	const struct kvc_lgroup *g = &s->c->l.group[group];
	const struct kvc_chain *ch = &s->chain[group];
	uint32_t sinks = KVC_MIN(kvc_sink_pages(g), ch->idle_n);
	uint8_t (*common)[KVCACHE_KEY_LEN] = NULL;
	uint32_t full = s->len / g->page_tokens;
	int rc;

	if (s->c->o.commons && full) {
		common = calloc(full, sizeof(*common));
		if (!common)
			return -ENOMEM;
		kvc_key_ends(g, s->chain[group].common_root, s->tokens, common,
			     0, full);
	}
	*keep = 0;
	rc = find_pages(s, group, sinks, common, keep);
	if (!rc && *keep == sinks) {
		*keep = KVC_MAX(sinks, ch->first);
		rc = find_pages(s, group, ch->idle_n, common, keep);
	}
	free(common);
	return rc;
}

/* The end of it: what is behind @len tokens goes back, whatever is there. */
static void wake_up(struct kvc_seq *s, uint32_t len)
{
	uint32_t i, k, keep;

	for (i = 0; i < s->c->l.ngroups; i++) {
		const struct kvc_lgroup *g = &s->c->l.group[i];
		struct kvc_chain *ch = &s->chain[i];

		keep = kvc_pages_for(g, len);
		for (k = ch->idle_n; k > keep; k--)
			if (ch->pages[k - 1])
				kvc_pages_put(s->c, &ch->pages[k - 1], 1);
		ch->n = keep;
		ch->idle_n = 0;
		ch->first = KVC_MIN(ch->first, keep);
		ch->published = KVC_MIN(ch->published, len / g->page_tokens);
	}
	kvc_seq_cut(s, len);
	s->idle = false;
}

static bool serves(const struct kvc_seq *s, uint32_t group, uint32_t len)
{
	const struct kvc_chain *ch = &s->chain[group];

	return kvc_chain_serves(&s->c->l.group[group], ch->pages, ch->idle_n,
				len) &&
	       !kvc_chain_lacks(&s->c->l.group[group], ch, len);
}

int kvc_idle_wake(struct kvc_seq *s)
{
	struct kvc_cache *c = s->c;
	uint32_t i, keep = 0, len;
	struct kvc_msg msg;
	int rc = 0;

	kvc_msg_save(c->ctx, &msg);
	if (!s->idle)
		return KVC_MIN(s->len, (uint32_t)INT32_MAX);
	for (i = 0; !rc && i < c->l.ngroups; i++)
		rc = keep_private(c, &s->chain[i]);
	kvc_lost_poll(c->ctx);
	for (i = 0, len = s->len; !rc && i < c->l.ngroups; i++) {
		rc = find_shared(s, i, &keep);
		if (keep < s->chain[i].idle_n)
			len = KVC_MIN(len, keep * c->l.group[i].page_tokens);
	}
	if (rc)
		return rc == -ENOMEM ? kvc_nomem(c->ctx) : rc;
	/* The window before a shorter length was given up long ago. */
	for (i = 0; len < s->len && i < c->l.ngroups; i++)
		if (!serves(s, i, len))
			len = 0;
	wake_up(s, len);
	kvc_msg_restore(c->ctx, &msg);
	return KVC_MIN(s->len, (uint32_t)INT32_MAX);
}

int kvc_seq_wake(struct kvc_seq *s)
{
	uint32_t was = s->len;
	bool idle = s->idle;
	int rc = kvc_idle_wake(s);

	if (rc < 0 || !idle)
		return rc;
	kvc_tiers_load(s, s->tokens, was);
	return KVC_MIN(s->len, (uint32_t)INT32_MAX);
}

void kvc_idle_drop(struct kvc_seq *s)
{
	for (uint32_t i = 0; i < s->c->l.ngroups; i++)
		keep_private(s->c, &s->chain[i]);
	wake_up(s, 0);
}

int kvc_seq_awake(const struct kvc_seq *s)
{
	if (!s->idle)
		return 0;
	return kvc_fail(s->c->ctx, -EBUSY,
			"the sequence is idle: kvc_seq_wake() it first");
}

int kvc_seq_ready(const struct kvc_seq *s)
{
	int rc;

	if (s->batch)
		return kvc_fail(s->c->ctx, -EBUSY,
				"the sequence is in a planned batch: commit or abort that first");
	rc = kvc_seq_awake(s);
	return rc ? rc : kvc_seq_check(s);
}
