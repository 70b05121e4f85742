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

	kvc_key_ends(g, ch->root, s->tokens, ch->ends, first,
		     kvc_seq_full(s, group));
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

/* @parent: key of what is before it, in the domain that it goes to. */
static void describe(struct kvc_seq *s, uint32_t group, uint32_t i,
		     const uint8_t parent[KVCACHE_KEY_LEN],
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
	/* Of a window's pages the first is of least use. */
	if (g->span)
		pp->flags |= KVCACHE_PUBLISH_WINDOW;
	pp->priority = s->priority;
	pp->ttl_ns = s->ttl_ns;
	if (i)
		memcpy(pp->parent, parent, KVCACHE_KEY_LEN);
	pp->nr_keys = kvc_key_page(g, parent, s->tokens + first,
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
		if (q->refs++)
			kvc_handles_free(c, &handle, 1);
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
	bool again = pp->out_handle != pp->handle;

	if (again) {
		exchange(s, group, i, pp->out_handle);
	} else {
		p->shared = true;
		s->c->st.pages_published++;
		/* A truncated page is known by what it was published as. */
		if (p->fill != pp->keys[pp->nr_keys - 1].fill)
			kvc_index_del(s->c, p);
	}
	remember(s, group, i, &pp->keys[pp->nr_keys - 1]);
	kvc_tiers_published(s, group, i, again);
}

/* Does this page go to the commons? Only if all of it may. */
static bool is_common(const struct kvc_seq *s, uint32_t group, uint32_t i)
{
	return i < s->common / s->c->l.group[group].page_tokens;
}

/* What the key of the next page begins with, from that of page @i on. */
static const uint8_t *next_parent(struct kvc_seq *s, uint32_t group,
				  uint32_t i, bool common,
				  uint8_t key[KVCACHE_KEY_LEN], uint32_t *at)
{
	struct kvc_chain *ch = &s->chain[group];
	const struct kvc_lgroup *g = &s->c->l.group[group];
	struct kvcache_key keys[KVCACHE_MAX_PAGE_KEYS];
	size_t P = g->page_tokens;
	uint32_t k;

	if (!common)
		return kvc_chain_parent(ch, i);
	/* These are few, and short: they are not kept. */
	for (; *at < i; ++*at) {
		k = kvc_key_page(g, key, s->tokens + *at * P, P, keys);
		memcpy(key, keys[k - 1].key, KVCACHE_KEY_LEN);
	}
	return key;
}

/* One command for pages @at[0, @n). */
static int publish_call(struct kvc_seq *s, uint32_t group, const uint32_t *at,
			uint32_t n, bool common)
{
	struct kvcache_publish r = {
		.pool = s->c->o.pool,
		.nr = n,
		.domain = common ? s->c->o.commons : s->c->o.domain,
	};
	uint8_t key[KVCACHE_KEY_LEN];
	uint32_t i, done = 0;
	int rc;

	memcpy(key, s->chain[group].common_root, sizeof(key));
	for (i = 0; i < n; i++)
		describe(s, group, at[i],
			 next_parent(s, group, at[i], common, key, &done),
			 &r.pages[i]);
	rc = kvc_call(s->c->ctx, KVCACHE_NR_PUBLISH, &r);
	for (i = 0; !rc && i < n; i++)
		settle(s, group, at[i], &r.pages[i]);
	if (!rc && common)
		s->c->st.pages_common += n;
	return rc;
}

/*
 * As many of pages @at[0, @n) as can be: all by one command, or, if that is
 * refused, one by one. Those that are pinned are left out; one that there is
 * no room for ends it, as nobody would find what is behind it. What the commons
 * do not take is published like everything else.
 */
static int publish_run(struct kvc_seq *s, uint32_t group, const uint32_t *at,
		       uint32_t n)
{
	bool common = is_common(s, group, at[0]);
	int rc = publish_call(s, group, at, n, common);

	if (rc && common) {
		common = false;
		rc = publish_call(s, group, at, n, common);
	}
	if (!rc)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		if (n > 1)
			rc = publish_call(s, group, at + i, 1, common);
		if (rc && rc != -EBUSY)
			return rc;
	}
	return 0;
}

/* Full pages serve this context whether they can be published or not. */
static void remember_full(struct kvc_seq *s, uint32_t group, uint32_t full)
{
	struct kvc_chain *ch = &s->chain[group];
	struct kvcache_key key = {
		.fill = s->c->l.group[group].page_tokens,
	};

	for (uint32_t i = ch->published; i < full; i++) {
		if (!ch->pages[i] || ch->pages[i]->indexed)
			continue;
		memcpy(key.key, ch->ends[i], KVCACHE_KEY_LEN);
		remember(s, group, i, &key);
	}
}

int kvc_publish(struct kvc_seq *s, uint32_t group, bool tail)
{
	uint32_t P = s->c->l.group[group].page_tokens;
	struct kvc_chain *ch = &s->chain[group];
	uint32_t full = kvc_seq_full(s, group), end = full, i, n = 0;
	uint32_t at[KVCACHE_MAX_PUBLISH];
	int rc = 0;

	if (s->no_reuse)
		return 0;
	remember_full(s, group, full);
	/* A tail that a fork still writes stays that fork's. */
	if (tail && s->len % P && s->len <= s->own_from &&
	    ch->pages[full]->refs == 1)
		end++;
	for (i = ch->published; !rc && i < end; i++) {
		if (ch->pages[i] && !ch->pages[i]->shared)
			at[n++] = i;
		if (n && (n == KVCACHE_MAX_PUBLISH || i + 1 == end ||
			  is_common(s, group, at[0]) !=
			  is_common(s, group, i + 1))) {
			rc = publish_run(s, group, at, n);
			n = 0;
		}
	}
	/* What left a window unpublished has no page to publish any more. */
	while (ch->published < full && (!ch->pages[ch->published] ||
					ch->pages[ch->published]->shared))
		ch->published++;
	if (rc == -EDQUOT || rc == -ENOSPC || rc == -ENOMEM)
		return 0;
	return rc;
}
