/* SPDX-License-Identifier: MIT */
/*
 * matmul_loops.h - the loops of struct matmul_kernels, for one instruction set.
 *
 * Included by matmul_{scalar,avx2,avx512}.c, which define
 *	vf	a vector of LANES floats, NV of them to a MATMUL_RUN
 *	v_zero() v_load() v_store() v_fma() v_add() v_sum() v_store_bf16()
 *	unpack_TYPE()	one MATMUL_RUN of weights, exactly as gguf_dequant()
 *			gives them, into vf[NV]
 */
#include <stddef.h>
#include "gguf.h"
#include "matmul_kernels.h"

/*
 * Bytes ahead of the weights in use. Hardware prefetching stops at the end of
 * a 4 KiB page, and so many short runs are what a step reads: reading ahead by
 * hand doubled the rate.
 */
#define PREFETCH 4096

/*
 * Sums of a dot product, to hide the latency of an addition. As many for each
 * number of rows, so that a row's result is the same bits in any company.
 */
#define NSUMS 2

#define INLINE static inline __attribute__((always_inline))

typedef void (*unpack_fn)(const uint8_t *block, vf *w);

INLINE void dot_row(unpack_fn unpack, size_t bytes, const uint8_t *row,
		    uint32_t cols, const float *x, size_t xs,
		    const unsigned int nx, float *y, size_t ys)
{
	vf acc[MATMUL_GROUP][NSUMS], w[NV];
	uint32_t k;
	unsigned int i, v, s;

#pragma GCC unroll 4
	for (i = 0; i < nx; i++)
#pragma GCC unroll 2
		for (s = 0; s < NSUMS; s++)
			acc[i][s] = v_zero();
	for (k = 0; k < cols; k += MATMUL_RUN, row += bytes) {
		__builtin_prefetch(row + PREFETCH);
		unpack(row, w);
#pragma GCC unroll 4
		for (i = 0; i < nx; i++)
#pragma GCC unroll 2
			for (v = 0; v < NV; v += NSUMS)
#pragma GCC unroll 2
				for (s = 0; s < NSUMS; s++)
					acc[i][s] = v_fma(w[v + s], v_load(
						x + i * xs + k +
						(v + s) * LANES), acc[i][s]);
	}
#pragma GCC unroll 4
	for (i = 0; i < nx; i++)
		y[i * ys] = v_sum(v_add(acc[i][0], acc[i][1]));
}

INLINE void dot_rows(unpack_fn unpack, size_t bytes, const struct matrix *w,
		     uint32_t first, uint32_t n, const float *x, size_t xs,
		     unsigned int nx, float *y, size_t ys)
{
	const uint8_t *row = w->data + first * w->row_bytes;
	uint32_t r;

	for (r = 0; r < n; r++, row += w->row_bytes, y++) {
		switch (nx) {
		case 1:
			dot_row(unpack, bytes, row, w->cols, x, xs, 1, y, ys);
			break;
		case 2:
			dot_row(unpack, bytes, row, w->cols, x, xs, 2, y, ys);
			break;
		case 3:
			dot_row(unpack, bytes, row, w->cols, x, xs, 3, y, ys);
			break;
		case 4:
			dot_row(unpack, bytes, row, w->cols, x, xs, 4, y, ys);
			break;
		}
	}
}

INLINE void expand_row(unpack_fn unpack, size_t bytes, const struct matrix *m,
		       uint32_t r, float *f32, uint16_t *bf16)
{
	const uint8_t *row = m->data + r * m->row_bytes;
	vf w[NV];
	uint32_t k;
	unsigned int v;

	for (k = 0; k < m->cols; k += MATMUL_RUN, row += bytes) {
		unpack(row, w);
#pragma GCC unroll 4
		for (v = 0; v < NV; v++) {
			if (f32)
				v_store(f32 + k + v * LANES, w[v]);
			else
				v_store_bf16(bf16 + k + v * LANES, w[v]);
		}
	}
}

/* CALL(function, bytes of a run) for the type of a matrix. */
#define FOR_TYPE(type, CALL)						\
	do {								\
		switch (type) {						\
		case GGUF_F32:						\
			CALL(unpack_f32, 128);				\
			break;						\
		case GGUF_F16:						\
			CALL(unpack_f16, 64);				\
			break;						\
		case GGUF_BF16:						\
			CALL(unpack_bf16, 64);				\
			break;						\
		case GGUF_Q4_0:						\
			CALL(unpack_q4_0, 18);				\
			break;						\
		case GGUF_Q4_1:						\
			CALL(unpack_q4_1, 20);				\
			break;						\
		case GGUF_Q8_0:						\
			CALL(unpack_q8_0, 34);				\
			break;						\
		}							\
	} while (0)

static void dot(const struct matrix *w, uint32_t first, uint32_t n,
		const float *x, size_t xs, unsigned int nx, float *y, size_t ys)
{
#define CALL(fn, bytes) dot_rows(fn, bytes, w, first, n, x, xs, nx, y, ys)
	FOR_TYPE(w->type, CALL);
#undef CALL
}

static void expand(const struct matrix *w, uint32_t row, float *out)
{
#define CALL(fn, bytes) expand_row(fn, bytes, w, row, out, NULL)
	FOR_TYPE(w->type, CALL);
#undef CALL
}

static void expand_bf16(const struct matrix *w, uint32_t row, uint16_t *out)
{
#define CALL(fn, bytes) expand_row(fn, bytes, w, row, NULL, out)
	FOR_TYPE(w->type, CALL);
#undef CALL
}

static void to_bf16(const float *in, size_t n, uint16_t *out)
{
	size_t i;

	for (i = 0; i + LANES <= n; i += LANES)
		v_store_bf16(out + i, v_load(in + i));
	for (; i < n; i++)
		out[i] = kva_f32_to_bf16(in[i]);
}

#define MATMUL_KERNELS(isa)						\
	const struct matmul_kernels matmul_##isa = {			\
		.name = #isa,						\
		.dot = dot,						\
		.expand = expand,					\
		.expand_bf16 = expand_bf16,				\
		.to_bf16 = to_bf16,					\
	}
