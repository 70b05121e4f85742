// SPDX-License-Identifier: MIT
/*
 * broker_conn.c - requests to a broker, from several threads, and its replies.
 *
 * A call that waits holds up nobody. One of those that await a reply reads the
 * socket, for all: it acts on each message in the order in which the broker
 * sent them, and hands the reply to whose it is. When it has its own, it leaves
 * the socket to another one.
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "broker_conn.h"

/*
 * Calls that wait at the broker at most; more wait here. It refuses those that
 * are more than KVCB_WAITING, of which the request for events is one.
 */
#define WAITING_MAX	(KVCB_WAITING - 1)
/* It may be late by so much before a request is taken back. */
#define LATE_NS		1000000000ULL
/* What waits for nobody takes less. */
#define ANSWER_NS	5000000000ULL

static uint64_t in_time(uint64_t ns)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec + ns;
}

uint64_t kvc_bconn_until(uint64_t deadline_ns)
{
	uint64_t now = in_time(0);

	if (!deadline_ns || deadline_ns >= KVCACHE_TIME_NEVER - LATE_NS)
		return KVCACHE_TIME_NEVER;
	return (deadline_ns > now ? deadline_ns : now) + LATE_NS;
}

uint64_t kvc_bconn_soon(void)
{
	return in_time(ANSWER_NS);
}

struct timeval kvc_bconn_left(uint64_t until)
{
	uint64_t now = in_time(0), left = until > now ? until - now : 0;

	return (struct timeval){
		.tv_sec = left / 1000000000,
		.tv_usec = left % 1000000000 / 1000,
	};
}

/* The socket is ready, 0; -EINTR; -ETIMEDOUT. */
static int ready(struct kvc_bconn *s, short events, uint64_t until)
{
	struct pollfd p = { .fd = s->fd, .events = events };
	const struct timeval left = kvc_bconn_left(until);
	const struct timespec ts = {
		.tv_sec = left.tv_sec,
		.tv_nsec = left.tv_usec * 1000,
	};
	int n = ppoll(&p, 1, &ts, NULL);

	if (n < 0)
		return -errno;
	return n ? 0 : -ETIMEDOUT;
}

static void list_del(struct kvc_bcall **list, struct kvc_bcall *c)
{
	while (*list && *list != c)
		list = &(*list)->next;
	if (*list)
		*list = c->next;
}

/* ---- replies ------------------------------------------------------------ */

/* The broker is gone: everybody hears of it. */
static void hang_up(struct kvc_bconn *s)
{
	struct kvc_bcall *c;

	s->gone = true;
	shutdown(s->fd, SHUT_RDWR);
	for (c = s->calls; c; c = c->next) {
		if (!c->done)
			c->rc = -ENOTCONN;
		c->done = true;
		sem_post(&c->wake);
	}
	for (c = s->parked; c; c = c->next)
		sem_post(&c->wake);
}

/*
 * What a command that succeeded means for references, in the order of replies:
 * a page that one thread gives up another one may have found again.
 */
