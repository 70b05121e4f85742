// SPDX-License-Identifier: MIT
/*
 * fuzz_tokenizer.c - any bytes as a text, for each pre-tokenizer, and for
 * characters that join by score: ids give the text back, and texts that are not
 * UTF-8 are refused.
 *
 * The first byte of the input chooses the pre-tokenizer (the last one is none)
 * and whether special tokens are recognised.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf.h"
#include "gguf_writer.h"
#include "pretok.h"
#include "tokenizer.h"
#include "utf8.h"

#define KINDS 8			/* at least as many as there are */
#define BASE 256
#define MERGES 2000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct tokenizer *kinds[KINDS];
static unsigned int nkinds;

static const char * const specials[] = {
	"<|im_start|>", "<|im_end|>", "<|", "\xe2\x98\x83", "a<|im_end|>",
};
#define SPECIALS (sizeof(specials) / sizeof(specials[0]))

static void require(int ok)
{
	if (!ok)
		abort();
}

/* Merges of tokens near each other, again and again: words of 2 to 16 bytes,
 * in their printable form. */
static char word[BASE + MERGES][40];
static char merge[MERGES][80];
static unsigned int nwords;

static void make_words(void)
{
	uint32_t state = 1, a, b, tries;
	unsigned int i;

	for (i = 0; i < BASE; i++)
		gw_printable(i, word[i]);
	nwords = BASE;
	for (tries = 0; tries < 20 * MERGES && nwords < BASE + MERGES;
	     tries++) {
		state = state * 1664525 + 1013904223;
		a = (state >> 8) % (tries % 2 ? nwords : 128);
		state = state * 1664525 + 1013904223;
		b = (state >> 8) % (tries % 3 ? 128 : nwords);
		if (strlen(word[a]) + strlen(word[b]) > 32)
			continue;
		snprintf(merge[nwords - BASE], sizeof(merge[0]), "%s %s",
			 word[a], word[b]);
		strcpy(word[nwords], word[a]);
		strcat(word[nwords++], word[b]);
	}
}

static struct tokenizer *make(const char *pre)
{
	struct tokenizer *t;
	struct gw w = { 0 };
	struct gguf *g;
	char err[256];
	size_t i;

	gw_header(&w, 3, 0, 6);
	gw_key_str(&w, "tokenizer.ggml.model", "gpt2");
	gw_key_str(&w, "tokenizer.ggml.pre", pre);
	gw_key_u32(&w, "tokenizer.ggml.bos_token_id", nwords);
	gw_key_array(&w, "tokenizer.ggml.tokens", GGUF_V_STRING,
		     nwords + SPECIALS);
	for (i = 0; i < nwords; i++)
		gw_str(&w, word[i]);
	for (i = 0; i < SPECIALS; i++)
		gw_str(&w, specials[i]);
	gw_key_array(&w, "tokenizer.ggml.token_type", GGUF_V_U8,
		     nwords + SPECIALS);
	for (i = 0; i < nwords + SPECIALS; i++)
		gw_u8(&w, i < nwords ? 1 : 3);
	gw_key_array(&w, "tokenizer.ggml.merges", GGUF_V_STRING,
		     nwords - BASE);
	for (i = BASE; i < nwords; i++)
		gw_str(&w, merge[i - BASE]);
	require(!gguf_open_mem(w.p, w.n, &g, err, sizeof(err)));
	require(!tokenizer_create(g, &t, err, sizeof(err)));
	gguf_close(g);
	gw_free(&w);
	return t;
}

/* The same words, with few scores; the bytes have tokens of their own. */
static struct tokenizer *make_by_score(void)
{
	unsigned int n = nwords - BASE, i;
	struct tokenizer *t;
	struct gw w = { 0 };
	struct gguf *g;
	char err[256];
	float score;

	gw_header(&w, 3, 0, 6);
	gw_key_str(&w, "tokenizer.ggml.model", "llama");
	gw_key_u32(&w, "tokenizer.ggml.bos_token_id", BASE + n);
	gw_key_bool(&w, "tokenizer.ggml.add_space_prefix", false);
	gw_key_array(&w, "tokenizer.ggml.tokens", GGUF_V_STRING,
		     BASE + n + SPECIALS);
	for (i = 0; i < BASE; i++) {
		snprintf(err, sizeof(err), "<0x%02X>", i);
		gw_str(&w, err);
	}
	for (i = 0; i < n; i++)
		gw_str(&w, i % 7 ? word[BASE + i] : i % 2 ? "\xe2\x96\x81" :
			   "\xe2\x96\x81" "a");
	for (i = 0; i < SPECIALS; i++)
		gw_str(&w, specials[i]);
	gw_key_array(&w, "tokenizer.ggml.token_type", GGUF_V_U8,
		     BASE + n + SPECIALS);
	for (i = 0; i < BASE + n + SPECIALS; i++)
		gw_u8(&w, i < BASE ? 6 : i < BASE + n ? 1 : 3);
	gw_key_array(&w, "tokenizer.ggml.scores", GGUF_V_F32,
		     BASE + n + SPECIALS);
	for (i = 0; i < BASE + n + SPECIALS; i++) {
		score = -(float)(i * 7919 % 50);
		gw_bytes(&w, &score, sizeof(score));
	}
	require(!gguf_open_mem(w.p, w.n, &g, err, sizeof(err)));
	require(!tokenizer_create(g, &t, err, sizeof(err)));
	gguf_close(g);
	gw_free(&w);
	return t;
}

/* What stands for a space comes back as one. Returns the new length. */
static size_t spaces(char *s, size_t len)
{
	size_t n = 0, i;

	for (i = 0; i < len; n++) {
		if (len - i >= 3 && !memcmp(s + i, "\xe2\x96\x81", 3)) {
			s[n] = ' ';
			i += 3;
		} else {
			s[n] = s[i++];
		}
	}
	return n;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *name;

	make_words();
	for (; (name = pretok_name(nkinds)); nkinds++) {
		require(nkinds + 1 < KINDS);
		kinds[nkinds] = make(name);
	}
	kinds[nkinds++] = make_by_score();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tokenizer *t;
	const char *p;
	bool special;
	char *text;
	uint32_t *ids;
	size_t len, at = 0;
	int n, i;

	if (!size)
		return 0;
	t = kinds[data[0] % nkinds];
	special = data[0] & 0x80;
	size--;
	ids = malloc((size + 1) * sizeof(*ids));
	/* No byte behind it. */
	text = malloc(size ? size : 1);
	require(ids && text);
	memcpy(text, data + 1, size);
	n = tokenizer_encode(t, text, size, special, ids, size);
	require((n == -EILSEQ) == !utf8_valid(text, size));
	require(n == -EILSEQ || (n >= 0 && n <= size));
	if (n >= 0 && t == kinds[nkinds - 1])
		size = spaces(text, size);
	for (i = 0; i < n; i++) {
		p = tokenizer_piece(t, ids[i], &len);
		require(p && len && len <= size - at);
		require(!memcmp(p, text + at, len));
		require(special || !tokenizer_is_special(t, ids[i]));
		at += len;
	}
	require(n < 0 || at == size);
	free(text);
	free(ids);
	return 0;
}
