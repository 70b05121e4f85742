// SPDX-License-Identifier: MIT
/*
 * timing.c - --timing: the time of every generated token, as CSV (RFC 4180).
 */
#include <string.h>

#include "conv.h"
#include "timing.h"

void timing_begin(FILE *f)
{
	fputs("conversation,token,position,forwarded,rows,ms\n", f);
}

/* In quotes if a reader would take it for more than one field. */
static void put_name(FILE *f, const char *s)
{
	if (!strpbrk(s, ",\"")) {
		fputs(s, f);
		return;
	}
	putc('"', f);
	for (; *s; s++) {
		if (*s == '"')
			putc('"', f);
		putc(*s, f);
	}
	putc('"', f);
}

void timing_row(FILE *f, const struct conv *c, uint32_t pos,
		uint32_t forwarded, uint32_t rows, double secs)
{
	if (!f)
		return;
	put_name(f, c->name);
	fprintf(f, ",%u,%u,%u,%u,%.3f\n", conv_generated(c), pos, forwarded,
		rows, secs * 1e3);
}
