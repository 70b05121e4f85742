// SPDX-License-Identifier: MIT
/*
 * ioctl.c - kvcache-bench ioctl: what a command of /dev/kvcache costs beside an
 * ioctl that does nothing, and what the first touch of a page costs.
 *
 * The ioctl that does nothing is one of the device's own that it does not
 * know: the way there and back, and no more. It is measured in turn with
 * everything else, a round each.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <linux/kvcache.h>

#include "bench.h"

#define DEVICE		"/dev/kvcache"
#define NAME		"kvcache-bench"
#define SMALL		(64UL << 10)
#define HUGE		(2UL << 20)
#define NR_SMALL	512	/* pages of the pools */
#define NR_HUGE		16
#define BATCH		KVCACHE_MAX_PAGES
#define ENOUGH		2e-3	/* seconds that a measurement lasts */
#define GOAL		4.0	/* null ioctls, for a page in a batch */

/**
 * struct bench_dev - the device, a client of a tenant of our own, two pools
 * @small, @huge: numbers of the pools
 */
struct bench_dev {
	int fd;
	uint32_t tenant, small, huge;
	uint64_t pages[BATCH];
	struct kvcache_alloc alloc;
	struct kvcache_free free;
	struct kvcache_lookup lookup;
};

/* Something to be measured: seconds of @n of it. */
struct op {
	const char *name;
	const char *key;
	double (*fn)(struct bench_dev *d, uint32_t arg, uint32_t n);
	uint32_t arg;
	bool goal;
	uint32_t n;
	double ns[BENCH_ROUNDS], ratio[BENCH_ROUNDS];
};

static int call(int fd, unsigned int nr, void *arg)
{
	return ioctl(fd, KVCACHE_IO(nr), arg) < 0 ? -errno : 0;
}

static void must(struct bench_dev *d, unsigned int nr, void *arg,
		 const char *what)
{
	int err = call(d->fd, nr, arg);

	if (err)
		bench_die("%s: %s", what, strerror(-err));
}

/* ---- pools and a tenant -------------------------------------------------- */

static uint32_t pool_make(struct bench_dev *d, const char *name,
			  uint64_t page_size, uint64_t nr)
{
	struct kvcache_pool_set s = {
		.size = sizeof(s), .op = KVCACHE_POOL_CREATE,
		.page_size = page_size, .nr_pages = nr,
	};
	int err;

	strcpy(s.name, name);
	err = call(d->fd, KVCACHE_NR_POOL_SET, &s);
	if (err == -EPERM)
		bench_die("makes pools of its own: needs to be root");
	if (err)
		bench_die("no pool of %llu MiB: %s",
			  (unsigned long long)(page_size * nr >> 20),
			  strerror(-err));
	return s.out_pool;
}

/* It may take a moment until the last page is zeroed. */
static void pool_remove(struct bench_dev *d, uint32_t pool)
{
	struct kvcache_pool_set s = {
		.size = sizeof(s), .op = KVCACHE_POOL_REMOVE, .pool = pool,
	};
	int k;

	for (k = 0; k < 1000 && call(d->fd, KVCACHE_NR_POOL_SET, &s) == -EBUSY;
	     k++)
		usleep(10000);
}

static void dev_begin(struct bench_dev *d)
{
	struct kvcache_tenant_set t = { .size = sizeof(t), .name = NAME };
	struct kvcache_attach a = {
		.size = sizeof(a), .by = KVCACHE_ATTACH_NAME, .name = NAME,
	};

	d->small = pool_make(d, NAME "-64K", SMALL, NR_SMALL);
	d->huge = pool_make(d, NAME "-2M", HUGE, NR_HUGE);
	must(d, KVCACHE_NR_TENANT_CREATE, &t, "tenant");
	d->tenant = t.out_tenant;
	must(d, KVCACHE_NR_ATTACH, &a, "attach");
}

