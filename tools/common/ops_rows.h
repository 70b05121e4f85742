/* SPDX-License-Identifier: MIT */
/*
 * ops_rows.h - what ops.c wants of each instruction set.
 */
#ifndef OPS_ROWS_H
#define OPS_ROWS_H

#include <stdint.h>

struct ops_rows {
	void (*norm)(float *x, const float *delta, uint32_t dim,
		     const float *weight, float eps, float *out);
	void (*geglu)(const float *gate, const float *up, uint32_t dim,
		      float *out);
	void (*swiglu)(const float *gate, const float *up, uint32_t dim,
		       float *out);
};

extern const struct ops_rows ops_rows_any, ops_rows_avx2, ops_rows_avx512;

#endif /* OPS_ROWS_H */
