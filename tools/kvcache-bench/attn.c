// SPDX-License-Identifier: MIT
/*
 * attn.c - kvcache-bench attn: decode against the memory's read bandwidth,
 * prefill against the arithmetic of the variant's vectors.
 *
 * Decode reads its keys and values from memory, not from a cache: a call goes
 * over as many sequences as bench_cold_bytes() holds. Pages are in random
 * order. A packed type's tokens/s are those of bf16 times the median of what a
 * round of both gives, one after the other.
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define SHORT 4096		/* stored tokens */
#define LONG 16384
#define PREFILL_TOKENS 512

enum op { DECODE, PREFILL };

struct bench_case {
	enum op op;
	unsigned int type;
	uint32_t kv_heads;
	uint32_t group;
	uint32_t dim;
	uint32_t page_tokens;
	uint32_t kv_tokens;
	double goal;		/* ratio to the probe; 0 for none */
	double gain;		/* goal: tokens/s to those of bf16 */
};

/* The heads of a 135M and of an 8B model, pages of 2 and of 8 MiB. */
static const struct bench_case cases[] = {
	{ DECODE, KVA_F16, 3, 3, 64, 88, SHORT, 0.20, 0 },
	{ DECODE, KVA_F16, 8, 4, 128, 64, SHORT, 0.20, 0 },
	{ DECODE, KVA_F32, 8, 4, 128, 64, SHORT, 0, 0 },
	{ DECODE, KVA_BF16, 3, 3, 64, 88, SHORT, 0, 0 },
	{ DECODE, KVA_INT8, 3, 3, 64, 88, SHORT, 0, 0 },
	{ DECODE, KVA_INT4, 3, 3, 64, 88, SHORT, 0, 0 },
	{ DECODE, KVA_BF16, 8, 4, 128, 64, SHORT, 0.40, 0 },
	{ DECODE, KVA_INT8, 8, 4, 128, 64, SHORT, 0, 1.3 },
	{ DECODE, KVA_E4M3, 8, 4, 128, 64, SHORT, 0, 1.3 },
	{ DECODE, KVA_E4M3T, 8, 4, 128, 64, SHORT, 0, 0 },
	{ DECODE, KVA_INT4, 8, 4, 128, 64, SHORT, 0, 1.5 },
	{ DECODE, KVA_INT4H, 8, 4, 128, 64, SHORT, 0, 0 },
	{ DECODE, KVA_BF16, 8, 4, 128, 64, LONG, 0.40, 0 },
	{ DECODE, KVA_INT8, 8, 4, 128, 64, LONG, 0, 1.3 },
	{ DECODE, KVA_E4M3, 8, 4, 128, 64, LONG, 0, 1.3 },
	{ DECODE, KVA_INT4, 8, 4, 128, 64, LONG, 0, 1.5 },
	{ PREFILL, KVA_F32, 3, 3, 64, 88, SHORT, 0.35, 0 },
	{ PREFILL, KVA_F32, 8, 4, 128, 64, SHORT, 0.35, 0 },
	{ PREFILL, KVA_F16, 8, 4, 128, 64, SHORT, 0, 0 },
	{ PREFILL, KVA_BF16, 8, 4, 128, 64, SHORT, 0, 0 },
	{ PREFILL, KVA_INT8, 8, 4, 128, 64, SHORT, 0, 0 },
	{ PREFILL, KVA_INT4, 8, 4, 128, 64, SHORT, 0, 0 },
};

struct options {
	int json;
	int check;
	int packed;
	int threads;
	size_t bytes;
	const struct kva_ops *ops;
};

/* One case's memory, all from malloc but the pages. */
struct setup {
	struct kva_view view;
	struct kva_attn attn;
	void *arena;
	size_t arena_size;
	uint32_t *indptr;
	uint32_t *indices;
	uint32_t *last;
	uint32_t *row_ptr;
	float *q;
	float *o;
};

static void *must_alloc(size_t n)
{
	void *p = aligned_alloc(64, (n + 63) / 64 * 64);

	if (!p) {
		fprintf(stderr, "kvcache-bench: out of memory\n");
		exit(1);
	}
	return p;
}

static uint32_t next_random(void)
{
	static uint64_t x = 88172645463325252ull;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x >> 32;
}

/* Small numbers of the type: one page of them, over all pages. */
static void fill_pages(const struct bench_case *c, struct setup *s)
{
	const struct kva_view *v = &s->view;
	uint32_t stored[KVA_DIM_MAX], d, h, t;
	float row[KVA_DIM_MAX];
	int is_v;
	size_t i;

	for (is_v = 0; is_v <= 1; is_v++) {
		for (h = 0; h < c->kv_heads; h++) {
			for (t = 0; t < c->page_tokens; t++) {
				for (d = 0; d < c->dim; d++)
					row[d] = (int32_t)next_random() *
						 0x1p-31f;
				kva_row_encode(c->type, v->k_scale, row, stored,
					       c->dim);
				kva_rows_write(v, s->arena, is_v, h, t, 1,
					       stored);
			}
		}
	}
	for (i = v->page_stride; i < s->arena_size; i += v->page_stride)
		memcpy((char *)s->arena + i, s->arena, v->page_stride);
}

