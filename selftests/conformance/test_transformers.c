// SPDX-License-Identifier: MIT
/*
 * test_transformers.c - behaviours that the cache tests of Hugging Face
 * Transformers assert. A row of their batch is a sequence here.
 */
#include "kit.h"
#include "tools/run_kit.h"

/* c4.1: (batch 1, KV heads, 10 tokens, 128), with 32 query heads. */
CASE(shape_for_each_kind_of_attention)
{
	static const uint32_t heads[] = { 32, 4, 1 };
	const struct kvc_cache_opts o = { .sz = sizeof(o), .threads = 1 };
	static float rows[10 * 32 * 128];
	uint32_t tokens[10], i, h, d, n;
	float got[10 * 128];
	struct kvc_group g = { .k_dim = 128, .v_dim = 128 };
	struct kvc_model m = {
		.sz = sizeof(m), .nlayers = 1, .ngroups = 1, .groups = &g,
		.q_heads = 32, .page_tokens = 10,
	};
	struct kvc_footprint f;
	struct kvc_item item;
	struct kit k;

	kit_count(tokens, 10, 0);
	kit_connect(&k, 1 << 20, 8, 0);
	for (i = 0; i < NR(heads); i++) {
		n = heads[i];
		g.kv_heads = n;
		ASSERT_EQ(0, kvc_footprint(&m, 1 << 20, 10, 1, &f));
		EXPECT_EQ(2 * n * 10 * 128 * sizeof(float), f.used_bytes);
		EXPECT_EQ(1, f.pages);
		ASSERT_EQ(0, kvc_cache_create(k.ctx, &m, &o, &k.c));
		ASSERT_EQ(0, kvc_batch_create(k.c, &k.b));
		item = (struct kvc_item) { kit_seq(&k, NULL), tokens, 10 };
		/* All of it up front. */
		ASSERT_EQ(0, kvc_seq_reserve(item.seq, 10, 0));
		EXPECT_EQ(f.pages, kvc_seq_pages(item.seq));
		EXPECT_EQ(f.pages, kit_used(&k));
		for (d = 0; d < 10 * n * 128; d++)
			rows[d] = d;
		ASSERT_EQ(0, kvc_batch_plan(k.b, &item, 1));
		ASSERT_EQ(0, kvc_append(k.b, 0, NULL, NULL, 0, rows, n * 128,
					rows, n * 128));
		ASSERT_EQ(0, kvc_batch_commit(k.b));
		for (h = 0; h < n; h++) {
			ASSERT_EQ(0, kvc_seq_read(item.seq, 0, h % 2, h, 0, 10,
						  got));
			for (d = 0; d < 10 * 128; d++)
				ASSERT_EQ((d / 128 * n + h) * 128 + d % 128,
					  got[d]);
		}
		EXPECT_EQ(-EINVAL, kvc_seq_read(item.seq, 0, 0, n, 0, 1, got));
		EXPECT_EQ(-EINVAL, kvc_seq_read(item.seq, 0, 0, 0, 0, 11, got));
		kvc_seq_free(item.seq, 0);
		kit_cache_close(&k);
	}
	kit_disconnect(&k);
}

/* c4.4 */
CASE(dynamic_growth)
{
	static const uint32_t steps[] = { 3, 1, 1, 7 };
	float f[7 * 2 * KIT_DIM] = { 0 };
	uint32_t t[12], i, j, len = 0;
	struct kvc_item item;
	struct kit k;

	kit_open(&k, SPEC(4, 8));
	kit_count(t, 12, 0);
	item.seq = kit_seq(&k, NULL);
	EXPECT_EQ(0, kvc_seq_len(item.seq));
	for (i = 0; i < NR(steps); i++) {
		item.tokens = t + len;
		item.n = steps[i];
		ASSERT_EQ(0, kvc_batch_plan(k.b, &item, 1));
		/* Row j sees len + j + 1 keys: what mask sizes say there. */
		for (j = 0; j < item.n; j++)
			EXPECT_EQ(len + j, kvc_batch_positions(k.b)[j]);
		kit_append(&k, &item, 1, NULL);
		EXPECT_EQ(len, kvc_seq_len(item.seq));
		ASSERT_EQ(0, kvc_batch_commit(k.b));
		len += steps[i];
		EXPECT_EQ(len, kvc_seq_len(item.seq));
		EXPECT_EQ((len + 3) / 4, kvc_seq_pages(item.seq));
		kit_check(&k, item.seq);
	}
	/* A layer is written by itself, and tokens count with the last one. */
	item.n = 1;
	ASSERT_EQ(0, kvc_batch_plan(k.b, &item, 1));
	ASSERT_EQ(0, kvc_append(k.b, 1, NULL, NULL, 0, f, 2 * KIT_DIM, f,
				2 * KIT_DIM));
	EXPECT_EQ(-EINVAL, kvc_batch_commit(k.b));
	EXPECT_EQ(12, kvc_seq_len(item.seq));
	kvc_batch_abort(k.b);
	kit_check(&k, item.seq);
	kvc_seq_free(item.seq, 0);
	kit_close(&k);
}

