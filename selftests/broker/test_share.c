// SPDX-License-Identifier: MIT
/*
 * test_share.c - what one client, and one user, may have of the broker: there is
 * something left for everybody else.
 */
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "kit.h"

#define BROKER	65534	/* users, if we may be others */
#define GREEDY	65533
#define HONEST	65532

static void become(uid_t uid)
{
	pid_t parent = getppid();

	if (!getuid())
		MUST(!setgid(uid) && !setuid(uid));
	/* Whoever becomes another forgets it. */
	MUST(!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == parent);
}

/* A broker of few descriptors, without the rights of root. */
static void start_small(SELF, const char *const *more)
{
	const char *argv[32] = { "kvcache-broker", "--socket", self->path };
	struct rlimit small = { 1024, 1024 };
	int k = 3, file, log;

	while (*more)
		argv[k++] = *more++;
	/* It may be in a folder that is not for everybody. */
	file = open(broker_program(), O_PATH | O_CLOEXEC);
	ASSERT_GE(file, 0);
	if (!getuid())
		ASSERT_EQ(0, chown(self->dir, BROKER, BROKER));
	self->pid = fork();
	if (!self->pid) {
		log = open(self->log, O_WRONLY | O_CREAT | O_APPEND, 0644);
		MUST(log >= 0 && dup2(log, 2) == 2);
		MUST(!setrlimit(RLIMIT_NOFILE, &small));
		become(BROKER);
		fexecve(file, (char *const *)argv, environ);
		MUST(false);
	}
	close(file);
	ASSERT_GT(self->pid, 0);
	ASSERT_TRUE(SOON(count_said(self, "started") ||
			 waitpid(self->pid, NULL, WNOHANG)));
	ASSERT_EQ(1, count_said(self, "started"));
}
#define START_SMALL(self, ...) \
	start_small(self, (const char *const []){ __VA_ARGS__, NULL })

/* What a child tells. */
static volatile int *told;

static void make_told(void)
{
	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(told != MAP_FAILED);
	*told = 0;
}

/* A child that is to have told something: it has, and goes on. */
static pid_t child_that_tells(int (*fn)(SELF, int arg), SELF, int arg)
{
	pid_t pid = child_start(fn, self, arg);
	int status = 0;

	ASSERT_TRUE(SOON(*told || waitpid(pid, &status, WNOHANG)));
	ASSERT_EQ(1, *told);
	return pid;
}

/* ---- descriptors on the way ---------------------------------------------- */

static bool is_cut_off(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return poll(&p, 1, ms) > 0;
}

/* Pages that are there to be looked up, by keys from 1 on. */
enum { SHARED = 16 };

static int publisher(SELF, int arg)
{
	int fd, k;

	become(GREEDY);
	fd = connect_to(self->path);
	MUST(fd >= 0 && !attach_as(fd, "a"));
	for (k = 1; k <= SHARED; k++) {
		uint64_t page;

		MUST(!alloc(fd, 1, NEVER, &page, NULL));
		MUST(!publish(fd, &page, k, NULL));
	}
	return 0;
}

/* Asks for their files as often as it can, and takes none of them. */
static int hoard(SELF)
{
	struct kvcb_map m = { .size = sizeof(m), .nr = SHARED };
	int fd = connect_to(self->path), k, idle = 0;

	MUST(fd >= 0 && !attach_as(fd, "a"));
	for (k = 0; k < SHARED; k++) {
		m.pages[k] = lookup(fd, 1 + k);
		MUST(m.pages[k]);
	}
	fcntl(fd, F_SETFL, O_NONBLOCK);
	for (k = 0; k < 500 && idle < 10;) {
		if (put(fd, KVCB_NR_MAP, 2 + k, &m) > 0) {
			k++;
			continue;
		}
		idle++;
		usleep(1000);
	}
	return fd;
}

static int hoards(SELF, int nr)
{
	become(GREEDY);
	while (nr--)
		hoard(self);
	*told = 1;
	pause();
	return 0;
}

/* Two by two; they are cut off, but keep their sockets. */
static int hoards_one_after_another(SELF, int nr)
{
	int fd;

	become(GREEDY);
	while (nr--) {
		hoard(self);
		fd = hoard(self);
		is_cut_off(fd, 150);
	}
	*told = 1;
	pause();
	return 0;
}

static int works(SELF, int uid)
{
	uint64_t pages[8];
	int fd, k;

	become(uid);
	fd = connect_to(self->path);
	MUST(fd >= 0 && !attach_as(fd, "a"));
	for (k = 0; k < 50; k++) {
		MUST(!alloc(fd, 8, NEVER, pages, NULL));
		MUST(!free_pages(fd, pages, 8));
	}
	return 0;
}

static bool ended(pid_t pid, int *status)
{
	return waitpid(pid, status, WNOHANG) == pid;
}

