/* SPDX-License-Identifier: MIT */
/*
 * internal.h - what the files of lib/ share and nobody else sees.
 *
 * From the bottom up: ctx.c (backend), event.c (pages taken away), layout.c
 * (how a page is divided), key.c (what a prefix is called), cache.c, page.c
 * (pages held and remembered), alloc.c (fresh ones), index.c (their tokens),
 * publish.c, prefix.c, window.c (pages that leave it), reserve.c, predict.c,
 * seq.c, static.c (pages that stay), fork.c, remove.c, idle.c, batch.c; save.c,
 * saved.c and restore.c (saved.h); tier_*.c (tier.h).
 */
#ifndef KVC_INTERNAL_H
#define KVC_INTERNAL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <kvattn.h>
#include <kvcache/kvcache.h>

#include "sys.h"

#define KVC_MIN(a, b) ((a) < (b) ? (a) : (b))
#define KVC_MAX(a, b) ((a) > (b) ? (a) : (b))

/* ---- ctx.c ------------------------------------------------------------ */

#define KVC_EVENTS 256	/* kept for kvc_events(), as many as backends keep */
#define KVC_MSG_LEN 256

/**
 * struct kvc - a context
 * @sys: the backend
 * @tenant: number of its tenant, 0 none
 * @caches: its caches
 * @msg: kvc_errmsg()
 * @ev: events that the library has read and the caller has not, a ring
 * @ev_first: the oldest
 * @ev_nr: their number
 * @ev_dropped: events lost before the next one
 * @ev_wanted: kvc_events() was called, so they are kept
 */
struct kvc {
	struct kvc_sys *sys;
	uint32_t tenant;
	struct kvc_cache *caches;
	char msg[KVC_MSG_LEN];
	struct kvcache_event ev[KVC_EVENTS];
	uint32_t ev_first;
	uint32_t ev_nr;
	uint32_t ev_dropped;
	bool ev_wanted;
};

/* Record why a call fails; returns @err. */
__attribute__((format(printf, 3, 4)))
int kvc_fail(struct kvc *ctx, int err, const char *fmt, ...);

/* The backend says @err to @what: in words, with a remedy where it is gone. */
int kvc_gone(struct kvc *ctx, int err, const char *what);

static inline int kvc_nomem(struct kvc *ctx)
{
	return kvc_fail(ctx, -ENOMEM, "out of memory");
}

/*
 * A call that succeeds may have been refused something on its way, such as room
 * for a copy: kvc_errmsg() stays what it was before.
 */
struct kvc_msg {
	char s[KVC_MSG_LEN];
};

static inline void kvc_msg_save(const struct kvc *ctx, struct kvc_msg *m)
{
	memcpy(m->s, ctx->msg, sizeof(m->s));
}

static inline void kvc_msg_restore(struct kvc *ctx, const struct kvc_msg *m)
{
	memcpy(ctx->msg, m->s, sizeof(m->s));
}

/*
 * Copy a caller's struct that begins with its size: what it does not have is
 * zero. -EINVAL if it has something that this library does not know.
 */
int kvc_opts_copy(void *dst, size_t dst_size, const void *src);

/* realloc() to hold @want, at least doubling *@cap; NULL without memory. */
void *kvc_regrow(void *p, uint32_t *cap, uint32_t want, size_t elem);

/* ---- event.c ---------------------------------------------------------- */

/* Read what events there are: pages that were revoked are marked lost. */
void kvc_lost_poll(struct kvc *ctx);
/* Has it lost a page, as far as is known? */
bool kvc_seq_stale(const struct kvc_seq *s);
/* Poll; -ESTALE and why if the sequence, or one of the items', has. */
int kvc_seq_check(const struct kvc_seq *s);
int kvc_items_check(struct kvc_cache *c, const struct kvc_item *items,
		    uint32_t n);

/* ---- layout.c --------------------------------------------------------- */

/**
 * struct kvc_lgroup - how a group's page is divided
 * @g: as the caller described it
 * @nlayers: its layers
 * @page_tokens: P, token slots in a page
 * @block_tokens: tokens in a block; the last block of a page may be short
 * @span: tokens before the end whose pages are kept: the window, or 0 for all
 * @token_bytes: bytes of one token, all layers of the group
 * @layer_bytes: bytes from one layer's K part to the next layer's
 * @k_slab: bytes of one head's K slab
 * @v_slab: bytes of one head's V slab
 * @fingerprint: digest of everything that decides what a page's bytes mean
 * @row_id: the same of a row's, in canonical order
 */
