// SPDX-License-Identifier: MIT
/*
 * test_racers.c - processes that allocate and wait as fast as they can, while
 * their tenants' limits change: no limit that is in force is passed, and every
 * request is granted, refused or timed out.
 */
#include "kit.h"

#define NR		48	/* pages of the pool */
#define RACERS		16
#define ROUNDS		400	/* of each racer */
#define HELD		8

struct racer {
	uint32_t rounds;
	uint32_t granted, refused, late;
	int odd;		/* an errno that none of these is */
};

struct race {
	struct place p;
	uint32_t id[2];
	struct racer *racer;
	pid_t pid[RACERS];
	uint64_t seed;
};

/* Some do not wait, some for a while, and some until they are served. */
static uint64_t until(uint32_t any)
{
	switch (any % 4) {
	case 0:
		return 0;
	case 1:
		return NEVER;
	}
	return now_ns() + any % 50000000;
}

__attribute__((noreturn))
static void be_racer(const struct race *r, int k)
{
	struct kvc_sys *s = client(&r->p, k % 2 ? "blue" : "red");
	struct racer *me = &r->racer[k];
	uint64_t held[HELD], seed = rnd_seed(r->seed, k);
	uint32_t nr;
	int rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!s)
		_exit(1);
	for (; me->rounds < ROUNDS; me->rounds++) {
		nr = 1 + rnd(&seed) % HELD;
		rc = get(s, r->p.pool, nr, until(rnd(&seed)), held);
		if (!rc) {
			me->granted++;
			if (rnd(&seed) % 4 == 0)
				usleep(rnd(&seed) % 500);
			if (put(s, r->p.pool, held, nr))
				_exit(2);
		} else if (rc == -EDQUOT || rc == -ENOSPC || rc == -E2BIG) {
			me->refused++;
		} else if (rc == -ETIMEDOUT) {
			me->late++;
		} else {
			me->odd = rc;
		}
	}
	s->ops->close(s);
	_exit(0);
}

/*
 * A tenant may be above a max that was lowered, for as long as its clients keep
 * what they have; it gets nothing more then.
 */
static void look(struct race *r, int t, uint64_t *above)
{
	struct kvcache_tenant_info i = tenant_info(&r->p, r->id[t]);

	ASSERT_LE(i.cur, NR);
	if (i.cur <= i.max)
		*above = i.max;
	ASSERT_LE(i.cur, *above);
	if (i.cur < *above)
		*above = i.cur > i.max ? i.cur : i.max;
}

static void change(struct race *r, int t, uint64_t *above, uint64_t *seed)
{
	uint64_t max = rnd(seed) % 8 ? 4 + rnd(seed) % NR : NO_LIMIT;
	uint64_t min = rnd(seed) % 4 ? 0 : rnd(seed) % 4;
	struct kvcache_tenant_info i;

	ASSERT_EQ(0, limits(&r->p, r->id[t], min, 0, max, NEVER));
	/* Limits are in force when the call returns. */
	i = tenant_info(&r->p, r->id[t]);
	*above = i.cur > i.max ? i.cur : i.max;
}

static bool all_gone(struct race *r, bool *well)
{
	static bool gone[RACERS];
	bool all = true;
	int status;

	for (int k = 0; k < RACERS; k++) {
		if (!gone[k] && waitpid(r->pid[k], &status, WNOHANG)) {
			gone[k] = true;
			*well &= WIFEXITED(status) && !WEXITSTATUS(status);
		}
		all &= gone[k];
	}
	return all;
}

/* Somebody gets on, always, or a request that waits for ever was lost. */
static bool stuck(const struct race *r, uint64_t *rounds, uint64_t *since)
{
	uint64_t sum = 0;

	for (int k = 0; k < RACERS; k++)
		sum += __atomic_load_n(&r->racer[k].rounds, __ATOMIC_RELAXED);
	if (sum != *rounds) {
		*rounds = sum;
		*since = now_ns();
	}
	return now_ns() - *since > 30 * SECOND;
}

TEST_TIMEOUT(limits_hold_while_they_change, 300)
{
	uint64_t above[2] = { NO_LIMIT, NO_LIMIT }, seed, rounds = 0, since;
	uint32_t looks = 0, granted = 0, refused = 0, late = 0;
	struct race r = { .seed = any_seed() };
	bool well = true;

	place_begin(&r.p, NR);
	r.id[0] = tenant(&r.p, "red", 2, 20);
	r.id[1] = tenant(&r.p, "blue", 0, NO_LIMIT);
	r.racer = mmap(NULL, RACERS * sizeof(*r.racer), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(r.racer != MAP_FAILED);
	for (int k = 0; k < RACERS; k++) {
		r.pid[k] = fork();
		ASSERT_GE(r.pid[k], 0);
		if (!r.pid[k])
			be_racer(&r, k);
	}
	seed = rnd_seed(r.seed, 1000);
	for (since = now_ns(); !all_gone(&r, &well); looks++) {
		ASSERT_FALSE(stuck(&r, &rounds, &since));
		if (looks % 16 == 15)
			change(&r, rnd(&seed) % 2, above, &seed);
		above[0] = above[0] == NO_LIMIT && !looks ? 20 : above[0];
		look(&r, 0, &above[0]);
		look(&r, 1, &above[1]);
		usleep(200);
	}
	EXPECT_TRUE(well);
	for (int k = 0; k < RACERS; k++) {
		EXPECT_EQ(0, r.racer[k].odd);
		EXPECT_EQ(ROUNDS, r.racer[k].granted + r.racer[k].refused +
			  r.racer[k].late);
		granted += r.racer[k].granted;
		refused += r.racer[k].refused;
		late += r.racer[k].late;
	}
	printf("# figure racers: %u granted, %u refused, %u timed out, %u looks\n",
	       granted, refused, late, looks);
	EXPECT_GT(granted, 0);
	EXPECT_EQ(0, pool_info(&r.p).waiters);
	place_end(&r.p);
}

TEST_HARNESS_MAIN
