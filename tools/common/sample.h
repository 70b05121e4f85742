/* SPDX-License-Identifier: MIT */
/*
 * sample.h - from logits to a token.
 *
 * Equal logits, options and seed give equal tokens on every host: the
 * generator and the exponential are this file's own.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * struct sample_opts - how to choose
 * @temperature: divides the logits; 0 always takes the largest one
 * @top_p: keep the most probable tokens that have this share together, of
 *         what @min_p left; 1 for all
 * @min_p: drop tokens less probable than this times the most probable one;
 *         0 for none
 * @seed: of the generator
 */
struct sample_opts {
	double temperature;
	double top_p;
	double min_p;
	uint64_t seed;
};

struct sampler;

/**
 * sampler_create() - one conversation's choices
 * @o: options
 * @vocab: number of logits
 * @out: for sampler_destroy()
 *
 * Return: 0; -EINVAL a negative temperature, @top_p not in (0, 1], @min_p not
 * in [0, 1]; -ENOMEM.
 */
int sampler_create(const struct sample_opts *o, uint32_t vocab,
		   struct sampler **out);
void sampler_destroy(struct sampler *s);

/* What it is, and where its generator stands. */
void sampler_get(const struct sampler *s, struct sample_opts *o,
		 uint64_t state[4]);
/* Go on from there. -EINVAL: no generator stands there. */
int sampler_set(struct sampler *s, const uint64_t state[4]);

/* The next token. O(vocab) and no more than sorting what top_p keeps. */
uint32_t sampler_next(struct sampler *s, const float *logits);

/* Are all of them numbers? */
bool sample_finite(const float *logits, uint32_t vocab);

/* The largest logit's token, the first of equal ones; NaN is never taken. */
uint32_t sample_greedy(const float *logits, uint32_t vocab);

/**
 * sample_top() - the largest logits, in order, equal ones by id
 * @logits: [@vocab]
 * @vocab: their number
 * @k: how many, at most @vocab; may be 0
 * @ids: [@k]
 */
void sample_top(const float *logits, uint32_t vocab, uint32_t k,
		uint32_t *ids);

/* Natural logarithm of the sum of exponentials, in double. */
double sample_logsumexp(const float *logits, uint32_t vocab);

#endif /* SAMPLE_H */
