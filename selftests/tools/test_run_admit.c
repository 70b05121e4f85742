// SPDX-License-Identifier: MIT
/*
 * test_run_admit.c - kvcache-run: who starts beside whom. Whoever starts has
 * a page for its next tokens, so that nobody starts only to give way.
 */
#include "run_kit.h"

#define MHA REFS "tiny-mha-f16.gguf"

/* 8 tokens in a page. */
#define SMALL "-m " MHA " --kv f32 --weights f32 --page-size 16K --ignore-end --json"

/* A page of prompt each, and two more for what is generated. */
#define GROW "-p 1bcdefgh -p 2bcdefgh -n 16"

static double waited(const struct ran *r, size_t i)
{
	return json_real_value(json_object_get(kit_conv(r, i), "waited_ms"));
}

/*
 * Three pages: both prompts fit, and then only one can go on. The second waits
 * until the first has ended, and nothing is computed twice.
 */
TEST(no_start_without_a_page_to_grow_into)
{
	struct ran all = kit_run(NULL, SMALL " " GROW);
	struct ran r = kit_run(NULL, SMALL " " GROW " --max-pages 3");
	int i;

	KIT_OK(all);
	KIT_OK(r);
	for (i = 0; i < 2; i++) {
		EXPECT_STREQ("length", kit_str(&r, i, "finish"));
		EXPECT_TRUE(json_equal(kit_ids(&all, i), kit_ids(&r, i)));
		EXPECT_EQ(0, kit_num(&r, i, "preempted"));
		EXPECT_EQ(0, kit_num(&r, i, "recomputed_tokens"));
	}
	EXPECT_EQ(2 * (8 + 15), kit_total(&r, "forwarded"));
	EXPECT_EQ(3, kit_total(&r, "pages_peak"));
	EXPECT_LT(json_real_value(json_object_get(kit_conv(&r, 0),
						  "first_token_ms")),
		  waited(&r, 1));
}

/* A fourth: both have one to grow into, and start together. */
TEST(a_page_to_grow_into_is_enough)
{
	struct ran all = kit_run(NULL, SMALL " " GROW);
	struct ran r = kit_run(NULL, SMALL " " GROW " --max-pages 4");
	int i;

	KIT_OK(all);
	KIT_OK(r);
	for (i = 0; i < 2; i++) {
		EXPECT_STREQ("length", kit_str(&r, i, "finish"));
		EXPECT_TRUE(json_equal(kit_ids(&all, i), kit_ids(&r, i)));
	}
	EXPECT_LT(waited(&r, 1), json_real_value(json_object_get(
			  kit_conv(&r, 0), "first_token_ms")));
	EXPECT_EQ(4, kit_total(&r, "pages_peak"));
}

/* 4 tokens and 4 more, the last not stored: these never want another page. */
TEST(no_page_is_kept_for_those_that_do_not_grow)
{
	struct ran r = kit_run(NULL, SMALL " -p 1bcd -p 2bcd -n 5 --max-pages 2");
	int i;

	KIT_OK(r);
	for (i = 0; i < 2; i++) {
		EXPECT_STREQ("length", kit_str(&r, i, "finish"));
		EXPECT_EQ(1, kit_num(&r, i, "pages"));
	}
	/* Side by side: one step for both prompts, one for each token more. */
	EXPECT_EQ(1 + 4, kit_total(&r, "steps"));
	EXPECT_EQ(2, kit_total(&r, "pages_peak"));
}

TEST_HARNESS_MAIN
