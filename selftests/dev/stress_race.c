// SPDX-License-Identifier: MIT
/*
 * stress_race.c - 16 processes of two tenants take pages and give them back, in
 * a pool that cannot hold what both may have: seen from outside no limit is ever
 * passed, nobody is overtaken, nobody waits for ever.
 *
 *	stress_race [SECONDS] [SEED]	or $RACE_SECONDS, $SEED
 */
#include <sched.h>

#include "stress.h"

#define RACERS		16	/* the first half red */
#define NR		32	/* pages of the pool */
#define MAX		20	/* of each tenant */
#define LOG		4096	/* waits that a racer writes down */
#define SURE_NS		50000000ULL	/* a call made so long before was before */
#define LATE_NS		1000000000ULL	/* for a process to come to a CPU */
#define FOREVER_NS	20000000000ULL

enum order { IDLE, QUEUE, GIVE_BACK, RACE, END };

struct waited {
	uint64_t call;
	uint64_t got;
};

/* One of the processes; it does what @order says, and then @done is that. */
struct racer {
	enum order order, done;
	uint32_t want;
	uint32_t place;		/* in which the request was granted */
	uint32_t nlog, calls, timeouts, refused;
	uint64_t since;		/* it waits since then, 0 not */
	char bad[80];		/* what was first wrong */
	struct waited log[LOG];
};

struct shared {
	struct racer racer[RACERS];
	uint32_t places;
};

static struct shared *all;
static struct world w;

__attribute__((format(printf, 2, 3)))
static void wrong(struct racer *r, const char *fmt, ...)
{
	va_list ap;

	if (r->bad[0])
		return;
	va_start(ap, fmt);
	vsnprintf(r->bad, sizeof(r->bad), fmt, ap);
	va_end(ap);
}

static bool red(int k)
{
	return k < RACERS / 2;
}

/* ---- a racer ------------------------------------------------------------- */

struct self {
	struct racer *r;
	int fd;
	char *rw;
	uint64_t s;
	uint64_t held[NR];
	uint32_t nr;
};

static int take(struct self *c, uint32_t nr, uint64_t deadline)
{
	int err;

	__atomic_store_n(&c->r->since, dev_now(), __ATOMIC_RELEASE);
	err = dev_alloc_until(c->fd, w.pool, nr, deadline, c->held);
	__atomic_store_n(&c->r->since, 0, __ATOMIC_RELEASE);
	c->nr = err ? 0 : nr;
	return err;
}

/* Pages that nobody else writes to; some stay behind, cached. */
static void use(struct self *c)
{
	uint32_t k, key = rnd(&c->s) % 64;
	uint64_t mark = rnd(&c->s);
	int err;

	for (k = 0; k < c->nr; k++)
		*(uint64_t *)(c->rw + (uint32_t)c->held[k] * PAGE) = mark + k;
	if (rnd(&c->s) % 4)
		usleep(rnd(&c->s) % 2000);
	for (k = 0; k < c->nr; k++)
		if (*(uint64_t *)(c->rw + (uint32_t)c->held[k] * PAGE) !=
		    mark + k)
			wrong(c->r, "somebody wrote to a page");
	if (rnd(&c->s) % 8 == 0)
		dev_publish(c->fd, w.pool, &c->held[0], key);
	err = dev_free(c->fd, w.pool, c->held, c->nr);
	if (err)
		wrong(c->r, "FREE: %d", err);
	c->nr = 0;
}

static void race_once(struct self *c)
{
	uint32_t nr = 1 + rnd(&c->s) % (rnd(&c->s) % 4 ? 4 : 12);
	uint32_t how = rnd(&c->s) % 8;
	uint64_t call = dev_now(), got;
	int err = take(c, nr, how == 0 ? 0 : how == 1 ? call + 5000000 : NEVER);

	got = dev_now();
	c->r->calls++;
	if (err == -ETIMEDOUT && how == 1) {
		c->r->timeouts++;
		if (got < call + 5000000)
			wrong(c->r, "a wait ended too early");
	} else if ((err == -EDQUOT || err == -ENOSPC) &&
		   (!how || (how == 1 && got >= call + 5000000))) {
		/* A deadline that had passed before the call came is none. */
		c->r->refused++;
	} else if (err) {
		wrong(c->r, "ALLOC %u in way %u: %d", nr, how, err);
	} else {
		if (how > 1)
			c->r->log[c->r->nlog++ % LOG] =
				(struct waited){ call, got };
		use(c);
	}
}

