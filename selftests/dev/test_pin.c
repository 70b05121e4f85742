// SPDX-License-Identifier: MIT
/*
 * test_pin.c - pages that something still holds when they are given up, made
 * immutable or taken away: nobody else gets them before it lets go, and what it
 * writes late is seen by nobody.
 */
#include "dev_pin.h"

#define SOON	(dev_now() + 5000000000ULL)
#define OLD	0x5a	/* in the page when it is pinned */
#define LATE	0x66	/* written through the pin */

FIXTURE(pin) {
	struct world w;
	struct disk disk;
	struct pin pin;
	char *rw;
	uint64_t page;
	char *at;		/* the page */
	bool dropped;
};

FIXTURE_VARIANT(pin) {
	enum pin_kind kind;
};

FIXTURE_VARIANT_ADD(pin, by_a_pipe) { .kind = PIN_PIPE };
FIXTURE_VARIANT_ADD(pin, by_a_ring) { .kind = PIN_RING };
FIXTURE_VARIANT_ADD(pin, by_a_disk) { .kind = PIN_DISK };

/* A page of red that is pinned, and not the pool's first one. */
FIXTURE_SETUP(pin)
{
	uint64_t pages[4];
	int err;

	ASSERT_EQ(0, world_make(&self->w, PAGE, PAGES));
	self->rw = dev_window(self->w.fd[0], self->w.pool, true);
	ASSERT_NE(MAP_FAILED, self->rw);
	ASSERT_EQ(0, dev_alloc(self->w.fd[0], self->w.pool, 4, pages));
	self->page = pages[3];
	ASSERT_EQ(0, dev_free(self->w.fd[0], self->w.pool, pages, 3));
	self->at = AT(self->rw, self->page);
	memset(self->at, OLD, PAGE);
	self->disk.fd = -1;
	if (variant->kind == PIN_DISK) {
		err = disk_start(&self->disk);
		if (err == -ENOENT) {
			world_end(&self->w);
			SKIP(exit(SKIPPED), "no " DISK ": run.sh -d nbd");
		}
		ASSERT_EQ(0, err);
	}
	err = pin_take(&self->pin, variant->kind, &self->disk,
		       self->at + PAGE / 2);
	if (err == -EOPNOTSUPP && variant->kind == PIN_RING) {
		pin_drop(&self->pin);
		world_end(&self->w);
		SKIP(exit(SKIPPED), "no fixed buffers of files (before 6.5)");
	}
	ASSERT_EQ(0, err);
}

static void let_go(FIXTURE_DATA(pin) *self)
{
	if (!self->dropped)
		pin_drop(&self->pin);
	self->dropped = true;
}

FIXTURE_TEARDOWN(pin)
{
	if (!self->dropped) {
		if (self->disk.fd >= 0)
			disk_answer(&self->disk, 0);
		let_go(self);
	}
	if (self->disk.fd >= 0)
		disk_stop(&self->disk);
	EXPECT_EQ(0, world_end(&self->w));
}

/* One page of blue. A ring that was closed interrupts who waits, once. */
static int alloc_soon(struct world *w, uint64_t *page)
{
	uint64_t until = SOON;
	int rc;

	do
		rc = dev_alloc_until(w->fd[1], w->pool, 1, until, page);
	while (rc == -EINTR);
	return rc;
}

/*
 * The page was given up. It is out of everybody's reach until it is let go, and
 * then it is like new.
 */
