/* SPDX-License-Identifier: MIT */
/*
 * conv.h - one conversation: its tokens, where it stands, what it cost.
 */
#ifndef RUN_CONV_H
#define RUN_CONV_H

#include <stdbool.h>
#include <stdint.h>

#include "ids.h"
#include "options.h"
#include "text.h"

struct check;
struct engine;
struct kvc_seq;
struct sampler;

enum conv_state {
	CONV_WAITING,
	CONV_PREFILL,		/* a prompt, or a return after preemption */
	CONV_DECODE,		/* one token a step */
	CONV_DONE,
};

enum finish {
	FINISH_NONE,
	FINISH_STOP,		/* the model ended it */
	FINISH_LENGTH,		/* all tokens asked for, or the context full */
	FINISH_EVICTED,		/* no page was left for it */
	FINISH_REFUSED,		/* it could never fit */
	FINISH_INTERRUPTED,	/* SIGINT */
	FINISH_FAILED,		/* a step failed, its own or another's; or it
				 * gave logits that are no numbers */
};

/**
 * struct hyp - a text that a beam search found
 * @ids: what follows the prompt
 * @logprob: its log-probability
 * @score: that, for a token of it
 */
struct hyp {
	struct ids ids;
	double logprob;
	double score;
};

/**
 * struct conv - one conversation, or one turn of it
 * @name: its number or the id that its request gives
 * @arrival: its place in the order of arrival
 * @passed: see struct order_req
 * @ids: its tokens, the generated ones included; the last generated one is
 *       stored when the next one is computed
 * @common: of @ids, those that the commons may have: the system message that
 *          all conversations begin with
 * @nprompt: of @ids, those that were given in this turn and before
 * @sampling: as it was asked for
 * @max_new: tokens to generate at most in a turn, 0 for no such limit
 * @max_new_key: see struct sampling
 * @sampler: how to choose tokens
 * @state: where it stands
 * @finish: why it ended
 * @keep: there may be another turn: it is idle when it ends
 * @turn: its turn, from 1
 * @slept: it was idle before this turn
 * @whole: it gave way to other processes, and comes back with all the pages
 *         that it may need, so that it need not do so again
 * @ahead: times that it was read ahead for while it waited
 * @seq: its pages, or NULL
 * @text: what it has generated in this turn
 * @shown: bytes of @text that were printed
 * @kids: [@nkids] further samples of it, which begin where it has its first
 *        token
 * @nkids: their number
 * @kid_of: it is one of those of that conversation, or NULL
 * @gone: ids that it forgot to make room, in their order
 * @shifts: times that it did
 * @guess: [@nguess] tokens that may follow its last one
 * @nguess: their number
 * @guessed: guesses looked at
 * @right: of these, those that were right
 * @beams: [@nbeams] what a search found, the best first
 * @nbeams: their number
 * @rows: positions that the search computed
 * @check: what --verify keeps, or NULL
 * @reused: tokens that it did not have to compute when it began
 * @recomputed: positions computed again after preemption
 * @preempted: times that it had to give its pages back
 * @stored: positions it had when it was preempted
 * @pages: pages it held when it ended
 * @window_pages: the most that it held of layers with a window, between steps
 * @arrived: seconds of now()
 * @started: when its first prefill began
 * @first: when its first token was there
 * @last: when its last token was there
 */
struct conv {
	char *name;
	uint32_t arrival;
	uint32_t passed;
	struct ids ids;
	uint32_t common;
	uint32_t nprompt;
	struct sampling sampling;
	uint32_t max_new;
	const char *max_new_key;
	struct sampler *sampler;
	enum conv_state state;
	enum finish finish;
	bool keep;
	uint32_t turn;
	bool slept;
	bool whole;
	uint32_t ahead;
	struct kvc_seq *seq;
	struct text text;
	size_t shown;
	struct conv **kids;
	unsigned int nkids;
	struct conv *kid_of;
	struct ids gone;
	uint32_t shifts;
	uint32_t guess[1 + MAX_GUESSES];
	uint32_t nguess;
	uint64_t guessed;
	uint64_t right;
	struct hyp *beams;
	unsigned int nbeams;
	uint64_t rows;
	struct check *check;
	uint32_t reused;
	uint32_t recomputed;
	uint32_t preempted;
	uint32_t stored;
	uint32_t pages;
	uint32_t window_pages;
	double arrived;
	double started;
	double first;
	double last;
};

/* A conversation of @name, which it owns from then on. */
struct conv *conv_create(char *name, const struct sampling *sampling,
			 const struct engine *e);
void conv_free(struct conv *c);

/* Its tokens are all there: ready to be scheduled. */
void conv_begin(struct conv *c);
/* Tokens generated in this turn. */
uint32_t conv_generated(const struct conv *c);
/* Tokens that this turn may still generate. */
uint32_t conv_left(const struct conv *c, const struct engine *e);
/* Of those, the ones that there will be keys and values of, beside what there
 * is now, at a time. */
uint32_t conv_ahead(const struct conv *c, const struct engine *e);
/* Tokens of it that there are pages for at a time. */
uint32_t conv_stored(const struct conv *c, const struct engine *e);
/* One more token, and its text. */
void conv_push(struct conv *c, const struct engine *e, uint32_t id);
/* Positions without keys and values: what the next steps compute. */
uint32_t conv_todo(const struct conv *c);

/**
 * conv_sample() - choose the next token
 * @c: the conversation
 * @e: the engine
 * @logits: [vocab]
 *
 * Appends it, and its text. Sets @finish if it is the last one. Return: 0, or
 * -1 after a complaint: the logits are not numbers, and it has failed.
 */
int conv_sample(struct conv *c, const struct engine *e, const float *logits);

/* That complaint. */
int conv_no_numbers(const struct conv *c);

const char *finish_name(enum finish f);

#endif /* RUN_CONV_H */
