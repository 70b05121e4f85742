// SPDX-License-Identifier: MIT
/*
 * matmul_avx512.c - products of few rows with AVX-512 F, BW, VL and DQ.
 *
 * The sixteen values that a block of nibbles can have fit in one register:
 * a permutation turns nibbles into weights, without a conversion.
 */
#include <immintrin.h>
#include <string.h>
#include <kvattn.h>
#include "matmul_kernels.h"

typedef __m512 vf;
#define LANES 16
#define NV 2
#define v_zero() _mm512_setzero_ps()
#define v_load(p) _mm512_loadu_ps(p)
#define v_store(p, v) _mm512_storeu_ps(p, v)
#define v_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define v_add(a, b) _mm512_add_ps(a, b)
#define v_sum(v) _mm512_reduce_add_ps(v)

static inline void v_store_bf16(uint16_t *p, vf v)
{
	__m512i u = _mm512_castps_si512(v);
	__m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16),
				       _mm512_set1_epi32(1));

	u = _mm512_add_epi32(u, _mm512_add_epi32(odd,
						 _mm512_set1_epi32(0x7fff)));
	_mm256_storeu_si256((__m256i *)p,
			    _mm512_cvtepi32_epi16(_mm512_srli_epi32(u, 16)));
}

static inline vf half_at(const uint8_t *p)
{
	uint16_t h;

	memcpy(&h, p, sizeof(h));
	return _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(h)));
}

static inline vf iota(void)
{
	return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
			      15);
}

/* The permutation looks at the low four bits of each index only. */
static inline void nibbles(const uint8_t *b, vf values, vf *w)
{
	__m512i q = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)b));

	w[0] = _mm512_permutexvar_ps(q, values);
	w[1] = _mm512_permutexvar_ps(_mm512_srli_epi32(q, 4), values);
}

static inline void unpack_f32(const uint8_t *b, vf *w)
{
	w[0] = v_load((const float *)b);
	w[1] = v_load((const float *)b + LANES);
}

static inline void unpack_f16(const uint8_t *b, vf *w)
{
	unsigned int i;

#pragma GCC unroll 4
	for (i = 0; i < NV; i++)
		w[i] = _mm512_cvtph_ps(_mm256_loadu_si256(
			(const __m256i *)(b + i * 32)));
}

static inline void unpack_bf16(const uint8_t *b, vf *w)
{
	unsigned int i;

#pragma GCC unroll 4
	for (i = 0; i < NV; i++)
		w[i] = _mm512_castsi512_ps(_mm512_slli_epi32(
			_mm512_cvtepu16_epi32(_mm256_loadu_si256(
				(const __m256i *)(b + i * 32))), 16));
}

static inline void unpack_q4_0(const uint8_t *b, vf *w)
{
	nibbles(b + 2, _mm512_mul_ps(half_at(b),
				     _mm512_sub_ps(iota(),
						   _mm512_set1_ps(8.0f))), w);
}

/* d * q is exact in f32, so that fusing it with the addition rounds alike. */
static inline void unpack_q4_1(const uint8_t *b, vf *w)
{
	uint32_t dm;
	vf h;

	memcpy(&dm, b, sizeof(dm));
	h = _mm512_cvtph_ps(_mm256_set1_epi32(dm));
	nibbles(b + 4, v_fma(_mm512_moveldup_ps(h), iota(),
			     _mm512_movehdup_ps(h)), w);
}

static inline void unpack_q8_0(const uint8_t *b, vf *w)
{
	vf d = half_at(b);
	unsigned int i;

#pragma GCC unroll 4
	for (i = 0; i < NV; i++)
		w[i] = _mm512_mul_ps(d, _mm512_cvtepi32_ps(
			_mm512_cvtepi8_epi32(_mm_loadu_si128(
				(const __m128i *)(b + 2 + i * 16)))));
}

#include "matmul_loops.h"

MATMUL_KERNELS(avx512);
