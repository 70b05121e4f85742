// SPDX-License-Identifier: MIT
/*
 * sched.c - continuous batching: the steps.
 *
 * A conversation's tokens without keys and values are what it still has to
 * compute: a prompt, in pieces, or the one token that was generated last. Each
 * step takes some of everybody's; whoever has none left gets its next token.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <kvcache/kvcache.h>

#include "conv.h"
#include "emit.h"
#include "engine.h"
#include "interrupt.h"
#include "model.h"
#include "progress.h"
#include "sched.h"
#include "timing.h"
#include "util.h"
#include "verify.h"

int sched_init(struct sched *s, const struct engine *e,
	       const struct emit *emit, FILE *timing)
{
	uint32_t n = e->opts->parallel;

	*s = (struct sched){ .e = e, .emit = emit, .timing = timing };
	if (kvc_batch_create(e->cache, &s->batch))
		return complain("no batch: %s", kvc_errmsg(e->kvc));
	s->run = xcalloc(n, sizeof(*s->run));
	s->items = xcalloc(n, sizeof(*s->items));
	s->item_conv = xcalloc(n, sizeof(*s->item_conv));
	s->want = xcalloc(n, sizeof(*s->want));
	s->want_conv = xcalloc(n, sizeof(*s->want_conv));
	s->logits = xcalloc((size_t)n * e->info.vocab, sizeof(*s->logits));
	s->token_cap = n + e->opts->chunk;
	s->tokens = xcalloc(s->token_cap, sizeof(*s->tokens));
	return 0;
}

void sched_free(struct sched *s)
{
	if (s->batch)
		kvc_batch_destroy(s->batch);
	free(s->run);
	free(s->items);
	free(s->item_conv);
	free(s->want);
	free(s->want_conv);
	free(s->logits);
	free(s->tokens);
}

void sched_remove(struct sched *s, struct conv *c)
{
	unsigned int i;

	for (i = 0; i < s->nrun && s->run[i] != c; i++)
		;
	if (i == s->nrun)
		return;
	s->nrun--;
	memmove(s->run + i, s->run + i + 1, (s->nrun - i) * sizeof(*s->run));
}

void sched_end(struct sched *s, struct conv *c)
{
	c->state = CONV_DONE;
	s->changed = true;
	sched_remove(s, c);
	if (c->seq) {
		c->stored = kvc_seq_len(c->seq);
		c->pages = kvc_seq_pages(c->seq);
		if (c->check)
			check_same(c->check, c->seq);
	}
	if (c->seq && !c->keep) {
		kvc_seq_free(c->seq, 0);
		c->seq = NULL;
	}
	if (c->finish != FINISH_REFUSED)
		emit_end(s->emit, c);
}

static void add_item(struct sched *s, struct conv *c, uint32_t n)
{
	const uint32_t *tokens = c->ids.v + kvc_seq_len(c->seq);

	memcpy(s->tokens + s->rows, tokens, n * sizeof(*tokens));
	s->item_conv[s->nitems] = c;
	s->items[s->nitems++] = (struct kvc_item){
		.seq = c->seq, .tokens = tokens, .n = n,
	};
	s->rows += n;
	if (n == conv_todo(c)) {
		s->want_conv[s->nwant] = c;
		s->want[s->nwant++] = s->rows - 1;
	}
}

/*
 * Everybody's next token, and a chunk of prompts, the first to start first.
 * Rows of one kind stand together: they are one call of a kernel.
 */
static void compose(struct sched *s)
{
	uint32_t chunk = s->e->opts->chunk, n;
	unsigned int i;

	s->nitems = 0;
	s->nwant = 0;
	s->rows = 0;
	for (i = 0; i < s->nrun; i++)
		if (s->run[i]->state == CONV_DECODE)
			add_item(s, s->run[i], 1);
	for (i = 0; i < s->nrun && chunk; i++) {
		if (s->run[i]->state != CONV_PREFILL)
			continue;
		n = conv_todo(s->run[i]);
		if (n > chunk)
			n = chunk;
		chunk -= n;
		add_item(s, s->run[i], n);
	}
}

