// SPDX-License-Identifier: MIT
/*
 * test_output.c - what commands answer, to the last byte: each struct is
 * compared whole with what its description says, over two kinds of poison. So
 * nothing else of the kernel's memory is in it, and inputs come back as given.
 */
#include "form.h"

static struct one one;
static union any want;

/* For both kinds of poison. */
static const uint8_t poisons[] = { 0xcc, 0x33 };

/* Gives the command, whose outputs hold @byte, and expects @want. */
#define ANSWERS(w)							\
	do {								\
		ASSERT_EQ(0, dev_call(one.fd, one.row->nr, &one.a));	\
		same(_metadata, one.row->size);				\
		ASSERT_EQ(0, one_undo(w, &one, true));			\
	} while (0)

static void same(struct __test_metadata *_metadata, uint32_t size)
{
	uint32_t k;

	for (k = 0; k < size && one.a.b[k] == want.b[k]; k++)
		;
	EXPECT_EQ(size, k)
		TH_LOG("%s: byte %u is %#x, not %#x", one.row->name, k,
		       one.a.b[k], want.b[k]);
}

/* one.a and want: the command as it is given. */
static int make(struct world *w, unsigned int nr)
{
	int rc = one_make(w, row_of(nr), &one);

	want = one.a;
	return rc;
}

/* What ANSWERS() cannot know: it is as the answer says, but not poison. */
#define ANY_U64(member, byte)						\
	do {								\
		EXPECT_NE((byte) * 0x0101010101010101ULL, one.a.member); \
		want.member = one.a.member;				\
	} while (0)

TEST_F(dev, query_answers_whole)
{
	struct world *w = &self->w;
	struct kvcache_pool_info *p = &want.query.out_pools[0];
	int k;

	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, make(w, KVCACHE_NR_QUERY));
		one.fd = k ? w->fd[1] : w->admin;
		memset(&one.a.b[8], poisons[k], one.row->size - 8);
		want.query.out_abi_version = 1;
		want.query.out_nr_pools = 1;
		want.query.out_features = KVCACHE_FEAT_MMAP |
			KVCACHE_FEAT_ENFORCED | KVCACHE_FEAT_EXPORT |
			KVCACHE_FEAT_EVENTS;
		want.query.out_client = k ? 2 : 0;
		want.query.out_tenant = k ? w->tenant[1] : 0;
		p->id = w->pool;
		p->page_size = PAGE;
		p->nr_pages = PAGES;
		p->nr_free = PAGES;
		p->rw_offset = 2ULL * w->pool << 44;
		p->ro_offset = p->rw_offset + (1ULL << 44);
		p->capacity = 4 * PAGES;
		strcpy(p->name, "test");
		ASSERT_EQ(0, dev_call(one.fd, one.row->nr, &one.a));
		ANY_U64(query.out_seq, poisons[k]);
		/* Numbers of clients go on. */
		EXPECT_EQ(k, one.a.query.out_client > 0);
		want.query.out_client = one.a.query.out_client;
		EXPECT_NE(p->rw_offset, p->ro_offset);
		same(_metadata, one.row->size);
	}
}

TEST_F(dev, attach_answers_whole)
{
	struct world *w = &self->w;
	struct kvcache_query q = { .size = sizeof(q) };
	int k;

	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, make(w, KVCACHE_NR_ATTACH));
		FILL(one.a.attach.out_tenant, poisons[k]);
		FILL(one.a.attach.out_client, poisons[k]);
		ASSERT_EQ(0, dev_call(one.fd, one.row->nr, &one.a));
		ASSERT_EQ(0, dev_call(one.fd, KVCACHE_NR_QUERY, &q));
		want.attach.out_tenant = w->tenant[0];
		want.attach.out_client = q.out_client;
		EXPECT_NE(0, q.out_client);
		EXPECT_EQ(w->tenant[0], q.out_tenant);
		same(_metadata, one.row->size);
		ASSERT_EQ(0, one_undo(w, &one, true));
	}
}

TEST_F(dev, alloc_answers_whole)
{
	struct world *w = &self->w;
	struct kvcache_alloc *a = &one.a.alloc;
	uint64_t pages[3];
	int k;

	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, make(w, KVCACHE_NR_ALLOC));
		a->nr = 3;
		a->deadline_ns = 12345;
		want = one.a;
		FILL(a->out_missing, poisons[k]);
		FILL(a->out_pages, poisons[k]);
		FILL(a->out_available, poisons[k]);
		FILL(a->out_limit, poisons[k]);
		ASSERT_EQ(0, dev_call(one.fd, one.row->nr, a));
		memcpy(pages, a->out_pages, sizeof(pages));
		memcpy(want.alloc.out_pages, pages, sizeof(pages));
		same(_metadata, one.row->size);
		ASSERT_EQ(0, dev_free(one.fd, w->pool, pages, 3));
		ASSERT_TRUE(dev_settles(w->admin, w->pool, PAGES));
	}
}

