// SPDX-License-Identifier: MIT
/*
 * waste.c - kvcache-bench waste: of the memory that conversations hold, what
 * is not in use, by page size. The conversations are those of a request trace.
 *
 * Each is a sequence of the library that gets room for its prompt, then for
 * one token after another, as decoding takes it. Nothing is written, so that
 * the pool costs addresses and no memory. Two kinds of waste are told apart:
 * slots that hold no token, and bytes of a page that no slot covers.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "waste.h"

#define DEFAULT_TRACE	"selftests/data/traces/azure_2023_conv.csv"
#define DEFAULT_PAGE	((uint64_t)2 << 20)
#define LIVE		256	/* conversations at a time */
#define GOAL		0.04	/* of either kind, on pages of DEFAULT_PAGE */

static const uint64_t page_sizes[] = {
	64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, DEFAULT_PAGE,
	4 << 20, 8 << 20,
};

struct request {
	uint32_t prompt;
	uint32_t generated;
};

struct trace {
	struct request *v;
	size_t n;
	uint64_t tokens;
	uint32_t longest;
};

/*
 * Of all conversations: at their ends, and in growth, where every generated
 * token counts once with what its conversation held at that time.
 */
struct occupancy {
	uint32_t page_tokens;
	uint64_t pages;
	double layout;		/* share of a page that no slot covers */
	double unused;		/* share of slots, at the ends */
	double growing;		/* the same in growth */
	uint64_t held_bytes;
};

struct options {
	const char *trace;
	int json;
	int check;
	int no_decode;
	size_t bytes;
};

static uint32_t length(const struct request *r)
{
	return r->prompt + r->generated;
}

/* ---- the trace ---------------------------------------------------------- */

static void trace_read(struct trace *t, const char *path)
{
	FILE *f = fopen(path, "r");
	char line[256];
	size_t cap = 0, nr = 1;

	if (!f)
		bench_die("%s: %s: name a trace with --trace", path,
			  strerror(errno));
	if (!fgets(line, sizeof(line), f) ||
	    strncmp(line, "TIMESTAMP,ContextTokens,GeneratedTokens", 39))
		bench_die("%s: no line TIMESTAMP,ContextTokens,GeneratedTokens at its head",
			  path);
	*t = (struct trace) { 0 };
	while (fgets(line, sizeof(line), f)) {
		struct request r;
		int end = 0;

		nr++;
		if (sscanf(line, "%*[^,],%" SCNu32 ",%" SCNu32 " %n",
			   &r.prompt, &r.generated, &end) != 2 || line[end] ||
		    !length(&r) || length(&r) < r.prompt ||
		    length(&r) > INT32_MAX)
			bench_die("%s:%zu: not a time and two numbers of tokens",
				  path, nr);
		if (t->n == cap) {
			cap = cap ? 2 * cap : 4096;
			t->v = reallocarray(t->v, cap, sizeof(*t->v));
			if (!t->v)
				bench_die("out of memory");
		}
		t->v[t->n++] = r;
		t->tokens += length(&r);
		if (length(&r) > t->longest)
			t->longest = length(&r);
	}
	if (ferror(f) || !t->n)
		bench_die("%s: no requests", path);
	fclose(f);
}

/* ---- occupancy ---------------------------------------------------------- */

const struct kvc_model *waste_model(void)
{
	static const struct kvc_group group = {
		.kv_heads = WASTE_KV_HEADS, .k_dim = WASTE_DIM,
		.v_dim = WASTE_DIM, .k_type = KVC_F16, .v_type = KVC_F16,
	};
	static const struct kvc_model model = {
		.sz = sizeof(model), .nlayers = WASTE_LAYERS, .ngroups = 1,
		.groups = &group, .q_heads = WASTE_Q_HEADS,
	};

	return &model;
}

void waste_open(struct waste_cache *w, uint64_t page_size, uint64_t pages)
{
	const struct kvc_open_opts open = {
		.sz = sizeof(open), .local_bytes = pages * page_size,
		.local_page_size = page_size,
	};
	const struct kvc_cache_opts opts = {
		.sz = sizeof(opts), .no_reuse = 1,
	};
	int rc = kvc_open("local", &open, &w->kvc);

	if (rc)
		bench_die("no pool of %" PRIu64 " MiB: %s",
			  pages * page_size >> 20, strerror(-rc));
	if (kvc_cache_create(w->kvc, waste_model(), &opts, &w->cache))
		bench_die("no cache: %s", kvc_errmsg(w->kvc));
}

