/* SPDX-License-Identifier: MIT */
/*
 * kit.h - one pool and a few tenants of a real backend, and processes that use
 * them: $KVCACHE_TEST_DEVICE is a device or a broker's socket that nobody else
 * uses; where it is not set, a broker is started, and ended by its number.
 */
#ifndef SCENARIO_KIT_H
#define SCENARIO_KIT_H

#include <dirent.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include <kvcache/broker.h>

#include "harness.h"
#include "sys.h"

#define PAGE		65536UL
#define NEVER		KVCACHE_TIME_NEVER
#define NO_LIMIT	KVCACHE_LIMIT_MAX
#define SECOND		1000000000ULL

/**
 * struct place - a backend with one pool
 * @path: of its device or socket
 * @dir: of the socket, "" if it is not ours
 * @log: what the broker says
 * @broker: its process, or 0
 * @admin: an open that is attached to nothing
 * @pool: the pool
 */
struct place {
	char path[100];
	char dir[64];
	char log[128];
	pid_t broker;
	struct kvc_sys *admin;
	uint32_t pool;
};

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

/* xorshift64* */
static inline uint32_t rnd(uint64_t *s)
{
	*s ^= *s >> 12;
	*s ^= *s << 25;
	*s ^= *s >> 27;
	return (*s * 2685821657736338717ULL) >> 32;
}

static inline uint64_t rnd_seed(uint64_t seed, uint64_t n)
{
	uint64_t s = (seed * 0x9e3779b97f4a7c15ULL) ^
		     ((n + 1) * 0xbf58476d1ce4e5b9ULL);

	s = s ? s : 1;
	rnd(&s);
	return s;
}

/* The seed of this run, which is told. */
static inline uint64_t any_seed(void)
{
	const char *s = getenv("SEED");
	uint64_t seed = s && *s ? strtoull(s, NULL, 0) : now_ns() % 1000000;

	ht_log("seed %" PRIu64, seed);
	return seed;
}

static inline uint32_t amount(const char *name, uint32_t by_default)
{
	const char *s = getenv(name);

	return s && *s ? strtoul(s, NULL, 0) : by_default;
}

/* ---- a broker's socket, by hand ------------------------------------------- */

static inline int raw_connect(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(0, connect(fd, (struct sockaddr *)&a, sizeof(a)));
	return fd;
}

/* The result of one command; descriptors that come are not taken. */
static inline int raw_call(int fd, uint32_t nr, const void *arg)
{
	struct kvcb_head head = { .magic = KVCB_MAGIC, .nr = nr };
	struct iovec iov[2] = {
		{ &head, sizeof(head) }, { (void *)arg, *(const uint32_t *)arg },
	};
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };

	ASSERT_LT(0, sendmsg(fd, &m, MSG_NOSIGNAL));
	do {
		ASSERT_LE(sizeof(head), recv(fd, &head, sizeof(head), 0));
	} while (head.nr == KVCB_NR_PAGES);
	return head.rc;
}

/* ---- the backend --------------------------------------------------------- */

static inline int sys_open(const char *path, struct kvc_sys **out)
{
	struct stat st;

	if (stat(path, &st))
		return -errno;
	return S_ISSOCK(st.st_mode) ? kvc_sys_broker_open(path, out) :
	       kvc_sys_dev_open(path, out);
}

static inline int sys_call(struct kvc_sys *s, unsigned int nr, void *arg)
{
	int rc;

	do {
		rc = s->ops->call(s, nr, arg);
	} while (rc == -EINTR);
	return rc;
}

