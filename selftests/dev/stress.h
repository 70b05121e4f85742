/* SPDX-License-Identifier: MIT */
/*
 * stress.h - what the stress_ programs share: their arguments, results in TAP,
 * random numbers, times.
 *
 * They are programs of their own and not of the kernel's harness: one long run
 * with numbers to show, which a harness of short cases has no place for.
 */
#ifndef STRESS_H
#define STRESS_H

#include <stdarg.h>
#include <sys/prctl.h>

#include "dev_kit.h"

/* ---- arguments ----------------------------------------------------------- */

/* The program's argument number @i, or the environment's @name. */
static inline uint64_t stress_arg(int argc, char **argv, int i,
				  const char *name, uint64_t by_default)
{
	const char *s = i < argc ? argv[i] : getenv(name);

	return s && *s ? strtoull(s, NULL, 0) : by_default;
}

/* ---- results ------------------------------------------------------------- */

static int stress_nr, stress_bad;

/* The first thing that is wrong is told; after it nothing is of use. */
__attribute__((format(printf, 1, 2), noreturn, unused))
static void stress_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("# ");
	vprintf(fmt, ap);
	printf("\nnot ok %d - as far as it came\n1..%d\n", stress_nr + 1,
	       stress_nr + 1);
	fflush(stdout);
	_exit(1);
}

#define NEED(what)							\
	do {								\
		if (!(what))						\
			stress_die("line %d: %s: %s", __LINE__, #what,	\
				   strerror(errno));			\
	} while (0)

static inline bool stress_result(bool ok, const char *name)
{
	stress_nr++;
	stress_bad += !ok;
	printf("%sok %d %s\n", ok ? "" : "not ", stress_nr, name);
	fflush(stdout);
	return ok;
}

static inline int stress_end(void)
{
	printf("1..%d\n", stress_nr);
	return stress_bad ? 1 : 0;
}

/* ---- numbers ------------------------------------------------------------- */

/* xorshift64*: the same from the same seed, everywhere. */
static inline uint32_t rnd(uint64_t *s)
{
	*s ^= *s >> 12;
	*s ^= *s << 25;
	*s ^= *s >> 27;
	return (*s * 2685821657736338717ULL) >> 32;
}

/* A state for number @n of a run. Never zero. */
static inline uint64_t rnd_seed(uint64_t seed, uint64_t n)
{
	uint64_t s = (seed * 0x9e3779b97f4a7c15ULL) ^
		     ((n + 1) * 0xbf58476d1ce4e5b9ULL);

	s = s ? s : 1;
	rnd(&s);
	return s;
}

static inline int by_number(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Microseconds, which are sorted. */
static inline void show_times(const char *what, uint32_t *us, uint32_t n)
{
	if (!n)
		return;
	qsort(us, n, sizeof(*us), by_number);
	printf("# figure %s: p50 %u us, p99 %u us, max %u us (%u)\n", what,
	       us[n / 2], us[n - 1 - n / 100], us[n - 1], n);
}

/* ---- the world at rest --------------------------------------------------- */

/* No page is held, and cached ones are given up: all are free. */
static inline bool stress_rests(const struct world *w)
{
	struct kvcache_tenant_ref ref = { .size = sizeof(ref), .pool = ~0U };
	struct kvcache_pool_info p;
	int k;

	for (k = 0; k < 2; k++) {
		ref.tenant = w->tenant[k];
		if (dev_call(w->admin, KVCACHE_NR_TENANT_FLUSH, &ref))
			return false;
	}
	return !dev_pool_info(w->admin, w->pool, &p) &&
	       dev_settles(w->admin, w->pool, p.nr_pages);
}

static inline bool stress_verifies(void)
{
	const char *said = dev_verify();

	if (!strcmp(said, "ok"))
		return true;
	printf("# verify: %s\n", said);
	return false;
}

#endif /* STRESS_H */
