// SPDX-License-Identifier: MIT
/*
 * test_revoke.c - pages that the backend takes away while a sequence holds
 * them: that sequence is told, and nobody else is harmed.
 */
#include <time.h>

#include "kit.h"

FIXTURE(revoke) {
	struct kit k;
	struct kvc_seq *a;
	uint32_t t[64];
};

FIXTURE_SETUP(revoke)
{
	kit_open(&self->k, &(struct kit_spec) { .pages = 8 });
	kit_count(self->t, 64, 1000);
	self->a = kit_seq(&self->k, NULL);
	ASSERT_EQ(0, kit_add(&self->k, self->a, self->t, 10));
}

FIXTURE_TEARDOWN(revoke)
{
	EXPECT_EQ(0, kit_used(&self->k));
	kit_close(&self->k);
}

static void set_max(struct kit *k, uint64_t max, uint64_t deadline_ns)
{
	struct kvcache_tenant_set t = {
		.tenant = k->ctx->tenant,
		.set = KVCACHE_SET_LIMITS,
		.max = max,
		.deadline_ns = deadline_ns,
	};

	ASSERT_EQ(0, kvc_call(k->ctx, KVCACHE_NR_TENANT_SET, &t));
}

/* Two of the three pages of the fixture's sequence go. */
static void take_two(struct kit *k)
{
	uint64_t used = kit_used(k);

	int tries;

	set_max(k, used - 2, 1);
	/* The device does it by itself, soon. */
	for (tries = 0; k->admin && tries < 1000; tries++) {
		if (kit_used(k) < used)
			break;
		usleep(1000);
	}
	kit_pool(k);
	EXPECT_EQ(used - 2, kit_used(k));
	set_max(k, 8, KVCACHE_TIME_NEVER);
}

static void expect_stale(struct kit *k, int rc)
{
	EXPECT_EQ(-ESTALE, rc);
	EXPECT_TRUE(strstr(kvc_errmsg(k->ctx), "revoked"));
	EXPECT_TRUE(strstr(kvc_errmsg(k->ctx), "start again"));
}

TEST_F(revoke, its_numbers_are_another_sequence_s)
{
	struct kit *k = &self->k;
	struct kvc_seq *b = kit_seq(k, "b"), *f;
	const struct kvc_item both[] = {
		{ b, self->t + 28, 1 }, { self->a, self->t + 10, 1 },
	};
	struct kvc_room room;
	uint64_t had[3], has[7];
	uint32_t again = 0;
	float row[KIT_DIM];

	ASSERT_EQ(3, kvc_seq_handles(self->a, 0, had, 3));
	take_two(k);
	ASSERT_EQ(0, kit_add(k, b, self->t, 28));
	ASSERT_EQ(7, kvc_seq_handles(b, 0, has, 7));
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 7; j++)
			again += (uint32_t)had[i] == (uint32_t)has[j];
	EXPECT_EQ(2, again);

	expect_stale(k, kvc_seq_read(self->a, 0, 0, 0, 0, 1, row));
	expect_stale(k, kvc_seq_fork(self->a, &f));
	expect_stale(k, kvc_seq_reserve(self->a, 1, 0));
	expect_stale(k, kvc_predict(k->c, self->a, NULL, 1, 0, &room));
	expect_stale(k, kvc_batch_plan(k->b, both, 2));
	EXPECT_TRUE(strstr(kvc_errmsg(k->ctx), "item 1:"));
	kit_check(k, b);
	kvc_seq_free(self->a, 0);
	EXPECT_EQ(7, kit_used(k));
	EXPECT_EQ(0, k->c->nlost);
	kit_check(k, b);
	ASSERT_EQ(0, kit_add(k, b, self->t + 28, 4));
	kit_check(k, b);
	kvc_seq_free(b, 0);
	/* Its tokens are known: it starts again. */
	self->a = kit_seq(k, NULL);
	kit_prompt(k, self->a, self->t, 11);
	kit_check(k, self->a);
	kvc_seq_free(self->a, 0);
}

TEST_F(revoke, during_a_step)
{
	struct kit *k = &self->k;
	struct kvc_seq *b = kit_seq(k, "b");
	const struct kvc_item items[] = {
		{ self->a, self->t + 10, 1 }, { b, self->t, 3 },
	};
	float rows[4 * 2 * KIT_DIM] = { 0 }, o[4 * 4 * KIT_DIM];

	ASSERT_EQ(0, kvc_batch_plan(k->b, items, 2));
	ASSERT_EQ(0, kvc_append(k->b, 0, NULL, NULL, 0, rows, 2 * KIT_DIM,
				rows, 2 * KIT_DIM));
	take_two(k);
	expect_stale(k, kvc_append(k->b, 1, NULL, NULL, 0, rows, 2 * KIT_DIM,
				   rows, 2 * KIT_DIM));
	expect_stale(k, kvc_attend(k->b, 0, 1, o, 4 * KIT_DIM, o,
				   4 * KIT_DIM));
	EXPECT_TRUE(strstr(kvc_errmsg(k->ctx), "item 0:"));
	kvc_batch_abort(k->b);
	kvc_seq_free(self->a, 0);
	if (kvc_seq_stale(b)) {
		kvc_seq_free(b, 0);
		b = kit_seq(k, "b");
	}
	ASSERT_EQ(0, kit_add(k, b, self->t, 3));
	kit_check(k, b);
	kvc_seq_free(b, 0);
}

