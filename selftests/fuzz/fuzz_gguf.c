// SPDX-License-Identifier: MIT
/*
 * fuzz_gguf.c - any bytes as a GGUF file, and what a program does with one:
 * look at keys, dequantise tensors, make a tokenizer and use it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gguf.h"
#include "tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char * const keys[] = {
	"general.architecture", "general.alignment", "general.name", "u8",
	"tokenizer.ggml.model", "tokenizer.ggml.tokens",
	"tokenizer.ggml.token_type", "tokenizer.ggml.merges", "a", "",
};

static void require(int ok)
{
	if (!ok)
		abort();
}

static void read_array(const struct gguf *g, const char *key)
{
	enum gguf_value type;
	struct gguf_str s;
	uint64_t n, i;
	int64_t v;
	double d;

	if (gguf_array(g, key, &type, &n))
		return;
	for (i = 0; i < n; i++) {
		if (!gguf_array_string(g, key, i, &s))
			require(type == GGUF_V_STRING);
		gguf_array_i64(g, key, i, &v);
		gguf_array_f64(g, key, i, &d);
	}
	require(gguf_array_string(g, key, n, &s));
	require(gguf_array_i64(g, key, n, &v));
	require(gguf_array_f64(g, key, n, &d));
}

static void read_keys(const struct gguf *g)
{
	struct gguf_str s;
	uint64_t u;
	double d;
	size_t i;
	bool b;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		gguf_u64(g, keys[i], &u);
		gguf_f64(g, keys[i], &d);
		gguf_bool(g, keys[i], &b);
		gguf_string(g, keys[i], &s);
		read_array(g, keys[i]);
	}
}

static void read_tensors(const struct gguf *g)
{
	const struct gguf_tensor *t;
	unsigned int i;
	float *out;

	for (i = 0; i < gguf_ntensors(g); i++) {
		t = gguf_tensor_at(g, i);
		require(gguf_tensor(g, t->name) == t);
		require(t->nbytes <= gguf_file_size(g));
		out = malloc(t->nelem * sizeof(*out));
		require(out != NULL);
		require(!gguf_dequant(t->type, t->data, t->nelem, out));
		free(out);
	}
}

static void use_tokenizer(const struct gguf *g)
{
	static const char text[] = "<|im_start|>the 12 caf\xc3\xa9s<|im_end|>";
	uint32_t ids[sizeof(text)], i;
	struct tokenizer *t;
	char err[256];
	size_t len;
	int n;

	if (tokenizer_create(g, &t, err, sizeof(err))) {
		require(err[0] && !strchr(err, '\n'));
		return;
	}
	for (i = 0; i < tokenizer_size(t); i++)
		require(tokenizer_piece(t, i, &len) != NULL);
	n = tokenizer_encode(t, text, sizeof(text) - 1, true, ids,
			     sizeof(text));
	require(n >= 0 || n == -EDOM);
	tokenizer_destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char err[256] = "";
	struct gguf *g;

	if (gguf_open_mem(data, size, &g, err, sizeof(err))) {
		require(err[0] && !strchr(err, '\n'));
		return 0;
	}
	read_keys(g);
	read_tensors(g);
	use_tokenizer(g);
	gguf_close(g);
	return 0;
}
