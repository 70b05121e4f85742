// SPDX-License-Identifier: MIT
/*
 * ref.c - the oracle: every operation as its definition says, in double, from
 * the values that are stored. Slow, and meant to be read.
 */
#include <math.h>

#include "kva.h"

static double element(const struct kva_view *v, uint32_t s, uint64_t pos,
		      int is_v, uint32_t head, uint32_t d)
{
	unsigned int type;
	uint32_t dim;
	size_t i;

	is_v = is_v && !v->v_in_k;
	type = is_v ? v->v_type : v->k_type;
	dim = is_v ? v->v_dim : v->k_dim;
	i = kva_index(kva_form(type, v->order, is_v), v->page_tokens,
			     dim, pos % v->page_tokens, d);

	return kva_get(type, kva_slab(v, kva_page(v, s, pos), is_v, head), i);
}

/* Rotate one head's row; @cs are the cosines and sines of its position. */
static void rotate(const struct kva_append *a, const float *in, float *out,
		   uint32_t dim, uint32_t row)
{
	uint32_t half = a->rot_dim / 2, i;
	const float *cs;

	memmove(out, in, dim * sizeof(*out));
	if (a->rope == KVA_ROPE_NONE)
		return;
	cs = a->rope_table + (size_t)a->pos[row] * a->rot_dim;
	for (i = 0; i < half; i++) {
		uint32_t x = a->rope == KVA_ROPE_PAIR ? 2 * i : i;
		uint32_t y = a->rope == KVA_ROPE_PAIR ? 2 * i + 1 : i + half;
		double c = cs[2 * i], s = cs[2 * i + 1];
		double inx = out[x], iny = out[y];

		out[x] = inx * c - iny * s;
		out[y] = inx * s + iny * c;
	}
}

static void append_head(const struct kva_view *v, uint32_t s, uint64_t pos,
			int is_v, uint32_t head, const float *row)
{
	unsigned int type = is_v ? v->v_type : v->k_type;
	uint32_t dim = is_v ? v->v_dim : v->k_dim, d;
	enum kva_form form = kva_form(type, v->order, is_v);
	char *slab = kva_slab(v, kva_page(v, s, pos), is_v, head);

	for (d = 0; d < dim; d++)
		kva_put(type, slab, kva_index(form, v->page_tokens, dim,
					      pos % v->page_tokens, d),
			row[d]);
}

static int ref_append(const struct kva_append *a, struct kva_threads *t)
{
	const struct kva_view *v = a->kv;
	float row[KVA_DIM_MAX];
	uint32_t s, r, h;
	int rc;

	rc = kva_check_append(a);
	if (rc)
		return rc;
	for (s = 0; s < v->nseq; s++) {
		for (r = a->row_ptr[s]; r < a->row_ptr[s + 1]; r++) {
			uint64_t pos = kva_seq_len(v, s) - a->row_ptr[s + 1] + r;

			for (h = 0; a->q && h < a->q_heads; h++) {
				float *q = a->q + r * a->q_stride +
					   (size_t)h * v->k_dim;

				rotate(a, q, q, v->k_dim, r);
			}
			for (h = 0; h < v->kv_heads; h++) {
				rotate(a, a->k + r * a->k_stride +
				       (size_t)h * v->k_dim, row, v->k_dim, r);
				append_head(v, s, pos, 0, h, row);
				if (v->v_in_k)
					continue;
				append_head(v, s, pos, 1, h,
					    a->v + r * a->v_stride +
					    (size_t)h * v->v_dim);
			}
		}
	}
	return 0;
}

static double score(const struct kva_attn *a, uint32_t s, const float *q,
		    uint32_t head, uint64_t pos)
{
	double sum = 0;
	uint32_t d;

	for (d = 0; d < a->kv->k_dim; d++)
		sum += q[d] * element(a->kv, s, pos, 0, head, d);
	sum *= a->scale;
	return a->softcap ? a->softcap * tanh(sum / a->softcap) : sum;
}

/* Whether a row that comes after @sees - 1 tokens sees the one at @pos. */
static int visible(const struct kva_attn *a, uint64_t sees, uint64_t pos)
{
	return !a->window || pos + a->window >= sees || pos < a->sinks;
}

