/* SPDX-License-Identifier: MIT */
/*
 * bpe.h - byte pair encoding: join neighbouring tokens, the best-ranked pair
 * first, the leftmost of equals, until no pair can be joined (Sennrich et al.,
 * arXiv:1508.07909). On bytes, with a list of merges; or on characters, where
 * whatever joins to a word may be joined, the word with the highest score first
 * (Kudo and Richardson, arXiv:1808.06226).
 */
#ifndef BPE_H
#define BPE_H

#include <stddef.h>
#include <stdint.h>

#include "strmap.h"

/* Two tokens and what they join to. @left and @right are the key of a map. */
struct bpe_merge {
	uint32_t left;
	uint32_t right;
	uint32_t result;
};

/**
 * struct bpe - merges
 * @byte_id: the token of each byte, or UINT32_MAX; set by the user
 * @unknown: for bpe_encode_words(): the token of a character that is no word
 *           and one of whose bytes has no token, or UINT32_MAX; set by the user
 * @merges: by rank; owned
 * @rank: pair to rank
 * @words: or the tokens that characters may join to
 * @word_rank: with @words: rank of each token; owned
 */
struct bpe {
	uint32_t byte_id[256];
	uint32_t unknown;
	struct bpe_merge *merges;
	struct strmap rank;
	const struct strmap *words;
	uint32_t *word_rank;
};

struct bpe_symbol;

/**
 * struct bpe_scratch - memory that words after each other share
 * @sym: symbols of the word
 * @heap: pairs that can be joined
 * @cap: bytes of a word that both have room for
 *
 * Begins as zeros; bpe_scratch_free() at the end.
 */
struct bpe_scratch {
	struct bpe_symbol *sym;
	uint64_t *heap;
	size_t cap;
};

/**
 * bpe_init() - index merges
 * @b: for bpe_free(), which may be called after a failure too
 * @merges: [@n] by rank, from malloc(); owned by @b whatever is returned. Of
 *          equal pairs the first counts
 * @n: their number
 *
 * Return: 0 or -errno.
 */
int bpe_init(struct bpe *b, struct bpe_merge *merges, uint32_t n);
/**
 * bpe_init_words() - for bpe_encode_words()
 * @b: for bpe_free()
 * @words: bytes to token; must outlive @b
 * @scores: [@n] of the tokens, no NaN
 * @n: their number
 *
 * Return: 0 or -ENOMEM.
 */
int bpe_init_words(struct bpe *b, const struct strmap *words,
		   const float *scores, uint32_t n);
void bpe_free(struct bpe *b);

/**
 * bpe_encode() - one word
 * @b: merges
 * @s: scratch
 * @word: @len bytes, 1 to INT32_MAX
 * @len: see there
 * @out: room for @cap ids; @len is always enough
 * @cap: see there
 *
 * Time grows as @len log @len.
 * Return: number of ids; -EDOM a byte has no token; -EMSGSIZE @cap is too
 * small; -ENOMEM.
 */
int bpe_encode(const struct bpe *b, struct bpe_scratch *s, const char *word,
	       size_t len, uint32_t *out, size_t cap);
/**
 * bpe_encode_words() - a text without a list of merges
 * @b: of bpe_init_words()
 * @s: scratch
 * @text: @len bytes of UTF-8, 1 to INT32_MAX
 * @len: see there
 * @out: as bpe_encode()
 * @cap: see there
 *
 * A character that joins to nothing and is no word is encoded as its bytes.
 * Return: as bpe_encode(), where -EDOM is a character of which neither is
 * possible and @b has no token for those.
 */
int bpe_encode_words(const struct bpe *b, struct bpe_scratch *s,
		     const char *text, size_t len, uint32_t *out, size_t cap);
void bpe_scratch_free(struct bpe_scratch *s);

#endif /* BPE_H */
