// SPDX-License-Identifier: MIT
/*
 * matmul_avx2.c - products of few rows with AVX2, FMA and F16C.
 *
 * d * q is exact in f32 (11 and at most 8 bits), so that a fused
 * multiply-add gives the very weight that multiplying and adding do.
 */
#include <immintrin.h>
#include <string.h>
#include <kvattn.h>
#include "matmul_kernels.h"

typedef __m256 vf;
#define LANES 8
#define NV 4
#define v_zero() _mm256_setzero_ps()
#define v_load(p) _mm256_loadu_ps(p)
#define v_store(p, v) _mm256_storeu_ps(p, v)
#define v_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define v_add(a, b) _mm256_add_ps(a, b)

static inline float v_sum(vf v)
{
	__m128 s = _mm_add_ps(_mm256_castps256_ps128(v),
			      _mm256_extractf128_ps(v, 1));

	s = _mm_add_ps(s, _mm_movehl_ps(s, s));
	return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

static inline void v_store_bf16(uint16_t *p, vf v)
{
	__m256i u = _mm256_castps_si256(v);
	__m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16),
				       _mm256_set1_epi32(1));

	u = _mm256_add_epi32(u, _mm256_add_epi32(odd,
						 _mm256_set1_epi32(0x7fff)));
	u = _mm256_srli_epi32(u, 16);
	_mm_storeu_si128((__m128i *)p,
			 _mm_packus_epi32(_mm256_castsi256_si128(u),
					  _mm256_extracti128_si256(u, 1)));
}

static inline vf half_at(const uint8_t *p)
{
	uint16_t h;

	memcpy(&h, p, sizeof(h));
	return _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

static inline __m128i load16(const uint8_t *p)
{
	return _mm_loadu_si128((const __m128i *)p);
}

static inline void unpack_f32(const uint8_t *b, vf *w)
{
	unsigned int i;

#pragma GCC unroll 4
	for (i = 0; i < NV; i++)
		w[i] = v_load((const float *)b + i * LANES);
}

static inline void unpack_f16(const uint8_t *b, vf *w)
{
	unsigned int i;

#pragma GCC unroll 4
	for (i = 0; i < NV; i++)
		w[i] = _mm256_cvtph_ps(load16(b + i * 16));
}

static inline void unpack_bf16(const uint8_t *b, vf *w)
{
	unsigned int i;

#pragma GCC unroll 4
	for (i = 0; i < NV; i++)
		w[i] = _mm256_castsi256_ps(_mm256_slli_epi32(
			_mm256_cvtepu16_epi32(load16(b + i * 16)), 16));
}

/* 32 unsigned nibbles as floats. */
static inline void nibbles(const uint8_t *b, vf *w)
{
	__m128i q = load16(b), low = _mm_set1_epi8(15);
	__m128i lo = _mm_and_si128(q, low);
	__m128i hi = _mm_and_si128(_mm_srli_epi16(q, 4), low);

	w[0] = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(lo));
	w[1] = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(lo, 8)));
	w[2] = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(hi));
	w[3] = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(hi, 8)));
}

static inline void unpack_q4_0(const uint8_t *b, vf *w)
{
	vf d = half_at(b), m = _mm256_mul_ps(d, _mm256_set1_ps(-8.0f));
	unsigned int i;

	nibbles(b + 2, w);
#pragma GCC unroll 4
	for (i = 0; i < NV; i++)
		w[i] = v_fma(w[i], d, m);
}

static inline void unpack_q4_1(const uint8_t *b, vf *w)
{
	vf d = half_at(b), m = half_at(b + 2);
	unsigned int i;

	nibbles(b + 4, w);
#pragma GCC unroll 4
	for (i = 0; i < NV; i++)
		w[i] = v_fma(w[i], d, m);
}

static inline void unpack_q8_0(const uint8_t *b, vf *w)
{
	vf d = half_at(b);
	unsigned int i;

#pragma GCC unroll 4
	for (i = 0; i < NV; i++)
		w[i] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(
			_mm256_cvtepi8_epi32(_mm_loadl_epi64(
				(const __m128i *)(b + 2 + i * 8)))));
}

#include "matmul_loops.h"

MATMUL_KERNELS(avx2);
