// SPDX-License-Identifier: MIT
/*
 * windows.c - texts in windows of equal length, through pages.
 */
#include <stdlib.h>
#include <string.h>

#include "conv.h"
#include "engine.h"
#include "interrupt.h"
#include "model.h"
#include "progress.h"
#include "run.h"
#include "tokenizer.h"
#include "util.h"
#include "windows.h"

/* Rows of logits that are there at once. */
#define STEP_TOKENS 64

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* What each window begins with, or TOKEN_NONE. */
static uint32_t first_token(const struct engine *e)
{
	return e->tok && tokenizer_add_bos(e->tok) ? tokenizer_bos(e->tok) :
						     TOKEN_NONE;
}

/*
 * The next window of a text of which @*first tokens are used: room for its ids
 * is at @ids, which may be NULL. Its length, 0 past the last.
 */
static uint32_t cut(const struct engine *e, const struct ids *text,
		    uint32_t len, uint32_t *first, uint32_t *ids)
{
	uint32_t bos = first_token(e), n = 0, from = *first;

	/* The text has its own; windows behind the first get one more. */
	if (from && bos != TOKEN_NONE) {
		if (ids)
			ids[0] = bos;
		n = 1;
	}
	if (from && text->n - from < len - n)
		return 0;
	*first = from + least(len - n, text->n - from);
	if (ids)
		memcpy(ids + n, text->v + from, (*first - from) * sizeof(*ids));
	n += *first - from;
	return n > 1 ? n : 0;
}

static uint32_t window_len(const struct engine *e)
{
	return e->opts->ctx ? e->opts->ctx :
			      least(WINDOW_TOKENS, e->ctx_len);
}

/* Windows that all texts have. */
static uint32_t count(const struct run *r, uint32_t len)
{
	uint32_t n = 0, first;
	unsigned int i;

	for (i = 0; i < r->inputs.n; i++)
		for (first = 0; cut(&r->engine, &r->inputs.v[i]->ids, len,
				    &first, NULL); )
			n++;
	return n;
}

int windows_check(const struct run *r)
{
	if (count(r, window_len(&r->engine)))
		return 0;
	return complain("the text is one token: give a longer one");
}

void windows_begin(struct windows *w, const struct run *r, const char *what)
{
	uint32_t len = window_len(&r->engine), n = count(r, len);

	*w = (struct windows){
		.r = r,
		.what = what,
		.len = len,
		.max = r->opts.windows ? least(r->opts.windows, n) : n,
		.ids = xcalloc(len, sizeof(*w->ids)),
	};
}

static void next_step(struct windows *w)
{
	w->step = least(least(w->n - w->at, STEP_TOKENS), w->r->opts.chunk);
}

bool windows_next(struct windows *w)
{
	const struct input_list *l = &w->r->inputs;

	w->n = 0;
	if (w->done == w->max || interrupted())
		return false;
	while (!w->n && w->text < l->n) {
		w->n = cut(&w->r->engine, &l->v[w->text]->ids, w->len,
			   &w->first, w->ids);
		if (w->n)
			break;
		w->text++;
		w->first = 0;
	}
	w->at = 0;
	w->done += w->n > 0;
	next_step(w);
	return w->n > 0;
}

void windows_step(struct windows *w)
{
	w->at += w->step;
	next_step(w);
	if (interrupted())
		w->at = w->n;
	progress(w->what, (w->done - 1 + (double)w->at / w->n) / w->max);
}

void windows_end(struct windows *w)
{
	progress_clear();
	free(w->ids);
	w->ids = NULL;
}

static int failed(const struct lane *l, int err)
{
	const char *why = kvc_errmsg(l->e->kvc);

	return complain("a window: %s", *why ? why : strerror(-err));
}

int lane_open(struct lane *l, const struct engine *e, struct kvc_cache *cache)
{
	int ret;

	*l = (struct lane){ .e = e, .cache = cache };
	l->logits = xcalloc((size_t)STEP_TOKENS * e->info.vocab,
			    sizeof(*l->logits));
	ret = kvc_batch_create(cache, &l->batch);
	return ret ? failed(l, ret) : 0;
}

int lane_window(struct lane *l)
{
	const struct kvc_seq_opts opts = {
		.sz = sizeof(opts), .no_reuse = 1,
	};
	int ret;

	if (l->seq)
		kvc_seq_free(l->seq, 0);
	l->seq = NULL;
	ret = kvc_seq_create(l->cache, &opts, &l->seq);
	return ret ? failed(l, ret) : 0;
}

int lane_step(struct lane *l, const struct windows *w, bool logits)
{
	const struct kvc_item item = {
		.seq = l->seq, .tokens = w->ids + w->at, .n = w->step,
	};
	uint32_t want[STEP_TOKENS], i;
	int ret;

	for (i = 0; i < w->step; i++)
		want[i] = i;
	ret = kvc_batch_plan(l->batch, &item, 1);
	if (ret)
		return failed(l, ret);
	ret = model_forward(l->e->model, l->batch, item.tokens, item.n, want,
			    logits ? item.n : 0, l->logits);
	if (!ret)
		ret = kvc_batch_commit(l->batch);
	if (!ret)
		return 0;
	kvc_batch_abort(l->batch);
	return failed(l, ret);
}

void lane_close(struct lane *l)
{
	if (l->seq)
		kvc_seq_free(l->seq, 0);
	if (l->batch)
		kvc_batch_destroy(l->batch);
	free(l->logits);
	*l = (struct lane){ 0 };
}
