// SPDX-License-Identifier: MIT
/*
 * test_kvcached.c - cases c7.1, 3, 4, 6 and 7: what kvcached's tests, and those
 * of vLLM's shared offload region, say of one process. test_kvcached_shared.c
 * has what takes several.
 */
#include "kvcached.h"
#include "unit/faulty.h"

/* ---- c7.1 ---------------------------------------------------------------- */

#define POOL	320
#define FIRST	5			/* pages that a conversation has */
#define MORE	300			/* it wants so many: two commands */
#define TAKEN	40

enum midway { SOMEBODY_TAKES, POOL_SHRINKS, BACKEND_FAILS };

static struct {
	enum midway what;
	uint32_t allocs;		/* commands that take pages */
	uint64_t pages[TAKEN];		/* somebody else's */
} mid;

/* When one command has given its 256 pages, and before the next. */
static int in_between(struct kvc_sys *sys, unsigned int nr, void *arg)
{
	struct kvcache_alloc other = {
		.size = sizeof(other), .nr = TAKEN,
	};
	struct kvcache_pool_set set = {
		.size = sizeof(set), .op = KVCACHE_POOL_RESIZE,
		.nr_pages = POOL - 2 * TAKEN + 30,
	};

	if (nr != KVCACHE_NR_ALLOC ||
	    ((struct kvcache_alloc *)arg)->flags & KVCACHE_ALLOC_CHECK ||
	    ++mid.allocs != 2)
		return 0;
	if (mid.what == BACKEND_FAILS)
		return -ENOMEM;
	if (mid.what == POOL_SHRINKS) {
		ASSERT_EQ(0, faulty_real->call(sys, KVCACHE_NR_POOL_SET, &set));
		return 0;
	}
	ASSERT_EQ(0, faulty_real->call(sys, KVCACHE_NR_ALLOC, &other));
	memcpy(mid.pages, other.out_pages, sizeof(mid.pages));
	return 0;
}

static void undo(struct kit *k)
{
	struct place p = { .admin = k->ctx->sys };

	if (mid.what == SOMEBODY_TAKES)
		ASSERT_EQ(0, put(k->ctx->sys, 0, mid.pages, TAKEN));
	if (mid.what == POOL_SHRINKS)
		ASSERT_EQ(0, pool_set(&p, KVCACHE_POOL_RESIZE, 0, POOL));
}

static void dies_midway(enum midway what, int err)
{
	uint64_t had[FIRST], has[FIRST];
	struct kvcache_pool_info was, is;
	struct kvc_room room;
	struct kvc_seq *s;
	uint32_t t[18];
	struct kit k;

	kit_open(&k, SPEC(4, POOL));
	kit_count(t, 18, 1000);
	s = kit_seq(&k, NULL);
	/* Two full pages, one of two tokens, and two reserved. */
	ASSERT_EQ(0, kit_add(&k, s, t, 10));
	ASSERT_EQ(0, kvc_seq_reserve(s, 8, 0));
	ASSERT_EQ(FIRST, kvc_seq_handles(s, 0, had, FIRST));
	was = kit_pool(&k);
	ASSERT_EQ(POOL - FIRST, was.nr_free);

	memset(&mid, 0, sizeof(mid));
	mid.what = what;
	faulty_begin(&k, in_between);
	ASSERT_EQ(0, kvc_predict(k.c, s, NULL, 0, (FIRST + MORE) * 4 - 10,
				 &room));
	EXPECT_EQ(1, room.fits);
	EXPECT_EQ(MORE, room.new_pages);
	EXPECT_EQ(err, kvc_seq_reserve(s, (FIRST + MORE) * 4 - 10, 0));
	EXPECT_EQ(2, mid.allocs);
	undo(&k);
	is = kit_pool(&k);
	EXPECT_EQ(was.nr_free, is.nr_free);
	EXPECT_EQ(was.nr_private, is.nr_private);
	EXPECT_EQ(was.nr_shared, is.nr_shared);
	EXPECT_EQ(FIRST, kvc_seq_pages(s));
	EXPECT_EQ(10, kvc_seq_len(s));
	ASSERT_EQ(FIRST, kvc_seq_handles(s, 0, has, FIRST));
	EXPECT_EQ(0, memcmp(had, has, sizeof(had)));
	kit_check(&k, s);

	/* The reserved pages are used before there is another command. */
	mid.allocs = 2;
	ASSERT_EQ(0, kit_add(&k, s, t + 10, 8));
	EXPECT_EQ(2, mid.allocs);
	ASSERT_EQ(FIRST, kvc_seq_handles(s, 0, has, FIRST));
	for (uint32_t i = 0; i < FIRST; i++)
		EXPECT_EQ((uint32_t)had[i], (uint32_t)has[i]);
	EXPECT_EQ(0, kvc_seq_reserve(s, (FIRST + MORE) * 4 - 18, 0));
	EXPECT_EQ(4, mid.allocs);
	EXPECT_EQ(FIRST + MORE, kvc_seq_pages(s));
	kit_check(&k, s);
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	EXPECT_EQ(0, kit_used(&k));
	kit_close(&k);
}

