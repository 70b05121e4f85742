// SPDX-License-Identifier: MIT
/*
 * test_sys_local.c - the in-process backend: its memory, and threads that wait.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

#include "harness.h"
#include "sys.h"

#define NEVER KVCACHE_TIME_NEVER

static struct kvc_sys *open_local(uint64_t page_size, uint64_t pages,
				  uint64_t max)
{
	struct kvc_open_opts o = {
		.sz = sizeof(o), .local_bytes = page_size * pages,
		.local_page_size = page_size, .local_max = max,
	};
	struct kvcache_attach a = { .size = sizeof(a) };
	struct kvc_sys *s;

	ASSERT_EQ(0, kvc_sys_local_open(&o, &s));
	ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_ATTACH, &a));
	return s;
}

static int alloc(struct kvc_sys *s, uint32_t nr, uint64_t deadline,
		 uint64_t *pages)
{
	struct kvcache_alloc a = {
		.size = sizeof(a), .nr = nr, .deadline_ns = deadline,
	};
	int rc = s->ops->call(s, KVCACHE_NR_ALLOC, &a);

	if (!rc)
		memcpy(pages, a.out_pages, nr * sizeof(*pages));
	return rc;
}

static int put(struct kvc_sys *s, const uint64_t *pages, uint32_t nr)
{
	struct kvcache_free f = { .size = sizeof(f), .nr = nr };

	memcpy(f.pages, pages, nr * sizeof(*pages));
	return s->ops->call(s, KVCACHE_NR_FREE, &f);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static unsigned char *at(struct kvc_sys *s, uint64_t page, size_t size)
{
	unsigned char *base = s->ops->window(s, 0, 1);

	return base + (uint32_t)page * size;
}

/* How many bytes of a page are @byte. */
static size_t count(const unsigned char *p, size_t n, int byte)
{
	size_t k, same = 0;

	for (k = 0; k < n; k++)
		same += p[k] == byte;
	return same;
}

TEST(open_refuses)
{
	struct kvc_open_opts o = { .sz = sizeof(o) }, bad;
	struct kvc_sys *s;
	char name[80];

	bad = o;
	bad.local_page_size = 32;
	ASSERT_EQ(-EINVAL, kvc_sys_local_open(&bad, &s));
	bad.local_page_size = 5000;
	ASSERT_EQ(-EINVAL, kvc_sys_local_open(&bad, &s));
	bad.local_page_size = 128ULL << 20;
	ASSERT_EQ(-EINVAL, kvc_sys_local_open(&bad, &s));
	bad = o;
	bad.local_bytes = 4096;		/* less than a page */
	ASSERT_EQ(-EINVAL, kvc_sys_local_open(&bad, &s));
	bad = o;
	bad.tenant = "no good";
	ASSERT_EQ(-EINVAL, kvc_sys_local_open(&bad, &s));
	memset(name, 'x', sizeof(name));
	name[64] = 0;
	bad.tenant = name;
	ASSERT_EQ(-EINVAL, kvc_sys_local_open(&bad, &s));
	name[63] = 0;
	ASSERT_EQ(0, kvc_sys_local_open(&bad, &s));
	s->ops->close(s);
}

TEST(open_defaults)
{
	struct kvcache_query q = { .size = sizeof(q) };
	struct kvc_sys *s;

	ASSERT_EQ(0, kvc_sys_local_open(NULL, &s));
	ASSERT_STREQ("local", s->ops->name);
	ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_QUERY, &q));
	ASSERT_EQ(512, q.out_pools[0].nr_pages);
	ASSERT_EQ(2 << 20, q.out_pools[0].page_size);
	/* A page for a huge page: the pool begins on such a boundary. */
	ASSERT_EQ(0, (uintptr_t)s->ops->window(s, 0, 0) % (2 << 20));
	ASSERT_TRUE(s->ops->window(s, 0, 0) == s->ops->window(s, 0, 1));
	ASSERT_TRUE(s->ops->window(s, 1, 0) == NULL);
	ASSERT_TRUE(s->ops->window(s, 16, 0) == NULL);
	s->ops->close(s);
}

/* VmFlags of the mapping that @p lies in, with a space at each end. */
static void vm_flags(const void *p, char *out, size_t len)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long first, end;
	char line[512];
	int here = 0;

	out[0] = '\0';
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &first, &end) == 2)
			here = (uintptr_t)p >= first && (uintptr_t)p < end;
		if (here && !strncmp(line, "VmFlags:", 8))
			snprintf(out, len, "%s", line + 8);
	}
	fclose(f);
	if (strchr(out, '\n'))
		*strchr(out, '\n') = ' ';
}