static int out_of_reach(FIXTURE_DATA(pin) *self, uint64_t page)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[1], w->pool, true);
	uint64_t got[PAGES], free;
	struct kvcache_pool_info p;
	unsigned int k;

	usleep(250000);
	if (page_state(w, page) != KVCACHE_PAGE_RETIRING)
		return __LINE__;
	if (!charge(w, 0) || dev_pool_info(w->admin, w->pool, &p) ||
	    p.nr_retiring != 1)
		return __LINE__;
	free = p.nr_free;
	if (dev_alloc(w->fd[1], w->pool, free + 1, got) != -ENOSPC)
		return __LINE__;
	if (dev_alloc(w->fd[0], w->pool, free + 1, got) != -ENOSPC)
		return __LINE__;
	if (dev_alloc(w->fd[1], w->pool, free, got))
		return __LINE__;
	if (!pin_use(&self->pin, LATE, OLD))
		return __LINE__;
	for (k = 0; k < free; k++)
		if (got[k] == page || !dev_is_zero(AT(rw, got[k]), PAGE))
			return __LINE__;
	let_go(self);
	if (alloc_soon(w, &got[free]))
		return __LINE__;
	if ((uint32_t)got[free] != (uint32_t)page || got[free] == page)
		return __LINE__;
	for (k = 0; k <= free; k++)
		if (!dev_is_zero(AT(rw, got[k]), PAGE))
			return __LINE__;
	return strcmp(dev_verify(), "ok") ? __LINE__ : 0;
}

TEST_F(pin, freed)
{
	struct world *w = &self->w;

	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, &self->page, 1));
	EXPECT_EQ(SIGBUS, dev_touch(self->at, false));
	EXPECT_EQ(-ESTALE, dev_free(w->fd[0], w->pool, &self->page, 1));
	EXPECT_EQ(0, out_of_reach(self, self->page));
}

TEST_F(pin, freed_among_others)
{
	struct world *w = &self->w;
	uint64_t pages[3];

	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 2, pages));
	pages[2] = self->page;
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, pages, 3));
	EXPECT_EQ(0, out_of_reach(self, self->page));
}

TEST_F(pin, revoked)
{
	struct world *w = &self->w;

	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0, 0,
				dev_now()));
	ASSERT_TRUE(becomes(w, self->page, KVCACHE_PAGE_RETIRING));
	for (int k = 0; k < 100 && !dev_touch(self->at, true); k++)
		usleep(2000);
	EXPECT_EQ(SIGBUS, dev_touch(self->at, true));
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0,
				KVCACHE_LIMIT_MAX, NEVER));
	EXPECT_EQ(0, out_of_reach(self, self->page));
}

/* Volatile, and wanted: it cannot be had, and nobody waits for ever. */
TEST_F(pin, taken)
{
	struct world *w = &self->w;
	uint64_t all[PAGES];
	uint8_t state = 0xcc;

	ASSERT_EQ(0, dev_advise(w->fd[0], w->pool, self->page,
				KVCACHE_ADVISE_VOLATILE, &state));
	EXPECT_EQ(KVCACHE_ADVISE_KEPT, state);
	EXPECT_EQ(-ENOSPC, dev_alloc(w->fd[1], w->pool, PAGES, all));
	ASSERT_EQ(0, dev_advise(w->fd[0], w->pool, self->page,
				KVCACHE_ADVISE_NONVOLATILE, &state));
	EXPECT_EQ(KVCACHE_ADVISE_TAKEN, state);
	EXPECT_EQ(0, out_of_reach(self, self->page));
}

TEST_F(pin, in_a_pool_that_is_to_go)
{
	struct world *w = &self->w;
	uint64_t page = self->page, left = 0;

	ASSERT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_DRAIN, 0,
				 NULL));
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, &page, 1));
	EXPECT_EQ(-EBUSY, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_REMOVE, 0,
				      NULL));
	EXPECT_EQ(-EBUSY, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESIZE,
				      (uint32_t)page - 1, &left));
	EXPECT_EQ((uint32_t)page, left);
	ASSERT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESIZE, PAGES,
				 NULL));
	ASSERT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESUME, 0,
				 NULL));
	EXPECT_EQ(0, out_of_reach(self, page));
}

/* ---- publishing ---------------------------------------------------------- */

