/* SPDX-License-Identifier: MIT */
/*
 * tier.h - libkvcache: slower and larger memory under a pool. For
 * <kvcache/kvcache.h>.
 */
#ifndef KVCACHE_TIER_H
#define KVCACHE_TIER_H

#include <kvcache/kvcache.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* ---- tiers ------------------------------------------------------------ */

/**
 * DOC: tiers
 *
 * A tier keeps copies of pages that the pool may forget: in a folder, or on a
 * Redis server. kvc_seq_prefix() and kvc_seq_wake() bring in from there what
 * the pool does not have; nothing else of a program changes. A page is stored
 * under the key of its last token, so whoever has another model, layout, type
 * or salt finds nothing, and it comes back only as what was written: a record
 * of another key, of another size or with a wrong checksum is a miss.
 *
 * Whatever fails is computed again. A tier that failed is left out for a while,
 * a second at first and up to a minute, and then asked by one request. No call
 * waits for a tier longer than its @timeout_ms.
 */

struct kvc_tier;	/* one tier */

/**
 * enum kvc_tier_policy - when pages are copied to a tier
 * @KVC_TIER_BACK: when a conversation becomes idle, or kvc_seq_offload()
 * @KVC_TIER_THROUGH: besides, each full page when it is published
 * @KVC_TIER_SELECTIVE: besides, a page at its second use: when a later
 *                      conversation finds it or writes an equal one
 */
enum kvc_tier_policy {
	KVC_TIER_BACK,
	KVC_TIER_THROUGH,
	KVC_TIER_SELECTIVE,
};

/**
 * enum kvc_tier_sync - what is certain when a page counts as written
 * @KVC_TIER_SYNC_NONE: a process that ends takes nothing with it. After a loss
 *                      of power pages may be gone; torn ones are noticed
 * @KVC_TIER_SYNC_DATA: the bytes of a page are on the disk before its name is
 */
enum kvc_tier_sync {
	KVC_TIER_SYNC_NONE,
	KVC_TIER_SYNC_DATA,
};

/**
 * struct kvc_tier_opts - what tiers of all kinds have in common
 * @sz: sizeof(struct kvc_tier_opts)
 * @memory: bytes of pages on their way or read ahead; 0 for 64 MiB
 * @timeout_ms: the longest that a call waits for this tier; 0 for 1,000
 * @msg: room for a sentence on why it could not be opened, or NULL
 * @msg_len: its bytes
 */
struct kvc_tier_opts {
	size_t sz;
	uint64_t memory;
	uint32_t timeout_ms;
	char *msg;
	size_t msg_len;
};

/**
 * struct kvc_tier_file - a tier of files
 * @sz: sizeof(struct kvc_tier_file)
 * @path: a folder; it is made if it is not there, for its owner alone
 * @size: bytes that its files may have in all, those of other processes
 *        included; 0 for 1 GiB. What was not used for longest is removed
 * @sync: enum kvc_tier_sync
 * @buffered: not past the page cache, though the file system could
 * @threads: read and write by threads, though io_uring could
 */
struct kvc_tier_file {
	size_t sz;
	const char *path;
	uint64_t size;
	uint32_t sync;
	uint32_t buffered;
	uint32_t threads;
};

/**
 * kvc_tier_file_open() - a folder of files, one a page
 * @f: what and where
 * @opts: options, or NULL
 * @out: for kvc_tier_close()
 *
 * Several processes may use one folder at a time. Reads and writes go past the
 * page cache and through io_uring where that can be; kvc_tier_stats() says.
 * Return: 0; -EPERM others can write to the folder, or it is another's;
 * -EINVAL; -ENOMEM; or why the folder cannot be made or opened.
 */
int kvc_tier_file_open(const struct kvc_tier_file *f,
		       const struct kvc_tier_opts *opts, struct kvc_tier **out);

/**
 * struct kvc_tier_redis - a tier on a Redis server
 * @sz: sizeof(struct kvc_tier_redis)
 * @host: its host, or the path of its socket if it begins with a slash
 * @port: its port; 0 for 6379
 * @ns: namespace: 1 to 64 letters, digits, dots, dashes and underscores; NULL
 *      for "default". Keys are kvcache:NAMESPACE:HEX
 * @ttl_s: seconds after which the server forgets a page that nobody stores or
 *         finds in it again; 0 for a day
 * @user: who to be, or NULL for the server's default user
 * @password: their password, or NULL for none
 *
 * Pages and password travel as they are: there is no TLS. Whoever can write to
 * the namespace decides what its readers compute with.
 */
struct kvc_tier_redis {
	size_t sz;
	const char *host;
	uint32_t port;
	const char *ns;
	uint32_t ttl_s;
	const char *user;
	const char *password;
};

