// SPDX-License-Identifier: MIT
/*
 * test_values.c - values of the commands on pages that are out of range, one
 * at a time: the errno of the header, and nothing changed.
 */
#include <grp.h>
#include <sys/resource.h>

#include "form.h"

/* BAD(errno, member, value): @good with this one member is refused. */
#define BAD(err, member, value) \
	REFUSED_WITH(w, err, fd, nr, good, member, value)

/* No pool has such a number. */
#define BAD_POOLS()							\
	do {								\
		BAD(ENOENT, pool, w->pool + 1);				\
		BAD(ENOENT, pool, KVCACHE_MAX_POOLS - 1);		\
		BAD(ENOENT, pool, KVCACHE_MAX_POOLS);			\
		BAD(ENOENT, pool, 1U << 31);				\
		BAD(ENOENT, pool, ~0U);					\
	} while (0)

/* Nobody holds it: no page, the null page, what never was or is no more. */
#define BAD_HANDLES(member, stale)					\
	do {								\
		BAD(ESTALE, member, 0);					\
		BAD(ESTALE, member, ~0ULL);				\
		BAD(ESTALE, member, 1ULL << 32);			\
		BAD(ESTALE, member, 1ULL << 32 | (PAGES + 1));		\
		BAD(ESTALE, member, 1ULL << 32 | 0xffffffff);		\
		BAD(ESTALE, member, stale);				\
		BAD(ESTALE, member, (uint32_t)(stale));			\
		BAD(ESTALE, member, (stale) + (2ULL << 32));		\
	} while (0)

/**
 * struct held - pages for a test
 * @mine: three of red's client
 * @foreign: of blue's
 * @stale: the handle of a page that red's client gave back
 */
struct held {
	uint64_t mine[3];
	uint64_t foreign;
	uint64_t stale;
};

static int hold(struct world *w, struct held *h)
{
	int err = dev_alloc(w->fd[0], w->pool, 1, &h->stale);

	if (!err)
		err = dev_free(w->fd[0], w->pool, &h->stale, 1);
	if (!err)
		err = dev_alloc(w->fd[0], w->pool, 3, h->mine);
	return err ? err : dev_alloc(w->fd[1], w->pool, 1, &h->foreign);
}

TEST_F(dev, attach_refuses)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_ATTACH;
	int fd = dev_open();
	struct kvcache_attach good = { .size = sizeof(good) };

	good.by = KVCACHE_ATTACH_NAME;
	strcpy(good.name, "red");
	FILL(good.out_tenant, 0xcc);
	BAD(EINVAL, by, 3);
	BAD(EINVAL, by, ~0U);
	BAD(EINVAL, by, KVCACHE_ATTACH_ID);
	BAD(EINVAL, by, KVCACHE_ATTACH_AUTO);
	BAD(EINVAL, tenant, w->tenant[0]);
	BAD(ENOENT, name[0], 'R');
	BAD(ENOENT, name[3], '.');
	BAD(ENOENT, name[0], 0);
	memset(good.name, 'r', sizeof(good.name));
	BAD(EINVAL, name[0], 'r');
	BAD(ENOENT, name[63], 0);
	memset(good.name, 0, sizeof(good.name));
	good.by = KVCACHE_ATTACH_ID;
	good.tenant = w->tenant[0];
	BAD(ENOENT, tenant, 0);
	BAD(ENOENT, tenant, w->tenant[1] + 1);
	BAD(ENOENT, tenant, 4096);
	BAD(ENOENT, tenant, 65536);
	BAD(ENOENT, tenant, w->tenant[0] + 65536);
	BAD(ENOENT, tenant, 1U << 31);
	BAD(ENOENT, tenant, ~0U);
	BAD(EINVAL, by, KVCACHE_ATTACH_AUTO);
	EXPECT_EQ(0, dev_call(fd, nr, &good));
	FILL(good.out_tenant, 0xcc);
	REFUSED(w, EALREADY, fd, nr, good);
	BAD(EALREADY, tenant, w->tenant[1]);
	close(fd);
}

