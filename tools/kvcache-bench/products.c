// SPDX-License-Identifier: MIT
/*
 * products.c - matrix products by library and by type of weights, in the
 * shapes of a small model: a step of 1 to 16 rows, as in decode, and of 128
 * and 512, as in prefill.
 *
 * A step goes through the weights of all layers, so that no library finds them
 * in a cache. OpenBLAS and BLIS are loaded by name where they are installed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "gguf.h"
#include "matmul.h"
#include "matmul_wide.h"

#define LAYERS 30
#define MAX_M 512
#define MAX_N 49152
#define MAX_K 1536
/* Steps with more rows than this do without the output matrix. */
#define OUTPUT_M 16

/* Products of one shape; @each of them in a layer, or one in a step. */
static const struct shape {
	int n;
	int k;
	int each;
} shapes[] = {
	{ 576, 576, 2 },
	{ 192, 576, 2 },
	{ 1536, 576, 2 },
	{ 576, 1536, 1 },
	{ MAX_N, 576, 0 },
};
#define NSHAPES (sizeof(shapes) / sizeof(*shapes))

static const int rows[] = { 1, 4, 16, 128, 512 };
#define NROWS (sizeof(rows) / sizeof(*rows))

typedef void (*sgemm_fn)(int order, int transa, int transb, int m, int n, int k,
			 float alpha, const float *a, int lda, const float *b,
			 int ldb, float beta, float *c, int ldc);

struct prim {
	dnnl_primitive_desc_t pd;
	dnnl_primitive_t p;
	dnnl_memory_t mem[3];
	size_t weight_bytes;
};

struct bench {
	struct kva_threads *threads;
	int nthreads;
	int m;
	char *weights;
	float *x;
	float *y;
	sgemm_fn sgemm;
	dnnl_engine_t engine;
	dnnl_stream_t stream;
	struct prim prims[NSHAPES];
	struct matmul *mm;
};

struct engine {
	const char *name;
	const char *weights;
	int (*open)(struct bench *b, const struct engine *e);
	void (*close)(struct bench *b);
	/* One product of shape @s with weights at @w; their bytes. */
	size_t (*run)(struct bench *b, const struct engine *e, int s,
		      const char *w);
	const char *soname;
	const char *set_threads;
	dnnl_data_type_t x_type;
	dnnl_data_type_t w_type;
	uint32_t gguf_type;
	enum matmul_wide wide;
};

/* ---- BLAS ------------------------------------------------------------- */

static int blas_open(struct bench *b, const struct engine *e)
{
	void *lib = dlopen(e->soname, RTLD_NOW | RTLD_LOCAL);
	union {
		void *sym;
		sgemm_fn sgemm;
		void (*blas_threads)(int n);
		void (*blis_threads)(long n);
	} u;

	if (!lib)
		return -ENOENT;
	u.sym = dlsym(lib, e->set_threads);
	if (!u.sym)
		return -ENOENT;
	if (strstr(e->set_threads, "bli_"))
		u.blis_threads(b->nthreads);
	else
		u.blas_threads(b->nthreads);
	u.sym = dlsym(lib, "cblas_sgemm");
	b->sgemm = u.sgemm;
	return u.sym ? 0 : -ENOENT;
}

static size_t blas_run(struct bench *b, const struct engine *e, int s,
		       const char *w)
{
	int n = shapes[s].n, k = shapes[s].k;

	/* row major, x as it is, the weights transposed */
	b->sgemm(101, 111, 112, b->m, n, k, 1, b->x, k, (const float *)w, k, 0,
		 b->y, n);
	return (size_t)n * k * sizeof(float);
}

/* ---- oneDNN ----------------------------------------------------------- */

static void onednn_close(struct bench *b)
{
	unsigned int s, i;

	for (s = 0; s < NSHAPES; s++) {
		struct prim *p = &b->prims[s];

		for (i = 0; i < 3; i++)
			if (p->mem[i])
				dnnl_memory_destroy(p->mem[i]);
		if (p->p)
			dnnl_primitive_destroy(p->p);
		if (p->pd)
			dnnl_primitive_desc_destroy(p->pd);
	}
	memset(b->prims, 0, sizeof(b->prims));
}

