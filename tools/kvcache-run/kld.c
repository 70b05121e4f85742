// SPDX-License-Identifier: MIT
/*
 * kld.c - what types of keys and values do to a model's answers: the
 * Kullback-Leibler divergence of the next token's probabilities from those with
 * f32 keys and values, the same text through both.
 *
 * Window by window and step by step, all types side by side: nothing but the
 * logits of one step is kept.
 */
#include <math.h>
#include <stdlib.h>

#include <jansson.h>
#include <kvattn.h>

#include "engine.h"
#include "interrupt.h"
#include "json_out.h"
#include "kld.h"
#include "kv_type.h"
#include "run.h"
#include "sample.h"
#include "table.h"
#include "util.h"
#include "windows.h"

/**
 * struct trial - one pair of types
 * @k_type: of keys
 * @v_type: of values
 * @lane: its cache and windows
 * @bytes: bytes of a token
 * @groups: what the cache's description points to
 * @kld: [positions] divergence, in nats
 * @same: positions with the same most likely token
 * @nll: of all tokens that follow one in a window, minus the sum of the
 *       logarithms of their probabilities
 * @bad: something was no number
 */
struct trial {
	int k_type;
	int v_type;
	struct lane lane;
	uint64_t bytes;
	struct model_groups groups;
	double *kld;
	uint64_t same;
	double nll;
	bool bad;
};

/**
 * struct kld - the comparison
 * @r: the run
 * @w: where it is
 * @trial: [@n] the first is f32, which the others are compared with
 * @n: their number
 * @positions: positions compared
 * @scored: tokens that follow one in their window
 * @row: [@n][step's rows] what a row gave
 */
struct kld {
	struct run *r;
	struct windows w;
	struct trial *trial;
	unsigned int n;
	uint64_t positions;
	uint64_t scored;
	struct row {
		double kld;
		double nll;
		bool same;
		bool bad;
	} *row;
};

/* One row of one trial: @p are f32's logits. */
static void compare_row(const float *p, const float *q, uint32_t vocab,
			uint32_t next, struct row *out)
{
	double lp = sample_logsumexp(p, vocab), lq = sample_logsumexp(q, vocab);
	double sum = 0;
	uint32_t i;

	*out = (struct row){ .bad = !sample_finite(q, vocab) };
	if (out->bad)
		return;
	for (i = 0; i < vocab; i++) {
		double a = p[i] - lp;

		sum += exp(a) * (a - (q[i] - lq));
	}
	out->kld = sum;
	out->same = sample_greedy(p, vocab) == sample_greedy(q, vocab);
	if (next < vocab)
		out->nll = lq - q[next];
}

static void row_item(void *arg, size_t item, unsigned int thread)
{
	struct kld *k = arg;
	uint32_t row = item % k->w.step, vocab = k->r->engine.info.vocab;
	uint32_t at = k->w.at + row + 1;
	const struct trial *t = &k->trial[item / k->w.step];
	size_t offset = (size_t)row * vocab;

	compare_row(k->trial[0].lane.logits + offset, t->lane.logits + offset,
		    vocab, at < k->w.n ? k->w.ids[at] : UINT32_MAX,
		    &k->row[item]);
}

static void add_rows(struct kld *k)
{
	unsigned int i;
	uint32_t j;

	for (i = 0; i < k->n; i++) {
		struct trial *t = &k->trial[i];

		t->kld = xrealloc(t->kld, k->positions + k->w.step,
				  sizeof(*t->kld));
		for (j = 0; j < k->w.step; j++) {
			const struct row *row = &k->row[i * k->w.step + j];

			t->kld[k->positions + j] = row->kld;
			t->nll += row->nll;
			t->same += row->same;
			t->bad |= row->bad;
		}
	}
	k->positions += k->w.step;
	k->scored += k->w.step - (k->w.at + k->w.step == k->w.n);
}

static int step(struct kld *k)
{
	unsigned int i;

	for (i = 0; i < k->n; i++)
		if (lane_step(&k->trial[i].lane, &k->w, true))
			return -1;
	k->row = xrealloc(k->row, (size_t)k->n * k->w.step, sizeof(*k->row));
	kvc_cache_run(k->trial[0].lane.cache, (size_t)k->n * k->w.step,
		      row_item, k);
	add_rows(k);
	for (i = 0; i < k->n; i++)
		if (k->trial[i].bad)
			return complain("keys and values as %s: the logits are not numbers: the model is damaged, or their scales are",
					kv_type_pair_name(k->trial[i].k_type,
							  k->trial[i].v_type));
	windows_step(&k->w);
	return 0;
}

static int window(struct kld *k)
{
	unsigned int i;

	for (i = 0; i < k->n; i++)
		if (lane_window(&k->trial[i].lane))
			return -1;
	while (k->w.at < k->w.n)
		if (step(k))
			return -1;
	return 0;
}

