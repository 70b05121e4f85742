// SPDX-License-Identifier: MIT
/*
 * test_commons.c - what is common to many is published into a tenant of its
 * own, under keys of its own, and found together with the rest.
 */
#include "kit.h"

#define NT 40

FIXTURE(commons)
{
	struct kit k;
	uint32_t id;
	uint32_t t[NT];
};

/* Exchange the cache for one with these salts; 0 for none. */
static void reopen(struct kit *k, uint32_t id, uint8_t own, uint8_t common)
{
	struct kvc_cache_opts o = {
		.sz = sizeof(o), .threads = 1, .commons = id,
	};

	o.salt[0] = own;
	o.commons_salt[31] = common;
	kvc_batch_destroy(k->b);
	kvc_cache_destroy(k->c);
	ASSERT_EQ(0, kvc_cache_create(k->ctx, &k->m, &o, &k->c));
	ASSERT_EQ(0, kvc_batch_create(k->c, &k->b));
}

FIXTURE_SETUP(commons)
{
	const struct kit_spec spec = { .pages = 24 };

	kit_open(&self->k, &spec);
	self->id = kit_commons(&self->k, KVCACHE_LIMIT_MAX);
	reopen(&self->k, self->id, 1, 2);
	kit_count(self->t, NT, 100);
}

FIXTURE_TEARDOWN(commons)
{
	kit_end(&self->k);
}

static struct kvc_seq *seq_of(struct kit *k, uint32_t common)
{
	const struct kvc_seq_opts o = { .sz = sizeof(o), .common = common };
	struct kvc_seq *s = NULL;

	ASSERT_EQ(0, kvc_seq_create(k->c, &o, &s));
	return s;
}

/* A prompt from its cached part on; returns what was cached. */
static uint32_t run(struct kit *k, const uint32_t *t, uint32_t n,
		    uint32_t common)
{
	struct kvc_seq *s = seq_of(k, common);
	uint32_t reused = kit_prompt(k, s, t, n);

	kit_check(k, s);
	kvc_seq_free(s, 0);
	return reused;
}

static struct kvcache_tenant_info tenant(struct kit *k, uint32_t id)
{
	struct kvcache_tenant_get t = { .start = id };

	ASSERT_EQ(0, kvc_call(k->ctx, KVCACHE_NR_TENANT_GET, &t));
	ASSERT_GT(t.out_nr, 0);
	ASSERT_EQ(id, t.out_info[0].id);
	return t.out_info[0];
}

static void grant(struct kit *k, uint32_t id, uint32_t rights, uint64_t held)
{
	struct kvcache_tenant_grant g = {
		.tenant = id, .to = k->ctx->tenant, .rights = rights,
		.max_held = held,
	};

	ASSERT_EQ(0, kvc_call(k->ctx, KVCACHE_NR_TENANT_GRANT, &g));
}

/* Pages that are common as a whole: the third is not. */
TEST_F(commons, full_pages_of_what_is_common)
{
	struct kvc_stats st;

	EXPECT_EQ(0, run(&self->k, self->t, 18, 11));
	EXPECT_EQ(2, tenant(&self->k, self->id).cur);
	EXPECT_EQ(3, tenant(&self->k, self->k.ctx->tenant).cur);
	kvc_cache_stats(self->k.c, &st);
	EXPECT_EQ(2, st.pages_common);
	EXPECT_EQ(5, st.pages_published);
	/* It is all found, in whichever of the two. */
	EXPECT_EQ(17, run(&self->k, self->t, 18, 11));
	EXPECT_EQ(2, tenant(&self->k, self->id).cur);
}

