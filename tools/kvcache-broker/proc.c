// SPDX-License-Identifier: MIT
/*
 * proc.c - what /proc says of a process. It may be another one by the time that
 * it is read: whoever cares looks at a pidfd afterwards.
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "proc.h"

/* At most @len - 1 bytes of a file of @pid, as a string. */
static bool read_proc(pid_t pid, const char *name, char *buf, size_t len)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, buf, len - 1);
	close(fd);
	if (n < 0)
		return false;
	buf[n] = 0;
	return true;
}

bool proc_is_of(pid_t pid, uid_t uid)
{
	char buf[4096], *line;
	unsigned int real, effective;

	if (!read_proc(pid, "status", buf, sizeof(buf)))
		return false;
	line = strstr(buf, "\nUid:");
	return line && sscanf(line, " Uid: %u %u", &real, &effective) == 2 &&
	       effective == uid;
}

void proc_name(pid_t pid, char *name, size_t len)
{
	memset(name, 0, len);
	if (!read_proc(pid, "comm", name, len))
		memset(name, 0, len);
	name[strcspn(name, "\n")] = 0;
}

static const char *cgroup_root(void)
{
	static const char *const roots[] = {
		"/sys/fs/cgroup", "/sys/fs/cgroup/unified",
	};
	struct statfs fs;
	size_t k;

	for (k = 0; k < sizeof(roots) / sizeof(*roots); k++)
		if (!statfs(roots[k], &fs) &&
		    fs.f_type == CGROUP2_SUPER_MAGIC)
			return roots[k];
	return NULL;
}

/* The line "0::PATH", as a path below @root. */
static bool cgroup_path(pid_t pid, const char *root, char *path, size_t len)
{
	char buf[PATH_MAX], *line;

	if (!read_proc(pid, "cgroup", buf, sizeof(buf)))
		return false;
	line = !strncmp(buf, "0::/", 4) ? buf : strstr(buf, "\n0::/");
	if (!line)
		return false;
	line = strchr(line, '/');
	line[strcspn(line, "\n")] = 0;
	/* It is outside of what we can see. */
	if (strstr(line, "/.."))
		return false;
	return snprintf(path, len, "%s%s", root, line) < (int)len;
}

u32 proc_cgroups(pid_t pid, u64 ids[PROC_CGROUPS])
{
	const char *root = cgroup_root();
	char path[PATH_MAX];
	struct stat st;
	u32 nr = 0;

	if (!root || !cgroup_path(pid, root, path, sizeof(path)))
		return 0;
	while (nr < PROC_CGROUPS && strlen(path) >= strlen(root)) {
		if (!stat(path, &st))
			ids[nr++] = st.st_ino;
		*strrchr(path, '/') = 0;
	}
	return nr;
}

bool proc_ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) != 0;
}
