/* SPDX-License-Identifier: MIT */
/*
 * expand.h - the tokens of a tile as f32 in scratch: K with dims as rows, V
 * with tokens as rows. To be included after tile.h.
 */
#ifndef KVA_EXPAND_H
#define KVA_EXPAND_H

#include "tile.h"

static enum panel_kind kind_of(unsigned int type, int is_v)
{
	switch (type) {
	case KVA_INT8:
		return is_v ? PANEL_S8 : PANEL_S8X4;
	case KVA_E4M3:
		return PANEL_F8;
	case KVA_E4M3T:
		return PANEL_F8NAN;
	case KVA_INT4:
	case KVA_INT4H:
		return is_v ? PANEL_GROUP : PANEL_U4;
	default:
		return (enum panel_kind)type;
	}
}

/* The scales of one part of a slab in KVA_CPU order. */
struct scales {
	unsigned int type;
	float given;		/* KVA_E4M3T */
	const void *of;		/* [scale][P], from a slot on */
	size_t P;
	size_t groups;
};

static struct scales scales_of(const struct kva_view *v, const void *slab,
			       int is_v, uint32_t slot)
{
	unsigned int type = is_v ? v->v_type : v->k_type;
	size_t dim = is_v ? v->v_dim : v->k_dim;

	return (struct scales) {
		.type = type, .given = is_v ? v->v_scale : v->k_scale,
		.of = (const char *)slab +
		      v->page_tokens * kva_cells(type, dim) +
		      slot * kva_scale_size(type),
		.P = v->page_tokens, .groups = kva_groups(dim),
	};
}

/* What codes of group @g of the tokens from @t on are multiplied with. */
static KVA_ALWAYS_INLINE vf scale_by(const struct scales *s, size_t g,
				     size_t t, unsigned int edge)
{
	switch (s->type) {
	case KVA_INT8:
		return v_load_f32((const float *)s->of + t, edge);
	case KVA_E4M3:
		return v_mul(v_load_f32((const float *)s->of + t, edge),
			     v_set1(256));
	case KVA_E4M3T:
		return v_set1(256 * s->given);
	default:
		return v_load_f16((const uint16_t *)s->of + g * s->P + t, edge);
	}
}

/* And what is added to them. */
static KVA_ALWAYS_INLINE vf scale_add(const struct scales *s, size_t g,
				      size_t t, unsigned int edge)
{
	return kva_is_int4(s->type) ?
	       v_load_f16((const uint16_t *)s->of + (s->groups + g) * s->P + t,
			  edge) : v_set1(0);
}

/* Both of group @g of one token. */
static void scale_token(const struct scales *s, size_t g, float *by,
			float *add)
{
	const uint16_t *half = s->of;

	*add = 0;
	switch (s->type) {
	case KVA_INT8:
		*by = *(const float *)s->of;
		break;
	case KVA_E4M3:
		*by = *(const float *)s->of * 256;
		break;
	case KVA_E4M3T:
		*by = s->given * 256;
		break;
	default:
		*by = kva_cvt_f16_f32(half[g * s->P]);
		*add = kva_cvt_f16_f32(half[(s->groups + g) * s->P]);
	}
}

/* The dim of row @i of a K slab, whose groups' halves share bytes. */
static size_t k_slab_dim(unsigned int type, size_t dim, size_t i)
{
	size_t g = i / KVA_GROUP, k = i % KVA_GROUP;

	if (!kva_is_int4(type))
		return i;
	return g * KVA_GROUP + k / 2 + k % 2 * (kva_group_dim(dim, g) / 2);
}

/* Tokens [slot, slot + n) of a K slab to columns [at, ...) of scratch. */
static void expand_k(const struct job *j, const struct kva_scratch *x,
		     const void *slab, uint32_t slot, uint32_t at, uint32_t n)
{
	const struct kva_view *v = j->a->kv;
	enum panel_kind kind = kind_of(v->k_type, 0);
	struct scales s = scales_of(v, slab, 0, slot);
	unsigned int c, edge, unit = panel_unit(kind);
	size_t i;
	vf y;

	for (i = 0; i < v->k_dim; i++) {
		float *to = x->k + at +
			    k_slab_dim(v->k_type, v->k_dim, i) * KVA_K_STRIDE;

		for (c = 0; c < n; c += VW) {
			edge = (n - c + 7) / 8 * 8;
			y = panel_load(kind, slab, v->page_tokens, i, i % unit,
				       slot + c, edge);
			if (kva_is_packed(v->k_type))
				y = v_fma(y, scale_by(&s, i / KVA_GROUP, c,
						      edge),
					  scale_add(&s, i / KVA_GROUP, c,
						    edge));
			v_store(to + c, y);
		}
	}
}

