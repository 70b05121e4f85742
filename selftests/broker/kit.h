/* SPDX-License-Identifier: MIT */
/*
 * kit.h - a broker as a program under test, and clients that speak to its socket
 * byte by byte.
 */
#ifndef BROKER_KIT_H
#define BROKER_KIT_H

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include <kvcache/broker.h>

#include "harness.h"

#define NEVER	KVCACHE_TIME_NEVER
#define PAGE	65536U
#define UNUSED	__attribute__((unused))

/* In a child: what has to be true. */
#define MUST(x)								\
	do {								\
		if (!(x)) {						\
			dprintf(1, "# %s:%d: %s (%s)\n", __FILE__,	\
				__LINE__, #x, strerror(errno));		\
			_exit(1);					\
		}							\
	} while (0)

/* Does it come true within twenty seconds? */
#define SOON(x)								\
	({								\
		int tries_ = 0;						\
		bool is_;						\
									\
		while (!(is_ = (x)) && ++tries_ < 10000)		\
			usleep(2000);					\
		is_;							\
	})

/**
 * broker - the program, and a folder for its socket
 * @pid: it
 * @dir: the folder
 * @path: the socket
 * @log: what it says
 * @fds: descriptors that it has without clients
 */
FIXTURE(broker) {
	pid_t pid;
	char dir[32];
	char path[64];
	char log[64];
	int fds;
};
#define SELF struct ht_fix_broker *self

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* ---- the program --------------------------------------------------------- */

static inline const char *broker_program(void)
{
	static char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
	char *at;

	ASSERT_GT(n, 0);
	path[n] = 0;
	at = strstr(path, "/selftests/");
	ASSERT_TRUE(at != NULL);
	strcpy(at, "/kvcache-broker");
	return path;
}

static inline int open_fds(pid_t pid)
{
	char path[64];
	struct dirent *e;
	int nr = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	if (!d)
		return -1;
	while ((e = readdir(d)))
		nr += e->d_name[0] != '.';
	closedir(d);
	return nr;
}

/* Descriptors of the broker that are memory files. */
static inline int open_memfds(pid_t pid)
{
	char path[512], to[256];
	struct dirent *e;
	ssize_t n;
	int nr = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	if (!d)
		return -1;
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, e->d_name);
		n = readlink(path, to, sizeof(to) - 1);
		to[n < 0 ? 0 : n] = 0;
		nr += strstr(to, "memfd:kvcache") != NULL;
	}
	closedir(d);
	return nr;
}

/* How often it has said something. */
static inline int count_said(SELF, const char *what)
{
	char line[512];
	FILE *f = fopen(self->log, "r");
	int nr = 0;

	while (f && fgets(line, sizeof(line), f))
		nr += strstr(line, what) != NULL;
	if (f)
		fclose(f);
	return nr;
}

static inline void make_folder(SELF)
{
	strcpy(self->dir, "/tmp/broker-test.XXXXXX");
	ASSERT_TRUE(mkdtemp(self->dir) != NULL);
	ASSERT_EQ(0, chmod(self->dir, 0755));
	snprintf(self->path, sizeof(self->path), "%s/s", self->dir);
	snprintf(self->log, sizeof(self->log), "%s/log", self->dir);
}

/* A program whose standard error is the log, and which ends with the test. */
static inline pid_t spawn(SELF, const char *const *argv)
{
	pid_t parent = getpid(), pid = fork();
	int fd;

	if (pid)
		return pid;
	MUST(!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == parent);
	fd = open(self->log, O_WRONLY | O_CREAT | O_APPEND, 0644);
	MUST(fd >= 0 && dup2(fd, 2) == 2);
	execv(broker_program(), (char *const *)argv);
	MUST(false);
	return 0;
}

static inline void start_with(SELF, const char *const *more)
{
	const char *argv[32] = { "kvcache-broker", "--socket", self->path };
	int k = 3;

	while (*more)
		argv[k++] = *more++;
	self->pid = spawn(self, argv);
	ASSERT_GT(self->pid, 0);
	ASSERT_TRUE(SOON(count_said(self, "started") ||
			 waitpid(self->pid, NULL, WNOHANG)));
	ASSERT_EQ(1, count_said(self, "started"));
}

#define START(self, ...) \
	start_with(self, (const char *const []){ __VA_ARGS__, NULL })