static void set_up(const struct bench_case *c, const struct options *opt,
		   struct setup *s)
{
	uint32_t q_heads = c->kv_heads * c->group, rows, nseq, i, pages;
	size_t slab = kva_slab_size(c->type, KVA_CPU, 0, c->page_tokens,
				    c->dim);
	uint32_t seq_pages = (c->kv_tokens + c->page_tokens - 1) /
			     c->page_tokens;
	uint64_t stride = 2 * slab * c->kv_heads;

	nseq = c->op == PREFILL ? 1 :
	       (opt->bytes + seq_pages * stride - 1) / (seq_pages * stride);
	rows = c->op == PREFILL ? PREFILL_TOKENS : nseq;
	pages = nseq * seq_pages;
	memset(s, 0, sizeof(*s));
	s->arena_size = pages * stride;
	s->arena = bench_map(s->arena_size);
	s->indptr = must_alloc((nseq + 1) * sizeof(uint32_t));
	s->row_ptr = must_alloc((nseq + 1) * sizeof(uint32_t));
	s->last = must_alloc(nseq * sizeof(uint32_t));
	s->indices = must_alloc(pages * sizeof(uint32_t));
	for (i = 0; i <= nseq; i++) {
		s->indptr[i] = i * seq_pages;
		s->row_ptr[i] = (uint64_t)i * rows / nseq;
	}
	for (i = 0; i < nseq; i++)
		s->last[i] = (c->kv_tokens - 1) % c->page_tokens + 1;
	for (i = 0; i < pages; i++)
		s->indices[i] = i;
	for (i = pages - 1; i > 0; i--) {
		uint32_t j = next_random() % (i + 1), t = s->indices[i];

		s->indices[i] = s->indices[j];
		s->indices[j] = t;
	}
	s->q = must_alloc((size_t)rows * q_heads * c->dim * sizeof(float));
	s->o = must_alloc((size_t)rows * q_heads * c->dim * sizeof(float));
	for (i = 0; i < rows * q_heads * c->dim; i++)
		s->q[i] = (int32_t)next_random() * 0x1p-31f;
	s->view = (struct kva_view) {
		.base = s->arena, .page_stride = stride, .nseq = nseq,
		.indptr = s->indptr, .indices = s->indices,
		.last_page_len = s->last, .page_tokens = c->page_tokens,
		.kv_heads = c->kv_heads, .k_dim = c->dim, .v_dim = c->dim,
		.k_type = c->type, .v_type = c->type, .order = KVA_CPU,
		.k_off = 0, .v_off = slab * c->kv_heads,
		.k_head_stride = slab, .v_head_stride = slab,
		.k_scale = 1.0f / 448, .v_scale = 1.0f / 448,
	};
	fill_pages(c, s);
	s->attn = (struct kva_attn) {
		.kv = &s->view, .row_ptr = s->row_ptr, .q = s->q, .o = s->o,
		.q_stride = (size_t)q_heads * c->dim,
		.o_stride = (size_t)q_heads * c->dim, .q_heads = q_heads,
		.scale = 1 / sqrtf(c->dim),
	};
}

static void tear_down(struct setup *s)
{
	bench_unmap(s->arena, s->arena_size);
	free(s->indptr);
	free(s->indices);
	free(s->last);
	free(s->row_ptr);
	free(s->q);
	free(s->o);
	free(s->attn.ws);
}

/* What a call does: bytes of K and V for decode, flop for prefill. */
static double work_of(const struct bench_case *c, const struct setup *s)
{
	double t = PREFILL_TOKENS, before = c->kv_tokens - t;

	if (c->op == DECODE)
		return 2.0 * s->view.nseq * c->kv_tokens * c->kv_heads *
		       kva_row_size(c->type, c->dim);
	return 4.0 * c->kv_heads * c->group * c->dim *
	       (t * before + t * (t + 1) / 2);
}

struct result {
	struct bench_stat ms;
	struct bench_stat rate;		/* GB/s or GFLOP/s */
	struct bench_stat probe;
	struct bench_stat ratio;
	int has_probe;
	struct bench_stat gain;	/* tokens/s to those of bf16; 0 for unknown */
};

static void set_up_with_ws(const struct bench_case *c,
			   const struct options *opt, struct kva_threads *t,
			   struct setup *s)
{
	set_up(c, opt, s);
	s->attn.ws = must_alloc(kva_workspace(&s->attn, t));
}

