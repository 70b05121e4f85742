// SPDX-License-Identifier: MIT
/*
 * set.c - what a write, mkdir, rmdir, chown or chmod changes, and who may.
 *
 * The backend is asked as the user who mounted. So the caller must have that
 * user's rights as well: be the same, or root.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "change.h"
#include "fs.h"
#include "name.h"

/* As for a file of cgroupfs: more is refused unread. */
#define VALUE_MAX 4096

/* ---- who may ---------------------------------------------------------- */

static bool same_user_namespace(pid_t pid)
{
	char path[64], mine[64], theirs[64];
	ssize_t m, t;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	m = readlink("/proc/self/ns/user", mine, sizeof(mine));
	t = readlink(path, theirs, sizeof(theirs));
	return m > 0 && m == t && !memcmp(mine, theirs, m);
}

/*
 * The device asks for CAP_SYS_ADMIN, which root in a container may lack. The
 * caller waits for the answer, so its number is not yet another one's.
 */
static bool has_capability(pid_t pid)
{
	char path[64], line[128];
	uint64_t caps = 0;
	FILE *f;

	/* 0: a process that is not to be seen from here. */
	if (pid <= 0 || !same_user_namespace(pid))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %" SCNx64, &caps) == 1)
			break;
	fclose(f);
	return caps >> CAP_SYS_ADMIN & 1;
}

bool set_possible(const struct fs *fs, const struct fs_node *n)
{
	return fs->admin && (node_writable(n) || n->kind == FS_TENANTS);
}

int set_allowed(struct fs *fs, const struct fuse_ctx *who)
{
	if (!fs->admin || (who->uid && who->uid != fs->uid))
		return -EPERM;
	if (!strcmp(kvc_backend(fs->kvc), "device") &&
	    !has_capability(who->pid))
		return -EPERM;
	return 0;
}

/* ---- a value ---------------------------------------------------------- */

/* "VALUE", or "POOL VALUE", spaces and newlines around it. */
static int take_apart(const char *buf, size_t len, char *text, char **pool,
		      char **value)
{
	char *s = text, *end;

	if (len > VALUE_MAX)
		return -E2BIG;
	if (memchr(buf, 0, len))
		return -EINVAL;
	memcpy(text, buf, len);
	text[len] = 0;
	while (isspace((unsigned char)*s))
		s++;
	for (end = s + strlen(s); end > s && isspace((unsigned char)end[-1]);)
		*--end = 0;
	*value = s;
	*pool = NULL;
	s = strchr(s, ' ');
	if (s) {
		*pool = *value;
		*s++ = 0;
		*value = s;
	}
	return **value ? 0 : -EINVAL;
}

static const struct kvcache_pool_info *pool_of(const struct fs *fs,
					       const char *name, int *err)
{
	const struct kvcache_query *q = &fs->query;
	uint32_t i;

	*err = name ? -ENOENT : -EINVAL;
	if (!name)
		return q->out_nr_pools == 1 ? &q->out_pools[0] : NULL;
	for (i = 0; i < q->out_nr_pools; i++)
		if (!strcmp(q->out_pools[i].name, name))
			return &q->out_pools[i];
	return NULL;
}

/* What kvcachectl takes behind the option of that name. */
static int parse(const char *file, const char *value, struct change *ch)
{
	struct limit *l = !strcmp(file, "min") ? &ch->min :
			  !strcmp(file, "low") ? &ch->low : &ch->max;

	if (!strcmp(file, "ttl")) {
		ch->set = KVCACHE_SET_TTL;
		return parse_time(value, &ch->ttl_ns) && ch->ttl_ns ? 0 :
								     -EINVAL;
	}
	ch->set = KVCACHE_SET_LIMITS;
	/* Nobody can be promised everything. */
	return parse_limit(value, l) && ch->min.kind != LIMIT_MAX ? 0 : -EINVAL;
}

/* Whose change it is. */
struct whose {
	struct fs *fs;
	const struct fs_node *node;
	uint32_t pool;
};

