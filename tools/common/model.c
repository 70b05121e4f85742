// SPDX-License-Identifier: MIT
/*
 * model.c - the forward pass: one function for the layers, which gets its
 * attention from the library's pages or from scratch memory.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <kvattn.h>
#include "model_priv.h"
#include "ops.h"

/* Positions that the table of rotations grows by. */
#define ROPE_STEP 1024
/* Rows of logits that model_recompute() makes at a time. */
#define LOGIT_ROWS 64

/*
 * Rotate q and k of a layer's new rows, keep k and v, and attend.
 * q, k and v are parts of rows that are @stride apart.
 */
typedef int (*attend_fn)(struct model *m, void *arg, uint32_t layer, float *q,
			 const float *k, const float *v, size_t stride,
			 float *o);

void model_free(struct model *m)
{
	uint32_t i;

	if (!m)
		return;
	for (i = 0; m->layers && i < m->info.nlayers; i++)
		model_layer_free(&m->layers[i]);
	free(m->layers);
	free(m->rope_factors);
	free(m->output_norm);
	free(m->rope[0].table);
	free(m->rope[1].table);
	free(m->s.x);
	matmul_destroy(m->mm);
	free(m);
}

const struct model_info *model_info(const struct model *m)
{
	return &m->info;
}

const char *model_products(const struct model *m)
{
	return m->products;
}

void model_counters(const struct model *m, struct model_counters *out)
{
	*out = m->count;
}

/* Elements of a row, rounded so that every array starts on a cache line. */
static size_t round_up(size_t n)
{
	return (n + 15) / 16 * 16;
}

static int get_scratch(struct model *m, uint32_t rows)
{
	const struct model_info *s = &m->info;
	size_t q = (size_t)s->q_heads * s->head_dim;
	size_t kv = (size_t)s->kv_heads * s->head_dim;
	size_t each[] = {
		s->dim, s->dim, s->dim, q + 2 * kv, q, 2 * (size_t)s->ff_dim,
		s->ff_dim,
	};
	float **part[] = {
		&m->s.x, &m->s.h, &m->s.delta, &m->s.qkv, &m->s.attn,
		&m->s.gate_up, &m->s.act,
	};
	size_t total = 0;
	unsigned int i;
	float *p;

	if (rows <= m->s.rows)
		return 0;
	for (i = 0; i < 7; i++)
		total += round_up(rows * each[i]);
	p = aligned_alloc(64, total * sizeof(*p));
	if (!p)
		return -ENOMEM;
	free(m->s.x);
	for (i = 0; i < 7; i++) {
		*part[i] = p;
		p += round_up(rows * each[i]);
	}
	m->s.rows = rows;
	return 0;
}

/* A table of rotations for every position below @n. */
static int grow_rope(const struct model *m, struct rotations *r, uint32_t n,
		     double base, double scale, const float *factors)
{
	size_t row = m->rot_dim;
	float *p;

	if (n <= r->len)
		return 0;
	if (m->info.context - n < ROPE_STEP)
		n = m->info.context;
	else
		n = (n + ROPE_STEP - 1) / ROPE_STEP * ROPE_STEP;
	p = realloc(r->table, n * row * sizeof(*p));
	if (!p)
		return -ENOMEM;
	kva_rope_table(p + r->len * row, r->len, n - r->len, m->rot_dim, base,
		       scale, factors);
	r->table = p;
	r->len = n;
	return 0;
}

static int get_rope(struct model *m, uint32_t n)
{
	const struct model_info *s = &m->info;
	int ret;

	if (n > s->context)
		return -EOVERFLOW;
	ret = grow_rope(m, &m->rope[0], n, s->rope_base, s->rope_scale,
			m->rope_factors);
	if (ret || !s->window)
		return ret;
	return grow_rope(m, &m->rope[1], n, s->window_base, 1, NULL);
}

static const float *rope_of(const struct model *m, uint32_t layer)
{
	return m->rope[model_is_local(&m->info, layer)].table;
}

struct embed {
	const struct model *m;
	const uint32_t *tokens;
};

