// SPDX-License-Identifier: MIT
/*
 * test_seq.c - sequences: growing, forking, truncating, and whose pages are
 * whose afterwards.
 */
#include "kit.h"

FIXTURE(seq) {
	struct kit k;
	uint32_t t[64];
};

FIXTURE_SETUP(seq)
{
	kit_open(&self->k, &(struct kit_spec) { .pages = 32 });
	kit_count(self->t, 64, 1000);
}

FIXTURE_TEARDOWN(seq)
{
	kit_end(&self->k);
}

TEST_F(seq, grows_a_page_at_a_time)
{
	struct kvc_seq *s = kit_seq(&self->k, NULL);

	EXPECT_EQ(0, kvc_seq_pages(s));
	for (uint32_t i = 0; i < 17; i++) {
		ASSERT_EQ(0, kit_add(&self->k, s, self->t + i, 1));
		ASSERT_EQ(i + 1, kvc_seq_len(s));
		ASSERT_EQ(i / 4 + 1, kvc_seq_pages(s));
		ASSERT_EQ(i / 4 + 1, kit_used(&self->k));
		kit_check(&self->k, s);
	}
	EXPECT_EQ(0, memcmp(kvc_seq_tokens(s), self->t, 17 * 4));
	kvc_seq_free(s, 0);
}

TEST_F(seq, reads_any_range)
{
	struct kvc_seq *s = kit_seq(&self->k, NULL);
	float all[18][KIT_DIM], some[18][KIT_DIM];

	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 18));
	ASSERT_EQ(0, kvc_seq_read(s, 2, 1, 1, 0, 18, all));
	for (uint32_t first = 0; first <= 18; first++) {
		for (uint32_t n = 0; n <= 18 - first; n++) {
			ASSERT_EQ(0, kvc_seq_read(s, 2, 1, 1, first, n, some));
			ASSERT_EQ(0, memcmp(some, all[first], n * sizeof(*some)));
		}
	}
	EXPECT_EQ(-EINVAL, kvc_seq_read(s, 3, 0, 0, 0, 1, some));
	EXPECT_EQ(-EINVAL, kvc_seq_read(s, 0, 0, 2, 0, 1, some));
	EXPECT_EQ(-EINVAL, kvc_seq_read(s, 0, 0, 0, 18, 1, some));
	EXPECT_EQ(-EINVAL, kvc_seq_read(s, 0, 0, 0, 1, UINT32_MAX, some));
	EXPECT_EQ(-EINVAL, kvc_seq_read(s, 0, 2, 0, 0, 1, some));
	EXPECT_EQ(-EINVAL, kvc_seq_read(s, 0, -1, 0, 0, 1, some));
	EXPECT_NE(NULL, strstr(kvc_errmsg(self->k.ctx), "is_v -1"));
	kvc_seq_free(s, 0);
}

TEST_F(seq, reserve_is_all_or_nothing)
{
	struct kvc_seq *s = kit_seq(&self->k, NULL);

	ASSERT_EQ(0, kvc_seq_reserve(s, 0, 0));
	EXPECT_EQ(0, kvc_seq_pages(s));
	ASSERT_EQ(0, kvc_seq_reserve(s, 9, 0));
	EXPECT_EQ(3, kvc_seq_pages(s));
	ASSERT_EQ(0, kvc_seq_reserve(s, 12, 0));
	EXPECT_EQ(3, kvc_seq_pages(s));
	EXPECT_EQ(-E2BIG, kvc_seq_reserve(s, 32 * 4 + 16, 0));
	EXPECT_EQ(3, kvc_seq_pages(s));
	EXPECT_EQ(3, kit_used(&self->k));
	/* What is reserved is used before anything new is taken. */
	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 12));
	EXPECT_EQ(3, kit_used(&self->k));
	/* Truncating gives it back. */
	ASSERT_EQ(0, kvc_seq_reserve(s, 40, 0));
	EXPECT_EQ(13, kvc_seq_pages(s));
	ASSERT_EQ(0, kvc_seq_truncate(s, 12));
	EXPECT_EQ(3, kvc_seq_pages(s));
	kit_check(&self->k, s);
	kvc_seq_free(s, 0);
}

