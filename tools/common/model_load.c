// SPDX-License-Identifier: MIT
/*
 * model_load.c - the shape and the weights of a llama-type model in a GGUF
 * file.
 *
 * A tensor that this forward pass would not use changes what the model says,
 * so a file that has one is refused rather than run wrongly.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <kvattn.h>
#include "gguf.h"
#include "model_priv.h"

#define HEAD_DIM_MAX 256	/* of the attention kernels */

struct loader {
	const struct gguf *g;
	char *err;
	size_t errlen;
};

__attribute__((format(printf, 3, 4)))
static int fail(const struct loader *l, int ret, const char *fmt, ...)
{
	va_list ap;

	if (!l->errlen)
		return ret;
	va_start(ap, fmt);
	vsnprintf(l->err, l->errlen, fmt, ap);
	va_end(ap);
	return ret;
}

/* ---- shape ------------------------------------------------------------ */

/* An integer of 1 to @max; -ENOENT only without a message. */
static int integer(const struct loader *l, const char *key, uint64_t max,
		   uint32_t *out)
{
	uint64_t v;
	int ret;

	ret = gguf_u64(l->g, key, &v);
	if (ret == -ENOENT)
		return ret;
	if (ret)
		return fail(l, -EINVAL,
			    "%s is not one whole number: this kind of llama model is not supported",
			    key);
	if (v < 1 || v > max)
		return fail(l, -EINVAL,
			    "%s is %llu, not 1 to %llu: the file is damaged or of another kind",
			    key, (unsigned long long)v,
			    (unsigned long long)max);
	*out = v;
	return 0;
}

static int required(const struct loader *l, const char *key, uint64_t max,
		    uint32_t *out)
{
	int ret = integer(l, key, max, out);

	if (ret == -ENOENT)
		return fail(l, -EINVAL,
			    "%s is missing: the file does not describe a whole model",
			    key);
	return ret;
}

static int optional(const struct loader *l, const char *key, uint64_t max,
		    uint32_t *out)
{
	int ret = integer(l, key, max, out);

	return ret == -ENOENT ? 0 : ret;
}

/* A positive number; left as it is without the key. */
static int number(const struct loader *l, const char *key, double *out)
{
	double v;
	int ret;

	ret = gguf_f64(l->g, key, &v);
	if (ret == -ENOENT)
		return 0;
	if (ret || !isfinite(v) || v <= 0)
		return fail(l, -EINVAL,
			    "%s is not a positive number: the file is damaged",
			    key);
	*out = v;
	return 0;
}

static void copy_str(char *out, size_t size, struct gguf_str s)
{
	size_t n = s.len < size - 1 ? s.len : size - 1;

	memcpy(out, s.s, n);
	out[n] = '\0';
}

static int check_arch(const struct loader *l, struct model_info *info)
{
	static const char *const encoders[] = {
		"bert", "nomic-bert", "jina-bert-v2", "modern-bert",
		"neo-bert", "eurobert", "t5encoder",
	};
	struct gguf_str s;
	unsigned int i;

	if (gguf_string(l->g, "general.architecture", &s))
		return fail(l, -EINVAL,
			    "general.architecture is missing: this is not a model file");
	copy_str(info->arch, sizeof(info->arch), s);
	if (!gguf_string(l->g, "general.name", &s))
		copy_str(info->name, sizeof(info->name), s);
	for (i = 0; i < sizeof(encoders) / sizeof(*encoders); i++)
		if (!strcmp(info->arch, encoders[i]))
			return fail(l, -EOPNOTSUPP,
				    "architecture '%s' has no decode loop: it only encodes; take a llama model",
				    info->arch);
	if (strcmp(info->arch, "llama"))
		return fail(l, -EOPNOTSUPP,
			    "architecture '%s' is not supported yet; take a llama model",
			    info->arch);
	return 0;
}

