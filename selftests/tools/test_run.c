// SPDX-License-Identifier: MIT
/*
 * test_run.c - kvcache-run on small models: what is computed, shared, given
 * back and computed again, with the same tokens every time.
 *
 * The models' tokens are bytes, one more for each ("th" is one).
 */
#include "run_kit.h"

#include <math.h>

#define MHA REFS "tiny-mha-f16.gguf"
#define GQA REFS "tiny-gqa-q8_0-untied.gguf"

/* 2 layers x 2 heads x 64 x (K, V) x f32 = 2 KiB a token: 8 in a page. */
#define SMALL "--kv f32 --weights f32 --page-size 16K --ignore-end --json"

static const char *const models[] = {
	MHA, GQA, REFS "tiny-mqa-bf16-d80.gguf", REFS "tiny-gqa7-q4_0-d128.gguf",
	REFS "tiny-q5_1-llama3-rope.gguf", REFS "tiny-f32-linear-rope.gguf",
	REFS "tiny-qwen2-q8_0.gguf", REFS "tiny-qwen3-f16.gguf",
	REFS "tiny-gemma3-w32-f16.gguf",
};

/* 200 bytes that all conversations begin with. */
static const char *shared_text(void)
{
	static char s[201];
	int i;

	for (i = 0; i < 200; i++)
		s[i] = 'a' + (i * 7 + i / 26) % 15;
	return s;
}

TEST(three_of_four_reuse_the_system_message)
{
	struct ran r = kit_run(NULL, "-m %s " SMALL " -n 10 --chunk 48 --system %s -p 1one -p 2two -p 3six -p 4ten",
			       MHA, shared_text());
	int i;

	KIT_OK(r);
	ASSERT_EQ(4, kit_nconv(&r));
	for (i = 0; i < 4; i++) {
		EXPECT_EQ(204, kit_num(&r, i, "prompt_tokens"));
		EXPECT_EQ(i ? 200 : 0, kit_num(&r, i, "reused_tokens"));
		EXPECT_EQ(10, kit_num(&r, i, "generated_tokens"));
		EXPECT_EQ(27, kit_num(&r, i, "pages"));
	}
	/* The prompt once, the rest of each, and then one for each token. */
	EXPECT_EQ(200 + 4 * 4 + 4 * 9, kit_total(&r, "forwarded"));
	EXPECT_EQ(200 + 4 * 4 + 4 * 9, kit_total(&r, "appended"));
	EXPECT_EQ(200 + 4 * 4 + 4 * 9, kit_total(&r, "committed"));
	EXPECT_TRUE(kit_counted(&r));
	/* 25 pages once and 2 of each: not 4 x 27. */
	EXPECT_EQ(25 + 4 * 2, kit_total(&r, "pages_peak"));
	EXPECT_EQ(0, kit_total(&r, "pages_held"));
}

/* One at a time: the third has more in the cache than the second. */
TEST(the_longest_cached_prefix_starts_first)
{
	struct ran r = kit_run(NULL, "-m %s " SMALL " -n 4 --parallel 1 -p %s1 -p other -p %s3",
			       MHA, shared_text(), shared_text());
	double waited[3];
	int i;

	KIT_OK(r);
	for (i = 0; i < 3; i++)
		waited[i] = json_real_value(json_object_get(kit_conv(&r, i),
							    "waited_ms"));
	EXPECT_TRUE(waited[0] < waited[2]);
	EXPECT_TRUE(waited[2] < waited[1]);
	EXPECT_EQ(200, kit_num(&r, 2, "reused_tokens"));
}

TEST(no_reuse_is_the_same_text)
{
	struct ran a, b;
	int i;

	a = kit_run(NULL, "-m %s " SMALL " -n 24 --system %s -p 1one -p 2two",
		    MHA, shared_text());
	b = kit_run(NULL, "-m %s " SMALL " -n 24 --system %s -p 1one -p 2two --no-reuse",
		    MHA, shared_text());
	KIT_OK(a);
	KIT_OK(b);
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, kit_num(&b, i, "reused_tokens"));
		EXPECT_TRUE(json_equal(kit_ids(&a, i), kit_ids(&b, i)));
		EXPECT_STREQ(kit_str(&a, i, "text"), kit_str(&b, i, "text"));
	}
	EXPECT_EQ(2 * 204 + 2 * 23, kit_total(&b, "forwarded"));
	EXPECT_EQ(0, kit_total(&b, "pages_cached"));
}

