// SPDX-License-Identifier: MIT
/*
 * test_privilege.c - who may change tenants and pools, and see all of them:
 * CAP_SYS_ADMIN in the initial user namespace, of the caller and of whoever
 * opened the device.
 */
#include "child.h"

/* Changes through @fd; each has to come to @rc, which is 0 or -errno. */
static void change_all(const struct world *w, int fd, int rc)
{
	struct kvcache_tenant_set set = {
		.size = sizeof(set), .set = KVCACHE_SET_OWNER, .mode = 0400,
		.name = "green",
	};
	struct kvcache_tenant_grant g = {
		.size = sizeof(g), .to = w->tenant[0],
		.rights = KVCACHE_GRANT_LOOKUP, .max_held = 1,
	};
	struct kvcache_pool_get get = { .size = sizeof(get), .pool = w->pool };
	struct kvcache_tenant_ref ref = { .size = sizeof(ref) };
	struct kvcache_pool_set pool = {
		.size = sizeof(pool), .op = KVCACHE_POOL_CREATE,
		.page_size = PAGE, .nr_pages = 1, .name = "more",
	};

	MUST(dev_call(fd, KVCACHE_NR_POOL_GET, &get) == rc);
	MUST(get.out_info.nr_pages == (rc ? 0 : PAGES));
	MUST(dev_call(fd, KVCACHE_NR_TENANT_CREATE, &set) == rc);
	/* Without a tenant and a pool of its own, on those that there are. */
	set.tenant = rc ? w->tenant[1] : set.out_tenant;
	g.tenant = set.tenant;
	ref.tenant = set.tenant;
	memset(set.name, 0, sizeof(set.name));
	MUST(dev_call(fd, KVCACHE_NR_TENANT_SET, &set) == rc);
	MUST(dev_call(fd, KVCACHE_NR_TENANT_GRANT, &g) == rc);
	MUST(dev_call(fd, KVCACHE_NR_TENANT_FLUSH, &ref) == rc);
	MUST(dev_call(fd, KVCACHE_NR_TENANT_REMOVE, &ref) == rc);

	MUST(dev_call(fd, KVCACHE_NR_POOL_SET, &pool) == rc);
	if (rc)
		pool.out_pool = w->pool;
	MUST(dev_pool_op(fd, pool.out_pool, KVCACHE_POOL_RESIZE, 2, NULL) ==
	     rc);
	MUST(dev_pool_op(fd, pool.out_pool, KVCACHE_POOL_DRAIN, 0, NULL) ==
	     rc);
	MUST(dev_pool_op(fd, pool.out_pool, KVCACHE_POOL_RESUME, 0, NULL) ==
	     rc);
	MUST(dev_pool_op(fd, pool.out_pool, KVCACHE_POOL_REMOVE, 0, NULL) ==
	     rc);
}

/* Who is not attached sees either all or nothing. */
static void list_all(const struct world *w, int fd, int rc)
{
	struct kvcache_tenant_get t = { .size = sizeof(t), .pool = w->pool };
	struct kvcache_client_get c = { .size = sizeof(c), .pool = w->pool };
	struct kvcache_page_get p = { .size = sizeof(p), .pool = w->pool };
	struct kvcache_grant_get g = { .size = sizeof(g) };

	MUST(dev_call(fd, KVCACHE_NR_GRANT_GET, &g) == rc);
	MUST(dev_call(fd, KVCACHE_NR_TENANT_GET, &t) == rc);
	MUST(t.out_nr == (rc ? 0 : 2));
	MUST(dev_call(fd, KVCACHE_NR_CLIENT_GET, &c) == rc);
	MUST(c.out_nr == (rc ? 0 : 2));
	MUST(dev_call(fd, KVCACHE_NR_PAGE_GET, &p) == rc);
}

static void may(const struct world *w, int fd)
{
	MUST(fd >= 0);
	change_all(w, fd, 0);
	list_all(w, fd, 0);
}

