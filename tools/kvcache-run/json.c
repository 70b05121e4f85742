// SPDX-License-Identifier: MIT
/*
 * json.c - what a run did, as JSON.
 */
#include <jansson.h>

#include <kvattn.h>
#include <kvcache/kvcache.h>

#include "engine.h"
#include "json_out.h"
#include "model.h"
#include "report.h"
#include "sched.h"

static json_t *per_second(double n, double secs)
{
	return n > 0 && secs > 0 ? json_real(n / secs) : json_null();
}

static json_t *id_list(const uint32_t *ids, uint32_t n)
{
	json_t *a = json_array();
	uint32_t i;

	for (i = 0; i < n; i++)
		json_array_append_new(a, json_integer(ids[i]));
	return a;
}

static json_t *verdict(const struct verdict *d)
{
	json_t *diffs = json_array();
	uint32_t i;

	for (i = 0; d->diffs && i < d->positions; i++)
		json_array_append_new(diffs, json_number(d->diffs[i]));
	return json_pack("{s:b, s:i, s:o, s:o, s:f, s:i, s:o, s:f, s:i, s:i, s:i, s:i, s:I, s:I}",
			 "ok", d->ok,
			 "positions", d->positions,
			 "max_diffs", diffs,
			 "max_diff", json_number(d->diff),
			 "bound", d->bound,
			 "steps", d->steps,
			 "step_max_diff", json_number(d->step_diff),
			 "step_bound", d->step_bound,
			 "equal", d->equal,
			 "below_margin", d->unclear,
			 "first_below_margin", d->first_unclear,
			 "wrong", d->wrong,
			 "rows", (json_int_t)d->rows,
			 "rows_changed", (json_int_t)d->changed);
}

static json_t *score(const struct score *s)
{
	json_t *lp = json_array();
	uint32_t i;

	for (i = 0; i < s->n; i++)
		json_array_append_new(lp, json_number(s->logprob[i]));
	return json_pack("{s:i, s:o, s:o, s:o, s:f}",
			 "tokens", s->n,
			 "logprob", json_number(s->sum),
			 "perplexity", json_number(score_perplexity(s)),
			 "logprobs", lp,
			 "seconds", s->secs);
}

static json_t *beams(const struct result *v)
{
	json_t *list = json_array();
	unsigned int i;

	for (i = 0; i < v->nbeams; i++)
		json_array_append_new(list, json_pack(
			"{s:f, s:f, s:o}",
			"score", v->beams[i].score,
			"logprob", v->beams[i].logprob,
			"ids", id_list(v->beams[i].ids.v,
				       v->beams[i].ids.n)));
	return list;
}

/* What only some options make of a conversation. */
static void ways(const struct report *r, const struct result *v, json_t *o)
{
	const struct options *opts = r->e->opts;

	if (opts->shift)
		json_object_update_new(o, json_pack(
			"{s:I, s:I}", "forgotten_tokens",
			(json_int_t)v->forgot, "context_shifts",
			(json_int_t)v->shifts));
	if (opts->speculate)
		json_object_update_new(o, json_pack(
			"{s:I, s:I}", "guessed_tokens",
			(json_int_t)v->guessed, "right_tokens",
			(json_int_t)v->right));
	if (opts->beams)
		json_object_set_new(o, "beams", beams(v));
}

static json_t *result(const struct report *r, const struct result *v)
{
	json_t *o;

	o = json_pack("{s:s, s:i, s:o}", "id", v->name,
		      "prompt_tokens", v->prompt,
		      "prompt_ids", id_list(v->ids, v->prompt));
	if (r->e->opts->score) {
		json_object_set_new(o, "score", score(&v->score));
		return o;
	}
	json_object_update_new(o, json_pack(
		"{s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:f, s:f, s:o, s:o, s:o, s:o}",
		"turn", v->turn,
		"finish", finish_name(v->finish),
		"reused_tokens", v->reused,
		"prefilled_tokens", v->generated ? v->prompt - v->reused : 0,
		"generated_tokens", v->generated,
		"preempted", v->preempted,
		"recomputed_tokens", v->recomputed,
		"pages", v->pages,
		"bytes", (json_int_t)(v->pages * r->e->page_size),
		"waited_ms", v->wait_s * 1e3,
		"first_token_ms", v->first_s * 1e3,
		"prefill_tokens_per_s",
		per_second(v->prompt - v->reused, v->prefill_s),
		"decode_tokens_per_s",
		per_second((double)v->generated - 1, v->decode_s),
		"text", json_stringn(v->text, v->text_len),
		"ids", id_list(v->ids + v->prompt, v->generated)));
	if (r->e->info.window)
		json_object_set_new(o, "window_pages",
				    json_integer(v->window_pages));
	ways(r, v, o);
	if (v->verdict.bound > 0)
		json_object_set_new(o, "verify", verdict(&v->verdict));
	return o;
}

