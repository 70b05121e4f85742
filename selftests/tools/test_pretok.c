// SPDX-License-Identifier: MIT
/*
 * test_pretok.c - how texts are cut, against another implementation; UTF-8.
 */
#include "harness.h"
#include "jsonl.h"
#include "pretok.h"
#include "utf8.h"

#define REFS "selftests/data/refs/"
#define MEBI (1 << 20)

struct want_pieces {
	const json_t *lengths;
	const char *at;
	size_t n;
	bool equal;
};

static int compare_piece(void *arg, const char *s, size_t len)
{
	struct want_pieces *w = arg;

	w->equal = w->equal && s == w->at && len ==
		json_integer_value(json_array_get(w->lengths, w->n));
	w->n++;
	w->at = s + len;
	return 0;
}

TEST(pieces_of_the_reference)
{
	struct want_pieces w;
	const char *name, *s;
	int lines = 0, texts;
	struct pretok *p;
	unsigned int i;
	size_t len;
	json_t *j;
	FILE *f;

	f = fopen(REFS "pretokenizer.jsonl", "r");
	ASSERT_TRUE(f);
	for (i = 0; (name = pretok_name(i)); i++) {
		ASSERT_EQ(pretok_create(name, strlen(name), &p), 0);
		texts = 0;
		rewind(f);
		while ((j = jsonl_next(f))) {
			s = json_string_value(json_object_get(j, "text"));
			len = json_string_length(json_object_get(j, "text"));
			w = (struct want_pieces){
				json_object_get(j, name), s, 0, true };
			ASSERT_TRUE(w.lengths);
			ASSERT_EQ(pretok_split(p, s, len, compare_piece, &w),
				  0);
			EXPECT_EQ(w.n, json_array_size(w.lengths));
			if (!w.equal)
				ht_log("%s: %s", name, s);
			EXPECT_TRUE(w.equal);
			json_decref(j);
			texts++;
		}
		EXPECT_EQ(texts, 164);
		lines += texts;
		pretok_destroy(p);
	}
	EXPECT_EQ(lines, 5 * 164);
	fclose(f);
}

static int stop_at_b(void *arg, const char *s, size_t len)
{
	++*(int *)arg;
	return *s == 'b' ? -ECANCELED : 0;
}

TEST(a_piece_can_end_the_split)
{
	struct pretok *p;
	int n = 0;

	EXPECT_EQ(pretok_create("smollm2", 7, &p), -EOPNOTSUPP);
	EXPECT_EQ(pretok_create("smoll", 5, &p), -EOPNOTSUPP);
	EXPECT_EQ(pretok_create("", 0, &p), -EOPNOTSUPP);
	ASSERT_EQ(pretok_create("smollm", 6, &p), 0);
	EXPECT_EQ(pretok_split(p, "1b1c", 4, stop_at_b, &n), -ECANCELED);
	EXPECT_EQ(n, 2);
	n = 0;
	EXPECT_EQ(pretok_split(p, "", 0, stop_at_b, &n), 0);
	EXPECT_EQ(n, 0);
	pretok_destroy(p);
}

TEST(utf8)
{
	static const struct {
		const char *s;
		int n;
		uint32_t cp;
	} c[] = {
		{ "\x01", 1, 1 },		{ "\x7f", 1, 0x7f },
		{ "\xc2\x80", 2, 0x80 },	{ "\xdf\xbf", 2, 0x7ff },
		{ "\xe0\xa0\x80", 3, 0x800 },	{ "\xed\x9f\xbf", 3, 0xd7ff },
		{ "\xee\x80\x80", 3, 0xe000 },	{ "\xef\xbf\xbf", 3, 0xffff },
		{ "\xf0\x90\x80\x80", 4, 0x10000 },
		{ "\xf4\x8f\xbf\xbf", 4, 0x10ffff },
		{ "\x80", -EILSEQ, 0 },		{ "\xbf", -EILSEQ, 0 },
		{ "\xc0\x80", -EILSEQ, 0 },	{ "\xc1\xbf", -EILSEQ, 0 },
		{ "\xe0\x9f\xbf", -EILSEQ, 0 },	{ "\xed\xa0\x80", -EILSEQ, 0 },
		{ "\xed\xbf\xbf", -EILSEQ, 0 },
		{ "\xf0\x8f\xbf\xbf", -EILSEQ, 0 },
		{ "\xf4\x90\x80\x80", -EILSEQ, 0 },
		{ "\xf5\x80\x80\x80", -EILSEQ, 0 },
		{ "\xff", -EILSEQ, 0 },		{ "\xc2", -EILSEQ, 0 },
		{ "\xe0\xa0", -EILSEQ, 0 },	{ "\xf0\x90\x80", -EILSEQ, 0 },
		{ "\xc2" "A", -EILSEQ, 0 },	{ "\xe0\xa0" "A", -EILSEQ, 0 },
	};
	char text[40];
	uint32_t cp;
	size_t i, at;

	for (i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		cp = 0;
		EXPECT_EQ(utf8_decode(c[i].s, strlen(c[i].s), &cp), c[i].n);
		EXPECT_EQ(cp, c[i].cp);
		/* Wherever it stands among ASCII. */
		for (at = 0; at < 20; at++) {
			memset(text, 'a', sizeof(text));
			memcpy(text + at, c[i].s, strlen(c[i].s));
			EXPECT_EQ(utf8_valid(text, sizeof(text)),
				  c[i].n > 0);
		}
	}
	EXPECT_TRUE(utf8_valid("", 0));
	EXPECT_TRUE(utf8_valid("a\0b", 3));
}

static int count_piece(void *arg, const char *s, size_t len)
{
	++*(size_t *)arg;
	return 0;
}

TEST(a_run_of_spaces_has_no_limit)
{
	const size_t len = 12 * MEBI;
	char *text = malloc(len);
	struct pretok *p;
	const char *name;
	unsigned int i;
	size_t n;

	ASSERT_TRUE(text);
	memset(text, ' ', len);
	for (i = 0; (name = pretok_name(i)); i++) {
		ASSERT_EQ(pretok_create(name, strlen(name), &p), 0);
		n = 0;
		EXPECT_EQ(pretok_split(p, text, len, count_piece, &n), 0);
		EXPECT_EQ(n, 1);
		pretok_destroy(p);
	}
	free(text);
}

TEST_HARNESS_MAIN