TEST_F(dev, attach_to_a_tenant_of_others_is_refused)
{
	struct world *w = &self->w;
	struct kvcache_tenant_set s = { .size = sizeof(s) };
	struct kvcache_tenant_ref ref = { .size = sizeof(ref) };
	static const struct {
		uint32_t mode, uid, gid;
		int want;
	} cases[] = {
		{ 0400, 1000, 9, 0 }, { 0040, 1000, 9, -EPERM },
		{ 0004, 9, 9, 0 }, { 0440, 9, 9, -EPERM },
		{ 0040, 9, 1000, 0 }, { 0040, 9, 1001, 0 },
		{ 0400, 9, 1000, -EPERM }, { 0000, 1000, 1000, -EPERM },
	};
	struct kvcache_attach good = { .size = sizeof(good) };
	unsigned int nr = KVCACHE_NR_ATTACH;
	const gid_t other = 1001;
	int status;
	pid_t pid;
	size_t k;

	ref.tenant = dev_tenant(w->admin, "theirs", w->pool, 0, 1);
	ASSERT_LT(0, (int)ref.tenant);
	for (k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		s.tenant = ref.tenant;
		s.set = KVCACHE_SET_OWNER;
		s.uid = cases[k].uid;
		s.gid = cases[k].gid;
		s.mode = cases[k].mode;
		ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_SET, &s));
		pid = fork();
		if (!pid) {
			int fd;

			if (setgroups(1, &other) || setgid(1000) ||
			    setuid(1000))
				_exit(100);
			fd = dev_client("theirs");
			_exit(fd < 0 ? -fd : 0);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(cases[k].want, -WEXITSTATUS(status))
			TH_LOG("case %zu", k);
	}
	/* The last, which nobody may, in full. */
	good.by = KVCACHE_ATTACH_ID;
	good.tenant = ref.tenant;
	pid = dev_open();
	REFUSED(w, EPERM, pid, nr, good);
	close(pid);
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_REMOVE, &ref));
}

/* On a refusal for want of pages one member is written. */
static void short_of(struct __test_metadata *_metadata, struct world *w,
		     int err, uint32_t want, uint64_t missing)
{
	static struct kvcache_alloc a, was;

	POISON(a);
	a.pool = w->pool;
	a.nr = want;
	a.deadline_ns = 0;
	was = a;
	was.out_missing = missing;
	UNCHANGED(w, EXPECT_EQ(-err,
			       dev_call(w->fd[0], KVCACHE_NR_ALLOC, &a)));
	EXPECT_EQ(0, memcmp(&a, &was, sizeof(a)))
		TH_LOG("%u: missing %llu", want,
		       (unsigned long long)a.out_missing);
}

TEST_F(dev, alloc_refuses)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_ALLOC;
	static struct kvcache_alloc good;
	int fd = w->fd[0];
	struct held h;

	POISON(good);
	good.pool = w->pool;
	good.nr = 1;
	good.deadline_ns = 0;
	BAD(EINVAL, nr, 0);
	BAD(EINVAL, nr, KVCACHE_MAX_PAGES + 1);
	BAD(EINVAL, nr, 1U << 31);
	BAD(EINVAL, nr, ~0U);
	BAD_POOLS();
	/* A time to wait until does not make these wait. */
	good.deadline_ns = NEVER;
	BAD(EINVAL, nr, 0);
	BAD(EINVAL, nr, ~0U);
	BAD_POOLS();
	good.flags = KVCACHE_ALLOC_CHECK;
	BAD_POOLS();
	ASSERT_EQ(0, hold(w, &h));
	short_of(_metadata, w, E2BIG, KVCACHE_MAX_PAGES,
		 KVCACHE_MAX_PAGES - PAGES);
	short_of(_metadata, w, E2BIG, PAGES + 1, 1);
	short_of(_metadata, w, ENOSPC, PAGES - 3, 1);
	short_of(_metadata, w, ENOSPC, PAGES, 4);
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0, 5,
				NEVER));
	short_of(_metadata, w, EDQUOT, 3, 1);
	short_of(_metadata, w, E2BIG, 6, 1);
	/* What others are promised is not there. */
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[0], w->pool, 0, 0,
				KVCACHE_LIMIT_MAX, NEVER));
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[1], w->pool, 10, 0,
				KVCACHE_LIMIT_MAX, NEVER));
	short_of(_metadata, w, ENOSPC, 4, 1);
	short_of(_metadata, w, E2BIG, 7, 1);
}

