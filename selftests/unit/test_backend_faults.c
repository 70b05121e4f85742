// SPDX-License-Identifier: MIT
/*
 * test_backend_faults.c - what commands carry, and commands that are refused
 * at the wrong moment, interrupted or kept waiting.
 */
#include <sys/time.h>
#include <time.h>

#include "faulty.h"

FIXTURE(fault) {
	struct kit k;
	uint32_t t[64];
};

/* What the hooks below saw, and are to do. */
static struct {
	unsigned int nr;	/* the command to answer ... */
	int answer;		/* ... with this ... */
	uint32_t skip;		/* ... but not so many of them ... */
	uint32_t times;		/* ... and then so many */
	uint32_t checks;	/* KVCACHE_ALLOC_CHECK seen */
	uint64_t held;		/* PRIVATE pages that there may be while waiting */
	uint64_t pages[KVCACHE_MAX_PAGES];
	struct kvcache_publish publish;
	uint32_t publishes;
} plan;

FIXTURE_SETUP(fault)
{
	kit_open(&self->k, &(struct kit_spec) { .pages = 600 });
	kit_count(self->t, 64, 1000);
	memset(&plan, 0, sizeof(plan));
}

FIXTURE_TEARDOWN(fault)
{
	EXPECT_EQ(0, kit_used(&self->k));
	kit_close(&self->k);
}

static int answer(struct kvc_sys *sys, unsigned int nr, void *arg)
{
	if (nr != plan.nr || !plan.times)
		return 0;
	if (nr == KVCACHE_NR_ALLOC &&
	    ((struct kvcache_alloc *)arg)->flags & KVCACHE_ALLOC_CHECK)
		return 0;
	if (plan.skip) {
		plan.skip--;
		return 0;
	}
	plan.times--;
	return plan.answer;
}

static void refuse(unsigned int nr, int err, uint32_t skip, uint32_t times)
{
	plan.nr = nr;
	plan.answer = err;
	plan.skip = skip;
	plan.times = times;
}

TEST_F(fault, interrupted_commands_are_made_again)
{
	struct kvc_seq *s = kit_seq(&self->k, NULL);
	static const unsigned int nr[] = {
		KVCACHE_NR_ALLOC, KVCACHE_NR_PUBLISH, KVCACHE_NR_LOOKUP,
		KVCACHE_NR_FREE, KVCACHE_NR_QUERY,
	};

	faulty_begin(&self->k, answer);
	for (uint32_t i = 0; i < 5; i++) {
		refuse(nr[i], -EINTR, 0, 3);
		EXPECT_EQ(0, kit_prompt(&self->k, s, self->t + 20 * i / 2, 8));
		kit_check(&self->k, s);
		kvc_seq_free(s, 0);
		EXPECT_EQ(0, kit_used(&self->k));
		EXPECT_EQ(0, plan.times);
		s = kit_seq(&self->k, NULL);
	}
	/* One that may wait is the caller's to make again. */
	refuse(KVCACHE_NR_ALLOC, -EINTR, 0, 1);
	EXPECT_EQ(-EINTR, kvc_seq_reserve(s, 8, KVCACHE_TIME_NEVER));
	EXPECT_EQ(0, kvc_seq_pages(s));
	EXPECT_EQ(0, kvc_seq_reserve(s, 8, KVCACHE_TIME_NEVER));
	kvc_seq_free(s, 0);
}

/* Pages that could not be published stay, and are when there is room. */
TEST_F(fault, publishing_that_is_refused_is_no_failure)
{
	static const int err[] = { -ENOMEM, -EBUSY, -ENOSPC, -EDQUOT };
	struct kvc_seq *s;

	faulty_begin(&self->k, answer);
	for (uint32_t i = 0; i < 4; i++) {
		s = kit_seq(&self->k, NULL);
		refuse(KVCACHE_NR_PUBLISH, err[i], 0, UINT32_MAX);
		self->t[0] = i;
		ASSERT_EQ(0, kit_add(&self->k, s, self->t, 10));
		EXPECT_EQ(10, kvc_seq_len(s));
		EXPECT_EQ(3, kit_pool(&self->k).nr_private);
		kit_check(&self->k, s);
		plan.times = 0;
		ASSERT_EQ(0, kit_add(&self->k, s, self->t + 10, 2));
		EXPECT_EQ(0, kit_pool(&self->k).nr_private);
		EXPECT_EQ(3, kit_pool(&self->k).nr_shared);
		kvc_seq_free(s, 0);
	}
	/* What else can be wrong is told. */
	s = kit_seq(&self->k, NULL);
	refuse(KVCACHE_NR_PUBLISH, -EPERM, 0, UINT32_MAX);
	self->t[0] = 9;
	ASSERT_EQ(0, kvc_batch_plan(self->k.b, &(struct kvc_item) {
				    s, self->t, 4 }, 1));
	kit_append(&self->k, &(struct kvc_item) { s, self->t, 4 }, 1, NULL);
	EXPECT_EQ(-EPERM, kvc_batch_commit(self->k.b));
	EXPECT_EQ(4, kvc_seq_len(s));
	kvc_seq_free(s, 0);
}

