/* SPDX-License-Identifier: MIT */
/*
 * cmd_kit.h - a backend behind its commands, and refusals.
 *
 * Outputs are poisoned before each call. What the whole backend holds is read
 * again after each refusal and compared.
 */
#ifndef CMD_KIT_H
#define CMD_KIT_H

#include "device.h"

#define NEVER KVCACHE_TIME_NEVER

/*
 * @admin: on a device or a broker, an open that stays; else NULL
 * @tenant: the first; others have the numbers after it
 */
FIXTURE(cmd) {
	struct kvc_sys *admin;
	uint32_t tenant;
	struct kvc_sys *s;
	struct kvcache_query before;
	struct kvcache_page_get pages_before;
	struct kvcache_tenant_get tenants_before;
};
#define SELF struct ht_fix_cmd *self

static inline int call(SELF, unsigned int nr, void *arg)
{
	return self->s->ops->call(self->s, nr, arg);
}

/* A struct with its size, all else poison. */
#define POISON(x)							\
	do {								\
		memset(&(x), 0xcc, sizeof(x));				\
		(x).size = sizeof(x);					\
		(x).flags = 0;						\
	} while (0)

static inline void snapshot(SELF, struct kvcache_query *q,
			    struct kvcache_page_get *p,
			    struct kvcache_tenant_get *t)
{
	uint32_t k;

	POISON(*q);
	ASSERT_EQ(0, call(self, KVCACHE_NR_QUERY, q));
	POISON(*p);
	p->pool = 0;
	p->start = 0;
	ASSERT_EQ(0, call(self, KVCACHE_NR_PAGE_GET, p));
	for (k = 0; k < p->out_nr; k++)
		p->out_info[k].idle_ns = 0;
	POISON(*t);
	t->pool = 0;
	t->start = 0;
	ASSERT_EQ(0, call(self, KVCACHE_NR_TENANT_GET, t));
	/* Refusals are counted and told, which is all that they may do. */
	for (k = 0; k < t->out_nr; k++)
		t->out_info[k].ev_max = 0;
	q->out_seq = 0;
	p->out_seq = 0;
	t->out_seq = 0;
}

static inline void remember(SELF)
{
	snapshot(self, &self->before, &self->pages_before,
		 &self->tenants_before);
}

static inline void unchanged(SELF)
{
	static struct kvcache_query q;
	static struct kvcache_page_get p;
	static struct kvcache_tenant_get t;

	snapshot(self, &q, &p, &t);
	ASSERT_EQ(0, memcmp(&q, &self->before, sizeof(q)));
	ASSERT_EQ(0, memcmp(&p, &self->pages_before, sizeof(p)));
	ASSERT_EQ(0, memcmp(&t, &self->tenants_before, sizeof(t)));
}

/* The call fails so, writes nothing to its struct, and changes nothing. */
#define REFUSED(err, nr, arg)						\
	do {								\
		__typeof__(arg) refused_was;				\
									\
		memcpy(&refused_was, &(arg), sizeof(refused_was));	\
		remember(self);						\
		ASSERT_EQ(-(err), call(self, nr, &(arg)));		\
		ASSERT_EQ(0, memcmp(&refused_was, &(arg),		\
				    sizeof(refused_was)));		\
		unchanged(self);					\
	} while (0)

/* The same for a copy of a @good struct in which one member is another. */
#define REFUSED_WITH(err, nr, good, member, value)			\
	do {								\
		__typeof__(good) refused_arg;				\
									\
		memcpy(&refused_arg, &(good), sizeof(refused_arg));	\
		refused_arg.member = value;				\
		REFUSED(err, nr, refused_arg);				\
	} while (0)

static inline int attach(SELF)
{
	struct kvcache_attach a;

	POISON(a);
	a.by = KVCACHE_ATTACH_AUTO;
	a.tenant = 0;
	memset(a.name, 0, sizeof(a.name));
	return call(self, KVCACHE_NR_ATTACH, &a);
}

/* The smallest pages that the backend has. */
static inline uint64_t page_size(void)
{
	return device_path() ? KVCACHE_PAGE_SIZE_MIN : 4096;
}

FIXTURE_SETUP(cmd)
{
	struct kvc_open_opts o = {
		.sz = sizeof(o), .local_bytes = 16 * page_size(),
		.local_page_size = page_size(),
	};

	if (!device_path()) {
		self->tenant = 1;
		ASSERT_EQ(0, kvc_sys_local_open(&o, &self->s));
		return;
	}
	self->admin = device_begin(page_size(), 16, 0, &self->tenant);
	ASSERT_EQ(0, device_open(&self->s));
}

FIXTURE_TEARDOWN(cmd)
{
	self->s->ops->close(self->s);
	if (self->admin)
		device_end(self->admin);
}

/* Its client's number, 0 none: the device goes on counting. */
static inline uint32_t client_id(SELF)
{
	struct kvcache_query q;

	POISON(q);
	ASSERT_EQ(0, call(self, KVCACHE_NR_QUERY, &q));
	return q.out_client;
}

static inline void alloc(SELF, uint32_t nr, uint64_t *pages)
{
	static struct kvcache_alloc a;

	POISON(a);
	a.pool = 0;
	a.nr = nr;
	a.deadline_ns = 0;
	ASSERT_EQ(0, call(self, KVCACHE_NR_ALLOC, &a));
	memcpy(pages, a.out_pages, nr * sizeof(*pages));
}

static inline void fill_publish(struct kvcache_publish *p, uint64_t page,
				uint32_t key)
{
	struct kvcache_publish_page *e = &p->pages[0];

	memset(p, 0, sizeof(*p));
	p->size = sizeof(*p);
	p->nr = 1;
	e->handle = page;
	e->nr_keys = 1;
	e->priority = KVCACHE_PRIO_DEFAULT;
	e->ttl_ns = NEVER;
	e->keys[0].fill = 1;
	memcpy(e->keys[0].key, &key, sizeof(key));
	memset(&e->out_handle, 0xcc, sizeof(e->out_handle));
	memset(&e->out_result, 0xcc, sizeof(e->out_result));
}

#endif /* CMD_KIT_H */
