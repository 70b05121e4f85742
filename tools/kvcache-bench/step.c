// SPDX-License-Identifier: MIT
/*
 * step.c - kvcache-bench step: what one more token costs at different places
 * of a text, with the cache and by going through the whole text again.
 *
 * The text is made of arbitrary tokens: cost does not depend on them. With
 * --pair, steps at two places alternate, so that both meet the same machine.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <kvcache/threads.h>

#include "bench.h"
#include "gguf.h"
#include "model.h"

#define CHUNK		512	/* tokens in a step of prefill */
#define MAX_PLACES	16
#define STEPS		16	/* with the cache, at each place */
#define ENOUGH		0.5	/* seconds: then no further pass without it */
#define PAIRS		200
#define NEAR		1.05	/* cost of the later of a pair to the earlier */

static const uint32_t default_places[] = {
	10, 100, 400, 1000, 2000, 4000, 8000,
};

struct options {
	const char *model;
	const char *plot;
	int json;
	int check;
	int pair;
	int threads;
	uint32_t places[MAX_PLACES];
	unsigned int n;
};

struct world {
	struct gguf *gguf;
	struct kvc *kvc;
	struct kvc_cache *cache;
	struct kvc_batch *batch;
	struct model *model;
	uint32_t *ids;		/* as many as the model's context */
	float *logits;
};

/* One place of the table; times in seconds, positions of one step or pass. */
struct figure {
	uint32_t place;
	struct bench_stat with;
	struct bench_stat without;
	unsigned int passes;
	uint64_t forwarded_with;
	uint64_t forwarded_without;
};

/* ---- the model ---------------------------------------------------------- */

static void loading(void *arg, double done)
{
	bench_progress("loading %.0f %%", done * 100);
}

static void open_pool(struct world *w, const struct model_info *info,
		      const struct options *opt)
{
	const struct kvc_cache_opts opts = {
		.sz = sizeof(opts), .threads = opt->threads,
		/* A step that fills a page again and again publishes once. */
		.no_reuse = opt->pair,
	};
	struct kvc_open_opts open = { .sz = sizeof(open) };
	struct kvc_footprint f;
	struct model_groups group;
	struct kvc_model shape;
	int rc;

	model_cache(info, KVC_F16, KVC_F16, NULL, &group, &shape);
	rc = kvc_footprint(&shape, (uint64_t)2 << 20, info->context, 1, &f);
	if (rc)
		bench_die("%s: its keys and values: %s", opt->model,
			  strerror(-rc));
	/* And a tail for the second of a pair. */
	open.local_bytes = f.held_bytes + f.held_bytes / f.pages;
	rc = kvc_open("local", &open, &w->kvc);
	if (rc)
		bench_die("no pool of %" PRIu64 " MiB: %s",
			  open.local_bytes >> 20, strerror(-rc));
	if (kvc_cache_create(w->kvc, &shape, &opts, &w->cache) ||
	    kvc_batch_create(w->cache, &w->batch))
		bench_die("no cache: %s", kvc_errmsg(w->kvc));
}

static void world_open(struct world *w, const struct options *opt)
{
	const struct model_opts mopts = { .progress = loading };
	struct model_info info;
	char err[256] = "";
	uint32_t i;

	if (gguf_open(opt->model, &w->gguf, err, sizeof(err)))
		bench_die("%s", err);
	if (model_probe(w->gguf, &info, err, sizeof(err)))
		bench_die("%s: %s", opt->model, err);
	/* Steps go on from a place: leave them room. */
	if (opt->places[opt->n - 1] > info.context - STEPS)
		bench_die("%s: a context of %u tokens: take places up to %u",
			  opt->model, info.context, info.context - STEPS);
	for (i = 1; i < opt->n && !opt->pair; i++)
		if (opt->places[i] - opt->places[i - 1] < STEPS)
			bench_die("--at %u,%u: take places at least %u apart",
				  opt->places[i - 1], opt->places[i], STEPS);
	open_pool(w, &info, opt);
	if (model_load(w->gguf, &mopts, kvc_cache_threads(w->cache),
		       &w->model, err, sizeof(err)))
		bench_die("%s: %s", opt->model, err);
	w->ids = bench_alloc(info.context, sizeof(*w->ids));
	for (i = 0; i < info.context; i++)
		w->ids[i] = (i * 2654435761U >> 8) % info.vocab;
	w->logits = bench_alloc(info.vocab, sizeof(*w->logits));
}

static void world_close(struct world *w)
{
	model_free(w->model);
	kvc_batch_destroy(w->batch);
	kvc_cache_destroy(w->cache);
	kvc_close(w->kvc);
	gguf_close(w->gguf);
	free(w->ids);
	free(w->logits);
}