TEST_F(fault, fork_publishes_what_the_commit_could_not)
{
	struct kvc_seq *s = kit_seq(&self->k, NULL), *q;

	faulty_begin(&self->k, answer);
	refuse(KVCACHE_NR_PUBLISH, -ENOSPC, 0, UINT32_MAX);
	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 10));
	EXPECT_EQ(0, kit_pool(&self->k).nr_shared);
	plan.times = 0;
	ASSERT_EQ(0, kvc_seq_fork(s, &q));
	EXPECT_EQ(2, kit_pool(&self->k).nr_shared);
	EXPECT_EQ(1, kit_pool(&self->k).nr_private);
	kvc_seq_free(s, 0);
	kit_check(&self->k, q);
	kvc_seq_free(q, 0);
}

/* Some of a call's pages are gone: the others still go back. */
TEST_F(fault, free_goes_on_behind_a_page_that_is_gone)
{
	struct kvcache_free f = { .nr = 1 };
	struct kvc_seq *s = kit_seq(&self->k, NULL);
	uint64_t h[3];

	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 10));
	ASSERT_EQ(3, kvc_seq_handles(s, 0, h, 3));
	f.pages[0] = h[2];
	ASSERT_EQ(0, kvc_call(self->k.ctx, KVCACHE_NR_FREE, &f));
	EXPECT_EQ(2, kit_used(&self->k));
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	EXPECT_EQ(0, kit_used(&self->k));
	EXPECT_EQ(2, kit_pool(&self->k).nr_cached);
}

/* Another client is faster between two commands of one reservation. */
TEST_F(fault, refused_half_way)
{
	struct kvc_seq *s = kit_seq(&self->k, NULL);

	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 10));
	faulty_begin(&self->k, answer);
	refuse(KVCACHE_NR_ALLOC, -ENOSPC, 1, 1);
	EXPECT_EQ(-ENOSPC, kvc_seq_reserve(s, 2000, 0));
	EXPECT_EQ(0, plan.times);
	EXPECT_EQ(3, kvc_seq_pages(s));
	EXPECT_EQ(3, kit_used(&self->k));
	kit_check(&self->k, s);
	ASSERT_EQ(0, kvc_seq_reserve(s, 2000, 0));
	EXPECT_EQ(503, kvc_seq_pages(s));
	kvc_seq_free(s, 0);
}

/* While it waits nothing is held; at the third look there is room. */
static int nothing_is_held(struct kvc_sys *sys, unsigned int nr, void *arg)
{
	struct kvcache_free f = { .size = sizeof(f), .nr = 200 };
	struct kvcache_query q = { .size = sizeof(q) };
	struct kvcache_alloc *a = arg;

	if (nr != KVCACHE_NR_ALLOC)
		return 0;
	ASSERT_EQ(0, faulty_real->call(sys, KVCACHE_NR_QUERY, &q));
	if (!(a->flags & KVCACHE_ALLOC_CHECK)) {
		/* Taken in one go, once it is there, without waiting. */
		EXPECT_GE(plan.checks, 3);
		EXPECT_EQ(0, a->deadline_ns);
		return 0;
	}
	EXPECT_EQ(plan.held, q.out_pools[0].nr_private);
	EXPECT_EQ(0, q.out_pools[0].waiters);
	if (++plan.checks == 3) {
		memcpy(f.pages, plan.pages, sizeof(f.pages));
		ASSERT_EQ(0, faulty_real->call(sys, KVCACHE_NR_FREE, &f));
		plan.held -= f.nr;
	}
	return 0;
}

