// SPDX-License-Identifier: MIT
/*
 * test_vllm.c - behaviours that vLLM's tests of its block manager and scheduler
 * assert. Blocks of 16 tokens, 10 of them, unless a case says otherwise.
 */
#include "kit.h"
#include "tools/run_kit.h"

#define BS 16
/* Two conversations with 48 tokens in common, both ended. */
static void two_that_share(struct kit *k, uint32_t *t)
{
	struct kvc_seq *a, *b;
	uint32_t reused, i;

	kit_count(t, 55, 0);
	a = kit_begin(k, t, 55, &reused);
	EXPECT_EQ(0, reused);
	EXPECT_BLOCKS(a, 1, 2, 3, 4);
	for (i = 1; i <= 3; i++) {
		EXPECT_EQ(KVCACHE_PAGE_SHARED, kit_page(k, i).state);
		EXPECT_EQ(1, kit_page(k, i).nr_keys);
	}
	EXPECT_EQ(KVCACHE_PAGE_PRIVATE, kit_page(k, 4).state);

	kit_count(t + 48, 7, 500);
	b = kit_begin(k, t, 55, &reused);
	EXPECT_EQ(48, reused);
	EXPECT_BLOCKS(b, 1, 2, 3, 5);
	EXPECT_EQ(5, kit_room(k));
	kit_check(k, a);

	kvc_seq_free(a, 0);
	/* The three have another holder. */
	for (i = 1; i <= 3; i++)
		EXPECT_EQ(KVCACHE_PAGE_SHARED, kit_page(k, i).state);
	EXPECT_EQ(KVCACHE_PAGE_CACHED, kit_page(k, 4).state);
	kvc_seq_free(b, 0);
	EXPECT_EQ(10, kit_room(k));
}

/* A miss of 160 tokens, a block at a time, gets the blocks in this order. */
static void expect_order(struct kit *k, const uint64_t *want)
{
	struct kvc_seq *s = kit_seq(k, NULL);
	uint32_t t[10 * BS], i;
	uint64_t got[10];

	kit_count(t, 10 * BS, 9000);
	EXPECT_EQ(0, kvc_seq_prefix(s, t, 10 * BS));
	for (i = 0; i < 10; i++)
		ASSERT_EQ(0, kit_add(k, s, t + i * BS, BS));
	kit_blocks(s, got, 10);
	for (i = 0; i < 10; i++)
		EXPECT_EQ(want[i], got[i]);
	EXPECT_EQ(0, kit_room(k));
	kvc_seq_free(s, 0);
}

/* c1.1: after both ended, free order is 6,7,8,9,10,4,5,3,2,1. */
CASE(cold_then_warm)
{
	static const uint64_t want[] = { 6, 7, 8, 9, 10, 4, 5, 3, 2, 1 };
	uint32_t t[55];
	struct kit k;

	kit_open(&k, SPEC(BS, 10));
	two_that_share(&k, t);
	expect_order(&k, want);
	kit_close(&k);
}

/* c1.1: a third one hits 1, 2, 3 while nobody holds them. */
CASE(recycled)
{
	static const uint64_t want[] = { 7, 8, 9, 10, 4, 5, 6, 3, 2, 1 };
	struct kvc_seq *c;
	uint32_t t[55], reused;
	struct kit k;

	kit_open(&k, SPEC(BS, 10));
	two_that_share(&k, t);
	kit_count(t + 48, 5, 700);
	c = kit_begin(&k, t, 53, &reused);
	EXPECT_EQ(48, reused);
	EXPECT_BLOCKS(c, 1, 2, 3, 6);
	EXPECT_EQ(6, kit_room(&k));
	kvc_seq_free(c, 0);
	expect_order(&k, want);
	kit_close(&k);
}

/*
 * c1.1 again, all at once: which pages, and that none is left. What order one
 * request's pages have among themselves says nothing.
 */
CASE(a_miss_takes_all)
{
	uint32_t t[10 * BS], seen = 0, i;
	struct kvc_seq *s;
	uint64_t got[10];
	struct kit k;

	kit_open(&k, SPEC(BS, 10));
	two_that_share(&k, t);
	kit_count(t, 10 * BS, 9000);
	s = kit_begin(&k, t, 10 * BS, NULL);
	kit_blocks(s, got, 10);
	for (i = 0; i < 10; i++)
		seen |= 1U << got[i];
	EXPECT_EQ(0x7fe, seen);
	EXPECT_EQ(0, kit_room(&k));
	kvc_seq_free(s, 0);
	kit_close(&k);
}

