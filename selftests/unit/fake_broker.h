/* SPDX-License-Identifier: MIT */
/*
 * fake_broker.h - a broker that does what a test says, in a process of its own:
 * one connection, one pool of 64 KiB pages, and no ledger. Each page is filled
 * with the low byte of its handle.
 */
#ifndef FAKE_BROKER_H
#define FAKE_BROKER_H

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <kvcache/broker.h>

#include "harness.h"
#include "sys.h"

#define FAKE_PAGE	65536
#define FAKE_CAPACITY	600

struct fake_msg {
	struct kvcb_head h;
	union {
		uint32_t size;
		struct kvcache_query query;
		struct kvcache_alloc alloc;
		struct kvcache_free free;
		struct kvcache_publish publish;
		struct kvcache_lookup lookup;
		struct kvcb_cancel cancel;
		struct kvcb_map map;
		struct kvcb_events events;
		char bytes[KVCB_MSG_MAX - sizeof(struct kvcb_head)];
	};
};

/* What the fake and the test both see. */
struct fake_shared {
	uint32_t seen[0x100];	/* requests, by command */
	uint32_t freed;		/* pages */
	uint32_t waiting, most;
	uint32_t go;		/* from the test */
};

/* True: it was dealt with. */
typedef bool fake_hook(int fd, struct fake_msg *m);

struct fake {
	char dir[32];
	char path[64];
	pid_t pid;
};

static struct fake_shared *fake_shared;

static inline void fake_reply(int fd, const struct fake_msg *m, int rc)
{
	struct kvcb_head h = m->h;
	struct iovec iov[2] = { { &h, sizeof(h) },
				{ (void *)m->bytes, m->size } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	h.rc = rc;
	if (sendmsg(fd, &msg, MSG_NOSIGNAL) < 0)
		_exit(0);
}

/* Descriptors of @nr pages. */
static inline void fake_pages(int fd, uint32_t cookie, const void *handles,
			      uint32_t nr, uint32_t flags)
{
	struct kvcb_head h = {
		.magic = KVCB_MAGIC, .nr = KVCB_NR_PAGES, .cookie = cookie,
	};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(KVCB_FDS_MAX * sizeof(int))];
	} control = { 0 };
	struct kvcb_pages p = { .nr = nr };
	struct iovec iov[2] = { { &h, sizeof(h) }, { &p, 0 } };
	struct msghdr msg = {
		.msg_iov = iov, .msg_iovlen = 2, .msg_control = &control,
		.msg_controllen = CMSG_SPACE(nr * sizeof(int)),
	};
	struct cmsghdr *cm = CMSG_FIRSTHDR(&msg);
	static char data[FAKE_PAGE];
	int fds[KVCB_FDS_MAX];
	uint64_t handle;

	iov[1].iov_len = offsetof(struct kvcb_pages, pages) +
			 nr * sizeof(p.pages[0]);
	p.size = iov[1].iov_len;
	for (uint32_t i = 0; i < nr; i++) {
		memcpy(&handle, (const char *)handles + i * sizeof(handle),
		       sizeof(handle));
		memset(data, handle, sizeof(data));
		fds[i] = memfd_create("fake", 0);
		if (write(fds[i], data, sizeof(data)) != sizeof(data))
			_exit(1);
		p.pages[i] = (struct kvcb_page){ handle, 0, flags };
	}
	cm->cmsg_level = SOL_SOCKET;
	cm->cmsg_type = SCM_RIGHTS;
	cm->cmsg_len = CMSG_LEN(nr * sizeof(int));
	memcpy(CMSG_DATA(cm), fds, nr * sizeof(int));
	if (sendmsg(fd, &msg, MSG_NOSIGNAL) < 0)
		_exit(0);
	for (uint32_t i = 0; i < nr; i++)
		close(fds[i]);
}

/* Pages from number @first on, of generation 1. */
static inline void fake_grant(int fd, struct fake_msg *m, uint32_t first)
{
	for (uint32_t i = 0; i < m->alloc.nr; i++)
		m->alloc.out_pages[i] = 1ULL << 32 | (first + i);
	fake_pages(fd, m->h.cookie, m->alloc.out_pages, m->alloc.nr,
		   KVCB_PAGE_WRITE);
	fake_reply(fd, m, 0);
}

