/* SPDX-License-Identifier: MIT */
/*
 * model_file.h - keys of a model file, and why it is refused.
 */
#ifndef MODEL_FILE_H
#define MODEL_FILE_H

#include "gguf.h"
#include "model.h"

/* What sets architectures apart beside their numbers. */
#define ARCH_QKV_BIAS	(1U << 0)
#define ARCH_QK_NORM	(1U << 1)	/* of each head, before it is rotated */
#define ARCH_POST_NORM	(1U << 2)	/* of what a half layer adds */
#define ARCH_GELU	(1U << 3)
#define ARCH_EMBED_SCALE (1U << 4)	/* embeddings times sqrt(dim) */
#define ARCH_WINDOW	(1U << 5)	/* on most layers, if the file says so */

/**
 * struct model_arch - an architecture
 * @name: in files, where it also begins the names of keys
 * @rope_kind: enum kvc_rope_kind
 * @traits: ARCH_*
 */
struct model_arch {
	const char *name;
	uint32_t rope_kind;
	unsigned int traits;
};

/**
 * struct model_file - a file that is read, and where a refusal is written
 * @g: the file
 * @arch: its architecture, once model_shape() has found it
 * @err: one line
 * @errlen: bytes at @err; 0 for none
 */
struct model_file {
	const struct gguf *g;
	const struct model_arch *arch;
	char *err;
	size_t errlen;
};

/* Write why; returns @ret. */
__attribute__((format(printf, 3, 4)))
int model_refuse(const struct model_file *l, int ret, const char *fmt, ...);
/*
 * An integer of 1 to @max, or a positive number; as it is without the key,
 * whose name the architecture's begins.
 */
int model_optional(const struct model_file *l, const char *key, uint64_t max,
		   uint32_t *out);
int model_number(const struct model_file *l, const char *key, double *out);
int model_shape(struct model_file *l, struct model_info *info);

#endif /* MODEL_FILE_H */