CASE(rollback_where_somebody_was_faster)
{
	dies_midway(SOMEBODY_TAKES, -ENOSPC);
}

CASE(rollback_where_the_pool_shrank)
{
	dies_midway(POOL_SHRINKS, -ENOSPC);
}

CASE(rollback_where_the_backend_fails)
{
	dies_midway(BACKEND_FAILS, -ENOMEM);
}

/* ---- c7.3 ---------------------------------------------------------------- */

CASE(revisions)
{
	struct kvcache_tenant_info i;
	uint64_t rev, now = 0;
	struct here h;
	uint32_t id;

	here_begin(&h, 16, 10);
	id = h.k.ctx->tenant;
	rev = tenant_info(&h.p, id).revision + 5;
	EXPECT_EQ(0, revise(&h.p, id, rev, 7, &now));
	EXPECT_EQ(rev, now);
	for (int n = 0; n < 3; n++) {
		/* The same once more; other values; an older one. */
		now = 0;
		EXPECT_EQ(0, revise(&h.p, id, rev, 7, &now));
		EXPECT_EQ(rev, now);
		EXPECT_EQ(-EEXIST, revise(&h.p, id, rev, 8, &now));
		EXPECT_EQ(-ESTALE, revise(&h.p, id, rev - 1, 9, &now));
		/* Old is old, also with the values that are in force. */
		EXPECT_EQ(-ESTALE, revise(&h.p, id, rev - 1, 7, &now));
		i = tenant_info(&h.p, id);
		EXPECT_EQ(rev, i.revision);
		EXPECT_EQ(7, i.max);
	}
	EXPECT_EQ(0, revise(&h.p, id, rev + 1, 8, &now));
	EXPECT_EQ(-ESTALE, revise(&h.p, id, rev, 7, &now));
	EXPECT_EQ(8, tenant_info(&h.p, id).max);
	here_end(&h);
}

/* ---- c7.4 ---------------------------------------------------------------- */

#define CACHED	8
#define KEYS	4	/* of a page: what others call its blocks */

static uint32_t key_of(uint32_t page)
{
	return 1000 + page * KEYS;
}

/* CACHED pages in a pool of four more; nobody holds them. */
static void cache_pages(struct here *h)
{
	uint64_t page[CACHED];

	here_begin(h, CACHED + 4, 0);
	ASSERT_EQ(0, get(h->s, 0, CACHED, 0, page));
	for (uint32_t k = 0; k < CACHED; k++)
		ASSERT_EQ(0, publish_keys(h->s, &page[k], key_of(k), KEYS));
	ASSERT_EQ(0, put(h->s, 0, page, CACHED));
	ASSERT_EQ(CACHED, kit_pool(&h->k).nr_cached);
	ASSERT_EQ(4, kit_pool(&h->k).nr_free);
}

