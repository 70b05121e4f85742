// SPDX-License-Identifier: MIT
/*
 * slab.c - sizes of slabs, and rows in and out of them in canonical order,
 * which is how pages move between orders, devices and files.
 */
#include <errno.h>

#include "quant.h"

static const char *const names[KVA_NR_TYPES] = {
	[KVA_F32] = "f32",	[KVA_F16] = "f16",	[KVA_BF16] = "bf16",
	[KVA_INT8] = "int8",	[KVA_E4M3] = "e4m3",	[KVA_E4M3T] = "e4m3t",
	[KVA_INT4] = "int4",	[KVA_INT4H] = "int4h",
};

size_t kva_row_size(unsigned int type, uint32_t dim)
{
	if (type >= KVA_NR_TYPES)
		return 0;
	return kva_cells(type, dim) * kva_cell_size(type) +
	       kva_scales(type, dim) * kva_scale_size(type);
}

const char *kva_type_name(unsigned int type)
{
	return type < KVA_NR_TYPES ? names[type] : "?";
}

int kva_type_parse(const char *name)
{
	int i;

	for (i = 0; i < KVA_NR_TYPES; i++)
		if (!strcmp(name, names[i]))
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

void kva_row_decode(unsigned int type, float scale, const void *row,
		    float *out, uint32_t dim)
{
	uint32_t d;

	if (kva_is_packed(type))
		kva_unpack(type, scale, row, out, dim);
	for (d = 0; d < dim && !kva_is_packed(type); d++)
		out[d] = kva_get(type, row, d);
	if (type == KVA_INT4H)
		kva_hadamard(out, dim, kva_block(dim));
}

void kva_row_encode(unsigned int type, float scale, const float *in, void *row,
		    uint32_t dim)
{
	float turned[KVA_DIM_MAX];
	uint32_t d;

	if (type == KVA_INT4H) {
		memcpy(turned, in, dim * sizeof(*in));
		kva_hadamard(turned, dim, kva_block(dim));
		in = turned;
	}
	if (kva_is_packed(type))
		kva_pack(type, scale, in, row, dim);
	for (d = 0; d < dim && !kva_is_packed(type); d++)
		kva_put(type, row, d, in[d]);
}

/* Bytes of a slab's cells; the scales of its rows follow. */
static size_t cells_size(unsigned int type, unsigned int order, int is_v,
			 size_t P, uint32_t dim)
{
	if (kva_form(type, order, is_v) == KVA_FORM_ROW2)
		P = (P + 1) & ~(size_t)1;
	return P * kva_cells(type, dim) * kva_cell_size(type);
}

size_t kva_slab_size(unsigned int type, unsigned int order, int is_v,
		     uint32_t page_tokens, uint32_t dim)
{
	if (type >= KVA_NR_TYPES)
		return 0;
	return cells_size(type, order, is_v, page_tokens, dim) +
	       page_tokens * kva_scales(type, dim) * kva_scale_size(type);
}

/*
 * Gather (out) or scatter (in) @n rows of @D cells that lie @pitch cells
 * apart; the caller's form is a constant.
 */
#define DEFINE_MOVE(T)							\
static KVA_ALWAYS_INLINE void move_form_##T(enum kva_form form,		\
		T *slab, T *rows, size_t pitch, size_t P, size_t D,	\
		size_t slot, size_t n, int out)				\
{									\
	size_t i, d;							\
									\
	for (i = 0; i < n; i++) {					\
		for (d = 0; d < D; d++) {				\
			T *e = slab + kva_index(form, P, D, slot + i, d); \
									\
			if (out)					\
				rows[i * pitch + d] = *e;		\
			else						\
				*e = rows[i * pitch + d];		\
		}							\
	}								\
}									\
									\
static void move_##T(enum kva_form form, T *slab, T *rows, size_t pitch, \
		     size_t P, size_t D, size_t slot, size_t n, int out) \
{									\
	switch (form) {							\
	case KVA_FORM_COL:						\
		return move_form_##T(KVA_FORM_COL, slab, rows, pitch,	\
				     P, D, slot, n, out);		\
	case KVA_FORM_COL2:						\
		return move_form_##T(KVA_FORM_COL2, slab, rows, pitch,	\
				     P, D, slot, n, out);		\
	case KVA_FORM_COL4:						\
		return move_form_##T(KVA_FORM_COL4, slab, rows, pitch,	\
				     P, D, slot, n, out);		\
	case KVA_FORM_ROW2:						\
		return move_form_##T(KVA_FORM_ROW2, slab, rows, pitch,	\
				     P, D, slot, n, out);		\
	default:							\
		return move_form_##T(KVA_FORM_ROW, slab, rows, pitch,	\
				     P, D, slot, n, out);		\
	}								\
}
DEFINE_MOVE(uint8_t)
DEFINE_MOVE(uint16_t)
DEFINE_MOVE(uint32_t)

