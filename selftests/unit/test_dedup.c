// SPDX-License-Identifier: MIT
/*
 * test_dedup.c - two caches of one model in one pool: equal pages are one
 * page, and what one cache published the other finds and remembers.
 */
#include <math.h>

#include "kit.h"

FIXTURE(two) {
	struct kit k, twin;
	uint32_t t[128];
};

FIXTURE_SETUP(two)
{
	kit_open(&self->k, &(struct kit_spec) { .page_tokens = 32 });
	kit_twin(&self->k, &self->twin);
	kit_count(self->t, 128, 1000);
	ASSERT_EQ(16, kvc_cache_block_tokens(self->k.c, 0));
}

FIXTURE_TEARDOWN(two)
{
	EXPECT_EQ(0, kit_used(&self->k));
	kit_twin_close(&self->twin);
	kit_close(&self->k);
}

static struct kvc_seq *said(struct kit *k, const uint32_t *t, uint32_t n)
{
	struct kvc_seq *s = kit_seq(k, NULL);

	ASSERT_EQ(0, kit_add(k, s, t, n));
	return s;
}

/* The page that is got instead is the other's, so it is not written to. */
TEST_F(two, exchanged_page_is_not_written_to)
{
	struct kvc_seq *a = said(&self->k, self->t, 64);
	struct kvc_seq *b = said(&self->twin, self->t, 64);
	uint64_t ha[2], hb[2];
	struct kvc_stats st;

	ASSERT_EQ(2, kvc_seq_handles(a, 0, ha, 2));
	ASSERT_EQ(2, kvc_seq_handles(b, 0, hb, 2));
	EXPECT_EQ(0, memcmp(ha, hb, sizeof(ha)));
	EXPECT_EQ(2, kit_used(&self->k));
	kvc_cache_stats(self->twin.c, &st);
	EXPECT_EQ(2, st.pages_deduplicated);
	EXPECT_EQ(0, st.pages_published);

	ASSERT_EQ(0, kvc_seq_truncate(b, 50));
	ASSERT_EQ(0, kit_add(&self->twin, b, self->t + 100, 4));
	ASSERT_EQ(2, kvc_seq_handles(b, 0, hb, 2));
	EXPECT_EQ(ha[0], hb[0]);
	EXPECT_NE(ha[1], hb[1]);
	kit_check(&self->k, a);
	kit_check(&self->twin, b);
	kvc_seq_free(a, 0);
	kit_check(&self->twin, b);
	kvc_seq_free(b, 0);
}

/* All sequences of a cache hold an exchanged page by one object. */
TEST_F(two, exchanged_page_is_known_by_its_new_handle)
{
	struct kvc_seq *a = said(&self->k, self->t, 32);
	struct kvc_seq *b = said(&self->twin, self->t, 32);
	struct kvc_seq *b2 = kit_seq(&self->twin, NULL), *b3;
	struct kvc_page *p;
	uint64_t h;

	ASSERT_EQ(1, kvc_seq_handles(b, 0, &h, 1));
	p = kvc_page_find(self->twin.c, h);
	ASSERT_NE(NULL, p);
	EXPECT_EQ(1, p->refs);
	ASSERT_EQ(32, kvc_seq_prefix(b2, self->t, 33));
	EXPECT_EQ(2, p->refs);
	/* Said once more and exchanged for what the cache has itself. */
	b3 = said(&self->twin, self->t, 32);
	EXPECT_EQ(3, p->refs);
	EXPECT_EQ(1, kit_used(&self->k));
	kvc_seq_free(b, 0);
	kvc_seq_free(b2, 0);
	EXPECT_EQ(1, p->refs);
	kit_check(&self->twin, b3);
	kvc_seq_free(a, 0);
	EXPECT_EQ(1, kit_used(&self->k));
	kit_check(&self->twin, b3);
	kvc_seq_free(b3, 0);
}

