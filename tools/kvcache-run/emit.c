// SPDX-License-Identifier: MIT
/*
 * emit.c - the text of conversations, as it comes.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "conv.h"
#include "emit.h"
#include "progress.h"

/* Among other conversations' lines, a long line is broken at a space. */
#define LINE_MAX_BYTES 76

/* Bytes at @s that make up a line, its end included; 0: not yet. */
static size_t line_len(const char *s, size_t len)
{
	const char *nl = memchr(s, '\n', len);
	const char *space;

	if (nl)
		return nl - s + 1;
	if (len <= LINE_MAX_BYTES)
		return 0;
	space = memrchr(s, ' ', LINE_MAX_BYTES);
	return space ? space - s + 1 : 0;
}

static void put_line(const struct conv *c, const char *s, size_t len)
{
	if (len && s[len - 1] == '\n')
		len--;
	printf("[%s] %.*s\n", c->name, (int)len, s);
}

static void put_lines(struct conv *c)
{
	const char *s = c->text.s + c->shown;
	size_t n;

	while ((n = line_len(s, c->text.s + c->text.done - s))) {
		put_line(c, s, n);
		s += n;
	}
	c->shown = s - c->text.s;
}

void emit_text(const struct emit *em, struct conv *c)
{
	size_t n = c->text.done - c->shown;

	if (em->quiet || !n)
		return;
	progress_clear();
	if (em->names) {
		put_lines(c);
	} else {
		fwrite(c->text.s + c->shown, 1, n, stdout);
		c->shown += n;
		progress_pause(isatty(STDOUT_FILENO));
	}
	fflush(stdout);
}

void emit_end(const struct emit *em, struct conv *c)
{
	text_end(&c->text);
	emit_text(em, c);
	if (em->quiet)
		return;
	if (!em->names)
		putchar('\n');
	else if (c->shown < c->text.done)
		put_line(c, c->text.s + c->shown, c->text.done - c->shown);
	c->shown = c->text.done;
	fflush(stdout);
	progress_pause(false);
}