static int is_packed(const struct bench_case *c)
{
	return c->op == DECODE && c->type != KVA_F32 && c->type != KVA_F16 &&
	       c->type != KVA_BF16;
}

/* Seconds that a stored token takes, of one call. */
static double token_seconds(const struct options *opt, struct kva_threads *t,
			    struct setup *s)
{
	double start = bench_seconds();

	opt->ops->decode(&s->attn, t);
	return (bench_seconds() - start) / s->view.nseq;
}

static void measure(const struct bench_case *c, const struct options *opt,
		    struct kva_threads *t, struct result *r)
{
	double ms[BENCH_ROUNDS], rate[BENCH_ROUNDS], probe[BENCH_ROUNDS];
	double ratio[BENCH_ROUNDS], before, after, start, secs, work;
	double gain[BENCH_ROUNDS] = { 0 };
	struct bench_case plain = *c;
	struct setup s, base;
	int i;

	set_up_with_ws(c, opt, t, &s);
	plain.type = KVA_BF16;
	if (is_packed(c))
		set_up_with_ws(&plain, opt, t, &base);
	work = work_of(c, &s);
	before = after = 0;
	for (i = -1; i < BENCH_ROUNDS; i++) {
		start = bench_seconds();
		if (c->op == DECODE)
			opt->ops->decode(&s.attn, t);
		else
			opt->ops->prefill(&s.attn, t);
		secs = bench_seconds() - start;
		after = c->op == PREFILL ? probe_fma(t, opt->ops->name) :
			s.arena_size / probe_read(t, s.arena, s.arena_size);
		if (i >= 0) {
			ms[i] = secs * 1e3;
			rate[i] = work / secs * 1e-9;
			probe[i] = (before + after) / 2 * 1e-9;
			ratio[i] = probe[i] > 0 ? rate[i] / probe[i] : 0;
		}
		before = after;
	}
	/* bf16 before and after each: drift of the machine cancels */
	before = is_packed(c) ? token_seconds(opt, t, &base) : 0;
	for (i = 0; i < BENCH_ROUNDS && is_packed(c); i++) {
		secs = token_seconds(opt, t, &s);
		after = token_seconds(opt, t, &base);
		gain[i] = (before + after) / 2 / secs;
		before = after;
	}
	r->ms = bench_stat(ms, BENCH_ROUNDS);
	r->rate = bench_stat(rate, BENCH_ROUNDS);
	r->probe = bench_stat(probe, BENCH_ROUNDS);
	r->ratio = bench_stat(ratio, BENCH_ROUNDS);
	r->has_probe = r->probe.median > 0;
	r->gain = bench_stat(gain, BENCH_ROUNDS);
	tear_down(&s);
	if (is_packed(c))
		tear_down(&base);
}

/* The lesser of what is asked and 3/4 of what the bytes allow. */
static double gain_goal(const struct bench_case *c)
{
	double bytes = 0.75 * kva_row_size(KVA_BF16, c->dim) /
		       kva_row_size(c->type, c->dim);

	return c->gain < bytes ? c->gain : bytes;
}

static const char *verdict(const struct bench_case *c, const struct result *r)
{
	if (c->gain)
		return r->gain.median >= gain_goal(c) ? "pass" : "fail";
	if (!c->goal || !r->has_probe)
		return "-";
	return r->ratio.median >= c->goal ? "pass" : "fail";
}

static void print_text(const struct bench_case *c, const struct result *r)
{
	const char *unit = c->op == DECODE ? "GB/s" : "GFLOP/s";

	printf("%-8s%-6s%2u x %u x %-4u%4u %6u %9.2f [%.2f..%.2f] %7.1f %-8s"
	       "%7.1f %6.2f [%.2f..%.2f] ", c->op == DECODE ? "decode" :
	       "prefill", kva_type_name(c->type), c->kv_heads, c->group, c->dim,
	       c->page_tokens, c->kv_tokens, r->ms.median, r->ms.min,
	       r->ms.max, r->rate.median, unit, r->probe.median,
	       r->ratio.median, r->ratio.min, r->ratio.max);
	if (r->gain.median)
		printf("%7.2f [%.2f..%.2f]", r->gain.median, r->gain.min,
		       r->gain.max);
	else
		printf("      -");
	if (c->gain)
		printf(" %5.2f  %s\n", gain_goal(c), verdict(c, r));
	else if (c->goal)
		printf(" %5.2f  %s\n", c->goal, verdict(c, r));
	else
		printf("     -  -\n");
	fflush(stdout);
}

