/* SPDX-License-Identifier: MIT */
/*
 * server.h - the parts of the broker, and what they know of each other.
 *
 * One thread, one struct broker, nothing global: whatever happens is a step of
 * broker_turn(). No step waits for a client, and none takes long: work that is
 * large (copies, truncation, what a dead client held) is done in slices.
 */
#ifndef BROKER_SERVER_H
#define BROKER_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <kvcache/broker.h>

#include "cmd.h"

#define SEC_NS		1000000000ULL
#define MSEC_NS		1000000ULL
#define SLICE_NS	(2 * MSEC_NS)	/* of serving, copying, truncating, a turn */
#define BATCH		16		/* messages of a client, a turn */
#define RETRY_NS	(10 * MSEC_NS)	/* what failed for lack of something */
#define MAX_STOCK	256		/* files made ahead, a pool */

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD	77
#endif

struct broker;
struct client;
struct request;

/* ---- timers (timer.c) ---------------------------------------------------- */

/**
 * struct timer - something that happens at a time
 * @at: CLOCK_MONOTONIC
 * @fn: what happens; the timer is not armed any more
 * @pos: place among the armed ones, from 1; 0 it is not
 */
struct timer {
	u64 at;
	void (*fn)(struct broker *b, struct timer *t);
	u32 pos;
};

void timer_arm(struct broker *b, struct timer *t, u64 at);
void timer_stop(struct broker *b, struct timer *t);
/* Runs those whose time has come, and sets the clock for the next. */
void timers_run(struct broker *b);
void timers_set(struct broker *b);

u64 clock_ns(void);

/* ---- memory (page.c) ----------------------------------------------------- */

/**
 * struct mem - the memory file of one page
 * @handle: the page
 * @fd: the file; -1 once it was taken away
 * @refs: the pool's, messages' and publications'
 * @published: sealed; others get it read-only
 * @kept: from before this broker began, when clients held it: they read it yet
 */
struct mem {
	u64 handle;
	int fd;
	u32 refs;
	bool published;
	bool kept;
};

/**
 * struct pool - the memory of a pool
 * @page_size: bytes
 * @nr_pages: pages that it has
 * @capacity: pages that it can have
 * @nr_mem: pages that have a file now
 * @mem: these, by the page's number
 * @stock: files that no page has had, @nr_stock of them
 */
struct pool {
	u64 page_size;
	u32 nr_pages;
	u32 capacity;
	u32 nr_mem;
	struct mem **mem;
	u32 nr_stock;
	int stock[MAX_STOCK];
};

/**
 * struct open - what a client has, and the broker itself
 * @cmd: for the commands
 * @b: the broker
 */
struct open {
	struct kvl_cmd cmd;
	struct broker *b;
};

extern const struct kvl_cmd_ops broker_cmd_ops;

/* A file that has nothing in it and never will: it, or -errno. */
int page_gone(void);
/* A file to be filled, of no page yet; NULL if there can be none. */
struct mem *mem_blank(u64 page_size);
/* It becomes what nobody can write any more: 0 or -errno. */
int mem_seal(struct mem *m);
/* What is in the file is gone, and so is the caller's reference; or NULL. */
void mem_discard(struct mem *m);
/* Pages that were just granted get files: 0, or -ENOMEM and none has one. */
int pages_give(struct broker *b, u32 pool, const u64 *handles, u32 nr);
/* The file of a page, by its handle, or NULL. */
struct mem *page_mem(struct broker *b, u32 pool, u64 handle);
/* Page @handle has @m from now on, a reference of the caller's. */
void page_replace(struct broker *b, u32 pool, u64 handle, struct mem *m);
/* Page @handle has the sealed file @fd, from before this broker: 0 or -ENOMEM. */
int page_adopt(struct broker *b, u32 pool, u64 handle, int fd, bool kept);
struct mem *mem_get(struct mem *m);
void mem_put(struct mem *m);
/* Pages that left their owners, for a slice; true: there is more. */
bool pages_work(struct broker *b);
/* The files stay as they are, and are not ours any more: the end is near. */
void pages_let_go(struct broker *b);
/* Makes some files ahead; true: there is more to be made. */
bool pages_stock(struct broker *b);
/* The books: 0, or -EUCLEAN and why. */
int pages_verify(struct broker *b, char *why, size_t len);
void pool_free(struct broker *b, struct pool *p);

/* ---- messages to clients (send.c) ---------------------------------------- */