static inline void fake_serve(int fd, fake_hook *hook)
{
	static struct fake_msg m;
	uint32_t next = 1;

	while (recv(fd, &m, sizeof(m), 0) > 0) {
		__atomic_add_fetch(&fake_shared->seen[m.h.nr & 0xff], 1,
				   __ATOMIC_SEQ_CST);
		if (m.h.nr == KVCACHE_NR_FREE)
			__atomic_add_fetch(&fake_shared->freed, m.free.nr,
					   __ATOMIC_SEQ_CST);
		if (hook && hook(fd, &m))
			continue;
		switch (m.h.nr) {
		case KVCACHE_NR_QUERY:
			m.query.out_abi_version = KVCACHE_ABI_VERSION;
			m.query.out_nr_pools = 1;
			m.query.out_pools[0] = (struct kvcache_pool_info){
				.page_size = FAKE_PAGE,
				.capacity = FAKE_CAPACITY,
			};
			fake_reply(fd, &m, 0);
			break;
		case KVCACHE_NR_ALLOC:
			fake_grant(fd, &m, next);
			next += m.alloc.nr;
			break;
		case KVCB_NR_MAP:
			fake_pages(fd, m.h.cookie, m.map.pages, m.map.nr, 0);
			fake_reply(fd, &m, 0);
			break;
		case KVCB_NR_CANCEL:
			break;
		default:
			fake_reply(fd, &m, 0);
			break;
		}
	}
}

static inline void fake_start(struct fake *f, fake_hook *hook)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	pid_t parent = getpid();

	fake_shared = mmap(NULL, sizeof(*fake_shared), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(fake_shared != MAP_FAILED);
	strcpy(f->dir, "/tmp/kvc-fake-XXXXXX");
	ASSERT_TRUE(mkdtemp(f->dir) != NULL);
	snprintf(f->path, sizeof(f->path), "%s/broker", f->dir);
	strcpy(sun.sun_path, f->path);
	ASSERT_EQ(0, bind(fd, (struct sockaddr *)&sun, sizeof(sun)));
	ASSERT_EQ(0, listen(fd, 1));
	f->pid = fork();
	ASSERT_GE(f->pid, 0);
	if (!f->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		fake_serve(accept(fd, NULL, NULL), hook);
		_exit(0);
	}
	close(fd);
}

static inline void fake_kill(struct fake *f)
{
	if (!f->pid)
		return;
	kill(f->pid, SIGKILL);
	waitpid(f->pid, NULL, 0);
	f->pid = 0;
}

static inline void fake_stop(struct fake *f)
{
	fake_kill(f);
	unlink(f->path);
	rmdir(f->dir);
	munmap(fake_shared, sizeof(*fake_shared));
}

static inline uint32_t fake_seen(uint32_t nr)
{
	return __atomic_load_n(&fake_shared->seen[nr], __ATOMIC_SEQ_CST);
}

/* ---- a client of it ------------------------------------------------------- */

#define NEVER KVCACHE_TIME_NEVER

FIXTURE(broker) {
	struct fake fake;
	struct kvc_sys *s;
};
#define SELF struct ht_fix_broker *self

FIXTURE_SETUP(broker)
{
}

static inline void start(SELF, fake_hook *hook)
{
	fake_start(&self->fake, hook);
	ASSERT_EQ(0, kvc_sys_broker_open(self->fake.path, &self->s));
	ASSERT_STREQ("broker", self->s->ops->name);
}

FIXTURE_TEARDOWN(broker)
{
	if (self->s)
		self->s->ops->close(self->s);
	fake_stop(&self->fake);
}

static inline int alloc_until(struct kvc_sys *s, uint32_t nr, uint64_t deadline,
		       uint64_t *pages)
{
	struct kvcache_alloc a = {
		.size = sizeof(a), .nr = nr, .deadline_ns = deadline,
	};
	int rc = s->ops->call(s, KVCACHE_NR_ALLOC, &a);

	if (!rc)
		memcpy(pages, a.out_pages, nr * sizeof(*pages));
	return rc;
}

static inline int put(struct kvc_sys *s, const uint64_t *pages, uint32_t nr)
{
	struct kvcache_free f = { .size = sizeof(f), .nr = nr };

	memcpy(f.pages, pages, nr * sizeof(*pages));
	return s->ops->call(s, KVCACHE_NR_FREE, &f);
}

static inline int query(struct kvc_sys *s)
{
	struct kvcache_query q = { .size = sizeof(q) };

	return s->ops->call(s, KVCACHE_NR_QUERY, &q);
}

static inline char *at(struct kvc_sys *s, uint64_t page)
{
	return (char *)s->ops->window(s, 0, 1) + (uint32_t)page * FAKE_PAGE;
}

/* Can it be read? Asked of the kernel, so that nobody gets a signal. */
static inline bool readable(const char *p)
{
	int fd[2];
	bool ok;

	ASSERT_EQ(0, pipe(fd));
	ok = write(fd[1], p, 1) == 1;
	close(fd[0]);
	close(fd[1]);
	return ok;
}

static inline bool writable(char *p)
{
	int fd[2];
	bool ok;

	ASSERT_EQ(0, pipe(fd));
	ASSERT_EQ(1, write(fd[1], "x", 1));
	ok = read(fd[0], p, 1) == 1;
	close(fd[0]);
	close(fd[1]);
	return ok;
}

static inline void pause_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

#endif /* FAKE_BROKER_H */
