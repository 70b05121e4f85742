// SPDX-License-Identifier: MIT
/*
 * test_sglang.c - behaviours that SGLang's tests of its radix cache and paged
 * allocator assert. To insert a key is to have a conversation with these
 * tokens end; to match one is to begin a conversation; to lock one is to go on
 * with it; to evict is to allocate what is not free.
 */
#include "kit.h"

static uint64_t cached(struct kit *k)
{
	return kit_pool(k).nr_cached;
}

/* c2.1: pages of one token. A prompt's last token is never matched. */
CASE(insert_match_reset)
{
	static const uint32_t key[] = { 1, 2, 3 }, other[] = { 1, 2, 9 };
	struct kvc_seq_opts o = { .sz = sizeof(o), .no_reuse = 1 };
	struct kvc_seq *s;
	struct kit k;

	kit_open(&k, SPEC(1, 8));
	EXPECT_EQ(0, kit_run_prompt(&k, key, 3));
	EXPECT_EQ(3, cached(&k));
	s = kit_seq(&k, NULL);
	EXPECT_EQ(2, kvc_seq_prefix(s, other, 3));
	EXPECT_BLOCKS(s, 1, 2);
	kvc_seq_free(s, 0);
	ASSERT_EQ(0, kvc_seq_create(k.c, &o, &s));
	EXPECT_EQ(0, kvc_seq_prefix(s, other, 3));
	kvc_seq_free(s, 0);
	EXPECT_EQ(3, kit_flush(&k));
	EXPECT_EQ(0, cached(&k));
	EXPECT_EQ(0, kit_find(&k, NULL, other, 3));
	kit_close(&k);
}

/* c2.2 */
CASE(namespaces)
{
	static const char *const extra[] = { "a", "b", "c" };
	uint32_t t[9], i;
	struct kit k;

	kit_open(&k, SPEC(4, 16));
	kit_count(t, 9, 0);
	for (i = 0; i < 3; i++)
		EXPECT_EQ(0, kit_run_extra(&k, extra[i], t, 8));
	EXPECT_EQ(3 * 2, cached(&k));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(8, kit_run_extra(&k, extra[i], t, 9));
	EXPECT_EQ(0, kit_find(&k, "d", t, 9));
	EXPECT_EQ(0, kit_find(&k, NULL, t, 9));
	kit_close(&k);
}

/* c2.2: ("bc", salt "a") and ("c", salt "ab") in one pool. */
CASE(namespaces_are_not_concatenated)
{
	struct kvc_cache_opts o = {
		.sz = sizeof(o), .threads = 1, .salt = "ab",
	};
	struct kit k, other;
	uint32_t t[9];

	kit_open(&k, SPEC(4, 16, .o.salt = "a"));
	kit_count(t, 9, 0);
	EXPECT_EQ(0, kit_run_extra(&k, "bc", t, 8));
	other = k;
	ASSERT_EQ(0, kvc_cache_create(k.ctx, &k.m, &o, &other.c));
	ASSERT_EQ(0, kvc_batch_create(other.c, &other.b));
	EXPECT_EQ(0, kit_run_extra(&other, "c", t, 8));
	EXPECT_EQ(4, cached(&k));
	EXPECT_EQ(8, kit_find(&k, "bc", t, 9));
	EXPECT_EQ(8, kit_find(&other, "c", t, 9));
	EXPECT_EQ(0, kit_find(&k, "c", t, 9));
	EXPECT_EQ(0, kit_find(&other, "bc", t, 9));
	kit_cache_close(&other);
	kit_close(&k);
}

