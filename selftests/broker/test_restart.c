// SPDX-License-Identifier: MIT
/*
 * test_restart.c - a broker that is stopped leaves its ledger and its published
 * pages to the next one, through a service manager's store of descriptors. The
 * manager is a stand-in: a socket for its messages, and the rules of
 * sd_notify(3) and sd_listen_fds(3).
 */
#include "kit.h"

#define KEPT	128

/**
 * struct manager - what a service manager knows of one service
 * @notify: where the service's messages come
 * @path: its address
 * @listen: the service's socket, which is passed first
 * @fd: descriptors that are kept, @nr of them
 * @name: their names
 * @room: for how many there is room
 * @ready: messages READY=1
 */
struct manager {
	int notify;
	char path[64];
	int listen;
	int fd[KEPT];
	char name[KEPT][16];
	int nr;
	int room;
	int ready;
};

static int bound(const char *path, int type)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	ASSERT_EQ(0, bind(fd, (struct sockaddr *)&a, sizeof(a)));
	return fd;
}

static void manager_begin(SELF, struct manager *m)
{
	memset(m, 0, sizeof(*m));
	m->room = KEPT;
	snprintf(m->path, sizeof(m->path), "%s/notify", self->dir);
	m->notify = bound(m->path, SOCK_DGRAM);
	m->listen = bound(self->path, SOCK_SEQPACKET);
	ASSERT_EQ(0, listen(m->listen, 64));
}

static void store(struct manager *m, const char *name, const int *fds, int nr)
{
	for (int k = 0; k < nr; k++) {
		if (m->nr == m->room) {
			close(fds[k]);
			continue;
		}
		m->fd[m->nr] = fds[k];
		snprintf(m->name[m->nr++], sizeof(m->name[0]), "%.15s", name);
	}
}

static void drop_named(struct manager *m, const char *name)
{
	int n = 0;

	for (int k = 0; k < m->nr; k++) {
		if (!strcmp(m->name[k], name)) {
			close(m->fd[k]);
			continue;
		}
		m->fd[n] = m->fd[k];
		memmove(m->name[n++], m->name[k], sizeof(m->name[0]));
	}
	m->nr = n;
}

/* A message; whatever it carries and is not kept is closed. */
static void heed(struct manager *m, char *text, const int *fds, int nr)
{
	const char *at = strstr(text, "FDNAME=");
	char name[16] = "stored";

	if (at)
		sscanf(at, "FDNAME=%15[^\n]", name);
	m->ready += !!strstr(text, "READY=1");
	if (strstr(text, "FDSTORE=1")) {
		store(m, name, fds, nr);
		return;
	}
	if (strstr(text, "FDSTOREREMOVE=1"))
		drop_named(m, name);
	while (nr)
		close(fds[--nr]);
}

static bool hear(struct manager *m)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(253 * sizeof(int))];
	} room;
	char text[256] = "";
	struct iovec iov = { text, sizeof(text) - 1 };
	struct msghdr h = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = &room, .msg_controllen = sizeof(room),
	};
	struct cmsghdr *c;
	int fds[253], nr = 0;

	if (recvmsg(m->notify, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
		return false;
	for (c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c)) {
		ASSERT_EQ(SCM_RIGHTS, c->cmsg_type);
		nr = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(c), nr * sizeof(int));
	}
	heed(m, text, fds, nr);
	return true;
}

/* Starts the broker with all that is kept, as systemd would. */
static void launch(SELF, struct manager *m)
{
	const char *const argv[] = {
		"kvcache-broker", "--pool", "main=4M,page=64K",
		"--tenant", "a,mode=0444", "--tenant", "b,mode=0444,max=1M",
		NULL
	};
	char names[KEPT * 16] = "socket", n[16];
	int had = count_said(self, "started"), ready = m->ready, k;
	pid_t parent = getpid();

	self->pid = fork();
	ASSERT_GE(self->pid, 0);
	if (!self->pid) {
		MUST(!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == parent);
		k = open(self->log, O_WRONLY | O_CREAT | O_APPEND, 0644);
		MUST(k >= 0 && dup2(k, 2) == 2);
		/* Out of the way first: they are to be 3, 4, ... */
		for (k = 0; k < m->nr; k++)
			m->fd[k] = fcntl(m->fd[k], F_DUPFD, 500);
		m->listen = fcntl(m->listen, F_DUPFD, 500);
		MUST(dup2(m->listen, 3) == 3);
		for (k = 0; k < m->nr; k++) {
			MUST(dup2(m->fd[k], 4 + k) == 4 + k);
			close(m->fd[k]);
			strcat(strcat(names, ":"), m->name[k]);
		}
		close(m->listen);
		snprintf(n, sizeof(n), "%d", getpid());
		setenv("LISTEN_PID", n, 1);
		snprintf(n, sizeof(n), "%d", 1 + m->nr);
		setenv("LISTEN_FDS", n, 1);
		setenv("LISTEN_FDNAMES", names, 1);
		setenv("NOTIFY_SOCKET", m->path, 1);
		execv(broker_program(), (char *const *)argv);
		MUST(false);
	}
	ASSERT_TRUE(SOON((hear(m), m->ready > ready) ||
			 waitpid(self->pid, NULL, WNOHANG)));
	ASSERT_EQ(had + 1, count_said(self, "started"));
	while (hear(m))
		;
}

