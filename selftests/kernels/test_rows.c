// SPDX-License-Identifier: MIT
/*
 * test_rows.c - pages copied, rows moved in and out, and stored keys rotated
 * to other positions, through the table of each variant.
 */
#include "kit.h"

static struct kit_shape shape_of(unsigned int i)
{
	static const uint32_t page_tokens[] = { 1, 5, 8, 16, 40 };

	return (struct kit_shape) {
		.k_type = i % KVA_NR_TYPES,
		.v_type = (i + i / 3) % KVA_NR_TYPES, .order = i % 2,
		.k_dim = 64 + 16 * (i % 4), .v_dim = 64 + 16 * (i % 3),
		.kv_heads = 1 + i % 3, .group = 1,
		.page_tokens = page_tokens[i % 5], .nseq = 2,
		.len = { 70, 33 }, .rows = { 1, 1 },
	};
}

static size_t row_size(const struct kit_shape *s, int is_v)
{
	return is_v ? kva_row_size(s->v_type, s->v_dim) :
		      kva_row_size(s->k_type, s->k_dim);
}

/* Both layers of a page, and pages that lie anywhere. */
static void copy_and_rows(const char *name)
{
	const struct kva_ops *ops = kit_variant(name);
	struct kva_threads *t;
	unsigned int i;

	ASSERT_EQ(0, kva_threads_create(2, &t));
	for (i = 0; i < 30; i++) {
		struct kit_shape s = shape_of(i);
		uint32_t P = s.page_tokens, slots = 1 + i % P;
		struct kva_copy_page pages[3];
		struct kva_copy c = { .layers = 2, .n = 3, .pages = pages };
		struct kva_rows r = { .layers = 2 };
		struct kva_view v;
		char *want, *data;
		struct kit k;

		kit_init(&k, &s);
		for (size_t b = 0; b < k.arena_size; b++)
			k.arena[b] = kit_random();
		v = k.view;
		v.v_off -= v.k_off;
		v.k_off = 0;
		c.kv = r.kv = &v;
		c.layer_stride = r.layer_stride = v.page_stride / 2;
		for (int p = 0; p < 3; p++)
			pages[p] = (struct kva_copy_page) {
				.dst = k.indices[p], .slots = slots,
				.src = k.indices[3 + p % 2],
			};
		want = kit_alloc(k.arena_size);
		memcpy(want, k.arena, k.arena_size);
		for (int p = 0; p < 3; p++)
			for (int layer = 0; layer < 2; layer++) {
				struct kva_view l = v;

				l.k_off += layer * c.layer_stride;
				l.v_off += layer * c.layer_stride;
				kva_rows_copy(&l, want + pages[p].dst *
						  v.page_stride,
					      want + pages[p].src *
						  v.page_stride, slots);
			}
		ASSERT_EQ(0, ops->copy(&c, t));
		ASSERT_EQ(0, memcmp(want, k.arena, k.arena_size));

		/* the same through rows: out of one page, into another */
		data = kit_alloc(2 * 3 * 40 * 2048);
		for (int p = 0; p < 3; p++) {
			for (r.is_v = 0; r.is_v <= 1; r.is_v++) {
				r.data_row = row_size(&s, r.is_v) + 8;
				r.data_head = r.data_row * P;
				r.data_layer = r.data_head * s.kv_heads;
				r.data = data;
				r.n = slots;
				r.page = pages[p].src;
				r.write = 0;
				ASSERT_EQ(0, ops->rows(&r, t));
				r.page = pages[p].dst;
				r.write = 1;
				ASSERT_EQ(0, ops->rows(&r, t));
			}
		}
		ASSERT_EQ(0, memcmp(want, k.arena, k.arena_size));
		/* and what is wrong is refused */
		pages[1].slots = P + 1;
		ASSERT_EQ(-EINVAL, ops->copy(&c, t));
		pages[1].slots = 1;
		pages[1].dst = pages[1].src;
		ASSERT_EQ(-EINVAL, ops->copy(&c, t));
		c.layers = 3;
		ASSERT_EQ(-EINVAL, ops->copy(&c, t));
		r.slot = P;
		ASSERT_EQ(-EINVAL, ops->rows(&r, t));
		r.slot = 0;
		r.data = NULL;
		ASSERT_EQ(-EINVAL, ops->rows(&r, t));
		ASSERT_EQ(0, memcmp(want, k.arena, k.arena_size));
		free(data);
		free(want);
		kit_free(&k);
	}
	kva_threads_destroy(t);
}

TEST(copy_ref) { copy_and_rows("ref"); }
TEST(copy_scalar) { copy_and_rows("scalar"); }
TEST(copy_avx2) { copy_and_rows("avx2"); }
TEST(copy_avx512) { copy_and_rows("avx512"); }

/*
 * Largest step between neighbours of a type, for a row of size @amax. Rows that
 * int4h rotates are about three times as large as their root mean square.
 */
static double step(unsigned int type, double amax)
{
	switch (type) {
	case KVA_F16:
		return amax * 0x1p-10;
	case KVA_BF16:
		return amax * 0x1p-7;
	case KVA_INT8:
		return amax / 127;
	case KVA_E4M3:
		return amax * 32 / 448;
	case KVA_E4M3T:
		return amax / 8;
	case KVA_INT4:
		return amax * 2 / 15;
	case KVA_INT4H:
		return amax * 3.5 / 15;
	default:
		return amax * 0x1p-23;
	}
}

