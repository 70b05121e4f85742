// SPDX-License-Identifier: MIT
/*
 * test_race.c - a client that tries to keep a way to write: another thread
 * writes wherever it can while pages are published, given back and handed out.
 */
#include "dev_pin.h"

#define SOON	(dev_now() + 5000000000ULL)

/**
 * struct racer - a thread that writes to whatever page can be written, as soon
 * as it can
 * @rw: a window
 * @wrote: how often it could
 */
struct racer {
	pthread_t thread;
	char *rw;
	volatile bool stop;
	volatile unsigned long wrote;
};

static void *write_everywhere(void *arg)
{
	struct racer *r = arg;
	char n = 0;
	int k;

	while (!r->stop)
		for (k = 1, n += 2; k <= PAGES; k++)
			if (mem_put(getpid(), AT(r->rw, k), &n, 1) == 1)
				r->wrote++;
	return NULL;
}

static int race(struct racer *r)
{
	r->stop = false;
	return pthread_create(&r->thread, NULL, write_everywhere, r);
}

static void stop(struct racer *r)
{
	r->stop = true;
	pthread_join(r->thread, NULL);
}

/* Can the page be written through the window? */
static bool writable(char *rw, uint64_t page)
{
	char byte = 1;

	return mem_put(getpid(), AT(rw, page), &byte, 1) == 1;
}

TEST_F(dev, what_is_published_does_not_change_any_more)
{
	struct world *w = &self->w;
	struct racer r = { .rw = dev_window(w->fd[0], w->pool, true) };
	char *ro = dev_window(w->fd[0], w->pool, false), was;
	int k, rc, nr = 0;
	uint64_t page;

	ASSERT_EQ(0, race(&r));
	for (k = 0; k < 200; k++) {
		ASSERT_EQ(0, dev_alloc_until(w->fd[0], w->pool, 1, SOON,
					     &page));
		usleep(k % 8 * 50);
		/* It pins what it writes for a moment. */
		rc = dev_publish(w->fd[0], w->pool, &page, k);
		EXPECT_TRUE(!rc || rc == -EBUSY)
			TH_LOG("publish: %d", rc);
		if (!rc) {
			nr++;
			was = *AT(ro, page);
			EXPECT_FALSE(writable(r.rw, page));
			usleep(100);
			EXPECT_EQ(was, *AT(ro, page));
		}
		EXPECT_EQ(0, dev_free(w->fd[0], w->pool, &page, 1));
	}
	stop(&r);
	if (!nr || !r.wrote)
		SKIP(return, "the moment was never met");
}

TEST_F(dev, a_copy_is_immutable_although_its_page_could_be_guessed)
{
	struct world *w = &self->w;
	struct racer r = { .rw = dev_window(w->fd[0], w->pool, true) };
	char *ro = dev_window(w->fd[0], w->pool, false), was;
	int k, rc, nr = 0;
	struct pin pin;
	uint64_t page, soon;

	ASSERT_EQ(0, race(&r));
	for (k = 0; k < 100; k++) {
		ASSERT_EQ(0, dev_alloc_until(w->fd[0], w->pool, 1, SOON,
					     &page));
		ASSERT_EQ(0, pin_take(&pin, PIN_PIPE, NULL, AT(r.rw, page)));
		/* Earlier pages may not be let go yet: there is room soon. */
		soon = dev_now() + 5000000000ULL;
		while ((rc = dev_publish_as(w->fd[0], w->pool, &page, k,
					    KVCACHE_PUBLISH_COPY, 0, NULL)) ==
		       -ENOSPC && dev_now() < soon)
			usleep(5000);
		/* The copy was touched. */
		EXPECT_TRUE(!rc || rc == -EBUSY)
			TH_LOG("publish: %d", rc);
		if (!rc) {
			nr++;
			was = *AT(ro, page);
			EXPECT_FALSE(writable(r.rw, page));
			usleep(100);
			EXPECT_EQ(was, *AT(ro, page));
		}
		pin_drop(&pin);
		EXPECT_EQ(0, dev_free(w->fd[0], w->pool, &page, 1));
	}
	stop(&r);
	if (!nr || !r.wrote)
		SKIP(return, "the moment was never met");
}

/* ---- a handle before its time -------------------------------------------- */

struct early {
	struct world *w;
	char *rw;
	volatile int go;	/* 1: allocate, after @delay_us; 2: end */
	int delay_us;
	uint64_t page;
	volatile bool done;
};

