// SPDX-License-Identifier: MIT
/*
 * serve.c - requests: from a message to the ledger and back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <linux/kernel.h>
#include <linux/list.h>

#include "server.h"

/**
 * struct inbox - messages of one recvmmsg()
 *
 * There is room for credentials and for nothing else: descriptors that somebody
 * sends us are closed by the kernel before we could have them.
 */
struct inbox {
	struct mmsghdr msg[BATCH];
	struct iovec iov[BATCH];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control[BATCH];
	union {
		struct kvcb_head head;
		char bytes[KVCB_MSG_MAX];
	} data[BATCH];
};

/* Bytes of a request's struct, 0 if there is no such request. */
static u32 struct_size(u32 nr)
{
	size_t frame = kvl_cmd_frame_size(nr);

	switch (nr) {
	case KVCB_NR_MAP:
		return sizeof(struct kvcb_map);
	case KVCB_NR_EVENTS:
		return sizeof(struct kvcb_events);
	}
	return frame ? frame - offsetof(struct kvl_cmd_frame, arg) : 0;
}

/* ---- the way of a command ------------------------------------------------ */

int request_run(struct request *r)
{
	struct broker *b = r->c->open.b;
	int rc;

	for (;;) {
		rc = kvl_cmd_run(&r->c->open.cmd, r->f, b->now);
		wait_decided(b);
		if (rc != -EAGAIN || !r->f->want)
			return rc;
		rc = kvl_cmd_more(r->f);
		if (rc)
			return rc;
	}
}

/* Files for the pages that were granted, on the way: 0 or -ENOMEM. */
static int alloc_granted(struct request *r)
{
	const struct kvcache_alloc *a = &r->f->arg.alloc;
	struct client *c = r->c;
	struct broker *b = c->open.b;
	int err;

	if (a->flags & KVCACHE_ALLOC_CHECK)
		return 0;
	err = pages_give(b, a->pool, a->out_pages, a->nr);
	if (!err)
		err = send_pages(c, r->reply->head.cookie, a->pool,
				 a->out_pages, a->nr);
	if (err) {
		kvl_free(b->ledger, c->open.cmd.client, a->pool, a->out_pages,
			 a->nr, b->now);
		wait_decided(b);
	}
	return err;
}

static int published(struct request *r)
{
	const struct kvcache_publish *a = &r->f->arg.publish;
	u64 handles[KVCACHE_MAX_PUBLISH];
	u32 k;

	for (k = 0; k < a->nr; k++)
		handles[k] = a->pages[k].out_handle;
	return send_pages(r->c, r->reply->head.cookie, a->pool, handles, a->nr);
}

void request_end(struct request *r, int rc)
{
	struct client *c = r->c;

	if (!rc && r->nr == KVCACHE_NR_ALLOC)
		rc = alloc_granted(r);
	/* It is done, and what cannot be sent now can be asked for. */
	if (!rc && r->nr == KVCACHE_NR_PUBLISH && published(r))
		peer_close(c);
	rc = kvl_cmd_end(&c->open.cmd, r->f, r->reply->body, rc);
	memcpy(r->reply->body, &r->said, sizeof(r->said));
	send_reply(c, r->reply, rc, r->f->reply ? r->size : 0);
	free(r);
}

/* Changes of pools and tenants are made one at a time, by the table of serve. */
static bool is_change(u32 nr)
{
	return nr == KVCACHE_NR_POOL_SET ||
	       (nr >= KVCACHE_NR_TENANT_CREATE && nr < KVCACHE_NR_TENANT_GET);
}

static int attach(struct request *r, const struct ucred *sender)
{
	struct client *c = r->c;
	int rc;

	if (c->owner)
		return -EALREADY;
	rc = peer_watch(c, sender);
	if (rc)
		return rc;
	if (sender->pid == c->peer.pid) {
		r->f->uid = c->peer.uid;
		r->f->gid = c->peer.gid;
		r->f->groups = c->groups;
		r->f->nr_groups = c->nr_groups;
	} else {
		r->f->uid = sender->uid;
		r->f->gid = sender->gid;
	}
	rc = request_run(r);
	peer_attached(c, sender, !rc);
	return rc;
}

static void dispatch(struct request *r, const struct ucred *sender)
{
	int rc = kvl_cmd_begin(&r->c->open.cmd, r->f, r->nr, r->reply->body);

	if (!rc) {
		switch (r->nr) {
		case KVCACHE_NR_PUBLISH:
			publish_begin(r);
			return;
		case KVCACHE_NR_ATTACH:
			rc = attach(r, sender);
			break;
		default:
			rc = request_run(r);
		}
	}
	if (rc == KVL_WAITING)
		wait_for_pages(r);
	else
		request_end(r, rc);
}