void waste_close(struct waste_cache *w)
{
	kvc_cache_destroy(w->cache);
	kvc_close(w->kvc);
}

struct sums {
	uint64_t pages;
	uint64_t grow_tokens;
	uint64_t grow_slots;
};

static void grow(struct waste_cache *w, const struct request *r,
		 uint32_t page_tokens, struct kvc_seq **s, struct sums *sum)
{
	uint32_t n;

	if (kvc_seq_create(w->cache, NULL, s))
		bench_die("%s", kvc_errmsg(w->kvc));
	for (n = r->prompt; n <= length(r); n++) {
		if (kvc_seq_reserve(*s, n, 0))
			bench_die("%s", kvc_errmsg(w->kvc));
		if (n == r->prompt)
			continue;
		sum->grow_tokens += n;
		sum->grow_slots += (uint64_t)kvc_seq_pages(*s) * page_tokens;
	}
	sum->pages += kvc_seq_pages(*s);
}

/* Some conversations at once, in a pool that is as large as they need. */
static void live(const struct request *v, size_t n, uint64_t page_size,
		 uint32_t page_tokens, struct sums *sum)
{
	uint64_t pages = 0, before = sum->pages;
	struct kvc_seq *seq[LIVE];
	struct kvc_footprint f;
	struct waste_cache w;
	size_t i;

	for (i = 0; i < n; i++) {
		kvc_footprint(waste_model(), page_size, length(&v[i]), 1, &f);
		pages += f.pages;
	}
	waste_open(&w, page_size, pages);
	for (i = 0; i < n; i++)
		grow(&w, &v[i], page_tokens, &seq[i], sum);
	if (sum->pages - before != pages)
		bench_die("sequences hold %" PRIu64 " pages, kvc_footprint() says %" PRIu64,
			  sum->pages - before, pages);
	for (i = 0; i < n; i++)
		kvc_seq_free(seq[i], KVC_SEQ_DISCARD);
	waste_close(&w);
}

static void occupy(const struct trace *t, uint64_t page_size,
		   struct occupancy *out)
{
	struct kvc_footprint f;
	struct sums sum = { 0 };
	size_t i, n;

	if (kvc_footprint(waste_model(), page_size, 1, 1, &f))
		bench_die("no token fits in a page of %" PRIu64 " bytes",
			  page_size);
	for (i = 0; i < t->n; i += n) {
		bench_progress("pages of %" PRIu64 " KiB: conversation %zu of %zu",
			       page_size >> 10, i, t->n);
		n = t->n - i < LIVE ? t->n - i : LIVE;
		live(t->v + i, n, page_size, f.page_tokens, &sum);
	}
	*out = (struct occupancy) {
		.page_tokens = f.page_tokens,
		.pages = sum.pages,
		.layout = 1 - (double)f.page_tokens * f.bytes_per_token /
			      page_size,
		.unused = 1 - (double)t->tokens /
			      ((double)sum.pages * f.page_tokens),
		.growing = 1 - (double)sum.grow_tokens / sum.grow_slots,
		.held_bytes = sum.pages * page_size,
	};
}

/* ---- the command -------------------------------------------------------- */

static void print_text(uint64_t size, const struct occupancy *o,
		       const struct waste_speed *s)
{
	printf("%5" PRIu64 " KiB %7u %9" PRIu64 " %9.1f %8.2f %8.2f %8.2f",
	       size >> 10, o->page_tokens, o->pages, o->held_bytes * 0x1p-30,
	       o->unused * 100, o->growing * 100, o->layout * 100);
	if (s)
		printf(" %13.2f %5.2f [%.2f..%.2f]", s->rate.median,
		       s->ratio.median, s->ratio.min, s->ratio.max);
	printf("\n");
	fflush(stdout);
}

static void print_json(uint64_t size, const struct occupancy *o,
		       const struct waste_speed *s, int first)
{
	printf("%s\n  {\"page_bytes\": %" PRIu64 ", \"page_tokens\": %u, "
	       "\"pages\": %" PRIu64 ", \"held_bytes\": %" PRIu64 ", "
	       "\"unused\": %.5f, \"unused_growing\": %.5f, \"layout\": %.5f",
	       first ? "" : ",", size, o->page_tokens, o->pages,
	       o->held_bytes, o->unused, o->growing, o->layout);
	if (s)
		printf(", \"decode_gb_s\": %.3f, \"ratio\": [%.4f, %.4f, %.4f]",
		       s->rate.median, s->ratio.median, s->ratio.min,
		       s->ratio.max);
	printf("}");
}

