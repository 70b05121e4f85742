// SPDX-License-Identifier: MIT
/*
 * event.c - events, and pages that the backend took away.
 *
 * A revoked page's number may belong to another page a moment later, so the
 * library reads the events itself before it touches pages, in every call that
 * does. What it reads is kept for kvc_events() from the first of its calls on.
 * Where events were dropped, the backend is asked about every page held.
 */
#include <string.h>

#include "internal.h"

/* Ask about up to KVCACHE_MAX_PAGES pages; one by one if some are gone. */
static void ask(struct kvc_cache *c, struct kvc_page *const *pages, uint32_t n)
{
	struct kvcache_advise a = {
		.pool = c->o.pool,
		.advice = KVCACHE_ADVISE_TOUCH,
		.nr = n,
	};
	uint32_t i;
	int rc;

	if (!n)
		return;
	for (i = 0; i < n; i++)
		a.pages[i] = pages[i]->handle;
	rc = kvc_call(c->ctx, KVCACHE_NR_ADVISE, &a);
	if (rc != -ESTALE)
		return;
	if (n == 1)
		kvc_page_lose(c, pages[0]);
	for (i = 0; n > 1 && i < n; i++)
		ask(c, pages + i, 1);
}

/* Events are missing, so pages may have been revoked that none tells of. */
static void ask_all(struct kvc_cache *c)
{
	struct kvc_page *pages[KVCACHE_MAX_PAGES];
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->nslots; i++) {
		if (!c->slots[i] || !c->slots[i]->refs)
			continue;
		pages[n++] = c->slots[i];
		if (n < KVCACHE_MAX_PAGES)
			continue;
		ask(c, pages, n);
		n = 0;
	}
	ask(c, pages, n);
}

static void revoked(struct kvc *ctx, const struct kvcache_event *ev)
{
	struct kvc_page *p;

	for (struct kvc_cache *c = ctx->caches; c; c = c->next) {
		p = c->o.pool == ev->pool ? kvc_page_find(c, ev->value) : NULL;
		if (p)
			kvc_page_lose(c, p);
	}
}

/* Up to @n records from the backend, acted on. */
static int read_events(struct kvc *ctx, struct kvcache_event *ev,
		       unsigned int n, uint64_t deadline_ns)
{
	uint64_t dropped = 0;
	int rc;

	do {
		rc = ctx->sys->ops->events(ctx->sys, ev, n, deadline_ns);
	} while (rc == -EINTR && !deadline_ns);
	for (int i = 0; i < rc; i++) {
		dropped += ev[i].dropped;
		if (ev[i].type == KVCACHE_EV_REVOKED)
			revoked(ctx, &ev[i]);
	}
	if (dropped)
		for (struct kvc_cache *c = ctx->caches; c; c = c->next)
			ask_all(c);
	return rc;
}

static void keep(struct kvc *ctx, const struct kvcache_event *ev)
{
	struct kvcache_event *slot;
	uint32_t at;

	ctx->ev_dropped = KVC_MIN((uint64_t)ctx->ev_dropped + ev->dropped,
				  (uint64_t)UINT32_MAX);
	if (ctx->ev_nr == KVC_EVENTS) {
		ctx->ev_dropped += ctx->ev_dropped < UINT32_MAX;
		return;
	}
	at = (ctx->ev_first + ctx->ev_nr++) % KVC_EVENTS;
	slot = &ctx->ev[at];
	*slot = *ev;
	slot->dropped = ctx->ev_dropped;
	ctx->ev_dropped = 0;
}

/* All that there are now. */
static void drain(struct kvc *ctx)
{
	struct kvcache_event ev[16];
	const int room = sizeof(ev) / sizeof(ev[0]);
	int n, i;

	/* A backend that fails here says why in the next command. */
	do {
		n = read_events(ctx, ev, room, 0);
		for (i = 0; ctx->ev_wanted && i < n; i++)
			keep(ctx, &ev[i]);
	} while (n == room);
}

void kvc_lost_poll(struct kvc *ctx)
{
	if (!ctx->sys->ops->pending || ctx->sys->ops->pending(ctx->sys))
		drain(ctx);
}

int kvc_events(struct kvc *ctx, struct kvcache_event *ev, unsigned int n)
{
	unsigned int i;
	int rc;

	if (!n)
		return kvc_fail(ctx, -EINVAL, "no room for an event");
	if (!ctx->ev_wanted) {
		drain(ctx);
		ctx->ev_wanted = true;
	}
	for (i = 0; i < n && ctx->ev_nr; i++, ctx->ev_nr--) {
		ev[i] = ctx->ev[ctx->ev_first];
		ctx->ev_first = (ctx->ev_first + 1) % KVC_EVENTS;
	}
	rc = i < n ? read_events(ctx, ev + i, n - i, 0) : 0;
	if (rc < 0)
		return i ? (int)i : kvc_gone(ctx, rc, "events");
	if (rc) {
		ev[i].dropped = KVC_MIN((uint64_t)ev[i].dropped +
					ctx->ev_dropped, (uint64_t)UINT32_MAX);
		ctx->ev_dropped = 0;
	}
	return i + rc;
}

int kvc_events_wait(struct kvc *ctx, uint64_t deadline_ns)
{
	struct kvcache_event ev;
	int rc;

	if (!ctx->ev_wanted) {
		drain(ctx);
		ctx->ev_wanted = true;
	}
	if (ctx->ev_nr)
		return 1;
	rc = read_events(ctx, &ev, 1, deadline_ns);
	if (rc > 0)
		keep(ctx, &ev);
	return rc < 0 ? kvc_gone(ctx, rc, "events") : rc;
}

bool kvc_seq_stale(const struct kvc_seq *s)
{
	const struct kvc_chain *ch;

	if (!s->c->nlost)
		return false;
	for (uint32_t g = 0; g < s->c->l.ngroups; g++) {
		ch = &s->chain[g];
		for (uint32_t i = 0; i < ch->n; i++)
			if (ch->pages[i] && ch->pages[i]->lost)
				return true;
	}
	return false;
}

int kvc_seq_check(const struct kvc_seq *s)
{
	kvc_lost_poll(s->c->ctx);
	if (!kvc_seq_stale(s))
		return 0;
	return kvc_fail(s->c->ctx, -ESTALE,
			"pages of the sequence were revoked: free it, and start again from its tokens");
}

int kvc_items_check(struct kvc_cache *c, const struct kvc_item *items,
		    uint32_t n)
{
	kvc_lost_poll(c->ctx);
	for (uint32_t i = 0; c->nlost && i < n; i++)
		if (kvc_seq_stale(items[i].seq))
			return kvc_fail(c->ctx, -ESTALE,
					"item %u: pages of its sequence were revoked: free it, and start again from its tokens",
					i);
	return 0;
}
