/* SPDX-License-Identifier: MIT */
/*
 * broker_conn.h - a connection to a broker: requests, and their replies.
 */
#ifndef KVC_BROKER_CONN_H
#define KVC_BROKER_CONN_H

#include <pthread.h>
#include <semaphore.h>
#include <sys/time.h>

#include "broker_pages.h"

/**
 * struct kvc_bcall - a request whose reply is awaited
 * @next: the next in its list
 * @nr: command
 * @cookie: its number
 * @arg: the struct that was sent
 * @must: pages that come with the reply must be mapped
 * @done: the reply is there
 * @admitted: may be sent
 * @unattended: no thread waits for it
 * @late: the broker did not answer in time
 * @rc: of the reply
 * @map_err: why a page that came could not be mapped
 * @len: bytes in @reply
 * @wake: it is done, it may be sent, or there is a socket to be read
 * @reply: the struct that came
 */
struct kvc_bcall {
	struct kvc_bcall *next;
	uint32_t nr;
	uint32_t cookie;
	const void *arg;
	bool must;
	bool done;
	bool admitted;
	bool unattended;
	bool late;
	int rc;
	int map_err;
	uint32_t len;
	sem_t wake;
	union {
		struct kvcache_alloc alloc;
		struct kvcache_publish publish;
		struct kvcache_lookup lookup;
		struct kvcache_advise advise;
		struct kvcb_events events;
		struct kvcache_query query;
		char bytes[KVCB_MSG_MAX - sizeof(struct kvcb_head)];
	} reply;
};

struct kvc_bmessage {
	struct kvcb_head head;
	union {
		struct kvcb_pages pages;
		char bytes[KVCB_MSG_MAX - sizeof(struct kvcb_head)];
	};
};

/**
 * struct kvc_bconn - a connection
 * @sys: the backend that it is
 * @fd: the socket
 * @spare_lock: one thread gives up @spare at a time, until it is back; outside
 *              @lock
 * @spare: a descriptor to be given up for a page's, or -1
 * @pid: the process that opened it
 * @lock: protects what follows, down to @watch
 * @gone: the broker is
 * @reading: somebody reads the socket
 * @cookie: the last one
 * @waiting: calls that wait at the broker
 * @calls: those that were sent
 * @parked: those that would wait, and are too many; in their order
 * @pages: the pages
 * @watching: @watch is with the broker, or has records
 * @taken: of these, those that were read
 * @watch: a request for events that is there before anybody wants them: looking
 *         for some costs no answer
 * @watch_lock: one thread reads events at a time; outside @lock
 * @in: of the thread that reads: the message
 * @fds: its descriptors
 * @nr_fds: their number
 */
struct kvc_bconn {
	struct kvc_sys sys;
	int fd;
	pthread_mutex_t spare_lock;
	int spare;
	pid_t pid;
	pthread_mutex_t lock;
	bool gone;
	bool reading;
	uint32_t cookie;
	uint32_t waiting;
	struct kvc_bcall *calls;
	struct kvc_bcall *parked;
	struct kvc_bpages pages;
	bool watching;
	uint32_t taken;
	struct kvc_bcall watch;
	pthread_mutex_t watch_lock;
	struct kvc_bmessage in;
	int fds[KVCB_FDS_MAX];
	unsigned int nr_fds;
};

/*
 * Send a command's struct, and have the reply in @c. @deadline_ns: until when
 * it may wait, 0 for nothing: then signals do not end it. Returns 0 or what the
 * broker says; -EINTR; -ENOTCONN; -ETIMEDOUT also where the broker says nothing:
 * with a deadline that binds it too, and if it does not even take the request
 * back the connection is over.
 */
int kvc_bconn_call(struct kvc_bconn *s, struct kvc_bcall *c, uint32_t nr,
		   const void *arg, size_t len, uint64_t deadline_ns);
/*
 * The same of what waits for nothing: -EINTR before it was sent is no answer. If
 * there is none until @until, -ETIMEDOUT, and the connection is over.
 */
int kvc_bconn_do(struct kvc_bconn *s, struct kvc_bcall *c, uint32_t nr,
		 const void *arg, size_t len, uint64_t until);
/* Until when the reply to what has this deadline is waited for. */
uint64_t kvc_bconn_until(uint64_t deadline_ns);
/* And to what waits for nothing, where somebody would do without. */
uint64_t kvc_bconn_soon(void);
struct timeval kvc_bconn_left(uint64_t until);
/* As kvc_sys_ops has them; -EBUSY another thread reads events. */
int kvc_bconn_events(struct kvc_bconn *s, struct kvcache_event *ev,
		     unsigned int n, uint64_t deadline_ns);
bool kvc_bconn_pending(struct kvc_bconn *s);
/* No call succeeds any more. */
void kvc_bconn_hang_up(struct kvc_bconn *s);

#endif /* KVC_BROKER_CONN_H */
