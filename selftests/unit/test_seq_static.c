// SPDX-License-Identifier: MIT
/*
 * test_seq_static.c - sequences that have all their pages from the beginning,
 * and steps of which not all tokens count.
 */
#include "kit.h"

static struct kvc_seq *fixed_seq(struct kit *k, uint32_t n)
{
	const struct kvc_seq_opts o = { .sz = sizeof(o), .fixed = n };
	struct kvc_seq *s = NULL;

	ASSERT_EQ(0, kvc_seq_create(k->c, &o, &s));
	return s;
}

static uint64_t allocs(struct kit *k)
{
	return kit_pool(k).allocs;
}

/* Pages of one group, and of two of which one has a window. */
static void stays(uint32_t ngroups, uint32_t window)
{
	uint64_t before[2][32], now[32], taken;
	uint32_t t[64], g, n[2], i;
	struct kvc_seq *s;
	struct kit k;

	kit_open(&k, &(struct kit_spec) { .pages = 40, .ngroups = ngroups,
					  .window = window });
	kit_count(t, 64, 1000);
	s = fixed_seq(&k, 40);
	EXPECT_EQ(0, kvc_seq_len(s));
	for (g = 0; g < ngroups; g++) {
		n[g] = kvc_seq_handles(s, g, before[g], 32);
		EXPECT_EQ(kvc_pages_for(&k.c->l.group[g], 40), n[g]);
	}
	taken = allocs(&k);
	/* Whatever happens to it: the third line of each is a way back. */
	for (i = 0; i < 6; i++) {
		ASSERT_EQ(0, kit_add(&k, s, t + i, 17));
		ASSERT_EQ(0, kit_add(&k, s, t + 20, 23));
		kit_check(&k, s);
		EXPECT_EQ(-ERANGE, kit_add(&k, s, t, 1));
		EXPECT_EQ(-ERANGE, kvc_seq_reserve(s, 1, 0));
		EXPECT_NE(NULL, strstr(kvc_errmsg(k.ctx), "static"));
		ASSERT_EQ(0, kvc_seq_idle(s));
		ASSERT_EQ(0, kvc_seq_truncate(s, 3 * i));
		kit_check(&k, s);
		ASSERT_EQ(0, kvc_seq_truncate(s, 0));
	}
	ASSERT_EQ(0, kit_add(&k, s, t, 40));
	ASSERT_EQ(0, kvc_seq_remove(s, 3, 8, NULL));
	ASSERT_EQ(0, kit_add(&k, s, t, 8));
	EXPECT_EQ(taken, allocs(&k));
	for (g = 0; g < ngroups; g++) {
		ASSERT_EQ(n[g], kvc_seq_handles(s, g, now, 32));
		EXPECT_EQ(0, memcmp(before[g], now, n[g] * sizeof(*now)));
	}
	kvc_seq_free(s, 0);
	EXPECT_EQ(0, kit_pool(&k).nr_cached);
	kit_end(&k);
}

TEST(static_pages_stay)
{
	stays(1, 0);
	stays(1, 8);
	stays(2, 8);
}

TEST(static_all_or_nothing)
{
	struct kvc_seq_opts o = { .sz = sizeof(o), .fixed = 8 * 4 + 1 };
	struct kvc_seq *s = NULL, *hog;
	struct kit k;

	kit_open(&k, &(struct kit_spec) { .pages = 8 });
	EXPECT_EQ(-E2BIG, kvc_seq_create(k.c, &o, &s));
	EXPECT_EQ(NULL, s);
	hog = kit_seq(&k, NULL);
	ASSERT_EQ(0, kvc_seq_reserve(hog, 4, 0));
	o.fixed = 8 * 4;
	EXPECT_EQ(-ENOSPC, kvc_seq_create(k.c, &o, &s));
	EXPECT_EQ(1, kit_used(&k));
	kvc_seq_free(hog, 0);
	ASSERT_EQ(0, kvc_seq_create(k.c, &o, &s));
	EXPECT_EQ(8, kit_used(&k));
	kvc_seq_free(s, 0);
	kit_end(&k);
}

