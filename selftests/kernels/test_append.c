// SPDX-License-Identifier: MIT
/*
 * test_append.c - what append stores is, bit for bit, the double result
 * rounded to f32 and then to the type, in the rows it is for and in no other
 * byte; the same for every variant.
 */
#include "kit.h"

#define MAX_POS 4096

struct rows {
	struct kit kit;
	struct kva_append append;
	float *q;
	float *k;
	float *v;
	uint32_t *pos;
	float *table;
};

/* New rows at the end of each sequence of a batch; sources lie apart. */
static void rows_init(struct rows *r, const struct kit_shape *s,
		      unsigned int rope, uint32_t rot_dim, uint32_t gap)
{
	struct kva_append *a = &r->append;
	uint32_t i, n;

	kit_init(&r->kit, s);
	n = r->kit.nrows;
	*a = (struct kva_append) {
		.kv = &r->kit.view, .row_ptr = r->kit.row_ptr,
		.q_heads = r->kit.q_heads, .rope = rope, .rot_dim = rot_dim,
		.q_stride = (size_t)r->kit.q_heads * s->k_dim + gap,
		.k_stride = (size_t)s->kv_heads * s->k_dim + gap,
		.v_stride = (size_t)s->kv_heads * s->v_dim + gap,
	};
	a->q = r->q = kit_floats(n * a->q_stride);
	a->k = r->k = kit_floats(n * a->k_stride);
	a->v = r->v = kit_floats(n * a->v_stride);
	if (rope == KVA_ROPE_NONE)
		return;
	r->pos = kit_alloc((n + 1) * sizeof(uint32_t));
	for (i = 0; i < n; i++)
		r->pos[i] = kit_random() % MAX_POS;
	r->table = kit_alloc(MAX_POS * rot_dim * sizeof(float));
	kva_rope_table(r->table, 0, MAX_POS, rot_dim, 10000, 1, NULL);
	a->pos = r->pos;
	a->rope_table = r->table;
}

static void rows_free(struct rows *r)
{
	kit_free(&r->kit);
	free(r->q);
	free(r->k);
	free(r->v);
	free(r->pos);
	free(r->table);
}

/* Rotation by its definition, in double, rounded once. */
static void turn(const struct rows *r, uint32_t row, const float *in,
		 float *out, uint32_t dim)
{
	const struct kva_append *a = &r->append;
	uint32_t half = a->rot_dim / 2, i;

	memcpy(out, in, dim * sizeof(float));
	for (i = 0; a->rope != KVA_ROPE_NONE && i < half; i++) {
		const float *cs = r->table + (size_t)r->pos[row] * a->rot_dim +
				  2 * i;
		uint32_t x = a->rope == KVA_ROPE_PAIR ? 2 * i : i;
		uint32_t y = a->rope == KVA_ROPE_PAIR ? x + 1 : x + half;

		out[x] = (double)in[x] * cs[0] - (double)in[y] * cs[1];
		out[y] = (double)in[x] * cs[1] + (double)in[y] * cs[0];
	}
}

/* The whole arena as append must leave it. */
static void expect(struct rows *r, char *arena, float *q)
{
	struct kit *k = &r->kit;
	const struct kit_shape *s = &k->shape;
	char *real = k->arena;
	float row[KVA_DIM_MAX];
	uint32_t i, n, h;

	memcpy(arena, real, k->arena_size);
	k->arena = arena;
	for (i = 0; i < s->nseq; i++) {
		for (n = k->row_ptr[i]; n < k->row_ptr[i + 1]; n++) {
			uint32_t pos = s->len[i] - k->row_ptr[i + 1] + n;

			for (h = 0; h < k->q_heads; h++) {
				size_t at = n * r->append.q_stride +
					    (size_t)h * s->k_dim;

				turn(r, n, r->q + at, q + at, s->k_dim);
			}
			for (h = 0; h < s->kv_heads; h++) {
				turn(r, n, r->k + n * r->append.k_stride +
				     (size_t)h * s->k_dim, row, s->k_dim);
				kit_put(k, i, pos, 0, h, row);
				kit_put(k, i, pos, 1, h,
					r->v + n * r->append.v_stride +
					(size_t)h * s->v_dim);
			}
		}
	}
	k->arena = real;
}

static void check(const struct kva_ops *ops, struct kva_threads *t,
		  const struct kit_shape *s, unsigned int rope,
		  uint32_t rot_dim, uint32_t gap)
{
	struct rows r = { 0 };
	size_t qsize;
	char *want;
	float *q;

	rows_init(&r, s, rope, rot_dim, gap);
	qsize = r.kit.nrows * r.append.q_stride * sizeof(float);
	want = kit_alloc(r.kit.arena_size);
	q = kit_alloc(qsize);
	memcpy(q, r.q, qsize);
	expect(&r, want, q);
	ASSERT_EQ(0, ops->append(&r.append, t));
	ASSERT_EQ(0, memcmp(want, r.kit.arena, r.kit.arena_size));
	ASSERT_EQ(0, memcmp(q, r.q, qsize));
	/* without queries the pages are the same */
	r.append.q = NULL;
	ASSERT_EQ(0, ops->append(&r.append, NULL));
	ASSERT_EQ(0, memcmp(want, r.kit.arena, r.kit.arena_size));
	free(want);
	free(q);
	rows_free(&r);
}