/* On a refusal one member is written, and with CHECK two more. */
TEST_F(dev, alloc_that_is_refused_answers_what_is_missing)
{
	struct world *w = &self->w;
	struct kvcache_alloc *a = &one.a.alloc;
	int k, check;

	for (k = 0; k < 4; k++) {
		check = k / 2;
		ASSERT_EQ(0, make(w, KVCACHE_NR_ALLOC));
		FILL(a->out_missing, poisons[k % 2]);
		FILL(a->out_pages, poisons[k % 2]);
		FILL(a->out_available, poisons[k % 2]);
		FILL(a->out_limit, poisons[k % 2]);
		a->nr = PAGES + 3;
		a->flags = check ? KVCACHE_ALLOC_CHECK : 0;
		want = one.a;
		want.alloc.out_missing = 3;
		if (check) {
			want.alloc.out_available = PAGES;
			want.alloc.out_limit = PAGES;
		}
		UNCHANGED(w, EXPECT_EQ(-E2BIG,
				       dev_call(one.fd, one.row->nr, a)));
		same(_metadata, one.row->size);
		a->nr = PAGES;
		want.alloc.nr = PAGES;
		want.alloc.out_missing = 0;
		if (check) {
			UNCHANGED(w, EXPECT_EQ(0, dev_call(one.fd, one.row->nr,
							   a)));
			same(_metadata, one.row->size);
		}
	}
}

TEST_F(dev, free_writes_nothing)
{
	struct world *w = &self->w;
	int k;

	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, make(w, KVCACHE_NR_FREE));
		/* Handles that are not in use are nobody's business. */
		memset(&one.a.free.pages[1], poisons[k],
		       sizeof(one.a.free.pages) - 8);
		want = one.a;
		ANSWERS(w);
	}
}

TEST_F(dev, publish_answers_whole)
{
	struct world *w = &self->w;
	struct kvcache_publish_page *e = &one.a.publish.pages[0];
	int k;

	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, make(w, KVCACHE_NR_PUBLISH));
		FILL(e->parent, 0x42);
		memset(&e->keys[1], poisons[k], 15 * sizeof(e->keys[1]));
		memset(e + 1, poisons[k], 15 * sizeof(*e));
		want = one.a;
		FILL(e->out_handle, poisons[k]);
		FILL(e->out_result, poisons[k]);
		want.publish.pages[0].out_handle = one.page;
		want.publish.pages[0].out_result = KVCACHE_PUBLISHED;
		ANSWERS(w);
	}
}

TEST_F(dev, lookup_answers_whole)
{
	struct world *w = &self->w;
	struct kvcache_lookup *a = &one.a.lookup;
	uint64_t page;
	int k, peek, found;

	ASSERT_EQ(0, dev_alloc(w->fd[0], w->pool, 1, &page));
	ASSERT_EQ(0, dev_publish(w->fd[0], w->pool, &page, 0x77));
	for (k = 0; k < 8; k++) {
		peek = k / 2 % 2;
		found = k / 4;
		ASSERT_EQ(0, make(w, KVCACHE_NR_LOOKUP));
		a->flags = peek ? KVCACHE_LOOKUP_PEEK : 0;
		a->keys[0][0] = found ? 0x77 : 0x78;
		memset(a->keys[1], poisons[k % 2], 255 * sizeof(a->keys[1]));
		want = one.a;
		FILL(a->out_nr_pages, poisons[k % 2]);
		FILL(a->out_nr_keys, poisons[k % 2]);
		FILL(a->out_found, poisons[k % 2]);
		FILL(a->out_idle, poisons[k % 2]);
		FILL(a->out_available, poisons[k % 2]);
		if (found) {
			want.lookup.out_nr_pages = 1;
			want.lookup.out_nr_keys = 1;
			want.lookup.out_found[0].handle = page;
			want.lookup.out_found[0].fill = 1;
			want.lookup.out_found[0].domain = w->tenant[0];
		}
		if (peek)
			want.lookup.out_available = PAGES - 1;
		ASSERT_EQ(0, dev_call(one.fd, one.row->nr, a));
		same(_metadata, one.row->size);
		if (found && !peek)
			ASSERT_EQ(0, dev_free(w->fd[0], w->pool, &page, 1));
	}
	ASSERT_EQ(0, dev_free(w->fd[0], w->pool, &page, 1));
}

