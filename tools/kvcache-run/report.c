// SPDX-License-Identifier: MIT
/*
 * report.c - what a run did, as a table.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <kvattn.h>
#include <kvcache/kvcache.h>

#include "engine.h"
#include "model.h"
#include "report.h"
#include "sched.h"
#include "util.h"

/* All that it ever had: what it forgot lies behind what it keeps. */
static void take_ids(const struct report *r, const struct conv *c,
		     struct result *res)
{
	uint32_t keep = c->gone.n ? r->e->opts->keep : 0;

	res->ids = xcalloc(c->ids.n + c->gone.n, sizeof(*res->ids));
	memcpy(res->ids, c->ids.v, keep * sizeof(*res->ids));
	if (c->gone.n)
		memcpy(res->ids + keep, c->gone.v,
		       c->gone.n * sizeof(*res->ids));
	memcpy(res->ids + keep + c->gone.n, c->ids.v + keep,
	       (c->ids.n - keep) * sizeof(*res->ids));
}

struct result *report_add(struct report *r, struct conv *c, char *name)
{
	struct result *res;

	r->v = xrealloc(r->v, r->n + 1, sizeof(*r->v));
	res = &r->v[r->n++];
	*res = (struct result){
		.name = name,
		.arrival = c->arrival,
		.turn = c->turn,
		.finish = c->finish,
		.prompt = c->nprompt,
		.reused = c->reused,
		.generated = conv_generated(c),
		.recomputed = c->recomputed,
		.preempted = c->preempted,
		.pages = c->pages,
		.window_pages = c->window_pages,
		.forgot = c->gone.n,
		.shifts = c->shifts,
		.guessed = c->guessed,
		.right = c->right,
		.rows = c->rows,
		.beams = c->beams,
		.nbeams = c->nbeams,
	};
	c->beams = NULL;
	c->nbeams = 0;
	c->guessed = 0;
	c->right = 0;
	if (c->started)
		res->wait_s = c->started - c->arrived;
	if (res->generated) {
		res->first_s = c->first - c->arrived;
		res->prefill_s = c->first - c->started;
		res->decode_s = c->last - c->first;
	}
	res->text_len = c->text.done;
	res->text = xrealloc(NULL, res->text_len, 1);
	memcpy(res->text, c->text.s ? c->text.s : "", res->text_len);
	take_ids(r, c, res);
	return res;
}

static int by_arrival(const void *a, const void *b)
{
	const struct result *x = a, *y = b;

	return x->arrival < y->arrival ? -1 : x->arrival > y->arrival;
}

void report_sort(struct report *r)
{
	if (r->n)
		qsort(r->v, r->n, sizeof(*r->v), by_arrival);
}

/*
 * A prompt goes through the layers once, as far as it was not reused, then
 * each generated token, but for the last, of which nothing is asked.
 */
static uint64_t expected(const struct report *r)
{
	uint64_t sum = 0;
	unsigned int i;
	uint32_t j;

	for (i = 0; i < r->n; i++) {
		const struct result *v = &r->v[i];

		if (v->rows) {
			sum += v->rows;
			continue;
		}
		if (!v->generated)
			continue;
		if (r->e->opts->no_cache)
			for (j = 0; j < v->generated; j++)
				sum += v->prompt + j;
		else
			sum += v->prompt - v->reused + v->generated - 1 +
			       v->recomputed;
	}
	return sum;
}

void report_count(struct report *r)
{
	struct model_counters mc;
	struct kvc_stats st;

	model_counters(r->e->model, &mc);
	kvc_cache_stats(r->e->cache, &st);
	r->forwarded = mc.forwarded;
	r->appended = mc.appended;
	r->committed = st.appended_tokens;
	r->expected = expected(r);
	r->common = st.pages_common;
}

/* They were computed, and do not count. */
static uint64_t wrong_guesses(const struct report *r)
{
	uint64_t wrong = 0;
	unsigned int i;

	for (i = 0; i < r->n; i++)
		wrong += r->v[i].guessed - r->v[i].right;
	return wrong;
}

