/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * cmd.h - commands of the ABI on a ledger, for whoever keeps the pages.
 *
 * A command goes through steps, of which only the middle one holds the lock of
 * the ledger: the struct is copied in, its form is checked and memory is taken;
 * it is run, again and again while it says -EAGAIN; it is copied out and what
 * is left over is freed.
 */
#ifndef KVL_CMD_H
#define KVL_CMD_H

#include <linux/compiler.h>

#include "ledger.h"

struct kvl_cmd;
struct kvl_cmd_frame;

/**
 * struct kvl_cmd_ops - what commands need of the memory's owner
 * @memory_alloc: no lock: memory for a new pool of @nr_pages that may grow to
 *                @capacity; -ENOMEM, -EINVAL
 * @memory_free: no lock: memory that no pool has (any more)
 * @memory_grow: no lock: memory for @nr_pages pages in all, if it is more than
 *               the pool has; -ENOMEM, -E2BIG, -ENOENT
 * @memory_shrink: no lock: the pool has @nr_pages pages only
 * @memory_set: lock held: the pool's memory from now on; returns what it was
 * @pool_info: lock held: the offsets of its windows; or NULL
 * @page_info: lock held: flags that the ledger does not know of; or NULL
 * @who: lock held: process of a client
 * @tenant: lock held: tenant that the caller attaches to by itself, or a
 *          negative errno
 *
 * Calls of KVCACHE_NR_POOL_SET come one at a time.
 */
struct kvl_cmd_ops {
	int (*memory_alloc)(struct kvl_cmd *x, u64 page_size, u32 nr_pages,
			    u32 capacity, void **memory);
	void (*memory_free)(struct kvl_cmd *x, void *memory);
	int (*memory_grow)(struct kvl_cmd *x, u32 pool, u64 nr_pages);
	void (*memory_shrink)(struct kvl_cmd *x, u32 pool, u64 nr_pages);
	void *(*memory_set)(struct kvl_cmd *x, u32 pool, void *memory);
	void (*pool_info)(struct kvl_cmd *x, struct kvcache_pool_info *info);
	void (*page_info)(struct kvl_cmd *x, struct kvcache_page_info *info);
	void (*who)(struct kvl_cmd *x, struct kvcache_client_info *info);
	int (*tenant)(struct kvl_cmd *x, const struct kvl_cmd_frame *f);
};

/**
 * struct kvl_cmd - one open
 * @ops: whose it is
 * @ledger: the ledger
 * @client: its client, NULL before KVCACHE_ATTACH
 * @features: KVCACHE_FEAT_*
 * @pool_flags: KVL_POOL_* of new pools
 * @min_page_size: of new pools
 * @headroom: times its size to which a new pool may grow, at least 1
 */
struct kvl_cmd {
	const struct kvl_cmd_ops *ops;
	struct kvl *ledger;
	struct kvl_client *client;
	u64 features;
	u32 pool_flags;
	u32 headroom;
	u64 min_page_size;
};

struct kvl_cmd_row;

/**
 * struct kvl_cmd_frame - one command under way
 * @admin: may change tenants and pools, and see all of them
 * @uid: of the caller
 * @gid: of the caller
 * @groups: of the caller, @nr_groups further ones
 * @nr_groups: their number
 * @row: the command
 * @usize: size of the caller's struct
 * @reply: there is something to copy out
 * @again: it said -EAGAIN before
 * @work: it did so because pages are on their way: the work of the pools is to
 *        be done before it goes on
 * @want: nodes that the ledger needs
 * @nr_pages: KVCACHE_POOL_RESIZE: pages that the pool has now, or 0
 * @nodes: nodes for the ledger
 * @client: to be attached, or to be freed
 * @tenant: to be created, or to be freed
 * @pool: to be added, or to be freed
 * @memory: of @pool
 * @copies: KVCACHE_PUBLISH: see kvl_publish()
 * @request: KVCACHE_ALLOC: room for the request
 * @arg: the struct; a frame of kvl_cmd_frame_size() bytes has this one's only
 *
 * The caller sets the first five and @request, and clears the rest.
 */
struct kvl_cmd_frame {
	bool admin;
	u32 uid;
	u32 gid;
	u32 nr_groups;
	const u32 *groups;
	const struct kvl_cmd_row *row;
	u32 usize;
	bool reply;
	bool again;
	bool work;
	u32 want;
	u64 nr_pages;
	struct kvl_nodes *nodes;
	struct kvl_client *client;
	struct kvl_tenant *tenant;
	struct kvl_pool *pool;
	void *memory;
	const u64 *copies;
	struct kvl_request *request;
	union {
		u32 size;
		struct kvcache_query query;
		struct kvcache_attach attach;
		struct kvcache_alloc alloc;
		struct kvcache_free free;
		struct kvcache_publish publish;
		struct kvcache_lookup lookup;
		struct kvcache_advise advise;
		struct kvcache_tenant_set tenant_set;
		struct kvcache_tenant_ref tenant_ref;
		struct kvcache_tenant_grant tenant_grant;
		struct kvcache_tenant_get tenant_get;
		struct kvcache_client_get client_get;
		struct kvcache_page_get page_get;
		struct kvcache_grant_get grant_get;
		struct kvcache_pool_set pool_set;
		struct kvcache_pool_get pool_get;
		struct kvcache_export export;
		struct kvcache_provide provide;
		struct kvcache_take take;
		struct kvcache_retire retire;
	} arg;
};

/* Bytes of a frame for command @nr; 0: there is no such command. */
size_t kvl_cmd_frame_size(unsigned int nr);

/**
 * kvl_cmd_begin() - no lock: copy in, check the form, take memory
 * @x: the open
 * @f: the frame
 * @nr: the command
 * @arg: its struct
 *
 * Form is size, flags and reserved members. Return: 0 or -errno; kvl_cmd_end()
 * is to be called in either case.
 */
int kvl_cmd_begin(struct kvl_cmd *x, struct kvl_cmd_frame *f, unsigned int nr,
		  const void __user *arg);

/**
 * kvl_cmd_run() - lock held: do it
 * @x: the open
 * @f: from kvl_cmd_begin()
 * @now: CLOCK_MONOTONIC in nanoseconds
 *
 * Return: 0 or -errno; -EAGAIN to be called again after the lock was released,
 * the work of the pools done if @f->work, and kvl_cmd_more() called;
 * KVL_WAITING for a KVCACHE_ALLOC that waits, until @f->request->status changes
 * or kvl_cancel() ends it: that is the result then.
 */
int kvl_cmd_run(struct kvl_cmd *x, struct kvl_cmd_frame *f, u64 now);

/* No lock. What a command that said -EAGAIN needs: 0 or -ENOMEM. */
int kvl_cmd_more(struct kvl_cmd_frame *f);

/* No lock. Frees what is left, copies out what there is; @rc or -EFAULT. */
int kvl_cmd_end(struct kvl_cmd *x, struct kvl_cmd_frame *f, void __user *arg,
		int rc);

#endif /* KVL_CMD_H */
