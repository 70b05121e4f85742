// SPDX-License-Identifier: MIT
/*
 * ops.c - what the kernel asks.
 *
 * It is told to keep neither names nor attributes nor contents, so that nobody
 * is shown what was true a moment ago.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs.h"

static struct fs *fs_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static void answer(fuse_req_t req, int err)
{
	fs_end(fs_of(req));
	fuse_reply_err(req, -err);
}

static void reply_entry(fuse_req_t req, const struct fs_node *n, int err)
{
	struct fuse_entry_param e = { .ino = node_fresh(fs_of(req), n) };

	if (!err)
		err = node_stat(fs_of(req), n, &e.attr);
	fs_end(fs_of(req));
	if (err)
		fuse_reply_err(req, -err);
	else
		fuse_reply_entry(req, &e);
}

static void op_init(void *data, struct fuse_conn_info *conn)
{
	/* What would let the kernel keep something. */
	conn->want &= ~(FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO |
			FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_WRITEBACK_CACHE);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs_node dir = node_of(parent), n = { .kind = FS_ROOT };
	int err = 0;

	if (strlen(name) >= KVCACHE_NAME_LEN) {
		fuse_reply_err(req, ENAMETOOLONG);
		return;
	}
	/* What the root has is there whoever else is not. */
	if (dir.kind != FS_ROOT)
		err = fs_begin(fs_of(req));
	if (!err)
		err = node_lookup(fs_of(req), &dir, name, &n);
	if (!err && n.kind == FS_ROOT)
		fs_begin(fs_of(req));
	reply_entry(req, &n, err);
}

static bool is_fixed(const struct fs_node *n)
{
	return n->kind == FS_ROOT || n->kind == FS_POOLS ||
	       n->kind == FS_TENANTS || n->kind == FS_CLIENTS;
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs_node n = node_of(ino);
	struct stat st;
	int err = 0;

	if (!is_fixed(&n) || n.file)
		err = fs_begin(fs_of(req));
	if (is_fixed(&n))
		err = 0;
	if (!err)
		err = node_stat(fs_of(req), &n, &st);
	fs_end(fs_of(req));
	if (err)
		fuse_reply_err(req, -err);
	else
		fuse_reply_attr(req, &st, 0);
}

/* Size: what "echo 64M >max" does first, and has no meaning here. */
static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr,
		       int which, struct fuse_file_info *fi)
{
	const int owner = FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID |
			  FUSE_SET_ATTR_MODE;
	struct fs *fs = fs_of(req);
	struct fs_node n = node_of(ino);
	struct stat st;
	int err = fs_begin(fs);

	if (!err)
		err = set_allowed(fs, fuse_req_ctx(req));
	if (!err && which & owner)
		err = set_owner(fs, &n, attr, which);
	else if (!err && (!(which & FUSE_SET_ATTR_SIZE) || !node_writable(&n)))
		err = -EPERM;
	if (!err)
		err = node_stat(fs, &n, &st);
	fs_end(fs);
	if (err)
		fuse_reply_err(req, -err);
	else
		fuse_reply_attr(req, &st, 0);
}

/* ---- folders ---------------------------------------------------------- */

/**
 * struct listing - one reply of readdir
 * @req: the request
 * @size: room
 * @len: bytes in use
 * @buf: [@size]
 * @groups: of the caller, @nr_groups of them, where these matter
 */
struct listing {
	fuse_req_t req;
	size_t size;
	size_t len;
	char *buf;
	gid_t groups[256];
	int nr_groups;
};

/* False: there is no room for it. @next is where to go on behind it. */
static bool add(struct listing *l, const char *name, const struct fs_node *n,
		off_t next)
{
	struct stat st = {
		.st_ino = node_ino(n),
		.st_mode = n->file ? S_IFREG : S_IFDIR,
	};
	size_t need = fuse_add_direntry(l->req, l->buf + l->len,
					l->size - l->len, name, &st, next);

	if (need > l->size - l->len)
		return false;
	l->len += need;
	return true;
}

/*
 * May the caller look into it? Of a tenant where that is not so the name is not
 * told either: the backend would not.
 */
static bool may_look(const struct listing *l,
		     const struct kvcache_tenant_info *t)
{
	const struct fuse_ctx *who = fuse_req_ctx(l->req);
	int i;

	if (!fs_of(l->req)->shared || !who->uid)
		return true;
	if (who->uid == t->uid)
		return t->mode & 0400;
	for (i = 0; i < l->nr_groups; i++)
		if (l->groups[i] == t->gid)
			return t->mode & 0040;
	return t->mode & (who->gid == t->gid ? 0040 : 0004);
}

