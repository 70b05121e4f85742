/* SPDX-License-Identifier: MIT */
/*
 * device.h - the same tests on the kernel's module or on a broker: the device or
 * the socket that $KVCACHE_TEST_DEVICE names, on which each test gets a pool and
 * a tenant of its own. Needs its administrator, and nobody else to use it:
 * selftests/vm/ and selftests/broker/ have it so.
 */
#ifndef UNIT_DEVICE_H
#define UNIT_DEVICE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "harness.h"
#include "sys.h"

/* The path of either, or NULL: tests are of the in-process backend. */
static inline const char *device_path(void)
{
	const char *path = getenv("KVCACHE_TEST_DEVICE");

	return path && *path ? path : NULL;
}

static inline bool device_is_broker(void)
{
	struct stat st;

	return device_path() && !stat(device_path(), &st) &&
	       S_ISSOCK(st.st_mode);
}

/* "local", "device" or "broker". */
static inline const char *device_kind(void)
{
	return !device_path() ? "local" :
	       device_is_broker() ? "broker" : "device";
}

static inline int device_open(struct kvc_sys **out)
{
	return device_is_broker() ? kvc_sys_broker_open(device_path(), out) :
				    kvc_sys_dev_open(device_path(), out);
}

/* A test that cannot be had on either ends here. */
#define NOT_ON_DEVICE(why)						\
	do {								\
		if (device_path())					\
			SKIP(return, "not on the %s: " why,		\
			     device_kind());				\
	} while (0)

static inline int device_pool_op(struct kvc_sys *s, uint32_t pool, uint32_t op)
{
	struct kvcache_pool_set set = {
		.size = sizeof(set), .op = op, .pool = pool,
	};

	return s->ops->call(s, KVCACHE_NR_POOL_SET, &set);
}

/* Waits until no page of the pool is on its way: they are zeroed, or truncated. */
static inline void device_settle(struct kvc_sys *s, uint32_t pool)
{
	struct kvcache_query q = { .size = sizeof(q) };
	uint32_t k, tries;

	for (tries = 0; tries < 2000; tries++) {
		ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_QUERY, &q));
		for (k = 0; k < q.out_nr_pools; k++)
			if (q.out_pools[k].id == pool)
				break;
		if (k == q.out_nr_pools || !q.out_pools[k].nr_retiring)
			return;
		usleep(1000);
	}
	ht_log("pages stay on their way");
}

/* Tenants are listed with a pool. */
static inline void device_sweep_tenants(struct kvc_sys *s, uint32_t pool)
{
	struct kvcache_tenant_ref ref = { .size = sizeof(ref) };
	struct kvcache_tenant_get g = { .size = sizeof(g), .pool = pool };

	while (!s->ops->call(s, KVCACHE_NR_TENANT_GET, &g) && g.out_nr) {
		for (uint32_t k = 0; k < g.out_nr; k++) {
			ref.tenant = g.out_info[k].id;
			s->ops->call(s, KVCACHE_NR_TENANT_REMOVE, &ref);
		}
		g.start = g.out_info[g.out_nr - 1].id + 1;
	}
}

/* All pools go, also those of a test that failed, and their tenants. */
static inline void device_sweep(struct kvc_sys *s)
{
	for (uint32_t pool = 0; pool < KVCACHE_MAX_POOLS; pool++) {
		device_sweep_tenants(s, pool);
		device_settle(s, pool);
		device_pool_op(s, pool, KVCACHE_POOL_REMOVE);
	}
}

/*
 * A pool and a tenant of the caller, named as those in a process: the pool is
 * number 0, tenants' numbers go on. Returns the open that made them, which is
 * to be given to device_end().
 */
static inline struct kvc_sys *device_begin(uint64_t page_size, uint64_t pages,
					   uint64_t max, uint32_t *tenant_id)
{
	struct kvcache_pool_set pool = {
		.size = sizeof(pool), .op = KVCACHE_POOL_CREATE,
		.page_size = page_size, .nr_pages = pages, .name = "local",
	};
	struct kvcache_tenant_set tenant = {
		.size = sizeof(tenant), .uid = getuid(), .gid = getgid(),
		.set = KVCACHE_SET_OWNER | KVCACHE_SET_LIMITS,
		.mode = 0400, .max = max ? max : KVCACHE_LIMIT_MAX,
		.name = "default",
	};
	struct kvc_sys *s;

	ASSERT_EQ(0, device_open(&s));
	device_sweep(s);
	ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_POOL_SET, &pool));
	ASSERT_EQ(0, pool.out_pool);
	device_sweep_tenants(s, 0);
	ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_TENANT_CREATE, &tenant));
	*tenant_id = tenant.out_tenant;
	return s;
}

/* Nobody may hold anything of it any more. */
static inline void device_end(struct kvc_sys *s)
{
	struct kvcache_query q = { .size = sizeof(q) };

	device_sweep(s);
	ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_QUERY, &q));
	EXPECT_EQ(0, q.out_nr_pools);
	s->ops->close(s);
}

#endif /* UNIT_DEVICE_H */
