// SPDX-License-Identifier: MIT
/*
 * table.c - rows of text in aligned columns.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "table.h"
#include "util.h"

/* Characters that put_shown() makes of it. */
static unsigned int shown_width(const char *s)
{
	size_t len = strlen(s);
	unsigned int width = 0;
	int n;

	for (; len; s += n, len -= n, width++) {
		n = shown_char(s, len);
		if (n < 1)
			n = 1;
	}
	return width;
}

static void add(struct table *t, const char *s)
{
	unsigned int *width = &t->width[t->ncells++ % t->ncols];
	unsigned int w = shown_width(s);
	size_t len = strlen(s) + 1;

	if (t->len + len > t->cap) {
		t->cap = 2 * (t->len + len) + 1024;
		t->text = xrealloc(t->text, t->cap, 1);
	}
	memcpy(t->text + t->len, s, len);
	t->len += len;
	if (w > *width)
		*width = w;
}

void table_columns(struct table *t, ...)
{
	const char *heading[TABLE_COLUMNS], *s;
	unsigned int i;
	va_list ap;

	va_start(ap, t);
	while ((s = va_arg(ap, const char *)) && t->ncols < TABLE_COLUMNS) {
		if (*s == '>')
			t->right |= 1U << t->ncols;
		heading[t->ncols++] = s + (*s == '>');
	}
	va_end(ap);
	for (i = 0; i < t->ncols; i++)
		add(t, heading[i]);
}

void table_cell(struct table *t, const char *fmt, ...)
{
	char buf[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	add(t, *buf ? buf : "-");
}

void table_print(const struct table *t, FILE *f)
{
	bool bold = isatty(fileno(f)) && !getenv("NO_COLOR");
	const char *s = t->text;
	unsigned int pad, col;
	size_t i;

	for (i = 0; i < t->ncells; i++, s += strlen(s) + 1) {
		col = i % t->ncols;
		pad = t->width[col] - shown_width(s);
		if (!i && bold)
			fputs("\033[1m", f);
		if (t->right >> col & 1)
			fprintf(f, "%*s", pad, "");
		put_shown(s, f);
		if (!(t->right >> col & 1) && col + 1 < t->ncols)
			fprintf(f, "%*s", pad, "");
		if (i + 1 == t->ncols && bold)
			fputs("\033[0m", f);
		fputs(col + 1 < t->ncols ? "  " : "\n", f);
	}
}

void table_free(struct table *t)
{
	free(t->text);
}
