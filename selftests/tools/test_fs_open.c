// SPDX-License-Identifier: MIT
/*
 * test_fs_open.c - kvcachefs: what an open file or folder is while things change
 * under it. Each test has its own broker, and mounts in a namespace of its own.
 */
#include <sys/sendfile.h>
#include <sys/syscall.h>

#include "broker/mount.h"

#define NOBODY 65534

/* What is read from the beginning, or "-ERRNO". */
static const char *look(int fd)
{
	static char buf[4096];
	ssize_t n = pread(fd, buf, sizeof(buf) - 1, 0);

	if (n < 0)
		snprintf(buf, sizeof(buf), "%d", -errno);
	else
		buf[n] = 0;
	return buf;
}

static int write_to(const char *file, const char *value)
{
	int fd = open(in(file), O_WRONLY), ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

static const char *now_in(const char *file)
{
	int fd = open(in(file), O_RDONLY);
	const char *text = fd < 0 ? "" : look(fd);

	if (fd >= 0)
		close(fd);
	return text;
}

/* ---- one open is one look ------------------------------------------------- */

TEST_F(broker, open_file_stays_as_it_was)
{
	char c, text[64] = "";
	int fd;

	MOUNT(self, start);
	fd = open(in("tenants/b/max"), O_RDONLY);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(1, read(fd, text, 1));
	ASSERT_EQ(0, write_to("tenants/b/max", "2M"));
	for (int i = 1; read(fd, &c, 1) == 1; i++)
		text[i] = c;
	ASSERT_STREQ("main 1048576\n", text);
	ASSERT_STREQ("main 1048576\n", look(fd));
	ASSERT_STREQ("main 2097152\n", now_in("tenants/b/max"));
	close(fd);
	fs_end();
}

/* sendfile(2), into @text. */
static ssize_t sent(int fd, char *text, size_t len)
{
	int p[2];
	ssize_t n;

	if (pipe(p))
		return -errno;
	n = sendfile(p[1], fd, NULL, len);
	if (n > 0)
		n = read(p[0], text, len);
	close(p[0]);
	close(p[1]);
	return n;
}

/* It goes through the page cache, which is not for this. */
TEST_F(broker, sendfile_is_the_same_look)
{
	char text[64] = "";
	int old, new;

	MOUNT(self, start);
	old = open(in("tenants/b/max"), O_RDONLY);
	ASSERT_EQ(0, write_to("tenants/b/max", "2M"));
	new = open(in("tenants/b/max"), O_RDONLY);
	ASSERT_TRUE(old >= 0 && new >= 0);
	ASSERT_EQ(13, sent(new, text, 64));
	ASSERT_STREQ("main 2097152\n", text);
	ASSERT_EQ(0, sent(new, text, 64));
	ASSERT_EQ(13, sent(old, text, 64));
	ASSERT_STREQ("main 1048576\n", text);
	close(old);
	close(new);
	fs_end();
}

/* Before anybody read it, when nobody knows how long it is. */
TEST_F(broker, sendfile_has_all_of_what_is_long)
{
	static char text[1 << 16], want[1 << 16];
	ssize_t n, all = 0, wanted = 0;
	int fd;

	MOUNT(self, start);
	fd = open(in("metrics"), O_RDONLY);
	ASSERT_TRUE(fd >= 0);
	while ((n = sent(fd, text + all, sizeof(text) - all)) > 0)
		all += n;
	ASSERT_EQ(0, n);
	while ((n = pread(fd, want + wanted, sizeof(want) - wanted,
			  wanted)) > 0)
		wanted += n;
	ASSERT_TRUE(wanted > 4096);
	EXPECT_EQ(wanted, all);
	EXPECT_EQ(0, memcmp(text, want, wanted));
	close(fd);
	fs_end();
}

/* Another tenant of the same name is another one. */
TEST_F(broker, open_folder_is_never_another)
{
	int dir, file, out;
	struct stat st;

	MOUNT(self, start);
	dir = open(in("tenants/b"), O_RDONLY | O_DIRECTORY);
	file = open(in("tenants/b/max"), O_RDONLY);
	out = open(in("tenants/b/max"), O_WRONLY);
	ASSERT_TRUE(dir >= 0 && file >= 0 && out >= 0);
	ASSERT_EQ(0, fstat(dir, &st));
	ASSERT_EQ(0, rmdir(in("tenants/b")));
	ASSERT_EQ(0, mkdir(in("tenants/b"), 0755));
	ASSERT_EQ(-1, openat(dir, "max", O_RDONLY));
	ASSERT_EQ(ENOENT, errno);
	ASSERT_EQ(-1, fstat(dir, &st));
	ASSERT_EQ(ENOENT, errno);
	ASSERT_EQ(-1, write(out, "1M", 2));
	ASSERT_EQ(ENODEV, errno);
	ASSERT_STREQ("main 1048576\n", look(file));
	ASSERT_STREQ("main max\n", now_in("tenants/b/max"));
	close(dir);
	close(file);
	close(out);
	fs_end();
}

/* A program with rights does not lend them to whoever opened, nor gets them. */
TEST_F(broker, rights_are_of_who_writes)
{
	int fd;

	MOUNT(self, start);
	fd = open(in("tenants/b/max"), O_RDWR);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, seteuid(NOBODY));
	ASSERT_EQ(-1, write(fd, "2M", 2));
	ASSERT_EQ(EPERM, errno);
	ASSERT_EQ(-1, open(in("tenants/b/max"), O_WRONLY));
	ASSERT_EQ(EACCES, errno);
	ASSERT_EQ(0, seteuid(0));
	ASSERT_STREQ("main 1048576\n", now_in("tenants/b/max"));
	ASSERT_EQ(2, write(fd, "2M", 2));
	/* Again, wherever in the file that is. */
	ASSERT_EQ(2, write(fd, "3M", 2));
	ASSERT_STREQ("main 3145728\n", now_in("tenants/b/max"));
	close(fd);
	fs_end();
}

