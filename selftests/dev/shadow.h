/* SPDX-License-Identifier: MIT */
/*
 * shadow.h - what each client may hold, as stress_fuzz.c knows it, and whether
 * all that the ABI shows agrees with it.
 */
#ifndef SHADOW_H
#define SHADOW_H

#include "stress.h"

#define NR		24	/* pages of the pool, at most */
#define CLIENTS		4	/* two of each tenant */
#define TAKEN		200
#define TENANT_OF(c)	((c) / 2)

/**
 * struct shadow_page - one page, by its number
 * @handle: it, as long as that is valid; 0 nobody's
 * @owner: who has it PRIVATE, or -1
 * @is_volatile: the owner said so
 * @refs: references of each client, once it was published
 * @stamp: what is in it
 */
struct shadow_page {
	uint64_t handle;
	int owner;
	bool is_volatile;
	uint32_t refs[CLIENTS];
	uint64_t stamp;
};

struct shadow {
	struct world w;
	int fd[CLIENTS];
	uint32_t id[CLIENTS];
	char *rw[CLIENTS], *ro[CLIENTS];
	struct shadow_page page[NR + 1];
	uint64_t taken[CLIENTS][TAKEN];	/* volatile pages that are gone */
	uint32_t nr_taken[CLIENTS];
	uint64_t stale;			/* a handle that is nobody's any more */
	char why[200];
};

static inline struct shadow_page *shadow_at(struct shadow *s, uint64_t handle)
{
	return &s->page[(uint32_t)handle <= NR ? (uint32_t)handle : 0];
}

static inline uint32_t shadow_refs(const struct shadow_page *p)
{
	return p->refs[0] + p->refs[1] + p->refs[2] + p->refs[3];
}

#define WRONG(s, ...)							\
	(snprintf((s)->why, sizeof((s)->why), __VA_ARGS__), false)

/* ---- one page ------------------------------------------------------------ */

/* A volatile page that is not there any more was taken. */
static inline void shadow_took(struct shadow *s, uint32_t i)
{
	struct shadow_page *p = &s->page[i];

	s->taken[p->owner][s->nr_taken[p->owner]++] = p->handle;
	p->owner = -1;
	p->is_volatile = false;
}

static inline bool shadow_private(struct shadow *s, int c, uint64_t handle)
{
	struct shadow_page *p = shadow_at(s, handle);
	char *at = s->rw[c] + (uint32_t)handle * PAGE;

	if (p->owner >= 0 && p->is_volatile)
		shadow_took(s, handle);
	if (p == s->page || p->owner >= 0 || shadow_refs(p))
		return WRONG(s, "page %#llx is held already",
			     (unsigned long long)handle);
	if (handle == p->handle)
		return WRONG(s, "page %#llx came back as it was",
			     (unsigned long long)handle);
	if (!dev_is_zero(at, PAGE))
		return WRONG(s, "page %#llx is not zeros",
			     (unsigned long long)handle);
	p->handle = handle;
	p->owner = c;
	p->is_volatile = false;
	p->stamp = handle * 0x9e3779b97f4a7c15ULL | 1;
	memcpy(at, &p->stamp, sizeof(p->stamp));
	memcpy(at + PAGE - sizeof(p->stamp), &p->stamp, sizeof(p->stamp));
	return true;
}

/* A client has one more reference on a published page. */
static inline bool shadow_shared(struct shadow *s, int c, uint64_t handle,
				 uint64_t stamp)
{
	struct shadow_page *p = shadow_at(s, handle);

	if (p->owner >= 0 && p->is_volatile && p->handle != handle)
		shadow_took(s, handle);
	if (p == s->page || p->owner >= 0 ||
	    (shadow_refs(p) && p->handle != handle))
		return WRONG(s, "page %#llx cannot be shared",
			     (unsigned long long)handle);
	if (p->handle != handle) {
		p->handle = handle;
		p->stamp = stamp;
	}
	p->refs[c]++;
	return true;
}

