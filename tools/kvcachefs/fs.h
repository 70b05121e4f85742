/* SPDX-License-Identifier: MIT */
/*
 * fs.h - kvcachefs: pools, tenants and clients as folders and files.
 *
 * main.c mounts and waits, ops.c answers the kernel, node.c knows what there
 * is, text.c what is in a file, set.c changes something, poll.c tells of
 * changes, backend.c asks the device or the broker. One thread does all of it.
 *
 * Nothing is kept from one request to the next but what is open: an inode
 * number says what it is of, and everything else is asked again.
 */
#ifndef KVCACHEFS_H
#define KVCACHEFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#define FUSE_USE_VERSION 34
#include <fuse3/fuse_lowlevel.h>
#include <kvcache/kvcache.h>

/* As many as there can be tenants, so that few share one. */
#define FS_HINTS 65536

/* What an inode is of. */
enum fs_kind {
	FS_ROOT, FS_POOLS, FS_POOL, FS_TENANTS, FS_TENANT, FS_CLIENTS, FS_CLIENT
};

/**
 * struct fs_node - an inode number, taken apart
 * @kind: which folder
 * @file: 0 for the folder itself, else 1 + the number of a file of it
 * @id: number of the pool, tenant or client
 * @tag: of its name or process: numbers are used again, by a new broker above
 *       all, and an open folder is not to become another one's
 */
struct fs_node {
	enum fs_kind kind;
	unsigned int file;
	uint32_t id;
	uint32_t tag;
};

/**
 * struct fs - one mount
 * @device: what to open, or NULL for what the library finds
 * @tenant: whose member to be where the user may not administer, or NULL
 * @uid: the user who mounts
 * @gid: the same user's group
 * @shared: other users may look
 * @mounted: when
 * @kvc: the backend, or NULL
 * @admin: it lets this user administer
 * @blind: it knows this user as member of no tenant
 * @query: its pools, as of the beginning of the request
 * @hint: [hash of a name] number that a tenant of that name had
 * @polled: open files that somebody waits for
 * @lookups: of files; counts on in their numbers
 * @inconsistent: looks for metrics that were not of one moment
 */
struct fs {
	const char *device;
	const char *tenant;
	uid_t uid;
	gid_t gid;
	bool shared;
	struct timespec mounted;
	struct kvc *kvc;
	bool admin;
	bool blind;
	struct kvcache_query query;
	uint32_t hint[FS_HINTS];
	struct fs_open *polled;
	uint32_t lookups;
	uint64_t inconsistent;
};

/**
 * struct fs_open - one open file
 * @node: of what
 * @text: what was there when it was opened
 * @len: bytes of @text
 * @was_read: from the beginning, so that a second time is a new look
 * @ph: somebody sleeps until @text is no longer true, or NULL
 * @next: in fs.polled
 */
struct fs_open {
	struct fs_node node;
	char *text;
	size_t len;
	bool was_read;
	struct fuse_pollhandle *ph;
	struct fs_open *next;
};

/* ---- backend.c: 0 or -errno everywhere -------------------------------- */

/*
 * At the beginning of a request: reads the pools, and finds a broker again that
 * was started anew. -ENOTCONN there is none; -EACCES it lets nobody in.
 */
int fs_begin(struct fs *fs);
/* At its end: who is a member of a tenant only is one no longer than that. */
void fs_end(struct fs *fs);
int fs_call(struct fs *fs, unsigned int nr, void *arg);
/* Why the backend cannot be opened, for people; @len bytes at @why. */
int fs_try(struct fs *fs, char *why, size_t len);

/* The record of a number, and the ledger's. -ENOENT. */
int fs_tenant(struct fs *fs, uint32_t pool, uint32_t id,
	      struct kvcache_tenant_info *out, uint64_t *seq);
int fs_client(struct fs *fs, uint32_t pool, uint32_t id,
	      struct kvcache_client_info *out, uint64_t *seq);
int fs_tenant_named(struct fs *fs, const char *name,
		    struct kvcache_tenant_info *out);
const struct kvcache_pool_info *fs_pool(const struct fs *fs, uint32_t id);

/* ---- node.c ----------------------------------------------------------- */

/* What stat(2) tells. */
fuse_ino_t node_ino(const struct fs_node *n);
/*
 * What the kernel is to call it, this time. Of each file whose name is looked up
 * it has another inode, with a page cache of its own: sendfile(2) fills one even
 * where that is not wanted, and two who open a file see different contents.
 */
fuse_ino_t node_fresh(struct fs *fs, const struct fs_node *n);
/* Of either. */
struct fs_node node_of(fuse_ino_t ino);
/* Names of the files of a folder, and how many. */
const char *node_file(enum fs_kind kind, unsigned int file);
bool node_writable(const struct fs_node *n);

struct fs_node node_pool(const struct kvcache_pool_info *p);
struct fs_node node_tenant(const struct kvcache_tenant_info *t);
struct fs_node node_client(const struct kvcache_client_info *c);

/* 0, or -ENOENT it is gone. @st may be NULL. */
int node_stat(struct fs *fs, const struct fs_node *n, struct stat *st);
int node_lookup(struct fs *fs, const struct fs_node *dir, const char *name,
		struct fs_node *out);
/* The tenant that @n is of, in the pool; -ENOENT it is gone. */
int node_tenant_info(struct fs *fs, const struct fs_node *n, uint32_t pool,
		     struct kvcache_tenant_info *t, uint64_t *seq);
int node_client_info(struct fs *fs, const struct fs_node *n, uint32_t pool,
		     struct kvcache_client_info *c, uint64_t *seq);

/* ---- text.c ----------------------------------------------------------- */

/* What is in a file now, to be freed by the caller. */
int text_make(struct fs *fs, const struct fs_node *n, char **text, size_t *len);

/* ---- set.c ------------------------------------------------------------ */

/* May the caller do what the mount may? 0 or -EPERM. Begun. */
int set_allowed(struct fs *fs, const struct fuse_ctx *who);
/* What was written to a file. */
int set_value(struct fs *fs, const struct fs_node *n, const char *buf,
	      size_t len);
int set_owner(struct fs *fs, const struct fs_node *n, const struct stat *st,
	      int which);
int set_create(struct fs *fs, const char *name, const struct fuse_ctx *who,
	       struct fs_node *out);
int set_remove(struct fs *fs, const char *name);

/* ---- poll.c ----------------------------------------------------------- */

/* poll(2) of an open file; @ph is for when it changes, or NULL. */
unsigned int poll_file(struct fs *fs, struct fs_open *o,
		       struct fuse_pollhandle *ph);
void poll_forget(struct fs *fs, struct fs_open *o);
/* Look at all that somebody waits for. */
void poll_look(struct fs *fs);

/* ---- ops.c ------------------------------------------------------------ */

extern const struct fuse_lowlevel_ops fs_ops;

#endif /* KVCACHEFS_H */
