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

/* Waiting conversations that are read ahead for, and how often each is. */
#define AHEAD_CONVS 2
#define AHEAD_CALLS 4

int sched_init(struct sched *s, const struct engine *e,
	       const struct emit *emit, FILE *timing)
{
	uint32_t n = e->opts->parallel;
	size_t most = (size_t)n * (1 + e->opts->speculate);

	*s = (struct sched){ .e = e, .emit = emit, .timing = timing };
	if (kvc_batch_create(e->cache, &s->batch))
		return complain("no batch: %s", kvc_errmsg(e->kvc));
	s->run = xcalloc(n, sizeof(*s->run));
	s->items = xcalloc(n, sizeof(*s->items));
	s->item_conv = xcalloc(n, sizeof(*s->item_conv));
	s->accept = xcalloc(n, sizeof(*s->accept));
	s->want = xcalloc(most, sizeof(*s->want));
	s->want_conv = xcalloc(most, sizeof(*s->want_conv));
	s->logits = xcalloc(most * e->info.vocab, sizeof(*s->logits));
	s->token_cap = most + e->opts->chunk;
	s->tokens = xcalloc(s->token_cap, sizeof(*s->tokens));
	return 0;
}

void sched_free(struct sched *s)
{
	if (s->batch)
		kvc_batch_destroy(s->batch);
	free(s->v);
	free(s->run);
	free(s->items);
	free(s->item_conv);
	free(s->want);
	free(s->want_conv);
	free(s->logits);
	free(s->accept);
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

void sched_add(struct sched *s, struct conv *c)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 16;
		s->v = xrealloc(s->v, s->cap, sizeof(*s->v));
	}
	s->v[s->n++] = c;
	s->changed = true;
}

/* There may be another turn, but nobody knows when. */
static void fall_idle(struct conv *c)
{
	if (c->check)
		check_drop(c->check, c->seq);
	c->slept = true;
	if (!kvc_seq_idle(c->seq))
		return;
	/* It lost pages: it begins the next turn without any. */
	kvc_seq_free(c->seq, 0);
	c->seq = NULL;
}

void sched_end(struct sched *s, struct conv *c)
{
	unsigned int i;

	c->state = CONV_DONE;
	s->changed = true;
	sched_remove(s, c);
	for (i = 0; i < s->n && s->v[i] != c; i++)
		;
	s->n--;
	memmove(s->v + i, s->v + i + 1, (s->n - i) * sizeof(*s->v));
	if (c->seq) {
		c->stored = kvc_seq_len(c->seq);
		c->pages = kvc_seq_pages(c->seq);
		if (c->check && !c->keep)
			check_same(c->check, c->seq);
	}
	if (c->seq && c->keep) {
		fall_idle(c);
	} else if (c->seq) {
		kvc_seq_free(c->seq, 0);
		c->seq = NULL;
	}
	if (c->finish != FINISH_REFUSED)
		emit_end(s->emit, c);
	sched_end_kids(s, c);
	if (s->hooks->ended)
		s->hooks->ended(s->hooks->arg, c);
}

/* Tokens that are still wanted, and that there is room for. */
static uint32_t guesses(const struct sched *s, const struct conv *c)
{
	uint32_t room = s->e->ctx_len - kvc_seq_len(c->seq) - 1;
	uint32_t most = s->e->opts->speculate, left = conv_left(c, s->e);

	/* The last one of a step is never guessed. */
	left -= !!left;
	most = most < left ? most : left;
	return most < room ? most : room;
}

static void add_item(struct sched *s, struct conv *c, uint32_t n)
{
	const uint32_t *tokens = c->ids.v + kvc_seq_len(c->seq);
	uint32_t i;

	c->nguess = 0;
	if (c->state == CONV_DECODE && s->e->opts->speculate) {
		sched_guess(c, guesses(s, c));
		tokens = c->guess;
		n += c->nguess;
	}
	memcpy(s->tokens + s->rows, tokens, n * sizeof(*tokens));
	s->item_conv[s->nitems] = c;
	s->items[s->nitems++] = (struct kvc_item){
		.seq = c->seq, .tokens = tokens, .n = n,
	};
	s->rows += n;
	if (n != conv_todo(c) + c->nguess)
		return;
	for (i = c->nguess + 1; i; i--) {
		s->want_conv[s->nwant] = c;
		s->want[s->nwant++] = s->rows - i;
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
		if (n > s->e->ctx_len - kvc_seq_len(s->run[i]->seq))
			n = s->e->ctx_len - kvc_seq_len(s->run[i]->seq);
		chunk -= n;
		add_item(s, s->run[i], n);
	}
}

