// SPDX-License-Identifier: MIT
/*
 * test_map.c - the two windows of a pool: what can be mapped, who may touch
 * which page, and when that ends.
 */
#include "dev_mem.h"

#define WINDOW	(1ULL << 44)	/* what the offsets of two windows differ by */
#define RW	(PROT_READ | PROT_WRITE)

/* 0 if it can be mapped so, or -errno. */
static int try_map(int fd, size_t len, int prot, int flags, uint64_t offset)
{
	void *at = mmap(NULL, len, prot, flags, fd, offset);

	if (at == MAP_FAILED)
		return -errno;
	munmap(at, len);
	return 0;
}

/* ---- mapping ------------------------------------------------------------- */

TEST_F(dev, windows_do_not_overlap_those_of_other_pools)
{
	struct world *w = &self->w;
	struct kvcache_pool_info a, b;
	int other = dev_pool(w->admin, "other", PAGE, 1);

	ASSERT_LE(0, other);
	ASSERT_EQ(0, dev_pool_info(w->admin, w->pool, &a));
	ASSERT_EQ(0, dev_pool_info(w->admin, other, &b));
	EXPECT_EQ(2 * w->pool * WINDOW, a.rw_offset);
	EXPECT_EQ(a.rw_offset + WINDOW, a.ro_offset);
	EXPECT_EQ(2 * other * WINDOW, b.rw_offset);
	EXPECT_EQ(b.rw_offset + WINDOW, b.ro_offset);
	EXPECT_EQ(0, dev_pool_op(w->admin, other, KVCACHE_POOL_REMOVE, 0,
				 NULL));
}

TEST_F(dev, a_private_mapping_is_refused)
{
	struct world *w = &self->w;

	EXPECT_EQ(-EINVAL, try_map(w->fd[0], PAGE, RW, MAP_PRIVATE, 0));
	EXPECT_EQ(-EINVAL, try_map(w->fd[0], PAGE, PROT_READ, MAP_PRIVATE,
				   WINDOW));
}

TEST_F(dev, what_is_mapped_cannot_be_run)
{
	struct world *w = &self->w;
	void *at;
	int k;

	for (k = 0; k < 2; k++) {
		EXPECT_EQ(-EPERM, try_map(w->fd[0], PAGE, PROT_READ | PROT_EXEC,
					  MAP_SHARED, k * WINDOW));
		at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, w->fd[0],
			  k * WINDOW);
		ASSERT_NE(MAP_FAILED, at);
		EXPECT_EQ(-1, mprotect(at, PAGE, PROT_READ | PROT_EXEC));
		EXPECT_EQ(EACCES, errno);
		munmap(at, PAGE);
	}
}

TEST_F(dev, the_read_only_window_stays_read_only)
{
	struct world *w = &self->w;
	char *ro = dev_window(w->fd[0], w->pool, false), one = 1;
	int mem = open("/proc/self/mem", O_RDWR);
	uint64_t page;

	EXPECT_EQ(-EPERM, try_map(w->fd[0], PAGE, RW, MAP_SHARED, WINDOW));
	ASSERT_NE(MAP_FAILED, ro);
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	EXPECT_EQ(-1, mprotect(AT(ro, page), PAGE, RW));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(SIGSEGV, dev_touch(AT(ro, page), true));
	EXPECT_EQ(-EFAULT, mem_put(getpid(), AT(ro, page), &one, 1));
	/* A debugger's way past the protection of a mapping. */
	EXPECT_EQ(-1, pwrite(mem, &one, 1, (uintptr_t)AT(ro, page)));
	EXPECT_TRUE(dev_is_zero(AT(ro, page), PAGE));
	close(mem);
}

TEST_F(dev, the_writable_window_can_be_protected_and_back)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[0], w->pool, true);
	uint64_t page;

	ASSERT_NE(MAP_FAILED, rw);
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	EXPECT_EQ(0, dev_touch(AT(rw, page), true));
	EXPECT_EQ(0, mprotect(AT(rw, page), PAGE, PROT_READ));
	EXPECT_EQ(0, dev_touch(AT(rw, page), false));
	EXPECT_EQ(SIGSEGV, dev_touch(AT(rw, page), true));
	EXPECT_EQ(0, mprotect(AT(rw, page), PAGE, RW));
	EXPECT_EQ(0, dev_touch(AT(rw, page), true));
}

