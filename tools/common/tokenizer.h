/* SPDX-License-Identifier: MIT */
/*
 * tokenizer.h - the tokenizer that a GGUF file describes: byte-level BPE
 * ("gpt2"), or characters that join by score ("llama", as SentencePiece has).
 *
 * Texts are not normalised, but that the second kind knows one space only:
 * U+2581 is read as U+0020, and some vocabularies put one before a text.
 * A tokenizer may be used by any number of threads.
 */
#ifndef TOKENIZER_H
#define TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gguf;
struct tokenizer;

#define TOKEN_NONE UINT32_MAX

/**
 * tokenizer_create() - from a model file's keys
 * @g: the file; only read during this call
 * @out: for tokenizer_destroy()
 * @err: set on failure to one line that names the thing and the remedy
 * @errlen: its size
 *
 * Return: 0; -EINVAL keys missing or contradictory; -EOPNOTSUPP a tokenizer
 * or pre-tokenizer that is not known; -ENOMEM.
 */
int tokenizer_create(const struct gguf *g, struct tokenizer **out, char *err,
		     size_t errlen);
void tokenizer_destroy(struct tokenizer *t);

uint32_t tokenizer_size(const struct tokenizer *t);
/* Ids, or TOKEN_NONE. */
uint32_t tokenizer_bos(const struct tokenizer *t);
uint32_t tokenizer_eos(const struct tokenizer *t);
bool tokenizer_add_bos(const struct tokenizer *t);
/* Ends a turn or a text: generation stops after it. */
bool tokenizer_is_end(const struct tokenizer *t, uint32_t id);
/* Id of a control or user-defined token by its text, or TOKEN_NONE. */
uint32_t tokenizer_special(const struct tokenizer *t, const char *text);

/**
 * tokenizer_encode() - text to ids
 * @t: the tokenizer
 * @text: UTF-8; bytes that are not are refused
 * @len: bytes of @text
 * @special: recognise special tokens in the text
 * @out: room for @cap ids; @len + 1 is always enough
 * @cap: see there
 *
 * Adds no BOS. Return: number of ids; -EILSEQ not UTF-8; -EMSGSIZE @cap is
 * too small; -ENOMEM.
 */
int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
		     bool special, uint32_t *out, size_t cap);

/**
 * tokenizer_piece() - the bytes of one token
 * @t: the tokenizer
 * @id: the token
 * @len: set to the number of bytes
 *
 * A token may end within a character. Special tokens give their text.
 * Return: the bytes, owned by @t; NULL for an id out of range.
 */
const char *tokenizer_piece(const struct tokenizer *t, uint32_t id,
			    size_t *len);
bool tokenizer_is_special(const struct tokenizer *t, uint32_t id);

#endif /* TOKENIZER_H */