/* Contexts that are full forget something. */
static int make_room(struct sched *s)
{
	unsigned int i = 0;
	int ret;

	while (i < s->nrun) {
		ret = 0;
		if (kvc_seq_len(s->run[i]->seq) >= s->e->ctx_len)
			ret = sched_forget(s, s->run[i]);
		if (ret < 0)
			return -1;
		i += !ret;
	}
	return 0;
}

/* Plan a step, with fewer conversations if it must be. */
static int plan(struct sched *s)
{
	int ret;

	for (;;) {
		if (s->e->opts->shift && make_room(s))
			return -1;
		compose(s);
		if (!s->nitems)
			return 0;
		ret = kvc_batch_plan(s->batch, s->items, s->nitems);
		if (!ret)
			return 0;
		if (ret == -ESTALE && sched_revoked(s))
			continue;
		if (ret != -ENOSPC && ret != -EDQUOT && ret != -E2BIG)
			return complain("no step can be made: %s",
					kvc_errmsg(s->e->kvc));
		if (sched_make_room(s))
			return -1;
	}
}

/*
 * The next tokens are chosen first: they say how many of the guesses count. They
 * are what they are, even if pages were revoked meanwhile and the step was not.
 */
static int accept_step(struct sched *s, double begin)
{
	double secs = now() - begin;
	size_t vocab = s->e->info.vocab;
	unsigned int i, at = 0;
	int ret;

	for (i = 0; i < s->nitems; i++) {
		struct conv *c = s->item_conv[i];

		s->accept[i] = s->items[i].n;
		if (at == s->nwant || s->want_conv[at] != c)
			continue;
		if (c->nguess)
			s->accept[i] = sched_check_guess(s, c, s->logits +
							 at * vocab, secs);
		at += 1 + c->nguess;
	}
	ret = kvc_batch_accept(s->batch, s->accept);
	if (!ret)
		return 0;
	kvc_batch_abort(s->batch);
	if (ret != -ESTALE)
		return complain("a step could not be kept: %s",
				kvc_errmsg(s->e->kvc));
	for (i = 0; i < s->nitems; i++) {
		struct conv *c = s->item_conv[i];

		/* What has a text goes on from there; the others do again. */
		if (c->nguess)
			c->recomputed += s->accept[i];
		c->state = CONV_PREFILL;
		c->nguess = 0;
		if (c->finish != FINISH_NONE)
			sched_end(s, c);
	}
	return 1;
}

