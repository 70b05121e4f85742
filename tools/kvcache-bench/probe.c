// SPDX-License-Identifier: MIT
/*
 * probe.c - how fast this machine reads memory and multiplies, at the moment.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "bench.h"

double bench_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct bench_stat bench_stat(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), by_value);
	return (struct bench_stat) {
		.median = values[n / 2], .min = values[0],
		.max = values[n - 1],
	};
}

size_t bench_cold_bytes(void)
{
	size_t floor = (size_t)256 << 20, room;
	long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
	size_t want = l3 > 0 ? 2 * (size_t)l3 : floor;

	room = (size_t)sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGESIZE) / 4;
	want = want < room ? want : room;
	return want > floor ? want : floor;
}

void *bench_map(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		fprintf(stderr, "kvcache-bench: no %zu MiB of memory\n",
			size >> 20);
		exit(1);
	}
	madvise(p, size, MADV_HUGEPAGE);
	memset(p, 0, size);
	return p;
}

void bench_unmap(void *p, size_t size)
{
	munmap(p, size);
}

/* Items of 4 MiB; each is read as four streams. */
#define READ_ITEM ((size_t)4 << 20)
#define STREAMS 4

struct read_job {
	const char *p;
	uint64_t sink;
};

static void read_item(void *arg, size_t item, unsigned int thread)
{
	struct read_job *j = arg;
	const uint64_t *p = (const uint64_t *)(j->p + item * READ_ITEM);
	size_t words = READ_ITEM / STREAMS / sizeof(*p), i, s;
	uint64_t sum[STREAMS] = { 0 };

	/* one word a line: the line is what moves */
	for (i = 0; i < words; i += 8)
		for (s = 0; s < STREAMS; s++)
			sum[s] += p[s * words + i];
	__atomic_fetch_add(&j->sink, sum[0] + sum[1] + sum[2] + sum[3],
			   __ATOMIC_RELAXED);
}

double probe_read(struct kva_threads *t, const void *p, size_t size)
{
	struct read_job j = { .p = p };
	size_t items = size / READ_ITEM;
	double start = bench_seconds();

	kva_threads_run(t, items, read_item, &j);
	return (bench_seconds() - start) * size / (items * READ_ITEM);
}

/* Chains that hide the latency of the unit: 4 cycles times 2 a cycle, more. */
#define CHAINS 12
#define FMA_LOOPS 200000

struct fma_job {
	int avx512;
	uint32_t sink;		/* so that nothing is optimised away */
};

#if defined(__x86_64__)
__attribute__((target("avx512f")))
static float fma_avx512(void)
{
	__m512 a = _mm512_set1_ps(0.999999f), b = _mm512_set1_ps(1e-6f);
	__m512 x[CHAINS];
	int i, c;

	for (c = 0; c < CHAINS; c++)
		x[c] = _mm512_set1_ps(c);
	for (i = 0; i < FMA_LOOPS; i++)
#pragma GCC unroll 12
		for (c = 0; c < CHAINS; c++)
			x[c] = _mm512_fmadd_ps(x[c], a, b);
	for (c = 1; c < CHAINS; c++)
		x[0] = _mm512_add_ps(x[0], x[c]);
	return _mm512_reduce_add_ps(x[0]);
}

__attribute__((target("avx2,fma")))
static float fma_avx2(void)
{
	__m256 a = _mm256_set1_ps(0.999999f), b = _mm256_set1_ps(1e-6f);
	__m256 x[CHAINS];
	float out[8];
	int i, c;

	for (c = 0; c < CHAINS; c++)
		x[c] = _mm256_set1_ps(c);
	for (i = 0; i < FMA_LOOPS; i++)
#pragma GCC unroll 12
		for (c = 0; c < CHAINS; c++)
			x[c] = _mm256_fmadd_ps(x[c], a, b);
	for (c = 1; c < CHAINS; c++)
		x[0] = _mm256_add_ps(x[0], x[c]);
	_mm256_storeu_ps(out, x[0]);
	return out[0];
}

static void fma_item(void *arg, size_t item, unsigned int thread)
{
	struct fma_job *j = arg;
	float x = j->avx512 ? fma_avx512() : fma_avx2();

	__atomic_fetch_add(&j->sink, (uint32_t)x, __ATOMIC_RELAXED);
}

double probe_fma(struct kva_threads *t, const char *isa)
{
	size_t lanes = !strcmp(isa, "avx512") ? 16 :
		       !strcmp(isa, "avx2") ? 8 : 0;
	size_t items = 64 * kva_threads_count(t);
	struct fma_job j = { .avx512 = lanes == 16 };
	double start = bench_seconds();

	if (!lanes)
		return 0;
	kva_threads_run(t, items, fma_item, &j);
	return 2.0 * lanes * CHAINS * FMA_LOOPS * items /
	       (bench_seconds() - start);
}
#else
double probe_fma(struct kva_threads *t, const char *isa)
{
	return 0;
}
#endif