/* It gets all that it asks for, in time. */
static void works_meanwhile(SELF, int uid)
{
	pid_t pid = child_start(works, self, uid);
	int status = -1;

	if (!SOON(ended(pid, &status)))
		kill(pid, SIGKILL);
	ASSERT_EQ(0, status);
}

static void hoarding(SELF, int (*fn)(SELF, int arg), int nr, int honest)
{
	pid_t pid;

	ASSERT_EQ(0, child_end(child_start(publisher, self, 0)));
	make_told();
	pid = child_that_tells(fn, self, nr);
	works_meanwhile(self, honest);
	kill(pid, SIGKILL);
	child_end(pid);
	works_meanwhile(self, GREEDY);
	verify(self);
	ASSERT_TRUE(SOON(open_fds(self->pid) <= self->fds));
}

static void start_hoarded(SELF, const char *stall)
{
	START_SMALL(self, "--pool", "main=8M,page=64K", "--tenant",
		    "a,mode=0444", "--stall", stall);
	ASSERT_TRUE(SOON(open_memfds(self->pid) >= 129));
	self->fds = open_fds(self->pid);
}

TEST_F(broker, connections_that_read_nothing_leave_something_to_their_user)
{
	start_hoarded(self, "30s");
	hoarding(self, hoards, 5, GREEDY);
}

TEST_F(broker, a_user_who_reads_nothing_leaves_something_to_others)
{
	if (getuid())
		SKIP(return, "needs root, to be somebody else");
	start_hoarded(self, "30s");
	hoarding(self, hoards, 30, HONEST);
}

/* What they did not receive is on the way yet. */
TEST_F(broker, who_was_cut_off_counts_for_as_long_as_there_is_a_socket)
{
	if (getuid())
		SKIP(return, "needs root, to be somebody else");
	start_hoarded(self, "100ms");
	hoarding(self, hoards_one_after_another, 20, HONEST);
}

/* ---- connections --------------------------------------------------------- */

/* As many as it can have. */
static int hog(SELF, int uid)
{
	int fd, k, had = 0, out;

	become(uid);
	for (k = 0; k < 100; k++) {
		fd = connect_to(self->path);
		MUST(fd >= 0);
		out = is_cut_off(fd, 20);
		had += !out;
		if (out)
			close(fd);
	}
	/* Some, in any case. */
	MUST(had > 1 && had < 60);
	*told = 1;
	pause();
	return 0;
}

static int administers(SELF, int uid)
{
	struct kvcache_query q = { .size = sizeof(q) };
	int fd, nr;

	/* Root, or the user of the broker. */
	if (uid)
		become(uid);
	for (nr = 0; nr < 8; nr++) {
		fd = connect_to(self->path);
		MUST(fd >= 0);
		MUST(!call(fd, KVCACHE_NR_QUERY, &q));
	}
	return 0;
}

/* Each takes what there is, of the 96; there is something for the next. */
TEST_F(broker, users_who_want_all_connections)
{
	const int users[] = { GREEDY, HONEST, 65531, 65530 };
	pid_t pid[4];
	int k;

	if (getuid())
		SKIP(return, "needs root, to be somebody else");
	start_hoarded(self, "30s");
	for (k = 0; k < 4; k++) {
		make_told();
		pid[k] = child_that_tells(hog, self, users[k]);
	}
	works_meanwhile(self, 65529);
	ASSERT_EQ(0, child_end(child_start(administers, self, 0)));
	ASSERT_EQ(0, child_end(child_start(administers, self, BROKER)));
	for (k = 0; k < 4; k++) {
		kill(pid[k], SIGKILL);
		child_end(pid[k]);
	}
	verify(self);
	ASSERT_TRUE(SOON(open_fds(self->pid) <= self->fds));
}

/* ---- requests that wait -------------------------------------------------- */

static long resident_kb(pid_t pid)
{
	char path[64], line[128];
	long kb = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "r");
	ASSERT_TRUE(f != NULL);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %ld", &kb) == 1)
			break;
	fclose(f);
	return kb;
}

/* An ALLOC in as long a message as there can be. */
static void ask_at_length(int fd, uint32_t cookie)
{
	static union {
		struct kvcache_alloc a;
		char bytes[KVCB_MSG_MAX - sizeof(struct kvcb_head)];
	} x;

	x.a.size = sizeof(x);
	x.a.nr = 1;
	x.a.deadline_ns = NEVER;
	ASSERT_GT(put(fd, KVCACHE_NR_ALLOC, cookie, &x), 0);
}

