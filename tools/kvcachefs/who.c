// SPDX-License-Identifier: MIT
/*
 * who.c - whose request it is, and what this user may see.
 *
 * Who alone uses a mount sees what the backend shows. In one that is for all
 * users the backend is asked as root, and what it would not show the caller is
 * left out here.
 */
#include "fs.h"

void who_asks(struct fs *fs, fuse_req_t req)
{
	fs->req = req;
	fs->nr_groups = -1;
}

bool who_is_limited(const struct fs *fs)
{
	return fs->shared && fs->req && fuse_req_ctx(fs->req)->uid;
}

/* The caller waits, so that its groups are there to be read. */
static bool has_group(struct fs *fs, gid_t gid)
{
	int i;

	if (fuse_req_ctx(fs->req)->gid == gid)
		return true;
	if (fs->nr_groups < 0)
		fs->nr_groups = fuse_req_getgroups(fs->req, FS_GROUPS,
						   fs->groups);
	if (fs->nr_groups < 0)
		fs->nr_groups = 0;
	if (fs->nr_groups > FS_GROUPS)
		fs->nr_groups = FS_GROUPS;
	for (i = 0; i < fs->nr_groups; i++)
		if (fs->groups[i] == gid)
			return true;
	return false;
}

bool who_may_look(struct fs *fs, const struct kvcache_tenant_info *t)
{
	if (!who_is_limited(fs))
		return true;
	if (fuse_req_ctx(fs->req)->uid == t->uid)
		return t->mode & 0400;
	if ((t->mode & 0044) == 0)
		return false;
	return t->mode & (has_group(fs, t->gid) ? 0040 : 0004);
}
