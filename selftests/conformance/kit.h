/* SPDX-License-Identifier: MIT */
/*
 * kit.h - behaviours of other systems, on the backend that is under test.
 *
 *	CASE(name) { kit_open(&k, SPEC(16, 10)); ... }
 *
 * is one test, named after the backend: unit/device.h says which. A block of
 * another system is a page here; its number is the index in the page's handle,
 * and its tokens are kit_spec.page_tokens.
 */
#ifndef CONFORMANCE_KIT_H
#define CONFORMANCE_KIT_H

#include "unit/kit.h"

/* Those that keep pages, and whether it is the one: a line each. */
#define BACKENDS(X, n)			\
	X(n, local, !device_path())	\
	X(n, device, device_path() && !device_is_broker()) \
	X(n, broker, device_is_broker())

#define CASE_ON(n, backend, here)					\
	__attribute__((constructor)) static void ht_##backend##_##n(void) \
	{								\
		static struct ht_test t = {				\
			.name = #backend "." #n, .fn = case_##n,	\
			.timeout = HT_TIMEOUT,				\
		};							\
									\
		if (here)						\
			ht_add(&t);					\
	}
#define CASE(n)								\
	static void case_##n(void);					\
	BACKENDS(CASE_ON, n)						\
	static void case_##n(void)

/* SPEC(tokens, pages, ...): what a case opens. */
#define SPEC(P, nr, ...)						\
	(&(struct kit_spec) { .page_tokens = P, .pages = nr, __VA_ARGS__ })

#define NR(a)	(sizeof(a) / sizeof((a)[0]))

/* The numbers of a sequence's pages, zeros after the last of them. */
static inline void kit_blocks(const struct kvc_seq *s, uint64_t *out,
			      uint32_t n)
{
	memset(out, 0, n * sizeof(*out));
	ASSERT_LE(kvc_seq_handles(s, 0, out, n), n);
	for (uint32_t i = 0; i < n; i++)
		out[i] = (uint32_t)out[i];
}

/* EXPECT_BLOCKS(s, 1, 2, 3): its pages are these. */
#define EXPECT_BLOCKS(s, ...)						\
	do {								\
		const uint64_t want_[] = { __VA_ARGS__ };		\
		uint64_t got_[NR(want_) + 1];				\
									\
		kit_blocks(s, got_, NR(got_));				\
		for (size_t i_ = 0; i_ < NR(want_); i_++)		\
			EXPECT_EQ(want_[i_], got_[i_]);			\
		EXPECT_EQ(NR(want_), kvc_seq_pages(s));			\
	} while (0)

/*
 * A new conversation with these extra bytes (or NULL) and this prompt, of which
 * *@reused tokens were found.
 */
static inline struct kvc_seq *kit_begin_extra(struct kit *k, const char *extra,
					      const uint32_t *tokens,
					      uint32_t n, uint32_t *reused)
{
	struct kvc_seq *s = kit_seq(k, extra);
	int found = kvc_seq_prefix(s, tokens, n);
	struct kvc_item item = { s, tokens + found, n - found };

	ASSERT_GE(found, 0);
	ASSERT_LT(found, (int)n);
	ASSERT_EQ(0, kit_step(k, &item, 1, extra));
	ASSERT_EQ(n, kvc_seq_len(s));
	kit_check_extra(k, s, extra);
	if (reused)
		*reused = found;
	return s;
}

static inline struct kvc_seq *kit_begin(struct kit *k, const uint32_t *tokens,
					uint32_t n, uint32_t *reused)
{
	return kit_begin_extra(k, NULL, tokens, n, reused);
}

/* Conversations that had such a prompt and ended; what of it they reused. */
static inline uint32_t kit_run_extra(struct kit *k, const char *extra,
				     const uint32_t *tokens, uint32_t n)
{
	uint32_t reused;

	kvc_seq_free(kit_begin_extra(k, extra, tokens, n, &reused), 0);
	return reused;
}

static inline uint32_t kit_run_prompt(struct kit *k, const uint32_t *tokens,
				      uint32_t n)
{
	return kit_run_extra(k, NULL, tokens, n);
}

/* How many of @n tokens would be found; nothing is computed. */
static inline int kit_find(struct kit *k, const char *extra,
			   const uint32_t *tokens, uint32_t n)
{
	struct kvc_seq *s = kit_seq(k, extra);
	int found = kvc_seq_prefix(s, tokens, n);

	kvc_seq_free(s, KVC_SEQ_DISCARD);
	return found;
}

/* A conversation that wants @n pages at once, and no tokens. */
static inline int kit_hog(struct kit *k, uint32_t n, struct kvc_seq **out)
{
	*out = kit_seq(k, NULL);
	return kvc_seq_reserve(*out, n * kvc_cache_page_tokens(k->c, 0), 0);
}

/* Pages that an allocation could have: free ones and cached ones. */
static inline uint64_t kit_room(struct kit *k)
{
	struct kvcache_pool_info p = kit_pool(k);

	return p.nr_free + p.nr_cached;
}

/* What the backend says of a page. */
static inline struct kvcache_page_info kit_page(struct kit *k, uint32_t number)
{
	struct kvcache_page_get g = { .start = number };

	ASSERT_EQ(0, kvc_call(k->ctx, KVCACHE_NR_PAGE_GET, &g));
	if (!g.out_nr || (uint32_t)g.out_info[0].handle != number)
		return (struct kvcache_page_info) { .handle = 0 };
	return g.out_info[0];
}

/* Forget everything that is published; returns the pages given up. */
static inline uint64_t kit_flush(struct kit *k)
{
	struct kvcache_query q = { 0 };
	struct kvcache_tenant_ref f = { .pool = ~0U };

	ASSERT_EQ(0, kvc_call(k->ctx, KVCACHE_NR_QUERY, &q));
	f.tenant = q.out_tenant;
	ASSERT_EQ(0, kvc_call(k->ctx, KVCACHE_NR_TENANT_FLUSH, &f));
	return f.out_pages;
}

/* Another program with the same model: it knows no tokens, only keys. */
static inline void kit_other(const struct kit *k, struct kit *other)
{
	struct kvc_cache_opts o = { .sz = sizeof(o), .threads = 1 };

	*other = *k;
	ASSERT_EQ(0, kvc_cache_create(k->ctx, &k->m, &o, &other->c));
	ASSERT_EQ(0, kvc_batch_create(other->c, &other->b));
}

/* Its context goes on. */
static inline void kit_cache_close(struct kit *k)
{
	kvc_batch_destroy(k->b);
	kvc_cache_destroy(k->c);
}

#endif /* CONFORMANCE_KIT_H */
