// SPDX-License-Identifier: MIT
/*
 * test_bpe.c - merges against a plain loop, and the map that they are kept in.
 */
#include "bpe.h"
#include "harness.h"
#include "strmap.h"

static uint32_t rnd_state = 1;

static uint32_t rnd(uint32_t n)
{
	rnd_state = rnd_state * 1664525 + 1013904223;
	return (rnd_state >> 8) % n;
}

/* The definition: again and again the best pair, the leftmost of equals. */
static int plain_bpe(const struct bpe_merge *m, uint32_t nm, uint32_t *ids,
		     int n)
{
	uint32_t r, best;
	int i, at;

	for (;;) {
		best = nm;
		at = -1;
		for (i = 0; i + 1 < n; i++) {
			for (r = 0; r < best; r++) {
				if (m[r].left != ids[i] ||
				    m[r].right != ids[i + 1])
					continue;
				best = r;
				at = i;
			}
		}
		if (at < 0)
			return n;
		ids[at] = m[best].result;
		memmove(&ids[at + 1], &ids[at + 2],
			(n - at - 2) * sizeof(*ids));
		n--;
	}
}

TEST(merges_equal_a_plain_loop)
{
	struct bpe_scratch scratch = { 0 };
	uint32_t want[64], got[64], nm, i;
	struct bpe_merge *m;
	struct bpe b;
	int round, word, n, len;
	char text[64];

	for (round = 0; round < 400; round++) {
		/* Few letters: many ties, and merges of merges. */
		nm = 1 + rnd(40);
		m = calloc(nm, sizeof(*m));
		ASSERT_TRUE(m);
		for (i = 0; i < nm; i++)
			m[i] = (struct bpe_merge){
				rnd(3 + i), rnd(3 + i), 3 + i };
		memset(&b, 0xff, sizeof(b.byte_id));
		for (i = 0; i < 3; i++)
			b.byte_id['a' + i] = i;
		ASSERT_EQ(bpe_init(&b, m, nm), 0);
		for (word = 0; word < 50; word++) {
			len = 1 + rnd(63);
			for (i = 0; i < len; i++) {
				want[i] = rnd(3);
				text[i] = 'a' + want[i];
			}
			n = plain_bpe(m, nm, want, len);
			ASSERT_EQ(bpe_encode(&b, &scratch, text, len, got,
					     len), n);
			ASSERT_EQ(memcmp(got, want, n * sizeof(*got)), 0);
		}
		text[0] = 'z';
		EXPECT_EQ(bpe_encode(&b, &scratch, text, len, got, len),
			  -EDOM);
		bpe_free(&b);
	}
	bpe_scratch_free(&scratch);
}

TEST(map_of_strings)
{
	static char keys[1000][24];
	struct strmap m;
	uint32_t v = 0;
	size_t i;

	ASSERT_EQ(strmap_init(&m, 1001), 0);
	EXPECT_FALSE(strmap_find(&m, "", 0, &v));
	for (i = 0; i < 1000; i++) {
		/* Every length: the hash takes eight bytes at a time. */
		memset(keys[i], 'k', sizeof(keys[i]));
		memcpy(keys[i], &i, sizeof(uint16_t));
		ASSERT_EQ(strmap_add(&m, keys[i], 2 + i % 22, i), 0);
	}
	ASSERT_EQ(strmap_add(&m, "", 0, 1000), 0);
	for (i = 0; i < 1000; i++) {
		EXPECT_EQ(strmap_add(&m, keys[i], 2 + i % 22, 7), -EEXIST);
		ASSERT_TRUE(strmap_find(&m, keys[i], 2 + i % 22, &v));
		EXPECT_EQ(v, i);
		v = 77;
		EXPECT_FALSE(strmap_find(&m, keys[i], 1 + i % 22, &v));
		EXPECT_EQ(v, 77);
	}
	ASSERT_TRUE(strmap_find(&m, "", 0, &v));
	EXPECT_EQ(v, 1000);
	strmap_free(&m);
	/* A map for nothing can be asked. */
	ASSERT_EQ(strmap_init(&m, 0), 0);
	EXPECT_FALSE(strmap_find(&m, "x", 1, &v));
	strmap_free(&m);
	EXPECT_EQ(strmap_init(&m, SIZE_MAX), -ENOMEM);
	strmap_free(&m);
}

TEST_HARNESS_MAIN
