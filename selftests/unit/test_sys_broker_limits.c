// SPDX-License-Identifier: MIT
/*
 * test_sys_broker_limits.c - pages of a broker in a process that may have no more
 * mappings, or descriptors: what fails has no effect, what cannot fail does not.
 */
#include <pthread.h>
#include <sys/resource.h>

#include "fake_broker.h"

/* Every page is a duplicate of one with a number 100 above. */
static bool deduplicates(int fd, struct fake_msg *m)
{
	uint64_t out[KVCACHE_MAX_PUBLISH];

	if (m->h.nr != KVCACHE_NR_PUBLISH)
		return false;
	for (uint32_t i = 0; i < m->publish.nr; i++)
		out[i] = m->publish.pages[i].out_handle =
			m->publish.pages[i].handle + 100;
	fake_pages(fd, m->h.cookie, out, m->publish.nr, 0);
	fake_reply(fd, m, 0);
	return true;
}

static void publish_all(SELF, const uint64_t *h, uint32_t nr)
{
	static struct kvcache_publish p = { .size = sizeof(p) };

	p.nr = nr;
	for (uint32_t i = 0; i < nr; i++)
		p.pages[i].handle = h[i];
	ASSERT_EQ(0, self->s->ops->call(self->s, KVCACHE_NR_PUBLISH, &p));
	for (uint32_t i = 0; i < nr; i++)
		EXPECT_EQ(h[i] + 100, p.pages[i].out_handle);
}

static unsigned long max_map_count(void)
{
	FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
	unsigned long n = 0;

	if (f && fscanf(f, "%lu", &n) != 1)
		n = 0;
	if (f)
		fclose(f);
	return n;
}

/* As many mappings as there can be, but for @spare. */
static char *fill_up(unsigned long max, unsigned long spare, size_t *bytes)
{
	size_t os_page = sysconf(_SC_PAGESIZE), k;
	char *p;

	*bytes = (max + 2) * os_page;
	p = mmap(NULL, *bytes, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ASSERT_TRUE(p != MAP_FAILED);
	for (k = 1; k < max + 2; k += 2)
		if (mprotect(p + k * os_page, os_page, PROT_READ))
			break;
	ASSERT_GT(k, spare);
	for (; spare > 1; spare -= 2, k -= 2)
		mprotect(p + (k - 2) * os_page, os_page, PROT_NONE);
	return p;
}

TEST_F(broker, no_more_mappings)
{
	unsigned long max = max_map_count();
	uint64_t h[KVCACHE_MAX_PUBLISH], g[32];
	size_t bytes;
	char *p;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	SKIP(return, "a sanitizer has mappings of its own");
#endif
	if (!max || max > 200000)
		SKIP(return, "vm.max_map_count is %lu", max);
	start(self, deduplicates);
	ASSERT_EQ(0, alloc_until(self->s, KVCACHE_MAX_PUBLISH, 0, h));
	p = fill_up(max, 8, &bytes);
	EXPECT_EQ(-ENOMEM, alloc_until(self->s, 32, 0, g));
	EXPECT_NE(NULL, self->s->hint);
	EXPECT_NE(NULL, strstr(self->s->hint, "vm.max_map_count"));
	EXPECT_EQ(32, fake_shared->freed);
	for (int k = 0; k < 32; k++)
		EXPECT_FALSE(readable(at(self->s, 17 + k)));
	/* What is published already is mapped even so. */
	munmap(p, bytes);
	p = fill_up(max, 0, &bytes);
	publish_all(self, h, KVCACHE_MAX_PUBLISH);
	munmap(p, bytes);
	for (int k = 0; k < KVCACHE_MAX_PUBLISH; k++) {
		EXPECT_FALSE(readable(at(self->s, h[k])));
		EXPECT_EQ((char)(h[k] + 100), *at(self->s, h[k] + 100));
	}
	ASSERT_EQ(0, alloc_until(self->s, 32, 0, g));
	EXPECT_EQ(NULL, self->s->hint);
}

TEST_F(broker, no_more_descriptors)
{
	uint64_t h[KVCACHE_MAX_PUBLISH], g[32];
	struct rlimit old, few;
	int fd;

	start(self, deduplicates);
	ASSERT_EQ(0, alloc_until(self->s, KVCACHE_MAX_PUBLISH, 0, h));
	fd = dup(0);
	close(fd);
	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &old));
	few = old;
	few.rlim_cur = fd + 3;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &few));
	EXPECT_EQ(-EMFILE, alloc_until(self->s, 32, 0, g));
	EXPECT_NE(NULL, strstr(self->s->hint, "ulimit -n"));
	EXPECT_EQ(32, fake_shared->freed);
	few.rlim_cur = fd;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &few));
	publish_all(self, h, KVCACHE_MAX_PUBLISH);
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &old));
	for (int k = 0; k < KVCACHE_MAX_PUBLISH; k++) {
		EXPECT_FALSE(readable(at(self->s, h[k])));
		EXPECT_EQ((char)(h[k] + 100), *at(self->s, h[k] + 100));
	}
	ASSERT_EQ(0, alloc_until(self->s, 32, 0, g));
	/* None was left open. */
	EXPECT_EQ(fd, dup(0));
}

