// SPDX-License-Identifier: MIT
/*
 * test_prefix.c - what is found again: whole pages, parts of pages, in other
 * sequences of this context and after they ended.
 */
#include "kit.h"

FIXTURE(prefix) {
	struct kit k;
	uint32_t t[256];
};

FIXTURE_SETUP(prefix)
{
	kit_open(&self->k, &(struct kit_spec) { .pages = 64 });
	kit_count(self->t, 256, 1000);
}

FIXTURE_TEARDOWN(prefix)
{
	kit_end(&self->k);
}

/* Run a prompt and end the conversation. */
static uint32_t run(struct kit *k, const uint32_t *tokens, uint32_t n)
{
	struct kvc_seq *s = kit_seq(k, NULL);
	uint32_t reused = kit_prompt(k, s, tokens, n);

	kit_check(k, s);
	kvc_seq_free(s, 0);
	return reused;
}

TEST_F(prefix, never_the_last_token)
{
	for (uint32_t n = 1; n <= 13; n++) {
		run(&self->k, self->t, n);
		EXPECT_EQ(n - 1, run(&self->k, self->t, n));
	}
	EXPECT_EQ(0, run(&self->k, self->t + 100, 1));
}

/* Rows that a live sequence wrote, to the token, before its page is full. */
TEST_F(prefix, of_rows_not_published_yet)
{
	struct kvc_seq *a = kit_seq(&self->k, NULL), *b;

	ASSERT_EQ(0, kit_add(&self->k, a, self->t, 7));
	for (uint32_t n = 1; n <= 8; n++) {
		b = kit_seq(&self->k, NULL);
		EXPECT_EQ(n - 1, kit_prompt(&self->k, b, self->t, n));
		kit_check(&self->k, b);
		kvc_seq_free(b, KVC_SEQ_DISCARD);
		kit_check(&self->k, a);
	}
	/* Rows of a step that is only planned are not there yet. */
	struct kvc_item item = { a, self->t + 50, 5 };

	kvc_seq_truncate(a, 6);
	ASSERT_EQ(0, kvc_batch_plan(self->k.b, &item, 1));
	self->t[6] = self->t[50];
	b = kit_seq(&self->k, NULL);
	EXPECT_EQ(6, kvc_seq_prefix(b, self->t, 9));
	kvc_batch_abort(self->k.b);
	kit_check(&self->k, b);
	kvc_seq_free(a, 0);
	kvc_seq_free(b, 0);
}

/* The best of many continuations of one page. */
TEST_F(prefix, longest_of_many)
{
	struct kvc_seq *s[8], *b;
	uint32_t p[8];

	for (uint32_t i = 0; i < 8; i++) {
		memcpy(p, self->t, sizeof(p));
		p[i] += 100;
		s[i] = kit_seq(&self->k, NULL);
		kit_prompt(&self->k, s[i], p, 8);
	}
	for (int live = 1; live >= 0; live--) {
		for (uint32_t i = 0; i < 8; i++) {
			memcpy(p, self->t, sizeof(p));
			p[i] += 200;
			b = kit_seq(&self->k, NULL);
			EXPECT_EQ(KVC_MIN(i, 7), kvc_seq_prefix(b, p, 8));
			kit_check(&self->k, b);
			kvc_seq_free(b, KVC_SEQ_DISCARD);
		}
		for (uint32_t i = 0; live && i < 8; i++)
			kvc_seq_free(s[i], 0);
	}
}

TEST_F(prefix, equal_pages_are_kept_once)
{
	struct kvc_seq *s[3];
	struct kvc_item items[3];
	struct kvc_stats st;

	/* Side by side, none can find the other's. */
	for (int i = 0; i < 3; i++) {
		s[i] = kit_seq(&self->k, NULL);
		items[i] = (struct kvc_item) { s[i], self->t, 10 };
	}
	ASSERT_EQ(0, kit_step(&self->k, items, 3, NULL));
	kvc_cache_stats(self->k.c, &st);
	EXPECT_EQ(9, st.pages_allocated);
	EXPECT_EQ(2, st.pages_published);
	EXPECT_EQ(4, st.pages_deduplicated);
	EXPECT_EQ(2 + 3, kit_used(&self->k));
	for (int i = 0; i < 3; i++)
		kit_check(&self->k, s[i]);
	for (int i = 0; i < 3; i++)
		kvc_seq_free(s[i], 0);
	EXPECT_EQ(3, kit_pool(&self->k).nr_cached);
}

