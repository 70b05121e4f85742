// SPDX-License-Identifier: MIT
/*
 * test_timing.c - a lookup without a grant takes as long whether another tenant
 * has the key or nobody has: the times of both, asked for in random order, come
 * from one distribution.
 *
 * They are compared by the statistic of Kolmogorov and Smirnov, the largest
 * distance of the two distribution functions, which is above LIMIT once in a
 * million runs if the two are one. That it sees a difference is shown with a
 * grant, where half of the lookups find something.
 */
#include <math.h>

#include "kit.h"

#define NR		256	/* pages of the pool, cached by the other tenant */
#define SAMPLES		8192	/* of each kind */
#define ABSENT		1000000	/* keys from here on are nobody's */

struct timing {
	struct place p;
	uint32_t other, asks;
	struct kvc_sys *s;
	uint64_t seed;
	uint32_t flags, keys;
	uint32_t ns[2][SAMPLES];
};

static void fill(struct timing *x)
{
	struct kvc_sys *s = client(&x->p, "other");
	uint64_t page;

	ASSERT_TRUE(s != NULL);
	for (uint32_t k = 0; k < NR; k++) {
		ASSERT_EQ(0, get(s, x->p.pool, 1, 0, &page));
		ASSERT_EQ(0, publish(s, x->p.pool, &page, k, 0));
		ASSERT_EQ(0, put(s, x->p.pool, &page, 1));
	}
	s->ops->close(s);
}

/* Nanoseconds of one lookup, of one key or of several. */
static uint32_t ask(struct timing *x, uint32_t key, int *found)
{
	uint64_t t = now_ns();

	*found = find(x->s, x->p.pool, key, x->keys, x->flags, NULL);
	t = now_ns() - t;
	return t > UINT32_MAX ? UINT32_MAX : t;
}

/* @there: keys of the first kind are found; those of the second never are. */
static void sample(struct timing *x, bool there)
{
	uint32_t nr[2] = { 0 }, key;
	int found, kind;

	while (nr[0] < SAMPLES || nr[1] < SAMPLES) {
		kind = rnd(&x->seed) % 2;
		key = rnd(&x->seed) % (NR - x->keys) + (kind ? ABSENT : 0);
		if (nr[kind] == SAMPLES)
			continue;
		x->ns[kind][nr[kind]++] = ask(x, key, &found);
		ASSERT_EQ(there && !kind ? x->keys : 0, found);
	}
}

static double distance(struct timing *x)
{
	uint32_t i = 0, j = 0;
	double d = 0;

	percentile(x->ns[0], SAMPLES, 50);
	percentile(x->ns[1], SAMPLES, 50);
	while (i < SAMPLES && j < SAMPLES) {
		uint32_t at = x->ns[0][i] < x->ns[1][j] ? x->ns[0][i] :
			      x->ns[1][j];

		for (; i < SAMPLES && x->ns[0][i] == at; i++)
			;
		for (; j < SAMPLES && x->ns[1][j] == at; j++)
			;
		d = fmax(d, fabs((double)i - j) / SAMPLES);
	}
	return d;
}

TEST(of_what_others_have_nothing_is_told)
{
	static struct timing x;
	const double limit = sqrt(-log(1e-6 / 2) / 2) * sqrt(2.0 / SAMPLES);
	double without, with;

	x.seed = rnd_seed(any_seed(), 0);
	place_begin(&x.p, NR);
	x.other = tenant(&x.p, "other", 0, NO_LIMIT);
	x.asks = tenant(&x.p, "asks", 0, NO_LIMIT);
	fill(&x);
	x.s = client(&x.p, "asks");
	ASSERT_TRUE(x.s != NULL);
	for (x.keys = 1; x.keys <= 16; x.keys += 15) {
		sample(&x, false);
		without = distance(&x);
		printf("# figure lookup of %u keys without a grant: p50 %u ns if another tenant has them, %u ns if nobody has, distance %.4f of %.4f\n",
		       x.keys, x.ns[0][SAMPLES / 2], x.ns[1][SAMPLES / 2],
		       without, limit);
		EXPECT_LT(without, limit);
	}
	ASSERT_EQ(0, grant(&x.p, x.other, x.asks, KVCACHE_GRANT_LOOKUP, NR));
	/* Without taking references, which would have to be given back. */
	x.flags = KVCACHE_LOOKUP_PEEK;
	x.keys = 64;
	sample(&x, true);
	with = distance(&x);
	printf("# figure lookup of 64 keys with a grant: p50 %u ns if they are found, %u ns if not, distance %.4f\n",
	       x.ns[0][SAMPLES / 2], x.ns[1][SAMPLES / 2], with);
	EXPECT_GT(with, limit);
	x.s->ops->close(x.s);
	place_end(&x.p);
}

TEST_HARNESS_MAIN
