// SPDX-License-Identifier: MIT
/*
 * test_seq_remove.c - tokens in the middle go: rows move to where they belong,
 * shared pages stay as they are, and nobody finds what is behind the gap.
 */
#include "kit.h"

/* All rows of a sequence of up to 64 tokens: [layer][K, V][head][token]. */
struct rows {
	char v[KIT_LAYERS][2][2][64][KIT_DIM * 4];
};

static void read_rows(const struct kit *k, const struct kvc_seq *s,
		      struct rows *out)
{
	uint32_t len = kvc_seq_len(s), layer, h, i;

	memset(out, 0, sizeof(*out));
	for (layer = 0; layer < KIT_LAYERS; layer++)
		for (int v = 0; v < 2; v++)
			for (h = 0; h < kit_group(k, layer)->kv_heads; h++)
				for (i = 0; i < len; i++)
					kvc_seq_read(s, layer, v, h, i, 1,
						     out->v[layer][v][h][i]);
}

/* Are the rows of @s those of @was, without tokens [@first, @first + @n)? */
static bool same_rows(const struct kit *k, const struct kvc_seq *s,
		      const struct rows *was, uint32_t first, uint32_t n)
{
	static struct rows now;
	uint32_t len = kvc_seq_len(s), layer, h, i;

	read_rows(k, s, &now);
	for (layer = 0; layer < KIT_LAYERS; layer++)
		for (int v = 0; v < 2; v++)
			for (h = 0; h < kit_group(k, layer)->kv_heads; h++)
				for (i = 0; i < len; i++)
					if (kit_is_kept(k, layer, len, i) &&
					    memcmp(now.v[layer][v][h][i],
						   was->v[layer][v][h]
						   [i < first ? i : i + n],
						   sizeof(now.v[0][0][0][0])))
						return false;
	return true;
}

/* The same text, looked for by whoever knows no page of @k's. */
static uint32_t found(struct kit *k, const struct kvc_seq *s)
{
	struct kit twin;
	struct kvc_seq *q;
	int n, own;

	kit_twin(k, &twin);
	q = kit_seq(&twin, NULL);
	n = kvc_seq_prefix(q, kvc_seq_tokens(s), kvc_seq_len(s));
	kvc_seq_free(q, KVC_SEQ_DISCARD);
	kit_twin_close(&twin);
	q = kit_seq(k, NULL);
	own = kvc_seq_prefix(q, kvc_seq_tokens(s), kvc_seq_len(s));
	kvc_seq_free(q, KVC_SEQ_DISCARD);
	ASSERT_GE(n, 0);
	return KVC_MAX(n, own);
}

/* Every range of 18 tokens, in pages of 4: in one group, and in two. */
static void every_range(uint32_t ngroups, uint32_t type)
{
	static struct rows was;
	uint32_t t[64], len = 18, first, n, i;
	struct kvc_seq *s;
	struct kit k;

	kit_open(&k, &(struct kit_spec) { .pages = 32, .ngroups = ngroups,
					  .type = type });
	for (first = 0; first < len; first++) {
		for (n = 0; n <= len - first; n++) {
			kit_count(t, 64, 1000);
			s = kit_seq(&k, NULL);
			ASSERT_EQ(0, kit_add(&k, s, t, len));
			read_rows(&k, s, &was);
			ASSERT_EQ(0, kvc_seq_remove(s, first, n, NULL));
			ASSERT_EQ(len - n, kvc_seq_len(s));
			for (i = 0; i < len - n; i++)
				ASSERT_EQ(t[i < first ? i : i + n],
					  kvc_seq_tokens(s)[i]);
			ASSERT_TRUE(same_rows(&k, s, &was, first, n));
			for (i = 0; i < ngroups; i++)
				ASSERT_EQ(kvc_pages_for(&k.c->l.group[i],
							len - n),
					  kvc_seq_handles(s, i, NULL, 0));
			kvc_seq_free(s, KVC_SEQ_DISCARD);
			ASSERT_EQ(0, kit_used(&k));
		}
	}
	kit_close(&k);
}

TEST(remove_every_range)
{
	every_range(1, KVC_F32);
}

TEST(remove_every_range_bf16)
{
	every_range(1, KVC_BF16);
}

