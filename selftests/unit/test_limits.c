// SPDX-License-Identifier: MIT
/*
 * test_limits.c - the documented maxima, and what is past them.
 */
#include "kit.h"

#define HEADS_MAX	4096
#define TOKENS_MAX	(UINT32_MAX & ~7U)	/* in a page, by its type */

static int footprint(uint32_t nlayers, uint32_t ngroups, uint32_t heads,
		     uint32_t dim, uint32_t page_tokens, uint64_t page_size,
		     struct kvc_footprint *f)
{
	struct kvc_group g[KVC_MAX_GROUPS];
	uint8_t layer_group[KVC_MAX_LAYERS];
	const struct kvc_model m = {
		.sz = sizeof(m), .nlayers = nlayers, .ngroups = ngroups,
		.groups = g, .layer_group = layer_group, .q_heads = heads,
		.page_tokens = page_tokens,
	};
	uint32_t i;

	for (i = 0; i < KVC_MAX_GROUPS; i++)
		g[i] = (struct kvc_group) { .kv_heads = heads, .k_dim = dim,
					    .v_dim = dim };
	for (i = 0; i < KVC_MAX_LAYERS; i++)
		layer_group[i] = i % ngroups;
	return kvc_footprint(&m, page_size, 100, 1, f);
}

/* A layout that does not fit is refused however large its numbers are. */
TEST(layouts_past_64_bits)
{
	const uint64_t page = KVCACHE_PAGE_SIZE_MAX;
	struct kvc_footprint f;
	uint32_t shift, layers;

	/* With 2^29 tokens this one is 2^64 bytes, which looks like none. */
	EXPECT_EQ(-E2BIG, footprint(1024, 1, HEADS_MAX, KVA_DIM_MAX, 1U << 29,
				    page, &f));
	for (layers = 1; layers <= KVC_MAX_LAYERS; layers *= 2)
		for (shift = 3; shift < 32; shift++)
			ASSERT_EQ(-E2BIG, footprint(layers, 1, HEADS_MAX,
						    KVA_DIM_MAX, 1U << shift,
						    page, &f));
	EXPECT_EQ(-E2BIG, footprint(KVC_MAX_LAYERS, 1, HEADS_MAX, KVA_DIM_MAX,
				    TOKENS_MAX, page, &f));
	EXPECT_EQ(-E2BIG, footprint(KVC_MAX_LAYERS, KVC_MAX_GROUPS, HEADS_MAX,
				    KVA_DIM_MAX, 0, page, &f));
	EXPECT_EQ(-E2BIG, footprint(1, 1, 1, 16, TOKENS_MAX, page, &f));
}

TEST(largest_layouts)
{
	const uint64_t page = KVCACHE_PAGE_SIZE_MAX;
	struct kvc_footprint f;

	/* 4,096 heads x 2 x 1,024 x 4 bytes. */
	ASSERT_EQ(0, footprint(1, 1, HEADS_MAX, KVA_DIM_MAX, 1, page, &f));
	EXPECT_EQ(1 << 25, f.bytes_per_token);
	EXPECT_EQ(100, f.pages);
	EXPECT_EQ(100 * page, f.held_bytes);
	/* 1,024 layers x 2 x 16 x 4 bytes: 131,072 a token. */
	ASSERT_EQ(0, footprint(KVC_MAX_LAYERS, 1, 1, 16, 0, page, &f));
	EXPECT_EQ(512, f.page_tokens);
	EXPECT_EQ(131072, f.bytes_per_token);
	/* All groups: 128 layers each. */
	ASSERT_EQ(0, footprint(KVC_MAX_LAYERS, KVC_MAX_GROUPS, 1, 16, 0, page,
			       &f));
	EXPECT_EQ(4096, f.page_tokens);
	EXPECT_EQ(131072, f.bytes_per_token);
	EXPECT_EQ(KVC_MAX_GROUPS, f.pages);
	/* The most tokens that a page can have: 128 bytes each. */
	ASSERT_EQ(0, footprint(1, 1, 1, 16, 0, page, &f));
	EXPECT_EQ(page / 128, f.page_tokens);
	EXPECT_EQ(-EINVAL, footprint(KVC_MAX_LAYERS + 1, 1, 1, 16, 0, page,
				     &f));
	EXPECT_EQ(-EINVAL, footprint(1, 1, HEADS_MAX + 1, 16, 0, page, &f));
	EXPECT_EQ(-EINVAL, footprint(1, 1, 1, KVA_DIM_MAX + 16, 0, page, &f));
	EXPECT_EQ(-EINVAL, footprint(1, 1, 1, 16, 0, 2 * page, &f));
}

