// SPDX-License-Identifier: MIT
/*
 * attn_avx512.c - the variant for AVX-512 F, BW, VL and DQ.
 */
#include "vec_avx512.h"

#include "append.h"
#include "decode.h"
#include "prefill.h"

const struct kva_ops kva_ops_avx512 = {
	.name = "avx512",
	.append = append,
	.prefill = prefill,
	.decode = decode,
	.merge = merge,
	.copy = kva_cpu_copy,
	.rows = kva_cpu_rows,
	.shift = kva_cpu_shift,
};
