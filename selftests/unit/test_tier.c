// SPDX-License-Identifier: MIT
/*
 * test_tier.c - sequences over a tier of files: what goes down, what comes back,
 * and that it is what was written.
 */
#include "tier_kit.h"

#define NT 40

FIXTURE(tier)
{
	struct tier_kit w;
	uint32_t t[NT];
};

FIXTURE_SETUP(tier)
{
	tier_folder(&self->w);
	kit_count(self->t, NT, 100);
}

FIXTURE_TEARDOWN(tier)
{
	if (self->w.t)
		tier_end(&self->w);
	tier_remove(&self->w);
}

static const struct kit_spec spec = { .pages = 12 };

static struct kvc_seq *grown(struct tier_kit *w, const uint32_t *t, uint32_t n)
{
	struct kvc_seq *s = kit_seq(&w->k, NULL);

	ASSERT_EQ(0, kit_add(&w->k, s, t, n));
	return s;
}

TEST_F(tier, an_idle_conversation_comes_back_whole)
{
	struct kvc_tier_stats st;
	struct kvc_seq *s;

	tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_BACK);
	s = grown(&self->w, self->t, 18);
	EXPECT_EQ(0, tier_files(&self->w, false, NULL));
	EXPECT_EQ(0, kvc_seq_idle(s));
	/* Four pages and the tail. */
	st = tier_stats(&self->w);
	EXPECT_EQ(5, st.puts);
	EXPECT_EQ(5, tier_files(&self->w, false, NULL));
	EXPECT_EQ(0, tier_files(&self->w, true, NULL));
	tier_empty_pool(&self->w);
	EXPECT_EQ(0, kit_pool(&self->w.k).nr_cached);
	EXPECT_EQ(18, kvc_seq_wake(s));
	kit_check(&self->w.k, s);
	st = tier_stats(&self->w);
	EXPECT_EQ(5, st.hits);
	EXPECT_EQ(5, st.used);
	EXPECT_EQ(0, st.bad);
	/* It is as any: it goes on, and its pages are found. */
	ASSERT_EQ(0, kit_add(&self->w.k, s, self->t + 18, 9));
	kit_check(&self->w.k, s);
	EXPECT_EQ(6, kit_pool(&self->w.k).nr_shared);
	kvc_seq_free(s, 0);
}

/* What is written still is not read from the disk, and is right. */
TEST_F(tier, it_comes_back_before_it_is_written)
{
	struct kvc_seq *s;
	int i;

	tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_BACK);
	for (i = 0; i < 200; i++) {
		kit_count(self->t, NT, 100 * i);
		s = grown(&self->w, self->t, 22);
		EXPECT_EQ(0, kvc_seq_idle(s));
		tier_empty_pool(&self->w);
		EXPECT_EQ(22, kvc_seq_wake(s));
		kit_check(&self->w.k, s);
		kvc_seq_free(s, KVC_SEQ_DISCARD);
		tier_empty_pool(&self->w);
	}
}

TEST_F(tier, what_survived_is_not_read)
{
	struct kvc_seq *s, *o;
	uint32_t u[48], n;

	tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_BACK);
	for (n = 1; n <= 12; n++) {
		kit_count(u, 48, 1000 * n);
		s = grown(&self->w, self->t, 38);
		EXPECT_EQ(0, kvc_seq_idle(s));
		o = kit_seq(&self->w.k, NULL);
		ASSERT_EQ(0, kvc_seq_reserve(o, 4 * n, 0));
		kvc_seq_free(o, KVC_SEQ_DISCARD);
		EXPECT_EQ(38, kvc_seq_wake(s));
		kit_check(&self->w.k, s);
		kvc_seq_free(s, KVC_SEQ_DISCARD);
		EXPECT_EQ(n <= 2 ? 0 : n - 2, tier_stats(&self->w).used);
		tier_empty_pool(&self->w);
		self->w.t->st.used = 0;
	}
}

/* No page is there that it could have: what is not brought in is computed. */
TEST_F(tier, no_room_is_no_error)
{
	struct kvc_seq *s, *o;
	uint32_t u[48];

	tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_BACK);
	s = grown(&self->w, self->t, 18);
	EXPECT_EQ(0, kvc_seq_idle(s));
	kit_count(u, 48, 1000);
	o = grown(&self->w, u, 48);
	EXPECT_EQ(0, kvc_seq_wake(s));
	EXPECT_EQ(0, kvc_seq_pages(s));
	kvc_seq_free(o, KVC_SEQ_DISCARD);
	EXPECT_EQ(0, kvc_seq_idle(s));
	EXPECT_EQ(0, kvc_seq_wake(s));
	ASSERT_EQ(0, kit_add(&self->w.k, s, self->t, 18));
	kit_check(&self->w.k, s);
	kvc_seq_free(s, 0);
}

