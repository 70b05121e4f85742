// SPDX-License-Identifier: MIT
/*
 * dequant.c - tensor types of GGUF files, and their blocks as floats.
 *
 * A block is a scale (some types: and an offset) for a number of small
 * integers. "K" types have 256 elements a block, in groups of 16 or 32 whose
 * scales are themselves small integers. Every value is computed in the order
 * that the format defines it, in float: results are exact to the bit.
 */
#include <errno.h>
#include <string.h>

#include <kvattn.h>

#include "gguf.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* F32 has no function: its elements are copied. */
struct type {
	const char *name;
	uint16_t elems;
	uint16_t bytes;
	void (*dequant)(const uint8_t *src, float *out);
};

static float half_at(const uint8_t *p)
{
	return kva_f16_to_f32(p[0] | p[1] << 8);
}

static void f16(const uint8_t *src, float *out)
{
	*out = half_at(src);
}

static void bf16(const uint8_t *src, float *out)
{
	*out = kva_bf16_to_f32(src[0] | src[1] << 8);
}

static void q8_0(const uint8_t *src, float *restrict out)
{
	const int8_t *q = (const int8_t *)src + 2;
	float d = half_at(src);
	int i;

	for (i = 0; i < 32; i++)
		out[i] = d * q[i];
}

static void q4_0(const uint8_t *src, float *restrict out)
{
	const uint8_t *q = src + 2;
	float d = half_at(src);
	int i;

	for (i = 0; i < 16; i++) {
		out[i] = d * ((q[i] & 15) - 8);
		out[i + 16] = d * ((q[i] >> 4) - 8);
	}
}

static void q4_1(const uint8_t *src, float *restrict out)
{
	float d = half_at(src), m = half_at(src + 2);
	const uint8_t *q = src + 4;
	int i;

	for (i = 0; i < 16; i++) {
		out[i] = d * (q[i] & 15) + m;
		out[i + 16] = d * (q[i] >> 4) + m;
	}
}

/* Five bits: four in @q, the fifth of element i in bit i of @high. */
static void five_bits(const uint8_t *high, const uint8_t *q, int *restrict out)
{
	uint32_t h;
	int i;

	memcpy(&h, high, sizeof(h));
	for (i = 0; i < 16; i++) {
		out[i] = (q[i] & 15) | (h >> i & 1) << 4;
		out[i + 16] = q[i] >> 4 | (h >> (i + 16) & 1) << 4;
	}
}

static void q5_0(const uint8_t *src, float *restrict out)
{
	float d = half_at(src);
	int i, q[32];

	five_bits(src + 2, src + 6, q);
	for (i = 0; i < 32; i++)
		out[i] = d * (q[i] - 16);
}

static void q5_1(const uint8_t *src, float *restrict out)
{
	float d = half_at(src), m = half_at(src + 2);
	int i, q[32];

	five_bits(src + 4, src + 8, q);
	for (i = 0; i < 32; i++)
		out[i] = d * q[i] + m;
}

static void q2_k(const uint8_t *src, float *restrict out)
{
	const uint8_t *scales = src, *q = src + 16;
	float d = half_at(src + 80), dmin = half_at(src + 82);
	float scale, min;
	int group, shift, i;

	/* 16 groups of 16: eight from the lower half of q, eight from the
	 * upper, two bits at a time. */
	for (group = 0; group < 16; group++) {
		scale = d * (scales[group] & 15);
		min = dmin * (scales[group] >> 4);
		shift = group % 8 / 2 * 2;
		for (i = 0; i < 16; i++)
			out[group * 16 + i] = scale *
				(q[group / 8 * 32 + group % 2 * 16 + i] >>
				 shift & 3) - min;
	}
}

static void q3_k(const uint8_t *src, float *restrict out)
{
	const uint8_t *high = src, *q = src + 32, *s = src + 96;
	float d = half_at(src + 108), scale;
	int group, shift, i, col, bits;

	for (group = 0; group < 16; group++) {
		bits = (group < 8 ? s[group] & 15 : s[group - 8] >> 4) |
		       (s[8 + group % 4] >> group / 4 * 2 & 3) << 4;
		scale = d * (bits - 32);
		shift = group % 8 / 2 * 2;
		col = group % 2 * 16;
		for (i = 0; i < 16; i++)
			out[group * 16 + i] = scale *
				((q[group / 8 * 32 + col + i] >> shift & 3) -
				 (high[col + i] >> group / 2 & 1 ? 0 : 4));
	}
}

/* The j-th of eight pairs of six bits, packed in 12 bytes. */
static void six_bits(const uint8_t *s, int j, int *scale, int *min)
{
	if (j < 4) {
		*scale = s[j] & 63;
		*min = s[j + 4] & 63;
	} else {
		*scale = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
		*min = s[j + 4] >> 4 | s[j] >> 6 << 4;
	}
}

