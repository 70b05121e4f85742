// SPDX-License-Identifier: MIT
/*
 * service.c - the service manager: sd_notify(3) and sd_listen_fds(3) by hand.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "service.h"
#include "units.h"
#include "util.h"

#define FDS_MAX		(1U << 20)

int service_manager(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct timeval patience = { .tv_sec = SERVICE_PATIENCE_MS / 1000 };
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (!len)
		return -ENOENT;
	if ((*path != '/' && *path != '@') || len >= sizeof(a.sun_path))
		return -EINVAL;
	memcpy(a.sun_path, path, len);
	if (*path == '@')
		a.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(fd, (void *)&a,
		    offsetof(struct sockaddr_un, sun_path) + len)) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

int service_tell(int to, const char *text, const int *fds, uint32_t nr)
{
	char control[CMSG_SPACE(SERVICE_FDS * sizeof(int))] = { 0 };
	struct iovec iov = { (void *)text, strlen(text) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;
	ssize_t rc;

	if (nr) {
		m.msg_control = control;
		m.msg_controllen = CMSG_SPACE(nr * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nr * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nr * sizeof(int));
	}
	do {
		rc = sendmsg(to, &m, MSG_NOSIGNAL);
	} while (rc < 0 && errno == EINTR);
	if (rc >= 0)
		return 0;
	return errno == EAGAIN ? -ETIMEDOUT : -errno;
}

void service_notify(const char *text)
{
	int to = service_manager(), err = to;

	if (to >= 0) {
		err = service_tell(to, text, NULL, 0);
		close(to);
	}
	if (err && err != -ENOENT)
		complain("NOTIFY_SOCKET: %s: %s", text, strerror(-err));
}

uint32_t service_fds(void)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	uint64_t p, nr;

	if (!pid || !fds || !parse_u64(pid, 1, INT32_MAX, &p) ||
	    (pid_t)p != getpid() || !parse_u64(fds, 1, FDS_MAX, &nr))
		return 0;
	return nr;
}

void service_fds_taken(void)
{
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
}
