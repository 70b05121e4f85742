// SPDX-License-Identifier: MIT
/*
 * model_shape.c - the shape of a llama-type model in a GGUF file, and what its
 * cache is like. Needs none of the libraries that multiply.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model_file.h"

#define HEAD_DIM_MAX 256	/* of the attention kernels */

int model_refuse(const struct model_file *l, int ret, const char *fmt, ...)
{
	va_list ap;

	if (!l->errlen)
		return ret;
	va_start(ap, fmt);
	vsnprintf(l->err, l->errlen, fmt, ap);
	va_end(ap);
	return ret;
}

/* An integer of 1 to @max; -ENOENT only without a message. */
static int integer(const struct model_file *l, const char *key, uint64_t max,
		   uint32_t *out)
{
	uint64_t v;
	int ret;

	ret = gguf_u64(l->g, key, &v);
	if (ret == -ENOENT)
		return ret;
	if (ret)
		return model_refuse(l, -EINVAL,
			    "%s is not one whole number: this kind of llama model is not supported",
			    key);
	if (v < 1 || v > max)
		return model_refuse(l, -EINVAL,
			    "%s is %llu, not 1 to %llu: the file is damaged or of another kind",
			    key, (unsigned long long)v,
			    (unsigned long long)max);
	*out = v;
	return 0;
}

static int required(const struct model_file *l, const char *key, uint64_t max,
		    uint32_t *out)
{
	int ret = integer(l, key, max, out);

	if (ret == -ENOENT)
		return model_refuse(l, -EINVAL,
			    "%s is missing: the file does not describe a whole model",
			    key);
	return ret;
}

int model_optional(const struct model_file *l, const char *key, uint64_t max,
		   uint32_t *out)
{
	int ret = integer(l, key, max, out);

	return ret == -ENOENT ? 0 : ret;
}

int model_number(const struct model_file *l, const char *key, double *out)
{
	double v;
	int ret;

	ret = gguf_f64(l->g, key, &v);
	if (ret == -ENOENT)
		return 0;
	if (ret || !isfinite(v) || v <= 0)
		return model_refuse(l, -EINVAL,
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

static int check_arch(const struct model_file *l, struct model_info *info)
{
	static const char *const encoders[] = {
		"bert", "nomic-bert", "jina-bert-v2", "modern-bert",
		"neo-bert", "eurobert", "t5encoder",
	};
	struct gguf_str s;
	unsigned int i;

	if (gguf_string(l->g, "general.architecture", &s))
		return model_refuse(l, -EINVAL,
			    "general.architecture is missing: this is not a model file");
	copy_str(info->arch, sizeof(info->arch), s);
	if (!gguf_string(l->g, "general.name", &s))
		copy_str(info->name, sizeof(info->name), s);
	for (i = 0; i < sizeof(encoders) / sizeof(*encoders); i++)
		if (!strcmp(info->arch, encoders[i]))
			return model_refuse(l, -EOPNOTSUPP,
				    "architecture '%s' has no decode loop: it only encodes; take a llama model",
				    info->arch);
	if (strcmp(info->arch, "llama"))
		return model_refuse(l, -EOPNOTSUPP,
			    "architecture '%s' is not supported yet; take a llama model",
			    info->arch);
	return 0;
}

static int read_heads(const struct model_file *l, struct model_info *info)
{
	uint32_t v_dim;
	int ret;

	ret = required(l, "llama.attention.head_count", 1024, &info->q_heads);
	if (ret)
		return ret;
	info->kv_heads = info->q_heads;
	ret = model_optional(l, "llama.attention.head_count_kv", info->q_heads,
		       &info->kv_heads);
	if (ret)
		return ret;
	if (info->q_heads % info->kv_heads)
		return model_refuse(l, -EINVAL,
			    "%u query heads cannot share %u KV heads: the file is damaged",
			    info->q_heads, info->kv_heads);
	info->head_dim = info->dim / info->q_heads;
	ret = model_optional(l, "llama.attention.key_length", HEAD_DIM_MAX,
		       &info->head_dim);
	if (ret)
		return ret;
	v_dim = info->head_dim;
	ret = model_optional(l, "llama.attention.value_length", HEAD_DIM_MAX, &v_dim);
	if (ret)
		return ret;
	if (v_dim != info->head_dim)
		return model_refuse(l, -EOPNOTSUPP,
			    "key_length %u and value_length %u differ: not supported yet",
			    info->head_dim, v_dim);
	if (!info->head_dim || info->head_dim % 16 ||
	    info->head_dim > HEAD_DIM_MAX)
		return model_refuse(l, -EOPNOTSUPP,
			    "head dimension %u is not a multiple of 16 up to %u: not supported yet",
			    info->head_dim, HEAD_DIM_MAX);
	return 0;
}

static int read_rope(const struct model_file *l, struct model_info *info)
{
	char type[16] = "none";
	struct gguf_str s;
	double factor = 1;
	int ret;

	info->rope_base = 10000;
	ret = model_number(l, "llama.rope.freq_base", &info->rope_base);
	/* Files of before rope.scaling had the factor alone. */
	if (!ret)
		ret = model_number(l, "llama.rope.scale_linear", &factor);
	if (!ret)
		ret = model_number(l, "llama.rope.scaling.factor", &factor);
	if (ret)
		return ret;
	if (!gguf_string(l->g, "llama.rope.scaling.type", &s))
		copy_str(type, sizeof(type), s);
	else if (factor != 1)
		strcpy(type, "linear");
	if (!strcmp(type, "none"))
		factor = 1;
	else if (strcmp(type, "linear"))
		return model_refuse(l, -EOPNOTSUPP,
			    "llama.rope.scaling.type '%s' is not supported yet; linear and none are",
			    type);
	info->rope_scale = 1 / factor;
	return 0;
}

int model_shape(const struct model_file *l, struct model_info *info)
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
		return model_refuse(l, -EOPNOTSUPP,
			    "llama.expert_count is %llu: mixtures of experts are not supported yet",
			    (unsigned long long)experts);
	t = gguf_tensor(l->g, "token_embd.weight");
	if (!t)
		return model_refuse(l, -EINVAL,
			    "tensor token_embd.weight is missing: the file is not a whole model");
	if (t->ndim != 2 || t->ne[0] != info->dim || t->ne[1] > 1 << 24)
		return model_refuse(l, -EINVAL,
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
	struct model_file l = { .g = g, .err = err, .errlen = errlen };

	return model_shape(&l, info);
}

void model_cache(const struct model_info *info, uint32_t k_type,
		 uint32_t v_type, const uint8_t *id, struct kvc_group *group,
		 struct kvc_model *out)
{
	*group = (struct kvc_group){
		.kv_heads = info->kv_heads,
		.k_dim = info->head_dim,
		.v_dim = info->head_dim,
		.k_type = k_type,
		.v_type = v_type,
	};
	*out = (struct kvc_model){
		.sz = sizeof(*out),
		.nlayers = info->nlayers,
		.ngroups = 1,
		.groups = group,
		.q_heads = info->q_heads,
	};
	if (id)
		memcpy(out->id, id, sizeof(out->id));
}
