/* SPDX-License-Identifier: MIT */
/*
 * run.h - one run of the program, and its modes.
 */
#ifndef RUN_RUN_H
#define RUN_RUN_H

#include <stdbool.h>
#include <stdio.h>

#include "emit.h"
#include "engine.h"
#include "input.h"
#include "options.h"
#include "report.h"
#include "requests.h"
#include "sched.h"

/**
 * struct run - everything of a run
 * @opts: the command line
 * @engine: what is opened once
 * @inputs: the conversations
 * @emit: where text goes
 * @sched: the scheduler, unless nothing is kept
 * @report: results
 * @feed: requests that come while others run
 * @bad: one of them was complained about
 * @json: where JSON goes, or NULL
 * @jsonl: where a line of it goes for each conversation, or NULL
 * @timing: where times go, or NULL
 * @scales: where --calibrate writes, or NULL
 */
struct run {
	struct options opts;
	struct engine engine;
	struct input_list inputs;
	struct emit emit;
	struct sched sched;
	struct report report;
	struct feed feed;
	bool bad;
	FILE *json;
	FILE *jsonl;
	FILE *timing;
	FILE *scales;
};

/* Modes. Each returns 0, or -1 after a complaint. */
int run_conversations(struct run *r);	/* conversations.c */
int run_chat(struct run *r);
int run_score(struct run *r);

/* Load the weights and what a run needs: 0, or -1 after a complaint. */
int run_load(struct run *r);
/* The same, the time that it took to tell the weights from others included. */
int run_begin(struct run *r);
/* A conversation, or a turn of it, has ended: report it. */
void run_ended(struct run *r, struct conv *c, char *name);

#endif /* RUN_RUN_H */
