// SPDX-License-Identifier: MIT
/*
 * wait.c - requests that wait: for pages, in the order of the ledger, and for
 * events.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/kernel.h>
#include <linux/list.h>

#include "server.h"

/* ---- for pages ----------------------------------------------------------- */

static void wait_add(struct request *r, void (*fn)(struct broker *b,
						   struct timer *t), u64 at)
{
	struct client *c = r->c;

	list_add_tail(&r->link, &c->waiting);
	c->nr_waiting++;
	c->user->nr_waiting += r->nr == KVCACHE_NR_ALLOC;
	c->nr_busy--;
	r->timer.fn = fn;
	timer_arm(c->open.b, &r->timer, at);
}

static void wait_del(struct request *r)
{
	list_del_init(&r->link);
	r->c->nr_waiting--;
	r->c->user->nr_waiting -= r->nr == KVCACHE_NR_ALLOC;
	r->c->nr_busy++;
	timer_stop(r->c->open.b, &r->timer);
}

/* Stops waiting: @err, if it is not too late for that. */
static void give_up(struct request *r, int err)
{
	struct broker *b = r->c->open.b;
	int rc = kvl_cancel(b->ledger, &r->alloc, err, b->now);

	wait_del(r);
	/* Others may have been behind it. */
	wait_decided(b);
	request_end(r, rc);
}

static void pages_late(struct broker *b, struct timer *t)
{
	give_up(container_of(t, struct request, timer), -ETIMEDOUT);
}

/*
 * Without a deadline it waits for pages only that are being truncated: not
 * long, and for no client.
 */
void wait_for_pages(struct request *r)
{
	u64 deadline = r->f->arg.alloc.deadline_ns;
	bool many = r->c->nr_waiting >= KVCB_WAITING ||
		    r->c->user->nr_waiting >= KVCB_WAITING_USER;

	wait_add(r, pages_late, r->alloc.nowait ? KVCACHE_TIME_NEVER :
		 deadline);
	if (many)
		give_up(r, -EBUSY);
}

void wait_decided(struct broker *b)
{
	struct kvl_request *k;
	struct request *r;

	while ((k = kvl_next_done(b->ledger))) {
		r = container_of(k, struct request, alloc);
		wait_del(r);
		request_end(r, k->status);
	}
}

/* ---- for events ---------------------------------------------------------- */

static void events_end(struct request *r, int rc)
{
	struct client *c = r->c;

	c->events = NULL;
	list_del_init(&c->listen);
	wait_del(r);
	send_reply(c, r->reply, rc, r->size);
	free(r);
}

static void events_late(struct broker *b, struct timer *t)
{
	events_end(container_of(t, struct request, timer), 0);
}

static bool events_read(struct client *c, struct kvcb_events *e)
{
	e->out_nr = kvl_events(c->open.cmd.ledger, c->open.cmd.client,
			       e->out_events, e->max);
	return e->out_nr;
}

/* Their reply is sent now, or later: 0; or -errno, and @reply is not used. */
int wait_for_events(struct client *c, struct out *reply)
{
	struct kvcb_events *e = (struct kvcb_events *)reply->body;
	struct broker *b = c->open.b;
	struct request *r;

	memset(e->out_events, 0, sizeof(e->out_events));
	e->out_nr = 0;
	if (e->__reserved)
		return -EOPNOTSUPP;
	if (!e->max || e->max > KVCB_MAX_EVENTS)
		return -EINVAL;
	if (!c->open.cmd.client)
		return -ENOTCONN;
	if (c->events)
		return -EBUSY;
	if (events_read(c, e) || e->deadline_ns <= b->now) {
		send_reply(c, reply, 0, sizeof(*e));
		return 0;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->c = c;
	r->nr = KVCB_NR_EVENTS;
	r->reply = reply;
	r->size = sizeof(*e);
	c->events = r;
	list_add_tail(&c->listen, &b->listeners);
	wait_add(r, events_late, e->deadline_ns);
	return 0;
}

void wait_posted(struct broker *b)
{
	u64 posted = kvl_posted(b->ledger);
	struct client *c, *next;

	if (posted == b->posted)
		return;
	b->posted = posted;
	list_for_each_entry_safe(c, next, &b->listeners, listen) {
		if (!kvl_events_pending(b->ledger, c->open.cmd.client))
			continue;
		events_read(c, (struct kvcb_events *)c->events->reply->body);
		events_end(c->events, 0);
	}
}

/* ---- the end of waiting -------------------------------------------------- */

void wait_cancel(struct client *c, u32 cookie)
{
	struct request *r;

	list_for_each_entry(r, &c->waiting, link) {
		if (r->reply->head.cookie != cookie)
			continue;
		if (r == c->events)
			events_end(r, -EINTR);
		else
			give_up(r, -EINTR);
		return;
	}
}

/* What waits for pages is ended by the ledger. */
void wait_end(struct client *c, int rc)
{
	if (c->events)
		events_end(c->events, rc);
}
