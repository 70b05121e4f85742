/* SPDX-License-Identifier: MIT */
/*
 * files.h - files of the kernel's: what they say, and who may see them.
 */
#ifndef FILES_H
#define FILES_H

#include "child.h"

/* A file's text, or "-errno". */
static inline const char *text_of(const char *path)
{
	static char text[4][4096];
	static int turn;
	char *t = text[turn++ & 3];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, t, sizeof(text[0]) - 1);

	if (n < 0)
		n = snprintf(t, sizeof(text[0]), "-%d", errno);
	t[n] = 0;
	if (fd >= 0)
		close(fd);
	return t;
}

/* 0 or -errno. */
static inline int write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		err = -errno;
	close(fd);
	return err;
}

/* As root's file, with this group. */
static inline bool has_mode(const char *path, mode_t mode, gid_t gid)
{
	struct stat st;

	if (stat(path, &st)) {
		printf("# no %s\n", path);
		return false;
	}
	if ((st.st_mode & 07777) == mode && !st.st_uid && st.st_gid == gid)
		return true;
	printf("# %s: mode %o, owner %u:%u\n", path, st.st_mode & 07777,
	       st.st_uid, st.st_gid);
	return false;
}

#endif /* FILES_H */
