/* SPDX-License-Identifier: MIT */
/*
 * tier.h - what a tier is, between its parts.
 *
 * tier_record.c (the bytes of a page), tier_queue.c (requests, a thread that
 * serves them, what happens when it fails), tier_file.c and tier_redis.c (kinds
 * of tiers), tier_io.c (reads and writes of files), tier_seq.c (sequences over
 * tiers).
 *
 * Pages never leave the thread of their context: a page that is revoked cannot
 * be touched any more, and only that thread hears of it. So what travels are
 * copies, in memory of the tier that is bounded. The tier's thread sees nothing
 * else.
 */
#ifndef KVC_TIER_INTERNAL_H
#define KVC_TIER_INTERNAL_H

#include <pthread.h>
#include <kvcache/tier.h>

#include "internal.h"

/* ---- tier_record.c ---------------------------------------------------- */

#define KVC_RECORD_HEAD 4096	/* so that the page is aligned for O_DIRECT */

/**
 * struct kvc_record - a page as tiers keep it
 * @parent: key of what is before the page
 * @keys: [@nr_keys] its keys and fills, ascending: the last names it
 * @nr_keys: their number
 * @bytes: bytes of the page's image
 */
struct kvc_record {
	uint8_t parent[KVCACHE_KEY_LEN];
	struct kvcache_key keys[KVCACHE_MAX_PAGE_KEYS];
	uint32_t nr_keys;
	uint64_t bytes;
};

static inline const uint8_t *kvc_record_key(const struct kvc_record *r)
{
	return r->keys[r->nr_keys - 1].key;
}

/* Bytes of the record of @bytes of a page. */
static inline size_t kvc_record_len(uint64_t bytes)
{
	return KVC_RECORD_HEAD + ((bytes + 4095) & ~4095ULL);
}

/* Fill in the head and the end of a record whose image is in its place. */
void kvc_record_seal(const struct kvc_record *r, char *buf);
/* Is it whole, and a record? 0, or -EBADMSG. */
int kvc_record_open(const char *buf, size_t len, struct kvc_record *out);

/* ---- tier_queue.c ----------------------------------------------------- */

enum kvc_tier_op { KVC_TIER_GET, KVC_TIER_PUT };

enum kvc_req_state {
	KVC_REQ_QUEUED,
	KVC_REQ_ACTIVE,		/* the tier's thread has it */
	KVC_REQ_DONE,
};

/**
 * struct kvc_req - one page on its way
 * @next: in the list of its state
 * @op: which way
 * @state: where it is
 * @key: of the record
 * @rec: of a write: its head
 * @buf: [@len] the record
 * @len: its bytes, which are known before it is read
 * @rc: 0; -ENOENT it is not there; -EEXIST it was there already; -EBADMSG it is
 *      there, and something else; or another -errno
 * @born_ns: when it was made
 * @probe: what becomes of it decides whether the tier is asked again
 * @left: of a read: it waits to be found, and gives way where memory is short
 * @orphan: nobody will have it: the tier's thread frees it
 */
struct kvc_req {
	struct kvc_req *next;
	enum kvc_tier_op op;
	enum kvc_req_state state;
	uint8_t key[KVCACHE_KEY_LEN];
	struct kvc_record rec;
	char *buf;
	size_t len;
	int rc;
	uint64_t born_ns;
	bool probe;
	bool left;
	bool orphan;
};

#define KVC_TIER_MISSED 256
#define KVC_TIER_BATCH 32	/* requests of one kind served together */

/* Where tests make a tier fail, wait, or end the process. */
enum kvc_tier_point {
	KVC_AT_LOCK,
	KVC_AT_EVICT,
	KVC_AT_CREATE,
	KVC_AT_ROOM,
	KVC_AT_WRITE,
	KVC_AT_SYNC,
	KVC_AT_COMMIT,
	KVC_AT_COMMITTED,
	KVC_AT_OPEN,
	KVC_AT_READ,
	KVC_AT_POINTS,
};

/**
 * struct kvc_tier_ops - one kind of tier
 * @name: "file" or "redis"
 * @serve: @n requests of one kind: sets @rc of each
 * @forget: the record of a key is wrong: remove it
 * @close: give up all that it has, and @t
 *
 * All are called by one thread at a time, without locks.
 */
struct kvc_tier_ops {
	const char *name;
	void (*serve)(struct kvc_tier *t, struct kvc_req *const *r,
		      unsigned int n);
	void (*forget)(struct kvc_tier *t, const uint8_t *key);
	void (*close)(struct kvc_tier *t);
};

/**
 * struct kvc_tier_side - reading, or writing: either may fail without the other
 * @until_ns: not asked before this
 * @pause_ns: the next pause
 * @probing: a request that decides is on its way
 */
struct kvc_tier_side {
	uint64_t until_ns;
	uint64_t pause_ns;
	bool probing;
};