TEST_F(dev, alloc_past_its_deadline_is_refused)
{
	struct world *w = &self->w;
	static struct kvcache_alloc a;
	uint64_t pages[PAGES], t;

	ASSERT_EQ(0, dev_alloc(w->fd[1], w->pool, PAGES, pages));
	POISON(a);
	a.pool = w->pool;
	a.nr = 1;
	/* In the past, it does not wait. */
	a.deadline_ns = 1;
	UNCHANGED(w, EXPECT_EQ(-ENOSPC,
			       dev_call(w->fd[0], KVCACHE_NR_ALLOC, &a)));
	EXPECT_EQ(1, a.out_missing);
	t = dev_now();
	a.deadline_ns = t + 50000000;
	UNCHANGED(w, EXPECT_EQ(-ETIMEDOUT,
			       dev_call(w->fd[0], KVCACHE_NR_ALLOC, &a)));
	EXPECT_LE(50000000, dev_now() - t);
}

TEST_F(dev, free_refuses)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_FREE;
	static struct kvcache_free good;
	int fd = w->fd[0], k;
	struct held h;

	ASSERT_EQ(0, hold(w, &h));
	POISON(good);
	good.pool = w->pool;
	good.nr = 3;
	memcpy(good.pages, h.mine, sizeof(h.mine));
	BAD(EINVAL, nr, 0);
	BAD(EINVAL, nr, KVCACHE_MAX_PAGES + 1);
	BAD(EINVAL, nr, ~0U);
	BAD_POOLS();
	/* Whichever it is, the others stay. */
	for (k = 0; k < 3; k++) {
		BAD_HANDLES(pages[k], h.stale);
		BAD(EPERM, pages[k], h.foreign);
		BAD(EPERM, pages[k], h.mine[(k + 1) % 3]);
	}
	BAD(ESTALE, nr, 4);
	for (k = 3; k < KVCACHE_MAX_PAGES; k++)
		good.pages[k] = h.mine[0];
	BAD(EPERM, nr, KVCACHE_MAX_PAGES);
	EXPECT_EQ(0, dev_call(fd, nr, &good));
	REFUSED(w, ESTALE, fd, nr, good);
}

/* References are counted one by one. */
TEST_F(dev, free_of_more_references_than_are_held_is_refused)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_FREE;
	static struct kvcache_free good;
	int fd = w->fd[0], other = dev_client("red");
	uint64_t page, found;

	ASSERT_EQ(0, dev_alloc(fd, w->pool, 1, &page));
	ASSERT_EQ(0, dev_publish(fd, w->pool, &page, 3));
	ASSERT_EQ(0, dev_lookup(other, w->pool, 3, &found));
	POISON(good);
	good.pool = w->pool;
	good.nr = 2;
	good.pages[0] = page;
	good.pages[1] = page;
	/* There are two, of which each has one. */
	REFUSED(w, EPERM, fd, nr, good);
	REFUSED(w, EPERM, other, nr, good);
	REFUSED(w, EPERM, w->fd[1], nr, good);
	ASSERT_EQ(0, dev_lookup(fd, w->pool, 3, &found));
	EXPECT_EQ(0, dev_call(fd, nr, &good));
	good.nr = 1;
	REFUSED(w, EPERM, fd, nr, good);
	EXPECT_EQ(0, dev_call(other, nr, &good));
	/* It is CACHED now, and nobody's. */
	REFUSED(w, EPERM, other, nr, good);
	close(other);
}

TEST_F(dev, publish_refuses)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_PUBLISH;
	static struct kvcache_publish good;
	struct kvcache_publish_page *e = good.pages;
	int fd = w->fd[0], k;
	struct held h;

	ASSERT_EQ(0, hold(w, &h));
	LIST(good, w->pool);
	one_publish(&good, h.mine[0]);
	e[1] = e[0];
	e[1].handle = h.mine[1];
	e[1].keys[0].key[0] = 0x78;
	good.nr = 2;
	FILL(e[0].out_handle, 0xcc);
	FILL(e[1].out_result, 0xcc);
	BAD_POOLS();
	BAD(EINVAL, nr, 0);
	BAD(EINVAL, nr, KVCACHE_MAX_PUBLISH + 1);
	BAD(EINVAL, nr, ~0U);
	BAD(ENOENT, domain, w->tenant[1] + 1);
	BAD(ENOENT, domain, 65535);
	BAD(ENOENT, domain, 65536 + w->tenant[0]);
	BAD(ENOENT, domain, ~0U);
	BAD(EPERM, domain, w->tenant[1]);
	for (k = 0; k < 2; k++) {
		BAD_HANDLES(pages[k].handle, h.stale);
		BAD(EPERM, pages[k].handle, h.foreign);
		BAD(EINVAL, pages[k].handle, h.mine[!k]);
		BAD(EINVAL, pages[k].nr_keys, 0);
		BAD(EINVAL, pages[k].nr_keys, KVCACHE_MAX_PAGE_KEYS + 1);
		BAD(EINVAL, pages[k].nr_keys, ~0U);
		BAD(EINVAL, pages[k].priority, KVCACHE_PRIO_MAX + 1);
		BAD(EINVAL, pages[k].priority, ~0U);
		BAD(EINVAL, pages[k].keys[0].fill, 0);
	}
	/* Ascending fills, and no key twice. */
	for (k = 0; k < KVCACHE_MAX_PAGE_KEYS; k++) {
		e[1].keys[k].key[0] = 0x78;
		e[1].keys[k].key[1] = k + 1;
		e[1].keys[k].fill = 2 * k + 2;
	}
	e[1].nr_keys = KVCACHE_MAX_PAGE_KEYS;
	BAD(EINVAL, pages[1].keys[1].fill, 2);
	BAD(EINVAL, pages[1].keys[1].fill, 1);
	BAD(EINVAL, pages[1].keys[15].fill, 30);
	BAD(EINVAL, pages[1].keys[14].fill, ~0U);
	BAD(EINVAL, pages[1].keys[15].key[1], 1);
	EXPECT_EQ(0, dev_call(fd, nr, &good));
	/* They are SHARED now. */
	FILL(e[0].out_handle, 0xcc);
	REFUSED(w, EINVAL, fd, nr, good);
}