static int read_heads(const struct loader *l, struct model_info *info)
{
	uint32_t v_dim;
	int ret;

	ret = required(l, "llama.attention.head_count", 1024, &info->q_heads);
	if (ret)
		return ret;
	info->kv_heads = info->q_heads;
	ret = optional(l, "llama.attention.head_count_kv", info->q_heads,
		       &info->kv_heads);
	if (ret)
		return ret;
	if (info->q_heads % info->kv_heads)
		return fail(l, -EINVAL,
			    "%u query heads cannot share %u KV heads: the file is damaged",
			    info->q_heads, info->kv_heads);
	info->head_dim = info->dim / info->q_heads;
	ret = optional(l, "llama.attention.key_length", HEAD_DIM_MAX,
		       &info->head_dim);
	if (ret)
		return ret;
	v_dim = info->head_dim;
	ret = optional(l, "llama.attention.value_length", HEAD_DIM_MAX, &v_dim);
	if (ret)
		return ret;
	if (v_dim != info->head_dim)
		return fail(l, -EOPNOTSUPP,
			    "key_length %u and value_length %u differ: not supported yet",
			    info->head_dim, v_dim);
	if (!info->head_dim || info->head_dim % 16 ||
	    info->head_dim > HEAD_DIM_MAX)
		return fail(l, -EOPNOTSUPP,
			    "head dimension %u is not a multiple of 16 up to %u: not supported yet",
			    info->head_dim, HEAD_DIM_MAX);
	return 0;
}

static int read_rope(const struct loader *l, struct model_info *info)
{
	char type[16] = "none";
	struct gguf_str s;
	double factor = 1;
	int ret;

	info->rope_base = 10000;
	ret = number(l, "llama.rope.freq_base", &info->rope_base);
	/* Files of before rope.scaling had the factor alone. */
	if (!ret)
		ret = number(l, "llama.rope.scale_linear", &factor);
	if (!ret)
		ret = number(l, "llama.rope.scaling.factor", &factor);
	if (ret)
		return ret;
	if (!gguf_string(l->g, "llama.rope.scaling.type", &s))
		copy_str(type, sizeof(type), s);
	else if (factor != 1)
		strcpy(type, "linear");
	if (!strcmp(type, "none"))
		factor = 1;
	else if (strcmp(type, "linear"))
		return fail(l, -EOPNOTSUPP,
			    "llama.rope.scaling.type '%s' is not supported yet; linear and none are",
			    type);
	info->rope_scale = 1 / factor;
	return 0;
}

static int read_shape(const struct loader *l, struct model_info *info)
{
	const struct gguf_tensor *t;
	uint64_t experts;
	int ret;

	memset(info, 0, sizeof(*info));
	ret = check_arch(l, info);
	if (!ret)
		ret = required(l, "llama.block_count", KVC_MAX_LAYERS,
			       &info->nlayers);
	if (!ret)
		ret = required(l, "llama.embedding_length", 1 << 17,
			       &info->dim);
	if (!ret)
		ret = required(l, "llama.feed_forward_length", 1 << 20,
			       &info->ff_dim);
	if (!ret)
		ret = required(l, "llama.context_length", 1 << 30,
			       &info->context);
	if (!ret)
		ret = read_heads(l, info);
	if (!ret)
		ret = read_rope(l, info);
	if (ret)
		return ret;
	if (!gguf_u64(l->g, "llama.expert_count", &experts) && experts)
		return fail(l, -EOPNOTSUPP,
			    "llama.expert_count is %llu: mixtures of experts are not supported yet",
			    (unsigned long long)experts);
	t = gguf_tensor(l->g, "token_embd.weight");
	if (!t)
		return fail(l, -EINVAL,
			    "tensor token_embd.weight is missing: the file is not a whole model");
	if (t->ndim != 2 || t->ne[0] != info->dim || t->ne[1] > 1 << 24)
		return fail(l, -EINVAL,
			    "tensor token_embd.weight has %llu x %llu elements instead of %u x vocabulary",
			    (unsigned long long)t->ne[0],
			    (unsigned long long)t->ne[1], info->dim);
	info->vocab = t->ne[1];
	info->tied = !gguf_tensor(l->g, "output.weight");
	info->file_bytes = gguf_file_size(l->g);
	return 0;
}

int model_probe(const struct gguf *g, struct model_info *info, char *err,
		size_t errlen)
{
	struct loader l = { .g = g, .err = err, .errlen = errlen };

	return read_shape(&l, info);
}

/* ---- tensors ---------------------------------------------------------- */