TEST_F(seq, more_pages_than_one_command_gives)
{
	struct kit k;
	struct kvc_seq *s;
	uint64_t *h = calloc(900, sizeof(*h));

	kit_close(&self->k);
	kit_open(&k, &(struct kit_spec) { .pages = 800 });
	s = kit_seq(&k, NULL);
	EXPECT_EQ(-E2BIG, kvc_seq_reserve(s, 801 * 4, 0));
	EXPECT_EQ(0, kit_used(&k));
	ASSERT_EQ(0, kvc_seq_reserve(s, 790 * 4, 0));
	EXPECT_EQ(790, kit_used(&k));
	ASSERT_EQ(790, kvc_seq_handles(s, 0, h, 900));
	for (uint32_t i = 0; i < 790; i++)
		for (uint32_t j = 0; j < i; j++)
			ASSERT_NE(h[i], h[j]);
	EXPECT_EQ(-E2BIG, kvc_seq_reserve(s, 790 * 4 + 801 * 4, 0));
	kvc_seq_free(s, 0);
	EXPECT_EQ(0, kit_used(&k));
	free(h);
	kit_close(&k);
}

TEST_F(seq, fork_shares_everything)
{
	struct kvc_seq *a = kit_seq(&self->k, NULL), *b;
	uint64_t ha[8], hb[8];

	ASSERT_EQ(0, kit_add(&self->k, a, self->t, 10));
	ASSERT_EQ(0, kvc_seq_fork(a, &b));
	EXPECT_EQ(10, kvc_seq_len(b));
	EXPECT_EQ(3, kvc_seq_pages(b));
	EXPECT_EQ(3, kit_used(&self->k));
	ASSERT_EQ(3, kvc_seq_handles(a, 0, ha, 8));
	ASSERT_EQ(3, kvc_seq_handles(b, 0, hb, 8));
	EXPECT_EQ(0, memcmp(ha, hb, 3 * sizeof(*ha)));
	kvc_seq_free(a, 0);
	EXPECT_EQ(3, kit_used(&self->k));
	kit_check(&self->k, b);
	/* The last holder writes in place. */
	ASSERT_EQ(0, kit_add(&self->k, b, self->t + 20, 2));
	ASSERT_EQ(3, kvc_seq_handles(b, 0, hb, 8));
	EXPECT_EQ(ha[2], hb[2]);
	kit_check(&self->k, b);
	kvc_seq_free(b, 0);
}

/* Whoever writes first copies; the other finds its rows as they were. */
TEST_F(seq, fork_copies_the_tail_on_write)
{
	for (uint32_t len = 1; len <= 9; len++) {
		for (int who = 0; who < 2; who++) {
			struct kvc_seq *s[2] = { kit_seq(&self->k, NULL) };
			uint64_t h[4], was[4];
			uint32_t full = len / 4, n = (len + 3) / 4;

			ASSERT_EQ(0, kit_add(&self->k, s[0], self->t, len));
			ASSERT_EQ(0, kvc_seq_fork(s[0], &s[1]));
			ASSERT_EQ(n, kvc_seq_handles(s[0], 0, was, 4));
			ASSERT_EQ(0, kit_add(&self->k, s[who], self->t + 30, 1));
			kit_check(&self->k, s[0]);
			kit_check(&self->k, s[1]);
			EXPECT_EQ(n + 1, kit_used(&self->k));
			kvc_seq_handles(s[who], 0, h, 4);
			EXPECT_EQ(0, memcmp(h, was, full * sizeof(*h)));
			if (len % 4)
				EXPECT_NE(was[full], h[full]);
			kvc_seq_handles(s[!who], 0, h, 4);
			EXPECT_EQ(0, memcmp(h, was, n * sizeof(*h)));
			ASSERT_EQ(0, kit_add(&self->k, s[!who], self->t + 40, 1));
			kit_check(&self->k, s[0]);
			kit_check(&self->k, s[1]);
			EXPECT_EQ(len % 4 ? n + 1 : n + 2, kit_used(&self->k));
			kvc_seq_free(s[0], KVC_SEQ_DISCARD);
			kvc_seq_free(s[1], KVC_SEQ_DISCARD);
		}
	}
}