/* Sequences of @lens tokens, each its own. */
static void begin_rows(struct kit *k, struct kvc_seq **s, const uint32_t *lens,
		       uint32_t n)
{
	uint32_t t[32], i;

	for (i = 0; i < n; i++) {
		kit_count(t, lens[i], 100 * i);
		s[i] = kit_begin(k, t, lens[i], NULL);
	}
}

/* c4.6 */
CASE(batch_select)
{
	static const uint32_t lens[] = { 6, 7, 5 };
	struct kvc_item items[2];
	struct kvc_seq *s[3];
	uint32_t t[2] = { 7, 8 }, i;
	struct kit k;

	kit_open(&k, SPEC(4, 16));
	begin_rows(&k, s, lens, 3);
	kvc_seq_free(s[1], KVC_SEQ_DISCARD);
	EXPECT_EQ(2 + 2, kit_used(&k));
	for (i = 0; i < 2; i++)
		items[i] = (struct kvc_item) { s[2 * i], t + i, 1 };
	ASSERT_EQ(0, kit_step(&k, items, 2, NULL));
	EXPECT_EQ(7, kvc_seq_len(s[0]));
	EXPECT_EQ(6, kvc_seq_len(s[2]));
	for (i = 0; i < 2; i++) {
		kit_check(&k, s[2 * i]);
		kvc_seq_free(s[2 * i], 0);
	}
	kit_close(&k);
}

/* c4.6: rows 0, 1 become 0, 0, 0, 1, 1, 1, in the pages of two. */
CASE(batch_repeat_interleave)
{
	static const uint32_t lens[] = { 6, 7 };
	struct kvc_seq *s[2], *r[6];
	struct kvc_item items[6];
	uint32_t t[6], i;
	struct kit k;

	kit_open(&k, SPEC(4, 16));
	begin_rows(&k, s, lens, 2);
	for (i = 0; i < 6; i++) {
		if (i % 3)
			ASSERT_EQ(0, kvc_seq_fork(s[i / 3], &r[i]));
		else
			r[i] = s[i / 3];
	}
	EXPECT_EQ(4, kit_used(&k));
	for (i = 0; i < 6; i++) {
		EXPECT_EQ(lens[i / 3], kvc_seq_len(r[i]));
		EXPECT_EQ(0, memcmp(kvc_seq_tokens(s[i / 3]),
				    kvc_seq_tokens(r[i]),
				    lens[i / 3] * sizeof(*t)));
		kit_check(&k, r[i]);
	}
	kit_count(t, 6, 900);
	for (i = 0; i < 6; i++)
		items[i] = (struct kvc_item) { r[i], t + i, 1 };
	ASSERT_EQ(0, kit_step(&k, items, 6, NULL));
	/* The first pages in common, the second each one's own. */
	EXPECT_EQ(2 + 6, kit_used(&k));
	for (i = 0; i < 6; i++)
		kit_check(&k, r[i]);
	for (i = 0; i < 6; i++)
		kvc_seq_free(r[i], 0);
	EXPECT_EQ(0, kit_used(&k));
	kit_close(&k);
}

/* c4.3: a window of 4, a fifth token; and six at once, which all see theirs. */
CASE(sliding_update)
{
	uint32_t t[6], n;
	struct kvc_seq *s;
	struct kit k;
	char row[64];

	kit_count(t, 6, 1);
	for (n = 5; n <= 6; n++) {
		kit_open(&k, SPEC(1, 8, .window = 5));
		s = kit_seq(&k, NULL);
		/* Whoever is next sees four before it. */
		ASSERT_EQ(0, kit_add(&k, s, t, n == 5 ? 4 : 6));
		if (n == 5)
			ASSERT_EQ(0, kit_add(&k, s, t + 4, 1));
		kit_check(&k, s);
		EXPECT_EQ(4, kvc_seq_pages(s));
		EXPECT_EQ(-ENODATA, kvc_seq_read(s, 0, 0, 0, n - 5, 1, row));
		EXPECT_EQ(0, kvc_seq_read(s, 0, 0, 0, n - 4, 1, row));
		kvc_seq_free(s, 0);
		kit_close(&k);
	}
}

