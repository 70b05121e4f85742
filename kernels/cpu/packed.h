/* SPDX-License-Identifier: MIT */
/*
 * packed.h - scores and values of a chunk that decode reads where it lies.
 * Codes are multiplied as they are: scales of a token go to its score and to
 * its probability, and 4-bit groups, whose scales differ, are summed one by
 * one. To be included after expand.h.
 */
#ifndef KVA_PACKED_H
#define KVA_PACKED_H

#include "expand.h"

/* Where a chunk of tokens is, as two matrices. */
struct chunk {
	enum panel_kind k_kind;
	enum panel_kind v_kind;
	const char *k;		/* [k_dim][ks] */
	const char *v;		/* [n][vs] */
	struct scales k_scales;
	struct scales v_scales;
	size_t ks;		/* cells of a row */
	size_t vs;
	uint32_t lo;		/* tokens before those that are seen */
	uint32_t n;		/* tokens, these included */
};

static unsigned int edge_of(uint32_t n, uint32_t col)
{
	return (n - col + 7) / 8 * 8;
}

/* The factor of all codes of a type that their panel leaves out. */
static float left_out(unsigned int type, float given)
{
	if (type == KVA_E4M3)
		return 256;
	return type == KVA_E4M3T ? 256 * given : 1;
}

static void scale_row_by(float *s, uint32_t n, const float *by)
{
	uint32_t c;

	for (c = 0; c < n; c += VW)
		v_store(s + c, v_mul(v_load(s + c),
				     v_load_f32(by + c, edge_of(n, c))));
}

/* Queries in the order of a K slab's rows, and their sums over groups. */
static void group_q(const struct job *j, struct kva_scratch *x)
{
	size_t dim = j->a->kv->k_dim, ng = kva_groups(dim), i;
	uint32_t r;

	for (r = 0; r < j->group; r++) {
		float *q = x->q + r * dim, *sum = x->qsum + r * ng;

		memcpy(x->wide, q, dim * sizeof(*q));
		memset(sum, 0, ng * sizeof(*sum));
		for (i = 0; i < dim; i++) {
			q[i] = x->wide[k_slab_dim(KVA_INT4, dim, i)];
			sum[i / KVA_GROUP] += q[i];
		}
	}
}

/* Sums of minimums, then of each group's codes by its scale. */
static void scores_int4(const struct job *j, struct kva_scratch *x,
			const struct chunk *c, uint32_t r, uint32_t mr)
{
	const struct scales *sc = &c->k_scales;
	size_t dim = j->a->kv->k_dim, ng = sc->groups, g;
	uint32_t columns = edge_of(c->n, 0), col, i;
	float *s = x->s + (size_t)r * KVA_S_STRIDE;
	struct panel p = {
		.a = x->qsum + r * ng, .as = ng,
		.m = (const uint16_t *)sc->of + ng * sc->P, .ms = sc->P,
		.rows = ng, .c = s, .cs = KVA_S_STRIDE, .next = c->k,
	};

	panel_columns(PANEL_F16, mr, columns, &p);
	for (g = 0; g < ng; g++) {
		p = (struct panel) {
			.a = x->q + r * dim + g * KVA_GROUP, .as = dim,
			.m = c->k + g * KVA_GROUP / 2 * c->ks, .ms = c->ks,
			.rows = kva_group_dim(dim, g), .c = x->t,
			.cs = KVA_S_STRIDE,
			.next = c->v + g * KVA_GROUP / 2 * columns,
		};
		panel_columns(PANEL_U4, mr, columns, &p);
		for (col = 0; col < columns; col += VW) {
			vf by = scale_by(sc, g, col, edge_of(c->n, col));

			for (i = 0; i < mr; i++) {
				float *to = s + i * KVA_S_STRIDE + col;
				const float *t = x->t + i * KVA_S_STRIDE + col;

				v_store(to, v_fma(v_load(t), by, v_load(to)));
			}
		}
	}
}

