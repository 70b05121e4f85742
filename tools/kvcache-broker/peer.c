// SPDX-License-Identifier: MIT
/*
 * peer.c - connections, who is behind them, and their ends.
 *
 * The kernel says who connected, and who sent each message. A connection
 * belongs to the process that attached it, which is watched: when it ends, what
 * it held goes back, although a child or a friend may have the socket yet.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/kernel.h>
#include <linux/list.h>

#include "proc.h"
#include "server.h"

#define ACCEPT_BATCH	64
#define REAP_BUDGET	256
#define MAX_GROUPS	65536
#define SEND_BUFFER	(256 << 10)

/* ---- who it is ----------------------------------------------------------- */

/*
 * The process that has @pid. It was @uid's; by now it may have ended and its
 * number be another's, of whom it can only be said that he is @uid too.
 */
static int open_process(pid_t pid, uid_t uid)
{
	int fd = pidfd_open(pid, 0);

	if (fd < 0)
		return -errno;
	if (!proc_is_of(pid, uid) || proc_ended(fd)) {
		close(fd);
		return -EOWNERDEAD;
	}
	return fd;
}

/* Who connected, as a pidfd; -1 if there is none (any more). */
static int peer_process(int sock, const struct ucred *peer)
{
	socklen_t len = sizeof(int);
	int fd;

	if (!getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &fd, &len))
		return fd;
	/* Linux before 6.5. */
	if (errno == ENOPROTOOPT && peer->pid > 0) {
		fd = open_process(peer->pid, peer->uid);
		return fd < 0 ? -1 : fd;
	}
	return -1;
}

static int peer_groups(struct client *c)
{
	socklen_t len = 0;

	if (!getsockopt(c->sock.fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &len))
		return 0;
	if (errno != ERANGE || len > MAX_GROUPS * sizeof(gid_t))
		return -errno;
	c->groups = malloc(len);
	if (!c->groups)
		return -ENOMEM;
	if (getsockopt(c->sock.fd, SOL_SOCKET, SO_PEERGROUPS, c->groups, &len))
		return -errno;
	c->nr_groups = len / sizeof(gid_t);
	return 0;
}

static bool is_admin(const struct broker *b, uid_t uid)
{
	return !uid || uid == b->uid;
}

/* Whoever opened it, and whoever uses it. */
bool peer_admin(const struct client *c, const struct ucred *sender)
{
	return is_admin(c->open.b, c->peer.uid) &&
	       is_admin(c->open.b, sender->uid);
}

static void pid_event(struct broker *b, struct watch *w, u32 events);

int peer_watch(struct client *c, const struct ucred *sender)
{
	if (sender->pid <= 0)
		return -EPERM;
	c->pid.fn = pid_event;
	c->pid.fd = sender->pid == c->peer.pid ? c->peer_pidfd :
		    open_process(sender->pid, sender->uid);
	if (c->pid.fd < 0)
		return sender->pid == c->peer.pid ? -EOWNERDEAD : c->pid.fd;
	c->owner = sender->pid;
	return 0;
}

void peer_attached(struct client *c, const struct ucred *sender, bool yes)
{
	if (yes && broker_watch(c->open.b, &c->pid, EPOLLIN))
		peer_close(c);
	if (yes) {
		if (c->pid.fd == c->peer_pidfd)
			c->peer_pidfd = -1;
		kvl_client_set_owner(c->open.cmd.client, c);
		proc_name(c->owner, c->comm, sizeof(c->comm));
		return;
	}
	if (c->pid.fd != c->peer_pidfd)
		close(c->pid.fd);
	c->pid.fd = -1;
	c->owner = 0;
}

int peer_cgroup_tenant(struct client *c)
{
	u64 ids[PROC_CGROUPS];
	int tenant = -ENOENT;
	u32 nr = proc_cgroups(c->owner, ids), k;

	/* It was another's that had its number since. */
	if (proc_ended(c->pid.fd))
		return -ENOENT;
	for (k = 0; k < nr && tenant < 0; k++)
		tenant = kvl_tenant_by_cgroup(c->open.cmd.ledger, ids[k]);
	return tenant;
}

/* ---- users --------------------------------------------------------------- */

static struct user *user_find(struct broker *b, uid_t uid)
{
	struct user *u;

	list_for_each_entry(u, &b->users, link)
		if (u->uid == uid)
			return u;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->uid = uid;
	list_add_tail(&u->link, &b->users);
	return u;
}

static void user_drop(struct user *u)
{
	if (u->nr)
		return;
	list_del_init(&u->link);
	free(u);
}

/*
 * Administrators have a part of the connections to themselves. Of the others a
 * user has at most half of what is left, so that there is one for the next.
 */
static bool may_connect(const struct broker *b, const struct user *u)
{
	u32 others = b->nr_open - u->nr + b->reserve;

	if (is_admin(b, u->uid))
		return true;
	return others < b->max_clients &&
	       u->nr < (b->max_clients - others + 1) / 2;
}

static struct user *user_get(struct broker *b, uid_t uid)
{
	struct user *u = user_find(b, uid);

	if (!u)
		return NULL;
	if (!may_connect(b, u)) {
		user_drop(u);
		return NULL;
	}
	u->nr++;
	b->nr_open++;
	return u;
}

static void user_put(struct broker *b, struct user *u)
{
	u->nr--;
	b->nr_open--;
	user_drop(u);
	if (!b->listening)
		timer_arm(b, &b->resume, b->now);
}

/* ---- the beginning ------------------------------------------------------- */

static void sock_event(struct broker *b, struct watch *w, u32 events)
{
	struct client *c = container_of(w, struct client, sock);

	if (c->closed)
		return;
	if (events & ~EPOLLOUT) {
		c->readable = true;
		if (!listed(&c->ready))
			list_add_tail(&c->ready, &b->ready);
	}
	/* There is room; or nobody who would make any. */
	if (listed(&c->out) && !listed(&c->unsent))
		list_add_tail(&c->unsent, &b->unsent);
}

