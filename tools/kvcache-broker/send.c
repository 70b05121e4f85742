// SPDX-License-Identifier: MIT
/*
 * send.c - messages to clients: queued, sent in batches, never waited for.
 *
 * A queued message has no descriptors of its own. Those of pages are made when
 * it is sent and closed again, so that a client that reads nothing costs memory
 * for KVCB_INFLIGHT replies and no more.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/kernel.h>
#include <linux/list.h>

#include "server.h"

#define FDS_ROOM	CMSG_SPACE(KVCB_FDS_MAX * sizeof(int))

/**
 * struct batch - messages of one sendmmsg()
 * @nr: of them
 * @nr_fds: descriptors that go with them
 * @close: which of @fds are ours to close again
 */
struct batch {
	u32 nr, nr_fds;
	struct mmsghdr msg[BATCH];
	struct iovec iov[BATCH];
	int fds[KVCB_FDS_MAX];
	bool close[KVCB_FDS_MAX];
	union {
		struct cmsghdr align;
		/* Together they are bounded, but each is rounded up. */
		char bytes[FDS_ROOM + BATCH * CMSG_SPACE(sizeof(int))];
	} control;
};

/* ---- queueing ------------------------------------------------------------ */

struct out *out_new(const struct kvcb_head *head, u32 size)
{
	struct out *o = calloc(1, sizeof(*o) + size);

	if (!o)
		return NULL;
	INIT_LIST_HEAD(&o->link);
	o->head = *head;
	o->head.rc = 0;
	return o;
}

void out_free(struct out *o)
{
	u32 k;

	for (k = 0; k < o->nr_mem; k++)
		mem_put(o->mem[k]);
	free(o->mem);
	free(o);
}

static void queue(struct client *c, struct out *o)
{
	if (c->closed) {
		c->nr_busy -= o->counts;
		out_free(o);
		return;
	}
	list_add_tail(&o->link, &c->out);
	if (!listed(&c->unsent))
		list_add_tail(&c->unsent, &c->open.b->unsent);
}

void send_reply(struct client *c, struct out *o, int rc, u32 size)
{
	o->head.rc = rc;
	o->len = sizeof(o->head) + size;
	o->counts = true;
	queue(c, o);
}

static int send_some(struct client *c, u32 cookie, u32 pool,
		     const u64 *handles, u32 nr)
{
	u32 size = offsetof(struct kvcb_pages, pages) +
		   nr * sizeof(struct kvcb_page), k;
	struct kvcb_head head = {
		.magic = KVCB_MAGIC, .nr = KVCB_NR_PAGES, .cookie = cookie,
	};
	struct out *o = out_new(&head, size);
	struct kvcb_pages *p;
	struct mem *m;

	if (!o)
		return -ENOMEM;
	o->mem = calloc(nr, sizeof(*o->mem));
	if (!o->mem) {
		out_free(o);
		return -ENOMEM;
	}
	p = (struct kvcb_pages *)o->body;
	p->size = size;
	p->nr = nr;
	for (k = 0; k < nr; k++) {
		m = page_mem(c->open.b, pool, handles[k]);
		o->mem[o->nr_mem++] = mem_get(m);
		p->pages[k].handle = handles[k];
		p->pages[k].pool = pool;
		p->pages[k].flags = m->published ? 0 : KVCB_PAGE_WRITE;
	}
	o->len = sizeof(o->head) + size;
	queue(c, o);
	return 0;
}

int send_pages(struct client *c, u32 cookie, u32 pool, const u64 *handles,
	       u32 nr)
{
	u32 k, n;
	int err = 0;

	for (k = 0; !err && k < nr; k += n) {
		n = min_t(u32, nr - k, c->open.b->max_fds);
		err = send_some(c, cookie, pool, handles + k, n);
	}
	return err;
}

static void sent(struct client *c, struct out *o)
{
	list_del_init(&o->link);
	c->nr_busy -= o->counts;
	out_free(o);
}

void send_drop(struct client *c)
{
	while (listed(&c->out))
		sent(c, list_first_entry(&c->out, struct out, link));
	list_del_init(&c->unsent);
	timer_stop(c->open.b, &c->stall);
}

/* ---- sending ------------------------------------------------------------- */

