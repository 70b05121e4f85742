// SPDX-License-Identifier: MIT
/*
 * main.c - kvcache-replay: request traces through the ledger.
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compare.h"

void replay_die(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("kvcache-replay: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

void *replay_alloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		replay_die("out of memory");
	return p;
}

double replay_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void usage(FILE *f)
{
	fputs(
"Usage: kvcache-replay [OPTION]... TRACE...\n"
"Replay request traces (Mooncake's JSON lines, Azure's CSV) through the ledger,\n"
"in virtual time.\n\n"
"  --pages LIST       pages of the pool, or several sizes, separated by commas;\n"
"                     default 10000\n"
"  --page-tokens N    tokens in a page; default 512, which Mooncake's blocks have\n"
"  --tenants N        default 4, or one for each trace of several\n"
"  --by RULE          whose a request is: prefix, file or request\n"
"  --skew S           tenant k gets 1 / k^S of what the first one gets; default 0\n"
"  --commons          tenants of the shared pool find what all of them publish\n"
"  --min PERCENT      of an equal share, that each tenant is promised; default 50\n"
"  --low PERCENT      of an equal share, that is taken back last; default 0\n"
"  --max PERCENT      of the pool, that each tenant can have; default 100\n"
"  --prefill RATE     tokens a second of a prompt; default 8000\n"
"  --decode RATE      tokens a second that a request generates; default 40\n"
"  --restart SECONDS  after which a process of --compare restarts; default 600\n"
"  --compare          beside partitions, caches of processes, LRU and Belady\n"
"  --check            exit with 1 if what is claimed of the outcome is not so\n"
"  --device WHERE     a device or a broker's socket, not a ledger of this process\n"
"  --names LIST       the tenants there, separated by commas\n"
"  --plot FOLDER      SVG plots into this folder (by gnuplot)\n"
"  --json             figures for programs\n"
"  --help             this text\n"
"  --version          the version\n", f);
}

__attribute__((format(printf, 1, 2), noreturn))
static void wrong(const char *fmt, ...)
{
	va_list ap;

	fputs("kvcache-replay: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(2);
}

static double parse(const char *option, const char *s, double min, double max)
{
	char *end;
	double x = strtod(s, &end);

	if (end == s || *end || !(x >= min && x <= max))
		wrong("--%s %s: a number from %g to %g is wanted", option, s,
		      min, max);
	return x;
}

static void parse_pages(struct options *opt, char *list)
{
	const size_t most = sizeof(opt->pages) / sizeof(opt->pages[0]);
	char *save, *s = strtok_r(list, ",", &save);

	for (opt->nr_pages = 0; s; s = strtok_r(NULL, ",", &save)) {
		if (opt->nr_pages == most)
			wrong("--pages: at most %zu sizes", most);
		opt->pages[opt->nr_pages++] = parse("pages", s, 1, 1e8);
	}
	if (!opt->nr_pages)
		wrong("--pages: a number is wanted");
}

static uint32_t parse_names(struct options *opt, char *list)
{
	char *save, *s = strtok_r(list, ",", &save);
	uint32_t n = 0;

	opt->names = replay_alloc(REPLAY_MAX_TENANTS, sizeof(*opt->names));
	for (; s; s = strtok_r(NULL, ",", &save)) {
		if (n == REPLAY_MAX_TENANTS)
			wrong("--names: at most %d", REPLAY_MAX_TENANTS);
		opt->names[n++] = s;
	}
	if (!n)
		wrong("--names: a name is wanted");
	return n;
}

static enum by parse_by(const char *s)
{
	if (!strcmp(s, "prefix"))
		return BY_PREFIX;
	if (!strcmp(s, "file"))
		return BY_FILE;
	if (!strcmp(s, "request"))
		return BY_REQUEST;
	wrong("--by %s: prefix, file or request", s);
}

struct command {
	struct options opt;
	enum by by;
	uint32_t tenants;
	uint32_t page_tokens;
	double skew;
	bool check;
	bool json;
	const char *plot;
};

static void parse_option(struct command *c, int opt, char *arg)
{
	struct options *o = &c->opt;

	switch (opt) {
	case 'p':
		parse_pages(o, arg);
		break;
	case 'k':
		c->page_tokens = parse("page-tokens", arg, 1, 1 << 20);
		break;
	case 't':
		c->tenants = parse("tenants", arg, 1, REPLAY_MAX_TENANTS);
		break;
	case 'b':
		c->by = parse_by(arg);
		break;
	case 's':
		c->skew = parse("skew", arg, 0, 4);
		break;
	case 'g':
		o->commons = true;
		break;
	case 'm':
		o->min = parse("min", arg, 0, 100);
		break;
	case 'l':
		o->low = parse("low", arg, 0, 1000);
		break;
	case 'M':
		o->max = parse("max", arg, 1, 100);
		break;
	case 'P':
		o->speed.prefill = parse("prefill", arg, 1, 1e9);
		break;
	case 'D':
		o->speed.decode = parse("decode", arg, 0.1, 1e9);
		break;
	case 'r':
		o->speed.restart = parse("restart", arg, 1, 1e6);
		break;
	case 'C':
		o->compare = true;
		break;
	case 'c':
		c->check = true;
		break;
	case 'd':
		o->where = arg;
		break;
	case 'n':
		c->tenants = parse_names(o, arg);
		break;
	case 'o':
		c->plot = arg;
		break;
	case 'j':
		c->json = true;
		break;
	case 'h':
		usage(stdout);
		exit(0);
	case 'V':
		puts("kvcache-replay " KVC_VERSION);
		exit(0);
	default:
		usage(stderr);
		exit(2);
	}
}

static void parse_all(struct command *c, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "pages", required_argument, NULL, 'p' },
		{ "page-tokens", required_argument, NULL, 'k' },
		{ "tenants", required_argument, NULL, 't' },
		{ "by", required_argument, NULL, 'b' },
		{ "skew", required_argument, NULL, 's' },
		{ "commons", no_argument, NULL, 'g' },
		{ "min", required_argument, NULL, 'm' },
		{ "low", required_argument, NULL, 'l' },
		{ "max", required_argument, NULL, 'M' },
		{ "prefill", required_argument, NULL, 'P' },
		{ "decode", required_argument, NULL, 'D' },
		{ "restart", required_argument, NULL, 'r' },
		{ "compare", no_argument, NULL, 'C' },
		{ "check", no_argument, NULL, 'c' },
		{ "device", required_argument, NULL, 'd' },
		{ "names", required_argument, NULL, 'n' },
		{ "plot", required_argument, NULL, 'o' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 }
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1)
		parse_option(c, opt, optarg);
	if (optind == argc)
		wrong("name a trace; --help says more");
	if (c->opt.where && (c->opt.compare || c->opt.nr_pages))
		wrong("--device: its pool has the size that it has, and nothing to compare with");
	if (c->opt.where && c->opt.commons)
		wrong("--commons: grants of a --device are its administrator's");
	if (c->opt.names && !c->opt.where)
		wrong("--names are tenants of a --device");
	if (c->opt.where && !c->opt.names) {
		if (c->tenants > 1)
			wrong("--tenants %u: say their --names", c->tenants);
		c->tenants = 1;
	}
	if (!c->opt.nr_pages)
		c->opt.pages[c->opt.nr_pages++] = 10000;
}

int main(int argc, char **argv)
{
	struct command c = {
		.page_tokens = REPLAY_BLOCK,
		.opt = { .min = 50, .max = 100,
			 .speed = { .prefill = 8000, .decode = 40,
				    .restart = 600 } },
	};
	struct comparison *all;
	struct trace t;
	uint32_t k;
	int bad = 0;

	parse_all(&c, argc, argv);
	if (c.plot && !plot_possible(c.plot))
		c.plot = NULL;
	trace_read(&t, argv + optind, argc - optind, c.page_tokens);
	trace_assign(&t, c.by, c.tenants, c.skew);
	for (k = 0; k < c.opt.nr_pages; k++)
		if (c.opt.pages[k] < t.tenants)
			replay_die("--pages %g: fewer than the %u tenants",
				   (double)c.opt.pages[k], t.tenants);
	all = replay_alloc(c.opt.nr_pages, sizeof(*all));
	for (k = 0; k < c.opt.nr_pages; k++)
		compare_run(&t, &c.opt, c.opt.pages[k], &all[k]);
	if (c.json)
		report_json(&t, &c.opt, all, c.opt.nr_pages);
	else
		report_text(&t, &c.opt, all, c.opt.nr_pages);
	if (c.plot)
		plot_all(c.plot, &t, &c.opt, all, c.opt.nr_pages);
	fflush(stdout);
	if (c.check)
		bad = compare_check(&t, &c.opt, all, c.opt.nr_pages);
	free(all);
	free(c.opt.names);
	trace_free(&t);
	return bad ? 1 : 0;
}
