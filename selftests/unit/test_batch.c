// SPDX-License-Identifier: MIT
/*
 * test_batch.c - steps: all of it or nothing, and each row as if alone.
 */
#include <math.h>
#include <time.h>

#include "kit.h"

FIXTURE(batch) {
	struct kit k;
	uint32_t t[64];
};

FIXTURE_SETUP(batch)
{
	kit_open(&self->k, &(struct kit_spec) { .pages = 32 });
	kit_count(self->t, 64, 1000);
}

FIXTURE_TEARDOWN(batch)
{
	kit_end(&self->k);
}

TEST_F(batch, positions)
{
	struct kvc_seq *a = kit_seq(&self->k, NULL);
	struct kvc_seq *b = kit_seq(&self->k, NULL);
	struct kvc_item items[] = { { a, self->t + 5, 1 }, { b, self->t, 4 } };
	static const uint32_t want[] = { 5, 0, 1, 2, 3 };

	ASSERT_EQ(0, kit_add(&self->k, a, self->t, 5));
	ASSERT_EQ(0, kvc_batch_plan(self->k.b, items, 2));
	EXPECT_EQ(0, memcmp(want, kvc_batch_positions(self->k.b), sizeof(want)));
	kvc_batch_abort(self->k.b);
	kvc_seq_free(a, 0);
	kvc_seq_free(b, 0);
}

TEST_F(batch, what_is_refused)
{
	struct kvc_seq *a = kit_seq(&self->k, NULL);
	struct kvc_seq *b = kit_seq(&self->k, NULL);
	struct kvc_item twice[] = { { a, self->t, 1 }, { b, self->t, 1 },
				    { a, self->t, 1 } };
	struct kvc_item bad = { a, self->t, 0 };
	struct kvc_batch *other;
	struct kvc_cache *c;
	float f[64] = { 0 };

	EXPECT_EQ(-EINVAL, kvc_batch_plan(self->k.b, NULL, 1));
	EXPECT_EQ(-EINVAL, kvc_batch_plan(self->k.b, twice, 0));
	EXPECT_EQ(-EINVAL, kvc_batch_plan(self->k.b, twice, 3));
	EXPECT_EQ(-EINVAL, kvc_batch_plan(self->k.b, &bad, 1));
	bad = (struct kvc_item) { a, NULL, 1 };
	EXPECT_EQ(-EINVAL, kvc_batch_plan(self->k.b, &bad, 1));
	bad = (struct kvc_item) { NULL, self->t, 1 };
	EXPECT_EQ(-EINVAL, kvc_batch_plan(self->k.b, &bad, 1));
	EXPECT_EQ(0, kvc_seq_pages(a) + kvc_seq_pages(b));
	EXPECT_EQ(-EINVAL, kvc_batch_commit(self->k.b));
	EXPECT_EQ(-EINVAL, kvc_append(self->k.b, 0, NULL, NULL, 0, f, 32, f, 32));

	ASSERT_EQ(0, kvc_batch_create(self->k.c, &other));
	ASSERT_EQ(0, kvc_batch_plan(self->k.b, twice, 2));
	EXPECT_EQ(-EBUSY, kvc_batch_plan(self->k.b, twice, 2));
	EXPECT_EQ(-EBUSY, kvc_batch_plan(other, twice + 1, 1));
	/* A layer too many, attended too early, committed too early. */
	EXPECT_EQ(-EINVAL, kvc_append(self->k.b, KIT_LAYERS, NULL, NULL, 0, f,
				      32, f, 32));
	EXPECT_EQ(-EINVAL, kvc_attend(self->k.b, 0, 1, f, 32, f, 32));
	EXPECT_EQ(-EINVAL, kvc_batch_commit(self->k.b));
	EXPECT_NE(NULL, strstr(kvc_errmsg(self->k.ctx), "layer 0"));
	EXPECT_EQ(0, kvc_seq_len(a));
	kvc_batch_abort(self->k.b);
	kvc_batch_abort(self->k.b);
	ASSERT_EQ(0, kvc_batch_plan(other, twice + 1, 1));
	kvc_batch_destroy(other);

	ASSERT_EQ(0, kvc_cache_create(self->k.ctx, &self->k.m, NULL, &c));
	ASSERT_EQ(0, kvc_batch_create(c, &other));
	EXPECT_EQ(-EINVAL, kvc_batch_plan(other, twice, 1));
	kvc_batch_destroy(other);
	kvc_cache_destroy(c);
	kvc_seq_free(a, 0);
	kvc_seq_free(b, 0);
}

