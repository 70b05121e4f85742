/* SPDX-License-Identifier: MIT */
/*
 * matmul.h - products of activations with the weight matrices of a model.
 *
 * Weights stay as the file has them. Few rows are multiplied with the blocks
 * as they are read; for many rows a panel of the matrix at a time is expanded
 * and handed to oneDNN. Documentation/products.rst has the figures behind it.
 */
#ifndef MATMUL_H
#define MATMUL_H

#include <stddef.h>
#include <stdint.h>

struct kva_threads;
struct matmul;

/**
 * struct matrix - weights, one row for each output
 * @data: rows, @row_bytes apart
 * @row_bytes: bytes of a row
 * @type: enum gguf_type
 * @rows: outputs
 * @cols: inputs
 */
struct matrix {
	const uint8_t *data;
	size_t row_bytes;
	uint32_t type;
	uint32_t rows;
	uint32_t cols;
};

/**
 * struct matmul_job - one product of a call
 * @w: the weights
 * @y: [m] rows of @w->rows floats
 * @y_stride: elements from one row of @y to the next
 */
struct matmul_job {
	const struct matrix *w;
	float *y;
	size_t y_stride;
};

/* What panels are expanded to. */
enum matmul_wide {
	MATMUL_F32,
	MATMUL_BF16,	/* both factors rounded, sums in f32 */
};

/* At most this many rows use the weights as the file has them. */
#define MATMUL_FEW 12

/**
 * matmul_create() - a multiplier
 * @threads: the pool to work on, or NULL
 * @wide: for products of more than MATMUL_FEW rows
 * @out: for matmul_destroy()
 *
 * KVATTN_ISA in the environment (scalar, avx2, avx512) forces a variant of
 * the code for few rows, as it does for attention.
 * Return: 0; -EOPNOTSUPP no such variant, or no bf16, on this CPU; -ENOMEM.
 */
int matmul_create(struct kva_threads *threads, enum matmul_wide wide,
		  struct matmul **out);
void matmul_destroy(struct matmul *mm);

/* 1 if this CPU multiplies bf16 faster than f32. */
int matmul_has_bf16(void);

/**
 * matmul_run() - y = x W^T for matrices that share their input
 * @mm: the multiplier
 * @x: [@m] rows of cols floats, @x_stride apart
 * @x_stride: elements
 * @m: rows
 * @jobs: the products; all matrices have as many columns
 * @njobs: their number
 *
 * With MATMUL_F32 a result differs from the exact one by no more than an f32
 * sum of cols products may. Up to MATMUL_FEW rows, each row's result is the
 * same bits whatever the other rows and however many threads there are.
 * Return: 0; -EINVAL no jobs, too many, or of different widths; -ENOMEM.
 */
int matmul_run(struct matmul *mm, const float *x, size_t x_stride, uint32_t m,
	       const struct matmul_job *jobs, unsigned int njobs);

/* One row of a matrix as floats, [cols]. */
void matmul_row(const struct matrix *w, uint32_t row, float *out);

/* Name of the variant for few rows: "scalar", "avx2" or "avx512". */
const char *matmul_isa(const struct matmul *mm);

#endif /* MATMUL_H */
