/* SPDX-License-Identifier: MIT */
/*
 * kit.h - batches of sequences for the kernel tests: pages scattered over an
 * arena that is NaN wherever no token was written, random keys, values and
 * queries, and comparisons.
 */
#ifndef KIT_H
#define KIT_H

#include <math.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "harness.h"
#include "kvattn.h"

#define KIT_SEQS 16

/* Given scales of rows between -1 and 1, for KVA_E4M3T. */
#define KIT_K_SCALE 0.0041f
#define KIT_V_SCALE 0.0029f

static uint64_t kit_state = 88172645463325252ull;

static inline uint32_t kit_random(void)
{
	kit_state ^= kit_state << 13;
	kit_state ^= kit_state >> 7;
	kit_state ^= kit_state << 17;
	return kit_state >> 32;
}

/* Uniform in [-1, 1). */
static inline float kit_uniform(void)
{
	return (int32_t)kit_random() * 0x1p-31f;
}

static inline void *kit_alloc(size_t n)
{
	void *p = aligned_alloc(64, (n + 64 + 63) / 64 * 64);

	if (!p)
		exit(HT_FAIL);
	return p;
}

static inline float *kit_floats(size_t n)
{
	float *p = kit_alloc(n * sizeof(*p));
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = kit_uniform();
	return p;
}

/* The table of a variant by name, or SKIP. */
static inline const struct kva_ops *kit_variant(const char *name)
{
	const struct kva_ops *ops;
	unsigned int i;
	int runnable;

	for (i = 0; (ops = kva_variant(i, &runnable)); i++) {
		if (strcmp(ops->name, name))
			continue;
		if (!runnable)
			SKIP(return NULL, "this CPU has no %s", name);
		return ops;
	}
	ht_log("no variant is called %s", name);
	exit(HT_FAIL);
}

struct kit_shape {
	uint8_t k_type;
	uint8_t v_type;
	uint8_t order;
	uint32_t k_dim;
	uint32_t v_dim;
	uint32_t kv_heads;
	uint32_t group;
	uint32_t page_tokens;
	uint32_t split;
	uint32_t window;
	uint32_t sinks;
	float softcap;
	bool sink_logits;
	bool v_in_k;
	uint32_t nseq;
	uint32_t len[KIT_SEQS];
	uint32_t rows[KIT_SEQS];
};

/* A batch, its memory and its results. */
struct kit {
	struct kit_shape shape;
	struct kva_view view;
	struct kva_attn attn;
	char *arena;
	size_t arena_size;
	uint32_t npages;
	uint32_t nrows;
	uint32_t q_heads;
	uint32_t indptr[KIT_SEQS + 1];
	uint32_t last[KIT_SEQS];
	uint32_t row_ptr[KIT_SEQS + 1];
	uint32_t *indices;
	float *q;
	float *o;
	float *lse;
	float *sink_logits;
};

static inline uint64_t kit_len(const struct kva_view *v, uint32_t s)
{
	uint32_t n = v->indptr[s + 1] - v->indptr[s];

	return n ? (uint64_t)(n - 1) * v->page_tokens + v->last_page_len[s] : 0;
}

static inline char *kit_page(const struct kit *k, uint32_t s, uint32_t pos)
{
	return k->arena + k->view.page_stride *
	       k->indices[k->indptr[s] + pos / k->shape.page_tokens];
}

/* Store a row of floats as the row of token @pos. */
static inline void kit_put(struct kit *k, uint32_t s, uint32_t pos, int is_v,
			   uint32_t head, const float *row)
{
	unsigned int type = is_v ? k->shape.v_type : k->shape.k_type;
	uint32_t dim = is_v ? k->shape.v_dim : k->shape.k_dim;
	uint32_t stored[KVA_DIM_MAX];

	kva_row_encode(type, is_v ? KIT_V_SCALE : KIT_K_SCALE, row, stored,
		       dim);
	kva_rows_write(&k->view, kit_page(k, s, pos), is_v, head,
		       pos % k->shape.page_tokens, 1, stored);
}

static inline void kit_fill(struct kit *k)
{
	const struct kit_shape *s = &k->shape;
	float row[KVA_DIM_MAX];
	uint32_t i, pos, h, d;
	int is_v;

	for (i = 0; i < s->nseq; i++)
		for (pos = 0; pos < s->len[i]; pos++)
			for (h = 0; h < s->kv_heads; h++)
				for (is_v = 0; is_v <= !s->v_in_k; is_v++) {
					for (d = 0; d < KVA_DIM_MAX; d++)
						row[d] = kit_uniform();
					kit_put(k, i, pos, is_v, h, row);
				}
}

/*
 * The pages of a batch, in random order, with holes between them. Page 0 is
 * never one of them.
 */
static inline void kit_pages(struct kit *k)
{
	const struct kit_shape *s = &k->shape;
	struct kva_view *v = &k->view;
	uint32_t i, j, n = 0, t;

	for (i = 0; i < s->nseq; i++) {
		k->indptr[i] = n;
		n += (s->len[i] + s->page_tokens - 1) / s->page_tokens;
		k->last[i] = s->len[i] ?
			     (s->len[i] - 1) % s->page_tokens + 1 : 0;
	}
	k->indptr[i] = n;
	k->npages = n + n / 4 + 2;
	k->indices = kit_alloc(k->npages * sizeof(uint32_t));
	for (i = 0; i < k->npages; i++)
		k->indices[i] = i;
	for (i = k->npages - 1; i > 0; i--) {
		j = kit_random() % (i + 1);
		t = k->indices[i];
		k->indices[i] = k->indices[j];
		k->indices[j] = t;
	}
	for (i = 0; k->indices[i]; i++)
		;
	k->indices[i] = k->indices[n];
	k->indices[n] = 0;
	v->page_tokens = s->page_tokens;
	v->nseq = s->nseq;
	v->indptr = k->indptr;
	v->indices = k->indices;
	v->last_page_len = k->last;
}

