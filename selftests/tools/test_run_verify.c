// SPDX-License-Identifier: MIT
/*
 * test_run_verify.c - kvcache-run --verify with SmolLM2-135M-Instruct on three
 * prompts, one of them of 2,000 tokens, 200 new tokens each.
 *
 * f16 always; KVCACHE_VERIFY=all runs f32 and bf16, too:
 *
 *	KVCACHE_VERIFY=all KVCACHE_MODEL=FILE build/selftests/tools/test_run_verify
 */
#include "real_model.h"
#include "run_kit.h"

#define NPROMPTS 3
#define NEW 200
#define LAYERS 30

static double number(json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	if (!json_is_number(v))
		ht_log("no %s", key);
	EXPECT_TRUE(json_is_number(v));
	return json_number_value(v);
}

static void expect_verified(const struct ran *r, size_t i, const char *type)
{
	json_t *v = json_object_get(kit_conv(r, i), "verify");
	long long prompt = kit_num(r, i, "prompt_tokens");

	printf("# figure verify %s, %lld + %d tokens: largest difference %.3g in one pass (bound %.3g), %.3g in single steps (bound %.3g)\n",
	       type, prompt, NEW, number(v, "max_diff"), number(v, "bound"),
	       number(v, "step_max_diff"), number(v, "step_bound"));
	EXPECT_TRUE(kit_verified(r, i));
	EXPECT_EQ(NEW, kit_num(r, i, "generated_tokens"));
	EXPECT_EQ(NEW, number(v, "positions"));
	EXPECT_EQ(8, number(v, "steps"));
	EXPECT_GT(number(v, "max_diff"), 0);
	EXPECT_LT(number(v, "max_diff"), number(v, "bound"));
	EXPECT_LT(number(v, "step_max_diff"), number(v, "step_bound"));
	EXPECT_EQ(0, number(v, "wrong"));
	/* A row of K and one of V; of the last token there are none. */
	EXPECT_EQ(2 * LAYERS * (prompt + NEW - 1), number(v, "rows"));
	EXPECT_EQ(0, number(v, "rows_changed"));
}

static void verify(const char *type)
{
	struct ran r = kit_run(NULL, "-m %s --verify --kv %s -n %d --ignore-end --json -p 'What is a page table?' -p 'Tell me about bees.' -f " REFS "prompt-long.txt",
			       real_model_to_run(), type, NEW);
	size_t i;

	KIT_OK(r);
	ASSERT_EQ(NPROMPTS, kit_nconv(&r));
	EXPECT_GT(kit_num(&r, 2, "prompt_tokens"), 1500);
	for (i = 0; i < NPROMPTS; i++)
		expect_verified(&r, i, type);
	EXPECT_TRUE(kit_counted(&r));
}

static void verify_if_all(const char *type)
{
	const char *what = getenv("KVCACHE_VERIFY");

	if (!what || strcmp(what, "all"))
		SKIP(return, "KVCACHE_VERIFY=all verifies f32 and bf16 at this length, in a minute each");
	verify(type);
}

TEST_TIMEOUT(f16, 600)
{
	verify("f16");
}

TEST_TIMEOUT(f32, 600)
{
	verify_if_all("f32");
}

TEST_TIMEOUT(bf16, 600)
{
	verify_if_all("bf16");
}

TEST_HARNESS_MAIN
