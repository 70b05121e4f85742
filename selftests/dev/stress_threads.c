// SPDX-License-Identifier: MIT
/*
 * stress_threads.c - threads of one client that take, wait for, publish and free
 * pages while signals hit them: whatever was interrupted has changed nothing, and
 * what was granted just then is not lost.
 *
 *	stress_threads [SECONDS] [SEED]	or $THREADS_SECONDS, $SEED
 */
#include <pthread.h>

#include "stress.h"

#define THREADS	6
#define NR	24	/* pages of the pool */
#define ROUND	1000000000ULL
#define KEYS	16

struct thread {
	pthread_t id;
	uint64_t s;
	uint64_t own[NR], shared[NR];
	uint32_t nmine, nshared;
	uint32_t calls, interrupted, timeouts;
	const char *bad;
};

static struct world w;
static int fd;
static char *rw;
static volatile bool stop;
static uint32_t signals;

/* Anything that a handler may do, to the device as well. */
static void on_signal(int sig)
{
	struct kvcache_query q = { .size = sizeof(q) };
	int saved = errno;

	dev_call(fd, KVCACHE_NR_QUERY, &q);
	__atomic_add_fetch(&signals, 1, __ATOMIC_RELAXED);
	errno = saved;
}

static void take(struct thread *t)
{
	uint32_t k, nr = 1 + rnd(&t->s) % 4;
	bool wait = rnd(&t->s) % 4;
	uint64_t deadline = wait ? dev_now() + rnd(&t->s) % 3000000 : 0;
	uint64_t pages[4];
	int err;

	if (t->nmine + nr > NR)
		return;
	/* Who has none may wait for ever: others will give some up. */
	if (wait && !t->nmine && !t->nshared)
		deadline = NEVER;
	err = dev_alloc_until(fd, w.pool, nr, deadline, pages);
	t->calls++;
	t->interrupted += err == -EINTR;
	t->timeouts += err == -ETIMEDOUT;
	if (err == -ETIMEDOUT && dev_now() < deadline)
		t->bad = "a wait ended too early";
	if (err && err != -EDQUOT && err != -ENOSPC &&
	    !(wait && (err == -EINTR || err == -ETIMEDOUT)))
		t->bad = strerror(-err);
	for (k = 0; !err && k < nr; k++) {
		uint64_t *at = (uint64_t *)(rw + (uint32_t)pages[k] * PAGE);

		if (*at)
			t->bad = "a page was not zeros";
		*at = (uintptr_t)t;
		t->own[t->nmine++] = pages[k];
	}
}

static void give(struct thread *t)
{
	uint32_t k;

	for (k = 0; k < t->nmine; k++)
		if (*(uint64_t *)(rw + (uint32_t)t->own[k] * PAGE) !=
		    (uintptr_t)t)
			t->bad = "somebody wrote to a page";
	if (t->nmine && dev_free(fd, w.pool, t->own, t->nmine))
		t->bad = "a page could not be freed";
	if (t->nshared && dev_free(fd, w.pool, t->shared, t->nshared))
		t->bad = "a reference could not be dropped";
	t->nmine = 0;
	t->nshared = 0;
}

static void share(struct thread *t)
{
	uint32_t key = rnd(&t->s) % KEYS;
	uint64_t page;
	int err;

	if (t->nshared == NR)
		return;
	if (!t->nmine || rnd(&t->s) % 2) {
		if (!dev_lookup(fd, w.pool, key, &page))
			t->shared[t->nshared++] = page;
		return;
	}
	page = t->own[t->nmine - 1];
	err = dev_publish(fd, w.pool, &page, key);
	if (!err) {
		t->nmine--;
		t->shared[t->nshared++] = page;
	} else if (err != -ENOSPC && err != -EDQUOT && err != -EBUSY) {
		t->bad = strerror(-err);
	}
}

static void *work(void *arg)
{
	struct thread *t = arg;
	uint32_t what;

	while (!stop && !t->bad) {
		what = rnd(&t->s) % 16;
		if (what < 7)
			take(t);
		else if (what < 12)
			give(t);
		else
			share(t);
	}
	/* Some hold nothing now, some something. */
	if (rnd(&t->s) % 2)
		give(t);
	return NULL;
}