static int make_prim(struct bench *b, const struct engine *e, int s)
{
	dnnl_dims_t dx = { b->m, shapes[s].k };
	dnnl_dims_t dw = { shapes[s].k, shapes[s].n };
	dnnl_dims_t dy = { b->m, shapes[s].n };
	const dnnl_memory_desc_t *packed;
	dnnl_memory_desc_t mx, mw, my;
	struct prim *p = &b->prims[s];
	dnnl_matmul_desc_t desc;

	/* "any": the library's own order, as weights packed ahead would have */
	if (dnnl_memory_desc_init_by_tag(&mx, 2, dx, e->x_type, dnnl_ab) ||
	    dnnl_memory_desc_init_by_tag(&mw, 2, dw, e->w_type,
					 dnnl_format_tag_any) ||
	    dnnl_memory_desc_init_by_tag(&my, 2, dy, dnnl_f32, dnnl_ab) ||
	    dnnl_matmul_desc_init(&desc, &mx, &mw, NULL, &my) ||
	    dnnl_primitive_desc_create(&p->pd, &desc, NULL, b->engine, NULL))
		return -EOPNOTSUPP;
	packed = dnnl_primitive_desc_query_md(p->pd, dnnl_query_weights_md, 0);
	p->weight_bytes = dnnl_memory_desc_get_size(packed);
	if (dnnl_primitive_create(&p->p, p->pd) ||
	    dnnl_memory_create(&p->mem[0], &mx, b->engine, b->x) ||
	    dnnl_memory_create(&p->mem[1], packed, b->engine, b->weights) ||
	    dnnl_memory_create(&p->mem[2], &my, b->engine, b->y))
		return -ENOMEM;
	return 0;
}

static int onednn_open(struct bench *b, const struct engine *e)
{
	unsigned int s;
	int ret = 0;

	/* Without the instructions oneDNN imitates them in f32. */
	if (e->w_type == dnnl_bf16 && !matmul_has_bf16())
		return -EOPNOTSUPP;
	omp_set_num_threads(b->nthreads);
	for (s = 0; s < NSHAPES && !ret; s++)
		ret = make_prim(b, e, s);
	if (ret)
		onednn_close(b);
	return ret;
}

static size_t onednn_run(struct bench *b, const struct engine *e, int s,
			 const char *w)
{
	struct prim *p = &b->prims[s];
	dnnl_exec_arg_t args[] = {
		{ DNNL_ARG_SRC, p->mem[0] },
		{ DNNL_ARG_WEIGHTS, p->mem[1] },
		{ DNNL_ARG_DST, p->mem[2] },
	};

	dnnl_memory_set_data_handle(p->mem[1], (void *)w);
	dnnl_primitive_execute(p->p, b->stream, 3, args);
	dnnl_stream_wait(b->stream);
	return p->weight_bytes;
}

/* ---- our own ---------------------------------------------------------- */

static int own_open(struct bench *b, const struct engine *e)
{
	if (e->wide == MATMUL_BF16 && !matmul_has_bf16())
		return -EOPNOTSUPP;
	return matmul_create(b->threads, e->wide, &b->mm);
}

static void own_close(struct bench *b)
{
	matmul_destroy(b->mm);
	b->mm = NULL;
}

static size_t own_run(struct bench *b, const struct engine *e, int s,
		      const char *w)
{
	struct matrix mat = {
		.data = (const uint8_t *)w,
		.type = e->gguf_type,
		.rows = shapes[s].n,
		.cols = shapes[s].k,
	};
	struct matmul_job job = { &mat, b->y, mat.rows };

	mat.row_bytes = mat.cols / gguf_block_elems(mat.type) *
			gguf_block_bytes(mat.type);
	if (matmul_run(b->mm, b->x, mat.cols, b->m, &job, 1))
		exit(1);
	return mat.row_bytes * mat.rows;
}

/* ---- steps ------------------------------------------------------------ */

#define BLAS(lib, so, fn)						\
	{ .name = lib, .weights = "f32", .open = blas_open,		\
	  .run = blas_run, .soname = so, .set_threads = fn }
#define ONEDNN(w, xt, wt)						\
	{ .name = "onednn", .weights = w, .open = onednn_open,		\
	  .close = onednn_close, .run = onednn_run, .x_type = xt,	\
	  .w_type = wt }
#define OWN(n, w, type, wide_type)					\
	{ .name = n, .weights = w, .open = own_open, .close = own_close, \
	  .run = own_run, .gguf_type = type, .wide = wide_type }