/* Stops it, and keeps what it gives away. */
static void halt(SELF, struct manager *m)
{
	int status = -1;

	ASSERT_EQ(0, kill(self->pid, SIGTERM));
	ASSERT_TRUE(SOON((hear(m), waitpid(self->pid, &status, WNOHANG) ==
			  self->pid)));
	while (hear(m))
		;
	self->pid = 0;
	ASSERT_TRUE(WIFEXITED(status) && !WEXITSTATUS(status));
}

/* A published page with @key, full of it, held by @fd; its mapping. */
static char *page_of(int fd, int key, uint64_t *page)
{
	int file;
	char *at;

	ASSERT_EQ(0, alloc(fd, 1, 0, page, &file));
	at = map_file(file, PROT_READ | PROT_WRITE);
	ASSERT_TRUE(at != NULL);
	memset(at, key, PAGE);
	munmap(at, PAGE);
	close(file);
	ASSERT_EQ(0, publish(fd, page, key, &file));
	at = map_file(file, PROT_READ);
	ASSERT_TRUE(at != NULL);
	close(file);
	return at;
}

static void cache_page(int fd, int key)
{
	uint64_t page;

	munmap(page_of(fd, key, &page), PAGE);
	ASSERT_EQ(0, free_pages(fd, &page, 1));
}

static void expect_page(int fd, int key)
{
	uint64_t page = lookup(fd, key);
	int file;
	char *at;

	ASSERT_NE(0, page);
	ASSERT_EQ(0, map_page(fd, page, &file));
	at = map_file(file, PROT_READ);
	ASSERT_TRUE(at != NULL);
	for (uint32_t k = 0; k < PAGE; k++)
		ASSERT_EQ(key, at[k]);
	/* Still nobody can write it. */
	ASSERT_TRUE(!map_file(file, PROT_READ | PROT_WRITE));
	munmap(at, PAGE);
	close(file);
	ASSERT_EQ(0, free_pages(fd, &page, 1));
}

TEST_F(broker, pages_and_ledger_outlive_it)
{
	struct kvcache_tenant_set set = {
		.size = sizeof(set), .set = KVCACHE_SET_LIMITS, .max = 9,
		.deadline_ns = NEVER,
	};
	struct kvcache_tenant_get get = { .size = sizeof(get) };
	struct manager m;
	uint64_t page;
	int a, admin;
	char *at;

	manager_begin(self, &m);
	launch(self, &m);
	a = client(self, "a");
	cache_page(a, 11);
	cache_page(a, 12);
	at = page_of(a, 13, &page);
	ASSERT_EQ(0, alloc(a, 1, 0, &page, NULL));
	admin = dial(self);
	ASSERT_EQ(0, call(admin, KVCACHE_NR_TENANT_GET, &get));
	set.tenant = get.out_info[0].id;
	ASSERT_EQ(0, call(admin, KVCACHE_NR_TENANT_SET, &set));
	close(admin);

	halt(self, &m);
	ASSERT_EQ(4, m.nr);	/* three pages and the ledger */
	/* Who was there has no broker any more, and reads what it had. */
	ASSERT_LT(alloc(a, 1, 0, &page, NULL), 0);
	ASSERT_EQ(13, at[PAGE - 1]);
	close(a);

	launch(self, &m);
	ASSERT_EQ(0, m.nr);
	a = client(self, "a");
	ASSERT_EQ(3, pool_info(a).nr_cached);
	ASSERT_EQ(0, pool_info(a).nr_private);
	expect_page(a, 11);
	expect_page(a, 12);
	expect_page(a, 13);
	ASSERT_EQ(0, call(a, KVCACHE_NR_TENANT_GET, &get));
	ASSERT_EQ(9, get.out_info[0].max);
	verify(self);
	close(a);
	/* And once more, with what is there now. */
	halt(self, &m);
	ASSERT_EQ(4, m.nr);
	launch(self, &m);
	a = client(self, "a");
	expect_page(a, 12);
	close(a);
	halt(self, &m);
}

