// SPDX-License-Identifier: MIT
/*
 * test_verify.c - kvcache-run --verify finds what it is there to find: a
 * stored row that changed, a logit that is off, another token; and how wrong
 * what is stored must be for that.
 */
#include "harness.h"

#include "../../tools/kvcache-run/verify.c"

#include <kvcache/threads.h>

#include "engine_kit.h"
#include "internal.h"
#include "real_model.h"

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

/* The verdict, without the list of which a caller would be the owner. */
static void judge(FIXTURE_DATA(verify) *self, struct verdict *v)
{
	float most = 0;
	uint32_t i;

	ASSERT_EQ(0, check_conv(self->k, &self->c, v));
	for (i = 0; v->diffs && i < v->positions; i++)
		most = fmaxf(most, v->diffs[i]);
	EXPECT_EQ(most, v->diff);
	free(v->diffs);
	v->diffs = NULL;
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
	judge(self, &v);
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
	judge(self, &v);
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
	judge(self, &v);
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
	judge(self, &v);
	EXPECT_FALSE(v.ok);
	EXPECT_TRUE(v.diff > v.bound);
	EXPECT_TRUE(v.step_diff > v.step_bound);
}

TEST_F(verify, a_logit_that_is_off)
{
	struct verdict v;

	forward(self, 0, TOKENS);
	self->logits[17] += 0.01f;
	check_logits(self->k, TOKENS - 1, self->logits);
	judge(self, &v);
	EXPECT_FALSE(v.ok);
	EXPECT_TRUE(v.diff > 0.009f && v.diff < 0.011f);
}

/* On either side of what is allowed of one position. */
TEST_F(verify, the_bound_is_where_it_says)
{
	float bound = verify_bound(KVA_F32, KVA_F32, 1), was;
	struct verdict v;

	forward(self, 0, TOKENS);
	was = self->logits[17];
	self->logits[17] = was + 0.8f * bound;
	check_logits(self->k, TOKENS - 1, self->logits);
	judge(self, &v);
	EXPECT_EQ(bound, v.bound);
	EXPECT_EQ(bound, v.step_bound);
	EXPECT_TRUE(v.ok);

	check_free(self->k);
	self->k = check_create(&self->e);
	self->logits[17] = was + 1.2f * bound;
	check_logits(self->k, TOKENS - 1, self->logits);
	judge(self, &v);
	EXPECT_FALSE(v.ok);
	EXPECT_TRUE(v.diff > bound && v.step_diff > bound);
}

/* A token at a time, from the 8th; a logit of the @at th is off by @by. */
static void one_is_off(FIXTURE_DATA(verify) *self, uint32_t at, float by,
		       struct verdict *v)
{
	uint32_t i;

	forward(self, 0, 7);
	for (i = 7; i < TOKENS; i++) {
		forward(self, i, 1);
		if (i == 7 + at)
			self->logits[17] += by;
		check_logits(self->k, i, self->logits);
	}
	judge(self, v);
}

/* Single steps are of the first, second and fourth of 13, not of the third. */
TEST_F(verify, an_error_between_single_steps)
{
	struct verdict v;

	one_is_off(self, 2, 1.2f * verify_bound(KVA_F32, KVA_F32, TOKENS - 7),
		   &v);
	EXPECT_FALSE(v.ok);
	EXPECT_TRUE(v.diff > v.bound && v.step_diff < v.step_bound);
}

/* Of fewer positions less is allowed. */
TEST_F(verify, an_error_at_a_single_step)
{
	struct verdict v;

	one_is_off(self, 3, 1.08f * verify_bound(KVA_F32, KVA_F32, STEPWISE),
		   &v);
	EXPECT_FALSE(v.ok);
	EXPECT_TRUE(v.diff < v.bound && v.step_diff > v.step_bound);
}

/*
 * Half of the positions are beyond the typical error, and (1/2) r^-3 of them
 * beyond r times that. The sum over all positions is the chance of a false
 * alarm.
 */
TEST(the_bound_follows_from_the_distribution)
{
	static const double typical[] = {
		[KVA_F32] = 3.3e-5, [KVA_F16] = 7.84e-3, [KVA_BF16] = 6.25e-2,
	};
	uint32_t n, type;
	double r, chance;

	for (type = 0; type < 3; type++) {
		for (n = 1; n <= 1000000; n *= 10) {
			r = verify_bound(type, type, n) / typical[type];
			chance = n * 0.5 / (r * r * r);
			EXPECT_TRUE(fabs(chance - 0.01) < 2e-4);
		}
		EXPECT_EQ(verify_bound(type, type, 8),
			  verify_bound(KVA_F32, type, 8));
		EXPECT_EQ(verify_bound(type, type, 8),
			  verify_bound(type, KVA_F32, 8));
	}
}

