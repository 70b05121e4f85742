/* SPDX-License-Identifier: MIT */
/*
 * waiter.h - processes that wait for pages: red's, mostly, while blue has all.
 */
#ifndef WAITER_H
#define WAITER_H

#include "child.h"

#define MS	1000000ULL

/**
 * struct waiter - a process with one request
 * @tenant: its tenant
 * @pool: the pool
 * @nr: pages
 * @deadline_ns: until when
 * @restart: its signals restart calls
 * @pid: the process
 * @done: it is over
 * @rc: what it came to
 * @at: when
 * @a: the struct afterwards
 */
struct waiter {
	const char *tenant;
	uint32_t pool;
	uint32_t nr;
	uint64_t deadline_ns;
	bool restart;
	pid_t pid;
	volatile int done;
	int rc;
	uint64_t at;
	struct kvcache_alloc a;
};

#define WAITERS	4

/*
 * Blue has all pages.
 */
FIXTURE(wait) {
	struct world w;
	uint64_t held[PAGES];
	struct waiter *waiter;
};

FIXTURE_SETUP(wait)
{
	struct world *w = &self->w;

	ASSERT_EQ(0, world_make(w, PAGE, PAGES));
	self->waiter = shared_memory(WAITERS * sizeof(*self->waiter));
	ASSERT_NE(MAP_FAILED, (void *)self->waiter);
	ASSERT_EQ(0, dev_alloc(w->fd[1], w->pool, PAGES, self->held));
}

static inline int end_waiter(struct waiter *r)
{
	pid_t pid = r->pid;

	r->pid = 0;
	if (!pid)
		return 0;
	kill(pid, SIGKILL);
	return child_end(pid);
}

FIXTURE_TEARDOWN(wait)
{
	int k;

	for (k = 0; k < WAITERS; k++)
		end_waiter(&self->waiter[k]);
	EXPECT_EQ(0, world_end(&self->w));
}

static inline void on_signal(int sig)
{
}

/* It keeps what it got until it is killed. */
static inline int wait_for_pages(void *arg)
{
	struct waiter *r = arg;
	struct sigaction sa = {
		.sa_handler = on_signal,
		.sa_flags = r->restart ? SA_RESTART : 0,
	};
	int fd = dev_client(r->tenant);

	MUST(fd >= 0);
	sigaction(SIGUSR1, &sa, NULL);
	POISON(r->a);
	r->a.pool = r->pool;
	r->a.nr = r->nr;
	r->a.deadline_ns = r->deadline_ns;
	r->rc = dev_call(fd, KVCACHE_NR_ALLOC, &r->a);
	r->at = dev_now();
	r->done = 1;
	for (;;)
		pause();
}

static inline uint64_t waiting(const struct world *w)
{
	struct kvcache_pool_info p = { .waiters = ~0ULL };

	dev_pool_info(w->admin, w->pool, &p);
	return p.waiters;
}

/* Returns when the request waits, or is over. */
static inline bool start(const struct world *w, struct waiter *r, int tenant,
		  uint32_t nr, uint64_t deadline_ns)
{
	uint64_t before = waiting(w);

	r->tenant = tenant ? "blue" : "red";
	r->pool = w->pool;
	r->nr = nr;
	r->deadline_ns = deadline_ns;
	r->done = 0;
	r->pid = child_start(wait_for_pages, r);
	return SOON(r->done || waiting(w) == before + 1);
}

static inline bool gets_its_pages(struct waiter *r)
{
	return SOON(r->done) && r->rc == 0;
}

/* Pages that nobody waits for are zeroed and free, and then nobody got them. */
static inline bool settled(const struct world *w, uint64_t free)
{
	return dev_settles(w->admin, w->pool, free);
}

static inline int give(struct world *w, const uint64_t *pages, uint32_t nr)
{
	return dev_free(w->fd[1], w->pool, pages, nr);
}

#endif /* WAITER_H */
