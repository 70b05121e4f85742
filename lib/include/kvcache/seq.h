/* SPDX-License-Identifier: MIT */
/*
 * seq.h - libkvcache: sequences of tokens. For <kvcache/kvcache.h>.
 */
#ifndef KVCACHE_SEQ_H
#define KVCACHE_SEQ_H

#include <kvcache/kvcache.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

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
 * @fixed: a static sequence: for so many tokens it gets all pages now, and keeps
 *         them, each in its place, until it is freed; 0 for one that grows
 *
 * A static sequence makes no allocation after its first, whatever it is used
 * for, and more than @fixed tokens are -ERANGE. It gives nothing back: not to
 * others while it is idle, which it then is not, not what has left a window, and
 * not what is truncated. It publishes nothing and finds nothing, as a page that
 * others may have cannot be written again.
 */
struct kvc_seq_opts {
	size_t sz;
	uint32_t priority;
	uint32_t no_reuse;
	uint64_t ttl_ns;
	const void *extra;
	size_t extra_len;
	uint32_t common;
	uint32_t fixed;
};

/**
 * kvc_seq_create() - begin a conversation, without tokens and pages
 * @c: the cache
 * @opts: options, or NULL; @extra is not needed after the call
 * @out: for kvc_seq_free()
 *
 * Return: 0; -EINVAL a @priority above KVCACHE_PRIO_MAX, @extra_len without
 * @extra, or a bad @sz; -ENOMEM; of a static one what kvc_seq_reserve() says.
 */
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
 * Takes the longest cached prefix of at most @n - 1 tokens that every group
 * serves: one with a window, if its sinks and the window before the end of that
 * prefix are there, whatever is between. Whole pages are shared; of a page that
 * matches in part, the matching rows are copied into a fresh one, whose other
 * slots are zeros. A published page that holds exactly the rows wanted is shared,
 * and copied when it is written to; where the rest of the prompt would not fit
 * beside it, it is copied now, which lets go of it. Without room for a copy only
 * whole pages are taken: what fits from scratch fits with what is reused. What
 * comes next and is not in the pool is brought in from the cache's tiers, if it
 * has any.
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
 * need nothing more, unless the sequence is forked or truncated; but in groups
 * with a window each step needs what the steps before gave back, if struct
 * kvc_cache_opts.step says how long one is.
 *
 * Nothing is held while waiting. Up to KVCACHE_MAX_PAGES pages are waited for
 * in the backend's queue; more are taken as soon as all of them can be had at
 * once, which is looked at every 10 ms, so smaller requests may overtake.
 * Return: 0; -EDQUOT, -ENOSPC, -E2BIG, -ETIMEDOUT as KVCACHE_ALLOC; -ERANGE a
 * static sequence has no room for them, and never will; -EINTR a signal came
 * while waiting; -EBUSY the sequence is in a planned batch, or idle; -ESTALE;
 * -ENOMEM.
 */
int kvc_seq_reserve(struct kvc_seq *s, uint32_t n, uint64_t deadline_ns);

/**
 * kvc_seq_fork() - a second continuation of the same tokens
 * @s: the parent, unchanged
 * @out: the child, as long as @s
 *
 * All pages that hold tokens belong to both; full ones are published first
 * where they can be. A partly filled tail is copied by whoever writes to it
 * first while both hold it. Of a static one all is copied, and the child is
 * static. Return: 0; -EBUSY the parent is in a planned batch; -ESTALE; -ENOMEM;
 * of a static one -EDQUOT, -ENOSPC and -E2BIG, too.
 */
int kvc_seq_fork(struct kvc_seq *s, struct kvc_seq **out);

/**
 * kvc_seq_reorder() - sequences go on with each other's histories
 * @seqs: [@n] sequences of one cache, each once
 * @from: [@n] whose history each takes: @seqs[i] becomes a fork of what
 *        @seqs[@from[i]] was
 * @n: their number
 *
 * As beams do after each step. No page is copied or allocated; a tail that
 * several hold then is copied when it is written to. What nobody has any more
 * goes back, reserved pages of those that change, too. Return: 0; -EINVAL no
 * such sequence, one that is there twice, one of another cache, or a static one
 * that would change; -EBUSY one is in a planned batch, or idle; -ESTALE; -ENOMEM.
 */
int kvc_seq_reorder(struct kvc_seq *const *seqs, const uint32_t *from,
		    uint32_t n);

/**
 * struct kvc_rotation - how a group's keys were rotated when they were appended
 * @kind: enum kvc_rope_kind
 * @rot_dim: elements of a head that rotate
 * @base: as in kvc_rope_table()
 * @scale: likewise
 * @factors: likewise
 */