TEST(remove_every_range_of_two_groups)
{
	every_range(2, KVC_F16);
}

/* A fork and the cache keep what they had, whichever pages move. */
TEST(remove_copies_what_others_hold)
{
	static struct rows was;
	uint32_t t[64], first, n;
	struct kvc_seq *s, *q;
	struct kvc_stats st;
	struct kit k;

	for (first = 0; first < 9; first++) {
		for (n = 1; n < 9; n++) {
			kit_open(&k, &(struct kit_spec) { .pages = 32 });
			kit_count(t, 64, 1000);
			s = kit_seq(&k, NULL);
			ASSERT_EQ(0, kit_add(&k, s, t, 18));
			read_rows(&k, s, &was);
			ASSERT_EQ(0, kvc_seq_fork(s, &q));
			ASSERT_EQ(0, kvc_seq_remove(s, first, n, NULL));
			ASSERT_TRUE(same_rows(&k, s, &was, first, n));
			kit_check(&k, q);
			kvc_cache_stats(k.c, &st);
			ASSERT_EQ((18 - n + 3) / 4 - first / 4,
				  st.pages_copied);
			kvc_seq_free(q, 0);
			kvc_seq_free(s, 0);
			kit_end(&k);
		}
	}
}

/* Without room for the copies it stays as it was. */
TEST(remove_without_room_changes_nothing)
{
	struct kvc_seq *s, *q;
	uint64_t before[8], after[8];
	uint32_t t[64];
	struct kit k;

	kit_open(&k, &(struct kit_spec) { .pages = 6 });
	kit_count(t, 64, 1000);
	s = kit_seq(&k, NULL);
	ASSERT_EQ(0, kit_add(&k, s, t, 18));
	ASSERT_EQ(0, kvc_seq_fork(s, &q));
	ASSERT_EQ(5, kvc_seq_handles(s, 0, before, 8));
	EXPECT_EQ(-ENOSPC, kvc_seq_remove(s, 2, 4, NULL));
	EXPECT_EQ(-ENOSPC, kvc_seq_remove(s, 2, 5, NULL));
	EXPECT_EQ(18, kvc_seq_len(s));
	ASSERT_EQ(5, kvc_seq_handles(s, 0, after, 8));
	EXPECT_EQ(0, memcmp(before, after, 5 * sizeof(*before)));
	EXPECT_EQ(5, kit_used(&k));
	kit_check(&k, s);
	kit_check(&k, q);
	kvc_seq_free(q, 0);
	kvc_seq_free(s, 0);
	kit_end(&k);
}

/* @commons: room for published pages, as in struct kit_spec. */
static void nothing_is_found(uint32_t commons)
{
	uint32_t t[64], first;
	struct kvc_seq *s, *q;
	struct kit k;

	for (first = 3; first < 10; first++) {
		kit_open(&k, &(struct kit_spec) { .pages = 48,
						  .commons = commons });
		kit_count(t, 64, 1000);
		s = kit_seq(&k, NULL);
		ASSERT_EQ(0, kit_add(&k, s, t, 18));
		ASSERT_EQ(0, kvc_seq_remove(s, first, 5, NULL));
		/* The page that has the first is still there as it was. */
		EXPECT_LE(found(&k, s), first);
		/* The whole text is found as it was, as far as it is. */
		q = kit_seq(&k, NULL);
		ASSERT_LE(0, kvc_seq_prefix(q, t, 18));
		kit_check(&k, q);
		kvc_seq_free(q, KVC_SEQ_DISCARD);
		ASSERT_EQ(0, kit_add(&k, s, t + 18, 14));
		EXPECT_LE(found(&k, s), first);
		/* A fork is no better, nor is one that was idle. */
		ASSERT_EQ(0, kvc_seq_fork(s, &q));
		ASSERT_EQ(0, kvc_seq_idle(q));
		ASSERT_EQ(27, kvc_seq_wake(q));
		ASSERT_EQ(0, kit_add(&k, q, t + 40, 8));
		EXPECT_LE(found(&k, q), first);
		kvc_seq_free(q, 0);
		q = kit_seq(&k, NULL);
		kvc_seq_free(q, 0);
		/* Nor when it ends. */
		ASSERT_EQ(0, kvc_seq_fork(s, &q));
		kvc_seq_free(s, 0);
		EXPECT_LE(found(&k, q), first);
		/* Without what is behind the gap it is one as any other. */
		ASSERT_EQ(0, kvc_seq_truncate(q, first));
		ASSERT_EQ(0, kit_add(&k, q, t + 50, 12));
		kit_check(&k, q);
		EXPECT_EQ((first + 12 - 1) / 4 * 4, found(&k, q) / 4 * 4);
		kvc_seq_free(q, 0);
		kit_end(&k);
	}
}