/* All of a pool asks for huge pages ("hg"), its first and its last. */
TEST(memory_is_of_huge_pages)
{
	struct kvc_sys *s = open_local(2 << 20, 8, 0);
	char flags[512];
	uint64_t h[8];
	uint32_t k;

	if (access("/sys/kernel/mm/transparent_hugepage", F_OK))
		SKIP(return, "the kernel has no transparent huge pages");
	vm_flags(&k, flags, sizeof(flags));
	if (!flags[0])
		SKIP(return, "no VmFlags in /proc/self/smaps");
	EXPECT_EQ(NULL, strstr(flags, " hg "));
	ASSERT_EQ(0, alloc(s, 8, 0, h));
	for (k = 0; k < 8; k++) {
		vm_flags(at(s, h[k], 2 << 20), flags, sizeof(flags));
		EXPECT_NE(NULL, strstr(flags, " hg "));
		EXPECT_EQ(NULL, strstr(flags, " nh "));
	}
	s->ops->close(s);
}

/* NaNs left behind are zeros for the next one; other pages keep theirs. */
TEST(pages_are_zero_when_they_are_handed_out)
{
	struct kvc_sys *s = open_local(4096, 8, 0);
	uint64_t h[8], g[8];
	uint32_t k;

	for (k = 0; k < 9; k++)
		ASSERT_EQ(4096, count(at(s, k, 4096), 4096, 0));
	ASSERT_EQ(0, alloc(s, 8, 0, h));
	for (k = 0; k < 8; k++)
		memset(at(s, h[k], 4096), 0xff, 4096);
	ASSERT_EQ(0, put(s, &h[2], 3));
	ASSERT_EQ(0, alloc(s, 2, 0, g));
	ASSERT_EQ((uint32_t)h[2], (uint32_t)g[0]);
	ASSERT_EQ((uint32_t)h[3], (uint32_t)g[1]);
	for (k = 0; k < 8; k++)
		ASSERT_EQ(4096, count(at(s, h[k], 4096), 4096,
				      k == 2 || k == 3 ? 0 : 0xff));
	/* The null page reads as zeros, for ever. */
	ASSERT_EQ(4096, count(at(s, 0, 4096), 4096, 0));
	s->ops->close(s);
}

/* A page that was cached comes to its next owner empty. */
TEST(reclaimed_pages_are_zero)
{
	static struct kvcache_publish p = { .size = sizeof(p), .nr = 1 };
	struct kvc_sys *s = open_local(4096, 1, 0);
	uint64_t h, g;

	ASSERT_EQ(0, alloc(s, 1, 0, &h));
	memset(at(s, h, 4096), 0x7f, 4096);
	p.pages[0].handle = h;
	p.pages[0].nr_keys = 1;
	p.pages[0].ttl_ns = NEVER;
	p.pages[0].keys[0].fill = 1;
	ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_PUBLISH, &p));
	ASSERT_EQ(0, put(s, &h, 1));
	ASSERT_EQ(4096, count(at(s, h, 4096), 4096, 0x7f));
	ASSERT_EQ(0, alloc(s, 1, 0, &g));
	ASSERT_EQ(4096, count(at(s, g, 4096), 4096, 0));
	s->ops->close(s);
}

/* What other backends keep a process from, this one trusts it with. */
TEST(a_process_is_trusted_with_its_own_pages)
{
	static struct kvcache_publish p = { .size = sizeof(p), .nr = 1 };
	struct kvc_sys *s = open_local(4096, 2, 0);
	uint64_t h[2];

	ASSERT_EQ(0, alloc(s, 2, 0, h));
	p.pages[0].handle = h[0];
	p.pages[0].nr_keys = 1;
	p.pages[0].ttl_ns = NEVER;
	p.pages[0].keys[0].fill = 1;
	ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_PUBLISH, &p));
	/* It is immutable by agreement. */
	memset(at(s, h[0], 4096), 1, 4096);
	memset(at(s, h[1], 4096), 2, 4096);
	ASSERT_EQ(0, put(s, &h[1], 1));
	ASSERT_EQ(4096, count(at(s, h[1], 4096), 4096, 2));
	s->ops->close(s);
}

