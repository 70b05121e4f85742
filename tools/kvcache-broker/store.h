/* SPDX-License-Identifier: MIT */
/*
 * store.h - descriptors that outlive this broker, kept by systemd.
 *
 * A service manager keeps descriptors for a service (sd_notify(3), FDSTORE) and
 * passes them when it starts it again. A broker that is to stop gives away the
 * memory of published pages and the ledger, as state.h writes it; the next one
 * begins with them. Names of descriptors are passed in one variable of the
 * environment, which must be short: all pages have the same name, and the
 * ledger knows them by their inodes.
 */
#ifndef BROKER_STORE_H
#define BROKER_STORE_H

#include <stdint.h>

#include "state.h"

struct store_page {
	uint64_t inode;
	int fd;
};

/**
 * struct store - descriptors that were passed to this process
 * @listen: sockets, @nr_listen of them
 * @state: the ledger, or -1
 * @page: memory of pages, by inode
 * @nr: their number
 */
struct store {
	int *listen;
	uint32_t nr_listen;
	int state;
	struct store_page *page;
	uint32_t nr;
};

/* What the environment says was passed: 0 or -ENOMEM. */
int store_receive(struct store *s);
/* The memory with @inode, if it is a published page of so many bytes; or -1. */
int store_take(struct store *s, uint64_t inode, uint64_t page_size);
/*
 * Closes what was not taken, sockets excepted, and tells the manager to keep
 * nothing of it.
 */
void store_done(struct store *s);

/**
 * store_save() - give away the ledger and its published pages
 * @l: the ledger
 * @now: CLOCK_MONOTONIC
 * @page_fd: descriptor of a page's memory
 * @arg: for @page_fd
 *
 * Return: pages that were given away; -ENOENT there is no manager; -ETIMEDOUT
 * it did not take them; -errno.
 */
int store_save(const struct kvl *l, uint64_t now,
	       int (*page_fd)(void *arg, uint32_t pool, uint64_t handle),
	       void *arg);

#endif /* BROKER_STORE_H */
