// SPDX-License-Identifier: MIT
/*
 * kvcache-run - text from a model, with its keys and values in kvcache pages.
 *
 * Opens everything that can be wrong before the weights are loaded, what is
 * written to at last, runs one of the modes of modes.c, and reports.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "calibrate.h"
#include "interrupt.h"
#include "kld.h"
#include "progress.h"
#include "run.h"
#include "saved.h"
#include "timing.h"
#include "util.h"
#include "windows.h"

int run_load(struct run *r)
{
	double begin = now();

	if (engine_load(&r->engine))
		return -1;
	r->report.load_s = now() - begin;
	if (!options_keep(&r->opts))
		return 0;
	if (sched_init(&r->sched, &r->engine, &r->emit, r->timing))
		return -1;
	r->report.sched = &r->sched;
	return 0;
}

static bool same_file(const char *a, const char *b)
{
	struct stat sa, sb;

	return !stat(a, &sa) && !stat(b, &sb) && S_ISREG(sa.st_mode) &&
	       sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

static bool is_input(const struct options *o, const char *path)
{
	unsigned int i;

	if (same_file(path, o->model) ||
	    (o->load && same_file(path, o->load)) ||
	    (o->kv_scales && same_file(path, o->kv_scales)) ||
	    (o->system_file && same_file(path, o->system_file)))
		return true;
	for (i = 0; i < o->ninputs; i++)
		if ((o->inputs[i].kind == INPUT_FILE ||
		     o->inputs[i].kind == INPUT_REQUESTS) &&
		    same_file(path, o->inputs[i].value))
			return true;
	return false;
}

static FILE *open_output(const struct options *o, const char *path)
{
	FILE *f;

	if (is_input(o, path)) {
		complain("%s: is read from: give another file to write to",
			 path);
		return NULL;
	}
	f = fopen(path, "w");
	if (!f)
		complain("%s: %s: give a file that can be written", path,
			 strerror(errno));
	return f;
}

/* Is what is open already about to be opened once more? Complains. */
static bool twice(const FILE *open, const char *path, const char *opt,
		  const char *other, const char *other_opt)
{
	if (!open || !path || !same_file(path, other))
		return false;
	complain("%s: given to %s and %s: give two files", other, opt,
		 other_opt);
	return true;
}

/*
 * What is saved takes the place of a file: of that which was loaded it may. Those
 * that are open are there by now.
 */
static int check_save(const struct run *r)
{
	const char *save = r->opts.save;

	if (!save || (r->opts.load && same_file(save, r->opts.load)))
		return 0;
	if (is_input(&r->opts, save))
		return complain("--save %s: is read from: give another file",
				save);
	if (twice(r->json, r->opts.json_path, "--json", save, "--save") ||
	    twice(r->jsonl, r->opts.jsonl_path, "--jsonl", save, "--save") ||
	    twice(r->timing, r->opts.timing, "--timing", save, "--save"))
		return -1;
	return 0;
}

/* What they held is lost: nothing may be left that can be refused. */
static int open_outputs(struct run *r)
{
	if (r->opts.json && !r->opts.json_path) {
		r->json = stdout;
	} else if (r->opts.json) {
		r->json = open_output(&r->opts, r->opts.json_path);
		if (!r->json)
			return -1;
	}
	if (r->opts.jsonl && !r->opts.jsonl_path) {
		r->jsonl = stdout;
	} else if (r->opts.jsonl) {
		if (twice(r->json, r->opts.json_path, "--json",
			  r->opts.jsonl_path, "--jsonl"))
			return -1;
		r->jsonl = open_output(&r->opts, r->opts.jsonl_path);
		if (!r->jsonl)
			return -1;
	}
	if (r->opts.calibrate) {
		r->scales = open_output(&r->opts, r->opts.calibrate);
		if (!r->scales)
			return -1;
	}
	if (r->opts.timing) {
		if (twice(r->json, r->opts.json_path, "--json",
			  r->opts.timing, "--timing") ||
		    twice(r->jsonl, r->opts.jsonl_path, "--jsonl",
			  r->opts.timing, "--timing"))
			return -1;
		r->timing = open_output(&r->opts, r->opts.timing);
		if (!r->timing)
			return -1;
		timing_begin(r->timing);
	}
	return 0;
}