TEST_F(pin, is_not_made_immutable)
{
	struct world *w = &self->w;
	uint64_t page = self->page, found;
	uint32_t result = 0xcc;

	EXPECT_EQ(-EBUSY, dev_publish_as(w->fd[0], w->pool, &page, 1, 0, 0,
					 &result));
	EXPECT_EQ(self->page, page);
	EXPECT_EQ(KVCACHE_PAGE_PRIVATE, page_state(w, page));
	EXPECT_EQ(0, page_info(w->admin, w->pool, page).nr_keys);
	EXPECT_EQ(0, page_info(w->admin, w->pool, page).flags);
	EXPECT_EQ(-ENOENT, dev_lookup(w->fd[0], w->pool, 1, &found));
	EXPECT_EQ(1, charge(w, 0));
	EXPECT_TRUE(all_are(self->at, OLD, PAGE));
	EXPECT_EQ(0, dev_touch(self->at, true));
	/* Once it is let go it can be. */
	EXPECT_TRUE(pin_use(&self->pin, LATE, OLD));
	let_go(self);
	ASSERT_EQ(0, dev_publish_as(w->fd[0], w->pool, &page, 1, 0, 0,
				    &result));
	EXPECT_EQ(self->page, page);
	EXPECT_EQ(KVCACHE_PUBLISHED, result);
}

TEST_F(pin, is_published_as_a_copy)
{
	struct world *w = &self->w;
	char *ro = dev_window(w->fd[0], w->pool, false);
	uint64_t page = self->page, found;
	uint32_t result = 0xcc;

	ASSERT_EQ(0, dev_publish_as(w->fd[0], w->pool, &page, 1,
				    KVCACHE_PUBLISH_COPY, 0, &result));
	EXPECT_EQ(KVCACHE_COPIED, result);
	EXPECT_NE((uint32_t)self->page, (uint32_t)page);
	EXPECT_EQ(SIGBUS, dev_touch(self->at, false));
	EXPECT_EQ(SIGBUS, dev_touch(AT(self->rw, page), true));
	ASSERT_EQ(0, dev_lookup(w->fd[0], w->pool, 1, &found));
	EXPECT_EQ(page, found);
	EXPECT_TRUE(all_are(AT(ro, page), OLD, PAGE));
	EXPECT_EQ(0, out_of_reach(self, self->page));
	EXPECT_TRUE(all_are(AT(ro, page), OLD, PAGE));
}

TEST_F(pin, makes_room_for_one_that_is_published_already)
{
	struct world *w = &self->w;
	uint64_t first, page = self->page;
	uint32_t result = 0xcc;

	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &first));
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &first, 1));
	ASSERT_EQ(0, dev_publish_as(w->fd[0], w->pool, &page, 1, 0, 0,
				    &result));
	EXPECT_EQ(KVCACHE_DEDUPLICATED, result);
	EXPECT_EQ(first, page);
	EXPECT_EQ(SIGBUS, dev_touch(self->at, false));
	EXPECT_EQ(0, out_of_reach(self, self->page));
}

TEST_F(pin, is_not_copied_without_room_for_it)
{
	struct world *w = &self->w;
	uint64_t rest[PAGES], page = self->page, found;

	ASSERT_EQ(0, dev_alloc(w->fd[1], w->pool, PAGES - 1, rest));
	EXPECT_EQ(-ENOSPC, dev_publish_as(w->fd[0], w->pool, &page, 1,
					  KVCACHE_PUBLISH_COPY, 0, NULL));
	EXPECT_EQ(self->page, page);
	EXPECT_EQ(KVCACHE_PAGE_PRIVATE, page_state(w, page));
	EXPECT_EQ(-ENOENT, dev_lookup(w->fd[0], w->pool, 1, &found));
	EXPECT_TRUE(all_are(self->at, OLD, PAGE));
	EXPECT_EQ(0, dev_touch(self->at, true));
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0, 1,
				NEVER));
	EXPECT_EQ(-EDQUOT, dev_publish_as(w->fd[0], w->pool, &page, 1,
					  KVCACHE_PUBLISH_COPY, 0, NULL));
	EXPECT_EQ(KVCACHE_PAGE_PRIVATE, page_state(w, page));
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0, 0,
				NEVER));
	EXPECT_EQ(-E2BIG, dev_publish_as(w->fd[0], w->pool, &page, 1,
					 KVCACHE_PUBLISH_COPY, 0, NULL));
	EXPECT_EQ(KVCACHE_PAGE_PRIVATE, page_state(w, page));
	EXPECT_EQ(1, charge(w, 0));
}

