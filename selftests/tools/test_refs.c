// SPDX-License-Identifier: MIT
/*
 * test_refs.c - logits against an independent implementation in double
 * precision (selftests/data/refs): every step with the reference's tokens fed
 * in, through the library's pages with each type of K and V, and in one pass
 * without pages.
 */
#include <jansson.h>
#include <math.h>
#include <kvattn.h>
#include <kvcache/kvcache.h>
#include <kvcache/threads.h>
#include "gguf.h"
#include "harness.h"
#include "model.h"
#include "real_model.h"

#define REFS "selftests/data/refs/"
#define CHUNK 512
#define TOP 8
#define TINY_MODELS 9

struct step {
	uint32_t token;
	double margin;
	double lse;
	uint32_t id[TOP];
	double logit[TOP];
};

/* One text: its prompt, then the tokens that the reference chose. */
struct ref {
	const char *name;
	uint32_t *text;
	uint32_t prompt;
	uint32_t n;
	struct step *steps;
};

/* What the logits of a run were like. */
struct tally {
	double bound;
	double worst;
	double worst_lse;
	double squares;		/* of all errors of top logits */
	unsigned int steps;
	unsigned int others;	/* another argmax, within twice the bound */
};

/*
 * By enum kva_type. int8 has the bound that was asked for, other packed types
 * about twice what was seen (Documentation/quantisation.rst).
 */
static const double bounds_model[] = {
	1e-3, 0.05, 0.3, 1.5, 6, 6, 20, 12,
};
static const double bounds_tiny[] = {
	2e-4, 0.03, 0.3, 1.5, 3, 3, 7, 9,
};

/* ---- the files -------------------------------------------------------- */

static uint32_t *ids_of(const json_t *list, uint32_t *out)
{
	size_t i;

	for (i = 0; i < json_array_size(list); i++)
		out[i] = json_integer_value(json_array_get(list, i));
	return out + i;
}

static void parse_step(const json_t *j, struct step *s)
{
	const json_t *top = json_object_get(j, "top"), *pair;
	size_t i;

	s->token = json_integer_value(json_object_get(j, "token"));
	s->margin = json_number_value(json_object_get(j, "margin"));
	s->lse = json_number_value(json_object_get(j, "lse"));
	ASSERT_EQ(TOP, json_array_size(top));
	for (i = 0; i < TOP; i++) {
		pair = json_array_get(top, i);
		s->id[i] = json_integer_value(json_array_get(pair, 0));
		s->logit[i] = json_number_value(json_array_get(pair, 1));
	}
}

static void parse_ref(const json_t *j, struct ref *r)
{
	const json_t *ids = json_object_get(j, "prompt_ids");
	const json_t *steps = json_object_get(j, "steps");
	uint32_t i, *end;

	r->name = json_string_value(json_object_get(j, "name"));
	r->prompt = json_array_size(ids);
	r->n = json_array_size(steps);
	r->text = calloc(r->prompt + r->n, sizeof(*r->text));
	r->steps = calloc(r->n, sizeof(*r->steps));
	ASSERT_TRUE(r->name && r->prompt && r->n && r->text && r->steps);
	end = ids_of(ids, r->text);
	for (i = 0; i < r->n; i++) {
		parse_step(json_array_get(steps, i), &r->steps[i]);
		end[i] = r->steps[i].token;
	}
}

static void free_ref(struct ref *r)
{
	free(r->text);
	free(r->steps);
}

/* The objects of a file of lines. */
static size_t read_lines(const char *path, json_t **out, size_t cap)
{
	FILE *f = fopen(path, "r");
	json_error_t error;
	size_t n = 0;

	ASSERT_TRUE(f != NULL);
	while (n < cap &&
	       (out[n] = json_loadf(f, JSON_DISABLE_EOF_CHECK, &error)))
		n++;
	fclose(f);
	return n;
}

static void free_lines(json_t **lines, size_t n)
{
	while (n--)
		json_decref(lines[n]);
}

/* ---- a model on pages ------------------------------------------------- */

