// SPDX-License-Identifier: MIT
/*
 * check.c - the arguments that every variant refuses, so that the kernels
 * themselves need not look.
 */
#include <errno.h>
#include <math.h>

#include "kva.h"

static int check_part(unsigned int type, unsigned int order, int is_v,
		      uint32_t page_tokens, uint32_t dim, uint64_t off,
		      uint64_t stride, uint32_t heads, uint64_t page_stride)
{
	uint64_t slab, end;

	if (type >= KVA_NR_TYPES)
		return -EINVAL;
	if (!dim || dim % 16 || dim > KVA_DIM_MAX)
		return -EINVAL;
	if (off % 4 || stride % 4)
		return -EINVAL;
	slab = kva_slab_size(type, order, is_v, page_tokens, dim);
	if (heads > 1 && stride < slab)
		return -EINVAL;
	if (__builtin_mul_overflow((uint64_t)(heads - 1), stride, &end) ||
	    __builtin_add_overflow(end, off, &end) ||
	    __builtin_add_overflow(end, slab, &end) || end > page_stride)
		return -EINVAL;
	return 0;
}

static int check_view(const struct kva_view *v)
{
	uint32_t s;
	int rc;

	if (!v || !v->page_tokens || !v->kv_heads || v->order > KVA_CPU)
		return -EINVAL;
	if (v->page_stride % 4 || (uintptr_t)v->base % 4)
		return -EINVAL;
	rc = check_part(v->k_type, v->order, 0, v->page_tokens, v->k_dim,
			v->k_off, v->k_head_stride, v->kv_heads,
			v->page_stride);
	if (rc)
		return rc;
	rc = check_part(v->v_type, v->order, 1, v->page_tokens, v->v_dim,
			v->v_off, v->v_head_stride, v->kv_heads,
			v->page_stride);
	if (rc)
		return rc;
	if (!v->nseq)
		return 0;
	if (!v->indptr || !v->last_page_len)
		return -EINVAL;
	for (s = 0; s < v->nseq; s++) {
		if (v->indptr[s] > v->indptr[s + 1])
			return -EINVAL;
		if (v->indptr[s] == v->indptr[s + 1])
			continue;
		if (!v->base || !v->indices || !v->last_page_len[s] ||
		    v->last_page_len[s] > v->page_tokens)
			return -EINVAL;
	}
	return 0;
}

static int check_rows(const struct kva_view *v, const uint32_t *row_ptr)
{
	uint32_t s;

	if (!row_ptr)
		return -EINVAL;
	for (s = 0; s < v->nseq; s++)
		if (row_ptr[s] > row_ptr[s + 1])
			return -EINVAL;
	return 0;
}

int kva_check_append(const struct kva_append *a)
{
	const struct kva_view *v = a->kv;
	uint32_t s;
	int rc;

	rc = check_view(v);
	if (rc || !v->nseq)
		return rc;
	rc = check_rows(v, a->row_ptr);
	if (rc)
		return rc;
	for (s = 0; s < v->nseq; s++)
		if (a->row_ptr[s + 1] - a->row_ptr[s] > kva_seq_len(v, s))
			return -EINVAL;
	if (!a->k || !a->v || a->rope > KVA_ROPE_HALF)
		return -EINVAL;
	if (a->rope == KVA_ROPE_NONE)
		return 0;
	if (!a->rot_dim || a->rot_dim % 2 || a->rot_dim > v->k_dim)
		return -EINVAL;
	return a->pos && a->rope_table ? 0 : -EINVAL;
}

int kva_check_attn(const struct kva_attn *a, int decode)
{
	const struct kva_view *v = a->kv;
	uint32_t s;
	int rc;

	rc = check_view(v);
	if (rc || !v->nseq)
		return rc;
	rc = check_rows(v, a->row_ptr);
	if (rc)
		return rc;
	if (!a->q_heads || a->q_heads % v->kv_heads || !isfinite(a->scale))
		return -EINVAL;
	if (a->split % 16)
		return -EINVAL;
	if (a->row_ptr[0] == a->row_ptr[v->nseq])
		return 0;
	if (!a->q || !a->o || !a->ws || (uintptr_t)a->ws % 64)
		return -EINVAL;
	for (s = 0; decode && s < v->nseq; s++)
		if (a->row_ptr[s + 1] - a->row_ptr[s] > 1)
			return -EINVAL;
	return 0;
}

int kva_check_merge(const struct kva_merge *m)
{
	if (!m->rows)
		return 0;
	if (!m->dim || !m->out || (m->n && (!m->o || !m->lse)))
		return -EINVAL;
	return 0;
}
