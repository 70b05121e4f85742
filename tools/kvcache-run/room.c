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
	struct model_groups groups = e->groups;
	struct kvc_model m = e->shape;
	struct kvc_footprint fp;
	uint32_t i;

	for (i = 0; i < m.ngroups; i++) {
		groups.group[i].k_type = k_type;
		groups.group[i].v_type = v_type;
	}
	m.groups = groups.group;
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

/* All that allows fewer pages than are wanted: a bigger pool, a higher limit. */
static void lever_pool(const struct engine *e, char *buf, uint64_t want)
{
	char size[32], max[128], pool[64];
	struct limits l;

	engine_limits(e, &l);
	option_size(want * e->page_size, size);
	if (engine_local(e)) {
		snprintf(max, sizeof(max), "--max-pages %" PRIu64, want);
		snprintf(pool, sizeof(pool), "--pool %s", size);
	} else {
		snprintf(max, sizeof(max), "a max of %" PRIu64 " pages for tenant %s",
			 want, l.tenant);
		snprintf(pool, sizeof(pool), "a pool of %s", size);
	}
	if (l.max_pages < want && l.pool_pages < want)
		lever(buf, "%s and %s", max, pool);
	else
		lever(buf, "%s", l.max_pages < want ? max : pool);
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
	if (!lo)
		return;
	/* What a request says goes before the option. */
	if (c->max_new_key)
		lever(buf, "%u as %s of its request", lo + conv_generated(c),
		      c->max_new_key);
	else
		lever(buf, "-n %u", lo + conv_generated(c));
}

bool room_possible(const struct engine *e, const struct conv *c)
{
	uint32_t n = conv_stored(c, e), ntokens = n;
	char buf[512] = "", size[32];
	struct kvc_room room;
	uint64_t want, limit, kept;
	int ret;

	if (e->opts->on_full == ON_FULL_PREEMPT)
		ntokens += conv_ahead(c, e);
	ret = kvc_predict(e->cache, NULL, c->ids.v, n, ntokens - n, &room);
	if (ret) {
		complain("conversation %s is refused: %s: begin it anew",
			 c->name, strerror(-ret));
		return false;
	}
	if (room.possible)
		return true;
	limit = room.limit_pages;
	want = room.most_pages;
	/* A step has more pages of a window than it leaves behind. */
	kept = pages(e, ntokens, e->opts->k_type, e->opts->v_type);
	kept = kept < want ? limit - (want - kept) : limit;
	kept = kept > limit ? 0 : kept;
	lever_type(e, buf, kept, ntokens);
	if (e->opts->on_full == ON_FULL_PREEMPT) {
		lever_length(e, buf, kept, c);
		if (pages(e, c->ids.n, e->opts->k_type, e->opts->v_type) <=
		    kept)
			lever(buf, "--on-full stop");
	}
	lever_pool(e, buf, want);
	complain("conversation %s is refused: %" PRIu64 " pages of %s wanted for %u tokens, %" PRIu64 " held, %" PRIu64 " allowed: %" PRIu64 " missing; it fits with %s",
		 c->name, want, human_size(e->page_size, size), ntokens,
		 room.held_pages, limit, want > limit ? want - limit : 0, buf);
	return false;
}

void room_ended(const struct engine *e, const struct conv *c,
		unsigned int running)
{
	const struct options *o = e->opts;
	char buf[512] = "", size[32];
	uint64_t want, own = kvc_seq_pages(c->seq), others;
	uint32_t ntokens;
	struct kvc_room room;
	int ret;

	ret = kvc_predict(e->cache, c->seq, NULL, conv_todo(c), 0, &room);
	if (ret) {
		complain("conversation %s ends after %u tokens: %s: begin it anew",
			 c->name, conv_generated(c), strerror(-ret));
		return;
	}
	ntokens = c->ids.n + conv_ahead(c, e);
	want = pages(e, ntokens, o->k_type, o->v_type);
	others = room.held_pages > own ? room.held_pages - own : 0;
	if (running > 1) {
		lever(buf, "--parallel %u", running - 1);
		if (o->on_full == ON_FULL_STOP)
			lever(buf, "--on-full preempt");
	}
	if (room.limit_pages > others)
		lever_type(e, buf, room.limit_pages - others, ntokens);
	lever_pool(e, buf, room.limit_pages + (want > own ? want - own : 1));
	complain("conversation %s ends after %u tokens: %" PRIu64 " pages of %s wanted, %" PRIu64 " held by it, %" PRIu64 " by all, %" PRIu64 " allowed; it could go on with %s",
		 c->name, conv_generated(c), room.new_pages,
		 human_size(e->page_size, size), own, room.held_pages,
		 room.limit_pages, buf);
}
