/* SPDX-License-Identifier: MIT */
/*
 * matmul_kernels.h - what matmul.c wants of each instruction set.
 */
#ifndef MATMUL_KERNELS_H
#define MATMUL_KERNELS_H

#include <stdint.h>
#include "matmul.h"

/* Weights are taken in runs of this many. */
#define MATMUL_RUN 32
/* Rows of x that one pass over the weights serves. */
#define MATMUL_GROUP 4

struct matmul_kernels {
	const char *name;
	/*
	 * y[i * ys + r] = the dot product of weight row @first + r with row i
	 * of x, for @nx <= MATMUL_GROUP rows of x and @n weight rows. The
	 * columns are a multiple of MATMUL_RUN and the type is one that
	 * matmul_direct() names.
	 */
	void (*dot)(const struct matrix *w, uint32_t first, uint32_t n,
		    const float *x, size_t xs, unsigned int nx, float *y,
		    size_t ys);
	/* One such row as floats, or rounded to bf16. */
	void (*expand)(const struct matrix *w, uint32_t row, float *out);
	void (*expand_bf16)(const struct matrix *w, uint32_t row,
			    uint16_t *out);
	/* Finite floats, any number of them. */
	void (*to_bf16)(const float *in, size_t n, uint16_t *out);
};

extern const struct matmul_kernels matmul_scalar, matmul_avx2, matmul_avx512;

/* 1 if the kernels read this type themselves. */
int matmul_direct(uint32_t type);

#endif /* MATMUL_KERNELS_H */
