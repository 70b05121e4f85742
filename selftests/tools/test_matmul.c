// SPDX-License-Identifier: MIT
/*
 * test_matmul.c - products against a plain loop in double, for every type of
 * weights, every instruction set of this CPU, and oneDNN's panels.
 */
#include <math.h>
#include <kvattn.h>
#include "gguf.h"
#include "harness.h"
#include "matmul.h"
#include "matmul_wide.h"

static const uint32_t types[] = {
	GGUF_F32, GGUF_F16, GGUF_BF16, GGUF_Q4_0, GGUF_Q4_1, GGUF_Q5_0,
	GGUF_Q5_1, GGUF_Q8_0, GGUF_Q2_K, GGUF_Q3_K, GGUF_Q4_K, GGUF_Q5_K,
	GGUF_Q6_K,
};
#define NTYPES (sizeof(types) / sizeof(*types))

static const char *const isas[] = { "scalar", "avx2", "avx512" };

static uint32_t seed;

static uint32_t next(void)
{
	seed = seed * 1664525 + 1013904223;
	return seed >> 8;
}

static float next_float(void)
{
	return (int32_t)(next() & 0xffff) / 32768.0f - 1;
}

/* What a product is made of, and what it should be. */
struct product {
	struct matrix w;
	uint8_t *data;
	float *values;		/* [rows][cols] */
	float *x;		/* [m][stride] */
	size_t stride;
	uint32_t m;
};

/*
 * Random bytes are sound blocks but for the 16-bit scales, which must not be
 * infinite or NaN: keep all exponents low.
 */
static void random_blocks(uint32_t type, uint8_t *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = next();
	if (type == GGUF_F32)
		for (i = 0; i + 4 <= n; i += 4)
			memcpy(p + i, &(float){ next_float() }, 4);
	if (type == GGUF_BF16)
		for (i = 0; i + 2 <= n; i += 2)
			memcpy(p + i, &(uint16_t){
				kva_f32_to_bf16(next_float()) }, 2);
	if (type != GGUF_F32 && type != GGUF_BF16)
		for (i = 0; i < n; i++)
			p[i] &= 0xbb;
}

static void make(struct product *p, uint32_t type, uint32_t rows, uint32_t cols,
		 uint32_t m)
{
	size_t bytes = cols / gguf_block_elems(type) * gguf_block_bytes(type);
	size_t i;

	memset(p, 0, sizeof(*p));
	p->data = malloc(rows * bytes);
	p->values = malloc((size_t)rows * cols * sizeof(float));
	p->stride = cols + 3;
	p->x = malloc(m * p->stride * sizeof(float));
	ASSERT_TRUE(p->data && p->values && p->x);
	random_blocks(type, p->data, rows * bytes);
	p->w = (struct matrix){ p->data, bytes, type, rows, cols };
	p->m = m;
	ASSERT_EQ(0, gguf_dequant(type, p->data, (size_t)rows * cols,
				  p->values));
	for (i = 0; i < m * p->stride; i++)
		p->x[i] = next_float();
}

static void drop(struct product *p)
{
	free(p->data);
	free(p->values);
	free(p->x);
}

/* Each result within @eps times the sum of the products' magnitudes. */
static void expect_product(const struct product *p, const float *y, size_t ys,
			   double eps, const char *what)
{
	double sum, size, error, worst = 0;
	uint32_t i, j, k;

	for (i = 0; i < p->m; i++) {
		for (j = 0; j < p->w.rows; j++) {
			sum = size = 0;
			for (k = 0; k < p->w.cols; k++) {
				double t = (double)p->x[i * p->stride + k] *
					   p->values[(size_t)j * p->w.cols + k];

				sum += t;
				size += fabs(t);
			}
			error = fabs(y[i * ys + j] - sum) / (size + 1e-30);
			if (!(error <= worst))
				worst = error;
		}
	}
	if (!(worst <= eps)) {
		ht_log("%s %s %u x %u, %u rows: error %g", what,
		       gguf_type_name(p->w.type), p->w.rows, p->w.cols, p->m,
		       worst);
		ht_failed = 1;
	}
}

static void run(struct matmul *mm, const struct product *p, float *y, size_t ys)
{
	struct matmul_job job = { &p->w, y, ys };

	ASSERT_EQ(0, matmul_run(mm, p->x, p->stride, p->m, &job, 1));
}

/* The multiplier of an instruction set, or NULL if this CPU has it not. */
static struct matmul *with_isa(const char *isa, struct kva_threads *t)
{
	struct matmul *mm;
	int ret;

	setenv("KVATTN_ISA", isa, 1);
	ret = matmul_create(t, MATMUL_F32, &mm);
	if (ret == -EOPNOTSUPP)
		return NULL;
	ASSERT_EQ(0, ret);
	ASSERT_STREQ(isa, matmul_isa(mm));
	return mm;
}

