// SPDX-License-Identifier: MIT
/*
 * batch.c - one step of several sequences: plan, append and attend a layer,
 * commit.
 *
 * A plan builds the arrays that kernels want once for all layers of a group.
 * Runs of items with one token go to decode, the others to prefill, so that
 * how a row is computed follows from its own item and from nothing else in
 * the batch. A run is a slice of the arrays.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct run {
	uint32_t first;		/* item */
	uint32_t n;
	bool decode;
};

/* What struct kva_view takes, of one group. */
struct table {
	uint32_t *indptr;	/* [items + 1] */
	uint32_t *last;		/* [items] */
	uint32_t *indices;
	uint32_t indices_cap;
};

/**
 * struct kvc_batch - a step
 * @c: the cache
 * @items: [@n] sequences and numbers of new tokens
 * @n: items; 0 unless planned
 * @cap: items that there is room for
 * @row_ptr: [@n + 1] first row of each item
 * @pos: [rows] position of each row
 * @pos_cap: room in @pos
 * @runs: [@nruns] items that go to one kernel together
 * @nruns: runs
 * @table: one a group
 * @appended: one bit a layer
 * @ws: scratch of the kernels, 64-byte aligned
 * @ws_size: its bytes
 */
struct kvc_batch {
	struct kvc_cache *c;
	struct kvc_item *items;
	uint32_t n;
	uint32_t cap;
	uint32_t *row_ptr;
	uint32_t *pos;
	uint32_t pos_cap;
	struct run *runs;
	uint32_t nruns;
	struct table table[KVC_MAX_GROUPS];
	uint8_t appended[KVC_MAX_LAYERS / 8];
	void *ws;
	size_t ws_size;
};

int kvc_batch_create(struct kvc_cache *c, struct kvc_batch **out)
{
	struct kvc_batch *b = calloc(1, sizeof(*b));

	if (!b)
		return kvc_nomem(c->ctx);
	b->c = c;
	*out = b;
	return 0;
}

void kvc_batch_destroy(struct kvc_batch *b)
{
	if (!b)
		return;
	kvc_batch_abort(b);
	for (uint32_t i = 0; i < b->c->l.ngroups; i++) {
		free(b->table[i].indptr);
		free(b->table[i].last);
		free(b->table[i].indices);
	}
	free(b->items);
	free(b->row_ptr);
	free(b->pos);
	free(b->runs);
	free(b->ws);
	free(b);
}

static void release(const struct kvc_item *items, uint32_t n)
{
	while (n--)
		items[n].seq->batch = NULL;
}

/* Mark the sequences as this batch's: finds one that is there twice. */
static int claim(struct kvc_batch *b, const struct kvc_item *items, uint32_t n)
{
	struct kvc *ctx = b->c->ctx;
	uint64_t rows = 0;
	uint32_t i;
	int rc;

	for (i = 0; i < n; i++) {
		struct kvc_seq *s = items[i].seq;

		rc = -EINVAL;
		if (!s || s->c != b->c)
			kvc_fail(ctx, rc, "item %u: no sequence of this cache", i);
		else if (!items[i].n || !items[i].tokens)
			kvc_fail(ctx, rc, "item %u: no tokens", i);
		else if (s->batch == b)
			kvc_fail(ctx, rc, "item %u: its sequence is there twice", i);
		else if (s->batch)
			rc = kvc_fail(ctx, -EBUSY,
				      "item %u: its sequence is in another planned batch",
				      i);
		else if (s->idle)
			rc = kvc_fail(ctx, -EBUSY,
				      "item %u: its sequence is idle: wake it first",
				      i);
		else if (items[i].n > UINT32_MAX - s->len ||
			 (rows += items[i].n) > UINT32_MAX)
			rc = kvc_fail(ctx, -E2BIG,
				      "item %u: more than 2^32 - 1 tokens", i);
		else
			rc = 0;
		if (rc) {
			release(items, i);
			return rc;
		}
		s->batch = b;
	}
	return 0;
}

static int grow_items(struct kvc_batch *b, uint32_t n)
{
	uint32_t cap = KVC_MAX(n, KVC_MAX(2 * b->cap, 16u)), i;
	void *p;

	if (n <= b->cap)
		return 0;
#define GROW(ptr, num)							\
	do {								\
		p = reallocarray(ptr, num, sizeof(*(ptr)));		\
		if (!p)							\
			return -ENOMEM;					\
		ptr = p;						\
	} while (0)
	GROW(b->items, cap);
	GROW(b->runs, cap);
	GROW(b->row_ptr, cap + 1);
	for (i = 0; i < b->c->l.ngroups; i++) {
		GROW(b->table[i].indptr, cap + 1);
		GROW(b->table[i].last, cap);
	}
#undef GROW
	b->cap = cap;
	return 0;
}

