// SPDX-License-Identifier: MIT
/*
 * attn_avx2.c - the variant for AVX2, FMA and F16C.
 */
#include "vec_avx2.h"

#include "append.h"
#include "decode.h"
#include "prefill.h"

const struct kva_ops kva_ops_avx2 = {
	.name = "avx2",
	.append = append,
	.prefill = prefill,
	.decode = decode,
	.merge = merge,
	.copy = kva_cpu_copy,
	.rows = kva_cpu_rows,
	.shift = kva_cpu_shift,
};