static void account(struct kvc_bconn *s, const struct kvc_bcall *c)
{
	const struct kvcache_publish_page *e;
	const struct kvcache_alloc *a = &c->reply.alloc;
	const struct kvcache_publish *p = &c->reply.publish;
	const struct kvcache_lookup *l = &c->reply.lookup;
	const struct kvcache_advise *v = &c->reply.advise;
	const struct kvcache_pool_set *ps = c->arg;
	const struct kvcache_free *f = c->arg;
	struct kvc_bpages *b = &s->pages;
	uint32_t i;

	switch (c->nr) {
	case KVCACHE_NR_ALLOC:
		for (i = 0; !(a->flags & KVCACHE_ALLOC_CHECK) && i < a->nr &&
		     i < KVCACHE_MAX_PAGES; i++)
			kvc_bpages_get(b, a->pool, a->out_pages[i]);
		break;
	case KVCACHE_NR_FREE:
		for (i = 0; i < f->nr && i < KVCACHE_MAX_PAGES; i++)
			kvc_bpages_put(b, f->pool, f->pages[i]);
		break;
	case KVCACHE_NR_PUBLISH:
		for (i = 0; i < p->nr && i < KVCACHE_MAX_PUBLISH; i++) {
			e = &p->pages[i];
			if (e->out_handle == e->handle)
				continue;
			kvc_bpages_drop(b, p->pool, e->handle);
			kvc_bpages_get(b, p->pool, e->out_handle);
		}
		break;
	case KVCACHE_NR_LOOKUP:
		for (i = 0; !(l->flags & KVCACHE_LOOKUP_PEEK) &&
		     i < l->out_nr_pages && i < KVCACHE_MAX_KEYS; i++)
			kvc_bpages_get(b, l->pool, l->out_found[i].handle);
		break;
	case KVCACHE_NR_ADVISE:
		for (i = 0; i < v->nr && i < KVCACHE_MAX_PAGES; i++)
			if (v->out_state[i] == KVCACHE_ADVISE_TAKEN)
				kvc_bpages_drop(b, v->pool, v->pages[i]);
		break;
	case KVCACHE_NR_POOL_SET:
		if (ps->op == KVCACHE_POOL_REMOVE &&
		    ps->pool < KVCACHE_MAX_POOLS)
			kvc_bpages_unreserve(b, ps->pool);
		break;
	}
}

static void pages_came(struct kvc_bconn *s, struct kvc_bcall *c, size_t len)
{
	const struct kvcb_pages *p = &s->in.pages;
	const size_t at = offsetof(struct kvcb_pages, pages);
	uint32_t i;
	int err;

	for (i = 0; c && len >= at && i < p->nr && i < KVCB_FDS_MAX &&
	     at + (i + 1) * sizeof(p->pages[0]) <= len; i++) {
		/* Those that this process has no room for are missing. */
		err = -EMFILE;
		if (i < s->nr_fds)
			err = kvc_bpages_map(&s->pages, &p->pages[i],
					     s->fds[i], c->must);
		else
			kvc_bpages_missed(&s->pages, p->pages[i].pool,
					  p->pages[i].handle);
		if (err)
			c->map_err = err;
	}
}

/* One message of @n bytes; -EPROTO: the broker is none. */
static int dispatch(struct kvc_bconn *s, size_t n)
{
	struct kvcb_head *h = &s->in.head;
	struct kvc_bcall *c;
	size_t len;

	if (n < sizeof(*h) || h->magic != KVCB_MAGIC || h->rc > 0)
		return -EPROTO;
	len = n - sizeof(*h);
	for (c = s->calls; c; c = c->next)
		if (c->cookie == h->cookie && !c->done)
			break;
	if (h->nr == KVCB_NR_PAGES) {
		pages_came(s, c, len);
		return 0;
	}
	if (!c || c->nr != h->nr)
		return -EPROTO;
	memcpy(&c->reply, s->in.bytes, len);
	memset(c->reply.bytes + len, 0, sizeof(c->reply) - len);
	c->len = len;
	c->rc = h->rc;
	if (!c->rc)
		account(s, c);
	c->done = true;
	sem_post(&c->wake);
	return 0;
}

/* Bytes of the next message, its descriptors in @fds; 0 the end, or -errno. */
static ssize_t receive(struct kvc_bconn *s, int flags)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(KVCB_FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = { &s->in, sizeof(s->in) };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *cm;
	ssize_t n;

	s->nr_fds = 0;
	n = recvmsg(s->fd, &m, MSG_CMSG_CLOEXEC | flags);
	if (n < 0)
		return -errno;
	for (cm = CMSG_FIRSTHDR(&m); cm; cm = CMSG_NXTHDR(&m, cm)) {
		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		s->nr_fds = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(s->fds, CMSG_DATA(cm), s->nr_fds * sizeof(int));
	}
	return m.msg_flags & MSG_TRUNC ? -EPROTO : n;
}

