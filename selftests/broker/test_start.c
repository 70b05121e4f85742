// SPDX-License-Identifier: MIT
/*
 * test_start.c - how a broker begins: options, sockets, pools and tenants of its
 * own; and how it changes while it runs.
 */
#include <sys/inotify.h>
#include <sys/resource.h>

#include "kit.h"

/* ---- options ------------------------------------------------------------- */

/* Exit status; what it says is in the log. */
static int run(SELF, const char *const *more)
{
	const char *argv[32] = { "kvcache-broker" };
	int k = 1;

	while (*more)
		argv[k++] = *more++;
	unlink(self->log);
	return child_end(spawn(self, argv));
}
#define RUN(self, ...) run(self, (const char *const []){ __VA_ARGS__, NULL })

/* Refused, with a word on what would do. */
#define REFUSED(status, word, ...)					\
	do {								\
		ASSERT_EQ(status, RUN(self, __VA_ARGS__));		\
		ASSERT_EQ(1, count_said(self, word));			\
	} while (0)

TEST_F(broker, options_that_are_wrong)
{
	REFUSED(2, "unrecognized option", "--nothing");
	REFUSED(2, "not an option", "more");
	REFUSED(2, "give a path", "--socket", "");
	REFUSED(2, "such as main=8G", "--pool", "main");
	REFUSED(2, "such as main=8G", "--pool", "main=");
	REFUSED(2, "such as main=8G", "--pool", "main=0");
	REFUSED(2, "such as main=8G", "--pool", "main=1x");
	REFUSED(2, "such as main=8G", "--pool", "main=-1");
	REFUSED(2, "give a name", "--pool", "=1G");
	REFUSED(2, "give a name", "--pool", ".x=1G");
	REFUSED(2, "give a name", "--pool", "a b=1G");
	REFUSED(2, "power of two", "--pool", "main=1G,page=3M");
	REFUSED(2, "power of two", "--pool", "main=1G,page=32K");
	REFUSED(2, "power of two", "--pool", "main=1G,page=128M");
	REFUSED(2, "the only key is page", "--pool", "main=1G,pages=2M");
	REFUSED(2, "the only key is page", "--pool", "main=1G,page");
	REFUSED(2, "less than a page", "--pool", "main=64K");
	REFUSED(2, "give a name", "--tenant", "");
	REFUSED(2, "give a name", "--tenant", "a/b");
	REFUSED(2, "KEY=VALUE", "--tenant", "a,uid");
	REFUSED(2, "no such user", "--tenant", "a,uid=no-such-user");
	REFUSED(2, "no such user", "--tenant", "a,uid=-1");
	REFUSED(2, "no such group", "--tenant", "a,gid=no-such-group");
	REFUSED(2, "0400 for its user", "--tenant", "a,mode=0600");
	REFUSED(2, "0400 for its user", "--tenant", "a,mode=x");
	REFUSED(2, "give a size", "--tenant", "a,max=lots");
	REFUSED(2, "give a size", "--tenant", "a,min=101%");
	REFUSED(2, "give a time", "--tenant", "a,ttl=5");
	REFUSED(2, "give a time", "--stall", "0s");
	REFUSED(2, "give uid, gid", "--tenant", "a,limit=5");
}

TEST_F(broker, pools_and_tenants_that_cannot_be)
{
	REFUSED(1, "limits are in a pool", "--tenant", "a,max=1G");
	REFUSED(1, "no such pool", "--pool", "m=4M", "--tenant", "a,pool=n");
	REFUSED(1, "less than a page", "--pool", "m=4M", "--tenant",
		"a,max=64K");
	REFUSED(1, "not above max", "--pool", "m=4M", "--tenant",
		"a,min=4M,max=2M");
	REFUSED(1, "more than the pool", "--pool", "m=4M", "--tenant",
		"a,min=4M", "--tenant", "b,min=2M");
	REFUSED(1, "given twice", "--pool", "m=4M", "--pool", "m=4M");
	REFUSED(1, "given twice", "--tenant", "a", "--tenant", "a");
	REFUSED(1, "a file each", "--pool", "m=1000000T,page=64K");
}