/* A tenant goes when its last client has. */
static void dev_end(struct bench_dev *d, const char *path)
{
	struct kvcache_tenant_ref r = {
		.size = sizeof(r), .tenant = d->tenant,
	};

	close(d->fd);
	d->fd = open(path, O_RDWR | O_CLOEXEC);
	must(d, KVCACHE_NR_TENANT_REMOVE, &r, "tenant");
	pool_remove(d, d->small);
	pool_remove(d, d->huge);
	close(d->fd);
}

static void take(struct bench_dev *d, uint32_t pool, uint32_t nr)
{
	d->alloc.size = sizeof(d->alloc);
	d->alloc.pool = pool;
	d->alloc.nr = nr;
	must(d, KVCACHE_NR_ALLOC, &d->alloc, "ALLOC");
}

static void give(struct bench_dev *d, uint32_t pool, uint32_t nr)
{
	d->free.size = sizeof(d->free);
	d->free.pool = pool;
	d->free.nr = nr;
	must(d, KVCACHE_NR_FREE, &d->free, "FREE");
}

static void give_taken(struct bench_dev *d, uint32_t pool, uint32_t nr)
{
	memcpy(d->free.pages, d->alloc.out_pages, nr * sizeof(uint64_t));
	give(d, pool, nr);
}

/* ---- what is measured ---------------------------------------------------- */

static double nothing(struct bench_dev *d, uint32_t unused, uint32_t n)
{
	double t = bench_seconds();
	uint32_t k;

	for (k = 0; k < n; k++)
		ioctl(d->fd, KVCACHE_IO(0xff), NULL);
	return bench_seconds() - t;
}

static double query(struct bench_dev *d, uint32_t unused, uint32_t n)
{
	struct kvcache_query q = { .size = sizeof(q) };
	double t = bench_seconds();
	uint32_t k;

	for (k = 0; k < n; k++)
		must(d, KVCACHE_NR_QUERY, &q, "QUERY");
	return bench_seconds() - t;
}

/* Pages that nobody touches are zeros as they are. */
static double alloc_free(struct bench_dev *d, uint32_t batch, uint32_t n)
{
	double t = bench_seconds();
	uint32_t k;

	for (k = 0; k < n; k += batch) {
		take(d, d->small, batch);
		give_taken(d, d->small, batch);
	}
	return bench_seconds() - t;
}

static void key_of(uint32_t k, uint8_t *key)
{
	memset(key, 0, KVCACHE_KEY_LEN);
	memcpy(key, &k, sizeof(k));
}

/* One page a key, CACHED. */
static void publish_keys(struct bench_dev *d)
{
	static struct kvcache_publish p;
	uint32_t k, j;

	take(d, d->small, BATCH);
	for (k = 0; k < BATCH; k += KVCACHE_MAX_PUBLISH) {
		p.size = sizeof(p);
		p.pool = d->small;
		p.nr = KVCACHE_MAX_PUBLISH;
		for (j = 0; j < KVCACHE_MAX_PUBLISH; j++) {
			struct kvcache_publish_page *e = &p.pages[j];

			e->handle = d->alloc.out_pages[k + j];
			e->nr_keys = 1;
			e->ttl_ns = KVCACHE_TIME_NEVER;
			e->keys[0].fill = 1;
			key_of(k + j, e->keys[0].key);
		}
		must(d, KVCACHE_NR_PUBLISH, &p, "PUBLISH");
	}
	give_taken(d, d->small, BATCH);
}

/* References are taken, and dropped out of the measurement. */
static double lookup(struct bench_dev *d, uint32_t batch, uint32_t n)
{
	struct kvcache_lookup *l = &d->lookup;
	double sum = 0, t;
	uint32_t k, j;

	l->size = sizeof(*l);
	l->pool = d->small;
	l->nr_keys = batch;
	l->keys_per_page = 1;
	for (k = 0; k < batch; k++)
		key_of(k, l->keys[k]);
	for (k = 0; k < n; k += batch) {
		t = bench_seconds();
		must(d, KVCACHE_NR_LOOKUP, l, "LOOKUP");
		sum += bench_seconds() - t;
		if (l->out_nr_pages != batch)
			bench_die("LOOKUP found %u of %u", l->out_nr_pages,
				  batch);
		for (j = 0; j < batch; j++)
			d->free.pages[j] = l->out_found[j].handle;
		give(d, d->small, batch);
	}
	return sum;
}