TEST_F(dev, an_open_for_reading_gives_no_writable_mapping)
{
	int fd = open(DEVICE, O_RDONLY | O_CLOEXEC);
	uint64_t page;
	char *at;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, dev_attach(fd, "red"));
	ASSERT_EQ(0, dev_alloc(fd, self->w.pool, 1, &page));
	EXPECT_EQ(-EACCES, try_map(fd, PAGE, RW, MAP_SHARED, 0));
	at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd,
		  (uint32_t)page * PAGE);
	ASSERT_NE(MAP_FAILED, at);
	EXPECT_EQ(0, dev_touch(at, false));
	EXPECT_EQ(-1, mprotect(at, PAGE, RW));
	EXPECT_EQ(EACCES, errno);
	munmap(at, PAGE);
	close(fd);
}

TEST_F(dev, a_mapping_lies_within_one_window)
{
	const uint64_t end = 2ULL * KVCACHE_MAX_POOLS * WINDOW;
	int fd = self->w.fd[0];
	uint64_t at;

	for (at = WINDOW; at <= end; at += WINDOW) {
		EXPECT_EQ(0, try_map(fd, 4096, PROT_READ, MAP_SHARED,
				     at - 4096));
		EXPECT_EQ(-EINVAL, try_map(fd, 8192, PROT_READ, MAP_SHARED,
					   at - 4096));
	}
	EXPECT_EQ(-EINVAL, try_map(fd, 4096, PROT_READ, MAP_SHARED, end));
	EXPECT_EQ(-EINVAL, try_map(fd, 4096, PROT_READ, MAP_SHARED,
				   end + WINDOW));
	EXPECT_EQ(-EINVAL, try_map(fd, 4096, PROT_READ, MAP_SHARED,
				   1ULL << 62));
	EXPECT_EQ(-EINVAL, try_map(fd, 4096, PROT_READ, MAP_SHARED,
				   ~1ULL << 12));
	/* The kernel's own answer. */
	EXPECT_EQ(-EOVERFLOW, try_map(fd, 4096, PROT_READ, MAP_SHARED,
				      ~0ULL << 12));
}

TEST_F(dev, who_is_not_attached_maps_nothing)
{
	EXPECT_EQ(-ENOTCONN, try_map(self->w.admin, PAGE, PROT_READ, MAP_SHARED,
				     WINDOW));
	EXPECT_EQ(-ENOTCONN, try_map(self->w.admin, PAGE, RW, MAP_SHARED, 0));
}

/* ---- touching ------------------------------------------------------------ */

/* What one who touches the page gets: of the window to write, and to read. */
struct sight {
	int rw;
	int rw_write;
	int ro;
};

static struct sight sight_of(char *rw, char *ro, uint64_t page)
{
	return (struct sight){
		.rw = dev_touch(AT(rw, page), false),
		.rw_write = dev_touch(AT(rw, page), true),
		.ro = dev_touch(AT(ro, page), false),
	};
}

#define EXPECT_SIGHT(r, v, o, rw_, ro_, page)				\
	do {								\
		struct sight s_ = sight_of(rw_, ro_, page);		\
									\
		EXPECT_EQ(r, s_.rw);					\
		EXPECT_EQ(v, s_.rw_write);				\
		EXPECT_EQ(o, s_.ro);					\
	} while (0)

/* Its owner, another client of its tenant, another tenant. */
FIXTURE(sights) {
	struct world w;
	int fd[3];
	char *rw[3], *ro[3];
	uint64_t page;
};

FIXTURE_SETUP(sights)
{
	int k;

	ASSERT_EQ(0, world_make(&self->w, PAGE, PAGES));
	self->fd[0] = self->w.fd[0];
	self->fd[1] = dev_client("red");
	self->fd[2] = self->w.fd[1];
	for (k = 0; k < 3; k++) {
		self->rw[k] = dev_window(self->fd[k], self->w.pool, true);
		self->ro[k] = dev_window(self->fd[k], self->w.pool, false);
		ASSERT_NE(MAP_FAILED, self->rw[k]);
		ASSERT_NE(MAP_FAILED, self->ro[k]);
	}
	ASSERT_EQ(0, dev_alloc(self->fd[0], self->w.pool, 1, &self->page));
}

FIXTURE_TEARDOWN(sights)
{
	close(self->fd[1]);
	EXPECT_EQ(0, world_end(&self->w));
}

#define EXPECT_HIDDEN(k)						\
	EXPECT_SIGHT(SIGBUS, SIGBUS, SIGBUS, self->rw[k], self->ro[k],	\
		     self->page)