struct kvc_lgroup {
	struct kvc_group g;
	uint32_t nlayers;
	uint32_t page_tokens;
	uint32_t block_tokens;
	uint32_t span;
	uint64_t token_bytes;
	uint64_t layer_bytes;
	uint64_t k_slab;
	uint64_t v_slab;
	uint8_t fingerprint[KVCACHE_KEY_LEN];
	uint8_t row_id[KVCACHE_KEY_LEN];
};

struct kvc_layout {
	uint32_t nlayers;
	uint32_t ngroups;
	uint32_t q_heads;
	uint32_t order;			/* enum kva_order */
	uint64_t page_size;
	uint64_t epoch;
	uint8_t id[32];
	struct kvc_lgroup group[KVC_MAX_GROUPS];
	uint8_t layer_group[KVC_MAX_LAYERS];
	uint16_t layer_index[KVC_MAX_LAYERS];	/* within its group */
	float k_scale[KVC_MAX_LAYERS];		/* KVC_E4M3T; else 0 */
	float v_scale[KVC_MAX_LAYERS];
};

static inline uint64_t kvc_pages_for(const struct kvc_lgroup *g, uint64_t len)
{
	return len / g->page_tokens + !!(len % g->page_tokens);
}

/* Of a group with a window: leading pages with tokens that stay visible. */
static inline uint32_t kvc_sink_pages(const struct kvc_lgroup *g)
{
	return g->span ? kvc_pages_for(g, g->g.sinks) : 0;
}

/*
 * The first page, past the sinks' ones, that whoever comes after @len tokens
 * sees, or writes to. What is between is outside the window: its pages go back
 * to the backend, and their places in a chain are NULL.
 */
static inline uint64_t kvc_first_page(const struct kvc_lgroup *g, uint64_t len)
{
	if (!g->span || len < g->span)
		return 0;
	return (len - g->span + 1) / g->page_tokens;
}

/* How many these are. */
static inline uint64_t kvc_pages_gone(const struct kvc_lgroup *g, uint64_t len)
{
	uint64_t first = kvc_first_page(g, len), sinks = kvc_sink_pages(g);

	return first - KVC_MIN(first, sinks);
}

/*
 * -EINVAL, -E2BIG; @why (of @why_len bytes, may be NULL) says
 * what is wrong.
 */
int kvc_layout_init(struct kvc_layout *l, const struct kvc_model *m,
		    uint64_t page_size, char *why, size_t why_len);
/* Are the scales there that types want? -EINVAL and @why, as above. */
int kvc_layout_scales(const struct kvc_layout *l, char *why, size_t why_len);
/* The view of one layer, without sequences. */
void kvc_layout_view(const struct kvc_layout *l, uint32_t layer, void *base,
		     struct kva_view *v);

/* ---- key.c ------------------------------------------------------------ */

/* The key of the empty prefix; the chain carries its arguments to all keys. */
void kvc_key_root(uint8_t out[KVCACHE_KEY_LEN], const struct kvc_lgroup *g,
		  const uint8_t salt[32], const void *extra, size_t extra_len);
/* What tells one conversation's extra bytes from another's; zeros for none. */
void kvc_key_extra(uint8_t out[KVCACHE_KEY_LEN], const void *extra,
		   size_t extra_len);
/*
 * Keys of a page that holds @fill tokens and follows the prefix @parent: one
 * for each whole block, and one for a rest. Ascending; returns their number,
 * at most KVCACHE_MAX_PAGE_KEYS.
 */
uint32_t kvc_key_page(const struct kvc_lgroup *g,
		      const uint8_t parent[KVCACHE_KEY_LEN],
		      const uint32_t *tokens, uint32_t fill,
		      struct kvcache_key *keys);

/* Keys at the ends of full pages [@from, @to) of a chain. */
void kvc_key_ends(const struct kvc_lgroup *g,
		  const uint8_t root[KVCACHE_KEY_LEN], const uint32_t *tokens,
		  uint8_t (*ends)[KVCACHE_KEY_LEN], uint32_t from, uint32_t to);

/* ---- page.c ----------------------------------------------------------- */