struct rig {
	struct gguf *file;
	struct model_info info;
	struct kvc *ctx;
	struct kvc_cache *cache;
	struct kvc_batch *batch;
	struct model *model;
	float *logits;		/* [vocab] */
};

static struct gguf *open_file(const char *path)
{
	char err[256] = "";
	struct gguf *g;

	if (gguf_open(path, &g, err, sizeof(err))) {
		ht_log("%s", err);
		exit(HT_FAIL);
	}
	return g;
}

static struct model *load(const struct gguf *g, enum model_weights weights,
			  struct kva_threads *threads)
{
	struct model_opts opts = { .weights = weights };
	char err[256] = "";
	struct model *m;

	if (model_load(g, &opts, threads, &m, err, sizeof(err))) {
		ht_log("%s", err);
		exit(HT_FAIL);
	}
	return m;
}

static void rig_open(struct rig *r, const char *path, uint32_t type,
		     enum model_weights weights, uint32_t page_tokens)
{
	struct kvc_open_opts open = {
		.sz = sizeof(open),
		.local_bytes = 512 << 20,
	};
	struct kvc_cache_opts opts = { .sz = sizeof(opts), .no_reuse = 1 };
	struct model_groups group;
	struct kvc_model cm;
	char err[256];

	r->file = open_file(path);
	ASSERT_EQ(0, model_probe(r->file, &r->info, err, sizeof(err)));
	model_cache(&r->info, type, type, NULL, &group, &cm);
	cm.page_tokens = page_tokens;
	ASSERT_EQ(0, kvc_open("local", &open, &r->ctx));
	ASSERT_EQ(0, kvc_cache_create(r->ctx, &cm, &opts, &r->cache));
	ASSERT_EQ(0, kvc_batch_create(r->cache, &r->batch));
	r->model = load(r->file, weights, kvc_cache_threads(r->cache));
	r->logits = malloc(r->info.vocab * sizeof(*r->logits));
	ASSERT_TRUE(r->logits != NULL);
}

static void rig_close(struct rig *r)
{
	free(r->logits);
	model_free(r->model);
	kvc_batch_destroy(r->batch);
	kvc_cache_destroy(r->cache);
	kvc_close(r->ctx);
	gguf_close(r->file);
}

/* One step of one sequence; the logits of its last row, if wanted. */
static void feed(struct rig *r, struct kvc_seq *seq, const uint32_t *tokens,
		 uint32_t n, int want)
{
	struct kvc_item item = { .seq = seq, .tokens = tokens, .n = n };
	uint32_t last = n - 1;

	ASSERT_EQ(0, kvc_batch_plan(r->batch, &item, 1));
	ASSERT_EQ(0, model_forward(r->model, r->batch, tokens, n, &last, want,
				   r->logits));
	ASSERT_EQ(0, kvc_batch_commit(r->batch));
}

/* ---- comparing -------------------------------------------------------- */

static void check_step(struct tally *t, const char *name, uint32_t at,
		       const struct step *s, const float *logits,
		       uint32_t vocab)
{
	double sum = 0, error, lse;
	uint32_t i, best = 0;

	for (i = 0; i < vocab; i++) {
		sum += exp(logits[i] - s->logit[0]);
		if (logits[i] > logits[best])
			best = i;
	}
	lse = log(sum) + s->logit[0];
	for (i = 0; i < TOP; i++) {
		error = fabs(logits[s->id[i]] - s->logit[i]);
		t->worst = error > t->worst ? error : t->worst;
		t->squares += error * error;
		EXPECT_TRUE(error <= t->bound);
	}
	error = fabs(lse - s->lse);
	t->worst_lse = error > t->worst_lse ? error : t->worst_lse;
	EXPECT_TRUE(error <= t->bound);
	t->steps++;
	if (best != s->token) {
		t->others++;
		if (s->margin > 2 * t->bound) {
			ht_log("%s step %u: token %u instead of %u with a margin of %g",
			       name, at, best, s->token, s->margin);
			ht_failed = 1;
		}
	}
}

static void report(const struct tally *t, const char *what, const char *mode)
{
	ht_log("figure %s %s: worst logit error %.2e, root mean square %.2e, of logsumexp %.2e, bound %g; %u steps, %u with another first token",
	       what, mode, t->worst, sqrt(t->squares / (TOP * t->steps)),
	       t->worst_lse, t->bound, t->steps, t->others);
}