TEST_F(seq, eight_forks_in_one_step)
{
	struct kvc_seq *s[8] = { kit_seq(&self->k, NULL) };
	struct kvc_item items[8];

	ASSERT_EQ(0, kit_add(&self->k, s[0], self->t, 10));
	for (int i = 1; i < 8; i++)
		ASSERT_EQ(0, kvc_seq_fork(s[0], &s[i]));
	EXPECT_EQ(3, kit_used(&self->k));
	for (int i = 0; i < 8; i++)
		items[i] = (struct kvc_item) { s[i], self->t + 20 + i, 1 };
	ASSERT_EQ(0, kit_step(&self->k, items, 8, NULL));
	/* Two full pages, and a tail each: the last fork keeps the old one. */
	EXPECT_EQ(2 + 8, kit_used(&self->k));
	for (int i = 0; i < 8; i++)
		kit_check(&self->k, s[i]);
	for (int i = 0; i < 8; i++)
		kvc_seq_free(s[i], 0);
}

/* conformance c4: a prompt's cache, copied, continued several ways. */
TEST_F(seq, fork_of_a_fork)
{
	struct kvc_seq *a = kit_seq(&self->k, NULL), *b, *c;

	ASSERT_EQ(0, kit_add(&self->k, a, self->t, 6));
	ASSERT_EQ(0, kvc_seq_fork(a, &b));
	ASSERT_EQ(0, kit_add(&self->k, b, self->t + 20, 3));
	ASSERT_EQ(0, kvc_seq_fork(b, &c));
	ASSERT_EQ(0, kvc_seq_truncate(c, 5));
	ASSERT_EQ(0, kit_add(&self->k, c, self->t + 30, 6));
	ASSERT_EQ(0, kit_add(&self->k, a, self->t + 40, 5));
	kit_check(&self->k, a);
	kit_check(&self->k, b);
	kit_check(&self->k, c);
	kvc_seq_free(b, 0);
	kit_check(&self->k, a);
	kit_check(&self->k, c);
	kvc_seq_free(a, 0);
	kit_check(&self->k, c);
	kvc_seq_free(c, 0);
}

TEST_F(seq, truncate_at_page_boundaries)
{
	for (uint32_t to = 0; to <= 13; to++) {
		struct kvc_seq *s = kit_seq(&self->k, NULL);
		uint64_t was[8], h[8];

		ASSERT_EQ(0, kit_add(&self->k, s, self->t, 13));
		kvc_seq_handles(s, 0, was, 8);
		ASSERT_EQ(0, kvc_seq_truncate(s, to));
		EXPECT_EQ(to, kvc_seq_len(s));
		EXPECT_EQ((to + 3) / 4, kvc_seq_pages(s));
		EXPECT_EQ((to + 3) / 4, kit_used(&self->k));
		kit_check(&self->k, s);
		EXPECT_EQ(-EINVAL, kvc_seq_truncate(s, to + 1));
		/* Other tokens from there on: a published page is copied. */
		ASSERT_EQ(0, kit_add(&self->k, s, self->t + 40, 7));
		kit_check(&self->k, s);
		kvc_seq_handles(s, 0, h, 8);
		EXPECT_EQ(0, memcmp(h, was, to / 4 * sizeof(*h)));
		if (to % 4 && to < 12)
			EXPECT_NE(was[to / 4], h[to / 4]);
		kvc_seq_free(s, KVC_SEQ_DISCARD);
	}
}

/* What was published before a truncation stays what its key says. */
TEST_F(seq, truncate_leaves_published_pages_whole)
{
	struct kvc_seq *a = kit_seq(&self->k, NULL), *b;

	ASSERT_EQ(0, kit_add(&self->k, a, self->t, 13));
	ASSERT_EQ(0, kvc_seq_truncate(a, 6));
	ASSERT_EQ(0, kit_add(&self->k, a, self->t + 40, 7));
	b = kit_seq(&self->k, NULL);
	EXPECT_EQ(12, kit_prompt(&self->k, b, self->t, 13));
	kit_check(&self->k, b);
	kvc_seq_free(a, 0);
	kit_check(&self->k, b);
	kvc_seq_free(b, 0);
	/* And what came after it has keys of its own. */
	memcpy(self->t + 6, self->t + 40, 7 * sizeof(*self->t));
	b = kit_seq(&self->k, NULL);
	EXPECT_EQ(12, kit_prompt(&self->k, b, self->t, 13));
	kit_check(&self->k, b);
	kvc_seq_free(b, 0);
}

