// SPDX-License-Identifier: MIT
/*
 * backend.c - the device or the broker.
 *
 * Whoever may administer has one connection, attached to no tenant. Others have
 * to be a member of a tenant to see it, and a tenant with members cannot be
 * removed; and to attach is a change that everybody sees who compares moments.
 * So they attach for KEEP_MS, in which there may be many requests, and no
 * longer, however many there are.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "admin.h"
#include "fs.h"
#include "name.h"

#define KEEP_MS 200

uint64_t fs_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static int ask(void *arg, unsigned int nr, void *cmd)
{
	return ask_call(arg, nr, cmd);
}

static int who_am_i(struct fs *fs)
{
	struct kvcache_attach a = { .by = KVCACHE_ATTACH_AUTO };
	int err;

	err = admin_probe(ask, fs);
	fs->blind = false;
	if (!err || err == -EPERM)
		fs->admin = !err;
	if (err != -EPERM)
		return err;
	if (fs->tenant) {
		a.by = KVCACHE_ATTACH_NAME;
		snprintf(a.name, sizeof(a.name), "%s", fs->tenant);
	}
	err = ask_call(fs, KVCACHE_NR_ATTACH, &a);
	fs->blind = err == -ENOENT || err == -EPERM || err == -EDQUOT ||
		    err == -ENOSPC;
	return fs->blind ? 0 : err;
}

static int connect_to(struct fs *fs, char *why, size_t len)
{
	int err = ask_open(fs, why, len);

	fs->known = false;
	fs->since = fs_now();
	if (!err)
		err = who_am_i(fs);
	if (err)
		ask_close(fs);
	return err;
}

int fs_try(struct fs *fs, char *why, size_t len)
{
	int err = connect_to(fs, why, len);

	/* A connection is of one process, and this may not be the one to stay. */
	ask_end(fs);
	return err;
}

/* What a user of the mount is told: there is something, or there is not. */
static int not_there(int err)
{
	return err == -EACCES || err == -ENOMEM || err == -EMFILE ||
	       err == -ENFILE || err == -ETIMEDOUT ? err : -ENOTCONN;
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
	fs->recalled = false;
	err = fs_call(fs, KVCACHE_NR_QUERY, &fs->query);
	fs->known = !err;
	/* That connection was to one that is gone. */
	return err == -ENOTCONN && !fresh ? fs_begin(fs) : err;
}

int fs_begin_known(struct fs *fs)
{
	if (!fs->kvc || !fs->known || !fs->query.out_nr_pools)
		return fs_begin(fs);
	fs->recalled = true;
	return 0;
}

bool fs_again(struct fs *fs, int *err)
{
	if (!fs->recalled || (*err != -ENOENT && *err != -ENOTCONN))
		return false;
	*err = fs_begin(fs);
	return true;
}

static uint64_t kept_ms(const struct fs *fs)
{
	return (fs_now() - fs->since) / 1000000;
}

void fs_end(struct fs *fs)
{
	fs->req = NULL;
	fs->recalled = false;
	if (!fs->admin && (fs->blind || kept_ms(fs) >= KEEP_MS))
		ask_close(fs);
}

int fs_idle(struct fs *fs)
{
	fs_end(fs);
	if (fs->admin || !fs->kvc)
		return -1;
	return KEEP_MS - kept_ms(fs);
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
	err = ask_call(fs, nr, arg);
	if (err == -ENOTCONN || err == -EOWNERDEAD) {
		ask_close(fs);
		err = -ENOTCONN;
	}
	return err;
}

/* ---- records ---------------------------------------------------------- */

static uint32_t *hint_of(struct fs *fs, const char *name)
{
	return &fs->hint[name_hash(name) % FS_HINTS];
}

void fs_hint(struct fs *fs, const struct kvcache_tenant_info *t)
{
	*hint_of(fs, t->name) = t->id;
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
			fs_hint(fs, &r.out_info[i]);
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
