// SPDX-License-Identifier: MIT
/*
 * kvcachetop - pools, tenants and clients as they are now, again and again.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "screen.h"
#include "util.h"
#include "view.h"

#define USAGE 2

/**
 * struct top - one run
 * @src: where samples come from
 * @v: what is shown
 * @now: the last sample
 * @before: the one before it
 * @n: samples so far, up to 2
 * @frames: of --batch, 0 without end
 * @width: of --batch
 * @colour: if the terminal has some
 */
struct top {
	struct source src;
	struct view v;
	struct sample now;
	struct sample before;
	int n;
	uint64_t frames;
	int width;
	bool colour;
};

static volatile sig_atomic_t stopped;

static void stop(int sig)
{
	stopped = 1;
}

/* ---- samples ---------------------------------------------------------------- */

static int take(struct top *t)
{
	struct sample fresh = { 0 };
	int err = sample_read(&t->src, &fresh);

	if (err)
		return err;
	sample_free(&t->before);
	t->before = t->now;
	t->now = fresh;
	if (t->n < 2)
		t->n++;
	return 0;
}

static void draw(struct top *t, struct canvas *cv, struct frame *f)
{
	char when[32];
	time_t at = time(NULL);
	struct tm tm;

	strftime(when, sizeof(when), "%F %T", localtime_r(&at, &tm));
	layout_frame(cv, &t->v, f, when);
}

static void build(struct top *t, struct frame *f)
{
	frame_build(f, &t->v, &t->now, t->n > 1 ? &t->before : NULL);
}

/* ---- frames for logs ---------------------------------------------------------- */

static int batch(struct top *t)
{
	struct sigaction act = { .sa_handler = stop };
	struct canvas cv = { 0 };
	struct timespec pause;
	struct frame f;
	bool first = true;
	uint64_t i = 0;
	int rows;

	t->v.batch = true;
	pause.tv_sec = t->v.interval;
	pause.tv_nsec = (t->v.interval - pause.tv_sec) * 1e9;
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	for (; !stopped && (!t->frames || i < t->frames); first = false) {
		if (!first) {
			nanosleep(&pause, NULL);
			if (stopped)
				break;
		}
		if (take(t)) {
			complain("%s", t->src.why);
			/* One that was there may come back. */
			if (!t->n)
				return -1;
			continue;
		}
		build(t, &f);
		rows = layout_rows(&t->v, &f);
		canvas_clear(&cv, rows < 10 ? 10 : rows, t->width);
		draw(t, &cv, &f);
		canvas_print(&cv, stdout);
		putchar('\n');
		frame_free(&f);
		i++;
		if (fflush(stdout)) {
			complain("standard output: %s: make room, or write elsewhere",
				 strerror(errno));
			canvas_free(&cv);
			return -1;
		}
	}
	canvas_free(&cv);
	return 0;
}

/* ---- on a terminal --------------------------------------------------------------- */

static void show(struct top *t, struct frame *f)
{
	static struct canvas cv;
	int rows, cols;

	screen_size(&rows, &cols);
	canvas_clear(&cv, rows, cols);
	draw(t, &cv, f);
	screen_show(&cv);
}

static void set(struct top *t)
{
	if (source_set(&t->src, &t->v.change))
		snprintf(t->v.message, sizeof(t->v.message), "%s: %s",
			 t->v.change.name, t->src.why);
	else
		snprintf(t->v.message, sizeof(t->v.message), "%s: set",
			 t->v.change.name);
}

static void again(struct top *t)
{
	if (take(t))
		snprintf(t->v.message, sizeof(t->v.message),
			 "%s: trying again", t->src.why);
}

static void loop(struct top *t)
{
	double next = now() + t->v.interval;
	enum action act = ACT_NONE;
	struct frame f;
	int key;

	while (act != ACT_QUIT) {
		build(t, &f);
		show(t, &f);
		key = screen_key(next - now());
		act = key > 0 ? key_press(&t->v, &f, key) : ACT_NONE;
		frame_free(&f);
		if (act == ACT_SET)
			set(t);
		if (key < 0 || act == ACT_SET || act == ACT_SAMPLE) {
			again(t);
			next = now() + t->v.interval;
		}
	}
}

static int interactive(struct top *t)
{
	if (take(t))
		return complain("%s", t->src.why);
	if (screen_open(t->colour))
		return -1;
	loop(t);
	screen_close();
	return 0;
}

/* ---- command line --------------------------------------------------------------- */

enum { O_DEVICE = 256, O_NO_COLOR, O_PAGES, O_WIDTH };

