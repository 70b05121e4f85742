// SPDX-License-Identifier: MIT
/*
 * test_sysfs.c - what people see and set: folders of pools and tenants, and
 * limits in bytes.
 */
#include "files.h"

#define MAX	KVCACHE_LIMIT_MAX

static const char *pool_file(const char *file)
{
	char path[128];

	snprintf(path, sizeof(path), SYSFS "/pools/test/%s", file);
	return text_of(path);
}

static const char *tenant_file(const char *tenant, const char *file)
{
	char path[128];

	snprintf(path, sizeof(path), SYSFS "/tenants/%s/%s", tenant, file);
	return text_of(path);
}

static int set_red(const char *file, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), SYSFS "/tenants/red/%s", file);
	return write_to(path, text);
}

/* Is this what the file says? */
static bool pool_says(const char *file, uint64_t value)
{
	char want[64];

	snprintf(want, sizeof(want), "%llu\n", (unsigned long long)value);
	if (!strcmp(want, pool_file(file)))
		return true;
	printf("# pools/test/%s: %s", file, pool_file(file));
	return false;
}

static bool tenant_says(const char *tenant, const char *file, uint64_t pages)
{
	char want[64];

	if (pages == MAX)
		snprintf(want, sizeof(want), "test max\n");
	else
		snprintf(want, sizeof(want), "test %llu\n",
			 (unsigned long long)pages * PAGE);
	if (!strcmp(want, tenant_file(tenant, file)))
		return true;
	printf("# tenants/%s/%s: %s", tenant, file, tenant_file(tenant, file));
	return false;
}

static bool events_say(const char *tenant, const struct kvcache_tenant_info *t)
{
	char want[128];

	snprintf(want, sizeof(want), "test max=%llu reclaim=%llu revoke=%llu\n",
		 (unsigned long long)t->ev_max,
		 (unsigned long long)t->ev_reclaim,
		 (unsigned long long)t->ev_revoke);
	return !strcmp(want, tenant_file(tenant, "events"));
}

/* A line of the pool's counters says so. */
static bool stat_says(const char *name, uint64_t value)
{
	const char *text = pool_file("stat");
	char want[64];
	size_t len;

	len = snprintf(want, sizeof(want), "%s %llu\n", name,
		       (unsigned long long)value);
	for (; text && *text; text = strchr(text, '\n') + 1)
		if (!strncmp(text, want, len))
			return true;
	printf("# pools/test/stat: no %s", want);
	return false;
}

static bool stat_agrees(struct world *w)
{
	struct kvcache_pool_get s = { .size = sizeof(s), .pool = w->pool };

	return !dev_call(w->admin, KVCACHE_NR_POOL_GET, &s) &&
	       stat_says("lost", s.out_lost) &&
	       stat_says("allocs", s.out_info.allocs) &&
	       stat_says("publishes", s.out_publishes) &&
	       stat_says("reclaims_low", s.out_reclaims[KVCACHE_RECLAIM_LOW]) &&
	       stat_says("reclaims_own", s.out_reclaims[KVCACHE_RECLAIM_OWN]) &&
	       stat_says("refused_edquot",
			 s.out_refusals[KVCACHE_REFUSED_EDQUOT]) &&
	       stat_says("waits_refused", s.out_waits[KVCACHE_WAIT_REFUSED]) &&
	       stat_says("wait_ns", s.out_wait_ns) &&
	       stat_says("wait_below_1us", s.out_wait_times[0]) &&
	       stat_says("wait_below_67108864us", s.out_wait_times[13]) &&
	       stat_says("wait_longer", s.out_wait_times[14]);
}

/* Do all files say what the ABI says? */
static bool agrees(struct world *w)
{
	static const char *const name[2] = { "red", "blue" };
	struct kvcache_tenant_info t;
	struct kvcache_pool_info p;
	bool ok;
	int k;

	if (dev_pool_info(w->admin, w->pool, &p))
		return false;
	ok = pool_says("page_size", p.page_size) &&
	     pool_says("size", p.nr_pages * PAGE) &&
	     pool_says("free", p.nr_free * PAGE) &&
	     pool_says("private", p.nr_private * PAGE) &&
	     pool_says("shared", p.nr_shared * PAGE) &&
	     pool_says("cached", p.nr_cached * PAGE) &&
	     pool_says("retiring", p.nr_retiring * PAGE) &&
	     pool_says("waiters", p.waiters) &&
	     pool_says("draining", p.draining);
	for (k = 0; ok && k < 2; k++)
		ok = !dev_tenant_info(w->admin, w->pool, w->tenant[k], &t) &&
		     tenant_says(name[k], "current", t.cur) &&
		     tenant_says(name[k], "peak", t.peak) &&
		     tenant_says(name[k], "min", t.min) &&
		     tenant_says(name[k], "low", t.low) &&
		     tenant_says(name[k], "max", t.max) &&
		     events_say(name[k], &t);
	return ok && stat_agrees(w);
}

