/* SPDX-License-Identifier: MIT */
/*
 * vec_avx2.h - vectors of 8 floats: AVX2, FMA, F16C. See vec_scalar.h.
 */
#ifndef KVA_VEC_AVX2_H
#define KVA_VEC_AVX2_H

#include <immintrin.h>

#include "../kva.h"

#define VW 8
#define MR 6			/* 6 x 2 sums, 2 of the matrix, 1 of the rows */
#define NV 2

typedef __m256 vf;

static inline vf v_set1(float x)
{
	return _mm256_set1_ps(x);
}

static inline vf v_load(const float *p)
{
	return _mm256_loadu_ps(p);
}

static inline void v_store(float *p, vf x)
{
	_mm256_storeu_ps(p, x);
}

static inline vf v_load_f32(const float *p, unsigned int n)
{
	return _mm256_loadu_ps(p);
}

static inline vf v_load_f16(const uint16_t *p, unsigned int n)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

static inline vf v_load_bf16(const uint16_t *p, unsigned int n, int odd)
{
	__m256i w = _mm256_loadu_si256((const __m256i *)p);

	w = odd ? _mm256_and_si256(w, _mm256_set1_epi32(0xffff0000)) :
		  _mm256_slli_epi32(w, 16);
	return _mm256_castsi256_ps(w);
}

static inline vf v_load_s8x4(const int8_t *p, unsigned int n, int sub)
{
	__m256i w = _mm256_loadu_si256((const __m256i *)p);

	w = _mm256_srai_epi32(_mm256_slli_epi32(w, 24 - 8 * sub), 24);
	return _mm256_cvtepi32_ps(w);
}

static inline vf v_load_s8(const int8_t *p)
{
	__m128i b = _mm_loadl_epi64((const __m128i *)p);

	return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b));
}

static inline vf v_load_e4m3(const uint8_t *p, unsigned int n, int nan)
{
	__m128i w = _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)p));
	__m128i h = _mm_and_si128(_mm_slli_epi16(w, 7),
				  _mm_set1_epi16((short)0xbf80));

	if (nan) {
		w = _mm_and_si128(w, _mm_set1_epi16(0x7f));
		w = _mm_cmpeq_epi16(w, _mm_set1_epi16(0x7f));
		h = _mm_or_si128(h, _mm_and_si128(w, _mm_set1_epi16(0x7e00)));
	}
	return _mm256_cvtph_ps(h);
}

static inline vf v_load_u4(const uint8_t *p, unsigned int n, int odd)
{
	__m128i b = _mm_loadl_epi64((const __m128i *)p);
	__m256i w = _mm256_cvtepu8_epi32(b);

	w = odd ? _mm256_srli_epi32(w, 4) :
		  _mm256_and_si256(w, _mm256_set1_epi32(15));
	return _mm256_cvtepi32_ps(w);
}

static inline vf v_load_group(const uint8_t *p, unsigned int n,
			      unsigned int col)
{
	return v_load_u4(p + col % (n / 2), VW, col >= n / 2);
}

static inline void v_store_f16(uint16_t *p, vf x)
{
	_mm_storeu_si128((__m128i *)p,
			 _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

static inline void v_store_bf16(uint16_t *p, vf x)
{
	__m256i u = _mm256_castps_si256(x);
	__m256i even = _mm256_and_si256(_mm256_srli_epi32(u, 16),
					_mm256_set1_epi32(1));
	__m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
	__m256i r;

	r = _mm256_add_epi32(u, _mm256_add_epi32(even,
						 _mm256_set1_epi32(0x7fff)));
	r = _mm256_blendv_epi8(r, _mm256_or_si256(u,
						  _mm256_set1_epi32(0x400000)),
			       nan);
	r = _mm256_srli_epi32(r, 16);
	r = _mm256_packus_epi32(r, r);
	r = _mm256_permute4x64_epi64(r, 0x08);
	_mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(r));
}

static inline vf v_add(vf a, vf b)
{
	return _mm256_add_ps(a, b);
}

static inline vf v_sub(vf a, vf b)
{
	return _mm256_sub_ps(a, b);
}

static inline vf v_mul(vf a, vf b)
{
	return _mm256_mul_ps(a, b);
}

static inline vf v_max(vf a, vf b)
{
	return _mm256_max_ps(a, b);
}

static inline vf v_div(vf a, vf b)
{
	return _mm256_div_ps(a, b);
}

static inline vf v_less(vf a, vf b, vf x, vf y)
{
	return _mm256_blendv_ps(y, x,
				_mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

static inline vf v_fma(vf a, vf b, vf c)
{
	return _mm256_fmadd_ps(a, b, c);
}

static inline vf v_first(vf x, unsigned int n, vf other)
{
	__m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
	__m256i keep = _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane);

	return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(keep));
}

static inline float v_hsum(vf x)
{
	__m128 s = _mm_add_ps(_mm256_castps256_ps128(x),
			      _mm256_extractf128_ps(x, 1));

	s = _mm_add_ps(s, _mm_movehl_ps(s, s));
	s = _mm_add_ss(s, _mm_movehdup_ps(s));
	return _mm_cvtss_f32(s);
}

static inline float v_hmax(vf x)
{
	__m128 s = _mm_max_ps(_mm256_castps256_ps128(x),
			      _mm256_extractf128_ps(x, 1));

	s = _mm_max_ps(s, _mm_movehl_ps(s, s));
	s = _mm_max_ss(s, _mm_movehdup_ps(s));
	return _mm_cvtss_f32(s);
}

static inline vf v_round(vf x)
{
	return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT |
				  _MM_FROUND_NO_EXC);
}

static inline vf v_scale2(vf x, vf n)
{
	__m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(n),
				     _mm256_set1_epi32(127));

	return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(e, 23)));
}

#endif /* KVA_VEC_AVX2_H */
