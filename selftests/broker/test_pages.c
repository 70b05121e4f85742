// SPDX-License-Identifier: MIT
/*
 * test_pages.c - pages through the socket: they come, are shared, and are taken
 * away from whoever still has them.
 */
#include "kit.h"

#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x20
#endif

/* ---- one client ---------------------------------------------------------- */

TEST_F(broker, says_what_it_is)
{
	struct kvcache_query q = { .size = sizeof(q) };
	int fd;

	start(self);
	fd = dial(self);
	ASSERT_EQ(0, call(fd, KVCACHE_NR_QUERY, &q));
	ASSERT_EQ(KVCACHE_ABI_VERSION, q.out_abi_version);
	ASSERT_EQ(KVCACHE_FEAT_FDS | KVCACHE_FEAT_EVENTS, q.out_features);
	ASSERT_EQ(1, q.out_nr_pools);
	ASSERT_EQ(64, q.out_pools[0].nr_pages);
	ASSERT_EQ(PAGE, q.out_pools[0].page_size);
	ASSERT_STREQ("main", q.out_pools[0].name);
	close(fd);
	at_rest(self);
}

TEST_F(broker, pages_come_as_files_and_go)
{
	uint64_t pages[8];
	int files[8], fd;
	char *at;

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 8, 0, pages, files));
	ASSERT_EQ(8, pool_info(fd).nr_private);
	for (int k = 0; k < 8; k++) {
		at = map_file(files[k], PROT_READ | PROT_WRITE);
		ASSERT_TRUE(at != NULL);
		ASSERT_EQ(0, at[0]);
		ASSERT_EQ(0, at[PAGE - 1]);
		memset(at, k, PAGE);
		ASSERT_FALSE(is_gone(at));
		ASSERT_EQ(0, free_pages(fd, &pages[k], 1));
		ASSERT_TRUE(SOON(is_gone(at)));
		munmap(at, PAGE);
		close(files[k]);
	}
	ASSERT_TRUE(SOON(pool_info(fd).nr_free == 64));
	ASSERT_EQ(-ESTALE, free_pages(fd, pages, 1));
	close(fd);
	at_rest(self);
}

/* Not even once does a page come with what was in it before. */
TEST_F(broker, pages_are_zeros_each_time)
{
	uint64_t pages[64];
	int files[64], fd, b;
	char *at;

	start(self);
	fd = client(self, "a");
	b = client(self, "a");
	for (int round = 0; round < 4; round++) {
		ASSERT_EQ(0, alloc(round & 1 ? b : fd, 64, NEVER, pages, files));
		for (int k = 0; k < 64; k++) {
			at = map_file(files[k], PROT_READ | PROT_WRITE);
			ASSERT_TRUE(at != NULL);
			for (uint32_t i = 0; i < PAGE; i += 512)
				ASSERT_EQ(0, at[i]);
			memset(at, 0xa5, PAGE);
			munmap(at, PAGE);
			close(files[k]);
		}
		ASSERT_EQ(0, free_pages(round & 1 ? b : fd, pages, 64));
	}
	close(fd);
	close(b);
	at_rest(self);
}

/* More pages than descriptors go with one message. */
TEST_F(broker, as_many_pages_as_a_command_has)
{
	uint64_t pages[257];
	int files[256], fd;
	struct stat st;

	START(self, "--pool", "main=20M,page=64K", "--tenant", "a");
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 256, 0, pages, files));
	for (int k = 0; k < 256; k++) {
		ASSERT_EQ(0, fstat(files[k], &st));
		ASSERT_EQ(PAGE, st.st_size);
		for (int j = 0; j < k; j++)
			ASSERT_NE(pages[j], pages[k]);
	}
	ASSERT_EQ(-EINVAL, alloc(fd, 257, 0, pages, NULL));
	ASSERT_EQ(-ENOSPC, alloc(fd, 100, 0, pages, NULL));
	ASSERT_EQ(0, free_pages(fd, pages, 256));
	verify(self);
}

/* ---- seals --------------------------------------------------------------- */

