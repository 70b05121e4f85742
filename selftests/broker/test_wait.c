// SPDX-License-Identifier: MIT
/*
 * test_wait.c - requests that wait, for pages and for events, and what ends it.
 */
#include "kit.h"

#define MS	1000000ULL

static void ask(int fd, uint32_t cookie, uint32_t nr, uint64_t deadline)
{
	struct kvcache_alloc a = {
		.size = sizeof(a), .nr = nr, .deadline_ns = deadline,
	};

	ASSERT_GT(put(fd, KVCACHE_NR_ALLOC, cookie, &a), 0);
}

static void cancel(int fd, uint32_t cookie)
{
	struct kvcb_cancel c = { .size = sizeof(c), .cookie = cookie };

	ASSERT_GT(put(fd, KVCB_NR_CANCEL, 0, &c), 0);
}

static bool has_answer(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) > 0;
}

/* ---- for pages ----------------------------------------------------------- */

TEST_F(broker, first_come_first_served)
{
	struct kvcache_alloc a;
	uint64_t pages[64];
	int fd, w[4], k;

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 64, 0, pages, NULL));
	for (k = 0; k < 4; k++) {
		w[k] = client(self, "a");
		ask(w[k], 1, k ? 1 : 4, NEVER);
		ASSERT_TRUE(SOON(pool_info(fd).waiters == k + 1));
	}
	/* Three would do for the others, but the first comes first. */
	ASSERT_EQ(0, free_pages(fd, pages, 3));
	for (k = 0; k < 4; k++)
		ASSERT_FALSE(has_answer(w[k], 30));
	ASSERT_EQ(0, free_pages(fd, pages + 3, 1));
	ASSERT_EQ(0, await(w[0], 1, &a, NULL));
	for (k = 1; k < 4; k++)
		ASSERT_FALSE(has_answer(w[k], 10));
	ASSERT_EQ(0, free_pages(fd, pages + 4, 2));
	ASSERT_EQ(0, await(w[1], 1, &a, NULL));
	ASSERT_EQ(0, await(w[2], 1, &a, NULL));
	ASSERT_FALSE(has_answer(w[3], 10));
	ASSERT_EQ(1, pool_info(fd).waiters);
	for (k = 0; k < 4; k++)
		close(w[k]);
	close(fd);
	at_rest(self);
}

TEST_F(broker, until_a_deadline)
{
	uint64_t pages[64], start_ns;
	struct kvcache_alloc a;
	int fd;

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 60, 0, pages, NULL));
	/* One in the past, and none: at once. */
	ASSERT_EQ(-ENOSPC, alloc(fd, 5, 0, pages, NULL));
	ASSERT_EQ(-ENOSPC, alloc(fd, 5, 1, pages, NULL));
	start_ns = now_ns();
	ask(fd, 9, 5, start_ns + 50 * MS);
	memset(&a, 0, sizeof(a));
	ASSERT_EQ(-ETIMEDOUT, await(fd, 9, &a, NULL));
	ASSERT_GE(now_ns(), start_ns + 50 * MS);
	/* Many, in any order. */
	for (int k = 0; k < 20; k++)
		ask(fd, 100 + k, 5, now_ns() + (k * 7 % 20) * MS);
	for (int k = 0; k < 20; k++) {
		static struct got g;

		ASSERT_GT(get(fd, &g), 0);
		ASSERT_TRUE(g.head.rc == -ETIMEDOUT || g.head.rc == -ENOSPC);
	}
	ASSERT_EQ(0, pool_info(fd).waiters);
	/* What can never be met is not waited for. */
	ask(fd, 10, 65, NEVER);
	ASSERT_EQ(-E2BIG, await(fd, 10, &a, NULL));
	ASSERT_EQ(1, a.out_missing);
	close(fd);
	at_rest(self);
}

TEST_F(broker, until_it_is_cancelled)
{
	struct kvcache_alloc a;
	uint64_t pages[64];
	int fd;

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 64, 0, pages, NULL));
	ask(fd, 1, 1, NEVER);
	ask(fd, 2, 1, NEVER);
	ask(fd, 3, 1, NEVER);
	ASSERT_EQ(3, pool_info(fd).waiters);
	cancel(fd, 2);
	cancel(fd, 2);
	cancel(fd, 77);
	ASSERT_EQ(-EINTR, await(fd, 2, &a, NULL));
	ASSERT_EQ(0, free_pages(fd, pages, 1));
	ASSERT_EQ(0, await(fd, 1, &a, NULL));
	cancel(fd, 3);
	ASSERT_EQ(-EINTR, await(fd, 3, &a, NULL));
	/* Too late. */
	cancel(fd, 1);
	ASSERT_EQ(0, pool_info(fd).waiters);
	ASSERT_EQ(64, pool_info(fd).nr_private);
	close(fd);
	at_rest(self);
}

