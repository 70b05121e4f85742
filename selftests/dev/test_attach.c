// SPDX-License-Identifier: MIT
/*
 * test_attach.c - KVCACHE_ATTACH: how a tenant is found, and who may be its
 * client.
 */
#include "child.h"

static int attach(int fd, uint32_t by, uint32_t tenant, const char *name,
		  struct kvcache_attach *out)
{
	POISON(*out);
	out->by = by;
	out->tenant = tenant;
	memset(out->name, 0, sizeof(out->name));
	if (name)
		strncpy(out->name, name, sizeof(out->name) - 1);
	return dev_call(fd, KVCACHE_NR_ATTACH, out);
}

/* Client and tenant of an open, as it says itself; 0 not attached. */
static uint64_t attached_as(int fd)
{
	struct kvcache_query q;

	POISON(q);
	if (dev_call(fd, KVCACHE_NR_QUERY, &q))
		return ~0ULL;
	return (uint64_t)q.out_client << 32 | q.out_tenant;
}

static int set_owner(struct world *w, int k, uid_t uid, gid_t gid,
		     uint32_t mode)
{
	struct kvcache_tenant_set s = {
		.size = sizeof(s), .tenant = w->tenant[k],
		.set = KVCACHE_SET_OWNER, .uid = uid, .gid = gid, .mode = mode,
	};

	return dev_call(w->admin, KVCACHE_NR_TENANT_SET, &s);
}

static int set_cgroup(struct world *w, int k, uint64_t cgroup)
{
	struct kvcache_tenant_set s = {
		.size = sizeof(s), .tenant = w->tenant[k],
		.set = KVCACHE_SET_CGROUP, .cgroup = cgroup,
	};

	return dev_call(w->admin, KVCACHE_NR_TENANT_SET, &s);
}

/* ---- finding ------------------------------------------------------------- */

TEST_F(dev, a_tenant_is_found_by_name_and_by_number)
{
	struct world *w = &self->w;
	struct kvcache_attach a;
	int fd = dev_open(), other = dev_open();

	ASSERT_EQ(0, attached_as(fd));
	ASSERT_EQ(0, attach(fd, KVCACHE_ATTACH_NAME, 0, "blue", &a));
	EXPECT_EQ(w->tenant[1], a.out_tenant);
	EXPECT_NE(0, a.out_client);
	EXPECT_EQ((uint64_t)a.out_client << 32 | w->tenant[1],
		  attached_as(fd));
	ASSERT_EQ(0, attach(other, KVCACHE_ATTACH_ID, w->tenant[0], NULL, &a));
	EXPECT_EQ(w->tenant[0], a.out_tenant);
	EXPECT_EQ((uint64_t)a.out_client << 32 | w->tenant[0],
		  attached_as(other));
	EXPECT_NE(attached_as(fd) >> 32, attached_as(other) >> 32);
	close(fd);
	close(other);
}