/* c4.7: what a window has left behind cannot come back. */
CASE(crop_of_a_window)
{
	uint32_t t[9];
	struct kvc_seq *s;
	struct kit k;

	kit_count(t, 9, 0);
	kit_open(&k, SPEC(1, 16, .window = 4));
	s = kit_begin(&k, t, 3, NULL);
	ASSERT_EQ(0, kvc_seq_truncate(s, 2));
	ASSERT_EQ(0, kit_add(&k, s, t, 7));
	EXPECT_EQ(-ENODATA, kvc_seq_truncate(s, 8));
	EXPECT_EQ(9, kvc_seq_len(s));
	kit_check(&k, s);
	kvc_seq_free(s, 0);
	kit_close(&k);
}

/* c4.7: crop(n), and crop(-n) as what is left. */
CASE(crop)
{
	uint32_t t[11], now[16], n;
	struct kvc_seq *s;
	struct kit k;

	kit_count(t, 11, 0);
	for (n = 0; n <= 11; n++) {
		kit_open(&k, SPEC(4, 8));
		s = kit_begin(&k, t, 11, NULL);
		ASSERT_EQ(0, kvc_seq_truncate(s, n));
		EXPECT_EQ(n, kvc_seq_len(s));
		EXPECT_EQ((n + 3) / 4, kvc_seq_pages(s));
		EXPECT_EQ((n + 3) / 4, kit_used(&k));
		EXPECT_EQ(-EINVAL, kvc_seq_truncate(s, n + 1));
		kit_check(&k, s);
		/* It goes on from there. */
		ASSERT_EQ(0, kit_add(&k, s, t, 6));
		EXPECT_EQ(n + 6, kvc_seq_len(s));
		kit_check(&k, s);
		ASSERT_EQ(0, kvc_seq_truncate(s, kvc_seq_len(s) - 2));
		EXPECT_EQ(n + 4, kvc_seq_len(s));
		kit_check(&k, s);
		/* And is found as it is now. */
		memcpy(now, kvc_seq_tokens(s), (n + 4) * sizeof(*now));
		now[n + 4] = 99;
		kvc_seq_free(s, 0);
		EXPECT_EQ(n + 4, kit_find(&k, NULL, now, n + 5));
		kit_close(&k);
	}
}

#define ROWS 16		/* in a step, at most */

/*
 * One step of @n sequences that had @lens tokens and get @more each: the
 * outputs of all its rows and layers, in the order of the rows.
 */
static void outputs(const uint32_t *which, uint32_t n,
		    float o[][KIT_LAYERS][4 * KIT_DIM])
{
	static const uint32_t lens[] = { 1, 19, 7, 4 }, more[] = { 1, 1, 5, 3 };
	float q[ROWS][4 * KIT_DIM], out[ROWS][4 * KIT_DIM];
	struct kvc_seq *s[4];
	struct kvc_item items[4];
	uint32_t t[4][32], rows = 0, i, j, d, layer;
	struct kit k;

	kit_open(&k, SPEC(4, 32));
	for (i = 0; i < n; i++) {
		uint32_t w = which[i];

		kit_count(t[i], 32, 100 * w);
		s[i] = kit_begin(&k, t[i], lens[w], NULL);
		items[i] = (struct kvc_item) { s[i], t[i] + lens[w], more[w] };
		/* Queries follow from who asks, and where. */
		for (j = 0; j < more[w]; j++, rows++)
			for (d = 0; d < 4 * KIT_DIM; d++)
				q[rows][d] = kit_elem(7, w, 0, j, d) / 8;
	}
	ASSERT_LE(rows, ROWS);
	ASSERT_EQ(0, kvc_batch_plan(k.b, items, n));
	kit_append(&k, items, n, NULL);
	for (layer = 0; layer < KIT_LAYERS; layer++) {
		ASSERT_EQ(0, kvc_attend(k.b, layer, 0.25f, q[0], 4 * KIT_DIM,
					out[0], 4 * KIT_DIM));
		for (j = 0; j < rows; j++)
			memcpy(o[j][layer], out[j], sizeof(out[j]));
	}
	ASSERT_EQ(0, kvc_batch_commit(k.b));
	for (i = 0; i < n; i++)
		kvc_seq_free(s[i], 0);
	kit_close(&k);
}

