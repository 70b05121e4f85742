// SPDX-License-Identifier: MIT
/*
 * test_seq_shift.c - keys that are rotated on, again and again, are those that
 * one rotation would have made; and attention sees them as they are stored.
 */
#include <math.h>
#include <stdio.h>

#include "kit.h"

#define DIM	32
#define HEADS	2
#define MAX	400
#define BASE	10000.0
#define SCALE	0.02f	/* of KVC_E4M3T, whose largest number is 448 */

struct shift {
	struct kit k;
	uint32_t type;
	uint32_t kind;
	float k_row[2 * MAX][HEADS][DIM];	/* of each token, not rotated */
	float v_row[2 * MAX][HEADS][DIM];
	float table[MAX * DIM];
};

static uint64_t state;

static float noise(void)
{
	state = kit_mix(state, 7);
	return (int)(state >> 40 & 0xffff) / 8192.0f - 4;
}

static void begin(struct shift *t, uint32_t type, uint32_t kind,
		  uint32_t row_major)
{
	static const float scale = SCALE;
	struct kvc_cache_opts o = { .sz = sizeof(o), .threads = 2 };

	state = 42;
	memset(t, 0, sizeof(*t));
	t->type = type;
	t->kind = kind;
	kit_connect(&t->k, 1 << 16, 64, 0);
	t->k.g[0] = (struct kvc_group) {
		.kv_heads = HEADS, .k_dim = DIM, .v_dim = DIM,
		.k_type = type, .v_type = type,
	};
	t->k.m = (struct kvc_model) {
		.sz = sizeof(t->k.m), .nlayers = 1, .ngroups = 1,
		.groups = t->k.g, .q_heads = HEADS, .page_tokens = 16,
		.row_major = row_major,
		.k_scales = &scale, .v_scales = &scale,
	};
	ASSERT_EQ(0, kvc_cache_create(t->k.ctx, &t->k.m, &o, &t->k.c));
	ASSERT_EQ(0, kvc_batch_create(t->k.c, &t->k.b));
	kvc_rope_table(t->table, 0, MAX, DIM, BASE, 1, NULL);
	for (uint32_t i = 0; i < 2 * MAX; i++)
		for (uint32_t h = 0; h < HEADS; h++)
			for (uint32_t d = 0; d < DIM; d++) {
				t->k_row[i][h][d] = noise();
				t->v_row[i][h][d] = noise();
			}
}

/* Tokens are numbers of rows. @o: what the last one's query @q attends to. */
static void add(struct shift *t, struct kvc_seq *s, uint32_t first, uint32_t n,
		float *q, float *o)
{
	const struct kvc_rope rope = { t->kind, DIM, t->table };
	float *all_q = calloc(n, HEADS * DIM * sizeof(float));
	float *all_o = calloc(n, HEADS * DIM * sizeof(float));
	uint32_t ids[MAX];
	struct kvc_item item = { s, ids, n };

	kit_count(ids, n, first);
	if (q)
		memcpy(all_q + (n - 1) * HEADS * DIM, q,
		       HEADS * DIM * sizeof(*q));
	ASSERT_EQ(0, kvc_batch_plan(t->k.b, &item, 1));
	ASSERT_EQ(0, kvc_append(t->k.b, 0, &rope, all_q, HEADS * DIM,
				t->k_row[first][0], HEADS * DIM,
				t->v_row[first][0], HEADS * DIM));
	ASSERT_EQ(0, kvc_attend(t->k.b, 0, 0.25f, all_q, HEADS * DIM, all_o,
				HEADS * DIM));
	ASSERT_EQ(0, kvc_batch_commit(t->k.b));
	if (q) {
		memcpy(q, all_q + (n - 1) * HEADS * DIM,
		       HEADS * DIM * sizeof(*q));
		memcpy(o, all_o + (n - 1) * HEADS * DIM,
		       HEADS * DIM * sizeof(*o));
	}
	free(all_q);
	free(all_o);
}

static void end(struct shift *t)
{
	kvc_batch_destroy(t->k.b);
	kvc_cache_destroy(t->k.c);
	kit_disconnect(&t->k);
}

static float stored(uint32_t type, const char *row, uint32_t d)
{
	float out[DIM];

	kva_row_decode(type, SCALE, row, out, DIM);
	return out[d];
}

/* Half a step of the type's, of what is about 1. */
static double half_step(uint32_t type)
{
	return type == KVC_F32 ? 0x1p-24 : type == KVC_F16 ? 0x1p-11 : 0x1p-8;
}

/*
 * Each row of the sequence was rounded when it was appended, and once by each of
 * @shifts; the table is rounded, too. Roundings are of a pair's length at most.
 */
