// SPDX-License-Identifier: MIT
/*
 * ops_avx512.c - rows of ops.h with AVX-512.
 */
#include "ops_rows.h"

#define VBYTES 64
#include "ops_loops.h"

OPS_ROWS(avx512);
