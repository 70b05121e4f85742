// SPDX-License-Identifier: MIT
/*
 * node.c - what there is: inode numbers, names, owners and modes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs.h"
#include "name.h"

/* Bits of an inode number, from the highest: kind, file, count, tag, number. */
#define KIND_SHIFT	60
#define FILE_SHIFT	56
#define COUNT_SHIFT	40
#define TAG_SHIFT	24
#define COUNT_MASK	0xffff
#define TAG_MASK	0xffff
#define ID_MASK		0xffffff

/* As files in sysfs have it: a page, of which less is there. */
#define ROUND		4096
/* For metrics of whom nothing is known yet: a thousand tenants'. */
#define METRICS_LEN	(1U << 20)
/* Bytes of a line of "pages", or more. */
#define PAGE_LINE	256

static const char *const pool_files[] = {
	"page_size", "size", "free", "private", "shared", "cached", "retiring",
	"waiters", "draining", NULL
};
static const char *const tenant_files[] = {
	"current", "peak", "min", "low", "max", "ttl", "owner", "grants",
	"events", "pages", NULL
};
static const char *const client_files[] = {
	"pid", "comm", "tenant", "pages", "waiting", NULL
};

/* Folders of the root, by their kind, and its file. */
static const struct {
	const char *name;
	enum fs_kind kind;
} roots[] = {
	{ "pools", FS_POOLS },
	{ "tenants", FS_TENANTS },
	{ "clients", FS_CLIENTS },
	{ "metrics", FS_ROOT },
};
#define ROOTS (sizeof(roots) / sizeof(roots[0]))

/* ---- numbers ---------------------------------------------------------- */

fuse_ino_t node_ino(const struct fs_node *n)
{
	if (n->kind == FS_ROOT && !n->file)
		return FUSE_ROOT_ID;
	return (uint64_t)n->kind << KIND_SHIFT |
	       (uint64_t)n->file << FILE_SHIFT |
	       (uint64_t)(n->tag & TAG_MASK) << TAG_SHIFT | (n->id & ID_MASK);
}

fuse_ino_t node_fresh(struct fs *fs, const struct fs_node *n)
{
	if (!n->file)
		return node_ino(n);
	return node_ino(n) |
	       (uint64_t)(++fs->lookups & COUNT_MASK) << COUNT_SHIFT;
}

struct fs_node node_of(fuse_ino_t ino)
{
	if (ino == FUSE_ROOT_ID)
		return (struct fs_node){ .kind = FS_ROOT };
	return (struct fs_node){
		.kind = ino >> KIND_SHIFT,
		.file = ino >> FILE_SHIFT & 15,
		.tag = ino >> TAG_SHIFT & TAG_MASK,
		.id = ino & ID_MASK,
	};
}

static uint32_t tag_of(const char *name)
{
	return name_hash(name) & TAG_MASK;
}

struct fs_node node_pool(const struct kvcache_pool_info *p)
{
	return (struct fs_node){ FS_POOL, 0, p->id, tag_of(p->name) };
}

struct fs_node node_tenant(const struct kvcache_tenant_info *t)
{
	return (struct fs_node){ FS_TENANT, 0, t->id, tag_of(t->name) };
}

struct fs_node node_client(const struct kvcache_client_info *c)
{
	return (struct fs_node){ FS_CLIENT, 0, c->id, c->pid & TAG_MASK };
}

/* ---- names ------------------------------------------------------------ */

const char *node_file(enum fs_kind kind, unsigned int file)
{
	switch (kind) {
	case FS_ROOT:
		return file < ROOTS ? roots[file].name : NULL;
	case FS_POOL:
		return pool_files[file];
	case FS_TENANT:
		return tenant_files[file];
	case FS_CLIENT:
		return client_files[file];
	default:
		return NULL;
	}
}