/* Files, the root's folders and pools go by their place in the list. */
static int list_fixed(struct listing *l, const struct fs_node *dir, off_t at)
{
	const struct kvcache_query *q = &fs_of(l->req)->query;
	struct fs_node n;
	const char *name;

	for (;; at++) {
		if (dir->kind == FS_POOLS) {
			if (at >= q->out_nr_pools)
				return 0;
			name = q->out_pools[at].name;
			n = node_pool(&q->out_pools[at]);
		} else {
			name = node_file(dir->kind, at);
			if (!name)
				return 0;
			if (node_lookup(fs_of(l->req), dir, name, &n))
				return -ENOENT;
		}
		if (!add(l, name, &n, at + 3))
			return 0;
	}
}

/* Tenants and clients go by their number: others may come and go meanwhile. */
static int list_tenants(struct listing *l, off_t at)
{
	struct kvcache_tenant_get r = { .start = at };
	struct fs *fs = fs_of(l->req);
	struct fs_node n;
	uint32_t i;
	int err;

	do {
		r.pool = fs->query.out_pools[0].id;
		err = fs_call(fs, KVCACHE_NR_TENANT_GET, &r);
		for (i = 0; !err && i < r.out_nr; i++) {
			n = node_tenant(&r.out_info[i]);
			if (may_look(l, &r.out_info[i]) &&
			    !add(l, r.out_info[i].name, &n, n.id + 3LL))
				return 0;
		}
		r.start = r.out_next;
	} while (!err && r.start);
	return err == -ENOENT ? 0 : err;
}

static int list_clients(struct listing *l, off_t at)
{
	struct kvcache_client_get r = { .start = at };
	struct kvcache_tenant_info t;
	struct fs *fs = fs_of(l->req);
	struct fs_node n;
	char name[16];
	uint32_t i;
	int err;

	do {
		r.pool = fs->query.out_pools[0].id;
		err = fs_call(fs, KVCACHE_NR_CLIENT_GET, &r);
		for (i = 0; !err && i < r.out_nr; i++) {
			n = node_client(&r.out_info[i]);
			snprintf(name, sizeof(name), "%u", n.id);
			if (fs->shared && fuse_req_ctx(l->req)->uid &&
			    (fs_tenant(fs, r.pool, r.out_info[i].tenant, &t,
				       NULL) || !may_look(l, &t)))
				continue;
			if (!add(l, name, &n, n.id + 3LL))
				return 0;
		}
		r.start = r.out_next;
	} while (!err && r.start);
	return err == -ENOENT ? 0 : err;
}

static int list(struct listing *l, const struct fs_node *dir, off_t off)
{
	const struct fs_node root = { .kind = FS_ROOT };
	struct fs *fs = fs_of(l->req);
	int err;

	if (off < 1 && !add(l, ".", dir, 1))
		return 0;
	if (off < 2 && !add(l, "..", &root, 2))
		return 0;
	off = off < 2 ? 0 : off - 2;
	if (dir->kind == FS_ROOT)
		return list_fixed(l, dir, off);
	err = fs_begin(fs);
	if (err)
		return err;
	if (dir->kind != FS_TENANTS && dir->kind != FS_CLIENTS)
		return list_fixed(l, dir, off);
	if (!fs->query.out_nr_pools)
		return 0;
	if (fs->shared && fuse_req_ctx(l->req)->uid)
		l->nr_groups = fuse_req_getgroups(l->req, 256, l->groups);
	if (l->nr_groups > 256)
		l->nr_groups = 256;
	return dir->kind == FS_TENANTS ? list_tenants(l, off) :
					 list_clients(l, off);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		       struct fuse_file_info *fi)
{
	struct listing l = { .req = req, .size = size, .buf = malloc(size) };
	struct fs_node dir = node_of(ino);
	int err = l.buf ? list(&l, &dir, off) : -ENOMEM;

	fs_end(fs_of(req));
	/* What fits is told; the failure comes with the next reply. */
	if (err && !l.len)
		fuse_reply_err(req, -err);
	else
		fuse_reply_buf(req, l.buf, l.len);
	free(l.buf);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name,
		     mode_t mode)
{
	struct fs *fs = fs_of(req);
	struct fs_node n = { .kind = FS_ROOT };
	int err = fs_begin(fs);

	if (!err && node_of(parent).kind != FS_TENANTS)
		err = -EPERM;
	if (!err)
		err = set_allowed(fs, fuse_req_ctx(req));
	if (!err)
		err = set_create(fs, name, fuse_req_ctx(req), &n);
	reply_entry(req, &n, err);
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs *fs = fs_of(req);
	int err = fs_begin(fs);

	if (!err && node_of(parent).kind != FS_TENANTS)
		err = -EPERM;
	if (!err)
		err = set_allowed(fs, fuse_req_ctx(req));
	if (!err)
		err = set_remove(fs, name);
	answer(req, err);
}

