// SPDX-License-Identifier: MIT
/*
 * ledger.c - kvcache-bench ledger: what an operation of the ledger costs, by
 * the number of pages and of tenants. Instructions and cache lines are counted
 * by callgrind, under which the program runs itself again. Time is compared with
 * a probe: it makes random accesses to as many lines as the operation touches,
 * in as much memory as the ledger takes.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "ledger.h"

#define NR_SIZES	4
#define NR_TENANTS	3
#define ROUNDS		3
#define PROBED		5000	/* operations that the probe does, at a time */
#define WARM		(1U << 20)	/* more lines than these fit in no cache */
#define FLAT		1.2	/* spread of instructions that is accepted */
#define NEAR		3.0	/* times the probe that are accepted */

static const uint32_t sizes[NR_SIZES] = { 1000, 10000, 100000, 1000000 };
static const uint32_t tenants[NR_TENANTS] = { 1, 10, 1000 };

/* One operation at one size. */
struct figure {
	double instructions;	/* 0: not counted */
	double lines;		/* cache lines of the ledger that it touches */
	double ns;
	double access_ns;	/* the probe: one line */
	double probe_ns;	/* as many lines as the operation touches */
	double ratio;		/* median of @ns to @probe_ns */
};

/* @nr of the sizes are measured. */
struct table {
	uint32_t nr;
	struct figure f[NR_SIZES][NR_TENANTS][LEDGER_NR_OPS];
	size_t bytes[NR_SIZES][NR_TENANTS];
	bool counted;
};

/*
 * Seconds of this thread's own time: what others do on the CPU meanwhile is
 * not the ledger's.
 */
static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* ---- the probe ------------------------------------------------------- */

struct line {
	uint32_t next;
	uint32_t visits;
	char rest[56];
};

/* All lines of a buffer in one cycle of random order. */
static struct line *lines_make(size_t bytes, uint32_t *nr)
{
	struct line *p;
	uint64_t x = 88172645463325252ULL;
	uint32_t k, j, t;

	*nr = bytes / sizeof(*p);
	p = calloc(*nr, sizeof(*p));
	if (!p) {
		fprintf(stderr, "kvcache-bench: no memory for the probe\n");
		exit(1);
	}
	for (k = 0; k < *nr; k++)
		p[k].next = k;
	/* Sattolo's algorithm: a cyclic permutation. */
	for (k = *nr; k-- > 1; ) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		j = (x >> 32) % k;
		t = p[k].next;
		p[k].next = p[j].next;
		p[j].next = t;
	}
	return p;
}

/* A cursor that goes around the lines. */
struct probe {
	struct line *line;
	uint32_t nr;
	uint32_t at;
};

/* Reads and writes @nr lines, each where the one before it said. */
static void probe_touch(struct probe *p, uint32_t nr)
{
	struct line *l = p->line;
	uint32_t i = p->at;

	for (; nr; nr--) {
		l[i].visits++;
		i = l[i].next;
	}
	p->at = i;
}

/*
 * Nanoseconds to touch @lines lines, as often as PROBED times: a fraction is
 * one more line every now and then. *@access is for one of them. What the
 * caches can hold of the buffer they do hold, as they do of the ledger.
 */
static double probe_run(struct probe *p, double lines, double *access)
{
	const uint64_t each = lines * 65536 + 0.5;
	uint64_t due = 0, touched = 0;
	double seconds;
	uint32_t k;

	if (p->nr <= WARM)
		probe_touch(p, p->nr);
	seconds = cpu_seconds();
	for (k = 0; k < PROBED; k++) {
		due += each;
		probe_touch(p, (due >> 16) - touched);
		touched = due >> 16;
	}
	seconds = cpu_seconds() - seconds;
	*access = seconds / touched * 1e9;
	return seconds / PROBED * 1e9;
}

/* ---- time ------------------------------------------------------------ */

struct timing {
	struct ledger_world *w;
	const struct figure *f;
	struct probe probe;
	uint32_t repeats;
	bool probing;
	double start;
	double ns[LEDGER_NR_OPS];
	double access[LEDGER_NR_OPS];
	double probe_ns[LEDGER_NR_OPS];
};

/* The probe runs right before what is compared with it. */
static void time_begin(void *arg, enum ledger_op op)
{
	struct timing *t = arg;
	const double lines = t->f[op].lines;

	/* Where nobody counted lines, for what one of them takes. */
	if (t->probing)
		t->probe_ns[op] = probe_run(&t->probe, lines > 0 ? lines : 4,
					    &t->access[op]);
	t->start = cpu_seconds();
}

static void time_end(void *arg, enum ledger_op op)
{
	struct timing *t = arg;

	t->ns[op] += (cpu_seconds() - t->start) * 1e9 /
		     ledger_op_count(t->w, op) / t->repeats;
}

/*
 * The sample is half of the pages, and a small one is repeated, so that the
 * clock does not matter.
 */
