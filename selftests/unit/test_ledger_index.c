// SPDX-License-Identifier: MIT
/*
 * test_ledger_index.c - publish and lookup: what is found, by whom, and what is
 * refused.
 */
#include "ledger_kit.h"

static struct kvcache_publish pub;
static struct kvcache_lookup lk;

/* @nr pages of @nr_keys keys each: page k has keys 100 k + 1, 100 k + 2, ... */
static void publish_chain(SELF, struct kvl_client *c, u32 nr, u32 nr_keys,
			  u32 flags, u64 *pages)
{
	u32 k;

	DO(0, get(self, c, nr, pages));
	memset(&pub, 0, sizeof(pub));
	pub.nr = nr;
	for (k = 0; k < nr; k++)
		fill_entry(&pub.pages[k], pages[k], 100 * k + 1, nr_keys, 35,
			   NEVER, flags);
	DO(0, kvl_publish(self->l, c, &pub, NULL, self->now));
	for (k = 0; k < nr; k++)
		ASSERT_EQ(KVCACHE_PUBLISHED, pub.pages[k].out_result);
}

/* Looks for @nr keys of such a chain, @hole (a key) replaced by none. */
static int chain_lookup(SELF, struct kvl_client *c, u32 nr, u32 each, u32 tail,
			u32 hole)
{
	u32 k, key;
	int rc;

	memset(&lk, 0xcc, sizeof(lk));
	lk.size = sizeof(lk);
	lk.flags = 0;
	lk.pool = 0;
	lk.nr_keys = nr;
	lk.keys_per_page = each;
	lk.tail = tail;
	memset(lk.out_found, 0, sizeof(lk.out_found));
	for (k = 0; k < nr; k++) {
		key = k / each * 100 + k % each + 1;
		make_key(lk.keys[k], key == hole ? 99999 : key);
	}
	rc = kvl_lookup(self->l, c, &lk, self->now);
	return rc;
}

#define ASSERT_FOUND(pages, keys, text)					\
	do {								\
		u64 found_h[KVCACHE_MAX_KEYS];				\
		u32 found_k;						\
									\
		ASSERT_EQ(pages, lk.out_nr_pages);			\
		ASSERT_EQ(keys, lk.out_nr_keys);			\
		for (found_k = 0; found_k < lk.out_nr_pages; found_k++)	\
			found_h[found_k] = lk.out_found[found_k].handle; \
		ASSERT_STREQ(text, order(found_h, lk.out_nr_pages));	\
		for (; found_k < KVCACHE_MAX_KEYS; found_k++)		\
			ASSERT_EQ(0, lk.out_found[found_k].handle);	\
	} while (0)

TEST_F(ledger, the_longest_whole_prefix)
{
	struct kvl_client *c;
	u64 h[8];

	c = lone_user(self, 8);
	publish_chain(self, c, 3, 4, 0, h);
	DO(0, chain_lookup(self, c, 12, 4, 0, 0));
	ASSERT_FOUND(3, 12, "1 2 3");
	ASSERT_EQ(4, lk.out_found[2].fill);
	ASSERT_EQ(1, lk.out_found[2].domain);
	/* The third page does not have its last two keys asked for. */
	DO(0, chain_lookup(self, c, 10, 4, 0, 0));
	ASSERT_FOUND(3, 10, "1 2 3");
	ASSERT_EQ(2, lk.out_found[2].fill);
	/* A fourth page that nobody published. */
	DO(0, chain_lookup(self, c, 16, 4, 0, 0));
	ASSERT_FOUND(3, 12, "1 2 3");
	/* The last key of the second page is another one: its third is. */
	DO(0, chain_lookup(self, c, 12, 4, 0, 104));
	ASSERT_FOUND(2, 7, "1 2");
	ASSERT_EQ(3, lk.out_found[1].fill);
	/* A key in the middle is not looked at if the last one exists. */
	DO(0, chain_lookup(self, c, 12, 4, 0, 102));
	ASSERT_FOUND(3, 12, "1 2 3");
	DO(0, chain_lookup(self, c, 4, 4, 0, 4));
	ASSERT_FOUND(1, 3, "1");
	DO(0, chain_lookup(self, c, 1, 4, 0, 1));
	ASSERT_FOUND(0, 0, "");
}