TEST_F(dev, what_names_no_tenant_attaches_nothing)
{
	static const struct {
		uint32_t by, tenant;
		const char *name;
		int rc;
	} is[] = {
		{ KVCACHE_ATTACH_NAME, 0, "green", -ENOENT },
		{ KVCACHE_ATTACH_NAME, 0, "Red", -ENOENT },
		{ KVCACHE_ATTACH_NAME, 0, "re", -ENOENT },
		{ KVCACHE_ATTACH_NAME, 0, NULL, -ENOENT },
		{ KVCACHE_ATTACH_NAME, 1, "red", -EINVAL },
		{ KVCACHE_ATTACH_ID, 0, NULL, -ENOENT },
		{ KVCACHE_ATTACH_ID, 4096, NULL, -ENOENT },
		{ KVCACHE_ATTACH_ID, 4097, NULL, -ENOENT },
		{ KVCACHE_ATTACH_ID, 65536, NULL, -ENOENT },
		{ KVCACHE_ATTACH_ID, ~0U, NULL, -ENOENT },
		{ KVCACHE_ATTACH_ID, 1, "red", -EINVAL },
		{ KVCACHE_ATTACH_AUTO, 1, NULL, -EINVAL },
		{ KVCACHE_ATTACH_AUTO, 0, "red", -EINVAL },
		{ 3, 0, NULL, -EINVAL },
		{ ~0U, 0, NULL, -EINVAL },
	};
	struct kvcache_attach a;
	int fd = dev_open();
	unsigned int k;

	for (k = 0; k < ARRAY_SIZE(is); k++) {
		EXPECT_EQ(is[k].rc, attach(fd, is[k].by, is[k].tenant,
					   is[k].name, &a)) {
			TH_LOG("number %u", k);
		}
		EXPECT_TRUE(is_poison(&a.out_tenant, sizeof(a.out_tenant)));
		EXPECT_TRUE(is_poison(&a.out_client, sizeof(a.out_client)));
		EXPECT_EQ(0, attached_as(fd));
	}
	POISON(a);
	a.by = KVCACHE_ATTACH_NAME;
	a.tenant = 0;
	memset(a.name, 'a', sizeof(a.name));
	EXPECT_EQ(-EINVAL, dev_call(fd, KVCACHE_NR_ATTACH, &a));
	EXPECT_EQ(0, attached_as(fd));
	/* Nothing of it is left behind. */
	EXPECT_EQ(0, attach(fd, KVCACHE_ATTACH_NAME, 0, "red", &a));
	close(fd);
}

TEST_F(dev, an_open_attaches_once)
{
	struct world *w = &self->w;
	struct kvcache_tenant_info t;
	struct kvcache_attach a;
	uint64_t was = attached_as(w->fd[0]);

	EXPECT_EQ(-EALREADY, attach(w->fd[0], KVCACHE_ATTACH_NAME, 0, "blue",
				    &a));
	EXPECT_EQ(-EALREADY, attach(w->fd[0], KVCACHE_ATTACH_NAME, 0, "red",
				    &a));
	EXPECT_TRUE(is_poison(&a.out_client, sizeof(a.out_client)));
	EXPECT_EQ(was, attached_as(w->fd[0]));
	ASSERT_EQ(0, dev_tenant_info(w->admin, w->pool, w->tenant[1], &t));
	EXPECT_EQ(1, t.clients);
}

/* Attaches the open that it was given, says so and stays. */
struct heir {
	int fd, sock;
};

static int attach_anothers_open(void *arg)
{
	const struct heir *h = arg;
	struct kvcache_attach a;
	char c;

	MUST(attach(h->fd, KVCACHE_ATTACH_NAME, 0, "red", &a) == 0);
	MUST(write(h->sock, "x", 1) == 1);
	MUST(read(h->sock, &c, 1) == 1);
	return 0;
}

TEST_F(dev, an_open_that_failed_to_attach_is_anybodys_still)
{
	struct world *w = &self->w;
	struct kvcache_tenant_info t;
	struct kvcache_attach a;
	struct heir h = { .fd = dev_open() };
	int both[2];
	pid_t pid;
	char c;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, both));
	h.sock = both[1];
	ASSERT_EQ(-ENOENT, attach(h.fd, KVCACHE_ATTACH_NAME, 0, "green", &a));
	pid = child_start(attach_anothers_open, &h);
	ASSERT_EQ(1, read(both[0], &c, 1));
	/* It is the child's now, */
	EXPECT_EQ(-EPERM, attach(h.fd, KVCACHE_ATTACH_NAME, 0, "red", &a));
	EXPECT_EQ(~0ULL, attached_as(h.fd));
	ASSERT_EQ(1, write(both[0], "x", 1));
	ASSERT_EQ(0, child_end(pid));
	/* and ended with it. */
	EXPECT_EQ(-EOWNERDEAD, attach(h.fd, KVCACHE_ATTACH_NAME, 0, "red",
				      &a));
	ASSERT_EQ(0, dev_tenant_info(w->admin, w->pool, w->tenant[0], &t));
	EXPECT_EQ(2, t.clients);
	close(h.fd);
	ASSERT_EQ(0, dev_tenant_info(w->admin, w->pool, w->tenant[0], &t));
	EXPECT_EQ(1, t.clients);
	close(both[0]);
	close(both[1]);
}

