// SPDX-License-Identifier: MIT
/*
 * setup.c - a pool and a tenant for programs that a test runs.
 *
 *	setup POOL PAGE_SIZE PAGES TENANT	make both, without limits
 *	setup -r POOL TENANT			remove both
 *
 * The tenant is root's, so that programs that name none attach to it. A pool
 * is removed when the last page of it has come back.
 */
#include <stdarg.h>

#include "dev_kit.h"

__attribute__((format(printf, 1, 2), noreturn))
static void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("setup: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	exit(1);
}

static void make(int fd, char **arg)
{
	int pool, tenant;

	pool = dev_pool(fd, arg[0], strtoull(arg[1], NULL, 0),
			strtoull(arg[2], NULL, 0));
	if (pool < 0)
		fail("pool %s: %s", arg[0], strerror(-pool));
	tenant = dev_tenant(fd, arg[3], pool, 0, KVCACHE_LIMIT_MAX);
	if (tenant < 0)
		fail("tenant %s: %s", arg[3], strerror(-tenant));
}

static void drop(int fd, char **arg)
{
	struct kvcache_tenant_ref ref = { .size = sizeof(ref) };
	struct kvcache_tenant_get g;
	struct kvcache_query q;
	uint32_t k, pool;
	int err;

	POISON(q);
	err = dev_call(fd, KVCACHE_NR_QUERY, &q);
	for (k = 0; !err && k < q.out_nr_pools; k++)
		if (!strcmp(q.out_pools[k].name, arg[0]))
			break;
	if (err || k == q.out_nr_pools)
		fail("no pool %s", arg[0]);
	pool = q.out_pools[k].id;

	POISON(g);
	g.pool = pool;
	g.start = 0;
	err = dev_call(fd, KVCACHE_NR_TENANT_GET, &g);
	for (k = 0; !err && k < g.out_nr; k++)
		if (!strcmp(g.out_info[k].name, arg[1]))
			ref.tenant = g.out_info[k].id;
	if (!ref.tenant)
		fail("no tenant %s", arg[1]);

	err = dev_call(fd, KVCACHE_NR_TENANT_REMOVE, &ref);
	if (err)
		fail("tenant %s: %s", arg[1], strerror(-err));
	for (k = 0; k < 1000; k++) {
		err = dev_pool_op(fd, pool, KVCACHE_POOL_REMOVE, 0, NULL);
		if (err != -EBUSY)
			break;
		usleep(5000);
	}
	if (err)
		fail("pool %s: %s", arg[0], strerror(-err));
	if (strcmp(dev_verify(), "ok"))
		fail("verify: %s", dev_verify());
}

int main(int argc, char **argv)
{
	int fd = dev_open();

	if (fd < 0)
		fail(DEVICE ": %s", strerror(errno));
	if (argc == 4 && !strcmp(argv[1], "-r"))
		drop(fd, argv + 2);
	else if (argc == 5)
		make(fd, argv + 1);
	else
		fail("POOL PAGE_SIZE PAGES TENANT, or -r POOL TENANT");
	return 0;
}