/* c4.9: there is no padding here, and what it stands for is bit-equal. */
CASE(padding_invariance)
{
	static const uint32_t all[] = { 0, 1, 2, 3 }, more[] = { 1, 1, 5, 3 };
	static float o[ROWS][KIT_LAYERS][4 * KIT_DIM];
	static float alone[ROWS][KIT_LAYERS][4 * KIT_DIM];
	uint32_t i, at = 0;

	outputs(all, 4, o);
	for (i = 0; i < 4; i++) {
		memset(alone, 0xff, sizeof(alone));
		outputs(&all[i], 1, alone);
		EXPECT_EQ(0, memcmp(o[at], alone, more[i] * sizeof(o[0])));
		at += more[i];
	}
}

/* c4.12 */
CASE(prefilled_prompt_for_several)
{
	struct kvc_seq *p, *s[3];
	struct kvc_item items[3];
	uint32_t t[10], u[9], i;
	uint64_t before[3], after[3];
	struct kit k;

	kit_open(&k, SPEC(4, 32));
	kit_count(t, 10, 0);
	kit_count(u, 9, 500);
	p = kit_begin(&k, t, 10, NULL);
	kvc_seq_handles(p, 0, before, 3);
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, kvc_seq_fork(p, &s[i]));
		items[i] = (struct kvc_item) { s[i], u + 3 * i, 1 + i };
	}
	EXPECT_EQ(3, kit_used(&k));
	for (uint32_t step = 0; step < 4; step++) {
		ASSERT_EQ(0, kit_step(&k, items, 3, NULL));
		for (i = 0; i < 3; i++) {
			EXPECT_EQ(10 + (step + 1) * (1 + i), kvc_seq_len(s[i]));
			kit_check(&k, s[i]);
		}
		/* The prompt is as it was, and in the same pages. */
		EXPECT_EQ(10, kvc_seq_len(p));
		kvc_seq_handles(p, 0, after, 3);
		EXPECT_EQ(0, memcmp(before, after, sizeof(before)));
		kit_check(&k, p);
	}
	kvc_seq_free(p, 0);
	for (i = 0; i < 3; i++)
		kit_check(&k, s[i]);
	for (i = 0; i < 3; i++)
		kvc_seq_free(s[i], 0);
	EXPECT_EQ(0, kit_used(&k));
	kit_close(&k);
}

/* ---- kvcache-run --------------------------------------------------------- */

#define RUN "-m " REFS "tiny-gqa-q8_0-untied.gguf --kv f32 --weights f32 "	\
	"--page-size 16K --ignore-end --json -n 24 "

/* c4.9: prompts of different lengths together, and each alone. */
TEST(padding_invariance_of_texts)
{
	static const char *const prompts[] = {
		"-p a", "-p abcdefghijklmnopqrstuvwxyz0123456789", "-p xyz",
	};
	struct ran all, r;
	int i;

	NOT_ON_DEVICE("kvcache-run is tested there by itself");
	all = kit_run(NULL, RUN "%s %s %s", prompts[0], prompts[1], prompts[2]);
	KIT_OK(all);
	for (i = 0; i < 3; i++) {
		r = kit_run(NULL, RUN "%s", prompts[i]);
		KIT_OK(r);
		EXPECT_EQ(24, json_array_size(kit_ids(&r, 0)));
		EXPECT_TRUE(json_equal(kit_ids(&all, i), kit_ids(&r, 0)));
	}
}

/* c4.12: continuations of one system message, and each without the others. */
TEST(prefilled_prompt_for_several_texts)
{
	static const char system_message[] =
		"--system abcdefghijklmnopqrstuvwxyz0123456789";
	static const char *const prompts[] = { "-p 1one", "-p 2two", "-p 3six" };
	struct ran all, r;
	int i;

	NOT_ON_DEVICE("kvcache-run is tested there by itself");
	all = kit_run(NULL, RUN "%s %s %s %s", system_message, prompts[0],
		      prompts[1], prompts[2]);
	KIT_OK(all);
	for (i = 0; i < 3; i++) {
		if (i)
			EXPECT_GE(kit_num(&all, i, "reused_tokens"), 36);
		r = kit_run(NULL, RUN "--no-reuse %s %s", system_message,
			    prompts[i]);
		KIT_OK(r);
		EXPECT_EQ(0, kit_num(&r, 0, "reused_tokens"));
		EXPECT_TRUE(json_equal(kit_ids(&all, i), kit_ids(&r, 0)));
	}
}

TEST_HARNESS_MAIN