static void print_json(const struct bench_case *c, const struct result *r,
		       int first)
{
	printf("%s\n    {\"op\": \"%s\", \"type\": \"%s\", \"kv_heads\": %u, "
	       "\"group\": %u, \"dim\": %u, \"page_tokens\": %u, "
	       "\"kv_tokens\": %u, \"ms\": [%.4f, %.4f, %.4f], "
	       "\"unit\": \"%s\", \"rate\": %.3f, \"probe\": %.3f, "
	       "\"ratio\": [%.4f, %.4f, %.4f], \"goal\": %.2f, "
	       "\"tokens_to_bf16\": [%.3f, %.3f, %.3f], "
	       "\"tokens_goal\": %.2f, "
	       "\"verdict\": \"%s\"}", first ? "" : ",",
	       c->op == DECODE ? "decode" : "prefill", kva_type_name(c->type),
	       c->kv_heads, c->group, c->dim, c->page_tokens, c->kv_tokens,
	       r->ms.median, r->ms.min, r->ms.max,
	       c->op == DECODE ? "GB/s" : "GFLOP/s", r->rate.median,
	       r->probe.median, r->ratio.median, r->ratio.min, r->ratio.max,
	       c->goal, r->gain.median, r->gain.min, r->gain.max,
	       c->gain ? gain_goal(c) : 0, verdict(c, r));
	fflush(stdout);
}

static int run(const struct options *opt)
{
	struct kva_threads *t;
	struct result r;
	int missed = 0, rc;
	size_t i;

	rc = kva_threads_create(opt->threads, &t);
	if (rc) {
		fprintf(stderr, "kvcache-bench: no threads: %s\n",
			strerror(-rc));
		return 1;
	}
	if (opt->json)
		printf("{\"isa\": \"%s\", \"threads\": %u, \"rounds\": %d, "
		       "\"decode_bytes\": %zu, \"results\": [", opt->ops->name,
		       kva_threads_count(t), BENCH_ROUNDS, opt->bytes);
	else
		printf("%s, %u threads, median [min..max] of %d; decode reads "
		       "%zu MiB; prefill is %d tokens after %d\n"
		       "op      type  heads x group x dim, page, tokens  ms"
		       "            rate             probe  ratio"
		       "            x bf16  goal\n", opt->ops->name,
		       kva_threads_count(t), BENCH_ROUNDS, opt->bytes >> 20,
		       PREFILL_TOKENS, SHORT - PREFILL_TOKENS);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		measure(&cases[i], opt, t, &r);
		if (opt->json)
			print_json(&cases[i], &r, i == 0);
		else
			print_text(&cases[i], &r);
		if (!cases[i].gain || opt->packed)
			missed += !strcmp(verdict(&cases[i], &r), "fail");
	}
	if (opt->json)
		printf("\n]}\n");
	kva_threads_destroy(t);
	return opt->check && missed ? 1 : 0;
}

static const struct kva_ops *find_variant(const char *name)
{
	const struct kva_ops *ops;
	unsigned int i;
	int runnable;

	for (i = 0; (ops = kva_variant(i, &runnable)); i++)
		if (!strcmp(ops->name, name) && runnable)
			return ops;
	return NULL;
}

static void usage(FILE *f)
{
	fprintf(f,
		"Usage: kvcache-bench attn [OPTION]...\n"
		"Decode against memory bandwidth, prefill against arithmetic.\n\n"
		"  --isa NAME     avx512, avx2 or scalar; default the best\n"
		"  --threads N    default one a CPU\n"
		"  --mem MIB      keys and values that decode reads; default\n"
		"                 twice the last cache, at least 256\n"
		"  --check        exit with 1 if a goal is missed\n"
		"  --packed       with --check: goals of 8 and 4 bits count, too\n"
		"  --json         figures for programs\n"
		"  --help         this text\n");
}

int bench_attn(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "isa", required_argument, NULL, 'i' },
		{ "threads", required_argument, NULL, 't' },
		{ "mem", required_argument, NULL, 'm' },
		{ "check", no_argument, NULL, 'c' },
		{ "packed", no_argument, NULL, 'p' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 }
	};
	struct options opt = { .ops = kva_config(),
			       .bytes = bench_cold_bytes() };
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'i':
			opt.ops = find_variant(optarg);
			break;
		case 't':
			opt.threads = atoi(optarg);
			break;
		case 'm':
			opt.bytes = (size_t)atoi(optarg) << 20;
			break;
		case 'c':
			opt.check = 1;
			break;
		case 'p':
			opt.packed = 1;
			break;
		case 'j':
			opt.json = 1;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (!opt.ops) {
		fprintf(stderr,
			"kvcache-bench: this CPU runs no such variant\n");
		return 2;
	}
	if (optind != argc || !opt.bytes || opt.threads < 0) {
		usage(stderr);
		return 2;
	}
	return run(&opt);
}
