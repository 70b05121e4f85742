// SPDX-License-Identifier: MIT
/*
 * test_window.c - groups whose layers see the last tokens and the first few:
 * which pages are held, what is found again, and that attention is the same
 * bits as with all pages kept.
 */
#include <math.h>

#include "kit.h"

#define P 4

FIXTURE(window) {
	struct kit k;
	uint32_t t[512];
};

FIXTURE_SETUP(window)
{
	kit_count(self->t, 512, 1000);
	self->k.ctx = NULL;
}

FIXTURE_TEARDOWN(window)
{
	kit_end(&self->k);
}

static uint32_t up(uint32_t n)
{
	return (n + P - 1) / P;
}

/* What must be held, and that it is: for every window and step. */
static void check_held(struct kit *k, struct kvc_seq *s, uint32_t window,
		       uint32_t sinks)
{
	uint32_t len = kvc_seq_len(s), n, i, held = 0;
	uint64_t h[256];

	n = kvc_seq_handles(s, 0, h, 256);
	ASSERT_EQ(up(len), n);
	for (i = 0; i < n; i++) {
		/* its last token is seen by whoever is next, or it is a sink's */
		bool seen = (i + 1) * P + window > len + 1 || i * P < sinks;

		ASSERT_EQ(seen, h[i] != 0);
		held += seen;
	}
	ASSERT_EQ(held, kvc_seq_pages(s));
	ASSERT_EQ(held, kit_used(k));
	ASSERT_LE(held, up(window - 1) + 1 + up(sinks));
	kit_check(k, s);
}

TEST_F(window, pages_between_steps)
{
	static const uint32_t windows[] = { 1, 2, 4, 5, 7, 8, 9, 16, 90, 500 };
	static const uint32_t sinks[] = { 0, 1, 4, 6 }, steps[] = { 1, 3, 20 };
	uint32_t w, i, j, n;

	for (w = 0; w < 10; w++) {
		for (i = 0; i < 4; i++) {
			struct kit_spec spec = {
				.window = windows[w], .sinks = sinks[i],
			};

			kit_open(&self->k, &spec);
			for (j = 0; j < 3; j++) {
				struct kvc_seq *s = kit_seq(&self->k, NULL);

				for (n = 0; n < 100; n += steps[j]) {
					ASSERT_EQ(0, kit_add(&self->k, s,
						self->t + n, steps[j]));
					check_held(&self->k, s, windows[w],
						   sinks[i]);
				}
				kvc_seq_free(s, 0);
			}
			kit_end(&self->k);
		}
	}
	self->k.ctx = NULL;
}

/* One conversation, the whole prompt at once: what it needs is all there. */
TEST_F(window, a_prompt_in_one_step)
{
	struct kvc_seq *s;

	kit_open(&self->k, &(struct kit_spec) { .window = 8 });
	s = kit_seq(&self->k, NULL);
	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 203));
	check_held(&self->k, s, 8, 0);
	kvc_seq_free(s, 0);
}

/* Attention, in which a page that is read although it was given back shows. */
static void attend(struct kit *k, struct kvc_seq *s, const uint32_t *tokens,
		   uint32_t n, float *out)
{
	enum { Q = 4 * KIT_DIM };
	struct kvc_item item = { s, tokens, n };
	uint32_t i, layer;
	float *q = malloc(n * Q * sizeof(*q));

	ASSERT_EQ(0, kvc_batch_plan(k->b, &item, 1));
	kit_append(k, &item, 1, NULL);
	for (layer = 0; layer < KIT_LAYERS; layer++) {
		for (i = 0; i < n * Q; i++)
			q[i] = kit_elem(tokens[i / Q], layer, 0, 9, i % Q) / 8;
		ASSERT_EQ(0, kvc_attend(k->b, layer, 0.25, q, Q,
					out + layer * n * Q, Q));
	}
	ASSERT_EQ(0, kvc_batch_commit(k->b));
	free(q);
}

/*
 * What a row of one new token is: the softmax over the window and the sinks, in
 * double, of keys and values that follow from the tokens.
 */
