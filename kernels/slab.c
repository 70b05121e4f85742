// SPDX-License-Identifier: MIT
/*
 * slab.c - sizes of slabs, and rows in and out of them in canonical order,
 * which is how pages move between orders, devices and files.
 */
#include <errno.h>

#include "kva.h"

static const struct {
	const char *name;
	size_t size;
} types[KVA_NR_TYPES] = {
	[KVA_F32] = { "f32", 4 },
	[KVA_F16] = { "f16", 2 },
	[KVA_BF16] = { "bf16", 2 },
};

static size_t elem_size(unsigned int type)
{
	return type < KVA_NR_TYPES ? types[type].size : 0;
}

size_t kva_row_size(unsigned int type, uint32_t dim)
{
	return dim * elem_size(type);
}

const char *kva_type_name(unsigned int type)
{
	return type < KVA_NR_TYPES ? types[type].name : "?";
}

int kva_type_parse(const char *name)
{
	int i;

	for (i = 0; i < KVA_NR_TYPES; i++)
		if (!strcmp(name, types[i].name))
			return i;
	return -EINVAL;
}

float kva_f16_to_f32(uint16_t h)
{
	return kva_cvt_f16_f32(h);
}

uint16_t kva_f32_to_f16(float f)
{
	return kva_cvt_f32_f16(f);
}

float kva_bf16_to_f32(uint16_t h)
{
	return kva_cvt_bf16_f32(h);
}

uint16_t kva_f32_to_bf16(float f)
{
	return kva_cvt_f32_bf16(f);
}

void kva_row_decode(unsigned int type, const void *row, float *out,
		    uint32_t dim)
{
	uint32_t d;

	for (d = 0; d < dim; d++)
		out[d] = kva_get(type, row, d);
}

void kva_row_encode(unsigned int type, const float *in, void *row,
		    uint32_t dim)
{
	uint32_t d;

	for (d = 0; d < dim; d++)
		kva_put(type, row, d, in[d]);
}

size_t kva_slab_size(unsigned int type, unsigned int order, int is_v,
		     uint32_t page_tokens, uint32_t dim)
{
	size_t slots = page_tokens;

	if (kva_form(type, order, is_v) == KVA_FORM_ROW2)
		slots = (slots + 1) & ~(size_t)1;
	return slots * kva_row_size(type, dim);
}

/* Gather (out) or scatter (in) @n rows; the caller's form is a constant. */
#define DEFINE_MOVE(T)							\
static KVA_ALWAYS_INLINE void move_form_##T(enum kva_form form,		\
		T *slab, T *rows, size_t P, size_t D, size_t slot,	\
		size_t n, int out)					\
{									\
	size_t i, d;							\
									\
	for (i = 0; i < n; i++) {					\
		for (d = 0; d < D; d++) {				\
			T *e = slab + kva_index(form, P, D, slot + i, d); \
									\
			if (out)					\
				rows[i * D + d] = *e;			\
			else						\
				*e = rows[i * D + d];			\
		}							\
	}								\
}									\
									\
static void move_##T(enum kva_form form, T *slab, T *rows, size_t P,	\
		     size_t D, size_t slot, size_t n, int out)		\
{									\
	switch (form) {							\
	case KVA_FORM_COL:						\
		return move_form_##T(KVA_FORM_COL, slab, rows, P, D,	\
				     slot, n, out);			\
	case KVA_FORM_COL2:						\
		return move_form_##T(KVA_FORM_COL2, slab, rows, P, D,	\
				     slot, n, out);			\
	case KVA_FORM_ROW2:						\
		return move_form_##T(KVA_FORM_ROW2, slab, rows, P, D,	\
				     slot, n, out);			\
	default:							\
		return move_form_##T(KVA_FORM_ROW, slab, rows, P, D,	\
				     slot, n, out);			\
	}								\
}
DEFINE_MOVE(uint16_t)
DEFINE_MOVE(uint32_t)

static void move_rows(const struct kva_view *v, void *page, int is_v,
		      uint32_t head, uint32_t slot, uint32_t n, void *rows,
		      int out)
{
	unsigned int type = is_v ? v->v_type : v->k_type;
	enum kva_form form = kva_form(type, v->order, is_v);
	size_t dim = is_v ? v->v_dim : v->k_dim;
	void *slab = kva_slab(v, page, is_v, head);

	if (elem_size(type) == 4)
		move_uint32_t(form, slab, rows, v->page_tokens, dim, slot, n,
			      out);
	else
		move_uint16_t(form, slab, rows, v->page_tokens, dim, slot, n,
			      out);
}

void kva_rows_read(const struct kva_view *v, const void *page, int is_v,
		   uint32_t head, uint32_t slot, uint32_t n, void *out)
{
	move_rows(v, (void *)page, is_v, head, slot, n, out, 1);
}

void kva_rows_write(const struct kva_view *v, void *page, int is_v,
		    uint32_t head, uint32_t slot, uint32_t n, const void *in)
{
	move_rows(v, page, is_v, head, slot, n, (void *)in, 0);
}

static void copy_slab(enum kva_form form, size_t esz, size_t P, size_t D,
		      char *dst, const char *src, size_t n)
{
	size_t d;

	switch (form) {
	case KVA_FORM_COL:
		for (d = 0; d < D; d++)
			memcpy(dst + d * P * esz, src + d * P * esz, n * esz);
		break;
	case KVA_FORM_COL2:
		for (d = 0; d < D * P * esz; d += 2 * P * esz)
			memcpy(dst + d, src + d, 2 * n * esz);
		break;
	case KVA_FORM_ROW2:
		/* the partner of an odd last slot is not ours to write */
		memcpy(dst, src, n / 2 * 2 * D * esz);
		for (d = 0; n % 2 && d < D; d++) {
			size_t i = kva_index(form, P, D, n - 1, d) * esz;

			memcpy(dst + i, src + i, esz);
		}
		break;
	default:
		memcpy(dst, src, n * D * esz);
	}
}

void kva_rows_copy(const struct kva_view *v, void *dst, const void *src,
		   uint32_t n)
{
	uint32_t h;
	int is_v;

	for (is_v = 0; is_v <= !v->v_in_k; is_v++) {
		unsigned int type = is_v ? v->v_type : v->k_type;

		for (h = 0; h < v->kv_heads; h++)
			copy_slab(kva_form(type, v->order, is_v),
				  elem_size(type), v->page_tokens,
				  is_v ? v->v_dim : v->k_dim,
				  kva_slab(v, dst, is_v, h),
				  kva_slab(v, src, is_v, h), n);
	}
}