TEST_F(broker, a_private_page_can_only_shrink)
{
	int file, fd, again;
	uint64_t page;
	char path[64];

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 1, 0, &page, &file));
	ASSERT_EQ(F_SEAL_GROW | F_SEAL_SEAL,
		  fcntl(file, F_GET_SEALS) & ~F_SEAL_EXEC);
	ASSERT_EQ(-1, ftruncate(file, 2 * PAGE));
	ASSERT_EQ(EPERM, errno);
	ASSERT_EQ(-1, fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK));
	ASSERT_EQ(EPERM, errno);
	/* Nor by another open of the same file. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	again = open(path, O_RDWR);
	ASSERT_GE(again, 0);
	ASSERT_EQ(-1, ftruncate(again, 2 * PAGE));
	ASSERT_EQ(-1, fcntl(again, F_ADD_SEALS, F_SEAL_SHRINK));
	ASSERT_EQ(0, free_pages(fd, &page, 1));
	ASSERT_TRUE(SOON(lseek(again, 0, SEEK_END) == 0));
	ASSERT_EQ(-1, ftruncate(again, 1));
	ASSERT_EQ(-1, pwrite(again, "x", 1, 0));
}

TEST_F(broker, a_published_page_cannot_be_written_by_anybody)
{
	int file, shared, fd, again;
	char path[64], *old, *at;
	uint64_t page, was;

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 1, 0, &page, &file));
	old = map_file(file, PROT_READ | PROT_WRITE);
	ASSERT_TRUE(old != NULL);
	memset(old, 7, PAGE);
	was = page;
	ASSERT_EQ(0, publish(fd, &page, 1, &shared));
	ASSERT_EQ(was, page);
	/* What the writer has had is gone, and what it wrote is not. */
	ASSERT_TRUE(is_gone(old));
	ASSERT_EQ(F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SEAL,
		  fcntl(shared, F_GET_SEALS) & ~F_SEAL_EXEC);
	ASSERT_EQ(O_RDONLY, fcntl(shared, F_GETFL) & O_ACCMODE);
	at = map_file(shared, PROT_READ);
	ASSERT_TRUE(at != NULL);
	ASSERT_EQ(7, at[0]);
	ASSERT_EQ(7, at[PAGE - 1]);
	ASSERT_TRUE(map_file(shared, PROT_READ | PROT_WRITE) == NULL);
	ASSERT_EQ(-1, mprotect(at, PAGE, PROT_READ | PROT_WRITE));
	ASSERT_EQ(-1, pwrite(shared, "x", 1, 0));
	/* Root may open it for writing, which is of no use. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", shared);
	again = open(path, O_RDWR);
	if (again >= 0) {
		ASSERT_EQ(-1, pwrite(again, "x", 1, 0));
		ASSERT_EQ(EPERM, errno);
		ASSERT_TRUE(map_file(again, PROT_READ | PROT_WRITE) == NULL);
		ASSERT_EQ(-1, fallocate(again, FALLOC_FL_PUNCH_HOLE |
					FALLOC_FL_KEEP_SIZE, 0, PAGE));
	}
	ASSERT_EQ(7, at[0]);
	ASSERT_EQ(0, free_pages(fd, &page, 1));
	ASSERT_EQ(1, pool_info(fd).nr_cached);
	ASSERT_EQ(7, at[0]);
	close(fd);
	verify(self);
}

static int open_as_another(SELF, int file)
{
	char path[64];

	MUST(!setgid(65534) && !setuid(65534));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	MUST(open(path, O_RDWR) < 0 && errno == EACCES);
	MUST(ftruncate(file, 0) < 0);
	return 0;
}

TEST_F(broker, another_user_cannot_open_a_published_page_for_writing)
{
	int file, shared, fd;
	uint64_t page;

	if (getuid())
		SKIP(return, "needs root, to be somebody else");
	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 1, 0, &page, &file));
	ASSERT_EQ(0, publish(fd, &page, 1, &shared));
	ASSERT_EQ(0, child_end(child_start(open_as_another, self, shared)));
}

/* ---- sharing ------------------------------------------------------------- */

TEST_F(broker, what_one_publishes_another_finds_and_reads)
{
	int file, shared, a, b;
	static char nines[PAGE];
	uint64_t page, found;
	char *at;

	start(self);
	a = client(self, "a");
	b = client(self, "a");
	ASSERT_EQ(0, alloc(a, 1, 0, &page, &file));
	memset(nines, 9, PAGE);
	ASSERT_EQ(PAGE, pwrite(file, nines, PAGE, 0));
	ASSERT_EQ(0, lookup(b, 5));
	ASSERT_EQ(0, publish(a, &page, 5, NULL));
	found = lookup(b, 5);
	ASSERT_EQ(page, found);
	ASSERT_EQ(0, map_page(b, found, &shared));
	at = map_file(shared, PROT_READ);
	ASSERT_TRUE(at != NULL);
	ASSERT_EQ(9, at[PAGE - 1]);
	ASSERT_EQ(1, pool_info(b).nr_shared);
	/* It outlives who made it. */
	close(a);
	ASSERT_EQ(9, at[0]);
	ASSERT_EQ(0, free_pages(b, &found, 1));
	ASSERT_EQ(1, pool_info(b).nr_cached);
	/* Until there is need of it. */
	ASSERT_EQ(0, alloc(b, 64, NEVER, (uint64_t[64]){ 0 }, NULL));
	ASSERT_TRUE(is_gone(at));
	close(b);
	verify(self);
}

