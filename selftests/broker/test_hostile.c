// SPDX-License-Identifier: MIT
/*
 * test_hostile.c - clients that want no good, or do not know how: the broker
 * lives, serves all others meanwhile, and has nothing of theirs afterwards.
 */
#include <sys/resource.h>

#include "kit.h"

/* It serves somebody who means well. */
static void serves(SELF)
{
	uint64_t page;
	int fd = client(self, "a");

	ASSERT_EQ(0, alloc(fd, 1, NEVER, &page, NULL));
	ASSERT_EQ(0, free_pages(fd, &page, 1));
	close(fd);
}

/* The broker has ended the connection. */
static bool is_cut(int fd)
{
	static struct got g;
	int n;

	while ((n = get(fd, &g)) > 0)
		;
	return !n || errno == ECONNRESET || errno == EPIPE;
}

static uint32_t random_below(uint32_t n)
{
	return (uint32_t)(((uint64_t)random() << 16 ^ random()) % n);
}

static void fill_random(void *at, size_t len)
{
	unsigned char *c = at;

	while (len--)
		*c++ = random();
}

static unsigned int seed(void)
{
	const char *s = getenv("SEED");
	unsigned int v = s ? strtoul(s, NULL, 0) : (unsigned int)now_ns();

	TH_LOG("SEED=%u", v);
	srandom(v);
	return v;
}

/* ---- messages that are none ---------------------------------------------- */

TEST_F(broker, what_is_no_request_ends_the_connection)
{
	struct kvcb_head head = { .magic = KVCB_MAGIC };
	static char bytes[KVCB_MSG_MAX + 1];
	int fd;

	start(self);
	memcpy(bytes, &head, sizeof(head));
	for (uint32_t len = 0; len < sizeof(head); len++) {
		fd = dial(self);
		ASSERT_EQ(len, send(fd, bytes, len, 0));
		ASSERT_TRUE(is_cut(fd));
		close(fd);
	}
	/* Longer than any. */
	fd = dial(self);
	ASSERT_EQ(sizeof(bytes), send(fd, bytes, sizeof(bytes), 0));
	ASSERT_TRUE(is_cut(fd));
	close(fd);
	/* Of another protocol. */
	fd = dial(self);
	ASSERT_EQ(18, send(fd, "GET / HTTP/1.1\r\n\r\n", 18, 0));
	ASSERT_TRUE(is_cut(fd));
	close(fd);
	for (int bit = 0; bit < 32; bit++) {
		head.magic = KVCB_MAGIC ^ 1U << bit;
		fd = dial(self);
		ASSERT_EQ(sizeof(head), send(fd, &head, sizeof(head), 0));
		ASSERT_TRUE(is_cut(fd));
		close(fd);
	}
	serves(self);
	at_rest(self);
}

TEST_F(broker, garbage)
{
	static char bytes[KVCB_MSG_MAX + 100];
	int fd;

	start(self);
	seed();
	for (int k = 0; k < 2000; k++) {
		uint32_t len = random_below(sizeof(bytes));

		fd = dial(self);
		fill_random(bytes, len);
		ASSERT_EQ(len, send(fd, bytes, len, 0));
		if (k % 2)
			ASSERT_TRUE(is_cut(fd));
		close(fd);
	}
	serves(self);
	at_rest(self);
}

/* ---- requests that are wrong --------------------------------------------- */

static int put_raw(int fd, struct kvcb_head *head, const void *body,
		   uint32_t len)
{
	struct iovec iov[2] = {
		{ head, sizeof(*head) }, { (void *)body, len },
	};
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };

	return sendmsg(fd, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The struct's size is not that of the message: refused, and no more. */
TEST_F(broker, a_size_that_is_not_what_came)
{
	static char body[16384];
	struct kvcb_head head = { .magic = KVCB_MAGIC };
	uint32_t said[] = { 0, 1, 4, 8, 15, 16, 100, 16384, 16385, ~0U };
	uint32_t cookie = 0, k, len;
	int fd;

	start(self);
	fd = client(self, "a");
	for (head.nr = 0; head.nr <= 0x90; head.nr++) {
		/* CANCEL has no reply. */
		if (head.nr == KVCB_NR_CANCEL)
			continue;
		for (k = 0; k < sizeof(said) / sizeof(*said); k++) {
			for (len = 0; len <= 24; len += 3) {
				if (said[k] == len)
					continue;
				memcpy(body, &said[k], sizeof(said[k]));
				head.cookie = ++cookie;
				ASSERT_EQ(0, put_raw(fd, &head, body, len));
				ASSERT_EQ(-EINVAL,
					  await(fd, cookie, body, NULL));
			}
		}
	}
	/* A result that somebody asks with is none of ours. */
	head.nr = KVCACHE_NR_QUERY;
	head.rc = -1;
	head.cookie = ++cookie;
	memcpy(body, &(uint32_t){ sizeof(struct kvcache_query) }, 4);
	ASSERT_EQ(0, put_raw(fd, &head, body, sizeof(struct kvcache_query)));
	ASSERT_EQ(-EINVAL, await(fd, cookie, body, NULL));
	close(fd);
	serves(self);
	at_rest(self);
}

/* Two requests in one message are not two requests. */
TEST_F(broker, requests_that_stick_together)
{
	struct {
		struct kvcb_head head;
		struct kvcache_free free;
	} two[2] = {
		{ { KVCB_MAGIC, KVCACHE_NR_FREE, 1, 0 },
		  { .size = sizeof(struct kvcache_free), .nr = 1 } },
		{ { KVCB_MAGIC, KVCACHE_NR_FREE, 2, 0 },
		  { .size = sizeof(struct kvcache_free), .nr = 1 } },
	};
	uint64_t pages[2];
	struct kvcache_free back;
	int fd;

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 2, 0, pages, NULL));
	two[0].free.pages[0] = pages[0];
	two[1].free.pages[0] = pages[1];
	ASSERT_EQ(sizeof(two), send(fd, two, sizeof(two), 0));
	ASSERT_EQ(-EINVAL, await(fd, 1, &back, NULL));
	ASSERT_EQ(2, pool_info(fd).nr_private);
}