/**
 * struct out - a message to a client
 * @link: in its queue
 * @len: bytes from @head on
 * @counts: it is a reply, one of those that are bounded
 * @nr_mem: files that go with it
 * @mem: the files
 * @head: what is sent
 * @body: what is sent, 8-byte aligned
 */
struct out {
	struct list_head link;
	u32 len;
	bool counts;
	u32 nr_mem;
	struct mem **mem;
	struct kvcb_head head;
	char body[];
};

/* A reply to @head whose struct has @size bytes at most; or NULL. */
struct out *out_new(const struct kvcb_head *head, u32 size);
void out_free(struct out *o);
/* @o is the client's to be sent, and freed. */
void send_reply(struct client *c, struct out *o, int rc, u32 size);
/* Files of pages, ahead of the reply with @cookie: 0 or -ENOMEM. */
int send_pages(struct client *c, u32 cookie, u32 pool, const u64 *handles,
	       u32 nr);
void send_flush(struct client *c);
void send_drop(struct client *c);
void send_init(struct broker *b);
void send_stalled(struct broker *b, struct timer *t);

/* ---- descriptors on the way (flight.c) ----------------------------------- */

/* May @nr more be sent to @c? */
bool flight_room(struct client *c, u32 nr);
void flight_add(struct client *c, u32 nr);
/* Nothing is on the way to @c, which is closed; or it is buried later. */
bool flight_over(struct client *c);
/* Whatever is on the way, it is no matter any more. */
void flight_end(struct broker *b);
void flight_init(struct broker *b, u64 limit);

/* ---- clients (peer.c) ---------------------------------------------------- */

/* Whose event it is. */
struct watch {
	void (*fn)(struct broker *b, struct watch *w, u32 events);
	int fd;
};

/**
 * struct user - what a user has
 * @link: in broker->users
 * @uid: who
 * @nr: connections
 * @flying: descriptors that are on the way to them
 * @nr_waiting: requests of theirs that wait for pages
 */
struct user {
	struct list_head link;
	uid_t uid;
	u32 nr;
	u32 flying;
	u32 nr_waiting;
};

/**
 * struct client - a connection
 * @link: in broker->clients
 * @ready: in broker->ready, if there may be something to read
 * @unsent: in broker->unsent, if there may be something to send
 * @dying: in broker->dying: its pages are being given back
 * @open: its open
 * @sock: the connection
 * @pid: the process that attached, as a pidfd
 * @peer: who connected
 * @peer_pidfd: that process, or -1
 * @groups: its further groups, @nr_groups
 * @user: for the bounds of a user
 * @owner: who attached, 0 nobody yet
 * @comm: its name
 * @dead: the owner has ended, or the connection
 * @closed: the connection has ended
 * @readable: there may be more to read
 * @held: a message waits for something else than room
 * @nr_busy: requests whose reply was not sent, but those that wait
 * @nr_waiting: of @waiting
 * @waiting: requests that wait
 * @publishing: publications; the first is under way
 * @job: in broker->jobs, if @publishing has any
 * @listen: in broker->listeners, with @events
 * @events: the request that waits for events, or NULL
 * @out: messages to be sent
 * @flying: descriptors sent since nothing was on the way
 * @flyer: in broker->flyers, if there are any
 * @stall: when it is given up
 */
struct client {
	struct list_head link, ready, unsent, dying;
	struct open open;
	struct watch sock, pid;
	struct ucred peer;
	int peer_pidfd;
	gid_t *groups;
	u32 nr_groups;
	struct user *user;
	pid_t owner;
	char comm[16];
	bool dead, closed, readable, held;
	u32 nr_busy, nr_waiting;
	struct list_head waiting, publishing, job, listen;
	struct request *events;
	struct list_head out, flyer;
	u32 flying;
	struct timer stall;
};

void peer_accept(struct broker *b, struct watch *w, u32 events);
void peer_resume(struct broker *b, struct timer *t);
/* Watches who attaches: 0 or -errno; then that it did, or did not. */
int peer_watch(struct client *c, const struct ucred *sender);
void peer_attached(struct client *c, const struct ucred *sender, bool yes);
/* The connection ends. */
void peer_close(struct client *c);
/* What dead clients held, in slices; true: there is more. */
bool peer_reap(struct broker *b);
void peer_bury(struct broker *b);
bool peer_admin(const struct client *c, const struct ucred *sender);
int peer_cgroup_tenant(struct client *c);

/* ---- requests (serve.c, wait.c, publish.c) ------------------------------- */

struct publication;

