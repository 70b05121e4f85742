// SPDX-License-Identifier: MIT
/*
 * conv.c - one conversation.
 */
#include <stdlib.h>

#include <kvcache/kvcache.h>

#include "conv.h"
#include "engine.h"
#include "sample.h"
#include "tokenizer.h"
#include "util.h"
#include "verify.h"

struct conv *conv_create(char *name, const struct sampling *sampling,
			 const struct engine *e)
{
	const struct sample_opts so = {
		.temperature = sampling->temp,
		.top_p = sampling->top_p,
		.min_p = sampling->min_p,
		.seed = sampling->seed,
	};
	struct conv *c = xcalloc(1, sizeof(*c));

	c->name = name;
	c->sampling = *sampling;
	c->max_new = sampling->max_new;
	c->max_new_key = sampling->max_new_key;
	/* What the options may be has been checked. */
	if (sampler_create(&so, e->info.vocab, &c->sampler))
		out_of_memory();
	return c;
}

void conv_free(struct conv *c)
{
	kvc_seq_free(c->seq, 0);
	check_free(c->check);
	sampler_destroy(c->sampler);
	text_free(&c->text);
	while (c->nbeams)
		ids_free(&c->beams[--c->nbeams].ids);
	free(c->beams);
	free(c->kids);
	ids_free(&c->gone);
	ids_free(&c->ids);
	free(c->name);
	free(c);
}

void conv_begin(struct conv *c)
{
	c->nprompt = c->ids.n + c->gone.n;
	c->state = CONV_WAITING;
	c->finish = FINISH_NONE;
	c->shown = 0;
	c->reused = 0;
	c->recomputed = 0;
	c->preempted = 0;
	c->stored = 0;
	c->passed = 0;
	c->whole = false;
	c->ahead = 0;
	c->turn++;
	c->arrived = now();
	c->started = 0;
	text_reset(&c->text);
}

uint32_t conv_generated(const struct conv *c)
{
	return c->ids.n + c->gone.n - c->nprompt;
}

uint32_t conv_left(const struct conv *c, const struct engine *e)
{
	uint32_t room = e->ctx_len > c->ids.n ? e->ctx_len - c->ids.n : 0;
	uint32_t left = c->max_new - conv_generated(c);

	/* There is always room, once something is forgotten. */
	if (c->max_new && e->opts->shift)
		return left;
	return c->max_new && left < room ? left : room;
}

uint32_t conv_ahead(const struct conv *c, const struct engine *e)
{
	uint32_t room = e->ctx_len > c->ids.n ? e->ctx_len - c->ids.n : 0;
	uint32_t left = conv_left(c, e);

	/* The last token is never stored. */
	left -= !!left;
	return left < room ? left : room;
}

uint32_t conv_stored(const struct conv *c, const struct engine *e)
{
	return c->ids.n < e->ctx_len ? c->ids.n : e->ctx_len;
}

uint32_t conv_todo(const struct conv *c)
{
	return c->ids.n - kvc_seq_len(c->seq);
}

int conv_no_numbers(const struct conv *c)
{
	return complain("conversation %s: logits are not numbers: the file is damaged",
			c->name);
}

void conv_push(struct conv *c, const struct engine *e, uint32_t id)
{
	const char *piece;
	size_t len;

	ids_push(&c->ids, id);
	if (!e->tok || tokenizer_is_special(e->tok, id))
		return;
	piece = tokenizer_piece(e->tok, id, &len);
	if (piece)
		text_add(&c->text, piece, len);
}

int conv_sample(struct conv *c, const struct engine *e, const float *logits)
{
	uint32_t id;

	if (!sample_finite(logits, e->info.vocab)) {
		c->finish = FINISH_FAILED;
		return conv_no_numbers(c);
	}
	id = sampler_next(c->sampler, logits);
	c->last = now();
	if (!conv_generated(c))
		c->first = c->last;
	conv_push(c, e, id);
	if (e->tok && !e->opts->ignore_end && tokenizer_is_end(e->tok, id))
		c->finish = FINISH_STOP;
	else if (!conv_left(c, e))
		c->finish = FINISH_LENGTH;
	return 0;
}

const char *finish_name(enum finish f)
{
	static const char *const names[] = {
		[FINISH_NONE] = "none",
		[FINISH_STOP] = "stop",
		[FINISH_LENGTH] = "length",
		[FINISH_EVICTED] = "evicted",
		[FINISH_REFUSED] = "refused",
		[FINISH_INTERRUPTED] = "interrupted",
		[FINISH_FAILED] = "failed",
	};

	return names[f];
}