#define PUBLISHERS	2
#define ROUNDS		3

/* Those who publish are answered when all of them do. */
static bool deduplicates_at_once(int fd, struct fake_msg *m)
{
	static struct fake_msg held[PUBLISHERS];
	static int nr;

	if (m->h.nr != KVCACHE_NR_PUBLISH)
		return false;
	held[nr++] = *m;
	if (nr == PUBLISHERS)
		while (nr)
			deduplicates(fd, &held[--nr]);
	return true;
}

struct publisher {
	pthread_t thread;
	struct kvc_sys *s;
	uint64_t h[ROUNDS * KVCACHE_MAX_PUBLISH];
	int rc;
};

static void *publish_in_thread(void *arg)
{
	struct publisher *w = arg;
	struct kvcache_publish *p = calloc(1, sizeof(*p));

	for (int round = 0; p && !w->rc && round < ROUNDS; round++) {
		p->size = sizeof(*p);
		p->nr = KVCACHE_MAX_PUBLISH;
		for (uint32_t i = 0; i < p->nr; i++)
			p->pages[i].handle = w->h[round * p->nr + i];
		w->rc = w->s->ops->call(w->s, KVCACHE_NR_PUBLISH, p);
	}
	free(p);
	return NULL;
}

/* There is one descriptor to be given up, and each has the use of it. */
TEST_F_TIMEOUT(broker, no_more_descriptors_for_two, 30)
{
	static struct publisher w[PUBLISHERS];
	struct rlimit old, few;
	int fd;

	start(self, deduplicates_at_once);
	for (int k = 0; k < PUBLISHERS; k++) {
		w[k].s = self->s;
		for (int round = 0; round < ROUNDS; round++)
			ASSERT_EQ(0, alloc_until(self->s, KVCACHE_MAX_PUBLISH,
				  0, &w[k].h[round * KVCACHE_MAX_PUBLISH]));
	}
	fd = dup(0);
	close(fd);
	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &old));
	few = old;
	few.rlim_cur = fd;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &few));
	for (int k = 0; k < PUBLISHERS; k++)
		ASSERT_EQ(0, pthread_create(&w[k].thread, NULL,
					    publish_in_thread, &w[k]));
	for (int k = 0; k < PUBLISHERS; k++)
		pthread_join(w[k].thread, NULL);
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &old));
	for (int k = 0; k < PUBLISHERS; k++) {
		EXPECT_EQ(0, w[k].rc);
		for (int i = 0; i < ROUNDS * KVCACHE_MAX_PUBLISH; i++)
			EXPECT_EQ((char)(w[k].h[i] + 100),
				  *at(self->s, w[k].h[i] + 100));
	}
	EXPECT_EQ(fd, dup(0));
}

TEST_HARNESS_MAIN
