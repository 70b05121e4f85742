// SPDX-License-Identifier: MIT
/*
 * sys_broker.c - the backend behind a broker's socket: commands are messages,
 * pages are descriptors that come with them (<kvcache/broker.h>).
 *
 * Whatever pages a call returns are mapped when it does. Where this process's
 * own limits keep one from being so, the call fails, and nothing is held.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "broker_conn.h"
#include "cmd.h"

#define LOOKUP_TRIES	4
#define BUSY_TRIES	1000

static struct kvc_bconn *to_broker(struct kvc_sys *s)
{
	return (struct kvc_bconn *)s;
}

/* The errno is that of a mapping: what would help. */
static int unmappable(struct kvc_bconn *s, int err)
{
	const char *hint = NULL;

	if (err == -ENOMEM)
		hint = "each page is a mapping, and a process may have vm.max_map_count of them (65530 by default): raise it, or take larger pages";
	if (err == -EMFILE)
		hint = "pages come as descriptors, and this process may have no more: raise its limit (ulimit -n)";
	__atomic_store_n(&s->sys.hint, hint, __ATOMIC_RELAXED);
	return err;
}

/* Where the broker said nothing, and the connection is over: what would help. */
static int unanswered(struct kvc_bconn *s, int err)
{
	bool gone;

	pthread_mutex_lock(&s->lock);
	gone = s->gone;
	pthread_mutex_unlock(&s->lock);
	if (err == -ETIMEDOUT && gone)
		__atomic_store_n(&s->sys.hint,
				 "the broker does not answer, and is left: if it is stopped let it go on, else start it anew, then close this context and open another",
				 __ATOMIC_RELAXED);
	return err;
}

/* References that nobody is to have. One by one: some may have been revoked. */
static void give_back(struct kvc_bconn *s, struct kvc_bcall *c, uint32_t pool,
		      const uint64_t *pages, uint32_t nr)
{
	struct kvcache_free f = { .size = sizeof(f), .pool = pool, .nr = 1 };
	int rc;

	for (uint32_t i = 0; i < nr; i++) {
		f.pages[0] = pages[i];
		rc = kvc_bconn_do(s, c, KVCACHE_NR_FREE, &f, sizeof(f),
				  KVCACHE_TIME_NEVER);
		if (!rc || rc == -ENOTCONN)
			continue;
		pthread_mutex_lock(&s->lock);
		kvc_bpages_drop(&s->pages, pool, pages[i]);
		pthread_mutex_unlock(&s->lock);
	}
}

static bool has(const struct kvcb_map *m, uint64_t page)
{
	for (uint32_t i = 0; i < m->nr; i++)
		if (m->pages[i] == page)
			return true;
	return false;
}

/* Map what of @pages is not: by one command, or @each by one of its own. */
static int fetch(struct kvc_bconn *s, struct kvc_bcall *c, uint32_t pool,
		 const uint64_t *pages, uint32_t nr, bool each)
{
	struct kvcb_map m = { .size = sizeof(m), .pool = pool };
	int rc = 0;

	for (uint32_t i = 0; !rc && i < nr; i++) {
		pthread_mutex_lock(&s->lock);
		/* One may be found twice, but is asked for once. */
		if (!kvc_bpages_mapped(&s->pages, pool, pages[i]) &&
		    !has(&m, pages[i]))
			m.pages[m.nr++] = pages[i];
		pthread_mutex_unlock(&s->lock);
		if (!m.nr || (!each && i + 1 < nr))
			continue;
		rc = kvc_bconn_do(s, c, KVCB_NR_MAP, &m, sizeof(m),
				  KVCACHE_TIME_NEVER);
		if (!rc && c->map_err)
			rc = unmappable(s, c->map_err);
		m.nr = 0;
	}
	return rc;
}

