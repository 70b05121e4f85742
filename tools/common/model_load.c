// SPDX-License-Identifier: MIT
/*
 * model_load.c - the weights of a model in a GGUF file.
 *
 * A tensor that this forward pass would not use changes what the model says,
 * so a file that has one is refused rather than run wrongly.
 */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <kvattn.h>
#include "gguf.h"
#include "model_file.h"
#include "model_priv.h"

/* ---- tensors ---------------------------------------------------------- */

static int get_matrix(const struct model_file *l, const char *name,
		      uint32_t cols, uint32_t rows, struct matrix *out)
{
	const struct gguf_tensor *t = gguf_tensor(l->g, name);

	if (!t)
		return model_refuse(l, -EINVAL,
			    "tensor %s is missing: the file is not a whole model",
			    name);
	if (t->ndim != 2 || t->ne[0] != cols || t->ne[1] != rows)
		return model_refuse(l, -EINVAL,
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

static int get_vector(const struct model_file *l, const char *name, uint32_t n,
		      float **out)
{
	const struct gguf_tensor *t = gguf_tensor(l->g, name);

	if (!t)
		return model_refuse(l, -EINVAL,
			    "tensor %s is missing: the file is not a whole model",
			    name);
	if (t->nelem != n)
		return model_refuse(l, -EINVAL,
			    "tensor %s has %llu elements instead of %u: the file is damaged",
			    name, (unsigned long long)t->nelem, n);
	*out = malloc(n * sizeof(**out));
	if (!*out || gguf_dequant(t->type, t->data, n, *out))
		return model_refuse(l, -ENOMEM, "out of memory for tensor %s", name);
	return 0;
}

enum size { NONE, DIM, FF, Q, KV, HEAD };

/**
 * struct part - a tensor of a layer
 * @name: behind the layer's number
 * @traits: ARCH_* of which one is needed; 0: every architecture has it
 * @cols: inputs, or elements of a vector
 * @rows: outputs; NONE: a vector
 * @at: where struct layer has it
 */
static const struct part {
	const char *name;
	unsigned int traits;
	enum size cols;
	enum size rows;
	size_t at;
} parts[] = {
#define AT(member) offsetof(struct layer, member)
	{ "attn_norm.weight", 0, DIM, NONE, AT(attn_norm) },
	{ "attn_q.weight", 0, DIM, Q, AT(q) },
	{ "attn_k.weight", 0, DIM, KV, AT(k) },
	{ "attn_v.weight", 0, DIM, KV, AT(v) },
	{ "attn_output.weight", 0, Q, DIM, AT(o) },
	{ "ffn_norm.weight", 0, DIM, NONE, AT(ffn_norm) },
	{ "ffn_gate.weight", 0, DIM, FF, AT(gate) },
	{ "ffn_up.weight", 0, DIM, FF, AT(up) },
	{ "ffn_down.weight", 0, FF, DIM, AT(down) },
	{ "attn_q.bias", ARCH_QKV_BIAS, Q, NONE, AT(q_bias) },
	{ "attn_k.bias", ARCH_QKV_BIAS, KV, NONE, AT(k_bias) },
	{ "attn_v.bias", ARCH_QKV_BIAS, KV, NONE, AT(v_bias) },
	{ "attn_q_norm.weight", ARCH_QK_NORM, HEAD, NONE, AT(q_norm) },
	{ "attn_k_norm.weight", ARCH_QK_NORM, HEAD, NONE, AT(k_norm) },
	{
		"post_attention_norm.weight", ARCH_POST_NORM, DIM, NONE,
		AT(attn_post_norm),
	},
	{
		"post_ffw_norm.weight", ARCH_POST_NORM, DIM, NONE,
		AT(ffn_post_norm),
	},
#undef AT
};
#define NPARTS (sizeof(parts) / sizeof(*parts))

static bool has_part(const struct model_file *l, unsigned int p)
{
	return !parts[p].traits || parts[p].traits & l->arch->traits;
}

static uint32_t size_of(const struct model_info *s, enum size size)
{
	switch (size) {
	case DIM:
		return s->dim;
	case FF:
		return s->ff_dim;
	case Q:
		return s->q_heads * s->head_dim;
	case KV:
		return s->kv_heads * s->head_dim;
	case HEAD:
		return s->head_dim;
	default:
		return 0;
	}
}

static int get_layer(const struct model_file *l, struct model *m, uint32_t i)
{
	char *y = (char *)&m->layers[i];
	uint32_t cols, rows;
	unsigned int p;
	char name[64];
	int ret;

	for (p = 0; p < NPARTS; p++) {
		if (!has_part(l, p))
			continue;
		snprintf(name, sizeof(name), "blk.%u.%s", i, parts[p].name);
		cols = size_of(&m->info, parts[p].cols);
		rows = size_of(&m->info, parts[p].rows);
		if (rows)
			ret = get_matrix(l, name, cols, rows,
					 (struct matrix *)(y + parts[p].at));
		else
			ret = get_vector(l, name, cols,
					 (float **)(y + parts[p].at));
		if (ret)
			return ret;
	}
	return 0;
}

void model_layer_free(struct layer *y)
{
	unsigned int p;

	for (p = 0; p < NPARTS; p++)
		if (parts[p].rows == NONE)
			free(*(float **)((char *)y + parts[p].at));
}

static bool is_known(const struct model_file *l, const struct model *m,
		     const char *name)
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
		snprintf(buf, sizeof(buf), "blk.%u.%s", i, parts[p].name);
		if (has_part(l, p) && !strcmp(name, buf))
			return true;
	}
	return false;
}

