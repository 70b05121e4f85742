// SPDX-License-Identifier: MIT
/*
 * broker.c - the loop: what happened, then everything that follows from it.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <linux/kernel.h>
#include <linux/list.h>

#include "server.h"
#include "util.h"

#ifndef MAX_TENANTS
#define MAX_TENANTS	4096
#define MAX_CLIENTS	65536
#endif
#define NR_EVENTS	256
#define TICK_BUDGET	256
#define NR_READY	64	/* events of a turn */

/* Descriptors for all but pages and connections: those of a message above all. */
#define SPARE_FDS	320
#define MIN_FDS		512
#define MAX_RESERVE	64	/* connections */

/* ---- one turn ------------------------------------------------------------ */

static void tick(struct broker *b)
{
	u64 next = kvl_next_tick(b->ledger);

	if (next <= b->now) {
		kvl_tick(b->ledger, b->now, TICK_BUDGET);
		/* It is truncated as soon as it is work. */
		kvl_revoked(b->ledger);
		wait_decided(b);
		next = kvl_next_tick(b->ledger);
	}
	timer_arm(b, &b->tick, next);
}

/*
 * Everybody who has something to say gets a turn; those for whom there is no time
 * are the first in the next one, when the others have their replies.
 */
static bool serve_ready(struct broker *b)
{
	u64 until = b->now + SLICE_NS;
	LIST_HEAD(again);
	struct client *c;

	while (listed(&b->ready)) {
		c = list_first_entry(&b->ready, struct client, ready);
		list_del_init(&c->ready);
		if (serve_client(c))
			list_add_tail(&c->ready, &again);
		if (clock_ns() >= until)
			break;
	}
	while (listed(&again))
		list_move_tail(again.next, &b->ready);
	return listed(&b->ready);
}

static void flush_unsent(struct broker *b)
{
	LIST_HEAD(now);

	while (listed(&b->unsent))
		list_move_tail(b->unsent.next, &now);
	while (listed(&now))
		send_flush(list_first_entry(&now, struct client, unsent));
}

/* All that can be done without hearing of anything; true: there is more. */
static bool follow(struct broker *b)
{
	bool more;

	more = serve_ready(b);
	more |= serve_changes(b);
	more |= publish_step(b);
	more |= peer_reap(b);
	more |= pages_work(b);
	tick(b);
	wait_posted(b);
	flush_unsent(b);
	/* Replies that were sent make room for requests. */
	more |= listed(&b->ready);
	if (!more)
		more = pages_stock(b);
	peer_bury(b);
	return more;
}

void broker_turn(struct broker *b)
{
	struct epoll_event ev[NR_READY];
	struct watch *w;
	bool more;
	int n, k;

	b->now = clock_ns();
	more = follow(b);
	timers_set(b);
	n = epoll_wait(b->epoll, ev, NR_READY, more ? 0 : -1);
	b->now = clock_ns();
	for (k = 0; k < n; k++) {
		w = ev[k].data.ptr;
		w->fn(b, w, ev[k].events);
	}
	timers_run(b);
}

/* ---- what else can happen ------------------------------------------------ */

static void clock_event(struct broker *b, struct watch *w, u32 events)
{
	u64 times;

	/* It is set anew before the next wait. */
	if (read(w->fd, &times, sizeof(times)) > 0)
		b->clock_at = 0;
}

static void signal_event(struct broker *b, struct watch *w, u32 events)
{
	struct signalfd_siginfo info;

	if (read(w->fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGUSR1)
		broker_verify(b);
	else
		b->stop = true;
}

static void tick_event(struct broker *b, struct timer *t)
{
	/* tick() is called in each turn. */
}

int broker_verify(struct broker *b)
{
	char why[256];
	u32 pool, files = 0;

	if (kvl_verify(b->ledger, why, sizeof(why)) ||
	    pages_verify(b, why, sizeof(why)))
		return complain("ledger: %s", why);
	for (pool = 0; pool < KVCACHE_MAX_POOLS; pool++)
		files += b->pool[pool] ? b->pool[pool]->nr_mem : 0;
	complain("ledger: ok, %u files, %u connections", files, b->nr_clients);
	return 0;
}

int broker_watch(struct broker *b, struct watch *w, u32 events)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	return epoll_ctl(b->epoll, EPOLL_CTL_ADD, w->fd, &ev) ? -errno : 0;
}

int broker_listen(struct broker *b, int fd)
{
	const int yes = 1;
	u32 k;

	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)))
		return -errno;
	b->listen = xrealloc(b->listen, b->nr_listen + 1, sizeof(*b->listen));
	b->listen[b->nr_listen++] = (struct watch){ peer_accept, fd };
	/* They may have moved. */
	for (k = 0; k < b->nr_listen; k++) {
		epoll_ctl(b->epoll, EPOLL_CTL_DEL, b->listen[k].fd, NULL);
		if (broker_watch(b, &b->listen[k], EPOLLIN))
			return -errno;
	}
	b->listening = true;
	return 0;
}

/* ---- the beginning and the end ------------------------------------------- */

/*
 * What a process may have open is shared out: most of it to pages, a part to
 * connections, each of which needs two.
 */