/**
 * struct request - a command under way
 * @link: in client->waiting or ->publishing, or broker->changes
 * @c: whose
 * @reply: the reply to be; its body is the caller's struct
 * @nr: the command
 * @size: bytes of the struct
 * @said: those that the caller has
 * @begun: broker->changes: kvl_cmd_begin() was called
 * @alloc: KVCACHE_ALLOC
 * @timer: of one that waits
 * @pub: KVCACHE_PUBLISH
 * @f: the frame, as large as the command's struct wants it, just behind
 */
struct request {
	struct list_head link;
	struct client *c;
	struct out *reply;
	u32 nr;
	u32 size;
	u32 said;
	bool begun;
	struct kvl_request alloc;
	struct timer timer;
	struct publication *pub;
	struct kvl_cmd_frame *f;
};

/* Some messages of a client; true: there may be more. */
bool serve_client(struct client *c);
/* Runs a command until it waits for something: its result. */
int request_run(struct request *r);
/* The reply, and the end of @r. */
void request_end(struct request *r, int rc);
/* Pools and tenants that change, one at a time; true: there is more. */
bool serve_changes(struct broker *b);

void wait_for_pages(struct request *r);
int wait_for_events(struct client *c, struct out *reply);
void wait_cancel(struct client *c, u32 cookie);
/* Requests that were decided in whatever was done to the ledger. */
void wait_decided(struct broker *b);
void wait_posted(struct broker *b);
void wait_end(struct client *c, int rc);

void publish_begin(struct request *r);
/* Copies for a slice; true: there is more. */
bool publish_step(struct broker *b);

/* ---- all of it (broker.c) ------------------------------------------------ */

/**
 * struct broker - the broker
 * @ledger: who owns what
 * @pool: where it is
 * @self: an open of the broker's own
 * @uid: the broker's
 * @now: of this turn
 * @epoll: what to wait for
 * @clock: a timerfd
 * @signals: a signalfd
 * @listen: the sockets, @nr_listen
 * @listening: they are waited for
 * @gone: a file with nothing in it, in place of one that was taken away
 * @max_pages: files that all pools may have together
 * @nr_pages: that they may need now
 * @max_flying: descriptors that may be on the way to all clients together
 * @flying: those that are, or were when it was looked up
 * @max_fds: descriptors of one message
 * @flyers: clients to whom some are on the way
 * @look_up_at: not earlier
 * @sweep: when to look at those that are closed
 * @max_clients: connections
 * @reserve: of these, for administrators
 * @nr_clients: of @clients
 * @nr_open: connections, also those that are over and not buried yet
 * @stall_ns: for how long a client may take no reply
 * @posted: kvl_posted() when it was looked at last
 * @tick: when the ledger has something to do
 * @retry: when to try again what was @held
 * @resume: when to accept again
 * @heap: armed timers, @nr_timers of them
 * @clock_at: what @clock is set to
 * @verify: somebody wants to know whether the books are right
 * @stop: the end has come
 */
struct broker {
	struct kvl *ledger;
	struct pool *pool[KVCACHE_MAX_POOLS];
	struct open self;
	uid_t uid;
	u64 now;
	int epoll;
	struct watch clock, signals;
	struct watch *listen;
	u32 nr_listen;
	bool listening;
	int gone;
	u64 max_pages, nr_pages;
	u32 max_clients, reserve, nr_clients, nr_open;
	u32 max_flying, flying, max_fds;
	struct list_head clients, ready, unsent, dying, changes, jobs,
			 listeners, graves, users, flyers;
	u64 stall_ns;
	u64 posted, look_up_at;
	struct timer tick, retry, resume, sweep;
	struct timer **heap;
	u32 nr_timers, max_timers;
	u64 clock_at;
	bool verify, stop;
};

/* With @uid's rights: an empty ledger and no socket. NULL after a complaint. */
struct broker *broker_new(void);
/* A command of the broker's own: 0 or -errno. */
int broker_admin(struct broker *b, unsigned int nr, void *cmd);
/* Takes over @fd, a listening socket: 0 or -errno. */
int broker_listen(struct broker *b, int fd);
int broker_watch(struct broker *b, struct watch *w, u32 events);
void broker_turn(struct broker *b);
/* 0: the books are right; or it says what is wrong. */
int broker_verify(struct broker *b);
/* Everybody is cut off. */
void broker_free(struct broker *b);

static inline bool listed(const struct list_head *h)
{
	return !list_empty(h);
}

#endif /* BROKER_SERVER_H */