static void may_not(const struct world *w, int fd)
{
	MUST(fd >= 0);
	change_all(w, fd, -EPERM);
	list_all(w, fd, -ENOTCONN);
}

/* Moves on with every change. */
static uint64_t sequence(const struct world *w)
{
	struct kvcache_query q = { .size = sizeof(q) };

	return dev_call(w->admin, KVCACHE_NR_QUERY, &q) ? 0 : q.out_seq;
}

/* Root of a user namespace of its own, where it has every capability. */
static void leave_namespace(void)
{
	static const char *const file[3] = { "setgroups", "uid_map", "gid_map" };
	static const char *const text[3] = { "deny", "0 0 1", "0 0 1" };
	char path[64];
	int k, fd;

	MUST(!unshare(CLONE_NEWUSER));
	for (k = 0; k < 3; k++) {
		snprintf(path, sizeof(path), "/proc/self/%s", file[k]);
		fd = open(path, O_WRONLY);
		MUST(fd >= 0);
		MUST(write(fd, text[k], strlen(text[k])) > 0);
		close(fd);
	}
	MUST(!geteuid());
}

/* ---- the caller ---------------------------------------------------------- */

static int root(void *arg)
{
	may(arg, dev_open());
	return 0;
}

static int root_without_the_capability(void *arg)
{
	set_cap(CAP_SYS_ADMIN, false);
	may_not(arg, dev_open());
	return 0;
}

static int user(void *arg)
{
	become(1001, 1001, 0);
	may_not(arg, dev_open());
	return 0;
}

static int user_with_the_capability(void *arg)
{
	MUST(!prctl(PR_SET_KEEPCAPS, 1));
	become(1001, 1001, 0);
	may_not(arg, dev_open());
	set_cap(CAP_SYS_ADMIN, true);
	may(arg, dev_open());
	return 0;
}

static int root_elsewhere(void *arg)
{
	leave_namespace();
	may_not(arg, dev_open());
	return 0;
}

TEST_F(dev, the_capability_decides_and_the_user_does_not)
{
	struct world *w = &self->w;
	uint64_t was;

	EXPECT_EQ(0, in_child(root, w));
	EXPECT_EQ(0, in_child(user_with_the_capability, w));
	was = sequence(w);
	EXPECT_EQ(0, in_child(root_without_the_capability, w));
	EXPECT_EQ(0, in_child(user, w));
	EXPECT_EQ(was, sequence(w));
}

TEST_F(dev, root_of_another_user_namespace_is_nobody)
{
	struct world *w = &self->w;
	uint64_t was = sequence(w);

	EXPECT_EQ(0, in_child(root_elsewhere, w));
	EXPECT_EQ(was, sequence(w));
}

/* ---- and the opener ------------------------------------------------------ */

static int user_with_roots_open(void *arg)
{
	int fd = dev_open();

	become(1001, 1001, 0);
	may_not(arg, fd);
	return 0;
}

static int root_elsewhere_with_roots_open(void *arg)
{
	int fd = dev_open();

	leave_namespace();
	may_not(arg, fd);
	return 0;
}

static int root_with_an_open_without_the_capability(void *arg)
{
	int fd;

	set_cap(CAP_SYS_ADMIN, false);
	fd = dev_open();
	set_cap(CAP_SYS_ADMIN, true);
	may_not(arg, fd);
	may(arg, dev_open());
	return 0;
}

/* Opens the device and sends it. */
struct sender {
	int sock;
	bool elsewhere;
};

static int sends_an_open(void *arg)
{
	const struct sender *s = arg;

	if (s->elsewhere)
		leave_namespace();
	else
		become(1001, 1001, 0);
	send_fd(s->sock, dev_open());
	return 0;
}

TEST_F(dev, an_open_of_roots_makes_nobody_root)
{
	struct world *w = &self->w;
	uint64_t was = sequence(w);

	EXPECT_EQ(0, in_child(user_with_roots_open, w));
	EXPECT_EQ(0, in_child(root_elsewhere_with_roots_open, w));
	EXPECT_EQ(was, sequence(w));
}

