// SPDX-License-Identifier: MIT
/*
 * test_vma.c - a mapping under the calls that programs make on memory: moved,
 * cut, advised, locked, forked, populated; and how large its parts are.
 */
#include <sys/resource.h>

#include "dev_mem.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ	22
#define MADV_POPULATE_WRITE	23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE		25
#endif

#define HUGE	(2UL << 20)

static long faults(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return r.ru_minflt;
}

/* Faults of writing a byte to each 4 KiB. */
static long faults_of(volatile char *at, size_t bytes)
{
	long before = faults();
	size_t k;

	for (k = 0; k < bytes; k += 4096)
		at[k] = 1;
	return faults() - before;
}

/* KiB of the mapping there that is mapped hugely; -1 if there is none. */
static long huge_kib(const char *at)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long from, to;
	bool inside = false;
	char line[256];
	long kib = -1;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from <= (uintptr_t)at && (uintptr_t)at < to;
		else if (inside)
			sscanf(line, "FilePmdMapped: %ld", &kib);
	}
	if (f)
		fclose(f);
	return kib;
}

/* ---- a window with one page that is owned -------------------------------- */

FIXTURE(vma) {
	struct world w;
	int fd;
	char *rw;
	uint64_t page;
	char *at;		/* the page */
};

FIXTURE_SETUP(vma)
{
	ASSERT_EQ(0, world_make(&self->w, PAGE, PAGES));
	self->fd = self->w.fd[0];
	self->rw = dev_window(self->fd, self->w.pool, true);
	ASSERT_NE(MAP_FAILED, self->rw);
	ASSERT_EQ(0, dev_alloc(self->fd, self->w.pool, 1, &self->page));
	self->at = AT(self->rw, self->page);
	memset(self->at, 0x5a, PAGE);
}

FIXTURE_TEARDOWN(vma)
{
	EXPECT_EQ(0, world_end(&self->w));
}

TEST_F(vma, a_moved_mapping_shows_the_same_and_ends_with_the_page)
{
	char *to = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);

	ASSERT_NE(MAP_FAILED, to);
	ASSERT_EQ(to, mremap(self->at, PAGE, PAGE,
			     MREMAP_MAYMOVE | MREMAP_FIXED, to));
	EXPECT_TRUE(all_are(to, 0x5a, PAGE));
	EXPECT_EQ(SIGSEGV, dev_touch(self->at, false));
	EXPECT_EQ(0, dev_touch(to, true));
	ASSERT_EQ(0, dev_free(self->fd, self->w.pool, &self->page, 1));
	EXPECT_EQ(SIGBUS, dev_touch(to, false));
	munmap(to, PAGE);
}

TEST_F(vma, a_mapping_does_not_grow_and_is_not_doubled)
{
	EXPECT_EQ(MAP_FAILED, mremap(self->at, PAGE, 2 * PAGE, MREMAP_MAYMOVE));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(MAP_FAILED, mremap(self->at, 0, PAGE, MREMAP_MAYMOVE));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(MAP_FAILED, mremap(self->at, PAGE, PAGE, MREMAP_MAYMOVE |
				     4 /* MREMAP_DONTUNMAP */));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_TRUE(all_are(self->at, 0x5a, PAGE));
}

TEST_F(vma, a_part_is_unmapped_and_the_rest_stays)
{
	char *middle = self->at + PAGE / 2;

	ASSERT_EQ(0, munmap(middle, 4096));
	EXPECT_EQ(SIGSEGV, dev_touch(middle, false));
	EXPECT_TRUE(all_are(self->at, 0x5a, PAGE / 2));
	EXPECT_TRUE(all_are(middle + 4096, 0x5a, PAGE / 2 - 4096));
	ASSERT_EQ(0, dev_free(self->fd, self->w.pool, &self->page, 1));
	EXPECT_EQ(SIGBUS, dev_touch(middle - 1, false));
	EXPECT_EQ(SIGBUS, dev_touch(middle + 4096, false));
}

