// SPDX-License-Identifier: MIT
/*
 * test_sys_broker.c - the broker's backend against a fake: pages, threads,
 * signals, and the broker's death.
 */
#include <fcntl.h>
#include <pthread.h>
#include <time.h>

#include "broker_conn.h"
#include "fake_broker.h"

/* Until it is so; a test that waits in vain is stopped by its time limit. */
#define UNTIL(what)		\
	do {			\
		pause_ms(1);	\
	} while (!(what))

/* ---- pages ---------------------------------------------------------------- */

TEST_F(broker, pages_come_and_go)
{
	uint64_t h[3];
	char *base;

	start(self, NULL);
	base = at(self->s, 0);
	EXPECT_EQ(0, (uintptr_t)base % (2 << 20));
	EXPECT_TRUE(self->s->ops->window(self->s, 0, 0) == base);
	EXPECT_TRUE(self->s->ops->window(self->s, 1, 0) == NULL);
	EXPECT_TRUE(self->s->ops->window(self->s, 99, 0) == NULL);
	for (int i = 0; i < FAKE_PAGE; i++)
		ASSERT_EQ(0, base[i]);
	EXPECT_FALSE(writable(base));
	EXPECT_FALSE(readable(base + FAKE_PAGE));
	ASSERT_EQ(0, alloc_until(self->s, 3, 0, h));
	for (int k = 0; k < 3; k++) {
		EXPECT_EQ(k + 1, (uint32_t)h[k]);
		EXPECT_EQ(k + 1, *at(self->s, h[k]));
		EXPECT_EQ(k + 1, at(self->s, h[k])[FAKE_PAGE - 1]);
		EXPECT_TRUE(writable(at(self->s, h[k])));
	}
	EXPECT_FALSE(readable(base + 4 * FAKE_PAGE));
	/* What was given up is not to be read by mistake. */
	ASSERT_EQ(0, put(self->s, &h[1], 1));
	EXPECT_TRUE(readable(at(self->s, h[0])));
	EXPECT_FALSE(readable(at(self->s, h[1])));
	EXPECT_TRUE(readable(at(self->s, h[2])));
}

/* The first handle is found again, after it was given up, and not twice. */
static bool finds_one(int fd, struct fake_msg *m)
{
	if (m->h.nr != KVCACHE_NR_LOOKUP)
		return false;
	m->lookup.out_nr_pages = m->lookup.out_nr_keys = 1;
	m->lookup.out_found[0].handle = 1ULL << 32 | 7;
	fake_reply(fd, m, 0);
	return true;
}

TEST_F(broker, references_are_counted)
{
	static struct kvcache_lookup l = {
		.size = sizeof(l), .nr_keys = 1, .keys_per_page = 1,
	};
	uint64_t h;

	start(self, finds_one);
	ASSERT_EQ(0, self->s->ops->call(self->s, KVCACHE_NR_LOOKUP, &l));
	h = l.out_found[0].handle;
	EXPECT_EQ(1, fake_seen(KVCB_NR_MAP));
	EXPECT_EQ(7, *at(self->s, h));
	EXPECT_FALSE(writable(at(self->s, h)));
	ASSERT_EQ(0, self->s->ops->call(self->s, KVCACHE_NR_LOOKUP, &l));
	EXPECT_EQ(1, fake_seen(KVCB_NR_MAP));
	ASSERT_EQ(0, put(self->s, &h, 1));
	EXPECT_TRUE(readable(at(self->s, h)));
	ASSERT_EQ(0, put(self->s, &h, 1));
	EXPECT_FALSE(readable(at(self->s, h)));
	l.flags = KVCACHE_LOOKUP_PEEK;
	ASSERT_EQ(0, self->s->ops->call(self->s, KVCACHE_NR_LOOKUP, &l));
	EXPECT_EQ(1, fake_seen(KVCB_NR_MAP));
	l.flags = 0;
	ASSERT_EQ(0, self->s->ops->call(self->s, KVCACHE_NR_LOOKUP, &l));
	EXPECT_EQ(2, fake_seen(KVCB_NR_MAP));
	EXPECT_EQ(7, *at(self->s, h));
}

