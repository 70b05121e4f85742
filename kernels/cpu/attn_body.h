/* SPDX-License-Identifier: MIT */
/*
 * attn_body.h - prefill and decode, for the vectors of the vec_*.h included
 * before. Online softmax in base 2 (arXiv:2205.14135), in f32: a row keeps
 * its greatest score m, the sum l of its exponentials, and the sum o of the
 * values; o and l are rescaled only when m grows.
 *
 * A row meets the KV tokens in tiles whose borders depend on the sequence
 * alone (and in decode on the page size and the split), never on the other
 * rows, so its result is the same bits in any batch and any chunk of prompt.
 */
#ifndef KVA_ATTN_BODY_H
#define KVA_ATTN_BODY_H

#include <math.h>

#include "../work.h"
#include "panel.h"

#define LOG2E 1.4426950408889634074
#define LN2 0.69314718055994530942

/* What all items of a call share. */
struct job {
	const struct kva_attn *a;
	struct kva_work w;
	uint32_t group;		/* q heads of a KV head */
	int direct;		/* slabs can be read by whole vectors */
	/* decode */
	size_t *first;		/* [nseq + 1] first piece of a sequence */
	float *part_lse;	/* [pieces][q_heads] */
	float *part_o;		/* [pieces][q_heads][v_dim] */
	/* prefill */
	struct kva_tile *tiles;
};

static void job_init(struct job *j, const struct kva_attn *a)
{
	const struct kva_view *v = a->kv;

	memset(j, 0, sizeof(*j));
	j->a = a;
	kva_work_init(&j->w, a);
	j->group = a->q_heads / v->kv_heads;
	j->direct = v->order == KVA_CPU && v->page_tokens % 8 == 0;
	j->first = a->ws;
	j->part_lse = (float *)((char *)a->ws + j->w.first_size);
	j->part_o = (float *)((char *)j->part_lse + j->w.lse_size);
	j->tiles = a->ws;
}

/*
 * 2^x for x <= 0, relative error under 2^-23; 0 below -127. The polynomial
 * is minimax in relative error on [-0.5, 0.5], 2.6e-9.
 */
static inline vf v_exp2(vf x)
{
	vf n, f, p;

	x = v_max(v_set1(-127), x);	/* in this order, NaN stays NaN */
	n = v_round(x);
	f = v_sub(x, n);
	p = v_set1(0x1.470b4ap-13f);
	p = v_fma(p, f, v_set1(0x1.5f7276p-10f));
	p = v_fma(p, f, v_set1(0x1.3b270ep-7f));
	p = v_fma(p, f, v_set1(0x1.c6ae72p-5f));
	p = v_fma(p, f, v_set1(0x1.ebfbe2p-3f));
	p = v_fma(p, f, v_set1(0x1.62e432p-1f));
	p = v_fma(p, f, v_set1(1));
	return v_scale2(p, n);
}

static inline float exp2_one(float x)
{
	float out[VW];

	v_store(out, v_exp2(v_set1(x)));
	return out[0];
}

static void scale_row(float *o, size_t dim, float by)
{
	size_t d;

	for (d = 0; d < dim; d += VW)
		v_store(o + d, v_mul(v_load(o + d), v_set1(by)));
}

/*
 * The first @n of a row's KVA_TILE scores become probabilities relative to
 * the greatest score so far; the row's state follows.
 */
static void softmax_row(float *s, unsigned int n, float *m, float *l,
			float *o, size_t dim)
{
	vf max = v_set1(-INFINITY), sum = v_set1(0), none = v_set1(-INFINITY);
	unsigned int i;
	float top, by;

	for (i = 0; i + VW <= n; i += VW)
		max = v_max(v_load(s + i), max);
	if (i < n)
		max = v_max(v_first(v_load(s + i), n - i, none), max);
	top = v_hmax(max);
	if (top > *m) {
		by = exp2_one(*m - top);
		*m = top;
		*l *= by;
		scale_row(o, dim, by);
	}
	/* all scores so far are -inf: subtract 0, not -inf, from them */
	top = *m > -INFINITY ? *m : 0;
	for (i = 0; i + VW <= n; i += VW) {
		max = v_exp2(v_sub(v_load(s + i), v_set1(top)));
		v_store(s + i, max);
		sum = v_add(sum, max);
	}
	if (i < n) {
		max = v_exp2(v_sub(v_first(v_load(s + i), n - i, none),
				   v_set1(top)));
		max = v_first(max, n - i, v_set1(0));
		v_store(s + i, max);
		sum = v_add(sum, max);
	}
	*l += v_hsum(sum);
}

