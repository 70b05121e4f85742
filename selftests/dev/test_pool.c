// SPDX-License-Identifier: MIT
/*
 * test_pool.c - pools come, grow, shrink and go, and their memory with them.
 */
#include "refuse.h"

/* Two readings of the whole machine's memory differ by less. */
#define SLACK	(4 * MIB)

/* Bytes of one line of /proc/meminfo, 0 if there is none. */
static uint64_t meminfo(const char *name)
{
	FILE *f = fopen("/proc/meminfo", "r");
	unsigned long long kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)) &&
		    line[strlen(name)] == ':')
			sscanf(line + strlen(name) + 1, "%llu", &kib);
	if (f)
		fclose(f);
	return kib << 10;
}

/* Free memory, with what each CPU keeps for itself, 2 MiB pages included. */
static uint64_t free_memory(void)
{
	FILE *f = fopen("/proc/zoneinfo", "r");
	uint64_t bytes = meminfo("MemFree");
	unsigned long pages;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, " count: %lu", &pages) == 1)
			bytes += pages * sysconf(_SC_PAGESIZE);
	if (f)
		fclose(f);
	return bytes;
}

/* What was freed a moment later counts. */
static bool memory_is_back(uint64_t before)
{
	uint64_t now = 0;
	int k;

	for (k = 0; k < 20; k++) {
		now = free_memory();
		if (now + SLACK >= before)
			return true;
		usleep(50000);
	}
	printf("# free: %llu, before: %llu\n", (unsigned long long)now,
	       (unsigned long long)before);
	return false;
}

/* A page of a pool of its own size, from end to end. */
static int use_page(struct world *w, uint32_t pool, uint64_t page_size)
{
	char *rw = dev_window(w->fd[0], pool, true), *at;
	uint64_t page;

	if (rw == MAP_FAILED || dev_alloc(w->fd[0], pool, 1, &page))
		return __LINE__;
	at = rw + (uint32_t)page * page_size;
	if (dev_touch(at - 1, false) != SIGBUS && (uint32_t)page != 1)
		return __LINE__;
	if (at[0] || at[page_size - 1] || at[page_size / 2])
		return __LINE__;
	memset(at, 1, 4096);
	memset(at + page_size - 4096, 2, 4096);
	if (at[4095] != 1 || at[page_size - 4096] != 2)
		return __LINE__;
	if (dev_touch(at + page_size, false) != SIGBUS)
		return __LINE__;
	return dev_free(w->fd[0], pool, &page, 1) ? __LINE__ : 0;
}

TEST_F(dev, pages_of_every_size)
{
	struct world *w = &self->w;
	uint64_t size;
	struct kvcache_pool_info p;
	int pool;

	for (size = KVCACHE_PAGE_SIZE_MIN; size <= KVCACHE_PAGE_SIZE_MAX;
	     size *= 2) {
		pool = dev_pool(w->admin, "sized", size, 2);
		ASSERT_LT(0, pool)
			TH_LOG("%llu", (unsigned long long)size);
		ASSERT_EQ(0, dev_pool_info(w->admin, pool, &p));
		EXPECT_EQ(size, p.page_size);
		EXPECT_EQ(2, p.nr_pages);
		EXPECT_EQ(2, p.nr_free);
		EXPECT_STREQ("sized", p.name);
		EXPECT_EQ(0, use_page(w, pool, size))
			TH_LOG("%llu", (unsigned long long)size);
		dev_unmap_all();
		EXPECT_TRUE(dev_settles(w->admin, pool, 2));
		EXPECT_EQ(0, dev_pool_op(w->admin, pool, KVCACHE_POOL_REMOVE,
					 0, NULL));
	}
}

/* More than there is at all, and more than is free, found out on the way. */
TEST_F(dev, a_pool_for_which_there_is_no_memory_leaves_none_behind)
{
	struct world *w = &self->w;
	uint64_t before = 0, total = meminfo("MemTotal");
	static const uint64_t sizes[] = { PAGE, 64 * MIB };
	struct kvcache_pool_set s;
	int round, k;

	/* The first round fills what the kernel keeps for itself. */
	for (round = 0; round < 2; round++) {
		if (round == 1)
			before = free_memory();
		for (k = 0; k < 4; k++) {
			memset(&s, 0, sizeof(s));
			s.size = sizeof(s);
			s.op = KVCACHE_POOL_CREATE;
			s.page_size = sizes[k / 2];
			s.nr_pages = total / s.page_size << k % 2 * 2;
			strcpy(s.name, "huge");
			REFUSED(w, ENOMEM, w->admin, KVCACHE_NR_POOL_SET, s);
		}
	}
	EXPECT_TRUE(memory_is_back(before));
}

