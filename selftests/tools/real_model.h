/* SPDX-License-Identifier: MIT */
/*
 * real_model.h - the real models that tests use; the others are tiny ones of
 * selftests/data.
 */
#ifndef REAL_MODEL_H
#define REAL_MODEL_H

#include "harness.h"

/* Its path. Without it the test is skipped, with one reason everywhere. */
static inline const char *real_model(void)
{
	const char *path = getenv("KVCACHE_MODEL");

	if (!path || access(path, R_OK))
		SKIP(return NULL, "no model: give KVCACHE_MODEL=SmolLM2-135M-Instruct.Q4_1.gguf, or a network to fetch it");
	return path;
}

/* The same, for tests that compute with it. */
static inline const char *real_model_to_run(void)
{
	if (HT_SANITIZED)
		SKIP(return NULL, "the real model takes too long under a sanitizer; the tiny ones run");
	return real_model();
}

/* Gemma 3 270M, which has windows; nobody is given it who did not ask. */
static inline const char *real_gemma(void)
{
	const char *path = getenv("KVCACHE_GEMMA_MODEL");

	if (!path || access(path, R_OK))
		SKIP(return NULL, "no Gemma 3: make KVCACHE_GEMMA=1 fetches it, under its own terms");
	return path;
}

static inline const char *real_gemma_to_run(void)
{
	if (HT_SANITIZED)
		SKIP(return NULL, "the real model takes too long under a sanitizer; the tiny ones run");
	return real_gemma();
}

#endif /* REAL_MODEL_H */
