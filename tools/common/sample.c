// SPDX-License-Identifier: MIT
/*
 * sample.c - temperature, min-p and top-p with a seeded generator.
 *
 * The generator is xoshiro256** (Blackman and Vigna, arXiv:1805.01407) seeded
 * by splitmix64. libm's exp() may round differently from host to host, so the
 * weights come from a polynomial in plain double arithmetic.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sample.h"

struct choice {
	uint32_t id;
	float logit;
	double weight;		/* probability, up to a common factor */
};

struct sampler {
	struct sample_opts o;
	uint32_t vocab;
	uint64_t state[4];
	struct choice *heap;	/* [vocab] */
};

static uint64_t rotl(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

static uint64_t next_random(uint64_t s[4])
{
	uint64_t result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

static uint64_t splitmix(uint64_t *x)
{
	uint64_t z = *x += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/*
 * e^x for x in (-40, 0]: Taylor's polynomial of degree 12 on half of ln 2 to
 * either side. The generator has 53 bits: what lies below e^-40 is never drawn.
 */
static double exp_neg(double x)
{
	static const double c[] = {
		1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
		1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24,
		1.0 / 6, 0.5, 1, 1,
	};
	const double ln2_hi = 0x1.62e42fefa38p-1, ln2_lo = 0x1.ef35793c7673p-45;
	const double magic = 0x1.8p52;	/* rounds to integers when added */
	double n, r, sum = c[0], power;
	uint64_t bits;
	int i;

	if (!(x > -40))
		return 0;
	n = x * 0x1.71547652b82fep0 + magic - magic;
	r = x - n * ln2_hi - n * ln2_lo;
	for (i = 1; i < 13; i++)
		sum = sum * r + c[i];
	bits = (uint64_t)(1023 + (int)n) << 52;
	memcpy(&power, &bits, sizeof(power));
	return sum * power;
}

int sampler_create(const struct sample_opts *o, uint32_t vocab,
		   struct sampler **out)
{
	uint64_t seed = o->seed;
	struct sampler *s;
	int i;

	if (!vocab || !(o->temperature >= 0) || !isfinite(o->temperature) ||
	    !(o->top_p > 0 && o->top_p <= 1) ||
	    !(o->min_p >= 0 && o->min_p <= 1))
		return -EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->heap = malloc(vocab * sizeof(*s->heap));
	if (!s->heap) {
		free(s);
		return -ENOMEM;
	}
	s->o = *o;
	s->vocab = vocab;
	for (i = 0; i < 4; i++)
		s->state[i] = splitmix(&seed);
	*out = s;
	return 0;
}

void sampler_destroy(struct sampler *s)
{
	if (!s)
		return;
	free(s->heap);
	free(s);
}

void sampler_get(const struct sampler *s, struct sample_opts *o,
		 uint64_t state[4])
{
	*o = s->o;
	memcpy(state, s->state, sizeof(s->state));
}

int sampler_set(struct sampler *s, const uint64_t state[4])
{
	/* It would never leave it. */
	if (!(state[0] | state[1] | state[2] | state[3]))
		return -EINVAL;
	memcpy(s->state, state, sizeof(s->state));
	return 0;
}

bool sample_finite(const float *logits, uint32_t vocab)
{
	uint32_t i;

	for (i = 0; i < vocab; i++)
		if (!isfinite(logits[i]))
			return false;
	return true;
}

uint32_t sample_greedy(const float *logits, uint32_t vocab)
{
	uint32_t i, best = 0;

	for (i = 1; i < vocab; i++)
		if (logits[i] > logits[best] || isnan(logits[best]))
			best = i;
	return best;
}

static int before(const struct choice *a, const struct choice *b)
{
	return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

static void sift_down(struct choice *h, uint32_t n, uint32_t i)
{
	struct choice moving = h[i];
	uint32_t child;

	while ((child = 2 * i + 1) < n) {
		if (child + 1 < n && before(&h[child + 1], &h[child]))
			child++;
		if (!before(&h[child], &moving))
			break;
		h[i] = h[child];
		i = child;
	}
	h[i] = moving;
}

/*
 * Of a heap of @n choices, move the first ones in order to its end until they
 * have @share of the weight; returns where they begin.
 */
static uint32_t take_share(struct choice *h, uint32_t n, double share)
{
	uint32_t left = n, i;
	double sum = 0, want;
	struct choice first;

	for (i = n / 2; i-- > 0;)
		sift_down(h, n, i);
	for (i = 0; i < n; i++)
		sum += h[i].weight;
	want = sum * share;
	for (sum = 0; left && sum < want; h[left] = first) {
		first = h[0];
		sum += first.weight;
		h[0] = h[--left];
		if (left)
			sift_down(h, left, 0);
	}
	return left;
}

uint32_t sampler_next(struct sampler *s, const float *logits)
{
	uint32_t best = sample_greedy(logits, s->vocab), n = 0, from = 0, i;
	struct choice *h = s->heap;
	double w, u, sum = 0;

	if (s->o.temperature == 0)
		return best;
	for (i = 0; i < s->vocab; i++) {
		w = exp_neg(((double)logits[i] - logits[best]) /
			    s->o.temperature);
		if (w == 0 || w < s->o.min_p)
			continue;
		h[n++] = (struct choice){ i, logits[i], w };
	}
	if (s->o.top_p < 1)
		from = take_share(h, n, s->o.top_p);
	for (i = from; i < n; i++)
		sum += h[i].weight;
	u = (next_random(s->state) >> 11) * 0x1p-53 * sum;
	/* Likely ones are last in @h: look from there. */
	for (i = n; i-- > from;) {
		u -= h[i].weight;
		if (u < 0)
			return h[i].id;
	}
	return best;
}

void sample_top(const float *logits, uint32_t vocab, uint32_t k,
		uint32_t *ids)
{
	uint32_t i, j, n = 0;

	for (i = 0; k && i < vocab; i++) {
		if (n == k && !(logits[i] > logits[ids[n - 1]]))
			continue;
		j = n < k ? n++ : n - 1;
		for (; j && logits[i] > logits[ids[j - 1]]; j--)
			ids[j] = ids[j - 1];
		ids[j] = i;
	}
}

double sample_logsumexp(const float *logits, uint32_t vocab)
{
	double max = logits[sample_greedy(logits, vocab)], sum = 0;
	uint32_t i;

	for (i = 0; i < vocab; i++)
		sum += exp(logits[i] - max);
	return max + log(sum);
}