static void every_type(const char *isa)
{
	static const uint32_t ms[] = { 1, 2, 3, 4, 5, 7, 8, MATMUL_FEW };
	struct matmul *mm = with_isa(isa, NULL);
	unsigned int i, j;

	if (!mm)
		SKIP(return, "%s, which this CPU does not have", isa);
	for (i = 0; i < NTYPES; i++) {
		for (j = 0; j < sizeof(ms) / sizeof(*ms); j++) {
			float y[MATMUL_FEW * 75];
			struct product p;

			make(&p, types[i], 71, 768, ms[j]);
			run(mm, &p, y, 75);
			/* 768 products, each of 24 bits, in 16 lanes or 1 */
			expect_product(&p, y, 75, 768 * 0x1p-24, isa);
			drop(&p);
		}
	}
	matmul_destroy(mm);
}

TEST(few_rows_scalar)
{
	every_type("scalar");
}

TEST(few_rows_avx2)
{
	every_type("avx2");
}

TEST(few_rows_avx512)
{
	every_type("avx512");
}

/* A row of the unit matrix picks one weight: it must be the file's exactly. */
TEST(weights_are_what_the_file_says)
{
	unsigned int i, n, k, j;
	float y[33];

	for (n = 0; n < 3; n++) {
		struct matmul *mm = with_isa(isas[n], NULL);

		if (!mm)
			continue;
		for (i = 0; i < NTYPES; i++) {
			struct product p;

			make(&p, types[i], 33, 256, 1);
			memset(p.x, 0, p.stride * sizeof(*p.x));
			for (k = 0; k < 256; k++) {
				p.x[k] = 1;
				run(mm, &p, y, 33);
				p.x[k] = 0;
				for (j = 0; j < 33; j++)
					EXPECT_TRUE(y[j] ==
						    p.values[j * 256 + k]);
			}
			drop(&p);
		}
		matmul_destroy(mm);
	}
}

/* Widths that no instruction set divides. */
TEST(odd_widths)
{
	static const uint32_t odd[] = { GGUF_F32, GGUF_F16, GGUF_BF16 };
	static const uint32_t cols[] = { 1, 7, 31, 33, 40, 100 };
	unsigned int n, i, j;
	float y[20 * 11];

	for (n = 0; n < 3; n++) {
		struct matmul *mm = with_isa(isas[n], NULL);

		if (!mm)
			continue;
		for (i = 0; i < 3; i++) {
			for (j = 0; j < 6; j++) {
				struct product p;

				make(&p, odd[i], 11, cols[j], 5);
				run(mm, &p, y, 11);
				expect_product(&p, y, 11, 100 * 0x1p-24,
					       isas[n]);
				drop(&p);
				make(&p, odd[i], 11, cols[j], 20);
				run(mm, &p, y, 11);
				expect_product(&p, y, 11, 100 * 0x1p-24,
					       "panels");
				drop(&p);
			}
		}
		matmul_destroy(mm);
	}
}

/* oneDNN, with panels that are cut by the last row of the weights. */
static void panels(enum matmul_wide wide, uint32_t rows, const uint32_t *ms,
		   unsigned int n, double eps)
{
	const size_t ys = rows + 4;
	struct kva_threads *t;
	struct matmul *mm;
	unsigned int i, j;

	ASSERT_EQ(0, kva_threads_create(2, &t));
	ASSERT_EQ(0, matmul_create(t, wide, &mm));
	for (i = 0; i < NTYPES; i++) {
		for (j = 0; j < n; j++) {
			struct product p;
			float *y = malloc(ms[j] * ys * sizeof(*y));

			make(&p, types[i], rows, 256, ms[j]);
			run(mm, &p, y, ys);
			expect_product(&p, y, ys, eps, "panels");
			drop(&p);
			free(y);
		}
	}
	matmul_destroy(mm);
	kva_threads_destroy(t);
}

TEST(panels_f32)
{
	static const uint32_t ms[] = { MATMUL_FEW + 1, 64, 300 };

	panels(MATMUL_F32, 401, ms, 3, 256 * 0x1p-24);
}

TEST(panels_bf16)
{
	static const uint32_t ms[] = { MATMUL_FEW + 1, 32, 33, 256, 300 };
	struct matmul *mm;

	if (!matmul_has_bf16()) {
		EXPECT_EQ(-EOPNOTSUPP, matmul_create(NULL, MATMUL_BF16, &mm));
		SKIP(return, "bf16 products, which this CPU does not have");
	}
	/* both factors have 8 bits */
	panels(MATMUL_BF16, 201, ms, 5, 2 * 0x1p-8);
}

TEST(a_row_is_the_same_bits_in_any_company)
{
	float y[MATMUL_FEW * 200], one[200];
	unsigned int n, i, threads;
	struct product p;

	make(&p, GGUF_Q4_1, 200, 576, MATMUL_FEW);
	for (n = 0; n < 3; n++) {
		for (threads = 1; threads <= 3; threads++) {
			struct kva_threads *t;
			struct matmul *mm;

			ASSERT_EQ(0, kva_threads_create(threads, &t));
			mm = with_isa(isas[n], t);
			for (i = 0; mm && i < MATMUL_FEW; i++) {
				struct product alone = p;

				run(mm, &p, y, 200);
				alone.x += i * p.stride;
				alone.m = 1;
				run(mm, &alone, one, 200);
				EXPECT_EQ(0, memcmp(one, y + i * 200,
						    sizeof(one)));
			}
			matmul_destroy(mm);
			kva_threads_destroy(t);
		}
	}
	drop(&p);
}