static void exact(const char *name)
{
	static const uint32_t page_tokens[] = { 1, 5, 8, 16, 40, 88 };
	static const uint32_t dims[] = { 64, 80, 96, 112, 128, 192, 256 };
	const struct kva_ops *ops = kit_variant(name);
	struct kva_threads *t;
	unsigned int i, j;

	ASSERT_EQ(0, kva_threads_create(3, &t));
	for (i = 0; i < 3 * 3 * 2 * 6; i++) {
		struct kit_shape s = {
			.k_type = i % KVA_NR_TYPES,
			.v_type = (i + i / 3) % KVA_NR_TYPES,
			.order = i / 9 % 2,
			.page_tokens = page_tokens[i / 18],
			.k_dim = dims[i % 7], .v_dim = dims[(i + i / 7) % 7],
			.kv_heads = 1 + i % 3, .group = 1 + i % 4, .nseq = 5,
			.len = { 1, 17, 0, 90, 33 },
			.rows = { 1, 17, 0, 60, 1 },
		};

		for (j = 0; j < 3; j++)
			check(ops, t, &s, j, i % 2 ? s.k_dim : s.k_dim / 2,
			      i % 2 * 19);
	}
	kva_threads_destroy(t);
}

TEST(exact_ref) { exact("ref"); }
TEST(exact_scalar) { exact("scalar"); }
TEST(exact_avx2) { exact("avx2"); }
TEST(exact_avx512) { exact("avx512"); }

/* Values that round, overflow, or are no numbers. */
static void special(const char *name)
{
	static const float values[] = {
		0.0f, -0.0f, 65504, 65519.99f, 65520, -70000, 1e-8f, 6e-8f,
		2.98e-8f, -6.1e-5f, 1e-40f, 3.39e38f, -3.4e38f, 1.00390625f,
		1.01171875f, 2049, 2051, 0.333333f,
	};
	const struct kva_ops *ops = kit_variant(name);
	unsigned int type, i;

	for (type = 0; type < KVA_NR_TYPES; type++) {
		struct kit_shape s = {
			.k_type = type, .v_type = type, .order = KVA_CPU,
			.page_tokens = 8, .k_dim = 64, .v_dim = 64,
			.kv_heads = 1, .group = 1, .nseq = 1,
			.len = { 8 }, .rows = { 8 },
		};
		struct rows r = { 0 };
		float q[8 * 64];
		char *want;

		rows_init(&r, &s, KVA_ROPE_NONE, 0, 0);
		for (i = 0; i < 8 * 64; i++) {
			r.k[i] = values[i % (sizeof(values) / 4)];
			r.v[i] = i % 7 ? r.k[i] * 1.37f : INFINITY;
		}
		want = kit_alloc(r.kit.arena_size);
		expect(&r, want, q);
		ASSERT_EQ(0, ops->append(&r.append, NULL));
		ASSERT_EQ(0, memcmp(want, r.kit.arena, r.kit.arena_size));
		/* signalling and quiet NaN, big and small payloads */
		for (i = 0; i < 64; i++) {
			uint32_t nan = 0x7f800000 | (1u << i % 23) |
				       (i / 23) << 31;

			memcpy(&r.k[i], &nan, 4);
		}
		expect(&r, want, q);
		ASSERT_EQ(0, ops->append(&r.append, NULL));
		ASSERT_EQ(0, memcmp(want, r.kit.arena, r.kit.arena_size));
		free(want);
		rows_free(&r);
	}
}

TEST(special_ref) { special("ref"); }
TEST(special_scalar) { special("scalar"); }
TEST(special_avx2) { special("avx2"); }
TEST(special_avx512) { special("avx512"); }

TEST(rope_table)
{
	float table[3 * 4 * 2], factors[4] = { 1, 1, 8, 2 };
	int i, p;

	kva_rope_table(table, 1000000, 3, 8, 500000, 0.25, factors);
	for (p = 0; p < 3; p++) {
		for (i = 0; i < 4; i++) {
			double freq = pow(500000, -2.0 * i / 8) * 0.25 /
				      factors[i];
			double angle = (1000000 + p) * freq;

			ASSERT_TRUE(table[(p * 4 + i) * 2] ==
				    (float)cos(angle));
			ASSERT_TRUE(table[(p * 4 + i) * 2 + 1] ==
				    (float)sin(angle));
		}
	}
}

TEST_HARNESS_MAIN