/* A chunk's size, and who else is in a step, changes nothing. */
TEST(chunks_beside_decodes)
{
	static const char *const how[] = {
		"--chunk 1", "--chunk 7", "--chunk 64", "--chunk 512 --parallel 1",
	};
	struct ran first, r;
	unsigned int i, j;

	first = kit_run(NULL, "-m %s " SMALL " -n 20 --no-reuse -p %s -p short -p %sx",
			GQA, shared_text(), shared_text());
	KIT_OK(first);
	for (i = 0; i < 4; i++) {
		r = kit_run(NULL, "-m %s " SMALL " -n 20 --no-reuse -p %s -p short -p %sx %s",
			    GQA, shared_text(), shared_text(), how[i]);
		KIT_OK(r);
		for (j = 0; j < 3; j++)
			EXPECT_TRUE(json_equal(kit_ids(&first, j),
					       kit_ids(&r, j)));
		EXPECT_TRUE(kit_counted(&r));
	}
}

TEST(verify_every_model_and_type)
{
	static const char *const types[] = { "f32", "f16", "bf16" };
	unsigned int i, j;
	struct ran r;

	for (i = 0; i < sizeof(models) / sizeof(*models); i++) {
		for (j = 0; j < 3; j++) {
			r = kit_run(NULL, "-m %s --verify --kv %s --page-size 64K -n 20 --ignore-end --json -p %s -p second",
				    models[i], types[j], shared_text());
			if (r.status || !r.json)
				ht_log("%s %s: %s %s", models[i], types[j],
				       r.err, r.out);
			ASSERT_EQ(0, r.status);
			EXPECT_TRUE(kit_verified(&r, 0));
			EXPECT_TRUE(kit_verified(&r, 1));
			EXPECT_TRUE(kit_counted(&r));
		}
	}
}

TEST(no_cache_is_the_same_text_and_holds_nothing)
{
	struct ran a, b;

	a = kit_run(NULL, "-m %s " SMALL " -n 16 -p %s", MHA, shared_text());
	b = kit_run(NULL, "-m %s " SMALL " -n 16 -p %s --no-cache", MHA,
		    shared_text());
	KIT_OK(a);
	KIT_OK(b);
	EXPECT_TRUE(json_equal(kit_ids(&a, 0), kit_ids(&b, 0)));
	EXPECT_EQ(200 + 15, kit_total(&a, "forwarded"));
	EXPECT_EQ(16 * 200 + 15 * 16 / 2, kit_total(&b, "forwarded"));
	EXPECT_EQ(0, kit_total(&b, "appended"));
	EXPECT_EQ(0, kit_total(&b, "pages_handed_out"));
}

/* 16 + 9 tokens, the last not stored: 3 pages each, and 9 in all. */
#define EIGHT "-p 1bcdefghijklmnop -p 2bcdefghijklmnop -p 3bcdefghijklmnop "	\
	"-p 4bcdefghijklmnop -p 5bcdefghijklmnop -p 6bcdefghijklmnop "		\
	"-p 7bcdefghijklmnop -p 8bcdefghijklmnop -n 9"

TEST(eight_conversations_in_room_for_three)
{
	double waited, before = 0;
	struct ran all, r;
	int i;

	all = kit_run(NULL, "-m %s " SMALL " " EIGHT, MHA);
	r = kit_run(NULL, "-m %s " SMALL " " EIGHT " --max-pages 9", MHA);
	KIT_OK(all);
	KIT_OK(r);
	ASSERT_EQ(8, kit_nconv(&r));
	for (i = 0; i < 8; i++) {
		EXPECT_STREQ("length", kit_str(&r, i, "finish"));
		EXPECT_EQ(0, kit_num(&r, i, "preempted"));
		EXPECT_TRUE(json_equal(kit_ids(&all, i), kit_ids(&r, i)));
		waited = json_real_value(json_object_get(kit_conv(&r, i),
							 "waited_ms"));
		EXPECT_TRUE(waited >= before);
		before = waited;
	}
	EXPECT_EQ(9, kit_total(&r, "pages_peak"));
	EXPECT_EQ(24, kit_total(&all, "pages_peak"));
	EXPECT_EQ(kit_total(&all, "forwarded"), kit_total(&r, "forwarded"));
}