static int measure(uint32_t pages, uint32_t nr_tenants, struct figure *f,
		   size_t *bytes)
{
	double ns[LEDGER_NR_OPS][ROUNDS], probe[LEDGER_NR_OPS][ROUNDS];
	double access[LEDGER_NR_OPS][ROUNDS], ratio[LEDGER_NR_OPS][ROUNDS];
	struct ledger_world w;
	struct timing t = { .w = &w, .f = f };
	uint32_t round, k, op;
	int err = 0;

	ledger_world_make(&w, pages, nr_tenants, pages);
	*bytes = w.bytes;
	t.probe.line = lines_make(w.bytes, &t.probe.nr);
	/* A last cache does not believe in the first passes. */
	for (k = 0; k < 8 && t.probe.nr <= WARM; k++)
		probe_touch(&t.probe, t.probe.nr);
	t.repeats = 1 + 30000 / w.sample;
	for (round = 0; round < ROUNDS && !err; round++) {
		memset(t.ns, 0, sizeof(t.ns));
		for (k = 0; k < t.repeats && !err; k++) {
			t.probing = k == 0;
			err = ledger_round(&w, time_begin, time_end, &t);
		}
		for (op = 0; op < LEDGER_NR_OPS; op++) {
			ns[op][round] = t.ns[op];
			access[op][round] = t.access[op];
			probe[op][round] = t.probe_ns[op];
			ratio[op][round] = t.ns[op] / t.probe_ns[op];
		}
	}
	for (op = 0; op < LEDGER_NR_OPS; op++) {
		f[op].ns = bench_stat(ns[op], ROUNDS).median;
		f[op].access_ns = bench_stat(access[op], ROUNDS).median;
		f[op].probe_ns = bench_stat(probe[op], ROUNDS).median;
		f[op].ratio = bench_stat(ratio[op], ROUNDS).median;
	}
	free(t.probe.line);
	ledger_world_free(&w);
	return err;
}

/* ---- the report ------------------------------------------------------ */

static double spread(const struct table *t, uint32_t op)
{
	double low = t->f[0][0][op].instructions, high = low, x;
	uint32_t s, k;

	for (s = 0; s < t->nr; s++)
		for (k = 0; k < NR_TENANTS; k++) {
			x = t->f[s][k][op].instructions;
			low = x < low ? x : low;
			high = x > high ? x : high;
		}
	return low > 0 ? high / low : 0;
}

/* The highest ratio to the probe. */
static double furthest(const struct table *t, uint32_t op)
{
	double high = 0;
	uint32_t s, k;

	for (s = 0; s < t->nr; s++)
		for (k = 0; k < NR_TENANTS; k++)
			if (t->f[s][k][op].ratio > high)
				high = t->f[s][k][op].ratio;
	return high;
}

static void print_row(const struct table *t, uint32_t s, uint32_t k,
		      uint32_t op)
{
	const struct figure *f = &t->f[s][k][op];

	printf("  %8u %8u %7.1f ", sizes[s], tenants[k],
	       t->bytes[s][k] / 1048576.0);
	if (t->counted)
		printf("%6.0f %6.1f %8.1f %7.1f %8.1f %6.2f\n",
		       f->instructions, f->lines, f->ns, f->access_ns,
		       f->probe_ns, f->ratio);
	else
		printf("%6s %6s %8.1f %7.1f %8s %6s\n", "-", "-", f->ns,
		       f->access_ns, "-", "-");
}

static void print_table(const struct table *t)
{
	uint32_t s, k, op;

	for (op = 0; op < LEDGER_NR_OPS; op++) {
		printf("%s%s\n", op ? "\n" : "", ledger_op_name[op]);
		printf("  %8s %8s %7s %6s %6s %8s %7s %8s %6s\n", "pages",
		       "tenants", "MiB", "instr", "lines", "ns", "access",
		       "probe", "ratio");
		for (s = 0; s < t->nr; s++)
			for (k = 0; k < NR_TENANTS; k++)
				print_row(t, s, k, op);
		if (t->counted)
			printf("  instructions: highest / lowest %.2f; highest ratio %.2f\n",
			       spread(t, op), furthest(t, op));
	}
}

static void print_json(const struct table *t)
{
	const char *sep = "";
	uint32_t s, k, op;

	printf("{\"command\": \"ledger\", \"results\": [");
	for (op = 0; op < LEDGER_NR_OPS; op++)
		for (s = 0; s < t->nr; s++)
			for (k = 0; k < NR_TENANTS; k++) {
				const struct figure *f = &t->f[s][k][op];

				printf("%s\n{\"op\": \"%s\", \"pages\": %u, "
				       "\"tenants\": %u, \"bytes\": %zu, ",
				       sep, ledger_op_name[op], sizes[s],
				       tenants[k], t->bytes[s][k]);
				if (t->counted)
					printf("\"instructions\": %.1f, "
					       "\"lines\": %.2f, "
					       "\"probe_ns\": %.1f, "
					       "\"ratio\": %.3f, ",
					       f->instructions, f->lines,
					       f->probe_ns, f->ratio);
				printf("\"ns\": %.1f, \"access_ns\": %.2f}",
				       f->ns, f->access_ns);
				sep = ",";
			}
	printf("\n]}\n");
}

