// SPDX-License-Identifier: MIT
/*
 * test_verify.c - kvcache-run --verify finds what it is there to find: a
 * stored row that changed, a logit that is off, another token.
 */
#include "harness.h"

#include "../../tools/kvcache-run/progress.c"
#include "../../tools/kvcache-run/util.c"
#include "../../tools/kvcache-run/verify.c"

#include <kvcache/threads.h>

#include "engine_kit.h"
#include "internal.h"

#define TOKENS 20

FIXTURE(verify)
{
	struct options opts;
	struct engine e;
	struct kvc_batch *batch;
	struct kvc_seq *seq;
	struct conv c;
	float *logits;
	struct check *k;
};

/* Tokens @first to @first + @n - 1 go into the cache. */
static void forward(FIXTURE_DATA(verify) *self, uint32_t first, uint32_t n)
{
	const struct kvc_item item = {
		.seq = self->seq, .tokens = self->c.ids.v + first, .n = n,
	};
	const uint32_t want = n - 1;

	ASSERT_EQ(0, kvc_batch_plan(self->batch, &item, 1));
	ASSERT_EQ(0, model_forward(self->e.model, self->batch, item.tokens, n,
				   &want, 1, self->logits));
	ASSERT_EQ(0, kvc_batch_commit(self->batch));
	check_rows(self->k, self->seq);
}

FIXTURE_SETUP(verify)
{
	struct engine *e = &self->e;
	uint32_t i;

	engine_kit_open(e, &self->opts);
	ASSERT_EQ(0, kvc_batch_create(e->cache, &self->batch));
	ASSERT_EQ(0, kvc_seq_create(e->cache, NULL, &self->seq));
	self->logits = xcalloc(e->info.vocab, sizeof(*self->logits));
	self->c.name = "test";
	self->c.ids.v = xcalloc(TOKENS, sizeof(*self->c.ids.v));
	self->c.ids.n = TOKENS;
	for (i = 0; i < TOKENS; i++)
		self->c.ids.v[i] = (37 * i + 26) % e->info.vocab;
	self->k = check_create(e);
}

FIXTURE_TEARDOWN(verify)
{
	check_free(self->k);
	kvc_seq_free(self->seq, 0);
	kvc_batch_destroy(self->batch);
	engine_kit_close(&self->e);
	free(self->c.ids.v);
	free(self->logits);
}

/* The V row of a layer's last head at @pos, in its page. */
static float *v_row(FIXTURE_DATA(verify) *self, uint32_t layer, uint32_t pos)
{
	struct kvc_cache *c = self->e.cache;
	uint32_t P = kvc_cache_page_tokens(c, 0), head;
	uint64_t handles[8];
	struct kva_view v;

	ASSERT_EQ(3, kvc_seq_handles(self->seq, 0, handles, 8));
	kvc_layout_view(&c->l, layer, c->rw, &v);
	head = v.kv_heads - 1;
	return (float *)(c->rw +
			 kvc_page_number(handles[pos / P]) * v.page_stride +
			 v.v_off + head * v.v_head_stride) +
	       (size_t)(pos % P) * v.v_dim;
}

TEST_F(verify, all_is_well)
{
	struct verdict v;
	uint32_t i;

	forward(self, 0, 7);
	for (i = 7; i < TOKENS; i++) {
		forward(self, i, 1);
		check_logits(self->k, i, self->logits);
	}
	check_same(self->k, self->seq);
	ASSERT_EQ(0, check_conv(self->k, &self->c, &v));
	EXPECT_TRUE(v.ok);
	EXPECT_EQ(TOKENS - 7, v.positions);
	EXPECT_EQ(8, v.steps);
	EXPECT_EQ(TOKENS - 7, v.equal);
	EXPECT_EQ(0, v.wrong);
	EXPECT_TRUE(v.diff < 2e-4f && v.step_diff < 2e-4f);
	/* K and V of two layers. */
	EXPECT_EQ(TOKENS * 4, v.rows);
	EXPECT_EQ(0, v.changed);
}

TEST_F(verify, a_row_that_changed)
{
	struct verdict v;

	forward(self, 0, TOKENS - 1);
	forward(self, TOKENS - 1, 1);
	check_logits(self->k, TOKENS - 1, self->logits);
	/* The lowest bit of one element. */
	*(uint32_t *)&v_row(self, 1, 13)[5] ^= 1;
	check_same(self->k, self->seq);
	ASSERT_EQ(0, check_conv(self->k, &self->c, &v));
	EXPECT_FALSE(v.ok);
	EXPECT_EQ(1, v.changed);
	EXPECT_EQ(1, v.changed_layer);
	EXPECT_EQ(13, v.changed_pos);
	EXPECT_EQ(TOKENS * 4, v.rows);
}

/* A conversation that came to no token has rows all the same. */
TEST_F(verify, a_row_that_changed_before_any_token)
{
	struct verdict v;

	forward(self, 0, TOKENS);
	*(uint32_t *)&v_row(self, 0, 2)[0] ^= 1;
	check_same(self->k, self->seq);
	ASSERT_EQ(0, check_conv(self->k, &self->c, &v));
	EXPECT_FALSE(v.ok);
	EXPECT_TRUE(v.bound > 0);
	EXPECT_EQ(0, v.positions);
	EXPECT_EQ(1, v.changed);
}