static void head(const struct options *opt, const struct trace *t)
{
	if (opt->json) {
		printf("{\"trace\": \"%s\", \"requests\": %zu, \"tokens\": %"
		       PRIu64 ", \"longest\": %u, \"pages\": [", opt->trace,
		       t->n, t->tokens, t->longest);
		return;
	}
	printf("%zu conversations, %" PRIu64 " tokens, the longest %u; f16, "
	       "%u layers x %u heads x %u\n"
	       "                                      slots unused, %%    %% of a\n"
	       "     page  tokens     pages held, GiB   at end  growing     page",
	       t->n, t->tokens, t->longest, WASTE_LAYERS, WASTE_KV_HEADS,
	       WASTE_DIM);
	printf("%s\n", opt->no_decode ? "" : "  decode, GB/s, to 2048 KiB");
}

static void foot(const struct options *opt, const struct trace *t)
{
	struct kvc_footprint f;
	double unused = 1 - (double)t->tokens / ((double)t->n * t->longest);

	kvc_footprint(waste_model(), DEFAULT_PAGE, t->longest, t->n, &f);
	if (opt->json)
		printf("\n], \"slabs\": {\"held_bytes\": %" PRIu64
		       ", \"unused\": %.5f}}\n", f.used_bytes, unused);
	else
		printf("    slabs %7u %9zu %9.1f %8.2f\n", t->longest, t->n,
		       f.used_bytes * 0x1p-30, unused * 100);
}

static int run(const struct options *opt)
{
	struct waste_speed speed, *s = opt->no_decode ? NULL : &speed;
	struct occupancy o;
	struct trace t;
	int missed = 0;
	size_t i;

	trace_read(&t, opt->trace);
	head(opt, &t);
	for (i = 0; i < sizeof(page_sizes) / sizeof(page_sizes[0]); i++) {
		uint64_t size = page_sizes[i];

		occupy(&t, size, &o);
		bench_progress("pages of %" PRIu64 " KiB: decode", size >> 10);
		if (s)
			waste_decode(size, DEFAULT_PAGE, opt->bytes, s);
		bench_progress_clear();
		if (opt->json)
			print_json(size, &o, s, i == 0);
		else
			print_text(size, &o, s);
		if (size == DEFAULT_PAGE)
			missed = o.unused > GOAL || o.layout > GOAL;
	}
	foot(opt, &t);
	free(t.v);
	if (opt->check && missed)
		bench_die("goal missed: on pages of 2 MiB at most %.0f %% of slots unused, and %.0f %% of a page without slots",
			  GOAL * 100, GOAL * 100);
	return 0;
}

static void usage(FILE *f)
{
	fprintf(f,
		"Usage: kvcache-bench waste [OPTION]...\n"
		"What the conversations of a trace hold without use, by page size: slots\n"
		"without a token when they end, the same on average over all generated\n"
		"tokens, and what no slot of a page covers; beside slabs of the longest\n"
		"length, and beside the speed at which decode reads such pages.\n\n"
		"  --trace FILE   default " DEFAULT_TRACE "\n"
		"  --no-decode    without the speed\n"
		"  --mem MIB      keys and values that decode reads; default\n"
		"                 twice the last cache, at least 256\n"
		"  --check        exit with 1 if more than 4 %% of the slots are unused at\n"
		"                 the end, or of a page have no slot, at 2 MiB\n"
		"  --json         figures for programs\n"
		"  --help         this text\n");
}

int bench_waste(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "trace", required_argument, NULL, 't' },
		{ "no-decode", no_argument, NULL, 'n' },
		{ "mem", required_argument, NULL, 'm' },
		{ "check", no_argument, NULL, 'c' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 }
	};
	struct options opt = { .trace = DEFAULT_TRACE,
			       .bytes = bench_cold_bytes() };
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 't':
			opt.trace = optarg;
			break;
		case 'n':
			opt.no_decode = 1;
			break;
		case 'm':
			opt.bytes = (size_t)atoi(optarg) << 20;
			break;
		case 'c':
			opt.check = 1;
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
	if (optind != argc || !opt.bytes) {
		usage(stderr);
		return 2;
	}
	return run(&opt);
}