TEST_F(dev, a_pool_grows_to_four_times_its_size)
{
	struct world *w = &self->w;
	uint64_t pages[4 * PAGES], nr;
	struct kvcache_pool_info p;
	char *rw;
	int k;

	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, PAGES, pages));
	rw = dev_window(w->fd[0], w->pool, true);
	ASSERT_NE(MAP_FAILED, rw);
	for (k = 0; k < PAGES; k++)
		rw[(uint32_t)pages[k] * PAGE] = k + 1;
	ASSERT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESIZE,
				 PAGES, &nr));
	EXPECT_EQ(PAGES, nr);
	ASSERT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESIZE,
				 4 * PAGES, &nr));
	EXPECT_EQ(4 * PAGES, nr);
	ASSERT_EQ(0, dev_pool_info(w->admin, w->pool, &p));
	EXPECT_EQ(4 * PAGES, p.nr_pages);
	EXPECT_EQ(3 * PAGES, p.nr_free);
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 3 * PAGES, pages + PAGES));
	rw = dev_window(w->fd[0], w->pool, true);
	for (k = 0; k < 4 * PAGES; k++)
		EXPECT_EQ(k < PAGES ? k + 1 : 0,
			  rw[(uint32_t)pages[k] * PAGE]);
}

TEST_F(dev, a_pool_that_cannot_grow_stays_as_it_was)
{
	struct world *w = &self->w;
	uint64_t empty = free_memory(), made, nr;
	struct kvcache_pool_info p;
	int pool;

	/* A third of what is free, so that four times that is too much. */
	nr = empty / 3 / (2 * MIB);
	pool = dev_pool(w->admin, "third", 2 * MIB, nr);
	ASSERT_LT(0, pool);
	made = free_memory();
	EXPECT_LT(made, empty / 4 * 3);
	UNCHANGED(w, EXPECT_EQ(-ENOMEM,
			       dev_pool_op(w->admin, pool, KVCACHE_POOL_RESIZE,
					   4 * nr, NULL)));
	EXPECT_TRUE(memory_is_back(made));
	ASSERT_EQ(0, dev_pool_info(w->admin, pool, &p));
	EXPECT_EQ(nr, p.nr_pages);
	EXPECT_EQ(nr, p.nr_free);
	EXPECT_EQ(0, use_page(w, pool, 2 * MIB));
	dev_unmap_all();
	ASSERT_TRUE(dev_settles(w->admin, pool, nr));
	EXPECT_EQ(0, dev_pool_op(w->admin, pool, KVCACHE_POOL_RESIZE, 1, &nr));
	EXPECT_EQ(1, nr);
	/* It has the null page, the first, and room to grow. */
	EXPECT_TRUE(memory_is_back(empty - 8 * MIB));
	EXPECT_EQ(0, dev_pool_op(w->admin, pool, KVCACHE_POOL_REMOVE, 0, NULL));
	EXPECT_TRUE(memory_is_back(empty));
}