TEST_F(seq, discard_leaves_nothing_more)
{
	struct kvc_seq *s = kit_seq(&self->k, NULL);

	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 10));
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	EXPECT_EQ(2, kit_pool(&self->k).nr_cached);
	s = kit_seq(&self->k, NULL);
	EXPECT_EQ(8, kit_prompt(&self->k, s, self->t, 10));
	kvc_seq_free(s, 0);
	EXPECT_EQ(3, kit_pool(&self->k).nr_cached);
	kvc_seq_free(NULL, 0);
}

TEST_F(seq, busy_in_a_step)
{
	struct kvc_seq *s = kit_seq(&self->k, NULL), *f;
	struct kvc_item item = { s, self->t, 3 };

	ASSERT_EQ(0, kvc_batch_plan(self->k.b, &item, 1));
	EXPECT_EQ(-EBUSY, kvc_seq_fork(s, &f));
	EXPECT_EQ(-EBUSY, kvc_seq_truncate(s, 0));
	EXPECT_EQ(-EBUSY, kvc_seq_reserve(s, 9, 0));
	EXPECT_EQ(-EINVAL, kvc_seq_prefix(s, self->t, 3));
	/* Freeing it ends the step. */
	kvc_seq_free(s, 0);
	EXPECT_EQ(-EINVAL, kvc_batch_commit(self->k.b));
	EXPECT_EQ(0, kit_used(&self->k));
}

TEST_F(seq, options)
{
	struct kvc_seq_opts o = { .sz = sizeof(o), .priority = 101 };
	struct kvc_seq *s;

	ASSERT_EQ(0, kvc_seq_create(self->k.c, &o, &s));
	kvc_seq_free(s, 0);
	o.priority = 102;
	EXPECT_EQ(-EINVAL, kvc_seq_create(self->k.c, &o, &s));
	o = (struct kvc_seq_opts) { .sz = sizeof(o), .extra_len = 1 };
	EXPECT_EQ(-EINVAL, kvc_seq_create(self->k.c, &o, &s));
	o = (struct kvc_seq_opts) { .sz = 1 };
	EXPECT_EQ(-EINVAL, kvc_seq_create(self->k.c, &o, &s));
}

/* Held bytes are what the footprint says, for every kind of heads. */
TEST_F(seq, footprint_is_what_is_held)
{
	static const uint32_t heads[] = { 4, 2, 1 }, lens[] = { 1, 7, 8, 9, 40 };

	kit_close(&self->k);
	for (uint32_t h = 0; h < 3; h++) {
		for (uint32_t i = 0; i < 5; i++) {
			struct kit_spec spec = {
				.kv_heads = heads[h], .page_tokens = 8,
				.type = (5 * h + i) % 8,
			};
			struct kvc_footprint f;
			struct kvc_seq *s[3];
			struct kit k;

			kit_open(&k, &spec);
			for (uint32_t j = 0; j < 3; j++) {
				s[j] = kit_seq(&k, NULL);
				self->t[0] = j;
				ASSERT_EQ(0, kit_add(&k, s[j], self->t, lens[i]));
			}
			ASSERT_EQ(0, kvc_footprint(&k.m, kit_page_size(&spec),
						   lens[i], 3, &f));
			EXPECT_EQ(f.pages, kit_used(&k));
			EXPECT_EQ(f.held_bytes,
				  kit_used(&k) * kit_page_size(&spec));
			EXPECT_EQ(2 * KIT_LAYERS * heads[h] *
				  kva_row_size(spec.type, KIT_DIM),
				  f.bytes_per_token);
			for (uint32_t j = 0; j < 3; j++)
				kvc_seq_free(s[j], 0);
			kit_close(&k);
		}
	}
}

TEST_HARNESS_MAIN
