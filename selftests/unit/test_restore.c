// SPDX-License-Identifier: MIT
/*
 * test_restore.c - saved sequences that are refused: each reason has an errno of
 * its own, and nothing is any other than before.
 */
#include "save_kit.h"

#define NT 21

/* Two groups, one KV head in each: as small as it can be. */
static const struct kit_spec two_groups = {
	.kv_heads = 1, .ngroups = 2, .type = KVC_F16, .pages = 32,
};

static const struct kit_spec one_group = { .kv_heads = 1, .pages = 16 };

FIXTURE(restore)
{
	struct kit k;
	struct mem m;
	struct kvcache_pool_info pool;
	struct kvc_stats st;
};

static void begin(FIXTURE_DATA(restore) *self, const struct kit_spec *spec,
		  uint32_t n)
{
	uint32_t tokens[NT];
	struct kvc_seq *s;

	kit_open(&self->k, spec);
	kit_count(tokens, NT, 100);
	s = kit_seq(&self->k, NULL);
	ASSERT_EQ(0, kit_add(&self->k, s, tokens, n));
	mem_save(&self->m, s);
	kvc_seq_free(s, 0);
	self->pool = kit_pool(&self->k);
	kvc_cache_stats(self->k.c, &self->st);
}

FIXTURE_SETUP(restore)
{
	memset(self, 0, sizeof(*self));
}

FIXTURE_TEARDOWN(restore)
{
	kit_end(&self->k);
	mem_free(&self->m);
}

/* Nothing is held, and the books are what they were. */
static void unchanged(FIXTURE_DATA(restore) *self)
{
	struct kvcache_pool_info now = kit_pool(&self->k);
	struct kvc_stats st;

	ASSERT_EQ(NULL, self->k.c->live);
	ASSERT_EQ(self->pool.nr_free, now.nr_free);
	ASSERT_EQ(self->pool.nr_cached, now.nr_cached);
	kvc_cache_stats(self->k.c, &st);
	ASSERT_EQ(0, memcmp(&st, &self->st, sizeof(st)));
}

static int refused(FIXTURE_DATA(restore) *self)
{
	struct kvc_seq *q = (void *)-1;
	int rc = mem_restore(&self->k, &self->m, 0, &q);

	ASSERT_LT(rc, 0);
	ASSERT_EQ((void *)-1, q);
	ASSERT_TRUE(kvc_errmsg(self->k.ctx)[0]);
	unchanged(self);
	return rc;
}

static void accepted(FIXTURE_DATA(restore) *self)
{
	struct kvc_seq *q;

	ASSERT_EQ(0, mem_restore(&self->k, &self->m, 0, &q));
	kit_check(&self->k, q);
	kvc_seq_free(q, 0);
}

/* A byte of @at is another in @bit, and then what it was. */
static int flipped(FIXTURE_DATA(restore) *self, size_t at, int bit)
{
	int rc;

	self->m.p[at] ^= 1 << bit;
	rc = refused(self);
	self->m.p[at] ^= 1 << bit;
	return rc;
}

TEST_F(restore, altered_at_every_byte)
{
	size_t at;
	int rc;

	begin(self, &two_groups, 9);
	for (at = 0; at < self->m.len; at++) {
		rc = flipped(self, at, at % 8);
		if (at < 8)
			ASSERT_EQ(-EMEDIUMTYPE, rc);
		else if (at < 12)
			ASSERT_EQ(-EPROTONOSUPPORT, rc);
		else
			ASSERT_EQ(-EBADMSG, rc);
	}
	accepted(self);
}

TEST_F(restore, cut_off_at_every_length)
{
	size_t len;

	begin(self, &two_groups, 9);
	len = self->m.len;
	for (self->m.len = 0; self->m.len < len; self->m.len++)
		ASSERT_EQ(-ENODATA, refused(self));
	accepted(self);
}

/* A file tells that it is too short, or too long, before any page is taken. */
TEST_F(restore, files_that_are_cut_off)
{
	struct kvc_stream st = { .sz = sizeof(st) };
	struct kvc_seq *q;
	size_t len;
	FILE *f;

	begin(self, &two_groups, 9);
	f = tmpfile();
	ASSERT_NE(NULL, f);
	st.fd = fileno(f);
	for (len = 0; len < self->m.len; len += 7) {
		ASSERT_EQ(0, ftruncate(st.fd, 0));
		ASSERT_EQ(len, pwrite(st.fd, self->m.p, len, 0));
		ASSERT_EQ(0, lseek(st.fd, 0, SEEK_SET));
		ASSERT_EQ(-ENODATA, kvc_seq_restore(self->k.c, &st, NULL, &q));
		unchanged(self);
		EXPECT_EQ(self->pool.allocs, kit_pool(&self->k).allocs);
	}
	fclose(f);
}

