// SPDX-License-Identifier: MIT
/*
 * test_watch.c - how people watch it: fdinfo, the ledger's check in debugfs,
 * tracepoints.
 */
#include "files.h"

/* ---- of one open --------------------------------------------------------- */

TEST_F(dev, fdinfo_says_what_an_open_holds)
{
	struct kvcache_query q = { .size = sizeof(q) };
	struct world *w = &self->w;
	char path[64], want[256];
	uint64_t pages[3];

	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 3, pages));
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &pages[0], 1));
	ASSERT_EQ(0, dev_call(w->fd[0], KVCACHE_NR_QUERY, &q));
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", w->fd[0]);
	snprintf(want, sizeof(want),
		 "kvcache-client:\t%u\nkvcache-tenant:\t%u\n"
		 "kvcache-alive:\t1\nkvcache-private-test:\t128 KiB\n"
		 "kvcache-shared-test:\t64 KiB\n", q.out_client, w->tenant[0]);
	EXPECT_NE(NULL, strstr(text_of(path), want)) {
		TH_LOG("%s", text_of(path));
	}
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", w->admin);
	EXPECT_EQ(NULL, strstr(text_of(path), "kvcache"));
}

static int sends_its_client(void *arg)
{
	int fd = dev_client("red");

	MUST(fd >= 0);
	send_fd(*(int *)arg, fd);
	return 0;
}

TEST_F(dev, fdinfo_says_that_the_owner_has_ended)
{
	char path[64];
	int both[2], fd;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_DGRAM, 0, both));
	ASSERT_EQ(0, in_child(sends_its_client, &both[1]));
	fd = receive_fd(both[0]);
	ASSERT_LE(0, fd);
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	EXPECT_NE(NULL, strstr(text_of(path), "kvcache-alive:\t0\n"));
	close(fd);
	close(both[0]);
	close(both[1]);
}

/* ---- of the whole -------------------------------------------------------- */

TEST_F(dev, the_ledgers_check_is_roots)
{
	EXPECT_STREQ("ok\n", text_of("/sys/kernel/debug/kvcache/verify"));
	EXPECT_TRUE(has_mode("/sys/kernel/debug/kvcache/verify", 0400, 0));
}

#define TRACING	"/sys/kernel/tracing"

static bool traced(const char *trace, const char *what, const char *more)
{
	const char *at = trace, *end;

	while ((at = strstr(at, what))) {
		end = strchrnul(at, '\n');
		if (memmem(at, end - at, more, strlen(more)))
			return true;
		at = end;
	}
	printf("# no %s%s\n", what, more);
	return false;
}

static int end_as_a_client(void *arg)
{
	const struct world *w = arg;
	int fd = dev_client("red");
	uint64_t pages[2];

	MUST(fd >= 0);
	MUST(!dev_alloc(fd, w->pool, 2, pages));
	return 0;
}

TEST_F(dev, tracepoints_fire)
{
	static char trace[1 << 20];
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[0], w->pool, true);
	uint64_t pages[PAGES];
	size_t n = 0;
	ssize_t got;
	int fd;

	ASSERT_EQ(0, write_to(TRACING "/trace", " "));
	ASSERT_EQ(0, write_to(TRACING "/events/kvcache/enable", "1"));
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, PAGES, pages));
	EXPECT_EQ(-ENOSPC, dev_alloc(w->fd[1], w->pool, 1, pages));
	EXPECT_EQ(-ETIMEDOUT, dev_alloc_until(w->fd[1], w->pool, 1,
					      dev_now() + 50000000, pages));
	rw[(uint32_t)pages[0] * PAGE] = 1;
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, pages, 4));
	ASSERT_TRUE(dev_settles(w->admin, w->pool, 4));
	ASSERT_EQ(0, in_child(end_as_a_client, w));
	ASSERT_EQ(0, write_to(TRACING "/events/kvcache/enable", "0"));
	fd = open(TRACING "/trace", O_RDONLY);
	ASSERT_LE(0, fd);
	while ((got = read(fd, trace + n, sizeof(trace) - 1 - n)) > 0)
		n += got;
	close(fd);
	EXPECT_TRUE(traced(trace, "kvcache_call: ", "nr=0x10 rc=0 "));
	EXPECT_TRUE(traced(trace, "kvcache_call: ", "nr=0x10 rc=-28 "));
	EXPECT_TRUE(traced(trace, "kvcache_wait: ", "pages=1 status=-110 "));
	EXPECT_TRUE(traced(trace, "kvcache_clean: ", "clean"));
	EXPECT_TRUE(traced(trace, "kvcache_end: ", "pages=2"));
}

TEST_HARNESS_MAIN
