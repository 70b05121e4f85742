/* SPDX-License-Identifier: MIT */
/*
 * kvcache.h - libkvcache: sequences of tokens over pages of keys and values.
 *
 * Open a backend, describe a model's cache, keep one struct kvc_seq for each
 * conversation, and run each step as plan, (append, attend) a layer, commit.
 */
#ifndef KVCACHE_KVCACHE_H
#define KVCACHE_KVCACHE_H

#include <stddef.h>
#include <stdint.h>
#include <kvcache/uapi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Everything declared here is exported; lib/libkvcache.map lists it. */
#pragma GCC visibility push(default)

/**
 * DOC: conventions
 *
 * Functions return 0 or a positive count, or a negative errno. Nothing is
 * printed; kvc_errmsg() has a sentence on what was refused, why, and what
 * would help. A call that fails has changed nothing, unless its description
 * says so. Structs that begin with
 * @sz are set to ``{ .sz = sizeof(x), ... }`` by the caller: members it does
 * not know are zero, and zero is always the default.
 *
 * Objects of one context are used by one thread at a time; different contexts
 * are independent. There is no global state.
 */

/**
 * DOC: pages that are taken away
 *
 * A backend may revoke pages that a sequence holds: its tenant's max was
 * lowered with a deadline, or the memory broke. From then on every call that
 * would touch that sequence's rows (plan, append, attend, commit, reserve,
 * fork, read, predict) is -ESTALE; in a batch kvc_errmsg() names the item.
 * Other sequences are not concerned, and those of an aborted batch are as
 * before it. Free the sequence, which publishes nothing more and frees nobody
 * else's pages, and start again from its tokens: kvc_seq_tokens() still has
 * them. kvc_seq_truncate() to what comes before the first lost page is a
 * remedy, too.
 */

/**
 * DOC: what is found again
 *
 * A page is published when it is full, under one key for each of its blocks,
 * and when its sequence ends, if it is partly filled, under one more for its
 * exact fill (a page has at most 16 blocks and a partly filled one at most 15
 * whole ones, so that there is always room). A key is a SHA-256 digest of the
 * key before it and a block's tokens; the chain starts at the layout, the
 * model's id and epoch, the cache's salt and the conversation's extra bytes.
 *
 * Pages of other contexts are found at the ends of blocks, and at the exact
 * end of a prompt. What this context wrote or found it remembers to the token.
 * At most all tokens but the last are found, as a model must see one.
 */

struct kvc;		/* a context: one client of one backend */
struct kvc_cache;	/* one model's cache in one pool */
struct kvc_seq;		/* one conversation */
struct kvc_batch;	/* one step of several conversations */

/* ---- context ---------------------------------------------------------- */

#define KVC_OPEN_LOCAL		(1U << 0)	/* fall back to the in-process backend */
#define KVC_OPEN_UNATTACHED	(1U << 1)	/* no tenant: to administer and to list */

/**
 * struct kvc_open_opts - how to open
 * @sz: sizeof(struct kvc_open_opts)
 * @flags: KVC_OPEN_*
 * @tenant: name of the tenant to attach to; NULL for the default one, and with
 *          KVC_OPEN_UNATTACHED
 * @local_bytes: in-process: bytes in the pool; 0 for 1 GiB
 * @local_page_size: in-process: bytes in a page, a power of two; 0 for 2 MiB.
 *                   In this process sizes below KVCACHE_PAGE_SIZE_MIN, down
 *                   to 64 bytes, are allowed, for tests
 * @local_max: in-process: limit of the tenant in pages; 0 for none
 * @msg: room for a sentence on why the open failed, or NULL
 * @msg_len: bytes at @msg
 */
struct kvc_open_opts {
	size_t sz;
	uint32_t flags;
	const char *tenant;
	uint64_t local_bytes;
	uint64_t local_page_size;
	uint64_t local_max;
	char *msg;
	size_t msg_len;
};