TEST_F(dev, advise_answers_whole)
{
	struct world *w = &self->w;
	struct kvcache_advise *a = &one.a.advise;
	int k;

	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, make(w, KVCACHE_NR_ADVISE));
		memset(&a->pages[1], poisons[k], sizeof(a->pages) - 8);
		want = one.a;
		FILL(a->out_taken, poisons[k]);
		FILL(a->out_state, poisons[k]);
		ANSWERS(w);
	}
}

TEST_F(dev, export_answers_whole)
{
	struct world *w = &self->w;
	int k, lowest;

	for (k = 0; k < 4; k++) {
		ASSERT_EQ(0, make(w, KVCACHE_NR_EXPORT));
		one.a.export.flags = k / 2 ? KVCACHE_FD_CLOEXEC : 0;
		memset(&one.a.export.pages[1], poisons[k % 2],
		       sizeof(one.a.export.pages) - 8);
		want = one.a;
		FILL(one.a.export.out_fd, poisons[k % 2]);
		lowest = dup(0);
		close(lowest);
		want.export.out_fd = lowest;
		ASSERT_EQ(0, dev_call(one.fd, one.row->nr, &one.a));
		same(_metadata, one.row->size);
		EXPECT_EQ(k / 2 ? FD_CLOEXEC : 0,
			  fcntl(one.a.export.out_fd, F_GETFD));
		ASSERT_EQ(0, one_undo(w, &one, true));
	}
}

TEST_F(dev, changes_of_tenants_answer_whole)
{
	struct world *w = &self->w;
	struct kvcache_tenant_set *a = &one.a.tenant_set;
	uint32_t tenant[2];
	int k;

	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, make(w, KVCACHE_NR_TENANT_CREATE));
		/* What is not set is not looked at. */
		FILL(a->uid, 0x11);
		FILL(a->max, 0x22);
		want = one.a;
		FILL(a->out_tenant, poisons[k]);
		FILL(a->out_revision, poisons[k]);
		ASSERT_EQ(0, dev_call(one.fd, one.row->nr, a));
		tenant[k] = a->out_tenant;
		EXPECT_LT(0, (int)tenant[k]);
		want.tenant_set.out_tenant = tenant[k];
		want.tenant_set.out_revision = a->out_revision;
		EXPECT_LT(a->out_revision, 16);
		same(_metadata, one.row->size);
		ASSERT_EQ(0, one_undo(w, &one, true));

		ASSERT_EQ(0, make(w, KVCACHE_NR_TENANT_SET));
		a->revision = 77 + k;
		want = one.a;
		FILL(a->out_tenant, poisons[k]);
		FILL(a->out_revision, poisons[k]);
		want.tenant_set.out_tenant = w->tenant[0];
		want.tenant_set.out_revision = 77 + k;
		ANSWERS(w);

		ASSERT_EQ(0, make(w, KVCACHE_NR_TENANT_REMOVE));
		FILL(one.a.tenant_ref.out_pages, poisons[k]);
		ANSWERS(w);

		ASSERT_EQ(0, make(w, KVCACHE_NR_TENANT_FLUSH));
		FILL(one.a.tenant_ref.out_pages, poisons[k]);
		ANSWERS(w);

		ASSERT_EQ(0, make(w, KVCACHE_NR_TENANT_GRANT));
		one.a.tenant_grant.max_held = 0x1122334455667788;
		want = one.a;
		ANSWERS(w);
	}
}

TEST_F(dev, tenant_get_answers_whole)
{
	struct world *w = &self->w;
	struct kvcache_tenant_info *i = want.tenant_get.out_info;
	int k, t;

	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, make(w, KVCACHE_NR_TENANT_GET));
		memset(&one.a.tenant_get.out_seq, poisons[k],
		       sizeof(one.a.tenant_get) - 16);
		for (t = 0; t < 2; t++) {
			i[t].id = w->tenant[t];
			i[t].pool = w->pool;
			i[t].mode = 0444;
			i[t].clients = 1;
			i[t].ttl_ns = NEVER;
			i[t].max = KVCACHE_LIMIT_MAX;
			strcpy(i[t].name, t ? "blue" : "red");
		}
		want.tenant_get.out_nr = 2;
		ASSERT_EQ(0, dev_call(one.fd, one.row->nr, &one.a));
		ANY_U64(tenant_get.out_seq, poisons[k]);
		for (t = 0; t < 2; t++) {
			EXPECT_LT(one.a.tenant_get.out_info[t].revision, 16);
			i[t].revision = one.a.tenant_get.out_info[t].revision;
		}
		same(_metadata, one.row->size);
	}
}