/* c1.2 */
CASE(decode_growth)
{
	struct kvc_seq *s;
	uint32_t t[78];
	struct kit k;

	kit_open(&k, SPEC(BS, 10));
	kit_count(t, 78, 0);
	s = kit_begin(&k, t, 55, NULL);
	ASSERT_EQ(0, kit_add(&k, s, t + 55, 4));
	EXPECT_BLOCKS(s, 1, 2, 3, 4);
	EXPECT_EQ(KVCACHE_PAGE_PRIVATE, kit_page(&k, 4).state);
	EXPECT_EQ(0, kit_page(&k, 4).nr_keys);
	ASSERT_EQ(0, kit_add(&k, s, t + 59, 19));
	EXPECT_BLOCKS(s, 1, 2, 3, 4, 5);
	EXPECT_EQ(KVCACHE_PAGE_SHARED, kit_page(&k, 4).state);
	EXPECT_EQ(1, kit_page(&k, 4).nr_keys);
	EXPECT_EQ(KVCACHE_PAGE_PRIVATE, kit_page(&k, 5).state);
	EXPECT_EQ(0, kit_page(&k, 5).nr_keys);
	kit_check(&k, s);
	kvc_seq_free(s, 0);
	kit_close(&k);
}

/* c1.4 */
CASE(recycled_block_loses_its_hash)
{
	uint32_t t[40], reused;
	struct kvc_seq *s;
	struct kit k;

	kit_open(&k, SPEC(BS, 1));
	kit_count(t, 40, 0);
	EXPECT_EQ(0, kit_run_prompt(&k, t, BS));
	EXPECT_EQ(1, kit_page(&k, 1).nr_keys);
	EXPECT_EQ(BS, kit_find(&k, NULL, t, BS + 1));
	s = kit_begin(&k, t + 20, BS - 1, &reused);
	EXPECT_EQ(0, reused);
	EXPECT_BLOCKS(s, 1);
	EXPECT_EQ(0, kit_page(&k, 1).nr_keys);
	EXPECT_EQ(0, kit_find(&k, NULL, t, BS + 1));
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	EXPECT_EQ(0, kit_find(&k, NULL, t, BS + 1));
	EXPECT_EQ(0, kit_pool(&k).nr_cached);
	kit_close(&k);
}

/* c1.5: a pool of two, and the null page. */
CASE(hit_beats_eviction)
{
	uint32_t a[2 * BS], b[BS], reused;
	struct kvc_seq *s;
	struct kit k;

	kit_open(&k, SPEC(BS, 2));
	kit_count(a, 2 * BS, 0);
	kit_count(b, BS, 500);
	kit_run_prompt(&k, a, BS);
	kit_run_prompt(&k, b, BS);
	/* Block 1 is the least recently used one. */
	s = kit_begin(&k, a, 2 * BS, &reused);
	EXPECT_EQ(BS, reused);
	EXPECT_BLOCKS(s, 1, 2);
	EXPECT_EQ(1, kit_pool(&k).reclaims);
	kvc_seq_free(s, 0);
	EXPECT_EQ(0, kit_find(&k, NULL, b, BS));
	kit_close(&k);
}

/* The keys of the pages that were published since the last call. */
static uint32_t published(struct kit *k, struct kvcache_event *out, uint32_t n)
{
	struct kvcache_event ev[64];
	int got = kvc_events(k->ctx, ev, NR(ev)), i;
	uint32_t nr = 0;

	ASSERT_GE(got, 0);
	for (i = 0; i < got; i++) {
		EXPECT_EQ(0, ev[i].dropped);
		if (ev[i].type != KVCACHE_EV_PUBLISHED)
			continue;
		ASSERT_LT(nr, n);
		out[nr++] = ev[i];
	}
	return nr;
}

