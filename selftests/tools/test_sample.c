// SPDX-License-Identifier: MIT
/*
 * test_sample.c - choices of tokens: exact ones for given seeds, and how often
 * each comes up.
 */
#include <math.h>
#include "harness.h"
#include "sample.h"

#define N 8
/* Natural logarithms of 0.4, 0.3, 0.2, 0.05, 0.03, 0.01, 0.007, 0.003. */
static const double prob[N] = {
	0.4, 0.3, 0.2, 0.05, 0.03, 0.01, 0.007, 0.003
};
/* Where each of them is, so that order and id differ. */
static const uint32_t place[N] = { 3, 0, 6, 1, 7, 2, 5, 4 };

static void fill(float *logits)
{
	int i;

	for (i = 0; i < N; i++)
		logits[place[i]] = log(prob[i]) + 5;
}

static struct sampler *make(double temperature, double top_p, double min_p,
			    uint64_t seed, uint32_t vocab)
{
	struct sample_opts o = {
		.temperature = temperature,
		.top_p = top_p,
		.min_p = min_p,
		.seed = seed,
	};
	struct sampler *s;

	ASSERT_EQ(0, sampler_create(&o, vocab, &s));
	return s;
}

/* The share of @draws choices of each probability's token. */
static void count(struct sampler *s, unsigned int draws, double *share)
{
	unsigned int seen[N] = { 0 }, i;
	float logits[N];

	fill(logits);
	for (i = 0; i < draws; i++)
		seen[sampler_next(s, logits)]++;
	for (i = 0; i < N; i++)
		share[i] = (double)seen[place[i]] / draws;
	sampler_destroy(s);
}

/* Within five standard deviations of @want / @sum for the first @n, else 0. */
static void expect_shares(const double *share, const double *want, int n,
			  unsigned int draws)
{
	double sum = 0, p;
	int i;

	for (i = 0; i < n; i++)
		sum += want[i];
	for (i = 0; i < N; i++) {
		p = i < n ? want[i] / sum : 0;
		if (fabs(share[i] - p) > 5 * sqrt(p * (1 - p) / draws)) {
			ht_log("token %d: %g of the draws instead of %g", i,
			       share[i], p);
			ht_failed = 1;
		}
	}
}

TEST(greedy_takes_the_first_of_equal_ones)
{
	float logits[] = { NAN, 1, 3, 3, -INFINITY, 2 };

	EXPECT_EQ(2, sample_greedy(logits, 6));
	EXPECT_EQ(0, sample_greedy(logits, 1));
	logits[5] = INFINITY;
	EXPECT_EQ(5, sample_greedy(logits, 6));
}

TEST(temperature_zero_is_greedy)
{
	struct sampler *s = make(0, 0.5, 0.5, 1, N);
	float logits[N];
	int i;

	fill(logits);
	for (i = 0; i < 10; i++)
		EXPECT_EQ(3, sampler_next(s, logits));
	sampler_destroy(s);
}

TEST(temperature_one_draws_by_probability)
{
	double share[N];

	count(make(1, 1, 0, 7, N), 200000, share);
	expect_shares(share, prob, N, 200000);
}

TEST(temperature_sharpens)
{
	double share[N], want[N];
	int i;

	for (i = 0; i < N; i++)
		want[i] = prob[i] * prob[i];
	count(make(0.5, 1, 0, 8, N), 200000, share);
	expect_shares(share, want, N, 200000);
}

TEST(top_p_keeps_the_fewest_that_reach_it)
{
	double share[N];

	count(make(1, 0.85, 0, 9, N), 100000, share);
	expect_shares(share, prob, 3, 100000);
	/* less than the first alone has */
	count(make(1, 0.1, 0, 9, N), 1000, share);
	expect_shares(share, prob, 1, 1000);
}

TEST(min_p_drops_the_unlikely)
{
	double share[N];

	/* 0.1 of 0.4: 0.05 stays, 0.03 goes */
	count(make(1, 1, 0.1, 10, N), 100000, share);
	expect_shares(share, prob, 4, 100000);
}

TEST(min_p_comes_before_top_p)
{
	double share[N];

	/* of the 0.95 that are left, 0.7 is a share of 0.737 */
	count(make(1, 0.73, 0.1, 11, N), 100000, share);
	expect_shares(share, prob, 2, 100000);
}

