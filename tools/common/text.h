/* SPDX-License-Identifier: MIT */
/*
 * text.h - text that arrives as bytes of tokens, which may end within a
 * character.
 */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>

/**
 * struct text - text so far: whole characters, then a held-back rest
 * @s: bytes; the first @done of them are UTF-8
 * @len: bytes
 * @done: bytes in whole characters
 * @cap: room at @s
 */
struct text {
	char *s;
	size_t len;
	size_t done;
	size_t cap;
};

/**
 * text_add() - add bytes
 * @t: the text
 * @bytes: @len of them
 * @len: their number
 *
 * What can be no part of a character becomes U+FFFD; what may still become
 * one is held back.
 */
void text_add(struct text *t, const char *bytes, size_t len);
/* Nothing follows: a held-back rest becomes U+FFFD. */
void text_end(struct text *t);
/* Empty again. */
void text_reset(struct text *t);
void text_free(struct text *t);

/* Offset of the first byte that is not UTF-8, or @len. */
size_t utf8_check(const char *s, size_t len);

#endif /* TEXT_H */