/* What the client has is what its threads know of. */
static bool agrees(const struct thread *t)
{
	struct kvcache_client_get g = { .size = sizeof(g), .pool = w.pool };
	struct kvcache_query q = { .size = sizeof(q) };
	uint64_t own = 0, shared = 0;
	uint32_t k;

	for (k = 0; k < THREADS; k++) {
		own += t[k].nmine;
		shared += t[k].nshared;
	}
	NEED(!dev_call(fd, KVCACHE_NR_QUERY, &q));
	NEED(!dev_call(w.admin, KVCACHE_NR_CLIENT_GET, &g));
	for (k = 0; k < g.out_nr; k++)
		if (g.out_info[k].id == q.out_client)
			break;
	NEED(k < g.out_nr);
	if (g.out_info[k].nr_private == own &&
	    g.out_info[k].nr_shared == shared && !g.out_info[k].waiting)
		return true;
	printf("# it has %llu pages and %llu references, its threads %llu and %llu\n",
	       (unsigned long long)g.out_info[k].nr_private,
	       (unsigned long long)g.out_info[k].nr_shared,
	       (unsigned long long)own, (unsigned long long)shared);
	return false;
}

/*
 * Those that wait for ever at the end of a round wait for each other: with
 * signals going on, they come back.
 */
static void round_of(struct thread *t, uint64_t *s)
{
	uint64_t until = dev_now() + ROUND;
	uint32_t k, left;

	stop = false;
	for (k = 0; k < THREADS; k++)
		NEED(!pthread_create(&t[k].id, NULL, work, &t[k]));
	while (dev_now() < until) {
		pthread_kill(t[rnd(s) % THREADS].id, SIGUSR1);
		usleep(rnd(s) % 1000);
	}
	stop = true;
	for (k = 0, left = THREADS; left; k = (k + 1) % THREADS) {
		if (!t[k].id)
			continue;
		pthread_kill(t[k].id, SIGUSR1);
		usleep(500);
		if (!pthread_tryjoin_np(t[k].id, NULL)) {
			t[k].id = 0;
			left--;
		}
	}
}

int main(int argc, char **argv)
{
	uint64_t rounds = stress_arg(argc, argv, 1, "THREADS_SECONDS", 10), s;
	uint64_t seed = stress_arg(argc, argv, 2, "SEED", 1);
	uint32_t k, n, calls = 0, interrupted = 0, timeouts = 0;
	struct sigaction sa = { .sa_handler = on_signal };
	static struct thread t[THREADS];
	const char *bad = NULL;
	bool agree = true;
	int line = world_make(&w, PAGE, NR);

	NEED(!line);
	printf("TAP version 13\n# seed %llu\n", (unsigned long long)seed);
	NEED(!dev_limits(w.admin, w.tenant[0], w.pool, 0, 0, NR - 8, NEVER));
	fd = dev_client("red");
	NEED(fd >= 0);
	rw = dev_window(fd, w.pool, true);
	NEED(rw != MAP_FAILED);
	sigaction(SIGUSR1, &sa, NULL);
	s = rnd_seed(seed, ~0U);
	for (k = 0; k < THREADS; k++)
		t[k].s = rnd_seed(seed, k);
	for (n = 0; n < rounds && agree && !bad; n++) {
		round_of(t, &s);
		agree = agrees(t) && stress_verifies();
		for (k = 0; k < THREADS; k++) {
			bad = t[k].bad ? t[k].bad : bad;
			give(&t[k]);
		}
	}
	for (k = 0; k < THREADS; k++) {
		calls += t[k].calls;
		interrupted += t[k].interrupted;
		timeouts += t[k].timeouts;
	}
	printf("# figure threads: %u signals, %u requests, %u interrupted, %u timed out\n",
	       signals, calls, interrupted, timeouts);
	if (bad)
		printf("# %s\n", bad);
	stress_result(!bad, "each answer is right, each page one thread's");
	stress_result(agree, "no page is lost to a signal");
	stress_result(interrupted > 0, "signals interrupt who waits");
	close(fd);
	stress_result(!world_end(&w), "nothing is left");
	return stress_end();
}
