/* SPDX-License-Identifier: MIT */
/*
 * gguf.h - read GGUF model files (versions 2 and 3), and their tensor types.
 *
 * The file is mapped read-only; keys and tensors point into the mapping.
 * Everything is bounds-checked when the file is opened: afterwards no call can
 * read past it. An open file may be used by any number of threads.
 */
#ifndef GGUF_H
#define GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gguf;

/* Tensor types, with the file format's numbers. */
enum gguf_type {
	GGUF_F32 = 0,
	GGUF_F16 = 1,
	GGUF_Q4_0 = 2,
	GGUF_Q4_1 = 3,
	GGUF_Q5_0 = 6,
	GGUF_Q5_1 = 7,
	GGUF_Q8_0 = 8,
	GGUF_Q2_K = 10,
	GGUF_Q3_K = 11,
	GGUF_Q4_K = 12,
	GGUF_Q5_K = 13,
	GGUF_Q6_K = 14,
	GGUF_BF16 = 30,
};

/* Types of a key's value, with the file format's numbers. */
enum gguf_value {
	GGUF_V_U8, GGUF_V_I8, GGUF_V_U16, GGUF_V_I16, GGUF_V_U32, GGUF_V_I32,
	GGUF_V_F32, GGUF_V_BOOL, GGUF_V_STRING, GGUF_V_ARRAY, GGUF_V_U64,
	GGUF_V_I64, GGUF_V_F64,
};

/* A string of the file: not NUL-terminated. */
struct gguf_str {
	const char *s;
	size_t len;
};

/**
 * struct gguf_tensor - one tensor
 * @name: NUL-terminated
 * @type: enum gguf_type
 * @ndim: 1 to 4
 * @ne: elements in each dimension, the fastest first; unused ones are 1
 * @nelem: their product
 * @data: in the mapping
 * @nbytes: bytes at @data
 */
struct gguf_tensor {
	const char *name;
	uint32_t type;
	uint32_t ndim;
	uint64_t ne[4];
	uint64_t nelem;
	const void *data;
	uint64_t nbytes;
};

/**
 * gguf_open() - map and check a file
 * @path: the file
 * @out: the file, for gguf_close()
 * @err: set on failure to one line that names the thing and the remedy
 * @errlen: its size
 *
 * Return: 0 or -errno.
 */
int gguf_open(const char *path, struct gguf **out, char *err, size_t errlen);
/* The same of bytes in memory, which must outlive the result; tensors are as
 * aligned as @data, up to the file's own alignment. */
int gguf_open_mem(const void *data, size_t len, struct gguf **out, char *err,
		  size_t errlen);
void gguf_close(struct gguf *g);

/**
 * gguf_fail() - write one line about a file, without control characters
 * @g: the file; its path begins the line
 * @error: a negative errno
 * @err: for the line
 * @errlen: its size
 * @fmt: the rest of the line: names the thing and the remedy
 *
 * Return: @error.
 */
__attribute__((format(printf, 5, 6)))
int gguf_fail(const struct gguf *g, int error, char *err, size_t errlen,
	      const char *fmt, ...);

size_t gguf_file_size(const struct gguf *g);
unsigned int gguf_version(const struct gguf *g);

/* Values of keys. -ENOENT: no such key; -EINVAL: of another type or out of
 * range. Integers of every width are taken by gguf_u64(), floats of both by
 * gguf_f64(). */
int gguf_u64(const struct gguf *g, const char *key, uint64_t *out);
int gguf_f64(const struct gguf *g, const char *key, double *out);
int gguf_bool(const struct gguf *g, const char *key, bool *out);
int gguf_string(const struct gguf *g, const char *key, struct gguf_str *out);
/* Number of elements of an array and their enum gguf_value. */
int gguf_array(const struct gguf *g, const char *key, enum gguf_value *type,
	       uint64_t *n);
/* Element of an array of strings, of integers, of floats. O(1). */
int gguf_array_string(const struct gguf *g, const char *key, uint64_t i,
		      struct gguf_str *out);
int gguf_array_i64(const struct gguf *g, const char *key, uint64_t i,
		   int64_t *out);
int gguf_array_f64(const struct gguf *g, const char *key, uint64_t i,
		   double *out);

unsigned int gguf_ntensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, unsigned int i);
/* NULL if there is none of that name. */
const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name);

/* Elements in a block, and bytes of one; 0 for an unknown type. */
unsigned int gguf_block_elems(uint32_t type);
size_t gguf_block_bytes(uint32_t type);
/* Types without blocks here have names too; "unknown" for all others. */
const char *gguf_type_name(uint32_t type);

/**
 * gguf_dequant() - elements of a tensor as floats
 * @type: enum gguf_type
 * @src: whole blocks
 * @n: elements, a multiple of the block
 * @out: [@n]
 *
 * Return: 0, or -EINVAL for an unknown type or part of a block.
 */
int gguf_dequant(uint32_t type, const void *src, size_t n, float *out);

#endif /* GGUF_H */
