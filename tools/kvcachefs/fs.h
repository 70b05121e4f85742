/* SPDX-License-Identifier: MIT */
/*
 * fs.h - kvcachefs: pools, tenants and clients as folders and files.
 *
 * main.c mounts and waits, ops.c answers the kernel, node.c knows what there
 * is, list.c what is in a folder, text.c in a file, who.c who may see it, set.c
 * changes something, poll.c tells of changes, backend.c and ask.c ask the device
 * or the broker. One thread does all of it, and another one does the asking.
 *
 * Nothing is kept from one request to the next but what is open: an inode
 * number says what it is of, and everything else is asked again.
 */
#ifndef KVCACHEFS_H
#define KVCACHEFS_H

#include <pthread.h>
#include <signal.h>
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
#define FS_GROUPS 256	/* of a caller that are looked at */

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
 * @since: of when the connection is, by fs_now()
 * @query: its pools, as of the last request that needed them
 * @known: @query is of this connection
 * @recalled: it was not asked for in this request: see fs_begin_known()
 * @hint: [hash of a name] number that a tenant of that name had
 * @opened: open files
 * @polled: those that somebody waits for
 * @look_at: when to look whether they changed, by fs_now()
 * @lookups: of files; counts on in their numbers
 * @metrics_len: of what was in the file last
 * @inconsistent: looks for metrics that were not of one moment
 * @req: the request, where it matters whose it is, or NULL
 * @nr_groups: of the caller; -1: not read yet
 * @groups: [@nr_groups]
 * @se: once it is mounted
 * @signals: blocked but for while it waits
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
	uint64_t since;
	struct kvcache_query query;
	bool known;
	bool recalled;
	uint32_t hint[FS_HINTS];
	struct fs_open *opened;
	struct fs_open *polled;
	uint64_t look_at;
	uint32_t lookups;
	size_t metrics_len;
	uint64_t inconsistent;
	fuse_req_t req;
	int nr_groups;
	gid_t groups[FS_GROUPS];
	struct fuse_session *se;
	sigset_t signals;
};

/**
 * struct fs_open - one open file
 * @ino: of what, as the kernel calls it
 * @node: the same
 * @text: what was there when it was opened
 * @len: bytes of @text
 * @was_read: from the beginning, so that a second time is a new look
 * @ph: somebody sleeps until @text is no longer true, or NULL
 * @next: in fs.polled
 * @next_open: in fs.opened
 */
struct fs_open {
	fuse_ino_t ino;
	struct fs_node node;
	char *text;
	size_t len;
	bool was_read;
	struct fuse_pollhandle *ph;
	struct fs_open *next;
	struct fs_open *next_open;
};

/* Nanoseconds of a monotonic clock. */
uint64_t fs_now(void);

/* ---- ask.c: 0 or -errno everywhere ------------------------------------ */

/*
 * Opens @fs->kvc, or calls it: -ETIMEDOUT it says nothing, or has not since it
 * was asked something else; @fs->kvc is NULL then, and what was asked may be
 * done later.
 */
int ask_open(struct fs *fs, char *why, size_t len);
int ask_call(struct fs *fs, unsigned int nr, void *arg);
void ask_close(struct fs *fs);
/* The thread ends, and what is open: before a fork, and at the end. */
void ask_end(struct fs *fs);

/* ---- backend.c: 0 or -errno everywhere -------------------------------- */

/*
 * At the beginning of a request: reads the pools, and finds a broker again that
 * was started anew. -ENOTCONN there is none; -EACCES it lets nobody in;
 * -ETIMEDOUT it says nothing.
 */
int fs_begin(struct fs *fs);
/*
 * The same, where pools do not matter but for their numbers: as they were. If
 * something is not there then, it is to be looked for again: fs_again().
 */
int fs_begin_known(struct fs *fs);
/* True: begun in earnest now, *@err says with what result. */
bool fs_again(struct fs *fs, int *err);
/* At its end. */
void fs_end(struct fs *fs);
/* Nobody asked for a while. Milliseconds until this is to be called, or -1. */
int fs_idle(struct fs *fs);
int fs_call(struct fs *fs, unsigned int nr, void *arg);
/* Why the backend cannot be opened, for people; @len bytes at @why. */
int fs_try(struct fs *fs, char *why, size_t len);
/* A tenant's number was seen. */
void fs_hint(struct fs *fs, const struct kvcache_tenant_info *t);

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

/* A folder or file by its place in the list of node_file(). */
struct fs_node node_in(const struct fs_node *dir, unsigned int file);
/* It is there whatever the backend says. */
bool node_is_fixed(const struct fs_node *n);
/* Its length is that of what is in it, as far as it is known. */
bool node_is_long(const struct fs_node *n);

/* What is the same for all; and a tenant's folder or file, from its record. */
void node_stat_begin(const struct fs *fs, const struct fs_node *n,
		     struct stat *st);
void node_stat_tenant(const struct fs *fs, const struct fs_node *n,
		      const struct kvcache_tenant_info *t, struct stat *st);
/* 0, or -ENOENT it is gone. @st may be NULL. */
int node_stat(struct fs *fs, const struct fs_node *n, struct stat *st);
int node_lookup(struct fs *fs, const struct fs_node *dir, const char *name,
		struct fs_node *out, struct stat *st);
/* The tenant that @n is of, in the pool; -ENOENT it is gone. */
int node_tenant_info(struct fs *fs, const struct fs_node *n, uint32_t pool,
		     struct kvcache_tenant_info *t, uint64_t *seq);
int node_client_info(struct fs *fs, const struct fs_node *n, uint32_t pool,
		     struct kvcache_client_info *c, uint64_t *seq);

/* ---- text.c ----------------------------------------------------------- */

/* What is in a file now, to be freed by the caller. */
int text_make(struct fs *fs, const struct fs_node *n, char **text, size_t *len);

/* ---- list.c ----------------------------------------------------------- */

struct fs_list;

int list_open(struct fs *fs, const struct fs_node *dir, struct fs_list **out);
/*
 * Replies with what fits into @size bytes from @off on, @plus attributes; or
 * -errno, and there is no reply.
 */
int list_reply(struct fs *fs, struct fs_list *l, fuse_req_t req, size_t size,
	       off_t off, bool plus);
void list_close(struct fs_list *l);

/* ---- who.c ------------------------------------------------------------ */

/* Until fs_end(). */
void who_asks(struct fs *fs, fuse_req_t req);
/* There may be something that the caller is not to see. */
bool who_is_limited(const struct fs *fs);
/* A tenant's name is not told either where this is false. */
bool who_may_look(struct fs *fs, const struct kvcache_tenant_info *t);

/* ---- set.c ------------------------------------------------------------ */

/* May the caller do what the mount may? 0 or -EPERM. Begun. */
int set_allowed(struct fs *fs, const struct fuse_ctx *who);
/* Is it something that whoever may change things could change? */
bool set_possible(const struct fs *fs, const struct fs_node *n);
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
/* If it is time: looks at all that somebody waits for. Milliseconds, or -1. */
int poll_look(struct fs *fs);

/* ---- ops.c ------------------------------------------------------------ */

extern const struct fuse_lowlevel_ops fs_ops;

#endif /* KVCACHEFS_H */