/* Packed types have one too: the coarser of two counts. */
TEST(every_type_has_a_bound)
{
	static const int finer[] = {
		KVA_F32, KVA_F16, KVA_BF16, KVA_INT8, KVA_E4M3, KVA_E4M3T,
		KVA_INT4H, KVA_INT4,
	};
	int i;

	for (i = 1; i < KVA_NR_TYPES; i++) {
		EXPECT_GT(verify_bound(finer[i], finer[i], 8),
			  1.3f * verify_bound(finer[i - 1], finer[i - 1], 8));
		EXPECT_EQ(verify_bound(finer[i], finer[i - 1], 8),
			  verify_bound(finer[i], finer[i], 8));
	}
}

TEST_F(verify, another_token)
{
	struct verdict v;

	forward(self, 0, TOKENS);
	self->logits[17] = 1e3f;
	check_logits(self->k, TOKENS - 1, self->logits);
	judge(self, &v);
	EXPECT_EQ(0, v.equal);
	EXPECT_EQ(1, v.wrong);
}

TEST_F(verify, not_a_number)
{
	struct verdict v;

	forward(self, 0, TOKENS);
	self->logits[17] = NAN;
	check_logits(self->k, TOKENS - 1, self->logits);
	judge(self, &v);
	EXPECT_FALSE(v.ok);
	EXPECT_TRUE(isinf(v.diff));
}

/* ---- how wrong what is stored must be ---------------------------------- */

/* The fixture once more, with another model and type. */
static void reopen(FIXTURE_DATA(verify) *self, const char *path, int type,
		   const uint32_t *ids, uint32_t n)
{
	const struct model_opts mopts = { .weights = MODEL_WEIGHTS_F32 };
	const struct kvc_cache_opts copts = { .sz = sizeof(copts) };
	const struct kvc_open_opts oopts = {
		.sz = sizeof(oopts), .local_bytes = 32 << 20,
	};
	struct engine *e = &self->e;
	char err[256] = "";

	check_free(self->k);
	kvc_seq_free(self->seq, 0);
	kvc_batch_destroy(self->batch);
	engine_kit_close(e);
	self->opts.k_type = type;
	self->opts.v_type = type;
	ASSERT_EQ(0, gguf_open(path, &e->gguf, err, sizeof(err)));
	ASSERT_EQ(0, model_probe(e->gguf, &e->info, err, sizeof(err)));
	ASSERT_EQ(0, kvc_open("local", &oopts, &e->kvc));
	model_cache(&e->info, type, type, NULL, &e->groups, &e->shape);
	e->shape.page_tokens = 16;
	ASSERT_EQ(0, kvc_cache_create(e->kvc, &e->shape, &copts, &e->cache));
	ASSERT_EQ(0, model_load(e->gguf, &mopts, kvc_cache_threads(e->cache),
				&e->model, err, sizeof(err)));
	ASSERT_EQ(0, kvc_batch_create(e->cache, &self->batch));
	ASSERT_EQ(0, kvc_seq_create(e->cache, NULL, &self->seq));
	self->logits = xrealloc(self->logits, e->info.vocab,
				sizeof(*self->logits));
	self->c.ids.v = xrealloc(self->c.ids.v, n, sizeof(*ids));
	memcpy(self->c.ids.v, ids, n * sizeof(*ids));
	self->c.ids.n = n;
	self->k = check_create(e);
	forward(self, 0, n - 1);
}

/* Rows of all heads of a layer at @pos, out of the page or into it. */
static void rows_at(FIXTURE_DATA(verify) *self, uint32_t layer, uint32_t pos,
		    bool write, uint8_t *rows)
{
	struct kvc_cache *c = self->e.cache;
	uint32_t P = kvc_cache_page_tokens(c, 0), head, is_v;
	uint64_t handles[8];
	struct kva_view v;
	uint8_t *page;
	size_t size;

	ASSERT_GT(kvc_seq_handles(self->seq, 0, handles, 8), pos / P);
	kvc_layout_view(&c->l, layer, c->rw, &v);
	page = (uint8_t *)c->rw +
	       kvc_page_number(handles[pos / P]) * v.page_stride;
	for (is_v = 0; is_v < 2; is_v++) {
		for (head = 0; head < v.kv_heads; head++) {
			size = row_size(self->k, is_v);
			if (write)
				kva_rows_write(&v, page, is_v, head, pos % P, 1,
					       rows);
			else
				kva_rows_read(&v, page, is_v, head, pos % P, 1,
					      rows);
			rows += size;
		}
	}
}

