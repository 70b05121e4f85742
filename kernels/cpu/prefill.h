/* SPDX-License-Identifier: MIT */
/*
 * prefill.h - many rows a sequence, causal. An item is a run of query
 * tokens of one KV head with all its q heads; each KV tile is expanded to f32
 * once and multiplied with all rows of the item.
 */
#ifndef KVA_PREFILL_H
#define KVA_PREFILL_H

#include "expand.h"

/* An item, in one of two passes: over the sinks, or over the window. */
struct pass {
	const struct job *j;
	uint32_t rows;
	int64_t first_sees;	/* negative before the first token */
	int sinks;
};

/* The tokens that row @r sees in this pass. */
static void row_span(const struct pass *p, uint32_t r, uint64_t *from,
		     uint64_t *to)
{
	int64_t sees = p->first_sees + r / p->j->group;
	uint64_t low;

	if (sees < 0)
		sees = 0;
	low = kva_low(p->j->a, sees);
	*from = p->sinks ? 0 : low;
	*to = p->sinks ? kva_sinks(p->j->a, low) : (uint64_t)sees;
}

static uint32_t in_tile(uint64_t x, uint64_t pos)
{
	if (x <= pos)
		return 0;
	return x - pos < KVA_TILE ? x - pos : KVA_TILE;
}

/* Which of them are in the tile at @pos: [*lo, result). */
static uint32_t row_sees(const struct pass *p, uint32_t r, uint64_t pos,
			 uint32_t *lo)
{
	uint64_t from, to;

	row_span(p, r, &from, &to);
	*lo = in_tile(from, pos);
	return in_tile(to, pos);
}

/* Scores of all rows, to a whole register tile, for an expanded tile. */
static void prefill_scores(const struct job *j, const struct kva_scratch *x,
			   uint32_t rows)
{
	uint32_t k_dim = j->a->kv->k_dim, col, r;

	for (col = 0; col < KVA_TILE; col += NV * VW) {
		for (r = 0; r < rows; r += MR) {
			struct panel p = {
				.a = x->q + (size_t)r * k_dim, .as = k_dim,
				.m = x->k + col, .ms = KVA_K_STRIDE,
				.rows = k_dim,
				.c = x->s + (size_t)r * KVA_S_STRIDE + col,
				.cs = KVA_S_STRIDE, .next = (char *)x->k,
			};

			panels[PANEL_EXPANDED][NV / 2][MR - 1](&p);
		}
	}
}

/* Tokens [lo, hi) of the tile for one row of outputs. */
static void one_row(const struct panel *tile, int nv, uint32_t i, uint32_t lo,
		    uint32_t hi)
{
	struct panel p = *tile;

	if (lo >= hi)
		return;
	p.a += i * p.as + lo;
	p.m = (const float *)p.m + lo * p.ms;
	p.c += i * p.cs;
	p.rows = hi - lo;
	panels[PANEL_EXPANDED][nv / 2][0](&p);
}

/*
 * A register tile of values. Its rows see different tokens at either end of
 * a window: first each its own, then what all see, then each the rest.
 */
static void value_tile(const struct pass *pass, const struct panel *tile,
		       int nv, uint32_t r, uint64_t pos)
{
	uint32_t n = pass->rows - r < MR ? pass->rows - r : MR, i, from, to, lo;
	struct panel p = *tile;

	to = row_sees(pass, r, pos, &lo);
	row_sees(pass, r + n - 1, pos, &from);
	if (from >= to)		/* nothing that all see */
		from = to = KVA_TILE;
	for (i = 0; i < n; i++) {
		uint32_t hi = row_sees(pass, r + i, pos, &lo);

		one_row(tile, nv, i, lo, hi < from ? hi : from);
	}
	if (from < to) {
		p.a += from;
		p.m = (const float *)p.m + from * p.ms;
		p.rows = to - from;
		panels[PANEL_EXPANDED][nv / 2][MR - 1](&p);
	}
	for (i = 0; i < n; i++) {
		uint32_t hi = row_sees(pass, r + i, pos, &lo);

		one_row(tile, nv, i, lo > to ? lo : to, hi);
	}
}

