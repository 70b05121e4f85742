/* SPDX-License-Identifier: MIT */
/*
 * broker.h - how the commands of the ABI travel to a kvcache-broker.
 *
 * The broker listens on a Unix socket of type SOCK_SEQPACKET. Each message, of
 * either side, is a struct kvcb_head and one struct. A request has a command's
 * struct as <kvcache/uapi.h> has it (KVCACHE_NR_*), or one of those below
 * (KVCB_NR_*); its reply has the same nr and cookie, the result, and the struct
 * as the command left it, if there is anything to be said with it. Replies come
 * in any order: an ALLOC that waits holds up nothing else.
 *
 * Pages come as descriptors: a reply to ALLOC, PUBLISH or KVCB_NR_MAP is
 * preceded by messages of KVCB_NR_PAGES, with the same cookie, which carry them
 * (SCM_RIGHTS), one for each page, in the order of the entries, KVCB_FDS_MAX in
 * a message at most. Each is a memory file of one page. What is revoked, freed or
 * taken is truncated to nothing: whoever touches it then gets SIGBUS. A page that
 * was taken before its message could be sent comes as a file of no bytes.
 *
 * PUBLISH makes a copy: the handle is the same, the file is another one, which
 * can only be read, and what was mapped of the old one is gone. The null page is
 * zeros, and has no file.
 *
 * Who calls is who the kernel says (SO_PEERCRED at connect, SCM_CREDENTIALS of
 * each message): ATTACH binds the connection to the process that sent it. Others
 * get EPERM, and EOWNERDEAD when that process has ended.
 *
 * A message that is no request at all (wrong magic, shorter than its head,
 * longer than KVCB_MSG_MAX) ends the connection; descriptors that come with one
 * are dropped. A request whose struct's size is not what is left of the message
 * is EINVAL. What it has beyond the struct that the broker knows must be zero
 * (E2BIG), and does not come back. All numbers are of the host's byte order.
 */
#ifndef KVCACHE_BROKER_H
#define KVCACHE_BROKER_H

#include <kvcache/uapi.h>

#define KVCB_MAGIC	0x3162766bU	/* "kvb1" */

/* Bytes of a message, at most; descriptors in one (SCM_MAX_FD of Linux). */
#define KVCB_MSG_MAX	(16U * 1024 + 16)
#define KVCB_FDS_MAX	253

/*
 * Requests under way on one connection, those that wait for pages or events
 * aside; more stay unread. A client that takes no reply for KVCB_STALL_S seconds
 * while there are some is cut off.
 */
#define KVCB_INFLIGHT	64
#define KVCB_STALL_S	30

/*
 * Requests of one connection that wait, and requests for pages of all connections
 * of a user: EBUSY for one more.
 */
#define KVCB_WAITING		256
#define KVCB_WAITING_USER	2048

/**
 * struct kvcb_head - first in each message
 * @magic: KVCB_MAGIC
 * @nr: KVCACHE_NR_* or KVCB_NR_*
 * @cookie: the caller's; the reply has the same
 * @rc: of a reply: 0 or -errno. Zero in a request
 */
struct kvcb_head {
	__u32 magic;
	__u32 nr;
	__u32 cookie;
	__s32 rc;
};

#define KVCB_NR_CANCEL	0x80	/* end what waits; says nothing itself */
#define KVCB_NR_MAP	0x81	/* descriptors of pages that are held */
#define KVCB_NR_EVENTS	0x82	/* read events, or wait for them */
#define KVCB_NR_PAGES	0x83	/* from the broker: descriptors */

/**
 * struct kvcb_cancel - end a request that waits (KVCB_NR_CANCEL)
 * @size: sizeof(struct kvcb_cancel)
 * @cookie: of an ALLOC or of KVCB_NR_EVENTS
 *
 * Has no reply of its own. If it still waits, its own reply is -EINTR.
 */
struct kvcb_cancel {
	__u32 size;
	__u32 cookie;
};

/**
 * struct kvcb_map - descriptors of pages (KVCB_NR_MAP)
 * @size: sizeof(struct kvcb_map)
 * @pool: the pool
 * @nr: entries of @pages that are in use, 1 to KVCACHE_MAX_PAGES
 * @__reserved: zero
 * @pages: handles of pages that the caller holds
 *
 * For pages that LOOKUP found. Errors, before any descriptor is sent: EINVAL,
 * also if a page is named twice; ENOENT no such pool; ESTALE; EPERM not the
 * caller's to read.
 */
struct kvcb_map {
	__u32 size;
	__u32 pool;
	__u32 nr;
	__u32 __reserved;
	__aligned_u64 pages[KVCACHE_MAX_PAGES];
};

#define KVCB_MAX_EVENTS	64

/**
 * struct kvcb_events - read events (KVCB_NR_EVENTS)
 * @size: sizeof(struct kvcb_events)
 * @max: records wanted at most, 1 to KVCB_MAX_EVENTS
 * @deadline_ns: CLOCK_MONOTONIC until which to wait for the first; 0 not at
 *               all, KVCACHE_TIME_NEVER for ever
 * @out_nr: records read, 0 if there are none
 * @__reserved: zero
 * @out_events: the records
 *
 * One at a time waits on a connection: EBUSY for another.
 */
struct kvcb_events {
	__u32 size;
	__u32 max;
	__aligned_u64 deadline_ns;
	__u32 out_nr;
	__u32 __reserved;
	struct kvcache_event out_events[KVCB_MAX_EVENTS];
};

/* kvcb_page.flags */
#define KVCB_PAGE_WRITE	(1U << 0)	/* the caller's own, to be written */

/**
 * struct kvcb_page - whose descriptor is sent
 * @handle: the page
 * @pool: its pool
 * @flags: KVCB_PAGE_*
 */
struct kvcb_page {
	__aligned_u64 handle;
	__u32 pool;
	__u32 flags;
};

/**
 * struct kvcb_pages - descriptors (KVCB_NR_PAGES), from the broker
 * @size: bytes sent: entries that are not in use are not
 * @nr: entries of @pages, and descriptors with this message
 * @pages: the pages
 */
struct kvcb_pages {
	__u32 size;
	__u32 nr;
	struct kvcb_page pages[KVCB_FDS_MAX];
};

#endif /* KVCACHE_BROKER_H */
