// SPDX-License-Identifier: MIT
/*
 * test_replay_oracle.c - kvcache-replay's LRU and Belady, against the plainest
 * code that can be written for them, on small random traces.
 */
#include <stdbool.h>

#include "harness.h"

#include "../../tools/kvcache-replay/oracle.c"

void replay_die(const char *fmt, ...)
{
	abort();
}

void *replay_alloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		abort();
	return p;
}

#define BLOCKS	11	/* different ones: a mask of them is a state */
#define MAX	10	/* requests */

/* A tree of blocks, and requests that are paths from its root. */
struct small {
	struct trace t;
	struct request v[MAX];
	uint32_t path[MAX][BLOCKS];
	uint32_t longest;
};

static uint32_t rng;

static uint32_t below(uint32_t n)
{
	rng = rng * 1664525 + 1013904223;
	return (rng >> 8) % n;
}

static void make(struct small *s, uint32_t seed, bool last)
{
	uint32_t parent[BLOCKS], k, b, depth;
	size_t i;

	rng = seed;
	memset(s, 0, sizeof(*s));
	/* Two roots, and others below any earlier block. */
	for (b = 0; b < BLOCKS; b++)
		parent[b] = b < 2 ? UINT32_MAX : below(b);
	s->t.v = s->v;
	s->t.n = 4 + below(MAX - 3);
	s->t.nr_block = s->t.nr_own = BLOCKS;
	for (i = 0; i < s->t.n; i++) {
		struct request *q = &s->v[i];
		uint32_t leaf = below(BLOCKS);

		for (depth = 0, b = leaf; b != UINT32_MAX; b = parent[b])
			depth++;
		for (k = depth, b = leaf; k; b = parent[b])
			s->path[i][--k] = b;
		q->block = q->own = s->path[i];
		q->nr_blocks = q->full = q->pages = depth;
		/* Now and then the last token's block is not looked up. */
		q->ask = depth - (last && !below(4));
		if (depth > s->longest)
			s->longest = depth;
	}
}

static uint32_t bits(const struct request *q, uint32_t n)
{
	uint32_t m = 0, k;

	for (k = 0; k < n; k++)
		m |= 1U << q->block[k];
	return m;
}

static uint32_t leading(const struct request *q, uint32_t mask)
{
	uint32_t k;

	for (k = 0; k < q->ask && mask >> q->block[k] & 1; k++)
		;
	return k;
}

/* Looks for the oldest block each time that one has to go. */
static uint64_t plain_lru(const struct small *s, uint32_t pages)
{
	uint64_t hits = 0, stamp[BLOCKS] = { 0 }, clock = 0;
	uint32_t mask = 0, b, k, old;
	size_t i;

	for (i = 0; i < s->t.n; i++) {
		const struct request *q = &s->v[i];
		uint32_t found = leading(q, mask), held = bits(q, found);
		uint32_t need = q->full - found;

		hits += found;
		while (__builtin_popcount(mask) + need > pages) {
			for (old = BLOCKS, b = 0; b < BLOCKS; b++)
				if ((mask & ~held) >> b & 1 &&
				    (old == BLOCKS || stamp[b] < stamp[old]))
					old = b;
			mask &= ~(1U << old);
		}
		mask |= bits(q, q->full);
		for (k = q->full; k--; )
			stamp[q->block[k]] = ++clock;
	}
	return hits;
}

/* Tries everything that could be kept. */
static uint64_t plain_best(const struct small *s, uint32_t pages)
{
	static int16_t now[1 << BLOCKS], next[1 << BLOCKS];
	int16_t best = 0;
	uint32_t m, keep;
	size_t i;

	memset(now, -1, sizeof(now));
	now[0] = 0;
	for (i = 0; i < s->t.n; i++) {
		const struct request *q = &s->v[i];
		uint32_t own = bits(q, q->full);

		memset(next, -1, sizeof(next));
		for (m = 0; m < 1U << BLOCKS; m++) {
			uint32_t others = m & ~own;
			int16_t hits;

			if (now[m] < 0)
				continue;
			hits = now[m] + leading(q, m);
			for (keep = others;; keep = (keep - 1) & others) {
				if (__builtin_popcount(keep) + q->full <=
				    pages && next[keep | own] < hits)
					next[keep | own] = hits;
				if (!keep)
					break;
			}
		}
		memcpy(now, next, sizeof(now));
	}
	for (m = 0; m < 1U << BLOCKS; m++)
		if (now[m] > best)
			best = now[m];
	return best;
}