/* c2.3: a lock is a conversation that goes on; two of them are nested. */
CASE(lock_and_unlock)
{
	struct kvcache_free f = { .nr = 3 };
	struct kvc_seq *a, *b;
	uint64_t h[3];
	uint32_t t[4], i;
	struct kit k;

	kit_open(&k, SPEC(1, 8));
	kit_count(t, 4, 0);
	kit_run_prompt(&k, t, 3);
	EXPECT_EQ(3, cached(&k));
	EXPECT_EQ(0, kit_used(&k));
	a = kit_seq(&k, NULL);
	EXPECT_EQ(3, kvc_seq_prefix(a, t, 4));
	EXPECT_EQ(0, cached(&k));
	EXPECT_EQ(3, kit_used(&k));
	b = kit_seq(&k, NULL);
	EXPECT_EQ(3, kvc_seq_prefix(b, t, 4));
	EXPECT_EQ(3, kit_used(&k));
	kvc_seq_handles(a, 0, h, 3);
	kvc_seq_free(a, 0);
	EXPECT_EQ(0, cached(&k));
	EXPECT_EQ(3, kit_used(&k));
	kvc_seq_free(b, 0);
	EXPECT_EQ(3, cached(&k));
	EXPECT_EQ(0, kit_used(&k));
	/* One unlock too many says so, and does nothing. */
	memcpy(f.pages, h, sizeof(h));
	EXPECT_EQ(-EPERM, kvc_call(k.ctx, KVCACHE_NR_FREE, &f));
	EXPECT_EQ(3, cached(&k));
	for (i = 1; i <= 3; i++)
		EXPECT_EQ(0, kit_page(&k, i).refs);
	kit_close(&k);
}

/* c2.4: pages of one token, so that tokens and pages are the same number. */
CASE(evict_counts)
{
	struct kvc_seq *hog, *lock, *s;
	uint32_t t[8], n;
	struct kit k;

	for (n = 1; n <= 6; n++) {
		kit_open(&k, SPEC(1, 8));
		kit_count(t, 8, 0);
		kit_run_prompt(&k, t, 6);
		EXPECT_EQ(2, kit_pool(&k).nr_free);
		ASSERT_EQ(0, kit_hog(&k, 2 + n, &hog));
		EXPECT_EQ(n, kit_pool(&k).reclaims);
		EXPECT_EQ(6 - n, cached(&k));
		kvc_seq_free(hog, 0);
		EXPECT_EQ(2 + n, kit_pool(&k).nr_free);
		/* What a flush says is what the pool gets. */
		EXPECT_EQ(6 - n, kit_flush(&k));
		EXPECT_EQ(8, kit_pool(&k).nr_free);
		/* None in an empty tree. */
		ASSERT_EQ(0, kit_hog(&k, 8, &hog));
		EXPECT_EQ(-ENOSPC, kvc_seq_reserve(hog, 9, 0));
		EXPECT_EQ(n, kit_pool(&k).reclaims);
		EXPECT_EQ(0, kit_flush(&k));
		kvc_seq_free(hog, 0);
		kit_close(&k);
	}
	/* None of one that is locked, nor for a request that fails anyhow. */
	kit_open(&k, SPEC(1, 8));
	kit_run_prompt(&k, t, 6);
	lock = kit_seq(&k, NULL);
	EXPECT_EQ(6, kvc_seq_prefix(lock, t, 7));
	EXPECT_EQ(-ENOSPC, kit_hog(&k, 3, &s));
	EXPECT_EQ(0, kit_pool(&k).reclaims);
	EXPECT_EQ(0, kit_flush(&k));
	EXPECT_EQ(6, kit_used(&k));
	kit_check(&k, lock);
	kvc_seq_free(s, 0);
	kvc_seq_free(lock, 0);
	kit_close(&k);
}

/* c2.5: whole pages; a tail is published only if its conversation ends so. */
CASE(match_is_a_multiple_of_the_page)
{
	uint32_t t[16], n;
	struct kit k, other;
	struct kvc_seq *s;

	kit_open(&k, SPEC(4, 16));
	kit_count(t, 16, 0);
	/* Six tokens, of which four are stored. */
	kvc_seq_free(kit_begin(&k, t, 6, NULL), KVC_SEQ_DISCARD);
	EXPECT_EQ(1, cached(&k));
	for (n = 1; n <= 9; n++) {
		kit_other(&k, &other);
		EXPECT_EQ(n <= 4 ? 0 : 4, kit_find(&other, NULL, t, n));
		kit_cache_close(&other);
	}
	kvc_seq_free(kit_begin(&k, t, 8, NULL), 0);
	EXPECT_EQ(2, cached(&k));
	for (n = 0; n < 8; n++) {
		t[n] += 100;
		kit_other(&k, &other);
		EXPECT_EQ(n < 4 ? 0 : 4, kit_find(&other, NULL, t, 16));
		kit_cache_close(&other);
		/* Who wrote them knows every token: the rest is copied. */
		s = kit_seq(&k, NULL);
		EXPECT_EQ(n, kvc_seq_prefix(s, t, 16));
		EXPECT_EQ((n + 3) / 4, kvc_seq_pages(s));
		kit_check(&k, s);
		kvc_seq_free(s, KVC_SEQ_DISCARD);
		t[n] -= 100;
	}
	kit_close(&k);
}