static void embed_item(void *arg, size_t item, unsigned int thread)
{
	const struct embed *e = arg;
	uint32_t dim = e->m->info.dim, i;
	float *x = e->m->s.x + item * dim;

	matmul_row(&e->m->embed, e->tokens[item], x);
	if (e->m->embed_scale != 1)
		for (i = 0; i < dim; i++)
			x[i] *= e->m->embed_scale;
}

/* What a half layer adds, normed where the architecture does that. */
static void post_norm(struct model *m, const float *weight, uint32_t rows)
{
	if (weight)
		ops_norm(m->threads, m->s.delta, NULL, rows, m->info.dim,
			 weight, m->eps, m->s.delta);
}

/* Between the products and the rotation. */
static void finish_qkv(struct model *m, const struct layer *l, uint32_t rows)
{
	const struct model_info *s = &m->info;
	size_t q = (size_t)s->q_heads * s->head_dim;
	size_t kv = (size_t)s->kv_heads * s->head_dim, stride = q + 2 * kv;
	float *qs = m->s.qkv, *ks = qs + q, *vs = ks + kv;

	if (l->q_bias) {
		ops_bias(m->threads, qs, stride, rows, q, l->q_bias);
		ops_bias(m->threads, ks, stride, rows, kv, l->k_bias);
		ops_bias(m->threads, vs, stride, rows, kv, l->v_bias);
	}
	if (l->q_norm) {
		ops_norm_heads(m->threads, qs, stride, rows, s->q_heads,
			       s->head_dim, l->q_norm, m->eps);
		ops_norm_heads(m->threads, ks, stride, rows, s->kv_heads,
			       s->head_dim, l->k_norm, m->eps);
	}
}

static int feed_forward(struct model *m, const struct layer *l, uint32_t rows)
{
	const struct model_info *s = &m->info;
	struct matmul_job gate_up[] = {
		{ &l->gate, m->s.gate_up, 2 * (size_t)s->ff_dim },
		{ &l->up, m->s.gate_up + s->ff_dim, 2 * (size_t)s->ff_dim },
	};
	struct matmul_job down = { &l->down, m->s.delta, s->dim };
	int ret;

	ret = matmul_run(m->mm, m->s.h, s->dim, rows, gate_up, 2);
	if (ret)
		return ret;
	(m->gelu ? ops_geglu : ops_swiglu)(m->threads, m->s.gate_up, rows,
					   s->ff_dim, m->s.act);
	ret = matmul_run(m->mm, m->s.act, s->ff_dim, rows, &down, 1);
	if (!ret)
		post_norm(m, l->ffn_post_norm, rows);
	return ret;
}

/*
 * All layers. The hidden states end up in s.x and s.delta, still to be added:
 * the norm that follows does both at once.
 */
static int run_layers(struct model *m, const uint32_t *tokens, uint32_t rows,
		      attend_fn attend, void *arg)
{
	const struct model_info *s = &m->info;
	size_t q = (size_t)s->q_heads * s->head_dim;
	size_t kv = (size_t)s->kv_heads * s->head_dim, stride = q + 2 * kv;
	float *qs = m->s.qkv, *ks = qs + q, *vs = ks + kv;
	struct embed e = { .m = m, .tokens = tokens };
	uint32_t i;
	int ret;

	kva_threads_run(m->threads, rows, embed_item, &e);
	for (i = 0; i < s->nlayers; i++) {
		const struct layer *l = &m->layers[i];
		struct matmul_job qkv[] = {
			{ &l->q, qs, stride },
			{ &l->k, ks, stride },
			{ &l->v, vs, stride },
		};
		struct matmul_job o = { &l->o, m->s.delta, s->dim };

		ops_norm(m->threads, m->s.x, i ? m->s.delta : NULL, rows,
			 s->dim, l->attn_norm, m->eps, m->s.h);
		ret = matmul_run(m->mm, m->s.h, s->dim, rows, qkv, 3);
		if (!ret)
			finish_qkv(m, l, rows);
		if (!ret)
			ret = attend(m, arg, i, qs, ks, vs, stride, m->s.attn);
		if (!ret)
			ret = matmul_run(m->mm, m->s.attn, q, rows, &o, 1);
		if (ret)
			return ret;
		post_norm(m, l->attn_post_norm, rows);
		ops_norm(m->threads, m->s.x, m->s.delta, rows, s->dim,
			 l->ffn_norm, m->eps, m->s.h);
		ret = feed_forward(m, l, rows);
		if (ret)
			return ret;
	}
	m->count.forwarded += rows;
	return 0;
}