TEST_F(ledger, the_longest_prefix_with_a_tail)
{
	struct kvl_client *c;
	u64 h[8];

	c = lone_user(self, 8);
	publish_chain(self, c, 5, 2, 0, h);
	DO(0, chain_lookup(self, c, 10, 2, 2, 0));
	ASSERT_FOUND(2, 10, "4 5");
	/* Page 3 of 5 is missing: tails of 2 end in page 5, of 3 in page 2. */
	DO(0, chain_lookup(self, c, 10, 2, 2, 202));
	ASSERT_FOUND(2, 10, "4 5");
	/* Of 3: the first key of page 3 ends one; its tail is all of it. */
	DO(0, chain_lookup(self, c, 10, 2, 3, 202));
	ASSERT_FOUND(3, 5, "1 2 3");
	/* More than there is: all of them. */
	DO(0, chain_lookup(self, c, 10, 2, 9, 0));
	ASSERT_FOUND(5, 10, "1 2 3 4 5");
	/* The last page in part. */
	DO(0, chain_lookup(self, c, 10, 2, 2, 402));
	ASSERT_FOUND(2, 9, "4 5");
	/* One page of a tail that is not whole is no tail. */
	DO(0, chain_lookup(self, c, 6, 2, 2, 102));
	ASSERT_FOUND(2, 3, "1 2");
	DO(0, chain_lookup(self, c, 2, 2, 1, 0));
	ASSERT_FOUND(1, 2, "1");
}

TEST_F(ledger, a_tail_whose_root_is_gone)
{
	struct kvl_client *c;
	u64 h[8], g[8];

	c = lone_user(self, 5);
	publish_chain(self, c, 5, 2, KVCACHE_PUBLISH_WINDOW, h);
	DO(0, put(self, c, h, 5));
	/* Windowed chains lose their root first. */
	DO(0, get(self, c, 2, g));
	ASSERT_STREQ("2 1", order(g, 2));
	DO(0, chain_lookup(self, c, 10, 2, 0, 0));
	ASSERT_FOUND(0, 0, "");
	DO(0, chain_lookup(self, c, 10, 2, 3, 0));
	ASSERT_FOUND(3, 10, "3 4 5");
	DO(0, chain_lookup(self, c, 10, 2, 4, 0));
	ASSERT_FOUND(0, 0, "");
	/* The tail that was found is held. */
	ASSERT_EQ(0, pool_of(self).nr_cached);
}

TEST_F(ledger, lookup_counts_and_refusals)
{
	struct kvl_client *c;
	u64 h[8];

	c = lone_user(self, 8);
	publish_chain(self, c, 3, 4, 0, h);
	DO(0, chain_lookup(self, c, 16, 4, 0, 0));
	DO(0, chain_lookup(self, c, 12, 4, 1, 0));
	ASSERT_EQ(28, pool_of(self).lookups);
	ASSERT_EQ(12 + 4, pool_of(self).hits);
	ASSERT_EQ(28, info_of(self, 1).lookups);
	ASSERT_EQ(16, info_of(self, 1).hits);
	DO(3, peek(self, c, 1, 3));
	ASSERT_EQ(28, pool_of(self).lookups);
	DO(-EINVAL, chain_lookup(self, c, 0, 4, 0, 0));
	lk.nr_keys = 257;
	DO(-EINVAL, kvl_lookup(self->l, c, &lk, self->now));
	lk.nr_keys = 1;
	lk.keys_per_page = 0;
	DO(-EINVAL, kvl_lookup(self->l, c, &lk, self->now));
	lk.keys_per_page = 17;
	DO(-EINVAL, kvl_lookup(self->l, c, &lk, self->now));
}

