// SPDX-License-Identifier: MIT
/*
 * test_bounds.c - what one caller can use up or hold up, others have and do all
 * the same.
 */
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/resource.h>

#include "dev_mem.h"

/* As kmod/main.c has it. */
#define TENANT_CLIENTS	4096

static bool may_open(rlim_t nr)
{
	struct rlimit limit = { nr, nr };

	return !setrlimit(RLIMIT_NOFILE, &limit);
}

/* Clients of red until one is refused: 0, or the line that failed. */
static int use_up_clients(struct world *w)
{
	int fd = -1, nr;

	if (!may_open(TENANT_CLIENTS + 64))
		return __LINE__;
	/* One is there. */
	for (nr = 1; nr < TENANT_CLIENTS; nr++) {
		fd = dev_client("red");
		if (fd < 0) {
			printf("# client %d of the tenant: %d\n", nr + 1, fd);
			return __LINE__;
		}
	}
	if (dev_client("red") != -EDQUOT)
		return __LINE__;
	nr = dev_client("blue");
	if (nr < 0)
		return __LINE__;
	/* One that goes makes room for one. */
	close(fd);
	if (dev_client("red") < 0)
		return __LINE__;
	return dev_client("red") == -EDQUOT ? 0 : __LINE__;
}

TEST_F_TIMEOUT(dev, a_tenant_has_a_share_of_the_clients, 60)
{
	struct kvcache_tenant_info t;
	int status, k;
	pid_t pid;

	pid = fork();
	if (!pid)
		_exit(!!use_up_clients(&self->w));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	for (k = 0; k < 100; k++) {
		ASSERT_EQ(0, dev_tenant_info(self->w.admin, self->w.pool,
					     self->w.tenant[0], &t));
		if (t.clients == 1)
			break;
		usleep(50000);
	}
	EXPECT_EQ(1, t.clients);
}

TEST_F(dev, a_handle_does_not_outlive_its_pool)
{
	struct world *w = &self->w;
	uint64_t old, new;
	int pool, again;

	pool = dev_pool(w->admin, "first", PAGE, 1);
	ASSERT_GE(pool, 0);
	ASSERT_EQ(0, dev_alloc(w->fd[0], pool, 1, &old));
	ASSERT_EQ(0, dev_free(w->fd[0], pool, &old, 1));
	ASSERT_TRUE(dev_settles(w->admin, pool, 1));
	ASSERT_EQ(0, dev_pool_op(w->admin, pool, KVCACHE_POOL_REMOVE, 0, NULL));
	again = dev_pool(w->admin, "second", PAGE, 1);
	ASSERT_EQ(pool, again);
	ASSERT_EQ(0, dev_alloc(w->fd[0], pool, 1, &new));
	EXPECT_EQ((uint32_t)old, (uint32_t)new);
	EXPECT_EQ(-ESTALE, dev_free(w->fd[0], pool, &old, 1));
	EXPECT_EQ(0, dev_free(w->fd[0], pool, &new, 1));
	ASSERT_TRUE(dev_settles(w->admin, pool, 1));
	EXPECT_EQ(0, dev_pool_op(w->admin, pool, KVCACHE_POOL_REMOVE, 0, NULL));
}

/* ---- what cannot be copied ------------------------------------------------ */

TEST_F(dev, an_event_that_could_not_be_read_is_still_there)
{
	struct world *w = &self->w;
	struct kvcache_event ev[4] = { 0 };
	struct kvcache_event *bad = dev_read_only(ev, sizeof(ev));
	struct pollfd p = { .fd = w->fd[0], .events = POLLIN };
	uint64_t page;

	ASSERT_NE(NULL, bad);
	ASSERT_EQ(0, poll(&p, 1, 0));
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &page, 7));
	ASSERT_EQ(1, poll(&p, 1, 0));
	EXPECT_EQ(-1, read(w->fd[0], bad, sizeof(ev)));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(1, poll(&p, 1, 0));
	ASSERT_EQ((ssize_t)sizeof(ev[0]), read(w->fd[0], ev, sizeof(ev)));
	EXPECT_EQ(KVCACHE_EV_PUBLISHED, ev[0].type);
	EXPECT_EQ(page, ev[0].value);
	EXPECT_EQ(0, poll(&p, 1, 0));
	munmap(bad, DEV_READ_ONLY);
}