/*
 * Waits @until there is a message, 0 not at all. Lock held, and released while
 * it waits. 0, -EINTR, -EAGAIN or -ETIMEDOUT.
 */
static int read_socket(struct kvc_bconn *s, uint64_t until)
{
	ssize_t n = 0;

	s->reading = true;
	if (until)
		pthread_mutex_unlock(&s->lock);
	if (until && until != KVCACHE_TIME_NEVER)
		n = ready(s, POLLIN, until);
	if (!n)
		n = receive(s, until == KVCACHE_TIME_NEVER ? 0 : MSG_DONTWAIT);
	if (until)
		pthread_mutex_lock(&s->lock);
	s->reading = false;
	if (n == -EINTR || n == -EAGAIN || n == -ETIMEDOUT)
		return n;
	if (n <= 0 || dispatch(s, n))
		hang_up(s);
	for (unsigned int i = 0; i < s->nr_fds; i++)
		close(s->fds[i]);
	return 0;
}

/* ---- requests ----------------------------------------------------------- */

/* A broker that reads nothing takes no more than the socket has room for. */
static int transmit(struct kvc_bconn *s, uint32_t nr, uint32_t cookie,
		    const void *arg, size_t len, uint64_t until)
{
	const int flags = MSG_NOSIGNAL |
			  (until == KVCACHE_TIME_NEVER ? 0 : MSG_DONTWAIT);
	struct kvcb_head h = {
		.magic = KVCB_MAGIC, .nr = nr, .cookie = cookie,
	};
	struct iovec iov[2] = { { &h, sizeof(h) }, { (void *)arg, len } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };
	int rc = 0;

	while (!rc && sendmsg(s->fd, &m, flags) < 0)
		rc = errno == EAGAIN ? ready(s, POLLOUT, until) : -errno;
	switch (-rc) {
	case EPIPE:
	case ECONNRESET:
	case ENOTCONN:
		return -ENOTCONN;
	}
	return rc;
}

/* Until it is woken, 0; -EINTR; -ETIMEDOUT. Lock held, and released meanwhile. */
static int snooze(struct kvc_bconn *s, struct kvc_bcall *c, uint64_t deadline_ns)
{
	const struct timespec ts = {
		.tv_sec = deadline_ns / 1000000000,
		.tv_nsec = deadline_ns % 1000000000,
	};
	int rc;

	pthread_mutex_unlock(&s->lock);
	rc = deadline_ns == KVCACHE_TIME_NEVER ?
	     sem_wait(&c->wake) :
	     sem_clockwait(&c->wake, CLOCK_MONOTONIC, &ts);
	rc = rc ? -errno : 0;
	pthread_mutex_lock(&s->lock);
	return rc;
}

/* A call that may wait asks to be sent; in order. */
static int admit(struct kvc_bconn *s, struct kvc_bcall *c, uint64_t deadline_ns)
{
	struct kvc_bcall **end = &s->parked;
	int rc = 0;

	if (s->waiting < WAITING_MAX) {
		s->waiting++;
		return 0;
	}
	while (*end)
		end = &(*end)->next;
	*end = c;
	while (!c->admitted && !s->gone && !rc)
		rc = snooze(s, c, deadline_ns);
	if (c->admitted)
		return 0;
	list_del(&s->parked, c);
	return s->gone ? -ENOTCONN : rc;
}

/* It waits no more: the next one in line may. */
static void retire(struct kvc_bconn *s)
{
	struct kvc_bcall *c = s->parked;

	if (!c) {
		s->waiting--;
		return;
	}
	s->parked = c->next;
	c->next = NULL;
	c->admitted = true;
	sem_post(&c->wake);
}

/* Lock held, and released meanwhile. */
static void cancel(struct kvc_bconn *s, const struct kvc_bcall *c,
		   uint64_t until)
{
	struct kvcb_cancel x = { .size = sizeof(x), .cookie = c->cookie };

	pthread_mutex_unlock(&s->lock);
	while (transmit(s, KVCB_NR_CANCEL, c->cookie, &x, sizeof(x),
			until) == -EINTR)
		;
	pthread_mutex_lock(&s->lock);
}