/* A fork has its own pages: neither ever writes into the other's. */
TEST(static_fork)
{
	uint64_t a[8], b[8], was[8];
	struct kvc_seq *s, *q, *p;
	struct kvc_item items[2];
	uint32_t t[64], from[] = { 1, 1 };
	struct kit k;

	kit_open(&k, &(struct kit_spec) { .pages = 20 });
	kit_count(t, 64, 1000);
	s = fixed_seq(&k, 32);
	ASSERT_EQ(0, kit_add(&k, s, t, 10));
	ASSERT_EQ(8, kvc_seq_handles(s, 0, was, 8));
	ASSERT_EQ(0, kvc_seq_fork(s, &q));
	EXPECT_EQ(16, kit_used(&k));
	EXPECT_EQ(-ENOSPC, kvc_seq_fork(s, &p));
	EXPECT_EQ(-EINVAL, kvc_seq_reorder((struct kvc_seq *[]){ s, q }, from,
					   2));
	items[0] = (struct kvc_item) { s, t + 20, 5 };
	items[1] = (struct kvc_item) { q, t + 30, 9 };
	ASSERT_EQ(0, kit_step(&k, items, 2, NULL));
	kit_check(&k, s);
	kit_check(&k, q);
	ASSERT_EQ(8, kvc_seq_handles(s, 0, a, 8));
	ASSERT_EQ(8, kvc_seq_handles(q, 0, b, 8));
	EXPECT_EQ(0, memcmp(was, a, sizeof(a)));
	for (int i = 0; i < 8; i++)
		EXPECT_NE(a[i], b[i]);
	EXPECT_EQ(-ERANGE, kit_add(&k, q, t, 14));
	kvc_seq_free(s, 0);
	kvc_seq_free(q, 0);
	kit_end(&k);
}

/* A step of nine tokens of which some count is one of so many. */
TEST(accept_is_exact)
{
	uint32_t t[64], keep, len, same;
	struct kvc_item item;
	struct kvc_seq *s, *q;
	struct kit k, twin;

	for (len = 1; len < 10; len++) {
		for (keep = 0; keep <= 9; keep++) {
			kit_open(&k, &(struct kit_spec) { .pages = 24 });
			kit_count(t, 64, 1000);
			s = kit_seq(&k, NULL);
			ASSERT_EQ(0, kit_add(&k, s, t, len));
			item = (struct kvc_item) { s, t + 20, 9 };
			ASSERT_EQ(0, kvc_batch_plan(k.b, &item, 1));
			kit_append(&k, &item, 1, NULL);
			ASSERT_EQ(0, kvc_batch_accept(k.b, &keep));
			ASSERT_EQ(len + keep, kvc_seq_len(s));
			ASSERT_EQ((len + keep + 3) / 4, kvc_seq_pages(s));
			ASSERT_EQ((len + keep + 3) / 4, kit_used(&k));
			ASSERT_EQ((len + keep) / 4, kit_pool(&k).nr_shared);
			kit_check(&k, s);
			/* Guesses are nobody's to find. */
			kit_twin(&k, &twin);
			memmove(t + len, t + 20, 9 * sizeof(*t));
			q = kit_seq(&twin, NULL);
			/* Whole pages, and not all of a prompt. */
			same = KVC_MIN(len + keep, len + 8) / 4 * 4;
			EXPECT_EQ(same, kvc_seq_prefix(q, t, len + 9));
			kvc_seq_free(q, KVC_SEQ_DISCARD);
			kit_twin_close(&twin);
			ASSERT_EQ(0, kit_add(&k, s, t + 40, 3));
			kit_check(&k, s);
			kvc_seq_free(s, 0);
			kit_end(&k);
		}
	}
}

TEST(accept_refuses)
{
	uint32_t t[8], keep[] = { 3, 4 };
	struct kvc_item item[2];
	struct kit k;

	kit_open(&k, &(struct kit_spec) { .pages = 8 });
	kit_count(t, 8, 1000);
	EXPECT_EQ(-EINVAL, kvc_batch_accept(k.b, keep));
	for (int i = 0; i < 2; i++)
		item[i] = (struct kvc_item) { kit_seq(&k, NULL), t, 3 };
	ASSERT_EQ(0, kvc_batch_plan(k.b, item, 2));
	EXPECT_EQ(-EINVAL, kvc_batch_accept(k.b, keep));
	keep[1] = 1;
	EXPECT_EQ(-EINVAL, kvc_batch_accept(k.b, keep));
	kit_append(&k, item, 2, NULL);
	ASSERT_EQ(0, kvc_batch_accept(k.b, keep));
	EXPECT_EQ(3, kvc_seq_len(item[0].seq));
	EXPECT_EQ(1, kvc_seq_len(item[1].seq));
	for (int i = 0; i < 2; i++) {
		kit_check(&k, item[i].seq);
		kvc_seq_free(item[i].seq, 0);
	}
	kit_end(&k);
}

TEST_HARNESS_MAIN