/* Plan a step, with fewer conversations if it must be. */
static int plan(struct sched *s)
{
	int ret;

	for (;;) {
		compose(s);
		if (!s->nitems)
			return 0;
		ret = kvc_batch_plan(s->batch, s->items, s->nitems);
		if (!ret)
			return 0;
		if (ret != -ENOSPC && ret != -EDQUOT && ret != -E2BIG)
			return complain("no step can be made: %s",
					kvc_errmsg(s->e->kvc));
		if (sched_make_room(s))
			return -1;
	}
}

static int forward(struct sched *s)
{
	int ret;

	ret = model_forward(s->e->model, s->batch, s->tokens, s->rows, s->want,
			    s->nwant, s->logits);
	if (ret) {
		kvc_batch_abort(s->batch);
		return complain("a step of %u rows failed: %s", s->rows,
				strerror(-ret));
	}
	ret = kvc_batch_commit(s->batch);
	if (ret)
		return complain("a step could not be kept: %s",
				kvc_errmsg(s->e->kvc));
	return 0;
}

static void show_progress(const struct sched *s)
{
	uint64_t done = 0, all = 0;
	unsigned int i;

	for (i = 0; i < s->nrun; i++) {
		const struct conv *c = s->run[i];

		if (c->state != CONV_PREFILL)
			continue;
		all += c->ids.n;
		done += kvc_seq_len(c->seq);
	}
	if (all)
		progress("prefilling", (double)done / all);
}

/* Count the step, and keep what --verify wants of it. */
static void account(struct sched *s, double secs)
{
	uint64_t held, cached, allocs;
	uint32_t prefilled = 0;
	unsigned int i;

	s->steps++;
	for (i = 0; i < s->nitems; i++) {
		struct conv *c = s->item_conv[i];

		if (c->state == CONV_PREFILL)
			prefilled += s->items[i].n;
		if (c->check)
			check_rows(c->check, c->seq);
	}
	if (prefilled) {
		s->prefilled += prefilled;
		s->prefill_s += secs;
		s->changed = true;
		show_progress(s);
	} else {
		s->decoded += s->nwant;
		s->decode_s += secs;
	}
	engine_pages(s->e, &held, &cached, &allocs);
	if (held > s->peak_pages)
		s->peak_pages = held;
}

static void next_token(struct sched *s, struct conv *c, const float *logits,
		       uint32_t forwarded, double secs)
{
	uint32_t pos = c->ids.n - 1;

	/* The others' logits may be sound. */
	if (conv_sample(c, s->e, logits)) {
		sched_end(s, c);
		return;
	}
	if (c->check)
		check_logits(c->check, pos, logits);
	timing_row(s->timing, c, pos, forwarded, s->rows, secs);
	c->state = CONV_DECODE;
	if (c->finish != FINISH_NONE)
		sched_end(s, c);
	else
		emit_text(s->emit, c);
}

static uint32_t item_rows(const struct sched *s, const struct conv *c)
{
	unsigned int i;

	for (i = 0; s->item_conv[i] != c; i++)
		;
	return s->items[i].n;
}

static int step(struct sched *s)
{
	double begin = now(), secs;
	unsigned int i;

	if (plan(s))
		return -1;
	if (!s->nitems)
		return 0;
	if (forward(s))
		return -1;
	secs = now() - begin;
	account(s, secs);
	for (i = 0; i < s->nwant; i++)
		next_token(s, s->want_conv[i],
			   s->logits + (size_t)i * s->e->info.vocab,
			   item_rows(s, s->want_conv[i]), secs);
	return 0;
}

static bool unfinished(const struct sched *s)
{
	unsigned int i;

	for (i = 0; i < s->n; i++)
		if (s->v[i]->state != CONV_DONE)
			return true;
	return false;
}

int sched_run(struct sched *s, struct conv **v, unsigned int n)
{
	unsigned int i;
	int ret = 0;

	s->v = v;
	s->n = n;
	s->changed = true;
	while (!ret && !interrupted() && unfinished(s)) {
		ret = sched_admit(s);
		if (!ret)
			ret = step(s);
	}
	progress_clear();
	for (i = 0; i < n; i++) {
		if (v[i]->state == CONV_DONE)
			continue;
		v[i]->finish = ret ? FINISH_FAILED : FINISH_INTERRUPTED;
		sched_end(s, v[i]);
	}
	return ret;
}
