// SPDX-License-Identifier: MIT
/*
 * test_kvcached_shared.c - cases c7.3, 5 and 7: what kvcached's tests, and
 * those of vLLM's shared offload region, say of several processes. A region is
 * a pool here, and whoever joins it a client. There are none in-process, where
 * threads race.
 */
#include <pthread.h>

#include "kvcached.h"

#define SHARED_CASE(n)							\
	static void case_##n(void);					\
	CASE_ON(n, device, device_path() && !device_is_broker())	\
	CASE_ON(n, broker, device_is_broker())				\
	static void case_##n(void)

#define RACERS	8
#define CREW	16	/* the most processes at a time */

/* ---- processes ----------------------------------------------------------- */

/**
 * struct crew - what processes of a test share
 * @p: the backend
 * @barrier: all of them
 * @nr: how many
 * @rc: what they were told, one each
 * @saw: what they saw
 * @tenant: what they use
 * @other: and a second one
 * @revision: of the tenant, before they begin
 */
struct crew {
	struct place p;
	pthread_barrier_t barrier;
	int nr;
	int rc[CREW];
	uint64_t saw[CREW];
	uint32_t tenant, other;
	uint64_t revision;
};

static void together(struct crew *c)
{
	pthread_barrier_wait(&c->barrier);
}

/* A pool of @nr_pages, number p.pool; what a failed test left goes first. */
static struct crew *crew_begin(int nr, uint64_t nr_pages)
{
	struct crew *c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attr;
	struct kvc_sys *s;

	ASSERT_TRUE(c != MAP_FAILED);
	ASSERT_EQ(0, device_open(&s));
	device_sweep(s);
	s->ops->close(s);
	place_begin(&c->p, nr_pages);
	c->nr = nr;
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	ASSERT_EQ(0, pthread_barrier_init(&c->barrier, &attr, nr));
	return c;
}

static void crew_end(struct crew *c)
{
	device_settle(c->p.admin, c->p.pool);
	expect_books_right();
	place_end(&c->p);
}

/* @fn in all of them, each with a number and an open of its own. */
static void crew_run(struct crew *c,
		     void (*fn)(struct crew *c, struct place *p, int me))
{
	struct place own = c->p;
	int status;

	fflush(stdout);
	for (int me = 0; me < c->nr; me++) {
		pid_t pid = fork();

		ASSERT_GE(pid, 0);
		if (pid)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ASSERT_EQ(0, sys_open(own.path, &own.admin));
		fn(c, &own, me);
		fflush(stdout);
		_exit(ht_failed);
	}
	/* Who is left at a barrier ends with this process. */
	for (int me = 0; me < c->nr; me++) {
		ASSERT_GT(wait(&status), 0);
		ASSERT_TRUE(WIFEXITED(status) && !WEXITSTATUS(status));
	}
}

static int count_rc(const int *rc, int nr, int what)
{
	int n = 0;

	for (int k = 0; k < nr; k++)
		n += rc[k] == what;
	return n;
}

/* ---- c7.3 ---------------------------------------------------------------- */

#define ROUNDS	200

/* Two name the same revision at once, with the same values in even rounds. */
static void revise_too(struct crew *c, struct place *p, int me)
{
	uint64_t rev, now, max;

	for (int n = 0; n < ROUNDS; n++) {
		rev = c->revision + 1 + n;
		max = 10 + n % 2 * (1 + me) + n % 7;
		together(c);
		c->rc[me] = revise(p, c->tenant, rev, max, &now);
		c->saw[me] = max;
		together(c);
		if (!me) {
			struct kvcache_tenant_info i;
			int won = c->rc[1] ? 0 : 1;

			i = tenant_info(p, c->tenant);
			ASSERT_EQ(rev, i.revision);
			ASSERT_EQ(n % 2 ? 1 : 2, count_rc(c->rc, 2, 0));
			ASSERT_EQ(n % 2, count_rc(c->rc, 2, -EEXIST));
			ASSERT_EQ(c->saw[won], i.max);
		}
	}
	/* And each one of its own, which is old if the other was faster. */
	together(c);
	for (int n = 0; n < ROUNDS; n++) {
		rev = c->revision + ROUNDS + 1 + 2 * n + me;
		c->rc[me] = revise(p, c->tenant, rev, 10 + n, &now);
		ASSERT_TRUE(!c->rc[me] || c->rc[me] == -ESTALE);
	}
}

