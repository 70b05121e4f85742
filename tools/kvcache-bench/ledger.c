// SPDX-License-Identifier: MIT
/*
 * ledger.c - kvcache-bench ledger: what an operation of the ledger costs, by
 * the number of pages and of tenants. Instructions are counted by callgrind,
 * under which the program runs itself again; time is compared with random
 * accesses to as much memory.
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
#define ACCESSES	20000	/* of the probe, at a time */
#define TIMED		(1U << 17)	/* and with the clock */
#define FLAT		1.2	/* spread of instructions that is accepted */
#define NEAR		3.0	/* times the probe that are accepted */

static const uint32_t sizes[NR_SIZES] = { 1000, 10000, 100000, 1000000 };
static const uint32_t tenants[NR_TENANTS] = { 1, 10, 1000 };

/* One operation at one size. */
struct figure {
	double instructions;	/* 0: not counted */
	double lines;		/* cache lines that are not in a first cache */
	double ns;
	double probe_ns;	/* one access */
	double ratio;		/* median of @ns to @probe_ns */
	double per_line;	/* @ratio to as many accesses as there are lines */
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
static struct line *probe_make(size_t bytes, uint32_t *nr)
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

/* Nanoseconds to read and write one line, where the last one said. */
static double probe_run(struct line *p, uint32_t *at, uint32_t accesses)
{
	double start = cpu_seconds();
	uint32_t i = *at, k;

	for (k = 0; k < accesses; k++) {
		p[i].visits++;
		i = p[i].next;
	}
	*at = i;
	return (cpu_seconds() - start) / accesses * 1e9;
}

/* ---- time ------------------------------------------------------------ */

struct timing {
	struct ledger_world *w;
	struct line *probe;
	uint32_t at;
	uint32_t repeats;
	bool probing;
	double start;
	double ns[LEDGER_NR_OPS];
	double probe_ns[LEDGER_NR_OPS];
};

/* The probe runs right before what is compared with it. */
static void time_begin(void *arg, enum ledger_op op)
{
	struct timing *t = arg;

	if (t->probing)
		t->probe_ns[op] = probe_run(t->probe, &t->at, ACCESSES);
	t->start = cpu_seconds();
}

static void time_end(void *arg, enum ledger_op op)
{
	struct timing *t = arg;

	t->ns[op] += (cpu_seconds() - t->start) * 1e9 /
		     ledger_op_count(t->w, op) / t->repeats;
}

/* A small sample is repeated, so that the clock does not matter. */
static int measure(uint32_t pages, uint32_t nr_tenants, struct figure *f,
		   size_t *bytes)
{
	double ns[LEDGER_NR_OPS][ROUNDS], probe[LEDGER_NR_OPS][ROUNDS];
	double ratio[LEDGER_NR_OPS][ROUNDS];
	struct ledger_world w;
	struct timing t = { .w = &w };
	uint32_t nr, round, k, op;
	int err = 0;

	ledger_world_make(&w, pages, nr_tenants, TIMED);
	*bytes = w.bytes;
	t.probe = probe_make(w.bytes, &nr);
	t.repeats = 1 + 30000 / w.sample;
	probe_run(t.probe, &t.at, nr);
	for (round = 0; round < ROUNDS && !err; round++) {
		memset(t.ns, 0, sizeof(t.ns));
		for (k = 0; k < t.repeats && !err; k++) {
			t.probing = k == 0;
			err = ledger_round(&w, time_begin, time_end, &t);
		}
		for (op = 0; op < LEDGER_NR_OPS; op++) {
			ns[op][round] = t.ns[op];
			probe[op][round] = t.probe_ns[op];
			ratio[op][round] = t.ns[op] / t.probe_ns[op];
		}
	}
	for (op = 0; op < LEDGER_NR_OPS; op++) {
		f[op].ns = bench_stat(ns[op], ROUNDS).median;
		f[op].probe_ns = bench_stat(probe[op], ROUNDS).median;
		f[op].ratio = bench_stat(ratio[op], ROUNDS).median;
	}
	free(t.probe);
	ledger_world_free(&w);
	return err;
}

/* ---- the report ------------------------------------------------------ */

/* Lines that an operation touches where nothing fits into the first cache. */
static double lines_of(const struct table *t, uint32_t op)
{
	double lines = 1;
	uint32_t k;

	for (k = 0; k < NR_TENANTS; k++)
		if (t->f[t->nr - 1][k][op].lines > lines)
			lines = t->f[t->nr - 1][k][op].lines;
	return lines;
}

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

static void print_table(const struct table *t)
{
	uint32_t s, k, op;

	for (op = 0; op < LEDGER_NR_OPS; op++) {
		printf("%s%s\n", op ? "\n" : "", ledger_op_name[op]);
		printf("  %8s %8s %7s %6s %6s %8s %7s %7s %9s\n", "pages",
		       "tenants", "MiB", "instr", "lines", "ns", "access",
		       "ratio", "per line");
		for (s = 0; s < t->nr; s++)
			for (k = 0; k < NR_TENANTS; k++) {
				const struct figure *f = &t->f[s][k][op];

				printf("  %8u %8u %7.1f ", sizes[s], tenants[k],
				       t->bytes[s][k] / 1048576.0);
				if (t->counted)
					printf("%6.0f %6.1f ", f->instructions,
					       f->lines);
				else
					printf("%6s %6s ", "-", "-");
				printf("%8.1f %7.1f %7.2f", f->ns, f->probe_ns,
				       f->ratio);
				if (t->counted)
					printf(" %9.2f", f->per_line);
				printf("\n");
			}
		if (t->counted)
			printf("  instructions: highest / lowest %.2f\n",
			       spread(t, op));
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
					       "\"ratio_per_line\": %.3f, ",
					       f->instructions, f->lines,
					       f->per_line);
				printf("\"ns\": %.1f, \"access_ns\": %.2f, "
				       "\"ratio\": %.3f}", f->ns, f->probe_ns,
				       f->ratio);
				sep = ",";
			}
	printf("\n]}\n");
}