static void check_row(const uint32_t *tokens, uint32_t pos, uint32_t layer,
		      uint32_t window, uint32_t sinks, const float *out)
{
	double sum[4] = { 0 }, o[4][KIT_DIM] = { 0 }, score;
	uint64_t history = kit_seed(NULL);
	uint32_t j, h, d;

	for (j = 0; j <= pos; j++) {
		history = kit_mix(history, tokens[j]);
		if (j + window <= pos && j >= sinks)
			continue;
		for (h = 0; h < 4; h++) {
			score = 0;
			for (d = 0; d < KIT_DIM; d++)
				score += kit_elem(tokens[pos], layer, 0, 9,
						  h * KIT_DIM + d) / 8 *
					 kit_elem(history, layer, 0, h / 2, d);
			score = exp(score / 4);
			sum[h] += score;
			for (d = 0; d < KIT_DIM; d++)
				o[h][d] += score * kit_elem(history, layer, 1,
							    h / 2, d);
		}
	}
	for (h = 0; h < 4; h++)
		for (d = 0; d < KIT_DIM; d++)
			ASSERT_LT(fabs(o[h][d] / sum[h] -
				       out[h * KIT_DIM + d]), 1e-3);
}

TEST_F(window, attention_is_that_with_all_pages)
{
	enum { N = 20, ROW = KIT_LAYERS * 4 * KIT_DIM };
	static const uint32_t windows[] = { 1, 3, 8, 13 };
	static float got[N * ROW], want[N * ROW];
	struct kvc_seq *a, *b;
	uint32_t w, at, n, i;
	struct kit all;

	for (w = 0; w < 4; w++) {
		struct kit_spec spec = {
			.pages = 128, .window = windows[w], .sinks = w,
			.o.no_reuse = 1, .type = KVC_F16,
		};

		kit_open(&self->k, &spec);
		self->k.c->o.keep_all = 1;
		kit_twin(&self->k, &all);
		self->k.c->o.keep_all = 0;
		a = kit_seq(&self->k, NULL);
		b = kit_seq(&all, NULL);
		for (at = 0, n = 1; at < 200; at += n, n = at % 3 ? 1 : N) {
			memset(got, 0xff, sizeof(got));
			memset(want, 0xff, sizeof(want));
			attend(&self->k, a, self->t + at, n, got);
			attend(&all, b, self->t + at, n, want);
			ASSERT_EQ(0, memcmp(got, want, sizeof(got)));
			for (i = 0; n == 1 && i < KIT_LAYERS; i++)
				check_row(self->t, at, i, windows[w], w,
					  got + i * 4 * KIT_DIM);
		}
		EXPECT_EQ(up(at), kvc_seq_pages(b));
		EXPECT_LE(kvc_seq_pages(a), up(windows[w] - 1) + 1 + up(w));
		kvc_seq_free(a, 0);
		kvc_seq_free(b, 0);
		kit_twin_close(&all);
		kit_end(&self->k);
	}
	self->k.ctx = NULL;
}

/* ---- what is found ---------------------------------------------------- */

static void run(struct kit *k, const uint32_t *tokens, uint32_t n)
{
	struct kvc_seq *s = kit_seq(k, NULL);

	kit_prompt(k, s, tokens, n);
	kvc_seq_free(s, 0);
}

static uint32_t found(struct kit *k, const uint32_t *tokens, uint32_t n)
{
	struct kvc_seq *s = kit_seq(k, NULL);
	struct kvc_room room;
	int len;

	ASSERT_EQ(0, kvc_predict(k->c, NULL, tokens, n, 0, &room));
	len = kvc_seq_prefix(s, tokens, n);
	ASSERT_GE(len, 0);
	EXPECT_EQ(room.reused_tokens, len);
	kit_check(k, s);
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	return len;
}

/* Fresh pages for somebody else, who publishes nothing. */
static struct kvc_seq *take(struct kit *k, uint32_t pages)
{
	struct kvc_seq_opts o = { .sz = sizeof(o), .no_reuse = 1 };
	struct kvc_seq *s;

	ASSERT_EQ(0, kvc_seq_create(k->c, &o, &s));
	ASSERT_EQ(0, kvc_seq_reserve(s, pages * P, 0));
	return s;
}

/* A window of 9 is in three pages before any boundary. */
TEST_F(window, a_prefix_needs_its_tail_only)
{
	struct kvc_seq *s;
	struct kit twin;
	uint32_t gone;

	for (gone = 0; gone <= 10; gone++) {
		kit_open(&self->k, &(struct kit_spec) {
			.pages = 12, .window = 9,
		});
		run(&self->k, self->t, 41);	/* ten pages and a token */
		EXPECT_EQ(11, kit_pool(&self->k).nr_cached);
		s = take(&self->k, 1 + gone);
		/* Those of least use went: the first of the chain. */
		EXPECT_EQ(11 - gone, kit_pool(&self->k).nr_cached);
		kit_twin(&self->k, &twin);
		/* The last whole page ends at 40, and with two that is 36. */
		EXPECT_EQ(gone <= 8 ? 40 : 0, found(&twin, self->t, 100));
		if (gone < 8)
			EXPECT_EQ(gone <= 7 ? 36 : 0,
				  found(&twin, self->t, 37));
		/* Shorter ones need what was the first to go. */
		EXPECT_EQ(gone ? 0 : 4, found(&twin, self->t, 5));
		kit_twin_close(&twin);
		kvc_seq_free(s, 0);
		kit_end(&self->k);
	}
	self->k.ctx = NULL;
}

