// SPDX-License-Identifier: MIT
/*
 * strmap.c - open addressing with linear probing, at most half full.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "strmap.h"

#define SLOTS_MIN 8

static uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 p = (unsigned __int128)a * b;

	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint64_t hash(uint64_t seed, const void *key, size_t len)
{
	/* 2^64 / golden ratio */
	const uint64_t odd = 0x9e3779b97f4a7c15;
	const unsigned char *p = key;
	uint64_t h = seed ^ len, word;

	for (; len >= sizeof(word); len -= sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		h = fold(h ^ word, seed | 1) + odd;
		p += sizeof(word);
	}
	word = 0;
	memcpy(&word, p, len);
	return fold(fold(h ^ word, seed | 1) + odd, odd);
}

int strmap_init(struct strmap *m, size_t n)
{
	size_t slots = SLOTS_MIN;

	memset(m, 0, sizeof(*m));
	if (n > SIZE_MAX / 4)
		return -ENOMEM;
	while (slots < 2 * n)
		slots *= 2;
	if (getrandom(&m->seed, sizeof(m->seed), 0) != sizeof(m->seed))
		return -EIO;
	m->slots = calloc(slots, sizeof(*m->slots));
	if (!m->slots)
		return -ENOMEM;
	m->mask = slots - 1;
	return 0;
}

void strmap_free(struct strmap *m)
{
	free(m->slots);
	memset(m, 0, sizeof(*m));
}

/* The slot of a key, or the free one where it would be. */
static struct strmap_slot *probe(const struct strmap *m, const void *key,
				 size_t len, uint32_t *tag)
{
	uint64_t h = hash(m->seed, key, len);
	struct strmap_slot *s;
	size_t i;

	*tag = h >> 32;
	for (i = h & m->mask;; i = (i + 1) & m->mask) {
		s = &m->slots[i];
		if (!s->key)
			return s;
		if (s->tag == *tag && s->len == len &&
		    !memcmp(s->key, key, len))
			return s;
	}
}

int strmap_add(struct strmap *m, const void *key, size_t len, uint32_t value)
{
	struct strmap_slot *s;
	uint32_t tag;

	s = probe(m, key, len, &tag);
	if (s->key)
		return -EEXIST;
	*s = (struct strmap_slot){
		.key = key, .len = len, .tag = tag, .value = value,
	};
	return 0;
}

bool strmap_find(const struct strmap *m, const void *key, size_t len,
		 uint32_t *value)
{
	struct strmap_slot *s;
	uint32_t tag;

	s = probe(m, key, len, &tag);
	if (!s->key)
		return false;
	*value = s->value;
	return true;
}
