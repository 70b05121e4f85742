// SPDX-License-Identifier: MIT
/*
 * test_engine.c - what a program that runs a model gets beside its cache:
 * work on the cache's threads, and the table of rotations.
 */
#include <math.h>
#include <string.h>
#include <kvattn.h>
#include <kvcache/kvcache.h>
#include <kvcache/threads.h>
#include "harness.h"

#define ITEMS 1000

struct count {
	unsigned int done[ITEMS];
	unsigned int strange;	/* threads that there are not */
};

static void count_item(void *arg, size_t item, unsigned int thread)
{
	struct count *c = arg;

	__atomic_add_fetch(&c->done[item], 1, __ATOMIC_RELAXED);
	if (thread >= 2)
		__atomic_add_fetch(&c->strange, 1, __ATOMIC_RELAXED);
}

TEST(work_on_the_threads)
{
	struct kvc_open_opts open = { .sz = sizeof(open),
				      .local_bytes = 16 << 20 };
	struct kvc_cache_opts opts = { .sz = sizeof(opts), .threads = 2 };
	struct kvc_group g = { .kv_heads = 1, .k_dim = 16, .v_dim = 16 };
	struct kvc_model m = { .sz = sizeof(m), .nlayers = 1, .ngroups = 1,
			       .groups = &g, .q_heads = 1 };
	struct count c = { .strange = 0 };
	struct kvc_cache *cache;
	struct kvc *ctx;
	int i;

	ASSERT_EQ(0, kvc_open("local", &open, &ctx));
	ASSERT_EQ(0, kvc_cache_create(ctx, &m, &opts, &cache));
	EXPECT_EQ(2, kvc_cache_nthreads(cache));
	EXPECT_EQ(2, kva_threads_count(kvc_cache_threads(cache)));
	kvc_cache_run(cache, 0, count_item, &c);
	EXPECT_EQ(0, c.done[0]);
	kvc_cache_run(cache, ITEMS, count_item, &c);
	for (i = 0; i < ITEMS; i++)
		EXPECT_EQ(1, c.done[i]);
	EXPECT_EQ(0, c.strange);
	kvc_cache_destroy(cache);
	kvc_close(ctx);
}

/* Two positions from 3, four elements, of which the second pair is slower. */
TEST(rotations)
{
	const float factors[2] = { 1, 8 };
	float t[2][2][2], want;
	uint32_t pos, i;

	kvc_rope_table(&t[0][0][0], 3, 2, 4, 10000, 0.5, factors);
	for (pos = 0; pos < 2; pos++) {
		for (i = 0; i < 2; i++) {
			double angle = (3 + pos) * 0.5 *
				       pow(10000, -(double)i / 2) / factors[i];

			want = cos(angle);
			EXPECT_TRUE(fabsf(t[pos][i][0] - want) < 1e-7f);
			want = sin(angle);
			EXPECT_TRUE(fabsf(t[pos][i][1] - want) < 1e-7f);
		}
	}
}

TEST_HARNESS_MAIN