/**
 * kvc_open() - open a backend and attach to it
 * @where: "local" for the in-process backend, "local:bytes=1G,page=2M,max=100"
 *         for one with these sizes, the path of a device or of a broker's
 *         socket; or NULL: $KVCACHE if that is set, else the first that is
 *         there of /dev/kvcache, the user's broker
 *         ($XDG_RUNTIME_DIR/kvcache/broker), the system's
 *         (/run/kvcache/broker), and with KVC_OPEN_LOCAL this process
 * @opts: options, or NULL; their sizes go before those in $KVCACHE, and those
 *        in @where before them
 * @out: the context, to be closed by the caller
 *
 * With KVC_OPEN_UNATTACHED the context is no tenant's: it can ask, and where
 * its user is privileged list and administer; commands on pages are -ENOTCONN.
 *
 * What is there and cannot be used is an error: another backend takes its place
 * never. Return: 0; -ENODEV nothing to open; -ECONNREFUSED a socket that nobody
 * listens on; -ENOENT no such tenant; -EACCES; -ENOMEM; -EINVAL; -EPROTO a
 * device or a broker of another version; -ENOTCONN the broker hung up; -ETIMEDOUT
 * it has said nothing for some seconds.
 */
int kvc_open(const char *where, const struct kvc_open_opts *opts,
	     struct kvc **out);

/* Close: every page that is not published is lost, all references dropped. */
void kvc_close(struct kvc *ctx);

/* Why the last call on this context that failed did; "" if none has. */
const char *kvc_errmsg(const struct kvc *ctx);

/* "local", "device" or "broker". */
const char *kvc_backend(const struct kvc *ctx);

/**
 * kvc_call() - one command of the ABI
 * @ctx: the context
 * @nr: KVCACHE_NR_*
 * @arg: its struct; @size is filled in by this call
 *
 * Restarted on EINTR unless the command is a KVCACHE_ALLOC that may wait.
 * Return: 0 or -errno, as the ABI header says.
 */
int kvc_call(struct kvc *ctx, unsigned int nr, void *arg);

/**
 * kvc_events() - read events
 * @ctx: the context
 * @ev: room for @n records
 * @n: at least 1
 *
 * Begins with what happens after its first call. The library reads events too,
 * and keeps up to 256 of them for this call; of more, @dropped tells.
 * Return: number of records, 0 if there are none.
 */
int kvc_events(struct kvc *ctx, struct kvcache_event *ev, unsigned int n);

/**
 * kvc_events_wait() - sleep until there is an event
 * @ctx: the context
 * @deadline_ns: CLOCK_MONOTONIC until which to wait; KVCACHE_TIME_NEVER: for
 *               ever; 0: only look
 *
 * Events begin with the first call of this one or of kvc_events(). What happens
 * in the in-process backend wakes it, signals do not.
 * Return: 1 kvc_events() has one; 0 it is late; -EINTR a signal came; or
 * another -errno.
 */
int kvc_events_wait(struct kvc *ctx, uint64_t deadline_ns);

/* ---- layout ----------------------------------------------------------- */

/* Element types of K and V. */
#define KVC_F32		0
#define KVC_F16		1
#define KVC_BF16	2

#define KVC_MAX_GROUPS	8
#define KVC_MAX_LAYERS	1024

/**
 * struct kvc_group - layers that share shape and window, and their pages
 * @kv_heads: KV heads, up to 4,096
 * @k_dim: elements in a K row, a multiple of 16, up to 1,024
 * @v_dim: elements in a V row, likewise
 * @k_type: KVC_F32, _F16 or _BF16
 * @v_type: likewise
 * @window: tokens that a row sees, its own included; 0 for all (others are
 *          -EOPNOTSUPP so far)
 * @sinks: first tokens that stay visible; 0
 */
struct kvc_group {
	uint32_t kv_heads;
	uint32_t k_dim;
	uint32_t v_dim;
	uint32_t k_type;
	uint32_t v_type;
	uint32_t window;
	uint32_t sinks;
};

