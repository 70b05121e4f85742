// SPDX-License-Identifier: MIT
/*
 * footprint.c - what conversations with a model cost in keys and values, and
 * what of them fits into a pool. Needs no backend.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <kvattn.h>

#include "ctl.h"
#include "gguf.h"
#include "json_out.h"
#include "model.h"
#include "util.h"

/**
 * struct need - the question and its answer
 * @info: the model
 * @weights: bytes of its tensors
 * @type: of keys and values
 * @page: bytes in a page
 * @context: tokens in a conversation
 * @n: conversations
 * @pool: bytes in the pool, or 0
 * @one: what one conversation costs
 * @all: what all of them cost
 * @outgrown: tokens from which keys and values are more than the weights
 * @pages: pages of the pool
 * @fit: conversations of @context tokens that it has room for
 * @longest: tokens in each if @n share it
 */
struct need {
	struct model_info info;
	uint64_t weights;
	int type;
	uint64_t page;
	uint64_t context;
	uint64_t n;
	uint64_t pool;
	struct kvc_footprint one;
	struct kvc_footprint all;
	uint64_t outgrown;
	uint64_t pages;
	uint64_t fit;
	uint64_t longest;
};

static int parse(const struct ctl *c, struct need *d)
{
	const char *kv = c->value[OPT_KV];

	*d = (struct need){ .type = KVC_F16, .page = 2 << 20, .n = 1 };
	if (args_count(c, OPT_CONTEXT, UINT32_MAX, &d->context) ||
	    args_count(c, OPT_CONVERSATIONS, UINT32_MAX, &d->n) ||
	    args_page(c, &d->page) || args_size(c, OPT_POOL_SIZE, &d->pool))
		return CTL_USAGE;
	if (c->value[OPT_POOL_SIZE] && d->pool < d->page) {
		complain("--pool \"%s\": less than one page: give more, or a smaller --page",
			 c->value[OPT_POOL_SIZE]);
		return CTL_USAGE;
	}
	if (kv)
		d->type = kva_type_parse(kv);
	if (d->type >= 0)
		return 0;
	complain("--kv \"%s\": give f32, f16 or bf16", kv);
	return CTL_USAGE;
}

static int read_model(const char *path, struct need *d)
{
	char err[256] = "";
	struct gguf *g;
	unsigned int i;
	int ret;

	if (gguf_open(path, &g, err, sizeof(err)))
		return complain("%s", err);
	ret = model_probe(g, &d->info, err, sizeof(err));
	for (i = 0; i < gguf_ntensors(g); i++)
		d->weights += gguf_tensor_at(g, i)->nbytes;
	gguf_close(g);
	return ret ? complain("%s: %s", path, err) : 0;
}

static int refused(const char *path, const struct need *d, int err)
{
	char page[32];

	if (err == -E2BIG)
		return complain("%s: a page of %s has no room for one token of all layers: give a larger --page",
				path, option_size(d->page, page));
	if (err == -EOVERFLOW)
		return complain("%s: more bytes than there are numbers for: give fewer --conversations or a shorter --context",
				path);
	return complain("%s: a model of this shape cannot be cached: head dimensions are multiples of 16 up to %u",
			path, KVA_DIM_MAX);
}

/* Longer than any conversation. */
#define TOKENS_MAX (1ULL << 40)

/*
 * The longest conversation of which @d->n fit in @pages pages, or keep within
 * @bytes bytes. With a window the cost is no multiple of the length.
 */