TEST_F(broker, deduplication_gives_the_other_page)
{
	int shared[2], a, b;
	uint64_t p, q;
	struct stat st[2];

	start(self);
	a = client(self, "a");
	b = client(self, "a");
	ASSERT_EQ(0, alloc(a, 1, 0, &p, NULL));
	ASSERT_EQ(0, alloc(b, 1, 0, &q, NULL));
	ASSERT_EQ(0, publish(a, &p, 3, &shared[0]));
	ASSERT_EQ(0, publish(b, &q, 3, &shared[1]));
	ASSERT_EQ(p, q);
	ASSERT_EQ(0, fstat(shared[0], &st[0]));
	ASSERT_EQ(0, fstat(shared[1], &st[1]));
	ASSERT_EQ(st[0].st_ino, st[1].st_ino);
	ASSERT_TRUE(SOON(pool_info(a).nr_free == 63));
	close(a);
	close(b);
	verify(self);
}

TEST_F(broker, only_who_holds_a_page_gets_it)
{
	uint64_t page;
	int a, b;

	start(self);
	a = client(self, "a");
	b = client(self, "a");
	ASSERT_EQ(0, alloc(a, 1, 0, &page, NULL));
	ASSERT_EQ(-EPERM, map_page(b, page, NULL));
	ASSERT_EQ(-EPERM, free_pages(b, &page, 1));
	ASSERT_EQ(-EPERM, publish(b, &page, 1, NULL));
	ASSERT_EQ(-ESTALE, map_page(a, page + (1ULL << 32), NULL));
	ASSERT_EQ(-ESTALE, map_page(a, 1ULL << 32, NULL));
	ASSERT_EQ(0, map_page(a, page, NULL));
	ASSERT_EQ(0, publish(a, &page, 1, NULL));
	ASSERT_EQ(-EPERM, map_page(b, page, NULL));
	ASSERT_EQ(page, lookup(b, 1));
	ASSERT_EQ(0, map_page(b, page, NULL));
	/* One of another tenant's is not even found. */
	close(b);
	b = client(self, "b");
	ASSERT_EQ(0, lookup(b, 1));
	ASSERT_EQ(-EPERM, map_page(b, page, NULL));
	close(a);
	close(b);
	verify(self);
}

/* The copy is made of what there is, whatever the owner does to its file. */
TEST_F(broker, a_page_that_its_owner_truncated_is_published_as_zeros)
{
	int file, shared, fd;
	uint64_t page;
	char *at;

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 1, 0, &page, &file));
	ASSERT_EQ(5, pwrite(file, "abcde", 5, 0));
	ASSERT_EQ(0, ftruncate(file, 3));
	ASSERT_EQ(0, publish(fd, &page, 1, &shared));
	at = map_file(shared, PROT_READ);
	ASSERT_TRUE(at != NULL);
	ASSERT_EQ(0, memcmp(at, "abc\0\0", 5));
	ASSERT_EQ(0, at[PAGE - 1]);
}

#define LARGE	(64ULL << 20)

/* Copies of large pages are made piece by piece, and others go on. */
TEST_F(broker, a_large_copy_stops_nobody)
{
	struct kvcache_publish p = { .size = sizeof(p), .nr = 3 };
	uint64_t pages[4];
	int fd, other, files[4], k, served = 0;
	struct pollfd wait;
	char *at;

	START(self, "--pool", "main=256M,page=64M", "--tenant", "a");
	fd = client(self, "a");
	other = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 4, 0, pages, files));
	for (k = 0; k < 3; k++) {
		at = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_SHARED,
			  files[k], 0);
		ASSERT_TRUE(at != MAP_FAILED);
		memset(at, 1 + k, LARGE);
		munmap(at, LARGE);
		p.pages[k].handle = pages[k];
		p.pages[k].nr_keys = 1;
		p.pages[k].ttl_ns = NEVER;
		p.pages[k].keys[0].key[0] = k;
		p.pages[k].keys[0].fill = 1;
	}
	ASSERT_GT(put(fd, KVCACHE_NR_PUBLISH, 1, &p), 0);
	wait = (struct pollfd){ .fd = fd, .events = POLLIN };
	while (!poll(&wait, 1, 0)) {
		ASSERT_EQ(1, pool_info(other).page_size / LARGE);
		served++;
	}
	ASSERT_GT(served, 5);
	ASSERT_EQ(0, await(fd, 1, &p, files));
	for (k = 0; k < 3; k++) {
		at = mmap(NULL, LARGE, PROT_READ, MAP_SHARED, files[k], 0);
		ASSERT_TRUE(at != MAP_FAILED);
		ASSERT_EQ(KVCACHE_PUBLISHED, p.pages[k].out_result);
		ASSERT_EQ(1 + k, at[0]);
		ASSERT_EQ(1 + k, at[LARGE - 1]);
		munmap(at, LARGE);
	}
	/* Given up while it is copied: it is not published. */
	p.nr = 1;
	p.pages[0].handle = pages[3];
	p.pages[0].keys[0].key[0] = 9;
	ASSERT_GT(put(fd, KVCACHE_NR_PUBLISH, 2, &p), 0);
	ASSERT_EQ(0, free_pages(fd, &pages[3], 1));
	ASSERT_EQ(-ESTALE, await(fd, 2, &p, NULL));
	ASSERT_EQ(0, lookup(fd, 9));
	/* Nor by one that has gone. */
	ASSERT_EQ(0, alloc(fd, 1, NEVER, &pages[3], NULL));
	p.pages[0].handle = pages[3];
	ASSERT_GT(put(fd, KVCACHE_NR_PUBLISH, 3, &p), 0);
	close(fd);
	ASSERT_TRUE(SOON(pool_info(other).nr_free == 1));
	ASSERT_EQ(3, pool_info(other).nr_cached);
	verify(self);
}