TEST(room_for_none_is_refused_at_once)
{
	struct ran r = kit_run(NULL, "-m %s " SMALL " " EIGHT " --max-pages 2",
			       MHA);
	int i;

	EXPECT_EQ(1, r.status);
	ASSERT_TRUE(r.json != NULL);
	for (i = 0; i < 8; i++)
		EXPECT_STREQ("refused", kit_str(&r, i, "finish"));
	EXPECT_TRUE(strstr(r.err, "conversation 1 is refused: 3 pages of 16 KiB wanted for 24 tokens, 0 held, 2 allowed: 1 missing; it fits with --kv f16 (2 pages), -n 1, --on-full stop, --max-pages 3\n") != NULL);
	/* Before the weights were loaded. */
	EXPECT_STREQ("", json_string_value(json_object_get(
		json_object_get(r.json, "model"), "products")));
}

/* What is advised must do: all limits in the way, and in the right place. */
TEST(remedies_do_what_they_promise)
{
	static const char request[] =
		"{\"prompt\": \"1bcdefghijklmnop\", \"max_tokens\": 40}\n";
	static const char by_n[] =
		"{\"prompt\": \"1bcdefghijklmnop\", \"n\": 40}\n";
	static const char by_none[] = "{\"prompt\": \"1bcdefghijklmnop\"}\n";
	struct ran r;

	r = kit_run(NULL, "-m %s " SMALL " -p 1bcdefghijklmnop -n 40 --pool 48K --max-pages 1", MHA);
	EXPECT_EQ(1, r.status);
	EXPECT_TRUE(strstr(r.err, "with --max-pages 7 and --pool 112K\n") != NULL);
	r = kit_run(NULL, "-m %s " SMALL " -p 1bcdefghijklmnop -n 40 --pool 112K --max-pages 7", MHA);
	KIT_OK(r);
	r = kit_run(NULL, "-m %s " SMALL " -p 1bcdefghijklmnop -n 40 --pool 48K --max-pages 9", MHA);
	EXPECT_EQ(1, r.status);
	EXPECT_TRUE(strstr(r.err, ", --pool 112K\n") != NULL);

	r = kit_run(request, "-m %s " SMALL " --requests - --max-pages 3", MHA);
	EXPECT_EQ(1, r.status);
	EXPECT_TRUE(strstr(r.err, "9 as max_tokens of its request") != NULL);
	EXPECT_TRUE(strstr(r.err, "-n ") == NULL);
	/* The option does nothing there, even where it says the same. */
	r = kit_run(request, "-m %s " SMALL " -n 40 --requests - --max-pages 3", MHA);
	EXPECT_TRUE(strstr(r.err, "9 as max_tokens of its request") != NULL);
	r = kit_run(by_n, "-m %s " SMALL " --requests - --max-pages 3", MHA);
	EXPECT_TRUE(strstr(r.err, "9 as n of its request") != NULL);
	r = kit_run(by_none, "-m %s " SMALL " -n 40 --requests - --max-pages 3", MHA);
	EXPECT_TRUE(strstr(r.err, "with -n 9, ") != NULL);
}

TEST(one_that_never_fits_does_not_stop_the_others)
{
	struct ran r = kit_run(NULL, "-m %s " SMALL " -n 9 --max-pages 3 -p 1bcdefghijklmnop -p %s -p 3bcdefghijklmnop",
			       MHA, shared_text());

	EXPECT_EQ(1, r.status);
	ASSERT_TRUE(r.json != NULL);
	EXPECT_STREQ("length", kit_str(&r, 0, "finish"));
	EXPECT_STREQ("refused", kit_str(&r, 1, "finish"));
	EXPECT_STREQ("length", kit_str(&r, 2, "finish"));
}

