// SPDX-License-Identifier: MIT
/*
 * beams.c - beam search.
 *
 * Beams are forks of the prompt's sequence. In each step every one is extended by
 * all tokens, and the likeliest of all these texts go on: those that come from
 * one beam share its pages, and who has no successor gives its pages back. A text
 * that ends is kept aside. Texts of different lengths are compared by their
 * log-probability for a token.
 *
 * With --no-share each beam has pages of its own: where it goes on with another's
 * history, it computes what is not its own.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <kvcache/kvcache.h>

#include "beams.h"
#include "conv.h"
#include "emit.h"
#include "engine.h"
#include "interrupt.h"
#include "model.h"
#include "progress.h"
#include "sample.h"
#include "sched.h"
#include "tokenizer.h"
#include "util.h"

/* A text that one more token makes. */
struct cand {
	uint32_t beam;
	uint32_t id;
	double logprob;
};

/**
 * struct search - a search
 * @s: the scheduler
 * @c: whose text it is
 * @width: beams
 * @seq: [@width] their pages
 * @ids: [@width] their tokens, the prompt's too
 * @logprob: [@width] of what follows the prompt
 * @n: beams that go on; fewer at the beginning, and where texts ended
 * @len: tokens behind the prompt
 * @logits: [@width][vocab] of what comes next
 * @cand: [2 x @width x @width]
 * @done: [@ndone] texts that ended, the best first; @width at most
 * @ndone: their number
 */
struct search {
	struct sched *s;
	struct conv *c;
	uint32_t width;
	struct kvc_seq **seq;
	struct ids *ids;
	double *logprob;
	uint32_t n;
	uint32_t len;
	float *logits;
	struct cand *cand;
	struct hyp *done;
	uint32_t ndone;
};

static void copy_ids(struct ids *to, const struct ids *from, uint32_t first)
{
	to->n = 0;
	for (uint32_t i = first; i < from->n; i++)
		ids_push(to, from->v[i]);
}

/* Compute what beams [@from, @to) have no keys of, and their logits. */
static int compute(struct search *b, uint32_t from, uint32_t to)
{
	uint32_t chunk = b->s->e->opts->chunk, n, i, rows = 0, nwant = 0;
	struct kvc_item *items = xcalloc(b->width, sizeof(*items));
	uint32_t *want = xcalloc(b->width, sizeof(*want));
	uint32_t *tokens = xcalloc(chunk + b->width, sizeof(*tokens));
	const struct engine *e = b->s->e;
	int ret;

	/* One row of each, or a chunk of the only one. */
	for (i = from; i < to; i++) {
		uint32_t len = kvc_seq_len(b->seq[i]);

		n = b->ids[i].n - len;
		n = n < chunk ? n : chunk;
		items[i - from] = (struct kvc_item){
			.seq = b->seq[i], .tokens = b->ids[i].v + len, .n = n,
		};
		memcpy(tokens + rows, b->ids[i].v + len, n * sizeof(*tokens));
		rows += n;
		if (len + n == b->ids[i].n)
			want[nwant++] = rows - 1;
	}
	ret = kvc_batch_plan(b->s->batch, items, to - from);
	if (!ret) {
		ret = model_forward(e->model, b->s->batch, tokens, rows, want,
				    nwant, b->logits +
				    (size_t)from * e->info.vocab);
		if (!ret)
			ret = kvc_batch_commit(b->s->batch);
		else
			kvc_batch_abort(b->s->batch);
	}
	free(items);
	free(want);
	free(tokens);
	if (!ret) {
		b->c->rows += rows;
		b->s->steps++;
		sched_shared(b->s, b->seq, b->n);
		return 0;
	}
	b->c->finish = ret == -ENOSPC || ret == -EDQUOT || ret == -E2BIG ?
		       FINISH_EVICTED : FINISH_FAILED;
	return complain("conversation %s: %u beams cannot go on: %s",
			b->c->name, b->width, kvc_errmsg(e->kvc));
}

/* All that beam @i has no keys of, in pieces. */
static int compute_all(struct search *b, uint32_t i)
{
	while (kvc_seq_len(b->seq[i]) < b->ids[i].n) {
		if (interrupted()) {
			b->c->finish = FINISH_INTERRUPTED;
			return 0;
		}
		if (compute(b, i, i + 1))
			return -1;
		if (!b->len)
			progress("prefilling", (double)kvc_seq_len(b->seq[i]) /
				 b->ids[i].n);
	}
	return 0;
}

