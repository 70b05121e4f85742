// SPDX-License-Identifier: MIT
/*
 * flight.c - descriptors that were sent and not received yet.
 *
 * Linux bounds how many of them a user may have on the way, to all others
 * together, by RLIMIT_NOFILE (ETOOMANYREFS). A client that reads nothing keeps
 * its part for as long as it has its socket, cut off or not. So nobody may have
 * more than a quarter of what others leave: there is always something left for
 * one more. That is so among users, and among the connections of each.
 *
 * Nobody tells when something was received. It is looked up when there seems to
 * be no room, and not often.
 */
#include <sys/ioctl.h>

#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/sockios.h>

#include "server.h"

#define SWEEP_NS	(10 * RETRY_NS)

/* Nothing that was sent is on the way any more. */
static bool all_received(const struct client *c)
{
	int bytes;

	return !ioctl(c->sock.fd, SIOCOUTQ, &bytes) && !bytes;
}

static void landed(struct client *c)
{
	struct broker *b = c->open.b;

	c->user->flying -= c->flying;
	b->flying -= c->flying;
	c->flying = 0;
	list_del_init(&c->flyer);
	/* It was kept for this alone. */
	if (c->closed && !listed(&c->link))
		list_add_tail(&c->link, &b->graves);
}

/* Whoever has many connections makes it take long: a tenth of the time. */
static void look_up(struct broker *b)
{
	struct client *c, *next;
	u64 begun = clock_ns(), end;

	if (begun < b->look_up_at)
		return;
	list_for_each_entry_safe(c, next, &b->flyers, flyer)
		if (all_received(c))
			landed(c);
	end = clock_ns();
	b->look_up_at = end + MSEC_NS + 10 * (end - begun);
}

static u32 quarter(u32 all, u32 others)
{
	return others < all ? (all - others) / 4 : 0;
}

static bool is_room(const struct client *c, u32 nr)
{
	const struct broker *b = c->open.b;
	const struct user *u = c->user;
	u32 ours = quarter(b->max_flying, b->flying - u->flying);
	u32 mine = quarter(ours, u->flying - c->flying);

	/* One message is let go in any case. */
	if (!u->flying && nr <= b->max_fds)
		return true;
	return u->flying + nr <= ours &&
	       c->flying + nr <= max_t(u32, mine, b->max_fds);
}

bool flight_room(struct client *c, u32 nr)
{
	if (is_room(c, nr))
		return true;
	if (c->flying && all_received(c))
		landed(c);
	if (is_room(c, nr))
		return true;
	look_up(c->open.b);
	return is_room(c, nr);
}

void flight_add(struct client *c, u32 nr)
{
	struct broker *b = c->open.b;

	if (!nr)
		return;
	c->flying += nr;
	c->user->flying += nr;
	b->flying += nr;
	if (!listed(&c->flyer))
		list_add_tail(&c->flyer, &b->flyers);
}

static void sweep(struct broker *b, struct timer *t)
{
	struct client *c;

	look_up(b);
	list_for_each_entry(c, &b->flyers, flyer) {
		if (!c->closed)
			continue;
		timer_arm(b, t, b->now + SWEEP_NS);
		return;
	}
}

bool flight_over(struct client *c)
{
	struct broker *b = c->open.b;

	if (!c->flying)
		return true;
	if (all_received(c)) {
		landed(c);
		return true;
	}
	if (!b->sweep.pos)
		timer_arm(b, &b->sweep, b->now + SWEEP_NS);
	return false;
}

void flight_end(struct broker *b)
{
	struct client *c, *next;

	list_for_each_entry_safe(c, next, &b->flyers, flyer)
		landed(c);
}

void flight_init(struct broker *b, u64 limit)
{
	b->sweep.fn = sweep;
	/* Who keeps our files for us is sent some, too. */
	b->max_flying = limit / 2;
	b->max_fds = min_t(u64, limit / 64, KVCB_FDS_MAX);
}
