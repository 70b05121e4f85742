// SPDX-License-Identifier: MIT
/*
 * map_draw.c - the picture of a pool, as text and as SVG.
 */
#include <inttypes.h>
#include <string.h>

#include "map.h"
#include "units.h"

#define TEXT_ROWS	32
#define LABEL		10	/* the number of a row's first page */
#define SVG_COLUMNS	128
#define SVG_CELLS	16384
#define SVG_CELL	8	/* its side */
#define SVG_LINE	20

uint64_t map_group(const struct map *m, uint64_t cells)
{
	uint64_t group = 1;

	while (map_cells(m, group) > cells)
		group *= 2;
	return group;
}

uint64_t map_cells(const struct map *m, uint64_t group)
{
	return (m->pool.nr_pages + group - 1) / group;
}

int map_cell(const struct map *m, uint64_t i, uint64_t group)
{
	uint64_t count[MAP_KINDS] = { 0 }, k;
	int best = 0;

	for (k = i * group; k < (i + 1) * group && k < m->pool.nr_pages; k++)
		count[m->of[k]]++;
	for (int kind = 1; kind < m->nkinds; kind++)
		if (count[kind] &&
		    (count[kind] > count[best] ||
		     (!best && count[kind] == count[best])))
			best = kind;
	return best;
}

/* ---- text ------------------------------------------------------------- */

static void put_cell(const struct map_kind *kind, bool colour, FILE *f)
{
	if (colour && kind->colour)
		fprintf(f, "\033[30;%dm%c\033[0m", kind->colour, kind->letter);
	else
		fputc(kind->letter, f);
}

static void title(const struct map *m, uint64_t group, FILE *f)
{
	char buf[32];

	fprintf(f, "pool %s by %s: %" PRIu64 " pages of %s, ", m->pool.name,
		m->by, (uint64_t)m->pool.nr_pages,
		human_size(m->pool.page_size, buf));
	if (group == 1)
		fprintf(f, "a cell is a page");
	else
		fprintf(f, "a cell is %" PRIu64 " pages, and what most of them are",
			group);
	if (m->seq != m->last)
		fprintf(f, "; it changed meanwhile");
}

void map_text(const struct map *m, unsigned int columns, bool colour, FILE *f)
{
	/* The numbers of pages are rounder so. */
	unsigned int width = columns > LABEL + 8 ? columns - LABEL : 8;
	uint64_t group, cells;
	char buf[32];

	width -= width % 8;
	group = map_group(m, (uint64_t)width * TEXT_ROWS);
	cells = map_cells(m, group);
	title(m, group, f);
	fputc('\n', f);
	for (uint64_t i = 0; i < cells; i++) {
		if (i % width == 0)
			fprintf(f, "%*" PRIu64 " ", LABEL - 1, i * group + 1);
		put_cell(&m->kind[map_cell(m, i, group)], colour, f);
		if (i % width == width - 1 || i + 1 == cells)
			fputc('\n', f);
	}
	for (int k = 0; k < m->nkinds; k++) {
		const struct map_kind *kind = &m->kind[k];

		fputs("  ", f);
		put_cell(kind, colour, f);
		fprintf(f, " %s: %" PRIu64 " page%s, %s\n", kind->name,
			kind->pages, kind->pages == 1 ? "" : "s",
			human_size(kind->pages * m->pool.page_size, buf));
	}
}

/* ---- SVG -------------------------------------------------------------- */

/* Names of tenants and pools have nothing that XML would take for its own. */
static void svg_run(const struct map *m, uint64_t from, uint64_t to,
		    uint64_t group, FILE *f)
{
	const struct map_kind *kind = &m->kind[map_cell(m, from, group)];
	uint64_t last = to * group;

	if (last > m->pool.nr_pages)
		last = m->pool.nr_pages;
	fprintf(f, "<rect x=\"%" PRIu64 "\" y=\"%" PRIu64 "\" width=\"%" PRIu64 "\" height=\"%d\" fill=\"#%06x\"><title>%s: pages %" PRIu64 " to %" PRIu64 "</title></rect>\n",
		from % SVG_COLUMNS * SVG_CELL,
		SVG_LINE + from / SVG_COLUMNS * SVG_CELL,
		(to - from) * SVG_CELL, SVG_CELL, kind->rgb, kind->name,
		from * group + 1, last);
}

void map_svg(const struct map *m, FILE *f)
{
	uint64_t group = map_group(m, SVG_CELLS), cells = map_cells(m, group);
	uint64_t rows = (cells + SVG_COLUMNS - 1) / SVG_COLUMNS, from = 0;
	uint64_t y = SVG_LINE + rows * SVG_CELL;
	char buf[32];

	fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%" PRIu64 "\" font-family=\"sans-serif\" font-size=\"12\">\n",
		SVG_COLUMNS * SVG_CELL, y + (m->nkinds + 1) * SVG_LINE);
	fprintf(f, "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n<text x=\"4\" y=\"14\">");
	title(m, group, f);
	fprintf(f, "</text>\n");
	for (uint64_t i = 1; i <= cells; i++) {
		if (i < cells && i % SVG_COLUMNS &&
		    map_cell(m, i, group) == map_cell(m, from, group))
			continue;
		svg_run(m, from, i, group, f);
		from = i;
	}
	for (int k = 0; k < m->nkinds; k++) {
		const struct map_kind *kind = &m->kind[k];

		y += SVG_LINE;
		fprintf(f, "<rect x=\"4\" y=\"%" PRIu64 "\" width=\"12\" height=\"12\" fill=\"#%06x\"/><text x=\"22\" y=\"%" PRIu64 "\">%s: %" PRIu64 " page%s, %s</text>\n",
			y - 10, kind->rgb, y, kind->name, kind->pages,
			kind->pages == 1 ? "" : "s",
			human_size(kind->pages * m->pool.page_size, buf));
	}
	fprintf(f, "</svg>\n");
}