static double worst(const struct shift *t, const struct kvc_seq *s,
		    uint32_t shifts)
{
	size_t size = kva_row_size(t->type, DIM);
	double bound = (shifts + 1) * (half_step(t->type) + 0x1p-24) + 0x1p-22;
	double most = 0;
	char row[DIM * 4];

	for (uint32_t i = 0; i < kvc_seq_len(s); i++) {
		const uint32_t id = kvc_seq_tokens(s)[i];

		for (uint32_t h = 0; h < HEADS; h++) {
			ASSERT_EQ(0, kvc_seq_read(s, 0, 0, h, i, 1, row));
			for (uint32_t j = 0; j < DIM / 2; j++) {
				uint32_t a = t->kind == KVC_ROPE_PAIR ?
					     2 * j : j;
				uint32_t b = t->kind == KVC_ROPE_PAIR ?
					     2 * j + 1 : j + DIM / 2;
				double x = t->k_row[id][h][a];
				double y = t->k_row[id][h][b];
				double w = i * pow(BASE, -2.0 * j / DIM);
				double dx = x * cos(w) - y * sin(w) -
					    stored(t->type, row, a);
				double dy = x * sin(w) + y * cos(w) -
					    stored(t->type, row, b);

				/* Steps of numbers near 0 do not shrink. */
				if (hypot(dx, dy) < 1e-6)
					continue;
				most = fmax(most, hypot(dx, dy) / hypot(x, y) /
					    bound);
			}
		}
		/* V stays as it is. */
		ASSERT_EQ(0, kvc_seq_read(s, 0, 1, 0, i, 1, row));
		for (uint32_t d = 0; d < DIM; d++) {
			char want[DIM * 4];

			kva_row_encode(t->type, SCALE, t->v_row[id][0], want,
				       DIM);
			ASSERT_EQ(0, memcmp(want, row, size));
		}
	}
	return most;
}

/* Attention in double over the rows as they are stored. */
static double oracle_diff(const struct shift *t, const struct kvc_seq *s,
			  const float *q, const float *o)
{
	uint32_t len = kvc_seq_len(s), i, h, d;
	double most = 0;
	char row[DIM * 4];

	for (h = 0; h < HEADS; h++) {
		double sum = 0, acc[DIM] = { 0 }, w;

		for (i = 0; i < len; i++) {
			ASSERT_EQ(0, kvc_seq_read(s, 0, 0, h, i, 1, row));
			for (d = 0, w = 0; d < DIM; d++)
				w += (double)q[h * DIM + d] *
				     stored(t->type, row, d);
			w = exp(0.25 * w - 60);
			sum += w;
			ASSERT_EQ(0, kvc_seq_read(s, 0, 1, h, i, 1, row));
			for (d = 0; d < DIM; d++)
				acc[d] += w * stored(t->type, row, d);
		}
		for (d = 0; d < DIM; d++)
			most = fmax(most, fabs(acc[d] / sum - o[h * DIM + d]));
	}
	return most;
}

/* As a long chat does it: the first tokens stay, and half of the others go. */
static void eight_shifts(uint32_t type, uint32_t kind, uint32_t row_major,
			 uint32_t by)
{
	static struct shift t;
	const struct kvc_rotation rot = { kind, DIM, BASE, 1, NULL };
	float q[HEADS * DIM], o[HEADS * DIM];
	uint32_t next = 100, i;
	struct kvc_seq *s;
	double most;

	begin(&t, type, kind, row_major);
	s = kit_seq(&t.k, NULL);
	add(&t, s, 0, 100, NULL, NULL);
	for (i = 0; i < 8; i++) {
		ASSERT_EQ(0, kvc_seq_remove(s, 5, by, &rot));
		/* So that the last of the first hundred sees all eight. */
		ASSERT_EQ(100 - by, kvc_seq_len(s));
		add(&t, s, next, by, NULL, NULL);
		next += by;
		most = worst(&t, s, i + 1);
		ASSERT_LT(most, 1);
	}
	for (i = 0; i < HEADS * DIM; i++)
		q[i] = noise() / 4;
	add(&t, s, next, 1, q, o);
	EXPECT_LT(oracle_diff(&t, s, q, o), 1e-5);
	kvc_seq_free(s, 0);
	EXPECT_EQ(0, kit_used(&t.k));
	end(&t);
}

/* By 11, the tokens from 93 on are moved eight times; by 16, pages move. */
TEST(eight_shifts_f32)
{
	eight_shifts(KVC_F32, KVC_ROPE_HALF, 0, 11);
	eight_shifts(KVC_F32, KVC_ROPE_PAIR, 1, 16);
}