TEST_F(prefix, without_deduplication)
{
	struct kit_spec spec = { .o.no_dedup = 1 };
	struct kvc_seq *s[2];
	struct kvc_item items[2];
	struct kit k;

	kit_close(&self->k);
	kit_open(&k, &spec);
	for (int i = 0; i < 2; i++) {
		s[i] = kit_seq(&k, NULL);
		items[i] = (struct kvc_item) { s[i], self->t, 10 };
	}
	ASSERT_EQ(0, kit_step(&k, items, 2, NULL));
	EXPECT_EQ(6, kit_used(&k));
	for (int i = 0; i < 2; i++)
		kvc_seq_free(s[i], 0);
	EXPECT_EQ(6, kit_pool(&k).nr_cached);
	EXPECT_EQ(9, run(&k, self->t, 10));
	kit_close(&k);
}

/* conformance c2.2 and c3.8: what is beside the tokens sets apart. */
TEST_F(prefix, extra_and_salt)
{
	static const char *const extra[] = { NULL, "a", "b", "ab" };
	struct kit_spec spec = { .o.salt = "a" };
	struct kit k;
	struct kvc_seq *s;

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 4; i++) {
			struct kvc_item item = { .tokens = self->t };

			s = kit_seq(&self->k, extra[i]);
			item.seq = s;
			ASSERT_EQ(round ? 9 : 0, kvc_seq_prefix(s, self->t, 10));
			item.tokens += kvc_seq_len(s);
			item.n = 10 - kvc_seq_len(s);
			ASSERT_EQ(0, kit_step(&self->k, &item, 1, extra[i]));
			kit_check_extra(&self->k, s, extra[i]);
			kvc_seq_free(s, 0);
		}
	}
	/* ("bc", "a") and ("c", "ab"), in one pool */
	kit_close(&self->k);
	kit_open(&k, &spec);
	s = kit_seq(&k, "bc");
	kit_prompt(&k, s, self->t, 10);
	kvc_seq_free(s, 0);
	kvc_batch_destroy(k.b);
	kvc_cache_destroy(k.c);
	spec.o.sz = sizeof(spec.o);
	spec.o.salt[1] = 'b';
	ASSERT_EQ(0, kvc_cache_create(k.ctx, &k.m, &spec.o, &k.c));
	ASSERT_EQ(0, kvc_batch_create(k.c, &k.b));
	s = kit_seq(&k, "c");
	EXPECT_EQ(0, kvc_seq_prefix(s, self->t, 10));
	kvc_seq_free(s, 0);
	s = kit_seq(&k, "bc");
	EXPECT_EQ(0, kvc_seq_prefix(s, self->t, 10));
	kvc_seq_free(s, 0);
	/* The same salt, by another cache: found again by its keys alone. */
	kvc_batch_destroy(k.b);
	kvc_cache_destroy(k.c);
	spec.o.salt[1] = 0;
	ASSERT_EQ(0, kvc_cache_create(k.ctx, &k.m, &spec.o, &k.c));
	ASSERT_EQ(0, kvc_batch_create(k.c, &k.b));
	s = kit_seq(&k, "bc");
	EXPECT_EQ(8, kvc_seq_prefix(s, self->t, 10));
	kvc_seq_free(s, 0);
	kit_close(&k);
}

/* Another model, or the same with new weights, finds nothing. */
TEST_F(prefix, another_model)
{
	struct kvc_cache *c;
	struct kvc_seq *s;
	struct kvc_model m = self->k.m;

	run(&self->k, self->t, 10);
	m.epoch = 1;
	ASSERT_EQ(0, kvc_cache_create(self->k.ctx, &m, NULL, &c));
	ASSERT_EQ(0, kvc_seq_create(c, NULL, &s));
	EXPECT_EQ(0, kvc_seq_prefix(s, self->t, 10));
	kvc_seq_free(s, 0);
	kvc_cache_destroy(c);
	EXPECT_EQ(9, run(&self->k, self->t, 10));
}