FIXTURE(limits) {
	struct kit k;
	uint32_t t[16];
};

FIXTURE_SETUP(limits)
{
	kit_open(&self->k, &(struct kit_spec) { .pages = 32 });
	kit_count(self->t, 16, 1000);
}

FIXTURE_TEARDOWN(limits)
{
	EXPECT_EQ(0, kit_used(&self->k));
	kit_close(&self->k);
}

/* Positions have 32 bits. No token is looked at before that is known. */
TEST_F(limits, sequence_of_two_to_the_32_tokens)
{
	struct kvc_seq *s = kit_seq(&self->k, NULL);
	struct kvc_item item = { s, self->t, UINT32_MAX };

	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 4));
	EXPECT_EQ(-E2BIG, kvc_seq_reserve(s, UINT32_MAX, 0));
	EXPECT_TRUE(strstr(kvc_errmsg(self->k.ctx), "2^32 - 1 tokens"));
	EXPECT_EQ(-E2BIG, kvc_seq_reserve(s, UINT32_MAX - 3, 0));
	EXPECT_TRUE(strstr(kvc_errmsg(self->k.ctx), "2^32 - 1 tokens"));
	/* One less is as long as can be, and refused for want of pages. */
	EXPECT_EQ(-E2BIG, kvc_seq_reserve(s, UINT32_MAX - 4, 0));
	EXPECT_TRUE(strstr(kvc_errmsg(self->k.ctx), "pages missing"));
	EXPECT_EQ(-E2BIG, kvc_batch_plan(self->k.b, &item, 1));
	EXPECT_TRUE(strstr(kvc_errmsg(self->k.ctx), "2^32 - 1 tokens"));
	EXPECT_EQ(1, kvc_seq_pages(s));
	kit_check(&self->k, s);
	kvc_seq_free(s, 0);
}

/* Bits that are not known change nothing: the sequence is gone, published. */
TEST_F(limits, unknown_flags_of_free)
{
	struct kvc_seq *s = kit_seq(&self->k, NULL);

	ASSERT_EQ(0, kit_add(&self->k, s, self->t, 6));
	kvc_seq_free(s, ~KVC_SEQ_DISCARD);
	EXPECT_EQ(2, kit_pool(&self->k).nr_cached);
	s = kit_seq(&self->k, NULL);
	ASSERT_EQ(0, kit_add(&self->k, s, self->t + 8, 6));
	kvc_seq_free(s, ~0U);
	EXPECT_EQ(3, kit_pool(&self->k).nr_cached);
}

/* A domain that is there, and lets nobody in: told, and the tokens count. */
TEST_F(limits, commit_into_a_domain_without_a_grant)
{
	struct kvcache_tenant_set t = { .name = "closed" };
	struct kvc_item item = { NULL, self->t, 6 };
	struct kit twin;

	ASSERT_EQ(0, kvc_call(self->k.ctx, KVCACHE_NR_TENANT_CREATE, &t));
	self->k.c->o.domain = t.out_tenant;
	kit_twin(&self->k, &twin);
	item.seq = kit_seq(&twin, NULL);
	ASSERT_EQ(0, kvc_batch_plan(twin.b, &item, 1));
	kit_append(&twin, &item, 1, NULL);
	EXPECT_EQ(-EPERM, kvc_batch_commit(twin.b));
	EXPECT_EQ(6, kvc_seq_len(item.seq));
	EXPECT_EQ(2, kit_pool(&twin).nr_private);
	kit_check(&twin, item.seq);
	/* The batch is over, and the conversation goes on. */
	item.tokens = self->t + 6;
	item.n = 1;
	ASSERT_EQ(0, kvc_batch_plan(twin.b, &item, 1));
	kit_append(&twin, &item, 1, NULL);
	EXPECT_EQ(0, kvc_batch_commit(twin.b));
	EXPECT_EQ(7, kvc_seq_len(item.seq));
	kit_check(&twin, item.seq);
	kvc_seq_free(item.seq, 0);
	EXPECT_EQ(0, kit_pool(&twin).nr_cached);
	kit_twin_close(&twin);
}

TEST_HARNESS_MAIN