static void *alloc_meanwhile(void *arg)
{
	struct early *e = arg;
	uint64_t at;

	for (;;) {
		while (!e->go)
			sched_yield();
		if (e->go == 2)
			return NULL;
		e->go = 0;
		at = dev_now() + e->delay_us * 1000;
		while (dev_now() < at)
			;
		e->page = 0;
		if (!dev_alloc(e->w->fd[0], e->w->pool, 1, &e->page))
			writable(e->rw, e->page);
		e->done = true;
	}
}

/* Two pages at once: one whose key is taken, and this one. */
static int publish_two(struct world *w, uint64_t known, uint64_t page,
		       uint32_t key)
{
	static struct kvcache_publish p;
	uint32_t keys[2] = { 1, key };
	uint64_t pages[2] = { known, page };
	int k;

	memset(&p, 0, sizeof(p));
	p.size = sizeof(p);
	p.pool = w->pool;
	p.nr = 2;
	for (k = 0; k < 2; k++) {
		p.pages[k].handle = pages[k];
		p.pages[k].nr_keys = 1;
		p.pages[k].ttl_ns = NEVER;
		p.pages[k].keys[0].fill = 1;
		memcpy(p.pages[k].keys[0].key, &keys[k], sizeof(keys[k]));
	}
	return dev_call(w->fd[0], KVCACHE_NR_PUBLISH, &p);
}

/*
 * The one free page, and what its handle will be, are known. It is published
 * while it is handed out: what the other page is pinned for takes time.
 */
TEST_F(dev, a_page_is_not_published_before_it_is_unmapped)
{
	struct world *w = &self->w;
	struct early e = {
		.w = w, .rw = dev_window(w->fd[0], w->pool, true),
	};
	uint64_t first, rest[PAGES], known, free;
	pthread_t t;
	struct pin pin;
	int k, rc;

	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &first));
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &first, 1));
	ASSERT_EQ(0, dev_alloc(w->fd[1], w->pool, PAGES - 3, rest));
	ASSERT_EQ(0, pthread_create(&t, NULL, alloc_meanwhile, &e));
	for (k = 0; k < 60; k++) {
		ASSERT_EQ(0, dev_alloc_until(w->fd[0], w->pool, 1, SOON,
					     &known));
		ASSERT_EQ(0, pin_take(&pin, PIN_PIPE, NULL, AT(e.rw, known)));
		ASSERT_EQ(0, dev_alloc_until(w->fd[0], w->pool, 1, SOON,
					     &free));
		ASSERT_EQ(0, dev_free(w->fd[0], w->pool, &free, 1));
		free += 1ULL << 32;
		e.delay_us = k * 10;
		e.done = false;
		e.go = 1;
		rc = publish_two(w, known, free, k + 2);
		while (!e.done)
			sched_yield();
		EXPECT_TRUE(!rc || rc == -ESTALE)
			TH_LOG("publish: %d", rc);
		if (!rc)
			EXPECT_FALSE(writable(e.rw, free));
		pin_drop(&pin);
		EXPECT_EQ(0, dev_free(w->fd[0], w->pool, rc ? &known : &first,
				      1));
		if (e.page)
			EXPECT_EQ(0, dev_free(w->fd[0], w->pool, &e.page, 1));
	}
	e.go = 2;
	pthread_join(t, NULL);
}

/* ---- pages of others ----------------------------------------------------- */

TEST_F(dev, a_new_page_is_zeros_whatever_others_write_to)
{
	struct world *w = &self->w;
	struct racer r = { .rw = dev_window(w->fd[0], w->pool, true) };
	char *blue = dev_window(w->fd[1], w->pool, true);
	uint64_t its[4], got[4];
	int k, n;

	ASSERT_EQ(0, race(&r));
	for (k = 0; k < 100; k++) {
		ASSERT_EQ(0, dev_alloc_until(w->fd[0], w->pool, 4, SOON, its));
		ASSERT_EQ(0, dev_free(w->fd[0], w->pool, its, 4));
		ASSERT_EQ(0, dev_alloc_until(w->fd[1], w->pool, 4, SOON, got));
		for (n = 0; n < 4; n++)
			EXPECT_TRUE(dev_is_zero(AT(blue, got[n]), PAGE));
		ASSERT_EQ(0, dev_free(w->fd[1], w->pool, got, 4));
	}
	stop(&r);
	if (!r.wrote)
		SKIP(return, "the moment was never met");
}

TEST_HARNESS_MAIN
