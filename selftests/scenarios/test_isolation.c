// SPDX-License-Identifier: MIT
/*
 * test_isolation.c - tenant B reads through every route that it has, after A's
 * secret was written, freed, published, taken and revoked: never a byte.
 */
#include <setjmp.h>

#include "kit.h"

#define NR	16
#define MINE	6	/* pages of A */
#define KEY	1000

static const char secret[32] = "a secret of thirty-two bytes....";

struct isolation {
	struct place p;
	uint32_t a_id, b_id;
	uid_t b_uid;
	struct kvc_sys *a, *b;
	uint64_t page[MINE];
};

static sigjmp_buf back;

static void fault(int sig)
{
	siglongjmp(back, sig);
}

/* Is there anything of the secret at @at; what cannot be read has none. */
static bool seen(const char *at)
{
	volatile bool found;

	if (sigsetjmp(back, 1))
		return false;
	found = memmem(at, PAGE, secret, sizeof(secret)) != NULL;
	/* Also a byte of it in a page that should be zeros. */
	for (size_t k = 0; !found && k < PAGE; k++)
		found = at[k] && at[k] != 'b';
	return found;
}

/* 0 if it cannot be read. */
static char first_byte(const char *at)
{
	return sigsetjmp(back, 1) ? 0 : *(volatile const char *)at;
}

/* For whoever connects now; back again with 0. */
static void become(uid_t uid)
{
	if (!getuid())
		ASSERT_EQ(0, seteuid(uid));
}

/*
 * B is another user, if we can be one: a broker's listings go by who connected.
 * The module's are looked at by selftests/dev/test_privilege.
 */
static struct kvc_sys *somebody(struct isolation *x)
{
	struct kvcache_tenant_set set = {
		.size = sizeof(set), .tenant = x->b_id, .uid = 65534,
		.gid = 65534, .mode = 0400, .set = KVCACHE_SET_OWNER,
	};
	struct kvc_sys *s;

	if (geteuid() || !x->p.broker)
		return client(&x->p, "b");
	x->b_uid = set.uid;
	ASSERT_EQ(0, chmod(x->p.dir, 0755));
	ASSERT_EQ(0, sys_call(x->p.admin, KVCACHE_NR_TENANT_SET, &set));
	become(x->b_uid);
	s = client(&x->p, "b");
	become(0);
	return s;
}

static void begin(struct isolation *x)
{
	memset(x, 0, sizeof(*x));
	signal(SIGBUS, fault);
	signal(SIGSEGV, fault);
	place_begin(&x->p, NR);
	x->a_id = tenant(&x->p, "a", 0, NO_LIMIT);
	x->b_id = tenant(&x->p, "b", 0, NO_LIMIT);
	x->a = client(&x->p, "a");
	x->b = somebody(x);
	ASSERT_TRUE(x->a && x->b);
	ASSERT_EQ(0, get(x->a, x->p.pool, MINE, 0, x->page));
	for (uint32_t k = 0; k < MINE; k++) {
		char *at = page_at(x->a, x->p.pool, x->page[k], 1);

		for (size_t off = 0; off < PAGE; off += sizeof(secret))
			memcpy(at + off, secret, sizeof(secret));
	}
}

static void end(struct isolation *x)
{
	x->a->ops->close(x->a);
	x->b->ops->close(x->b);
	place_end(&x->p);
}

static void publish_all(struct isolation *x)
{
	for (uint32_t k = 0; k < MINE; k++)
		ASSERT_EQ(0, publish(x->a, x->p.pool, &x->page[k], KEY + k, 0));
}

/* ---- routes -------------------------------------------------------------- */

/* The addresses where A's pages are, in B's windows. */
static void by_window(struct isolation *x)
{
	for (uint32_t k = 0; k < MINE; k++) {
		EXPECT_FALSE(seen(page_at(x->b, x->p.pool, x->page[k], 0)));
		EXPECT_FALSE(seen(page_at(x->b, x->p.pool, x->page[k], 1)));
	}
}

