/* SPDX-License-Identifier: MIT */
/*
 * quant.h - the packed types: a row of floats to codes and scales, and back.
 * Every variant compiles these loops for itself; they are free of anything
 * that rounds differently with another instruction set (-ffp-contract=off),
 * so all store the same bits.
 */
#ifndef KVA_QUANT_H
#define KVA_QUANT_H

#include <float.h>
#include <math.h>

#include "kva.h"

/* To the nearest integer, even on ties, for |x| < 2^22. */
static KVA_ALWAYS_INLINE float kva_rint(float x)
{
	return (x + 0x1.8p23f) - 0x1.8p23f;
}

/* The bits of the largest size in a row; NaN is larger than infinity. */
static KVA_ALWAYS_INLINE uint32_t kva_amax_bits(const float *in, size_t n)
{
	uint32_t max = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		uint32_t u = kva_float_bits(in[i]) & 0x7fffffff;

		max = u > max ? u : max;
	}
	return max;
}

/*
 * The scale that makes a row's largest size @top: 0 if that is too small for a
 * normal float, NaN if the row is not finite. Codes are 0 in both cases.
 */
static KVA_ALWAYS_INLINE float kva_row_scale(const float *in, size_t n,
					     float top)
{
	uint32_t max = kva_amax_bits(in, n);
	float scale;

	if (max >= 0x7f800000)
		return NAN;
	scale = kva_bits_float(max) / top;
	return scale >= FLT_MIN ? scale : 0;
}

static inline void kva_pack_int8(const float *in, uint8_t *row, size_t n)
{
	float scale = kva_row_scale(in, n, 127);
	size_t i;

	memcpy(row + n, &scale, sizeof(scale));
	if (!(scale > 0)) {
		memset(row, 0, n);
		return;
	}
	for (i = 0; i < n; i++)
		row[i] = (int32_t)kva_rint(in[i] / scale);
}

/*
 * OCP 8-bit floating point (2023), E4M3: to nearest even, saturating, as
 * cvt.rn.satfinite does it.
 */
static KVA_ALWAYS_INLINE uint8_t kva_cvt_f32_e4m3(float f)
{
	uint32_t u = kva_float_bits(f), a = u & 0x7fffffff, r;
	/* adding 2^14 makes the FPU round at 2^-9, the last place */
	uint32_t small = kva_float_bits(kva_bits_float(a) + 0x1p14f) -
			 0x46800000;

	r = ((a + 0x7ffff + (a >> 20 & 1)) >> 20) - (120 << 3);
	r = a >= 0x43e80000 ? 0x7e : r;		/* 464 and above */
	r = a > 0x7f800000 ? 0x7f : r;
	r = a < 0x3c800000 ? small : r;		/* below 2^-6 */
	return r | (u >> 24 & 0x80);
}

static inline void kva_pack_e4m3(const float *in, uint8_t *row, size_t n,
				 float scale)
{
	size_t i;

	for (i = 0; i < n; i++)
		row[i] = kva_cvt_f32_e4m3(in[i] / scale);
}

static inline void kva_pack_e4m3_row(const float *in, uint8_t *row, size_t n)
{
	float scale = kva_row_scale(in, n, 448);

	memcpy(row + n, &scale, sizeof(scale));
	if (scale > 0)
		kva_pack_e4m3(in, row, n, scale);
	else
		memset(row, 0, n);
}

/*
 * One group: codes, scale d and minimum m. A group that is not finite, or not
 * in f16, has a minimum of NaN.
 */