/* The writable window, from where a huge page can begin. */
static char *window_map(struct bench_dev *d, uint32_t pool, size_t bytes)
{
	struct kvcache_query q = { .size = sizeof(q) };
	uint64_t offset = 0;
	uint32_t k;
	char *at;

	must(d, KVCACHE_NR_QUERY, &q, "QUERY");
	for (k = 0; k < q.out_nr_pools; k++)
		if (q.out_pools[k].id == pool)
			offset = q.out_pools[k].rw_offset;
	at = mmap(NULL, bytes + HUGE, PROT_NONE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		bench_die("no addresses");
	at += -(uintptr_t)at & (HUGE - 1);
	if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 d->fd, offset) == MAP_FAILED)
		bench_die("mmap: %s", strerror(errno));
	return at;
}

/* Pages are new each time: what was freed is mapped no more. */
static double touch(struct bench_dev *d, uint32_t step, uint32_t n)
{
	bool huge = step == HUGE;
	uint32_t pool = huge ? d->huge : d->small;
	uint32_t nr = huge ? NR_HUGE : BATCH;
	size_t size = huge ? HUGE : SMALL, b;
	char *at = window_map(d, pool, size * ((huge ? NR_HUGE : NR_SMALL) + 1));
	double sum = 0, t;
	uint32_t k, done;

	for (done = 0; done < n; done += nr * (size / step)) {
		take(d, pool, nr);
		t = bench_seconds();
		for (k = 0; k < nr; k++)
			for (b = 0; b < size; b += step)
				at[(uint32_t)d->alloc.out_pages[k] * size + b] = 1;
		sum += bench_seconds() - t;
		give_taken(d, pool, nr);
	}
	munmap(at, size * ((huge ? NR_HUGE : NR_SMALL) + 1));
	return sum;
}

/* Faults that it took to write to all of 2 MiB. */
static long huge_faults(struct bench_dev *d)
{
	char *window = window_map(d, d->huge, HUGE * (NR_HUGE + 1)), *at;
	struct rusage before, after;
	size_t b;

	take(d, d->huge, 1);
	at = window + (uint32_t)d->alloc.out_pages[0] * HUGE;
	getrusage(RUSAGE_SELF, &before);
	for (b = 0; b < HUGE; b += 4096)
		at[b] = 1;
	getrusage(RUSAGE_SELF, &after);
	give_taken(d, d->huge, 1);
	munmap(window, HUGE * (NR_HUGE + 1));
	return after.ru_minflt - before.ru_minflt;
}

static struct op ops[] = {
	{ .name = "an ioctl that does nothing", .key = "null", .fn = nothing },
	{ .name = "QUERY", .key = "query", .fn = query },
	{ .name = "ALLOC and FREE of a page, 1 at a time", .key = "page-1",
	  .fn = alloc_free, .arg = 1 },
	{ .name = "ALLOC and FREE of a page, 16 at a time", .key = "page-16",
	  .fn = alloc_free, .arg = 16, .goal = true },
	{ .name = "ALLOC and FREE of a page, 256 at a time", .key = "page-256",
	  .fn = alloc_free, .arg = 256, .goal = true },
	{ .name = "LOOKUP of a key, 256 at a time", .key = "key-256",
	  .fn = lookup, .arg = 256 },
	{ .name = "first touch of 4 KiB", .key = "touch-4K", .fn = touch,
	  .arg = 4096 },
	{ .name = "first touch of a 2 MiB page", .key = "touch-2M",
	  .fn = touch, .arg = HUGE },
};
#define NR_OPS (sizeof(ops) / sizeof(ops[0]))

