// SPDX-License-Identifier: MIT
/*
 * test_commons.c - a tenant whose pages others read: nobody publishes there
 * without a grant, nobody holds more through a grant than its bound, and what
 * is not held can be taken by whoever needs room.
 */
#include "kit.h"

#define NR	32
#define SHARED	12	/* pages of the commons */
#define BOUND	4

struct commons {
	struct place p;
	uint32_t commons, writer, reader;
	struct kvc_sys *w, *r;
};

static void begin(struct commons *x)
{
	place_begin(&x->p, NR);
	x->commons = tenant(&x->p, "commons", 0, SHARED);
	x->writer = tenant(&x->p, "writer", 0, NO_LIMIT);
	x->reader = tenant(&x->p, "reader", 0, NO_LIMIT);
	x->w = client(&x->p, "writer");
	x->r = client(&x->p, "reader");
	ASSERT_TRUE(x->w && x->r);
}

static void end(struct commons *x)
{
	if (x->w)
		x->w->ops->close(x->w);
	if (x->r)
		x->r->ops->close(x->r);
	place_end(&x->p);
}

/* Pages with keys from 0 on in the commons, held by nobody. */
static void fill(struct commons *x, uint32_t nr)
{
	uint64_t page;

	ASSERT_EQ(0, grant(&x->p, x->commons, x->writer, KVCACHE_GRANT_PUBLISH,
			   NR));
	for (uint32_t k = 0; k < nr; k++) {
		ASSERT_EQ(0, get(x->w, x->p.pool, 1, 0, &page));
		memset(page_at(x->w, x->p.pool, page, 1), 'a' + k, PAGE);
		ASSERT_EQ(0, publish(x->w, x->p.pool, &page, k, x->commons));
		ASSERT_EQ(0, put(x->w, x->p.pool, &page, 1));
	}
	ASSERT_EQ(nr, tenant_info(&x->p, x->commons).cur);
	ASSERT_EQ(0, tenant_info(&x->p, x->writer).cur);
}

TEST(without_a_grant_nothing_is_published_there)
{
	struct commons x = { 0 };
	uint64_t page, was;

	begin(&x);
	ASSERT_EQ(0, get(x.w, x.p.pool, 1, 0, &page));
	was = page;
	EXPECT_EQ(-EPERM, publish(x.w, x.p.pool, &page, 0, x.commons));
	/* To look is not to publish. */
	ASSERT_EQ(0, grant(&x.p, x.commons, x.writer, KVCACHE_GRANT_LOOKUP,
			   NR));
	EXPECT_EQ(-EPERM, publish(x.w, x.p.pool, &page, 0, x.commons));
	EXPECT_EQ(was, page);
	EXPECT_EQ(1, tenant_info(&x.p, x.writer).cur);
	EXPECT_EQ(0, tenant_info(&x.p, x.commons).cur);
	EXPECT_EQ(0, put(x.w, x.p.pool, &page, 1));
	end(&x);
}

TEST(without_a_grant_nothing_is_found_there)
{
	struct commons x = { 0 };
	uint64_t pages[SHARED];

	begin(&x);
	fill(&x, SHARED);
	EXPECT_EQ(0, find(x.r, x.p.pool, 0, SHARED, 0, pages));
	ASSERT_EQ(0, grant(&x.p, x.commons, x.reader, KVCACHE_GRANT_LOOKUP,
			   NR));
	EXPECT_EQ(SHARED, find(x.r, x.p.pool, 0, SHARED, 0, pages));
	for (uint32_t k = 0; k < SHARED; k++) {
		const char *at = page_at(x.r, x.p.pool, pages[k], 0);

		EXPECT_EQ('a' + k, at[0]);
		EXPECT_EQ('a' + k, at[PAGE - 1]);
	}
	/* The reader pays for none of it. */
	EXPECT_EQ(0, tenant_info(&x.p, x.reader).cur);
	EXPECT_EQ(SHARED, tenant_info(&x.p, x.commons).cur);
	/* A grant that is taken back ends what is found, not what is held. */
	ASSERT_EQ(0, grant(&x.p, x.commons, x.reader, 0, 0));
	EXPECT_EQ(0, find(x.r, x.p.pool, 0, 1, 0, pages));
	EXPECT_EQ('a', *page_at(x.r, x.p.pool, pages[0], 0));
	end(&x);
}

TEST(who_holds_never_holds_more_than_the_bound)
{
	struct commons x = { 0 };
	uint64_t pages[SHARED], rest[NR];
	struct kvc_sys *other;
	uint32_t held, k;

	begin(&x);
	fill(&x, SHARED);
	ASSERT_EQ(0, grant(&x.p, x.commons, x.reader, KVCACHE_GRANT_LOOKUP,
			   BOUND));
	EXPECT_EQ(BOUND, find(x.r, x.p.pool, 0, SHARED, 0, pages));
	/* All its clients together. */
	other = client(&x.p, "reader");
	ASSERT_TRUE(other != NULL);
	EXPECT_EQ(0, find(other, x.p.pool, BOUND, 1, 0, pages + BOUND));
	for (k = 0; k < SHARED; k++) {
		int rc = find(x.r, x.p.pool, k, 1, 0, pages + BOUND);

		ASSERT_GE(rc, 0);
		ASSERT_TRUE(rc == 0 || k < BOUND);
	}
	held = pool_info(&x.p).nr_shared;
	EXPECT_EQ(BOUND, held);
	/* The rest goes to whoever wants it, and the held ones stay. */
	ASSERT_EQ(0, get(x.w, x.p.pool, NR - BOUND, 0, rest));
	EXPECT_EQ(-ENOSPC, get(x.w, x.p.pool, 1, 0, rest));
	EXPECT_EQ(BOUND, tenant_info(&x.p, x.commons).cur);
	for (k = 0; k < BOUND; k++)
		EXPECT_EQ('a' + k, *page_at(x.r, x.p.pool, pages[k], 0));
	other->ops->close(other);
	end(&x);
}

/* Whoever dies holds nothing any more. */
TEST(the_bound_is_free_again_when_the_holder_is_killed)
{
	struct commons x = { 0 };
	uint64_t pages[SHARED];
	int rc = 0, go[2];
	pid_t pid;
	char c;

	begin(&x);
	fill(&x, SHARED);
	ASSERT_EQ(0, grant(&x.p, x.commons, x.reader, KVCACHE_GRANT_LOOKUP,
			   BOUND));
	ASSERT_EQ(0, pipe(go));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		struct kvc_sys *s = client(&x.p, "reader");

		if (s && find(s, x.p.pool, 0, SHARED, 0, pages) == BOUND &&
		    write(go[1], "", 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	close(go[1]);
	ASSERT_EQ(1, read(go[0], &c, 1));
	EXPECT_EQ(0, find(x.r, x.p.pool, 0, 1, 0, pages));
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	for (int k = 0; k < 1000 && rc != BOUND; k++) {
		rc = find(x.r, x.p.pool, 0, BOUND, 0, pages);
		if (rc == BOUND)
			break;
		if (rc > 0)
			ASSERT_EQ(0, put(x.r, x.p.pool, pages, rc));
		usleep(5000);
	}
	EXPECT_EQ(BOUND, rc);
	end(&x);
}

TEST_HARNESS_MAIN
