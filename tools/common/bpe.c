// SPDX-License-Identifier: MIT
/*
 * bpe.c - byte pair encoding with a linked list of symbols and a heap of the
 * pairs that can be joined.
 *
 * Joining changes at most two pairs, so a word of n bytes pushes fewer than
 * 3n entries. An entry whose pair has changed since is not removed but found
 * out by its rank when it comes up.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bpe.h"
#include "utf8.h"

#define NONE UINT32_MAX

/* It stands where its first byte does; so @next is also where it ends. */
struct bpe_symbol {
	uint32_t id;
	uint32_t prev;
	uint32_t next;
	uint32_t rank;		/* of the pair with @next, or NONE */
	uint32_t joined;	/* what that pair joins to */
};

int bpe_init(struct bpe *b, struct bpe_merge *merges, uint32_t n)
{
	uint32_t i;
	int ret;

	b->merges = merges;
	b->words = NULL;
	b->word_rank = NULL;
	ret = strmap_init(&b->rank, n);
	if (ret)
		return ret;
	for (i = 0; i < n; i++)
		strmap_add(&b->rank, &merges[i].left, 2 * sizeof(uint32_t), i);
	return 0;
}

static int by_score(const void *a, const void *b, void *arg)
{
	const float *scores = arg;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;

	if (scores[i] != scores[k])
		return scores[i] > scores[k] ? -1 : 1;
	return i < k ? -1 : i > k;
}

int bpe_init_words(struct bpe *b, const struct strmap *words,
		   const float *scores, uint32_t n)
{
	uint32_t *order = calloc(n, sizeof(*order)), i, rank = 0;

	b->merges = NULL;
	b->rank = (struct strmap){ 0 };
	b->words = words;
	b->word_rank = calloc(n, sizeof(*b->word_rank));
	if (!order || !b->word_rank) {
		free(order);
		return -ENOMEM;
	}
	for (i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), by_score, (void *)scores);
	/* Words of one score are equals, of which the leftmost goes first. */
	for (i = 0; i < n; i++) {
		if (i && scores[order[i]] != scores[order[i - 1]])
			rank++;
		b->word_rank[order[i]] = rank;
	}
	free(order);
	return 0;
}

void bpe_free(struct bpe *b)
{
	free(b->merges);
	free(b->word_rank);
	b->word_rank = NULL;
	strmap_free(&b->rank);
	b->merges = NULL;
}

void bpe_scratch_free(struct bpe_scratch *s)
{
	free(s->sym);
	free(s->heap);
	memset(s, 0, sizeof(*s));
}

static int scratch_fit(struct bpe_scratch *s, size_t len)
{
	size_t cap = s->cap ? s->cap : 64;

	if (len <= s->cap)
		return 0;
	while (cap < len)
		cap *= 2;
	bpe_scratch_free(s);
	s->sym = malloc(cap * sizeof(*s->sym));
	s->heap = malloc(3 * cap * sizeof(*s->heap));
	if (!s->sym || !s->heap) {
		bpe_scratch_free(s);
		return -ENOMEM;
	}
	s->cap = cap;
	return 0;
}

static void heap_push(uint64_t *heap, size_t *n, uint64_t v)
{
	size_t i = (*n)++, up;

	while (i && heap[up = (i - 1) / 2] > v) {
		heap[i] = heap[up];
		i = up;
	}
	heap[i] = v;
}

static uint64_t heap_pop(uint64_t *heap, size_t *n)
{
	uint64_t top = heap[0], v = heap[--*n];
	size_t i = 0, down;

	while ((down = 2 * i + 1) < *n) {
		if (down + 1 < *n && heap[down + 1] < heap[down])
			down++;
		if (heap[down] >= v)
			break;
		heap[i] = heap[down];
		i = down;
	}
	heap[i] = v;
	return top;
}

/* What symbol @i joins to with the next one, and the rank of that. */
static bool find_pair(const struct bpe *b, const struct bpe_scratch *s,
		      const char *text, uint32_t i, uint32_t *joined,
		      uint32_t *rank)
{
	const struct bpe_symbol *sym = &s->sym[i], *next = &s->sym[sym->next];
	uint32_t pair[2];

	if (b->words) {
		if (!strmap_find(b->words, text + i, next->next - i, joined))
			return false;
		*rank = b->word_rank[*joined];
		return true;
	}
	pair[0] = sym->id;
	pair[1] = next->id;
	if (!strmap_find(&b->rank, pair, sizeof(pair), rank))
		return false;
	*joined = b->merges[*rank].result;
	return true;
}

