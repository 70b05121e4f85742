// SPDX-License-Identifier: MIT
/*
 * test_tensorrt_llm.c - behaviours that TensorRT-LLM's tests of its cache
 * manager assert. Its block 0 is page 1 here, page 0 being the null page.
 *
 * There, a prompt's page that a request copied or computed again keeps its
 * number when the request ends; here the equal page that was there first is
 * kept and the newcomer's goes back. So numbers from the third request on
 * differ, and what they stand for is asserted: which pages are the first
 * request's, and which are not.
 */
#include "kit.h"

/* The first @n pages are @old's, and no other is. */
static void expect_shares(const struct kvc_seq *s, const uint64_t *old,
			  uint32_t nold, uint32_t n)
{
	uint64_t h[16];
	uint32_t nr = kvc_seq_handles(s, 0, h, 16), i, j;

	ASSERT_LE(nr, 16);
	ASSERT_GE(nr, n);
	for (i = 0; i < n; i++)
		EXPECT_EQ(old[i], h[i]);
	for (i = n; i < nr; i++)
		for (j = 0; j < nold; j++)
			EXPECT_NE(old[j], h[i]);
}

/* c3.2 */
CASE(full_reuse)
{
	uint64_t first[3];
	struct kvc_seq *s;
	uint32_t t[10], reused;
	struct kit k;

	kit_open(&k, SPEC(4, 8));
	kit_count(t, 10, 0);
	s = kit_begin(&k, t, 9, &reused);
	EXPECT_EQ(0, reused);
	EXPECT_BLOCKS(s, 1, 2, 3);
	kvc_seq_handles(s, 0, first, 3);
	kvc_seq_free(s, 0);

	s = kit_begin(&k, t, 9, &reused);
	EXPECT_EQ(8, reused);
	EXPECT_BLOCKS(s, 1, 2, 4);
	kvc_seq_free(s, 0);
	EXPECT_EQ(3, kit_pool(&k).nr_cached);

	/* One token more: the page that is filled in part serves too. */
	s = kit_seq(&k, NULL);
	EXPECT_EQ(9, kvc_seq_prefix(s, t, 10));
	EXPECT_BLOCKS(s, 1, 2, 3);
	/* It is somebody's record, so it is copied before it is written. */
	ASSERT_EQ(0, kit_add(&k, s, t + 9, 1));
	expect_shares(s, first, 3, 2);
	kit_check(&k, s);
	kvc_seq_free(s, 0);
	kit_close(&k);
}

/* c3.3 */
CASE(prefix_in_use)
{
	struct kvc_seq *a, *b;
	uint32_t t[9], reused;
	struct kit k;

	kit_open(&k, SPEC(4, 8));
	kit_count(t, 9, 0);
	a = kit_begin(&k, t, 9, NULL);
	b = kit_begin(&k, t, 9, &reused);
	EXPECT_EQ(8, reused);
	EXPECT_BLOCKS(a, 1, 2, 3);
	EXPECT_BLOCKS(b, 1, 2, 4);
	EXPECT_EQ(4, kit_used(&k));
	/* The third pages are each one's own. */
	ASSERT_EQ(0, kit_add(&k, a, t, 3));
	ASSERT_EQ(0, kit_add(&k, b, t + 3, 3));
	kit_check(&k, a);
	kit_check(&k, b);
	kvc_seq_free(a, 0);
	kit_check(&k, b);
	kvc_seq_free(b, 0);
	kit_close(&k);
}

/*
 * c3.5: the token that was sampled last was never computed, and is not stored.
 */
CASE(stored_is_prompt_and_generated_but_one)
{
	uint32_t t[16], generated, i;
	struct kvc_seq *s;
	struct kit k;

	kit_count(t, 16, 0);
	for (generated = 1; generated <= 4; generated++) {
		kit_open(&k, SPEC(4, 8));
		/* A step for the prompt, then one for each but the last. */
		s = kit_begin(&k, t, 9, NULL);
		for (i = 1; i < generated; i++)
			ASSERT_EQ(0, kit_add(&k, s, t + 8 + i, 1));
		EXPECT_EQ(9 + generated - 1, kvc_seq_len(s));
		kvc_seq_free(s, 0);
		EXPECT_EQ(9 + generated - 1, kit_find(&k, NULL, t, 16));
		kit_close(&k);
	}
}

/* c3.5: nothing generated, the last token not computed. */
CASE(released_before_the_first_token)
{
	struct kvc_seq *s;
	uint32_t t[9];
	struct kit k;

	kit_open(&k, SPEC(4, 8));
	kit_count(t, 9, 0);
	s = kit_seq(&k, NULL);
	ASSERT_EQ(0, kit_add(&k, s, t, 8));
	kvc_seq_free(s, 0);
	/* All that is stored is the follow-up's prompt: one less is found. */
	EXPECT_EQ(7, kit_find(&k, NULL, t, 8));
	EXPECT_EQ(8, kit_find(&k, NULL, t, 9));
	kit_close(&k);
}

