/* SPDX-License-Identifier: MIT */
/*
 * panel.h - the one inner loop of attention: c (+)= a * m, for a few rows of
 * a and a few vectors of columns of m. Scores are q times K, whose rows are
 * dims and whose columns are tokens; outputs are probabilities times V, whose
 * rows are tokens. In the order KVA_CPU both have the same form.
 *
 * Each element of c is one chain of fused multiply-adds over the rows of m,
 * in ascending order, whatever the shape of the tile: results do not depend
 * on how the work is divided. 4-bit codes are multiplied as they are. Their
 * scales and minimums differ between groups: those of K come in once a group,
 * d sum(a c) + m sum(a), and those of V are in a, and added by the caller.
 *
 * To be included after a vec_*.h.
 */
#ifndef KVA_PANEL_H
#define KVA_PANEL_H

_Static_assert(MR <= KVA_PANEL_ROWS && VW <= KVA_WIDE,
	       "scratch is for smaller panels");

/* What @m is made of. */
enum panel_kind {
	PANEL_F32 = KVA_F32,
	PANEL_F16 = KVA_F16,
	PANEL_BF16 = KVA_BF16,	/* two rows interleaved */
	PANEL_EXPANDED,		/* f32 in scratch: nothing to prefetch */
	/* packed, and without their scales but for PANEL_U4 */
	PANEL_S8X4,		/* four rows interleaved */
	PANEL_S8,
	PANEL_F8,		/* 2^-8 of them */
	PANEL_F8NAN,		/* the same, where NaN may be */
	PANEL_U4,		/* two rows in one of bytes */
	PANEL_GROUP,		/* columns that are one group */
	PANEL_SHORT,		/* and one that is short */
	PANEL_NR_KINDS
};

struct panel {
	const float *a;		/* [mr][rows] */
	size_t as;
	const void *m;		/* [rows][columns] */
	size_t ms;		/* cells of a row */
	size_t rows;
	int skip;		/* 1 to leave out the first row */
	float *c;		/* [mr][columns] */
	size_t cs;
	int add;		/* to what c holds */
	unsigned int edge;	/* columns that a single vector may load */
	/* PANEL_U4: scales of m, and the sums of groups of a */
	const float *groups;	/* [groups][scale, minimum][KVA_S_STRIDE] */
	const float *sums;	/* [mr][groups] */
	size_t ss;
	size_t in;		/* other 4-bit kinds: columns into a group */
	const char *next;	/* what is read soon, prefetched line by line */
};

/* Bytes that @n elements take. */
static KVA_ALWAYS_INLINE size_t panel_bytes(enum panel_kind kind, size_t n)
{
	switch (kind) {
	case PANEL_F32:
	case PANEL_EXPANDED:
		return 4 * n;
	case PANEL_F16:
	case PANEL_BF16:
		return 2 * n;
	case PANEL_U4:
	case PANEL_GROUP:
	case PANEL_SHORT:
		return n / 2;
	default:
		return n;
	}
}

/* Rows that one cell holds elements of, or that lie between each other. */
static KVA_ALWAYS_INLINE int panel_unit(enum panel_kind kind)
{
	return kind == PANEL_S8X4 ? 4 : 2;
}

/* Vector @j of row @i; @sub is i % panel_unit(). */
static KVA_ALWAYS_INLINE vf panel_load(enum panel_kind kind, const void *m,
				       size_t ms, size_t i, int sub, size_t col,
				       unsigned int n)
{
	switch (kind) {
	case PANEL_F16:
		return v_load_f16((const uint16_t *)m + i * ms + col, n);
	case PANEL_BF16:
		return v_load_bf16((const uint16_t *)m + (i - sub) * ms +
				   2 * col, n, sub);
	case PANEL_S8X4:
		return v_load_s8x4((const int8_t *)m + (i - sub) * ms +
				   4 * col, n, sub);
	case PANEL_S8:
		return v_load_s8((const int8_t *)m + i * ms + col);
	case PANEL_F8:
		return v_load_e4m3((const uint8_t *)m + i * ms + col, n, 0);
	case PANEL_F8NAN:
		return v_load_e4m3((const uint8_t *)m + i * ms + col, n, 1);
	case PANEL_U4:
		return v_load_u4((const uint8_t *)m + (i - sub) / 2 * ms + col,
				 n, sub);
	case PANEL_GROUP:
		return v_load_group((const uint8_t *)m + i * ms +
				    col / KVA_GROUP * KVA_GROUP / 2, KVA_GROUP,
				    col % KVA_GROUP);
	case PANEL_SHORT:
		return v_load_group((const uint8_t *)m + i * ms, KVA_GROUP / 2,
				    col);
	default:
		return v_load_f32((const float *)m + i * ms + col, n);
	}
}

