// SPDX-License-Identifier: MIT
/*
 * attn_scalar.c - the variant that every CPU runs.
 */
#include "vec_scalar.h"

#include "append.h"
#include "decode.h"
#include "prefill.h"

const struct kva_ops kva_ops_scalar = {
	.name = "scalar",
	.append = append,
	.prefill = prefill,
	.decode = decode,
	.merge = merge,
	.copy = kva_cpu_copy,
	.rows = kva_cpu_rows,
	.shift = kva_cpu_shift,
};