/* c2.7 */
CASE(same_page_at_another_depth)
{
	static const uint32_t t[] = { 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 5 };
	struct kvcache_event ev[8];
	struct kvc_seq *s;
	struct kit k;
	int i, j;

	kit_open(&k, SPEC(4, 8));
	EXPECT_EQ(0, kvc_events(k.ctx, ev, NR(ev)));
	kit_run_prompt(&k, t, 12);
	EXPECT_EQ(3, cached(&k));
	ASSERT_EQ(3, kvc_events(k.ctx, ev, NR(ev)));
	for (i = 0; i < 3; i++)
		for (j = 0; j < i; j++)
			EXPECT_NE(0, memcmp(ev[i].key, ev[j].key,
					    KVCACHE_KEY_LEN));
	s = kit_seq(&k, NULL);
	EXPECT_EQ(12, kvc_seq_prefix(s, t, 13));
	EXPECT_BLOCKS(s, 1, 2, 3);
	kit_check(&k, s);
	kvc_seq_free(s, 0);
	kit_close(&k);
}

/* c2.8 */
CASE(least_recently_used_leaves)
{
	uint32_t a[5], b[5];
	struct kvc_seq *hog;
	struct kit k;

	kit_open(&k, SPEC(4, 2));
	kit_count(a, 5, 0);
	kit_count(b, 5, 100);
	kit_run_prompt(&k, a, 4);
	kit_run_prompt(&k, b, 4);
	EXPECT_EQ(4, kit_find(&k, NULL, a, 5));
	ASSERT_EQ(0, kit_hog(&k, 1, &hog));
	EXPECT_EQ(0, kit_find(&k, NULL, b, 5));
	EXPECT_EQ(4, kit_find(&k, NULL, a, 5));
	kvc_seq_free(hog, 0);
	kit_close(&k);
}

/* c2.8 */
CASE(priority_survives)
{
	static const uint32_t prio[] = { 10, 0 };
	struct kvc_seq *s, *hog;
	uint32_t t[2][5], i;
	struct kit k;

	kit_open(&k, SPEC(4, 2));
	for (i = 0; i < 2; i++) {
		struct kvc_seq_opts o = {
			.sz = sizeof(o), .priority = prio[i] + 1,
		};

		kit_count(t[i], 5, 100 * i);
		ASSERT_EQ(0, kvc_seq_create(k.c, &o, &s));
		kit_prompt(&k, s, t[i], 4);
		kvc_seq_free(s, 0);
	}
	/* The younger one has the lower priority. */
	ASSERT_EQ(0, kit_hog(&k, 1, &hog));
	EXPECT_EQ(4, kit_find(&k, NULL, t[0], 5));
	EXPECT_EQ(0, kit_find(&k, NULL, t[1], 5));
	kvc_seq_free(hog, 0);
	kit_close(&k);
}

