// SPDX-License-Identifier: MIT
/*
 * test_owner.c - whose a connection is, who may do what, and what happens when
 * its owner dies.
 */
#include <grp.h>

#include "kit.h"

/* Words that parents and children share. */
static volatile uint64_t *shared;

static void share(void)
{
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(shared != MAP_FAILED);
}

/* ---- another process with the socket ------------------------------------- */

static int use_it(SELF, int fd)
{
	struct kvcache_query q = { .size = sizeof(q) };
	struct kvcache_attach at = { .size = sizeof(at) };
	struct kvcb_events e = { .size = sizeof(e), .max = 1 };
	uint64_t page = shared[0];

	MUST(call(fd, KVCACHE_NR_QUERY, &q) == -EPERM);
	MUST(call(fd, KVCACHE_NR_ATTACH, &at) == -EPERM);
	MUST(alloc(fd, 1, 0, &page, NULL) == -EPERM);
	page = shared[0];
	MUST(free_pages(fd, &page, 1) == -EPERM);
	MUST(map_page(fd, page, NULL) == -EPERM);
	MUST(publish(fd, &page, 1, NULL) == -EPERM);
	MUST(call(fd, KVCB_NR_EVENTS, &e) == -EPERM);
	return 0;
}

TEST_F(broker, another_process_cannot_use_it)
{
	uint64_t page;
	int fd;

	share();
	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 1, 0, &page, NULL));
	shared[0] = page;
	ASSERT_EQ(0, child_end(child_start(use_it, self, fd)));
	ASSERT_EQ(0, free_pages(fd, &page, 1));
	close(fd);
	at_rest(self);
}

static int cancel_it(SELF, int fd)
{
	struct kvcb_cancel c = { .size = sizeof(c), .cookie = 5 };

	MUST(put(fd, KVCB_NR_CANCEL, 0, &c) > 0);
	/* That was read when this is answered. */
	MUST(call(fd, KVCB_NR_EVENTS, &(struct kvcb_events){
			.size = sizeof(struct kvcb_events) }) == -EPERM);
	return 0;
}

TEST_F(broker, another_process_cannot_end_a_wait)
{
	struct kvcache_alloc a = {
		.size = sizeof(a), .nr = 1, .deadline_ns = NEVER,
	};
	uint64_t pages[64];
	int fd;

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 64, 0, pages, NULL));
	ASSERT_GT(put(fd, KVCACHE_NR_ALLOC, 5, &a), 0);
	ASSERT_EQ(1, pool_info(fd).waiters);
	ASSERT_EQ(0, child_end(child_start(cancel_it, self, fd)));
	ASSERT_EQ(1, pool_info(fd).waiters);
	ASSERT_EQ(0, free_pages(fd, pages, 1));
	ASSERT_EQ(0, await(fd, 5, &a, NULL));
}

/* Who connected need not be who attaches. */
static int attach_it(SELF, int fd)
{
	uint64_t page;

	MUST(attach_as(fd, "a") == 0);
	MUST(alloc(fd, 3, 0, (uint64_t[3]){ 0 }, NULL) == 0);
	MUST(alloc(fd, 1, 0, &page, NULL) == 0);
	return 0;
}

TEST_F(broker, it_is_of_the_process_that_attached)
{
	struct kvcache_query q = { .size = sizeof(q) };
	int fd, other;

	start(self);
	fd = dial(self);
	other = dial(self);
	ASSERT_EQ(0, child_end(child_start(attach_it, self, fd)));
	ASSERT_TRUE(SOON(pool_info(other).nr_free == 64));
	ASSERT_EQ(-EOWNERDEAD, call(fd, KVCACHE_NR_QUERY, &q));
	ASSERT_EQ(-EOWNERDEAD, attach_as(fd, "a"));
	close(fd);
	close(other);
	at_rest(self);
}

TEST_F(broker, it_attaches_once)
{
	int fd;

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(-EALREADY, attach_as(fd, "b"));
	close(fd);
	fd = dial(self);
	ASSERT_EQ(-ENOENT, attach_as(fd, "nobody"));
	ASSERT_EQ(-ENOTCONN, alloc(fd, 1, 0, (uint64_t[1]){ 0 }, NULL));
	/* One that failed is none. */
	ASSERT_EQ(0, attach_as(fd, "b"));
	close(fd);
	at_rest(self);
}

