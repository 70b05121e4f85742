/* SPDX-License-Identifier: MIT */
/*
 * canvas.h - a screen's worth of characters, each with what it means: what draws
 * needs no terminal, and what has a terminal only copies.
 */
#ifndef TOP_CANVAS_H
#define TOP_CANVAS_H

#include <stdio.h>

/* What a character means, which a terminal shows by colours if it has some. */
enum ink {
	INK_PLAIN,
	INK_TITLE,
	INK_HEAD,	/* of a table */
	INK_SORT,	/* of the column that it is sorted by */
	INK_SELECTED,
	INK_WARN,
	INK_FREE,
	INK_PRIVATE,
	INK_SHARED,
	INK_CACHED,
	INK_RETIRING,
	INK_MARK,	/* a limit on a bar */
	INK_NR
};

/**
 * struct canvas - rows of characters, all of them ASCII
 * @rows: rows
 * @cols: characters in a row
 * @ch: [@rows * @cols] characters
 * @ink: [@rows * @cols] enum ink
 */
struct canvas {
	int rows;
	int cols;
	char *ch;
	unsigned char *ink;
};

/* Spaces of that size; whatever was there is gone. */
void canvas_clear(struct canvas *cv, int rows, int cols);
void canvas_free(struct canvas *cv);
/* Text from there on; what does not fit is cut off. Its length in columns. */
__attribute__((format(printf, 5, 6)))
int canvas_put(struct canvas *cv, int row, int col, enum ink ink,
	       const char *fmt, ...);
/* At most @width columns, at the left or right of them. */
void canvas_field(struct canvas *cv, int row, int col, int width, int right,
		  enum ink ink, const char *s);
/* All of a row gets that ink, and keeps its characters. */
void canvas_ink_row(struct canvas *cv, int row, enum ink ink);
/* As lines of text, without spaces at their ends. */
void canvas_print(const struct canvas *cv, FILE *f);

#endif /* TOP_CANVAS_H */