/* c2.9 */
CASE(shared_prefix_outlives_a_branch)
{
	struct kvc_seq *hog[3], *lock, *s;
	uint32_t a[9], b[9], i;
	struct kit k;

	kit_open(&k, SPEC(4, 3));
	kit_count(a, 9, 0);
	kit_count(b, 9, 0);
	kit_count(b + 4, 5, 100);
	kit_run_prompt(&k, a, 8);
	kit_run_prompt(&k, b, 8);
	EXPECT_EQ(3, cached(&k));
	lock = kit_seq(&k, NULL);
	EXPECT_EQ(8, kvc_seq_prefix(lock, b, 9));
	EXPECT_BLOCKS(lock, 1, 3);
	/* One branch goes, the other and the root do not. */
	ASSERT_EQ(0, kit_hog(&k, 1, &hog[0]));
	EXPECT_BLOCKS(hog[0], 2);
	EXPECT_EQ(-ENOSPC, kit_hog(&k, 1, &s));
	kvc_seq_free(s, 0);
	EXPECT_EQ(4, kit_find(&k, NULL, a, 9));
	kit_check(&k, lock);
	kvc_seq_free(lock, 0);
	/* The root after its last child. */
	for (i = 1; i < 3; i++) {
		ASSERT_EQ(0, kit_hog(&k, 1, &hog[i]));
		EXPECT_EQ(i == 1 ? 4 : 0, kit_find(&k, NULL, b, 9));
	}
	EXPECT_BLOCKS(hog[1], 3);
	EXPECT_BLOCKS(hog[2], 1);
	for (i = 0; i < 3; i++)
		kvc_seq_free(hog[i], 0);
	kit_close(&k);
}

/* c2.10 */
CASE(insert_again_after_eviction)
{
	struct kvc_stats st[2], was;
	struct kvc_seq *hog;
	uint32_t t[12], i;
	struct kit k;

	kit_open(&k, SPEC(4, 6));
	kit_count(t, 12, 0);
	memset(&was, 0, sizeof(was));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, kit_run_prompt(&k, t, 11));
		kvc_cache_stats(k.c, &st[i]);
		EXPECT_EQ(3, st[i].pages_allocated - was.pages_allocated);
		EXPECT_EQ(3, st[i].pages_published - was.pages_published);
		EXPECT_EQ(0, st[i].pages_found);
		EXPECT_EQ(3, cached(&k));
		ASSERT_EQ(0, kit_hog(&k, 6, &hog));
		EXPECT_EQ(0, cached(&k));
		EXPECT_EQ(0, kit_find(&k, NULL, t, 12));
		kvc_seq_free(hog, 0);
		kvc_cache_stats(k.c, &was);
	}
	kit_close(&k);
}

/*
 * c2.11: two conversations compute the same chunks side by side, so neither
 * finds the other's.
 */
CASE(duplicates_are_freed_once)
{
	struct kvc_seq *s[2];
	struct kvc_item items[2];
	struct kvc_stats st;
	uint32_t t[12], i, n;
	uint64_t h[2][3];
	struct kit k;

	kit_open(&k, SPEC(4, 16));
	kit_count(t, 12, 0);
	for (i = 0; i < 2; i++)
		s[i] = kit_seq(&k, NULL);
	/* Chunks of 3: pages become full in mid-chunk and at its end. */
	for (n = 0; n < 12; n += 3) {
		for (i = 0; i < 2; i++)
			items[i] = (struct kvc_item) { s[i], t + n, 3 };
		ASSERT_EQ(0, kit_step(&k, items, 2, NULL));
		kvc_cache_stats(k.c, &st);
		EXPECT_EQ((n + 3) / 4, st.pages_published);
		EXPECT_EQ((n + 3) / 4, st.pages_deduplicated);
		EXPECT_EQ((n + 3) / 4 + 2 * !!((n + 3) % 4), kit_used(&k));
	}
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(3, kvc_seq_handles(s[i], 0, h[i], 3));
		kit_check(&k, s[i]);
	}
	EXPECT_EQ(0, memcmp(h[0], h[1], sizeof(h[0])));
	EXPECT_EQ(3, kit_used(&k));
	EXPECT_EQ(13, kit_pool(&k).nr_free);
	kvc_seq_free(s[0], 0);
	EXPECT_EQ(3, kit_used(&k));
	kvc_seq_free(s[1], 0);
	EXPECT_EQ(3, cached(&k));
	/* A third, after them, is told how much is there. */
	EXPECT_EQ(11, kit_run_prompt(&k, t, 12));
	EXPECT_EQ(3, cached(&k));
	kit_close(&k);
}