static void turn_one(double *x, double *y, double angle)
{
	double c = cos(angle), s = sin(angle), in = *x;

	*x = in * c - *y * s;
	*y = in * s + *y * c;
}

#define SHIFTS 8

/*
 * Rows shifted by as many as 8 deltas equal the first stored row rotated by
 * their sum: each shift adds half a step to each element of a pair, and keeps
 * what errors a pair has. Nothing else of the pages changes.
 */
static void shift(const char *name)
{
	const struct kva_ops *ops = kit_variant(name);
	struct kva_threads *t;
	unsigned int i;

	ASSERT_EQ(0, kva_threads_create(2, &t));
	for (i = 0; i < 40; i++) {
		struct kit_shape s = shape_of(i);
		uint32_t D = s.k_dim, rot = i % 3 ? D : D / 2, half = rot / 2;
		uint32_t from[2] = { i % 20, 7 }, to[2] = { 70 - i % 9, 33 };
		char stored[KVA_DIM_MAX * 4];
		float row[KVA_DIM_MAX], was[70][KVA_DIM_MAX];
		double turn[KVA_DIM_MAX], worst = 0;
		struct kva_shift sh = {
			.from = from, .to = to, .rot_dim = rot, .turn = turn,
			.rope = i % 2 ? KVA_ROPE_PAIR : KVA_ROPE_HALF,
		};
		int64_t delta, sum = 0;
		char *before;
		struct kit k;

		kit_init(&k, &s);
		sh.kv = &k.view;
		before = kit_alloc(k.arena_size);
		memcpy(before, k.arena, k.arena_size);
		for (uint32_t pos = 0; pos < 70; pos++) {
			kva_rows_read(&k.view, kit_page(&k, 0, pos), 0, 0,
				      pos % s.page_tokens, 1, stored);
			kva_row_decode(s.k_type, KIT_K_SCALE, stored, was[pos],
				       D);
		}
		for (int n = 0; n < SHIFTS; n++) {
			delta = (int32_t)kit_random() % 3000;
			sum += delta;
			kva_rope_turn(turn, delta, rot, 10000, 1, NULL);
			ASSERT_EQ(0, ops->shift(&sh, t));
		}
		for (uint32_t pos = 0; pos < 70; pos++) {
			int moved = pos >= from[0] && pos < to[0];
			double amax = 0;

			kva_rows_read(&k.view, kit_page(&k, 0, pos), 0, 0,
				      pos % s.page_tokens, 1, stored);
			kva_row_decode(s.k_type, KIT_K_SCALE, stored, row, D);
			for (uint32_t d = 0; d < D; d++)
				amax = fmax(amax, fabs(was[pos][d]));
			for (uint32_t d = 0; moved && d < half; d++) {
				uint32_t x = i % 2 ? 2 * d : d;
				uint32_t y = i % 2 ? x + 1 : d + half;
				double a = was[pos][x], b = was[pos][y];

				turn_one(&a, &b, sum * pow(10000, -2.0 * d / rot));
				worst = fmax(worst, fabs(row[x] - a) /
						    step(s.k_type, 1.42 * amax));
				worst = fmax(worst, fabs(row[y] - b) /
						    step(s.k_type, 1.42 * amax));
			}
			for (uint32_t d = moved ? rot : 0; d < D; d++)
				ASSERT_TRUE(fabs(row[d] - was[pos][d]) <=
					    moved * SHIFTS *
					    step(s.k_type, 1.42 * amax));
		}
		EXPECT_TRUE(worst > 0);
		EXPECT_TRUE(worst <= SHIFTS * 0.5 * 1.42);
		if (ht_failed)
			ht_log("%s: %g steps", kva_type_name(s.k_type), worst);
		/* K of what was not to move, V, and everything else */
		for (uint32_t q = 0; q < 2; q++)
			for (uint32_t pos = from[q]; pos < to[q]; pos++)
				for (uint32_t h = 0; h < s.kv_heads; h++) {
					size_t at = kit_page(&k, q, pos) -
						    k.arena;

					kva_rows_read(&k.view, before + at, 0,
						      h, pos % s.page_tokens,
						      1, stored);
					kva_rows_write(&k.view, k.arena + at, 0,
						       h, pos % s.page_tokens,
						       1, stored);
				}
		ASSERT_EQ(0, memcmp(before, k.arena, k.arena_size));
		/* refused, and nothing done */
		to[1] = 34;
		ASSERT_EQ(-EINVAL, ops->shift(&sh, t));
		to[1] = 6;
		ASSERT_EQ(-EINVAL, ops->shift(&sh, t));
		to[1] = 33;
		sh.rot_dim = D + 2;
		ASSERT_EQ(-EINVAL, ops->shift(&sh, t));
		sh.rot_dim = rot;
		sh.rope = KVA_ROPE_NONE;
		ASSERT_EQ(-EINVAL, ops->shift(&sh, t));
		ASSERT_EQ(0, memcmp(before, k.arena, k.arena_size));
		free(before);
		kit_free(&k);
	}
	kva_threads_destroy(t);
}

TEST(shift_ref) { shift("ref"); }
TEST(shift_scalar) { shift("scalar"); }
TEST(shift_avx2) { shift("avx2"); }
TEST(shift_avx512) { shift("avx512"); }

TEST_HARNESS_MAIN