/* What this cache knows is given up for what the backend has more of. */
TEST_F(two, a_longer_page_of_the_other)
{
	struct kvc_seq *s;

	kvc_seq_free(said(&self->k, self->t, 20), 0);
	kvc_seq_free(said(&self->twin, self->t, 30), 0);
	EXPECT_EQ(2, kit_pool(&self->k).nr_cached);
	s = kit_seq(&self->k, NULL);
	ASSERT_EQ(30, kvc_seq_prefix(s, self->t, 31));
	kit_check(&self->k, s);
	EXPECT_EQ(1, kit_used(&self->k));
	kvc_seq_free(s, 0);
	EXPECT_EQ(2, kit_pool(&self->k).nr_cached);
}

/* Unknown pages are found by block; once found they are known to the token. */
TEST_F(two, found_pages_are_remembered)
{
	uint32_t t[65];
	struct kvc_seq *s;

	kvc_seq_free(said(&self->k, self->t, 64), 0);
	memcpy(t, self->t, sizeof(t));
	t[53] = 7;
	s = kit_seq(&self->twin, NULL);
	EXPECT_EQ(48, kvc_seq_prefix(s, t, 65));
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	s = kit_seq(&self->twin, NULL);
	EXPECT_EQ(64, kvc_seq_prefix(s, self->t, 65));
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	s = kit_seq(&self->twin, NULL);
	EXPECT_EQ(53, kvc_seq_prefix(s, t, 65));
	kit_check(&self->twin, s);
	kvc_seq_free(s, KVC_SEQ_DISCARD);
}

/* Rows of a sequence that is not to be found again serve nobody. */
TEST_F(two, live_rows_of_a_private_conversation)
{
	struct kvc_seq_opts o = { .sz = sizeof(o), .no_reuse = 1 };
	struct kvc_seq *s, *q = kit_seq(&self->k, NULL);

	ASSERT_EQ(0, kvc_seq_create(self->k.c, &o, &s));
	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 20));
	EXPECT_EQ(0, kvc_seq_prefix(q, self->t, 20));
	ASSERT_EQ(0, kit_add(&self->k, s, self->t + 20, 20));
	EXPECT_EQ(0, kvc_seq_prefix(q, self->t, 40));
	kvc_seq_free(s, 0);
	kvc_seq_free(q, 0);
	EXPECT_EQ(0, kit_pool(&self->k).nr_cached);
}

/* Rows of one size whose bits mean something else, in one pool. */
TEST(caches_of_other_types_do_not_find_each_other)
{
	static const uint32_t types[][2] = {
		{ KVC_F16, KVC_F16 }, { KVC_BF16, KVC_F16 },
		{ KVC_F16, KVC_BF16 }, { KVC_BF16, KVC_BF16 },
		{ KVC_INT8, KVC_INT8 }, { KVC_INT8, KVC_E4M3 },
		{ KVC_E4M3, KVC_E4M3 }, { KVC_E4M3T, KVC_E4M3T },
		{ KVC_INT4, KVC_INT4 }, { KVC_INT4, KVC_INT4H },
		{ KVC_INT4H, KVC_INT4H },
	};
	enum { n = sizeof(types) / sizeof(types[0]) };
	struct kit k, other[n];
	struct kvc_seq *s;
	uint32_t t[65];

	kit_count(t, 65, 1000);
	kit_open(&k, &(struct kit_spec) { .page_tokens = 32, .type = KVC_F16 });
	for (int i = 0; i < n; i++) {
		k.g[0].k_type = types[i][0];
		k.g[0].v_type = types[i][1];
		kit_twin(&k, &other[i]);
		s = kit_seq(&other[i], NULL);
		EXPECT_EQ(0, kit_prompt(&other[i], s, t, 65));
		kit_check(&other[i], s);
		kvc_seq_free(s, 0);
	}
	/* Each finds its own, also if the kit speaks of another by now. */
	for (int i = 0; i < n; i++) {
		k.g[0].k_type = types[i][0];
		k.g[0].v_type = types[i][1];
		other[i].g[0] = k.g[0];
		s = kit_seq(&other[i], NULL);
		EXPECT_EQ(64, kit_prompt(&other[i], s, t, 65));
		kit_check(&other[i], s);
		kvc_seq_free(s, 0);
		kit_twin_close(&other[i]);
	}
	kit_close(&k);
}