/* Rows, positions and runs. */
static int build_rows(struct kvc_batch *b, const struct kvc_item *items,
		      uint32_t n)
{
	uint32_t i, k, rows = 0, *pos;
	struct run *run = NULL;
	bool decode;

	for (i = 0; i < n; i++)
		rows += items[i].n;
	pos = kvc_regrow(b->pos, &b->pos_cap, rows, sizeof(*pos));
	if (!pos)
		return -ENOMEM;
	b->pos = pos;
	b->nruns = 0;
	b->row_ptr[0] = 0;
	for (i = 0; i < n; i++) {
		decode = items[i].n == 1;
		if (!run || run->decode != decode) {
			run = &b->runs[b->nruns++];
			*run = (struct run) { .first = i, .decode = decode };
		}
		run->n++;
		for (k = 0; k < items[i].n; k++)
			*pos++ = items[i].seq->len + k;
		b->row_ptr[i + 1] = b->row_ptr[i] + items[i].n;
	}
	return 0;
}

/* How many pages each sequence will have, and how full the last. */
static int build_table(struct kvc_batch *b, uint32_t group,
		       const struct kvc_item *items, uint32_t n)
{
	uint32_t P = b->c->l.group[group].page_tokens, i, len, pages;
	struct table *t = &b->table[group];
	uint32_t *p;

	t->indptr[0] = 0;
	for (i = 0; i < n; i++) {
		len = items[i].seq->len + items[i].n;
		pages = (len - 1) / P + 1;
		t->last[i] = len - (pages - 1) * P;
		if (pages > UINT32_MAX - t->indptr[i])
			return kvc_fail(b->c->ctx, -E2BIG,
					"a batch over more than 2^32 - 1 pages");
		t->indptr[i + 1] = t->indptr[i] + pages;
	}
	p = kvc_regrow(t->indices, &t->indices_cap, t->indptr[n], sizeof(*p));
	if (!p)
		return -ENOMEM;
	t->indices = p;
	return 0;
}

static const struct kvc_group *group_of(const struct kvc_batch *b,
					uint32_t layer)
{
	return &b->c->l.group[b->c->l.layer_group[layer]].g;
}

/* A layer's view of some of the items. */
static void view_of(const struct kvc_batch *b, uint32_t layer, void *base,
		    uint32_t first, uint32_t n, struct kva_view *v)
{
	const struct table *t = &b->table[b->c->l.layer_group[layer]];

	kvc_layout_view(&b->c->l, layer, base, v);
	v->nseq = n;
	v->indptr = t->indptr + first;
	v->last_page_len = t->last + first;
	v->indices = t->indices;
}

static int build_workspace(struct kvc_batch *b)
{
	const struct kvc_cache *c = b->c;
	uint32_t layer, i, seen = 0;
	struct kva_view v;
	size_t want = 0, ws;
	void *p;

	for (layer = 0; layer < c->l.nlayers; layer++) {
		if (seen >> c->l.layer_group[layer] & 1)
			continue;
		seen |= 1U << c->l.layer_group[layer];
		for (i = 0; i < b->nruns; i++) {
			const struct kva_attn a = {
				.kv = &v,
				.row_ptr = b->row_ptr + b->runs[i].first,
				.q_heads = c->l.q_heads,
				.window = group_of(b, layer)->window,
				.sinks = group_of(b, layer)->sinks,
				.split = c->o.split,
			};

			view_of(b, layer, NULL, b->runs[i].first,
				b->runs[i].n, &v);
			ws = kva_workspace(&a, c->threads);
			want = KVC_MAX(want, ws);
		}
		if (seen == (1U << c->l.ngroups) - 1)
			break;
	}
	if (want <= b->ws_size)
		return 0;
	/* It grows with every token: leave room for many. */
	want = (want + want / 2 + 63) & ~(size_t)63;
	p = aligned_alloc(64, want);
	if (!p)
		return -ENOMEM;
	free(b->ws);
	b->ws = p;
	b->ws_size = want;
	return 0;
}