static KVA_ALWAYS_INLINE void panel_row(enum panel_kind kind, int mr, int nv,
					const struct panel *p,
					vf acc[MR][NV], size_t i, int sub)
{
	unsigned int n = nv == 1 ? p->edge : VW;
	size_t in = VW < KVA_GROUP / 2 ? p->in : 0;
	vf b[NV], a;
	int r, j;

#pragma GCC unroll 4
	for (j = 0; j < nv; j++)
		b[j] = panel_load(kind, p->m, p->ms, i, sub, in + j * VW, n);
#pragma GCC unroll 6
	for (r = 0; r < mr; r++) {
		const float *ar = p->a + r * p->as + i;

		a = v_set1(*ar);
#pragma GCC unroll 4
		for (j = 0; j < nv; j++) {
			if (kind == PANEL_GROUP && j &&
			    j * VW % KVA_GROUP == 0)
				a = v_set1(ar[j * VW / KVA_GROUP *
					      KVA_S_STRIDE]);
			acc[r][j] = v_fma(a, b[j], acc[r][j]);
		}
	}
}

/* What the rows of a group come to, with their scales, into c. */
static KVA_ALWAYS_INLINE void panel_fold(int mr, int nv, const struct panel *p,
					 vf acc[MR][NV], size_t g)
{
	const float *d = p->groups + g * 2 * KVA_S_STRIDE;
	vf by, add, c;
	int r, j;

#pragma GCC unroll 4
	for (j = 0; j < nv; j++) {
		by = v_load(d + j * VW);
		add = v_load(d + KVA_S_STRIDE + j * VW);
#pragma GCC unroll 6
		for (r = 0; r < mr; r++) {
			float *to = p->c + r * p->cs + j * VW;

			c = g ? v_load(to) : v_set1(0);
			c = v_fma(v_set1(p->sums[r * p->ss + g]), add, c);
			v_store(to, v_fma(acc[r][j], by, c));
			acc[r][j] = v_set1(0);
		}
	}
}

static KVA_ALWAYS_INLINE void panel_body(enum panel_kind kind, int mr, int nv,
					 const struct panel *arg)
{
	const struct panel copy = *arg, *p = &copy;
	const int unit = panel_unit(kind);
	size_t bytes = kind == PANEL_EXPANDED ? 0 :
		       panel_bytes(kind, unit * nv * VW);
	const char *next = p->next;
	vf acc[MR][NV];
	size_t i, x;
	int r, j, u;

#pragma GCC unroll 6
	for (r = 0; r < mr; r++)
#pragma GCC unroll 4
		for (j = 0; j < nv; j++)
			acc[r][j] = p->add ? v_load(p->c + r * p->cs + j * VW) :
					     v_set1(0);
	i = 2 * p->skip;
	if (i)
		panel_row(kind, mr, nv, p, acc, 1, 1);
	for (; i + unit <= p->rows; i += unit) {
#pragma GCC unroll 4
		for (u = 0; u < unit; u++)
			panel_row(kind, mr, nv, p, acc, i + u, u);
		if (kind == PANEL_U4 && ((i + unit) % KVA_GROUP == 0 ||
					 i + unit == p->rows))
			panel_fold(mr, nv, p, acc, i / KVA_GROUP);
		for (x = 0; x < bytes; x += 64)
			__builtin_prefetch(next + x);
		next += bytes;
	}
	if (i < p->rows)
		panel_row(kind, mr, nv, p, acc, i, 0);
	if (kind == PANEL_U4)
		return;
#pragma GCC unroll 6
	for (r = 0; r < mr; r++)
#pragma GCC unroll 4
		for (j = 0; j < nv; j++)
			v_store(p->c + r * p->cs + j * VW, acc[r][j]);
}