/* Written in full? A full disk shows at any write, the last one included. */
static int close_output(FILE *f, const char *path)
{
	bool failed;

	if (!f)
		return 0;
	failed = ferror(f);
	errno = 0;
	if ((f == stdout ? fflush(f) : fclose(f)) == 0 && !failed)
		return 0;
	return complain("%s: %s: make room, or give another file", path,
			errno ? strerror(errno) : "a write failed");
}

/* More conversations at once than pages could not even begin. */
static int check_parallel(const struct run *r)
{
	const char *remedy;
	struct kvc_room room;
	struct limits l;
	uint32_t none = 0;

	if (!r->opts.parallel_given || !options_keep(&r->opts) ||
	    kvc_predict(r->engine.cache, NULL, &none, 1, 0, &room) ||
	    r->opts.parallel <= room.limit_pages)
		return 0;
	engine_limits(&r->engine, &l);
	if (room.limit_pages == l.max_pages)
		remedy = engine_local(&r->engine) ? "a higher --max-pages" :
						    "the tenant a higher max";
	else
		remedy = engine_local(&r->engine) ? "a bigger --pool" :
						    "the device a bigger pool";
	return complain("--parallel %u: %llu pages are allowed, and a conversation holds one at least: give --parallel %llu, or %s",
			r->opts.parallel, (unsigned long long)room.limit_pages,
			(unsigned long long)room.limit_pages, remedy);
}

static int run(struct run *r)
{
	if (engine_open(&r->engine, &r->opts) ||
	    input_read(&r->engine, &r->inputs))
		return -1;
	if (options_windows(&r->opts) && windows_check(r))
		return -1;
	if (saved_check(r) || engine_pool(&r->engine) || check_parallel(r) ||
	    (r->opts.load && saved_load(r)) || open_outputs(r) ||
	    check_save(r))
		return -1;
	r->report.e = &r->engine;
	r->emit.quiet = r->opts.quiet;
	r->emit.names = r->inputs.n > 1 || r->inputs.live;
	interrupt_catch();
	if (r->opts.chat)
		return run_chat(r);
	if (r->opts.kld)
		return run_kld(r);
	if (r->opts.calibrate)
		return run_calibrate(r);
	return r->opts.score ? run_score(r) : run_conversations(r);
}

static bool checks_ok(const struct report *rep)
{
	unsigned int i;

	if (report_any(rep, FINISH_INTERRUPTED) || !rep->e->opts->verify)
		return true;
	for (i = 0; i < rep->n; i++)
		if (rep->v[i].verdict.bound > 0 && !rep->v[i].verdict.ok)
			return false;
	return report_counters_ok(rep);
}

static int finish(struct run *r, int ret)
{
	if (r->report.n) {
		tiers_settle(&r->engine);
		if (r->json != stdout)
			report_print(&r->report, stderr);
		if (r->json && report_json(&r->report, r->json))
			ret = -1;
		if (!checks_ok(&r->report) ||
		    report_any(&r->report, FINISH_REFUSED) ||
		    report_any(&r->report, FINISH_FAILED))
			ret = -1;
	}
	if (r->json != stdout && close_output(r->json, r->opts.json_path))
		ret = -1;
	if (r->jsonl != stdout && close_output(r->jsonl, r->opts.jsonl_path))
		ret = -1;
	if (close_output(r->timing, r->opts.timing))
		ret = -1;
	if (close_output(r->scales, r->opts.calibrate))
		ret = -1;
	if (close_output(stdout, "standard output"))
		ret = -1;
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
	free(r.feed.buf);
	sched_free(&r.sched);
	report_free(&r.report);
	engine_close(&r.engine);
	options_free(&r.opts);
	return ret;
}