/* One query head of one row: softmax(q K / sqrt(d)) V over what it sees. */
static void attend(const struct kva_attn *a, uint32_t s, uint32_t row,
		   uint32_t qh)
{
	const struct kva_view *v = a->kv;
	uint32_t head = qh / (a->q_heads / v->kv_heads), d;
	uint64_t len = kva_seq_len(v, s), after = a->row_ptr[s + 1] - 1 - row;
	uint64_t sees = len > after ? len - after : 0, pos;
	const float *q = a->q + row * a->q_stride + (size_t)qh * v->k_dim;
	float *out = a->o + row * a->o_stride + (size_t)qh * v->v_dim;
	double o[KVA_DIM_MAX] = { 0 }, max = -INFINITY, sum = 0;

	for (pos = 0; pos < sees; pos++)
		if (visible(a, sees, pos))
			max = fmax(max, score(a, s, q, head, pos));
	if (a->sink_logits)
		max = fmax(max, a->sink_logits[qh]);
	/* all scores -inf: subtract 0, not -inf, from them */
	if (max == -INFINITY)
		max = 0;
	for (pos = 0; pos < sees; pos++) {
		double p;

		if (!visible(a, sees, pos))
			continue;
		p = exp(score(a, s, q, head, pos) - max);
		sum += p;
		for (d = 0; d < v->v_dim; d++)
			o[d] += p * element(v, s, pos, 1, head, d);
	}
	if (a->sink_logits)
		sum += exp(a->sink_logits[qh] - max);
	for (d = 0; d < v->v_dim; d++)
		out[d] = sum == 0 ? 0 : o[d] / sum;
	if (a->lse)
		a->lse[(size_t)row * a->q_heads + qh] =
			sum == 0 ? -INFINITY : max + log(sum);
}

static void attend_item(void *arg, size_t item, unsigned int thread)
{
	const struct kva_attn *a = arg;
	uint32_t row = a->row_ptr[0] + item / a->q_heads;

	attend(a, kva_find(a->row_ptr, a->kv->nseq, row), row,
	       item % a->q_heads);
}

static int ref_attn(const struct kva_attn *a, struct kva_threads *t,
		    int decode)
{
	int rc;

	rc = kva_check_attn(a, decode);
	if (rc || !a->kv->nseq)
		return rc;
	kva_threads_run(t, (size_t)(a->row_ptr[a->kv->nseq] - a->row_ptr[0]) *
			a->q_heads, attend_item, (void *)a);
	return 0;
}

static int ref_prefill(const struct kva_attn *a, struct kva_threads *t)
{
	return ref_attn(a, t, 0);
}

static int ref_decode(const struct kva_attn *a, struct kva_threads *t)
{
	return ref_attn(a, t, 1);
}

static int ref_merge(const struct kva_merge *m)
{
	size_t r, d, i;
	int rc;

	rc = kva_check_merge(m);
	if (rc)
		return rc;
	for (r = 0; r < m->rows; r++) {
		double max = -INFINITY, sum = 0;

		for (i = 0; i < m->n; i++)
			max = fmax(max, m->lse[i * m->rows + r]);
		if (max == -INFINITY)
			max = 0;
		for (i = 0; i < m->n; i++)
			sum += exp(m->lse[i * m->rows + r] - max);
		for (d = 0; d < m->dim; d++) {
			double o = 0;

			for (i = 0; i < m->n; i++)
				if (m->lse[i * m->rows + r] != -INFINITY)
					o += exp(m->lse[i * m->rows + r] - max) *
					     m->o[(i * m->rows + r) * m->dim + d];
			m->out[r * m->dim + d] = sum == 0 ? 0 : o / sum;
		}
		if (m->out_lse)
			m->out_lse[r] = sum == 0 ? -INFINITY : max + log(sum);
	}
	return 0;
}

const struct kva_ops kva_ops_ref = {
	.name = "ref",
	.append = ref_append,
	.prefill = ref_prefill,
	.decode = ref_decode,
	.merge = ref_merge,
	.copy = kva_cpu_copy,
	.rows = kva_cpu_rows,
	.shift = kva_cpu_shift,
};