/* ---- death --------------------------------------------------------------- */

/*
 * @arg: what it does before it is killed: 0 holds pages, 1 waits for some, 2
 * waits for events. A child of its has the socket, too.
 */
static int live_and_die(SELF, int arg)
{
	struct kvcb_events e = {
		.size = sizeof(e), .max = 1, .deadline_ns = NEVER,
	};
	uint64_t pages[64];
	int fd = connect_to(self->path);

	MUST(fd >= 0 && !attach_as(fd, "a"));
	MUST(!alloc(fd, 64, 0, pages, NULL));
	MUST(!publish(fd, &pages[0], 77, NULL));
	shared[1] = fork();
	if (!shared[1]) {
		/* Not killed with its parent. */
		shared[2] = getpid();
		while (!shared[3])
			usleep(1000);
		shared[4] = -call(fd, KVCACHE_NR_QUERY, &e);
		_exit(0);
	}
	while (!shared[2])
		usleep(1000);
	shared[0] = 1;
	if (arg == 1)
		alloc(fd, 1, NEVER, pages, NULL);
	else if (arg == 2)
		call(fd, KVCB_NR_EVENTS, &e);
	else
		pause();
	return 1;
}

static void die(SELF, int how)
{
	struct kvcache_pool_info p;
	int fd;
	pid_t pid;

	share();
	start(self);
	fd = dial(self);
	pid = child_start(live_and_die, self, how);
	ASSERT_TRUE(SOON(shared[0] || waitpid(pid, NULL, WNOHANG)));
	ASSERT_EQ(1, shared[0]);
	if (how == 1)
		ASSERT_TRUE(SOON(pool_info(fd).waiters == 1));
	else
		usleep(20000);
	p = pool_info(fd);
	ASSERT_EQ(63, p.nr_private);
	kill(pid, SIGKILL);
	ASSERT_EQ(256 + SIGKILL, child_end(pid));
	/* At once, though the child has the socket. */
	ASSERT_TRUE(SOON(pool_info(fd).nr_free == 63));
	p = pool_info(fd);
	ASSERT_EQ(1, p.nr_cached);
	ASSERT_EQ(0, p.waiters);
	ASSERT_EQ(0, kill(shared[2], 0));
	shared[3] = 1;
	ASSERT_TRUE(SOON(shared[4]));
	ASSERT_EQ(EOWNERDEAD, shared[4]);
	close(fd);
	at_rest(self);
}

TEST_F(broker, pages_of_the_dead_come_back_though_a_child_has_the_socket)
{
	die(self, 0);
}

TEST_F(broker, it_dies_while_it_waits_for_pages)
{
	die(self, 1);
}

TEST_F(broker, it_dies_while_it_waits_for_events)
{
	die(self, 2);
}

static int wait_for_a_page(SELF, int arg)
{
	int fd = connect_to(self->path);

	MUST(fd >= 0 && !attach_as(fd, "a"));
	return alloc(fd, 1, NEVER, (uint64_t[1]){ 0 }, NULL) ? 1 : 0;
}

/* The first who waits dies: the second gets its page. */
TEST_F(broker, the_queue_goes_on_when_one_dies)
{
	uint64_t pages[64];
	pid_t first, second;
	int fd;

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 64, 0, pages, NULL));
	first = child_start(wait_for_a_page, self, 0);
	ASSERT_TRUE(SOON(pool_info(fd).waiters == 1));
	second = child_start(wait_for_a_page, self, 0);
	ASSERT_TRUE(SOON(pool_info(fd).waiters == 2));
	kill(first, SIGKILL);
	child_end(first);
	ASSERT_TRUE(SOON(pool_info(fd).waiters == 1));
	ASSERT_EQ(0, free_pages(fd, pages, 1));
	ASSERT_EQ(0, child_end(second));
	close(fd);
	at_rest(self);
}