static void q4_k(const uint8_t *src, float *restrict out)
{
	float d = half_at(src), dmin = half_at(src + 2), ds, dm;
	int group, i, scale, min, shift;
	const uint8_t *q;

	for (group = 0; group < 8; group++) {
		six_bits(src + 4, group, &scale, &min);
		ds = d * scale;
		dm = dmin * min;
		q = src + 16 + group / 2 * 32;
		shift = group % 2 * 4;
		for (i = 0; i < 32; i++)
			out[group * 32 + i] = ds * (q[i] >> shift & 15) - dm;
	}
}

static void q5_k(const uint8_t *src, float *restrict out)
{
	float d = half_at(src), dmin = half_at(src + 2), ds, dm;
	const uint8_t *high = src + 16, *q;
	int group, i, scale, min, shift;

	for (group = 0; group < 8; group++) {
		six_bits(src + 4, group, &scale, &min);
		ds = d * scale;
		dm = dmin * min;
		q = src + 48 + group / 2 * 32;
		shift = group % 2 * 4;
		for (i = 0; i < 32; i++)
			out[group * 32 + i] = ds *
				((q[i] >> shift & 15) |
				 (high[i] >> group & 1) << 4) - dm;
	}
}

static void q6_k(const uint8_t *src, float *restrict out)
{
	const int8_t *scales = (const int8_t *)src + 192;
	float d = half_at(src + 208), scale;
	const uint8_t *low, *high;
	int group, part, i;

	/* Halves of 128 elements, each in four parts of 32. */
	for (group = 0; group < 16; group++) {
		part = group / 2 % 4;
		low = src + group / 8 * 64 + part % 2 * 32 + group % 2 * 16;
		high = src + 128 + group / 8 * 32 + group % 2 * 16;
		scale = d * scales[group];
		for (i = 0; i < 16; i++)
			out[group * 16 + i] = scale *
				(((low[i] >> part / 2 * 4 & 15) |
				  (high[i] >> part * 2 & 3) << 4) - 32);
	}
}

static const struct type types[] = {
	[GGUF_F32] = { .name = "F32", .elems = 1, .bytes = 4 },
	[GGUF_F16] = { "F16", 1, 2, f16 },
	[GGUF_Q4_0] = { "Q4_0", 32, 18, q4_0 },
	[GGUF_Q4_1] = { "Q4_1", 32, 20, q4_1 },
	[GGUF_Q5_0] = { "Q5_0", 32, 22, q5_0 },
	[GGUF_Q5_1] = { "Q5_1", 32, 24, q5_1 },
	[GGUF_Q8_0] = { "Q8_0", 32, 34, q8_0 },
	[9] = { .name = "Q8_1" },
	[GGUF_Q2_K] = { "Q2_K", 256, 84, q2_k },
	[GGUF_Q3_K] = { "Q3_K", 256, 110, q3_k },
	[GGUF_Q4_K] = { "Q4_K", 256, 144, q4_k },
	[GGUF_Q5_K] = { "Q5_K", 256, 176, q5_k },
	[GGUF_Q6_K] = { "Q6_K", 256, 210, q6_k },
	[15] = { .name = "Q8_K" },
	[16] = { .name = "IQ2_XXS" },
	[17] = { .name = "IQ2_XS" },
	[18] = { .name = "IQ3_XXS" },
	[19] = { .name = "IQ1_S" },
	[20] = { .name = "IQ4_NL" },
	[21] = { .name = "IQ3_S" },
	[22] = { .name = "IQ2_S" },
	[23] = { .name = "IQ4_XS" },
	[24] = { .name = "I8" },
	[25] = { .name = "I16" },
	[26] = { .name = "I32" },
	[27] = { .name = "I64" },
	[28] = { .name = "F64" },
	[29] = { .name = "IQ1_M" },
	[GGUF_BF16] = { "BF16", 1, 2, bf16 },
	[34] = { .name = "TQ1_0" },
	[35] = { .name = "TQ2_0" },
	[39] = { .name = "MXFP4" },
};

unsigned int gguf_block_elems(uint32_t type)
{
	return type < ARRAY_LEN(types) ? types[type].elems : 0;
}

size_t gguf_block_bytes(uint32_t type)
{
	return type < ARRAY_LEN(types) ? types[type].bytes : 0;
}

const char *gguf_type_name(uint32_t type)
{
	if (type >= ARRAY_LEN(types) || !types[type].name)
		return "unknown";
	return types[type].name;
}

int gguf_dequant(uint32_t type, const void *src, size_t n, float *out)
{
	const uint8_t *p = src;
	const struct type *t;
	size_t i;

	if (!gguf_block_elems(type))
		return -EINVAL;
	t = &types[type];
	if (n % t->elems)
		return -EINVAL;
	if (type == GGUF_F32) {
		memcpy(out, src, n * sizeof(*out));
		return 0;
	}
	for (i = 0; i < n; i += t->elems) {
		t->dequant(p, out + i);
		p += t->bytes;
	}
	return 0;
}
