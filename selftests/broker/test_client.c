// SPDX-License-Identifier: MIT
/*
 * test_client.c - the library's backend on a broker: threads, signals, children,
 * pages that are reclaimed while they are found, and a broker that is killed.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "kit.h"
#include "sys.h"

static char msg[256];

static struct kvc *library(SELF, uint32_t flags)
{
	struct kvc_open_opts o = {
		.sz = sizeof(o), .flags = flags, .msg = msg,
		.msg_len = sizeof(msg),
		.tenant = flags & KVC_OPEN_UNATTACHED ? NULL : "a",
	};
	struct kvc *ctx = NULL;
	int rc = kvc_open(self->path, &o, &ctx);

	if (rc)
		ht_log("%s", msg);
	ASSERT_EQ(0, rc);
	EXPECT_STREQ("broker", kvc_backend(ctx));
	return ctx;
}

static struct kvc_sys *backend(SELF, const char *tenant)
{
	struct kvcache_attach a = {
		.size = sizeof(a), .by = KVCACHE_ATTACH_NAME,
	};
	struct kvc_sys *s = NULL;

	strcpy(a.name, tenant);
	MUST(!kvc_sys_broker_open(self->path, &s));
	MUST(!s->ops->call(s, KVCACHE_NR_ATTACH, &a));
	return s;
}

static int take(struct kvc_sys *s, uint32_t nr, uint64_t deadline,
		uint64_t *pages)
{
	struct kvcache_alloc a = {
		.size = sizeof(a), .nr = nr, .deadline_ns = deadline,
	};
	int rc = s->ops->call(s, KVCACHE_NR_ALLOC, &a);

	if (!rc)
		memcpy(pages, a.out_pages, nr * sizeof(*pages));
	return rc;
}

static int drop(struct kvc_sys *s, const uint64_t *pages, uint32_t nr)
{
	struct kvcache_free f = { .size = sizeof(f), .nr = nr };

	memcpy(f.pages, pages, nr * sizeof(*pages));
	return s->ops->call(s, KVCACHE_NR_FREE, &f);
}

static int *at(struct kvc_sys *s, uint64_t page)
{
	return (int *)((char *)s->ops->window(s, 0, 1) +
		       (uint32_t)page * PAGE);
}

static void fill(int *p, int with)
{
	for (uint32_t i = 0; i < PAGE / sizeof(*p); i++)
		p[i] = with;
}

static bool filled(const int *p, int with)
{
	for (uint32_t i = 0; i < PAGE / sizeof(*p); i++)
		if (p[i] != with)
			return false;
	return true;
}

/* ---- what a context does -------------------------------------------------- */

static void no_action(int sig)
{
}

TEST_F(broker, events_wake_who_waits_for_them)
{
	struct sigaction act = { .sa_handler = no_action };
	struct kvcache_event ev[8];
	struct kvc *ctx;
	uint64_t pages[65];
	int status;
	pid_t pid;

	start(self);
	sigaction(SIGUSR1, &act, NULL);
	ctx = library(self, 0);
	EXPECT_EQ(0, kvc_events_wait(ctx, 0));
	EXPECT_EQ(0, kvc_events_wait(ctx, now_ns() + 20000000));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		usleep(50000);
		MUST(take(backend(self, "a"), 64, 0, pages) == 0);
		MUST(take(backend(self, "b"), 1, 0, pages) == -ENOSPC);
		MUST(take(backend(self, "a"), 1, 0, pages) == -ENOSPC);
		_exit(0);
	}
	/* It holds pages that another one wants, who is told to free some. */
	ASSERT_EQ(1, kvc_events_wait(ctx, now_ns() + 10000000000ULL));
	ASSERT_GE(kvc_events(ctx, ev, 8), 1);
	EXPECT_EQ(KVCACHE_EV_RECLAIM, ev[0].type);
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		for (int k = 0; k < 100; k++) {
			usleep(10000);
			kill(getppid(), SIGUSR1);
		}
		_exit(0);
	}
	while (kvc_events(ctx, ev, 8) > 0)
		;
	EXPECT_EQ(-EINTR, kvc_events_wait(ctx, NEVER));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	kvc_close(ctx);
	at_rest(self);
}