/**
 * struct kvc_tier - the first member of each kind's own struct
 * @ops: what kind it is
 * @ctx: whose caches use it, or NULL
 * @memory: bytes that requests may have
 * @timeout_ns: the longest wait
 * @fault: NULL, or a test's: 0 go on, -errno fail
 * @fault_arg: for it
 * @thread: serves requests
 * @started: there is one
 * @lock: of all that follows
 * @work: signalled when there is something to do
 * @done: signalled when something was done
 * @queue: [2] reads, writes that are to be served, oldest first
 * @active: those that the thread has
 * @ready: reads that are done and not taken
 * @missed: beginnings of keys that were read ahead and are not there, a ring
 * @nmissed: the next one's place
 * @losses: writes that failed, and what was evicted
 * @side: [2] reads, writes
 * @stop: the thread is to end
 * @abandoned: nobody waits for the thread: it frees the tier
 * @st: counters
 */
struct kvc_tier {
	const struct kvc_tier_ops *ops;
	struct kvc *ctx;
	uint64_t memory;
	uint64_t timeout_ns;
	int (*fault)(void *arg, enum kvc_tier_point at);
	void *fault_arg;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock;
	pthread_cond_t work;
	pthread_cond_t done;
	struct kvc_req *queue[2];
	struct kvc_req *active;
	struct kvc_req *ready;
	uint64_t missed[KVC_TIER_MISSED];
	uint32_t nmissed;
	uint64_t losses;
	struct kvc_tier_side side[2];
	bool stop;
	bool abandoned;
	struct kvc_tier_stats st;
};

/* Common beginning of kvc_tier_*_open(): everything but @t->ops is set up. */
int kvc_tier_init(struct kvc_tier *t, const struct kvc_tier_opts *opts);
/* Its end: the thread runs. -errno: there is none, and nothing to undo. */
int kvc_tier_start(struct kvc_tier *t);
/* Say why it cannot be opened; returns @err. */
__attribute__((format(printf, 3, 4)))
int kvc_tier_refuse(const struct kvc_tier_opts *opts, int err,
		    const char *fmt, ...);

static inline int kvc_tier_fault(struct kvc_tier *t, enum kvc_tier_point at)
{
	return t->fault ? t->fault(t->fault_arg, at) : 0;
}

uint64_t kvc_now_ns(void);

/*
 * Memory for a record, waited for until @deadline_ns (0: not at all); NULL, and
 * counted, where there is none or the tier is left out.
 */
struct kvc_req *kvc_req_new(struct kvc_tier *t, enum kvc_tier_op op,
			    size_t len, uint64_t deadline_ns);
/* One that is not submitted, or that was waited for. */
void kvc_req_free(struct kvc_tier *t, struct kvc_req *r);
/*
 * It has its key, and a write its @rec and image. A write is the tier's from
 * now on, and so is a read that is @left.
 */
void kvc_req_submit(struct kvc_tier *t, struct kvc_req *r);
/*
 * A read of @key that was left, to be waited for; or one that is done, of a
 * write that is on its way; or NULL.
 */
struct kvc_req *kvc_req_find(struct kvc_tier *t, const uint8_t *key,
			     size_t len);
/*
 * 1: there is something of @key that kvc_req_find() would find; -ENOENT: it was
 * read ahead lately, and was not there; else 0.
 */
int kvc_req_begun(struct kvc_tier *t, const uint8_t *key);
/*
 * Wait for a read. 0: it is the caller's, its @rc is set; -ETIMEDOUT: it is
 * the tier's.
 */
int kvc_req_wait(struct kvc_tier *t, struct kvc_req *r, uint64_t deadline_ns);
/* A number that changes when something may have gone from it, or not come. */
uint64_t kvc_tier_losses(struct kvc_tier *t);
void kvc_tier_count_used(struct kvc_tier *t, uint64_t pages);

/* ---- tier_io.c -------------------------------------------------------- */

struct kvc_io;

/**
 * struct kvc_io_op - one whole read or write
 * @fd: of what
 * @write: which way
 * @sync: on the disk when it is done
 * @buf: [@len] aligned to 4,096
 * @len: a multiple of 4,096
 * @rc: 0; -EIO; -EBADMSG the file is shorter; or another -errno
 */
struct kvc_io_op {
	int fd;
	bool write;
	bool sync;
	char *buf;
	size_t len;
	int rc;
};

/* By io_uring where that can be and @threads is not set. NULL without memory. */
struct kvc_io *kvc_io_create(bool threads);
void kvc_io_destroy(struct kvc_io *io);
bool kvc_io_uring(const struct kvc_io *io);
/* All of them, in any order; returns when all are done. */
void kvc_io_run(struct kvc_io *io, struct kvc_io_op *ops, unsigned int n);

/* ---- tier_seq.c ------------------------------------------------------- */

#define KVC_MAX_TIERS 4

/**
 * struct kvc_tiers - what is under a cache
 * @t: [@n] the tiers, the first one asked first
 * @policy: [@n] enum kvc_tier_policy
 * @n: their number
 * @loading: what is being published comes from them
 */
struct kvc_tiers {
	struct kvc_tier *t[KVC_MAX_TIERS];
	uint32_t policy[KVC_MAX_TIERS];
	uint32_t n;
	bool loading;
};

#endif /* KVC_TIER_INTERNAL_H */
