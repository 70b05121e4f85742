// SPDX-License-Identifier: MIT
/*
 * stress_fuzz.c - random commands of four clients, right and wrong ones, beside
 * a model of what each of them may hold. After each step all views of the ABI
 * must agree with it; a command that is wrong must be refused.
 *
 *	stress_fuzz [SECONDS] [SEED] [STEPS]	or $FUZZ_SECONDS, $SEED, $STEPS
 *
 * A seed is the same commands; what a worker of the module does meanwhile is
 * not the same every time.
 */
#include "shadow.h"

#define EXPORTS		6
#define KEYS		24
#define LAST		24	/* steps that are shown when one is wrong */

struct fuzz {
	struct shadow s;
	uint64_t rnd;
	int export[EXPORTS];
	uint32_t exports;
	int stranger;		/* attached to nothing */
	char last[LAST][96];
	uint64_t step;
	uint32_t refused, done;
};

static uint32_t any(struct fuzz *f, uint32_t n)
{
	return rnd(&f->rnd) % n;
}

__attribute__((format(printf, 2, 3)))
static void note(struct fuzz *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->last[f->step % LAST], sizeof(f->last[0]), fmt, ap);
	va_end(ap);
}

/* The step is right: the errno is 0 or one of these. */
static bool one_of(struct fuzz *f, int err, const int *allowed)
{
	size_t n = strlen(f->last[f->step % LAST]);

	snprintf(f->last[f->step % LAST] + n, sizeof(f->last[0]) - n, ": %d",
		 err);
	f->done += !err;
	f->refused += !!err;
	if (!err)
		return true;
	for (; *allowed; allowed++)
		if (err == -*allowed)
			return true;
	return WRONG(&f->s, "%s", strerror(-err));
}
#define ONE_OF(f, err, ...) one_of(f, err, (const int []){ __VA_ARGS__, 0 })
#define MUST(f, err) ONE_OF(f, err, 0)

/* What the client can free: pages it owns and keeps, and references. */
static uint32_t held_by(struct fuzz *f, int c, uint64_t *pages, uint32_t max,
			bool own, bool shared)
{
	uint32_t i, k, nr = 0, first = any(f, NR);

	for (k = 0; k < NR && nr < max; k++) {
		const struct shadow_page *p;

		i = 1 + (first + k) % NR;
		p = &f->s.page[i];
		if ((own && p->owner == c && !p->is_volatile) ||
		    (shared && p->refs[c]))
			pages[nr++] = p->handle;
	}
	return nr;
}

/* ---- right commands ------------------------------------------------------ */

static bool do_alloc(struct fuzz *f, int c)
{
	struct kvcache_alloc a, check;
	bool waits = any(f, 8) == 0;
	int could, err;
	uint32_t k;

	POISON(check);
	check.flags = KVCACHE_ALLOC_CHECK;
	check.pool = f->s.w.pool;
	check.nr = any(f, 16) ? 1 + any(f, 6) : 1 + any(f, NR + 4);
	check.deadline_ns = 0;
	POISON(a);
	a.pool = check.pool;
	a.nr = check.nr;
	a.deadline_ns = waits ? dev_now() + 1000000 : 0;
	note(f, "%d ALLOC %u", c, a.nr);
	could = dev_call(f->s.fd[c], KVCACHE_NR_ALLOC, &check);
	err = dev_call(f->s.fd[c], KVCACHE_NR_ALLOC, &a);
	/* Those which are being zeroed count: with a deadline it may pass. */
	if (!could && err && !(waits && err == -ETIMEDOUT))
		return WRONG(&f->s, "the check said it could be had: %d", err);
	for (k = 0; !err && k < a.nr; k++)
		if (!shadow_private(&f->s, c, a.out_pages[k]))
			return false;
	if ((err == -EDQUOT || err == -ENOSPC || err == -E2BIG) &&
	    !a.out_missing)
		return WRONG(&f->s, "nothing is missing");
	return ONE_OF(f, err, EDQUOT, ENOSPC, E2BIG, ETIMEDOUT);
}

