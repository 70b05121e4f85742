// SPDX-License-Identifier: MIT
/*
 * timer.c - a heap of timers behind one timerfd.
 */
#include <sys/timerfd.h>
#include <time.h>

#include "server.h"
#include "util.h"

u64 clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SEC_NS + ts.tv_nsec;
}

static void put_at(struct broker *b, u32 pos, struct timer *t)
{
	b->heap[pos - 1] = t;
	t->pos = pos;
}

static void sift_up(struct broker *b, struct timer *t)
{
	u32 pos = t->pos;

	while (pos > 1 && b->heap[pos / 2 - 1]->at > t->at) {
		put_at(b, pos, b->heap[pos / 2 - 1]);
		pos /= 2;
	}
	put_at(b, pos, t);
}

static void sift_down(struct broker *b, struct timer *t)
{
	u32 pos = t->pos, next;

	while ((next = 2 * pos) <= b->nr_timers) {
		if (next < b->nr_timers &&
		    b->heap[next]->at < b->heap[next - 1]->at)
			next++;
		if (b->heap[next - 1]->at >= t->at)
			break;
		put_at(b, pos, b->heap[next - 1]);
		pos = next;
	}
	put_at(b, pos, t);
}

void timer_stop(struct broker *b, struct timer *t)
{
	struct timer *last;
	u32 pos = t->pos;

	if (!pos)
		return;
	t->pos = 0;
	last = b->heap[--b->nr_timers];
	if (last == t)
		return;
	put_at(b, pos, last);
	sift_up(b, last);
	sift_down(b, last);
}

void timer_arm(struct broker *b, struct timer *t, u64 at)
{
	timer_stop(b, t);
	if (at == KVCACHE_TIME_NEVER)
		return;
	if (b->nr_timers == b->max_timers) {
		b->max_timers = b->max_timers ? 2 * b->max_timers : 64;
		b->heap = xrealloc(b->heap, b->max_timers, sizeof(*b->heap));
	}
	t->at = at;
	put_at(b, ++b->nr_timers, t);
	sift_up(b, t);
}

void timers_run(struct broker *b)
{
	struct timer *t;

	while (b->nr_timers && b->heap[0]->at <= b->now) {
		t = b->heap[0];
		timer_stop(b, t);
		t->fn(b, t);
	}
}

void timers_set(struct broker *b)
{
	u64 at = b->nr_timers ? b->heap[0]->at : 0;
	struct itimerspec its = {
		.it_value = { .tv_sec = at / SEC_NS, .tv_nsec = at % SEC_NS },
	};

	if (b->nr_timers && !at)
		its.it_value.tv_nsec = 1;
	if (at == b->clock_at)
		return;
	b->clock_at = at;
	timerfd_settime(b->clock.fd, TFD_TIMER_ABSTIME, &its, NULL);
}