TEST_F(prefix, no_reuse)
{
	struct kvc_seq_opts o = { .sz = sizeof(o), .no_reuse = 1 };
	struct kvc_seq *s, *b;

	ASSERT_EQ(0, kvc_seq_create(self->k.c, &o, &s));
	EXPECT_EQ(0, kit_prompt(&self->k, s, self->t, 10));
	b = kit_seq(&self->k, NULL);
	EXPECT_EQ(0, kvc_seq_prefix(b, self->t, 10));
	kvc_seq_free(s, 0);
	EXPECT_EQ(0, kit_pool(&self->k).nr_cached);
	ASSERT_EQ(0, kit_add(&self->k, b, self->t, 10));
	kvc_seq_free(b, 0);
	ASSERT_EQ(0, kvc_seq_create(self->k.c, &o, &s));
	EXPECT_EQ(0, kvc_seq_prefix(s, self->t, 10));
	kvc_seq_free(s, 0);
}

/* Blocks inside a page, and an exact end, found by key alone. */
TEST_F(prefix, by_block_keys)
{
	struct kit_spec spec = { .page_tokens = 64 };
	struct kvc_cache_opts o = { .sz = sizeof(o), .threads = 1 };
	struct kvc_cache *c;
	struct kvc_seq *s;
	struct kit k;
	static const struct {
		uint32_t same, n, want;
	} tries[] = {
		{ 100, 200, 96 },	/* 64, then blocks at 80 and 96 */
		{ 100, 101, 100 },	/* the exact end */
		{ 100, 100, 96 },
		{ 90, 200, 80 },
		{ 64, 200, 64 },
		{ 63, 200, 48 },
		{ 17, 18, 16 },
		{ 16, 17, 16 },
		{ 15, 17, 0 },
	};
	uint32_t p[200];

	kit_close(&self->k);
	kit_open(&k, &spec);
	ASSERT_EQ(16, kvc_cache_block_tokens(k.c, 0));
	run(&k, self->t, 100);
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		/* A cache that has seen no tokens yet. */
		ASSERT_EQ(0, kvc_cache_create(k.ctx, &k.m, &o, &c));
		ASSERT_EQ(0, kvc_seq_create(c, NULL, &s));
		kit_count(p, 200, 7000);
		memcpy(p, self->t, tries[i].same * sizeof(*p));
		EXPECT_EQ(tries[i].want, kvc_seq_prefix(s, p, tries[i].n));
		kit_check(&k, s);
		kvc_seq_free(s, 0);
		kvc_cache_destroy(c);
		/* The one that wrote them knows every token. */
		s = kit_seq(&k, NULL);
		EXPECT_EQ(KVC_MIN(tries[i].same, tries[i].n - 1),
			  kvc_seq_prefix(s, p, tries[i].n));
		kit_check(&k, s);
		kvc_seq_free(s, KVC_SEQ_DISCARD);
	}
	kit_close(&k);
}

/* A page that was reclaimed is forgotten, not believed. */
TEST_F(prefix, after_reclaim)
{
	struct kit_spec spec = { .pages = 6 };
	struct kvc_seq *s;
	struct kit k;

	kit_close(&self->k);
	kit_open(&k, &spec);
	run(&k, self->t, 19);
	EXPECT_EQ(5, kit_pool(&k).nr_cached);
	/* Takes the free page and the two deepest cached ones. */
	run(&k, self->t + 100, 11);
	EXPECT_EQ(6, kit_pool(&k).nr_cached);
	s = kit_seq(&k, NULL);
	EXPECT_EQ(12, kvc_seq_prefix(s, self->t, 19));
	kit_check(&k, s);
	kvc_seq_free(s, 0);
	/* Everything, then nothing is left of either. */
	run(&k, self->t + 200, 24);
	EXPECT_EQ(0, run(&k, self->t, 19));
	EXPECT_EQ(0, run(&k, self->t + 100, 11));
	kit_close(&k);
}

