// SPDX-License-Identifier: MIT
/*
 * test_owner.c - a client is the process that attached: nobody else may use it,
 * and with that process it ends, whoever still has the descriptor.
 */
#include <pthread.h>
#include <sched.h>

#include "dev_mem.h"

/* What an open answers to one who may not use it, whatever is asked. */
static int answer(int fd)
{
	static const unsigned int calls[] = {
		KVCACHE_NR_QUERY, KVCACHE_NR_ATTACH, KVCACHE_NR_ALLOC,
		KVCACHE_NR_FREE, KVCACHE_NR_PUBLISH, KVCACHE_NR_LOOKUP,
		KVCACHE_NR_ADVISE, KVCACHE_NR_EXPORT, KVCACHE_NR_TENANT_CREATE,
		KVCACHE_NR_TENANT_SET, KVCACHE_NR_TENANT_GET,
		KVCACHE_NR_CLIENT_GET, KVCACHE_NR_PAGE_GET, KVCACHE_NR_POOL_SET,
	};
	static char arg[16384], was[16384], event[96];
	struct pollfd p = { .fd = fd, .events = POLLIN };
	unsigned int k;
	int rc, first = 0;
	void *at;

	for (k = 0; k < sizeof(calls) / sizeof(calls[0]); k++) {
		memset(arg, 0xcc, sizeof(arg));
		memcpy(was, arg, sizeof(arg));
		rc = dev_call(fd, calls[k], arg);
		if (!k)
			first = rc;
		if (rc != first || memcmp(arg, was, sizeof(arg)))
			return -1000 - (int)calls[k];
	}
	at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 1ULL << 44);
	if (at != MAP_FAILED || errno != -first)
		return -2000;
	if (read(fd, event, sizeof(event)) != -1 || errno != -first)
		return -3000;
	if (poll(&p, 1, 0) != 1 || p.revents != (POLLERR | POLLHUP))
		return -4000;
	return first;
}

static void tell_answer(int sock, void *arg)
{
	int fd = arg ? *(int *)arg : recv_fd(sock), k;

	/* As often as the other end wants to know. */
	for (k = 0; k < 2 && fd >= 0; k++) {
		say(sock, -answer(fd));
		hear(sock);
	}
}

/* A client with pages, mapped and written, whose descriptor is handed on. */
static void own_pages(int sock, void *arg)
{
	struct world *w = arg;
	int fd = dev_client("red");
	uint64_t pages[4];
	char *rw = dev_window(fd, w->pool, true);

	if (rw == MAP_FAILED || dev_alloc(fd, w->pool, 4, pages))
		return;
	memset(AT(rw, pages[0]), 0x5a, PAGE);
	if (dev_publish(fd, w->pool, &pages[3], 9) || send_fd(sock, fd))
		return;
	hear(sock);
}

/* ---- others -------------------------------------------------------------- */

TEST_F(dev, a_childs_calls_are_refused)
{
	struct world *w = &self->w;
	struct child c;
	uint64_t page;

	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	ASSERT_EQ(0, child_start(&c, tell_answer, &w->fd[0]));
	EXPECT_EQ(EPERM, hear(c.sock));
	/* Nothing is worse for the owner, not even when the child ends. */
	EXPECT_EQ(-SIGKILL, child_kill(&c));
	EXPECT_EQ(KVCACHE_PAGE_PRIVATE, page_state(w, page));
	EXPECT_EQ(0, dev_free(w->fd[0], w->pool, &page, 1));
}

TEST_F(dev, who_is_passed_the_descriptor_is_refused_and_learns_of_the_end)
{
	struct world *w = &self->w;
	struct child owner, other;
	int fd;

	ASSERT_EQ(0, child_start(&owner, own_pages, w));
	fd = recv_fd(owner.sock);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EPERM, answer(fd));
	ASSERT_EQ(0, child_start(&other, tell_answer, NULL));
	ASSERT_EQ(0, send_fd(other.sock, fd));
	EXPECT_EQ(EPERM, hear(other.sock));
	EXPECT_EQ(4, charge(w, 0));
	EXPECT_EQ(-SIGKILL, child_kill(&owner));
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES - 1));
	EXPECT_EQ(1, charge(w, 0));
	EXPECT_EQ(-EOWNERDEAD, answer(fd));
	say(other.sock, 'x');
	EXPECT_EQ(EOWNERDEAD, hear(other.sock));
	EXPECT_EQ(-SIGKILL, child_kill(&other));
	close(fd);
}

