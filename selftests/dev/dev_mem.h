/* SPDX-License-Identifier: MIT */
/*
 * dev_mem.h - other processes, and memory seen with others' eyes.
 *
 * A child does something up to a point, says so, and is told to go on or is
 * killed there. Nothing waits for ever: what does not come is a failure.
 */
#ifndef DEV_MEM_H
#define DEV_MEM_H

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "dev_kit.h"

#define AT(base, page)	((base) + (uint32_t)(page) * PAGE)

struct child {
	pid_t pid;
	int sock;
};

/* ---- talking ------------------------------------------------------------- */

static inline bool say(int sock, char what)
{
	return send(sock, &what, 1, MSG_NOSIGNAL) == 1;
}

/* What was said, or -1 if nothing was for ten seconds. */
static inline int hear(int sock)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	unsigned char what;

	if (poll(&p, 1, 10000) != 1 || recv(sock, &what, 1, 0) != 1)
		return -1;
	return what;
}

static inline int send_fd(int sock, int fd)
{
	char control[CMSG_SPACE(sizeof(fd))] = { 0 }, what = 'f';
	struct iovec v = { .iov_base = &what, .iov_len = 1 };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(sock, &m, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

static inline int recv_fd(int sock)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	char control[CMSG_SPACE(sizeof(int))], what;
	struct iovec v = { .iov_base = &what, .iov_len = 1 };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int fd;

	if (poll(&p, 1, 10000) != 1 || recvmsg(sock, &m, MSG_CMSG_CLOEXEC) != 1)
		return -1;
	if (!CMSG_FIRSTHDR(&m))
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

/* ---- living and dying ---------------------------------------------------- */

/* @fn runs in a child that has the other end of a socket; 0 or -errno. */
static inline int child_start(struct child *c, void (*fn)(int sock, void *arg),
			      void *arg)
{
	int pair[2];

	*c = (struct child){ .pid = -1, .sock = -1 };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	c->pid = fork();
	if (c->pid < 0)
		return -errno;
	if (!c->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		fn(pair[1], arg);
		_exit(0);
	}
	close(pair[1]);
	c->sock = pair[0];
	return 0;
}

/* Its exit status, or minus the signal that ended it. */
static inline int child_join(struct child *c)
{
	int status;

	close(c->sock);
	if (waitpid(c->pid, &status, 0) != c->pid)
		return -1000;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static inline int child_kill(struct child *c)
{
	kill(c->pid, SIGKILL);
	return child_join(c);
}

/* ---- memory -------------------------------------------------------------- */

/*
 * The kernel reads or writes a process' memory on behalf of another: -EFAULT
 * instead of a signal, in whatever thread. Bytes, or -errno.
 */
static inline long mem_get(pid_t pid, const void *at, void *buf, size_t n)
{
	struct iovec here = { .iov_base = buf, .iov_len = n };
	struct iovec there = { .iov_base = (void *)at, .iov_len = n };
	ssize_t rc = process_vm_readv(pid, &here, 1, &there, 1, 0);

	return rc < 0 ? -errno : rc;
}

static inline long mem_put(pid_t pid, void *at, const void *buf, size_t n)
{
	struct iovec here = { .iov_base = (void *)buf, .iov_len = n };
	struct iovec there = { .iov_base = at, .iov_len = n };
	ssize_t rc = process_vm_writev(pid, &here, 1, &there, 1, 0);

	return rc < 0 ? -errno : rc;
}

/* Is every byte this one? */
static inline bool all_are(const char *at, char byte, size_t n)
{
	return at[0] == byte && !memcmp(at, at + 1, n - 1);
}

/* ---- what became of a page ----------------------------------------------- */

/* The page at the index of the handle, by whomever it is held now. */
static inline struct kvcache_page_info page_info(int admin, uint32_t pool,
						 uint64_t page)
{
	struct kvcache_page_info none = { .state = KVCACHE_PAGE_FREE };
	static struct kvcache_page_get g;

	POISON(g);
	g.pool = pool;
	g.start = page;
	if (dev_call(admin, KVCACHE_NR_PAGE_GET, &g))
		none.state = 0xffff;
	else if (g.out_nr && (uint32_t)g.out_info[0].handle == (uint32_t)page)
		return g.out_info[0];
	return none;
}

static inline unsigned int page_state(const struct world *w, uint64_t page)
{
	return page_info(w->admin, w->pool, page).state;
}

/* Pages that a tenant of the world is charged for. */
static inline uint64_t charge(const struct world *w, int tenant)
{
	struct kvcache_tenant_info info;

	return dev_tenant_info(w->admin, w->pool, w->tenant[tenant], &info) ?
	       ~0ULL : info.cur;
}

/* Waits until the page is in that state. */
static inline bool becomes(const struct world *w, uint64_t page,
			   unsigned int state)
{
	int k;

	for (k = 0; k < 1000; k++) {
		if (page_state(w, page) == state)
			return true;
		usleep(5000);
	}
	return false;
}

#endif /* DEV_MEM_H */