bool report_counters_ok(const struct report *r)
{
	uint64_t stored = r->e->opts->no_cache ? 0 : r->expected;
	uint64_t wrong = wrong_guesses(r);

	return r->forwarded == r->expected + wrong &&
	       r->appended == stored + wrong && r->committed == stored;
}

bool report_any(const struct report *r, enum finish f)
{
	unsigned int i;

	for (i = 0; i < r->n; i++)
		if (r->v[i].finish == f)
			return true;
	return false;
}

void report_free(struct report *r)
{
	unsigned int i;

	for (i = 0; i < r->n; i++) {
		free(r->v[i].name);
		free(r->v[i].text);
		while (r->v[i].nbeams)
			ids_free(&r->v[i].beams[--r->v[i].nbeams].ids);
		free(r->v[i].beams);
		free(r->v[i].ids);
		free(r->v[i].score.logprob);
		free(r->v[i].verdict.diffs);
	}
	free(r->v);
}

/* "512/s", or a dash for nothing in no time. */
static const char *rate(char *buf, double n, double secs)
{
	if (n <= 0 || secs <= 0)
		return strcpy(buf, "-");
	snprintf(buf, 32, n / secs < 100 ? "%.1f/s" : "%.0f/s", n / secs);
	return buf;
}

static void row(const struct report *r, FILE *f, const struct result *v)
{
	char held[32], first[32] = "-", prefill[32], decode[32];
	uint64_t bytes = v->pages * r->e->page_size;

	if (v->generated)
		snprintf(first, sizeof(first), "%.0f ms", v->first_s * 1e3);
	fprintf(f, "%-12.12s %7u %7u %7u %6u %10s %12s %10s %10s  %s",
		v->name, v->prompt, v->reused, v->generated, v->pages,
		human_size(bytes, held), first,
		rate(prefill, v->prompt - v->reused, v->prefill_s),
		rate(decode, v->generated ? v->generated - 1 : 0, v->decode_s),
		finish_name(v->finish));
	if (v->preempted)
		fprintf(f, ", gave way %u times (%u recomputed)", v->preempted,
			v->recomputed);
	fputc('\n', f);
}

static void totals(const struct report *r, FILE *f)
{
	const struct sched *s = r->sched;
	char held[32], prefill[32] = "-", decode[32] = "-";
	uint64_t prompt = 0, reused = 0, generated = 0, pages = 0;
	unsigned int i;

	for (i = 0; i < r->n; i++) {
		prompt += r->v[i].prompt;
		reused += r->v[i].reused;
		generated += r->v[i].generated;
	}
	if (s) {
		pages = s->peak_pages;
		rate(prefill, s->prefilled, s->prefill_s);
		rate(decode, s->decoded, s->decode_s);
	}
	fprintf(f, "%-12s %7" PRIu64 " %7" PRIu64 " %7" PRIu64 " %6" PRIu64
		" %10s %12s %10s %10s\n", "in all", prompt, reused, generated,
		pages, human_size(pages * r->e->page_size, held), "", prefill,
		decode);
}

static void counters(const struct report *r, FILE *f)
{
	char guesses[64] = "";

	if (wrong_guesses(r))
		snprintf(guesses, sizeof(guesses),
			 " and %" PRIu64 " of wrong guesses",
			 wrong_guesses(r));
	fprintf(f, "%" PRIu64 " positions went through the layers and %" PRIu64
		" were stored, %" PRIu64 " expected%s: %s\n", r->forwarded,
		r->appended, r->expected, guesses,
		report_counters_ok(r) ? "each once" : "WRONG");
}

/* What became of a text beside its being written. */
static void ways(const struct report *r, FILE *f, const struct result *v)
{
	unsigned int i;

	if (v->shifts)
		fprintf(f, "%s: forgot %u tokens in %u shifts of a context of %u: the model knows nothing of what was said there\n",
			v->name, v->forgot, v->shifts, r->e->ctx_len);
	if (r->e->opts->speculate)
		fprintf(f, "%s: of %" PRIu64 " guessed tokens %" PRIu64 " were right\n",
			v->name, v->guessed, v->right);
	for (i = 0; i < v->nbeams; i++)
		fprintf(f, "%s: beam %u: score %.6f, log-probability %.6f, %u tokens\n",
			v->name, i + 1, v->beams[i].score,
			v->beams[i].logprob, v->beams[i].ids.n);
}

