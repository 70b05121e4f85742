/* SPDX-License-Identifier: MIT */
/*
 * gguf_priv.h - what gguf.c reads and gguf_value.c answers from.
 */
#ifndef GGUF_PRIV_H
#define GGUF_PRIV_H

#include "gguf.h"
#include "strmap.h"

/**
 * struct gguf_key - one key and its value
 * @name: in the mapping
 * @type: enum gguf_value; of an array, that of its elements
 * @array: an array
 * @n: its elements
 * @value: the value, or the first element
 * @strings: of an array of strings: where each one's length is
 */
struct gguf_key {
	struct gguf_str name;
	uint32_t type;
	bool array;
	uint64_t n;
	const uint8_t *value;
	const uint8_t **strings;
};

struct gguf {
	char *path;
	const uint8_t *base;
	size_t len;
	bool mapped;
	uint32_t version;
	uint32_t nkeys;
	uint32_t ntensors;
	struct gguf_key *keys;
	struct gguf_tensor *tensors;
	struct strmap key_map;
	struct strmap tensor_map;
};

/* Bytes of a value of fixed size, 0 for others. */
size_t gguf_value_size(uint32_t type);
/* Numbers of the file may be at any address. */
uint32_t gguf_read_u32(const uint8_t *p);
uint64_t gguf_read_u64(const uint8_t *p);

#endif /* GGUF_PRIV_H */