/**
 * struct kvc_model - what a cache is for
 * @sz: sizeof(struct kvc_model)
 * @nlayers: layers, 1 to KVC_MAX_LAYERS
 * @ngroups: groups, 1 to KVC_MAX_GROUPS
 * @groups: the groups
 * @layer_group: [@nlayers] group of each layer; NULL: all in group 0
 * @q_heads: query heads, a multiple of each group's kv_heads, up to 65,536
 * @page_tokens: slots in a page of every group; 0: the largest multiple of 8
 *               that fits, or, if fewer than 16 fit, as many as fit
 * @row_major: a head's rows one after the other, not the CPU's order
 * @id: identifies the weights, such as a digest of the model file
 * @epoch: changes when the weights do under the same @id
 */
struct kvc_model {
	size_t sz;
	uint32_t nlayers;
	uint32_t ngroups;
	const struct kvc_group *groups;
	const uint8_t *layer_group;
	uint32_t q_heads;
	uint32_t page_tokens;
	uint32_t row_major;
	uint8_t id[32];
	uint64_t epoch;
};

/**
 * struct kvc_footprint - what conversations of one length cost
 * @page_tokens: slots in a page of group 0
 * @block_tokens: tokens in a block of group 0
 * @bytes_per_token: sum over layers of kv_heads x (k_dim x bytes of K +
 *                   v_dim x bytes of V); 2 x layers x kv_heads x head_dim x
 *                   bytes for equal K and V
 * @used_bytes: @bytes_per_token x tokens x sequences
 * @pages: pages held
 * @held_bytes: bytes in those pages
 * @layout_bytes: of @held_bytes, what no token slot covers
 * @unused_bytes: of @held_bytes, slots that hold no token yet
 *
 * @held_bytes = @used_bytes + @layout_bytes + @unused_bytes.
 */
struct kvc_footprint {
	uint32_t page_tokens;
	uint32_t block_tokens;
	uint64_t bytes_per_token;
	uint64_t used_bytes;
	uint64_t pages;
	uint64_t held_bytes;
	uint64_t layout_bytes;
	uint64_t unused_bytes;
};

/**
 * kvc_footprint() - what @nseq sequences of @ntokens cost, nothing shared
 * @m: the model
 * @page_size: bytes in a page
 * @ntokens: tokens in each sequence
 * @nseq: sequences
 * @out: the answer
 *
 * Needs no context. Return: 0; -EINVAL a bad model; -E2BIG not one token fits
 * in a page; -EOVERFLOW.
 */
int kvc_footprint(const struct kvc_model *m, uint64_t page_size,
		  uint64_t ntokens, uint64_t nseq, struct kvc_footprint *out);

/* ---- cache ------------------------------------------------------------ */

/**
 * struct kvc_cache_opts - how to keep a model's cache
 * @sz: sizeof(struct kvc_cache_opts)
 * @pool: pool of the context's backend
 * @threads: threads for the kernels, 0 for one a CPU
 * @no_reuse: publish nothing and find nothing
 * @no_dedup: publish pages although equal ones exist
 * @domain: tenant to publish into; 0 for the own one. It must exist; the grant
 *          to publish may come later
 * @split: tokens in one piece of a decode, a multiple of 16 up to 2^24; 0 for
 *         512. Results depend on it
 * @isa: kernel variant, NULL for the best
 * @salt: seeds every key; zeros for none. Those who share pages have the same
 * @commons: tenant for what many may know, see kvc_seq_opts.common; 0 for none
 * @commons_salt: @salt of the pages in @commons
 *
 * Full pages of what is common are published into @commons, if it lets this
 * tenant and has room, and all else into @domain. Pages are looked for in both,
 * by different keys where the salts differ: who knows one salt can name no page
 * of the other domain. One is known to all members of a tenant and no others,
 * the other to all that the commons let in.
 */
struct kvc_cache_opts {
	size_t sz;
	uint32_t pool;
	uint32_t threads;
	uint32_t no_reuse;
	uint32_t no_dedup;
	uint32_t domain;
	uint32_t split;
	const char *isa;
	uint8_t salt[32];
	uint32_t commons;
	uint8_t commons_salt[32];
};