static int open_trial(struct kld *k, struct trial *t, int k_type, int v_type)
{
	const struct engine *e = &k->r->engine;
	struct kvc_footprint f;
	struct kvc_cache *cache;
	struct kvc_model shape;

	t->k_type = k_type;
	t->v_type = v_type;
	engine_shape(e, k_type, v_type, NULL, &t->groups, &shape);
	if (engine_cache(e, &shape, &cache))
		return -1;
	if (!kvc_footprint(&shape, e->page_size, 1, 1, &f))
		t->bytes = f.bytes_per_token;
	return lane_open(&t->lane, e, cache);
}

static int open_trials(struct kld *k)
{
	const struct options *o = &k->r->opts;
	unsigned int i;
	int ret;

	k->n = 1 + (o->nkv ? o->nkv : 1);
	k->trial = xcalloc(k->n, sizeof(*k->trial));
	ret = open_trial(k, &k->trial[0], KVA_F32, KVA_F32);
	for (i = 1; i < k->n && !ret; i++)
		ret = o->nkv ? open_trial(k, &k->trial[i], o->kv[i - 1].k_type,
					  o->kv[i - 1].v_type) :
			       open_trial(k, &k->trial[i], o->k_type,
					  o->v_type);
	return ret;
}

static void close_trials(struct kld *k)
{
	unsigned int i;

	for (i = 0; i < k->n; i++) {
		struct kvc_cache *cache = k->trial[i].lane.cache;

		lane_close(&k->trial[i].lane);
		kvc_cache_destroy(cache);
		free(k->trial[i].kld);
	}
	free(k->trial);
	free(k->row);
}

/* ---- what came out ---------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

struct figures {
	double mean;
	double p99;
	double max;
	double same;
	double perplexity;
};

/* Between two ranks in proportion. */
static struct figures figures(const struct kld *k, const struct trial *t)
{
	double at = 0.99 * (k->positions - 1), sum = 0;
	uint64_t i = at;
	struct figures f;

	qsort(t->kld, k->positions, sizeof(*t->kld), ascending);
	f.p99 = t->kld[i];
	if (i + 1 < k->positions)
		f.p99 += (at - i) * (t->kld[i + 1] - t->kld[i]);
	f.max = t->kld[k->positions - 1];
	for (i = 0; i < k->positions; i++)
		sum += t->kld[i];
	f.mean = sum / k->positions;
	f.same = (double)t->same / k->positions;
	f.perplexity = exp(t->nll / k->scored);
	return f;
}

static json_t *json_trial(const struct kld *k, const struct trial *t)
{
	struct figures f = figures(k, t);

	return json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o}",
			 "k_type", kva_type_name(t->k_type),
			 "v_type", kva_type_name(t->v_type),
			 "bytes_per_token", (json_int_t)t->bytes,
			 "kld_mean", json_number(f.mean),
			 "kld_p99", json_number(f.p99),
			 "kld_max", json_number(f.max),
			 "same_top", json_number(f.same),
			 "perplexity", json_number(f.perplexity));
}

static int print_json(const struct kld *k)
{
	const struct engine *e = &k->r->engine;
	json_t *list = json_array();
	unsigned int i;

	for (i = 1; i < k->n; i++)
		json_array_append_new(list, json_trial(k, &k->trial[i]));
	return json_print(json_pack(
		"{s:o, s:o, s:s, s:s, s:s, s:i, s:i, s:I, s:o, s:o}",
		"file", json_outside(e->opts->model),
		"name", json_outside(e->info.name),
		"products", model_products(e->model),
		"weights", weights_name(e->opts->weights),
		"kernels", kvc_cache_isa(e->cache),
		"windows", k->w.done,
		"window_tokens", k->w.len,
		"positions", (json_int_t)k->positions,
		"f32", json_trial(k, &k->trial[0]),
		"types", list), k->r->json);
}

static void print_table(const struct kld *k)
{
	struct table t = { 0 };
	unsigned int i;

	table_columns(&t, "K,V", ">BYTES/TOKEN", ">KLD MEAN", ">P99", ">MAX",
		      ">SAME TOP", ">PERPLEXITY", NULL);
	for (i = 0; i < k->n; i++) {
		const struct trial *x = &k->trial[i];
		struct figures f = figures(k, x);

		table_cell(&t, "%s", kv_type_pair_name(x->k_type, x->v_type));
		table_cell(&t, "%llu", (unsigned long long)x->bytes);
		table_cell(&t, "%.5f", f.mean);
		table_cell(&t, "%.4f", f.p99);
		table_cell(&t, "%.4f", f.max);
		table_cell(&t, "%.2f %%", 100 * f.same);
		table_cell(&t, "%.4f", f.perplexity);
	}
	table_print(&t, stdout);
	table_free(&t);
	printf("%u windows, %llu positions: divergence in nats of the next token's probabilities from those with f32 keys and values\n",
	       k->w.done, (unsigned long long)k->positions);
}

int run_kld(struct run *r)
{
	struct kld k = { .r = r };
	int ret = open_trials(&k);

	if (!ret)
		ret = run_begin(r);
	windows_begin(&k.w, r, "comparing");
	while (!ret && windows_next(&k.w))
		ret = window(&k);
	windows_end(&k.w);
	if (!ret && !interrupted()) {
		if (r->json != stdout)
			print_table(&k);
		if (r->json)
			ret = print_json(&k);
	}
	close_trials(&k);
	return ret;
}
