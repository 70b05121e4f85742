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
#include "kv_type.h"
#include "model.h"
#include "table.h"
#include "util.h"

/**
 * struct need - the question and its answer
 * @info: the model
 * @weights: bytes of its tensors
 * @k_type: of keys
 * @v_type: of values
 * @every: compare all types
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
	int k_type;
	int v_type;
	bool every;
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

	*d = (struct need){
		.k_type = KVC_F16, .v_type = KVC_F16, .page = 2 << 20, .n = 1,
	};
	if (args_count(c, OPT_CONTEXT, UINT32_MAX, &d->context) ||
	    args_count(c, OPT_CONVERSATIONS, UINT32_MAX, &d->n) ||
	    args_page(c, &d->page) || args_size(c, OPT_POOL_SIZE, &d->pool))
		return CTL_USAGE;
	if (c->value[OPT_POOL_SIZE] && d->pool < d->page) {
		complain("--pool \"%s\": less than one page: give more, or a smaller --page",
			 c->value[OPT_POOL_SIZE]);
		return CTL_USAGE;
	}
	d->every = kv && !strcmp(kv, "all");
	if (!kv || d->every || kv_type_pair(kv, &d->k_type, &d->v_type))
		return 0;
	complain("--kv \"%s\": give " KV_TYPE_NAMES ", two of them as K,V, or all",
		 kv);
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
	model_cache(&d->info, d->k_type, d->v_type, NULL, &group, &shape);
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
		      "kv", kv_type_pair_name(d->k_type, d->v_type),
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

static void print_token(const struct need *d)
{
	const struct model_info *m = &d->info;
	size_t k = kva_row_size(d->k_type, m->head_dim);
	size_t v = kva_row_size(d->v_type, m->head_dim);
	char a[32];

	printf("a token           %s bytes = ",
	       human_count(d->one.bytes_per_token, a));
	if (d->k_type == d->v_type && d->k_type <= KVC_BF16)
		printf("2 x %u layers x %u KV heads x %u elements x %zu bytes (%s)\n",
		       m->nlayers, m->kv_heads, m->head_dim, k / m->head_dim,
		       kva_type_name(d->k_type));
	else
		printf("%u layers x %u KV heads x (%zu bytes of K as %s + %zu of V as %s)\n",
		       m->nlayers, m->kv_heads, k, kva_type_name(d->k_type), v,
		       kva_type_name(d->v_type));
}

static void print(const char *path, const struct need *d)
{
	const struct model_info *m = &d->info;
	char a[32], b[32];

	fputs("model             ", stdout);
	put_shown(*m->name ? m->name : path, stdout);
	printf(", made for %s tokens\n", human_count(m->context, a));
	print_token(d);
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

/* ---- all types side by side ------------------------------------------- */

/* Pairs of two types that are of use: keys are the more sensitive. */
static const struct {
	int k_type;
	int v_type;
} pairs[] = {
	{ KVC_F32, KVC_F32 }, { KVC_F16, KVC_F16 }, { KVC_BF16, KVC_BF16 },
	{ KVC_INT8, KVC_INT8 }, { KVC_E4M3, KVC_E4M3 },
	{ KVC_E4M3T, KVC_E4M3T }, { KVC_INT8, KVC_INT4 },
	{ KVC_INT8, KVC_INT4H }, { KVC_INT4, KVC_INT4 },
	{ KVC_INT4H, KVC_INT4H },
};

#define NR_PAIRS (sizeof(pairs) / sizeof(pairs[0]))

/* Pages of a conversation if its layers kept all, window or not. */
static uint64_t pages_of_all(const struct need *d)
{
	struct model_info info = d->info;
	struct model_groups group;
	struct kvc_footprint f;
	struct kvc_model shape;
	uint32_t i;

	model_cache(&info, d->k_type, d->v_type, NULL, &group, &shape);
	for (i = 0; i < shape.ngroups; i++)
		group.group[i].window = 0;
	return kvc_footprint(&shape, d->page, d->context, 1, &f) ? 0 : f.pages;
}