/* ---- who may ------------------------------------------------------------- */

struct caller {
	uid_t uid;
	gid_t gid, more;
};

#define OWNER	1001
#define GROUP	2001
#define OTHER	3001

static int attach_as(void *arg)
{
	struct caller *c = arg;
	struct kvcache_attach a;
	int fd;

	if (c->uid)
		become(c->uid, c->gid, c->more);
	fd = dev_open();
	MUST(fd >= 0);
	return -attach(fd, KVCACHE_ATTACH_NAME, 0, "red", &a);
}

TEST_F(dev, the_mode_says_who_is_a_member)
{
	static struct caller owner = { OWNER, OTHER, 0 };
	static struct caller group = { OTHER, GROUP, 0 };
	static struct caller further = { OTHER, OTHER, GROUP };
	static struct caller other = { OTHER, OTHER, OTHER };
	/* Root is nobody special: it can change the owner. */
	static struct caller root = { 0, 0, 0 };
	static const uint32_t mode[] = { 0400, 0040, 0004, 0440, 0444, 0 };
	struct world *w = &self->w;
	unsigned int k;

	for (k = 0; k < ARRAY_SIZE(mode); k++) {
		bool all = mode[k] & 0004;
		bool its = all || (mode[k] & 0400);
		bool grp = all || (mode[k] & 0040);

		ASSERT_EQ(0, set_owner(w, 0, OWNER, GROUP, mode[k]));
		EXPECT_EQ(its ? 0 : EPERM, in_child(attach_as, &owner));
		EXPECT_EQ(grp ? 0 : EPERM, in_child(attach_as, &group));
		EXPECT_EQ(grp ? 0 : EPERM, in_child(attach_as, &further));
		EXPECT_EQ(all ? 0 : EPERM, in_child(attach_as, &other));
		EXPECT_EQ(all ? 0 : EPERM, in_child(attach_as, &root));
	}
}

TEST_F(dev, other_bits_are_no_mode)
{
	static const uint32_t bad[] = { 0200, 0100, 0445, 01444, ~0U };
	struct world *w = &self->w;
	struct kvcache_tenant_info t;
	unsigned int k;

	for (k = 0; k < ARRAY_SIZE(bad); k++) {
		EXPECT_EQ(-EINVAL, set_owner(w, 0, 1, 2, bad[k]));
		ASSERT_EQ(0, dev_tenant_info(w->admin, w->pool, w->tenant[0],
					     &t));
		EXPECT_EQ(0444, t.mode);
		EXPECT_EQ(0, t.uid + t.gid);
	}
}

static int attach_by_effective_uid(void *arg)
{
	struct kvcache_attach a;
	int fd = dev_open();

	MUST(!setresgid(OTHER, OTHER, 0));
	MUST(!setgroups(0, NULL));
	MUST(!setresuid(OWNER, OTHER, 0));
	MUST(attach(fd, KVCACHE_ATTACH_NAME, 0, "red", &a) == -EPERM);
	MUST(!setresuid(-1, 0, -1));
	MUST(!setresuid(OTHER, OWNER, 0));
	MUST(attach(fd, KVCACHE_ATTACH_NAME, 0, "red", &a) == 0);
	return 0;
}

TEST_F(dev, the_effective_user_counts)
{
	ASSERT_EQ(0, set_owner(&self->w, 0, OWNER, GROUP, 0400));
	EXPECT_EQ(0, in_child(attach_by_effective_uid, NULL));
}

/* ---- by itself ----------------------------------------------------------- */

#define CGROUPS	"/sys/fs/cgroup"
#define OUTER	CGROUPS "/outer"
#define INNER	OUTER "/inner"
#define LEAF	INNER "/leaf"
#define ASIDE	CGROUPS "/aside"

