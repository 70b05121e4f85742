/* SPDX-License-Identifier: MIT */
/*
 * model_file.h - keys of a model file, and why it is refused.
 */
#ifndef MODEL_FILE_H
#define MODEL_FILE_H

#include "gguf.h"
#include "model.h"

/**
 * struct model_file - a file that is read, and where a refusal is written
 * @g: the file
 * @err: one line
 * @errlen: bytes at @err; 0 for none
 */
struct model_file {
	const struct gguf *g;
	char *err;
	size_t errlen;
};

/* Write why; returns @ret. */
__attribute__((format(printf, 3, 4)))
int model_refuse(const struct model_file *l, int ret, const char *fmt, ...);
/* An integer of 1 to @max, or a positive number; as it is without the key. */
int model_optional(const struct model_file *l, const char *key, uint64_t max,
		   uint32_t *out);
int model_number(const struct model_file *l, const char *key, double *out);
int model_shape(const struct model_file *l, struct model_info *info);

#endif /* MODEL_FILE_H */