/* Three pages are found; the third is gone before it can be mapped. */
static bool loses_one(int fd, struct fake_msg *m)
{
	static uint32_t maps;

	if (m->h.nr == KVCACHE_NR_LOOKUP) {
		m->lookup.out_nr_pages = maps ? 2 : 3;
		m->lookup.out_nr_keys = m->lookup.out_nr_pages;
		for (uint32_t i = 0; i < m->lookup.out_nr_pages; i++)
			m->lookup.out_found[i].handle = 1ULL << 32 | (i + 1);
		fake_reply(fd, m, 0);
		return true;
	}
	if (m->h.nr == KVCB_NR_MAP && !maps++) {
		fake_reply(fd, m, -ESTALE);
		return true;
	}
	if (m->h.nr == KVCACHE_NR_FREE && (uint32_t)m->free.pages[0] == 3) {
		fake_reply(fd, m, -ESTALE);
		return true;
	}
	return false;
}

/* And all of them, however often one looks. */
static bool loses_all(int fd, struct fake_msg *m)
{
	if (m->h.nr != KVCB_NR_MAP)
		return finds_one(fd, m);
	fake_reply(fd, m, -ESTALE);
	return true;
}

TEST_F(broker, found_and_lost)
{
	static struct kvcache_lookup l = {
		.size = sizeof(l), .nr_keys = 3, .keys_per_page = 1,
	};

	start(self, loses_one);
	ASSERT_EQ(0, self->s->ops->call(self->s, KVCACHE_NR_LOOKUP, &l));
	EXPECT_EQ(2, l.out_nr_pages);
	EXPECT_EQ(2, l.out_nr_keys);
	EXPECT_EQ(2, fake_seen(KVCACHE_NR_LOOKUP));
	EXPECT_EQ(3, fake_seen(KVCACHE_NR_FREE));
	EXPECT_TRUE(readable(at(self->s, 1)));
	EXPECT_TRUE(readable(at(self->s, 2)));
	EXPECT_FALSE(readable(at(self->s, 3)));
	self->s->ops->close(self->s);
	self->s = NULL;
	fake_stop(&self->fake);

	start(self, loses_all);
	ASSERT_EQ(0, self->s->ops->call(self->s, KVCACHE_NR_LOOKUP, &l));
	EXPECT_EQ(0, l.out_nr_pages);
	EXPECT_EQ(0, l.out_nr_keys);
	EXPECT_EQ(fake_seen(KVCACHE_NR_LOOKUP), fake_seen(KVCACHE_NR_FREE));
	EXPECT_FALSE(readable(at(self->s, 7)));
}

/* ---- threads and signals -------------------------------------------------- */

static void no_action(int sig)
{
}

struct waiter {
	pthread_t thread;
	struct kvc_sys *s;
	uint32_t nr;
	uint64_t deadline;
	uint64_t pages[64];
	int rc;
	uint32_t done;
};