TEST_F(fault, many_pages_are_waited_for_with_none_held)
{
	struct kvcache_alloc a = { .nr = 200 };
	struct kvc_seq *s = kit_seq(&self->k, NULL);

	ASSERT_EQ(0, kvc_call(self->k.ctx, KVCACHE_NR_ALLOC, &a));
	memcpy(plan.pages, a.out_pages, sizeof(plan.pages));
	plan.held = 200;
	faulty_begin(&self->k, nothing_is_held);
	ASSERT_EQ(0, kvc_seq_reserve(s, 500 * 4, KVCACHE_TIME_NEVER));
	EXPECT_EQ(500, kvc_seq_pages(s));
	EXPECT_EQ(500, kit_used(&self->k));
	kvc_seq_free(s, 0);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static void nothing(int sig)
{
}

/* Few pages and many: the deadline passes, or a signal comes. */
TEST_F(fault, waiting_ends)
{
	/* Again and again: the first may come before the wait. */
	const struct itimerval often = { { 0, 20000 }, { 0, 20000 } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };
	struct sigaction sa = { .sa_handler = nothing };
	struct kvc_seq *s = kit_seq(&self->k, NULL);
	struct kvc_seq *big = kit_seq(&self->k, NULL);
	uint64_t until;

	ASSERT_EQ(0, kvc_seq_reserve(big, 590 * 4, 0));
	for (uint32_t n = 11; n <= 311; n += 300) {
		EXPECT_EQ(-ENOSPC, kvc_seq_reserve(s, n * 4, 0));
		/* A deadline that has passed is none. */
		EXPECT_EQ(-ENOSPC, kvc_seq_reserve(s, n * 4, 1));
		until = now_ns() + 30000000;
		EXPECT_EQ(-ETIMEDOUT, kvc_seq_reserve(s, n * 4, until));
		EXPECT_GE(now_ns(), until);
		EXPECT_TRUE(strstr(kvc_errmsg(self->k.ctx), "pages missing"));
		EXPECT_EQ(0, kvc_seq_pages(s));
		EXPECT_EQ(590, kit_used(&self->k));
	}
	/* What can never be had is not waited for. */
	EXPECT_EQ(-E2BIG, kvc_seq_reserve(s, 601 * 4, KVCACHE_TIME_NEVER));
	ASSERT_EQ(0, sigaction(SIGALRM, &sa, NULL));
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &often, NULL));
	EXPECT_EQ(-EINTR, kvc_seq_reserve(s, 311 * 4, KVCACHE_TIME_NEVER));
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &never, NULL));
	EXPECT_EQ(0, kvc_seq_pages(s));
	EXPECT_EQ(590, kit_used(&self->k));
	kvc_seq_free(big, 0);
	kvc_seq_free(s, 0);
}

static int look_at_publish(struct kvc_sys *sys, unsigned int nr, void *arg)
{
	if (nr != KVCACHE_NR_PUBLISH)
		return 0;
	plan.publish = *(struct kvcache_publish *)arg;
	plan.publishes++;
	return 0;
}

TEST_F(fault, what_is_published_carries_the_options)
{
	static const uint8_t zeros[KVCACHE_KEY_LEN];
	struct kvc_seq_opts o = { .sz = sizeof(o), .priority = 78,
				  .ttl_ns = 12345 };
	const struct kvcache_publish_page *p = plan.publish.pages;
	struct kvc_seq *s, *child;

	faulty_begin(&self->k, look_at_publish);
	ASSERT_EQ(0, kvc_seq_create(self->k.c, &o, &s));
	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 9));
	ASSERT_EQ(1, plan.publishes);
	ASSERT_EQ(2, plan.publish.nr);
	for (uint32_t i = 0; i < 2; i++) {
		EXPECT_EQ(77, p[i].priority);
		EXPECT_EQ(12345, p[i].ttl_ns);
		EXPECT_EQ(0, p[i].flags);
	}
	EXPECT_EQ(0, memcmp(p[0].parent, zeros, KVCACHE_KEY_LEN));
	EXPECT_EQ(0, memcmp(p[1].parent, p[0].keys[p[0].nr_keys - 1].key,
			    KVCACHE_KEY_LEN));
	/* A fork has them too. */
	ASSERT_EQ(0, kvc_seq_fork(s, &child));
	kvc_seq_free(s, 0);
	ASSERT_EQ(0, kit_add(&self->k, child, self->t + 9, 3));
	ASSERT_EQ(2, plan.publishes);
	ASSERT_EQ(1, plan.publish.nr);
	EXPECT_EQ(77, p[0].priority);
	EXPECT_EQ(12345, p[0].ttl_ns);
	kvc_seq_free(child, 0);

	s = kit_seq(&self->k, NULL);
	ASSERT_EQ(0, kit_add(&self->k, s, self->t + 20, 4));
	EXPECT_EQ(KVCACHE_PRIO_DEFAULT, p[0].priority);
	EXPECT_EQ(KVCACHE_TIME_NEVER, p[0].ttl_ns);
	kvc_seq_free(s, 0);
}

TEST_HARNESS_MAIN
