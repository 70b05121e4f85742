// SPDX-License-Identifier: MIT
/*
 * test_steps.c - kvcache-run when a step fails: what had ended keeps its end;
 * and when pages are taken away.
 */
#include "harness.h"

#include "../../tools/kvcache-run/admit.c"
#include "../../tools/kvcache-run/chat.c"
#include "../../tools/kvcache-run/conv.c"
#include "../../tools/kvcache-run/emit.c"
#include "../../tools/kvcache-run/engine.c"
#include "../../tools/kvcache-run/fanout.c"
#include "../../tools/kvcache-run/forget.c"
#include "../../tools/kvcache-run/guess.c"
#include "../../tools/kvcache-run/ids.c"
#include "../../tools/kvcache-run/interrupt.c"
#include "../../tools/kvcache-run/options.c"
#include "../../tools/kvcache-run/options_check.c"
#include "../../tools/kvcache-run/scales.c"
#include "../../tools/kvcache-run/tiers.c"
#include "../../tools/kvcache-run/order.c"
#include "../../tools/kvcache-run/plain.c"
#include "../../tools/kvcache-run/pressure.c"
#include "../../tools/kvcache-run/room.c"
#include "../../tools/kvcache-run/sched.c"
#include "../../tools/kvcache-run/timing.c"
#include "../../tools/kvcache-run/verify.c"
#include "../../tools/kvcache-run/wait.c"

#include <kvcache/threads.h>

#include "engine_kit.h"
#include "internal.h"

#define NCONV 3

FIXTURE(steps)
{
	struct options opts;
	struct engine e;
	struct emit emit;
	struct sched sched;
	struct conv *v[NCONV];
};

/* Three conversations; the second has a token that the model has not. */
FIXTURE_SETUP(steps)
{
	struct engine *e = &self->e;
	uint32_t i, j;

	engine_kit_open(e, &self->opts);
	e->ctx_len = 256;
	self->opts.parallel = 1;
	self->opts.chunk = 64;
	self->opts.sampling.max_new = 3;
	self->opts.sampling.top_p = 1;
	self->emit.quiet = true;
	ASSERT_EQ(0, sched_init(&self->sched, e, &self->emit, NULL));
	for (i = 0; i < NCONV; i++) {
		self->v[i] = conv_create(xasprintf("%u", i + 1),
					 &self->opts.sampling, e);
		self->v[i]->arrival = i;
		for (j = 0; j < 5; j++)
			ids_push(&self->v[i]->ids, 30 + 10 * i + j);
	}
	self->v[1]->ids.v[2] = e->info.vocab;
	for (i = 0; i < NCONV; i++)
		conv_begin(self->v[i]);
}

FIXTURE_TEARDOWN(steps)
{
	unsigned int i;

	for (i = 0; i < NCONV; i++)
		conv_free(self->v[i]);
	sched_free(&self->sched);
	engine_kit_close(&self->e);
}

TEST_F(steps, what_had_ended_keeps_its_end)
{
	static const struct sched_hooks none;
	unsigned int i;

	for (i = 0; i < NCONV; i++)
		sched_add(&self->sched, self->v[i]);
	EXPECT_EQ(-1, sched_run(&self->sched, &none));
	EXPECT_EQ(FINISH_LENGTH, self->v[0]->finish);
	EXPECT_EQ(3, conv_generated(self->v[0]));
	EXPECT_EQ(FINISH_FAILED, self->v[1]->finish);
	EXPECT_EQ(FINISH_FAILED, self->v[2]->finish);
	EXPECT_EQ(CONV_DONE, self->v[2]->state);
	EXPECT_STREQ("failed", finish_name(self->v[2]->finish));
}

TEST_F(steps, without_a_cache)
{
	EXPECT_EQ(-1, plain_run(&self->e, &self->emit, NULL, self->v[1]));
	EXPECT_EQ(FINISH_FAILED, self->v[1]->finish);
	EXPECT_EQ(CONV_DONE, self->v[1]->state);
	EXPECT_EQ(0, plain_run(&self->e, &self->emit, NULL, self->v[2]));
	EXPECT_EQ(FINISH_LENGTH, self->v[2]->finish);
}

/* The score of such a text is empty, not half of one. */
TEST_F(steps, a_score_that_failed)
{
	struct score s;

	EXPECT_EQ(-1, plain_score(&self->e, self->v[1], &s));
	EXPECT_EQ(0, s.n);
	EXPECT_TRUE(!s.logprob);
	EXPECT_EQ(0, s.sum);
}

/* It does not go through the layers: nothing else looks at it. */
TEST_F(steps, a_score_whose_last_token_is_none)
{
	struct score s;

	self->v[0]->ids.v[4] = self->e.info.vocab;
	EXPECT_EQ(-1, plain_score(&self->e, self->v[0], &s));
	EXPECT_EQ(0, s.n);
	EXPECT_TRUE(!s.logprob);
	self->v[0]->ids.v[4]--;
	EXPECT_EQ(0, plain_score(&self->e, self->v[0], &s));
	EXPECT_EQ(4, s.n);
	free(s.logprob);
}

/*
 * 10 of 20 positions were computed when it gave way. What comes back more than
 * it had is not computed by it; what comes back less is, once more.
 */
TEST_F(steps, comes_back_to_more_than_it_had)
{
	struct conv *c = self->v[0];

	c->stored = 10;
	count_return(c, 4);
	EXPECT_EQ(6, c->recomputed);
	EXPECT_EQ(0, c->reused);
	c->stored = 7;
	count_return(c, 8);
	EXPECT_EQ(5, c->recomputed);
	EXPECT_EQ(0, c->reused);
	c->stored = 8;
	count_return(c, 16);
	EXPECT_EQ(0, c->recomputed);
	EXPECT_EQ(3, c->reused);
	/* 10 - 0, 7 - 4, 8 - 8 and 20 - 16: what was computed. */
	EXPECT_EQ(17, 20 - c->reused + c->recomputed);
}