static int find(void *arg, struct kvcache_tenant_info *t)
{
	const struct whose *w = arg;
	int err = node_tenant_info(w->fs, w->node, w->pool, t, NULL);

	/* What was open is gone: no name was wrong. */
	return err == -ENOENT ? -ENODEV : err;
}

static int ask(void *arg, unsigned int nr, void *cmd)
{
	return fs_call(arg, nr, cmd);
}

static int make(struct fs *fs, const struct fs_node *n, const struct change *ch,
		const struct kvcache_pool_info *p)
{
	struct whose whose = { fs, n, p->id };
	struct kvcache_tenant_set s;
	int err = change_make(ask, fs, ch, p, find, &whose, &s);

	return err == -ERANGE ? -EINVAL : err;
}

int set_value(struct fs *fs, const struct fs_node *n, const char *buf,
	      size_t len)
{
	const char *file = node_file(n->kind, n->file - 1);
	struct change ch = { .deadline_ns = UINT64_MAX };
	char text[VALUE_MAX + 1], *pool, *value;
	const struct kvcache_pool_info *p;
	int err;

	if (!node_writable(n))
		return -EINVAL;
	err = take_apart(buf, len, text, &pool, &value);
	if (!err)
		err = parse(file, value, &ch);
	if (err)
		return err;
	/* A time is of no pool. */
	if (ch.set == KVCACHE_SET_TTL) {
		if (pool)
			return -EINVAL;
		return fs->query.out_nr_pools ?
		       make(fs, n, &ch, &fs->query.out_pools[0]) : -ENODEV;
	}
	p = pool_of(fs, pool, &err);
	return p ? make(fs, n, &ch, p) : err;
}

/* ---- owners, tenants -------------------------------------------------- */

int set_owner(struct fs *fs, const struct fs_node *n, const struct stat *st,
	      int which)
{
	struct change ch = {
		.set = KVCACHE_SET_OWNER,
		.deadline_ns = UINT64_MAX,
		.has_uid = which & FUSE_SET_ATTR_UID,
		.has_gid = which & FUSE_SET_ATTR_GID,
		.has_mode = which & FUSE_SET_ATTR_MODE,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.mode = st->st_mode & 0444,
	};

	if (n->kind != FS_TENANT || n->file)
		return -EPERM;
	if (!fs->query.out_nr_pools)
		return -ENODEV;
	return make(fs, n, &ch, &fs->query.out_pools[0]);
}

/* The caller's, who alone may attach: as kvcachectl makes it. */
int set_create(struct fs *fs, const char *name, const struct fuse_ctx *who,
	       struct fs_node *out)
{
	struct kvcache_tenant_info t;
	struct kvcache_tenant_set s = {
		.set = KVCACHE_SET_OWNER,
		.uid = who->uid,
		.gid = who->gid,
		.mode = 0400,
		.deadline_ns = KVCACHE_TIME_NEVER,
	};
	int err;

	if (strlen(name) >= sizeof(s.name))
		return -ENAMETOOLONG;
	if (!name_chars_ok(name))
		return -EINVAL;
	/* Tenants are listed by pool: it could not be seen. */
	if (!fs->query.out_nr_pools)
		return -ENODEV;
	strcpy(s.name, name);
	err = fs_call(fs, KVCACHE_NR_TENANT_CREATE, &s);
	if (!err)
		err = fs_tenant(fs, fs->query.out_pools[0].id, s.out_tenant,
				&t, NULL);
	if (!err)
		*out = node_tenant(&t);
	return err;
}

int set_remove(struct fs *fs, const char *name)
{
	struct kvcache_tenant_ref ref = { .pool = 0 };
	struct kvcache_tenant_info t;
	int err = fs_tenant_named(fs, name, &t);

	if (err)
		return err;
	ref.tenant = t.id;
	return fs_call(fs, KVCACHE_NR_TENANT_REMOVE, &ref);
}