static inline void shadow_drop(struct shadow *s, int c, uint64_t handle)
{
	struct shadow_page *p = shadow_at(s, handle);

	if (p->owner == c) {
		p->owner = -1;
		p->is_volatile = false;
		s->stale = handle;
	} else {
		p->refs[c]--;
	}
}

/* What is to be seen of it is what was written; who may not see it does not. */
static inline bool shadow_content(struct shadow *s, int c, uint32_t i)
{
	const struct shadow_page *p = &s->page[i];
	bool mine = p->owner == c, reader = p->refs[c];
	char *at = (mine ? s->rw[c] : s->ro[c]) + i * PAGE;

	if (mine && p->is_volatile)
		return true;
	if (!mine && !reader)
		return dev_touch(s->rw[c] + i * PAGE, true) == SIGBUS &&
		       dev_touch(at, false) == SIGBUS ? true :
		       WRONG(s, "client %d sees page %u", c, i);
	if (!mine && dev_touch(at, true) != SIGSEGV)
		return WRONG(s, "client %d writes page %u", c, i);
	if (p->stamp && (memcmp(at, &p->stamp, sizeof(p->stamp)) ||
			 memcmp(at + PAGE - sizeof(p->stamp), &p->stamp,
				sizeof(p->stamp))))
		return WRONG(s, "page %u is not what was written", i);
	return true;
}

/* ---- the views ----------------------------------------------------------- */

static inline bool shadow_page_agrees(struct shadow *s, uint32_t i,
				      const struct kvcache_page_info *k)
{
	struct shadow_page *p = &s->page[i];
	uint32_t refs = shadow_refs(p), state = k ? k->state : 0;

	if (p->owner >= 0 && p->is_volatile &&
	    (!k || k->handle != p->handle || state != KVCACHE_PAGE_PRIVATE))
		shadow_took(s, i);
	if (p->owner >= 0)
		return k && state == KVCACHE_PAGE_PRIVATE &&
		       k->handle == p->handle &&
		       k->client == s->id[p->owner] &&
		       k->tenant == s->w.tenant[TENANT_OF(p->owner)] &&
		       !(k->flags & KVCACHE_PAGE_VOLATILE) == !p->is_volatile ?
		       true : WRONG(s, "page %u is not %d's own", i, p->owner);
	if (refs)
		return k && state == KVCACHE_PAGE_SHARED &&
		       k->handle == p->handle && k->refs == refs ? true :
		       WRONG(s, "page %u has not %u references", i, refs);
	return state != KVCACHE_PAGE_PRIVATE && state != KVCACHE_PAGE_SHARED ?
	       true : WRONG(s, "page %u is held by nobody", i);
}

static inline bool shadow_pages_agree(struct shadow *s, uint32_t *by_state,
				      uint32_t (*by_tenant)[5])
{
	struct kvcache_page_get g = { .size = sizeof(g), .pool = s->w.pool };
	const struct kvcache_page_info *at[NR + 1] = { NULL }, *k;
	uint32_t i;

	if (dev_call(s->w.admin, KVCACHE_NR_PAGE_GET, &g) || g.out_next)
		return WRONG(s, "PAGE_GET");
	for (i = 0; i < g.out_nr; i++) {
		k = &g.out_info[i];
		if ((uint32_t)k->handle > NR || k->state > 4)
			return WRONG(s, "PAGE_GET tells of page %#llx",
				     (unsigned long long)k->handle);
		at[(uint32_t)k->handle] = k;
		by_state[k->state]++;
		by_tenant[k->tenant == s->w.tenant[1]][k->state]++;
	}
	for (i = 1; i <= NR; i++)
		if (!shadow_page_agrees(s, i, at[i]))
			return false;
	return true;
}

