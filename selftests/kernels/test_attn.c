// SPDX-License-Identifier: MIT
/*
 * test_attn.c - decode and prefill of each variant against the oracle, which
 * computes in double from the stored values: all pairs of types, orders and
 * page sizes, each with other dims, groups and lengths.
 */
#include "kit.h"

/* Everything but the rounding of the stored type is f32. */
#define TOLERANCE 5e-6

static const uint32_t page_tokens[] = { 1, 5, 8, 16, 40, 88, 128 };
static const uint32_t dims[] = { 64, 80, 96, 112, 128, 192, 256, 16, 48 };
static const uint32_t groups[] = { 1, 3, 4, 7, 8, 2, 13 };

#define N(a) (sizeof(a) / sizeof((a)[0]))
#define NTYPES KVA_NR_TYPES
/* Most pairs of types with all page sizes, in one order. */
#define NCASES (2 * NTYPES * N(page_tokens))

/* Lengths at the borders of pages and of pieces of @split tokens. */
static uint32_t pick_len(unsigned int i, uint32_t P, uint32_t split)
{
	const uint32_t lens[] = {
		0, 1, P - 1, P, P + 1, split - 1, split, split + 1,
		2 * P + 1, 2 * split - 1, 2 * split + 3, 2 * P - 1, 63, 65,
	};

	return lens[i % N(lens)];
}

static void case_shape(struct kit_shape *s, unsigned int i, int decode)
{
	unsigned int j, seqs = decode ? 8 : 6;

	memset(s, 0, sizeof(*s));
	s->page_tokens = page_tokens[i % N(page_tokens)];
	s->k_dim = dims[i % N(dims)];
	s->v_dim = i % 5 == 0 ? dims[(i + 3) % N(dims)] : s->k_dim;
	s->group = groups[i / 2 % N(groups)];
	s->kv_heads = 1 + i % 2;
	s->split = 64;
	s->nseq = seqs;
	for (j = 0; j < seqs; j++) {
		s->len[j] = pick_len(i * 5 + j, s->page_tokens, s->split);
		s->rows[j] = decode ? j != 3 : kit_random() % 40;
		if (!decode && s->rows[j] > s->len[j] && j % 2)
			s->rows[j] = s->len[j];
	}
}

static void compare_case(const struct kva_ops *ops, struct kva_threads *t,
			 const struct kit_shape *s, int decode,
			 struct kit_error *total)
{
	const struct kva_ops *ref = kit_variant("ref");
	struct kit_error e = { 0 }, l = { 0 };
	size_t n;
	float *o, *lse;
	struct kit k;

	kit_init(&k, s);
	n = (size_t)k.nrows * k.q_heads;
	o = kit_floats(n * s->v_dim);
	lse = kit_floats(n);
	ASSERT_EQ(0, kit_run(&k, ref, decode, NULL, k.o, k.lse));
	ASSERT_EQ(0, kit_run(&k, ops, decode, t, o, lse));
	kit_compare(&e, o, k.o, n * s->v_dim);
	kit_compare(&l, lse, k.lse, n);
	if (!(e.worst <= TOLERANCE) || !(l.worst <= TOLERANCE)) {
		ht_log("K %s V %s order %u dims %u %u heads %u x %u page %u: "
		       "worst %g, of lse %g", kva_type_name(s->k_type),
		       kva_type_name(s->v_type), s->order, s->k_dim, s->v_dim,
		       s->kv_heads, s->group, s->page_tokens, e.worst,
		       l.worst);
		ht_failed = 1;
	}
	total->err += e.err;
	total->ref += e.ref;
	if (!(e.worst <= total->worst))
		total->worst = e.worst;
	kit_free(&k);
	free(o);
	free(lse);
}

static void compare(const char *name, int decode, enum kva_order order)
{
	const struct kva_ops *ops = kit_variant(name);
	struct kit_error by_type[KVA_NR_TYPES] = { 0 };
	struct kva_threads *t;
	struct kit_shape s;
	unsigned int i;

	ASSERT_EQ(0, kva_threads_create(2, &t));
	for (i = order * NCASES; i < (order + 1) * NCASES; i++) {
		case_shape(&s, i, decode);
		s.k_type = i / N(page_tokens) % NTYPES;
		s.v_type = (i / N(page_tokens) / NTYPES * 3 + s.k_type) %
			   NTYPES;
		s.order = order;
		compare_case(ops, t, &s, decode, &by_type[s.k_type]);
	}
	for (i = 0; i < KVA_NR_TYPES; i++)
		ht_log("%s %s order %u %s: NMSE %.2g, worst %.2g", name,
		       decode ? "decode" : "prefill", order, kva_type_name(i),
		       by_type[i].err / by_type[i].ref, by_type[i].worst);
	kva_threads_destroy(t);
}

