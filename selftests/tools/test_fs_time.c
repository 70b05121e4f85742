// SPDX-License-Identifier: MIT
/*
 * test_fs_time.c - kvcachefs: what takes long, or for ever, for one takes no longer
 * for anybody else. Each test has its own broker, and mounts in a namespace of its
 * own.
 */
#include <poll.h>

#include "broker/mount.h"

/* A time that a machine that is emulated keeps, too, and no human waits. */
#define SOME_S 30

static int read_all(const char *file)
{
	char buf[4096];
	int fd = open(in(file), O_RDONLY);
	ssize_t n;

	if (fd < 0)
		return -errno;
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		;
	close(fd);
	return n;
}

static double seconds_since(uint64_t ns)
{
	return (now_ns() - ns) / 1e9;
}

/* ---- a broker that was stopped --------------------------------------------- */

static void stop(SELF)
{
	int status;

	ASSERT_EQ(0, kill(self->pid, SIGSTOP));
	ASSERT_EQ(self->pid, waitpid(self->pid, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
}

TEST_F(broker, stopped_it_holds_up_nobody)
{
	uint64_t begin;
	struct stat st;

	MOUNT(self, start);
	ASSERT_EQ(0, read_all("pools/main/size"));
	stop(self);
	begin = now_ns();
	ASSERT_EQ(-ETIMEDOUT, read_all("pools/main/size"));
	/* Those that follow do not wait each as long again. */
	for (int i = 0; i < 100; i++)
		ASSERT_EQ(-ETIMEDOUT, read_all("tenants/b/max"));
	EXPECT_LT(seconds_since(begin), SOME_S);
	/* What is there without it is there. */
	ASSERT_EQ(0, stat(in("tenants"), &st));
	ASSERT_EQ(0, stat(in("metrics"), &st));
	ASSERT_EQ(0, kill(self->pid, SIGCONT));
	ASSERT_TRUE(SOON(!read_all("pools/main/size")));
	ASSERT_EQ(0, read_all("tenants/b/max"));
	fs_end();
}

/* What was given up is not what a later reply is for. */
TEST_F(broker, stopped_and_continued_it_mixes_nothing_up)
{
	char text[64] = "";
	int fd;

	MOUNT(self, start);
	for (int i = 0; i < 3; i++) {
		stop(self);
		ASSERT_EQ(-ETIMEDOUT, read_all("metrics"));
		ASSERT_EQ(0, kill(self->pid, SIGCONT));
		ASSERT_TRUE(SOON(!read_all("pools/main/size")));
		fd = open(in("tenants/b/max"), O_RDONLY);
		ASSERT_GE(fd, 0);
		ASSERT_EQ(13, read(fd, text, sizeof(text)));
		ASSERT_STREQ("main 1048576\n", text);
		close(fd);
	}
	fs_end();
}

static int reader(SELF, int unused)
{
	return read_all("pools/main/size") == -ENOTCONN ? 0 : 1;
}

TEST_F(broker, stopped_it_lets_the_mount_end)
{
	uint64_t begin;
	int status;
	pid_t pid;

	MOUNT(self, start);
	stop(self);
	pid = child_start(reader, self, 0);
	/* Whether that waits by then or comes later. */
	usleep(200000);
	begin = now_ns();
	ASSERT_EQ(0, kill(fs_pid, SIGTERM));
	ASSERT_EQ(fs_pid, waitpid(fs_pid, &status, 0));
	EXPECT_LT(seconds_since(begin), SOME_S);
	ASSERT_EQ(0, status);
	child_end(pid);
	ASSERT_FALSE(is_mounted());
	ASSERT_EQ(0, kill(self->pid, SIGCONT));
}

/* ---- poll, while others are at work ------------------------------------------ */

static int traffic(SELF, int unused)
{
	for (;;) {
		MUST(!read_all("pools/main/free"));
		usleep(20000);
	}
}

static int meet_the_limit(SELF, int unused)
{
	uint64_t pages[16], more;
	int fd = client(self, "b");

	usleep(300000);
	MUST(alloc(fd, 16, 0, pages, NULL) == 0);
	MUST(alloc(fd, 1, 0, &more, NULL) == -EDQUOT);
	return 0;
}

TEST_F(broker, poll_ends_under_traffic)
{
	struct pollfd p = { .events = POLLPRI };
	pid_t busy, limit;
	uint64_t begin;

	MOUNT(self, start);
	p.fd = open(in("tenants/b/events"), O_RDONLY);
	ASSERT_GE(p.fd, 0);
	busy = child_start(traffic, self, 0);
	limit = child_start(meet_the_limit, self, 0);
	begin = now_ns();
	/* At the end of its time poll(2) looks itself: it was not woken then. */
	ASSERT_EQ(1, poll(&p, 1, SOME_S * 1000));
	EXPECT_LT(seconds_since(begin), SOME_S - 1);
	ASSERT_EQ(POLLPRI | POLLERR, p.revents);
	ASSERT_EQ(0, child_end(limit));
	ASSERT_EQ(0, kill(busy, SIGKILL));
	ASSERT_EQ(256 + SIGKILL, child_end(busy));
	close(p.fd);
	fs_end();
}

/* ---- who asks for a size, and who reads ---------------------------------------- */

#define TENANTS 300

static void make_tenants(SELF)
{
	struct kvcache_tenant_set s = {
		.size = sizeof(s),
		.set = KVCACHE_SET_OWNER,
		.mode = 0444,
		.deadline_ns = NEVER,
	};
	int fd = dial(self);

	for (int i = 0; i < TENANTS; i++) {
		snprintf(s.name, sizeof(s.name), "tenant-%d", i);
		ASSERT_EQ(0, call(fd, KVCACHE_NR_TENANT_CREATE, &s));
	}
}

TEST_F(broker, stat_makes_no_text)
{
	uint64_t stats, reads;
	struct stat st;
	int i;

	MOUNT(self, start);
	make_tenants(self);
	stats = now_ns();
	for (i = 0; i < 100; i++)
		ASSERT_EQ(0, stat(in("metrics"), &st));
	stats = now_ns() - stats;
	reads = now_ns();
	for (i = 0; i < 100; i++)
		ASSERT_EQ(0, read_all("metrics"));
	reads = now_ns() - reads;
	printf("# figure kvcachefs: metrics of %d tenants: %.3f ms to read, %.3f ms to stat\n",
	       TENANTS, reads / 1e8, stats / 1e8);
	ASSERT_LT(4 * stats, reads);
	fs_end();
}

/* An open file's size is what can be read. */
TEST_F(broker, size_of_what_is_open)
{
	static char text[4 << 20];
	struct stat st;
	ssize_t n;
	int fd;

	MOUNT(self, start);
	make_tenants(self);
	fd = open(in("metrics"), O_RDONLY);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, fstat(fd, &st));
	n = pread(fd, text, sizeof(text), 0);
	ASSERT_EQ(st.st_size, n);
	ASSERT_GT(n, 4096);
	close(fd);
	fs_end();
}

TEST_HARNESS_MAIN
