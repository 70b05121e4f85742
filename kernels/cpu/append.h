/* SPDX-License-Identifier: MIT */
/*
 * append.h - rotate, convert and store the rows of a step, for the
 * vectors of the vec_*.h included before.
 *
 * Rotations are computed in double and rounded once, so that every variant
 * stores the same bits.
 */
#ifndef KVA_APPEND_H
#define KVA_APPEND_H

#include "../quant.h"

/* Rows of an item: their stores to a column-major slab share cache lines. */
#define APPEND_ROWS 16

static void rotate(const struct kva_append *a, const float *in, float *out,
		   size_t dim, uint32_t row)
{
	const float *cs = a->rope_table + (size_t)a->pos[row] * a->rot_dim;
	size_t half = a->rot_dim / 2, i;

	if (a->rope == KVA_ROPE_PAIR) {
		for (i = 0; i < half; i++) {
			double x = in[2 * i], y = in[2 * i + 1];
			double c = cs[2 * i], s = cs[2 * i + 1];

			out[2 * i] = x * c - y * s;
			out[2 * i + 1] = x * s + y * c;
		}
	} else {
		for (i = 0; i < half; i++) {
			double x = in[i], y = in[half + i];
			double c = cs[2 * i], s = cs[2 * i + 1];

			out[i] = x * c - y * s;
			out[half + i] = x * s + y * c;
		}
	}
	for (i = 2 * half; i < dim && in != out; i++)
		out[i] = in[i];
}

static void convert(unsigned int type, float scale, const float *in, void *out,
		    size_t n)
{
	float turned[KVA_DIM_MAX];
	size_t i;

	if (type == KVA_INT4H) {
		memcpy(turned, in, n * sizeof(*in));
		kva_hadamard(turned, n, kva_block(n));
		in = turned;
	}
	if (kva_is_packed(type))
		return kva_pack(type, scale, in, out, n);
	switch (type) {
	case KVA_F16:
		for (i = 0; i < n; i += VW)
			v_store_f16((uint16_t *)out + i, v_load(in + i));
		break;
	case KVA_BF16:
		for (i = 0; i < n; i += VW)
			v_store_bf16((uint16_t *)out + i, v_load(in + i));
		break;
	default:
		memcpy(out, in, n * sizeof(float));
	}
}

/* Rows [row, row + n), which are one sequence's and go to one page. */
static void append_rows(const struct kva_append *a, uint32_t row, uint32_t n,
			char *page, uint32_t slot)
{
	const struct kva_view *v = a->kv;
	size_t k_size = kva_row_size(v->k_type, v->k_dim);
	size_t v_size = kva_row_size(v->v_type, v->v_dim);
	char rows[APPEND_ROWS * KVA_DIM_MAX * sizeof(float)]
		__attribute__((aligned(64)));
	float turned[KVA_DIM_MAX];
	uint32_t h, r;

	for (h = 0; h < v->kv_heads; h++) {
		for (r = 0; r < n; r++) {
			const float *k = a->k + (row + r) * a->k_stride +
					 (size_t)h * v->k_dim;

			if (a->rope != KVA_ROPE_NONE) {
				rotate(a, k, turned, v->k_dim, row + r);
				k = turned;
			}
			convert(v->k_type, v->k_scale, k, rows + r * k_size,
				v->k_dim);
		}
		kva_rows_write(v, page, 0, h, slot, n, rows);
		if (v->v_in_k)
			continue;
		for (r = 0; r < n; r++)
			convert(v->v_type, v->v_scale, a->v +
				(row + r) * a->v_stride + (size_t)h * v->v_dim,
				rows + r * v_size, v->v_dim);
		kva_rows_write(v, page, 1, h, slot, n, rows);
	}
}

static void append_item(void *arg, size_t item, unsigned int thread)
{
	const struct kva_append *a = arg;
	const struct kva_view *v = a->kv;
	uint32_t row = a->row_ptr[0] + item * APPEND_ROWS, r, h, n;
	uint32_t end = a->row_ptr[v->nseq];

	if (end - row > APPEND_ROWS)
		end = row + APPEND_ROWS;
	for (r = row; a->q && a->rope != KVA_ROPE_NONE && r < end; r++) {
		for (h = 0; h < a->q_heads; h++) {
			float *q = a->q + r * a->q_stride +
				   (size_t)h * v->k_dim;

			rotate(a, q, q, v->k_dim, r);
		}
	}
	for (; row < end; row += n) {
		uint32_t s = kva_find(a->row_ptr, v->nseq, row);
		uint64_t pos = kva_seq_len(v, s) - (a->row_ptr[s + 1] - row);
		uint32_t slot = pos % v->page_tokens;

		n = a->row_ptr[s + 1] - row;
		n = n < end - row ? n : end - row;
		n = n < v->page_tokens - slot ? n : v->page_tokens - slot;
		append_rows(a, row, n, kva_page(v, s, pos), slot);
	}
}

static int append(const struct kva_append *a, struct kva_threads *t)
{
	uint32_t rows;
	int rc;

	rc = kva_check_append(a);
	if (rc || !a->kv->nseq)
		return rc;
	rows = a->row_ptr[a->kv->nseq] - a->row_ptr[0];
	kva_threads_run(t, ((size_t)rows + APPEND_ROWS - 1) / APPEND_ROWS,
			append_item, (void *)a);
	return 0;
}

#endif /* KVA_APPEND_H */
