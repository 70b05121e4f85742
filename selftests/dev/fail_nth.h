/* SPDX-License-Identifier: MIT */
/*
 * fail_nth.h - one step of many, again and again, with each of its allocations
 * and copies failing once.
 */
#ifndef FAIL_NTH_H
#define FAIL_NTH_H

#include "dev_kit.h"

#define EXTRA		"extra"

/**
 * struct nth - the world, and what the steps so far have come to
 * @w: pool, tenants, clients
 * @fd: what a step opened
 * @buf: a dma-buf
 * @pool: a second pool
 * @tenant: a third tenant
 * @page: pages of red's
 * @rw: red's writable window
 * @ro: red's read-only window
 */
struct nth {
	struct world w;
	int fd;
	int buf;
	uint32_t pool;
	uint32_t tenant;
	uint64_t page[PAGES];
	char *rw;
	char *ro;
};

/**
 * struct step - one thing to do
 * @name: what it is
 * @fn: does it: 0 or -errno
 */
struct step {
	const char *name;
	int (*fn)(struct nth *c);
};

/* ---- faults -------------------------------------------------------------- */

static int nth_fd = -1;

static inline bool put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 &&
		  write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* Allocations that may sleep fail, too; nothing is printed. */
static inline bool faults_set_up(void)
{
	static const char *const files[][2] = {
		{ "failslab/ignore-gfp-wait", "N" },
		{ "failslab/verbose", "0" },
		{ "fail_page_alloc/ignore-gfp-wait", "N" },
		{ "fail_page_alloc/min-order", "0" },
		{ "fail_page_alloc/verbose", "0" },
		{ "fail_usercopy/verbose", "0" },
	};
	char path[96];
	unsigned int k;

	for (k = 0; k < sizeof(files) / sizeof(files[0]); k++) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/%s",
			 files[k][0]);
		if (!put(path, files[k][1]))
			return false;
	}
	return true;
}

/* What was armed before may hit this, and is over then. */
static inline void arm(unsigned int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", n), k;

	for (k = 0; k < 2; k++)
		if (pwrite(nth_fd, text, len, 0) == len)
			return;
	abort();
}

/* Was there an n-th call that could fail, before this one? */
static inline bool disarm(void)
{
	char text[16] = "";
	bool failed;

	failed = pread(nth_fd, text, sizeof(text) - 1, 0) > 0 && !atoi(text);
	arm(0);
	return failed;
}

/* ---- what must not change ------------------------------------------------ */

/**
 * struct view - all that can be seen, but for clocks and counters
 */
struct view {
	struct kvcache_query q;
	struct kvcache_tenant_get t[KVCACHE_MAX_POOLS];
	struct kvcache_page_get p[KVCACHE_MAX_POOLS];
	struct kvcache_client_get c;
};

static inline void forget_pool(struct kvcache_pool_info *p)
{
	/* Pages that are being cleaned are on their way. */
	p->nr_free += p->nr_retiring;
	p->nr_retiring = 0;
	p->allocs = 0;
	p->reclaims = 0;
	p->lookups = 0;
	p->hits = 0;
}

static inline void forget_tenant(struct kvcache_tenant_info *t)
{
	t->peak = 0;
	t->cur = 0;
	t->ev_max = 0;
	t->ev_reclaim = 0;
	t->lookups = 0;
	t->hits = 0;
}

static inline int look_at_pool(int fd, uint32_t pool, struct kvcache_tenant_get *t,
			struct kvcache_page_get *p)
{
	uint32_t k, nr = 0;
	int err;

	t->size = sizeof(*t);
	t->pool = pool;
	err = dev_call(fd, KVCACHE_NR_TENANT_GET, t);
	t->out_seq = 0;
	for (k = 0; k < t->out_nr; k++)
		forget_tenant(&t->out_info[k]);
	p->size = sizeof(*p);
	p->pool = pool;
	if (!err)
		err = dev_call(fd, KVCACHE_NR_PAGE_GET, p);
	p->out_seq = 0;
	for (k = 0; k < p->out_nr; k++) {
		if (p->out_info[k].state == KVCACHE_PAGE_RETIRING)
			continue;
		p->out_info[nr] = p->out_info[k];
		p->out_info[nr++].idle_ns = 0;
	}
	memset(&p->out_info[nr], 0, (p->out_nr - nr) * sizeof(p->out_info[0]));
	p->out_nr = nr;
	return err;
}

