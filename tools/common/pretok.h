/* SPDX-License-Identifier: MIT */
/*
 * pretok.h - cut a text into the pieces that byte-level BPE works on.
 *
 * A model file names its pre-tokenizer; each is a list of regular expressions
 * that are applied one after the other.
 */
#ifndef PRETOK_H
#define PRETOK_H

#include <stdbool.h>
#include <stddef.h>

struct pretok;

/**
 * pretok_create() - by the name in a model file
 * @name: such as "smollm", @len bytes
 * @len: see there
 * @out: for pretok_destroy()
 *
 * Return: 0; -EOPNOTSUPP a name that is not known; -ENOMEM.
 */
int pretok_create(const char *name, size_t len, struct pretok **out);
void pretok_destroy(struct pretok *p);

/* The i-th name that is known, or NULL. */
const char *pretok_name(unsigned int i);

/* Pieces that are tokens are taken whole, whatever the merges say. */
bool pretok_whole_words(const struct pretok *p);
/* Texts begin with BOS unless the file says otherwise. */
bool pretok_add_bos(const struct pretok *p);

/**
 * pretok_split() - call @piece for each piece of a text, in order
 * @p: the pre-tokenizer
 * @text: valid UTF-8, @len bytes
 * @len: see there
 * @piece: gets @arg and a piece of at least one byte; what it returns, if
 *         not 0, ends the split
 * @arg: for @piece
 *
 * Return: 0, -ENOMEM, or what @piece returned.
 */
int pretok_split(const struct pretok *p, const char *text, size_t len,
		 int (*piece)(void *arg, const char *s, size_t len),
		 void *arg);

#endif /* PRETOK_H */