/* A pool of 64 pages of 64 KiB, tenants "a" (all may attach) and "b". */
static inline void start(SELF)
{
	START(self, "--pool", "main=4M,page=64K", "--tenant", "a,mode=0444",
	      "--tenant", "b,mode=0444,max=1M");
	/* When it has made files ahead, and is at rest. */
	ASSERT_TRUE(SOON(open_memfds(self->pid) >= 65));
	self->fds = open_fds(self->pid);
}

static inline void end(SELF)
{
	char cmd[128];

	if (self->pid > 0) {
		kill(self->pid, SIGKILL);
		waitpid(self->pid, NULL, 0);
	}
	snprintf(cmd, sizeof(cmd), "rm -rf %s", self->dir);
	if (self->dir[0] && system(cmd))
		printf("# cannot remove %s\n", self->dir);
}

FIXTURE_SETUP(broker)
{
	/* A client whose broker has gone is told by errno. */
	signal(SIGPIPE, SIG_IGN);
	make_folder(self);
}

FIXTURE_TEARDOWN(broker)
{
	end(self);
}

/* Its books are right, says it. */
static inline void verify(SELF)
{
	int was = count_said(self, "ledger: ");

	ASSERT_EQ(0, kill(self->pid, SIGUSR1));
	ASSERT_TRUE(SOON(count_said(self, "ledger: ") > was));
	/* The line is written in pieces. */
	ASSERT_TRUE(SOON(count_said(self, "ledger: ok") == was + 1));
}

/* Nothing is left of clients: all is as it was before them. */
static inline void at_rest(SELF)
{
	ASSERT_TRUE(SOON(open_fds(self->pid) == self->fds));
	verify(self);
}

/* ---- messages ------------------------------------------------------------ */

static inline int connect_to(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		if (fd >= 0)
			close(fd);
		return -errno;
	}
	return fd;
}

static inline int dial(SELF)
{
	int fd = connect_to(self->path);

	ASSERT_GE(fd, 0);
	return fd;
}

/* A request: bytes sent or -errno. */
static inline int put(int fd, uint32_t nr, uint32_t cookie, const void *arg)
{
	struct kvcb_head head = {
		.magic = KVCB_MAGIC, .nr = nr, .cookie = cookie,
	};
	struct iovec iov[2] = {
		{ &head, sizeof(head) }, { (void *)arg, *(const uint32_t *)arg },
	};
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL);

	return n < 0 ? -errno : (int)n;
}

/**
 * struct got - a message of the broker
 * @head: its head
 * @body: what comes behind
 * @len: bytes in all, 0 the connection has ended, -1 an error
 * @nr_fds: descriptors
 * @fds: these
 */
struct got {
	struct kvcb_head head;
	union {
		char bytes[KVCB_MSG_MAX];
		struct kvcb_pages pages;
		uint32_t size;
	} body;
	int len;
	int nr_fds;
	int fds[KVCB_FDS_MAX];
};

static inline int get(int fd, struct got *g)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(g->fds))];
	} room;
	struct iovec iov[2] = {
		{ &g->head, sizeof(g->head) }, { &g->body, sizeof(g->body) },
	};
	struct msghdr m = {
		.msg_iov = iov, .msg_iovlen = 2,
		.msg_control = &room, .msg_controllen = sizeof(room),
	};
	struct cmsghdr *c;

	g->nr_fds = 0;
	g->len = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	if (g->len <= 0)
		return g->len;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_type == SCM_RIGHTS) {
		g->nr_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(g->fds, CMSG_DATA(c), g->nr_fds * sizeof(int));
	}
	return g->len;
}

/*
 * The reply with @cookie, into @arg; files that come ahead of it go to @fds if
 * there is any, and are closed if not. Its result, or -ENOTCONN.
 */
static inline int await(int fd, uint32_t cookie, void *arg, int *fds)
{
	static struct got g;
	int k;

	for (;;) {
		if (get(fd, &g) <= 0)
			return -ENOTCONN;
		if (g.head.cookie != cookie)
			continue;
		if (g.head.nr != KVCB_NR_PAGES || !g.nr_fds)
			break;
		for (k = 0; k < g.nr_fds; k++)
			if (fds)
				*fds++ = g.fds[k];
			else
				close(g.fds[k]);
	}
	if (g.len > (int)sizeof(g.head))
		memcpy(arg, &g.body, g.len - sizeof(g.head));
	return g.head.rc;
}

static inline int call_fds(int fd, uint32_t nr, void *arg, int *fds)
{
	static uint32_t cookie = 1000;
	int rc = put(fd, nr, ++cookie, arg);

	return rc < 0 ? rc : await(fd, cookie, arg, fds);
}

