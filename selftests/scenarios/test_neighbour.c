// SPDX-License-Identifier: MIT
/*
 * test_neighbour.c - a noisy neighbour: B takes whatever it can, A has a min.
 * A gets its min whenever it asks, B what is left, and B gives it back in time
 * when A is given more.
 */
#include "kit.h"

#define NR	32
#define MIN	8

struct flood {
	uint32_t stop;
	uint32_t pages;		/* that B holds */
	uint32_t rounds;
	uint32_t revoked;
};

/*
 * B: allocates, publishes half of it and lets that go, so that the pool is full
 * of its private and of its cached pages.
 */
__attribute__((noreturn))
static void be_b(const struct place *p, struct flood *f, bool gives)
{
	struct kvc_sys *s = client(p, "b");
	struct kvcache_event ev;
	uint64_t held[NR], page;
	uint32_t nr = 0, key = 0, last;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!s || s->ops->events(s, &ev, 1, 0) < 0)
		_exit(1);
	do {
		last = __atomic_load_n(&f->stop, __ATOMIC_ACQUIRE);
		if (!last && nr < NR && !get(s, p->pool, 1, 0, &page)) {
			if (key++ % 2 && !publish(s, p->pool, &page, key, 0))
				put(s, p->pool, &page, 1);
			else
				held[nr++] = page;
		}
		while (s->ops->events(s, &ev, 1, 0) == 1) {
			if (ev.type == KVCACHE_EV_REVOKED)
				f->revoked++;
			while (gives && ev.type == KVCACHE_EV_SHRINK &&
			       nr > ev.value)
				put(s, p->pool, &held[--nr], 1);
		}
		__atomic_store_n(&f->pages, nr, __ATOMIC_RELAXED);
		f->rounds++;
		usleep(100);
	} while (!last);
	s->ops->close(s);
	_exit(0);
}

struct fight {
	struct place p;
	uint32_t a, b;
	struct flood *flood;
	pid_t pid;
};

/* Pages of B that nobody else can take; its cached pages are all over. */
static uint64_t taken_by_b(struct fight *x)
{
	struct kvcache_tenant_info i = tenant_info(&x->p, x->b);

	return i.cur - i.nr_cached;
}

/* B has all but A's min, and goes on. */
static void begin(struct fight *x, bool gives)
{
	place_begin(&x->p, NR);
	x->a = tenant(&x->p, "a", MIN, NO_LIMIT);
	x->b = tenant(&x->p, "b", 0, NO_LIMIT);
	x->flood = mmap(NULL, sizeof(*x->flood), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(x->flood != MAP_FAILED);
	x->pid = fork();
	ASSERT_GE(x->pid, 0);
	if (!x->pid)
		be_b(&x->p, x->flood, gives);
	while (__atomic_load_n(&x->flood->pages, __ATOMIC_RELAXED) < NR - MIN) {
		ASSERT_EQ(0, waitpid(x->pid, NULL, WNOHANG));
		usleep(1000);
	}
	ASSERT_EQ(NR - MIN, taken_by_b(x));
}

static void end(struct fight *x)
{
	int status;

	__atomic_store_n(&x->flood->stop, 1, __ATOMIC_RELEASE);
	ASSERT_EQ(x->pid, waitpid(x->pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status) && !WEXITSTATUS(status));
	place_end(&x->p);
}

TEST(a_min_is_there_whenever_it_is_asked_for)
{
	struct fight x = { 0 };
	uint64_t held[NR], t, longest = 0;
	struct kvc_sys *s;

	begin(&x, true);
	s = client(&x.p, "a");
	ASSERT_TRUE(s != NULL);
	for (uint32_t k = 0; k < 200; k++) {
		uint32_t nr = 1 + k % MIN;

		t = now_ns();
		ASSERT_EQ(0, get(s, x.p.pool, nr, 0, held));
		t = now_ns() - t;
		longest = t > longest ? t : longest;
		ASSERT_EQ(0, put(s, x.p.pool, held, nr));
		ASSERT_LE(taken_by_b(&x), NR - MIN);
	}
	printf("# figure a min, asked for 200 times beside a flood: %.1f ms at the longest\n",
	       longest / 1e6);
	EXPECT_LT(longest, 5 * SECOND);
	/* The rest is B's, and it is not A's for the asking. */
	ASSERT_EQ(0, get(s, x.p.pool, MIN, 0, held));
	ASSERT_EQ(-ENOSPC, get(s, x.p.pool, 1, 0, held + MIN));
	ASSERT_EQ(NR - MIN, taken_by_b(&x));
	s->ops->close(s);
	end(&x);
}

/* A gets 8 pages more, by a max of B that has to be kept in time. */
static void grow(struct fight *x, bool gives)
{
	uint64_t time = gives ? 60 * SECOND : SECOND;
	uint64_t held[NR], deadline, got;
	struct kvc_sys *s;

	begin(x, gives);
	s = client(&x->p, "a");
	ASSERT_TRUE(s != NULL);
	ASSERT_EQ(0, get(s, x->p.pool, MIN, 0, held));
	deadline = now_ns() + time;
	ASSERT_EQ(0, limits(&x->p, x->b, 0, 0, NR - MIN - 8, deadline));
	ASSERT_EQ(0, get(s, x->p.pool, 8, deadline + 30 * SECOND, held + MIN));
	got = now_ns();
	ASSERT_LE(tenant_info(&x->p, x->b).cur, NR - MIN - 8);
	if (gives)
		EXPECT_LT(got, deadline);
	else
		EXPECT_GE(got, deadline);
	s->ops->close(s);
	/* B has read all of its events when it is gone. */
	end(x);
	if (gives)
		EXPECT_EQ(0, x->flood->revoked);
	else
		EXPECT_LE(8, x->flood->revoked);
}

TEST(who_is_asked_gives_back_in_time)
{
	struct fight x = { 0 };

	grow(&x, true);
}

TEST(who_does_not_give_back_is_revoked_at_the_deadline)
{
	struct fight x = { 0 };

	grow(&x, false);
}

TEST_HARNESS_MAIN