/* Write a finished row. @lse may be NULL. */
static void finish_row(const float *o, size_t dim, float m, float l,
		       float *out, float *lse)
{
	float by = l == 0 ? 0 : 1 / l;
	size_t d;

	for (d = 0; d < dim; d += VW)
		v_store(out + d, v_mul(v_load(o + d), v_set1(by)));
	if (lse)
		*lse = l == 0 ? -INFINITY : (m + log2f(l)) * (float)LN2;
}

/* @rows rows of q into scratch, scaled for the base-2 softmax. */
static void load_q(const struct job *j, struct kva_scratch *x, uint32_t row,
		   uint32_t head, uint32_t tokens)
{
	const struct kva_attn *a = j->a;
	size_t n = (size_t)j->group * a->kv->k_dim, i;
	float by = a->scale * LOG2E;
	float *to = x->q;
	uint32_t t;

	for (t = 0; t < tokens; t++, to += n) {
		const float *q = a->q + (row + t) * a->q_stride + head * n;

		for (i = 0; i < n; i += VW)
			v_store(to + i, v_mul(v_load(q + i), v_set1(by)));
	}
}

static void reset_rows(const struct job *j, struct kva_scratch *x,
		       uint32_t rows)
{
	uint32_t r;

	memset(x->o, 0, sizeof(float) * rows * j->a->kv->v_dim);
	for (r = 0; r < rows; r++) {
		x->m[r] = -INFINITY;
		x->l[r] = 0;
	}
}

/* Tokens [slot, slot + n) of a K slab to columns [at, ...) of scratch. */
static void expand_k(const struct job *j, const struct kva_scratch *x,
		     const void *slab, uint32_t slot, uint32_t at, uint32_t n)
{
	const struct kva_view *v = j->a->kv;
	enum panel_kind kind = (enum panel_kind)v->k_type;
	unsigned int c, edge;
	size_t d;

	for (d = 0; d < v->k_dim; d++) {
		float *to = x->k + d * KVA_K_STRIDE + at;

		for (c = 0; c < n; c += VW) {
			edge = (n - c + 7) / 8 * 8;
			v_store(to + c, panel_load(kind, slab, v->page_tokens,
						   d, d % 2, slot + c, edge));
		}
	}
}

/* The same for V, to rows of scratch. @slot is even. */
static void expand_v(const struct job *j, const struct kva_scratch *x,
		     const void *slab, uint32_t slot, uint32_t at, uint32_t n)
{
	const struct kva_view *v = j->a->kv;
	enum panel_kind kind = (enum panel_kind)v->v_type;
	uint32_t t;
	size_t d;

	for (t = 0; t < n; t++) {
		float *to = x->v + (at + t) * KVA_V_STRIDE(v->v_dim);

		for (d = 0; d < v->v_dim; d += VW)
			v_store(to + d, panel_load(kind, slab, v->v_dim,
						   slot + t, (slot + t) % 2, d,
						   VW));
	}
}

/* Any order and any page size, element by element. */
static void expand_slow(const struct job *j, const struct kva_scratch *x,
			const void *page, uint32_t head, uint32_t slot,
			uint32_t at, uint32_t n)
{
	const struct kva_view *v = j->a->kv;
	uint32_t t, d;

	for (t = 0; t < n; t++) {
		kva_rows_read(v, page, 0, head, slot + t, 1, x->row);
		for (d = 0; d < v->k_dim; d++)
			x->k[d * KVA_K_STRIDE + at + t] =
				kva_get(v->k_type, x->row, d);
		kva_rows_read(v, page, 1, head, slot + t, 1, x->row);
		for (d = 0; d < v->v_dim; d++)
			x->v[(at + t) * KVA_V_STRIDE(v->v_dim) + d] =
				kva_get(v->v_type, x->row, d);
	}
}

/* Tokens [pos, pos + n) of a sequence into scratch, n at most KVA_TILE. */
static void expand(const struct job *j, const struct kva_scratch *x,
		   uint32_t s, uint32_t head, uint64_t pos, uint32_t n)
{
	const struct kva_view *v = j->a->kv;
	uint32_t at, run;

	for (at = 0; at < n; at += run) {
		uint32_t slot = (pos + at) % v->page_tokens;
		const char *page = kva_page(v, s, pos + at);

		run = v->page_tokens - slot < n - at ?
		      v->page_tokens - slot : n - at;
		if (!j->direct) {
			expand_slow(j, x, page, head, slot, at, run);
			continue;
		}
		expand_k(j, x, kva_slab(v, page, 0, head), slot, at, run);
		expand_v(j, x, kva_slab(v, page, 1, head), slot, at, run);
	}
}

