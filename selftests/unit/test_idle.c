// SPDX-License-Identifier: MIT
/*
 * test_idle.c - conversations that are idle: what others can have of them, and
 * what is there when they wake.
 */
#include "kit.h"

#define NT 40

FIXTURE(idle)
{
	struct kit k;
	uint32_t t[NT];
};

FIXTURE_SETUP(idle)
{
	const struct kit_spec spec = { .pages = 12 };

	kit_open(&self->k, &spec);
	kit_count(self->t, NT, 100);
}

FIXTURE_TEARDOWN(idle)
{
	kit_end(&self->k);
}

/* A sequence of the first @n tokens. */
static struct kvc_seq *grown(struct kit *k, const uint32_t *t, uint32_t n)
{
	struct kvc_seq *s = kit_seq(k, NULL);

	ASSERT_EQ(0, kit_add(k, s, t, n));
	return s;
}

/* What is gone is computed again. */
static void regrow(struct kit *k, struct kvc_seq *s, const uint32_t *t,
		   uint32_t n)
{
	uint32_t len = kvc_seq_len(s);

	if (len < n)
		ASSERT_EQ(0, kit_add(k, s, t + len, n - len));
	kit_check(k, s);
}

TEST_F(idle, all_of_it_survives_where_nobody_wants_it)
{
	struct kvc_seq *s = grown(&self->k, self->t, 18);

	EXPECT_EQ(4, kit_pool(&self->k).nr_shared);
	EXPECT_EQ(0, kvc_seq_idle(s));
	EXPECT_EQ(0, kvc_seq_idle(s));
	EXPECT_EQ(4, kit_pool(&self->k).nr_cached);
	EXPECT_EQ(1, kit_pool(&self->k).nr_private);
	EXPECT_EQ(1, kvc_seq_pages(s));
	EXPECT_EQ(18, kvc_seq_len(s));
	EXPECT_EQ(18, kvc_seq_wake(s));
	EXPECT_EQ(18, kvc_seq_wake(s));
	EXPECT_EQ(4, kit_pool(&self->k).nr_shared);
	EXPECT_EQ(5, kvc_seq_pages(s));
	kit_check(&self->k, s);
	/* And it goes on. */
	ASSERT_EQ(0, kit_add(&self->k, s, self->t + 18, 9));
	kit_check(&self->k, s);
	kvc_seq_free(s, 0);
}

/* All 12 pages can be had beside it; it needs them again and has its tokens. */
TEST_F(idle, others_take_all_of_it)
{
	struct kvc_seq *s = grown(&self->k, self->t, 18), *o;
	uint32_t u[48];

	EXPECT_EQ(0, kvc_seq_idle(s));
	kit_count(u, 48, 1000);
	o = grown(&self->k, u, 48);
	EXPECT_EQ(0, kvc_seq_wake(s));
	EXPECT_EQ(0, kvc_seq_pages(s));
	EXPECT_EQ(-ENOSPC, kvc_seq_reserve(s, 18, 0));
	kvc_seq_free(o, KVC_SEQ_DISCARD);
	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 18));
	kit_check(&self->k, s);
	kvc_seq_free(s, 0);
}

/* The leaf goes first: what is left is a prefix. */
TEST_F(idle, others_take_some_of_it)
{
	struct kvc_seq *s, *o;
	uint32_t u[48];
	int n;

	/* 10 pages of 12; the other one wants 1 to 12. */
	for (n = 1; n <= 12; n++) {
		s = grown(&self->k, self->t, 38);
		EXPECT_EQ(0, kvc_seq_idle(s));
		kit_count(u, 48, 1000 * n);
		o = kit_seq(&self->k, NULL);
		ASSERT_EQ(0, kvc_seq_reserve(o, 4 * n, 0));
		/* Of the tail only whole pages survive or do not. */
		EXPECT_EQ(n <= 2 ? 38 : 4 * (12 - n), kvc_seq_wake(s));
		kit_check(&self->k, s);
		kvc_seq_free(o, KVC_SEQ_DISCARD);
		regrow(&self->k, s, self->t, 38);
		kvc_seq_free(s, KVC_SEQ_DISCARD);
	}
}

