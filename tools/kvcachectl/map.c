// SPDX-License-Identifier: MIT
/*
 * map.c - a picture of a pool: which of its pages are whose, or in which state.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ctl.h"
#include "json_out.h"
#include "page_state.h"
#include "map.h"
#include "util.h"

#define TRIES 8		/* for a picture of one moment */

/* Colours that people who see few of them can tell apart, too. */
static const struct {
	int colour;
	uint32_t rgb;
} palette[] = {
	{ 43, 0xe69f00 }, { 46, 0x56b4e9 }, { 42, 0x009e73 },
	{ 45, 0xcc79a7 }, { 44, 0x0072b2 }, { 41, 0xd55e00 },
	{ 103, 0xf0e442 }, { 106, 0x88ccee }, { 102, 0x44aa99 },
	{ 105, 0xaa4499 }, { 104, 0x332288 }, { 101, 0x882255 },
};
#define COLOURS (sizeof(palette) / sizeof(palette[0]))
#define FREE_RGB	0xeeeeee
#define OTHERS_RGB	0x666666
#define OTHERS_COLOUR	47

static struct map_kind *add_kind(struct map *m, char letter, const char *name)
{
	struct map_kind *kind = &m->kind[m->nkinds];
	unsigned int i = (m->nkinds - 1) % COLOURS;

	*kind = (struct map_kind){ .letter = letter };
	snprintf(kind->name, sizeof(kind->name), "%s", name);
	if (m->nkinds) {
		kind->colour = palette[i].colour;
		kind->rgb = palette[i].rgb;
	} else {
		kind->rgb = FREE_RGB;
	}
	m->nkinds++;
	return kind;
}

static void by_state(struct map *m)
{
	for (int s = KVCACHE_PAGE_PRIVATE; s <= KVCACHE_PAGE_RETIRING; s++)
		add_kind(m, *state_name(s), state_name(s));
}

/**
 * struct share - what a tenant has
 * @tenant: its number
 * @pages: its pages
 * @kind: how they are shown
 */
struct share {
	uint32_t tenant;
	uint64_t pages;
	int kind;
};

static int by_number(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	return x->tenant < y->tenant ? -1 : x->tenant > y->tenant;
}

static int more_pages(const void *a, const void *b)
{
	const struct share *x = *(struct share *const *)a;
	const struct share *y = *(struct share *const *)b;

	if (x->pages != y->pages)
		return x->pages < y->pages ? 1 : -1;
	return by_number(x, y);
}

/* By number, each tenant once. */
static size_t shares(const struct records *l, struct share *s)
{
	const struct kvcache_page_info *v = l->v;
	size_t i, n = 0;

	for (i = 0; i < l->n; i++)
		s[i] = (struct share){ .tenant = v[i].tenant, .pages = 1 };
	qsort(s, l->n, sizeof(*s), by_number);
	for (i = 0; i < l->n; i++) {
		if (n && s[n - 1].tenant == s[i].tenant)
			s[n - 1].pages++;
		else
			s[n++] = s[i];
	}
	return n;
}

/* Letters go to those who have most. */
static void by_tenant(struct map *m, struct share *s, size_t n,
		      const struct names *names)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "abcdefghijklmnopqrstuvwxyz0123456789";
	struct share **order = xcalloc(n, sizeof(*order));
	char name[KVCACHE_NAME_LEN];
	struct map_kind *others;
	size_t i;

	for (i = 0; i < n; i++)
		order[i] = &s[i];
	qsort(order, n, sizeof(*order), more_pages);
	for (i = 0; i < n && i < sizeof(letters) - 1; i++) {
		names_of(names, order[i]->tenant, name);
		order[i]->kind = m->nkinds;
		add_kind(m, letters[i], *name ? name : "nobody's any more");
	}
	if (i < n) {
		others = add_kind(m, '*', "other tenants");
		others->colour = OTHERS_COLOUR;
		others->rgb = OTHERS_RGB;
	}
	for (; i < n; i++)
		order[i]->kind = m->nkinds - 1;
	free(order);
}

static int kind_of(const struct map *m, const struct kvcache_page_info *v,
		   const struct share *s, size_t n)
{
	const struct share key = { .tenant = v->tenant }, *of;

	if (!strcmp(m->by, "state"))
		return v->state;
	of = bsearch(&key, s, n, sizeof(*s), by_number);
	return of->kind;
}

