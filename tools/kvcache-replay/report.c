// SPDX-License-Identifier: MIT
/*
 * report.c - the outcome as tables, or as JSON.
 */
#include <inttypes.h>
#include <stdio.h>

#include "compare.h"

static const char *const by_name[] = { "auto", "prefix", "file", "request" };

static double percent(double part, double whole)
{
	return whole > 0 ? part / whole * 100 : 0;
}

static double tokens(const struct trace *t, uint64_t hits)
{
	return percent((double)hits * t->page_tokens, t->input);
}

/* Tenants that pages are charged to, the commons as the last one. */
static uint32_t accounts(const struct trace *t, const struct options *opt,
			 enum way w)
{
	return t->tenants + (opt->commons && w == WAY_SHARED);
}

/* ---- text --------------------------------------------------------------- */

static void head(const struct trace *t, const struct options *opt)
{
	printf("%zu requests, %" PRIu64 " tokens of prompts, %" PRIu64
	       " generated\n", t->n, t->input, t->output);
	if (t->blocks)
		printf("%" PRIu64 " blocks, %" PRIu64 " different; %" PRIu64
		       " (%.2f %%) were there before, so no cache finds more\n"
		       "%" PRIu64 " of them full and not the last token's: these are looked up\n",
		       t->blocks, t->unique, t->seen,
		       percent(t->seen, t->blocks), t->ask);
	printf("%u tenants, by %s; %u tokens in a page; %g tokens/s of a prompt, %g generated\n",
	       t->tenants, by_name[t->by], t->page_tokens, opt->speed.prefill,
	       opt->speed.decode);
	if (opt->commons)
		printf("the shared pool has a commons, tenant %u, where all publish and find\n",
		       t->tenants);
	else if (!opt->where)
		printf("min %g %%, low %g %% of an equal share; max %g %% of the pool\n",
		       opt->min, opt->low, opt->max);
	if (opt->compare)
		printf("processes restart after %g s each, in turn\n",
		       opt->speed.restart);
	printf("\n%8s %-13s %6s %6s %7s %9s %7s %9s %8s %7s\n", "pages", "",
	       "blocks", "tokens", "of LRU", "evicted", "waits", "waited,",
	       "longest,", "refused");
	printf("%8s %-13s %6s %6s %7s %9s %7s %9s %8s\n", "", "", "%", "%",
	       "%", "", "", "s", "s");
}

static void row(const struct trace *t, const struct options *opt,
		const struct comparison *c, const char *name, uint64_t hits,
		uint64_t evicted)
{
	printf("%8" PRIu64 " %-13s ", c->pages, name);
	if (t->ask)
		printf("%6.2f %6.2f ", percent(hits, t->ask), tokens(t, hits));
	else
		printf("%6s %6s ", "", "");
	if (opt->compare && c->lru.hits)
		printf("%7.2f", percent(hits, c->lru.hits));
	else
		printf("%7s", "");
	printf(" %9" PRIu64, evicted);
}

static void oracles(const struct trace *t, const struct options *opt,
		    const struct comparison *c)
{
	const struct {
		const char *name;
		const struct oracle_found *f;
	} rows[] = {
		{ "LRU", &c->lru }, { "Belady", &c->belady },
		{ "ideal LRU", &c->ideal_lru },
		{ "ideal Belady", &c->ideal_belady },
	};
	uint32_t k;

	for (k = 0; k < 4; k++) {
		row(t, opt, c, rows[k].name, rows[k].f->hits,
		    rows[k].f->evicted);
		printf("\n");
	}
}

static void table(const struct trace *t, const struct options *opt,
		  const struct comparison *c)
{
	uint32_t w;

	for (w = 0; w < (opt->compare ? NR_WAYS : 1); w++) {
		const struct tally *a = &c->way[w].all;

		row(t, opt, c, way_name[w], a->hits, a->evicted);
		printf(" %7" PRIu64 " %9.0f %8.1f %7" PRIu64 "\n", a->waits,
		       a->waited * 1e-9, a->longest * 1e-9, a->refused);
	}
	if (opt->compare && t->ask)
		oracles(t, opt, c);
}

static void of_tenants(const struct trace *t, const struct options *opt,
		       const struct comparison *c)
{
	uint32_t w, k;

	printf("\n%8s %-13s %6s %8s %6s %9s %7s %9s %8s %7s %6s\n", "pages", "",
	       "tenant", "requests", "tokens", "evicted", "waits", "waited,",
	       "longest,", "refused", "share");
	printf("%8s %-13s %6s %8s %6s %9s %7s %9s %8s %7s %6s\n", "", "", "",
	       "", "%", "", "", "s", "s", "", "%");
	for (w = 0; w < (opt->compare ? NR_WAYS - 1 : 1); w++)
		for (k = 0; k < accounts(t, opt, w); k++) {
			const struct tally *a = &c->way[w].tenant[k];

			printf("%8" PRIu64 " %-13s %6u %8" PRIu64 " %6.2f %9"
			       PRIu64 " %7" PRIu64 " %9.0f %8.1f %7" PRIu64
			       " %6.2f\n", c->pages, way_name[w], k,
			       a->requests,
			       percent((double)a->hits * t->page_tokens,
				       a->input),
			       a->evicted, a->waits, a->waited * 1e-9,
			       a->longest * 1e-9, a->refused,
			       percent(a->share, c->pages));
		}
}