/* A second process: another context, another pool, the same folder. */
TEST_F(tier, another_process_finds_a_prefix)
{
	struct kit_spec small = { .pages = 12 };
	struct kvc_seq *s;

	tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_THROUGH);
	s = grown(&self->w, self->t, 30);
	kvc_seq_free(s, 0);
	/* Seven full pages; the tail was not offloaded. */
	EXPECT_EQ(7, tier_stats(&self->w).puts);
	tier_end(&self->w);
	tier_begin(&self->w, &small, NULL, NULL, KVC_TIER_THROUGH);
	s = kit_seq(&self->w.k, NULL);
	EXPECT_EQ(28, kit_prompt(&self->w.k, s, self->t, NT));
	kit_check(&self->w.k, s);
	/* What came from there did not go there again. */
	EXPECT_EQ(3, tier_stats(&self->w).puts);
	EXPECT_EQ(0, tier_stats(&self->w).had);
	kvc_seq_free(s, 0);
	tier_end(&self->w);
	/* At most all tokens but the last are found: a page less. */
	tier_begin(&self->w, &small, NULL, NULL, KVC_TIER_THROUGH);
	s = kit_seq(&self->w.k, NULL);
	EXPECT_EQ(24, kit_prompt(&self->w.k, s, self->t, 28));
	kvc_seq_free(s, 0);
	tier_end(&self->w);
}

/* Where the prompt ends with the tail's last token but one, the tail is found. */
TEST_F(tier, a_tail_is_found_at_its_exact_end)
{
	struct kvc_seq *s;

	tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_BACK);
	s = grown(&self->w, self->t, 30);
	EXPECT_EQ(8, kvc_seq_offload(s));
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	tier_empty_pool(&self->w);
	s = kit_seq(&self->w.k, NULL);
	EXPECT_EQ(30, kit_prompt(&self->w.k, s, self->t, 31));
	kit_check(&self->w.k, s);
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	tier_empty_pool(&self->w);
	s = kit_seq(&self->w.k, NULL);
	EXPECT_EQ(28, kit_prompt(&self->w.k, s, self->t, 32));
	kvc_seq_free(s, 0);
}

/* The pool has some rows of the page that the tier has in full. */
TEST_F(tier, a_page_in_part_gives_way_to_the_whole)
{
	uint32_t part, reserve;
	struct kvc_seq *s, *o;

	tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_BACK);
	s = grown(&self->w, self->t, 24);
	EXPECT_EQ(6, kvc_seq_offload(s));
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	for (reserve = 0; reserve < 2; reserve++) {
		for (part = 8; part <= 12; part++) {
			tier_empty_pool(&self->w);
			o = grown(&self->w, self->t, part);
			s = kit_seq(&self->w.k, NULL);
			if (reserve)
				ASSERT_EQ(0, kvc_seq_reserve(s, 24, 0));
			EXPECT_EQ(24, kit_prompt(&self->w.k, s, self->t, 30));
			kit_check(&self->w.k, s);
			kvc_seq_free(s, KVC_SEQ_DISCARD);
			kit_check(&self->w.k, o);
			kvc_seq_free(o, KVC_SEQ_DISCARD);
		}
	}
}

TEST_F(tier, pages_of_two_groups)
{
	struct kit_spec two = { .pages = 24, .ngroups = 2 };
	struct kvc_seq *s;
	uint32_t n, i;

	tier_begin(&self->w, &two, NULL, NULL, KVC_TIER_BACK);
	for (n = 1; n <= NT; n++) {
		kit_count(self->t, NT, 100 * n);
		s = grown(&self->w, self->t, n);
		EXPECT_EQ(0, kvc_seq_idle(s));
		tier_empty_pool(&self->w);
		EXPECT_EQ(n, kvc_seq_wake(s));
		kit_check(&self->w.k, s);
		kvc_seq_free(s, KVC_SEQ_DISCARD);
		tier_empty_pool(&self->w);
		for (i = 1; i <= NT; i += 3) {
			s = kit_seq(&self->w.k, NULL);
			kit_prompt(&self->w.k, s, self->t, i);
			kit_check(&self->w.k, s);
			kvc_seq_free(s, KVC_SEQ_DISCARD);
			tier_empty_pool(&self->w);
		}
	}
}