TEST_F(broker, requests_of_a_user_that_wait)
{
	enum { MANY = KVCB_WAITING_USER / KVCB_WAITING };
	static union {
		struct kvcache_alloc a;
		struct got g;
	} x;
	uint64_t pages[64];
	int fd, w[MANY], k, j;
	long kb;

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 64, 0, pages, NULL));
	kb = resident_kb(self->pid);
	for (k = 0; k < MANY; k++) {
		w[k] = client(self, "a");
		for (j = 0; j < KVCB_WAITING; j++)
			ask_at_length(w[k], j);
	}
	ASSERT_TRUE(SOON(pool_info(fd).waiters == KVCB_WAITING_USER));
	/* Not what was sent: that is 32 MB. */
	ASSERT_LT(resident_kb(self->pid) - kb, 20 << 10);
	/* There is a bound, until one of them is done. */
	ask_at_length(fd, 1);
	ASSERT_EQ(-EBUSY, await(fd, 1, &x.a, NULL));
	ASSERT_EQ(0, free_pages(fd, pages, 1));
	ASSERT_EQ(0, await(w[0], 0, &x.a, NULL));
	/* It is the struct that is known here, of the size that it had. */
	ASSERT_EQ(KVCB_MSG_MAX - sizeof(struct kvcb_head), x.a.size);
	ask_at_length(fd, 2);
	ASSERT_TRUE(SOON(pool_info(fd).waiters == KVCB_WAITING_USER));
	for (k = 0; k < MANY; k++)
		close(w[k]);
	close(fd);
	at_rest(self);
}

/* What is not known of a struct is not ignored. */
TEST_F(broker, a_struct_that_is_longer_than_any)
{
	static union {
		struct kvcache_alloc a;
		char bytes[sizeof(struct kvcache_alloc) + 1];
	} x = { .a = { .size = sizeof(x.bytes), .nr = 1 } };
	static struct got g;
	int fd;

	start(self);
	fd = client(self, "a");
	x.bytes[sizeof(x.bytes) - 1] = 1;
	ASSERT_GT(put(fd, KVCACHE_NR_ALLOC, 1, &x), 0);
	ASSERT_EQ(sizeof(g.head), get(fd, &g));
	ASSERT_EQ(-E2BIG, g.head.rc);
	x.bytes[sizeof(x.bytes) - 1] = 0;
	ASSERT_GT(put(fd, KVCACHE_NR_ALLOC, 2, &x), 0);
	ASSERT_GT(get(fd, &g), 0);
	ASSERT_EQ(KVCB_NR_PAGES, g.head.nr);
	ASSERT_EQ(sizeof(g.head) + sizeof(x.a), get(fd, &g));
	ASSERT_EQ(0, g.head.rc);
}

/* ---- turns --------------------------------------------------------------- */

/* Requests that take their time: how many. */
static int fill_with_lookups(int fd)
{
	static struct kvcache_lookup a;
	int k;

	memset(&a, 0, sizeof(a));
	a.size = sizeof(a);
	a.nr_keys = KVCACHE_MAX_KEYS;
	a.keys_per_page = 1;
	a.flags = KVCACHE_LOOKUP_PEEK;
	for (k = 0; k < KVCACHE_MAX_KEYS; k++)
		memcpy(a.keys[k], &(int){ 1 }, sizeof(k));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	for (k = 0; k < 16; k++)
		if (put(fd, KVCACHE_NR_LOOKUP, k, &a) < 0)
			break;
	fcntl(fd, F_SETFL, 0);
	ASSERT_GT(k, 1);
	return k;
}

/* All that it sent was read. */
static bool is_read(int fd)
{
	int bytes = -1;

	ASSERT_EQ(0, ioctl(fd, SIOCOUTQ, &bytes));
	return !bytes;
}

static void take_replies(int fd, int nr)
{
	static struct got g;

	while (nr--)
		ASSERT_GT(get(fd, &g), 0);
}

/*
 * The first has its reply before the last is served, if it is looked at in time:
 * all of them are ready at once, and take much longer than a slice.
 */
TEST_F(broker, a_turn_that_many_want)
{
	enum { MANY = 50, TRIES = 100 };
	struct kvcache_query q = { .size = sizeof(q) };
	int fd, w[MANY], nr[MANY], k, tries, early = 0, status;
	uint64_t page;

	start(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 1, 0, &page, NULL));
	ASSERT_EQ(0, publish(fd, &page, 1, NULL));
	for (k = 0; k < MANY; k++)
		w[k] = client(self, "a");
	for (tries = 0; tries < TRIES && !early; tries++) {
		ASSERT_EQ(0, kill(self->pid, SIGSTOP));
		ASSERT_EQ(self->pid, waitpid(self->pid, &status, WUNTRACED));
		ASSERT_GT(put(fd, KVCACHE_NR_QUERY, 1, &q), 0);
		for (k = 0; k < MANY; k++)
			nr[k] = fill_with_lookups(w[k]);
		ASSERT_EQ(0, kill(self->pid, SIGCONT));
		ASSERT_EQ(0, await(fd, 1, &q, NULL));
		early = !is_read(w[MANY - 1]);
		for (k = 0; k < MANY; k++)
			take_replies(w[k], nr[k]);
	}
	TH_LOG("%d tries", tries);
	ASSERT_TRUE(early);
	for (k = 0; k < MANY; k++)
		close(w[k]);
	close(fd);
	at_rest(self);
}

TEST_HARNESS_MAIN
