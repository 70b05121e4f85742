// SPDX-License-Identifier: MIT
/*
 * test_layout.c - how a page is divided, and what conversations cost.
 */
#include "harness.h"
#include "internal.h"

/* SmolLM2-135M: 30 layers, 9 query heads on 3 KV heads of 64. */
static struct kvc_group smol = {
	.kv_heads = 3, .k_dim = 64, .v_dim = 64,
	.k_type = KVC_F16, .v_type = KVC_F16,
};

#define NR_TYPES (KVC_INT4H + 1)

static struct kvc_model model_of(const struct kvc_group *g, uint32_t layers,
				 uint32_t q_heads)
{
	return (struct kvc_model) {
		.sz = sizeof(struct kvc_model),
		.nlayers = layers,
		.ngroups = 1,
		.groups = g,
		.q_heads = q_heads,
	};
}

TEST(a_real_model)
{
	struct kvc_model m = model_of(&smol, 30, 9);
	struct kvc_group g = smol;
	struct kvc_footprint f;

	ASSERT_EQ(0, kvc_footprint(&m, 2 << 20, 100, 3, &f));
	EXPECT_EQ(88, f.page_tokens);
	EXPECT_EQ(16, f.block_tokens);
	EXPECT_EQ(23040, f.bytes_per_token);
	EXPECT_EQ(6, f.pages);
	EXPECT_EQ(6 * 2097152, f.held_bytes);
	EXPECT_EQ(300 * 23040, f.used_bytes);
	EXPECT_EQ(6 * (2097152 - 88 * 23040), f.layout_bytes);
	EXPECT_EQ(3 * 76 * 23040, f.unused_bytes);

	m.groups = &g;
	g.k_type = g.v_type = KVC_F32;
	ASSERT_EQ(0, kvc_footprint(&m, 2 << 20, 100, 1, &f));
	EXPECT_EQ(40, f.page_tokens);
	EXPECT_EQ(46080, f.bytes_per_token);
	EXPECT_EQ(3, f.pages);
	g.k_type = g.v_type = KVC_BF16;
	ASSERT_EQ(0, kvc_footprint(&m, 2 << 20, 0, 5, &f));
	EXPECT_EQ(88, f.page_tokens);
	EXPECT_EQ(0, f.pages);
	EXPECT_EQ(0, f.held_bytes);
}

/* What a token of SmolLM2 takes: 30 layers, 3 heads, rows of 64 and scales. */
TEST(bytes_of_each_type)
{
	static const struct {
		uint32_t type, row, page_tokens;
	} want[] = {
		{ KVC_F32, 256, 40 }, { KVC_F16, 128, 88 },
		{ KVC_BF16, 128, 88 }, { KVC_INT8, 64 + 4, 168 },
		{ KVC_E4M3, 64 + 4, 168 }, { KVC_E4M3T, 64, 176 },
		{ KVC_INT4, 32 + 2 * 4, 288 }, { KVC_INT4H, 32 + 2 * 4, 288 },
	};
	struct kvc_group g = smol;
	struct kvc_model m = model_of(&g, 30, 9);
	struct kvc_footprint f;

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		g.k_type = g.v_type = want[i].type;
		ASSERT_EQ(0, kvc_footprint(&m, 2 << 20, 1000, 1, &f));
		EXPECT_EQ(2 * 30 * 3 * want[i].row, f.bytes_per_token);
		EXPECT_EQ(want[i].page_tokens, f.page_tokens);
	}
	/* K and V of one size in elements, not in bytes. */
	g.k_type = KVC_INT8;
	g.v_type = KVC_INT4;
	ASSERT_EQ(0, kvc_footprint(&m, 2 << 20, 1000, 1, &f));
	EXPECT_EQ(30 * 3 * (68 + 40), f.bytes_per_token);
}