/*
 * A prompt in chunks, then token by token. As long as all first tokens are
 * the reference's, this is the free-running greedy text too.
 */
static void run_on_pages(struct rig *r, const struct ref *ref, struct tally *t)
{
	struct kvc_seq *seq;
	uint32_t at, n, i;

	ASSERT_EQ(0, kvc_seq_create(r->cache, NULL, &seq));
	for (at = 0; at < ref->prompt; at += n) {
		n = ref->prompt - at < CHUNK ? ref->prompt - at : CHUNK;
		feed(r, seq, ref->text + at, n, at + n == ref->prompt);
	}
	for (i = 0; i < ref->n; i++) {
		check_step(t, ref->name, i, &ref->steps[i], r->logits,
			   r->info.vocab);
		if (i + 1 < ref->n)
			feed(r, seq, ref->text + at + i, 1, 1);
	}
	kvc_seq_free(seq, 0);
}

struct each {
	const struct ref *ref;
	struct tally *t;
	uint32_t vocab;
};

static void each_step(void *arg, uint32_t pos, const float *logits)
{
	const struct each *e = arg;
	uint32_t i = pos - (e->ref->prompt - 1);

	check_step(e->t, e->ref->name, i, &e->ref->steps[i], logits, e->vocab);
}

static void run_in_one_pass(struct model *m, const struct ref *ref,
			    struct tally *t)
{
	struct each e = { .ref = ref, .t = t, .vocab = model_info(m)->vocab };
	uint32_t *want = calloc(ref->n, sizeof(*want)), i;

	ASSERT_TRUE(want != NULL);
	for (i = 0; i < ref->n; i++)
		want[i] = ref->prompt - 1 + i;
	ASSERT_EQ(0, model_recompute(m, ref->text, ref->prompt + ref->n - 1,
				     want, ref->n, NULL, each_step, &e));
	free(want);
}

/* ---- the real models -------------------------------------------------- */

/* A real model's prompts, and steps in all of them. */
struct real {
	const char *name;
	const char *(*path)(void);
	const char *refs;
	size_t prompts;
	unsigned int steps;
};

static const struct real smollm2 = {
	"smollm2", real_model_to_run, REFS "smollm2.jsonl", 9, 585,
};

static const struct real gemma3 = {
	"gemma3", real_gemma_to_run, REFS "gemma3.jsonl", 4, 152,
};

static void real_on_pages(const struct real *m, uint32_t type,
			  enum model_weights weights, double bound,
			  const char *mode)
{
	struct tally t = { .bound = bound };
	json_t *lines[16];
	struct rig r;
	struct ref ref;
	size_t i, n;

	rig_open(&r, m->path(), type, weights, 0);
	n = read_lines(m->refs, lines, 16);
	ASSERT_EQ(m->prompts, n);
	for (i = 0; i < n; i++) {
		parse_ref(lines[i], &ref);
		run_on_pages(&r, &ref, &t);
		free_ref(&ref);
	}
	free_lines(lines, n);
	report(&t, m->name, mode);
	EXPECT_EQ(m->steps, t.steps);
	rig_close(&r);
}

static void model_on_pages(uint32_t type, enum model_weights weights,
			   double bound, const char *mode)
{
	real_on_pages(&smollm2, type, weights, bound, mode);
}

static void gemma_on_pages(uint32_t type, const char *mode)
{
	real_on_pages(&gemma3, type, MODEL_WEIGHTS_F32, bounds_model[type],
		      mode);
}

TEST_TIMEOUT(gemma_f32, 400)
{
	gemma_on_pages(KVC_F32, "f32 KV");
}

TEST_TIMEOUT(gemma_f16, 400)
{
	gemma_on_pages(KVC_F16, "f16 KV");
}

TEST_TIMEOUT(gemma_bf16, 400)
{
	gemma_on_pages(KVC_BF16, "bf16 KV");
}