/* Bound the logits, where the model was trained with that. */
static void cap_logits(double cap, float *logits, size_t n)
{
	size_t i;

	for (i = 0; cap && i < n; i++)
		logits[i] = cap * tanhf(logits[i] / cap);
}

/* Logits of some rows; s.h is overwritten. */
static int get_logits(struct model *m, const uint32_t *want, uint32_t nwant,
		      float *logits)
{
	struct matmul_job out = { &m->output, logits, m->info.vocab };
	uint32_t dim = m->info.dim, i;
	int ret;

	for (i = 0; i < nwant; i++) {
		size_t at = (size_t)want[i] * dim;

		ops_norm(NULL, m->s.x + at, m->s.delta + at, 1, dim,
			 m->output_norm, m->eps, m->s.h + (size_t)i * dim);
	}
	m->count.logit_rows += nwant;
	ret = nwant ? matmul_run(m->mm, m->s.h, dim, nwant, &out, 1) : 0;
	if (!ret)
		cap_logits(m->info.softcap, logits,
			   (size_t)nwant * m->info.vocab);
	return ret;
}

static int check_step(const struct model *m, const uint32_t *tokens,
		      uint32_t rows, const uint32_t *want, uint32_t nwant)
{
	uint32_t i;

	for (i = 0; i < rows; i++)
		if (tokens[i] >= m->info.vocab)
			return -EINVAL;
	/* ascending: no row's delta is added twice */
	for (i = 0; i < nwant; i++)
		if (want[i] >= rows || (i && want[i] <= want[i - 1]))
			return -EINVAL;
	return rows ? 0 : -EINVAL;
}

/* ---- on pages --------------------------------------------------------- */

static int attend_pages(struct model *m, void *arg, uint32_t layer, float *q,
			const float *k, const float *v, size_t stride,
			float *o)
{
	struct kvc_rope rope = {
		.kind = m->info.rope_kind,
		.rot_dim = m->rot_dim,
		.table = rope_of(m, layer),
	};
	int ret;

	ret = kvc_append(arg, layer, &rope, q, stride, k, stride, v, stride);
	if (ret)
		return ret;
	return kvc_attend(arg, layer, m->info.attn_scale, q, stride, o,
			  (size_t)m->info.q_heads * m->info.head_dim);
}

int model_forward(struct model *m, struct kvc_batch *b, const uint32_t *tokens,
		  uint32_t rows, const uint32_t *want, uint32_t nwant,
		  float *logits)
{
	const uint32_t *pos = kvc_batch_positions(b);
	uint32_t i, last = 0;
	int ret;

	ret = check_step(m, tokens, rows, want, nwant);
	if (ret)
		return ret;
	for (i = 0; i < rows; i++)
		last = pos[i] > last ? pos[i] : last;
	ret = get_rope(m, last + 1);
	if (!ret)
		ret = get_scratch(m, rows);
	if (!ret)
		ret = run_layers(m, tokens, rows, attend_pages, b);
	if (ret)
		return ret;
	m->count.appended += rows;
	return get_logits(m, want, nwant, logits);
}

/* ---- without pages ---------------------------------------------------- */

/* One layer's keys and values of a whole text, as one page. */
struct text {
	const struct kva_ops *ops;
	struct kva_view view;
	uint32_t row_ptr[2];
	uint32_t *pos;
	void *ws;
	size_t ws_size;		/* windows need less of it */
};

static const uint32_t one_page[2] = { 0, 1 };