/* Heads that come alone between requests that wait. */
TEST_F(broker, halves_of_requests_between_whole_ones)
{
	struct kvcb_head head = { .magic = KVCB_MAGIC };
	struct kvcache_alloc a = {
		.size = sizeof(a), .nr = 64, .deadline_ns = NEVER,
	};
	uint64_t pages[64];
	int fd, k;

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 64, 0, pages, NULL));
	ASSERT_GT(put(fd, KVCACHE_NR_ALLOC, 7, &a), 0);
	for (k = 0; k < 20; k++) {
		head.nr = KVCACHE_NR_ALLOC;
		head.cookie = 100 + k;
		ASSERT_EQ(0, put_raw(fd, &head, &a, 4 * k));
		ASSERT_EQ(-EINVAL, await(fd, 100 + k, &a, NULL));
	}
	ASSERT_EQ(0, free_pages(fd, pages, 64));
	ASSERT_EQ(0, await(fd, 7, &a, NULL));
	close(fd);
	at_rest(self);
}

/* Any bits in any struct: no answer is wrong, but the books are right. */
TEST_F(broker, structs_of_random_bits)
{
	static const uint32_t nrs[] = {
		KVCACHE_NR_QUERY, KVCACHE_NR_ALLOC, KVCACHE_NR_FREE,
		KVCACHE_NR_PUBLISH, KVCACHE_NR_LOOKUP, KVCACHE_NR_ADVISE,
		KVCACHE_NR_TENANT_FLUSH, KVCACHE_NR_TENANT_GRANT,
		KVCACHE_NR_TENANT_GET, KVCACHE_NR_CLIENT_GET,
		KVCACHE_NR_PAGE_GET, KVCACHE_NR_EXPORT, KVCB_NR_MAP,
		KVCB_NR_EVENTS,
	};
	static const uint32_t sizes[] = {
		sizeof(struct kvcache_query), sizeof(struct kvcache_alloc),
		sizeof(struct kvcache_free), sizeof(struct kvcache_publish),
		sizeof(struct kvcache_lookup), sizeof(struct kvcache_advise),
		sizeof(struct kvcache_tenant_ref),
		sizeof(struct kvcache_tenant_grant),
		sizeof(struct kvcache_tenant_get),
		sizeof(struct kvcache_client_get),
		sizeof(struct kvcache_page_get), sizeof(struct kvcache_export),
		sizeof(struct kvcb_map), sizeof(struct kvcb_events),
	};
	static uint32_t body[4096];
	uint64_t pages[64];
	int fd;

	start(self);
	seed();
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 8, 0, pages, NULL));
	for (int k = 0; k < 5000; k++) {
		uint32_t i = random_below(14), words = sizes[i] / 4, j;

		memset(body, 0, sizes[i]);
		/* Small numbers get further than large ones. */
		for (j = 1; j < 6 && j < words; j++)
			body[j] = random_below(3) ? random_below(3) :
				  random_below(~0U);
		for (j = 6; j < words && random_below(4); j++)
			body[j] = random_below(100);
		if (random_below(2) && words > 20)
			memcpy(body + 4 + 2 * random_below(4), pages, 64);
		body[0] = sizes[i];
		/* Nothing waits for long. */
		if (nrs[i] == KVCACHE_NR_ALLOC || nrs[i] == KVCB_NR_EVENTS)
			memset(body + (nrs[i] == KVCB_NR_EVENTS ? 2 : 4), 0, 8);
		call(fd, nrs[i], body);
		if (k % 500 == 0)
			verify(self);
	}
	close(fd);
	at_rest(self);
}