/**
 * kvc_cache_create() - a model's cache in one pool
 * @ctx: the context; must stay open while the cache lives
 * @m: the model, copied
 * @opts: options, or NULL
 * @out: for kvc_cache_destroy()
 *
 * Return: 0; -EINVAL, -E2BIG as kvc_footprint(); -EINVAL a @split that cannot
 * be; -ENOENT no such pool or domain; -EOPNOTSUPP a window, or an @isa that
 * this CPU does not run; -ENOMEM.
 */
int kvc_cache_create(struct kvc *ctx, const struct kvc_model *m,
		     const struct kvc_cache_opts *opts, struct kvc_cache **out);

/* Its sequences and batches must be gone. */
void kvc_cache_destroy(struct kvc_cache *c);

/* Threads of the cache, the calling one included. */
uint32_t kvc_cache_nthreads(const struct kvc_cache *c);

/**
 * kvc_cache_run() - the caller's own work between kernels, on their threads
 * @c: the cache
 * @nitems: items, taken in ascending order by whoever is free
 * @fn: gets @arg, the item, and a thread's number below kvc_cache_nthreads()
 * @arg: for @fn
 *
 * Returns when all are done. @fn calls nothing of this cache.
 */
void kvc_cache_run(struct kvc_cache *c, size_t nitems,
		   void (*fn)(void *arg, size_t item, unsigned int thread),
		   void *arg);

const char *kvc_cache_isa(const struct kvc_cache *c);
uint32_t kvc_cache_page_tokens(const struct kvc_cache *c, uint32_t group);
uint32_t kvc_cache_block_tokens(const struct kvc_cache *c, uint32_t group);

/**
 * struct kvc_stats - counters of a cache since it was made
 * @queried_tokens: tokens asked for by kvc_seq_prefix()
 * @reused_tokens: tokens found
 * @copied_tokens: of these, tokens copied out of another page (in the group
 *                 that copied most)
 * @appended_tokens: positions appended and committed
 * @pages_allocated: pages got from the backend
 * @pages_found: pages got by a lookup
 * @pages_published: pages published
 * @pages_deduplicated: pages given up for an equal one
 * @pages_common: of those two, pages of the commons
 */
struct kvc_stats {
	uint64_t queried_tokens;
	uint64_t reused_tokens;
	uint64_t copied_tokens;
	uint64_t appended_tokens;
	uint64_t pages_allocated;
	uint64_t pages_found;
	uint64_t pages_published;
	uint64_t pages_deduplicated;
	uint64_t pages_common;
};

void kvc_cache_stats(const struct kvc_cache *c, struct kvc_stats *out);

/**
 * struct kvc_room - what a request would need, and what there is
 * @reused_tokens: tokens that a prefix match would give
 * @new_pages: pages that would be allocated
 * @idle_pages: cached pages that the match would keep from reclaim
 * @available_pages: pages that could be had now, cached ones included
 * @limit_pages: pages that this tenant could ever have here
 * @held_pages: pages charged to the tenant now
 * @fits: 1 if there is room now
 * @possible: 1 if it could succeed on an idle system
 */
struct kvc_room {
	uint64_t reused_tokens;
	uint64_t new_pages;
	uint64_t idle_pages;
	uint64_t available_pages;
	uint64_t limit_pages;
	uint64_t held_pages;
	uint32_t fits;
	uint32_t possible;
};

/**
 * kvc_predict() - will it fit
 * @c: the cache
 * @seq: the sequence to grow, or NULL for a new one without extra bytes
 * @tokens: if @seq is NULL or holds no pages: the prompt, for the prefix
 *          match; may be NULL
 * @ntokens: tokens in @tokens, or to be added to @seq
 * @extra: further tokens to be added later
 * @out: the answer
 *
 * For a new sequence the steps are foreseen in this order: kvc_seq_prefix(),
 * room for the rest of the prompt, and then room for @extra. Exact: if nobody
 * else takes or gives back pages meanwhile, they take as many pages as it
 * says, and succeed or not as it says. A page that is deduplicated after it
 * was filled leaves more room than that.
 *
 * What is found is held while the question is asked, and then given back: its
 * pages count as just used, and the keys as looked up, in the backend's
 * counters but not in struct kvc_stats. That there is no room is an answer and
 * no failure, so kvc_errmsg() does not tell of it. Return: 0; -ESTALE pages of
 * @seq were revoked; or another -errno.
 */
