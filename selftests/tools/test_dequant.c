// SPDX-License-Identifier: MIT
/*
 * test_dequant.c - every tensor type against values of another implementation.
 */
#include <stdio.h>

#include "gguf.h"
#include "harness.h"

#define REFS "selftests/data/refs/"
#define ELEMS 2048

/* In the order of quants.f32. */
static const struct {
	const char *name;
	uint32_t type;
	unsigned int elems;
	size_t bytes;
} types[] = {
	{ "F32", 0, 1, 4 },		{ "F16", 1, 1, 2 },
	{ "BF16", 30, 1, 2 },		{ "Q8_0", 8, 32, 34 },
	{ "Q4_0", 2, 32, 18 },		{ "Q4_1", 3, 32, 20 },
	{ "Q5_0", 6, 32, 22 },		{ "Q5_1", 7, 32, 24 },
	{ "Q4_K", 12, 256, 144 },	{ "Q6_K", 14, 256, 210 },
	{ "Q5_K", 13, 256, 176 },	{ "Q2_K", 10, 256, 84 },
	{ "Q3_K", 11, 256, 110 },
};
#define NTYPES (sizeof(types) / sizeof(types[0]))

TEST(types_have_names_and_blocks)
{
	unsigned int i;

	for (i = 0; i < NTYPES; i++) {
		EXPECT_STREQ(gguf_type_name(types[i].type), types[i].name);
		EXPECT_EQ(gguf_block_elems(types[i].type), types[i].elems);
		EXPECT_EQ(gguf_block_bytes(types[i].type), types[i].bytes);
	}
	EXPECT_STREQ(gguf_type_name(23), "IQ4_XS");
	EXPECT_EQ(gguf_block_elems(23), 0);
	EXPECT_STREQ(gguf_type_name(4), "unknown");
	EXPECT_STREQ(gguf_type_name(UINT32_MAX), "unknown");
	EXPECT_EQ(gguf_block_elems(UINT32_MAX), 0);
	EXPECT_EQ(gguf_block_bytes(UINT32_MAX), 0);
}

TEST(exact_to_the_bit)
{
	static float want[ELEMS], got[ELEMS + 1];
	const struct gguf_tensor *t;
	char err[256] = "";
	struct gguf *g;
	unsigned int i;
	FILE *f;

	f = fopen(REFS "quants.f32", "r");
	ASSERT_TRUE(f);
	ASSERT_EQ(gguf_open(REFS "quants.gguf", &g, err, sizeof(err)), 0);
	ASSERT_EQ(gguf_ntensors(g), NTYPES);
	for (i = 0; i < NTYPES; i++) {
		ASSERT_EQ(fread(want, sizeof(float), ELEMS, f), ELEMS);
		t = gguf_tensor(g, types[i].name);
		ASSERT_TRUE(t);
		EXPECT_EQ(t->type, types[i].type);
		ASSERT_EQ(t->nelem, ELEMS);
		ASSERT_EQ(t->nbytes, ELEMS / types[i].elems * types[i].bytes);
		memset(got, 0xcc, sizeof(got));
		ASSERT_EQ(gguf_dequant(t->type, t->data, ELEMS, got), 0);
		if (memcmp(got, want, sizeof(want)))
			ht_log("type %s", types[i].name);
		EXPECT_EQ(memcmp(got, want, sizeof(want)), 0);
		/* Not a float too many. */
		EXPECT_EQ(memcmp((char *)&got[ELEMS], "\xcc\xcc\xcc\xcc", 4),
			  0);
	}
	EXPECT_EQ(fgetc(f), EOF);
	gguf_close(g);
	fclose(f);
}

TEST(any_block_alone_and_at_any_address)
{
	static float all[ELEMS], one[256];
	const struct gguf_tensor *t;
	char err[256] = "";
	struct gguf *g;
	unsigned int i, j, elems;
	uint8_t *odd;

	ASSERT_EQ(gguf_open(REFS "quants.gguf", &g, err, sizeof(err)), 0);
	for (i = 0; i < NTYPES; i++) {
		elems = types[i].elems;
		t = gguf_tensor(g, types[i].name);
		ASSERT_EQ(gguf_dequant(t->type, t->data, ELEMS, all), 0);
		odd = malloc(types[i].bytes + 1);
		ASSERT_TRUE(odd);
		for (j = 0; j < ELEMS / elems; j++) {
			memcpy(odd + 1, (const uint8_t *)t->data +
			       j * types[i].bytes, types[i].bytes);
			ASSERT_EQ(gguf_dequant(t->type, odd + 1, elems, one),
				  0);
			ASSERT_EQ(memcmp(one, all + j * elems,
					 elems * sizeof(*one)), 0);
		}
		free(odd);
	}
	gguf_close(g);
}

TEST(refuses_parts_of_blocks_and_unknown_types)
{
	float out[256], poison[256];
	uint8_t src[256] = { 0 };
	unsigned int i;

	memset(out, 0xcc, sizeof(out));
	memset(poison, 0xcc, sizeof(poison));
	for (i = 0; i < NTYPES; i++)
		if (types[i].elems > 1)
			EXPECT_EQ(gguf_dequant(types[i].type, src,
					       types[i].elems - 1, out),
				  -EINVAL);
	EXPECT_EQ(gguf_dequant(4, src, 32, out), -EINVAL);
	EXPECT_EQ(gguf_dequant(23, src, 256, out), -EINVAL);
	EXPECT_EQ(gguf_dequant(UINT32_MAX, src, 32, out), -EINVAL);
	EXPECT_EQ(gguf_dequant(GGUF_Q4_0, src, 0, out), 0);
	EXPECT_EQ(memcmp(out, poison, sizeof(out)), 0);
}

TEST_HARNESS_MAIN