static inline void start_broker(struct place *p)
{
	const char *build = getenv("KVCACHE_BUILD");
	char program[512];

	snprintf(program, sizeof(program), "%s/kvcache-broker",
		 build ? build : "build");
	strcpy(p->dir, "/tmp/kvcache-XXXXXX");
	ASSERT_TRUE(mkdtemp(p->dir) != NULL);
	snprintf(p->path, sizeof(p->path), "%s/broker", p->dir);
	snprintf(p->log, sizeof(p->log), "%s/log", p->dir);
	p->broker = fork();
	ASSERT_GE(p->broker, 0);
	if (!p->broker) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!freopen(p->log, "w", stderr))
			_exit(127);
		execl(program, "kvcache-broker", "--socket", p->path, NULL);
		_exit(127);
	}
	for (int k = 0; k < 2000 && access(p->path, F_OK); k++) {
		ASSERT_EQ(0, waitpid(p->broker, NULL, WNOHANG));
		usleep(5000);
	}
}

static inline int pool_set(struct place *p, uint32_t op, uint64_t page_size,
			   uint64_t nr_pages)
{
	struct kvcache_pool_set set = {
		.size = sizeof(set), .op = op, .pool = p->pool,
		.page_size = page_size, .nr_pages = nr_pages,
	};
	int rc;

	if (op == KVCACHE_POOL_CREATE)
		strcpy(set.name, "scenario");
	rc = sys_call(p->admin, KVCACHE_NR_POOL_SET, &set);
	if (!rc && op == KVCACHE_POOL_CREATE)
		p->pool = set.out_pool;
	return rc;
}

static inline void place_begin(struct place *p, uint64_t nr_pages)
{
	const char *path = getenv("KVCACHE_TEST_DEVICE");
	int rc = -ENOENT;

	memset(p, 0, sizeof(*p));
	if (path && *path)
		snprintf(p->path, sizeof(p->path), "%s", path);
	else
		start_broker(p);
	for (int k = 0; k < 2000 && rc; k++) {
		rc = sys_open(p->path, &p->admin);
		if (rc)
			usleep(5000);
	}
	ASSERT_EQ(0, rc);
	ASSERT_EQ(0, pool_set(p, KVCACHE_POOL_CREATE, PAGE, nr_pages));
}

static inline struct kvcache_pool_info pool_info(struct place *p)
{
	struct kvcache_query q = { .size = sizeof(q) };
	struct kvcache_pool_info none = { .id = ~0U };

	ASSERT_EQ(0, sys_call(p->admin, KVCACHE_NR_QUERY, &q));
	for (uint32_t k = 0; k < q.out_nr_pools; k++)
		if (q.out_pools[k].id == p->pool)
			return q.out_pools[k];
	return none;
}

/* Pages are given up behind our back: all are free at last, or some are not. */
static inline bool all_free(struct place *p)
{
	struct kvcache_pool_info i;

	for (int k = 0; k < 5000; k++) {
		i = pool_info(p);
		if (i.nr_free == i.nr_pages)
			return true;
		usleep(2000);
	}
	ht_log("free %u private %u shared %u cached %u retiring %u of %u",
	       (uint32_t)i.nr_free, (uint32_t)i.nr_private,
	       (uint32_t)i.nr_shared, (uint32_t)i.nr_cached,
	       (uint32_t)i.nr_retiring, (uint32_t)i.nr_pages);
	return false;
}

static inline bool broker_said(const struct place *p, const char *what)
{
	char line[256];
	FILE *f = fopen(p->log, "r");
	bool said = false;

	while (f && !said && fgets(line, sizeof(line), f))
		said = strstr(line, what);
	if (f)
		fclose(f);
	return said;
}

/* It finds its books right, and ends as it should. */
static inline void broker_end(struct place *p)
{
	int status;

	ASSERT_EQ(0, kill(p->broker, SIGUSR1));
	for (int k = 0; k < 2000 && !broker_said(p, "ledger: "); k++)
		usleep(5000);
	EXPECT_TRUE(broker_said(p, "ledger: ok"));
	kill(p->broker, SIGTERM);
	ASSERT_EQ(p->broker, waitpid(p->broker, &status, 0));
	EXPECT_TRUE(WIFEXITED(status) && !WEXITSTATUS(status));
	unlink(p->log);
	unlink(p->path);
	strcat(p->path, ".lock");
	unlink(p->path);
	EXPECT_EQ(0, rmdir(p->dir));
}