bool node_writable(const struct fs_node *n)
{
	static const char *const names[] = { "min", "low", "max", "ttl" };
	size_t i;

	if (n->kind != FS_TENANT || !n->file)
		return false;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(tenant_files[n->file - 1], names[i]))
			return true;
	return false;
}

/* A client's number as it is written here, and no other way. */
static bool client_number(const char *s, uint32_t *id)
{
	char again[16];
	unsigned int v;

	if (sscanf(s, "%10u", &v) != 1)
		return false;
	snprintf(again, sizeof(again), "%u", v);
	*id = v;
	return !strcmp(s, again);
}

bool node_is_fixed(const struct fs_node *n)
{
	return n->kind == FS_ROOT || n->kind == FS_POOLS ||
	       n->kind == FS_TENANTS || n->kind == FS_CLIENTS;
}

bool node_is_long(const struct fs_node *n)
{
	return n->file && (n->kind == FS_ROOT ||
			   (n->kind == FS_TENANT &&
			    !strcmp(tenant_files[n->file - 1], "pages")));
}

struct fs_node node_in(const struct fs_node *dir, unsigned int file)
{
	struct fs_node n = *dir;

	if (dir->kind == FS_ROOT && roots[file].kind != FS_ROOT)
		return (struct fs_node){ .kind = roots[file].kind };
	n.file = file + 1;
	return n;
}

/* ---- attributes ------------------------------------------------------- */

int node_tenant_info(struct fs *fs, const struct fs_node *n, uint32_t pool,
		     struct kvcache_tenant_info *t, uint64_t *seq)
{
	int err = fs_tenant(fs, pool, n->id, t, seq);

	return !err && tag_of(t->name) != n->tag ? -ENOENT : err;
}

int node_client_info(struct fs *fs, const struct fs_node *n, uint32_t pool,
		     struct kvcache_client_info *c, uint64_t *seq)
{
	int err = fs_client(fs, pool, n->id, c, seq);

	return !err && (c->pid & TAG_MASK) != n->tag ? -ENOENT : err;
}

void node_stat_begin(const struct fs *fs, const struct fs_node *n,
		     struct stat *st)
{
	*st = (struct stat){
		.st_ino = node_ino(n),
		.st_mode = n->file ? S_IFREG | 0444 : S_IFDIR | 0555,
		.st_nlink = n->file ? 1 : 2,
		.st_uid = fs->uid,
		.st_gid = fs->gid,
		.st_size = n->file ? ROUND : 0,
		.st_blksize = 4096,
		.st_atim = fs->mounted,
		.st_mtim = fs->mounted,
		.st_ctim = fs->mounted,
	};
}

/*
 * Who asks for the size may read no further, sendfile(2) for one; and nobody who
 * only asks is to make us look through everything. So it is more than there was
 * or could be, as what is read ends where it ends; and of what is open
 * (op_getattr()) it is known.
 */
static off_t long_enough(size_t len)
{
	return len > ROUND ? (len + ROUND - 1) / ROUND * ROUND : ROUND;
}

/* Who may attach may look; who may write is asked when somebody does. */
static void stat_tenant(const struct fs *fs, const struct fs_node *n,
			const struct kvcache_tenant_info *t, struct stat *st)
{
	st->st_uid = t->uid;
	st->st_gid = t->gid;
	st->st_mode = (st->st_mode & S_IFMT) | (t->mode & 0444);
	if (!n->file)
		st->st_mode |= (t->mode & 0444) >> 2;
	else if (node_writable(n) && fs->admin && t->uid == fs->uid)
		st->st_mode |= 0200;
	if (node_is_long(n))
		st->st_size = long_enough((2 * t->cur + 16) * PAGE_LINE);
}

void node_stat_tenant(const struct fs *fs, const struct fs_node *n,
		      const struct kvcache_tenant_info *t, struct stat *st)
{
	node_stat_begin(fs, n, st);
	stat_tenant(fs, n, t, st);
}