static int share_out(struct broker *b)
{
	struct rlimit r;
	u64 limit, rest;

	if (getrlimit(RLIMIT_NOFILE, &r))
		return complain("getrlimit: %s", strerror(errno));
	r.rlim_cur = r.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &r))
		return complain("setrlimit: %s", strerror(errno));
	limit = min_t(u64, r.rlim_max, 1U << 30);
	if (limit < 2 * MIN_FDS)
		return complain("%llu open files are too few: raise LimitNOFILE=, or ulimit -Hn, to %u or more",
				(unsigned long long)limit, 2 * MIN_FDS);
	rest = max_t(u64, limit / 4, MIN_FDS);
	b->max_pages = limit - rest;
	b->max_clients = min_t(u64, (rest - SPARE_FDS) / 2, MAX_CLIENTS);
	b->reserve = min_t(u32, b->max_clients / 8, MAX_RESERVE);
	flight_init(b, limit);
	return 0;
}

static int make_watches(struct broker *b)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR1);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	b->epoll = epoll_create1(EPOLL_CLOEXEC);
	b->clock.fn = clock_event;
	b->clock.fd = timerfd_create(CLOCK_MONOTONIC,
				     TFD_CLOEXEC | TFD_NONBLOCK);
	b->signals.fn = signal_event;
	b->signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (b->epoll < 0 || b->clock.fd < 0 || b->signals.fd < 0)
		return -errno;
	if (broker_watch(b, &b->clock, EPOLLIN) ||
	    broker_watch(b, &b->signals, EPOLLIN))
		return -errno;
	b->gone = page_gone();
	return b->gone < 0 ? b->gone : 0;
}

static int make_ledger(struct broker *b)
{
	struct kvl_config cfg = {
		.max_tenants = MAX_TENANTS,
		.max_clients = MAX_CLIENTS,
		.nr_events = NR_EVENTS,
	};

	if (getrandom(&cfg.seed, sizeof(cfg.seed), 0) != sizeof(cfg.seed))
		return -errno;
	b->ledger = kvl_create(&cfg);
	if (!b->ledger)
		return -ENOMEM;
	b->self.b = b;
	b->self.cmd.ops = &broker_cmd_ops;
	b->self.cmd.ledger = b->ledger;
	b->self.cmd.features = KVCACHE_FEAT_FDS | KVCACHE_FEAT_EVENTS;
	b->self.cmd.headroom = 4;
	b->self.cmd.min_page_size = KVCACHE_PAGE_SIZE_MIN;
	return 0;
}

static void init_lists(struct broker *b)
{
	INIT_LIST_HEAD(&b->clients);
	INIT_LIST_HEAD(&b->ready);
	INIT_LIST_HEAD(&b->unsent);
	INIT_LIST_HEAD(&b->dying);
	INIT_LIST_HEAD(&b->changes);
	INIT_LIST_HEAD(&b->jobs);
	INIT_LIST_HEAD(&b->listeners);
	INIT_LIST_HEAD(&b->graves);
	INIT_LIST_HEAD(&b->users);
	INIT_LIST_HEAD(&b->flyers);
}

struct broker *broker_new(void)
{
	struct broker *b = xcalloc(1, sizeof(*b));
	int err;

	init_lists(b);
	b->epoll = b->clock.fd = b->signals.fd = b->gone = -1;
	b->uid = geteuid();
	b->now = clock_ns();
	b->stall_ns = KVCB_STALL_S * SEC_NS;
	b->tick.fn = tick_event;
	b->resume.fn = peer_resume;
	send_init(b);
	if (share_out(b)) {
		broker_free(b);
		return NULL;
	}
	err = make_watches(b);
	if (!err)
		err = make_ledger(b);
	if (!err)
		return b;
	complain("cannot start: %s", strerror(-err));
	broker_free(b);
	return NULL;
}

int broker_admin(struct broker *b, unsigned int nr, void *cmd)
{
	struct kvl_cmd_frame f;
	int rc;

	memset(&f, 0, offsetof(struct kvl_cmd_frame, arg));
	f.admin = true;
	rc = kvl_cmd_begin(&b->self.cmd, &f, nr, cmd);
	while (!rc) {
		rc = kvl_cmd_run(&b->self.cmd, &f, b->now);
		if (rc != -EAGAIN)
			break;
		while (pages_work(b))
			;
		rc = kvl_cmd_more(&f);
	}
	return kvl_cmd_end(&b->self.cmd, &f, cmd, rc);
}

static void close_if(int fd)
{
	if (fd >= 0)
		close(fd);
}

void broker_free(struct broker *b)
{
	struct client *c, *next;
	u32 pool;

	pages_let_go(b);
	list_for_each_entry_safe(c, next, &b->clients, link)
		peer_close(c);
	flight_end(b);
	while (listed(&b->graves)) {
		serve_changes(b);
		publish_step(b);
		peer_reap(b);
		pages_work(b);
		peer_bury(b);
	}
	for (pool = 0; pool < KVCACHE_MAX_POOLS; pool++)
		pool_free(b, b->pool[pool]);
	if (b->ledger)
		kvl_destroy(b->ledger);
	while (b->nr_listen)
		close(b->listen[--b->nr_listen].fd);
	close_if(b->gone);
	close_if(b->signals.fd);
	close_if(b->clock.fd);
	close_if(b->epoll);
	free(b->listen);
	free(b->heap);
	free(b);
}
