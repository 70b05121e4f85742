// SPDX-License-Identifier: MIT
/*
 * ops.c - what the kernel asks.
 *
 * It is told to keep no contents, so that nobody is shown what was true a moment
 * ago. Attributes, and names of folders, it keeps for a tick of its clock, which
 * makes one request of the several in one system call, and for 50 ms what it was
 * told with a list (list.c). Names of files it looks up each time, and with them
 * who may read them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Seconds: less than a tick, which is the least there is. */
#define TICK	1e-6
/* What is there as long as the mount. */
#define LONG	3600.0

static double kept(const struct fs_node *n)
{
	/* Of what was looked up and then opened the size is another one. */
	return node_is_long(n) ? 0 : node_is_fixed(n) ? 1.0 : TICK;
}

static void reply_entry(fuse_req_t req, const struct fs_node *n,
			const struct stat *st, int err)
{
	struct fuse_entry_param e = { .ino = node_fresh(fs_of(req), n) };

	fs_end(fs_of(req));
	if (err) {
		fuse_reply_err(req, -err);
		return;
	}
	e.attr = *st;
	e.attr_timeout = kept(n);
	if (!n->file)
		e.entry_timeout = node_is_fixed(n) ? LONG : TICK;
	fuse_reply_entry(req, &e);
}

static void op_init(void *data, struct fuse_conn_info *conn)
{
	/* What would let the kernel keep something; and lists are short. */
	conn->want &= ~(FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_AUTO_INVAL_DATA |
			FUSE_CAP_WRITEBACK_CACHE);
}

/* Pools have to be those of now where they are what is asked for. */
static int begin(struct fs *fs, const struct fs_node *n)
{
	if (n->kind == FS_ROOT)
		return 0;
	return n->kind == FS_POOLS || n->kind == FS_POOL ? fs_begin(fs) :
							   fs_begin_known(fs);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs_node dir = node_of(parent), n = { .kind = FS_ROOT };
	struct fs *fs = fs_of(req);
	struct stat st;
	int err;

	if (strlen(name) >= KVCACHE_NAME_LEN) {
		fuse_reply_err(req, ENAMETOOLONG);
		return;
	}
	err = begin(fs, &dir);
	if (!err)
		err = node_lookup(fs, &dir, name, &n, &st);
	if (err && fs_again(fs, &err) && !err)
		err = node_lookup(fs, &dir, name, &n, &st);
	reply_entry(req, &n, &st, err);
}

/* What is open is as long as it is. */
static void stat_opened(const struct fs *fs, fuse_ino_t ino, struct stat *st)
{
	const struct fs_open *o;

	for (o = fs->opened; o; o = o->next_open)
		if (o->ino == ino && o->text)
			st->st_size = o->len;
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct fs_node n = node_of(ino);
	struct stat st;
	int err = node_is_fixed(&n) ? 0 : begin(fs, &n);

	if (!err)
		err = node_stat(fs, &n, &st);
	if (err && fs_again(fs, &err) && !err)
		err = node_stat(fs, &n, &st);
	if (!err && node_is_long(&n))
		stat_opened(fs, ino, &st);
	fs_end(fs);
	if (err)
		fuse_reply_err(req, -err);
	else
		fuse_reply_attr(req, &st, node_is_fixed(&n) ? kept(&n) : 0);
}

/* Who alone uses a mount may read what is there; access(2) does not lie. */
static void op_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	struct fs *fs = fs_of(req);
	struct fs_node n = node_of(ino);
	int err = n.kind == FS_ROOT ? 0 : fs_begin(fs);

	if (err && node_is_fixed(&n))
		err = 0;
	if (!err)
		err = node_stat(fs, &n, NULL);
	if (!err && ((mask & W_OK && !set_possible(fs, &n)) ||
		     (mask & X_OK && n.file)))
		err = -EACCES;
	answer(req, err);
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

static struct fs_list *listed(const struct fuse_file_info *fi)
{
	return (struct fs_list *)(uintptr_t)fi->fh;
}

static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs_node dir = node_of(ino);
	struct fs_list *l;
	int err;

	who_asks(fs_of(req), req);
	err = list_open(fs_of(req), &dir, &l);
	fs_end(fs_of(req));
	if (err) {
		fuse_reply_err(req, -err);
		return;
	}
	fi->fh = (uintptr_t)l;
	/* Interrupted: there will be no release. */
	if (fuse_reply_open(req, fi))
		list_close(l);
}

static void read_list(fuse_req_t req, struct fs_list *l, size_t size, off_t off,
		      bool plus)
{
	struct fs *fs = fs_of(req);
	int err;

	who_asks(fs, req);
	err = list_reply(fs, l, req, size, off, plus);
	if (err)
		answer(req, err);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		       struct fuse_file_info *fi)
{
	read_list(req, listed(fi), size, off, false);
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size,
			   off_t off, struct fuse_file_info *fi)
{
	read_list(req, listed(fi), size, off, true);
}

static void op_releasedir(fuse_req_t req, fuse_ino_t ino,
			  struct fuse_file_info *fi)
{
	list_close(listed(fi));
	fuse_reply_err(req, 0);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name,
		     mode_t mode)
{
	struct fs *fs = fs_of(req);
	struct fs_node n = { .kind = FS_ROOT };
	struct stat st;
	int err = fs_begin(fs);

	if (!err && node_of(parent).kind != FS_TENANTS)
		err = -EPERM;
	if (!err)
		err = set_allowed(fs, fuse_req_ctx(req));
	if (!err)
		err = set_create(fs, name, fuse_req_ctx(req), &n);
	if (!err)
		err = node_stat(fs, &n, &st);
	reply_entry(req, &n, &st, err);
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

static void forget(struct fs *fs, struct fs_open *o)
{
	struct fs_open **at;

	for (at = &fs->opened; *at != o; at = &(*at)->next_open)
		;
	*at = o->next_open;
	free(o->text);
	free(o);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs_open *o = calloc(1, sizeof(*o));
	int err = -ENOMEM;

	who_asks(fs_of(req), req);
	if (o) {
		o->ino = ino;
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
	o->next_open = fs_of(req)->opened;
	fs_of(req)->opened = o;
	/* Interrupted: there will be no release. */
	if (fuse_reply_open(req, fi))
		forget(fs_of(req), o);
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
	forget(fs_of(req), o);
	fuse_reply_err(req, 0);
}

const struct fuse_lowlevel_ops fs_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.access = op_access,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.releasedir = op_releasedir,
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
