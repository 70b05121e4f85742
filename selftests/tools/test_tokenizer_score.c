// SPDX-License-Identifier: MIT
/*
 * test_tokenizer_score.c - characters that join by score, as SentencePiece
 * has them: against a plain loop over made-up vocabularies, and against
 * another implementation with a real one.
 */
#include <time.h>

#include "gguf.h"
#include "gguf_writer.h"
#include "harness.h"
#include "jsonl.h"
#include "real_model.h"
#include "tokenizer.h"
#include "tokenizer_kit.h"

#define SPACE "\xe2\x96\x81"
#define MAX 512

static char err[512];

/* A vocabulary: <unk>, <s>, </s>, 256 bytes if wanted, then words. */
struct toy {
	char word[MAX][32];
	float score[MAX];
	int kind[MAX];
	int n;
	int space_first;	/* -1: the key is left out */
	bool no_unknown;
	int nscores;		/* 0: @n */
};

static void add(struct toy *t, const char *word, float score, int kind)
{
	snprintf(t->word[t->n], sizeof(t->word[0]), "%s", word);
	t->score[t->n] = score;
	t->kind[t->n++] = kind;
}

static void begin(struct toy *t, bool bytes)
{
	char name[8];
	int b;

	memset(t, 0, sizeof(*t));
	t->space_first = 0;
	add(t, "<unk>", 0, 2);
	add(t, "<s>", 0, 3);
	add(t, "</s>", 0, 3);
	for (b = 0; bytes && b < 256; b++) {
		snprintf(name, sizeof(name), "<0x%02X>", b);
		add(t, name, 0, 6);
	}
}

static int create(const struct toy *toy, struct tokenizer **t)
{
	int n = toy->n, i, nscores = toy->nscores ? toy->nscores : n;
	struct gw w = { 0 };
	struct gguf *g;
	int ret;

	gw_header(&w, 3, 0, 6 + (toy->space_first >= 0));
	gw_key_str(&w, "tokenizer.ggml.model", "llama");
	gw_key_array(&w, "tokenizer.ggml.tokens", GGUF_V_STRING, n);
	for (i = 0; i < n; i++)
		gw_str(&w, toy->word[i]);
	gw_key_array(&w, "tokenizer.ggml.scores", GGUF_V_F32, nscores);
	for (i = 0; i < nscores; i++)
		gw_bytes(&w, &toy->score[i], sizeof(float));
	gw_key_array(&w, "tokenizer.ggml.token_type", GGUF_V_I32, n);
	for (i = 0; i < n; i++)
		gw_u32(&w, toy->no_unknown && toy->kind[i] == 2 ? 1 :
			   toy->kind[i]);
	gw_key_u32(&w, "tokenizer.ggml.bos_token_id", 1);
	gw_key_u32(&w, "tokenizer.ggml.eos_token_id", 2);
	if (toy->space_first >= 0)
		gw_key_bool(&w, "tokenizer.ggml.add_space_prefix",
			    toy->space_first);
	ASSERT_EQ(gguf_open_mem(w.p, w.n, &g, err, sizeof(err)), 0);
	strcpy(err, "");
	ret = tokenizer_create(g, t, err, sizeof(err));
	gguf_close(g);
	gw_free(&w);
	return ret;
}

static void expect_ids(const struct tokenizer *t, const char *text,
		       bool special, int n, const uint32_t *want)
{
	uint32_t got[64];
	int i, ret;

	ret = tokenizer_encode(t, text, strlen(text), special, got, 64);
	if (ret != n)
		ht_log("text: %s", text);
	ASSERT_EQ(ret, n);
	for (i = 0; i < n; i++)
		EXPECT_EQ(got[i], want[i]);
}
#define EXPECT_IDS(t, text, special, ...) do {				\
		const uint32_t ids_[] = { __VA_ARGS__ };		\
		expect_ids(t, text, special, sizeof(ids_) / 4, ids_);	\
	} while (0)

/* ---- by hand ---------------------------------------------------------- */

enum { W = 3 + 256 };	/* id of the first word */

TEST(best_score_first_then_leftmost)
{
	struct tokenizer *t;
	struct toy toy;

	begin(&toy, true);
	add(&toy, "a", -9, 1);			/* W */
	add(&toy, "b", -9, 1);
	add(&toy, "ab", -2, 1);			/* W + 2 */
	add(&toy, "ba", -1, 1);
	add(&toy, "aba", -3, 1);		/* W + 4 */
	add(&toy, SPACE, -5, 1);
	add(&toy, SPACE "a", -4, 1);		/* W + 6 */
	add(&toy, "bb", -1, 1);
	ASSERT_EQ(create(&toy, &t), 0);
	EXPECT_IDS(t, "ab", false, W + 2);
	/* "ba" joins before "ab", and then "aba" is what is left. */
	EXPECT_IDS(t, "aba", false, W + 4);
	/* "ba" and "bb" score the same: the left one. */
	EXPECT_IDS(t, "bba", false, W + 7, W);
	EXPECT_IDS(t, "bab", false, W + 3, W + 1);
	EXPECT_IDS(t, " a", false, W + 6);
	EXPECT_IDS(t, "a ", false, W, W + 5);
	/* What stands for a space is one. */
	EXPECT_IDS(t, SPACE "a", false, W + 6);
	tokenizer_destroy(t);
}