/* Says what is not as it should be; how many things. */
static int check(const struct table *t)
{
	uint32_t s, k, op;
	int bad = 0;

	if (!t->counted) {
		fprintf(stderr, "kvcache-bench: nothing to check without instructions and lines\n");
		return 1;
	}
	for (op = 0; op < LEDGER_NR_OPS; op++) {
		if (spread(t, op) > FLAT) {
			fprintf(stderr, "%s: instructions grow by %.2f, more than %.1f\n",
				ledger_op_name[op], spread(t, op), FLAT);
			bad++;
		}
		for (s = 0; s < t->nr; s++)
			for (k = 0; k < NR_TENANTS; k++) {
				if (t->f[s][k][op].ratio <= NEAR)
					continue;
				fprintf(stderr, "%s: %u pages, %u tenants: %.2f times the probe, more than %.1f\n",
					ledger_op_name[op], sizes[s],
					tenants[k], t->f[s][k][op].ratio, NEAR);
				bad++;
			}
	}
	return bad;
}

static int count(uint32_t pages, uint32_t nr_tenants, struct figure *f)
{
	double instructions[LEDGER_NR_OPS], lines[LEDGER_NR_OPS];
	int err = ledger_count(pages, nr_tenants, instructions, lines);
	uint32_t op;

	for (op = 0; op < LEDGER_NR_OPS && !err; op++) {
		f[op].instructions = instructions[op];
		f[op].lines = lines[op];
	}
	return err;
}

static int run(struct table *t, bool counting)
{
	uint32_t s, k;
	int err = 0;

	t->counted = counting;
	for (s = 0; s < t->nr; s++)
		for (k = 0; k < NR_TENANTS; k++) {
			if (t->counted)
				err = count(sizes[s], tenants[k], t->f[s][k]);
			if (err) {
				fprintf(stderr, "SKIP instructions: %s\n",
					err == -ENOENT ? "no valgrind" :
					strerror(-err));
				t->counted = false;
				err = 0;
			}
			err = measure(sizes[s], tenants[k], t->f[s][k],
				      &t->bytes[s][k]);
			if (err)
				return err;
		}
	return 0;
}

static void usage(FILE *f)
{
	fprintf(f,
		"Usage: kvcache-bench ledger [--json] [--check] [--no-count] [--max-pages N]\n"
		"What an operation of the ledger costs at 10^3 to 10^6 pages and 1 to 1,000\n"
		"tenants; of a lookup and of put, what each of its keys or pages costs.\n\n"
		"  MiB     memory that the ledger takes\n"
		"  instr   instructions, by callgrind\n"
		"  lines   different cache lines of that memory that it reads or writes, all of\n"
		"          them, however often and wherever they are cached, by callgrind\n"
		"  ns      time of the operation\n"
		"  access  time to read and write one random line of a buffer of that size, where\n"
		"          the line before it said\n"
		"  probe   time of as many such accesses as there are lines\n"
		"  ratio   of ns to probe\n\n"
		"Times are of this thread alone, medians of %u.\n\n"
		"  --json      print JSON\n"
		"  --check     fail if instructions differ by more than %.1f, or a ratio is above\n"
		"              %.0f\n"
		"  --no-count  no callgrind: ns and access only\n"
		"  --max-pages N  no larger ledger\n", ROUNDS, FLAT, NEAR);
}

int bench_ledger(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "check", no_argument, NULL, 'c' },
		{ "no-count", no_argument, NULL, 'n' },
		{ "max-pages", required_argument, NULL, 'm' },
		{ "count", required_argument, NULL, 'C' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 }
	};
	bool json = false, checking = false, counting = true;
	uint32_t pages, nr_tenants, max = ~0U;
	static struct table t;
	int opt, err;

	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (opt) {
		case 'j':
			json = true;
			break;
		case 'c':
			checking = true;
			break;
		case 'n':
			counting = false;
			break;
		case 'm':
			max = strtoul(optarg, NULL, 0);
			break;
		case 'C':
			if (sscanf(optarg, "%u,%u", &pages, &nr_tenants) != 2)
				return 2;
			return ledger_count_here(pages, nr_tenants);
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (checking && !counting) {
		fprintf(stderr, "kvcache-bench: --check needs what --no-count leaves out\n");
		return 2;
	}
	while (t.nr < NR_SIZES && sizes[t.nr] <= max)
		t.nr++;
	if (!t.nr) {
		fprintf(stderr, "kvcache-bench: --max-pages: at least %u\n",
			sizes[0]);
		return 2;
	}
	err = run(&t, counting);
	if (err) {
		fprintf(stderr, "kvcache-bench: the ledger refused an operation: %s\n",
			strerror(-err));
		return 1;
	}
	if (json)
		print_json(&t);
	else
		print_table(&t);
	return checking && check(&t) ? 1 : 0;
}
