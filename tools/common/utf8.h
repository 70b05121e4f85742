/* SPDX-License-Identifier: MIT */
/*
 * utf8.h - check and read UTF-8 (RFC 3629: no surrogates, no overlong forms,
 * nothing past U+10FFFF).
 */
#ifndef UTF8_H
#define UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * utf8_decode() - the first character of a text
 * @s: the text
 * @len: its bytes, at least 1
 * @cp: set to the character
 *
 * Return: bytes of the character, or -EILSEQ.
 */
int utf8_decode(const char *s, size_t len, uint32_t *cp);

bool utf8_valid(const char *s, size_t len);

#endif /* UTF8_H */
