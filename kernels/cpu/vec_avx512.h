/* SPDX-License-Identifier: MIT */
/*
 * vec_avx512.h - vectors of 16 floats: AVX-512 F, BW, VL, DQ. See
 * vec_scalar.h.
 */
#ifndef KVA_VEC_AVX512_H
#define KVA_VEC_AVX512_H

#include <immintrin.h>

#include "../kva.h"

#define VW 16
#define MR 6			/* 6 x 4 sums, 4 of the matrix, 1 of the rows */
#define NV 4

typedef __m512 vf;

static inline __mmask16 v_lanes(unsigned int n)
{
	return n < 16 ? (1u << n) - 1 : 0xffff;
}

static inline vf v_set1(float x)
{
	return _mm512_set1_ps(x);
}

static inline vf v_load(const float *p)
{
	return _mm512_loadu_ps(p);
}

static inline void v_store(float *p, vf x)
{
	_mm512_storeu_ps(p, x);
}

static inline vf v_load_f32(const float *p, unsigned int n)
{
	if (n >= VW)
		return _mm512_loadu_ps(p);
	return _mm512_maskz_loadu_ps(v_lanes(n), p);
}

static inline vf v_load_f16(const uint16_t *p, unsigned int n)
{
	if (n >= VW)
		return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
	return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v_lanes(n), p));
}

static inline vf v_load_bf16(const uint16_t *p, unsigned int n, int odd)
{
	__m512i w = n >= VW ? _mm512_loadu_si512(p) :
			      _mm512_maskz_loadu_epi32(v_lanes(n), p);

	w = odd ? _mm512_and_si512(w, _mm512_set1_epi32(0xffff0000)) :
		  _mm512_slli_epi32(w, 16);
	return _mm512_castsi512_ps(w);
}

static inline __m128i v_load_bytes(const void *p, unsigned int n)
{
	if (n >= VW)
		return _mm_loadu_si128((const __m128i *)p);
	return _mm_maskz_loadu_epi8(v_lanes(n), p);
}

static inline vf v_load_s8x4(const int8_t *p, unsigned int n, int sub)
{
	__m512i w = n >= VW ? _mm512_loadu_si512(p) :
			      _mm512_maskz_loadu_epi32(v_lanes(n), p);

	w = _mm512_srai_epi32(_mm512_slli_epi32(w, 24 - 8 * sub), 24);
	return _mm512_cvtepi32_ps(w);
}

static inline vf v_load_s8(const int8_t *p)
{
	return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(v_load_bytes(p, VW)));
}

static inline vf v_load_e4m3(const uint8_t *p, unsigned int n, int nan)
{
	__m256i w = _mm256_cvtepi8_epi16(v_load_bytes(p, n));
	__m256i h = _mm256_and_si256(_mm256_slli_epi16(w, 7),
				     _mm256_set1_epi16((short)0xbf80));

	if (nan) {
		__mmask16 is;

		w = _mm256_and_si256(w, _mm256_set1_epi16(0x7f));
		is = _mm256_cmpeq_epi16_mask(w, _mm256_set1_epi16(0x7f));
		h = _mm256_mask_mov_epi16(h, is, _mm256_set1_epi16(0x7e00));
	}
	return _mm512_cvtph_ps(h);
}

/* Of each index the permutation looks at the low half of a byte only. */
static inline vf v_nibbles(__m512i w)
{
	return _mm512_permutexvar_ps(w, _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7,
						       8, 9, 10, 11, 12, 13,
						       14, 15));
}

static inline vf v_load_u4(const uint8_t *p, unsigned int n, int odd)
{
	__m512i w = _mm512_cvtepu8_epi32(v_load_bytes(p, n));

	return v_nibbles(odd ? _mm512_srli_epi32(w, 4) : w);
}

static inline vf v_load_group(const uint8_t *p, unsigned int n,
			      unsigned int col)
{
	__m128i b;

	if (n > VW)
		return v_load_u4(p, VW, col > 0);
	b = _mm_loadl_epi64((const __m128i *)p);
	b = _mm_unpacklo_epi64(b, _mm_srli_epi16(b, 4));
	return v_nibbles(_mm512_cvtepu8_epi32(b));
}

static inline void v_store_f16(uint16_t *p, vf x)
{
	_mm256_storeu_si256((__m256i *)p,
			    _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

static inline void v_store_bf16(uint16_t *p, vf x)
{
	__m512i u = _mm512_castps_si512(x);
	__m512i even = _mm512_and_si512(_mm512_srli_epi32(u, 16),
					_mm512_set1_epi32(1));
	__mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
	__m512i r;

	r = _mm512_add_epi32(u, _mm512_add_epi32(even,
						 _mm512_set1_epi32(0x7fff)));
	r = _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x400000));
	_mm256_storeu_si256((__m256i *)p,
			    _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}

static inline vf v_add(vf a, vf b)
{
	return _mm512_add_ps(a, b);
}

static inline vf v_sub(vf a, vf b)
{
	return _mm512_sub_ps(a, b);
}

static inline vf v_mul(vf a, vf b)
{
	return _mm512_mul_ps(a, b);
}

static inline vf v_max(vf a, vf b)
{
	return _mm512_max_ps(a, b);
}

static inline vf v_div(vf a, vf b)
{
	return _mm512_div_ps(a, b);
}

static inline vf v_less(vf a, vf b, vf x, vf y)
{
	return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ),
				  x);
}

static inline vf v_fma(vf a, vf b, vf c)
{
	return _mm512_fmadd_ps(a, b, c);
}

static inline vf v_first(vf x, unsigned int n, vf other)
{
	return _mm512_mask_mov_ps(other, v_lanes(n), x);
}

static inline float v_hsum(vf x)
{
	return _mm512_reduce_add_ps(x);
}

static inline float v_hmax(vf x)
{
	return _mm512_reduce_max_ps(x);
}

static inline vf v_round(vf x)
{
	return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT);
}

static inline vf v_scale2(vf x, vf n)
{
	/* not into the denormals, which are slow; NaN is not less */
	__mmask16 keep = _mm512_cmp_ps_mask(n, _mm512_set1_ps(-126),
					    _CMP_NLT_UQ);

	return _mm512_maskz_scalef_ps(keep, x, n);
}

#endif /* KVA_VEC_AVX512_H */
