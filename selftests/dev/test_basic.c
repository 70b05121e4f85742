// SPDX-License-Identifier: MIT
/*
 * test_basic.c - a page's life on the device: owned, written, published, found
 * by another, given back, zeroed.
 */
#include "dev_kit.h"

TEST_F(dev, a_page_is_written_and_comes_back_as_zeros)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[0], w->pool, true);
	uint64_t page;

	ASSERT_NE(MAP_FAILED, rw);
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	ASSERT_TRUE(dev_is_zero(rw + (uint32_t)page * PAGE, PAGE));
	memset(rw + (uint32_t)page * PAGE, 0x5a, PAGE);
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, &page, 1));
	EXPECT_EQ(SIGBUS, dev_touch(rw + (uint32_t)page * PAGE, false));
	EXPECT_EQ(SIGBUS, dev_touch(rw + (uint32_t)page * PAGE, true));
	ASSERT_TRUE(dev_settles(w->admin, w->pool, PAGES));
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	EXPECT_TRUE(dev_is_zero(rw + (uint32_t)page * PAGE, PAGE));
}

TEST_F(dev, a_published_page_is_read_by_others_and_written_by_nobody)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[0], w->pool, true);
	int other = dev_client("red");
	char *ro = dev_window(other, w->pool, false);
	uint64_t page, found;

	ASSERT_NE(MAP_FAILED, rw);
	ASSERT_NE(MAP_FAILED, ro);
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	strcpy(rw + (uint32_t)page * PAGE, "immutable");
	EXPECT_EQ(SIGBUS, dev_touch(ro + (uint32_t)page * PAGE, false));
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &page, 7));
	EXPECT_EQ(SIGBUS, dev_touch(rw + (uint32_t)page * PAGE, true));
	EXPECT_EQ(SIGBUS, dev_touch(rw + (uint32_t)page * PAGE, false));
	ASSERT_EQ(0, dev_lookup(other, w->pool, 7, &found));
	EXPECT_EQ(page, found);
	EXPECT_STREQ("immutable", ro + (uint32_t)page * PAGE);
	EXPECT_EQ(SIGSEGV, dev_touch(ro + (uint32_t)page * PAGE, true));
	/* A tenant without a grant finds nothing. */
	EXPECT_EQ(-ENOENT, dev_lookup(w->fd[1], w->pool, 7, &found));
	EXPECT_EQ(0, dev_free(other, w->pool, &page, 1));
	EXPECT_EQ(SIGBUS, dev_touch(ro + (uint32_t)page * PAGE, false));
	close(other);
}

TEST_F(dev, who_is_killed_leaves_nothing)
{
	struct world *w = &self->w;
	int ready[2], status;
	uint64_t pages[4];
	pid_t pid;
	char *rw, c;

	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	if (!pid) {
		int fd = dev_client("red");

		if (fd < 0 || dev_alloc(fd, w->pool, 4, pages))
			_exit(1);
		rw = dev_window(fd, w->pool, true);
		memset(rw + (uint32_t)pages[0] * PAGE, 1, PAGE);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	ASSERT_EQ(1, read(ready[0], &c, 1));
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES));
}

TEST_HARNESS_MAIN