TEST_F(dev, publish_over_a_limit_is_refused)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_PUBLISH;
	static struct kvcache_publish good;
	struct kvcache_tenant_grant g = { .size = sizeof(g) };
	int fd = w->fd[0];
	struct held h;

	ASSERT_EQ(0, hold(w, &h));
	LIST(good, w->pool);
	one_publish(&good, h.mine[0]);
	good.domain = w->tenant[1];
	g.tenant = w->tenant[1];
	g.to = w->tenant[0];
	g.rights = KVCACHE_GRANT_LOOKUP;
	g.max_held = 1;
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_GRANT, &g));
	REFUSED(w, EPERM, fd, nr, good);
	g.rights = KVCACHE_GRANT_PUBLISH;
	g.max_held = 0;
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_GRANT, &g));
	REFUSED(w, EDQUOT, fd, nr, good);
	g.max_held = 1;
	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_GRANT, &g));
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[1], w->pool, 0, 0, 1,
				NEVER));
	REFUSED(w, EDQUOT, fd, nr, good);
	ASSERT_EQ(0, dev_limits(w->admin, w->tenant[1], w->pool, 0, 0, 2,
				NEVER));
	EXPECT_EQ(0, dev_call(fd, nr, &good));
	good.pages[0].handle = h.mine[1];
	good.pages[0].keys[0].key[0] = 0x79;
	REFUSED(w, EDQUOT, fd, nr, good);
}

TEST_F(dev, lookup_refuses)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_LOOKUP;
	static struct kvcache_lookup good;
	int fd = w->fd[0], peek;
	uint64_t page;

	ASSERT_EQ(0, dev_alloc(fd, w->pool, 1, &page));
	ASSERT_EQ(0, dev_publish(fd, w->pool, &page, 0));
	POISON(good);
	good.pool = w->pool;
	good.nr_keys = 2;
	good.keys_per_page = 1;
	good.tail = 0;
	memset(good.keys, 0, sizeof(good.keys));
	for (peek = 0; peek < 2; peek++) {
		good.flags = peek ? KVCACHE_LOOKUP_PEEK : 0;
		BAD_POOLS();
		BAD(EINVAL, nr_keys, 0);
		BAD(EINVAL, nr_keys, KVCACHE_MAX_KEYS + 1);
		BAD(EINVAL, nr_keys, ~0U);
		BAD(EINVAL, keys_per_page, 0);
		BAD(EINVAL, keys_per_page, KVCACHE_MAX_PAGE_KEYS + 1);
		BAD(EINVAL, keys_per_page, ~0U);
	}
	/* Any tail can be asked for. */
	good.tail = ~0U;
	EXPECT_EQ(0, dev_call(fd, nr, &good));
	EXPECT_EQ(2, good.out_nr_pages);
	good.nr_keys = KVCACHE_MAX_KEYS;
	good.keys_per_page = KVCACHE_MAX_PAGE_KEYS;
	EXPECT_EQ(0, dev_call(fd, nr, &good));
	EXPECT_EQ(KVCACHE_MAX_KEYS / KVCACHE_MAX_PAGE_KEYS, good.out_nr_pages);
}

