// SPDX-License-Identifier: MIT
/*
 * room.c - whether a conversation can ever fit, and what to say if not.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <kvattn.h>
#include <kvcache/kvcache.h>

#include "conv.h"
#include "engine.h"
#include "room.h"
#include "util.h"

/* Pages of one conversation of @ntokens, with K and V of a type. */
static uint64_t pages(const struct engine *e, uint64_t ntokens, int k_type,
		      int v_type)
{
	struct kvc_group group = e->group;
	struct kvc_model m = e->shape;
	struct kvc_footprint fp;

	group.k_type = k_type;
	group.v_type = v_type;
	m.groups = &group;
	if (kvc_footprint(&m, e->page_size, ntokens, 1, &fp))
		return UINT64_MAX;
	return fp.pages;
}

/* Append one of several remedies. */
__attribute__((format(printf, 2, 3)))
static void lever(char *buf, const char *fmt, ...)
{
	size_t n = strlen(buf);
	va_list ap;

	n += snprintf(buf + n, 512 - n, "%s", n ? ", " : "");
	va_start(ap, fmt);
	vsnprintf(buf + n, 512 - n, fmt, ap);
	va_end(ap);
}

/* A bigger pool, or a higher limit if that is what binds. */
static void lever_pool(const struct engine *e, char *buf, uint64_t limit,
		       uint64_t want)
{
	char size[32];

	if (e->opts->max_pages && limit >= e->opts->max_pages)
		lever(buf, "--max-pages %" PRIu64, want);
	else
		lever(buf, "--pool %s",
		      option_size(want * e->page_size, size));
}

/* A smaller type of keys and values, if @limit pages are enough then. */
static void lever_type(const struct engine *e, char *buf, uint64_t limit,
		       uint64_t ntokens)
{
	uint64_t n = pages(e, ntokens, KVA_F16, KVA_F16);

	if ((e->opts->k_type == KVA_F32 || e->opts->v_type == KVA_F32) &&
	    n <= limit)
		lever(buf, "--kv f16 (%" PRIu64 " pages)", n);
}

/* Fewer tokens to generate: the most that fit. */
static void lever_length(const struct engine *e, char *buf, uint64_t limit,
			 const struct conv *c)
{
	const struct options *o = e->opts;
	uint32_t lo = 0, hi = conv_left(c, e), mid;

	while (lo < hi) {
		mid = lo + (hi - lo + 1) / 2;
		if (pages(e, c->ids.n + mid - 1, o->k_type, o->v_type) <= limit)
			lo = mid;
		else
			hi = mid - 1;
	}
	if (lo)
		lever(buf, "-n %u", lo + conv_generated(c));
}

bool room_possible(const struct engine *e, const struct conv *c)
{
	uint32_t more = conv_left(c, e), ntokens = c->ids.n, len = 0;
	char buf[512] = "", size[32];
	struct kvc_room room;
	uint64_t want;

	/* The last token is never stored. */
	if (e->opts->on_full == ON_FULL_PREEMPT && more)
		ntokens += more - 1;
	if (c->seq) {
		len = kvc_seq_len(c->seq);
		kvc_predict(e->cache, c->seq, NULL, ntokens - len, 0, &room);
	} else {
		kvc_predict(e->cache, NULL, c->ids.v, c->ids.n,
			    ntokens - c->ids.n, &room);
	}
	if (room.possible)
		return true;
	want = pages(e, ntokens, e->opts->k_type, e->opts->v_type);
	lever_type(e, buf, room.limit_pages, ntokens);
	if (e->opts->on_full == ON_FULL_PREEMPT) {
		lever_length(e, buf, room.limit_pages, c);
		if (pages(e, c->ids.n, e->opts->k_type, e->opts->v_type) <=
		    room.limit_pages)
			lever(buf, "--on-full stop");
	}
	lever_pool(e, buf, room.limit_pages, want);
	complain("conversation %s is refused: %" PRIu64 " pages of %s wanted for %u tokens, %" PRIu64 " held, %" PRIu64 " allowed: %" PRIu64 " missing; it fits with %s",
		 c->name, want, human_size(e->page_size, size), ntokens,
		 room.held_pages, room.limit_pages, want - room.limit_pages,
		 buf);
	return false;
}

void room_ended(const struct engine *e, const struct conv *c,
		unsigned int running)
{
	const struct options *o = e->opts;
	char buf[512] = "", size[32];
	struct kvc_room room;
	uint64_t want;

	kvc_predict(e->cache, c->seq, NULL, conv_todo(c), 0, &room);
	want = pages(e, c->ids.n + conv_left(c, e), o->k_type, o->v_type);
	if (running > 1) {
		lever(buf, "--parallel %u", running - 1);
		if (o->on_full == ON_FULL_STOP)
			lever(buf, "--on-full preempt");
	}
	lever_type(e, buf, room.limit_pages, c->ids.n + conv_left(c, e));
	lever_pool(e, buf, room.limit_pages,
		   room.limit_pages + (want > kvc_seq_pages(c->seq) ?
				       want - kvc_seq_pages(c->seq) : 1));
	complain("conversation %s ends after %u tokens: %" PRIu64 " pages of %s wanted, %u held by it, %" PRIu64 " by all, %" PRIu64 " allowed; it could go on with %s",
		 c->name, conv_generated(c), room.new_pages,
		 human_size(e->page_size, size), kvc_seq_pages(c->seq),
		 room.held_pages, room.limit_pages, buf);
}