static void move(size_t esz, enum kva_form form, void *slab, void *rows,
		 size_t pitch, size_t P, size_t D, size_t slot, size_t n,
		 int out)
{
	pitch /= esz;
	if (esz == 4)
		move_uint32_t(form, slab, rows, pitch, P, D, slot, n, out);
	else if (esz == 2)
		move_uint16_t(form, slab, rows, pitch, P, D, slot, n, out);
	else
		move_uint8_t(form, slab, rows, pitch, P, D, slot, n, out);
}

static void move_rows(const struct kva_view *v, void *page, int is_v,
		      uint32_t head, uint32_t slot, uint32_t n, char *rows,
		      int out)
{
	unsigned int type = is_v ? v->v_type : v->k_type;
	size_t dim = is_v ? v->v_dim : v->k_dim, P = v->page_tokens;
	size_t row = kva_row_size(type, dim), cells = kva_cells(type, dim);
	char *slab = kva_slab(v, page, is_v, head);

	if (v->order == KVA_ROW) {
		slab += slot * row;
		memcpy(out ? rows : slab, out ? slab : rows, n * row);
		return;
	}
	move(kva_cell_size(type), kva_form(type, v->order, is_v), slab, rows,
	     row, P, cells, slot, n, out);
	if (kva_scales(type, dim))
		move(kva_scale_size(type), KVA_FORM_COL,
		     slab + cells_size(type, v->order, is_v, P, dim),
		     rows + cells * kva_cell_size(type), row, P,
		     kva_scales(type, dim), slot, n, out);
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

/* @lines of @P slots of @esz bytes: the first @n slots of each. */
static void copy_lines(char *dst, const char *src, size_t lines, size_t P,
		       size_t esz, size_t n)
{
	size_t i;

	for (i = 0; i < lines * P * esz; i += P * esz)
		memcpy(dst + i, src + i, n * esz);
}

static void copy_slab(unsigned int type, unsigned int order, int is_v,
		      size_t P, size_t D, char *dst, const char *src, size_t n)
{
	size_t esz = kva_cell_size(type), cells = kva_cells(type, D), d, i;
	enum kva_form form = kva_form(type, order, is_v);
	size_t at = cells_size(type, order, is_v, P, D);

	if (order == KVA_ROW) {
		memcpy(dst, src, n * kva_row_size(type, D));
		return;
	}
	switch (form) {
	case KVA_FORM_COL:
		copy_lines(dst, src, cells, P, esz, n);
		break;
	case KVA_FORM_COL2:
		copy_lines(dst, src, cells / 2, P, 2 * esz, n);
		break;
	case KVA_FORM_COL4:
		copy_lines(dst, src, cells / 4, P, 4 * esz, n);
		break;
	case KVA_FORM_ROW2:
		/* the partner of an odd last slot is not ours to write */
		memcpy(dst, src, n / 2 * 2 * cells * esz);
		for (d = 0; n % 2 && d < cells; d++) {
			i = kva_index(form, P, cells, n - 1, d) * esz;
			memcpy(dst + i, src + i, esz);
		}
		break;
	default:
		memcpy(dst, src, n * cells * esz);
	}
	copy_lines(dst + at, src + at, kva_scales(type, D), P,
		   kva_scale_size(type), n);
}

void kva_rows_copy(const struct kva_view *v, void *dst, const void *src,
		   uint32_t n)
{
	uint32_t h;
	int is_v;

	for (is_v = 0; is_v <= !v->v_in_k; is_v++)
		for (h = 0; h < v->kv_heads; h++)
			copy_slab(is_v ? v->v_type : v->k_type, v->order, is_v,
				  v->page_tokens, is_v ? v->v_dim : v->k_dim,
				  kva_slab(v, dst, is_v, h),
				  kva_slab(v, src, is_v, h), n);
}
