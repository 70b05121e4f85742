/* SPDX-License-Identifier: MIT */
/*
 * panel.h - the one inner loop of attention: c (+)= a * m, for a few rows of
 * a and a few vectors of columns of m. Scores are q times K, whose rows are
 * dims and whose columns are tokens; outputs are probabilities times V, whose
 * rows are tokens. In the order KVA_CPU both have the same form.
 *
 * Each element of c is one chain of fused multiply-adds over the rows of m,
 * in ascending order, whatever the shape of the tile: results do not depend
 * on how the work is divided.
 *
 * To be included after a vec_*.h.
 */
#ifndef KVA_PANEL_H
#define KVA_PANEL_H

/* What @m is made of. */
enum panel_kind {
	PANEL_F32 = KVA_F32,
	PANEL_F16 = KVA_F16,
	PANEL_BF16 = KVA_BF16,	/* two rows interleaved */
	PANEL_EXPANDED,		/* f32 in scratch: nothing to prefetch */
	PANEL_NR_KINDS
};

struct panel {
	const float *a;		/* [mr][rows] */
	size_t as;
	const void *m;		/* [rows][columns] */
	size_t ms;		/* elements of a row */
	size_t rows;
	int skip;		/* 1 to leave out the first row */
	float *c;		/* [mr][columns] */
	size_t cs;
	int add;		/* to what c holds */
	unsigned int edge;	/* columns that a single vector may load */
	const char *next;	/* what is read soon, prefetched line by line */
};

static KVA_ALWAYS_INLINE size_t panel_elem_size(enum panel_kind kind)
{
	return kind == PANEL_F16 || kind == PANEL_BF16 ? 2 : 4;
}

/* Vector @j of row @i; @odd is i % 2. */
static KVA_ALWAYS_INLINE vf panel_load(enum panel_kind kind, const void *m,
				       size_t ms, size_t i, int odd, size_t col,
				       unsigned int n)
{
	switch (kind) {
	case PANEL_F16:
		return v_load_f16((const uint16_t *)m + i * ms + col, n);
	case PANEL_BF16:
		return v_load_bf16((const uint16_t *)m + (i - odd) * ms +
				   2 * col, n, odd);
	default:
		return v_load_f32((const float *)m + i * ms + col, n);
	}
}

static KVA_ALWAYS_INLINE void panel_row(enum panel_kind kind, int mr, int nv,
					const struct panel *p,
					vf acc[MR][NV], size_t i, int odd)
{
	unsigned int n = nv == 1 ? p->edge : VW;
	vf b[NV], a;
	int r, j;

#pragma GCC unroll 4
	for (j = 0; j < nv; j++)
		b[j] = panel_load(kind, p->m, p->ms, i, odd, j * VW, n);
#pragma GCC unroll 6
	for (r = 0; r < mr; r++) {
		a = v_set1(p->a[r * p->as + i]);
#pragma GCC unroll 4
		for (j = 0; j < nv; j++)
			acc[r][j] = v_fma(a, b[j], acc[r][j]);
	}
}

static KVA_ALWAYS_INLINE void panel_body(enum panel_kind kind, int mr, int nv,
					 const struct panel *arg)
{
	const struct panel copy = *arg, *p = &copy;
	size_t lines = kind == PANEL_EXPANDED ? 0 :
		       2 * nv * VW * panel_elem_size(kind) / 64;
	const char *next = p->next;
	vf acc[MR][NV];
	size_t i, x;
	int r, j;

#pragma GCC unroll 6
	for (r = 0; r < mr; r++)
#pragma GCC unroll 4
		for (j = 0; j < nv; j++)
			acc[r][j] = p->add ? v_load(p->c + r * p->cs + j * VW) :
					     v_set1(0);
	i = 2 * p->skip;
	if (i)
		panel_row(kind, mr, nv, p, acc, 1, 1);
	for (; i + 1 < p->rows; i += 2) {
		panel_row(kind, mr, nv, p, acc, i, 0);
		panel_row(kind, mr, nv, p, acc, i + 1, 1);
		for (x = 0; x < lines; x++)
			__builtin_prefetch(next + x * 64);
		next += lines * 64;
	}
	if (i < p->rows)
		panel_row(kind, mr, nv, p, acc, i, 0);
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

/* By kind, by vectors (1, 2, 4), by rows. */
static void (*const panels[PANEL_NR_KINDS][NV / 2 + 1][MR])
	(const struct panel *) = {
	[PANEL_F32] = { PANELS(PANEL_ENTRY, F32) },
	[PANEL_F16] = { PANELS(PANEL_ENTRY, F16) },
	[PANEL_BF16] = { PANELS(PANEL_ENTRY, BF16) },
	[PANEL_EXPANDED] = { PANELS(PANEL_ENTRY, EXPANDED) },
};

/*
 * All columns of @m for @mr rows: vectors by four, two and one; a last one
 * that is not full loads @edge columns.
 */
static void panel_columns(enum panel_kind kind, int mr, size_t columns,
			  const struct panel *arg)
{
	size_t esz = panel_elem_size(kind);
	size_t col = 0, per = kind == PANEL_BF16 ? 2 : 1;
	struct panel p = *arg;
	int nv;

	while (col < columns) {
		size_t full = (columns - col) / VW;

		for (nv = NV; nv > 1 && nv > full; nv /= 2)
			;
		p.edge = full ? VW : columns - col;
		panels[kind][nv / 2][mr - 1](&p);
		col += nv * VW;
		p.m = (const char *)p.m + nv * VW * esz * per;
		p.c += nv * VW;
		p.next += nv * VW * esz * p.rows;
	}
}

#endif /* KVA_PANEL_H */
