// SPDX-License-Identifier: MIT
/*
 * test_isolate.c - two tenants that try to see each other by every route: none
 * leads to a byte, a name or a number of the other's.
 */
#include <sys/uio.h>

#include "child.h"

#define RED	0
#define BLUE	1

static char *at(char *window, uint64_t page)
{
	return window + (uint32_t)page * PAGE;
}

/* What blue does with a page of red's, by each command. */
static int blue_frees(struct world *w, uint64_t page)
{
	return dev_free(w->fd[BLUE], w->pool, &page, 1);
}

static int blue_publishes(struct world *w, uint64_t page)
{
	return dev_publish_as(w->fd[BLUE], w->pool, &page, 1,
			      KVCACHE_PUBLISH_COPY, 0, NULL);
}

static int blue_advises(struct world *w, uint64_t page)
{
	uint32_t advice;
	int rc = 0, each;

	for (advice = 1; advice <= KVCACHE_ADVISE_NONVOLATILE; advice <<= 1) {
		struct kvcache_advise a = {
			.size = sizeof(a), .pool = w->pool, .nr = 1,
			.advice = advice, .pages[0] = page,
		};

		if (advice & KVCACHE_ADVISE_PRIORITY)
			a.ttl_ns = NEVER;
		each = dev_call(w->fd[BLUE], KVCACHE_NR_ADVISE, &a);
		if (rc && each != rc)
			return -EIO;
		rc = each;
	}
	return rc;
}

static int blue_exports(struct world *w, uint64_t page)
{
	struct kvcache_export x = {
		.size = sizeof(x), .pool = w->pool, .nr = 1, .out_fd = -1,
		.pages[0] = page,
	};
	int rc = dev_call(w->fd[BLUE], KVCACHE_NR_EXPORT, &x);

	if (!rc)
		close(x.out_fd);
	return rc;
}

static int (*const blue_tries[])(struct world *w, uint64_t page) = {
	blue_frees, blue_publishes, blue_advises, blue_exports,
};

/* ---- handles ------------------------------------------------------------- */

TEST_F(dev, a_handle_of_anothers_page_opens_nothing)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[RED], w->pool, true);
	char *ro = dev_window(w->fd[RED], w->pool, false);
	uint64_t private, shared, cached, next;
	unsigned int k;

	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, 1, &private));
	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, 1, &shared));
	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, 1, &cached));
	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, 1, &next));
	strcpy(at(rw, private), "secret");
	strcpy(at(rw, shared), "secret");
	ASSERT_EQ(0, dev_publish(w->fd[RED], w->pool, &shared, 1));
	ASSERT_EQ(0, dev_publish(w->fd[RED], w->pool, &cached, 2));
	ASSERT_EQ(0, dev_free(w->fd[RED], w->pool, &cached, 1));
	for (k = 0; k < ARRAY_SIZE(blue_tries); k++) {
		EXPECT_EQ(-EPERM, blue_tries[k](w, private));
		EXPECT_EQ(-EPERM, blue_tries[k](w, shared));
		EXPECT_EQ(-EPERM, blue_tries[k](w, cached));
		/* Guessed generations, and pages nobody has. */
		EXPECT_EQ(-ESTALE, blue_tries[k](w, private + (1ULL << 32)));
		EXPECT_EQ(-ESTALE, blue_tries[k](w, (uint32_t)private));
		EXPECT_EQ(-ESTALE, blue_tries[k](w, 1ULL << 32 | PAGES));
	}
	/* Nothing has changed for red. */
	EXPECT_STREQ("secret", at(rw, private));
	EXPECT_STREQ("secret", at(ro, shared));
	EXPECT_EQ(0, dev_touch(at(rw, private), true));
	EXPECT_EQ(0, dev_lookup(w->fd[RED], w->pool, 2, &cached));
}

TEST_F(dev, one_foreign_page_among_ones_own_refuses_all)
{
	struct world *w = &self->w;
	char *rw = dev_window(w->fd[BLUE], w->pool, true);
	struct kvcache_free f = { .size = sizeof(f), .pool = w->pool, .nr = 3 };
	struct kvcache_pool_info p;
	uint64_t red, blue[2];

	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, 1, &red));
	ASSERT_EQ(0, dev_alloc(w->fd[BLUE], w->pool, 2, blue));
	strcpy(at(rw, blue[0]), "mine");
	f.pages[0] = blue[0];
	f.pages[1] = red;
	f.pages[2] = blue[1];
	EXPECT_EQ(-EPERM, dev_call(w->fd[BLUE], KVCACHE_NR_FREE, &f));
	EXPECT_STREQ("mine", at(rw, blue[0]));
	EXPECT_EQ(0, dev_touch(at(rw, blue[1]), true));
	ASSERT_EQ(0, dev_pool_info(w->admin, w->pool, &p));
	EXPECT_EQ(3, p.nr_private);
}