/* Keys that are found, of all pages. */
static uint32_t keys_left(struct here *h)
{
	uint32_t nr = 0;

	for (uint32_t k = 0; k < CACHED; k++)
		nr += keys_found(h->s, key_of(k), KEYS, NULL);
	return nr;
}

CASE(eviction_takes_as_many_as_are_wanted)
{
	uint64_t page[CACHED + 4], one, all, again;
	uint32_t nr = 4, gone = 0;
	struct here h;

	cache_pages(&h);
	/* A page is held as a whole, by whoever found the least of it. */
	ASSERT_EQ(1, keys_found(h.s, key_of(0), 1, &one));
	ASSERT_EQ(KEYS, keys_found(h.s, key_of(3), KEYS, &all));
	ASSERT_EQ(0, get(h.s, 0, 4, 0, page));
	EXPECT_EQ(0, kit_pool(&h.k).reclaims);
	EXPECT_EQ(CACHED * KEYS, keys_left(&h));
	for (uint32_t n = 1; n <= 3; n++) {
		ASSERT_EQ(0, get(h.s, 0, n, 0, page + nr));
		nr += n;
		gone += n;
		EXPECT_EQ(gone, kit_pool(&h.k).reclaims);
		EXPECT_EQ(CACHED - 2 - gone, kit_pool(&h.k).nr_cached);
		EXPECT_EQ((CACHED - gone) * KEYS, keys_left(&h));
	}
	/* What is left is held, and stays. */
	EXPECT_EQ(-ENOSPC, get(h.s, 0, 1, 0, page + nr));
	EXPECT_EQ(2, kit_pool(&h.k).nr_shared);
	EXPECT_EQ(KEYS, keys_found(h.s, key_of(0), KEYS, NULL));
	EXPECT_EQ(KEYS, keys_found(h.s, key_of(3), KEYS, NULL));
	/* One live holder is enough. */
	ASSERT_EQ(2, keys_found(h.s, key_of(0), 2, &again));
	ASSERT_EQ(one, again);
	ASSERT_EQ(0, put(h.s, 0, &one, 1));
	EXPECT_EQ(-ENOSPC, get(h.s, 0, 1, 0, page + nr));
	EXPECT_EQ(KEYS, keys_found(h.s, key_of(0), KEYS, NULL));
	ASSERT_EQ(0, put(h.s, 0, &again, 1));
	EXPECT_EQ(0, get(h.s, 0, 1, 0, page + nr));
	EXPECT_EQ(gone + 1, kit_pool(&h.k).reclaims);
	EXPECT_EQ(0, keys_found(h.s, key_of(0), KEYS, NULL));
	EXPECT_EQ(KEYS, keys_found(h.s, key_of(3), KEYS, NULL));
	here_end(&h);
}

/* More than there is: nothing is evicted for a request that is refused. */
CASE(eviction_is_for_who_gets_something)
{
	uint64_t page[CACHED + 5], held;
	struct here h;

	cache_pages(&h);
	ASSERT_EQ(1, keys_found(h.s, key_of(5), 1, &held));
	EXPECT_EQ(-ENOSPC, get(h.s, 0, CACHED + 4, 0, page));
	EXPECT_EQ(-E2BIG, get(h.s, 0, CACHED + 5, 0, page));
	EXPECT_EQ(0, kit_pool(&h.k).reclaims);
	EXPECT_EQ(CACHED * KEYS, keys_left(&h));
	EXPECT_EQ(0, get(h.s, 0, CACHED + 3, 0, page));
	EXPECT_EQ(CACHED - 1, kit_pool(&h.k).reclaims);
	EXPECT_EQ(KEYS, keys_left(&h));
	here_end(&h);
}