TEST(remove_publishes_nothing_behind_the_gap)
{
	nothing_is_found(0);
}

/* Full pages that could not be published are known to their own program. */
TEST(remove_forgets_what_was_known)
{
	nothing_is_found(1);
}

TEST(remove_refuses)
{
	const struct kvc_rotation odd = { KVC_ROPE_HALF, 7, 10000, 1, NULL };
	const struct kvc_rotation wide = { KVC_ROPE_PAIR, 2 * KIT_DIM, 10000,
					   1, NULL };
	struct kvc_item item;
	struct kvc_seq *s;
	uint32_t t[64];
	struct kit k;

	kit_open(&k, &(struct kit_spec) { .pages = 8 });
	kit_count(t, 64, 1000);
	s = kit_seq(&k, NULL);
	ASSERT_EQ(0, kit_add(&k, s, t, 10));
	EXPECT_EQ(-EINVAL, kvc_seq_remove(s, 11, 0, NULL));
	EXPECT_EQ(-EINVAL, kvc_seq_remove(s, 4, 7, NULL));
	EXPECT_EQ(-EINVAL, kvc_seq_remove(s, 1, UINT32_MAX, NULL));
	EXPECT_EQ(-EINVAL, kvc_seq_remove(s, 1, 2, &odd));
	EXPECT_EQ(-EINVAL, kvc_seq_remove(s, 1, 2, &wide));
	item = (struct kvc_item) { s, t, 1 };
	ASSERT_EQ(0, kvc_batch_plan(k.b, &item, 1));
	EXPECT_EQ(-EBUSY, kvc_seq_remove(s, 1, 2, NULL));
	kvc_batch_abort(k.b);
	ASSERT_EQ(0, kvc_seq_idle(s));
	EXPECT_EQ(-EBUSY, kvc_seq_remove(s, 1, 2, NULL));
	ASSERT_EQ(10, kvc_seq_wake(s));
	kit_check(&k, s);
	kvc_seq_free(s, 0);
	kit_end(&k);
}

/* What left a window is not there to be moved; what is left is moved right. */
TEST(remove_from_a_window)
{
	static struct rows was;
	uint32_t t[64], sinks, first, n;
	struct kvc_seq *s;
	struct kit k;
	int rc;

	for (sinks = 0; sinks <= 4; sinks += 4) {
		kit_open(&k, &(struct kit_spec) { .pages = 48, .window = 9,
						  .sinks = sinks });
		kit_count(t, 64, 1000);
		for (first = 0; first < 40; first++) {
			for (n = 1; n < 40 - first; n++) {
				s = kit_seq(&k, NULL);
				ASSERT_EQ(0, kit_add(&k, s, t, 40));
				read_rows(&k, s, &was);
				rc = kvc_seq_remove(s, first, n, NULL);
				ASSERT_TRUE(!rc || rc == -ENODATA);
				ASSERT_EQ(rc ? 40 : 40 - n, kvc_seq_len(s));
				ASSERT_TRUE(same_rows(&k, s, &was, first,
						      rc ? 0 : n));
				/* Behind the sinks, before the window. */
				if (n % 4 == 0 && first >= 8 &&
				    first + n <= 28)
					ASSERT_EQ(0, rc);
				if (!rc && first + n < 40)
					ASSERT_EQ(0, kit_add(&k, s, t + 40, 6));
				ASSERT_LE(kvc_seq_pages(s), 3 + sinks / 4);
				kvc_seq_free(s, KVC_SEQ_DISCARD);
			}
		}
		kit_end(&k);
	}
}

TEST_HARNESS_MAIN