TEST(eight_shifts_f16)
{
	eight_shifts(KVC_F16, KVC_ROPE_PAIR, 0, 11);
	eight_shifts(KVC_F16, KVC_ROPE_HALF, 1, 16);
}

TEST(eight_shifts_bf16)
{
	eight_shifts(KVC_BF16, KVC_ROPE_HALF, 0, 11);
	eight_shifts(KVC_BF16, KVC_ROPE_PAIR, 0, 16);
	eight_shifts(KVC_BF16, KVC_ROPE_HALF, 1, 16);
}

/* The worst error of a row, as a share of its length: of rows [@from, ...). */
static double row_error(const struct shift *t, const struct kvc_seq *s,
			uint32_t from)
{
	double most = 0;
	char row[DIM * 4];

	for (uint32_t i = from; i < kvc_seq_len(s); i++) {
		const float *k = t->k_row[kvc_seq_tokens(s)[i]][0];
		double sum = 0, all = 0;

		ASSERT_EQ(0, kvc_seq_read(s, 0, 0, 0, i, 1, row));
		for (uint32_t j = 0; j < DIM / 2; j++) {
			double w = i * pow(BASE, -2.0 * j / DIM);
			double x = k[j], y = k[j + DIM / 2];
			double dx = x * cos(w) - y * sin(w) -
				    stored(t->type, row, j);
			double dy = x * sin(w) + y * cos(w) -
				    stored(t->type, row, j + DIM / 2);

			sum += dx * dx + dy * dy;
			all += x * x + y * y;
		}
		most = fmax(most, sqrt(sum / all));
	}
	return most;
}

/*
 * Packed types round by steps that follow from the whole row. Errors of several
 * roundings add up as if they had nothing to do with each other: twice that is
 * allowed, of the worst error that one has made. Another angle would be off by
 * more than half a row.
 */
static void eight_shifts_packed(uint32_t type, uint32_t by)
{
	static struct shift t;
	const struct kvc_rotation rot = { KVC_ROPE_HALF, DIM, BASE, 1, NULL };
	float q[HEADS * DIM], o[HEADS * DIM];
	double once, most = 0;
	uint32_t next = 100, i;
	struct kvc_seq *s;

	begin(&t, type, KVC_ROPE_HALF, 0);
	s = kit_seq(&t.k, NULL);
	add(&t, s, 0, 100, NULL, NULL);
	once = row_error(&t, s, 0);
	for (i = 0; i < 8; i++) {
		ASSERT_EQ(0, kvc_seq_remove(s, 5, by, &rot));
		most = row_error(&t, s, 0);
		ASSERT_LT(most, 2 * sqrt(i + 2) * once);
		add(&t, s, next, by, NULL, NULL);
		next += by;
	}
	printf("# %s, %u at a time: off by %.4f of a row once, %.4f after eight\n",
	       kva_type_name(type), by, once, most);
	ASSERT_LT(most, 0.5);
	for (i = 0; i < HEADS * DIM; i++)
		q[i] = noise() / 4;
	add(&t, s, next, 1, q, o);
	EXPECT_LT(oracle_diff(&t, s, q, o), 2e-2);
	kvc_seq_free(s, 0);
	EXPECT_EQ(0, kit_used(&t.k));
	end(&t);
}

TEST(eight_shifts_of_packed_types)
{
	static const uint32_t types[] = {
		KVC_INT8, KVC_E4M3, KVC_E4M3T, KVC_INT4, KVC_INT4H,
	};

	for (uint32_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		eight_shifts_packed(types[i], 11);
		eight_shifts_packed(types[i], 16);
	}
}

/* A fork shares the pages: its keys are where they were. */
TEST(shift_leaves_a_fork_alone)
{
	static struct shift t;
	const struct kvc_rotation rot = { KVC_ROPE_HALF, DIM, BASE, 1, NULL };
	struct kvc_seq *s, *q;

	begin(&t, KVC_F32, KVC_ROPE_HALF, 0);
	s = kit_seq(&t.k, NULL);
	add(&t, s, 0, 100, NULL, NULL);
	ASSERT_EQ(0, kvc_seq_fork(s, &q));
	ASSERT_EQ(0, kvc_seq_remove(s, 20, 32, &rot));
	EXPECT_LT(worst(&t, q, 0), 1);
	EXPECT_LT(worst(&t, s, 1), 1);
	/* A rotation that was not asked for would be seen. */
	ASSERT_EQ(0, kvc_seq_remove(q, 20, 32, NULL));
	EXPECT_GT(worst(&t, q, 1), 1000);
	kvc_seq_free(s, 0);
	kvc_seq_free(q, 0);
	end(&t);
}

TEST_HARNESS_MAIN