TEST_F(restore, parts_in_another_order)
{
	size_t at, i;

	begin(self, &one_group, 9);
	/* The section of the tokens twice, the end behind it. */
	at = HEAD_AT(mem_get32(&self->m, SAVED_BEGIN + 8)) + SAVED_CRC;
	i = self->m.len - at - SAVED_SECTION - SAVED_END - SAVED_CRC;
	self->m.p = realloc(self->m.p, self->m.len + i);
	memmove(self->m.p + at + i, self->m.p + at, self->m.len - at);
	memcpy(self->m.p + at, self->m.p + at + i, i);
	self->m.len += i;
	EXPECT_EQ(-EBADMSG, refused(self));
}

TEST_F(restore, not_one_at_all)
{
	begin(self, &one_group, 3);
	memcpy(self->m.p, "GGUF", 4);
	EXPECT_EQ(-EMEDIUMTYPE, refused(self));
	self->m.len = 3;
	EXPECT_EQ(-EMEDIUMTYPE, refused(self));
	self->m.len = 0;
	EXPECT_EQ(-ENODATA, refused(self));
}

/* Heads with a right checksum that say what cannot be, or what is not ours. */
TEST_F(restore, heads_that_lie)
{
	static const struct {
		size_t at;
		uint32_t v;
		int want;
	} lies[] = {
		{ HEAD_EPOCH, 1, -EKEYEXPIRED },
		{ HEAD_EPOCH + 4, 1, -EKEYEXPIRED },
		{ HEAD_ID, 1, -EXDEV },
		{ HEAD_ID + 28, 1, -EXDEV },
		{ HEAD_EXTRA, 1, -EKEYREJECTED },
		{ HEAD_BYTES, 5, -EBADMSG },
		{ HEAD_BYTES + 4, 5, -EBADMSG },
		{ HEAD_LEN, 8, -EBADMSG },
		{ HEAD_LEN, UINT32_MAX, -EBADMSG },
		{ HEAD_NLAYERS, 4, -EXDEV },
		{ HEAD_NLAYERS, 5, -EBADMSG },
		{ HEAD_NLAYERS, 0, -EBADMSG },
		{ HEAD_NLAYERS, UINT32_MAX, -EBADMSG },
		{ HEAD_NGROUPS, 0, -EBADMSG },
		{ HEAD_NGROUPS, 3, -EBADMSG },
		{ HEAD_NGROUPS, UINT32_MAX, -EBADMSG },
		{ HEAD_APP, 1, -EBADMSG },
		{ HEAD_APP, UINT32_MAX, -EBADMSG },
		{ HEAD_APP + 4, 1, -EBADMSG },
		{ HEAD_AT(SAVED_HEAD), 0x01010101, -EXDEV },
		{ HEAD_GROUP(0), UINT32_MAX, -EBADMSG },
		{ HEAD_GROUP(0) + 4, 32, -EXDEV },
		{ HEAD_GROUP(0) + 8, 32, -EXDEV },
		{ HEAD_GROUP(0) + 12, KVC_F32, -EPROTOTYPE },
		{ HEAD_GROUP(1) + 16, UINT32_MAX, -EPROTOTYPE },
		{ HEAD_GROUP(1) + 20, 4, -EXDEV },
		{ HEAD_GROUP(1) + 24, 4, -EXDEV },
		{ HEAD_GROUP(0) + 28, UINT32_MAX, -EBADMSG },
		{ HEAD_GROUP(0) + 32, UINT32_MAX, -EBADMSG },
		{ HEAD_GROUP(0) + 36, 1 << 14, -EBADMSG },
		{ HEAD_GROUP(0) + 40, 1, -EBADMSG },
		{ HEAD_GROUP(0) + 44, 10, -EBADMSG },
		{ HEAD_GROUP(1) + 48, 1, -EXDEV },
	};
	unsigned int i;
	uint32_t was;
	int rc;

	begin(self, &two_groups, 9);
	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		was = mem_get32(&self->m, lies[i].at);
		ASSERT_NE(was, lies[i].v);
		mem_set32(&self->m, lies[i].at, lies[i].v);
		mem_seal(&self->m);
		rc = refused(self);
		if (rc != lies[i].want)
			TH_LOG("lie %u: %s", i, kvc_errmsg(self->k.ctx));
		EXPECT_EQ(lies[i].want, rc);
		mem_set32(&self->m, lies[i].at, was);
		mem_seal(&self->m);
	}
	accepted(self);
}

/* A head that asks for the world, its sums right: refused before memory is. */
TEST_F(restore, lengths_that_cannot_be)
{
	static const uint32_t lens[] = { 1000, 1 << 20, UINT32_MAX };
	struct saved_head h;
	struct saved_in in = { .ctx = NULL };
	unsigned int i;

	begin(self, &one_group, 9);
	in.ctx = self->k.ctx;
	in.st = mem_stream(&self->m);
	ASSERT_EQ(0, kvc_saved_read_head(&in, &h));
	for (i = 0; i < 3; i++) {
		h.len = lens[i];
		ASSERT_EQ(0, kvc_saved_size(&h, &h.bytes));
		mem_set32(&self->m, HEAD_LEN, h.len);
		mem_set32(&self->m, HEAD_BYTES, h.bytes);
		mem_set32(&self->m, HEAD_BYTES + 4, h.bytes >> 32);
		mem_seal(&self->m);
		EXPECT_EQ(-E2BIG, refused(self));
		EXPECT_EQ(self->pool.allocs, kit_pool(&self->k).allocs);
	}
}