TEST(heads_of_mha_gqa_mqa)
{
	static const uint32_t heads[] = { 32, 8, 1 };
	struct kvc_group g = { .k_dim = 128, .v_dim = 128,
			       .k_type = KVC_BF16, .v_type = KVC_BF16 };
	struct kvc_model m = model_of(&g, 4, 32);
	struct kvc_footprint f;

	for (int i = 0; i < 3; i++) {
		g.kv_heads = heads[i];
		ASSERT_EQ(0, kvc_footprint(&m, 2 << 20, 1000, 2, &f));
		EXPECT_EQ(2ULL * 4 * heads[i] * 128 * 2, f.bytes_per_token);
		EXPECT_EQ(f.bytes_per_token * 2000, f.used_bytes);
		EXPECT_EQ(f.held_bytes,
			  f.used_bytes + f.layout_bytes + f.unused_bytes);
	}
	/* K and V of different shape and type. */
	g = (struct kvc_group) { .kv_heads = 2, .k_dim = 192, .v_dim = 128,
				 .k_type = KVC_F32, .v_type = KVC_F16 };
	ASSERT_EQ(0, kvc_footprint(&m, 2 << 20, 1, 1, &f));
	EXPECT_EQ(4 * 2 * (192 * 4 + 128 * 2), f.bytes_per_token);
}

/* One layer, one head of 16 f32: 128 bytes a token. */
static struct kvc_group small = { .kv_heads = 1, .k_dim = 16, .v_dim = 16 };

TEST(page_and_block_tokens)
{
	static const struct {
		uint32_t page_size, page_tokens, block;
	} want[] = {
		{ 128, 1, 1 }, { 256, 2, 2 }, { 1024, 8, 8 },
		{ 2048, 16, 16 }, { 4096, 32, 16 },
		{ 32768, 256, 16 }, { 65536, 512, 32 }, { 1 << 20, 8192, 512 },
	};
	struct kvc_model m = model_of(&small, 1, 1);
	struct kvc_group g;
	struct kvc_layout l;
	size_t i;

	for (i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		ASSERT_EQ(0, kvc_layout_init(&l, &m, want[i].page_size, NULL, 0));
		EXPECT_EQ(want[i].page_tokens, l.group[0].page_tokens);
		EXPECT_EQ(want[i].block, l.group[0].block_tokens);
	}
	/* 3 heads: 5.33, 10.67, 21.33, 42.67 tokens fit */
	g = small;
	g.kv_heads = 3;
	m.groups = &g;
	m.q_heads = 3;
	ASSERT_EQ(0, kvc_layout_init(&l, &m, 2048, NULL, 0));
	EXPECT_EQ(5, l.group[0].page_tokens);
	ASSERT_EQ(0, kvc_layout_init(&l, &m, 4096, NULL, 0));
	EXPECT_EQ(10, l.group[0].page_tokens);
	ASSERT_EQ(0, kvc_layout_init(&l, &m, 8192, NULL, 0));
	EXPECT_EQ(16, l.group[0].page_tokens);
	ASSERT_EQ(0, kvc_layout_init(&l, &m, 16384, NULL, 0));
	EXPECT_EQ(40, l.group[0].page_tokens);
	EXPECT_EQ(16, l.group[0].block_tokens);
	/* Given: 264 tokens need blocks of 32. */
	m.groups = &small;
	m.page_tokens = 264;
	ASSERT_EQ(0, kvc_layout_init(&l, &m, 65536, NULL, 0));
	EXPECT_EQ(264, l.group[0].page_tokens);
	EXPECT_EQ(32, l.group[0].block_tokens);
}

