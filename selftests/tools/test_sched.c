// SPDX-License-Identifier: MIT
/*
 * test_sched.c - kvcache-run: the order in which waiting requests start, and
 * text out of pieces of characters.
 */
#include "harness.h"
#include "text.h"

#include "../../tools/kvcache-run/order.c"

TEST(order_is_arrival_when_nothing_is_cached)
{
	const struct order_req r[] = {
		{ .arrival = 3 }, { .arrival = 1 }, { .arrival = 2 },
	};

	EXPECT_EQ(1, order_next(r, 3, UINT32_MAX));
}

TEST(order_longest_cached_prefix_first)
{
	const struct order_req r[] = {
		{ .arrival = 0, .cached = 16 },
		{ .arrival = 1, .cached = 64 },
		{ .arrival = 2, .cached = 64 },
	};

	EXPECT_EQ(1, order_next(r, 3, UINT32_MAX));
}

TEST(order_patience_ends)
{
	struct order_req r[] = {
		{ .arrival = 0, .passed = ORDER_PATIENCE - 1 },
		{ .arrival = 1, .cached = 64 },
	};

	EXPECT_EQ(1, order_next(r, 2, UINT32_MAX));
	r[0].passed++;
	EXPECT_EQ(0, order_next(r, 2, UINT32_MAX));
}

TEST(order_among_impatient_the_oldest)
{
	const struct order_req r[] = {
		{ .arrival = 5, .passed = ORDER_PATIENCE + 9, .cached = 64 },
		{ .arrival = 2, .passed = ORDER_PATIENCE },
	};

	EXPECT_EQ(1, order_next(r, 2, UINT32_MAX));
}

TEST(order_held_ones_wait_but_not_for_ever)
{
	struct order_req r[] = {
		{ .arrival = 0, .held = true },
		{ .arrival = 1 },
	};

	EXPECT_EQ(1, order_next(r, 2, UINT32_MAX));
	EXPECT_EQ(-1, order_next(r, 1, UINT32_MAX));
	r[0].passed = ORDER_PATIENCE;
	EXPECT_EQ(0, order_next(r, 2, UINT32_MAX));
}

/* Twins that gave way: the second waits for what the first computes again. */
TEST(order_who_gave_way_is_first_but_held_still)
{
	struct order_req r[] = {
		{ .arrival = 0, .cached = 64 },
		{ .arrival = 1, .gave_way = true },
		{ .arrival = 2, .gave_way = true },
	};

	EXPECT_EQ(1, order_next(r, 3, UINT32_MAX));
	r[1].held = true;
	r[2].held = true;
	EXPECT_EQ(0, order_next(r, 3, UINT32_MAX));
	r[2].passed = ORDER_PATIENCE;
	EXPECT_EQ(2, order_next(r, 3, UINT32_MAX));
}

TEST(order_only_older_ones_pass_what_does_not_fit)
{
	const struct order_req r[] = {
		{ .arrival = 0 },
		{ .arrival = 1, .cached = 64 },
		{ .arrival = 2, .cached = 32 },
	};

	EXPECT_EQ(1, order_next(r, 3, UINT32_MAX));
	EXPECT_EQ(0, order_next(r, 3, 1));
	EXPECT_EQ(-1, order_next(r, 3, 0));
}

/*
 * Requests keep coming whose prefix is cached; one that has none must start
 * after ORDER_PATIENCE of them.
 */
TEST(order_nobody_starves)
{
	struct order_req r[2] = { { .arrival = 0 } };
	uint32_t i;

	for (i = 1; i < 1000; i++) {
		r[1] = (struct order_req){ .arrival = i, .cached = 100 };
		if (order_next(r, 2, UINT32_MAX) == 0)
			break;
		r[0].passed++;
	}
	EXPECT_EQ(ORDER_PATIENCE + 1, i);
}

TEST(order_common_prefix)
{
	const uint32_t a[] = { 1, 2, 3, 4 }, b[] = { 1, 2, 9, 4, 5 };

	EXPECT_EQ(2, order_common(a, 4, b, 5));
	EXPECT_EQ(1, order_common(a, 1, b, 5));
	EXPECT_EQ(4, order_common(a, 4, a, 4));
	EXPECT_EQ(0, order_common(a, 0, a, 4));
}

#define ADD(t, s) text_add(&t, s, sizeof(s) - 1)

TEST(text_holds_back_part_of_a_character)
{
	struct text t = { 0 };

	ADD(t, "a\xf0\x9f");
	EXPECT_EQ(1, t.done);
	ADD(t, "\x99");
	EXPECT_EQ(1, t.done);
	ADD(t, "\x82" "b");
	EXPECT_EQ(6, t.done);
	EXPECT_EQ(0, memcmp(t.s, "a\xf0\x9f\x99\x82" "b", 6));
	text_free(&t);
}

TEST(text_replaces_what_is_no_character)
{
	struct text t = { 0 };

	ADD(t, "\xff" "a\xc3" "b\xe2\x82");
	EXPECT_EQ(8, t.done);
	text_end(&t);
	EXPECT_EQ(11, t.done);
	EXPECT_EQ(11, t.len);
	EXPECT_EQ(0, memcmp(t.s, "\xef\xbf\xbd" "a\xef\xbf\xbd" "b\xef\xbf\xbd",
			    11));
	text_free(&t);
}

TEST(text_every_byte_alone)
{
	static const char s[] = "Gr\xc3\xbc\xc3\x9f" "e \xe6\x97\xa5\xf0\x9f\x99\x82";
	struct text t = { 0 };
	size_t i;

	for (i = 0; i < sizeof(s) - 1; i++)
		text_add(&t, s + i, 1);
	EXPECT_EQ(sizeof(s) - 1, t.done);
	EXPECT_EQ(0, memcmp(t.s, s, t.done));
	EXPECT_EQ(sizeof(s) - 1, utf8_check(s, sizeof(s) - 1));
	EXPECT_EQ(2, utf8_check("ab\x80", 3));
	text_free(&t);
}

TEST_HARNESS_MAIN
