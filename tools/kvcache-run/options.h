/* SPDX-License-Identifier: MIT */
/*
 * options.h - the command line.
 */
#ifndef RUN_OPTIONS_H
#define RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "model.h"
#include "tiers.h"

/* Exit codes. */
#define RUN_OK		0
#define RUN_FAILED	1	/* bad input, a refusal, a failed check */
#define RUN_USAGE	2
#define RUN_STOPPED	130	/* SIGINT */

/* kva_threads_create() makes no more. */
#define MAX_THREADS	1024

/* Logits of a whole step are held at once. */
#define MAX_SAMPLES	1024
#define MAX_BEAMS	64
#define MAX_GUESSES	64

/* No token at all is left with 0. */
#define MIN_TOP_P	1e-6

/* Where a prompt comes from. */
enum input_kind {
	INPUT_TEXT,		/* -p */
	INPUT_FILE,		/* -f */
	INPUT_TOKENS,		/* --tokens */
	INPUT_REQUESTS,		/* --requests */
};

struct input {
	enum input_kind kind;
	const char *value;
};

/* What happens to a conversation for which the pool has no page left. */
enum on_full {
	ON_FULL_PREEMPT,	/* it waits and is continued later */
	ON_FULL_STOP,		/* it ends there */
};

/**
 * struct sampling - how the next token is chosen
 * @max_new: tokens to generate at most, 0 for as many as the context holds
 * @max_new_key: the member of a request that says so, or NULL for -n
 * @temp: temperature, 0 for the most likely token
 * @top_p: smallest set of tokens with this probability
 * @min_p: tokens of at least this share of the most likely one's probability
 * @seed: of the random numbers
 */
struct sampling {
	uint32_t max_new;
	const char *max_new_key;
	double temp;
	double top_p;
	double min_p;
	uint64_t seed;
};

/* Of struct sampling, what the command line says; see --load. */
#define GIVEN_TEMP	(1U << 0)
#define GIVEN_TOP_P	(1U << 1)
#define GIVEN_MIN_P	(1U << 2)
#define GIVEN_SEED	(1U << 3)

/* Types of keys and values that --kld is to compare, at most. */
#define MAX_KV 32

/* One of them. */
struct kv_pair {
	int k_type;
	int v_type;
};

struct options {
	const char *model;
	struct input *inputs;
	unsigned int ninputs;
	const char *system;
	const char *system_file;
	struct sampling sampling;
	unsigned int given;		/* GIVEN_* */
	const char *save;
	const char *load;
	bool raw;
	bool chat;
	bool no_cache;
	bool no_reuse;
	bool keep_window;
	uint32_t samples;		/* of each conversation, 1 */
	uint32_t beams;			/* 0: no beam search */
	bool no_share;
	uint32_t speculate;		/* tokens to guess, 0 none */
	bool shift;			/* --keep is given */
	uint32_t keep;
	bool fixed;			/* --static */
	bool verify;
	bool score;
	bool kld;
	uint32_t windows;		/* 0: all that there are */
	const char *calibrate;		/* path */
	const char *kv_scales;		/* path */
	bool quiet;
	bool ignore_end;
	enum model_weights weights;
	int k_type;
	int v_type;
	struct kv_pair kv[MAX_KV];	/* each --kv, of which the last counts
					 * but with @kld */
	unsigned int nkv;
	uint32_t chunk;
	uint32_t ctx;
	uint32_t threads;
	uint32_t parallel;
	bool parallel_given;
	uint64_t pool;
	uint64_t page_size;
	uint64_t max_pages;
	const char *tenant;
	const char *commons;
	const char *commons_salt;	/* path */
	const char *salt;		/* path */
	uint64_t epoch;
	const char *tiers[MAX_TIERS];
	unsigned int ntiers;
	const char *isa;
	enum on_full on_full;
	double wait_s;			/* below 0: for as long as it takes */
	bool json;
	const char *json_path;		/* NULL: standard output */
	bool jsonl;
	const char *jsonl_path;		/* likewise */
	const char *timing;
};

/**
 * options_parse() - the command line
 *
 * Return: 0; 1 if there is nothing left to do (--help, --version); -1 after a
 * complaint.
 */
int options_parse(int argc, char **argv, struct options *o);
void options_free(struct options *o);
/* Its last part: do they go together? 0, or -1 after a complaint. */
int options_check(const struct options *o);

const char *weights_name(enum model_weights w);

/* Texts in windows, not conversations: each may be longer than the context. */
static inline bool options_windows(const struct options *o)
{
	return o->kld || o->calibrate;
}

/* Is what is stored to be found again? */
static inline bool options_keep(const struct options *o)
{
	return !o->no_cache && !o->score && !options_windows(o);
}

#endif /* RUN_OPTIONS_H */