SHARED_CASE(revisions_of_two_processes)
{
	struct crew *c = crew_begin(2, 16);
	struct kvcache_tenant_info i;

	c->tenant = tenant(&c->p, "red", 0, 16);
	c->revision = tenant_info(&c->p, c->tenant).revision;
	crew_run(c, revise_too);
	/* The highest is in force, and its owner was not refused. */
	i = tenant_info(&c->p, c->tenant);
	EXPECT_EQ(c->revision + 3 * ROUNDS, i.revision);
	EXPECT_EQ(10 + ROUNDS - 1, i.max);
	EXPECT_EQ(0, c->rc[1]);
	crew_end(c);
}

/* ---- c7.5 ---------------------------------------------------------------- */

#define CHARGES	500	/* rounds of each of 16 processes */
#define AT_ONCE	4

static uint32_t kept_by(int me)
{
	return me % AT_ONCE;
}

static void charge(struct crew *c, struct place *p, int me)
{
	struct kvc_sys *s = client(p, me % 2 ? "red" : "blue");
	uint64_t page[AT_ONCE];

	ASSERT_TRUE(s != NULL);
	together(c);
	for (int n = 0; n < CHARGES; n++) {
		uint32_t nr = 1 + (n + me) % AT_ONCE;

		/* There is room for all of them: none is refused. */
		ASSERT_EQ(0, get(s, p->pool, nr, 0, page));
		ASSERT_EQ(0, put(s, p->pool, page, nr));
	}
	if (kept_by(me))
		ASSERT_EQ(0, get(s, p->pool, kept_by(me), 0, page));
	c->saw[me] = kept_by(me);
	together(c);
	if (!me) {
		uint64_t sum[2] = { 0 };

		device_settle(p->admin, p->pool);
		for (int k = 0; k < c->nr; k++)
			sum[k % 2] += c->saw[k];
		EXPECT_EQ(8, sum[0]);
		EXPECT_EQ(16, sum[1]);
		EXPECT_EQ(sum[0], tenant_info(p, c->tenant).cur);
		EXPECT_EQ(sum[1], tenant_info(p, c->other).cur);
		EXPECT_EQ(sum[0] + sum[1], pool_info(p).nr_private);
		EXPECT_LE(tenant_info(p, c->tenant).peak, CREW / 2 * AT_ONCE);
		/* 500 rounds of 1, 2, 3, 4 pages, and what was kept. */
		EXPECT_EQ(CREW * CHARGES * 10 / 4 + sum[0] + sum[1],
			  pool_info(p).allocs);
	}
	together(c);
	s->ops->close(s);
}

SHARED_CASE(sixteen_processes_charge_at_once)
{
	struct crew *c = crew_begin(CREW, CREW * AT_ONCE);

	c->tenant = tenant(&c->p, "blue", 0, CREW / 2 * AT_ONCE);
	c->other = tenant(&c->p, "red", 0, CREW / 2 * AT_ONCE);
	crew_run(c, charge);
	EXPECT_TRUE(all_free(&c->p));
	EXPECT_EQ(0, tenant_info(&c->p, c->tenant).cur);
	EXPECT_EQ(0, tenant_info(&c->p, c->other).cur);
	crew_end(c);
}

/* ---- c7.7 ---------------------------------------------------------------- */

#define REGION	12	/* pages of a region, and a tenant's max */

