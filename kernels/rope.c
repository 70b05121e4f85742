// SPDX-License-Identifier: MIT
/*
 * rope.c - the tables of rotary position embeddings that append and shift
 * read.
 */
#include <math.h>

#include "kva.h"

static double frequency(uint32_t i, uint32_t rot_dim, double base,
			double scale, const float *factors)
{
	double freq = pow(base, -2.0 * i / rot_dim) * scale;

	return factors ? freq / factors[i] : freq;
}

void kva_rope_table(float *table, uint32_t first, uint32_t npos,
		    uint32_t rot_dim, double base, double scale,
		    const float *factors)
{
	uint32_t half = rot_dim / 2, i, p;

	for (i = 0; i < half; i++) {
		double freq = frequency(i, rot_dim, base, scale, factors);

		for (p = 0; p < npos; p++) {
			double angle = ((double)first + p) * freq;
			float *cs = table + ((size_t)p * half + i) * 2;

			cs[0] = cos(angle);
			cs[1] = sin(angle);
		}
	}
}

void kva_rope_turn(double *turn, int64_t delta, uint32_t rot_dim, double base,
		   double scale, const float *factors)
{
	uint32_t i;

	for (i = 0; i < rot_dim / 2; i++) {
		double angle = delta * frequency(i, rot_dim, base, scale,
						 factors);

		turn[2 * i] = cos(angle);
		turn[2 * i + 1] = sin(angle);
	}
}