static void occupancy(const struct comparison *c)
{
	const struct outcome *o = &c->way[WAY_SHARED];
	double in_use = 0, cached = 0, running = 0, waiting = 0;
	uint32_t k, n = o->samples ? o->samples : 1;

	for (k = 0; k < o->samples; k++) {
		in_use += o->sample[k].in_use;
		cached += o->sample[k].cached;
		running += o->sample[k].running;
		waiting += o->sample[k].waiting;
	}
	printf("%8" PRIu64 " %9.2f %9.2f %9.2f %9.1f %9.1f %9.2f\n", c->pages,
	       percent(in_use / n, c->pages), percent(o->all.peak, c->pages),
	       percent(cached / n, c->pages), running / n, waiting / n,
	       o->seconds);
}

void report_text(const struct trace *t, const struct options *opt,
		 const struct comparison *c, uint32_t nr)
{
	uint32_t k;

	head(t, opt);
	for (k = 0; k < nr; k++)
		table(t, opt, &c[k]);
	for (k = 0; k < nr; k++)
		of_tenants(t, opt, &c[k]);
	printf("\n%8s %9s %9s %9s %9s %9s %9s\n", "pages", "in use,", "peak,",
	       "cached,", "running", "waiting", "replayed");
	printf("%8s %9s %9s %9s %9s %9s %9s\n", "", "%", "%", "%", "", "",
	       "in, s");
	for (k = 0; k < nr; k++)
		occupancy(&c[k]);
}

/* ---- JSON --------------------------------------------------------------- */

static void json_tally(const struct tally *a)
{
	printf("\"requests\": %" PRIu64 ", \"refused\": %" PRIu64
	       ", \"asked\": %" PRIu64 ", \"hits\": %" PRIu64
	       ", \"misses\": %" PRIu64 ", \"input_tokens\": %" PRIu64
	       ", \"evicted\": %" PRIu64 ", \"waits\": %" PRIu64
	       ", \"waited_ns\": %" PRIu64 ", \"longest_ns\": %" PRIu64
	       ", \"peak\": %" PRIu64 ", \"share\": %.2f", a->requests,
	       a->refused, a->asked, a->hits, a->misses, a->input,
	       a->evicted, a->waits, a->waited, a->longest, a->peak, a->share);
}

static void json_sample(uint32_t tenants, const struct sample *s)
{
	uint32_t k;

	printf("{\"t\": %.3f, \"in_use\": %u, \"cached\": %u, \"free\": %u, "
	       "\"running\": %u, \"waiting\": %u, \"tenants\": [", s->t * 1e-9,
	       s->in_use, s->cached, s->free, s->running, s->waiting);
	for (k = 0; k < tenants; k++)
		printf("%s%u", k ? ", " : "", s->cur[k]);
	printf("]}");
}

static void json_way(const struct trace *t, const struct options *opt,
		     enum way w, const struct outcome *o)
{
	const uint32_t tenants = accounts(t, opt, w);
	uint32_t k;

	printf("{\"name\": \"%s\", ", way_name[w]);
	json_tally(&o->all);
	printf(", \"preempted\": %" PRIu64 ", \"unpublished\": %" PRIu64
	       ", \"seconds\": %.3f,\n\"tenants\": [", o->preempted,
	       o->unpublished, o->seconds);
	for (k = 0; k < tenants; k++) {
		printf("%s{", k ? ",\n" : "");
		json_tally(&o->tenant[k]);
		printf("}");
	}
	printf("],\n\"occupancy\": [");
	for (k = 0; k < o->samples; k++) {
		printf("%s", k ? ",\n" : "");
		json_sample(tenants, &o->sample[k]);
	}
	printf("]}");
}

static void json_oracle(const char *name, const struct oracle_found *f)
{
	printf(",\n\"%s\": {\"hits\": %" PRIu64 ", \"evicted\": %" PRIu64
	       ", \"beyond\": %" PRIu64 "}", name, f->hits, f->evicted,
	       f->beyond);
}

void report_json(const struct trace *t, const struct options *opt,
		 const struct comparison *c, uint32_t nr)
{
	uint32_t k, w;

	printf("{\"requests\": %zu, \"input_tokens\": %" PRIu64
	       ", \"output_tokens\": %" PRIu64 ", \"blocks\": %" PRIu64
	       ", \"different\": %" PRIu64 ", \"seen_before\": %" PRIu64
	       ", \"looked_up\": %" PRIu64 ", \"tenants\": %u, "
	       "\"by\": \"%s\", \"page_tokens\": %u,\n\"sizes\": [", t->n,
	       t->input, t->output, t->blocks, t->unique, t->seen, t->ask,
	       t->tenants, by_name[t->by], t->page_tokens);
	for (k = 0; k < nr; k++, c++) {
		printf("%s\n{\"pages\": %" PRIu64 ", \"ways\": [",
		       k ? "," : "", c->pages);
		for (w = 0; w < (opt->compare ? NR_WAYS : 1); w++) {
			printf("%s", w ? ",\n" : "");
			json_way(t, opt, w, &c->way[w]);
		}
		printf("]");
		if (opt->compare) {
			json_oracle("lru", &c->lru);
			json_oracle("belady", &c->belady);
			json_oracle("ideal_lru", &c->ideal_lru);
			json_oracle("ideal_belady", &c->ideal_belady);
		}
		printf("}");
	}
	printf("\n]}\n");
}