TEST(what_is_refused)
{
	struct kvc_model m = model_of(&small, 1, 1), bad;
	uint8_t layers[2] = { 0, 1 };
	struct kvc_group g;
	struct kvc_footprint f;
	struct kvc_layout l;
	char why[160];

#define REFUSED(err, change)						\
	do {								\
		bad = m;						\
		g = small;						\
		bad.groups = &g;					\
		change;							\
		why[0] = '\0';						\
		EXPECT_EQ(err, kvc_layout_init(&l, &bad, 2048, why,	\
					       sizeof(why)));		\
		EXPECT_NE('\0', why[0]);				\
	} while (0)
	REFUSED(-EINVAL, bad.nlayers = 0);
	REFUSED(-EINVAL, bad.nlayers = KVC_MAX_LAYERS + 1);
	REFUSED(-EINVAL, bad.ngroups = 0);
	REFUSED(-EINVAL, bad.ngroups = KVC_MAX_GROUPS + 1);
	REFUSED(-EINVAL, bad.groups = NULL);
	REFUSED(-EINVAL, bad.q_heads = 0);
	REFUSED(-EINVAL, bad.q_heads = 65537);
	REFUSED(-EINVAL, bad.q_heads = UINT32_MAX);
	REFUSED(-EINVAL, g.kv_heads = 0);
	REFUSED(-EINVAL, g.kv_heads = 2);
	REFUSED(-EINVAL, g.k_dim = 0);
	REFUSED(-EINVAL, g.v_dim = 24);
	REFUSED(-EINVAL, g.k_dim = KVA_DIM_MAX + 16);
	REFUSED(-EINVAL, g.k_type = KVC_INT4H + 1);
	REFUSED(-EINVAL, g.v_type = KVC_INT4H + 1);
	REFUSED(-EINVAL, bad.page_tokens = 17);
	REFUSED(-E2BIG, bad.page_tokens = 24);
	REFUSED(-E2BIG, g.k_dim = 512);
	REFUSED(-EINVAL, g.sinks = 4);
	bad = m;
	bad.q_heads = 65536;
	/* A group without a layer, a layer without a group. */
	REFUSED(-EINVAL, (bad.nlayers = 2, bad.layer_group = layers));
#undef REFUSED
	EXPECT_EQ(-EINVAL, kvc_footprint(&m, 32, 1, 1, &f));
	EXPECT_EQ(-EINVAL, kvc_footprint(&m, 3000, 1, 1, &f));
	EXPECT_EQ(-EINVAL, kvc_footprint(&m, 128 << 20, 1, 1, &f));
	EXPECT_EQ(-E2BIG, kvc_footprint(&m, 64, 1, 1, &f));
	EXPECT_EQ(-EOVERFLOW, kvc_footprint(&m, 2048, 1ULL << 40, 1ULL << 40,
					    &f));
	m.sz = 4;
	EXPECT_EQ(-EINVAL, kvc_footprint(&m, 2048, 1, 1, &f));
}

TEST(options_of_another_version)
{
	struct {
		struct kvc_model m;
		uint64_t more;
	} next = { .m = model_of(&small, 1, 1) };
	struct kvc_footprint f;

	/* Longer: what is not known must be zero. */
	next.m.sz = sizeof(next);
	EXPECT_EQ(0, kvc_footprint(&next.m, 2048, 1, 1, &f));
	next.more = 1;
	EXPECT_EQ(-EINVAL, kvc_footprint(&next.m, 2048, 1, 1, &f));
	/* Shorter: what is not there is zero. */
	next.m.page_tokens = 4;
	next.m.sz = offsetof(struct kvc_model, page_tokens);
	ASSERT_EQ(0, kvc_footprint(&next.m, 2048, 1, 1, &f));
	EXPECT_EQ(16, f.page_tokens);
}

/* Every slab of every layer lies in the page, and no two share a byte. */
static void check_slabs(const struct kvc_model *m, uint64_t page_size)
{
	struct kvc_layout l;
	struct kva_view v;
	char *page;
	int rc;

	rc = kvc_layout_init(&l, m, page_size, NULL, 0);
	if (rc == -E2BIG)
		return;
	ASSERT_EQ(0, rc);
	for (uint32_t g = 0; g < l.ngroups; g++) {
		page = calloc(1, page_size);
		for (uint32_t i = 0; i < l.nlayers; i++) {
			if (l.layer_group[i] != g)
				continue;
			kvc_layout_view(&l, i, page, &v);
			ASSERT_EQ(page_size, v.page_stride);
			for (uint32_t h = 0; h < 2 * v.kv_heads; h++) {
				int is_v = h & 1;
				size_t at = is_v ?
					v.v_off + h / 2 * v.v_head_stride :
					v.k_off + h / 2 * v.k_head_stride;
				size_t n = kva_slab_size(is_v ? v.v_type :
							 v.k_type, v.order,
							 is_v, v.page_tokens,
							 is_v ? v.v_dim :
							 v.k_dim);

				ASSERT_LE(at + n, page_size);
				ASSERT_EQ(0, at % 4);
				for (size_t b = at; b < at + n; b++)
					ASSERT_EQ(0, page[b]++);
			}
		}
		free(page);
	}
}