/* K and V rows of unequal length, so that each stride has its own bound. */
TEST_F(batch, strides_shorter_than_a_row)
{
	enum { HEADS = 2, Q_HEADS = 4, K = 32, V = 48, ROWS = 2 };
	static float q[ROWS * Q_HEADS * K], k[ROWS * HEADS * K],
		     v[ROWS * HEADS * V], o[ROWS * Q_HEADS * V];
	const struct kvc_group g = {
		.kv_heads = HEADS, .k_dim = K, .v_dim = V,
	};
	const struct kvc_model m = {
		.sz = sizeof(m), .nlayers = 1, .ngroups = 1, .groups = &g,
		.q_heads = Q_HEADS,
	};
	struct kvc_item item = { NULL, self->t, ROWS };
	struct kvc_cache *c;
	struct kvc_batch *b;

	ASSERT_EQ(0, kvc_cache_create(self->k.ctx, &m, NULL, &c));
	ASSERT_EQ(0, kvc_batch_create(c, &b));
	ASSERT_EQ(0, kvc_seq_create(c, NULL, &item.seq));
	ASSERT_EQ(0, kvc_batch_plan(b, &item, 1));
#define APPEND(dq, dk, dv)						\
	kvc_append(b, 0, NULL, q, Q_HEADS * K - (dq), k,		\
		   HEADS * K - (dk), v, HEADS * V - (dv))
#define ATTEND(dq, dp)							\
	kvc_attend(b, 0, 1, q, Q_HEADS * K - (dq), o, Q_HEADS * V - (dp))
#define REFUSED(call, name)						\
	do {								\
		EXPECT_EQ(-EINVAL, call);				\
		EXPECT_NE(NULL, strstr(kvc_errmsg(self->k.ctx), name));	\
	} while (0)
	REFUSED(APPEND(1, 0, 0), "q_stride 127: a row has 128");
	REFUSED(APPEND(0, 1, 0), "k_stride 63: a row has 64");
	REFUSED(APPEND(0, 0, 1), "v_stride 95: a row has 96");
	REFUSED(APPEND(0, HEADS * K, 0), "k_stride 0");
	REFUSED(kvc_batch_commit(b), "layer 0 was not appended");
	EXPECT_EQ(0, kvc_append(b, 0, NULL, NULL, 0, k, HEADS * K, v,
				HEADS * V));
	EXPECT_EQ(0, APPEND(0, 0, 0));
	REFUSED(ATTEND(1, 0), "q_stride 127: a row has 128");
	REFUSED(ATTEND(0, 1), "o_stride 191: a row has 192");
	EXPECT_EQ(0, ATTEND(0, 0));
#undef APPEND
#undef ATTEND
#undef REFUSED
	EXPECT_EQ(0, kvc_batch_commit(b));
	kvc_seq_free(item.seq, KVC_SEQ_DISCARD);
	kvc_batch_destroy(b);
	kvc_cache_destroy(c);
}

TEST_F(batch, abort_is_as_if_it_had_not_been)
{
	struct kvc_seq *a = kit_seq(&self->k, NULL), *f;
	struct kvc_item items[2];

	ASSERT_EQ(0, kit_add(&self->k, a, self->t, 6));
	ASSERT_EQ(0, kvc_seq_fork(a, &f));
	items[0] = (struct kvc_item) { a, self->t + 20, 7 };
	items[1] = (struct kvc_item) { f, self->t + 30, 1 };
	ASSERT_EQ(0, kvc_batch_plan(self->k.b, items, 2));
	kit_append(&self->k, items, 2, NULL);
	kvc_batch_abort(self->k.b);
	EXPECT_EQ(6, kvc_seq_len(a));
	EXPECT_EQ(6, kvc_seq_len(f));
	kit_check(&self->k, a);
	kit_check(&self->k, f);
	/* What was reserved is still there: page 0, two tails, two more. */
	EXPECT_EQ(4, kvc_seq_pages(a));
	EXPECT_EQ(2, kvc_seq_pages(f));
	EXPECT_EQ(5, kit_used(&self->k));
	ASSERT_EQ(0, kit_step(&self->k, items, 2, NULL));
	EXPECT_EQ(5, kit_used(&self->k));
	kit_check(&self->k, a);
	kit_check(&self->k, f);
	kvc_seq_free(a, 0);
	kvc_seq_free(f, 0);
}

/*
 * Five sequences, two of them forks in mid-page, in pools of every size: a
 * step that does not fit leaves everything as it was, one that does takes
 * exactly what was predicted.
 */