static int get_tensors(const struct model_file *l, struct model *m)
{
	const struct model_info *s = &m->info;
	unsigned int i;
	int ret;

	for (i = 0; i < gguf_ntensors(l->g); i++)
		if (!is_known(l, m, gguf_tensor_at(l->g, i)->name))
			return model_refuse(l, -EOPNOTSUPP,
				    "tensor %s is not part of the %s models that are supported",
				    gguf_tensor_at(l->g, i)->name,
				    l->arch->name);
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

static int get_rest(const struct model_file *l, struct model *m)
{
	double eps = 0;
	int ret;

	ret = model_number(l, "attention.layer_norm_rms_epsilon", &eps);
	if (ret)
		return ret;
	if (eps == 0)
		return model_refuse(l, -EINVAL,
			    "%s.attention.layer_norm_rms_epsilon is missing: the file does not describe a whole model",
			    l->arch->name);
	m->eps = eps;
	m->rot_dim = m->info.head_dim;
	ret = model_optional(l, "rope.dimension_count", m->info.head_dim,
		       &m->rot_dim);
	if (ret)
		return ret;
	if (m->rot_dim % 2)
		return model_refuse(l, -EINVAL,
			    "%s.rope.dimension_count is %u, not even: the file is damaged",
			    l->arch->name, m->rot_dim);
	m->gelu = l->arch->traits & ARCH_GELU;
	/* Gemma's own code rounds this to bf16; others, as here, do not. */
	m->embed_scale = l->arch->traits & ARCH_EMBED_SCALE ?
			 sqrt(m->info.dim) : 1;
	return 0;
}

/* Have the file's pages in memory, and count. */
static void read_weights(const struct model_file *l,
			 const struct model_opts *opts, struct model *m)
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
static int prepare(struct model_file *l, enum model_weights weights,
		   struct model *m)
{
	int ret;

	ret = model_shape(l, &m->info);
	if (!ret)
		ret = get_rest(l, m);
	if (ret)
		return ret;
	m->layers = calloc(m->info.nlayers, sizeof(*m->layers));
	if (!m->layers)
		return model_refuse(l, -ENOMEM, "out of memory");
	ret = get_tensors(l, m);
	if (ret)
		return ret;
	if (weights == MODEL_WEIGHTS_AUTO)
		weights = matmul_has_bf16() ? MODEL_WEIGHTS_BF16 :
					      MODEL_WEIGHTS_F32;
	ret = matmul_create(m->threads, weights == MODEL_WEIGHTS_BF16 ?
			    MATMUL_BF16 : MATMUL_F32, &m->mm);
	if (ret)
		return model_refuse(l, ret, ret == -EOPNOTSUPP ?
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
	struct model_file l = { .g = g, .err = err, .errlen = errlen };
	struct model *m = calloc(1, sizeof(*m));
	int ret;

	if (!m)
		return model_refuse(&l, -ENOMEM, "out of memory");
	ret = prepare(&l, weights, m);
	model_free(m);
	return ret;
}

int model_load(const struct gguf *g, const struct model_opts *opts,
	       struct kva_threads *threads, struct model **out, char *err,
	       size_t errlen)
{
	struct model_file l = { .g = g, .err = err, .errlen = errlen };
	struct model *m = calloc(1, sizeof(*m));
	int ret;

	if (!m)
		return model_refuse(&l, -ENOMEM, "out of memory");
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