/* ---- decode ---- */

/* Where a chunk of tokens is, as two matrices. */
struct chunk {
	enum panel_kind k_kind;
	enum panel_kind v_kind;
	const void *k;		/* [k_dim][ks] */
	const void *v;		/* [n][vs] */
	size_t ks;
	size_t vs;
	uint32_t n;
};

static const void *row_at(enum panel_kind kind, const void *m, size_t i)
{
	return (const char *)m + i * panel_elem_size(kind);
}

/* The chunk at @pos: what of [pos, end) is in one page and one tile. */
static void find_chunk(const struct job *j, const struct kva_scratch *x,
		       uint32_t s, uint32_t head, uint64_t pos, uint64_t end,
		       struct chunk *c)
{
	const struct kva_view *v = j->a->kv;
	uint32_t slot = pos % v->page_tokens;
	const char *page;

	c->n = end - pos < KVA_TILE ? end - pos : KVA_TILE;
	if (!j->direct) {
		c->k_kind = PANEL_EXPANDED;
		c->v_kind = PANEL_EXPANDED;
		c->k = x->k;
		c->v = x->v;
		c->ks = KVA_K_STRIDE;
		c->vs = KVA_V_STRIDE(v->v_dim);
		return;
	}
	if (c->n > v->page_tokens - slot)
		c->n = v->page_tokens - slot;
	page = kva_page(v, s, pos);
	c->k_kind = (enum panel_kind)v->k_type;
	c->v_kind = (enum panel_kind)v->v_type;
	/* columns of pairs are two elements wide, and so are pairs of rows */
	c->k = row_at(c->k_kind, kva_slab(v, page, 0, head),
		      (size_t)slot * (c->k_kind == PANEL_BF16 ? 2 : 1));
	c->v = row_at(c->v_kind, kva_slab(v, page, 1, head),
		      (size_t)slot * v->v_dim);
	c->ks = v->page_tokens;
	c->vs = v->v_dim;
}

/* All q heads of the group over one chunk; @next is read after it. */
static void decode_chunk(const struct job *j, struct kva_scratch *x,
			 const struct chunk *c, const void *next)
{
	uint32_t k_dim = j->a->kv->k_dim, v_dim = j->a->kv->v_dim;
	uint32_t parts = (j->group + MR - 1) / MR;
	uint32_t step = (j->group + parts - 1) / parts, r, mr;
	struct panel p;

	for (r = 0; r < j->group; r += step) {
		mr = j->group - r < step ? j->group - r : step;
		p = (struct panel) {
			.a = x->q + (size_t)r * k_dim, .as = k_dim,
			.m = c->k, .ms = c->ks, .rows = k_dim,
			.c = x->s + (size_t)r * KVA_TILE, .cs = KVA_TILE,
			.next = c->v,
		};
		panel_columns(c->k_kind, mr, (c->n + 7) / 8 * 8, &p);
	}
	for (r = 0; r < j->group; r++)
		softmax_row(x->s + (size_t)r * KVA_TILE, c->n, &x->m[r],
			    &x->l[r], x->o + (size_t)r * v_dim, v_dim);
	for (r = 0; r < j->group; r += step) {
		mr = j->group - r < step ? j->group - r : step;
		p = (struct panel) {
			.a = x->s + (size_t)r * KVA_TILE, .as = KVA_TILE,
			.m = c->v, .ms = c->vs, .rows = c->n,
			.c = x->o + (size_t)r * v_dim, .cs = v_dim,
			.add = 1, .next = next,
		};
		panel_columns(c->v_kind, mr, v_dim, &p);
	}
}

static void decode_piece(const struct job *j, struct kva_scratch *x,
			 uint32_t s, uint32_t head, uint64_t pos, uint64_t end)
{
	struct chunk c, next;

	if (pos == end)
		return;
	find_chunk(j, x, s, head, pos, end, &c);
	for (; pos < end; c = next) {
		if (!j->direct)
			expand(j, x, s, head, pos, c.n);
		pos += c.n;
		next = c;
		if (pos < end)
			find_chunk(j, x, s, head, pos, end, &next);
		decode_chunk(j, x, &c, next.k);
	}
}

