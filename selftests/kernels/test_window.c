// SPDX-License-Identifier: MIT
/*
 * test_window.c - sliding windows, sinks, learned sink logits, capped scores,
 * and V inside K: against the oracle, with the pages that no row sees missing,
 * and with the same bits whether they are there or not.
 */
#include "kit.h"

#define TOLERANCE 5e-6
#define N(a) (sizeof(a) / sizeof((a)[0]))

static const uint32_t page_tokens[] = { 1, 5, 8, 16, 40, 88 };
static const uint32_t windows[] = { 1, 3, 16, 33, 64, 100, 300, 533 };
static const uint32_t sinks[] = { 0, 4, 1, 70, 0, 17, 130 };
static const uint32_t dims[] = { 64, 80, 96, 128, 256, 576 };
static const float caps[] = { 0, 1, 30, 50, 0.01f };

static struct kit_shape shape_of(unsigned int i, int decode)
{
	struct kit_shape s = {
		.k_type = i % KVA_NR_TYPES,
		.v_type = (i + i / 3) % KVA_NR_TYPES,
		.order = i % 3 ? KVA_CPU : KVA_ROW,
		.k_dim = dims[i % N(dims)], .v_dim = dims[(i + i / 6) % N(dims)],
		.kv_heads = 1 + i % 2, .group = 1 + i * 3 % 7,
		.page_tokens = page_tokens[i / 2 % N(page_tokens)],
		.split = 64, .window = windows[i % N(windows)],
		.sinks = sinks[i % N(sinks)], .softcap = caps[i % N(caps)],
		.sink_logits = i % 4 == 1, .nseq = 4,
	};
	unsigned int j;

	for (j = 0; j < s.nseq; j++) {
		s.len[j] = j ? s.window - 1 + kit_random() % 300 : 0;
		s.rows[j] = decode ? 1 : kit_random() % 40;
		if (j == 1)	/* a row that is as long as the window */
			s.len[j] = s.window + i % 3 - 1;
	}
	return s;
}

static void same(const struct kit *k, const float *o, const float *lse)
{
	ASSERT_EQ(0, memcmp(o, k->o, k->nrows * k->attn.o_stride * 4));
	ASSERT_EQ(0, memcmp(lse, k->lse, k->nrows * k->q_heads * 4));
}

/* The oracle, then the variant, then the variant without what nobody sees. */
static uint32_t window_case(const struct kva_ops *ops, struct kva_threads *t,
			    const struct kit_shape *s, int decode)
{
	struct kit_error e = { 0 }, l = { 0 };
	uint32_t dropped;
	float *o, *lse;
	size_t n;
	struct kit k;

	kit_init(&k, s);
	n = (size_t)k.nrows * k.q_heads;
	o = kit_floats(n * s->v_dim);
	lse = kit_floats(n);
	ASSERT_EQ(0, kit_run(&k, kit_variant("ref"), decode, t, o, lse));
	ASSERT_EQ(0, kit_run(&k, ops, decode, NULL, k.o, k.lse));
	kit_compare(&e, k.o, o, n * s->v_dim);
	kit_compare(&l, k.lse, lse, n);
	if (!(e.worst <= TOLERANCE) || !(l.worst <= TOLERANCE)) {
		ht_log("%s %s order %u dims %u %u heads %u x %u page %u "
		       "window %u sinks %u cap %g: worst %g, of lse %g",
		       kva_type_name(s->k_type), kva_type_name(s->v_type),
		       s->order, s->k_dim, s->v_dim, s->kv_heads, s->group,
		       s->page_tokens, s->window, s->sinks, s->softcap, e.worst,
		       l.worst);
		ht_failed = 1;
	}
	dropped = kit_drop(&k);
	ASSERT_EQ(0, kit_run(&k, ops, decode, t, o, lse));
	same(&k, o, lse);
	kit_free(&k);
	free(o);
	free(lse);
	return dropped;
}

static void window(const char *name, int decode)
{
	const struct kva_ops *ops = kit_variant(name);
	uint32_t dropped = 0;
	struct kva_threads *t;
	struct kit_shape s;
	unsigned int i;

	ASSERT_EQ(0, kva_threads_create(2, &t));
	for (i = 0; i < 56; i++) {
		s = shape_of(i, decode);
		dropped += window_case(ops, t, &s, decode);
	}
	EXPECT_TRUE(dropped > 1000);
	kva_threads_destroy(t);
}

TEST(decode_scalar) { window("scalar", 1); }
TEST(decode_avx2) { window("avx2", 1); }
TEST(decode_avx512) { window("avx512", 1); }
TEST(prefill_scalar) { window("scalar", 0); }
TEST(prefill_avx2) { window("avx2", 0); }
TEST(prefill_avx512) { window("avx512", 0); }

