// SPDX-License-Identifier: MIT
/*
 * test_cmd.c - the form of commands: sizes, flags, reserved members, and who
 * may call; the same for all of them.
 */
#include <errno.h>
#include <stddef.h>

#include "cmd_kit.h"

struct row {
	unsigned int nr;
	uint32_t size;
	uint32_t min;	/* 0: @size */
	uint32_t flags;
	uint32_t reserved;
};

#define ROW(name, type, ...) \
	{ .nr = KVCACHE_NR_##name, .size = sizeof(struct type), __VA_ARGS__ }

static const struct row rows[] = {
	ROW(QUERY, kvcache_query),
	ROW(ATTACH, kvcache_attach),
	ROW(ALLOC, kvcache_alloc, .flags = 1, .min = 2080),
	ROW(FREE, kvcache_free),
	ROW(PUBLISH, kvcache_publish,
	    .reserved = offsetof(struct kvcache_publish, __reserved)),
	ROW(LOOKUP, kvcache_lookup, .flags = 1, .min = 12320),
	ROW(ADVISE, kvcache_advise),
	ROW(EXPORT, kvcache_export, .flags = 1,
	    .reserved = offsetof(struct kvcache_export, __reserved)),
	ROW(PROVIDE, kvcache_provide),
	ROW(TAKE, kvcache_take, .flags = 1),
	ROW(RETIRE, kvcache_retire),
	ROW(TENANT_CREATE, kvcache_tenant_set),
	ROW(TENANT_SET, kvcache_tenant_set),
	ROW(TENANT_REMOVE, kvcache_tenant_ref),
	ROW(TENANT_FLUSH, kvcache_tenant_ref),
	ROW(TENANT_GRANT, kvcache_tenant_grant,
	    .reserved = offsetof(struct kvcache_tenant_grant, __reserved)),
	ROW(TENANT_GET, kvcache_tenant_get),
	ROW(CLIENT_GET, kvcache_client_get),
	ROW(PAGE_GET, kvcache_page_get),
	ROW(GRANT_GET, kvcache_grant_get,
	    .reserved = offsetof(struct kvcache_grant_get, __reserved)),
	ROW(POOL_SET, kvcache_pool_set),
	ROW(POOL_GET, kvcache_pool_get,
	    .reserved = offsetof(struct kvcache_pool_get, __reserved)),
};
#define NR_ROWS (sizeof(rows) / sizeof(rows[0]))

/* Room for the largest struct and what may come after it. */
struct any {
	union {
		uint32_t size;
		unsigned char b[20000];
	};
};

static struct any any_of(uint32_t size)
{
	static struct any a;

	memset(&a, 0, sizeof(a));
	a.size = size;
	return a;
}

static void set_word(struct any *a, uint32_t offset, uint32_t w)
{
	memcpy(&a->b[offset], &w, sizeof(w));
}

TEST_F(cmd, no_such_command)
{
	struct any a = any_of(sizeof(a));
	unsigned int nr, k, known = 0;

	ASSERT_EQ(0, attach(self));
	for (nr = 0; nr < 0x100; nr++) {
		for (k = 0; k < NR_ROWS && rows[k].nr != nr; k++)
			;
		if (k < NR_ROWS)
			known++;
		else
			REFUSED(ENOTTY, nr, a);
	}
	ASSERT_EQ(NR_ROWS, known);
	REFUSED(ENOTTY, ~0U, a);
}

TEST_F(cmd, sizes)
{
	struct any a;
	uint32_t k, min;

	ASSERT_EQ(0, attach(self));
	for (k = 0; k < NR_ROWS; k++) {
		min = rows[k].min ? rows[k].min : rows[k].size;
		a = any_of(0);
		REFUSED(EINVAL, rows[k].nr, a);
		a = any_of(4);
		REFUSED(EINVAL, rows[k].nr, a);
		a = any_of(min - 1);
		REFUSED(EINVAL, rows[k].nr, a);
		/* A tail that is not known and not zero. */
		a = any_of(rows[k].size + 8);
		a.b[rows[k].size + 7] = 1;
		REFUSED(E2BIG, rows[k].nr, a);
		a = any_of(16385);
		REFUSED(E2BIG, rows[k].nr, a);
	}
}

TEST_F(cmd, undefined_flags_and_reserved_members)
{
	struct any a;
	uint32_t k, bit;

	ASSERT_EQ(0, attach(self));
	for (k = 0; k < NR_ROWS; k++) {
		for (bit = 0; bit < 32; bit++) {
			if (rows[k].flags & 1U << bit)
				continue;
			a = any_of(rows[k].size);
			set_word(&a, 4, 1U << bit);
			ASSERT_EQ(-EOPNOTSUPP, call(self, rows[k].nr, &a));
		}
		a = any_of(rows[k].size);
		set_word(&a, 4, 0x80000000);
		REFUSED(EOPNOTSUPP, rows[k].nr, a);
		if (!rows[k].reserved)
			continue;
		a = any_of(rows[k].size);
		set_word(&a, rows[k].reserved, 1);
		REFUSED(EOPNOTSUPP, rows[k].nr, a);
	}
}

/* A struct of an older header, and one of a newer one with a zero tail. */
TEST_F(cmd, shorter_and_longer_structs)
{
	struct {
		struct kvcache_alloc a;
		unsigned char tail[8];
	} longer;
	struct kvcache_alloc a;

	ASSERT_EQ(0, attach(self));
	POISON(a);
	a.size = offsetof(struct kvcache_alloc, out_available);
	a.pool = 0;
	a.nr = 1;
	a.deadline_ns = 0;
	ASSERT_EQ(0, call(self, KVCACHE_NR_ALLOC, &a));
	ASSERT_EQ(1, (uint32_t)a.out_pages[0]);
	/* Nothing is written past what the caller knows. */
	ASSERT_EQ(0xccccccccccccccccULL, a.out_available);
	POISON(longer.a);
	memset(longer.tail, 0, sizeof(longer.tail));
	longer.a.size = sizeof(longer.a) + 8;
	longer.a.pool = 0;
	longer.a.nr = 1;
	longer.a.deadline_ns = 0;
	ASSERT_EQ(0, call(self, KVCACHE_NR_ALLOC, &longer));
	ASSERT_EQ(2, (uint32_t)longer.a.out_pages[0]);
	ASSERT_EQ(sizeof(longer.a) + 8, longer.a.size);
}

TEST_F(cmd, what_is_not_attached)
{
	struct kvcache_event ev;
	struct any a;
	uint32_t k;
	int want;

	for (k = 0; k < NR_ROWS; k++) {
		if (rows[k].nr < KVCACHE_NR_ALLOC ||
		    rows[k].nr >= KVCACHE_NR_TENANT_CREATE)
			continue;
		a = any_of(rows[k].size);
		want = -ENOTCONN;
		ASSERT_EQ(want, call(self, rows[k].nr, &a));
	}
	ASSERT_EQ(-ENOTCONN, self->s->ops->events(self->s, &ev, 1, 0));
}

TEST_F(cmd, what_this_backend_does_not_have)
{
	struct any a;
	uint32_t k;

	ASSERT_EQ(0, attach(self));
	for (k = 0; k < NR_ROWS; k++) {
		if (rows[k].nr < KVCACHE_NR_EXPORT ||
		    rows[k].nr > KVCACHE_NR_RETIRE)
			continue;
		if (!strcmp(self->s->ops->name, "device") &&
		    rows[k].nr == KVCACHE_NR_EXPORT)
			continue;
		a = any_of(rows[k].size);
		REFUSED(EOPNOTSUPP, rows[k].nr, a);
	}
}

TEST_HARNESS_MAIN
