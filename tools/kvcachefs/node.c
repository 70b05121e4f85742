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

static int lookup_file(struct fs *fs, const struct fs_node *dir,
		       const char *name, struct fs_node *out)
{
	const char *file;
	unsigned int i;
	int err;

	err = node_stat(fs, dir, NULL);
	if (err)
		return err;
	for (i = 0; (file = node_file(dir->kind, i)); i++) {
		if (strcmp(file, name))
			continue;
		*out = *dir;
		out->file = i + 1;
		if (dir->kind == FS_ROOT && roots[i].kind != FS_ROOT)
			*out = (struct fs_node){ .kind = roots[i].kind };
		return 0;
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

int node_lookup(struct fs *fs, const struct fs_node *dir, const char *name,
		struct fs_node *out)
{
	struct kvcache_tenant_info t;
	struct kvcache_client_info c;
	uint32_t id;
	int err;

	switch (dir->kind) {
	case FS_POOLS:
		return lookup_pool(fs, name, out);
	case FS_TENANTS:
		err = fs_tenant_named(fs, name, &t);
		if (!err)
			*out = node_tenant(&t);
		return err;
	case FS_CLIENTS:
		if (!client_number(name, &id) || !fs->query.out_nr_pools)
			return -ENOENT;
		err = fs_client(fs, fs->query.out_pools[0].id, id, &c, NULL);
		if (!err)
			*out = node_client(&c);
		return err;
	default:
		return lookup_file(fs, dir, name, out);
	}
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
}

/*
 * Who asks for the size may read no further, sendfile(2) for one. Files that can
 * be long are looked through for it.
 */
static off_t size_of(struct fs *fs, const struct fs_node *n)
{
	size_t len = 0;
	char *text;

	if (!n->file)
		return 0;
	if ((n->kind == FS_ROOT ||
	     (n->kind == FS_TENANT &&
	      !strcmp(tenant_files[n->file - 1], "pages"))) &&
	    !text_make(fs, n, &text, &len))
		free(text);
	return len > ROUND ? (len + ROUND - 1) / ROUND * ROUND : ROUND;
}

int node_stat(struct fs *fs, const struct fs_node *n, struct stat *st)
{
	const struct kvcache_pool_info *p = fs->query.out_pools;
	struct kvcache_tenant_info t = { .id = 0 };
	struct kvcache_client_info c;
	struct stat unused;
	int err = 0;

	if (!st)
		st = &unused;
	*st = (struct stat){
		.st_ino = node_ino(n),
		.st_mode = n->file ? S_IFREG | 0444 : S_IFDIR | 0555,
		.st_nlink = n->file ? 1 : 2,
		.st_uid = fs->uid,
		.st_gid = fs->gid,
		.st_blksize = 4096,
		.st_atim = fs->mounted,
		.st_mtim = fs->mounted,
		.st_ctim = fs->mounted,
	};
	switch (n->kind) {
	case FS_ROOT:
		/* It has what all tenants do: who mounts may see it. */
		if (n->file) {
			st->st_mode = S_IFREG | 0400;
			st->st_size = st == &unused ? 0 : size_of(fs, n);
		}
		return 0;
	case FS_POOL:
		p = fs_pool(fs, n->id);
		st->st_size = size_of(fs, n);
		return !p || tag_of(p->name) != n->tag ? -ENOENT : 0;
	case FS_TENANTS:
		if (fs->admin)
			st->st_mode |= 0200;
		return 0;
	case FS_TENANT:
		if (!fs->query.out_nr_pools)
			return -ENOENT;
		err = node_tenant_info(fs, n, p->id, &t, NULL);
		break;
	case FS_CLIENT:
		if (!fs->query.out_nr_pools)
			return -ENOENT;
		err = node_client_info(fs, n, p->id, &c, NULL);
		if (!err)
			err = fs_tenant(fs, p->id, c.tenant, &t, NULL);
		break;
	default:
		return 0;
	}
	if (err || st == &unused)
		return err;
	stat_tenant(fs, n, &t, st);
	st->st_size = size_of(fs, n);
	return 0;
}
