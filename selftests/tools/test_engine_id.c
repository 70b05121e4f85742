// SPDX-License-Identifier: MIT
/*
 * test_engine_id.c - kvcache-run: whose pages a run may find. The keys of a
 * cache begin with the weights, and with how products are computed.
 */
#include "harness.h"

#include "../../tools/kvcache-run/chat.c"
#include "../../tools/kvcache-run/engine.c"
#include "../../tools/kvcache-run/ids.c"
#include "../../tools/kvcache-run/options.c"
#include "../../tools/kvcache-run/options_check.c"
#include "../../tools/kvcache-run/scales.c"
#include "../../tools/kvcache-run/tiers.c"

#include <kvattn.h>

#include "internal.h"

#define REFS "selftests/data/refs/"
#define MHA REFS "tiny-mha-f16.gguf"

/* The key of the empty prefix that a run with these options has. */
static void root_of(const char *model, enum model_weights weights, bool score,
		    uint8_t root[KVCACHE_KEY_LEN])
{
	const struct options o = {
		.model = model, .weights = weights, .score = score,
		.k_type = KVA_F16, .v_type = KVA_F16,
		.pool = 1 << 20, .page_size = 65536, .threads = 1,
	};
	struct engine e;

	setenv("KVCACHE", "local", 1);
	ASSERT_EQ(0, engine_open(&e, &o));
	ASSERT_EQ(0, engine_pool(&e));
	memcpy(root, e.cache->root[0], KVCACHE_KEY_LEN);
	engine_close(&e);
}

/* A copy of a file with its last byte changed: one weight. */
static const char *other_weight(const char *model)
{
	static char path[] = "/tmp/engine-id-XXXXXX";
	FILE *from = fopen(model, "r"), *to;
	int c, next;

	ASSERT_TRUE(from != NULL);
	to = fdopen(mkstemp(path), "w");
	ASSERT_TRUE(to != NULL);
	for (c = getc(from); c != EOF; c = next) {
		next = getc(from);
		putc(next == EOF ? c ^ 1 : c, to);
	}
	fclose(from);
	ASSERT_EQ(0, fclose(to));
	return path;
}

#define EXPECT_SAME(want, a, b)						\
	EXPECT_EQ(want, memcmp(a, b, KVCACHE_KEY_LEN) == 0)

TEST(weights_are_told_apart)
{
	uint8_t a[KVCACHE_KEY_LEN], b[KVCACHE_KEY_LEN];
	const char *other = other_weight(MHA);

	root_of(MHA, MODEL_WEIGHTS_F32, false, a);
	root_of(MHA, MODEL_WEIGHTS_F32, false, b);
	EXPECT_SAME(1, a, b);
	root_of(other, MODEL_WEIGHTS_F32, false, b);
	unlink(other);
	EXPECT_SAME(0, a, b);
}

/* --weights: other products of the same weights are other keys and values. */
TEST(arithmetic_is_told_apart)
{
	static const enum model_weights types[] = {
		MODEL_WEIGHTS_AUTO, MODEL_WEIGHTS_F32, MODEL_WEIGHTS_BF16,
	};
	uint8_t root[3][KVCACHE_KEY_LEN];
	unsigned int i, j;

	for (i = 0; i < 3; i++) {
		root_of(MHA, types[i], false, root[i]);
		for (j = 0; j < i; j++)
			EXPECT_SAME(0, root[i], root[j]);
	}
}

/* Nothing is kept there: the file is not read for it. */
TEST(no_weights_where_nothing_is_kept)
{
	uint8_t a[KVCACHE_KEY_LEN], b[KVCACHE_KEY_LEN];

	root_of(MHA, MODEL_WEIGHTS_F32, true, a);
	root_of(MHA, MODEL_WEIGHTS_BF16, true, b);
	EXPECT_SAME(1, a, b);
}

TEST_HARNESS_MAIN