static inline bool shadow_clients_agree(struct shadow *s)
{
	struct kvcache_client_get g = { .size = sizeof(g), .pool = s->w.pool };
	uint32_t i, k, c;

	if (dev_call(s->w.admin, KVCACHE_NR_CLIENT_GET, &g))
		return WRONG(s, "CLIENT_GET");
	for (c = 0; c < CLIENTS; c++) {
		uint64_t own = 0, refs = 0;

		for (i = 1; i <= NR; i++) {
			own += s->page[i].owner == (int)c;
			refs += s->page[i].refs[c];
		}
		for (k = 0; k < g.out_nr; k++)
			if (g.out_info[k].id == s->id[c])
				break;
		if (k == g.out_nr || g.out_info[k].nr_private != own ||
		    g.out_info[k].nr_shared != refs || g.out_info[k].waiting)
			return WRONG(s, "client %u has not %llu and %llu", c,
				     (unsigned long long)own,
				     (unsigned long long)refs);
	}
	return true;
}

/* Pages that are being given back are for a worker to finish, at any time. */
static inline bool shadow_counts_agree(struct shadow *s,
				       const uint32_t *by_state,
				       uint32_t (*by_tenant)[5])
{
	struct kvcache_tenant_info t;
	struct kvcache_pool_info p;
	struct kvcache_pool_get g = { .size = sizeof(g), .pool = s->w.pool };
	uint64_t reclaims = 0;
	uint32_t k;

	if (dev_pool_info(s->w.admin, s->w.pool, &p))
		return WRONG(s, "QUERY");
	if (p.nr_private != by_state[KVCACHE_PAGE_PRIVATE] ||
	    p.nr_shared != by_state[KVCACHE_PAGE_SHARED] ||
	    p.nr_cached != by_state[KVCACHE_PAGE_CACHED] ||
	    p.nr_free + p.nr_private + p.nr_shared + p.nr_cached +
	    p.nr_retiring != p.nr_pages)
		return WRONG(s, "QUERY and PAGE_GET differ");
	if (dev_call(s->w.admin, KVCACHE_NR_POOL_GET, &g))
		return WRONG(s, "POOL_GET");
	for (k = 0; k < KVCACHE_RECLAIM_CAUSES; k++)
		reclaims += g.out_reclaims[k];
	if (g.out_info.reclaims != reclaims || g.out_volatile > reclaims ||
	    g.out_info.allocs - g.out_frees !=
	    g.out_info.nr_pages - g.out_info.nr_free ||
	    g.out_unzeroed + g.out_lost > g.out_info.nr_retiring)
		return WRONG(s, "POOL_GET's counters do not add up");
	for (k = 0; k < 2; k++) {
		const uint32_t *n = by_tenant[k];
		uint32_t held = n[1] + n[2] + n[3];

		if (dev_tenant_info(s->w.admin, s->w.pool, s->w.tenant[k], &t))
			return WRONG(s, "TENANT_GET");
		if (t.nr_cached != n[KVCACHE_PAGE_CACHED] || t.cur < held ||
		    t.cur > held + n[KVCACHE_PAGE_RETIRING])
			return WRONG(s, "TENANT_GET and PAGE_GET differ");
	}
	return true;
}

static inline uint64_t shadow_sysfs(const char *file)
{
	unsigned long long n = ~0ULL;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), SYSFS "/pools/test/%s", file);
	f = fopen(path, "r");
	if (f && fscanf(f, "%llu", &n) != 1)
		n = ~0ULL;
	if (f)
		fclose(f);
	return n;
}

static inline bool shadow_sysfs_agrees(struct shadow *s,
				       const uint32_t *by_state)
{
	return shadow_sysfs("private") == by_state[1] * PAGE &&
	       shadow_sysfs("shared") == by_state[2] * PAGE &&
	       shadow_sysfs("cached") == by_state[3] * PAGE ? true :
	       WRONG(s, "sysfs and PAGE_GET differ");
}

/* Everything that there is to see; with @all what takes longer, too. */
static inline bool shadow_agrees(struct shadow *s, bool all)
{
	uint32_t by_state[5] = { 0 }, by_tenant[2][5] = { 0 };

	if (!shadow_pages_agree(s, by_state, by_tenant) ||
	    !shadow_clients_agree(s) ||
	    !shadow_counts_agree(s, by_state, by_tenant))
		return false;
	if (all && strcmp(dev_verify(), "ok"))
		return WRONG(s, "verify: %.150s", dev_verify());
	return !all || shadow_sysfs_agrees(s, by_state);
}

#endif /* SHADOW_H */