static int build(struct kvc_batch *b, const struct kvc_item *items, uint32_t n)
{
	int rc;

	rc = grow_items(b, n);
	if (!rc)
		rc = build_rows(b, items, n);
	for (uint32_t i = 0; !rc && i < b->c->l.ngroups; i++)
		rc = build_table(b, i, items, n);
	if (!rc)
		rc = build_workspace(b);
	return rc == -ENOMEM ? kvc_nomem(b->c->ctx) : rc;
}

int kvc_batch_plan(struct kvc_batch *b, const struct kvc_item *items,
		   uint32_t n)
{
	struct kvc_cache *c = b->c;
	uint32_t i, k;
	int rc;

	if (b->n)
		return kvc_fail(c->ctx, -EBUSY,
				"the batch is planned: commit or abort it first");
	if (!n || !items)
		return kvc_fail(c->ctx, -EINVAL, "a batch without items");
	rc = claim(b, items, n);
	if (rc)
		return rc;
	rc = build(b, items, n);
	if (!rc)
		rc = kvc_reserve(c, items, n, 0);
	if (rc) {
		release(items, n);
		return rc;
	}
	/* From here on nothing fails. */
	for (i = 0; i < n; i++) {
		struct kvc_seq *s = items[i].seq;

		memcpy(s->tokens + s->len, items[i].tokens,
		       items[i].n * sizeof(*s->tokens));
		for (k = 0; k < c->l.ngroups; k++) {
			struct table *t = &b->table[k];

			memcpy(t->indices + t->indptr[i], s->chain[k].numbers,
			       (t->indptr[i + 1] - t->indptr[i]) *
			       sizeof(*t->indices));
		}
	}
	memcpy(b->items, items, n * sizeof(*items));
	memset(b->appended, 0, sizeof(b->appended));
	b->n = n;
	return 0;
}

const uint32_t *kvc_batch_positions(const struct kvc_batch *b)
{
	return b->pos;
}

static bool is_appended(const struct kvc_batch *b, uint32_t layer)
{
	return b->appended[layer / 8] >> layer % 8 & 1;
}

static int check_layer(const struct kvc_batch *b, uint32_t layer)
{
	if (!b->n)
		return kvc_fail(b->c->ctx, -EINVAL, "the batch is not planned");
	if (layer >= b->c->l.nlayers)
		return kvc_fail(b->c->ctx, -EINVAL, "layer %u of %u", layer,
				b->c->l.nlayers);
	return 0;
}

/* Rows may have room between them, but do not overlap. */
static int check_stride(const struct kvc_batch *b, const char *name,
			size_t stride, uint32_t heads, uint32_t dim)
{
	uint64_t row = (uint64_t)heads * dim;

	if (stride >= row)
		return 0;
	return kvc_fail(b->c->ctx, -EINVAL,
			"%s_stride %zu: a row has %llu elements", name, stride,
			(unsigned long long)row);
}

int kvc_append(struct kvc_batch *b, uint32_t layer, const struct kvc_rope *rope,
	       float *q, size_t q_stride, const float *k, size_t k_stride,
	       const float *v, size_t v_stride)
{
	struct kva_append a = {
		.row_ptr = b->row_ptr,
		.q = q,
		.k = k,
		.v = v,
		.q_stride = q_stride,
		.k_stride = k_stride,
		.v_stride = v_stride,
		.q_heads = b->c->l.q_heads,
		.rope = KVA_ROPE_NONE,
		.pos = b->pos,
	};
	const struct kvc_group *g;
	struct kva_view view;
	int rc;

	rc = check_layer(b, layer);
	if (rc)
		return rc;
	g = group_of(b, layer);
	if (q)
		rc = check_stride(b, "q", q_stride, a.q_heads, g->k_dim);
	if (!rc)
		rc = check_stride(b, "k", k_stride, g->kv_heads, g->k_dim);
	if (!rc)
		rc = check_stride(b, "v", v_stride, g->kv_heads, g->v_dim);
	if (!rc)
		rc = kvc_items_check(b->c, b->items, b->n);
	if (rc)
		return rc;
	if (rope) {
		a.rope = rope->kind;
		a.rot_dim = rope->rot_dim;
		a.rope_table = rope->table;
	}
	view_of(b, layer, b->c->rw, 0, b->n, &view);
	a.kv = &view;
	rc = b->c->ops->append(&a, b->c->threads);
	if (rc)
		return kvc_fail(b->c->ctx, rc,
				"layer %u: arguments that append cannot serve",
				layer);
	b->appended[layer / 8] |= 1U << layer % 8;
	return 0;
}

