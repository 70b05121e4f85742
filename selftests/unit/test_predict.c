// SPDX-License-Identifier: MIT
/*
 * test_predict.c - the predictor says what the allocator then does.
 */
#include "kit.h"

FIXTURE(predict) {
	struct kit k;
	uint32_t t[64];
};

FIXTURE_SETUP(predict)
{
	kit_open(&self->k, &(struct kit_spec) { .pages = 16 });
	kit_count(self->t, 64, 1000);
}

FIXTURE_TEARDOWN(predict)
{
	EXPECT_EQ(0, kit_used(&self->k));
	kit_close(&self->k);
}

TEST_F(predict, a_new_conversation)
{
	struct kvc_room r;

	ASSERT_EQ(0, kvc_predict(self->k.c, NULL, self->t, 9, 4, &r));
	EXPECT_EQ(0, r.reused_tokens);
	EXPECT_EQ(4, r.new_pages);
	EXPECT_EQ(0, r.idle_pages);
	EXPECT_EQ(16, r.available_pages);
	EXPECT_EQ(16, r.limit_pages);
	EXPECT_EQ(0, r.held_pages);
	EXPECT_EQ(1, r.fits);
	EXPECT_EQ(1, r.possible);
	ASSERT_EQ(0, kvc_predict(self->k.c, NULL, NULL, 64, 1, &r));
	EXPECT_EQ(17, r.new_pages);
	EXPECT_EQ(0, r.fits);
	EXPECT_EQ(0, r.possible);
}

/* kvc_errmsg() is of calls that fail: no room is an answer. */
TEST_F(predict, messages)
{
	struct kvc_seq *s = kit_seq(&self->k, NULL);
	char said[KVC_MSG_LEN];
	struct kvc_room r;

	kit_prompt(&self->k, s, self->t, 3);
	for (int i = 0; i < 2; i++) {
		strcpy(said, kvc_errmsg(self->k.ctx));
		EXPECT_EQ(i, said[0] != '\0');
		/* A new one, one with a copied page, and one that grows. */
		ASSERT_EQ(0, kvc_predict(self->k.c, NULL, NULL, 64, 1, &r));
		EXPECT_EQ(0, r.fits);
		EXPECT_STREQ(said, kvc_errmsg(self->k.ctx));
		ASSERT_EQ(0, kvc_predict(self->k.c, NULL, self->t, 64, 64, &r));
		EXPECT_EQ(3, r.reused_tokens);
		EXPECT_EQ(0, r.fits);
		EXPECT_STREQ(said, kvc_errmsg(self->k.ctx));
		ASSERT_EQ(0, kvc_predict(self->k.c, s, NULL, 70, 0, &r));
		EXPECT_EQ(0, r.fits);
		EXPECT_STREQ(said, kvc_errmsg(self->k.ctx));
		EXPECT_EQ(-E2BIG, kvc_seq_reserve(s, 70, 0));
	}
	kvc_seq_free(s, KVC_SEQ_DISCARD);
}

/* conformance c1.14: idle hits count as capacity, not as new pages. */
TEST_F(predict, idle_hits)
{
	struct kvc_seq *s = kit_seq(&self->k, NULL);
	struct kvc_room r;

	kit_prompt(&self->k, s, self->t, 11);
	ASSERT_EQ(0, kvc_predict(self->k.c, NULL, self->t, 20, 0, &r));
	EXPECT_EQ(11, r.reused_tokens);
	EXPECT_EQ(3, r.new_pages);
	EXPECT_EQ(0, r.idle_pages);
	EXPECT_EQ(13, r.available_pages);
	EXPECT_EQ(3, r.held_pages);
	kvc_seq_free(s, 0);
	ASSERT_EQ(0, kvc_predict(self->k.c, NULL, self->t, 20, 0, &r));
	EXPECT_EQ(11, r.reused_tokens);
	EXPECT_EQ(3, r.new_pages);
	EXPECT_EQ(3, r.idle_pages);
	EXPECT_EQ(16, r.available_pages);
	ASSERT_EQ(0, kvc_predict(self->k.c, NULL, self->t, 20, 40, &r));
	EXPECT_EQ(13, r.new_pages);
	EXPECT_EQ(1, r.fits);
	/* The tail goes back once its rows are copied: 2 + 14 is all. */
	ASSERT_EQ(0, kvc_predict(self->k.c, NULL, self->t, 20, 44, &r));
	EXPECT_EQ(14, r.new_pages);
	EXPECT_EQ(1, r.fits);
	EXPECT_EQ(1, r.possible);
	ASSERT_EQ(0, kvc_predict(self->k.c, NULL, self->t, 20, 45, &r));
	EXPECT_EQ(15, r.new_pages);
	EXPECT_EQ(0, r.fits);
	EXPECT_EQ(0, r.possible);
	/* Looking took and changed nothing. */
	EXPECT_EQ(3, kit_pool(&self->k).nr_cached);
}

