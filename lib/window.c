// SPDX-License-Identifier: MIT
/*
 * window.c - groups whose layers see the last tokens only, and the first few.
 *
 * A page that no later row sees is given back when the step that left it behind
 * is committed: published, it stays cached, and serves whoever begins with the
 * same text. Its place in the chain stays, as NULL, and kernels get the null
 * page's number for it, which they never read. So positions are what they are
 * without a window, and so are keys.
 */
#include "internal.h"

void kvc_seq_slide(struct kvc_seq *s)
{
	for (uint32_t i = 0; !s->fixed && i < s->c->l.ngroups; i++) {
		const struct kvc_lgroup *g = &s->c->l.group[i];
		struct kvc_chain *ch = &s->chain[i];
		uint32_t first = kvc_first_page(g, s->len), from, k;

		if (first <= ch->first)
			continue;
		from = KVC_MAX(ch->first, kvc_sink_pages(g));
		ch->first = first;
		if (from >= first)
			continue;
		kvc_pages_put(s->c, ch->pages + from, first - from);
		for (k = from; k < first; k++)
			kvc_chain_set(ch, k, NULL);
	}
}

bool kvc_chain_serves(const struct kvc_lgroup *g, struct kvc_page *const *pages,
		      uint32_t n, uint32_t len)
{
	uint32_t end = kvc_pages_for(g, len), first = kvc_first_page(g, len);
	uint32_t sinks = KVC_MIN(kvc_sink_pages(g), end), i;

	if (end > n || !g->span)
		return end <= n;
	for (i = 0; i < sinks; i++)
		if (!pages[i])
			return false;
	for (i = first; i < end; i++)
		if (!pages[i])
			return false;
	return true;
}

bool kvc_chain_lacks(const struct kvc_lgroup *g, const struct kvc_chain *ch,
		     uint32_t len)
{
	uint32_t from = g->span && len >= g->span ? len - g->span + 1 : 0;

	return from < ch->gap_end && len > ch->gap;
}

uint32_t kvc_chain_held(const struct kvc_lgroup *g, const struct kvc_chain *ch)
{
	if (!ch->n)	/* idle */
		return 0;
	return ch->n - (ch->first - KVC_MIN(ch->first, kvc_sink_pages(g)));
}

uint64_t kvc_window_step(const struct kvc_cache *c, uint32_t group, uint64_t n)
{
	if (!c->l.group[group].span || !c->o.step)
		return n;
	return KVC_MIN(n, (uint64_t)c->o.step);
}

uint64_t kvc_window_peak(const struct kvc_cache *c, uint32_t group,
			 uint64_t len, uint64_t step)
{
	const struct kvc_lgroup *g = &c->l.group[group];
	uint64_t all = kvc_pages_for(g, len), seen;

	if (!g->span || !c->o.step)
		return all;
	/* What the rows of a step see, and a page that begins before that. */
	seen = g->span - 1 + KVC_MAX(step, (uint64_t)1);
	return KVC_MIN(all, kvc_sink_pages(g) + kvc_pages_for(g, seen - 1) + 1);
}
