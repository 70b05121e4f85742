// SPDX-License-Identifier: MIT
/*
 * test_alloc_failure.c - every allocation of every call fails once.
 *
 * The program is linked so that what the library, the ledger and the kernels
 * allocate comes through here. A call is made with its first allocation
 * failing, then with its second, and so on, each time in a world of its own,
 * until none is left to fail. Either the call says -ENOMEM, nothing has
 * changed, and it succeeds when it is made again; or it did without.
 */
#include <sys/mman.h>

#include "kit.h"

static uint32_t fail_in;	/* allocations until one fails; 0: none does */
static uint64_t asked;		/* bytes asked for so far */
static size_t last_aligned;	/* bytes of the last aligned allocation */

static bool fails(size_t bytes)
{
	asked += bytes;
	if (!fail_in || --fail_in)
		return false;
	errno = ENOMEM;
	return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_reallocarray(void *p, size_t n, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);

void *__wrap_malloc(size_t size)
{
	return fails(size) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails(n * size) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails(size) ? NULL : __real_realloc(p, size);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
	return fails(n * size) ? NULL : __real_reallocarray(p, n, size);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
	last_aligned = size;
	return fails(size) ? NULL : __real_aligned_alloc(align, size);
}

void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	return fails(len) ? MAP_FAILED :
	       __real_mmap(at, len, prot, flags, fd, off);
}

struct world {
	struct kit k;
	struct kit twin;	/* its pages are new to @k's cache */
	uint32_t t[256];
	struct kvc_seq *a, *b;
	struct kvc_item items[2];
	struct kvc_cache *cache;
	struct kvc_batch *batch;
};

/* What a call that fails must not change. */
struct state {
	uint64_t free, private, shared, cached, held;
	uint32_t pools, tenants, live, refs;
	uint32_t len[2], pages[2];
	uint64_t handles[2][2][64];
};

static void look(struct world *w, struct state *st)
{
	struct kvc_seq *const seqs[] = { w->a, w->b }, *s;
	struct kvcache_pool_info p = kit_pool(&w->k);
	struct kvcache_tenant_get t = { 0 };
	struct kvcache_query q = { 0 };
	uint32_t i, g;

	memset(st, 0, sizeof(*st));
	ASSERT_EQ(0, kvc_call(w->k.ctx, KVCACHE_NR_QUERY, &q));
	ASSERT_EQ(0, kvc_call(w->k.ctx, KVCACHE_NR_TENANT_GET, &t));
	st->pools = q.out_nr_pools;
	st->tenants = t.out_nr;
	st->held = t.out_info[0].cur;
	st->free = p.nr_free;
	st->private = p.nr_private;
	st->shared = p.nr_shared;
	st->cached = p.nr_cached;
	for (s = w->k.c->live; s; s = s->next)
		st->live++;
	for (i = 0; i < w->k.c->nslots; i++)
		if (w->k.c->slots[i])
			st->refs += w->k.c->slots[i]->refs;
	for (i = 0; i < 2; i++) {
		if (!seqs[i])
			continue;
		st->len[i] = kvc_seq_len(seqs[i]);
		st->pages[i] = kvc_seq_pages(seqs[i]);
		for (g = 0; g < 2; g++)
			kvc_seq_handles(seqs[i], g, st->handles[i][g], 64);
	}
}

static void begin(struct world *w)
{
	memset(w, 0, sizeof(*w));
	kit_open(&w->k, &(struct kit_spec) { .pages = 200, .ngroups = 2 });
	kit_twin(&w->k, &w->twin);
	kit_count(w->t, 256, 1000);
	w->a = kit_seq(&w->k, NULL);
}

/* Nobody holds anything any more, by anybody's count. */
static void end(struct world *w)
{
	struct state st;

	kvc_batch_abort(w->k.b);
	kvc_seq_free(w->a, 0);
	kvc_seq_free(w->b, 0);
	w->a = w->b = NULL;
	look(w, &st);
	ASSERT_EQ(0, st.refs);
	ASSERT_EQ(0, st.live);
	ASSERT_EQ(0, st.private);
	ASSERT_EQ(0, st.shared);
	ASSERT_EQ(st.held, st.cached);
	kvc_batch_destroy(w->batch);
	kvc_cache_destroy(w->cache);
	kit_twin_close(&w->twin);
	kit_close(&w->k);
}