TEST_F(dev, root_does_nothing_through_an_open_of_others)
{
	struct world *w = &self->w;
	struct sender s;
	uint64_t was;
	int both[2], fd, k;

	EXPECT_EQ(0, in_child(root_with_an_open_without_the_capability, w));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_DGRAM, 0, both));
	s.sock = both[1];
	was = sequence(w);
	for (k = 0; k < 2; k++) {
		s.elsewhere = k;
		ASSERT_EQ(0, in_child(sends_an_open, &s));
		fd = receive_fd(both[0]);
		ASSERT_LE(0, fd);
		may_not(w, fd);
		close(fd);
	}
	EXPECT_EQ(was, sequence(w));
	close(both[0]);
	close(both[1]);
}

/* ---- who is who ---------------------------------------------------------- */

/* What CLIENT_GET says inside a pid namespace. */
struct seen {
	const struct world *w;
	int ready;
	uint32_t client, outsider;
	uint32_t own_pid, outsiders_pid;
	volatile pid_t outer;
};

/* Its process and name, or -ENOENT. */
static int who_is(const struct world *w, uint32_t id,
		  struct kvcache_client_info *out)
{
	struct kvcache_client_get c;

	POISON(c);
	c.pool = w->pool;
	c.start = id;
	if (dev_call(w->admin, KVCACHE_NR_CLIENT_GET, &c) || !c.out_nr ||
	    c.out_info[0].id != id)
		return -ENOENT;
	*out = c.out_info[0];
	return 0;
}

static uint32_t client_of(int fd)
{
	struct kvcache_query q = { .size = sizeof(q) };

	return dev_call(fd, KVCACHE_NR_QUERY, &q) ? 0 : q.out_client;
}

static int first_of_a_namespace(void *arg)
{
	struct kvcache_client_info i;
	struct seen *s = arg;
	int fd;

	MUST(getpid() == 1);
	MUST(!prctl(PR_SET_NAME, "exactly15letter"));
	fd = dev_client("blue");
	MUST(fd >= 0);
	s->client = client_of(fd);
	MUST(!who_is(s->w, s->client, &i));
	s->own_pid = i.pid;
	MUST(!strcmp(i.comm, "exactly15letter"));
	MUST(!who_is(s->w, s->outsider, &i));
	s->outsiders_pid = i.pid;
	MUST(write(s->ready, "x", 1) == 1);
	for (;;)
		pause();
}

static int makes_a_namespace(void *arg)
{
	struct seen *s = arg;

	MUST(!unshare(CLONE_NEWPID));
	s->outer = child_start(first_of_a_namespace, s);
	return child_end(s->outer);
}

TEST_F(dev, a_pid_is_as_the_readers_namespace_has_it)
{
	struct world *w = &self->w;
	struct seen *s = shared_memory(sizeof(*s));
	struct kvcache_client_info i;
	int ready[2];
	pid_t pid;
	char c;

	ASSERT_NE(MAP_FAILED, (void *)s);
	ASSERT_EQ(0, pipe(ready));
	s->w = w;
	s->ready = ready[1];
	s->outsider = client_of(w->fd[0]);
	pid = child_start(makes_a_namespace, s);
	ASSERT_EQ(1, read(ready[0], &c, 1));
	ASSERT_TRUE(SOON(s->outer));
	EXPECT_EQ(1, s->own_pid);
	EXPECT_EQ(0, s->outsiders_pid);
	ASSERT_EQ(0, who_is(w, s->client, &i));
	EXPECT_EQ(s->outer, i.pid);
	EXPECT_STREQ("exactly15letter", i.comm);
	EXPECT_EQ(w->tenant[1], i.tenant);
	ASSERT_EQ(0, who_is(w, client_of(w->fd[0]), &i));
	EXPECT_EQ(getpid(), i.pid);
	kill(s->outer, SIGKILL);
	child_end(pid);
}

TEST_HARNESS_MAIN