static int stat_client(struct fs *fs, const struct fs_node *n,
		       const struct kvcache_client_info *c, struct stat *st)
{
	struct kvcache_tenant_info t;
	int err = fs_tenant(fs, fs->query.out_pools[0].id, c->tenant, &t, NULL);

	if (!err)
		stat_tenant(fs, n, &t, st);
	return err;
}

int node_stat(struct fs *fs, const struct fs_node *n, struct stat *st)
{
	const struct kvcache_pool_info *p = fs->query.out_pools;
	struct kvcache_tenant_info t;
	struct kvcache_client_info c;
	struct stat unused;
	int err;

	if (!st)
		st = &unused;
	node_stat_begin(fs, n, st);
	switch (n->kind) {
	case FS_ROOT:
		/* It has what all tenants do: who mounts may see it. */
		if (n->file) {
			st->st_mode = S_IFREG | 0400;
			st->st_size = long_enough(METRICS_LEN +
						  2 * fs->metrics_len);
		}
		return 0;
	case FS_POOL:
		p = fs_pool(fs, n->id);
		return !p || tag_of(p->name) != n->tag ? -ENOENT : 0;
	case FS_TENANTS:
		if (fs->admin)
			st->st_mode |= 0200;
		return 0;
	case FS_TENANT:
		if (!fs->query.out_nr_pools)
			return -ENOENT;
		err = node_tenant_info(fs, n, p->id, &t, NULL);
		if (!err)
			stat_tenant(fs, n, &t, st);
		return err;
	case FS_CLIENT:
		if (!fs->query.out_nr_pools)
			return -ENOENT;
		err = node_client_info(fs, n, p->id, &c, NULL);
		return err || st == &unused ? err : stat_client(fs, n, &c, st);
	default:
		return 0;
	}
}

/* ---- looking up ------------------------------------------------------- */

static int lookup_file(struct fs *fs, const struct fs_node *dir,
		       const char *name, struct fs_node *out, struct stat *st)
{
	const char *file;
	unsigned int i;

	for (i = 0; (file = node_file(dir->kind, i)); i++) {
		if (strcmp(file, name))
			continue;
		*out = node_in(dir, i);
		return node_stat(fs, out, st);
	}
	return -ENOENT;
}

static int lookup_pool(const struct fs *fs, const char *name,
		       struct fs_node *out)
{
	uint32_t i;

	for (i = 0; i < fs->query.out_nr_pools; i++) {
		if (strcmp(fs->query.out_pools[i].name, name))
			continue;
		*out = node_pool(&fs->query.out_pools[i]);
		return 0;
	}
	return -ENOENT;
}

/* Who looks is none of those to be looked at. */
static int lookup_client(struct fs *fs, uint32_t id, struct fs_node *out,
			 struct stat *st)
{
	struct kvcache_client_info c;
	int err;

	if (!fs->query.out_nr_pools || id == fs->query.out_client)
		return -ENOENT;
	err = fs_client(fs, fs->query.out_pools[0].id, id, &c, NULL);
	if (err)
		return err;
	*out = node_client(&c);
	node_stat_begin(fs, out, st);
	return stat_client(fs, out, &c, st);
}

int node_lookup(struct fs *fs, const struct fs_node *dir, const char *name,
		struct fs_node *out, struct stat *st)
{
	struct kvcache_tenant_info t;
	uint32_t id;
	int err;

	switch (dir->kind) {
	case FS_POOLS:
		err = lookup_pool(fs, name, out);
		return err ? err : node_stat(fs, out, st);
	case FS_TENANTS:
		err = fs_tenant_named(fs, name, &t);
		if (err)
			return err;
		*out = node_tenant(&t);
		node_stat_tenant(fs, out, &t, st);
		return 0;
	case FS_CLIENTS:
		if (!client_number(name, &id))
			return -ENOENT;
		return lookup_client(fs, id, out, st);
	default:
		return lookup_file(fs, dir, name, out, st);
	}
}