/* A file that others may read: an open of its own, which cannot write. */
static int reopen(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static bool batch_fds(struct broker *b, struct batch *x, const struct out *o)
{
	const struct mem *m;
	u32 k;
	int fd;

	for (k = 0; k < o->nr_mem; k++) {
		m = o->mem[k];
		fd = m->fd < 0 ? b->gone : m->published ? reopen(m->fd) : m->fd;
		if (fd < 0)
			return false;
		x->close[x->nr_fds] = m->fd >= 0 && m->published;
		x->fds[x->nr_fds++] = fd;
	}
	return true;
}

static bool batch_add(struct broker *b, struct batch *x, struct out *o,
		      size_t *used)
{
	struct msghdr *m = &x->msg[x->nr].msg_hdr;
	u32 first = x->nr_fds;
	struct cmsghdr *c;

	memset(m, 0, sizeof(*m));
	x->iov[x->nr] = (struct iovec){ &o->head, o->len };
	m->msg_iov = &x->iov[x->nr];
	m->msg_iovlen = 1;
	if (!batch_fds(b, x, o))
		return false;
	if (o->nr_mem) {
		c = (struct cmsghdr *)(x->control.bytes + *used);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(o->nr_mem * sizeof(int));
		memcpy(CMSG_DATA(c), x->fds + first, o->nr_mem * sizeof(int));
		m->msg_control = c;
		m->msg_controllen = CMSG_SPACE(o->nr_mem * sizeof(int));
		*used += m->msg_controllen;
	}
	x->nr++;
	return true;
}

/*
 * As many as go at once: 0; -EMFILE no descriptors can be made, or too many are
 * on the way to others; -EBUSY those before were not received.
 */
static int batch_fill(struct client *c, struct batch *x)
{
	size_t used = 0;
	int err = 0;
	struct out *o;
	u32 fds = 0;

	x->nr = 0;
	x->nr_fds = 0;
	list_for_each_entry(o, &c->out, link) {
		fds += o->nr_mem;
		if (x->nr == BATCH || fds > KVCB_FDS_MAX)
			break;
		if (o->nr_mem && !flight_room(c, fds)) {
			err = c->flying ? -EBUSY : -EMFILE;
			break;
		}
		err = batch_add(c->open.b, x, o, &used) ? 0 : -EMFILE;
		if (err)
			break;
	}
	return x->nr ? 0 : err;
}

static void batch_close(struct batch *x)
{
	u32 k;

	for (k = 0; k < x->nr_fds; k++)
		if (x->close[k])
			close(x->fds[k]);
}

/* Messages that went; or -errno. */
static int send_batch(struct client *c)
{
	static struct batch x;
	int n = batch_fill(c, &x), k;
	struct out *o;

	if (!n) {
		n = sendmmsg(c->sock.fd, x.msg, x.nr,
			     MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0)
			n = -errno;
	}
	batch_close(&x);
	for (k = 0; k < n; k++) {
		o = list_first_entry(&c->out, struct out, link);
		flight_add(c, o->nr_mem);
		sent(c, o);
	}
	return n;
}

/* Its time has come if nothing was taken meanwhile. */
void send_stalled(struct broker *b, struct timer *t)
{
	peer_close(container_of(t, struct client, stall));
}

/* What was held for another reason than the client's is looked at again. */
static void try_again(struct broker *b, struct timer *t)
{
	struct client *c;

	list_for_each_entry(c, &b->clients, link) {
		if (!c->held)
			continue;
		c->held = false;
		if (!listed(&c->unsent))
			list_add_tail(&c->unsent, &b->unsent);
	}
}

void send_init(struct broker *b)
{
	b->retry.fn = try_again;
}

void send_flush(struct client *c)
{
	struct broker *b = c->open.b;
	bool some = false;
	int n = 0;

	list_del_init(&c->unsent);
	while (listed(&c->out) && (n = send_batch(c)) > 0)
		some = true;
	if (!listed(&c->out)) {
		timer_stop(b, &c->stall);
	} else if (n == -EPIPE || n == -ECONNRESET) {
		/* What it sent before it went is still to be done. */
		send_drop(c);
	} else {
		/* It is the client's fault only if there is no room. */
		if (some || !c->stall.pos || (n != -EAGAIN && n != -EBUSY))
			timer_arm(b, &c->stall, b->now + b->stall_ns);
		/* Of room its own event tells. */
		c->held = n != -EAGAIN;
		if (c->held && !b->retry.pos)
			timer_arm(b, &b->retry, b->now + RETRY_NS);
	}
	if (c->readable && c->nr_busy < KVCB_INFLIGHT && !listed(&c->ready))
		list_add_tail(&c->ready, &b->ready);
}