static const struct option options[] = {
	{ "batch", no_argument, NULL, 'b' },
	{ "frames", required_argument, NULL, 'n' },
	{ "delay", required_argument, NULL, 'd' },
	{ "sort", required_argument, NULL, 's' },
	{ "filter", required_argument, NULL, 'f' },
	{ "tenant", required_argument, NULL, 't' },
	{ "device", required_argument, NULL, O_DEVICE },
	{ "pages", no_argument, NULL, O_PAGES },
	{ "width", required_argument, NULL, O_WIDTH },
	{ "no-color", no_argument, NULL, O_NO_COLOR },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ 0 }
};

static void usage(void)
{
	puts("Usage: kvcachetop [OPTION]...\n"
	     "Pools, tenants and clients of kvcache, as they are now; h shows the keys.\n\n"
	     "  -b, --batch              print frames, for logs, instead of a screen\n"
	     "  -n, --frames N           with --batch: so many frames (without end)\n"
	     "  -d, --delay SECONDS      between two samples (1)\n"
	     "  -s, --sort COLUMN        sort by it; with - before it the other way round\n"
	     "  -f, --filter TEXT        show what has this in its name, pool or process\n"
	     "  -t, --tenant NAME        the tenant to look as, for who may not administer\n"
	     "      --device PATH        a device or a broker's socket; else what KVCACHE\n"
	     "                           says, else the first that is there\n"
	     "      --pages              count pages, not bytes\n"
	     "      --width N            columns of frames (80, or what COLUMNS says)\n"
	     "      --no-color           letters only\n"
	     "  -h, --help               show this\n"
	     "  -V, --version            show the version\n\n"
	     "Exit status: 0; 1 it did not work; 2 usage.");
}

static int bad(const char *option, const char *value, const char *remedy)
{
	complain("%s \"%s\": give %s", option, value, remedy);
	return USAGE;
}

static int take_option(struct top *t, int o, const char *value)
{
	uint64_t n;

	switch (o) {
	case 'n':
		if (!parse_u64(value, 1, UINT64_MAX, &t->frames))
			return bad("--frames", value, "a whole number from 1");
		break;
	case 'd':
		if (!parse_double(value, 0.1, 3600, &t->v.interval))
			return bad("--delay", value, "seconds from 0.1 to 3600");
		break;
	case 's':
		if (!view_sort(&t->v, value))
			return bad("--sort", value,
				   "a column as a heading has it, such as used, wait, private or pid");
		break;
	case 'f':
		if (strlen(value) >= sizeof(t->v.filter))
			return bad("--filter", value, "less than 64 characters");
		strcpy(t->v.filter, value);
		break;
	case 't':
		if (!*value || strlen(value) >= KVCACHE_NAME_LEN)
			return bad("--tenant", value, "the name of a tenant");
		t->src.as = value;
		break;
	case O_DEVICE:
		if (!*value)
			return bad("--device", value,
				   "the path of a device or of a broker's socket");
		t->src.where = value;
		break;
	case O_WIDTH:
		if (!parse_u64(value, 78, 500, &n))
			return bad("--width", value, "columns from 78 to 500");
		t->width = n;
		break;
	case O_PAGES:
		t->v.pages = true;
		break;
	case O_NO_COLOR:
		t->colour = false;
		break;
	}
	return 0;
}

/* 0; 1 if nothing is left to do; or USAGE after a complaint. */
static int parse(struct top *t, int argc, char **argv)
{
	int o, ret;

	opterr = 0;
	while ((o = getopt_long(argc, argv, ":bn:d:s:f:t:hV", options,
				NULL)) != -1) {
		switch (o) {
		case 'h':
			usage();
			return 1;
		case 'V':
			puts("kvcachetop " KVC_VERSION);
			return 1;
		case 'b':
			t->v.batch = true;
			break;
		case ':':
			complain("%s: give a value behind it", argv[optind - 1]);
			return USAGE;
		case '?':
			complain("%s: no option: --help shows them",
				 argv[optind - 1]);
			return USAGE;
		default:
			ret = take_option(t, o, optarg);
			if (ret)
				return ret;
		}
	}
	if (optind < argc) {
		complain("%s is too much: give options only", argv[optind]);
		return USAGE;
	}
	if (t->frames && !t->v.batch) {
		complain("--frames: give --batch, too");
		return USAGE;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *columns = getenv("COLUMNS");
	struct top t = { .width = 80, .colour = !getenv("NO_COLOR") };
	uint64_t n;
	int ret;

	view_init(&t.v);
	if (columns && parse_u64(columns, 78, 500, &n))
		t.width = n;
	ret = parse(&t, argc, argv);
	if (ret)
		return ret == 1 ? 0 : ret;
	ret = t.v.batch ? batch(&t) : interactive(&t);
	sample_free(&t.now);
	sample_free(&t.before);
	source_close(&t.src);
	return ret ? 1 : 0;
}