static int get_matrix(const struct loader *l, const char *name, uint32_t cols,
		      uint32_t rows, struct matrix *out)
{
	const struct gguf_tensor *t = gguf_tensor(l->g, name);

	if (!t)
		return fail(l, -EINVAL,
			    "tensor %s is missing: the file is not a whole model",
			    name);
	if (t->ndim != 2 || t->ne[0] != cols || t->ne[1] != rows)
		return fail(l, -EINVAL,
			    "tensor %s has %llu x %llu elements instead of %u x %u: the file is damaged",
			    name, (unsigned long long)t->ne[0],
			    (unsigned long long)t->ne[1], cols, rows);
	*out = (struct matrix){
		.data = t->data,
		.row_bytes = t->nbytes / rows,
		.type = t->type,
		.rows = rows,
		.cols = cols,
	};
	return 0;
}

static int get_vector(const struct loader *l, const char *name, uint32_t n,
		      float **out)
{
	const struct gguf_tensor *t = gguf_tensor(l->g, name);

	if (!t)
		return fail(l, -EINVAL,
			    "tensor %s is missing: the file is not a whole model",
			    name);
	if (t->nelem != n)
		return fail(l, -EINVAL,
			    "tensor %s has %llu elements instead of %u: the file is damaged",
			    name, (unsigned long long)t->nelem, n);
	*out = malloc(n * sizeof(**out));
	if (!*out || gguf_dequant(t->type, t->data, n, *out))
		return fail(l, -ENOMEM, "out of memory for tensor %s", name);
	return 0;
}

static const char *const layer_parts[] = {
	"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm",
	"ffn_gate", "ffn_up", "ffn_down",
};
#define NPARTS (sizeof(layer_parts) / sizeof(*layer_parts))

static int get_layer(const struct loader *l, struct model *m, uint32_t i)
{
	const struct model_info *s = &m->info;
	uint32_t q = s->q_heads * s->head_dim, kv = s->kv_heads * s->head_dim;
	struct layer *y = &m->layers[i];
	const struct {
		uint32_t cols;
		uint32_t rows;		/* 0: a vector */
		void *out;
	} shape[NPARTS] = {
		{ s->dim, 0, &y->attn_norm },
		{ s->dim, q, &y->q },
		{ s->dim, kv, &y->k },
		{ s->dim, kv, &y->v },
		{ q, s->dim, &y->o },
		{ s->dim, 0, &y->ffn_norm },
		{ s->dim, s->ff_dim, &y->gate },
		{ s->dim, s->ff_dim, &y->up },
		{ s->ff_dim, s->dim, &y->down },
	};
	char name[64];
	unsigned int p;
	int ret;

	for (p = 0; p < NPARTS; p++) {
		snprintf(name, sizeof(name), "blk.%u.%s.weight", i,
			 layer_parts[p]);
		if (shape[p].rows)
			ret = get_matrix(l, name, shape[p].cols, shape[p].rows,
					 shape[p].out);
		else
			ret = get_vector(l, name, shape[p].cols, shape[p].out);
		if (ret)
			return ret;
	}
	return 0;
}