struct kvc_rotation {
	uint32_t kind;
	uint32_t rot_dim;
	double base;
	double scale;
	const float *factors;
};

/**
 * kvc_seq_remove() - forget tokens in the middle, and close the gap
 * @s: the sequence
 * @first: first token to remove
 * @n: their number
 * @rot: [groups] how each group's keys were rotated; NULL: none were
 *
 * What follows moves to positions that are lower by @n: its K rows are rotated
 * on by as many, each rounded once more. Pages that others hold too, or find,
 * are copied first. The kept rows still depend on what was removed, so from
 * @first on nothing of this sequence is published, or found by anyone, until it
 * is truncated to @first or less.
 *
 * In a group with a window whose pages have begun to leave it, @n is a multiple
 * of its page's tokens. Return: 0; -EINVAL no such tokens or rotation; -ENODATA
 * rows of a window are wanted that were given back, or @n is no such multiple;
 * -EDQUOT, -ENOSPC, -E2BIG no pages for the copies; -EBUSY the sequence is in a
 * planned batch, or idle; -ESTALE; -ENOMEM.
 */
int kvc_seq_remove(struct kvc_seq *s, uint32_t first, uint32_t n,
		   const struct kvc_rotation *rot);

/**
 * kvc_seq_truncate() - forget all but the first @len tokens
 * @s: the sequence
 * @len: tokens to keep
 *
 * Pages past them go back, reserved ones too (but those of a static one). What
 * was published stays cached.
 * The window before @len must still be there: it is not, where more was appended
 * since than a page has. To 0 it can always be truncated; kvc_seq_prefix() finds
 * then what is cached.
 * Return: 0; -EINVAL @len is above the length; -ENODATA pages of the window
 * before it were given back; -EBUSY the sequence is in a planned batch.
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
 * is, and so does a static one. Return: 0; -EBUSY the sequence is in a planned batch; -ESTALE.
 */
int kvc_seq_idle(struct kvc_seq *s);

/**
 * kvc_seq_wake() - go on with an idle sequence
 * @s: the sequence
 *
 * Takes back what is still there, up to the first page that is not; the
 * sequence is truncated to that, and takes no page for the rest, unless a tier
 * has it (kvc_cache_tier()): append those tokens again. Where a group has a
 * window, and pages of any are gone, that is mostly 0: what was before the window
 * is not kept. One that is not idle stays as it is.
 * Return: tokens that survived, which is its length now; or -errno, and it is
 * idle still: -ENOMEM, or what the backend says.
 */
int kvc_seq_wake(struct kvc_seq *s);

/**
 * kvc_seq_len() - length of a conversation
 * @s: the sequence
 *
 * Return: tokens that were committed or reused.
 */
uint32_t kvc_seq_len(const struct kvc_seq *s);

/**
 * kvc_seq_pages() - pages held
 * @s: the sequence
 *
 * Return: their number, all groups, reserved ones included; of an idle one those
 * that it may find again without a lookup.
 */
uint32_t kvc_seq_pages(const struct kvc_seq *s);

/**
 * kvc_seq_handles() - the handles of a group's pages, in order
 * @s: the sequence
 * @group: the group of layers
 * @out: room for @n handles; the first of them are stored, 0 for a page that has
 *       left the group's window
 * @n: may be 0, to ask for the number
 *
 * Return: how many there are; 0 if there is no such group.
 */
uint32_t kvc_seq_handles(const struct kvc_seq *s, uint32_t group,
			 uint64_t *out, uint32_t n);
/**
 * kvc_seq_tokens() - the tokens of a conversation
 * @s: the sequence
 *
 * Return: kvc_seq_len() of them. They belong to the sequence, and are valid until
 * it changes.
 */
const uint32_t *kvc_seq_tokens(const struct kvc_seq *s);

/**
 * kvc_seq_read() - stored rows in canonical order
 * @s: the sequence
 * @layer: the layer
 * @is_v: 0 for K (rotated, as stored), 1 for V
 * @head: the KV head
 * @first: first token
 * @n: tokens
 * @out: [@n] rows in the stored type: elements, or codes and after them their
 *       scales (Documentation/kernels.rst), KVC_INT4H rotated
 *
 * Return: 0; -EINVAL no such layer, head or tokens, or another @is_v; -ENODATA
 * some of them have left the window; -ESTALE.
 */
int kvc_seq_read(const struct kvc_seq *s, uint32_t layer, int is_v,
		 uint32_t head, uint32_t first, uint32_t n, void *out);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* KVCACHE_SEQ_H */