/**
 * struct kvc_page - a page that this context holds, or remembers
 * @handle: the backend's handle
 * @refs: sequences that hold it. The context has one reference of the
 *        backend's however many these are; 0: none, the page is CACHED (or
 *        gone) and only remembered
 * @leaving: sequences of the step being planned that will copy it
 * @shared: published, so immutable
 * @lost: revoked; its number may be another page's
 * @yielded: volatile: the backend may take it at any time
 * @tiered: what kvc_tiers_losses() was when it was copied to the tiers, plus 1
 * @indexed: @parent, @key, @fill and @tokens are set, and index.c knows it
 * @fill: tokens that @key stands for
 * @parent: key of the prefix before the page
 * @key: key of the prefix with the page's @fill tokens
 * @tokens: [@fill]
 */
struct kvc_page {
	uint64_t handle;
	uint32_t refs;
	uint32_t leaving;
	bool shared;
	bool lost;
	bool yielded;
	bool indexed;
	uint64_t tiered;
	uint32_t fill;
	uint8_t parent[KVCACHE_KEY_LEN];
	uint8_t key[KVCACHE_KEY_LEN];
	uint32_t *tokens;
};

static inline uint32_t kvc_page_number(uint64_t handle)
{
	return (uint32_t)handle;
}

/**
 * struct kvc_cache - a model's cache
 * @ctx: the context
 * @next: the next of its caches
 * @l: the layout
 * @o: the options
 * @ops: kernels
 * @threads: their threads
 * @ro: window in which pages are read
 * @rw: window in which PRIVATE pages are written
 * @root: key of the empty prefix of each group, without extra bytes
 * @common_root: the same in the commons
 * @slots: page object of each page number, or NULL. One object a number, so
 *         what is remembered is never more than the pool
 * @nslots: entries of @slots
 * @nlost: lost pages that sequences still refer to
 * @index: pages by (parent, tokens), ascending
 * @nindex: entries of @index in use
 * @index_cap: room in @index
 * @live: sequences
 * @fresh: scratch of kvc_reserve()
 * @fresh_cap: room in @fresh
 * @tiers: what is under the pool, or NULL
 * @st: counters
 */
struct kvc_cache {
	struct kvc *ctx;
	struct kvc_cache *next;
	struct kvc_layout l;
	struct kvc_cache_opts o;
	const struct kva_ops *ops;
	struct kva_threads *threads;
	char *ro;
	char *rw;
	uint8_t root[KVC_MAX_GROUPS][KVCACHE_KEY_LEN];
	uint8_t common_root[KVC_MAX_GROUPS][KVCACHE_KEY_LEN];
	struct kvc_page **slots;
	uint32_t nslots;
	uint32_t nlost;
	struct kvc_page **index;
	uint32_t nindex;
	uint32_t index_cap;
	struct kvc_seq *live;
	struct kvc_page **fresh;
	uint32_t fresh_cap;
	struct kvc_tiers *tiers;
	struct kvc_stats st;
};

/* Keys of the empty prefix in the own domain and in the commons. */
void kvc_roots(const struct kvc_cache *c, uint32_t group, const void *extra,
	       size_t extra_len, uint8_t root[KVCACHE_KEY_LEN],
	       uint8_t common_root[KVCACHE_KEY_LEN]);

static inline const void *kvc_page_ro(const struct kvc_cache *c,
				      uint64_t handle)
{
	return c->ro + kvc_page_number(handle) * c->l.page_size;
}

/*
 * Drop one reference of each that is not NULL; the order is from a chain's root
 * to its leaf.
 */
void kvc_pages_put(struct kvc_cache *c, struct kvc_page *const *pages,
		   uint32_t n);
/* Give up to KVCACHE_MAX_PAGES references back to the backend. */
void kvc_handles_free(struct kvc_cache *c, const uint64_t *handles, uint32_t n);
/*
 * The object of a published page for which the caller got a reference from
 * the backend, with one reference more. NULL without memory. *@spare says
 * whether the backend's reference is not needed: the caller gives it back.
 */
struct kvc_page *kvc_page_adopt(struct kvc_cache *c, uint64_t handle,
				bool *spare);