static json_t *json_pair(const struct need *d)
{
	json_t *o;

	o = json_pack("{s:s, s:s, s:I, s:i, s:I, s:I, s:I, s:I}",
		      "k_type", kva_type_name(d->k_type),
		      "v_type", kva_type_name(d->v_type),
		      "bytes_per_token", (json_int_t)d->one.bytes_per_token,
		      "page_tokens", d->one.page_tokens,
		      "pages_per_conversation", (json_int_t)d->one.pages,
		      "pages_without_windows", (json_int_t)pages_of_all(d),
		      "used_bytes", (json_int_t)d->all.used_bytes,
		      "outgrows_weights_at", (json_int_t)d->outgrown);
	if (d->pool)
		json_object_update_new(o, json_pack(
			"{s:I, s:I}",
			"conversations", (json_int_t)d->fit,
			"longest_context", (json_int_t)d->longest));
	return o;
}

static void row(struct table *t, const struct need *d)
{
	char a[32];

	table_cell(t, "%s", kv_type_pair_name(d->k_type, d->v_type));
	table_cell(t, "%s", human_count(d->one.bytes_per_token, a));
	table_cell(t, "%s", human_count(d->one.page_tokens, a));
	table_cell(t, "%s", human_count(d->one.pages, a));
	if (d->info.window)
		table_cell(t, "%s", human_count(pages_of_all(d), a));
	table_cell(t, "%s", human_size(d->one.held_bytes, a));
	if (!d->pool)
		return;
	table_cell(t, "%s", human_count(d->fit, a));
	table_cell(t, "%s", human_count(d->longest, a));
}

static void columns(struct table *t, const struct need *d)
{
	if (d->info.window && d->pool)
		table_columns(t, "K,V", ">BYTES/TOKEN", ">TOKENS/PAGE",
			      ">PAGES", ">WITHOUT WINDOWS", ">HELD", ">FIT",
			      ">LONGEST", NULL);
	else if (d->info.window)
		table_columns(t, "K,V", ">BYTES/TOKEN", ">TOKENS/PAGE",
			      ">PAGES", ">WITHOUT WINDOWS", ">HELD", NULL);
	else if (d->pool)
		table_columns(t, "K,V", ">BYTES/TOKEN", ">TOKENS/PAGE",
			      ">PAGES", ">HELD", ">FIT", ">LONGEST", NULL);
	else
		table_columns(t, "K,V", ">BYTES/TOKEN", ">TOKENS/PAGE",
			      ">PAGES", ">HELD", NULL);
}

static int compare(const char *path, struct need *d, bool json)
{
	json_t *list = json_array();
	struct table t = { 0 };
	char a[32], b[32];
	int ret = 0;
	size_t i;

	columns(&t, d);
	for (i = 0; i < NR_PAIRS && !ret; i++) {
		d->k_type = pairs[i].k_type;
		d->v_type = pairs[i].v_type;
		ret = answer(path, d);
		if (ret)
			break;
		json_array_append_new(list, json_pair(d));
		row(&t, d);
	}
	if (!ret && json) {
		ret = json_print(json_pack(
			"{s:o, s:o, s:I, s:I, s:I, s:I, s:O}",
			"model", json_outside(path),
			"name", json_outside(d->info.name),
			"context", (json_int_t)d->context,
			"conversations", (json_int_t)d->n,
			"page_bytes", (json_int_t)d->page,
			"pool_bytes", (json_int_t)d->pool,
			"types", list), stdout);
	} else if (!ret) {
		table_print(&t, stdout);
		printf("a conversation of %s tokens in pages of %s%s\n",
		       human_count(d->context, a), human_size(d->page, b),
		       d->pool ? "; how many FIT into the pool, and the LONGEST of as many as asked for" :
		       "");
	}
	json_decref(list);
	table_free(&t);
	return ret;
}

int cmd_footprint(struct ctl *c)
{
	const char *path = c->arg[0];
	struct need d;

	if (parse(c, &d))
		return CTL_USAGE;
	if (read_model(path, &d))
		return -1;
	if (d.every)
		return compare(path, &d, c->value[OPT_JSON] != NULL);
	if (answer(path, &d))
		return -1;
	if (c->value[OPT_JSON])
		return print_json(path, &d);
	print(path, &d);
	return 0;
}
