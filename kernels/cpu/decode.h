/* SPDX-License-Identifier: MIT */
/*
 * decode.h - one row a sequence, split over the KV tokens. An item is one
 * piece of one KV head, all q heads of the group together, so that keys and
 * values are read once; the pieces of a head are joined in their order.
 */
#ifndef KVA_DECODE_H
#define KVA_DECODE_H

#include "packed.h"

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

/* What an item is: some tokens of one KV head. */
struct piece {
	uint32_t seq;
	uint32_t head;
	uint64_t pos;
	uint64_t end;
};

static void item_piece(const struct job *j, size_t item, struct piece *p)
{
	size_t piece = item / j->a->kv->kv_heads;

	p->seq = find_piece(j, piece);
	p->head = item % j->a->kv->kv_heads;
	kva_piece(j->a, p->seq, piece - j->first[p->seq], &p->pos, &p->end);
}

/*
 * The first chunk of a piece: what of it is in one page and one tile. Vectors
 * are loaded from a slab at multiples of 8 slots only.
 */
static void find_chunk(const struct job *j, const struct kva_scratch *x,
		       const struct piece *p, struct chunk *c)
{
	const struct kva_view *v = j->a->kv;
	uint64_t pos = p->pos;
	const char *page, *k, *val;
	uint32_t slot;

	c->lo = j->direct ? pos % 8 : 0;
	pos -= c->lo;
	slot = pos % v->page_tokens;
	c->n = p->end - pos < KVA_TILE ? p->end - pos : KVA_TILE;
	if (!j->direct) {
		c->k_kind = PANEL_EXPANDED;
		c->v_kind = PANEL_EXPANDED;
		c->k = (char *)x->k;
		c->v = (char *)x->v;
		c->ks = KVA_K_STRIDE;
		c->vs = KVA_V_STRIDE(v->v_dim);
		return;
	}
	if (c->n > v->page_tokens - slot)
		c->n = v->page_tokens - slot;
	page = kva_page(v, p->seq, pos);
	k = kva_slab(v, page, 0, p->head);
	val = kva_slab(v, page, 1, p->head);
	c->k_kind = kind_of(v->k_type, 0);
	c->v_kind = kind_of(v->v_type, 1);
	c->k = k + panel_step(c->k_kind, slot);
	c->v = val + panel_bytes(c->v_kind, (size_t)slot * v->v_dim);
	c->k_scales = scales_of(v, k, 0, slot);
	c->v_scales = scales_of(v, val, 1, slot);
	c->ks = v->page_tokens;
	c->vs = kva_cells(v->v_type, v->v_dim);
}

/* All q heads of the group over one chunk; @next is read after it. */
static void decode_chunk(const struct job *j, struct kva_scratch *x,
			 const struct chunk *c, const struct chunk *next)
{
	const struct kva_view *v = j->a->kv;
	uint32_t parts = (j->group + MR - 1) / MR;
	uint32_t step = (j->group + parts - 1) / parts, r;

	if (j->direct)
		fetch_scales(&c->v_scales, kva_scales(v->v_type, v->v_dim),
			     c->n);
	if (c->k_kind == PANEL_U4)
		expand_groups(&c->k_scales, c->n, x->k_groups);
	for (r = 0; r < j->group; r += step)
		chunk_scores(j, x, c, r, j->group - r < step ? j->group - r :
							       step);
	for (r = 0; r < j->group; r++) {
		float *s = x->s + (size_t)r * KVA_S_STRIDE;

		float was = x->m[r];

		if (c->k_kind == PANEL_S8X4 || c->k_kind == PANEL_F8)
			scale_row_by(s, c->n, c->k_scales.of);
		score_row(j, x, r, c->lo, c->n);
		if (c->v_kind == PANEL_GROUP && x->m[r] > was)
			scale_row(x->adds + r * adds_of(j), adds_of(j),
				  exp2_one(was - x->m[r]));
		if (c->v_kind == PANEL_S8 || c->v_kind == PANEL_F8)
			scale_row_by(s, c->n, c->v_scales.of);
	}
	if (j->direct)
		fetch_scales(&next->k_scales, kva_scales(v->k_type, v->k_dim),
			     next->n);
	if (c->v_kind == PANEL_GROUP) {
		expand_groups(&c->v_scales, c->n, x->v_groups);
		for (r = 0; r < 2 * c->v_scales.groups; r++)
			clear_unseen(c, x->v_groups + r * KVA_S_STRIDE);
	}
	for (r = 0; r < j->group; r += step)
		chunk_values(j, x, c, r, j->group - r < step ? j->group - r :
							       step, next->k);
}