/* ---- descriptors --------------------------------------------------------- */

static int send_fds(int fd, const void *bytes, size_t len, int nr)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(KVCB_FDS_MAX * sizeof(int))];
	} room;
	struct iovec iov = { (void *)bytes, len };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &room,
		.msg_controllen = CMSG_SPACE(nr * sizeof(int)),
	};
	struct cmsghdr *c = (struct cmsghdr *)&room;
	int k;

	memset(&room, 0, sizeof(room));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(nr * sizeof(int));
	for (k = 0; k < nr; k++)
		memcpy(CMSG_DATA(c) + k * sizeof(int), &fd, sizeof(int));
	return sendmsg(fd, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

TEST_F(broker, a_flood_of_descriptors)
{
	struct {
		struct kvcb_head head;
		struct kvcb_cancel cancel;
	} x = {
		{ KVCB_MAGIC, KVCB_NR_CANCEL, 0, 0 }, { sizeof(x.cancel), 0 },
	};
	int fd, k, most = 0, now;

	start(self);
	fd = client(self, "a");
	for (k = 0; k < 1000; k++) {
		/* Of a socket to the broker, which would keep itself alive. */
		ASSERT_EQ(0, send_fds(fd, &x, sizeof(x),
				      1 + k % KVCB_FDS_MAX));
		now = k % 100 ? 0 : open_fds(self->pid);
		most = now > most ? now : most;
	}
	/* It is still of use. */
	ASSERT_EQ(64, pool_info(fd).nr_free);
	ASSERT_LE(most, self->fds + 4);
	/* With what is no request. */
	ASSERT_EQ(0, send_fds(fd, &x, 4, KVCB_FDS_MAX));
	ASSERT_TRUE(is_cut(fd));
	close(fd);
	at_rest(self);
}

/* ---- slow readers -------------------------------------------------------- */

/* As many requests as go without reading one reply. */
static int flood(int fd, uint32_t nr, const void *arg)
{
	int k = 0, idle = 0;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (k < 5000 && idle < 20) {
		if (put(fd, nr, k, arg) > 0) {
			k++;
			idle = 0;
		} else {
			ASSERT_EQ(EAGAIN, errno);
			idle++;
			usleep(5000);
		}
	}
	return k;
}

static void a_slow_reader(SELF, uint32_t nr, const void *arg)
{
	uint64_t pages[16];
	int slow[4], fd, k, files;

	for (k = 0; k < 4; k++) {
		slow[k] = client(self, "a");
		/* It is stopped, somewhere. */
		ASSERT_LT(flood(slow[k], nr, arg), 5000);
	}
	fd = client(self, "a");
	for (k = 0; k < 500; k++) {
		int rc = alloc(fd, 1, now_ns() + 10000000000ULL, pages, NULL);

		ASSERT_EQ(0, rc);
		ASSERT_EQ(0, free_pages(fd, pages, 1));
	}
	/* What it does not take costs no descriptors here. */
	files = open_fds(self->pid);
	ASSERT_LE(files, self->fds + 2 * 5);
	close(fd);
	for (k = 0; k < 4; k++)
		close(slow[k]);
	serves(self);
	at_rest(self);
}

TEST_F(broker, one_that_reads_nothing_stops_nobody_else)
{
	struct kvcache_query q = { .size = sizeof(q) };

	start(self);
	a_slow_reader(self, KVCACHE_NR_QUERY, &q);
}

TEST_F(broker, one_that_takes_no_files_stops_nobody_else)
{
	START(self, "--pool", "main=64M,page=64K", "--tenant",
	      "a,mode=0444");
	ASSERT_TRUE(SOON(open_memfds(self->pid) >= 257));
	self->fds = open_fds(self->pid);
	for (int k = 0; k < 4; k++) {
		/* It asks for the same again and again. */
		struct kvcb_map m = { .size = sizeof(m), .nr = 200 };
		int fd = client(self, "a");

		ASSERT_EQ(0, alloc(fd, 200, NEVER, (uint64_t *)m.pages, NULL));
		ASSERT_LT(flood(fd, KVCB_NR_MAP, &m), 5000);
		serves(self);
		close(fd);
	}
	verify(self);
}

/* One that reads again gets all that it was owed. */
TEST_F(broker, a_slow_reader_that_reads_after_all)
{
	struct kvcb_map m = { .size = sizeof(m), .nr = 60 };
	static struct got g;
	int fd, n, k, files = 0, replies = 0;

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 60, 0, (uint64_t *)m.pages, NULL));
	n = flood(fd, KVCB_NR_MAP, &m);
	ASSERT_GT(n, KVCB_INFLIGHT);
	fcntl(fd, F_SETFL, 0);
	while (replies < n) {
		ASSERT_GT(get(fd, &g), 0);
		replies += g.head.nr == KVCB_NR_MAP;
		files += g.nr_fds;
		for (k = 0; k < g.nr_fds; k++)
			close(g.fds[k]);
		ASSERT_EQ(0, g.head.rc);
	}
	ASSERT_EQ(60 * n, files);
	close(fd);
	at_rest(self);
}