TEST_F(broker, who_is_no_tenant_s)
{
	struct kvcache_tenant_get g = { 0 };
	struct kvcache_alloc a = { .nr = 1 };
	struct kvcache_event ev;
	struct kvc *ctx;

	start(self);
	ctx = library(self, KVC_OPEN_UNATTACHED);
	ASSERT_EQ(0, kvc_call(ctx, KVCACHE_NR_TENANT_GET, &g));
	EXPECT_EQ(2, g.out_nr);
	EXPECT_EQ(-ENOTCONN, kvc_call(ctx, KVCACHE_NR_ALLOC, &a));
	EXPECT_NE(NULL, strstr(kvc_errmsg(ctx), "no tenant was attached to"));
	EXPECT_EQ(-ENOTCONN, kvc_events(ctx, &ev, 1));
	kvc_close(ctx);
	at_rest(self);
}

TEST_F(broker, a_child_is_no_client)
{
	struct kvcache_query q = { 0 };
	struct kvcache_free f = { .nr = 1 };
	struct kvcache_alloc a = { .nr = 1 };
	struct kvc *ctx;
	int status;
	pid_t pid;

	start(self);
	ctx = library(self, 0);
	ASSERT_EQ(0, kvc_call(ctx, KVCACHE_NR_ALLOC, &a));
	f.pages[0] = a.out_pages[0];
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		MUST(kvc_call(ctx, KVCACHE_NR_QUERY, &q) == -EPERM);
		MUST(kvc_call(ctx, KVCACHE_NR_FREE, &f) == -EPERM);
		kvc_close(ctx);
		/* One of its own it may have. */
		ctx = library(self, 0);
		MUST(!kvc_call(ctx, KVCACHE_NR_ALLOC, &a));
		MUST(kvc_call(ctx, KVCACHE_NR_FREE, &f) == -EPERM);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, kvc_call(ctx, KVCACHE_NR_FREE, &f));
	kvc_close(ctx);
	at_rest(self);
}

/* ---- killed ---------------------------------------------------------------- */

static void *kills_it(void *arg)
{
	usleep(20000 + rand() % 100000);
	kill(((struct ht_fix_broker *)arg)->pid, SIGKILL);
	return NULL;
}

/* Wherever it was: what a client has it keeps, and it is told. */
TEST_F(broker, killed_while_pages_come_and_go)
{
	struct kvcache_event ev;
	uint64_t h[32], more[8];
	pthread_t thread;
	struct kvc_sys *s;
	int *base, rc, n;

	srand(now_ns());
	for (int times = 0; times < 3; times++) {
		start(self);
		s = backend(self, "a");
		ASSERT_EQ(0, take(s, 32, 0, h));
		base = at(s, 0);
		for (int k = 0; k < 32; k++)
			fill(at(s, h[k]), k + 1);
		ASSERT_EQ(0, pthread_create(&thread, NULL, kills_it, self));
		for (n = 0, rc = 0; !rc; n++) {
			rc = take(s, 8, 0, more);
			/* What has no page is truncated first. */
			if (rc == -ENOSPC)
				rc = 0;
			else if (!rc)
				rc = drop(s, more, 8);
		}
		EXPECT_EQ(-ENOTCONN, rc);
		pthread_join(thread, NULL);
		EXPECT_GT(n, 10);
		EXPECT_EQ(-ENOTCONN, take(s, 1, NEVER, more));
		EXPECT_EQ(-ENOTCONN, s->ops->events(s, &ev, 1, NEVER));
		for (int k = 0; k < 32; k++)
			EXPECT_TRUE(filled(base + (uint32_t)h[k] *
					   (PAGE / sizeof(int)), k + 1));
		s->ops->close(s);
		waitpid(self->pid, NULL, 0);
		unlink(self->log);
	}
}

