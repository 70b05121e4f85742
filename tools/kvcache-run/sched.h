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
struct kvc_room;

/**
 * struct sched_hooks - what a run asks of, and tells, its caller
 * @feed: add conversations that have come meanwhile, with sched_add(); @wait:
 *        nothing else is to be done. 1 there may be more, 0 no more come, -1
 *        after a complaint. May be NULL
 * @ended: a conversation has. May be NULL
 * @arg: for both
 */
struct sched_hooks {
	int (*feed)(void *arg, bool wait);
	void (*ended)(void *arg, struct conv *c);
	void *arg;
};

/**
 * struct sched - a run of many conversations
 * @e: the engine
 * @emit: where text goes
 * @timing: where each token's time goes, or NULL
 * @hooks: see there
 * @v: conversations that have not ended, in the order of arrival
 * @n: their number
 * @cap: room at @v
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
 * @want: [parallel x (1 + guesses)] rows whose logits are wanted
 * @want_conv: by whom; of guesses one row follows the other
 * @nwant: their number
 * @logits: [rows wanted][vocab]
 * @accept: [parallel] tokens of each item that count
 * @steps: steps made
 * @prefilled: positions computed that are not one more token of a running text
 * @prefill_s: seconds in steps that had some of those
 * @decoded: tokens out of steps that had none
 * @decode_s: seconds in those steps
 * @peak_pages: pages held at most at a time, each once
 * @share_sum: pages of all running conversations where that was most, each as
 *             often as it is held
 * @share_held: the same, each once
 * @asked: pages that others asked for, or limits that were lowered
 * @gave: conversations that gave way to that
 */
struct sched {
	const struct engine *e;
	const struct emit *emit;
	FILE *timing;
	const struct sched_hooks *hooks;
	struct conv **v;
	unsigned int n;
	unsigned int cap;
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
	uint32_t *accept;
	uint64_t steps;
	uint64_t prefilled;
	double prefill_s;
	uint64_t decoded;
	double decode_s;
	uint64_t peak_pages;
	uint64_t share_sum;
	uint64_t share_held;
	uint64_t asked;
	uint64_t gave;
};

/* 0, or -1 after a complaint. */
int sched_init(struct sched *s, const struct engine *e,
	       const struct emit *emit, FILE *timing);
void sched_free(struct sched *s);

/* One more: begun, and the last to arrive. */
void sched_add(struct sched *s, struct conv *c);

/**
 * sched_run() - until every conversation has ended, or SIGINT
 * @s: the scheduler, with conversations
 * @hooks: see there
 *
 * Return: 0, or -1 after a complaint.
 */
int sched_run(struct sched *s, const struct sched_hooks *hooks);

/* admit.c: who starts, and who gives way. */

/* Start waiting conversations while they fit. */
int sched_admit(struct sched *s);
/*
 * The pool has no page for the planned step: take one conversation out of it.
 * Return: 0; -1 after a complaint.
 */
int sched_make_room(struct sched *s);
/* It waits, without pages, and is continued later. */
void sched_preempt(struct sched *s, struct conv *c);

/* wait.c: pages that a conversation takes to start, and others hold. */

/* How much it would take, and whether that is there. 0 or -errno. */
int sched_predict(const struct sched *s, const struct conv *c, uint32_t extra,
		  struct kvc_room *room);
/* All pages of its tokens, or none and -errno. */
int sched_take_pages(const struct sched *s, struct conv *c);
/*
 * Nobody runs, and this one gets no pages: wait for them, first come, first
 * served. Return: 1 it has them; 0 it has none, as a signal came or it was
 * refused and has ended; -1 after a complaint.
 */
int sched_wait(struct sched *s, struct conv *c);

/* fanout.c: several samples of one prompt. */

/* How @seq holds its pages beside others: the most there was is kept. */
void sched_shared(struct sched *s, struct kvc_seq *const *seq, unsigned int n);
/* It has logits for its first token: so have its samples, which begin. */
void sched_fan_out(struct sched *s, struct conv *c, const float *logits,
		   double secs);
/* It has ended: so have those that have not begun. */
void sched_end_kids(struct sched *s, struct conv *c);

/* guess.c: tokens that may follow. */

/* Guess at most @most tokens after the last one of @c. */
void sched_guess(struct conv *c, uint32_t most);
/*
 * A step with guesses: choose tokens as long as they were right. Return: how many
 * were chosen; 0 after a complaint.
 */
uint32_t sched_check_guess(struct sched *s, struct conv *c, const float *logits,
			   double secs);

/* forget.c: a context that is full. */

/* Room for one more token at least. 0; 1 @c waits; -1 after a complaint. */
int sched_forget(struct sched *s, struct conv *c);

/* pressure.c: others want pages. */

/* Give what is asked for. 0, or -1 after a complaint. */
int sched_relieve(struct sched *s);
/* What was asked for until now is answered. */
void sched_relieved(struct sched *s);
/* Pages of running conversations were revoked: so many compute them again. */
unsigned int sched_revoked(struct sched *s);

/* sched.c: the next token of @c, from its logits. */
void sched_next_token(struct sched *s, struct conv *c, const float *logits,
		      uint32_t forwarded, double secs);
/* @c ends for the reason in its @finish. */
void sched_end(struct sched *s, struct conv *c);
void sched_remove(struct sched *s, struct conv *c);

#endif /* RUN_SCHED_H */