/* The backend has taken the page away: whoever holds it is told. */
void kvc_page_lose(struct kvc_cache *c, struct kvc_page *p);
/* The object of a handle, if there is one. */
struct kvc_page *kvc_page_find(const struct kvc_cache *c, uint64_t handle);
/* Put an object under the number of its handle; -ENOMEM. */
int kvc_page_bind(struct kvc_cache *c, struct kvc_page *p);
/* Take it out of the index, and free it if nobody holds it. */
void kvc_page_forget(struct kvc_cache *c, struct kvc_page *p);
/* Free an object whose page is not ours any more. */
void kvc_page_drop(struct kvc_cache *c, struct kvc_page *p);
/* The first @n rows of a page of @group. */
void kvc_page_copy(struct kvc_cache *c, uint32_t group, uint64_t dst,
		   uint64_t src, uint32_t n);

/* ---- alloc.c ---------------------------------------------------------- */

/*
 * Is there room for @n pages: now, or with a deadline ever? Takes nothing, and
 * costs the same for any @n. Else -errno and the reason in numbers.
 */
int kvc_pages_check(struct kvc_cache *c, uint32_t n, uint64_t deadline_ns);
/*
 * @n fresh pages with one reference each, or none and -errno. Holds none while
 * it waits.
 */
int kvc_pages_alloc(struct kvc_cache *c, uint32_t n, uint64_t deadline_ns,
		    struct kvc_page **out);

/* ---- index.c ---------------------------------------------------------- */

/* Remember what a page holds. Without memory it is not remembered. */
void kvc_index_add(struct kvc_cache *c, struct kvc_page *p,
		   const uint8_t parent[KVCACHE_KEY_LEN],
		   const struct kvcache_key *key, const uint32_t *tokens);
void kvc_index_del(struct kvc_cache *c, struct kvc_page *p);
/*
 * The page that begins with most of tokens[0, @n) after @parent, and how many
 * in *@match; NULL if none begins with the first.
 */
struct kvc_page *kvc_index_find(const struct kvc_cache *c,
				const uint8_t parent[KVCACHE_KEY_LEN],
				const uint32_t *tokens, uint32_t n,
				uint32_t *match);
/* Leading tokens that two runs have in common. */
uint32_t kvc_common(const uint32_t *a, const uint32_t *b, uint32_t n);

/* ---- prefix.c --------------------------------------------------------- */

/* The pages found are in @pages, a reference on each; or -errno and none. */
int kvc_lookup(struct kvc_cache *c, struct kvcache_lookup *lk,
	       struct kvc_page **pages);

/**
 * struct kvc_match - what one group can serve of a prompt
 * @pages: [@n] pages in order, a reference on each; the last may serve in part
 *         only
 * @ends: key of the prefix that each page ends, in the own domain
 * @common: the same in the commons, if there is one
 * @by: [@n] key that each page was found by
 * @n: pages
 * @first: NULL are the entries of @pages from the sinks' pages on to here
 * @nkeys: entries of @ends that are computed
 * @ncommon: entries of @common that are computed
 * @len: tokens
 * @copy: copy the last page's rows although it could be shared
 */
struct kvc_match {
	struct kvc_page **pages;
	uint8_t (*ends)[KVCACHE_KEY_LEN];
	uint8_t (*common)[KVCACHE_KEY_LEN];
	uint8_t (*by)[KVCACHE_KEY_LEN];
	uint32_t n;
	uint32_t first;
	uint32_t nkeys;
	uint32_t ncommon;
	uint32_t len;
	bool copy;
};

/**
 * kvc_match() - the longest prefix of tokens[0, @max) that all groups serve
 * @c: the cache
 * @seq: whose it is to be, or NULL for one without extra bytes
 * @tokens: the tokens
 * @max: their number
 * @m: [ngroups], zeros; the pages, trimmed to the result. kvc_match_put() in
 *     any case
 *
 * Return: 0 or -errno; the length is in @m[0].len, equal for all groups.
 */
int kvc_match(struct kvc_cache *c, const struct kvc_seq *seq,
	      const uint32_t *tokens, uint32_t max, struct kvc_match *m);
/* Shorten all groups to @len tokens, and drop references past them. */
void kvc_match_trim(struct kvc_cache *c, struct kvc_match *m, uint32_t len);
/*
 * Decide how the last pages are taken for a prompt of @n tokens: shared if the
 * rest of it fits beside them (unless pages are reserved: a shared one would
 * have to be copied into another yet), else copied, else not at all. -errno.
 */
int kvc_match_fit(struct kvc_cache *c, struct kvc_match *m, uint32_t n,
		  bool reserved);
