// SPDX-License-Identifier: MIT
/*
 * model_shape.c - the shape of a model in a GGUF file, and what its cache is
 * like. Needs none of the libraries that multiply.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model_file.h"
#include "model_priv.h"

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

/* The whole name of a key. */
struct key {
	char s[96];
};

static const char *key_name(const struct model_file *l, const char *key,
			    struct key *k)
{
	snprintf(k->s, sizeof(k->s), "%s.%s", l->arch->name, key);
	return k->s;
}

/* An integer of 1 to @max; -ENOENT only without a message. */
static int integer(const struct model_file *l, const char *key, uint64_t max,
		   uint32_t *out)
{
	struct key k;
	uint64_t v;
	int ret;

	key = key_name(l, key, &k);
	ret = gguf_u64(l->g, key, &v);
	if (ret == -ENOENT)
		return ret;
	if (ret)
		return model_refuse(l, -EINVAL,
			    "%s is not one whole number: this kind of %s model is not supported",
			    key, l->arch->name);
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
			    "%s.%s is missing: the file does not describe a whole model",
			    l->arch->name, key);
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
	struct key k;
	double v;
	int ret;

	key = key_name(l, key, &k);
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

/* 0 without the key. */
static uint64_t number_or_zero(const struct model_file *l, const char *key)
{
	struct key k;
	uint64_t v;

	return gguf_u64(l->g, key_name(l, key, &k), &v) ? 0 : v;
}

static void copy_str(char *out, size_t size, struct gguf_str s)
{
	size_t n = s.len < size - 1 ? s.len : size - 1;

	memcpy(out, s.s, n);
	out[n] = '\0';
}

static const struct model_arch archs[] = {
	{ "llama", KVC_ROPE_PAIR, 0 },
	{ "qwen2", KVC_ROPE_HALF, ARCH_QKV_BIAS },
	{ "qwen3", KVC_ROPE_HALF, ARCH_QK_NORM },
	{
		"gemma3", KVC_ROPE_HALF,
		ARCH_QK_NORM | ARCH_POST_NORM | ARCH_GELU | ARCH_EMBED_SCALE |
		ARCH_WINDOW,
	},
};
#define ARCH_LIST "llama, qwen2, qwen3 or gemma3"

static int check_arch(struct model_file *l, struct model_info *info)
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
				    "architecture '%s' has no decode loop: it only encodes; take a model of " ARCH_LIST,
				    info->arch);
	for (i = 0; i < sizeof(archs) / sizeof(*archs); i++)
		if (!strcmp(info->arch, archs[i].name))
			l->arch = &archs[i];
	if (!l->arch)
		return model_refuse(l, -EOPNOTSUPP,
			    "architecture '%s' is not supported yet; take a model of " ARCH_LIST,
			    info->arch);
	info->rope_kind = l->arch->rope_kind;
	return 0;
}

static int read_heads(const struct model_file *l, struct model_info *info)
{
	uint32_t v_dim;
	int ret;

	ret = required(l, "attention.head_count", 1024, &info->q_heads);
	if (ret)
		return ret;
	info->kv_heads = info->q_heads;
	ret = model_optional(l, "attention.head_count_kv", info->q_heads,
		       &info->kv_heads);
	if (ret)
		return ret;
	if (info->q_heads % info->kv_heads)
		return model_refuse(l, -EINVAL,
			    "%u query heads cannot share %u KV heads: the file is damaged",
			    info->q_heads, info->kv_heads);
	info->head_dim = info->dim / info->q_heads;
	ret = model_optional(l, "attention.key_length", HEAD_DIM_MAX,
		       &info->head_dim);
	if (ret)
		return ret;
	v_dim = info->head_dim;
	ret = model_optional(l, "attention.value_length", HEAD_DIM_MAX, &v_dim);
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
	struct key k;
	double factor = 1;
	int ret;

	info->rope_base = 10000;
	ret = model_number(l, "rope.freq_base", &info->rope_base);
	/* Files of before rope.scaling had the factor alone. */
	if (!ret)
		ret = model_number(l, "rope.scale_linear", &factor);
	if (!ret)
		ret = model_number(l, "rope.scaling.factor", &factor);
	if (ret)
		return ret;
	if (!gguf_string(l->g, key_name(l, "rope.scaling.type", &k), &s))
		copy_str(type, sizeof(type), s);
	else if (factor != 1)
		strcpy(type, "linear");
	if (!strcmp(type, "none"))
		factor = 1;
	else if (strcmp(type, "linear"))
		return model_refuse(l, -EOPNOTSUPP,
			    "%s '%s' is not supported yet; linear and none are",
			    k.s, type);
	info->rope_scale = 1 / factor;
	return 0;
}