/* c3.6 */
CASE(one_token_prompt)
{
	uint32_t t[2];
	struct kit k;

	kit_open(&k, SPEC(4, 8));
	kit_count(t, 2, 0);
	EXPECT_EQ(0, kit_run_prompt(&k, t, 1));
	EXPECT_EQ(0, kit_run_prompt(&k, t, 1));
	EXPECT_EQ(1, kit_find(&k, NULL, t, 2));
	kit_close(&k);
}

/* Slots past a page's rows, as the page has them. */
static void expect_zeros(struct kit *k, uint64_t handle, uint32_t first,
			 uint32_t end)
{
	size_t row = kva_row_size(k->g[0].k_type, KIT_DIM), i;
	uint32_t layer, head, slot, is_v;
	char bytes[KIT_DIM * 4];
	struct kva_view v;

	for (layer = 0; layer < KIT_LAYERS; layer++) {
		kvc_layout_view(&k->c->l, layer, NULL, &v);
		for (slot = first; slot < end; slot++) {
			for (head = 0; head < k->g[0].kv_heads; head++) {
				for (is_v = 0; is_v < 2; is_v++) {
					kva_rows_read(&v, kvc_page_ro(k->c,
						      handle), is_v, head,
						      slot, 1, bytes);
					for (i = 0; i < row; i++)
						ASSERT_EQ(0, bytes[i]);
				}
			}
		}
	}
}

/* c3.7: pages of 8. */
static void partial_copy(const struct kit_spec *spec)
{
	const struct kvc_seq_opts once = { .sz = sizeof(once), .no_reuse = 1 };
	uint64_t first[3], h[3];
	uint32_t t[17], reused;
	struct kvc_seq *s;
	struct kit k;

	kit_open(&k, spec);
	kit_count(t, 17, 0);
	s = kit_begin(&k, t, 17, &reused);
	EXPECT_EQ(0, reused);
	EXPECT_BLOCKS(s, 1, 2, 3);
	kvc_seq_handles(s, 0, first, 3);
	kvc_seq_free(s, 0);
	s = kit_begin(&k, t, 17, &reused);
	EXPECT_EQ(16, reused);
	expect_shares(s, first, 3, 2);
	kvc_seq_free(s, 0);

	/* A page that was written to the end and freed is the next one. */
	kit_pool(&k);
	ASSERT_EQ(0, kvc_seq_create(k.c, &once, &s));
	ASSERT_EQ(0, kit_add(&k, s, t, 8));
	EXPECT_BLOCKS(s, 4);
	kvc_seq_free(s, 0);

	/* Three tokens of the second page, then others. */
	kit_count(t + 11, 6, 500);
	s = kit_seq(&k, NULL);
	EXPECT_EQ(11, kvc_seq_prefix(s, t, 17));
	EXPECT_BLOCKS(s, 1, 4);
	kvc_seq_handles(s, 0, h, 3);
	kit_check(&k, s);
	expect_zeros(&k, h[1], 3, 8);
	ASSERT_EQ(0, kit_add(&k, s, t + 11, 6));
	kit_check(&k, s);
	kvc_seq_free(s, 0);
	/* The source is as it was. */
	kit_count(t + 11, 6, 11);
	s = kit_begin(&k, t, 17, &reused);
	EXPECT_EQ(16, reused);
	expect_shares(s, first, 3, 2);
	kvc_seq_free(s, 0);
	kit_close(&k);
}