TEST_F(revoke, before_a_commit)
{
	struct kit *k = &self->k;
	const struct kvc_item item = { self->a, self->t + 10, 1 };

	ASSERT_EQ(0, kvc_batch_plan(k->b, &item, 1));
	kit_append(k, &item, 1, NULL);
	take_two(k);
	expect_stale(k, kvc_batch_commit(k->b));
	EXPECT_EQ(10, kvc_seq_len(self->a));
	kvc_batch_abort(k->b);
	kvc_seq_free(self->a, 0);
}

/* All pages of a fork and its parent: both are told, nothing is freed twice. */
TEST_F(revoke, what_a_fork_holds)
{
	struct kit *k = &self->k;
	struct kvc_seq *f;

	ASSERT_EQ(0, kvc_seq_fork(self->a, &f));
	take_two(k);
	expect_stale(k, kvc_seq_reserve(f, 1, 0));
	expect_stale(k, kvc_seq_reserve(self->a, 1, 0));
	kvc_seq_free(self->a, 0);
	kvc_seq_free(f, 0);
	EXPECT_EQ(0, k->c->nlost);
}

/* A reader of events gets those that the library has read first. */
TEST_F(revoke, events_are_kept)
{
	struct kit *k = &self->k;
	struct kvcache_event ev[32];
	int n, revoked = 0;

	EXPECT_EQ(0, kvc_events(k->ctx, ev, 32));
	take_two(k);
	expect_stale(k, kvc_seq_reserve(self->a, 1, 0));
	n = kvc_events(k->ctx, ev, 32);
	ASSERT_GT(n, 0);
	for (int i = 0; i < n; i++) {
		EXPECT_EQ(0, ev[i].dropped);
		revoked += ev[i].type == KVCACHE_EV_REVOKED;
	}
	EXPECT_EQ(2, revoked);
	EXPECT_EQ(0, kvc_events(k->ctx, ev, 32));
	kvc_seq_free(self->a, 0);
}

static void clear(struct kit *k, int n)
{
	struct kvcache_tenant_ref t = { .tenant = k->ctx->tenant, .pool = ~0U };

	while (n--)
		ASSERT_EQ(0, kvc_call(k->ctx, KVCACHE_NR_TENANT_FLUSH, &t));
}

/* More than is kept: the reader is told how many are missing. */
TEST_F(revoke, events_that_nobody_reads)
{
	struct kit *k = &self->k;
	struct kvcache_event ev[512];
	uint64_t all = 0;
	int n;

	kvc_events(k->ctx, ev, 1);
	for (int i = 0; i < 4; i++) {
		clear(k, 100);
		ASSERT_EQ(0, kvc_seq_reserve(self->a, 1, 0));
	}
	while ((n = kvc_events(k->ctx, ev, 512)) > 0)
		for (int i = 0; i < n; i++)
			all += 1 + ev[i].dropped;
	clear(k, 1);
	ASSERT_EQ(1, kvc_events(k->ctx, ev, 512));
	all += 1 + ev[0].dropped;
	EXPECT_EQ(401, all);
	kvc_seq_free(self->a, 0);
}

/* Whoever sleeps until there is an event is woken, and still reads it. */
TEST_F(revoke, events_that_are_waited_for)
{
	struct kit *k = &self->k;
	struct kvcache_event ev;
	struct timespec ts;
	uint64_t soon;

	EXPECT_EQ(0, kvc_events_wait(k->ctx, 0));
	clock_gettime(CLOCK_MONOTONIC, &ts);
	soon = ts.tv_sec * 1000000000ULL + ts.tv_nsec + 20000000;
	EXPECT_EQ(0, kvc_events_wait(k->ctx, soon));
	clock_gettime(CLOCK_MONOTONIC, &ts);
	EXPECT_GE(ts.tv_sec * 1000000000ULL + ts.tv_nsec, soon);
	clear(k, 1);
	EXPECT_EQ(1, kvc_events_wait(k->ctx, KVCACHE_TIME_NEVER));
	EXPECT_EQ(1, kvc_events_wait(k->ctx, 0));
	ASSERT_EQ(1, kvc_events(k->ctx, &ev, 1));
	EXPECT_EQ(KVCACHE_EV_CLEARED, ev.type);
	EXPECT_EQ(0, kvc_events_wait(k->ctx, 0));
	kvc_seq_free(self->a, 0);
}

/* The backend's queue has lost the news: it is asked about every page. */
TEST_F(revoke, news_that_got_lost)
{
	struct kit *k = &self->k;
	struct kvc_seq *b = kit_seq(k, "b");
	struct kvc_item item = { b, self->t, 5 };

	ASSERT_EQ(0, kit_step(k, &item, 1, "b"));
	take_two(k);
	clear(k, 300);
	if (kvc_seq_reserve(b, 1, 0)) {
		expect_stale(k, kvc_seq_reserve(b, 1, 0));
		EXPECT_TRUE(kvc_seq_stale(b));
	}
	EXPECT_EQ(2, k->c->nlost);
	kvc_seq_free(self->a, 0);
	kvc_seq_free(b, 0);
}

/* What is left of it in front is its own still. */
TEST_F(revoke, truncated_to_what_is_left)
{
	struct kit *k = &self->k;
	uint32_t keep = 0;

	take_two(k);
	expect_stale(k, kvc_seq_reserve(self->a, 1, 0));
	while (!self->a->chain[0].pages[keep]->lost)
		keep++;
	ASSERT_EQ(0, kvc_seq_truncate(self->a, 4 * keep));
	ASSERT_EQ(0, kit_add(k, self->a, self->t + 4 * keep, 5));
	kit_check(k, self->a);
	kvc_seq_free(self->a, 0);
}

TEST_HARNESS_MAIN
