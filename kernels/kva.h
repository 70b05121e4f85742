/* SPDX-License-Identifier: MIT */
/*
 * kva.h - what the files of kernels/ share: the address of a row, where an
 * element lies in a slab, the element conversions, and the argument checks.
 */
#ifndef KVA_H
#define KVA_H

#include <math.h>
#include <string.h>

#include "kvattn.h"

#define KVA_ALWAYS_INLINE inline __attribute__((always_inline))

extern const struct kva_ops kva_ops_avx512;
extern const struct kva_ops kva_ops_avx2;
extern const struct kva_ops kva_ops_scalar;
extern const struct kva_ops kva_ops_ref;

/* 0, or -EINVAL for arguments that no kernel can serve. */
int kva_check_append(const struct kva_append *a);
int kva_check_attn(const struct kva_attn *a, int decode);
int kva_check_merge(const struct kva_merge *m);
int kva_check_copy(const struct kva_copy *c);
int kva_check_rows(const struct kva_rows *r);
int kva_check_shift(const struct kva_shift *s);

/* These are the same for all CPU variants. */
int kva_cpu_copy(const struct kva_copy *c, struct kva_threads *t);
int kva_cpu_rows(const struct kva_rows *r, struct kva_threads *t);
int kva_cpu_shift(const struct kva_shift *s, struct kva_threads *t);

static inline uint64_t kva_seq_len(const struct kva_view *v, uint32_t s)
{
	uint32_t n = v->indptr[s + 1] - v->indptr[s];

	return n ? (uint64_t)(n - 1) * v->page_tokens + v->last_page_len[s] : 0;
}

/* The page that holds token @pos of sequence @s. */
static inline char *kva_page(const struct kva_view *v, uint32_t s,
			     uint64_t pos)
{
	uint64_t i = v->indptr[s] + pos / v->page_tokens;

	return (char *)v->base + v->indices[i] * v->page_stride;
}

static inline char *kva_slab(const struct kva_view *v, const void *page,
			     int is_v, uint32_t head)
{
	return (char *)page + (is_v ? v->v_off + head * v->v_head_stride :
				      v->k_off + head * v->k_head_stride);
}