TEST(what_is_no_word_is_bytes)
{
	struct tokenizer *t;
	struct toy toy;

	begin(&toy, true);
	add(&toy, "a", 0, 1);
	add(&toy, "\xc3\xa9", 0, 1);
	ASSERT_EQ(create(&toy, &t), 0);
	EXPECT_IDS(t, "a\n", false, W, 3 + '\n');
	EXPECT_IDS(t, "\xc3\xa9\xc3\xa8", false, W + 1, 3 + 0xc3, 3 + 0xa8);
	/* A byte's token is none of a text that looks like it. */
	EXPECT_IDS(t, "<0x0A>", false, 3 + '<', 3 + '0', 3 + 'x', 3 + '0',
		   3 + 'A', 3 + '>');
	tokenizer_destroy(t);
	/* Without them a character is unknown, or refused. */
	begin(&toy, false);
	add(&toy, "a", 0, 1);
	ASSERT_EQ(create(&toy, &t), 0);
	EXPECT_IDS(t, "a\xc3\xa8" "a", false, 3, 0, 3);
	tokenizer_destroy(t);
	toy.no_unknown = true;
	ASSERT_EQ(create(&toy, &t), 0);
	EXPECT_EQ(tokenizer_encode(t, "a\n", 2, false, (uint32_t[8]){ 0 }, 8),
		  -EDOM);
	tokenizer_destroy(t);
}

TEST(special_tokens_and_words_that_were_added)
{
	struct tokenizer *t;
	struct toy toy;

	begin(&toy, true);
	add(&toy, "a", 0, 1);
	add(&toy, SPACE SPACE, 0, 4);		/* W + 1 */
	add(&toy, SPACE SPACE SPACE, 0, 4);
	add(&toy, "<b>", 0, 4);			/* W + 3 */
	ASSERT_EQ(create(&toy, &t), 0);
	EXPECT_IDS(t, "a  a", false, W, W + 1, W);
	EXPECT_IDS(t, "a     a", false, W, W + 2, W + 1, W);
	EXPECT_IDS(t, "a<b>", false, W, W + 3);
	EXPECT_IDS(t, "a</s>", true, W, 2);
	/* No text makes a control token unless that is asked for. */
	EXPECT_IDS(t, "</s>", false, 3 + '<', 3 + '/', 3 + 's', 3 + '>');
	EXPECT_EQ(tokenizer_special(t, "<b>"), W + 3);
	EXPECT_EQ(tokenizer_bos(t), 1);
	EXPECT_TRUE(tokenizer_add_bos(t));
	EXPECT_TRUE(tokenizer_is_end(t, 2));
	EXPECT_TRUE(tokenizer_is_special(t, 0));
	tokenizer_destroy(t);
}

TEST(a_space_goes_first_where_the_model_says)
{
	struct tokenizer *t;
	struct toy toy;
	int said;

	for (said = -1; said <= 1; said += 2) {
		begin(&toy, true);
		toy.space_first = said;
		add(&toy, "a", 0, 1);
		add(&toy, SPACE "a", 0, 1);	/* W + 1 */
		add(&toy, "<b>", 0, 4);
		ASSERT_EQ(create(&toy, &t), 0);
		EXPECT_IDS(t, "aa", false, W + 1, W);
		EXPECT_IDS(t, "a</s>a", true, W + 1, 2, W + 1);
		EXPECT_IDS(t, "a<b>a", true, W + 1, W + 2, W);
		EXPECT_EQ(tokenizer_encode(t, "", 0, true, NULL, 0), 0);
		tokenizer_destroy(t);
	}
}

static void refuse(const struct toy *toy, const char *text)
{
	struct tokenizer *t = NULL;

	EXPECT_EQ(create(toy, &t), -EINVAL);
	if (!strstr(err, text))
		ht_log("wanted \"%s\", got \"%s\"", text, err);
	EXPECT_TRUE(strstr(err, text));
	EXPECT_TRUE(strchr(err, ';'));
	EXPECT_FALSE(t);
}

TEST(refused)
{
	static struct toy toy;

	begin(&toy, true);
	toy.nscores = toy.n - 1;
	refuse(&toy, "scores is not one number for each of 259 tokens");
	toy.nscores = 0;
	toy.score[5] = 0.0f / 0.0f;
	refuse(&toy, "scores: that of token 5 is no number");
	toy.score[5] = 0;
	strcpy(toy.word[4], "<0x1>");
	refuse(&toy, "token 4 is not a byte as <0x0A> is");
}

/* ---- against a plain loop --------------------------------------------- */

static uint32_t state = 1;

static uint32_t rnd(uint32_t n)
{
	state = state * 1664525 + 1013904223;
	return (state >> 8) % n;
}

