/* SPDX-License-Identifier: MIT */
/*
 * batch.h - libkvcache: steps of several sequences. For <kvcache/kvcache.h>.
 */
#ifndef KVCACHE_BATCH_H
#define KVCACHE_BATCH_H

#include <kvcache/kvcache.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

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

/**
 * kvc_batch_create() - an object for steps, to be used again and again
 * @c: the cache
 * @out: for kvc_batch_destroy()
 *
 * Return: 0; -ENOMEM.
 */
int kvc_batch_create(struct kvc_cache *c, struct kvc_batch **out);

/**
 * kvc_batch_destroy() - free a batch
 * @b: the batch, or NULL. A step that is planned ends as by kvc_batch_abort()
 */
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
 * one, is planned already; -ERANGE more than a static sequence has room for;
 * -ESTALE a sequence lost pages: plan without it.
 */
int kvc_batch_plan(struct kvc_batch *b, const struct kvc_item *items,
		   uint32_t n);

/**
 * kvc_batch_positions() - position of each row in its sequence
 * @b: a planned batch
 *
 * Return: [rows], in the order of the items. They belong to the batch, and are
 * valid until the step ends.
 */
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

/**
 * kvc_batch_accept() - end a step of which not all tokens count
 * @b: a planned batch
 * @keep: [items] tokens of each item that count, its first ones; 0 for none. NULL
 *        for all
 *
 * For what was guessed and is looked at now: the other tokens leave nothing
 * behind, no key and no page. What an item with fewer tokens than planned has
 * reserved goes back, too. Return: as kvc_batch_commit(); -EINVAL more than were
 * planned, and the batch is planned still.
 */
int kvc_batch_accept(struct kvc_batch *b, const uint32_t *keep);

/**
 * kvc_batch_abort() - end a step as if it had not been
 * @b: a batch; one that is not planned stays as it is
 *
 * What was reserved stays reserved, by the sequences.
 */
void kvc_batch_abort(struct kvc_batch *b);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* KVCACHE_BATCH_H */