/*
 * A signal ends a wait, if it is not over: the reply says which. Commands that
 * do not wait are let finish, as they could not be undone.
 *
 * From a broker that is late the request is taken back; one that does not answer
 * even then is left. What it had granted goes back with the connection.
 */
static void await(struct kvc_bconn *s, struct kvc_bcall *c, bool waits,
		  uint64_t until)
{
	int rc;

	while (!c->done) {
		rc = s->reading ? snooze(s, c, until) : read_socket(s, until);
		if (c->done || (rc != -EINTR && rc != -ETIMEDOUT))
			continue;
		if (rc == -ETIMEDOUT)
			c->late = true;
		if (waits) {
			waits = false;
			if (until != KVCACHE_TIME_NEVER)
				until = in_time(ANSWER_NS);
			cancel(s, c, until);
		} else if (rc == -ETIMEDOUT) {
			hang_up(s);
		}
	}
}

/* One of those who are left reads on. Lock held. */
static void pass_on(struct kvc_bconn *s)
{
	struct kvc_bcall *c = s->calls;

	while (c && (c->done || c->unattended))
		c = c->next;
	if (c && !s->reading)
		sem_post(&c->wake);
}

static void call_init(struct kvc_bcall *c, uint32_t nr, const void *arg)
{
	memset(c, 0, offsetof(struct kvc_bcall, reply));
	c->nr = nr;
	c->arg = arg;
	c->must = nr == KVCACHE_NR_PUBLISH;
	sem_init(&c->wake, 0, 0);
}

/* Lock held, and released meanwhile: in s->calls, and sent. */
static int launch(struct kvc_bconn *s, struct kvc_bcall *c, size_t len,
		  uint64_t until)
{
	int rc;

	c->cookie = ++s->cookie;
	c->next = s->calls;
	s->calls = c;
	pthread_mutex_unlock(&s->lock);
	rc = transmit(s, c->nr, c->cookie, c->arg, len, until);
	pthread_mutex_lock(&s->lock);
	return rc;
}

static int call(struct kvc_bconn *s, struct kvc_bcall *c, uint32_t nr,
		const void *arg, size_t len, uint64_t deadline_ns,
		uint64_t until)
{
	int rc = 0;

	call_init(c, nr, arg);
	pthread_mutex_lock(&s->lock);
	if (s->gone)
		rc = -ENOTCONN;
	else if (deadline_ns)
		rc = admit(s, c, deadline_ns);
	if (rc)
		goto out;
	rc = launch(s, c, len, until);
	if (!rc) {
		await(s, c, deadline_ns, until);
		rc = c->rc;
	}
	if (c->late && (rc == -EINTR || rc == -ENOTCONN))
		rc = -ETIMEDOUT;
	list_del(&s->calls, c);
	if (deadline_ns)
		retire(s);
	pass_on(s);
out:
	pthread_mutex_unlock(&s->lock);
	sem_destroy(&c->wake);
	return rc;
}

int kvc_bconn_call(struct kvc_bconn *s, struct kvc_bcall *c, uint32_t nr,
		   const void *arg, size_t len, uint64_t deadline_ns)
{
	return call(s, c, nr, arg, len, deadline_ns,
		    kvc_bconn_until(deadline_ns));
}

int kvc_bconn_do(struct kvc_bconn *s, struct kvc_bcall *c, uint32_t nr,
		 const void *arg, size_t len, uint64_t until)
{
	int rc;

	do {
		rc = call(s, c, nr, arg, len, 0, until);
	} while (rc == -EINTR);
	return rc;
}

/* ---- events ------------------------------------------------------------- */

static void stop_watching(struct kvc_bconn *s)
{
	list_del(&s->calls, &s->watch);
	sem_destroy(&s->watch.wake);
	s->watching = false;
}

