/* SPDX-License-Identifier: MIT */
/*
 * ops.h - what a layer does between its products, row by row.
 */
#ifndef OPS_H
#define OPS_H

#include <stddef.h>
#include <stdint.h>

struct kva_threads;

/**
 * ops_norm() - RMS norm, after adding what the last products gave
 * @t: pool, or NULL
 * @x: [@rows][@dim] hidden states, @delta added in place
 * @delta: [@rows][@dim], or NULL
 * @rows: number of rows
 * @dim: elements of a row
 * @weight: [@dim]
 * @eps: added to the mean square
 * @out: [@rows][@dim]; may be @x if there is no @delta
 *
 * arXiv:1910.07467, equation 4.
 */
void ops_norm(struct kva_threads *t, float *x, const float *delta,
	      uint32_t rows, uint32_t dim, const float *weight, float eps,
	      float *out);

/**
 * ops_swiglu() - out = gate sigmoid(gate) up
 * @t: pool, or NULL
 * @gate_up: [@rows][2][@dim]
 * @rows: number of rows
 * @dim: elements of a row of @out
 * @out: [@rows][@dim]; may not overlap @gate_up
 *
 * arXiv:2002.05202, section 2. Relative error below 1e-6.
 */
void ops_swiglu(struct kva_threads *t, const float *gate_up, uint32_t rows,
		uint32_t dim, float *out);

/**
 * ops_geglu() - out = GELU(gate) up, with GELU's approximation by tanh
 * @t: pool, or NULL
 * @gate_up: as ops_swiglu()
 * @rows: number of rows
 * @dim: elements of a row of @out
 * @out: as ops_swiglu()
 *
 * arXiv:1606.08415, section 2. Relative error below 2e-5.
 */
void ops_geglu(struct kva_threads *t, const float *gate_up, uint32_t rows,
	       uint32_t dim, float *out);

/**
 * ops_bias() - add a vector to each row
 * @t: pool, or NULL
 * @x: rows, @stride elements apart
 * @stride: see there
 * @rows: number of rows
 * @dim: elements of a row
 * @bias: [@dim]
 */
void ops_bias(struct kva_threads *t, float *x, size_t stride, uint32_t rows,
	      uint32_t dim, const float *bias);

/**
 * ops_norm_heads() - RMS norm of each head, in place
 * @t: pool, or NULL
 * @x: rows of @heads x @dim, @stride elements apart
 * @stride: see there
 * @rows: number of rows
 * @heads: heads in a row
 * @dim: elements of a head
 * @weight: [@dim]
 * @eps: added to the mean square
 */
void ops_norm_heads(struct kva_threads *t, float *x, size_t stride,
		    uint32_t rows, uint32_t heads, uint32_t dim,
		    const float *weight, float eps);

#endif /* OPS_H */