static int create_pool(struct kvc_sys *s, const char *name)
{
	struct kvcache_pool_set set = {
		.size = sizeof(set), .op = KVCACHE_POOL_CREATE,
		.page_size = PAGE, .nr_pages = REGION,
	};

	strcpy(set.name, name);
	return sys_call(s, KVCACHE_NR_POOL_SET, &set);
}

static int create_tenant(struct kvc_sys *s, const char *name)
{
	struct kvcache_tenant_set set = {
		.size = sizeof(set), .uid = getuid(), .gid = getgid(),
		.set = KVCACHE_SET_OWNER | KVCACHE_SET_LIMITS, .mode = 0400,
		.max = REGION, .deadline_ns = NEVER,
	};

	strcpy(set.name, name);
	return sys_call(s, KVCACHE_NR_TENANT_CREATE, &set);
}

/* Pages of the pool of that name; ~0 if there is none, or more than one. */
static uint64_t pool_size(struct kvc_sys *s, const char *name)
{
	struct kvcache_query q = { .size = sizeof(q) };
	uint64_t size = ~0ULL;

	ASSERT_EQ(0, sys_call(s, KVCACHE_NR_QUERY, &q));
	for (uint32_t k = 0; k < q.out_nr_pools; k++)
		if (!strcmp(q.out_pools[k].name, name))
			size = size == ~0ULL ? q.out_pools[k].nr_pages : ~0ULL;
	return size;
}

struct racer {
	pthread_barrier_t *barrier;
	struct kvc_sys *s;
	int pool, tenant;
	uint64_t saw;
};

static void *race(void *arg)
{
	struct racer *r = arg;

	pthread_barrier_wait(r->barrier);
	r->pool = create_pool(r->s, "region");
	r->saw = pool_size(r->s, "region");
	pthread_barrier_wait(r->barrier);
	r->tenant = create_tenant(r->s, "worker");
	return NULL;
}

CASE(one_of_eight_threads_creates)
{
	int pool[RACERS], made[RACERS];
	struct racer r[RACERS];
	pthread_t id[RACERS];
	pthread_barrier_t b;
	struct here h;

	here_begin(&h, 16, 0);
	ASSERT_EQ(0, pthread_barrier_init(&b, NULL, RACERS));
	for (int k = 0; k < RACERS; k++) {
		r[k] = (struct racer) { .barrier = &b, .s = h.s };
		ASSERT_EQ(0, pthread_create(&id[k], NULL, race, &r[k]));
	}
	for (int k = 0; k < RACERS; k++) {
		ASSERT_EQ(0, pthread_join(id[k], NULL));
		pool[k] = r[k].pool;
		made[k] = r[k].tenant;
		EXPECT_EQ(REGION, r[k].saw);
	}
	EXPECT_EQ(1, count_rc(pool, RACERS, 0));
	EXPECT_EQ(RACERS - 1, count_rc(pool, RACERS, -EEXIST));
	EXPECT_EQ(1, count_rc(made, RACERS, 0));
	EXPECT_EQ(RACERS - 1, count_rc(made, RACERS, -EEXIST));
	here_end(&h);
}

/* As a worker would: whoever comes first makes it, and all join. */
static void join(struct crew *c, struct place *p, int me)
{
	struct kvcache_alloc a = {
		.size = sizeof(a), .flags = KVCACHE_ALLOC_CHECK,
		.pool = p->pool, .nr = REGION,
	};
	struct kvc_sys *s;

	together(c);
	c->rc[me] = create_tenant(p->admin, "worker");
	s = client(p, "worker");
	ASSERT_TRUE(s != NULL);
	ASSERT_EQ(0, sys_call(s, KVCACHE_NR_ALLOC, &a));
	c->saw[me] = a.out_limit;
	together(c);
	if (!me) {
		EXPECT_EQ(1, count_rc(c->rc, RACERS, 0));
		EXPECT_EQ(RACERS - 1, count_rc(c->rc, RACERS, -EEXIST));
	}
	together(c);
	c->rc[me] = create_pool(p->admin, "region");
	EXPECT_EQ(REGION, pool_size(p->admin, "region"));
	s->ops->close(s);
}

