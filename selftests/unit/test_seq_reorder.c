// SPDX-License-Identifier: MIT
/*
 * test_seq_reorder.c - beams: forks of one prompt that take each other's
 * histories, against lists of tokens that are copied.
 */
#include "kit.h"

#define BEAMS 8

static uint64_t copied(struct kit *k)
{
	struct kvc_stats st;

	kvc_cache_stats(k->c, &st);
	return st.pages_copied;
}

/* A prompt that ends within a page: forks copy that page, and no other. */
TEST(fan_out_copies_tails_only)
{
	struct kvc_item items[BEAMS];
	struct kvc_seq *s[BEAMS];
	uint32_t t[64], i;
	struct kit k;

	kit_open(&k, &(struct kit_spec) { .pages = 32 });
	kit_count(t, 64, 1000);
	s[0] = kit_seq(&k, NULL);
	ASSERT_EQ(0, kit_add(&k, s[0], t, 30));
	for (i = 1; i < BEAMS; i++)
		ASSERT_EQ(0, kvc_seq_fork(s[0], &s[i]));
	EXPECT_EQ(8, kit_used(&k));
	for (i = 0; i < BEAMS; i++)
		items[i] = (struct kvc_item) { s[i], t + 40 + i, 1 };
	ASSERT_EQ(0, kit_step(&k, items, BEAMS, NULL));
	/* The last to write is alone with it by then. */
	EXPECT_EQ(BEAMS - 1, copied(&k));
	EXPECT_EQ(7 + BEAMS, kit_used(&k));
	ASSERT_EQ(0, kit_step(&k, items, BEAMS, NULL));
	EXPECT_EQ(BEAMS - 1, copied(&k));
	for (i = 0; i < BEAMS; i++) {
		kit_check(&k, s[i]);
		kvc_seq_free(s[i], 0);
	}
	kit_end(&k);
}

/* Random orders after each step, of one group and of two. */
static void random_orders(uint32_t ngroups, uint32_t window)
{
	uint32_t text[BEAMS][96], was[BEAMS][96], from[BEAMS], len = 9, step, i;
	uint64_t seed = 20240229, had, allocs;
	struct kvc_item items[BEAMS];
	struct kvc_seq *s[BEAMS];
	struct kit k;

	printf("# seed %llu\n", (unsigned long long)seed);
	kit_open(&k, &(struct kit_spec) { .pages = 300, .ngroups = ngroups,
					  .window = window });
	kit_count(text[0], 96, 1000);
	s[0] = kit_seq(&k, NULL);
	ASSERT_EQ(0, kit_add(&k, s[0], text[0], len));
	for (i = 1; i < BEAMS; i++) {
		ASSERT_EQ(0, kvc_seq_fork(s[0], &s[i]));
		memcpy(text[i], text[0], sizeof(text[0]));
	}
	for (step = 0; step < 40; step++) {
		for (i = 0; i < BEAMS; i++) {
			text[i][len] = 2000 + BEAMS * step + i;
			items[i] = (struct kvc_item) { s[i], &text[i][len], 1 };
		}
		ASSERT_EQ(0, kit_step(&k, items, BEAMS, NULL));
		len++;
		had = copied(&k);
		allocs = kit_pool(&k).allocs;
		memcpy(was, text, sizeof(was));
		for (i = 0; i < BEAMS; i++) {
			seed = kit_mix(seed, step);
			from[i] = seed % BEAMS;
			memcpy(text[i], was[from[i]], sizeof(text[i]));
		}
		ASSERT_EQ(0, kvc_seq_reorder(s, from, BEAMS));
		/* By references alone. */
		ASSERT_EQ(had, copied(&k));
		ASSERT_EQ(allocs, kit_pool(&k).allocs);
		for (i = 0; i < BEAMS; i++) {
			ASSERT_EQ(len, kvc_seq_len(s[i]));
			ASSERT_EQ(0, memcmp(text[i], kvc_seq_tokens(s[i]),
					    len * sizeof(**text)));
			kit_check(&k, s[i]);
		}
	}
	for (i = 0; i < BEAMS; i++)
		kvc_seq_free(s[i], 0);
	kit_end(&k);
}

TEST(reorder_takes_references)
{
	random_orders(1, 0);
	random_orders(2, 0);
	random_orders(2, 12);
}

TEST(reorder_refuses)
{
	struct kvc_seq *s[2], *twice[2], *strange[2];
	struct kvc_item item;
	uint32_t t[8], from[] = { 1, 0 }, far[] = { 1, 2 };
	struct kit k, twin;

	kit_open(&k, &(struct kit_spec) { .pages = 8 });
	kit_twin(&k, &twin);
	kit_count(t, 8, 1000);
	for (int i = 0; i < 2; i++) {
		s[i] = kit_seq(&k, NULL);
		ASSERT_EQ(0, kit_add(&k, s[i], t + i, 5));
	}
	twice[0] = twice[1] = s[0];
	EXPECT_EQ(-EINVAL, kvc_seq_reorder(twice, from, 2));
	EXPECT_EQ(-EINVAL, kvc_seq_reorder(s, far, 2));
	strange[0] = s[0];
	strange[1] = kit_seq(&twin, NULL);
	EXPECT_EQ(-EINVAL, kvc_seq_reorder(strange, from, 2));
	kvc_seq_free(strange[1], 0);
	item = (struct kvc_item) { s[1], t, 1 };
	ASSERT_EQ(0, kvc_batch_plan(k.b, &item, 1));
	EXPECT_EQ(-EBUSY, kvc_seq_reorder(s, from, 2));
	kvc_batch_abort(k.b);
	ASSERT_EQ(0, kvc_seq_idle(s[1]));
	EXPECT_EQ(-EBUSY, kvc_seq_reorder(s, from, 2));
	ASSERT_EQ(5, kvc_seq_wake(s[1]));
	EXPECT_EQ(1000, kvc_seq_tokens(s[0])[0]);
	EXPECT_EQ(0, kvc_seq_reorder(s, from, 0));
	ASSERT_EQ(0, kvc_seq_reorder(s, from, 2));
	EXPECT_EQ(1001, kvc_seq_tokens(s[0])[0]);
	EXPECT_EQ(1000, kvc_seq_tokens(s[1])[0]);
	for (int i = 0; i < 2; i++) {
		kit_check(&k, s[i]);
		kvc_seq_free(s[i], 0);
	}
	kit_twin_close(&twin);
	kit_end(&k);
}

TEST_HARNESS_MAIN