/* Nothing of a connection waits because requests of its wait. */
TEST_F(broker, those_that_wait_hold_up_nothing)
{
	struct kvcache_alloc a;
	uint64_t pages[64];
	int fd, k;

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 64, 0, pages, NULL));
	for (k = 0; k < KVCB_WAITING; k++)
		ask(fd, 1 + k, 1, NEVER);
	ASSERT_EQ(KVCB_WAITING, pool_info(fd).waiters);
	/* There is a bound. */
	ask(fd, 5000, 1, NEVER);
	ASSERT_EQ(-EBUSY, await(fd, 5000, &a, NULL));
	ASSERT_EQ(0, free_pages(fd, pages, 1));
	ASSERT_EQ(0, await(fd, 1, &a, NULL));
	for (k = 1; k < KVCB_WAITING; k++)
		cancel(fd, 1 + k);
	for (k = 1; k < KVCB_WAITING; k++)
		ASSERT_EQ(-EINTR, await(fd, 1 + k, &a, NULL));
	close(fd);
	at_rest(self);
}

TEST_F(broker, until_the_pool_is_drained)
{
	struct kvcache_pool_set p = {
		.size = sizeof(p), .op = KVCACHE_POOL_DRAIN,
	};
	struct kvcache_alloc a;
	uint64_t pages[64];
	int fd, admin;

	start(self);
	fd = client(self, "a");
	admin = dial(self);
	ASSERT_EQ(0, alloc(fd, 64, 0, pages, NULL));
	ask(fd, 1, 1, NEVER);
	ASSERT_EQ(1, pool_info(fd).waiters);
	ASSERT_EQ(0, call(admin, KVCACHE_NR_POOL_SET, &p));
	ASSERT_EQ(-ESHUTDOWN, await(fd, 1, &a, NULL));
	close(fd);
	ASSERT_TRUE(SOON(pool_info(admin).nr_free == 64));
	memset(&p, 0, sizeof(p));
	p.size = sizeof(p);
	p.op = KVCACHE_POOL_REMOVE;
	ASSERT_EQ(0, call(admin, KVCACHE_NR_POOL_SET, &p));
	ASSERT_TRUE(SOON(open_memfds(self->pid) == 1));
	verify(self);
}

/* Limits that change meanwhile. */
TEST_F(broker, until_its_tenant_may_have_more)
{
	struct kvcache_tenant_set t = {
		.size = sizeof(t), .set = KVCACHE_SET_LIMITS, .tenant = 2,
		.max = 17, .deadline_ns = NEVER,
	};
	struct kvcache_alloc a;
	uint64_t pages[16];
	int fd, admin;

	start(self);
	fd = client(self, "b");
	admin = dial(self);
	ASSERT_EQ(0, alloc(fd, 16, 0, pages, NULL));
	ASSERT_EQ(-EDQUOT, alloc(fd, 1, 0, pages, NULL));
	ask(fd, 1, 1, NEVER);
	ASSERT_FALSE(has_answer(fd, 30));
	ASSERT_EQ(0, call(admin, KVCACHE_NR_TENANT_SET, &t));
	ASSERT_EQ(0, await(fd, 1, &a, NULL));
	/* And less: its pages are revoked, at once or later. */
	t.max = 4;
	t.deadline_ns = now_ns() + 20 * MS;
	ASSERT_EQ(0, call(admin, KVCACHE_NR_TENANT_SET, &t));
	ASSERT_TRUE(SOON(pool_info(fd).nr_free == 60));
	close(fd);
	close(admin);
	at_rest(self);
}

TEST_F(broker, revoked_pages_are_gone)
{
	struct kvcache_tenant_set t = {
		.size = sizeof(t), .set = KVCACHE_SET_LIMITS, .tenant = 2,
		.max = 1, .deadline_ns = 1,
	};
	int fd, admin, files[4], gone = 0, k;
	uint64_t pages[4];
	char *at[4];

	start(self);
	fd = client(self, "b");
	admin = dial(self);
	ASSERT_EQ(0, alloc(fd, 4, 0, pages, files));
	for (k = 0; k < 4; k++) {
		at[k] = map_file(files[k], PROT_READ | PROT_WRITE);
		memset(at[k], 1, PAGE);
	}
	ASSERT_EQ(0, call(admin, KVCACHE_NR_TENANT_SET, &t));
	ASSERT_TRUE(SOON(pool_info(fd).nr_free == 63));
	for (k = 0; k < 4; k++)
		gone += is_gone(at[k]);
	ASSERT_EQ(3, gone);
	close(fd);
	close(admin);
	at_rest(self);
}

/* ---- for events ---------------------------------------------------------- */

