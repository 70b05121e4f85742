// SPDX-License-Identifier: MIT
/*
 * test_late.c - pages that take long to copy or to clean, and what happens
 * meanwhile: another thread frees them, a signal or a deadline comes.
 */
#include <sys/time.h>

#include "dev_pin.h"

#define BIG		(4UL << 20)
#define NR_BIG		5
#define STEP		(64UL << 10)	/* a byte of each is looked at */
#define STEPS		(BIG / STEP)
#define ROUNDS		30
#define RED		0x77
#define BLUE		0x5a

#define BIG_AT(base, page)	((base) + (uint32_t)(page) * BIG)

/* ---- pages that are freed while they are published ----------------------- */

/* A pool of pages that take a while to copy. */
FIXTURE(big) {
	struct world w;
	char *red, *red_ro, *blue, *blue_ro;
};

FIXTURE_SETUP(big)
{
	struct world *w = &self->w;

	ASSERT_EQ(0, world_make(w, BIG, NR_BIG));
	self->red = dev_window(w->fd[0], w->pool, true);
	self->red_ro = dev_window(w->fd[0], w->pool, false);
	self->blue = dev_window(w->fd[1], w->pool, true);
	self->blue_ro = dev_window(w->fd[1], w->pool, false);
	ASSERT_NE(MAP_FAILED, self->red);
	ASSERT_NE(MAP_FAILED, self->red_ro);
	ASSERT_NE(MAP_FAILED, self->blue);
	ASSERT_NE(MAP_FAILED, self->blue_ro);
}

FIXTURE_TEARDOWN(big)
{
	EXPECT_EQ(0, world_end(&self->w));
}

/**
 * struct meddler - a thread of red, and blue who waits for what comes of it
 * @self: the test
 * @x: the page that is published
 * @y: the page for its copy, once it was seen
 * @pin: why there is one
 * @delay_us: how long after it was seen something is done
 * @stop: the command has returned
 * @freed: it had not when a page was freed
 * @leaked: red has read what blue wrote
 * @got: pages that blue has got
 * @nr: their number
 */
struct meddler {
	FIXTURE_DATA(big) *self;
	uint64_t x, y;
	struct pin pin;
	int delay_us;
	volatile bool stop;
	bool freed;
	bool leaked;
	uint64_t got[NR_BIG];
	unsigned int nr;
};

/* Another PRIVATE page of red than @x. */
static bool find_copy(struct meddler *m)
{
	static struct kvcache_page_get g;
	struct world *w = &m->self->w;
	uint32_t k;

	POISON(g);
	g.pool = w->pool;
	g.start = 1;
	if (dev_call(w->fd[0], KVCACHE_NR_PAGE_GET, &g))
		return false;
	for (k = 0; k < g.out_nr; k++)
		if (g.out_info[k].state == KVCACHE_PAGE_PRIVATE &&
		    g.out_info[k].tenant == w->tenant[0] &&
		    g.out_info[k].handle != m->x) {
			m->y = g.out_info[k].handle;
			return true;
		}
	return false;
}

static bool wait_for_copy(struct meddler *m)
{
	uint64_t at;

	while (!find_copy(m))
		if (m->stop)
			return false;
	at = dev_now() + m->delay_us * 1000;
	while (dev_now() < at)
		;
	return true;
}

/* Blue takes all there is. */
static void take_all(struct meddler *m)
{
	struct world *w = &m->self->w;

	while (m->nr < NR_BIG &&
	       !dev_alloc(w->fd[1], w->pool, 1, &m->got[m->nr]))
		m->nr++;
}

static void *free_the_copy(void *arg)
{
	struct meddler *m = arg;
	struct world *w = &m->self->w;

	if (!wait_for_copy(m))
		return NULL;
	m->freed = !dev_free(w->fd[0], w->pool, &m->y, 1) && !m->stop;
	take_all(m);
	return NULL;
}

/* Is one of the bytes looked at this one? false too if it cannot be read. */
static bool shows(const char *at, char byte)
{
	struct iovec there[STEPS], here;
	char seen[STEPS] = { 0 };
	unsigned int k;
	ssize_t n;

	here = (struct iovec){ .iov_base = seen, .iov_len = sizeof(seen) };
	for (k = 0; k < STEPS; k++)
		there[k] = (struct iovec){ (void *)(at + k * STEP), 1 };
	n = process_vm_readv(getpid(), &here, 1, there, STEPS, 0);
	return n > 0 && memchr(seen, byte, n);
}