static inline void kva_pack_group(const float *in, uint8_t *codes, size_t n,
				  uint16_t *d, uint16_t *m)
{
	float lo = in[0], hi = in[0], min, step, x;
	uint8_t c[KVA_GROUP];
	size_t i;

	for (i = 1; i < n; i++) {
		lo = in[i] < lo ? in[i] : lo;
		hi = in[i] > hi ? in[i] : hi;
	}
	*m = kva_cvt_f32_f16(lo);
	min = kva_cvt_f16_f32(*m);
	*d = hi > min ? kva_cvt_f32_f16((hi - min) / 15) : 0;
	step = kva_cvt_f16_f32(*d);
	if (kva_amax_bits(in, n) >= 0x7f800000 || !isfinite(min + step)) {
		*m = 0x7e00;
		*d = 0;
		step = 0;
	}
	for (i = 0; i < n; i++) {
		x = step > 0 ? (in[i] - min) / step : 0;
		x = x > 0 ? x : 0;
		x = x < 15 ? x : 15;
		c[i] = (int32_t)kva_rint(x);
	}
	for (i = 0; i < n / 2; i++)
		codes[i] = c[i] | c[i + n / 2] << 4;
}

static inline void kva_pack_int4(const float *in, uint8_t *row, size_t dim)
{
	size_t ng = kva_groups(dim), g;
	uint16_t scales[2 * KVA_DIM_MAX / KVA_GROUP];

	for (g = 0; g < ng; g++)
		kva_pack_group(in + g * KVA_GROUP, row + g * KVA_GROUP / 2,
			       kva_group_dim(dim, g), &scales[g],
			       &scales[ng + g]);
	memcpy(row + dim / 2, scales, 2 * ng * sizeof(*scales));
}

/* A row to codes and scales; one that is to be rotated already is. */
static inline void kva_pack(unsigned int type, float scale, const float *in,
			    void *row, size_t n)
{
	switch (type) {
	case KVA_INT8:
		return kva_pack_int8(in, row, n);
	case KVA_E4M3:
		return kva_pack_e4m3_row(in, row, n);
	case KVA_E4M3T:
		return kva_pack_e4m3(in, row, n, scale);
	default:
		return kva_pack_int4(in, row, n);
	}
}

static inline void kva_unpack_int4(const uint8_t *row, float *out, size_t dim)
{
	size_t ng = kva_groups(dim), g, i, half;
	uint16_t scales[2 * KVA_DIM_MAX / KVA_GROUP];

	memcpy(scales, row + dim / 2, 2 * ng * sizeof(*scales));
	for (g = 0; g < ng; g++) {
		float d = kva_cvt_f16_f32(scales[g]);
		float m = kva_cvt_f16_f32(scales[ng + g]);

		half = kva_group_dim(dim, g) / 2;
		for (i = 0; i < half; i++, row++) {
			out[i] = (*row & 15) * d + m;
			out[i + half] = (*row >> 4) * d + m;
		}
		out += 2 * half;
	}
}

/* The inverse of kva_pack(), as floats. */
static inline void kva_unpack(unsigned int type, float scale, const void *row,
			      float *out, size_t n)
{
	const int8_t *codes = row;
	size_t i;

	if (type == KVA_INT4 || type == KVA_INT4H)
		return kva_unpack_int4(row, out, n);
	if (type != KVA_E4M3T)
		memcpy(&scale, codes + n, sizeof(scale));
	for (i = 0; i < n; i++)
		out[i] = scale * (type == KVA_INT8 ? codes[i] :
				  kva_cvt_e4m3_f32(codes[i]));
}

/*
 * Sylvester's Hadamard matrix, normalised: its own inverse. In each stage an
 * element's number loses its lowest bit, and has it back as the highest: all
 * stages are one loop, and elements end where they began.
 */
static inline void kva_hadamard_block(float *x, size_t n)
{
	float other[KVA_DIM_MAX], *from = x, *to = other, *swap;
	float by = 1 / sqrt((double)n);
	size_t stage, i;

	for (stage = 1; stage < n; stage *= 2) {
		for (i = 0; i < n / 2; i++) {
			to[i] = from[2 * i] + from[2 * i + 1];
			to[i + n / 2] = from[2 * i] - from[2 * i + 1];
		}
		swap = from;
		from = to;
		to = swap;
	}
	for (i = 0; i < n; i++)
		x[i] = from[i] * by;
}

/* In blocks of the largest power of two that divides the row. */
static inline void kva_hadamard(float *x, size_t dim, size_t block)
{
	size_t i;

	for (i = 0; i < dim; i += block)
		kva_hadamard_block(x + i, block);
}

#endif /* KVA_QUANT_H */