TEST_F(broker, events)
{
	struct kvcb_events e = { .size = sizeof(e), .max = 4 }, none = e;
	uint64_t page;
	int a, b;

	start(self);
	a = client(self, "a");
	b = client(self, "a");
	/* The first time opens the queue. */
	ASSERT_EQ(0, call(a, KVCB_NR_EVENTS, &e));
	ASSERT_EQ(0, e.out_nr);
	e.deadline_ns = NEVER;
	ASSERT_GT(put(a, KVCB_NR_EVENTS, 1, &e), 0);
	ASSERT_EQ(-EBUSY, call(a, KVCB_NR_EVENTS, &none));
	ASSERT_EQ(0, alloc(b, 1, 0, &page, NULL));
	ASSERT_FALSE(has_answer(a, 10));
	ASSERT_EQ(0, publish(b, &page, 7, NULL));
	ASSERT_EQ(0, await(a, 1, &e, NULL));
	ASSERT_EQ(1, e.out_nr);
	ASSERT_EQ(KVCACHE_EV_PUBLISHED, e.out_events[0].type);
	ASSERT_EQ(7, e.out_events[0].key[0]);
	e.deadline_ns = now_ns() + 20 * MS;
	ASSERT_EQ(0, call(a, KVCB_NR_EVENTS, &e));
	ASSERT_EQ(0, e.out_nr);
	ASSERT_GE(now_ns(), e.deadline_ns);
	e.deadline_ns = NEVER;
	ASSERT_GT(put(a, KVCB_NR_EVENTS, 2, &e), 0);
	cancel(a, 2);
	ASSERT_EQ(-EINTR, await(a, 2, &e, NULL));
	close(a);
	close(b);
	verify(self);
}

/* They have keys. Who administers and is no member is not told, either. */
TEST_F(broker, events_are_for_members_alone)
{
	struct kvcb_events mine = { .size = sizeof(mine), .max = 4 };
	struct kvcb_events others = mine, admins = mine;
	uint64_t page;
	int a, b, root;

	START(self, "--pool", "main=4M,page=64K", "--tenant", "a", "--tenant",
	      "b", "--tenant", "c,uid=4242");
	a = client(self, "a");
	b = client(self, "b");
	root = dial(self);
	ASSERT_EQ(-EPERM, attach_as(root, "c"));
	ASSERT_EQ(-ENOTCONN, call(root, KVCB_NR_EVENTS, &admins));
	ASSERT_EQ(0, call(a, KVCB_NR_EVENTS, &mine));
	ASSERT_EQ(0, call(b, KVCB_NR_EVENTS, &others));
	ASSERT_EQ(0, alloc(a, 1, 0, &page, NULL));
	ASSERT_EQ(0, publish(a, &page, 7, NULL));
	ASSERT_EQ(0, call(b, KVCB_NR_EVENTS, &others));
	ASSERT_EQ(0, others.out_nr);
	ASSERT_EQ(-ENOTCONN, call(root, KVCB_NR_EVENTS, &admins));
	ASSERT_EQ(0, call(a, KVCB_NR_EVENTS, &mine));
	ASSERT_EQ(1, mine.out_nr);
	ASSERT_EQ(7, mine.out_events[0].key[0]);
	close(root);
	close(a);
	close(b);
	verify(self);
}

TEST_F(broker, events_that_are_wrong)
{
	struct kvcb_events e = { .size = sizeof(e) };
	int fd;

	start(self);
	fd = dial(self);
	e.max = 1;
	ASSERT_EQ(-ENOTCONN, call(fd, KVCB_NR_EVENTS, &e));
	ASSERT_EQ(0, attach_as(fd, "a"));
	e.max = 0;
	ASSERT_EQ(-EINVAL, call(fd, KVCB_NR_EVENTS, &e));
	e.max = KVCB_MAX_EVENTS + 1;
	ASSERT_EQ(-EINVAL, call(fd, KVCB_NR_EVENTS, &e));
	e.max = KVCB_MAX_EVENTS;
	e.__reserved = 1;
	ASSERT_EQ(-EOPNOTSUPP, call(fd, KVCB_NR_EVENTS, &e));
}

TEST_F(broker, maps_that_are_wrong)
{
	struct kvcb_map m = { .size = sizeof(m), .nr = 1 };
	int fd;

	start(self);
	fd = dial(self);
	ASSERT_EQ(-ENOTCONN, call(fd, KVCB_NR_MAP, &m));
	ASSERT_EQ(0, attach_as(fd, "a"));
	m.nr = 0;
	ASSERT_EQ(-EINVAL, call(fd, KVCB_NR_MAP, &m));
	m.nr = KVCACHE_MAX_PAGES + 1;
	ASSERT_EQ(-EINVAL, call(fd, KVCB_NR_MAP, &m));
	m.nr = 1;
	m.__reserved = 1;
	ASSERT_EQ(-EOPNOTSUPP, call(fd, KVCB_NR_MAP, &m));
	m.__reserved = 0;
	m.pool = 1;
	ASSERT_EQ(-ENOENT, call(fd, KVCB_NR_MAP, &m));
	m.pool = ~0U;
	ASSERT_EQ(-ENOENT, call(fd, KVCB_NR_MAP, &m));
	m.pool = 0;
	ASSERT_EQ(-ESTALE, call(fd, KVCB_NR_MAP, &m));
	m.pages[0] = ~0ULL;
	ASSERT_EQ(-ESTALE, call(fd, KVCB_NR_MAP, &m));
	/* The same one twice. */
	m.nr = 3;
	ASSERT_EQ(0, alloc(fd, 2, 0, (uint64_t *)m.pages, NULL));
	m.pages[2] = m.pages[0];
	ASSERT_EQ(-EINVAL, call(fd, KVCB_NR_MAP, &m));
	m.nr = 2;
	ASSERT_EQ(0, call(fd, KVCB_NR_MAP, &m));
}

TEST_HARNESS_MAIN