/* Pages that a client of the last broker reads do not vanish below it. */
TEST_F(broker, who_reads_goes_on_reading)
{
	uint64_t pages[64], page;
	struct manager m;
	char *held, *left;
	int a, nr = 0;

	manager_begin(self, &m);
	launch(self, &m);
	a = client(self, "a");
	held = page_of(a, 21, &page);
	left = page_of(a, 22, &page);
	ASSERT_EQ(0, free_pages(a, &page, 1));
	halt(self, &m);
	close(a);
	launch(self, &m);
	a = client(self, "a");
	while (nr < 64 && !alloc(a, 1, 0, &pages[nr], NULL))
		nr++;
	ASSERT_EQ(64, nr);
	ASSERT_EQ(0, lookup(a, 21));
	ASSERT_EQ(21, held[0]);
	ASSERT_EQ(21, held[PAGE - 1]);
	/* What it had given back is taken away, as ever. */
	ASSERT_TRUE(SOON(is_gone(left)));
	verify(self);
	close(a);
	halt(self, &m);
}

/* A file that is none of ours is not taken for a page. */
TEST_F(broker, what_is_no_page_is_lost)
{
	struct manager m;
	int a, k;

	manager_begin(self, &m);
	launch(self, &m);
	a = client(self, "a");
	cache_page(a, 31);
	cache_page(a, 32);
	close(a);
	halt(self, &m);
	for (k = 0; k < m.nr && strcmp(m.name[k], "p"); k++)
		;
	ASSERT_LT(k, m.nr);
	close(m.fd[k]);
	m.fd[k] = open("/dev/null", O_RDWR);
	launch(self, &m);
	ASSERT_EQ(1, count_said(self, "1 pages of the last broker are cached, 1 are lost"));
	a = client(self, "a");
	ASSERT_EQ(1, pool_info(a).nr_cached);
	verify(self);
	close(a);
	halt(self, &m);
}

TEST_F(broker, a_ledger_that_is_damaged_is_no_reason_not_to_start)
{
	struct manager m;
	int a, k;

	manager_begin(self, &m);
	launch(self, &m);
	a = client(self, "a");
	cache_page(a, 41);
	close(a);
	halt(self, &m);
	for (k = 0; k < m.nr && strcmp(m.name[k], "state"); k++)
		;
	ASSERT_LT(k, m.nr);
	ASSERT_EQ(0, ftruncate(m.fd[k], 100));
	launch(self, &m);
	ASSERT_EQ(1, count_said(self, "state: "));
	ASSERT_EQ(0, m.nr);
	a = client(self, "a");
	ASSERT_EQ(64, pool_info(a).nr_free);
	cache_page(a, 41);
	verify(self);
	close(a);
	halt(self, &m);
}

/* FileDescriptorStoreMax= is less than there are: the rest is kept. */
TEST_F(broker, a_store_that_is_full_keeps_the_ledger)
{
	struct manager m;
	int a, key;

	manager_begin(self, &m);
	launch(self, &m);
	a = client(self, "a");
	for (key = 61; key < 64; key++)
		cache_page(a, key);
	close(a);
	m.room = 3;
	halt(self, &m);
	launch(self, &m);
	ASSERT_EQ(1, count_said(self, "2 pages of the last broker are cached, 1 are lost"));
	a = client(self, "a");
	ASSERT_EQ(2, pool_info(a).nr_cached);
	verify(self);
	close(a);
	halt(self, &m);
}

/* Without a manager everything goes with the broker. */
TEST_F(broker, without_a_store_nothing_is_left)
{
	int a, status;

	unsetenv("NOTIFY_SOCKET");
	start(self);
	a = client(self, "a");
	cache_page(a, 51);
	ASSERT_EQ(0, kill(self->pid, SIGTERM));
	ASSERT_EQ(self->pid, waitpid(self->pid, &status, 0));
	self->pid = 0;
	ASSERT_TRUE(WIFEXITED(status) && !WEXITSTATUS(status));
	ASSERT_EQ(0, count_said(self, "next broker"));
	close(a);
}

TEST_HARNESS_MAIN
