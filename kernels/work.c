// SPDX-License-Identifier: MIT
/*
 * work.c - how the scratch memory of decode and prefill is divided: first what
 * the threads share, then a part for each thread.
 */
#include "kva.h"
#include "work.h"

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

static size_t parts(uint64_t n, uint32_t of)
{
	return (n + of - 1) / of;
}

uint32_t kva_split(const struct kva_attn *a)
{
	return a->split ? a->split : KVA_SPLIT_DEFAULT;
}

uint32_t kva_tile_tokens(const struct kva_attn *a)
{
	uint32_t group = a->q_heads / a->kv->kv_heads;

	return group < KVA_ROWS ? KVA_ROWS / group : 1;
}

size_t kva_pieces(const struct kva_attn *a, uint32_t s)
{
	uint64_t len = kva_seq_len(a->kv, s), low = kva_low(a, len);
	size_t n;

	if (a->row_ptr[s] == a->row_ptr[s + 1])
		return 0;
	n = parts(kva_sinks(a, low), kva_split(a)) +
	    parts(len - low, kva_split(a));
	return n ? n : 1;
}

void kva_piece(const struct kva_attn *a, uint32_t s, size_t i, uint64_t *pos,
	       uint64_t *end)
{
	uint64_t len = kva_seq_len(a->kv, s), low = kva_low(a, len);
	uint64_t sinks = kva_sinks(a, low);
	size_t sink_parts = parts(sinks, kva_split(a));

	if (i < sink_parts) {
		low = 0;
		len = sinks;
	} else {
		i -= sink_parts;
	}
	*pos = low + i * kva_split(a);
	*end = len - *pos < kva_split(a) ? len : *pos + kva_split(a);
}

static uint32_t row_floats(const struct kva_view *v)
{
	return v->k_dim > v->v_dim ? v->k_dim : v->v_dim;
}

void kva_work_init(struct kva_work *w, const struct kva_attn *a)
{
	const struct kva_view *v = a->kv;
	uint32_t group = a->q_heads / v->kv_heads;
	uint32_t tokens = kva_tile_tokens(a), s;

	memset(w, 0, sizeof(*w));
	for (s = 0; s < v->nseq; s++) {
		w->pieces += kva_pieces(a, s);
		w->tiles += (a->row_ptr[s + 1] - a->row_ptr[s] + tokens - 1) /
			    tokens;
	}
	w->first_size = round_up(((size_t)v->nseq + 1) * sizeof(size_t), 64);
	w->ml_size = round_up(w->pieces * a->q_heads * sizeof(float), 64);
	w->o_size = w->pieces * a->q_heads * v->v_dim * sizeof(float);
	w->tiles_size = round_up(w->tiles * sizeof(struct kva_tile), 64);

	w->rows = round_up(group > KVA_ROWS ? group : KVA_ROWS, 48);
	w->scratch_size = sizeof(float) *
		((size_t)w->rows * (v->k_dim + v->v_dim + KVA_S_STRIDE + 2) +
		 (size_t)v->k_dim * KVA_K_STRIDE +
		 (size_t)KVA_TILE * KVA_V_STRIDE(v->v_dim) +
		 2 * KVA_S_STRIDE * (kva_groups(v->k_dim) +
				     kva_groups(v->v_dim)) +
		 (size_t)w->rows * kva_groups(v->k_dim) +
		 (size_t)KVA_PANEL_ROWS * kva_groups(v->v_dim) * KVA_S_STRIDE +
		 (size_t)w->rows * kva_groups(v->v_dim) * KVA_WIDE +
		 2 * (size_t)row_floats(v));
	w->scratch_size = round_up(w->scratch_size, 64);
	w->shared_size = w->first_size + 2 * w->ml_size + w->o_size;
	if (w->shared_size < w->tiles_size)
		w->shared_size = w->tiles_size;
}

void kva_scratch_init(struct kva_scratch *x, const struct kva_work *w,
		      const struct kva_attn *a, unsigned int thread)
{
	float *p = (float *)((char *)a->ws + w->shared_size +
			     thread * w->scratch_size);

	x->q = p;
	x->o = x->q + (size_t)w->rows * a->kv->k_dim;
	x->s = x->o + (size_t)w->rows * a->kv->v_dim;
	x->k = x->s + (size_t)w->rows * KVA_S_STRIDE;
	x->v = x->k + (size_t)a->kv->k_dim * KVA_K_STRIDE;
	x->m = x->v + (size_t)KVA_TILE * KVA_V_STRIDE(a->kv->v_dim);
	x->l = x->m + w->rows;
	x->row = x->l + w->rows;
	x->wide = x->row + row_floats(a->kv);
	x->k_groups = x->wide + row_floats(a->kv);
	x->v_groups = x->k_groups +
		      2 * KVA_S_STRIDE * kva_groups(a->kv->k_dim);
	x->q_sums = x->v_groups +
		    2 * KVA_S_STRIDE * kva_groups(a->kv->v_dim);
	x->weights = x->q_sums + (size_t)w->rows * kva_groups(a->kv->k_dim);
	x->adds = x->weights + (size_t)KVA_PANEL_ROWS *
		  kva_groups(a->kv->v_dim) * KVA_S_STRIDE;
}

size_t kva_workspace(const struct kva_attn *a, const struct kva_threads *t)
{
	struct kva_work w;

	kva_work_init(&w, a);
	return w.shared_size + kva_threads_count(t) * w.scratch_size;
}