/* @call with each of its allocations failing; how many it has. */
static uint32_t sweep(void (*prepare)(struct world *w),
		      int (*call)(struct world *w),
		      void (*check)(struct world *w))
{
	struct state before, after;
	struct world w;
	uint32_t nth;
	bool failed;
	int rc;

	for (nth = 1;; nth++) {
		begin(&w);
		if (prepare)
			prepare(&w);
		look(&w, &before);
		fail_in = nth;
		rc = call(&w);
		failed = !fail_in;
		fail_in = 0;
		if (rc < 0) {
			ASSERT_TRUE(failed);
			ASSERT_EQ(-ENOMEM, rc);
			look(&w, &after);
			ASSERT_EQ(0, memcmp(&before, &after, sizeof(after)));
			ASSERT_GE(call(&w), 0);
		}
		if (check)
			check(&w);
		end(&w);
		if (!failed)
			return nth - 1;
	}
}

TEST(open)
{
	struct kvc_open_opts o = { .sz = sizeof(o), .local_bytes = 1 << 20,
				   .local_page_size = 1024 };
	struct kvc *ctx;
	bool failed;
	uint32_t n;
	int rc;

	for (n = 1, failed = true; failed; n++) {
		ctx = NULL;
		fail_in = n;
		rc = kvc_open("local", &o, &ctx);
		failed = !fail_in;
		fail_in = 0;
		ASSERT_EQ(failed ? -ENOMEM : 0, rc);
		ASSERT_EQ(!failed, !!ctx);
		kvc_close(ctx);
	}
	EXPECT_GT(n, 5);
}

static int call_cache(struct world *w)
{
	struct kvc_cache_opts o = { .sz = sizeof(o), .threads = 2 };

	return kvc_cache_create(w->k.ctx, &w->k.m, &o, &w->cache);
}

static int call_batch(struct world *w)
{
	return kvc_batch_create(w->k.c, &w->batch);
}

static int call_seq(struct world *w)
{
	struct kvc_seq_opts o = { .sz = sizeof(o) };

	return kvc_seq_create(w->k.c, &o, &w->b);
}

TEST(cache_batch_and_sequence)
{
	EXPECT_GT(sweep(NULL, call_cache, NULL), 2);
	EXPECT_EQ(1, sweep(NULL, call_batch, NULL));
	EXPECT_EQ(1, sweep(NULL, call_seq, NULL));
}

/* Two sequences that share a partly filled tail. */
static void two_forks(struct world *w)
{
	ASSERT_EQ(0, kit_add(&w->k, w->a, w->t, 10));
	ASSERT_EQ(0, kvc_seq_fork(w->a, &w->b));
	kvc_batch_destroy(w->k.b);
	ASSERT_EQ(0, kvc_batch_create(w->k.c, &w->k.b));
}

static int call_plan(struct world *w)
{
	w->items[0] = (struct kvc_item) { w->a, w->t + 10, 1 };
	w->items[1] = (struct kvc_item) { w->b, w->t + 20, 90 };
	return kvc_batch_plan(w->k.b, w->items, 2);
}

static void check_planned(struct world *w)
{
	kit_append(&w->k, w->items, 2, NULL);
	ASSERT_EQ(0, kvc_batch_commit(w->k.b));
	ASSERT_EQ(11, kvc_seq_len(w->a));
	ASSERT_EQ(100, kvc_seq_len(w->b));
	kit_check(&w->k, w->a);
	kit_check(&w->k, w->b);
}

TEST(plan)
{
	EXPECT_GT(sweep(two_forks, call_plan, check_planned), 20);
}

static int call_reserve(struct world *w)
{
	return kvc_seq_reserve(w->a, 400, 0);
}

static void check_reserved(struct world *w)
{
	uint64_t used = kit_used(&w->k);

	kit_check(&w->k, w->a);
	ASSERT_EQ(0, kit_add(&w->k, w->a, w->t + 10, 240));
	kit_check(&w->k, w->a);
	kit_check(&w->k, w->b);
	EXPECT_EQ(used, kit_used(&w->k));
}

TEST(reserve)
{
	EXPECT_GT(sweep(two_forks, call_reserve, check_reserved), 50);
}