/* Two layers a page, so that offsets and strides matter. */
static inline void kit_view(struct kit *k)
{
	const struct kit_shape *s = &k->shape;
	struct kva_view *v = &k->view;
	size_t ks = kva_slab_size(s->k_type, s->order, 0, s->page_tokens,
				  s->k_dim);
	size_t vs = kva_slab_size(s->v_type, s->order, 1, s->page_tokens,
				  s->v_dim);
	size_t layer = s->kv_heads * (ks + (s->v_in_k ? 0 : vs));

	v->kv_heads = s->kv_heads;
	v->k_dim = s->k_dim;
	v->v_dim = s->v_dim;
	v->k_type = s->k_type;
	v->v_type = s->v_type;
	v->order = s->order;
	v->v_in_k = s->v_in_k;
	v->k_scale = KIT_K_SCALE;
	v->v_scale = KIT_V_SCALE;
	v->k_head_stride = ks;
	v->v_head_stride = vs;
	v->k_off = layer;
	v->v_off = layer + s->kv_heads * ks;
	v->page_stride = 2 * layer;
}

static inline void kit_init(struct kit *k, const struct kit_shape *s)
{
	uint32_t i;

	memset(k, 0, sizeof(*k));
	k->shape = *s;
	kit_view(k);
	kit_pages(k);
	k->arena_size = k->npages * k->view.page_stride;
	k->arena = kit_alloc(k->arena_size);
	memset(k->arena, 0xff, k->arena_size);	/* NaN in every type */
	k->view.base = k->arena;
	kit_fill(k);

	for (i = 0; i < s->nseq; i++)
		k->row_ptr[i + 1] = k->row_ptr[i] + s->rows[i];
	k->nrows = k->row_ptr[s->nseq];
	k->q_heads = s->kv_heads * s->group;
	k->q = kit_floats((size_t)k->nrows * k->q_heads * s->k_dim);
	k->o = kit_floats((size_t)k->nrows * k->q_heads * s->v_dim);
	k->lse = kit_floats((size_t)k->nrows * k->q_heads);
	for (i = 0; i < k->nrows * k->q_heads * s->k_dim; i++)
		k->q[i] *= 4;	/* scores that make the softmax choose */
	k->attn = (struct kva_attn) {
		.kv = &k->view, .row_ptr = k->row_ptr, .q = k->q, .o = k->o,
		.lse = k->lse, .q_stride = (size_t)k->q_heads * s->k_dim,
		.o_stride = (size_t)k->q_heads * s->v_dim,
		.q_heads = k->q_heads, .scale = 1 / sqrtf(s->k_dim),
		.split = s->split, .window = s->window, .sinks = s->sinks,
		.softcap = s->softcap,
	};
	if (s->sink_logits)
		k->attn.sink_logits = k->sink_logits = kit_floats(k->q_heads);
}

/*
 * Let page 0, which holds nothing but NaN, stand in for all pages that no row
 * of the batch sees. The number of pages dropped.
 */
static inline uint32_t kit_drop(struct kit *k)
{
	uint32_t P = k->shape.page_tokens, n = 0, s, i;

	for (s = 0; s < k->shape.nseq; s++) {
		uint32_t sees = k->shape.len[s] - k->shape.rows[s] + 1;

		if (!k->shape.window || k->shape.rows[s] >= k->shape.len[s])
			continue;
		for (i = 0; (i + 1) * P + k->shape.window <= sees; i++) {
			if (i * P < k->shape.sinks)
				continue;
			k->indices[k->indptr[s] + i] = 0;
			n++;
		}
	}
	return n;
}

static inline void kit_free(struct kit *k)
{
	free(k->arena);
	free(k->indices);
	free(k->q);
	free(k->o);
	free(k->lse);
	free(k->sink_logits);
}

/* Run an operation of a variant into @o and @lse, with scratch of NaN. */
static inline int kit_run(struct kit *k, const struct kva_ops *ops, int decode,
			  struct kva_threads *t, float *o, float *lse)
{
	struct kva_attn a = k->attn;
	size_t size = kva_workspace(&a, t);
	int rc;

	a.o = o;
	a.lse = lse;
	a.ws = kit_alloc(size);
	memset(a.ws, 0xff, size);
	rc = decode ? ops->decode(&a, t) : ops->prefill(&a, t);
	free(a.ws);
	return rc;
}

/* Running error of results against the reference. */
struct kit_error {
	double err;		/* sum of squared differences */
	double ref;		/* sum of squared references */
	double worst;		/* largest |difference| / (1 + |reference|) */
};

static inline void kit_compare(struct kit_error *e, const float *got,
			       const float *want, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		double d = (double)got[i] - want[i];
		double x = fabs(d) / (1 + fabs(want[i]));

		if (got[i] == want[i])	/* infinities too */
			x = d = 0;
		if (!(x <= e->worst))	/* NaN is the worst */
			e->worst = x;
		if (isfinite(want[i])) {
			e->err += d * d;
			e->ref += (double)want[i] * want[i];
		}
	}
}

#endif /* KIT_H */