TEST_F(dev, a_stale_handle_is_not_the_next_owners_page)
{
	struct world *w = &self->w;
	char *blue_rw = dev_window(w->fd[BLUE], w->pool, true);
	char *red_rw = dev_window(w->fd[RED], w->pool, true);
	uint64_t pages[PAGES], old;
	unsigned int k;

	ASSERT_EQ(0, dev_alloc(w->fd[BLUE], w->pool, 1, &old));
	memset(at(blue_rw, old), 'b', PAGE);
	ASSERT_EQ(0, dev_free(w->fd[BLUE], w->pool, &old, 1));
	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, PAGES, pages));
	for (k = 0; k < PAGES; k++) {
		EXPECT_NE(old, pages[k]);
		if ((uint32_t)pages[k] != (uint32_t)old)
			continue;
		EXPECT_TRUE(dev_is_zero(at(red_rw, pages[k]), PAGE));
		strcpy(at(red_rw, pages[k]), "secret");
	}
	for (k = 0; k < ARRAY_SIZE(blue_tries); k++)
		EXPECT_EQ(-ESTALE, blue_tries[k](w, old));
	EXPECT_EQ(SIGBUS, dev_touch(at(blue_rw, old), false));
	EXPECT_EQ(SIGBUS, dev_touch(at(blue_rw, old), true));
	EXPECT_STREQ("secret", at(red_rw, old));
}

/* ---- memory -------------------------------------------------------------- */

TEST_F(dev, no_window_shows_anothers_page)
{
	struct world *w = &self->w;
	char *mine = dev_window(w->fd[RED], w->pool, true);
	int colleague = dev_client("red"), fd[2] = { w->fd[BLUE], colleague };
	uint64_t private, shared;
	int k, write;

	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, 1, &private));
	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, 1, &shared));
	strcpy(at(mine, private), "secret");
	ASSERT_EQ(0, dev_publish(w->fd[RED], w->pool, &shared, 1));
	/* Nor one of the same tenant that it does not hold. */
	for (k = 0; k < 4; k++) {
		char *window = dev_window(fd[k / 2], w->pool, k % 2);

		ASSERT_NE(MAP_FAILED, window);
		for (write = 0; write <= k % 2; write++) {
			EXPECT_EQ(SIGBUS, dev_touch(at(window, private),
						    write));
			EXPECT_EQ(SIGBUS, dev_touch(at(window, shared),
						    write));
		}
	}
	EXPECT_STREQ("secret", at(mine, private));
	close(colleague);
}

TEST_F(dev, the_kernel_reads_no_freed_page_for_anybody)
{
	struct world *w = &self->w;
	char *blue_rw = dev_window(w->fd[BLUE], w->pool, true);
	char *red_rw = dev_window(w->fd[RED], w->pool, true);
	struct iovec to = { 0 }, from = { .iov_len = 16 };
	uint64_t pages[PAGES], old;
	int mem = open("/proc/self/mem", O_RDWR), ends[2];
	char buf[16] = "";
	int k;

	ASSERT_LE(0, mem);
	ASSERT_EQ(0, pipe(ends));
	ASSERT_EQ(0, dev_alloc(w->fd[BLUE], w->pool, 1, &old));
	strcpy(at(blue_rw, old), "blue's");
	ASSERT_EQ(7, write(ends[1], at(blue_rw, old), 7));
	ASSERT_EQ(7, read(ends[0], buf, 7));
	ASSERT_EQ(0, dev_free(w->fd[BLUE], w->pool, &old, 1));
	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, PAGES, pages));
	for (k = 0; k < PAGES; k++)
		strcpy(at(red_rw, pages[k]), "secret");

	memset(buf, 'x', sizeof(buf));
	to.iov_base = buf;
	to.iov_len = sizeof(buf);
	from.iov_base = at(blue_rw, old);
	EXPECT_EQ(-1, write(ends[1], at(blue_rw, old), 16));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, process_vm_readv(getpid(), &to, 1, &from, 1, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, process_vm_writev(getpid(), &to, 1, &from, 1, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, pread(mem, buf, 16, (off_t)at(blue_rw, old)));
	EXPECT_EQ(EIO, errno);
	EXPECT_EQ(-1, pwrite(mem, buf, 16, (off_t)at(blue_rw, old)));
	EXPECT_EQ(EIO, errno);
	for (k = 0; k < 16; k++)
		EXPECT_EQ('x', buf[k]);
	EXPECT_STREQ("secret", at(red_rw, old));
	close(mem);
	close(ends[0]);
	close(ends[1]);
}