/* c1.6: a request's salt is in its extra bytes. */
CASE(salt)
{
	static const uint8_t zero[KVCACHE_KEY_LEN];
	struct kvcache_event e[2][3];
	uint32_t t[49], reused, i, j;
	struct kvc_seq *s;
	struct kit k;

	kit_open(&k, SPEC(BS, 10));
	kit_count(t, 49, 0);
	EXPECT_EQ(0, published(&k, e[0], 3));
	for (i = 0; i < 2; i++) {
		s = kit_begin_extra(&k, i ? "salt2" : "salt1", t, 48, &reused);
		EXPECT_EQ(0, reused);
		EXPECT_EQ(3, published(&k, e[i], 3));
		kvc_seq_free(s, 0);
	}
	/* It is not in the later keys, but for their parents'. */
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, memcmp(e[i][0].parent, zero, sizeof(zero)));
		for (j = 1; j < 3; j++)
			EXPECT_EQ(0, memcmp(e[i][j].parent, e[i][j - 1].key,
					    KVCACHE_KEY_LEN));
	}
	for (j = 0; j < 3; j++)
		EXPECT_NE(0, memcmp(e[0][j].key, e[1][j].key, KVCACHE_KEY_LEN));
	EXPECT_EQ(48, kit_find(&k, "salt1", t, 49));
	EXPECT_EQ(48, kit_find(&k, "salt2", t, 49));
	EXPECT_EQ(0, kit_find(&k, "salt3", t, 49));
	EXPECT_EQ(0, kit_find(&k, NULL, t, 49));
	kit_close(&k);
}

/* c1.7: six cached blocks are hit, and there is no room for the rest. */
CASE(failed_allocation_is_side_effect_free)
{
	static const uint64_t want[] = { 6, 5, 4 };
	struct kvc_seq *a, *b, *c, *hog;
	uint32_t t[112], u[64], reused, i;
	struct kvc_room room;
	uint64_t got[3];
	struct kit k;

	kit_open(&k, SPEC(BS, 10));
	kit_count(t, 112, 0);
	kit_count(u, 64, 500);
	a = kit_begin(&k, t, 48, NULL);
	kvc_seq_free(kit_begin(&k, t, 96, &reused), 0);
	EXPECT_EQ(48, reused);
	/* 1 to 3 in use, 4 to 6 idle. */
	b = kit_begin(&k, u, 64, NULL);
	EXPECT_BLOCKS(a, 1, 2, 3);
	EXPECT_EQ(4, kvc_seq_pages(b));
	EXPECT_EQ(3, kit_room(&k));

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, kvc_predict(k.c, NULL, t, 112, 0, &room));
		EXPECT_EQ(96, room.reused_tokens);
		EXPECT_EQ(1, room.new_pages);
		EXPECT_EQ(3, room.idle_pages);
		EXPECT_EQ(0, room.fits);
		EXPECT_EQ(1, room.possible);
		/* And if it is tried all the same. */
		c = kit_seq(&k, NULL);
		EXPECT_EQ(96, kvc_seq_prefix(c, t, 112));
		EXPECT_EQ(-ENOSPC, kvc_seq_reserve(c, 16, 0));
		EXPECT_EQ(-ENOSPC, kit_add(&k, c, t + 96, 16));
		EXPECT_EQ(96, kvc_seq_len(c));
		kvc_seq_free(c, 0);
		EXPECT_EQ(3, kit_room(&k));
	}
	for (i = 1; i <= 3; i++) {
		EXPECT_EQ(KVCACHE_PAGE_SHARED, kit_page(&k, i).state);
		EXPECT_EQ(1, kit_page(&k, i).refs);
		EXPECT_EQ(KVCACHE_PAGE_CACHED, kit_page(&k, 3 + i).state);
		EXPECT_EQ(0, kit_page(&k, 3 + i).refs);
	}
	EXPECT_EQ(0, kit_pool(&k).reclaims);
	/* They are given to others as if nothing had been. */
	hog = kit_seq(&k, NULL);
	for (i = 1; i <= 3; i++)
		ASSERT_EQ(0, kvc_seq_reserve(hog, i * BS, 0));
	kit_blocks(hog, got, 3);
	EXPECT_EQ(0, memcmp(want, got, sizeof(want)));
	kit_check(&k, a);
	kvc_seq_free(a, 0);
	kvc_seq_free(b, 0);
	kvc_seq_free(hog, 0);
	kit_close(&k);
}

/*
 * c1.8: where vLLM refuses while a block is held, the keys are forgotten here
 * and the holder keeps its pages.
 */
