// SPDX-License-Identifier: MIT
/*
 * list.c - what is in a folder. It is looked up when the folder is opened, or
 * read from its beginning again, and kept until it is closed: who reads it in
 * pieces gets one list, whatever comes and goes meanwhile.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs.h"

/* How long the kernel may take for true what a listing says of folders in it. */
#define MOMENT_NS	50000000ULL

/**
 * struct entry - a name
 * @name: it
 * @node: what it is of
 * @uid: of a tenant's folder, its owner
 * @gid: likewise
 * @mode: likewise; 0: not known
 */
struct entry {
	char name[KVCACHE_NAME_LEN];
	struct fs_node node;
	uid_t uid;
	gid_t gid;
	mode_t mode;
};

/**
 * struct fs_list - an open folder
 * @dir: which
 * @v: [@nr] what is in it; room for @room
 * @nr: how many
 * @room: room at @v
 * @at: when it was looked up, by fs_now()
 * @was_read: to its end or not
 */
struct fs_list {
	struct fs_node dir;
	struct entry *v;
	size_t nr;
	size_t room;
	uint64_t at;
	bool was_read;
};

static int add(struct fs_list *l, const char *name, const struct fs_node *n)
{
	size_t room = 2 * l->room + 16;
	struct entry *v = l->v;

	if (l->nr == l->room) {
		v = reallocarray(v, room, sizeof(*v));
		if (!v)
			return -ENOMEM;
		l->v = v;
		l->room = room;
	}
	v[l->nr] = (struct entry){ .node = *n };
	snprintf(v[l->nr++].name, sizeof(v->name), "%s", name);
	return 0;
}

static int add_pools(struct fs *fs, struct fs_list *l)
{
	const struct kvcache_query *q = &fs->query;
	struct fs_node n;
	int err = 0;

	for (uint32_t i = 0; !err && i < q->out_nr_pools; i++) {
		n = node_pool(&q->out_pools[i]);
		err = add(l, q->out_pools[i].name, &n);
	}
	return err;
}

static int add_files(struct fs_list *l)
{
	struct fs_node n;
	const char *name;
	int err = 0;

	for (int i = 0; !err && (name = node_file(l->dir.kind, i)); i++) {
		n = node_in(&l->dir, i);
		err = add(l, name, &n);
	}
	return err;
}

static int add_tenant(struct fs *fs, struct fs_list *l,
		      const struct kvcache_tenant_info *t)
{
	const struct fs_node n = node_tenant(t);
	struct entry *e;
	struct stat st;
	int err = add(l, t->name, &n);

	if (err)
		return err;
	e = &l->v[l->nr - 1];
	node_stat_tenant(fs, &n, t, &st);
	e->uid = st.st_uid;
	e->gid = st.st_gid;
	e->mode = st.st_mode;
	return 0;
}

static int add_tenants(struct fs *fs, struct fs_list *l)
{
	struct kvcache_tenant_get r = { .start = 0 };
	int err;

	do {
		r.pool = fs->query.out_pools[0].id;
		err = fs_call(fs, KVCACHE_NR_TENANT_GET, &r);
		for (uint32_t i = 0; !err && i < r.out_nr; i++) {
			fs_hint(fs, &r.out_info[i]);
			if (who_may_look(fs, &r.out_info[i]))
				err = add_tenant(fs, l, &r.out_info[i]);
		}
		r.start = r.out_next;
	} while (!err && r.start);
	return err;
}

static bool may_see_client(struct fs *fs, uint32_t pool, uint32_t tenant)
{
	struct kvcache_tenant_info t;

	return !who_is_limited(fs) ||
	       (!fs_tenant(fs, pool, tenant, &t, NULL) && who_may_look(fs, &t));
}

static int add_clients(struct fs *fs, struct fs_list *l)
{
	struct kvcache_client_get r = { .start = 0 };
	struct fs_node n;
	char name[16];
	int err;

	do {
		r.pool = fs->query.out_pools[0].id;
		err = fs_call(fs, KVCACHE_NR_CLIENT_GET, &r);
		for (uint32_t i = 0; !err && i < r.out_nr; i++) {
			n = node_client(&r.out_info[i]);
			if (n.id == fs->query.out_client ||
			    !may_see_client(fs, r.pool, r.out_info[i].tenant))
				continue;
			snprintf(name, sizeof(name), "%u", n.id);
			err = add(l, name, &n);
		}
		r.start = r.out_next;
	} while (!err && r.start);
	return err;
}

