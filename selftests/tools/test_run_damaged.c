// SPDX-License-Identifier: MIT
/*
 * test_run_damaged.c - kvcache-run with models whose parts do not fit each
 * other, whose weights are no numbers, or which are smaller than anything real.
 */
#include <math.h>

#include "run_kit.h"
#include "tiny_model.h"

#define QUICK "-n 4 --ignore-end --page-size 64K --threads 1"

static const char *file(const char *name, const struct tiny *t)
{
	struct gw w = { 0 };
	const char *path;

	tiny_model(&w, t);
	path = kit_file(name, w.p, w.n);
	gw_free(&w);
	return path;
}

/* One line that says this, status 1 and nothing else. */
#define REFUSED(r, what)						\
	do {								\
		EXPECT_EQ(1, (r).status);				\
		if (!strstr((r).err, what))				\
			ht_log("%s", (r).err);				\
		EXPECT_NE(NULL, strstr((r).err, what));			\
		EXPECT_TRUE(strchr((r).err, '\n') ==			\
			    (r).err + strlen((r).err) - 1);		\
		EXPECT_STREQ("", (r).out);				\
	} while (0)

TEST(sound)
{
	const char *path = file("sound.gguf",
				&(struct tiny){ .vocab = 300, .ntokens = 300 });
	struct ran r;

	r = kit_run(NULL, "-m %s " QUICK " --json --verify -p hello", path);
	KIT_OK(r);
	EXPECT_EQ(4, kit_num(&r, 0, "prompt_tokens"));
	EXPECT_EQ(4, json_array_size(kit_ids(&r, 0)));
	EXPECT_TRUE(kit_verified(&r, 0));
	r = kit_run(NULL, "-m %s --json --score -p hello", path);
	KIT_OK(r);
}

/* Ids beyond the embedding would be read from what follows it. */
TEST(a_tokenizer_of_another_model)
{
	static const char want[] = "the tokenizer has 300 tokens, the model 100: convert the model again";
	const char *path = file("big.gguf",
				&(struct tiny){ .vocab = 100, .ntokens = 300 });
	struct ran r;

	r = kit_run(NULL, "-m %s " QUICK " -p 'AAA~' --score", path);
	REFUSED(r, want);
	r = kit_run(NULL, "-m %s " QUICK " -p 'AAA~'", path);
	REFUSED(r, want);
	r = kit_run(NULL, "-m %s " QUICK " --tokens 1,2", path);
	REFUSED(r, want);
	/* Embeddings are padded to round numbers. */
	path = file("padded.gguf",
		    &(struct tiny){ .vocab = 320, .ntokens = 300 });
	r = kit_run(NULL, "-m %s " QUICK " --json -p 'AAA~'", path);
	KIT_OK(r);
}

/* --verify compares the 8 likeliest tokens. */
TEST(fewer_tokens_than_are_compared)
{
	static const uint32_t vocab[] = { 1, 2, 5, 7, 8 };
	const char *path;
	struct ran r;
	size_t i;

	for (i = 0; i < sizeof(vocab) / sizeof(vocab[0]); i++) {
		path = file("few.gguf", &(struct tiny){ .vocab = vocab[i] });
		r = kit_run(NULL, "-m %s " QUICK " --json --verify --tokens 0,0",
			    path);
		KIT_OK(r);
		EXPECT_EQ(4, json_array_size(kit_ids(&r, 0)));
		EXPECT_TRUE(kit_verified(&r, 0));
	}
}

/* It is found before what is there is lost. */
TEST(a_tensor_that_is_missing)
{
	struct tiny t = { .vocab = 300, .ntokens = 300 };
	const char *json = kit_file("old.json", "old", 3);
	const char *csv = kit_file("old.csv", "old", 3), *path;
	static const char *const part[] = {
		"output_norm.weight", "blk.0.ffn_up.weight",
	};
	struct ran r;
	size_t i;

	for (i = 0; i < 2; i++) {
		t.leave_out = part[i];
		path = file("missing.gguf", &t);
		r = kit_run(NULL, "-m %s " QUICK " -p x --json=%s --timing %s",
			    path, json, csv);
		REFUSED(r, part[i]);
		REFUSED(r, " is missing: the file is not a whole model");
		EXPECT_STREQ("old", kit_read(json));
		EXPECT_STREQ("old", kit_read(csv));
	}
}

TEST(weights_that_are_no_numbers)
{
	static const char want[] = "logits are not numbers: the file is damaged";
	static const char *const part[] = {
		"token_embd.weight", "output_norm.weight",
		"blk.0.attn_q.weight", "blk.0.attn_v.weight",
		"blk.0.ffn_gate.weight", "blk.0.ffn_down.weight",
	};
	struct tiny t = { .vocab = 300, .ntokens = 300 };
	const char *path;
	struct ran r;
	size_t i;

	for (i = 0; i < 2 * sizeof(part) / sizeof(part[0]); i++) {
		t.fill = part[i / 2];
		t.with = i & 1 ? INFINITY : NAN;
		path = file("nan.gguf", &t);
		r = kit_run(NULL, "-m %s " QUICK " --json -p hello", path);
		EXPECT_EQ(1, r.status);
		EXPECT_NE(NULL, strstr(r.err, want));
		EXPECT_STREQ("failed", kit_str(&r, 0, "finish"));
		EXPECT_EQ(0, json_array_size(kit_ids(&r, 0)));
	}
	r = kit_run(NULL, "-m %s " QUICK " --json --no-cache -p hello", path);
	EXPECT_EQ(1, r.status);
	EXPECT_NE(NULL, strstr(r.err, want));
	EXPECT_STREQ("failed", kit_str(&r, 0, "finish"));
	r = kit_run(NULL, "-m %s " QUICK " --json --verify -p hello", path);
	EXPECT_EQ(1, r.status);
	EXPECT_NE(NULL, strstr(r.err, want));
	r = kit_run("a\nb\n", "-m %s " QUICK " -q --chat", path);
	EXPECT_EQ(1, r.status);
	EXPECT_NE(NULL, strstr(r.err, want));
	r = kit_run(NULL, "-m %s --score -p hello", path);
	REFUSED(r, want);
}

TEST_HARNESS_MAIN