/* Who has the salt of a domain finds its pages, and others none. */
TEST_F(commons, keys_of_domains_differ)
{
	EXPECT_NE(0, memcmp(self->k.c->root, self->k.c->common_root,
			    KVCACHE_KEY_LEN));
	EXPECT_EQ(0, run(&self->k, self->t, 18, 8));
	/* Another tenant's conversation: the system prompt's pages. */
	reopen(&self->k, self->id, 9, 2);
	EXPECT_EQ(8, run(&self->k, self->t, 18, 8));
	/* Published once more there. */
	EXPECT_EQ(17, run(&self->k, self->t, 18, 8));
	/* The first pages are only where it does not look. */
	reopen(&self->k, self->id, 1, 7);
	EXPECT_EQ(0, run(&self->k, self->t, 18, 0));
	reopen(&self->k, 0, 2, 0);
	EXPECT_EQ(0, run(&self->k, self->t, 18, 0));
}

/* Without salts they are the same keys. */
TEST_F(commons, what_the_own_domain_has_is_taken_there)
{
	reopen(&self->k, self->id, 0, 0);
	EXPECT_EQ(0, run(&self->k, self->t, 18, 0));
	EXPECT_EQ(17, run(&self->k, self->t, 18, 8));
	EXPECT_EQ(0, tenant(&self->k, self->id).cur);
}

/* Its own pages may follow, and be followed by, those of the commons. */
TEST_F(commons, in_turns)
{
	EXPECT_EQ(0, run(&self->k, self->t, 8, 8));
	EXPECT_EQ(8, run(&self->k, self->t, 16, 0));
	EXPECT_EQ(16, run(&self->k, self->t, 24, 24));
	EXPECT_EQ(4, tenant(&self->k, self->id).cur);
	reopen(&self->k, self->id, 1, 2);
	EXPECT_EQ(24, run(&self->k, self->t, 25, 0));
}

TEST_F(commons, which_does_not_let_us_in)
{
	grant(&self->k, self->id, KVCACHE_GRANT_LOOKUP, KVCACHE_LIMIT_MAX);
	EXPECT_EQ(0, run(&self->k, self->t, 18, 8));
	EXPECT_EQ(0, tenant(&self->k, self->id).cur);
	EXPECT_EQ(17, run(&self->k, self->t, 18, 8));
	grant(&self->k, self->id, KVCACHE_GRANT_LOOKUP | KVCACHE_GRANT_PUBLISH,
	      1);
	/* One page at a time is let in. */
	kit_count(self->t, NT, 500);
	EXPECT_EQ(0, run(&self->k, self->t, 18, 8));
	EXPECT_EQ(17, run(&self->k, self->t, 18, 8));
	EXPECT_LE(tenant(&self->k, self->id).cur, 1);
}

TEST_F(commons, idle_pages_of_both_are_found_again)
{
	struct kvc_seq *s = seq_of(&self->k, 11);

	kit_prompt(&self->k, s, self->t, 30);
	EXPECT_EQ(0, kvc_seq_idle(s));
	EXPECT_EQ(7, kit_pool(&self->k).nr_cached);
	EXPECT_EQ(30, kvc_seq_wake(s));
	kit_check(&self->k, s);
	EXPECT_EQ(0, kvc_seq_idle(s));
	grant(&self->k, self->id, 0, 0);
	EXPECT_EQ(0, kvc_seq_wake(s));
	kvc_seq_free(s, 0);
}

TEST_F(commons, is_foreseen)
{
	struct kvc_room room;

	run(&self->k, self->t, 18, 11);
	ASSERT_EQ(0, kvc_predict(self->k.c, NULL, self->t, 30, 0, &room));
	EXPECT_EQ(18, room.reused_tokens);
	EXPECT_EQ(5, room.idle_pages);
	EXPECT_EQ(4, room.new_pages);
	EXPECT_EQ(18, run(&self->k, self->t, 30, 11));
}

TEST_F(commons, must_exist)
{
	struct kvc_cache_opts o = {
		.sz = sizeof(o), .threads = 1, .commons = 999,
	};
	struct kvc_cache *c;

	EXPECT_EQ(-ENOENT, kvc_cache_create(self->k.ctx, &self->k.m, &o, &c));
	EXPECT_TRUE(strstr(kvc_errmsg(self->k.ctx),
			   "commons: there is no tenant 999") != NULL);
}

TEST_HARNESS_MAIN