/* Nothing is shared with another open, or with a child: it has copies. */
TEST(each_open_is_a_world_of_its_own)
{
	static struct kvcache_publish p = { .size = sizeof(p), .nr = 1 };
	static struct kvcache_lookup l = {
		.size = sizeof(l), .nr_keys = 1, .keys_per_page = 1,
	};
	struct kvc_sys *s = open_local(4096, 2, 2), *other;
	uint64_t h[2];
	int status;
	pid_t pid;

	ASSERT_EQ(0, alloc(s, 2, 0, h));
	ASSERT_EQ(-EDQUOT, alloc(s, 1, 0, h + 1));
	p.pages[0].handle = h[0];
	p.pages[0].nr_keys = 1;
	p.pages[0].ttl_ns = NEVER;
	p.pages[0].keys[0].fill = 1;
	ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_PUBLISH, &p));
	ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_LOOKUP, &l));
	ASSERT_EQ(1, l.out_nr_pages);
	other = open_local(4096, 2, 2);
	ASSERT_EQ(0, other->ops->call(other, KVCACHE_NR_LOOKUP, &l));
	ASSERT_EQ(0, l.out_nr_pages);
	ASSERT_EQ(0, alloc(other, 2, 0, h));
	other->ops->close(other);
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		memset(at(s, h[0], 4096), 7, 4096);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	ASSERT_EQ(4096, count(at(s, h[0], 4096), 4096, 0));
	s->ops->close(s);
}

/* Pages smaller than the system's, for tests of other things. */
TEST(tiny_pages)
{
	struct kvc_sys *s = open_local(64, 100, 0);
	uint64_t h[100];
	uint32_t k;

	ASSERT_EQ(0, alloc(s, 100, 0, h));
	for (k = 0; k < 100; k++)
		memset(at(s, h[k], 64), 0xff, 64);
	ASSERT_EQ(0, put(s, &h[40], 1));
	ASSERT_EQ(0, alloc(s, 1, 0, &h[40]));
	for (k = 0; k < 100; k++)
		ASSERT_EQ(64, count(at(s, h[k], 64), 64, k == 40 ? 0 : 0xff));
	s->ops->close(s);
}

/* What a smaller pool does not have is not kept: it is zero when it returns. */
TEST(shrinking_gives_memory_back)
{
	struct kvcache_pool_set set = {
		.size = sizeof(set), .op = KVCACHE_POOL_RESIZE, .nr_pages = 4,
	};
	struct kvc_sys *s = open_local(65536, 32, 0);
	uint64_t h[32];
	uint32_t k;

	ASSERT_EQ(0, alloc(s, 32, 0, h));
	for (k = 0; k < 32; k++)
		memset(at(s, h[k], 65536), 1, 65536);
	ASSERT_EQ(0, put(s, &h[4], 28));
	ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_POOL_SET, &set));
	ASSERT_EQ(65536, count(at(s, h[3], 65536), 65536, 1));
	set.nr_pages = 32;
	ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_POOL_SET, &set));
	for (k = 5; k <= 32; k++)
		ASSERT_EQ(65536, count(at(s, k, 65536), 65536, 0));
	ASSERT_EQ(0, alloc(s, 28, 0, h));
	s->ops->close(s);
}

TEST(the_limit_of_the_tenant)
{
	struct kvc_sys *s = open_local(4096, 8, 3);
	uint64_t h[8];

	ASSERT_EQ(-E2BIG, alloc(s, 4, 0, h));
	ASSERT_EQ(0, alloc(s, 3, 0, h));
	ASSERT_EQ(-EDQUOT, alloc(s, 1, 0, h));
	s->ops->close(s);
}

TEST(waiting_ends_at_its_deadline)
{
	struct kvc_sys *s = open_local(4096, 2, 0);
	struct kvcache_query q = { .size = sizeof(q) };
	uint64_t h[2], g[2], start = now_ns();

	ASSERT_EQ(0, alloc(s, 2, 0, h));
	ASSERT_EQ(-ETIMEDOUT, alloc(s, 1, start + 30000000, g));
	ASSERT_GE(now_ns(), start + 30000000);
	ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_QUERY, &q));
	ASSERT_EQ(0, q.out_pools[0].waiters);
	/* A deadline that has passed is none. */
	ASSERT_EQ(-ENOSPC, alloc(s, 1, 1, g));
	/* What could never be is not waited for. */
	ASSERT_EQ(-E2BIG, alloc(s, 3, NEVER, g));
	s->ops->close(s);
}

/* ---- threads ------------------------------------------------------------ */

struct waiter {
	pthread_t thread;
	struct kvc_sys *s;
	uint32_t nr;
	uint64_t pages[8];
	int rc;
	int *turn;
	int served;
};

static void *wait_in_thread(void *arg)
{
	struct waiter *w = arg;

	w->rc = alloc(w->s, w->nr, NEVER, w->pages);
	w->served = __atomic_add_fetch(w->turn, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static uint64_t waiters(struct kvc_sys *s)
{
	struct kvcache_query q = { .size = sizeof(q) };

	ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_QUERY, &q));
	return q.out_pools[0].waiters;
}

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