/* Nobody held the page meanwhile, and it was found again. */
TEST_F(verify, a_row_that_changed_while_cached)
{
	float *row;

	forward(self, 0, TOKENS);
	row = v_row(self, 1, 13);
	check_drop(self->k, self->seq);
	EXPECT_EQ(TOKENS * 4, self->k->v.rows);
	kvc_seq_free(self->seq, 0);
	*(uint32_t *)&row[5] ^= 1;
	ASSERT_EQ(0, kvc_seq_create(self->e.cache, NULL, &self->seq));
	ASSERT_EQ(19, kvc_seq_prefix(self->seq, self->c.ids.v, TOKENS));
	check_back(self->k, self->seq);
	EXPECT_EQ(1, self->k->v.changed);
	EXPECT_EQ(1, self->k->v.changed_layer);
	EXPECT_EQ(13, self->k->v.changed_pos);
	EXPECT_EQ(TOKENS * 4 + 16 * 4, self->k->v.rows);
}

/* Computed anew in other pages: other bits are no change. */
TEST_F(verify, rows_that_were_computed_again)
{
	forward(self, 0, TOKENS);
	check_drop(self->k, self->seq);
	kvc_seq_free(self->seq, KVC_SEQ_DISCARD);
	ASSERT_EQ(0, kvc_seq_create(self->e.cache, NULL, &self->seq));
	check_back(self->k, self->seq);
	forward(self, 0, TOKENS);
	EXPECT_EQ(TOKENS * 4, self->k->v.rows);
	check_same(self->k, self->seq);
	EXPECT_EQ(TOKENS * 8, self->k->v.rows);
	EXPECT_EQ(0, self->k->v.changed);
}

/* A row that was wrong when it was written shows in the logits. */
TEST_F(verify, a_row_that_is_wrong)
{
	struct verdict v;

	forward(self, 0, TOKENS - 1);
	v_row(self, 0, 3)[0] += 100;
	forward(self, TOKENS - 1, 1);
	check_logits(self->k, TOKENS - 1, self->logits);
	ASSERT_EQ(0, check_conv(self->k, &self->c, &v));
	EXPECT_FALSE(v.ok);
	EXPECT_TRUE(v.diff > v.bound_all);
	EXPECT_TRUE(v.step_diff > v.bound_all);
}

TEST_F(verify, a_logit_that_is_off)
{
	struct verdict v;

	forward(self, 0, TOKENS);
	self->logits[17] += 0.01f;
	check_logits(self->k, TOKENS - 1, self->logits);
	ASSERT_EQ(0, check_conv(self->k, &self->c, &v));
	EXPECT_FALSE(v.ok);
	EXPECT_TRUE(v.diff > 0.009f && v.diff < 0.011f);
}

/* Between the two bounds: allowed of an unlikely token, not of a likely one. */
TEST_F(verify, what_is_allowed_depends_on_the_token)
{
	uint32_t likely, unlikely = 0, i;
	struct verdict v;

	forward(self, 0, TOKENS);
	likely = sample_greedy(self->logits, self->e.info.vocab);
	for (i = 1; i < self->e.info.vocab; i++)
		if (self->logits[i] < self->logits[unlikely])
			unlikely = i;
	self->logits[unlikely] += 1.25f * verify_bound(KVC_F32, KVC_F32);
	check_logits(self->k, TOKENS - 1, self->logits);
	ASSERT_EQ(0, check_conv(self->k, &self->c, &v));
	EXPECT_TRUE(v.ok);
	EXPECT_TRUE(v.diff > v.bound && v.diff < v.bound_all);
	EXPECT_TRUE(v.top_diff < v.bound);

	check_free(self->k);
	self->k = check_create(&self->e);
	self->logits[likely] += 1.25f * verify_bound(KVC_F32, KVC_F32);
	check_logits(self->k, TOKENS - 1, self->logits);
	ASSERT_EQ(0, check_conv(self->k, &self->c, &v));
	EXPECT_FALSE(v.ok);
	EXPECT_TRUE(v.top_diff > v.bound && v.diff < v.bound_all);
}

TEST_F(verify, another_token)
{
	struct verdict v;

	forward(self, 0, TOKENS);
	self->logits[17] = 1e3f;
	check_logits(self->k, TOKENS - 1, self->logits);
	ASSERT_EQ(0, check_conv(self->k, &self->c, &v));
	EXPECT_EQ(0, v.equal);
	EXPECT_EQ(1, v.wrong);
}

TEST_F(verify, not_a_number)
{
	struct verdict v;

	forward(self, 0, TOKENS);
	self->logits[17] = NAN;
	check_logits(self->k, TOKENS - 1, self->logits);
	ASSERT_EQ(0, check_conv(self->k, &self->c, &v));
	EXPECT_FALSE(v.ok);
	EXPECT_TRUE(isinf(v.diff));
}

TEST_HARNESS_MAIN