TEST_F(vma, advice_never_loses_what_was_written)
{
	static const int advice[] = {
		MADV_DONTNEED, MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL,
		MADV_WILLNEED, MADV_COLD, MADV_PAGEOUT, MADV_HUGEPAGE,
		MADV_NOHUGEPAGE, MADV_COLLAPSE, MADV_MERGEABLE, MADV_FREE,
		MADV_REMOVE, MADV_DODUMP, MADV_WIPEONFORK, MADV_POPULATE_WRITE,
	};
	unsigned int k;

	for (k = 0; k < sizeof(advice) / sizeof(advice[0]); k++) {
		madvise(self->at, PAGE, advice[k]);
		EXPECT_TRUE(all_are(self->at, 0x5a, PAGE))
			TH_LOG("advice %d", advice[k]);
	}
	ASSERT_EQ(0, dev_free(self->fd, self->w.pool, &self->page, 1));
	EXPECT_EQ(SIGBUS, dev_touch(self->at, false));
	EXPECT_TRUE(dev_settles(self->w.admin, self->w.pool, PAGES));
}

TEST_F(vma, memory_is_not_taken_out_of_the_pool_by_advice)
{
	EXPECT_EQ(-1, madvise(self->at, PAGE, MADV_REMOVE));
	EXPECT_EQ(ENODEV, errno);
	EXPECT_EQ(-1, madvise(self->at, PAGE, MADV_FREE));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(0, madvise(self->at, PAGE, MADV_DONTNEED));
	/* Faulted in again, not new. */
	EXPECT_EQ(PAGE / 4096, faults_of(self->at, PAGE));
	EXPECT_EQ(KVCACHE_PAGE_PRIVATE, page_state(&self->w, self->page));
}

TEST_F(vma, a_locked_page_is_given_back_like_any_other)
{
	ASSERT_EQ(0, mlock(self->at, PAGE));
	EXPECT_TRUE(all_are(self->at, 0x5a, PAGE));
	ASSERT_EQ(0, dev_free(self->fd, self->w.pool, &self->page, 1));
	EXPECT_EQ(SIGBUS, dev_touch(self->at, false));
	EXPECT_TRUE(dev_settles(self->w.admin, self->w.pool, PAGES));
	EXPECT_EQ(-1, mlock(self->at, PAGE));
	EXPECT_EQ(ENOMEM, errno);
	EXPECT_EQ(0, munlock(self->at, PAGE));
}

TEST_F(vma, there_is_nothing_to_write_back)
{
	EXPECT_EQ(0, msync(self->at, PAGE, MS_ASYNC));
	EXPECT_EQ(-1, msync(self->at, PAGE, MS_SYNC));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(0, msync(self->at, PAGE, MS_INVALIDATE));
	EXPECT_TRUE(all_are(self->at, 0x5a, PAGE));
}

static void touch_and_tell(int sock, void *at)
{
	say(sock, dev_touch(at, false));
	say(sock, dev_touch(at, true));
	hear(sock);
}

TEST_F(vma, a_child_does_not_have_the_mapping)
{
	struct child c;

	ASSERT_EQ(0, child_start(&c, touch_and_tell, self->at));
	EXPECT_EQ(SIGSEGV, hear(c.sock));
	EXPECT_EQ(SIGSEGV, hear(c.sock));
	EXPECT_EQ(-SIGKILL, child_kill(&c));
	EXPECT_TRUE(all_are(self->at, 0x5a, PAGE));
}

TEST_F(vma, a_child_that_was_given_the_mapping_sees_nothing_through_it)
{
	struct child c;

	ASSERT_EQ(0, madvise(self->rw, (PAGES + 1) * PAGE, MADV_DOFORK));
	ASSERT_EQ(0, child_start(&c, touch_and_tell, self->at));
	EXPECT_EQ(SIGBUS, hear(c.sock));
	EXPECT_EQ(SIGBUS, hear(c.sock));
	EXPECT_EQ(-SIGKILL, child_kill(&c));
	EXPECT_TRUE(all_are(self->at, 0x5a, PAGE));
}