TEST_F(dev, client_get_answers_whole)
{
	struct world *w = &self->w;
	struct kvcache_client_info *i = want.client_get.out_info;
	struct kvcache_query q = { .size = sizeof(q) };
	uint64_t page;
	int k, t;

	ASSERT_EQ(0, dev_alloc(w->fd[1], w->pool, 1, &page));
	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, make(w, KVCACHE_NR_CLIENT_GET));
		memset(&one.a.client_get.out_seq, poisons[k],
		       sizeof(one.a.client_get) - 16);
		for (t = 0; t < 2; t++) {
			ASSERT_EQ(0, dev_call(w->fd[t], KVCACHE_NR_QUERY, &q));
			i[t].id = q.out_client;
			i[t].tenant = w->tenant[t];
			i[t].pid = getpid();
			i[t].nr_private = t;
			strcpy(i[t].comm, "test_output");
		}
		want.client_get.out_nr = 2;
		ASSERT_EQ(0, dev_call(one.fd, one.row->nr, &one.a));
		ANY_U64(client_get.out_seq, poisons[k]);
		same(_metadata, one.row->size);
	}
	ASSERT_EQ(0, dev_free(w->fd[1], w->pool, &page, 1));
}

TEST_F(dev, page_get_answers_whole)
{
	struct world *w = &self->w;
	struct kvcache_page_info *i = want.page_get.out_info, *got;
	uint64_t pages[2], t;
	int k, j;

	ASSERT_EQ(0, dev_alloc(w->fd[1], w->pool, 2, pages));
	ASSERT_EQ(0, dev_publish(w->fd[1], w->pool, &pages[1], 9));
	ASSERT_EQ(pages[0] + 1, pages[1]);
	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, make(w, KVCACHE_NR_PAGE_GET));
		memset(&one.a.page_get.out_seq, poisons[k],
		       sizeof(one.a.page_get) - 16);
		for (j = 0; j < 2; j++) {
			i[j].handle = pages[j];
			i[j].tenant = w->tenant[1];
			i[j].state = j ? KVCACHE_PAGE_SHARED :
					 KVCACHE_PAGE_PRIVATE;
			i[j].refs = 1;
			i[j].fill = j;
			i[j].priority = KVCACHE_PRIO_DEFAULT;
			i[j].nr_keys = j;
		}
		want.page_get.out_nr = 2;
		t = dev_now();
		ASSERT_EQ(0, dev_call(one.fd, one.row->nr, &one.a));
		got = one.a.page_get.out_info;
		for (j = 0; j < 2; j++) {
			EXPECT_LT(got[j].idle_ns, t);
			i[j].idle_ns = got[j].idle_ns;
		}
		EXPECT_EQ(0, got[1].client);
		EXPECT_NE(0, got[0].client);
		i[0].client = got[0].client;
		ANY_U64(page_get.out_seq, poisons[k]);
		same(_metadata, one.row->size);
	}
}

TEST_F(dev, grant_get_answers_whole)
{
	struct world *w = &self->w;
	struct kvcache_grant_info *i = want.grant_get.out_info;
	struct kvcache_tenant_grant g = {
		.size = sizeof(g), .tenant = w->tenant[1], .to = w->tenant[0],
		.rights = 3, .max_held = 0x1122334455667788,
	};
	int k;

	ASSERT_EQ(0, dev_call(w->admin, KVCACHE_NR_TENANT_GRANT, &g));
	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, make(w, KVCACHE_NR_GRANT_GET));
		memset(&one.a.grant_get.out_seq, poisons[k],
		       sizeof(one.a.grant_get) - 16);
		i[0].from = g.tenant;
		i[0].to = g.to;
		i[0].rights = 3;
		i[0].max_held = g.max_held;
		want.grant_get.out_nr = 1;
		ASSERT_EQ(0, dev_call(one.fd, one.row->nr, &one.a));
		ANY_U64(grant_get.out_seq, poisons[k]);
		same(_metadata, one.row->size);
	}
}