/* Each alone fits in 10 pages (8 + 72 tokens), both together do not. */
#define TWO "-p 1bcdefgh -p 2bcdefgh -n 72"

TEST(the_younger_gives_way_and_continues)
{
	struct ran all, r;
	int i;

	all = kit_run(NULL, "-m %s " SMALL " " TWO, MHA);
	r = kit_run(NULL, "-m %s " SMALL " " TWO " --verify --max-pages 12",
		    MHA);
	KIT_OK(all);
	KIT_OK(r);
	for (i = 0; i < 2; i++) {
		EXPECT_STREQ("length", kit_str(&r, i, "finish"));
		EXPECT_TRUE(json_equal(kit_ids(&all, i), kit_ids(&r, i)));
		EXPECT_TRUE(kit_verified(&r, i));
	}
	EXPECT_EQ(0, kit_num(&r, 0, "preempted"));
	EXPECT_GT(kit_num(&r, 1, "preempted"), 0);
	EXPECT_TRUE(kit_counted(&r));
	EXPECT_LE(kit_total(&r, "pages_peak"), 12);
}

TEST(the_younger_is_ended_if_asked)
{
	struct ran all, r;

	all = kit_run(NULL, "-m %s " SMALL " " TWO, MHA);
	r = kit_run(NULL, "-m %s " SMALL " " TWO " --max-pages 12 --on-full stop",
		    MHA);
	KIT_OK(all);
	KIT_OK(r);
	EXPECT_STREQ("length", kit_str(&r, 0, "finish"));
	EXPECT_STREQ("evicted", kit_str(&r, 1, "finish"));
	EXPECT_TRUE(json_equal(kit_ids(&all, 0), kit_ids(&r, 0)));
	EXPECT_LT(json_array_size(kit_ids(&r, 1)), 72);
	EXPECT_TRUE(kit_begins(kit_ids(&all, 1), kit_ids(&r, 1)));
	EXPECT_TRUE(strstr(r.err, "conversation 2 ends after") != NULL);
	EXPECT_TRUE(strstr(r.err, "--on-full preempt") != NULL);
	EXPECT_TRUE(kit_counted(&r));
}

/* The pool's own size, not the tenant's limit; and one that ends alone. */
TEST(one_outgrows_the_pool_alone)
{
	struct ran all, r;

	all = kit_run(NULL, "-m %s " SMALL " -p 1bcdefgh -n 72", MHA);
	r = kit_run(NULL, "-m %s " SMALL " -p 1bcdefgh -n 72 --pool 64K --on-full stop",
		    MHA);
	KIT_OK(all);
	KIT_OK(r);
	EXPECT_STREQ("evicted", kit_str(&r, 0, "finish"));
	EXPECT_TRUE(kit_begins(kit_ids(&all, 0), kit_ids(&r, 0)));
	r = kit_run(NULL, "-m %s " SMALL " -p 1bcdefgh -n 72 --pool 64K", MHA);
	EXPECT_EQ(1, r.status);
	EXPECT_STREQ("refused", kit_str(&r, 0, "finish"));
	EXPECT_TRUE(strstr(r.err, "10 pages of 16 KiB wanted") != NULL);
}

TEST(second_turn_computes_only_what_is_new)
{
	struct ran r = kit_run("first turn\nand a second one\n",
			       "-m %s " SMALL " --chat --verify -n 12", MHA);
	long long one, two;

	KIT_OK(r);
	ASSERT_EQ(2, kit_nconv(&r));
	EXPECT_STREQ("turn 2", kit_str(&r, 1, "id"));
	one = kit_num(&r, 0, "prompt_tokens");
	two = kit_num(&r, 1, "prompt_tokens");
	EXPECT_EQ(10, one);
	EXPECT_EQ(one + 12 + 16, two);
	EXPECT_EQ(0, kit_num(&r, 0, "reused_tokens"));
	EXPECT_EQ(one + 11, kit_num(&r, 1, "reused_tokens"));
	/* Each of the conversation's positions once, but for the last. */
	EXPECT_EQ(two + 11, kit_total(&r, "forwarded"));
	EXPECT_EQ(two + 11, kit_total(&r, "appended"));
	EXPECT_TRUE(kit_verified(&r, 1));
	EXPECT_EQ(24, json_integer_value(json_object_get(
		json_object_get(kit_conv(&r, 1), "verify"), "positions")));
}