TEST_TIMEOUT(model_f32, 400)
{
	model_on_pages(KVC_F32, MODEL_WEIGHTS_F32, bounds_model[KVC_F32],
		       "f32 KV");
}

TEST_TIMEOUT(model_f16, 400)
{
	model_on_pages(KVC_F16, MODEL_WEIGHTS_F32, bounds_model[KVC_F16],
		       "f16 KV");
}

TEST_TIMEOUT(model_bf16, 400)
{
	model_on_pages(KVC_BF16, MODEL_WEIGHTS_F32, bounds_model[KVC_BF16],
		       "bf16 KV");
}

TEST_TIMEOUT(model_int8, 400)
{
	model_on_pages(KVC_INT8, MODEL_WEIGHTS_F32, bounds_model[KVC_INT8],
		       "int8 KV");
}

/* Nothing that the tiny models do not show: only where it is asked for. */
static void if_all(void)
{
	const char *all = getenv("KVCACHE_REFS");

	if (!all || strcmp(all, "all"))
		SKIP(return, "only with KVCACHE_REFS=all");
}

TEST_TIMEOUT(model_e4m3, 400)
{
	if_all();
	model_on_pages(KVC_E4M3, MODEL_WEIGHTS_F32, bounds_model[KVC_E4M3],
		       "e4m3 KV");
}

TEST_TIMEOUT(model_int4h, 400)
{
	if_all();
	model_on_pages(KVC_INT4H, MODEL_WEIGHTS_F32, bounds_model[KVC_INT4H],
		       "int4h KV");
}

/* What the fastest products add: the bound is what the manual states. */
TEST_TIMEOUT(model_fastest, 400)
{
	model_on_pages(KVC_F32, MODEL_WEIGHTS_AUTO, 0.5,
		       "fastest products, f32 KV");
}

TEST_TIMEOUT(model_one_pass, 400)
{
	struct tally t = { .bound = bounds_model[KVC_F32] };
	struct kva_threads *threads;
	struct gguf *g = open_file(real_model_to_run());
	json_t *lines[16];
	struct model *m;
	struct ref ref;
	size_t i, n;

	ASSERT_EQ(0, kva_threads_create(0, &threads));
	m = load(g, MODEL_WEIGHTS_F32, threads);
	n = read_lines(REFS "smollm2.jsonl", lines, 16);
	ASSERT_EQ(9, n);
	for (i = 0; i < n; i++) {
		parse_ref(lines[i], &ref);
		run_in_one_pass(m, &ref, &t);
		free_ref(&ref);
	}
	free_lines(lines, n);
	report(&t, "smollm2", "one pass");
	EXPECT_EQ(585, t.steps);
	model_free(m);
	kva_threads_destroy(threads);
	gguf_close(g);
}

/* ---- the small models ------------------------------------------------- */

/* All logits of one position. */
static void check_logits(struct tally *t, const json_t *want,
			 const float *logits)
{
	double error;
	size_t i;

	for (i = 0; i < json_array_size(want); i++) {
		error = fabs(logits[i] -
			     json_number_value(json_array_get(want, i)));
		t->worst = error > t->worst ? error : t->worst;
		EXPECT_TRUE(error <= t->bound);
	}
}

/* The 300 tokens, in pieces that end where logits are wanted. */
static unsigned int run_long(struct rig *r, const json_t *line, struct tally *t)
{
	const json_t *ids = json_object_get(line, "long_ids");
	const json_t *at = json_object_get(line, "long_logits_at");
	uint32_t n = json_array_size(ids), first = 0, i;
	uint32_t *text = calloc(n, sizeof(*text));
	unsigned int found = 0;
	struct kvc_seq *seq;
	const json_t *want;
	char key[16];

	ASSERT_TRUE(text != NULL);
	ids_of(ids, text);
	ASSERT_EQ(0, kvc_seq_create(r->cache, NULL, &seq));
	for (i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "%u", i);
		want = json_object_get(at, key);
		if (!want)
			continue;
		ASSERT_EQ(r->info.vocab, json_array_size(want));
		feed(r, seq, text + first, i + 1 - first, 1);
		check_logits(t, want, r->logits);
		first = i + 1;
		found++;
	}
	kvc_seq_free(seq, 0);
	free(text);
	return found;
}

