// SPDX-License-Identifier: MIT
/*
 * test_run_model.c - kvcache-run with SmolLM2-135M-Instruct: chats, long
 * prompts, and checks, against an independent implementation's tokens.
 */
#include "real_model.h"
#include "run_kit.h"

/* What the references allow f32; their margins are taken twice as far. */
#define BOUND 1e-3

static json_t *reference(const char *name)
{
	char *text = kit_read(REFS "smollm2.jsonl"), *line, *save;
	json_t *ref;

	for (line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		ref = kit_keep(json_loads(line, 0, NULL));
		if (!strcmp(json_string_value(json_object_get(ref, "name")),
			    name))
			return ref;
	}
	ASSERT_TRUE(!"no such reference");
	return NULL;
}

/*
 * The same prompt, and the same tokens up to the first whose margin is below
 * twice the bound. Returns how many were compared.
 */
static size_t expect_reference(const struct ran *r, size_t i, const char *name)
{
	json_t *ref = reference(name), *step, *ids = kit_ids(r, i);
	json_t *steps = json_object_get(ref, "steps");
	size_t at;

	EXPECT_TRUE(json_equal(json_object_get(ref, "prompt_ids"),
			       json_object_get(kit_conv(r, i), "prompt_ids")));
	json_array_foreach(steps, at, step) {
		if (json_number_value(json_object_get(step, "margin")) <
		    2 * BOUND || at == json_array_size(ids))
			break;
		EXPECT_EQ(json_integer_value(json_object_get(step, "token")),
			  json_integer_value(json_array_get(ids, at)));
	}
	return at;
}

TEST_TIMEOUT(default_system_message, 300)
{
	struct ran r = kit_run(NULL, "-m %s --weights f32 --kv f32 -n 24 --json -p 'What is a page table?'",
			       real_model_to_run());

	KIT_OK(r);
	/* The margin of the 21st is below twice the bound. */
	EXPECT_EQ(20, expect_reference(&r, 0, "chat-default"));
}

TEST_TIMEOUT(several_messages_and_the_end_of_a_turn, 300)
{
	struct ran r = kit_run("{\"messages\": ["
		"{\"role\": \"system\", \"content\": \"Answer briefly.\"}, "
		"{\"role\": \"user\", \"content\": \"Name a colour.\"}, "
		"{\"role\": \"assistant\", \"content\": \"Blue.\"}, "
		"{\"role\": \"user\", \"content\": \"Name another.\"}]}\n",
		"-m %s --weights f32 --kv f32 -n 24 --json --requests -",
		real_model_to_run());

	KIT_OK(r);
	EXPECT_EQ(3, expect_reference(&r, 0, "chat-turns"));
	EXPECT_STREQ("stop", kit_str(&r, 0, "finish"));
	EXPECT_STREQ("Green.", kit_str(&r, 0, "text"));
	EXPECT_EQ(3, json_array_size(kit_ids(&r, 0)));
}

TEST_TIMEOUT(raw_text_in_many_alphabets, 300)
{
	struct ran r = kit_run(NULL, "-m %s --weights f32 --kv f32 -n 32 --json --raw -p 'Привет! Como estás? 日本'",
			       real_model_to_run());
	size_t n;

	KIT_OK(r);
	n = expect_reference(&r, 0, "unicode");
	EXPECT_GT(n, 0);
	if (n == 32)
		EXPECT_STREQ(json_string_value(json_object_get(
				     reference("unicode"), "output")),
			     kit_str(&r, 0, "text"));
}

TEST_TIMEOUT(long_system_message_is_computed_once, 600)
{
	struct ran r = kit_run(NULL, "-m %s --weights f32 --kv f32 -n 8 --json --system-file " REFS "prompt-long.txt -p 'Who owns a page?' -p 'What is a pool?'",
			       real_model_to_run());
	long long prompts, reused;

	KIT_OK(r);
	EXPECT_EQ(8, expect_reference(&r, 0, "long-chat"));
	EXPECT_EQ(2002, kit_num(&r, 0, "prompt_tokens"));
	reused = kit_num(&r, 1, "reused_tokens");
	/* What comes before the question: all but its own tokens. */
	EXPECT_GE(reused, 1985);
	prompts = 2002 + kit_num(&r, 1, "prompt_tokens") - reused;
	EXPECT_EQ(prompts + 2 * 7, kit_total(&r, "forwarded"));
	EXPECT_TRUE(kit_counted(&r));
}

/* One turn that ends in the middle, one that the model ends, one more. */
TEST_TIMEOUT(turns_of_a_chat, 300)
{
	struct ran r = kit_run("Is water wet?\nWhat is the capital of France?\nAnd of Italy?\n",
			       "-m %s --chat --verify --kv f32 -n 12 --json --system 'Be brief.'",
			       real_model_to_run());
	long long len;
	size_t i;

	KIT_OK(r);
	ASSERT_EQ(3, kit_nconv(&r));
	EXPECT_STREQ("length", kit_str(&r, 0, "finish"));
	EXPECT_STREQ("stop", kit_str(&r, 1, "finish"));
	EXPECT_STREQ("The capital of France is Paris.",
		     kit_str(&r, 1, "text"));
	/* All of the turns before, but for the token that was last. */
	for (i = 0; i < 3; i++) {
		len = i ? kit_num(&r, i - 1, "prompt_tokens") +
			  kit_num(&r, i - 1, "generated_tokens") - 1 : 0;
		EXPECT_EQ(len, kit_num(&r, i, "reused_tokens"));
	}
	len = kit_num(&r, 2, "prompt_tokens") +
	      kit_num(&r, 2, "generated_tokens") - 1;
	EXPECT_EQ(len, kit_total(&r, "forwarded"));
	EXPECT_EQ(len, kit_total(&r, "appended"));
	EXPECT_TRUE(kit_verified(&r, 2));
}

TEST_TIMEOUT(verify_every_type, 600)
{
	static const char *const types[] = { "f32", "f16", "bf16" };
	unsigned int i;
	struct ran r;

	for (i = 0; i < 3; i++) {
		r = kit_run(NULL, "-m %s --verify --kv %s -n 24 --json -p 'What is a page table?' -p 'What is a cache?'",
			    real_model_to_run(), types[i]);
		if (r.status || !r.json)
			ht_log("%s: %s %s", types[i], r.err, r.out);
		ASSERT_EQ(0, r.status);
		EXPECT_TRUE(kit_verified(&r, 0));
		EXPECT_TRUE(kit_verified(&r, 1));
		EXPECT_TRUE(kit_counted(&r));
	}
}

TEST_HARNESS_MAIN