TEST_F(sights, a_private_page_is_its_owners_alone)
{
	EXPECT_SIGHT(0, 0, 0, self->rw[0], self->ro[0], self->page);
	EXPECT_HIDDEN(1);
	EXPECT_HIDDEN(2);
	/* Both windows are the same memory. */
	EXPECT_EQ(1, *AT(self->ro[0], self->page));
}

TEST_F(sights, a_free_page_is_nobodys)
{
	int k;

	EXPECT_EQ(0, dev_touch(AT(self->rw[0], self->page), true));
	EXPECT_EQ(0, dev_touch(AT(self->ro[0], self->page), false));
	ASSERT_EQ(0, dev_free(self->fd[0], self->w.pool, &self->page, 1));
	for (k = 0; k < 3; k++)
		EXPECT_HIDDEN(k);
	ASSERT_TRUE(dev_settles(self->w.admin, self->w.pool, PAGES));
	for (k = 0; k < 3; k++)
		EXPECT_HIDDEN(k);
}

TEST_F(sights, a_shared_page_is_read_by_those_who_hold_it)
{
	uint64_t found;

	EXPECT_EQ(0, dev_touch(AT(self->rw[0], self->page), true));
	EXPECT_EQ(0, dev_touch(AT(self->ro[0], self->page), false));
	ASSERT_EQ(0, dev_publish(self->fd[0], self->w.pool, &self->page, 1));
	EXPECT_SIGHT(SIGBUS, SIGBUS, 0, self->rw[0], self->ro[0], self->page);
	EXPECT_EQ(1, *AT(self->ro[0], self->page));
	EXPECT_HIDDEN(1);
	EXPECT_HIDDEN(2);
	ASSERT_EQ(0, dev_lookup(self->fd[1], self->w.pool, 1, &found));
	EXPECT_SIGHT(SIGBUS, SIGBUS, 0, self->rw[1], self->ro[1], self->page);
	EXPECT_EQ(1, *AT(self->ro[1], self->page));
	EXPECT_HIDDEN(2);
	/* Who gives it back sees it no more; others still do. */
	ASSERT_EQ(0, dev_free(self->fd[0], self->w.pool, &self->page, 1));
	EXPECT_HIDDEN(0);
	EXPECT_SIGHT(SIGBUS, SIGBUS, 0, self->rw[1], self->ro[1], self->page);
}

TEST_F(sights, the_first_of_two_references_given_back_ends_nothing)
{
	uint64_t found;

	ASSERT_EQ(0, dev_publish(self->fd[0], self->w.pool, &self->page, 1));
	ASSERT_EQ(0, dev_lookup(self->fd[0], self->w.pool, 1, &found));
	EXPECT_EQ(self->page, found);
	ASSERT_EQ(0, dev_free(self->fd[0], self->w.pool, &self->page, 1));
	EXPECT_SIGHT(SIGBUS, SIGBUS, 0, self->rw[0], self->ro[0], self->page);
	ASSERT_EQ(0, dev_free(self->fd[0], self->w.pool, &self->page, 1));
	EXPECT_HIDDEN(0);
}

TEST_F(sights, a_cached_page_is_nobodys_until_it_is_found)
{
	uint64_t found;
	int k;

	EXPECT_EQ(0, dev_touch(AT(self->rw[0], self->page), true));
	ASSERT_EQ(0, dev_publish(self->fd[0], self->w.pool, &self->page, 1));
	EXPECT_EQ(0, dev_touch(AT(self->ro[0], self->page), false));
	ASSERT_EQ(0, dev_free(self->fd[0], self->w.pool, &self->page, 1));
	EXPECT_EQ(KVCACHE_PAGE_CACHED, page_state(&self->w, self->page));
	for (k = 0; k < 3; k++)
		EXPECT_HIDDEN(k);
	ASSERT_EQ(0, dev_lookup(self->fd[1], self->w.pool, 1, &found));
	EXPECT_EQ(self->page, found);
	EXPECT_SIGHT(SIGBUS, SIGBUS, 0, self->rw[1], self->ro[1], self->page);
	EXPECT_EQ(1, *AT(self->ro[1], self->page));
	EXPECT_HIDDEN(0);
}

