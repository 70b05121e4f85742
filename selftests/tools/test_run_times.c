// SPDX-License-Identifier: MIT
/*
 * test_run_times.c - kvcache-run: the times that it reports are those that the
 * steps took: to the first token, and the rates.
 */
#include <math.h>

#include "run_kit.h"

#define MHA REFS "tiny-mha-f16.gguf"
#define SMALL "-m " MHA " --kv f32 --weights f32 --ignore-end --no-reuse"
#define NEW 12

/* What JSON prints is rounded to 9 digits, --timing to a microsecond. */
#define CLOSE_MS 0.01

static double ms(const struct ran *r, size_t i, const char *key)
{
	json_t *v = json_object_get(kit_conv(r, i), key);

	EXPECT_TRUE(json_is_real(v));
	return json_real_value(v);
}

/* 150 tokens. */
static const char *prompt(char first)
{
	static char s[2][151];
	int i;

	for (i = 0; i < 150; i++)
		s[first & 1][i] = 'a' + (i * 7 + i / 26 + first) % 15;
	return s[first & 1];
}

/* The steps of --timing: ms of the first token's, and of all the others. */
static void steps_of(const char *path, const char *name, double *first,
		     double *rest)
{
	char *text = kit_read(path), *line, *save;
	unsigned int token;
	double took;
	size_t n = strlen(name);

	*first = *rest = 0;
	for (line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		if (strncmp(line, name, n) || line[n] != ',')
			continue;
		ASSERT_EQ(2, sscanf(line + n, ",%u,%*u,%*u,%*u,%lf", &token,
				    &took));
		*(token == 1 ? first : rest) += took;
	}
	EXPECT_GT(*first, 0);
	EXPECT_GT(*rest, 0);
}

/* One after the other: what one waits is what the other took. */
TEST(first_token)
{
	const char *path = kit_file("timing.csv", "", 0);
	double first[2], rest[2], wait, got, wall;
	struct ran r;
	int i;

	r = kit_run(NULL, SMALL " --json --parallel 1 -n %d -p %s -p %s --timing %s",
		    NEW, prompt(1), prompt(2), path);
	KIT_OK(r);
	wall = 1e3 * json_real_value(json_object_get(
			     json_object_get(r.json, "totals"), "wall_s"));
	for (i = 0; i < 2; i++) {
		steps_of(path, i ? "2" : "1", &first[i], &rest[i]);
		wait = ms(&r, i, "waited_ms");
		got = ms(&r, i, "first_token_ms");
		/* It waits, then its prompt is computed in one step. */
		EXPECT_GT(got, wait + first[i] - CLOSE_MS);
		EXPECT_LT(got, wall);
		/* Rates are over just these times. */
		EXPECT_LT(fabs(got - wait - 1e3 * 150 /
			       ms(&r, i, "prefill_tokens_per_s")), CLOSE_MS);
		EXPECT_GT(1e3 * (NEW - 1) / ms(&r, i, "decode_tokens_per_s"),
			  rest[i] - CLOSE_MS);
	}
	EXPECT_GT(ms(&r, 1, "waited_ms"),
		  ms(&r, 0, "first_token_ms") + rest[0] - CLOSE_MS);
	EXPECT_GT(ms(&r, 1, "first_token_ms"),
		  first[0] + rest[0] + first[1] - CLOSE_MS);
}

/* A prompt in 150 steps: all of them are before the first token. */
TEST(first_token_of_a_prompt_in_chunks)
{
	struct ran r;

	r = kit_run(NULL, SMALL " --json -n 1 --chunk 1 -p %s", prompt(1));
	KIT_OK(r);
	EXPECT_EQ(150, kit_total(&r, "steps"));
	EXPECT_LT(fabs(ms(&r, 0, "first_token_ms") - ms(&r, 0, "waited_ms") -
		       1e3 * 150 / ms(&r, 0, "prefill_tokens_per_s")),
		  CLOSE_MS);
}

/* The same in the table: its sixth column, beside two words of bytes. */
TEST(first_token_in_the_table)
{
	unsigned int tokens, pages;
	double first, ran;
	const char *row, *at;
	struct ran r;

	r = kit_run(NULL, SMALL " -q -n 2 --chunk 1 -p %s", prompt(1));
	ASSERT_EQ(0, r.status);
	row = strstr(r.err, "\n1 ");
	at = strstr(r.err, ", ran ");
	ASSERT_TRUE(row && at);
	ASSERT_EQ(1, sscanf(at, ", ran %lf s", &ran));
	ASSERT_EQ(3, sscanf(row, " 1 %u %*u %*u %u %*s %*s %lf ms", &tokens,
			    &pages, &first));
	EXPECT_EQ(150, tokens);
	EXPECT_EQ(1, pages);
	EXPECT_GE(first, 1);
	EXPECT_LE(first, 1e3 * ran + 11);
}

TEST_HARNESS_MAIN