/* Long chains are looked up, and put back, in several calls. */
TEST_F(prefix, longer_than_one_command)
{
	uint32_t n = 600 * 4 + 3, *t = calloc(n, sizeof(*t));
	struct kvc_seq *s;
	struct kit k;

	kit_close(&self->k);
	kit_open(&k, &(struct kit_spec) { .pages = 700 });
	kit_count(t, n, 1);
	run(&k, t, n);
	EXPECT_EQ(601, kit_pool(&k).nr_cached);
	EXPECT_EQ(n - 1, run(&k, t, n));
	/* Reclaimed from the leaf on: the rest is still a prefix. */
	s = kit_seq(&k, NULL);
	ASSERT_EQ(0, kvc_seq_reserve(s, 4 * 400, 0));
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	s = kit_seq(&k, NULL);
	EXPECT_EQ(4 * 300, kvc_seq_prefix(s, t, n));
	kit_check(&k, s);
	kvc_seq_free(s, 0);
	free(t);
	kit_close(&k);
}

/* No room for the copy: whole pages only, and no error. */
TEST_F(prefix, no_room_for_a_copy)
{
	struct kit_spec spec = { .pages = 3 };
	struct kvc_seq *a, *b;
	struct kit k;

	kit_close(&self->k);
	kit_open(&k, &spec);
	a = kit_seq(&k, NULL);
	kit_prompt(&k, a, self->t, 11);
	b = kit_seq(&k, NULL);
	EXPECT_EQ(8, kvc_seq_prefix(b, self->t, 11));
	EXPECT_EQ(2, kvc_seq_pages(b));
	EXPECT_EQ(-ENOSPC, kit_add(&k, b, self->t + 8, 1));
	kvc_seq_free(b, 0);
	b = kit_seq(&k, NULL);
	EXPECT_EQ(0, kvc_seq_prefix(b, self->t, 4));
	kvc_seq_free(b, 0);
	kvc_seq_free(a, 0);
	kit_close(&k);
}

/* Two groups: the hit is what both can serve. */
TEST_F(prefix, two_groups)
{
	struct kit k;
	uint32_t P0, P1, n;
	struct kvc_seq *s;

	NOT_ON_DEVICE("its numbers follow from pages of less than 64 KiB");
	kit_close(&self->k);
	kit_open(&k, &(struct kit_spec) { .pages = 200, .ngroups = 2 });
	P0 = kvc_cache_page_tokens(k.c, 0);
	P1 = kvc_cache_page_tokens(k.c, 1);
	ASSERT_GT(P1, P0);
	ASSERT_LE(P1 + P0 + 1, 256);
	for (n = 1; n <= P1 + P0 + 1; n += 1 + n / 7) {
		s = kit_seq(&k, NULL);
		kit_prompt(&k, s, self->t, n);
		EXPECT_EQ((n + P0 - 1) / P0 + (n + P1 - 1) / P1,
			  kvc_seq_pages(s));
		kit_check(&k, s);
		kvc_seq_free(s, 0);
		EXPECT_EQ(n - 1, run(&k, self->t, n));
	}
	EXPECT_EQ(0, kit_used(&k));
	kit_close(&k);
}

/*
 * Pages that could not be published, for want of room in the domain, stay
 * private, are held in common all the same, and are published later.
 */
