// SPDX-License-Identifier: MIT
/*
 * plot.c - hit rates by size, and occupancy and shares over time, as SVG.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compare.h"

bool plot_possible(const char *folder)
{
	struct stat st;

	if (system("command -v gnuplot >/dev/null")) {
		fprintf(stderr, "kvcache-replay: %s: no plots: gnuplot is not installed\n",
			folder);
		return false;
	}
	if (mkdir(folder, 0777) && errno != EEXIST)
		replay_die("%s: %s: give a folder that can be made", folder,
			   strerror(errno));
	if (stat(folder, &st) || !S_ISDIR(st.st_mode))
		replay_die("%s: not a folder: give another", folder);
	return true;
}

struct plot {
	FILE *gnuplot;
	FILE *to;
	char path[4096];
};

/* gnuplot writes to the file as its standard output: any name will do. */
static void begin(struct plot *p, const char *folder, const char *name,
		  uint64_t pages)
{
	char cmd[64];

	if (pages)
		snprintf(p->path, sizeof(p->path), "%s/%s-%" PRIu64 ".svg",
			 folder, name, pages);
	else
		snprintf(p->path, sizeof(p->path), "%s/%s.svg", folder, name);
	p->to = fopen(p->path, "w");
	if (!p->to)
		replay_die("%s: %s: give a folder that can be written",
			   p->path, strerror(errno));
	snprintf(cmd, sizeof(cmd), "gnuplot 2>/dev/null >&%d", fileno(p->to));
	fflush(stdout);
	p->gnuplot = popen(cmd, "w");
	if (!p->gnuplot)
		replay_die("gnuplot: %s", strerror(errno));
	fprintf(p->gnuplot, "set terminal svg size 720,480 background 'white'\n"
		"set grid\nset key above\n");
}

static void finish(struct plot *p)
{
	struct stat st;

	if (pclose(p->gnuplot) || fstat(fileno(p->to), &st) ||
	    (S_ISREG(st.st_mode) && !st.st_size) || fclose(p->to))
		replay_die("%s: gnuplot could not write it: make room, or give another folder",
			   p->path);
}

/* "plot $d using X:Y with lines title ..." of several columns. */
static void columns(FILE *f, const char *with, uint32_t n,
		    const char *const *title)
{
	uint32_t k;

	fprintf(f, "plot ");
	for (k = 0; k < n; k++)
		fprintf(f, "%s$d using 1:%u with %s title '%s'",
			k ? ", " : "", k + 2, with, title[k]);
	fprintf(f, "\n");
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * part / whole : 0;
}

static void plot_hits(const char *folder, const struct trace *t,
		      const struct options *opt, const struct comparison *c,
		      uint32_t nr)
{
	static const char *const title[] = {
		"shared pool", "partitions", "processes", "LRU", "Belady",
	};
	struct plot p;
	uint32_t k, w;

	begin(&p, folder, "hits", 0);
	fprintf(p.gnuplot, "set logscale x\nset xlabel 'pages in the pool'\n"
		"set ylabel 'blocks found, %%'\nset yrange [0:]\n"
		"set xtics (");
	for (k = 0; k < nr; k++)
		fprintf(p.gnuplot, "%s%" PRIu64, k ? ", " : "", c[k].pages);
	fprintf(p.gnuplot, ")\n$d << E\n");
	for (k = 0; k < nr; k++) {
		fprintf(p.gnuplot, "%" PRIu64, c[k].pages);
		for (w = 0; w < (opt->compare ? NR_WAYS : 1); w++)
			fprintf(p.gnuplot, " %g",
				percent(c[k].way[w].all.hits, t->ask));
		if (opt->compare)
			fprintf(p.gnuplot, " %g %g",
				percent(c[k].lru.hits, t->ask),
				percent(c[k].belady.hits, t->ask));
		fprintf(p.gnuplot, "\n");
	}
	fprintf(p.gnuplot, "E\n");
	columns(p.gnuplot, "linespoints", opt->compare ? 5 : 1, title);
	finish(&p);
}

static void plot_occupancy(const char *folder, const struct comparison *c)
{
	const struct outcome *o = &c->way[WAY_SHARED];
	struct plot p;
	uint32_t k;

	begin(&p, folder, "occupancy", c->pages);
	fprintf(p.gnuplot, "set xlabel 'seconds'\nset ylabel 'pages'\n"
		"set y2label 'requests that wait'\nset y2tics\n"
		"set ytics nomirror\nset autoscale xfix\nset yrange [0:]\nset y2range [0:10<*]\n"
		"set style fill solid 0.5 noborder\n$d << E\n");
	for (k = 0; k < o->samples; k++)
		fprintf(p.gnuplot, "%.1f %u %u %u\n", o->sample[k].t * 1e-9,
			o->sample[k].in_use + o->sample[k].cached,
			o->sample[k].in_use, o->sample[k].waiting);
	fprintf(p.gnuplot, "E\nplot $d using 1:2 with filledcurves x1 title 'cached', "
		"$d using 1:3 with filledcurves x1 title 'in use', "
		"$d using 1:4 axes x1y2 with lines lc 'black' title 'waiting (right)'\n");
	finish(&p);
}

static void plot_shares(const char *folder, const struct trace *t,
			const struct options *opt, const struct comparison *c)
{
	const struct outcome *o = &c->way[WAY_SHARED];
	char name[REPLAY_MAX_TENANTS + 1][16];
	const char *title[REPLAY_MAX_TENANTS + 1];
	struct plot p;
	uint32_t n = t->tenants + opt->commons, k, i;

	begin(&p, folder, "shares", c->pages);
	fprintf(p.gnuplot, "set xlabel 'seconds'\n"
		"set ylabel 'pages charged to the tenant'\n"
		"set autoscale xfix\nset yrange [0:]\n"
		"$d << E\n");
	for (k = 0; k < o->samples; k++) {
		fprintf(p.gnuplot, "%.1f", o->sample[k].t * 1e-9);
		for (i = 0; i < n; i++)
			fprintf(p.gnuplot, " %u", o->sample[k].cur[i]);
		fprintf(p.gnuplot, "\n");
	}
	fprintf(p.gnuplot, "E\n");
	for (i = 0; i < n; i++) {
		if (i < t->tenants)
			snprintf(name[i], sizeof(name[i]), "tenant %u", i);
		else
			strcpy(name[i], "commons");
		title[i] = name[i];
	}
	columns(p.gnuplot, "lines", n, title);
	finish(&p);
}

void plot_all(const char *folder, const struct trace *t,
	      const struct options *opt, const struct comparison *c,
	      uint32_t nr)
{
	uint32_t k;

	if (t->ask)
		plot_hits(folder, t, opt, c, nr);
	for (k = 0; k < nr; k++) {
		plot_occupancy(folder, &c[k]);
		plot_shares(folder, t, opt, &c[k]);
	}
}