/* Layers that have pages of their own. */
static json_t *groups(const struct engine *e)
{
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < e->shape.ngroups; i++)
		json_array_append_new(list, json_pack(
			"{s:i, s:i}",
			"window", e->groups.group[i].window,
			"page_tokens", kvc_cache_page_tokens(e->cache, i)));
	return list;
}

static json_t *model(const struct engine *e)
{
	return json_pack("{s:o, s:o, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:o, s:I, s:I}",
			 "file", json_outside(e->opts->model),
			 "name", json_outside(e->info.name),
			 "products", e->model ? model_products(e->model) : "",
			 "weights", weights_name(e->opts->weights),
			 "kernels", kvc_cache_isa(e->cache),
			 "k_type", kva_type_name(e->opts->k_type),
			 "v_type", kva_type_name(e->opts->v_type),
			 "threads", (int)kvc_cache_nthreads(e->cache),
			 "page_tokens", kvc_cache_page_tokens(e->cache, 0),
			 "groups", groups(e),
			 "page_bytes", (json_int_t)e->page_size,
			 "parameters", (json_int_t)e->info.params);
}

static json_t *totals(const struct report *r)
{
	const struct sched *s = r->sched;
	uint64_t reused = 0, generated = 0, prompt = 0;
	uint64_t held, cached, allocs;
	struct kvc_stats st;
	unsigned int i;

	kvc_cache_stats(r->e->cache, &st);
	for (i = 0; i < r->n; i++) {
		prompt += r->v[i].prompt;
		reused += r->v[i].reused;
		generated += r->v[i].generated;
	}
	engine_pages(r->e, &held, &cached, &allocs);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:f, s:f}",
			 "prompt_tokens", (json_int_t)prompt,
			 "reused_tokens", (json_int_t)reused,
			 "generated_tokens", (json_int_t)generated,
			 "forwarded", (json_int_t)r->forwarded,
			 "appended", (json_int_t)r->appended,
			 "committed", (json_int_t)r->committed,
			 "expected", (json_int_t)r->expected,
			 "counters_ok", report_counters_ok(r),
			 "steps", (json_int_t)(s ? s->steps : 0),
			 "pages_peak", (json_int_t)(s ? s->peak_pages : 0),
			 "pages_shared", (json_int_t)(s ? s->share_held : 0),
			 "pages_unshared", (json_int_t)(s ? s->share_sum : 0),
			 "pages_copied", (json_int_t)st.pages_copied,
			 "pages_held", (json_int_t)held,
			 "pages_cached", (json_int_t)cached,
			 "pages_common", (json_int_t)r->common,
			 "pages_handed_out", (json_int_t)allocs,
			 "prefill_tokens_per_s", s ?
			 per_second(s->prefilled, s->prefill_s) : json_null(),
			 "decode_tokens_per_s", s ?
			 per_second(s->decoded, s->decode_s) : json_null(),
			 "tokens_per_s", per_second(generated, r->wall_s),
			 "load_s", r->load_s,
			 "wall_s", r->wall_s);
}

int report_json_line(const struct report *r, const struct result *v, FILE *f)
{
	return json_print(result(r, v), f);
}

static void kept(json_t *root, const char *key, const struct kept_file *k)
{
	if (!k->path)
		return;
	json_object_set_new(root, key, json_pack("{s:o, s:I, s:I, s:f}",
			    "file", json_outside(k->path),
			    "tokens", (json_int_t)k->tokens,
			    "bytes", (json_int_t)k->bytes,
			    "seconds", k->secs));
}

int report_json(const struct report *r, FILE *f)
{
	json_t *list = json_array(), *root;
	unsigned int i;

	for (i = 0; i < r->n; i++)
		json_array_append_new(list, result(r, &r->v[i]));
	root = json_pack("{s:o, s:o, s:o}", "model", model(r->e),
			 "conversations", list, "totals", totals(r));
	kept(root, "loaded", &r->loaded);
	kept(root, "saved", &r->saved);
	if (r->e->tiers.n)
		json_object_set_new(root, "tiers", tiers_json(r->e));
	return json_print(root, f);
}
