// SPDX-License-Identifier: MIT
/*
 * test_foreign.c - what is another's: an open that another process attaches
 * while a call on it is under way, and pages held through a grant.
 */
#include <linux/userfaultfd.h>

#include "dev_mem.h"

/* ---- an open that becomes another process' ------------------------------- */

#define ARG_BYTES	(16 << 10)

/**
 * struct stalled - a call of another process that waits for its argument
 * @fd: an open that is not attached
 * @nr: the command
 * @at: where its argument is to be
 * @arg: what it is to be
 */
struct stalled {
	int fd;
	unsigned int nr;
	char *at;
	union {
		struct kvcache_alloc alloc;
		struct kvcache_free free;
		struct kvcache_export export;
		struct kvcache_lookup lookup;
		struct kvcache_query query;
		struct kvcache_publish publish;
		char bytes[ARG_BYTES];
	} arg __attribute__((aligned(4096)));
};

static int count_fds(void)
{
	int fd, nr = 0;

	for (fd = 0; fd < 256; fd++)
		nr += fcntl(fd, F_GETFD) >= 0;
	return nr;
}

/* Memory that the kernel asks the descriptor for, or -errno. */
static int fed_memory(char *at)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { (uintptr_t)at, ARG_BYTES },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) ||
	    ioctl(fd, UFFDIO_REGISTER, &reg))
		return -errno;
	return fd;
}

/* What goes on in the other process. */
static void call_stalled(int sock, void *arg)
{
	struct stalled *s = arg;
	int rc = fed_memory(s->at), fds;

	if (rc < 0 || send_fd(sock, rc))
		_exit(1);
	close(rc);
	fds = count_fds();
	say(sock, -dev_call(s->fd, s->nr, s->at));
	say(sock, count_fds() - fds);
	hear(sock);
}

static void fill_arg(struct stalled *s, uint32_t pool, uint64_t page)
{
	struct kvcache_publish_page *e = s->arg.publish.pages;
	uint32_t key = 2;

	memset(s->arg.bytes, 0, ARG_BYTES);
	switch (s->nr) {
	case KVCACHE_NR_ALLOC:
		s->arg.alloc.size = sizeof(s->arg.alloc);
		s->arg.alloc.pool = pool;
		s->arg.alloc.nr = 1;
		memset(s->arg.alloc.out_pages, 0xcc,
		       sizeof(s->arg.alloc.out_pages));
		break;
	case KVCACHE_NR_FREE:
		s->arg.free.size = sizeof(s->arg.free);
		s->arg.free.pool = pool;
		s->arg.free.nr = 1;
		s->arg.free.pages[0] = page;
		break;
	case KVCACHE_NR_EXPORT:
		s->arg.export.size = sizeof(s->arg.export);
		s->arg.export.pool = pool;
		s->arg.export.nr = 1;
		s->arg.export.out_fd = 0xcccccccc;
		s->arg.export.pages[0] = page;
		break;
	case KVCACHE_NR_LOOKUP:
		s->arg.lookup.size = sizeof(s->arg.lookup);
		s->arg.lookup.pool = pool;
		s->arg.lookup.nr_keys = 1;
		s->arg.lookup.keys_per_page = 1;
		key = 1;
		memcpy(s->arg.lookup.keys[0], &key, sizeof(key));
		break;
	case KVCACHE_NR_QUERY:
		s->arg.query.size = sizeof(s->arg.query);
		memset(&s->arg.query.out_client, 0xcc, 8);
		break;
	case KVCACHE_NR_PUBLISH:
		s->arg.publish.size = sizeof(s->arg.publish);
		s->arg.publish.pool = pool;
		s->arg.publish.nr = 1;
		e->handle = page;
		e->nr_keys = 1;
		e->ttl_ns = NEVER;
		e->keys[0].fill = 1;
		memcpy(e->keys[0].key, &key, sizeof(key));
		break;
	}
}

/* Goes on with the call. */
static int feed(int uffd, const struct stalled *s)
{
	struct uffdio_copy copy = {
		.dst = (uintptr_t)s->at, .src = (uintptr_t)s->arg.bytes,
		.len = ARG_BYTES,
	};

	return ioctl(uffd, UFFDIO_COPY, &copy) ? -errno : 0;
}

FIXTURE(late) {
	struct world w;
	struct stalled *s;
};

FIXTURE_VARIANT(late) {
	unsigned int nr;
};

FIXTURE_VARIANT_ADD(late, alloc) { .nr = KVCACHE_NR_ALLOC };
FIXTURE_VARIANT_ADD(late, free) { .nr = KVCACHE_NR_FREE };
FIXTURE_VARIANT_ADD(late, export) { .nr = KVCACHE_NR_EXPORT };
FIXTURE_VARIANT_ADD(late, lookup) { .nr = KVCACHE_NR_LOOKUP };
FIXTURE_VARIANT_ADD(late, query) { .nr = KVCACHE_NR_QUERY };
FIXTURE_VARIANT_ADD(late, publish) { .nr = KVCACHE_NR_PUBLISH };