TEST(slabs_do_not_overlap)
{
	static const uint8_t layers[] = { 0, 1, 1, 0, 1 };
	struct kvc_group g[2];
	struct kvc_model m = {
		.sz = sizeof(m), .nlayers = 5, .ngroups = 2, .groups = g,
		.layer_group = layers, .q_heads = 6,
	};

	for (uint32_t size = 256; size <= 131072; size *= 2) {
		for (uint32_t t = 0; t < 2 * NR_TYPES * NR_TYPES; t++) {
			uint32_t a = t % NR_TYPES, b = t / NR_TYPES % NR_TYPES;

			g[0] = (struct kvc_group) {
				.kv_heads = 3, .k_dim = 16, .v_dim = 48,
				.k_type = a, .v_type = b,
			};
			g[1] = (struct kvc_group) {
				.kv_heads = 1, .k_dim = 80, .v_dim = 64,
				.k_type = b, .v_type = a,
			};
			m.row_major = t / (NR_TYPES * NR_TYPES);
			check_slabs(&m, size);
		}
	}
}

/*
 * What a page's bytes mean has a name of its own. Each change is to one member:
 * pages are of one size, with the same tokens and blocks unless they are it.
 */
TEST(fingerprints)
{
	static const uint8_t one[] = { 0, 1 }, other[] = { 1, 0 };
	struct kvc_group g[2] = { small, small };
	struct kvc_model m = model_of(g, 2, 2), n;
	struct kvc_layout a, b;

	m.page_tokens = 24;
	ASSERT_EQ(0, kvc_layout_init(&a, &m, 16384, NULL, 0));
	ASSERT_EQ(0, kvc_layout_init(&b, &m, 16384, NULL, 0));
	EXPECT_EQ(0, memcmp(a.group[0].fingerprint, b.group[0].fingerprint, 32));
	EXPECT_EQ(16, a.group[0].block_tokens);
#define DIFFERS(change)							\
	do {								\
		n = m;							\
		g[0] = g[1] = small;					\
		change;							\
		ASSERT_EQ(0, kvc_layout_init(&b, &n, 16384, NULL, 0));	\
		EXPECT_EQ(16, b.group[0].block_tokens);			\
		EXPECT_NE(0, memcmp(a.group[0].fingerprint,		\
				    b.group[0].fingerprint, 32));	\
	} while (0)
	DIFFERS(n.id[31] = 1);
	DIFFERS(n.epoch = 1);
	DIFFERS(n.nlayers = 1);
	DIFFERS(n.row_major = 1);
	DIFFERS(n.page_tokens = 16);
	DIFFERS(g[0].kv_heads = 2);
	DIFFERS(g[0].k_dim = 32);
	DIFFERS(g[0].v_dim = 32);
	DIFFERS(g[0].k_type = KVC_F16);
	DIFFERS(g[0].v_type = KVC_BF16);
	DIFFERS((n.ngroups = 2, n.layer_group = one));
	/* Two 16-bit types: rows of one size, bits of other meaning. */
	g[0] = small;
	g[0].k_type = g[0].v_type = KVC_BF16;
	ASSERT_EQ(0, kvc_layout_init(&a, &m, 16384, NULL, 0));
	DIFFERS((g[0].k_type = KVC_F16, g[0].v_type = KVC_BF16));
	DIFFERS((g[0].k_type = KVC_BF16, g[0].v_type = KVC_F16));
	/* Of 8 and 4 bits: as many slots, as the caller says. */
	g[0] = small;
	g[0].k_type = g[0].v_type = KVC_INT8;
	ASSERT_EQ(0, kvc_layout_init(&a, &m, 16384, NULL, 0));
	DIFFERS((g[0].k_type = KVC_E4M3, g[0].v_type = KVC_INT8));
	DIFFERS((g[0].k_type = KVC_INT8, g[0].v_type = KVC_E4M3));
	DIFFERS((g[0].k_type = KVC_INT4, g[0].v_type = KVC_INT8));
	g[0] = small;
	g[0].k_type = g[0].v_type = KVC_INT4;
	ASSERT_EQ(0, kvc_layout_init(&a, &m, 16384, NULL, 0));
	DIFFERS((g[0].k_type = KVC_INT4H, g[0].v_type = KVC_INT4));
	DIFFERS((g[0].k_type = KVC_INT4, g[0].v_type = KVC_INT4H));
	/* Scales that are given: of K, of V, of a layer; the order counts. */
	m.k_scales = (const float[]) { 1, 2 };
	m.v_scales = (const float[]) { 3, 4 };
	g[0] = small;
	g[0].k_type = g[0].v_type = KVC_E4M3T;
	ASSERT_EQ(0, kvc_layout_init(&a, &m, 16384, NULL, 0));
#define DIFFERENT_SCALES(...)						\
	DIFFERS((g[0].k_type = g[0].v_type = KVC_E4M3T, __VA_ARGS__))
	DIFFERENT_SCALES(n.k_scales = (const float[]) { 1, 3 });
	DIFFERENT_SCALES(n.v_scales = (const float[]) { 3, 5 });
	DIFFERENT_SCALES(n.k_scales = m.v_scales, n.v_scales = m.k_scales);
#undef DIFFERENT_SCALES
#undef DIFFERS
	n = m;
	n.k_scales = (const float[]) { 1, 3 };
	g[0].k_type = KVC_INT8;
	ASSERT_EQ(0, kvc_layout_init(&a, &m, 16384, NULL, 0));
	ASSERT_EQ(0, kvc_layout_init(&b, &n, 16384, NULL, 0));
	EXPECT_EQ(0, memcmp(a.group[0].fingerprint, b.group[0].fingerprint, 32));
	m.k_scales = m.v_scales = NULL;
	/* Two groups of one shape, and the same groups of other layers. */
	n = m;
	g[0] = g[1] = small;
	n.ngroups = 2;
	n.layer_group = one;
	ASSERT_EQ(0, kvc_layout_init(&a, &n, 16384, NULL, 0));
	EXPECT_NE(0, memcmp(a.group[0].fingerprint, a.group[1].fingerprint, 32));
	n.layer_group = other;
	ASSERT_EQ(0, kvc_layout_init(&b, &n, 16384, NULL, 0));
	EXPECT_NE(0, memcmp(a.group[0].fingerprint, b.group[0].fingerprint, 32));
	EXPECT_NE(0, memcmp(a.group[0].fingerprint, b.group[1].fingerprint, 32));
}

