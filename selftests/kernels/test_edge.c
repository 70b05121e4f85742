// SPDX-License-Identifier: MIT
/*
 * test_edge.c - empty rows, extreme scores, addresses past 4 GiB, memory that
 * ends where a slab ends, refused arguments, and the choice of a variant.
 */
#include "kit.h"

static const struct kit_shape small = {
	.k_type = KVA_F16, .v_type = KVA_F16, .order = KVA_CPU,
	.k_dim = 64, .v_dim = 64, .kv_heads = 2, .group = 3,
	.page_tokens = 16, .nseq = 3, .len = { 40, 0, 3 },
	.rows = { 1, 1, 1 },
};

/* A row that sees nothing gives 0 and minus infinity. */
static void empty(const char *name)
{
	const struct kva_ops *ops = kit_variant(name);
	struct kit_shape s = small;
	size_t i, n;
	struct kit k;

	kit_init(&k, &s);
	for (int decode = 0; decode <= 1; decode++) {
		ASSERT_EQ(0, kit_run(&k, ops, decode, NULL, k.o, k.lse));
		n = k.attn.o_stride;
		for (i = 0; i < 3 * n; i++)
			ASSERT_EQ(i / n == 1, k.o[i] == 0);
		for (i = 0; i < 3 * k.q_heads; i++)
			ASSERT_EQ(i / k.q_heads == 1, k.lse[i] == -INFINITY);
	}
	kit_free(&k);

	/* more rows than tokens: the first ones see nothing */
	s.rows[2] = 90;
	kit_init(&k, &s);
	ASSERT_EQ(0, kit_run(&k, ops, 0, NULL, k.o, k.lse));
	for (i = 0; i < 92 * k.q_heads; i++) {
		size_t row = i / k.q_heads;

		ASSERT_EQ(row >= 1 && row < 89, k.lse[i] == -INFINITY);
	}
	kit_free(&k);

	/* no sequence, and no rows */
	s = small;
	memset(s.rows, 0, sizeof(s.rows));
	kit_init(&k, &s);
	ASSERT_EQ(0, kit_run(&k, ops, 0, NULL, k.o, k.lse));
	ASSERT_EQ(0, kit_run(&k, ops, 1, NULL, k.o, k.lse));
	k.view.nseq = 0;
	ASSERT_EQ(0, kit_run(&k, ops, 0, NULL, k.o, k.lse));
	ASSERT_EQ(0, kit_run(&k, ops, 1, NULL, k.o, k.lse));
	kit_free(&k);
}

TEST(empty_ref) { empty("ref"); }
TEST(empty_scalar) { empty("scalar"); }
TEST(empty_avx2) { empty("avx2"); }
TEST(empty_avx512) { empty("avx512"); }

/*
 * Scores of some +-@size: the weight is on the best tokens, which are as many
 * as the oracle says, and nothing becomes NaN.
 */
static void extreme(const char *name, float size, float sign)
{
	const struct kva_ops *ops = kit_variant(name);
	const struct kva_ops *ref = kit_variant("ref");
	struct kit_shape s = small;
	struct kit_error e, l;
	float *o, *lse, row[64];
	size_t i, n;
	struct kit k;

	s.k_type = KVA_F32;
	s.v_type = KVA_BF16;
	s.len[0] = 700;
	s.len[1] = 64;
	kit_init(&k, &s);
	n = 3 * (size_t)k.q_heads;
	/* scores that differ by more than their rounding: q and K of one sign */
	for (i = 0; i < n * 64; i++)
		k.q[i] = sign * size / 8;
	for (uint32_t seq = 0; seq < 3; seq++) {
		for (uint32_t pos = 0; pos < s.len[seq]; pos++) {
			for (i = 0; i < 64; i++)
				row[i] = (1 + (pos * 37 % 101) * 0.01f) / 8;
			for (uint32_t h = 0; h < 2; h++)
				kit_put(&k, seq, pos, 0, h, row);
		}
	}
	o = kit_floats(n * 64);
	lse = kit_floats(n);
	for (int decode = 0; decode <= 1; decode++) {
		memset(&e, 0, sizeof(e));
		memset(&l, 0, sizeof(l));
		ASSERT_EQ(0, kit_run(&k, ref, decode, NULL, k.o, k.lse));
		ASSERT_EQ(0, kit_run(&k, ops, decode, NULL, o, lse));
		kit_compare(&e, o, k.o, n * 64);
		kit_compare(&l, lse, k.lse, n);
		EXPECT_TRUE(e.worst <= 1e-3);
		EXPECT_TRUE(l.worst <= 1e-6);
	}
	kit_free(&k);
	free(o);
	free(lse);
}