/* 0; 1 pages were revoked meanwhile, and the step was not; -1. */
static int forward(struct sched *s, double begin)
{
	uint32_t was = kvc_seq_len(s->items[0].seq);
	int ret;

	ret = model_forward(s->e->model, s->batch, s->tokens, s->rows, s->want,
			    s->nwant, s->logits);
	if (ret) {
		kvc_batch_abort(s->batch);
		if (ret == -ESTALE)
			return 1;
		return complain("a step of %u rows failed: %s", s->rows,
				strerror(-ret));
	}
	if (s->e->opts->speculate)
		return accept_step(s, begin);
	ret = kvc_batch_commit(s->batch);
	if (ret == -ESTALE && kvc_seq_len(s->items[0].seq) == was) {
		kvc_batch_abort(s->batch);
		return 1;
	}
	/* Of a page that was revoked later its step counts all the same. */
	if (ret && ret != -ESTALE)
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

/* Pages of layers with a window: all but the others', which are all kept. */
static uint32_t window_pages(const struct engine *e, const struct kvc_seq *seq)
{
	uint32_t n = kvc_seq_pages(seq), g;

	for (g = 0; g < e->shape.ngroups; g++)
		if (!e->groups.group[g].window)
			n -= kvc_seq_handles(seq, g, NULL, 0);
	return n;
}

static void share(struct sched *s)
{
	struct kvc_seq **seq = xcalloc(s->nrun, sizeof(*seq));
	unsigned int i;

	for (i = 0; i < s->nrun; i++)
		seq[i] = s->run[i]->seq;
	sched_shared(s, seq, s->nrun);
	free(seq);
}

/* Count the step, and keep what --verify wants of it. */
static void account(struct sched *s, double secs)
{
	uint64_t held, cached, allocs;
	uint32_t prefilled = 0, wrong = 0;
	unsigned int i;

	s->steps++;
	for (i = 0; i < s->nitems; i++) {
		struct conv *c = s->item_conv[i];

		if (c->state == CONV_PREFILL)
			prefilled += s->items[i].n;
		if (c->nguess)
			wrong += s->items[i].n - s->accept[i];
		if (c->check)
			check_rows(c->check, c->seq);
		if (window_pages(s->e, c->seq) > c->window_pages)
			c->window_pages = window_pages(s->e, c->seq);
	}
	if (prefilled) {
		s->prefilled += prefilled;
		s->prefill_s += secs;
		s->changed = true;
		show_progress(s);
	} else {
		s->decoded += s->nwant - wrong;
		s->decode_s += secs;
	}
	engine_pages(s->e, &held, &cached, &allocs);
	if (held > s->peak_pages)
		s->peak_pages = held;
	if (s->e->opts->samples > 1)
		share(s);
}

void sched_next_token(struct sched *s, struct conv *c, const float *logits,
		      uint32_t forwarded, double secs)
{
	uint32_t pos = c->ids.n - 1;

	if (c->nkids)
		sched_fan_out(s, c, logits, secs);
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

/* What it has chosen is known: the rows of its guesses are passed over. */
static uint32_t guessed(struct sched *s, struct conv *c)
{
	uint32_t n = c->nguess;

	c->nguess = 0;
	if (c->finish != FINISH_NONE)
		sched_end(s, c);
	else
		emit_text(s->emit, c);
	return n;
}

/*
 * What the next ones will want is read while this step is computed. A few calls
 * are enough for it to be on its way from whichever tier has it.
 */
static void read_ahead(struct sched *s)
{
	unsigned int i, n = 0;

	for (i = 0; s->e->tiers.n && i < s->n && n < AHEAD_CONVS; i++) {
		struct conv *c = s->v[i];

		if (c->state != CONV_WAITING)
			continue;
		n++;
		if (c->ahead++ < AHEAD_CALLS)
			kvc_prefetch(s->e->cache, c->seq, c->ids.v, c->ids.n);
	}
}

static int step(struct sched *s)
{
	double begin = now(), secs;
	unsigned int i;
	int ret;

	if (plan(s))
		return -1;
	if (!s->nitems)
		return 0;
	read_ahead(s);
	ret = forward(s, begin);
	if (ret)
		return ret < 0 ? -1 : 0;
	secs = now() - begin;
	account(s, secs);
	for (i = 0; i < s->nwant; i++) {
		struct conv *c = s->want_conv[i];

		if (!c->nguess)
			sched_next_token(s, c, s->logits +
					 (size_t)i * s->e->info.vocab,
					 item_rows(s, c), secs);
		else
			i += guessed(s, c);
	}
	return 0;
}

/* 1 there are conversations, 0 none and none to come, -1. */
static int feed(struct sched *s)
{
	int more = 1;

	while (s->hooks->feed && more > 0 && !interrupted()) {
		more = s->hooks->feed(s->hooks->arg, !s->n);
		if (s->n)
			break;
	}
	return more < 0 ? -1 : s->n > 0;
}

int sched_run(struct sched *s, const struct sched_hooks *hooks)
{
	int ret = 0;

	s->hooks = hooks;
	s->changed = true;
	while (!ret && !interrupted()) {
		ret = feed(s);
		if (ret <= 0 || interrupted())
			break;
		ret = sched_relieve(s);
		if (!ret)
			ret = sched_admit(s);
		if (!ret)
			ret = step(s);
	}
	progress_clear();
	while (s->n) {
		s->v[0]->finish = ret ? FINISH_FAILED : FINISH_INTERRUPTED;
		sched_end(s, s->v[0]);
	}
	return ret;
}