SHARED_CASE(one_of_eight_processes_creates)
{
	struct crew *c = crew_begin(RACERS, 16);
	struct kvcache_pool_set set = {
		.size = sizeof(set), .op = KVCACHE_POOL_REMOVE,
	};

	crew_run(c, join);
	EXPECT_EQ(1, count_rc(c->rc, RACERS, 0));
	EXPECT_EQ(RACERS - 1, count_rc(c->rc, RACERS, -EEXIST));
	for (int k = 0; k < RACERS; k++)
		EXPECT_EQ(REGION, c->saw[k]);
	set.pool = c->p.pool + 1;
	EXPECT_EQ(0, sys_call(c->p.admin, KVCACHE_NR_POOL_SET, &set));
	crew_end(c);
}

#define WRITERS	4
#define SLOTS	3	/* pages of each */

/* The byte at @at of slot @k of writer @me: no two are alike for long. */
static char byte_of(int me, uint32_t k, size_t at)
{
	return (me * SLOTS + k + 1) * 16 + at / 4096 % 16;
}

static bool slot_is(const char *page, int me, uint32_t k)
{
	for (size_t at = 0; at < PAGE; at++)
		if (page[at] != byte_of(me, k, at))
			return false;
	return true;
}

static void write_slots(struct crew *c, struct place *p, int me)
{
	struct kvc_sys *s = client(p, "worker");
	uint64_t slot[SLOTS], one;

	ASSERT_TRUE(s != NULL);
	ASSERT_EQ(0, get(s, p->pool, SLOTS, 0, slot));
	together(c);
	/* All are at it now, and there is no room for more. */
	EXPECT_EQ(-EDQUOT, get(s, p->pool, 1, 0, &one));
	for (uint32_t k = 0; k < SLOTS; k++) {
		char *page = page_at(s, p->pool, slot[k], 1);

		for (size_t at = 0; at < PAGE; at++)
			page[at] = byte_of(me, k, at);
	}
	together(c);
	for (uint32_t k = 0; k < SLOTS; k++) {
		EXPECT_TRUE(slot_is(page_at(s, p->pool, slot[k], 0), me, k));
		ASSERT_EQ(0, publish(s, p->pool, &slot[k], me * SLOTS + k, 0));
	}
	together(c);
	/* And what the others wrote is what they wrote. */
	for (uint32_t n = 0; n < WRITERS * SLOTS; n++) {
		ASSERT_EQ(1, find(s, p->pool, n, 1, 0, &one));
		EXPECT_TRUE(slot_is(page_at(s, p->pool, one, 0), n / SLOTS,
				    n % SLOTS));
	}
	s->ops->close(s);
}

SHARED_CASE(four_processes_write_and_no_byte_crosses)
{
	struct crew *c = crew_begin(WRITERS, 16);

	c->tenant = tenant(&c->p, "worker", 0, WRITERS * SLOTS);
	crew_run(c, write_slots);
	EXPECT_EQ(WRITERS * SLOTS, tenant_info(&c->p, c->tenant).cur);
	crew_end(c);
}

static int pool_remove(struct place *p)
{
	return pool_set(p, KVCACHE_POOL_REMOVE, 0, 0);
}

