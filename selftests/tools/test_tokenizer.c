// SPDX-License-Identifier: MIT
/*
 * test_tokenizer.c - token ids against another implementation, made-up
 * vocabularies, and tokenizers that are refused.
 */
#include <time.h>

#include "gguf.h"
#include "gguf_writer.h"
#include "harness.h"
#include "jsonl.h"
#include "pretok.h"
#include "real_model.h"
#include "tokenizer.h"
#include "tokenizer_kit.h"

#define REFS "selftests/data/refs/"
#define MEBI (1 << 20)

static char err[512];

static struct tokenizer *load(const char *path)
{
	struct tokenizer *t;
	struct gguf *g;

	ASSERT_EQ(gguf_open(path, &g, err, sizeof(err)), 0);
	ASSERT_EQ(tokenizer_create(g, &t, err, sizeof(err)), 0);
	gguf_close(g);
	return t;
}

/* The tokenizer of the real model; a test without it is skipped. */
static struct tokenizer *real(void)
{
	return load(real_model());
}

TEST(ids_of_the_reference)
{
	struct tokenizer *t = real();
	static uint32_t ids[4096];
	static char back[4096];
	json_t *j, *want;
	int n, lines = 0;
	const char *s;
	size_t i, len;
	FILE *f;

	f = fopen(REFS "tokenizer.jsonl", "r");
	ASSERT_TRUE(f);
	while ((j = jsonl_next(f))) {
		s = json_string_value(json_object_get(j, "text"));
		len = json_string_length(json_object_get(j, "text"));
		want = json_object_get(j, "ids");
		n = tokenizer_encode(t, s, len,
			json_is_true(json_object_get(j, "special")), ids,
			len + 1);
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
	EXPECT_EQ(lines, 151);
	fclose(f);
	tokenizer_destroy(t);
}

TEST(facts_of_the_real_model)
{
	struct tokenizer *t = real();
	uint32_t ids[8];
	size_t len;

	EXPECT_EQ(tokenizer_size(t), 49152);
	EXPECT_EQ(tokenizer_bos(t), 1);
	EXPECT_EQ(tokenizer_eos(t), 2);
	EXPECT_FALSE(tokenizer_add_bos(t));
	EXPECT_TRUE(tokenizer_is_end(t, 2));
	EXPECT_TRUE(tokenizer_is_end(t, 0));
	EXPECT_FALSE(tokenizer_is_end(t, 1));
	EXPECT_FALSE(tokenizer_is_end(t, 49152));
	EXPECT_EQ(tokenizer_special(t, "<|im_end|>"), 2);
	EXPECT_EQ(tokenizer_special(t, "<|im_start|>"), 1);
	EXPECT_EQ(tokenizer_special(t, "<|im_start|"), TOKEN_NONE);
	EXPECT_EQ(tokenizer_special(t, "<|im_start|>x"), TOKEN_NONE);
	EXPECT_EQ(tokenizer_special(t, ""), TOKEN_NONE);
	/* A word, but no special one. */
	EXPECT_EQ(tokenizer_special(t, "a"), TOKEN_NONE);
	EXPECT_TRUE(tokenizer_is_special(t, 1));
	EXPECT_FALSE(tokenizer_is_special(t, 81));
	EXPECT_FALSE(tokenizer_is_special(t, UINT32_MAX));
	EXPECT_FALSE(tokenizer_piece(t, 49152, &len));
	/* This vocabulary has no token for this byte. */
	EXPECT_EQ(tokenizer_encode(t, "a\x04", 2, false, ids, 8), -EDOM);
	tokenizer_destroy(t);
}

/* Tokens: the 256 bytes; what @merges join to; special ones. */
struct toy {
	const char *model;
	const char *pre;
	const char * const *merges;	/* as "a b", of printable ASCII */
	const char * const *specials;
	uint32_t special_type;
	uint32_t bos;			/* key left out if TOKEN_NONE */
	uint32_t eos;
	uint32_t eot;
	int add_bos;			/* key left out if negative */
};

static const struct toy toy_default = {
	.model = "gpt2", .pre = "gpt-2", .special_type = 3, .bos = TOKEN_NONE,
	.eos = TOKEN_NONE, .eot = TOKEN_NONE, .add_bos = -1,
};

static size_t list_len(const char * const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

static void toy_tokens(struct gw *w, const struct toy *toy)
{
	size_t nm = list_len(toy->merges), ns = list_len(toy->specials), i;
	const char *space;
	char p[64];
	size_t n;

	gw_key_array(w, "tokenizer.ggml.tokens", GGUF_V_STRING,
		     256 + nm + ns);
	for (i = 0; i < 256; i++) {
		n = gw_printable(i, p);
		gw_strn(w, p, n);
	}
	for (i = 0; i < nm; i++) {
		space = strchr(toy->merges[i] + 1, ' ');
		snprintf(p, sizeof(p), "%.*s%s",
			 (int)(space - toy->merges[i]), toy->merges[i],
			 space + 1);
		gw_str(w, p);
	}
	for (i = 0; i < ns; i++)
		gw_str(w, toy->specials[i]);
	gw_key_array(w, "tokenizer.ggml.token_type", GGUF_V_I32,
		     256 + nm + ns);
	for (i = 0; i < 256 + nm + ns; i++)
		gw_u32(w, i < 256 + nm ? 1 : toy->special_type);
}

static int toy_create(const struct toy *toy, struct tokenizer **t)
{
	size_t nm = list_len(toy->merges), i;
	struct gw w = { 0 };
	struct gguf *g;
	int ret;

	gw_header(&w, 3, 0, 5 + (toy->bos != TOKEN_NONE) +
		  (toy->eos != TOKEN_NONE) + (toy->eot != TOKEN_NONE) +
		  (toy->add_bos >= 0));
	gw_key_str(&w, "tokenizer.ggml.model", toy->model);
	gw_key_str(&w, "tokenizer.ggml.pre", toy->pre);
	toy_tokens(&w, toy);
	gw_key_array(&w, "tokenizer.ggml.merges", GGUF_V_STRING, nm);
	for (i = 0; i < nm; i++)
		gw_str(&w, toy->merges[i]);
	if (toy->bos != TOKEN_NONE)
		gw_key_u32(&w, "tokenizer.ggml.bos_token_id", toy->bos);
	if (toy->eos != TOKEN_NONE)
		gw_key_u32(&w, "tokenizer.ggml.eos_token_id", toy->eos);
	if (toy->eot != TOKEN_NONE)
		gw_key_u32(&w, "tokenizer.ggml.eot_token_id", toy->eot);
	if (toy->add_bos >= 0)
		gw_key_bool(&w, "tokenizer.ggml.add_bos_token", toy->add_bos);
	ASSERT_EQ(gguf_open_mem(w.p, w.n, &g, err, sizeof(err)), 0);
	strcpy(err, "");
	ret = tokenizer_create(g, t, err, sizeof(err));
	gguf_close(g);
	gw_free(&w);
	return ret;
}

#define LIST(...) ((const char * const []){ __VA_ARGS__, NULL })

static void expect_ids(const struct tokenizer *t, const char *text,
		       bool special, int n, const uint32_t *want)
{
	size_t len = strlen(text);
	uint32_t got[64];
	char *exact;
	int i, ret;

	/* No byte behind it: reading on is seen. */
	exact = malloc(len);
	ASSERT_TRUE(exact);
	memcpy(exact, text, len);
	ret = tokenizer_encode(t, exact, len, special, got, 64);
	free(exact);
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

TEST(ranks_and_ties)
{
	struct toy toy = toy_default;
	struct tokenizer *t;

	/* 256 "bc", 257 "ab", 258 "aa", 259 "aaa", 260 "aaaa" */
	toy.merges = LIST("b c", "a b", "a a", "aa a", "aa aa");
	ASSERT_EQ(toy_create(&toy, &t), 0);
	/* The better rank wins over the one more to the left. */
	EXPECT_IDS(t, "abc", false, 'a', 256);
	EXPECT_IDS(t, "ab", false, 257);
	/* Of equals the leftmost. */
	EXPECT_IDS(t, "aaa", false, 259);
	EXPECT_IDS(t, "aaaa", false, 260);
	EXPECT_IDS(t, "aaaaa", false, 258, 259);
	EXPECT_IDS(t, "zaaaab", false, 'z', 259, 257);
	EXPECT_IDS(t, "a", false, 'a');
	/* Merges do not cross pieces. */
	EXPECT_IDS(t, "a a", false, 'a', ' ', 'a');
	EXPECT_EQ(tokenizer_encode(t, "", 0, true, NULL, 0), 0);
	tokenizer_destroy(t);
}

TEST(specials_leftmost_longest)
{
	struct toy toy = toy_default;
	struct tokenizer *t;

	toy.merges = LIST("x y");
	/* 257 to 266; of equals the first is used. */
	toy.specials = LIST("<a>", "<a><b>", "<b><c>", "<", "\xc3\xa9",
			    "<a>", "z1", "<a>", "z2", "<ab>");
	ASSERT_EQ(toy_create(&toy, &t), 0);
	EXPECT_IDS(t, "<a>", true, 257);
	EXPECT_IDS(t, "<a><b>", true, 258);
	EXPECT_IDS(t, "<a><b><c>", true, 258, 260, 'c', '>');
	EXPECT_IDS(t, "<ab>", true, 266);
	EXPECT_IDS(t, "<abc", true, 260, 'a', 'b', 'c');
	EXPECT_IDS(t, "xy\xc3\xa9xy<", true, 256, 261, 256, 260);
	EXPECT_IDS(t, "<a>", false, '<', 'a', '>');
	EXPECT_EQ(tokenizer_special(t, "<a>"), 257);
	EXPECT_EQ(tokenizer_special(t, "<a><b>"), 258);
	EXPECT_EQ(tokenizer_special(t, "<a><"), TOKEN_NONE);
	EXPECT_TRUE(tokenizer_is_special(t, 258));
	tokenizer_destroy(t);
	/* Words of the vocabulary rather than control tokens. */
	toy.special_type = 4;
	ASSERT_EQ(toy_create(&toy, &t), 0);
	EXPECT_IDS(t, "<a><b>", false, 258);
	EXPECT_FALSE(tokenizer_is_special(t, 258));
	EXPECT_EQ(tokenizer_special(t, "<a>"), 257);
	tokenizer_destroy(t);
	/* Neither: never in a text, not shown. */
	toy.special_type = 5;
	ASSERT_EQ(toy_create(&toy, &t), 0);
	EXPECT_IDS(t, "<ab>", true, '<', 'a', 'b', '>');
	EXPECT_TRUE(tokenizer_is_special(t, 258));
	EXPECT_EQ(tokenizer_special(t, "<a>"), TOKEN_NONE);
	tokenizer_destroy(t);
}

TEST(whole_words_come_first_where_the_model_says)
{
	struct toy toy = toy_default;
	struct tokenizer *t;

	/* Merges reach "ab" + "cd" but never "abcd": it is made of "abc". */
	toy.merges = LIST("a b", "c d", "ab c", "abc d");
	toy.bos = 0;
	ASSERT_EQ(toy_create(&toy, &t), 0);
	EXPECT_IDS(t, "abcd", false, 256, 257);
	EXPECT_FALSE(tokenizer_add_bos(t));
	tokenizer_destroy(t);
	toy.pre = "llama-bpe";
	ASSERT_EQ(toy_create(&toy, &t), 0);
	EXPECT_IDS(t, "abcd", false, 259);
	EXPECT_TRUE(tokenizer_add_bos(t));
	tokenizer_destroy(t);
	toy.add_bos = 0;
	ASSERT_EQ(toy_create(&toy, &t), 0);
	EXPECT_FALSE(tokenizer_add_bos(t));
	tokenizer_destroy(t);
}

TEST(ends)
{
	struct toy toy = toy_default;
	struct tokenizer *t;

	toy.merges = LIST("a b");
	toy.specials = LIST("<|eot_id|>", "</s>", "<|other|>", "<|turn|>");
	toy.eos = 258;
	toy.eot = 260;
	ASSERT_EQ(toy_create(&toy, &t), 0);
	EXPECT_EQ(tokenizer_bos(t), TOKEN_NONE);
	EXPECT_EQ(tokenizer_eos(t), 258);
	EXPECT_TRUE(tokenizer_is_end(t, 257));
	EXPECT_TRUE(tokenizer_is_end(t, 258));
	EXPECT_FALSE(tokenizer_is_end(t, 259));
	EXPECT_TRUE(tokenizer_is_end(t, 260));
	EXPECT_FALSE(tokenizer_is_end(t, TOKEN_NONE));
	tokenizer_destroy(t);
	toy.eot = 261;
	EXPECT_EQ(toy_create(&toy, &t), -EINVAL);
	EXPECT_TRUE(strstr(err, "eot_token_id is not one of 261 tokens"));
}

TEST(tiny_models_have_toy_vocabularies)
{
	struct tokenizer *t = load(REFS "tiny-mha-f16.gguf");

	EXPECT_EQ(tokenizer_size(t), 272);
	EXPECT_EQ(tokenizer_bos(t), 1);
	EXPECT_EQ(tokenizer_eos(t), 2);
	EXPECT_IDS(t, "the<|c7|>\xc3\xa9", true, 271, 15 + 'e', 7, 15 + 0xc3,
		   15 + 0xa9);
	tokenizer_destroy(t);
}

TEST(not_utf8_and_no_room)
{
	struct tokenizer *t = load(REFS "tiny-mha-f16.gguf");
	static const char * const bad[] = {
		"\xff", "abc\x80", "\xc3", "<|c1|>\xed\xa0\x80",
		"\xf4\x90\x80\x80",
	};
	uint32_t ids[8], poison = 0xcccccccc;
	size_t i;

	for (i = 0; i < 5; i++)
		EXPECT_EQ(tokenizer_encode(t, bad[i], strlen(bad[i]), true,
					   ids, 8), -EILSEQ);
	memset(ids, 0xcc, sizeof(ids));
	EXPECT_EQ(tokenizer_encode(t, "abcd", 4, false, ids, 3), -EMSGSIZE);
	EXPECT_EQ(ids[3], poison);
	EXPECT_EQ(tokenizer_encode(t, "a<|c1|>", 7, true, ids, 1), -EMSGSIZE);
	EXPECT_EQ(ids[3], poison);
	EXPECT_EQ(tokenizer_encode(t, "abcd", 4, false, ids, 4), 4);
	EXPECT_EQ(tokenizer_encode(t, "a", (size_t)INT32_MAX + 1, false, ids,
				   8), -E2BIG);
	tokenizer_destroy(t);
}

static void refuse(const struct toy *toy, int code, const char *text)
{
	struct tokenizer *t = NULL;
	int ret = toy_create(toy, &t);

	if (ret != code || !strstr(err, text))
		ht_log("wanted %d \"%s\", got %d \"%s\"", code, text, ret,
		       err);
	EXPECT_EQ(ret, code);
	EXPECT_TRUE(strstr(err, text));
	EXPECT_FALSE(strchr(err, '\n'));
	EXPECT_TRUE(strchr(err, ';'));
	EXPECT_FALSE(t);
}

TEST(refused)
{
	static const char * const models[] = {
		"llama2", "bert", "t5", "gpt2x", "gpt", "",
	};
	struct toy toy = toy_default;
	size_t i;

	refuse(&toy, -EINVAL, "no list of merges");
	toy.merges = LIST("a b");
	for (i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		toy.model = models[i];
		refuse(&toy, -EOPNOTSUPP, "which is not known");
	}
	toy.model = "gpt2";
	toy.pre = "command-r";
	refuse(&toy, -EOPNOTSUPP, "tokenizer.ggml.pre is \"command-r\"");
	refuse(&toy, -EOPNOTSUPP,
	       "one of smollm, gpt-2, default, llama-bpe, qwen2");
	/* What is in the file does not reach a terminal as it is. */
	toy.pre = "a\nb\x1b[2J\x7f";
	refuse(&toy, -EOPNOTSUPP, "tokenizer.ggml.pre is \"a?b?[2J?\"");
	toy.pre = "gpt-2";
	toy.eos = 257;
	refuse(&toy, -EINVAL, "tokenizer.ggml.eos_token_id is not one of 257");
	toy.eos = TOKEN_NONE;
	toy.add_bos = 1;
	refuse(&toy, -EINVAL, "no key tokenizer.ggml.bos_token_id");
	toy.add_bos = 2;
	refuse(&toy, -EINVAL, "add_bos_token is not true or false");
	toy.add_bos = -1;
	toy.specials = LIST("<a>");
	toy.special_type = 7;
	refuse(&toy, -EINVAL, "the type of token 257");
	toy.special_type = 3;
	toy.specials = LIST("\xff");
	refuse(&toy, -EINVAL, "token 257 is not UTF-8");
	toy.special_type = 1;
	refuse(&toy, -EINVAL, "token 257 is not UTF-8");
}

/* A file of @nkeys keys is refused as a tokenizer. */
static void refuse_keys(unsigned int nkeys, const struct gw *keys,
			const char *text)
{
	struct tokenizer *t = NULL;
	struct gw w = { 0 };
	struct gguf *g;

	gw_header(&w, 3, 0, nkeys);
	gw_bytes(&w, keys->p, keys->n);
	ASSERT_EQ(gguf_open_mem(w.p, w.n, &g, err, sizeof(err)), 0);
	strcpy(err, "");
	EXPECT_EQ(tokenizer_create(g, &t, err, sizeof(err)), -EINVAL);
	if (!strstr(err, text))
		ht_log("wanted \"%s\", got \"%s\"", text, err);
	EXPECT_TRUE(strstr(err, text));
	EXPECT_FALSE(t);
	gguf_close(g);
	gw_free(&w);
}

TEST(keys_missing_or_of_another_type)
{
	static const char * const merges[] = {
		"ab", "a", "", " ", "a ", " b", "a c", "a \xff", "\xff a",
		"a b c",
	};
	struct gw w = { 0 }, m;
	size_t i;

	refuse_keys(0, &w, "no key tokenizer.ggml.model");
	gw_key_str(&w, "tokenizer.ggml.model", "gpt2");
	refuse_keys(1, &w, "no key tokenizer.ggml.pre");
	gw_key_str(&w, "tokenizer.ggml.pre", "qwen2");
	refuse_keys(2, &w, "no list of tokens");
	gw_key_array(&w, "tokenizer.ggml.tokens", GGUF_V_STRING, 3);
	gw_str(&w, "a");
	gw_str(&w, "b");
	gw_str(&w, "ab");
	refuse_keys(3, &w, "no list of merges");
	for (i = 0; i < sizeof(merges) / sizeof(merges[0]); i++) {
		m = (struct gw){ 0 };
		gw_bytes(&m, w.p, w.n);
		gw_key_array(&m, "tokenizer.ggml.merges", GGUF_V_STRING, 2);
		gw_str(&m, "a b");
		gw_str(&m, merges[i]);
		refuse_keys(4, &m, "merge 1 is ");
		gw_free(&m);
	}
	m = (struct gw){ 0 };
	gw_bytes(&m, w.p, w.n);
	gw_key_array(&m, "tokenizer.ggml.merges", GGUF_V_U32, 1);
	gw_u32(&m, 1);
	refuse_keys(4, &m, "no list of merges");
	gw_free(&m);
	gw_key_array(&w, "tokenizer.ggml.token_type", GGUF_V_I32, 2);
	gw_u32(&w, 1);
	gw_u32(&w, 1);
	refuse_keys(4, &w, "not one number for each of 3 tokens");
	gw_free(&w);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

TEST(long_words_take_no_square_of_time)
{
	static const char * const patterns[] = {
		"a", "ab", " ", "\n", " \n", "1", "!", "'", "\xe3\x81\x82",
		"<|im_", "\t x", "\xcc\x81",
	};
	char *text = malloc(MEBI + 8), *back = malloc(MEBI + 8);
	uint32_t *ids = malloc((MEBI + 1) * sizeof(*ids));
	struct toy toy = toy_default;
	struct tokenizer *t;
	size_t i, len, plen;
	unsigned int k;
	double start;
	int n;

	ASSERT_TRUE(text && back && ids);
	toy.merges = LIST("a b", "a a", "aa aa", "aaaa aaaa", "ab ab",
			  "! !", "1 1", "< |", "i m");
	toy.specials = LIST("<|im_start|>", "<|im_end|>");
	toy.bos = 0;
	for (k = 0; (toy.pre = pretok_name(k)); k++) {
		ASSERT_EQ(toy_create(&toy, &t), 0);
		for (i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
			plen = strlen(patterns[i]);
			for (len = 0; len + plen <= MEBI; len += plen)
				memcpy(text + len, patterns[i], plen);
			start = seconds();
			n = tokenizer_encode(t, text, len, true, ids,
					     len + 1);
			start = seconds() - start;
			ASSERT_GT(n, 0);
			ASSERT_EQ(decode(t, ids, n, back), len);
			ASSERT_EQ(memcmp(back, text, len), 0);
			/* A square of 2^20 steps takes minutes. */
			if (start > 10)
				ht_log("%s, pattern %zu: %g s", toy.pre, i,
				       start);
			EXPECT_LT(start, 10.0);
		}
		tokenizer_destroy(t);
	}
	free(text);
	free(back);
	free(ids);
}

TEST_HARNESS_MAIN
