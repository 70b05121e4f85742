// SPDX-License-Identifier: MIT
/*
 * rope.c - the table of rotary position embeddings that append reads.
 */
#include <math.h>

#include "kva.h"

void kva_rope_table(float *table, uint32_t first, uint32_t npos,
		    uint32_t rot_dim, double base, double scale,
		    const float *factors)
{
	uint32_t half = rot_dim / 2, i, p;

	for (i = 0; i < half; i++) {
		double freq = pow(base, -2.0 * i / rot_dim) * scale;

		if (factors)
			freq /= factors[i];
		for (p = 0; p < npos; p++) {
			double angle = ((double)first + p) * freq;
			float *cs = table + ((size_t)p * half + i) * 2;

			cs[0] = cos(angle);
			cs[1] = sin(angle);
		}
	}
}