/*
 * One piece, chunk by chunk. While it is at the last, the first chunk of the
 * item that this thread probably gets next is fetched.
 */
static void decode_piece(const struct job *j, struct kva_scratch *x,
			 size_t item)
{
	struct chunk c, next;
	struct piece p, after;

	item_piece(j, item, &p);
	if (p.pos == p.end)
		return;
	find_chunk(j, x, &p, &c);
	for (; p.pos < p.end; c = next) {
		if (!j->direct)
			expand(j, x, p.seq, p.head, p.pos, 0, c.n);
		p.pos += c.n - c.lo;
		after = p;
		if (p.pos == p.end && item + j->threads < j->items)
			item_piece(j, item + j->threads, &after);
		next = c;
		if (after.pos < after.end)
			find_chunk(j, x, &after, &next);
		decode_chunk(j, x, &c, &next);
	}
}

static void decode_item(void *arg, size_t item, unsigned int thread)
{
	const struct job *j = arg;
	const struct kva_attn *a = j->a;
	const struct kva_view *v = a->kv;
	uint32_t head = item % v->kv_heads, qh = head * j->group, r, s;
	size_t piece = item / v->kv_heads;
	struct kva_scratch x;
	int groups;

	s = find_piece(j, piece);
	kva_scratch_init(&x, &j->w, a, thread);
	load_q(j, &x, a->row_ptr[s], head, 1);
	if (j->direct && kva_is_int4(v->k_type))
		order_q(j, &x);
	reset_rows(j, &x, j->group);
	groups = j->direct && kva_is_int4(v->v_type);
	if (groups)
		memset(x.adds, 0, sizeof(float) * adds_of(j) * j->group);
	decode_piece(j, &x, item);
	for (r = 0; groups && r < j->group; r++)
		add_minimums(j, &x, r);
	for (r = 0; r < j->group; r++) {
		const float *o = x.o + (size_t)r * v->v_dim;
		size_t to = piece * a->q_heads + qh + r;

		if (j->first[s + 1] - j->first[s] == 1) {
			finish_head(j, a->row_ptr[s], qh + r, o, x.m[r],
				    x.l[r]);
			continue;
		}
		j->part_m[to] = x.m[r];
		j->part_l[to] = x.l[r];
		memcpy(j->part_o + to * v->v_dim, o, v->v_dim * sizeof(*o));
	}
}

/* Join the pieces of one q head of one sequence, first to last. */
static void join_item(void *arg, size_t item, unsigned int thread)
{
	const struct job *j = arg;
	const struct kva_attn *a = j->a;
	uint32_t s = item / a->q_heads, qh = item % a->q_heads;
	size_t dim = a->kv->v_dim, row = a->row_ptr[s], i, d, end;
	float *o = a->o + row * a->o_stride + qh * dim;
	float max = -INFINITY, sum = 0, by;

	if (j->first[s + 1] - j->first[s] < 2)
		return;
	i = j->first[s] * a->q_heads + qh;
	end = j->first[s + 1] * a->q_heads;
	for (; i < end; i += a->q_heads)
		max = j->part_m[i] > max ? j->part_m[i] : max;
	memset(o, 0, dim * sizeof(*o));
	for (i = j->first[s] * a->q_heads + qh; i < end; i += a->q_heads) {
		const float *part = j->part_o + i * dim;

		if (j->part_l[i] == 0)
			continue;
		by = exp2_one(j->part_m[i] - max);
		sum += by * j->part_l[i];
		for (d = 0; d < dim; d += VW)
			v_store(o + d, v_fma(v_set1(by), v_load(part + d),
					     v_load(o + d)));
	}
	finish_head(j, row, qh, o, max, sum);
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
	if (j.direct) {
		j.k_by = left_out(a->kv->k_type, a->kv->k_scale);
		j.v_by = left_out(a->kv->v_type, a->kv->v_scale);
	}
	j.first[0] = 0;
	for (s = 0; s < nseq; s++) {
		size_t n = kva_pieces(a, s);

		j.first[s + 1] = j.first[s] + n;
		longest = n > longest ? n : longest;
	}
	j.items = j.w.pieces * a->kv->kv_heads;
	j.threads = kva_threads_count(t);
	kva_threads_run(t, j.items, decode_item, &j);
	if (longest > 1)
		kva_threads_run(t, (size_t)nseq * a->q_heads, join_item, &j);
	return 0;
}

#endif /* KVA_DECODE_H */