static uint64_t forwarded(const struct world *w)
{
	struct model_counters c;

	model_counters(w->model, &c);
	return c.forwarded;
}

/* Seconds that the next @n tokens take, with the logits of the last. */
static double forward(struct world *w, struct kvc_seq *s, uint32_t n)
{
	const uint32_t *ids = w->ids + kvc_seq_len(s), last = n - 1;
	const struct kvc_item item = { .seq = s, .tokens = ids, .n = n };
	double start = bench_seconds();
	int rc = kvc_batch_plan(w->batch, &item, 1);

	if (!rc)
		rc = model_forward(w->model, w->batch, ids, n, &last, 1,
				   w->logits);
	if (!rc)
		rc = kvc_batch_commit(w->batch);
	if (rc)
		bench_die("a step of %u tokens at %u: %s (%s)", n,
			  kvc_seq_len(s), strerror(-rc), kvc_errmsg(w->kvc));
	return bench_seconds() - start;
}

static void extend(struct world *w, struct kvc_seq *s, uint32_t to)
{
	uint32_t left;

	while ((left = to - kvc_seq_len(s))) {
		bench_progress("prefill %u of %u", kvc_seq_len(s), to);
		forward(w, s, left < CHUNK ? left : CHUNK);
	}
}

static double recompute(struct world *w, uint32_t n)
{
	double start = bench_seconds();
	uint32_t last = n - 1;
	int rc = model_recompute(w->model, w->ids, n, &last, 1, w->logits,
				 NULL, NULL);

	if (rc)
		bench_die("a pass over %u tokens: %s", n, strerror(-rc));
	return bench_seconds() - start;
}

/* ---- with and without --------------------------------------------------- */

static void measure(struct world *w, struct kvc_seq *s, uint32_t place,
		    struct figure *f)
{
	double secs[STEPS], sum = 0;
	uint64_t before;
	unsigned int i;

	*f = (struct figure) { .place = place };
	extend(w, s, place);
	before = forwarded(w);
	for (i = 0; i < STEPS; i++)
		secs[i] = forward(w, s, 1);
	f->forwarded_with = (forwarded(w) - before) / STEPS;
	f->with = bench_stat(secs, STEPS);

	bench_progress("a pass over %u tokens", place + 1);
	before = forwarded(w);
	for (i = 0; i < STEPS && sum < ENOUGH; i++) {
		secs[i] = recompute(w, place + 1);
		sum += secs[i];
	}
	f->forwarded_without = (forwarded(w) - before) / i;
	f->without = bench_stat(secs, i);
	f->passes = i;
	bench_progress_clear();
}

static double ratio(const struct figure *f)
{
	return f->without.median / f->with.median;
}

static void print_figure(const struct options *opt, const struct figure *f)
{
	if (opt->json)
		printf("%s\n  {\"position\": %u, \"ms\": [%.4f, %.4f, %.4f], "
		       "\"forwarded\": %" PRIu64 ", \"no_cache_ms\": "
		       "[%.4f, %.4f, %.4f], \"no_cache_forwarded\": %" PRIu64
		       ", \"passes\": %u, \"ratio\": %.3f}",
		       f->place == opt->places[0] ? "" : ",", f->place,
		       f->with.median * 1e3, f->with.min * 1e3,
		       f->with.max * 1e3, f->forwarded_with,
		       f->without.median * 1e3, f->without.min * 1e3,
		       f->without.max * 1e3, f->forwarded_without, f->passes,
		       ratio(f));
	else
		printf("%8u %9.2f [%.2f..%.2f] %5" PRIu64 " %12.2f %6" PRIu64
		       " %9.1f\n", f->place, f->with.median * 1e3,
		       f->with.min * 1e3, f->with.max * 1e3, f->forwarded_with,
		       f->without.median * 1e3, f->forwarded_without,
		       ratio(f));
	fflush(stdout);
}

/*
 * The file of a plot, before minutes are spent on what goes into it: gnuplot
 * writes to it as its standard output. NULL without gnuplot.
 */
static FILE *open_plot(const char *path)
{
	FILE *f;

	if (!path)
		return NULL;
	if (system("command -v gnuplot >/dev/null")) {
		fprintf(stderr, "SKIP %s: gnuplot is not installed\n", path);
		return NULL;
	}
	f = fopen(path, "w");
	if (!f)
		bench_die("%s: %s: give a file that can be written", path,
			  strerror(errno));
	return f;
}

