/* SPDX-License-Identifier: MIT */
/*
 * cmd.h - commands of the ABI on a ledger, for backends that are processes.
 *
 * A command goes through three steps, so that only the middle one needs the
 * backend's lock: the struct is copied in and checked, run, and copied out.
 */
#ifndef KVC_CMD_H
#define KVC_CMD_H

#include "ledger.h"

struct kvc_cmd;

/**
 * struct kvc_cmd_ops - what commands need of their backend; lock held
 * @pool_add: memory for a new pool; a negative errno refuses it
 * @pool_gone: pool @pool was removed, or keeps @nr_pages pages
 * @who: process of a client
 */
struct kvc_cmd_ops {
	int (*pool_add)(struct kvc_cmd *x, u32 pool, u64 page_size,
			u64 nr_pages);
	void (*pool_gone)(struct kvc_cmd *x, u32 pool, u64 nr_pages);
	void (*who)(struct kvc_cmd *x, struct kvcache_client_info *info);
};

/**
 * struct kvc_cmd - one open of a backend
 * @ops: its backend
 * @ledger: the ledger
 * @client: its client, NULL before KVCACHE_ATTACH
 * @features: KVCACHE_FEAT_*
 * @pool_flags: KVL_POOL_* of new pools
 * @min_page_size: of new pools
 * @admin: may change tenants and pools, and see all of them
 * @uid: of the process
 * @gid: of the process
 */
struct kvc_cmd {
	const struct kvc_cmd_ops *ops;
	struct kvl *ledger;
	struct kvl_client *client;
	u64 features;
	u32 pool_flags;
	u64 min_page_size;
	bool admin;
	u32 uid;
	u32 gid;
};

struct kvc_cmd_row;

/**
 * struct kvc_cmd_frame - one command under way
 * @row: the command
 * @request: KVCACHE_ALLOC: the request
 * @reply: there is something to copy out
 * @arg: the struct
 */
struct kvc_cmd_frame {
	const struct kvc_cmd_row *row;
	struct kvl_request request;
	bool reply;
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
		struct kvcache_pool_set pool_set;
		struct kvcache_export export;
		struct kvcache_provide provide;
		struct kvcache_take take;
		struct kvcache_retire retire;
	} arg;
};

/* No lock. Copies the struct in and checks its form: size, flags, reserved. */
int kvc_cmd_begin(const struct kvc_cmd *x, struct kvc_cmd_frame *f,
		  unsigned int nr, const void *arg);

/**
 * kvc_cmd_run() - do it
 * @x: the open
 * @f: from kvc_cmd_begin()
 * @now: CLOCK_MONOTONIC in nanoseconds
 *
 * Return: 0 or -errno; KVL_WAITING for a KVCACHE_ALLOC that waits, until
 * @f->request.status changes or kvl_cancel() ends it; that is the result then.
 */
int kvc_cmd_run(struct kvc_cmd *x, struct kvc_cmd_frame *f, u64 now);

/* No lock. Copies out what there is, and returns @rc. */
int kvc_cmd_end(struct kvc_cmd_frame *f, void *arg, int rc);

#endif /* KVC_CMD_H */