/* A command of the ABI. @reply is used, or -errno. */
static int command(struct client *c, const struct ucred *sender,
		   struct out *reply, u32 size, u32 said)
{
	struct request *r;

	r = malloc(sizeof(*r) + kvl_cmd_frame_size(reply->head.nr));
	if (!r)
		return -ENOMEM;
	memset(r, 0, sizeof(*r) + offsetof(struct kvl_cmd_frame, arg));
	r->f = (struct kvl_cmd_frame *)(r + 1);
	INIT_LIST_HEAD(&r->link);
	r->c = c;
	r->nr = reply->head.nr;
	r->reply = reply;
	r->size = size;
	r->said = said;
	r->f->request = &r->alloc;
	r->f->admin = r->nr >= KVCACHE_NR_TENANT_CREATE &&
		     peer_admin(c, sender);
	if (is_change(r->nr))
		list_add_tail(&r->link, &c->open.b->changes);
	else
		dispatch(r, sender);
	return 0;
}

/* The books of a pool are large, and are made before it asks for its memory. */
static bool is_too_large(const struct request *r)
{
	const struct broker *b = r->c->open.b;
	struct kvcache_pool_set set = { 0 };

	memcpy(&set, r->reply->body, min_t(size_t, r->size, sizeof(set)));
	return r->nr == KVCACHE_NR_POOL_SET && r->f->admin &&
	       set.op == KVCACHE_POOL_CREATE &&
	       set.nr_pages > b->max_pages && set.nr_pages <= KVL_MAX_PAGES;
}

static int begin_change(struct request *r)
{
	if (r->begun)
		return 0;
	r->begun = true;
	if (is_too_large(r))
		return -ENOMEM;
	return kvl_cmd_begin(&r->c->open.cmd, r->f, r->nr, r->reply->body);
}

/* The first of them, until there is work that it needs to be done. */
bool serve_changes(struct broker *b)
{
	struct request *r;
	int rc;

	while (listed(&b->changes)) {
		r = list_first_entry(&b->changes, struct request, link);
		rc = begin_change(r);
		if (!rc)
			rc = request_run(r);
		if (rc == -EAGAIN)
			return true;
		list_del_init(&r->link);
		request_end(r, rc);
	}
	return false;
}

/* ---- requests that are not the ledger's ---------------------------------- */

static bool repeats(const struct kvcb_map *a)
{
	u32 i, k;

	for (i = 1; i < a->nr; i++)
		for (k = 0; k < i; k++)
			if (a->pages[k] == a->pages[i])
				return true;
	return false;
}

static int map(struct client *c, struct out *reply)
{
	const struct kvcb_map *a = (const struct kvcb_map *)reply->body;
	struct broker *b = c->open.b;
	const struct kvl_client *k = c->open.cmd.client;
	u32 i;

	if (a->__reserved)
		return -EOPNOTSUPP;
	if (!a->nr || a->nr > KVCACHE_MAX_PAGES)
		return -EINVAL;
	if (!k)
		return -ENOTCONN;
	if (a->pool >= KVCACHE_MAX_POOLS || !b->pool[a->pool])
		return -ENOENT;
	for (i = 0; i < a->nr; i++) {
		if (!page_mem(b, a->pool, a->pages[i]))
			return -ESTALE;
		if (kvl_page_access(b->ledger, k, a->pool,
				    kvl_index(a->pages[i]), false))
			return -EPERM;
	}
	if (repeats(a))
		return -EINVAL;
	return send_pages(c, reply->head.cookie, a->pool, a->pages, a->nr);
}

/* One of ours: @reply is used, or -errno. */
static int own_request(struct client *c, struct out *reply, u32 size)
{
	int rc;

	if (size != struct_size(reply->head.nr))
		return -EINVAL;
	if (reply->head.nr == KVCB_NR_EVENTS)
		return wait_for_events(c, reply);
	rc = map(c, reply);
	if (!rc)
		send_reply(c, reply, 0, 0);
	return rc;
}

/* ---- messages ------------------------------------------------------------ */

/* Whose open it is. */
static int may_call(const struct client *c, const struct ucred *sender)
{
	if (!c->owner)
		return 0;
	if (c->dead)
		return -EOWNERDEAD;
	return sender->pid == c->owner ? 0 : -EPERM;
}