/* Rank the pair that begins at symbol @i, anew. */
static void rank_pair(const struct bpe *b, struct bpe_scratch *s,
		      const char *text, uint32_t i, uint32_t end,
		      size_t *nheap)
{
	struct bpe_symbol *sym = &s->sym[i];
	uint32_t rank;

	sym->rank = NONE;
	if (sym->next == end || !find_pair(b, s, text, i, &sym->joined, &rank))
		return;
	sym->rank = rank;
	heap_push(s->heap, nheap, (uint64_t)rank << 32 | i);
}

static void join(const struct bpe *b, struct bpe_scratch *s, const char *text,
		 uint32_t len)
{
	struct bpe_symbol *sym = s->sym, *a, *right;
	size_t nheap = 0;
	uint64_t top;
	uint32_t i;

	for (i = 0; i < len; i = sym[i].next)
		rank_pair(b, s, text, i, len, &nheap);
	while (nheap) {
		top = heap_pop(s->heap, &nheap);
		i = (uint32_t)top;
		a = &sym[i];
		if (a->rank != top >> 32)
			continue;
		right = &sym[a->next];
		a->id = a->joined;
		a->next = right->next;
		right->rank = NONE;
		if (a->next != len)
			sym[a->next].prev = i;
		rank_pair(b, s, text, i, len, &nheap);
		if (i)
			rank_pair(b, s, text, a->prev, len, &nheap);
	}
}

int bpe_encode(const struct bpe *b, struct bpe_scratch *s, const char *word,
	       size_t len, uint32_t *out, size_t cap)
{
	uint32_t i;
	size_t n;
	int ret;

	ret = scratch_fit(s, len);
	if (ret)
		return ret;
	for (i = 0; i < len; i++) {
		s->sym[i] = (struct bpe_symbol){
			.id = b->byte_id[(unsigned char)word[i]],
			.prev = i - 1, .next = i + 1, .rank = NONE,
		};
		if (s->sym[i].id == NONE)
			return -EDOM;
	}
	join(b, s, word, len);
	for (i = 0, n = 0; i < len; i = s->sym[i].next) {
		if (n == cap)
			return -EMSGSIZE;
		out[n++] = s->sym[i].id;
	}
	return n;
}

/* A character that is no word: as bytes, or as the token of the unknown. */
static int put_bytes(const struct bpe *b, const char *s, size_t len,
		     uint32_t *out, size_t cap)
{
	size_t i;

	for (i = 0; i < len; i++) {
		if (i == cap)
			return -EMSGSIZE;
		out[i] = b->byte_id[(unsigned char)s[i]];
		if (out[i] == NONE)
			break;
	}
	if (i == len)
		return len;
	out[0] = b->unknown;
	return b->unknown == NONE ? -EDOM : 1;
}

int bpe_encode_words(const struct bpe *b, struct bpe_scratch *s,
		     const char *text, size_t len, uint32_t *out, size_t cap)
{
	uint32_t i, prev = 0, cp;
	size_t n = 0;
	int ret;

	ret = scratch_fit(s, len);
	if (ret)
		return ret;
	for (i = 0; i < len; prev = i, i += ret) {
		ret = utf8_decode(text + i, len - i, &cp);
		if (ret < 0)
			return ret;
		s->sym[i] = (struct bpe_symbol){
			.id = NONE, .prev = prev, .next = i + ret,
			.rank = NONE,
		};
		strmap_find(b->words, text + i, ret, &s->sym[i].id);
	}
	join(b, s, text, len);
	for (i = 0; i < len; i = s->sym[i].next) {
		if (n == cap)
			return -EMSGSIZE;
		ret = 1;
		if (s->sym[i].id != NONE)
			out[n] = s->sym[i].id;
		else
			ret = put_bytes(b, text + i, s->sym[i].next - i,
					out + n, cap - n);
		if (ret < 0)
			return ret;
		n += ret;
	}
	return n;
}