TEST(threads_are_served_in_order)
{
	struct kvc_sys *s = open_local(4096, 4, 0);
	struct waiter w[3];
	uint64_t h[4];
	int turn = 0;
	uint32_t k;

	ASSERT_EQ(0, alloc(s, 4, 0, h));
	for (k = 0; k < 3; k++) {
		w[k] = (struct waiter){ .s = s, .nr = k == 0 ? 2 : 1,
					.turn = &turn };
		ASSERT_EQ(0, pthread_create(&w[k].thread, NULL, wait_in_thread,
					    &w[k]));
		while (waiters(s) != k + 1)
			pause_ms(1);
	}
	/* One page: the first wants two, so nobody is served. */
	ASSERT_EQ(0, put(s, h, 1));
	pause_ms(20);
	ASSERT_EQ(3, waiters(s));
	ASSERT_EQ(0, put(s, &h[1], 1));
	pthread_join(w[0].thread, NULL);
	ASSERT_EQ(1, w[0].served);
	ASSERT_EQ(2, waiters(s));
	for (k = 1; k < 3; k++) {
		ASSERT_EQ(0, put(s, &h[k + 1], 1));
		pthread_join(w[k].thread, NULL);
		ASSERT_EQ(k + 1, w[k].served);
	}
	for (k = 0; k < 3; k++)
		ASSERT_EQ(0, w[k].rc);
	ASSERT_EQ(0, waiters(s));
	s->ops->close(s);
}

TEST(a_drain_wakes_who_waits)
{
	struct kvcache_pool_set set = {
		.size = sizeof(set), .op = KVCACHE_POOL_DRAIN,
	};
	struct kvc_sys *s = open_local(4096, 1, 0);
	int turn = 0;
	struct waiter w = { .s = s, .nr = 1, .turn = &turn };
	uint64_t h;

	ASSERT_EQ(0, alloc(s, 1, 0, &h));
	ASSERT_EQ(0, pthread_create(&w.thread, NULL, wait_in_thread, &w));
	while (!waiters(s))
		pause_ms(1);
	ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_POOL_SET, &set));
	pthread_join(w.thread, NULL);
	ASSERT_EQ(-ESHUTDOWN, w.rc);
	s->ops->close(s);
}

TEST(events)
{
	struct kvc_sys *s = open_local(4096, 2, 1);
	struct kvcache_event ev[4];
	uint64_t h[2];

	ASSERT_EQ(0, s->ops->events(s, ev, 4, 0));
	ASSERT_EQ(0, alloc(s, 1, 0, h));
	ASSERT_EQ(-EDQUOT, alloc(s, 1, 0, h));
	ASSERT_EQ(1, s->ops->events(s, ev, 4, 0));
	ASSERT_EQ(KVCACHE_EV_LIMIT_HIT, ev[0].type);
	ASSERT_EQ(0, s->ops->events(s, ev, 4, 0));
	s->ops->close(s);
}

static void *refused_in_thread(void *arg)
{
	uint64_t h;

	pause_ms(20);
	return (void *)(intptr_t)alloc(arg, 1, 0, &h);
}

/* What another thread does ends the wait, and so does what falls due. */
TEST(events_are_waited_for)
{
	struct kvcache_tenant_set set = {
		.size = sizeof(set), .tenant = 1, .set = KVCACHE_SET_LIMITS,
		.deadline_ns = now_ns() + 30000000,
	};
	struct kvc_sys *s = open_local(4096, 2, 1);
	struct kvcache_event ev[4];
	pthread_t thread;
	uint64_t h[2];
	void *rc;

	ASSERT_EQ(0, s->ops->events(s, ev, 4, 0));
	ASSERT_EQ(0, alloc(s, 1, 0, h));
	ASSERT_EQ(0, pthread_create(&thread, NULL, refused_in_thread, s));
	ASSERT_EQ(1, s->ops->events(s, ev, 4, NEVER));
	ASSERT_EQ(KVCACHE_EV_LIMIT_HIT, ev[0].type);
	pthread_join(thread, &rc);
	ASSERT_EQ(-EDQUOT, (intptr_t)rc);
	ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_TENANT_SET, &set));
	ASSERT_EQ(1, s->ops->events(s, ev, 4, NEVER));
	ASSERT_EQ(KVCACHE_EV_SHRINK, ev[0].type);
	ASSERT_EQ(1, s->ops->events(s, ev, 4, NEVER));
	ASSERT_EQ(KVCACHE_EV_REVOKED, ev[0].type);
	ASSERT_EQ(h[0], ev[0].value);
	s->ops->close(s);
}

TEST_HARNESS_MAIN
