// SPDX-License-Identifier: MIT
/*
 * test_threads.c - each item once, on a thread of the pool, and all done when
 * a run returns; with fewer and with more threads than CPUs.
 */
#include <sched.h>
#include <time.h>

#include "kit.h"

#define ITEMS 1000

struct counts {
	uint32_t item[ITEMS];
	unsigned int threads;
	uint32_t thread[64];
	uint32_t bad;
};

static void count(void *arg, size_t item, unsigned int thread)
{
	struct counts *c = arg;

	if (item >= ITEMS || thread >= c->threads) {
		__atomic_fetch_add(&c->bad, 1, __ATOMIC_RELAXED);
		return;
	}
	c->item[item]++;	/* plain: no two threads may have one item */
	__atomic_fetch_add(&c->thread[thread], 1, __ATOMIC_RELAXED);
}

static void each_once(unsigned int n)
{
	struct kva_threads *t;
	struct counts c = { .threads = n };
	size_t i, runs = 20;

	ASSERT_EQ(0, kva_threads_create(n, &t));
	ASSERT_EQ(n, kva_threads_count(t));
	for (i = 0; i < runs; i++)
		kva_threads_run(t, ITEMS, count, &c);
	for (i = 0; i < ITEMS; i++)
		ASSERT_EQ(runs, c.item[i]);
	ASSERT_EQ(0, c.bad);
	kva_threads_destroy(t);
}

TEST(one) { each_once(1); }
TEST(two) { each_once(2); }
TEST(four) { each_once(4); }
TEST(many) { each_once(33); }

TEST(none)
{
	struct counts c = { .threads = 1 };
	size_t i;

	ASSERT_EQ(1, kva_threads_count(NULL));
	kva_threads_run(NULL, 0, count, &c);
	kva_threads_run(NULL, ITEMS, count, &c);
	for (i = 0; i < ITEMS; i++)
		ASSERT_EQ(1, c.item[i]);
	kva_threads_destroy(NULL);
}

TEST(default_is_one_a_cpu)
{
	struct kva_threads *t;
	cpu_set_t set;

	ASSERT_EQ(0, sched_getaffinity(0, sizeof(set), &set));
	ASSERT_EQ(0, kva_threads_create(0, &t));
	ASSERT_EQ(CPU_COUNT(&set), kva_threads_count(t));
	kva_threads_destroy(t);
}

TEST(too_many)
{
	struct kva_threads *t;

	ASSERT_EQ(-EINVAL, kva_threads_create(1 << 20, &t));
}

/* Many runs of a few items: what one run writes the next one reads. */
struct chain {
	uint64_t value[4];
	uint64_t run;
	uint32_t bad;
};

static void step(void *arg, size_t item, unsigned int thread)
{
	struct chain *c = arg;

	if (c->value[item] != c->run)
		__atomic_fetch_add(&c->bad, 1, __ATOMIC_RELAXED);
	c->value[item] = c->run + 1;
}

static void stress(unsigned int n, uint64_t runs)
{
	struct chain c = { .bad = 0 };
	struct kva_threads *t;
	size_t items, i;

	ASSERT_EQ(0, kva_threads_create(n, &t));
	for (c.run = 0; c.run < runs; c.run++) {
		items = 2 + c.run % 3;
		kva_threads_run(t, items, step, &c);
		for (i = items; i < 4; i++)
			c.value[i] = c.run + 1;
		for (i = 0; i < 4; i++)
			if (c.value[i] != c.run + 1)
				c.bad++;
	}
	ASSERT_EQ(0, c.bad);
	kva_threads_destroy(t);
}

TEST(stress_two) { stress(2, 100000); }
TEST(stress_four) { stress(4, 20000); }

/* Workers that went to sleep wake up. */
TEST(after_a_pause)
{
	struct timespec ms = { .tv_nsec = 2000000 };
	struct counts c = { .threads = 3 };
	struct kva_threads *t;
	int i;

	ASSERT_EQ(0, kva_threads_create(3, &t));
	for (i = 0; i < 50; i++) {
		nanosleep(&ms, NULL);
		kva_threads_run(t, ITEMS, count, &c);
	}
	for (i = 0; i < ITEMS; i++)
		ASSERT_EQ(50, c.item[i]);
	kva_threads_destroy(t);
}

/* Each waits for the other: only two threads at once get through. */
static void meet(void *arg, size_t item, unsigned int thread)
{
	uint32_t *arrived = arg;

	__atomic_fetch_add(arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(arrived, __ATOMIC_SEQ_CST) < 2)
		sched_yield();
}

TEST(at_the_same_time)
{
	struct kva_threads *t;
	uint32_t arrived = 0;

	ASSERT_EQ(0, kva_threads_create(2, &t));
	kva_threads_run(t, 2, meet, &arrived);
	ASSERT_EQ(2, arrived);
	kva_threads_destroy(t);
}

static void see_cpus(void *arg, size_t item, unsigned int thread)
{
	cpu_set_t set;

	/* stay until every thread has one item */
	meet(arg, item, thread);
	CPU_ZERO(&set);
	sched_getaffinity(0, sizeof(set), &set);
	if (thread && CPU_COUNT(&set) != 1)
		__atomic_fetch_add((uint32_t *)arg + 1, 1, __ATOMIC_SEQ_CST);
}

/* A worker stays on one of the CPUs that its creator was allowed. */
TEST(pinned)
{
	uint32_t state[2] = { 0 };
	struct kva_threads *t;
	cpu_set_t set;

	ASSERT_EQ(0, sched_getaffinity(0, sizeof(set), &set));
	if (CPU_COUNT(&set) < 2)
		SKIP(return, "one CPU: workers are not pinned");
	ASSERT_EQ(0, kva_threads_create(2, &t));
	kva_threads_run(t, 2, see_cpus, state);
	ASSERT_EQ(0, state[1]);
	kva_threads_destroy(t);
}

TEST(create_and_destroy)
{
	struct kva_threads *t;
	int i;

	for (i = 0; i < 200; i++) {
		ASSERT_EQ(0, kva_threads_create(1 + i % 4, &t));
		kva_threads_destroy(t);
	}
}

TEST_HARNESS_MAIN
