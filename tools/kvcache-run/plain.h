/* SPDX-License-Identifier: MIT */
/*
 * plain.h - the two ways of running that keep no key and no value.
 */
#ifndef RUN_PLAIN_H
#define RUN_PLAIN_H

#include <stdint.h>
#include <stdio.h>

struct conv;
struct emit;
struct engine;

/**
 * plain_run() - --no-cache: compute the whole sequence for every token
 * @e: the engine
 * @em: where text goes
 * @timing: where each token's time goes, or NULL
 * @c: the conversation, begun
 *
 * Return: 0, or -1 after a complaint.
 */
int plain_run(const struct engine *e, const struct emit *em, FILE *timing,
	      struct conv *c);

/**
 * struct score - how likely a text is
 * @n: tokens scored: all but the first
 * @logprob: [@n] natural logarithm of each one's probability
 * @sum: of @logprob
 * @secs: seconds that it took
 */
struct score {
	uint32_t n;
	float *logprob;
	double sum;
	double secs;
};

/* --score: one pass over a text. 0, or -1 after a complaint. */
int plain_score(const struct engine *e, const struct conv *c,
		struct score *out);
double score_perplexity(const struct score *s);

#endif /* RUN_PLAIN_H */