static int look(struct fs *fs, struct fs_list *l)
{
	int err;

	l->nr = 0;
	l->at = fs_now();
	if (l->dir.kind == FS_ROOT)
		return add_files(l);
	err = fs_begin(fs);
	if (err)
		return err;
	switch (l->dir.kind) {
	case FS_POOLS:
		return add_pools(fs, l);
	case FS_TENANTS:
		err = fs->query.out_nr_pools ? add_tenants(fs, l) : 0;
		break;
	case FS_CLIENTS:
		err = fs->query.out_nr_pools ? add_clients(fs, l) : 0;
		break;
	default:
		err = node_stat(fs, &l->dir, NULL);
		return err ? err : add_files(l);
	}
	/* Nothing is to be seen. */
	return err == -ENOENT ? 0 : err;
}

int list_open(struct fs *fs, const struct fs_node *dir, struct fs_list **out)
{
	struct fs_list *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return -ENOMEM;
	l->dir = *dir;
	err = look(fs, l);
	if (err)
		list_close(l);
	else
		*out = l;
	return err;
}

void list_close(struct fs_list *l)
{
	free(l->v);
	free(l);
}

/**
 * struct reply - one reply of readdir
 * @req: to which
 * @plus: with attributes, where they are known
 * @buf: [@size] the reply
 * @size: room
 * @len: bytes in use
 */
struct reply {
	fuse_req_t req;
	bool plus;
	char *buf;
	size_t size;
	size_t len;
};

/* False: there is no room for it. @next is where to go on behind it. */
static bool put(struct reply *r, const char *name, const struct fs_node *n,
		struct fuse_entry_param *e, off_t next)
{
	char *at = r->buf + r->len;
	size_t left = r->size - r->len, need;

	e->attr.st_ino = node_ino(n);
	if (!e->ino)
		e->attr.st_mode = n->file ? S_IFREG : S_IFDIR;
	need = r->plus ?
	       fuse_add_direntry_plus(r->req, at, left, name, e, next) :
	       fuse_add_direntry(r->req, at, left, name, &e->attr, next);
	if (need > left)
		return false;
	r->len += need;
	return true;
}

/* Without an inode number the kernel keeps nothing of it. */
static bool put_entry(struct fs *fs, const struct fs_list *l, struct reply *r,
		      size_t i)
{
	uint64_t age = fs_now() - l->at;
	const struct entry *v = &l->v[i];
	struct fuse_entry_param e = { .ino = 0 };

	if (v->mode && age < MOMENT_NS) {
		node_stat_begin(fs, &v->node, &e.attr);
		e.ino = e.attr.st_ino;
		e.attr.st_uid = v->uid;
		e.attr.st_gid = v->gid;
		e.attr.st_mode = v->mode;
		e.attr_timeout = e.entry_timeout = (MOMENT_NS - age) / 1e9;
	}
	return put(r, v->name, &v->node, &e, i + 3);
}

static void put_all(struct fs *fs, const struct fs_list *l, struct reply *r,
		    off_t off)
{
	const struct fs_node root = { .kind = FS_ROOT };
	struct fuse_entry_param e = { .ino = 0 };

	if (off < 1 && !put(r, ".", &l->dir, &e, 1))
		return;
	if (off < 2 && !put(r, "..", &root, &e, 2))
		return;
	for (size_t i = off < 2 ? 0 : off - 2; i < l->nr; i++)
		if (!put_entry(fs, l, r, i))
			return;
}

int list_reply(struct fs *fs, struct fs_list *l, fuse_req_t req, size_t size,
	       off_t off, bool plus)
{
	struct reply r = { .req = req, .plus = plus, .size = size };
	int err = 0;

	if (!off && l->was_read)
		err = look(fs, l);
	if (err || off < 0)
		return err ? err : -EINVAL;
	r.buf = malloc(size);
	if (!r.buf)
		return -ENOMEM;
	l->was_read = true;
	put_all(fs, l, &r, off);
	fs_end(fs);
	fuse_reply_buf(req, r.buf, r.len);
	free(r.buf);
	return 0;
}