/* A null page that no one may touch. */
static void untouched(const char *name)
{
	const struct kva_ops *ops = kit_variant(name);
	size_t os = sysconf(_SC_PAGESIZE), gap;
	unsigned int i;
	float *o, *lse;
	char *base;
	struct kit k;

	for (i = 0; i < 4; i++) {
		struct kit_shape s = {
			.k_type = KVA_BF16, .v_type = KVA_BF16,
			.order = i % 2, .k_dim = 64, .v_dim = 64,
			.kv_heads = 2, .group = 3, .page_tokens = 16,
			.split = 64, .window = 50, .sinks = i / 2 * 4,
			.nseq = 2, .len = { 331, 500 }, .rows = { 1, 1 },
		};

		kit_init(&k, &s);
		o = kit_floats(k.nrows * k.attn.o_stride);
		lse = kit_floats(k.nrows * k.q_heads);
		gap = (k.view.page_stride + os - 1) / os * os;
		base = mmap(NULL, gap * k.npages, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ASSERT_TRUE(base != MAP_FAILED);
		for (uint32_t p = 0; p < k.npages; p++)
			memcpy(base + p * gap, k.arena + p * k.view.page_stride,
			       k.view.page_stride);
		ASSERT_EQ(0, mprotect(base, gap, PROT_NONE));
		for (int decode = 0; decode <= 1; decode++) {
			ASSERT_EQ(0, kit_run(&k, ops, decode, NULL, k.o, k.lse));
			ASSERT_TRUE(decode || kit_drop(&k) > 30);
			k.view.base = base;
			k.view.page_stride = gap;
			ASSERT_EQ(0, kit_run(&k, ops, decode, NULL, o, lse));
			same(&k, o, lse);
		}
		munmap(base, gap * k.npages);
		kit_free(&k);
		free(o);
		free(lse);
	}
}

TEST(untouched_ref) { untouched("ref"); }
TEST(untouched_scalar) { untouched("scalar"); }
TEST(untouched_avx2) { untouched("avx2"); }
TEST(untouched_avx512) { untouched("avx512"); }

/* A window as long as the sequence is no window, bit for bit. */
static void wide(const char *name)
{
	const struct kva_ops *ops = kit_variant(name);
	struct kit_shape s = shape_of(4, 1);
	float *o, *lse;
	struct kit k;

	s.window = 0;
	s.sinks = 0;
	kit_init(&k, &s);
	o = kit_floats(k.nrows * k.attn.o_stride);
	lse = kit_floats(k.nrows * k.q_heads);
	for (int decode = 0; decode <= 1; decode++) {
		k.attn.window = k.attn.sinks = 0;
		ASSERT_EQ(0, kit_run(&k, ops, decode, NULL, k.o, k.lse));
		k.attn.sinks = 9;
		ASSERT_EQ(0, kit_run(&k, ops, decode, NULL, o, lse));
		same(&k, o, lse);
		k.attn.window = 1000;
		ASSERT_EQ(0, kit_run(&k, ops, decode, NULL, o, lse));
		same(&k, o, lse);
		k.attn.window = UINT32_MAX;
		k.attn.sinks = UINT32_MAX;
		ASSERT_EQ(0, kit_run(&k, ops, decode, NULL, o, lse));
		same(&k, o, lse);
	}
	kit_free(&k);
	free(o);
	free(lse);
}

TEST(wide_scalar) { wide("scalar"); }
TEST(wide_avx2) { wide("avx2"); }
TEST(wide_avx512) { wide("avx512"); }

/* A windowed prompt in one call, and in pieces: the same bits. */
static void chunks(const char *name)
{
	const struct kva_ops *ops = kit_variant(name);
	uint32_t indptr[2], last[1], row_ptr[2] = { 0 }, done, n, P;
	unsigned int i;
	float *o, *lse;
	struct kit k;

	for (i = 0; i < 20; i++) {
		struct kit_shape s = shape_of(i, 0);

		s.nseq = 1;
		s.len[0] = s.rows[0] = 150 + kit_random() % 150;
		P = s.page_tokens;
		kit_init(&k, &s);
		o = kit_floats(k.nrows * k.attn.o_stride);
		lse = kit_floats(k.nrows * k.q_heads);
		ASSERT_EQ(0, kit_run(&k, ops, 0, NULL, k.o, k.lse));
		indptr[0] = 0;
		k.view.indptr = indptr;
		k.view.last_page_len = last;
		k.attn.row_ptr = row_ptr;
		for (done = 0; done < s.len[0]; done += n) {
			n = 1 + kit_random() % (i % 2 ? 70 : 5);
			n = n < s.len[0] - done ? n : s.len[0] - done;
			indptr[1] = (done + n + P - 1) / P;
			last[0] = (done + n - 1) % P + 1;
			row_ptr[1] = n;
			k.attn.q = k.q + done * k.attn.q_stride;
			ASSERT_EQ(0, kit_run(&k, ops, 0, NULL,
					     o + done * k.attn.o_stride,
					     lse + done * k.q_heads));
		}
		same(&k, o, lse);
		kit_free(&k);
		free(o);
		free(lse);
	}
}

TEST(chunks_scalar) { chunks("scalar"); }
TEST(chunks_avx2) { chunks("avx2"); }
TEST(chunks_avx512) { chunks("avx512"); }

/* A single NaN just outside a row's window, and just inside. */
static void border(const char *name)
{
	const struct kva_ops *ops = kit_variant(name);
	float bad[KVA_DIM_MAX], *o, *lse;
	unsigned int i, d;
	struct kit k;

	for (d = 0; d < KVA_DIM_MAX; d++)
		bad[d] = NAN;
	for (i = 0; i < 24; i++) {
		struct kit_shape s = shape_of(i, 1);
		uint32_t len = 200 + i, first;

		s.nseq = 1;
		s.len[0] = len;
		s.window = 61 + i;
		s.softcap = 0;
		s.sinks = i % 9;
		first = len - s.window;
		kit_init(&k, &s);
		o = kit_floats(k.attn.o_stride);
		lse = kit_floats(k.q_heads);
		for (int decode = 0; decode <= 1; decode++) {
			kit_fill(&k);
			ASSERT_EQ(0, kit_run(&k, ops, decode, NULL, k.o, k.lse));
			for (int is_v = 0; is_v <= 1; is_v++) {
				kit_put(&k, 0, first - 1, is_v, 0, bad);
				kit_put(&k, 0, s.sinks, is_v, 0, bad);
			}
			ASSERT_EQ(0, kit_run(&k, ops, decode, NULL, o, lse));
			same(&k, o, lse);
			kit_put(&k, 0, first, 1, 0, bad);
			ASSERT_EQ(0, kit_run(&k, ops, decode, NULL, o, lse));
			ASSERT_TRUE(isnan(o[0]));
		}
		kit_free(&k);
		free(o);
		free(lse);
	}
}

TEST(border_scalar) { border("scalar"); }
TEST(border_avx2) { border("avx2"); }
TEST(border_avx512) { border("avx512"); }

/* Latent attention: V is the head of each K row; also with a window. */
static void latent(const char *name)
{
	static const uint32_t lens[][4] = {
		{ 0, 1, 3, 11 }, { 17, 114, 64, 63 }, { 514, 700, 65, 5 },
	};
	const struct kva_ops *ops = kit_variant(name);
	struct kva_threads *t;
	unsigned int i;

	ASSERT_EQ(0, kva_threads_create(2, &t));
	for (i = 0; i < 18; i++) {
		struct kit_shape s = {
			.k_type = i % KVA_NR_TYPES, .v_type = 0,
			.order = KVA_ROW,
			.v_in_k = true, .k_dim = i % 2 ? 576 : 96,
			.v_dim = i % 2 ? 512 : 80, .kv_heads = 1 + i / 9,
			.group = i % 4 ? 3 : 16,
			.page_tokens = page_tokens[i % N(page_tokens)],
			.split = 64, .window = i % 5 ? 0 : 70, .nseq = 4,
		};

		for (unsigned int j = 0; j < 4; j++) {
			s.len[j] = lens[i % 3][j];
			s.rows[j] = i / 3 % 2 ? 1 : 1 + 2 * (i % 9);
		}
		window_case(ops, t, &s, i / 3 % 2);
	}
	kva_threads_destroy(t);
}

TEST(latent_scalar) { latent("scalar"); }
TEST(latent_avx2) { latent("avx2"); }
TEST(latent_avx512) { latent("avx512"); }

/* Logits of a sink alone, and parts of which one has it. */
TEST(sink_logits)
{
	struct kit_shape s = shape_of(2, 1);
	float logits[64], *o, *lse;
	size_t on, i;
	struct kit k;

	s.window = 0;
	kit_init(&k, &s);
	on = k.attn.o_stride;
	o = kit_floats(k.nrows * on);
	lse = kit_floats(k.nrows * k.q_heads);
	ASSERT_EQ(0, kit_run(&k, kva_config(), 1, NULL, k.o, k.lse));
	for (i = 0; i < k.q_heads; i++)
		logits[i] = i % 2 ? -INFINITY : 3;
	k.attn.sink_logits = logits;
	ASSERT_EQ(0, kit_run(&k, kva_config(), 1, NULL, o, lse));
	for (i = 0; i < k.nrows * k.q_heads; i++) {
		double was = exp(k.lse[i]), by = exp(lse[i]);
		size_t h = i % k.q_heads, at = i * s.v_dim;

		if (h % 2) {
			EXPECT_TRUE(lse[i] == k.lse[i]);
			EXPECT_TRUE(o[at] == k.o[at]);
			continue;
		}
		EXPECT_TRUE(fabs(by / (was + exp(3)) - 1) < 1e-5);
		EXPECT_TRUE(fabs(o[at] - k.o[at] * was / by) < 1e-6);
	}
	/* the first sequence is empty: nothing but the sink */
	EXPECT_TRUE(fabsf(lse[0] - 3) < 1e-6f && o[0] == 0);
	EXPECT_TRUE(lse[1] == -INFINITY && o[s.v_dim] == 0);
	kit_free(&k);
	free(o);
	free(lse);
}

TEST_HARNESS_MAIN