static void plot(const char *path, FILE *to, const struct figure *f,
		 unsigned int n)
{
	unsigned int i;
	char cmd[64];
	struct stat st;
	FILE *p;

	/* What it says of its own is no help to who asked for a plot. */
	snprintf(cmd, sizeof(cmd), "gnuplot 2>/dev/null >&%d", fileno(to));
	p = popen(cmd, "w");
	if (!p)
		bench_die("gnuplot: %s", strerror(errno));
	fprintf(p, "set terminal svg size 720,480 background 'white'\n"
		   "set logscale xy\nset grid\n"
		   "set key left top\nset xlabel 'position'\n"
		   "set ylabel 'milliseconds for one more token'\n"
		   "$d << E\n");
	for (i = 0; i < n; i++)
		fprintf(p, "%u %g %g\n", f[i].place, f[i].with.median * 1e3,
			f[i].without.median * 1e3);
	fprintf(p, "E\nplot $d using 1:3 with linespoints title 'without the cache', "
		   "$d using 1:2 with linespoints title 'with the cache'\n");
	if (pclose(p) || fstat(fileno(to), &st) ||
	    (S_ISREG(st.st_mode) && !st.st_size) || fclose(to))
		bench_die("%s: gnuplot could not write it: make room, or give another file",
			  path);
}

/* What holds on any machine: the work, and that it shows in time. */
static void check_table(const struct figure *f, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (f[i].forwarded_with != 1 ||
		    f[i].forwarded_without != f[i].place + 1)
			bench_die("position %u: %" PRIu64 " and %" PRIu64
				  " positions computed, 1 and %u expected",
				  f[i].place, f[i].forwarded_with,
				  f[i].forwarded_without, f[i].place + 1);
		if (f[i].place >= 400 && ratio(&f[i]) < 2)
			bench_die("position %u: without the cache only %.2f times the cost",
				  f[i].place, ratio(&f[i]));
	}
}

static void run_table(struct world *w, const struct options *opt)
{
	FILE *to = open_plot(opt->plot);
	struct figure f[MAX_PLACES];
	struct kvc_seq *s;
	unsigned int i;

	if (kvc_seq_create(w->cache, NULL, &s))
		bench_die("%s", kvc_errmsg(w->kvc));
	/* What is prepared at the first use is not what a step costs. */
	recompute(w, 2);
	if (opt->json)
		printf("{\"products\": \"%s\", \"kernels\": \"%s\", \"threads\": %u, \"steps\": %d, \"results\": [",
		       model_products(w->model), kvc_cache_isa(w->cache),
		       kvc_cache_nthreads(w->cache), STEPS);
	else
		printf("%s, kernels %s, %u threads; with the cache median [min..max] of %d steps from there on\n"
		       "              with the cache    tokens    without, ms tokens     ratio\n"
		       "position        ms            computed            computed\n",
		       model_products(w->model), kvc_cache_isa(w->cache),
		       kvc_cache_nthreads(w->cache), STEPS);
	for (i = 0; i < opt->n; i++) {
		measure(w, s, opt->places[i], &f[i]);
		print_figure(opt, &f[i]);
	}
	if (opt->json)
		printf("\n]}\n");
	kvc_seq_free(s, 0);
	if (to)
		plot(opt->plot, to, f, opt->n);
	if (opt->check)
		check_table(f, opt->n);
}

/* ---- a pair ------------------------------------------------------------- */

static double quantile(const double *sorted, unsigned int n, double q)
{
	return sorted[(unsigned int)(q * (n - 1) + 0.5)];
}

/* A step, and back again. */
static double step_back(struct world *w, struct kvc_seq *s)
{
	uint32_t len = kvc_seq_len(s);
	double secs = forward(w, s, 1);

	if (kvc_seq_truncate(s, len))
		bench_die("%s", kvc_errmsg(w->kvc));
	return secs;
}

