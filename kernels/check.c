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

/* What a view says of its pages, for the layer @layer bytes further in. */
static int check_page(const struct kva_view *v, uint64_t layer)
{
	uint64_t room = v->page_stride - layer;
	int rc;

	if (!v->page_tokens || !v->kv_heads || v->order > KVA_CPU)
		return -EINVAL;
	if (layer > v->page_stride || layer % 4)
		return -EINVAL;
	if (v->page_stride % 4 || (uintptr_t)v->base % 4)
		return -EINVAL;
	rc = check_part(v->k_type, v->order, 0, v->page_tokens, v->k_dim,
			v->k_off, v->k_head_stride, v->kv_heads, room);
	if (rc)
		return rc;
	if (!v->v_in_k)
		return check_part(v->v_type, v->order, 1, v->page_tokens,
				  v->v_dim, v->v_off, v->v_head_stride,
				  v->kv_heads, room);
	if (v->order != KVA_ROW || !v->v_dim || v->v_dim % 16 ||
	    v->v_dim > v->k_dim)
		return -EINVAL;
	if (v->k_type == KVA_INT4H && v->v_dim % kva_block(v->k_dim))
		return -EINVAL;
	return 0;
}

static int bad_scale(unsigned int type, float scale)
{
	return type == KVA_E4M3T && !(isnormal(scale) && scale > 0);
}

static int check_view(const struct kva_view *v)
{
	uint32_t s;
	int rc;

	rc = v ? check_page(v, 0) : -EINVAL;
	if (rc || !v->nseq)
		return rc;
	if (!v->indptr || !v->last_page_len)
		return -EINVAL;
	if (bad_scale(v->k_type, v->k_scale) ||
	    (!v->v_in_k && bad_scale(v->v_type, v->v_scale)))
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
	if (!a->k || (!a->v && !v->v_in_k) || a->rope > KVA_ROPE_HALF)
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
	if (a->split % 16 || !isfinite(a->softcap) || a->softcap < 0)
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

static int check_layers(const struct kva_view *v, uint32_t layers,
			uint64_t layer_stride)
{
	uint64_t last;
	int rc;

	if (!v || !layers ||
	    __builtin_mul_overflow((uint64_t)(layers - 1), layer_stride, &last))
		return -EINVAL;
	rc = check_page(v, 0);
	return rc ? rc : check_page(v, last);
}

int kva_check_copy(const struct kva_copy *c)
{
	uint32_t i;
	int rc;

	rc = check_layers(c->kv, c->layers, c->layer_stride);
	if (rc || !c->n)
		return rc;
	if (!c->kv->base || !c->pages)
		return -EINVAL;
	for (i = 0; i < c->n; i++)
		if (c->pages[i].slots > c->kv->page_tokens ||
		    c->pages[i].dst == c->pages[i].src)
			return -EINVAL;
	return 0;
}

int kva_check_rows(const struct kva_rows *r)
{
	int rc;

	rc = check_layers(r->kv, r->layers, r->layer_stride);
	if (rc)
		return rc;
	if (r->slot > r->kv->page_tokens ||
	    r->n > r->kv->page_tokens - r->slot || (r->is_v && r->kv->v_in_k))
		return -EINVAL;
	return !r->n || (r->kv->base && r->data) ? 0 : -EINVAL;
}

int kva_check_shift(const struct kva_shift *s)
{
	uint32_t i;
	int rc;

	rc = check_view(s->kv);
	if (rc || !s->kv->nseq)
		return rc;
	if (!s->from || !s->to || !s->turn ||
	    (s->rope != KVA_ROPE_PAIR && s->rope != KVA_ROPE_HALF) ||
	    !s->rot_dim || s->rot_dim % 2 || s->rot_dim > s->kv->k_dim)
		return -EINVAL;
	for (i = 0; i < s->kv->nseq; i++)
		if (s->from[i] > s->to[i] || s->to[i] > kva_seq_len(s->kv, i))
			return -EINVAL;
	return 0;
}
