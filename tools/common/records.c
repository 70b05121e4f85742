// SPDX-License-Identifier: MIT
/*
 * records.c - lists of tenants, clients, pages and grants.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <kvcache/uapi.h>

#include "records.h"

/* What the replies begin with; grants are of no pool. */
struct head {
	__u32 size;
	__u32 flags;
	__u32 pool;
	__u32 start;
	__aligned_u64 out_seq;
	__u32 out_nr;
	__u32 out_next;
};

#define SAME_HEAD(type)							\
	_Static_assert(offsetof(struct type, out_info) == sizeof(struct head) && \
		       offsetof(struct type, out_next) ==		\
		       offsetof(struct head, out_next), #type)

SAME_HEAD(kvcache_tenant_get);
SAME_HEAD(kvcache_client_get);
SAME_HEAD(kvcache_page_get);
SAME_HEAD(kvcache_grant_get);

union reply {
	struct head head;
	struct kvcache_tenant_get tenants;
	struct kvcache_client_get clients;
	struct kvcache_page_get pages;
	struct kvcache_grant_get grants;
};

static size_t record_size(unsigned int nr)
{
	switch (nr) {
	case KVCACHE_NR_TENANT_GET:
		return sizeof(struct kvcache_tenant_info);
	case KVCACHE_NR_CLIENT_GET:
		return sizeof(struct kvcache_client_info);
	case KVCACHE_NR_GRANT_GET:
		return sizeof(struct kvcache_grant_info);
	}
	return sizeof(struct kvcache_page_info);
}

static int append(struct records *out, size_t *cap, const struct head *reply,
		  size_t size)
{
	void *v;

	if (out->n + reply->out_nr > *cap) {
		*cap = 2 * (out->n + reply->out_nr);
		v = reallocarray(out->v, *cap, size);
		if (!v)
			return -ENOMEM;
		out->v = v;
	}
	if (reply->out_nr)
		memcpy((char *)out->v + out->n * size, reply + 1,
		       reply->out_nr * size);
	out->n += reply->out_nr;
	return 0;
}

int records_read(records_call *call, void *arg, unsigned int nr, uint32_t pool,
		 struct records *out)
{
	const size_t size = record_size(nr);
	static union reply r;
	uint32_t start = 0;
	size_t cap = 0;
	int err;

	*out = (struct records){ 0 };
	do {
		r.head = (struct head){ .pool = pool, .start = start };
		err = call(arg, nr, &r);
		if (err)
			return err;
		/* Whoever serves it is not to be trusted with our memory. */
		if (r.head.out_nr > (sizeof(r) - sizeof(r.head)) / size)
			return -EPROTO;
		if (!start)
			out->seq = r.head.out_seq;
		out->last = r.head.out_seq;
		err = append(out, &cap, &r.head, size);
		if (err)
			return err;
		if (r.head.out_next && r.head.out_next <= start)
			return -EPROTO;
		start = r.head.out_next;
	} while (start);
	return 0;
}
