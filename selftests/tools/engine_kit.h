/* SPDX-License-Identifier: MIT */
/*
 * engine_kit.h - kvcache-run's engine with a tiny model in it, for tests that
 * include its sources.
 */
#ifndef ENGINE_KIT_H
#define ENGINE_KIT_H

#include <kvattn.h>
#include <kvcache/kvcache.h>
#include <kvcache/threads.h>

#include "../../tools/kvcache-run/engine.h"
#include "gguf.h"
#include "harness.h"

#define ENGINE_MODEL "selftests/data/refs/tiny-mha-f16.gguf"
#define ENGINE_PAGE 16384	/* 8 tokens as f32 */

/* Everything f32, 64 pages. @o is the engine's from then on. */
static inline void engine_kit_open(struct engine *e, struct options *o)
{
	const struct model_opts mopts = { .weights = MODEL_WEIGHTS_F32 };
	const struct kvc_cache_opts copts = { .sz = sizeof(copts) };
	const struct kvc_open_opts oopts = {
		.sz = sizeof(oopts), .local_bytes = 64 * ENGINE_PAGE,
		.local_page_size = ENGINE_PAGE,
	};
	char err[256] = "";

	o->k_type = KVA_F32;
	o->v_type = KVA_F32;
	e->opts = o;
	e->page_size = ENGINE_PAGE;
	ASSERT_EQ(0, gguf_open(ENGINE_MODEL, &e->gguf, err, sizeof(err)));
	ASSERT_EQ(0, model_probe(e->gguf, &e->info, err, sizeof(err)));
	ASSERT_EQ(0, kvc_open("local", &oopts, &e->kvc));
	model_cache(&e->info, KVA_F32, KVA_F32, NULL, &e->groups, &e->shape);
	ASSERT_EQ(0, kvc_cache_create(e->kvc, &e->shape, &copts, &e->cache));
	ASSERT_EQ(0, model_load(e->gguf, &mopts, kvc_cache_threads(e->cache),
				&e->model, err, sizeof(err)));
}

static inline void engine_kit_close(struct engine *e)
{
	model_free(e->model);
	kvc_cache_destroy(e->cache);
	kvc_close(e->kvc);
	gguf_close(e->gguf);
}

#endif /* ENGINE_KIT_H */
