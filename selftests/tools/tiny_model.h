/* SPDX-License-Identifier: MIT */
/*
 * tiny_model.h - a llama-type model of one layer, made in memory: sound, or
 * with one thing wrong.
 */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include <stdbool.h>
#include <stdio.h>

#include "gguf.h"
#include "gguf_writer.h"

#define TINY_DIM 16
#define TINY_CONTEXT 256

/**
 * struct tiny - what is said of a model
 * @vocab: rows of its embedding
 * @ntokens: tokens of its tokenizer, at least 257: bytes, "he", names; or 0
 *           for no tokenizer
 * @leave_out: a tensor that it has not, or NULL
 * @fill: a tensor all of whose elements are @with, or NULL
 * @with: see there
 */
struct tiny {
	uint32_t vocab;
	uint32_t ntokens;
	const char *leave_out;
	const char *fill;
	float with;
};

static inline void tiny_tokenizer(struct gw *w, uint32_t n)
{
	char name[32];
	uint32_t i;

	gw_key_str(w, "tokenizer.ggml.model", "gpt2");
	gw_key_str(w, "tokenizer.ggml.pre", "gpt-2");
	gw_key_array(w, "tokenizer.ggml.tokens", GGUF_V_STRING, n);
	for (i = 0; i < n; i++) {
		if (i < 256)
			gw_strn(w, name, gw_printable(i, name));
		else if (i == 256)
			gw_str(w, "he");
		else
			gw_strn(w, name, sprintf(name, "name%u", i));
	}
	gw_key_array(w, "tokenizer.ggml.merges", GGUF_V_STRING, 1);
	gw_str(w, "h e");
}

static inline void tiny_keys(struct gw *w)
{
	gw_key_str(w, "general.architecture", "llama");
	gw_key_u32(w, "llama.block_count", 1);
	gw_key_u32(w, "llama.embedding_length", TINY_DIM);
	gw_key_u32(w, "llama.feed_forward_length", TINY_DIM);
	gw_key_u32(w, "llama.context_length", TINY_CONTEXT);
	gw_key_u32(w, "llama.attention.head_count", 1);
	gw_key(w, "llama.attention.layer_norm_rms_epsilon", GGUF_V_F32);
	gw_bytes(w, &(float){ 1e-5f }, sizeof(float));
}

static const struct {
	const char *name;
	unsigned int rows;	/* 0: a vector */
} tiny_tensors[] = {
	{ "token_embd.weight", 1 },	/* as many as tokens */
	{ "output_norm.weight", 0 }, { "blk.0.attn_norm.weight", 0 },
	{ "blk.0.attn_q.weight", 16 }, { "blk.0.attn_k.weight", 16 },
	{ "blk.0.attn_v.weight", 16 }, { "blk.0.attn_output.weight", 16 },
	{ "blk.0.ffn_norm.weight", 0 }, { "blk.0.ffn_gate.weight", 16 },
	{ "blk.0.ffn_up.weight", 16 }, { "blk.0.ffn_down.weight", 16 },
};
#define TINY_TENSORS (sizeof(tiny_tensors) / sizeof(tiny_tensors[0]))

static inline bool tiny_has(const struct tiny *t, unsigned int i)
{
	return !t->leave_out || strcmp(tiny_tensors[i].name, t->leave_out);
}

/* Append the file to @w, but for the tensors' elements. */
static inline void tiny_header(struct gw *w, const struct tiny *t)
{
	uint64_t ne[2] = { TINY_DIM }, offset = 0;
	unsigned int i;

	gw_header(w, 3, TINY_TENSORS - !!t->leave_out, t->ntokens ? 11 : 7);
	tiny_keys(w);
	if (t->ntokens)
		tiny_tokenizer(w, t->ntokens);
	for (i = 0; i < TINY_TENSORS; i++) {
		if (!tiny_has(t, i))
			continue;
		ne[1] = i ? tiny_tensors[i].rows : t->vocab;
		gw_tensor(w, tiny_tensors[i].name, GGUF_F32, ne[1] ? 2 : 1, ne,
			  offset);
		offset += TINY_DIM * (ne[1] ? ne[1] : 1) * sizeof(float);
	}
}

/* Append the file to @w. */
static inline void tiny_model(struct gw *w, const struct tiny *t)
{
	uint32_t state = 1, k, rows;
	unsigned int i;
	float v;

	tiny_header(w, t);
	gw_align(w, 32);
	for (i = 0; i < TINY_TENSORS; i++) {
		if (!tiny_has(t, i))
			continue;
		rows = i ? tiny_tensors[i].rows : t->vocab;
		for (k = 0; k < TINY_DIM * (rows ? rows : 1); k++) {
			state = state * 1664525 + 1013904223;
			v = rows ? (int)(state >> 16) / 65536.0f - 0.5f : 1;
			if (t->fill && !strcmp(tiny_tensors[i].name, t->fill))
				v = t->with;
			gw_bytes(w, &v, sizeof(v));
		}
	}
}

#endif /* TINY_MODEL_H */
