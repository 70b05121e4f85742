// SPDX-License-Identifier: MIT
/*
 * test_transformers_generate.c - behaviours that Transformers' tests of its
 * generation assert of caches: static ones, beams, prefixes in a running batch.
 */
#include "kit.h"
#include "tools/run_kit.h"

static struct kvc_seq *fixed_seq(struct kit *k, uint32_t n)
{
	const struct kvc_seq_opts o = { .sz = sizeof(o), .fixed = n };
	struct kvc_seq *s = NULL;

	ASSERT_EQ(0, kvc_seq_create(k->c, &o, &s));
	return s;
}

/* c4.2: room for 4: two tokens, a third, a fourth, and no fifth. */
CASE(static_update)
{
	uint32_t t[5] = { 1, 2, 3, 4, 5 };
	struct kvc_seq *s;
	struct kit k;
	char row[64];

	kit_open(&k, SPEC(2, 8));
	s = fixed_seq(&k, 4);
	EXPECT_EQ(2, kit_used(&k));
	ASSERT_EQ(0, kit_add(&k, s, t, 2));
	EXPECT_EQ(2, kvc_seq_len(s));
	EXPECT_EQ(-EINVAL, kvc_seq_read(s, 0, 0, 0, 2, 1, row));
	ASSERT_EQ(0, kit_add(&k, s, t + 2, 1));
	kit_check(&k, s);
	ASSERT_EQ(0, kit_add(&k, s, t + 3, 1));
	EXPECT_EQ(-ERANGE, kit_add(&k, s, t + 4, 1));
	EXPECT_EQ(4, kvc_seq_len(s));
	kit_check(&k, s);
	EXPECT_EQ(2, kit_used(&k));
	kvc_seq_free(s, 0);
	kit_close(&k);
}

/* c4.17: addresses do not change, whatever is written and reset. */
CASE(static_address)
{
	uint64_t before[4], after[4], allocs;
	struct kvc_seq *s;
	uint32_t t[16];
	struct kit k;

	kit_open(&k, SPEC(4, 8));
	kit_count(t, 16, 1);
	s = fixed_seq(&k, 16);
	ASSERT_EQ(4, kvc_seq_handles(s, 0, before, 4));
	allocs = kit_pool(&k).allocs;
	for (uint32_t n = 1; n <= 16; n++) {
		ASSERT_EQ(0, kit_add(&k, s, t, n));
		kit_check(&k, s);
		/* Reset: it begins anew, in place. */
		ASSERT_EQ(0, kvc_seq_truncate(s, 0));
		ASSERT_EQ(4, kvc_seq_handles(s, 0, after, 4));
		ASSERT_EQ(0, memcmp(before, after, sizeof(before)));
	}
	EXPECT_EQ(allocs, kit_pool(&k).allocs);
	kvc_seq_free(s, 0);
	kit_close(&k);
}

/* c4.17 */
CASE(static_under_a_compiler)
{
	SKIP(return, "a graph compiler: there is no torch here, whose compiled code would read a cache");
}

#define BEAMS 4
#define STEPS 20

/* How a text goes on, best first: any function of all of its tokens does. */
static double score(const uint32_t *t, uint32_t n, uint32_t next)
{
	uint64_t h = 3;

	for (uint32_t i = 0; i < n; i++)
		h = kit_mix(h, t[i]);
	return -(double)(kit_mix(h, next) >> 40) / (1 << 24) - 0.01;
}

/*
 * c4.8: a search whose beams are copied arrays says what the texts are; sequences
 * that are reordered have them, and their rows, in every layer.
 */