TEST_F(ledger, peek_changes_nothing)
{
	struct kvl_client *c;
	u64 h[8], seq;

	c = lone_user(self, 4);
	cache(self, c, 3, 1, h);
	seq = kvl_seq(self->l);
	memset(&lk, 0, sizeof(lk));
	lk.flags = KVCACHE_LOOKUP_PEEK;
	lk.nr_keys = 2;
	lk.keys_per_page = 1;
	make_key(lk.keys[0], 1);
	make_key(lk.keys[1], 2);
	DO(0, kvl_lookup(self->l, c, &lk, self->now));
	ASSERT_EQ(2, lk.out_nr_pages);
	ASSERT_EQ(2, lk.out_idle);
	/* Four pages could be had; two after the match took two out. */
	ASSERT_EQ(2, lk.out_available);
	ASSERT_EQ(seq, kvl_seq(self->l));
	ASSERT_EQ(3, pool_of(self).nr_cached);
	/* The prediction is what happens. */
	DO(2, find(self, c, 1, 2, 0, h));
	ASSERT_EQ(1, missing(self, c, 3, -ENOSPC));
	DO(0, get(self, c, 2, h));
}

TEST_F(ledger, an_equal_page_is_deduplicated)
{
	struct kvl_client *a, *b;
	u64 h[2], g[2], first;

	a = lone_user(self, 4);
	b = add_client(self, 1);
	DO(0, get(self, a, 1, h));
	first = h[0];
	DO(KVCACHE_PUBLISHED, publish(self, a, h, 1));
	ASSERT_EQ(first, h[0]);
	DO(0, get(self, b, 1, g));
	DO(KVCACHE_DEDUPLICATED, publish(self, b, g, 1));
	ASSERT_EQ(first, g[0]);
	ASSERT_EQ(3, pool_of(self).nr_free);
	DO(0, put(self, a, h, 1));
	ASSERT_EQ(KVCACHE_PAGE_SHARED, state_of(self, first));
	DO(0, put(self, b, g, 1));
	/* A CACHED page comes back into use. */
	DO(0, get(self, b, 1, g));
	DO(KVCACHE_DEDUPLICATED, publish(self, b, g, 1));
	ASSERT_EQ(first, g[0]);
	ASSERT_EQ(KVCACHE_PAGE_SHARED, state_of(self, first));
}

TEST_F(ledger, nodedup_keeps_both_and_the_newer_is_found)
{
	struct kvl_client *c;
	u64 h[2], g[4];

	c = lone_user(self, 3);
	DO(0, get(self, c, 2, h));
	DO(KVCACHE_PUBLISHED, publish(self, c, &h[0], 1));
	DO(KVCACHE_PUBLISHED, publish_as(self, c, 0, &h[1], 1, 35, NEVER,
					 KVCACHE_PUBLISH_NODEDUP));
	DO(1, find(self, c, 1, 1, 0, g));
	ASSERT_EQ(h[1], g[0]);
	DO(0, put(self, c, g, 1));
	/* One of two goes; the key stays; then both are gone. */
	DO(0, put(self, c, &h[1], 1));
	DO(0, get(self, c, 2, g));
	ASSERT_EQ(1, peek(self, c, 1, 1));
	DO(1, find(self, c, 1, 1, 0, &g[2]));
	ASSERT_EQ(h[0], g[2]);
	DO(0, put(self, c, &g[2], 1));
	DO(0, put(self, c, h, 1));
	DO(0, get(self, c, 1, &g[2]));
	ASSERT_EQ(0, peek(self, c, 1, 1));
}

/* Whatever a fill counts, it may be as large as its type. */
TEST_F(ledger, a_fill_can_be_any_number)
{
	static struct kvcache_publish p;
	struct kvl_client *c = lone_user(self, 2);
	u64 page;

	DO(0, get(self, c, 1, &page));
	p.nr = 1;
	fill_entry(&p.pages[0], page, 7, 1, 35, NEVER, 0);
	p.pages[0].keys[0].fill = 0xffffffff;
	DO(0, kvl_publish(self->l, c, &p, NULL, self->now));
	ASSERT_EQ(1, peek(self, c, 7, 1));
}