TEST_F(dev, a_dma_buf_keeps_its_pages_from_others)
{
	struct world *w = &self->w;
	struct kvcache_export x = {
		.size = sizeof(x), .pool = w->pool, .nr = 1,
	};
	char *red_rw = dev_window(w->fd[RED], w->pool, true), *buf;
	uint64_t pages[PAGES], page;
	int k;

	ASSERT_EQ(0, dev_alloc(w->fd[BLUE], w->pool, 1, &page));
	x.pages[0] = page;
	ASSERT_EQ(0, dev_call(w->fd[BLUE], KVCACHE_NR_EXPORT, &x));
	buf = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, x.out_fd,
		   0);
	ASSERT_NE(MAP_FAILED, buf);
	ASSERT_EQ(0, dev_free(w->fd[BLUE], w->pool, &page, 1));
	EXPECT_EQ(-ENOSPC, dev_alloc(w->fd[RED], w->pool, PAGES, pages));
	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, PAGES - 1, pages));
	for (k = 0; k < PAGES - 1; k++)
		EXPECT_NE((uint32_t)page, (uint32_t)pages[k]);
	strcpy(buf, "blue's");
	close(x.out_fd);
	EXPECT_EQ(-ENOSPC, dev_alloc(w->fd[RED], w->pool, 1, pages));
	ASSERT_EQ(0, munmap(buf, PAGE));
	ASSERT_EQ(0, dev_alloc_until(w->fd[RED], w->pool, 1,
				     dev_now() + 10000000000ULL, pages));
	EXPECT_EQ((uint32_t)page, (uint32_t)pages[0]);
	EXPECT_TRUE(dev_is_zero(at(red_rw, pages[0]), PAGE));
}

/* ---- keys ---------------------------------------------------------------- */

TEST_F(dev, equal_keys_of_tenants_do_not_meet)
{
	struct world *w = &self->w;
	uint64_t page[2], found;
	uint32_t result[2];
	int k;

	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, dev_alloc(w->fd[k], w->pool, 1, &page[k]));
		ASSERT_EQ(0, dev_publish_as(w->fd[k], w->pool, &page[k], 7, 0,
					    0, &result[k]));
		/* No deduplication, which would tell that it exists. */
		EXPECT_EQ(KVCACHE_PUBLISHED, result[k]);
	}
	EXPECT_NE(page[0], page[1]);
	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, dev_lookup(w->fd[k], w->pool, 7, &found));
		EXPECT_EQ(page[k], found);
	}
}

TEST_F(dev, a_lookup_says_the_same_whatever_others_have)
{
	struct world *w = &self->w;
	struct kvcache_lookup before, after, *l;
	uint64_t page;
	int k;

	for (k = 0; k < 2; k++) {
		l = k ? &after : &before;
		POISON(*l);
		l->flags = KVCACHE_LOOKUP_PEEK;
		l->pool = w->pool;
		l->nr_keys = 1;
		l->keys_per_page = 1;
		l->tail = 0;
		memset(l->keys, 0, sizeof(l->keys));
		l->keys[0][0] = 9;
		ASSERT_EQ(0, dev_call(w->fd[BLUE], KVCACHE_NR_LOOKUP, l));
		if (k)
			break;
		ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, 1, &page));
		ASSERT_EQ(0, dev_publish(w->fd[RED], w->pool, &page, 9));
		ASSERT_EQ(0, dev_free(w->fd[RED], w->pool, &page, 1));
	}
	EXPECT_EQ(0, memcmp(&before, &after, sizeof(before)));
}

/* ---- lists --------------------------------------------------------------- */