TEST_F(predict, a_sequence_that_grows)
{
	struct kvc_seq *s = kit_seq(&self->k, NULL), *f;
	struct kvc_room r;

	/* conformance c1.15: 3 tokens and a lookahead of 2, of 4 */
	kit_prompt(&self->k, s, self->t, 3);
	ASSERT_EQ(0, kvc_predict(self->k.c, s, NULL, 1, 0, &r));
	EXPECT_EQ(0, r.new_pages);
	ASSERT_EQ(0, kvc_predict(self->k.c, s, NULL, 0, 2, &r));
	EXPECT_EQ(1, r.new_pages);
	ASSERT_EQ(0, kvc_predict(self->k.c, s, NULL, 2, 4, &r));
	EXPECT_EQ(2, r.new_pages);
	/* A fork's tail is copied by the first who writes. */
	ASSERT_EQ(0, kvc_seq_fork(s, &f));
	ASSERT_EQ(0, kvc_predict(self->k.c, f, NULL, 1, 0, &r));
	EXPECT_EQ(1, r.new_pages);
	ASSERT_EQ(0, kvc_predict(self->k.c, f, NULL, 0, 0, &r));
	EXPECT_EQ(0, r.new_pages);
	ASSERT_EQ(0, kit_add(&self->k, f, self->t, 1));
	ASSERT_EQ(0, kvc_predict(self->k.c, s, NULL, 1, 0, &r));
	EXPECT_EQ(0, r.new_pages);
	ASSERT_EQ(0, kvc_predict(self->k.c, s, NULL, 70, 0, &r));
	EXPECT_EQ(18, r.new_pages);
	EXPECT_EQ(0, r.fits);
	EXPECT_EQ(0, r.possible);
	kvc_seq_free(f, 0);
	kvc_seq_free(s, 0);
}

/* A conversation's own keys, where it has extra bytes. */
TEST_F(predict, an_empty_sequence)
{
	struct kvc_seq *s = kit_seq(&self->k, "x");
	struct kvc_item item = { s, self->t, 9 };
	struct kvc_room r;

	ASSERT_EQ(0, kit_step(&self->k, &item, 1, "x"));
	kvc_seq_free(s, 0);
	ASSERT_EQ(0, kvc_predict(self->k.c, NULL, self->t, 9, 0, &r));
	EXPECT_EQ(0, r.reused_tokens);
	s = kit_seq(&self->k, "x");
	ASSERT_EQ(0, kvc_predict(self->k.c, s, self->t, 9, 0, &r));
	EXPECT_EQ(8, r.reused_tokens);
	EXPECT_EQ(1, r.new_pages);
	EXPECT_EQ(2, r.idle_pages);
	kvc_seq_free(s, 0);
}

/*
 * A conversation that fits from scratch fits with what is cached of it, too,
 * however little room there is.
 */