/* Drop all references and free what @m points to. */
void kvc_match_put(struct kvc_cache *c, struct kvc_match *m);
/* Must the rows of this group's last page be copied? */
bool kvc_match_copies(const struct kvc_cache *c, uint32_t group,
		      const struct kvc_match *m);
/* The longest length up to @len at which a page of every group ends. */
uint32_t kvc_match_whole(const struct kvc_layout *l, uint32_t len);
/* The same of a match: its pages are in every window before that length. */
uint32_t kvc_match_shorter(const struct kvc_cache *c,
			   const struct kvc_match *m);

/* ---- predict.c -------------------------------------------------------- */

/**
 * struct kvc_supply - what an allocation would meet
 * @status: 0, -EDQUOT, -ENOSPC or -E2BIG
 * @missing: pages short
 * @available: pages that could be had now
 * @limit: pages that the tenant could ever have
 * @held: pages charged to it
 */
struct kvc_supply {
	int status;
	uint64_t missing;
	uint64_t available;
	uint64_t limit;
	uint64_t held;
};

int kvc_supply(struct kvc_cache *c, uint32_t n, struct kvc_supply *s);

/* ---- seq.c ------------------------------------------------------------ */

/**
 * struct kvc_chain - one group's pages of a sequence
 * @pages: [@n] the pages, reserved ones at the end; NULL outside a window
 * @numbers: [@n] their numbers, as kernels want them; 0, the null page's, there
 * @ends: key of the prefix that each full page ends (unless no_reuse)
 * @n: pages; 0 while the sequence is idle
 * @idle_n: while it is idle: entries of @pages, NULL where one was given back
 * @cap: room in the three
 * @first: of a window: NULL are just the entries from the sinks' pages on to
 *         here; 0 without one
 * @gap: after a restore: from here on rows are missing in pages that there are,
 * @gap_end: up to here: pages had another size where it was saved
 * @published: leading pages known to be published; others may be behind one
 *             that could not be
 * @root: key of the empty prefix
 * @common_root: the same in the commons
 */
struct kvc_chain {
	struct kvc_page **pages;
	uint32_t *numbers;
	uint8_t (*ends)[KVCACHE_KEY_LEN];
	uint32_t n;
	uint32_t idle_n;
	uint32_t cap;
	uint32_t first;
	uint32_t gap;
	uint32_t gap_end;
	uint32_t published;
	uint8_t root[KVCACHE_KEY_LEN];
	uint8_t common_root[KVCACHE_KEY_LEN];
};

struct kvc_seq {
	struct kvc_cache *c;
	struct kvc_seq *prev, *next;	/* c->live */
	struct kvc_batch *batch;	/* the planned one it is in */
	uint32_t *tokens;		/* past @len: of the planned step */
	uint32_t len;
	uint32_t tokens_cap;
	uint32_t priority;
	uint64_t ttl_ns;
	uint32_t common;		/* tokens that the commons may have */
	uint32_t own_from;		/* what follows was computed behind
					 * tokens that are gone: nobody finds
					 * it; UINT32_MAX: nothing */
	uint32_t fixed;			/* static: tokens that there are pages
					 * for, which stay; else 0 */
	uint8_t extra[KVCACHE_KEY_LEN];	/* digest of the extra bytes */
	bool no_reuse;
	bool idle;
	struct kvc_chain chain[];	/* one a group */
};

static inline const uint8_t *kvc_chain_parent(const struct kvc_chain *ch,
					      uint32_t page)
{
	return page ? ch->ends[page - 1] : ch->root;
}

/* Without tokens and pages; NULL without memory. */
struct kvc_seq *kvc_seq_new(struct kvc_cache *c);
/* Its pages are somebody else's, or gone. */
void kvc_seq_delete(struct kvc_seq *s);
/* Its length, after pages past it went back. */
static inline void kvc_seq_cut(struct kvc_seq *s, uint32_t len)
{
	s->len = len;
	/* What was computed behind gone tokens is gone, too. */
	if (len <= s->own_from)
		s->own_from = UINT32_MAX;
	for (uint32_t i = 0; i < s->c->l.ngroups; i++)
		if (len <= s->chain[i].gap)
			s->chain[i].gap = s->chain[i].gap_end = 0;
}

/* Full pages that others may find. */
static inline uint32_t kvc_seq_full(const struct kvc_seq *s, uint32_t group)
{
	return KVC_MIN(s->len, s->own_from) / s->c->l.group[group].page_tokens;
}