static const struct engine engines[] = {
	BLAS("openblas", "libopenblas.so.0", "openblas_set_num_threads"),
	BLAS("blis", "libblis.so.4", "bli_thread_set_num_threads"),
	ONEDNN("f32", dnnl_f32, dnnl_f32),
	ONEDNN("bf16", dnnl_bf16, dnnl_bf16),
	ONEDNN("int8", dnnl_u8, dnnl_s8),
	OWN("matmul", "f32", GGUF_F32, MATMUL_F32),
	OWN("matmul", "q4_1", GGUF_Q4_1, MATMUL_F32),
	OWN("matmul16", "q4_1", GGUF_Q4_1, MATMUL_BF16),
	OWN("matmul", "q8_0", GGUF_Q8_0, MATMUL_F32),
	OWN("matmul", "bf16", GGUF_BF16, MATMUL_F32),
};
#define NENGINES (sizeof(engines) / sizeof(*engines))

struct result {
	double seconds;
	double shape[NSHAPES];
	double bytes;
	double flop;
};

static void step(struct bench *b, const struct engine *e, struct result *r)
{
	const char *w = b->weights;
	double start = bench_seconds(), t;
	unsigned int s;
	int layer, i, each;

	memset(r, 0, sizeof(*r));
	for (layer = 0; layer <= LAYERS; layer++) {
		for (s = 0; s < NSHAPES; s++) {
			each = layer < LAYERS ? shapes[s].each :
			       !shapes[s].each && b->m <= OUTPUT_M;
			t = bench_seconds();
			for (i = 0; i < each; i++) {
				size_t n = e->run(b, e, s, w);

				w += (n + 63) / 64 * 64;
				r->bytes += n;
				r->flop += 2.0 * b->m * shapes[s].n *
					   shapes[s].k;
			}
			r->shape[s] += bench_seconds() - t;
		}
	}
	r->seconds = bench_seconds() - start;
}

