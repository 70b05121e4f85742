// SPDX-License-Identifier: MIT
/*
 * test_key.c - what a prefix is called.
 */
#include "harness.h"
#include "internal.h"

static void hex(const uint8_t *key, char *out)
{
	for (int i = 0; i < KVCACHE_KEY_LEN; i++)
		sprintf(out + 2 * i, "%02x", key[i]);
}

#define EXPECT_KEY(want, key)						\
	do {								\
		char is[65];						\
									\
		hex(key, is);						\
		EXPECT_STREQ(want, is);					\
	} while (0)
#define SAME(a, b) (memcmp(a, b, KVCACHE_KEY_LEN) == 0)

static struct kvc_lgroup group(uint32_t page_tokens, uint32_t block_tokens)
{
	struct kvc_lgroup g = {
		.page_tokens = page_tokens,
		.block_tokens = block_tokens,
	};

	for (int i = 0; i < 32; i++)
		g.fingerprint[i] = i;
	return g;
}

/* Computed with another SHA-256, from the description in key.c. */
TEST(known_answers)
{
	struct kvcache_key keys[KVCACHE_MAX_PAGE_KEYS];
	struct kvc_lgroup g = group(40, 16);
	uint8_t salt[32], root[32];
	uint32_t tokens[40];

	memset(salt, 0xaa, sizeof(salt));
	for (int i = 0; i < 40; i++)
		tokens[i] = 100 + i;
	kvc_key_root(root, &g, salt, "lora:7", 6);
	EXPECT_KEY("b23e4e41ffa32eb7e29b6d5699bfbf21c9fee487a00d67f8c39eb319fdb41c5f", root);
	ASSERT_EQ(3, kvc_key_page(&g, root, tokens, 37, keys));
	EXPECT_KEY("e5a63108712346c559f624978a44037a65f372d113ec3b43c00a3e4dffdb1e36", keys[0].key);
	EXPECT_KEY("188448f2d8b66fcce7f645c33fab7c2389eb9a9f6baf8f1161c4baeee98e1e16", keys[1].key);
	EXPECT_KEY("c16243189474730697f98c1b0103a6f5de4d6ef6f384ceb62cac256c13c3a40c", keys[2].key);
	EXPECT_EQ(16, keys[0].fill);
	EXPECT_EQ(32, keys[1].fill);
	EXPECT_EQ(37, keys[2].fill);
}

TEST(roots_do_not_alias)
{
	struct kvc_lgroup g = group(16, 16), other = group(16, 16);
	static const uint8_t none[32];
	uint8_t a[32], b[32], salt[32] = "a";

	/* ("bc", "a") and ("c", "ab") are the same bytes when joined. */
	kvc_key_root(a, &g, salt, "bc", 2);
	salt[1] = 'b';
	kvc_key_root(b, &g, salt, "c", 1);
	EXPECT_FALSE(SAME(a, b));
	kvc_key_root(a, &g, none, NULL, 0);
	kvc_key_root(b, &g, none, "", 0);
	EXPECT_TRUE(SAME(a, b));
	kvc_key_root(b, &g, none, "\0", 1);
	EXPECT_FALSE(SAME(a, b));
	kvc_key_root(a, &g, none, "\0\0", 2);
	EXPECT_FALSE(SAME(a, b));
	other.fingerprint[0] ^= 1;
	kvc_key_root(a, &g, none, NULL, 0);
	kvc_key_root(b, &other, none, NULL, 0);
	EXPECT_FALSE(SAME(a, b));
}

TEST(the_chain_carries_all_before)
{
	struct kvcache_key a[KVCACHE_MAX_PAGE_KEYS], b[KVCACHE_MAX_PAGE_KEYS];
	struct kvc_lgroup g = group(64, 16);
	uint32_t tokens[64] = { 0 };
	uint8_t root[32] = { 1 };

	/* Equal blocks at different depth, and everything after a change. */
	ASSERT_EQ(4, kvc_key_page(&g, root, tokens, 64, a));
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < i; j++)
			EXPECT_FALSE(SAME(a[i].key, a[j].key));
	tokens[20] = 1;
	kvc_key_page(&g, root, tokens, 64, b);
	EXPECT_TRUE(SAME(a[0].key, b[0].key));
	for (int i = 1; i < 4; i++)
		EXPECT_FALSE(SAME(a[i].key, b[i].key));
	/* A page after another has the keys of one chain. */
	ASSERT_EQ(2, kvc_key_page(&g, b[1].key, tokens + 32, 32, a));
	EXPECT_TRUE(SAME(a[0].key, b[2].key));
	EXPECT_TRUE(SAME(a[1].key, b[3].key));
}

TEST(a_rest_is_not_a_block)
{
	struct kvcache_key a[KVCACHE_MAX_PAGE_KEYS], b[KVCACHE_MAX_PAGE_KEYS];
	struct kvc_lgroup g = group(256, 16);
	uint32_t tokens[256] = { 0 };
	uint8_t root[32] = { 0 };
	uint32_t n;

	for (uint32_t fill = 1; fill <= 256; fill++) {
		n = kvc_key_page(&g, root, tokens, fill, a);
		ASSERT_EQ((fill + 15) / 16, n);
		ASSERT_LE(n, KVCACHE_MAX_PAGE_KEYS);
		ASSERT_EQ(fill, a[n - 1].fill);
		for (uint32_t i = 0; i + 1 < n; i++)
			ASSERT_LT(a[i].fill, a[i + 1].fill);
		if (fill > 1)
			ASSERT_FALSE(SAME(a[n - 1].key, b[0].key));
		b[0] = a[n - 1];
	}
}

TEST_HARNESS_MAIN
