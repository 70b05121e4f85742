// SPDX-License-Identifier: MIT
/*
 * tier_file.c - a folder of files, one a page, that processes share.
 *
 * A page is the file whose name is its key in hexadecimal digits; the files are
 * all there is to know, so there is no index that could be wrong. A file is
 * written under a name of its own and gets its final one when it is whole; the
 * space that it will need is got first. When it was last used is its time of
 * modification. What is over the size goes, least recently used first, down to
 * 15/16 of it, so that the folder is seldom read.
 *
 * The file "lock" has a number: the bytes of all files. It is read and written
 * under flock(), which whoever makes, renames or removes files holds; nobody
 * reads or writes pages under it. A process that ends in between leaves a number that is
 * too large, at most, and a temporary file that is not locked: both are put
 * right when the folder is next read.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tier.h"

#define SIZE (1ULL << 30)	/* tier.h names it */
#define SIZE_MIN (1ULL << 20)
#define NAME_LEN (2 * KVCACHE_KEY_LEN + 1)
#define TMP "tmp."
#define STALE_S 60	/* a temporary file that nobody has locked by then */

/**
 * struct file_tier - the folder
 * @t: what all tiers are
 * @dir: it
 * @lock: its file "lock"
 * @io: reads and writes
 * @size: bytes that its files may have
 * @flags: O_DIRECT, or 0
 * @sync: on the disk before it has its name
 * @serial: of temporary files
 * @stamp: the last time that was given to a file
 */
struct file_tier {
	struct kvc_tier t;
	int dir;
	int lock;
	struct kvc_io *io;
	uint64_t size;
	int flags;
	bool sync;
	uint64_t serial;
	uint64_t stamp;
};

/* One file of the folder. */
struct entry {
	char name[NAME_LEN];
	uint64_t bytes;
	uint64_t used_ns;
};

static void hex(const uint8_t *key, char out[NAME_LEN])
{
	for (uint32_t i = 0; i < KVCACHE_KEY_LEN; i++)
		sprintf(out + 2 * i, "%02x", key[i]);
}

static bool is_page(const char *name)
{
	return strlen(name) == NAME_LEN - 1 &&
	       strspn(name, "0123456789abcdef") == NAME_LEN - 1;
}

/* ---- the folder's number ---------------------------------------------- */

static int number_get(struct file_tier *f, uint64_t *out)
{
	int rc = kvc_tier_fault(&f->t, KVC_AT_LOCK);

	if (rc)
		return rc;
	while (flock(f->lock, LOCK_EX))
		if (errno != EINTR)
			return -errno;
	/* A folder that is new, or whose number was lost: it is read. */
	if (pread(f->lock, out, sizeof(*out), 0) != sizeof(*out))
		*out = UINT64_MAX;
	return 0;
}

static void number_put(struct file_tier *f, uint64_t n)
{
	/* Where it cannot be written, the folder is read once more. */
	if (pwrite(f->lock, &n, sizeof(n), 0) != sizeof(n))
		(void)!ftruncate(f->lock, 0);
	flock(f->lock, LOCK_UN);
}

