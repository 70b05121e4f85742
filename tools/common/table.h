/* SPDX-License-Identifier: MIT */
/*
 * table.h - rows of text in aligned columns: names to the left, numbers to the
 * right.
 *
 *	struct table t = { 0 };
 *
 *	table_columns(&t, "NAME", ">PAGES", NULL);
 *	table_cell(&t, "%s", name);
 *	table_cell(&t, "%u", pages);
 *	table_print(&t, stdout);
 *	table_free(&t);
 */
#ifndef TABLE_H
#define TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TABLE_COLUMNS 16

/**
 * struct table - what is to be printed
 * @ncols: columns
 * @right: bit i: column i is aligned to the right
 * @text: all cells, the headings first, each with its NUL
 * @len: bytes of @text
 * @cap: room at @text
 * @ncells: cells
 * @width: [@ncols] characters of the widest cell
 */
struct table {
	unsigned int ncols;
	uint32_t right;
	char *text;
	size_t len;
	size_t cap;
	size_t ncells;
	unsigned int width[TABLE_COLUMNS];
};

/* Headings, at most TABLE_COLUMNS, then NULL; '>' before one: to the right. */
__attribute__((sentinel))
void table_columns(struct table *t, ...);
/* The next cell of the row, or the first of the next row; "" is shown as "-". */
__attribute__((format(printf, 2, 3)))
void table_cell(struct table *t, const char *fmt, ...);
/* The headings are bold on a terminal, unless $NO_COLOR is set. */
void table_print(const struct table *t, FILE *f);
void table_free(struct table *t);

#endif /* TABLE_H */