TEST_F(prefix, full_pages_that_stay_private)
{
	struct kvcache_tenant_set t = {
		.set = KVCACHE_SET_LIMITS,
		.max = KVCACHE_LIMIT_MAX,
		.deadline_ns = KVCACHE_TIME_NEVER,
	};
	struct kvc_seq *a, *b, *c;
	uint64_t ha[8], hb[8];
	struct kit k;

	kit_close(&self->k);
	kit_open(&k, &(struct kit_spec) { .commons = 1 });
	t.tenant = k.c->o.domain;
	a = kit_seq(&k, NULL);
	ASSERT_EQ(0, kit_add(&k, a, self->t, 4));
	ASSERT_EQ(0, kit_add(&k, a, self->t + 4, 9));
	EXPECT_EQ(1, kit_pool(&k).nr_shared);
	EXPECT_EQ(3, kit_pool(&k).nr_private);
	EXPECT_STREQ("", kvc_errmsg(k.ctx));
	b = kit_seq(&k, NULL);
	EXPECT_EQ(12, kvc_seq_prefix(b, self->t, 13));
	kvc_seq_handles(a, 0, ha, 8);
	kvc_seq_handles(b, 0, hb, 8);
	EXPECT_EQ(0, memcmp(ha, hb, 3 * sizeof(*ha)));
	/* In the middle of such a page, and truncated to there. */
	c = kit_seq(&k, NULL);
	EXPECT_EQ(10, kvc_seq_prefix(c, self->t, 11));
	kit_check(&k, c);
	kvc_seq_free(c, KVC_SEQ_DISCARD);
	ASSERT_EQ(0, kvc_seq_fork(b, &c));
	EXPECT_STREQ("", kvc_errmsg(k.ctx));
	ASSERT_EQ(0, kvc_seq_truncate(c, 11));
	ASSERT_EQ(0, kit_add(&k, c, self->t + 40, 2));
	kit_check(&k, a);
	kit_check(&k, b);
	kit_check(&k, c);
	kvc_seq_free(c, KVC_SEQ_DISCARD);
	/* What ends, and is published in part, is no failure either. */
	ASSERT_EQ(0, kvc_seq_fork(a, &c));
	ASSERT_EQ(0, kit_add(&k, c, self->t + 50, 1));
	kvc_seq_free(c, 0);
	EXPECT_STREQ("", kvc_errmsg(k.ctx));
	/* With one holder the page is written in place, and forgotten. */
	kvc_seq_free(a, KVC_SEQ_DISCARD);
	ASSERT_EQ(0, kvc_seq_truncate(b, 11));
	ASSERT_EQ(0, kit_add(&k, b, self->t + 40, 1));
	kvc_seq_handles(b, 0, hb, 8);
	EXPECT_EQ(ha[2], hb[2]);
	c = kit_seq(&k, NULL);
	EXPECT_EQ(11, kvc_seq_prefix(c, self->t, 13));
	kvc_seq_free(c, KVC_SEQ_DISCARD);
	/* There is room now: all of them go with the next full page. */
	ASSERT_EQ(0, kvc_call(k.ctx, KVCACHE_NR_TENANT_SET, &t));
	ASSERT_EQ(0, kit_add(&k, b, self->t + 41, 4));
	EXPECT_EQ(4, kit_pool(&k).nr_shared);
	kit_check(&k, b);
	kvc_seq_free(b, 0);
	EXPECT_EQ(4, kit_pool(&k).nr_cached);
	kit_close(&k);
}

/* A full page that is truncated, then published as what is left of it. */
TEST_F(prefix, truncated_before_it_was_published)
{
	struct kvcache_tenant_set t = {
		.set = KVCACHE_SET_LIMITS,
		.max = KVCACHE_LIMIT_MAX,
		.deadline_ns = KVCACHE_TIME_NEVER,
	};
	struct kvc_seq *a;
	struct kit k;

	kit_close(&self->k);
	kit_open(&k, &(struct kit_spec) { .commons = 1 });
	t.tenant = k.c->o.domain;
	a = kit_seq(&k, NULL);
	ASSERT_EQ(0, kit_add(&k, a, self->t, 4));
	ASSERT_EQ(0, kit_add(&k, a, self->t + 4, 4));
	EXPECT_EQ(1, kit_pool(&k).nr_private);
	ASSERT_EQ(0, kvc_seq_truncate(a, 6));
	ASSERT_EQ(0, kvc_call(k.ctx, KVCACHE_NR_TENANT_SET, &t));
	kvc_seq_free(a, 0);
	EXPECT_EQ(2, kit_pool(&k).nr_cached);
	EXPECT_EQ(6, run(&k, self->t, 20));
	kit_close(&k);
}

static void commons_max(struct kit *k, uint64_t max)
{
	struct kvcache_tenant_set t = {
		.tenant = k->c->o.domain,
		.set = KVCACHE_SET_LIMITS,
		.max = max,
		.deadline_ns = KVCACHE_TIME_NEVER,
	};

	ASSERT_EQ(0, kvc_call(k->ctx, KVCACHE_NR_TENANT_SET, &t));
}