/* Scores of @mr rows from @r on. */
static void chunk_scores(const struct job *j, struct kva_scratch *x,
			 const struct chunk *c, uint32_t r, uint32_t mr)
{
	uint32_t k_dim = j->a->kv->k_dim;
	struct panel p = {
		.a = x->q + (size_t)r * k_dim, .as = k_dim,
		.m = c->k, .ms = c->ks, .rows = k_dim,
		.c = x->s + (size_t)r * KVA_S_STRIDE, .cs = KVA_S_STRIDE,
		.next = c->v,
	};

	if (c->k_kind == PANEL_U4)
		scores_int4(j, x, c, r, mr);
	else
		panel_columns(c->k_kind, mr, edge_of(c->n, 0), &p);
}

/*
 * Probabilities of a row times the scales of group @g; the sum of their
 * products with its minimums, over what is seen.
 */
static float group_row(const struct chunk *c, size_t g, const float *s,
		       float *to)
{
	const struct scales *sc = &c->v_scales;
	vf sum = v_set1(0), zero = v_set1(0), y;
	uint32_t col, edge;

	for (col = 0; col < c->n; col += VW) {
		edge = edge_of(c->n, col);
		v_store(to + col, v_mul(v_load(s + col),
					scale_by(sc, g, col, edge)));
		y = v_mul(v_load(s + col), scale_add(sc, g, col, edge));
		y = v_first(y, c->n - col, zero);
		if (col < c->lo)
			y = v_first(zero, c->lo - col, y);
		sum = v_add(sum, y);
	}
	return v_hsum(sum);
}

static void values_int4(const struct job *j, struct kva_scratch *x,
			const struct chunk *c, uint32_t r, uint32_t mr,
			const char *next)
{
	size_t dim = j->a->kv->v_dim, g, n, d;
	uint32_t even = c->lo & ~1u, i;
	float min[MR];

	for (g = 0; g < c->v_scales.groups; g++) {
		float *o = x->o + r * dim + g * KVA_GROUP;
		struct panel p = {
			.a = x->t + even, .as = KVA_S_STRIDE,
			.m = c->v + even * c->vs + g * KVA_GROUP / 2,
			.ms = c->vs, .rows = c->n - even, .skip = c->lo % 2,
			.c = o, .cs = dim, .add = 1,
			.next = next + g * KVA_GROUP / 2 * c->n,
		};

		for (i = 0; i < mr; i++)
			min[i] = group_row(c, g, x->s + (r + i) * KVA_S_STRIDE,
					   x->t + i * KVA_S_STRIDE);
		n = kva_group_dim(dim, g);
		panel_columns(n < KVA_GROUP ? PANEL_SHORT : PANEL_GROUP, mr, n,
			      &p);
		for (i = 0; i < mr; i++)
			for (d = i * dim; d < i * dim + n; d += VW)
				v_store(o + d, v_add(v_load(o + d),
						     v_set1(min[i])));
	}
}

/* Values of @mr rows from @r on. */
static void chunk_values(const struct job *j, struct kva_scratch *x,
			 const struct chunk *c, uint32_t r, uint32_t mr,
			 const char *next)
{
	uint32_t v_dim = j->a->kv->v_dim, even = c->lo & ~1u;
	struct panel p = {
		.a = x->s + (size_t)r * KVA_S_STRIDE + even,
		.as = KVA_S_STRIDE,
		.m = c->v + panel_bytes(c->v_kind, even * c->vs), .ms = c->vs,
		.rows = c->n - even, .skip = c->lo % 2,
		.c = x->o + (size_t)r * v_dim, .cs = v_dim, .add = 1,
		.next = next,
	};

	if (c->v_kind == PANEL_GROUP)
		values_int4(j, x, c, r, mr, next);
	else
		panel_columns(c->v_kind, mr, v_dim, &p);
}

#endif /* KVA_PACKED_H */
