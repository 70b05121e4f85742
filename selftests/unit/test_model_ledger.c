// SPDX-License-Identifier: MIT
/*
 * test_model_ledger.c - random operations on the ledger and on an oracle that
 * has the rules once more, in their plainest form; all that can be seen is
 * compared after each operation.
 *
 * KVL_STEPS=N takes N steps in all, KVL_SEED=N begins with another seed. What
 * fails is shrunk to few operations and printed.
 */
#include <stdbool.h>
#include <time.h>

#include "harness.h"
#include "model_ledger.h"

#define EPISODE		2000	/* steps with one ledger */
#ifdef __SANITIZE_ADDRESS__
#define STEPS		200000
#else
#define STEPS		1000000
#endif
#define SECONDS		20	/* for an episode: more is an endless loop */
#define SHRINKING	120	/* seconds to look for a shorter one */

static uint64_t rng;

static uint32_t next(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng * 0x2545f4914f6cdd1dULL) >> 32;
}

static void fill(void *p, size_t len)
{
	uint8_t *out = p;

	while (len--)
		*out++ = next() >> 9;
}

/* Plays in a child, so that a crash or a hang is a failure like others. */
static bool goes_well(const struct model_config *cfg, const struct model_op *op,
		      size_t nr, bool show)
{
	char why[256];
	int status;
	pid_t pid;
	size_t n;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(SECONDS);
		if (show) {
			dup2(1, 2);
			setvbuf(stdout, NULL, _IOLBF, 0);
		} else {
			fclose(stderr);
		}
		n = model_play(cfg, op, nr, show ? stdout : NULL, why,
			       sizeof(why));
		if (show && n != nr)
			printf("\nstep %zu of %zu: %s\n", n + 1, nr, why);
		fflush(stdout);
		_exit(n != nr);
	}
	ASSERT_GT(pid, 0);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	if (show && WIFSIGNALED(status))
		printf("\nended by signal %d\n", WTERMSIG(status));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Leaves out what is not needed to fail; how many operations remain. */
static size_t shrink(const struct model_config *cfg, struct model_op *op,
		     size_t nr)
{
	struct model_op *try = malloc(nr * sizeof(*try));
	const time_t end = time(NULL) + SHRINKING;
	size_t part, from, fine = 0;
	bool again = true;

	ASSERT_TRUE(try != NULL);
	/* Nothing is needed after the step that fails. */
	while (nr - fine > 1) {
		part = fine + (nr - fine) / 2;
		if (goes_well(cfg, op, part, false))
			fine = part;
		else
			nr = part;
	}
	for (part = nr / 2; part && time(NULL) < end; part = again ? part :
							     part / 2) {
		again = false;
		for (from = 0; from + part <= nr && time(NULL) < end; ) {
			memcpy(try, op, from * sizeof(*op));
			memcpy(try + from, op + from + part,
			       (nr - from - part) * sizeof(*op));
			if (goes_well(cfg, try, nr - part, false)) {
				from += part;
				continue;
			}
			nr -= part;
			memcpy(op, try, nr * sizeof(*op));
			again = true;
		}
		if (part == 1 && !again)
			break;
	}
	free(try);
	return nr;
}

static void report(uint64_t seed, const struct model_config *cfg,
		   struct model_op *op, size_t nr)
{
	ht_log("KVL_SEED=%" PRIu64 " fails", seed);
	nr = shrink(cfg, op, nr);
	ht_log("pool of %u pages%s, then one of %u%s, slice %u; %zu operations:",
	       1 + cfg->pages % 64, cfg->direct & 1 ? " (direct)" : "",
	       cfg->pages2 % 8, cfg->direct & 2 ? " (direct)" : "",
	       cfg->slice % 2 ? 1 + cfg->slice / 2 % 4 : 0, nr);
	goes_well(cfg, op, nr, true);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 0) : otherwise;
}

TEST_TIMEOUT(random_operations, 36000)
{
	static struct model_op op[EPISODE];
	uint64_t steps = number("KVL_STEPS", STEPS), done;
	uint64_t seed = number("KVL_SEED", 1);
	struct model_config cfg;

	for (done = 0; done < steps; done += EPISODE, seed++) {
		rng = (seed + 1) * 0x9e3779b97f4a7c15ULL;
		fill(&cfg, sizeof(cfg));
		fill(op, sizeof(op));
		/* Small pools have more of everything in them. */
		if (seed % 2)
			cfg.pages %= 16;
		if (goes_well(&cfg, op, EPISODE, false))
			continue;
		report(seed, &cfg, op, EPISODE);
		ASSERT_TRUE(false);
	}
	ht_log("figure: %" PRIu64 " operations, none differed", done);
}

TEST_HARNESS_MAIN