TEST(several_jobs_share_their_input)
{
	static const uint32_t ms[] = { 1, 6, 40 };
	float y[40 * 300];
	unsigned int i;
	struct kva_threads *t;
	struct matmul *mm;

	ASSERT_EQ(0, kva_threads_create(2, &t));
	ASSERT_EQ(0, matmul_create(t, MATMUL_F32, &mm));
	for (i = 0; i < 3; i++) {
		struct product a, b, c;
		struct matmul_job jobs[3];

		make(&a, GGUF_Q8_0, 100, 64, ms[i]);
		make(&b, GGUF_F16, 1, 64, ms[i]);
		make(&c, GGUF_Q5_0, 177, 64, ms[i]);
		memcpy(b.x, a.x, ms[i] * a.stride * sizeof(*a.x));
		memcpy(c.x, a.x, ms[i] * a.stride * sizeof(*a.x));
		jobs[0] = (struct matmul_job){ &a.w, y, 300 };
		jobs[1] = (struct matmul_job){ &b.w, y + 100, 300 };
		jobs[2] = (struct matmul_job){ &c.w, y + 101, 300 };
		y[278] = 42;
		ASSERT_EQ(0, matmul_run(mm, a.x, a.stride, ms[i], jobs, 3));
		expect_product(&a, y, 300, 64 * 0x1p-24, "first");
		expect_product(&b, y + 100, 300, 64 * 0x1p-24, "second");
		expect_product(&c, y + 101, 300, 64 * 0x1p-24, "third");
		EXPECT_TRUE(y[278] == 42);
		drop(&a);
		drop(&b);
		drop(&c);
	}
	matmul_destroy(mm);
	kva_threads_destroy(t);
}

TEST(bad_jobs_are_refused)
{
	struct matmul_job jobs[5];
	struct product a, b;
	struct matmul *mm;
	float y[64];
	int i;

	ASSERT_EQ(0, matmul_create(NULL, MATMUL_F32, &mm));
	make(&a, GGUF_F32, 8, 64, 1);
	make(&b, GGUF_F32, 8, 32, 1);
	for (i = 0; i < 5; i++)
		jobs[i] = (struct matmul_job){ &a.w, y, 8 };
	EXPECT_EQ(-EINVAL, matmul_run(mm, a.x, 64, 1, jobs, 0));
	EXPECT_EQ(-EINVAL, matmul_run(mm, a.x, 64, 1, jobs, 5));
	jobs[1].w = &b.w;
	EXPECT_EQ(-EINVAL, matmul_run(mm, a.x, 64, 1, jobs, 2));
	drop(&a);
	drop(&b);
	matmul_destroy(mm);
	setenv("KVATTN_ISA", "no such", 1);
	EXPECT_EQ(-EOPNOTSUPP, matmul_create(NULL, MATMUL_F32, &mm));
}

/* What oneDNN refuses is not a result. */
TEST(a_failed_product_is_an_error)
{
	struct matmul_job job;
	struct matmul *mm;
	struct product p;
	float y[40 * 64];

	make(&p, GGUF_F32, 64, 64, 40);
	EXPECT_EQ(0, wide_f32(p.x, p.stride, 40, p.values, 64, 64, y, 64));
	EXPECT_EQ(-EINVAL, wide_f32(p.x, p.stride, 40, p.values, 64, 64, y,
				    63));
	ASSERT_EQ(0, matmul_create(NULL, MATMUL_F32, &mm));
	job = (struct matmul_job){ &p.w, y, 8 };
	EXPECT_EQ(-EINVAL, matmul_run(mm, p.x, p.stride, 40, &job, 1));
	matmul_destroy(mm);
	drop(&p);
}

TEST(an_empty_choice_is_none)
{
	struct matmul *best, *mm;

	unsetenv("KVATTN_ISA");
	ASSERT_EQ(0, matmul_create(NULL, MATMUL_F32, &best));
	setenv("KVATTN_ISA", "", 1);
	ASSERT_EQ(0, matmul_create(NULL, MATMUL_F32, &mm));
	EXPECT_STREQ(matmul_isa(best), matmul_isa(mm));
	matmul_destroy(best);
	matmul_destroy(mm);
	setenv("KVATTN_ISA", "ref", 1);
	ASSERT_EQ(0, matmul_create(NULL, MATMUL_F32, &mm));
	EXPECT_STREQ("scalar", matmul_isa(mm));
	matmul_destroy(mm);
}

TEST(one_row_of_a_matrix)
{
	struct product p;
	float row[256];
	uint32_t r;

	make(&p, GGUF_Q4_K, 5, 256, 1);
	for (r = 0; r < 5; r++) {
		matmul_row(&p.w, r, row);
		EXPECT_EQ(0, memcmp(row, p.values + r * 256, sizeof(row)));
	}
	drop(&p);
}

TEST_HARNESS_MAIN
