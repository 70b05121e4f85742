/* SPDX-License-Identifier: MIT */
/*
 * sched.h - continuous batching: which conversations take part in each step,
 * and with how many tokens.
 */
#ifndef RUN_SCHED_H
#define RUN_SCHED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct conv;
struct emit;
struct engine;
struct kvc_batch;
struct kvc_item;

/**
 * struct sched - a run of many conversations
 * @e: the engine
 * @emit: where text goes
 * @timing: where each token's time goes, or NULL
 * @v: all conversations, in the order of arrival
 * @n: their number
 * @run: those that hold pages and take part in steps, in the order of start
 * @nrun: their number
 * @changed: something that lets a waiting one start may have happened
 * @batch: the step
 * @items: [parallel] what each gets in it
 * @item_conv: [parallel] whose
 * @nitems: their number
 * @tokens: [@rows] ids of all items
 * @rows: rows of the step
 * @token_cap: room at @tokens
 * @want: [parallel] rows whose logits are wanted
 * @want_conv: [parallel] by whom
 * @nwant: their number
 * @logits: [parallel][vocab]
 * @steps: steps made
 * @prefilled: positions computed that are not one more token of a running text
 * @prefill_s: seconds in steps that had some of those
 * @decoded: tokens out of steps that had none
 * @decode_s: seconds in those steps
 * @peak_pages: pages held at most at a time, each once
 */
struct sched {
	const struct engine *e;
	const struct emit *emit;
	FILE *timing;
	struct conv **v;
	unsigned int n;
	struct conv **run;
	unsigned int nrun;
	bool changed;
	struct kvc_batch *batch;
	struct kvc_item *items;
	struct conv **item_conv;
	unsigned int nitems;
	uint32_t *tokens;
	uint32_t rows;
	uint32_t token_cap;
	uint32_t *want;
	struct conv **want_conv;
	unsigned int nwant;
	float *logits;
	uint64_t steps;
	uint64_t prefilled;
	double prefill_s;
	uint64_t decoded;
	double decode_s;
	uint64_t peak_pages;
};

/* 0, or -1 after a complaint. */
int sched_init(struct sched *s, const struct engine *e,
	       const struct emit *emit, FILE *timing);
void sched_free(struct sched *s);

/**
 * sched_run() - until every conversation has ended, or SIGINT
 * @s: the scheduler
 * @v: the conversations, begun, in the order of arrival
 * @n: their number
 *
 * Return: 0, or -1 after a complaint.
 */
int sched_run(struct sched *s, struct conv **v, unsigned int n);

/* admit.c: who starts, and who gives way. */

/* Start waiting conversations while they fit. */
int sched_admit(struct sched *s);
/*
 * The pool has no page for the planned step: take one conversation out of it.
 * Return: 0; -1 after a complaint.
 */
int sched_make_room(struct sched *s);

/* sched.c: @c ends for the reason in its @finish. */
void sched_end(struct sched *s, struct conv *c);
void sched_remove(struct sched *s, struct conv *c);

#endif /* RUN_SCHED_H */