TEST_F(window, a_prefix_needs_its_sinks)
{
	struct kit_spec spec = { .window = 5, .sinks = 6, .pages = 64 };
	struct kvc_seq *s;

	kit_open(&self->k, &spec);
	run(&self->k, self->t, 60);
	EXPECT_EQ(59, found(&self->k, self->t, 60));
	EXPECT_EQ(59, found(&self->k, self->t, 80) - 1);
	EXPECT_EQ(30, found(&self->k, self->t, 31));
	kit_end(&self->k);
	/*
	 * Before the one that 56 tokens need are eleven, which go first; no page
	 * is left for a copy of three rows more.
	 */
	kit_open(&self->k, &spec);
	run(&self->k, self->t, 60);
	s = take(&self->k, 64 - 15 + 11);
	EXPECT_EQ(56, found(&self->k, self->t, 60));
	kvc_seq_free(s, 0);
	kit_end(&self->k);
	kit_open(&self->k, &spec);
	run(&self->k, self->t, 60);
	s = take(&self->k, 64 - 15 + 12);
	EXPECT_EQ(8, found(&self->k, self->t, 60));
	kvc_seq_free(s, 0);
	kit_end(&self->k);
	kit_open(&self->k, &spec);
	run(&self->k, self->t, 60);
	s = take(&self->k, 64 - 15 + 13);
	EXPECT_EQ(0, found(&self->k, self->t, 60));
	kvc_seq_free(s, 0);
}

/* Of several boundaries the last that everybody serves. */
TEST_F(window, the_longest_that_all_groups_serve)
{
	struct kvc_seq *s;
	struct kit twin;
	uint32_t n, block;

	kit_open(&self->k, &(struct kit_spec) {
		.pages = 200, .ngroups = 2, .window = 10,
	});
	ASSERT_NE(self->k.c->l.group[0].page_tokens,
		  self->k.c->l.group[1].page_tokens);
	block = self->k.c->l.group[1].block_tokens;
	ASSERT_EQ(0, block % self->k.c->l.group[0].block_tokens);
	s = kit_seq(&self->k, NULL);
	kit_prompt(&self->k, s, self->t, 150);
	kit_check(&self->k, s);
	for (n = 2; n < 150; n += 7)
		EXPECT_EQ(n - 1, found(&self->k, self->t, n));
	kvc_seq_free(s, 0);
	/* By keys alone: ends of blocks. */
	kit_twin(&self->k, &twin);
	for (n = 2; n < 150; n += 7)
		EXPECT_EQ((n - 1) / block * block, found(&twin, self->t, n));
	kit_twin_close(&twin);
}

/* ---- other calls ------------------------------------------------------ */

TEST_F(window, truncate)
{
	struct kvc_seq *s;
	uint32_t len;

	kit_open(&self->k, &(struct kit_spec) { .window = 6 });
	for (len = 0; len <= 50; len++) {
		int want;

		s = kit_seq(&self->k, NULL);
		ASSERT_EQ(0, kit_add(&self->k, s, self->t, 50));
		/* From token 45 on, so from page 11 on, it is all there. */
		want = len == 0 || len >= 44 + 5 ? 0 : -ENODATA;
		ASSERT_EQ(want, kvc_seq_truncate(s, len));
		ASSERT_EQ(want ? 50 : len, kvc_seq_len(s));
		kit_check(&self->k, s);
		/* It goes on, whatever was the answer. */
		ASSERT_EQ(0, kit_add(&self->k, s, self->t + 100, 30));
		check_held(&self->k, s, 6, 0);
		kvc_seq_free(s, KVC_SEQ_DISCARD);
	}
	/* To begin again is to find what is cached. */
	s = kit_seq(&self->k, NULL);
	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 50));
	ASSERT_EQ(-ENODATA, kvc_seq_truncate(s, 20));
	EXPECT_NE(NULL, strstr(kvc_errmsg(self->k.ctx), "truncate to 0"));
	ASSERT_EQ(0, kvc_seq_truncate(s, 0));
	EXPECT_EQ(20, kvc_seq_prefix(s, self->t, 21));
	kit_check(&self->k, s);
	kvc_seq_free(s, 0);
}

