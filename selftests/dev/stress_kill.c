// SPDX-License-Identifier: MIT
/*
 * stress_kill.c - clients that are killed with signal 9 at whatever they are
 * doing, in groups of one to four at a time: nothing of theirs may be left.
 *
 *	stress_kill [CLIENTS] [SEED]	or $KILLS, $SEED
 */
#include <sys/uio.h>

#include "stress.h"

#define NR		64	/* pages of the pool */
#define GROUP		4
#define KEYS		64
#define BASELINE	200
#define FOREVER_US	10000000
#define EACH		100	/* kills between two looks at the whole */

enum mode { ALLOCATE, PUBLISH, WAIT, MAPPED, PINNED, EXPORTED, NR_MODES };

static const char *const names[NR_MODES] = {
	"allocating", "publishing", "waiting", "mapped", "pinned", "exported",
};

/* What a client tells of itself, in memory that it shares with the parent. */
struct told {
	uint32_t client;
	uint32_t rounds;
};

/* ---- a client ------------------------------------------------------------ */

struct self {
	int fd;
	uint32_t pool;
	char *rw;
	uint64_t s;
	uint64_t held[NR];
	uint32_t nr;
	int pipe[2];
	int buf;
};

static char *page_at(const struct self *c, uint64_t handle)
{
	return c->rw + (uint32_t)handle * PAGE;
}

static void take(struct self *c, uint32_t nr, uint64_t deadline)
{
	if (c->nr + nr <= NR &&
	    !dev_alloc_until(c->fd, c->pool, nr, deadline, c->held + c->nr))
		c->nr += nr;
}

static void drop(struct self *c)
{
	if (c->nr)
		dev_free(c->fd, c->pool, c->held, c->nr);
	c->nr = 0;
}

static void touch(struct self *c)
{
	uint32_t k;

	for (k = 0; k < c->nr; k++)
		memset(page_at(c, c->held[k]) + rnd(&c->s) % 16 * 4096, 0x5a,
		       64);
}

static void publish(struct self *c)
{
	uint32_t had;

	if (c->nr > 8)
		drop(c);
	had = c->nr;
	take(c, 1, 0);
	if (c->nr == had)
		return;
	memset(page_at(c, c->held[c->nr - 1]), 0x77, 64);
	if (dev_publish(c->fd, c->pool, &c->held[c->nr - 1],
			rnd(&c->s) % KEYS))
		drop(c);
	if (rnd(&c->s) % 2 && c->nr < NR &&
	    !dev_lookup(c->fd, c->pool, rnd(&c->s) % KEYS, &c->held[c->nr]))
		c->nr++;
}

/* The pipe holds the pages of what is spliced into it. */
static void pin(struct self *c)
{
	char away[8192];
	uint32_t k;

	take(c, 2, 0);
	for (k = 0; k < c->nr; k++) {
		struct iovec v = { page_at(c, c->held[k]), 4096 };

		*(char *)v.iov_base = 1;
		if (vmsplice(c->pipe[1], &v, 1, SPLICE_F_NONBLOCK) < 0)
			break;
	}
	drop(c);
	if (rnd(&c->s) % 2)
		while (read(c->pipe[0], away, sizeof(away)) > 0)
			;
}

static void export(struct self *c)
{
	struct kvcache_export e = { .size = sizeof(e), .pool = c->pool };
	char *at;

	take(c, 2, 0);
	if (!c->nr)
		return;
	e.nr = c->nr;
	memcpy(e.pages, c->held, c->nr * sizeof(*c->held));
	if (!dev_call(c->fd, KVCACHE_NR_EXPORT, &e)) {
		at = mmap(NULL, c->nr * PAGE, PROT_READ | PROT_WRITE,
			  MAP_SHARED, e.out_fd, 0);
		if (at != MAP_FAILED) {
			memset(at, 0x33, PAGE);
			if (rnd(&c->s) % 2)
				munmap(at, c->nr * PAGE);
		}
		if (rnd(&c->s) % 2)
			close(e.out_fd);
	}
	drop(c);
}

__attribute__((noreturn))
static void be_client(uint32_t pool, enum mode mode, uint64_t seed,
		   struct told *told)
{
	struct self c = { .pool = pool, .s = seed };
	struct kvcache_query q = { .size = sizeof(q) };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGBUS, SIG_DFL);
	c.fd = dev_client(rnd(&c.s) % 2 ? "red" : "blue");
	NEED(c.fd >= 0);
	dev_nwindows = 0;
	c.rw = dev_window(c.fd, pool, true);
	NEED(c.rw != MAP_FAILED);
	NEED(!pipe2(c.pipe, O_NONBLOCK | O_CLOEXEC));
	NEED(!dev_call(c.fd, KVCACHE_NR_QUERY, &q));
	__atomic_store_n(&told->client, q.out_client, __ATOMIC_RELEASE);
	for (;;) {
		switch (mode) {
		case ALLOCATE:
			take(&c, 1 + rnd(&c.s) % 8, 0);
			if (rnd(&c.s) % 2)
				drop(&c);
			break;
		case PUBLISH:
			publish(&c);
			break;
		case WAIT:
			take(&c, 1 + rnd(&c.s) % (NR - 4), NEVER);
			touch(&c);
			drop(&c);
			break;
		case MAPPED:
			take(&c, 4, 0);
			touch(&c);
			if (rnd(&c.s) % 16 == 0)
				drop(&c);
			break;
		case PINNED:
			pin(&c);
			break;
		default:
			export(&c);
		}
		told->rounds++;
	}
}