static void cancel(struct client *c, const struct ucred *sender,
		   const struct kvcb_head *head, u32 size)
{
	const struct kvcb_cancel *a = (const struct kvcb_cancel *)(head + 1);

	if (size == sizeof(*a) && a->size == size && !may_call(c, sender))
		wait_cancel(c, a->cookie);
}

static bool is_zero(const char *at, const char *end)
{
	while (at < end)
		if (*at++)
			return false;
	return true;
}

/*
 * How much of the struct is kept: what we know of it. The rest is of a newer
 * one, or there to be kept for as long as the request waits.
 */
static int check(const struct kvcb_head *head, u32 *size)
{
	const char *body = (const char *)(head + 1);
	u32 known = struct_size(head->nr), said;

	if (*size < sizeof(said) || head->rc)
		return -EINVAL;
	memcpy(&said, body, sizeof(said));
	if (said != *size)
		return -EINVAL;
	if (!known)
		return -ENOTTY;
	if (head->nr >= KVCB_NR_CANCEL || *size <= known)
		return 0;
	if (!is_zero(body + known, body + *size))
		return -E2BIG;
	*size = known;
	return 0;
}

/* False: it is no request. */
static bool message(struct client *c, const struct ucred *sender,
		    const struct kvcb_head *head, u32 len)
{
	u32 size = len - sizeof(*head);
	struct out *reply;
	int rc;

	if (len < sizeof(*head) || head->magic != KVCB_MAGIC)
		return false;
	if (head->nr == KVCB_NR_CANCEL) {
		cancel(c, sender, head, size);
		return true;
	}
	rc = may_call(c, sender);
	if (!rc)
		rc = check(head, &size);
	if (rc)
		size = 0;
	/* Its struct is ours to write. */
	reply = out_new(head, size);
	if (!reply)
		return false;
	memcpy(reply->body, head + 1, size);
	if (size)
		memcpy(reply->body, &size, sizeof(size));
	c->nr_busy++;
	if (!rc)
		rc = head->nr < KVCB_NR_CANCEL ?
		     command(c, sender, reply, size, len - sizeof(*head)) :
		     own_request(c, reply, size);
	if (rc)
		send_reply(c, reply, rc, 0);
	return true;
}

static struct ucred sender_of(struct msghdr *m)
{
	struct ucred cred = { 0, -1, -1 };
	struct cmsghdr *c = CMSG_FIRSTHDR(m);

	if (c && c->cmsg_level == SOL_SOCKET &&
	    c->cmsg_type == SCM_CREDENTIALS &&
	    c->cmsg_len >= CMSG_LEN(sizeof(cred)))
		memcpy(&cred, CMSG_DATA(c), sizeof(cred));
	return cred;
}

static int receive(struct client *c, struct inbox *x, u32 nr)
{
	u32 k;
	int n;

	for (k = 0; k < nr; k++) {
		struct msghdr *m = &x->msg[k].msg_hdr;

		x->iov[k] = (struct iovec){ &x->data[k], KVCB_MSG_MAX };
		memset(m, 0, sizeof(*m));
		m->msg_iov = &x->iov[k];
		m->msg_iovlen = 1;
		m->msg_control = &x->control[k];
		m->msg_controllen = sizeof(x->control[k]);
	}
	n = recvmmsg(c->sock.fd, x->msg, nr, MSG_DONTWAIT | MSG_CMSG_CLOEXEC,
		     NULL);
	return n < 0 ? -errno : n;
}

bool serve_client(struct client *c)
{
	static struct inbox x;
	u32 nr = c->nr_busy < KVCB_INFLIGHT ?
		 min_t(u32, BATCH, KVCB_INFLIGHT - c->nr_busy) : 0;
	struct ucred sender;
	int n, k;

	/* It goes on when replies were sent. */
	if (!nr)
		return false;
	n = receive(c, &x, nr);
	if (n == -EAGAIN) {
		c->readable = false;
		return false;
	}
	for (k = 0; k < n && !c->closed; k++) {
		struct msghdr *m = &x.msg[k].msg_hdr;

		sender = sender_of(m);
		/* An empty message is how a connection ends, too. */
		if ((m->msg_flags & MSG_TRUNC) ||
		    !message(c, &sender, &x.data[k].head, x.msg[k].msg_len))
			peer_close(c);
	}
	if (n < 0)
		peer_close(c);
	return !c->closed;
}
