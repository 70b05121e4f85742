// SPDX-License-Identifier: MIT
/*
 * conversations.c - conversations to their end: those of the command line, and
 * those that come on standard input while others run.
 */
#include <stdlib.h>

#include "beams.h"
#include "conv.h"
#include "interrupt.h"
#include "plain.h"
#include "room.h"
#include "run.h"
#include "saved.h"
#include "util.h"

static void ended(void *arg, struct conv *c)
{
	struct run *r = arg;

	run_ended(r, c, xasprintf("%s", c->name));
	/* There may be very many of them. */
	if (r->inputs.live && !c->keep && !c->check)
		input_drop(&r->inputs, c);
}

/* It can never fit: it ends here. */
static bool refused(struct run *r, struct conv *c)
{
	if (c->kid_of ? c->kid_of->state != CONV_DONE :
	    r->opts.no_cache || room_possible(&r->engine, c))
		return false;
	c->state = CONV_DONE;
	c->finish = FINISH_REFUSED;
	ended(r, c);
	return true;
}

static int begin(struct run *r, struct conv *c)
{
	int ret = 0;

	c->arrived = now();
	if (r->opts.verify && !c->check)
		c->check = check_create(&r->engine);
	if (r->opts.no_cache) {
		ret = plain_run(&r->engine, &r->emit, r->timing, c);
		ended(r, c);
	} else if (r->opts.beams) {
		r->sched.hooks = NULL;
		ret = beams_run(&r->sched, c);
		ended(r, c);
	} else if (!c->kid_of) {
		sched_add(&r->sched, c);
	}
	return ret;
}

/* What each sample is: the same prompt, and another seed. */
static struct conv *sample(struct run *r, struct conv *c, unsigned int i)
{
	struct sampling s = c->sampling;
	struct conv *kid;
	uint32_t k;

	s.seed += i;
	kid = conv_create(xasprintf("%s#%u", c->name, i + 1), &s, &r->engine);
	for (k = 0; k < c->ids.n; k++)
		ids_push(&kid->ids, c->ids.v[k]);
	kid->common = c->common;
	if (r->opts.no_share)
		return kid;
	c->kids[c->nkids++] = kid;
	kid->kid_of = c;
	return kid;
}

/* Each conversation is followed by its samples. */
static void add_samples(struct run *r)
{
	unsigned int n = r->opts.samples, i, k;
	struct input_list all = { 0 };
	struct conv *c;
	char *name;

	for (i = 0; i < r->inputs.n; i++) {
		c = r->inputs.v[i];
		c->kids = xcalloc(n, sizeof(*c->kids));
		input_add(&all, c);
		for (k = 1; k < n; k++)
			input_add(&all, sample(r, c, k));
		name = c->name;
		c->name = xasprintf("%s#1", name);
		free(name);
	}
	free(r->inputs.v);
	r->inputs.v = all.v;
	r->inputs.n = all.n;
	r->inputs.arrivals = all.arrivals;
}

/* What has come on standard input. 1 there may be more, 0 no more, or -1. */
static int feed(void *arg, bool wait)
{
	struct run *r = arg;
	struct conv *c;
	int ret;

	while (!interrupted()) {
		ret = feed_next(&r->feed, &r->engine, &r->inputs, wait, &c);
		switch (ret) {
		case FEED_BAD:
			r->bad = true;
			continue;
		case FEED_ONE:
			break;
		case FEED_NONE:
			return 1;
		default:
			return ret == FEED_END ? 0 : -1;
		}
		conv_begin(c);
		wait = false;
		if (!refused(r, c) && begin(r, c))
			return -1;
	}
	return 1;
}

static int generate(struct run *r)
{
	const struct sched_hooks hooks = {
		.feed = r->inputs.live ? feed : NULL,
		.ended = ended,
		.arg = r,
	};
	double begin = now();
	int ret = 1;

	if (!r->opts.no_cache)
		ret = sched_run(&r->sched, &hooks);
	else
		while (hooks.feed && ret > 0 && !interrupted())
			ret = feed(r, true);
	r->report.wall_s += now() - begin;
	return ret < 0 ? -1 : 0;
}

static int check(struct run *r, struct conv *c)
{
	unsigned int i;

	if (!c->check || c->finish == FINISH_FAILED ||
	    c->finish == FINISH_REFUSED)
		return 0;
	/* Of several turns the last: it has all tokens. */
	for (i = 0; r->report.v[i].arrival != c->arrival; i++)
		;
	return check_conv(c->check, c, &r->report.v[i].verdict);
}

/* Those that can never fit end here: the number of the others. */
static unsigned int possible(struct run *r)
{
	unsigned int i, n = 0;

	for (i = 0; i < r->inputs.n; i++) {
		conv_begin(r->inputs.v[i]);
		r->inputs.v[i]->keep |= r->opts.save != NULL;
		n += !refused(r, r->inputs.v[i]);
	}
	return n;
}

int run_conversations(struct run *r)
{
	struct input_list *l = &r->inputs;
	bool live = l->live;
	unsigned int i, n;
	int ret = 0;

	if (r->opts.samples > 1)
		add_samples(r);
	/* Until the feed begins, all stay in their place. */
	l->live = false;
	n = possible(r);
	if ((n || live) && run_begin(r))
		return -1;
	for (i = 0; i < l->n && !ret; i++)
		if (l->v[i]->state != CONV_DONE)
			ret = begin(r, l->v[i]);
	l->live = live;
	if (!ret && (n || live))
		ret = generate(r);
	report_sort(&r->report);
	if (n || live)
		report_count(&r->report);
	if (r->opts.save && saved_save(r, l->v[0]))
		ret = -1;
	for (i = 0; i < l->n && !ret; i++)
		ret = check(r, l->v[i]);
	if (live && !r->feed.row && !ret && !interrupted() && !r->report.n)
		return complain("-: no request: give one JSON object a line");
	return ret ? ret : r->bad ? -1 : 0;
}