/* ---- measuring ----------------------------------------------------------- */

static double measure(struct bench_dev *d, struct op *op)
{
	return op->fn(d, op->arg, op->n) / op->n;
}

static void calibrate(struct bench_dev *d, struct op *op)
{
	op->n = op->arg == HUGE ? NR_HUGE : 4096;
	while (measure(d, op) * op->n < ENOUGH)
		op->n *= 2;
}

/* True if the goal is met. */
static bool report(int json, long faults)
{
	struct bench_stat ns, ratio;
	bool good = true;
	size_t k;

	if (json)
		printf("{\"goal\":%g,\"faults_of_2M\":%ld,\"operations\":[",
		       GOAL, faults);
	else
		printf("%-40s %10s %8s\n", "median", "ns", "x null");
	for (k = 0; k < NR_OPS; k++) {
		ns = bench_stat(ops[k].ns, BENCH_ROUNDS);
		ratio = bench_stat(ops[k].ratio, BENCH_ROUNDS);
		good &= !ops[k].goal || ratio.median <= GOAL;
		if (json)
			printf("%s{\"name\":\"%s\",\"ns\":%.1f,\"ratio\":%.3f,\"ratio_min\":%.3f,\"ratio_max\":%.3f}",
			       k ? "," : "", ops[k].key, ns.median,
			       ratio.median, ratio.min, ratio.max);
		else
			printf("%-40s %10.0f %8.2f  (%.2f to %.2f)%s\n",
			       ops[k].name, ns.median, ratio.median, ratio.min,
			       ratio.max, !ops[k].goal ? "" :
			       ratio.median <= GOAL ? "" : "  above the goal");
	}
	if (json)
		printf("],\"goal_met\":%s}\n", good ? "true" : "false");
	else
		printf("a 2 MiB page takes %ld faults; the goal of a page in a batch is %g\n",
		       faults, GOAL);
	return good;
}

static void usage(FILE *f)
{
	fprintf(f,
		"Usage: kvcache-bench ioctl [OPTION]...\n"
		"What commands of the device cost beside an ioctl that does nothing, and\n"
		"the first touch of a page. Makes two pools and a tenant of its own, so it\n"
		"needs to be root.\n\n"
		"  --device FILE  default " DEVICE "\n"
		"  --check        exit with 1 if ALLOC and FREE of a page that was never\n"
		"                 mapped, 16 or 256 at a time, is above %g times that\n"
		"  --json         figures for programs\n"
		"  --help         this text\n", GOAL);
}

int bench_ioctl(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "device", required_argument, NULL, 'd' },
		{ "check", no_argument, NULL, 'c' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 }
	};
	const char *path = DEVICE;
	static struct bench_dev d;
	int c, json = 0, check = 0, round;
	size_t k;
	bool good;
	long faults;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'd':
			path = optarg;
			break;
		case 'c':
			check = 1;
			break;
		case 'j':
			json = 1;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind != argc) {
		usage(stderr);
		return 2;
	}
	d.fd = open(path, O_RDWR | O_CLOEXEC);
	if (d.fd < 0 && errno == ENOENT) {
		fprintf(stderr, "skipped: no %s\n", path);
		return 0;
	}
	if (d.fd < 0)
		bench_die("%s: %s", path, strerror(errno));
	dev_begin(&d);
	faults = huge_faults(&d);
	publish_keys(&d);
	for (k = 0; k < NR_OPS; k++)
		calibrate(&d, &ops[k]);
	for (round = 0; round < BENCH_ROUNDS; round++)
		for (k = 0; k < NR_OPS; k++) {
			bench_progress("round %d of %d", round + 1,
				       BENCH_ROUNDS);
			ops[k].ns[round] = measure(&d, &ops[k]) * 1e9;
			ops[k].ratio[round] = ops[k].ns[round] /
					      ops[0].ns[round];
		}
	bench_progress_clear();
	dev_end(&d, path);
	good = report(json, faults);
	return check && !good;
}