/* There are no other files than those that are there. */
static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name,
		     mode_t mode, dev_t rdev)
{
	fuse_reply_err(req, S_ISREG(mode) ? EACCES : EPERM);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	fuse_reply_err(req, EPERM);
}

static void op_symlink(fuse_req_t req, const char *link, fuse_ino_t parent,
		       const char *name)
{
	fuse_reply_err(req, EPERM);
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t newparent,
		    const char *newname)
{
	fuse_reply_err(req, EPERM);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
		      fuse_ino_t newparent, const char *newname,
		      unsigned int flags)
{
	fuse_reply_err(req, EPERM);
}

/* ---- files ------------------------------------------------------------ */

static int open_file(fuse_req_t req, struct fs_open *o, int flags)
{
	struct fs *fs = fs_of(req);
	int err = fs_begin(fs);

	if (!err && (flags & O_ACCMODE) != O_RDONLY)
		err = node_writable(&o->node) ?
		      set_allowed(fs, fuse_req_ctx(req)) : -EACCES;
	if (!err && (flags & O_ACCMODE) == O_WRONLY)
		return node_stat(fs, &o->node, NULL);
	return err ? err : text_make(fs, &o->node, &o->text, &o->len);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs_open *o = calloc(1, sizeof(*o));
	int err = -ENOMEM;

	if (o) {
		o->node = node_of(ino);
		err = open_file(req, o, fi->flags);
	}
	fs_end(fs_of(req));
	if (err) {
		free(o);
		fuse_reply_err(req, -err);
		return;
	}
	fi->direct_io = 1;
	fi->fh = (uintptr_t)o;
	/* Interrupted: there will be no release. */
	if (fuse_reply_open(req, fi)) {
		free(o->text);
		free(o);
	}
}

static struct fs_open *opened(const struct fuse_file_info *fi)
{
	return (struct fs_open *)(uintptr_t)fi->fh;
}

/*
 * One open is one look. What can be polled is looked at again when it is read
 * from its beginning again, as files of cgroupfs are.
 */
static int look_again(struct fs *fs, struct fs_open *o)
{
	char *text;
	size_t len;
	int err;

	if (!o->was_read ||
	    strcmp(node_file(o->node.kind, o->node.file - 1), "events"))
		return 0;
	err = fs_begin(fs);
	if (!err)
		err = text_make(fs, &o->node, &text, &len);
	fs_end(fs);
	if (err)
		return err == -ENOENT ? -ENODEV : err;
	free(o->text);
	o->text = text;
	o->len = len;
	return 0;
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	struct fs_open *o = opened(fi);
	int err = off ? 0 : look_again(fs_of(req), o);

	if (err) {
		fuse_reply_err(req, -err);
		return;
	}
	o->was_read = true;
	if (!o->text || off < 0 || (size_t)off >= o->len)
		fuse_reply_buf(req, NULL, 0);
	else
		fuse_reply_buf(req, o->text + off,
			       size < o->len - off ? size : o->len - off);
}

/* Each write is one value, wherever in the file it is. */
static void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf,
		     size_t size, off_t off, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct fs_node n = node_of(ino);
	int err = fs_begin(fs);

	/* Who writes need not be who opened: a program with rights is not to
	 * lend them to whoever gave it the file. */
	if (!err)
		err = set_allowed(fs, fuse_req_ctx(req));
	if (!err)
		err = set_value(fs, &n, buf, size);
	fs_end(fs);
	if (err)
		fuse_reply_err(req, -err);
	else
		fuse_reply_write(req, size);
}

static void op_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi,
		    struct fuse_pollhandle *ph)
{
	unsigned int ready = poll_file(fs_of(req), opened(fi), ph);

	fs_end(fs_of(req));
	fuse_reply_poll(req, ready);
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs_open *o = opened(fi);

	poll_forget(fs_of(req), o);
	free(o->text);
	free(o);
	fuse_reply_err(req, 0);
}

const struct fuse_lowlevel_ops fs_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.readdir = op_readdir,
	.mkdir = op_mkdir,
	.rmdir = op_rmdir,
	.mknod = op_mknod,
	.unlink = op_unlink,
	.symlink = op_symlink,
	.link = op_link,
	.rename = op_rename,
	.open = op_open,
	.read = op_read,
	.write = op_write,
	.poll = op_poll,
	.release = op_release,
};
