/* SPDX-License-Identifier: MIT */
/*
 * tokenizer_priv.h - what tokenizer_load.c makes and tokenizer.c uses.
 */
#ifndef TOKENIZER_PRIV_H
#define TOKENIZER_PRIV_H

#include "bpe.h"
#include "tokenizer.h"

struct pretok;

/* Kinds of tokens, with the file format's numbers. */
enum token_kind {
	TOKEN_NORMAL = 1,
	TOKEN_UNKNOWN = 2,
	TOKEN_CONTROL = 3,
	TOKEN_USER = 4,		/* a word that was added to the vocabulary */
	TOKEN_UNUSED = 5,
	TOKEN_BYTE = 6,
};

#define TOKEN_KIND 0x0f
#define TOKEN_END 0x10

/**
 * struct tokenizer - a vocabulary and how texts are cut into it
 * @size: tokens
 * @bytes: the bytes of all tokens after each other
 * @start: [@size + 1] where each begins in @bytes
 * @flags: [@size] enum token_kind, TOKEN_END
 * @ids: bytes to id, of tokens that merges can give
 * @bpe: merges
 * @pretok: the pre-tokenizer; NULL: characters are joined by score
 * @space_first: then: a space goes before a text, and behind a control token
 * @special: [@nspecial] ids of control and user tokens, by their bytes
 * @nspecial: their number
 * @first: @special[@first[b]] to @special[@first[b + 1]] begin with byte b
 * @bos: id or TOKEN_NONE
 * @eos: id or TOKEN_NONE
 * @add_bos: texts begin with @bos
 */
struct tokenizer {
	uint32_t size;
	char *bytes;
	size_t *start;
	uint8_t *flags;
	struct strmap ids;
	struct bpe bpe;
	struct pretok *pretok;
	bool space_first;
	uint32_t *special;
	uint32_t nspecial;
	uint32_t first[257];
	uint32_t bos;
	uint32_t eos;
	bool add_bos;
};

static inline const char *token_bytes(const struct tokenizer *t, uint32_t id,
				      size_t *len)
{
	*len = t->start[id + 1] - t->start[id];
	return t->bytes + t->start[id];
}

size_t token_spaces(const char *s, size_t len, char *out);

#endif /* TOKENIZER_PRIV_H */
