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
	float *q_bias;			/* what follows is NULL where an */
	float *k_bias;			/* architecture has none */
	float *v_bias;
	float *q_norm;			/* [head_dim], of each head */
	float *k_norm;
	float *attn_post_norm;		/* of what the half layer adds */
	float *ffn_post_norm;
};

/* Angles of all positions below @len, for one base. */
struct rotations {
	float *table;
	uint32_t len;
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
	float embed_scale;
	bool gelu;			/* the gate's function, not SiLU */
	uint32_t rot_dim;
	float *rope_factors;		/* [rot_dim / 2], or NULL */

	struct matrix embed;
	struct matrix output;
	float *output_norm;
	struct layer *layers;

	struct kva_threads *threads;
	struct matmul *mm;
	char products[64];

	struct rotations rope[2];	/* of layers that see all; of others */
	struct scratch s;
	struct model_counters count;
};

/* Free what get_layer() in model_load.c has made. */
void model_layer_free(struct layer *y);

#endif /* MODEL_PRIV_H */