TEST_F(broker, limits_of_open_files)
{
	struct rlimit few = { 1000, 1000 };

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &few));
	REFUSED(1, "LimitNOFILE=", "--socket", self->path);
	few.rlim_cur = few.rlim_max = 1000;
	/* A soft limit is raised; what the hard one leaves is for pages. */
	REFUSED(1, "to 1024 or more", "--socket", self->path);
}

TEST_F(broker, the_soft_limit_is_raised_and_pools_fit_below_the_hard_one)
{
	struct rlimit r = { 64, 2000 };
	int fd;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &r));
	REFUSED(1, "there may be 1488", "--socket", self->path, "--pool",
		"m=1489M,page=1M");
	START(self, "--pool", "m=1488M,page=1M", "--tenant", "a");
	fd = client(self, "a");
	/* All of them, and 96 connections, can be had at once. */
	for (int k = 0; k < 1488; k += 48)
		ASSERT_EQ(0, alloc(fd, 48, 0, (uint64_t[48]){ 0 }, NULL));
	ASSERT_EQ(-ENOSPC, alloc(fd, 1, 0, (uint64_t[1]){ 0 }, NULL));
	verify(self);
}

TEST_F(broker, help_and_version)
{
	/* On standard output, which is not for them here. */
	ASSERT_TRUE(freopen("/dev/null", "w", stdout) != NULL);
	ASSERT_EQ(0, RUN(self, "--help"));
	ASSERT_EQ(0, RUN(self, "--version"));
	ASSERT_EQ(0, count_said(self, ""));
}

/* ---- the socket ---------------------------------------------------------- */

static int socket_at(const char *path, bool listens)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	strcpy(a.sun_path, path);
	ASSERT_EQ(0, bind(fd, (struct sockaddr *)&a, sizeof(a)));
	if (listens)
		ASSERT_EQ(0, listen(fd, 1));
	return fd;
}

TEST_F(broker, a_socket_of_somebody_else)
{
	int fd = socket_at(self->path, true);

	REFUSED(1, "somebody listens there", "--socket", self->path);
	ASSERT_EQ(0, access(self->path, F_OK));
	close(fd);
	/* Nobody listens now. */
	start(self);
	close(client(self, "a"));
	unlink(self->log);
	ASSERT_EQ(1, RUN(self, "--socket", self->path));
	ASSERT_EQ(1, count_said(self, "another broker"));
	close(client(self, "a"));
}

TEST_F(broker, after_a_broker_that_was_killed)
{
	start(self);
	kill(self->pid, SIGKILL);
	child_end(self->pid);
	ASSERT_EQ(0, access(self->path, F_OK));
	unlink(self->log);
	start(self);
	close(client(self, "a"));
	at_rest(self);
}

TEST_F(broker, what_is_no_socket_stays)
{
	FILE *f = fopen(self->path, "w");
	char too_long[200];

	fclose(f);
	REFUSED(1, "is no socket", "--socket", self->path);
	ASSERT_EQ(0, access(self->path, F_OK));
	memset(too_long, 'x', sizeof(too_long));
	too_long[sizeof(too_long) - 1] = 0;
	REFUSED(1, "longer than", "--socket", too_long);
	REFUSED(1, "give --socket", "--socket", "/proc/no/such/folder");
}

/* What happened to the socket's name, until it is there and after. */
static void names_of(int watch, uint32_t *events, int *nr, int max)
{
	char buf[4096] __attribute__((aligned(8)));
	struct inotify_event *e;
	ssize_t n, at;

	*nr = 0;
	n = read(watch, buf, sizeof(buf));
	ASSERT_GT(n, 0);
	for (at = 0; at < n; at += sizeof(*e) + e->len) {
		e = (struct inotify_event *)(buf + at);
		if (e->len && !strcmp(e->name, "s") && *nr < max)
			events[(*nr)++] = e->mask;
	}
}

