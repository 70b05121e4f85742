// SPDX-License-Identifier: MIT
/*
 * test_invariance.c - the bits of a result depend on its own sequence only:
 * not on the batch, the threads, or how a prompt was cut; and nothing that a
 * row may not see can change it.
 */
#include "kit.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

static const uint32_t page_tokens[] = { 1, 5, 8, 16, 40, 88 };
static const uint32_t groups[] = { 1, 3, 4, 7, 8, 13 };

static struct kit_shape shape_of(unsigned int i)
{
	return (struct kit_shape) {
		.k_type = i % KVA_NR_TYPES,
		.v_type = (i + i / 3) % KVA_NR_TYPES,
		.order = i % 4 ? KVA_CPU : KVA_ROW,
		.k_dim = 64 + 16 * (i % 4), .v_dim = 64 + 16 * (i % 3),
		.kv_heads = 1 + i % 2, .group = groups[i % N(groups)],
		.page_tokens = page_tokens[i / 2 % N(page_tokens)],
	};
}

/* Let the view of a batch be sequence @s alone, with @len tokens. */
static void only(struct kit *k, uint32_t s, uint32_t len, uint32_t *indptr,
		 uint32_t *last)
{
	uint32_t P = k->shape.page_tokens;

	indptr[0] = k->indptr[s];
	indptr[1] = k->indptr[s] + (len + P - 1) / P;
	last[0] = len ? (len - 1) % P + 1 : 0;
	k->view.nseq = 1;
	k->view.indptr = indptr;
	k->view.last_page_len = last;
}

static void same_bits(const struct kit *k, size_t row, size_t rows,
		      const float *o, const float *lse)
{
	size_t on = k->attn.o_stride;

	ASSERT_EQ(0, memcmp(o, k->o + row * on, rows * on * sizeof(float)));
	ASSERT_EQ(0, memcmp(lse, k->lse + row * k->q_heads,
			    rows * k->q_heads * sizeof(float)));
}

static void in_any_batch(const char *name, int decode)
{
	static const unsigned int counts[] = { 1, 2, 4 };
	const struct kva_ops *ops = kit_variant(name);
	struct kva_threads *t[N(counts)];
	unsigned int i, j, s;

	for (j = 0; j < N(counts); j++)
		ASSERT_EQ(0, kva_threads_create(counts[j], &t[j]));
	for (i = 0; i < 24; i++) {
		struct kit_shape shape = shape_of(i);
		uint32_t indptr[2], last[1], row_ptr[2];
		float *o, *lse;
		struct kit k;

		shape.split = 64;
		shape.nseq = 7;
		for (s = 0; s < 7; s++) {
			shape.len[s] = kit_random() % 260;
			shape.rows[s] = decode ? s != 2 : kit_random() % 90;
		}
		kit_init(&k, &shape);
		o = kit_floats(k.nrows * k.attn.o_stride);
		lse = kit_floats(k.nrows * k.q_heads);
		ASSERT_EQ(0, kit_run(&k, ops, decode, NULL, k.o, k.lse));
		for (j = 0; j < N(counts); j++) {
			memset(o, 0xff, k.nrows * k.attn.o_stride * 4);
			ASSERT_EQ(0, kit_run(&k, ops, decode, t[j], o, lse));
			same_bits(&k, 0, k.nrows, o, lse);
		}
		for (s = 0; s < 7; s++) {
			uint32_t first = k.row_ptr[s];

			row_ptr[0] = 0;
			row_ptr[1] = k.row_ptr[s + 1] - first;
			only(&k, s, shape.len[s], indptr, last);
			k.attn.row_ptr = row_ptr;
			k.attn.q = k.q + first * k.attn.q_stride;
			ASSERT_EQ(0, kit_run(&k, ops, decode, t[1], o, lse));
			same_bits(&k, first, row_ptr[1], o, lse);
		}
		kit_free(&k);
		free(o);
		free(lse);
	}
	for (j = 0; j < N(counts); j++)
		kva_threads_destroy(t[j]);
}