CASE(beam_search)
{
	uint32_t text[BEAMS][64], was[BEAMS][64], from[BEAMS], len = 6;
	double sum[BEAMS] = { 0, -1e9, -1e9, -1e9 }, old[BEAMS];
	struct kvc_item items[BEAMS];
	struct kvc_seq *s[BEAMS];
	struct kvc_stats st;
	uint32_t i, b, c, moved = 0;
	struct kit k;

	kit_open(&k, SPEC(4, 64));
	kit_count(text[0], 64, 0);
	s[0] = kit_begin(&k, text[0], len, NULL);
	for (i = 1; i < BEAMS; i++) {
		ASSERT_EQ(0, kvc_seq_fork(s[0], &s[i]));
		memcpy(text[i], text[0], sizeof(text[0]));
	}
	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t next[BEAMS];

		memcpy(was, text, sizeof(was));
		memcpy(old, sum, sizeof(old));
		for (i = 0; i < BEAMS; i++)
			sum[i] = -1e12;
		/* The best of all, kept in order. */
		for (b = 0; b < BEAMS; b++) {
			for (c = 0; c < 8; c++) {
				double x = old[b] + score(was[b], len, c);

				for (i = BEAMS; i && x > sum[i - 1]; i--) {
					if (i == BEAMS)
						continue;
					sum[i] = sum[i - 1];
					from[i] = from[i - 1];
					next[i] = next[i - 1];
				}
				if (i == BEAMS)
					continue;
				sum[i] = x;
				from[i] = b;
				next[i] = c;
			}
		}
		ASSERT_EQ(0, kvc_seq_reorder(s, from, BEAMS));
		for (i = 0; i < BEAMS; i++) {
			moved += from[i] != i;
			memcpy(text[i], was[from[i]], sizeof(text[i]));
			text[i][len] = next[i];
			items[i] = (struct kvc_item) { s[i], &text[i][len], 1 };
		}
		ASSERT_EQ(0, kit_step(&k, items, BEAMS, NULL));
		len++;
		for (i = 0; i < BEAMS; i++) {
			ASSERT_EQ(0, memcmp(text[i], kvc_seq_tokens(s[i]),
					    len * sizeof(**text)));
			kit_check(&k, s[i]);
		}
	}
	EXPECT_GT(moved, STEPS / 2);
	kvc_cache_stats(k.c, &st);
	EXPECT_LE(st.pages_copied, STEPS * (BEAMS - 1));
	EXPECT_LT(kit_used(&k), BEAMS * (len + 3) / 4);
	for (i = 0; i < BEAMS; i++)
		kvc_seq_free(s[i], 0);
	EXPECT_EQ(0, kit_used(&k));
	kit_close(&k);
}

/* ---- kvcache-run --------------------------------------------------------- */

#define RUN "-m " REFS "tiny-gqa-q8_0-untied.gguf --kv f32 --weights f32 "	\
	"--page-size 16K --ignore-end --json -n 24 "

/* c4.8: the text of a search is that of beams which share nothing. */
TEST(beam_search_text)
{
	struct ran shared, alone;
	json_t *a, *b;

	NOT_ON_DEVICE("kvcache-run is tested there by itself");
	shared = kit_run(NULL, RUN "--beams 4 -p \"Keys and values\"");
	alone = kit_run(NULL, RUN "--beams 4 -p \"Keys and values\" --no-share");
	KIT_OK(shared);
	KIT_OK(alone);
	EXPECT_TRUE(json_equal(kit_ids(&shared, 0), kit_ids(&alone, 0)));
	a = json_object_get(kit_conv(&shared, 0), "beams");
	b = json_object_get(kit_conv(&alone, 0), "beams");
	ASSERT_EQ(4, json_array_size(a));
	ASSERT_EQ(4, json_array_size(b));
	for (size_t i = 0; i < 4; i++) {
		double x = json_number_value(json_object_get(
			json_array_get(a, i), "score"));
		double y = json_number_value(json_object_get(
			json_array_get(b, i), "score"));

		EXPECT_LT(x - y, 1e-3);
		EXPECT_LT(y - x, 1e-3);
	}
	EXPECT_TRUE(kit_counted(&shared));
	EXPECT_EQ(0, kit_total(&shared, "pages_held"));
}

/*
 * c4.16: the same prompt again: what is complete is reused, within the pages that
 * there are, and nothing is held in the end.
 */
TEST(prefix_sharing_in_a_batch)
{
	struct ran r;

	NOT_ON_DEVICE("kvcache-run is tested there by itself");
	r = kit_run(NULL, RUN "--max-pages 12 -p abcdefghijklmnopqrstuvwxyz0123456789 "
		    "-p abcdefghijklmnopqrstuvwxyz0123456789");
	KIT_OK(r);
	EXPECT_EQ(0, kit_num(&r, 0, "reused_tokens"));
	EXPECT_GE(kit_num(&r, 1, "reused_tokens"), 32);
	EXPECT_TRUE(json_equal(kit_ids(&r, 0), kit_ids(&r, 1)));
	EXPECT_LE(kit_total(&r, "pages_peak"), 12);
	EXPECT_EQ(0, kit_total(&r, "pages_held"));
	EXPECT_TRUE(kit_counted(&r));
}

TEST_HARNESS_MAIN