__attribute__((noreturn))
static void be_racer(int k, uint64_t seed)
{
	struct self c = { .r = &all->racer[k], .s = seed };
	enum order now;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	c.fd = dev_client(red(k) ? "red" : "blue");
	NEED(c.fd >= 0);
	dev_nwindows = 0;
	c.rw = dev_window(c.fd, w.pool, true);
	NEED(c.rw != MAP_FAILED);
	for (;;) {
		now = __atomic_load_n(&c.r->order, __ATOMIC_ACQUIRE);
		if (now == END)
			_exit(0);
		if (now == RACE) {
			race_once(&c);
			continue;
		}
		if (now == c.r->done) {
			usleep(200);
			continue;
		}
		if (now == QUEUE) {
			if (take(&c, c.r->want, NEVER))
				wrong(c.r, "no pages in the queue");
			c.r->place = __atomic_add_fetch(&all->places, 1,
							__ATOMIC_ACQ_REL);
		}
		if (now == GIVE_BACK && c.nr) {
			if (dev_free(c.fd, w.pool, c.held, c.nr))
				wrong(c.r, "pages cannot go back");
			c.nr = 0;
		}
		__atomic_store_n(&c.r->done, now, __ATOMIC_RELEASE);
	}
}

static void tell(int k, enum order order)
{
	__atomic_store_n(&all->racer[k].order, order, __ATOMIC_RELEASE);
}

static bool told(int k)
{
	uint64_t since = dev_now();
	struct racer *r = &all->racer[k];

	while (__atomic_load_n(&r->done, __ATOMIC_ACQUIRE) != r->order) {
		if (dev_now() - since > FOREVER_NS)
			return false;
		usleep(200);
	}
	return true;
}

/* ---- in a queue ---------------------------------------------------------- */

static bool waiters_are(uint32_t t, uint64_t nr)
{
	struct kvcache_tenant_info i;
	uint64_t since = dev_now();

	do {
		if (dev_tenant_info(w.admin, w.pool, w.tenant[t], &i))
			return false;
		if (i.waiters == nr)
			return true;
		usleep(200);
	} while (dev_now() - since < FOREVER_NS);
	return false;
}

/*
 * One tenant's processes ask one after the other, the first for most; then
 * pages come back one by one. Each is granted when there are enough for it and
 * for all before it.
 */
static bool in_order(uint32_t t)
{
	uint32_t k, n = RACERS / 2, first = t * n, freed, granted = 0, want = 0;
	uint64_t pages[MAX];

	if (dev_alloc_until(w.fd[t], w.pool, MAX, NEVER, pages))
		return false;
	all->places = 0;
	for (k = 0; k < n; k++) {
		all->racer[first + k].want = 1 + (n - k) % 4;
		tell(first + k, QUEUE);
		if (!waiters_are(t, k + 1))
			return false;
	}
	for (freed = 0; freed < MAX; freed++) {
		if (dev_free(w.fd[t], w.pool, &pages[freed], 1))
			return false;
		while (granted < n &&
		       want + all->racer[first + granted].want <= freed + 1) {
			want += all->racer[first + granted].want;
			if (!told(first + granted) ||
			    all->racer[first + granted].place != granted + 1)
				return false;
			granted++;
		}
		if (__atomic_load_n(&all->places, __ATOMIC_ACQUIRE) != granted)
			return false;
	}
	for (k = 0; k < n; k++) {
		tell(first + k, GIVE_BACK);
		if (!told(first + k))
			return false;
	}
	return granted == n;
}

/* ---- the race, seen from outside ----------------------------------------- */

static uint64_t sysfs_bytes(const char *file)
{
	unsigned long long n = ~0ULL;
	char path[128], word[64];
	FILE *f;

	snprintf(path, sizeof(path), SYSFS "/%s", file);
	f = fopen(path, "r");
	/* "BYTES", or "POOL BYTES". */
	while (f && fscanf(f, "%63s", word) == 1)
		n = strtoull(word, NULL, 10);
	if (f)
		fclose(f);
	return n;
}

struct seen {
	uint64_t looks;
	uint64_t most[2];	/* bytes of each tenant */
	uint64_t most_sum;	/* pages of both, at one moment */
	bool above;
	bool forever;
};

static void above(struct seen *v, const char *what, uint64_t n, uint64_t limit)
{
	if (n <= limit)
		return;
	v->above = true;
	printf("# %s: %llu, and may be %llu\n", what, (unsigned long long)n,
	       (unsigned long long)limit);
}

static void look(struct seen *v)
{
	static const char *const files[2] = {
		"tenants/red/current", "tenants/blue/current",
	};
	struct kvcache_tenant_get g = { .size = sizeof(g), .pool = w.pool };
	uint64_t n, sum = 0, since;
	uint32_t k;

	for (k = 0; k < 2; k++) {
		n = sysfs_bytes(files[k]);
		v->most[k] = n > v->most[k] ? n : v->most[k];
		above(v, files[k], n, MAX * PAGE);
	}
	n = sysfs_bytes("pools/test/free");
	above(v, "free bytes", n, NR * PAGE);
	NEED(!dev_call(w.admin, KVCACHE_NR_TENANT_GET, &g));
	for (k = 0; k < g.out_nr; k++) {
		above(v, g.out_info[k].name, g.out_info[k].cur,
		      g.out_info[k].max);
		sum += g.out_info[k].cur;
	}
	v->most_sum = sum > v->most_sum ? sum : v->most_sum;
	above(v, "sum", sum, NR);
	for (k = 0; k < RACERS; k++) {
		since = __atomic_load_n(&all->racer[k].since, __ATOMIC_ACQUIRE);
		v->forever |= since && dev_now() > since &&
			      dev_now() - since > FOREVER_NS;
	}
	v->looks++;
}