/* ---- what they say ------------------------------------------------------- */

static int waits(void *arg)
{
	const struct world *w = arg;
	int fd = dev_client("blue");
	uint64_t page;

	MUST(fd >= 0);
	dev_alloc_until(fd, w->pool, 1, NEVER, &page);
	return 0;
}

TEST_F(dev, files_agree_with_the_abi_at_every_step)
{
	struct world *w = &self->w;
	struct kvcache_pool_info p;
	uint64_t pages[PAGES];
	pid_t pid;

	EXPECT_TRUE(agrees(w));
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 5, pages));
	EXPECT_TRUE(agrees(w));
	EXPECT_STREQ("test 327680\n", tenant_file("red", "current"));
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &pages[0], 1));
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &pages[1], 2));
	EXPECT_TRUE(agrees(w));
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, pages, 3));
	ASSERT_TRUE(dev_settles(w->admin, w->pool, PAGES - 4));
	EXPECT_TRUE(agrees(w));
	EXPECT_STREQ("131072\n", pool_file("cached"));
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 1, 2, 4,
				NEVER));
	EXPECT_TRUE(agrees(w));
	EXPECT_EQ(-EDQUOT, dev_alloc(w->fd[0], w->pool, 3, pages));
	EXPECT_TRUE(agrees(w));
	EXPECT_STREQ("test max=1 reclaim=0 revoke=0\n",
		     tenant_file("red", "events"));
	ASSERT_EQ(0, dev_alloc(w->fd[1], w->pool, PAGES - 2, pages));
	EXPECT_TRUE(agrees(w));
	pid = child_start(waits, w);
	ASSERT_TRUE(SOON(!dev_pool_info(w->admin, w->pool, &p) && p.waiters));
	EXPECT_TRUE(agrees(w));
	ASSERT_EQ(0, dev_pool_op(w->admin, w->pool, KVCACHE_POOL_DRAIN, 0,
				 NULL));
	ASSERT_EQ(0, child_end(pid));
	EXPECT_TRUE(agrees(w));
	EXPECT_STREQ("1\n", pool_file("draining"));
}

static const char *const red_files[] = {
	"current", "peak", "events", "min", "low", "max",
};

static int reads_as(void *arg)
{
	gid_t gid = *(gid_t *)arg;
	char path[128];
	unsigned int k;

	become(1001, gid, 0);
	MUST(!strcmp(pool_file("size"), "1048576\n"));
	MUST(pool_file("stat")[0] == '-');
	for (k = 0; k < ARRAY_SIZE(red_files); k++) {
		snprintf(path, sizeof(path), SYSFS "/tenants/red/%s",
			 red_files[k]);
		MUST((text_of(path)[0] == '-') == (gid != 2001));
		MUST(write_to(path, "max") == -EACCES);
	}
	return 0;
}

TEST_F(dev, files_are_roots_and_the_tenants_group_may_look)
{
	struct kvcache_tenant_set s = {
		.size = sizeof(s), .set = KVCACHE_SET_OWNER, .uid = 1001,
		.gid = 2001, .mode = 0440, .tenant = self->w.tenant[0],
	};
	gid_t in = 2001, out = 1001;
	char path[128];
	unsigned int k;

	EXPECT_TRUE(has_mode(SYSFS "/pools/test/free", 0444, 0));
	EXPECT_TRUE(has_mode(SYSFS "/pools/test/stat", 0400, 0));
	EXPECT_TRUE(has_mode(SYSFS "/tenants/red/current", 0440, 0));
	ASSERT_EQ(0, dev_call(self->w.admin, KVCACHE_NR_TENANT_SET, &s));
	for (k = 0; k < ARRAY_SIZE(red_files); k++) {
		snprintf(path, sizeof(path), SYSFS "/tenants/red/%s",
			 red_files[k]);
		EXPECT_TRUE(has_mode(path, k < 3 ? 0440 : 0640, 2001));
	}
	EXPECT_TRUE(has_mode(SYSFS "/tenants/blue/max", 0640, 0));
	EXPECT_EQ(0, in_child(reads_as, &in));
	EXPECT_EQ(0, in_child(reads_as, &out));
	EXPECT_TRUE(agrees(&self->w));
}

