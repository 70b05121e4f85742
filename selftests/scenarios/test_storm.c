// SPDX-License-Identifier: MIT
/*
 * test_storm.c - clients are killed with signal 9 at whatever they are doing:
 * no page, descriptor or memory file of theirs is left in the broker.
 *
 * $KILLS clients (10,000). On the module the same is selftests/dev/stress_kill.
 */
#include "kit.h"

#define NR	64		/* pages of the pool */
#define GROUP	8
#define KEYS	64

enum mode { ALLOCATE, PUBLISH, WAIT, MAPPED, CONNECT, NR_MODES };

/* What a client tells of itself, in memory that it shares with the parent. */
struct told {
	uint32_t attached;
	uint32_t rounds;
};

struct self {
	struct kvc_sys *s;
	uint32_t pool;
	uint64_t seed;
	uint64_t held[NR];
	uint32_t nr;
};

static void take(struct self *c, uint32_t nr, uint64_t deadline)
{
	if (c->nr + nr <= NR &&
	    !get(c->s, c->pool, nr, deadline, c->held + c->nr))
		c->nr += nr;
}

static void drop(struct self *c)
{
	if (c->nr)
		put(c->s, c->pool, c->held, c->nr);
	c->nr = 0;
}

static void touch(struct self *c)
{
	for (uint32_t k = 0; k < c->nr; k++)
		memset(page_at(c->s, c->pool, c->held[k], 1), 0x5a, 64);
}

static void publish_one(struct self *c)
{
	drop(c);
	take(c, 1, 0);
	if (!c->nr)
		return;
	touch(c);
	if (publish(c->s, c->pool, &c->held[0], rnd(&c->seed) % KEYS, 0)) {
		drop(c);
		return;
	}
	if (rnd(&c->seed) % 2 &&
	    find(c->s, c->pool, rnd(&c->seed) % KEYS, 1, 0, &c->held[1]) == 1)
		c->nr++;
}

static void act(struct self *c, enum mode mode)
{
	switch (mode) {
	case ALLOCATE:
		take(c, 1 + rnd(&c->seed) % 8, 0);
		if (rnd(&c->seed) % 2)
			drop(c);
		break;
	case PUBLISH:
		publish_one(c);
		break;
	case WAIT:
		take(c, 1 + rnd(&c->seed) % (NR - 4), NEVER);
		touch(c);
		drop(c);
		break;
	default:
		take(c, 4, 0);
		touch(c);
		if (rnd(&c->seed) % 16 == 0)
			drop(c);
	}
}

__attribute__((noreturn))
static void be_client(const struct place *p, enum mode mode, uint64_t seed,
		      struct told *told)
{
	struct self c = { .pool = p->pool, .seed = seed };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (mode == CONNECT) {
		c.s = client(p, rnd(&c.seed) % 2 ? "red" : "blue");
		__atomic_store_n(&told->attached, 1, __ATOMIC_RELEASE);
		if (c.s)
			c.s->ops->close(c.s);
	}
	c.s = client(p, rnd(&c.seed) % 2 ? "red" : "blue");
	if (!c.s)
		_exit(1);
	__atomic_store_n(&told->attached, 1, __ATOMIC_RELEASE);
	for (;;) {
		act(&c, mode);
		told->rounds++;
	}
}

/* Until nobody holds anything: us since @since, or ~0 for never. */
static uint32_t all_back(struct place *p, uint64_t since)
{
	struct kvcache_pool_info i;

	do {
		i = pool_info(p);
		if (!i.nr_private && !i.nr_shared && !i.nr_retiring)
			return (now_ns() - since) / 1000;
		usleep(100);
	} while (now_ns() - since < 10 * SECOND);
	return ~0U;
}

/* A group that works at the same time is killed, one by one. */
static uint32_t group(struct place *p, uint64_t *seed, uint32_t done,
		      struct told *told)
{
	bool early = rnd(seed) % 8 == 0;
	pid_t pid[GROUP];
	uint64_t t = 0;
	uint32_t k;

	memset(told, 0, GROUP * sizeof(*told));
	for (k = 0; k < GROUP; k++) {
		pid[k] = fork();
		ASSERT_GE(pid[k], 0);
		if (!pid[k])
			be_client(p, (done + k) % NR_MODES,
				  rnd_seed(*seed, k), &told[k]);
	}
	for (k = 0; !early && k < GROUP; k++)
		while (!__atomic_load_n(&told[k].attached, __ATOMIC_ACQUIRE)) {
			ASSERT_EQ(0, waitpid(pid[k], NULL, WNOHANG));
			usleep(50);
		}
	usleep(rnd(seed) % 2000);
	for (k = 0; k < GROUP; k++) {
		ASSERT_EQ(0, waitpid(pid[k], NULL, WNOHANG));
		t = t ? t : now_ns();
		kill(pid[k], SIGKILL);
		ASSERT_EQ(pid[k], waitpid(pid[k], NULL, 0));
	}
	return all_back(p, t);
}

TEST_TIMEOUT(nothing_of_who_is_killed_is_left, 600)
{
	uint32_t kills = amount("KILLS", 10000), done, groups = 0, fds;
	uint32_t red, blue;
	uint32_t *us = calloc(kills / GROUP + 1, sizeof(*us)), p99;
	uint64_t seed = rnd_seed(any_seed(), 0), began = now_ns();
	struct told *told;
	struct place p;

	if (getenv("KVCACHE_TEST_DEVICE"))
		SKIP(return, "of the broker; the module has stress_kill");
	place_begin(&p, NR);
	red = tenant(&p, "red", 4, NR - 8);
	blue = tenant(&p, "blue", 0, NO_LIMIT);
	told = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(told != MAP_FAILED && us);
	/* What it keeps ready for the first requests is there by then. */
	group(&p, &seed, 0, told);
	ASSERT_EQ(0, flush(&p, red));
	ASSERT_EQ(0, flush(&p, blue));
	sleep(1);
	fds = count_fds(p.broker);
	for (done = 0; done < kills; done += GROUP) {
		us[groups] = group(&p, &seed, done, told);
		ASSERT_NE(~0U, us[groups]);
		groups++;
	}
	p99 = percentile(us, groups, 99);
	printf("# figure kill storm, broker: %u killed in %.0f s; from the first of %u until all pages are back: p50 %u us, p99 %u us, max %u us\n",
	       done, (now_ns() - began) / 1e9, GROUP,
	       percentile(us, groups, 50), p99, us[groups - 1]);
	EXPECT_LT(p99, 100000);
	/* Cached pages have a descriptor each: without them it is as before. */
	ASSERT_EQ(0, flush(&p, red));
	ASSERT_EQ(0, flush(&p, blue));
	for (done = 0; done < 1000 && count_fds(p.broker) > fds; done++)
		usleep(5000);
	EXPECT_LE(count_fds(p.broker), fds);
	place_end(&p);
	free(us);
}

TEST_HARNESS_MAIN