/* Id of a word, or -1. */
static int find(const struct toy *t, const char *s)
{
	int i;

	for (i = 0; i < t->n; i++)
		if (t->kind[i] == 1 && !strcmp(t->word[i], s))
			return i;
	return -1;
}

/* The definition. @part: the text's characters, @n of them. */
static int plain(const struct toy *t, char (*part)[64], int n, uint32_t *out)
{
	char both[160], best[160];
	int i, at, id, count = 0;
	unsigned int b;
	float score;

	for (;;) {
		at = -1;
		score = 0;
		for (i = 0; i + 1 < n; i++) {
			strcpy(both, part[i]);
			strcat(both, part[i + 1]);
			id = find(t, both);
			if (id < 0 || (at >= 0 && t->score[id] <= score))
				continue;
			at = i;
			score = t->score[id];
			strcpy(best, both);
		}
		if (at < 0)
			break;
		strcpy(part[at], best);
		memmove(part[at + 1], part[at + 2],
			(n - at - 2) * sizeof(part[0]));
		n--;
	}
	for (i = 0; i < n; i++) {
		id = find(t, part[i]);
		if (id >= 0) {
			out[count++] = id;
			continue;
		}
		if (!strcmp(part[i], SPACE))
			strcpy(part[i], " ");
		for (b = 0; part[i][b]; b++)
			out[count++] = 3 + (unsigned char)part[i][b];
	}
	return count;
}

TEST(random_vocabularies_equal_a_plain_loop)
{
	static const char *const chars[] = {
		"a", "b", SPACE, "\xc3\xa9", "\xf0\x9f\x98\x80",
	};
	static struct toy toy;
	static char part[48][64];
	uint32_t got[512], want[512];
	char text[512], back[512], word[32];
	int round, i, k, n, len, nwords;
	struct tokenizer *t;

	state = getenv("SEED") ? atoi(getenv("SEED")) : time(NULL);
	ht_log("SEED=%u", state);
	for (round = 0; round < 300; round++) {
		begin(&toy, true);
		for (i = 0; i < 5; i++)
			if (rnd(4))
				add(&toy, chars[i], -(float)rnd(4), 1);
		nwords = rnd(40);
		for (i = 0; i < nwords; i++) {
			word[0] = '\0';
			for (k = 2 + rnd(4); k; k--)
				strcat(word, chars[rnd(5)]);
			if (find(&toy, word) < 0)
				add(&toy, word, -(float)rnd(6), 1);
		}
		ASSERT_EQ(create(&toy, &t), 0);
		for (i = 0; i < 20; i++) {
			len = 1 + rnd(47);
			text[0] = '\0';
			for (k = 0; k < len; k++) {
				strcpy(part[k], chars[rnd(5)]);
				strcat(text, !strcmp(part[k], SPACE) ? " " :
				       part[k]);
			}
			n = plain(&toy, part, len, want);
			ASSERT_EQ(tokenizer_encode(t, text, strlen(text),
						   false, got, 512), n);
			ASSERT_EQ(memcmp(got, want, n * sizeof(*got)), 0);
			ASSERT_EQ(decode(t, got, n, back), strlen(text));
			ASSERT_EQ(memcmp(back, text, strlen(text)), 0);
		}
		tokenizer_destroy(t);
	}
}

/* ---- a real one ------------------------------------------------------- */

TEST(ids_of_the_reference)
{
	static uint32_t ids[4096];
	static char back[4096];
	struct tokenizer *t;
	const char *s;
	json_t *j, *want;
	struct gguf *g;
	int n, lines = 0;
	size_t i, len;
	FILE *f;

	ASSERT_EQ(gguf_open(real_gemma(), &g, err, sizeof(err)), 0);
	ASSERT_EQ(tokenizer_create(g, &t, err, sizeof(err)), 0);
	gguf_close(g);
	EXPECT_EQ(tokenizer_size(t), 262144);
	EXPECT_EQ(tokenizer_bos(t), 2);
	EXPECT_TRUE(tokenizer_add_bos(t));
	EXPECT_TRUE(tokenizer_is_end(t, 1));
	f = fopen("selftests/data/refs/tokenizer-gemma3.jsonl", "r");
	ASSERT_TRUE(f);
	while ((j = jsonl_next(f))) {
		s = json_string_value(json_object_get(j, "text"));
		len = json_string_length(json_object_get(j, "text"));
		want = json_object_get(j, "ids");
		n = tokenizer_encode(t, s, len, false, ids, len + 1);
		if (n != json_array_size(want))
			ht_log("text: %s", s);
		ASSERT_EQ(n, json_array_size(want));
		for (i = 0; i < n; i++)
			EXPECT_EQ(ids[i], json_integer_value(
					  json_array_get(want, i)));
		EXPECT_EQ(decode(t, ids, n, back), len);
		EXPECT_EQ(memcmp(back, s, len), 0);
		json_decref(j);
		lines++;
	}
	EXPECT_GT(lines, 100);
	fclose(f);
	tokenizer_destroy(t);
}

TEST_HARNESS_MAIN