TEST_F(dev, folders_come_and_go)
{
	struct kvcache_tenant_ref ref = { .size = sizeof(ref) };
	struct world *w = &self->w;
	int green, more, fd[2];
	char buf[64];

	green = dev_tenant(w->admin, "green", w->pool, 1, 2);
	ASSERT_LT(0, green);
	EXPECT_TRUE(tenant_says("green", "min", 1));
	more = dev_pool(w->admin, "more", 1 << 20, 2);
	ASSERT_LE(0, more);
	EXPECT_STREQ("2097152\n", text_of(SYSFS "/pools/more/size"));
	EXPECT_STREQ("test 131072\nmore max\n", tenant_file("green", "max"));
	fd[0] = open(SYSFS "/pools/more/size", O_RDONLY);
	fd[1] = open(SYSFS "/tenants/green/max", O_RDWR);
	ASSERT_LE(0, fd[0]);
	ASSERT_LE(0, fd[1]);
	ASSERT_EQ(0, dev_pool_op(w->admin, more, KVCACHE_POOL_REMOVE, 0,
				 NULL));
	ref.tenant = green;
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_REMOVE, &ref));
	EXPECT_EQ(-1, access(SYSFS "/pools/more", F_OK));
	EXPECT_EQ(-1, access(SYSFS "/tenants/green", F_OK));
	EXPECT_EQ(-1, read(fd[0], buf, sizeof(buf)));
	EXPECT_EQ(ENODEV, errno);
	EXPECT_EQ(-1, read(fd[1], buf, sizeof(buf)));
	EXPECT_EQ(ENODEV, errno);
	EXPECT_EQ(-1, write(fd[1], "test 1M", 7));
	EXPECT_EQ(ENODEV, errno);
	close(fd[0]);
	close(fd[1]);
	/* Names are free again. */
	green = dev_tenant(w->admin, "green", w->pool, 0, MAX);
	ASSERT_LT(0, green);
	EXPECT_TRUE(tenant_says("green", "min", 0));
	ref.tenant = green;
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_REMOVE, &ref));
}

/* ---- limits -------------------------------------------------------------- */

TEST_F(dev, limits_are_set_in_bytes)
{
	static const struct {
		const char *text;
		uint64_t pages;
	} is[] = {
		{ "131072", 2 }, { "0", 0 }, { "65536\n", 1 }, { "65535", 0 },
		{ "131071", 1 }, { "128K", 2 }, { "128k\n", 2 }, { "1M", 16 },
		{ "2m", 32 }, { "1G", 16384 }, { "1T", 16777216 },
		{ "test 192K", 3 }, { " test 256K \n", 4 }, { "test max", MAX },
		{ "max\n", MAX },
	};
	struct world *w = &self->w;
	struct kvcache_tenant_info t;
	unsigned int k;

	for (k = 0; k < ARRAY_SIZE(is); k++) {
		EXPECT_EQ(0, set_red("max", is[k].text)) {
			TH_LOG("%s", is[k].text);
		}
		ASSERT_EQ(0, dev_tenant_info(w->admin, w->pool, w->tenant[0],
					     &t));
		EXPECT_EQ(is[k].pages, t.max);
		EXPECT_TRUE(agrees(w));
	}
	ASSERT_EQ(0, set_red("max", "512K"));
	ASSERT_EQ(0, set_red("low", "256K"));
	ASSERT_EQ(0, set_red("min", "128K"));
	ASSERT_EQ(0, dev_tenant_info(w->admin, w->pool, w->tenant[0], &t));
	EXPECT_EQ(8, t.max);
	EXPECT_EQ(4, t.low);
	EXPECT_EQ(2, t.min);
	EXPECT_TRUE(agrees(w));
}