TEST_F(batch, all_or_nothing_in_every_pool)
{
	kit_close(&self->k);
	for (uint32_t pages = 8; pages <= 24; pages++) {
		struct kvc_item items[5];
		struct kvc_seq *s[5];
		uint32_t lens[5], held[5];
		uint64_t used;
		struct kit k;
		int rc;

		kit_open(&k, &(struct kit_spec) { .pages = pages });
		for (int i = 0; i < 4; i++) {
			s[i] = kit_seq(&k, NULL);
			ASSERT_EQ(0, kit_add(&k, s[i], self->t + i, 1 + 2 * i));
		}
		ASSERT_EQ(0, kvc_seq_fork(s[3], &s[4]));
		used = kit_used(&k);
		EXPECT_EQ(1 + 1 + 2 + 2, used);
		for (int i = 0; i < 5; i++) {
			items[i] = (struct kvc_item) {
				s[i], self->t + 10 * i, 3 + i
			};
			lens[i] = kvc_seq_len(s[i]);
			held[i] = kvc_seq_pages(s[i]);
		}
		/* To 4, 7, 10, 13 and 14: 0, 1, 1, 2 + 1 copied, 2. */
		rc = kit_step(&k, items, 5, NULL);
		EXPECT_EQ(pages < 6 + 7 ? -ENOSPC : 0, rc);
		EXPECT_EQ(rc ? 6 : 13, kit_used(&k));
		if (rc) {
			EXPECT_NE(NULL, strstr(kvc_errmsg(k.ctx), "missing"));
			EXPECT_NE(NULL, strstr(kvc_errmsg(k.ctx), "7 wanted"));
		}
		for (int i = 0; i < 5; i++) {
			kit_check(&k, s[i]);
			if (!rc)
				continue;
			EXPECT_EQ(lens[i], kvc_seq_len(s[i]));
			EXPECT_EQ(held[i], kvc_seq_pages(s[i]));
		}
		for (int i = 0; i < 5; i++)
			kvc_seq_free(s[i], 0);
		EXPECT_EQ(0, kit_used(&k));
		kit_close(&k);
	}
}

TEST_F(batch, message_says_what_is_missing)
{
	struct kit k;
	struct kvc_seq *s;

	kit_close(&self->k);
	kit_open(&k, &(struct kit_spec) { .pages = 60, .max = 43 });
	s = kit_seq(&k, NULL);
	ASSERT_EQ(0, kvc_seq_reserve(s, 40 * 4, 0));
	EXPECT_EQ(-EDQUOT, kvc_seq_reserve(s, 55 * 4, 0));
	EXPECT_NE(NULL, strstr(kvc_errmsg(k.ctx),
			       "12 pages missing: 15 wanted, 40 held, limit 43"));
	EXPECT_EQ(-E2BIG, kvc_seq_reserve(s, (40 + 44) * 4, 0));
	EXPECT_NE(NULL, strstr(kvc_errmsg(k.ctx), "can never fit"));
	kvc_seq_free(s, 0);
	kit_close(&k);
}

/* Attention in double over the rows that the sequence says it holds. */
static void attend_ref(const struct kit *k, const struct kvc_seq *s,
		       uint32_t layer, uint32_t sees, const float *q, float *o)
{
	const struct kvc_group *g = kit_group(k, layer);
	uint32_t per = k->m.q_heads / g->kv_heads, i, d, h;
	float kk[64][KIT_DIM], vv[64][KIT_DIM];
	double p[64], sum, max, x;

	for (h = 0; h < k->m.q_heads; h++) {
		uint64_t history = kit_seed(NULL);

		for (i = 0; i < sees; i++) {
			history = kit_mix(history, kvc_seq_tokens(s)[i]);
			for (d = 0; d < KIT_DIM; d++) {
				kk[i][d] = kit_elem(history, layer, 0, h / per, d);
				vv[i][d] = kit_elem(history, layer, 1, h / per, d);
			}
		}
		max = -INFINITY;
		for (i = 0; i < sees; i++) {
			p[i] = 0;
			for (d = 0; d < KIT_DIM; d++)
				p[i] += (double)q[h * KIT_DIM + d] * kk[i][d];
			p[i] *= 0.02;
			max = fmax(max, p[i]);
		}
		for (i = 0, sum = 0; i < sees; i++)
			sum += p[i] = exp(p[i] - max);
		for (d = 0; d < KIT_DIM; d++) {
			for (i = 0, x = 0; i < sees; i++)
				x += p[i] * vv[i][d];
			o[h * KIT_DIM + d] = x / sum;
		}
	}
}

/*
 * Decode and prefill rows mixed in every way that four items can be: right,
 * and the same bits as each item alone.
 */