CASE(eviction_skips_what_is_pinned)
{
	struct kvcache_export e = { .size = sizeof(e), .nr = 1 };
	uint64_t page[CACHED + 4], pinned;
	struct here h;

	cache_pages(&h);
	ASSERT_EQ(KEYS, keys_found(h.s, key_of(2), KEYS, &pinned));
	e.pages[0] = pinned;
	if (sys_call(h.s, KVCACHE_NR_EXPORT, &e) == -EOPNOTSUPP)
		SKIP(return, "pages cannot be exported, nor pinned otherwise");
	ASSERT_GE(e.out_fd, 0);
	ASSERT_EQ(0, put(h.s, 0, &pinned, 1));
	EXPECT_EQ(CACHED, kit_pool(&h.k).nr_cached);
	EXPECT_EQ(0, get(h.s, 0, CACHED + 3, 0, page));
	EXPECT_EQ(KEYS, keys_left(&h));
	EXPECT_EQ(-ENOSPC, get(h.s, 0, 1, 0, page));
	EXPECT_EQ(KEYS, keys_found(h.s, key_of(2), KEYS, NULL));
	ASSERT_EQ(0, close(e.out_fd));
	EXPECT_EQ(0, get(h.s, 0, 1, NEVER, page));
	EXPECT_EQ(0, keys_left(&h));
	here_end(&h);
}

/* ---- c7.6 ---------------------------------------------------------------- */

/* All that a refused command could have moved. */
static void expect_same(struct here *h, const struct kvcache_pool_info *was)
{
	struct kvcache_pool_info is = kit_pool(&h->k);

	EXPECT_EQ(was->nr_pages, is.nr_pages);
	EXPECT_EQ(was->nr_free, is.nr_free);
	EXPECT_EQ(was->nr_private, is.nr_private);
	EXPECT_EQ(was->nr_shared, is.nr_shared);
	EXPECT_EQ(was->nr_cached, is.nr_cached);
	EXPECT_EQ(was->allocs, is.allocs);
	EXPECT_EQ(was->reclaims, is.reclaims);
	EXPECT_EQ(0, is.waiters);
	EXPECT_EQ(was->nr_private + was->nr_shared + was->nr_cached,
		  tenant_info(&h->p, h->k.ctx->tenant).cur);
	expect_books_right();
}

/* A wrong command says so, and its right half is not done either. */
CASE(what_is_wrong_is_refused_loudly)
{
	uint64_t page[4], shared, gone, two[2];
	struct kvcache_pool_info was;
	struct here h;

	here_begin(&h, 8, 0);
	ASSERT_EQ(0, get(h.s, 0, 4, 0, page));
	gone = page[3];
	ASSERT_EQ(0, put(h.s, 0, &page[3], 1));
	shared = page[2];
	ASSERT_EQ(0, publish(h.s, 0, &shared, 1, 0));
	was = kit_pool(&h.k);

	/* Freed before; freed twice; never given to anybody. */
	two[0] = page[0];
	two[1] = gone;
	EXPECT_EQ(-ESTALE, put(h.s, 0, two, 2));
	two[1] = page[0];
	EXPECT_EQ(-EPERM, put(h.s, 0, two, 2));
	two[1] = shared;
	EXPECT_EQ(-EPERM, put(h.s, 0, (uint64_t []) { shared, shared }, 2));
	two[1] = page[0] + ((uint64_t)1 << 32);
	EXPECT_EQ(-ESTALE, put(h.s, 0, two, 2));
	two[1] = 0;
	EXPECT_LT(put(h.s, 0, two, 2), 0);
	two[1] = page[0] + 1000;
	EXPECT_LT(put(h.s, 0, two, 2), 0);
	expect_same(&h, &was);
	/* Published before, or freed. */
	EXPECT_EQ(-EINVAL, publish(h.s, 0, &(uint64_t) { shared }, 2, 0));
	EXPECT_EQ(-ESTALE, publish(h.s, 0, &(uint64_t) { gone }, 2, 0));
	EXPECT_EQ(0, find(h.s, 0, 2, 1, KVCACHE_LOOKUP_PEEK, NULL));
	/* No such pool, nor tenant. */
	EXPECT_EQ(-ENOENT, get(h.s, 9, 1, 0, two));
	EXPECT_EQ(-ENOENT, flush(&h.p, 99));
	expect_same(&h, &was);
	/* Each of them is still good for what is right. */
	EXPECT_EQ(0, put(h.s, 0, (uint64_t []) { page[0], page[1], shared },
			 3));
	EXPECT_EQ(0, kit_used(&h.k));
	here_end(&h);
}

