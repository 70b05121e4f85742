// SPDX-License-Identifier: MIT
/*
 * listener.c - a Unix socket that a service makes, and sockets that were passed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "listener.h"
#include "util.h"

#define BACKLOG		4096	/* the kernel's own bound is lower */
#define NEW		".new"	/* what it is called until somebody listens */

static int address(struct sockaddr_un *a, const char *path,
		   const struct listener_how *how)
{
	const size_t max = sizeof(a->sun_path) - sizeof(NEW);

	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	if (strlen(path) > max)
		return complain("%s: longer than a socket's path can be (%zu): give %s",
				path, max, how->option);
	strcpy(a->sun_path, path);
	return 0;
}

/* The folder it is in; those above must exist. */
static int make_folder(const char *path, const struct listener_how *how)
{
	const char *slash = strrchr(path, '/');
	char *dir;
	int err;

	if (!slash || slash == path)
		return 0;
	dir = xasprintf("%.*s", (int)(slash - path), path);
	err = mkdir(dir, how->folder_mode);
	if (err && errno == EEXIST)
		err = 0;
	if (err)
		complain("%s: %s: make it, or give %s", dir, strerror(errno),
			 how->option);
	free(dir);
	return err;
}

/* One at a time looks at what is there. */
static int lock(struct listener *l, const struct listener_how *how)
{
	char *path = xasprintf("%s.lock", l->path);

	l->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (l->lock < 0)
		complain("%s: %s: give %s", path, strerror(errno), how->option);
	free(path);
	if (l->lock < 0)
		return -1;
	if (!flock(l->lock, LOCK_EX | LOCK_NB))
		return 0;
	return complain("%s: another %s listens there: stop it, or give %s",
			l->path, how->who, how->option);
}

/* Is there nothing, or a socket at which nobody listens? It is replaced. */
static int check_path(const struct sockaddr_un *a,
		      const struct listener_how *how)
{
	struct stat st;
	int fd, err;

	if (lstat(a->sun_path, &st))
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return complain("%s: is no socket: remove it, or give %s",
				a->sun_path, how->option);
	fd = socket(AF_UNIX, how->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return complain("socket: %s", strerror(errno));
	err = connect(fd, (const struct sockaddr *)a, sizeof(*a)) ? errno : 0;
	close(fd);
	/* EPROTOTYPE: of another kind, so somebody else's. */
	if (err != ECONNREFUSED)
		return complain("%s: somebody listens there: stop it, or give %s",
				a->sun_path, how->option);
	return 0;
}

/* Of one that was killed before it listened: we have its lock. */
static void clear_new(const struct sockaddr_un *a)
{
	struct stat st;

	if (!lstat(a->sun_path, &st) && S_ISSOCK(st.st_mode))
		unlink(a->sun_path);
}

static int bind_at(const struct sockaddr_un *a, const struct listener_how *how)
{
	mode_t mask = umask(0777 & ~how->mode);
	int fd = socket(AF_UNIX, how->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)a, sizeof(*a))) {
		complain("%s: %s", a->sun_path, strerror(errno));
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	umask(mask);
	if (fd >= 0 && how->has_group &&
	    lchown(a->sun_path, (uid_t)-1, how->group)) {
		complain("%s: group %u: %s: give a group that you are of",
			 a->sun_path, how->group, strerror(errno));
		unlink(a->sun_path);
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Whoever sees it can connect: it gets its name when somebody listens. */
static int listen_at(struct listener *l, const struct sockaddr_un *a,
		     const struct listener_how *how)
{
	struct sockaddr_un new = *a;
	struct stat st;
	int fd;

	strcat(new.sun_path, NEW);
	clear_new(&new);
	fd = bind_at(&new, how);
	if (fd < 0)
		return -1;
	if (listen(fd, BACKLOG) || lstat(new.sun_path, &st) ||
	    rename(new.sun_path, a->sun_path)) {
		complain("%s: %s", a->sun_path, strerror(errno));
		unlink(new.sun_path);
		close(fd);
		return -1;
	}
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	return fd;
}

int listener_make(struct listener *l, const char *path,
		  const struct listener_how *how)
{
	struct sockaddr_un a;
	int fd = -1;

	l->path = xasprintf("%s", path);
	l->lock = -1;
	if (!address(&a, path, how) && !make_folder(path, how) &&
	    !lock(l, how) && !check_path(&a, how))
		fd = listen_at(l, &a, how);
	if (fd >= 0)
		return fd;
	l->ino = 0;
	listener_remove(l);
	return -1;
}

/* The lock stays: whoever waits for it has it open. */
void listener_remove(struct listener *l)
{
	struct stat st;

	if (l->path && l->ino && !lstat(l->path, &st) && st.st_ino == l->ino &&
	    st.st_dev == l->dev)
		unlink(l->path);
	if (l->path && l->lock >= 0)
		close(l->lock);
	free(l->path);
	l->path = NULL;
}

/* ---- sockets of others --------------------------------------------------- */

static bool option_is(int fd, int opt, int want)
{
	socklen_t len = sizeof(int);
	int v;

	return !getsockopt(fd, SOL_SOCKET, opt, &v, &len) && v == want;
}

bool listener_is(int fd, int domain, int type)
{
	return option_is(fd, SO_DOMAIN, domain) &&
	       option_is(fd, SO_TYPE, type) &&
	       option_is(fd, SO_ACCEPTCONN, 1) &&
	       !fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}