/* A row of V of a packed type; @s starts at its token. */
static void expand_v_packed(const struct scales *s, enum panel_kind kind,
			    const uint8_t *codes, float *to, size_t dim)
{
	size_t g, n, d;
	float by, add;
	vf y;

	for (g = 0; g < s->groups; g++, to += n) {
		scale_token(s, g, &by, &add);
		n = kva_group_dim(dim, g);
		for (d = 0; d < n; d += VW) {
			if (kind == PANEL_GROUP)
				y = v_load_group(codes + g * KVA_GROUP / 2, n,
						 d);
			else
				y = panel_load(kind, codes, 0, 0, 0,
					       g * KVA_GROUP + d, VW);
			v_store(to + d, v_fma(y, v_set1(by), v_set1(add)));
		}
	}
}

/* The same for V, to rows of scratch. */
static void expand_v(const struct job *j, const struct kva_scratch *x,
		     const void *slab, uint32_t slot, uint32_t at, uint32_t n)
{
	const struct kva_view *v = j->a->kv;
	enum panel_kind kind = kind_of(v->v_type, 1);
	uint32_t t;
	size_t d;

	for (t = slot; t < slot + n; t++) {
		float *to = x->v + (at + t - slot) * KVA_V_STRIDE(v->v_dim);

		if (kva_is_packed(v->v_type)) {
			struct scales s = scales_of(v, slab, 1, t);

			expand_v_packed(&s, kind, (const uint8_t *)slab +
					t * kva_cells(v->v_type, v->v_dim), to,
					v->v_dim);
			continue;
		}
		for (d = 0; d < v->v_dim; d += VW)
			v_store(to + d, panel_load(kind, slab, v->v_dim, t,
						   t % 2, d, VW));
	}
}

static void unpack(unsigned int type, float scale, const void *row, float *out,
		   size_t dim)
{
	if (kva_is_packed(type))	/* and left rotated */
		kva_unpack(type, scale, row, out, dim);
	else
		kva_row_decode(type, scale, row, out, dim);
}

/* Any order and any page size, row by row. */
static void expand_slow(const struct job *j, const struct kva_scratch *x,
			const void *page, uint32_t head, uint32_t slot,
			uint32_t at, uint32_t n)
{
	const struct kva_view *v = j->a->kv;
	uint32_t t, d;

	for (t = 0; t < n; t++) {
		float *row = x->v + (at + t) * KVA_V_STRIDE(v->v_dim);

		kva_rows_read(v, page, 0, head, slot + t, 1, x->row);
		unpack(v->k_type, v->k_scale, x->row, x->wide, v->k_dim);
		for (d = 0; d < v->k_dim; d++)
			x->k[d * KVA_K_STRIDE + at + t] = x->wide[d];
		if (v->v_in_k) {
			memcpy(row, x->wide, v->v_dim * sizeof(*row));
			continue;
		}
		kva_rows_read(v, page, 1, head, slot + t, 1, x->row);
		unpack(v->v_type, v->v_scale, x->row, row, v->v_dim);
	}
}

/* Tokens [at, end) of the tile at @pos into their places in scratch. */
static void expand(const struct job *j, const struct kva_scratch *x,
		   uint32_t s, uint32_t head, uint64_t pos, uint32_t at,
		   uint32_t end)
{
	const struct kva_view *v = j->a->kv;
	uint32_t run;

	for (; at < end; at += run) {
		uint32_t slot = (pos + at) % v->page_tokens;
		const char *page = kva_page(v, s, pos + at);

		run = v->page_tokens - slot < end - at ?
		      v->page_tokens - slot : end - at;
		if (!j->direct) {
			expand_slow(j, x, page, head, slot, at, run);
			continue;
		}
		expand_k(j, x, kva_slab(v, page, 0, head), slot, at, run);
		expand_v(j, x, kva_slab(v, page, 1, head), slot, at, run);
	}
}

#endif /* KVA_EXPAND_H */