static void extremes(const char *name)
{
	extreme(name, 1e4f, 1);
	extreme(name, 1e4f, -1);
	extreme(name, 1e30f, -1);
	extreme(name, 1e30f, 1);
	extreme(name, 1e-30f, 1);
}

TEST(extreme_scalar) { extremes("scalar"); }
TEST(extreme_avx2) { extremes("avx2"); }
TEST(extreme_avx512) { extremes("avx512"); }

/* Scores that overflow to minus infinity in f32: no token has weight. */
static void minus_infinity(const char *name)
{
	const struct kva_ops *ops = kit_variant(name);
	struct kit_shape s = small;
	float row[64];
	struct kit k;
	size_t i;

	s.k_type = KVA_F32;
	kit_init(&k, &s);
	for (i = 0; i < k.nrows * k.attn.q_stride; i++)
		k.q[i] = -3e38f;
	for (i = 0; i < 64; i++)
		row[i] = 3e38f;
	for (i = 0; i < 40; i++)
		kit_put(&k, 0, i, 0, 0, row);
	for (int decode = 0; decode <= 1; decode++) {
		ASSERT_EQ(0, kit_run(&k, ops, decode, NULL, k.o, k.lse));
		for (i = 0; i < 3 * 64; i++)
			ASSERT_TRUE(k.o[i] == 0);
		ASSERT_TRUE(k.lse[0] == -INFINITY);
	}
	kit_free(&k);
}

TEST(minus_infinity_scalar) { minus_infinity("scalar"); }
TEST(minus_infinity_avx2) { minus_infinity("avx2"); }
TEST(minus_infinity_avx512) { minus_infinity("avx512"); }

/* A value that is used and is no number shows up in its row, and only there. */
static void nan_shows(const char *name)
{
	const struct kva_ops *ops = kit_variant(name);
	struct kit_shape s = small;
	float row[64];
	struct kit k;
	size_t i;

	s.len[1] = 20;
	kit_init(&k, &s);
	for (i = 0; i < 64; i++)
		row[i] = NAN;
	kit_put(&k, 1, 7, 0, 1, row);
	for (int decode = 0; decode <= 1; decode++) {
		ASSERT_EQ(0, kit_run(&k, ops, decode, NULL, k.o, k.lse));
		for (i = 0; i < 3 * k.q_heads; i++) {
			int bad = i / 3 == 3;	/* second head, second row */

			ASSERT_EQ(bad, !!isnan(k.lse[i]));
			ASSERT_EQ(bad, !!isnan(k.o[i * 64]));
		}
	}
	kit_free(&k);
}

TEST(nan_shows_scalar) { nan_shows("scalar"); }
TEST(nan_shows_avx2) { nan_shows("avx2"); }
TEST(nan_shows_avx512) { nan_shows("avx512"); }

/*
 * The same batch with its pages far apart in a sparse mapping, and K and V
 * far apart in a page: the same bits.
 */