static bool do_free(struct fuzz *f, int c)
{
	uint64_t pages[NR];
	uint32_t k, nr = held_by(f, c, pages, 1 + any(f, 8), true, true);
	int err;

	if (!nr)
		return true;
	note(f, "%d FREE %u", c, nr);
	err = dev_free(f->s.fd[c], f->s.w.pool, pages, nr);
	for (k = 0; !err && k < nr; k++)
		shadow_drop(&f->s, c, pages[k]);
	return MUST(f, err);
}

static bool do_publish(struct fuzz *f, int c)
{
	uint32_t key = any(f, KEYS), result = 0, flags = 0;
	uint64_t page, now, stamp, stale = f->s.stale;
	int err;

	if (!held_by(f, c, &page, 1, true, false))
		return true;
	if (any(f, 4) == 0)
		flags |= KVCACHE_PUBLISH_NODEDUP;
	if (any(f, 2))
		flags |= KVCACHE_PUBLISH_COPY;
	now = page;
	stamp = shadow_at(&f->s, page)->stamp;
	note(f, "%d PUBLISH %#llx as %u, %#x", c, (unsigned long long)page, key,
	     flags);
	err = dev_publish_as(f->s.fd[c], f->s.w.pool, &now, key, flags, 0,
			     &result);
	if (!err) {
		shadow_drop(&f->s, c, page);
		if (result == KVCACHE_DEDUPLICATED)
			stamp = 0;
		if (result == KVCACHE_PUBLISHED)
			f->s.stale = stale;
		if (!shadow_shared(&f->s, c, now, stamp))
			return false;
	}
	/* The copy needs a page, which a max of 0 never gives. */
	return ONE_OF(f, err, EBUSY, EDQUOT, ENOSPC, E2BIG, ENOMEM);
}

static bool do_lookup(struct fuzz *f, int c)
{
	struct kvcache_lookup l;
	uint32_t k;
	int err;

	POISON(l);
	memset(l.keys, 0, sizeof(l.keys));
	l.flags = any(f, 4) ? 0 : KVCACHE_LOOKUP_PEEK;
	l.pool = f->s.w.pool;
	l.nr_keys = 1 + any(f, 4);
	l.keys_per_page = 1;
	l.tail = any(f, 3);
	for (k = 0; k < l.nr_keys; k++)
		l.keys[k][0] = any(f, KEYS);
	note(f, "%d LOOKUP %u, tail %u, %#x", c, l.nr_keys, l.tail, l.flags);
	err = dev_call(f->s.fd[c], KVCACHE_NR_LOOKUP, &l);
	for (k = 0; !err && !l.flags && k < l.out_nr_pages; k++)
		if (!shadow_shared(&f->s, c, l.out_found[k].handle, 0))
			return false;
	return MUST(f, err);
}

static bool do_advise(struct fuzz *f, int c)
{
	uint32_t what = any(f, 3);
	uint64_t page;
	int err;

	if (f->s.nr_taken[c] > TAKEN - NR ||
	    !held_by(f, c, &page, 1, true, what == 1))
		return true;
	note(f, "%d ADVISE %#llx, %u", c, (unsigned long long)page, what);
	if (what) {
		struct kvcache_advise a = {
			.size = sizeof(a), .pool = f->s.w.pool, .nr = 1,
			.advice = KVCACHE_ADVISE_PRIORITY | KVCACHE_ADVISE_TOUCH,
			.priority = any(f, 101), .ttl_ns = NEVER,
			.pages[0] = page,
		};

		return MUST(f, dev_call(f->s.fd[c], KVCACHE_NR_ADVISE, &a));
	}
	err = dev_advise(f->s.fd[c], f->s.w.pool, page, KVCACHE_ADVISE_VOLATILE,
			 NULL);
	if (!err)
		shadow_at(&f->s, page)->is_volatile = true;
	return ONE_OF(f, err, EBUSY, ENOMEM);
}