TEST(decode_batch_ref) { in_any_batch("ref", 1); }
TEST(decode_batch_scalar) { in_any_batch("scalar", 1); }
TEST(decode_batch_avx2) { in_any_batch("avx2", 1); }
TEST(decode_batch_avx512) { in_any_batch("avx512", 1); }
TEST(prefill_batch_scalar) { in_any_batch("scalar", 0); }
TEST(prefill_batch_avx2) { in_any_batch("avx2", 0); }
TEST(prefill_batch_avx512) { in_any_batch("avx512", 0); }

/* A prompt in one call, and in pieces over what is cached by then. */
static void in_any_chunks(const char *name)
{
	const struct kva_ops *ops = kit_variant(name);
	unsigned int i;

	for (i = 0; i < 18; i++) {
		struct kit_shape shape = shape_of(i);
		uint32_t indptr[2], last[1], row_ptr[2], done, n;
		uint32_t len = 150 + kit_random() % 150, before;
		float *o, *lse;
		struct kit k;

		before = i % 3 ? kit_random() % 100 : 0;
		shape.nseq = 1;
		shape.len[0] = before + len;
		shape.rows[0] = len;
		kit_init(&k, &shape);
		o = kit_floats(k.nrows * k.attn.o_stride);
		lse = kit_floats(k.nrows * k.q_heads);
		ASSERT_EQ(0, kit_run(&k, ops, 0, NULL, k.o, k.lse));
		for (done = 0; done < len; done += n) {
			n = i % 2 ? 1 + kit_random() % 70 :
				    1 + kit_random() % 5;
			n = n < len - done ? n : len - done;
			row_ptr[0] = 0;
			row_ptr[1] = n;
			only(&k, 0, before + done + n, indptr, last);
			k.attn.row_ptr = row_ptr;
			k.attn.q = k.q + done * k.attn.q_stride;
			ASSERT_EQ(0, kit_run(&k, ops, 0, NULL, o, lse));
			same_bits(&k, done, n, o, lse);
		}
		kit_free(&k);
		free(o);
		free(lse);
	}
}

TEST(chunks_scalar) { in_any_chunks("scalar"); }
TEST(chunks_avx2) { in_any_chunks("avx2"); }
TEST(chunks_avx512) { in_any_chunks("avx512"); }

/* Tokens after a row's own become NaN or infinite: not a bit may change. */
static void no_future(const char *name, float poison)
{
	const struct kva_ops *ops = kit_variant(name);
	unsigned int i;

	for (i = 0; i < 12; i++) {
		struct kit_shape shape = shape_of(i);
		uint32_t rows = 100, sees = 1 + kit_random() % 99, pos, h, d;
		float bad[KVA_DIM_MAX], *o, *lse;
		struct kit k;

		shape.nseq = 1;
		shape.len[0] = 130;
		shape.rows[0] = rows;
		kit_init(&k, &shape);
		o = kit_floats(k.nrows * k.attn.o_stride);
		lse = kit_floats(k.nrows * k.q_heads);
		ASSERT_EQ(0, kit_run(&k, ops, 0, NULL, k.o, k.lse));
		for (d = 0; d < KVA_DIM_MAX; d++)
			bad[d] = poison;
		for (pos = 30 + sees; pos < 130; pos++) {
			for (h = 0; h < shape.kv_heads; h++) {
				kit_put(&k, 0, pos, 0, h, bad);
				kit_put(&k, 0, pos, 1, h, bad);
			}
		}
		ASSERT_EQ(0, kit_run(&k, ops, 0, NULL, o, lse));
		same_bits(&k, 0, sees, o, lse);
		/* and the first that sees it is not saved from it */
		ASSERT_TRUE(!isfinite(o[sees * k.attn.o_stride]));
		kit_free(&k);
		free(o);
		free(lse);
	}
}

TEST(no_future_nan_scalar) { no_future("scalar", NAN); }
TEST(no_future_nan_avx2) { no_future("avx2", NAN); }
TEST(no_future_nan_avx512) { no_future("avx512", NAN); }
TEST(no_future_inf_scalar) { no_future("scalar", INFINITY); }
TEST(no_future_inf_avx2) { no_future("avx2", INFINITY); }
TEST(no_future_inf_avx512) { no_future("avx512", INFINITY); }

TEST_HARNESS_MAIN