/* Only a page with the highest key and its fill makes one superfluous. */
TEST_F(ledger, a_lower_key_in_common_is_no_duplicate)
{
	struct kvl_client *c;
	u64 h[3];

	c = lone_user(self, 4);
	DO(0, get(self, c, 3, h));
	memset(&pub, 0, sizeof(pub));
	pub.nr = 2;
	fill_entry(&pub.pages[0], h[0], 1, 2, 35, NEVER, 0);
	fill_entry(&pub.pages[1], h[1], 1, 3, 35, NEVER, 0);
	DO(0, kvl_publish(self->l, c, &pub, NULL, self->now));
	ASSERT_EQ(KVCACHE_PUBLISHED, pub.pages[0].out_result);
	ASSERT_EQ(KVCACHE_PUBLISHED, pub.pages[1].out_result);
	/* Its highest key is one of the second page's lower ones. */
	memset(&pub, 0, sizeof(pub));
	pub.nr = 1;
	fill_entry(&pub.pages[0], h[2], 2, 1, 35, NEVER, 0);
	DO(0, kvl_publish(self->l, c, &pub, NULL, self->now));
	ASSERT_EQ(KVCACHE_PUBLISHED, pub.pages[0].out_result);
	ASSERT_EQ(3, pool_of(self).nr_shared);
}

TEST_F(ledger, duplicates_within_one_publish)
{
	struct kvl_client *c;
	u64 h[3];

	c = lone_user(self, 4);
	DO(0, get(self, c, 3, h));
	memset(&pub, 0, sizeof(pub));
	pub.nr = 3;
	fill_entry(&pub.pages[0], h[0], 1, 2, 35, NEVER, 0);
	fill_entry(&pub.pages[1], h[1], 1, 2, 35, NEVER, 0);
	fill_entry(&pub.pages[2], h[2], 1, 2, 35, NEVER,
		   KVCACHE_PUBLISH_NODEDUP);
	DO(0, kvl_publish(self->l, c, &pub, NULL, self->now));
	ASSERT_EQ(KVCACHE_PUBLISHED, pub.pages[0].out_result);
	ASSERT_EQ(KVCACHE_DEDUPLICATED, pub.pages[1].out_result);
	ASSERT_EQ(h[0], pub.pages[1].out_handle);
	ASSERT_EQ(KVCACHE_PUBLISHED, pub.pages[2].out_result);
	ASSERT_EQ(2, pool_of(self).nr_shared);
	/* Two references came of it. */
	DO(0, put(self, c, h, 1));
	ASSERT_EQ(KVCACHE_PAGE_SHARED, state_of(self, h[0]));
	DO(0, put(self, c, h, 1));
	ASSERT_EQ(KVCACHE_PAGE_CACHED, state_of(self, h[0]));
}

TEST_F(ledger, publish_refuses)
{
	struct kvl_client *c;
	struct kvcache_publish_page *e = &pub.pages[0];
	u64 h[3], shared;

	c = lone_user(self, 4);
	DO(0, get(self, c, 3, h));
	memset(&pub, 0, sizeof(pub));
	DO(-EINVAL, kvl_publish(self->l, c, &pub, NULL, self->now));
	pub.nr = 17;
	DO(-EINVAL, kvl_publish(self->l, c, &pub, NULL, self->now));
	pub.nr = 1;
	fill_entry(e, h[0], 1, 3, 35, NEVER, 0);
	e->nr_keys = 0;
	DO(-EINVAL, kvl_publish(self->l, c, &pub, NULL, self->now));
	e->nr_keys = 17;
	DO(-EINVAL, kvl_publish(self->l, c, &pub, NULL, self->now));
	e->nr_keys = 3;
	e->priority = 101;
	DO(-EINVAL, kvl_publish(self->l, c, &pub, NULL, self->now));
	e->priority = 35;
	e->keys[0].fill = 0;
	DO(-EINVAL, kvl_publish(self->l, c, &pub, NULL, self->now));
	e->keys[0].fill = 2;
	DO(-EINVAL, kvl_publish(self->l, c, &pub, NULL, self->now));
	e->keys[0].fill = 1;
	make_key(e->keys[2].key, 1);
	DO(-EINVAL, kvl_publish(self->l, c, &pub, NULL, self->now));
	make_key(e->keys[2].key, 3);
	pub.domain = 9;
	DO(-ENOENT, kvl_publish(self->l, c, &pub, NULL, self->now));
	pub.domain = 0;
	/* One bad page in three, and nothing happened to the others. */
	pub.nr = 3;
	fill_entry(&pub.pages[1], h[1], 11, 3, 35, NEVER, 0);
	fill_entry(&pub.pages[2], h[1], 21, 3, 35, NEVER, 0);
	DO(-EINVAL, kvl_publish(self->l, c, &pub, NULL, self->now));
	pub.pages[2].handle = h[2] + (1ULL << 32);
	DO(-ESTALE, kvl_publish(self->l, c, &pub, NULL, self->now));
	ASSERT_EQ(3, pool_of(self).nr_private);
	ASSERT_EQ(0, peek(self, c, 3, 1));
	DO(0, advise(self, c, &h[2], 1, KVCACHE_ADVISE_VOLATILE, 0, 0, NULL));
	pub.pages[2].handle = h[2];
	DO(-EBUSY, kvl_publish(self->l, c, &pub, NULL, self->now));
	DO(0, advise(self, c, &h[2], 1, KVCACHE_ADVISE_NONVOLATILE, 0, 0,
		     NULL));
	DO(0, kvl_publish(self->l, c, &pub, NULL, self->now));
	/* A page that is SHARED already. */
	shared = h[0];
	DO(-EINVAL, publish(self, c, &shared, 40));
}

