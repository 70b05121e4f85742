/* SPDX-License-Identifier: MIT */
/*
 * work.h - the division of decode and prefill into work items, and of the
 * caller's scratch memory among them.
 */
#ifndef KVA_WORK_H
#define KVA_WORK_H

#include "kvattn.h"

/* KV tokens that one pass over the query rows takes. */
#define KVA_TILE 64
/* Query rows (tokens times heads of a group) of a prefill item. */
#define KVA_ROWS 192
/*
 * Strides of a tile's scores and of an expanded tile, in floats. 16 more than
 * the width spreads the rows over all sets of the first cache, and leaves room
 * for a whole vector at the end.
 */
#define KVA_S_STRIDE (KVA_TILE + 16)
#define KVA_K_STRIDE (KVA_TILE + 16)
#define KVA_V_STRIDE(dim) ((size_t)(dim) + 16)

/* A run of query tokens of one sequence. */
struct kva_tile {
	uint32_t seq;
	uint32_t row;
	uint64_t sees;		/* KV tokens: what it costs */
};

struct kva_work {
	size_t pieces;		/* decode: of all sequences */
	size_t tiles;		/* prefill */
	uint32_t rows;		/* that a thread's scratch holds */

	/* shared, decode: first piece of each sequence, partial m, l and o */
	size_t first_size;
	size_t ml_size;
	size_t o_size;
	/* shared, prefill: struct kva_tile */
	size_t tiles_size;

	size_t shared_size;
	size_t scratch_size;	/* of one thread */
};

/* Rows that a panel takes at a time: no variant takes more. */
#define KVA_PANEL_ROWS 6
/* And floats in a vector. */
#define KVA_WIDE 16

/* One thread's scratch. */
struct kva_scratch {
	float *q;		/* [rows][k_dim], times scale times log2(e) */
	float *o;		/* [rows][v_dim] */
	float *s;		/* [rows][KVA_S_STRIDE] scores, then probabilities */
	float *m;		/* [rows] greatest score */
	float *l;		/* [rows] sum of the exponentials */
	float *k;		/* [k_dim][KVA_K_STRIDE] */
	float *v;		/* [KVA_TILE][KVA_V_STRIDE(v_dim)] */
	float *row;		/* one row of K or V in its own type */
	float *wide;		/* and as floats */
	/* of 4-bit K and V: [groups][scale, minimum][KVA_S_STRIDE] */
	float *k_groups;
	float *v_groups;
	float *q_sums;		/* [rows][groups of K] sums of q over each */
	/* probabilities times scales: [KVA_PANEL_ROWS][groups][KVA_S_STRIDE] */
	float *weights;
	float *adds;		/* [rows][groups][KVA_WIDE] p times minimums */
};

/*
 * What a row that comes after @sees - 1 tokens sees of them: the window, from
 * kva_low() on, and the first kva_sinks() tokens.
 */
static inline uint64_t kva_low(const struct kva_attn *a, uint64_t sees)
{
	return a->window && sees > a->window ? sees - a->window : 0;
}

static inline uint64_t kva_sinks(const struct kva_attn *a, uint64_t low)
{
	return a->sinks < low ? a->sinks : low;
}

uint32_t kva_split(const struct kva_attn *a);
/* Query tokens of a prefill item. */
uint32_t kva_tile_tokens(const struct kva_attn *a);
/* Pieces of a sequence in decode; 0 if it has no row. */
size_t kva_pieces(const struct kva_attn *a, uint32_t s);
/* The tokens of the i-th piece: first those of the sinks. */
void kva_piece(const struct kva_attn *a, uint32_t s, size_t i, uint64_t *pos,
	       uint64_t *end);

void kva_work_init(struct kva_work *w, const struct kva_attn *a);
void kva_scratch_init(struct kva_scratch *x, const struct kva_work *w,
		      const struct kva_attn *a, unsigned int thread);

#endif /* KVA_WORK_H */