struct place {
	const char *cgroup;
	uid_t uid;
	/* What it was attached to. */
	uint32_t tenant;
};

static int attach_there(void *arg)
{
	struct place *p = arg;
	struct kvcache_attach a;
	char path[64];
	int fd, rc;

	snprintf(path, sizeof(path), "%s/cgroup.procs",
		 p->cgroup ? p->cgroup : CGROUPS);
	fd = open(path, O_WRONLY);
	MUST(fd >= 0);
	MUST(write(fd, "0", 1) == 1);
	close(fd);
	if (p->uid)
		become(p->uid, OTHER, 0);
	fd = dev_open();
	MUST(fd >= 0);
	rc = attach(fd, KVCACHE_ATTACH_AUTO, 0, NULL, &a);
	p->tenant = rc ? 0 : a.out_tenant;
	return -rc;
}

/* The tenant, or -errno. */
static int attaches_to(struct place *shared, const char *cgroup, uid_t uid)
{
	int rc;

	*shared = (struct place){ .cgroup = cgroup, .uid = uid };
	rc = in_child(attach_there, shared);
	return rc ? -rc : (int)shared->tenant;
}

static uint64_t cgroup_number(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : st.st_ino;
}

TEST_F(dev, the_nearest_cgroup_decides_then_the_user)
{
	struct place *x = shared_memory(sizeof(*x));
	struct world *w = &self->w;
	int red = w->tenant[0], blue = w->tenant[1];

	ASSERT_NE(MAP_FAILED, (void *)x);
	ASSERT_EQ(0, mkdir(OUTER, 0755));
	ASSERT_EQ(0, mkdir(INNER, 0755));
	ASSERT_EQ(0, mkdir(LEAF, 0755));
	ASSERT_EQ(0, mkdir(ASIDE, 0755));
	ASSERT_EQ(0, set_owner(w, 0, OWNER, GROUP, 0444));
	ASSERT_EQ(0, set_owner(w, 1, OTHER, GROUP, 0444));

	/* Neither has a cgroup: by user. */
	EXPECT_EQ(red, attaches_to(x, LEAF, OWNER));
	EXPECT_EQ(blue, attaches_to(x, NULL, OTHER));
	EXPECT_EQ(-ENOENT, attaches_to(x, LEAF, 0));
	EXPECT_EQ(-ENOENT, attaches_to(x, LEAF, OWNER + 1));

	ASSERT_EQ(0, set_cgroup(w, 0, cgroup_number(OUTER)));
	EXPECT_EQ(red, attaches_to(x, OUTER, OTHER));
	EXPECT_EQ(red, attaches_to(x, INNER, OTHER));
	EXPECT_EQ(red, attaches_to(x, LEAF, 0));
	EXPECT_EQ(blue, attaches_to(x, ASIDE, OTHER));
	EXPECT_EQ(-ENOENT, attaches_to(x, ASIDE, 0));
	EXPECT_EQ(-ENOENT, attaches_to(x, NULL, 0));

	ASSERT_EQ(0, set_cgroup(w, 1, cgroup_number(INNER)));
	EXPECT_EQ(red, attaches_to(x, OUTER, OTHER));
	EXPECT_EQ(blue, attaches_to(x, INNER, OWNER));
	EXPECT_EQ(blue, attaches_to(x, LEAF, OWNER));

	/* Who is found by its cgroup has to be a member all the same. */
	ASSERT_EQ(0, set_owner(w, 1, OTHER, GROUP, 0400));
	EXPECT_EQ(-EPERM, attaches_to(x, LEAF, OWNER));
	EXPECT_EQ(blue, attaches_to(x, LEAF, OTHER));

	ASSERT_EQ(0, set_cgroup(w, 1, 0));
	EXPECT_EQ(red, attaches_to(x, LEAF, OTHER));
	EXPECT_EQ(0, rmdir(LEAF) | rmdir(INNER) | rmdir(OUTER) | rmdir(ASIDE));
}

TEST_HARNESS_MAIN
