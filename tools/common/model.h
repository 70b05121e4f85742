/* SPDX-License-Identifier: MIT */
/*
 * model.h - the forward pass of a decoder on libkvcache's pages: llama, qwen2,
 * qwen3, gemma3.
 *
 * Embedding, RMS norm, projections, attention through kvc_append() and
 * kvc_attend(), a gated feed-forward part, logits. All keys and values go
 * through the library; this file keeps none.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <kvcache/kvcache.h>

struct gguf;
struct model;
struct kva_threads;

/*
 * Arithmetic of products with more rows than matmul.h's MATMUL_FEW, which is
 * what prompts consist of. Fewer rows are exact in every mode, so that only in
 * f32 mode do a prompt in one piece and the same tokens one by one agree.
 */
enum model_weights {
	MODEL_WEIGHTS_AUTO,	/* the fastest on this CPU */
	MODEL_WEIGHTS_F32,	/* exact: the file's values, f32 arithmetic */
	MODEL_WEIGHTS_BF16,	/* both factors rounded to bf16 */
};

/**
 * struct model_info - the shape of a model
 * @arch: "llama", "qwen2", "qwen3" or "gemma3"
 * @name: general.name of the file, or ""
 * @nlayers: layers
 * @dim: elements of a hidden state
 * @ff_dim: elements inside the feed-forward part
 * @q_heads: query heads
 * @kv_heads: KV heads
 * @head_dim: elements of a head's row
 * @vocab: tokens
 * @context: longest sequence that it was made for
 * @rope_kind: enum kvc_rope_kind
 * @rope_base: base of the rotary embedding
 * @rope_scale: factor of positions (1: no linear scaling)
 * @window: tokens that a row sees in most layers; 0: all, in every layer
 * @period: with a window: every @period-th layer sees all
 * @window_base: @rope_base of the layers with a window; positions are not
 *               scaled there
 * @attn_scale: factor of the scores
 * @softcap: bound of the logits, or 0
 * @tied: the output matrix is the embedding
 * @params: number of parameters
 * @weight_bytes: bytes that one decode step reads of the weights as loaded
 * @file_bytes: size of the file
 */
struct model_info {
	char arch[32];
	char name[128];
	uint32_t nlayers;
	uint32_t dim;
	uint32_t ff_dim;
	uint32_t q_heads;
	uint32_t kv_heads;
	uint32_t head_dim;
	uint32_t vocab;
	uint32_t context;
	uint32_t rope_kind;
	uint32_t window;
	uint32_t period;
	double rope_base;
	double rope_scale;
	double window_base;
	double attn_scale;
	double softcap;
	bool tied;
	uint64_t params;
	uint64_t weight_bytes;
	uint64_t file_bytes;
};

/**
 * struct model_opts - how to load
 * @weights: enum model_weights
 * @progress: called with the share done, 0 to 1; or NULL
 * @arg: for @progress
 */
struct model_opts {
	enum model_weights weights;
	void (*progress)(void *arg, double done);
	void *arg;
};

/* Do this layer's rows see a window only? */
static inline bool model_is_local(const struct model_info *info, uint32_t layer)
{
	return info->window && (layer + 1) % info->period;
}

/* The shape alone, without loading weights. Errors as model_load(). */
int model_probe(const struct gguf *g, struct model_info *info, char *err,
		size_t errlen);

/* What model_load() would refuse, without loading weights. */
int model_check(const struct gguf *g, enum model_weights weights, char *err,
		size_t errlen);

/**
 * model_load() - a model, whose weights stay in the file's mapping
 * @g: the file; must stay open while the model lives
 * @opts: options, or NULL
 * @threads: for loading and for every later forward pass; NULL for none
 * @out: for model_free()
 * @err: set on failure to one line that names the thing and the remedy
 * @errlen: its size
 *
 * Return: 0; -EOPNOTSUPP an architecture without a decode loop, or one that
 * is not known; -EINVAL keys or tensors missing or of wrong shape; -ENOMEM.
 */
int model_load(const struct gguf *g, const struct model_opts *opts,
	       struct kva_threads *threads, struct model **out, char *err,
	       size_t errlen);
void model_free(struct model *m);

const struct model_info *model_info(const struct model *m);
/* What multiplies, as "q4_1 avx512, onednn bf16". */
const char *model_products(const struct model *m);

/**
 * struct model_groups - what a description of a cache points to
 * @group: layers that see all first, if there are any, then those with a window
 * @layer_group: group of each layer
 */
struct model_groups {
	struct kvc_group group[2];
	uint8_t layer_group[KVC_MAX_LAYERS];
};

/**
 * model_cache() - the model's description for kvc_cache_create()
 * @info: of model_probe() or model_info()
 * @k_type: KVC_F32, _F16, _BF16
 * @v_type: likewise
 * @id: [32] identifies the weights, or NULL for zeros
 * @groups: storage for the groups that the result points to
 * @out: the description
 */
void model_cache(const struct model_info *info, uint32_t k_type,
		 uint32_t v_type, const uint8_t *id,
		 struct model_groups *groups, struct kvc_model *out);

/* How the keys of each of these groups are rotated, for kvc_seq_remove(). */
void model_rotation(const struct model *m, struct kvc_rotation rot[2]);

/**
 * model_forward() - one step of a batch
 * @m: the model
 * @b: a planned batch of this model's cache; the caller commits it
 * @tokens: [rows] ids of the batch's rows, in the batch's order
 * @rows: number of rows
 * @want: [nwant] rows whose logits are wanted, ascending
 * @nwant: their number; may be 0
 * @logits: [nwant][vocab]
 *
 * Scratch grows with @rows and stays with the model: long prompts are best
 * given in pieces of up to 2,048 rows.
 * Return: 0; -EINVAL a token or row out of range; -EOVERFLOW a position beyond
 * the model's context; -ENOMEM; or what kvc_append() and kvc_attend() say. On
 * failure the caller aborts the batch.
 */
int model_forward(struct model *m, struct kvc_batch *b, const uint32_t *tokens,
		  uint32_t rows, const uint32_t *want, uint32_t nwant,
		  float *logits);

/**
 * model_recompute() - one pass over a whole text that keeps nothing
 * @m: the model
 * @tokens: [n] the text
 * @n: its length
 * @want: [nwant] positions whose logits are wanted, ascending
 * @nwant: their number
 * @logits: [nwant][vocab]; or NULL with @each
 * @each: called for each wanted position with its logits, or NULL
 * @arg: for @each
 *
 * Keys and values are f32 in scratch memory of this call: no page is held.
 * Return: 0; -EINVAL, -EOVERFLOW, -ENOMEM as model_forward().
 */
int model_recompute(struct model *m, const uint32_t *tokens, uint32_t n,
		    const uint32_t *want, uint32_t nwant, float *logits,
		    void (*each)(void *arg, uint32_t pos, const float *logits),
		    void *arg);

/**
 * struct model_counters - work done since loading
 * @forwarded: token positions that went through the layers
 * @appended: positions whose K and V were appended to pages, each layer once
 * @logit_rows: rows of logits computed
 */
struct model_counters {
	uint64_t forwarded;
	uint64_t appended;
	uint64_t logit_rows;
};

void model_counters(const struct model *m, struct model_counters *out);

#endif /* MODEL_H */