TEST_F(dev, a_descriptor_in_flight_keeps_nothing)
{
	struct world *w = &self->w;
	struct child owner;
	int pair[2], fd, k;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	ASSERT_EQ(0, child_start(&owner, own_pages, w));
	fd = recv_fd(owner.sock);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, send_fd(pair[0], fd));
	ASSERT_EQ(0, send_fd(pair[0], fd));
	close(fd);
	EXPECT_EQ(-SIGKILL, child_kill(&owner));
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES - 1));
	fd = recv_fd(pair[1]);
	EXPECT_EQ(-EOWNERDEAD, answer(fd));
	close(fd);
	/* The other one is never taken out. */
	for (k = 0; k < 2; k++)
		close(pair[k]);
}

static void attach_inherited(int sock, void *arg)
{
	int fd = *(int *)arg;
	uint64_t page;

	say(sock, -dev_attach(fd, "red"));
	say(sock, -dev_alloc(fd, 0, 1, &page));
	hear(sock);
}

TEST_F(dev, the_owner_is_who_attaches_not_who_opens)
{
	struct world *w = &self->w;
	int fd = dev_open();
	struct child c;

	ASSERT_EQ(0, child_start(&c, attach_inherited, &fd));
	EXPECT_EQ(0, hear(c.sock));
	EXPECT_EQ(0, hear(c.sock));
	EXPECT_EQ(-EPERM, answer(fd));
	EXPECT_EQ(-SIGKILL, child_kill(&c));
	EXPECT_EQ(-EOWNERDEAD, answer(fd));
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES));
	close(fd);
}

TEST_F(dev, a_failed_attach_binds_to_nobody)
{
	int fd = dev_open();
	struct child c;

	EXPECT_EQ(-ENOENT, dev_attach(fd, "green"));
	ASSERT_EQ(0, child_start(&c, attach_inherited, &fd));
	EXPECT_EQ(0, hear(c.sock));
	EXPECT_EQ(0, hear(c.sock));
	EXPECT_EQ(-SIGKILL, child_kill(&c));
	close(fd);
}

/* ---- the owner's own ways ------------------------------------------------ */

TEST_F(dev, two_opens_of_one_process_are_two_clients)
{
	struct world *w = &self->w;
	int other = dev_client("red");
	char *rw = dev_window(other, w->pool, true);
	uint64_t page, its;

	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	ASSERT_EQ(0, dev_alloc(other, w->pool, 1, &its));
	EXPECT_EQ(-EPERM, dev_free(other, w->pool, &page, 1));
	EXPECT_EQ(-EPERM, dev_free(w->fd[0], w->pool, &its, 1));
	EXPECT_EQ(SIGBUS, dev_touch(AT(rw, page), true));
	EXPECT_EQ(0, dev_touch(AT(rw, its), true));
	dev_unmap_all();
	close(other);
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES - 1));
	EXPECT_EQ(0, dev_free(w->fd[0], w->pool, &page, 1));
}

TEST_F(dev, a_duplicate_is_the_same_client)
{
	struct world *w = &self->w;
	int one = dev_client("red"), two = dup(one);
	uint64_t page;

	EXPECT_EQ(-EALREADY, dev_attach(two, "red"));
	ASSERT_EQ(0, dev_alloc(one, w->pool, 1, &page));
	close(one);
	EXPECT_EQ(KVCACHE_PAGE_PRIVATE, page_state(w, page));
	EXPECT_EQ(0, dev_free(two, w->pool, &page, 1));
	ASSERT_EQ(0, dev_alloc(two, w->pool, 1, &page));
	close(two);
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES));
}

TEST_F(dev, pages_stay_while_they_are_mapped_although_all_is_closed)
{
	struct world *w = &self->w;
	size_t len = (PAGES + 1) * PAGE;
	int fd = dev_client("red");
	uint64_t page, more;
	char *rw;

	ASSERT_EQ(0, dev_alloc(fd, w->pool, 1, &page));
	rw = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, rw);
	memset(AT(rw, page), 0x5a, PAGE);
	close(fd);
	EXPECT_EQ(-EBADF, dev_alloc(fd, w->pool, 1, &more));
	EXPECT_EQ(KVCACHE_PAGE_PRIVATE, page_state(w, page));
	EXPECT_EQ(1, charge(w, 0));
	EXPECT_TRUE(all_are(AT(rw, page), 0x5a, PAGE));
	/* A part of the mapping is enough, even where no page is. */
	ASSERT_EQ(0, munmap(rw + 4096, len - 4096));
	EXPECT_EQ(KVCACHE_PAGE_PRIVATE, page_state(w, page));
	ASSERT_EQ(0, munmap(rw, 4096));
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES));
	EXPECT_EQ(0, charge(w, 0));
}

static void *alloc_in_thread(void *arg)
{
	struct world *w = arg;
	uint64_t page;
	long rc = dev_alloc(w->fd[0], w->pool, 1, &page);

	if (!rc)
		rc = dev_free(w->fd[0], w->pool, &page, 1);
	return (void *)rc;
}