static int live_a_little(SELF, int seed)
{
	uint64_t pages[64];
	int fd = connect_to(self->path), k;

	srandom(seed);
	if (fd < 0 || attach_as(fd, random() & 1 ? "a" : "b"))
		return 1;
	for (;;) {
		k = 1 + random() % 8;
		if (alloc(fd, k, now_ns() + 5000000, pages, NULL))
			continue;
		if (random() & 1)
			publish(fd, &pages[0], random() % 100, NULL);
		lookup(fd, random() % 100);
		if (random() & 1)
			free_pages(fd, pages, k);
	}
}

/* Killed at any moment: nothing is left. */
TEST_F(broker, many_are_killed)
{
	const char *s = getenv("SEED");
	unsigned int seed = s ? strtoul(s, NULL, 0) : (unsigned int)now_ns();
	pid_t pid[8] = { 0 };
	int fd, k, n;

	TH_LOG("SEED=%u", seed);
	srandom(seed);
	start(self);
	fd = dial(self);
	for (n = 0; n < 300; n++) {
		k = random() % 8;
		if (pid[k]) {
			kill(pid[k], SIGKILL);
			ASSERT_EQ(256 + SIGKILL, child_end(pid[k]));
		}
		pid[k] = child_start(live_a_little, self, random());
		if (random() & 1)
			usleep(random() % 3000);
		if (n % 50 == 0)
			verify(self);
	}
	for (k = 0; k < 8; k++) {
		if (!pid[k])
			continue;
		kill(pid[k], SIGKILL);
		ASSERT_EQ(256 + SIGKILL, child_end(pid[k]));
	}
	ASSERT_TRUE(SOON(pool_info(fd).nr_free + pool_info(fd).nr_cached ==
			 64));
	close(fd);
	at_rest(self);
	ASSERT_TRUE(SOON(open_memfds(self->pid) == 65));
}

/* ---- who may ------------------------------------------------------------- */

static int make_tenant(int fd, const char *name)
{
	struct kvcache_tenant_set t = { .size = sizeof(t) };

	strcpy(t.name, name);
	return call(fd, KVCACHE_NR_TENANT_CREATE, &t);
}

static int as_nobody(SELF, int fd)
{
	struct kvcache_tenant_get get = { .size = sizeof(get) };
	struct kvcache_attach at = { .size = sizeof(at) };
	gid_t group = 4242;
	int mine;

	/* The parent's: it was root who connected. */
	MUST(!setgroups(1, &group) && !setgid(65534) && !setuid(65534));
	MUST(make_tenant(fd, "x") == -EPERM);
	mine = connect_to(self->path);
	MUST(mine >= 0);
	MUST(make_tenant(mine, "x") == -EPERM);
	MUST(call(mine, KVCACHE_NR_TENANT_GET, &get) == -ENOTCONN);
	MUST(attach_as(mine, "roots") == -EPERM);
	MUST(attach_as(mine, "strangers") == -EPERM);
	MUST(attach_as(mine, "group") == 0);
	MUST(call(mine, KVCACHE_NR_TENANT_GET, &get) == 0);
	/* Its own, and nobody else's. */
	MUST(get.out_nr == 1 && !strcmp(get.out_info[0].name, "group"));
	MUST(make_tenant(mine, "x") == -EPERM);
	close(mine);
	mine = connect_to(self->path);
	MUST(mine >= 0 && !call(mine, KVCACHE_NR_ATTACH, &at));
	close(mine);
	/* The one of root's: it is attached as who it is now. */
	MUST(attach_as(fd, "roots") == -EPERM);
	MUST(attach_as(fd, "nobodys") == 0);
	return 0;
}

TEST_F(broker, who_may_do_what)
{
	int fd, root;

	if (getuid())
		SKIP(return, "needs root, to be somebody else");
	START(self, "--pool", "main=4M,page=64K", "--tenant", "roots",
	      "--tenant", "nobodys,uid=65534", "--tenant",
	      "group,uid=0,gid=4242,mode=0440", "--tenant",
	      "strangers,uid=1,gid=1,mode=0440");
	root = dial(self);
	fd = dial(self);
	ASSERT_EQ(0, make_tenant(root, "y"));
	ASSERT_EQ(0, child_end(child_start(as_nobody, self, fd)));
	/* Root is nobody's member by being root. */
	ASSERT_EQ(-EPERM, attach_as(root, "nobodys"));
	verify(self);
}

TEST_HARNESS_MAIN