/*
 * Other processes find pages by it, whatever their library was built from; the
 * value is of Python's hashlib:
 *
 *	v = [1, 1, 3, 1, 2, 2, 32, 48, 1, 2, 0, 0, 24, 16]
 *	sha256(pack("<14I", *v) + bytes(range(32)) + pack("<Q", 7 << 32 | 5) +
 *	       bytes([1, 0, 1])).hexdigest()
 *
 * version, group, layers, order, layers of the group, KV heads, dimensions and
 * types of K and V, window, sinks, tokens of a page and a block; @id; @epoch;
 * each layer's group.
 */
TEST(fingerprint_known_answer)
{
	static const char want[] =
		"118613b80169ff3b57629d09315c3637977ecf2c64642e7dac5d94d9bb87b1ac";
	static const uint8_t layers[] = { 1, 0, 1 };
	struct kvc_group g[2] = { small, {
		.kv_heads = 2, .k_dim = 32, .v_dim = 48,
		.k_type = KVC_F16, .v_type = KVC_BF16,
	} };
	struct kvc_model m = model_of(g, 3, 2);
	struct kvc_layout l;
	char is[65];

	m.ngroups = 2;
	m.layer_group = layers;
	m.page_tokens = 24;
	m.epoch = 7ULL << 32 | 5;
	for (int i = 0; i < 32; i++)
		m.id[i] = i;
	ASSERT_EQ(0, kvc_layout_init(&l, &m, 16384, NULL, 0));
	for (int i = 0; i < 32; i++)
		sprintf(is + 2 * i, "%02x", l.group[1].fingerprint[i]);
	EXPECT_STREQ(want, is);
}

TEST_HARNESS_MAIN