/* Memory that the test fills when it likes; the descriptor that does, or -1. */
static int memory_that_waits(void **at)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	*at = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	reg.range.start = (uintptr_t)*at;
	reg.range.len = 4096;
	if (fd >= 0 && !ioctl(fd, UFFDIO_API, &api) &&
	    !ioctl(fd, UFFDIO_REGISTER, &reg))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

struct reader {
	int fd;
	void *at;
	ssize_t got;
};

static void *read_one(void *arg)
{
	struct reader *r = arg;

	r->got = read(r->fd, r->at, sizeof(struct kvcache_event));
	return NULL;
}

TEST_F(dev, a_reader_whose_memory_does_not_answer_holds_up_nobody)
{
	struct world *w = &self->w;
	struct pollfd p = { .fd = w->fd[0], .events = POLLIN };
	struct reader r = { .fd = w->fd[0] };
	struct uffdio_zeropage zero = { 0 };
	struct kvcache_event ev;
	struct uffd_msg msg;
	pthread_t thread;
	uint64_t page;
	int uffd;

	uffd = memory_that_waits(&r.at);
	if (uffd < 0)
		SKIP(return, "the kernel has no userfaultfd");
	ASSERT_EQ(0, poll(&p, 1, 0));
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &page, 7));
	ASSERT_EQ(0, pthread_create(&thread, NULL, read_one, &r));
	/* It has the event, and waits for where to put it. */
	ASSERT_EQ((ssize_t)sizeof(msg), read(uffd, &msg, sizeof(msg)));
	EXPECT_EQ(-EALREADY, dev_attach(w->fd[0], "red"));
	ASSERT_EQ(0, fcntl(w->fd[0], F_SETFL, O_NONBLOCK));
	EXPECT_EQ(-1, read(w->fd[0], &ev, sizeof(ev)));
	EXPECT_EQ(EAGAIN, errno);
	zero.range.start = (uintptr_t)r.at;
	zero.range.len = 4096;
	ASSERT_EQ(0, ioctl(uffd, UFFDIO_ZEROPAGE, &zero));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ((ssize_t)sizeof(ev), r.got);
	EXPECT_EQ(page, ((struct kvcache_event *)r.at)->value);
	munmap(r.at, 4096);
	close(uffd);
}

/* ---- whose pages are cleaned ---------------------------------------------- */

#define HEAVY_PAGES	12
#define HEAVY_PAGE	(16 * MIB)

/*
 * 1: the light page was clean while heavy ones were yet to be; 0: it was not;
 * -1: they were all clean when it was looked at first.
 */
static int clean_both(struct world *w, int heavy)
{
	char *rw = dev_window(w->fd[0], w->pool, true);
	char *big = dev_window(w->fd[0], heavy, true);
	struct kvcache_pool_info p = { 0 }, h = { 0 };
	uint64_t page, pages[HEAVY_PAGES];
	int k, looks = 0;

	if (dev_alloc(w->fd[0], heavy, HEAVY_PAGES, pages) ||
	    dev_alloc(w->fd[0], w->pool, 1, &page))
		return 0;
	for (k = 0; k < HEAVY_PAGES; k++)
		big[(uint32_t)pages[k] * HEAVY_PAGE] = 1;
	rw[(uint32_t)page * PAGE] = 1;
	if (dev_free(w->fd[0], heavy, pages, HEAVY_PAGES) ||
	    dev_free(w->fd[0], w->pool, &page, 1))
		return 0;
	do {
		dev_pool_info(w->admin, heavy, &h);
		dev_pool_info(w->admin, w->pool, &p);
		/* Read again: it had some still when the light one was done. */
		if (p.nr_free == PAGES)
			dev_pool_info(w->admin, heavy, &h);
		looks++;
	} while (p.nr_free != PAGES && h.nr_retiring);
	if (!dev_settles(w->admin, heavy, HEAVY_PAGES) ||
	    !dev_settles(w->admin, w->pool, PAGES))
		return 0;
	if (h.nr_retiring)
		return 1;
	return looks > 1 ? 0 : -1;
}