/* More full pages than one command takes, and room for one of them. */
TEST_F(prefix, pages_that_there_is_no_room_for)
{
	struct kvcache_advise adv = {
		.advice = KVCACHE_ADVISE_VOLATILE, .nr = 1,
	};
	uint64_t h[42];
	struct kvc_seq *a, *b;
	struct kvc_stats st;
	uint32_t t[200];
	struct kit k;

	kit_count(t, 200, 1000);
	kit_close(&self->k);
	kit_open(&k, &(struct kit_spec) { .commons = 1 });
	a = kit_seq(&k, NULL);
	ASSERT_EQ(0, kit_add(&k, a, t, 160));
	kvc_cache_stats(k.c, &st);
	EXPECT_EQ(1, st.pages_published);
	EXPECT_EQ(39, kit_pool(&k).nr_private);
	/* Published or not, they are found. */
	b = kit_seq(&k, NULL);
	EXPECT_EQ(160, kvc_seq_prefix(b, t, 161));
	kit_check(&k, b);
	kvc_seq_free(b, 0);

	/* One that is in use elsewhere does not hold up the others. */
	commons_max(&k, KVCACHE_LIMIT_MAX);
	ASSERT_EQ(40, kvc_seq_handles(a, 0, h, 40));
	adv.pages[0] = h[20];
	ASSERT_EQ(0, kvc_call(k.ctx, KVCACHE_NR_ADVISE, &adv));
	ASSERT_EQ(0, kit_add(&k, a, t + 160, 4));
	kvc_cache_stats(k.c, &st);
	EXPECT_EQ(40, st.pages_published);
	EXPECT_EQ(1, kit_pool(&k).nr_private);
	adv.advice = KVCACHE_ADVISE_NONVOLATILE;
	ASSERT_EQ(0, kvc_call(k.ctx, KVCACHE_NR_ADVISE, &adv));
	EXPECT_EQ(0, adv.out_taken);
	/* It comes with the next page that is full. */
	ASSERT_EQ(0, kit_add(&k, a, t + 164, 4));
	kvc_cache_stats(k.c, &st);
	EXPECT_EQ(42, st.pages_published);
	EXPECT_EQ(0, kit_pool(&k).nr_private);
	kit_check(&k, a);
	kvc_seq_free(a, 0);
	kit_close(&k);
}

/* What a fork holds too is published as it is, not exchanged. */
TEST_F(prefix, publish_what_a_fork_holds)
{
	struct kvc_seq *a, *b, *c;
	uint64_t h[3];
	struct kit k;

	kit_close(&self->k);
	kit_open(&k, &(struct kit_spec) { .commons = 1 });
	commons_max(&k, 0);
	a = kit_seq(&k, NULL);
	ASSERT_EQ(0, kit_add(&k, a, self->t, 8));
	ASSERT_EQ(0, kvc_seq_fork(a, &b));
	EXPECT_EQ(2, kit_pool(&k).nr_private);
	commons_max(&k, KVCACHE_LIMIT_MAX);
	/* An equal chain gets there first. */
	c = kit_seq(&k, "");
	ASSERT_EQ(0, kit_add(&k, c, self->t, 8));
	EXPECT_EQ(2, kit_pool(&k).nr_shared);
	kvc_seq_handles(a, 0, h, 3);
	ASSERT_EQ(0, kit_add(&k, a, self->t + 8, 4));
	EXPECT_EQ(5, kit_pool(&k).nr_shared);
	kit_check(&k, a);
	kit_check(&k, b);
	kvc_seq_free(a, 0);
	kit_check(&k, b);
	ASSERT_EQ(0, kit_add(&k, b, self->t + 20, 9));
	kit_check(&k, b);
	kvc_seq_free(b, 0);
	kit_check(&k, c);
	kvc_seq_free(c, 0);
	EXPECT_EQ(0, kit_used(&k));
	kit_close(&k);
}

