// SPDX-License-Identifier: MIT
/*
 * key.c - what a prefix is called: a chain of SHA-256 digests.
 *
 * key(prefix) = H(key(prefix without its last block), tokens of that block).
 * The chain starts at a digest of the layout's fingerprint, the salt and the
 * conversation's extra bytes. Whatever has no fixed length is preceded by its
 * length, so that no two lists of arguments are the same bytes.
 */
#include <endian.h>
#include <string.h>
#include <nettle/sha2.h>

#include "internal.h"

static void put_u32(struct sha256_ctx *h, uint32_t v)
{
	v = htole32(v);
	sha256_update(h, sizeof(v), (const uint8_t *)&v);
}

static void put_tokens(struct sha256_ctx *h, const uint32_t *tokens, uint32_t n)
{
	put_u32(h, n);
#if __BYTE_ORDER == __LITTLE_ENDIAN
	sha256_update(h, n * sizeof(*tokens), (const uint8_t *)tokens);
#else
	for (uint32_t i = 0; i < n; i++)
		put_u32(h, tokens[i]);
#endif
}

/* Each kind of digest begins with its own byte. */
static void begin(struct sha256_ctx *h, uint8_t kind)
{
	sha256_init(h);
	sha256_update(h, 1, &kind);
}

void kvc_key_root(uint8_t out[KVCACHE_KEY_LEN], const struct kvc_lgroup *g,
		  const uint8_t salt[32], const void *extra, size_t extra_len)
{
	struct sha256_ctx h;

	begin(&h, 'r');
	sha256_update(&h, sizeof(g->fingerprint), g->fingerprint);
	sha256_update(&h, 32, salt);
	put_u32(&h, extra_len);
	put_u32(&h, (uint64_t)extra_len >> 32);
	if (extra_len)
		sha256_update(&h, extra_len, extra);
	sha256_digest(&h, KVCACHE_KEY_LEN, out);
}

void kvc_key_extra(uint8_t out[KVCACHE_KEY_LEN], const void *extra,
		   size_t extra_len)
{
	struct sha256_ctx h;

	memset(out, 0, KVCACHE_KEY_LEN);
	if (!extra_len)
		return;
	begin(&h, 'x');
	sha256_update(&h, extra_len, extra);
	sha256_digest(&h, KVCACHE_KEY_LEN, out);
}

void kvc_key_ends(const struct kvc_lgroup *g,
		  const uint8_t root[KVCACHE_KEY_LEN], const uint32_t *tokens,
		  uint8_t (*ends)[KVCACHE_KEY_LEN], uint32_t from, uint32_t to)
{
	struct kvcache_key keys[KVCACHE_MAX_PAGE_KEYS];
	size_t P = g->page_tokens;
	uint32_t i, k;

	for (i = from; i < to; i++) {
		k = kvc_key_page(g, i ? ends[i - 1] : root, tokens + i * P, P,
				 keys);
		memcpy(ends[i], keys[k - 1].key, KVCACHE_KEY_LEN);
	}
}

uint32_t kvc_key_page(const struct kvc_lgroup *g,
		      const uint8_t parent[KVCACHE_KEY_LEN],
		      const uint32_t *tokens, uint32_t fill,
		      struct kvcache_key *keys)
{
	uint32_t n = 0, at, len;
	struct sha256_ctx h;

	for (at = 0; at < fill; at += len) {
		len = KVC_MIN(g->block_tokens, fill - at);
		begin(&h, 'b');
		sha256_update(&h, KVCACHE_KEY_LEN, parent);
		put_tokens(&h, tokens + at, len);
		sha256_digest(&h, KVCACHE_KEY_LEN, keys[n].key);
		keys[n].fill = at + len;
		keys[n].__reserved = 0;
		parent = keys[n++].key;
	}
	return n;
}
