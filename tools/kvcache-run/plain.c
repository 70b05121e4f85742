// SPDX-License-Identifier: MIT
/*
 * plain.c - generation without a cache, and the score of a text.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conv.h"
#include "emit.h"
#include "engine.h"
#include "interrupt.h"
#include "model.h"
#include "plain.h"
#include "progress.h"
#include "sample.h"
#include "timing.h"
#include "util.h"

int plain_run(const struct engine *e, const struct emit *em, FILE *timing,
	      struct conv *c)
{
	float *logits = xcalloc(e->info.vocab, sizeof(*logits));
	double begin;
	uint32_t pos;
	int ret = 0;

	c->started = now();
	while (c->finish == FINISH_NONE) {
		if (interrupted()) {
			c->finish = FINISH_INTERRUPTED;
			break;
		}
		begin = now();
		pos = c->ids.n - 1;
		ret = model_recompute(e->model, c->ids.v, pos + 1, &pos, 1,
				      logits, NULL, NULL);
		if (ret) {
			ret = complain("conversation %s: a pass over %u tokens failed: %s",
				       c->name, pos + 1, strerror(-ret));
			c->finish = FINISH_FAILED;
			break;
		}
		ret = conv_sample(c, e, logits);
		if (ret)
			break;
		timing_row(timing, c, pos, pos + 1, pos + 1, c->last - begin);
		emit_text(em, c);
	}
	c->state = CONV_DONE;
	emit_end(em, c);
	free(logits);
	return ret;
}

/* Where a pass is: the text, and what it has found. */
struct scoring {
	uint32_t vocab;
	const uint32_t *ids;
	struct score *s;
	bool bad;
};

static void score_one(void *arg, uint32_t pos, const float *logits)
{
	struct scoring *sc = arg;
	double lp;

	if (!sample_finite(logits, sc->vocab))
		sc->bad = true;
	if (sc->bad)
		return;
	lp = logits[sc->ids[pos + 1]] - sample_logsumexp(logits, sc->vocab);
	sc->s->logprob[pos] = lp;
	sc->s->sum += lp;
	if (!(pos % 64))
		progress("scoring", (double)pos / sc->s->n);
}

int plain_score(const struct engine *e, const struct conv *c, struct score *out)
{
	struct scoring sc = {
		.vocab = e->info.vocab, .ids = c->ids.v, .s = out,
	};
	double begin = now();
	uint32_t *want, i;
	int ret;

	*out = (struct score){ .n = c->ids.n - 1 };
	if (!out->n)
		return complain("conversation %s: one token has no score: give a longer text",
				c->name);
	/* The pass looks at all but the last. */
	if (c->ids.v[out->n] >= sc.vocab) {
		*out = (struct score){ 0 };
		return complain("conversation %s: there is no token %u: the model has %u, from 0",
				c->name, c->ids.v[c->ids.n - 1], sc.vocab);
	}
	out->logprob = xcalloc(out->n, sizeof(*out->logprob));
	want = xcalloc(out->n, sizeof(*want));
	for (i = 0; i < out->n; i++)
		want[i] = i;
	ret = model_recompute(e->model, c->ids.v, out->n, want, out->n, NULL,
			      score_one, &sc);
	progress_clear();
	free(want);
	out->secs = now() - begin;
	if (!ret && !sc.bad)
		return 0;
	free(out->logprob);
	*out = (struct score){ 0 };
	if (sc.bad)
		return conv_no_numbers(c);
	return complain("conversation %s: a pass over %u tokens failed: %s",
			c->name, c->ids.n, strerror(-ret));
}

double score_perplexity(const struct score *s)
{
	return exp(-s->sum / s->n);
}
