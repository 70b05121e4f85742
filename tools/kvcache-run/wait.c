// SPDX-License-Identifier: MIT
/*
 * wait.c - the pages that a conversation takes to start, and the wait for those
 * that other processes hold.
 *
 * Who waits holds nothing, not even what is cached of its prompt: two that wait
 * for what the other holds would wait for ever.
 */
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include <kvcache/kvcache.h>

#include "conv.h"
#include "engine.h"
#include "room.h"
#include "sched.h"
#include "util.h"

/* Tokens still to come for which it takes pages at once. */
static uint32_t ahead(const struct sched *s, const struct conv *c)
{
	/* A static one has room for a whole chat, or for what it may come to. */
	if (s->e->opts->fixed && c->keep)
		return s->e->ctx_len - conv_stored(c, s->e);
	return c->whole || s->e->opts->fixed ? conv_ahead(c, s->e) : 0;
}

static void seq_opts(const struct sched *s, const struct conv *c,
		     struct kvc_seq_opts *o)
{
	*o = (struct kvc_seq_opts){ .sz = sizeof(*o), .common = c->common };
	if (s->e->opts->fixed)
		o->fixed = c->ids.n + ahead(s, c);
}

int sched_predict(const struct sched *s, const struct conv *c, uint32_t extra,
		  struct kvc_room *room)
{
	if (extra < ahead(s, c))
		extra = ahead(s, c);
	/* What an idle one has is as good as cached: it may be gone. */
	if (c->state != CONV_WAITING || (c->seq && s->e->opts->fixed))
		return kvc_predict(s->e->cache, c->seq, NULL,
				   conv_todo(c) + extra, 0, room);
	return kvc_predict(s->e->cache, NULL, c->ids.v, conv_stored(c, s->e),
			   extra, room);
}

/* Put the conversation's tokens after what is cached of them. */
static int fill(const struct sched *s, const struct conv *c,
		struct kvc_seq *seq)
{
	uint32_t n = conv_stored(c, s->e);
	int ret = kvc_seq_prefix(seq, c->ids.v, n);

	if (ret < 0)
		return ret;
	return kvc_seq_reserve(seq, n - ret + ahead(s, c), 0);
}

static int wake(const struct sched *s, struct conv *c)
{
	int ret = kvc_seq_wake(c->seq);

	if (ret < 0)
		return ret;
	ret = kvc_seq_reserve(c->seq, conv_stored(c, s->e) + ahead(s, c) - ret,
			      0);
	if (!ret || !kvc_seq_idle(c->seq))
		return ret;
	/* It lost pages: it begins without any. */
	kvc_seq_free(c->seq, 0);
	c->seq = NULL;
	return ret;
}

int sched_take_pages(const struct sched *s, struct conv *c)
{
	struct kvc_seq_opts sopts;
	int ret;

	if (c->seq)
		return wake(s, c);
	seq_opts(s, c, &sopts);
	ret = kvc_seq_create(s->e->cache, &sopts, &c->seq);
	if (ret)
		return ret;
	ret = fill(s, c, c->seq);
	if (ret) {
		kvc_seq_free(c->seq, KVC_SEQ_DISCARD);
		c->seq = NULL;
	}
	return ret;
}

/*
 * Tokens of a fresh sequence that take the pages which are missing: of one group
 * just as many; of several no fewer in each, as the reused part ends within a
 * page of every one.
 */
static uint32_t missing_tokens(const struct sched *s, const struct conv *c,
			       const struct kvc_room *room)
{
	uint32_t per_page, most = 0, g;

	for (g = 0; (per_page = kvc_cache_page_tokens(s->e->cache, g)); g++)
		most = per_page > most ? per_page : most;
	if (g == 1)
		return room->new_pages * most;
	return c->ids.n + ahead(s, c) - room->reused_tokens + most - 1;
}

/*
 * Sleep until the pages that are missing are there, and put what is cached
 * before them. -EAGAIN: that has gone meanwhile.
 */
static int wait_for_pages(const struct sched *s, struct conv *c,
			  uint64_t deadline_ns)
{
	struct kvc_seq_opts sopts;
	struct kvc_room room;
	int ret;

	ret = sched_predict(s, c, 0, &room);
	if (ret)
		return ret;
	if (!room.possible)
		return -E2BIG;
	seq_opts(s, c, &sopts);
	sopts.fixed = 0;
	ret = kvc_seq_create(s->e->cache, &sopts, &c->seq);
	if (ret)
		return ret;
	ret = kvc_seq_reserve(c->seq, missing_tokens(s, c, &room),
			      deadline_ns);
	if (!ret && s->e->opts->fixed) {
		/* They are there: for one that is static from its beginning. */
		kvc_seq_free(c->seq, KVC_SEQ_DISCARD);
		c->seq = NULL;
		ret = sched_take_pages(s, c);
	} else if (!ret) {
		ret = fill(s, c, c->seq);
	}
	if (ret == -ENOSPC || ret == -EDQUOT)
		ret = -EAGAIN;
	if (ret && c->seq) {
		kvc_seq_free(c->seq, KVC_SEQ_DISCARD);
		c->seq = NULL;
	}
	return ret;
}

static uint64_t deadline(const struct options *o)
{
	struct timespec ts;

	if (o->wait_s < 0)
		return KVCACHE_TIME_NEVER;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec +
	       (uint64_t)(o->wait_s * 1e9);
}

/* It gets no pages, and will not. Return: 0. */
static int refuse(struct sched *s, struct conv *c, int why)
{
	char what[64] = "is refused";

	if (conv_generated(c))
		snprintf(what, sizeof(what), "ends after %u tokens",
			 conv_generated(c));
	if (why == -ETIMEDOUT)
		complain("conversation %s %s: others held the pages for %g s: give a longer --wait, or the tenant a min",
			 c->name, what, s->e->opts->wait_s);
	else
		complain("conversation %s %s: %s", c->name, what,
			 kvc_errmsg(s->e->kvc));
	c->finish = conv_generated(c) ? FINISH_EVICTED : FINISH_REFUSED;
	sched_end(s, c);
	return 0;
}

int sched_wait(struct sched *s, struct conv *c)
{
	/* In this process there is nobody who could give any back. */
	bool alone = engine_local(s->e) || !s->e->opts->wait_s;
	uint64_t until = deadline(s->e->opts);
	int ret;

	for (;;) {
		ret = sched_take_pages(s, c);
		if (ret && c->seq) {
			kvc_seq_free(c->seq, 0);
			c->seq = NULL;
			ret = sched_take_pages(s, c);
		}
		if ((ret == -ENOSPC || ret == -EDQUOT) && !alone) {
			ret = wait_for_pages(s, c, until);
			sched_relieved(s);
		}
		if (!ret)
			return 1;
		if (ret == -EINTR)
			return 0;
		if (ret == -EAGAIN)
			continue;
		if (ret != -E2BIG)
			return refuse(s, c, ret);
		/* A limit that was lowered. */
		if (!room_possible(s->e, c)) {
			c->finish = conv_generated(c) ? FINISH_EVICTED :
							FINISH_REFUSED;
			sched_end(s, c);
			return 0;
		}
	}
}