int kvc_attend(struct kvc_batch *b, uint32_t layer, float scale,
	       const float *q, size_t q_stride, float *o, size_t o_stride)
{
	struct kva_attn a = {
		.q = q,
		.o = o,
		.q_stride = q_stride,
		.o_stride = o_stride,
		.q_heads = b->c->l.q_heads,
		.scale = scale,
		.split = b->c->o.split,
		.ws = b->ws,
	};
	const struct kvc_group *g;
	struct kva_view view;
	int rc;

	rc = check_layer(b, layer);
	if (rc)
		return rc;
	if (!is_appended(b, layer))
		return kvc_fail(b->c->ctx, -EINVAL,
				"layer %u: to be appended first", layer);
	g = group_of(b, layer);
	rc = check_stride(b, "q", q_stride, a.q_heads, g->k_dim);
	if (!rc)
		rc = check_stride(b, "o", o_stride, a.q_heads, g->v_dim);
	if (!rc)
		rc = kvc_items_check(b->c, b->items, b->n);
	if (rc)
		return rc;
	a.kv = &view;
	a.window = g->window;
	a.sinks = g->sinks;
	for (uint32_t i = 0; i < b->nruns; i++) {
		const struct run *r = &b->runs[i];

		view_of(b, layer, b->c->ro, r->first, r->n, &view);
		a.row_ptr = b->row_ptr + r->first;
		rc = r->decode ? b->c->ops->decode(&a, b->c->threads) :
				 b->c->ops->prefill(&a, b->c->threads);
		if (rc)
			return kvc_fail(b->c->ctx, rc,
					"layer %u: arguments that attention cannot serve",
					layer);
	}
	return 0;
}

/* The new tokens count; pages that they filled are published. */
static int advance(struct kvc_seq *s, uint32_t n)
{
	uint32_t was = s->len, i, P;
	int rc = 0, err;

	s->len += n;
	s->c->st.appended_tokens += n;
	for (i = 0; !s->no_reuse && i < s->c->l.ngroups; i++) {
		P = s->c->l.group[i].page_tokens;
		if (s->len / P == was / P)
			continue;
		kvc_seq_keys(s, i, was / P);
		err = kvc_publish(s, i, false);
		if (!rc)
			rc = err;
	}
	kvc_seq_slide(s);
	return rc;
}

/* At most what was planned. */
static int check_keep(const struct kvc_batch *b, const uint32_t *keep)
{
	for (uint32_t i = 0; keep && i < b->n; i++)
		if (keep[i] > b->items[i].n)
			return kvc_fail(b->c->ctx, -EINVAL,
					"item %u: %u tokens to keep of %u", i,
					keep[i], b->items[i].n);
	return 0;
}

int kvc_batch_accept(struct kvc_batch *b, const uint32_t *keep)
{
	uint32_t i, n = b->n;
	struct kvc_msg msg;
	int rc = 0, err;

	kvc_msg_save(b->c->ctx, &msg);
	rc = check_layer(b, 0);
	if (!rc)
		rc = check_keep(b, keep);
	if (rc)
		return rc;
	for (i = 0; i < b->c->l.nlayers; i++)
		if (!is_appended(b, i))
			return kvc_fail(b->c->ctx, -EINVAL,
					"layer %u was not appended", i);
	rc = kvc_items_check(b->c, b->items, b->n);
	if (rc)
		return rc;
	kvc_batch_abort(b);	/* the plan is over, whatever follows */
	for (i = 0; i < n; i++) {
		const struct kvc_item *it = &b->items[i];

		err = advance(it->seq, keep ? keep[i] : it->n);
		if (!rc)
			rc = err;
		/* Pages for nothing but what was not kept. */
		if (keep && keep[i] < it->n)
			kvc_seq_truncate(it->seq, it->seq->len);
	}
	/* Pages that could not be published stay private. */
	if (!rc)
		kvc_msg_restore(b->c->ctx, &msg);
	return rc;
}

int kvc_batch_commit(struct kvc_batch *b)
{
	return kvc_batch_accept(b, NULL);
}

void kvc_batch_abort(struct kvc_batch *b)
{
	release(b->items, b->n);
	b->n = 0;
}