CASE(reset_prefix_cache)
{
	uint32_t t[55], i;
	struct kvc_seq *a;
	struct kit k;

	kit_open(&k, SPEC(BS, 10));
	kit_count(t, 55, 0);
	a = kit_begin(&k, t, 55, NULL);
	EXPECT_EQ(54, kit_find(&k, NULL, t, 55));
	EXPECT_EQ(0, kit_flush(&k));
	EXPECT_BLOCKS(a, 1, 2, 3, 4);
	EXPECT_EQ(0, kit_find(&k, NULL, t, 55));
	kit_check(&k, a);
	kvc_seq_free(a, KVC_SEQ_DISCARD);
	/* What was published before leaves with its last holder. */
	EXPECT_EQ(10, kit_pool(&k).nr_free);

	kit_run_prompt(&k, t, 55);
	EXPECT_EQ(4, kit_pool(&k).nr_cached);
	EXPECT_EQ(4, kit_flush(&k));
	EXPECT_EQ(10, kit_pool(&k).nr_free);
	EXPECT_EQ(0, kit_find(&k, NULL, t, 55));
	for (i = 1; i <= 10; i++)
		EXPECT_EQ(0, kit_page(&k, i).nr_keys);
	kit_close(&k);
}

TEST(reset_of_running_requests)
{
	SKIP(return, "an engine's call that sends all running requests back to its queue: kvcache-run is no server");
}

/* c1.9 */
CASE(duplicate_digests)
{
	struct kvc_seq *s[2], *one, *two;
	struct kvc_item items[2];
	uint32_t t[BS + 1], i;
	struct kit k;

	kit_open(&k, SPEC(BS, 2, .o.no_dedup = 1));
	kit_count(t, BS + 1, 0);
	for (i = 0; i < 2; i++) {
		s[i] = kit_seq(&k, NULL);
		items[i] = (struct kvc_item) { s[i], t, BS };
	}
	ASSERT_EQ(0, kit_step(&k, items, 2, NULL));
	for (i = 0; i < 2; i++)
		kvc_seq_free(s[i], 0);
	EXPECT_EQ(2, kit_pool(&k).nr_cached);
	ASSERT_EQ(0, kit_hog(&k, 1, &one));
	EXPECT_EQ(1, kit_pool(&k).nr_cached);
	EXPECT_EQ(BS, kit_find(&k, NULL, t, BS + 1));
	ASSERT_EQ(0, kit_hog(&k, 1, &two));
	EXPECT_EQ(0, kit_find(&k, NULL, t, BS + 1));
	kvc_seq_free(one, 0);
	kvc_seq_free(two, 0);
	kit_close(&k);
}

/* c1.10: a record here is one page. */
CASE(events)
{
	static const uint32_t sizes[] = { 2, 3, 10 };
	static const uint8_t zero[KVCACHE_KEY_LEN];
	uint32_t t[10 * BS], n, i, j;
	struct kvcache_event ev[64], first[10];
	struct kit k;

	for (i = 0; i < NR(sizes); i++) {
		n = sizes[i];
		kit_open(&k, SPEC(BS, n));
		kit_count(t, n * BS, 0);
		EXPECT_EQ(0, kvc_events(k.ctx, ev, NR(ev)));
		kit_run_prompt(&k, t, n * BS);
		ASSERT_EQ(n, kvc_events(k.ctx, ev, NR(ev)));
		for (j = 0; j < n; j++) {
			EXPECT_EQ(KVCACHE_EV_PUBLISHED, ev[j].type);
			EXPECT_EQ(0, memcmp(ev[j].parent,
					    j ? ev[j - 1].key : zero,
					    KVCACHE_KEY_LEN));
		}
		memcpy(first, ev, n * sizeof(*ev));

		kit_count(t, n * BS, 500);
		kit_run_prompt(&k, t, n * BS);
		ASSERT_EQ(2 * n, kvc_events(k.ctx, ev, NR(ev)));
		/* The leaf first. */
		for (j = 0; j < n; j++) {
			EXPECT_EQ(KVCACHE_EV_EVICTED, ev[j].type);
			EXPECT_EQ(0, memcmp(ev[j].key, first[n - 1 - j].key,
					    KVCACHE_KEY_LEN));
			EXPECT_EQ(KVCACHE_EV_PUBLISHED, ev[n + j].type);
			EXPECT_EQ(0, memcmp(ev[n + j].parent,
					    j ? ev[n + j - 1].key : zero,
					    KVCACHE_KEY_LEN));
		}

		EXPECT_EQ(n, kit_flush(&k));
		ASSERT_EQ(1, kvc_events(k.ctx, ev, NR(ev)));
		EXPECT_EQ(KVCACHE_EV_CLEARED, ev[0].type);
		kit_close(&k);
	}
}

/*
 * c1.11: a drafter that must see the states of the last whole block gives that
 * block back: it truncates what it was given.
 */
