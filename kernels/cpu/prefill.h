/* SPDX-License-Identifier: MIT */
/*
 * prefill.h - many rows a sequence, causal. An item is a run of query
 * tokens of one KV head with all its q heads; each KV tile is expanded to f32
 * once and multiplied with all rows of the item.
 */
#ifndef KVA_PREFILL_H
#define KVA_PREFILL_H

#include "tile.h"

/* Tokens of [pos, pos + KVA_TILE) that row @r of an item may see. */
static uint32_t row_sees(const struct job *j, uint64_t first_sees, uint32_t r,
			 uint64_t pos)
{
	uint64_t sees = first_sees + r / j->group;

	/* first_sees is negative for rows before the first token */
	if ((int64_t)sees <= (int64_t)pos)
		return 0;
	return sees - pos < KVA_TILE ? sees - pos : KVA_TILE;
}

/* Scores of all rows, to a whole register tile, for an expanded tile. */
static void prefill_scores(const struct job *j, struct kva_scratch *x,
			   uint32_t rows)
{
	uint32_t k_dim = j->a->kv->k_dim, col, r;

	for (col = 0; col < KVA_TILE; col += NV * VW) {
		for (r = 0; r < rows; r += MR) {
			struct panel p = {
				.a = x->q + (size_t)r * k_dim, .as = k_dim,
				.m = x->k + col, .ms = KVA_K_STRIDE,
				.rows = k_dim,
				.c = x->s + (size_t)r * KVA_TILE + col,
				.cs = KVA_TILE, .next = (char *)x->k,
			};

			panels[PANEL_EXPANDED][NV / 2][MR - 1](&p);
		}
	}
}

/*
 * Values of an expanded tile. Rows of a register tile see different numbers
 * of tokens on the diagonal: first what all see, then each the rest.
 */
static void prefill_values(const struct job *j, struct kva_scratch *x,
			   uint32_t rows, uint64_t first_sees, uint64_t pos)
{
	uint32_t v_dim = j->a->kv->v_dim, col, r, i, all, n;
	size_t vs = KVA_V_STRIDE(v_dim);
	int nv;

	for (col = 0; col < v_dim; col += nv * VW) {
		for (nv = NV; nv * VW > v_dim - col; nv /= 2)
			;
		for (r = 0; r < rows; r += MR) {
			struct panel p = {
				.a = x->s + (size_t)r * KVA_TILE,
				.as = KVA_TILE,
				.m = x->v + col, .ms = vs,
				.c = x->o + (size_t)r * v_dim + col,
				.cs = v_dim, .add = 1, .edge = VW,
				.next = (char *)x->v,
			};

			all = row_sees(j, first_sees, r, pos);
			p.rows = all;
			panels[PANEL_EXPANDED][nv / 2][MR - 1](&p);
			for (i = 0; i < MR && r + i < rows; i++) {
				n = row_sees(j, first_sees, r + i, pos);
				p.a = x->s + (size_t)(r + i) * KVA_TILE + all;
				p.m = x->v + all * vs + col;
				p.c = x->o + (size_t)(r + i) * v_dim + col;
				p.rows = n - all;
				if (p.rows)
					panels[PANEL_EXPANDED][nv / 2][0](&p);
			}
		}
	}
}

static void prefill_item(void *arg, size_t item, unsigned int thread)
{
	const struct job *j = arg;
	const struct kva_attn *a = j->a;
	const struct kva_view *v = a->kv;
	const struct kva_tile *t = &j->tiles[item / v->kv_heads];
	uint32_t head = item % v->kv_heads, end = a->row_ptr[t->seq + 1];
	uint32_t tokens = end - t->row, rows, padded, r, n;
	uint64_t len = kva_seq_len(v, t->seq), pos, first_sees, last_sees;
	struct kva_scratch x;

	if (tokens > kva_tile_tokens(a))
		tokens = kva_tile_tokens(a);
	rows = tokens * j->group;
	padded = (rows + MR - 1) / MR * MR;
	first_sees = len - (end - t->row) + 1;
	last_sees = first_sees + tokens - 1;
	if ((int64_t)last_sees < 0)
		last_sees = 0;

	kva_scratch_init(&x, &j->w, a, thread);
	load_q(j, &x, t->row, head, tokens);
	memset(x.q + (size_t)rows * v->k_dim, 0,
	       sizeof(float) * (padded - rows) * v->k_dim);
	reset_rows(j, &x, padded);
	for (pos = 0; pos < last_sees; pos += KVA_TILE) {
		n = last_sees - pos < KVA_TILE ? last_sees - pos : KVA_TILE;
		expand(j, &x, t->seq, head, pos, n);
		prefill_scores(j, &x, rows);
		for (r = 0; r < rows; r++) {
			n = row_sees(j, first_sees, r, pos);
			if (n)
				softmax_row(x.s + (size_t)r * KVA_TILE, n,
					    &x.m[r], &x.l[r],
					    x.o + (size_t)r * v->v_dim,
					    v->v_dim);
		}
		prefill_values(j, &x, rows, first_sees, pos);
	}
	for (r = 0; r < rows; r++)
		finish_head(a, t->row + r / j->group,
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
			uint64_t len = kva_seq_len(v, s);

			last = last < step ? 0 : last - step;
			j.tiles[n++] = (struct kva_tile) {
				.seq = s, .row = row,
				.sees = len > last ? len - last : 0,
			};
		}
	}
	sort_tiles(j.tiles, n);
	kva_threads_run(t, n * v->kv_heads, prefill_item, &j);
	return 0;
}

#endif /* KVA_PREFILL_H */
