// SPDX-License-Identifier: MIT
/*
 * buffer.c - text that grows.
 */
#include <stdlib.h>
#include <string.h>

#include "buffer.h"

static bool reserve(struct buffer *b, size_t more)
{
	size_t cap;
	char *s;

	if (b->failed)
		return false;
	if (more <= b->cap - b->len)
		return true;
	cap = 2 * (b->len + more) + 256;
	s = realloc(b->s, cap);
	if (!s) {
		b->failed = true;
		return false;
	}
	b->s = s;
	b->cap = cap;
	return true;
}

void buffer_add(struct buffer *b, const char *s, size_t len)
{
	if (!len || !reserve(b, len))
		return;
	memcpy(b->s + b->len, s, len);
	b->len += len;
}

void buffer_text(struct buffer *b, const char *s)
{
	buffer_add(b, s, strlen(s));
}

void buffer_u64(struct buffer *b, uint64_t v)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = '0' + v % 10;
		v /= 10;
	} while (v);
	buffer_add(b, digits + at, sizeof(digits) - at);
}