/* A page that is published while it is not the pinned one needs no copy. */
TEST_F(pin, is_no_reason_to_copy_another)
{
	struct world *w = &self->w;
	uint64_t page, was;
	uint32_t result = 0xcc;

	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	was = page;
	ASSERT_EQ(0, dev_publish_as(w->fd[0], w->pool, &page, 1,
				    KVCACHE_PUBLISH_COPY, 0, &result));
	EXPECT_EQ(KVCACHE_PUBLISHED, result);
	EXPECT_EQ(was, page);
}

/* ---- many ---------------------------------------------------------------- */

#define MANY		128	/* pages, one pinned and freed each 20 ms */

/*
 * Pages that get stuck one after the other do not keep those that are let go
 * meanwhile from being looked at.
 */
TEST_F(dev, one_that_is_let_go_does_not_wait_for_those_that_get_stuck)
{
	struct world *w = &self->w;
	int pool = dev_pool(w->admin, "many", PAGE, MANY + 1), red[2], blue[2];
	struct world many = { .admin = w->admin, .pool = pool };
	struct iovec v = { .iov_len = 4096 };
	uint64_t pages[MANY], page;
	bool is_free = false;
	char *rw;
	int k;

	ASSERT_LE(0, pool);
	ASSERT_EQ(0, pipe2(red, O_CLOEXEC));
	ASSERT_EQ(0, pipe2(blue, O_CLOEXEC));
	ASSERT_LE(MANY * 4096, fcntl(red[1], F_SETPIPE_SZ, MANY * 4096));
	ASSERT_EQ(0, dev_alloc(w->fd[0], pool, MANY, pages));
	ASSERT_EQ(0, dev_alloc(w->fd[1], pool, 1, &page));
	rw = dev_window(w->fd[1], pool, true);
	ASSERT_NE(MAP_FAILED, rw);
	v.iov_base = AT(rw, page);
	ASSERT_EQ(4096, vmsplice(blue[1], &v, 1, 0));
	ASSERT_EQ(0, dev_free(w->fd[1], pool, &page, 1));
	rw = dev_window(w->fd[0], pool, true);
	ASSERT_NE(MAP_FAILED, rw);
	for (k = 0; k < MANY && !is_free; k++) {
		v.iov_base = AT(rw, pages[k]);
		ASSERT_EQ(4096, vmsplice(red[1], &v, 1, 0));
		ASSERT_EQ(0, dev_free(w->fd[0], pool, &pages[k], 1));
		/* It was stuck; now nobody holds it. */
		if (k == 4) {
			close(blue[0]);
			close(blue[1]);
		}
		usleep(20000);
		is_free = page_state(&many, page) == KVCACHE_PAGE_FREE;
	}
	printf("# free after %d\n", k);
	EXPECT_TRUE(is_free);
	EXPECT_EQ(KVCACHE_PAGE_RETIRING, page_state(&many, pages[0]));
	close(red[0]);
	close(red[1]);
	if (k < MANY)
		ASSERT_EQ(0, dev_free(w->fd[0], pool, &pages[k], MANY - k));
	ASSERT_TRUE(dev_settles(w->admin, pool, MANY + 1));
	dev_unmap_all();
	EXPECT_EQ(0, dev_pool_op(w->admin, pool, KVCACHE_POOL_REMOVE, 0, NULL));
}

TEST_HARNESS_MAIN