/* Says what is not as it should be; how many things. */
static int check(const struct table *t)
{
	uint32_t s, k, op;
	int bad = 0;

	for (op = 0; op < LEDGER_NR_OPS; op++) {
		if (t->counted && spread(t, op) > FLAT) {
			fprintf(stderr, "%s: instructions grow by %.2f, more than %.1f\n",
				ledger_op_name[op], spread(t, op), FLAT);
			bad++;
		}
		for (s = 0; s < t->nr; s++)
			for (k = 0; k < NR_TENANTS; k++) {
				if (!t->counted || t->f[s][k][op].per_line <= NEAR)
					continue;
				fprintf(stderr, "%s: %u pages, %u tenants: %.2f times the probe, more than %.1f\n",
					ledger_op_name[op], sizes[s],
					tenants[k], t->f[s][k][op].per_line, NEAR);
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
	uint32_t s, k, op;
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
	for (s = 0; s < t->nr; s++)
		for (k = 0; k < NR_TENANTS; k++)
			for (op = 0; op < LEDGER_NR_OPS; op++) {
				struct figure *f = &t->f[s][k][op];

				f->per_line = f->ratio / lines_of(t, op);
			}
	return 0;
}

static void usage(FILE *f)
{
	fprintf(f,
		"Usage: kvcache-bench ledger [--json] [--check] [--no-count] [--max-pages N]\n"
		"What an operation of the ledger costs at 10^3 to 10^6 pages and 1 to 1,000\n"
		"tenants: instructions, cache lines (both by callgrind) and nanoseconds. Beside\n"
		"them one access of a probe: it reads and writes a random line of as much memory\n"
		"as the ledger takes, where the line before it said. The ratio is to one access,\n"
		"and, per line, to as many as the operation touches lines.\n\n"
		"  --json      print JSON\n"
		"  --check     fail if instructions differ by more than 1.2, or the ratio per\n"
		"              line is above 3\n"
		"  --no-count  no callgrind\n"
		"  --max-pages N  no larger ledger\n");
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