/* It has its time, and then it is cut off. */
TEST_F(broker, one_that_reads_nothing_for_long)
{
	struct kvcache_query q = { .size = sizeof(q) };
	struct pollfd p;
	uint64_t page;
	int fd, other;

	START(self, "--pool", "main=4M,page=64K", "--tenant", "a", "--stall",
	      "500ms");
	ASSERT_TRUE(SOON(open_memfds(self->pid) >= 65));
	self->fds = open_fds(self->pid);
	fd = client(self, "a");
	other = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 1, 0, &page, NULL));
	ASSERT_LT(flood(fd, KVCACHE_NR_QUERY, &q), 5000);
	p = (struct pollfd){ .fd = fd, .events = POLLIN };
	ASSERT_TRUE(SOON(poll(&p, 1, 0) && (p.revents & POLLHUP)));
	/* What it held is free. One that asks for nothing has all time. */
	ASSERT_TRUE(SOON(pool_info(other).nr_free == 64));
	close(fd);
	close(other);
	at_rest(self);
}

/* ---- connections --------------------------------------------------------- */

TEST_F(broker, ten_thousand_connections_one_after_another)
{
	int fd;

	start(self);
	for (int k = 0; k < 10000; k++) {
		fd = dial(self);
		if (k % 10 == 0)
			ASSERT_EQ(0, attach_as(fd, "a"));
		close(fd);
	}
	serves(self);
	at_rest(self);
}

static uint64_t cpu_ticks(pid_t pid)
{
	unsigned long user = 0, sys = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	ASSERT_TRUE(f != NULL);
	ASSERT_EQ(2, fscanf(f, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			    &user, &sys));
	fclose(f);
	return user + sys;
}

/*
 * More than it has descriptors for: they wait outside, which keeps nobody
 * awake, and are let in when others go.
 */
TEST_F(broker, more_connections_than_it_can_have)
{
	enum { MANY = 300 };
	struct rlimit r, small = { 1024, 1024 };
	int fd[MANY], k;
	uint64_t ticks;
	struct kvcache_query q = { .size = sizeof(q) };
	struct pollfd p;

	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &r));
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &small));
	start(self);
	for (k = 0; k < MANY; k++)
		fd[k] = dial(self);
	for (k = 0; k < MANY; k++)
		ASSERT_GT(put(fd[k], KVCACHE_NR_QUERY, 1, &q), 0);
	ASSERT_EQ(0, await(fd[0], 1, &q, NULL));
	p = (struct pollfd){ .fd = fd[MANY - 1], .events = POLLIN };
	ASSERT_EQ(0, poll(&p, 1, 300));
	ticks = cpu_ticks(self->pid);
	sleep(2);
	/* A twentieth of it: others may have most of the CPU. */
	ASSERT_LT(cpu_ticks(self->pid) - ticks,
		  (uint64_t)sysconf(_SC_CLK_TCK) / 10);
	ASSERT_LE(open_fds(self->pid), 1024);
	for (k = 0; k < MANY - 1; k++)
		close(fd[k]);
	ASSERT_EQ(0, await(fd[MANY - 1], 1, &q, NULL));
	close(fd[MANY - 1]);
	serves(self);
	at_rest(self);
}

static volatile int *hogged;

static int hog(SELF, int arg)
{
	struct pollfd p;
	int fd = -1, k, cut = 0;

	MUST(!setgid(65534) && !setuid(65534));
	for (k = 0; k < 90; k++) {
		fd = connect_to(self->path);
		MUST(fd >= 0);
		p = (struct pollfd){ .fd = fd, .events = POLLIN };
		cut += poll(&p, 1, 20) > 0;
	}
	/* Not all, not none. */
	MUST(cut > 20 && cut < 70);
	*hogged = 1;
	pause();
	return 0;
}

/* One user cannot have all connections. */
TEST_F(broker, a_user_who_wants_all_connections)
{
	struct rlimit small = { 1024, 1024 };
	pid_t pid;

	if (getuid())
		SKIP(return, "needs root, to be somebody else");
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &small));
	start(self);
	hogged = mmap(NULL, sizeof(*hogged), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = child_start(hog, self, 0);
	ASSERT_TRUE(SOON(*hogged || waitpid(pid, NULL, WNOHANG)));
	ASSERT_EQ(1, *hogged);
	serves(self);
	kill(pid, SIGKILL);
	child_end(pid);
	at_rest(self);
}

TEST_HARNESS_MAIN