static void resize(struct world *w, uint64_t nr_pages)
{
	struct kvcache_pool_set p = {
		.op = KVCACHE_POOL_RESIZE,
		.nr_pages = nr_pages,
	};

	ASSERT_EQ(0, kvc_call(w->k.ctx, KVCACHE_NR_POOL_SET, &p));
}

/* A cache that was made when the pool was small: its table has to grow. */
static void small_once(struct world *w)
{
	kit_twin_close(&w->twin);
	resize(w, 4);
	kit_twin(&w->k, &w->twin);
	resize(w, 200);
	w->b = kit_seq(&w->twin, NULL);
}

static int call_reserve_twin(struct world *w)
{
	return kvc_seq_reserve(w->b, 400, 0);
}

TEST(reserve_in_a_pool_that_grew)
{
	EXPECT_GT(sweep(small_once, call_reserve_twin, NULL), 60);
}

static void ten_tokens(struct world *w)
{
	ASSERT_EQ(0, kit_add(&w->k, w->a, w->t, 10));
}

static int call_fork(struct world *w)
{
	return kvc_seq_fork(w->a, &w->b);
}

static void check_forked(struct world *w)
{
	ASSERT_EQ(10, kvc_seq_len(w->b));
	kit_check(&w->k, w->b);
	ASSERT_EQ(0, kit_add(&w->k, w->b, w->t + 30, 20));
	kit_check(&w->k, w->a);
	kit_check(&w->k, w->b);
}

TEST(fork_of_a_sequence)
{
	EXPECT_GT(sweep(ten_tokens, call_fork, check_forked), 5);
}

/* Whole pages and rows of others, unknown here, and of a live sequence. */
static void cached_and_live(struct world *w)
{
	struct kvc_seq *s = kit_seq(&w->twin, NULL);

	ASSERT_EQ(0, kit_add(&w->twin, s, w->t, 44));
	kvc_seq_free(s, 0);
	w->b = kit_seq(&w->k, NULL);
	ASSERT_EQ(0, kit_add(&w->k, w->b, w->t, 6));
}

static int call_prefix(struct world *w)
{
	return kvc_seq_prefix(w->a, w->t, 45);
}

static void check_prefix(struct world *w)
{
	ASSERT_EQ(44, kvc_seq_len(w->a));
	kit_check(&w->k, w->a);
	ASSERT_EQ(0, kit_add(&w->k, w->a, w->t + 44, 16));
	kit_check(&w->k, w->a);
}

static int call_part(struct world *w)
{
	return kvc_seq_prefix(w->a, w->t, 38);
}

static void check_part(struct world *w)
{
	ASSERT_EQ(32, kvc_seq_len(w->a));
	kit_check(&w->k, w->a);
}

static int call_predict(struct world *w)
{
	struct kvc_room r;

	return kvc_predict(w->k.c, NULL, w->t, 60, 4, &r);
}

TEST(prefix)
{
	EXPECT_GT(sweep(cached_and_live, call_prefix, check_prefix), 10);
	EXPECT_GT(sweep(cached_and_live, call_part, check_part), 10);
}

TEST(predict)
{
	EXPECT_GT(sweep(cached_and_live, call_predict, NULL), 2);
}

/* Its first pages exist already, its others do not. */
static void appended(struct world *w)
{
	struct kvc_seq *s = kit_seq(&w->twin, NULL);

	ASSERT_EQ(0, kit_add(&w->twin, s, w->t, 20));
	kvc_seq_free(s, 0);
	w->items[0] = (struct kvc_item) { w->a, w->t, 74 };
	ASSERT_EQ(0, kvc_batch_plan(w->k.b, w->items, 1));
	kit_append(&w->k, w->items, 1, NULL);
}

static int call_commit(struct world *w)
{
	return kvc_batch_commit(w->k.b);
}

static void check_committed(struct world *w)
{
	ASSERT_EQ(74, kvc_seq_len(w->a));
	kit_check(&w->k, w->a);
	/* What could not be remembered is in the backend's index. */
	w->b = kit_seq(&w->k, NULL);
	ASSERT_GE(kit_prompt(&w->k, w->b, w->t, 74), 64);
	kit_check(&w->k, w->b);
}

TEST(commit)
{
	EXPECT_GT(sweep(appended, call_commit, check_committed), 5);
}

static int call_free(struct world *w)
{
	kvc_seq_free(w->a, 0);
	w->a = NULL;
	return 0;
}