/* ---- the storm ----------------------------------------------------------- */

struct storm {
	struct world w;
	struct told *told;	/* GROUP of them */
	uint64_t seed;
	uint64_t s;
	uint32_t done;
	uint32_t modes[NR_MODES];
	uint32_t early;		/* killed before they were attached */
	uint32_t *ended;	/* us from the kill to the parent's knowing */
	uint32_t *back;		/* us from a group's last kill to all pages free */
	uint32_t nback;
	bool kept;		/* a dead client had a page */
	bool lost;		/* pages did not come back in time */
};

static uint32_t us_since(uint64_t t)
{
	return (dev_now() - t) / 1000;
}

static uint32_t kill_one(pid_t pid)
{
	uint64_t t = dev_now();

	NEED(!kill(pid, SIGKILL));
	NEED(waitpid(pid, NULL, 0) == pid);
	return us_since(t);
}

static bool holds_pages(const struct storm *st, uint32_t client)
{
	struct kvcache_page_get g = { .size = sizeof(g), .pool = st->w.pool };
	uint32_t k;

	NEED(!dev_call(st->w.admin, KVCACHE_NR_PAGE_GET, &g));
	for (k = 0; k < g.out_nr; k++)
		if (g.out_info[k].state == KVCACHE_PAGE_PRIVATE &&
		    g.out_info[k].client == client)
			return true;
	return false;
}

/* Until nothing of the pool is in use, or being given back. */
static uint32_t all_back(struct storm *st, uint64_t since)
{
	struct kvcache_pool_info p;

	for (;;) {
		NEED(!dev_pool_info(st->w.admin, st->w.pool, &p));
		if (!p.nr_private && !p.nr_shared && !p.nr_retiring)
			return us_since(since);
		if (us_since(since) > FOREVER_US) {
			st->lost = true;
			return FOREVER_US;
		}
		usleep(50);
	}
}

static void group(struct storm *st, uint32_t nr)
{
	uint32_t k, client, first = rnd(&st->s) % nr;
	bool early = rnd(&st->s) % 8 == 0;
	pid_t pid[GROUP];
	enum mode mode;
	uint64_t t = 0;

	memset(st->told, 0, GROUP * sizeof(*st->told));
	for (k = 0; k < nr; k++) {
		mode = (st->done + k) % NR_MODES;
		st->modes[mode]++;
		pid[k] = fork();
		NEED(pid[k] >= 0);
		if (!pid[k])
			be_client(st->w.pool, mode,
				  rnd_seed(st->seed, st->done + k), &st->told[k]);
	}
	for (k = 0; !early && k < nr; k++)
		while (!__atomic_load_n(&st->told[k].client, __ATOMIC_ACQUIRE)) {
			NEED(!waitpid(pid[k], NULL, WNOHANG));
			usleep(50);
		}
	usleep(rnd(&st->s) % 5000);
	for (k = 0; k < nr; k++) {
		uint32_t j = (first + k) % nr;

		NEED(!waitpid(pid[j], NULL, WNOHANG));
		client = st->told[j].client;
		st->early += !client;
		t = dev_now();
		st->ended[st->done++] = kill_one(pid[j]);
		if (client && holds_pages(st, client))
			st->kept = true;
	}
	st->back[st->nback++] = all_back(st, t);
}

static void baseline(void)
{
	uint32_t us[BASELINE], k;
	pid_t pid;

	for (k = 0; k < BASELINE; k++) {
		pid = fork();
		NEED(pid >= 0);
		if (!pid)
			for (;;)
				pause();
		usleep(1000);
		us[k] = kill_one(pid);
	}
	show_times("an idle fork, killed", us, BASELINE);
}

int main(int argc, char **argv)
{
	uint32_t clients = stress_arg(argc, argv, 1, "KILLS", 2000), k, next;
	struct storm st = { .seed = stress_arg(argc, argv, 2, "SEED", 1) };
	bool verified = true, free = true;
	uint64_t began = dev_now();
	int line = world_make(&st.w, PAGE, NR);

	NEED(!line);
	printf("TAP version 13\n# seed %llu\n", (unsigned long long)st.seed);
	st.s = rnd_seed(st.seed, ~0U);
	st.told = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	st.ended = calloc(clients, sizeof(*st.ended));
	st.back = calloc(clients, sizeof(*st.back));
	NEED(st.told != MAP_FAILED && st.ended && st.back);
	baseline();

	for (next = EACH; st.done < clients && verified && free &&
	     !st.lost;) {
		k = 1 + rnd(&st.s) % GROUP;
		group(&st, k < clients - st.done ? k : clients - st.done);
		if (st.done < next && st.done < clients)
			continue;
		next += EACH;
		verified = stress_verifies();
		free = stress_rests(&st.w) && stress_verifies();
	}
	printf("# figure kill storm: %u killed in %.0f s, %u before they were attached\n",
	       st.done, (dev_now() - began) / 1e9, st.early);
	for (k = 0; k < NR_MODES; k++)
		printf("# %u %s\n", st.modes[k], names[k]);
	show_times("a client, killed", st.ended, st.done);
	show_times("the last of a group, killed, until all pages are free",
		   st.back, st.nback);
	stress_result(st.done == clients, "as many as wanted were killed");
	stress_result(!st.kept, "who is dead has no page");
	stress_result(verified, "the ledger is in order, now and after each 100");
	stress_result(free && !st.lost, "no page is lost");
	stress_result(!world_end(&st.w), "nothing is left");
	return stress_end();
}
