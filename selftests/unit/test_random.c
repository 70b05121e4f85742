// SPDX-License-Identifier: MIT
/*
 * test_random.c - many random operations on several sequences, against plain
 * arrays of tokens; every row is read back and compared.
 */
#include "kit.h"

#define NSEQ 8
#define MAX_LEN 90

struct naive {
	struct kvc_seq *s;
	uint32_t tokens[MAX_LEN + 8];
	uint32_t len;
};

struct world {
	struct kit k;
	struct naive n[NSEQ];
	uint64_t rng;
	uint64_t refused, forks;
	bool windows;
};

static uint32_t pick(struct world *w, uint32_t n)
{
	w->rng = kit_mix(w->rng, 0x1234567);
	return (w->rng >> 32) % n;
}

/* Few different tokens and stories, so that prefixes meet. */
static void make_tokens(struct world *w, uint32_t *t, uint32_t from, uint32_t n)
{
	uint32_t story = pick(w, 3);

	for (uint32_t i = 0; i < n; i++)
		t[i] = pick(w, 30) ? story * 1000 + from + i : pick(w, 4);
}

static void compare(struct world *w, const struct naive *n)
{
	ASSERT_EQ(n->len, kvc_seq_len(n->s));
	ASSERT_TRUE(!n->len || !memcmp(n->tokens, kvc_seq_tokens(n->s),
				       n->len * sizeof(*n->tokens)));
	kit_check(&w->k, n->s);
}

static void start(struct world *w, struct naive *n)
{
	int rc;

	n->s = kit_seq(&w->k, NULL);
	n->len = 0;
	make_tokens(w, n->tokens, 0, MAX_LEN);
	rc = kvc_seq_prefix(n->s, n->tokens, 1 + pick(w, MAX_LEN));
	ASSERT_GE(rc, 0);
	n->len = rc;
	compare(w, n);
}

static void stop(struct world *w, struct naive *n)
{
	kvc_seq_free(n->s, pick(w, 3) ? 0 : KVC_SEQ_DISCARD);
	n->s = NULL;
}

static void fork_one(struct world *w, struct naive *n)
{
	struct naive *to = &w->n[pick(w, NSEQ)];

	if (to == n)
		return;
	if (to->s)
		stop(w, to);
	*to = *n;
	ASSERT_EQ(0, kvc_seq_fork(n->s, &to->s));
	w->forks++;
	compare(w, to);
}

static void truncate_one(struct world *w, struct naive *n)
{
	uint32_t len = pick(w, n->len + 1);
	int rc = kvc_seq_truncate(n->s, len);

	/* The window before it may be gone. */
	if (rc) {
		ASSERT_EQ(-ENODATA, rc);
		ASSERT_TRUE(w->windows && len);
	} else {
		n->len = len;
	}
	compare(w, n);
}

/* A step of some of the sequences; sometimes it is called off. */
static void step(struct world *w)
{
	struct kvc_item items[NSEQ];
	struct naive *who[NSEQ];
	uint32_t n = 0, i;
	int rc;

	for (i = 0; i < NSEQ; i++) {
		struct naive *v = &w->n[i];
		uint32_t add = pick(w, 3) ? 1 : 1 + pick(w, 8);

		if (!v->s || v->len + add > MAX_LEN || pick(w, 4) == 0)
			continue;
		make_tokens(w, v->tokens + v->len, v->len, add);
		who[n] = v;
		items[n++] = (struct kvc_item) { v->s, v->tokens + v->len, add };
	}
	if (!n)
		return;
	rc = kvc_batch_plan(w->k.b, items, n);
	if (rc) {
		ASSERT_TRUE(rc == -ENOSPC || rc == -E2BIG);
		w->refused++;
	} else {
		kit_append(&w->k, items, n, NULL);
		if (pick(w, 8)) {
			ASSERT_EQ(0, kvc_batch_commit(w->k.b));
			for (i = 0; i < n; i++)
				who[i]->len += items[i].n;
		} else {
			kvc_batch_abort(w->k.b);
		}
	}
	for (i = 0; i < n; i++)
		compare(w, who[i]);
	if (rc && pick(w, 2))
		stop(w, who[0]);
}

/* The index says what the pages hold, and no page has two objects. */
static void check_cache(const struct kvc_cache *c)
{
	uint32_t i, indexed = 0, refs = 0, held = 0;
	const struct kvc_seq *s;

	for (i = 0; i < c->nslots; i++) {
		const struct kvc_page *p = c->slots[i];

		if (!p)
			continue;
		ASSERT_EQ(i, kvc_page_number(p->handle));
		ASSERT_TRUE(p->refs || (p->shared && p->indexed));
		ASSERT_EQ(0, p->leaving);
		indexed += p->indexed;
		refs += p->refs;
	}
	ASSERT_EQ(indexed, c->nindex);
	for (s = c->live; s; s = s->next)
		held += kvc_seq_pages(s);
	ASSERT_EQ(refs, held);
}

