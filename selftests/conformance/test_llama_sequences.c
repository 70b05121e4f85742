// SPDX-License-Identifier: MIT
/*
 * test_llama_sequences.c - behaviours that llama.cpp's tests assert of sequences:
 * positions, ranges that are removed, copies, and a context that is full.
 */
#include "kit.h"
#include "tools/run_kit.h"

/* c5.7: tokens without positions go on after what there is: 10 to 12 after 9. */
CASE(positions_go_on)
{
	struct kvc_item item;
	uint32_t t[13], i;
	struct kit k;

	kit_open(&k, SPEC(4, 8));
	kit_count(t, 13, 0);
	item = (struct kvc_item) { kit_begin(&k, t, 10, NULL), t + 10, 3 };
	ASSERT_EQ(0, kvc_batch_plan(k.b, &item, 1));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(10 + i, kvc_batch_positions(k.b)[i]);
	kvc_batch_abort(k.b);
	kvc_seq_free(item.seq, 0);
	kit_close(&k);
}

/* c5.8: of 5 and 9 tokens both advance by 5, and then one by 4. */
CASE(equal_split)
{
	struct kvc_item items[2];
	uint32_t t[2][9], i;
	struct kit k;

	kit_open(&k, SPEC(4, 16));
	for (i = 0; i < 2; i++) {
		kit_count(t[i], 9, 100 * i);
		items[i] = (struct kvc_item) { kit_seq(&k, NULL), t[i], 5 };
	}
	ASSERT_EQ(0, kit_step(&k, items, 2, NULL));
	for (i = 0; i < 2; i++)
		EXPECT_EQ(5, kvc_seq_len(items[i].seq));
	ASSERT_EQ(0, kit_add(&k, items[1].seq, t[1] + 5, 4));
	EXPECT_EQ(5, kvc_seq_len(items[0].seq));
	EXPECT_EQ(9, kvc_seq_len(items[1].seq));
	for (i = 0; i < 2; i++) {
		kit_check(&k, items[i].seq);
		kvc_seq_free(items[i].seq, 0);
	}
	kit_close(&k);
}

/* c5.10: what one sequence removes, the other still has; nothing is a range. */
CASE(remove_leaves_shared_ones_alive)
{
	struct kvc_seq *s, *q;
	uint32_t t[18], i;
	struct kit k;

	kit_open(&k, SPEC(4, 16));
	kit_count(t, 18, 0);
	s = kit_begin(&k, t, 18, NULL);
	ASSERT_EQ(0, kvc_seq_fork(s, &q));
	ASSERT_EQ(0, kvc_seq_remove(s, 7, 0, NULL));
	EXPECT_EQ(18, kvc_seq_len(s));
	EXPECT_EQ(5, kit_used(&k));
	ASSERT_EQ(0, kvc_seq_remove(s, 3, 6, NULL));
	EXPECT_EQ(12, kvc_seq_len(s));
	for (i = 0; i < 12; i++)
		EXPECT_EQ(i < 3 ? i : i + 6, kvc_seq_tokens(s)[i]);
	kit_check(&k, q);
	/* To the end, as a truncation. */
	ASSERT_EQ(0, kvc_seq_remove(q, 9, 9, NULL));
	EXPECT_EQ(9, kvc_seq_len(q));
	kit_check(&k, q);
	kvc_seq_free(s, 0);
	kit_check(&k, q);
	kvc_seq_free(q, 0);
	EXPECT_EQ(0, kit_used(&k));
	kit_close(&k);
}

/* c5.10 */
CASE(remove_from_a_recurrent_memory)
{
	SKIP(return, "recurrent layers: no model here has any");
}

/* c5.11: a copy is references; who goes on alters nothing of the other. */
CASE(copies_diverge)
{
	struct kvc_seq *s, *q;
	uint64_t allocs;
	uint32_t t[24];
	struct kit k;

	kit_open(&k, SPEC(4, 16));
	kit_count(t, 24, 0);
	s = kit_begin(&k, t, 10, NULL);
	allocs = kit_pool(&k).allocs;
	ASSERT_EQ(0, kvc_seq_fork(s, &q));
	EXPECT_EQ(allocs, kit_pool(&k).allocs);
	EXPECT_EQ(3, kit_used(&k));
	for (uint32_t i = 0; i < 5; i++) {
		ASSERT_EQ(0, kit_add(&k, q, t + 12 + 2 * i, 2));
		kit_check(&k, s);
		kit_check(&k, q);
	}
	EXPECT_EQ(10, kvc_seq_len(s));
	ASSERT_EQ(0, kit_add(&k, s, t + 22, 1));
	kit_check(&k, s);
	kit_check(&k, q);
	kvc_seq_free(s, 0);
	kvc_seq_free(q, 0);
	kit_close(&k);
}

/* ---- kvcache-run --------------------------------------------------------- */

#define RUN "-m " REFS "tiny-mha-f16.gguf --raw --page-size 16K "		\
	"--ignore-end --json --ctx 256 "

/* @n ids. */
static const char *ids(uint32_t n)
{
	char *s = kit_keep(malloc(n * 4 + 1));
	size_t len = 0;

	for (uint32_t i = 0; i < n; i++)
		len += sprintf(s + len, "%s%u", i ? "," : "", 10 + i * 7 % 90);
	return s;
}

/*
 * c5.4: a prompt of 226 tokens in a context of 256 is gone on with for 96, and it
 * is said that something was forgotten.
 */
TEST(context_shift)
{
	struct ran r;

	NOT_ON_DEVICE("kvcache-run is tested there by itself");
	r = kit_run(NULL, RUN "--keep 0 --tokens %s -n 96", ids(226));
	KIT_OK(r);
	EXPECT_EQ(226, kit_num(&r, 0, "prompt_tokens"));
	EXPECT_EQ(96, kit_num(&r, 0, "generated_tokens"));
	EXPECT_EQ(1, kit_num(&r, 0, "context_shifts"));
	EXPECT_GT(kit_num(&r, 0, "forgotten_tokens"), 0);
	EXPECT_STREQ("length", kit_str(&r, 0, "finish"));
	EXPECT_TRUE(kit_counted(&r));
}

/* c5.4: without it the context is the end: 8 tokens, and 248 more. */
TEST(context_without_shift)
{
	struct ran r;

	NOT_ON_DEVICE("kvcache-run is tested there by itself");
	r = kit_run(NULL, RUN "--tokens %s -n 0", ids(8));
	KIT_OK(r);
	EXPECT_EQ(248, kit_num(&r, 0, "generated_tokens"));
	EXPECT_STREQ("length", kit_str(&r, 0, "finish"));
}

/* c5.4: a prompt that does not fit is refused, with and without. */
TEST(context_that_a_prompt_exceeds)
{
	static const char *const keep[] = { "", "--keep 4" };
	struct ran r;

	NOT_ON_DEVICE("kvcache-run is tested there by itself");
	for (int i = 0; i < 2; i++) {
		r = kit_run(NULL, RUN "--tokens %s -n 8 %s", ids(256), keep[i]);
		EXPECT_EQ(1, r.status);
		EXPECT_NE(NULL, strstr(r.err, "does not fit a context of 256"));
	}
}

TEST_HARNESS_MAIN