/* The sequence of a piece. */
static uint32_t find_piece(const struct job *j, size_t piece)
{
	uint32_t lo = 0, hi = j->a->kv->nseq;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (j->first[mid] <= piece)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static void decode_item(void *arg, size_t item, unsigned int thread)
{
	const struct job *j = arg;
	const struct kva_attn *a = j->a;
	const struct kva_view *v = a->kv;
	uint32_t head = item % v->kv_heads, qh = head * j->group, r, s;
	size_t piece = item / v->kv_heads;
	uint64_t len, pos, end;
	struct kva_scratch x;

	s = find_piece(j, piece);
	len = kva_seq_len(v, s);
	pos = (piece - j->first[s]) * kva_split(a);
	end = len - pos < kva_split(a) ? len : pos + kva_split(a);
	kva_scratch_init(&x, &j->w, a, thread);
	load_q(j, &x, a->row_ptr[s], head, 1);
	reset_rows(j, &x, j->group);
	decode_piece(j, &x, s, head, pos, end);
	for (r = 0; r < j->group; r++) {
		size_t to = piece * a->q_heads + qh + r;
		size_t row = a->row_ptr[s];
		float *out = j->part_o + to * v->v_dim;
		float *lse = j->part_lse + to;

		if (j->first[s + 1] - j->first[s] == 1) {
			out = a->o + row * a->o_stride +
			      (size_t)(qh + r) * v->v_dim;
			lse = a->lse ? a->lse + row * a->q_heads + qh + r :
				       NULL;
		}
		finish_row(x.o + (size_t)r * v->v_dim, v->v_dim, x.m[r],
			   x.l[r], out, lse);
	}
}

/*
 * Join @n partial results, @stride rows apart; the weights are relative to
 * the greatest lse.
 */
static void merge_row(size_t n, size_t stride, size_t dim, const float *o,
		      const float *lse, float *out, float *out_lse)
{
	float max = -INFINITY, sum = 0, by;
	size_t i, d;

	for (i = 0; i < n; i++)
		max = lse[i * stride] > max ? lse[i * stride] : max;
	for (d = 0; d < dim; d++)
		out[d] = 0;
	for (i = 0; i < n; i++) {
		if (lse[i * stride] == -INFINITY)
			continue;
		by = expf(lse[i * stride] - max);
		sum += by;
		for (d = 0; d < dim; d++)
			out[d] += by * o[i * stride * dim + d];
	}
	for (d = 0; d < dim && sum != 0; d++)
		out[d] /= sum;
	if (out_lse)
		*out_lse = sum == 0 ? -INFINITY : max + logf(sum);
}

/* Join the pieces of one q head of one sequence. */
static void join_item(void *arg, size_t item, unsigned int thread)
{
	const struct job *j = arg;
	const struct kva_attn *a = j->a;
	uint32_t s = item / a->q_heads, qh = item % a->q_heads;
	size_t n = j->first[s + 1] - j->first[s], row = a->row_ptr[s];
	size_t from = j->first[s] * a->q_heads + qh;
	size_t dim = a->kv->v_dim;

	if (n > 1)
		merge_row(n, a->q_heads, dim, j->part_o + from * dim,
			  j->part_lse + from,
			  a->o + row * a->o_stride + qh * dim,
			  a->lse ? a->lse + row * a->q_heads + qh : NULL);
}

static int decode(const struct kva_attn *a, struct kva_threads *t)
{
	uint32_t nseq = a->kv->nseq, s;
	size_t longest = 0;
	struct job j;
	int rc;

	rc = kva_check_attn(a, 1);
	if (rc || !nseq || a->row_ptr[0] == a->row_ptr[nseq])
		return rc;
	job_init(&j, a);
	j.first[0] = 0;
	for (s = 0; s < nseq; s++) {
		size_t n = kva_pieces(a, s);

		j.first[s + 1] = j.first[s] + n;
		longest = n > longest ? n : longest;
	}
	kva_threads_run(t, j.w.pieces * a->kv->kv_heads, decode_item, &j);
	if (longest > 1)
		kva_threads_run(t, (size_t)nseq * a->q_heads, join_item, &j);
	return 0;
}

/* ---- prefill ---- */

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
	for (r = 0; r < rows; r++) {
		size_t row = t->row + r / j->group;
		uint32_t qh = head * j->group + r % j->group;

		finish_row(x.o + (size_t)r * v->v_dim, v->v_dim, x.m[r],
			   x.l[r],
			   a->o + row * a->o_stride + (size_t)qh * v->v_dim,
			   a->lse ? a->lse + row * a->q_heads + qh : NULL);
	}
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

static int merge(const struct kva_merge *m)
{
	size_t r;
	int rc;

	rc = kva_check_merge(m);
	for (r = 0; !rc && r < m->rows; r++)
		merge_row(m->n, m->rows, m->dim, m->o + r * m->dim, m->lse + r,
			  m->out + r * m->dim, m->out_lse ? m->out_lse + r :
							    NULL);
	return rc;
}

#endif /* KVA_ATTN_BODY_H */