/* ---- poll ----------------------------------------------------------------- */

static int pri(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLPRI };
	int n = poll(&p, 1, ms);

	return n < 0 ? -errno : p.revents;
}

static int meet_the_limit(SELF, int unused)
{
	uint64_t pages[16], more;
	int fd = client(self, "b");

	MUST(alloc(fd, 16, 0, pages, NULL) == 0);
	/* Whoever polls is asleep by then, or is told at once. */
	usleep(50000);
	MUST(alloc(fd, 1, 0, &more, NULL) == -EDQUOT);
	return 0;
}

TEST_F(broker, poll_ends_with_an_event)
{
	pid_t pid;
	int fd;

	MOUNT(self, start);
	fd = open(in("tenants/b/events"), O_RDONLY);
	ASSERT_GE(fd, 0);
	ASSERT_STREQ("main max=0 reclaim=0 revoke=0\n", look(fd));
	ASSERT_EQ(0, pri(fd, 0));
	pid = child_start(meet_the_limit, self, 0);
	ASSERT_EQ(POLLPRI | POLLERR, pri(fd, 60000));
	ASSERT_EQ(0, child_end(pid));
	ASSERT_EQ(POLLPRI | POLLERR, pri(fd, 0));
	ASSERT_STREQ("main max=1 reclaim=0 revoke=0\n", look(fd));
	ASSERT_EQ(0, pri(fd, 0));
	close(fd);
	fs_end();
}

static int remove_it(SELF, int unused)
{
	usleep(50000);
	MUST(!rmdir(in("tenants/b")));
	return 0;
}

TEST_F(broker, poll_ends_with_the_tenant)
{
	pid_t pid;
	int fd;

	MOUNT(self, start);
	fd = open(in("tenants/b/events"), O_RDONLY);
	ASSERT_GE(fd, 0);
	ASSERT_EQ('m', *look(fd));
	pid = child_start(remove_it, self, 0);
	ASSERT_EQ(POLLPRI | POLLERR, pri(fd, 60000));
	ASSERT_EQ(0, child_end(pid));
	ASSERT_EQ(-ENODEV, atoi(look(fd)));
	close(fd);
	fs_end();
}

/* ---- a list that changes while it is read --------------------------------- */

#define CLIENTS 200
#define NUMBERS (1 << 20)

/* What one small buffer has, counted in @seen; false at the end. */
static bool read_some(int dir, unsigned int *seen)
{
	char buf[512] __attribute__((aligned(8)));
	long n = syscall(SYS_getdents64, dir, buf, sizeof(buf));
	const struct dirent64 *e;
	unsigned int id;

	ASSERT_GE(n, 0);
	for (long at = 0; at < n; at += e->d_reclen) {
		e = (const struct dirent64 *)(buf + at);
		id = strtoul(e->d_name, NULL, 10);
		ASSERT_LT(id, NUMBERS);
		seen[id] += e->d_name[0] != '.';
	}
	return n;
}