static void shared(const struct report *r, FILE *f)
{
	const struct sched *s = r->sched;

	if (s && s->share_sum)
		fprintf(f, "at most %" PRIu64 " pages at a time, which stand for %" PRIu64 " if each had its own\n",
			s->share_held, s->share_sum);
}

static void verdict(FILE *f, const struct result *v)
{
	const struct verdict *d = &v->verdict;

	fprintf(f, "verify %s: %s: largest logit difference %.3g in one pass over %u positions, bound %.3g; %.3g in %u single steps, bound %.3g; tokens equal at %u of %u",
		v->name, d->ok ? "ok" : "FAILED", d->diff,
		d->positions, d->bound, d->step_diff, d->steps, d->step_bound,
		d->equal, d->positions);
	if (d->unclear)
		fprintf(f, ", margin below twice the bound at %u, first at token %u",
			d->unclear, d->first_unclear + 1);
	if (d->wrong)
		fprintf(f, ", WRONG at %u with a larger margin", d->wrong);
	fprintf(f, "; %" PRIu64 " stored rows, %" PRIu64 " changed", d->rows,
		d->changed);
	if (d->changed)
		fprintf(f, " (the first in layer %u, position %u)",
			d->changed_layer, d->changed_pos);
	fputc('\n', f);
}

static void scores(const struct report *r, FILE *f)
{
	uint64_t held, cached, allocs;
	char speed[32];
	unsigned int i;

	for (i = 0; i < r->n; i++) {
		const struct score *s = &r->v[i].score;

		fprintf(f, "score %s: %u tokens, log-probability %.4f, perplexity %.4f, %s\n",
			r->v[i].name, s->n, s->sum, score_perplexity(s),
			rate(speed, s->n, s->secs));
	}
	engine_pages(r->e, &held, &cached, &allocs);
	fprintf(f, "%" PRIu64 " pages held, %" PRIu64 " handed out\n",
		held + cached, allocs);
}

static void kept(const struct kept_file *k, const char *what, FILE *f)
{
	char size[32];

	if (!k->path)
		return;
	fprintf(f, "%s ", what);
	put_shown(k->path, f);
	fprintf(f, ": %u tokens, %s in %.2f s\n", k->tokens,
		human_size(k->bytes, size), k->secs);
}

static void setup(const struct report *r, FILE *f)
{
	const struct engine *e = r->e;
	char size[32];

	put_shown(e->info.name[0] ? e->info.name : e->opts->model, f);
	fprintf(f, ": %s, kernels %s, %u threads; K %s, V %s, %u tokens in a page of %s; loaded in %.2f s, ran %.2f s\n",
		e->model ? model_products(e->model) : "not loaded",
		kvc_cache_isa(e->cache),
		kvc_cache_nthreads(e->cache),
		kva_type_name(e->opts->k_type), kva_type_name(e->opts->v_type),
		kvc_cache_page_tokens(e->cache, 0),
		human_size(e->page_size, size), r->load_s, r->wall_s);
}

void report_print(const struct report *r, FILE *f)
{
	unsigned int i;

	if (!r->e->opts->quiet)
		fputc('\n', f);
	if (r->e->opts->score) {
		scores(r, f);
		setup(r, f);
		return;
	}
	fprintf(f, "%-12s %7s %7s %7s %6s %10s %12s %10s %10s  %s\n",
		"conversation", "prompt", "reused", "new", "pages", "held",
		"first token", "prefill", "decode", "finish");
	for (i = 0; i < r->n; i++)
		row(r, f, &r->v[i]);
	totals(r, f);
	for (i = 0; i < r->n; i++)
		ways(r, f, &r->v[i]);
	shared(r, f);
	if (!report_any(r, FINISH_INTERRUPTED) &&
	    !report_any(r, FINISH_FAILED))
		counters(r, f);
	for (i = 0; i < r->n; i++)
		if (r->v[i].verdict.bound > 0)
			verdict(f, &r->v[i]);
	kept(&r->loaded, "loaded from", f);
	kept(&r->saved, "saved to", f);
	tiers_print(r->e, f);
	setup(r, f);
}
