// SPDX-License-Identifier: MIT
/*
 * test_ops.c - norms and gates against double precision, in every width of
 * vectors that this CPU has.
 */
#include <math.h>
#include <kvattn.h>
#include "harness.h"
#include "ops.h"
#include "ops_rows.h"

#define DIM_MAX 600

static const uint32_t dims[] = { 1, 5, 8, 15, 16, 17, 31, 64, 100, 576 };
#define NDIMS (sizeof(dims) / sizeof(*dims))

/* NULL past the last one that this CPU runs. */
static const struct ops_rows *variant(unsigned int i)
{
	if (i == 0)
		return &ops_rows_any;
	if (i == 1 && __builtin_cpu_supports("avx2"))
		return &ops_rows_avx2;
	if (i == 2 && __builtin_cpu_supports("avx512f") &&
	    __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512dq"))
		return &ops_rows_avx512;
	return NULL;
}

static float value(uint32_t i)
{
	return (int)(i * 7919 % 2001) / 500.0f - 2;
}

static void check_norm(const struct ops_rows *fn, uint32_t dim, int add)
{
	float x[DIM_MAX], delta[DIM_MAX] = { 0 }, weight[DIM_MAX] = { 0 };
	float out[DIM_MAX + 1];
	double sum = 0, want;
	uint32_t i;

	for (i = 0; i < dim; i++) {
		x[i] = value(i);
		delta[i] = value(i + 17);
		weight[i] = value(i + 31);
	}
	out[dim] = 42;
	fn->norm(x, add ? delta : NULL, dim, weight, 1e-5f, out);
	for (i = 0; i < dim; i++) {
		want = add ? value(i) + delta[i] : value(i);
		EXPECT_TRUE(x[i] == (float)want);
		sum += (double)x[i] * x[i];
	}
	for (i = 0; i < dim; i++) {
		want = x[i] / sqrt(sum / dim + 1e-5) * weight[i];
		EXPECT_TRUE(fabs(out[i] - want) <= 1e-6 * fabs(want));
	}
	EXPECT_TRUE(out[dim] == 42);
}

TEST(norm)
{
	unsigned int v, i;

	for (v = 0; variant(v); v++) {
		for (i = 0; i < NDIMS; i++) {
			check_norm(variant(v), dims[i], 0);
			check_norm(variant(v), dims[i], 1);
		}
	}
}

static void expect_swiglu(float gate, float up, float got)
{
	double want = gate / (1 + exp(-(double)gate)) * up;

	/* below the smallest normal number nothing is promised */
	if (!(fabs(got - want) <= 1e-6 * fabs(want) + 1e-36)) {
		ht_log("swiglu of %g, %g is %g instead of %g", gate, up, got,
		       want);
		ht_failed = 1;
	}
}

TEST(swiglu)
{
	float gate[DIM_MAX], up[DIM_MAX], out[DIM_MAX + 1];
	unsigned int v, i, d;

	for (v = 0; variant(v); v++) {
		for (d = 0; d < NDIMS; d++) {
			for (i = 0; i < dims[d]; i++) {
				gate[i] = 20 * value(i);
				up[i] = value(i + 3);
			}
			out[dims[d]] = 42;
			variant(v)->swiglu(gate, up, dims[d], out);
			for (i = 0; i < dims[d]; i++)
				expect_swiglu(gate[i], up[i], out[i]);
			EXPECT_TRUE(out[dims[d]] == 42);
		}
	}
}

static void expect_geglu(float gate, float up, float got)
{
	double g = gate, u = sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
	/* 1 + tanh, where it is small, without its cancellation */
	double want = g / (1 + exp(-2 * u)) * up;

	if (!(fabs(got - want) <= 2e-5 * fabs(want) + 1e-36)) {
		ht_log("geglu of %g, %g is %g instead of %g", gate, up, got,
		       want);
		ht_failed = 1;
	}
}

TEST(geglu)
{
	static const float extremes[] = {
		-1e30f, -200, 200, 1e30f, 0, -0.0f,
	};
	float gate[DIM_MAX], up[DIM_MAX], out[DIM_MAX + 1];
	unsigned int v, i, d;

	for (v = 0; variant(v); v++) {
		for (d = 0; d < NDIMS; d++) {
			for (i = 0; i < dims[d]; i++) {
				gate[i] = 3 * value(i);
				up[i] = value(i + 3);
			}
			out[dims[d]] = 42;
			variant(v)->geglu(gate, up, dims[d], out);
			for (i = 0; i < dims[d]; i++)
				expect_geglu(gate[i], up[i], out[i]);
			EXPECT_TRUE(out[dims[d]] == 42);
		}
		for (i = 0; i < 6; i++)
			up[i] = 1;
		variant(v)->geglu(extremes, up, 6, out);
		EXPECT_TRUE(fabsf(out[0]) < 1e-6f);
		EXPECT_TRUE(fabsf(out[1]) < 1e-30f);
		EXPECT_TRUE(out[2] == 200);
		EXPECT_TRUE(out[3] == 1e30f);
		EXPECT_TRUE(out[4] == 0);
		EXPECT_TRUE(out[5] == 0);
	}
}

/* Rows with others' elements between them, on threads and without. */
TEST(parts_of_rows)
{
	enum { ROWS = 700, HEADS = 3, DIM = 24, STRIDE = HEADS * DIM + 5 };
	static float x[2][ROWS * STRIDE];
	struct kva_threads *t;
	float bias[DIM], want[DIM];
	uint32_t r, h, i, at;

	ASSERT_EQ(0, kva_threads_create(3, &t));
	for (i = 0; i < DIM; i++)
		bias[i] = value(i + 5);
	for (i = 0; i < ROWS * STRIDE; i++)
		x[0][i] = x[1][i] = value(i);
	ops_bias(t, x[0], STRIDE, ROWS, DIM, bias);
	for (i = 0; i < ROWS * STRIDE; i++)
		ASSERT_TRUE(x[0][i] == value(i) + (i % STRIDE < DIM ?
						   bias[i % STRIDE] : 0));
	ops_norm_heads(t, x[1], STRIDE, ROWS, HEADS, DIM, bias, 1e-5f);
	for (r = 0; r < ROWS; r++) {
		for (h = 0; h < HEADS; h++) {
			at = r * STRIDE + h * DIM;
			for (i = 0; i < DIM; i++)
				want[i] = value(at + i);
			ops_norm(NULL, want, NULL, 1, DIM, bias, 1e-5f, want);
			ASSERT_EQ(0, memcmp(want, x[1] + at, sizeof(want)));
		}
		for (i = HEADS * DIM; i < STRIDE; i++)
			ASSERT_TRUE(x[1][r * STRIDE + i] ==
				    value(r * STRIDE + i));
	}
	kva_threads_destroy(t);
}

TEST(swiglu_over_the_whole_range)
{
	float gate[16], up[16], out[16];
	unsigned int v, i;
	double g;

	for (i = 0; i < 16; i++)
		up[i] = 1;
	for (v = 0; variant(v); v++) {
		for (g = -86; g < 100; g += 16 * 0.0007) {
			for (i = 0; i < 16; i++)
				gate[i] = g + i * 0.0007;
			variant(v)->swiglu(gate, up, 16, out);
			for (i = 0; i < 16; i++)
				expect_swiglu(gate[i], 1, out[i]);
		}
	}
}

TEST(swiglu_of_extremes)
{
	static const float gate[] = { -1e30f, -200, 200, 1e30f, 0, -0.0f };
	float up[6] = { 1, 1, 1, 1, 1, 1 }, out[6];
	unsigned int v;

	for (v = 0; variant(v); v++) {
		variant(v)->swiglu(gate, up, 6, out);
		EXPECT_TRUE(fabsf(out[1]) < 1e-30f);
		EXPECT_TRUE(out[2] == 200);
		EXPECT_TRUE(out[3] == 1e30f);
		EXPECT_TRUE(out[4] == 0);
		EXPECT_TRUE(out[5] == 0);
	}
}

/* In every lane, beside numbers: they must stay what they are. */
TEST(swiglu_of_what_is_no_number)
{
	float gate[16], up[16], out[16];
	unsigned int v, i, j;

	for (v = 0; variant(v); v++) {
		for (i = 0; i < 16; i++) {
			for (j = 0; j < 16; j++) {
				gate[j] = value(i + j);
				up[j] = 1;
			}
			gate[i] = i & 1 ? NAN : -NAN;
			gate[(i + 1) % 16] = INFINITY;
			gate[(i + 2) % 16] = -INFINITY;
			variant(v)->swiglu(gate, up, 16, out);
			EXPECT_TRUE(isnan(out[i]));
			EXPECT_TRUE(out[(i + 1) % 16] == INFINITY);
			EXPECT_FALSE(isfinite(out[(i + 2) % 16]));
			for (j = 3; j < 16; j++)
				expect_swiglu(gate[(i + j) % 16], 1,
					      out[(i + j) % 16]);
			up[i] = INFINITY;
			up[(i + 3) % 16] = NAN;
			variant(v)->swiglu(gate, up, 16, out);
			EXPECT_TRUE(isnan(out[i]));
			EXPECT_TRUE(isnan(out[(i + 3) % 16]));
		}
	}
}

/* Nothing that went wrong looks like a row of zeros. */
TEST(norm_of_what_is_no_number)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY, 1e30f };
	float x[16], weight[16], out[16];
	unsigned int v, i, j;

	for (v = 0; variant(v); v++) {
		for (i = 0; i < 4; i++) {
			for (j = 0; j < 16; j++)
				x[j] = weight[j] = 1;
			x[5] = bad[i];
			variant(v)->norm(x, NULL, 16, weight, 1e-5f, out);
			for (j = 0; j < 16; j++)
				EXPECT_FALSE(isfinite(out[j]));
		}
	}
}