/* Whoever waits for the socket to be there can connect to it. */
TEST_F(broker, the_socket_is_there_when_somebody_listens)
{
	char path[80];
	struct stat st;
	uint32_t events[8];
	int watch = inotify_init1(IN_CLOEXEC), nr, k;

	ASSERT_GE(watch, 0);
	ASSERT_GE(inotify_add_watch(watch, self->dir, IN_CREATE | IN_DELETE |
				    IN_MOVED_TO), 0);
	for (k = 0; k < 2; k++) {
		/* The second time there is the one of who was killed. */
		unlink(self->log);
		start(self);
		names_of(watch, events, &nr, 8);
		ASSERT_EQ(1, nr);
		ASSERT_EQ(IN_MOVED_TO, events[0]);
		ASSERT_EQ(0, stat(self->path, &st));
		ASSERT_EQ(S_IFSOCK | 0666, st.st_mode);
		close(client(self, "a"));
		if (k)
			break;
		kill(self->pid, SIGKILL);
		child_end(self->pid);
		/* And another was killed before it listened. */
		snprintf(path, sizeof(path), "%s.new", self->path);
		close(socket_at(path, false));
	}
	ASSERT_EQ(0, kill(self->pid, SIGTERM));
	ASSERT_EQ(0, child_end(self->pid));
	self->pid = 0;
	ASSERT_EQ(-1, access(self->path, F_OK));
	ASSERT_EQ(-1, access(path, F_OK));
	close(watch);
}

/* What has the name for now is not ours to remove, if it is no socket. */
TEST_F(broker, what_is_no_socket_stays_there_too)
{
	char path[80];
	FILE *f;

	snprintf(path, sizeof(path), "%s.new", self->path);
	f = fopen(path, "w");
	ASSERT_TRUE(f != NULL);
	fclose(f);
	REFUSED(1, "s.new: ", "--socket", self->path);
	ASSERT_EQ(0, access(path, F_OK));
	ASSERT_EQ(-1, access(self->path, F_OK));
}

/* One that another has made since is not ours to remove. */
TEST_F(broker, only_its_own_socket_is_removed)
{
	int fd;

	start(self);
	ASSERT_EQ(0, unlink(self->path));
	fd = socket_at(self->path, true);
	ASSERT_EQ(0, kill(self->pid, SIGINT));
	ASSERT_EQ(0, child_end(self->pid));
	self->pid = 0;
	ASSERT_EQ(0, access(self->path, F_OK));
	close(fd);
}

TEST_F(broker, for_one_user)
{
	struct kvcache_query q = { .size = sizeof(q) };
	char path[64];
	struct stat st;
	int fd;

	unsetenv("XDG_RUNTIME_DIR");
	REFUSED(1, "XDG_RUNTIME_DIR", "--user");
	ASSERT_EQ(0, setenv("XDG_RUNTIME_DIR", self->dir, 1));
	unlink(self->log);
	self->pid = spawn(self, (const char *const []){ "kvcache-broker",
							"--user", NULL });
	ASSERT_TRUE(SOON(count_said(self, "started")));
	snprintf(path, sizeof(path), "%s/kvcache/broker", self->dir);
	ASSERT_EQ(0, stat(path, &st));
	ASSERT_EQ(S_IFSOCK | 0600, st.st_mode);
	fd = connect_to(path);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, attach_as(fd, "user"));
	ASSERT_EQ(0, call(fd, KVCACHE_NR_QUERY, &q));
	ASSERT_EQ(1, q.out_nr_pools);
	ASSERT_STREQ("main", q.out_pools[0].name);
	ASSERT_EQ(2 << 20, q.out_pools[0].page_size);
	ASSERT_EQ(0, alloc(fd, 1, 0, (uint64_t[1]){ 0 }, NULL));
}

/* ---- systemd ------------------------------------------------------------- */

