// SPDX-License-Identifier: MIT
/*
 * alloc.c - fresh pages: all that are wanted or none, waited for if need be.
 *
 * One command gives up to KVCACHE_MAX_PAGES pages, and waits in the backend's
 * queue. More are taken when all of them can be had: whoever held some while
 * waiting for the rest could wait for ever for one who does the same.
 */
#include <stdlib.h>
#include <time.h>

#include "internal.h"

#define POLL_NS	10000000	/* between looks for room; kvcache.h names it */

/* Why an allocation was refused, in numbers. */
static int refused(struct kvc_cache *c, int rc, uint32_t n)
{
	const char *remedy = "end a conversation, or take a larger pool";
	struct kvc_supply s;

	if (rc != -EDQUOT && rc != -ENOSPC && rc != -E2BIG && rc != -ETIMEDOUT)
		return rc;
	if (kvc_supply(c, n, &s))
		return rc;
	if (rc == -EDQUOT)
		remedy = "end a conversation, or raise the tenant's max";
	if (rc == -E2BIG)
		remedy = "it can never fit: take fewer tokens, a smaller KV type, or a larger pool or max";
	if (rc == -ETIMEDOUT)
		remedy = "wait longer, or end a conversation";
	return kvc_fail(c->ctx, rc,
			"%llu pages missing: %u wanted, %llu held, limit %llu; %s",
			(unsigned long long)s.missing, n,
			(unsigned long long)s.held,
			(unsigned long long)s.limit, remedy);
}

int kvc_pages_check(struct kvc_cache *c, uint32_t n, uint64_t deadline_ns)
{
	struct kvcache_alloc a = {
		.flags = KVCACHE_ALLOC_CHECK,
		.pool = c->o.pool,
		.nr = n,
	};
	int rc = kvc_call(c->ctx, KVCACHE_NR_ALLOC, &a);

	if (deadline_ns && (rc == -EDQUOT || rc == -ENOSPC))
		return 0;
	return rc ? refused(c, rc, n) : 0;
}

/* @n pages or none, by as many commands as it takes. */
static int take(struct kvc_cache *c, uint32_t n, uint64_t deadline_ns,
		struct kvc_page **pages)
{
	struct kvcache_alloc a = {
		.pool = c->o.pool,
		.deadline_ns = deadline_ns,
	};
	uint32_t at, i;
	int rc;

	for (at = 0; at < n; at += a.nr) {
		a.nr = KVC_MIN(n - at, (uint32_t)KVCACHE_MAX_PAGES);
		rc = kvc_call(c->ctx, KVCACHE_NR_ALLOC, &a);
		if (rc)
			goto refused;
		for (i = 0; i < a.nr; i++)
			pages[at + i]->handle = a.out_pages[i];
	}
	return 0;

refused:
	for (i = 0; i < at; i++) {
		kvc_handles_free(c, &pages[i]->handle, 1);
		pages[i]->handle = 0;
	}
	return refused(c, rc, n);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* Sleep until it is time to look again; -ETIMEDOUT past the deadline. */
static int nap(uint64_t deadline_ns)
{
	uint64_t ns = now_ns();
	struct timespec ts;

	if (ns >= deadline_ns)
		return -ETIMEDOUT;
	ns = KVC_MIN(deadline_ns, ns + POLL_NS);
	ts.tv_sec = ns / 1000000000;
	ts.tv_nsec = ns % 1000000000;
	return -clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static int get_handles(struct kvc_cache *c, uint32_t n, uint64_t deadline_ns,
		       struct kvc_page **pages)
{
	bool waits = deadline_ns > now_ns();
	int rc;

	if (n <= KVCACHE_MAX_PAGES)
		return take(c, n, deadline_ns, pages);
	do {
		/* A refusal half-way would have reclaimed pages for nothing. */
		rc = kvc_pages_check(c, n, 0);
		if (!rc)
			rc = take(c, n, 0, pages);
		if (!waits || (rc != -EDQUOT && rc != -ENOSPC))
			return rc;
		rc = nap(deadline_ns);
	} while (!rc);
	if (rc == -EINTR)
		return kvc_fail(c->ctx, rc, "interrupted while waiting for %u pages",
				n);
	return refused(c, rc, n);
}

int kvc_pages_alloc(struct kvc_cache *c, uint32_t n, uint64_t deadline_ns,
		    struct kvc_page **out)
{
	uint32_t i, made;
	int rc = 0;

	for (made = 0; made < n; made++) {
		out[made] = calloc(1, sizeof(**out));
		if (!out[made]) {
			rc = kvc_nomem(c->ctx);
			goto fail;
		}
	}
	rc = get_handles(c, n, deadline_ns, out);
	for (i = 0; !rc && i < n; i++)
		if (kvc_page_bind(c, out[i]))
			rc = kvc_nomem(c->ctx);
	if (rc)
		goto fail;
	for (i = 0; i < n; i++)
		out[i]->refs = 1;
	c->st.pages_allocated += n;
	return 0;

fail:
	for (i = 0; i < made; i++) {
		if (out[i]->handle)
			kvc_handles_free(c, &out[i]->handle, 1);
		kvc_page_drop(c, out[i]);
	}
	return rc;
}