/* A line that is no turn is complained about; the chat goes on as it was. */
TEST(chat_goes_on_after_a_line_that_is_no_turn)
{
	struct ran a, b;

	a = kit_run("first turn\nand a second one\n",
		    "-m %s " SMALL " --chat -n 12", MHA);
	b = kit_run("first turn\nab\xff\nand a second one\n",
		    "-m %s " SMALL " --chat -n 12 -p ''", MHA);
	KIT_OK(a);
	EXPECT_EQ(1, b.status);
	EXPECT_TRUE(strstr(b.err, "the prompt is empty") != NULL);
	EXPECT_TRUE(strstr(b.err, "byte 3 is not UTF-8") != NULL);
	ASSERT_EQ(2, kit_nconv(&b));
	EXPECT_STREQ("turn 2", kit_str(&b, 1, "id"));
	EXPECT_TRUE(json_equal(kit_ids(&a, 1), kit_ids(&b, 1)));
	EXPECT_TRUE(kit_counted(&b));
}

/* Log-probabilities against an independent implementation's logits. */
TEST(score_is_right_and_holds_no_page)
{
	char *text = kit_read(REFS "tiny.jsonl"), *line, *save;
	unsigned int done = 0;

	for (line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		json_t *ref = kit_keep(json_loads(line, 0, NULL)), *ids, *at;
		char *list = kit_keep(malloc(8192));
		double max = -INFINITY, sum = 0, want;
		size_t i, n = 0;
		struct ran r;
		json_t *lp;

		ids = json_object_get(ref, "long_ids");
		for (i = 0; i < json_array_size(ids); i++)
			n += sprintf(list + n, "%s%d", i ? "," : "",
				     (int)json_integer_value(
					json_array_get(ids, i)));
		r = kit_run(NULL, "-m " REFS "%s.gguf --weights f32 --json --score --tokens %s",
			    json_string_value(json_object_get(ref, "name")),
			    list);
		KIT_OK(r);
		at = json_object_get(json_object_get(ref, "long_logits_at"),
				     "32");
		for (i = 0; i < json_array_size(at); i++)
			max = fmax(max,
				   json_number_value(json_array_get(at, i)));
		for (i = 0; i < json_array_size(at); i++)
			sum += exp(json_number_value(json_array_get(at, i)) -
				   max);
		want = json_number_value(json_array_get(at,
			json_integer_value(json_array_get(ids, 33)))) - max -
			log(sum);
		lp = json_object_get(json_object_get(kit_conv(&r, 0), "score"),
				     "logprobs");
		EXPECT_EQ(299, json_array_size(lp));
		EXPECT_LT(fabs(json_real_value(json_array_get(lp, 32)) - want),
			  4e-4);
		EXPECT_EQ(0, kit_total(&r, "pages_handed_out"));
		EXPECT_EQ(0, kit_total(&r, "appended"));
		EXPECT_EQ(299, kit_total(&r, "forwarded"));
		done++;
	}
	EXPECT_EQ(9, done);
}

TEST(requests_of_a_file)
{
	struct ran r = kit_run(
		"{\"id\": \"a\", \"prompt\": \"hello\", \"n\": 3}\n\n"
		"{\"tokens\": [1, 5, 9], \"max_tokens\": 5, \"temperature\": 0.9, \"seed\": 7}\n"
		"{\"id\": 12, \"prompt\": \"hello\", \"system\": \"be \", \"temperature\": 0.9, \"top_p\": 0.9, \"min_p\": 0.05}\n",
		"-m %s " SMALL " -n 4 --requests -", MHA);

	KIT_OK(r);
	ASSERT_EQ(3, kit_nconv(&r));
	EXPECT_STREQ("a", kit_str(&r, 0, "id"));
	EXPECT_STREQ("2", kit_str(&r, 1, "id"));
	EXPECT_STREQ("12", kit_str(&r, 2, "id"));
	EXPECT_EQ(3, json_array_size(kit_ids(&r, 0)));
	EXPECT_EQ(5, json_array_size(kit_ids(&r, 1)));
	EXPECT_EQ(4, json_array_size(kit_ids(&r, 2)));
	EXPECT_EQ(5, kit_num(&r, 0, "prompt_tokens"));
	EXPECT_EQ(3, kit_num(&r, 1, "prompt_tokens"));
	EXPECT_EQ(8, kit_num(&r, 2, "prompt_tokens"));
}