/* Logits of all beams. */
static int step(struct search *b)
{
	uint32_t i;

	if (!b->s->e->opts->no_share)
		return compute(b, 0, b->n);
	for (i = 0; i < b->n; i++)
		if (compute_all(b, i))
			return -1;
	return 0;
}

static int begin(struct search *b)
{
	const struct kvc_seq_opts o = {
		.sz = sizeof(o), .common = b->c->common,
	};
	struct kvc *kvc = b->s->e->kvc;
	int ret = kvc_seq_create(b->s->e->cache, &o, &b->seq[0]);

	if (!ret)
		ret = kvc_seq_prefix(b->seq[0], b->c->ids.v, b->c->ids.n);
	if (ret < 0)
		return complain("conversation %s: %s", b->c->name,
				kvc_errmsg(kvc));
	b->c->reused = ret;
	b->n = 1;
	copy_ids(&b->ids[0], &b->c->ids, 0);
	return compute_all(b, 0);
}

/* More probable first; the same everywhere where they are equal. */
static int by_logprob(const void *x, const void *y)
{
	const struct cand *a = x, *b = y;

	if (a->logprob != b->logprob)
		return a->logprob > b->logprob ? -1 : 1;
	if (a->beam != b->beam)
		return a->beam < b->beam ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

/* The likeliest next texts, twice as many as can be of each beam. */
static uint32_t candidates(struct search *b)
{
	const struct engine *e = b->s->e;
	uint32_t n = 0, i, k, most = 2 * b->width;
	uint32_t *top;

	most = most < e->info.vocab ? most : e->info.vocab;
	top = xcalloc(most, sizeof(*top));
	for (i = 0; i < b->n; i++) {
		const float *l = b->logits + (size_t)i * e->info.vocab;
		double lse = sample_logsumexp(l, e->info.vocab);

		sample_top(l, e->info.vocab, most, top);
		for (k = 0; k < most; k++)
			b->cand[n++] = (struct cand){
				i, top[k], b->logprob[i] + l[top[k]] - lse,
			};
	}
	free(top);
	qsort(b->cand, n, sizeof(*b->cand), by_logprob);
	return n;
}

/* One more text that is done, if it is among the best. */
static void keep(struct search *b, const struct ids *ids, uint32_t last,
		 double logprob)
{
	struct hyp h = { .logprob = logprob };
	uint32_t at;

	copy_ids(&h.ids, ids, b->c->nprompt);
	if (last != TOKEN_NONE)
		ids_push(&h.ids, last);
	h.score = logprob / h.ids.n;
	for (at = b->ndone; at && b->done[at - 1].score < h.score; at--)
		;
	if (at == b->width) {
		ids_free(&h.ids);
		return;
	}
	if (b->ndone == b->width)
		ids_free(&b->done[--b->ndone].ids);
	memmove(b->done + at + 1, b->done + at,
		(b->ndone - at) * sizeof(*b->done));
	b->done[at] = h;
	b->ndone++;
}

static bool ends(const struct search *b, uint32_t id)
{
	const struct engine *e = b->s->e;

	return e->tok && !e->opts->ignore_end && tokenizer_is_end(e->tok, id);
}

/* By references. */
static int follow_shared(struct search *b, uint32_t *from, uint32_t was)
{
	uint32_t i, n = was > b->n ? was : b->n;
	int ret = 0;

	/* New ones are forks of what there was; who ends gives its pages back. */
	for (i = was; !ret && i < b->n; i++) {
		ret = kvc_seq_fork(b->seq[from[i]], &b->seq[i]);
		from[i] = i;
	}
	for (i = b->n; i < was; i++)
		from[i] = i;
	if (!ret)
		ret = kvc_seq_reorder(b->seq, from, n);
	for (i = b->n; i < was; i++) {
		kvc_seq_free(b->seq[i], KVC_SEQ_DISCARD);
		b->seq[i] = NULL;
	}
	return ret;
}

/* What is not its own is computed in the next step. */
static int follow_alone(struct search *b)
{
	uint32_t i, n, len;
	int ret = 0;

	for (i = 0; !ret && i < b->n; i++) {
		if (!b->seq[i])
			ret = kvc_seq_create(b->s->e->cache, NULL, &b->seq[i]);
		if (ret)
			break;
		len = kvc_seq_len(b->seq[i]);
		for (n = 0; n < len && kvc_seq_tokens(b->seq[i])[n] ==
		     b->ids[i].v[n]; n++)
			;
		ret = kvc_seq_truncate(b->seq[i], n);
		/* The window before that is gone. */
		if (ret == -ENODATA)
			ret = kvc_seq_truncate(b->seq[i], 0);
	}
	return ret;
}

/* Sequences have the histories of the texts that were chosen. */
static int follow(struct search *b, uint32_t *from, uint32_t was)
{
	int ret = b->s->e->opts->no_share ? follow_alone(b) :
					    follow_shared(b, from, was);

	if (!ret)
		return 0;
	b->c->finish = FINISH_FAILED;
	return complain("conversation %s: %s", b->c->name,
			kvc_errmsg(b->s->e->kvc));
}

/* The best texts go on. */
static int choose(struct search *b)
{
	uint32_t n = candidates(b), was = b->n, to = 0, i;
	uint32_t *from = xcalloc(b->width, sizeof(*from));
	struct ids *old = b->ids;
	int ret;

	b->ids = xcalloc(b->width, sizeof(*b->ids));
	for (i = 0; i < n && to < b->width; i++) {
		const struct cand *c = &b->cand[i];

		if (ends(b, c->id)) {
			/* Below the first it is not of a search this wide. */
			if (i < b->width)
				keep(b, &old[c->beam], c->id, c->logprob);
			continue;
		}
		copy_ids(&b->ids[to], &old[c->beam], 0);
		ids_push(&b->ids[to], c->id);
		b->logprob[to] = c->logprob;
		from[to++] = c->beam;
	}
	for (i = 0; i < b->width; i++)
		ids_free(&old[i]);
	free(old);
	b->n = to;
	b->len++;
	ret = follow(b, from, was);
	free(from);
	return ret;
}

/*
 * Is there nothing better to be had? What goes on can at best stay as likely as
 * it is, and become as long as may be.
 */
static bool settled(const struct search *b)
{
	uint32_t most = conv_left(b->c, b->s->e);

	if (!b->n || b->len >= most)
		return true;
	return b->ndone == b->width &&
	       b->done[b->width - 1].score >= b->logprob[0] / most;
}

static void take_best(struct search *b)
{
	struct conv *c = b->c;
	uint32_t i;
	bool ended;

	for (i = 0; i < b->n && b->len; i++)
		keep(b, &b->ids[i], TOKEN_NONE, b->logprob[i]);
	c->beams = b->done;
	c->nbeams = b->ndone;
	b->done = NULL;
	if (!c->nbeams)
		return;
	for (i = 0; i < c->beams[0].ids.n; i++)
		conv_push(c, b->s->e, c->beams[0].ids.v[i]);
	ended = ends(b, c->ids.v[c->ids.n - 1]);
	if (c->finish == FINISH_NONE)
		c->finish = ended ? FINISH_STOP : FINISH_LENGTH;
}

static int search(struct search *b)
{
	int ret = begin(b);

	while (!ret && b->c->finish == FINISH_NONE) {
		if (interrupted()) {
			b->c->finish = FINISH_INTERRUPTED;
			break;
		}
		b->c->last = now();
		if (!b->len)
			b->c->first = b->c->last;
		ret = choose(b);
		if (ret || settled(b))
			break;
		ret = step(b);
	}
	take_best(b);
	return ret;
}

int beams_run(struct sched *s, struct conv *c)
{
	uint32_t w = s->e->opts->beams, i;
	struct search b = { .s = s, .c = c, .width = w };
	int ret;

	b.seq = xcalloc(w, sizeof(*b.seq));
	b.ids = xcalloc(w, sizeof(*b.ids));
	b.logprob = xcalloc(w, sizeof(*b.logprob));
	b.logits = xcalloc((size_t)w * s->e->info.vocab, sizeof(*b.logits));
	b.cand = xcalloc(2 * (size_t)w * w, sizeof(*b.cand));
	b.done = xcalloc(w + 1, sizeof(*b.done));
	c->started = now();
	ret = search(&b);
	progress_clear();
	c->state = CONV_DONE;
	for (i = 0; i < w; i++) {
		if (b.seq[i])
			c->pages += kvc_seq_pages(b.seq[i]);
		kvc_seq_free(b.seq[i], KVC_SEQ_DISCARD);
		ids_free(&b.ids[i]);
	}
	emit_end(s->emit, c);
	free(b.seq);
	free(b.ids);
	free(b.logprob);
	free(b.logits);
	free(b.cand);
	free(b.done);
	return ret;
}