CASE(speculative_hit_rule)
{
	static const uint32_t lens[] = { 48, 37 };
	uint32_t t[48], i, len, n;
	struct kvc_seq *s;
	struct kit k;
	int found;

	for (i = 0; i < NR(lens); i++) {
		n = lens[i];
		kit_open(&k, SPEC(BS, 10));
		kit_count(t, n, 0);
		kit_run_prompt(&k, t, n);
		s = kit_seq(&k, NULL);
		found = kvc_seq_prefix(s, t, n);
		EXPECT_EQ(n - 1, found);
		len = (found / BS - 1) * BS;
		EXPECT_EQ(16, len);
		ASSERT_EQ(0, kvc_seq_truncate(s, len));
		EXPECT_BLOCKS(s, 1);
		ASSERT_EQ(0, kit_add(&k, s, t + len, n - len));
		kit_check(&k, s);
		kvc_seq_free(s, 0);
		kit_close(&k);
	}
}

/* c1.14 */
CASE(predictor_equals_allocator)
{
	static const uint32_t sizes[] = { 2, 4 };
	struct kvc_room room;
	struct kvc_stats was, now;
	uint32_t t[20], i, n;
	struct kvc_seq *s;
	struct kit k;

	kit_count(t, 20, 0);
	for (i = 0; i < NR(sizes); i++) {
		kit_open(&k, SPEC(sizes[i], 10));
		s = kit_seq(&k, NULL);
		for (n = 4; n <= 16; n += 4) {
			ASSERT_EQ(0, kvc_predict(k.c, s, NULL, 4, 0, &room));
			kvc_cache_stats(k.c, &was);
			ASSERT_EQ(0, kit_add(&k, s, t + n - 4, 4));
			kvc_cache_stats(k.c, &now);
			EXPECT_EQ(4 / sizes[i], room.new_pages);
			EXPECT_EQ(room.new_pages, now.pages_allocated -
				  was.pages_allocated);
		}
		/* Idle hits leave the list of free blocks, and are not new. */
		n = kvc_seq_pages(s);
		kvc_seq_free(s, 0);
		ASSERT_EQ(0, kvc_predict(k.c, NULL, t, 20, 0, &room));
		EXPECT_EQ(16, room.reused_tokens);
		EXPECT_EQ(n, room.idle_pages);
		EXPECT_EQ(10, room.available_pages);
		EXPECT_EQ(4 / sizes[i], room.new_pages);
		ASSERT_EQ(0, kvc_predict(k.c, NULL, t, 20,
					 (10 - n) * sizes[i] - 4, &room));
		EXPECT_EQ(10 - n, room.new_pages);
		EXPECT_EQ(1, room.fits);
		ASSERT_EQ(0, kvc_predict(k.c, NULL, t, 20,
					 (10 - n) * sizes[i] - 3, &room));
		EXPECT_EQ(0, room.fits);
		kit_close(&k);
	}
}

/* c1.15 */
CASE(lookahead)
{
	uint32_t t[3], ahead;
	struct kvc_seq *s;
	struct kit k;

	kit_open(&k, SPEC(4, 10));
	kit_count(t, 3, 0);
	for (ahead = 2; ahead <= 4; ahead += 2) {
		s = kit_seq(&k, NULL);
		ASSERT_EQ(0, kvc_seq_reserve(s, 3 + ahead, 0));
		EXPECT_EQ(2, kvc_seq_pages(s));
		ASSERT_EQ(0, kit_add(&k, s, t, 3));
		EXPECT_EQ(2, kvc_seq_pages(s));
		EXPECT_EQ(3, kvc_seq_len(s));
		kvc_seq_free(s, KVC_SEQ_DISCARD);
		EXPECT_EQ(10, kit_pool(&k).nr_free);
	}
	kit_close(&k);
}

/* c1.13: blocks of 2 and a window of 4: what is null after so many tokens. */
CASE(window_release)
{
	static const uint32_t null[][2] = {
		{ 4, 0 }, { 5, 1 }, { 6, 1 }, { 7, 2 }, { 11, 4 },
	};
	uint64_t got[6];
	uint32_t t[11], i, j, n;
	struct kvc_seq *s;
	struct kit k;

	kit_open(&k, SPEC(2, 10, .window = 4));
	kit_count(t, 11, 0);
	s = kit_seq(&k, NULL);
	for (i = 0; i < NR(null); i++) {
		n = kvc_seq_len(s);
		ASSERT_EQ(0, kit_add(&k, s, t + n, null[i][0] - n));
		kit_blocks(s, got, 6);
		for (j = 0; j < (null[i][0] + 1) / 2; j++)
			EXPECT_EQ(j < null[i][1], got[j] == 0);
	}
	kvc_seq_free(s, 0);
	kit_close(&k);
}