/* Of all pages that are or were volatile: the answer is what is known. */
static bool do_unadvise(struct fuzz *f, int c)
{
	struct kvcache_advise a = {
		.size = sizeof(a), .pool = f->s.w.pool,
		.advice = KVCACHE_ADVISE_NONVOLATILE,
	};
	uint32_t i, k, taken = f->s.nr_taken[c];
	int err;

	memcpy(a.pages, f->s.taken[c], taken * sizeof(a.pages[0]));
	a.nr = taken;
	for (i = 1; i <= NR; i++)
		if (f->s.page[i].owner == c && f->s.page[i].is_volatile)
			a.pages[a.nr++] = f->s.page[i].handle;
	if (!a.nr)
		return true;
	note(f, "%d ADVISE: no more volatile, %u of %u taken", c, taken, a.nr);
	err = dev_call(f->s.fd[c], KVCACHE_NR_ADVISE, &a);
	if (!err) {
		f->s.nr_taken[c] = 0;
		for (k = 0; k < a.nr; k++)
			if (a.out_state[k] != (k < taken))
				return WRONG(&f->s, "page %#llx is %u",
					     (unsigned long long)a.pages[k],
					     a.out_state[k]);
		for (k = taken; k < a.nr; k++)
			shadow_at(&f->s, a.pages[k])->is_volatile = false;
	}
	return MUST(f, err);
}

static bool do_export(struct fuzz *f, int c)
{
	struct kvcache_export e = {
		.size = sizeof(e), .flags = KVCACHE_FD_CLOEXEC,
		.pool = f->s.w.pool,
	};
	bool own = any(f, 2);
	uint64_t pages[NR];
	int err;

	if (f->exports == EXPORTS || any(f, 4) == 0) {
		if (f->exports) {
			note(f, "- close a dma-buf");
			close(f->export[--f->exports]);
		}
		return true;
	}
	e.nr = held_by(f, c, pages, 1 + any(f, 3), own, !own);
	if (!e.nr)
		return true;
	memcpy(e.pages, pages, e.nr * sizeof(pages[0]));
	note(f, "%d EXPORT %u", c, e.nr);
	err = dev_call(f->s.fd[c], KVCACHE_NR_EXPORT, &e);
	if (!err)
		f->export[f->exports++] = e.out_fd;
	return MUST(f, err);
}

/* ---- administration ------------------------------------------------------ */

static bool do_limits(struct fuzz *f)
{
	uint64_t max = any(f, 3) ? any(f, NR + 1) : KVCACHE_LIMIT_MAX;
	uint64_t min = any(f, 4) ? 0 : any(f, 6), low = any(f, 8);
	uint32_t t = any(f, 2);

	note(f, "- TENANT_SET %u: %llu, %llu, %lld", t,
	     (unsigned long long)min, (unsigned long long)low, (long long)max);
	return ONE_OF(f, dev_limits(f->s.w.admin, f->s.w.tenant[t],
				    f->s.w.pool, min, low, max, NEVER),
		      EINVAL, ENOSPC);
}

static bool do_flush(struct fuzz *f)
{
	struct kvcache_tenant_ref r = {
		.size = sizeof(r), .tenant = f->s.w.tenant[any(f, 2)],
		.pool = any(f, 2) ? f->s.w.pool : ~0U,
	};

	note(f, "- FLUSH");
	return MUST(f, dev_call(f->s.w.admin, KVCACHE_NR_TENANT_FLUSH, &r));
}

static bool do_resize(struct fuzz *f)
{
	uint64_t to = NR / 2 + any(f, NR / 2 + 1), now;
	int err;

	note(f, "- RESIZE %llu", (unsigned long long)to);
	err = dev_pool_op(f->s.w.admin, f->s.w.pool, KVCACHE_POOL_RESIZE, to,
			  &now);
	return ONE_OF(f, err, EBUSY, EINVAL);
}

