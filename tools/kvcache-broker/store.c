// SPDX-License-Identifier: MIT
/*
 * store.c - the service manager's descriptor store.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service.h"
#include "store.h"
#include "units.h"
#include "util.h"

#define NAME_PAGE	"p"
#define NAME_STATE	"state"

/* Until the manager has read all that was sent: it closes what it gets then. */
static int barrier(int to)
{
	struct pollfd p = { 0 };
	int ends[2], err, rc;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	err = service_tell(to, "BARRIER=1", &ends[1], 1);
	close(ends[1]);
	p.fd = ends[0];
	do {
		rc = err ? 0 : poll(&p, 1, SERVICE_PATIENCE_MS);
	} while (rc < 0 && errno == EINTR);
	close(ends[0]);
	return err ? err : rc > 0 ? 0 : -ETIMEDOUT;
}

/* ---- giving away -------------------------------------------------------- */

struct save {
	int to;
	int fds[SERVICE_FDS];
	uint32_t nr, all;
	int (*page_fd)(void *arg, uint32_t pool, uint64_t handle);
	void *arg;
};

static int flush(struct save *x)
{
	static const char text[] = "FDSTORE=1\nFDNAME=" NAME_PAGE;
	int err;

	if (!x->nr)
		return 0;
	err = service_tell(x->to, text, x->fds, x->nr);
	/* Too many are under way: once the manager has them they are not. */
	if (err == -ETOOMANYREFS) {
		err = barrier(x->to);
		if (!err)
			err = service_tell(x->to, text, x->fds, x->nr);
	}
	x->nr = 0;
	return err;
}

static int give_page(void *arg, struct state_saved *page)
{
	struct save *x = arg;
	struct stat st;
	int fd = x->page_fd(x->arg, page->pool, page->handle);

	if (fd < 0 || fstat(fd, &st))
		return fd < 0 ? fd : -errno;
	page->inode = st.st_ino;
	x->fds[x->nr++] = fd;
	x->all++;
	return x->nr == SERVICE_FDS ? flush(x) : 0;
}

static int give_all(struct save *x, const struct kvl *l, uint64_t now, int fd)
{
	FILE *f = fdopen(fd, "w");
	int err;

	if (!f) {
		close(fd);
		return -ENOMEM;
	}
	/* First, as what a store has no room for is what comes last. */
	err = service_tell(x->to, "FDSTORE=1\nFDNAME=" NAME_STATE, &fd, 1);
	if (!err)
		err = state_save(l, f, now, give_page, x);
	if (!err)
		err = flush(x);
	if (!err)
		err = barrier(x->to);
	fclose(f);
	return err;
}

int store_save(const struct kvl *l, uint64_t now,
	       int (*page_fd)(void *arg, uint32_t pool, uint64_t handle),
	       void *arg)
{
	struct save x = { .page_fd = page_fd, .arg = arg };
	int fd, err;

	x.to = service_manager();
	if (x.to < 0)
		return x.to;
	fd = memfd_create("kvcache-state", MFD_CLOEXEC);
	err = fd < 0 ? -errno : give_all(&x, l, now, fd);
	close(x.to);
	return err ? err : (int)x.all;
}

/* ---- receiving ---------------------------------------------------------- */

static int by_inode(const void *a, const void *b)
{
	const struct store_page *x = a, *y = b;

	return x->inode < y->inode ? -1 : x->inode > y->inode;
}

/* What has another name is a socket, or the caller finds that it is not. */
static void keep(struct store *s, int fd, const char *name, size_t len)
{
	struct stat st;

	fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (len == strlen(NAME_PAGE) && !memcmp(name, NAME_PAGE, len) &&
	    !fstat(fd, &st))
		s->page[s->nr++] = (struct store_page){ st.st_ino, fd };
	else if (len == strlen(NAME_STATE) && !memcmp(name, NAME_STATE, len) &&
		 s->state < 0)
		s->state = fd;
	else
		s->listen[s->nr_listen++] = fd;
}

int store_receive(struct store *s)
{
	const char *name = getenv("LISTEN_FDNAMES");
	uint32_t nr = service_fds(), k;

	*s = (struct store){ .state = -1 };
	if (!nr)
		return 0;
	s->page = calloc(nr, sizeof(*s->page));
	s->listen = calloc(nr, sizeof(*s->listen));
	if (!s->page || !s->listen)
		return -ENOMEM;
	for (k = 0; k < nr; k++) {
		size_t len = name ? strcspn(name, ":") : 0;

		keep(s, SERVICE_FIRST_FD + k, name, len);
		if (name)
			name += len + (name[len] == ':');
	}
	qsort(s->page, s->nr, sizeof(*s->page), by_inode);
	service_fds_taken();
	return 0;
}

int store_take(struct store *s, uint64_t inode, uint64_t page_size)
{
	const int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SEAL;
	struct store_page want = { .inode = inode }, *p;
	struct stat st;
	int fd;

	p = s->nr ? bsearch(&want, s->page, s->nr, sizeof(want), by_inode) :
	    NULL;
	if (!p || p->fd < 0 || fstat(p->fd, &st) ||
	    (uint64_t)st.st_size != page_size ||
	    (fcntl(p->fd, F_GET_SEALS) & seals) != seals)
		return -1;
	fd = p->fd;
	p->fd = -1;
	return fd;
}

void store_done(struct store *s)
{
	for (uint32_t k = 0; k < s->nr; k++)
		if (s->page[k].fd >= 0)
			close(s->page[k].fd);
	if (s->nr)
		service_notify("FDSTOREREMOVE=1\nFDNAME=" NAME_PAGE);
	if (s->state >= 0) {
		close(s->state);
		service_notify("FDSTOREREMOVE=1\nFDNAME=" NAME_STATE);
	}
	free(s->page);
	s->page = NULL;
	s->nr = 0;
	s->state = -1;
}