#define PANEL(kind, mr, nv)						\
static void panel_##kind##_##mr##_##nv(const struct panel *p)		\
{									\
	panel_body(PANEL_##kind, mr, nv, p);				\
}
#define PANEL_ENTRY(kind, mr, nv)					\
	[nv / 2][mr - 1] = panel_##kind##_##mr##_##nv,

#if MR == 6
#define PANEL_MRS(X, kind, nv)						\
	X(kind, 1, nv) X(kind, 2, nv) X(kind, 3, nv)			\
	X(kind, 4, nv) X(kind, 5, nv) X(kind, 6, nv)
#else
#define PANEL_MRS(X, kind, nv)						\
	X(kind, 1, nv) X(kind, 2, nv) X(kind, 3, nv) X(kind, 4, nv)
#endif

#if NV == 4
#define PANELS(X, kind)							\
	PANEL_MRS(X, kind, 1) PANEL_MRS(X, kind, 2) PANEL_MRS(X, kind, 4)
#else
#define PANELS(X, kind) PANEL_MRS(X, kind, 1) PANEL_MRS(X, kind, 2)
#endif

PANELS(PANEL, F32)
PANELS(PANEL, F16)
PANELS(PANEL, BF16)
PANELS(PANEL, EXPANDED)
PANELS(PANEL, S8X4)
PANELS(PANEL, S8)
PANELS(PANEL, F8)
PANELS(PANEL, F8NAN)
PANELS(PANEL, U4)
PANELS(PANEL, GROUP)
PANELS(PANEL, SHORT)

/* By kind, by vectors (1, 2, 4), by rows. */
static void (*const panels[PANEL_NR_KINDS][NV / 2 + 1][MR])
	(const struct panel *) = {
	[PANEL_F32] = { PANELS(PANEL_ENTRY, F32) },
	[PANEL_F16] = { PANELS(PANEL_ENTRY, F16) },
	[PANEL_BF16] = { PANELS(PANEL_ENTRY, BF16) },
	[PANEL_EXPANDED] = { PANELS(PANEL_ENTRY, EXPANDED) },
	[PANEL_S8X4] = { PANELS(PANEL_ENTRY, S8X4) },
	[PANEL_S8] = { PANELS(PANEL_ENTRY, S8) },
	[PANEL_F8] = { PANELS(PANEL_ENTRY, F8) },
	[PANEL_F8NAN] = { PANELS(PANEL_ENTRY, F8NAN) },
	[PANEL_U4] = { PANELS(PANEL_ENTRY, U4) },
	[PANEL_GROUP] = { PANELS(PANEL_ENTRY, GROUP) },
	[PANEL_SHORT] = { PANELS(PANEL_ENTRY, SHORT) },
};

/* Bytes from one column to the @n-th after it. */
static size_t panel_step(enum panel_kind kind, size_t n)
{
	switch (kind) {
	case PANEL_BF16:
	case PANEL_S8X4:
		return 4 * n;
	case PANEL_U4:
		return n;
	default:
		return panel_bytes(kind, n);
	}
}

/*
 * All columns of @m for @mr rows: vectors by four, two and one; a last one
 * that is not full loads @edge columns. Of groups, a has a row each.
 */
static void panel_columns(enum panel_kind kind, int mr, size_t columns,
			  const struct panel *arg)
{
	int in_group = kind == PANEL_GROUP || kind == PANEL_SHORT;
	struct panel p = *arg;
	size_t col = 0, g;
	int nv;

	while (col < columns) {
		size_t full = (columns - col) / VW;

		for (nv = NV; nv > 1 && nv > full; nv /= 2)
			;
		p.edge = full ? VW : columns - col;
		panels[kind][nv / 2][mr - 1](&p);
		col += nv * VW;
		if (in_group) {
			g = col / KVA_GROUP;
			p.in = col % KVA_GROUP;
			p.a = arg->a + g * KVA_S_STRIDE;
			p.m = (const char *)arg->m + g * KVA_GROUP / 2;
		} else {
			p.m = (const char *)p.m + panel_step(kind, nv * VW);
			if (kind == PANEL_U4)
				p.groups += nv * VW;
		}
		p.c += nv * VW;
		p.next += panel_bytes(kind, nv * VW * p.rows);
	}
}

#endif /* KVA_PANEL_H */
