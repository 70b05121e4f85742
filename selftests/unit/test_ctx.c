// SPDX-License-Identifier: MIT
/*
 * test_ctx.c - opening a backend, and words for what cannot be opened.
 */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "harness.h"
#include "internal.h"

static char msg[256];
static struct kvc_open_opts opts = {
	.sz = sizeof(opts), .msg = msg, .msg_len = sizeof(msg),
};

static struct kvcache_pool_info pool_of(struct kvc *ctx)
{
	struct kvcache_query q = { 0 };

	ASSERT_EQ(0, kvc_call(ctx, KVCACHE_NR_QUERY, &q));
	ASSERT_EQ(1, q.out_nr_pools);
	ASSERT_NE(0, q.out_client);
	return q.out_pools[0];
}

TEST(in_this_process)
{
	struct kvcache_pool_info p;
	struct kvc *ctx;

	ASSERT_EQ(0, kvc_open("local:bytes=8M,page=64K", NULL, &ctx));
	EXPECT_STREQ("local", kvc_backend(ctx));
	EXPECT_STREQ("", kvc_errmsg(ctx));
	p = pool_of(ctx);
	EXPECT_EQ(65536, p.page_size);
	EXPECT_EQ(128, p.nr_pages);
	kvc_close(ctx);

	setenv("KVCACHE", "local:page=4096,max=3,bytes=0x10000", 1);
	ASSERT_EQ(0, kvc_open(NULL, NULL, &ctx));
	p = pool_of(ctx);
	EXPECT_EQ(4096, p.page_size);
	EXPECT_EQ(16, p.nr_pages);
	kvc_close(ctx);
}

TEST(what_is_not_understood)
{
	static const char *const bad[] = {
		"remote", "local:", "local:bytes", "local:bytes=",
		"local:bytes=x", "local:bytes=1T", "local:bytes=-1",
		"local:pages=1", "local:bytes=1M,", "local:bytes=1M;page=1M",
		"local:bytes=99999999999999999999", "local:bytes=0xfffffffffffffG",
	};
	struct kvc *ctx;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		msg[0] = '\0';
		EXPECT_EQ(-EINVAL, kvc_open(bad[i], &opts, &ctx));
		EXPECT_NE(NULL, strstr(msg, bad[i]));
	}
	EXPECT_EQ(-EINVAL, kvc_open("local:page=3000", &opts, &ctx));
	EXPECT_EQ(-EINVAL, kvc_open("local:page=32", &opts, &ctx));
}