/* Backwards, so that the end of it is there when the copying gets there. */
static void write_all(char *at, char byte)
{
	unsigned int k;

	for (k = STEPS; k--; )
		mem_put(getpid(), at + k * STEP, &byte, 1);
}

/*
 * Nothing but red's pin and reference keeps the page from being another's. Blue
 * takes pages until it has that one, and writes to them.
 */
static void *free_the_source(void *arg)
{
	struct meddler *m = arg;
	struct world *w = &m->self->w;
	uint64_t *got = m->got;

	if (!wait_for_copy(m))
		return NULL;
	pin_drop(&m->pin);
	m->freed = !dev_free(w->fd[0], w->pool, &m->x, 1) && !m->stop;
	do {
		if (dev_alloc(w->fd[1], w->pool, 1, &got[m->nr]))
			break;
		write_all(BIG_AT(m->self->blue, got[m->nr]), BLUE);
	} while ((uint32_t)got[m->nr++] != (uint32_t)m->x && !m->stop);
	while (!m->leaked && !m->stop)
		m->leaked = shows(BIG_AT(m->self->red_ro, m->y), BLUE);
	return NULL;
}

/* Publishes a copy of @x while the thread runs. */
static int publish_and(struct meddler *m, void *(*meddle)(void *arg),
		       uint64_t *page)
{
	struct world *w = &m->self->w;
	pthread_t t;
	int rc;

	*page = m->x;
	rc = pthread_create(&t, NULL, meddle, m);
	if (rc)
		return -rc;
	rc = dev_publish_as(w->fd[0], w->pool, page, 1, KVCACHE_PUBLISH_COPY,
			    0, NULL);
	m->stop = true;
	pthread_join(t, NULL);
	return rc;
}

/* Whoever has what, all pages become free. */
static bool tidy(struct meddler *m, uint64_t page)
{
	struct world *w = &m->self->w;
	struct kvcache_tenant_ref ref = {
		.size = sizeof(ref), .tenant = w->tenant[0], .pool = w->pool,
	};

	dev_free(w->fd[0], w->pool, &page, 1);
	if (page != m->x)
		dev_free(w->fd[0], w->pool, &m->x, 1);
	if (m->nr && dev_free(w->fd[1], w->pool, m->got, m->nr))
		return false;
	return !dev_call(w->admin, KVCACHE_NR_TENANT_FLUSH, &ref) &&
	       dev_settles(w->admin, w->pool, NR_BIG);
}

TEST_F(big, a_copy_that_is_freed_is_nobodys_until_it_is_filled)
{
	struct world *w = &self->w;
	unsigned int k, n, freed = 0;
	struct meddler m;
	uint64_t page;
	int rc;

	for (k = 0; k < ROUNDS; k++) {
		m = (struct meddler){
			.self = self, .delay_us = k % 4 * 200,
		};
		ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &m.x));
		write_all(BIG_AT(self->red, m.x), RED);
		ASSERT_EQ(0, pin_take(&m.pin, PIN_PIPE, NULL,
				      BIG_AT(self->red, m.x)));
		rc = publish_and(&m, free_the_copy, &page);
		EXPECT_TRUE(!rc || rc == -ESTALE)
			TH_LOG("publish: %d", rc);
		for (n = 0; n < m.nr; n++)
			ASSERT_FALSE(shows(BIG_AT(self->blue_ro, m.got[n]),
					   RED))
				TH_LOG("round %u", k);
		freed += m.freed;
		pin_drop(&m.pin);
		ASSERT_TRUE(tidy(&m, page));
	}
	if (!freed)
		SKIP(return, "the moment was never met");
}

/*
 * The page for the copy is there before red goes on, since red cleans another
 * one meanwhile: all that are free were blue's.
 */
static void free_dirty_ones(FIXTURE_DATA(big) *self, unsigned int nr)
{
	struct world *w = &self->w;
	uint64_t pages[NR_BIG];
	unsigned int k;

	if (dev_alloc(w->fd[1], w->pool, nr, pages))
		abort();
	for (k = 0; k < nr; k++)
		write_all(BIG_AT(self->blue, pages[k]), BLUE);
	if (dev_free(w->fd[1], w->pool, pages, nr))
		abort();
}

