// SPDX-License-Identifier: MIT
/*
 * stress_attach.c - calls of an open that another thread attaches just now, or
 * whose owner just ends: for a kernel that looks for data races.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "child.h"

#define ROUNDS	200

static atomic_bool stop;

/* Whatever it answers, it answers. */
static void *call(void *arg)
{
	const int fd = *(int *)arg;
	struct kvcache_export e = { .size = sizeof(e), .nr = 1 };
	struct kvcache_query q;

	while (!atomic_load(&stop)) {
		POISON(q);
		dev_call(fd, KVCACHE_NR_QUERY, &q);
		dev_call(fd, KVCACHE_NR_EXPORT, &e);
	}
	return NULL;
}

static int attach_and_end(void *arg)
{
	return dev_attach(*(int *)arg, "red") ? 1 : 0;
}

TEST_F(dev, calls_while_it_is_attached)
{
	pthread_t t;
	int fd, k, rc, bad = 0;

	for (k = 0; k < ROUNDS; k++) {
		fd = dev_open();
		ASSERT_GE(fd, 0);
		atomic_store(&stop, false);
		ASSERT_EQ(0, pthread_create(&t, NULL, call, &fd));
		usleep(k % 8 * 100);
		rc = k & 1 ? dev_attach(fd, "red") :
		     in_child(attach_and_end, &fd);
		bad += rc != 0;
		usleep(500);
		atomic_store(&stop, true);
		pthread_join(t, NULL);
		close(fd);
	}
	EXPECT_EQ(0, bad);
}

TEST_HARNESS_MAIN