/* The heavy pool's number is the lower one. */
TEST_F(dev, a_pool_with_much_to_clean_does_not_hold_up_another)
{
	struct world *w = &self->w;
	struct world second = { .admin = w->admin, .fd = { w->fd[0] } };
	int heavy = w->pool, light, rc = -1, k;

	light = dev_pool(w->admin, "light", PAGE, PAGES);
	ASSERT_GE(light, 0);
	ASSERT_EQ(0, dev_pool_op(w->admin, heavy, KVCACHE_POOL_REMOVE, 0, NULL));
	ASSERT_EQ(heavy, dev_pool(w->admin, "heavy", HEAVY_PAGE, HEAVY_PAGES));
	ASSERT_LT(heavy, light);
	second.pool = light;
	for (k = 0; k < 5 && rc < 0; k++)
		rc = clean_both(&second, heavy);
	dev_unmap_all();
	EXPECT_EQ(0, dev_pool_op(w->admin, light, KVCACHE_POOL_REMOVE, 0, NULL));
	if (rc < 0)
		SKIP(return, "all was clean at once");
	EXPECT_EQ(1, rc);
}

/* ---- memory that breaks ---------------------------------------------------- */

/* Where the page is mapped now, says the machine, it can be read no more. */
static bool break_memory(char *at)
{
	struct sigaction sa = { .sa_handler = dev_on_fault }, was;
	bool known = true;

	sigaction(SIGBUS, &sa, &was);
	/* What it says of a page that it can do nothing about differs. */
	if (!sigsetjmp(dev_fault_jmp, 1))
		known = !madvise(at, 4096, MADV_HWPOISON) || errno != EINVAL;
	sigaction(SIGBUS, &was, NULL);
	return known;
}

/* The pool cannot have all its pages free; there is another one for the end. */
static int end_without(struct world *w)
{
	struct kvcache_tenant_ref ref = { .size = sizeof(ref) };
	int k, rc;

	dev_unmap_all();
	for (k = 0; k < 2; k++) {
		close(w->fd[k]);
		w->fd[k] = -1;
		ref.tenant = w->tenant[k];
		rc = dev_call(w->admin, KVCACHE_NR_TENANT_REMOVE, &ref);
		if (rc)
			return rc;
	}
	rc = dev_pool_op(w->admin, w->pool, KVCACHE_POOL_REMOVE, 0, NULL);
	if (rc)
		return rc;
	close(w->admin);
	return world_make(w, PAGE, PAGES);
}