TEST_F(big, a_page_that_is_freed_is_nobodys_until_it_is_copied)
{
	struct world *w = &self->w;
	unsigned int k, freed = 0;
	struct meddler m;
	uint64_t page;
	int rc;

	for (k = 0; k < ROUNDS; k++) {
		m = (struct meddler){ .self = self };
		ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &m.x));
		/* It was never to be written, so it need not be cleaned. */
		ASSERT_EQ(0, pin_take(&m.pin, PIN_PIPE, NULL,
				      BIG_AT(self->red_ro, m.x)));
		free_dirty_ones(self, NR_BIG - 1);
		usleep(k % 6 * 500);
		rc = publish_and(&m, free_the_source, &page);
		/* The copy was mapped, or not wanted any more. */
		EXPECT_TRUE(!rc || rc == -ESTALE || rc == -EBUSY)
			TH_LOG("publish: %d", rc);
		ASSERT_FALSE(m.leaked)
			TH_LOG("round %u", k);
		if (!rc)
			ASSERT_FALSE(shows(BIG_AT(self->red_ro, page), BLUE))
				TH_LOG("round %u", k);
		freed += m.freed;
		if (!m.y)
			pin_drop(&m.pin);
		ASSERT_TRUE(tidy(&m, page));
	}
	if (!freed)
		SKIP(return, "the moment was never met");
}

/* ---- waiting for pages that are cleaned ---------------------------------- */

#define NR_DIRTY	64

/* Pages that take long to clean, and have been freed. */
FIXTURE(dirty) {
	struct world w;
	uint64_t pages[NR_DIRTY];
};

FIXTURE_SETUP(dirty)
{
	struct world *w = &self->w;
	char *rw;
	int k;

	ASSERT_EQ(0, world_make(w, BIG, NR_DIRTY));
	rw = dev_window(w->fd[0], w->pool, true);
	ASSERT_NE(MAP_FAILED, rw);
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, NR_DIRTY, self->pages));
	for (k = 0; k < NR_DIRTY; k++)
		*BIG_AT(rw, self->pages[k]) = RED;
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, self->pages, NR_DIRTY));
}

FIXTURE_TEARDOWN(dirty)
{
	EXPECT_EQ(0, world_end(&self->w));
}

/* One may be left to the worker, whenever the call ends. */
static uint64_t still_dirty(struct world *w)
{
	struct kvcache_pool_info p = { 0 };

	dev_pool_info(w->admin, w->pool, &p);
	return p.nr_retiring;
}

TEST_F(dirty, are_not_cleaned_beyond_the_deadline)
{
	struct world *w = &self->w;
	uint64_t began = dev_now();

	/* Late enough that the call begins before it, on a slow machine too. */
	EXPECT_EQ(-ETIMEDOUT, dev_alloc_until(w->fd[1], w->pool, NR_DIRTY,
					      began + 50000000, self->pages));
	EXPECT_LT(2, still_dirty(w));
	printf("# waited %llu us, %llu are dirty\n",
	       (unsigned long long)(dev_now() - began) / 1000,
	       (unsigned long long)still_dirty(w));
	EXPECT_EQ(0, charge(w, 1));
	EXPECT_EQ(0, dev_alloc(w->fd[1], w->pool, NR_DIRTY, self->pages));
}

static void on_alarm(int sig)
{
}

TEST_F(dirty, are_not_cleaned_beyond_a_signal)
{
	struct itimerval often = { { 0, 2000 }, { 0, 2000 } }, never = { 0 };
	struct sigaction sa = { .sa_handler = on_alarm };
	struct world *w = &self->w;

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	EXPECT_EQ(-EINTR, dev_alloc_until(w->fd[1], w->pool, NR_DIRTY, NEVER,
					  self->pages));
	setitimer(ITIMER_REAL, &never, NULL);
	EXPECT_LT(2, still_dirty(w));
	EXPECT_EQ(0, charge(w, 1));
	EXPECT_EQ(0, dev_alloc(w->fd[1], w->pool, NR_DIRTY, self->pages));
}

TEST_HARNESS_MAIN