static inline int call(int fd, uint32_t nr, void *arg)
{
	return call_fds(fd, nr, arg, NULL);
}

/* ---- commands ------------------------------------------------------------ */

static inline int attach_as(int fd, const char *tenant)
{
	struct kvcache_attach a = {
		.size = sizeof(a), .by = KVCACHE_ATTACH_NAME,
	};

	strcpy(a.name, tenant);
	return call(fd, KVCACHE_NR_ATTACH, &a);
}

static inline int client(SELF, const char *tenant)
{
	int fd = dial(self);

	ASSERT_EQ(0, attach_as(fd, tenant));
	return fd;
}

static inline int alloc(int fd, uint32_t nr, uint64_t deadline,
			uint64_t *pages, int *fds)
{
	struct kvcache_alloc a = {
		.size = sizeof(a), .nr = nr, .deadline_ns = deadline,
	};
	int rc = call_fds(fd, KVCACHE_NR_ALLOC, &a, fds);

	if (!rc)
		memcpy(pages, a.out_pages, nr * sizeof(*pages));
	return rc;
}

static inline int free_pages(int fd, const uint64_t *pages, uint32_t nr)
{
	struct kvcache_free a = { .size = sizeof(a), .nr = nr };

	memcpy(a.pages, pages, nr * sizeof(*pages));
	return call(fd, KVCACHE_NR_FREE, &a);
}

/* Under one key of @key's bytes; the handle is written, the file returned. */
static inline int publish(int fd, uint64_t *page, int key, int *file)
{
	struct kvcache_publish a = { .size = sizeof(a), .nr = 1 };
	struct kvcache_publish_page *e = &a.pages[0];
	int rc;

	e->handle = *page;
	e->nr_keys = 1;
	e->priority = KVCACHE_PRIO_DEFAULT;
	e->ttl_ns = NEVER;
	memcpy(e->keys[0].key, &key, sizeof(key));
	e->keys[0].fill = 8;
	rc = call_fds(fd, KVCACHE_NR_PUBLISH, &a, file);
	if (!rc)
		*page = e->out_handle;
	return rc;
}

/* Its handle, or 0. */
static inline uint64_t lookup(int fd, int key)
{
	static struct kvcache_lookup a;

	memset(&a, 0, sizeof(a));
	a.size = sizeof(a);
	a.nr_keys = 1;
	a.keys_per_page = 1;
	memcpy(a.keys[0], &key, sizeof(key));
	if (call(fd, KVCACHE_NR_LOOKUP, &a) || !a.out_nr_pages)
		return 0;
	return a.out_found[0].handle;
}

static inline int map_page(int fd, uint64_t page, int *file)
{
	struct kvcb_map a = { .size = sizeof(a), .nr = 1, .pages = { page } };

	return call_fds(fd, KVCB_NR_MAP, &a, file);
}

static inline struct kvcache_pool_info pool_info(int fd)
{
	static struct kvcache_query q;

	memset(&q, 0, sizeof(q));
	q.size = sizeof(q);
	ASSERT_EQ(0, call(fd, KVCACHE_NR_QUERY, &q));
	ASSERT_EQ(1, q.out_nr_pools);
	return q.out_pools[0];
}

static inline char *map_file(int file, int prot)
{
	char *at = mmap(NULL, PAGE, prot, MAP_SHARED, file, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* ---- memory that may be gone --------------------------------------------- */

static sigjmp_buf bus_jump;

UNUSED static void on_bus(int sig)
{
	siglongjmp(bus_jump, 1);
}

/* Does reading there end with SIGBUS? */
UNUSED static bool is_gone(const volatile char *at)
{
	struct sigaction sa = { .sa_handler = on_bus }, was;
	volatile bool gone = true;

	sigaction(SIGBUS, &sa, &was);
	if (!sigsetjmp(bus_jump, 1)) {
		(void)*at;
		gone = false;
	}
	sigaction(SIGBUS, &was, NULL);
	return gone;
}

/* ---- children ------------------------------------------------------------ */

static inline pid_t child_start(int (*fn)(SELF, int arg), SELF, int arg)
{
	pid_t parent = getpid(), pid = fork();

	if (pid)
		return pid;
	MUST(!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == parent);
	_exit(fn(self, arg));
}

/* Exit status, or the signal and 256. */
static inline int child_end(pid_t pid)
{
	int status = 0;

	if (waitpid(pid, &status, 0) != pid)
		return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) :
	       256 + WTERMSIG(status);
}

#endif /* BROKER_KIT_H */
