// SPDX-License-Identifier: MIT
/*
 * backend.c - the device or the broker.
 *
 * Whoever may administer has one connection, attached to no tenant. Others have
 * to be a member of a tenant to see it, and a tenant with members cannot be
 * removed: they connect for each request anew.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin.h"
#include "fs.h"
#include "name.h"

static void disconnect(struct fs *fs)
{
	if (fs->kvc)
		kvc_close(fs->kvc);
	fs->kvc = NULL;
}

static int ask(void *arg, unsigned int nr, void *cmd)
{
	return kvc_call(arg, nr, cmd);
}

static int who_am_i(struct fs *fs)
{
	struct kvcache_attach a = { .by = KVCACHE_ATTACH_AUTO };
	int err;

	err = admin_probe(ask, fs->kvc);
	fs->admin = !err;
	fs->blind = false;
	if (err != -EPERM)
		return err;
	if (fs->tenant) {
		a.by = KVCACHE_ATTACH_NAME;
		snprintf(a.name, sizeof(a.name), "%s", fs->tenant);
	}
	err = kvc_call(fs->kvc, KVCACHE_NR_ATTACH, &a);
	fs->blind = err == -ENOENT || err == -EPERM || err == -EDQUOT ||
		    err == -ENOSPC;
	return fs->blind ? 0 : err;
}

static int connect_to(struct fs *fs, char *why, size_t len)
{
	const struct kvc_open_opts opts = {
		.sz = sizeof(opts),
		.flags = KVC_OPEN_UNATTACHED,
		.msg = why,
		.msg_len = len,
	};
	int err = kvc_open(fs->device, &opts, &fs->kvc);

	if (err) {
		fs->kvc = NULL;
		return err;
	}
	err = who_am_i(fs);
	if (err)
		disconnect(fs);
	return err;
}

int fs_try(struct fs *fs, char *why, size_t len)
{
	int err = connect_to(fs, why, len);

	/* A connection is of one process, and this may not be the one to stay. */
	disconnect(fs);
	return err;
}

/* What a user of the mount is told: there is something, or there is not. */
static int not_there(int err)
{
	return err == -EACCES || err == -ENOMEM || err == -EMFILE ||
	       err == -ENFILE ? err : -ENOTCONN;
}

int fs_begin(struct fs *fs)
{
	bool fresh = !fs->kvc;
	int err = 0;

	if (fresh)
		err = connect_to(fs, NULL, 0);
	if (err)
		return not_there(err);
	memset(&fs->query, 0, sizeof(fs->query));
	err = fs_call(fs, KVCACHE_NR_QUERY, &fs->query);
	/* That connection was to one that is gone. */
	return err == -ENOTCONN && !fresh ? fs_begin(fs) : err;
}

void fs_end(struct fs *fs)
{
	if (!fs->admin)
		disconnect(fs);
}

int fs_call(struct fs *fs, unsigned int nr, void *arg)
{
	int err;

	if (!fs->kvc)
		return -ENOTCONN;
	/* Nothing to be seen is no failure. */
	if (fs->blind && nr >= KVCACHE_NR_TENANT_GET &&
	    nr <= KVCACHE_NR_GRANT_GET)
		return -ENOENT;
	err = kvc_call(fs->kvc, nr, arg);
	if (err == -ENOTCONN || err == -EOWNERDEAD) {
		disconnect(fs);
		err = -ENOTCONN;
	}
	return err;
}

/* ---- records ---------------------------------------------------------- */

static uint32_t *hint_of(struct fs *fs, const char *name)
{
	return &fs->hint[name_hash(name) % FS_HINTS];
}

int fs_tenant(struct fs *fs, uint32_t pool, uint32_t id,
	      struct kvcache_tenant_info *out, uint64_t *seq)
{
	struct kvcache_tenant_get r = { .pool = pool, .start = id };
	int err = fs_call(fs, KVCACHE_NR_TENANT_GET, &r);

	if (err)
		return err;
	if (!r.out_nr || r.out_info[0].id != id)
		return -ENOENT;
	*out = r.out_info[0];
	if (seq)
		*seq = r.out_seq;
	return 0;
}

int fs_client(struct fs *fs, uint32_t pool, uint32_t id,
	      struct kvcache_client_info *out, uint64_t *seq)
{
	struct kvcache_client_get r = { .pool = pool, .start = id };
	int err = fs_call(fs, KVCACHE_NR_CLIENT_GET, &r);

	if (err)
		return err;
	if (!r.out_nr || r.out_info[0].id != id)
		return -ENOENT;
	*out = r.out_info[0];
	if (seq)
		*seq = r.out_seq;
	return 0;
}

/* By the number that the name had last time, or through the whole list. */
int fs_tenant_named(struct fs *fs, const char *name,
		    struct kvcache_tenant_info *out)
{
	struct kvcache_tenant_get r = { .start = *hint_of(fs, name) };
	bool hinted = r.start;
	uint32_t i;
	int err;

	if (!fs->query.out_nr_pools)
		return -ENOENT;
	do {
		r.pool = fs->query.out_pools[0].id;
		err = fs_call(fs, KVCACHE_NR_TENANT_GET, &r);
		if (err)
			return err;
		for (i = 0; i < r.out_nr; i++) {
			*hint_of(fs, r.out_info[i].name) = r.out_info[i].id;
			if (strcmp(r.out_info[i].name, name))
				continue;
			*out = r.out_info[i];
			return 0;
		}
		r.start = hinted ? 0 : r.out_next;
		if (!hinted && !r.out_next)
			return -ENOENT;
		hinted = false;
	} while (true);
}

const struct kvcache_pool_info *fs_pool(const struct fs *fs, uint32_t id)
{
	uint32_t i;

	for (i = 0; i < fs->query.out_nr_pools; i++)
		if (fs->query.out_pools[i].id == id)
			return &fs->query.out_pools[i];
	return NULL;
}