static void client_init(struct broker *b, struct client *c, int fd)
{
	INIT_LIST_HEAD(&c->link);
	INIT_LIST_HEAD(&c->ready);
	INIT_LIST_HEAD(&c->unsent);
	INIT_LIST_HEAD(&c->dying);
	INIT_LIST_HEAD(&c->waiting);
	INIT_LIST_HEAD(&c->publishing);
	INIT_LIST_HEAD(&c->job);
	INIT_LIST_HEAD(&c->listen);
	INIT_LIST_HEAD(&c->out);
	INIT_LIST_HEAD(&c->flyer);
	c->open = b->self;
	c->open.cmd.client = NULL;
	c->sock = (struct watch){ sock_event, fd };
	c->pid.fd = -1;
	c->peer_pidfd = -1;
	c->stall.fn = send_stalled;
}

static void client_free(struct client *c)
{
	close(c->sock.fd);
	if (c->peer_pidfd >= 0)
		close(c->peer_pidfd);
	if (c->user)
		user_put(c->open.b, c->user);
	free(c->groups);
	free(c);
}

/* It is the caller's to close @fd if there is no client for it. */
static void client_new(struct broker *b, int fd)
{
	const int size = SEND_BUFFER, yes = 1;
	struct client *c = calloc(1, sizeof(*c));
	socklen_t len = sizeof(c->peer);

	if (!c) {
		close(fd);
		return;
	}
	client_init(b, c, fd);
	/* Who connected before we listened has not got it from there. */
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c->peer, &len) ||
	    peer_groups(c))
		goto fail;
	c->user = user_get(b, c->peer.uid);
	if (!c->user)
		goto fail;
	c->peer_pidfd = peer_process(fd, &c->peer);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (broker_watch(b, &c->sock, EPOLLIN | EPOLLOUT | EPOLLRDHUP |
			 EPOLLET))
		goto fail;
	list_add_tail(&c->link, &b->clients);
	b->nr_clients++;
	return;
fail:
	client_free(c);
}

static void set_listening(struct broker *b, bool on)
{
	u32 k;

	if (on == b->listening)
		return;
	b->listening = on;
	for (k = 0; k < b->nr_listen; k++) {
		struct epoll_event ev = {
			.events = on ? EPOLLIN : 0,
			.data.ptr = &b->listen[k],
		};

		epoll_ctl(b->epoll, EPOLL_CTL_MOD, b->listen[k].fd, &ev);
	}
}

void peer_resume(struct broker *b, struct timer *t)
{
	set_listening(b, true);
}

/* Whoever cannot be let in now waits outside, and does not keep us awake. */
void peer_accept(struct broker *b, struct watch *w, u32 events)
{
	int k, fd;

	for (k = 0; k < ACCEPT_BATCH && b->nr_open < b->max_clients; k++) {
		fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			client_new(b, fd);
			continue;
		}
		if (errno == ECONNABORTED || errno == EINTR)
			continue;
		if (errno == EAGAIN)
			return;
		break;
	}
	if (k == ACCEPT_BATCH)
		return;
	set_listening(b, false);
	timer_arm(b, &b->resume, b->now + 10 * RETRY_NS);
}

/* ---- the end ------------------------------------------------------------- */

/* What it holds goes back; its calls fail from now on. */
static void end_client(struct client *c)
{
	struct broker *b = c->open.b;

	if (c->dead)
		return;
	c->dead = true;
	/* Which ends the watch, too. */
	if (c->pid.fd >= 0)
		close(c->pid.fd);
	c->pid.fd = -1;
	wait_end(c, -EOWNERDEAD);
	if (!c->open.cmd.client)
		return;
	kvl_client_kill(b->ledger, c->open.cmd.client);
	wait_decided(b);
	list_add_tail(&c->dying, &b->dying);
}

static void pid_event(struct broker *b, struct watch *w, u32 events)
{
	struct client *c = container_of(w, struct client, pid);

	if (w->fd >= 0)
		end_client(c);
}

void peer_close(struct client *c)
{
	struct broker *b = c->open.b;

	if (c->closed)
		return;
	c->closed = true;
	end_client(c);
	send_drop(c);
	list_del_init(&c->ready);
	epoll_ctl(b->epoll, EPOLL_CTL_DEL, c->sock.fd, NULL);
	shutdown(c->sock.fd, SHUT_RDWR);
	list_move_tail(&c->link, &b->graves);
	b->nr_clients--;
}

bool peer_reap(struct broker *b)
{
	struct client *c, *next;
	u32 nr;

	list_for_each_entry_safe(c, next, &b->dying, dying) {
		nr = kvl_client_reap(b->ledger, c->open.cmd.client,
				     REAP_BUDGET, b->now);
		wait_decided(b);
		if (nr == REAP_BUDGET)
			continue;
		if (kvl_client_detach(b->ledger, c->open.cmd.client))
			abort();	/* it was asked for all that it has */
		kvl_client_free(c->open.cmd.client);
		c->open.cmd.client = NULL;
		list_del_init(&c->dying);
	}
	return listed(&b->dying);
}

/* Who is under way in a list, or is in the ledger, is let be. */
void peer_bury(struct broker *b)
{
	struct client *c, *next;
	bool over;

	list_for_each_entry_safe(c, next, &b->graves, link) {
		if (c->nr_busy || c->nr_waiting || c->open.cmd.client)
			continue;
		/* What it did not receive counts until it is gone. */
		over = flight_over(c);
		list_del_init(&c->link);
		if (over)
			client_free(c);
	}
}