/**
 * kvc_tier_redis_open() - pages on a server that several hosts use
 * @r: where
 * @opts: options, or NULL
 * @out: for kvc_tier_close()
 *
 * Does not connect: a server that is not there yet is a tier that fails.
 * Return: 0; -EINVAL; -ENOMEM; -EOPNOTSUPP this library was built without
 * hiredis.
 */
int kvc_tier_redis_open(const struct kvc_tier_redis *r,
			const struct kvc_tier_opts *opts,
			struct kvc_tier **out);

/**
 * kvc_tier_close() - end a tier
 * @t: the tier, or NULL. The caches that use it must be gone
 *
 * Finishes the writes that were begun, for 10 seconds at most.
 */
void kvc_tier_close(struct kvc_tier *t);

/**
 * kvc_tier_flush() - wait until all that was given to a tier is written
 * @t: the tier
 * @deadline_ns: of CLOCK_MONOTONIC
 *
 * Return: 0, whatever became of it; -ETIMEDOUT something is on its way still.
 */
int kvc_tier_flush(struct kvc_tier *t, uint64_t deadline_ns);

/**
 * kvc_cache_tier() - put a tier under a cache, below those that it has
 * @c: the cache
 * @t: the tier, of this context's caches only
 * @policy: enum kvc_tier_policy
 *
 * The upper one is asked first. Return: 0; -EINVAL a @policy that cannot be, or
 * the cache has the tier already; -ENOSPC it has four; -EBUSY the tier is
 * another context's; -EOPNOTSUPP a group of layers has a window; -ENOMEM.
 */
int kvc_cache_tier(struct kvc_cache *c, struct kvc_tier *t, uint32_t policy);

/**
 * kvc_seq_offload() - copy a conversation to the tiers of its cache
 * @s: the sequence
 *
 * Its full pages and the one that it is filling. They are copied when this
 * returns and written later; those for which the tiers have no memory in time
 * are left out. Return: pages copied; -EBUSY the sequence is idle or in a
 * planned batch; -ESTALE.
 */
int kvc_seq_offload(struct kvc_seq *s);

/**
 * kvc_prefetch() - begin to read what a prompt will want from the tiers
 * @c: the cache
 * @s: the idle sequence that goes on, or NULL for a new one without extra bytes
 * @tokens: the prompt; not used if @s is there
 * @n: its length
 *
 * Takes no page of the pool, and does not wait: what has been read stays in the
 * tiers' memory for kvc_seq_prefix() or kvc_seq_wake(), for half a minute at
 * most. Return: pages that are on their way or there; or -errno.
 */
int kvc_prefetch(struct kvc_cache *c, const struct kvc_seq *s,
		 const uint32_t *tokens, uint32_t n);

/**
 * struct kvc_tier_stats - counters of a tier since it was opened
 * @hits: pages read that were right
 * @misses: pages asked for that it does not have
 * @hit_bytes: bytes of @hits
 * @used: pages read that went into the pool
 * @puts: pages written
 * @put_bytes: bytes of @puts
 * @had: pages given to it that it had already
 * @evicted: pages removed to stay within its size
 * @bad: records that were not what was written: torn, flipped, of another key
 * @no_space: writes refused for want of room
 * @io_errors: reads and writes that failed for other reasons
 * @timeouts: requests that took too long
 * @gone: times that the server could not be reached, or was lost
 * @skipped: requests not made, as the tier had failed shortly before
 * @full: pages not written or read ahead, as its memory was in use
 * @get_ns: nanoseconds of reading, all batches
 * @put_ns: nanoseconds of writing
 * @wait_ns: nanoseconds that callers waited for it
 * @memory: bytes on their way or read ahead now
 * @peak_memory: the most of these
 * @down: 1 while it is left out
 * @direct: 1 if it goes past the page cache
 * @uring: 1 if it goes through io_uring
 */
struct kvc_tier_stats {
	uint64_t hits;
	uint64_t misses;
	uint64_t hit_bytes;
	uint64_t used;
	uint64_t puts;
	uint64_t put_bytes;
	uint64_t had;
	uint64_t evicted;
	uint64_t bad;
	uint64_t no_space;
	uint64_t io_errors;
	uint64_t timeouts;
	uint64_t gone;
	uint64_t skipped;
	uint64_t full;
	uint64_t get_ns;
	uint64_t put_ns;
	uint64_t wait_ns;
	uint64_t memory;
	uint64_t peak_memory;
	uint32_t down;
	uint32_t direct;
	uint32_t uring;
};

/**
 * kvc_tier_stats() - counters of a tier
 * @t: the tier
 * @out: filled in
 */
void kvc_tier_stats(struct kvc_tier *t, struct kvc_tier_stats *out);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* KVCACHE_TIER_H */