TEST_F(sights, a_volatile_page_is_read_by_its_owner_alone)
{
	uint8_t state = 0xcc;

	EXPECT_SIGHT(0, 0, 0, self->rw[0], self->ro[0], self->page);
	ASSERT_EQ(0, dev_advise(self->fd[0], self->w.pool, self->page,
				KVCACHE_ADVISE_VOLATILE, &state));
	EXPECT_SIGHT(SIGBUS, SIGBUS, 0, self->rw[0], self->ro[0], self->page);
	EXPECT_HIDDEN(1);
	EXPECT_HIDDEN(2);
	ASSERT_EQ(0, dev_advise(self->fd[0], self->w.pool, self->page,
				KVCACHE_ADVISE_NONVOLATILE, &state));
	EXPECT_EQ(KVCACHE_ADVISE_KEPT, state);
	EXPECT_SIGHT(0, 0, 0, self->rw[0], self->ro[0], self->page);
}

TEST_F(sights, a_volatile_page_that_was_taken_is_its_owners_no_more)
{
	uint64_t all[PAGES];
	uint8_t state = 0xcc;

	EXPECT_SIGHT(0, 0, 0, self->rw[0], self->ro[0], self->page);
	ASSERT_EQ(0, dev_advise(self->fd[0], self->w.pool, self->page,
				KVCACHE_ADVISE_VOLATILE, NULL));
	EXPECT_EQ(0, dev_touch(AT(self->ro[0], self->page), false));
	ASSERT_EQ(0, dev_alloc(self->fd[2], self->w.pool, PAGES, all));
	EXPECT_HIDDEN(0);
	EXPECT_SIGHT(0, 0, 0, self->rw[2], self->ro[2], self->page);
	ASSERT_EQ(0, dev_advise(self->fd[0], self->w.pool, self->page,
				KVCACHE_ADVISE_NONVOLATILE, &state));
	EXPECT_EQ(KVCACHE_ADVISE_TAKEN, state);
	EXPECT_HIDDEN(0);
}

TEST_F(sights, page_zero_reads_as_zeros_and_is_never_written)
{
	int k;

	for (k = 0; k < 3; k++) {
		EXPECT_SIGHT(SIGBUS, SIGBUS, 0, self->rw[k], self->ro[k], 0);
		EXPECT_TRUE(dev_is_zero(self->ro[k], PAGE));
	}
}

/* ---- beyond -------------------------------------------------------------- */

TEST_F(dev, beyond_the_pool_there_is_nothing)
{
	struct world *w = &self->w;
	const size_t len = (PAGES + 3) * PAGE;
	char *at[2];
	uint64_t all[PAGES + 1];
	int k;

	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, PAGES, all));
	for (k = 0; k < 2; k++) {
		at[k] = mmap(NULL, len, k ? PROT_READ : RW, MAP_SHARED,
			     w->fd[0], k * WINDOW + 2 * w->pool * WINDOW);
		ASSERT_NE(MAP_FAILED, at[k]);
		EXPECT_EQ(0, dev_touch(AT(at[k], PAGES) + PAGE - 1, false));
		EXPECT_EQ(SIGBUS, dev_touch(AT(at[k], PAGES + 1), false));
		EXPECT_EQ(SIGBUS, dev_touch(AT(at[k], PAGES + 2), false));
	}
	/* What is mapped already shows pages that come later. */
	ASSERT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESIZE,
				 PAGES + 1, NULL));
	EXPECT_EQ(SIGBUS, dev_touch(AT(at[0], PAGES + 1), false));
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &all[PAGES]));
	EXPECT_EQ(0, dev_touch(AT(at[0], all[PAGES]), true));
	EXPECT_EQ(1, *AT(at[1], all[PAGES]));
	/* And no longer those that went. */
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, &all[PAGES], 1));
	ASSERT_TRUE(dev_settles(w->admin, w->pool, 1));
	ASSERT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESIZE,
				 PAGES, NULL));
	EXPECT_EQ(SIGBUS, dev_touch(AT(at[0], PAGES + 1), true));
	EXPECT_EQ(SIGBUS, dev_touch(AT(at[1], PAGES + 1), false));
	munmap(at[0], len);
	munmap(at[1], len);
}

TEST_F(dev, the_window_of_a_pool_that_is_not_there_is_empty)
{
	const int none = KVCACHE_MAX_POOLS - 1;
	char *at = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, self->w.fd[0],
			(2 * none + 1) * WINDOW);

	ASSERT_NE(MAP_FAILED, at);
	EXPECT_EQ(SIGBUS, dev_touch(at, false));
	EXPECT_EQ(SIGBUS, dev_touch(AT(at, 1), false));
	munmap(at, 2 * PAGE);
}