struct each_long {
	const json_t *at;
	struct tally *t;
};

static void each_long_logits(void *arg, uint32_t pos, const float *logits)
{
	const struct each_long *e = arg;
	char key[16];

	snprintf(key, sizeof(key), "%u", pos);
	check_logits(e->t, json_object_get(e->at, key), logits);
}

static unsigned int run_long_in_one_pass(struct model *m, const json_t *line,
					 struct tally *t)
{
	const json_t *ids = json_object_get(line, "long_ids");
	struct each_long e = {
		.at = json_object_get(line, "long_logits_at"),
		.t = t,
	};
	uint32_t text[300], want[16], nwant = 0, i;
	char key[16];

	ASSERT_EQ(300, json_array_size(ids));
	ids_of(ids, text);
	for (i = 0; i < 300 && nwant < 16; i++) {
		snprintf(key, sizeof(key), "%u", i);
		if (json_object_get(e.at, key))
			want[nwant++] = i;
	}
	ASSERT_EQ(0, model_recompute(m, text, 300, want, nwant, NULL,
				     each_long_logits, &e));
	return nwant;
}

static void tiny_path(char *path, size_t size, const json_t *line)
{
	snprintf(path, size, REFS "%s.gguf",
		 json_string_value(json_object_get(line, "name")));
}

static size_t tiny_lines(json_t **lines, size_t cap)
{
	return read_lines(REFS "tiny.jsonl", lines, cap);
}

static void tiny_on_pages(uint32_t type)
{
	struct tally t = { .bound = bounds_tiny[type] };
	json_t *lines[16];
	size_t i, n = tiny_lines(lines, 16);
	char path[256], mode[16];

	ASSERT_EQ(TINY_MODELS, n);
	for (i = 0; i < n; i++) {
		struct ref ref;
		struct rig r;

		tiny_path(path, sizeof(path), lines[i]);
		parse_ref(lines[i], &ref);
		rig_open(&r, path, type, MODEL_WEIGHTS_F32, 16);
		run_on_pages(&r, &ref, &t);
		EXPECT_EQ(10, run_long(&r, lines[i], &t));
		rig_close(&r);
		free_ref(&ref);
	}
	free_lines(lines, n);
	snprintf(mode, sizeof(mode), "%s KV", kva_type_name(type));
	report(&t, "tiny models", mode);
	EXPECT_EQ(16 * TINY_MODELS, t.steps);
}

TEST(tiny_f32)
{
	tiny_on_pages(KVC_F32);
}

TEST(tiny_f16)
{
	tiny_on_pages(KVC_F16);
}

TEST(tiny_bf16)
{
	tiny_on_pages(KVC_BF16);
}

TEST(tiny_int8)
{
	tiny_on_pages(KVC_INT8);
}

TEST(tiny_e4m3)
{
	tiny_on_pages(KVC_E4M3);
}

TEST(tiny_int4)
{
	tiny_on_pages(KVC_INT4);
}

TEST(tiny_int4h)
{
	tiny_on_pages(KVC_INT4H);
}

TEST(tiny_one_pass)
{
	struct tally t = { .bound = bounds_tiny[KVC_F32] };
	json_t *lines[16];
	size_t i, n = tiny_lines(lines, 16);
	char path[256];

	ASSERT_EQ(TINY_MODELS, n);
	for (i = 0; i < n; i++) {
		struct gguf *g;
		struct model *m;
		struct ref ref;

		tiny_path(path, sizeof(path), lines[i]);
		parse_ref(lines[i], &ref);
		g = open_file(path);
		m = load(g, MODEL_WEIGHTS_F32, NULL);
		run_in_one_pass(m, &ref, &t);
		EXPECT_EQ(10, run_long_in_one_pass(m, lines[i], &t));
		model_free(m);
		gguf_close(g);
		free_ref(&ref);
	}
	free_lines(lines, n);
	report(&t, "tiny models", "one pass");
	EXPECT_EQ(16 * TINY_MODELS, t.steps);
}

TEST_HARNESS_MAIN