/* As systemd does it: the socket is descriptor 3. */
static pid_t activate(SELF, int fd, const char *const *argv)
{
	pid_t parent = getpid(), pid = fork();
	char text[32];
	int log;

	if (pid)
		return pid;
	MUST(!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == parent);
	log = open(self->log, O_WRONLY | O_CREAT | O_APPEND, 0644);
	MUST(log >= 0 && dup2(log, 2) == 2);
	MUST(fd == 3 ? !fcntl(3, F_SETFD, 0) : dup2(fd, 3) == 3);
	snprintf(text, sizeof(text), "%d", getpid());
	MUST(!setenv("LISTEN_PID", text, 1) && !setenv("LISTEN_FDS", "1", 1));
	execv(broker_program(), (char *const *)argv);
	MUST(false);
	return 0;
}

TEST_F(broker, a_socket_that_is_passed)
{
	static const char *const argv[] = {
		"kvcache-broker", "--pool", "main=4M,page=64K", "--tenant",
		"a", NULL };
	static const char *const and_path[] = {
		"kvcache-broker", "--socket", "x", NULL };
	int fd = socket_at(self->path, true), early = dial(self), other;
	struct kvcache_attach at = {
		.size = sizeof(at), .by = KVCACHE_ATTACH_NAME, .name = "a",
	};

	/* Whoever came before it is served, too. */
	ASSERT_GT(put(early, KVCACHE_NR_ATTACH, 1, &at), 0);
	self->pid = activate(self, fd, argv);
	ASSERT_EQ(0, await(early, 1, &at, NULL));
	ASSERT_EQ(0, alloc(early, 1, 0, (uint64_t[1]){ 0 }, NULL));
	close(client(self, "a"));
	ASSERT_EQ(0, kill(self->pid, SIGTERM));
	ASSERT_EQ(0, child_end(self->pid));
	/* It is not the broker's. */
	ASSERT_EQ(0, access(self->path, F_OK));
	ASSERT_EQ(1, child_end(activate(self, fd, and_path)));
	ASSERT_EQ(1, count_said(self, "leave it out"));
	/* Of another kind. */
	other = socket(AF_UNIX, SOCK_STREAM, 0);
	ASSERT_EQ(1, child_end(activate(self, other, argv)));
	ASSERT_EQ(1, count_said(self, "ListenSequentialPacket="));
	/* Not for us. */
	ASSERT_EQ(0, setenv("LISTEN_PID", "1", 1));
	ASSERT_EQ(0, setenv("LISTEN_FDS", "1", 1));
	close(fd);
	unlink(self->path);
	unlink(self->log);
	start(self);
}

static void is_told(int fd, const char *what)
{
	char text[64] = "";
	struct pollfd p = { .fd = fd, .events = POLLIN };

	ASSERT_EQ(1, poll(&p, 1, 20000));
	ASSERT_GT(recv(fd, text, sizeof(text) - 1, 0), 0);
	ASSERT_STREQ(what, text);
}

TEST_F(broker, the_service_manager_is_told)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(a);
	char name[128];
	int fd[2], k;

	for (k = 0; k < 2; k++) {
		fd[k] = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		memset(&a, 0, sizeof(a));
		a.sun_family = AF_UNIX;
		snprintf(a.sun_path, sizeof(a.sun_path), "%s/notify",
			 self->dir);
		/* A path, and an abstract name. */
		len = k ? sizeof(sa_family_t) : sizeof(a);
		ASSERT_EQ(0, bind(fd[k], (struct sockaddr *)&a, len));
		snprintf(name, sizeof(name), "%s/notify", self->dir);
		if (k) {
			len = sizeof(a);
			ASSERT_EQ(0, getsockname(fd[k], (struct sockaddr *)&a,
						 &len));
			snprintf(name, sizeof(name), "@%.*s",
				 (int)(len - sizeof(sa_family_t) - 1),
				 a.sun_path + 1);
		}
		ASSERT_EQ(0, setenv("NOTIFY_SOCKET", name, 1));
		unlink(self->log);
		start(self);
		is_told(fd[k], "READY=1");
		ASSERT_EQ(0, kill(self->pid, SIGTERM));
		ASSERT_EQ(0, child_end(self->pid));
		self->pid = 0;
		is_told(fd[k], "STOPPING=1");
	}
}

/* ---- changes while it runs ----------------------------------------------- */

static int pool_set(int fd, struct kvcache_pool_set p)
{
	p.size = sizeof(p);
	return call(fd, KVCACHE_NR_POOL_SET, &p);
}