static int by_call(const void *a, const void *b)
{
	const struct waited *x = a, *y = b;

	return x->call < y->call ? -1 : x->call > y->call;
}

/* Who of a tenant asked surely later had pages surely earlier. */
static uint32_t overtaken(uint32_t t, uint32_t *longest_us, uint32_t *nr)
{
	struct waited *log = calloc(RACERS / 2 * LOG, sizeof(*log));
	uint32_t k, j, n = 0, before = 0, bad = 0;
	uint64_t last = 0, us;

	NEED(log);
	for (k = t * RACERS / 2; k < (t + 1) * RACERS / 2; k++)
		for (j = 0; j < LOG && j < all->racer[k].nlog; j++)
			log[n++] = all->racer[k].log[j];
	qsort(log, n, sizeof(*log), by_call);
	for (k = 0; k < n; k++) {
		/* The latest answer to those who asked surely before. */
		for (; log[before].call + SURE_NS < log[k].call; before++)
			last = log[before].got > last ? log[before].got : last;
		bad += log[k].got + LATE_NS < last;
		us = (log[k].got - log[k].call) / 1000;
		*longest_us = us > *longest_us ? us : *longest_us;
	}
	*nr += n;
	free(log);
	return bad;
}

static bool all_end(const pid_t *pid)
{
	uint64_t since = dev_now();
	int k, left = RACERS, status;
	bool ok = true;

	for (k = 0; k < RACERS; k++)
		tell(k, END);
	while (left && dev_now() - since < FOREVER_NS) {
		pid_t who = waitpid(-1, &status, WNOHANG);

		if (who > 0) {
			left--;
			ok &= !status;
		} else {
			usleep(1000);
		}
	}
	for (k = 0; left && k < RACERS; k++)
		kill(pid[k], SIGKILL);
	return ok && !left;
}

int main(int argc, char **argv)
{
	uint64_t ns = stress_arg(argc, argv, 1, "RACE_SECONDS", 15) *
		      1000000000ULL;
	uint64_t seed = stress_arg(argc, argv, 2, "SEED", 1), began;
	uint32_t longest = 0, waits = 0, late, calls = 0, timeouts = 0;
	int line = world_make(&w, PAGE, NR), k;
	struct seen v = { 0 };
	pid_t pid[RACERS];
	bool bad = false;

	NEED(!line);
	printf("TAP version 13\n# seed %llu\n", (unsigned long long)seed);
	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	NEED(all != MAP_FAILED);
	for (k = 0; k < 2; k++)
		NEED(!dev_limits(w.admin, w.tenant[k], w.pool, 2, 0, MAX,
				 NEVER));
	for (k = 0; k < RACERS; k++) {
		pid[k] = fork();
		NEED(pid[k] >= 0);
		if (!pid[k])
			be_racer(k, rnd_seed(seed, k));
	}
	stress_result(in_order(0) && in_order(1),
		      "requests are granted in their order");

	for (k = 0; k < RACERS; k++)
		tell(k, RACE);
	began = dev_now();
	while (dev_now() - began < ns && !v.above && !v.forever)
		look(&v);
	stress_result(all_end(pid), "nobody waits for ever");
	stress_result(!v.above && !v.forever, "no limit is ever passed");
	late = overtaken(0, &longest, &waits) + overtaken(1, &longest, &waits);
	stress_result(!late, "nobody is overtaken");
	for (k = 0; k < RACERS; k++) {
		if (all->racer[k].bad[0])
			printf("# %d: %s\n", k, all->racer[k].bad);
		bad |= all->racer[k].bad[0];
		calls += all->racer[k].calls;
		timeouts += all->racer[k].timeouts;
	}
	stress_result(!bad, "each page is one process's, each answer right");
	printf("# figure race: %u requests, %u of them timed out, longest of %u waits %u us\n",
	       calls, timeouts, waits, longest);
	printf("# figure race: %llu looks, most of red %llu, of blue %llu pages, of both %llu; limits %u, %u, %u\n",
	       (unsigned long long)v.looks,
	       (unsigned long long)(v.most[0] / PAGE),
	       (unsigned long long)(v.most[1] / PAGE),
	       (unsigned long long)v.most_sum, MAX, MAX, NR);
	stress_result(stress_rests(&w) && stress_verifies(),
		      "all pages come back");
	stress_result(!world_end(&w), "nothing is left");
	return stress_end();
}