/* Values of an expanded tile. */
static void prefill_values(const struct pass *pass,
			   const struct kva_scratch *x, uint64_t pos)
{
	uint32_t v_dim = pass->j->a->kv->v_dim, col, r;
	int nv;

	for (col = 0; col < v_dim; col += nv * VW) {
		for (nv = NV; nv * VW > v_dim - col; nv /= 2)
			;
		for (r = 0; r < pass->rows; r += MR) {
			struct panel p = {
				.a = x->s + (size_t)r * KVA_S_STRIDE,
				.as = KVA_S_STRIDE, .m = x->v + col,
				.ms = KVA_V_STRIDE(v_dim),
				.c = x->o + (size_t)r * v_dim + col,
				.cs = v_dim, .add = 1, .edge = VW,
				.next = (char *)x->v,
			};

			value_tile(pass, &p, nv, r, pos);
		}
	}
}

/* Everything that the rows of an item see in one pass, tile by tile. */
static void prefill_pass(const struct pass *p, struct kva_scratch *x,
			 uint32_t s, uint32_t head)
{
	const struct job *j = p->j;
	uint64_t from, to, unused, pos;
	uint32_t lo, hi, r;

	row_span(p, 0, &from, &unused);
	row_span(p, p->rows - 1, &unused, &to);
	for (pos = from / KVA_TILE * KVA_TILE; pos < to; pos += KVA_TILE) {
		lo = in_tile(from, pos);
		/* vectors are loaded at multiples of 8 slots only */
		expand(j, x, s, head, pos, j->direct ? lo & ~7u : lo,
		       in_tile(to, pos));
		prefill_scores(j, x, p->rows);
		for (r = 0; r < p->rows; r++) {
			hi = row_sees(p, r, pos, &lo);
			if (lo < hi)
				score_row(j, x, r, lo, hi);
		}
		prefill_values(p, x, pos);
	}
}

static void prefill_item(void *arg, size_t item, unsigned int thread)
{
	const struct job *j = arg;
	const struct kva_attn *a = j->a;
	const struct kva_view *v = a->kv;
	const struct kva_tile *t = &j->tiles[item / v->kv_heads];
	uint32_t head = item % v->kv_heads, end = a->row_ptr[t->seq + 1];
	uint32_t tokens = end - t->row, padded, r;
	struct pass p = { .j = j };
	struct kva_scratch x;

	if (tokens > kva_tile_tokens(a))
		tokens = kva_tile_tokens(a);
	p.rows = tokens * j->group;
	padded = (p.rows + MR - 1) / MR * MR;
	p.first_sees = kva_seq_len(v, t->seq) - (end - t->row) + 1;

	kva_scratch_init(&x, &j->w, a, thread);
	load_q(j, &x, t->row, head, tokens);
	memset(x.q + (size_t)p.rows * v->k_dim, 0,
	       sizeof(float) * (padded - p.rows) * v->k_dim);
	reset_rows(j, &x, padded);
	for (p.sinks = 1; p.sinks >= 0; p.sinks--)
		prefill_pass(&p, &x, t->seq, head);
	for (r = 0; r < p.rows; r++)
		finish_head(j, t->row + r / j->group,
			    head * j->group + r % j->group,
			    x.o + (size_t)r * v->v_dim, x.m[r], x.l[r]);
}

/* The longest first, so that the last to finish are short. */
static void sort_tiles(struct kva_tile *t, size_t n)
{
	size_t gap, i, k;

	for (gap = n / 2; gap; gap /= 2) {
		for (i = gap; i < n; i++) {
			struct kva_tile x = t[i];

			for (k = i; k >= gap && t[k - gap].sees < x.sees;
			     k -= gap)
				t[k] = t[k - gap];
			t[k] = x;
		}
	}
}

static int prefill(const struct kva_attn *a, struct kva_threads *t)
{
	const struct kva_view *v = a->kv;
	uint32_t step, s, row;
	struct job j;
	size_t n = 0;
	int rc;

	rc = kva_check_attn(a, 0);
	if (rc || !v->nseq || a->row_ptr[0] == a->row_ptr[v->nseq])
		return rc;
	job_init(&j, a);
	step = kva_tile_tokens(a);
	for (s = 0; s < v->nseq; s++) {
		for (row = a->row_ptr[s]; row < a->row_ptr[s + 1]; row += step) {
			uint32_t last = a->row_ptr[s + 1] - row;
			uint64_t len = kva_seq_len(v, s), sees;

			last = last < step ? 0 : last - step;
			sees = len > last ? len - last : 0;
			j.tiles[n++] = (struct kva_tile) {
				.seq = s, .row = row,
				.sees = sees - kva_low(a, sees),
			};
		}
	}
	sort_tiles(j.tiles, n);
	kva_threads_run(t, n * v->kv_heads, prefill_item, &j);
	return 0;
}

#endif /* KVA_PREFILL_H */
