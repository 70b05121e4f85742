/* SPDX-License-Identifier: MIT */
/*
 * jsonl.h - read a file of one JSON value a line.
 */
#ifndef JSONL_H
#define JSONL_H

#include <jansson.h>
#include <stdio.h>

#include "harness.h"

#define JSONL_BYTES (1 << 16)	/* of a line, at most */

/* The next line's value, or NULL at the end of the file. A line that is not
 * JSON ends the test. */
static inline json_t *jsonl_next(FILE *f)
{
	static char line[JSONL_BYTES];
	json_error_t e;
	json_t *j;

	if (!fgets(line, sizeof(line), f))
		return NULL;
	j = json_loads(line, JSON_ALLOW_NUL, &e);
	ASSERT_TRUE(j);
	return j;
}

#endif /* JSONL_H */
