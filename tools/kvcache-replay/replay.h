/* SPDX-License-Identifier: MIT */
/*
 * replay.h - what the files of kvcache-replay share: requests of a trace, what
 * happened to them in a run, and errors.
 */
#ifndef REPLAY_H
#define REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLAY_MAX_TENANTS	64
#define REPLAY_BLOCK		512	/* tokens in a prefix block of Mooncake */
#define REPLAY_SAMPLES		180	/* of occupancy, over a run */
#define SECOND			1000000000ULL

/* One line that names the thing and the remedy; then exit(1). */
__attribute__((format(printf, 1, 2), noreturn))
void replay_die(const char *fmt, ...);
/* Zeroed memory; exits if there is none. */
void *replay_alloc(size_t n, size_t size);
double replay_seconds(void);

/**
 * struct request - one request of a trace
 * @arrival: nanoseconds since its file's first
 * @input: tokens of the prompt
 * @output: tokens generated
 * @file: which trace it is from
 * @line: its line there
 * @tenant: whose it is
 * @nr_blocks: ids of its prompt's blocks, 0 if the trace has none
 * @ask: leading blocks that can be found: full ones, one token left over
 * @full: leading blocks that are full, and so published
 * @pages: pages that it needs from its start to its end
 * @block: [@nr_blocks] numbers of its blocks: equal ones hold the same
 * @own: [@nr_blocks] the same, but apart for each tenant
 */
struct request {
	uint64_t arrival;
	uint32_t input;
	uint32_t output;
	uint32_t file;
	uint32_t line;
	uint32_t tenant;
	uint32_t nr_blocks;
	uint32_t ask;
	uint32_t full;
	uint32_t pages;
	uint32_t *block;
	uint32_t *own;
};

/* How requests are given to tenants. */
enum by {
	BY_AUTO,	/* prefix, where there are prefixes; file, of several */
	BY_PREFIX,
	BY_FILE,
	BY_REQUEST,
};

/**
 * struct trace - the requests of all files, by arrival
 * @v: the requests
 * @n: their number
 * @files: number of files
 * @tenants: number of tenants
 * @page_tokens: tokens in a page
 * @by: the rule of the tenants
 * @skew: how unequal they are
 * @input: tokens of all prompts
 * @output: tokens generated
 * @blocks: ids in all prompts, those of partly filled blocks too
 * @unique: different ones
 * @seen: leading ids that an earlier request had: what an unlimited cache finds
 * @ask: what can be looked up: sum of request.ask
 * @nr_block: values of request.block are below
 * @nr_own: values of request.own are below
 */
struct trace {
	struct request *v;
	size_t n;
	uint32_t files;
	uint32_t tenants;
	uint32_t page_tokens;
	enum by by;
	double skew;
	uint64_t input;
	uint64_t output;
	uint64_t blocks;
	uint64_t unique;
	uint64_t seen;
	uint64_t ask;
	uint32_t nr_block;
	uint32_t nr_own;
};

/* Reads them, or exits with the file and the line that is wrong. */
void trace_read(struct trace *t, char *const *path, uint32_t files,
		uint32_t page_tokens);
/* Gives the requests to tenants. @tenants 0: 4, or one for each file. */
void trace_assign(struct trace *t, enum by by, uint32_t tenants, double skew);
void trace_free(struct trace *t);

/* What happened, in the order in which it happened, for the oracles. */
enum step_what {
	STEP_LOOK,	/* its prefix was looked up, and is held */
	STEP_DROP,	/* and is held no longer: it will look again */
	STEP_START,	/* it has all its pages */
	STEP_PUBLISH,	/* its prompt is computed, full blocks are findable */
	STEP_END,	/* all its pages go */
};

struct step {
	uint32_t request;
	enum step_what what;
};

/**
 * struct tally - counts of one tenant, or of all
 * @requests: that arrived
 * @refused: that could never be met
 * @asked: blocks to be looked for
 * @hits: blocks that they found
 * @misses: blocks that they did not find, or never looked for as refused
 * @input: tokens of their prompts
 * @evicted: cached pages taken back for somebody
 * @waits: requests that did not get their pages when they arrived
 * @waited: nanoseconds that they waited, all together
 * @longest: the longest of these times
 * @peak: highest number of pages charged
 * @share: pages charged, on average over the samples
 */
struct tally {
	uint64_t requests;
	uint64_t refused;
	uint64_t asked;
	uint64_t hits;
	uint64_t misses;
	uint64_t input;
	uint64_t evicted;
	uint64_t waits;
	uint64_t waited;
	uint64_t longest;
	uint64_t peak;
	double share;
};

struct sample {
	uint64_t t;
	uint32_t in_use;	/* private and shared pages */
	uint32_t cached;
	uint32_t free;
	uint32_t running;
	uint32_t waiting;
	uint32_t cur[REPLAY_MAX_TENANTS + 1];
};

/**
 * struct outcome - of one run
 * @all: all tenants together; @all.peak is pages in use, of the samples
 * @tenant: each of them, and at last the commons, if there is one
 * @sample: occupancy over time
 * @samples: their number
 * @step: what happened
 * @steps: their number
 * @found: blocks found, those too that were let go of again
 * @preempted: times that a waiting request let go of its prefix, so that all
 *             went on
 * @unpublished: blocks for whose publication there was no room
 * @pages: pages of the pool
 * @seconds: real time that the run took
 */
struct outcome {
	struct tally all;
	struct tally tenant[REPLAY_MAX_TENANTS + 1];
	struct sample sample[REPLAY_SAMPLES];
	uint32_t samples;
	struct step *step;
	size_t steps;
	uint64_t found;
	uint64_t preempted;
	uint64_t unpublished;
	uint64_t pages;
	double seconds;
};

#endif /* REPLAY_H */