/* ---- stopped ---------------------------------------------------------------- */

/* A deadline binds it too; when it goes on, it has the pages. */
TEST_F_TIMEOUT(broker, stopped_while_somebody_waits, 60)
{
	struct kvc_open_opts o = {
		.sz = sizeof(o), .msg = msg, .msg_len = sizeof(msg),
	};
	struct kvc_sys *s;
	struct kvc *ctx;
	uint64_t h[8];

	start(self);
	s = backend(self, "a");
	ASSERT_EQ(0, take(s, 8, 0, h));
	fill(at(s, h[0]), 1);
	ASSERT_EQ(0, kill(self->pid, SIGSTOP));
	EXPECT_EQ(-ETIMEDOUT, take(s, 8, now_ns() + 1000000, h));
	EXPECT_EQ(-ENOTCONN, drop(s, h, 1));
	EXPECT_EQ(-ETIMEDOUT, kvc_open(self->path, &o, &ctx));
	EXPECT_NE(NULL, strstr(msg, "does not answer"));
	ASSERT_EQ(0, kill(self->pid, SIGCONT));
	s->ops->close(s);
	at_rest(self);
}

/* ---- threads and signals --------------------------------------------------- */

#define THREADS 8
#define ROUNDS 300

struct worker {
	pthread_t thread;
	struct kvc_sys *s;
	unsigned int seed;
	int id;
	int interrupted, late, granted, wrong;
	int done;
};

