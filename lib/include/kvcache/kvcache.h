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

/**
 * kvc_close() - close a context
 * @ctx: the context, without caches; or NULL
 *
 * Every page that is not published is lost, all references are dropped.
 */
void kvc_close(struct kvc *ctx);

/**
 * kvc_errmsg() - why the last call on this context that failed did
 * @ctx: the context
 *
 * Return: a sentence, or "" if none has failed. It belongs to the context, and
 * is valid until the next call that fails.
 */
const char *kvc_errmsg(const struct kvc *ctx);

/**
 * kvc_backend() - what keeps the pages of a context
 * @ctx: the context
 *
 * Return: "local", "device" or "broker".
 */
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

/*
 * Element types of K and V. Those of 8 and 4 bits have scales: in the page, but
 * for KVC_E4M3T, whose are struct kvc_model's.
 */
#define KVC_F32		0
#define KVC_F16		1
#define KVC_BF16	2
#define KVC_INT8	3	/* a scale each token and head */
#define KVC_E4M3	4	/* the same, of 8-bit floating point */
#define KVC_E4M3T	5	/* one scale a layer, which is given */
#define KVC_INT4	6	/* scale and minimum of each 32 elements */
#define KVC_INT4H	7	/* the same, after a Hadamard rotation */

#define KVC_MAX_GROUPS	8
#define KVC_MAX_LAYERS	1024

/**
 * struct kvc_group - layers that share shape and window, and their pages
 * @kv_heads: KV heads, up to 4,096
 * @k_dim: elements in a K row, a multiple of 16, up to 1,024
 * @v_dim: elements in a V row, likewise
 * @k_type: type that K is kept in: KVC_F32, _F16, _BF16, _INT8, _E4M3, _E4M3T,
 *          _INT4 or _INT4H
 * @v_type: the same of V
 * @window: tokens that a row sees, its own included; 0 for all
 * @sinks: with a window: first tokens of a sequence that stay visible
 *
 * Pages that are wholly outside the window go back when the step that left them
 * behind is committed, but those with sinks: between steps a sequence has at
 * most ceil((@window - 1) / P) + 1 pages of P tokens in such a group, and
 * ceil(@sinks / P) more. What is published stays cached, as any page.
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
 * @k_scales: [@nlayers] what codes of K are multiplied with in layers of type
 *            KVC_E4M3T: normal and more than 0; other layers' are not looked
 *            at. NULL where there is no such layer. Pages with other scales
 *            are not found
 * @v_scales: the same of V
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
	const float *k_scales;
	const float *v_scales;
};

/**
 * struct kvc_footprint - what conversations of one length cost
 * @page_tokens: slots in a page of group 0
 * @block_tokens: tokens in a block of group 0
 * @bytes_per_token: sum over layers of kv_heads x (bytes of a K row + bytes of
 *                   a V row), scales included; 2 x layers x kv_heads x head_dim
 *                   x bytes for equal K and V without scales
 * @used_bytes: @bytes_per_token x tokens x sequences, less what is of pages
 *              that have left a window
 * @pages: pages held
 * @held_bytes: bytes in those pages; of a group with a window, in those that
 *              are in it
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
 * Needs no context, and no @k_scales and @v_scales. Return: 0; -EINVAL a bad
 * model; -E2BIG not one token fits in a page; -EOVERFLOW.
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
 * @step: most tokens that one step of one sequence will have, or 0. Groups with
 *        a window reserve pages for so many only, as those that leave the window
 *        make room; 0: for all
 * @keep_all: keep pages that have left a window, as if there were none: for
 *            comparison
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
	uint32_t step;
	uint32_t keep_all;
};

/**
 * kvc_cache_create() - a model's cache in one pool
 * @ctx: the context; must stay open while the cache lives
 * @m: the model, copied
 * @opts: options, or NULL
 * @out: for kvc_cache_destroy()
 *
 * Return: 0; -EINVAL, -E2BIG as kvc_footprint(); -EINVAL a layer of KVC_E4M3T
 * without its scale, or a @split that cannot be; -ENOENT no such pool or domain;
 * -EOPNOTSUPP an @isa that this CPU does not run; -ENOMEM.
 */
int kvc_cache_create(struct kvc *ctx, const struct kvc_model *m,
		     const struct kvc_cache_opts *opts, struct kvc_cache **out);

/**
 * kvc_cache_destroy() - end a cache
 * @c: the cache, or NULL. Its sequences and batches must be gone
 *
 * What it published stays in the backend.
 */
void kvc_cache_destroy(struct kvc_cache *c);

/**
 * kvc_cache_nthreads() - threads of a cache
 * @c: the cache
 *
 * Return: their number, the calling one included.
 */
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

/**
 * kvc_cache_isa() - the kernel variant that a cache uses
 * @c: the cache
 *
 * Return: its name, as @isa of struct kvc_cache_opts takes it.
 */
const char *kvc_cache_isa(const struct kvc_cache *c);

/**
 * kvc_cache_page_tokens() - slots in a page
 * @c: the cache
 * @group: the group of layers
 *
 * Return: tokens that a page of @group has room for; 0 there is no such group.
 */
uint32_t kvc_cache_page_tokens(const struct kvc_cache *c, uint32_t group);

/**
 * kvc_cache_block_tokens() - tokens in a block, which a key is for
 * @c: the cache
 * @group: the group of layers
 *
 * Return: their number; 0 there is no such group.
 */
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
 * @pages_copied: pages copied to be written, as others held them too; and those
 *                of a static sequence's fork
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
	uint64_t pages_copied;
};

/**
 * kvc_cache_stats() - counters of a cache
 * @c: the cache
 * @out: filled in
 */
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
 * @most_pages: pages that it would hold at once then
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
	uint64_t most_pages;
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
 * says, and succeed or not as it says. In groups with a window, where struct
 * kvc_cache_opts.step says how long a step is, pages for one step are counted,
 * and for @extra those of one token, as the next ones follow those that go
 * back. A page that is deduplicated after it
 * was filled leaves more room than that.
 *
 * What is found is held while the question is asked, and then given back: its
 * pages count as just used, and the keys as looked up, in the backend's
 * counters but not in struct kvc_stats. That there is no room is an answer and
 * no failure, so kvc_errmsg() does not tell of it. Return: 0; -ESTALE pages of
 * @seq were revoked; -ERANGE more than a static @seq has room for; or another
 * -errno.
 */
int kvc_predict(struct kvc_cache *c, const struct kvc_seq *seq,
		const uint32_t *tokens, uint32_t ntokens, uint32_t extra,
		struct kvc_room *out);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

/* The rest of the library. */
#include <kvcache/seq.h>
#include <kvcache/batch.h>
#include <kvcache/save.h>
#include <kvcache/tier.h>

#endif /* KVCACHE_KVCACHE_H */