TEST(free_of_a_sequence)
{
	EXPECT_GT(sweep(ten_tokens, call_free, NULL), 0);
}

static int call_tenant(struct world *w)
{
	struct kvcache_tenant_set t = { .name = "other" };

	return kvc_call(w->k.ctx, KVCACHE_NR_TENANT_CREATE, &t);
}

static int call_pool(struct world *w)
{
	struct kvcache_pool_set p = {
		.op = KVCACHE_POOL_CREATE,
		.page_size = 1024,
		.nr_pages = 100,
		.name = "second",
	};

	return kvc_call(w->k.ctx, KVCACHE_NR_POOL_SET, &p);
}

static void grantor(struct world *w)
{
	ASSERT_EQ(0, call_tenant(w));
}

static int call_grant(struct world *w)
{
	struct kvcache_tenant_grant g = {
		.tenant = w->k.ctx->tenant + 1,
		.to = w->k.ctx->tenant,
		.rights = KVCACHE_GRANT_LOOKUP,
		.max_held = 1,
	};

	return kvc_call(w->k.ctx, KVCACHE_NR_TENANT_GRANT, &g);
}

TEST(the_ledger)
{
	EXPECT_GT(sweep(NULL, call_pool, NULL), 2);
	EXPECT_GT(sweep(NULL, call_tenant, NULL), 1);
	/* Grants are in a table of fixed size: there is nothing to fail. */
	EXPECT_EQ(0, sweep(grantor, call_grant, NULL));
}

/* Whether it is refused does not depend on the memory there is. */
TEST(what_can_never_fit_allocates_nothing)
{
	static const uint32_t n[] = { 400000000, UINT32_MAX - 10, 2000 };
	struct world w;

	begin(&w);
	ASSERT_EQ(0, kit_add(&w.k, w.a, w.t, 10));
	asked = 0;
	for (uint32_t i = 0; i < 3; i++) {
		EXPECT_EQ(-E2BIG, kvc_seq_reserve(w.a, n[i], 0));
		EXPECT_EQ(-E2BIG, kvc_seq_reserve(w.a, n[i],
						  KVCACHE_TIME_NEVER));
	}
	EXPECT_EQ(0, asked);
	kit_check(&w.k, w.a);
	end(&w);
}

/* Scratch for one token after 100 of groups of these head dimensions. */
static size_t scratch(uint32_t ngroups, uint32_t dim0, uint32_t dim1)
{
	static const uint8_t layer_group[] = { 0, 1 };
	const struct kvc_group g[] = {
		{ .kv_heads = 1, .k_dim = dim0, .v_dim = dim0 },
		{ .kv_heads = 1, .k_dim = dim1, .v_dim = dim1 },
	};
	const struct kvc_model m = {
		.sz = sizeof(m), .nlayers = ngroups, .ngroups = ngroups,
		.groups = g, .layer_group = layer_group, .q_heads = 1,
		.page_tokens = 16,
	};
	struct kvc_open_opts open = { .sz = sizeof(open), .local_bytes = 4 << 20,
				      .local_page_size = 64 << 10 };
	struct kvc_cache_opts o = { .sz = sizeof(o), .threads = 1, .split = 16 };
	uint32_t t[100] = { 0 };
	struct kvc_item item = { NULL, t, 100 };
	struct kvc_cache *c;
	struct kvc_batch *b;
	struct kvc *ctx;

	ASSERT_EQ(0, kvc_open("local", &open, &ctx));
	ASSERT_EQ(0, kvc_cache_create(ctx, &m, &o, &c));
	ASSERT_EQ(0, kvc_batch_create(c, &b));
	ASSERT_EQ(0, kvc_seq_create(c, NULL, &item.seq));
	last_aligned = 0;
	ASSERT_EQ(0, kvc_batch_plan(b, &item, 1));
	kvc_seq_free(item.seq, KVC_SEQ_DISCARD);
	kvc_batch_destroy(b);
	kvc_cache_destroy(c);
	kvc_close(ctx);
	return last_aligned;
}

/* One workspace serves the layers of all groups. */
TEST(scratch_is_for_the_largest_group)
{
	size_t large = scratch(1, 128, 0);

	EXPECT_LT(scratch(1, 16, 0), large);
	EXPECT_EQ(large, scratch(2, 128, 16));
	EXPECT_EQ(large, scratch(2, 16, 128));
}

TEST_HARNESS_MAIN
