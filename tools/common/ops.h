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
 * @out: [@rows][@dim]
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

#endif /* OPS_H */
