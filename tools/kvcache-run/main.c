// SPDX-License-Identifier: MIT
/*
 * kvcache-run - text from a model, with its keys and values in kvcache pages.
 *
 * Opens everything that can be wrong before the weights are loaded, runs one
 * of the modes of modes.c, and reports.
 */
#include <errno.h>
#include <string.h>

#include "interrupt.h"
#include "progress.h"
#include "run.h"
#include "timing.h"
#include "util.h"

int run_load(struct run *r)
{
	double begin = now();

	if (engine_load(&r->engine))
		return -1;
	r->report.load_s = now() - begin;
	if (r->opts.no_cache || r->opts.score)
		return 0;
	if (sched_init(&r->sched, &r->engine, &r->emit, r->timing))
		return -1;
	r->report.sched = &r->sched;
	return 0;
}

static FILE *open_output(const char *path)
{
	FILE *f = fopen(path, "w");

	if (!f)
		complain("%s: %s: give a file that can be written", path,
			 strerror(errno));
	return f;
}

static int open_outputs(struct run *r)
{
	if (r->opts.json && !r->opts.json_path) {
		r->json = stdout;
	} else if (r->opts.json) {
		r->json = open_output(r->opts.json_path);
		if (!r->json)
			return -1;
	}
	if (r->opts.timing) {
		r->timing = open_output(r->opts.timing);
		if (!r->timing)
			return -1;
		timing_begin(r->timing);
	}
	return 0;
}

/* Written in full? A full disk shows at the last write. */
static int close_output(FILE *f, const char *path)
{
	if (!f || (f == stdout ? fflush(f) : fclose(f)) == 0)
		return 0;
	return complain("%s: %s: make room, or give another file", path,
			strerror(errno));
}

/* More conversations at once than pages could not even begin. */
static int check_parallel(const struct run *r)
{
	struct kvc_room room;
	uint32_t none = 0;

	if (!r->opts.parallel_given || r->opts.no_cache || r->opts.score ||
	    kvc_predict(r->engine.cache, NULL, &none, 1, 0, &room) ||
	    r->opts.parallel <= room.limit_pages)
		return 0;
	return complain("--parallel %u: %llu pages are allowed, and a conversation holds one at least: give --parallel %llu, or a bigger --pool",
			r->opts.parallel, (unsigned long long)room.limit_pages,
			(unsigned long long)room.limit_pages);
}

static int run(struct run *r)
{
	if (open_outputs(r) || engine_open(&r->engine, &r->opts) ||
	    input_read(&r->engine, &r->inputs))
		return -1;
	if (engine_pool(&r->engine) || check_parallel(r))
		return -1;
	r->report.e = &r->engine;
	r->emit.quiet = r->opts.quiet;
	r->emit.names = r->inputs.n > 1;
	interrupt_catch();
	if (r->opts.chat)
		return run_chat(r);
	return r->opts.score ? run_score(r) : run_conversations(r);
}

static bool checks_ok(const struct report *rep)
{
	unsigned int i;

	if (report_any(rep, FINISH_INTERRUPTED) || !rep->e->opts->verify)
		return true;
	for (i = 0; i < rep->n; i++)
		if (rep->v[i].verdict.positions && !rep->v[i].verdict.ok)
			return false;
	return report_counters_ok(rep);
}

static int finish(struct run *r, int ret)
{
	if (r->report.n) {
		if (r->json != stdout)
			report_print(&r->report, stderr);
		if (r->json && report_json(&r->report, r->json))
			ret = -1;
		if (!checks_ok(&r->report) ||
		    report_any(&r->report, FINISH_REFUSED))
			ret = -1;
	}
	if (close_output(r->json, r->opts.json_path ? r->opts.json_path :
			 "standard output") ||
	    close_output(r->timing, r->opts.timing))
		ret = -1;
	if (fflush(stdout))
		ret = complain("standard output: %s", strerror(errno));
	return interrupted() ? RUN_STOPPED : ret ? RUN_FAILED : RUN_OK;
}

int main(int argc, char **argv)
{
	static struct run r;
	int ret = options_parse(argc, argv, &r.opts);

	if (ret) {
		options_free(&r.opts);
		return ret < 0 ? RUN_USAGE : RUN_OK;
	}
	ret = finish(&r, run(&r));
	input_free(&r.inputs);
	sched_free(&r.sched);
	report_free(&r.report);
	engine_close(&r.engine);
	options_free(&r.opts);
	return ret;
}