/* An unprivileged client of blue's looks for what is red's. */
static int looks_around(void *arg)
{
	struct world *w = arg;
	struct kvcache_tenant_get t;
	struct kvcache_client_get c;
	struct kvcache_page_get p;
	struct kvcache_grant_get g;
	struct kvcache_pool_get s;
	uint32_t start[3] = { 0, w->tenant[RED], 1 }, n, k;
	uint64_t page;
	int fd;

	become(1001, 1001, 0);
	fd = dev_client("blue");
	MUST(fd >= 0);
	MUST(!dev_alloc(fd, w->pool, 1, &page));
	for (k = 0; k < 3; k++) {
		POISON(t);
		t.pool = w->pool;
		t.start = start[k];
		MUST(!dev_call(fd, KVCACHE_NR_TENANT_GET, &t));
		MUST(t.out_nr == 1 && !t.out_next);
		MUST(t.out_info[0].id == w->tenant[BLUE]);
		MUST(dev_is_zero((char *)&t.out_info[1],
				 sizeof(t.out_info) - sizeof(t.out_info[0])));
		POISON(c);
		c.pool = w->pool;
		c.start = k;
		MUST(!dev_call(fd, KVCACHE_NR_CLIENT_GET, &c));
		MUST(c.out_nr == 2 && !c.out_next);
		for (n = 0; n < c.out_nr; n++)
			MUST(c.out_info[n].tenant == w->tenant[BLUE]);
		POISON(p);
		p.pool = w->pool;
		p.start = k;
		MUST(!dev_call(fd, KVCACHE_NR_PAGE_GET, &p));
		MUST(p.out_nr == 2 && !p.out_next);
		for (n = 0; n < p.out_nr; n++)
			MUST(p.out_info[n].tenant == w->tenant[BLUE]);
		POISON(g);
		g.__reserved = 0;
		g.start = k;
		MUST(!dev_call(fd, KVCACHE_NR_GRANT_GET, &g));
		MUST(g.out_nr == 1 && !g.out_next);
		MUST(g.out_info[0].from == w->tenant[RED]);
		MUST(g.out_info[0].to == w->tenant[BLUE]);
		MUST(dev_is_zero((char *)&g.out_info[1],
				 sizeof(g.out_info) - sizeof(g.out_info[0])));
	}
	memset(&s, 0, sizeof(s));
	s.size = sizeof(s);
	s.pool = w->pool;
	MUST(dev_call(fd, KVCACHE_NR_POOL_GET, &s) == -EPERM);
	MUST(!s.out_seq && !s.out_info.nr_pages);
	POISON(t);
	t.pool = w->pool;
	t.start = w->tenant[BLUE] + 1;
	MUST(!dev_call(fd, KVCACHE_NR_TENANT_GET, &t));
	MUST(!t.out_nr);
	return 0;
}

TEST_F(dev, lists_show_the_own_tenant_only)
{
	struct world *w = &self->w;
	struct kvcache_page_get p = { .size = sizeof(p), .pool = w->pool };
	struct kvcache_grant_get all = { .size = sizeof(all) };
	struct kvcache_tenant_ref ref = { .size = sizeof(ref) };
	struct kvcache_tenant_grant g = {
		.size = sizeof(g), .rights = KVCACHE_GRANT_LOOKUP,
	};
	uint64_t red[4], blue;

	int green = dev_tenant(w->admin, "green", w->pool, 0, 1);

	ASSERT_LT(0, green);
	/* One that blue got, and others that are none of its business. */
	g.tenant = w->tenant[RED];
	g.to = w->tenant[BLUE];
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_GRANT, &g));
	g.to = green;
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_GRANT, &g));
	g.tenant = green;
	g.to = w->tenant[RED];
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_GRANT, &g));
	/* Red has pages before and behind blue's. */
	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, 2, red));
	ASSERT_EQ(0, dev_alloc(w->fd[BLUE], w->pool, 1, &blue));
	ASSERT_EQ(0, dev_alloc(w->fd[RED], w->pool, 2, red + 2));
	ASSERT_EQ(0, dev_publish(w->fd[RED], w->pool, &red[2], 1));
	EXPECT_EQ(0, in_child(looks_around, w));
	/* Who is privileged sees all. */
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_PAGE_GET, &p));
	EXPECT_LE(5, p.out_nr);
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_GRANT_GET, &all));
	EXPECT_EQ(3, all.out_nr);
	ref.tenant = green;
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_REMOVE, &ref));
}

static int looks_without_attaching(void *arg)
{
	struct world *w = arg;
	struct kvcache_page_get p = { .size = sizeof(p), .pool = w->pool };
	int fd;

	become(1001, 1001, 0);
	fd = dev_open();
	MUST(fd >= 0);
	MUST(dev_call(fd, KVCACHE_NR_PAGE_GET, &p) == -ENOTCONN);
	MUST(!p.out_nr);
	return 0;
}

TEST_F(dev, who_is_nobody_sees_nothing)
{
	EXPECT_EQ(0, in_child(looks_without_attaching, &self->w));
}

TEST_HARNESS_MAIN