TEST(what_is_not_there)
{
	char path[] = "/tmp/kvc-ctx-XXXXXX";
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct kvc *ctx;
	int fd;

	fd = mkstemp(path);
	ASSERT_GE(fd, 0);
	close(fd);
	EXPECT_EQ(-EINVAL, kvc_open(path, &opts, &ctx));
	EXPECT_NE(NULL, strstr(msg, "neither a device nor a socket"));
	unlink(path);
	EXPECT_EQ(-ENODEV, kvc_open(path, &opts, &ctx));
	EXPECT_NE(NULL, strstr(msg, "No such file"));
	EXPECT_EQ(-EINVAL, kvc_open("/dev/null", &opts, &ctx));
	EXPECT_NE(NULL, strstr(msg, "not a device of kvcache"));
	strcpy(sun.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	ASSERT_EQ(0, bind(fd, (struct sockaddr *)&sun, sizeof(sun)));
	EXPECT_EQ(-ECONNREFUSED, kvc_open(path, &opts, &ctx));
	EXPECT_NE(NULL, strstr(msg, "nobody listens"));
	EXPECT_NE(NULL, strstr(msg, "start kvcache-broker"));
	close(fd);
	unlink(path);
	/* A socket of something else. */
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	ASSERT_EQ(0, bind(fd, (struct sockaddr *)&sun, sizeof(sun)));
	ASSERT_EQ(0, listen(fd, 1));
	EXPECT_EQ(-EINVAL, kvc_open(path, &opts, &ctx));
	EXPECT_NE(NULL, strstr(msg, "not a socket of kvcache-broker"));
	if (geteuid())
		goto out;
	chmod(path, 0600);
	ASSERT_EQ(0, seteuid(65534));
	EXPECT_EQ(-EACCES, kvc_open(path, &opts, &ctx));
	EXPECT_NE(NULL, strstr(msg, "its group may connect"));
	ASSERT_EQ(0, seteuid(0));
out:
	close(fd);
	unlink(path);
}

TEST(nothing_named)
{
	struct kvc_open_opts o = opts;
	struct kvc *ctx;

	if (!access("/dev/kvcache", F_OK) || !access("/run/kvcache/broker", F_OK))
		SKIP(return, "a kvcache device or broker is running here");
	unsetenv("KVCACHE");
	unsetenv("XDG_RUNTIME_DIR");
	EXPECT_EQ(-ENODEV, kvc_open(NULL, &o, &ctx));
	EXPECT_NE(NULL, strstr(msg, "modprobe kvcache"));
	EXPECT_NE(NULL, strstr(msg, "/run/kvcache/broker: or start"));
	EXPECT_NE(NULL, strstr(msg, "KVCACHE=local"));
	/* A user's own broker is looked for as well. */
	setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
	EXPECT_EQ(-ENODEV, kvc_open(NULL, &o, &ctx));
	EXPECT_NE(NULL, strstr(msg, "/nowhere/kvcache/broker: or start"));
	o.flags = KVC_OPEN_LOCAL;
	o.local_bytes = 1 << 20;
	o.local_page_size = 65536;
	ASSERT_EQ(0, kvc_open(NULL, &o, &ctx));
	EXPECT_STREQ("local", kvc_backend(ctx));
	kvc_close(ctx);
	/* Another backend that was asked for is never replaced by this one. */
	EXPECT_EQ(-ENODEV, kvc_open("/dev/no-such-device", &o, &ctx));
}

TEST(options)
{
	struct kvcache_tenant_get t = { 0 };
	char long_name[KVCACHE_NAME_LEN + 1] = "";
	struct kvc_open_opts o = opts;
	struct kvc *ctx;

	o.flags = 0x80;
	EXPECT_EQ(-EINVAL, kvc_open("local", &o, &ctx));
	o.flags = KVC_OPEN_UNATTACHED;
	o.tenant = "mine";
	EXPECT_EQ(-EINVAL, kvc_open("local", &o, &ctx));
	EXPECT_NE(NULL, strstr(msg, "tenant \"mine\""));
	o = opts;
	/* The in-process backend makes the tenant that is asked for. */
	o.tenant = "mine";
	ASSERT_EQ(0, kvc_open("local:bytes=1M,page=64K", &o, &ctx));
	EXPECT_EQ(0, kvc_call(ctx, KVCACHE_NR_TENANT_GET, &t));
	EXPECT_STREQ("mine", t.out_info[0].name);
	kvc_close(ctx);
	o.tenant = "not a name";
	EXPECT_EQ(-EINVAL, kvc_open("local:bytes=1M,page=64K", &o, &ctx));
	o.tenant = long_name;
	memset(long_name, 'a', sizeof(long_name) - 1);
	EXPECT_EQ(-EINVAL, kvc_open("local:bytes=1M,page=64K", &o, &ctx));
	o.sz = 3;
	EXPECT_EQ(-EINVAL, kvc_open("local", &o, &ctx));
}

TEST(commands)
{
	struct kvcache_alloc a = { .nr = 0 };
	struct kvcache_event ev;
	struct kvc *ctx;

	ASSERT_EQ(0, kvc_open("local:bytes=1M,page=64K", NULL, &ctx));
	EXPECT_EQ(-ENOTTY, kvc_call(ctx, 0x7f, &a));
	EXPECT_EQ(-ENOTTY, kvc_call(ctx, 0x0f, &a));
	EXPECT_NE('\0', kvc_errmsg(ctx)[0]);
	EXPECT_EQ(-EINVAL, kvc_call(ctx, KVCACHE_NR_ALLOC, &a));
	EXPECT_EQ(sizeof(a), a.size);
	EXPECT_NE(NULL, strstr(kvc_errmsg(ctx), "ALLOC"));
	EXPECT_EQ(-EINVAL, kvc_events(ctx, &ev, 0));
	EXPECT_GE(kvc_events(ctx, &ev, 1), 0);
	kvc_close(ctx);
	kvc_close(NULL);
}

/* It asks and administers; pages are for those who are somebody's. */
TEST(unattached)
{
	struct kvc_open_opts o = opts;
	struct kvcache_tenant_set t = {
		.set = KVCACHE_SET_LIMITS, .max = 3, .name = "other",
	};
	struct kvcache_tenant_get g = { 0 };
	struct kvcache_alloc a = { .nr = 1 };
	struct kvcache_query q = { 0 };
	struct kvcache_event ev;
	struct kvc *ctx;

	o.flags = KVC_OPEN_UNATTACHED;
	ASSERT_EQ(0, kvc_open("local:bytes=1M,page=64K", &o, &ctx));
	ASSERT_EQ(0, kvc_call(ctx, KVCACHE_NR_QUERY, &q));
	EXPECT_EQ(0, q.out_client);
	EXPECT_EQ(0, q.out_tenant);
	EXPECT_EQ(0, kvc_call(ctx, KVCACHE_NR_TENANT_CREATE, &t));
	EXPECT_EQ(0, kvc_call(ctx, KVCACHE_NR_TENANT_GET, &g));
	EXPECT_EQ(2, g.out_nr);
	EXPECT_EQ(-ENOTCONN, kvc_call(ctx, KVCACHE_NR_ALLOC, &a));
	EXPECT_NE(NULL, strstr(kvc_errmsg(ctx), "no tenant was attached to"));
	EXPECT_EQ(-ENOTCONN, kvc_events(ctx, &ev, 1));
	EXPECT_EQ(-ENOTCONN, kvc_events_wait(ctx, KVCACHE_TIME_NEVER));
	kvc_close(ctx);
}

/* An event that has happened ends the wait at once, and is still to be read. */
TEST(waiting_for_events)
{
	struct kvcache_alloc a = { .nr = 16 };
	uint64_t in_20ms;
	struct kvcache_event ev;
	struct timespec ts;
	struct kvc *ctx;

	ASSERT_EQ(0, kvc_open("local:bytes=1M,page=64K,max=16", NULL, &ctx));
	clock_gettime(CLOCK_MONOTONIC, &ts);
	in_20ms = ts.tv_sec * 1000000000ULL + ts.tv_nsec + 20000000;
	EXPECT_EQ(0, kvc_events_wait(ctx, 0));
	EXPECT_EQ(0, kvc_events_wait(ctx, in_20ms));
	clock_gettime(CLOCK_MONOTONIC, &ts);
	EXPECT_GE(ts.tv_sec * 1000000000ULL + ts.tv_nsec, in_20ms);
	ASSERT_EQ(0, kvc_call(ctx, KVCACHE_NR_ALLOC, &a));
	EXPECT_EQ(-EDQUOT, kvc_call(ctx, KVCACHE_NR_ALLOC, &a));
	EXPECT_EQ(1, kvc_events_wait(ctx, KVCACHE_TIME_NEVER));
	EXPECT_EQ(1, kvc_events_wait(ctx, KVCACHE_TIME_NEVER));
	ASSERT_EQ(1, kvc_events(ctx, &ev, 1));
	EXPECT_EQ(KVCACHE_EV_LIMIT_HIT, ev.type);
	EXPECT_EQ(0, kvc_events_wait(ctx, 1));
	EXPECT_EQ(0, kvc_events(ctx, &ev, 1));
	kvc_close(ctx);
}

TEST(caches)
{
	struct kvc_group g = { .kv_heads = 1, .k_dim = 16, .v_dim = 16 };
	struct kvc_model m = {
		.sz = sizeof(m), .nlayers = 1, .ngroups = 1, .groups = &g,
		.q_heads = 1,
	};
	struct kvc_cache_opts o = { .sz = sizeof(o) };
	struct kvc_cache *c;
	struct kvc *ctx;

	ASSERT_EQ(0, kvc_open("local:bytes=1M,page=64K", NULL, &ctx));
	o.pool = 1;
	EXPECT_EQ(-ENOENT, kvc_cache_create(ctx, &m, &o, &c));
	o.pool = 0;
	o.split = 8;
	EXPECT_EQ(-EINVAL, kvc_cache_create(ctx, &m, &o, &c));
	EXPECT_NE(NULL, strstr(kvc_errmsg(ctx), "a split of 8 tokens"));
	o.split = (1 << 24) + 16;
	EXPECT_EQ(-EINVAL, kvc_cache_create(ctx, &m, &o, &c));
	EXPECT_NE(NULL, strstr(kvc_errmsg(ctx), "to 16777216 can be"));
	o.split = 1 << 24;
	ASSERT_EQ(0, kvc_cache_create(ctx, &m, &o, &c));
	kvc_cache_destroy(c);
	o.split = 0;
	o.isa = "vax";
	EXPECT_EQ(-EOPNOTSUPP, kvc_cache_create(ctx, &m, &o, &c));
	EXPECT_NE(NULL, strstr(kvc_errmsg(ctx), "vax"));
	o.isa = "scalar";
	o.threads = 2;
	ASSERT_EQ(0, kvc_cache_create(ctx, &m, &o, &c));
	EXPECT_STREQ("scalar", kvc_cache_isa(c));
	EXPECT_EQ(512, kvc_cache_page_tokens(c, 0));
	EXPECT_EQ(32, kvc_cache_block_tokens(c, 0));
	EXPECT_EQ(0, kvc_cache_page_tokens(c, 1));
	EXPECT_EQ(2, kvc_cache_nthreads(c));
	kvc_cache_destroy(c);
	g.sinks = 4;
	EXPECT_EQ(-EINVAL, kvc_cache_create(ctx, &m, &o, &c));
	EXPECT_NE(NULL, strstr(kvc_errmsg(ctx), "4 sinks without a window"));
	g.sinks = 0;
	g.k_dim = 1024;
	g.kv_heads = m.q_heads = 64;
	EXPECT_EQ(-E2BIG, kvc_cache_create(ctx, &m, &o, &c));
	m.sz = 0;
	EXPECT_EQ(-EINVAL, kvc_cache_create(ctx, &m, &o, &c));
	kvc_cache_destroy(NULL);
	kvc_close(ctx);
}

/* A domain that is not there would be noticed at the first full page only. */
TEST(domains)
{
	struct kvc_group g = { .kv_heads = 1, .k_dim = 16, .v_dim = 16 };
	struct kvc_model m = {
		.sz = sizeof(m), .nlayers = 1, .ngroups = 1, .groups = &g,
		.q_heads = 1,
	};
	struct kvc_cache_opts o = { .sz = sizeof(o) };
	struct kvcache_tenant_set t = {
		.set = KVCACHE_SET_LIMITS, .max = KVCACHE_LIMIT_MAX,
		.name = "commons",
	};
	struct kvc_cache *c;
	struct kvc *ctx;

	ASSERT_EQ(0, kvc_open("local:bytes=1M,page=64K", NULL, &ctx));
	ASSERT_EQ(0, kvc_call(ctx, KVCACHE_NR_TENANT_CREATE, &t));
	o.domain = t.out_tenant + 1;
	EXPECT_EQ(-ENOENT, kvc_cache_create(ctx, &m, &o, &c));
	EXPECT_NE(NULL, strstr(kvc_errmsg(ctx), "domain: there is no tenant"));
	o.domain = UINT32_MAX;
	EXPECT_EQ(-ENOENT, kvc_cache_create(ctx, &m, &o, &c));
	kvc_close(ctx);

	/* One that gives no grant yet, and the own one by its number. */
	ASSERT_EQ(0, kvc_open("local:bytes=1M,page=64K", NULL, &ctx));
	ASSERT_EQ(0, kvc_call(ctx, KVCACHE_NR_TENANT_CREATE, &t));
	o.domain = t.out_tenant;
	ASSERT_EQ(0, kvc_cache_create(ctx, &m, &o, &c));
	EXPECT_STREQ("", kvc_errmsg(ctx));
	kvc_cache_destroy(c);
	o.domain = ctx->tenant;
	ASSERT_EQ(0, kvc_cache_create(ctx, &m, &o, &c));
	EXPECT_STREQ("", kvc_errmsg(ctx));
	kvc_cache_destroy(c);
	kvc_close(ctx);
}

TEST_HARNESS_MAIN