/* The sequence that owns row @r: the s with ptr[s] <= r < ptr[s + 1]. */
static inline uint32_t kva_find(const uint32_t *ptr, uint32_t n, uint32_t r)
{
	uint32_t lo = 0, hi = n;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (ptr[mid] <= r)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

/*
 * The element orders of a slab of P slots and D dims. Each index is a sum of
 * one term of the slot and one of the dim.
 */
enum kva_form {
	KVA_FORM_ROW,	/* [P][D] */
	KVA_FORM_COL,	/* [D][P] */
	KVA_FORM_ROW2,	/* [ceil(P/2)][D][2] */
	KVA_FORM_COL2,	/* [D/2][P][2] */
	KVA_FORM_COL4,	/* [D/4][P][4] */
};

#define KVA_GROUP 32		/* elements with one scale, of 4 bits */

static inline int kva_is_int4(unsigned int type)
{
	return type == KVA_INT4 || type == KVA_INT4H;
}

static inline int kva_is_packed(unsigned int type)
{
	return type >= KVA_INT8;
}

static inline size_t kva_groups(size_t dim)
{
	return (dim + KVA_GROUP - 1) / KVA_GROUP;
}

static inline size_t kva_group_dim(size_t dim, size_t group)
{
	size_t left = dim - group * KVA_GROUP;

	return left < KVA_GROUP ? left : KVA_GROUP;
}

/* Rotations are in blocks of this size. */
static inline size_t kva_block(size_t dim)
{
	return dim & -dim;
}

/* A row is cells of one size, then scales of one size. */
static inline size_t kva_cell_size(unsigned int type)
{
	return type == KVA_F32 ? 4 : kva_is_packed(type) ? 1 : 2;
}

static inline size_t kva_cells(unsigned int type, size_t dim)
{
	return kva_is_int4(type) ? dim / 2 : dim;
}

static inline size_t kva_scale_size(unsigned int type)
{
	return kva_is_int4(type) ? 2 : 4;
}

static inline size_t kva_scales(unsigned int type, size_t dim)
{
	if (kva_is_int4(type))
		return 2 * kva_groups(dim);
	return type == KVA_INT8 || type == KVA_E4M3;
}

static inline enum kva_form kva_form(unsigned int type, unsigned int order,
				     int is_v)
{
	if (order == KVA_ROW)
		return KVA_FORM_ROW;
	if (type == KVA_BF16)
		return is_v ? KVA_FORM_ROW2 : KVA_FORM_COL2;
	if (type == KVA_INT8 && !is_v)
		return KVA_FORM_COL4;
	return is_v ? KVA_FORM_ROW : KVA_FORM_COL;
}

static KVA_ALWAYS_INLINE size_t kva_index(enum kva_form form, size_t P,
					  size_t D, size_t slot, size_t d)
{
	switch (form) {
	case KVA_FORM_COL:
		return slot + d * P;
	case KVA_FORM_ROW2:
		return slot / 2 * 2 * D + slot % 2 + 2 * d;
	case KVA_FORM_COL2:
		return 2 * slot + d / 2 * 2 * P + d % 2;
	case KVA_FORM_COL4:
		return 4 * slot + d / 4 * 4 * P + d % 4;
	default:
		return slot * D + d;
	}
}

static inline uint32_t kva_float_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

static inline float kva_bits_float(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

/* As vcvtph2ps: a signalling NaN becomes quiet. */
static inline float kva_cvt_f16_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	uint32_t e = (h >> 10) & 31, m = h & 0x3ff;

	if (e == 31)
		return kva_bits_float(sign | 0x7f800000 | m << 13 |
				      (m ? 0x400000 : 0));
	if (e)
		return kva_bits_float(sign | (e + 112) << 23 | m << 13);
	/* m * 2^-24, exact */
	return kva_bits_float(kva_float_bits((float)m * 0x1p-24f) | sign);
}

/* As vcvtps2ph, to nearest even. */
static inline uint16_t kva_cvt_f32_f16(float f)
{
	uint32_t u = kva_float_bits(f), sign = u >> 16 & 0x8000;
	uint32_t a = u & 0x7fffffff;

	if (a > 0x7f800000)
		return sign | 0x7e00 | (a >> 13 & 0x3ff);
	if (a >= 0x477ff000)	/* 65520 and above round to infinity */
		return sign | 0x7c00;
	if (a >= 0x38800000)	/* a normal number */
		return sign | (a + 0xfff + (a >> 13 & 1) - 0x38000000) >> 13;
	/* adding 0.5 makes the FPU round at 2^-24, the last place */
	return sign | (kva_float_bits(kva_bits_float(a) + 0.5f) - 0x3f000000);
}

static inline float kva_cvt_bf16_f32(uint16_t h)
{
	return kva_bits_float((uint32_t)h << 16);
}

static inline uint16_t kva_cvt_f32_bf16(float f)
{
	uint32_t u = kva_float_bits(f);

	if ((u & 0x7fffffff) > 0x7f800000)
		return u >> 16 | 0x40;
	return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

/* The f16 with the same bits is 2^-8 of it, but for NaN. */
static inline float kva_cvt_e4m3_f32(uint8_t c)
{
	if ((c & 0x7f) == 0x7f)
		return NAN;
	return 256 * kva_cvt_f16_f32((c & 0x80) << 8 | (c & 0x7f) << 7);
}

/* Element @i of an array of @type, not a packed one. */
static inline float kva_get(unsigned int type, const void *p, size_t i)
{
	switch (type) {
	case KVA_F16:
		return kva_cvt_f16_f32(((const uint16_t *)p)[i]);
	case KVA_BF16:
		return kva_cvt_bf16_f32(((const uint16_t *)p)[i]);
	default:
		return ((const float *)p)[i];
	}
}

static inline void kva_put(unsigned int type, void *p, size_t i, float x)
{
	switch (type) {
	case KVA_F16:
		((uint16_t *)p)[i] = kva_cvt_f32_f16(x);
		break;
	case KVA_BF16:
		((uint16_t *)p)[i] = kva_cvt_f32_bf16(x);
		break;
	default:
		((float *)p)[i] = x;
	}
}

#endif /* KVA_H */