TEST_F(ledger, nodes_run_out_without_effect)
{
	struct kvl_client *a, *b;
	struct kvl_nodes *n;
	u64 h[64], g[2];
	u32 k;

	a = lone_user(self, 64);
	b = add_client(self, 1);
	DO(0, get(self, a, 64, h));
	for (k = 0; k < 64; k++) {
		memset(&pub, 0, sizeof(pub));
		pub.nr = 1;
		fill_entry(&pub.pages[0], h[k], 100 * k + 1, 16, 35, NEVER, 0);
		if (kvl_publish(self->l, a, &pub, NULL, self->now))
			break;
		VERIFY();
	}
	ASSERT_LT(k, 64);
	DO(-EAGAIN, kvl_publish(self->l, a, &pub, NULL, self->now));
	ASSERT_EQ(k, pool_of(self).nr_shared);
	/* Use up the rest, one by one. */
	while (publish(self, a, &h[k], 100 * k + 50) > 0)
		k++;
	DO(-EAGAIN, find(self, b, 16, 1, 0, g));
	DO(-EAGAIN, advise(self, a, &h[k], 1, KVCACHE_ADVISE_VOLATILE, 0, 0,
			   NULL));
	ASSERT_EQ(1, peek(self, b, 16, 1));
	/* A hold that needs no node needs none. */
	DO(1, find(self, a, 16, 1, 0, g));
	n = kvl_nodes_alloc(1);
	kvl_nodes_add(self->l, n);
	DO(1, find(self, b, 16, 1, 0, g));
	DO(0, advise(self, a, &h[k], 1, KVCACHE_ADVISE_VOLATILE, 0, 0, NULL));
}