static int by_seconds(const void *a, const void *b)
{
	const struct result *x = a, *y = b;

	return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

/* The step of median time. */
static struct result measure(struct bench *b, const struct engine *e)
{
	struct result r[BENCH_ROUNDS];
	int i, n = b->m > OUTPUT_M ? 3 : BENCH_ROUNDS;

	step(b, e, &r[0]);
	for (i = 0; i < n; i++)
		step(b, e, &r[i]);
	qsort(r, n, sizeof(*r), by_seconds);
	return r[n / 2];
}

/*
 * Largest difference to a plain loop in double, of one product of each k, as a
 * share of the largest result.
 */
static double check(struct bench *b, const struct engine *e)
{
	double worst = 0, largest = 0, sum;
	const float *w = (const float *)b->weights;
	int s, i, j, l;

	for (s = 1; s < 4; s += 2) {
		int n = shapes[s].n, k = shapes[s].k;

		e->run(b, e, s, b->weights);
		for (i = 0; i < b->m; i += 3) {
			for (j = 0; j < n; j++) {
				for (l = 0, sum = 0; l < k; l++)
					sum += (double)b->x[i * k + l] *
					       w[(size_t)j * k + l];
				largest = fmax(largest, fabs(sum));
				worst = fmax(worst,
					     fabs(sum - b->y[i * n + j]));
			}
		}
	}
	return worst / largest;
}

/* ---- the command ------------------------------------------------------ */

static void print_head(void)
{
	unsigned int s;

	printf("%-9s %-5s %4s %9s %9s %7s %8s  ", "library", "type", "M",
	       "ms/step", "rows/s", "GB/s", "GFLOP/s");
	for (s = 0; s < NSHAPES; s++)
		printf(" %5dx%-4d", shapes[s].n, shapes[s].k);
	printf("  (ms)\n");
}

static void print_result(const struct bench *b, const struct engine *e,
			 const struct result *r)
{
	unsigned int s;

	printf("%-9s %-5s %4d %9.2f %9.1f %7.1f %8.1f  ", e->name, e->weights,
	       b->m, r->seconds * 1e3, b->m / r->seconds,
	       r->bytes / r->seconds * 1e-9, r->flop / r->seconds * 1e-9);
	for (s = 0; s < NSHAPES; s++)
		printf(" %10.2f", r->shape[s] * 1e3);
	printf("\n");
	fflush(stdout);
}

static void print_json(const struct bench *b, const struct engine *e,
		       const struct result *r, bool first)
{
	unsigned int s;

	printf("%s\n {\"library\": \"%s\", \"type\": \"%s\", \"m\": %d, \"seconds\": %g, \"bytes\": %.0f, \"flop\": %.0f, \"shapes\": [",
	       first ? "" : ",", e->name, e->weights, b->m, r->seconds,
	       r->bytes, r->flop);
	for (s = 0; s < NSHAPES; s++)
		printf("%s%g", s ? ", " : "", r->shape[s]);
	printf("]}");
}

/* Normal numbers in every type of weights, with varied low bits. */
static void fill(struct bench *b, size_t bytes)
{
	uint32_t *w = (uint32_t *)b->weights, seed = 1;
	size_t i;

	for (i = 0; i < bytes / sizeof(*w); i++) {
		seed = seed * 1664525 + 1013904223;
		w[i] = 0x3c803c80 | (seed >> 8 & 0x807f807f);
	}
	for (i = 0; i < (size_t)MAX_M * MAX_K; i++) {
		seed = seed * 1664525 + 1013904223;
		b->x[i] = (int32_t)seed * 0x1p-32f;
	}
}

static int run_checks(struct bench *b)
{
	unsigned int i;

	b->m = 37;
	for (i = 0; i < NENGINES; i++) {
		/* packed weights are in an order of oneDNN's own */
		if (strcmp(engines[i].weights, "f32") ||
		    engines[i].open == onednn_open)
			continue;
		if (engines[i].open(b, &engines[i])) {
			printf("SKIP %s: not here\n", engines[i].name);
			continue;
		}
		printf("%s differs from a plain loop by %.1e of the largest result\n",
		       engines[i].name, check(b, &engines[i]));
		if (engines[i].close)
			engines[i].close(b);
	}
	return 0;
}

static int run_steps(struct bench *b, const char *only, bool json)
{
	bool first = true;
	unsigned int i, j;

	if (json)
		printf("[");
	else
		print_head();
	for (i = 0; i < NENGINES; i++) {
		const struct engine *e = &engines[i];

		if (only && strcmp(only, e->name))
			continue;
		for (j = 0; j < NROWS; j++) {
			struct result r;

			b->m = rows[j];
			if (e->open(b, e)) {
				if (!json)
					printf("SKIP %s %s: not here\n",
					       e->name, e->weights);
				break;
			}
			r = measure(b, e);
			if (e->close)
				e->close(b);
			if (json)
				print_json(b, e, &r, first);
			else
				print_result(b, e, &r);
			first = false;
		}
	}
	if (json)
		printf("\n]\n");
	return 0;
}

static void usage(FILE *f)
{
	fprintf(f,
		"Usage: kvcache-bench products [OPTION]...\n"
		"Matrix products of a small model by library and weights.\n\n"
		"  --threads N    threads; one a CPU by default\n"
		"  --only NAME    one library: openblas, blis, onednn, matmul\n"
		"                 (f32 panels) or matmul16 (bf16 panels)\n"
		"  --check        compare f32 products with a plain loop instead\n"
		"  --json         figures for programs\n");
}

int bench_products(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "threads", required_argument, NULL, 't' },
		{ "only", required_argument, NULL, 'o' },
		{ "check", no_argument, NULL, 'c' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 }
	};
	bool json = false, checks = false;
	const char *only = NULL;
	struct bench b = { 0 };
	size_t bytes = 600 << 20;
	int c, ret;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 't':
			b.nthreads = atoi(optarg);
			break;
		case 'o':
			only = optarg;
			break;
		case 'c':
			checks = true;
			break;
		case 'j':
			json = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind != argc || b.nthreads < 0) {
		usage(stderr);
		return 2;
	}
	if (kva_threads_create(b.nthreads, &b.threads) ||
	    dnnl_engine_create(&b.engine, dnnl_cpu, 0) ||
	    dnnl_stream_create(&b.stream, b.engine,
			       dnnl_stream_default_flags)) {
		fprintf(stderr, "kvcache-bench: threads cannot be started\n");
		return 1;
	}
	b.nthreads = kva_threads_count(b.threads);
	b.weights = bench_map(bytes);
	b.x = bench_map((size_t)MAX_M * MAX_K * sizeof(float));
	b.y = bench_map((size_t)OUTPUT_M * MAX_N * sizeof(float) +
			(size_t)MAX_M * MAX_K * sizeof(float));
	fill(&b, bytes);
	ret = checks ? run_checks(&b) : run_steps(&b, only, json);
	bench_unmap(b.weights, bytes);
	dnnl_stream_destroy(b.stream);
	dnnl_engine_destroy(b.engine);
	kva_threads_destroy(b.threads);
	return ret;
}