/* The file is read for its digest only where pages are kept. */
TEST(weights_are_identified_where_it_matters)
{
	struct options o = {
		.model = ENGINE_MODEL, .k_type = KVA_F32, .v_type = KVA_F32,
	};
	struct engine e;

	ASSERT_EQ(0, engine_open(&e, &o));
	ASSERT_EQ(0, engine_pool(&e));
	EXPECT_TRUE(e.id_s > 0);
	engine_close(&e);
	o.score = true;
	ASSERT_EQ(0, engine_open(&e, &o));
	ASSERT_EQ(0, engine_pool(&e));
	EXPECT_TRUE(e.id_s == 0);
	engine_close(&e);
}

/* Standard error while @what is done, as a text. */
#define SAID(said, what)						\
	do {								\
		int err_, fd_[2];					\
									\
		memset(said, 0, sizeof(said));				\
		fflush(stderr);						\
		ASSERT_EQ(0, pipe(fd_));				\
		err_ = dup(2);						\
		dup2(fd_[1], 2);					\
		what;							\
		dup2(err_, 2);						\
		close(err_);						\
		close(fd_[1]);						\
		EXPECT_GE(read(fd_[0], said, sizeof(said) - 1), 0);	\
		close(fd_[0]);						\
	} while (0)

/* As far as a backend of another name is one. */
TEST_F(steps, a_pool_that_is_not_ours)
{
	const struct kvc_sys_ops *own = self->e.kvc->sys->ops;
	struct kvcache_tenant_set t = {
		.tenant = self->e.kvc->tenant,
		.set = KVCACHE_SET_LIMITS,
		.max = 63,
		.deadline_ns = KVCACHE_TIME_NEVER,
	};
	struct kvc_sys_ops ops = *own;
	char said[512];

	ops.name = "device";
	self->e.kvc->sys->ops = &ops;
	EXPECT_EQ(0, not_ours(&self->e));
	self->opts.max_pages = 3;
	SAID(said, EXPECT_EQ(-1, not_ours(&self->e)));
	EXPECT_STREQ("test_steps: --max-pages: the device has its own pool and limits: leave it out, or set KVCACHE=local\n",
		     said);
	self->opts.page_size = 65536;
	SAID(said, EXPECT_EQ(-1, not_ours(&self->e)));
	EXPECT_NE(NULL, strstr(said, "--page-size: the device"));
	self->opts.pool = 1 << 20;
	SAID(said, EXPECT_EQ(-1, not_ours(&self->e)));
	EXPECT_NE(NULL, strstr(said, "--pool: the device"));
	/* 64 pages of 8 tokens. */
	self->v[0]->max_new = 1000;
	self->e.ctx_len = 2000;
	SAID(said, EXPECT_FALSE(room_possible(&self->e, self->v[0])));
	EXPECT_NE(NULL, strstr(said, ", a pool of 2016K\n"));
	ASSERT_EQ(0, kvc_call(self->e.kvc, KVCACHE_NR_TENANT_SET, &t));
	SAID(said, EXPECT_FALSE(room_possible(&self->e, self->v[0])));
	EXPECT_NE(NULL, strstr(said, ", a max of 126 pages for tenant default and a pool of 2016K\n"));
	self->v[0]->max_new = 64 * 8 - 4;
	SAID(said, EXPECT_FALSE(room_possible(&self->e, self->v[0])));
	EXPECT_NE(NULL, strstr(said, ", a max of 64 pages for tenant default\n"));
	self->e.kvc->sys->ops = own;
	EXPECT_EQ(0, not_ours(&self->e));
	SAID(said, EXPECT_FALSE(room_possible(&self->e, self->v[0])));
	EXPECT_NE(NULL, strstr(said, ", --max-pages 64\n"));
}

/* How much room there is beside them cannot be told then: the reason is. */
TEST_F(steps, pages_are_revoked)
{
	struct conv *c = self->v[0];
	struct kvcache_tenant_set t = {
		.tenant = self->e.kvc->tenant,
		.set = KVCACHE_SET_LIMITS,
		.max = 0,
		.deadline_ns = 1,
	};
	struct kvcache_query q = { .flags = 0 };
	char said[512];

	ASSERT_EQ(0, kvc_seq_create(self->e.cache, NULL, &c->seq));
	ASSERT_EQ(0, kvc_seq_reserve(c->seq, 5, 0));
	ASSERT_EQ(1, kvc_seq_pages(c->seq));
	EXPECT_TRUE(room_possible(&self->e, c));
	ASSERT_EQ(0, kvc_call(self->e.kvc, KVCACHE_NR_TENANT_SET, &t));
	ASSERT_EQ(0, kvc_call(self->e.kvc, KVCACHE_NR_QUERY, &q));
	t.max = 64;
	t.deadline_ns = KVCACHE_TIME_NEVER;
	ASSERT_EQ(0, kvc_call(self->e.kvc, KVCACHE_NR_TENANT_SET, &t));

	/* All of it could be computed once more. */
	SAID(said, EXPECT_TRUE(room_possible(&self->e, c));
		   room_ended(&self->e, c, 1));
	EXPECT_STREQ("test_steps: conversation 1 ends after 0 tokens: Stale file handle: begin it anew\n",
		     said);
}

TEST_HARNESS_MAIN