/* A pinned page can be published as a copy, which the owner makes. */
TEST_F(ledger, copies_of_pinned_pages)
{
	struct kvl_client *c;
	u64 h[4], copies[1];

	c = lone_user(self, 4);
	DO(0, get(self, c, 3, h));
	DO(0, kvl_pin(self->l, c, 0, h[0]));
	memset(&pub, 0, sizeof(pub));
	pub.nr = 1;
	fill_entry(&pub.pages[0], h[0], 1, 1, 35, NEVER, 0);
	copies[0] = h[1];
	DO(-EBUSY, kvl_publish(self->l, c, &pub, copies, self->now));
	pub.pages[0].flags = KVCACHE_PUBLISH_COPY;
	DO(-EBUSY, kvl_publish(self->l, c, &pub, NULL, self->now));
	copies[0] = h[0];
	DO(-EINVAL, kvl_publish(self->l, c, &pub, copies, self->now));
	copies[0] = h[1] + (1ULL << 32);
	DO(-ESTALE, kvl_publish(self->l, c, &pub, copies, self->now));
	copies[0] = h[1];
	DO(0, kvl_publish(self->l, c, &pub, copies, self->now));
	ASSERT_EQ(KVCACHE_COPIED, pub.pages[0].out_result);
	ASSERT_EQ(h[1], pub.pages[0].out_handle);
	ASSERT_EQ(KVCACHE_PAGE_RETIRING, state_of(self, h[0]));
	/* Not pinned: the copy is left alone. */
	copies[0] = 0;
	fill_entry(&pub.pages[0], h[2], 2, 1, 35, NEVER, KVCACHE_PUBLISH_COPY);
	DO(0, kvl_publish(self->l, c, &pub, copies, self->now));
	ASSERT_EQ(KVCACHE_PUBLISHED, pub.pages[0].out_result);
	kvl_unpin(self->l, 0, kvl_index(h[0]), self->now);
	VERIFY();
}

/* ---- what vLLM's tests stand for ---------------------------------------- */

/* A cold prompt, a second one that shares its beginning, and what is taken. */
TEST_F(ledger, cold_warm_recycled)
{
	struct kvl_client *c;
	u64 one[4], two[5], three[4], all[8], g[4];

	c = lone_user(self, 10);
	/* Three full pages and a partly filled one. */
	publish_chain(self, c, 3, 1, 0, one);
	DO(0, get(self, c, 1, &one[3]));
	DO(1, find(self, c, 1, 1, 0, two));
	DO(0, put(self, c, two, 1));
	/* The second prompt shares them and has an own last one. */
	DO(0, chain_lookup(self, c, 3, 1, 0, 0));
	ASSERT_FOUND(3, 3, "1 2 3");
	DO(0, get(self, c, 1, &two[3]));
	ASSERT_EQ(5, kvl_index(two[3]));
	ASSERT_EQ(5, pool_of(self).nr_free);
	/* Both end: what was not published is FREE, the rest CACHED. */
	memcpy(two, one, 3 * sizeof(u64));
	DO(0, put(self, c, one, 4));
	DO(0, put(self, c, two, 4));
	ASSERT_EQ(7, pool_of(self).nr_free);
	ASSERT_EQ(3, pool_of(self).nr_cached);
	/* A third one finds the prefix again, and needs one page. */
	DO(0, chain_lookup(self, c, 3, 1, 0, 0));
	ASSERT_FOUND(3, 3, "1 2 3");
	DO(0, get(self, c, 1, three));
	ASSERT_EQ(6, pool_of(self).nr_free);
	DO(0, put(self, c, one, 3));
	DO(0, put(self, c, three, 1));
	/* A miss as large as the pool: free pages first, then leaf to root. */
	DO(0, get(self, c, 7, all));
	ASSERT_EQ(3, pool_of(self).nr_cached);
	DO(0, get(self, c, 1, g));
	DO(0, get(self, c, 1, &g[1]));
	DO(0, get(self, c, 1, &g[2]));
	ASSERT_STREQ("3 2 1", order(g, 3));
	ASSERT_EQ(1, missing(self, c, 1, -ENOSPC));
}

/* A page just found is not what makes room. */
TEST_F(ledger, a_hit_beats_eviction)
{
	struct kvl_client *c;
	u64 h[3], g[2];

	c = lone_user(self, 3);
	publish_chain(self, c, 3, 1, 0, h);
	DO(0, put(self, c, h, 3));
	/* The leaf is the oldest; it is held now. */
	make_key(lk.keys[0], 201);
	memset(&lk.out_found, 0, sizeof(lk.out_found));
	lk.flags = 0;
	lk.pool = 0;
	lk.nr_keys = 1;
	lk.keys_per_page = 1;
	lk.tail = 0;
	DO(0, kvl_lookup(self->l, c, &lk, self->now));
	ASSERT_FOUND(1, 1, "3");
	DO(0, get(self, c, 1, g));
	ASSERT_EQ(2, kvl_index(g[0]));
}

TEST_HARNESS_MAIN