static void *wait_in_thread(void *arg)
{
	struct waiter *w = arg;

	w->rc = w->nr ? alloc_until(w->s, w->nr, w->deadline, w->pages) :
			query(w->s);
	__atomic_store_n(&w->done, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void begin(struct waiter *w, struct kvc_sys *s, uint32_t nr,
		  uint64_t deadline)
{
	*w = (struct waiter){ .s = s, .nr = nr, .deadline = deadline };
	ASSERT_EQ(0, pthread_create(&w->thread, NULL, wait_in_thread, w));
}

static struct fake_msg held[KVCB_WAITING];
static uint32_t nr_held;

/* Allocations are granted, the last one first, when something is freed. */
static bool holds(int fd, struct fake_msg *m)
{
	uint32_t first = 100;

	if (m->h.nr == KVCACHE_NR_ALLOC && m->alloc.deadline_ns) {
		held[nr_held++] = *m;
		fake_shared->most = nr_held > fake_shared->most ? nr_held :
				    fake_shared->most;
		return true;
	}
	if (m->h.nr != KVCACHE_NR_FREE)
		return false;
	while (nr_held) {
		fake_grant(fd, &held[--nr_held], first);
		first += held[nr_held].alloc.nr;
	}
	return false;
}

/* Who waits holds up nobody, and everybody gets what is theirs. */
TEST_F(broker, threads)
{
	struct waiter w[8];
	uint64_t h;

	start(self, holds);
	for (int k = 0; k < 8; k++)
		begin(&w[k], self->s, k + 1, NEVER);
	UNTIL(fake_seen(KVCACHE_NR_ALLOC) == 8);
	ASSERT_EQ(0, query(self->s));
	ASSERT_EQ(0, alloc_until(self->s, 1, 0, &h));
	for (int k = 0; k < 8; k++)
		EXPECT_EQ(0, __atomic_load_n(&w[k].done, __ATOMIC_SEQ_CST));
	ASSERT_EQ(0, put(self->s, &h, 1));
	for (int k = 0; k < 8; k++) {
		pthread_join(w[k].thread, NULL);
		EXPECT_EQ(0, w[k].rc);
		for (uint32_t i = 0; i < w[k].nr; i++)
			EXPECT_EQ((char)w[k].pages[i],
				  *at(self->s, w[k].pages[i]));
		/* One grant's pages are neighbours, by what the fake does. */
		EXPECT_EQ(w[k].pages[0] + w[k].nr - 1,
			  w[k].pages[w[k].nr - 1]);
	}
}

/* What it may have of one connection, less the request for events. */
#define AT_BROKER	(KVCB_WAITING - 1)
#define TOO_MANY	(AT_BROKER + 20)

/*
 * A broker refuses waiters that are too many: they wait here, in their order, and
 * all others are in its queue.
 */
TEST_F(broker, more_waiters_than_a_broker_has)
{
	static struct waiter w[TOO_MANY];
	uint64_t h, g;

	start(self, holds);
	ASSERT_EQ(0, alloc_until(self->s, 1, 0, &h));
	for (int k = 0; k < TOO_MANY; k++)
		begin(&w[k], self->s, 1, NEVER);
	UNTIL(fake_seen(KVCACHE_NR_ALLOC) == AT_BROKER + 1);
	pause_ms(20);
	EXPECT_EQ(AT_BROKER + 1, fake_seen(KVCACHE_NR_ALLOC));
	/* One that is too many keeps its deadline. */
	EXPECT_EQ(-ETIMEDOUT, alloc_until(self->s, 1, 1, &g));
	for (int done = 0, before = 0; done < TOO_MANY; before = done) {
		ASSERT_EQ(0, put(self->s, &h, 1));
		do {
			pause_ms(1);
			done = 0;
			for (int k = 0; k < TOO_MANY; k++)
				done += __atomic_load_n(&w[k].done,
							__ATOMIC_SEQ_CST);
		} while (done == before);
	}
	for (int k = 0; k < TOO_MANY; k++) {
		pthread_join(w[k].thread, NULL);
		EXPECT_EQ(0, w[k].rc);
	}
	EXPECT_EQ(AT_BROKER, fake_shared->most);
}

/* Three times there is no place even for what is not to wait. */
static bool is_full(int fd, struct fake_msg *m)
{
	if (m->h.nr != KVCACHE_NR_ALLOC || fake_seen(KVCACHE_NR_ALLOC) > 3)
		return false;
	fake_reply(fd, m, -EBUSY);
	return true;
}

TEST_F(broker, no_place_to_wait)
{
	uint64_t h;

	start(self, is_full);
	EXPECT_EQ(0, alloc_until(self->s, 1, 0, &h));
	EXPECT_EQ(4, fake_seen(KVCACHE_NR_ALLOC));
}

/* A request that is cancelled ends, or was granted meanwhile. */
static bool cancels(int fd, struct fake_msg *m)
{
	if (m->h.nr == KVCACHE_NR_QUERY && fake_shared->go) {
		UNTIL(fake_shared->go == 2);
		return false;
	}
	if (m->h.nr == KVCACHE_NR_ALLOC && m->alloc.deadline_ns) {
		held[nr_held++] = *m;
		return true;
	}
	for (uint32_t i = 0; m->h.nr == KVCB_NR_CANCEL && i < nr_held; i++) {
		if (held[i].h.cookie != m->cancel.cookie)
			continue;
		if (held[i].alloc.nr == 1)
			fake_reply(fd, &held[i], -EINTR);
		else
			fake_grant(fd, &held[i], 50);
	}
	return false;
}

TEST_F(broker, signals)
{
	struct sigaction act = { .sa_handler = no_action };
	struct waiter w[3];

	sigaction(SIGUSR1, &act, NULL);
	start(self, cancels);
	/* One of the first two reads the socket, the other sleeps. */
	begin(&w[0], self->s, 1, NEVER);
	begin(&w[1], self->s, 1, NEVER);
	begin(&w[2], self->s, 2, NEVER);
	UNTIL(fake_seen(KVCACHE_NR_ALLOC) == 3);
	for (int k = 0; k < 3; k++) {
		/* A signal that comes just before the wait ends nothing. */
		while (!__atomic_load_n(&w[k].done, __ATOMIC_SEQ_CST)) {
			pthread_kill(w[k].thread, SIGUSR1);
			pause_ms(5);
		}
		pthread_join(w[k].thread, NULL);
		EXPECT_EQ(k == 2 ? 0 : -EINTR, w[k].rc);
		EXPECT_EQ(k + 1, fake_seen(KVCB_NR_CANCEL));
	}
	EXPECT_EQ(50, *at(self->s, w[2].pages[0]));
	EXPECT_EQ(51, *at(self->s, w[2].pages[1]));
}

/* What cannot be undone is not left: it is done once, and its reply is read. */
TEST_F(broker, signals_while_nothing_waits)
{
	struct sigaction act = { .sa_handler = no_action };
	struct waiter w;
	uint32_t before;

	sigaction(SIGUSR1, &act, NULL);
	start(self, cancels);
	before = fake_seen(KVCACHE_NR_QUERY);
	__atomic_store_n(&fake_shared->go, 1, __ATOMIC_SEQ_CST);
	begin(&w, self->s, 0, 0);
	UNTIL(fake_seen(KVCACHE_NR_QUERY) == before + 1);
	for (int k = 0; k < 20; k++) {
		pthread_kill(w.thread, SIGUSR1);
		pause_ms(1);
	}
	EXPECT_EQ(0, __atomic_load_n(&w.done, __ATOMIC_SEQ_CST));
	__atomic_store_n(&fake_shared->go, 2, __ATOMIC_SEQ_CST);
	pthread_join(w.thread, NULL);
	EXPECT_EQ(0, w.rc);
	EXPECT_EQ(before + 1, fake_seen(KVCACHE_NR_QUERY));
	EXPECT_EQ(0, fake_seen(KVCB_NR_CANCEL));
}

static bool tells(int fd, struct fake_msg *m)
{
	if (m->h.nr != KVCB_NR_EVENTS || !m->events.deadline_ns)
		return false;
	m->events.out_nr = m->events.max < 3 ? m->events.max : 3;
	for (uint32_t i = 0; i < m->events.out_nr; i++)
		m->events.out_events[i].value = i + 1;
	fake_reply(fd, m, 0);
	return true;
}

TEST_F(broker, events)
{
	struct kvcache_event ev[4];

	start(self, tells);
	EXPECT_EQ(0, self->s->ops->events(self->s, ev, 4, 0));
	ASSERT_EQ(3, self->s->ops->events(self->s, ev, 4, NEVER));
	EXPECT_EQ(3, ev[2].value);
	ASSERT_EQ(2, self->s->ops->events(self->s, ev, 2, NEVER));
}

/* Events come when something is freed, to who waits for them. */
static bool tells_later(int fd, struct fake_msg *m)
{
	static struct fake_msg e;

	if (m->h.nr == KVCB_NR_EVENTS && m->events.deadline_ns) {
		e = *m;
		return true;
	}
	if (m->h.nr == KVCB_NR_CANCEL && m->cancel.cookie == e.h.cookie) {
		fake_reply(fd, &e, -EINTR);
		return true;
	}
	if (m->h.nr == KVCACHE_NR_FREE && e.h.nr) {
		e.events.out_nr = 5;
		for (uint32_t i = 0; i < 5; i++)
			e.events.out_events[i].value = i + 1;
		fake_reply(fd, &e, 0);
	}
	return false;
}

/* A look costs no message, and nothing is lost or told twice. */
TEST_F(broker, a_look_for_events)
{
	const struct kvc_sys_ops *ops;
	struct kvcache_event ev[8];
	uint64_t h = 1;
	uint32_t asked;

	start(self, tells_later);
	ops = self->s->ops;
	EXPECT_TRUE(ops->pending(self->s));
	EXPECT_EQ(0, ops->events(self->s, ev, 8, 0));
	UNTIL(fake_seen(KVCB_NR_EVENTS) == 2);
	/* The request lasts, and points to nobody's stack. */
	EXPECT_TRUE(((struct kvc_bconn *)self->s)->watch.arg == NULL);
	for (int k = 0; k < 100; k++)
		EXPECT_FALSE(ops->pending(self->s));
	EXPECT_EQ(2, fake_seen(KVCB_NR_EVENTS));
	ASSERT_EQ(0, put(self->s, &h, 1));
	EXPECT_TRUE(ops->pending(self->s));
	ASSERT_EQ(2, ops->events(self->s, ev, 2, 0));
	EXPECT_EQ(2, ev[1].value);
	EXPECT_TRUE(ops->pending(self->s));
	ASSERT_EQ(3, ops->events(self->s, ev, 8, 0));
	EXPECT_EQ(3, ev[0].value);
	EXPECT_EQ(5, ev[2].value);
	EXPECT_FALSE(ops->pending(self->s));
	/* One that is under way is taken back: its answer is of now. */
	asked = fake_seen(KVCB_NR_CANCEL);
	EXPECT_EQ(0, ops->events(self->s, ev, 8, 0));
	EXPECT_EQ(asked + 1, fake_seen(KVCB_NR_CANCEL));
	fake_kill(&self->fake);
	UNTIL(ops->pending(self->s));
	EXPECT_EQ(-ENOTCONN, ops->events(self->s, ev, 8, 0));
}

/* When events are asked for, the first that waits is granted, then the second. */
static bool grants_two(int fd, struct fake_msg *m)
{
	if (m->h.nr == KVCACHE_NR_ALLOC && m->alloc.deadline_ns) {
		held[nr_held++] = *m;
		return true;
	}
	if (m->h.nr != KVCB_NR_EVENTS || !m->events.deadline_ns)
		return false;
	fake_grant(fd, &held[0], 100);
	pause_ms(50);
	fake_grant(fd, &held[1], 200);
	return true;
}

/* Who has its reply leaves the socket to one that waits, not to nobody. */
TEST_F_TIMEOUT(broker, the_socket_is_passed_on, 30)
{
	struct kvcache_event ev;
	struct waiter w[2];

	start(self, grants_two);
	for (int k = 0; k < 2; k++) {
		begin(&w[k], self->s, 1, NEVER);
		UNTIL(fake_seen(KVCACHE_NR_ALLOC) == k + 1);
		pause_ms(20);
	}
	EXPECT_EQ(0, self->s->ops->events(self->s, &ev, 1, 0));
	for (int k = 0; k < 2; k++) {
		pthread_join(w[k].thread, NULL);
		EXPECT_EQ(0, w[k].rc);
	}
}

/* ---- the end of a broker, and children ------------------------------------ */

TEST_F(broker, it_is_killed)
{
	struct kvcache_event ev;
	struct waiter w[4];
	uint64_t h[4];

	start(self, holds);
	ASSERT_EQ(0, alloc_until(self->s, 4, 0, h));
	memset(at(self->s, h[2]), 'a', FAKE_PAGE);
	for (int k = 0; k < 4; k++)
		begin(&w[k], self->s, 1, NEVER);
	UNTIL(fake_seen(KVCACHE_NR_ALLOC) == 5);
	fake_kill(&self->fake);
	for (int k = 0; k < 4; k++) {
		pthread_join(w[k].thread, NULL);
		EXPECT_EQ(-ENOTCONN, w[k].rc);
	}
	EXPECT_EQ(-ENOTCONN, query(self->s));
	EXPECT_EQ(-ENOTCONN, put(self->s, h, 1));
	EXPECT_EQ(-ENOTCONN, self->s->ops->events(self->s, &ev, 1, 0));
	EXPECT_EQ(-ENOTCONN, self->s->ops->events(self->s, &ev, 1, NEVER));
}

/* The window cannot be asked for any more: it is where it was. */
TEST_F(broker, what_is_mapped_outlives_it)
{
	uint64_t h[4];
	char *p[4];

	start(self, NULL);
	ASSERT_EQ(0, alloc_until(self->s, 4, 0, h));
	for (int k = 0; k < 4; k++)
		p[k] = at(self->s, h[k]);
	memset(p[2], 'a', FAKE_PAGE);
	fake_kill(&self->fake);
	ASSERT_EQ(-ENOTCONN, query(self->s));
	for (int k = 0; k < 4; k++)
		EXPECT_EQ(k == 2 ? 'a' : k + 1, p[k][FAKE_PAGE - 1]);
}

TEST_F(broker, a_child)
{
	struct kvcache_event ev;
	uint64_t h, g;
	int status;
	char *p;
	pid_t pid;

	start(self, NULL);
	ASSERT_EQ(0, alloc_until(self->s, 1, 0, &h));
	p = at(self->s, h);
	*p = 'p';
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		if (query(self->s) != -EPERM || put(self->s, &h, 1) != -EPERM)
			_exit(1);
		if (alloc_until(self->s, 1, NEVER, &g) != -EPERM)
			_exit(2);
		if (self->s->ops->events(self->s, &ev, 1, 0) != -EPERM ||
		    self->s->ops->window(self->s, 0, 0))
			_exit(3);
		/* The parent's pages are not the child's. */
		if (readable(p))
			_exit(4);
		self->s->ops->close(self->s);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status);
	EXPECT_EQ('p', *p);
	EXPECT_EQ(0, query(self->s));
	ASSERT_EQ(0, put(self->s, &h, 1));
	EXPECT_EQ(1, fake_shared->freed);
}

/* ---- what a broker would never say ---------------------------------------- */

static int mischief;

static bool misbehaves(int fd, struct fake_msg *m)
{
	uint64_t pages[2] = { 1ULL << 32 | 1, 1ULL << 32 | 100000 };

	if (m->h.nr != KVCACHE_NR_FREE)
		return false;
	switch (mischief) {
	case 0:
		m->h.magic++;
		break;
	case 1:
		send(fd, m, sizeof(m->h) - 1, 0);
		return true;
	case 2:
		fake_reply(fd, m, 1);
		return true;
	case 3:
		m->h.nr++;
		break;
	case 4:
		m->h.cookie++;
		break;
	case 5:
		close(fd);
		_exit(0);
	case 6:
		/* Pages that nobody asked for, and one that cannot be. */
		fake_pages(fd, m->h.cookie + 1, pages, 2, 0);
		fake_pages(fd, m->h.cookie, pages, 2, KVCB_PAGE_WRITE);
		fake_reply(fd, m, 0);
		return true;
	}
	fake_reply(fd, m, 0);
	return true;
}

TEST_F(broker, nonsense)
{
	uint64_t h = 1;

	for (mischief = 0; mischief < 7; mischief++) {
		start(self, misbehaves);
		EXPECT_EQ(mischief == 6 ? 0 : -ENOTCONN, put(self->s, &h, 1));
		EXPECT_EQ(mischief == 6 ? 0 : -ENOTCONN, query(self->s));
		if (mischief == 6)
			break;
		self->s->ops->close(self->s);
		self->s = NULL;
		fake_stop(&self->fake);
	}
}

TEST_HARNESS_MAIN