/* c2.11: a page that was given up is nobody's: its handle is stale. */
CASE(double_free_is_refused)
{
	struct kvcache_free f = { .nr = 1 };
	struct kvcache_alloc a = { .nr = 1 };
	struct kit k;

	kit_open(&k, SPEC(4, 2));
	ASSERT_EQ(0, kvc_call(k.ctx, KVCACHE_NR_ALLOC, &a));
	f.pages[0] = a.out_pages[0];
	EXPECT_EQ(0, kvc_call(k.ctx, KVCACHE_NR_FREE, &f));
	EXPECT_EQ(-ESTALE, kvc_call(k.ctx, KVCACHE_NR_FREE, &f));
	EXPECT_EQ(2, kit_pool(&k).nr_free);
	/* Nor is it the next owner's. */
	ASSERT_EQ(0, kvc_call(k.ctx, KVCACHE_NR_ALLOC, &a));
	EXPECT_EQ((uint32_t)f.pages[0], (uint32_t)a.out_pages[0]);
	EXPECT_EQ(-ESTALE, kvc_call(k.ctx, KVCACHE_NR_FREE, &f));
	EXPECT_EQ(1, kit_used(&k));
	kit_close(&k);
}

/* c2.12 */
CASE(unaligned_tail_is_freed_exactly)
{
	uint32_t t[13], n;
	struct kit k;

	for (n = 1; n <= 12; n++) {
		kit_open(&k, SPEC(4, 8));
		kit_count(t, 13, 0);
		kvc_seq_free(kit_begin(&k, t, n, NULL), KVC_SEQ_DISCARD);
		EXPECT_EQ(n / 4, cached(&k));
		EXPECT_EQ(8 - n / 4, kit_pool(&k).nr_free);
		/* Unless it is to be found again: then no slot is lost. */
		EXPECT_EQ(n / 4 * 4 - (n % 4 == 0), kit_run_prompt(&k, t, n));
		EXPECT_EQ((n + 3) / 4, cached(&k));
		EXPECT_EQ(8 - (n + 3) / 4, kit_pool(&k).nr_free);
		EXPECT_EQ(n, kit_find(&k, NULL, t, n + 1));
		kit_close(&k);
	}
}

/* c2.13 */
CASE(paged_extension)
{
	static const uint32_t sizes[] = { 8, 16, 32, 64, 128 };
	struct kvc_room room;
	struct kvc_seq *s;
	uint32_t t[8], i, P;
	struct kit k;

	kit_count(t, 8, 0);
	for (i = 0; i < NR(sizes); i++) {
		P = sizes[i];
		kit_open(&k, SPEC(P, 4));
		s = kit_begin(&k, t, 5, NULL);
		ASSERT_EQ(0, kvc_predict(k.c, s, NULL, 1, 0, &room));
		EXPECT_EQ(0, room.new_pages);
		ASSERT_EQ(0, kit_add(&k, s, t + 5, 1));
		EXPECT_EQ(1, kvc_seq_pages(s));
		/* All there is, and one token more. */
		ASSERT_EQ(0, kvc_predict(k.c, s, NULL, 4 * P - 6, 0, &room));
		EXPECT_EQ(3, room.new_pages);
		EXPECT_EQ(1, room.fits);
		ASSERT_EQ(0, kvc_predict(k.c, s, NULL, 4 * P - 5, 0, &room));
		EXPECT_EQ(4, room.new_pages);
		EXPECT_EQ(0, room.fits);
		EXPECT_EQ(0, room.possible);
		EXPECT_EQ(-ENOSPC, kvc_seq_reserve(s, 4 * P - 5, 0));
		EXPECT_EQ(1, kvc_seq_pages(s));
		EXPECT_EQ(0, kvc_seq_reserve(s, 4 * P - 6, 0));
		EXPECT_EQ(4, kvc_seq_pages(s));
		EXPECT_EQ(0, kit_room(&k));
		kvc_seq_free(s, 0);
		kit_close(&k);
	}
}

TEST_HARNESS_MAIN