/* ---- wrong commands ------------------------------------------------------ */

static const struct {
	uint32_t nr;
	uint32_t size;
	uint32_t pool;		/* where the struct has it, 0 nowhere */
	uint32_t count;		/* the same of a number of pages */
	uint32_t pages;		/* and of the first */
} commands[] = {
#define CMD(n, s, pool, count, pages)					\
	{ KVCACHE_NR_##n, sizeof(struct kvcache_##s),			\
	  offsetof(struct kvcache_##s, pool),				\
	  offsetof(struct kvcache_##s, count),				\
	  offsetof(struct kvcache_##s, pages) }
	CMD(FREE, free, pool, nr, pages),
	CMD(PUBLISH, publish, pool, nr, pages),
	CMD(ADVISE, advise, pool, nr, pages),
	CMD(EXPORT, export, pool, nr, pages),
	CMD(ALLOC, alloc, pool, nr, size),
	CMD(LOOKUP, lookup, pool, nr_keys, size),
	CMD(TENANT_SET, tenant_set, pool, size, size),
	CMD(POOL_SET, pool_set, pool, size, size),
	CMD(TENANT_GRANT, tenant_grant, tenant, size, size),
};

static union {
	char bytes[32768];
	uint32_t word[8192];
} arg;

static void put32(uint32_t at, uint32_t value)
{
	memcpy(arg.bytes + at, &value, sizeof(value));
}

static void put64(uint32_t at, uint64_t value)
{
	memcpy(arg.bytes + at, &value, sizeof(value));
}

/* A handle that the client has no right to. */
static uint64_t bad_handle(struct fuzz *f, int c)
{
	const struct shadow_page *p = &f->s.page[1 + any(f, NR)];

	switch (any(f, 4)) {
	case 0:
		return f->s.stale;
	case 1:
		return any(f, NR + 8);
	case 2:
		if ((p->owner >= 0 && p->owner != c) ||
		    (shadow_refs(p) && !p->refs[c]))
			return p->handle;
		return 0;
	}
	return (uint64_t)rnd(&f->rnd) << 40 | 1;
}

static bool do_wrong(struct fuzz *f, int c)
{
	uint32_t k = any(f, sizeof(commands) / sizeof(*commands)), how, j;
	int fd = k < 6 ? f->s.fd[c] : f->s.w.admin, err;
	uint32_t nr = commands[k].nr, size = commands[k].size;

	memset(&arg, 0, sizeof(arg));
	put32(0, size);
	put32(commands[k].pool, f->s.w.pool);
	if (commands[k].count)
		put32(commands[k].count, 1);
	if (commands[k].pages)
		put64(commands[k].pages, bad_handle(f, c));
	how = any(f, 9);
	switch (how) {
	case 0:
		put32(0, any(f, 16));
		break;
	case 1:
		put32(0, size + 8);
		arg.bytes[size + any(f, 8)] = 1;
		break;
	case 2:
		put32(4, 1U << (8 + any(f, 24)));
		break;
	case 3:
		put32(commands[k].pool, 1 + f->s.w.pool + any(f, 64));
		break;
	case 4:
		put32(commands[k].count ? commands[k].count : 0,
		      commands[k].count && any(f, 2) ? 257 + any(f, ~0U - 257) :
		      0);
		break;
	case 5:
		fd = f->stranger;
		break;
	case 6:
		nr = 0x40 + any(f, 0xc0);
		break;
	case 7:
		/* The pages' handles are wrong as it is. */
		if (commands[k].pages)
			break;
		put32(0, 4);
		break;
	default:
		/* Noise, but for the size; its flags are none that exist. */
		for (j = 1; j < size / 4; j++)
			arg.word[j] = rnd(&f->rnd);
		put32(4, rnd(&f->rnd) | 1U << 31);
	}
	note(f, "%d WRONG %#x in way %u", c, nr, how);
	err = ioctl(fd, KVCACHE_IO(nr), &arg) < 0 ? -errno : 0;
	f->refused++;
	return err ? true : WRONG(&f->s, "it was not refused");
}

/* ---- all of it ----------------------------------------------------------- */

static bool step(struct fuzz *f)
{
	int c = any(f, CLIENTS);
	uint32_t what = any(f, 100);

	f->last[f->step % LAST][0] = 0;
	if (what < 25)
		return do_alloc(f, c);
	if (what < 40)
		return do_free(f, c);
	if (what < 52)
		return do_publish(f, c);
	if (what < 62)
		return do_lookup(f, c);
	if (what < 68)
		return do_advise(f, c);
	if (what < 71)
		return do_unadvise(f, c);
	if (what < 76)
		return do_export(f, c);
	if (what < 79)
		return do_limits(f);
	if (what < 80)
		return do_flush(f);
	if (what < 81)
		return do_resize(f);
	if (what < 86)
		return shadow_content(&f->s, c, 1 + any(f, NR));
	return do_wrong(f, c);
}

static void begin(struct fuzz *f, uint64_t seed)
{
	struct kvcache_query q;
	int c, line = world_make(&f->s.w, PAGE, NR);

	NEED(!line);
	f->rnd = rnd_seed(seed, 0);
	f->stranger = dev_open();
	NEED(f->stranger >= 0);
	for (c = 1; c <= NR; c++)
		f->s.page[c].owner = -1;
	f->s.page[0].owner = -1;
	for (c = 0; c < CLIENTS; c++) {
		f->s.fd[c] = dev_client(TENANT_OF(c) ? "blue" : "red");
		NEED(f->s.fd[c] >= 0);
		POISON(q);
		NEED(!dev_call(f->s.fd[c], KVCACHE_NR_QUERY, &q));
		f->s.id[c] = q.out_client;
		f->s.rw[c] = dev_window(f->s.fd[c], f->s.w.pool, true);
		f->s.ro[c] = dev_window(f->s.fd[c], f->s.w.pool, false);
		NEED(f->s.rw[c] != MAP_FAILED && f->s.ro[c] != MAP_FAILED);
	}
}

static void end(struct fuzz *f)
{
	uint64_t now;
	int c;

	while (f->exports)
		close(f->export[--f->exports]);
	dev_unmap_all();
	close(f->stranger);
	for (c = 0; c < CLIENTS; c++)
		close(f->s.fd[c]);
	NEED(!dev_pool_op(f->s.w.admin, f->s.w.pool, KVCACHE_POOL_RESIZE, NR,
			  &now));
}

int main(int argc, char **argv)
{
	uint64_t ns = stress_arg(argc, argv, 1, "FUZZ_SECONDS", 20) *
		      1000000000ULL;
	uint64_t seed = stress_arg(argc, argv, 2, "SEED", dev_now());
	uint64_t steps = stress_arg(argc, argv, 3, "STEPS", ~0ULL);
	uint64_t began = dev_now(), k;
	static struct fuzz f;
	bool ok = true;

	printf("TAP version 13\n# figure fuzz: seed %llu\n",
	       (unsigned long long)seed);
	begin(&f, seed);
	while (ok && f.step < steps && dev_now() - began < ns) {
		ok = step(&f) && shadow_agrees(&f.s, f.step % 32 == 0);
		f.step += ok;
	}
	printf("# figure fuzz: %llu steps, %u done, %u refused\n",
	       (unsigned long long)f.step, f.done, f.refused);
	if (!ok) {
		for (k = f.step < LAST ? 0 : f.step + 1 - LAST; k <= f.step; k++)
			printf("# %llu: %s\n", (unsigned long long)k,
			       f.last[k % LAST]);
		printf("# %s\n", f.s.why);
	}
	stress_result(ok, "all views agree with what was done");
	end(&f);
	stress_result(stress_verifies(), "the ledger is in order");
	stress_result(!world_end(&f.s.w), "nothing is left");
	return stress_end();
}