#define SEEDS 200

TEST(lru_is_what_plain_code_finds)
{
	struct oracle_found f;
	struct small s;
	uint32_t seed, pages;

	for (seed = 1; seed <= SEEDS; seed++) {
		make(&s, seed, true);
		for (pages = s.longest; pages <= BLOCKS; pages++) {
			oracle_ideal(&s.t, pages, ORACLE_LRU, &f);
			if (plain_lru(&s, pages) != f.hits)
				ht_log("seed %u, %u pages", seed, pages);
			ASSERT_EQ(plain_lru(&s, pages), f.hits);
			ASSERT_EQ(0, f.beyond);
		}
	}
}

TEST(belady_is_the_best_that_there_is)
{
	struct oracle_found f, lru;
	struct small s;
	uint32_t seed, pages;
	int better = 0;

	for (seed = 1; seed <= SEEDS; seed++) {
		make(&s, seed, false);
		for (pages = s.longest; pages <= BLOCKS; pages++) {
			oracle_ideal(&s.t, pages, ORACLE_BELADY, &f);
			oracle_ideal(&s.t, pages, ORACLE_LRU, &lru);
			if (plain_best(&s, pages) != f.hits)
				ht_log("seed %u, %u pages", seed, pages);
			ASSERT_EQ(plain_best(&s, pages), f.hits);
			ASSERT_GE(f.hits, lru.hits);
			better += f.hits > lru.hits;
		}
	}
	/* Else the traces would tell nothing. */
	EXPECT_GT(better, 100);
}

/* Requests of one block each: 0 1 2 0 ..., told apart where they stand. */
static void singles(struct small *s, const uint32_t *block, uint32_t n)
{
	uint32_t i;

	memset(s, 0, sizeof(*s));
	s->t.v = s->v;
	s->t.n = n;
	s->t.nr_block = s->t.nr_own = BLOCKS;
	for (i = 0; i < n; i++) {
		s->path[i][0] = block[i];
		s->v[i].block = s->v[i].own = s->path[i];
		s->v[i].nr_blocks = s->v[i].full = s->v[i].ask = 1;
		s->v[i].pages = 1;
	}
}

TEST(what_is_in_use_stays)
{
	static const uint32_t block[] = { 0, 1, 2, 0 };
	/* 0 is used while 1 and 2 come and go, so they have one page. */
	static const struct step step[] = {
		{ 0, STEP_LOOK }, { 0, STEP_START }, { 0, STEP_PUBLISH },
		{ 1, STEP_LOOK }, { 1, STEP_START }, { 1, STEP_PUBLISH },
		{ 1, STEP_END },
		{ 2, STEP_LOOK }, { 2, STEP_START }, { 2, STEP_PUBLISH },
		{ 2, STEP_END },
		{ 0, STEP_END },
		{ 3, STEP_LOOK }, { 3, STEP_START }, { 3, STEP_PUBLISH },
		{ 3, STEP_END },
	};
	struct oracle_found f;
	struct small s;

	singles(&s, block, 4);
	oracle_run(&s.t, step, 16, 2, ORACLE_LRU, true, &f);
	EXPECT_EQ(1, f.hits);
	EXPECT_EQ(1, f.evicted);
	EXPECT_EQ(0, f.beyond);
}

TEST(what_is_not_published_is_not_found)
{
	static const uint32_t block[] = { 0, 0, 0 };
	static const struct step step[] = {
		{ 0, STEP_LOOK }, { 0, STEP_START },
		{ 1, STEP_LOOK }, { 1, STEP_START },
		{ 0, STEP_PUBLISH }, { 1, STEP_PUBLISH },
		{ 2, STEP_LOOK }, { 2, STEP_DROP },
		{ 2, STEP_LOOK }, { 2, STEP_START }, { 2, STEP_PUBLISH },
		{ 0, STEP_END }, { 1, STEP_END }, { 2, STEP_END },
	};
	struct oracle_found f;
	struct small s;

	singles(&s, block, 3);
	oracle_run(&s.t, step, 14, 2, ORACLE_LRU, true, &f);
	EXPECT_EQ(1, f.hits);
	EXPECT_EQ(0, f.beyond);
	/* Two copies of the block, before they are known to be the same. */
	oracle_run(&s.t, step, 14, 1, ORACLE_LRU, true, &f);
	EXPECT_EQ(1, f.beyond);
}

TEST_HARNESS_MAIN
