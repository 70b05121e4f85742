// SPDX-License-Identifier: MIT
/*
 * matmul_scalar.c - products of few rows on any CPU.
 */
#include <string.h>
#include <kvattn.h>
#include "matmul_kernels.h"

typedef float vf;
#define LANES 1
#define NV MATMUL_RUN
#define v_zero() 0.0f
#define v_load(p) (*(p))
#define v_store(p, v) (*(p) = (v))
#define v_store_bf16(p, v) (*(p) = kva_f32_to_bf16(v))
#define v_fma(a, b, c) ((a) * (b) + (c))
#define v_add(a, b) ((a) + (b))
#define v_sum(a) (a)

static inline float half_at(const uint8_t *p)
{
	uint16_t h;

	memcpy(&h, p, sizeof(h));
	return kva_f16_to_f32(h);
}

static inline void unpack_f32(const uint8_t *b, vf *w)
{
	memcpy(w, b, MATMUL_RUN * sizeof(*w));
}

static inline void unpack_f16(const uint8_t *b, vf *w)
{
	unsigned int i;

	for (i = 0; i < MATMUL_RUN; i++)
		w[i] = half_at(b + 2 * i);
}

static inline void unpack_bf16(const uint8_t *b, vf *w)
{
	unsigned int i;
	uint16_t h;

	for (i = 0; i < MATMUL_RUN; i++) {
		memcpy(&h, b + 2 * i, sizeof(h));
		w[i] = kva_bf16_to_f32(h);
	}
}

static inline void unpack_q4_0(const uint8_t *b, vf *w)
{
	float d = half_at(b);
	unsigned int i;

	for (i = 0; i < 16; i++) {
		w[i] = d * ((b[2 + i] & 15) - 8);
		w[i + 16] = d * ((b[2 + i] >> 4) - 8);
	}
}

static inline void unpack_q4_1(const uint8_t *b, vf *w)
{
	float d = half_at(b), m = half_at(b + 2);
	unsigned int i;

	for (i = 0; i < 16; i++) {
		w[i] = d * (b[4 + i] & 15) + m;
		w[i + 16] = d * (b[4 + i] >> 4) + m;
	}
}

static inline void unpack_q8_0(const uint8_t *b, vf *w)
{
	float d = half_at(b);
	unsigned int i;

	for (i = 0; i < MATMUL_RUN; i++)
		w[i] = d * (int8_t)b[2 + i];
}

#include "matmul_loops.h"

MATMUL_KERNELS(scalar);
