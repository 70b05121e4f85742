/* SPDX-License-Identifier: MIT */
/*
 * child.h - other processes: some that may do less than root, some that wait,
 * some that end.
 */
#ifndef CHILD_H
#define CHILD_H

#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "dev_kit.h"

/* In a child: what has to be true. */
#define MUST(x)								\
	do {								\
		if (!(x)) {						\
			dprintf(1, "# %s:%d: %s (%s)\n", __FILE__,	\
				__LINE__, #x, strerror(errno));		\
			_exit(1);					\
		}							\
	} while (0)

/* Does it come true within ten seconds? */
#define SOON(x)								\
	({								\
		int tries_ = 0;						\
		bool is_;						\
									\
		while (!(is_ = (x)) && ++tries_ < 5000)			\
			usleep(2000);					\
		is_;							\
	})

/* Exits with what @fn returns, and with the test. */
static inline pid_t child_start(int (*fn)(void *), void *arg)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	_exit(fn(arg));
}

/* Exit status, or the signal and 256. */
static inline int child_end(pid_t pid)
{
	int status = 0;

	if (waitpid(pid, &status, 0) != pid)
		return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) :
	       256 + WTERMSIG(status);
}

static inline int in_child(int (*fn)(void *), void *arg)
{
	return child_end(child_start(fn, arg));
}

/* Memory that children share. */
static inline void *shared_memory(size_t bytes)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* Are these the bytes that POISON() left? */
static inline bool is_poison(const void *at, size_t bytes)
{
	const unsigned char *c = at;

	while (bytes && *c == 0xcc)
		c++, bytes--;
	return !bytes;
}

/* ---- who it is ----------------------------------------------------------- */

/* One without privileges: no way back. @more: a further group, or 0. */
static inline void become(uid_t uid, gid_t gid, gid_t more)
{
	MUST(!setgroups(more ? 1 : 0, &more));
	MUST(!setresgid(gid, gid, gid));
	MUST(!setresuid(uid, uid, uid));
}

/* Takes a capability off those in force, or puts it there again. */
static inline void set_cap(int cap, bool on)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2];
	uint32_t bit = 1U << (cap & 31);

	MUST(!syscall(SYS_capget, &head, data));
	if (on)
		data[cap >> 5].effective |= bit;
	else
		data[cap >> 5].effective &= ~bit;
	MUST(!syscall(SYS_capset, &head, data));
}

/* ---- descriptors in flight ----------------------------------------------- */

static inline void send_fd(int sock, int fd)
{
	char byte = 'x', room[CMSG_SPACE(sizeof(fd))] = { 0 };
	struct iovec iov = { &byte, 1 };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = room, .msg_controllen = sizeof(room),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	MUST(sendmsg(sock, &m, 0) == 1);
}

static inline int receive_fd(int sock)
{
	char byte, room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &byte, 1 };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = room, .msg_controllen = sizeof(room),
	};
	int fd = -1;

	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&m))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

#endif /* CHILD_H */