TEST_F(dev, a_page_whose_memory_breaks_is_taken_from_all_who_hold_it)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[0], w->pool, true), *ro, *at;
	int other = dev_client("red"), k;
	struct pollfd p = { .fd = other, .events = POLLIN };
	struct kvcache_event ev = { 0 };
	struct kvcache_pool_info info;
	uint64_t page, found;

	ASSERT_GE(other, 0);
	ASSERT_EQ(0, poll(&p, 1, 0));
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	at = rw + (uint32_t)page * PAGE;
	strcpy(at, "sound");
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &page, 7));
	ASSERT_EQ(0, dev_lookup(other, w->pool, 7, &found));
	while (poll(&p, 1, 0) == 1)
		ASSERT_EQ((ssize_t)sizeof(ev), read(other, &ev, sizeof(ev)));
	ro = dev_window(other, w->pool, false) + (uint32_t)page * PAGE;
	ASSERT_STREQ("sound", ro);
	at = dev_window(w->fd[0], w->pool, false) + (uint32_t)page * PAGE;
	ASSERT_STREQ("sound", at);
	if (!break_memory(at)) {
		close(other);
		SKIP(return, "the kernel has no CONFIG_MEMORY_FAILURE");
	}
	/* Mappings that are there stay. */
	EXPECT_EQ(0, dev_touch(ro, false));
	EXPECT_EQ(0, poll(&p, 1, 0));
	/* Somebody maps it anew, and finds out. */
	ASSERT_EQ(0, madvise(at, PAGE, MADV_DONTNEED));
	EXPECT_EQ(SIGBUS, dev_touch(at, false));
	ASSERT_EQ(1, poll(&p, 1, 5000));
	ASSERT_EQ((ssize_t)sizeof(ev), read(other, &ev, sizeof(ev)));
	EXPECT_EQ(KVCACHE_EV_REVOKED, ev.type);
	EXPECT_EQ(page, ev.value);
	EXPECT_EQ(-ESTALE, dev_free(other, w->pool, &page, 1));
	for (k = 0; k < 1000; k++) {
		ASSERT_EQ(0, dev_pool_info(w->admin, w->pool, &info));
		if (info.nr_retiring == 1 && dev_touch(ro, false) == SIGBUS)
			break;
		usleep(5000);
	}
	EXPECT_EQ(SIGBUS, dev_touch(ro, false));
	EXPECT_EQ(1, info.nr_retiring);
	EXPECT_EQ(PAGES - 1, info.nr_free);
	close(other);
	/* Its tenant and its pool go without it. */
	EXPECT_EQ(0, end_without(w));
}

TEST_F(dev, who_finds_it_broken_through_a_dma_buf_says_so_for_all)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[0], w->pool, true), *at, *buf;
	struct pollfd p = { .fd = w->fd[0], .events = POLLIN };
	struct kvcache_event ev = { 0 };
	struct kvcache_export e;
	uint64_t pages[2];

	ASSERT_EQ(0, poll(&p, 1, 0));
	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 2, pages));
	at = AT(rw, pages[1]);
	*at = 1;
	memset(&e, 0, sizeof(e));
	e.size = sizeof(e);
	e.pool = w->pool;
	e.nr = 2;
	memcpy(e.pages, pages, sizeof(pages));
	ASSERT_EQ(0, dev_call(w->fd[0], KVCACHE_NR_EXPORT, &e));
	buf = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, e.out_fd, 0);
	ASSERT_NE(MAP_FAILED, buf);
	if (!break_memory(at)) {
		munmap(buf, 2 * PAGE);
		close(e.out_fd);
		SKIP(return, "the kernel has no CONFIG_MEMORY_FAILURE");
	}
	EXPECT_EQ(0, dev_touch(buf, false));
	EXPECT_EQ(0, poll(&p, 1, 0));
	EXPECT_EQ(SIGBUS, dev_touch(buf + PAGE, false));
	ASSERT_EQ(1, poll(&p, 1, 5000));
	ASSERT_EQ((ssize_t)sizeof(ev), read(w->fd[0], &ev, sizeof(ev)));
	EXPECT_EQ(KVCACHE_EV_REVOKED, ev.type);
	EXPECT_EQ(pages[1], ev.value);
	EXPECT_EQ(0, poll(&p, 1, 0));
	/* The dma-buf still has it, and its owner pays. */
	EXPECT_EQ(KVCACHE_PAGE_RETIRING, page_state(w, pages[1]));
	EXPECT_EQ(2, charge(w, 0));
	munmap(buf, 2 * PAGE);
	close(e.out_fd);
	for (int k = 0; k < 1000 && charge(w, 0) != 1; k++)
		usleep(5000);
	EXPECT_EQ(1, charge(w, 0));
	EXPECT_EQ(KVCACHE_PAGE_RETIRING, page_state(w, pages[1]));
	EXPECT_EQ(KVCACHE_PAGE_PRIVATE, page_state(w, pages[0]));
	EXPECT_EQ(0, dev_free(w->fd[0], w->pool, pages, 1));
	EXPECT_EQ(0, end_without(w));
}

TEST_HARNESS_MAIN
