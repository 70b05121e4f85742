// SPDX-License-Identifier: MIT
/*
 * sys_dev.c - the backend behind /dev/kvcache: commands are ioctls, pages are
 * mapped from the device.
 *
 * A window is reserved and mapped whole when it is first asked for, as large as
 * the pool can ever be: pages come and go below it, addresses stay.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "sys.h"

#define HUGE_PAGE	(2UL << 20)

struct window {
	char *base;
	size_t bytes;
};

struct sys_dev {
	struct kvc_sys sys;
	int fd;
	struct window window[KVCACHE_MAX_POOLS][2];
};

static struct sys_dev *to_dev(struct kvc_sys *s)
{
	return (struct sys_dev *)s;
}

static int dev_call(struct kvc_sys *s, unsigned int nr, void *arg)
{
	return ioctl(to_dev(s)->fd, KVCACHE_IO(nr), arg) < 0 ? -errno : 0;
}

/* 1 there may be something to read, 0 it is late, or -errno. */
static int wait_readable(int fd, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec ts;
	uint64_t now;
	int rc;

	if (!deadline_ns)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = ts.tv_sec * 1000000000ULL + ts.tv_nsec;
	if (deadline_ns <= now)
		return 0;
	ts.tv_sec = (deadline_ns - now) / 1000000000;
	ts.tv_nsec = (deadline_ns - now) % 1000000000;
	rc = ppoll(&p, 1, deadline_ns == KVCACHE_TIME_NEVER ? NULL : &ts, NULL);
	return rc < 0 ? -errno : rc;
}

static int dev_events(struct kvc_sys *s, struct kvcache_event *ev,
		      unsigned int n, uint64_t deadline_ns)
{
	int fd = to_dev(s)->fd, rc;
	ssize_t got;

	for (;;) {
		got = read(fd, ev, n * sizeof(*ev));
		if (got >= 0)
			return got / sizeof(*ev);
		if (errno != EAGAIN)
			return -errno;
		rc = wait_readable(fd, deadline_ns);
		if (rc <= 0)
			return rc;
	}
}

/* Begins where huge pages can, so that the kernel may map them. */
static void map_window(struct sys_dev *d, const struct kvcache_pool_info *p,
		       int writable)
{
	struct window *w = &d->window[p->id][writable];
	size_t bytes = (p->capacity + 1ULL) * p->page_size, lead;
	int prot = writable ? PROT_READ | PROT_WRITE : PROT_READ;
	char *at;

	at = mmap(NULL, bytes + HUGE_PAGE, PROT_NONE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return;
	lead = -(uintptr_t)at & (HUGE_PAGE - 1);
	if (lead)
		munmap(at, lead);
	munmap(at + lead + bytes, HUGE_PAGE - lead);
	at += lead;
	if (mmap(at, bytes, prot, MAP_SHARED | MAP_FIXED, d->fd,
		 writable ? p->rw_offset : p->ro_offset) == MAP_FAILED) {
		munmap(at, bytes);
		return;
	}
	w->base = at;
	w->bytes = bytes;
}

static void *dev_window(struct kvc_sys *s, uint32_t pool, int writable)
{
	struct sys_dev *d = to_dev(s);
	struct kvcache_query q = { .size = sizeof(q) };

	writable = !!writable;
	if (pool >= KVCACHE_MAX_POOLS)
		return NULL;
	if (d->window[pool][writable].base || dev_call(s, KVCACHE_NR_QUERY, &q))
		return d->window[pool][writable].base;
	for (uint32_t i = 0; i < q.out_nr_pools; i++)
		if (q.out_pools[i].id == pool)
			map_window(d, &q.out_pools[i], writable);
	return d->window[pool][writable].base;
}

static void dev_close(struct kvc_sys *s)
{
	struct sys_dev *d = to_dev(s);
	struct window *w = &d->window[0][0];

	for (size_t i = 0; i < 2 * KVCACHE_MAX_POOLS; i++)
		if (w[i].base)
			munmap(w[i].base, w[i].bytes);
	close(d->fd);
	free(d);
}

static const struct kvc_sys_ops dev_ops = {
	.name = "device",
	.call = dev_call,
	.events = dev_events,
	.window = dev_window,
	.close = dev_close,
};

int kvc_sys_dev_open(const char *path, struct kvc_sys **out)
{
	struct kvcache_query q = { .size = sizeof(q) };
	struct sys_dev *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return -ENOMEM;
	d->sys.ops = &dev_ops;
	/* Reading events must not wait. */
	d->fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (d->fd < 0) {
		err = -errno;
		free(d);
		return err;
	}
	err = dev_call(&d->sys, KVCACHE_NR_QUERY, &q);
	if (!err && q.out_abi_version != KVCACHE_ABI_VERSION)
		err = -EPROTO;
	if (err) {
		dev_close(&d->sys);
		return err;
	}
	*out = &d->sys;
	return 0;
}
