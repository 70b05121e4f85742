// SPDX-License-Identifier: MIT
/*
 * test_io.c - devices, rings and pipes that read and write pages: what they may,
 * and what is left of it when the owner dies.
 */
#include "dev_pin.h"

#define SOON	(dev_now() + 5000000000ULL)

/* ---- a disk -------------------------------------------------------------- */

FIXTURE(disk) {
	struct world w;
	struct disk disk;
	int file;
	char *rw, *ro;
	uint64_t page;
};

FIXTURE_SETUP(disk)
{
	int err = disk_start(&self->disk);

	if (err == -ENOENT)
		SKIP(exit(SKIPPED), "no " DISK ": run.sh -d nbd");
	ASSERT_EQ(0, err);
	ASSERT_EQ(0, world_make(&self->w, PAGE, PAGES));
	self->file = open(DISK, O_RDWR | O_DIRECT | O_CLOEXEC);
	ASSERT_LE(0, self->file);
	self->rw = dev_window(self->w.fd[0], self->w.pool, true);
	self->ro = dev_window(self->w.fd[0], self->w.pool, false);
	ASSERT_NE(MAP_FAILED, self->rw);
	ASSERT_NE(MAP_FAILED, self->ro);
	ASSERT_EQ(0, dev_alloc(self->w.fd[0], self->w.pool, 1, &self->page));
}

FIXTURE_TEARDOWN(disk)
{
	close(self->file);
	disk_stop(&self->disk);
	EXPECT_EQ(0, world_end(&self->w));
}

TEST_F(disk, reads_into_a_page)
{
	struct world *w = &self->w;

	ASSERT_EQ(PAGE, pread(self->file, AT(self->rw, self->page), PAGE, 0));
	EXPECT_TRUE(all_are(AT(self->ro, self->page), 0x11, PAGE));
	/* And lets go: it can be published, and given back. */
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &self->page, 1));
	EXPECT_TRUE(all_are(AT(self->ro, self->page), 0x11, PAGE));
}

TEST_F(disk, is_written_from_an_immutable_page)
{
	struct world *w = &self->w;

	memset(AT(self->rw, self->page), 0x5a, PAGE);
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &self->page, 1));
	ASSERT_EQ(PAGE, pwrite(self->file, AT(self->ro, self->page), PAGE, 0));
	EXPECT_EQ(0x5a, self->disk.wrote);
	/* Page 0 can be written out as well. */
	ASSERT_EQ(PAGE, pwrite(self->file, self->ro, PAGE, 0));
	EXPECT_EQ(0, self->disk.wrote);
}

