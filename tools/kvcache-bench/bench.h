/* SPDX-License-Identifier: MIT */
/*
 * bench.h - what the commands of kvcache-bench share: the clock, medians, and
 * probes of what this machine can do at this moment.
 *
 * Hosts are shared and their speed drifts, so a figure is only worth its ratio
 * to a probe that ran in turn with it, on the same threads.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>

#include "kvattn.h"

/* Alternations of a measurement and its probe. */
#define BENCH_ROUNDS 9

/* A command: parses its own options, --json and --help among them. */
struct bench_command {
	const char *name;
	int (*fn)(int argc, char **argv);
	const char *help;
};

int bench_attn(int argc, char **argv);
int bench_ioctl(int argc, char **argv);
int bench_ledger(int argc, char **argv);
int bench_products(int argc, char **argv);
int bench_step(int argc, char **argv);
int bench_waste(int argc, char **argv);

struct bench_stat {
	double median;
	double min;
	double max;
};

/* One line that names the thing and the remedy; then exit(1). */
__attribute__((format(printf, 1, 2), noreturn))
void bench_die(const char *fmt, ...);
/* Zeroed memory, for free(); exits if there is none. */
void *bench_alloc(size_t n, size_t size);
/* What is done now, on a terminal. */
__attribute__((format(printf, 1, 2)))
void bench_progress(const char *fmt, ...);
void bench_progress_clear(void);

double bench_seconds(void);
/* Median and range of @n values, which it sorts. */
struct bench_stat bench_stat(double *values, size_t n);

/*
 * Bytes a working set needs so that a pass over it is served by memory rather
 * than by the last cache: twice that cache, at least 256 MiB, at most a
 * quarter of the memory that is available.
 */
size_t bench_cold_bytes(void);
/* Zeroed memory in huge pages, if there are any; exits if there is none. */
void *bench_map(size_t size);
void bench_unmap(void *p, size_t size);

/* Seconds that @t takes to read @size bytes, several streams a thread. */
double probe_read(struct kva_threads *t, const void *p, size_t size);
/*
 * Fused multiply-adds of f32 in the vectors of a variant ("avx2", "avx512"),
 * in flop/s; 0 for a variant that has none.
 */
double probe_fma(struct kva_threads *t, const char *isa);

#endif /* BENCH_H */
