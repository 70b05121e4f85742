/* SPDX-License-Identifier: MIT */
/*
 * matmul_wide.h - what matmul.c wants of oneDNN: products of one panel.
 *
 * Every call works in the calling thread alone; matmul.c divides the work.
 */
#ifndef MATMUL_WIDE_H
#define MATMUL_WIDE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Of the OpenMP library that oneDNN runs on. Its header comes with one compiler
 * and does not suit the other.
 */
void omp_set_num_threads(int n);

struct wide;

int wide_create(struct wide **out);
void wide_destroy(struct wide *w);

/*
 * y[m][n] = x[m][k] panel[n][k]^T, y_stride elements apart. Returns 0, -ENOMEM,
 * or -EINVAL for strides shorter than rows.
 */
int wide_f32(const float *x, size_t x_stride, uint32_t m, const float *panel,
	     uint32_t n, uint32_t k, float *y, size_t y_stride);

/* Rows of x are taken in tiles: x has room for a multiple of this. */
#define WIDE_TILE_MIN 32
#define WIDE_TILE_MAX 256

/**
 * wide_prepare() - code for panels of a shape, before threads use it
 * @w: where it is kept
 * @m: rows of x
 * @n: rows of the panel
 * @k: elements of a row of both
 * @scratch: raised to the bytes of scratch that wide_bf16() wants
 */
int wide_prepare(struct wide *w, uint32_t m, uint32_t n, uint32_t k,
		 size_t *scratch);

/**
 * wide_bf16() - the same product of bf16
 * @w: prepared for this shape
 * @x: [@m][@k], with room as WIDE_TILE_MIN says
 * @m: rows of @x
 * @panel: [@n][@k]
 * @n: rows of @panel
 * @k: elements of a row of both
 * @y: [@m][@n] of a wider matrix
 * @y_stride: elements from one row of @y to the next
 * @scratch: as wide_prepare() says, 64-byte aligned, this thread's own
 *
 * Return: 0 or -ENOMEM.
 */
int wide_bf16(const struct wide *w, const uint16_t *x, uint32_t m,
	      const uint16_t *panel, uint32_t n, uint32_t k, float *y,
	      size_t y_stride, void *scratch);

#endif /* MATMUL_WIDE_H */
