// SPDX-License-Identifier: MIT
/*
 * tokenizer.c - texts to tokens and back.
 *
 * A text is first cut at special tokens (the leftmost, of several there the
 * longest), what is between them by the pre-tokenizer, its pieces by merges.
 * Where there is no pre-tokenizer, what is between them is one piece.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pretok.h"
#include "tokenizer_priv.h"
#include "utf8.h"

/* One call of tokenizer_encode(). */
struct encoder {
	const struct tokenizer *t;
	struct bpe_scratch scratch;
	uint32_t *out;
	size_t n;
	size_t cap;
	bool space;		/* one goes before what follows */
};

uint32_t tokenizer_size(const struct tokenizer *t)
{
	return t->size;
}

uint32_t tokenizer_bos(const struct tokenizer *t)
{
	return t->bos;
}

uint32_t tokenizer_eos(const struct tokenizer *t)
{
	return t->eos;
}

bool tokenizer_add_bos(const struct tokenizer *t)
{
	return t->add_bos;
}

bool tokenizer_is_end(const struct tokenizer *t, uint32_t id)
{
	return id < t->size && t->flags[id] & TOKEN_END;
}

bool tokenizer_is_special(const struct tokenizer *t, uint32_t id)
{
	unsigned int kind;

	if (id >= t->size)
		return false;
	kind = t->flags[id] & TOKEN_KIND;
	return kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN ||
	       kind == TOKEN_UNUSED;
}

const char *tokenizer_piece(const struct tokenizer *t, uint32_t id,
			    size_t *len)
{
	return id < t->size ? token_bytes(t, id, len) : NULL;
}

/* The first of special[lo .. hi) that has, at @depth, a byte of at least @c;
 * all of them are longer than @depth and equal before it. */
static uint32_t lower_bound(const struct tokenizer *t, uint32_t lo,
			    uint32_t hi, size_t depth, unsigned int c)
{
	uint32_t mid;
	size_t len;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if ((unsigned char)token_bytes(t, t->special[mid],
					       &len)[depth] < c)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The longest special token that a text begins with, or TOKEN_NONE. */
static uint32_t special_at(const struct tokenizer *t, const char *s,
			   size_t len, bool control, size_t *matched)
{
	unsigned char c = s[0];
	uint32_t lo = t->first[c], hi = t->first[c + 1];
	uint32_t best = TOKEN_NONE, id;
	size_t depth, n;

	for (depth = 1; lo < hi; depth++) {
		/* Those that begin like the text stay; a shorter one sorts
		 * before those that it begins. */
		id = t->special[lo];
		token_bytes(t, id, &n);
		if (n == depth) {
			if (control ||
			    (t->flags[id] & TOKEN_KIND) == TOKEN_USER) {
				best = id;
				*matched = depth;
			}
			lo++;
		}
		if (depth == len)
			break;
		c = s[depth];
		lo = lower_bound(t, lo, hi, depth, c);
		hi = lower_bound(t, lo, hi, depth, c + 1);
	}
	return best;
}

uint32_t tokenizer_special(const struct tokenizer *t, const char *text)
{
	size_t len = strlen(text), matched;
	uint32_t id;

	if (!len)
		return TOKEN_NONE;
	id = special_at(t, text, len, true, &matched);
	return id != TOKEN_NONE && matched == len ? id : TOKEN_NONE;
}

static int emit(struct encoder *e, uint32_t id)
{
	if (e->n == e->cap)
		return -EMSGSIZE;
	e->out[e->n++] = id;
	return 0;
}

static int encode_word(void *arg, const char *s, size_t len)
{
	struct encoder *e = arg;
	uint32_t id;
	int n;

	if (pretok_whole_words(e->t->pretok) &&
	    strmap_find(&e->t->ids, s, len, &id))
		return emit(e, id);
	n = bpe_encode(&e->t->bpe, &e->scratch, s, len, e->out + e->n,
		       e->cap - e->n);
	if (n < 0)
		return n;
	e->n += n;
	return 0;
}

/* U+2581 stands for a space: in files, and so in texts too. @out may be @s. */
size_t token_spaces(const char *s, size_t len, char *out)
{
	static const char mark[] = "\xe2\x96\x81";
	size_t n = 0, i;

	for (i = 0; i < len; n++) {
		if (len - i >= 3 && !memcmp(s + i, mark, 3)) {
			out[n] = ' ';
			i += 3;
		} else {
			out[n] = s[i++];
		}
	}
	return n;
}

static int encode_by_score(struct encoder *e, const char *s, size_t len)
{
	char *text;
	size_t n = 0;
	int ret;

	if (!len)
		return 0;
	text = malloc(len + 1);
	if (!text)
		return -ENOMEM;
	if (e->space)
		text[n++] = ' ';
	n += token_spaces(s, len, text + n);
	ret = bpe_encode_words(&e->t->bpe, &e->scratch, text, n,
			       e->out + e->n, e->cap - e->n);
	free(text);
	if (ret < 0)
		return ret;
	e->n += ret;
	e->space = false;
	return 0;
}

/* What is between special tokens. */
static int encode_plain(struct encoder *e, const char *s, size_t len)
{
	if (!e->t->pretok)
		return encode_by_score(e, s, len);
	return pretok_split(e->t->pretok, s, len, encode_word, e);
}

static int encode_all(struct encoder *e, const char *text, size_t len,
		      bool control)
{
	size_t plain = 0, pos = 0, matched;
	uint32_t id;
	int ret;

	e->space = e->t->space_first;
	while (pos < len) {
		id = special_at(e->t, text + pos, len - pos, control,
				&matched);
		if (id == TOKEN_NONE) {
			pos++;
			continue;
		}
		ret = encode_plain(e, text + plain, pos - plain);
		if (!ret)
			ret = emit(e, id);
		if (ret)
			return ret;
		e->space = e->t->space_first &&
			   (e->t->flags[id] & TOKEN_KIND) == TOKEN_CONTROL;
		pos += matched;
		plain = pos;
	}
	return encode_plain(e, text + plain, len - plain);
}

int tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
		     bool special, uint32_t *out, size_t cap)
{
	struct encoder e = { .t = t, .out = out, .cap = cap };
	int ret;

	if (len > INT32_MAX)
		return -E2BIG;
	if (!utf8_valid(text, len))
		return -EILSEQ;
	ret = encode_all(&e, text, len, special);
	bpe_scratch_free(&e.scratch);
	return ret ? ret : (int)e.n;
}