/* A's handles, in each command that takes some. */
static void by_handle(struct isolation *x)
{
	for (uint32_t k = 0; k < MINE; k++) {
		struct kvcache_advise adv = {
			.size = sizeof(adv), .pool = x->p.pool, .nr = 1,
			.advice = KVCACHE_ADVISE_TOUCH, .pages[0] = x->page[k],
		};
		struct kvcache_export exp = {
			.size = sizeof(exp), .pool = x->p.pool, .nr = 1,
			.pages[0] = x->page[k],
		};
		uint64_t page = x->page[k];
		int rc;

		rc = put(x->b, x->p.pool, &page, 1);
		EXPECT_TRUE(rc == -EPERM || rc == -ESTALE);
		rc = sys_call(x->b, KVCACHE_NR_ADVISE, &adv);
		EXPECT_TRUE(rc == -EPERM || rc == -ESTALE);
		rc = publish(x->b, x->p.pool, &page, 7, 0);
		EXPECT_TRUE(rc == -EPERM || rc == -ESTALE);
		rc = sys_call(x->b, KVCACHE_NR_EXPORT, &exp);
		EXPECT_TRUE(rc == -EPERM || rc == -ESTALE || rc == -EOPNOTSUPP);
	}
}

/*
 * The broker's own command for descriptors, by hand: a client of B's that the
 * library knows nothing of.
 */
static void by_descriptor(struct isolation *x)
{
	struct kvcache_attach attach = {
		.size = sizeof(attach), .by = KVCACHE_ATTACH_NAME, .name = "b",
	};
	int fd;

	if (!x->p.broker)
		return;
	become(x->b_uid);
	fd = raw_connect(x->p.path);
	become(0);
	ASSERT_EQ(0, raw_call(fd, KVCACHE_NR_ATTACH, &attach));
	for (uint32_t k = 0; k < MINE; k++) {
		struct kvcb_map map = {
			.size = sizeof(map), .pool = x->p.pool, .nr = 1,
			.pages[0] = x->page[k],
		};
		int rc = raw_call(fd, KVCB_NR_MAP, &map);

		EXPECT_TRUE(rc == -EPERM || rc == -ESTALE);
	}
	close(fd);
}

static void by_lookup(struct isolation *x)
{
	uint64_t pages[MINE];

	for (uint32_t k = 0; k < MINE; k++)
		EXPECT_EQ(0, find(x->b, x->p.pool, KEY + k, 1, 0, pages));
	EXPECT_EQ(0, find(x->b, x->p.pool, KEY, MINE, 0, pages));
}

/* What a listing says to B: nothing of A's pages, and no key. */
static void by_listing(struct isolation *x)
{
	struct kvcache_page_get g = { .size = sizeof(g), .pool = x->p.pool };

	if (!x->b_uid)
		return;		/* root sees all of them, by right */
	ASSERT_EQ(0, sys_call(x->b, KVCACHE_NR_PAGE_GET, &g));
	for (uint32_t k = 0; k < g.out_nr; k++)
		EXPECT_EQ(x->b_id, g.out_info[k].tenant);
}

/* All pages that B can have, as they come. */
static void by_new_pages(struct isolation *x)
{
	uint64_t pages[NR];
	uint32_t nr = 0;

	while (nr < NR && !get(x->b, x->p.pool, 1, 0, &pages[nr]))
		nr++;
	ASSERT_GT(nr, 0);
	for (uint32_t k = 0; k < nr; k++) {
		EXPECT_FALSE(seen(page_at(x->b, x->p.pool, pages[k], 1)));
		EXPECT_FALSE(seen(page_at(x->b, x->p.pool, pages[k], 0)));
		memset(page_at(x->b, x->p.pool, pages[k], 1), 'b', PAGE);
	}
	/* Nor do A's addresses show what is B's now. */
	for (uint32_t k = 0; k < MINE; k++)
		EXPECT_NE('b', first_byte(page_at(x->a, x->p.pool, x->page[k],
						  0)));
	ASSERT_EQ(0, put(x->b, x->p.pool, pages, nr));
}

#define ROUTES(x)							\
	do {								\
		by_window(x);						\
		by_handle(x);						\
		by_descriptor(x);					\
		by_lookup(x);						\
		by_listing(x);						\
		by_new_pages(x);					\
		by_window(x);						\
	} while (0)

/* ---- after what ---------------------------------------------------------- */

TEST(written)
{
	struct isolation x;

	begin(&x);
	ROUTES(&x);
	end(&x);
}