static void run_pair(struct world *w, const struct options *opt)
{
	double secs[2][PAIRS], p50[2], p99[2];
	struct kvc_seq *s[2];
	int i, k;

	if (kvc_seq_create(w->cache, NULL, &s[1]))
		bench_die("%s", kvc_errmsg(w->kvc));
	extend(w, s[1], opt->places[0]);
	if (kvc_seq_fork(s[1], &s[0]))
		bench_die("%s", kvc_errmsg(w->kvc));
	extend(w, s[1], opt->places[1]);
	/* The first step of a fork copies its last page. */
	for (k = 0; k < 2; k++)
		step_back(w, s[k]);
	for (i = 0; i < PAIRS; i++) {
		bench_progress("pair %d of %d", i + 1, PAIRS);
		for (k = 0; k < 2; k++)
			secs[k][i] = step_back(w, s[k]);
	}
	bench_progress_clear();
	for (k = 0; k < 2; k++) {
		p50[k] = bench_stat(secs[k], PAIRS).median * 1e3;
		p99[k] = quantile(secs[k], PAIRS, 0.99) * 1e3;
		kvc_seq_free(s[k], 0);
	}
	if (opt->json)
		printf("{\"pairs\": %d, \"positions\": [%u, %u], \"p50_ms\": "
		       "[%.4f, %.4f], \"p99_ms\": [%.4f, %.4f], \"p50_ratio\": "
		       "%.4f, \"p99_ratio\": %.4f}\n", PAIRS, opt->places[0],
		       opt->places[1], p50[0], p50[1], p99[0], p99[1],
		       p50[1] / p50[0], p99[1] / p99[0]);
	else
		printf("%d steps at each, in turn\n"
		       "position    p50 ms    p99 ms\n"
		       "%8u %9.2f %9.2f\n%8u %9.2f %9.2f\n"
		       "   ratio %9.3f %9.3f\n", PAIRS, opt->places[0], p50[0],
		       p99[0], opt->places[1], p50[1], p99[1],
		       p50[1] / p50[0], p99[1] / p99[0]);
	if (opt->check && p50[1] > NEAR * p50[0])
		bench_die("goal missed: a step at %u costs %.3f times one at %u, at most %.2f is wanted",
			  opt->places[1], p50[1] / p50[0], opt->places[0],
			  NEAR);
}

/* ---- the command -------------------------------------------------------- */

static void usage(FILE *f)
{
	fprintf(f,
		"Usage: kvcache-bench step -m MODEL.gguf [OPTION]...\n"
		"What one more token costs with the cache, and by going through the whole\n"
		"text again.\n\n"
		"  -m, --model FILE   a GGUF file of a llama-type model\n"
		"  --at LIST          positions, each at least 16 above the one before;\n"
		"                     default 10,100,400,1000,2000,4000,8000\n"
		"  --pair A,B         compare steps at two positions, in turn\n"
		"  --plot FILE.svg    a plot of the table (by gnuplot)\n"
		"  --threads N        default one a CPU\n"
		"  --check            exit with 1 unless each step computes one token and\n"
		"                     each pass all, at twice the cost from position 400\n"
		"                     on; of a pair, if B's median is above 1.05 of A's\n"
		"  --json             figures for programs\n"
		"  --help             this text\n");
}

static int parse_places(struct options *opt, const char *s)
{
	unsigned long v, before = 0;
	char *end;

	for (opt->n = 0; opt->n < MAX_PLACES; s = end + 1) {
		v = strtoul(s, &end, 10);
		if (end == s || v <= before || v > INT32_MAX)
			return -EINVAL;
		opt->places[opt->n++] = before = v;
		if (!*end)
			return 0;
		if (*end != ',')
			return -EINVAL;
	}
	return -EINVAL;
}

static int parse(struct options *opt, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "model", required_argument, NULL, 'm' },
		{ "at", required_argument, NULL, 'a' },
		{ "pair", required_argument, NULL, 'p' },
		{ "plot", required_argument, NULL, 'g' },
		{ "threads", required_argument, NULL, 't' },
		{ "check", no_argument, NULL, 'c' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 }
	};
	int c, rc = 0;

	while (!rc && (c = getopt_long(argc, argv, "m:", longs, NULL)) != -1) {
		switch (c) {
		case 'm':
			opt->model = optarg;
			break;
		case 'p':
			opt->pair = 1;
			/* fall through */
		case 'a':
			rc = parse_places(opt, optarg);
			break;
		case 'g':
			opt->plot = optarg;
			break;
		case 't':
			opt->threads = atoi(optarg);
			break;
		case 'c':
			opt->check = 1;
			break;
		case 'j':
			opt->json = 1;
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			rc = -EINVAL;
		}
	}
	if (rc || optind != argc || !opt->model || opt->threads < 0 ||
	    (opt->pair && (opt->n != 2 || opt->plot)))
		return -EINVAL;
	return 0;
}

int bench_step(int argc, char **argv)
{
	struct options opt = {
		.n = sizeof(default_places) / sizeof(default_places[0]),
	};
	struct world w = { 0 };

	memcpy(opt.places, default_places, sizeof(default_places));
	if (parse(&opt, argc, argv)) {
		usage(stderr);
		return 2;
	}
	world_open(&w, &opt);
	if (opt.pair)
		run_pair(&w, &opt);
	else
		run_table(&w, &opt);
	world_close(&w);
	return 0;
}