/* The last token, @off positions from where it is. */
static void last_step(FIXTURE_DATA(verify) *self, uint32_t off)
{
	const uint32_t n = self->c.ids.n - 1, want = 0;
	const struct kvc_item item = {
		.seq = self->seq, .tokens = self->c.ids.v + n, .n = 1,
	};

	ASSERT_EQ(0, kvc_batch_plan(self->batch, &item, 1));
	*(uint32_t *)kvc_batch_positions(self->batch) += off;
	ASSERT_EQ(0, model_forward(self->e.model, self->batch, item.tokens, 1,
				   &want, 1, self->logits));
	kvc_batch_abort(self->batch);
}

/* The verdict on the last step. The bound of 200 positions is to compare. */
static void expect(FIXTURE_DATA(verify) *self, bool ok)
{
	int type = self->opts.k_type;
	struct verdict v;

	check_free(self->k);
	self->k = check_create(&self->e);
	check_logits(self->k, self->c.ids.n - 1, self->logits);
	judge(self, &v);
	ht_log("figure %s KV, %s: off by %.3g, bound %.3g, of 200 positions %.3g",
	       kva_type_name(type), ok ? "right" : "wrong", v.diff, v.bound,
	       verify_bound(type, type, 200));
	EXPECT_EQ(ok, v.ok);
	EXPECT_TRUE(ok || v.diff > v.bound);
}

/*
 * Each defect alone, then what is right again: the last token rotated for the
 * next position; one position with its neighbour's rows, in every layer; and
 * the same in one layer, of each in turn. Returns how many of these show.
 */
static uint32_t defects(FIXTURE_DATA(verify) *self, uint32_t pos)
{
	uint32_t layers = self->e.info.nlayers, i, found = 0;
	size_t size = 2 * self->e.groups.group[0].kv_heads *
		      (row_size(self->k, 0) + row_size(self->k, 1));
	uint8_t *right = xcalloc(layers, size), *wrong = xcalloc(layers, size);
	float *want = xcalloc(self->e.info.vocab, sizeof(*want));
	float bound = verify_bound(self->opts.k_type, self->opts.v_type, 1);
	uint32_t last = self->c.ids.n - 1;

	last_step(self, 0);
	expect(self, true);
	last_step(self, 1);
	expect(self, false);

	for (i = 0; i < layers; i++) {
		rows_at(self, i, pos, false, right + i * size);
		rows_at(self, i, pos + 1, false, wrong + i * size);
		rows_at(self, i, pos, true, wrong + i * size);
	}
	last_step(self, 0);
	expect(self, false);
	for (i = 0; i < layers; i++)
		rows_at(self, i, pos, true, right + i * size);
	last_step(self, 0);
	expect(self, true);

	ASSERT_EQ(0, model_recompute(self->e.model, self->c.ids.v, last + 1,
				     &last, 1, want, NULL, NULL));
	for (i = 0; i < layers; i++) {
		rows_at(self, i, pos, true, wrong + i * size);
		last_step(self, 0);
		found += distance(want, self->logits, self->e.info.vocab) >
			 bound;
		rows_at(self, i, pos, true, right + i * size);
	}
	free(right);
	free(wrong);
	free(want);
	return found;
}

TEST_F(verify, what_is_wrong_shows_with_every_type)
{
	uint32_t ids[TOKENS], type;

	memcpy(ids, self->c.ids.v, sizeof(ids));
	for (type = 0; type < 3; type++) {
		reopen(self, ENGINE_MODEL, type, ids, TOKENS);
		EXPECT_GT(defects(self, TOKENS - 3), 0);
	}
}

/* The beginning of a chat. */
TEST_F(verify, what_is_wrong_shows_in_a_real_model)
{
	static const uint32_t ids[] = {
		1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511,
		308, 34519, 28, 7018, 411, 407, 19712, 8182, 2, 198, 1, 4093,
		198, 1780, 314, 253, 3013, 3252, 47, 2, 198, 1, 520, 9531, 198,
		49, 3013, 3252, 314, 253, 4959, 1909, 281, 2583, 6277, 338,
	};
	const uint32_t n = sizeof(ids) / sizeof(*ids);
	const char *path = real_model_to_run();
	uint32_t type, found;

	for (type = 0; type < 3; type++) {
		reopen(self, path, type, ids, n);
		found = defects(self, n - 3);
		ht_log("figure %s KV: of %u layers, one row that is its neighbour's shows in %u",
		       kva_type_name(type), self->e.info.nlayers, found);
		EXPECT_GT(found, 0);
	}
}

TEST_HARNESS_MAIN
