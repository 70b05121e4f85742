// SPDX-License-Identifier: MIT
/*
 * admit.c - which conversations start, and which give way when the pool has no
 * page left.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <kvcache/kvcache.h>

#include "conv.h"
#include "engine.h"
#include "interrupt.h"
#include "order.h"
#include "room.h"
#include "sched.h"
#include "util.h"
#include "verify.h"

/* Waiting conversations that are looked at, the oldest ones. */
#define ADMIT_WINDOW 64
/* Steps after which it is tried again without an occasion of our own. */
#define RETRY_STEPS 16

/*
 * Is a running conversation about to compute at least a block more of this
 * one's prompt than is cached? Then it is cheaper to wait for it.
 */
static bool held(const struct sched *s, const struct conv *c, uint32_t cached)
{
	uint32_t block = kvc_cache_block_tokens(s->e->cache, 0);
	uint32_t common;
	unsigned int i;

	if (s->e->opts->no_reuse)
		return false;
	for (i = 0; i < s->nrun; i++) {
		const struct conv *r = s->run[i];

		if (r->state != CONV_PREFILL)
			continue;
		common = order_common(c->ids.v, c->ids.n - 1, r->ids.v,
				      r->ids.n);
		if (common >= cached + block && kvc_seq_len(r->seq) < common)
			return true;
	}
	return false;
}

/* Will it need another page after @now for what it is still to generate? */
static uint32_t growth(const struct sched *s, const struct conv *c,
		       uint64_t now)
{
	uint32_t more = conv_ahead(c, s->e);
	struct kvc_room room;

	if (!more || c->whole || sched_predict(s, c, more, &room))
		return 0;
	return room.new_pages > now;
}

/*
 * The pages it takes now must be there, and beside them one more for each
 * conversation that grows: whoever starts gets somewhere before anybody has to
 * give way.
 */
static bool fits(const struct sched *s, const struct conv *c)
{
	struct kvc_room room;
	uint64_t want;
	unsigned int i;

	if (sched_predict(s, c, 0, &room) || !room.fits)
		return false;
	if (!s->nrun)
		return true;
	want = room.new_pages + room.idle_pages +
	       growth(s, c, room.new_pages);
	for (i = 0; i < s->nrun; i++)
		want += growth(s, s->run[i], 0);
	return want <= room.available_pages;
}

/*
 * It continues with @len positions. Others may meanwhile have computed more of
 * it than it had: then it owes less than before, and reuses the rest.
 */
static void count_return(struct conv *c, uint32_t len)
{
	uint32_t more, less;

	if (c->stored >= len) {
		c->recomputed += c->stored - len;
		return;
	}
	more = len - c->stored;
	less = more < c->recomputed ? more : c->recomputed;
	c->recomputed -= less;
	c->reused += more - less;
}

static void start(struct sched *s, struct conv *c)
{
	uint32_t len = kvc_seq_len(c->seq);
	unsigned int i;

	if (!c->started) {
		c->started = now();
		c->reused = len + c->gone.n;
		if (c->check && c->slept)
			check_back(c->check, c->seq);
		else if (c->check)
			check_rows(c->check, c->seq);
	} else {
		count_return(c, len);
		if (c->check)
			check_back(c->check, c->seq);
	}
	c->stored = 0;
	c->state = CONV_PREFILL;
	s->run[s->nrun++] = c;
	for (i = 0; i < s->n && s->v[i]->arrival < c->arrival; i++)
		s->v[i]->passed += s->v[i]->state == CONV_WAITING;
}

/* The waiting conversations in the window, as order_next() sees them. */
static unsigned int window(const struct sched *s, struct order_req *req,
			   struct conv **conv)
{
	struct kvc_room room;
	unsigned int i, n = 0;

	for (i = 0; i < s->n && n < ADMIT_WINDOW; i++) {
		struct conv *c = s->v[i];

		if (c->state != CONV_WAITING)
			continue;
		if (sched_predict(s, c, 0, &room))
			room.reused_tokens = 0;
		conv[n] = c;
		req[n++] = (struct order_req){
			.arrival = c->arrival,
			.cached = room.reused_tokens,
			.passed = c->passed,
			.held = held(s, c, room.reused_tokens),
			.gave_way = c->preempted,
		};
	}
	return n;
}

/* Start one. Return: 1 to be called again; 0; -1 after a complaint. */
static int admit_one(struct sched *s)
{
	struct order_req req[ADMIT_WINDOW];
	struct conv *conv[ADMIT_WINDOW];
	uint32_t limit = UINT32_MAX;
	unsigned int n;
	int i, ret;

	n = window(s, req, conv);
	while ((i = order_next(req, n, limit)) >= 0) {
		if (fits(s, conv[i])) {
			ret = sched_take_pages(s, conv[i]);
			if (!ret) {
				start(s, conv[i]);
				return 1;
			}
			if (ret != -ENOSPC && ret != -EDQUOT)
				return complain("conversation %s: %s",
						conv[i]->name,
						kvc_errmsg(s->e->kvc));
		}
		limit = req[i].arrival;
	}
	if (s->nrun || !n)
		return 0;
	/* Other clients hold the pages, and nobody here can give one back. */
	i = order_next(req, n, UINT32_MAX);
	ret = sched_wait(s, conv[i]);
	if (ret > 0)
		start(s, conv[i]);
	return ret < 0 ? -1 : !interrupted();
}

int sched_admit(struct sched *s)
{
	bool more = s->changed || !s->nrun;
	int ret = 1;

	/* Others may have given pages back meanwhile. */
	if (s->n > s->nrun && !engine_local(s->e))
		more |= s->steps % RETRY_STEPS == 0;
	if (!more)
		return 0;
	while (ret > 0 && s->nrun < s->e->opts->parallel)
		ret = admit_one(s);
	s->changed = false;
	return ret < 0 ? -1 : 0;
}

void sched_preempt(struct sched *s, struct conv *c)
{
	if (c->check && !check_is_lost(c->check))
		check_drop(c->check, c->seq);
	c->stored = kvc_seq_len(c->seq);
	c->preempted++;
	c->passed = 0;
	c->ahead = 0;
	c->state = CONV_WAITING;
	sched_remove(s, c);
	/* It goes on later: what others take of it can be read back. */
	if (s->e->tiers.n)
		kvc_seq_offload(c->seq);
	kvc_seq_free(c->seq, 0);
	c->seq = NULL;
	s->changed = true;
}

int sched_make_room(struct sched *s)
{
	bool stop = s->e->opts->on_full == ON_FULL_STOP;
	struct conv *victim = NULL;
	struct kvc_room room;
	unsigned int i;

	/*
	 * Alone it does not fit, or others hold what it wants. They may want
	 * what it holds: it waits without, then, and for all at once.
	 */
	if (!stop && s->nrun == 1) {
		stop = sched_predict(s, s->run[0], 0, &room) || !room.possible;
		s->run[0]->whole = !stop;
	}

	for (i = 0; i < s->nrun; i++) {
		struct conv *c = s->run[i];

		/* Only one that wants a page is ended for want of it. */
		if (stop && (sched_predict(s, c, 0, &room) || !room.new_pages))
			continue;
		if (!victim || c->arrival > victim->arrival)
			victim = c;
	}
	if (!victim)
		return complain("no step can be made: %s",
				kvc_errmsg(s->e->kvc));
	if (!stop) {
		sched_preempt(s, victim);
		return 0;
	}
	room_ended(s->e, victim, s->nrun);
	victim->finish = FINISH_EVICTED;
	sched_end(s, victim);
	return 0;
}