/* Which layers see a window only, and how those rotate. */
static int read_window(const struct model_file *l, struct model_info *info)
{
	int ret = 0;

	info->window_base = 10000;
	info->period = 6;
	if (!(l->arch->traits & ARCH_WINDOW))
		return 0;
	/* 0: none */
	if (number_or_zero(l, "attention.sliding_window"))
		ret = required(l, "attention.sliding_window", 1 << 30,
			       &info->window);
	if (!ret)
		ret = model_optional(l, "attention.sliding_window_pattern",
				     KVC_MAX_LAYERS, &info->period);
	if (!ret)
		ret = model_number(l, "rope.freq_base_swa",
				   &info->window_base);
	return ret;
}

/* Where a file leaves these out, the architecture has a rule. */
static int read_scales(const struct model_file *l, struct model_info *info)
{
	uint32_t rows = info->head_dim;
	double cap = 0;
	int ret;

	/* Gemma 3 with 27B parameters alone divides by another square root. */
	if (l->arch->traits & ARCH_WINDOW && info->nlayers == 62)
		rows = info->dim / info->q_heads;
	info->attn_scale = 1 / sqrt(rows);
	ret = model_number(l, "attention.scale", &info->attn_scale);
	if (!ret)
		ret = model_number(l, "final_logit_softcapping",
				   &info->softcap);
	if (!ret)
		ret = model_number(l, "attn_logit_softcapping", &cap);
	if (!ret && cap)
		return model_refuse(l, -EOPNOTSUPP,
			    "%s.attn_logit_softcapping is %g: scores with a bound are not supported yet",
			    l->arch->name, cap);
	return ret;
}

int model_shape(struct model_file *l, struct model_info *info)
{
	const struct gguf_tensor *t;
	uint64_t experts;
	int ret;

	memset(info, 0, sizeof(*info));
	ret = check_arch(l, info);
	if (!ret)
		ret = required(l, "block_count", KVC_MAX_LAYERS,
			       &info->nlayers);
	if (!ret)
		ret = required(l, "embedding_length", 1 << 17,
			       &info->dim);
	if (!ret)
		ret = required(l, "feed_forward_length", 1 << 20,
			       &info->ff_dim);
	if (!ret)
		ret = required(l, "context_length", 1 << 30,
			       &info->context);
	if (!ret)
		ret = read_heads(l, info);
	if (!ret)
		ret = read_rope(l, info);
	if (!ret)
		ret = read_window(l, info);
	if (!ret)
		ret = read_scales(l, info);
	if (ret)
		return ret;
	experts = number_or_zero(l, "expert_count");
	if (experts)
		return model_refuse(l, -EOPNOTSUPP,
			    "%s.expert_count is %llu: mixtures of experts are not supported yet",
			    l->arch->name, (unsigned long long)experts);
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
		 uint32_t v_type, const uint8_t *id,
		 struct model_groups *groups, struct kvc_model *out)
{
	const struct kvc_group all = {
		.kv_heads = info->kv_heads,
		.k_dim = info->head_dim,
		.v_dim = info->head_dim,
		.k_type = k_type,
		.v_type = v_type,
	};
	uint32_t i, local = 0;

	*groups = (struct model_groups){ .group = { all, all } };
	for (i = 0; i < info->nlayers; i++) {
		groups->layer_group[i] = model_is_local(info, i);
		local += groups->layer_group[i];
	}
	*out = (struct kvc_model){
		.sz = sizeof(*out),
		.nlayers = info->nlayers,
		.ngroups = local && local < info->nlayers ? 2 : 1,
		.groups = groups->group,
		.layer_group = groups->layer_group,
		.q_heads = info->q_heads,
	};
	groups->group[out->ngroups - 1].window = local ? info->window : 0;
	if (out->ngroups == 1)
		memset(groups->layer_group, 0, sizeof(groups->layer_group));
	if (id)
		memcpy(out->id, id, sizeof(out->id));
}

void model_rotation(const struct model *m, struct kvc_rotation rot[2])
{
	const struct model_info *info = &m->info;
	const struct kvc_rotation all = {
		.kind = info->rope_kind,
		.rot_dim = m->rot_dim,
		.base = info->rope_base,
		.scale = info->rope_scale,
		.factors = m->rope_factors,
	};
	const struct kvc_rotation local = {
		.kind = info->rope_kind,
		.rot_dim = m->rot_dim,
		.base = info->window_base,
		.scale = 1,
	};

	rot[0] = all;
	rot[1] = local;
	/* One group, all of whose layers have windows. */
	if (info->window && info->period > info->nlayers)
		rot[0] = local;
}