/* What does not fit now is no error of the caller's, and changes nothing. */
CASE(what_does_not_fit_is_refused_softly)
{
	static const struct {
		uint32_t nr;
		uint32_t missing;
		int err;
	} want[] = {
		{ 3, 1, -EDQUOT },	/* it has 4 of 6 */
		{ 6, 4, -EDQUOT },
		{ 7, 1, -E2BIG },	/* never */
		{ 11, 5, -E2BIG },
	};
	struct kvcache_pool_info was;
	uint64_t page[4], one = 0;
	struct here h;

	here_begin(&h, 10, 6);
	ASSERT_EQ(0, get(h.s, 0, 4, 0, page));
	was = kit_pool(&h.k);
	for (uint32_t k = 0; k < NR(want); k++) {
		struct kvcache_alloc a = {
			.size = sizeof(a), .nr = want[k].nr,
			.flags = KVCACHE_ALLOC_CHECK,
		};

		EXPECT_EQ(want[k].err, sys_call(h.s, KVCACHE_NR_ALLOC, &a));
		a.flags = a.out_missing = 0;
		EXPECT_EQ(want[k].err, sys_call(h.s, KVCACHE_NR_ALLOC, &a));
		EXPECT_EQ(want[k].missing, a.out_missing);
		expect_same(&h, &was);
		/* The next one goes on as if nothing had been. */
		EXPECT_EQ(0, get(h.s, 0, 1, 0, &one));
		EXPECT_EQ(0, put(h.s, 0, &one, 1));
		was.allocs++;
	}
	here_end(&h);
}

/* ---- c7.7 ---------------------------------------------------------------- */

CASE(over_fill_moves_nothing)
{
	uint64_t page[8], more[9];
	struct kvcache_pool_info was, is;
	struct here h;

	here_begin(&h, 8, 0);
	ASSERT_EQ(0, get(h.s, 0, 6, 0, page));
	for (uint32_t k = 0; k < 6; k++)
		memset(page_at(h.s, 0, page[k], 1), 'a' + k, PAGE);
	was = kit_pool(&h.k);
	EXPECT_EQ(-ENOSPC, get(h.s, 0, 3, 0, more));
	EXPECT_EQ(-E2BIG, get(h.s, 0, 9, 0, more));
	is = kit_pool(&h.k);
	EXPECT_EQ(was.allocs, is.allocs);
	EXPECT_EQ(2, is.nr_free);
	EXPECT_EQ(6, is.nr_private);
	/* What fits comes next, and is not what there was before. */
	ASSERT_EQ(0, get(h.s, 0, 2, 0, page + 6));
	for (uint32_t k = 6; k < 8; k++)
		memset(page_at(h.s, 0, page[k], 1), 'a' + k, PAGE);
	EXPECT_EQ(-ENOSPC, get(h.s, 0, 1, 0, more));
	for (uint32_t k = 0; k < 8; k++) {
		const char *at = page_at(h.s, 0, page[k], 0);

		EXPECT_TRUE(at[0] == 'a' + (int)k &&
			    !memcmp(at, at + 1, PAGE - 1));
	}
	here_end(&h);
}

CASE(a_waiter_times_out)
{
	uint64_t page[9], until = now_ns() + 200000000;
	struct kvcache_pool_info was;
	struct here h;

	here_begin(&h, 8, 0);
	ASSERT_EQ(0, get(h.s, 0, 7, 0, page));
	was = kit_pool(&h.k);
	EXPECT_EQ(-ETIMEDOUT, get(h.s, 0, 2, until, page + 7));
	EXPECT_GE(now_ns(), until);
	EXPECT_EQ(was.allocs, kit_pool(&h.k).allocs);
	EXPECT_EQ(0, kit_pool(&h.k).waiters);
	/* It is in nobody's way. */
	EXPECT_EQ(0, get(h.s, 0, 1, 0, page + 7));
	here_end(&h);
}

TEST_HARNESS_MAIN