TEST(decode_row_scalar) { compare("scalar", 1, KVA_ROW); }
TEST(decode_row_avx2) { compare("avx2", 1, KVA_ROW); }
TEST(decode_row_avx512) { compare("avx512", 1, KVA_ROW); }
TEST(decode_cpu_scalar) { compare("scalar", 1, KVA_CPU); }
TEST(decode_cpu_avx2) { compare("avx2", 1, KVA_CPU); }
TEST(decode_cpu_avx512) { compare("avx512", 1, KVA_CPU); }
TEST(prefill_row_scalar) { compare("scalar", 0, KVA_ROW); }
TEST(prefill_row_avx2) { compare("avx2", 0, KVA_ROW); }
TEST(prefill_row_avx512) { compare("avx512", 0, KVA_ROW); }
TEST(prefill_cpu_scalar) { compare("scalar", 0, KVA_CPU); }
TEST(prefill_cpu_avx2) { compare("avx2", 0, KVA_CPU); }
TEST(prefill_cpu_avx512) { compare("avx512", 0, KVA_CPU); }

/* Long sequences, the default split, and more rows than one item takes. */
static void compare_long(const char *name)
{
	const struct kva_ops *ops = kit_variant(name);
	struct kit_shape s = {
		.k_type = KVA_F16, .v_type = KVA_BF16, .order = KVA_CPU,
		.k_dim = 64, .v_dim = 64, .kv_heads = 2, .group = 3,
		.page_tokens = 88, .nseq = 5,
		.len = { 2000, 511, 512, 513, 1025 },
		.rows = { 1, 1, 1, 1, 1 },
	};
	struct kit_error e = { 0 };
	struct kva_threads *t;

	ASSERT_EQ(0, kva_threads_create(2, &t));
	compare_case(ops, t, &s, 1, &e);
	s.k_type = s.v_type = KVA_F32;
	s.nseq = 2;
	s.len[0] = 700;
	s.rows[0] = 211;
	s.rows[1] = 70;
	compare_case(ops, t, &s, 0, &e);
	kva_threads_destroy(t);
}

TEST(long_scalar) { compare_long("scalar"); }
TEST(long_avx2) { compare_long("avx2"); }
TEST(long_avx512) { compare_long("avx512"); }

/* Queries and results that lie apart in memory, and no lse. */
static void strided(const char *name, int decode)
{
	const struct kva_ops *ops = kit_variant(name);
	struct kit_shape s = {
		.k_type = KVA_F16, .v_type = KVA_F16, .order = KVA_CPU,
		.k_dim = 64, .v_dim = 80, .kv_heads = 2, .group = 3,
		.page_tokens = 16, .nseq = 2, .len = { 37, 70 },
		.rows = { 1, 1 },
	};
	size_t r, qn, on;
	float *o, *q;
	struct kit k;

	kit_init(&k, &s);
	qn = k.attn.q_stride;
	on = k.attn.o_stride;
	ASSERT_EQ(0, kit_run(&k, ops, decode, NULL, k.o, k.lse));
	q = kit_floats(k.nrows * (qn + 33));
	o = kit_floats(k.nrows * (on + 17));
	for (r = 0; r < k.nrows; r++)
		memcpy(q + r * (qn + 33), k.q + r * qn, qn * sizeof(float));
	for (r = 0; r < k.nrows * (on + 17); r++)
		o[r] = 5;
	k.attn.q = q;
	k.attn.q_stride = qn + 33;
	k.attn.o_stride = on + 17;
	ASSERT_EQ(0, kit_run(&k, ops, decode, NULL, o, NULL));
	for (r = 0; r < k.nrows; r++) {
		ASSERT_EQ(0, memcmp(o + r * (on + 17), k.o + r * on,
				    on * sizeof(float)));
		for (size_t i = on; i < on + 17; i++)
			ASSERT_TRUE(o[r * (on + 17) + i] == 5);
	}
	free(q);
	free(o);
	kit_free(&k);
}

TEST(strided_scalar) { strided("scalar", 0); strided("scalar", 1); }
TEST(strided_avx2) { strided("avx2", 0); strided("avx2", 1); }
TEST(strided_avx512) { strided("avx512", 0); strided("avx512", 1); }

TEST_HARNESS_MAIN