/* c1.16: 64 blocks of all tokens, and 13 at most of a window: 77 admit 512. */
CASE(window_admission)
{
	static const uint32_t pools[] = { 77, 76, 5 };
	uint32_t t[512], i, n;
	struct kvc_room room;
	struct kvc_seq *s;
	struct kit k;

	kit_count(t, 512, 0);
	for (i = 0; i < NR(pools); i++) {
		kit_open(&k, SPEC(8, pools[i], .ngroups = 2, .window = 64,
				  .o.step = 32, .o.no_reuse = 1));
		ASSERT_EQ(0, kvc_predict(k.c, NULL, t, 512, 0, &room));
		EXPECT_EQ(77, room.most_pages);
		EXPECT_EQ(i == 0, room.possible);
		s = kit_seq(&k, NULL);
		EXPECT_EQ(i < 2 ? 0 : -E2BIG, kvc_seq_reserve(s, 512, 0));
		for (n = 0; room.possible && n < 512; n += 32)
			ASSERT_EQ(0, kit_add(&k, s, t + n, 32));
		kvc_seq_free(s, 0);
		kit_close(&k);
	}
}

/* ---- the scheduler of kvcache-run ---------------------------------------- */

/* 2 layers x 2 heads x 64 x (K, V) x f32 = 2 KiB a token: 16 in a page. */
#define RUN "-m " REFS "tiny-mha-f16.gguf --kv f32 --weights f32 "		\
	"--page-size 32K --ignore-end --json -n 40 "

/* 80 token ids, others for each @first. */
static const char *eighty(uint32_t first)
{
	char *s = kit_keep(malloc(80 * 4 + 1));
	size_t n = 0;

	for (uint32_t i = 0; i < 80; i++)
		n += sprintf(s + n, "%s%u", i ? "," : "", first + i * 7 % 90);
	return s;
}

/*
 * c1.17: two requests of 80 tokens fill their blocks, and the first needs one
 * more. A page for each that grows is kept free when a request starts, so both
 * run in 12 blocks, not in 10.
 */
TEST(preemption)
{
	struct ran all, r;

	NOT_ON_DEVICE("kvcache-run is tested there by itself");
	all = kit_run(NULL, RUN "--tokens %s --tokens %s", eighty(10),
		      eighty(110));
	r = kit_run(NULL, RUN "--tokens %s --tokens %s --verify --max-pages 12",
		    eighty(10), eighty(110));
	KIT_OK(all);
	KIT_OK(r);
	EXPECT_EQ(0, kit_num(&r, 0, "preempted"));
	EXPECT_EQ(1, kit_num(&r, 1, "preempted"));
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(80, kit_num(&r, i, "prompt_tokens"));
		EXPECT_STREQ("length", kit_str(&r, i, "finish"));
		/* Every token that was sampled is there, once. */
		EXPECT_EQ(40, json_array_size(kit_ids(&r, i)));
		EXPECT_TRUE(json_equal(kit_ids(&all, i), kit_ids(&r, i)));
		EXPECT_TRUE(kit_verified(&r, i));
	}
	EXPECT_EQ(12, kit_total(&r, "pages_peak"));
	EXPECT_EQ(0, kit_total(&r, "pages_held"));
	EXPECT_TRUE(kit_counted(&r));
}

TEST(no_start_without_room_to_grow)
{
	struct ran all, r;

	NOT_ON_DEVICE("kvcache-run is tested there by itself");
	all = kit_run(NULL, RUN "--tokens %s --tokens %s", eighty(10),
		      eighty(110));
	r = kit_run(NULL, RUN "--tokens %s --tokens %s --max-pages 10",
		    eighty(10), eighty(110));
	KIT_OK(all);
	KIT_OK(r);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(0, kit_num(&r, i, "preempted"));
		EXPECT_TRUE(json_equal(kit_ids(&all, i), kit_ids(&r, i)));
	}
	/* Nothing was computed twice. */
	EXPECT_EQ(2 * (80 + 39), kit_total(&r, "forwarded"));
}

TEST_HARNESS_MAIN