FIXTURE_SETUP(late)
{
	static struct stalled s;

	ASSERT_EQ(0, world_make(&self->w, PAGE, PAGES));
	self->s = &s;
	s.nr = variant->nr;
	s.fd = dev_open();
	ASSERT_LE(0, s.fd);
	s.at = mmap(NULL, ARG_BYTES, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, s.at);
}

FIXTURE_TEARDOWN(late)
{
	close(self->s->fd);
	munmap(self->s->at, ARG_BYTES);
	EXPECT_EQ(0, world_end(&self->w));
}

TEST_F(late, a_call_that_began_before_another_process_attached_is_not_its)
{
	static char now[ARG_BYTES];
	struct world *w = &self->w;
	struct stalled *s = self->s;
	struct kvcache_page_info page;
	struct uffd_msg msg;
	struct child c;
	uint64_t h[2];
	int uffd;

	ASSERT_EQ(0, child_start(&c, call_stalled, s));
	uffd = recv_fd(c.sock);
	if (uffd < 0) {
		child_join(&c);
		SKIP(return, "no userfaultfd");
	}
	ASSERT_EQ(sizeof(msg), read(uffd, &msg, sizeof(msg)));
	ASSERT_EQ(UFFD_EVENT_PAGEFAULT, msg.event);
	ASSERT_EQ(0, dev_attach(s->fd, "red"));
	ASSERT_EQ(0, dev_alloc(s->fd, w->pool, 2, h));
	ASSERT_EQ(0, dev_publish(s->fd, w->pool, &h[1], 1));
	fill_arg(s, w->pool, h[0]);
	ASSERT_EQ(0, feed(uffd, s));
	EXPECT_EQ(EPERM, hear(c.sock));
	EXPECT_EQ(0, hear(c.sock));
	ASSERT_EQ(ARG_BYTES, mem_get(c.pid, s->at, now, ARG_BYTES));
	EXPECT_EQ(0, memcmp(now, s->arg.bytes, ARG_BYTES));
	EXPECT_EQ(2, charge(w, 0));
	page = page_info(w->admin, w->pool, h[0]);
	EXPECT_EQ(h[0], page.handle);
	EXPECT_EQ(KVCACHE_PAGE_PRIVATE, page.state);
	EXPECT_EQ(0, page.flags);
	page = page_info(w->admin, w->pool, h[1]);
	EXPECT_EQ(h[1], page.handle);
	EXPECT_EQ(KVCACHE_PAGE_SHARED, page.state);
	EXPECT_EQ(1, page.refs);
	close(uffd);
	say(c.sock, 'x');
	EXPECT_EQ(0, child_join(&c));
	EXPECT_EQ(0, dev_free(s->fd, w->pool, h, 2));
}

/* ---- pages of others ----------------------------------------------------- */

/* 0 and the descriptor in @out, or -errno and what it was. */
static int export(int fd, uint32_t pool, const uint64_t *pages, uint32_t nr,
		  int *out)
{
	struct kvcache_export e;
	int err;

	POISON(e);
	e.pool = pool;
	e.nr = nr;
	e.__reserved = 0;
	memcpy(e.pages, pages, nr * sizeof(*pages));
	err = dev_call(fd, KVCACHE_NR_EXPORT, &e);
	*out = e.out_fd;
	return err;
}

TEST_F(dev, a_page_held_through_a_grant_is_not_exported)
{
	struct world *w = &self->w;
	struct kvcache_tenant_grant g = {
		.size = sizeof(g), .tenant = w->tenant[0], .to = w->tenant[1],
		.rights = KVCACHE_GRANT_LOOKUP, .max_held = 4,
	};
	uint64_t its, both[2];
	int fds = count_fds(), fd;

	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_GRANT, &g));
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &its));
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &its, 1));
	ASSERT_EQ(0, dev_lookup(w->fd[1], w->pool, 1, &both[1]));
	ASSERT_EQ(its, both[1]);
	EXPECT_EQ(-EPERM, export(w->fd[1], w->pool, &its, 1, &fd));
	EXPECT_EQ(0, page_info(w->admin, w->pool, its).flags);
	/* Nor with one of its own. */
	ASSERT_EQ(0, dev_alloc(w->fd[1], w->pool, 1, both));
	ASSERT_EQ(0, dev_publish(w->fd[1], w->pool, both, 2));
	EXPECT_EQ(-EPERM, export(w->fd[1], w->pool, both, 2, &fd));
	EXPECT_EQ(0, page_info(w->admin, w->pool, both[0]).flags);
	EXPECT_EQ(0, page_info(w->admin, w->pool, its).flags);
	EXPECT_EQ(2, page_info(w->admin, w->pool, its).refs);
	EXPECT_EQ(fds, count_fds());
	/* Nothing keeps it from ending. */
	EXPECT_EQ(0, dev_free(w->fd[1], w->pool, both, 2));
	EXPECT_EQ(0, page_info(w->admin, w->pool, its).flags);
	ASSERT_EQ(0, export(w->fd[0], w->pool, &its, 1, &fd));
	EXPECT_NE(0, page_info(w->admin, w->pool, its).flags);
	close(fd);
	EXPECT_EQ(0, dev_free(w->fd[0], w->pool, &its, 1));
}

TEST_HARNESS_MAIN