/* An odd number of lanes' worth: each width sums in another order. */
TEST(the_choice_of_instructions_is_kept)
{
	static const char *const names[] = { "scalar", "avx2", "avx512" };
	float x[DIM_MAX], y[DIM_MAX], want[DIM_MAX], got[DIM_MAX];
	unsigned int v, i;

	for (v = 0; variant(v); v++) {
		setenv("KVATTN_ISA", names[v], 1);
		for (i = 0; i < DIM_MAX; i++)
			x[i] = y[i] = value(i);
		variant(v)->norm(x, NULL, DIM_MAX, y, 1e-5f, want);
		ops_norm(NULL, x, NULL, 1, DIM_MAX, y, 1e-5f, got);
		EXPECT_EQ(0, memcmp(want, got, sizeof(want)));
	}
}

TEST(rows_do_not_depend_on_threads)
{
	enum { ROWS = 100, DIM = 576 };
	float *x = malloc(ROWS * DIM * 2 * sizeof(*x)), *one, *two;
	struct kva_threads *t;
	uint32_t i;

	one = malloc(ROWS * DIM * sizeof(*one));
	two = malloc(ROWS * DIM * sizeof(*two));
	ASSERT_TRUE(x && one && two);
	for (i = 0; i < ROWS * DIM * 2; i++)
		x[i] = value(i);
	ASSERT_EQ(0, kva_threads_create(3, &t));
	ops_swiglu(NULL, x, ROWS, DIM, one);
	ops_swiglu(t, x, ROWS, DIM, two);
	EXPECT_EQ(0, memcmp(one, two, ROWS * DIM * sizeof(*one)));
	ops_norm(NULL, x, NULL, ROWS, DIM, x + ROWS * DIM, 1e-5f, one);
	ops_norm(t, x, NULL, ROWS, DIM, x + ROWS * DIM, 1e-5f, two);
	EXPECT_EQ(0, memcmp(one, two, ROWS * DIM * sizeof(*one)));
	kva_threads_destroy(t);
	free(x);
	free(one);
	free(two);
}

TEST_HARNESS_MAIN
