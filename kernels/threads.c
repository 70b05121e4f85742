// SPDX-License-Identifier: MIT
/*
 * threads.c - a small pool of pinned threads. Items are taken one by one from
 * a shared counter; which thread gets which never changes a result.
 *
 * One word holds the state of a run: its number, whether it is open, and how
 * many workers are inside. A worker enters an open run by counting itself in;
 * the caller closes the run when no items are left and waits for those inside
 * only, so a worker that is asleep or preempted delays nobody.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kva.h"

#define INSIDE	0xffffu		/* mask of the workers inside */
#define OPEN	0x10000u
#define RUN	0x20000u	/* one run further; wraps */
#define THREADS_MAX 1024

/* About 30 us: longer than the gap between two kernels of one layer. */
#define SPINS 1000

#define WAKE_WORKERS 1u		/* futex bitsets */
#define WAKE_CALLER 2u

struct worker {
	struct kva_threads *pool;
	pthread_t thread;
	unsigned int number;
};

struct kva_threads {
	unsigned int n;
	unsigned int started;
	unsigned int spins;

	/* written by the caller while the run is closed and nobody inside */
	size_t nitems;
	void (*fn)(void *arg, size_t item, unsigned int thread);
	void *arg;
	int stop;

	uint32_t state __attribute__((aligned(64)));
	uint32_t sleepers;
	uint32_t caller_sleeps;
	size_t next __attribute__((aligned(64)));

	struct worker *workers;
};

static void futex_wait(uint32_t *word, uint32_t val, uint32_t bits)
{
	syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, val, NULL, NULL,
		bits);
}

static void futex_wake(uint32_t *word, uint32_t bits)
{
	syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL,
		NULL, bits);
}

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

static void work(struct kva_threads *t, unsigned int thread)
{
	size_t i;

	while ((i = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED)) <
	       t->nitems)
		t->fn(t->arg, i, thread);
}

/* Wait until the state is no longer @seen; the new state. */
static uint32_t worker_wait(struct kva_threads *t, uint32_t seen)
{
	unsigned int i;
	uint32_t now;

	for (i = 0; i < t->spins; i++) {
		now = __atomic_load_n(&t->state, __ATOMIC_ACQUIRE);
		if (now != seen)
			return now;
		relax();
	}
	__atomic_fetch_add(&t->sleepers, 1, __ATOMIC_SEQ_CST);
	futex_wait(&t->state, seen, WAKE_WORKERS);
	__atomic_fetch_sub(&t->sleepers, 1, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&t->state, __ATOMIC_ACQUIRE);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct kva_threads *t = w->pool;
	uint32_t state, left, done = 0;

	state = __atomic_load_n(&t->state, __ATOMIC_ACQUIRE);
	for (;;) {
		if (!(state & OPEN) || (state & ~INSIDE) == done) {
			state = worker_wait(t, state);
			continue;
		}
		if (!__atomic_compare_exchange_n(&t->state, &state, state + 1,
						 0, __ATOMIC_ACQ_REL,
						 __ATOMIC_ACQUIRE))
			continue;
		if (t->stop)
			return NULL;
		done = state & ~INSIDE;
		work(t, w->number);
		left = __atomic_sub_fetch(&t->state, 1, __ATOMIC_SEQ_CST);
		if (!(left & (OPEN | INSIDE)) &&
		    __atomic_load_n(&t->caller_sleeps, __ATOMIC_SEQ_CST))
			futex_wake(&t->state, WAKE_CALLER);
		state = left;
	}
}

/* Open the next run, and wake who sleeps. */
static void open_run(struct kva_threads *t)
{
	uint32_t state = __atomic_load_n(&t->state, __ATOMIC_RELAXED);

	__atomic_store_n(&t->state, (state + RUN) | OPEN, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&t->sleepers, __ATOMIC_SEQ_CST))
		futex_wake(&t->state, WAKE_WORKERS);
}