TEST(reuse_in_a_pool_that_is_just_enough)
{
	static const struct {
		uint32_t pages, n, extra, reused, fresh;
		bool shares;
	} tries[] = {
		/* No room to copy the partly filled page: it is not taken. */
		{ 2, 21, 0, 16, 1, false },
		{ 2, 21, 11, 16, 1, false },
		/* Room for a copy, and for nothing beside both. */
		{ 3, 41, 0, 20, 2, false },
		/* Room for the prompt; later the shared page is given back. */
		{ 3, 21, 27, 20, 2, true },
	};
	uint32_t t[64];

	kit_count(t, 64, 1000);
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		uint32_t n = tries[i].n, extra = tries[i].extra;
		uint64_t had[2], has[2];
		struct kvc_room r;
		struct kvc_seq *s;
		struct kit k;

		kit_open(&k, &(struct kit_spec) {
			.pages = tries[i].pages, .page_tokens = 16,
		});
		s = kit_seq(&k, NULL);
		ASSERT_EQ(0, kit_add(&k, s, t, 20));
		kvc_seq_handles(s, 0, had, 2);
		kvc_seq_free(s, 0);
		ASSERT_EQ(0, kvc_predict(k.c, NULL, t, n, extra, &r));
		EXPECT_EQ(tries[i].reused, r.reused_tokens);
		EXPECT_EQ(tries[i].fresh, r.new_pages);
		EXPECT_EQ(1, r.fits);
		EXPECT_EQ(1, r.possible);
		s = kit_seq(&k, NULL);
		ASSERT_EQ(tries[i].reused, kvc_seq_prefix(s, t, n));
		EXPECT_STREQ("", kvc_errmsg(k.ctx));
		if (kvc_seq_handles(s, 0, has, 2) == 2)
			EXPECT_EQ(tries[i].shares, had[1] == has[1]);
		ASSERT_EQ(0, kvc_seq_reserve(s, n - tries[i].reused, 0));
		ASSERT_EQ(0, kit_add(&k, s, t + tries[i].reused,
				     n - tries[i].reused));
		if (extra)
			ASSERT_EQ(0, kit_add(&k, s, t + n, extra));
		kit_check(&k, s);
		kvc_seq_free(s, 0);
		kit_close(&k);
	}
}

/* What is there is the less of the tenant's and the pool's: no sum of parts. */
TEST(two_groups_in_a_domain)
{
	struct kit_spec spec = {
		.pages = 100, .max = 20, .ngroups = 2, .commons = 100,
	};
	uint32_t t[1024], fits = 0, n = 640, extra;
	struct kvc_room r;
	struct kvc_seq *s;
	struct kit k;

	NOT_ON_DEVICE("its numbers follow from pages of less than 64 KiB");
	kit_count(t, 1024, 1000);
	kit_open(&k, &spec);
	s = kit_seq(&k, NULL);
	while (kvc_seq_len(s) < n)
		ASSERT_EQ(0, kit_add(&k, s, t + kvc_seq_len(s), 4));
	kvc_seq_free(s, 0);
	EXPECT_GT(kit_pool(&k).nr_cached, 80);
	for (extra = 0; extra < 100; extra++) {
		ASSERT_EQ(0, kvc_predict(k.c, NULL, t, n + 1 + extra, 0, &r));
		s = kit_seq(&k, NULL);
		ASSERT_EQ(r.reused_tokens,
			  kvc_seq_prefix(s, t, n + 1 + extra));
		ASSERT_EQ(r.fits, !kvc_seq_reserve(s, n + 1 + extra -
						   r.reused_tokens, 0));
		fits += r.fits;
		kvc_seq_free(s, KVC_SEQ_DISCARD);
	}
	EXPECT_GT(fits, 10);
	EXPECT_LT(fits, 90);
	kit_close(&k);
}