/* A domain that does not let us in is an error, and the tokens count. */
TEST_F(prefix, without_a_grant)
{
	struct kvcache_tenant_grant g = { .rights = 0 };
	struct kvcache_tenant_ref gone = { .flags = 0 };
	struct kvc_item item = { NULL, self->t, 4 };
	struct kit k;

	kit_close(&self->k);
	kit_open(&k, &(struct kit_spec) { .commons = 64 });
	g.tenant = gone.tenant = k.c->o.domain;
	g.to = k.ctx->tenant;
	ASSERT_EQ(0, kvc_call(k.ctx, KVCACHE_NR_TENANT_GRANT, &g));
	item.seq = kit_seq(&k, NULL);
	for (uint32_t i = 1; i <= 2; i++) {
		ASSERT_EQ(0, kvc_batch_plan(k.b, &item, 1));
		kit_append(&k, &item, 1, NULL);
		EXPECT_EQ(i == 1 ? -EPERM : -ENOENT, kvc_batch_commit(k.b));
		EXPECT_NE(NULL, strstr(kvc_errmsg(k.ctx), "PUBLISH: "));
		EXPECT_EQ(4 * i, kvc_seq_len(item.seq));
		kit_check(&k, item.seq);
		if (i == 1)
			ASSERT_EQ(0, kvc_call(k.ctx, KVCACHE_NR_TENANT_REMOVE,
					      &gone));
	}
	kvc_seq_free(item.seq, 0);
	kit_close(&k);
}

/* Keys that were flushed are not found, whatever the context remembers. */
TEST_F(prefix, after_flush)
{
	struct kvcache_tenant_ref f = { .tenant = self->k.ctx->tenant };
	struct kvc_seq *a = kit_seq(&self->k, NULL), *b;

	kit_prompt(&self->k, a, self->t, 9);
	run(&self->k, self->t + 100, 9);
	ASSERT_EQ(0, kvc_call(self->k.ctx, KVCACHE_NR_TENANT_FLUSH, &f));
	EXPECT_EQ(3, f.out_pages);
	EXPECT_EQ(0, run(&self->k, self->t + 100, 9));
	b = kit_seq(&self->k, NULL);
	EXPECT_EQ(0, kvc_seq_prefix(b, self->t, 9));
	kvc_seq_free(b, 0);
	/* Nor in part, of a published page that is a tail now. */
	ASSERT_EQ(0, kvc_seq_truncate(a, 3));
	b = kit_seq(&self->k, NULL);
	EXPECT_EQ(0, kvc_seq_prefix(b, self->t, 9));
	kvc_seq_free(b, 0);
	kit_check(&self->k, a);
	kvc_seq_free(a, 0);
}

TEST_F(prefix, counters)
{
	struct kvc_stats st;

	run(&self->k, self->t, 9);
	kvc_cache_stats(self->k.c, &st);
	EXPECT_EQ(9, st.queried_tokens);
	EXPECT_EQ(0, st.reused_tokens);
	EXPECT_EQ(9, st.appended_tokens);
	EXPECT_EQ(3, st.pages_allocated);
	EXPECT_EQ(0, st.pages_found);
	EXPECT_EQ(3, st.pages_published);
	run(&self->k, self->t, 7);
	kvc_cache_stats(self->k.c, &st);
	EXPECT_EQ(16, st.queried_tokens);
	EXPECT_EQ(6, st.reused_tokens);
	EXPECT_EQ(2, st.copied_tokens);
	EXPECT_EQ(10, st.appended_tokens);
	EXPECT_EQ(4, st.pages_allocated);
	EXPECT_EQ(1, st.pages_found);
}

TEST_F(prefix, is_for_a_new_sequence)
{
	struct kvc_seq *s = kit_seq(&self->k, NULL);

	EXPECT_EQ(-EINVAL, kvc_seq_prefix(s, NULL, 3));
	ASSERT_EQ(0, kvc_seq_reserve(s, 1, 0));
	EXPECT_EQ(0, kvc_seq_prefix(s, self->t, 3));
	EXPECT_EQ(1, kvc_seq_pages(s));
	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 1));
	EXPECT_EQ(-EINVAL, kvc_seq_prefix(s, self->t, 3));
	kvc_seq_free(s, 0);
}

TEST_HARNESS_MAIN
