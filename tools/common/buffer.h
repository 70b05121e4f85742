/* SPDX-License-Identifier: MIT */
/* buffer.h - text that grows, written fast. */
#ifndef BUFFER_H
#define BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * struct buffer - text so far; all zeros is an empty one
 * @s: [@len] bytes, without a NUL; to be freed
 * @len: bytes
 * @cap: room at @s
 * @failed: there was no memory: nothing is added any more
 */
struct buffer {
	char *s;
	size_t len;
	size_t cap;
	bool failed;
};

void buffer_add(struct buffer *b, const char *s, size_t len);
void buffer_text(struct buffer *b, const char *s);
void buffer_u64(struct buffer *b, uint64_t v);

#endif /* BUFFER_H */