/* Without it, each look for events is a request. */
static void watch(struct kvc_bconn *s, uint64_t until)
{
	struct kvcb_events e = {
		.size = sizeof(e),
		.max = KVCB_MAX_EVENTS,
		.deadline_ns = KVCACHE_TIME_NEVER,
	};

	pthread_mutex_lock(&s->lock);
	call_init(&s->watch, KVCB_NR_EVENTS, &e);
	s->watch.unattended = true;
	s->watching = true;
	s->taken = 0;
	if (s->gone || launch(s, &s->watch, sizeof(e), until))
		stop_watching(s);
	/* It was sent, and outlives @e. */
	s->watch.arg = NULL;
	pthread_mutex_unlock(&s->lock);
}

/*
 * What the request has that is there already. Where it has nothing, it is taken
 * back: what it says to that is true now.
 */
static int watched(struct kvc_bconn *s, struct kvcache_event *ev,
		   unsigned int n, uint64_t until)
{
	const struct kvcb_events *e = &s->watch.reply.events;
	uint32_t left;
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	if (!s->watching)
		goto out;
	if (!s->watch.done) {
		if (until != KVCACHE_TIME_NEVER)
			until = kvc_bconn_soon();
		s->watch.unattended = false;
		cancel(s, &s->watch, until);
		await(s, &s->watch, false, until);
		pass_on(s);
	}
	rc = s->watch.rc == -EINTR ? 0 : s->watch.rc;
	left = s->watch.rc || e->out_nr > KVCB_MAX_EVENTS ? 0 :
	       e->out_nr - s->taken;
	n = n < left ? n : left;
	memcpy(ev, e->out_events + s->taken, n * sizeof(*ev));
	s->taken += n;
	rc = rc ? rc : (int)n;
	if (n == left)
		stop_watching(s);
out:
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static int ask(struct kvc_bconn *s, struct kvcache_event *ev, unsigned int n,
	       uint64_t deadline_ns)
{
	struct kvcb_events e = {
		.size = sizeof(e),
		.max = n < KVCB_MAX_EVENTS ? n : KVCB_MAX_EVENTS,
		.deadline_ns = deadline_ns,
	};
	struct kvc_bcall c;
	int rc = kvc_bconn_call(s, &c, KVCB_NR_EVENTS, &e, sizeof(e),
				deadline_ns);

	if (rc)
		return rc == -ETIMEDOUT ? 0 : rc;
	if (c.reply.events.out_nr > e.max)
		return -EPROTO;
	memcpy(ev, c.reply.events.out_events,
	       c.reply.events.out_nr * sizeof(*ev));
	return c.reply.events.out_nr;
}

int kvc_bconn_events(struct kvc_bconn *s, struct kvcache_event *ev,
		     unsigned int n, uint64_t deadline_ns)
{
	uint64_t until = kvc_bconn_until(deadline_ns);
	int rc, more = 0;

	if (pthread_mutex_trylock(&s->watch_lock))
		return -EBUSY;
	rc = watched(s, ev, n, until);
	/* It had those of one moment: there may be others since. */
	if (rc >= 0 && rc < n)
		more = ask(s, ev + rc, n - rc, rc ? 0 : deadline_ns);
	rc = more > 0 || !rc ? rc + more : rc;
	if (rc >= 0 && rc < n)
		watch(s, until);
	pthread_mutex_unlock(&s->watch_lock);
	return rc;
}

bool kvc_bconn_pending(struct kvc_bconn *s)
{
	bool any;

	if (pthread_mutex_trylock(&s->watch_lock))
		return false;
	pthread_mutex_lock(&s->lock);
	while (s->watching && !s->watch.done && !s->reading)
		if (read_socket(s, 0))
			break;
	any = !s->watching || s->watch.done;
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_unlock(&s->watch_lock);
	return any;
}

void kvc_bconn_hang_up(struct kvc_bconn *s)
{
	pthread_mutex_lock(&s->lock);
	hang_up(s);
	pthread_mutex_unlock(&s->lock);
}