TEST_F(dev, what_is_no_limit_is_refused)
{
	static const struct {
		const char *text;
		int rc;
	} is[] = {
		{ "\n", -EINVAL }, { " ", -EINVAL }, { "x", -EINVAL },
		{ "-1", -EINVAL }, { "+1M", -EINVAL }, { "1KK", -EINVAL },
		{ "1M1", -EINVAL }, { "K", -EINVAL }, { "1.5M", -EINVAL },
		{ "Max", -EINVAL }, { "maxx", -EINVAL }, { "test", -EINVAL },
		{ "test 1M 1M", -EINVAL }, { "test test", -EINVAL },
		{ "0x100000", -EINVAL }, { "10X", -EINVAL },
		{ "1M\n1M", -EINVAL }, { "\377\376", -EINVAL },
		{ "\1\033[2J", -EINVAL }, { "\n\n\n\n\n\n", -EINVAL },
		{ "18446744073709551616", -EINVAL },
		{ "99999999999999999999", -EINVAL },
		{ "17179869184G", -EINVAL }, { "16777216T", -EINVAL },
		{ "none 1M", -ENOENT }, { "tes 1M", -ENOENT },
		{ "test1 1M", -ENOENT },
	};
	struct world *w = &self->w;
	struct kvcache_tenant_info t;
	uint64_t revision;
	char long_text[128];
	unsigned int k;
	int fd;

	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 1, 2, 3,
				NEVER));
	ASSERT_EQ(0, dev_tenant_info(w->admin, w->pool, w->tenant[0], &t));
	revision = t.revision;
	for (k = 0; k < ARRAY_SIZE(is); k++) {
		EXPECT_EQ(is[k].rc, set_red("max", is[k].text)) {
			TH_LOG("%s", is[k].text);
		}
		EXPECT_TRUE(tenant_says("red", "max", 3));
	}
	memset(long_text, ' ', sizeof(long_text));
	strcpy(long_text + 100, "1M");
	EXPECT_EQ(-EINVAL, set_red("max", long_text));
	/* Those of KVCACHE_TENANT_SET. */
	EXPECT_EQ(-EINVAL, set_red("min", "256K"));
	EXPECT_EQ(-EINVAL, set_red("low", "256K"));
	EXPECT_EQ(-EINVAL, set_red("max", "64K"));
	EXPECT_EQ(-EINVAL, set_red("low", "max"));
	fd = open(SYSFS "/tenants/red/max", O_WRONLY);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, pwrite(fd, "1M", 2, 1));
	EXPECT_EQ(EINVAL, errno);
	/* A text ends with its first NUL, as in any file of sysfs. */
	EXPECT_EQ(-1, pwrite(fd, "\0001M", 3, 0));
	EXPECT_EQ(EINVAL, errno);
	close(fd);
	EXPECT_TRUE(agrees(w));
	ASSERT_EQ(0, dev_tenant_info(w->admin, w->pool, w->tenant[0], &t));
	EXPECT_EQ(revision, t.revision);
	ASSERT_EQ(0, set_red("max", "max"));
	EXPECT_EQ(-ENOSPC, set_red("min", "2M"));
	EXPECT_EQ(-ENOSPC, set_red("min", "max"));
	EXPECT_TRUE(agrees(w));
}

TEST_F(dev, with_two_pools_a_limit_names_its_pool)
{
	struct world *w = &self->w;
	int more = dev_pool(w->admin, "more", 1 << 20, 2);

	ASSERT_LE(0, more);
	EXPECT_EQ(-EINVAL, set_red("max", "1M"));
	EXPECT_EQ(0, set_red("max", "more 1M"));
	EXPECT_STREQ("test max\nmore 1048576\n", tenant_file("red", "max"));
	EXPECT_EQ(0, set_red("max", "test 1M"));
	EXPECT_STREQ("test 1048576\nmore 1048576\n",
		     tenant_file("red", "max"));
	EXPECT_EQ(0, dev_pool_op(w->admin, more, KVCACHE_POOL_REMOVE, 0,
				 NULL));
	EXPECT_EQ(0, set_red("max", "max"));
}

/* Root, but for the capability. */
static int opens_and_writes(void *arg)
{
	int fd;

	set_cap(CAP_SYS_ADMIN, false);
	fd = open(SYSFS "/tenants/red/max", O_RDWR);
	MUST(fd >= 0);
	MUST(write(fd, "1M", 2) == -1 && errno == EPERM);
	send_fd(*(int *)arg, fd);
	return 0;
}

static int writes_through_roots_file(void *arg)
{
	int fd = *(int *)arg;

	become(1001, 1001, 0);
	MUST(write(fd, "1M", 2) == -1 && errno == EPERM);
	return 0;
}

TEST_F(dev, writer_and_opener_need_the_capability)
{
	int both[2], fd = open(SYSFS "/tenants/red/max", O_RDWR);

	ASSERT_LE(0, fd);
	EXPECT_EQ(0, in_child(writes_through_roots_file, &fd));
	close(fd);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_DGRAM, 0, both));
	EXPECT_EQ(0, in_child(opens_and_writes, &both[1]));
	fd = receive_fd(both[0]);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, write(fd, "1M", 2));
	EXPECT_EQ(EPERM, errno);
	close(fd);
	EXPECT_TRUE(tenant_says("red", "max", MAX));
	close(both[0]);
	close(both[1]);
}

TEST_HARNESS_MAIN