/* A seed makes one text, whatever runs beside it; other seeds make others. */
TEST(seeds)
{
	struct ran a, b, c;

	a = kit_run(NULL, "-m %s " SMALL " --temp 1.5 --seed 1 -n 30 -p xyz",
		    MHA);
	b = kit_run(NULL, "-m %s " SMALL " --temp 1.5 --seed 1 -n 30 -p abcdefg -p xyz",
		    MHA);
	c = kit_run(NULL, "-m %s " SMALL " --temp 1.5 --seed 2 -n 30 -p xyz",
		    MHA);
	KIT_OK(a);
	KIT_OK(b);
	KIT_OK(c);
	EXPECT_TRUE(json_equal(kit_ids(&a, 0), kit_ids(&b, 1)));
	EXPECT_FALSE(json_equal(kit_ids(&a, 0), kit_ids(&c, 0)));
}

TEST(timing_has_one_position_a_token)
{
	char path[128], *text, *line, *save;
	unsigned int rows = 0, token, pos, forwarded;
	struct ran r;

	snprintf(path, sizeof(path), "%s/timing.csv", kit_dir());
	r = kit_run(NULL, "-m %s " SMALL " -n 20 -p 1bcdefgh --timing %s", MHA,
		    path);
	KIT_OK(r);
	text = kit_read(path);
	line = strtok_r(text, "\n", &save);
	EXPECT_STREQ("conversation,token,position,forwarded,rows,ms", line);
	while ((line = strtok_r(NULL, "\n", &save))) {
		ASSERT_EQ(3, sscanf(line, "1,%u,%u,%u", &token, &pos,
				    &forwarded));
		rows++;
		EXPECT_EQ(rows, token);
		EXPECT_EQ(7 + rows - 1, pos);
		EXPECT_EQ(rows == 1 ? 8 : 1, forwarded);
	}
	EXPECT_EQ(20, rows);
}

TEST(text_is_streamed_with_names)
{
	struct ran r;
	char *line, *save;
	int one = 0, two = 0;

	r = kit_run(NULL, "-m %s --ignore-end -n 40 -p first -p second", MHA);
	ASSERT_EQ(0, r.status);
	for (line = strtok_r(r.out, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		one += !strncmp(line, "[1] ", 4);
		two += !strncmp(line, "[2] ", 4);
		EXPECT_TRUE(line[0] == '[');
	}
	EXPECT_GT(one, 0);
	EXPECT_GT(two, 0);
	EXPECT_TRUE(strstr(r.err, "conversation ") != NULL);
	r = kit_run(NULL, "-m %s -q --ignore-end -n 4 -p first", MHA);
	ASSERT_EQ(0, r.status);
	EXPECT_STREQ("", r.out);
}

TEST(interrupted_run_reports)
{
	struct ran r;

	/* In the foreground timeout signals the program alone: once, as a
	 * second one ends it at once. */
	r = kit_run(NULL, "-h >/dev/null; timeout --foreground --preserve-status -s INT 2 %s -m %s " SMALL " -n 0 --no-cache -p %s",
		    kit_program(), MHA, shared_text());
	if (r.status != 130)
		ht_log("%s", r.err);
	EXPECT_EQ(130, r.status);
	ASSERT_TRUE(r.json != NULL);
	EXPECT_STREQ("interrupted", kit_str(&r, 0, "finish"));
	EXPECT_GT(json_array_size(kit_ids(&r, 0)), 0);
}

TEST_HARNESS_MAIN