/* Page numbers go from the end, and what is in use stops that. */
TEST_F(dev, a_pool_shrinks_as_far_as_its_pages_in_use)
{
	struct world *w = &self->w;
	struct kvcache_pool_info p;
	uint64_t pages[PAGES], nr;
	char *rw = dev_window(w->fd[0], w->pool, true);
	int k;

	ASSERT_NE(MAP_FAILED, rw);
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, PAGES, pages));
	for (k = 0; k < PAGES; k++)
		ASSERT_EQ(k + 1, (uint32_t)pages[k]);
	memset(rw + 10 * PAGE, 0x77, PAGE);
	/* All but the tenth, which is the one on the way. */
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, pages, 9));
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, pages + 10, PAGES - 10));
	ASSERT_TRUE(dev_settles(w->admin, w->pool, PAGES - 1));
	nr = 0;
	EXPECT_EQ(-EBUSY, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESIZE,
				      4, &nr));
	EXPECT_EQ(10, nr);
	ASSERT_EQ(0, dev_pool_info(w->admin, w->pool, &p));
	EXPECT_EQ(10, p.nr_pages);
	EXPECT_EQ(9, p.nr_free);
	EXPECT_EQ(1, p.nr_private);
	EXPECT_EQ(0x77, rw[10 * PAGE]);
	EXPECT_EQ(0x77, rw[11 * PAGE - 1]);
	EXPECT_EQ(SIGBUS, dev_touch(rw + 11 * PAGE, false));
	EXPECT_EQ(-EBUSY, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESIZE,
				      4, &nr));
	EXPECT_EQ(10, nr);
	/* A handle of a page that went, and one of a page that stays. */
	EXPECT_EQ(-ESTALE, dev_free(w->fd[0], w->pool, pages + 15, 1));
	EXPECT_EQ(0, dev_free(w->fd[0], w->pool, pages + 9, 1));
	ASSERT_TRUE(dev_settles(w->admin, w->pool, 10));
	EXPECT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESIZE, 4,
				 &nr));
	EXPECT_EQ(4, nr);
	EXPECT_EQ(SIGBUS, dev_touch(rw + 10 * PAGE, false));
	/* What comes back is new. */
	EXPECT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESIZE, PAGES,
				 &nr));
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, PAGES, pages));
	for (k = 0; k < PAGES; k++)
		EXPECT_TRUE(dev_is_zero(rw + (uint32_t)pages[k] * PAGE, PAGE));
}

TEST_F(dev, a_pool_that_shrinks_gives_up_cached_pages)
{
	struct world *w = &self->w;
	uint64_t pages[PAGES], nr, found;
	int k;

	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, PAGES, pages));
	for (k = 0; k < PAGES; k++)
		ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &pages[k], k + 1));
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, pages, PAGES));
	EXPECT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESIZE, 5,
				 &nr));
	EXPECT_EQ(5, nr);
	for (k = 0; k < PAGES; k++)
		EXPECT_EQ((uint32_t)pages[k] <= 5 ? 0 : -ENOENT,
			  dev_lookup(w->fd[0], w->pool, k + 1, &found));
}

TEST_F(dev, a_drained_pool_hands_out_nothing_until_resumed)
{
	struct world *w = &self->w;
	struct kvcache_pool_info p;
	uint64_t pages[3], found, nr;

	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 3, pages));
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &pages[1], 1));
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &pages[2], 2));
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, &pages[2], 1));
	ASSERT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_DRAIN, 0,
				 &nr));
	EXPECT_EQ(PAGES, nr);
	ASSERT_TRUE(dev_settles(w->admin, w->pool, PAGES - 2));
	ASSERT_EQ(0, dev_pool_info(w->admin, w->pool, &p));
	EXPECT_EQ(1, p.draining);
	EXPECT_EQ(1, p.nr_private);
	EXPECT_EQ(1, p.nr_shared);
	EXPECT_EQ(0, p.nr_cached);
	EXPECT_EQ(-ESHUTDOWN, dev_alloc(w->fd[1], w->pool, 1, &found));
	EXPECT_EQ(-ESHUTDOWN, dev_alloc_until(w->fd[1], w->pool, 1, NEVER,
					      &found));
	/* A page that its last holder drops is not kept either. */
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, pages, 2));
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES));
	/* Again is no error, nor is the end of what was not begun. */
	EXPECT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_DRAIN, 0,
				 NULL));
	EXPECT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESUME, 0,
				 NULL));
	EXPECT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_RESUME, 0,
				 NULL));
	ASSERT_EQ(0, dev_pool_info(w->admin, w->pool, &p));
	EXPECT_EQ(0, p.draining);
	EXPECT_EQ(0, dev_alloc(w->fd[1], w->pool, 1, &found));
}