TEST_F(vma, a_mapping_is_populated_where_it_is_owned)
{
	size_t len = (PAGES + 1) * PAGE;
	struct kvcache_pool_info p;
	char *at;

	ASSERT_EQ(0, dev_pool_info(self->w.admin, self->w.pool, &p));
	at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		  self->fd, p.rw_offset);
	/* Page 0, where it begins, is not writable. */
	ASSERT_NE(MAP_FAILED, at);
	EXPECT_EQ(PAGE / 4096, faults_of(AT(at, self->page), PAGE));
	munmap(at, len);
	at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		  self->fd, p.rw_offset + (uint32_t)self->page * PAGE);
	ASSERT_NE(MAP_FAILED, at);
	EXPECT_EQ(0, faults_of(at, PAGE));
	EXPECT_EQ(1, *self->at);
	munmap(at, PAGE);
	EXPECT_EQ(0, madvise(self->at, PAGE, MADV_POPULATE_READ));
	EXPECT_EQ(0, madvise(self->at, PAGE, MADV_POPULATE_WRITE));
	ASSERT_EQ(0, dev_free(self->fd, self->w.pool, &self->page, 1));
	EXPECT_EQ(-1, madvise(self->at, PAGE, MADV_POPULATE_READ));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, madvise(self->at, PAGE, MADV_POPULATE_WRITE));
	EXPECT_EQ(EFAULT, errno);
}

TEST_F(vma, another_process_reads_it_only_while_it_is_owned)
{
	static char copy[PAGE];

	ASSERT_EQ(PAGE, mem_get(getpid(), self->at, copy, PAGE));
	EXPECT_TRUE(all_are(copy, 0x5a, PAGE));
	memset(copy, 0x6b, PAGE);
	ASSERT_EQ(PAGE, mem_put(getpid(), self->at, copy, PAGE));
	EXPECT_TRUE(all_are(self->at, 0x6b, PAGE));
	ASSERT_EQ(0, dev_free(self->fd, self->w.pool, &self->page, 1));
	EXPECT_EQ(-EFAULT, mem_get(getpid(), self->at, copy, PAGE));
	EXPECT_EQ(-EFAULT, mem_put(getpid(), self->at, copy, PAGE));
}

/* ---- sizes of pages ------------------------------------------------------ */

FIXTURE(sizes) {
	struct world w;
	char *rw, *ro;
	uint64_t pages[3];
};

FIXTURE_VARIANT(sizes) {
	size_t page;
	long faults;		/* to touch a page */
	long huge;		/* KiB of a touched page that are mapped hugely */
};

FIXTURE_VARIANT_ADD(sizes, of_64_kib) {
	.page = 64 << 10, .faults = 16, .huge = 0,
};

FIXTURE_VARIANT_ADD(sizes, of_2_mib) {
	.page = 2 << 20, .faults = 1, .huge = 2048,
};

FIXTURE_VARIANT_ADD(sizes, of_4_mib) {
	.page = 4 << 20, .faults = 2, .huge = 4096,
};

FIXTURE_SETUP(sizes)
{
	ASSERT_EQ(0, world_make(&self->w, variant->page, 3));
	self->rw = dev_window(self->w.fd[0], self->w.pool, true);
	self->ro = dev_window(self->w.fd[0], self->w.pool, false);
	ASSERT_NE(MAP_FAILED, self->rw);
	ASSERT_NE(MAP_FAILED, self->ro);
	ASSERT_EQ(0, dev_alloc(self->w.fd[0], self->w.pool, 3, self->pages));
}

FIXTURE_TEARDOWN(sizes)
{
	EXPECT_EQ(0, world_end(&self->w));
}