int kvc_predict(struct kvc_cache *c, const struct kvc_seq *seq,
		const uint32_t *tokens, uint32_t ntokens, uint32_t extra,
		struct kvc_room *out);

/* ---- sequences -------------------------------------------------------- */

/**
 * struct kvc_seq_opts - one conversation
 * @sz: sizeof(struct kvc_seq_opts)
 * @priority: of its published pages, plus 1; 0 for KVCACHE_PRIO_DEFAULT
 * @no_reuse: publish nothing and find nothing
 * @ttl_ns: time after which the priority falls back; 0 for never
 * @extra: bytes that set this conversation's content apart beside its tokens
 *         (an adapter's name and version, a digest of an image), or NULL
 * @extra_len: their number
 * @common: first tokens that the commons of the cache may have: those of a
 *          system prompt, and no user's
 */
struct kvc_seq_opts {
	size_t sz;
	uint32_t priority;
	uint32_t no_reuse;
	uint64_t ttl_ns;
	const void *extra;
	size_t extra_len;
	uint32_t common;
};

int kvc_seq_create(struct kvc_cache *c, const struct kvc_seq_opts *opts,
		   struct kvc_seq **out);

#define KVC_SEQ_DISCARD	(1U << 0)	/* publish nothing more */

/**
 * kvc_seq_free() - end a conversation
 * @s: the sequence, or NULL
 * @flags: KVC_SEQ_DISCARD or 0; bits that this library does not know are
 *         ignored, as the sequence is gone in any case
 *
 * Publishes the partly filled last page, unless a fork goes on with it, then
 * drops all pages. A planned batch that it is in ends as by kvc_batch_abort().
 * Nothing is published if pages of it were revoked.
 */
void kvc_seq_free(struct kvc_seq *s, uint32_t flags);

/**
 * kvc_seq_prefix() - begin with what is cached
 * @s: a sequence without tokens; it may have reserved pages
 * @tokens: the prompt
 * @n: its length
 *
 * Takes the longest cached prefix of at most @n - 1 tokens, that of all groups
 * the shortest. Whole pages are shared; of a page that matches in part, the
 * matching rows are copied into a fresh one, whose other slots are zeros. A
 * published page that holds exactly the rows wanted is shared, and copied when
 * it is written to; where the rest of the prompt would not fit beside it, it
 * is copied now, which lets go of it. Without room for a copy only whole pages
 * are taken: what fits from scratch fits with what is reused.
 *
 * Reserved pages stay for the rest of the prompt, and those that it does not
 * take go back. So who cannot have all pages now waits in kvc_seq_reserve() for
 * the ones that kvc_predict() says, holding nothing, and comes here then.
 * Return: tokens reused, which is the sequence's length now; -EINVAL it has
 * tokens, or is idle or in a batch.
 */
int kvc_seq_prefix(struct kvc_seq *s, const uint32_t *tokens, uint32_t n);

/**
 * kvc_seq_reserve() - make room for @n more tokens, all or nothing
 * @s: the sequence
 * @n: tokens beyond its length
 * @deadline_ns: as in struct kvcache_alloc
 *
 * A tail that others hold too is copied now. Steps of @n tokens in all will
 * need nothing more, unless the sequence is forked or truncated.
 *
 * Nothing is held while waiting. Up to KVCACHE_MAX_PAGES pages are waited for
 * in the backend's queue; more are taken as soon as all of them can be had at
 * once, which is looked at every 10 ms, so smaller requests may overtake.
 * Return: 0; -EDQUOT, -ENOSPC, -E2BIG, -ETIMEDOUT as KVCACHE_ALLOC; -EINTR a
 * signal came while waiting; -EBUSY the sequence is in a planned batch, or
 * idle; -ESTALE; -ENOMEM.
 */
int kvc_seq_reserve(struct kvc_seq *s, uint32_t n, uint64_t deadline_ns);