TEST_F(dev, a_pages_number_means_nothing_in_another_pools_window)
{
	struct world *w = &self->w;
	int other = dev_pool(w->admin, "other", PAGE, PAGES);
	char *rw = dev_window(w->fd[0], other, true);
	char *ro = dev_window(w->fd[0], other, false);
	uint64_t page;

	ASSERT_NE(MAP_FAILED, rw);
	ASSERT_NE(MAP_FAILED, ro);
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	EXPECT_SIGHT(SIGBUS, SIGBUS, SIGBUS, rw, ro, page);
	dev_unmap_all();
	EXPECT_EQ(0, dev_pool_op(w->admin, other, KVCACHE_POOL_REMOVE, 0,
				 NULL));
}

/* ---- ends of an access --------------------------------------------------- */

TEST_F(dev, all_mappings_of_a_page_end_together)
{
	struct world *w = &self->w;
	char *at[4];
	uint64_t page;
	int k;

	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	for (k = 0; k < 4; k++) {
		at[k] = dev_window(w->fd[0], w->pool, k < 2);
		ASSERT_NE(MAP_FAILED, at[k]);
		EXPECT_EQ(0, dev_touch(AT(at[k], page), k < 2));
	}
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, &page, 1));
	for (k = 0; k < 4; k++)
		EXPECT_EQ(SIGBUS, dev_touch(AT(at[k], page), false));
}

TEST_F(dev, a_revoked_page_is_gone_and_the_others_stay)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[0], w->pool, true);
	char *ro = dev_window(w->fd[0], w->pool, false);
	uint64_t pages[6], kept = 0;
	int k;

	ASSERT_NE(MAP_FAILED, rw);
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 6, pages));
	for (k = 0; k < 6; k++)
		memset(AT(rw, pages[k]), k + 1, PAGE);
	for (k = 0; k < 2; k++)
		ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &pages[k], k + 1));
	for (k = 0; k < 6; k++)
		EXPECT_EQ(0, dev_touch(AT(ro, pages[k]), false));
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0, 2,
				dev_now() + 20000000));
	for (k = 0; k < 1000 && charge(w, 0) != 2; k++)
		usleep(5000);
	ASSERT_EQ(2, charge(w, 0));
	for (k = 0; k < 6; k++) {
		unsigned int state = page_state(w, pages[k]);

		if (state == KVCACHE_PAGE_FREE) {
			EXPECT_SIGHT(SIGBUS, SIGBUS, SIGBUS, rw, ro, pages[k]);
			continue;
		}
		kept++;
		EXPECT_EQ(k < 2 ? KVCACHE_PAGE_SHARED : KVCACHE_PAGE_PRIVATE,
			  state);
		EXPECT_TRUE(all_are(AT(ro, pages[k]), k + 1, PAGE));
		EXPECT_EQ(k < 2 ? SIGBUS : 0, dev_touch(AT(rw, pages[k]),
							true));
	}
	EXPECT_EQ(2, kept);
	EXPECT_STREQ("ok", dev_verify());
}

TEST_F(dev, a_drain_takes_pages_only_when_nobody_holds_them)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[0], w->pool, true);
	char *ro = dev_window(w->fd[0], w->pool, false);
	uint64_t pages[3], more;
	int k;

	ASSERT_NE(MAP_FAILED, rw);
	ASSERT_NE(MAP_FAILED, ro);
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 3, pages));
	for (k = 0; k < 3; k++)
		memset(AT(rw, pages[k]), k + 1, PAGE);
	for (k = 1; k < 3; k++)
		ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &pages[k], k));
	EXPECT_EQ(3, *AT(ro, pages[2]));
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, &pages[2], 1));
	ASSERT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_DRAIN, 0,
				 NULL));
	EXPECT_EQ(-ESHUTDOWN, dev_alloc(w->fd[0], w->pool, 1, &more));
	EXPECT_EQ(-ENOENT, dev_lookup(w->fd[0], w->pool, 2, &more));
	EXPECT_EQ(SIGBUS, dev_touch(AT(ro, pages[2]), false));
	EXPECT_EQ(0, dev_touch(AT(rw, pages[0]), true));
	EXPECT_EQ(2, *AT(ro, pages[1]));
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, pages, 2));
	EXPECT_SIGHT(SIGBUS, SIGBUS, SIGBUS, rw, ro, pages[0]);
	EXPECT_SIGHT(SIGBUS, SIGBUS, SIGBUS, rw, ro, pages[1]);
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES));
	ASSERT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESUME, 0,
				 NULL));
	EXPECT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &more));
}

TEST_HARNESS_MAIN