/* Who differs in anything that decides what bytes mean finds nothing. */
TEST_F(tier, others_find_nothing)
{
	const struct kit_spec other[] = {
		{ .pages = 12, .type = KVC_F16 },
		{ .pages = 12, .page_tokens = 8 },
		{ .pages = 12, .kv_heads = 1 },
		{ .pages = 12, .row_major = 1 },
		{ .pages = 12, .o = { .salt = { 1 } } },
	};
	struct kvc_seq *s;

	tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_THROUGH);
	s = grown(&self->w, self->t, 32);
	kvc_seq_free(s, 0);
	tier_end(&self->w);
	for (unsigned int i = 0; i < 5; i++) {
		tier_begin(&self->w, &other[i], NULL, NULL, KVC_TIER_BACK);
		s = kit_seq(&self->w.k, NULL);
		EXPECT_EQ(0, kit_prompt(&self->w.k, s, self->t, NT));
		kit_check(&self->w.k, s);
		EXPECT_EQ(0, tier_stats(&self->w).bad);
		kvc_seq_free(s, 0);
		tier_end(&self->w);
	}
}

TEST_F(tier, selective_is_at_the_second_use)
{
	struct kvc_seq *s, *o;

	tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_SELECTIVE);
	s = grown(&self->w, self->t, 16);
	EXPECT_EQ(0, tier_stats(&self->w).puts);
	/* Two are found by another, and a third one is written again. */
	o = kit_seq(&self->w.k, NULL);
	EXPECT_EQ(11, kit_prompt(&self->w.k, o, self->t, 12));
	EXPECT_EQ(3, tier_stats(&self->w).puts);
	kvc_seq_free(o, KVC_SEQ_DISCARD);
	o = kit_seq(&self->w.k, NULL);
	EXPECT_EQ(11, kit_prompt(&self->w.k, o, self->t, 12));
	EXPECT_EQ(3, tier_stats(&self->w).puts);
	kvc_seq_free(o, KVC_SEQ_DISCARD);
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	/* Written twice, by two that did not ask. */
	o = grown(&self->w, self->t, 16);
	EXPECT_EQ(4, tier_stats(&self->w).puts);
	kvc_seq_free(o, 0);
}

TEST_F(tier, what_is_read_ahead_is_there)
{
	struct kvc_tier_stats st;
	struct kvc_seq *s;

	tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_BACK);
	s = grown(&self->w, self->t, 30);
	EXPECT_EQ(-EINVAL, kvc_prefetch(self->w.k.c, s, NULL, 0));
	EXPECT_EQ(0, kvc_seq_idle(s));
	EXPECT_EQ(8, tier_stats(&self->w).puts);
	tier_empty_pool(&self->w);
	EXPECT_EQ(8, kvc_prefetch(self->w.k.c, s, NULL, 0));
	EXPECT_EQ(8, kvc_prefetch(self->w.k.c, s, NULL, 0));
	st = tier_stats(&self->w);
	EXPECT_EQ(8, st.hits);
	EXPECT_NE(0, st.memory);
	/* No page of the pool is used for it. */
	EXPECT_EQ(12, kit_pool(&self->w.k).nr_free);
	EXPECT_EQ(30, kvc_seq_wake(s));
	kit_check(&self->w.k, s);
	st = tier_stats(&self->w);
	EXPECT_EQ(8, st.hits);
	EXPECT_EQ(8, st.used);
	EXPECT_EQ(0, st.memory);
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	tier_empty_pool(&self->w);
	/* A prompt: its last token is not asked for. What is not there is not
	 * asked for again and again. */
	EXPECT_EQ(7, kvc_prefetch(self->w.k.c, NULL, self->t, 29));
	s = kit_seq(&self->w.k, NULL);
	EXPECT_EQ(28, kit_prompt(&self->w.k, s, self->t, 29));
	kit_check(&self->w.k, s);
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	st = tier_stats(&self->w);
	kit_count(self->t, NT, 5000);
	EXPECT_EQ(10, kvc_prefetch(self->w.k.c, NULL, self->t, NT));
	EXPECT_EQ(st.misses + 10, tier_stats(&self->w).misses);
	EXPECT_EQ(0, kvc_prefetch(self->w.k.c, NULL, self->t, NT));
	EXPECT_EQ(st.misses + 10, tier_stats(&self->w).misses);
}