TEST_F(disk, reads_into_nothing_that_cannot_be_written)
{
	struct world *w = &self->w;

	EXPECT_EQ(-1, pread(self->file, AT(self->ro, self->page), PAGE, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_TRUE(dev_is_zero(AT(self->ro, self->page), PAGE));
	EXPECT_EQ(-1, pread(self->file, self->ro, PAGE, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_TRUE(dev_is_zero(self->ro, PAGE));
	EXPECT_EQ(-1, pread(self->file, AT(self->rw, self->page + 1), PAGE, 0));
	EXPECT_EQ(EFAULT, errno);
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &self->page, 1));
	EXPECT_EQ(-1, pread(self->file, AT(self->rw, self->page), PAGE, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, pread(self->file, AT(self->ro, self->page), PAGE, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_TRUE(dev_is_zero(AT(self->ro, self->page), PAGE));
}

TEST_F(disk, reads_no_further_than_the_page)
{
	struct world *w = &self->w;
	char *blue = dev_window(w->fd[1], w->pool, true);
	uint64_t next;
	ssize_t n;

	ASSERT_EQ(0, dev_alloc(w->fd[1], w->pool, 1, &next));
	ASSERT_EQ((uint32_t)self->page + 1, (uint32_t)next);
	n = pread(self->file, AT(self->rw, self->page), 2 * PAGE, 0);
	EXPECT_TRUE(n == PAGE || (n == -1 && errno == EFAULT));
	EXPECT_TRUE(dev_is_zero(AT(blue, next), PAGE));
}

/* In flight: the owner cannot be gone before the disk is done. */
static void die_reading(int sock, void *arg)
{
	FIXTURE_DATA(disk) *self = arg;
	struct world *w = &self->w;
	int fd = dev_client("red");
	char *rw = dev_window(fd, w->pool, true);
	struct pin pin;
	uint64_t page;

	if (dev_alloc(fd, w->pool, 1, &page))
		return;
	pin = (struct pin){ .at = AT(rw, page) };
	say(sock, -pin_from_disk(&pin));
	pause();
}

TEST_F(disk, is_reading_when_the_owner_is_killed)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[1], w->pool, true);
	uint64_t got[PAGES];
	struct child c;
	int k;

	ASSERT_EQ(0, child_start(&c, die_reading, self));
	ASSERT_EQ(0, hear(c.sock));
	ASSERT_TRUE(disk_holds(&self->disk));
	kill(c.pid, SIGKILL);
	usleep(200000);
	EXPECT_EQ(2, charge(w, 0));
	ASSERT_EQ(-ENOSPC, dev_alloc(w->fd[1], w->pool, PAGES - 1, got));
	ASSERT_EQ(0, dev_alloc(w->fd[1], w->pool, PAGES - 2, got));
	disk_answer(&self->disk, 0x66);
	ASSERT_EQ(0, dev_alloc_until(w->fd[1], w->pool, 1, SOON,
				     &got[PAGES - 2]));
	EXPECT_EQ(-SIGKILL, child_join(&c));
	for (k = 0; k < PAGES - 1; k++)
		EXPECT_TRUE(dev_is_zero(AT(rw, got[k]), PAGE));
	EXPECT_EQ(1, charge(w, 0));
}

/* ---- a ring -------------------------------------------------------------- */

TEST_F(dev, a_ring_takes_only_what_can_be_written)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[0], w->pool, true);
	char *ro = dev_window(w->fd[0], w->pool, false);
	struct ring r;
	uint64_t page;
	int err;

	ASSERT_EQ(0, ring_open(&r));
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	EXPECT_EQ(-EFAULT, ring_register(&r, ro, PAGE));
	EXPECT_EQ(-EFAULT, ring_register(&r, AT(ro, page), PAGE));
	EXPECT_EQ(-EFAULT, ring_register(&r, AT(rw, page + 1), PAGE));
	EXPECT_EQ(-EFAULT, ring_register(&r, AT(rw, page), 2 * PAGE));
	/* Nothing of it is left pinned. */
	EXPECT_EQ(0, dev_free(w->fd[0], w->pool, &page, 1));
	ASSERT_TRUE(dev_settles(w->admin, w->pool, PAGES));
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	err = ring_register(&r, AT(rw, page), PAGE);
	/* Before 6.5 rings take no memory of files but of tmpfs. */
	EXPECT_TRUE(!err || err == -EOPNOTSUPP);
	EXPECT_EQ(err ? 0 : -EBUSY,
		  dev_publish_as(w->fd[0], w->pool, &page, 1, 0, 0, NULL));
	ring_close(&r);
}

static void leave_a_ring(int sock, void *arg)
{
	struct world *w = arg;
	int fd = dev_client("red"), err;
	char *rw = dev_window(fd, w->pool, true);
	struct pin pin;
	uint64_t page;

	if (dev_alloc(fd, w->pool, 1, &page))
		return;
	memset(AT(rw, page), 0x5a, PAGE);
	err = pin_take(&pin, PIN_RING, NULL, AT(rw, page));
	if (!err && !fork()) {
		/* Has the ring, until nobody listens any more. */
		say(sock, 0);
		hear(sock);
		_exit(0);
	}
	if (err)
		say(sock, -err);
	pause();
}

TEST_F(dev, a_ring_that_outlives_the_owner_keeps_the_page)
{
	struct world *w = &self->w;
	struct kvcache_pool_info p;
	struct child c;
	int err;

	ASSERT_EQ(0, child_start(&c, leave_a_ring, w));
	err = hear(c.sock);
	kill(c.pid, SIGKILL);
	ASSERT_EQ(c.pid, waitpid(c.pid, NULL, 0));
	if (err) {
		EXPECT_EQ(EOPNOTSUPP, err);
		close(c.sock);
		SKIP(return, "no fixed buffers of files (before 6.5)");
	}
	usleep(250000);
	EXPECT_EQ(0, dev_pool_info(w->admin, w->pool, &p));
	EXPECT_EQ(1, p.nr_retiring);
	EXPECT_EQ(1, charge(w, 0));
	close(c.sock);
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES));
	EXPECT_EQ(0, charge(w, 0));
}

/* ---- a pipe -------------------------------------------------------------- */

TEST_F(dev, an_immutable_page_in_a_pipe_stays_until_it_is_read)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[0], w->pool, true);
	char *ro = dev_window(w->fd[0], w->pool, false);
	uint64_t page, all[PAGES];
	struct pin pin;

	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	memset(AT(rw, page), 0x5a, PAGE);
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &page, 1));
	ASSERT_EQ(0, pin_take(&pin, PIN_PIPE, NULL, AT(ro, page)));
	/* It may be cached, and found again. */
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, &page, 1));
	EXPECT_EQ(KVCACHE_PAGE_CACHED, page_state(w, page));
	ASSERT_EQ(0, dev_lookup(w->fd[0], w->pool, 1, &page));
	EXPECT_TRUE(all_are(AT(ro, page), 0x5a, PAGE));
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, &page, 1));
	/* But not taken. */
	EXPECT_EQ(-ENOSPC, dev_alloc(w->fd[1], w->pool, PAGES, all));
	EXPECT_EQ(KVCACHE_PAGE_RETIRING, page_state(w, page));
	EXPECT_EQ(-ENOENT, dev_lookup(w->fd[0], w->pool, 1, &page));
	EXPECT_TRUE(pin_use(&pin, 0, 0x5a));
	EXPECT_EQ(0, dev_alloc_until(w->fd[1], w->pool, PAGES, SOON, all));
	pin_drop(&pin);
}

TEST_HARNESS_MAIN
