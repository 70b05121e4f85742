/* SPDX-License-Identifier: MIT */
/*
 * refuse.h - a refusal changes nothing: what the device says of its pools,
 * tenants, clients and pages before and after is the same.
 */
#ifndef REFUSE_H
#define REFUSE_H

#include "dev_kit.h"

/**
 * struct state - all that there is
 * @query: version and pools
 * @tenants: of one pool
 * @clients: of one pool
 * @pages: of one pool
 */
struct state {
	struct kvcache_query query;
	struct kvcache_tenant_get tenants;
	struct kvcache_client_get clients;
	struct kvcache_page_get pages;
};

#define FILL(member, byte)	memset(&(member), byte, sizeof(member))

#define LIST(x, of_pool)						\
	do {								\
		memset(&(x), 0, sizeof(x));				\
		(x).size = sizeof(x);					\
		(x).pool = of_pool;					\
	} while (0)

/* Through an open that is privileged; time and sequence numbers left out. */
static inline int state_read(int fd, uint32_t pool, struct state *s)
{
	uint32_t k;
	int err;

	memset(&s->query, 0, sizeof(s->query));
	s->query.size = sizeof(s->query);
	LIST(s->tenants, pool);
	LIST(s->clients, pool);
	LIST(s->pages, pool);
	err = dev_call(fd, KVCACHE_NR_QUERY, &s->query);
	if (!err)
		err = dev_call(fd, KVCACHE_NR_TENANT_GET, &s->tenants);
	if (!err)
		err = dev_call(fd, KVCACHE_NR_CLIENT_GET, &s->clients);
	if (!err)
		err = dev_call(fd, KVCACHE_NR_PAGE_GET, &s->pages);
	if (err)
		return err;
	s->query.out_seq = 0;
	s->tenants.out_seq = 0;
	s->clients.out_seq = 0;
	s->pages.out_seq = 0;
	for (k = 0; k < s->pages.out_nr; k++)
		s->pages.out_info[k].idle_ns = 0;
	/* Refusals at the max are counted, which is all that they may do. */
	for (k = 0; k < s->tenants.out_nr; k++)
		s->tenants.out_info[k].ev_max = 0;
	return 0;
}

static struct state state_before, state_after;

/* The statement, around which nothing may change. */
#define UNCHANGED(w, ...)						\
	do {								\
		ASSERT_EQ(0, state_read((w)->admin, (w)->pool,		\
					&state_before));		\
		__VA_ARGS__;						\
		ASSERT_EQ(0, state_read((w)->admin, (w)->pool,		\
					&state_after));			\
		EXPECT_EQ(0, memcmp(&state_before, &state_after,	\
				    sizeof(state_after)));		\
	} while (0)

/* The command fails so, writes nothing to its struct, and changes nothing. */
#define REFUSED(w, err, fd, nr, arg)					\
	do {								\
		static __typeof__(arg) refused_was;			\
									\
		memcpy(&refused_was, &(arg), sizeof(refused_was));	\
		UNCHANGED(w, EXPECT_EQ(-(err), dev_call(fd, nr, &(arg))) \
			TH_LOG("command %#x", nr));			\
		EXPECT_EQ(0, memcmp(&refused_was, &(arg),		\
				    sizeof(refused_was)));		\
	} while (0)

/* The same for a copy of a @good struct in which one member is another. */
#define REFUSED_WITH(w, err, fd, nr, good, member, value)		\
	do {								\
		static __typeof__(good) refused_arg;			\
									\
		memcpy(&refused_arg, &(good), sizeof(refused_arg));	\
		refused_arg.member = value;				\
		REFUSED(w, err, fd, nr, refused_arg);			\
	} while (0)

/* A call by a process that dropped what it could: its exit status. */
#define CHILD_STATUS(pid)						\
	({								\
		int status_;						\
									\
		waitpid(pid, &status_, 0) == (pid) && WIFEXITED(status_) ? \
		WEXITSTATUS(status_) : -1;				\
	})

#endif /* REFUSE_H */