/* A grant that lets only some of the pages be held. */
TEST(the_bound_of_a_grant)
{
	struct kvcache_tenant_grant g = {
		.rights = KVCACHE_GRANT_LOOKUP | KVCACHE_GRANT_PUBLISH,
		.max_held = 9,
	};
	struct kvc_room r;
	struct kvc_seq *s;
	uint32_t t[41];
	struct kit k;

	kit_count(t, 41, 1000);
	kit_open(&k, &(struct kit_spec) { .commons = 64 });
	s = kit_seq(&k, NULL);
	ASSERT_EQ(0, kit_add(&k, s, t, 40));
	kvc_seq_free(s, 0);
	EXPECT_EQ(10, kit_pool(&k).nr_cached);
	g.tenant = k.c->o.domain;
	g.to = k.ctx->tenant;
	ASSERT_EQ(0, kvc_call(k.ctx, KVCACHE_NR_TENANT_GRANT, &g));
	ASSERT_EQ(0, kvc_predict(k.c, NULL, t, 41, 0, &r));
	EXPECT_EQ(36, r.reused_tokens);
	EXPECT_EQ(2, r.new_pages);
	EXPECT_EQ(9, r.idle_pages);
	s = kit_seq(&k, NULL);
	EXPECT_EQ(36, kvc_seq_prefix(s, t, 41));
	kit_check(&k, s);
	kvc_seq_free(s, 0);
	kit_close(&k);
}

/*
 * Prompts with common beginnings, in a small pool, some kept and some ended,
 * with one group or two: whatever was predicted is what happens.
 */
static void sweep(const struct kit_spec *spec, uint32_t rounds, uint64_t seed)
{
	struct kvc_seq *live[4] = { NULL }, *s;
	uint32_t p[96], n, extra, fits = 0, reuse = 0, full = 0;
	struct kvc_stats was, st;
	struct kvc_room r;
	struct kit k;
	int rc;

	kit_open(&k, spec);
	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t x = kit_mix(seed, i);
		uint32_t who = x % 4;

		n = 1 + (x >> 8) % 40;
		extra = (x >> 16) % 24;
		for (uint32_t j = 0; j < n + extra; j++)
			p[j] = kit_mix(x >> 24 & 3, j / (3 + (x >> 28) % 9));
		/* Grow one that lives, or start a new one in its place. */
		if (live[who] && x >> 60 & 1 && kvc_seq_len(live[who]) < 60) {
			s = live[who];
			n = 1 + n % 9;
			ASSERT_EQ(0, kvc_predict(k.c, s, NULL, n, 0, &r));
			kvc_cache_stats(k.c, &was);
			rc = kit_add(&k, s, p, n);
		} else {
			kvc_seq_free(live[who], x >> 61 & 1 ? 0 : KVC_SEQ_DISCARD);
			live[who] = s = kit_seq(&k, NULL);
			ASSERT_EQ(0, kvc_predict(k.c, NULL, p, n, extra, &r));
			kvc_cache_stats(k.c, &was);
			ASSERT_EQ(r.reused_tokens, kvc_seq_prefix(s, p, n));
			reuse += r.reused_tokens > 0;
			/* Pages filled by the prompt could be deduplicated. */
			n -= r.reused_tokens;
			rc = kvc_seq_reserve(s, n, 0);
			if (!rc)
				rc = kvc_seq_reserve(s, n + extra, 0);
			if (!rc)
				rc = kit_add(&k, s, p + r.reused_tokens,
					     n + extra);
		}
		kvc_cache_stats(k.c, &st);
		ASSERT_EQ(r.fits, rc == 0);
		if (rc) {
			full++;
			kvc_seq_free(s, 0);
			live[who] = NULL;
			continue;
		}
		fits++;
		ASSERT_EQ(r.new_pages, st.pages_allocated - was.pages_allocated);
		kit_check(&k, s);
	}
	EXPECT_GT(fits, rounds / 8);
	EXPECT_GT(full, 0);
	EXPECT_GT(reuse, rounds / 20);
	for (int i = 0; i < 4; i++)
		kvc_seq_free(live[i], 0);
	EXPECT_EQ(0, kit_used(&k));
	kit_close(&k);
}

TEST(random_sweep)
{
	for (uint32_t pages = 8; pages <= 32; pages += 6)
		sweep(&(struct kit_spec) { .pages = pages }, 400, pages);
}

TEST(random_sweep_below_a_max)
{
	sweep(&(struct kit_spec) { .pages = 40, .max = 20 }, 800, 7);
}

TEST(random_sweep_of_two_groups)
{
	NOT_ON_DEVICE("its numbers follow from pages of less than 64 KiB");
	sweep(&(struct kit_spec) { .pages = 30, .ngroups = 2 }, 800, 8);
}

TEST_HARNESS_MAIN