TEST_F(broker, volatile_pages_are_taken)
{
	struct kvcache_advise adv = {
		.size = sizeof(adv), .nr = 1, .advice = KVCACHE_ADVISE_VOLATILE,
	};
	uint64_t pages[64], page;
	int file, a, b;
	char *at;

	start(self);
	a = client(self, "a");
	b = client(self, "a");
	ASSERT_EQ(0, alloc(a, 1, 0, &page, &file));
	at = map_file(file, PROT_READ | PROT_WRITE);
	at[0] = 1;
	adv.pages[0] = page;
	ASSERT_EQ(0, call(a, KVCACHE_NR_ADVISE, &adv));
	ASSERT_FALSE(is_gone(at));
	ASSERT_EQ(-EBUSY, publish(a, &page, 1, NULL));
	ASSERT_EQ(0, alloc(b, 64, 0, pages, NULL));
	ASSERT_TRUE(is_gone(at));
	adv.advice = KVCACHE_ADVISE_NONVOLATILE;
	ASSERT_EQ(0, call(a, KVCACHE_NR_ADVISE, &adv));
	ASSERT_EQ(1, adv.out_taken);
	ASSERT_EQ(KVCACHE_ADVISE_TAKEN, adv.out_state[0]);
	close(a);
	close(b);
	at_rest(self);
}

/* ---- what there is not --------------------------------------------------- */

TEST_F(broker, no_device_memory_and_no_exports)
{
	struct kvcache_export e = { .size = sizeof(e), .nr = 1 };
	struct kvcache_provide p = { .size = sizeof(p) };
	struct kvcache_take t = { .size = sizeof(t) };
	struct kvcache_retire r = { .size = sizeof(r), .nr = 1 };
	int fd;

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(-EOPNOTSUPP, call(fd, KVCACHE_NR_EXPORT, &e));
	ASSERT_EQ(-EOPNOTSUPP, call(fd, KVCACHE_NR_PROVIDE, &p));
	ASSERT_EQ(-EOPNOTSUPP, call(fd, KVCACHE_NR_TAKE, &t));
	ASSERT_EQ(-EOPNOTSUPP, call(fd, KVCACHE_NR_RETIRE, &r));
	ASSERT_EQ(-ENOTTY, call(fd, 0x7f, &r));
	ASSERT_EQ(-ENOTTY, call(fd, KVCB_NR_PAGES, &r));
	ASSERT_EQ(-ENOTTY, call(fd, ~0U, &r));
}

/* ---- the broker's own end ------------------------------------------------ */

TEST_F(broker, what_is_mapped_outlives_the_broker)
{
	uint64_t page[2];
	int file[2], shared, fd;
	char *at[2];

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 2, 0, page, file));
	at[0] = map_file(file[0], PROT_READ | PROT_WRITE);
	ASSERT_EQ(5, pwrite(file[1], "abcde", 5, 0));
	ASSERT_EQ(0, publish(fd, &page[1], 1, &shared));
	at[1] = map_file(shared, PROT_READ);
	memset(at[0], 5, PAGE);
	ASSERT_EQ(0, kill(self->pid, SIGTERM));
	ASSERT_EQ(0, child_end(self->pid));
	self->pid = 0;
	ASSERT_EQ(-EPIPE, alloc(fd, 1, 0, page, NULL));
	ASSERT_FALSE(is_gone(at[0]));
	ASSERT_FALSE(is_gone(at[1]));
	ASSERT_EQ(5, at[0][PAGE - 1]);
	ASSERT_EQ('a', at[1][0]);
	/* And the socket that it made has gone with it. */
	ASSERT_EQ(-1, access(self->path, F_OK));
	ASSERT_EQ(1, count_said(self, "stopped"));
}

TEST_HARNESS_MAIN