/* All tenants, cached pages and the pool go. */
static inline void place_end(struct place *p)
{
	struct kvcache_tenant_get g = { .size = sizeof(g), .pool = p->pool };
	int rc;

	ASSERT_EQ(0, sys_call(p->admin, KVCACHE_NR_TENANT_GET, &g));
	for (uint32_t k = 0; k < g.out_nr; k++) {
		struct kvcache_tenant_ref r = {
			.size = sizeof(r), .tenant = g.out_info[k].id,
		};

		rc = -EBUSY;
		for (int tries = 0; tries < 2000 && rc == -EBUSY; tries++) {
			rc = sys_call(p->admin, KVCACHE_NR_TENANT_REMOVE, &r);
			if (rc)
				usleep(2000);
		}
		EXPECT_EQ(0, rc);
	}
	EXPECT_TRUE(all_free(p));
	EXPECT_EQ(0, pool_set(p, KVCACHE_POOL_REMOVE, 0, 0));
	p->admin->ops->close(p->admin);
	if (p->broker)
		broker_end(p);
}

/* ---- tenants ------------------------------------------------------------- */

static inline int limits(struct place *p, uint32_t tenant, uint64_t min,
			 uint64_t low, uint64_t max, uint64_t deadline_ns)
{
	struct kvcache_tenant_set set = {
		.size = sizeof(set), .tenant = tenant, .pool = p->pool,
		.set = KVCACHE_SET_LIMITS, .min = min, .low = low, .max = max,
		.deadline_ns = deadline_ns,
	};

	return sys_call(p->admin, KVCACHE_NR_TENANT_SET, &set);
}

static inline uint32_t tenant(struct place *p, const char *name, uint64_t min,
			      uint64_t max)
{
	struct kvcache_tenant_set set = {
		.size = sizeof(set), .uid = getuid(), .gid = getgid(),
		.set = KVCACHE_SET_OWNER, .mode = 0400,
	};

	snprintf(set.name, sizeof(set.name), "%s", name);
	ASSERT_EQ(0, sys_call(p->admin, KVCACHE_NR_TENANT_CREATE, &set));
	ASSERT_EQ(0, limits(p, set.out_tenant, min, 0, max, NEVER));
	return set.out_tenant;
}

static inline int grant(struct place *p, uint32_t from, uint32_t to,
			uint32_t rights, uint64_t max_held)
{
	struct kvcache_tenant_grant g = {
		.size = sizeof(g), .tenant = from, .to = to, .rights = rights,
		.max_held = max_held,
	};

	return sys_call(p->admin, KVCACHE_NR_TENANT_GRANT, &g);
}

/* Its cached pages go. */
static inline int flush(struct place *p, uint32_t id)
{
	struct kvcache_tenant_ref r = {
		.size = sizeof(r), .tenant = id, .pool = p->pool,
	};

	return sys_call(p->admin, KVCACHE_NR_TENANT_FLUSH, &r);
}

static inline struct kvcache_tenant_info tenant_info(struct place *p,
						     uint32_t id)
{
	struct kvcache_tenant_get g = {
		.size = sizeof(g), .pool = p->pool, .start = id,
	};

	ASSERT_EQ(0, sys_call(p->admin, KVCACHE_NR_TENANT_GET, &g));
	ASSERT_TRUE(g.out_nr && g.out_info[0].id == id);
	return g.out_info[0];
}

/* ---- a client ------------------------------------------------------------ */

