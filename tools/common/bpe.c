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
#include <stdlib.h>
#include <string.h>

#include "bpe.h"

#define NONE UINT32_MAX

struct bpe_symbol {
	uint32_t id;
	uint32_t prev;
	uint32_t next;
	uint32_t rank;		/* of the pair with @next, or NONE */
};

int bpe_init(struct bpe *b, struct bpe_merge *merges, uint32_t n)
{
	uint32_t i;
	int ret;

	b->merges = merges;
	ret = strmap_init(&b->rank, n);
	if (ret)
		return ret;
	for (i = 0; i < n; i++)
		strmap_add(&b->rank, &merges[i].left, 2 * sizeof(uint32_t), i);
	return 0;
}

void bpe_free(struct bpe *b)
{
	free(b->merges);
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

/* Rank the pair that begins at symbol @i, anew. */
static void rank_pair(const struct bpe *b, struct bpe_scratch *s, uint32_t i,
		      uint32_t end, size_t *nheap)
{
	struct bpe_symbol *sym = &s->sym[i];
	uint32_t pair[2];

	sym->rank = NONE;
	if (sym->next == end)
		return;
	pair[0] = sym->id;
	pair[1] = s->sym[sym->next].id;
	if (strmap_find(&b->rank, pair, sizeof(pair), &sym->rank))
		heap_push(s->heap, nheap, (uint64_t)sym->rank << 32 | i);
}

static void join(const struct bpe *b, struct bpe_scratch *s, uint32_t len)
{
	struct bpe_symbol *sym = s->sym, *a, *right;
	size_t nheap = 0;
	uint64_t top;
	uint32_t i;

	for (i = 0; i < len; i++)
		rank_pair(b, s, i, len, &nheap);
	while (nheap) {
		top = heap_pop(s->heap, &nheap);
		i = (uint32_t)top;
		a = &sym[i];
		if (a->rank != top >> 32)
			continue;
		right = &sym[a->next];
		a->id = b->merges[a->rank].result;
		a->next = right->next;
		right->rank = NONE;
		if (a->next != len)
			sym[a->next].prev = i;
		rank_pair(b, s, i, len, &nheap);
		if (i)
			rank_pair(b, s, a->prev, len, &nheap);
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
	join(b, s, len);
	for (i = 0, n = 0; i < len; i = s->sym[i].next) {
		if (n == cap)
			return -EMSGSIZE;
		out[n++] = s->sym[i].id;
	}
	return n;
}