TEST_F(dev, a_pool_is_removed_when_its_last_page_is_back)
{
	struct world *w = &self->w;
	int pool = dev_pool(w->admin, "brief", PAGE, 2), again;
	uint64_t page, cached;
	char *rw;

	ASSERT_LT(0, pool);
	rw = dev_window(w->fd[0], pool, true);
	ASSERT_NE(MAP_FAILED, rw);
	ASSERT_EQ(0, dev_alloc(w->fd[0], pool, 1, &page));
	rw[(uint32_t)page * PAGE] = 1;
	ASSERT_EQ(0, dev_alloc(w->fd[0], pool, 1, &cached));
	ASSERT_EQ(0, dev_publish(w->fd[0], pool, &cached, 1));
	ASSERT_EQ(0, dev_free(w->fd[0], pool, &cached, 1));
	EXPECT_EQ(-EBUSY, dev_pool_op(w->admin, pool, KVCACHE_POOL_REMOVE, 0,
				      NULL));
	EXPECT_EQ(1, rw[(uint32_t)page * PAGE]);
	ASSERT_EQ(0, dev_free(w->fd[0], pool, &page, 1));
	ASSERT_EQ(0, dev_pool_op(w->admin, pool, KVCACHE_POOL_DRAIN, 0, NULL));
	ASSERT_TRUE(dev_settles(w->admin, pool, 2));
	EXPECT_EQ(0, dev_pool_op(w->admin, pool, KVCACHE_POOL_REMOVE, 0, NULL));
	EXPECT_EQ(-ENOENT, dev_alloc(w->fd[0], pool, 1, &page));
	/* Its window shows nothing, neither the null page. */
	EXPECT_EQ(SIGBUS, dev_touch(rw, false));
	EXPECT_EQ(SIGBUS, dev_touch(rw + PAGE, true));
	/* Its number and name are free, and the window is the new one's. */
	again = dev_pool(w->admin, "brief", 2 * PAGE, 2);
	EXPECT_EQ(pool, again);
	EXPECT_EQ(SIGBUS, dev_touch(rw + 2 * PAGE, true));
	EXPECT_EQ(-ESTALE, dev_free(w->fd[0], again, &page, 1));
	EXPECT_EQ(0, dev_pool_op(w->admin, again, KVCACHE_POOL_REMOVE, 0,
				 NULL));
}

/* One page or object lost in each round would be seen. */
TEST_F(dev, pools_that_come_and_go_leave_no_memory_behind)
{
	struct world *w = &self->w;
	uint64_t before = 0, slab = 0, pages[16];
	int k, pool;

	for (k = 0; k < 170; k++) {
		/* The first rounds fill what the kernel keeps for itself. */
		if (k == 20) {
			before = free_memory();
			slab = meminfo("Slab");
		}
		pool = dev_pool(w->admin, "brief", PAGE, 16);
		ASSERT_LT(0, pool);
		ASSERT_EQ(0, dev_alloc(w->fd[0], pool, 16, pages));
		ASSERT_EQ(0, dev_publish(w->fd[0], pool, &pages[0], k));
		ASSERT_EQ(0, dev_free(w->fd[0], pool, pages, 16));
		ASSERT_EQ(0, dev_pool_op(w->admin, pool, KVCACHE_POOL_DRAIN, 0,
					 NULL));
		ASSERT_TRUE(dev_settles(w->admin, pool, 16));
		ASSERT_EQ(0, dev_pool_op(w->admin, pool, KVCACHE_POOL_REMOVE,
					 0, NULL));
	}
	EXPECT_TRUE(memory_is_back(before));
	/* KASAN keeps freed objects for a while; kmemleak finds lost ones. */
	if (access("/sys/kernel/debug/failslab", F_OK))
		EXPECT_LT(meminfo("Slab"), slab + MIB);
}

TEST_F(dev, a_resize_that_could_not_be_answered_keeps_no_memory)
{
	struct world *w = &self->w;
	struct kvcache_pool_set s = {
		.size = sizeof(s), .op = KVCACHE_POOL_RESIZE, .nr_pages = 64,
	}, *bad;
	struct kvcache_pool_info p;
	uint64_t before;
	int pool;

	pool = dev_pool(w->admin, "large", MIB, 16);
	ASSERT_GE(pool, 0);
	s.pool = pool;
	bad = dev_read_only(&s, sizeof(s));
	ASSERT_NE(NULL, bad);
	before = free_memory();
	/* 48 MiB that no page of the pool would have. */
	EXPECT_EQ(-EFAULT, dev_call(w->admin, KVCACHE_NR_POOL_SET, bad));
	EXPECT_TRUE(memory_is_back(before));
	ASSERT_EQ(0, dev_pool_info(w->admin, pool, &p));
	EXPECT_EQ(16, p.nr_pages);
	EXPECT_EQ(0, dev_pool_op(w->admin, pool, KVCACHE_POOL_RESIZE, 20, NULL));
	EXPECT_EQ(0, dev_pool_op(w->admin, pool, KVCACHE_POOL_REMOVE, 0, NULL));
	munmap(bad, DEV_READ_ONLY);
}

TEST_HARNESS_MAIN