static inline struct kvc_sys *client(const struct place *p, const char *name)
{
	struct kvcache_attach a = {
		.size = sizeof(a), .by = KVCACHE_ATTACH_NAME,
	};
	struct kvc_sys *s = NULL;

	snprintf(a.name, sizeof(a.name), "%s", name);
	if (sys_open(p->path, &s))
		return NULL;
	if (!sys_call(s, KVCACHE_NR_ATTACH, &a))
		return s;
	s->ops->close(s);
	return NULL;
}

static inline int get(struct kvc_sys *s, uint32_t pool, uint32_t nr,
		      uint64_t deadline_ns, uint64_t *pages)
{
	struct kvcache_alloc a = {
		.size = sizeof(a), .pool = pool, .nr = nr,
		.deadline_ns = deadline_ns,
	};
	int rc = s->ops->call(s, KVCACHE_NR_ALLOC, &a);

	if (!rc)
		memcpy(pages, a.out_pages, nr * sizeof(*pages));
	return rc;
}

static inline int put(struct kvc_sys *s, uint32_t pool, const uint64_t *pages,
		      uint32_t nr)
{
	struct kvcache_free f = { .size = sizeof(f), .pool = pool, .nr = nr };

	memcpy(f.pages, pages, nr * sizeof(*pages));
	return sys_call(s, KVCACHE_NR_FREE, &f);
}

/* Under a key that is a number; into @domain, 0 the own. */
static inline int publish(struct kvc_sys *s, uint32_t pool, uint64_t *page,
			  uint32_t key, uint32_t domain)
{
	struct kvcache_publish c = {
		.size = sizeof(c), .pool = pool, .nr = 1, .domain = domain,
	};
	struct kvcache_publish_page *e = &c.pages[0];
	int rc;

	e->handle = *page;
	e->nr_keys = 1;
	e->priority = KVCACHE_PRIO_DEFAULT;
	e->ttl_ns = NEVER;
	e->keys[0].fill = 1;
	memset(e->keys[0].key, 0x5a, KVCACHE_KEY_LEN);
	memcpy(e->keys[0].key, &key, sizeof(key));
	rc = sys_call(s, KVCACHE_NR_PUBLISH, &c);
	if (!rc)
		*page = e->out_handle;
	return rc;
}

/* Pages found of @nr keys from @key on, with a reference on each. */
static inline int find(struct kvc_sys *s, uint32_t pool, uint32_t key,
		       uint32_t nr, uint32_t flags, uint64_t *pages)
{
	struct kvcache_lookup l = {
		.size = sizeof(l), .flags = flags, .pool = pool, .nr_keys = nr,
		.keys_per_page = 1,
	};
	int rc;

	for (uint32_t k = 0; k < nr; k++) {
		uint32_t n = key + k;

		memset(l.keys[k], 0x5a, KVCACHE_KEY_LEN);
		memcpy(l.keys[k], &n, sizeof(n));
	}
	rc = sys_call(s, KVCACHE_NR_LOOKUP, &l);
	for (uint32_t k = 0; !rc && pages && k < l.out_nr_pages; k++)
		pages[k] = l.out_found[k].handle;
	return rc ? rc : (int)l.out_nr_pages;
}

static inline char *page_at(struct kvc_sys *s, uint32_t pool, uint64_t handle,
			    int writable)
{
	return (char *)s->ops->window(s, pool, writable) +
	       (uint32_t)handle * PAGE;
}

/* ---- processes ----------------------------------------------------------- */

/* Descriptors that a process has. */
static inline uint32_t count_fds(pid_t pid)
{
	char path[64];
	uint32_t nr = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	ASSERT_TRUE(d != NULL);
	while (readdir(d))
		nr++;
	closedir(d);
	return nr;
}

static inline int by_u32(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Of @n numbers, which are sorted, the one that @percent are below. */
static inline uint32_t percentile(uint32_t *v, uint32_t n, uint32_t percent)
{
	qsort(v, n, sizeof(*v), by_u32);
	return v[(uint64_t)(n - 1) * percent / 100];
}

#endif /* SCENARIO_KIT_H */
