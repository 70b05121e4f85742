/* SPDX-License-Identifier: MIT */
/*
 * mount.h - kvcachefs over a test's own broker, mounted in a namespace of the
 * test's own.
 */
#ifndef BROKER_MOUNT_H
#define BROKER_MOUNT_H

#include <linux/magic.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/vfs.h>

#include "kit.h"

/* In the tests' namespace, which ends with them. */
static char mnt[128];
static pid_t fs_pid;

static inline const char *fs_program(void)
{
	static char path[4096];

	strcpy(path, broker_program());
	strcpy(strrchr(path, '/'), "/kvcachefs");
	return path;
}

static inline const char *why_not(void)
{
	if (geteuid())
		return "needs root, to mount";
	if (access("/dev/fuse", F_OK))
		return "no /dev/fuse";
	if (access(fs_program(), X_OK))
		return "no kvcachefs: needs libfuse3-dev";
	if (unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return "no mount namespaces";
	return NULL;
}

static inline bool is_mounted(void)
{
	struct statfs fs;

	return !statfs(mnt, &fs) && fs.f_type == FUSE_SUPER_MAGIC;
}

static inline void fs_start(SELF)
{
	pid_t parent = getpid();

	snprintf(mnt, sizeof(mnt), "%s/m", self->dir);
	ASSERT_EQ(0, mkdir(mnt, 0755));
	fs_pid = fork();
	if (!fs_pid) {
		MUST(!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == parent);
		execl(fs_program(), "kvcachefs", "-f", "-d", self->path, mnt,
		      NULL);
		MUST(false);
	}
	ASSERT_GT(fs_pid, 0);
	ASSERT_TRUE(SOON(is_mounted()));
}

/* It ends by itself, as it should, once it is unmounted. */
static inline void fs_end(void)
{
	int status;

	ASSERT_EQ(0, umount2(mnt, MNT_DETACH));
	ASSERT_EQ(fs_pid, waitpid(fs_pid, &status, 0));
	ASSERT_EQ(0, status);
}

/* @start: of the broker. */
#define MOUNT(self, start)						\
	do {								\
		const char *why_ = why_not();				\
									\
		if (why_)						\
			SKIP(return, "%s", why_);			\
		start(self);						\
		fs_start(self);						\
	} while (0)

static inline const char *in(const char *file)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", mnt, file);
	return path;
}

#endif /* BROKER_MOUNT_H */