/* A temporary file whose writer has ended. */
static bool is_stale(struct file_tier *f, const char *name,
		     const struct stat *st)
{
	bool stale;
	int fd;

	if (time(NULL) - st->st_mtime < STALE_S)
		return false;
	fd = openat(f->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return false;
	stale = !flock(fd, LOCK_EX | LOCK_NB);
	close(fd);
	return stale;
}

static int older_first(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return x->used_ns < y->used_ns ? -1 : x->used_ns > y->used_ns;
}

/* Read the folder: its bytes, and its pages. What is stale goes. */
static int scan(struct file_tier *f, uint64_t *bytes, struct entry **out,
		uint32_t *n)
{
	int fd = openat(f->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct entry *list = NULL, *more;
	uint32_t cap = 0;
	struct dirent *d;
	struct stat st;
	DIR *dir;

	*n = 0;
	*bytes = 0;
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return -errno;
	}
	while ((d = readdir(dir))) {
		bool page = is_page(d->d_name);

		if ((!page && strncmp(d->d_name, TMP, strlen(TMP))) ||
		    fstatat(f->dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (!page && is_stale(f, d->d_name, &st) &&
		    !unlinkat(f->dir, d->d_name, 0))
			continue;
		*bytes += st.st_size;
		if (!page)
			continue;
		more = kvc_regrow(list, &cap, *n + 1, sizeof(*list));
		if (!more) {
			free(list);
			closedir(dir);
			return -ENOMEM;
		}
		list = more;
		memcpy(list[*n].name, d->d_name, NAME_LEN);
		list[*n].bytes = st.st_size;
		list[*n].used_ns = st.st_mtim.tv_sec * 1000000000ULL +
				   st.st_mtim.tv_nsec;
		++*n;
	}
	closedir(dir);
	*out = list;
	return 0;
}

/* Make room for @len bytes, with the lock held; *@number becomes right. */
static int make_room(struct file_tier *f, size_t len, uint64_t *number)
{
	uint64_t goal = f->size - f->size / 16;
	struct entry *list = NULL;
	uint32_t n, i;
	int rc;

	if (*number <= f->size && len <= f->size - *number)
		return 0;
	rc = kvc_tier_fault(&f->t, KVC_AT_EVICT);
	if (!rc)
		rc = scan(f, number, &list, &n);
	if (rc)
		return rc;
	if (*number <= f->size && len <= f->size - *number)
		goto out;
	goal = goal > len ? goal - len : 0;
	if (n)
		qsort(list, n, sizeof(*list), older_first);
	for (i = 0; i < n && *number > goal; i++) {
		if (unlinkat(f->dir, list[i].name, 0) && errno != ENOENT)
			continue;
		*number -= KVC_MIN(*number, list[i].bytes);
		pthread_mutex_lock(&f->t.lock);
		f->t.st.evicted++;
		f->t.losses++;
		pthread_mutex_unlock(&f->t.lock);
	}
	/* Others' temporary files: theirs is the room. */
	if (*number > f->size || len > f->size - *number)
		rc = -EFBIG;
out:
	free(list);
	return rc;
}

/* ---- writing ---------------------------------------------------------- */

/* Now; but each time is later than the one before: it is an order. */
static void next_time(struct file_tier *f, struct timespec ts[2])
{
	uint64_t now;

	clock_gettime(CLOCK_REALTIME, &ts[1]);
	now = ts[1].tv_sec * 1000000000ULL + ts[1].tv_nsec;
	f->stamp = KVC_MAX(f->stamp + 1, now);
	ts[0] = (struct timespec){ .tv_nsec = UTIME_OMIT };
	ts[1].tv_sec = f->stamp / 1000000000;
	ts[1].tv_nsec = f->stamp % 1000000000;
}

/* It is used. Where that cannot be written, it is removed sooner. */
static void stamp(struct file_tier *f, int fd)
{
	struct timespec ts[2];

	next_time(f, ts);
	futimens(fd, ts);
}

/* The same of a page that may be there: is it? */
static bool touch(struct file_tier *f, const struct kvc_req *r)
{
	struct timespec ts[2];
	char page[NAME_LEN];

	hex(r->key, page);
	next_time(f, ts);
	return !utimensat(f->dir, page, ts, AT_SYMLINK_NOFOLLOW);
}

static int get_space(struct file_tier *f, int fd, size_t len)
{
	int rc = kvc_tier_fault(&f->t, KVC_AT_ROOM);

	if (rc)
		return rc;
	do {
		rc = fallocate(fd, 0, 0, len) ? -errno : 0;
	} while (rc == -EINTR);
	if (rc == -EOPNOTSUPP)
		rc = ftruncate(fd, len) ? -errno : 0;
	return rc;
}

/* A temporary file with room for @len bytes: its descriptor, or -errno. */
static int create(struct file_tier *f, size_t len, char name[NAME_LEN])
{
	uint64_t number;
	int fd = -1, rc;

	if (len > f->size - f->size / 16)
		return -EFBIG;
	rc = number_get(f, &number);
	if (rc)
		return rc;
	rc = make_room(f, len, &number);
	if (!rc)
		rc = kvc_tier_fault(&f->t, KVC_AT_CREATE);
	if (rc)
		goto out;
	snprintf(name, NAME_LEN, TMP "%d.%llu", getpid(),
		 (unsigned long long)f->serial++);
	fd = openat(f->dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC |
		    O_NOFOLLOW | f->flags, 0600);
	if (fd < 0) {
		rc = -errno;
		goto out;
	}
	flock(fd, LOCK_EX | LOCK_NB);
	rc = get_space(f, fd, len);
	if (rc) {
		unlinkat(f->dir, name, 0);
		close(fd);
	} else {
		number += len;
	}
out:
	number_put(f, number);
	return rc ? rc : fd;
}

/* Give back what create() took. */
static void discard(struct file_tier *f, const char *name, size_t len)
{
	uint64_t number;

	if (number_get(f, &number)) {
		unlinkat(f->dir, name, 0);
		return;
	}
	if (!unlinkat(f->dir, name, 0))
		number -= KVC_MIN(number, len);
	number_put(f, number);
}

static int commit(struct file_tier *f, const struct kvc_req *r, int fd,
		  const char *name)
{
	char page[NAME_LEN];
	uint64_t number;
	int rc = kvc_tier_fault(&f->t, KVC_AT_SYNC);

	hex(r->key, page);
	stamp(f, fd);
	/* Who reads the folder sees one name of it. */
	if (!rc)
		rc = number_get(f, &number);
	if (rc)
		return rc;
	rc = kvc_tier_fault(&f->t, KVC_AT_COMMIT);
	/* Another process was faster: of two equal ones, this one goes. */
	if (!rc && renameat2(f->dir, name, f->dir, page, RENAME_NOREPLACE))
		rc = -errno;
	if (rc == -EINVAL)
		rc = renameat(f->dir, name, f->dir, page) ? -errno : 0;
	if (!rc)
		rc = kvc_tier_fault(&f->t, KVC_AT_COMMITTED);
	number_put(f, number);
	return rc;
}

static void put(struct file_tier *f, struct kvc_req *const *r, unsigned int n)
{
	struct kvc_io_op op[KVC_TIER_BATCH];
	char name[KVC_TIER_BATCH][NAME_LEN];
	unsigned int at[KVC_TIER_BATCH], nops = 0, i;

	/* The root of a chain gets room first, and the last time of use. */
	for (i = n; i--;)
		if (touch(f, r[i]))
			r[i]->rc = -EEXIST;
	for (i = 0; i < n; i++) {
		int fd;

		if (r[i]->rc)
			continue;
		fd = create(f, r[i]->len, name[nops]);
		if (fd < 0) {
			r[i]->rc = fd;
			continue;
		}
		at[nops] = i;
		op[nops++] = (struct kvc_io_op) {
			.fd = fd, .write = true, .sync = f->sync,
			.buf = r[i]->buf, .len = r[i]->len,
			.rc = kvc_tier_fault(&f->t, KVC_AT_WRITE),
		};
	}
	for (i = 0; i < nops; i++) {
		int rc = op[i].rc;

		/* A test's: half of it, and an error. */
		if (rc)
			op[i].len = (op[i].len / 2) & ~4095ULL;
		op[i].rc = 0;
		r[at[i]]->rc = rc;
	}
	kvc_io_run(f->io, op, nops);
	for (i = nops; i--;) {
		struct kvc_req *q = r[at[i]];

		if (!q->rc)
			q->rc = op[i].rc;
		if (!q->rc)
			q->rc = commit(f, q, op[i].fd, name[i]);
		if (q->rc)
			discard(f, name[i], q->len);
		close(op[i].fd);
	}
}

/* ---- reading ---------------------------------------------------------- */

static int open_page(struct file_tier *f, const struct kvc_req *r)
{
	char page[NAME_LEN];
	struct stat st;
	int fd, rc;

	rc = kvc_tier_fault(&f->t, KVC_AT_OPEN);
	if (rc)
		return rc;
	hex(r->key, page);
	fd = openat(f->dir, page, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | f->flags);
	if (fd < 0)
		return -errno;
	rc = fstat(fd, &st) ? -errno : 0;
	if (!rc && (!S_ISREG(st.st_mode) || (size_t)st.st_size != r->len))
		rc = -EBADMSG;
	if (!rc)
		rc = kvc_tier_fault(&f->t, KVC_AT_READ);
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

static void get(struct file_tier *f, struct kvc_req *const *r, unsigned int n)
{
	struct kvc_io_op op[KVC_TIER_BATCH];
	unsigned int at[KVC_TIER_BATCH], nops = 0, i;

	for (i = 0; i < n; i++) {
		int fd = open_page(f, r[i]);

		if (fd < 0) {
			r[i]->rc = fd;
			continue;
		}
		at[nops] = i;
		op[nops++] = (struct kvc_io_op) {
			.fd = fd, .buf = r[i]->buf, .len = r[i]->len,
		};
	}
	kvc_io_run(f->io, op, nops);
	for (i = nops; i--;) {
		r[at[i]]->rc = op[i].rc;
		if (!op[i].rc)
			stamp(f, op[i].fd);
		close(op[i].fd);
	}
}

static void file_serve(struct kvc_tier *t, struct kvc_req *const *r,
		       unsigned int n)
{
	struct file_tier *f = (struct file_tier *)t;

	if (r[0]->op == KVC_TIER_PUT)
		put(f, r, n);
	else
		get(f, r, n);
}

static void file_forget(struct kvc_tier *t, const uint8_t *key)
{
	struct file_tier *f = (struct file_tier *)t;
	char page[NAME_LEN];
	struct stat st;

	hex(key, page);
	if (!fstatat(f->dir, page, &st, AT_SYMLINK_NOFOLLOW))
		discard(f, page, st.st_size);
}

static void file_close(struct kvc_tier *t)
{
	struct file_tier *f = (struct file_tier *)t;

	kvc_io_destroy(f->io);
	if (f->lock >= 0)
		close(f->lock);
	if (f->dir >= 0)
		close(f->dir);
	free(f);
}

static const struct kvc_tier_ops file_ops = {
	.name = "file",
	.serve = file_serve,
	.forget = file_forget,
	.close = file_close,
};

/* ---- opening ---------------------------------------------------------- */

/* Only its owner may put pages there that this process then computes with. */
static int open_folder(struct file_tier *f, const char *path,
		       const struct kvc_tier_opts *o)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST)
		return kvc_tier_refuse(o, -errno, "%s: cannot be made: %s",
				       path, strerrordesc_np(errno));
	f->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->dir < 0 || fstat(f->dir, &st))
		return kvc_tier_refuse(o, -errno, "%s: cannot be opened: %s",
				       path, strerrordesc_np(errno));
	if (st.st_uid != geteuid())
		return kvc_tier_refuse(o, -EPERM,
				       "%s: belongs to user %u: give a folder of your own",
				       path, st.st_uid);
	if (st.st_mode & 0022)
		return kvc_tier_refuse(o, -EPERM,
				       "%s: others can write to it: make its mode 0700",
				       path);
	f->lock = openat(f->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC |
			 O_NOFOLLOW, 0600);
	if (f->lock < 0)
		return kvc_tier_refuse(o, -errno,
				       "%s/lock: cannot be opened: %s", path,
				       strerrordesc_np(errno));
	return 0;
}

/* Does the file system take O_DIRECT? */
static bool can_direct(struct file_tier *f)
{
	int fd = openat(f->dir, "lock", O_RDONLY | O_DIRECT | O_CLOEXEC);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* The number is not trusted: whoever ended last may have been killed. */
static int count(struct file_tier *f)
{
	struct entry *list = NULL;
	uint64_t number;
	uint32_t n;
	int rc;

	rc = number_get(f, &number);
	if (rc)
		return rc;
	rc = scan(f, &number, &list, &n);
	free(list);
	if (rc)
		number = UINT64_MAX;
	number_put(f, number);
	return rc;
}

int kvc_tier_file_open(const struct kvc_tier_file *file,
		       const struct kvc_tier_opts *opts, struct kvc_tier **out)
{
	struct kvc_tier_file o;
	struct file_tier *f;
	int rc;

	if (kvc_opts_copy(&o, sizeof(o), file) || !o.path || !*o.path)
		return kvc_tier_refuse(opts, -EINVAL,
				       "struct kvc_tier_file: bad sz, members that this library does not know, or no path");
	if (o.sync > KVC_TIER_SYNC_DATA)
		return kvc_tier_refuse(opts, -EINVAL, "sync %u: %u or %u can be",
				       o.sync, KVC_TIER_SYNC_NONE,
				       KVC_TIER_SYNC_DATA);
	if (o.size && o.size < SIZE_MIN)
		return kvc_tier_refuse(opts, -EINVAL,
				       "%llu bytes for files: give %llu or more",
				       (unsigned long long)o.size, SIZE_MIN);
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->dir = -1;
	f->lock = -1;
	f->t.ops = &file_ops;
	f->size = o.size ? o.size : SIZE;
	f->sync = o.sync == KVC_TIER_SYNC_DATA;
	rc = kvc_tier_init(&f->t, opts);
	if (!rc)
		rc = open_folder(f, o.path, opts);
	if (rc)
		goto fail;
	f->flags = !o.buffered && can_direct(f) ? O_DIRECT : 0;
	f->io = kvc_io_create(o.threads);
	rc = f->io ? count(f) : -ENOMEM;
	if (rc) {
		kvc_tier_refuse(opts, rc, "%s: cannot be read: %s", o.path,
				strerrordesc_np(-rc));
		goto fail;
	}
	f->t.st.direct = f->flags != 0;
	f->t.st.uring = kvc_io_uring(f->io);
	rc = kvc_tier_start(&f->t);
	if (rc)
		goto fail;
	*out = &f->t;
	return 0;

fail:
	file_close(&f->t);
	return rc;
}
