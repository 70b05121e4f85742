// SPDX-License-Identifier: MIT
/*
 * text.c - whole characters out of the bytes of tokens.
 */
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "utf8.h"
#include "util.h"

size_t utf8_check(const char *s, size_t len)
{
	size_t at = 0;
	uint32_t cp;
	int n;

	while (at < len) {
		n = utf8_decode(s + at, len - at, &cp);
		if (n < 0)
			break;
		at += n;
	}
	return at;
}

/* More bytes may make a character of these, which are none. */
static bool incomplete(const char *s, size_t len)
{
	unsigned char c = s[0];
	size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2, i;

	if (c < 0xc2 || c > 0xf4 || len >= n)
		return false;
	for (i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return false;
	return true;
}

/* Room for @more bytes and what replaces the byte at @done. */
static void reserve(struct text *t, size_t more)
{
	if (t->len + more + 3 <= t->cap)
		return;
	t->cap = 2 * (t->len + more) + 64;
	t->s = xrealloc(t->s, t->cap, 1);
}

/* The byte at @done is no part of a character. */
static void replace(struct text *t)
{
	reserve(t, 2);
	memmove(t->s + t->done + 3, t->s + t->done + 1, t->len - t->done - 1);
	memcpy(t->s + t->done, "\xef\xbf\xbd", 3);
	t->len += 2;
	t->done += 3;
}

void text_add(struct text *t, const char *bytes, size_t len)
{
	reserve(t, len);
	memcpy(t->s + t->len, bytes, len);
	t->len += len;
	for (;;) {
		t->done += utf8_check(t->s + t->done, t->len - t->done);
		if (t->done == t->len ||
		    incomplete(t->s + t->done, t->len - t->done))
			return;
		replace(t);
	}
}

void text_end(struct text *t)
{
	if (t->done == t->len)
		return;
	t->len = t->done + 1;
	replace(t);
}

void text_reset(struct text *t)
{
	t->len = 0;
	t->done = 0;
}

void text_free(struct text *t)
{
	free(t->s);
}