TEST_F(idle, private_pages_are_volatile_where_nothing_is_published)
{
	const struct kvc_seq_opts opts = { .sz = sizeof(opts), .no_reuse = 1 };
	struct kvc_seq *s, *o;

	ASSERT_EQ(0, kvc_seq_create(self->k.c, &opts, &s));
	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 38));
	EXPECT_EQ(0, kvc_seq_idle(s));
	EXPECT_EQ(10, kit_pool(&self->k).nr_private);
	EXPECT_EQ(38, kvc_seq_wake(s));
	kit_check(&self->k, s);
	EXPECT_EQ(0, kvc_seq_idle(s));
	o = kit_seq(&self->k, NULL);
	ASSERT_EQ(0, kvc_seq_reserve(o, 48, 0));
	EXPECT_EQ(0, kvc_seq_wake(s));
	kvc_seq_free(o, 0);
	kvc_seq_free(s, 0);
}

/* Its numbers may be ours again before it is asked for them. */
TEST_F(idle, pages_taken_are_the_same_caches)
{
	const struct kvc_seq_opts opts = { .sz = sizeof(opts), .no_reuse = 1 };
	struct kvc_seq *s, *o;
	uint32_t u[48];

	ASSERT_EQ(0, kvc_seq_create(self->k.c, &opts, &s));
	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 38));
	EXPECT_EQ(0, kvc_seq_idle(s));
	kit_count(u, 48, 1000);
	o = grown(&self->k, u, 48);
	kit_check(&self->k, o);
	kvc_seq_free(s, 0);
	kit_check(&self->k, o);
	kvc_seq_free(o, 0);
}

TEST_F(idle, one_that_ends_idle_publishes_what_is_there)
{
	struct kvc_seq *s = grown(&self->k, self->t, 18), *o;

	EXPECT_EQ(0, kvc_seq_idle(s));
	kvc_seq_free(s, 0);
	EXPECT_EQ(5, kit_pool(&self->k).nr_cached);
	o = kit_seq(&self->k, NULL);
	EXPECT_EQ(18, kvc_seq_prefix(o, self->t, 19));
	kit_check(&self->k, o);
	EXPECT_EQ(0, kvc_seq_idle(o));
	/* A tail that is shared is found by its own key. */
	EXPECT_EQ(0, kit_used(&self->k));
	EXPECT_EQ(18, kvc_seq_wake(o));
	kit_check(&self->k, o);
	EXPECT_EQ(0, kvc_seq_idle(o));
	kvc_seq_free(o, KVC_SEQ_DISCARD);
}

/* What is to be taken is not shared by somebody else meanwhile. */
TEST_F(idle, a_volatile_page_is_not_found)
{
	struct kvc_seq *s = grown(&self->k, self->t, 7), *o;

	EXPECT_EQ(0, kvc_seq_idle(s));
	o = kit_seq(&self->k, NULL);
	EXPECT_EQ(4, kvc_seq_prefix(o, self->t, 9));
	kvc_seq_free(o, 0);
	EXPECT_EQ(7, kvc_seq_wake(s));
	o = kit_seq(&self->k, NULL);
	EXPECT_EQ(7, kvc_seq_prefix(o, self->t, 9));
	kvc_seq_free(o, 0);
	kvc_seq_free(s, 0);
}

TEST_F(idle, a_fork_goes_on_beside_it)
{
	struct kvc_seq *s = grown(&self->k, self->t, 7), *o;
	uint32_t u[48];

	ASSERT_EQ(0, kvc_seq_fork(s, &o));
	EXPECT_EQ(0, kvc_seq_idle(s));
	kit_check(&self->k, o);
	ASSERT_EQ(0, kit_add(&self->k, o, self->t + 7, 20));
	kit_check(&self->k, o);
	EXPECT_EQ(7, kvc_seq_wake(s));
	kit_check(&self->k, s);
	kvc_seq_free(o, KVC_SEQ_DISCARD);
	EXPECT_EQ(0, kvc_seq_idle(s));
	kit_count(u, 48, 1000);
	kvc_seq_free(grown(&self->k, u, 48), KVC_SEQ_DISCARD);
	EXPECT_EQ(0, kvc_seq_wake(s));
	kvc_seq_free(s, 0);
}

