/* SPDX-License-Identifier: MIT */
/*
 * tile.h - what decode and prefill have in common: a call's shared state,
 * queries into scratch, KV tokens expanded to f32, and finished rows out.
 *
 * A row meets the KV tokens in tiles whose borders depend on the sequence
 * alone (and in decode on the page size and the split), never on the other
 * rows, so its result is the same bits in any batch and any chunk of prompt.
 */
#ifndef KVA_TILE_H
#define KVA_TILE_H

#include "../quant.h"
#include "../work.h"
#include "panel.h"
#include "softmax.h"

/* What all items of a call share. */
struct job {
	const struct kva_attn *a;
	struct kva_work w;
	uint32_t group;		/* q heads of a KV head */
	int direct;		/* slabs can be read by whole vectors */
	uint8_t v_type;		/* K's if V is in it */
	float v_scale;
	size_t v_block;		/* that a rotated V is rotated in */
	/* decode */
	size_t items;
	unsigned int threads;
	float k_by;		/* what codes lack, whatever the token */
	float v_by;
	size_t *first;		/* [nseq + 1] first piece of a sequence */
	float *part_m;		/* [pieces][q_heads] m, l and o of each piece */
	float *part_l;
	float *part_o;		/* [pieces][q_heads][v_dim] */
	/* prefill */
	struct kva_tile *tiles;
};

static void job_init(struct job *j, const struct kva_attn *a)
{
	const struct kva_view *v = a->kv;

	memset(j, 0, sizeof(*j));
	j->a = a;
	kva_work_init(&j->w, a);
	j->group = a->q_heads / v->kv_heads;
	j->v_type = v->v_in_k ? v->k_type : v->v_type;
	j->v_scale = v->v_in_k ? v->k_scale : v->v_scale;
	j->v_block = kva_block(v->v_in_k ? v->k_dim : v->v_dim);
	j->k_by = j->v_by = 1;
	j->direct = v->order == KVA_CPU && v->page_tokens % 8 == 0;
	j->first = a->ws;
	j->part_m = (float *)((char *)a->ws + j->w.first_size);
	j->part_l = (float *)((char *)j->part_m + j->w.ml_size);
	j->part_o = (float *)((char *)j->part_l + j->w.ml_size);
	j->tiles = a->ws;
}

/* Write one head of a finished row; @o may be where it goes. */
static void finish_head(const struct job *j, size_t row, uint32_t qh,
			const float *o, float m, float l)
{
	const struct kva_attn *a = j->a;
	size_t dim = a->kv->v_dim, d;
	float *out = a->o + row * a->o_stride + qh * dim;
	float by = 1;

	if (a->sink_logits) {
		float sink = a->sink_logits[qh] * (float)LOG2E;
		float top = sink > m ? sink : m;

		if (top > -INFINITY) {
			by = exp2_one(m - top);
			l = l * by + exp2_one(sink - top);
			m = top;
		}
	}
	by = l == 0 ? 0 : by / l * j->v_by;
	for (d = 0; d < dim; d += VW)
		v_store(out + d, v_mul(v_load(o + d), v_set1(by)));
	if (j->v_type == KVA_INT4H)
		kva_hadamard(out, dim, j->v_block);
	if (a->lse)
		a->lse[row * a->q_heads + qh] = l == 0 ? -INFINITY :
			(m + log2f(l)) * (float)LN2;
}

/* Rows of q of @tokens tokens into scratch, scaled for the base-2 softmax. */
static void load_q(const struct job *j, struct kva_scratch *x, uint32_t row,
		   uint32_t head, uint32_t tokens)
{
	const struct kva_attn *a = j->a;
	size_t n = (size_t)j->group * a->kv->k_dim, i;
	float by = a->scale * LOG2E * j->k_by;
	float *to = x->q;
	uint32_t t;

	for (t = 0; t < tokens; t++, to += n) {
		const float *q = a->q + (row + t) * a->q_stride + head * n;

		for (i = 0; i < n; i += VW)
			v_store(to + i, v_mul(v_load(q + i), v_set1(by)));
		if (a->kv->k_type == KVA_INT4H)
			kva_hadamard(to, n, kva_block(a->kv->k_dim));
	}
}

static void reset_rows(const struct job *j, struct kva_scratch *x,
		       uint32_t rows)
{
	uint32_t r;

	memset(x->o, 0, sizeof(float) * rows * j->a->kv->v_dim);
	for (r = 0; r < rows; r++) {
		x->m[r] = -INFINITY;
		x->l[r] = 0;
	}
}

/* Scores [lo, hi) of row @r, all of the tile that it sees, to probabilities. */
static void score_row(const struct job *j, struct kva_scratch *x, uint32_t r,
		      uint32_t lo, uint32_t hi)
{
	float *s = x->s + (size_t)r * KVA_S_STRIDE + lo;
	size_t dim = j->a->kv->v_dim;

	if (j->a->softcap)
		cap_row(s, hi - lo, j->a->softcap * (float)LOG2E);
	softmax_row(s, hi - lo, &x->m[r], &x->l[r], x->o + r * dim, dim);
}

#endif /* KVA_TILE_H */