TEST_F(window, forks_go_their_own_ways)
{
	struct kvc_seq *a, *b;
	uint32_t n;

	kit_open(&self->k, &(struct kit_spec) { .window = 7 });
	a = kit_seq(&self->k, NULL);
	ASSERT_EQ(0, kit_add(&self->k, a, self->t, 30));
	ASSERT_EQ(0, kvc_seq_fork(a, &b));
	for (n = 0; n < 40; n++) {
		ASSERT_EQ(0, kit_add(&self->k, a, self->t + 100 + n, 1));
		kit_check(&self->k, a);
		kit_check(&self->k, b);
		if (n % 2)
			continue;
		ASSERT_EQ(0, kit_add(&self->k, b, self->t + 200 + n, 2));
		kit_check(&self->k, b);
	}
	kvc_seq_free(a, 0);
	check_held(&self->k, b, 7, 0);
	kvc_seq_free(b, 0);
}

TEST_F(window, idle_and_awake)
{
	struct kvc_seq *s, *other;

	kit_open(&self->k, &(struct kit_spec) {
		.pages = 32, .window = 9, .sinks = 3,
	});
	s = kit_seq(&self->k, NULL);
	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 62));
	ASSERT_EQ(0, kvc_seq_idle(s));
	EXPECT_EQ(1, kvc_seq_pages(s));		/* the tail, its own */
	EXPECT_EQ(62, kvc_seq_wake(s));
	check_held(&self->k, s, 9, 3);
	/* Somebody takes some of it, and it begins again. */
	ASSERT_EQ(0, kvc_seq_idle(s));
	other = take(&self->k, 31);
	EXPECT_EQ(0, kvc_seq_wake(s));
	EXPECT_EQ(0, kvc_seq_pages(s));
	kvc_seq_free(other, 0);
	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 62));
	check_held(&self->k, s, 9, 3);
	kvc_seq_free(s, 0);
}

/* A step's worth is reserved, and the conversation is as long as it likes. */
TEST_F(window, longer_than_the_pool)
{
	struct kit_spec spec = { .pages = 6, .window = 9, .o.step = 8 };
	struct kvc_room room;
	struct kvc_seq *s;
	uint32_t n;

	kit_open(&self->k, &spec);
	ASSERT_EQ(0, kvc_predict(self->k.c, NULL, self->t, 400, 0, &room));
	EXPECT_EQ(2, room.new_pages);
	EXPECT_EQ(1, room.fits);
	EXPECT_EQ(1, room.possible);
	s = kit_seq(&self->k, NULL);
	ASSERT_EQ(0, kvc_seq_reserve(s, 400, 0));
	EXPECT_EQ(2, kvc_seq_pages(s));
	for (n = 0; n < 400; n += 8)
		ASSERT_EQ(0, kit_add(&self->k, s, self->t + n, 8));
	check_held(&self->k, s, 9, 0);
	kvc_seq_free(s, 0);
	/* Without that all of it would have to be there. */
	kit_end(&self->k);
	spec.o.step = 0;
	kit_open(&self->k, &spec);
	ASSERT_EQ(0, kvc_predict(self->k.c, NULL, self->t, 400, 0, &room));
	EXPECT_EQ(100, room.new_pages);
	EXPECT_EQ(0, room.possible);
}

TEST_F(window, footprint_is_what_is_held)
{
	struct kvc_footprint f;
	struct kvc_seq *s;
	uint32_t n;

	kit_open(&self->k, &(struct kit_spec) {
		.pages = 64, .ngroups = 2, .window = 30, .sinks = 1,
	});
	s = kit_seq(&self->k, NULL);
	for (n = 1; n <= 200; n++) {
		ASSERT_EQ(0, kit_add(&self->k, s, self->t + n, 1));
		ASSERT_EQ(0, kvc_footprint(&self->k.m, self->k.c->l.page_size,
					   n, 1, &f));
		ASSERT_EQ(kvc_seq_pages(s), f.pages);
		ASSERT_EQ(f.held_bytes, f.used_bytes + f.layout_bytes +
			  f.unused_bytes);
	}
	kvc_seq_free(s, 0);
}

TEST_HARNESS_MAIN