TEST_F(batch, rows_do_not_depend_on_their_neighbours)
{
	uint32_t q_row = self->k.m.q_heads * KIT_DIM;
	float *q = calloc(64, q_row * sizeof(*q));
	float *mixed = calloc(64, q_row * sizeof(*q));
	float *alone = calloc(64, q_row * sizeof(*q));
	float *ref = calloc(1, q_row * sizeof(*q));

	for (uint32_t i = 0; i < 64 * q_row; i++)
		q[i] = (int)(kit_mix(5, i) >> 56) / 32.0f - 4;
	for (uint32_t mask = 0; mask < 16; mask++) {
		struct kvc_item items[4];
		struct kvc_seq *s[4];
		uint32_t row;

		for (uint32_t i = 0; i < 4; i++) {
			s[i] = kit_seq(&self->k, NULL);
			ASSERT_EQ(0, kit_add(&self->k, s[i], self->t + i, 3 * i + 1));
			items[i] = (struct kvc_item) {
				s[i], self->t + 20, mask >> i & 1 ? 1 : 2 + i
			};
		}
		ASSERT_EQ(0, kvc_batch_plan(self->k.b, items, 4));
		kit_append(&self->k, items, 4, NULL);
		for (uint32_t layer = 0; layer < KIT_LAYERS; layer++)
			ASSERT_EQ(0, kvc_attend(self->k.b, layer, 0.02, q, q_row,
						mixed, q_row));
		kvc_batch_abort(self->k.b);
		row = 0;
		for (uint32_t i = 0; i < 4; i++) {
			ASSERT_EQ(0, kvc_batch_plan(self->k.b, &items[i], 1));
			kit_append(&self->k, &items[i], 1, NULL);
			ASSERT_EQ(0, kvc_attend(self->k.b, KIT_LAYERS - 1, 0.02,
						q + row * q_row, q_row,
						alone + row * q_row, q_row));
			ASSERT_EQ(0, kvc_batch_commit(self->k.b));
			for (uint32_t j = 0; j < items[i].n; j++, row++) {
				attend_ref(&self->k, s[i], KIT_LAYERS - 1,
					   3 * i + 2 + j, q + row * q_row, ref);
				for (uint32_t d = 0; d < q_row; d++)
					ASSERT_LT(fabsf(ref[d] -
						  mixed[row * q_row + d]), 1e-4);
			}
		}
		ASSERT_EQ(0, memcmp(mixed, alone, row * q_row * sizeof(*q)));
		for (uint32_t i = 0; i < 4; i++)
			kvc_seq_free(s[i], KVC_SEQ_DISCARD);
	}
	free(q);
	free(mixed);
	free(alone);
	free(ref);
}

/* A page table in any order: pages that others gave back in between. */
TEST_F(batch, fragmented)
{
	struct kvc_seq *s[4], *x[6];
	uint64_t h[8];
	int back = 0;

	for (int i = 0; i < 4; i++)
		s[i] = kit_seq(&self->k, NULL);
	for (int i = 0; i < 6; i++) {
		x[i] = kit_seq(&self->k, NULL);
		ASSERT_EQ(0, kvc_seq_reserve(x[i], 4, 0));
	}
	for (uint32_t i = 0; i < 20; i++) {
		for (int j = 0; j < 4; j++)
			ASSERT_EQ(0, kit_add(&self->k, s[j], self->t + i + j, 1));
		if (i % 4 == 1)
			kvc_seq_free(x[i / 4], 0);
	}
	kvc_seq_free(x[5], 0);
	for (int j = 0; j < 4; j++) {
		kit_check(&self->k, s[j]);
		ASSERT_EQ(5, kvc_seq_handles(s[j], 0, h, 8));
		for (int i = 1; i < 5; i++)
			back += kvc_page_number(h[i]) < kvc_page_number(h[i - 1]);
	}
	EXPECT_GT(back, 0);
	for (int j = 0; j < 4; j++)
		kvc_seq_free(s[j], 0);
}

/* A long history costs a step next to nothing. */
TEST_F(batch, plan_of_one_token)
{
	struct timespec a, b;
	struct kvc_seq *s;
	uint32_t *t = calloc(450, sizeof(*t));
	struct kit k;
	double us;

	kit_close(&self->k);
	kit_open(&k, &(struct kit_spec) { .pages = 120 });
	kit_count(t, 450, 1);
	s = kit_seq(&k, NULL);
	ASSERT_EQ(0, kit_add(&k, s, t, 400));
	struct kvc_item item = { s, t + 400, 1 };

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < 10000; i++) {
		ASSERT_EQ(0, kvc_batch_plan(k.b, &item, 1));
		kvc_batch_abort(k.b);
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	us = ((b.tv_sec - a.tv_sec) * 1e9 + b.tv_nsec - a.tv_nsec) / 1e7;
	printf("# figure plan of one token after 100 pages: %.3f us\n", us);
	EXPECT_LT(us, 50);
	kvc_seq_free(s, 0);
	free(t);
	kit_close(&k);
}

TEST_HARNESS_MAIN