/**
 * kvc_seq_fork() - a second continuation of the same tokens
 * @s: the parent, unchanged
 * @out: the child, as long as @s
 *
 * All pages that hold tokens belong to both; full ones are published first
 * where they can be. A partly filled tail is copied by whoever writes to it
 * first while both hold it. Return: 0; -EBUSY the parent is in a planned
 * batch; -ESTALE; -ENOMEM.
 */
int kvc_seq_fork(struct kvc_seq *s, struct kvc_seq **out);

/**
 * kvc_seq_truncate() - forget all but the first @len tokens
 * @s: the sequence
 * @len: tokens to keep
 *
 * Pages past them go back, reserved ones too. What was published stays cached.
 * Return: 0; -EINVAL @len is above the length; -EBUSY the sequence is in a
 * planned batch.
 */
int kvc_seq_truncate(struct kvc_seq *s, uint32_t len);

/**
 * kvc_seq_idle() - nobody will read it for a while
 * @s: the sequence
 *
 * Gives others what it holds, to be taken when they want it: published pages
 * are cached, its own are volatile (but those that a fork holds too), reserved
 * ones go back. Until kvc_seq_wake() only its length and tokens can be asked
 * for, and it can be freed; other calls are -EBUSY. An idle one stays as it
 * is. Return: 0; -EBUSY the sequence is in a planned batch; -ESTALE.
 */
int kvc_seq_idle(struct kvc_seq *s);

/**
 * kvc_seq_wake() - go on with an idle sequence
 * @s: the sequence
 *
 * Takes back what is still there, up to the first page that is not; the
 * sequence is truncated to that, and takes no page for the rest: append those
 * tokens again. One that is not idle stays as it is.
 * Return: tokens that survived, which is its length now; or -errno, and it is
 * idle still: -ENOMEM, or what the backend says.
 */
int kvc_seq_wake(struct kvc_seq *s);

uint32_t kvc_seq_len(const struct kvc_seq *s);
/* Pages held, all groups, reserved ones included; of an idle one those that it
 * may find again without a lookup. */
uint32_t kvc_seq_pages(const struct kvc_seq *s);
/* The handles of a group's pages, in order; returns their number. */
uint32_t kvc_seq_handles(const struct kvc_seq *s, uint32_t group,
			 uint64_t *out, uint32_t n);
/* The tokens, kvc_seq_len() of them, valid until the sequence changes. */
const uint32_t *kvc_seq_tokens(const struct kvc_seq *s);

/**
 * kvc_seq_read() - stored rows in canonical order
 * @s: the sequence
 * @layer: the layer
 * @is_v: 0 for K (rotated, as stored), 1 for V
 * @head: the KV head
 * @first: first token
 * @n: tokens
 * @out: [@n][dim] elements in the stored type
 *
 * Return: 0; -EINVAL no such layer, head or tokens, or another @is_v; -ESTALE.
 */
int kvc_seq_read(const struct kvc_seq *s, uint32_t layer, int is_v,
		 uint32_t head, uint32_t first, uint32_t n, void *out);

/* ---- steps ------------------------------------------------------------ */

/**
 * struct kvc_item - what one sequence gets in a step
 * @seq: the sequence, once in a batch
 * @tokens: the ids of its new tokens
 * @n: their number, at least 1
 */
struct kvc_item {
	struct kvc_seq *seq;
	const uint32_t *tokens;
	uint32_t n;
};

int kvc_batch_create(struct kvc_cache *c, struct kvc_batch **out);
void kvc_batch_destroy(struct kvc_batch *b);

/**
 * kvc_batch_plan() - begin a step
 * @b: a batch that is not planned
 * @items: the sequences and their new tokens; rows are numbered in this order
 * @n: number of items
 *
 * Reserves what is missing for all of them, or nothing, and copies the tokens.
 * One-token items are computed by decode, others by prefill, each run of one
 * kind in one call: put those of a kind together. Return: 0; -EDQUOT, -ENOSPC,
 * -E2BIG; -EINVAL no items, an item without tokens or of another cache, a
 * sequence that is there twice; -EBUSY the batch, or a sequence in another
 * one, is planned already; -ESTALE a sequence lost pages: plan without it.
 */
