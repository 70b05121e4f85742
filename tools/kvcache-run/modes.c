// SPDX-License-Identifier: MIT
/*
 * modes.c - what a run does beside conversations: a chat, scores.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conv.h"
#include "interrupt.h"
#include "plain.h"
#include "room.h"
#include "run.h"
#include "saved.h"
#include "util.h"

/* What it took to tell the weights from others is part of loading them. */
int run_begin(struct run *r)
{
	int ret = run_load(r);

	r->report.load_s += r->engine.id_s;
	return ret;
}

void run_ended(struct run *r, struct conv *c, char *name)
{
	struct result *v = report_add(&r->report, c, name);

	if (r->jsonl && report_json_line(&r->report, v, r->jsonl))
		r->bad = true;
}

int run_score(struct run *r)
{
	struct input_list *l = &r->inputs;
	struct score score;
	unsigned int i;
	int ret = run_begin(r);

	if (ret)
		return ret;
	for (i = 0; i < l->n && !ret && !interrupted(); i++) {
		conv_begin(l->v[i]);
		ret = plain_score(&r->engine, l->v[i], &score);
		if (ret)
			break;
		report_add(&r->report, l->v[i],
			   xasprintf("%s", l->v[i]->name))->score = score;
		r->report.wall_s += score.secs;
	}
	report_count(&r->report);
	return ret;
}

/* The next turn: of the command line, then of standard input. -1: no more. */
static ssize_t next_turn(struct run *r, unsigned int *given, char **line,
			 size_t *cap)
{
	ssize_t n;

	if (*given < r->opts.ninputs) {
		free(*line);
		*line = xasprintf("%s", r->opts.inputs[(*given)++].value);
		*cap = strlen(*line) + 1;
		return *cap - 1;
	}
	do {
		if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO))
			fputs("> ", stderr);
		n = getline(line, cap, stdin);
		if (n > 0 && (*line)[n - 1] == '\n')
			n--;
	} while (!n && !interrupted());
	return interrupted() ? -1 : n;
}

/* One turn to its end, with or without the cache. */
static int generate(struct run *r, struct conv *c)
{
	static const struct sched_hooks none;
	double begin = now();
	int ret;

	if (r->opts.no_cache) {
		ret = plain_run(&r->engine, &r->emit, r->timing, c);
	} else {
		sched_add(&r->sched, c);
		ret = sched_run(&r->sched, &none);
	}
	r->report.wall_s += now() - begin;
	return ret;
}

static int turn(struct run *r, struct conv *c, unsigned int number)
{
	int ret = 0;

	conv_begin(c);
	if (!r->opts.no_cache && !room_possible(&r->engine, c))
		c->finish = FINISH_REFUSED;
	else
		ret = generate(r, c);
	c->arrival = number;
	run_ended(r, c, xasprintf("turn %u", number));
	return c->finish == FINISH_REFUSED || c->finish == FINISH_FAILED ?
	       -1 : ret;
}

int run_chat(struct run *r)
{
	unsigned int given = 0, number = 0;
	size_t cap = 0;
	char *line = NULL;
	struct conv *c;
	bool bad = false;
	ssize_t n;
	int ret;

	if (r->inputs.n) {
		c = r->inputs.v[0];	/* loaded */
	} else {
		c = conv_create(xasprintf("chat"), &r->opts.sampling,
				&r->engine);
		input_add(&r->inputs, c);
	}
	c->keep = true;
	ret = run_begin(r);
	if (!ret && r->opts.verify)
		c->check = check_create(&r->engine);
	while (!ret && c->finish != FINISH_EVICTED &&
	       (n = next_turn(r, &given, &line, &cap)) >= 0) {
		/* The conversation is as it was: the next line may be better. */
		if (input_turn(&r->engine, &r->inputs, c, line, n))
			bad = true;
		else
			ret = turn(r, c, ++number);
	}
	free(line);
	if (bad && !ret)
		ret = -1;
	if (!number)
		return ret ? ret : complain("no turn: give a line on standard input");
	report_count(&r->report);
	if (saved_save(r, c))
		ret = -1;
	if (c->check && r->report.n && c->finish != FINISH_FAILED)
		return check_conv(c->check, c,
				  &r->report.v[r->report.n - 1].verdict) ?
		       -1 : ret;
	return ret;
}
