/* SPDX-License-Identifier: MIT */
/*
 * model_priv.h - what model_load.c reads and model.c computes with.
 */
#ifndef MODEL_PRIV_H
#define MODEL_PRIV_H

#include "matmul.h"
#include "model.h"

struct layer {
	struct matrix q;
	struct matrix k;
	struct matrix v;
	struct matrix o;
	struct matrix gate;
	struct matrix up;
	struct matrix down;
	float *attn_norm;
	float *ffn_norm;
};

/* One allocation of each, for as many rows as the largest step had. */
struct scratch {
	uint32_t rows;
	float *x;		/* [rows][dim] hidden states */
	float *h;		/* [rows][dim] normed */
	float *delta;		/* [rows][dim] what a half layer adds to x */
	float *qkv;		/* [rows][q_heads + 2 kv_heads][head_dim] */
	float *attn;		/* [rows][q_heads][head_dim] */
	float *gate_up;		/* [rows][2][ff_dim] */
	float *act;		/* [rows][ff_dim] */
};

struct model {
	struct model_info info;
	float eps;
	uint32_t rot_dim;
	float *rope_factors;		/* [rot_dim / 2], or NULL */

	struct matrix embed;
	struct matrix output;
	float *output_norm;
	struct layer *layers;

	struct kva_threads *threads;
	struct matmul *mm;
	char products[64];

	float *rope;			/* for positions below rope_len */
	uint32_t rope_len;
	struct scratch s;
	struct model_counters count;
};

#endif /* MODEL_PRIV_H */