static inline int look(int fd, struct view *v)
{
	uint32_t k;
	int err;

	memset(v, 0, sizeof(*v));
	v->q.size = sizeof(v->q);
	err = dev_call(fd, KVCACHE_NR_QUERY, &v->q);
	v->q.out_seq = 0;
	for (k = 0; !err && k < v->q.out_nr_pools; k++) {
		forget_pool(&v->q.out_pools[k]);
		err = look_at_pool(fd, v->q.out_pools[k].id, &v->t[k], &v->p[k]);
	}
	v->c.size = sizeof(v->c);
	if (!err)
		err = dev_call(fd, KVCACHE_NR_CLIENT_GET, &v->c);
	v->c.out_seq = 0;
	return err;
}

/* ---- a world again and again --------------------------------------------- */

static inline int begin(struct nth *c)
{
	memset(c, 0, sizeof(*c));
	c->fd = -1;
	c->buf = -1;
	return world_make(&c->w, PAGE, PAGES);
}

static inline void remove_extra(struct nth *c)
{
	struct kvcache_tenant_ref ref = { .size = sizeof(ref) };
	struct kvcache_tenant_get g = { .size = sizeof(g), .pool = c->w.pool };
	struct kvcache_query q = { .size = sizeof(q) };
	uint32_t k;

	if (!dev_call(c->w.admin, KVCACHE_NR_TENANT_GET, &g))
		for (k = 0; k < g.out_nr; k++)
			if (!strcmp(g.out_info[k].name, EXTRA)) {
				ref.tenant = g.out_info[k].id;
				dev_call(c->w.admin, KVCACHE_NR_TENANT_REMOVE,
					 &ref);
			}
	if (!dev_call(c->w.admin, KVCACHE_NR_QUERY, &q))
		for (k = 0; k < q.out_nr_pools; k++)
			if (q.out_pools[k].id != c->w.pool)
				dev_pool_op(c->w.admin, q.out_pools[k].id,
					    KVCACHE_POOL_REMOVE, 0, NULL);
}

/* What a step opened without being told is closed, too. */
static inline int end(struct nth *c)
{
	int fd, err;

	for (fd = 3; fd < 64; fd++)
		if (fd != nth_fd && fd != c->w.admin && fd != c->w.fd[0] &&
		    fd != c->w.fd[1])
			close(fd);
	remove_extra(c);
	err = world_end(&c->w);
	if (err)
		printf("# line %d of dev_kit.h: something is left\n", err);
	return err;
}

static int tries, faults;

/* The steps up to @nr, without a fault. */
static inline int again(struct nth *c, const struct step *steps, int nr)
{
	int k, err = begin(c);

	for (k = 0; !err && k < nr; k++)
		err = steps[k].fn(c);
	if (err)
		printf("# %s: %d without a fault\n", k ? steps[k - 1].name :
		       "the world", err);
	return err;
}

/* One step with each of its faults: 0, or what is wrong was printed. */
static inline int sweep_step(struct nth *c, const struct step *steps, int at)
{
	static struct view before, after;
	const struct step *s = &steps[at];
	bool failed = true, stale = false;
	unsigned int n;
	int err;

	for (n = 1; failed; n++) {
		if (stale && (end(c) || again(c, steps, at)))
			return -1;
		if (look(c->w.admin, &before))
			return -1;
		arm(n);
		err = s->fn(c);
		failed = disarm();
		tries++;
		faults += failed;
		if (err && (!failed || (err != -ENOMEM && err != -EFAULT))) {
			printf("# %s: %d at %u\n", s->name, err, n);
			return -1;
		}
		if (strcmp(dev_verify(), "ok")) {
			printf("# %s: %s at %u\n", s->name, dev_verify(), n);
			return -1;
		}
		if (look(c->w.admin, &after))
			return -1;
		/* The answer may be what could not be copied. */
		stale = !err || err == -EFAULT;
		if (!stale && memcmp(&before, &after, sizeof(after))) {
			printf("# %s: a change at %u\n", s->name, n);
			return -1;
		}
	}
	printf("# %s: %u\n", s->name, n - 2);
	return 0;
}

static inline int sweep(const struct step *steps, int nr)
{
	struct nth c;
	int k, err = begin(&c);

	tries = faults = 0;
	for (k = 0; !err && k < nr; k++)
		err = sweep_step(&c, steps, k);
	if (!err)
		err = end(&c);
	printf("# figure fail-nth: %d tries, %d faults\n", tries, faults);
	return err;
}

#endif /* FAIL_NTH_H */