static int text_init(struct text *t, const struct model_info *s, uint32_t n)
{
	uint32_t tokens = (n + 7) / 8 * 8, i;
	size_t k, v, page;

	memset(t, 0, sizeof(*t));
	t->ops = kva_config();
	if (!t->ops)
		return -EOPNOTSUPP;
	k = kva_slab_size(KVA_F32, KVA_CPU, 0, tokens, s->head_dim);
	v = kva_slab_size(KVA_F32, KVA_CPU, 1, tokens, s->head_dim);
	page = (k + v) * s->kv_heads;
	t->row_ptr[1] = n;
	t->view = (struct kva_view){
		.base = aligned_alloc(64, (page + 63) / 64 * 64),
		.page_stride = page,
		.nseq = 1,
		.indptr = one_page,
		.indices = one_page,
		.last_page_len = &t->row_ptr[1],
		.page_tokens = tokens,
		.kv_heads = s->kv_heads,
		.k_dim = s->head_dim,
		.v_dim = s->head_dim,
		.k_type = KVA_F32,
		.v_type = KVA_F32,
		.order = KVA_CPU,
		.v_off = k * s->kv_heads,
		.k_head_stride = k,
		.v_head_stride = v,
	};
	t->pos = malloc(n * sizeof(*t->pos));
	if (!t->view.base || !t->pos)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		t->pos[i] = i;
	return 0;
}

static void text_fini(struct text *t)
{
	free(t->view.base);
	free(t->pos);
	free(t->ws);
}

static int attend_text(struct model *m, void *arg, uint32_t layer, float *q,
		       const float *k, const float *v, size_t stride, float *o)
{
	struct text *t = arg;
	struct kva_append append = {
		.kv = &t->view,
		.row_ptr = t->row_ptr,
		.q = q,
		.k = k,
		.v = v,
		.q_stride = stride,
		.k_stride = stride,
		.v_stride = stride,
		.q_heads = m->info.q_heads,
		.rope = m->info.rope_kind,
		.rot_dim = m->rot_dim,
		.pos = t->pos,
		.rope_table = rope_of(m, layer),
	};
	struct kva_attn attn = {
		.kv = &t->view,
		.row_ptr = t->row_ptr,
		.q = q,
		.o = o,
		.q_stride = stride,
		.o_stride = (size_t)m->info.q_heads * m->info.head_dim,
		.q_heads = m->info.q_heads,
		.scale = m->info.attn_scale,
		.window = model_is_local(&m->info, layer) ? m->info.window : 0,
	};
	size_t bytes;
	int ret;

	ret = t->ops->append(&append, m->threads);
	if (ret)
		return ret;
	bytes = kva_workspace(&attn, m->threads);
	if (bytes > t->ws_size || !t->ws) {
		free(t->ws);
		t->ws_size = bytes;
		t->ws = aligned_alloc(64, (bytes + 64) / 64 * 64);
		if (!t->ws)
			return -ENOMEM;
	}
	attn.ws = t->ws;
	return t->ops->prefill(&attn, m->threads);
}

/* Logits a few rows at a time, for a caller that does not keep them. */
static int each_logits(struct model *m, const uint32_t *want, uint32_t nwant,
		       void (*each)(void *arg, uint32_t pos,
				    const float *logits), void *arg)
{
	size_t vocab = m->info.vocab;
	uint32_t i, j, n;
	float *buf;
	int ret = 0;

	n = nwant < LOGIT_ROWS ? nwant : LOGIT_ROWS;
	buf = malloc(n * vocab * sizeof(*buf));
	if (n && !buf)
		return -ENOMEM;
	for (i = 0; i < nwant && !ret; i += n) {
		n = nwant - i < LOGIT_ROWS ? nwant - i : LOGIT_ROWS;
		ret = get_logits(m, want + i, n, buf);
		for (j = 0; j < n && !ret; j++)
			each(arg, want[i + j], buf + j * vocab);
	}
	free(buf);
	return ret;
}

int model_recompute(struct model *m, const uint32_t *tokens, uint32_t n,
		    const uint32_t *want, uint32_t nwant, float *logits,
		    void (*each)(void *arg, uint32_t pos, const float *logits),
		    void *arg)
{
	struct text t;
	int ret;

	ret = check_step(m, tokens, n, want, nwant);
	if (!ret)
		ret = get_rope(m, n);
	if (!ret)
		ret = get_scratch(m, n);
	if (ret)
		return ret;
	ret = text_init(&t, &m->info, n);
	if (!ret)
		ret = run_layers(m, tokens, n, attend_text, &t);
	if (!ret)
		ret = logits ? get_logits(m, want, nwant, logits) :
			       each_logits(m, want, nwant, each, arg);
	text_fini(&t);
	return ret;
}