TEST_F(broker, pools_grow_shrink_and_go)
{
	struct kvcache_pool_set set = { .op = KVCACHE_POOL_RESIZE };
	uint64_t pages[256];
	int fd, admin;

	start(self);
	admin = dial(self);
	fd = client(self, "a");
	ASSERT_EQ(0, alloc(fd, 64, 0, pages, NULL));
	set.nr_pages = 100;
	ASSERT_EQ(0, pool_set(admin, set));
	ASSERT_EQ(0, alloc(fd, 36, 0, pages + 64, NULL));
	/* As far as it can: the last pages are in use. */
	set.nr_pages = 32;
	ASSERT_EQ(-EBUSY, pool_set(admin, set));
	ASSERT_EQ(100, pool_info(admin).nr_pages);
	ASSERT_EQ(0, free_pages(fd, pages + 32, 68));
	ASSERT_EQ(0, pool_set(admin, set));
	ASSERT_EQ(32, pool_info(admin).nr_pages);
	set.nr_pages = 64 * 4 + 1;
	ASSERT_EQ(-E2BIG, pool_set(admin, set));
	set = (struct kvcache_pool_set){ .op = KVCACHE_POOL_REMOVE };
	ASSERT_EQ(-EBUSY, pool_set(admin, set));
	close(fd);
	ASSERT_TRUE(SOON(pool_info(admin).nr_free == 32));
	ASSERT_EQ(0, pool_set(admin, set));
	ASSERT_TRUE(SOON(open_memfds(self->pid) == 1));
	/* More than there can be files. */
	set = (struct kvcache_pool_set){ .op = KVCACHE_POOL_CREATE,
		.page_size = PAGE, .nr_pages = 1 << 27, .name = "x" };
	ASSERT_EQ(-ENOMEM, pool_set(admin, set));
	set.nr_pages = 64;
	ASSERT_EQ(0, pool_set(admin, set));
	ASSERT_TRUE(SOON(open_memfds(self->pid) == 65));
	verify(self);
}

/* One that gives up many pages goes on while others are served. */
TEST_F(broker, tenants_are_flushed_and_go)
{
	struct kvcache_tenant_ref ref = {
		.size = sizeof(ref), .tenant = 1, .pool = ~0U,
	};
	uint64_t pages[16];
	int fd, admin, k, j;

	START(self, "--pool", "main=64M,page=64K", "--tenant", "a",
	      "--tenant", "b");
	admin = dial(self);
	fd = client(self, "a");
	for (k = 0; k < 800; k += 16) {
		ASSERT_EQ(0, alloc(fd, 16, 0, pages, NULL));
		for (j = 0; j < 16; j++)
			ASSERT_EQ(0, publish(fd, &pages[j], 1 + k + j, NULL));
		ASSERT_EQ(0, free_pages(fd, pages, 16));
	}
	ASSERT_EQ(800, pool_info(admin).nr_cached);
	ASSERT_EQ(0, call(admin, KVCACHE_NR_TENANT_FLUSH, &ref));
	ASSERT_EQ(800, ref.out_pages);
	ASSERT_EQ(0, lookup(fd, 1));
	ASSERT_TRUE(SOON(pool_info(admin).nr_free == 1024));
	ref.pool = 0;
	ASSERT_EQ(-EBUSY, call(admin, KVCACHE_NR_TENANT_REMOVE, &ref));
	ASSERT_EQ(0, alloc(fd, 16, 0, pages, NULL));
	for (j = 0; j < 16; j++)
		ASSERT_EQ(0, publish(fd, &pages[j], 1 + j, NULL));
	close(fd);
	ASSERT_TRUE(SOON(call(admin, KVCACHE_NR_TENANT_REMOVE, &ref) !=
			 -EBUSY));
	ASSERT_EQ(-ENOENT, call(admin, KVCACHE_NR_TENANT_REMOVE, &ref));
	ASSERT_EQ(1024, pool_info(admin).nr_free);
	verify(self);
}

TEST_HARNESS_MAIN