/* The window, if there is such a pool. */
static int open_window(struct kvc_bconn *s, uint32_t pool, bool again,
		       uint64_t until)
{
	struct kvcache_query q = { .size = sizeof(q) };
	struct kvc_bcall c;
	int rc;

	if (pool >= KVCACHE_MAX_POOLS)
		return 0;
	pthread_mutex_lock(&s->lock);
	rc = s->pages.w[pool].base && !again;
	pthread_mutex_unlock(&s->lock);
	if (rc)
		return 0;
	rc = kvc_bconn_do(s, &c, KVCACHE_NR_QUERY, &q, sizeof(q), until);
	if (rc)
		return rc;
	pthread_mutex_lock(&s->lock);
	for (uint32_t i = 0; i < c.reply.query.out_nr_pools &&
	     i < KVCACHE_MAX_POOLS; i++)
		if (c.reply.query.out_pools[i].id == pool)
			rc = kvc_bpages_reserve(&s->pages,
						&c.reply.query.out_pools[i]);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static uint64_t deadline_of(const struct kvcache_alloc *a, size_t len)
{
	return len >= offsetof(struct kvcache_alloc, out_missing) ?
	       a->deadline_ns : 0;
}

static int do_alloc(struct kvc_bconn *s, struct kvc_bcall *c,
		    const struct kvcache_alloc *a, size_t len)
{
	uint64_t pages[KVCACHE_MAX_PAGES];
	uint64_t deadline = deadline_of(a, len);
	const struct timespec ms = { .tv_nsec = 1000000 };
	int rc, err, tries = 0;

	/*
	 * All who may wait do, and what this one would have waited for is being
	 * truncated: it will be there.
	 */
	while ((rc = kvc_bconn_call(s, c, KVCACHE_NR_ALLOC, a, len,
				    deadline)) == -EBUSY && !deadline &&
	       ++tries < BUSY_TRIES)
		nanosleep(&ms, NULL);
	err = c->map_err;
	if (rc || !err)
		return rc;
	memcpy(pages, c->reply.alloc.out_pages, sizeof(pages));
	give_back(s, c, a->pool, pages, a->nr);
	return unmappable(s, err);
}

/*
 * What is published stays so, and its writer must be able to read it. There is
 * room for the mappings; there may be none for descriptors, but for the one
 * that was kept.
 */
static int do_publish(struct kvc_bconn *s, struct kvc_bcall *c,
		      const struct kvcache_publish *p, size_t len)
{
	uint64_t pages[KVCACHE_MAX_PUBLISH];
	int rc = kvc_bconn_call(s, c, KVCACHE_NR_PUBLISH, p, len, 0);
	struct kvc_bcall more;

	if (rc || !c->map_err)
		return rc;
	for (uint32_t i = 0; i < p->nr; i++)
		pages[i] = c->reply.publish.pages[i].out_handle;
	/* One page at a time is mapped by it, and so one thread's pages. */
	pthread_mutex_lock(&s->spare_lock);
	if (s->spare >= 0)
		close(s->spare);
	rc = fetch(s, &more, p->pool, pages, p->nr, true);
	s->spare = fcntl(s->fd, F_DUPFD_CLOEXEC, 0);
	pthread_mutex_unlock(&s->spare_lock);
	if (!rc)
		return 0;
	kvc_bconn_hang_up(s);
	return -ENOTCONN;
}

/*
 * Pages that were found are mapped before the caller hears of them. One that
 * was revoked meanwhile is found no more: look again.
 */
static int do_lookup(struct kvc_bconn *s, struct kvc_bcall *c,
		     const struct kvcache_lookup *l, size_t len)
{
	struct kvcache_lookup *out = &c->reply.lookup;
	uint64_t pages[KVCACHE_MAX_KEYS];
	uint32_t nr, i;
	struct kvc_bcall more;
	int rc;

	for (int tries = 0; tries < LOOKUP_TRIES; tries++) {
		rc = kvc_bconn_call(s, c, KVCACHE_NR_LOOKUP, l, len, 0);
		if (rc || l->flags & KVCACHE_LOOKUP_PEEK)
			return rc;
		nr = out->out_nr_pages;
		for (i = 0; i < nr && i < KVCACHE_MAX_KEYS; i++)
			pages[i] = out->out_found[i].handle;
		rc = fetch(s, &more, l->pool, pages, nr, false);
		if (!rc)
			return 0;
		give_back(s, &more, l->pool, pages, nr);
		if (rc != -ESTALE && rc != -EPERM)
			return rc;
	}
	/* They go as fast as they are found: there are none. */
	out->out_nr_pages = 0;
	out->out_nr_keys = 0;
	memset(out->out_found, 0, sizeof(out->out_found));
	return 0;
}

static int broker_call(struct kvc_sys *sys, unsigned int nr, void *arg)
{
	struct kvc_bconn *s = to_broker(sys);
	const struct kvcache_free *pages = arg;
	uint64_t deadline = 0;
	struct kvc_bcall c;
	uint32_t len;
	int rc = 0;

	/* As the broker says too; but its replies would be the parent's. */
	if (getpid() != s->pid)
		return -EPERM;
	/* What else there is to be sent is between broker and library. */
	if (!kvl_cmd_frame_size(nr))
		return -ENOTTY;
	memcpy(&len, arg, sizeof(len));
	if (len > sizeof(c.reply))
		return -E2BIG;
	if (len < sizeof(len))
		len = sizeof(len);
	__atomic_store_n(&s->sys.hint, NULL, __ATOMIC_RELAXED);
	if (nr == KVCACHE_NR_ALLOC)
		deadline = deadline_of(arg, len);
	/* Pages that come must have a place to go to. */
	if ((nr == KVCACHE_NR_ALLOC || nr == KVCACHE_NR_PUBLISH ||
	     nr == KVCACHE_NR_LOOKUP) &&
	    len >= offsetof(struct kvcache_free, nr))
		rc = open_window(s, pages->pool, false,
				 deadline ? kvc_bconn_soon() :
				 KVCACHE_TIME_NEVER);
	if (rc)
		return unanswered(s, rc);
	c.len = 0;
	switch (nr) {
	case KVCACHE_NR_ALLOC:
		rc = do_alloc(s, &c, arg, len);
		break;
	case KVCACHE_NR_PUBLISH:
		rc = do_publish(s, &c, arg, len);
		break;
	case KVCACHE_NR_LOOKUP:
		rc = do_lookup(s, &c, arg, len);
		break;
	case KVCACHE_NR_ATTACH:
		/* Who opens a backend is not held up by one that is stopped. */
		rc = kvc_bconn_do(s, &c, nr, arg, len, kvc_bconn_soon());
		break;
	default:
		rc = kvc_bconn_call(s, &c, nr, arg, len, 0);
		break;
	}
	if (!rc || rc == c.rc)
		memcpy(arg, &c.reply, c.len < len ? c.len : len);
	return unanswered(s, rc);
}

static int broker_events(struct kvc_sys *sys, struct kvcache_event *ev,
			 unsigned int n, uint64_t deadline_ns)
{
	struct kvc_bconn *s = to_broker(sys);

	if (getpid() != s->pid)
		return -EPERM;
	return kvc_bconn_events(s, ev, n, deadline_ns);
}

static bool broker_pending(struct kvc_sys *sys)
{
	struct kvc_bconn *s = to_broker(sys);

	return getpid() != s->pid || kvc_bconn_pending(s);
}

static void *broker_window(struct kvc_sys *sys, uint32_t pool, int writable)
{
	struct kvc_bconn *s = to_broker(sys);

	void *base = NULL;

	if (getpid() != s->pid || pool >= KVCACHE_MAX_POOLS ||
	    open_window(s, pool, true, KVCACHE_TIME_NEVER))
		return NULL;
	pthread_mutex_lock(&s->lock);
	base = s->pages.w[pool].base;
	pthread_mutex_unlock(&s->lock);
	return base;
}

static void broker_close(struct kvc_sys *sys)
{
	struct kvc_bconn *s = to_broker(sys);

	kvc_bpages_close(&s->pages, getpid() == s->pid);
	close(s->fd);
	if (s->spare >= 0)
		close(s->spare);
	free(s);
}

static const struct kvc_sys_ops broker_ops = {
	.name = "broker",
	.call = broker_call,
	.events = broker_events,
	.pending = broker_pending,
	.window = broker_window,
	.close = broker_close,
};

/*
 * Who listens and does not accept has a queue, in which there is room or not.
 * 0, -ETIMEDOUT, or -errno.
 */
static int connect_to(int fd, const struct sockaddr_un *sun, uint64_t until)
{
	struct timeval tv;
	int err;

	do {
		tv = kvc_bconn_left(until);
		if (!tv.tv_sec && !tv.tv_usec)
			return -ETIMEDOUT;
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
		err = connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) ?
		      errno : 0;
	} while (err == EINTR || err == EAGAIN);
	tv = (struct timeval){ 0 };
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	return -err;
}

int kvc_sys_broker_open(const char *path, struct kvc_sys **out)
{
	struct kvcache_query q = { .size = sizeof(q) };
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	uint64_t until = kvc_bconn_soon();
	struct kvc_bconn *s;
	struct kvc_bcall c;
	int err;

	if (strlen(path) >= sizeof(sun.sun_path))
		return -ENAMETOOLONG;
	strcpy(sun.sun_path, path);
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->sys.ops = &broker_ops;
	s->pid = getpid();
	s->spare = -1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->watch_lock, NULL);
	pthread_mutex_init(&s->spare_lock, NULL);
	s->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	err = s->fd < 0 ? -errno : 0;
	if (!err)
		err = connect_to(s->fd, &sun, until);
	if (err)
		goto fail;
	s->spare = fcntl(s->fd, F_DUPFD_CLOEXEC, 0);
	err = kvc_bconn_do(s, &c, KVCACHE_NR_QUERY, &q, sizeof(q), until);
	if (!err && c.reply.query.out_abi_version != KVCACHE_ABI_VERSION)
		err = -EPROTO;
	if (err)
		goto fail;
	*out = &s->sys;
	return 0;

fail:
	broker_close(&s->sys);
	return err;
}