/* The joiners' ends are theirs alone; the creator's ends it, once. */
SHARED_CASE(cleanup_is_done_once)
{
	struct crew *c = crew_begin(1, 8);
	struct kvcache_tenant_ref r = { .size = sizeof(r) };
	struct kvc_sys *a, *b;
	uint64_t page;

	r.tenant = tenant(&c->p, "worker", 0, NO_LIMIT);
	a = client(&c->p, "worker");
	b = client(&c->p, "worker");
	ASSERT_TRUE(a && b);
	ASSERT_EQ(0, get(a, c->p.pool, 1, 0, &page));
	ASSERT_EQ(0, publish(a, c->p.pool, &page, 1, 0));
	EXPECT_EQ(0, put(a, c->p.pool, &page, 1));
	EXPECT_EQ(-EPERM, put(a, c->p.pool, &page, 1));
	a->ops->close(a);
	/* It is all there for the other one. */
	EXPECT_EQ(8, pool_info(&c->p).nr_pages);
	EXPECT_EQ(1, find(b, c->p.pool, 1, 1, 0, &page));
	EXPECT_EQ(-EBUSY, sys_call(c->p.admin, KVCACHE_NR_TENANT_REMOVE, &r));
	EXPECT_EQ(-EBUSY, pool_remove(&c->p));
	EXPECT_EQ(1, find(b, c->p.pool, 1, 1, KVCACHE_LOOKUP_PEEK, NULL));
	b->ops->close(b);
	for (int k = 0; k < 1000 && tenant_info(&c->p, r.tenant).clients; k++)
		usleep(5000);
	EXPECT_EQ(0, flush(&c->p, r.tenant));
	EXPECT_EQ(0, flush(&c->p, r.tenant));
	EXPECT_EQ(0, sys_call(c->p.admin, KVCACHE_NR_TENANT_REMOVE, &r));
	EXPECT_EQ(-ENOENT, sys_call(c->p.admin, KVCACHE_NR_TENANT_REMOVE, &r));
	EXPECT_TRUE(all_free(&c->p));
	EXPECT_EQ(0, pool_remove(&c->p));
	EXPECT_EQ(-ENOENT, pool_remove(&c->p));
	ASSERT_EQ(0, pool_set(&c->p, KVCACHE_POOL_CREATE, PAGE, 8));
	crew_end(c);
}

/* The pool has 4 of its 8 pages; 3 are taken, and 2 are wanted. */
static void wait_for_growth(struct crew *c, struct place *p, int me)
{
	struct kvc_sys *s = client(p, "worker");
	uint64_t page[3], two[2], until;

	ASSERT_TRUE(s != NULL);
	if (me) {
		/* Once it waits in vain, and once in earnest. */
		together(c);
		for (int k = 0; k < 4000 && !pool_info(p).waiters; k++)
			usleep(5000);
		EXPECT_EQ(1, pool_info(p).waiters);
		EXPECT_EQ(3, pool_info(p).nr_private);
		EXPECT_EQ(0, pool_set(p, KVCACHE_POOL_RESIZE, 0, 8));
		together(c);
		s->ops->close(s);
		return;
	}
	ASSERT_EQ(0, get(s, p->pool, 3, 0, page));
	until = now_ns() + 200000000;
	EXPECT_EQ(-ETIMEDOUT, get(s, p->pool, 2, until, two));
	EXPECT_GE(now_ns(), until);
	EXPECT_EQ(1, pool_info(p).nr_free);
	EXPECT_EQ(0, pool_info(p).waiters);
	together(c);
	EXPECT_EQ(0, get(s, p->pool, 2, now_ns() + 60 * SECOND, two));
	together(c);
	EXPECT_EQ(8, pool_info(p).nr_pages);
	EXPECT_EQ(5, pool_info(p).nr_private);
	s->ops->close(s);
}

SHARED_CASE(a_waiter_for_a_pool_that_grows)
{
	struct crew *c = crew_begin(2, 8);

	ASSERT_EQ(0, pool_set(&c->p, KVCACHE_POOL_RESIZE, 0, 4));
	tenant(&c->p, "worker", 0, NO_LIMIT);
	crew_run(c, wait_for_growth);
	EXPECT_TRUE(all_free(&c->p));
	crew_end(c);
}

TEST_HARNESS_MAIN
