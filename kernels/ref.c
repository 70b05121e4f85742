// SPDX-License-Identifier: MIT
/*
 * ref.c - the oracle: every operation as its definition says, in double, from
 * the values that are stored. Slow, and meant to be read.
 */
#include <math.h>

#include "kva.h"

static uint16_t half_at(const char *p)
{
	uint16_t h;

	memcpy(&h, p, sizeof(h));
	return h;
}

/* What element @d of a row in canonical order means, exactly. */
static double element(unsigned int type, float scale, const char *row,
		      uint32_t dim, uint32_t d)
{
	uint32_t group = d / KVA_GROUP, i = d % KVA_GROUP;
	uint32_t half = kva_group_dim(dim, group) / 2;
	uint8_t byte;

	switch (type) {
	case KVA_INT8:
		memcpy(&scale, row + dim, sizeof(scale));
		return (double)scale * (int8_t)row[d];
	case KVA_E4M3:
		memcpy(&scale, row + dim, sizeof(scale));
		return (double)scale * kva_cvt_e4m3_f32(row[d]);
	case KVA_E4M3T:
		return (double)scale * kva_cvt_e4m3_f32(row[d]);
	case KVA_INT4:
	case KVA_INT4H:
		byte = row[group * KVA_GROUP / 2 + i % half];
		row += dim / 2 + 2 * group;
		return (double)kva_cvt_f16_f32(half_at(row)) *
		       (i < half ? byte & 15 : byte >> 4) +
		       kva_cvt_f16_f32(half_at(row + 2 * kva_groups(dim)));
	default:
		return kva_get(type, row, d);
	}
}

static void read_row(const struct kva_view *v, uint32_t s, uint64_t pos,
		     int is_v, uint32_t head, double *out)
{
	uint32_t row[KVA_DIM_MAX], dim, d;
	unsigned int type;

	is_v = is_v && !v->v_in_k;
	type = is_v ? v->v_type : v->k_type;
	dim = is_v ? v->v_dim : v->k_dim;
	kva_rows_read(v, kva_page(v, s, pos), is_v, head,
		      pos % v->page_tokens, 1, row);
	for (d = 0; d < dim; d++)
		out[d] = element(type, is_v ? v->v_scale : v->k_scale,
				 (char *)row, dim, d);
}

/* The normalised Hadamard matrix of each block, by its definition. */
static void hadamard(const double *in, double *out, uint32_t dim,
		     uint32_t block)
{
	uint32_t i, k;

	for (i = 0; i < dim; i++) {
		double sum = 0;

		for (k = 0; k < block; k++)
			sum += __builtin_parity(i % block & k) ?
			       -in[i / block * block + k] :
			       in[i / block * block + k];
		out[i] = sum / sqrt(block);
	}
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
			int is_v, uint32_t head, const float *in)
{
	uint32_t row[KVA_DIM_MAX];

	kva_row_encode(is_v ? v->v_type : v->k_type,
		       is_v ? v->v_scale : v->k_scale, in, row,
		       is_v ? v->v_dim : v->k_dim);
	kva_rows_write(v, kva_page(v, s, pos), is_v, head,
		       pos % v->page_tokens, 1, row);
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

static double score(const struct kva_attn *a, uint32_t s, const double *q,
		    uint32_t head, uint64_t pos)
{
	double k[KVA_DIM_MAX], sum = 0;
	uint32_t d;

	read_row(a->kv, s, pos, 0, head, k);
	for (d = 0; d < a->kv->k_dim; d++)
		sum += q[d] * k[d];
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
	const float *in = a->q + row * a->q_stride + (size_t)qh * v->k_dim;
	float *out = a->o + row * a->o_stride + (size_t)qh * v->v_dim;
	double o[KVA_DIM_MAX] = { 0 }, q[KVA_DIM_MAX], x[KVA_DIM_MAX];
	double max = -INFINITY, sum = 0;

	for (d = 0; d < v->k_dim; d++)
		q[d] = x[d] = in[d];
	if (v->k_type == KVA_INT4H)
		hadamard(x, q, v->k_dim, kva_block(v->k_dim));
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
		read_row(v, s, pos, 1, head, x);
		for (d = 0; d < v->v_dim; d++)
			o[d] += p * x[d];
	}
	if (a->sink_logits)
		sum += exp(a->sink_logits[qh] - max);
	memcpy(x, o, sizeof(x));
	if ((v->v_in_k ? v->k_type : v->v_type) == KVA_INT4H)
		hadamard(x, o, v->v_dim,
			 kva_block(v->v_in_k ? v->k_dim : v->v_dim));
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
