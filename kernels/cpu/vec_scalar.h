/* SPDX-License-Identifier: MIT */
/*
 * vec_scalar.h - a vector of one float, in plain C. What each function means
 * for the wider vectors of vec_avx2.h and vec_avx512.h can be read here.
 */
#ifndef KVA_VEC_SCALAR_H
#define KVA_VEC_SCALAR_H

#include <math.h>

#include "../kva.h"

#define VW 1			/* floats in a vector */
#define MR 4			/* rows of a register tile */
#define NV 4			/* vectors in each of them */

typedef float vf;

static inline vf v_set1(float x)
{
	return x;
}

static inline vf v_load(const float *p)
{
	return *p;
}

static inline void v_store(float *p, vf x)
{
	*p = x;
}

/*
 * Load elements of a type. At least @n lanes are wanted; others may be
 * anything, but memory past @n rounded up to 8 elements is not touched.
 */
static inline vf v_load_f32(const float *p, unsigned int n)
{
	return *p;
}

static inline vf v_load_f16(const uint16_t *p, unsigned int n)
{
	return kva_cvt_f16_f32(*p);
}

/* Element @odd of each pair. */
static inline vf v_load_bf16(const uint16_t *p, unsigned int n, int odd)
{
	return kva_cvt_bf16_f32(p[odd]);
}

/* Signed byte @sub of each four. */
static inline vf v_load_s8x4(const int8_t *p, unsigned int n, int sub)
{
	return p[sub];
}

static inline vf v_load_s8(const int8_t *p)
{
	return *p;
}

/* 2^-8 of what e4m3 codes mean; NaN is looked for only with @nan. */
static inline vf v_load_e4m3(const uint8_t *p, unsigned int n, int nan)
{
	if (nan)
		return kva_cvt_e4m3_f32(*p) * 0x1p-8f;
	return kva_cvt_f16_f32((*p & 0x80) << 8 | (*p & 0x7f) << 7);
}

/* The low (@odd: high) half of each byte. */
static inline vf v_load_u4(const uint8_t *p, unsigned int n, int odd)
{
	return odd ? *p >> 4 : *p & 15;
}

/* Elements from @col on of a group of @n, whose halves share bytes. */
static inline vf v_load_group(const uint8_t *p, unsigned int n,
			      unsigned int col)
{
	return v_load_u4(p + col % (n / 2), VW, col >= n / 2);
}

static inline void v_store_f16(uint16_t *p, vf x)
{
	*p = kva_cvt_f32_f16(x);
}

static inline void v_store_bf16(uint16_t *p, vf x)
{
	*p = kva_cvt_f32_bf16(x);
}

static inline vf v_add(vf a, vf b)
{
	return a + b;
}

static inline vf v_sub(vf a, vf b)
{
	return a - b;
}

static inline vf v_mul(vf a, vf b)
{
	return a * b;
}

static inline vf v_max(vf a, vf b)
{
	return a > b ? a : b;
}

static inline vf v_div(vf a, vf b)
{
	return a / b;
}

/* @x where a < b, else @y. */
static inline vf v_less(vf a, vf b, vf x, vf y)
{
	return a < b ? x : y;
}

/* a * b + c */
static inline vf v_fma(vf a, vf b, vf c)
{
	return a * b + c;
}

/* @x in the first @n lanes, @other in the rest; n >= 0. */
static inline vf v_first(vf x, unsigned int n, vf other)
{
	return n ? x : other;
}

static inline float v_hsum(vf x)
{
	return x;
}

static inline float v_hmax(vf x)
{
	return x;
}

/* x to the nearest integer. */
static inline vf v_round(vf x)
{
	return rintf(x);
}

/* x times 2^n, n an integer >= -127; 0 for -127, NaN for NaN. */
static inline vf v_scale2(vf x, vf n)
{
	if (isnan(n))
		return n;
	return x * kva_bits_float((uint32_t)((int)n + 127) << 23);
}

#endif /* KVA_VEC_SCALAR_H */
