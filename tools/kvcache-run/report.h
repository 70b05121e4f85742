/* SPDX-License-Identifier: MIT */
/*
 * report.h - what a run did, as a table and as JSON.
 */
#ifndef RUN_REPORT_H
#define RUN_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "conv.h"
#include "plain.h"
#include "verify.h"

struct engine;
struct sched;

/**
 * struct result - one conversation, or one turn of it, at its end
 * @name: its name; of a chat, with the turn's number
 * @arrival: its place in the order of arrival
 * @turn: its turn, from 1
 * @finish: why it ended
 * @prompt: tokens before the first generated one
 * @reused: of these, tokens that were not computed
 * @generated: tokens
 * @recomputed: positions computed again after preemption
 * @preempted: times that it gave way
 * @pages: pages it held at the end
 * @forgot: tokens that it forgot, to make room
 * @shifts: times that it did
 * @guessed: tokens that were guessed
 * @right: of these, those that were right
 * @rows: of a search, positions that it computed
 * @beams: [@nbeams] what it found, the best first
 * @nbeams: their number
 * @window_pages: the most that it held of layers with a window, between steps
 * @wait_s: seconds until its prefill began
 * @first_s: seconds until its first token
 * @prefill_s: seconds from the beginning of its prefill to its first token
 * @decode_s: seconds from its first token to its last
 * @text: [@text_len] what it generated, UTF-8
 * @ids: [@prompt + @generated] its tokens
 * @verdict: of --verify, or zeros
 * @score: of --score, or zeros
 */
struct result {
	char *name;
	uint32_t arrival;
	uint32_t turn;
	enum finish finish;
	uint32_t prompt;
	uint32_t reused;
	uint32_t generated;
	uint32_t recomputed;
	uint32_t preempted;
	uint32_t pages;
	uint32_t window_pages;
	uint32_t forgot;
	uint32_t shifts;
	uint64_t guessed;
	uint64_t right;
	uint64_t rows;
	struct hyp *beams;
	unsigned int nbeams;
	double wait_s;
	double first_s;
	double prefill_s;
	double decode_s;
	char *text;
	size_t text_len;
	uint32_t *ids;
	struct verdict verdict;
	struct score score;
};

/**
 * struct kept_file - a conversation that came from a file, or went to one
 * @path: the file, or NULL
 * @tokens: tokens whose keys and values it has
 * @bytes: its length
 * @secs: how long it took
 */
struct kept_file {
	const char *path;
	uint32_t tokens;
	uint64_t bytes;
	double secs;
};

/**
 * struct report - a run
 * @e: the engine
 * @v: results
 * @n: their number
 * @sched: the scheduler's totals, or NULL
 * @wall_s: seconds of the run, loading and checks not included
 * @load_s: seconds of loading
 * @forwarded: positions that went through the layers
 * @appended: positions stored, as the model counts them
 * @committed: the same, as the library counts them
 * @expected: what @forwarded has to be
 * @common: pages published into the commons
 * @loaded: of --load
 * @saved: of --save
 */
struct report {
	const struct engine *e;
	struct result *v;
	unsigned int n;
	const struct sched *sched;
	double wall_s;
	double load_s;
	uint64_t forwarded;
	uint64_t appended;
	uint64_t committed;
	uint64_t expected;
	uint64_t common;
	struct kept_file loaded;
	struct kept_file saved;
};

/* Add a conversation that has ended. Valid until the next call. */
struct result *report_add(struct report *r, struct conv *c, char *name);
/* All have ended: the order of arrival. */
void report_sort(struct report *r);
/* Take the counters, before checks add to them. */
void report_count(struct report *r);
/* Each position was computed once, and stored once. */
bool report_counters_ok(const struct report *r);
bool report_any(const struct report *r, enum finish f);
void report_free(struct report *r);

/* The table, and lines with what --verify and --score found. */
void report_print(const struct report *r, FILE *f);
/* 0, or -1 after a complaint. */
int report_json(const struct report *r, FILE *f);
/* One conversation, as a line of its own, at once. */
int report_json_line(const struct report *r, const struct result *v, FILE *f);

#endif /* RUN_REPORT_H */