/* Two pages that were freed: pages are cleaned before that is asked for. */
TEST_F(dev, pool_get_answers_whole)
{
	struct world *w = &self->w;
	struct kvcache_pool_get *s = &want.pool_get;
	uint64_t pages[2];
	int k;

	ASSERT_EQ(0, dev_alloc(w->fd[1], w->pool, 2, pages));
	ASSERT_EQ(-E2BIG, dev_alloc(w->fd[1], w->pool, PAGES + 1, pages));
	ASSERT_EQ(0, dev_free(w->fd[1], w->pool, pages, 2));
	ASSERT_TRUE(dev_settles(w->admin, w->pool, PAGES));
	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, make(w, KVCACHE_NR_POOL_GET));
		memset(&one.a.pool_get.out_seq, poisons[k],
		       sizeof(one.a.pool_get) - 16);
		ASSERT_EQ(0, dev_pool_info(w->admin, w->pool, &s->out_info));
		ASSERT_EQ(2, s->out_info.allocs);
		s->out_frees = 2;
		s->out_refusals[KVCACHE_REFUSED_E2BIG] = 1;
		ASSERT_EQ(0, dev_call(one.fd, one.row->nr, &one.a));
		ANY_U64(pool_get.out_seq, poisons[k]);
		same(_metadata, one.row->size);
	}
}

TEST_F(dev, pool_set_answers_whole)
{
	struct world *w = &self->w;
	struct kvcache_pool_set *a = &one.a.pool_set;
	static const uint32_t ops[] = {
		KVCACHE_POOL_RESIZE, KVCACHE_POOL_DRAIN, KVCACHE_POOL_RESUME,
		KVCACHE_POOL_REMOVE,
	};
	uint32_t pool;
	int k, op;

	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, make(w, KVCACHE_NR_POOL_SET));
		FILL(a->out_pool, poisons[k]);
		FILL(a->out_nr_pages, poisons[k]);
		ASSERT_EQ(0, dev_call(one.fd, one.row->nr, a));
		pool = a->out_pool;
		EXPECT_NE(w->pool, pool);
		EXPECT_LT(pool, KVCACHE_MAX_POOLS);
		want.pool_set.out_pool = pool;
		want.pool_set.out_nr_pages = 1;
		same(_metadata, one.row->size);
		for (op = 0; op < 4; op++) {
			memset(a, 0, sizeof(*a));
			a->size = sizeof(*a);
			a->op = ops[op];
			a->pool = pool;
			a->nr_pages = op ? 0 : 3;
			want = one.a;
			FILL(a->out_pool, poisons[k]);
			FILL(a->out_nr_pages, poisons[k]);
			want.pool_set.out_pool = pool;
			want.pool_set.out_nr_pages = op < 3 ? 3 : 0;
			ASSERT_EQ(0, dev_call(one.fd, one.row->nr, a));
			same(_metadata, one.row->size);
		}
	}
}

/* ---- programs of 32 bits ----------------------------------------------- */

/* ioctl() by the other gate, whose numbers and registers have 32 bits. */
static int call_32(int fd, unsigned int nr, void *arg)
{
#ifdef __x86_64__
	int rc;

	/* 54 is ioctl there. */
	asm volatile("int $0x80"
		     : "=a"(rc)
		     : "a"(54), "b"(fd), "c"(KVCACHE_IO(nr)), "d"(arg)
		     : "memory", "r8", "r9", "r10", "r11");
	return rc;
#else
	return -ENOSYS;
#endif
}

TEST_F(dev, a_program_of_32_bits_uses_the_same_structs)
{
	struct world *w = &self->w;
	union any *low = MAP_FAILED;
	const struct row *r;
	int status, rc;
	pid_t pid;

#ifdef MAP_32BIT
	low = mmap(NULL, sizeof(*low), PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
#endif
	pid = fork();
	if (!pid)
		_exit(call_32(-1, 0, NULL) == -EBADF ? 0 : 1);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	if (status || low == MAP_FAILED)
		SKIP(return, "this kernel runs no programs of 32 bits");
	for (r = rows; r < rows + NR_ROWS; r++) {
		ASSERT_EQ(0, one_make(w, r, &one));
		memcpy(low, &one.a, r->size);
		rc = call_32(one.fd, r->nr, low);
		EXPECT_EQ(one_expect(&one), rc)
			TH_LOG("%s", r->name);
		memcpy(&one.a, low, r->size);
		ASSERT_EQ(0, one_undo(w, &one, !rc));
	}
	EXPECT_EQ(-ENOTTY, call_32(w->admin, 0xff, low));
}

TEST_HARNESS_MAIN