TEST_F(idle, other_calls_are_refused)
{
	struct kvc_seq *s = grown(&self->k, self->t, 7), *o;
	const struct kvc_item item = { s, self->t, 1 };
	struct kvc_room room;
	float row[KIT_DIM];

	EXPECT_EQ(0, kvc_seq_idle(s));
	EXPECT_EQ(-EBUSY, kvc_batch_plan(self->k.b, &item, 1));
	EXPECT_EQ(-EBUSY, kvc_seq_reserve(s, 1, 0));
	EXPECT_EQ(-EBUSY, kvc_seq_truncate(s, 0));
	EXPECT_EQ(-EBUSY, kvc_seq_fork(s, &o));
	EXPECT_EQ(-EBUSY, kvc_seq_read(s, 0, 0, 0, 0, 1, row));
	EXPECT_EQ(-EBUSY, kvc_predict(self->k.c, s, NULL, 1, 0, &room));
	EXPECT_TRUE(strstr(kvc_errmsg(self->k.ctx), "idle") != NULL);
	EXPECT_EQ(-EINVAL, kvc_seq_prefix(s, self->t, 3));
	EXPECT_EQ(7, kvc_seq_wake(s));
	ASSERT_EQ(0, kvc_batch_plan(self->k.b, &item, 1));
	EXPECT_EQ(-EBUSY, kvc_seq_idle(s));
	kvc_batch_abort(self->k.b);
	kvc_seq_free(s, 0);
}

/* Two groups whose pages end at different tokens: what both have survives. */
TEST(the_shorter_of_two_groups)
{
	const struct kit_spec spec = { .pages = 40, .ngroups = 2 };
	uint32_t t[100], some = 0, all = 0, n;
	struct kvc_seq *s, *o;
	struct kit k;
	int len, was = 100;

	if (device_path())
		SKIP(return, "its pages hold more than the sequences of this test");
	kit_open(&k, &spec);
	kit_count(t, 100, 100);
	for (n = 0; n <= 400; n += 2) {
		s = grown(&k, t, 100);
		EXPECT_EQ(0, kvc_seq_idle(s));
		o = kit_seq(&k, NULL);
		if (kvc_seq_reserve(o, n, 0))
			all++;
		len = kvc_seq_wake(s);
		/* The more others want, the less is there. */
		ASSERT_GE(len, 0);
		ASSERT_LE(len, all ? 100 : was);
		was = len;
		some += len > 0 && len < 100;
		kvc_seq_free(o, KVC_SEQ_DISCARD);
		regrow(&k, s, t, 100);
		kvc_seq_free(s, KVC_SEQ_DISCARD);
	}
	EXPECT_GT(some, 0);
	EXPECT_GT(all, 0);
	kit_end(&k);
}

/*
 * What is cached goes before what is reserved: 4 pages of it, with all others
 * but those reserved in use.
 */
TEST_F(idle, a_prefix_goes_before_reserved_pages)
{
	struct kvc_seq *s, *o, *rest;

	kvc_seq_free(grown(&self->k, self->t, 18), 0);
	s = kit_seq(&self->k, NULL);
	rest = kit_seq(&self->k, NULL);
	ASSERT_EQ(0, kvc_seq_reserve(s, 4 * 5, 0));
	ASSERT_EQ(0, kvc_seq_reserve(rest, 4 * 2, 0));
	EXPECT_EQ(5, kit_pool(&self->k).nr_cached);
	/* Of the fifth page there is no room for a copy. */
	EXPECT_EQ(16, kvc_seq_prefix(s, self->t, 30));
	EXPECT_EQ(8, kvc_seq_pages(s));
	o = kit_seq(&self->k, NULL);
	EXPECT_EQ(0, kvc_seq_reserve(o, 4 * 2, 0));
	EXPECT_EQ(-ENOSPC, kvc_seq_reserve(o, 4 * 3, 0));
	EXPECT_EQ(0, kvc_seq_reserve(s, 14, 0));
	ASSERT_EQ(0, kit_add(&self->k, s, self->t + 16, 14));
	kit_check(&self->k, s);
	kvc_seq_free(o, 0);
	kvc_seq_free(rest, 0);
	kvc_seq_free(s, 0);
}

TEST_HARNESS_MAIN
