/* SPDX-License-Identifier: MIT */
/*
 * state.h - what a ledger knows, in a file, for the broker that comes next.
 *
 * The file is a list of commands of the ABI that make such a ledger from an
 * empty one: pools, tenants, limits, grants, then published pages, the least
 * recently used first. A struct in it has its own size, so that what an older
 * broker wrote a newer one reads.
 *
 * Clients are not in it, nor are their PRIVATE pages: who held them has lost
 * its connection. Published pages become CACHED. Counters begin anew.
 */
#ifndef BROKER_STATE_H
#define BROKER_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "../../kmod/ledger.h"

/**
 * struct state_saved - a published page, as the file has it
 * @size: sizeof(struct state_saved)
 * @pool: its pool, by the number that it had
 * @handle: the page, by the handle that it had
 * @tenant: whose it is, by the number that it had
 * @shared: clients held it: they may read its memory yet
 * @inode: of the file that has its memory
 * @page: what it was published with; times are what is left of them
 */
struct state_saved {
	uint32_t size;
	uint32_t pool;
	uint64_t handle;
	uint32_t tenant;
	uint32_t shared;
	uint64_t inode;
	struct kvcache_publish_page page;
};

/**
 * struct state_ops - what loading needs of the broker
 * @admin: run a command with all rights: 0 or -errno
 * @adopt: page @handle of @pool has the memory of @saved: 0 or -errno
 * @settle: do the work of @pool: a page was given up
 */
struct state_ops {
	int (*admin)(void *arg, unsigned int nr, void *cmd);
	int (*adopt)(void *arg, uint32_t pool, uint64_t handle,
		     const struct state_saved *saved);
	void (*settle)(void *arg, uint32_t pool);
};

/**
 * state_save() - write down a ledger
 * @l: the ledger
 * @f: where to
 * @now: CLOCK_MONOTONIC
 * @fn: called for each page before it is written, and sets its inode
 * @arg: for @fn
 *
 * Return: 0, or what @fn returned if that is not 0, -ENOMEM, -EIO.
 */
int state_save(const struct kvl *l, FILE *f, uint64_t now,
	       int (*fn)(void *arg, struct state_saved *page), void *arg);

/**
 * state_load() - make a ledger again
 * @l: the ledger, with nothing in it
 * @f: what state_save() wrote
 * @now: CLOCK_MONOTONIC
 * @ops: the broker
 * @arg: for @ops
 * @pages: pages that are there again
 * @lost: pages that are not: there was no room, or no memory of them
 *
 * Return: 0; -EBADMSG it is no such file, or damaged; what came before that is
 * in the ledger. -ENOMEM.
 */
int state_load(struct kvl *l, FILE *f, uint64_t now,
	       const struct state_ops *ops, void *arg, uint32_t *pages,
	       uint32_t *lost);

#endif /* BROKER_STATE_H */
