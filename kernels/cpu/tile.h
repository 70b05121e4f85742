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

#include "../work.h"
#include "panel.h"
#include "softmax.h"

/* What all items of a call share. */
struct job {
	const struct kva_attn *a;
	struct kva_work w;
	uint32_t group;		/* q heads of a KV head */
	int direct;		/* slabs can be read by whole vectors */
	/* decode */
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
	j->direct = v->order == KVA_CPU && v->page_tokens % 8 == 0;
	j->first = a->ws;
	j->part_m = (float *)((char *)a->ws + j->w.first_size);
	j->part_l = (float *)((char *)j->part_m + j->w.ml_size);
	j->part_o = (float *)((char *)j->part_l + j->w.ml_size);
	j->tiles = a->ws;
}

/* Write one head of a finished row; @o may be where it goes. */
static void finish_head(const struct kva_attn *a, size_t row, uint32_t qh,
			const float *o, float m, float l)
{
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
	by = l == 0 ? 0 : by / l;
	for (d = 0; d < dim; d += VW)
		v_store(out + d, v_mul(v_load(o + d), v_set1(by)));
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
	float by = a->scale * LOG2E;
	float *to = x->q;
	uint32_t t;

	for (t = 0; t < tokens; t++, to += n) {
		const float *q = a->q + (row + t) * a->q_stride + head * n;

		for (i = 0; i < n; i += VW)
			v_store(to + i, v_mul(v_load(q + i), v_set1(by)));
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

/* Tokens [slot, slot + n) of a K slab to columns [at, ...) of scratch. */
static void expand_k(const struct job *j, const struct kva_scratch *x,
		     const void *slab, uint32_t slot, uint32_t at, uint32_t n)
{
	const struct kva_view *v = j->a->kv;
	enum panel_kind kind = (enum panel_kind)v->k_type;
	unsigned int c, edge;
	size_t d;

	for (d = 0; d < v->k_dim; d++) {
		float *to = x->k + d * KVA_K_STRIDE + at;

		for (c = 0; c < n; c += VW) {
			edge = (n - c + 7) / 8 * 8;
			v_store(to + c, panel_load(kind, slab, v->page_tokens,
						   d, d % 2, slot + c, edge));
		}
	}
}

/* The same for V, to rows of scratch. */
static void expand_v(const struct job *j, const struct kva_scratch *x,
		     const void *slab, uint32_t slot, uint32_t at, uint32_t n)
{
	const struct kva_view *v = j->a->kv;
	enum panel_kind kind = (enum panel_kind)v->v_type;
	uint32_t t;
	size_t d;

	for (t = 0; t < n; t++) {
		float *to = x->v + (at + t) * KVA_V_STRIDE(v->v_dim);

		for (d = 0; d < v->v_dim; d += VW)
			v_store(to + d, panel_load(kind, slab, v->v_dim,
						   slot + t, (slot + t) % 2, d,
						   VW));
	}
}

/* Any order and any page size, row by row. */
static void expand_slow(const struct job *j, const struct kva_scratch *x,
			const void *page, uint32_t head, uint32_t slot,
			uint32_t at, uint32_t n)
{
	const struct kva_view *v = j->a->kv;
	uint32_t t, d;

	for (t = 0; t < n; t++) {
		float *row = x->v + (at + t) * KVA_V_STRIDE(v->v_dim);

		kva_rows_read(v, page, 0, head, slot + t, 1, x->row);
		kva_row_decode(v->k_type, x->row, x->wide, v->k_dim);
		for (d = 0; d < v->k_dim; d++)
			x->k[d * KVA_K_STRIDE + at + t] = x->wide[d];
		if (v->v_in_k) {
			memcpy(row, x->wide, v->v_dim * sizeof(*row));
			continue;
		}
		kva_rows_read(v, page, 1, head, slot + t, 1, x->row);
		kva_row_decode(v->v_type, x->row, row, v->v_dim);
	}
}

/* Tokens [at, end) of the tile at @pos into their places in scratch. */
static void expand(const struct job *j, const struct kva_scratch *x,
		   uint32_t s, uint32_t head, uint64_t pos, uint32_t at,
		   uint32_t end)
{
	const struct kva_view *v = j->a->kv;
	uint32_t run;

	for (; at < end; at += run) {
		uint32_t slot = (pos + at) % v->page_tokens;
		const char *page = kva_page(v, s, pos + at);

		run = v->page_tokens - slot < end - at ?
		      v->page_tokens - slot : end - at;
		if (!j->direct) {
			expand_slow(j, x, page, head, slot, at, run);
			continue;
		}
		expand_k(j, x, kva_slab(v, page, 0, head), slot, at, run);
		expand_v(j, x, kva_slab(v, page, 1, head), slot, at, run);
	}
}

#endif /* KVA_TILE_H */
