// SPDX-License-Identifier: MIT
/*
 * canvas.c - characters in rows.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "canvas.h"
#include "util.h"

void canvas_clear(struct canvas *cv, int rows, int cols)
{
	size_t n = (size_t)rows * cols;

	cv->rows = rows;
	cv->cols = cols;
	cv->ch = xrealloc(cv->ch, n, 1);
	cv->ink = xrealloc(cv->ink, n, 1);
	memset(cv->ch, ' ', n);
	memset(cv->ink, INK_PLAIN, n);
}

void canvas_free(struct canvas *cv)
{
	free(cv->ch);
	free(cv->ink);
	*cv = (struct canvas){ 0 };
}

/* Names of processes may have anything in them. */
static char printable(char c)
{
	return c >= ' ' && c <= '~' ? c : '?';
}

static void put(struct canvas *cv, int row, int col, enum ink ink, char c)
{
	if (row < 0 || row >= cv->rows || col < 0 || col >= cv->cols)
		return;
	cv->ch[row * cv->cols + col] = printable(c);
	cv->ink[row * cv->cols + col] = ink;
}

int canvas_put(struct canvas *cv, int row, int col, enum ink ink,
	       const char *fmt, ...)
{
	char buf[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	for (n = 0; buf[n]; n++)
		put(cv, row, col + n, ink, buf[n]);
	return n;
}

void canvas_field(struct canvas *cv, int row, int col, int width, int right,
		  enum ink ink, const char *s)
{
	int len = strlen(s), pad, i;

	if (len > width)
		len = width;
	pad = right ? width - len : 0;
	for (i = 0; i < len; i++)
		put(cv, row, col + pad + i, ink, s[i]);
}

void canvas_ink_row(struct canvas *cv, int row, enum ink ink)
{
	if (row >= 0 && row < cv->rows)
		memset(cv->ink + row * cv->cols, ink, cv->cols);
}

void canvas_print(const struct canvas *cv, FILE *f)
{
	int row, n;

	for (row = 0; row < cv->rows; row++) {
		n = cv->cols;
		while (n && cv->ch[row * cv->cols + n - 1] == ' ')
			n--;
		fprintf(f, "%.*s\n", n, cv->ch + row * cv->cols);
	}
}
