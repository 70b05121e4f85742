/* SPDX-License-Identifier: MIT */
/*
 * engine.h - everything that is opened once: the model file, its tokenizer,
 * the pool, the cache, the weights.
 */
#ifndef RUN_ENGINE_H
#define RUN_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "chat.h"
#include "model.h"
#include "options.h"
#include "tiers.h"

/**
 * struct engine - what a run works with
 * @opts: the options
 * @gguf: the model file
 * @info: its shape
 * @tok: its tokenizer, or NULL if it has none that is known and only ids are
 *       given
 * @tok_err: then, why
 * @chat: its chat template, if @has_chat
 * @has_chat: it is an instruct model and --raw is not given
 * @ctx_len: tokens that a conversation may have
 * @groups: see @shape
 * @shape: what the cache is for
 * @copts: how
 * @k_scales: [layers] of --kv-scales, or NULL
 * @v_scales: the same of values
 * @file_id: digest of the model file, where it was wanted
 * @kvc: the backend
 * @cache: the model's cache
 * @tiers: what is under the cache
 * @page_size: bytes in a page
 * @id_s: seconds that it took to tell the weights from others
 * @model: the weights
 */
struct engine {
	const struct options *opts;
	struct gguf *gguf;
	struct model_info info;
	struct tokenizer *tok;
	char tok_err[256];
	struct chat chat;
	bool has_chat;
	uint32_t ctx_len;
	struct model_groups groups;
	struct kvc_model shape;
	struct kvc_cache_opts copts;
	float *k_scales;
	float *v_scales;
	uint8_t file_id[32];
	struct kvc *kvc;
	struct kvc_cache *cache;
	struct tiers tiers;
	uint64_t page_size;
	double id_s;
	struct model *model;
};

/* In this order; each returns 0, or -1 after a complaint. */
int engine_open(struct engine *e, const struct options *opts);
int engine_pool(struct engine *e);
int engine_load(struct engine *e);
void engine_close(struct engine *e);

/* What a cache with these types is for; @id of the weights, or NULL. */
void engine_shape(const struct engine *e, int k_type, int v_type,
		  const uint8_t *id, struct model_groups *groups,
		  struct kvc_model *out);
/* One more cache in the same pool: 0, or -1 after a complaint. */
int engine_cache(const struct engine *e, const struct kvc_model *shape,
		 struct kvc_cache **out);

/* The pool is this process's: options say how large it is. */
bool engine_local(const struct engine *e);

/**
 * struct limits - what bounds the pages of this program
 * @pool_pages: pages of the pool
 * @max_pages: pages that its tenant may own, or KVCACHE_LIMIT_MAX
 * @tenant: the tenant's name, or ""
 */
struct limits {
	uint64_t pool_pages;
	uint64_t max_pages;
	char tenant[KVCACHE_NAME_LEN];
};

void engine_limits(const struct engine *e, struct limits *out);
/* Pages in use above the tenant's max, which was lowered. */
uint64_t engine_excess(const struct engine *e);

/**
 * engine_pages() - pages of the pool that are in use
 * @e: the engine
 * @held: by conversations, each once however many share it
 * @cached: by none, findable
 * @allocs: handed out since the pool was made
 */
void engine_pages(const struct engine *e, uint64_t *held, uint64_t *cached,
		  uint64_t *allocs);

#endif /* RUN_ENGINE_H */