/* Which kinds there are, and the kind of each page. */
static void fill(struct map *m, const struct records *l,
		 const struct names *names)
{
	const struct kvcache_page_info *v = l->v;
	struct share *s = xcalloc(l->n, sizeof(*s));
	size_t n = shares(l, s), i;
	uint64_t used = 0, at;
	int kind;

	m->of = xcalloc(m->pool.nr_pages, 1);
	m->nkinds = 0;
	add_kind(m, '.', "free");
	if (!strcmp(m->by, "state"))
		by_state(m);
	else
		by_tenant(m, s, n, names);
	for (i = 0; i < l->n; i++) {
		/* Page 0 is nobody's, and not among them. */
		at = (uint32_t)v[i].handle - 1;
		kind = kind_of(m, &v[i], s, n);
		if (at >= m->pool.nr_pages || kind >= m->nkinds || m->of[at])
			continue;
		m->of[at] = kind;
		m->kind[kind].pages++;
		used++;
	}
	m->kind[0].pages = m->pool.nr_pages - used;
	/* Who may not administer sees what is of one tenant. */
	if (m->kind[0].pages > m->pool.nr_free && m->seq == m->last)
		strcpy(m->kind[0].name, "free, or of other tenants");
	free(s);
}

/* Replies of one moment, if that can be had. */
static int look(struct ctl *c, struct map *m)
{
	const struct kvcache_pool_info *p;
	struct names names = { { 0 } };
	struct records l = { 0 };
	int ret, i;

	for (i = 0; i < TRIES; i++) {
		free(names.list.v);
		free(l.v);
		names.list.v = l.v = NULL;
		p = ctl_pool(c);
		ret = p ? 0 : -1;
		if (!ret) {
			m->pool = *p;
			m->seq = c->query.out_seq;
			ret = names_read(c, p->id, &names);
		}
		if (!ret)
			ret = list_pages(c, p->id, &l);
		m->last = l.last;
		if (ret || m->seq == m->last)
			break;
	}
	if (!ret)
		fill(m, &l, &names);
	free(names.list.v);
	free(l.v);
	return ret;
}

static int print_json(const struct map *m)
{
	json_t *legend = json_array(), *o;
	char *cells = xcalloc(m->pool.nr_pages + 1, 1);
	uint64_t i;

	for (i = 0; i < m->pool.nr_pages; i++)
		cells[i] = m->kind[m->of[i]].letter;
	for (int k = 0; k < m->nkinds; k++)
		json_array_append_new(legend, json_pack(
			"{s:s%, s:s, s:I}", "cell", &m->kind[k].letter,
			(size_t)1, "name", m->kind[k].name, "pages",
			(json_int_t)m->kind[k].pages));
	o = json_pack("{s:I, s:I, s:s, s:s, s:I, s:I, s:o, s:s}",
		      "seq", (json_int_t)m->seq,
		      "seq_last", (json_int_t)m->last,
		      "pool", m->pool.name, "by", m->by,
		      "page_bytes", (json_int_t)m->pool.page_size,
		      "pages", (json_int_t)m->pool.nr_pages,
		      "legend", legend, "cells", cells);
	free(cells);
	return json_print(o, stdout);
}

static int write_svg(const struct map *m, const char *path)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "w") : stdout;
	int bad = !f;

	if (f) {
		map_svg(m, f);
		bad = fflush(f) || ferror(f);
	}
	if (bad)
		complain("--svg \"%s\": %s: give a file that can be written",
			 path, strerror(errno));
	if (f && f != stdout && fclose(f) && !bad)
		bad = 1;
	return bad ? -1 : 0;
}

static unsigned int terminal_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize w;
	uint64_t n;

	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) && w.ws_col)
		return w.ws_col;
	if (columns && parse_u64(columns, 20, 1000, &n))
		return n;
	return 80;
}

int cmd_map(struct ctl *c)
{
	const char *by = c->value[OPT_BY], *svg = c->value[OPT_SVG];
	struct map m = { .by = by ? by : "tenant" };
	uint64_t width = terminal_width();
	int ret = 0;

	if (strcmp(m.by, "tenant") && strcmp(m.by, "state")) {
		complain("--by \"%s\": give tenant or state", by);
		return CTL_USAGE;
	}
	if (c->value[OPT_WIDTH] &&
	    !parse_u64(c->value[OPT_WIDTH], 20, 1000, &width)) {
		complain("--width \"%s\": give columns from 20 to 1000",
			 c->value[OPT_WIDTH]);
		return CTL_USAGE;
	}
	if (look(c, &m))
		return -1;
	if (svg)
		ret = write_svg(&m, svg);
	else if (c->value[OPT_JSON])
		ret = print_json(&m);
	else
		map_text(&m, width, isatty(STDOUT_FILENO) &&
			 !getenv("NO_COLOR"), stdout);
	free(m.of);
	return ret;
}