/* Let nobody else in, and wait for those inside. */
static void close_run(struct kva_threads *t)
{
	uint32_t state;
	unsigned int i;

	state = __atomic_and_fetch(&t->state, ~OPEN, __ATOMIC_SEQ_CST);
	for (i = 0; (state & INSIDE) && i < t->spins; i++) {
		relax();
		state = __atomic_load_n(&t->state, __ATOMIC_ACQUIRE);
	}
	if (!(state & INSIDE))
		return;
	__atomic_store_n(&t->caller_sleeps, 1, __ATOMIC_SEQ_CST);
	while ((state = __atomic_load_n(&t->state, __ATOMIC_SEQ_CST)) & INSIDE)
		futex_wait(&t->state, state, WAKE_CALLER);
	__atomic_store_n(&t->caller_sleeps, 0, __ATOMIC_RELAXED);
}

void kva_threads_run(struct kva_threads *t, size_t nitems,
		     void (*fn)(void *arg, size_t item, unsigned int thread),
		     void *arg)
{
	size_t i;

	if (!t || t->n == 1 || nitems <= 1) {
		for (i = 0; i < nitems; i++)
			fn(arg, i, 0);
		return;
	}
	t->nitems = nitems;
	t->fn = fn;
	t->arg = arg;
	__atomic_store_n(&t->next, 0, __ATOMIC_RELAXED);
	open_run(t);
	work(t, 0);
	close_run(t);
}

unsigned int kva_threads_count(const struct kva_threads *t)
{
	return t ? t->n : 1;
}

/* The i-th CPU of a set. */
static int nth_cpu(const cpu_set_t *set, unsigned int i)
{
	int cpu;

	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, set) && !i--)
			return cpu;
	return -1;
}

static int start_worker(struct kva_threads *t, unsigned int i,
			const cpu_set_t *allowed)
{
	struct worker *w = &t->workers[i - 1];
	pthread_attr_t attr;
	sigset_t all;
	cpu_set_t one;
	int cpu, rc;

	w->pool = t;
	w->number = i;
	rc = pthread_attr_init(&attr);
	if (rc)
		return -rc;
	/* signals are for the program's own threads */
	sigfillset(&all);
	pthread_attr_setsigmask_np(&attr, &all);
	cpu = nth_cpu(allowed, i);
	if (cpu >= 0) {
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		pthread_attr_setaffinity_np(&attr, sizeof(one), &one);
	}
	rc = pthread_create(&w->thread, &attr, worker_main, w);
	pthread_attr_destroy(&attr);
	return -rc;
}

int kva_threads_create(unsigned int n, struct kva_threads **out)
{
	struct kva_threads *t;
	unsigned int cpus;
	cpu_set_t allowed;
	int rc;

	CPU_ZERO(&allowed);
	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return -errno;
	cpus = CPU_COUNT(&allowed);
	if (!n)
		n = cpus < THREADS_MAX ? cpus : THREADS_MAX;
	if (n > THREADS_MAX)
		return -EINVAL;
	t = aligned_alloc(64, sizeof(*t));
	if (!t)
		return -ENOMEM;
	memset(t, 0, sizeof(*t));
	t->workers = calloc(n, sizeof(*t->workers));
	if (!t->workers) {
		free(t);
		return -ENOMEM;
	}
	/* With threads that share a CPU, spinning only keeps it busy. */
	t->spins = n <= cpus ? SPINS : 0;
	if (n > cpus)
		CPU_ZERO(&allowed);
	t->n = n;
	for (t->started = 1; t->started < n; t->started++) {
		rc = start_worker(t, t->started, &allowed);
		if (rc) {
			kva_threads_destroy(t);
			return rc;
		}
	}
	*out = t;
	return 0;
}

void kva_threads_destroy(struct kva_threads *t)
{
	unsigned int i;

	if (!t)
		return;
	t->stop = 1;
	open_run(t);
	for (i = 1; i < t->started; i++)
		pthread_join(t->workers[i - 1].thread, NULL);
	free(t->workers);
	free(t);
}
