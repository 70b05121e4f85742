/* SPDX-License-Identifier: MIT */
/*
 * packed.h - scores and values of a chunk that decode reads where it lies.
 * Codes with one scale a token are multiplied as they are, and the scale goes
 * to the token's score or probability. So are 4-bit codes, whose scales differ
 * within a row: sums over a group are what gets the scale. To be included after
 * expand.h.
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

/* Scales lie apart from the codes that panels fetch ahead. */
static void fetch_scales(const struct scales *sc, size_t count, uint32_t n)
{
	size_t size = kva_scale_size(sc->type), i, b;

	for (i = 0; i < count; i++)
		for (b = 0; b < n * size; b += 64)
			__builtin_prefetch((const char *)sc->of +
					   i * sc->P * size + b);
}

static void scale_row_by(float *s, uint32_t n, const float *by)
{
	uint32_t c;

	for (c = 0; c < n; c += VW)
		v_store(s + c, v_mul(v_load(s + c),
				     v_load_f32(by + c, edge_of(n, c))));
}

/* Queries in the order of a K slab's rows, and the sums of their groups. */
static void order_q(const struct job *j, struct kva_scratch *x)
{
	size_t dim = j->a->kv->k_dim, groups = kva_groups(dim), g, i, half;
	float *q = x->q, *sum = x->q_sums, *from;
	uint32_t r;

	for (r = 0; r < j->group; r++) {
		from = x->wide;
		memcpy(from, q, dim * sizeof(*q));
		for (g = 0; g < groups; g++, from += 2 * half) {
			vf part = v_set1(0);

			half = kva_group_dim(dim, g) / 2;
			for (i = 0; i < 2 * half; i += VW)
				part = v_add(part, v_load(from + i));
			*sum++ = v_hsum(part);
			for (i = 0; i < half; i++, q += 2) {
				q[0] = from[i];
				q[1] = from[i + half];
			}
		}
	}
}

/* Scales and minimums of a chunk's 4-bit groups as floats. */
static void expand_groups(const struct scales *sc, uint32_t n, float *to)
{
	uint32_t col;
	size_t g;

	for (g = 0; g < sc->groups; g++, to += 2 * KVA_S_STRIDE) {
		for (col = 0; col < n; col += VW) {
			v_store(to + col,
				scale_by(sc, g, col, edge_of(n, col)));
			v_store(to + KVA_S_STRIDE + col,
				scale_add(sc, g, col, edge_of(n, col)));
		}
	}
}

/* Floats that minimums come to, of a row: a vector a group. */
static size_t adds_of(const struct job *j)
{
	return kva_groups(j->a->kv->v_dim) * VW;
}

/* Tokens that are not seen have any scale, and any score. */
static void clear_unseen(const struct chunk *c, float *row)
{
	memset(row, 0, c->lo * sizeof(*row));
	memset(row + c->n, 0, (KVA_S_STRIDE - c->n) * sizeof(*row));
}

/*
 * Probabilities of @mr rows from @r on, times the scales of each 4-bit group,
 * into scratch; times the minimums, into sums over tokens that are still a
 * vector wide.
 */
static void weigh_groups(const struct job *j, struct kva_scratch *x,
			 const struct chunk *c, uint32_t r, uint32_t mr)
{
	size_t groups = kva_groups(j->a->kv->v_dim), g;
	float *adds = x->adds + r * adds_of(j), *to = x->weights;
	float *s = x->s + (size_t)r * KVA_S_STRIDE;
	uint32_t col;

	for (; mr--; s += KVA_S_STRIDE) {
		const float *by = x->v_groups, *add = by + KVA_S_STRIDE;

		clear_unseen(c, s);
		for (g = 0; g < groups; g++) {
			vf sum = v_load(adds);

			for (col = 0; col < c->n; col += VW) {
				vf p = v_load(s + col);

				v_store(to + col, v_mul(p, v_load(by + col)));
				sum = v_fma(p, v_load(add + col), sum);
			}
			v_store(adds, sum);
			to += KVA_S_STRIDE;
			by += 2 * KVA_S_STRIDE;
			add += 2 * KVA_S_STRIDE;
			adds += VW;
		}
	}
}

/* A row of values gets what minimums come to. */
static void add_minimums(const struct job *j, struct kva_scratch *x, uint32_t r)
{
	size_t dim = j->a->kv->v_dim, g, d, n;
	const float *adds = x->adds + r * adds_of(j);
	float *o = x->o + r * dim;

	for (g = 0; g < kva_groups(dim); g++, adds += VW, o += n) {
		vf sum = v_set1(v_hsum(v_load(adds)));

		n = kva_group_dim(dim, g);
		for (d = 0; d < n; d += VW)
			v_store(o + d, v_add(v_load(o + d), sum));
	}
}

/* Scores of @mr rows from @r on. */
static void chunk_scores(const struct job *j, struct kva_scratch *x,
			 const struct chunk *c, uint32_t r, uint32_t mr)
{
	uint32_t k_dim = j->a->kv->k_dim;
	struct panel p = {
		.a = x->q + (size_t)r * k_dim, .as = k_dim,
		.m = c->k, .ms = c->ks, .rows = k_dim, .groups = x->k_groups,
		.sums = x->q_sums + r * kva_groups(k_dim),
		.ss = kva_groups(k_dim),
		.c = x->s + (size_t)r * KVA_S_STRIDE, .cs = KVA_S_STRIDE,
		.next = c->v,
	};

	panel_columns(c->k_kind, mr, edge_of(c->n, 0), &p);
}

/* Values of @mr rows from @r on; a short group is apart. */
static void chunk_values(const struct job *j, struct kva_scratch *x,
			 const struct chunk *c, uint32_t r, uint32_t mr,
			 const char *next)
{
	uint32_t v_dim = j->a->kv->v_dim, even = c->lo & ~1u, rest = 0;
	struct panel p = {
		.a = x->s + (size_t)r * KVA_S_STRIDE + even,
		.as = KVA_S_STRIDE,
		.m = c->v + panel_bytes(c->v_kind, (size_t)even * v_dim),
		.ms = c->vs,
		.rows = c->n - even, .skip = c->lo % 2,
		.c = x->o + (size_t)r * v_dim, .cs = v_dim, .add = 1,
		.next = next,
	};

	if (c->v_kind == PANEL_GROUP) {
		weigh_groups(j, x, c, r, mr);
		p.a = x->weights + even;
		p.as = kva_groups(v_dim) * KVA_S_STRIDE;
		rest = v_dim % KVA_GROUP;
	}
	panel_columns(c->v_kind, mr, v_dim - rest, &p);
	if (!rest)
		return;
	p.m = (const char *)p.m + (v_dim - rest) / 2;
	p.a += v_dim / KVA_GROUP * KVA_S_STRIDE;
	p.c += v_dim - rest;
	panel_columns(PANEL_SHORT, mr, rest, &p);
}

#endif /* KVA_PACKED_H */