static uint64_t longest(const struct kvc_model *shape, const struct need *d,
			uint64_t pages, uint64_t bytes)
{
	uint64_t lo = 0, hi = TOKENS_MAX, mid;
	struct kvc_footprint f;

	while (lo < hi) {
		mid = lo + (hi - lo + 1) / 2;
		if (!kvc_footprint(shape, d->page, mid, d->n, &f) &&
		    f.pages <= pages && f.used_bytes <= bytes)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

static int answer(const char *path, struct need *d)
{
	struct model_groups group;
	struct kvc_model shape;
	int err;

	if (!d->context)
		d->context = d->info.context;
	model_cache(&d->info, d->type, d->type, NULL, &group, &shape);
	err = kvc_footprint(&shape, d->page, d->context, 1, &d->one);
	if (!err)
		err = kvc_footprint(&shape, d->page, d->context, d->n, &d->all);
	if (err)
		return refused(path, d, err);
	d->outgrown = longest(&shape, d, UINT64_MAX, d->weights) + 1;
	d->pages = d->pool / d->page;
	d->fit = d->pages / d->one.pages;
	d->longest = longest(&shape, d, d->pages, UINT64_MAX);
	return 0;
}

static int print_json(const char *path, const struct need *d)
{
	json_t *o;

	o = json_pack("{s:o, s:o, s:i, s:i, s:i, s:I, s:s, s:I, s:I}",
		      "model", json_outside(path),
		      "name", json_outside(d->info.name),
		      "layers", d->info.nlayers, "kv_heads", d->info.kv_heads,
		      "head_dim", d->info.head_dim,
		      "model_context", (json_int_t)d->info.context,
		      "kv", kva_type_name(d->type),
		      "weight_bytes", (json_int_t)d->weights,
		      "bytes_per_token", (json_int_t)d->one.bytes_per_token);
	json_object_update_new(o, json_pack(
		"{s:I, s:I, s:I, s:i, s:I, s:I, s:I, s:I, s:I, s:I}",
		"context", (json_int_t)d->context,
		"conversations", (json_int_t)d->n,
		"page_bytes", (json_int_t)d->page,
		"page_tokens", d->one.page_tokens,
		"pages_per_conversation", (json_int_t)d->one.pages,
		"pages", (json_int_t)d->all.pages,
		"used_bytes", (json_int_t)d->all.used_bytes,
		"layout_bytes", (json_int_t)d->all.layout_bytes,
		"unused_bytes", (json_int_t)d->all.unused_bytes,
		"outgrows_weights_at", (json_int_t)d->outgrown));
	if (d->pool)
		json_object_set_new(o, "pool", json_pack(
			"{s:I, s:I, s:I, s:I}",
			"bytes", (json_int_t)d->pool,
			"pages", (json_int_t)d->pages,
			"conversations", (json_int_t)d->fit,
			"longest_context", (json_int_t)d->longest));
	return json_print(o, stdout);
}

static void print_cost(const char *what, const struct kvc_footprint *f)
{
	char held[32], pages[32], used[32];

	printf("%-16s  %s in %s page%s: %s of keys and values, ", what,
	       human_size(f->held_bytes, held), human_count(f->pages, pages),
	       f->pages == 1 ? "" : "s", human_size(f->used_bytes, used));
	printf("%s of free slots, %s left over\n", human_size(f->unused_bytes, held),
	       human_size(f->layout_bytes, used));
}

static void print_pool(const struct need *d)
{
	char a[32], b[32];

	printf("a pool of %-6s  %s pages: ", option_size(d->pool, a),
	       human_count(d->pages, b));
	printf("%s conversation%s of %s tokens",
	       human_count(d->fit, a), d->fit == 1 ? "" : "s",
	       human_count(d->context, b));
	printf("; with %s the longest context is %s tokens",
	       human_count(d->n, a), human_count(d->longest, b));
	if (d->longest > d->info.context)
		printf(" (the model was made for %s)",
		       human_count(d->info.context, a));
	printf("\n");
}

static void print(const char *path, const struct need *d)
{
	const struct model_info *m = &d->info;
	char a[32], b[32];

	fputs("model             ", stdout);
	put_shown(*m->name ? m->name : path, stdout);
	printf(", made for %s tokens\n", human_count(m->context, a));
	printf("a token           %s bytes = 2 x %u layers x %u KV heads x %u elements x %u bytes (%s)\n",
	       human_count(d->one.bytes_per_token, a), m->nlayers, m->kv_heads,
	       m->head_dim, d->type == KVC_F32 ? 4 : 2, kva_type_name(d->type));
	printf("a page            %s, %s tokens\n", human_size(d->page, a),
	       human_count(d->one.page_tokens, b));
	printf("weights           %s; keys and values are more from %s tokens",
	       human_size(d->weights, a), human_count(d->outgrown, b));
	printf("%s on\n", d->n > 1 ? " in each conversation" : "");
	print_cost("a conversation", &d->one);
	if (d->n > 1)
		print_cost(human_count(d->n, a), &d->all);
	if (d->pool)
		print_pool(d);
}

int cmd_footprint(struct ctl *c)
{
	const char *path = c->arg[0];
	struct need d;

	if (parse(c, &d))
		return CTL_USAGE;
	if (read_model(path, &d) || answer(path, &d))
		return -1;
	if (c->value[OPT_JSON])
		return print_json(path, &d);
	print(path, &d);
	return 0;
}
