// SPDX-License-Identifier: MIT
/*
 * test_merge.c - joining partial results: empties, order, grouping, and that
 * attention over parts is attention over the whole.
 */
#include "kit.h"

#define ROWS 7
#define DIM 80

struct part {
	float o[ROWS][DIM];
	float lse[ROWS];
};

static void fill(struct part *p)
{
	int r, d;

	for (r = 0; r < ROWS; r++) {
		p->lse[r] = 6 * kit_uniform();
		for (d = 0; d < DIM; d++)
			p->o[r][d] = kit_uniform();
	}
}

static void make_empty(struct part *p)
{
	int r, d;

	for (r = 0; r < ROWS; r++) {
		p->lse[r] = -INFINITY;
		for (d = 0; d < DIM; d++)
			p->o[r][d] = r % 2 ? 0 : NAN;	/* must not matter */
	}
}

static void join(const struct kva_ops *ops, const struct part *parts, int n,
		 struct part *out)
{
	float o[8][ROWS][DIM], lse[8][ROWS];
	struct kva_merge m = {
		.n = n, .rows = ROWS, .dim = DIM, .o = &o[0][0][0],
		.lse = &lse[0][0], .out = &out->o[0][0], .out_lse = out->lse,
	};
	int i;

	for (i = 0; i < n; i++) {
		memcpy(o[i], parts[i].o, sizeof(o[i]));
		memcpy(lse[i], parts[i].lse, sizeof(lse[i]));
	}
	ASSERT_EQ(0, ops->merge(&m));
}

static void near(const struct part *a, const struct part *b)
{
	struct kit_error e = { 0 };

	kit_compare(&e, &a->o[0][0], &b->o[0][0], ROWS * DIM);
	kit_compare(&e, a->lse, b->lse, ROWS);
	EXPECT_TRUE(e.worst <= 1e-6);
}

static void rules(const char *name)
{
	const struct kva_ops *ops = kit_variant(name);
	const struct kva_ops *ref = kit_variant("ref");
	struct part p[8], a, b, c;
	int i, r, d;

	for (i = 0; i < 50; i++) {
		for (r = 0; r < 8; r++)
			fill(&p[r]);
		/* as the oracle */
		join(ops, p, 8, &a);
		join(ref, p, 8, &b);
		near(&a, &b);
		/* a list is its pairs */
		c = p[0];
		for (r = 1; r < 8; r++) {
			struct part two[2] = { c, p[r] };

			join(ops, two, 2, &c);
		}
		near(&a, &c);
		/* commutative, associative */
		join(ops, (struct part[]) { p[0], p[1] }, 2, &b);
		join(ops, (struct part[]) { p[1], p[0] }, 2, &c);
		near(&b, &c);
		join(ops, (struct part[]) { b, p[2] }, 2, &a);
		join(ops, (struct part[]) { p[1], p[2] }, 2, &b);
		join(ops, (struct part[]) { p[0], b }, 2, &c);
		near(&a, &c);
	}

	/* an empty part changes no bit, wherever it stands */
	make_empty(&p[3]);
	join(ops, p, 1, &a);
	ASSERT_EQ(0, memcmp(a.o, p[0].o, sizeof(a.o)));
	join(ops, (struct part[]) { p[3], p[0] }, 2, &b);
	ASSERT_EQ(0, memcmp(&a, &b, sizeof(a)));
	join(ops, (struct part[]) { p[0], p[3], p[3] }, 3, &b);
	ASSERT_EQ(0, memcmp(&a, &b, sizeof(a)));

	/* all empty, and nothing at all */
	for (i = 0; i <= 2; i++) {
		fill(&a);
		join(ops, (struct part[]) { p[3], p[3] }, i, &a);
		for (r = 0; r < ROWS; r++) {
			ASSERT_TRUE(a.lse[r] == -INFINITY);
			for (d = 0; d < DIM; d++)
				ASSERT_TRUE(a.o[r][d] == 0);
		}
	}

	/* scores far apart, and far from 0 */
	for (r = 0; r < ROWS; r++) {
		p[0].lse[r] = 1e4f;
		p[1].lse[r] = -1e4f;
		p[2].lse[r] = -1e30f;
	}
	join(ops, p, 3, &a);
	ASSERT_EQ(0, memcmp(a.o, p[0].o, sizeof(a.o)));
	ASSERT_TRUE(a.lse[0] == 1e4f);
	join(ops, &p[2], 1, &a);
	ASSERT_EQ(0, memcmp(a.o, p[2].o, sizeof(a.o)));
	ASSERT_TRUE(a.lse[0] == -1e30f);

	/* what is not a number is not hidden */
	p[1].lse[2] = NAN;
	join(ops, p, 2, &a);
	ASSERT_TRUE(isnan(a.lse[2]) && isnan(a.o[2][0]));
	ASSERT_TRUE(!isnan(a.lse[3]) && !isnan(a.o[3][0]));
}

TEST(rules_ref) { rules("ref"); }
TEST(rules_scalar) { rules("scalar"); }
TEST(rules_avx2) { rules("avx2"); }
TEST(rules_avx512) { rules("avx512"); }

/* A cascade: a shared prefix and each sequence's own tokens, joined. */
static void cascade(const char *name)
{
	const struct kva_ops *ops = kit_variant(name);
	struct kit_shape s = {
		.k_type = KVA_F16, .v_type = KVA_F16, .order = KVA_CPU,
		.k_dim = 64, .v_dim = DIM, .kv_heads = 1, .group = ROWS,
		.page_tokens = 16, .nseq = 1, .len = { 149 }, .rows = { 1 },
	};
	uint32_t indptr[2] = { 0, 8 }, last[1] = { 16 };
	struct part whole, parts[2], both;
	struct kit_error e = { 0 };
	struct kit k;

	kit_init(&k, &s);
	ASSERT_EQ(0, kit_run(&k, ops, 1, NULL, &whole.o[0][0], whole.lse));
	k.view.indptr = indptr;
	k.view.last_page_len = last;
	ASSERT_EQ(0, kit_run(&k, ops, 1, NULL, &parts[0].o[0][0],
			     parts[0].lse));
	indptr[0] = 8;
	indptr[1] = 10;
	last[0] = 149 - 144;
	ASSERT_EQ(0, kit_run(&k, ops, 1, NULL, &parts[1].o[0][0],
			     parts[1].lse));
	join(ops, parts, 2, &both);
	kit_compare(&e, &both.o[0][0], &whole.o[0][0], ROWS * DIM);
	kit_compare(&e, both.lse, whole.lse, ROWS);
	ASSERT_TRUE(e.worst <= 1e-6);
	kit_free(&k);
}

TEST(cascade_scalar) { cascade("scalar"); }
TEST(cascade_avx2) { cascade("avx2"); }
TEST(cascade_avx512) { cascade("avx512"); }

TEST_HARNESS_MAIN