int kvc_chain_grow(struct kvc_chain *ch, uint32_t want);
static inline void kvc_chain_set(struct kvc_chain *ch, uint32_t i,
				 struct kvc_page *p)
{
	ch->pages[i] = p;
	ch->numbers[i] = p ? kvc_page_number(p->handle) : 0;
}

/* ---- static.c --------------------------------------------------------- */

/* All pages of a new sequence, for @n tokens; or none and -errno. */
int kvc_seq_fix(struct kvc_seq *s, uint32_t n);
/* -ERANGE and why if it has no room for @n more tokens, and never will. */
int kvc_seq_in_range(const struct kvc_seq *s, uint64_t n);
/* A second one with pages of its own, and what they hold copied. */
int kvc_seq_fork_fixed(struct kvc_seq *s, struct kvc_seq **out);

/* ---- window.c --------------------------------------------------------- */

/* Would who comes after @len tokens see rows that a page has and lacks? */
bool kvc_chain_lacks(const struct kvc_lgroup *g, const struct kvc_chain *ch,
		     uint32_t len);

/* Give back what has left the windows. */
void kvc_seq_slide(struct kvc_seq *s);
/* Are the pages that a row after @len tokens sees all there? */
bool kvc_chain_serves(const struct kvc_lgroup *g, struct kvc_page *const *pages,
		      uint32_t n, uint32_t len);
/* Pages of a chain that are there. */
uint32_t kvc_chain_held(const struct kvc_lgroup *g, const struct kvc_chain *ch);
/* Of @n new tokens, those that a reservation in this group has pages for. */
uint64_t kvc_window_step(const struct kvc_cache *c, uint32_t group,
			 uint64_t n);
/* The most pages that it has at once on its way to @len tokens, in steps of up
 * to @step. */
uint64_t kvc_window_peak(const struct kvc_cache *c, uint32_t group,
			 uint64_t len, uint64_t step);

/* ---- reserve.c -------------------------------------------------------- */

int kvc_tokens_grow(struct kvc_seq *s, uint32_t want);
/* Pages that a sequence would take for @n more tokens, copies included. */
uint64_t kvc_seq_need(const struct kvc_seq *s, uint64_t n);
/*
 * Pages for the new tokens of all items, tails that others hold copied; or
 * nothing and -errno. No sequence is in there twice.
 */
int kvc_reserve(struct kvc_cache *c, const struct kvc_item *items, uint32_t n,
		uint64_t deadline_ns);

/* ---- idle.c ----------------------------------------------------------- */

/* 0, or -EBUSY and why if it is idle. */
int kvc_seq_awake(const struct kvc_seq *s);
/* It can be changed: in no batch, awake, and nothing lost; -errno and why. */
int kvc_seq_ready(const struct kvc_seq *s);
/* kvc_seq_wake() without what tiers have. */
int kvc_idle_wake(struct kvc_seq *s);
/* An idle sequence is to end, and nothing of it is wanted: wake it, empty. */
void kvc_idle_drop(struct kvc_seq *s);

/* ---- publish.c -------------------------------------------------------- */

/* The keys of pages that became full, from page @first of the chain on. */
void kvc_seq_keys(struct kvc_seq *s, uint32_t group, uint32_t first);
/*
 * Publish the full pages that are not, and with @tail the partly filled one.
 * Those that there is no room for, or that are pinned, stay as they are, and 0
 * is returned.
 */
int kvc_publish(struct kvc_seq *s, uint32_t group, bool tail);

/* ---- tier_seq.c: nothing is done where the cache has no tiers ----------- */

/* Full page @i is published; @again: there was an equal one. */
void kvc_tiers_published(struct kvc_seq *s, uint32_t group, uint32_t i,
			 bool again);
/* The pages that the sequence begins with were found in the pool. */
void kvc_tiers_found(struct kvc_seq *s);
/* Nobody reads the sequence for a while: pages copied. */
uint32_t kvc_tiers_idle(struct kvc_seq *s);
/*
 * Bring in what follows the sequence of the first @n of @tokens: whole pages,
 * and the page in which exactly @n end. That it cannot be is no error.
 */
void kvc_tiers_load(struct kvc_seq *s, const uint32_t *tokens, uint32_t n);

#endif /* KVC_INTERNAL_H */