TEST(seeds_give_the_same_tokens_everywhere)
{
	static const struct {
		uint64_t seed;
		uint32_t tokens[12];
	} known[] = {
		{ 0, { 717, 310, 210, 87, 26, 262, 408, 865, 224, 891, 531, 247 } },
		{ 1, { 779, 223, 112, 803, 458, 494, 247, 482, 829, 828, 138, 632 } },
		{ 0xffffffffffffffff,
		  { 470, 236, 581, 310, 791, 26, 161, 236, 322, 680, 667, 284 } },
	};
	float logits[1000];
	uint32_t i, j;

	for (i = 0; i < 1000; i++)
		logits[i] = (i * 7919 % 1000) / 125.0f;
	for (i = 0; i < 3; i++) {
		struct sampler *s = make(0.8, 0.9, 0.01, known[i].seed, 1000);

		for (j = 0; j < 12; j++)
			EXPECT_EQ(known[i].tokens[j], sampler_next(s, logits));
		sampler_destroy(s);
	}
}

TEST(one_token_and_equal_tokens)
{
	struct sampler *s = make(1, 0.5, 0, 3, 1);
	float logits[100] = { 0 };
	unsigned int i, low = 0;

	EXPECT_EQ(0, sampler_next(s, logits));
	sampler_destroy(s);
	/* half of a hundred equal ones: those with the smallest ids */
	s = make(1, 0.5, 0, 3, 100);
	for (i = 0; i < 2000; i++)
		low += sampler_next(s, logits) < 50;
	EXPECT_EQ(2000, low);
	sampler_destroy(s);
}

TEST(what_cannot_be_drawn)
{
	struct sampler *s = make(1, 1, 0, 4, 4);
	float logits[4] = { -INFINITY, NAN, 0, -INFINITY };
	int i;

	for (i = 0; i < 100; i++)
		EXPECT_EQ(2, sampler_next(s, logits));
	sampler_destroy(s);
}

TEST(bad_options_are_refused)
{
	static const struct sample_opts bad[] = {
		{ .temperature = -1, .top_p = 1 },
		{ .temperature = NAN, .top_p = 1 },
		{ .temperature = INFINITY, .top_p = 1 },
		{ .temperature = 1, .top_p = 0 },
		{ .temperature = 1, .top_p = 1.5 },
		{ .temperature = 1, .top_p = 1, .min_p = -0.1 },
		{ .temperature = 1, .top_p = 1, .min_p = 1.1 },
	};
	struct sampler *s = NULL;
	unsigned int i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		EXPECT_EQ(-EINVAL, sampler_create(&bad[i], 10, &s));
	EXPECT_TRUE(s == NULL);
}

TEST(top_is_in_order)
{
	float logits[] = { 1, 5, 3, 5, -2, 4, 0, 9, 3, 8 };
	static const uint32_t want[] = { 7, 9, 1, 3, 5, 2, 8, 0, 6, 4 };
	uint32_t ids[10], k, i;

	for (k = 1; k <= 10; k++) {
		sample_top(logits, 10, k, ids);
		for (i = 0; i < k; i++)
			EXPECT_EQ(want[i], ids[i]);
	}
}

TEST(the_top_none)
{
	float logits[] = { 1, 5, 3 };
	uint32_t ids[2] = { 0, 77 };

	sample_top(logits, 3, 0, &ids[1]);
	EXPECT_EQ(0, ids[0]);
	EXPECT_EQ(77, ids[1]);
}

TEST(logsumexp)
{
	float logits[N];

	fill(logits);
	EXPECT_TRUE(fabs(sample_logsumexp(logits, N) - 5) < 1e-6);
	logits[0] = 1e30f;
	EXPECT_TRUE(sample_logsumexp(logits, N) == (double)1e30f);
}

TEST(what_is_no_number)
{
	static const float bad[] = { NAN, -NAN, INFINITY, -INFINITY };
	float logits[9];
	unsigned int i, j;

	for (i = 0; i < 9; i++)
		logits[i] = i & 1 ? -3e38f : 1e-45f;
	EXPECT_TRUE(sample_finite(logits, 9));
	for (i = 0; i < 9; i++) {
		for (j = 0; j < 4; j++) {
			logits[i] = bad[j];
			EXPECT_FALSE(sample_finite(logits, 9));
		}
		logits[i] = 0;
	}
	logits[8] = NAN;
	EXPECT_TRUE(sample_finite(logits, 8));
}

TEST_HARNESS_MAIN
