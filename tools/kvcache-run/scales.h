/* SPDX-License-Identifier: MIT */
/*
 * scales.h - scales of keys and values that are measured once and given from
 * then on: what e4m3t wants.
 */
#ifndef RUN_SCALES_H
#define RUN_SCALES_H

#include <stdint.h>

#define SCALES_FORMAT "kvcache-scales"
#define SCALES_VERSION 1

struct engine;

/**
 * scales_read() - scales from a file, kvcache-scales(5)
 * @e: the engine, of which the model's digest is known
 * @path: the file
 * @k: [layers] the scales of keys; 0 where the file has none
 * @v: [layers] the scales of values
 *
 * Which layers need one, the types decide: kvc_cache_create() looks. Return: 0,
 * or -1 after a complaint: the file is another thing, or of another model.
 */
int scales_read(const struct engine *e, const char *path, float *k, float *v);

/* The digest of a model file, as the file has it; valid until the next call. */
const char *scales_hex(const uint8_t id[32]);

#endif /* RUN_SCALES_H */
