// SPDX-License-Identifier: MIT
/*
 * test_run_window.c - long texts of models whose layers see the last tokens
 * only: few pages, and the text that all pages give.
 *
 * KVCACHE_WINDOW_TOKENS says how many tokens the real model generates.
 */
#include "run_kit.h"
#include "real_model.h"

#define TINY REFS "tiny-gemma3-w32-f16.gguf"

/* The most pages of the layers with a window that may be held between steps. */
static json_int_t bound(const struct ran *r)
{
	json_t *groups = json_object_get(json_object_get(r->json, "model"),
					 "groups"), *g;
	json_int_t window, per_page;

	ASSERT_EQ(2, json_array_size(groups));
	g = json_array_get(groups, 0);
	EXPECT_EQ(0, json_integer_value(json_object_get(g, "window")));
	g = json_array_get(groups, 1);
	window = json_integer_value(json_object_get(g, "window"));
	per_page = json_integer_value(json_object_get(g, "page_tokens"));
	EXPECT_GT(window, 0);
	return (window - 1 + per_page - 1) / per_page + 1;
}

static void compare(const char *model, const char *args, unsigned int n)
{
	struct ran few, all;
	long long held;

	few = kit_run(NULL, "-m %s %s --ignore-end --json -n %u", model, args,
		      n);
	KIT_OK(few);
	all = kit_run(NULL, "-m %s %s --ignore-end --json -n %u --keep-window",
		      model, args, n);
	KIT_OK(all);
	held = kit_num(&few, 0, "window_pages");
	ht_log("figure %u tokens: %lld pages of windowed layers, bound %lld, %lld where all are kept",
	       n, held, (long long)bound(&few),
	       kit_num(&all, 0, "window_pages"));
	EXPECT_LE(held, bound(&few));
	EXPECT_GT(kit_num(&all, 0, "window_pages"), held);
	EXPECT_EQ(n, kit_num(&few, 0, "generated_tokens"));
	EXPECT_TRUE(json_equal(kit_ids(&few, 0), kit_ids(&all, 0)));
}

TEST(a_long_text)
{
	compare(TINY, "--page-size 16K --weights f32 --tokens 1,5,9,40", 1900);
	compare(TINY, "--page-size 64K --weights f32 --kv f32 --chunk 7 --tokens 1,5,9,40,7,7,200,3,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50",
		600);
}

/* What others began with is found again, in a pool that holds few of them. */
TEST(verified_where_conversations_give_way)
{
	struct ran r = kit_run(NULL, "-m " TINY " --page-size 16K --max-pages 11 --verify --ignore-end --json -n 250 --tokens 1,5,9,40 --tokens 1,5,9,40,77,33 --tokens 3,5,9,40,77,33");
	unsigned int i, gave_way = 0;

	KIT_OK(r);
	ASSERT_EQ(3, kit_nconv(&r));
	for (i = 0; i < 3; i++) {
		json_t *v = json_object_get(kit_conv(&r, i), "verify");

		EXPECT_TRUE(json_is_true(json_object_get(v, "ok")));
		gave_way += kit_num(&r, i, "preempted");
		EXPECT_LE(kit_num(&r, i, "window_pages"), bound(&r));
	}
	EXPECT_GT(gave_way, 0);
}

TEST_TIMEOUT(a_real_text, 7200)
{
	const char *n = getenv("KVCACHE_WINDOW_TOKENS");

	compare(real_gemma_to_run(),
		"--kv bf16 --page-size 256K -p 'The history of memory in computers'",
		n ? atoi(n) : 700);
}

TEST_HARNESS_MAIN
