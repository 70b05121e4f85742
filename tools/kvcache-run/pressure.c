// SPDX-License-Identifier: MIT
/*
 * pressure.c - others want pages, or a limit was lowered.
 *
 * What is idle or cached is taken without asking. What is asked for is what
 * runs: the youngest gives way first, keeps its tokens, and computes the rest
 * again later. To a neighbour the oldest never does, so that something always
 * goes on; to a limit all do.
 */
#include <errno.h>

#include <kvcache/kvcache.h>

#include "conv.h"
#include "engine.h"
#include "sched.h"
#include "verify.h"

/* What was asked for since the last time. */
struct asked {
	uint64_t reclaim;
	bool shrink;
};

static struct asked asked(struct sched *s)
{
	struct kvcache_event ev[16];
	struct asked a = { 0 };
	int n, i;

	/* A backend that fails here says why in the next command. */
	while ((n = kvc_events(s->e->kvc, ev, 16)) > 0) {
		for (i = 0; i < n; i++) {
			if (ev[i].type == KVCACHE_EV_SHRINK || ev[i].dropped)
				a.shrink = true;
			if (ev[i].type == KVCACHE_EV_RECLAIM &&
			    ev[i].value > a.reclaim)
				a.reclaim = ev[i].value;
		}
	}
	return a;
}

void sched_relieved(struct sched *s)
{
	asked(s);
}

/* Is it so still that nobody can have @n pages? */
static bool wanted(const struct sched *s, uint64_t n)
{
	struct kvcache_alloc a = { .flags = KVCACHE_ALLOC_CHECK };

	a.nr = n < UINT32_MAX ? n : UINT32_MAX;
	return kvc_call(s->e->kvc, KVCACHE_NR_ALLOC, &a) == -ENOSPC;
}

static struct conv *youngest(const struct sched *s)
{
	struct conv *c = s->run[0];
	unsigned int i;

	for (i = 1; i < s->nrun; i++)
		if (s->run[i]->arrival > c->arrival)
			c = s->run[i];
	return c;
}

static uint64_t give(struct sched *s)
{
	struct conv *c = youngest(s);
	uint64_t n = kvc_seq_pages(c->seq);

	sched_preempt(s, c);
	s->gave++;
	return n;
}

int sched_relieve(struct sched *s)
{
	struct asked a = asked(s);
	uint64_t given = 0;

	if (a.shrink) {
		s->asked++;
		while (s->nrun && engine_excess(s->e))
			give(s);
	}
	if (a.reclaim) {
		s->asked++;
		while (s->nrun > 1 && given < a.reclaim &&
		       wanted(s, a.reclaim - given))
			given += give(s);
	}
	return 0;
}

unsigned int sched_revoked(struct sched *s)
{
	struct kvc_room room;
	unsigned int n = 0, i;

	for (i = s->nrun; i; i--) {
		struct conv *c = s->run[i - 1];

		if (kvc_predict(s->e->cache, c->seq, NULL, 0, 0, &room) !=
		    -ESTALE)
			continue;
		if (c->check)
			check_lost(c->check);
		sched_preempt(s, c);
		n++;
	}
	return n;
}
