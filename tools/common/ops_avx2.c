// SPDX-License-Identifier: MIT
/*
 * ops_avx2.c - rows of ops.h with AVX2.
 */
#include "ops_rows.h"

#define VBYTES 32
#include "ops_loops.h"

OPS_ROWS(avx2);
