// SPDX-License-Identifier: MIT
/*
 * publish.c - written pages become immutable and findable.
 *
 * The second phase of a commit: only pages whose rows are all appended and
 * counted get here. A page has a key for each block it holds, and a partly
 * filled one, published when its sequence ends, one for its exact fill.
 */
#include <string.h>

#include "internal.h"

void kvc_seq_keys(struct kvc_seq *s, uint32_t group, uint32_t first)
{
	const struct kvc_lgroup *g = &s->c->l.group[group];
	struct kvc_chain *ch = &s->chain[group];
	struct kvcache_key keys[KVCACHE_MAX_PAGE_KEYS];
	uint32_t i, n, P = g->page_tokens;

	for (i = first; i < s->len / P; i++) {
		n = kvc_key_page(g, kvc_chain_parent(ch, i),
				 s->tokens + (size_t)i * P, P, keys);
		memcpy(ch->ends[i], keys[n - 1].key, KVCACHE_KEY_LEN);
	}
}

/* Put a page in the index, under the last of its keys. */
static void remember(struct kvc_seq *s, uint32_t group, uint32_t i,
		     const struct kvcache_key *key)
{
	struct kvc_chain *ch = &s->chain[group];
	size_t P = s->c->l.group[group].page_tokens;

	kvc_index_add(s->c, ch->pages[i], kvc_chain_parent(ch, i), key,
		      s->tokens + i * P);
}

static void describe(struct kvc_seq *s, uint32_t group, uint32_t i,
		     struct kvcache_publish_page *pp)
{
	const struct kvc_lgroup *g = &s->c->l.group[group];
	struct kvc_chain *ch = &s->chain[group];
	uint32_t first = i * g->page_tokens;

	memset(pp, 0, sizeof(*pp));
	pp->handle = ch->pages[i]->handle;
	/* What forked sequences hold in common cannot be exchanged. */
	if (s->c->o.no_dedup || ch->pages[i]->refs > 1)
		pp->flags = KVCACHE_PUBLISH_NODEDUP;
	pp->priority = s->priority;
	pp->ttl_ns = s->ttl_ns;
	if (i)
		memcpy(pp->parent, ch->ends[i - 1], KVCACHE_KEY_LEN);
	pp->nr_keys = kvc_key_page(g, kvc_chain_parent(ch, i),
				   s->tokens + first,
				   KVC_MIN(g->page_tokens, s->len - first),
				   pp->keys);
}

/* An equal page exists, and we were given a reference on it. */
static void exchange(struct kvc_seq *s, uint32_t group, uint32_t i,
		     uint64_t handle)
{
	struct kvc_chain *ch = &s->chain[group];
	struct kvc_page *p = ch->pages[i], *q;
	struct kvc_cache *c = s->c;

	c->st.pages_deduplicated++;
	kvc_index_del(c, p);
	q = kvc_page_find(c, handle);
	if (q) {
		q = kvc_page_adopt(c, handle);
		kvc_page_drop(c, p);
	} else {
		/* Reuse the object: this must not fail for want of memory. */
		if (c->slots[kvc_page_number(p->handle)] == p)
			c->slots[kvc_page_number(p->handle)] = NULL;
		q = p;
		q->handle = handle;
		q->shared = true;
		kvc_page_bind(c, q);
	}
	kvc_chain_set(ch, i, q);
}

static void settle(struct kvc_seq *s, uint32_t group, uint32_t i,
		   const struct kvcache_publish_page *pp)
{
	struct kvc_page *p = s->chain[group].pages[i];

	if (pp->out_handle != pp->handle) {
		exchange(s, group, i, pp->out_handle);
	} else {
		p->shared = true;
		s->c->st.pages_published++;
		/* A truncated page is known by what it was published as. */
		if (p->fill != pp->keys[pp->nr_keys - 1].fill)
			kvc_index_del(s->c, p);
	}
	remember(s, group, i, &pp->keys[pp->nr_keys - 1]);
}

/* Pages [@first, @end), those that are not published yet. */
static int publish_run(struct kvc_seq *s, uint32_t group, uint32_t first,
		       uint32_t end)
{
	struct kvc_chain *ch = &s->chain[group];
	struct kvcache_publish r = {
		.pool = s->c->o.pool,
		.domain = s->c->o.domain,
	};
	uint32_t at[KVCACHE_MAX_PUBLISH], i;
	int rc;

	for (i = first; i < end; i++) {
		if (ch->pages[i]->shared)
			continue;
		at[r.nr] = i;
		describe(s, group, i, &r.pages[r.nr++]);
	}
	if (!r.nr)
		return 0;
	rc = kvc_call(s->c->ctx, KVCACHE_NR_PUBLISH, &r);
	for (i = 0; i < r.nr; i++) {
		const struct kvcache_publish_page *pp = &r.pages[i];

		if (!rc)
			settle(s, group, at[i], pp);
		else if (pp->keys[pp->nr_keys - 1].fill ==
			 s->c->l.group[group].page_tokens)
			/* Still of use to this context's sequences. */
			remember(s, group, at[i], &pp->keys[pp->nr_keys - 1]);
	}
	return rc;
}

int kvc_publish(struct kvc_seq *s, uint32_t group, bool tail)
{
	uint32_t P = s->c->l.group[group].page_tokens;
	struct kvc_chain *ch = &s->chain[group];
	uint32_t full = s->len / P, end = full, next;
	int rc = 0;

	if (s->no_reuse)
		return 0;
	/* A tail that a fork still writes stays that fork's. */
	if (tail && s->len % P && ch->pages[full]->refs == 1)
		end++;
	while (ch->published < end) {
		next = KVC_MIN(end, ch->published + KVCACHE_MAX_PUBLISH);
		rc = publish_run(s, group, ch->published, next);
		if (rc)
			break;
		ch->published = next;
	}
	if (rc == -EDQUOT || rc == -ENOSPC || rc == -EBUSY || rc == -ENOMEM)
		return 0;
	return rc;
}