TEST_F(restore, versions)
{
	begin(self, &one_group, 3);
	mem_set32(&self->m, 8, 2);
	EXPECT_EQ(-EPROTONOSUPPORT, refused(self));
	EXPECT_TRUE(strstr(kvc_errmsg(self->k.ctx), "version 2"));
}

TEST_F(restore, other_caches)
{
	static const struct {
		struct kit_spec spec;
		int want;
		const char *why;
	} other[] = {
		{ { .kv_heads = 2, .pages = 16 }, -EXDEV,
		  "KV heads: 1 there, and 2 here" },
		{ { .kv_heads = 1, .pages = 16, .type = KVC_BF16 },
		  -EPROTOTYPE, "keys are f32 in group 0, and bf16 here" },
		{ { .kv_heads = 1, .pages = 16, .ngroups = 2 }, -EXDEV,
		  "3 layers in 1 groups" },
	};
	struct mem m;
	unsigned int i;

	begin(self, &one_group, 9);
	m = self->m;
	for (i = 0; i < 3; i++) {
		kit_end(&self->k);
		begin(self, &other[i].spec, 3);
		mem_free(&self->m);
		self->m = m;
		EXPECT_EQ(other[i].want, refused(self));
		if (!strstr(kvc_errmsg(self->k.ctx), other[i].why))
			TH_LOG("%s", kvc_errmsg(self->k.ctx));
		EXPECT_TRUE(strstr(kvc_errmsg(self->k.ctx), other[i].why));
	}
}

TEST_F(restore, extra_bytes)
{
	struct kvc_seq_opts so = {
		.sz = sizeof(so), .extra = "adapter 1", .extra_len = 9,
	};
	struct kvc_restore_opts ro = { .sz = sizeof(ro), .seq = &so };
	struct kvc_stream st;
	struct kvc_seq *s, *q;
	uint32_t t[3] = { 1, 2, 3 };
	struct kvc_item item;

	begin(self, &one_group, 3);
	mem_free(&self->m);
	ASSERT_EQ(0, kvc_seq_create(self->k.c, &so, &s));
	item = (struct kvc_item) { s, t, 3 };
	ASSERT_EQ(0, kit_step(&self->k, &item, 1, "adapter 1"));
	/* A fork's are its parent's. */
	ASSERT_EQ(0, kvc_seq_fork(s, &q));
	mem_save(&self->m, q);
	kvc_seq_free(s, KVC_SEQ_DISCARD);
	kvc_seq_free(q, KVC_SEQ_DISCARD);
	self->pool = kit_pool(&self->k);
	kvc_cache_stats(self->k.c, &self->st);
	EXPECT_EQ(-EKEYREJECTED, refused(self));
	st = mem_stream(&self->m);
	ASSERT_EQ(0, kvc_seq_restore(self->k.c, &st, &ro, &q));
	kit_check_extra(&self->k, q, "adapter 1");
	kvc_seq_free(q, 0);
	so.extra = "adapter 2";
	st = mem_stream(&self->m);
	EXPECT_EQ(-EKEYREJECTED, kvc_seq_restore(self->k.c, &st, &ro, &q));
}

TEST_F(restore, no_room)
{
	struct kvc_seq *s, *q;

	begin(self, &one_group, 21);
	s = kit_seq(&self->k, NULL);
	ASSERT_EQ(0, kvc_seq_reserve(s, 4 * 11, 0));
	EXPECT_EQ(-ENOSPC, mem_restore(&self->k, &self->m, 0, &q));
	EXPECT_TRUE(strstr(kvc_errmsg(self->k.ctx), "6 wanted"));
	EXPECT_EQ(11, kit_used(&self->k));
	ASSERT_EQ(0, kvc_seq_truncate(s, 0));
	accepted(self);
	kvc_seq_free(s, 0);
}

TEST_F(restore, a_stream_that_fails)
{
	struct kvc_stream st = { .sz = sizeof(st), .fd = -1 };
	struct kvc_restore_opts ro = { .sz = sizeof(ro), .flags = 1U << 31 };
	struct kvc_seq *q;

	begin(self, &one_group, 9);
	EXPECT_EQ(-EBADF, kvc_seq_restore(self->k.c, &st, NULL, &q));
	unchanged(self);
	st = mem_stream(&self->m);
	EXPECT_EQ(-EINVAL, kvc_seq_restore(self->k.c, &st, &ro, &q));
	ro.flags = 0;
	ro.seq = (void *)&(struct kvc_seq_opts) { .sz = 1 };
	EXPECT_EQ(-EINVAL, kvc_seq_restore(self->k.c, &st, &ro, &q));
	unchanged(self);
}

TEST_HARNESS_MAIN
