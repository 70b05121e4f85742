/* SPDX-License-Identifier: MIT */
/*
 * strmap.h - a hash map from strings of bytes to numbers, of a size that is
 * known beforehand.
 *
 * Keys are not copied and must outlive the map. The hash is seeded at random,
 * so a file cannot be made whose keys all collide.
 */
#ifndef STRMAP_H
#define STRMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strmap_slot {
	const void *key;
	size_t len;
	uint32_t tag;		/* upper half of the hash */
	uint32_t value;
};

struct strmap {
	struct strmap_slot *slots;
	size_t mask;
	uint64_t seed;
};

/**
 * strmap_init() - an empty map
 * @m: the map, for strmap_free()
 * @n: the most keys that will be added
 *
 * Return: 0 or -errno.
 */
int strmap_init(struct strmap *m, size_t n);
/* Of a map that is initialised or all zero. */
void strmap_free(struct strmap *m);

/* Return: 0, or -EEXIST and no change if the key is there. */
int strmap_add(struct strmap *m, const void *key, size_t len, uint32_t value);
bool strmap_find(const struct strmap *m, const void *key, size_t len,
		 uint32_t *value);

#endif /* STRMAP_H */