TEST_F(dev, advise_refuses)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_ADVISE;
	static struct kvcache_advise good;
	int fd = w->fd[0], k;
	uint32_t bit;
	struct held h;

	ASSERT_EQ(0, hold(w, &h));
	POISON(good);
	good.pool = w->pool;
	good.nr = 3;
	good.priority = 0;
	good.ttl_ns = 0;
	memcpy(good.pages, h.mine, sizeof(h.mine));
	good.advice = KVCACHE_ADVISE_TOUCH;
	BAD_POOLS();
	BAD(EINVAL, nr, 0);
	BAD(EINVAL, nr, KVCACHE_MAX_PAGES + 1);
	BAD(EINVAL, nr, ~0U);
	BAD(EINVAL, advice, 0);
	for (bit = 4; bit < 32; bit++)
		BAD(EINVAL, advice, KVCACHE_ADVISE_TOUCH | 1U << bit);
	BAD(EINVAL, advice,
	    KVCACHE_ADVISE_VOLATILE | KVCACHE_ADVISE_NONVOLATILE);
	BAD(EINVAL, priority, 1);
	BAD(EINVAL, ttl_ns, 1);
	BAD(EINVAL, ttl_ns, NEVER);
	for (k = 0; k < 3; k++) {
		for (bit = 0; bit < 4; bit++) {
			good.advice = 1U << bit;
			good.ttl_ns = bit ? 0 : NEVER;
			BAD_HANDLES(pages[k], h.stale);
			BAD(EPERM, pages[k], h.foreign);
		}
	}
	good.advice = KVCACHE_ADVISE_PRIORITY;
	good.ttl_ns = NEVER;
	BAD(EINVAL, priority, KVCACHE_PRIO_MAX + 1);
	BAD(EINVAL, priority, ~0U);
	/* A time for what is not published. */
	BAD(EINVAL, ttl_ns, 1);
	ASSERT_EQ(0, dev_publish(fd, w->pool, &h.mine[1], 4));
	good.advice = KVCACHE_ADVISE_VOLATILE;
	good.ttl_ns = 0;
	REFUSED(w, EINVAL, fd, nr, good);
	BAD(EPERM, pages[0], h.foreign);
}

TEST_F(dev, export_refuses)
{
	struct world *w = &self->w;
	unsigned int nr = KVCACHE_NR_EXPORT;
	static struct kvcache_export good;
	int fd = w->fd[0], k;
	struct rlimit few, all;
	struct held h;

	ASSERT_EQ(0, hold(w, &h));
	LIST(good, w->pool);
	good.nr = 3;
	memcpy(good.pages, h.mine, sizeof(h.mine));
	FILL(good.out_fd, 0xcc);
	BAD_POOLS();
	BAD(EINVAL, nr, 0);
	BAD(EINVAL, nr, KVCACHE_MAX_PAGES + 1);
	BAD(EINVAL, nr, ~0U);
	for (k = 0; k < 3; k++) {
		BAD_HANDLES(pages[k], h.stale);
		BAD(EPERM, pages[k], h.foreign);
	}
	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &all));
	few = all;
	few.rlim_cur = 0;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &few));
	ASSERT_EQ(-EMFILE, dev_call(fd, nr, &good));
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &all));
	ASSERT_EQ(0, dev_publish(fd, w->pool, &h.mine[2], 4));
	good.nr = 3;
	REFUSED(w, EINVAL, fd, nr, good);
}

/* There are no device pools. */
TEST_F(dev, commands_of_device_pools_are_refused)
{
	struct world *w = &self->w;
	struct kvcache_provide p = { .size = sizeof(p), .pool = w->pool };
	struct kvcache_take t = { .size = sizeof(t), .pool = w->pool };
	struct kvcache_retire r = { .size = sizeof(r), .pool = w->pool };
	struct held h;

	ASSERT_EQ(0, hold(w, &h));
	p.handle = h.mine[0];
	t.handle = h.mine[0];
	r.nr = 1;
	r.pages[0] = h.mine[0];
	REFUSED(w, EOPNOTSUPP, w->fd[0], KVCACHE_NR_PROVIDE, p);
	REFUSED(w, EOPNOTSUPP, w->fd[0], KVCACHE_NR_TAKE, t);
	REFUSED(w, EOPNOTSUPP, w->fd[0], KVCACHE_NR_RETIRE, r);
}

TEST_HARNESS_MAIN