/* Memory for three records only: by rounds, and what is too much is left. */
TEST_F(tier, memory_is_bounded)
{
	struct kvc_tier_opts o = { .sz = sizeof(o) };
	struct kvc_tier_stats st;
	struct kvc_seq *s;
	uint32_t n;

	for (n = 1; n <= 9; n++) {
		o.memory = n * kvc_record_len(3 * 2 * 2 * 4 * 64);
		kit_count(self->t, NT, 100 * n);
		tier_begin(&self->w, &spec, NULL, &o, KVC_TIER_BACK);
		s = grown(&self->w, self->t, 38);
		EXPECT_EQ(0, kvc_seq_idle(s));
		EXPECT_EQ(10, tier_stats(&self->w).puts);
		tier_empty_pool(&self->w);
		/* Half of it must hold a page. */
		EXPECT_EQ(n < 2 ? 0 : 38, kvc_seq_wake(s));
		kit_check(&self->w.k, s);
		kvc_seq_free(s, KVC_SEQ_DISCARD);
		st = tier_stats(&self->w);
		EXPECT_LE(st.peak_memory, o.memory);
		EXPECT_EQ(0, st.memory);
		tier_end(&self->w);
	}
}

TEST_F(tier, two_tiers)
{
	struct kvc_tier_file f = { .sz = sizeof(f) };
	struct tier_kit upper = { 0 };
	struct kvc_seq *s;

	/* Write to the lower one alone, then read with one above it. */
	tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_THROUGH);
	s = grown(&self->w, self->t, 32);
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	tier_end(&self->w);
	tier_folder(&upper);
	tier_begin(&upper, &spec, NULL, NULL, KVC_TIER_THROUGH);
	f.path = self->w.dir;
	ASSERT_EQ(0, kvc_tier_file_open(&f, NULL, &self->w.t));
	ASSERT_EQ(0, kvc_cache_tier(upper.k.c, self->w.t, KVC_TIER_BACK));
	EXPECT_EQ(-EINVAL, kvc_cache_tier(upper.k.c, self->w.t, KVC_TIER_BACK));
	/* Read ahead: what the upper one does not have is asked of the lower. */
	EXPECT_EQ(9, kvc_prefetch(upper.k.c, NULL, self->t, 37));
	EXPECT_EQ(9, tier_stats(&upper).misses);
	EXPECT_EQ(9, kvc_prefetch(upper.k.c, NULL, self->t, 37));
	EXPECT_EQ(8, tier_stats(&self->w).hits);
	s = kit_seq(&upper.k, NULL);
	EXPECT_EQ(32, kit_prompt(&upper.k, s, self->t, NT));
	kit_check(&upper.k, s);
	EXPECT_EQ(8, tier_stats(&self->w).used);
	/* It is in the upper one now, and what is new as well. */
	EXPECT_EQ(10, tier_stats(&upper).puts);
	EXPECT_EQ(0, tier_stats(&self->w).puts);
	kvc_seq_free(s, 0);
	tier_end(&upper);
	kvc_tier_close(self->w.t);
	self->w.t = NULL;
	tier_remove(&upper);
}

TEST_F(tier, what_cannot_be)
{
	struct kvc_tier *t;
	struct kvc *ctx;
	struct kit twin;

	tier_begin(&self->w, &spec, NULL, NULL, KVC_TIER_BACK);
	EXPECT_EQ(-EINVAL, kvc_cache_tier(self->w.k.c, self->w.t, 3));
	EXPECT_NE(NULL, strstr(kvc_errmsg(self->w.k.ctx), "policy"));
	kit_twin(&self->w.k, &twin);
	EXPECT_EQ(0, kvc_cache_tier(twin.c, self->w.t, KVC_TIER_BACK));
	kit_twin_close(&twin);
	ctx = self->w.t->ctx;
	self->w.t->ctx = (struct kvc *)&twin;
	EXPECT_EQ(-EBUSY, kvc_cache_tier(self->w.k.c, self->w.t, 0));
	self->w.t->ctx = ctx;
	t = self->w.t;
	EXPECT_EQ(0, kvc_prefetch(self->w.k.c, NULL, self->t, 1));
	EXPECT_EQ(0, kvc_prefetch(self->w.k.c, NULL, self->t, 0));
	EXPECT_EQ(self->w.t, t);
}

TEST_HARNESS_MAIN