TEST_F(sizes, a_page_is_mapped_in_the_largest_pieces)
{
	char *at = self->rw + (uint32_t)self->pages[0] * variant->page;

	/* Not the faults of the tables of the test itself. */
	faults_of((char *)&self->pages, 1);
	EXPECT_EQ(variant->faults, faults_of(at, variant->page));
	EXPECT_EQ(variant->huge, huge_kib(at));
	EXPECT_EQ(0, faults_of(at, variant->page));
}

TEST_F(sizes, neighbours_are_apart_to_the_byte)
{
	size_t n = variant->page;
	char *at[3], *ro[3];
	int k;

	for (k = 0; k < 3; k++) {
		at[k] = self->rw + (uint32_t)self->pages[k] * n;
		ro[k] = self->ro + (uint32_t)self->pages[k] * n;
		ASSERT_TRUE(dev_is_zero(at[k], n));
		at[k][0] = k + 1;
		at[k][n / 2] = k + 11;
		at[k][n - 1] = k + 21;
	}
	for (k = 0; k < 3; k++) {
		EXPECT_EQ(k + 1, ro[k][0]);
		EXPECT_EQ(k + 11, ro[k][n / 2]);
		EXPECT_EQ(k + 21, ro[k][n - 1]);
		EXPECT_TRUE(dev_is_zero(ro[k] + 1, n / 2 - 1));
		EXPECT_TRUE(dev_is_zero(ro[k] + n / 2 + 1, n / 2 - 2));
	}
	ASSERT_EQ(0, dev_free(self->w.fd[0], self->w.pool, &self->pages[1],
			      1));
	for (k = 0; k < 3; k++) {
		EXPECT_EQ(k == 1 ? SIGBUS : 0, dev_touch(at[k], false));
		EXPECT_EQ(k == 1 ? SIGBUS : 0, dev_touch(at[k] + n - 1, true));
		EXPECT_EQ(k == 1 ? SIGBUS : 0, dev_touch(ro[k] + n / 2, false));
	}
	ASSERT_TRUE(dev_settles(self->w.admin, self->w.pool, 1));
	ASSERT_EQ(0, dev_alloc(self->w.fd[0], self->w.pool, 1,
			       &self->pages[1]));
	EXPECT_TRUE(dev_is_zero(self->rw + (uint32_t)self->pages[1] * n, n));
}

TEST_F(sizes, an_immutable_page_is_read_whole)
{
	size_t n = variant->page;
	uint64_t page = self->pages[0];
	char *rw = self->rw + (uint32_t)page * n;
	char *ro = self->ro + (uint32_t)page * n;

	memset(rw, 0x5a, n);
	ASSERT_EQ(0, dev_publish(self->w.fd[0], self->w.pool, &page, 1));
	EXPECT_EQ(self->pages[0], page);
	EXPECT_EQ(SIGBUS, dev_touch(rw, true));
	EXPECT_EQ(SIGBUS, dev_touch(rw + n - 1, true));
	EXPECT_TRUE(all_are(ro, 0x5a, n));
	EXPECT_EQ(variant->huge, huge_kib(ro));
}

/* A huge piece that is cut is mapped again in small ones. */
TEST_F(sizes, half_a_piece_is_unmapped_and_the_rest_stays)
{
	size_t n = variant->page, half = n < HUGE ? n / 2 : HUGE / 2;
	char *at = self->rw + (uint32_t)self->pages[0] * n;

	memset(at, 0x5a, n);
	ASSERT_EQ(0, munmap(at, half));
	EXPECT_EQ(SIGSEGV, dev_touch(at + half - 1, false));
	EXPECT_TRUE(all_are(at + half, 0x5a, n - half));
	ASSERT_EQ(0, dev_free(self->w.fd[0], self->w.pool, self->pages, 1));
	EXPECT_EQ(SIGBUS, dev_touch(at + half, false));
	EXPECT_TRUE(dev_settles(self->w.admin, self->w.pool, 1));
}

TEST_HARNESS_MAIN