static bool is_known(const struct model *m, const char *name)
{
	static const char *const others[] = {
		"token_embd.weight", "output_norm.weight", "output.weight",
		"rope_freqs.weight",
	};
	char buf[64];
	unsigned int i, p;

	for (i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (!strcmp(name, others[i]))
			return true;
	if (sscanf(name, "blk.%u.", &i) != 1 || i >= m->info.nlayers)
		return false;
	for (p = 0; p < NPARTS; p++) {
		snprintf(buf, sizeof(buf), "blk.%u.%s.weight", i,
			 layer_parts[p]);
		if (!strcmp(name, buf))
			return true;
	}
	return false;
}

static int get_tensors(const struct loader *l, struct model *m)
{
	const struct model_info *s = &m->info;
	unsigned int i;
	int ret;

	for (i = 0; i < gguf_ntensors(l->g); i++)
		if (!is_known(m, gguf_tensor_at(l->g, i)->name))
			return fail(l, -EOPNOTSUPP,
				    "tensor %s is not part of the llama models that are supported",
				    gguf_tensor_at(l->g, i)->name);
	ret = get_matrix(l, "token_embd.weight", s->dim, s->vocab, &m->embed);
	if (!ret)
		ret = get_vector(l, "output_norm.weight", s->dim,
				 &m->output_norm);
	m->output = m->embed;
	if (!ret && !s->tied)
		ret = get_matrix(l, "output.weight", s->dim, s->vocab,
				 &m->output);
	if (!ret && gguf_tensor(l->g, "rope_freqs.weight"))
		ret = get_vector(l, "rope_freqs.weight", m->rot_dim / 2,
				 &m->rope_factors);
	for (i = 0; !ret && i < s->nlayers; i++)
		ret = get_layer(l, m, i);
	return ret;
}

static int get_rest(const struct loader *l, struct model *m)
{
	double eps = 0;
	int ret;

	ret = number(l, "llama.attention.layer_norm_rms_epsilon", &eps);
	if (ret)
		return ret;
	if (eps == 0)
		return fail(l, -EINVAL,
			    "llama.attention.layer_norm_rms_epsilon is missing: the file does not describe a whole model");
	m->eps = eps;
	m->rot_dim = m->info.head_dim;
	ret = optional(l, "llama.rope.dimension_count", m->info.head_dim,
		       &m->rot_dim);
	if (ret)
		return ret;
	if (m->rot_dim % 2)
		return fail(l, -EINVAL,
			    "llama.rope.dimension_count is %u, not even: the file is damaged",
			    m->rot_dim);
	return 0;
}

/* Have the file's pages in memory, and count. */
static void read_weights(const struct loader *l, const struct model_opts *opts,
			 struct model *m)
{
	unsigned int i, n = gguf_ntensors(l->g);
	const struct gguf_tensor *t;
	volatile uint8_t sink;
	uint64_t at;

	for (i = 0; i < n; i++) {
		t = gguf_tensor_at(l->g, i);
		for (at = 0; at < t->nbytes; at += 4096)
			sink = ((const uint8_t *)t->data)[at];
		m->info.params += t->nelem;
		m->info.weight_bytes += t->nbytes;
		if (t->data == m->embed.data && !m->info.tied)
			m->info.weight_bytes -= t->nbytes;
		if (opts && opts->progress)
			opts->progress(opts->arg, (i + 1.0) / n);
	}
	(void)sink;
}

/* Everything that can be refused, and nothing that takes long. */
static int prepare(const struct loader *l, enum model_weights weights,
		   struct model *m)
{
	int ret;

	ret = read_shape(l, &m->info);
	if (!ret)
		ret = get_rest(l, m);
	if (ret)
		return ret;
	m->layers = calloc(m->info.nlayers, sizeof(*m->layers));
	if (!m->layers)
		return fail(l, -ENOMEM, "out of memory");
	ret = get_tensors(l, m);
	if (ret)
		return ret;
	if (weights == MODEL_WEIGHTS_AUTO)
		weights = matmul_has_bf16() ? MODEL_WEIGHTS_BF16 :
					      MODEL_WEIGHTS_F32;
	ret = matmul_create(m->threads, weights == MODEL_WEIGHTS_BF16 ?
			    MATMUL_BF16 : MATMUL_F32, &m->mm);
	if (ret)
		return fail(l, ret, ret == -EOPNOTSUPP ?
			    "this CPU has no bf16 products, or not what KVATTN_ISA names" :
			    "out of memory");
	snprintf(m->products, sizeof(m->products), "%s %s, onednn %s",
		 gguf_type_name(m->layers[0].q.type), matmul_isa(m->mm),
		 weights == MODEL_WEIGHTS_BF16 ? "bf16" : "f32");
	return 0;
}

int model_check(const struct gguf *g, enum model_weights weights, char *err,
		size_t errlen)
{
	struct loader l = { .g = g, .err = err, .errlen = errlen };
	struct model *m = calloc(1, sizeof(*m));
	int ret;

	if (!m)
		return fail(&l, -ENOMEM, "out of memory");
	ret = prepare(&l, weights, m);
	model_free(m);
	return ret;
}

int model_load(const struct gguf *g, const struct model_opts *opts,
	       struct kva_threads *threads, struct model **out, char *err,
	       size_t errlen)
{
	struct loader l = { .g = g, .err = err, .errlen = errlen };
	struct model *m = calloc(1, sizeof(*m));
	int ret;

	if (!m)
		return fail(&l, -ENOMEM, "out of memory");
	m->threads = threads;
	ret = prepare(&l, opts ? opts->weights : MODEL_WEIGHTS_AUTO, m);
	if (ret) {
		model_free(m);
		return ret;
	}
	read_weights(&l, opts, m);
	*out = m;
	return 0;
}