/* One scale of one layer is another: codes mean something else. */
TEST(caches_of_other_scales_do_not_find_each_other)
{
	float scales[KIT_LAYERS];
	struct kit k, other;
	struct kvc_seq *s;
	uint32_t t[65];

	kit_count(t, 65, 1000);
	kit_open(&k, &(struct kit_spec) {
		.page_tokens = 32, .type = KVC_INT8, .v_type = KVC_E4M3T,
	});
	s = kit_seq(&k, NULL);
	EXPECT_EQ(0, kit_prompt(&k, s, t, 65));
	kvc_seq_free(s, 0);
	memcpy(scales, kit_v_scales, sizeof(scales));
	scales[2] *= 2;
	k.m.v_scales = scales;
	kit_twin(&k, &other);
	s = kit_seq(&other, NULL);
	EXPECT_EQ(0, kit_prompt(&other, s, t, 65));
	kvc_seq_free(s, 0);
	kit_twin_close(&other);
	/* Those of K are not of any use here: no matter what they are. */
	k.m.v_scales = kit_v_scales;
	k.m.k_scales = scales;
	kit_twin(&k, &other);
	s = kit_seq(&other, NULL);
	EXPECT_EQ(64, kit_prompt(&other, s, t, 65));
	kit_check(&other, s);
	kvc_seq_free(s, 0);
	kit_twin_close(&other);
	kit_close(&k);
}

/* It is refused, in words, and nothing is put in its place. */
TEST(a_scale_that_is_missing)
{
	static const float no[] = { 0, -1, INFINITY, NAN, 1e-40f };
	float scales[KIT_LAYERS];
	struct kvc_cache_opts o = { .sz = sizeof(o) };
	struct kvc_cache *c;
	struct kit k;

	kit_open(&k, &(struct kit_spec) {
		.page_tokens = 32, .type = KVC_E4M3T, .v_type = KVC_F16,
	});
	k.m.v_scales = NULL;
	k.m.k_scales = NULL;
	EXPECT_EQ(-EINVAL, kvc_cache_create(k.ctx, &k.m, &o, &c));
	EXPECT_TRUE(strstr(kvc_errmsg(k.ctx),
			   "layer 0: K is e4m3t and has no scale") != NULL);
	k.m.k_scales = scales;
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		memcpy(scales, kit_k_scales, sizeof(scales));
		scales[1] = no[i];
		EXPECT_EQ(-EINVAL, kvc_cache_create(k.ctx, &k.m, &o, &c));
		EXPECT_TRUE(strstr(kvc_errmsg(k.ctx), "layer 1: K ") != NULL);
	}
	memcpy(scales, kit_k_scales, sizeof(scales));
	ASSERT_EQ(0, kvc_cache_create(k.ctx, &k.m, &o, &c));
	kvc_cache_destroy(c);
	kit_close(&k);
}

/* The longest length at which a page of every group ends: by trying all. */
TEST(where_pages_of_all_groups_end)
{
	struct kvc_layout l = { .ngroups = 3 };
	uint32_t a, b, len, want;

	for (a = 1; a <= 12; a++) {
		for (b = 1; b <= 12; b++) {
			l.group[0].page_tokens = a;
			l.group[1].page_tokens = b;
			l.group[2].page_tokens = 4;
			for (len = 0; len < 300; len++) {
				want = len;
				while (want % a || want % b || want % 4)
					want--;
				ASSERT_EQ(want, kvc_match_whole(&l, len));
			}
		}
	}
}

TEST_HARNESS_MAIN