/* Takes what it waits for, and finds it zero and its own. */
static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t h[24];
	uint32_t nr;
	int rc;

	for (int round = 0; round < ROUNDS; round++) {
		nr = 1 + rand_r(&w->seed) % 24;
		rc = take(w->s, nr, round % 3 ? NEVER : now_ns() + 3000000, h);
		/* It was late already when the broker read it. */
		if (rc == -ENOSPC && !(round % 3))
			rc = -ETIMEDOUT;
		w->interrupted += rc == -EINTR;
		w->late += rc == -ETIMEDOUT;
		if (rc && rc != -EINTR && rc != -ETIMEDOUT) {
			w->wrong++;
			ht_log("%s", strerror(-rc));
		}
		if (rc)
			continue;
		w->granted++;
		for (uint32_t k = 0; k < nr; k++) {
			w->wrong += *at(w->s, h[k]) != 0;
			*at(w->s, h[k]) = w->id;
		}
		sched_yield();
		for (uint32_t k = 0; k < nr; k++)
			w->wrong += *at(w->s, h[k]) != w->id;
		w->wrong += drop(w->s, h, nr) != 0;
	}
	__atomic_store_n(&w->done, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

TEST_F(broker, threads_that_wait_and_signals)
{
	struct sigaction act = { .sa_handler = no_action };
	struct worker w[THREADS];
	int granted = 0, interrupted = 0, late = 0, left = THREADS;
	unsigned int seed = now_ns();
	struct kvc_sys *s;

	sigaction(SIGUSR1, &act, NULL);
	start(self);
	s = backend(self, "a");
	ht_log("seed %u", seed);
	for (int k = 0; k < THREADS; k++) {
		w[k] = (struct worker){ .s = s, .seed = seed + k,
					.id = k + 1 };
		ASSERT_EQ(0, pthread_create(&w[k].thread, NULL, work, &w[k]));
	}
	while (left) {
		usleep(300);
		left = 0;
		for (int k = 0; k < THREADS; k++)
			left += !__atomic_load_n(&w[k].done, __ATOMIC_SEQ_CST);
		pthread_kill(w[rand_r(&seed) % THREADS].thread, SIGUSR1);
	}
	for (int k = 0; k < THREADS; k++) {
		pthread_join(w[k].thread, NULL);
		EXPECT_EQ(0, w[k].wrong);
		granted += w[k].granted;
		interrupted += w[k].interrupted;
		late += w[k].late;
	}
	ht_log("%d granted, %d interrupted, %d late", granted, interrupted,
	       late);
	EXPECT_EQ(THREADS * ROUNDS, granted + interrupted + late);
	EXPECT_GT(granted, 0);
	EXPECT_GT(interrupted, 0);
	s->ops->close(s);
	at_rest(self);
}

/* ---- pages that are found, and go ------------------------------------------- */

#define KEYS 16

static void key_of(int key, uint8_t *out)
{
	memset(out, 0, KVCACHE_KEY_LEN);
	memcpy(out, &key, sizeof(key));
}

/* A page for each key, again and again, and then the whole pool for itself. */
static int publishes_and_reclaims(SELF, int unused)
{
	static struct kvcache_publish p = { .size = sizeof(p), .nr = 1 };
	struct kvc_sys *s = backend(self, "a");
	uint64_t h, all[64];
	int rc;

	for (int round = 0;; round++) {
		for (int key = 1; key <= KEYS; key++) {
			if (take(s, 1, NEVER, &h))
				return 1;
			fill(at(s, h), key);
			p.pages[0].handle = h;
			p.pages[0].nr_keys = 1;
			p.pages[0].ttl_ns = NEVER;
			p.pages[0].priority = KVCACHE_PRIO_DEFAULT;
			p.pages[0].keys[0].fill = 1;
			key_of(key, p.pages[0].keys[0].key);
			if (s->ops->call(s, KVCACHE_NR_PUBLISH, &p))
				return 2;
			h = p.pages[0].out_handle;
			if (!filled(at(s, h), key))
				return 3;
			if (drop(s, &h, 1))
				return 4;
		}
		/* Those that the other one holds are not to be had. */
		rc = take(s, 64 - KEYS, NEVER, all);
		if (rc)
			return 5;
		for (int k = 0; k < 64 - KEYS; k++)
			fill(at(s, all[k]), -1);
		if (drop(s, all, 64 - KEYS))
			return 6;
	}
	return 0;
}

/* What is found is what was published, while it is reclaimed and forgotten. */
TEST_F(broker, found_while_it_goes)
{
	static struct kvcache_lookup l;
	struct kvcache_tenant_ref t = { .size = sizeof(t), .pool = ~0U };
	struct kvc_sys *s, *admin;
	struct kvcache_attach a = {
		.size = sizeof(a), .by = KVCACHE_ATTACH_NAME, .name = "a",
	};
	int found = 0, missed = 0, key;
	uint64_t h[KEYS];
	pid_t pid;

	start(self);
	pid = child_start(publishes_and_reclaims, self, 0);
	ASSERT_EQ(0, kvc_sys_broker_open(self->path, &admin));
	ASSERT_EQ(0, kvc_sys_broker_open(self->path, &s));
	ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_ATTACH, &a));
	t.tenant = a.out_tenant;
	for (int round = 0; round < 2000; round++) {
		memset(&l, 0, sizeof(l));
		l.size = sizeof(l);
		l.nr_keys = 1 + round % KEYS;
		l.keys_per_page = 1;
		for (key = 1; key <= (int)l.nr_keys; key++)
			key_of(key, l.keys[key - 1]);
		ASSERT_EQ(0, s->ops->call(s, KVCACHE_NR_LOOKUP, &l));
		found += l.out_nr_pages;
		missed += !l.out_nr_pages;
		if (round % 50 == 49)
			ASSERT_EQ(0, admin->ops->call(admin,
				  KVCACHE_NR_TENANT_FLUSH, &t));
		for (key = 1; key <= (int)l.out_nr_pages; key++) {
			h[key - 1] = l.out_found[key - 1].handle;
			ASSERT_TRUE(filled(at(s, h[key - 1]), key));
		}
		if (l.out_nr_pages)
			ASSERT_EQ(0, drop(s, h, l.out_nr_pages));
		ASSERT_FALSE(waitpid(pid, NULL, WNOHANG));
	}
	ht_log("%d pages found, %d times none", found, missed);
	EXPECT_GT(found, 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	s->ops->close(s);
	admin->ops->close(admin);
	verify(self);
}

TEST_HARNESS_MAIN