/* Those who stay are there, once; of the others none is there twice. */
TEST_F(broker, clients_come_and_go_meanwhile)
{
	static unsigned int seen[NUMBERS], was[NUMBERS];
	int fd[2 * CLIENTS], i, nr = 0, dir;

	MOUNT(self, start);
	for (i = 0; i < CLIENTS; i++)
		fd[i] = client(self, "a");
	dir = open(in("clients"), O_RDONLY | O_DIRECTORY);
	ASSERT_GE(dir, 0);
	while (read_some(dir, was))
		;
	for (i = 0; i < NUMBERS; i++) {
		ASSERT_LE(was[i], 1);
		nr += was[i];
	}
	ASSERT_EQ(CLIENTS, nr);
	ASSERT_EQ(0, lseek(dir, 0, SEEK_SET));
	for (i = 0; i < 3; i++)
		ASSERT_TRUE(read_some(dir, seen));
	for (i = 0; i < CLIENTS; i += 2) {
		close(fd[i]);
		fd[CLIENTS + i] = client(self, "a");
	}
	while (read_some(dir, seen))
		;
	close(dir);
	for (i = 1; i < CLIENTS; i += 2) {
		struct kvcache_query q = { .size = sizeof(q) };

		ASSERT_EQ(0, call(fd[i], KVCACHE_NR_QUERY, &q));
		ASSERT_LT(q.out_client, NUMBERS);
		ASSERT_EQ(1, seen[q.out_client]);
	}
	for (i = 0; i < NUMBERS; i++)
		ASSERT_LE(seen[i], 1);
	fs_end();
}

/* Clients that come and go as fast as they can, until the parent ends. */
static int churn(SELF, int unused)
{
	int fd[8], i;

	for (;;) {
		for (i = 0; i < 8; i++) {
			fd[i] = connect_to(self->path);
			MUST(fd[i] >= 0 && !attach_as(fd[i], "a"));
		}
		for (i = 0; i < 8; i++)
			close(fd[i]);
	}
}

/* A file of a client that may have ended: what is in it is whole. */
static void look_at_client(unsigned int id)
{
	const char *const files[] = { "pid", "tenant", "pages", "waiting" };
	const char *const whole[] = { NULL, "a\n",
		"main private=0 shared=0\n", "main 0\n" };
	char path[64];
	int fd;

	for (int k = 0; k < 4; k++) {
		snprintf(path, sizeof(path), "clients/%u/%s", id, files[k]);
		fd = open(in(path), O_RDONLY);
		if (fd < 0) {
			ASSERT_EQ(ENOENT, errno);
			continue;
		}
		if (whole[k])
			ASSERT_STREQ(whole[k], look(fd));
		else
			ASSERT_GT(atoi(look(fd)), 0);
		close(fd);
	}
}

/* Numbers of those who are there all the time. */
static uint32_t stays(SELF)
{
	struct kvcache_query q = { .size = sizeof(q) };

	ASSERT_EQ(0, call(client(self, "a"), KVCACHE_NR_QUERY, &q));
	return q.out_client;
}

TEST_F(broker, clients_end_while_their_files_are_read)
{
	static unsigned int seen[NUMBERS];
	uint32_t stay[20];
	int dir, i, round;
	pid_t pid;

	MOUNT(self, start);
	for (i = 0; i < 20; i++)
		stay[i] = stays(self);
	pid = child_start(churn, self, 0);
	for (round = 0; round < 20; round++) {
		memset(seen, 0, sizeof(seen));
		dir = open(in("clients"), O_RDONLY | O_DIRECTORY);
		ASSERT_GE(dir, 0);
		while (read_some(dir, seen))
			;
		close(dir);
		for (i = 0; i < 20; i++)
			ASSERT_EQ(1, seen[stay[i]]);
		for (i = 0; i < NUMBERS; i++) {
			ASSERT_LE(seen[i], 1);
			if (seen[i])
				look_at_client(i);
		}
	}
	kill(pid, SIGKILL);
	ASSERT_EQ(256 + SIGKILL, child_end(pid));
	fs_end();
}

TEST_HARNESS_MAIN