#define PARTIAL_COPY(name, kv)						\
	CASE(partial_copy_##name)					\
	{								\
		partial_copy(SPEC(8, 8, .type = kv));			\
		partial_copy(SPEC(8, 8, .type = kv, .row_major = 1));	\
	}

PARTIAL_COPY(f32, KVC_F32)
PARTIAL_COPY(f16, KVC_F16)
PARTIAL_COPY(bf16, KVC_BF16)

TEST(partial_copy_other_types)
{
	SKIP(return, "element types of less than 16 bits, and integers: K and V are f32, f16 or bf16");
}

/* c3.8: an adapter, a salt, an image that belongs to the whole prompt. */
CASE(extra_ids)
{
	static const char *const extra[] = {
		"image 1", "image 2", "lora 1", "salt 1",
	};
	uint32_t t[9], reused, i, round;
	uint64_t h[NR(extra)][3], old[3];
	struct kvc_seq *s;
	struct kit k;

	kit_open(&k, SPEC(4, 16));
	kit_count(t, 9, 0);
	s = kit_begin(&k, t, 9, NULL);
	EXPECT_BLOCKS(s, 1, 2, 3);
	kvc_seq_handles(s, 0, old, 3);
	kvc_seq_free(s, 0);
	for (round = 0; round < 2; round++) {
		for (i = 0; i < NR(extra); i++) {
			s = kit_begin_extra(&k, extra[i], t, 9, &reused);
			EXPECT_EQ(round ? 8 : 0, reused);
			if (round)
				expect_shares(s, h[i], 3, 2);
			else
				expect_shares(s, old, 3, 0);
			if (!round)
				kvc_seq_handles(s, 0, h[i], 3);
			kvc_seq_free(s, 0);
		}
	}
	EXPECT_EQ(3 * (1 + NR(extra)), kit_pool(&k).nr_cached);
	kit_close(&k);
}

/*
 * c3.8: images in mid-prompt. Extra bytes are of a whole conversation, so what
 * stands for an image are its placeholder tokens: words of its digest.
 */
CASE(extra_ids_of_the_second_block)
{
	static const uint32_t image[2][4] = {
		{ 0x8f14e45f, 0xceea167a, 0x5a36dedd, 0x4bea2543 },
		{ 0xc9f0f895, 0xfb98ab91, 0x59f51fd0, 0x297e236d },
	};
	uint64_t old[3];
	uint32_t t[9], reused;
	struct kvc_seq *s;
	struct kit k;

	kit_open(&k, SPEC(4, 16));
	kit_count(t, 9, 0);
	memcpy(t + 4, image[0], sizeof(image[0]));
	s = kit_begin(&k, t, 9, NULL);
	EXPECT_BLOCKS(s, 1, 2, 3);
	kvc_seq_handles(s, 0, old, 3);
	kvc_seq_free(s, 0);
	memcpy(t + 4, image[1], sizeof(image[1]));
	s = kit_begin(&k, t, 9, &reused);
	EXPECT_EQ(4, reused);
	EXPECT_BLOCKS(s, 1, 4, 5);
	kvc_seq_free(s, 0);
	memcpy(t + 4, image[0], sizeof(image[0]));
	s = kit_begin(&k, t, 9, &reused);
	EXPECT_EQ(8, reused);
	expect_shares(s, old, 3, 2);
	kvc_seq_free(s, 0);
	kit_close(&k);
}

/* c3.9 */
CASE(statistics_of_a_request)
{
	struct kvc_stats was, now;
	uint32_t t[9];
	struct kit k;

	kit_open(&k, SPEC(4, 8));
	kit_count(t, 9, 0);
	kit_run_prompt(&k, t, 9);
	kvc_cache_stats(k.c, &was);
	EXPECT_EQ(0, was.pages_found);
	EXPECT_EQ(3, was.pages_allocated);
	EXPECT_EQ(9, was.queried_tokens);
	EXPECT_EQ(0, was.reused_tokens);
	kit_run_prompt(&k, t, 9);
	kvc_cache_stats(k.c, &now);
	/* Two of three pages. */
	EXPECT_EQ(2, now.pages_found - was.pages_found);
	EXPECT_EQ(1, now.pages_allocated - was.pages_allocated);
	EXPECT_EQ(9, now.queried_tokens - was.queried_tokens);
	EXPECT_EQ(8, now.reused_tokens - was.reused_tokens);
	EXPECT_EQ(0, now.copied_tokens);
	kit_close(&k);
}

/* c3.20: a text far longer than the window; a chunk has more for as long. */
CASE(cyclic_window)
{
	uint32_t t[400], n;
	struct kvc_item item = { .n = 40 };
	struct kit k;

	kit_open(&k, SPEC(4, 32, .window = 16));
	kit_count(t, 400, 0);
	item.seq = kit_seq(&k, NULL);
	for (n = 0; n < 200; n += 40) {
		item.tokens = t + n;
		ASSERT_EQ(0, kvc_batch_plan(k.b, &item, 1));
		EXPECT_EQ(n ? 14 : 10, kvc_seq_pages(item.seq));
		kit_append(&k, &item, 1, NULL);
		ASSERT_EQ(0, kvc_batch_commit(k.b));
		EXPECT_EQ(4, kvc_seq_pages(item.seq));
	}
	for (; n < 400; n++) {
		ASSERT_EQ(0, kit_add(&k, item.seq, t + n, 1));
		EXPECT_LE(kvc_seq_pages(item.seq), 5);
		EXPECT_GE(kvc_seq_pages(item.seq), 4);
	}
	kit_check(&k, item.seq);
	kvc_seq_free(item.seq, 0);
	kit_close(&k);
}

/* @n beams of a prompt of @len tokens, each with a token of its own. */
static void begin_beams(struct kit *k, struct kvc_seq **s, uint32_t n,
			uint32_t len, uint32_t own, uint32_t first)
{
	struct kvc_item items[8];
	uint32_t t[16], u[8], i;

	kit_count(t, len, first);
	kit_count(u, n, first + 50);
	s[0] = kit_begin(k, t, len, NULL);
	for (i = 1; i < n; i++)
		ASSERT_EQ(0, kvc_seq_fork(s[0], &s[i]));
	for (i = 0; i < n; i++)
		items[i] = (struct kvc_item) { s[i], u + i, own };
	if (own)
		ASSERT_EQ(0, kit_step(k, items, n, NULL));
	for (i = 0; i < n; i++)
		kit_check(k, s[i]);
}

/*
 * c3.1: 8 beams, 2 pages of prompt in common and one of each: 10 of 24. A request
 * that is there twice is refused; so is what does not fit, and nothing changes.
 */
CASE(beams_in_blocks)
{
	struct kvc_seq *s[8], *q[8], *third, *hog;
	struct kvc_item items[2];
	uint32_t t[9], i;
	struct kit k;

	kit_open(&k, SPEC(4, 24));
	kit_count(t, 9, 500);
	begin_beams(&k, s, 8, 8, 1, 0);
	EXPECT_EQ(2 + 8, kit_used(&k));
	EXPECT_EQ(14, kit_room(&k));
	items[0] = items[1] = (struct kvc_item) { s[0], t, 1 };
	EXPECT_EQ(-EINVAL, kvc_batch_plan(k.b, items, 2));
	begin_beams(&k, q, 8, 8, 1, 100);
	ASSERT_EQ(0, kit_hog(&k, 2, &hog));
	EXPECT_EQ(2, kit_room(&k));
	third = kit_seq(&k, NULL);
	EXPECT_EQ(-ENOSPC, kit_add(&k, third, t, 9));
	EXPECT_EQ(2, kit_room(&k));
	EXPECT_EQ(0, kvc_seq_pages(third));
	for (i = 0; i < 8; i++) {
		kit_check(&k, s[i]);
		kvc_seq_free(s[i], 0);
		kit_check(&k, q[i]);
		kvc_seq_free(q[i], 0);
	}
	kvc_seq_free(third, 0);
	kvc_seq_free(hog, 0);
	EXPECT_EQ(24, kit_room(&k));
	kit_close(&k);
}

/* c3.1: beams that have nothing of their own yet. */
CASE(beams_share_all_blocks)
{
	struct kvc_seq *s[8];
	struct kit k;

	kit_open(&k, SPEC(4, 24));
	begin_beams(&k, s, 8, 9, 0, 0);
	EXPECT_EQ(3, kit_used(&k));
	for (int i = 0; i < 8; i++) {
		EXPECT_EQ(3, kvc_seq_pages(s[i]));
		kvc_seq_free(s[i], 0);
	}
	kit_close(&k);
}

/* c3.14: draft tokens that are taken back: before, or after they count. */
CASE(rewind_of_draft_tokens)
{
	static const uint32_t lens[] = { 8, 10 };
	uint32_t t[16], i, late, keep = 0, had;
	struct kvc_item item;
	struct kvc_seq *s;
	struct kit k;

	for (i = 0; i < NR(lens); i++) {
		for (late = 0; late < 2; late++) {
			kit_open(&k, SPEC(8, 8));
			kit_count(t, 16, 0);
			s = kit_begin(&k, t, lens[i], NULL);
			had = kit_used(&k);
			item = (struct kvc_item) { s, t + lens[i], 4 };
			ASSERT_EQ(0, kvc_batch_plan(k.b, &item, 1));
			kit_append(&k, &item, 1, NULL);
			/* At a boundary that took a page, inside none. */
			EXPECT_EQ(2, kit_used(&k));
			if (late) {
				ASSERT_EQ(0, kvc_batch_commit(k.b));
				ASSERT_EQ(0, kvc_seq_truncate(s, lens[i]));
			} else {
				ASSERT_EQ(0, kvc_batch_accept(k.b, &keep));
			}
			EXPECT_EQ(had, kit_used(&k));
			EXPECT_EQ(1 + i, had);
			EXPECT_EQ(lens[i], kvc_seq_len(s));
			kit_check(&k, s);
			ASSERT_EQ(0, kit_add(&k, s, t, 3));
			kit_check(&k, s);
			kvc_seq_free(s, 0);
			kit_close(&k);
		}
	}
}

TEST_HARNESS_MAIN