TEST(freed)
{
	struct isolation x;

	begin(&x);
	ASSERT_EQ(0, put(x.a, x.p.pool, x.page, MINE));
	ROUTES(&x);
	end(&x);
}

TEST(published)
{
	struct isolation x;

	begin(&x);
	publish_all(&x);
	ROUTES(&x);
	/* A itself still reads it. */
	EXPECT_EQ(0, memcmp(page_at(x.a, x.p.pool, x.page[0], 0), secret,
			    sizeof(secret)));
	end(&x);
}

/* B's own allocations take A's cached pages. */
TEST(cached_and_taken)
{
	struct isolation x;

	begin(&x);
	publish_all(&x);
	ASSERT_EQ(0, put(x.a, x.p.pool, x.page, MINE));
	ROUTES(&x);
	EXPECT_EQ(0, tenant_info(&x.p, x.a_id).cur);
	end(&x);
}

TEST(revoked)
{
	struct isolation x;

	begin(&x);
	ASSERT_EQ(0, limits(&x.p, x.a_id, 0, 0, 0, now_ns()));
	for (int k = 0; k < 2000 && tenant_info(&x.p, x.a_id).cur; k++)
		usleep(2000);
	ASSERT_EQ(0, tenant_info(&x.p, x.a_id).cur);
	ROUTES(&x);
	end(&x);
}

TEST(volatile_and_taken)
{
	struct isolation x;

	begin(&x);
	for (uint32_t k = 0; k < MINE; k++) {
		struct kvcache_advise adv = {
			.size = sizeof(adv), .pool = x.p.pool, .nr = 1,
			.advice = KVCACHE_ADVISE_VOLATILE,
			.pages[0] = x.page[k],
		};

		ASSERT_EQ(0, sys_call(x.a, KVCACHE_NR_ADVISE, &adv));
	}
	ROUTES(&x);
	end(&x);
}

/* Who was let in once keeps what it mapped, and sees nothing new there. */
TEST(after_a_grant_that_was_taken_back)
{
	struct isolation x;
	uint64_t pages[NR];
	uint32_t nr = 0;
	char *old;

	begin(&x);
	publish_all(&x);
	ASSERT_EQ(0, grant(&x.p, x.a_id, x.b_id, KVCACHE_GRANT_LOOKUP, NR));
	ASSERT_EQ(1, find(x.b, x.p.pool, KEY, 1, 0, pages));
	old = page_at(x.b, x.p.pool, pages[0], 0);
	ASSERT_EQ(0, memcmp(old, secret, sizeof(secret)));
	ASSERT_EQ(0, put(x.b, x.p.pool, pages, 1));
	ASSERT_EQ(0, grant(&x.p, x.a_id, x.b_id, 0, 0));
	ASSERT_EQ(0, put(x.a, x.p.pool, x.page, MINE));
	/* The page is another one of A's now, with something else in it. */
	while (nr < NR && !get(x.a, x.p.pool, 1, 0, &pages[nr])) {
		memset(page_at(x.a, x.p.pool, pages[nr], 1), 's', PAGE);
		nr++;
	}
	ASSERT_EQ(NR, nr);
	EXPECT_NE('s', first_byte(old));
	EXPECT_FALSE(seen(old));
	ASSERT_EQ(0, put(x.a, x.p.pool, pages, nr));
	end(&x);
}

TEST(of_a_process_that_was_killed)
{
	struct isolation x;
	int go[2];
	pid_t pid;
	char c;

	begin(&x);
	ASSERT_EQ(0, put(x.a, x.p.pool, x.page, MINE));
	ASSERT_EQ(0, pipe(go));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		struct kvc_sys *s = client(&x.p, "a");
		uint64_t page;

		if (!s || get(s, x.p.pool, 1, 0, &page))
			_exit(1);
		memcpy(page_at(s, x.p.pool, page, 1), secret, sizeof(secret));
		if (write(go[1], "", 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	close(go[1]);
	ASSERT_EQ(1, read(go[0], &c, 1));
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	for (int k = 0; k < 2000 && tenant_info(&x.p, x.a_id).cur; k++)
		usleep(2000);
	by_new_pages(&x);
	end(&x);
}

TEST_HARNESS_MAIN