static void far(const char *name)
{
	const struct kva_ops *ops = kit_variant(name);
	struct kit_shape s = small;
	size_t gap = (size_t)5 << 30, size, n, i;
	float *o, *lse;
	char *base;
	struct kit k;

	s.len[1] = 17;
	kit_init(&k, &s);
	size = gap * (k.npages + 1);
	base = mmap(NULL, size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		SKIP(return, "no address space of %zu GiB", size >> 30);
	n = k.nrows * k.attn.o_stride;
	o = kit_floats(n);
	lse = kit_floats(k.nrows * k.q_heads);
	ASSERT_EQ(0, kit_run(&k, ops, 1, NULL, k.o, k.lse));
	for (i = 0; i < k.npages; i++) {
		size_t k_size = s.kv_heads * k.view.k_head_stride;

		memcpy(base + i * gap + 64,
		       k.arena + i * k.view.page_stride + k.view.k_off, k_size);
		memcpy(base + i * gap + gap - k_size,
		       k.arena + i * k.view.page_stride + k.view.v_off, k_size);
	}
	k.view.base = base;
	k.view.page_stride = gap;
	k.view.k_off = 64;
	k.view.v_off = gap - s.kv_heads * k.view.v_head_stride;
	ASSERT_EQ(0, kit_run(&k, ops, 1, NULL, o, lse));
	ASSERT_EQ(0, memcmp(o, k.o, n * sizeof(float)));
	ASSERT_EQ(0, kit_run(&k, ops, 0, NULL, o, lse));
	for (i = 0; i < n; i++)
		ASSERT_TRUE(fabsf(o[i] - k.o[i]) <= 1e-5f);
	munmap(base, size);
	kit_free(&k);
	free(o);
	free(lse);
}

/* Pages of a usual size with numbers past 2^16 and past 4 GiB. */
static void many_pages(const char *name)
{
	const struct kva_ops *ops = kit_variant(name);
	struct kit_shape s = small;
	uint32_t spread = 300007, i;
	size_t size, n;
	float *o, *lse;
	char *base;
	struct kit k;

	s.len[1] = 17;
	kit_init(&k, &s);
	size = k.view.page_stride * (spread * (size_t)k.npages + 1);
	ASSERT_TRUE(size > (size_t)8 << 30);
	base = mmap(NULL, size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		SKIP(return, "no address space of %zu GiB", size >> 30);
	n = k.nrows * k.attn.o_stride;
	o = kit_floats(n);
	lse = kit_floats(k.nrows * k.q_heads);
	ASSERT_EQ(0, kit_run(&k, ops, 1, NULL, k.o, k.lse));
	for (i = 0; i < k.npages; i++)
		memcpy(base + (size_t)i * spread * k.view.page_stride,
		       k.arena + i * k.view.page_stride, k.view.page_stride);
	for (i = 0; i < k.npages; i++)
		k.indices[i] *= spread;
	k.view.base = base;
	ASSERT_EQ(0, kit_run(&k, ops, 1, NULL, o, lse));
	ASSERT_EQ(0, memcmp(o, k.o, n * sizeof(float)));
	munmap(base, size);
	kit_free(&k);
	free(o);
	free(lse);
}

TEST(far_ref) { far("ref"); many_pages("ref"); }
TEST(far_scalar) { far("scalar"); many_pages("scalar"); }
TEST(far_avx2) { far("avx2"); many_pages("avx2"); }
TEST(far_avx512) { far("avx512"); many_pages("avx512"); }

/* @n bytes that end where the next page cannot be touched. */
static char *guarded(size_t n, char **map, size_t *map_size)
{
	size_t page = sysconf(_SC_PAGESIZE);

	*map_size = (n + page - 1) / page * page + page;
	*map = mmap(NULL, *map_size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*map == MAP_FAILED ||
	    mprotect(*map + *map_size - page, page, PROT_NONE))
		exit(HT_FAIL);
	return *map + *map_size - page - n;
}

/* Neither pages nor scratch are touched past their ends. */
static void bounds(const char *name)
{
	static const uint32_t page_tokens[] = { 1, 3, 8, 24, 40, 88 };
	const struct kva_ops *ops = kit_variant(name);
	char *arena_map, *ws_map, *arena;
	size_t arena_size, ws_size, n;
	struct kva_attn a;
	unsigned int i;

	for (i = 0; i < 6 * KVA_NR_TYPES * 2; i++) {
		struct kit_shape s = {
			.k_type = i / 12, .v_type = i / 12, .order = i % 2,
			.k_dim = 80, .v_dim = 112, .kv_heads = 2, .group = 5,
			.page_tokens = page_tokens[i / 2 % 6], .split = 64,
			.nseq = 2, .len = { 130, page_tokens[i / 2 % 6] },
			.rows = { 1, 1 },
		};
		struct kit k;

		kit_init(&k, &s);
		arena = guarded(k.arena_size, &arena_map, &arena_size);
		memcpy(arena, k.arena, k.arena_size);
		k.view.base = arena;
		/* the last page of the memory is in use */
		for (n = 0; n < k.npages; n++)
			if (k.indices[n] == k.npages - 1)
				k.indices[n] = k.indices[0];
		memcpy(arena + (k.npages - 1) * k.view.page_stride,
		       arena + k.indices[0] * k.view.page_stride,
		       k.view.page_stride);
		k.indices[0] = k.npages - 1;
		a = k.attn;
		n = kva_workspace(&a, NULL);
		a.ws = guarded(n / 64 * 64, &ws_map, &ws_size);
		ASSERT_EQ(0, n % 64);
		ASSERT_EQ(0, ops->decode(&a, NULL));
		ASSERT_EQ(0, ops->prefill(&a, NULL));
		munmap(arena_map, arena_size);
		munmap(ws_map, ws_size);
		kit_free(&k);
	}
}

TEST(bounds_scalar) { bounds("scalar"); }
TEST(bounds_avx2) { bounds("avx2"); }
TEST(bounds_avx512) { bounds("avx512"); }

/* Each wrong argument alone is refused, and nothing is written. */
#define REFUSED(k, ops, field, value)					\
	do {								\
		struct kit saved = k;					\
									\
		field = value;						\
		k.o[0] = 5;						\
		EXPECT_EQ(-EINVAL, (ops)->prefill(&k.attn, NULL));	\
		EXPECT_EQ(-EINVAL, (ops)->decode(&k.attn, NULL));	\
		EXPECT_TRUE(k.o[0] == 5);				\
		k = saved;						\
	} while (0)

static void refused(const char *name)
{
	const struct kva_ops *ops = kit_variant(name);
	struct kit_shape s = small;
	struct kva_append ap;
	uint32_t row_ptr[4];
	struct kit k;

	s.order = KVA_ROW;
	kit_init(&k, &s);
	k.attn.ws = kit_alloc(kva_workspace(&k.attn, NULL));
	ASSERT_EQ(0, ops->decode(&k.attn, NULL));
	REFUSED(k, ops, k.view.page_tokens, 0);
	REFUSED(k, ops, k.view.kv_heads, 0);
	REFUSED(k, ops, k.view.kv_heads, 3);
	REFUSED(k, ops, k.view.k_type, KVA_NR_TYPES);
	REFUSED(k, ops, k.view.v_type, KVA_NR_TYPES);
	REFUSED(k, ops, k.view.order, KVA_CPU + 1);
	REFUSED(k, ops, k.view.k_dim, 0);
	REFUSED(k, ops, k.view.k_dim, 63);
	REFUSED(k, ops, k.view.v_dim, 8);
	REFUSED(k, ops, k.view.v_dim, KVA_DIM_MAX + 16);
	REFUSED(k, ops, k.view.k_off, 2);
	REFUSED(k, ops, k.view.v_off, k.view.page_stride);
	REFUSED(k, ops, k.view.v_off, UINT64_MAX - 3);
	REFUSED(k, ops, k.view.k_head_stride, 64);
	REFUSED(k, ops, k.view.v_head_stride, UINT64_MAX - 3);
	REFUSED(k, ops, k.view.page_stride, 4096);
	REFUSED(k, ops, k.view.base, NULL);
	REFUSED(k, ops, k.view.indptr, NULL);
	REFUSED(k, ops, k.view.indices, NULL);
	REFUSED(k, ops, k.view.last_page_len, NULL);
	REFUSED(k, ops, k.last[0], 0);
	REFUSED(k, ops, k.last[0], 17);
	REFUSED(k, ops, k.indptr[1], 0);
	REFUSED(k, ops, k.row_ptr[1], 4);
	REFUSED(k, ops, k.attn.row_ptr, NULL);
	REFUSED(k, ops, k.attn.q, NULL);
	REFUSED(k, ops, k.attn.o, NULL);
	REFUSED(k, ops, k.attn.ws, NULL);
	REFUSED(k, ops, k.attn.ws, (char *)k.attn.ws + 4);
	REFUSED(k, ops, k.attn.q_heads, 0);
	REFUSED(k, ops, k.attn.q_heads, 5);
	REFUSED(k, ops, k.attn.scale, NAN);
	REFUSED(k, ops, k.attn.split, 8);

	/* decode takes one row a sequence */
	memcpy(row_ptr, (uint32_t[]) { 0, 2, 2, 3 }, sizeof(row_ptr));
	k.attn.row_ptr = row_ptr;
	EXPECT_EQ(-EINVAL, ops->decode(&k.attn, NULL));
	EXPECT_EQ(0, ops->prefill(&k.attn, NULL));

	ap = (struct kva_append) {
		.kv = &k.view, .row_ptr = row_ptr, .k = k.q, .v = k.q,
		.k_stride = 128, .v_stride = 128, .rope = KVA_ROPE_HALF,
		.rot_dim = 64,
	};
	EXPECT_EQ(-EINVAL, ops->append(&ap, NULL));	/* no table */
	ap.rope = KVA_ROPE_HALF + 1;
	EXPECT_EQ(-EINVAL, ops->append(&ap, NULL));
	ap.rope = KVA_ROPE_NONE;
	EXPECT_EQ(0, ops->append(&ap, NULL));
	ap.v = NULL;
	EXPECT_EQ(-EINVAL, ops->append(&ap, NULL));
	ap.v = k.q;
	row_ptr[2] = 3;		/* a row of a sequence without tokens */
	EXPECT_EQ(-EINVAL, ops->append(&ap, NULL));
	free(k.attn.ws);
	k.attn.ws = NULL;
	kit_free(&k);
}

TEST(refused_ref) { refused("ref"); }
TEST(refused_scalar) { refused("scalar"); }
TEST(refused_avx2) { refused("avx2"); }
TEST(refused_avx512) { refused("avx512"); }

TEST(choice)
{
	const struct kva_ops *ops;
	unsigned int i, seen = 0;
	int runnable, best;

	unsetenv("KVATTN_ISA");
	for (i = 0; (ops = kva_variant(i, &runnable)); i++) {
		if (runnable && !seen++)
			ASSERT_STREQ(ops->name, kva_config()->name);
		setenv("KVATTN_ISA", ops->name, 1);
		ASSERT_EQ(runnable, kva_config() == ops);
		ASSERT_EQ(!runnable, kva_config() == NULL);
		ASSERT_EQ(runnable, kva_isa() >= 0);
		unsetenv("KVATTN_ISA");
	}
	ASSERT_EQ(4, i);
	ASSERT_STREQ("ref", kva_variant(3, NULL)->name);
	setenv("KVATTN_ISA", "mmx", 1);
	ASSERT_TRUE(kva_config() == NULL);
	ASSERT_EQ(-EOPNOTSUPP, kva_isa());
	setenv("KVATTN_ISA", "ref", 1);
	ASSERT_EQ(KVA_SCALAR, kva_isa());
	unsetenv("KVATTN_ISA");
	best = kva_isa();
	setenv("KVATTN_ISA", "", 1);
	ASSERT_EQ(best, kva_isa());
	ASSERT_TRUE(kva_config() == kva_variant(0, NULL) ||
		    (kva_variant(0, &runnable) && !runnable));
}

TEST_HARNESS_MAIN