int kvc_batch_plan(struct kvc_batch *b, const struct kvc_item *items,
		   uint32_t n);

/* Position of each row in its sequence, [rows]; valid until the batch ends. */
const uint32_t *kvc_batch_positions(const struct kvc_batch *b);

enum kvc_rope_kind {
	KVC_ROPE_NONE = 0,
	KVC_ROPE_PAIR = 1,	/* elements 2i and 2i + 1 rotate together */
	KVC_ROPE_HALF = 2,	/* elements i and i + rot_dim / 2 do */
};

/**
 * kvc_rope_table() - cosines and sines for struct kvc_rope
 * @table: [@npos][@rot_dim / 2][2]
 * @first: first position
 * @npos: number of positions
 * @rot_dim: elements of a head that rotate, even
 * @base: the model's RoPE base, such as 10000
 * @scale: linear scaling: positions are multiplied with it; 1 for none
 * @factors: [@rot_dim / 2] divisors of the frequencies, or NULL
 *
 * Computed in double, rounded once. RoFormer, arXiv:2104.09864, equation 34.
 */
void kvc_rope_table(float *table, uint32_t first, uint32_t npos,
		    uint32_t rot_dim, double base, double scale,
		    const float *factors);

/**
 * struct kvc_rope - rotary embedding to apply on append
 * @kind: enum kvc_rope_kind
 * @rot_dim: elements of a head that rotate
 * @table: kvc_rope_table() from position 0, for every position of the batch
 */
struct kvc_rope {
	uint32_t kind;
	uint32_t rot_dim;
	const float *table;
};

/**
 * kvc_append() - rotate Q and K, store K and V of one layer
 * @b: a planned batch
 * @layer: the layer
 * @rope: the rotation, or NULL
 * @q: [rows] rows of q_heads x k_dim, rotated in place
 * @q_stride: elements from one row of @q to the next
 * @k: [rows] rows of kv_heads x k_dim
 * @k_stride: elements from one row of @k to the next
 * @v: [rows] rows of kv_heads x v_dim
 * @v_stride: elements from one row of @v to the next
 *
 * @q may be NULL, and then @q_stride is not looked at. Return: 0; -EINVAL no
 * plan, no such layer, a stride shorter than a row, or a rotation that there is
 * not; -ESTALE: abort, and plan without the sequence that is named.
 */
int kvc_append(struct kvc_batch *b, uint32_t layer, const struct kvc_rope *rope,
	       float *q, size_t q_stride, const float *k, size_t k_stride,
	       const float *v, size_t v_stride);

/**
 * kvc_attend() - causal attention of one layer's new rows
 * @b: a planned batch, the layer appended
 * @layer: the layer
 * @scale: factor of the scores
 * @q: as rotated by kvc_append()
 * @q_stride: elements from one row of @q to the next
 * @o: [rows] rows of q_heads x v_dim
 * @o_stride: elements from one row of @o to the next
 *
 * Each row is the same bits whatever else is in the batch. Return: 0; -EINVAL
 * as kvc_append(), or the layer is not appended, or @scale is no number;
 * -ESTALE as kvc_append().
 */
int kvc_attend(struct kvc_batch *b, uint32_t layer, float scale,
	       const float *q, size_t q_stride, float *o, size_t o_stride);

/**
 * kvc_batch_commit() - end a step: the new tokens count
 * @b: a planned batch
 *
 * Pages that became full are published. That one could not be published for
 * want of room, or because it is pinned, is no failure: it stays private, and
 * is tried again with the next full page. Return: 0; -EINVAL no plan, or a
 * layer was not appended, and -ESTALE as kvc_append(): the batch is planned
 * still; or what else KVCACHE_PUBLISH says, such as -EPERM without a grant:
 * then the plan is over, and the tokens count all the same.
 */
int kvc_batch_commit(struct kvc_batch *b);

/* End a step as if it had not been. What was reserved stays reserved. */
void kvc_batch_abort(struct kvc_batch *b);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* KVCACHE_KVCACHE_H */