TEST_F(dev, a_thread_of_the_owner_may_call)
{
	pthread_t t;
	void *rc;

	ASSERT_EQ(0, pthread_create(&t, NULL, alloc_in_thread, &self->w));
	ASSERT_EQ(0, pthread_join(t, &rc));
	EXPECT_EQ(NULL, rc);
}

struct leader {
	int sock;
	int fd;
};

static void *outlive(void *arg)
{
	const struct leader *l = arg;
	uint64_t page;

	usleep(50000);
	say(l->sock, -dev_alloc(l->fd, 0, 1, &page));
	hear(l->sock);
	_exit(0);
}

static void leave_a_thread(int sock, void *arg)
{
	static struct leader l;
	pthread_t t;
	uint64_t page;

	l.sock = sock;
	l.fd = dev_client("red");
	if (dev_alloc(l.fd, 0, 1, &page) ||
	    pthread_create(&t, NULL, outlive, &l))
		return;
	syscall(SYS_exit, 0);
}

TEST_F(dev, the_owner_lives_as_long_as_its_last_thread)
{
	struct world *w = &self->w;
	struct child c;

	ASSERT_EQ(0, child_start(&c, leave_a_thread, NULL));
	EXPECT_EQ(0, hear(c.sock));
	EXPECT_EQ(2, charge(w, 0));
	EXPECT_EQ(-SIGKILL, child_kill(&c));
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES));
}

/* It is the memory that owns: a child that shares it may call. */
TEST_F(dev, a_vforked_child_may_call_and_its_end_is_not_the_owners)
{
	struct world *w = &self->w;
	volatile int rc = -1;
	uint64_t page = 0;
	pid_t pid;

	pid = vfork();
	if (!pid) {
		rc = dev_alloc(w->fd[0], w->pool, 1, &page);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	ASSERT_EQ(0, rc);
	EXPECT_EQ(KVCACHE_PAGE_PRIVATE, page_state(w, page));
	pid = vfork();
	if (!pid) {
		execl("/bin/busybox", "true", NULL);
		_exit(1);
	}
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	EXPECT_EQ(KVCACHE_PAGE_PRIVATE, page_state(w, page));
	EXPECT_EQ(0, dev_free(w->fd[0], w->pool, &page, 1));
}

/* ---- exec ---------------------------------------------------------------- */

/* What this program is when it was executed for the test below. */
static void __attribute__((constructor)) after_exec(void)
{
	const char *fd = getenv("AFTER_EXEC_FD"), *sock = getenv("SOCK");

	if (!fd || !sock)
		return;
	say(atoi(sock), -answer(atoi(fd)));
	hear(atoi(sock));
	_exit(0);
}

static void exec_with_pages(int sock, void *arg)
{
	struct world *w = arg;
	int fd = dev_client("red");
	char *rw = dev_window(fd, w->pool, true), text[2][16];
	uint64_t page;

	if (dev_alloc(fd, w->pool, 1, &page) || dev_touch(AT(rw, page), true))
		return;
	fcntl(fd, F_SETFD, 0);
	fcntl(sock, F_SETFD, 0);
	snprintf(text[0], sizeof(text[0]), "%d", fd);
	snprintf(text[1], sizeof(text[1]), "%d", sock);
	setenv("AFTER_EXEC_FD", text[0], 1);
	setenv("SOCK", text[1], 1);
	say(sock, 'e');
	hear(sock);
	execl("/proc/self/exe", "test_owner", NULL);
}

TEST_F(dev, exec_ends_the_client)
{
	struct world *w = &self->w;
	struct child c;

	ASSERT_EQ(0, child_start(&c, exec_with_pages, w));
	ASSERT_EQ('e', hear(c.sock));
	EXPECT_EQ(1, charge(w, 0));
	say(c.sock, 'g');
	EXPECT_EQ(EOWNERDEAD, hear(c.sock));
	EXPECT_TRUE(dev_settles(w->admin, w->pool, PAGES));
	EXPECT_EQ(-SIGKILL, child_kill(&c));
}

static void exec_without(int sock, void *arg)
{
	int fd = dev_client("red");
	char *no[] = { "true", NULL };
	uint64_t page;

	say(sock, -dev_alloc(fd, 0, 1, &page));
	execv("/no/such/program", no);
	say(sock, errno);
	say(sock, -dev_alloc(fd, 0, 1, &page));
	hear(sock);
}

TEST_F(dev, an_exec_that_fails_ends_nothing)
{
	struct child c;

	ASSERT_EQ(0, child_start(&c, exec_without, NULL));
	EXPECT_EQ(0, hear(c.sock));
	EXPECT_EQ(ENOENT, hear(c.sock));
	EXPECT_EQ(0, hear(c.sock));
	EXPECT_EQ(2, charge(&self->w, 0));
	EXPECT_EQ(-SIGKILL, child_kill(&c));
}

TEST_HARNESS_MAIN
