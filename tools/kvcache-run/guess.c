// SPDX-License-Identifier: MIT
/*
 * guess.c - speculation without a second model: what followed the same few
 * tokens before may follow them again.
 *
 * Guesses are computed in one step with the token before them. Each row's logits
 * choose a token as they would have alone, so that the text is what it is without
 * guesses, whatever the temperature; what was guessed right has its keys and
 * values already.
 */
#include <string.h>

#include <kvcache/kvcache.h>

#include "conv.h"
#include "engine.h"
#include "sched.h"
#include "timing.h"
#include "util.h"
#include "verify.h"

#define LONGEST 4	/* tokens that are looked for */
#define SHORTEST 2

/* Where the last @n tokens of @ids were before, newest first; what follows. */
static uint32_t find(const struct ids *ids, uint32_t n)
{
	const uint32_t *tail = ids->v + ids->n - n;

	for (uint32_t i = ids->n - n; i; i--)
		if (!memcmp(ids->v + i - 1, tail, n * sizeof(*tail)))
			return i - 1 + n;
	return ids->n;
}

void sched_guess(struct conv *c, uint32_t most)
{
	const struct ids *ids = &c->ids;
	uint32_t at = ids->n, n;

	c->guess[0] = ids->v[ids->n - 1];
	for (n = LONGEST; n >= SHORTEST && at == ids->n; n--)
		if (n < ids->n)
			at = find(ids, n);
	n = ids->n - at;
	c->nguess = n < most ? n : most;
	memcpy(c->guess + 1, ids->v + at, c->nguess * sizeof(*c->guess));
}

uint32_t sched_check_guess(struct sched *s, struct conv *c, const float *logits,
			   double secs)
{
	uint32_t i, pos;

	c->guessed += c->nguess;
	for (i = 0; i <= c->nguess; i++) {
		pos = c->ids.n - 1;
		if (conv_sample(c, s->e, logits))
			return i;
		if (c->check)
			check_logits(c->check, pos, logits);
		timing_row(s->timing, c, pos, i ? 0 : 1 + c->nguess, s->rows,
			   secs);
		if (c->finish != FINISH_NONE)
			return i + 1;
		if (i == c->nguess || c->ids.v[pos + 1] != c->guess[i + 1])
			return i + 1;
		c->right++;
		logits += s->e->info.vocab;
	}
	return i;
}