static void play(const struct kit_spec *spec, uint32_t ops, uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));
	struct kvc_stats st;

	kit_open(&w->k, spec);
	w->rng = seed;
	w->windows = spec->window;
	for (uint32_t op = 0; op < ops; op++) {
		struct naive *n = &w->n[pick(w, NSEQ)];
		uint32_t what = pick(w, 20);

		if (!n->s)
			start(w, n);
		else if (what == 0)
			stop(w, n);
		else if (what == 1)
			fork_one(w, n);
		else if (what == 2)
			truncate_one(w, n);
		else if (what == 3)
			compare(w, n);
		else
			step(w);
		if (op % 16 == 0)
			check_cache(w->k.c);
	}
	for (int i = 0; i < NSEQ; i++)
		if (w->n[i].s)
			compare(w, &w->n[i]);
	for (int i = 0; i < NSEQ; i++)
		if (w->n[i].s)
			stop(w, &w->n[i]);
	kvc_cache_stats(w->k.c, &st);
	ht_log("%u operations: %llu tokens, %llu reused, %llu copied, %llu deduplicated, %llu refused",
	       ops, (unsigned long long)st.appended_tokens,
	       (unsigned long long)st.reused_tokens,
	       (unsigned long long)st.copied_tokens,
	       (unsigned long long)st.pages_deduplicated,
	       (unsigned long long)w->refused);
	/* The sweep met what it is about. */
	EXPECT_GT(st.reused_tokens, 0);
	EXPECT_GT(st.copied_tokens, 0);
	EXPECT_GT(st.pages_deduplicated, 0);
	EXPECT_GT(w->forks, 0);
	EXPECT_EQ(0, kit_used(&w->k));
	kit_close(&w->k);
	free(w);
}

TEST_TIMEOUT(pages_of_4, 600)
{
	play(&(struct kit_spec) { .pages = 400 }, 30000, 1);
}

TEST_TIMEOUT(a_pool_too_small, 600)
{
	play(&(struct kit_spec) { .pages = 60 }, 20000, 2);
}

TEST_TIMEOUT(two_groups, 600)
{
	play(&(struct kit_spec) { .pages = 60, .ngroups = 2 }, 15000, 3);
}

/* Where most pages cannot be published, forks hold private ones together. */
TEST_TIMEOUT(a_domain_too_small, 600)
{
	play(&(struct kit_spec) { .pages = 150, .commons = 20 }, 15000, 6);
}

TEST_TIMEOUT(pages_of_24_in_bf16, 600)
{
	play(&(struct kit_spec) {
		.pages = 60, .page_tokens = 24, .type = KVC_BF16,
		.kv_heads = 1,
	}, 15000, 4);
}

/* Codes and scales go wherever pages and rows go. */
TEST_TIMEOUT(int8_keys_and_int4_values, 600)
{
	play(&(struct kit_spec) {
		.pages = 60, .page_tokens = 24, .type = KVC_INT8,
		.v_type = KVC_INT4, .kv_heads = 1,
	}, 8000, 11);
}

TEST_TIMEOUT(rotated_keys_and_values_of_8_bits, 600)
{
	play(&(struct kit_spec) {
		.pages = 150, .page_tokens = 5, .type = KVC_INT4H,
		.v_type = KVC_E4M3, .row_major = 1,
	}, 8000, 12);
}

TEST_TIMEOUT(given_scales_and_a_window, 600)
{
	play(&(struct kit_spec) {
		.pages = 100, .type = KVC_E4M3T, .window = 11,
	}, 8000, 13);
}

TEST_TIMEOUT(pages_of_5_in_f16, 600)
{
	play(&(struct kit_spec) {
		.pages = 200, .page_tokens = 5, .type = KVC_F16,
	}, 10000, 5);
}

TEST_TIMEOUT(a_window, 600)
{
	play(&(struct kit_spec) { .pages = 100, .window = 11 }, 15000, 7);
}

TEST_TIMEOUT(windows_with_sinks, 600)
{
	play(&(struct kit_spec) {
		.pages = 60, .window = 6, .sinks = 5, .commons = 30,
	}, 15000, 8);
}

TEST_TIMEOUT(a_group_with_a_window_and_one_without, 600)
{
	play(&(struct kit_spec) {
		.pages = 80, .ngroups = 2, .window = 20, .sinks = 1,
	}, 15000, 9);
}

TEST_HARNESS_MAIN
