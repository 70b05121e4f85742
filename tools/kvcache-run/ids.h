/* SPDX-License-Identifier: MIT */
/*
 * ids.h - a growing list of token ids.
 */
#ifndef RUN_IDS_H
#define RUN_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tokenizer;

struct ids {
	uint32_t *v;
	uint32_t n;
	uint32_t cap;
};

void ids_push(struct ids *ids, uint32_t id);
/* 0 if a text is UTF-8, or -1 after a complaint about @what. */
int ids_check(const char *text, size_t len, const char *what);
/**
 * ids_text() - append the ids of a text
 * @ids: the list
 * @t: the tokenizer
 * @text: @len bytes
 * @special: recognise special tokens
 * @what: name of the text, for a complaint
 *
 * Return: 0, or -1 after a complaint.
 */
int ids_text(struct ids *ids, const struct tokenizer *t, const char *text,
	     size_t len, bool special, const char *what);
/* Append ids written as "1,5,9", all below @vocab. */
int ids_parse(struct ids *ids, const char *s, uint32_t vocab, const char *what);
void ids_free(struct ids *ids);

#endif /* RUN_IDS_H */
